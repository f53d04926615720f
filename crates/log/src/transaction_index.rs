//! The aborted transactions of a segment: `.txnindex`.
//!
//! ```text
//! entry   i16 version 0   i64 producer id   i64 first offset   i64 last offset   i64 last stable offset
//! ```
//!
//! In the order of the last offsets, which are those of the ABORT markers. A segment without aborted
//! transactions has no such file.

use std::io::{self, IoSlice};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard, PoisonError};

use ottla_files::{File, FileError, Files, Open, Result};
use ottla_model::{Offset, ProducerId};

const ENTRY: usize = 34;
const VERSION: i16 = 0;

/// Entries that are read at a time while searching.
const ENTRIES_AT_ONCE: usize = 64;

/// A transaction whose records a `read_committed` consumer must not see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
    /// Offset of the ABORT marker.
    pub last_offset: Offset,
    /// Where the last stable offset stood once the transaction was over: a search for the transactions of
    /// records below it may end here.
    pub last_stable_offset: Offset,
}

#[derive(Debug)]
pub(crate) struct TransactionIndex<F: Files> {
    files: F,
    path: PathBuf,
    state: Mutex<State<F>>,
}

#[derive(Debug)]
struct State<F: Files> {
    bytes: u64,
    file: Option<F::File>,
}

impl<F: Files> TransactionIndex<F> {
    /// `bytes` is the length of the file, 0 if there is none.
    pub fn new(files: F, path: PathBuf, bytes: u64) -> TransactionIndex<F> {
        TransactionIndex { files, path, state: Mutex::new(State { bytes, file: None }) }
    }

