//! ControlledShutdown: a broker that wants to leave has its leaderships moved away first.

use ottla_model::{BrokerEpoch, BrokerId, TopicPartition};
use ottla_network::Reply;
use ottla_protocol::messages::controlled_shutdown::{
    ControlledShutdownRequest, ControlledShutdownResponse, RemainingPartition,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::server::Broker;

/// ControlledShutdown: answers which partitions the sender still leads; for the controller only.
///
/// v0 has a header without client id; v2+ says which life of the broker asks (KIP-380).
pub const API: Api = Api { key: ApiKey::ControlledShutdown, versions: 0..=3, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: ControlledShutdownRequest = call.decode()?;
    Ok(Reply::later(async move {
        let response = apply(&call.broker, &request).await;
        call.answer(&response)
    }))
}

/// Has the controller move leaderships. Called by the network, and without it on the controller's own broker.
pub async fn apply(broker: &Broker, request: &ControlledShutdownRequest) -> ControlledShutdownResponse {
    let sender = (BrokerId(request.broker_id), BrokerEpoch(request.broker_epoch));
    match broker.controller.announce_shutdown(sender).await {
        Ok(remaining) => ControlledShutdownResponse {
            remaining_partitions: remaining.into_iter().map(row).collect(),
            ..Default::default()
        },
        // What Kafka says where it means "not the controller".
        Err(ErrorCode::NotController) => ControlledShutdownResponse {
            error_code: ErrorCode::StaleControllerEpoch as i16,
            ..Default::default()
        },
        Err(error) => ControlledShutdownResponse { error_code: error as i16, ..Default::default() },
    }
}

fn row(partition: TopicPartition) -> RemainingPartition {
    RemainingPartition {
        topic_name: Str::from(partition.topic.as_str()),
        partition_index: partition.partition,
        ..Default::default()
    }
}
