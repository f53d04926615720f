//! Reading by offset: regions of files, for somebody else to send.

use std::sync::Arc;

use ottla_files::Files;
use ottla_model::Offset;
use ottla_protocol::ErrorCode;

use crate::log::{Log, RecentEntry};
use crate::segment::{Segment, Segments};
use crate::storage_error::StorageError;
use crate::transaction_index::AbortedTransaction;

/// Bytes of one file. The file stays readable even if retention deletes the segment meanwhile.
#[derive(Debug)]
pub struct Region<F: Files> {
    pub file: Arc<F::File>,
    pub position: u64,
    pub bytes: u64,
}

impl<F: Files> Clone for Region<F> {
    fn clone(&self) -> Self {
        Region { file: self.file.clone(), position: self.position, bytes: self.bytes }
    }
}

/// What was found.
#[derive(Debug)]
pub struct Read<F: Files> {
    /// Whole entries from the one that holds the offset on; the last one may be cut. `None` if there is
    /// nothing below the upper bound.
    pub region: Option<Region<F>>,
    /// Bytes of the first entry, so that a caller can tell whether a region that was cut holds it whole.
    pub first_entry_bytes: u64,
    segment: Option<Arc<Segment<F>>>,
}

impl<F: Files> Read<F> {
    fn empty() -> Read<F> {
        Read { region: None, first_entry_bytes: 0, segment: None }
    }

    pub fn bytes(&self) -> u64 {
        self.region.as_ref().map_or(0, |region| region.bytes)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("offset {offset} is not between the log's start {start} and its end {end}")]
    OffsetOutOfRange { offset: Offset, start: Offset, end: Offset },
    #[error(transparent)]
    Storage(#[from] StorageError),
}

impl ReadError {
    pub fn code(&self) -> ErrorCode {
        match self {
            ReadError::OffsetOutOfRange { .. } => ErrorCode::OffsetOutOfRange,
            ReadError::Storage(error) => error.code(),
        }
    }
}

/// A read that is decided but for looking at the disk. It is made while the log is held and costs no system
/// call; it [runs](ReadPlan::run) without the log, while others append.
#[derive(Debug)]
pub struct ReadPlan<F: Files> {
    segments: Arc<Segments<F>>,
    offset: Offset,
    upper_bound: Offset,
    log_start: Offset,
    log_end: Offset,
    /// Where the active segment ended.
    active_bytes: u64,
    /// What is known already, of entries near the end of the log.
    start: Option<RecentEntry>,
    end: Option<u64>,
}

/// Where a read begins.
struct Start<'p, F: Files> {
    segment: &'p Arc<Segment<F>>,
    position: u64,
    first_entry_bytes: u64,
}

impl<F: Files> Log<F> {
    /// Plans to read from `offset` up to `upper_bound`, which is excluded: the high watermark, the last
    /// stable offset, or the log end offset.
    ///
    /// `offset` may be the log end offset (nothing there yet), but not lie above it, nor below the log start
    /// offset.
    pub fn plan_read(&self, offset: Offset, upper_bound: Offset) -> Result<ReadPlan<F>, ReadError> {
        if offset < self.start || offset > self.end {
            return Err(ReadError::OffsetOutOfRange { offset, start: self.start, end: self.end });
        }
        let is_recent = |offset| self.recent.front().is_some_and(|first| first.base_offset <= offset);
        let find = |offset| self.recent.partition_point(|entry| entry.last_offset < offset);
        let start = is_recent(offset).then(|| self.recent.get(find(offset)).copied()).flatten();
        let end = is_recent(upper_bound)
            .then(|| self.recent.get(find(upper_bound)).map(|entry| entry.position))
            .flatten();
        Ok(ReadPlan {
            segments: self.segments.clone(),
            offset,
            upper_bound: upper_bound.min(self.end),
            log_start: self.start,
            log_end: self.end,
            active_bytes: self.active_segment().bytes(),
            start,
            end,
        })
    }

