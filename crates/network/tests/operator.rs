//! What the operator is told, and that one line is enough.

use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use ottla_network::{Limits, ListenerConfig, Peer, Reply, Service, SocketServer};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The log and the file descriptors belong to the whole process.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

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
    fn fresh() -> Log {
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

    fn lines(&self) -> Vec<String> {
        String::from_utf8(self.0.lock().unwrap().clone()).unwrap().lines().map(str::to_owned).collect()
    }
}

/// Echoes what begins with `E`.
struct Echo;

impl Service for Echo {
    type Connection = ();

    fn connected(&self, _: &Peer) {}

    fn call(&self, _: &mut (), request: Bytes) -> Reply {
        if request.starts_with(b"E") { Reply::now(request) } else { Reply::close("unknown API key") }
    }
}

fn start(limits: Limits) -> (SocketServer, SocketAddr) {
    let listener = ListenerConfig::new("PLAINTEXT", "127.0.0.1", 0).bind().unwrap();
    let address = listener.local_addr();
    (SocketServer::start(vec![listener], limits, Arc::new(Echo)).unwrap(), address)
}

async fn until(condition: impl Fn() -> bool) {
    while !condition() {
        tokio::task::yield_now().await;
        std::thread::yield_now();
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_are_named_once_with_their_address_and_the_cure() {
    let _alone = ONE_AT_A_TIME.lock().await;
    for (bytes, name, cure) in [
        (
            &b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"[..],
            "an HTTP request",
            "speaks only the Kafka protocol",
        ),
        (&[0x16, 3, 1, 0, 200, 1, 0, 0, 196, 3, 3], "a TLS handshake", "security.protocol=PLAINTEXT"),
        (b"ruok", "a ZooKeeper four-letter command", "zookeeper.connect"),
        (&[&[0, 0, 0, 45][..], &[0; 45]].concat(), "a ZooKeeper client", "zookeeper.connect"),
        (&[0, 0, 0, 8, 4, 210, 22, 47], "a PostgreSQL client", "host and port"),
        (&[0, 0, 0, 4, b'?', 0, 0, 0], "unknown API key", ""),
        (&[0xff, 0xff, 0xff, 0xff], "a request of -1 bytes", "socket.request.max.bytes"),
    ] {
        let log = Log::fresh();
        let (server, address) = start(Limits::default());
        for _ in 0..20 {
            let mut client = TcpStream::connect(address).await.unwrap();
            client.write_all(bytes).await.unwrap();
            let mut received = Vec::new();
            let _ = client.read_to_end(&mut received).await;
            assert!(received.is_empty(), "{name} gets no answer");
        }
        until(|| server.connection_count() == 0).await;
        server.shutdown(Duration::from_secs(60)).await;
        let lines = log.lines();
        assert_eq!(lines.len(), 1, "{lines:?}");
        for part in ["WARN", "peer=127.0.0.1:", "listener=PLAINTEXT", name, cure] {
            assert!(lines[0].contains(part), "{part:?} is missing: {}", lines[0]);
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ordinary_clients_leave_no_line() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let log = Log::fresh();
    let (server, address) = start(Limits::default());
    for torn in [&[][..], &[0, 0, 0, 9, b'E']] {
        let mut client = TcpStream::connect(address).await.unwrap();
        client.write_all(&[&[0, 0, 0, 2, b'E', b'!'], torn].concat()).await.unwrap();
        let mut answer = [0; 6];
        client.read_exact(&mut answer).await.unwrap();
    }
    drop(TcpStream::connect(address).await.unwrap()); // a load balancer's health check
    until(|| server.connection_count() == 0).await;
    server.shutdown(Duration::from_secs(60)).await;
    assert_eq!(log.lines(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn running_out_of_file_descriptors_is_said_and_survived() {
    let _alone = ONE_AT_A_TIME.lock().await;
    let log = Log::fresh();
    let (_server, address) = start(Limits::default());
    let before = getrlimit(Resource::Nofile);
    setrlimit(Resource::Nofile, Rlimit { current: Some(256), maximum: before.maximum }).unwrap();
    let mut others = Vec::new();
    while let Ok(file) = File::open("/dev/null") {
        others.push(file);
    }
    // One descriptor for our own end of the connection, none for the server's.
    others.pop();
    let mut client = TcpStream::connect(address).await.expect("the kernel accepts it");
    client.write_all(&[0, 0, 0, 2, b'E', b'!']).await.unwrap();
    until(|| !log.lines().is_empty()).await;
    drop(others);
    let mut answer = [0; 6];
    client.read_exact(&mut answer).await.expect("served once there are descriptors again");
    setrlimit(Resource::Nofile, before).unwrap();
    let lines = log.lines();
    assert!(lines[0].contains("cannot accept connections") && lines[0].contains("ulimit -n"), "{lines:?}");
}
