//! One entry of `log.dirs`: its lock, its owner, its checkpoints, and the partitions that lie in it.
//!
//! ```text
//! LogDirectory::lock --> meta_properties() --> load() --> Contents: open each partition's log
//!                                                           ..
//!                                 close every log --> finish() --> marked as closed cleanly, lock free
//! ```

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};

use ottla_files::{FileError, Files};
use ottla_model::{Offset, Timestamp, TopicPartition};

use crate::checkpoint::{CheckpointError, Offsets, read_offsets, write_offsets};
use crate::layout::{
    CLEAN_SHUTDOWN, CLEANER_CHECKPOINT, DirectoryName, DirectoryState, HIGH_WATERMARK_CHECKPOINT,
    InvalidDirectoryName, LOCK, LOG_START_CHECKPOINT, META_PROPERTIES, RECOVERY_POINT_CHECKPOINT,
    REMOTE_INDEX_CACHE,
};
use crate::meta_properties::{MetaProperties, MetaPropertiesError};
use crate::recovery::Opening;

/// What Kafka 3.7 and later write into the marker in ZooKeeper mode; only that it is there matters.
const CLEAN_SHUTDOWN_CONTENT: &str = "{\"version\":0,\"brokerEpoch\":-1}";

#[derive(Debug, thiserror::Error)]
pub enum LogDirectoryError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    MetaProperties(#[from] MetaPropertiesError),
    #[error(
        "{} is in use by another broker, which holds its .lock; stop that one, or point log.dirs elsewhere",
        path.display()
    )]
    Locked { path: PathBuf },
    #[error(
        "{} holds a directory that is no partition: {reason}. Move it out of log.dirs; if log.dirs names the \
         top of a file system, use a directory below it",
        path.display()
    )]
    StrangeDirectory { path: PathBuf, reason: InvalidDirectoryName },
    #[error(
        "partition {partition} lies both in {} and in {}; remove the one that is older",
        path.display(),
        other.display()
    )]
    Twice { partition: TopicPartition, path: PathBuf, other: PathBuf },
}

/// A log dir that is ours until it is dropped.
#[derive(Debug)]
pub struct LogDirectory<F: Files> {
    files: F,
    path: PathBuf,
    lock: F::Lock,
}

/// What lies in a log dir.
#[derive(Debug, Default)]
pub struct Contents {
    pub partitions: BTreeMap<TopicPartition, PathBuf>,
    /// Replicas on their way here from another log dir.
    pub future: BTreeMap<TopicPartition, PathBuf>,
    /// Deleted partitions whose removal a restart has interrupted.
    pub deleted: Vec<PathBuf>,
    /// Set aside by Kafka; not ours to remove.
    pub stray: Vec<PathBuf>,
    /// Whether the last broker closed every log.
    pub clean: bool,
    pub recovery_points: Offsets,
    pub log_starts: Offsets,
    pub high_watermarks: Offsets,
    pub cleaned: Offsets,
    /// Checkpoints that were damaged, and are taken for empty: recovery reads all records, high watermarks
    /// start at the log's start, and cleaning begins anew.
    pub damaged: Vec<CheckpointError>,
}

impl Contents {
    /// How to open the log of a partition found here.
    pub fn opening(&self, partition: &TopicPartition, compacted: bool, jitter_seed: u64) -> Opening {
        let of = |offsets: &Offsets| offsets.get(partition).copied().unwrap_or(Offset::ZERO);
        Opening {
            recovery_point: of(&self.recovery_points),
            log_start_offset: of(&self.log_starts),
            clean: self.clean,
            compacted,
            jitter_seed,
        }
    }

    /// Refuses a partition that lies in two log dirs: nobody can tell which one is right.
    pub fn check_disjoint(all: &[Contents]) -> Result<(), LogDirectoryError> {
        let mut seen = BTreeMap::new();
        for (partition, path) in all.iter().flat_map(|contents| &contents.partitions) {
            if let Some(other) = seen.insert(partition, path) {
                return Err(LogDirectoryError::Twice {
                    partition: partition.clone(),
                    path: path.clone(),
                    other: other.clone(),
                });
            }
        }
        Ok(())
    }
}

impl<F: Files> LogDirectory<F> {
    /// Makes the directory if need be and takes its lock. Nothing in it is changed.
    pub fn lock(files: F, path: &Path) -> Result<LogDirectory<F>, LogDirectoryError> {
        files.create_directory(path)?;
        match files.lock(&path.join(LOCK)) {
            Ok(lock) => Ok(LogDirectory { files, path: path.to_path_buf(), lock }),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                Err(LogDirectoryError::Locked { path: path.to_path_buf() })
            }
            Err(error) => Err(error.into()),
        }
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whose data this is; `None` in a new directory. See [`MetaProperties::agree`].
    pub fn meta_properties(&self) -> Result<Option<MetaProperties>, LogDirectoryError> {
        Ok(MetaProperties::read(&self.files, &self.meta_properties_path())?)
    }

