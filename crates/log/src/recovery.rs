//! Opening a log: finishing what a crash interrupted, and looking at records only where that is needed.
//!
//! ```text
//! closed cleanly   a directory listing, the tail of the last segment, one snapshot; nothing grows with the log
//! not              every entry from the segment of the recovery point on is read; the first that is damaged, torn or
//!                  out of order ends the log
//! ```

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ottla_files::{File, Files, Open};
use ottla_model::{Offset, Timestamp, Uuid};
use ottla_protocol::records::{Batch, BatchHeader, CorruptBatch, HEADER_LENGTH, Magic};

use crate::append::producer_batch;
use crate::checkpoint::CheckpointError;
use crate::layout::{FileKind, FileName, FileState, LEADER_EPOCH_CHECKPOINT, PARTITION_METADATA};
use crate::leader_epoch_cache::LeaderEpochCache;
use crate::log::{Active, EndOffset, Log, LogConfig};
use crate::partition_metadata::{PartitionMetadataError, read_topic_id};
use crate::producer_state::{DamagedSnapshot, Origin, ProducerBatch, ProducerStates};
use crate::segment::{Segment, SegmentBytes, Segments};
use crate::storage_error::StorageError;
use crate::time_index::TimestampOffset;
use crate::transaction_index::AbortedTransaction;

/// Bytes read at a time while recovering; larger entries are read whole.
const WINDOW: u64 = 1 << 20;

/// Producers that a snapshot may hold: 46 bytes each, so this is more than a broker could ever have made.
const SNAPSHOT_BYTES_MAX: u64 = 1 << 31;

/// What the log dir knows of a log that is to be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Opening {
    /// From `recovery-point-offset-checkpoint`; 0 if unknown.
    pub recovery_point: Offset,
    /// From `log-start-offset-checkpoint`; 0 if unknown.
    pub log_start_offset: Offset,
    /// Whether the log dir was closed cleanly.
    pub clean: bool,
    /// Whether the topic's `cleanup.policy` has `compact`, so that offsets may be missing anywhere.
    pub compacted: bool,
    /// Spreads the rolling of many logs, see `segment.jitter.ms`.
    pub jitter_seed: u64,
}

/// What was found amiss while opening a log, and what was done about it. Each is worth a line in the broker's
/// log.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Recovered {
    pub findings: Vec<Finding>,
    /// Segments whose entries were all read.
    pub segments_scanned: usize,
}

/// One thing that was amiss.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Finding {
    /// A segment ended in bytes that are no entries; they are gone.
    TailCut { path: PathBuf, position: u64, bytes: u64, next_offset: Offset, cause: Damage },
    /// A segment ends before the next one begins: the machine went down before its end was written. The rest
    /// is dropped, see [`Finding::SegmentsDropped`], unless compaction may have made the gap.
    EndMissing { path: PathBuf, next_offset: Offset, next_segment: Offset },
    /// Segments behind a cut one; what they held is no longer in order, so they are gone. A replica fetches
    /// it again.
    SegmentsDropped { first: Offset, count: usize, bytes: u64 },
    /// A segment's index was missing or made no sense; it was written anew.
    IndexRebuilt { path: PathBuf },
    /// Producer state was read from an older snapshot and the records after it.
    SnapshotDamaged { path: PathBuf, cause: DamagedSnapshot },
    /// The epochs were read from the batches.
    LeaderEpochsDamaged { path: PathBuf, line: usize, reason: &'static str },
    /// The topic id is taken from the topic again.
    TopicIdDamaged { path: PathBuf, reason: &'static str },
    /// The records end below the checkpointed log start offset, so none of them may be read; the log is empty.
    EndedBelowStart { log_start: Offset, log_end: Offset },
    /// A crash interrupted the replacing of segments; it was finished.
    SwapFinished { path: PathBuf },
}

/// Why bytes of a segment are no entry that could follow the ones before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    Corrupt(CorruptBatch),
    /// The file ends inside the entry, or holds only zeros.
    Torn,
    /// The entry's offsets lie before the end of the one before it.
    OutOfOrder {
        first: Offset,
        last: Offset,
        expected: Offset,
    },
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Damage::Corrupt(corrupt) => corrupt.fmt(f),
            Damage::Torn => f.write_str("the file ends inside an entry"),
            Damage::OutOfOrder { first, last, expected } => {
                write!(f, "offsets {first} to {last} do not follow, as {expected} was next")
            }
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Finding::TailCut { path, position, bytes, next_offset, cause } => write!(
                f,
                "cut {bytes} bytes at byte {position} off {}: {cause}; the log ends at offset {next_offset}",
                path.display()
            ),
            Finding::EndMissing { path, next_offset, next_segment } => write!(
                f,
                "{} ends at offset {next_offset}, but the next segment begins at {next_segment}",
                path.display()
            ),
            Finding::SegmentsDropped { first, count, bytes } => write!(
                f,
                "dropped {count} segments of {bytes} bytes from offset {first} on, as records before them are lost"
            ),
            Finding::IndexRebuilt { path } => {
                write!(f, "rebuilt {}, which was missing or made no sense", path.display())
            }
            Finding::SnapshotDamaged { path, cause } => {
                write!(f, "removed {}: {cause}; producer state is read from the records", path.display())
            }
            Finding::LeaderEpochsDamaged { path, line, reason } => write!(
                f,
                "{} is damaged at line {line}: {reason}; leader epochs are read from the batches",
                path.display()
            ),
            Finding::TopicIdDamaged { path, reason } => {
                write!(
                    f,
                    "{} is damaged: {reason}; the topic id is taken from the topic again",
                    path.display()
                )
            }
            Finding::EndedBelowStart { log_start, log_end } => write!(
                f,
                "records end at offset {log_end}, below the log start offset {log_start}: the log is empty"
            ),
            Finding::SwapFinished { path } => {
                write!(f, "finished the replacing of segments by {}", path.display())
            }
        }
    }
}

