//! Making appended records survive a crash of the machine, and closing.

use std::path::PathBuf;
use std::sync::Arc;

use ottla_files::{File, Files, Open};
use ottla_model::{Offset, Timestamp};

use crate::layout::PARTITION_METADATA;
use crate::log::Log;
use crate::segment::Segment;
use crate::storage_error::StorageError;

/// A flush that is decided and has yet to be [run](Flush::run), without holding the log. Everything appended
/// before it was begun becomes durable, so appends that wait for the disk can share one. Flushes of one log
/// must run one after the other.
#[derive(Debug)]
pub struct Flush<F: Files> {
    files: F,
    /// From the one that holds the recovery point on.
    closed: Vec<Arc<Segment<F>>>,
    active: Arc<Segment<F>>,
    /// Whether the active segment's indexes are synced too. Before it is closed nobody needs that: recovery
    /// writes the indexes of the recovery point's segment anew, so an fsync per append is one file's, not
    /// three.
    indexes: bool,
    small_files: Vec<PathBuf>,
    /// Those in which names came or went.
    directories: Vec<PathBuf>,
    leader_epochs: Option<(PathBuf, String)>,
    flushed: Flushed,
}

/// What a flush has reached; goes back into [`Log::finish_flush`].
#[derive(Debug, Clone, Copy)]
#[must_use]
pub struct Flushed {
    end_offset: Offset,
    active_base: Offset,
    truncations: u64,
    name_changes: u64,
    leader_epochs: u64,
    topic_id: bool,
}

impl<F: Files> Flush<F> {
    /// Everything below survives a crash once the flush has run.
    pub fn end_offset(&self) -> Offset {
        self.flushed.end_offset
    }

    /// Syncs. A failure must not be tried again: the system may have dropped what it could not write, and would
    /// report success the next time.
    pub fn run(self) -> Result<Flushed, StorageError> {
        for segment in &self.closed {
            segment.sync()?;
        }
        if self.indexes {
            self.active.sync()?;
        } else {
            self.active.log()?.sync()?;
        }
        for path in &self.small_files {
            match self.files.open(path, Open::Write) {
                Ok(file) => file.sync()?,
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        if let Some((path, text)) = &self.leader_epochs {
            self.files.replace(path, text.as_bytes())?;
        }
        for directory in &self.directories {
            self.files.sync_directory(directory)?;
        }
        Ok(self.flushed)
    }
}

impl<F: Files> Log<F> {
    /// Whether `flush.ms` asks for a flush.
    pub fn flush_due(&self, now: Timestamp) -> bool {
        self.recovery_point < self.end && now.0.saturating_sub(self.last_flush.0) >= self.config.flush_ms
    }

    /// Begins to flush everything appended so far.
    pub fn begin_flush(&self) -> Flush<F> {
        let first =
            self.segments.range(..=self.recovery_point).next_back().map_or(Offset::ZERO, |(base, _)| *base);
        let active = self.active_segment().clone();
        let closed = self.segments.range(first..active.base()).map(|(_, segment)| segment.clone()).collect();
        let snapshots = self.snapshots.range(self.recovery_point..);
        let mut small_files: Vec<_> = snapshots.map(|offset| self.snapshot_path(*offset)).collect();
        if self.topic_id_unsynced {
            small_files.push(self.path(PARTITION_METADATA));
        }
        let mut directories = Vec::new();
        if self.name_changes != self.names_synced {
            directories.push(self.directory.to_path_buf());
        }
        if let (true, Some(parent)) = (self.name_unsynced, self.directory.parent()) {
            directories.push(parent.to_path_buf());
        }
        Flush {
            files: self.files.clone(),
            closed,
            indexes: false,
            small_files,
            directories,
            leader_epochs: self.epochs.is_changed().then(|| (self.leader_epoch_path(), self.epochs.text())),
            flushed: Flushed {
                end_offset: self.end,
                active_base: active.base(),
                truncations: self.truncations,
                name_changes: self.name_changes,
                leader_epochs: self.epochs.version(),
                topic_id: self.topic_id_unsynced,
            },
            active,
        }
    }

    /// Moves the recovery point to where a flush has reached.
    pub fn finish_flush(&mut self, flushed: Flushed, now: Timestamp) {
        if flushed.truncations != self.truncations {
            return;
        }
        let mut reached = flushed.end_offset;
        if let Some((next_base, _)) = self.segments.range(flushed.active_base.plus(1)..).next() {
            // The segment was closed meanwhile. The recovery point must not leave it before its indexes are
            // synced too.
            reached = reached.min(next_base.plus(-1));
        }
        self.recovery_point = self.recovery_point.max(reached);
        self.names_synced = flushed.name_changes;
        self.name_unsynced = false;
        self.topic_id_unsynced &= !flushed.topic_id;
        self.epochs.written(flushed.leader_epochs);
        self.last_flush = now;
    }

    /// Flushes everything appended so far, in one go.
    pub fn flush(&mut self, now: Timestamp) -> Result<(), StorageError> {
        let flushed = self.begin_flush().run()?;
        self.finish_flush(flushed, now);
        Ok(())
    }
}

/// What the log dir's checkpoints keep of a closed log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Closed {
    /// The log end offset, as everything was flushed.
    pub recovery_point: Offset,
    pub log_start_offset: Offset,
}

impl<F: Files> Log<F> {
    /// Closes the log so that it can be opened again without looking at its records: everything is flushed,
    /// indexes are trimmed, producer state is written. A log that nothing was written to is left as it is.
    pub fn close(mut self, now: Timestamp) -> Result<Closed, StorageError> {
        if self.written {
            let active = self.active_segment().clone();
            self.finish_segment(&active)?;
            self.take_producer_snapshot(self.end)?;
            let flush = Flush { indexes: true, ..self.begin_flush() };
            let flushed = flush.run()?;
            self.finish_flush(flushed, now);
        }
        Ok(Closed { recovery_point: self.recovery_point, log_start_offset: self.start })
    }
}
