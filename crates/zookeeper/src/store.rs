//! The few ZooKeeper operations that Kafka's coordination needs.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::sync::watch;

/// The answer to a request that is already on its way.
pub type Reply<T, E = ZkError> = Pin<Box<dyn Future<Output = Result<T, E>> + Send>>;

/// Identifies a session; also the owner in the [`Stat`] of the ephemeral znodes that it made.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct SessionId(pub i64);

impl fmt::Display for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

impl fmt::Debug for SessionId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// What of a znode's metadata Kafka looks at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stat {
    /// Transaction that created the znode; for a broker's registration, its epoch.
    pub czxid: i64,
    /// Transaction that last changed its data.
    pub mzxid: i64,
    /// Creation time in milliseconds since 1970.
    pub ctime: i64,
    /// Version of its data, the condition of the next write.
    pub version: i32,
    /// Session that owns it, if it is ephemeral.
    pub owner: Option<SessionId>,
    pub children: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateMode {
    Persistent,
    /// ZooKeeper appends a ten-digit number to the path.
    PersistentSequential,
    /// Goes with the session.
    Ephemeral,
}

/// One operation of a [`ZkStore::multi`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Op {
    Create {
        path: String,
        data: Vec<u8>,
        mode: CreateMode,
    },
    /// `version: None` writes whatever the version.
    Set {
        path: String,
        data: Vec<u8>,
        version: Option<i32>,
    },
    Delete {
        path: String,
        version: Option<i32>,
    },
    Check {
        path: String,
        version: i32,
    },
}

impl Op {
    pub fn path(&self) -> &str {
        match self {
            Op::Create { path, .. }
            | Op::Set { path, .. }
            | Op::Delete { path, .. }
            | Op::Check { path, .. } => path,
        }
    }
}

/// What an operation of a multi answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OpResult {
    /// Servers before 3.7 send no usable stat here.
    Created {
        path: String,
    },
    Set(Stat),
    Deleted,
    Checked,
}

/// Why an operation did not answer what was asked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ZkError {
    #[error("{path}: no such znode")]
    NoNode { path: String },
    #[error("{path}: the znode exists")]
    NodeExists { path: String },
    #[error("{path}: the znode has another version")]
    BadVersion { path: String },
    #[error("{path}: the znode has children")]
    NotEmpty { path: String },
    #[error("{path}: the parent is ephemeral")]
    NoChildrenForEphemerals { path: String },
    #[error("{path}: not allowed by the znode's ACL")]
    NoAuth { path: String },
    #[error("the ZooKeeper session has expired")]
    SessionExpired,
    #[error("ZooKeeper refused the credentials")]
    AuthFailed,
    #[error("the ZooKeeper session is closed")]
    Closed,
    /// The connection went while the request was under way: it may have been done or not.
    #[error("{path}: the connection to ZooKeeper was lost before the answer came ({detail})")]
    OutcomeUnknown { path: String, detail: String },
    /// What the server answered makes no sense for the request, or the request none for the server.
    #[error("{path}: {detail}")]
    Refused { path: String, detail: String },
    /// The znode holds what nobody of our kind writes.
    #[error("{path}: {detail}")]
    Malformed { path: String, detail: String },
    /// A request was sent again and again and never answered.
    #[error(
        "{path}: given up after {attempts} lost connections; is the request larger than the server's \
         jute.maxbuffer?"
    )]
    KeptBreaking { path: String, attempts: u32 },
}

impl ZkError {
    /// Whether nothing can be said of the request's effect before the znode is read again.
    pub fn is_outcome_unknown(&self) -> bool {
        matches!(self, ZkError::OutcomeUnknown { .. })
    }

    /// Whether the session is over, and with it every watch and ephemeral znode.
    pub fn is_session_over(&self) -> bool {
        matches!(self, ZkError::SessionExpired | ZkError::AuthFailed | ZkError::Closed)
    }
}

/// Why a multi did nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{source}")]
pub struct MultiError {
    /// The operation that failed; `None` if the whole request did.
    pub index: Option<usize>,
    pub source: ZkError,
}

/// What a watch saw, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WatchEvent {
    Created,
    Deleted,
    DataChanged,
    ChildrenChanged,
    /// The session is over: nothing is watched any more.
    SessionOver,
}

