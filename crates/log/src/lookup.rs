//! Finding offsets by time.

use std::sync::Arc;

use ottla_files::{File, Files};
use ottla_model::{LeaderEpoch, Offset, Timestamp};

use crate::layout::FileKind;
use crate::log::Log;
use crate::segment::{Segment, Segments};
use crate::storage_error::StorageError;
use crate::time_index::TimestampOffset;

/// A record found by its timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FoundTimestamp {
    pub timestamp: Timestamp,
    pub offset: Offset,
    /// `None` for records from before leader epochs were written (magic 0 and 1).
    pub leader_epoch: Option<LeaderEpoch>,
}

/// A lookup by time; made while the log is held, run without it, as [`ReadPlan`](crate::ReadPlan).
#[derive(Debug)]
pub struct TimestampPlan<F: Files> {
    segments: Arc<Segments<F>>,
    log_start: Offset,
    active_bytes: u64,
    active_max: Option<TimestampOffset>,
}

impl<F: Files> Log<F> {
    pub fn plan_timestamp_lookup(&self) -> TimestampPlan<F> {
        TimestampPlan {
            segments: self.segments.clone(),
            log_start: self.start,
            active_bytes: self.active_segment().bytes(),
            active_max: self.active.max_timestamp,
        }
    }

    /// Where each segment begins (but not before the log's start) and when it was last written to, the oldest
    /// first: what ListOffsets version 0 goes by.
    pub fn segment_times(&self) -> Result<Vec<(Offset, Timestamp)>, StorageError> {
        self.segments
            .values()
            .map(|segment| Ok((segment.base().max(self.start), Timestamp(segment.log()?.modified_ms()?))))
            .collect()
    }
}

impl<F: Files> TimestampPlan<F> {
    /// The first record whose timestamp is `target` or later. Looks into batches, also compressed ones, for
    /// which it takes up to `decompressed_bytes_max` bytes of memory.
    pub fn first_from(
        &self,
        target: Timestamp,
        decompressed_bytes_max: usize,
    ) -> Result<Option<FoundTimestamp>, StorageError> {
        let first =
            self.segments.range(..=self.log_start).next_back().map_or(Offset::ZERO, |(base, _)| *base);
        for (_, segment) in self.segments.range(first..) {
            if self.largest_timestamp(segment)?.is_none_or(|largest| largest.timestamp < target) {
                continue;
            }
            if let Some(found) = self.first_in(segment, target, decompressed_bytes_max)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// The first record that has the largest timestamp of all (KIP-734).
    pub fn max_timestamp(
        &self,
        decompressed_bytes_max: usize,
    ) -> Result<Option<FoundTimestamp>, StorageError> {
        let mut largest = None;
        for segment in self.segments.values() {
            let found = self.largest_timestamp(segment)?.map(|largest| largest.timestamp);
            largest = largest.max(found);
        }
        match largest {
            Some(largest) => self.first_from(largest, decompressed_bytes_max),
            None => Ok(None),
        }
    }

    fn is_active(&self, segment: &Segment<F>) -> bool {
        self.segments.last_key_value().is_some_and(|(base, _)| *base == segment.base())
    }

    fn largest_timestamp(&self, segment: &Segment<F>) -> Result<Option<TimestampOffset>, StorageError> {
        if !self.is_active(segment) {
            return segment.closed_largest_timestamp();
        }
        match self.active_max {
            Some(max) => Ok(Some(max)),
            None => segment.largest_timestamp(self.active_bytes),
        }
    }

    fn first_in(
        &self,
        segment: &Segment<F>,
        target: Timestamp,
        decompressed_bytes_max: usize,
    ) -> Result<Option<FoundTimestamp>, StorageError> {
        let end = if self.is_active(segment) { self.active_bytes } else { segment.bytes() };
        let after = segment.time_index.lookup(target)?.offset.max(self.log_start);
        let start = u64::from(segment.offset_index.lookup(after)?.position);
        let mut headers = segment.headers(if start < end { start } else { 0 }, end);
        let mut buffer = Vec::new();
        while let Some(located) = headers.next()? {
            let header = located.header;
            if header.max_timestamp < target || header.last_offset() < self.log_start {
                continue;
            }
            let batch = segment.read_entry(&located, &mut buffer)?;
            let unreadable = |reason| StorageError::CorruptRecords {
                path: segment.path(FileKind::Log),
                position: located.position,
                reason,
            };
            let records = batch.records(decompressed_bytes_max).map_err(unreadable)?;
            for record in records.iter().map_err(unreadable)? {
                let record = record.map_err(unreadable)?;
                if record.timestamp >= target && record.offset >= self.log_start {
                    return Ok(Some(FoundTimestamp {
                        timestamp: record.timestamp,
                        offset: record.offset,
                        leader_epoch: Some(header.leader_epoch).filter(|epoch| *epoch >= LeaderEpoch(0)),
                    }));
                }
            }
        }
        Ok(None)
    }
}
