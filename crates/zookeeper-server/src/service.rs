//! The tree at work: what it decides is logged, and what it answers leaves once the log is far enough.
//!
//! ```text
//! connection --request--> Service: Tree, under one lock --> records for the log, frames for outboxes
//!                                                             |                     ^
//!                                                             v                     | barrier met
//!                                              log thread: write, one sync for all that came meanwhile
//! ```
//!
//! While one sync runs, the requests of all connections gather for the next (group commit). A read waits too
//! if it shows what is not durable yet; with nothing to wait for it is answered without a hop to another thread.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use ottla_files::{File as _, Files};
use tokio::sync::Notify;

use crate::jute::{Frames, Writer};
use crate::outbox::{Barrier, Broken, Outbox};
use crate::protocol::{ConnectRequest, ConnectResponse, Password, Request, SessionId, Zxid, read_header};
use crate::storage::{Chain, LogFile, Storage, StorageError, snapshot};
use crate::tree::{Attach, CloseReason, Effect, Now, Tree};

/// Bytes on their way to the log beyond which no connection reads further requests.
const LOG_BACKLOG_BYTES: usize = 8 * 1024 * 1024;

/// Tells one connection from another of the same session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId(pub u64);

/// A connection as the service knows it.
#[derive(Debug)]
pub struct Connection {
    pub id: ConnectionId,
    pub peer: SocketAddr,
    /// Milliseconds since 1970.
    pub established_ms: i64,
    pub outbox: Outbox,
    pub received: AtomicU64,
    pub sent: AtomicU64,
}

/// Counters of one server, for the operator.
#[derive(Debug, Default)]
pub struct Counters {
    pub received: AtomicU64,
    pub sent: AtomicU64,
    pub latency_sum_ms: AtomicU64,
    pub latency_max_ms: AtomicU64,
    pub syncs: AtomicU64,
}

#[derive(Debug)]
pub struct State {
    pub tree: Tree,
    chain: Chain,
    /// Records the log thread has not taken yet.
    pending: Vec<u8>,
    /// What everything that is said now must wait for.
    barrier: Barrier,
    /// Outboxes to be woken after the next write.
    waiting: Vec<Arc<Connection>>,
    /// Who serves each session.
    pub attached: BTreeMap<SessionId, Arc<Connection>>,
    effects: Vec<Effect>,
    stopping: bool,
    failed: Option<StorageError>,
}

#[derive(Debug)]
pub struct Service {
    state: Mutex<State>,
    /// The log thread waits here for records.
    log_wake: Condvar,
    written: AtomicU64,
    synced: AtomicU64,
    /// The next deadline may have come nearer.
    pub deadline_moved: Notify,
    /// The log cannot be written: see [`Service::failure`].
    pub failed: Notify,
    started: Instant,
    pub counters: Counters,
}

/// How an attempt to attach ended, for the connection that made it.
#[derive(Debug)]
pub enum Attached {
    Session { id: SessionId, reattached: bool },
    Expired,
    ClientAhead { seen: Zxid, ours: Zxid },
}

impl Service {
    /// A service for a tree that was just read, whose log is continued by [`Service::run_log`].
    pub fn new(tree: Tree, chain: Chain) -> Service {
        let service = Service {
            state: Mutex::new(State {
                tree,
                chain,
                pending: Vec::new(),
                barrier: Barrier::default(),
                waiting: Vec::new(),
                attached: BTreeMap::new(),
                effects: Vec::new(),
                stopping: false,
                failed: None,
            }),
            log_wake: Condvar::new(),
            written: AtomicU64::new(0),
            synced: AtomicU64::new(0),
            deadline_moved: Notify::new(),
            failed: Notify::new(),
            started: Instant::now(),
            counters: Counters::default(),
        };
        service.act(|tree, now, effects| tree.start(now, effects));
        service
    }

    /// Ends all sessions, for a server whose clients cannot have outlived it.
    pub fn close_sessions(&self) {
        self.act(Tree::close_sessions);
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn now(&self) -> Now {
        Now {
            elapsed_ms: self.elapsed_ms(),
            wall_ms: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_millis() as i64),
        }
    }

    pub fn elapsed_ms(&self) -> u64 {
        self.started.elapsed().as_millis() as u64
    }

    /// How far the log is.
    pub fn durable(&self) -> Barrier {
        Barrier { written: self.written.load(Ordering::Acquire), synced: self.synced.load(Ordering::Acquire) }
    }

    /// Lets the tree decide something, and carries out what it orders.
    fn act<T>(&self, decide: impl FnOnce(&mut Tree, Now, &mut Vec<Effect>) -> T) -> T {
        let now = self.now();
        let mut state = self.state();
        let mut effects = std::mem::take(&mut state.effects);
        let result = decide(&mut state.tree, now, &mut effects);
        self.carry_out(&mut state, &mut effects, now);
        state.effects = effects;
        result
    }

