//! A partition held here: its log and its leadership under one lock, and the requests parked on it.

use bytes::Bytes;
use ottla_files::Disk;
use ottla_log::{
    AbortedTransaction, AppendError, DoomedFiles, EpochEnd, FoundTimestamp, Log, LogConfig, ProducerEntry,
    ReadError, Region, Retention, StorageError,
};
use ottla_model::{
    BrokerId, LeaderEpoch, Offset, PartitionEpoch, ProducerId, Timestamp, TopicPartition, Uuid,
};
use ottla_protocol::ErrorCode;
use ottla_protocol::records::Batches;
use ottla_protocol::records::validate::{
    AppendOrigin, DECOMPRESSED_BYTES_MAX, InvalidRecords, TopicRules, check_produce_version, validate,
};
use ottla_replica::{
    AppendRefusal, Follower, IsrProposal, LeaderAndIsr, LeaderRefusal, OrderOutcome, OrderRefusal, Partition,
    Rules,
};
use parking_lot::{MappedMutexGuard, Mutex, MutexGuard, RwLock};

use crate::purgatory::{Moves, Purgatory};

/// How many replicas a producer waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequiredAcks {
    None,
    Leader,
    All,
}

impl RequiredAcks {
    pub fn from_wire(acks: i16) -> Option<RequiredAcks> {
        match acks {
            0 => Some(RequiredAcks::None),
            1 => Some(RequiredAcks::Leader),
            -1 => Some(RequiredAcks::All),
            _ => None,
        }
    }
}

/// Records that are in the log now.
#[derive(Debug, Clone, Copy)]
pub struct Appended {
    pub base_offset: Offset,
    /// Committed once the high watermark reaches it.
    pub end_offset: Offset,
    /// Where the topic stamps records with the broker's clock.
    pub log_append_time: Option<Timestamp>,
    pub log_start: Offset,
}

/// Why there is no log to ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unavailable {
    #[error("this broker no longer holds the partition")]
    Gone,
    #[error("the log of this partition is offline after a disk failure")]
    Offline,
}

impl Unavailable {
    pub fn code(self) -> ErrorCode {
        match self {
            Unavailable::Gone => ErrorCode::NotLeaderOrFollower,
            Unavailable::Offline => ErrorCode::KafkaStorageError,
        }
    }
}

/// Why records were not appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendFailure {
    #[error(transparent)]
    Refused(#[from] AppendRefusal),
    #[error(transparent)]
    Invalid(#[from] InvalidRecords),
    /// Transactions have no coordinator yet, so none can be open.
    #[error("no transaction is open for this producer")]
    Transactional,
    #[error(transparent)]
    Log(#[from] AppendError),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl AppendFailure {
    pub fn code(&self) -> ErrorCode {
        match self {
            AppendFailure::Refused(refusal) => refusal.code(),
            AppendFailure::Invalid(invalid) => invalid.code(),
            AppendFailure::Transactional => ErrorCode::InvalidTxnState,
            AppendFailure::Log(error) => error.code(),
            AppendFailure::Unavailable(unavailable) => unavailable.code(),
        }
    }
}

/// Who reads, which decides how far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reader {
    /// Up to the high watermark.
    ReadUncommitted,
    /// Up to the last stable offset.
    ReadCommitted,
    /// Up to the end of the log; its offset acknowledges what lies below.
    Follower(BrokerId),
    /// A tool that may read from any replica, to the end of the log.
    Debugger,
}

#[derive(Debug, Clone, Copy)]
pub struct ReadRequest {
    pub reader: Reader,
    pub offset: Offset,
    pub bytes_max: u64,
    /// The first batch is read whole, however large it is.
    pub at_least_one: bool,
    /// The epoch that the reader believes in.
    pub leader_epoch: Option<LeaderEpoch>,
    /// The epoch of the last record that the reader has (KIP-595).
    pub last_fetched_epoch: Option<LeaderEpoch>,
    pub log_start_offset: Offset,
    pub now: Timestamp,
}

/// Where a log stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Watermarks {
    pub log_start: Offset,
    pub log_end: Offset,
    pub high_watermark: Offset,
    pub last_stable: Offset,
}

/// What a read found.
#[derive(Debug)]
pub struct ReadOutcome {
    pub watermarks: Watermarks,
    pub records: Found,
    /// A follower is in step again and should be taken back into the in-sync set.
    pub proposal: Option<IsrProposal>,
}

