//! One partition's log.

use std::collections::{BTreeSet, VecDeque};
use std::io::IoSlice;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use ottla_files::{File, Files, Open};
use ottla_model::{LeaderEpoch, Offset, Timestamp, Uuid};
use ottla_protocol::ErrorCode;

use crate::layout::{FileKind, FileName, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use crate::leader_epoch_cache::{EpochEnd, LeaderEpochCache};
use crate::partition_metadata;
use crate::producer_state::ProducerStates;
use crate::segment::{Segment, Segments};
use crate::storage_error::StorageError;
use crate::time_index::TimestampOffset;

/// The part of a topic's configuration that its log goes by. Sizes in bytes, durations in milliseconds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogConfig {
    /// `segment.bytes`; at most 2147483647.
    pub segment_bytes: u32,
    /// `segment.ms`, or `max.compaction.lag.ms` if that is less and the topic is compacted.
    pub segment_ms: i64,
    /// `segment.jitter.ms`: each segment rolls earlier by a random part of it.
    pub segment_jitter_ms: i64,
    /// `index.interval.bytes`.
    pub index_interval_bytes: u32,
    /// `segment.index.bytes`.
    pub segment_index_bytes: u32,
    /// `flush.messages`: records after which an append asks for a flush.
    pub flush_messages: i64,
    /// `flush.ms`.
    pub flush_ms: i64,
    /// `preallocate`.
    pub preallocate: bool,
    /// `producer.id.expiration.ms`.
    pub producer_id_expiration_ms: i64,
}

impl Default for LogConfig {
    /// Kafka's defaults.
    fn default() -> LogConfig {
        LogConfig {
            segment_bytes: 1 << 30,
            segment_ms: 7 * 24 * 60 * 60 * 1000,
            segment_jitter_ms: 0,
            index_interval_bytes: 4096,
            segment_index_bytes: 10 * 1024 * 1024,
            flush_messages: i64::MAX,
            flush_ms: i64::MAX,
            preallocate: false,
            producer_id_expiration_ms: 24 * 60 * 60 * 1000,
        }
    }
}

/// Where a log ends, readable without its lock. Never ahead of what readers can read.
#[derive(Debug, Clone, Default)]
pub struct EndOffset(Arc<AtomicI64>);

impl EndOffset {
    pub fn get(&self) -> Offset {
        Offset(self.0.load(Ordering::Acquire))
    }

    fn set(&self, offset: Offset) {
        self.0.store(offset.0, Ordering::Release);
    }
}

/// What the appender knows of the segment it appends to.
#[derive(Debug, Clone)]
pub(crate) struct Active {
    /// When this process began to append to it.
    pub created: Timestamp,
    /// Largest timestamp so far.
    pub max_timestamp: Option<TimestampOffset>,
    /// Timestamp of the first entry.
    pub first_timestamp: Option<Timestamp>,
    pub bytes_since_index_entry: u64,
    /// How much earlier than `segment.ms` it rolls.
    pub jitter_ms: i64,
    /// Whether the indexes have been grown; opening a partition that nobody writes to costs no mapping.
    pub ready: bool,
}

/// A batch near the end of the log: most reads are about these, and need neither index nor disk.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RecentEntry {
    pub base_offset: Offset,
    pub last_offset: Offset,
    pub position: u64,
    pub bytes: u64,
}

/// Bounds the memory of [`RecentEntry`]s: 2 KiB per log that is written to. The oldest goes.
pub(crate) const RECENT_ENTRIES_MAX: usize = 64;

/// Why a log is not tied to a topic id.
#[derive(Debug, thiserror::Error)]
pub enum TopicIdError {
    #[error(
        "{} holds records of topic id {stored}, but the topic's id is {got}: the topic was deleted and made \
         again meanwhile",
        path.display()
    )]
    Inconsistent { path: PathBuf, stored: Uuid, got: Uuid },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl TopicIdError {
    pub fn code(&self) -> ErrorCode {
        match self {
            TopicIdError::Inconsistent { .. } => ErrorCode::InconsistentTopicId,
            TopicIdError::Storage(error) => error.code(),
        }
    }
}

/// A segment, as retention looks at it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SegmentInfo {
    pub base_offset: Offset,
    /// The base of the next segment, or the log end offset for the active one.
    pub end_offset: Offset,
    pub bytes: u64,
    /// [`Timestamp::NONE`] if no record has one.
    pub max_timestamp: Timestamp,
}

