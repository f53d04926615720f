//! A server that echoes, and the log it writes.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};

use bytes::Bytes;
use ottla_network::{Limits, ListenerConfig, Peer, Reply, Service, SocketServer};

#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// This process's log, emptied.
    pub fn fresh() -> Log {
        static LOG: OnceLock<Log> = OnceLock::new();
        let log = LOG.get_or_init(|| {
            let log = Log::default();
            let writer = log.clone();
            tracing_subscriber::fmt()
                .with_ansi(false)
                .with_max_level(tracing_subscriber::filter::LevelFilter::INFO)
                .with_writer(move || writer.clone())
                .init();
            log
        });
        log.0.lock().unwrap().clear();
        log.clone()
    }

    pub fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Echoes what begins with `E`.
pub struct Echo;

impl Service for Echo {
    type Connection = ();

    fn connected(&self, _: &Peer) {}

    fn call(&self, _: &mut (), request: Bytes) -> Reply {
        if request.starts_with(b"E") { Reply::now(request) } else { Reply::close("unknown API key") }
    }
}

pub fn start(limits: Limits) -> (SocketServer, SocketAddr) {
    let listener = ListenerConfig::new("PLAINTEXT", "127.0.0.1", 0).bind().unwrap();
    let address = listener.local_addr();
    (SocketServer::start(vec![listener], limits, Arc::new(Echo)).unwrap(), address)
}

pub async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}
