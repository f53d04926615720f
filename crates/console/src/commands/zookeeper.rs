//! `ottla zookeeper`: the single-node ZooKeeper for development.

use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ottla_zookeeper_server::{Config, Server};

use super::Command;
use super::servers::{self, StopSignal, asked_to_stop, runtime};

pub const COMMAND: Command =
    Command { name: "zookeeper", about: "run the single-node ZooKeeper for development", run };

/// Runs a single-node ZooKeeper for development, in the foreground, until SIGTERM or SIGINT.
#[derive(Debug, Parser)]
#[command(name = "zookeeper", version)]
struct Options {
    /// Its configuration, such as config/zookeeper.properties.
    properties: PathBuf,
}

fn run(arguments: Vec<String>) -> ExitCode {
    servers::run(arguments, serve)
}

fn serve(options: &Options) -> Result<StopSignal, Box<dyn std::error::Error>> {
    let path = &options.properties;
    let bytes = std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let config = Config::parse(&bytes).map_err(|error| format!("{}: {error}", path.display()))?;
    runtime()?.block_on(async {
        let server = Server::bind(config).await?;
        let mut signal = Err(std::io::Error::other("the server ended by itself"));
        server.run(async { signal = asked_to_stop().await }).await?;
        Ok(signal?)
    })
}