    fn lock(&self) -> MutexGuard<'_, State<F>> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn append(&self, aborted: &AbortedTransaction) -> Result<()> {
        let mut state = self.lock();
        let position = state.bytes;
        self.open(&mut state, Open::Create)?.write_all_at(&mut [IoSlice::new(&encode(aborted))], position)?;
        state.bytes += ENTRY as u64;
        Ok(())
    }

    /// Adds to `found` each transaction that has records in `start..upper`; true when no later segment can
    /// have more.
    pub fn collect(&self, start: Offset, upper: Offset, found: &mut Vec<AbortedTransaction>) -> Result<bool> {
        self.each(|_, aborted| {
            if aborted.last_offset >= start && aborted.first_offset < upper {
                found.push(aborted);
            }
            aborted.last_stable_offset >= upper
        })
    }

    /// Whether every entry belongs into a segment that starts at `base`.
    pub fn is_sane(&self, base: Offset) -> Result<bool> {
        match self.each(|_, aborted| aborted.last_offset < base) {
            Ok(foreign) => Ok(!foreign && self.lock().bytes.is_multiple_of(ENTRY as u64)),
            Err(error) if error.kind() == io::ErrorKind::InvalidData => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Forgets entries whose marker is at or above `offset`.
    pub fn truncate_to(&self, offset: Offset) -> Result<()> {
        let mut kept = 0;
        self.each(|end, aborted| {
            let above = aborted.last_offset >= offset;
            if !above {
                kept = end;
            }
            above
        })?;
        self.cut(kept)
    }

    /// Forgets all entries.
    pub fn reset(&self) -> Result<()> {
        self.cut(0)
    }

    fn cut(&self, bytes: u64) -> Result<()> {
        let mut state = self.lock();
        if state.bytes != bytes {
            self.open(&mut state, Open::Write)?.truncate(bytes)?;
            state.bytes = bytes;
        }
        Ok(())
    }

    pub fn sync(&self) -> Result<()> {
        let mut state = self.lock();
        if state.bytes == 0 && state.file.is_none() {
            return Ok(());
        }
        self.open(&mut state, Open::Create)?.sync()
    }

    /// Whether there may be a file.
    pub fn has_file(&self) -> bool {
        let state = self.lock();
        state.bytes > 0 || state.file.is_some()
    }

    /// Opens the file while it still has its name, for readers that will outlive the name.
    pub fn hold(&self) -> Result<()> {
        let mut state = self.lock();
        if state.bytes > 0 {
            self.open(&mut state, Open::Write)?;
        }
        Ok(())
    }

    fn open<'s>(&self, state: &'s mut State<F>, how: Open) -> Result<&'s F::File> {
        match &mut state.file {
            Some(file) => Ok(file),
            none => Ok(none.insert(self.files.open(&self.path, how)?)),
        }
    }

    /// Walks the entries until `stop` says so, which is then the result. `stop` sees where each entry ends in
    /// the file.
    fn each(&self, mut stop: impl FnMut(u64, AbortedTransaction) -> bool) -> Result<bool> {
        let mut state = self.lock();
        let bytes = state.bytes;
        let mut position = 0;
        let mut buffer = [0; ENTRY * ENTRIES_AT_ONCE];
        while bytes - position >= ENTRY as u64 {
            let whole = (bytes - position) / ENTRY as u64 * ENTRY as u64;
            let buffer = &mut buffer[..whole.min((ENTRY * ENTRIES_AT_ONCE) as u64) as usize];
            self.open(&mut state, Open::Write)?.read_exact_at(buffer, position)?;
            for entry in buffer.as_chunks::<ENTRY>().0 {
                position += ENTRY as u64;
                let aborted = decode(entry).ok_or_else(|| {
                    let reason = "an entry of the transaction index has an unknown version";
                    FileError::new("read", &self.path, io::Error::new(io::ErrorKind::InvalidData, reason))
                })?;
                if stop(position, aborted) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }
}

fn encode(aborted: &AbortedTransaction) -> [u8; ENTRY] {
    let mut bytes = [0; ENTRY];
    bytes[..2].copy_from_slice(&VERSION.to_be_bytes());
    let fields =
        [aborted.producer_id.0, aborted.first_offset.0, aborted.last_offset.0, aborted.last_stable_offset.0];
    for (place, field) in bytes[2..].as_chunks_mut::<8>().0.iter_mut().zip(fields) {
        *place = field.to_be_bytes();
    }
    bytes
}

fn decode(bytes: &[u8; ENTRY]) -> Option<AbortedTransaction> {
    let field = |i: usize| i64::from_be_bytes(bytes[2..].as_chunks().0[i]);
    (i16::from_be_bytes([bytes[0], bytes[1]]) == VERSION).then(|| AbortedTransaction {
        producer_id: ProducerId(field(0)),
        first_offset: Offset(field(1)),
        last_offset: Offset(field(2)),
        last_stable_offset: Offset(field(3)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_files::HostileDisk;
    use std::path::Path;

    fn aborted(first: i64, last: i64, stable: i64) -> AbortedTransaction {
        AbortedTransaction {
            producer_id: ProducerId(4000),
            first_offset: Offset(first),
            last_offset: Offset(last),
            last_stable_offset: Offset(stable),
        }
    }

    #[test]
    fn bytes_are_kafkas() {
        let disk = HostileDisk::new(0);
        let index = TransactionIndex::new(disk.clone(), "/x".into(), 0);
        index.append(&aborted(10, 12, 13)).unwrap();
        let hex: String =
            disk.read(Path::new("/x"), 100).unwrap().iter().map(|b| format!("{b:02x}")).collect();
        assert_eq!(hex, "00000000000000000fa0000000000000000a000000000000000c000000000000000d");
    }

    #[test]
    fn a_search_takes_what_overlaps_and_stops_when_nothing_more_can() {
        let disk = HostileDisk::new(0);
        let index = TransactionIndex::new(disk.clone(), "/x".into(), 0);
        assert!(disk.list(Path::new("/")).unwrap().is_empty(), "no file before the first entry");
        for (first, last, stable) in [(0, 10, 5), (5, 20, 12), (12, 30, 31)] {
            index.append(&aborted(first, last, stable)).unwrap();
        }
        for (why, start, upper, firsts, complete) in [
            ("before everything", 0, 1, vec![0], true),
            ("a marker is part of its transaction", 10, 11, vec![0, 5], true),
            ("past the first marker", 11, 12, vec![5], true),
            ("past all stable offsets", 0, 40, vec![0, 5, 12], false),
            ("past everything", 31, 40, vec![], false),
        ] {
            let mut found = Vec::new();
            assert_eq!(index.collect(Offset(start), Offset(upper), &mut found).unwrap(), complete, "{why}");
            assert_eq!(found.iter().map(|a| a.first_offset.0).collect::<Vec<_>>(), firsts, "{why}");
        }
    }

    #[test]
    fn truncation_forgets_markers_at_and_above() {
        let disk = HostileDisk::new(0);
        let index = TransactionIndex::new(disk.clone(), "/x".into(), 0);
        for i in 0..200 {
            index.append(&aborted(i * 10, i * 10 + 5, i * 10 + 6)).unwrap();
        }
        index.truncate_to(Offset(1005)).unwrap();
        let mut found = Vec::new();
        index.collect(Offset(0), Offset(i64::MAX), &mut found).unwrap();
        assert_eq!(found.last().unwrap().last_offset, Offset(995));
        assert_eq!(disk.read(Path::new("/x"), 1 << 20).unwrap().len(), 100 * ENTRY);
        index.reset().unwrap();
        assert_eq!(disk.read(Path::new("/x"), 100).unwrap().len(), 0);
    }

    #[test]
    fn foreign_and_damaged_entries_are_noticed() {
        let disk = HostileDisk::new(0);
        let write = |bytes: &[u8]| {
            disk.replace(Path::new("/x"), bytes).unwrap();
            TransactionIndex::new(disk.clone(), "/x".into(), bytes.len() as u64).is_sane(Offset(100)).unwrap()
        };
        let good = encode(&aborted(90, 120, 121));
        let mut versioned = good;
        versioned[1] = 1;
        assert!(write(b""));
        assert!(write(&good), "a transaction may have begun in an earlier segment");
        assert!(!write(&encode(&aborted(90, 99, 100))), "a marker before the segment");
        assert!(!write(&versioned));
        assert!(!write(&good[..20]), "cut");
    }
}