/// Resolves when the znode it guards changes after the read that armed it, or when the session ends.
///
/// Survives reconnects. Dropped unfired, it is disarmed.
pub struct Watch(Pin<Box<dyn Future<Output = WatchEvent> + Send>>);

impl Watch {
    pub fn new(event: impl Future<Output = WatchEvent> + Send + 'static) -> Watch {
        Watch(Box::pin(event))
    }
}

impl Future for Watch {
    type Output = WatchEvent;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<WatchEvent> {
        self.0.as_mut().poll(context)
    }
}

impl fmt::Debug for Watch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Watch")
    }
}

/// How it stands between us and ZooKeeper.
///
/// ```text
/// Connected(s, 1) -> Disconnected(s) -> Connected(s, 2) ..      same session: read everything again, watches stand
///                          |
///                          v
///                     Expired(s) --reopen--> Connected(t, 1)    new session: ephemerals and watches are gone
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// `connection` counts the connections of this session: a look that missed the loss still sees the count
    /// grow.
    Connected {
        session: SessionId,
        connection: u64,
    },
    Disconnected {
        session: SessionId,
    },
    /// Over: [`ZkStore::reopen`] starts anew.
    Expired {
        session: SessionId,
    },
    AuthFailed,
    /// Closed by ourselves.
    Closed,
}

/// ZooKeeper, as far as Kafka needs it.
///
/// A call sends its request at once, awaiting only collects the answer, and requests are carried out in the
/// order of the calls: so whoever calls many times before awaiting waits for one round trip. A request made
/// while there is no connection is sent when there is one again; one that was under way when it broke fails
/// with [`ZkError::OutcomeUnknown`].
pub trait ZkStore: Send + Sync + 'static {
    fn get(&self, path: &str) -> Reply<(Vec<u8>, Stat)>;
    /// The watch fires when the data changes or the znode goes.
    fn get_and_watch(&self, path: &str) -> Reply<(Vec<u8>, Stat, Watch)>;
    fn children(&self, path: &str) -> Reply<(Vec<String>, Stat)>;
    /// The watch fires when a child comes or goes, or the znode goes.
    fn children_and_watch(&self, path: &str) -> Reply<(Vec<String>, Stat, Watch)>;
    fn exists(&self, path: &str) -> Reply<Option<Stat>>;
    /// The watch fires when the znode comes, changes or goes.
    fn exists_and_watch(&self, path: &str) -> Reply<(Option<Stat>, Watch)>;
    /// Answers the path, which for a sequential znode has got its number.
    fn create(&self, path: &str, data: &[u8], mode: CreateMode) -> Reply<String>;
    /// `version: None` writes whatever the version.
    fn set(&self, path: &str, data: &[u8], version: Option<i32>) -> Reply<Stat>;
    fn delete(&self, path: &str, version: Option<i32>) -> Reply<()>;
    /// All operations or none.
    fn multi(&self, ops: Vec<Op>) -> Reply<Vec<OpResult>, MultiError>;

    /// The session that requests are made in.
    fn session(&self) -> SessionId;
    /// Whether a session is one that this store has had before and lost: its ephemeral znodes are ours to
    /// delete.
    fn was_ours(&self, session: SessionId) -> bool;
    fn states(&self) -> watch::Receiver<SessionState>;
    /// Opens a new session in place of one that is over. Tries until there is one.
    fn reopen(&self) -> Reply<SessionId>;
    /// Ends the session, so that its ephemeral znodes go at once.
    fn close(&self) -> Reply<()>;
}

/// How often a read is repeated when connections break under it.
const READ_ATTEMPTS: u32 = 10;

/// Repeats a request that changes nothing, or nothing more when it is done twice, until it is answered.
///
/// The first request is sent at once.
pub fn retry_read<T, F>(request: F) -> impl Future<Output = Result<T, ZkError>>
where
    F: Fn() -> Reply<T>,
{
    let mut reply = request();
    async move {
        for _ in 1..READ_ATTEMPTS {
            match reply.await {
                Err(error) if error.is_outcome_unknown() => reply = request(),
                answer => return answer,
            }
        }
        match reply.await {
            Err(ZkError::OutcomeUnknown { path, .. }) => {
                Err(ZkError::KeptBreaking { path, attempts: READ_ATTEMPTS })
            }
            answer => answer,
        }
    }
}
