//! Appending, as leader and as follower.

use std::io::IoSlice;

use ottla_files::{File, Files};
use ottla_model::{LeaderEpoch, Offset, Timestamp};
use ottla_protocol::ErrorCode;
use ottla_protocol::records::validate::{AppendOrigin, Validated};
use ottla_protocol::records::{
    Batch, BatchHeader, Batches, CorruptBatch, EndTransactionMarker, Magic, RecordError,
};

use crate::log::{Log, RECENT_ENTRIES_MAX, RecentEntry};
use crate::producer_state::{Origin, Prepared, ProducerBatch, ProducerError};
use crate::storage_error::StorageError;
use crate::time_index::TimestampOffset;

/// Control records are a few bytes and never compressed; this bounds what a damaged one may cost.
const CONTROL_RECORD_BYTES_MAX: usize = 1 << 16;

/// What an entry means for its producer, if it has one.
pub(crate) fn producer_batch(batch: &Batch<'_>) -> Result<Option<ProducerBatch>, RecordError> {
    let header = batch.header();
    if !header.has_producer_id() {
        return Ok(None);
    }
    if !header.is_control() {
        return Ok(ProducerBatch::data(header));
    }
    let records = batch.records(CONTROL_RECORD_BYTES_MAX)?;
    // Compaction may have left the batch without its record.
    let Some(record) = records.iter()?.next().transpose()? else { return Ok(None) };
    let marker = match (record.key, record.value) {
        (Some(key), Some(value)) => EndTransactionMarker::from_record(key, value),
        _ => None,
    };
    Ok(marker.and_then(|marker| ProducerBatch::marker(header, marker)))
}

/// An append that went well.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub first_offset: Offset,
    /// Offset of the last record, included.
    pub last_offset: Offset,
    /// The same records were appended before, at these offsets; nothing was written now.
    pub duplicate: bool,
    /// A segment was closed; what it holds should be flushed in the background.
    pub rolled: bool,
    /// `flush.messages` asks for a flush before the append is answered.
    pub flush_due: bool,
}

