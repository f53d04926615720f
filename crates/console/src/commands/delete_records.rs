//! `kafka-delete-records`: records before an offset dropped, partition by partition.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ottla_model::{Offset, TopicName, TopicPartition};
use serde_json::Value;

use super::cluster::{ClusterOptions, said};
use super::tools::{self, Failure};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-delete-records", about: "drop the records before given offsets", run };

/// Drops the records of partitions that lie before given offsets.
#[derive(Debug, Parser)]
#[command(name = "kafka-delete-records")]
struct Options {
    #[command(flatten)]
    cluster: ClusterOptions,
    /// What to drop: {"partitions":[{"topic":"t","partition":0,"offset":5}],"version":1}; offset -1 drops all.
    #[arg(long, value_name = "FILE")]
    offset_json_file: PathBuf,
}

fn run(arguments: Vec<String>) -> ExitCode {
    if arguments.len() <= 1 {
        let about = "This tool helps to delete records of the given partitions down to the specified offset.";
        return command_line::refuse::<Options>(about);
    }
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(async move {
        let path = &options.offset_json_file;
        let text = std::fs::read_to_string(path);
        let text = text.map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        let before = offsets(&text)?;
        let admin = options.cluster.admin().await?;
        tools::print("Executing records delete operation\n")?;
        let mut lines = "Records delete operation completed:\n".to_owned();
        for (partition, outcome) in admin.delete_records(before).await {
            // Writing to a string cannot fail.
            let _ = match outcome {
                Ok(low) => writeln!(lines, "partition: {partition}\tlow_watermark: {low}"),
                Err(error) => writeln!(lines, "partition: {partition}\terror: {}", said(&error)),
            };
        }
        tools::print(&lines)?;
        Ok(ExitCode::SUCCESS)
    })
}

/// Reads the file, in Kafka's words where it cannot be used.
fn offsets(text: &str) -> Result<Vec<(TopicPartition, Offset)>, Failure> {
    let json: Value = serde_json::from_str(text).map_err(|_| "The input string is not a valid JSON")?;
    match json.get("version").map(|version| (version, version.as_i64())) {
        None | Some((_, Some(1))) => {}
        Some((version, _)) => return Err(format!("Not supported version field value {version}").into()),
    }
    let entries = json.get("partitions").and_then(Value::as_array).ok_or("Missing partitions field")?;
    let mut offsets: BTreeMap<TopicPartition, Offset> = BTreeMap::new();
    let mut duplicates = Vec::new();
    for entry in entries {
        let field = |name: &str| entry.get(name).ok_or_else(|| format!("No such field exists: `{name}`"));
        let malformed = |name: &str| format!("`{name}` has no usable value: {entry}");
        let topic = field("topic")?.as_str().ok_or_else(|| malformed("topic"))?;
        let number = field("partition")?.as_i64().and_then(|number| i32::try_from(number).ok());
        let partition =
            TopicPartition::new(TopicName::new(topic)?, number.ok_or_else(|| malformed("partition"))?);
        let offset = Offset(field("offset")?.as_i64().ok_or_else(|| malformed("offset"))?);
        if offsets.insert(partition.clone(), offset).is_some() {
            duplicates.push(partition.to_string());
        }
    }
    if !duplicates.is_empty() {
        let duplicates = duplicates.join(",");
        return Err(format!("Offset json file contains duplicate topic partitions: {duplicates}").into());
    }
    Ok(offsets.into_iter().collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_read_by_partition() {
        let text = r#"{"partitions":[{"topic":"t","partition":1,"offset":-1},{"topic":"t","partition":0,"offset":5}],"version":1}"#;
        let read: Vec<String> = offsets(text)
            .unwrap()
            .iter()
            .map(|(partition, offset)| format!("{partition}@{offset}"))
            .collect();
        assert_eq!(read, ["t-0@5", "t-1@-1"]);
    }

    #[test]
    fn what_is_wrong_with_the_file_is_said() {
        for (text, words) in [
            ("{", "The input string is not a valid JSON"),
            (r#"{"version":2,"partitions":[]}"#, "Not supported version field value 2"),
            ("{}", "Missing partitions field"),
            (r#"{"partitions":[{"topic":"t"}]}"#, "No such field exists: `partition`"),
            (
                r#"{"partitions":[{"topic":"t","partition":0,"offset":1},{"topic":"t","partition":0,"offset":2}]}"#,
                "Offset json file contains duplicate topic partitions: t-0",
            ),
        ] {
            assert_eq!(offsets(text).unwrap_err().to_string(), words);
        }
    }
}
