//! A [`ZkStore`] over a real ensemble, through the zookeeper-client crate.
//!
//! What has to be known of that crate (0.11): one-shot watches survive reconnects, persistent ones do not, so
//! there are none here. Errors of the socket arrive as `Custom`, and like `Timeout` and `ConnectionLoss` say
//! nothing about what became of the request. A session that cannot be reached for 7/5 of its timeout is given
//! up by the crate itself, though the server may still hold it: its ephemeral znodes can outlive it by a
//! moment. Multi needs ZooKeeper 3.5.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use parking_lot::{Mutex, RwLock};
use tokio::sync::watch;
use zookeeper_client as zk;

use crate::diagnosis::{Finding, diagnose};
use crate::store::{
    CreateMode, MultiError, Op, OpResult, Reply, SessionId, SessionState, Stat, Watch, WatchEvent, ZkError,
    ZkStore,
};

/// Where and how to connect.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConnectSettings {
    /// `host:port,host:port/chroot`. The chroot is created if it is missing.
    pub connect: String,
    /// Asked for; the server may clamp it.
    pub session_timeout: Duration,
    /// How long to try for a first session.
    pub connection_timeout: Duration,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    #[error("zookeeper.connect={connect:?} is not host:port,host:port/chroot: {detail}")]
    Address { connect: String, detail: String },
    #[error(
        "no ZooKeeper at {connect} within {} ms: {}. Start one (bin/zookeeper-server-start.sh \
         config/zookeeper.properties) or mend zookeeper.connect",
        .waited.as_millis(), show(.findings)
    )]
    Unreachable { connect: String, waited: Duration, findings: Vec<Finding> },
    #[error("ZooKeeper at {connect} refused the session: {detail}")]
    Refused { connect: String, detail: String },
    #[error("cannot create the chroot {chroot} in ZooKeeper: {source}")]
    Chroot { chroot: String, source: ZkError },
}

fn show(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}

/// How long the first connection may take before the log says what is being waited for.
const REPORT_AFTER: Duration = Duration::from_secs(1);
/// Pause between tries to open a new session after one has expired.
const REOPEN_PAUSE: Duration = Duration::from_secs(1);
/// How long a farewell may take; the server expires the session by itself otherwise.
const CLOSE_PATIENCE: Duration = Duration::from_secs(5);

/// One broker's sessions with an ensemble, one after the other.
#[derive(Debug)]
pub struct ClientStore {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    settings: ConnectSettings,
    hosts: String,
    /// With its leading slash; empty if there is none.
    chroot: String,
    /// `None` once closed.
    client: RwLock<Option<Arc<zk::Client>>>,
    session: RwLock<SessionId>,
    former: Mutex<Vec<SessionId>>,
    states: watch::Sender<SessionState>,
}

impl ClientStore {
    /// Opens a session, and creates the chroot if there is none yet.
    ///
    /// Round trips: 2 for the session (handshake and first ping), 1 more with a chroot, 1 more if that has to
    /// be made.
    pub async fn connect(settings: ConnectSettings) -> Result<ClientStore, ConnectError> {
        let (hosts, chroot) = match settings.connect.find('/') {
            Some(slash) => settings.connect.split_at(slash),
            None => (settings.connect.as_str(), ""),
        };
        // Blanks and empty names between commas are nothing to ZooKeeper's own clients.
        let hosts: Vec<&str> = hosts.split(',').map(str::trim).filter(|host| !host.is_empty()).collect();
        let (hosts, chroot) = (hosts.join(","), chroot.trim().trim_end_matches('/').to_owned());
        let client = connect_within(&settings, &hosts).await?;
        let client = enter_chroot(client, &chroot)
            .await
            .map_err(|source| ConnectError::Chroot { chroot: chroot.clone(), source })?;
        let session = SessionId(client.session_id().0);
        let (states, _) = watch::channel(SessionState::Connected { session, connection: 1 });
        let shared = Arc::new(Shared {
            settings,
            hosts,
            chroot,
            session: RwLock::new(session),
            former: Mutex::new(Vec::new()),
            states,
            client: RwLock::new(None),
        });
        shared.install(client);
        Ok(ClientStore { shared })
    }

