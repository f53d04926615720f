//! Accepts connections and runs each as a task: Kafka's `SocketServer`.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinError, JoinSet};
use tokio::time::{Instant, sleep, timeout_at};
use tracing::{debug, error, warn};

use crate::connection::{Connection, ConnectionLimits, Disconnect, Stop};
use crate::connection_quotas::ConnectionQuotas;
use crate::listener::{BindError, BoundListener, ListenerConfig};
use crate::log_limit::LogLimit;
use crate::request_memory::RequestMemory;
use crate::service::{Peer, Service};
use crate::stranger::Stranger;

/// The bounds of the server. Each names its property.
#[derive(Debug, Clone)]
pub struct Limits {
    /// `socket.request.max.bytes`: a larger frame closes its connection before any memory is taken for it.
    pub request_bytes_max: u32,
    /// `queued.max.request.bytes`: what requests may hold in all while they arrive and until they are
    /// answered; beyond it nobody reads the body of a large request. `None` (-1): no such limit.
    pub queued_request_bytes_max: Option<u64>,
    /// Requests of one connection that are handled but not yet answered; beyond it its socket is not read.
    /// No property: Kafka handles one at a time.
    pub in_flight_max: usize,
    /// `max.connections`: beyond it connections are closed at once, but for the inter-broker listener.
    pub connections_max: usize,
    /// `max.connections.per.ip`.
    pub connections_per_ip_max: usize,
    /// `max.connections.per.ip.overrides`, names resolved.
    pub connections_per_ip_overrides: HashMap<IpAddr, usize>,
    /// `connections.max.idle.ms`: a connection on which nothing moves and for which no answer is being
    /// worked on is closed. `None` (negative): never.
    pub idle_max: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            request_bytes_max: 100 << 20,
            queued_request_bytes_max: None,
            in_flight_max: 64,
            connections_max: usize::MAX,
            connections_per_ip_max: usize::MAX,
            connections_per_ip_overrides: HashMap::new(),
            idle_max: Some(Duration::from_secs(600)),
        }
    }
}

/// After the process has run out of file descriptors: how long until accept(2) is tried again. The kernel
/// keeps new connections in the backlog meanwhile.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Open listeners and their connections. Dropping it closes everything at once; see
/// [`SocketServer::shutdown`] for the polite way.
#[derive(Debug)]
pub struct SocketServer {
    acceptors: JoinSet<()>,
    stop: Arc<Stop>,
    quotas: Arc<ConnectionQuotas>,
    memory: Arc<RequestMemory>,
    local_addrs: Vec<(Arc<str>, SocketAddr)>,
}

impl SocketServer {
    /// Opens the ports. Must be called within a tokio runtime; connections run on that runtime.
    pub fn start<S: Service>(
        listeners: Vec<BoundListener>,
        limits: Limits,
        service: Arc<S>,
    ) -> Result<SocketServer, BindError> {
        let quotas = ConnectionQuotas::new(&limits);
        let memory = RequestMemory::new(limits.queued_request_bytes_max);
        let stop = Arc::new(Stop::default());
        let local_addrs =
            listeners.iter().map(|listener| (listener.config.name.clone(), listener.local_addr())).collect();
        let log_limit = Arc::new(LogLimit::default());
        // All ports open, or none.
        let open: Vec<_> = listeners.into_iter().map(BoundListener::listen).collect::<Result<_, _>>()?;
        let mut acceptors = JoinSet::new();
        for (listener, config) in open {
            let acceptor = Acceptor {
                config,
                limits: ConnectionLimits {
                    request_bytes_max: limits.request_bytes_max,
                    in_flight_max: limits.in_flight_max.max(1),
                    idle_max: limits.idle_max,
                },
                service: service.clone(),
                quotas: quotas.clone(),
                memory: memory.clone(),
                stop: stop.clone(),
                log_limit: log_limit.clone(),
                connections: JoinSet::new(),
            };
            acceptors.spawn(acceptor.run(listener));
        }
        Ok(SocketServer { acceptors, stop, quotas, memory, local_addrs })
    }

    /// Listener names and the addresses they listen on.
    pub fn local_addrs(&self) -> &[(Arc<str>, SocketAddr)] {
        &self.local_addrs
    }

    /// Open connections, all listeners together.
    pub fn connection_count(&self) -> usize {
        self.quotas.total()
    }

    /// Request bytes charged against `queued.max.request.bytes`.
    pub fn queued_request_bytes(&self) -> u64 {
        self.memory.used()
    }

    /// Closes the ports, lets answers that are due leave for at most `grace`, then closes what remains.
    ///
    /// When this returns, no request is being handled any more. Answers that wait for something outside ([`Reply::Later`](crate::Reply::Later)) are waited for; the
    /// service should bring long polls to an end first.
    pub async fn shutdown(mut self, grace: Duration) {
        self.stop.call(Instant::now() + grace);
        while self.acceptors.join_next().await.is_some() {}
    }
}

