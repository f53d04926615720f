//! The real disk.

use std::collections::HashSet;
use std::fs;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use memmap2::MmapMut;

use crate::{Entry, File, FileError, Files, Map, Open, Result, WRITE_BYTES_MAX};

/// Linux takes at most this many slices in one call (`IOV_MAX`).
const SLICES_MAX: usize = 1024;

/// The disk of this machine.
#[derive(Debug, Clone, Copy, Default)]
pub struct Disk;

/// An open file of the real disk. [`DiskFile::shared`] hands it to `sendfile(2)`.
#[derive(Debug)]
pub struct DiskFile {
    file: Arc<fs::File>,
    /// The path it was opened by: what error messages name.
    path: PathBuf,
}

/// A mapped file of the real disk.
#[derive(Debug)]
pub struct DiskMap {
    map: MmapMut,
    file: fs::File,
    path: PathBuf,
}

/// A held file lock; let go of when dropped. The file stays.
#[derive(Debug)]
pub struct DiskLock {
    path: PathBuf,
    file: Option<fs::File>,
}

/// Attaches verb and path to a system error.
fn at<'a>(verb: &'static str, path: &'a Path) -> impl FnOnce(io::Error) -> FileError + 'a {
    move |source| FileError::new(verb, path, source)
}

impl Files for Disk {
    type File = DiskFile;
    type Map = DiskMap;
    type Lock = DiskLock;

    fn open(&self, path: &Path, how: Open) -> Result<DiskFile> {
        let mut options = fs::OpenOptions::new();
        options.read(true);
        let verb = match how {
            Open::Read => "open",
            Open::Write => {
                options.write(true);
                "open for writing"
            }
            Open::Create => {
                options.write(true).create(true);
                "create"
            }
            Open::Truncate => {
                options.write(true).create(true).truncate(true);
                "create"
            }
        };
        let file = options.open(path).map_err(at(verb, path))?;
        Ok(DiskFile { file: Arc::new(file), path: path.to_path_buf() })
    }

    fn map(&self, path: &Path, bytes: Option<u64>) -> Result<DiskMap> {
        let file = fs::OpenOptions::new().read(true).write(true).open(path).map_err(at("open", path))?;
        if let Some(bytes) = bytes {
            file.set_len(bytes).map_err(at("set the length of", path))?;
        }
        let map = map(&file).map_err(at("map", path))?;
        Ok(DiskMap { map, file, path: path.to_path_buf() })
    }

    fn list(&self, directory: &Path) -> Result<Vec<Entry>> {
        let mut entries = Vec::new();
        for entry in fs::read_dir(directory).map_err(at("list", directory))? {
            let entry = entry.map_err(at("list", directory))?;
            let metadata = match entry.path().metadata() {
                Ok(metadata) => metadata,
                // Gone between listing and asking, such as a `.deleted` file whose time had come.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(FileError::new("inspect", &entry.path(), error)),
            };
            let is_directory = metadata.is_dir();
            entries.push(Entry {
                name: entry.file_name().to_string_lossy().into_owned(),
                is_directory,
                bytes: if is_directory { 0 } else { metadata.len() },
            });
        }
        Ok(entries)
    }

    fn create_directory(&self, path: &Path) -> Result<()> {
        fs::create_dir_all(path).map_err(at("create the directory", path))
    }

    fn rename(&self, from: &Path, to: &Path) -> Result<()> {
        fs::rename(from, to).map_err(at("rename", from))
    }

    fn remove_file(&self, path: &Path) -> Result<()> {
        fs::remove_file(path).map_err(at("remove", path))
    }

    fn remove_directory(&self, path: &Path) -> Result<()> {
        fs::remove_dir_all(path).map_err(at("remove the directory", path))
    }

    fn sync_directory(&self, path: &Path) -> Result<()> {
        let directory = fs::File::open(path).map_err(at("open the directory", path))?;
        directory.sync_all().map_err(at("sync the directory", path))
    }

    fn lock(&self, path: &Path) -> Result<DiskLock> {
        // A JVM takes the lock of POSIX, so that is the one to take. It belongs to a process: within this one
        // it excludes nobody, and closing any descriptor of the file lets go of it. So the set keeps brokers
        // of one process apart, and nobody even opens a file whose lock is held.
        let directory = path.parent().unwrap_or(Path::new("."));
        let key = fs::canonicalize(directory)
            .map_err(at("resolve", directory))?
            .join(path.file_name().unwrap_or_default());
        let mut held = LOCKED_HERE.lock().unwrap_or_else(PoisonError::into_inner);
        if held.contains(&key) {
            return Err(FileError::new("lock", path, io::ErrorKind::WouldBlock.into()));
        }
        let mut options = fs::OpenOptions::new();
        let file = options
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(path)
            .map_err(at("open", path))?;
        rustix::fs::fcntl_lock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            .map_err(|errno| match errno {
                // POSIX lets a system say EACCES where Linux says EAGAIN.
                rustix::io::Errno::ACCESS | rustix::io::Errno::AGAIN => io::ErrorKind::WouldBlock.into(),
                other => io::Error::from(other),
            })
            .map_err(at("lock", path))?;
        held.insert(key.clone());
        Ok(DiskLock { path: key, file: Some(file) })
    }
}

