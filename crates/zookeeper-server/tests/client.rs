//! The server through a real client.

use std::future::pending;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;

use ottla_zookeeper_server::{Config, Server};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use zookeeper_client::{Acls, Client, CreateMode, Error, EventType};

struct Running {
    address: String,
    stop: oneshot::Sender<()>,
    task: JoinHandle<()>,
}

impl Running {
    async fn start(directory: &Path, address: SocketAddr) -> Running {
        let mut config = Config::new(directory);
        config.client_address = address;
        config.session_timeouts.min_ms = 100;
        let server = Server::bind(config).await.unwrap();
        let address = server.local_addr().to_string();
        let (stop, stopped) = oneshot::channel::<()>();
        let task = tokio::spawn(async move {
            server.run(async move { drop(stopped.await) }).await.unwrap();
        });
        Running { address, stop, task }
    }

    async fn anywhere(directory: &Path) -> Running {
        Running::start(directory, (Ipv4Addr::LOCALHOST, 0).into()).await
    }

    async fn stop(self) {
        drop(self.stop);
        self.task.await.unwrap();
    }
}

const OPEN: CreateMode = CreateMode::Persistent;
const EPHEMERAL: CreateMode = CreateMode::Ephemeral;

#[tokio::test]
async fn a_client_creates_reads_watches_and_deletes() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::anywhere(directory.path()).await;
    let client = Client::connect(&server.address).await.unwrap();
    let anyone = Acls::anyone_all();

    let (stat, _) = client.create("/a", b"one", &OPEN.with_acls(anyone)).await.unwrap();
    assert_eq!((stat.version, stat.num_children, stat.data_length), (0, 0, 3));
    let (data, _, watcher) = client.get_and_watch_data("/a").await.unwrap();
    assert_eq!(data, b"one");
    let stat = client.set_data("/a", b"two", Some(0)).await.unwrap();
    assert_eq!(stat.version, 1);
    assert_eq!(watcher.changed().await.event_type, EventType::NodeDataChanged);
    assert_eq!(client.set_data("/a", b"x", Some(0)).await.unwrap_err(), Error::BadVersion);

    let sequential = CreateMode::PersistentSequential.with_acls(anyone);
    let (_, first) = client.create("/a/n-", b"", &sequential).await.unwrap();
    let (_, second) = client.create("/a/n-", b"", &sequential).await.unwrap();
    assert_eq!((first.to_string(), second.to_string()), ("0000000000".to_owned(), "0000000001".to_owned()));
    assert_eq!(client.list_children("/a").await.unwrap(), ["n-0000000000", "n-0000000001"]);
    assert_eq!(client.delete("/a", None).await.unwrap_err(), Error::NotEmpty);
    server.stop().await;
}

#[tokio::test]
async fn a_multi_is_done_whole_or_not_at_all() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::anywhere(directory.path()).await;
    let client = Client::connect(&server.address).await.unwrap();
    let open = OPEN.with_acls(Acls::anyone_all());
    client.create("/epoch", b"1", &open).await.unwrap();

    let mut writer = client.new_multi_writer();
    writer.add_check_version("/epoch", 0).unwrap();
    writer.add_create("/a", b"", &EPHEMERAL.with_acls(Acls::anyone_all())).unwrap();
    writer.add_set_data("/a", b"data", Some(0)).unwrap();
    let results = writer.commit().await.unwrap();
    assert_eq!(results.len(), 3);

    let mut writer = client.new_multi_writer();
    writer.add_create("/b", b"", &open).unwrap();
    writer.add_check_version("/epoch", 7).unwrap();
    writer.commit().await.unwrap_err();
    assert_eq!(client.check_stat("/b").await.unwrap(), None, "nothing of a failed multi is done");
    server.stop().await;
}

#[tokio::test]
async fn sessions_ephemerals_and_znodes_outlive_the_server() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::anywhere(directory.path()).await;
    let address: SocketAddr = server.address.parse().unwrap();
    let client = Client::connect(&server.address).await.unwrap();
    let anyone = Acls::anyone_all();
    client.create("/kept", b"data", &OPEN.with_acls(anyone)).await.unwrap();
    client.create("/mine", b"", &EPHEMERAL.with_acls(anyone)).await.unwrap();
    let session = client.session_id();
    server.stop().await;

    let server = Running::start(directory.path(), address).await;
    let (data, _) = client.get_data("/kept").await.unwrap();
    assert_eq!(data, b"data");
    assert_eq!(client.session_id(), session, "the client took its session up again");
    let stat = client.check_stat("/mine").await.unwrap().unwrap();
    assert_eq!(stat.ephemeral_owner, session.0);

    let other = Client::connect(&server.address).await.unwrap();
    let (_, watcher) = other.check_and_watch_stat("/mine").await.unwrap();
    drop(client);
    assert_eq!(watcher.changed().await.event_type, EventType::NodeDeleted, "closing the session deletes it");
    server.stop().await;
}

#[tokio::test]
async fn a_silent_session_expires_and_takes_its_ephemerals_along() {
    let directory = tempfile::tempdir().unwrap();
    let server = Running::anywhere(directory.path()).await;
    let observer = Client::connect(&server.address).await.unwrap();

    // A client on a runtime of its own that stops running is a client that stopped pinging.
    let address = server.address.clone();
    let (created, wait) = oneshot::channel();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let client = runtime.block_on(async {
            let timeout = std::time::Duration::from_millis(300);
            let client = Client::connector().with_session_timeout(timeout).connect(&address).await.unwrap();
            client.create("/mine", b"", &EPHEMERAL.with_acls(Acls::anyone_all())).await.unwrap();
            client
        });
        let _receiver_waits = created.send(());
        std::mem::forget((client, runtime));
    });
    wait.await.unwrap();
    let (stat, watcher) = observer.check_and_watch_stat("/mine").await.unwrap();
    if stat.is_some() {
        assert_eq!(watcher.changed().await.event_type, EventType::NodeDeleted);
    }
    server.stop().await;
}

#[tokio::test]
async fn a_directory_serves_one_server_at_a_time() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = Config::new(directory.path());
    config.client_address = (Ipv4Addr::LOCALHOST, 0).into();
    let first = Server::bind(config.clone()).await.unwrap();
    let refused = Server::bind(config.clone()).await.unwrap_err();
    assert!(refused.to_string().contains("in use by another server"), "{refused}");
    drop(first);
    let again = Server::bind(config).await.unwrap();
    drop(again.run(pending::<()>()));
}
