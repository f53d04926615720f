//! `kafka-broker-api-versions`: which versions of which APIs the brokers serve, and which of them we would speak.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use clap::Parser;
use futures_util::future::join_all;
use ottla_client::{Broker, Client, ClientError};
use ottla_protocol::messages::api_versions::ApiVersion;
use ottla_protocol::messages::{ApiVersionsRequest, ApiVersionsResponse};
use ottla_protocol::{ApiKey, ErrorCode, Str};

use super::cluster::{ClusterOptions, refused};
use super::tools::{self, Failure};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command = Command {
    name: "kafka-broker-api-versions",
    about: "show which versions of which APIs the brokers serve",
    run,
};

/// Shows which versions of which APIs each broker serves, and the newest that this program would use.
#[derive(Debug, Parser)]
#[command(name = "kafka-broker-api-versions")]
struct Options {
    #[command(flatten)]
    cluster: ClusterOptions,
}

fn run(arguments: Vec<String>) -> ExitCode {
    if arguments.len() <= 1 {
        return command_line::refuse::<Options>("This tool helps to retrieve broker version information.");
    }
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(async move {
        let client = options.cluster.cluster()?.client().await?;
        let metadata = client.metadata();
        let brokers: Vec<&Broker> = metadata.brokers.values().collect();
        let answers = join_all(brokers.iter().map(|broker| ask(&client, broker))).await;
        let mut shown = String::new();
        for (broker, answer) in brokers.into_iter().zip(answers) {
            let rack = broker.rack.as_deref().unwrap_or("null");
            // Writing to a string cannot fail.
            let _ = write!(shown, "{} (id: {} rack: {rack}) -> ", broker.address, broker.id);
            let _ = match answer {
                Ok(versions) => writeln!(shown, "(\n\t{}\n)", lines(&versions.api_keys).join(",\n\t")),
                Err(error) => writeln!(shown, "ERROR: {error}"),
            };
        }
        tools::print(&shown)?;
        Ok(ExitCode::SUCCESS)
    })
}

async fn ask(client: &Client, broker: &Broker) -> Result<ApiVersionsResponse, Failure> {
    let request = ApiVersionsRequest {
        client_software_name: Str::from("ottla"),
        client_software_version: Str::from(env!("CARGO_PKG_VERSION")),
        ..Default::default()
    };
    let response = client.broker(broker.id).await?.request(&request).await.map_err(ClientError::from)?;
    match ErrorCode::from_i16(response.error_code) {
        Some(ErrorCode::None) => Ok(response),
        code => Err(refused(code.unwrap_or(ErrorCode::UnknownServerError), None).into()),
    }
}

/// A line for each API that either side knows, by key.
fn lines(served: &[ApiVersion]) -> Vec<String> {
    let mut lines: BTreeMap<i16, String> = ApiKey::ALL
        .iter()
        .map(|api| (*api as i16, format!("{}({}): UNSUPPORTED", api.name(), *api as i16)))
        .collect();
    for ApiVersion { api_key, min_version: min, max_version: max, .. } in served {
        let api = ApiKey::from_i16(*api_key);
        let range = if min == max { min.to_string() } else { format!("{min} to {max}") };
        let usable = api.map_or(String::new(), |api| {
            let ours = api.versions();
            if ours.end() < min {
                " [unusable: node too new]".to_owned()
            } else if max < ours.start() {
                " [unusable: node too old]".to_owned()
            } else {
                format!(" [usable: {}]", ours.end().min(max))
            }
        });
        let name = api.map_or("UNKNOWN", ApiKey::name);
        lines.insert(*api_key, format!("{name}({api_key}): {range}{usable}"));
    }
    lines.into_values().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_api_is_a_line_with_what_it_is_good_for() {
        let newest = *ApiKey::Metadata.versions().end();
        let version = |api_key, min_version, max_version| ApiVersion {
            api_key,
            min_version,
            max_version,
            ..Default::default()
        };
        let served =
            [version(3, 0, newest + 5), version(46, 0, 0), version(0, 1000, 1001), version(999, 0, 2)];
        let lines = lines(&served);
        for line in [
            &format!("Metadata(3): 0 to {} [usable: {newest}]", newest + 5),
            "ListPartitionReassignments(46): 0 [usable: 0]",
            "Produce(0): 1000 to 1001 [unusable: node too new]",
            "UNKNOWN(999): 0 to 2",
            "Fetch(1): UNSUPPORTED",
        ] {
            assert!(lines.iter().any(|found| found == line), "{line} in {lines:?}");
        }
        assert!(lines[0].starts_with("Produce(0)"), "by key");
    }
}