/// One partition's log.
///
/// ```text
///   log start            recovery point                      log end
///      v                       v                                v
///   |--------- segment 0 ---------|-------- segment 20 --------|   offsets
///                  synced <----- | -----> may be lost with the machine
/// ```
///
/// After an error of a method that writes, other than a refusal, the log must be closed and opened again:
/// disk and memory may disagree.
#[derive(Debug)]
pub struct Log<F: Files> {
    pub(crate) files: F,
    pub(crate) directory: Arc<Path>,
    pub(crate) config: LogConfig,
    /// Behind an `Arc` so that readers take a snapshot; copied only when a segment comes or goes while one is
    /// held.
    pub(crate) segments: Arc<Segments<F>>,
    pub(crate) active: Active,
    pub(crate) recent: VecDeque<RecentEntry>,
    pub(crate) start: Offset,
    pub(crate) end: Offset,
    pub(crate) watched_end: EndOffset,
    pub(crate) recovery_point: Offset,
    pub(crate) last_flush: Timestamp,
    /// Counts truncations, so that a flush from before one does not speak for what came after.
    pub(crate) truncations: u64,
    /// Whether anything was written since it was opened.
    pub(crate) written: bool,
    /// Counts files that came or went, and how many of these changes are durable.
    pub(crate) name_changes: u64,
    pub(crate) names_synced: u64,
    /// Whether the name of the directory itself may not be durable yet.
    pub(crate) name_unsynced: bool,
    pub(crate) epochs: LeaderEpochCache,
    pub(crate) producers: ProducerStates,
    /// Offsets that have a `.snapshot` file.
    pub(crate) snapshots: BTreeSet<Offset>,
    pub(crate) topic_id: Option<Uuid>,
    /// Whether `partition.metadata` has yet to be synced.
    pub(crate) topic_id_unsynced: bool,
    /// State of the generator that draws the jitter of each segment.
    pub(crate) jitter_seed: u64,
}

impl<F: Files> Log<F> {
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    pub fn config(&self) -> &LogConfig {
        &self.config
    }

    /// Takes effect from the next append on.
    pub fn set_config(&mut self, config: LogConfig) {
        self.config = config;
    }

    /// The id of the topic that the records belong to, if it has one.
    pub fn topic_id(&self) -> Option<Uuid> {
        self.topic_id
    }

    /// Ties the log to a topic id for good: it keeps a topic that was deleted and made again from inheriting
    /// records. The file becomes durable with the next flush.
    pub fn set_topic_id(&mut self, topic_id: Uuid) -> Result<(), TopicIdError> {
        match self.topic_id {
            Some(stored) if stored == topic_id => return Ok(()),
            Some(stored) => {
                let path = self.directory.to_path_buf();
                return Err(TopicIdError::Inconsistent { path, stored, got: topic_id });
            }
            None => {}
        }
        let content = partition_metadata::text(topic_id);
        self.write_unsynced(PARTITION_METADATA, content.as_bytes())?;
        self.topic_id = Some(topic_id);
        self.topic_id_unsynced = true;
        self.written = true;
        Ok(())
    }

    /// The first offset that may be read. Records below it may still lie on disk.
    pub fn log_start_offset(&self) -> Offset {
        self.start
    }

    /// The offset that the next record gets.
    pub fn log_end_offset(&self) -> Offset {
        self.end
    }

    /// A view of the log end offset for those who do not hold the log.
    pub fn watch_end_offset(&self) -> EndOffset {
        self.watched_end.clone()
    }

    /// Everything below survives a crash of the machine.
    pub fn recovery_point(&self) -> Offset {
        self.recovery_point
    }

    /// The last stable offset: what `read_committed` consumers may read up to.
    pub fn last_stable_offset(&self, high_watermark: Offset) -> Offset {
        match self.producers.first_unstable_offset(high_watermark) {
            Some(unstable) => unstable.min(high_watermark),
            None => high_watermark,
        }
    }

    /// Tells that everything below `high_watermark` is replicated, so that completed transactions can be let
    /// go of.
    pub fn high_watermark_advanced(&mut self, high_watermark: Offset) {
        self.producers.forget_replicated(high_watermark);
    }

    pub fn producers(&self) -> &ProducerStates {
        &self.producers
    }

    /// Forgets producers that have been idle for too long.
    pub fn expire_producers(&mut self, now: Timestamp) {
        self.producers.expire(now, self.config.producer_id_expiration_ms);
    }

    pub fn leader_epochs(&self) -> &LeaderEpochCache {
        &self.epochs
    }

    /// Notes that this broker leads the partition in `epoch` from here on.
    pub fn begin_leader_epoch(&mut self, epoch: LeaderEpoch) {
        self.epochs.assign(epoch, self.end);
        self.written = true;
    }

    /// Where a leader epoch ended (OffsetForLeaderEpoch, KIP-101).
    pub fn epoch_end_offset(&self, epoch: LeaderEpoch) -> Option<EpochEnd> {
        self.epochs.end_offset(epoch, self.end)
    }

