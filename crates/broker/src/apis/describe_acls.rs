//! DescribeAcls: which access rules there are.

use ottla_network::Reply;
use ottla_protocol::messages::describe_acls::{DescribeAclsRequest, DescribeAclsResponse};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};

/// DescribeAcls: the access rules that match a filter.
///
/// A broker without an authorizer has none and says so, as Kafka does; one with `authorizer.class.name` does not start.
pub const API: Api = Api { key: ApiKey::DescribeAcls, versions: 0..=3, handle };

/// What everyone hears who asks about access rules.
pub const NO_AUTHORIZER: Str = Str::from_static("No Authorizer is configured on the broker");

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let _: DescribeAclsRequest = call.decode()?;
    Ok(call.reply(&DescribeAclsResponse {
        error_code: ErrorCode::SecurityDisabled as i16,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    }))
}
