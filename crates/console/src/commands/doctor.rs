//! `ottla doctor`: goes the way a client goes, hop by hop, and says where it ends and what would help.

use std::fmt::Display;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use ottla_client::{
    Address, Admin, Broker, Client, ClientOptions, Connection, ConnectionError, Metadata, Topic,
};
use ottla_model::BrokerId;

use super::client_properties::ClientProperties;
use super::tools::{self, Failure};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command = Command {
    name: "doctor",
    about: "find out why clients cannot reach a cluster, and what would help",
    run,
};

/// Finds out whether clients can reach a cluster: the addresses they are given, the brokers they are sent to, the partitions they need.
///
/// Exits with 1 if something is wrong that clients would trip over.
#[derive(Debug, Parser)]
#[command(name = "doctor")]
struct Options {
    /// The brokers to begin with, as clients have them: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..", default_value = "localhost:9092")]
    bootstrap_server: String,
    /// A file of settings of the client.
    #[arg(long, value_name = "FILE")]
    command_config: Option<std::path::PathBuf>,
}

/// A hop that takes longer than this is as good as none.
const PATIENCE: Duration = Duration::from_secs(5);
/// Names of partitions that are shown at most; the count tells of the others.
const SHOWN_MAX: usize = 5;

fn run(arguments: Vec<String>) -> ExitCode {
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(async move {
        let addresses = Address::parse_list(&options.bootstrap_server)?;
        let mut client = ClientOptions { create_topics: false, ..Default::default() };
        client.connection.connect_timeout = PATIENCE;
        client.connection.request_timeout = PATIENCE;
        client.connection.client_id = "ottla-doctor".to_owned();
        ClientProperties::new(options.command_config.as_deref(), &[])?.apply_to(&mut client)?;
        examine(&addresses, &client).await
    })
}

/// What was found on the way.
#[derive(Debug, Default)]
struct Report {
    wrong: usize,
}

impl Report {
    fn good(&mut self, finding: impl Display) -> Result<(), Failure> {
        Ok(tools::print(&format!("ok    {finding}\n"))?)
    }

    /// Worth knowing, but clients get by.
    fn notable(&mut self, finding: impl Display) -> Result<(), Failure> {
        Ok(tools::print(&format!("note  {finding}\n"))?)
    }

    fn wrong(&mut self, finding: impl Display, cure: &str) -> Result<(), Failure> {
        self.wrong += 1;
        tools::print(&format!("WRONG {finding}\n"))?;
        if !cure.is_empty() {
            tools::print(&format!("      {cure}\n"))?;
        }
        Ok(())
    }
}

async fn examine(bootstrap: &[Address], options: &ClientOptions) -> Result<ExitCode, Failure> {
    let mut report = Report::default();
    let mut way_in = None;
    for address in bootstrap {
        let client = enter(address, options, &mut report).await?;
        way_in = way_in.or(client);
    }
    let Some(client) = way_in else {
        tools::print("No address leads to the cluster; clients get no further than this.\n")?;
        return Ok(ExitCode::FAILURE);
    };

    let metadata = client.metadata();
    let topics = Admin::new(client.clone()).list_topics().await?;
    report.good(format_args!(
        "cluster {}: brokers {}, topics {}, partitions {}",
        metadata.cluster_id.as_deref().unwrap_or("without an id"),
        metadata.brokers.len(),
        topics.len(),
        topics.iter().map(|topic| topic.partitions.len()).sum::<usize>(),
    ))?;
    examine_controller(&metadata, &mut report)?;
    for broker in metadata.brokers.values() {
        examine_broker(broker, &metadata, options, &mut report).await?;
    }
    examine_partitions(&topics, &mut report)?;
    Ok(match report.wrong {
        0 => ExitCode::SUCCESS,
        _ => ExitCode::FAILURE,
    })
}

/// Takes the first hop: connects, and asks for the cluster.
async fn enter(
    address: &Address,
    options: &ClientOptions,
    report: &mut Report,
) -> Result<Option<Client>, Failure> {
    let started = Instant::now();
    match Client::connect(vec![address.clone()], options.clone()).await {
        Ok(client) => {
            report.good(format_args!("{address} is a broker and answers, {}", took(started)))?;
            Ok(Some(client))
        }
        Err(error) => {
            // The error tells the address and the cure itself.
            report.wrong(error, "")?;
            Ok(None)
        }
    }
}

