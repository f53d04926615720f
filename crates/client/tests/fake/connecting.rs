use std::time::Duration;

use ottla_client::{Address, Client, ClientError, Connection, ConnectionError, ConnectionOptions, Stranger};
use ottla_model::{BrokerId, TopicName};
use ottla_protocol::ApiKey;
use ottla_protocol::messages::{FetchRequest, MetadataRequest};
use tokio::net::TcpListener;
use tokio::time::timeout;

use crate::cluster::{Cluster, Era, Fault, PATIENCE, quick, topic};

#[tokio::test]
async fn versions_are_negotiated_with_brokers_of_every_age() {
    for (why, era, asked, fetch) in [
        ("3.9 answers at once", Era::Negotiates { api_versions_max: 4 }, vec![3], 12),
        ("2.3 knows only older versions", Era::Negotiates { api_versions_max: 2 }, vec![3, 0], 12),
        ("0.10 has one version", Era::Negotiates { api_versions_max: 0 }, vec![3, 0], 12),
        ("0.8 and 0.9 hang up, whenever asked", Era::HangsUp, vec![3, 3], 0),
    ] {
        let cluster = Cluster::start(1, 1).await;
        cluster.state.lock().era = era;
        let connection =
            Connection::open(&cluster.bootstrap()[0], &ConnectionOptions::default()).await.unwrap();
        assert_eq!(cluster.versions_seen(ApiKey::ApiVersions), asked, "{why}");
        assert_eq!(connection.version_of::<FetchRequest>(12).unwrap(), fetch, "{why}");
    }
}

#[tokio::test]
async fn a_broker_without_negotiation_is_asked_in_version_0() {
    let cluster = Cluster::start(1, 2).await;
    cluster.state.lock().era = Era::HangsUp;
    let client = cluster.client().await;
    let known = client.topic(&topic()).await.unwrap();
    assert_eq!(known.partitions.len(), 2);
    assert!(cluster.versions_seen(ApiKey::Metadata).iter().all(|version| *version == 0));
}

#[tokio::test]
async fn a_broker_that_hung_up_while_it_started_is_not_taken_for_an_old_one() {
    let cluster = Cluster::start(1, 1).await;
    cluster.script(ApiKey::ApiVersions, [Fault::HangUp]);
    let connection = Connection::open(&cluster.bootstrap()[0], &ConnectionOptions::default()).await.unwrap();
    assert!(connection.versions().is_negotiated());
    assert_eq!(connection.version_of::<FetchRequest>(12).unwrap(), 12);
}

#[tokio::test]
async fn answers_find_those_who_asked() {
    let cluster = Cluster::start(1, 1).await;
    let connection = Connection::open(&cluster.bootstrap()[0], &ConnectionOptions::default()).await.unwrap();
    let mut pending = Vec::new();
    for number in 0..100 {
        let version = if number % 2 == 0 { 1 } else { 9 };
        pending.push((version, connection.submit(&MetadataRequest::default(), version).await.unwrap()));
    }
    for (version, response) in pending {
        let response = timeout(PATIENCE, response.wait()).await.unwrap().unwrap();
        assert_eq!(response.brokers.len(), 1, "version {version}");
    }
}

#[tokio::test]
async fn bytes_that_are_no_answer_cost_the_connection_and_no_memory() {
    for (why, answer, expected) in [
        (
            "a size beyond the limit",
            vec![0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 1],
            "from 4 to 1048576 are allowed",
        ),
        ("a negative size", vec![0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1], "from 4 to 1048576 are allowed"),
        ("a size below that of any header", vec![0, 0, 0, 3, 0, 0, 0, 1], "from 4 to 1048576 are allowed"),
        (
            "the answer to another request",
            vec![0, 0, 0, 4, 0, 0, 0, 99],
            "answered request 99 where request 1 was due",
        ),
        ("an answer that ends early", vec![0, 0, 0, 5, 0, 0, 0, 1, 0], "cannot be read"),
        (
            "an array with more elements than bytes",
            vec![0, 0, 0, 14, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f],
            "cannot be read",
        ),
    ] {
        let cluster = Cluster::start(1, 1).await;
        let options = ConnectionOptions { response_bytes_max: 1 << 20, ..ConnectionOptions::default() };
        let connection = Connection::open(&cluster.bootstrap()[0], &options).await.unwrap();
        cluster.script(ApiKey::Metadata, [Fault::Say(answer)]);
        let error =
            timeout(PATIENCE, connection.request(&MetadataRequest::default())).await.unwrap().unwrap_err();
        assert!(error.to_string().contains(expected), "{why}: {error}");
        assert!(!error.is_retriable(), "{why}");
    }
}

