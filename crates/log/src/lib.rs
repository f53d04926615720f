//! One partition on disk: Kafka's segments, indexes, epochs, producer state and recovery, byte for byte.
//!
//! ```text
//! append_as_leader / append_as_follower --> roll? --> write --> indexes, producer state   (one caller at a time)
//! plan_read --> ReadPlan::run --> a region of a file                                      (any number, no lock held)
//! begin_flush --> Flush::run --> finish_flush                                             (the fsyncs hold no lock)
//! ```
//!
//! A [`Log`] is a plain value that decides and writes at once: no clock, no threads, no async. Time comes in
//! as an argument, the disk as [`ottla_files::Files`]. [`LogDirectory`] is the directory around it: its lock,
//! its identity, its checkpoints.

mod append;
mod checkpoint;
mod flush;
mod index_file;
mod layout;
mod leader_epoch_cache;
mod log;
mod log_directory;
mod lookup;
mod meta_properties;
mod offset_index;
mod partition_metadata;
mod producer_state;
mod read;
mod recovery;
mod retention;
mod segment;
mod storage_error;
mod time_index;
mod transaction_index;
mod truncate;

pub use append::{AppendError, Appended};
pub use checkpoint::{CheckpointError, Offsets, read_offsets, write_offsets};
pub use flush::{Closed, Flush, Flushed};
pub use layout::{
    CLEAN_SHUTDOWN, CLEANER_CHECKPOINT, DirectoryName, DirectoryState, FileKind, FileName, FileState,
    HIGH_WATERMARK_CHECKPOINT, InvalidDirectoryName, LEADER_EPOCH_CHECKPOINT, LOCK, LOG_START_CHECKPOINT,
    META_PROPERTIES, PARTITION_METADATA, RECOVERY_POINT_CHECKPOINT, REMOTE_INDEX_CACHE,
};
pub use leader_epoch_cache::{EpochEnd, EpochStart, LeaderEpochCache};
pub use log::{EndOffset, Log, LogConfig, SegmentInfo, TopicIdError};
pub use log_directory::{Contents, LogDirectory, LogDirectoryError};
pub use lookup::{FoundTimestamp, TimestampPlan};
pub use meta_properties::{MetaProperties, MetaPropertiesError};
pub use partition_metadata::{PartitionMetadataError, read_topic_id};
pub use producer_state::{
    BATCHES_REMEMBERED, BatchMetadata, DamagedSnapshot, ProducerEntry, ProducerError, ProducerStates,
};
pub use read::{Read, ReadError, ReadPlan, Region};
pub use recovery::{Damage, Finding, Opening, Recovered};
pub use retention::Retention;
pub use storage_error::StorageError;
pub use transaction_index::AbortedTransaction;
pub use truncate::DoomedFiles;
