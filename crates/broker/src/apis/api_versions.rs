//! ApiVersions: what this broker serves.

use ottla_network::Reply;
use ottla_protocol::messages::api_versions::{ApiVersion, ApiVersionsRequest, ApiVersionsResponse};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{APIS, Api, Call};

/// ApiVersions: what this broker serves, asked before anything else by every client since 0.10 (KIP-35).
///
/// v3 is flexible and names the client's software (KIP-511); the response header stays at v0 for ever, since
/// the client cannot know yet what else this broker understands. A ZooKeeper-mode broker has no features.
pub const API: Api = Api { key: ApiKey::ApiVersions, versions: 0..=4, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: ApiVersionsRequest = call.decode()?;
    if call.version >= 3
        && !(is_software(&request.client_software_name) && is_software(&request.client_software_version))
    {
        let response =
            ApiVersionsResponse { error_code: ErrorCode::InvalidRequest as i16, ..Default::default() };
        return Ok(call.reply(&response));
    }
    let api_keys = APIS.iter().map(row).collect();
    Ok(call.reply(&ApiVersionsResponse { api_keys, ..Default::default() }))
}

/// A version from the future is told in the oldest layout which versions there are (KIP-511).
pub fn refuse_version(correlation_id: i32) -> Reply {
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion as i16,
        api_keys: vec![row(&API)],
        ..Default::default()
    };
    Reply::Now(super::encode(ApiKey::ApiVersions, 0, correlation_id, &response))
}

fn row(api: &Api) -> ApiVersion {
    ApiVersion {
        api_key: api.key as i16,
        min_version: *api.versions.start(),
        max_version: *api.versions.end(),
        ..Default::default()
    }
}

/// Letters, digits, dots and dashes, beginning and ending with a letter or digit: what KIP-511 allows, so that
/// the names can go into metrics.
fn is_software(name: &str) -> bool {
    let alphanumeric = |c: Option<char>| c.is_some_and(|c| c.is_ascii_alphanumeric());
    alphanumeric(name.chars().next())
        && alphanumeric(name.chars().next_back())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '.' || c == '-')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn software_names_follow_kip_511() {
        for (name, legal) in [
            ("apache-kafka-java", true),
            ("3.9.0", true),
            ("x", true),
            ("", false),
            ("-dash", false),
            ("dash-", false),
            ("with space", false),
            ("emoji😀", false),
        ] {
            assert_eq!(is_software(name), legal, "{name:?}");
        }
    }

    #[test]
    fn each_api_is_listed_once_and_in_order() {
        assert!(APIS.windows(2).all(|pair| (pair[0].key as i16) < (pair[1].key as i16)));
    }
}