impl<F: Files> Log<F> {
    /// Opens the log in `directory`, making both if they are not there.
    pub fn open(
        files: F,
        directory: &Path,
        config: LogConfig,
        opening: Opening,
        now: Timestamp,
    ) -> Result<(Log<F>, Recovered), StorageError> {
        let names = match files.list(directory) {
            Ok(names) => Some(names),
            Err(error) if error.is_not_found() => None,
            Err(error) => return Err(error.into()),
        };
        let is_new = names.is_none();
        if is_new {
            files.create_directory(directory)?;
            // Empty until the first flush that knows an epoch; Kafka's tools expect it to be there.
            files.open(&directory.join(LEADER_EPOCH_CHECKPOINT), Open::Create)?;
        }
        let names = names.unwrap_or_default();
        let has_metadata = names.iter().any(|entry| entry.name == PARTITION_METADATA);
        let mut loading = Loading {
            directory: Arc::from(directory),
            bytes: names
                .into_iter()
                .filter(|entry| !entry.is_directory)
                .filter_map(|entry| Some((FileName::parse(&entry.name)?, entry.bytes)))
                .collect(),
            files,
            recovered: Recovered::default(),
        };
        loading.finish_interrupted_work()?;
        let topic_id = if has_metadata { loading.topic_id()? } else { None };
        let segments = loading.segments()?;
        let epochs = loading.leader_epochs(&segments)?;
        let snapshots = loading.offsets_of(FileKind::ProducerSnapshot);
        let Loading { files, directory, recovered, .. } = loading;
        let mut log = Log {
            files,
            directory,
            config,
            active: Active::new(now, 0),
            segments: Arc::new(segments),
            recent: VecDeque::new(),
            start: opening.log_start_offset,
            end: Offset::ZERO,
            watched_end: EndOffset::default(),
            recovery_point: opening.recovery_point,
            last_flush: now,
            truncations: 0,
            written: is_new,
            // A process that was killed may not have synced the names it made.
            name_changes: u64::from(is_new || !opening.clean),
            names_synced: 0,
            name_unsynced: is_new || !opening.clean,
            epochs,
            producers: ProducerStates::default(),
            snapshots,
            topic_id,
            topic_id_unsynced: false,
            jitter_seed: opening.jitter_seed,
        };
        let recovered = Recovery { log: &mut log, opening, recovered, now }.run()?;
        Ok((log, recovered))
    }

    /// Reads producer state anew, up to the log's end.
    pub(crate) fn rebuild_producers(&mut self, now: Timestamp) -> Result<Vec<Finding>, StorageError> {
        self.remove_snapshots_above(self.end)?;
        let mut findings = Vec::new();
        self.producers = self.producers_at(self.end, now, &mut findings)?;
        Ok(findings)
    }

