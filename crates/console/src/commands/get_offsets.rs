//! `kafka-get-offsets`: offsets of partitions, by place or time.

use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;
use ottla_client::{IsolationLevel, OffsetSpec};
use ottla_model::{Timestamp, TopicPartition};

use super::cluster::{Cluster, said};
use super::tools::{self, Failure};
use super::topic_filter::{TopicFilter, is_internal};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-get-offsets", about: "show offsets of partitions, by place or time", run };

/// Shows the offsets of partitions, TOPIC:PARTITION:OFFSET.
#[derive(Debug, Parser)]
#[command(name = "kafka-get-offsets")]
struct Options {
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..", required_unless_present = "broker_list")]
    bootstrap_server: Option<String>,
    /// The same, as it used to be called.
    #[arg(long, value_name = "HOST:PORT,..")]
    broker_list: Option<String>,
    /// Topics whose whole names match this regular expression; all without it.
    #[arg(long, value_name = "REGEX")]
    topic: Option<String>,
    /// Numbers of partitions, comma-separated; all without it.
    #[arg(long, value_name = "N,..")]
    partitions: Option<String>,
    /// Topics with their partitions: t, t:0, t:0-3 (without 3), t:5-, :0 for partition 0 of all; comma-separated.
    #[arg(long, value_name = "TOPIC:PARTITIONS,..")]
    topic_partitions: Option<String>,
    /// latest or -1, earliest or -2, max-timestamp or -3, or milliseconds since 1970.
    #[arg(long, default_value = "latest")]
    time: String,
    /// Leave internal topics out.
    #[arg(long)]
    exclude_internal_topics: bool,
    /// A file of settings of the client.
    #[arg(long, value_name = "FILE")]
    command_config: Option<PathBuf>,
}

fn run(arguments: Vec<String>) -> ExitCode {
    if arguments.len() <= 1 {
        return command_line::refuse::<Options>("An interactive shell for getting topic-partition offsets.");
    }
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(async move {
        match get(&options).await {
            Ok(lines) => {
                tools::print(&lines)?;
                Ok(ExitCode::SUCCESS)
            }
            Err(error) => Err(format!("Error occurred: {error}").into()),
        }
    })
}

async fn get(options: &Options) -> Result<String, Failure> {
    let rules = rules(options)?;
    let spec = offset_spec(&options.time)?;
    let bootstrap = options.bootstrap_server.as_deref().or(options.broker_list.as_deref());
    let cluster = Cluster::new(bootstrap, None)?.with_config(options.command_config.as_deref())?;
    let admin = cluster.admin().await?;

    let mut wanted: Vec<TopicPartition> = Vec::new();
    for topic in admin.list_topics().await? {
        if options.exclude_internal_topics && is_internal(&topic.name) {
            continue;
        }
        let numbers = 0..topic.partitions.len() as i32;
        let chosen = numbers.filter(|number| rules.iter().any(|rule| rule.matches(&topic.name, *number)));
        wanted.extend(chosen.map(|number| TopicPartition::new(topic.name.clone(), number)));
    }
    if wanted.is_empty() {
        return Err("Could not match any topic-partitions with the specified filters".into());
    }
    // As text, as Kafka's tool does: t-10 stands before t-2.
    wanted.sort_by_key(TopicPartition::to_string);

    let mut lines = String::new();
    let asked = wanted.into_iter().map(|partition| (partition, spec)).collect();
    for (partition, listed) in admin.list_offsets(asked, IsolationLevel::ReadUncommitted).await {
        match listed {
            Ok(listed) => {
                if let Some(offset) = listed.offset {
                    // Writing to a string cannot fail.
                    let _ = writeln!(lines, "{}:{}:{offset}", partition.topic, partition.partition);
                }
            }
            Err(error) => {
                let error = said(&error);
                eprintln!("Skip getting offsets for topic-partition {partition} due to error: {error}");
            }
        }
    }
    Ok(lines)
}

fn offset_spec(time: &str) -> Result<OffsetSpec, String> {
    match (time, time.parse()) {
        ("latest", _) | (_, Ok(-1)) => Ok(OffsetSpec::Latest),
        ("earliest", _) | (_, Ok(-2)) => Ok(OffsetSpec::Earliest),
        ("max-timestamp", _) | (_, Ok(-3)) => Ok(OffsetSpec::MaxTimestamp),
        // Without tiered storage all of a log is local.
        ("earliest-local", _) | (_, Ok(-4)) => Ok(OffsetSpec::Earliest),
        ("latest-tiered", _) | (_, Ok(-5)) => {
            Err("latest-tiered needs tiered storage, which there is none of".to_owned())
        }
        (_, Ok(ms)) => Ok(OffsetSpec::Timestamp(Timestamp(ms))),
        (_, Err(_)) => Err(format!(
            "Malformed time argument {time}. Please use -1 or latest / -2 or earliest / -3 or max-timestamp / \
             -4 or earliest-local / -5 or latest-tiered, or a specified long format timestamp"
        )),
    }
}

/// Topics, and which of their partitions.
struct Rule {
    /// `None` is every topic.
    topics: Option<TopicFilter>,
    partitions: Partitions,
}

