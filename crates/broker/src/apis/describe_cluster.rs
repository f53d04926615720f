//! DescribeCluster: the brokers and the controller, for admin clients.

use ottla_model::BrokerId;
use ottla_network::Reply;
use ottla_protocol::messages::describe_cluster::{
    DescribeClusterBroker, DescribeClusterRequest, DescribeClusterResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};

/// DescribeCluster: cluster id, controller and brokers (KIP-700).
///
/// v1 can ask for controllers instead (KIP-919), of which a ZooKeeper-mode broker knows no endpoints.
pub const API: Api = Api { key: ApiKey::DescribeCluster, versions: 0..=1, handle };

const ENDPOINT_TYPE_BROKERS: i8 = 1;
const ENDPOINT_TYPE_CONTROLLERS: i8 = 2;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DescribeClusterRequest = call.decode()?;
    if request.endpoint_type != ENDPOINT_TYPE_BROKERS {
        let (error, message) = match request.endpoint_type {
            ENDPOINT_TYPE_CONTROLLERS => {
                let message = "The request was sent to an endpoint of type BROKER, but we wanted an endpoint of type CONTROLLER";
                (ErrorCode::MismatchedEndpointType, message.to_owned())
            }
            other => (ErrorCode::UnsupportedEndpointType, format!("Unsupported endpoint type {other}")),
        };
        let response = DescribeClusterResponse {
            error_code: error as i16,
            error_message: Some(Str::from(message)),
            ..Default::default()
        };
        return Ok(call.reply(&response));
    }
    let brokers = call.broker.metadata.brokers();
    let listed = brokers.iter().filter_map(|broker| {
        let endpoint = broker.endpoint(call.listener())?;
        Some(DescribeClusterBroker {
            broker_id: broker.id.0,
            host: Str::from(endpoint.host.as_str()),
            port: endpoint.port,
            rack: broker.rack.as_deref().map(Str::from),
            ..Default::default()
        })
    });
    let operations = if request.include_cluster_authorized_operations {
        super::metadata::CLUSTER_OPERATIONS
    } else {
        super::metadata::NOT_ASKED
    };
    let response = DescribeClusterResponse {
        cluster_id: Str::from(call.broker.cluster_id.as_str()),
        controller_id: call.broker.metadata.controller().unwrap_or(BrokerId::NONE).0,
        brokers: listed.collect(),
        cluster_authorized_operations: operations,
        ..Default::default()
    };
    Ok(call.reply(&response))
}
