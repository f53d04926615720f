//! StopReplica: the controller takes replicas away.

use ottla_model::{BrokerEpoch, ControllerEpoch, LeaderEpoch, TopicName, TopicPartition};
use ottla_network::Reply;
use ottla_protocol::messages::stop_replica::{
    StopReplicaPartitionError, StopReplicaRequest, StopReplicaResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::server::Broker;
use crate::topics::OFFSETS_TOPIC;

/// StopReplica: stop replicas, and delete their logs where that is asked; from the controller only.
///
/// v0 names each partition with its topic, v1 to v2 group them, v3+ says for each whether to delete and in which
/// leader epoch (KIP-570).
pub const API: Api = Api { key: ApiKey::StopReplica, versions: 0..=4, handle };

struct Stop<'a> {
    topic: &'a Str,
    partition: i32,
    leader_epoch: LeaderEpoch,
    delete: bool,
}

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: StopReplicaRequest = call.decode()?;
    let response = apply(&call.broker, &request);
    Ok(call.reply(&response))
}

/// Follows the orders. Called by the network, and without it by the controller on this very broker.
pub fn apply(broker: &Broker, request: &StopReplicaRequest) -> StopReplicaResponse {
    let epochs = (ControllerEpoch(request.controller_epoch), BrokerEpoch(request.broker_epoch));
    if let Err(error) = broker.check_controller(epochs.0, epochs.1) {
        return StopReplicaResponse { error_code: error as i16, ..Default::default() };
    }
    let partition_errors = stops(request)
        .map(|stop| {
            let outcome = stop_replica(broker, &stop);
            StopReplicaPartitionError {
                topic_name: stop.topic.clone(),
                partition_index: stop.partition,
                error_code: outcome.err().unwrap_or(ErrorCode::None) as i16,
                ..Default::default()
            }
        })
        .collect();
    StopReplicaResponse { partition_errors, ..Default::default() }
}

/// All partitions named, whichever way the version names them.
fn stops(request: &StopReplicaRequest) -> impl Iterator<Item = Stop<'_>> {
    let (leader_epoch, delete) = (LeaderEpoch::NONE, request.delete_partitions);
    let flat = request.ungrouped_partitions.iter().map(move |named| Stop {
        topic: &named.topic_name,
        partition: named.partition_index,
        leader_epoch,
        delete,
    });
    let grouped = request.topics.iter().flat_map(move |topic| {
        topic.partition_indexes.iter().map(move |partition| Stop {
            topic: &topic.name,
            partition: *partition,
            leader_epoch,
            delete,
        })
    });
    let with_epochs = request.topic_states.iter().flat_map(|topic| {
        topic.partition_states.iter().map(move |state| Stop {
            topic: &topic.topic_name,
            partition: state.partition_index,
            leader_epoch: LeaderEpoch(state.leader_epoch),
            delete: state.delete_partition,
        })
    });
    flat.chain(grouped).chain(with_epochs)
}

fn stop_replica(broker: &Broker, stop: &Stop<'_>) -> Result<(), ErrorCode> {
    let topic = TopicName::new(stop.topic).map_err(|_| ErrorCode::InvalidTopicException)?;
    let partition = TopicPartition::new(topic, stop.partition);
    broker.fetchers.forget(&partition);
    broker.replicas.stop(&partition, stop.leader_epoch, stop.delete, broker.now()).map_err(|error| {
        tracing::error!(%partition, %error, "replica not stopped");
        error.code()
    })?;
    if partition.topic.as_str() == OFFSETS_TOPIC {
        let epoch = if stop.delete { LeaderEpoch::NONE } else { stop.leader_epoch };
        broker.groups.resigned(&partition, epoch);
    }
    Ok(())
}