/// The lock files that this process holds.
static LOCKED_HERE: LazyLock<Mutex<HashSet<PathBuf>>> = LazyLock::new(Mutex::default);

impl Drop for DiskLock {
    fn drop(&mut self) {
        let mut held = LOCKED_HERE.lock().unwrap_or_else(PoisonError::into_inner);
        // Closed first: the next one here must not have opened the file yet when this lets go of its lock.
        self.file = None;
        held.remove(&self.path);
    }
}

impl DiskFile {
    /// The open file for somebody who sends from it, such as `sendfile(2)`, for as long as that takes.
    pub fn shared(&self) -> Arc<fs::File> {
        self.file.clone()
    }
}

impl AsFd for DiskFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

impl File for DiskFile {
    fn bytes(&self) -> Result<u64> {
        Ok(self.file.metadata().map_err(at("inspect", &self.path))?.len())
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> Result<usize> {
        let mut filled = 0;
        while filled < buffer.len() {
            match self.file.read_at(&mut buffer[filled..], position + filled as u64) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(FileError::new("read", &self.path, error)),
            }
        }
        Ok(filled)
    }

    fn read_exact_at(&self, buffer: &mut [u8], position: u64) -> Result<()> {
        self.file.read_exact_at(buffer, position).map_err(at("read", &self.path))
    }

    fn write_all_at(&self, slices: &mut [IoSlice<'_>], mut position: u64) -> Result<()> {
        let mut left = slices;
        // Empty slices at the front would look like a disk that takes nothing.
        IoSlice::advance_slices(&mut left, 0);
        while !left.is_empty() {
            let wrote = if left[0].len() > WRITE_BYTES_MAX {
                rustix::io::pwrite(&self.file, &left[0][..WRITE_BYTES_MAX], position)
            } else {
                rustix::io::pwritev(&self.file, &left[..slices_in_one_write(left)], position)
            };
            match wrote {
                Ok(0) => return Err(FileError::new("write", &self.path, io::ErrorKind::WriteZero.into())),
                Ok(count) => {
                    position += count as u64;
                    IoSlice::advance_slices(&mut left, count);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(errno) => return Err(FileError::new("write", &self.path, errno.into())),
            }
        }
        Ok(())
    }

    fn truncate(&self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(at("set the length of", &self.path))
    }

    fn sync(&self) -> Result<()> {
        self.file.sync_data().map_err(at("sync", &self.path))
    }

    fn modified_ms(&self) -> Result<i64> {
        let metadata = self.file.metadata().map_err(at("inspect", &self.path))?;
        Ok(metadata.mtime() * 1000 + metadata.mtime_nsec() / 1_000_000)
    }
}

/// How many of the slices, at least one, fit into [`WRITE_BYTES_MAX`] bytes; the first one is known to.
fn slices_in_one_write(slices: &[IoSlice<'_>]) -> usize {
    let mut bytes = 0;
    slices
        .iter()
        .take(SLICES_MAX)
        .take_while(|slice| {
            bytes += slice.len();
            bytes <= WRITE_BYTES_MAX
        })
        .count()
}

fn map(file: &fs::File) -> io::Result<MmapMut> {
    // SAFETY: the mapping is only sound while nobody shortens the file. The data directory is locked against
    // other brokers, and in this one the length changes through `DiskMap::resize`, which holds the map
    // exclusively. An operator who truncates index files under a running broker gets SIGBUS, as with any
    // program that maps files.
    unsafe { MmapMut::map_mut(file) }
}

impl Map for DiskMap {
    fn content(&self) -> &[u8] {
        &self.map
    }

    fn write(&mut self, position: usize, bytes: &[u8]) {
        self.map[position..position + bytes.len()].copy_from_slice(bytes);
    }

    fn resize(&mut self, bytes: u64) -> Result<()> {
        self.file.set_len(bytes).map_err(at("set the length of", &self.path))?;
        // The old mapping is replaced before anyone can look past the new end: `&mut self`.
        self.map = map(&self.file).map_err(at("map", &self.path))?;
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.map.flush().map_err(at("sync", &self.path))
    }
}
