//! `/latest_producer_id_block`: the producer ids that were given out last.

use ottla_model::{BrokerId, ProducerId};
use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, encode_json, number_or_text};

/// Ids in a block.
pub const PRODUCER_ID_BLOCK_SIZE: i64 = 1000;

/// Producer ids from `first` to `last`, both included, for one broker to give out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerIdBlock {
    pub broker: BrokerId,
    pub first: ProducerId,
    pub last: ProducerId,
}

impl ProducerIdBlock {
    /// The block after `previous`; `None` once the ids are used up.
    pub fn after(previous: Option<&ProducerIdBlock>, broker: BrokerId) -> Option<ProducerIdBlock> {
        let first = match previous {
            Some(previous) => previous.last.0.checked_add(1)?,
            None => 0,
        };
        let last = first.checked_add(PRODUCER_ID_BLOCK_SIZE - 1)?;
        Some(ProducerIdBlock { broker, first: ProducerId(first), last: ProducerId(last) })
    }

    pub fn encode(&self) -> Vec<u8> {
        encode_json(&Written {
            version: 1,
            broker: self.broker.0,
            block_start: self.first.to_string(),
            block_end: self.last.to_string(),
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<ProducerIdBlock, DecodeError> {
        let read: Read = decode_json("producer id block", bytes)?;
        Ok(ProducerIdBlock {
            broker: BrokerId(read.broker),
            first: ProducerId(read.block_start),
            last: ProducerId(read.block_end),
        })
    }
}

#[derive(Serialize)]
struct Written {
    version: i32,
    broker: i32,
    block_start: String,
    block_end: String,
}

#[derive(Deserialize)]
struct Read {
    broker: i32,
    #[serde(deserialize_with = "number_or_text")]
    block_start: i64,
    #[serde(deserialize_with = "number_or_text")]
    block_end: i64,
}
