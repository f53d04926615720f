//! Blocks of producer ids.

use ottla_model::BrokerId;

use super::{KafkaZkClient, decoded};
use crate::paths;
use crate::records::{DecodeError, ProducerIdBlock};
use crate::store::{ZkError, retry_read};

impl KafkaZkClient {
    /// Takes the next thousand producer ids for a broker. No two callers ever get the same.
    ///
    /// Two round trips, and two more for each other caller that was faster.
    pub async fn allocate_producer_ids(&self, broker: BrokerId) -> Result<ProducerIdBlock, ZkError> {
        let path = paths::PRODUCER_ID_BLOCK;
        // A znode without data has given none out yet.
        let decode = |bytes: &[u8]| match bytes {
            [] => Ok::<_, DecodeError>(None),
            bytes => ProducerIdBlock::decode(bytes).map(Some),
        };
        loop {
            let Some(found) = decoded(retry_read(|| self.store.get(path)).await, path, decode)? else {
                self.ensure_path(path).await?;
                continue;
            };
            let next =
                ProducerIdBlock::after(found.record.as_ref(), broker).ok_or_else(|| ZkError::Refused {
                    path: path.to_owned(),
                    detail: "all producer ids have been used".to_owned(),
                })?;
            match self.store.set(path, &next.encode(), Some(found.stat.version)).await {
                Ok(_) => return Ok(next),
                // Whoever was faster has other ids. And if it was us, with the answer lost, it costs a
                // thousand of 2^63.
                Err(ZkError::BadVersion { .. } | ZkError::NoNode { .. } | ZkError::OutcomeUnknown { .. }) => {
                }
                Err(error) => return Err(error),
            }
        }
    }
}
