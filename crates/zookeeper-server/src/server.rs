//! The listener: takes connections, keeps the clock of the sessions, and ends in order.

use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use ottla_files::Disk;
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::connection;
use crate::outbox::Outbox;
use crate::service::{Connection, ConnectionId, Service};
use crate::storage::{Storage, StorageError};

/// Why a server cannot start, or cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("cannot listen on {address} (clientPortAddress, clientPort): {source}")]
    Listen { address: SocketAddr, source: io::Error },
}

/// What a connection needs to know of its server.
pub struct Settings {
    pub config: Config,
    pub local_addr: SocketAddr,
    storage: Arc<Storage<Disk>>,
}

impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("config", &self.config).finish_non_exhaustive()
    }
}

impl Settings {
    /// Bytes in snapshots and in logs; zeros if the directory cannot be read just now.
    pub fn storage_sizes(&self) -> (u64, u64) {
        self.storage.sizes().unwrap_or_default()
    }
}

/// A single-node ZooKeeper server for development. Any number of them may live in one process.
///
/// Stops when dropped; what was answered is on disk by then, as it always is.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    service: Arc<Service>,
    settings: Arc<Settings>,
    log_thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Reads what is stored and listens. Clients may connect from here on; they are answered while
    /// [`Server::run`] runs.
    pub async fn bind(config: Config) -> Result<Server, ServerError> {
        let (storage, recovered) =
            Storage::open(Disk, &config.data_dir, &config.data_log_dir, config.session_timeouts)?;
        let address = config.client_address;
        let listen = |source| ServerError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let local_addr = listener.local_addr().map_err(listen)?;

        if storage.is_beside_apache(&config.data_dir)? {
            tracing::warn!(
                data_dir = %config.data_dir.display(),
                "there is data of Apache ZooKeeper in dataDir, which this server neither reads nor changes"
            );
        }
        if recovered.torn_bytes > 0 {
            tracing::warn!(
                bytes = recovered.torn_bytes,
                "cut off the end of the log, which a crash left incomplete"
            );
        }
        tracing::info!(
            address = %local_addr,
            data_dir = %config.data_dir.display(),
            znodes = recovered.tree.znodes().count(),
            sessions = recovered.tree.sessions().len(),
            transactions_replayed = recovered.transactions,
            "ZooKeeper server listens: a single node for development, run an Apache ZooKeeper ensemble for production"
        );

        let storage = Arc::new(storage);
        let service = Arc::new(Service::new(recovered.tree, recovered.chain));
        if !config.sessions_survive {
            service.close_sessions();
        }
        let log_thread = std::thread::Builder::new().name("zookeeper-log".to_owned()).spawn({
            let (service, storage) = (service.clone(), storage.clone());
            move || service.run_log(&storage, recovered.log)
        });
        let log_thread = log_thread.map_err(StorageError::Thread)?;
        let settings = Arc::new(Settings { config, local_addr, storage });
        Ok(Server { listener, service, settings, log_thread: Some(log_thread) })
    }

    /// Where clients connect: the port is the real one, also if the configuration said 0.
    pub fn local_addr(&self) -> SocketAddr {
        self.settings.local_addr
    }

    /// Serves until `shutdown` completes. Sessions outlive it: they can be taken up again after the next start.
    ///
    /// Fails only when the transaction log cannot be written, for then nothing may be answered any more.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), ServerError> {
        let addresses = Arc::new(Addresses::default());
        let mut connections = JoinSet::new();
        let mut next_id = 0;
        {
            let mut expiry =
                std::pin::pin!(keep_time(self.service.clone(), self.settings.config.tick_time_ms));
            let mut shutdown = std::pin::pin!(shutdown);
            loop {
                tokio::select! {
                    () = &mut shutdown => break,
                    () = self.service.failed.notified() => break,
                    () = &mut expiry => unreachable!("time is kept for ever"),
                    accepted = self.listener.accept() => match accepted {
                        Ok((stream, peer)) => {
                            next_id += 1;
                            self.admit(stream, peer, ConnectionId(next_id), &addresses, &mut connections);
                        }
                        Err(error) => {
                            // Mostly out of file descriptors: wait for connections to end rather than spin.
                            tracing::warn!(%error, "cannot accept a connection");
                            tokio::time::sleep(Duration::from_millis(100)).await;
                        }
                    },
                    Some(_ended) = connections.join_next() => {}
                }
            }
        }
        connections.shutdown().await;
        self.service.stop();
        if let Some(thread) = self.log_thread.take() {
            let _joined = tokio::task::spawn_blocking(move || thread.join()).await;
        }
        match self.service.failure() {
            Some(error) => Err(error.into()),
            None => Ok(()),
        }
    }

    fn admit(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
        id: ConnectionId,
        addresses: &Arc<Addresses>,
        connections: &mut JoinSet<()>,
    ) {
        let max = self.settings.config.connections_per_address_max;
        let Some(place) = addresses.enter(peer.ip(), max) else {
            tracing::warn!(%peer, max, "too many connections from one address (maxClientCnxns)");
            return;
        };
        let connection = Arc::new(Connection {
            id,
            peer,
            established_ms: self.service.now().wall_ms,
            outbox: Outbox::default(),
            received: AtomicU64::new(0),
            sent: AtomicU64::new(0),
        });
        let (service, settings) = (self.service.clone(), self.settings.clone());
        connections.spawn(async move {
            connection::serve(stream, connection, service, settings).await;
            drop(place);
        });
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.service.stop();
        if let Some(thread) = self.log_thread.take() {
            let _joined = thread.join();
        }
    }
}

/// Expires sessions when they are due.
async fn keep_time(service: Arc<Service>, tick_time_ms: u32) {
    let tick = Duration::from_millis(tick_time_ms.into());
    loop {
        let Some(deadline_ms) = service.next_deadline_ms() else {
            service.deadline_moved.notified().await;
            continue;
        };
        let wait = Duration::from_millis(deadline_ms.saturating_sub(service.elapsed_ms()));
        tokio::select! {
            () = tokio::time::sleep(wait) => {
                // Woken much too late, it was the server that slept (a suspended machine, SIGSTOP), not the clients:
                // what they sent meanwhile is still to be read.
                if service.elapsed_ms() > deadline_ms + tick.as_millis() as u64 {
                    tokio::time::sleep(tick).await;
                }
                service.expire();
            }
            () = service.deadline_moved.notified() => {}
        }
    }
}

/// How many connections there are from each address.
#[derive(Debug, Default)]
struct Addresses {
    counts: Mutex<BTreeMap<IpAddr, usize>>,
}

/// One connection's place in the count; given back when dropped.
struct Place {
    addresses: Arc<Addresses>,
    address: IpAddr,
}

impl Addresses {
    /// A place for another connection from `address`, unless it has `max` (0: no limit) already.
    fn enter(self: &Arc<Self>, address: IpAddr, max: usize) -> Option<Place> {
        let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        let count = counts.entry(address).or_default();
        if max > 0 && *count >= max {
            return None;
        }
        *count += 1;
        Some(Place { addresses: self.clone(), address })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut counts = self.addresses.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = counts.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.address);
            }
        }
    }
}