#[derive(Debug)]
pub enum Found {
    Records {
        region: Option<Region<Disk>>,
        aborted: Option<Vec<AbortedTransaction>>,
    },
    /// The reader's log and this one part after this epoch and offset.
    Diverging(EpochEnd),
}

/// Why nothing could be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadFailure {
    #[error(transparent)]
    Leader(#[from] LeaderRefusal),
    #[error(transparent)]
    Log(#[from] ReadError),
    #[error("the reader's last epoch is unknown here")]
    UnknownEpoch,
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl ReadFailure {
    pub fn code(&self) -> ErrorCode {
        match self {
            ReadFailure::Leader(refusal) => refusal.code(),
            ReadFailure::Log(error) => error.code(),
            ReadFailure::UnknownEpoch => ErrorCode::OffsetOutOfRange,
            ReadFailure::Unavailable(unavailable) => unavailable.code(),
        }
    }
}

/// The part of a topic's configuration that requests go by.
#[derive(Debug, Clone, Copy)]
pub struct PartitionRules {
    pub records: TopicRules,
    /// `message.downconversion.enable`.
    pub allows_down_conversion: bool,
    pub retention: Retention,
}

/// One replica of one partition on this broker.
#[derive(Debug)]
pub struct HostedPartition {
    name: TopicPartition,
    topic_id: Uuid,
    /// Index of the log dir that it lies in.
    log_dir: usize,
    /// `None` once the replica was stopped.
    state: Mutex<Option<State>>,
    rules: RwLock<PartitionRules>,
    purgatory: Purgatory,
    /// Flushes of one log run one after the other; whoever holds this runs one.
    flushing: Mutex<()>,
}

#[derive(Debug)]
struct State {
    replica: Partition,
    log: Log<Disk>,
    /// A disk error was seen: nothing more is read or written until the broker restarts.
    offline: bool,
}

impl State {
    fn watermarks(&self) -> Watermarks {
        let high_watermark = self.replica.high_watermark();
        Watermarks {
            log_start: self.log.log_start_offset(),
            log_end: self.log.log_end_offset(),
            high_watermark,
            last_stable: self.log.last_stable_offset(high_watermark),
        }
    }
}

impl HostedPartition {
    pub fn new(
        name: TopicPartition,
        topic_id: Uuid,
        log_dir: usize,
        replica: Partition,
        log: Log<Disk>,
        rules: PartitionRules,
    ) -> HostedPartition {
        HostedPartition {
            name,
            topic_id,
            log_dir,
            state: Mutex::new(Some(State { replica, log, offline: false })),
            rules: RwLock::new(rules),
            purgatory: Purgatory::default(),
            flushing: Mutex::new(()),
        }
    }

    pub fn name(&self) -> &TopicPartition {
        &self.name
    }

    /// All zeros where the topic has none.
    pub fn topic_id(&self) -> Uuid {
        self.topic_id
    }

    pub fn log_dir(&self) -> usize {
        self.log_dir
    }

    pub fn purgatory(&self) -> &Purgatory {
        &self.purgatory
    }

    fn state(&self) -> Result<MappedMutexGuard<'_, State>, Unavailable> {
        let state = MutexGuard::try_map(self.state.lock(), Option::as_mut).map_err(|_| Unavailable::Gone)?;
        if state.offline { Err(Unavailable::Offline) } else { Ok(state) }
    }

    /// A disk that failed once is not asked again until the broker restarts.
    fn take_offline(&self) {
        if let Some(state) = self.state.lock().as_mut() {
            state.offline = true;
        }
        self.purgatory.release_all();
    }

    /// Gives up the log, to be closed or deleted. Whoever asks from now on hears that the partition is gone.
    pub fn stop(&self) -> Option<Log<Disk>> {
        let state = self.state.lock().take();
        self.purgatory.release_all();
        state.map(|state| state.log)
    }

    /// Takes a new topic configuration into account, from the next request on.
    pub fn reconfigure(&self, rules: PartitionRules, replica: Rules, log: LogConfig) {
        *self.rules.write() = rules;
        if let Ok(mut state) = self.state() {
            state.replica.set_rules(replica);
            state.log.set_config(log);
        }
    }

    /// Checks a producer's records against the topic's rules and appends them.
    ///
    /// The checks walk the records and need no lock; only giving offsets and writing does. Parked fetches are woken
    /// before the producer hears of it.
    pub fn append_as_leader(
        &self,
        records: &Bytes,
        produce_version: i16,
        acks: RequiredAcks,
        now: Timestamp,
    ) -> Result<Appended, AppendFailure> {
        self.state()?.replica.check_append(acks == RequiredAcks::All)?;
        check_produce_version(records, produce_version)?;
        if is_transactional(records) {
            return Err(AppendFailure::Transactional);
        }
        self.append(records, AppendOrigin::Client, acks, now)
    }

    /// Appends the records of a coordinator that keeps its state in this partition. With acks=all they count once
    /// [`HostedPartition::committed`] says so.
    pub fn append_as_coordinator(
        &self,
        records: &Bytes,
        acks: RequiredAcks,
        now: Timestamp,
    ) -> Result<Appended, AppendFailure> {
        self.state()?.replica.check_append(acks == RequiredAcks::All)?;
        self.append(records, AppendOrigin::Coordinator, acks, now)
    }

    fn append(
        &self,
        records: &Bytes,
        origin: AppendOrigin,
        acks: RequiredAcks,
        now: Timestamp,
    ) -> Result<Appended, AppendFailure> {
        let rules = self.rules.read().records;
        let Some(validated) = validate(records, origin, &rules, now)? else {
            return Ok(self.nothing_appended()?);
        };
        let bytes = validated.length() as i64;
        let log_append_time = validated.append_time();

        let mut state = self.state()?;
        // Leadership may have gone while the records were being checked.
        state.replica.check_append(acks == RequiredAcks::All)?;
        let epoch = state.replica.leader_epoch();
        let appended = match state.log.append_as_leader(validated, epoch, origin, now) {
            Ok(appended) => appended,
            Err(error) => {
                // What is on disk and what is in memory may differ now; a restart makes them agree.
                state.offline |= matches!(&error, AppendError::Storage(_));
                return Err(error.into());
            }
        };
        let log_end = state.log.log_end_offset();
        let committed = state.replica.appended(log_end, now);
        if committed {
            let high_watermark = state.replica.high_watermark();
            state.log.high_watermark_advanced(high_watermark);
        }
        let log_start = state.log.log_start_offset();
        drop(state);

        if !appended.duplicate {
            self.purgatory.moved(Moves::LogEnd, bytes);
        }
        if committed {
            self.purgatory.moved(Moves::HighWatermark, bytes);
        }
        if appended.flush_due {
            self.flush(now)?;
        }
        Ok(Appended {
            base_offset: appended.first_offset,
            end_offset: appended.last_offset.plus(1),
            log_append_time,
            log_start,
        })
    }

    /// Old producers may send an empty set; it is answered as if it had been appended at the end.
    fn nothing_appended(&self) -> Result<Appended, Unavailable> {
        let watermarks = self.watermarks()?;
        Ok(Appended {
            base_offset: Offset(-1),
            end_offset: watermarks.high_watermark,
            log_append_time: None,
            log_start: watermarks.log_start,
        })
    }

    /// Makes everything appended so far survive a crash of the machine. Waiting producers share a flush: whoever
    /// comes while one runs finds its records flushed by the next, and most often by somebody else's.
    pub fn flush(&self, now: Timestamp) -> Result<(), FlushFailure> {
        let wanted = self.state()?.log.log_end_offset();
        let _turn = self.flushing.lock();
        let flush = {
            let state = self.state()?;
            if state.log.recovery_point() >= wanted {
                return Ok(());
            }
            state.log.begin_flush()
        };
        let flushed = flush.run().inspect_err(|error| {
            tracing::error!(partition = %self.name, %error, "cannot flush");
            self.take_offline();
        })?;
        self.state()?.log.finish_flush(flushed, now);
        Ok(())
    }

    /// Flushes if `flush.ms` asks for it.
    pub fn flush_if_due(&self, now: Timestamp) -> Result<(), FlushFailure> {
        let due = self.state().is_ok_and(|state| state.log.flush_due(now));
        if due { self.flush(now) } else { Ok(()) }
    }

    /// Whether records up to `end_offset` are committed: `None` while they may yet be.
    pub fn committed(&self, end_offset: Offset) -> Option<Result<(), ErrorCode>> {
        let state = match self.state() {
            Ok(state) => state,
            Err(unavailable) => return Some(Err(unavailable.code())),
        };
        if let Err(refusal) = state.replica.check_leader(None) {
            return Some(Err(refusal.code()));
        }
        if !state.replica.is_committed(end_offset) {
            return None;
        }
        let enough = state.replica.has_enough_replicas();
        Some(if enough { Ok(()) } else { Err(ErrorCode::NotEnoughReplicasAfterAppend) })
    }

    /// Deletes the segments that retention lets go. Their files are renamed, and stay readable for reads under way; the caller
    /// removes them after `file.delete.delay.ms`.
    pub fn delete_old_segments(&self, now: Timestamp) -> Result<DoomedFiles, FlushFailure> {
        let retention = self.rules.read().retention;
        let mut state = self.state()?;
        let high_watermark = state.replica.high_watermark();
        let count = state.log.deletable_segments(retention, high_watermark, now)?;
        if count == 0 {
            return Ok(DoomedFiles::default());
        }
        let doomed = state.log.delete_oldest_segments(count, now);
        if doomed.is_err() {
            state.offline = true;
        }
        let log_start = state.log.log_start_offset();
        tracing::info!(partition = %self.name, segments = count, %log_start, "old segments deleted");
        Ok(doomed?)
    }

    /// Finds the records that a fetch asks for, without reading them.
    pub fn read(&self, request: &ReadRequest) -> Result<ReadOutcome, ReadFailure> {
        let mut state = self.state()?;
        match request.reader {
            Reader::Debugger => state.replica.check_epoch(request.leader_epoch)?,
            _ => state.replica.check_leader(request.leader_epoch)?,
        }
        let watermarks = state.watermarks();
        if let Some(epoch) = request.last_fetched_epoch
            && let Some(end) = diverges(&state.log, epoch, request.offset)?
        {
            return Ok(ReadOutcome { watermarks, records: Found::Diverging(end), proposal: None });
        }
        let plan = state.log.plan_read(request.offset, watermarks.readable_by(request.reader))?;
        let (mut watermarks, mut proposal) = (watermarks, None);
        if let Reader::Follower(follower) = request.reader {
            let leader = state.replica.leader();
            let start_before = state.replica.follower(follower).map(Follower::log_start);
            let progress = state.replica.follower_fetched(
                follower,
                request.offset,
                request.log_start_offset,
                request.now,
            );
            // Whoever is no replica but knows our epoch is ahead of us; without an epoch there is only one thing to say.
            let progress = progress.map_err(|refusal| match request.leader_epoch {
                Some(_) => refusal,
                None => LeaderRefusal::NotLeader { leader },
            })?;
            proposal = progress.proposal;
            if progress.high_watermark_moved {
                let moved = state.replica.high_watermark();
                state.log.high_watermark_advanced(moved);
                watermarks = state.watermarks();
            }
            drop(state);
            if start_before != Some(request.log_start_offset) {
                self.purgatory.moved(Moves::LowWatermark, 1);
            }
            if progress.high_watermark_moved {
                // How many bytes became readable is not worth finding out: whoever waits looks again.
                self.purgatory.moved(Moves::HighWatermark, i64::MAX);
            }
        } else {
            drop(state);
        }
        let read = plan.run(request.bytes_max, request.at_least_one).map_err(|error| self.failed(error))?;
        let aborted = match request.reader {
            Reader::ReadCommitted => {
                Some(plan.aborted_transactions(&read).map_err(|error| self.failed(error))?)
            }
            _ => None,
        };
        let records = Found::Records { region: read.region, aborted };
        Ok(ReadOutcome { watermarks, records, proposal })
    }

    /// A disk that fails once is not asked again; damage in one place leaves the rest readable.
    fn failed(&self, error: StorageError) -> ReadFailure {
        tracing::error!(partition = %self.name, %error, "cannot read");
        if !error.is_damage() {
            self.take_offline();
        }
        ReadFailure::Log(ReadError::Storage(error))
    }

    /// Follows the controller's order; whoever is parked here looks again.
    pub fn follow(&self, order: &LeaderAndIsr, now: Timestamp) -> Result<OrderOutcome, FollowFailure> {
        let mut state = self.state()?;
        let log_end = state.log.log_end_offset();
        let outcome = state.replica.follow(order, log_end, now)?;
        if outcome == OrderOutcome::Leader {
            state.log.begin_leader_epoch(order.leader_epoch);
            let high_watermark = state.replica.high_watermark();
            state.log.high_watermark_advanced(high_watermark);
        }
        drop(state);
        self.purgatory.release_all();
        Ok(outcome)
    }

    /// The in-sync set without the laggards, if there are such and no change is under way.
    pub fn shrink_isr(&self, now: Timestamp) -> Option<IsrProposal> {
        self.state().ok()?.replica.shrink_isr(now)
    }

    /// The controller has confirmed a set of in-sync replicas.
    pub fn isr_committed(&self, isr: Vec<BrokerId>, epoch: PartitionEpoch, now: Timestamp) {
        let Ok(mut state) = self.state() else { return };
        if state.replica.isr_committed(isr, epoch, now) {
            let high_watermark = state.replica.high_watermark();
            state.log.high_watermark_advanced(high_watermark);
            drop(state);
            self.purgatory.moved(Moves::HighWatermark, i64::MAX);
        }
    }

    /// The controller has refused a change for a reason that leaves the confirmed set as it is.
    pub fn isr_refused(&self) {
        if let Ok(mut state) = self.state() {
            state.replica.isr_refused();
        }
    }

    /// Where a leader epoch ended, for those who must find out where their log and this one part (KIP-101); `None` where
    /// the log cannot tell. `current` is the epoch that the asker believes in.
    pub fn epoch_end(
        &self,
        current: Option<LeaderEpoch>,
        epoch: LeaderEpoch,
    ) -> Result<Option<EpochEnd>, ReadFailure> {
        let state = self.state()?;
        state.replica.check_leader(current)?;
        Ok(state.log.epoch_end_offset(epoch))
    }

    /// Moves the log start up to `target`, or to the high watermark; what lies below can be read no more. Answers the
    /// target as an offset.
    pub fn delete_records(&self, target: DeletionTarget) -> Result<Offset, DeleteRecordsFailure> {
        let mut state = self.state()?;
        state.replica.check_leader(None)?;
        let high_watermark = state.replica.high_watermark();
        let target = match target {
            DeletionTarget::HighWatermark => high_watermark,
            DeletionTarget::Before(offset) if offset < Offset::ZERO || offset > high_watermark => {
                return Err(DeleteRecordsFailure::OutOfRange { offset, high_watermark });
            }
            DeletionTarget::Before(offset) => offset,
        };
        state.log.increment_log_start_offset(target);
        Ok(target)
    }

    /// The lowest log start among the replicas that live: what every one of them has given up.
    pub fn low_watermark(&self, lives: impl Fn(BrokerId) -> bool) -> Result<Offset, DeleteRecordsFailure> {
        let state = self.state()?;
        state.replica.check_leader(None)?;
        let followers = state.replica.replicas().iter().filter(|replica| lives(**replica));
        let starts = followers.filter_map(|replica| Some(state.replica.follower(*replica)?.log_start()));
        Ok(starts.fold(state.log.log_start_offset(), Offset::min))
    }

    /// Bytes on disk, and how far the log is behind what is committed, in records.
    pub fn size_and_lag(&self) -> Result<(u64, i64), Unavailable> {
        let state = self.state()?;
        let behind = state.replica.high_watermark().0 - state.log.log_end_offset().0;
        Ok((state.log.bytes(), behind.max(0)))
    }

    /// The producers that the log remembers.
    pub fn producers(&self) -> Result<Vec<(ProducerId, ProducerEntry)>, Unavailable> {
        let state = self.state()?;
        Ok(state.log.producers().iter().map(|(id, entry)| (id, *entry)).collect())
    }

    pub fn watermarks(&self) -> Result<Watermarks, Unavailable> {
        Ok(self.state()?.watermarks())
    }

    /// For the recovery point checkpoint.
    pub fn recovery_point(&self) -> Result<Offset, Unavailable> {
        Ok(self.state()?.log.recovery_point())
    }

    /// Leader and epoch, for those who ask the wrong replica.
    pub fn current_leader(&self) -> Option<(BrokerId, LeaderEpoch)> {
        let state = self.state().ok()?;
        Some((state.replica.leader(), state.replica.leader_epoch()))
    }

    /// `false` where `message.downconversion.enable` forbids to convert for old fetchers.
    pub fn allows_down_conversion(&self) -> bool {
        self.rules.read().allows_down_conversion
    }
}

/// How far DeleteRecords goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeletionTarget {
    HighWatermark,
    /// This offset is the first that stays.
    Before(Offset),
}