struct Acceptor<S> {
    config: ListenerConfig,
    limits: ConnectionLimits,
    service: Arc<S>,
    quotas: Arc<ConnectionQuotas>,
    memory: Arc<RequestMemory>,
    stop: Arc<Stop>,
    log_limit: Arc<LogLimit>,
    connections: JoinSet<()>,
}

impl<S: Service> Acceptor<S> {
    async fn run(mut self, listener: TcpListener) {
        let stop = self.stop.clone();
        let mut stop = std::pin::pin!(stop.called());
        let deadline = loop {
            tokio::select! {
                deadline = &mut stop => break deadline,
                accepted = listener.accept() => match accepted {
                    Ok((stream, address)) => self.admit(stream, address),
                    Err(error) => self.survive(error).await,
                },
                Some(ended) = self.connections.join_next() => log_panic(ended),
            }
        };
        drop(listener);
        while let Ok(Some(ended)) = timeout_at(deadline, self.connections.join_next()).await {
            log_panic(ended);
        }
        self.connections.shutdown().await;
    }

    fn admit(&mut self, stream: TcpStream, address: SocketAddr) {
        static NEXT_ID: AtomicU64 = AtomicU64::new(1);
        let listener = &self.config.name;
        let admitted =
            self.quotas.admit(listener, self.config.connections_max, self.config.inter_broker, address.ip());
        let slot = match admitted {
            Ok(slot) => slot,
            Err(refusal) => {
                if let Some(unsaid) = self.log_limit.admit(address.ip()) {
                    warn!(%address, %listener, unsaid, "connection closed at once: {refusal}");
                }
                return;
            }
        };
        let peer = Peer { listener: listener.clone(), address, id: NEXT_ID.fetch_add(1, Ordering::Relaxed) };
        let connection =
            Connection::new(self.service.clone(), &peer, stream, self.limits.clone(), self.memory.clone());
        let (stop, log_limit) = (self.stop.clone(), self.log_limit.clone());
        self.connections.spawn(async move {
            let disconnect = connection.run(stop).await;
            drop(slot);
            log_disconnect(&peer, disconnect, &log_limit);
        });
    }

    /// accept(2) failed. Whatever the reason, the listener stays open.
    async fn survive(&mut self, error: io::Error) {
        // The connection was gone before it was accepted: nothing is wrong here.
        if matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
            return;
        }
        if let Some(unsaid) = self.log_limit.admit_acceptor() {
            error!(
                listener = %self.config.name, unsaid, open = self.quotas.total(),
                "cannot accept connections: {error}; if file descriptors ran out, raise the limit \
                 (ulimit -n) or lower max.connections; trying again"
            );
        }
        sleep(ACCEPT_RETRY).await;
    }
}

fn log_panic(ended: Result<(), JoinError>) {
    if let Err(error) = ended
        && error.is_panic()
    {
        error!("a connection ended by a panic, which is a bug: {error}");
    }
}

/// One line for what an operator should see; the ordinary end of a connection is not among it.
fn log_disconnect(peer: &Peer, disconnect: Disconnect, limit: &LogLimit) {
    let (trouble, first): (Cow<'static, str>, Vec<u8>) = match disconnect {
        Disconnect::ByPeer { torn: Some(first) } if Stranger::recognise(&first).is_some() => {
            ("its first request is not whole".into(), first)
        }
        Disconnect::Size { size, first, unknown_peer } => (
            format!("a request of {size} bytes (see socket.request.max.bytes)").into(),
            if unknown_peer { first } else { Vec::new() },
        ),
        Disconnect::Refused { reason, first } => (reason, first.unwrap_or_default()),
        Disconnect::Starved => {
            ("its request did not arrive while queued.max.request.bytes was used up".into(), Vec::new())
        }
        Disconnect::Io(error) if !is_of_the_network(&error) => {
            (format!("an answer could not be completed: {error}").into(), Vec::new())
        }
        quiet @ (Disconnect::ByPeer { .. } | Disconnect::Idle | Disconnect::Drained | Disconnect::Io(_)) => {
            return debug!(peer = %peer.address, listener = %peer.listener, id = peer.id, ?quiet, "disconnected");
        }
    };
    let Some(unsaid) = limit.admit(peer.address.ip()) else { return };
    match Stranger::recognise(&first) {
        Some(stranger) => warn!(
            peer = %peer.address, listener = %peer.listener, unsaid,
            "connection closed: this looks like {stranger}, not the Kafka protocol; {}", stranger.cure()
        ),
        None => {
            warn!(peer = %peer.address, listener = %peer.listener, unsaid, "connection closed: {trouble}")
        }
    }
}

/// Cables are pulled and clients killed every day; other errors come from our side, such as a disk's.
fn is_of_the_network(error: &io::Error) -> bool {
    use io::ErrorKind::*;
    matches!(
        error.kind(),
        BrokenPipe
            | ConnectionAborted
            | ConnectionReset
            | HostUnreachable
            | NetworkDown
            | NetworkUnreachable
            | NotConnected
            | TimedOut
    )
}