    /// What the server made of the session timeout that was asked for.
    pub fn session_timeout(&self) -> Duration {
        self.shared.client().map_or(self.shared.settings.session_timeout, |client| client.session_timeout())
    }
}

/// Tries until the connection timeout; says in the log what it waits for, and at the end what it found
/// instead.
async fn connect_within(settings: &ConnectSettings, hosts: &str) -> Result<zk::Client, ConnectError> {
    let started = Instant::now();
    let unreachable =
        |waited, findings| ConnectError::Unreachable { connect: settings.connect.clone(), waited, findings };
    let connecting = async {
        loop {
            // The crate gives up after a session timeout; we may have been given longer.
            match try_connect(settings, hosts).await {
                Err(zk::Error::Timeout | zk::Error::ConnectionLoss | zk::Error::NoHosts) => {}
                answer => return answer,
            }
        }
    };
    let reporting = async {
        tokio::time::sleep(REPORT_AFTER).await;
        let findings = show(&diagnose(hosts).await);
        tracing::warn!(zookeeper = %hosts, findings, "waiting for ZooKeeper");
        std::future::pending::<()>().await;
    };
    let answer = tokio::time::timeout(settings.connection_timeout, async {
        tokio::select! {
            answer = connecting => answer,
            () = reporting => Err(zk::Error::Timeout),
        }
    })
    .await;
    match answer {
        Ok(Ok(client)) => Ok(client),
        Ok(Err(zk::Error::BadArguments(detail))) => {
            Err(ConnectError::Address { connect: settings.connect.clone(), detail: (*detail).to_owned() })
        }
        Ok(Err(error)) => {
            Err(ConnectError::Refused { connect: settings.connect.clone(), detail: error.to_string() })
        }
        Err(_) => Err(unreachable(started.elapsed(), diagnose(hosts).await)),
    }
}

async fn try_connect(settings: &ConnectSettings, hosts: &str) -> Result<zk::Client, zk::Error> {
    zk::Client::connector().with_session_timeout(settings.session_timeout).connect(hosts).await
}

/// Moves into the chroot, which is created if it is missing.
async fn enter_chroot(client: zk::Client, chroot: &str) -> Result<zk::Client, ZkError> {
    if chroot.is_empty() {
        return Ok(client);
    }
    let client = Arc::new(client);
    if client.check_stat(chroot).await.map_err(|error| from_client(error, chroot))?.is_none() {
        let creations: Vec<_> = ancestors_and_self(chroot)
            .map(|path| create(&client, path, b"", CreateMode::Persistent))
            .collect();
        for creation in creations {
            match creation.await {
                Ok(_) | Err(ZkError::NodeExists { .. }) => {}
                Err(error) => return Err(error),
            }
        }
    }
    let client = Arc::try_unwrap(client).unwrap_or_else(|shared| (*shared).clone());
    client.chroot(chroot.to_owned()).map_err(|_| ZkError::Refused {
        path: chroot.to_owned(),
        detail: "not a path: it starts with / and has no empty, . or .. part".to_owned(),
    })
}

/// `/a/b/c` is `/a`, `/a/b`, `/a/b/c`.
pub(crate) fn ancestors_and_self(path: &str) -> impl Iterator<Item = &str> {
    path.match_indices('/').skip(1).map(|(end, _)| &path[..end]).chain(std::iter::once(path))
}

impl Shared {
    fn client(&self) -> Option<Arc<zk::Client>> {
        self.client.read().clone()
    }

