//! LeaderAndIsr: the controller's orders for the replicas held here.

use std::sync::Arc;

use ottla_model::{
    BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicName, TopicPartition, Uuid,
};
use ottla_network::Reply;
use ottla_protocol::messages::leader_and_isr::{
    LeaderAndIsrPartitionError, LeaderAndIsrPartitionState, LeaderAndIsrRequest, LeaderAndIsrResponse,
    LeaderAndIsrTopicError,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};
use ottla_replica::{LeaderAndIsr, OrderOutcome};

use super::{Api, Call};
use crate::hosted_partition::HostedPartition;
use crate::replica_manager::ReplicaOrder;
use crate::server::Broker;
use crate::topics::OFFSETS_TOPIC;

/// LeaderAndIsr: who leads the partitions that this broker holds replicas of; from the controller only.
///
/// v0 to v1 list partitions flat, v2+ by topic; v1+ says which replicas are new, v2+ which life of the broker is
/// meant (KIP-380), v3+ carries reassignments (KIP-455), v5+ topic ids (KIP-516), v6+ recovery (KIP-704).
pub const API: Api = Api { key: ApiKey::LeaderAndIsr, versions: 0..=7, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: LeaderAndIsrRequest = call.decode()?;
    Ok(Reply::later(async move {
        let response = apply(&call.broker, call.version, &request).await;
        call.answer(&response)
    }))
}

/// Follows the orders. Called by the network, and without it by the controller on this very broker.
pub async fn apply(
    broker: &Arc<Broker>,
    version: i16,
    request: &LeaderAndIsrRequest,
) -> LeaderAndIsrResponse {
    let epochs = (ControllerEpoch(request.controller_epoch), BrokerEpoch(request.broker_epoch));
    if let Err(error) = broker.check_controller(epochs.0, epochs.1) {
        return LeaderAndIsrResponse { error_code: error as i16, ..Default::default() };
    }
    load_new_topics(broker, request).await;
    let mut response = LeaderAndIsrResponse::default();
    for state in &request.ungrouped_partition_states {
        let partition_error = follow(broker, &state.topic_name, Uuid::ZERO, state);
        response
            .partition_errors
            .push(LeaderAndIsrPartitionError { topic_name: state.topic_name.clone(), ..partition_error });
    }
    for topic in &request.topic_states {
        let errors = topic.partition_states.iter().map(|state| {
            let partition_error = follow(broker, &topic.topic_name, topic.topic_id, state);
            LeaderAndIsrPartitionError { topic_name: topic.topic_name.clone(), ..partition_error }
        });
        if version >= 5 {
            let partition_errors = errors
                .map(|error| LeaderAndIsrPartitionError { topic_name: Str::default(), ..error })
                .collect();
            response.topics.push(LeaderAndIsrTopicError {
                topic_id: topic.topic_id,
                partition_errors,
                ..Default::default()
            });
        } else {
            response.partition_errors.extend(errors);
        }
    }
    response
}

/// A log is made with its topic's configuration, so that has to be known first.
async fn load_new_topics(broker: &Broker, request: &LeaderAndIsrRequest) {
    let flat = request.ungrouped_partition_states.iter().map(|state| &*state.topic_name);
    let named = flat.chain(request.topic_states.iter().map(|topic| &*topic.topic_name));
    let new: Vec<TopicName> = named
        .filter(|topic| !broker.replicas.holds(topic))
        .filter_map(|topic| TopicName::new(topic).ok())
        .collect();
    if !new.is_empty()
        && let Err(error) = broker.load_topic_configs(&new).await
    {
        tracing::warn!(%error, "topic configurations not read, the broker's defaults apply until they are");
    }
}

fn follow(
    broker: &Arc<Broker>,
    topic: &str,
    topic_id: Uuid,
    state: &LeaderAndIsrPartitionState,
) -> LeaderAndIsrPartitionError {
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    let outcome = TopicName::new(topic).map_err(|_| ErrorCode::InvalidTopicException).and_then(|topic| {
        let order = ReplicaOrder {
            partition: TopicPartition::new(topic, state.partition_index),
            topic_id,
            order: LeaderAndIsr {
                controller_epoch: ControllerEpoch(state.controller_epoch),
                leader: BrokerId(state.leader),
                leader_epoch: LeaderEpoch(state.leader_epoch),
                isr: ids(&state.isr),
                partition_epoch: PartitionEpoch(state.partition_epoch),
                replicas: ids(&state.replicas),
            },
        };
        match broker.replicas.follow(&order, broker.now()) {
            Ok((hosted, outcome)) => {
                tell_coordinator(broker, &hosted, &order, outcome);
                match outcome {
                    OrderOutcome::Follower { leader } if leader != BrokerId::NONE => {
                        broker.fetchers.follow(broker, hosted, leader);
                    }
                    _ => broker.fetchers.forget(&order.partition),
                }
                Ok(())
            }
            Err(error) => {
                if error.code() != ErrorCode::StaleControllerEpoch {
                    tracing::error!(partition = %order.partition, %error, "order not followed");
                }
                Err(error.code())
            }
        }
    });
    LeaderAndIsrPartitionError {
        partition_index: state.partition_index,
        error_code: outcome.err().unwrap_or(ErrorCode::None) as i16,
        ..Default::default()
    }
}

/// Whoever leads a partition of the offsets topic coordinates the groups in it.
fn tell_coordinator(
    broker: &Arc<Broker>,
    hosted: &Arc<HostedPartition>,
    order: &ReplicaOrder,
    outcome: OrderOutcome,
) {
    if order.partition.topic.as_str() != OFFSETS_TOPIC {
        return;
    }
    let epoch = order.order.leader_epoch;
    match outcome {
        OrderOutcome::Leader => broker.groups.elected(broker, hosted, epoch),
        OrderOutcome::Follower { .. } => broker.groups.resigned(&order.partition, epoch),
    }
}
