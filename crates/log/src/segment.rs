//! One segment: a `.log` file of entries and the indexes into it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use ottla_files::{File, Files, Open};
use ottla_model::{Offset, Timestamp};
use ottla_protocol::records::{Batch, BatchHeader, HEADER_LENGTH};

use crate::layout::{FileKind, FileName, FileState};
use crate::offset_index::OffsetIndex;
use crate::storage_error::StorageError;
use crate::time_index::{TimeIndex, TimestampOffset};
use crate::transaction_index::TransactionIndex;

/// The segments of a log by base offset; never empty. Readers keep a snapshot while the log goes on.
pub(crate) type Segments<F> = BTreeMap<Offset, Arc<Segment<F>>>;

/// Lengths of the files of a segment, as a directory listing tells them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct SegmentBytes {
    pub log: u64,
    /// `None` if there is no such file, which calls for recovery.
    pub offset_index: Option<u64>,
    pub time_index: u64,
    pub transaction_index: u64,
}

/// What readers and the appender share of a segment. Opening files and mapping indexes waits until somebody
/// asks.
#[derive(Debug)]
pub(crate) struct Segment<F: Files> {
    base: Offset,
    files: F,
    directory: Arc<Path>,
    log: OnceLock<Arc<F::File>>,
    /// End of the last whole entry; what lies behind it in the file is not there.
    bytes: AtomicU64,
    has_offset_index: bool,
    pub offset_index: OffsetIndex<F>,
    pub time_index: TimeIndex<F>,
    pub transaction_index: TransactionIndex<F>,
}

/// An entry of a segment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Located {
    pub position: u64,
    pub header: BatchHeader,
}

impl Located {
    pub fn end(&self) -> u64 {
        self.position + self.header.length as u64
    }
}

impl<F: Files> Segment<F> {
    /// A segment whose files are there.
    pub fn new(files: F, directory: Arc<Path>, base: Offset, bytes: SegmentBytes) -> Segment<F> {
        let path = |kind| directory.join(FileName::new(base, kind).to_string());
        Segment {
            base,
            log: OnceLock::new(),
            bytes: AtomicU64::new(bytes.log),
            has_offset_index: bytes.offset_index.is_some(),
            offset_index: OffsetIndex::new(
                files.clone(),
                path(FileKind::OffsetIndex),
                base,
                bytes.offset_index.unwrap_or(0),
            ),
            time_index: TimeIndex::new(files.clone(), path(FileKind::TimeIndex), base, bytes.time_index),
            transaction_index: TransactionIndex::new(
                files.clone(),
                path(FileKind::TransactionIndex),
                bytes.transaction_index,
            ),
            files,
            directory,
        }
    }

    /// Makes the files of an empty segment, `preallocate` bytes long; whatever had their names is gone.
    pub fn create(
        files: F,
        directory: Arc<Path>,
        base: Offset,
        preallocate: u64,
    ) -> Result<Segment<F>, StorageError> {
        let segment = Segment::new(files, directory, base, SegmentBytes::default());
        match segment.files.remove_file(&segment.path(FileKind::TransactionIndex)) {
            Err(error) if !error.is_not_found() => return Err(error.into()),
            _ => {}
        }
        let log = segment.files.open(&segment.path(FileKind::Log), Open::Truncate)?;
        if preallocate > 0 {
            log.truncate(preallocate)?;
        }
        segment.log.get_or_init(|| Arc::new(log));
        segment.files.open(&segment.path(FileKind::OffsetIndex), Open::Truncate)?;
        segment.files.open(&segment.path(FileKind::TimeIndex), Open::Truncate)?;
        Ok(segment)
    }

    pub fn base(&self) -> Offset {
        self.base
    }

    /// Whether the offset index was there when the segment was opened.
    pub fn has_offset_index(&self) -> bool {
        self.has_offset_index
    }

    /// Whether the end of the offset index agrees with the length of the log. An index that was left at full
    /// size ends in zeros, which cannot be an entry: the start of a segment is never indexed.
    pub fn offset_index_fits(&self) -> Result<bool, StorageError> {
        Ok(self.offset_index.last()?.is_none_or(|last| {
            last.position > 0 && u64::from(last.position) < self.bytes() && last.offset >= self.base
        }))
    }

