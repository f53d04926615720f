//! ListGroups: the groups that this broker coordinates.

use ottla_network::Reply;
use ottla_protocol::messages::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};

/// ListGroups: the groups that this broker coordinates; a tool asks all brokers.
///
/// v4+ by state (KIP-518), v5+ by type (KIP-848), of which there is one here. Groups that are still being loaded are
/// missing, and the error says so.
pub const API: Api = Api { key: ApiKey::ListGroups, versions: 0..=5, handle };

const GROUP_TYPE: &str = "classic";

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: ListGroupsRequest = call.decode()?;
    let admits = |filter: &[Str], value: &str| {
        filter.is_empty() || filter.iter().any(|wanted| wanted.eq_ignore_ascii_case(value))
    };
    let (groups, loading) = call.broker.groups.all();
    let mut listed: Vec<ListedGroup> = Vec::new();
    if admits(&request.types_filter, GROUP_TYPE) {
        for group in &groups {
            let (state, protocol_type) = group
                .look(|group| (group.state().name(), Str::from(group.protocol_type().unwrap_or_default())));
            if admits(&request.states_filter, state) {
                listed.push(ListedGroup {
                    group_id: Str::from(group.id()),
                    protocol_type,
                    group_state: Str::from_static(state),
                    group_type: Str::from_static(GROUP_TYPE),
                    ..Default::default()
                });
            }
        }
    }
    listed.sort_unstable_by(|a, b| a.group_id.cmp(&b.group_id));
    let error = if loading { ErrorCode::CoordinatorLoadInProgress } else { ErrorCode::None };
    Ok(call.reply(&ListGroupsResponse { error_code: error as i16, groups: listed, ..Default::default() }))
}