    fn carry_out(&self, state: &mut State, effects: &mut Vec<Effect>, now: Now) {
        let durable = self.durable();
        let had_pending = !state.pending.is_empty();
        for effect in effects.drain(..) {
            match effect {
                Effect::Log(txn) => {
                    let before = state.pending.len();
                    state.chain.append_txn(&mut state.pending, &txn);
                    state.barrier.written += (state.pending.len() - before) as u64;
                    if txn.must_survive() {
                        state.barrier.synced = state.barrier.written;
                    }
                }
                Effect::Reply { session, reply } => {
                    let Some(connection) = state.attached.get(&session) else { continue };
                    let barrier = state.barrier;
                    if connection.outbox.push(barrier, durable, now.elapsed_ms, |writer| reply.write(writer))
                    {
                        state.waiting.push(connection.clone());
                    }
                }
                Effect::Event { session, event } => {
                    let Some(connection) = state.attached.get(&session) else { continue };
                    let barrier = state.barrier;
                    if connection.outbox.push(barrier, durable, now.elapsed_ms, |writer| event.write(writer))
                    {
                        state.waiting.push(connection.clone());
                    }
                }
                Effect::Close { session, why } => {
                    let Some(connection) = state.attached.remove(&session) else { continue };
                    if why != CloseReason::ClosedByClient {
                        tracing::info!(%session, peer = %connection.peer, %why, "connection is closed");
                    }
                    connection.outbox.close(why);
                    // A session that lost only its connection keeps what is its own, but watches nothing.
                    state.tree.detach(session);
                }
            }
        }
        if !had_pending && !state.pending.is_empty() {
            self.log_wake.notify_one();
        }
    }

    /// Attaches a connection to a new session or to the one it asks for, and queues the answer.
    pub fn attach(
        &self,
        connection: &Arc<Connection>,
        request: &ConnectRequest,
        password: Password,
    ) -> Attached {
        let now = self.now();
        let mut state = self.state();
        let mut effects = std::mem::take(&mut state.effects);
        let peer: IpAddr = connection.peer.ip();
        let outcome = state.tree.attach(request, peer, password, now, &mut effects);
        self.carry_out(&mut state, &mut effects, now);
        state.effects = effects;
        let (response, outcome) = match outcome {
            Attach::Attached { response, reattached } => {
                let id = response.session;
                if let Some(former) = state.attached.insert(id, connection.clone()) {
                    former.outbox.break_off(Broken::Moved);
                }
                (response, Attached::Session { id, reattached })
            }
            Attach::Expired => (ConnectResponse::EXPIRED, Attached::Expired),
            Attach::ClientAhead { seen, ours } => return Attached::ClientAhead { seen, ours },
        };
        let with_read_only = request.read_only.is_some();
        let write = |writer: &mut Writer<'_>| response.write(writer, with_read_only);
        if connection.outbox.push(state.barrier, self.durable(), now.elapsed_ms, write) {
            state.waiting.push(connection.clone());
        }
        if matches!(outcome, Attached::Expired) {
            connection.outbox.close(CloseReason::Expired);
        }
        drop(state);
        self.deadline_moved.notify_one();
        outcome
    }

    /// Serves the frames at hand of one connection: as long as the session is its own, and no more than the
    /// client has taken answers for.
    pub fn handle(&self, connection: &Connection, session: SessionId, frames: &mut Frames<'_>) {
        let now = self.now();
        let mut state = self.state();
        let mut effects = std::mem::take(&mut state.effects);
        while !connection.outbox.is_backlogged()
            && state.attached.get(&session).is_some_and(|serving| serving.id == connection.id)
        {
            let Some(frame) = frames.next() else { break };
            connection.received.fetch_add(1, Ordering::Relaxed);
            self.counters.received.fetch_add(1, Ordering::Relaxed);
            serve(&mut state.tree, session, frame, now, &mut effects);
            self.carry_out(&mut state, &mut effects, now);
        }
        state.effects = effects;
    }

    /// The connection is gone.
    pub fn detach(&self, connection: &Connection, session: SessionId) {
        let mut state = self.state();
        if state.attached.get(&session).is_some_and(|serving| serving.id == connection.id) {
            state.attached.remove(&session);
            state.tree.detach(session);
        }
    }

    pub fn next_deadline_ms(&self) -> Option<u64> {
        self.state().tree.next_deadline_ms()
    }

    pub fn expire(&self) {
        self.act(|tree, now, effects| tree.expire(now, effects));
    }

    /// Whether so much waits to be logged that requests should wait too. If so, `connection` is woken when it has gone down.
    pub fn is_backlogged(&self, connection: &Arc<Connection>) -> bool {
        let mut state = self.state();
        let backlogged = state.pending.len() > LOG_BACKLOG_BYTES;
        if backlogged {
            state.waiting.push(connection.clone());
        }
        backlogged
    }

    // ---- the log thread ----