    pub fn path(&self, kind: FileKind) -> PathBuf {
        self.directory.join(FileName::new(self.base, kind).to_string())
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Acquire)
    }

    /// Tells readers how far the entries reach.
    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Release);
    }

    /// The `.log` file, opened for reading and writing.
    pub fn log(&self) -> Result<&Arc<F::File>, StorageError> {
        if let Some(file) = self.log.get() {
            return Ok(file);
        }
        let file = Arc::new(self.files.open(&self.path(FileKind::Log), Open::Write)?);
        Ok(self.log.get_or_init(|| file))
    }

    /// Opens what readers may still need once the files have lost their names.
    pub fn hold(&self) -> Result<(), StorageError> {
        self.log()?;
        self.offset_index.file().with(|_| ())?;
        self.time_index.file().with(|_| ())?;
        self.transaction_index.hold()?;
        Ok(())
    }

    /// Renames the files to `*.deleted`; returns their new paths, to be removed once no reader can need them.
    pub fn mark_deleted(&self) -> Result<Vec<PathBuf>, StorageError> {
        self.hold()?;
        let mut doomed = Vec::new();
        for kind in FileKind::ALL {
            let name = FileName::new(self.base, kind);
            let to = self.directory.join(name.in_state(FileState::Deleted).to_string());
            match self.files.rename(&self.path(kind), &to) {
                Ok(()) => doomed.push(to),
                Err(error) if error.is_not_found() => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(doomed)
    }

    /// Walks the headers of the entries from `position`, which must be the start of one, up to `end`.
    pub fn headers(&self, position: u64, end: u64) -> Headers<'_, F> {
        Headers { segment: self, position, end, window: [0; WINDOW], window_start: 0, window_bytes: 0 }
    }

    /// The first entry before `end` whose last offset is `target` or above.
    pub fn locate(&self, target: Offset, end: u64) -> Result<Option<Located>, StorageError> {
        let start = u64::from(self.offset_index.lookup(target)?.position);
        match self.locate_from(start, target, end) {
            // The index may be what is wrong, or newer than the reader's end. Walking everything tells.
            Err(error) if error.is_damage() && start > 0 => self.locate_from(0, target, end),
            Ok(None) if start >= end => self.locate_from(0, target, end),
            located => located,
        }
    }

    fn locate_from(&self, start: u64, target: Offset, end: u64) -> Result<Option<Located>, StorageError> {
        let mut headers = self.headers(start, end);
        while let Some(located) = headers.next()? {
            if located.header.last_offset() >= target {
                return Ok(Some(located));
            }
        }
        Ok(None)
    }

    /// The offset after the last entry: from the last index entry on, the headers are walked.
    pub fn next_offset(&self) -> Result<Offset, StorageError> {
        let end = self.bytes();
        let start = self.offset_index.last()?.map_or(0, |last| u64::from(last.position));
        let mut headers = self.headers(if start < end { start } else { 0 }, end);
        let mut expected = self.base;
        while let Some(Located { position, header }) = headers.next()? {
            let (first, last) = (header.base_offset, header.last_offset());
            if first < expected || last < first {
                let path = self.path(FileKind::Log);
                return Err(StorageError::OutOfOrder { path, position, first, last, expected });
            }
            expected = header.next_offset();
        }
        Ok(expected)
    }

    /// Timestamp of the first entry, what rolling by time counts from.
    pub fn first_timestamp(&self) -> Result<Option<Timestamp>, StorageError> {
        Ok(self.headers(0, self.bytes()).next()?.map(|located| located.header.max_timestamp))
    }

    /// The largest timestamp before `end`, and the last offset of the batch that has it: the time index knows
    /// it up to its last entry, from there on headers are walked. `None` if no record has a timestamp.
    pub fn largest_timestamp(&self, end: u64) -> Result<Option<TimestampOffset>, StorageError> {
        let indexed = self.time_index.last()?;
        let mut largest = indexed;
        let start =
            indexed.map_or(Ok(0), |last| self.offset_index.lookup(last.offset).map(|at| at.position))?;
        let mut headers = self.headers(u64::from(start), end);
        while let Some(Located { header, .. }) = headers.next()? {
            if header.max_timestamp > largest.map_or(Timestamp::NONE, |so_far| so_far.timestamp) {
                largest =
                    Some(TimestampOffset { timestamp: header.max_timestamp, offset: header.last_offset() });
            }
        }
        Ok(largest)
    }

    /// The largest timestamp of a segment that is appended to no more. Closing it wrote it as the last entry
    /// of the time index; only where there is none, as in segments of Kafka 0.8 to 0.10.0, headers are
    /// walked.
    pub fn closed_largest_timestamp(&self) -> Result<Option<TimestampOffset>, StorageError> {
        match self.time_index.last()? {
            Some(last) => Ok(Some(last)),
            None => self.largest_timestamp(self.bytes()),
        }
    }

    /// Reads a whole entry into `buffer`.
    pub fn read_entry<'b>(
        &self,
        located: &Located,
        buffer: &'b mut Vec<u8>,
    ) -> Result<Batch<'b>, StorageError> {
        // The length was held against the end of the file before the header was handed out.
        buffer.resize(located.header.length, 0);
        self.log()?.read_exact_at(buffer, located.position)?;
        let corrupt = |reason| StorageError::CorruptEntry {
            path: self.path(FileKind::Log),
            position: located.position,
            reason,
        };
        let torn = || StorageError::TornEntry {
            path: self.path(FileKind::Log),
            position: located.position,
            end: located.end(),
        };
        let batch = Batch::parse(buffer).map_err(corrupt)?.ok_or_else(torn)?;
        batch.check_crc().map_err(corrupt)?;
        Ok(batch)
    }

    /// Cuts indexes to their entries and the log to its end: nothing is appended here any more.
    pub fn trim(&self) -> Result<(), StorageError> {
        self.offset_index.file().trim()?;
        self.time_index.file().trim()?;
        let log = self.log()?;
        if log.bytes()? != self.bytes() {
            log.truncate(self.bytes())?;
        }
        Ok(())
    }

    /// Makes entries and indexes survive a crash.
    pub fn sync(&self) -> Result<(), StorageError> {
        self.log()?.sync()?;
        self.offset_index.file().sync()?;
        self.time_index.file().sync()?;
        self.transaction_index.sync()?;
        Ok(())
    }
}