/// Why records were not deleted.
#[derive(Debug, thiserror::Error)]
pub enum DeleteRecordsFailure {
    #[error(transparent)]
    Leader(#[from] LeaderRefusal),
    #[error("offset {offset} is not between 0 and the high watermark {high_watermark}")]
    OutOfRange { offset: Offset, high_watermark: Offset },
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl DeleteRecordsFailure {
    pub fn code(&self) -> ErrorCode {
        match self {
            DeleteRecordsFailure::Leader(refusal) => refusal.code(),
            DeleteRecordsFailure::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            DeleteRecordsFailure::Unavailable(unavailable) => unavailable.code(),
        }
    }
}

/// Where a follower goes on fetching.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FollowerPosition {
    pub leader_epoch: LeaderEpoch,
    /// The end of the log here.
    pub offset: Offset,
    /// Epoch of the last record, by which the leader finds out where the logs part (KIP-595).
    pub last_epoch: Option<LeaderEpoch>,
    pub log_start: Offset,
}

/// What a leader sent a follower.
#[derive(Debug, Clone, Copy)]
pub struct FromLeader<'a> {
    /// The position that was asked for; what has moved on meanwhile takes nothing in.
    pub position: FollowerPosition,
    pub records: &'a [u8],
    pub high_watermark: Offset,
    pub log_start: Offset,
}