    /// Producer state from the records below `offset`: the newest snapshot at or below, and what was appended
    /// after it.
    fn producers_at(
        &mut self,
        offset: Offset,
        now: Timestamp,
        findings: &mut Vec<Finding>,
    ) -> Result<ProducerStates, StorageError> {
        let mut states = ProducerStates::default();
        let mut from = Offset::ZERO;
        while let Some(newest) = self.snapshots.range(..=offset).next_back().copied() {
            let path = self.snapshot_path(newest);
            let content = self.files.read(&path, SNAPSHOT_BYTES_MAX)?;
            match ProducerStates::decode_snapshot(&content, now, self.config.producer_id_expiration_ms) {
                Ok(read) => {
                    states = read;
                    from = newest;
                    break;
                }
                Err(cause) => {
                    findings.push(Finding::SnapshotDamaged { path: path.clone(), cause });
                    self.files.remove_file(&path)?;
                    self.snapshots.remove(&newest);
                }
            }
        }
        self.replay(&mut states, from, offset)?;
        Ok(states)
    }

    /// Shows `states` the batches in `from..to`.
    fn replay(&self, states: &mut ProducerStates, from: Offset, to: Offset) -> Result<(), StorageError> {
        if from >= to {
            return Ok(());
        }
        let first = self.segments.range(..=from).next_back().map_or(Offset::ZERO, |(base, _)| *base);
        let mut buffer = Vec::new();
        for (_, segment) in self.segments.range(first..to) {
            let end = segment.bytes();
            let Some(start) = segment.locate(from, end)? else { continue };
            let mut headers = segment.headers(start.position, end);
            while let Some(located) = headers.next()? {
                if located.header.base_offset >= to {
                    break;
                }
                if !located.header.has_producer_id() {
                    continue;
                }
                let batch = segment.read_entry(&located, &mut buffer)?;
                let unreadable = |reason| StorageError::CorruptRecords {
                    path: segment.path(FileKind::Log),
                    position: located.position,
                    reason,
                };
                let batch = producer_batch(&batch).map_err(unreadable)?;
                remember(states, batch);
            }
        }
        Ok(())
    }

    fn remove_snapshots_above(&mut self, offset: Offset) -> Result<(), StorageError> {
        for above in self.snapshots.split_off(&offset.plus(1)) {
            self.files.remove_file(&self.snapshot_path(above))?;
            self.name_changes += 1;
        }
        Ok(())
    }
}

/// Shows `states` a batch that is in the log. Returns what belongs into the transaction index.
fn remember(states: &mut ProducerStates, batch: Option<ProducerBatch>) -> Vec<AbortedTransaction> {
    let prepared = states.prepare(batch, Origin::Replication);
    states.apply(prepared.expect("what was appended before is not refused"))
}

/// A partition's directory while it is made sense of.
struct Loading<F: Files> {
    files: F,
    directory: Arc<Path>,
    /// The numbered files and their lengths.
    bytes: BTreeMap<FileName, u64>,
    recovered: Recovered,
}

impl<F: Files> Loading<F> {
    fn path(&self, name: FileName) -> PathBuf {
        self.directory.join(name.to_string())
    }

    fn remove(&mut self, names: &[FileName]) -> Result<(), StorageError> {
        for name in names {
            self.files.remove_file(&self.path(*name))?;
            self.bytes.remove(name);
        }
        Ok(())
    }

    fn select(&self, wanted: impl Fn(&FileName) -> bool) -> Vec<FileName> {
        self.bytes.keys().filter(|name| wanted(name)).copied().collect()
    }

    fn offsets_of(&self, kind: FileKind) -> BTreeSet<Offset> {
        let current = |name: &&FileName| name.kind == kind && name.state == FileState::Current;
        self.bytes.keys().filter(current).map(|name| name.offset).collect()
    }

