//! Notices to the controller: ISR changes of brokers older than 2.7, and failed log directories.

use ottla_model::BrokerId;
use serde::{Deserialize, Serialize};

use super::admin::{List, PartitionRef, ReadList};
use super::{DecodeError, decode_json, encode_json};

/// `/isr_change_notification/isr_change_*`: partitions whose state a leader has rewritten.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IsrChange(pub Vec<PartitionRef>);

impl IsrChange {
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&List { version: 1, partitions: self.0.clone() })
    }

    pub fn decode(bytes: &[u8]) -> Result<IsrChange, DecodeError> {
        let read: ReadList<PartitionRef> = decode_json("ISR change", bytes)?;
        Ok(IsrChange(read.partitions))
    }
}

/// `/log_dir_event_notification/log_dir_event_*`: a broker has lost a log directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogDirEvent {
    pub broker: BrokerId,
}

/// The only event there is.
const LOG_DIR_FAILURE: i32 = 1;

impl LogDirEvent {
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&Written { version: 1, broker: self.broker.0, event: LOG_DIR_FAILURE })
    }

    pub fn decode(bytes: &[u8]) -> Result<LogDirEvent, DecodeError> {
        let read: Read = decode_json("log directory event", bytes)?;
        Ok(LogDirEvent { broker: BrokerId(read.broker) })
    }
}

#[derive(Serialize)]
struct Written {
    version: i32,
    broker: i32,
    event: i32,
}

#[derive(Deserialize)]
struct Read {
    broker: i32,
}
