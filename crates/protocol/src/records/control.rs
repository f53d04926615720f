//! Control records: what the protocol writes into the log for itself, above all the markers that end transactions.
//!
//! ```text
//! key    i16 version 0 | i16 type
//! value  i16 version 0 | i32 coordinator epoch          of an abort or commit marker
//! ```

use bytes::Bytes;
use ottla_model::{Offset, ProducerEpoch, ProducerId, Timestamp};

use super::batch::{NO_SEQUENCE, array};
use super::builder::{BatchBuilder, ProducerState};

/// What a control record says. Types that are not for consumers or for this broker are told apart only by number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ControlType {
    Abort,
    Commit,
    /// KRaft's own, 2 to 6, and whatever later versions add.
    Other(i16),
}

impl ControlType {
    /// `None` if `key` is not a control record's: shorter than its two fields, or of a negative version.
    /// Versions above 0 are read as 0, as the fields known so far stay where they are.
    pub fn from_key(key: &[u8]) -> Option<ControlType> {
        if key.len() < 4 || i16::from_be_bytes(array(key, 0)) < 0 {
            return None;
        }
        Some(match i16::from_be_bytes(array(key, 2)) {
            0 => ControlType::Abort,
            1 => ControlType::Commit,
            other => ControlType::Other(other),
        })
    }

    fn id(self) -> i16 {
        match self {
            ControlType::Abort => 0,
            ControlType::Commit => 1,
            ControlType::Other(id) => id,
        }
    }
}

/// How a transaction ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionResult {
    Abort,
    Commit,
}

/// The marker that ends a producer's transaction on one partition (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndTransactionMarker {
    pub result: TransactionResult,
    /// Leader epoch of the `__transaction_state` partition whose coordinator wrote it; fences an older one.
    pub coordinator_epoch: i32,
}

impl EndTransactionMarker {
    /// `None` if key and value are not those of a marker. Versions above 0 are read as 0.
    pub fn from_record(key: &[u8], value: &[u8]) -> Option<EndTransactionMarker> {
        let result = match ControlType::from_key(key)? {
            ControlType::Abort => TransactionResult::Abort,
            ControlType::Commit => TransactionResult::Commit,
            ControlType::Other(_) => return None,
        };
        if value.len() < 6 || i16::from_be_bytes(array(value, 0)) < 0 {
            return None;
        }
        Some(EndTransactionMarker { result, coordinator_epoch: i32::from_be_bytes(array(value, 2)) })
    }

    /// The marker as a batch of its own, 78 bytes, at `base_offset` and without a leader epoch yet.
    pub fn to_batch(
        self,
        base_offset: Offset,
        timestamp: Timestamp,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
    ) -> Bytes {
        let control_type = match self.result {
            TransactionResult::Abort => ControlType::Abort,
            TransactionResult::Commit => ControlType::Commit,
        };
        let mut key = [0; 4];
        key[2..].copy_from_slice(&control_type.id().to_be_bytes());
        let mut value = [0; 6];
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let mut builder =
            BatchBuilder::new().with_base_offset(base_offset).with_transactional(true).with_control(true);
        builder.set_producer(ProducerState {
            id: producer_id,
            epoch: producer_epoch,
            base_sequence: NO_SEQUENCE,
        });
        builder.append(timestamp, Some(&key), Some(&value), &[]);
        builder.finish()
    }
}