/// Why an append was refused. Nothing was appended.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    #[error(transparent)]
    Producer(#[from] ProducerError),
    #[error("{bytes} bytes of records do not fit into a segment of {max} bytes")]
    TooLarge { bytes: u64, max: u32 },
    #[error("leader sent an entry for offsets {first} to {last} where the log continues at {expected}")]
    OffsetsOutOfOrder { first: Offset, last: Offset, expected: Offset },
    #[error("leader sent a corrupt entry: {0}")]
    Corrupt(#[from] CorruptBatch),
    #[error("control batch cannot be read: {0}")]
    Records(#[from] RecordError),
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl AppendError {
    pub fn code(&self) -> ErrorCode {
        match self {
            AppendError::Producer(error) => error.code(),
            AppendError::TooLarge { .. } => ErrorCode::RecordListTooLarge,
            AppendError::OffsetsOutOfOrder { .. } => ErrorCode::UnknownServerError,
            AppendError::Corrupt(_) => ErrorCode::CorruptMessage,
            AppendError::Records(_) => ErrorCode::InvalidRecord,
            AppendError::Storage(error) => error.code(),
        }
    }
}

/// Entries that are written in one piece.
struct Run {
    /// Offset of the first record, where the entries tell: in magic 2.
    first_offset: Option<Offset>,
    last_offset: Offset,
    bytes: u64,
    max_timestamp: Option<TimestampOffset>,
}

impl Run {
    fn new() -> Run {
        Run { first_offset: None, last_offset: Offset(-1), bytes: 0, max_timestamp: None }
    }

    fn add(&mut self, header: &BatchHeader) {
        if self.bytes == 0 && header.magic == Magic::V2 {
            self.first_offset = Some(header.base_offset);
        }
        self.last_offset = header.last_offset();
        self.bytes += header.length as u64;
        let max = self.max_timestamp.map_or(Timestamp::NONE, |max| max.timestamp);
        if header.max_timestamp > max {
            self.max_timestamp =
                Some(TimestampOffset { timestamp: header.max_timestamp, offset: self.last_offset });
        }
    }
}

impl<F: Files> Log<F> {
    /// Appends validated records as the leader of `epoch`: gives them their offsets and remembers their
    /// producer.
    ///
    /// One `pwritev`, or one per 256 KiB; the records are written from where they lie.
    pub fn append_as_leader(
        &mut self,
        records: Validated,
        epoch: LeaderEpoch,
        origin: AppendOrigin,
        now: Timestamp,
    ) -> Result<Appended, AppendError> {
        if let (AppendOrigin::Client, Some(batch)) = (origin, ProducerBatch::data(records.header()))
            && let Some(known) = self.producers.duplicate(&batch)
        {
            return Ok(Appended {
                first_offset: known.first_offset(),
                last_offset: known.last_offset,
                duplicate: true,
                rolled: false,
                flush_due: false,
            });
        }
        let assigned = records.assign(self.end, epoch);
        let header = assigned.header;
        let bytes = assigned.len() as u64;
        if bytes > u64::from(self.config.segment_bytes) {
            return Err(AppendError::TooLarge { bytes, max: self.config.segment_bytes });
        }
        let (batch, origin) = match origin {
            AppendOrigin::Client => (ProducerBatch::data(&header), Origin::Client),
            AppendOrigin::Coordinator if header.is_control() => {
                let bytes = assigned.to_bytes();
                (Batch::parse(&bytes)?.map_or(Ok(None), |batch| producer_batch(&batch))?, Origin::Coordinator)
            }
            AppendOrigin::Coordinator => (ProducerBatch::data(&header), Origin::Coordinator),
        };
        let prepared = self.producers.prepare(batch, origin)?;
        let run = Run {
            first_offset: Some(assigned.first_offset),
            last_offset: assigned.last_offset,
            bytes,
            max_timestamp: (assigned.max_timestamp > Timestamp::NONE).then_some(TimestampOffset {
                timestamp: assigned.max_timestamp,
                offset: assigned.max_timestamp_offset,
            }),
        };
        let rolled = self.roll_if_needed(&run, now)?;
        self.epochs.note_batch(&header);
        self.write(&mut assigned.slices().map(IoSlice::new), &run)?;
        self.written(&run, &[header], prepared)?;
        Ok(self.appended(assigned.first_offset, rolled))
    }

    /// Appends what the leader sent, as it is. A partial entry at the end is left away, as leaders cut
    /// fetched bytes anywhere.
    ///
    /// Checks crc and order of each entry before anything is written. `None` if there is no whole entry.
    pub fn append_as_follower(
        &mut self,
        bytes: &[u8],
        now: Timestamp,
    ) -> Result<Option<Appended>, AppendError> {
        let mut headers = Vec::new();
        let mut producers = Vec::new();
        let mut expected = self.end;
        for batch in Batches::new(bytes) {
            let batch = batch?;
            batch.check_crc()?;
            let header = *batch.header();
            let (first, last) = (header.base_offset, header.last_offset());
            // A batch covers at most 2^31 offsets, so a run of one always fits into a segment.
            if first < expected || last < first || last.0 == i64::MAX {
                return Err(AppendError::OffsetsOutOfOrder { first, last, expected });
            }
            expected = header.next_offset();
            producers.push(producer_batch(&batch)?);
            headers.push(header);
        }
        let Some(first) = headers.first() else { return Ok(None) };
        let first_offset = first.base_offset;
        let (mut rolled, mut position, mut done) = (false, 0, 0);
        while done < headers.len() {
            let (run, count) = self.fitting(&headers[done..]);
            let end = position + run.bytes as usize;
            let producers = producers[done..done + count].iter().copied().flatten();
            let prepared = self.producers.prepare(producers, Origin::Replication)?;
            rolled |= self.roll_if_needed(&run, now)?;
            for header in &headers[done..done + count] {
                self.epochs.note_batch(header);
            }
            self.write(&mut [IoSlice::new(&bytes[position..end])], &run)?;
            self.written(&run, &headers[done..done + count], prepared)?;
            (position, done) = (end, done + count);
        }
        Ok(Some(self.appended(first_offset, rolled)))
    }

    fn appended(&self, first_offset: Offset, rolled: bool) -> Appended {
        Appended {
            first_offset,
            last_offset: self.end.plus(-1),
            duplicate: false,
            rolled,
            flush_due: self.end.0 - self.recovery_point.0 >= self.config.flush_messages,
        }
    }

    /// The most entries from the front, at least one, that one segment takes: leaders may have other limits
    /// than we.
    fn fitting(&self, headers: &[BatchHeader]) -> (Run, usize) {
        let mut run = Run::new();
        let mut count = 0;
        for header in headers {
            let too_big = run.bytes + header.length as u64 > u64::from(self.config.segment_bytes);
            let too_wide = header.last_offset().0 - headers[0].base_offset.0 > i64::from(i32::MAX);
            if count > 0 && (too_big || too_wide) {
                break;
            }
            run.add(header);
            count += 1;
        }
        (run, count)
    }

    /// Rolls if the active segment cannot, or should not, take the run.
    fn roll_if_needed(&mut self, run: &Run, now: Timestamp) -> Result<bool, StorageError> {
        self.ready_for_append()?;
        let segment = self.active_segment();
        let bytes = segment.bytes();
        let too_big = bytes > 0 && bytes + run.bytes > u64::from(self.config.segment_bytes);
        let too_wide = run.last_offset.0 - segment.base().0 > i64::from(i32::MAX);
        let too_old = bytes > 0 && {
            let appended = run.max_timestamp.map_or(Timestamp::NONE, |max| max.timestamp);
            let waited = match self.active.first_timestamp {
                Some(first) if first >= Timestamp(0) => appended.0.saturating_sub(first.0),
                _ => now.0.saturating_sub(self.active.created.0),
            };
            waited > self.config.segment_ms.saturating_sub(self.active.jitter_ms)
        };
        let indexes_full = bytes > 0 && (segment.offset_index.is_full() || segment.time_index.is_full());
        if !(too_big || too_wide || too_old || indexes_full) {
            return Ok(false);
        }
        // Where nothing lies between, so that recovery can tell a gap from lost records. Only offsets that
        // would not fit begin behind a gap; of a legacy message set only the last one is known.
        let first = run.first_offset.unwrap_or(Offset(run.last_offset.0 - i64::from(i32::MAX)));
        let fits = run.last_offset.0 - self.end.0 <= i64::from(i32::MAX);
        self.roll(if fits { self.end } else { first.max(self.end) }, now)?;
        self.ready_for_append()?;
        Ok(true)
    }

    fn write(&mut self, slices: &mut [IoSlice<'_>], run: &Run) -> Result<(), StorageError> {
        self.written = true;
        let segment = self.active_segment();
        let position = segment.bytes();
        assert!(position + run.bytes <= i32::MAX as u64, "positions have 31 bits");
        let log = segment.log()?;
        if let Err(error) = log.write_all_at(slices, position) {
            // Part of it may be there. If cutting fails too, recovery will: the log dir is given up either way.
            let _ = log.truncate(position);
            return Err(error.into());
        }
        Ok(())
    }

    /// Brings everything else up to date with a write.
    fn written(
        &mut self,
        run: &Run,
        headers: &[BatchHeader],
        prepared: Prepared,
    ) -> Result<(), StorageError> {
        let segment = self.active_segment().clone();
        let position = segment.bytes();
        let active = &mut self.active;
        if position == 0 {
            active.first_timestamp = headers.first().map(|header| header.max_timestamp);
        }
        let mut at = position;
        for header in headers {
            if self.recent.len() == RECENT_ENTRIES_MAX {
                self.recent.pop_front();
            }
            self.recent.push_back(RecentEntry {
                base_offset: header.base_offset,
                last_offset: header.last_offset(),
                position: at,
                bytes: header.length as u64,
            });
            at += header.length as u64;
        }
        if at != position + run.bytes {
            // A set of old messages, of which only the first header is known.
            self.recent.clear();
        }
        if let Some(max) = run.max_timestamp
            && active.max_timestamp.is_none_or(|so_far| max.timestamp > so_far.timestamp)
        {
            active.max_timestamp = Some(max);
        }
        if active.bytes_since_index_entry > u64::from(self.config.index_interval_bytes) {
            segment.offset_index.append(run.last_offset, position)?;
            if let Some(max) = active.max_timestamp {
                segment.time_index.append(max)?;
            }
            active.bytes_since_index_entry = 0;
        }
        active.bytes_since_index_entry += run.bytes;
        segment.set_bytes(position + run.bytes);
        for aborted in self.producers.apply(prepared) {
            // The first one makes the file.
            self.name_changes += u64::from(!segment.transaction_index.has_file());
            segment.transaction_index.append(&aborted)?;
        }
        self.set_end(run.last_offset.plus(1));
        Ok(())
    }
}
