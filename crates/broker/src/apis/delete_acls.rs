//! DeleteAcls: access rules to be removed.

use ottla_network::Reply;
use ottla_protocol::messages::delete_acls::{DeleteAclsFilterResult, DeleteAclsRequest, DeleteAclsResponse};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::describe_acls::NO_AUTHORIZER;
use super::{Api, Call};

/// DeleteAcls: removes access rules. Refused filter by filter, since there is no authorizer that has any.
pub const API: Api = Api { key: ApiKey::DeleteAcls, versions: 0..=3, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DeleteAclsRequest = call.decode()?;
    let filter_results = request.filters.iter().map(|_| DeleteAclsFilterResult {
        error_code: ErrorCode::SecurityDisabled as i16,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    });
    Ok(call.reply(&DeleteAclsResponse { filter_results: filter_results.collect(), ..Default::default() }))
}
