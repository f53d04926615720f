//! SyncGroup: the leader brings everyone's assignment, the others fetch theirs.

use bytes::Bytes;
use ottla_group::{SyncAnswer, SyncRequest};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::sync_group::{SyncGroupRequest, SyncGroupResponse};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};
use tokio::sync::oneshot;

use super::{Api, Call, group_requests};

/// SyncGroup: answered when the leader's assignment is stored.
///
/// v3+ members may be static (KIP-345), v5+ says what it believes the group does (KIP-559). While the groups are being
/// loaded it answers REBALANCE_IN_PROGRESS, as Kafka does, so that members join again rather than give up.
pub const API: Api = Api { key: ApiKey::SyncGroup, versions: 0..=5, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: SyncGroupRequest = call.decode()?;
    Ok(match begin(&call, &request) {
        Ok(answer) => group_requests::reply_when(call, answer, |call, outcome| {
            finish(call, outcome.unwrap_or_else(|_| SyncAnswer::refused(ErrorCode::NotCoordinator)))
        }),
        Err(error) => Reply::Now(finish(&call, SyncAnswer::refused(error))),
    })
}

fn begin(call: &Call, request: &SyncGroupRequest) -> Result<oneshot::Receiver<SyncAnswer>, ErrorCode> {
    let coordinator = &call.broker.groups;
    if call.version >= 5 && (request.protocol_type.is_none() || request.protocol_name.is_none()) {
        return Err(ErrorCode::InconsistentGroupProtocol);
    }
    group_requests::check_instance_id(call, &request.group_instance_id)?;
    group_requests::check_group_id(&request.group_id)?;
    let found = coordinator.find(&call.broker, &request.group_id).map_err(|error| match error {
        ErrorCode::CoordinatorLoadInProgress => ErrorCode::RebalanceInProgress,
        other => other,
    })?;
    let group = found.ok_or(ErrorCode::UnknownMemberId)?;
    let text = |text: &Option<Str>| text.as_deref().map(str::to_owned);
    let assignments = request.assignments.iter();
    let request = SyncRequest {
        member_id: request.member_id.to_string(),
        generation: request.generation_id,
        instance_id: text(&request.group_instance_id),
        protocol_type: text(&request.protocol_type),
        protocol: text(&request.protocol_name),
        // Copied, or the group would keep the whole frame.
        assignments: assignments
            .map(|one| (one.member_id.to_string(), Bytes::copy_from_slice(&one.assignment)))
            .collect(),
    };
    Ok(group.sync(coordinator, request))
}

fn finish(call: &Call, answer: SyncAnswer) -> Answer {
    call.answer(&SyncGroupResponse {
        error_code: answer.error as i16,
        protocol_type: answer.protocol_type.map(Str::from),
        protocol_name: answer.protocol.map(Str::from),
        assignment: answer.assignment,
        ..Default::default()
    })
}