    /// Makes a client the current one, and passes its states on while it is.
    fn install(self: &Arc<Shared>, client: zk::Client) {
        let session = SessionId(client.session_id().0);
        let mut watcher = client.state_watcher();
        let now = client.state();
        *self.session.write() = session;
        *self.client.write() = Some(Arc::new(client));
        self.states.send_replace(SessionState::Connected { session, connection: 1 });
        let shared = self.clone();
        tokio::spawn(async move {
            let mut connection = 1;
            // What has become of the session since it was opened, if anything.
            let mut state =
                if now == zk::SessionState::SyncConnected { watcher.changed().await } else { now };
            loop {
                let told = match state {
                    zk::SessionState::SyncConnected | zk::SessionState::ConnectedReadOnly => {
                        connection += 1;
                        tracing::info!(%session, connection, "connected to ZooKeeper again");
                        SessionState::Connected { session, connection }
                    }
                    zk::SessionState::Disconnected => {
                        tracing::warn!(%session, "connection to ZooKeeper lost");
                        SessionState::Disconnected { session }
                    }
                    zk::SessionState::Expired => {
                        tracing::warn!(%session, "ZooKeeper session expired");
                        SessionState::Expired { session }
                    }
                    zk::SessionState::AuthFailed => {
                        tracing::error!(%session, "ZooKeeper refused the credentials");
                        SessionState::AuthFailed
                    }
                    zk::SessionState::Closed => {
                        tracing::debug!(%session, "ZooKeeper session closed");
                        SessionState::Closed
                    }
                };
                shared.states.send_replace(told);
                if state.is_terminated() {
                    return;
                }
                state = watcher.changed().await;
            }
        });
    }

    /// Sends a request with the current client.
    fn send<T, F>(&self, path: &str, request: impl FnOnce(Arc<zk::Client>, String) -> F) -> Reply<T>
    where
        T: Send + 'static,
        F: Future<Output = Result<T, zk::Error>> + Send + 'static,
    {
        let Some(client) = self.client() else { return Box::pin(async { Err(ZkError::Closed) }) };
        let owned = path.to_owned();
        let request = request(client, owned.clone());
        sent(async move { request.await.map_err(|error| from_client(error, &owned)) })
    }
}

/// Sends a request at once: the crate sends when a future is first polled into its call, and we poll it here.
///
/// The waker of this first poll is nobody's, which is fine, since awaiting polls again with its own.
fn sent<T: Send + 'static, E: Send + 'static>(
    request: impl Future<Output = Result<T, E>> + Send + 'static,
) -> Reply<T, E> {
    let mut request: Reply<T, E> = Box::pin(request);
    match (&mut request).now_or_never() {
        Some(answer) => Box::pin(std::future::ready(answer)),
        None => request,
    }
}

fn create(client: &Arc<zk::Client>, path: &str, data: &[u8], mode: CreateMode) -> Reply<String> {
    let (client, path, data) = (client.clone(), path.to_owned(), data.to_vec());
    sent(async move {
        match client.create(&path, &data, &options(mode)).await {
            Ok((_, sequence)) if mode == CreateMode::PersistentSequential => Ok(format!("{path}{sequence}")),
            Ok(_) => Ok(path),
            Err(error) => Err(from_client(error, &path)),
        }
    })
}

fn options(mode: CreateMode) -> zk::CreateOptions<'static> {
    let mode = match mode {
        CreateMode::Persistent => zk::CreateMode::Persistent,
        CreateMode::PersistentSequential => zk::CreateMode::PersistentSequential,
        CreateMode::Ephemeral => zk::CreateMode::Ephemeral,
    };
    mode.with_acls(zk::Acls::anyone_all())
}

fn stat(stat: &zk::Stat) -> Stat {
    Stat {
        czxid: stat.czxid,
        mzxid: stat.mzxid,
        ctime: stat.ctime,
        version: stat.version,
        owner: (stat.ephemeral_owner != 0).then_some(SessionId(stat.ephemeral_owner)),
        children: stat.num_children,
    }
}