/// Following a leader on another broker.
impl HostedPartition {
    /// `None` while this replica leads, or has no leader. With it, whether records went:
    /// the recovery points must then be written before the next append.
    pub fn follower_position(
        &self,
        now: Timestamp,
    ) -> Result<Option<(FollowerPosition, bool)>, FollowerFailure> {
        let mut state = self.state()?;
        if state.replica.is_leader() || state.replica.leader() == BrokerId::NONE {
            return Ok(None);
        }
        let last_epoch = state.log.leader_epochs().latest().map(|latest| latest.epoch);
        // Of records from before epochs were kept, only the committed ones are known to be the leader's too.
        let cut = last_epoch.is_none() && state.log.log_end_offset() > state.replica.high_watermark();
        if cut {
            let high_watermark = state.replica.high_watermark();
            state.log.truncate_to(high_watermark, now)?;
        }
        let position = FollowerPosition {
            leader_epoch: state.replica.leader_epoch(),
            offset: state.log.log_end_offset(),
            last_epoch,
            log_start: state.log.log_start_offset(),
        };
        Ok(Some((position, cut)))
    }

    /// Appends what the leader sent, and moves the watermark after the leader's.
    pub fn append_as_follower(&self, sent: &FromLeader<'_>, now: Timestamp) -> Result<(), FollowerFailure> {
        let mut state = self.state()?;
        let current = state.log.log_end_offset();
        if state.replica.leader_epoch() != sent.position.leader_epoch || current != sent.position.offset {
            return Ok(());
        }
        if let Err(error) = state.log.append_as_follower(sent.records, now) {
            state.offline |= matches!(&error, AppendError::Storage(_));
            return Err(error.into());
        }
        let (log_start, log_end) = (state.log.log_start_offset(), state.log.log_end_offset());
        let before = state.replica.high_watermark();
        state.replica.follower_high_watermark(sent.high_watermark, log_start, log_end);
        let high_watermark = state.replica.high_watermark();
        state.log.high_watermark_advanced(high_watermark);
        if sent.log_start > log_start {
            state.log.increment_log_start_offset(sent.log_start);
        }
        drop(state);
        if high_watermark > before {
            self.purgatory.moved(Moves::HighWatermark, i64::MAX);
        }
        Ok(())
    }