    pub fn meta_properties_path(&self) -> PathBuf {
        self.path.join(META_PROPERTIES)
    }

    pub fn write_meta_properties(
        &self,
        properties: &MetaProperties,
        now: Timestamp,
    ) -> Result<(), LogDirectoryError> {
        Ok(properties.write(&self.files, &self.meta_properties_path(), now)?)
    }

    /// Finds the partitions and what the checkpoints know of them. From here on the directory counts as not
    /// closed cleanly, so a crash while loading is not overlooked.
    pub fn load(&self) -> Result<Contents, LogDirectoryError> {
        let mut contents = Contents::default();
        for entry in self.files.list(&self.path)? {
            if !entry.is_directory {
                contents.clean |= entry.name == CLEAN_SHUTDOWN;
                continue;
            }
            if entry.name == REMOTE_INDEX_CACHE {
                continue;
            }
            let path = self.path.join(&entry.name);
            let name = match DirectoryName::parse(&entry.name) {
                Ok(name) => name,
                Err(reason) => {
                    let path = self.path.clone();
                    return Err(LogDirectoryError::StrangeDirectory { path, reason });
                }
            };
            match name.state {
                DirectoryState::Current => {
                    contents.partitions.insert(name.partition, path);
                }
                DirectoryState::Future => {
                    contents.future.insert(name.partition, path);
                }
                DirectoryState::Delete => contents.deleted.push(path),
                DirectoryState::Stray => contents.stray.push(path),
            }
        }
        if contents.clean {
            self.files.remove_file(&self.path.join(CLEAN_SHUTDOWN))?;
            self.files.sync_directory(&self.path)?;
        }
        let mut read = |name| match read_offsets(&self.files, &self.path.join(name)) {
            Ok(offsets) => Ok(offsets),
            Err(CheckpointError::File(error)) => Err(error),
            Err(damaged @ CheckpointError::Malformed { .. }) => {
                contents.damaged.push(damaged);
                Ok(Offsets::default())
            }
        };
        contents.recovery_points = read(RECOVERY_POINT_CHECKPOINT)?;
        contents.log_starts = read(LOG_START_CHECKPOINT)?;
        contents.high_watermarks = read(HIGH_WATERMARK_CHECKPOINT)?;
        contents.cleaned = read(CLEANER_CHECKPOINT)?;
        Ok(contents)
    }

    /// Where the log of a partition lies, or will.
    pub fn partition_path(&self, partition: &TopicPartition) -> PathBuf {
        self.path.join(partition.to_string())
    }

    pub fn write_recovery_points(&self, offsets: &Offsets) -> Result<(), FileError> {
        write_offsets(&self.files, &self.path.join(RECOVERY_POINT_CHECKPOINT), offsets)
    }

    /// `offsets` need only hold log start offsets that are not the base of their log's first segment.
    pub fn write_log_starts(&self, offsets: &Offsets) -> Result<(), FileError> {
        write_offsets(&self.files, &self.path.join(LOG_START_CHECKPOINT), offsets)
    }

    pub fn write_high_watermarks(&self, offsets: &Offsets) -> Result<(), FileError> {
        write_offsets(&self.files, &self.path.join(HIGH_WATERMARK_CHECKPOINT), offsets)
    }

    pub fn write_cleaned(&self, offsets: &Offsets) -> Result<(), FileError> {
        write_offsets(&self.files, &self.path.join(CLEANER_CHECKPOINT), offsets)
    }

    /// Renames the directory of a partition whose log has been dropped, so that it no longer counts. `unique`
    /// should be random. Returns the new path; `None` if a future replica's name would be too long.
    pub fn set_aside(
        &self,
        partition: &TopicPartition,
        state: DirectoryState,
        unique: u128,
    ) -> Result<Option<PathBuf>, FileError> {
        let Some(name) = DirectoryName::aside(partition, state, unique) else { return Ok(None) };
        let path = self.path.join(name);
        self.files.rename(&self.partition_path(partition), &path)?;
        self.files.sync_directory(&self.path)?;
        Ok(Some(path))
    }

    /// Removes a directory that was set aside for deletion.
    pub fn remove(&self, deleted: &Path) -> Result<(), FileError> {
        self.files.remove_directory(deleted)
    }

    /// Marks the directory as closed cleanly and gives it up. Every log must have been closed, and the
    /// checkpoints be written, without an error.
    pub fn finish(self) -> Result<(), FileError> {
        self.files.replace(&self.path.join(CLEAN_SHUTDOWN), CLEAN_SHUTDOWN_CONTENT.as_bytes())?;
        // Still locked: whoever takes the lock of a new file now finds everything done.
        let removed = self.files.remove_file(&self.path.join(LOCK));
        drop(self.lock);
        match removed {
            Err(error) if !error.is_not_found() => Err(error),
            _ => Ok(()),
        }
    }
}
