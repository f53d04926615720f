//! `ottla dev`: ZooKeeper and brokers in one process, with nothing to configure.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ottla_broker::RunningBroker;
use ottla_broker::config::Config;
use ottla_zookeeper_server::Server;
use tokio::sync::watch;

use super::Command;
use super::servers::{self, StopSignal, asked_to_stop, runtime};

pub const COMMAND: Command =
    Command { name: "dev", about: "run ZooKeeper and brokers in one process, nothing else needed", run };

/// Runs ZooKeeper and one or more brokers in this process until SIGTERM or SIGINT.
///
/// Brokers listen on localhost, on the given port and those above it; ZooKeeper takes a free port and says which.
#[derive(Debug, Parser)]
#[command(name = "dev", version)]
struct Options {
    /// How many brokers.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=100))]
    brokers: u16,
    /// Where the data is kept; without it, in a directory that is removed at the end.
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Port of the first broker; 0 takes free ones.
    #[arg(long, default_value_t = 9092)]
    port: u16,
    /// Port of ZooKeeper; 0 takes a free one.
    #[arg(long, default_value_t = 0, value_name = "PORT")]
    zookeeper_port: u16,
    /// Sets a configuration key of all brokers; may be given more than once.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn run(arguments: Vec<String>) -> ExitCode {
    servers::run(arguments, serve)
}

fn serve(options: &Options) -> Result<StopSignal, Failure> {
    let temporary = match options.data {
        Some(_) => None,
        None => Some(tempfile::Builder::new().prefix("ottla-dev-").tempdir()?),
    };
    let data = match (&options.data, &temporary) {
        (Some(data), _) => data.as_path(),
        (None, Some(temporary)) => temporary.path(),
        (None, None) => return Err("no data directory".into()),
    };
    runtime()?.block_on(run_cluster(options, data))
}

async fn run_cluster(options: &Options, data: &Path) -> Result<StopSignal, Failure> {
    let mut config = ottla_zookeeper_server::Config::new(data.join("zookeeper"));
    config.client_address = SocketAddr::from(([127, 0, 0, 1], options.zookeeper_port));
    // Whoever registered in a former life, killed perhaps, was in this process.
    config.sessions_survive = false;
    let zookeeper = Server::bind(config).await?;
    let connect = format!("127.0.0.1:{}", zookeeper.local_addr().port());
    let (stop_zookeeper, mut stopped) = watch::channel(false);
    let zookeeper = tokio::spawn(zookeeper.run(async move {
        // A sender that is gone has stopped too.
        let _ = stopped.wait_for(|stopped| *stopped).await;
    }));

    let mut brokers = Vec::new();
    let mut failure = None;
    for index in 0..options.brokers {
        match start(options, data, &connect, index).await {
            Ok(broker) => brokers.push(broker),
            Err(error) => {
                failure = Some(error);
                break;
            }
        }
    }
    let outcome = match failure {
        Some(failure) => Err(failure),
        None => {
            announce(&brokers, &connect, options, data);
            asked_to_stop().await.map_err(Failure::from)
        }
    };
    for broker in brokers {
        broker.shutdown().await;
    }
    stop_zookeeper.send_replace(true);
    zookeeper.await??;
    outcome
}

async fn start(options: &Options, data: &Path, connect: &str, index: u16) -> Result<RunningBroker, Failure> {
    let port =
        if options.port == 0 { 0 } else { options.port.checked_add(index).ok_or("port above 65535")? };
    let id = index.to_string();
    let listeners = format!("PLAINTEXT://127.0.0.1:{port}");
    let log_dir = data.join(format!("broker-{index}"));
    // A cluster of fewer than three brokers cannot hold the internal topics three times.
    let factor = options.brokers.min(3).to_string();
    let mut pairs: Vec<(&str, &str)> = vec![
        ("broker.id", &id),
        ("listeners", &listeners),
        ("log.dirs", log_dir.to_str().ok_or("the data directory's name is not UTF-8")?),
        ("zookeeper.connect", connect),
        ("offsets.topic.replication.factor", &factor),
        ("transaction.state.log.replication.factor", &factor),
        ("transaction.state.log.min.isr", "1"),
        ("group.initial.rebalance.delay.ms", "0"),
        // The kernel sizes it: with Kafka's 100 KiB a producer on the same machine costs 40 % more CPU.
        ("socket.receive.buffer.bytes", "-1"),
    ];
    for text in &options.overrides {
        pairs.push(text.split_once('=').ok_or_else(|| format!("--override {text:?} has no \"=\""))?);
    }
    Ok(RunningBroker::start(Config::from_pairs(pairs)?).await?)
}

fn announce(brokers: &[RunningBroker], connect: &str, options: &Options, data: &Path) {
    let addresses: Vec<String> =
        brokers.iter().flat_map(RunningBroker::local_addrs).map(|(_, address)| address.to_string()).collect();
    let kept = if options.data.is_some() { "kept" } else { "removed at the end" };
    tracing::info!("brokers at {}, ZooKeeper at {connect}", addresses.join(","));
    tracing::info!("data in {}, {kept}; stop with Ctrl-C", data.display());
}
