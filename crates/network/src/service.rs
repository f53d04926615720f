//! What stands behind the sockets: a [`Service`] takes request frames and gives answers.

use std::borrow::Cow;
use std::fmt;
use std::fs::File;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;

/// Answers requests. It sees whole frames and knows nothing of sockets.
pub trait Service: Send + Sync + 'static {
    /// What the service remembers about one connection: principal, client software, quota state.
    /// Dropped when the connection ends, whatever ended it.
    type Connection: Send + 'static;

    /// A client connected. Called before its first request.
    fn connected(&self, peer: &Peer) -> Self::Connection;

    /// One request: the frame without its size field. Requests of one connection come one after the other,
    /// in the order in which they arrived, and on the connection's own task: what takes long or sleeps
    /// belongs into [`Reply::Later`].
    ///
    /// `request` owns exactly its own bytes and nobody else holds it: a slice of it that is kept keeps the
    /// whole request alive, and `Bytes::try_into_mut` succeeds until the first clone.
    fn call(&self, connection: &mut Self::Connection, request: Bytes) -> Reply;

    /// A lower bound on request size for this connection, in bytes, for as long as it has not earned more:
    /// `sasl.server.max.receive.size` before authentication. Asked before every request.
    fn request_bytes_max(&self, connection: &Self::Connection) -> Option<u32> {
        let _ = connection;
        None
    }
}

/// A future that gives an answer. It runs inside the connection's own task, so waking it is the only hop
/// between whoever completes it and the bytes going out.
pub type PendingAnswer = Pin<Box<dyn Future<Output = Answer> + Send>>;

/// When the answer to a request comes.
pub enum Reply {
    Now(Answer),
    /// The requests behind it are handled meanwhile; their answers wait their turn. Dropped unfinished when
    /// the connection ends.
    Later(PendingAnswer),
    /// As `Later`, but no further request of this connection is handled before it is answered. For a step
    /// that changes what the next request may do, as authentication does.
    Alone(PendingAnswer),
}

impl Reply {
    /// An answer that is complete.
    pub fn now(response: impl Into<Response>) -> Reply {
        Reply::Now(Answer::Send(response.into()))
    }

    /// An answer that needs something to happen first.
    pub fn later(answer: impl Future<Output = Answer> + Send + 'static) -> Reply {
        Reply::Later(Box::pin(answer))
    }

    /// Ends the connection without an answer to this request.
    pub fn close(reason: impl Into<Cow<'static, str>>) -> Reply {
        Reply::Now(Answer::Close(reason.into()))
    }
}

impl fmt::Debug for Reply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reply::Now(answer) => f.debug_tuple("Now").field(answer).finish(),
            Reply::Later(_) => f.write_str("Later(..)"),
            Reply::Alone(_) => f.write_str("Alone(..)"),
        }
    }
}

/// What to do about a request.
#[derive(Debug)]
pub enum Answer {
    Send(Response),
    /// The client expects none: Produce with acks=0.
    Nothing,
    /// Answers due earlier still leave, then the connection closes. The reason goes to the log, once per
    /// peer and minute.
    Close(Cow<'static, str>),
}

impl Answer {
    /// Bytes of memory held until it is sent.
    pub(crate) fn memory(&self) -> usize {
        match self {
            Answer::Send(response) => response.memory(),
            Answer::Nothing | Answer::Close(_) => 0,
        }
    }
}

/// A response frame in the order in which it goes on the wire, without the size field, which is counted
/// and written here.
#[derive(Debug, Default)]
pub struct Response {
    pub(crate) head: Bytes,
    pub(crate) rest: Vec<Part>,
}

/// A piece of a response.
#[derive(Debug, Clone)]
pub enum Part {
    Bytes(Bytes),
    File(FileRegion),
}

/// Bytes of a file, sent without passing through this process where the connection allows.
///
/// They must stay in the file until sent: if it is truncated below the region meanwhile, the connection
/// closes, since the frame cannot be completed.
#[derive(Debug, Clone)]
pub struct FileRegion {
    pub file: Arc<File>,
    pub offset: u64,
    pub len: u64,
}

impl Response {
    pub fn new(head: impl Into<Bytes>) -> Response {
        Response { head: head.into(), rest: Vec::new() }
    }

    pub fn bytes(mut self, bytes: impl Into<Bytes>) -> Response {
        self.rest.push(Part::Bytes(bytes.into()));
        self
    }

    pub fn file(mut self, region: FileRegion) -> Response {
        self.rest.push(Part::File(region));
        self
    }

    /// The pieces, in the order of the wire.
    pub fn into_parts(self) -> impl Iterator<Item = Part> {
        std::iter::once(Part::Bytes(self.head)).chain(self.rest)
    }

    /// Bytes on the wire, without the size field.
    pub fn wire_len(&self) -> u64 {
        self.head.len() as u64 + self.rest.iter().map(Part::wire_len).sum::<u64>()
    }

    pub(crate) fn memory(&self) -> usize {
        let held = |part: &Part| if let Part::Bytes(bytes) = part { bytes.len() } else { 0 };
        self.head.len() + self.rest.iter().map(held).sum::<usize>()
    }
}

impl Part {
    fn wire_len(&self) -> u64 {
        match self {
            Part::Bytes(bytes) => bytes.len() as u64,
            Part::File(region) => region.len,
        }
    }
}

impl<T: Into<Bytes>> From<T> for Response {
    fn from(head: T) -> Response {
        Response::new(head)
    }
}

/// The other end of a connection.
#[derive(Debug, Clone)]
pub struct Peer {
    /// `PLAINTEXT` in `PLAINTEXT://:9092`.
    pub listener: Arc<str>,
    pub address: SocketAddr,
    /// Counts the connections of this process, from 1.
    pub id: u64,
}
