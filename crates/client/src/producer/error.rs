//! Why a record was not delivered.

use std::sync::Arc;
use std::time::Duration;

use ottla_model::TopicPartition;
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::Codec;

use crate::error::ClientError;

/// Why a record was not delivered, or perhaps not. Cheap to clone: all records of a batch share it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError {
    #[error(transparent)]
    Client(Arc<ClientError>),
    #[error("record of {size} bytes is larger than max.request.size or buffer.memory allow, {limit} bytes")]
    RecordTooLarge { size: usize, limit: usize },
    #[error("no room for {bytes} bytes within {} ms: buffer.memory is full, the brokers take records too slowly", waited.as_millis())]
    MemoryFull { bytes: usize, waited: Duration },
    #[error("{partition}: {}: {}", code.name(), message.as_deref().unwrap_or_else(|| code.message()))]
    Refused { partition: TopicPartition, code: ErrorCode, message: Option<Arc<str>> },
    /// The record may have been written: an answer can be lost.
    #[error(
        "{partition}: not acknowledged within {} ms{}",
        after.as_millis(),
        last.map(|code| code.to_string())
            .or_else(|| trouble.as_ref().map(|trouble| trouble.to_string()))
            .map_or(String::new(), |why| format!("; last: {why}"))
    )]
    TimedOut {
        partition: TopicPartition,
        after: Duration,
        /// What the broker said last.
        last: Option<ErrorCode>,
        /// What went wrong last on the way to any broker.
        trouble: Option<Arc<ClientError>>,
    },
    #[error("{partition}: the broker is too old for {codec} batches")]
    CodecUnsupported { partition: TopicPartition, codec: Codec },
    #[error("{partition}: the broker is too old for records with headers")]
    HeadersUnsupported { partition: TopicPartition },
    #[error("the producer is closed")]
    Closed,
    #[error("enable.idempotence=true needs acks=all and at most {max} requests in flight")]
    IdempotenceImpossible { max: usize },
}

impl From<ClientError> for ProduceError {
    fn from(error: ClientError) -> ProduceError {
        ProduceError::Client(Arc::new(error))
    }
}
