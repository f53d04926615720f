//! A disk in memory that keeps no promise it was not made to keep.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IoSlice};
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::{Entry, File, FileError, Files, Map, Open, Result};

/// What a disk writes in one piece: a crash leaves each sector whole, old or new.
const SECTOR: usize = 512;

/// A disk in memory with a seed, for tests that pull the plug.
///
/// ```text
/// write, truncate   -> current bytes, and the sectors they touch are dirty   -- File::sync -->  durable bytes
/// make, rename, ... -> current names, and a queue of changes per directory   -- sync_directory --> durable names
///
/// crash():  names  = durable names + the first n changes of each queue (a journaling file system keeps their order)
///           length = the durable one, the current one, or one in between
///           bytes  = each dirty sector old or new; zeros where a file grew and the new sector was forgotten
/// ```
///
/// The seed decides each choice, so a failing test can be repeated.
#[derive(Debug, Clone)]
pub struct HostileDisk {
    shared: Arc<Mutex<State>>,
}

#[derive(Debug)]
struct State {
    random: Random,
    now_ms: i64,
    root: Directory,
    /// Counts crashes; what was opened before the last one is dead.
    life: u64,
    fault: Option<Fault>,
    /// Names of the locks that are held.
    locks: BTreeSet<PathBuf>,
}

/// A failure to come. See [`HostileDisk::inject`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fault {
    /// How many further calls that change or sync something go well before the one that fails.
    pub after: u32,
    /// How many calls fail, one after the other.
    pub count: u32,
    /// What the failing call reports, such as [`io::ErrorKind::StorageFull`]. A write that fails may have
    /// written a part.
    pub kind: io::ErrorKind,
}

type Inode = Arc<Mutex<Content>>;

#[derive(Debug, Default)]
struct Content {
    current: Vec<u8>,
    durable: Vec<u8>,
    dirty_sectors: BTreeSet<usize>,
    modified_ms: i64,
}

#[derive(Debug, Clone)]
enum Node {
    File(Inode),
    Directory(Directory),
}

type Directory = Arc<Mutex<Names>>;

#[derive(Debug, Default)]
struct Names {
    current: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    unsynced: Vec<NameChange>,
}

#[derive(Debug, Clone)]
enum NameChange {
    Made(String, Node),
    Renamed { from: String, to: String },
    Removed(String),
}

impl NameChange {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            NameChange::Made(name, node) => {
                names.insert(name.clone(), node.clone());
            }
            NameChange::Renamed { from, to } => {
                if let Some(node) = names.remove(from) {
                    names.insert(to.clone(), node);
                }
            }
            NameChange::Removed(name) => {
                names.remove(name);
            }
        }
    }
}

impl Names {
    fn change(&mut self, change: NameChange) {
        change.apply(&mut self.current);
        self.unsynced.push(change);
    }

    fn sync(&mut self) {
        for change in self.unsynced.drain(..) {
            change.apply(&mut self.durable);
        }
    }

    fn crash(&mut self, random: &mut Random) {
        let kept = match random.below(4) {
            0 => 0,
            1 => self.unsynced.len(),
            _ => random.below(self.unsynced.len() + 1),
        };
        for change in self.unsynced.drain(..).take(kept) {
            change.apply(&mut self.durable);
        }
        self.current = self.durable.clone();
        for node in self.current.values() {
            match node {
                Node::File(inode) => lock(inode).crash(random),
                Node::Directory(directory) => lock(directory).crash(random),
            }
        }
    }
}

impl Content {
    fn touch(&mut self, from: usize, to: usize, now_ms: i64) {
        self.dirty_sectors.extend(from / SECTOR..to.div_ceil(SECTOR));
        self.modified_ms = now_ms;
    }

    fn write(&mut self, position: usize, bytes: &[u8], now_ms: i64) {
        let end = position + bytes.len();
        if end > self.current.len() {
            // A gap before the write reads as zeros, and is as volatile as the write.
            self.set_length(end, now_ms);
        }
        self.current[position..end].copy_from_slice(bytes);
        self.touch(position, end, now_ms);
    }

    fn set_length(&mut self, length: usize, now_ms: i64) {
        let before = self.current.len();
        self.current.resize(length, 0);
        self.touch(before.min(length), before.max(length), now_ms);
    }

    fn sync(&mut self) {
        self.durable.resize(self.current.len(), 0);
        for sector in std::mem::take(&mut self.dirty_sectors) {
            copy_sector(&self.current, &mut self.durable, sector);
        }
    }

