//! Taking records away: at the end when a leader's log says so, at the start for DeleteRecords and retention.

use std::path::PathBuf;
use std::sync::Arc;

use ottla_files::{File, Files, Open};
use ottla_model::{Offset, Timestamp};

use crate::log::{Active, Log};
use crate::segment::Segment;
use crate::storage_error::StorageError;

/// Files that have lost their names and wait to be removed, `file.delete.delay.ms` from now. Until then
/// an operator can still get them back.
#[derive(Debug, Default, PartialEq, Eq)]
#[must_use]
pub struct DoomedFiles {
    paths: Vec<PathBuf>,
}

impl DoomedFiles {
    pub fn is_empty(&self) -> bool {
        self.paths.is_empty()
    }

    pub fn remove<F: Files>(self, files: &F) -> Result<(), StorageError> {
        for path in &self.paths {
            match files.remove_file(path) {
                Err(error) if !error.is_not_found() => return Err(error.into()),
                _ => {}
            }
        }
        Ok(())
    }
}

impl<F: Files> Log<F> {
    /// Cuts the log so that it ends at `target` or below: a batch that `target` lies inside goes whole.
    /// Returns the new end.
    ///
    /// The cut is durable on return. The caller must write the log dir's recovery points before it appends
    /// again: the old one may lie above records that are yet to come and are not flushed.
    pub fn truncate_to(&mut self, target: Offset, now: Timestamp) -> Result<Offset, StorageError> {
        if target >= self.end {
            self.epochs.truncate_from_end(target);
            return Ok(self.end);
        }
        let first_base = *self.segments.first_key_value().expect("a log has at least one segment").0;
        if target < first_base {
            self.truncate_fully_and_start_at(target, now)?;
            return Ok(self.end);
        }
        self.begin_truncation();
        // From the end, so that a crash in between leaves no hole.
        let above: Vec<_> = self.segments.range(target.plus(1)..).map(|(base, _)| *base).rev().collect();
        self.remove_segments(&above)?;
        let active = self.active_segment().clone();
        let cut = active.locate(target, active.bytes())?.map_or(active.bytes(), |located| located.position);
        active.offset_index.truncate_to(target, cut)?;
        active.time_index.truncate_to(target)?;
        active.transaction_index.truncate_to(target)?;
        self.cut_log_file(&active, cut)?;
        let end = active.next_offset()?;
        self.active = Active { jitter_ms: self.active.jitter_ms, ..Active::new(now, 0) };
        self.active.max_timestamp = active.largest_timestamp(cut)?;
        self.finish_truncation(end, now)?;
        Ok(end)
    }

    /// Drops all records; the next one gets the offset `start`.
    ///
    /// Durable on return, and with the same duty for the caller as [`truncate_to`](Self::truncate_to).
    pub fn truncate_fully_and_start_at(&mut self, start: Offset, now: Timestamp) -> Result<(), StorageError> {
        self.begin_truncation();
        let all: Vec<_> = self.segments.keys().copied().rev().collect();
        self.remove_segments(&all)?;
        for snapshot in std::mem::take(&mut self.snapshots) {
            self.files.remove_file(&self.snapshot_path(snapshot))?;
        }
        self.epochs.clear();
        self.add_segment(start, now)?;
        self.start = start;
        self.finish_truncation(start, now)
    }

    fn begin_truncation(&mut self) {
        self.written = true;
        self.truncations += 1;
        self.recent.clear();
    }

    /// Removes the files of segments and forgets the segments.
    pub(crate) fn remove_segments(&mut self, bases: &[Offset]) -> Result<(), StorageError> {
        for base in bases {
            if let Some(segment) = Arc::make_mut(&mut self.segments).remove(base) {
                self.name_changes += 1;
                DoomedFiles { paths: segment.mark_deleted()? }.remove(&self.files)?;
                self.snapshots.remove(base);
            }
        }
        Ok(())
    }

    /// Shortens a `.log` file for good. Synced at once: if a crash brought the old bytes back behind new ones
    /// of the same length, they would pass for records that follow them.
    pub(crate) fn cut_log_file(&self, segment: &Segment<F>, bytes: u64) -> Result<(), StorageError> {
        let log = segment.log()?;
        log.truncate(bytes)?;
        log.sync()?;
        segment.set_bytes(bytes);
        Ok(())
    }

    fn finish_truncation(&mut self, end: Offset, now: Timestamp) -> Result<(), StorageError> {
        self.set_end(end);
        self.start = self.start.min(end);
        self.recovery_point = self.recovery_point.min(end);
        self.epochs.truncate_from_end(end);
        for finding in self.rebuild_producers(now)? {
            tracing::warn!(log = %self.directory.display(), "{finding}");
        }
        // At once, not with the next flush: epochs that the file still knows would hide those that replace
        // them from recovery.
        self.files.replace(&self.leader_epoch_path(), self.epochs.text().as_bytes())?;
        self.epochs.written(self.epochs.version());
        self.names_synced = self.name_changes;
        Ok(())
    }

    /// Moves the log start offset up to `start`, for DeleteRecords or because the leader's moved; never back,
    /// never beyond the log's end. Records below it stay on disk until their whole segment can go. Returns
    /// whether it moved.
    ///
    /// The caller has checked `start` against the high watermark, and checkpoints the new value.
    pub fn increment_log_start_offset(&mut self, start: Offset) -> bool {
        let start = start.min(self.end);
        if start <= self.start {
            return false;
        }
        self.start = start;
        self.written = true;
        self.epochs.truncate_from_start(start);
        self.producers.forget_replicated(start);
        true
    }

    /// Deletes the oldest `count` segments, as retention decides; the log start offset moves to the first one
    /// kept.
    ///
    /// If all are to go, an empty one is begun at the log's end first. Reads that are under way go on.
    pub fn delete_oldest_segments(
        &mut self,
        count: usize,
        now: Timestamp,
    ) -> Result<DoomedFiles, StorageError> {
        if count == 0 {
            return Ok(DoomedFiles::default());
        }
        if count >= self.segments.len() && self.active_segment().bytes() > 0 {
            self.roll(self.end, now)?;
        }
        let count = count.min(self.segments.len() - 1);
        let oldest: Vec<_> = self.segments.keys().copied().take(count).collect();
        let kept = *self.segments.keys().nth(count).expect("one segment is kept");
        if self.snapshots.contains(&kept) {
            // What is known of producers by the records that go is from now on known from there only.
            self.files.open(&self.snapshot_path(kept), Open::Write)?.sync()?;
            self.files.sync_directory(&self.directory)?;
        }
        let mut doomed = DoomedFiles::default();
        for base in oldest {
            if let Some(segment) = Arc::make_mut(&mut self.segments).remove(&base) {
                self.name_changes += 1;
                doomed.paths.extend(segment.mark_deleted()?);
                self.snapshots.remove(&base);
            }
        }
        self.written = true;
        self.increment_log_start_offset(kept);
        Ok(doomed)
    }
}
