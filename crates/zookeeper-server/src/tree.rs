//! The server's whole state and every decision about it: sessions, znodes, watches, transaction numbers.
//!
//! No sockets, files, clock or randomness: a request comes in with the session it belongs to and the time, and
//! what the world must do goes out as [`Effect`]s, in the order in which it must happen. The same inputs give the
//! same effects, byte for byte, so that the server and a simulation can run the same tree.
//!
//! ```text
//! request --> decide (changes nothing) --> Txn --> apply --> Effect::Log, Effect::Event.., Effect::Reply
//!                                           ^
//!                             the log, replayed after a restart
//! ```
//!
//! A watch event stands before the reply that shows what fired it, and before any reply that could show the new
//! state to its session, because all effects leave in one order.

use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;
use std::sync::Arc;

use bytes::Bytes;

use crate::acl::{self, AclList};
use crate::path;
use crate::protocol::{
    ConnectRequest, ConnectResponse, ErrorCode, EventType, Id, OpResult, Password, ReadOp, Reply, Request,
    RequestError, Response, SessionId, SetWatches, Stat, WatchEvent, WatcherType, WriteOp, Xid, Zxid, perms,
};
use crate::watch::{WATCHES_PER_SESSION_MAX, Watches};
use crate::znodes::{CONTAINER_OWNER, Change, Draft, Misfit, Znode, Znodes, ephemeral_of};

/// Two clocks, because a wall clock that is set must not expire sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// Milliseconds on a clock that never goes back.
    pub elapsed_ms: u64,
    /// Milliseconds since 1970, for `ctime` and `mtime`.
    pub wall_ms: i64,
}

/// What session timeouts are clamped to, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SessionTimeouts {
    pub min_ms: u32,
    pub max_ms: u32,
}

impl SessionTimeouts {
    fn clamp(self, asked_ms: i32) -> u32 {
        u32::try_from(asked_ms).unwrap_or(0).clamp(self.min_ms, self.max_ms)
    }
}

/// How often containers are looked at, as in ZooKeeper.
const CONTAINER_CHECK_INTERVAL_MS: u64 = 60_000;

/// Bytes of data and names in the answer to one multiRead.
const MULTI_READ_BYTES_MAX: usize = 16 * 1024 * 1024;

/// One step of the tree's history; the log holds them in order of `zxid`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Txn {
    pub zxid: Zxid,
    /// Milliseconds since 1970.
    pub time: i64,
    /// Whose doing it was; [`SessionId::NONE`] for the server's own.
    pub session: SessionId,
    pub body: TxnBody,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TxnBody {
    /// The server started: see [`Tree::start`].
    Epoch,
    OpenSession {
        timeout_ms: u32,
        password: Password,
    },
    /// Ends the session and deletes its ephemerals.
    CloseSession,
    /// One change, or the changes of one multi.
    Changes(Vec<Change>),
}

impl Txn {
    /// Whether an answer that tells of this transaction must wait until it would survive a power failure.
    ///
    /// A session that has changed nothing yet is no loss: its client is told that it expired, which it has to
    /// be ready for anyway. Whatever the session does later lies behind it in the log. An epoch is none either: the
    /// next one is later in any case.
    pub fn must_survive(&self) -> bool {
        match self.body {
            TxnBody::CloseSession | TxnBody::Changes(_) => true,
            TxnBody::Epoch | TxnBody::OpenSession { .. } => false,
        }
    }
}

/// What the world must do, in the order given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Append to the log. What follows must not reach a client before it is as durable as it must be.
    Log(Txn),
    Reply {
        session: SessionId,
        reply: Reply,
    },
    Event {
        session: SessionId,
        event: WatchEvent,
    },
    /// Close the session's connection once everything before this was sent.
    Close {
        session: SessionId,
        why: CloseReason,
    },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CloseReason {
    #[error("the client closed its session")]
    ClosedByClient,
    #[error("the session expired")]
    Expired,
    #[error("authentication failed")]
    AuthFailed,
    #[error("the session holds more than {WATCHES_PER_SESSION_MAX} watches")]
    TooManyWatches,
    #[error("it sent what no ZooKeeper client sends")]
    NoClient,
}