    fn crash(&mut self, random: &mut Random) {
        let (old, new) = (self.durable.len(), self.current.len());
        // One of three moods per file, so that whole forgetting and whole remembering both come up often.
        let mood = random.below(3);
        let length = match mood {
            0 => old,
            1 => new,
            _ => old.min(new) + random.below(old.abs_diff(new) + 1),
        };
        self.durable.resize(length, 0);
        for sector in std::mem::take(&mut self.dirty_sectors) {
            let remembered = match mood {
                0 => false,
                1 => true,
                _ => random.below(2) == 0,
            };
            if remembered {
                copy_sector(&self.current, &mut self.durable, sector);
            }
        }
        self.current = self.durable.clone();
    }
}

fn copy_sector(from: &[u8], to: &mut [u8], sector: usize) {
    let start = sector * SECTOR;
    let end = (start + SECTOR).min(from.len()).min(to.len());
    if start < end {
        to[start..end].copy_from_slice(&from[start..end]);
    }
}

/// SplitMix64: enough to choose what to forget.
#[derive(Debug)]
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((z ^ (z >> 31)) % bound as u64) as usize
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl HostileDisk {
    pub fn new(seed: u64) -> HostileDisk {
        HostileDisk {
            shared: Arc::new(Mutex::new(State {
                random: Random(seed),
                now_ms: 0,
                root: Directory::default(),
                life: 0,
                fault: None,
                locks: BTreeSet::new(),
            })),
        }
    }

    /// Pulls the plug: what was not synced is torn or forgotten, locks are free, and everything open is dead.
    pub fn crash(&self) {
        let mut state = self.state();
        state.life += 1;
        state.fault = None;
        state.locks.clear();
        let root = state.root.clone();
        lock(&root).crash(&mut state.random);
    }

    /// `kill -9`: locks are free and everything open is dead, but the page cache loses nothing.
    pub fn kill(&self) {
        let mut state = self.state();
        state.life += 1;
        state.fault = None;
        state.locks.clear();
    }

    /// Lets a later call that changes or syncs something fail.
    pub fn inject(&self, fault: Fault) {
        self.state().fault = Some(fault);
    }

    /// Sets the time that changed files are stamped with.
    pub fn set_now(&self, now_ms: i64) {
        self.state().now_ms = now_ms;
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.shared)
    }

    /// The directory that holds `path`, and the name of `path` in it.
    fn parent(&self, verb: &'static str, path: &Path) -> Result<(Directory, String)> {
        let invalid = || FileError::new(verb, path, io::ErrorKind::InvalidInput.into());
        let name = path.file_name().ok_or_else(invalid)?.to_string_lossy().into_owned();
        let parent = self.directory(verb, path.parent().ok_or_else(invalid)?)?;
        Ok((parent, name))
    }

    fn directory(&self, verb: &'static str, path: &Path) -> Result<Directory> {
        let mut directory = self.state().root.clone();
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            let next = lock(&directory).current.get(name.to_string_lossy().as_ref()).cloned();
            directory = match next {
                Some(Node::Directory(next)) => next,
                Some(Node::File(_)) => {
                    return Err(FileError::new(verb, path, io::ErrorKind::NotADirectory.into()));
                }
                None => return Err(FileError::new(verb, path, io::ErrorKind::NotFound.into())),
            };
        }
        Ok(directory)
    }

    fn node(&self, verb: &'static str, path: &Path) -> Result<Node> {
        let (parent, name) = self.parent(verb, path)?;
        let node = lock(&parent).current.get(&name).cloned();
        node.ok_or_else(|| FileError::new(verb, path, io::ErrorKind::NotFound.into()))
    }

    fn file(&self, verb: &'static str, path: &Path) -> Result<Inode> {
        match self.node(verb, path)? {
            Node::File(inode) => Ok(inode),
            Node::Directory(_) => Err(FileError::new(verb, path, io::ErrorKind::IsADirectory.into())),
        }
    }

    fn handle(&self, inode: Inode, path: &Path, writable: bool) -> HostileFile {
        let life = self.state().life;
        HostileFile { disk: self.clone(), inode, path: path.to_path_buf(), life, writable }
    }

    /// Takes one step towards an injected fault; whatever changes or syncs something calls it first.
    fn effect(&self, verb: &'static str, path: &Path) -> Result<()> {
        let mut state = self.state();
        let Some(fault) = &mut state.fault else { return Ok(()) };
        if fault.after > 0 {
            fault.after -= 1;
            return Ok(());
        }
        if fault.count == 0 {
            return Ok(());
        }
        fault.count -= 1;
        Err(FileError::new(verb, path, fault.kind.into()))
    }
}

