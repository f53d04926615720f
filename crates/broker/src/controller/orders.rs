//! The controller's decisions as the requests that carry them.

use std::collections::BTreeMap;

use ottla_controller::PartitionOrder;
use ottla_model::{BrokerEpoch, BrokerId, ControllerEpoch, TopicName, TopicPartition, Uuid};
use ottla_protocol::Str;
use ottla_protocol::messages::leader_and_isr::{
    LeaderAndIsrLiveLeader, LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrTopicState,
};
use ottla_protocol::messages::stop_replica::{
    StopReplicaPartitionState, StopReplicaPartitionV0, StopReplicaRequest, StopReplicaTopicState,
    StopReplicaTopicV1,
};
use ottla_protocol::messages::update_metadata::{
    UpdateMetadataBroker, UpdateMetadataEndpoint, UpdateMetadataPartitionState, UpdateMetadataRequest,
    UpdateMetadataTopicState,
};

use crate::config::ProtocolVersion;
use crate::metadata_cache::BrokerImage;

/// What a partition's leader is said to be while its topic is being deleted, so that brokers forget it.
pub const LEADER_DURING_DELETE: i32 = -2;

/// Any leader epoch will do: the replica's topic is being deleted (KIP-570).
const EPOCH_DURING_DELETE: i32 = -2;

/// Who gives the orders, and to which life of which broker.
#[derive(Debug, Clone, Copy)]
pub struct Sender {
    pub controller: BrokerId,
    pub controller_epoch: ControllerEpoch,
}

/// The versions of the orders. They are not negotiated but follow from `inter.broker.protocol.version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestVersions {
    pub leader_and_isr: i16,
    pub update_metadata: i16,
    pub stop_replica: i16,
}

/// From which level of the protocol on which version is sent; the newest first.
type Levels = &'static [(&'static str, i16)];

const LEADER_AND_ISR: Levels = &[
    ("3.4-IV0", 7),
    ("3.2-IV0", 6),
    ("2.8-IV1", 5),
    ("2.4-IV1", 4),
    ("2.4-IV0", 3),
    ("2.2-IV0", 2),
    ("1.0-IV0", 1),
];
const UPDATE_METADATA: Levels = &[
    ("3.4-IV0", 8),
    ("2.8-IV1", 7),
    ("2.4-IV1", 6),
    ("2.2-IV0", 5),
    ("1.0-IV0", 4),
    ("0.10.2-IV0", 3),
    ("0.10.0-IV1", 2),
    ("0.9.0", 1),
];
const STOP_REPLICA: Levels = &[("3.4-IV0", 4), ("2.6-IV0", 3), ("2.4-IV1", 2), ("2.2-IV0", 1)];

impl RequestVersions {
    pub fn of(protocol: ProtocolVersion) -> RequestVersions {
        let version = |levels: Levels| {
            let reached = |level: &str| level.parse::<ProtocolVersion>().is_ok_and(|level| protocol >= level);
            levels.iter().find(|(level, _)| reached(level)).map_or(0, |(_, version)| *version)
        };
        RequestVersions {
            leader_and_isr: version(LEADER_AND_ISR),
            update_metadata: version(UPDATE_METADATA),
            stop_replica: version(STOP_REPLICA),
        }
    }
}

/// Orders for the replicas of one broker. `leaders` are the live ones among the leaders named, for their addresses.
pub fn leader_and_isr<'a>(
    sender: Sender,
    broker_epoch: BrokerEpoch,
    version: i16,
    orders: &[PartitionOrder],
    leaders: impl Iterator<Item = &'a BrokerImage>,
    listener: &str,
) -> LeaderAndIsrRequest {
    let live_leaders = leaders.filter_map(|leader| {
        let endpoint = leader.endpoint(listener)?;
        Some(LeaderAndIsrLiveLeader {
            broker_id: leader.id.0,
            host_name: Str::from(endpoint.host.as_str()),
            port: endpoint.port,
            ..Default::default()
        })
    });
    let state = |order: &PartitionOrder| LeaderAndIsrPartitionState {
        topic_name: Str::from(order.partition.topic.as_str()),
        partition_index: order.partition.partition,
        controller_epoch: order.state.controller_epoch.0,
        leader: order.state.leader.0,
        leader_epoch: order.state.leader_epoch.0,
        isr: bare(&order.state.isr),
        partition_epoch: order.state.partition_epoch.0,
        replicas: bare(&order.replicas),
        is_new: order.is_new,
        leader_recovery_state: i8::from(order.state.recovering),
        ..Default::default()
    };
    let mut request = LeaderAndIsrRequest {
        controller_id: sender.controller.0,
        controller_epoch: sender.controller_epoch.0,
        broker_epoch: broker_epoch.0,
        live_leaders: live_leaders.collect(),
        ..Default::default()
    };
    if version < 2 {
        request.ungrouped_partition_states = orders.iter().map(state).collect();
        return request;
    }
    let grouped = by_topic(orders).into_iter().map(|(topic, (topic_id, orders))| LeaderAndIsrTopicState {
        topic_name: Str::from(topic.as_str()),
        topic_id,
        partition_states: orders.into_iter().map(state).collect(),
        ..Default::default()
    });
    request.topic_states = grouped.collect();
    request
}