    /// The segments, the oldest first.
    pub fn segments(&self) -> Result<Vec<SegmentInfo>, StorageError> {
        let ends = self.segments.keys().skip(1).copied().chain([self.end]);
        let active = self.active_segment().base();
        self.segments
            .values()
            .zip(ends)
            .map(|(segment, end_offset)| {
                let max_timestamp = if segment.base() == active {
                    self.active.max_timestamp
                } else {
                    segment.closed_largest_timestamp()?
                };
                Ok(SegmentInfo {
                    base_offset: segment.base(),
                    end_offset,
                    bytes: segment.bytes(),
                    max_timestamp: max_timestamp.map_or(Timestamp::NONE, |max| max.timestamp),
                })
            })
            .collect()
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.bytes()).sum()
    }

    pub(crate) fn active_segment(&self) -> &Arc<Segment<F>> {
        self.segments.last_key_value().expect("a log has at least one segment").1
    }

    pub(crate) fn set_end(&mut self, end: Offset) {
        self.end = end;
        self.watched_end.set(end);
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    pub(crate) fn snapshot_path(&self, offset: Offset) -> PathBuf {
        self.path(&FileName::new(offset, FileKind::ProducerSnapshot).to_string())
    }

    /// Closes the active segment and begins one at `base`.
    pub(crate) fn roll(&mut self, base: Offset, now: Timestamp) -> Result<(), StorageError> {
        let active = self.active_segment().clone();
        assert!(base >= active.base(), "a segment at {base} behind the active one at {}", active.base());
        if base == active.base() {
            assert_eq!(active.bytes(), 0, "only an empty segment is made anew");
        } else {
            self.finish_segment(&active)?;
            if self.recovery_point >= self.end {
                // Neither a flush nor recovery will look behind the recovery point, so the end of the indexes
                // is synced here.
                active.sync()?;
            }
        }
        self.take_producer_snapshot(base)?;
        self.add_segment(base, now)
    }

    /// Writes the last time index entry of a segment that is appended to no more, and trims its files.
    pub(crate) fn finish_segment(&self, segment: &Segment<F>) -> Result<(), StorageError> {
        if let Some(max) = self.active.max_timestamp
            && segment.time_index.file().room() > 0
        {
            segment.time_index.append(max)?;
        }
        segment.trim()
    }

    /// Makes an empty segment at `base` the active one.
    pub(crate) fn add_segment(&mut self, base: Offset, now: Timestamp) -> Result<(), StorageError> {
        let preallocate = if self.config.preallocate { u64::from(self.config.segment_bytes) } else { 0 };
        let segment = Segment::create(self.files.clone(), self.directory.clone(), base, preallocate)?;
        Arc::make_mut(&mut self.segments).insert(base, Arc::new(segment));
        self.name_changes += 1;
        self.written = true;
        let jitter_ms = self.draw_jitter();
        self.active = Active::new(now, jitter_ms);
        self.recent.clear();
        Ok(())
    }

    /// Readies the active segment for an append, after it was opened as it was or was made anew.
    pub(crate) fn ready_for_append(&mut self) -> Result<(), StorageError> {
        if self.active.ready {
            return Ok(());
        }
        let segment = self.active_segment().clone();
        segment.offset_index.file().grow(self.config.segment_index_bytes)?;
        segment.time_index.file().grow(self.config.segment_index_bytes)?;
        self.active.first_timestamp = segment.first_timestamp()?;
        if self.active.max_timestamp.is_none() {
            self.active.max_timestamp = segment.largest_timestamp(segment.bytes())?;
        }
        self.active.ready = true;
        Ok(())
    }

    /// Writes what is known of producers below `offset`, unless a snapshot of that age or a later one is there.
    /// It becomes durable with the next flush.
    pub(crate) fn take_producer_snapshot(&mut self, offset: Offset) -> Result<(), StorageError> {
        if self.snapshots.last().is_some_and(|last| *last >= offset) {
            return Ok(());
        }
        let file = self.files.open(&self.snapshot_path(offset), Open::Truncate)?;
        file.write_all_at(&mut [IoSlice::new(&self.producers.encode_snapshot())], 0)?;
        self.snapshots.insert(offset);
        self.name_changes += 1;
        Ok(())
    }

    /// A number from 0 up to `segment.jitter.ms`, but below `segment.ms`.
    pub(crate) fn draw_jitter(&mut self) -> i64 {
        let bound = self.config.segment_jitter_ms.min(self.config.segment_ms);
        if bound <= 0 {
            return 0;
        }
        // SplitMix64: the numbers must spread the rolls of many partitions, no more.
        self.jitter_seed = self.jitter_seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.jitter_seed;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as i64
    }

    /// Writes a small file under a temporary name first, as others may be looking.
    fn write_unsynced(&mut self, name: &str, content: &[u8]) -> Result<(), StorageError> {
        let temporary = self.path(&format!("{name}.tmp"));
        let file = self.files.open(&temporary, Open::Truncate)?;
        file.write_all_at(&mut [IoSlice::new(content)], 0)?;
        self.files.rename(&temporary, &self.path(name))?;
        self.name_changes += 1;
        Ok(())
    }

    pub(crate) fn leader_epoch_path(&self) -> PathBuf {
        self.path(LEADER_EPOCH_CHECKPOINT)
    }
}

impl Active {
    pub fn new(created: Timestamp, jitter_ms: i64) -> Active {
        Active {
            created,
            max_timestamp: None,
            first_timestamp: None,
            bytes_since_index_entry: 0,
            jitter_ms,
            ready: false,
        }
    }
}
