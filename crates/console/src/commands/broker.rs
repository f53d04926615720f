//! `ottla broker`: one broker.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ottla_broker::RunningBroker;
use ottla_broker::config::Config;

use super::Command;
use super::servers::{self, StopSignal, asked_to_stop, runtime};

pub const COMMAND: Command = Command { name: "broker", about: "run a broker", run };

/// Runs a broker, in the foreground, until SIGTERM or SIGINT.
#[derive(Debug, Parser)]
#[command(name = "broker", version)]
struct Options {
    /// Its configuration, such as config/server.properties; a name that ends in .toml is read as TOML.
    properties: PathBuf,
    /// Sets a key over what the file says; may be given more than once.
    #[arg(long = "override", value_name = "KEY=VALUE")]
    overrides: Vec<String>,
}

fn run(arguments: Vec<String>) -> ExitCode {
    servers::run(arguments, |options| {
        // For whoever keeps only the log.
        serve(options).inspect_err(|reason| tracing::error!("{reason}"))
    })
}

fn serve(options: &Options) -> Result<StopSignal, Box<dyn std::error::Error>> {
    let config = Config::load(&options.properties, &options.overrides)?;
    runtime()?.block_on(async {
        let broker = RunningBroker::start(config).await?;
        let signal = asked_to_stop().await?;
        broker.shutdown().await;
        Ok(signal)
    })
}