    /// Cuts off what the leader does not have: its log and this one part after `end`.
    ///
    /// `true` if records went; the recovery points must be written before the next append.
    pub fn truncate_as_follower(
        &self,
        position: &FollowerPosition,
        end: EpochEnd,
        now: Timestamp,
    ) -> Result<bool, FollowerFailure> {
        let ours = self.state()?.log.epoch_end_offset(end.epoch);
        let target = ours.map_or(end.end_offset, |ours| ours.end_offset.min(end.end_offset));
        self.cut(position, |log| log.truncate_to(target, now).map(drop))
    }

    /// The leader's log ends before ours does, which only an unclean election leads to.
    pub fn truncate_to(
        &self,
        position: &FollowerPosition,
        offset: Offset,
        now: Timestamp,
    ) -> Result<bool, FollowerFailure> {
        self.cut(position, |log| log.truncate_to(offset, now).map(drop))
    }

    /// The leader has none of what we have any more: begin where it begins.
    pub fn start_over_at(
        &self,
        position: &FollowerPosition,
        offset: Offset,
        now: Timestamp,
    ) -> Result<bool, FollowerFailure> {
        self.cut(position, |log| log.truncate_fully_and_start_at(offset, now))
    }

    fn cut(
        &self,
        position: &FollowerPosition,
        cut: impl FnOnce(&mut Log<Disk>) -> Result<(), StorageError>,
    ) -> Result<bool, FollowerFailure> {
        let mut state = self.state()?;
        let before = state.log.log_end_offset();
        if state.replica.leader_epoch() != position.leader_epoch || before != position.offset {
            return Ok(false);
        }
        if let Err(error) = cut(&mut state.log) {
            state.offline = true;
            return Err(error.into());
        }
        let (log_start, log_end) = (state.log.log_start_offset(), state.log.log_end_offset());
        state.replica.clamp_high_watermark(log_start, log_end);
        if log_end == before {
            return Ok(false);
        }
        tracing::warn!(partition = %self.name, from = %before, to = %log_end, "log truncated to match its leader's");
        Ok(true)
    }
}

