//! `/brokers/topics/T` and the states of its partitions.

use std::collections::BTreeMap;

use ottla_model::{BrokerId, ControllerEpoch, LeaderEpoch, Uuid};
use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, encode_json};

/// Which brokers hold which partitions of a topic.
///
/// During a reassignment `partitions` lists old and new replicas alike.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicAssignment {
    /// None in topics that tools older than topic ids made or rewrote (KIP-516).
    pub topic_id: Option<Uuid>,
    /// The preferred leader first.
    pub partitions: BTreeMap<i32, Vec<BrokerId>>,
    /// Only partitions that are being reassigned.
    pub adding: BTreeMap<i32, Vec<BrokerId>>,
    pub removing: BTreeMap<i32, Vec<BrokerId>>,
}

impl TopicAssignment {
    /// Version 3.
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&WrittenTopic {
            partitions: bare(&self.partitions),
            topic_id: self.topic_id.map(|id| id.to_string()),
            adding_replicas: bare(&self.adding),
            removing_replicas: bare(&self.removing),
            version: 3,
        })
    }

    /// Versions 1 to 3, told by their fields.
    pub fn decode(bytes: &[u8]) -> Result<TopicAssignment, DecodeError> {
        const RECORD: &str = "topic assignment";
        let read: ReadTopic = decode_json(RECORD, bytes)?;
        let topic_id = match read.topic_id {
            Some(id) => Some(id.parse().map_err(|error: ottla_model::InvalidUuid| DecodeError {
                record: RECORD,
                detail: error.to_string(),
            })?),
            None => None,
        };
        if let Some(negative) = read.partitions.keys().find(|partition| **partition < 0) {
            return Err(DecodeError { record: RECORD, detail: format!("partition {negative} is negative") });
        }
        Ok(TopicAssignment {
            topic_id,
            partitions: typed(read.partitions),
            adding: typed(read.adding_replicas.unwrap_or_default()),
            removing: typed(read.removing_replicas.unwrap_or_default()),
        })
    }
}

fn bare(replicas: &BTreeMap<i32, Vec<BrokerId>>) -> BTreeMap<i32, Vec<i32>> {
    replicas.iter().map(|(partition, ids)| (*partition, ids.iter().map(|id| id.0).collect())).collect()
}

fn typed(replicas: BTreeMap<i32, Vec<i32>>) -> BTreeMap<i32, Vec<BrokerId>> {
    replicas
        .into_iter()
        .map(|(partition, ids)| (partition, ids.into_iter().map(BrokerId).collect()))
        .collect()
}

#[derive(Serialize)]
struct WrittenTopic {
    partitions: BTreeMap<i32, Vec<i32>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    topic_id: Option<String>,
    adding_replicas: BTreeMap<i32, Vec<i32>>,
    removing_replicas: BTreeMap<i32, Vec<i32>>,
    version: i32,
}

#[derive(Deserialize)]
struct ReadTopic {
    partitions: BTreeMap<i32, Vec<i32>>,
    topic_id: Option<String>,
    adding_replicas: Option<BTreeMap<i32, Vec<i32>>>,
    removing_replicas: Option<BTreeMap<i32, Vec<i32>>>,
}

/// `/brokers/topics/T/partitions/P/state`. Its znode's version is the partition epoch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    /// [`BrokerId::NONE`] where there is no leader.
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub controller_epoch: ControllerEpoch,
    /// The leader was elected without having been in sync, and has yet to recover (KIP-704).
    pub recovering: bool,
}

const RECOVERING: i32 = 1;

impl PartitionState {
    /// Version 1, as ever.
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&WrittenState {
            controller_epoch: self.controller_epoch.0,
            leader: self.leader.0,
            version: 1,
            leader_recovery_state: self.recovering.then_some(RECOVERING),
            leader_epoch: self.leader_epoch.0,
            isr: self.isr.iter().map(|id| id.0).collect(),
        })
    }

    pub fn decode(bytes: &[u8]) -> Result<PartitionState, DecodeError> {
        let read: ReadState = decode_json("partition state", bytes)?;
        Ok(PartitionState {
            leader: BrokerId(read.leader),
            leader_epoch: LeaderEpoch(read.leader_epoch),
            isr: read.isr.into_iter().map(BrokerId).collect(),
            controller_epoch: ControllerEpoch(read.controller_epoch),
            recovering: read.leader_recovery_state == Some(RECOVERING),
        })
    }
}

#[derive(Serialize)]
struct WrittenState {
    controller_epoch: i32,
    leader: i32,
    version: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    leader_recovery_state: Option<i32>,
    leader_epoch: i32,
    isr: Vec<i32>,
}

#[derive(Deserialize)]
struct ReadState {
    controller_epoch: i32,
    leader: i32,
    leader_recovery_state: Option<i32>,
    leader_epoch: i32,
    isr: Vec<i32>,
}