impl Files for HostileDisk {
    type File = HostileFile;
    type Map = HostileMap;
    type Lock = HostileLock;

    fn open(&self, path: &Path, how: Open) -> Result<HostileFile> {
        let verb = "open";
        let (parent, name) = self.parent(verb, path)?;
        let found = lock(&parent).current.get(&name).cloned();
        let inode = match (found, how) {
            (Some(Node::Directory(_)), _) => {
                return Err(FileError::new(verb, path, io::ErrorKind::IsADirectory.into()));
            }
            (Some(Node::File(inode)), Open::Truncate) => {
                self.effect("create", path)?;
                let now = self.state().now_ms;
                lock(&inode).set_length(0, now);
                inode
            }
            (Some(Node::File(inode)), _) => inode,
            (None, Open::Read | Open::Write) => {
                return Err(FileError::new(verb, path, io::ErrorKind::NotFound.into()));
            }
            (None, Open::Create | Open::Truncate) => {
                self.effect("create", path)?;
                let inode = Inode::default();
                lock(&inode).modified_ms = self.state().now_ms;
                lock(&parent).change(NameChange::Made(name, Node::File(inode.clone())));
                inode
            }
        };
        Ok(self.handle(inode, path, how != Open::Read))
    }

    fn map(&self, path: &Path, bytes: Option<u64>) -> Result<HostileMap> {
        let file = self.handle(self.file("map", path)?, path, true);
        if let Some(bytes) = bytes {
            file.truncate(bytes)?;
        }
        let content = lock(&file.inode).current.clone();
        Ok(HostileMap { file, content })
    }

    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let names = self.directory("list", directory)?;
        let names = lock(&names);
        Ok(names
            .current
            .iter()
            .map(|(name, node)| match node {
                Node::File(inode) => {
                    let bytes = lock(inode).current.len() as u64;
                    Entry { name: name.clone(), is_directory: false, bytes }
                }
                Node::Directory(_) => Entry { name: name.clone(), is_directory: true, bytes: 0 },
            })
            .collect())
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        let verb = "create the directory";
        let mut directory = self.state().root.clone();
        for component in path.components() {
            let Component::Normal(name) = component else { continue };
            let name = name.to_string_lossy().into_owned();
            let found = lock(&directory).current.get(&name).cloned();
            directory = match found {
                Some(Node::Directory(next)) => next,
                Some(Node::File(_)) => {
                    return Err(FileError::new(verb, path, io::ErrorKind::AlreadyExists.into()));
                }
                None => {
                    self.effect(verb, path)?;
                    let made = Directory::default();
                    lock(&directory).change(NameChange::Made(name, Node::Directory(made.clone())));
                    made
                }
            };
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        let verb = "rename";
        if from.parent() != to.parent() {
            return Err(FileError::new(verb, from, io::ErrorKind::CrossesDevices.into()));
        }
        let (parent, old) = self.parent(verb, from)?;
        let (_, new) = self.parent(verb, to)?;
        self.node(verb, from)?;
        if let Some(Node::Directory(there)) = lock(&parent).current.get(&new)
            && !lock(there).current.is_empty()
        {
            return Err(FileError::new(verb, from, io::ErrorKind::DirectoryNotEmpty.into()));
        }
        self.effect(verb, from)?;
        lock(&parent).change(NameChange::Renamed { from: old, to: new });
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        let verb = "remove";
        let (parent, name) = self.parent(verb, path)?;
        self.file(verb, path)?;
        self.effect(verb, path)?;
        lock(&parent).change(NameChange::Removed(name));
        Ok(())
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        let verb = "remove the directory";
        let (parent, name) = self.parent(verb, path)?;
        let removed = self.directory(verb, path)?;
        self.effect(verb, path)?;
        // The names inside go one by one, as they do on a real disk, and a crash may keep some.
        let inside: Vec<(String, bool)> = lock(&removed)
            .current
            .iter()
            .map(|(name, node)| (name.clone(), matches!(node, Node::Directory(_))))
            .collect();
        for (inner, is_directory) in inside {
            if is_directory {
                self.remove_directory(&path.join(inner))?;
            } else {
                self.remove_file(&path.join(inner))?;
            }
        }
        lock(&parent).change(NameChange::Removed(name));
        Ok(())
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let directory = self.directory("sync the directory", path)?;
        self.effect("sync the directory", path)?;
        lock(&directory).sync();
        Ok(())
    }