    /// Deletes what was to be deleted, and completes or undoes the replacing of segments by compaction.
    fn finish_interrupted_work(&mut self) -> Result<(), StorageError> {
        self.remove(&self.select(|name| name.state == FileState::Deleted))?;
        // Swap files from the first unfinished output on belong to a split that was not done.
        let unfinished =
            self.bytes.keys().filter(|name| name.state == FileState::Cleaned).map(|n| n.offset).min();
        if let Some(unfinished) = unfinished {
            self.remove(&self.select(|name| {
                name.state == FileState::Cleaned
                    || (name.state == FileState::Swap && name.offset >= unfinished)
            }))?;
        }
        let swaps = self.select(|name| name.state == FileState::Swap);
        let logs = swaps.iter().filter(|name| name.kind == FileKind::Log);
        let mut covered: Option<(Offset, Offset)> = None;
        for name in logs {
            let next = self.next_offset_of(*name)?;
            let (from, to) = covered.unwrap_or((name.offset, next));
            covered = Some((from.min(name.offset), to.max(next)));
        }
        if let Some((from, to)) = covered {
            self.remove(
                &self.select(|name| name.state == FileState::Current && (from..to).contains(&name.offset)),
            )?;
        }
        for name in swaps {
            let current = name.in_state(FileState::Current);
            self.files.rename(&self.path(name), &self.path(current))?;
            if let Some(bytes) = self.bytes.remove(&name) {
                self.bytes.insert(current, bytes);
            }
            if name.kind == FileKind::Log {
                self.recovered.findings.push(Finding::SwapFinished { path: self.path(name) });
            }
        }
        if covered.is_some() {
            self.files.sync_directory(&self.directory)?;
        }
        Ok(())
    }

    /// The offset after the last whole entry of a file that is not yet a segment.
    fn next_offset_of(&self, name: FileName) -> Result<Offset, StorageError> {
        let file = self.files.open(&self.path(name), Open::Read)?;
        let mut entries = Entries::new(&file, file.bytes()?);
        let mut next = name.offset;
        while let Some(batch) = entries.next()?.ok().flatten() {
            next = next.max(batch.header().next_offset());
        }
        Ok(next)
    }

    /// The segments as they lie there; index files without a log go.
    fn segments(&mut self) -> Result<Segments<F>, StorageError> {
        let bases = self.offsets_of(FileKind::Log);
        let orphans = self.select(|name| {
            let is_index = match name.kind {
                FileKind::OffsetIndex | FileKind::TimeIndex | FileKind::TransactionIndex => true,
                FileKind::Log | FileKind::ProducerSnapshot => false,
            };
            is_index && !bases.contains(&name.offset)
        });
        self.remove(&orphans)?;
        let bytes = |base, kind| self.bytes.get(&FileName::new(base, kind)).copied();
        Ok(bases
            .iter()
            .map(|base| {
                let lengths = SegmentBytes {
                    log: bytes(*base, FileKind::Log).unwrap_or(0),
                    offset_index: bytes(*base, FileKind::OffsetIndex),
                    time_index: bytes(*base, FileKind::TimeIndex).unwrap_or(0),
                    transaction_index: bytes(*base, FileKind::TransactionIndex).unwrap_or(0),
                };
                let segment = Segment::new(self.files.clone(), self.directory.clone(), *base, lengths);
                (*base, Arc::new(segment))
            })
            .collect())
    }

    /// A damaged file tells nothing, so the log is tied to the id that its topic has.
    fn topic_id(&mut self) -> Result<Option<Uuid>, StorageError> {
        match read_topic_id(&self.files, &self.directory.join(PARTITION_METADATA)) {
            Ok(topic_id) => Ok(topic_id),
            Err(PartitionMetadataError::Malformed { path, reason }) => {
                self.recovered.findings.push(Finding::TopicIdDamaged { path, reason });
                Ok(None)
            }
            Err(PartitionMetadataError::File(error)) => Err(error.into()),
        }
    }