/// News for any broker: who lives, what changed, what goes.
pub fn update_metadata<'a>(
    sender: Sender,
    broker_epoch: BrokerEpoch,
    version: i16,
    orders: &[PartitionOrder],
    deleted: &[TopicPartition],
    brokers: impl Iterator<Item = &'a BrokerImage>,
) -> UpdateMetadataRequest {
    let state = |order: &PartitionOrder| UpdateMetadataPartitionState {
        topic_name: Str::from(order.partition.topic.as_str()),
        partition_index: order.partition.partition,
        controller_epoch: order.state.controller_epoch.0,
        leader: order.state.leader.0,
        leader_epoch: order.state.leader_epoch.0,
        isr: bare(&order.state.isr),
        zk_version: order.state.partition_epoch.0,
        replicas: bare(&order.replicas),
        offline_replicas: bare(&order.offline_replicas),
        ..Default::default()
    };
    let gone = |partition: &TopicPartition| UpdateMetadataPartitionState {
        topic_name: Str::from(partition.topic.as_str()),
        partition_index: partition.partition,
        controller_epoch: sender.controller_epoch.0,
        leader: LEADER_DURING_DELETE,
        leader_epoch: EPOCH_DURING_DELETE,
        ..Default::default()
    };
    let mut request = UpdateMetadataRequest {
        controller_id: sender.controller.0,
        controller_epoch: sender.controller_epoch.0,
        broker_epoch: broker_epoch.0,
        live_brokers: brokers.map(live_broker).collect(),
        ..Default::default()
    };
    if version < 5 {
        request.ungrouped_partition_states =
            orders.iter().map(state).chain(deleted.iter().map(gone)).collect();
        return request;
    }
    let mut topics: BTreeMap<&TopicName, UpdateMetadataTopicState> = BTreeMap::new();
    for (topic, (topic_id, orders)) in by_topic(orders) {
        topics.entry(topic).or_default().topic_id = topic_id;
        topics.entry(topic).or_default().partition_states = orders.into_iter().map(state).collect();
    }
    for partition in deleted {
        topics.entry(&partition.topic).or_default().partition_states.push(gone(partition));
    }
    for (topic, mut grouped) in topics {
        grouped.topic_name = Str::from(topic.as_str());
        request.topic_states.push(grouped);
    }
    request
}

/// Stops replicas of a topic that is being deleted, and deletes their logs.
pub fn stop_replicas(
    sender: Sender,
    broker_epoch: BrokerEpoch,
    version: i16,
    partitions: &[TopicPartition],
) -> StopReplicaRequest {
    let mut request = StopReplicaRequest {
        controller_id: sender.controller.0,
        controller_epoch: sender.controller_epoch.0,
        broker_epoch: broker_epoch.0,
        delete_partitions: version < 3,
        ..Default::default()
    };
    let mut topics: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics.entry(&partition.topic).or_default().push(partition.partition);
    }
    for (topic, partition_indexes) in topics {
        let name = Str::from(topic.as_str());
        match version {
            0 => {
                request.ungrouped_partitions.extend(partition_indexes.into_iter().map(|partition_index| {
                    StopReplicaPartitionV0 { topic_name: name.clone(), partition_index }
                }))
            }
            1..=2 => {
                request.topics.push(StopReplicaTopicV1 { name, partition_indexes, ..Default::default() });
            }
            _ => {
                let partition_states =
                    partition_indexes.into_iter().map(|partition_index| StopReplicaPartitionState {
                        partition_index,
                        leader_epoch: EPOCH_DURING_DELETE,
                        delete_partition: true,
                        ..Default::default()
                    });
                request.topic_states.push(StopReplicaTopicState {
                    topic_name: name,
                    partition_states: partition_states.collect(),
                    ..Default::default()
                });
            }
        }
    }
    request
}

fn bare(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

fn by_topic(orders: &[PartitionOrder]) -> BTreeMap<&TopicName, (Uuid, Vec<&PartitionOrder>)> {
    let mut topics: BTreeMap<&TopicName, (Uuid, Vec<&PartitionOrder>)> = BTreeMap::new();
    for order in orders {
        let id = order.topic_id.unwrap_or(Uuid::ZERO);
        topics.entry(&order.partition.topic).or_insert_with(|| (id, Vec::new())).1.push(order);
    }
    topics
}

/// v0 names the address of the PLAINTEXT endpoint; later versions all endpoints.
fn live_broker(broker: &BrokerImage) -> UpdateMetadataBroker {
    let plaintext = broker.endpoints.iter().find(|endpoint| endpoint.security_protocol == 0);
    UpdateMetadataBroker {
        id: broker.id.0,
        v0_host: plaintext.map_or_else(Str::default, |endpoint| Str::from(endpoint.host.as_str())),
        v0_port: plaintext.map_or(-1, |endpoint| endpoint.port),
        endpoints: broker
            .endpoints
            .iter()
            .map(|endpoint| UpdateMetadataEndpoint {
                port: endpoint.port,
                host: Str::from(endpoint.host.as_str()),
                listener: Str::from(endpoint.listener.as_str()),
                security_protocol: endpoint.security_protocol,
                ..Default::default()
            })
            .collect(),
        rack: broker.rack.as_deref().map(Str::from),
        ..Default::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_follow_the_protocol_level() {
        for (level, leader_and_isr, update_metadata, stop_replica) in [
            ("3.9-IV0", 7, 8, 4),
            ("3.1-IV0", 5, 7, 3),
            ("2.4-IV0", 3, 5, 1),
            ("1.1-IV0", 1, 4, 0),
            ("0.8.2", 0, 0, 0),
        ] {
            let expected = RequestVersions { leader_and_isr, update_metadata, stop_replica };
            assert_eq!(RequestVersions::of(level.parse().unwrap()), expected, "{level}");
        }
    }

    #[test]
    fn every_level_in_the_tables_exists() {
        for (level, _) in [LEADER_AND_ISR, UPDATE_METADATA, STOP_REPLICA].into_iter().flatten() {
            assert!(level.parse::<ProtocolVersion>().is_ok(), "{level}");
        }
    }
}
