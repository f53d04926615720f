//! LeaveGroup: members go, or are put out.

use ottla_group::Leaving;
use ottla_network::Reply;
use ottla_protocol::messages::leave_group::{
    LeaveGroupRequest, LeaveGroupResponse, MemberIdentity, MemberResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call, group_requests};

/// LeaveGroup: members go, or are put out.
///
/// v0 to v2 name one member, v3+ many, also by their instances (KIP-345), v5+ say why (KIP-800).
pub const API: Api = Api { key: ApiKey::LeaveGroup, versions: 0..=5, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let mut request: LeaveGroupRequest = call.decode()?;
    if call.version < 3 {
        request.members = vec![MemberIdentity { member_id: request.member_id.clone(), ..Default::default() }];
    }
    let response = match leave(&call, &request) {
        Err(error) => LeaveGroupResponse { error_code: error as i16, ..Default::default() },
        Ok(answers) if call.version < 3 => {
            let error = answers.first().copied().unwrap_or(ErrorCode::None);
            LeaveGroupResponse { error_code: error as i16, ..Default::default() }
        }
        Ok(answers) => {
            let members = request.members.iter().zip(answers).map(|(member, error)| MemberResponse {
                member_id: member.member_id.clone(),
                group_instance_id: member.group_instance_id.clone(),
                error_code: error as i16,
                ..Default::default()
            });
            LeaveGroupResponse { members: members.collect(), ..Default::default() }
        }
    };
    Ok(call.reply(&response))
}

fn leave(call: &Call, request: &LeaveGroupRequest) -> Result<Vec<ErrorCode>, ErrorCode> {
    let coordinator = &call.broker.groups;
    group_requests::check_group_id(&request.group_id)?;
    let Some(group) = coordinator.find(&call.broker, &request.group_id)? else {
        return Ok(vec![ErrorCode::UnknownMemberId; request.members.len()]);
    };
    let leaving = |member: &MemberIdentity| Leaving {
        member_id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_deref().map(str::to_owned),
    };
    let leaving: Vec<Leaving> = request.members.iter().map(leaving).collect();
    let reason = request.members.iter().find_map(|member| member.reason.as_deref());
    group.leave(coordinator, &leaving, reason.unwrap_or("not provided"))
}
