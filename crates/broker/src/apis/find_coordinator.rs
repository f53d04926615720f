//! FindCoordinator: which broker coordinates a group or a transaction.

use ottla_network::{Answer, Reply};
use ottla_protocol::messages::find_coordinator::{
    Coordinator, FindCoordinatorRequest, FindCoordinatorResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::topics::OFFSETS_TOPIC;

/// FindCoordinator: where to go with a group or a transactional id.
///
/// v0 knows groups only (KIP-98 brought key types with v1), v1+ answers a message, v4+ asks for many at once (KIP-699).
/// Share groups (key type 2, v6) need KRaft. The offsets topic is made when it is first needed.
pub const API: Api = Api { key: ApiKey::FindCoordinator, versions: 0..=6, handle };

const GROUP: i8 = 0;
const TRANSACTION: i8 = 1;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: FindCoordinatorRequest = call.decode()?;
    let is_there = call.broker.metadata.topic(OFFSETS_TOPIC).is_some();
    if is_there || request.key_type != GROUP {
        return Ok(Reply::Now(answer(&call, &request)));
    }
    Ok(Reply::later(async move {
        call.broker.groups.create_offsets_topic(&call.broker).await;
        answer(&call, &request)
    }))
}

fn answer(call: &Call, request: &FindCoordinatorRequest) -> Answer {
    let key_type = if call.version == 0 { GROUP } else { request.key_type };
    if call.version >= 4 {
        let coordinators = request.coordinator_keys.iter().map(|key| find(call, key, key_type)).collect();
        return call.answer(&FindCoordinatorResponse { coordinators, ..Default::default() });
    }
    let found = find(call, &request.key, key_type);
    call.answer(&FindCoordinatorResponse {
        error_code: found.error_code,
        error_message: found.error_message,
        node_id: found.node_id,
        host: found.host,
        port: found.port,
        ..Default::default()
    })
}

fn find(call: &Call, key: &Str, key_type: i8) -> Coordinator {
    match coordinator_of(call, key, key_type) {
        Ok((node_id, host, port)) => Coordinator {
            key: key.clone(),
            node_id,
            host,
            port,
            error_message: Some(Str::from_static("NONE")),
            ..Default::default()
        },
        Err(error) => Coordinator {
            key: key.clone(),
            node_id: -1,
            port: -1,
            error_code: error as i16,
            error_message: Some(Str::from_static(message(error))),
            ..Default::default()
        },
    }
}

fn coordinator_of(call: &Call, key: &str, key_type: i8) -> Result<(i32, Str, i32), ErrorCode> {
    match key_type {
        GROUP => {}
        // No broker coordinates transactions yet, so none is available.
        TRANSACTION => return Err(ErrorCode::CoordinatorNotAvailable),
        _ => return Err(ErrorCode::InvalidRequest),
    }
    let metadata = &call.broker.metadata;
    let topic = metadata.topic(OFFSETS_TOPIC).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let partition = call.broker.groups.partition_for(&call.broker, key);
    let leader = topic.partitions.get(&partition).map(|partition| partition.leader);
    let broker =
        leader.and_then(|leader| metadata.broker(leader)).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    let endpoint = broker.endpoint(call.listener()).ok_or(ErrorCode::CoordinatorNotAvailable)?;
    Ok((broker.id.0, Str::from(endpoint.host.as_str()), endpoint.port))
}

fn message(error: ErrorCode) -> &'static str {
    match error {
        ErrorCode::CoordinatorNotAvailable => "The coordinator is not available.",
        _ => {
            "This most likely occurs because of a request being malformed by the client library or the message was \
              sent to an incompatible broker. See the broker logs for more details."
        }
    }
}
