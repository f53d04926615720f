//! What the client knows of the cluster: brokers, topics, leaders. One snapshot, replaced as a whole.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ottla_model::{BrokerId, LeaderEpoch, TopicName, Uuid};
use ottla_protocol::ErrorCode;
use ottla_protocol::messages::MetadataResponse;
use ottla_protocol::messages::metadata::{MetadataResponsePartition, MetadataResponseTopic};

use crate::Address;
use crate::error::error_code;

#[derive(Debug, Clone, Default)]
pub struct Metadata {
    /// `None` from brokers before 0.10.1.
    pub cluster_id: Option<Arc<str>>,
    /// `None` while the cluster has none, and from brokers before 0.10.
    pub controller: Option<BrokerId>,
    /// The live brokers.
    pub brokers: BTreeMap<BrokerId, Broker>,
    /// The topics that were asked for, those that do not exist left out.
    pub topics: HashMap<TopicName, Arc<Topic>>,
    /// Counts the snapshots.
    pub generation: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broker {
    pub id: BrokerId,
    /// What the broker advertises for the listener that was asked.
    pub address: Address,
    pub rack: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    pub name: TopicName,
    /// Zero from brokers before 2.8.
    pub id: Uuid,
    /// Whether the topic is Kafka's own, such as `__consumer_offsets`.
    pub internal: bool,
    /// Trouble with the topic as a whole, such as a missing authorization.
    pub error: ErrorCode,
    /// By partition number, without gaps.
    pub partitions: Vec<Partition>,
    /// The partitions that have a leader, ascending.
    pub available: Vec<i32>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Partition {
    pub error: ErrorCode,
    pub leader: Option<BrokerId>,
    /// [`LeaderEpoch::NONE`] from brokers before 2.1.
    pub leader_epoch: LeaderEpoch,
    pub replicas: Vec<BrokerId>,
    pub isr: Vec<BrokerId>,
    pub offline: Vec<BrokerId>,
}

impl Metadata {
    pub fn leader(&self, topic: &str, partition: i32) -> Option<(BrokerId, LeaderEpoch)> {
        let partition = self.topics.get(topic)?.partition(partition)?;
        Some((partition.leader?, partition.leader_epoch))
    }

    /// The snapshot after `response`, which named topics of its own choice: the others stay as they were.
    ///
    /// A partition never goes back to an older leadership: another broker may answer from an older view (KIP-320).
    pub(crate) fn updated(&self, response: &MetadataResponse) -> Metadata {
        let brokers = response.brokers.iter().filter_map(|broker| {
            let id = BrokerId(broker.node_id);
            let address = Address::new(&broker.host, u16::try_from(broker.port).ok()?);
            Some((id, Broker { id, address, rack: broker.rack.as_deref().map(Arc::from) }))
        });
        let mut topics = self.topics.clone();
        for topic in &response.topics {
            let Some(name) = topic.name.as_deref().and_then(|name| TopicName::new(name).ok()) else {
                continue;
            };
            if error_code(topic.error_code) == ErrorCode::UnknownTopicOrPartition {
                topics.remove(&name);
                continue;
            }
            let known = topics.get(&name).filter(|known| known.id == topic.topic_id);
            let topic = Topic::from_response(name.clone(), topic, known.map(Arc::as_ref));
            topics.insert(name, Arc::new(topic));
        }
        Metadata {
            cluster_id: response.cluster_id.as_deref().map(Arc::from),
            controller: some_broker(response.controller_id),
            brokers: brokers.collect(),
            topics,
            generation: self.generation + 1,
        }
    }
}

impl Topic {
    fn from_response(name: TopicName, response: &MetadataResponseTopic, known: Option<&Topic>) -> Topic {
        let mut partitions: Vec<Partition> = Vec::new();
        let mut sorted: Vec<&MetadataResponsePartition> = response.partitions.iter().collect();
        sorted.sort_unstable_by_key(|partition| partition.partition_index);
        for partition in sorted {
            // A gap would move all that follow to wrong numbers; what comes after it is learnt with the next answer.
            if usize::try_from(partition.partition_index) != Ok(partitions.len()) {
                break;
            }
            let known = known.and_then(|topic| topic.partitions.get(partitions.len()));
            partitions.push(match known {
                Some(known)
                    if known.leader_epoch.0 > partition.leader_epoch && partition.leader_epoch >= 0 =>
                {
                    known.clone()
                }
                _ => Partition::from_response(partition),
            });
        }
        let available = (0..).zip(&partitions).filter(|(_, partition)| partition.leader.is_some());
        Topic {
            id: response.topic_id,
            internal: response.is_internal,
            error: error_code(response.error_code),
            available: available.map(|(number, _)| number).collect(),
            partitions,
            name,
        }
    }

    pub fn partition(&self, number: i32) -> Option<&Partition> {
        self.partitions.get(usize::try_from(number).ok()?)
    }
}

impl Partition {
    fn from_response(response: &MetadataResponsePartition) -> Partition {
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        Partition {
            error: error_code(response.error_code),
            leader: some_broker(response.leader_id),
            leader_epoch: LeaderEpoch(response.leader_epoch),
            replicas: brokers(&response.replica_nodes),
            isr: brokers(&response.isr_nodes),
            offline: brokers(&response.offline_replicas),
        }
    }
}

fn some_broker(id: i32) -> Option<BrokerId> {
    (id >= 0).then_some(BrokerId(id))
}

#[cfg(test)]
mod tests {
    use ottla_protocol::messages::metadata::MetadataResponseBroker;

    use super::*;

    fn partition(number: i32, leader: i32, epoch: i32) -> MetadataResponsePartition {
        MetadataResponsePartition {
            partition_index: number,
            leader_id: leader,
            leader_epoch: epoch,
            replica_nodes: vec![1, 2],
            isr_nodes: vec![1],
            ..Default::default()
        }
    }

    fn answer(topic: &str, partitions: Vec<MetadataResponsePartition>) -> MetadataResponse {
        let broker =
            |id| MetadataResponseBroker { node_id: id, host: "h".into(), port: 9092, ..Default::default() };
        let topic = MetadataResponseTopic { name: Some(topic.into()), partitions, ..Default::default() };
        MetadataResponse {
            brokers: vec![broker(1), broker(2)],
            controller_id: 2,
            topics: vec![topic],
            ..Default::default()
        }
    }

    #[test]
    fn leaders_are_known_by_topic_and_partition() {
        let answer = answer("t", vec![partition(1, -1, 3), partition(0, 2, 5)]);
        let metadata = Metadata::default().updated(&answer);
        assert_eq!(metadata.leader("t", 0), Some((BrokerId(2), LeaderEpoch(5))));
        for (why, topic, partition) in [
            ("leaderless", "t", 1),
            ("no such partition", "t", 2),
            ("negative", "t", -1),
            ("no topic", "u", 0),
        ] {
            assert_eq!(metadata.leader(topic, partition), None, "{why}");
        }
        assert_eq!(metadata.topics["t"].available, [0]);
        assert_eq!(metadata.controller, Some(BrokerId(2)));
    }

    #[test]
    fn a_leadership_never_goes_back() {
        for (why, epoch, leader) in [
            ("an older view is not believed", 4, 2),
            ("the same epoch may correct the leader", 5, 1),
            ("a newer epoch counts", 6, 1),
            ("a broker that knows no epochs is believed", -1, 1),
        ] {
            let before = Metadata::default().updated(&answer("t", vec![partition(0, 2, 5)]));
            let after = before.updated(&answer("t", vec![partition(0, 1, epoch)]));
            assert_eq!(after.leader("t", 0).unwrap().0, BrokerId(leader), "{why}");
        }
    }

    #[test]
    fn a_topic_made_anew_starts_with_new_epochs() {
        let before = Metadata::default().updated(&answer("t", vec![partition(0, 2, 5)]));
        let mut anew = answer("t", vec![partition(0, 1, 0)]);
        anew.topics[0].topic_id = Uuid([7; 16]);
        assert_eq!(before.updated(&anew).leader("t", 0), Some((BrokerId(1), LeaderEpoch(0))));
    }

    #[test]
    fn topics_that_were_not_asked_for_stay_and_deleted_ones_go() {
        let before = Metadata::default().updated(&answer("t", vec![partition(0, 2, 5)]));
        let after = before.updated(&answer("u", vec![partition(0, 1, 0)]));
        assert!(after.topics.contains_key("t") && after.topics.contains_key("u"));
        let mut gone = answer("t", vec![]);
        gone.topics[0].error_code = ErrorCode::UnknownTopicOrPartition.into();
        assert!(!after.updated(&gone).topics.contains_key("t"));
    }

    #[test]
    fn a_gap_in_the_partitions_shifts_nothing() {
        let metadata =
            Metadata::default().updated(&answer("t", vec![partition(0, 1, 0), partition(2, 2, 0)]));
        assert_eq!(metadata.topics["t"].partitions.len(), 1);
    }
}