    /// The leader epoch cache; from the batches where the checkpoint is damaged.
    fn leader_epochs(&mut self, segments: &Segments<F>) -> Result<LeaderEpochCache, StorageError> {
        let path = self.directory.join(LEADER_EPOCH_CHECKPOINT);
        match LeaderEpochCache::read(&self.files, &path) {
            Ok(epochs) => return Ok(epochs),
            Err(CheckpointError::Malformed { path, line, reason }) => {
                self.recovered.findings.push(Finding::LeaderEpochsDamaged { path, line, reason });
            }
            Err(error) => return Err(error.into()),
        }
        let mut epochs = LeaderEpochCache::default();
        for segment in segments.values() {
            let mut headers = segment.headers(0, segment.bytes());
            loop {
                match headers.next() {
                    Ok(Some(located)) => epochs.note_batch(&located.header),
                    Ok(None) => break,
                    // Recovery will come to it, or reads will.
                    Err(error) if error.is_damage() => break,
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(epochs)
    }
}

/// Brings a log whose files are known into a state that agrees with them.
struct Recovery<'l, F: Files> {
    log: &'l mut Log<F>,
    opening: Opening,
    recovered: Recovered,
    now: Timestamp,
}

impl<F: Files> Recovery<'_, F> {
    fn run(mut self) -> Result<Recovered, StorageError> {
        let opening = self.opening;
        if self.log.segments.is_empty() {
            self.log.add_segment(opening.log_start_offset, self.now)?;
            self.log.set_end(opening.log_start_offset);
        } else {
            self.load()?;
        }
        let log = &mut *self.log;
        let first_base = *log.segments.first_key_value().expect("there is a segment now").0;
        log.start = opening.log_start_offset.max(first_base);
        if log.end < log.start {
            let (log_start, log_end) = (log.start, log.end);
            self.recovered.findings.push(Finding::EndedBelowStart { log_start, log_end });
            log.truncate_fully_and_start_at(log_start, self.now)?;
        }
        log.epochs.truncate_from_end(log.end);
        log.epochs.truncate_from_start(log.start);
        self.remove_stray_snapshots()?;
        Ok(self.recovered)
    }

    fn load(&mut self) -> Result<(), StorageError> {
        let opening = self.opening;
        let suspects = self.suspects()?;
        let from = if opening.clean { None } else { Some(self.first_unflushed(opening.recovery_point)) };
        for base in &suspects {
            // Cutting an earlier one may have dropped it.
            if let Some(segment) = self.log.segments.get(base)
                && from.is_none_or(|from| *base < from)
            {
                let path = segment.path(FileKind::OffsetIndex);
                self.recovered.findings.push(Finding::IndexRebuilt { path });
                self.recover_from(*base, Some(base.plus(1)))?;
            }
        }
        match from {
            Some(from) => self.recover_from(from, None)?,
            None => self.load_tail()?,
        }
        let log = &mut *self.log;
        let scanned = self.recovered.segments_scanned > 0;
        log.written |= scanned;
        log.recovery_point = if opening.clean && !scanned {
            log.end
        } else {
            // What was written anew is not synced yet.
            let first_rewritten = suspects.first().copied().unwrap_or(log.end);
            opening.recovery_point.min(log.end).min(first_rewritten)
        };
        Ok(())
    }

    /// The segment that holds the recovery point, or the first one if that lies before all.
    fn first_unflushed(&self, recovery_point: Offset) -> Offset {
        let mut bases = self.log.segments.range(..=recovery_point).map(|(base, _)| *base);
        let first = self.log.segments.first_key_value().expect("the caller has looked").0;
        bases.next_back().unwrap_or(*first)
    }

    /// Segments whose indexes cannot be right, as far as their ends show.
    fn suspects(&self) -> Result<BTreeSet<Offset>, StorageError> {
        let mut suspects = BTreeSet::new();
        let last = self.log.active_segment().base();
        for segment in self.log.segments.values() {
            let sane = segment.has_offset_index()
                && segment.transaction_index.is_sane(segment.base())?
                // Looking into each index would cost every start a read per segment; only the last one is
                // needed now.
                && (segment.base() != last || segment.offset_index_fits()?);
            if !sane {
                suspects.insert(segment.base());
            }
        }
        Ok(suspects)
    }

    /// Finds the end of a log that was closed cleanly. If it turns out that it cannot have been, recovers its
    /// last segment.
    fn load_tail(&mut self) -> Result<(), StorageError> {
        let active = self.log.active_segment().clone();
        match active.next_offset() {
            Ok(end) => {
                self.log.set_end(end);
                self.log.active.max_timestamp = active.time_index.last()?;
            }
            Err(error) if error.is_damage() => return self.recover_from(active.base(), None),
            Err(error) => return Err(error),
        }
        // A log without any snapshot is one from before there were producers to remember.
        if !self.log.snapshots.is_empty() {
            let findings = self.log.rebuild_producers(self.now)?;
            self.recovered.findings.extend(findings);
        }
        Ok(())
    }

    /// Reads every entry of the segments from `first` up to `before`, or to the end of the log.
    fn recover_from(&mut self, first: Offset, before: Option<Offset>) -> Result<(), StorageError> {
        // Later snapshots may be torn, or speak of records that are gone.
        self.log.remove_snapshots_above(first)?;
        let mut findings = Vec::new();
        let mut producers = self.log.producers_at(first, self.now, &mut findings)?;
        self.recovered.findings.extend(findings);
        if !producers.is_empty() {
            // The one that stood here may have been damaged, and the older one it was made from may go now.
            self.log.producers = producers.clone();
            self.log.take_producer_snapshot(first)?;
        }
        if before.is_none() {
            // The batches know better: entries for records that a crash has lost would hide the epochs of
            // those that replaced them.
            self.log.epochs.truncate_from_end(first);
        }
        let bases: Vec<_> = match before {
            Some(before) => self.log.segments.range(first..before).map(|(base, _)| *base).collect(),
            None => self.log.segments.range(first..).map(|(base, _)| *base).collect(),
        };
        for base in bases {
            let segment = self.log.segments[&base].clone();
            let scanned = self.recover_segment(&segment, &mut producers)?;
            self.recovered.segments_scanned += 1;
            self.log.set_end(scanned.next_offset);
            self.log.active.max_timestamp = scanned.max_timestamp;
            self.log.producers = producers.clone();
            self.log.take_producer_snapshot(scanned.next_offset)?;
            if scanned.was_cut || self.end_is_missing(base, scanned.next_offset) {
                self.drop_segments_behind(base)?;
                return Ok(());
            }
        }
        if before.is_some() {
            // Not the end of the log: that is still to be found.
            self.log.producers = ProducerStates::default();
        }
        Ok(())
    }

    /// Whether records between the end of a segment and the next one were lost. What was flushed cannot have
    /// been.
    fn end_is_missing(&mut self, base: Offset, next_offset: Offset) -> bool {
        let Some(next_segment) = self.log.segments.range(base.plus(1)..).next().map(|(base, _)| *base) else {
            return false;
        };
        if next_offset >= next_segment || next_segment <= self.opening.recovery_point {
            return false;
        }
        let path = self.log.segments[&base].path(FileKind::Log);
        self.recovered.findings.push(Finding::EndMissing { path, next_offset, next_segment });
        !self.opening.compacted
    }

    fn drop_segments_behind(&mut self, base: Offset) -> Result<(), StorageError> {
        let behind: Vec<_> = self.log.segments.range(base.plus(1)..).map(|(base, _)| *base).rev().collect();
        let Some(first) = behind.last().copied() else { return Ok(()) };
        let bytes = behind.iter().map(|base| self.log.segments[base].bytes()).sum();
        self.recovered.findings.push(Finding::SegmentsDropped { first, count: behind.len(), bytes });
        self.log.remove_segments(&behind)?;
        self.log.files.sync_directory(&self.log.directory)?;
        Ok(())
    }

    /// Reads all entries of a segment, writes its indexes anew, and cuts it at the first entry that is none.
    fn recover_segment(
        &mut self,
        segment: &Segment<F>,
        producers: &mut ProducerStates,
    ) -> Result<Scanned, StorageError> {
        let config = &self.log.config;
        segment.offset_index.file().truncate(0);
        segment.offset_index.file().grow(config.segment_index_bytes)?;
        segment.time_index.file().truncate(0);
        segment.time_index.file().grow(config.segment_index_bytes)?;
        segment.transaction_index.reset()?;
        let file = segment.log()?.clone();
        let file_bytes = file.bytes()?;
        let mut entries = Entries::new(&*file, file_bytes);
        let mut scanned = Scanned { next_offset: segment.base(), max_timestamp: None, was_cut: false };
        let mut last_indexed = 0;
        let damage = loop {
            let position = entries.position;
            let batch = match entries.next()? {
                Ok(Some(batch)) => batch,
                Ok(None) => break None,
                Err(damage) => break Some(damage),
            };
            if let Err(corrupt) = batch.check_crc() {
                entries.position = position;
                break Some(Damage::Corrupt(corrupt));
            }
            let header = *batch.header();
            let (first, last) = (header.base_offset, header.last_offset());
            if first < scanned.next_offset || last < first || last.0 == i64::MAX {
                entries.position = position;
                break Some(Damage::OutOfOrder { first, last, expected: scanned.next_offset });
            }
            if header.max_timestamp > scanned.max_timestamp.map_or(Timestamp::NONE, |max| max.timestamp) {
                scanned.max_timestamp =
                    Some(TimestampOffset { timestamp: header.max_timestamp, offset: last });
            }
            if position - last_indexed > u64::from(config.index_interval_bytes) {
                segment.offset_index.append(last, position)?;
                if let Some(max) = scanned.max_timestamp {
                    segment.time_index.append(max)?;
                }
                last_indexed = position;
            }
            if header.magic == Magic::V2
                && self.log.epochs.latest().is_none_or(|l| l.epoch < header.leader_epoch)
            {
                self.log.epochs.assign(header.leader_epoch, first);
            }
            let producer = producer_batch(&batch).map_err(|reason| StorageError::CorruptRecords {
                path: segment.path(FileKind::Log),
                position,
                reason,
            })?;
            for aborted in remember(producers, producer) {
                segment.transaction_index.append(&aborted)?;
            }
            scanned.next_offset = header.next_offset();
        };
        let valid = entries.position;
        if let Some(cause) = damage {
            scanned.was_cut = true;
            self.log.cut_log_file(segment, valid)?;
            self.recovered.findings.push(Finding::TailCut {
                path: segment.path(FileKind::Log),
                position: valid,
                bytes: file_bytes - valid,
                next_offset: scanned.next_offset,
                cause,
            });
        }
        segment.set_bytes(valid);
        if let Some(max) = scanned.max_timestamp {
            segment.time_index.append(max)?;
        }
        segment.trim()?;
        Ok(scanned)
    }

    /// Removes snapshots that stand at the start of no segment, except the last one: that is from closing the
    /// log.
    fn remove_stray_snapshots(&mut self) -> Result<(), StorageError> {
        let last_base = self.log.active_segment().base();
        let latest = self.log.snapshots.last().copied();
        let strays: Vec<_> = self
            .log
            .snapshots
            .iter()
            .filter(|offset| !self.log.segments.contains_key(offset))
            .filter(|offset| latest != Some(**offset) || **offset < last_base)
            .copied()
            .collect();
        for stray in strays {
            self.log.files.remove_file(&self.log.snapshot_path(stray))?;
            self.log.snapshots.remove(&stray);
            self.log.name_changes += 1;
        }
        Ok(())
    }
}

/// What was found in a segment.
struct Scanned {
    next_offset: Offset,
    max_timestamp: Option<TimestampOffset>,
    was_cut: bool,
}

/// Walks whole entries of a file, in large reads.
struct Entries<'f, T: File> {
    file: &'f T,
    /// Where the next entry starts.
    position: u64,
    end: u64,
    window: Vec<u8>,
    window_start: u64,
}

