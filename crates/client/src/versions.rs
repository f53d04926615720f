//! Which version of an API to speak with a broker.

use std::ops::RangeInclusive;

use ottla_protocol::messages::ApiVersionsResponse;
use ottla_protocol::{ApiKey, Request};

/// The versions a broker serves, by API key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServedVersions {
    /// By API key; `None` for what is not served. As long as the largest key of ours.
    by_key: Vec<Option<RangeInclusive<i16>>>,
    negotiated: bool,
}

/// One more than the largest API key this client could ever use.
const KEYS: usize = 128;

impl ServedVersions {
    pub fn from_response(response: &ApiVersionsResponse) -> ServedVersions {
        let mut by_key = vec![None; KEYS];
        for served in &response.api_keys {
            if let Some(slot) = usize::try_from(served.api_key).ok().and_then(|key| by_key.get_mut(key)) {
                *slot = Some(served.min_version..=served.max_version);
            }
        }
        ServedVersions { by_key, negotiated: true }
    }

    /// What a broker without ApiVersions (0.8 and 0.9) understands for sure: such a broker does not check versions, so a newer one
    /// would be answered in an older form. It hangs up on what it does not know at all.
    pub fn before_negotiation() -> ServedVersions {
        let mut by_key = vec![None; KEYS];
        for (api, versions) in [
            (ApiKey::Produce, 0..=0),
            (ApiKey::Fetch, 0..=0),
            (ApiKey::ListOffsets, 0..=0),
            (ApiKey::Metadata, 0..=0),
            // 0.8.2 on; version 0 keeps offsets in ZooKeeper, and is all that 0.8.1 has.
            (ApiKey::OffsetCommit, 0..=1),
            (ApiKey::OffsetFetch, 0..=1),
            (ApiKey::FindCoordinator, 0..=0),
            // 0.9 on.
            (ApiKey::JoinGroup, 0..=0),
            (ApiKey::Heartbeat, 0..=0),
            (ApiKey::LeaveGroup, 0..=0),
            (ApiKey::SyncGroup, 0..=0),
            (ApiKey::DescribeGroups, 0..=0),
            (ApiKey::ListGroups, 0..=0),
        ] {
            by_key[api as usize] = Some(versions);
        }
        ServedVersions { by_key, negotiated: false }
    }

    /// Whether the broker told its versions itself.
    pub fn is_negotiated(&self) -> bool {
        self.negotiated
    }

    pub fn served(&self, api: ApiKey) -> Option<RangeInclusive<i16>> {
        self.by_key.get(api as usize).cloned().flatten()
    }

    /// The newest version of `R` that both sides speak, at most `cap`.
    pub fn newest<R: Request>(&self, cap: i16) -> Option<i16> {
        let served = self.served(R::KEY)?;
        let newest = (*R::VERSIONS.end()).min(*served.end()).min(cap);
        (newest >= *R::VERSIONS.start() && newest >= *served.start()).then_some(newest)
    }
}

#[cfg(test)]
mod tests {
    use ottla_protocol::Message;
    use ottla_protocol::messages::api_versions::ApiVersion;
    use ottla_protocol::messages::{FetchRequest, InitProducerIdRequest, MetadataRequest};

    use super::*;

    fn served(api: ApiKey, min_version: i16, max_version: i16) -> ServedVersions {
        let version = ApiVersion { api_key: api as i16, min_version, max_version, ..Default::default() };
        ServedVersions::from_response(&ApiVersionsResponse { api_keys: vec![version], ..Default::default() })
    }

    #[test]
    fn the_newest_common_version_is_spoken() {
        let ours = *MetadataRequest::VERSIONS.end();
        for (why, min, max, cap, version) in [
            ("an older broker", 0, 5, i16::MAX, Some(5)),
            ("a newer broker", 0, ours + 9, i16::MAX, Some(ours)),
            ("a caller that wants less", 0, 9, 4, Some(4)),
            ("a broker that dropped what the caller wants", 5, 9, 4, None),
            ("a broker from the future", ours + 1, ours + 2, i16::MAX, None),
        ] {
            let versions = served(ApiKey::Metadata, min, max);
            assert_eq!(versions.newest::<MetadataRequest>(cap), version, "{why}");
        }
    }

    #[test]
    fn what_a_broker_does_not_list_is_not_spoken() {
        assert_eq!(served(ApiKey::Metadata, 0, 9).newest::<FetchRequest>(i16::MAX), None);
    }

    #[test]
    fn keys_from_nowhere_do_no_harm() {
        for key in [-1, i16::MIN, i16::MAX] {
            let version = ApiVersion { api_key: key, ..Default::default() };
            let response = ApiVersionsResponse { api_keys: vec![version], ..Default::default() };
            assert_eq!(ServedVersions::from_response(&response).newest::<FetchRequest>(9), None);
        }
    }

    #[test]
    fn a_broker_without_negotiation_gets_version_0_and_no_idempotence() {
        let versions = ServedVersions::before_negotiation();
        assert_eq!(versions.newest::<FetchRequest>(i16::MAX), Some(0));
        assert_eq!(versions.newest::<InitProducerIdRequest>(i16::MAX), None);
    }
}