/// Bytes that a header walk reads at a time. The indexes leave about as many to be walked, so most walks are
/// one read.
const WINDOW: usize = 4096;

/// Walks headers without reading, or allocating for, what lies between them.
pub(crate) struct Headers<'s, F: Files> {
    segment: &'s Segment<F>,
    position: u64,
    end: u64,
    window: [u8; WINDOW],
    window_start: u64,
    window_bytes: usize,
}

impl<F: Files> Headers<'_, F> {
    /// The next entry; `None` at the end. After an error there is no way on.
    pub fn next(&mut self) -> Result<Option<Located>, StorageError> {
        if self.position >= self.end {
            return Ok(None);
        }
        let wanted = HEADER_LENGTH.min((self.end - self.position) as usize);
        let in_window = self.position >= self.window_start
            && self.position + wanted as u64 <= self.window_start + self.window_bytes as u64;
        if !in_window {
            let bytes = WINDOW.min((self.end - self.position) as usize);
            self.window_bytes = self.segment.log()?.read_at(&mut self.window[..bytes], self.position)?;
            self.window_start = self.position;
        }
        let from = (self.position - self.window_start) as usize;
        let position = self.position;
        let header = BatchHeader::parse(&self.window[from..self.window_bytes]).map_err(|reason| {
            StorageError::CorruptEntry { path: self.segment.path(FileKind::Log), position, reason }
        })?;
        match header {
            Some(header) if header.length as u64 <= self.end - position => {
                self.position += header.length as u64;
                Ok(Some(Located { position, header }))
            }
            _ => Err(StorageError::TornEntry {
                path: self.segment.path(FileKind::Log),
                position,
                end: self.end,
            }),
        }
    }
}