#[tokio::test]
async fn everyone_who_waits_hears_that_the_connection_is_gone() {
    let cluster = Cluster::start(1, 1).await;
    let connection = Connection::open(&cluster.bootstrap()[0], &ConnectionOptions::default()).await.unwrap();
    cluster.script(ApiKey::Metadata, [Fault::Nothing, Fault::HangUp]);
    let mut pending = Vec::new();
    for _ in 0..5 {
        pending.push(connection.submit(&MetadataRequest::default(), 9).await.unwrap());
    }
    let mut outcomes = Vec::new();
    for response in pending {
        outcomes.push(timeout(PATIENCE, response.wait()).await.unwrap().is_ok());
    }
    assert_eq!(outcomes, [true, false, false, false, false]);
    assert!(connection.is_closed());
    assert!(connection.submit(&MetadataRequest::default(), 9).await.is_err(), "nothing more can be sent");
}

#[tokio::test]
async fn who_is_no_broker_is_named() {
    for (why, era, found) in [
        ("a web server", Era::Says(b"HTTP/1.1 400 Bad Request\r\n\r\n"), Stranger::Http),
        ("a TLS listener sends an alert", Era::Says(&[0x15, 3, 3, 0, 2, 2, 10]), Stranger::Tls),
        ("sshd", Era::Says(b"SSH-2.0-OpenSSH_9.2\r\n"), Stranger::Ssh),
        ("noise", Era::Says(&[0xff; 64]), Stranger::Unknown),
        ("a frame that answers nothing", Era::Says(&[0, 0, 0, 4, 1, 2, 3, 4]), Stranger::Unknown),
        ("ZooKeeper", Era::ZooKeeper("Zookeeper version: 3.8.4\n"), Stranger::ZooKeeper),
        (
            "ZooKeeper that keeps its operators short",
            Era::ZooKeeper("srvr is not executed because it is not in the whitelist.\n"),
            Stranger::ZooKeeper,
        ),
        ("whoever hangs up on everything", Era::Deaf, Stranger::Mute),
    ] {
        let cluster = Cluster::start(1, 1).await;
        cluster.state.lock().era = era;
        let error =
            timeout(PATIENCE, Client::connect(cluster.bootstrap(), quick())).await.unwrap().unwrap_err();
        let address = cluster.bootstrap()[0].clone();
        assert_eq!(error, ClientError::Connection(ConnectionError::Stranger { address, found }), "{why}");
    }
}

#[tokio::test]
async fn a_sasl_listener_is_told_from_a_broken_broker() {
    let cluster = Cluster::start(1, 1).await;
    cluster.state.lock().era = Era::WantsSasl;
    let error = Client::connect(cluster.bootstrap(), quick()).await.unwrap_err();
    let mechanisms = vec!["SCRAM-SHA-256".to_owned(), "PLAIN".to_owned()];
    let address = cluster.bootstrap()[0].clone();
    assert_eq!(error, ClientError::Connection(ConnectionError::SaslRequired { address, mechanisms }));
}

#[tokio::test]
async fn a_closed_port_and_a_name_without_address_are_told_apart() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
    drop(listener);
    let error = Client::connect(vec![closed.clone()], quick()).await.unwrap_err();
    assert_eq!(error, ClientError::Connection(ConnectionError::Refused { address: closed }));

    let nowhere = Address::new("no-such-host.invalid", 9092);
    let error = Client::connect(vec![nowhere.clone()], quick()).await.unwrap_err();
    assert!(
        matches!(&error, ClientError::Connection(ConnectionError::Unresolvable { address, .. }) if *address == nowhere),
        "{error}"
    );
}

#[tokio::test]
async fn the_next_bootstrap_broker_is_tried() {
    let cluster = Cluster::start(1, 1).await;
    let nowhere = Address::new("no-such-host.invalid", 9092);
    let bootstrap = vec![nowhere, cluster.bootstrap()[0].clone()];
    assert!(Client::connect(bootstrap, quick()).await.is_ok());
}

#[tokio::test]
async fn an_advertised_address_that_does_not_work_is_blamed_on_the_broker() {
    let cluster = Cluster::start(1, 1).await;
    let advertised = Address::new("kafka.invalid", 29092);
    cluster.state.lock().advertised = Some(advertised.clone());
    let client = cluster.client().await;
    let error = client.broker(BrokerId(0)).await.unwrap_err();
    assert!(error.to_string().contains("advertises broker 0 as kafka.invalid:29092"), "{error}");
    assert!(error.to_string().contains("does not resolve"), "{error}");
    assert!(error.is_retriable(), "the name may resolve in a moment");
}

#[tokio::test]
async fn a_topic_that_does_not_exist_is_looked_for_and_then_reported() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client().await;
    let missing = TopicName::new("missing").unwrap();
    let error = client.topic(&missing).await.unwrap_err();
    assert_eq!(error, ClientError::UnknownTopic { topic: "missing".to_owned() });
    assert!(cluster.versions_seen(ApiKey::Metadata).len() > 2, "it may be a moment away");
}

#[tokio::test]
async fn a_silent_broker_costs_the_connection() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = Address::new("127.0.0.1", listener.local_addr().unwrap().port());
    let options =
        ConnectionOptions { connect_timeout: Duration::from_millis(20), ..ConnectionOptions::default() };
    let error = Connection::open(&address, &options).await.unwrap_err();
    assert!(matches!(error, ConnectionError::RequestTimedOut { api: ApiKey::ApiVersions, .. }), "{error}");
}
