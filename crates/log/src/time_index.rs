//! The sparse index from timestamps to offsets in a segment: `.timeindex`.
//!
//! ```text
//! entry   i64 timestamp   u32 offset - base      big-endian, timestamps strictly growing, offsets never falling
//! ```
//!
//! An entry (t, o) promises that nothing in the segment up to and including offset o has a timestamp above t;
//! o is the last offset of the batch that holds t.

use std::path::PathBuf;

use ottla_files::{Files, Result};
use ottla_model::{Offset, Timestamp};

use crate::index_file::IndexFile;
use crate::offset_index::relative;

const ENTRY: usize = 12;

/// A timestamp, and the last offset of the batch that has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct TimestampOffset {
    pub timestamp: Timestamp,
    pub offset: Offset,
}

#[derive(Debug)]
pub(crate) struct TimeIndex<F: Files> {
    base: Offset,
    file: IndexFile<F, ENTRY>,
}

impl<F: Files> TimeIndex<F> {
    pub fn new(files: F, path: PathBuf, base: Offset, bytes: u64) -> TimeIndex<F> {
        TimeIndex { base, file: IndexFile::new(files, path, bytes) }
    }

    pub fn file(&self) -> &IndexFile<F, ENTRY> {
        &self.file
    }

    /// Whether the active segment must be rolled before another append: the last slot is kept for the entry
    /// that rolling writes.
    pub fn is_full(&self) -> bool {
        self.file.room() <= 1
    }

    /// The last entry at or below `target`; the start of the segment if there is none.
    pub fn lookup(&self, target: Timestamp) -> Result<TimestampOffset> {
        self.file.with(|entries| {
            let above = entries.partition_point(|entry| self.parse(entry).timestamp <= target);
            match above.checked_sub(1) {
                Some(found) => self.parse(&entries[found]),
                None => TimestampOffset { timestamp: Timestamp::NONE, offset: self.base },
            }
        })
    }

    pub fn last(&self) -> Result<Option<TimestampOffset>> {
        Ok(self.file.last()?.map(|entry| self.parse(&entry)))
    }

    /// Adds an entry unless the timestamp is not above the last one, there is no room, or the offset does not
    /// fit.
    pub fn append(&self, entry: TimestampOffset) -> Result<()> {
        let Some(relative) = relative(self.base, entry.offset) else { return Ok(()) };
        let last = self.last()?;
        if self.file.room() == 0
            || entry.timestamp <= last.map_or(Timestamp::NONE, |last| last.timestamp)
            || last.is_some_and(|last| entry.offset < last.offset)
        {
            return Ok(());
        }
        let mut bytes = [0; ENTRY];
        bytes[..8].copy_from_slice(&entry.timestamp.0.to_be_bytes());
        bytes[8..].copy_from_slice(&relative.to_be_bytes());
        self.file.append(bytes);
        Ok(())
    }

    /// Forgets entries at or above `offset`.
    pub fn truncate_to(&self, offset: Offset) -> Result<()> {
        let kept =
            self.file.with(|entries| entries.partition_point(|entry| self.parse(entry).offset < offset))?;
        self.file.truncate(kept);
        Ok(())
    }

    fn parse(&self, entry: &[u8; ENTRY]) -> TimestampOffset {
        let [a, b, c, d, e, f, g, h, i, j, k, l] = *entry;
        TimestampOffset {
            timestamp: Timestamp(i64::from_be_bytes([a, b, c, d, e, f, g, h])),
            offset: self.base.plus(i64::from(u32::from_be_bytes([i, j, k, l]))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_files::HostileDisk;
    use std::path::Path;

    fn index(entries: &[(i64, i64)]) -> (HostileDisk, TimeIndex<HostileDisk>) {
        let disk = HostileDisk::new(0);
        let index = TimeIndex::new(disk.clone(), "/t".into(), Offset(100), 0);
        index.file().grow(48).unwrap();
        for (timestamp, offset) in entries {
            index
                .append(TimestampOffset { timestamp: Timestamp(*timestamp), offset: Offset(*offset) })
                .unwrap();
        }
        (disk, index)
    }

    #[test]
    fn bytes_are_kafkas() {
        let (disk, index) = index(&[(1_700_000_000_000, 150)]);
        index.file().trim().unwrap();
        assert_eq!(
            disk.read(Path::new("/t"), 100).unwrap(),
            [0, 0, 0x01, 0x8b, 0xcf, 0xe5, 0x68, 0, 0, 0, 0, 0x32]
        );
    }

    #[test]
    fn only_growing_timestamps_are_kept() {
        let (_, index) = index(&[(10, 110), (10, 120), (9, 130), (11, 140)]);
        assert_eq!(index.file().with(<[_]>::len).unwrap(), 2);
        for (why, target, offset) in [
            ("before the first", 9, 100),
            ("the first", 10, 110),
            ("the last", 11, 140),
            ("after the last", i64::MAX, 140),
        ] {
            assert_eq!(index.lookup(Timestamp(target)).unwrap().offset, Offset(offset), "{why}");
        }
    }

    #[test]
    fn records_without_timestamps_are_not_indexed() {
        let (_, index) = index(&[(-1, 110)]);
        assert_eq!(index.last().unwrap(), None);
    }

    #[test]
    fn the_last_slot_is_kept_for_the_roll() {
        let (_, index) = index(&[(1, 101), (2, 102)]);
        assert!(!index.is_full());
        index.append(TimestampOffset { timestamp: Timestamp(3), offset: Offset(103) }).unwrap();
        assert!(index.is_full());
        index.append(TimestampOffset { timestamp: Timestamp(4), offset: Offset(104) }).unwrap();
        assert_eq!(index.last().unwrap().unwrap().timestamp, Timestamp(4));
    }

    #[test]
    fn truncation_forgets_entries_at_and_above() {
        let (_, index) = index(&[(1, 101), (2, 102)]);
        index.truncate_to(Offset(102)).unwrap();
        assert_eq!(index.last().unwrap().unwrap().offset, Offset(101));
    }
}