fn took(started: Instant) -> String {
    format!("{:.1} ms", started.elapsed().as_secs_f64() * 1000.0)
}

fn examine_controller(metadata: &Metadata, report: &mut Report) -> Result<(), Failure> {
    match metadata.controller {
        Some(controller) if metadata.brokers.contains_key(&controller) => {
            report.good(format_args!("broker {controller} is the controller"))
        }
        Some(controller) => report.wrong(
            format_args!("broker {controller} is said to be the controller, and is not among the brokers"),
            "it may have died a moment ago; see its log",
        ),
        None => report.wrong(
            "there is no controller, so no topic can be made and no leader elected",
            "see whether the brokers reach ZooKeeper; their logs tell",
        ),
    }
}

/// Takes the second hop, to where the cluster sends clients.
async fn examine_broker(
    broker: &Broker,
    metadata: &Metadata,
    options: &ClientOptions,
    report: &mut Report,
) -> Result<(), Failure> {
    let Broker { id, address, .. } = broker;
    let started = Instant::now();
    match Connection::open(address, &options.connection).await {
        Ok(_) => {}
        Err(error) => {
            let advertised = format!("broker {id} advertises {address}, where clients are sent: {error}");
            return report.wrong(advertised, &advertised_cure(*id, address, &error));
        }
    }
    let there = Client::connect(vec![address.clone()], options.clone()).await;
    match there.map(|there| there.metadata()) {
        Ok(there) if there.cluster_id == metadata.cluster_id => report
            .good(format_args!("broker {id} is reached at {address}, as it advertises, {}", took(started))),
        Ok(there) => report.wrong(
            format_args!(
                "broker {id} advertises {address}, but there a broker of another cluster answers: {}",
                there.cluster_id.as_deref().unwrap_or("one without an id")
            ),
            &format!("give broker {id} an advertised.listeners of its own"),
        ),
        Err(error) => report.wrong(format_args!("broker {id} at {address}: {error}"), ""),
    }
}

fn advertised_cure(id: BrokerId, address: &Address, error: &ConnectionError) -> String {
    let local = matches!(address.host(), "localhost" | "127.0.0.1" | "::1");
    match error {
        ConnectionError::Refused { .. } if local => format!(
            "localhost is this machine; if broker {id} runs elsewhere, set advertised.listeners on it to a name that leads there"
        ),
        ConnectionError::Refused { .. } => {
            format!(
                "if broker {id} is down, start it; if not, its advertised.listeners names a port it does not listen at"
            )
        }
        _ => format!("set advertised.listeners on broker {id} to an address that clients can reach"),
    }
}

fn examine_partitions(topics: &[Topic], report: &mut Report) -> Result<(), Failure> {
    let partitions = || {
        topics.iter().flat_map(|topic| {
            (0..)
                .zip(&topic.partitions)
                .map(|(number, partition): (i32, _)| (format!("{}-{number}", topic.name), partition))
        })
    };
    let leaderless: Vec<String> = partitions()
        .filter(|(_, partition)| partition.leader.is_none())
        .map(|(name, partition)| format!("{name} (replicas {})", ids(&partition.replicas)))
        .collect();
    let behind: Vec<String> = partitions()
        .filter(|(_, partition)| partition.isr.len() < partition.replicas.len())
        .map(|(name, partition)| {
            format!("{name} (ISR {} of {})", ids(&partition.isr), ids(&partition.replicas))
        })
        .collect();
    if leaderless.is_empty() {
        report.good("every partition has a leader")?;
    } else {
        report.wrong(
            format_args!(
                "{} without a leader, neither read nor written: {}",
                count(&leaderless),
                some(&leaderless)
            ),
            "start the brokers that hold their replicas",
        )?;
    }
    if !behind.is_empty() {
        report.notable(format_args!("{} under-replicated: {}", count(&behind), some(&behind)))?;
    }
    Ok(())
}

fn count(partitions: &[String]) -> String {
    match partitions.len() {
        1 => "1 partition is".to_owned(),
        count => format!("{count} partitions are"),
    }
}

fn some(partitions: &[String]) -> String {
    let shown = partitions[..partitions.len().min(SHOWN_MAX)].join(", ");
    match partitions.len().saturating_sub(SHOWN_MAX) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

fn ids(brokers: &[BrokerId]) -> String {
    brokers.iter().map(BrokerId::to_string).collect::<Vec<_>>().join(",")
}
