//! `kafka-create-topic`: a topic made as Kafka 0.8.0's tool made it, by writing its assignment to ZooKeeper.

use std::collections::BTreeSet;
use std::hash::{BuildHasher, RandomState};
use std::process::ExitCode;

use clap::Parser;
use ottla_controller::{AssignmentRefusal, assign_replicas};
use ottla_model::{BrokerId, InvalidTopicName, TopicName};
use ottla_zookeeper::records::{EntityConfig, TopicAssignment};
use ottla_zookeeper::{CreateTopicError, KafkaZkClient, ZkError};

use super::tools::{self, Failure};
use super::zookeeper_brokers::{self, NoZooKeeper};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command = Command {
    name: "kafka-create-topic",
    about: "create a topic through ZooKeeper, as Kafka 0.8.0 did",
    run,
};

/// Creates a topic by writing its assignment to ZooKeeper; the brokers do the rest. (Kafka 0.8.0's tool.)
///
/// Exits with 0 whatever comes of it, as that tool did: scripts go by "creation succeeded!".
#[derive(Debug, Parser)]
#[command(name = "kafka-create-topic")]
struct Options {
    /// The topic to be created.
    #[arg(long)]
    topic: String,
    /// Where ZooKeeper is, with a chroot behind the last address.
    #[arg(long, value_name = "HOST:PORT,..[/CHROOT]")]
    zookeeper: String,
    /// How many partitions.
    #[arg(long, default_value_t = 1, value_name = "N")]
    partition: i32,
    /// How many replicas each of them has.
    #[arg(long, default_value_t = 1, value_name = "N")]
    replica: i32,
    /// The brokers of each partition, the preferred leader first, such as 0:1,1:2 for two partitions.
    #[arg(long, default_value = "", value_name = "ID:ID,ID:ID,..", hide_default_value = true)]
    replica_assignment_list: String,
}

