//! What the operator is told, and that one line is enough.

mod captured_log;

use std::time::Duration;

use captured_log::{Log, start, until};
use ottla_network::Limits;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// The log belongs to the whole process.
static ONE_AT_A_TIME: tokio::sync::Mutex<()> = tokio::sync::Mutex::const_new(());

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