fn watch(watcher: zk::OneshotWatcher) -> Watch {
    Watch::new(async move {
        match watcher.changed().await.event_type {
            zk::EventType::Session => WatchEvent::SessionOver,
            zk::EventType::NodeCreated => WatchEvent::Created,
            zk::EventType::NodeDeleted => WatchEvent::Deleted,
            zk::EventType::NodeDataChanged => WatchEvent::DataChanged,
            zk::EventType::NodeChildrenChanged => WatchEvent::ChildrenChanged,
        }
    })
}

fn from_client(error: zk::Error, path: &str) -> ZkError {
    let path = path.to_owned();
    match error {
        zk::Error::NoNode => ZkError::NoNode { path },
        zk::Error::NodeExists => ZkError::NodeExists { path },
        zk::Error::BadVersion => ZkError::BadVersion { path },
        zk::Error::NotEmpty => ZkError::NotEmpty { path },
        zk::Error::NoChildrenForEphemerals => ZkError::NoChildrenForEphemerals { path },
        zk::Error::NoAuth => ZkError::NoAuth { path },
        zk::Error::SessionExpired | zk::Error::SessionMoved => ZkError::SessionExpired,
        zk::Error::AuthFailed => ZkError::AuthFailed,
        zk::Error::ClientClosed => ZkError::Closed,
        zk::Error::ConnectionLoss
        | zk::Error::Timeout
        | zk::Error::Custom(_)
        | zk::Error::UnexpectedError(_) => ZkError::OutcomeUnknown { path, detail: error.to_string() },
        // The enum is open: what it may grow by is a refusal until we know better.
        other => ZkError::Refused { path, detail: other.to_string() },
    }
}

