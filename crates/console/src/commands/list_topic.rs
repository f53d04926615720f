//! `kafka-list-topic`: partitions, leaders, replicas and ISR as ZooKeeper has them, in the lines of Kafka 0.8.0's tool.

use std::fmt::Write;
use std::process::ExitCode;

use clap::Parser;
use ottla_model::{BrokerId, TopicName, TopicPartition};
use ottla_zookeeper::records::PartitionState;
use ottla_zookeeper::{KafkaZkClient, ZkError};

use super::tools::{self, Failure};
use super::zookeeper_brokers::{self, NoZooKeeper};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command = Command {
    name: "kafka-list-topic",
    about: "list partitions, leaders and ISR from ZooKeeper, as Kafka 0.8.0 did",
    run,
};

/// Lists the partitions of topics with their leader, replicas and ISR, as ZooKeeper has them. (Kafka 0.8.0's tool.)
///
/// The leader is -1 where all replicas are down, and none where there has not been one yet.
#[derive(Debug, Parser)]
#[command(name = "kafka-list-topic")]
struct Options {
    /// Where ZooKeeper is, with a chroot behind the last address.
    #[arg(long, value_name = "HOST:PORT,..[/CHROOT]")]
    zookeeper: String,
    /// The topic to be listed; all of them without it.
    #[arg(long, default_value = "", hide_default_value = true)]
    topic: String,
    /// Only partitions whose ISR is smaller than their list of replicas.
    #[arg(long)]
    under_replicated_partitions: bool,
    /// Only partitions whose leader is not alive.
    #[arg(long)]
    unavailable_partitions: bool,
}

