//! The sparse index from offsets to positions in a segment: `.index`.
//!
//! ```text
//! entry   u32 offset - base   u32 position        big-endian, offsets strictly growing
//! ```
//!
//! The offset is the last one of the append (or, after a rebuild, of the batch) that starts at the position;
//! Kafka 0.8 to 1.1 wrote the first one. Either way the position is a good place to scan on from.

use std::path::PathBuf;

use ottla_files::{Files, Result};
use ottla_model::Offset;

use crate::index_file::IndexFile;

const ENTRY: usize = 8;

/// An offset, and where in the segment to scan for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct OffsetPosition {
    pub offset: Offset,
    pub position: u32,
}

#[derive(Debug)]
pub(crate) struct OffsetIndex<F: Files> {
    base: Offset,
    file: IndexFile<F, ENTRY>,
}

impl<F: Files> OffsetIndex<F> {
    pub fn new(files: F, path: PathBuf, base: Offset, bytes: u64) -> OffsetIndex<F> {
        OffsetIndex { base, file: IndexFile::new(files, path, bytes) }
    }

    pub fn file(&self) -> &IndexFile<F, ENTRY> {
        &self.file
    }

    /// Whether the active segment must be rolled before another append.
    pub fn is_full(&self) -> bool {
        self.file.room() == 0
    }

    /// The last entry at or below `target`; the start of the segment if there is none.
    pub fn lookup(&self, target: Offset) -> Result<OffsetPosition> {
        self.file.with(|entries| {
            let above = entries.partition_point(|entry| self.parse(entry).offset <= target);
            match above.checked_sub(1) {
                Some(found) => self.parse(&entries[found]),
                None => OffsetPosition { offset: self.base, position: 0 },
            }
        })
    }

    /// The first entry that starts at or after `position`.
    pub fn first_from_position(&self, position: u64) -> Result<Option<OffsetPosition>> {
        self.file.with(|entries| {
            let found = entries.partition_point(|entry| u64::from(self.parse(entry).position) < position);
            entries.get(found).map(|entry| self.parse(entry))
        })
    }

    pub fn last(&self) -> Result<Option<OffsetPosition>> {
        Ok(self.file.last()?.map(|entry| self.parse(&entry)))
    }

    /// Adds an entry. What cannot be indexed is found by scanning, so nothing is added when there is no room,
    /// when offset or position do not fit (KAFKA-5413), or when the last entry is not below.
    pub fn append(&self, offset: Offset, position: u64) -> Result<()> {
        let (Some(relative), Ok(position)) = (relative(self.base, offset), i32::try_from(position)) else {
            return Ok(());
        };
        if self.file.room() == 0 || self.last()?.is_some_and(|last| last.offset >= offset) {
            return Ok(());
        }
        let mut entry = [0; ENTRY];
        entry[..4].copy_from_slice(&relative.to_be_bytes());
        entry[4..].copy_from_slice(&position.to_be_bytes());
        self.file.append(entry);
        Ok(())
    }

    /// Forgets entries at or above `offset`, and those at or behind `position`: an old entry may name the
    /// first offset of the batch there.
    pub fn truncate_to(&self, offset: Offset, position: u64) -> Result<()> {
        let kept = self.file.with(|entries| {
            entries.partition_point(|entry| {
                let entry = self.parse(entry);
                entry.offset < offset && u64::from(entry.position) < position
            })
        })?;
        self.file.truncate(kept);
        Ok(())
    }

    fn parse(&self, entry: &[u8; ENTRY]) -> OffsetPosition {
        let [a, b, c, d, e, f, g, h] = *entry;
        OffsetPosition {
            offset: self.base.plus(i64::from(u32::from_be_bytes([a, b, c, d]))),
            position: u32::from_be_bytes([e, f, g, h]),
        }
    }
}

/// How far `offset` lies above `base`, if an index entry can hold that: in 31 bits.
pub(crate) fn relative(base: Offset, offset: Offset) -> Option<u32> {
    let distance = offset.0.checked_sub(base.0)?;
    i32::try_from(distance).ok().and_then(|distance| u32::try_from(distance).ok())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_files::HostileDisk;
    use std::path::Path;

    fn index(entries: &[(i64, u64)]) -> (HostileDisk, OffsetIndex<HostileDisk>) {
        let disk = HostileDisk::new(0);
        let index = OffsetIndex::new(disk.clone(), "/i".into(), Offset(100), 0);
        index.file().grow(10 * 8 + 7).unwrap();
        for (offset, position) in entries {
            index.append(Offset(*offset), *position).unwrap();
        }
        (disk, index)
    }

    #[test]
    fn bytes_are_kafkas() {
        let (disk, index) = index(&[(150, 4200)]);
        assert_eq!(disk.read(Path::new("/i"), 100).unwrap().len(), 80, "full size, rounded down to entries");
        index.file().trim().unwrap();
        assert_eq!(disk.read(Path::new("/i"), 100).unwrap(), [0, 0, 0, 0x32, 0, 0, 0x10, 0x68]);
    }

    #[test]
    fn lookup_finds_the_last_entry_at_or_below() {
        let (_, index) = index(&[(110, 10), (120, 20), (130, 30)]);
        for (why, target, position) in [
            ("below the first", 109, 0),
            ("the first", 110, 10),
            ("between two", 129, 20),
            ("the last", 130, 30),
            ("above the last", 1000, 30),
            ("far outside", i64::MAX, 30),
            ("below the base", 0, 0),
        ] {
            assert_eq!(index.lookup(Offset(target)).unwrap().position, position, "{why}");
        }
        for (position, found) in
            [(0, Some(110)), (10, Some(110)), (11, Some(120)), (30, Some(130)), (31, None)]
        {
            let entry = index.first_from_position(position).unwrap();
            assert_eq!(entry.map(|e| e.offset.0), found, "from position {position}");
        }
    }

    #[test]
    fn truncation_forgets_entries_at_and_above() {
        let (_, index) = index(&[(110, 10), (120, 20), (130, 30)]);
        index.truncate_to(Offset(121), 999).unwrap();
        assert_eq!(index.last().unwrap().unwrap().offset, Offset(120));
        index.truncate_to(Offset(999), 20).unwrap();
        assert_eq!(index.last().unwrap().unwrap().offset, Offset(110));
        index.append(Offset(115), 15).unwrap();
        assert_eq!(index.lookup(Offset(130)).unwrap().position, 15, "old entries do not come back");
    }

    #[test]
    fn a_reopened_index_holds_what_was_written() {
        let (disk, index) = index(&[(110, 10), (120, 20)]);
        index.file().trim().unwrap();
        drop(index);
        let bytes = disk.read(Path::new("/i"), 100).unwrap().len() as u64;
        let index = OffsetIndex::new(disk, "/i".into(), Offset(100), bytes);
        assert_eq!(index.last().unwrap().unwrap().offset, Offset(120), "read without a mapping");
        assert!(index.is_full(), "no room until it is grown");
        index.file().grow(24).unwrap();
        assert_eq!(index.file().room(), 1);
        index.append(Offset(130), 30).unwrap();
        assert!(index.is_full());
        assert_eq!(index.lookup(Offset(125)).unwrap().position, 20);
    }
}
