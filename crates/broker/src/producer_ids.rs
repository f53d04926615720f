//! Ids for idempotent producers, given out from blocks.

use ottla_model::{BrokerId, ProducerId};
use ottla_zookeeper::{KafkaZkClient, ZkError};
use parking_lot::Mutex;

/// The block of producer ids that this broker gives out of. No other broker has the same, nor will after a restart: what is
/// left of a block is then lost, and there are 2^63 ids.
#[derive(Debug, Default)]
pub struct ProducerIds {
    block: Mutex<Option<(i64, i64)>>,
    /// Held while a new block is fetched, so that one is enough for all who wait.
    fetching: tokio::sync::Mutex<()>,
}

impl ProducerIds {
    /// The next id of the block at hand, if it has one.
    pub fn take(&self) -> Option<ProducerId> {
        let mut block = self.block.lock();
        let (next, last) = (*block)?;
        *block = (next < last).then_some((next + 1, last));
        Some(ProducerId(next))
    }

    /// An id, from a new block if need be.
    pub async fn take_from_new_block(
        &self,
        zookeeper: &KafkaZkClient,
        broker: BrokerId,
    ) -> Result<ProducerId, ZkError> {
        let _turn = self.fetching.lock().await;
        loop {
            if let Some(id) = self.take() {
                return Ok(id);
            }
            let block = zookeeper.allocate_producer_ids(broker).await?;
            *self.block.lock() = Some((block.first.0, block.last.0));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_given_out_to_its_end_and_no_further() {
        let ids = ProducerIds::default();
        assert_eq!(ids.take(), None, "no block yet");
        *ids.block.lock() = Some((4000, 4001));
        assert_eq!(
            [ids.take(), ids.take(), ids.take()],
            [Some(ProducerId(4000)), Some(ProducerId(4001)), None]
        );
    }
}
