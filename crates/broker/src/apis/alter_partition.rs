//! AlterPartition: leaders ask the controller for another set of in-sync replicas.

use ottla_controller::IsrRefusal;
use ottla_model::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicName, TopicPartition};
use ottla_network::Reply;
use ottla_protocol::messages::alter_partition::{
    AlterPartitionRequest, AlterPartitionRequestPartition, AlterPartitionResponse,
    AlterPartitionResponsePartition, AlterPartitionResponseTopic,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call};
use crate::controller::IsrWish;
use crate::server::Broker;

/// AlterPartition: the leader proposes, the controller writes (KIP-497); for the controller only.
///
/// v1+ carries the recovery state (KIP-704), v2+ names topics by id (KIP-841), v3+ gives each member's broker epoch
/// (KIP-903), which a ZooKeeper cluster leaves at -1.
pub const API: Api = Api { key: ApiKey::AlterPartition, versions: 0..=3, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: AlterPartitionRequest = call.decode()?;
    Ok(Reply::later(async move {
        let response = apply(&call.broker, call.version, &request).await;
        call.answer(&response)
    }))
}

/// Has the controller decide. Called by the network, and without it by leaders on the controller's own broker.
pub async fn apply(broker: &Broker, version: i16, request: &AlterPartitionRequest) -> AlterPartitionResponse {
    let sender = (BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch));
    let mut response = AlterPartitionResponse::default();
    for topic in &request.topics {
        let name = broker.topic_name(&topic.topic_name, topic.topic_id, version >= 2);
        let name =
            name.and_then(|name| TopicName::new(&name).map_err(|_| ErrorCode::UnknownTopicOrPartition));
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            let answer = match &name {
                Err(error) => Err(*error),
                Ok(name) => {
                    let partition = TopicPartition::new(name.clone(), wanted.partition_index);
                    match broker.controller.propose_isr(sender, wish(version, partition, wanted)).await {
                        Ok(decided) => decided.map_err(|refusal| code(refusal, version)),
                        Err(error) => {
                            return AlterPartitionResponse { error_code: error as i16, ..Default::default() };
                        }
                    }
                }
            };
            let partition_index = wanted.partition_index;
            partitions.push(match answer {
                Err(error) => AlterPartitionResponsePartition {
                    partition_index,
                    error_code: error as i16,
                    ..Default::default()
                },
                Ok(state) => AlterPartitionResponsePartition {
                    partition_index,
                    error_code: ErrorCode::None as i16,
                    leader_id: state.leader.0,
                    leader_epoch: state.leader_epoch.0,
                    isr: state.isr.iter().map(|member| member.0).collect(),
                    leader_recovery_state: i8::from(state.recovering),
                    partition_epoch: state.partition_epoch.0,
                    ..Default::default()
                },
            });
        }
        response.topics.push(AlterPartitionResponseTopic {
            topic_name: topic.topic_name.clone(),
            topic_id: topic.topic_id,
            partitions,
            ..Default::default()
        });
    }
    response
}

fn wish(version: i16, partition: TopicPartition, wanted: &AlterPartitionRequestPartition) -> IsrWish {
    let isr = if version >= 3 {
        wanted.new_isr_with_epochs.iter().map(|member| BrokerId(member.broker_id)).collect()
    } else {
        wanted.new_isr.iter().copied().map(BrokerId).collect()
    };
    IsrWish {
        partition,
        leader_epoch: LeaderEpoch(wanted.leader_epoch),
        partition_epoch: PartitionEpoch(wanted.partition_epoch),
        isr,
    }
}

fn code(refusal: IsrRefusal, version: i16) -> ErrorCode {
    match refusal {
        IsrRefusal::UnknownPartition => ErrorCode::UnknownTopicOrPartition,
        IsrRefusal::FromTheFuture => ErrorCode::NotController,
        IsrRefusal::Fenced => ErrorCode::FencedLeaderEpoch,
        IsrRefusal::Outdated => ErrorCode::InvalidUpdateVersion,
        IsrRefusal::Ineligible(_) if version >= 2 => ErrorCode::IneligibleReplica,
        IsrRefusal::Ineligible(_) => ErrorCode::OperationNotAttempted,
    }
}