/// Why no topic was created; the words of Kafka 0.8.0 where it knew the case.
#[derive(Debug, thiserror::Error)]
enum CreationFailed {
    #[error("{}", name_refusal(.0))]
    Name(InvalidTopicName),
    #[error("topic {0} already exists")]
    Exists(TopicName),
    #[error("number of partitions must be larger than 0")]
    Partitions,
    #[error("replication factor must be larger than 0")]
    ReplicationFactor,
    #[error("replication factor: {asked} larger than available brokers: {available}")]
    TooFewBrokers { asked: i32, available: usize },
    #[error("{0:?} is not a broker id")]
    NotAnId(String),
    #[error("duplicate brokers in replica assignment: {}", ids(.0))]
    DuplicateBrokers(Vec<BrokerId>),
    #[error("some specified brokers not available. specified brokers: {}, available brokers: {}", ids(.asked), ids(.live))]
    UnknownBrokers { asked: Vec<BrokerId>, live: Vec<BrokerId> },
    #[error("partition {partition} has different replication factor: {}", ids(.replicas))]
    UnevenReplicas { partition: i32, replicas: Vec<BrokerId> },
    #[error(transparent)]
    NoZooKeeper(#[from] NoZooKeeper),
    #[error(transparent)]
    ZooKeeper(#[from] ZkError),
}

fn name_refusal(refusal: &InvalidTopicName) -> String {
    match refusal {
        InvalidTopicName::Empty => "topic name is illegal, can't be empty".to_owned(),
        InvalidTopicName::Dots => "topic name cannot be \".\" or \"..\"".to_owned(),
        // Kafka 0.8.0 took 255, which later brokers refuse.
        InvalidTopicName::TooLong(_) => {
            format!(
                "topic name is illegal, can't be longer than {} characters",
                ottla_model::TOPIC_NAME_LENGTH_MAX
            )
        }
        InvalidTopicName::Character(name) => format!(
            "topic name {} is illegal, contains a character other than ASCII alphanumerics, '.', '_' and '-'",
            name.escape_debug()
        ),
    }
}

fn ids(brokers: &[BrokerId]) -> String {
    brokers.iter().map(BrokerId::to_string).collect::<Vec<_>>().join(",")
}

fn run(arguments: Vec<String>) -> ExitCode {
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(async {
        let said = match create(&options).await {
            Ok(()) => "creation succeeded!\n".to_owned(),
            Err(reason) => format!("creation failed because of {reason}\n"),
        };
        tools::print(&said)?;
        Ok::<_, Failure>(ExitCode::SUCCESS)
    })
}

async fn create(options: &Options) -> Result<(), CreationFailed> {
    let topic = TopicName::new(&options.topic).map_err(CreationFailed::Name)?;
    let zookeeper = zookeeper_brokers::connect(&options.zookeeper).await?;
    let outcome = create_in(&zookeeper, &topic, options).await;
    zookeeper_brokers::close(&zookeeper).await;
    outcome
}

async fn create_in(
    zookeeper: &KafkaZkClient,
    topic: &TopicName,
    options: &Options,
) -> Result<(), CreationFailed> {
    let (live, _watch) = zookeeper.broker_ids_and_watch().await?;
    let replicas = match options.replica_assignment_list.as_str() {
        "" => spread(&live, options.partition, options.replica)?,
        list => manual(list, &live)?,
    };
    // Without an id, as 0.8.0 wrote it: the controller gives one if the cluster's protocol version has them.
    let assignment = TopicAssignment { partitions: (0..).zip(replicas).collect(), ..Default::default() };
    match zookeeper.create_topic(topic, &assignment, &EntityConfig::default()).await {
        Ok(()) => Ok(()),
        Err(CreateTopicError::Exists(_)) => Err(CreationFailed::Exists(topic.clone())),
        Err(CreateTopicError::Zk(error)) => Err(error.into()),
    }
}

fn spread(live: &[BrokerId], partitions: i32, factor: i32) -> Result<Vec<Vec<BrokerId>>, CreationFailed> {
    // The standard library seeds each hasher from the system's generator. Where a topic begins is chance; no more is at stake.
    let chance = || RandomState::new().hash_one(0u8) as usize % live.len().max(1);
    assign_replicas(live, partitions, factor, chance(), chance()).map_err(|refusal| match refusal {
        AssignmentRefusal::Partitions(_) => CreationFailed::Partitions,
        AssignmentRefusal::ReplicationFactor { asked: ..=0, .. } => CreationFailed::ReplicationFactor,
        AssignmentRefusal::ReplicationFactor { asked, brokers } => {
            CreationFailed::TooFewBrokers { asked, available: brokers }
        }
    })
}

/// Reads `0:1,1:2`.
fn manual(list: &str, live: &[BrokerId]) -> Result<Vec<Vec<BrokerId>>, CreationFailed> {
    let mut partitions: Vec<Vec<BrokerId>> = Vec::new();
    for (partition, text) in (0..).zip(list.split(',')) {
        let id = |text: &str| match text.trim().parse() {
            Ok(id) => Ok(BrokerId(id)),
            Err(_) => Err(CreationFailed::NotAnId(text.to_owned())),
        };
        let replicas: Vec<BrokerId> = text.split(':').map(id).collect::<Result<_, _>>()?;
        let different: BTreeSet<&BrokerId> = replicas.iter().collect();
        if different.len() != replicas.len() {
            return Err(CreationFailed::DuplicateBrokers(replicas));
        }
        if !replicas.iter().all(|replica| live.contains(replica)) {
            return Err(CreationFailed::UnknownBrokers { asked: replicas, live: live.to_vec() });
        }
        if partitions.first().is_some_and(|first| first.len() != replicas.len()) {
            return Err(CreationFailed::UnevenReplicas { partition, replicas });
        }
        partitions.push(replicas);
    }
    Ok(partitions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn brokers(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    #[test]
    fn an_assignment_by_hand_is_read_partition_by_partition() {
        let live = brokers(&[0, 1, 2]);
        assert_eq!(manual("0:1, 1 : 2", &live).unwrap(), [brokers(&[0, 1]), brokers(&[1, 2])]);
        assert_eq!(manual("2", &live).unwrap(), [brokers(&[2])]);
    }

    #[test]
    fn refusals_have_the_words_of_the_old_tool() {
        let live = brokers(&[0, 1]);
        let manual = |list| manual(list, &live).unwrap_err().to_string();
        for (why, said, words) in [
            ("a broker twice", manual("0:0"), "duplicate brokers in replica assignment: 0,0"),
            (
                "a broker that is not there",
                manual("0:9"),
                "some specified brokers not available. specified brokers: 0,9, available brokers: 0,1",
            ),
            ("rows of different length", manual("0:1,1"), "partition 1 has different replication factor: 1"),
            ("no number", manual("0,x"), "\"x\" is not a broker id"),
            ("an empty row", manual("0,,1"), "\"\" is not a broker id"),
            (
                "more replicas than brokers",
                spread(&live, 1, 5).unwrap_err().to_string(),
                "replication factor: 5 larger than available brokers: 2",
            ),
            (
                "no partition",
                spread(&live, 0, 1).unwrap_err().to_string(),
                "number of partitions must be larger than 0",
            ),
            (
                "no replica",
                spread(&live, 1, 0).unwrap_err().to_string(),
                "replication factor must be larger than 0",
            ),
            (
                "a path for a name",
                CreationFailed::Name(TopicName::new("a/b").unwrap_err()).to_string(),
                "topic name a/b is illegal, contains a character other than ASCII alphanumerics, '.', '_' and '-'",
            ),
            (
                "no name",
                CreationFailed::Name(TopicName::new("").unwrap_err()).to_string(),
                "topic name is illegal, can't be empty",
            ),
        ] {
            assert_eq!(said, words, "{why}");
        }
    }
}
