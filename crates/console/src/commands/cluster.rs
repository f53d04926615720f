//! How admin tools reach a cluster.

use std::path::{Path, PathBuf};

use ottla_client::{Address, Admin, Client, ClientError, ClientOptions};
use ottla_protocol::ErrorCode;

use super::client_properties::ClientProperties;
use super::tools::Failure;
use super::zookeeper_brokers::brokers_in_zookeeper;

/// The two options that all admin tools have.
#[derive(Debug, clap::Args)]
pub struct ClusterOptions {
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..")]
    bootstrap_server: String,
    /// A file of settings of the client.
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
}

impl ClusterOptions {
    pub fn cluster(&self) -> Result<Cluster, Failure> {
        Cluster::new(Some(&self.bootstrap_server), None)?.with_config(self.command_config.as_deref())
    }

    pub async fn admin(&self) -> Result<Admin, Failure> {
        self.cluster()?.admin().await
    }
}

/// Where the brokers are to be found, and how to talk to them.
#[derive(Debug, Clone)]
pub struct Cluster {
    entry: Entry,
    options: ClientOptions,
}

#[derive(Debug, Clone)]
enum Entry {
    Bootstrap(Vec<Address>),
    ZooKeeper(String),
}

impl Cluster {
    /// One of the two must be given; the brokers go first.
    pub fn new(bootstrap: Option<&str>, zookeeper: Option<&str>) -> Result<Cluster, Failure> {
        let entry = match (bootstrap, zookeeper) {
            (Some(list), _) => Entry::Bootstrap(Address::parse_list(list)?),
            (None, Some(connect)) => Entry::ZooKeeper(connect.to_owned()),
            (None, None) => return Err("--bootstrap-server must be specified".into()),
        };
        // Tools name topics that are there: nobody is to create them.
        let mut options = ClientOptions { create_topics: false, ..Default::default() };
        options.connection.client_id = "adminclient-1".to_owned();
        Ok(Cluster { entry, options })
    }

    /// Takes the settings of `--command-config`.
    pub fn with_config(mut self, file: Option<&Path>) -> Result<Cluster, Failure> {
        let given = ClientProperties::new(file, &[])?;
        given.apply_to(&mut self.options)?;
        for name in given.unused() {
            tracing::warn!("admin tools have no use for the property {name}");
        }
        Ok(self)
    }

    pub async fn client(&self) -> Result<Client, Failure> {
        let bootstrap = match &self.entry {
            Entry::Bootstrap(addresses) => addresses.clone(),
            Entry::ZooKeeper(connect) => brokers_in_zookeeper(connect).await?,
        };
        Ok(Client::connect(bootstrap, self.options.clone()).await?)
    }

    pub async fn admin(&self) -> Result<Admin, Failure> {
        Ok(Admin::new(self.client().await?))
    }
}

/// What Kafka's tools would show of an error: of a refusal only what the broker said, without what it was about.
pub fn said(error: &(dyn std::error::Error + 'static)) -> String {
    match error.downcast_ref::<ClientError>() {
        Some(ClientError::Refused { code, message, .. }) => {
            message.clone().unwrap_or_else(|| code.message().to_owned())
        }
        _ => error.to_string(),
    }
}

/// A refusal of a request as a whole.
pub fn refused(code: ErrorCode, message: Option<&str>) -> ClientError {
    let message = message.filter(|text| !text.is_empty()).map(str::to_owned);
    ClientError::Refused { subject: "the request".to_owned(), code, message }
}