impl ZkStore for ClientStore {
    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)> {
        self.shared.send(path, |client, path| async move {
            client.get_data(&path).await.map(|(data, found)| (data, stat(&found)))
        })
    }

    fn get_and_watch(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)> {
        self.shared.send(path, |client, path| async move {
            let (data, found, watcher) = client.get_and_watch_data(&path).await?;
            Ok((data, stat(&found), watch(watcher)))
        })
    }

    fn children(&self, path: &str) -> Reply<(Vec<String>, Stat)> {
        self.shared.send(path, |client, path| async move {
            client.get_children(&path).await.map(|(children, found)| (children, stat(&found)))
        })
    }

    fn children_and_watch(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)> {
        self.shared.send(path, |client, path| async move {
            let (children, found, watcher) = client.get_and_watch_children(&path).await?;
            Ok((children, stat(&found), watch(watcher)))
        })
    }

    fn exists(&self, path: &str) -> Reply<Option<Stat>> {
        self.shared.send(path, |client, path| async move {
            client.check_stat(&path).await.map(|found| found.as_ref().map(stat))
        })
    }

    fn exists_and_watch(&self, path: &str) -> Reply<(Option<Stat>, Watch)> {
        self.shared.send(path, |client, path| async move {
            let (found, watcher) = client.check_and_watch_stat(&path).await?;
            Ok((found.as_ref().map(stat), watch(watcher)))
        })
    }

    fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Reply<String> {
        match self.shared.client() {
            Some(client) => create(&client, path, data, mode),
            None => Box::pin(async { Err(ZkError::Closed) }),
        }
    }

    fn set(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat> {
        let data = data.to_vec();
        self.shared.send(path, move |client, path| async move {
            client.set_data(&path, &data, version).await.map(|found| stat(&found))
        })
    }

    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()> {
        self.shared.send(path, move |client, path| async move { client.delete(&path, version).await })
    }

    fn multi(&self, ops: Vec<Op>) -> Reply<Vec<OpResult>, MultiError> {
        let Some(client) = self.shared.client() else {
            return Box::pin(async { Err(MultiError { index: None, source: ZkError::Closed }) });
        };
        sent(async move {
            let path_of = |index: usize| ops.get(index).map_or("", Op::path);
            let failed = |index: Option<usize>, error| MultiError {
                index,
                source: from_client(error, path_of(index.unwrap_or(0))),
            };
            let mut writer = client.new_multi_writer();
            for (index, op) in ops.iter().enumerate() {
                let added = match op {
                    Op::Create { path, data, mode } => writer.add_create(path, data, &options(*mode)),
                    Op::Set { path, data, version } => writer.add_set_data(path, data, *version),
                    Op::Delete { path, version } => writer.add_delete(path, *version),
                    Op::Check { path, version } => writer.add_check_version(path, *version),
                };
                added.map_err(|error| failed(Some(index), error))?;
            }
            match writer.commit().await {
                Ok(results) => results.into_iter().map(op_result).collect(),
                Err(zk::MultiWriteError::RequestFailed { source }) => Err(failed(None, source)),
                Err(zk::MultiWriteError::OperationFailed { index, source }) => {
                    Err(failed(Some(index), source))
                }
            }
        })
    }

    fn session(&self) -> SessionId {
        *self.shared.session.read()
    }

    fn was_ours(&self, session: SessionId) -> bool {
        self.shared.former.lock().contains(&session)
    }

    fn states(&self) -> watch::Receiver<SessionState> {
        self.shared.states.subscribe()
    }

    fn reopen(&self) -> Reply<SessionId> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let former = *shared.session.read();
            shared.former.lock().push(former);
            loop {
                let client = match try_connect(&shared.settings, &shared.hosts).await {
                    Ok(client) => {
                        enter_chroot(client, &shared.chroot).await.map_err(|error| error.to_string())
                    }
                    Err(zk::Error::AuthFailed) => return Err(ZkError::AuthFailed),
                    Err(error) => Err(error.to_string()),
                };
                match client {
                    Ok(client) => {
                        // Closed in the meantime: dropping the client ends the session that came too late.
                        if shared.client.read().is_none() {
                            return Err(ZkError::Closed);
                        }
                        shared.install(client);
                        let session = *shared.session.read();
                        tracing::info!(%session, %former, "new ZooKeeper session");
                        return Ok(session);
                    }
                    Err(error) => {
                        tracing::warn!(zookeeper = %shared.hosts, error, "no new ZooKeeper session yet, \
                         trying on");
                        tokio::time::sleep(REOPEN_PAUSE).await;
                    }
                }
            }
        })
    }

    fn close(&self) -> Reply<()> {
        let shared = self.shared.clone();
        Box::pin(async move {
            let Some(client) = shared.client.write().take() else { return Ok(()) };
            let mut watcher = client.state_watcher();
            let connected = watcher.state() == zk::SessionState::SyncConnected;
            // The crate closes the session when the last clone of its client goes.
            drop(client);
            if !connected {
                tracing::warn!("ZooKeeper is not there to be told; it will expire the session by itself");
                return Ok(());
            }
            let closed = async {
                while !watcher.state().is_terminated() {
                    if watcher.changed().await.is_terminated() {
                        return;
                    }
                }
            };
            if tokio::time::timeout(CLOSE_PATIENCE, closed).await.is_err() {
                tracing::warn!(
                    "ZooKeeper does not answer the farewell; it will expire the session by itself"
                );
            }
            Ok(())
        })
    }
}

fn op_result(result: zk::MultiWriteResult) -> Result<OpResult, MultiError> {
    match result {
        zk::MultiWriteResult::Create { path, .. } => Ok(OpResult::Created { path }),
        zk::MultiWriteResult::SetData { stat: found } => Ok(OpResult::Set(stat(&found))),
        zk::MultiWriteResult::Delete => Ok(OpResult::Deleted),
        zk::MultiWriteResult::Check => Ok(OpResult::Checked),
        other => Err(MultiError {
            index: None,
            source: ZkError::Refused { path: String::new(), detail: format!("unexpected answer {other:?}") },
        }),
    }
}
