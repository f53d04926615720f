//! Heartbeat: a member says it is alive, and hears of a rebalance.

use ottla_network::Reply;
use ottla_protocol::messages::heartbeat::{HeartbeatRequest, HeartbeatResponse};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call, group_requests};

/// Heartbeat: a member says it is alive, and hears of a rebalance.
///
/// v3+ members may be static (KIP-345). While the groups are being loaded it answers NONE, as Kafka does, so that members
/// do not join again.
pub const API: Api = Api { key: ApiKey::Heartbeat, versions: 0..=4, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: HeartbeatRequest = call.decode()?;
    let error_code = heartbeat(&call, &request).unwrap_or_else(|error| error) as i16;
    Ok(call.reply(&HeartbeatResponse { error_code, ..Default::default() }))
}

fn heartbeat(call: &Call, request: &HeartbeatRequest) -> Result<ErrorCode, ErrorCode> {
    let coordinator = &call.broker.groups;
    group_requests::check_instance_id(call, &request.group_instance_id)?;
    group_requests::check_group_id(&request.group_id)?;
    let found = coordinator.find(&call.broker, &request.group_id).map_err(|error| match error {
        ErrorCode::CoordinatorLoadInProgress => ErrorCode::None,
        other => other,
    })?;
    let group = found.ok_or(ErrorCode::UnknownMemberId)?;
    let instance_id = request.group_instance_id.as_deref();
    Ok(group.heartbeat(coordinator, &request.member_id, request.generation_id, instance_id))
}
