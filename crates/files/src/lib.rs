//! The disk, behind a trait with two implementations: [`Disk`], the real one, and [`HostileDisk`], which keeps
//! everything in memory and, when told to crash, tears and forgets whatever was not synced.
//!
//! What decides (the log) is written against [`Files`] and cannot tell the two apart.

mod disk;
mod hostile;

use std::fmt::Debug;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};

pub use disk::{Disk, DiskFile, DiskLock, DiskMap};
pub use hostile::{Fault, HostileDisk, HostileFile, HostileLock, HostileMap};

/// The most bytes that one `pwritev` is given. Larger writes go out in several, so that one big request does
/// not hold the inode lock against the readers of the same file for long.
pub const WRITE_BYTES_MAX: usize = 256 * 1024;

/// A call to the disk that failed: what was tried on which path, and what the system said.
#[derive(Debug, thiserror::Error)]
#[error("cannot {verb} {}: {source}", path.display())]
pub struct FileError {
    pub verb: &'static str,
    pub path: PathBuf,
    #[source]
    pub source: io::Error,
}

pub type Result<T> = std::result::Result<T, FileError>;

impl FileError {
    pub fn new(verb: &'static str, path: &Path, source: io::Error) -> FileError {
        FileError { verb, path: path.to_path_buf(), source }
    }

    pub fn kind(&self) -> io::ErrorKind {
        self.source.kind()
    }

    pub fn is_not_found(&self) -> bool {
        self.kind() == io::ErrorKind::NotFound
    }

    /// Whether a file ended before the bytes that were asked for.
    pub fn is_short_read(&self) -> bool {
        self.kind() == io::ErrorKind::UnexpectedEof
    }
}

/// How a file is opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Open {
    /// For reading; the file must exist.
    Read,
    /// For reading and writing; the file must exist.
    Write,
    /// For reading and writing; made empty if it does not exist, left as it is otherwise.
    Create,
    /// For reading and writing; made empty, whatever it held.
    Truncate,
}

/// One name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Lossy where the name is not UTF-8; no name that the log writes is.
    pub name: String,
    pub is_directory: bool,
    /// Length of a file in bytes; 0 for a directory.
    pub bytes: u64,
}

/// A disk. Cheap to clone: clones speak to the same disk.
///
/// A name (made, renamed or removed) survives a crash only after [`sync_directory`](Files::sync_directory) on
/// the directory that holds it, and a file's bytes only after [`File::sync`] or [`Map::sync`].
pub trait Files: Clone + Debug + Send + Sync + 'static {
    type File: File;
    type Map: Map;
    /// Held for as long as it lives.
    type Lock: Debug + Send + Sync + 'static;

    fn open(&self, path: &Path, how: Open) -> Result<Self::File>;

    /// Maps an existing file for reading and writing, after setting its length to `bytes` if given.
    /// Bytes gained read as zero.
    fn map(&self, path: &Path, bytes: Option<u64>) -> Result<Self::Map>;

    /// The names in a directory, in no particular order.
    fn list(&self, directory: &Path) -> Result<Vec<Entry>>;

    /// Makes a directory and those above it; no error if it is there.
    fn create_directory(&self, path: &Path) -> Result<()>;

    /// Gives a file or directory another name in the same parent directory, atomically replacing a file that
    /// has that name.
    fn rename(&self, from: &Path, to: &Path) -> Result<()>;

    fn remove_file(&self, path: &Path) -> Result<()>;

    /// Removes a directory and everything below it.
    fn remove_directory(&self, path: &Path) -> Result<()>;

    /// Makes the names in a directory survive a crash.
    fn sync_directory(&self, path: &Path) -> Result<()>;

    /// Takes the exclusive lock that the file `path` stands for, making the file if need be.
    /// The error is [`io::ErrorKind::WouldBlock`] when somebody else holds it.
    fn lock(&self, path: &Path) -> Result<Self::Lock>;

    /// A whole small file. Refuses files of more than `bytes_max`, so that a wrong file costs no memory.
    fn read(&self, path: &Path, bytes_max: u64) -> Result<Vec<u8>> {
        let file = self.open(path, Open::Read)?;
        let bytes = file.bytes()?;
        if bytes > bytes_max {
            let reason = format!("it has {bytes} bytes, more than the {bytes_max} that make sense for it");
            return Err(FileError::new("read", path, io::Error::new(io::ErrorKind::InvalidData, reason)));
        }
        let mut content = vec![0; bytes as usize];
        file.read_exact_at(&mut content, 0)?;
        Ok(content)
    }

    /// Writes a whole file so that after a crash it holds either what it held before or `content`:
    /// `<path>.tmp`, sync, rename, sync of the directory.
    fn replace(&self, path: &Path, content: &[u8]) -> Result<()> {
        let mut temporary = path.as_os_str().to_owned();
        temporary.push(".tmp");
        let temporary = PathBuf::from(temporary);
        let file = self.open(&temporary, Open::Truncate)?;
        file.write_all_at(&mut [IoSlice::new(content)], 0)?;
        file.sync()?;
        self.rename(&temporary, path)?;
        match path.parent() {
            Some(parent) => self.sync_directory(parent),
            None => Ok(()),
        }
    }
}

/// An open file. Stays readable after its name is gone.
pub trait File: Debug + Send + Sync + 'static {
    fn bytes(&self) -> Result<u64>;

    /// Reads up to `buffer.len()` bytes; fewer only at the end of the file.
    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize>;

    /// Fills `buffer`, or fails with [`FileError::is_short_read`].
    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> Result<()>;

    /// Writes all the slices one after the other, without joining them first; `slices` is used up.
    fn write_all_at(&self, slices: &mut [IoSlice<'_>], position: u64) -> Result<()>;

    /// Sets the length; bytes gained read as zero.
    fn truncate(&self, bytes: u64) -> Result<()>;

    /// Makes bytes and length survive a crash (`fdatasync`).
    fn sync(&self) -> Result<()>;

    /// When the bytes last changed, in milliseconds since 1970-01-01 UTC.
    fn modified_ms(&self) -> Result<i64>;
}

/// A file mapped into memory. Reading it costs no system call; only one owner may change its length.
pub trait Map: Debug + Send + Sync + 'static {
    fn content(&self) -> &[u8];

    /// Overwrites `bytes` at `position`, which must lie inside the map.
    fn write(&mut self, position: usize, bytes: &[u8]);

    /// Sets the length of the file to `bytes` and maps it anew. Bytes gained read as zero.
    fn resize(&mut self, bytes: u64) -> Result<()>;

    fn sync(&self) -> Result<()>;
}
