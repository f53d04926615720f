//! A ZooKeeper for one test.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ottla_zookeeper::{ClientStore, ConnectSettings, KafkaZkClient};
use ottla_zookeeper_server::{Config, Server};
use tempfile::TempDir;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

/// The embedded server, or the one that `OTTLA_TEST_ZOOKEEPER` names.
pub struct Ensemble {
    address: String,
    chroot: String,
    embedded: Option<Embedded>,
}

struct Embedded {
    directory: TempDir,
    running: Option<(oneshot::Sender<()>, JoinHandle<()>)>,
}

impl Ensemble {
    pub async fn start() -> Ensemble {
        if let Ok(address) = std::env::var("OTTLA_TEST_ZOOKEEPER") {
            static TESTS: AtomicUsize = AtomicUsize::new(0);
            let test = TESTS.fetch_add(1, Ordering::Relaxed);
            let chroot = format!("/test-{}-{test}", std::process::id());
            return Ensemble { address, chroot, embedded: None };
        }
        let directory = tempfile::tempdir().expect("a temporary directory");
        let (address, running) = serve(directory.path(), "127.0.0.1:0".parse().expect("an address")).await;
        let embedded = Some(Embedded { directory, running: Some(running) });
        Ensemble { address, chroot: String::new(), embedded }
    }

    pub fn is_embedded(&self) -> bool {
        self.embedded.is_some()
    }

    pub async fn store(&self) -> ClientStore {
        self.store_at("").await
    }

    pub async fn store_at(&self, path: &str) -> ClientStore {
        let settings = ConnectSettings {
            // A blank and an empty name, which people write and ZooKeeper passes over.
            connect: format!("{}, ,{}{path}", self.address, self.chroot),
            session_timeout: Duration::from_secs(2),
            connection_timeout: Duration::from_secs(10),
        };
        ClientStore::connect(settings).await.expect("a session")
    }

    pub async fn client(&self) -> KafkaZkClient {
        KafkaZkClient::new(Arc::new(self.store().await), 10)
    }

    pub async fn stop(&mut self) {
        let embedded = self.embedded.as_mut().expect("only the embedded server can be stopped");
        let (stop, task) = embedded.running.take().expect("a running server");
        drop(stop);
        task.await.expect("a clean end");
    }

    pub async fn resume(&mut self) {
        let embedded = self.embedded.as_mut().expect("only the embedded server can be started");
        let address = self.address.parse().expect("an address");
        let (_, running) = serve(embedded.directory.path(), address).await;
        embedded.running = Some(running);
    }

    pub async fn restart(&mut self) {
        self.stop().await;
        self.resume().await;
    }
}

async fn serve(directory: &Path, address: SocketAddr) -> (String, (oneshot::Sender<()>, JoinHandle<()>)) {
    let mut config = Config::new(directory);
    config.client_address = address;
    config.session_timeouts.min_ms = 100;
    let server = Server::bind(config).await.expect("a server");
    let address = server.local_addr().to_string();
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move {
        server.run(async move { drop(stopped.await) }).await.expect("a served life");
    });
    (address, (stop, task))
}
