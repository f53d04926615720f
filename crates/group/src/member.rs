//! One member of a group.

use std::collections::BTreeSet;

use bytes::Bytes;

use crate::clock::{Moment, Now};
use crate::group::RequestId;

/// A member that is new has this long to see its first rebalance end, in milliseconds.
const NEW_MEMBER_JOIN_MS: i64 = 300_000;

/// A member, as it last presented itself.
#[derive(Debug, Clone)]
pub struct Member {
    pub id: String,
    /// Survives restarts of the client (KIP-345).
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    /// Names and metadata, in the member's order of preference.
    pub protocols: Vec<(String, Bytes)>,
    /// What the leader gave it in this generation; empty until then.
    pub assignment: Bytes,
    /// Has yet to see the end of its first rebalance.
    pub(crate) is_new: bool,
    pub(crate) awaiting_join: Option<RequestId>,
    pub(crate) awaiting_sync: Option<RequestId>,
    /// When it is given up, unless it is heard of before.
    deadline: Moment,
}

impl Member {
    pub(crate) fn new(
        id: String,
        instance_id: Option<String>,
        client: (String, String),
        timeouts_ms: (i32, i32),
        protocols: Vec<(String, Bytes)>,
        now: Now,
    ) -> Member {
        let (client_id, client_host) = client;
        let (session_timeout_ms, rebalance_timeout_ms) = timeouts_ms;
        Member {
            id,
            instance_id,
            client_id,
            client_host,
            session_timeout_ms,
            rebalance_timeout_ms,
            protocols,
            assignment: Bytes::new(),
            is_new: false,
            awaiting_join: None,
            awaiting_sync: None,
            deadline: now.after(i64::from(session_timeout_ms)),
        }
    }

    /// It was heard of: its session starts anew.
    pub(crate) fn seen(&mut self, now: Now) {
        self.deadline = now.after(i64::from(self.session_timeout_ms));
    }

    /// It waits in its first rebalance, for which it has more time than a session.
    pub(crate) fn begin_as_new(&mut self, now: Now) {
        self.is_new = true;
        self.deadline = now.after(NEW_MEMBER_JOIN_MS);
    }

    /// When it is to be given up; `None` while it waits for us, which proves that it lives.
    pub(crate) fn expires_at(&self) -> Option<Moment> {
        let waiting = self.awaiting_join.is_some() || self.awaiting_sync.is_some();
        (self.is_new || !waiting).then_some(self.deadline)
    }

    pub(crate) fn metadata(&self, protocol: &str) -> Bytes {
        self.protocols
            .iter()
            .find(|(name, _)| name == protocol)
            .map(|(_, metadata)| metadata.clone())
            .unwrap_or_default()
    }

    pub(crate) fn supports(&self, protocol: &str) -> bool {
        self.protocols.iter().any(|(name, _)| name == protocol)
    }

    /// The protocol it likes best among those that all can do.
    pub(crate) fn vote(&self, candidates: &BTreeSet<&str>) -> Option<&str> {
        self.protocols.iter().map(|(name, _)| name.as_str()).find(|name| candidates.contains(name))
    }
}
