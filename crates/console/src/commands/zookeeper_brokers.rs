//! Sessions of tools with ZooKeeper, and finding a cluster through it as tools of Kafka 0.8 do.

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ottla_client::{Address, Connection, ConnectionOptions};
use ottla_zookeeper::{
    ClientStore, ConnectError, ConnectSettings, Finding, FindingKind, KafkaZkClient, ZkError, diagnose,
};

/// Requests under way at once.
const IN_FLIGHT_MAX: usize = 100;
/// How long to try for a session: a ZooKeeper started by the line above in the same script is given time to come up.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a ZooKeeper that is there takes at most, as a rule; after that we look what it is that we talk to.
const PROMPT: Duration = Duration::from_millis(300);

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
pub enum NoZooKeeper {
    #[error("there is no ZooKeeper at {connect}: {}; name a ZooKeeper that runs (port 2181 as a rule)", show(.findings))]
    NotThere { connect: String, findings: Vec<Finding> },
    #[error(
        "{address} is a Kafka broker, not ZooKeeper; name a ZooKeeper (port 2181 as a rule), or use --bootstrap-server {address} where the tool has it"
    )]
    Broker { address: Address },
    #[error("{connect:?} does not say where ZooKeeper is: {detail}; write host:port,host:port/chroot")]
    Address { connect: String, detail: String },
    #[error(transparent)]
    Connect(ConnectError),
}

fn show(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("; ")
}

/// Why no broker was found.
#[derive(Debug, thiserror::Error)]
pub enum NoBrokers {
    #[error(transparent)]
    NoZooKeeper(#[from] NoZooKeeper),
    #[error("ZooKeeper: {0}")]
    ZooKeeper(#[from] ZkError),
    #[error("ZooKeeper at {0} works, but no broker is registered there under /brokers/ids; start one")]
    None(String),
}

/// A session with the ZooKeeper of a cluster. Gives up at once where something else answers.
pub async fn connect(connect: &str) -> Result<KafkaZkClient, NoZooKeeper> {
    let settings = ConnectSettings {
        connect: connect.to_owned(),
        session_timeout: Duration::from_secs(30),
        connection_timeout: PATIENCE,
    };
    let store = tokio::select! {
        store = ClientStore::connect(settings) => store.map_err(|error| match error {
            ConnectError::Unreachable { connect, findings, .. } => NoZooKeeper::NotThere { connect, findings },
            ConnectError::Address { connect, detail } => NoZooKeeper::Address { connect, detail },
            error => NoZooKeeper::Connect(error),
        })?,
        wrong = something_else(connect) => return Err(wrong),
    };
    Ok(KafkaZkClient::new(Arc::new(store), IN_FLIGHT_MAX))
}

/// The client itself, for what Kafka's own znodes do not need. `opening` tries once.
pub async fn open<T, F>(connect: &str, opening: impl Fn() -> F) -> Result<T, NoZooKeeper>
where
    F: Future<Output = Result<T, zookeeper_client::Error>>,
{
    use zookeeper_client::Error;
    let trying = async {
        loop {
            match opening().await {
                Err(Error::Timeout | Error::ConnectionLoss | Error::NoHosts) => {}
                answer => return answer,
            }
        }
    };
    tokio::select! {
        opened = trying => opened.map_err(|error| {
            NoZooKeeper::Address { connect: connect.to_owned(), detail: error.to_string() }
        }),
        wrong = something_else(connect) => Err(wrong),
        () = tokio::time::sleep(PATIENCE) => {
            Err(NoZooKeeper::NotThere { connect: connect.to_owned(), findings: diagnose(connect).await })
        }
    }
}

/// Resolves if what answers at the addresses is something other than ZooKeeper.
async fn something_else(connect: &str) -> NoZooKeeper {
    tokio::time::sleep(PROMPT).await;
    let (findings, brokers) = tokio::join!(diagnose(connect), brokers_at(connect));
    if let Some(address) = brokers.into_iter().next() {
        return NoZooKeeper::Broker { address };
    }
    let stranger =
        |finding: &Finding| matches!(finding.kind, FindingKind::NotZooKeeper(_) | FindingKind::Closes);
    if findings.is_empty() || !findings.iter().all(stranger) {
        std::future::pending::<()>().await;
    }
    NoZooKeeper::NotThere { connect: connect.to_owned(), findings }
}

/// The addresses that answer as Kafka brokers do: a broker takes a ZooKeeper handshake for a Produce that wants no answer.
async fn brokers_at(connect: &str) -> Vec<Address> {
    let hosts = connect.split('/').next().unwrap_or_default();
    let addresses = Address::parse_list(hosts).unwrap_or_default();
    let options = ConnectionOptions { connect_timeout: Duration::from_secs(1), ..Default::default() };
    let asked = addresses.into_iter().map(|address| {
        let options = &options;
        async move {
            let open = Connection::open(&address, options).await;
            open.is_ok_and(|open| open.versions().is_negotiated()).then_some(address)
        }
    });
    join_all(asked).await.into_iter().flatten().collect()
}

/// Says farewell, so that the session does not have to expire. What was done is done whether that is heard or not.
pub async fn close(zookeeper: &KafkaZkClient) {
    if let Err(error) = zookeeper.store().close().await {
        tracing::debug!(%error, "the session was not closed");
    }
}

/// The brokers that are registered, by their listener without security.
pub async fn brokers_in_zookeeper(connect_to: &str) -> Result<Vec<Address>, NoBrokers> {
    let zookeeper = connect(connect_to).await?;
    let found = registered(&zookeeper).await;
    close(&zookeeper).await;
    let addresses = found?;
    if addresses.is_empty() { Err(NoBrokers::None(connect_to.to_owned())) } else { Ok(addresses) }
}

async fn registered(zookeeper: &KafkaZkClient) -> Result<Vec<Address>, ZkError> {
    let (ids, _watch) = zookeeper.broker_ids_and_watch().await?;
    let registered = zookeeper.read_brokers(&ids).await?;
    let plaintext = registered.iter().filter_map(|(_, found)| {
        let endpoint =
            found.record.endpoints.iter().find(|endpoint| endpoint.security_protocol == "PLAINTEXT")?;
        Some(Address::new(&endpoint.host, u16::try_from(endpoint.port).ok()?))
    });
    Ok(plaintext.collect())
}