impl<'f, T: File> Entries<'f, T> {
    fn new(file: &'f T, end: u64) -> Entries<'f, T> {
        Entries { file, position: 0, end, window: Vec::new(), window_start: 0 }
    }

    /// The next entry, with any crc; `Ok(None)` at the end. After damage there is no way on, and `position`
    /// is where it is.
    fn next(&mut self) -> Result<Result<Option<Batch<'_>>, Damage>, StorageError> {
        let left = self.end - self.position;
        if left == 0 {
            return Ok(Ok(None));
        }
        self.fill(left.min(HEADER_LENGTH as u64))?;
        let header = match BatchHeader::parse(self.filled()) {
            Ok(Some(header)) if header.length as u64 <= left => header,
            Ok(_) => return Ok(Err(Damage::Torn)),
            Err(corrupt) => return Ok(Err(Damage::Corrupt(corrupt))),
        };
        // The bytes are in the file, so the memory for them is paid for.
        self.fill(header.length as u64)?;
        let from = (self.position - self.window_start) as usize;
        self.position += header.length as u64;
        Ok(match Batch::parse(&self.window[from..from + header.length]) {
            Ok(batch) => Ok(batch),
            Err(corrupt) => Err(Damage::Corrupt(corrupt)),
        })
    }

    fn filled(&self) -> &[u8] {
        &self.window[(self.position - self.window_start) as usize..]
    }

    /// Makes sure that the window holds `bytes` bytes from `position` on; they lie before the end of the file.
    fn fill(&mut self, bytes: u64) -> Result<(), StorageError> {
        let window_end = self.window_start + self.window.len() as u64;
        if self.position >= self.window_start && self.position + bytes <= window_end {
            return Ok(());
        }
        let bytes = bytes.max(WINDOW).min(self.end - self.position);
        self.window.resize(bytes as usize, 0);
        self.file.read_exact_at(&mut self.window, self.position)?;
        self.window_start = self.position;
        Ok(())
    }
}
