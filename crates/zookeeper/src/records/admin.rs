//! `/admin/...`: what tools older than the admin protocol ask of the controller.

use ottla_model::BrokerId;
use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, encode_json};

/// A partition as these records name it. The topic is text as read: it may be no legal name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct PartitionRef {
    pub topic: String,
    pub partition: i32,
}

/// `/admin/reassign_partitions`: where partitions shall move.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Reassignment(pub Vec<(PartitionRef, Vec<BrokerId>)>);

impl Reassignment {
    pub fn encode(&self) -> Vec<u8> {
        let partitions = self.0.iter().map(|(partition, replicas)| Target {
            topic: partition.topic.clone(),
            partition: partition.partition,
            replicas: replicas.iter().map(|id| id.0).collect(),
        });
        encode_json(&List { version: 1, partitions: partitions.collect() })
    }

    pub fn decode(bytes: &[u8]) -> Result<Reassignment, DecodeError> {
        let read: ReadList<Target> = decode_json("partition reassignment", bytes)?;
        let targets = read.partitions.into_iter().map(|target| {
            let partition = PartitionRef { topic: target.topic, partition: target.partition };
            (partition, target.replicas.into_iter().map(BrokerId).collect())
        });
        Ok(Reassignment(targets.collect()))
    }
}

/// `/admin/preferred_replica_election`: partitions whose preferred replica shall lead.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreferredElection(pub Vec<PartitionRef>);

impl PreferredElection {
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&List { version: 1, partitions: self.0.clone() })
    }

    pub fn decode(bytes: &[u8]) -> Result<PreferredElection, DecodeError> {
        let read: ReadList<PartitionRef> = decode_json("preferred replica election", bytes)?;
        Ok(PreferredElection(read.partitions))
    }
}

#[derive(Serialize, Deserialize)]
struct Target {
    topic: String,
    partition: i32,
    replicas: Vec<i32>,
}

#[derive(Serialize)]
pub(super) struct List<T> {
    pub(super) version: i32,
    pub(super) partitions: Vec<T>,
}

#[derive(Deserialize)]
pub(super) struct ReadList<T> {
    pub(super) partitions: Vec<T>,
}
