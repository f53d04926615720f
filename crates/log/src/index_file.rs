//! What offset index and time index share: a mapped file of entries of one size.

use std::io;
use std::path::PathBuf;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use ottla_files::{File, Files, Map, Open, Result};

/// A file of `ENTRY`-byte entries in growing order, mapped when first needed.
///
/// ```text
/// opened         length / ENTRY entries, not mapped: ten thousand idle partitions cost no mapping
/// looked up      mapped as long as the file is
/// being appended mapped at full size, zeros behind the last entry (sparse on disk)
/// trimmed        exactly its entries again; on roll and on clean close
/// ```
///
/// Shared between the one appender and any number of readers. The lock is what lets `trim` shorten the file:
/// nobody can be looking at a page that goes away.
#[derive(Debug)]
pub(crate) struct IndexFile<F: Files, const ENTRY: usize> {
    files: F,
    path: PathBuf,
    state: RwLock<State<F>>,
}

#[derive(Debug)]
struct State<F: Files> {
    entries: usize,
    /// Entries that fit without growing the file. Equals `entries` unless grown for appending.
    capacity: usize,
    map: Option<F::Map>,
}

impl<F: Files, const ENTRY: usize> IndexFile<F, ENTRY> {
    /// An index of which only the length is known; it is read when first needed.
    pub fn new(files: F, path: PathBuf, bytes: u64) -> Self {
        let entries = bytes as usize / ENTRY;
        IndexFile { files, path, state: RwLock::new(State { entries, capacity: entries, map: None }) }
    }

    fn read_lock(&self) -> RwLockReadGuard<'_, State<F>> {
        self.state.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_lock(&self) -> RwLockWriteGuard<'_, State<F>> {
        self.state.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Entries that still fit; 0 unless grown.
    pub fn room(&self) -> usize {
        let state = self.read_lock();
        state.capacity - state.entries
    }

    /// Runs `look` over the entries.
    pub fn with<R>(&self, look: impl FnOnce(&[[u8; ENTRY]]) -> R) -> Result<R> {
        let state = self.read_lock();
        if state.entries == 0 {
            return Ok(look(&[]));
        }
        if let Some(map) = &state.map {
            return Ok(look(entries_of(map, state.entries)));
        }
        drop(state);
        let mut state = self.write_lock();
        let State { entries, map, .. } = &mut *state;
        let map = match map {
            Some(map) => map,
            none => match self.files.map(&self.path, None) {
                Ok(map) => none.insert(map),
                // A process has a limited number of mappings (`vm.max_map_count`); without one it is slower,
                // no more.
                Err(error) if error.kind() == io::ErrorKind::OutOfMemory => {
                    let content = self.files.read(&self.path, (*entries * ENTRY) as u64)?;
                    return Ok(look(content.as_chunks().0));
                }
                Err(error) => return Err(error),
            },
        };
        // The file may have become shorter than it was when its length was asked.
        *entries = (*entries).min(map.content().len() / ENTRY);
        Ok(look(entries_of(map, *entries)))
    }

    /// The last entry, read without mapping the file if it is not mapped.
    pub fn last(&self) -> Result<Option<[u8; ENTRY]>> {
        let state = self.read_lock();
        if state.entries == 0 {
            return Ok(None);
        }
        if let Some(map) = &state.map {
            return Ok(entries_of(map, state.entries).last().copied());
        }
        let mut entry = [0; ENTRY];
        let file = self.files.open(&self.path, Open::Read)?;
        file.read_exact_at(&mut entry, ((state.entries - 1) * ENTRY) as u64)?;
        Ok(Some(entry))
    }

    /// Makes room for entries up to `bytes_max` bytes in all, rounded down to whole entries. Makes the file
    /// if there is none.
    pub fn grow(&self, bytes_max: u32) -> Result<()> {
        let mut state = self.write_lock();
        let capacity = (bytes_max as usize / ENTRY).max(state.entries);
        if state.map.is_some() && state.capacity == capacity {
            return Ok(());
        }
        let bytes = (capacity * ENTRY) as u64;
        match &mut state.map {
            Some(map) => map.resize(bytes)?,
            None => {
                self.files.open(&self.path, Open::Create)?;
                state.map = Some(self.files.map(&self.path, Some(bytes))?);
            }
        }
        state.capacity = capacity;
        Ok(())
    }

    /// Adds an entry. There must be [`room`](Self::room).
    pub fn append(&self, entry: [u8; ENTRY]) {
        let mut state = self.write_lock();
        assert!(state.entries < state.capacity, "{} is full", self.path.display());
        let position = state.entries * ENTRY;
        let map = state.map.as_mut().expect("an index with room is mapped");
        map.write(position, &entry);
        state.entries += 1;
    }

    /// Forgets all entries from number `entries` on; the file keeps its length.
    pub fn truncate(&self, entries: usize) {
        let mut state = self.write_lock();
        state.entries = state.entries.min(entries);
    }

    /// Cuts the file to its entries and unmaps it. Makes the file if there is none.
    pub fn trim(&self) -> Result<()> {
        let mut state = self.write_lock();
        let bytes = (state.entries * ENTRY) as u64;
        match state.map.take() {
            Some(mut map) => map.resize(bytes)?,
            None => self.files.open(&self.path, Open::Create)?.truncate(bytes)?,
        }
        state.capacity = state.entries;
        Ok(())
    }

    /// Makes the entries survive a crash.
    pub fn sync(&self) -> Result<()> {
        let state = self.read_lock();
        match &state.map {
            Some(map) => map.sync(),
            None => match self.files.open(&self.path, Open::Write) {
                Ok(file) => file.sync(),
                // Kafka opens a partition without a time index and makes one when it is next written.
                Err(error) if error.is_not_found() => Ok(()),
                Err(error) => Err(error),
            },
        }
    }
}

fn entries_of<M: Map, const ENTRY: usize>(map: &M, entries: usize) -> &[[u8; ENTRY]] {
    &map.content().as_chunks().0[..entries]
}
