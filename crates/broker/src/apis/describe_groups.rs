//! DescribeGroups: the members of groups, and what they were given.

use bytes::Bytes;
use ottla_group::{Group, Member, State};
use ottla_network::Reply;
use ottla_protocol::messages::describe_groups::{
    DescribeGroupsRequest, DescribeGroupsResponse, DescribedGroup, DescribedGroupMember,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::metadata::NOT_ASKED;
use super::{Api, Call};

/// DescribeGroups: the members of groups, and what they were given.
///
/// v3+ permissions on demand (KIP-430), v4+ static members (KIP-345). A group that does not exist is Dead and no error;
/// what members subscribe to and own is told while the group is stable only.
pub const API: Api = Api { key: ApiKey::DescribeGroups, versions: 0..=5, handle };

/// Bits of the operations on a group, as KIP-430 counts them: read, delete, describe.
const GROUP_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DescribeGroupsRequest = call.decode()?;
    let operations = if request.include_authorized_operations { GROUP_OPERATIONS } else { NOT_ASKED };
    let groups = request.groups.iter().map(|id| {
        let described = match call.broker.groups.find(&call.broker, id) {
            Ok(Some(group)) => group.look(describe),
            Ok(None) => nobody(ErrorCode::None, State::Dead.name()),
            Err(error) => nobody(error, ""),
        };
        DescribedGroup { group_id: id.clone(), authorized_operations: operations, ..described }
    });
    Ok(call.reply(&DescribeGroupsResponse { groups: groups.collect(), ..Default::default() }))
}

fn nobody(error: ErrorCode, state: &'static str) -> DescribedGroup {
    DescribedGroup {
        error_code: error as i16,
        group_state: Str::from_static(state),
        authorized_operations: NOT_ASKED,
        ..Default::default()
    }
}

fn describe(group: &Group) -> DescribedGroup {
    let stable = group.state() == State::Stable;
    let member = |member: &Member| DescribedGroupMember {
        member_id: Str::from(member.id.as_str()),
        group_instance_id: member.instance_id.as_deref().map(Str::from),
        client_id: Str::from(member.client_id.as_str()),
        client_host: Str::from(member.client_host.as_str()),
        member_metadata: if stable { group.subscription(member) } else { Bytes::new() },
        member_assignment: if stable { member.assignment.clone() } else { Bytes::new() },
        ..Default::default()
    };
    let protocol = group.protocol().filter(|_| stable).unwrap_or_default();
    DescribedGroup {
        group_state: Str::from_static(group.state().name()),
        protocol_type: Str::from(group.protocol_type().unwrap_or_default()),
        protocol_data: Str::from(protocol),
        members: group.members().map(member).collect(),
        ..Default::default()
    }
}
