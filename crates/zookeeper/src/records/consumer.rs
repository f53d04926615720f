//! `/consumers/...`: the high-level consumer of Kafka 0.8, which keeps its groups and offsets in ZooKeeper.

use std::collections::BTreeMap;

use ottla_model::{Offset, Timestamp};
use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, decode_text, encode_json, timestamp};

/// `/consumers/G/ids/C`: a member of a group, and what it reads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConsumerRegistration {
    /// `static`, `white_list` or `black_list`.
    pub pattern: String,
    /// Streams by topic; under a pattern the one key is the regular expression.
    pub subscription: BTreeMap<String, i32>,
    pub timestamp: Timestamp,
}

impl ConsumerRegistration {
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&Written {
            pattern: &self.pattern,
            subscription: &self.subscription,
            timestamp: self.timestamp.to_string(),
            version: 1,
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<ConsumerRegistration, DecodeError> {
        let read: Read = decode_json("consumer registration", bytes)?;
        Ok(ConsumerRegistration {
            pattern: read.pattern.unwrap_or_else(|| "static".to_owned()),
            subscription: read.subscription,
            timestamp: Timestamp(read.timestamp),
        })
    }
}

#[derive(Serialize)]
struct Written<'a> {
    pattern: &'a str,
    subscription: &'a BTreeMap<String, i32>,
    timestamp: String,
    version: i32,
}

#[derive(Deserialize)]
struct Read {
    pattern: Option<String>,
    subscription: BTreeMap<String, i32>,
    #[serde(default, deserialize_with = "timestamp")]
    timestamp: i64,
}

/// `/consumers/G/offsets/T/P` is the next offset to read, as decimal text.
pub fn encode_offset(offset: Offset) -> Vec<u8> {
    offset.to_string().into_bytes()
}

/// `None` for a znode without data.
pub fn decode_offset(bytes: &[u8]) -> Result<Option<Offset>, DecodeError> {
    const RECORD: &str = "consumer offset";
    let text = decode_text(RECORD, bytes)?.trim();
    if text.is_empty() {
        return Ok(None);
    }
    text.parse()
        .map(|offset| Some(Offset(offset)))
        .map_err(|error| DecodeError { record: RECORD, detail: format!("{text:?}: {error}") })
}