/// Why a follower could not take in what its leader sent.
#[derive(Debug, thiserror::Error)]
pub enum FollowerFailure {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Append(#[from] AppendError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

/// Why a flush did not come to its end.
#[derive(Debug, thiserror::Error)]
pub enum FlushFailure {
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl From<FlushFailure> for AppendFailure {
    fn from(failure: FlushFailure) -> AppendFailure {
        match failure {
            FlushFailure::Unavailable(unavailable) => unavailable.into(),
            FlushFailure::Storage(error) => AppendFailure::Log(AppendError::Storage(error)),
        }
    }
}

/// Why the controller's order was not followed.
#[derive(Debug, thiserror::Error)]
pub enum FollowFailure {
    #[error(transparent)]
    Refused(#[from] OrderRefusal),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
}

impl FollowFailure {
    pub fn code(&self) -> ErrorCode {
        match self {
            FollowFailure::Refused(refusal) => refusal.code(),
            FollowFailure::Unavailable(unavailable) => unavailable.code(),
        }
    }
}

/// What ListOffsets may ask for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetQuery {
    Latest,
    Earliest,
    MaxTimestamp,
    AtLeast(Timestamp),
}

/// Offsets by time.
impl HostedPartition {
    /// The offset asked for, or `None` if no record that this reader may see is young enough.
    pub fn find_offset(
        &self,
        reader: Reader,
        query: OffsetQuery,
        epoch: Option<LeaderEpoch>,
    ) -> Result<Option<FoundTimestamp>, ReadFailure> {
        let state = self.state()?;
        match reader {
            Reader::Debugger => state.replica.check_epoch(epoch)?,
            _ => state.replica.check_leader(epoch)?,
        }
        let watermarks = state.watermarks();
        let fetchable_end = watermarks.readable_by(reader);
        let landmark =
            |offset, leader_epoch| FoundTimestamp { timestamp: Timestamp::NONE, offset, leader_epoch };
        match query {
            OffsetQuery::Latest => {
                return Ok(Some(landmark(fetchable_end, Some(state.replica.leader_epoch()))));
            }
            OffsetQuery::Earliest => {
                let start = watermarks.log_start;
                return Ok(Some(landmark(start, state.log.leader_epochs().epoch_of(start))));
            }
            OffsetQuery::MaxTimestamp | OffsetQuery::AtLeast(_) => {}
        }
        let plan = state.log.plan_timestamp_lookup();
        drop(state);
        let found = match query {
            OffsetQuery::AtLeast(timestamp) => plan.first_from(timestamp, DECOMPRESSED_BYTES_MAX),
            _ => plan.max_timestamp(DECOMPRESSED_BYTES_MAX),
        };
        let found = found.map_err(|error| self.failed(error))?;
        Ok(found.filter(|found| found.offset < fetchable_end))
    }

    /// ListOffsets v0: segment base offsets, newest first, at most `limit` of them.
    ///
    /// -1 begins with the end of the log, -2 with its start, any other time with the newest segment that was last
    /// written to by then. Consumers see one high watermark in place of whatever lies above it.
    pub fn segment_offsets(
        &self,
        reader: Reader,
        timestamp: i64,
        limit: usize,
        now: Timestamp,
    ) -> Result<Vec<Offset>, ReadFailure> {
        let state = self.state()?;
        if reader != Reader::Debugger {
            state.replica.check_leader(None)?;
        }
        let watermarks = state.watermarks();
        let times = state.log.segment_times().map_err(|error| ReadFailure::Log(ReadError::Storage(error)))?;
        drop(state);
        let limit_offset = watermarks.readable_by(reader);
        Ok(legacy_offsets(times, watermarks.log_end, limit_offset, timestamp, limit, now))
    }
}

fn legacy_offsets(
    mut times: Vec<(Offset, Timestamp)>,
    log_end: Offset,
    readable_end: Offset,
    timestamp: i64,
    limit: usize,
    now: Timestamp,
) -> Vec<Offset> {
    const LATEST: i64 = -1;
    const EARLIEST: i64 = -2;
    if times.last().is_some_and(|(base, _)| *base < log_end) {
        times.push((log_end, now));
    }
    let start = match timestamp {
        LATEST => times.len().checked_sub(1),
        EARLIEST => (!times.is_empty()).then_some(0),
        by => times.iter().rposition(|(_, modified)| modified.0 <= by),
    };
    let Some(start) = start else { return Vec::new() };
    let mut offsets: Vec<Offset> = times[..=start].iter().rev().take(limit).map(|(base, _)| *base).collect();
    if offsets.iter().any(|offset| *offset > readable_end) {
        offsets.retain(|offset| *offset < readable_end);
        offsets.insert(0, readable_end);
    }
    offsets
}

impl Watermarks {
    /// What a reader may read up to, excluded.
    fn readable_by(&self, reader: Reader) -> Offset {
        match reader {
            Reader::Follower(_) | Reader::Debugger => self.log_end,
            Reader::ReadUncommitted => self.high_watermark,
            Reader::ReadCommitted => self.last_stable,
        }
    }
}

/// Whether the reader's log, whose last record is of `epoch` and lies before `offset`, parts from ours (KIP-595).
fn diverges(log: &Log<Disk>, epoch: LeaderEpoch, offset: Offset) -> Result<Option<EpochEnd>, ReadFailure> {
    let end = log.epoch_end_offset(epoch).ok_or(ReadFailure::UnknownEpoch)?;
    Ok((end.epoch < epoch || end.end_offset < offset).then_some(end))
}

fn is_transactional(records: &Bytes) -> bool {
    Batches::new(records).map_while(Result::ok).any(|batch| batch.header().is_transactional())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_clients_get_segment_offsets_newest_first() {
        // Segments at 0 and 10, written last at 1000 and 2000; the log ends at 15.
        let times = || vec![(Offset(0), Timestamp(1000)), (Offset(10), Timestamp(2000))];
        for (why, timestamp, limit, readable_end, expected) in [
            ("latest", -1, 1, 15, vec![15]),
            ("everything, from the latest", -1, 9, 15, vec![15, 10, 0]),
            ("earliest", -2, 9, 15, vec![0]),
            ("before anything was written", 999, 9, 15, vec![]),
            ("when the first segment was written", 1000, 9, 15, vec![0]),
            ("between the segments", 1500, 9, 15, vec![0]),
            ("now", 9999, 9, 15, vec![15, 10, 0]),
            ("the end is not committed", -1, 9, 12, vec![12, 10, 0]),
            ("a whole segment is not committed", -1, 9, 10, vec![10, 0]),
            ("no offsets wanted", -1, 0, 15, vec![]),
        ] {
            let offsets =
                legacy_offsets(times(), Offset(15), Offset(readable_end), timestamp, limit, Timestamp(5000));
            assert_eq!(offsets, expected.into_iter().map(Offset).collect::<Vec<_>>(), "{why}");
        }
    }
}