    /// Plans and runs a read.
    pub fn read(
        &self,
        offset: Offset,
        upper_bound: Offset,
        bytes_max: u64,
        min_one: bool,
    ) -> Result<Read<F>, ReadError> {
        Ok(self.plan_read(offset, upper_bound)?.run(bytes_max, min_one)?)
    }
}

impl<F: Files> ReadPlan<F> {
    pub fn log_start_offset(&self) -> Offset {
        self.log_start
    }

    pub fn log_end_offset(&self) -> Offset {
        self.log_end
    }

    /// Finds the region: it starts at the entry that holds the offset, or the next one if compaction has
    /// removed it, and ends before the upper bound, or after `bytes_max` bytes.
    ///
    /// With `min_one` the first entry is whole even if it is larger than `bytes_max`.
    pub fn run(&self, bytes_max: u64, min_one: bool) -> Result<Read<F>, StorageError> {
        if self.offset >= self.upper_bound {
            return Ok(Read::empty());
        }
        let Some(Start { segment, position, first_entry_bytes }) = self.locate_start()? else {
            return Ok(Read::empty());
        };
        let end = self.locate_end(segment)?;
        if position >= end {
            return Ok(Read::empty());
        }
        let bytes_max = if min_one { bytes_max.max(first_entry_bytes) } else { bytes_max };
        let bytes = (end - position).min(bytes_max);
        if bytes == 0 {
            return Ok(Read::empty());
        }
        let region = Region { file: segment.log()?.clone(), position, bytes };
        Ok(Read { region: Some(region), first_entry_bytes, segment: Some(segment.clone()) })
    }

    /// The transactions whose aborted records lie in what was read.
    ///
    /// May name some that lie just behind it; a consumer that sees no record of them ignores them.
    pub fn aborted_transactions(&self, read: &Read<F>) -> Result<Vec<AbortedTransaction>, StorageError> {
        let (Some(segment), Some(region)) = (&read.segment, &read.region) else { return Ok(Vec::new()) };
        let indexed = segment.offset_index.first_from_position(region.position + region.bytes)?;
        let next = self.segments.range(segment.base().plus(1)..).next();
        let upper = indexed.map(|entry| entry.offset).or(next.map(|(base, _)| *base)).unwrap_or(self.log_end);
        let mut found = Vec::new();
        for (_, segment) in self.segments.range(segment.base()..) {
            if segment.transaction_index.collect(self.offset, upper, &mut found)? {
                break;
            }
        }
        Ok(found)
    }

    fn end_of(&self, segment: &Segment<F>) -> u64 {
        if self.is_active(segment) { self.active_bytes } else { segment.bytes() }
    }

    fn is_active(&self, segment: &Segment<F>) -> bool {
        self.segments.last_key_value().is_some_and(|(base, _)| *base == segment.base())
    }

    /// The first entry that ends at or above the offset.
    fn locate_start(&self) -> Result<Option<Start<'_, F>>, StorageError> {
        if let (Some(entry), Some((_, active))) = (self.start, self.segments.last_key_value()) {
            let (position, first_entry_bytes) = (entry.position, entry.bytes);
            return Ok(Some(Start { segment: active, position, first_entry_bytes }));
        }
        let below = self.segments.range(..=self.offset).next_back().map_or(Offset::ZERO, |(base, _)| *base);
        for (_, segment) in self.segments.range(below..) {
            if let Some(located) = segment.locate(self.offset, self.end_of(segment))? {
                let (position, first_entry_bytes) = (located.position, located.header.length as u64);
                return Ok(Some(Start { segment, position, first_entry_bytes }));
            }
        }
        Ok(None)
    }

    /// Where entries at or above the upper bound begin in a segment, or where it ends.
    fn locate_end(&self, segment: &Segment<F>) -> Result<u64, StorageError> {
        let end = self.end_of(segment);
        let next_base = self.segments.range(segment.base().plus(1)..).next().map(|(base, _)| *base);
        if self.upper_bound >= next_base.unwrap_or(self.log_end) {
            return Ok(end);
        }
        if let (Some(position), true) = (self.end, self.is_active(segment)) {
            return Ok(position);
        }
        Ok(segment.locate(self.upper_bound, end)?.map_or(end, |located| located.position))
    }
}
