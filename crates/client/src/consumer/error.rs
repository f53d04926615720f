//! Why records cannot be read.

use ottla_model::{Offset, TopicPartition};
use ottla_protocol::records::{CorruptBatch, RecordError};

use crate::error::ClientError;

/// Why records cannot be read. The consumer goes on with other partitions; the one named stays where it is until it is sought elsewhere.
#[derive(Debug, thiserror::Error)]
pub enum ConsumeError {
    #[error(transparent)]
    Client(Box<ClientError>),
    #[error("{partition}: {source}")]
    Partition { partition: TopicPartition, source: Box<ClientError> },
    #[error(
        "{partition}: offset {offset} is not there any more or not yet, and there is no auto.offset.reset"
    )]
    OffsetOutOfRange { partition: TopicPartition, offset: Offset },
    #[error("{partition}: the group has committed no offset, and there is no auto.offset.reset")]
    NoCommittedOffset { partition: TopicPartition },
    #[error("{partition}: the record at offset {offset} takes {bytes} bytes, over the limit of {limit}")]
    RecordTooLarge { partition: TopicPartition, offset: Offset, bytes: usize, limit: usize },
    #[error("{partition}: the batch at offset {offset} is corrupt: {source}")]
    Corrupt { partition: TopicPartition, offset: Offset, source: CorruptBatch },
    #[error("{partition}: the records of the batch at offset {offset} cannot be read: {source}")]
    Unreadable { partition: TopicPartition, offset: Offset, source: RecordError },
    #[error("{partition} is not assigned")]
    NotAssigned { partition: TopicPartition },
}

impl From<ClientError> for ConsumeError {
    fn from(error: ClientError) -> ConsumeError {
        ConsumeError::Client(Box::new(error))
    }
}