enum Partitions {
    Listed(Vec<i32>),
    /// From the first, up to the second, which is left out.
    Range(i32, i32),
}

impl Rule {
    fn matches(&self, topic: &str, partition: i32) -> bool {
        let chosen = match &self.partitions {
            Partitions::Listed(numbers) => numbers.contains(&partition),
            Partitions::Range(start, end) => (*start..*end).contains(&partition),
        };
        chosen && self.topics.as_ref().is_none_or(|topics| topics.matches(topic))
    }

    /// Reads `t`, `t:0`, `t:0-3`, `t:5-`, `t:-3` and `:0`.
    fn parse(text: &str) -> Result<Rule, String> {
        let invalid = || format!("Invalid rule specification: {text}");
        let number = |text: &str, otherwise| match text {
            "" => Ok(otherwise),
            digits => digits.parse().ok().filter(|number| *number >= 0).ok_or_else(invalid),
        };
        let (topic, partitions) = text.split_once(':').unwrap_or((text, ""));
        let topics = if topic.is_empty() { None } else { Some(TopicFilter::new(topic)) };
        let partitions = match partitions.split_once('-') {
            Some((start, end)) => Partitions::Range(number(start, 0)?, number(end, i32::MAX)?),
            None if partitions.is_empty() => Partitions::Range(0, i32::MAX),
            None => Partitions::Listed(vec![number(partitions, 0)?]),
        };
        Ok(Rule { topics: topics.transpose().map_err(|error| error.to_string())?, partitions })
    }
}

fn rules(options: &Options) -> Result<Vec<Rule>, String> {
    if let Some(list) = &options.topic_partitions {
        if options.topic.is_some() || options.partitions.is_some() {
            return Err("--topic-partitions cannot be used with --topic or --partitions".to_owned());
        }
        return list.split(',').map(Rule::parse).collect();
    }
    let topics =
        options.topic.as_deref().map(TopicFilter::new).transpose().map_err(|error| error.to_string())?;
    let partitions = match options.partitions.as_deref() {
        None | Some("") => Partitions::Range(0, i32::MAX),
        Some(list) => {
            let numbers = list.split(',').map(str::parse).collect::<Result<Vec<i32>, _>>();
            Partitions::Listed(numbers.map_err(|_| {
                format!("--partitions expects a comma separated list of numeric partition ids, but received: {list}")
            })?)
        }
    };
    Ok(vec![Rule { topics, partitions }])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen(arguments: &[&str]) -> Result<Vec<String>, String> {
        let all = ["kafka-get-offsets", "--bootstrap-server", "b:1"].iter().chain(arguments);
        let rules = rules(&Options::try_parse_from(all).unwrap())?;
        let partitions = ["a", "b"].iter().flat_map(|topic| (0..4).map(move |number| (*topic, number)));
        let matching = |topic, number| rules.iter().any(|rule| rule.matches(topic, number));
        Ok(partitions.filter(|(t, n)| matching(t, *n)).map(|(t, n)| format!("{t}{n}")).collect())
    }

    #[test]
    fn partitions_are_chosen_as_the_options_say() {
        for (why, arguments, partitions) in [
            ("everything", &[][..], "a0 a1 a2 a3 b0 b1 b2 b3"),
            ("a topic", &["--topic", "a"], "a0 a1 a2 a3"),
            ("partitions of all topics", &["--partitions", "0,3"], "a0 a3 b0 b3"),
            ("one partition", &["--topic-partitions", "a:1"], "a1"),
            ("several rules", &["--topic-partitions", "a:1,b:2-3,:0"], "a0 a1 b0 b2"),
            ("from one on", &["--topic-partitions", "a:2-"], "a2 a3"),
            ("up to one", &["--topic-partitions", "a:-2"], "a0 a1"),
        ] {
            assert_eq!(chosen(arguments).unwrap().join(" "), partitions, "{why}");
        }
    }

    #[test]
    fn what_chooses_nothing_is_refused() {
        for (arguments, words) in [
            (&["--topic-partitions", "a:x"][..], "Invalid rule specification: a:x"),
            (
                &["--topic-partitions", "a", "--topic", "a"],
                "--topic-partitions cannot be used with --topic or --partitions",
            ),
            (
                &["--partitions", "0,x"],
                "--partitions expects a comma separated list of numeric partition ids, but received: 0,x",
            ),
        ] {
            assert_eq!(chosen(arguments).unwrap_err(), words);
        }
        assert!(offset_spec("soon").unwrap_err().starts_with("Malformed time argument soon. "));
    }

    #[test]
    fn times_have_names_and_numbers() {
        for (time, spec) in [
            ("latest", OffsetSpec::Latest),
            ("-1", OffsetSpec::Latest),
            ("earliest", OffsetSpec::Earliest),
            ("-2", OffsetSpec::Earliest),
            ("-3", OffsetSpec::MaxTimestamp),
            ("1700000000000", OffsetSpec::Timestamp(Timestamp(1_700_000_000_000))),
        ] {
            assert_eq!(offset_spec(time), Ok(spec), "{time}");
        }
    }
}
