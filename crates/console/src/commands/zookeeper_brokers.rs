//! Finding a cluster through its ZooKeeper, as tools of Kafka 0.8 do.

use std::sync::Arc;
use std::time::Duration;

use ottla_client::Address;
use ottla_zookeeper::{ClientStore, ConnectError, ConnectSettings, KafkaZkClient, ZkError};

/// Requests under way at once.
const IN_FLIGHT_MAX: usize = 10;

/// Why no broker was found.
#[derive(Debug, thiserror::Error)]
pub enum NoBrokers {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("ZooKeeper: {0}")]
    ZooKeeper(#[from] ZkError),
    #[error("ZooKeeper at {0} works, but no broker is registered there under /brokers/ids")]
    None(String),
}

/// A session with the ZooKeeper of a cluster.
pub async fn connect(connect: &str) -> Result<KafkaZkClient, ConnectError> {
    let settings = ConnectSettings {
        connect: connect.to_owned(),
        session_timeout: Duration::from_secs(30),
        connection_timeout: Duration::from_secs(10),
    };
    Ok(KafkaZkClient::new(Arc::new(ClientStore::connect(settings).await?), IN_FLIGHT_MAX))
}

/// The brokers that are registered, by their listener without security.
pub async fn brokers_in_zookeeper(connect_to: &str) -> Result<Vec<Address>, NoBrokers> {
    let zookeeper = connect(connect_to).await?;
    let (ids, _watch) = zookeeper.broker_ids_and_watch().await?;
    let registered = zookeeper.read_brokers(&ids).await?;
    let plaintext = registered.iter().filter_map(|(_, found)| {
        let endpoint =
            found.record.endpoints.iter().find(|endpoint| endpoint.security_protocol == "PLAINTEXT")?;
        Some(Address::new(&endpoint.host, u16::try_from(endpoint.port).ok()?))
    });
    let addresses: Vec<Address> = plaintext.collect();
    if addresses.is_empty() { Err(NoBrokers::None(connect_to.to_owned())) } else { Ok(addresses) }
}
