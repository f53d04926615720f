//! DeleteGroups: groups that nobody is in.

use ottla_network::Reply;
use ottla_protocol::messages::delete_groups::{
    DeletableGroupResult, DeleteGroupsRequest, DeleteGroupsResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};

/// DeleteGroups: deletes groups that nobody is in, and their offsets (KIP-229).
pub const API: Api = Api { key: ApiKey::DeleteGroups, versions: 0..=2, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DeleteGroupsRequest = call.decode()?;
    let results = request.groups_names.iter().map(|group_id| {
        let error_code = delete(&call, group_id).err().unwrap_or(ErrorCode::None) as i16;
        DeletableGroupResult { group_id: group_id.clone(), error_code, ..Default::default() }
    });
    Ok(call.reply(&DeleteGroupsResponse { results: results.collect(), ..Default::default() }))
}

fn delete(call: &Call, group_id: &Str) -> Result<(), ErrorCode> {
    let coordinator = &call.broker.groups;
    let found = coordinator.find(&call.broker, group_id)?;
    let group = found.ok_or(ErrorCode::GroupIdNotFound)?;
    group.delete(coordinator)?;
    tracing::info!("The group {group_id} was deleted with its offsets");
    Ok(())
}
