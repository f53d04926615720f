//! `kafka-log-dirs`: which partitions lie in which directories of the brokers, and how large they are.

use std::collections::BTreeSet;
use std::process::ExitCode;

use clap::Parser;
use futures_util::future::try_join_all;
use ottla_client::Client;
use ottla_model::BrokerId;
use ottla_protocol::ErrorCode;
use ottla_protocol::messages::describe_log_dirs::DescribeLogDirsResult;
use ottla_protocol::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};
use serde::Serialize;

use super::cluster::{ClusterOptions, refused};
use super::tools::{self, Failure};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-log-dirs", about: "show the log directories of brokers and what they hold", run };

/// Shows the log directories of brokers, and the partitions in them with their sizes, as one line of JSON.
#[derive(Debug, Parser)]
#[command(name = "kafka-log-dirs")]
struct Options {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// What the tool does; there is nothing else.
    #[arg(long, required = true)]
    describe: bool,
    /// Only these topics, comma-separated.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "TOPIC,..")]
    topic_list: String,
    /// Only these brokers, comma-separated.
    #[arg(long, default_value = "", hide_default_value = true, value_name = "ID,..")]
    broker_list: String,
}

fn run(arguments: Vec<String>) -> ExitCode {
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(describe(options))
}

async fn describe(options: Options) -> Result<ExitCode, Failure> {
    let named = |list: &str| -> Vec<String> {
        list.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
    };
    let topics = named(&options.topic_list);
    let mut brokers = BTreeSet::new();
    for text in named(&options.broker_list) {
        brokers.insert(BrokerId(text.parse().map_err(|_| format!("For input string: \"{text}\""))?));
    }

    let client = options.cluster.cluster()?.client().await?;
    let live: BTreeSet<BrokerId> = client.metadata().brokers.keys().copied().collect();
    let missing: Vec<BrokerId> = brokers.difference(&live).copied().collect();
    if !missing.is_empty() {
        return Err(format!(
            "ERROR: The given brokers do not exist from --broker-list: {}. Current existent brokers: {}",
            ids(&missing),
            ids(&live)
        )
        .into());
    }
    let brokers = if brokers.is_empty() { live } else { brokers };
    tools::print("Querying brokers for log directories information\n")?;
    let described = try_join_all(brokers.iter().map(|broker| ask(&client, *broker))).await?;
    let shown = brokers.iter().zip(&described).map(|(id, response)| ShownBroker {
        broker: id.0,
        log_dirs: response.results.iter().map(|found| ShownDirectory::of(found, &topics)).collect(),
    });
    let shown = serde_json::to_string(&Shown { brokers: shown.collect(), version: 1 })?;
    tools::print(&format!("Received log directory information from brokers {}\n{shown}\n", ids(&brokers)))?;
    Ok(ExitCode::SUCCESS)
}

fn ids<'a>(brokers: impl IntoIterator<Item = &'a BrokerId>) -> String {
    brokers.into_iter().map(BrokerId::to_string).collect::<Vec<_>>().join(",")
}

async fn ask(client: &Client, broker: BrokerId) -> Result<DescribeLogDirsResponse, Failure> {
    let response = client.broker(broker).await?.request(&DescribeLogDirsRequest::default()).await?;
    match ErrorCode::from_i16(response.error_code) {
        Some(ErrorCode::None) => Ok(response),
        Some(code) => Err(format!("broker {broker}: {}", refused(code, None)).into()),
        None => Err(format!("broker {broker} answered with error {}", response.error_code).into()),
    }
}

/// The line that is shown, with its fields in the order of Kafka's tool.
#[derive(Debug, Serialize)]
struct Shown {
    brokers: Vec<ShownBroker>,
    version: i32,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownBroker {
    broker: i32,
    log_dirs: Vec<ShownDirectory>,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownDirectory {
    partitions: Vec<ShownPartition>,
    error: Option<String>,
    log_dir: String,
}

#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
struct ShownPartition {
    partition: String,
    size: i64,
    offset_lag: i64,
    is_future: bool,
}

impl ShownDirectory {
    /// What of a directory belongs to `topics`; all of it if there are none.
    fn of(found: &DescribeLogDirsResult, topics: &[String]) -> ShownDirectory {
        let wanted = found
            .topics
            .iter()
            .filter(|topic| topics.is_empty() || topics.iter().any(|name| **name == *topic.name));
        let partitions = wanted.flat_map(|topic| {
            topic.partitions.iter().map(|partition| ShownPartition {
                partition: format!("{}-{}", topic.name, partition.partition_index),
                size: partition.partition_size,
                offset_lag: partition.offset_lag,
                is_future: partition.is_future_key,
            })
        });
        let error = match ErrorCode::from_i16(found.error_code) {
            Some(ErrorCode::None) => None,
            // The name of Java's class is what scripts look for.
            Some(ErrorCode::KafkaStorageError) => {
                Some("org.apache.kafka.common.errors.KafkaStorageException".to_owned())
            }
            Some(code) => Some(code.name().to_owned()),
            None => Some(format!("error {}", found.error_code)),
        };
        ShownDirectory { partitions: partitions.collect(), error, log_dir: found.log_dir.to_string() }
    }
}

#[cfg(test)]
mod tests {
    use ottla_protocol::Str;
    use ottla_protocol::messages::describe_log_dirs::{DescribeLogDirsPartition, DescribeLogDirsTopic};

    use super::*;

    #[test]
    fn a_directory_is_shown_with_the_fields_of_kafkas_tool() {
        let topic = |name: &str, size| DescribeLogDirsTopic {
            name: Str::from(name),
            partitions: vec![DescribeLogDirsPartition { partition_size: size, ..Default::default() }],
            ..Default::default()
        };
        let found = DescribeLogDirsResult {
            log_dir: Str::from("/data"),
            topics: vec![topic("a", 72), topic("b", 0)],
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&ShownDirectory::of(&found, &["a".to_owned()])).unwrap(),
            r#"{"partitions":[{"partition":"a-0","size":72,"offsetLag":0,"isFuture":false}],"error":null,"logDir":"/data"}"#
        );
        let offline = DescribeLogDirsResult {
            error_code: ErrorCode::KafkaStorageError as i16,
            log_dir: Str::from("/gone"),
            ..Default::default()
        };
        assert_eq!(
            serde_json::to_string(&ShownDirectory::of(&offline, &[])).unwrap(),
            r#"{"partitions":[],"error":"org.apache.kafka.common.errors.KafkaStorageException","logDir":"/gone"}"#
        );
    }
}