    fn lock(&self, path: &Path) -> Result<HostileLock> {
        self.open(path, Open::Create)?;
        let mut state = self.state();
        if !state.locks.insert(path.to_path_buf()) {
            return Err(FileError::new("lock", path, io::ErrorKind::WouldBlock.into()));
        }
        let life = state.life;
        drop(state);
        Ok(HostileLock { disk: self.clone(), path: path.to_path_buf(), life })
    }
}

/// An open file of a [`HostileDisk`].
#[derive(Debug)]
pub struct HostileFile {
    disk: HostileDisk,
    inode: Inode,
    path: PathBuf,
    life: u64,
    writable: bool,
}

impl HostileFile {
    fn alive(&self, verb: &'static str) -> Result<()> {
        if self.disk.state().life == self.life {
            return Ok(());
        }
        let reason = "it was opened before the crash";
        Err(FileError::new(verb, &self.path, io::Error::other(reason)))
    }

    fn may_change(&self, verb: &'static str) -> Result<()> {
        self.alive(verb)?;
        if !self.writable {
            return Err(FileError::new(verb, &self.path, io::ErrorKind::PermissionDenied.into()));
        }
        self.disk.effect(verb, &self.path)
    }
}

impl File for HostileFile {
    fn bytes(&self) -> Result<u64> {
        self.alive("inspect")?;
        Ok(lock(&self.inode).current.len() as u64)
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        self.alive("read")?;
        let content = lock(&self.inode);
        let start = (position as usize).min(content.current.len());
        let count = buffer.len().min(content.current.len() - start);
        buffer[..count].copy_from_slice(&content.current[start..start + count]);
        Ok(count)
    }

    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> Result<()> {
        if self.read_at(buffer, position)? == buffer.len() {
            return Ok(());
        }
        Err(FileError::new("read", &self.path, io::ErrorKind::UnexpectedEof.into()))
    }

    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> Result<()> {
        let allowed = self.may_change("write");
        let mut position = position as usize;
        let mut left: usize = slices.iter().map(|slice| slice.len()).sum();
        if matches!(&allowed, Err(error) if error.kind() == io::ErrorKind::StorageFull) {
            let mut state = self.disk.state();
            left = state.random.below(left + 1);
        } else if allowed.is_err() {
            left = 0;
        }
        let now = self.disk.state().now_ms;
        let mut content = lock(&self.inode);
        for slice in slices.iter() {
            let count = slice.len().min(left);
            content.write(position, &slice[..count], now);
            position += count;
            left -= count;
        }
        allowed
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.may_change("set the length of")?;
        let now = self.disk.state().now_ms;
        lock(&self.inode).set_length(bytes as usize, now);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.may_change("sync")?;
        lock(&self.inode).sync();
        Ok(())
    }

    fn modified_ms(&self) -> Result<i64> {
        self.alive("inspect")?;
        Ok(lock(&self.inode).modified_ms)
    }
}

/// A mapped file of a [`HostileDisk`].
#[derive(Debug)]
pub struct HostileMap {
    file: HostileFile,
    /// What the mapping shows; writes go here and to the file.
    content: Vec<u8>,
}

impl Map for HostileMap {
    fn content(&self) -> &[u8] {
        &self.content
    }

    fn write(&mut self, position: usize, bytes: &[u8]) {
        self.content[position..position + bytes.len()].copy_from_slice(bytes);
        // A dead process writes nothing.
        if self.file.alive("write").is_ok() {
            let now = self.file.disk.state().now_ms;
            lock(&self.file.inode).write(position, bytes, now);
        }
    }

    fn resize(&mut self, bytes: u64) -> Result<()> {
        self.file.truncate(bytes)?;
        self.content = lock(&self.file.inode).current.clone();
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.file.sync()
    }
}

/// A held lock of a [`HostileDisk`]; let go of when dropped, or by a crash.
#[derive(Debug)]
pub struct HostileLock {
    disk: HostileDisk,
    path: PathBuf,
    life: u64,
}

impl Drop for HostileLock {
    fn drop(&mut self) {
        let mut state = self.disk.state();
        // After a crash the name may be locked by the next life.
        if state.life == self.life {
            state.locks.remove(&self.path);
        }
    }
}
