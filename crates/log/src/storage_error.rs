//! Trouble with what lies, or should lie, on disk.

use std::path::PathBuf;

use ottla_files::FileError;
use ottla_model::Offset;
use ottla_protocol::ErrorCode;
use ottla_protocol::records::{CorruptBatch, RecordError};

use crate::checkpoint::CheckpointError;

#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// The disk failed; the log dir is not to be trusted any more.
    #[error(transparent)]
    File(#[from] FileError),
    #[error(transparent)]
    Checkpoint(#[from] CheckpointError),
    #[error("{} holds no entry at byte {position}: {reason}", path.display())]
    CorruptEntry { path: PathBuf, position: u64, reason: CorruptBatch },
    #[error("{} ends at byte {end}, inside the entry that starts at byte {position}", path.display())]
    TornEntry { path: PathBuf, position: u64, end: u64 },
    #[error(
        "{} holds an entry at byte {position} for offsets {first} to {last}, where {expected} was next",
        path.display()
    )]
    OutOfOrder { path: PathBuf, position: u64, first: Offset, last: Offset, expected: Offset },
    #[error("{} holds an entry at byte {position} whose records cannot be read: {reason}", path.display())]
    CorruptRecords { path: PathBuf, position: u64, reason: RecordError },
}

impl StorageError {
    pub fn code(&self) -> ErrorCode {
        match self {
            StorageError::File(_) | StorageError::Checkpoint(_) => ErrorCode::KafkaStorageError,
            StorageError::CorruptEntry { .. }
            | StorageError::TornEntry { .. }
            | StorageError::OutOfOrder { .. }
            | StorageError::CorruptRecords { .. } => ErrorCode::CorruptMessage,
        }
    }

    /// Whether a file is not there any more: the whole partition was deleted or moved while it was being read.
    pub fn is_gone(&self) -> bool {
        match self {
            StorageError::File(error) => error.is_not_found(),
            _ => false,
        }
    }

    /// Whether the bytes are wrong, as opposed to a disk that failed to hand them over.
    pub fn is_damage(&self) -> bool {
        match self {
            StorageError::File(error) => error.is_short_read(),
            StorageError::Checkpoint(CheckpointError::File(_)) => false,
            StorageError::Checkpoint(CheckpointError::Malformed { .. })
            | StorageError::CorruptEntry { .. }
            | StorageError::TornEntry { .. }
            | StorageError::OutOfOrder { .. }
            | StorageError::CorruptRecords { .. } => true,
        }
    }
}