    /// Writes what is pending and syncs, until [`Service::stop`]. Runs on a thread of its own.
    pub fn run_log<F: Files>(&self, storage: &Arc<Storage<F>>, mut log: LogFile<F>) {
        let outcome = self.write_log(storage, &mut log);
        let mut state = self.state();
        state.stopping = true;
        if let Err(error) = outcome {
            tracing::error!(%error, "the transaction log cannot be written, so nothing can be answered any more");
            state.failed = Some(error);
        }
        for connection in state.attached.values() {
            connection.outbox.break_off(Broken::Stopping);
        }
        drop(state);
        self.failed.notify_one();
    }

    fn write_log<F: Files>(
        &self,
        storage: &Arc<Storage<F>>,
        log: &mut LogFile<F>,
    ) -> Result<(), StorageError> {
        let mut records = Vec::new();
        let mut snapshots: Option<JoinHandle<()>> = None;
        // The names of the files have to be synced once, which takes the longest of all. Nothing waits for it yet,
        // so it runs while the first sessions are opened.
        let (file, names) = (log.file(), storage.clone());
        let mut first_sync = Some(spawn("zookeeper-start", move || {
            file.sync()?;
            names.sync_names()
        })?);
        loop {
            let barrier = {
                let mut state = self.state();
                // Whoever queued something during the last sync is still in the list, so nobody is forgotten.
                let durable = self.durable();
                state.waiting.retain(|connection| connection.outbox.settle(durable));
                while state.pending.is_empty() && !state.stopping {
                    state = self.log_wake.wait(state).unwrap_or_else(PoisonError::into_inner);
                }
                if state.pending.is_empty() {
                    break;
                }
                std::mem::swap(&mut records, &mut state.pending);
                state.barrier
            };
            log.append(&records)?;
            records.clear();
            records.shrink_to(LOG_BACKLOG_BYTES);
            self.written.store(barrier.written, Ordering::Release);
            if barrier.synced > self.synced.load(Ordering::Relaxed) {
                if let Some(thread) = first_sync.take() {
                    join(thread)?;
                }
                log.sync()?;
                self.synced.store(barrier.written, Ordering::Release);
                self.counters.syncs.fetch_add(1, Ordering::Relaxed);
            }
            if log.is_full() && snapshots.as_ref().is_none_or(JoinHandle::is_finished) {
                if let Some(thread) = snapshots.take() {
                    join(thread);
                }
                snapshots = Some(self.cut_off(storage, log)?);
            }
        }
        if let Some(thread) = first_sync {
            join(thread)?;
        }
        log.sync()?;
        if let Some(thread) = snapshots {
            join(thread);
        }
        Ok(())
    }

    /// Begins another log, and has a snapshot written of where the old one ends.
    fn cut_off<F: Files>(
        &self,
        storage: &Arc<Storage<F>>,
        log: &mut LogFile<F>,
    ) -> Result<JoinHandle<()>, StorageError> {
        let (records, barrier, zxid, chain, bytes) = {
            let mut state = self.state();
            let records = std::mem::take(&mut state.pending);
            (records, state.barrier, state.tree.zxid(), state.chain, snapshot(&state.tree, state.chain))
        };
        log.append(&records)?;
        log.sync()?;
        *log = storage.follow_log(zxid, chain, bytes.len() as u64)?;
        self.written.store(barrier.written, Ordering::Release);
        self.synced.store(barrier.written, Ordering::Release);
        let storage = storage.clone();
        let write = move || match storage.keep_snapshot(zxid, &bytes) {
            Ok(()) => tracing::debug!(%zxid, bytes = bytes.len(), "snapshot taken"),
            // The logs it would have replaced are all still there, and the next one may go better.
            Err(error) => tracing::warn!(%error, "snapshot could not be written"),
        };
        std::thread::Builder::new()
            .name("zookeeper-snapshot".to_owned())
            .spawn(write)
            .map_err(StorageError::Thread)
    }

    /// Lets the log thread finish what is pending and end.
    pub fn stop(&self) {
        self.state().stopping = true;
        self.log_wake.notify_one();
    }

    /// Why the log thread gave up, if it did.
    pub fn failure(&self) -> Option<StorageError> {
        self.state().failed.take()
    }
}

fn spawn<T: Send + 'static>(
    name: &str,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<JoinHandle<T>, StorageError> {
    std::thread::Builder::new().name(name.to_owned()).spawn(work).map_err(StorageError::Thread)
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

fn serve(tree: &mut Tree, session: SessionId, frame: &[u8], now: Now, effects: &mut Vec<Effect>) {
    let Ok((xid, operation, body)) = read_header(frame) else {
        effects.push(Effect::Close { session, why: CloseReason::NoClient });
        return;
    };
    match Request::read(operation, body) {
        Ok(request) => tree.handle(session, xid, &request, now, effects),
        Err(error) => {
            tracing::debug!(%session, %error, "request refused");
            tree.refuse(session, xid, &error, effects);
        }
    }
}
