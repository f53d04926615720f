//! UpdateMetadata: the controller's news of the cluster.

use std::sync::Arc;

use ottla_model::{
    BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicName, TopicPartition, Uuid,
};
use ottla_network::Reply;
use ottla_protocol::messages::update_metadata::{
    UpdateMetadataBroker, UpdateMetadataPartitionState, UpdateMetadataRequest, UpdateMetadataResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call};
use crate::metadata_cache::{BrokerImage, Endpoint, PartitionImage};
use crate::server::Broker;

/// UpdateMetadata: the live brokers, and partitions that changed; from the controller only.
///
/// v0 names one address per broker, v1+ one per security protocol, v3+ listener names; v4+ offline replicas, v5+ groups
/// partitions by topic, v7+ carries topic ids (KIP-516). A partition whose leader is -2 is being deleted.
pub const API: Api = Api { key: ApiKey::UpdateMetadata, versions: 0..=8, handle };

const LEADER_DURING_DELETE: i32 = -2;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: UpdateMetadataRequest = call.decode()?;
    let error_code = apply(&call.broker, call.version, &request) as i16;
    Ok(call.reply(&UpdateMetadataResponse { error_code, ..Default::default() }))
}

/// Takes in the news. Called by the network, and without it by the controller on this very broker.
pub fn apply(broker: &Arc<Broker>, version: i16, request: &UpdateMetadataRequest) -> ErrorCode {
    let epochs = (ControllerEpoch(request.controller_epoch), BrokerEpoch(request.broker_epoch));
    if let Err(error) = broker.check_controller(epochs.0, epochs.1) {
        return error;
    }
    let brokers = request.live_brokers.iter().map(|broker| image(broker, version)).collect();
    let flat =
        request.ungrouped_partition_states.iter().map(|state| (state.topic_name.as_str(), Uuid::ZERO, state));
    let grouped = request.topic_states.iter().flat_map(|topic| {
        topic.partition_states.iter().map(|state| (topic.topic_name.as_str(), topic.topic_id, state))
    });
    let (mut known, mut deleted) = (Vec::new(), Vec::new());
    for (topic, id, state) in flat.chain(grouped) {
        let Ok(topic) = TopicName::new(topic) else { continue };
        let partition = TopicPartition::new(topic, state.partition_index);
        if state.leader == LEADER_DURING_DELETE {
            deleted.push(partition);
        } else {
            known.push((partition, id, partition_image(state)));
        }
    }
    broker.metadata.update(brokers, known, &deleted);
    broker.groups.partitions_deleted(broker, deleted);
    ErrorCode::None
}

fn image(broker: &UpdateMetadataBroker, version: i16) -> BrokerImage {
    let named = |endpoint: &ottla_protocol::messages::update_metadata::UpdateMetadataEndpoint| Endpoint {
        listener: if version >= 3 {
            endpoint.listener.to_string()
        } else {
            protocol_name(endpoint.security_protocol).to_owned()
        },
        host: endpoint.host.to_string(),
        port: endpoint.port,
        security_protocol: endpoint.security_protocol,
    };
    let endpoints = if version == 0 {
        let (host, port) = (broker.v0_host.to_string(), broker.v0_port);
        vec![Endpoint { listener: protocol_name(0).to_owned(), host, port, security_protocol: 0 }]
    } else {
        broker.endpoints.iter().map(named).collect()
    };
    BrokerImage { id: BrokerId(broker.id), endpoints, rack: broker.rack.as_deref().map(str::to_owned) }
}

/// Before listeners had names, the security protocol was the name.
fn protocol_name(id: i16) -> &'static str {
    match id {
        1 => "SSL",
        2 => "SASL_PLAINTEXT",
        3 => "SASL_SSL",
        _ => "PLAINTEXT",
    }
}

fn partition_image(state: &UpdateMetadataPartitionState) -> PartitionImage {
    let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
    PartitionImage {
        leader: BrokerId(state.leader),
        leader_epoch: LeaderEpoch(state.leader_epoch),
        isr: ids(&state.isr),
        replicas: ids(&state.replicas),
        offline_replicas: ids(&state.offline_replicas),
        partition_epoch: PartitionEpoch(state.zk_version),
        controller_epoch: ControllerEpoch(state.controller_epoch),
    }
}
