//! JoinGroup: a member takes part in the next generation of its group.

use ottla_group::{JoinAnswer, JoinRequest};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::join_group::{JoinGroupRequest, JoinGroupResponse, JoinGroupResponseMember};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use bytes::Bytes;
use tokio::sync::oneshot;

use super::{Api, Call, group_requests};
use crate::random;

/// JoinGroup: answered when everybody has joined, or the time for that is over.
///
/// v0 has no rebalance timeout and waits as long as a session. v4+ dynamic members ask twice (KIP-394), v5+ members may be
/// static (KIP-345), v7+ the protocol type comes back (KIP-559), v8+ says why (KIP-800), v9+ a leader may be told to
/// skip the assignment (KIP-814).
pub const API: Api = Api { key: ApiKey::JoinGroup, versions: 0..=9, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: JoinGroupRequest = call.decode()?;
    Ok(match begin(&call, &request) {
        Ok(answer) => group_requests::reply_when(call, answer, |call, outcome| {
            let gone = |_| JoinAnswer::refused(ErrorCode::NotCoordinator, String::new());
            finish(call, outcome.unwrap_or_else(gone))
        }),
        Err(error) => {
            let member_id = request.member_id.to_string();
            Reply::Now(finish(&call, JoinAnswer::refused(error, member_id)))
        }
    })
}

fn begin(call: &Call, request: &JoinGroupRequest) -> Result<oneshot::Receiver<JoinAnswer>, ErrorCode> {
    let coordinator = &call.broker.groups;
    group_requests::check_instance_id(call, &request.group_instance_id)?;
    group_requests::check_group_id(&request.group_id)?;
    let group = if request.member_id.is_empty() {
        coordinator.find_or_create(&call.broker, &request.group_id)?
    } else {
        let found = coordinator.find(&call.broker, &request.group_id)?;
        found.ok_or(ErrorCode::UnknownMemberId)?
    };
    let reason = request.reason.as_deref().filter(|reason| !reason.is_empty()).unwrap_or("not provided");
    Ok(group.join(coordinator, join_request(call, request), reason))
}

/// Everything is copied: the group would keep the whole frame otherwise.
fn join_request(call: &Call, request: &JoinGroupRequest) -> JoinRequest {
    let client_id = call.client_id.as_deref().unwrap_or_default();
    let instance_id = request.group_instance_id.as_deref();
    JoinRequest {
        member_id: request.member_id.to_string(),
        new_member_id: format!("{}-{}", instance_id.unwrap_or(client_id), random::java_uuid()),
        instance_id: instance_id.map(str::to_owned),
        client_id: client_id.to_owned(),
        client_host: format!("/{}", call.peer.address.ip()),
        session_timeout_ms: request.session_timeout_ms,
        rebalance_timeout_ms: if call.version == 0 {
            request.session_timeout_ms
        } else {
            request.rebalance_timeout_ms
        },
        protocol_type: request.protocol_type.to_string(),
        protocols: request
            .protocols
            .iter()
            .map(|protocol| (protocol.name.to_string(), Bytes::copy_from_slice(&protocol.metadata)))
            .collect(),
        requires_known_member_id: call.version >= 4,
        can_skip_assignment: call.version >= 9,
    }
}

fn finish(call: &Call, answer: JoinAnswer) -> Answer {
    // Before v7 nobody could say that there is none.
    let none = if call.version < 7 { Some(Str::default()) } else { None };
    let members = answer
        .members
        .into_iter()
        .map(|member| JoinGroupResponseMember {
            member_id: Str::from(member.id),
            group_instance_id: member.instance_id.map(Str::from),
            metadata: member.metadata,
            ..Default::default()
        })
        .collect();
    call.answer(&JoinGroupResponse {
        error_code: answer.error as i16,
        generation_id: answer.generation,
        protocol_type: answer.protocol_type.map(Str::from),
        protocol_name: answer.protocol.map(Str::from).or(none),
        leader: Str::from(answer.leader),
        skip_assignment: answer.skip_assignment,
        member_id: Str::from(answer.member_id),
        members,
        ..Default::default()
    })
}
