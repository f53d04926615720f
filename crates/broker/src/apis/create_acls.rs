//! CreateAcls: new access rules.

use ottla_network::Reply;
use ottla_protocol::messages::create_acls::{AclCreationResult, CreateAclsRequest, CreateAclsResponse};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::describe_acls::NO_AUTHORIZER;
use super::{Api, Call};

/// CreateAcls: new access rules. Refused one by one, since there is no authorizer that would go by them.
pub const API: Api = Api { key: ApiKey::CreateAcls, versions: 0..=3, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: CreateAclsRequest = call.decode()?;
    let results = request.creations.iter().map(|_| AclCreationResult {
        error_code: ErrorCode::SecurityDisabled as i16,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    });
    Ok(call.reply(&CreateAclsResponse { results: results.collect(), ..Default::default() }))
}