/// The answer to a client that wants to attach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Attach {
    Attached {
        response: ConnectResponse,
        reattached: bool,
    },
    /// The session is gone or the password wrong: the client is told that it expired.
    Expired,
    /// The client has seen transactions this server has not: it belongs to another one.
    /// ZooKeeper closes such a connection without an answer.
    ClientAhead {
        seen: Zxid,
        ours: Zxid,
    },
}

/// A client's claim to liveness and to the znodes that die with it.
#[derive(Debug, Clone)]
struct Session {
    /// As negotiated by the connection it has now.
    timeout_ms: u32,
    password: Password,
    heard_ms: u64,
    /// Where `deadlines` has this session; at or before its true deadline.
    queued_ms: u64,
    /// Who the connection has proven to be.
    ids: Vec<Id>,
    ephemerals: BTreeSet<Arc<str>>,
}

/// The whole state of a ZooKeeper server. See the module's documentation.
#[derive(Debug)]
pub struct Tree {
    timeouts: SessionTimeouts,
    zxid: Zxid,
    last_session: SessionId,
    sessions: BTreeMap<SessionId, Session>,
    /// One entry for each session. Hearing from a session does not move its entry; [`Tree::expire`] does when it
    /// comes up, so that a request costs no reordering.
    deadlines: BTreeSet<(u64, SessionId)>,
    znodes: Znodes,
    containers: BTreeSet<Arc<str>>,
    container_check_ms: Option<u64>,
    watches: Watches,
    /// Events of the transaction being applied.
    fired: Vec<(SessionId, WatchEvent)>,
}

impl Tree {
    /// A tree with nothing in it but `/zookeeper`.
    pub fn new(timeouts: SessionTimeouts) -> Tree {
        Tree {
            timeouts,
            zxid: Zxid(0),
            last_session: SessionId::NONE,
            sessions: BTreeMap::new(),
            deadlines: BTreeSet::new(),
            znodes: Znodes::default(),
            containers: BTreeSet::new(),
            container_check_ms: None,
            watches: Watches::default(),
            fired: Vec::new(),
        }
    }

    /// The last transaction.
    pub fn zxid(&self) -> Zxid {
        self.zxid
    }

    pub fn znodes(&self) -> &Znodes {
        &self.znodes
    }

    pub fn watch_count(&self) -> usize {
        self.watches.count()
    }

    pub fn ephemeral_count(&self) -> usize {
        self.sessions.values().map(|session| session.ephemerals.len()).sum()
    }

