//! What Kafka's znodes hold: compact JSON, its fields in the order in which Kafka 3.9 writes them.
//!
//! Writers follow one version to the letter; readers take every version and pass over fields they do not
//! know, for brokers, tools and consumers of every age share the tree. Whole numbers beyond 32 bits are never
//! written as numbers where a process of Kafka 0.8 reads: it would fail on them.

mod admin;
mod broker;
mod cluster;
mod config;
mod consumer;
mod controller;
mod feature;
mod notification;
mod producer_id;
mod topic;

use std::borrow::Cow;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

pub use admin::{PartitionRef, PreferredElection, Reassignment};
pub use broker::{BrokerEndpoint, BrokerRegistration, FeatureRange, RegistrationVersion};
pub use cluster::ClusterId;
pub use config::{ConfigChangeRecord, ConfigEntity, EntityConfig, sanitize};
pub use consumer::{ConsumerRegistration, decode_offset, encode_offset};
pub use controller::{ControllerRecord, decode_controller_epoch, encode_controller_epoch};
pub use feature::{FeatureRecord, FeatureStatus};
pub use notification::{IsrChange, LogDirEvent};
pub use producer_id::{PRODUCER_ID_BLOCK_SIZE, ProducerIdBlock};
pub use topic::{PartitionState, TopicAssignment};

/// The bytes are not the record they should be.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("not a {record}: {detail}")]
pub struct DecodeError {
    pub record: &'static str,
    pub detail: String,
}

fn decode_json<T: DeserializeOwned>(record: &'static str, bytes: &[u8]) -> Result<T, DecodeError> {
    serde_json::from_slice(bytes).map_err(|error| DecodeError { record, detail: error.to_string() })
}

fn encode_json(record: &impl Serialize) -> Vec<u8> {
    // Fails only for maps whose keys are not text, which none of ours are.
    serde_json::to_vec(record).expect("records are plain JSON")
}

fn decode_text<'a>(record: &'static str, bytes: &'a [u8]) -> Result<&'a str, DecodeError> {
    std::str::from_utf8(bytes).map_err(|error| DecodeError { record, detail: error.to_string() })
}

/// A number that is written as text, and read as either.
#[derive(Deserialize)]
#[serde(untagged)]
enum NumberOrText<'a> {
    Number(i64),
    #[serde(borrow)]
    Text(Cow<'a, str>),
}

impl NumberOrText<'_> {
    fn number(&self) -> Option<i64> {
        match self {
            NumberOrText::Number(number) => Some(*number),
            NumberOrText::Text(text) => text.parse().ok(),
        }
    }
}

/// Reads a number written either way, for `#[serde(deserialize_with)]`.
fn number_or_text<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    let value = NumberOrText::deserialize(deserializer)?;
    value.number().ok_or_else(|| serde::de::Error::custom("expected a number, or a number as text"))
}

/// As [`number_or_text`], for numbers that only inform: what is no number is none.
fn timestamp<'de, D: serde::Deserializer<'de>>(deserializer: D) -> Result<i64, D::Error> {
    Ok(NumberOrText::deserialize(deserializer)?.number().unwrap_or(-1))
}