#[derive(Debug, thiserror::Error)]
enum ListFailed {
    #[error(transparent)]
    NoZooKeeper(#[from] NoZooKeeper),
    #[error(transparent)]
    ZooKeeper(#[from] ZkError),
}

fn run(arguments: Vec<String>) -> ExitCode {
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(async {
        let said = match list(&options).await {
            Ok(lines) => lines,
            Err(reason) => format!("list topic failed because of {reason}\n"),
        };
        tools::print(&said)?;
        Ok::<_, Failure>(ExitCode::SUCCESS)
    })
}

async fn list(options: &Options) -> Result<String, ListFailed> {
    let zookeeper = zookeeper_brokers::connect(&options.zookeeper).await?;
    let lines = list_from(&zookeeper, options).await;
    zookeeper_brokers::close(&zookeeper).await;
    lines
}

async fn list_from(zookeeper: &KafkaZkClient, options: &Options) -> Result<String, ListFailed> {
    let topics = match options.topic.as_str() {
        "" => zookeeper.topics_and_watch().await?.0,
        // A name that no topic may have is one that no topic has.
        name => match TopicName::new(name) {
            Ok(topic) => vec![topic],
            Err(_) => return Ok(missing(name)),
        },
    };
    if topics.is_empty() {
        return Ok("no topics exist!\n".to_owned());
    }
    let (live, _watch) = zookeeper.broker_ids_and_watch().await?;
    let assignments = zookeeper.read_topics(&topics).await;

    let mut lines = String::new();
    let mut rows = Vec::new();
    for (topic, assignment) in topics.iter().zip(assignments) {
        match assignment? {
            Some(found) => {
                rows.extend(
                    found.record.partitions.into_iter().map(|(partition, replicas)| {
                        (TopicPartition::new(topic.clone(), partition), replicas)
                    }),
                )
            }
            // Deleted a moment ago, or never there.
            None if options.topic.is_empty() => {}
            None => lines.push_str(&missing(topic)),
        }
    }
    let partitions: Vec<TopicPartition> = rows.iter().map(|(partition, _)| partition.clone()).collect();
    let states = zookeeper.read_states(&partitions).await;
    for ((partition, replicas), state) in rows.into_iter().zip(states) {
        let row = Row { partition, replicas, state: state?.map(|found| found.record) };
        if row.is_wanted(options, &live) {
            row.write(&mut lines);
        }
    }
    Ok(lines)
}

fn missing(topic: &str) -> String {
    format!("topic {} doesn't exist!\n", topic.escape_debug())
}

/// One line of the list.
struct Row {
    partition: TopicPartition,
    replicas: Vec<BrokerId>,
    /// `None` until the controller has seen the partition.
    state: Option<PartitionState>,
}

impl Row {
    /// Two filters together show what either of them shows.
    fn is_wanted(&self, options: &Options, live: &[BrokerId]) -> bool {
        let (under_replicated, unavailable) =
            (options.under_replicated_partitions, options.unavailable_partitions);
        let in_sync = self.state.as_ref().map_or(0, |state| state.isr.len());
        let led = self.state.as_ref().is_some_and(|state| live.contains(&state.leader));
        (!under_replicated && !unavailable)
            || (under_replicated && in_sync < self.replicas.len())
            || (unavailable && !led)
    }

    /// `topic: t\tpartition: 0\tleader: 1\treplicas: 1,2\tisr: 1,2`
    fn write(&self, lines: &mut String) {
        let TopicPartition { topic, partition } = &self.partition;
        let leader = self.state.as_ref().map_or("none".to_owned(), |state| state.leader.to_string());
        let isr = self.state.as_ref().map_or(&[][..], |state| &state.isr);
        let (replicas, isr) = (ids(&self.replicas), ids(isr));
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "topic: {topic}\tpartition: {partition}\tleader: {leader}\treplicas: {replicas}\tisr: {isr}"
        );
    }
}

fn ids(brokers: &[BrokerId]) -> String {
    brokers.iter().map(BrokerId::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use ottla_model::{ControllerEpoch, LeaderEpoch};

    use super::*;

    fn row(leader: Option<i32>, replicas: &[i32], isr: &[i32]) -> Row {
        let brokers = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
        Row {
            partition: TopicPartition::new(TopicName::new("t").unwrap(), 0),
            replicas: brokers(replicas),
            state: leader.map(|leader| PartitionState {
                leader: BrokerId(leader),
                leader_epoch: LeaderEpoch(0),
                isr: brokers(isr),
                controller_epoch: ControllerEpoch(1),
                recovering: false,
            }),
        }
    }

    fn options(under_replicated_partitions: bool, unavailable_partitions: bool) -> Options {
        Options {
            zookeeper: String::new(),
            topic: String::new(),
            under_replicated_partitions,
            unavailable_partitions,
        }
    }

    #[test]
    fn a_partition_is_a_line_of_fields_with_tabs_between_them() {
        for (why, row, line) in [
            (
                "a healthy one",
                row(Some(1), &[1, 2], &[1, 2]),
                "topic: t\tpartition: 0\tleader: 1\treplicas: 1,2\tisr: 1,2\n",
            ),
            (
                "all replicas down",
                row(Some(-1), &[1], &[1]),
                "topic: t\tpartition: 0\tleader: -1\treplicas: 1\tisr: 1\n",
            ),
            (
                "not led yet",
                row(None, &[1], &[]),
                "topic: t\tpartition: 0\tleader: none\treplicas: 1\tisr: \n",
            ),
        ] {
            let mut lines = String::new();
            row.write(&mut lines);
            assert_eq!(lines, line, "{why}");
        }
    }

    #[test]
    fn filters_show_what_is_wrong() {
        let live = [BrokerId(0), BrokerId(1)];
        for (why, row, under_replicated, unavailable) in [
            ("healthy", row(Some(0), &[0, 1], &[0, 1]), false, false),
            ("a follower has fallen out", row(Some(0), &[0, 1], &[0]), true, false),
            ("its leader has just died", row(Some(7), &[7, 0], &[7, 0]), false, true),
            ("nobody leads it", row(Some(-1), &[7], &[7]), false, true),
            ("never led", row(None, &[0], &[]), true, true),
        ] {
            assert!(row.is_wanted(&options(false, false), &live), "{why}");
            assert_eq!(row.is_wanted(&options(true, false), &live), under_replicated, "{why}");
            assert_eq!(row.is_wanted(&options(false, true), &live), unavailable, "{why}");
            assert_eq!(row.is_wanted(&options(true, true), &live), under_replicated || unavailable, "{why}");
        }
    }
}
