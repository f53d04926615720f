//! `/controller` and `/controller_epoch`.

use ottla_model::{BrokerId, ControllerEpoch, Timestamp};
use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, decode_text, encode_json, timestamp};

/// Who the controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerRecord {
    pub broker: BrokerId,
    pub timestamp: Timestamp,
    /// The epoch of a KRaft controller that migrates the cluster; then no broker competes. `None` for a
    /// broker.
    pub kraft_epoch: Option<i32>,
}

impl ControllerRecord {
    /// Version 2; a broker never is a KRaft controller.
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&Written {
            version: 2,
            brokerid: self.broker.0,
            timestamp: self.timestamp.to_string(),
            kraft_controller_epoch: self.kraft_epoch.unwrap_or(-1),
        })
    }

    /// Versions 1 and 2, and the bare id of Kafka 0.8's beta.
    pub fn decode(bytes: &[u8]) -> Result<ControllerRecord, DecodeError> {
        const RECORD: &str = "controller";
        if let Some(id) = std::str::from_utf8(bytes).ok().and_then(|text| text.trim().parse().ok()) {
            return Ok(ControllerRecord {
                broker: BrokerId(id),
                timestamp: Timestamp::NONE,
                kraft_epoch: None,
            });
        }
        let read: Read = decode_json(RECORD, bytes)?;
        Ok(ControllerRecord {
            broker: BrokerId(read.brokerid),
            timestamp: Timestamp(read.timestamp),
            kraft_epoch: read.kraft_controller_epoch.filter(|epoch| *epoch >= 0),
        })
    }
}

#[derive(Serialize)]
struct Written {
    version: i32,
    brokerid: i32,
    timestamp: String,
    #[serde(rename = "kraftControllerEpoch")]
    kraft_controller_epoch: i32,
}

#[derive(Deserialize)]
struct Read {
    brokerid: i32,
    #[serde(default, deserialize_with = "timestamp")]
    timestamp: i64,
    #[serde(rename = "kraftControllerEpoch")]
    kraft_controller_epoch: Option<i32>,
}

/// `/controller_epoch` is bare decimal text.
pub fn encode_controller_epoch(epoch: ControllerEpoch) -> Vec<u8> {
    epoch.to_string().into_bytes()
}

pub fn decode_controller_epoch(bytes: &[u8]) -> Result<ControllerEpoch, DecodeError> {
    const RECORD: &str = "controller epoch";
    let text = decode_text(RECORD, bytes)?;
    text.trim()
        .parse()
        .map(ControllerEpoch)
        .map_err(|error| DecodeError { record: RECORD, detail: format!("{text:?}: {error}") })
}
