//! One file per API: the versions that are served, and who answers.
//!
//! A request comes in as a [`Call`], which knows its header, and leaves as a [`Reply`]. The router and the
//! ApiVersions answer read [`APIS`]; nothing else lists what is served.

mod alter_configs;
pub mod alter_partition;
mod alter_replica_log_dirs;
mod api_versions;
pub mod controlled_shutdown;
mod create_acls;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod elect_leaders;
pub mod fetch;
mod find_coordinator;
mod group_requests;
mod heartbeat;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
pub mod leader_and_isr;
mod leader_endpoints;
mod leave_group;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod metadata;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod produce;
pub mod stop_replica;
mod sync_group;
pub mod update_metadata;

use std::ops::RangeInclusive;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use ottla_network::{Answer, Peer, Reply, Service};
use ottla_protocol::frame::{self, RequestError};
use ottla_protocol::{ApiKey, DecodeError, Decoder, EncodeError, Encoder, Message, Request, Str};

use crate::server::Broker;

/// What is served: one row per API, in the order of the keys.
pub const APIS: &[Api] = &[
    produce::API,
    fetch::API,
    list_offsets::API,
    metadata::API,
    leader_and_isr::API,
    stop_replica::API,
    update_metadata::API,
    controlled_shutdown::API,
    offset_commit::API,
    offset_fetch::API,
    find_coordinator::API,
    join_group::API,
    heartbeat::API,
    leave_group::API,
    sync_group::API,
    describe_groups::API,
    list_groups::API,
    api_versions::API,
    create_topics::API,
    delete_topics::API,
    delete_records::API,
    init_producer_id::API,
    offset_for_leader_epoch::API,
    describe_acls::API,
    create_acls::API,
    delete_acls::API,
    describe_configs::API,
    alter_configs::API,
    alter_replica_log_dirs::API,
    describe_log_dirs::API,
    create_partitions::API,
    delete_groups::API,
    elect_leaders::API,
    incremental_alter_configs::API,
    list_partition_reassignments::API,
    offset_delete::API,
    alter_partition::API,
    describe_cluster::API,
    describe_producers::API,
];

/// An API as this broker serves it.
#[derive(Debug, Clone)]
pub struct Api {
    pub key: ApiKey,
    pub versions: RangeInclusive<i16>,
    /// Answers one request. An error means that the bytes made no sense, and ends the connection.
    pub handle: fn(Call) -> Result<Reply, DecodeError>,
}

/// One request on its way through the broker.
#[derive(Debug)]
pub struct Call {
    pub broker: Arc<Broker>,
    pub peer: Peer,
    pub key: ApiKey,
    pub version: i16,
    pub client_id: Option<Str>,
    correlation_id: i32,
    body: Decoder,
}

impl Call {
    /// Reads the body of the request.
    pub fn decode<R: Request>(&mut self) -> Result<R, DecodeError> {
        debug_assert_eq!(R::KEY, self.key);
        R::decode(&mut self.body, self.version)
    }

    /// The name of the listener that the client came in through.
    pub fn listener(&self) -> &str {
        &self.peer.listener
    }

    /// The response as a frame, behind the header that its API and version ask for.
    pub fn answer<M: Message>(&self, response: &M) -> Answer {
        encode(self.key, self.version, self.correlation_id, response)
    }

    /// [`Call::answer`], at once.
    pub fn reply<M: Message>(&self, response: &M) -> Reply {
        Reply::Now(self.answer(response))
    }
}

/// Header and body of a response; the network puts the size in front.
fn encode<M: Message>(key: ApiKey, version: i16, correlation_id: i32, response: &M) -> Answer {
    let mut out = BytesMut::new();
    let mut encoder = Encoder::new(&mut out);
    let encoded = frame::encode_response_header(&mut encoder, key, version, correlation_id)
        .and_then(|()| response.encode(&mut encoder, version));
    match encoded {
        Ok(()) => Answer::Send(out.freeze().into()),
        Err(error) => misfit(key, version, &error),
    }
}

/// Only a broker that fills in a response wrongly gets here.
fn misfit(key: ApiKey, version: i16, error: &EncodeError) -> Answer {
    tracing::error!(api = key.name(), version, %error, "response does not fit its version");
    Answer::Close("internal error: response does not fit its version".into())
}

/// The broker as the network sees it.
#[derive(Debug, Clone)]
pub struct Router {
    broker: Arc<Broker>,
}

/// What the broker remembers about one connection.
#[derive(Debug)]
pub struct Connection {
    peer: Peer,
}

impl Router {
    pub fn new(broker: Arc<Broker>) -> Router {
        Router { broker }
    }
}

impl Service for Router {
    type Connection = Connection;

    fn connected(&self, peer: &Peer) -> Connection {
        Connection { peer: peer.clone() }
    }

    fn call(&self, connection: &mut Connection, request: Bytes) -> Reply {
        let (key, header, body) = match frame::decode_request_header(request) {
            Ok(parts) => parts,
            Err(RequestError::UnsupportedVersion { key: ApiKey::ApiVersions, correlation_id, .. }) => {
                return api_versions::refuse_version(correlation_id);
            }
            Err(error) => return Reply::close(error.to_string()),
        };
        let version = header.request_api_version;
        let Some(api) = APIS.iter().find(|api| api.key == key) else {
            return Reply::close(format!("{} is not served", key.name()));
        };
        if !api.versions.contains(&version) {
            if key == ApiKey::ApiVersions {
                return api_versions::refuse_version(header.correlation_id);
            }
            let (low, high) = (api.versions.start(), api.versions.end());
            let name = key.name();
            return Reply::close(format!("{name} v{version} is not served, only v{low} to v{high}"));
        }
        let call = Call {
            broker: self.broker.clone(),
            peer: connection.peer.clone(),
            key,
            version,
            client_id: header.client_id,
            correlation_id: header.correlation_id,
            body,
        };
        match (api.handle)(call) {
            Ok(reply) => reply,
            Err(error) => Reply::close(format!("{} v{version}: {error}", key.name())),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// Every API, as a page for people.
    fn markdown() -> String {
        let mut page = String::from(
            "# APIs\n\nWhat this broker serves, as ApiVersions announces it. Each row is a file of `crates/broker/src/apis/`, whose constant \
             `API` says what changed from version to\nversion. What is missing in an API that is served stands in [GAPS.md](../GAPS.md).\n\n\
             | key | API | versions |\n|---|---|---|\n",
        );
        for api in APIS {
            let (key, name) = (api.key as i16, api.key.name());
            writeln!(page, "| {key} | {name} | {} to {} |", api.versions.start(), api.versions.end())
                .expect("a string takes everything");
        }
        page
    }

    #[test]
    fn the_page_of_documentation_is_up_to_date() {
        let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/apis.md");
        if std::env::var_os("OTTLA_WRITE_DOCS").is_some() {
            std::fs::write(&path, markdown()).expect("a writable docs directory");
        }
        let page = std::fs::read_to_string(&path).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/apis.md is stale: OTTLA_WRITE_DOCS=1 cargo test -p ottla-broker --lib apis"
        );
    }
}