    /// The sessions with the timeout they have now, in order of their ids.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = (SessionId, u32, &Password)> {
        self.sessions.iter().map(|(id, session)| (*id, session.timeout_ms, &session.password))
    }

    pub fn last_session(&self) -> SessionId {
        self.last_session
    }

    // ---- history: snapshot, log, start ----

    /// Puts back what a snapshot holds, in this order: numbers, sessions, znodes in path order.
    pub fn restore_numbers(&mut self, zxid: Zxid, last_session: SessionId) {
        self.zxid = zxid;
        self.last_session = last_session;
    }

    pub fn restore_session(&mut self, id: SessionId, timeout_ms: u32, password: Password) {
        self.open_session(id, timeout_ms, password);
    }

    pub fn restore_znode(&mut self, path: Arc<str>, znode: Znode) -> Result<(), Misfit> {
        self.index(&path, znode.owner)?;
        self.znodes.restore(path, znode)
    }

    /// Replays a transaction of the log.
    pub fn replay(&mut self, txn: &Txn) -> Result<(), Misfit> {
        self.apply(txn).map(|_| ())
    }

    /// Takes up service after a restart: every session has its whole timeout ahead, and a new epoch begins.
    ///
    /// An ensemble counts its leaders in the epoch. Here it is the second in which the server started (since 2020;
    /// it fits until 2088), or one more than the last. So no number is given out twice, even if a power failure took the
    /// log's end with it, and even if somebody wiped the directory: clients that are still there are told that their
    /// session expired, where they would otherwise be turned away for having seen more than the server did.
    pub fn start(&mut self, now: Now, out: &mut Vec<Effect>) {
        const START_OF_2020_S: i64 = 1_577_836_800;
        let second = (now.wall_ms / 1000 - START_OF_2020_S).clamp(0, i32::MAX.into());
        let zxid = Zxid(((self.zxid.0 >> 32) + 1).max(second) << 32);
        self.commit(Txn { zxid, time: now.wall_ms, session: SessionId::NONE, body: TxnBody::Epoch }, out);
        self.deadlines.clear();
        for (id, session) in &mut self.sessions {
            session.timeout_ms = session.timeout_ms.clamp(self.timeouts.min_ms, self.timeouts.max_ms);
            session.heard_ms = now.elapsed_ms;
            session.queued_ms = now.elapsed_ms + u64::from(session.timeout_ms);
            self.deadlines.insert((session.queued_ms, *id));
        }
        self.watch_containers(now);
    }

    // ---- sessions ----

    /// A client attaches: with a new session, or with one that it can prove to be its own.
    ///
    /// `password` is what a new session gets. Watches and identities do not carry over from an earlier connection:
    /// the client sends them again.
    pub fn attach(
        &mut self,
        request: &ConnectRequest,
        peer: IpAddr,
        password: Password,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Attach {
        if request.last_zxid_seen > self.zxid {
            return Attach::ClientAhead { seen: request.last_zxid_seen, ours: self.zxid };
        }
        let timeout_ms = self.timeouts.clamp(request.timeout_ms);
        let reattached = request.session != SessionId::NONE;
        let id = if reattached {
            match self.sessions.get(&request.session) {
                Some(session) if session.password[..] == request.password[..] => request.session,
                _ => return Attach::Expired,
            }
        } else {
            self.next_session(now)
        };
        if reattached {
            self.detach(id);
        } else {
            let body = TxnBody::OpenSession { timeout_ms, password };
            self.commit(Txn { zxid: self.next_zxid(), time: now.wall_ms, session: id, body }, out);
        }
        let session = self.sessions.get_mut(&id).expect("found or opened above");
        session.ids = vec![acl::ip_id(peer)];
        session.timeout_ms = timeout_ms;
        session.heard_ms = now.elapsed_ms;
        self.deadlines.remove(&(session.queued_ms, id));
        session.queued_ms = now.elapsed_ms + u64::from(timeout_ms);
        self.deadlines.insert((session.queued_ms, id));
        let response = ConnectResponse {
            timeout_ms: i32::try_from(timeout_ms).expect("clamped from an i32"),
            session: id,
            password: session.password,
        };
        Attach::Attached { response, reattached }
    }

    /// The session's connection is gone; the session is not.
    pub fn detach(&mut self, id: SessionId) {
        self.watches.remove_session(id);
        if let Some(session) = self.sessions.get_mut(&id) {
            session.ids.clear();
        }
    }

    /// ZooKeeper's layout: the server's number (1) in the highest byte, then the time, then a counter.
    fn next_session(&self, now: Now) -> SessionId {
        const SERVER_NUMBER: i64 = 1 << 56;
        let from_time = SERVER_NUMBER | (((now.wall_ms as u64) << 24 >> 8) & 0x00ff_ffff_ffff_ffff) as i64;
        SessionId(from_time.max(self.last_session.0 + 1))
    }

    /// When [`Tree::expire`] has to be called next, on the clock of [`Now::elapsed_ms`].
    pub fn next_deadline_ms(&self) -> Option<u64> {
        let session = self.deadlines.first().map(|(deadline, _)| *deadline);
        [session, self.container_check_ms].into_iter().flatten().min()
    }

    /// Ends the sessions that were silent for their whole timeout, and removes containers that have emptied.
    pub fn expire(&mut self, now: Now, out: &mut Vec<Effect>) {
        while let Some((queued_ms, id)) =
            self.deadlines.first().copied().filter(|(at, _)| *at <= now.elapsed_ms)
        {
            let session = self.sessions.get_mut(&id).expect("every deadline has its session");
            let deadline_ms = session.heard_ms + u64::from(session.timeout_ms);
            if deadline_ms > now.elapsed_ms {
                self.deadlines.remove(&(queued_ms, id));
                session.queued_ms = deadline_ms;
                self.deadlines.insert((deadline_ms, id));
                continue;
            }
            self.close_session(id, now, out);
            out.push(Effect::Close { session: id, why: CloseReason::Expired });
        }
        if self.container_check_ms.is_some_and(|at| at <= now.elapsed_ms) {
            self.container_check_ms = None;
            self.remove_empty_containers(now, out);
            self.watch_containers(now);
        }
    }

    /// Ends every session, whatever is left of its timeout.
    pub fn close_sessions(&mut self, now: Now, out: &mut Vec<Effect>) {
        let ids: Vec<SessionId> = self.sessions.keys().copied().collect();
        for id in ids {
            self.close_session(id, now, out);
        }
    }

    fn close_session(&mut self, id: SessionId, now: Now, out: &mut Vec<Effect>) {
        let txn = Txn { zxid: self.next_zxid(), time: now.wall_ms, session: id, body: TxnBody::CloseSession };
        self.commit(txn, out);
    }

    fn watch_containers(&mut self, now: Now) {
        if !self.containers.is_empty() && self.container_check_ms.is_none() {
            self.container_check_ms = Some(now.elapsed_ms + CONTAINER_CHECK_INTERVAL_MS);
        }
    }

    /// A container goes once it has had children and has none: one that was never used is left alone.
    fn remove_empty_containers(&mut self, now: Now, out: &mut Vec<Effect>) {
        let is_spent = |path: &Arc<str>| {
            self.znodes.get(path).is_some_and(|znode| znode.children.is_empty() && znode.creates > 0)
        };
        let spent: Vec<Arc<str>> = self.containers.iter().filter(|path| is_spent(path)).cloned().collect();
        for path in spent {
            let body = TxnBody::Changes(vec![Change::Delete { path }]);
            let txn = Txn { zxid: self.next_zxid(), time: now.wall_ms, session: SessionId::NONE, body };
            self.commit(txn, out);
        }
    }

    // ---- requests ----

    /// Serves one request of an attached session.
    pub fn handle(
        &mut self,
        session: SessionId,
        xid: Xid,
        request: &Request<'_>,
        now: Now,
        out: &mut Vec<Effect>,
    ) {
        let Some(state) = self.sessions.get_mut(&session) else {
            self.reply(session, xid, Err(ErrorCode::SessionExpired), out);
            out.push(Effect::Close { session, why: CloseReason::Expired });
            return;
        };
        state.heard_ms = now.elapsed_ms;

        let result = match request {
            Request::Write(op) => self.write(session, op, now, out),
            Request::Multi(ops) => Ok(Response::Multi(self.multi(session, ops, now, out))),
            Request::Read(op) => self.read(session, op),
            Request::MultiRead(ops) => self.multi_read(session, ops).map(Response::Multi),
            Request::Exists { path, watch } => self.exists(session, path, *watch),
            Request::GetAcl { path } => self.get_acl(session, path),
            Request::Sync { path } => Ok(Response::Path((*path).into())),
            Request::Ping => return self.reply(session, Xid::PING, Ok(Response::Done), out),
            Request::Auth { scheme, auth } => return self.authenticate(session, xid, scheme, auth, out),
            Request::Sasl => return self.refuse_authentication(session, xid, out),
            Request::SetWatches(watches) => {
                self.set_watches(session, watches, out);
                Ok(Response::Done)
            }
            Request::AddWatch { path, mode } => {
                self.watches.add(path, session, *mode);
                Ok(Response::Number(0))
            }
            Request::CheckWatches { path, kind } => {
                if self.watches.contains(path, session, *kind) {
                    Ok(Response::Done)
                } else {
                    Err(ErrorCode::NoWatcher)
                }
            }
            Request::RemoveWatches { path, kind } => self.remove_watches(session, path, *kind),
            Request::GetEphemerals { prefix } => Ok(Response::Names(self.ephemerals(session, *prefix))),
            Request::GetAllChildrenNumber { path } => self.all_children_number(session, path),
            Request::WhoAmI => Ok(Response::WhoAmI(self.who_am_i(session))),
            Request::Reconfig => {
                self.zxid = self.next_zxid();
                Err(ErrorCode::ReconfigDisabled)
            }
            Request::CloseSession => {
                self.close_session(session, now, out);
                self.reply(session, xid, Ok(Response::Done), out);
                out.push(Effect::Close { session, why: CloseReason::ClosedByClient });
                return;
            }
        };
        self.reply(session, xid, result, out);
        if self.watches.held_by(session) > WATCHES_PER_SESSION_MAX {
            out.push(Effect::Close { session, why: CloseReason::TooManyWatches });
        }
    }

    /// Answers a request that could not be read. ZooKeeper closes the connection on an operation it does not know.
    pub fn refuse(&self, session: SessionId, xid: Xid, error: &RequestError, out: &mut Vec<Effect>) {
        match error {
            RequestError::Malformed { .. } => self.reply(session, xid, Err(ErrorCode::MarshallingError), out),
            RequestError::UnknownOperation(_) => {
                self.reply(session, xid, Err(ErrorCode::Unimplemented), out);
                out.push(Effect::Close { session, why: CloseReason::NoClient });
            }
        }
    }

    fn reply(
        &self,
        session: SessionId,
        xid: Xid,
        result: Result<Response, ErrorCode>,
        out: &mut Vec<Effect>,
    ) {
        out.push(Effect::Reply { session, reply: Reply { xid, zxid: self.zxid, result } });
    }

    fn ids(&self, session: SessionId) -> &[Id] {
        self.sessions.get(&session).map_or(&[], |session| &session.ids)
    }

    fn next_zxid(&self) -> Zxid {
        Zxid(self.zxid.0 + 1)
    }

    fn write(
        &mut self,
        session: SessionId,
        op: &WriteOp<'_>,
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Result<Response, ErrorCode> {
        let decided = Draft::new(&self.znodes).decide(op, session, self.ids(session));
        let zxid = self.next_zxid();
        let change = match decided {
            Ok(change) => change,
            Err(error) => {
                // A refusal takes a number too. It needs no place in the log: a restart begins a new epoch.
                self.zxid = zxid;
                return Err(error);
            }
        };
        let created = match &change {
            Change::Create { path, .. } => Some(path.clone()),
            _ => None,
        };
        let body = TxnBody::Changes(vec![change]);
        let stat = self.commit(Txn { zxid, time: now.wall_ms, session, body }, out).pop().flatten();
        self.watch_containers(now);
        Ok(match (op, created, stat) {
            (WriteOp::Create(create), Some(path), Some(stat)) if create.with_stat => {
                Response::Created { path, stat }
            }
            (WriteOp::Create(_), Some(path), _) => Response::Path(path),
            (_, _, Some(stat)) => Response::Stat(stat),
            _ => Response::Done,
        })
    }

    /// All operations or none, under one number.
    fn multi(
        &mut self,
        session: SessionId,
        ops: &[WriteOp<'_>],
        now: Now,
        out: &mut Vec<Effect>,
    ) -> Vec<OpResult> {
        let zxid = self.next_zxid();
        let mut draft = Draft::new(&self.znodes);
        let mut changes = Vec::with_capacity(ops.len());
        for (index, op) in ops.iter().enumerate() {
            match draft.decide(op, session, self.ids(session)) {
                Ok(change) => {
                    draft.note(&change);
                    changes.push(change);
                }
                Err(error) => {
                    self.zxid = zxid;
                    return failed_multi(ops.len(), index, error);
                }
            }
        }
        let paths: Vec<Option<Arc<str>>> = changes
            .iter()
            .map(|change| match change {
                Change::Create { path, .. } => Some(path.clone()),
                _ => None,
            })
            .collect();
        let stats =
            self.commit(Txn { zxid, time: now.wall_ms, session, body: TxnBody::Changes(changes) }, out);
        self.watch_containers(now);
        let results = ops.iter().zip(paths).zip(stats).map(|((op, path), stat)| match (op, path, stat) {
            (WriteOp::Create(create), Some(path), stat) => {
                OpResult::Created { path, stat: stat.filter(|_| create.with_stat) }
            }
            (WriteOp::SetData { .. } | WriteOp::SetAcl { .. }, _, Some(stat)) => OpResult::SetData(stat),
            (WriteOp::Check { .. }, ..) => OpResult::Checked,
            _ => OpResult::Deleted,
        });
        results.collect()
    }

    fn read(&mut self, session: SessionId, op: &ReadOp<'_>) -> Result<Response, ErrorCode> {
        match *op {
            ReadOp::GetData { path, watch } => {
                let znode = self.readable(session, path)?;
                let response = Response::Data { data: znode.data.clone(), stat: znode.stat() };
                if watch {
                    self.watches.add_data(path, session);
                }
                Ok(response)
            }
            ReadOp::GetChildren { path, watch, with_stat } => {
                let znode = self.readable(session, path)?;
                let names = znode.children.iter().cloned().collect();
                let response = match with_stat {
                    true => Response::Children { names, stat: znode.stat() },
                    false => Response::Names(names),
                };
                if watch {
                    self.watches.add_child(path, session);
                }
                Ok(response)
            }
        }
    }

    /// Each read on its own: one that fails leaves the others be.
    ///
    /// A small request can ask for one big znode many times over; beyond [`MULTI_READ_BYTES_MAX`] it is refused.
    fn multi_read(&mut self, session: SessionId, ops: &[ReadOp<'_>]) -> Result<Vec<OpResult>, ErrorCode> {
        let mut results = Vec::with_capacity(ops.len());
        let mut bytes = 0;
        for op in ops {
            results.push(match self.read(session, op) {
                Ok(Response::Data { data, stat }) => {
                    bytes += data.as_ref().map_or(0, Bytes::len);
                    OpResult::Data { data, stat }
                }
                Ok(Response::Names(names) | Response::Children { names, .. }) => {
                    bytes += names.iter().map(|name| name.len()).sum::<usize>();
                    OpResult::Names(names)
                }
                Ok(other) => unreachable!("a read is answered with data or names, not {other:?}"),
                Err(error) => OpResult::Failed(Some(error)),
            });
            if bytes > MULTI_READ_BYTES_MAX {
                return Err(ErrorCode::MarshallingError);
            }
        }
        Ok(results)
    }

    fn readable(&self, session: SessionId, path: &str) -> Result<&Znode, ErrorCode> {
        self.permitted(session, path, perms::READ)
    }

    fn permitted(&self, session: SessionId, path: &str, perms: i32) -> Result<&Znode, ErrorCode> {
        let znode = self.znodes.get(path).ok_or(ErrorCode::NoNode)?;
        if znode.acl.permits(perms, self.ids(session)) { Ok(znode) } else { Err(ErrorCode::NoAuth) }
    }

    /// Unlike other reads it leaves its watch on a znode that does not exist, to hear of its creation.
    fn exists(&mut self, session: SessionId, path: &str, watch: bool) -> Result<Response, ErrorCode> {
        if path.contains('\0') {
            return Err(ErrorCode::BadArguments);
        }
        let found = self.readable(session, path).map(Znode::stat);
        if watch && found != Err(ErrorCode::NoAuth) {
            self.watches.add_data(path, session);
        }
        found.map(Response::Stat)
    }

    fn get_acl(&self, session: SessionId, path: &str) -> Result<Response, ErrorCode> {
        let znode = self.permitted(session, path, perms::READ | perms::ADMIN)?;
        let is_admin = znode.acl.permits(perms::ADMIN, self.ids(session));
        let acl = if is_admin { znode.acl.to_vec() } else { znode.acl.masked() };
        Ok(Response::Acl { acl, stat: znode.stat() })
    }

    fn all_children_number(&self, session: SessionId, path: &str) -> Result<Response, ErrorCode> {
        self.readable(session, path)?;
        Ok(Response::Number(i32::try_from(self.znodes.count_below(path)).unwrap_or(i32::MAX)))
    }

    fn ephemerals(&self, session: SessionId, prefix: Option<&str>) -> Vec<Arc<str>> {
        let prefix = prefix.filter(|prefix| !matches!(prefix.trim(), "" | "/")).unwrap_or("");
        let Some(session) = self.sessions.get(&session) else { return Vec::new() };
        session.ephemerals.iter().filter(|path| path.starts_with(prefix)).cloned().collect()
    }

    fn who_am_i(&self, session: SessionId) -> Vec<Id> {
        let user = |id: &Id| match id.scheme.as_str() {
            "digest" => id.id.split(':').next().unwrap_or_default().to_owned(),
            _ => id.id.clone(),
        };
        self.ids(session).iter().map(|id| Id { scheme: id.scheme.clone(), id: user(id) }).collect()
    }

    fn authenticate(
        &mut self,
        session: SessionId,
        xid: Xid,
        scheme: &str,
        auth: &[u8],
        out: &mut Vec<Effect>,
    ) {
        match scheme {
            "digest" => {
                let id = acl::digest_id(auth);
                let ids = &mut self.sessions.get_mut(&session).expect("handle found it").ids;
                if !ids.contains(&id) {
                    ids.push(id);
                }
            }
            // The address is known from the connection, whatever the client says.
            "ip" => {}
            _ => return self.refuse_authentication(session, xid, out),
        }
        let reply = Reply { xid, zxid: Zxid(0), result: Ok(Response::Done) };
        out.push(Effect::Reply { session, reply });
    }

    fn refuse_authentication(&self, session: SessionId, xid: Xid, out: &mut Vec<Effect>) {
        let reply = Reply { xid, zxid: Zxid(0), result: Err(ErrorCode::AuthFailed) };
        out.push(Effect::Reply { session, reply });
        out.push(Effect::Close { session, why: CloseReason::AuthFailed });
    }

    fn remove_watches(
        &mut self,
        session: SessionId,
        path: &str,
        kind: WatcherType,
    ) -> Result<Response, ErrorCode> {
        if self.watches.remove(path, session, kind) { Ok(Response::Done) } else { Err(ErrorCode::NoWatcher) }
    }

    /// A client is back with the watches it had. Those that would have fired while it was away fire now.
    fn set_watches(&mut self, session: SessionId, watches: &SetWatches<'_>, out: &mut Vec<Effect>) {
        let mut tell = |kind, path: &str| {
            let event = WatchEvent { zxid: None, kind, path: path.into() };
            out.push(Effect::Event { session, event });
        };
        for &path in &watches.data {
            match self.znodes.get(path) {
                None => tell(EventType::NodeDeleted, path),
                Some(znode) if znode.mzxid > watches.relative_zxid => tell(EventType::NodeDataChanged, path),
                Some(_) => self.watches.add_data(path, session),
            }
        }
        for &path in &watches.exist {
            match self.znodes.get(path) {
                Some(_) => tell(EventType::NodeCreated, path),
                None => self.watches.add_data(path, session),
            }
        }
        for &path in &watches.child {
            match self.znodes.get(path) {
                None => tell(EventType::NodeDeleted, path),
                Some(znode) if znode.pzxid > watches.relative_zxid => {
                    tell(EventType::NodeChildrenChanged, path)
                }
                Some(_) => self.watches.add_child(path, session),
            }
        }
        use crate::protocol::AddWatchMode::{Persistent, PersistentRecursive};
        for (paths, mode) in
            [(&watches.persistent, Persistent), (&watches.persistent_recursive, PersistentRecursive)]
        {
            for path in paths {
                self.watches.add(path, session, mode);
            }
        }
    }

    // ---- the one writer ----

    /// Applies a transaction that was decided here, and orders it logged. The stats are those of its changes.
    fn commit(&mut self, txn: Txn, out: &mut Vec<Effect>) -> Vec<Option<Stat>> {
        let stats = self.apply(&txn).expect("a decided transaction fits the tree it was decided on");
        out.push(Effect::Log(txn));
        out.extend(self.fired.drain(..).map(|(session, event)| Effect::Event { session, event }));
        stats
    }

    fn apply(&mut self, txn: &Txn) -> Result<Vec<Option<Stat>>, Misfit> {
        self.zxid = txn.zxid;
        match &txn.body {
            TxnBody::Epoch => Ok(Vec::new()),
            TxnBody::OpenSession { timeout_ms, password } => {
                self.open_session(txn.session, *timeout_ms, *password);
                Ok(Vec::new())
            }
            TxnBody::CloseSession => {
                let ephemerals = self
                    .sessions
                    .get(&txn.session)
                    .map(|session| session.ephemerals.clone())
                    .unwrap_or_default();
                for path in ephemerals {
                    self.apply_change(&Change::Delete { path }, txn)?;
                }
                self.watches.remove_session(txn.session);
                if let Some(session) = self.sessions.remove(&txn.session) {
                    self.deadlines.remove(&(session.queued_ms, txn.session));
                }
                Ok(Vec::new())
            }
            TxnBody::Changes(changes) => {
                changes.iter().map(|change| self.apply_change(change, txn)).collect()
            }
        }
    }

    fn open_session(&mut self, id: SessionId, timeout_ms: u32, password: Password) {
        let session = Session {
            timeout_ms,
            password,
            heard_ms: 0,
            queued_ms: 0,
            ids: Vec::new(),
            ephemerals: BTreeSet::new(),
        };
        self.sessions.insert(id, session);
        self.deadlines.insert((0, id));
        self.last_session = self.last_session.max(id);
    }

    /// Remembers what is to be done with a new znode because of its owner.
    fn index(&mut self, path: &Arc<str>, owner: i64) -> Result<(), Misfit> {
        if owner == CONTAINER_OWNER {
            self.containers.insert(path.clone());
        } else if let Some(id) = ephemeral_of(owner) {
            let misfit = || Misfit { path: path.to_string(), why: "the session that owns it is missing" };
            self.sessions.get_mut(&id).ok_or_else(misfit)?.ephemerals.insert(path.clone());
        }
        Ok(())
    }

    fn apply_change(&mut self, change: &Change, txn: &Txn) -> Result<Option<Stat>, Misfit> {
        match change {
            Change::Create { path, owner, .. } => {
                let stat = self.znodes.apply(change, txn.zxid, txn.time)?;
                self.index(path, *owner)?;
                self.fire(EventType::NodeCreated, path, txn.zxid);
                self.fire_parent(path, txn.zxid);
                Ok(stat)
            }
            Change::Delete { path } => {
                let (owner, acl) =
                    self.znodes.get(path).map_or((0, AclList::Open), |z| (z.owner, z.acl.clone()));
                self.znodes.apply(change, txn.zxid, txn.time)?;
                self.containers.remove(path);
                if let Some(session) = ephemeral_of(owner).and_then(|id| self.sessions.get_mut(&id)) {
                    session.ephemerals.remove(path);
                }
                let heard = self.watches.fire_deleted(path);
                self.tell(heard, EventType::NodeDeleted, path, &acl, txn.zxid);
                self.fire_parent(path, txn.zxid);
                Ok(None)
            }
            Change::SetData { path, .. } => {
                let stat = self.znodes.apply(change, txn.zxid, txn.time)?;
                self.fire(EventType::NodeDataChanged, path, txn.zxid);
                Ok(stat)
            }
            Change::SetAcl { .. } | Change::Check => self.znodes.apply(change, txn.zxid, txn.time),
        }
    }

    /// Fires the data watches of a znode that exists.
    fn fire(&mut self, kind: EventType, path: &Arc<str>, zxid: Zxid) {
        let heard = self.watches.fire_data(path);
        if let Some(znode) = self.znodes.get(path).filter(|_| !heard.is_empty()) {
            self.tell(heard, kind, path, &znode.acl.clone(), zxid);
        }
    }

    fn fire_parent(&mut self, path: &str, zxid: Zxid) {
        let Some((parent, _)) = path::split(path) else { return };
        let heard = self.watches.fire_children(parent);
        if heard.is_empty() {
            return;
        }
        if let Some((parent, znode)) =
            self.znodes.key_value(parent).map(|(path, znode)| (path.clone(), znode))
        {
            self.tell(heard, EventType::NodeChildrenChanged, &parent, &znode.acl.clone(), zxid);
        }
    }

    /// Queues the event for those who may read the znode; for the others the watch is used up in silence.
    fn tell(&mut self, heard: Vec<SessionId>, kind: EventType, path: &Arc<str>, acl: &AclList, zxid: Zxid) {
        for session in heard {
            if acl.permits(perms::READ, self.ids(session)) {
                self.fired.push((session, WatchEvent { zxid: Some(zxid), kind, path: path.clone() }));
            }
        }
    }
}

/// What a multi of `count` operations is answered whose operation `at` was refused: nothing was done.
fn failed_multi(count: usize, at: usize, error: ErrorCode) -> Vec<OpResult> {
    let result = |index: usize| {
        OpResult::Failed(match index.cmp(&at) {
            std::cmp::Ordering::Less => None,
            std::cmp::Ordering::Equal => Some(error),
            std::cmp::Ordering::Greater => Some(ErrorCode::RuntimeInconsistency),
        })
    };
    (0..count).map(result).collect()
}
