//! Making topics, and having them deleted.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ottla_controller::{AssignmentRefusal, assign_replicas};
use ottla_model::{BrokerId, InvalidTopicName, TOPIC_NAME_LENGTH_MAX, TopicName, Uuid};
use ottla_protocol::ErrorCode;
use ottla_zookeeper::records::{EntityConfig, TopicAssignment};
use ottla_zookeeper::{CreateTopicError, WatchEvent, ZkError, paths};

use crate::config::{
    ConfigError, OffsetsConfig, ProtocolVersion, TopicConfig, TopicOverrides, TransactionConfig,
};
use crate::random;
use crate::server::Broker;

/// Groups and their offsets.
pub const OFFSETS_TOPIC: &str = "__consumer_offsets";
/// Transactions.
pub const TRANSACTIONS_TOPIC: &str = "__transaction_state";

/// Topics that the coordinators write.
pub fn is_internal(name: &str) -> bool {
    matches!(name, OFFSETS_TOPIC | TRANSACTIONS_TOPIC)
}

/// A topic as somebody asks for it.
#[derive(Debug, Clone)]
pub struct NewTopic {
    pub name: TopicName,
    pub placement: Placement,
    pub config: TopicOverrides,
}

/// Where its partitions go.
#[derive(Debug, Clone)]
pub enum Placement {
    /// Spread over the live brokers; `None` takes the broker's default.
    Spread { partitions: Option<i32>, replication_factor: Option<i32> },
    /// By hand: replicas of each partition, the preferred leader first.
    Manual(BTreeMap<i32, Vec<BrokerId>>),
}

/// A topic that may be made, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    pub name: TopicName,
    pub assignment: BTreeMap<i32, Vec<BrokerId>>,
    pub config: TopicOverrides,
}

/// Why a topic is not made. The texts are what Kafka tells its clients.
#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("{}", invalid_name(.0))]
    Name(#[from] InvalidTopicName),
    #[error("Topic '{0}' already exists.")]
    Exists(TopicName),
    #[error("Topic '{0}' is marked for deletion.")]
    Marked(TopicName),
    #[error("Topic '{name}' collides with existing topics: {other}")]
    Collides { name: TopicName, other: TopicName },
    #[error("Creation of internal topic {0} is prohibited.")]
    Reserved(TopicName),
    #[error("Number of partitions must be larger than 0.")]
    Partitions,
    #[error("Replication factor must be larger than 0.")]
    ReplicationFactor,
    #[error("Replication factor: {asked} larger than available brokers: {available}.")]
    TooFewBrokers { asked: i32, available: usize },
    #[error(
        "Both numPartitions or replicationFactor and replicasAssignments were set. Both cannot be used at the same time."
    )]
    CountsAndAssignment,
    #[error("{0}")]
    Assignment(String),
    #[error("Null value not supported for topic configs: {0}")]
    NullConfig(String),
    #[error("{}", client_message(.0))]
    Config(#[from] ConfigError),
    #[error(transparent)]
    ZooKeeper(#[from] ZkError),
}

impl CreateError {
    pub fn code(&self) -> ErrorCode {
        match self {
            CreateError::Name(_) | CreateError::Collides { .. } => ErrorCode::InvalidTopicException,
            CreateError::Exists(_) | CreateError::Marked(_) => ErrorCode::TopicAlreadyExists,
            CreateError::Reserved(_) | CreateError::CountsAndAssignment => ErrorCode::InvalidRequest,
            CreateError::Partitions => ErrorCode::InvalidPartitions,
            CreateError::ReplicationFactor | CreateError::TooFewBrokers { .. } => {
                ErrorCode::InvalidReplicationFactor
            }
            CreateError::Assignment(_) => ErrorCode::InvalidReplicaAssignment,
            CreateError::NullConfig(_) | CreateError::Config(_) => ErrorCode::InvalidConfig,
            CreateError::ZooKeeper(_) => ErrorCode::UnknownServerError,
        }
    }
}

/// Why a name is none, as Kafka tells its clients.
pub fn invalid_name(name: &InvalidTopicName) -> String {
    let why = match name {
        InvalidTopicName::Empty => "the empty string is not allowed".to_owned(),
        InvalidTopicName::Dots => "'.' and '..' are not allowed".to_owned(),
        InvalidTopicName::TooLong(length) => {
            format!("its length of {length} is longer than the max allowed length {TOPIC_NAME_LENGTH_MAX}")
        }
        InvalidTopicName::Character(name) => format!(
            "'{}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'",
            name.escape_debug()
        ),
    };
    format!("Topic name is invalid: {why}")
}

/// What is wrong with a configuration, for the client that sent it: it knows where the value comes from.
pub fn client_message(error: &ConfigError) -> String {
    match error {
        ConfigError::Value(bad) => {
            format!("Invalid value {} for configuration {}: {}", bad.value, bad.key, bad.reason)
        }
        other => other.to_string(),
    }
}

/// Checks a request for a topic and decides where its replicas go. Changes nothing.
pub fn plan(broker: &Broker, topic: NewTopic) -> Result<Plan, CreateError> {
    let NewTopic { name, placement, config } = topic;
    if name.as_str() == "__cluster_metadata" {
        return Err(CreateError::Reserved(name));
    }
    if broker.metadata.topic(&name).is_some() {
        return Err(CreateError::Exists(name));
    }
    if let Some(other) = collision(broker, &name) {
        return Err(CreateError::Collides { name, other });
    }
    let assignment = match placement {
        Placement::Spread { partitions, replication_factor } => {
            let defaults = &broker.config.topics;
            let partitions = partitions.unwrap_or(defaults.partitions);
            let factor = replication_factor.unwrap_or(defaults.replication_factor.into());
            spread(broker, partitions, factor)?
        }
        Placement::Manual(assignment) => checked(assignment)?,
    };
    TopicConfig::validate(&broker.dynamic.settings(), &config)?;
    Ok(Plan { name, assignment, config })
}

/// An existing topic whose name is the same but for `.` and `_`: their metrics would be the same.
fn collision(broker: &Broker, name: &TopicName) -> Option<TopicName> {
    if !name.contains(['.', '_']) {
        return None;
    }
    let topics = broker.metadata.topics();
    topics.iter().find(|topic| topic.name.collides_with(name)).map(|topic| topic.name.clone())
}

fn spread(
    broker: &Broker,
    partitions: i32,
    replication_factor: i32,
) -> Result<BTreeMap<i32, Vec<BrokerId>>, CreateError> {
    let brokers: Vec<BrokerId> = broker.metadata.brokers().iter().map(|broker| broker.id).collect();
    let start = random::below(brokers.len());
    let shift = random::below(brokers.len());
    let placed = assign_replicas(&brokers, partitions, replication_factor, start, shift);
    let placed = placed.map_err(|refusal| match refusal {
        AssignmentRefusal::Partitions(_) => CreateError::Partitions,
        AssignmentRefusal::ReplicationFactor { asked: ..=0, .. } => CreateError::ReplicationFactor,
        AssignmentRefusal::ReplicationFactor { asked, brokers } => {
            CreateError::TooFewBrokers { asked, available: brokers }
        }
    })?;
    Ok((0..).zip(placed).collect())
}

/// Partitions from 0 without a gap, each with the same number of replicas, none of them twice. Whether the brokers live
/// is not asked, as Kafka does not.
fn checked(assignment: BTreeMap<i32, Vec<BrokerId>>) -> Result<BTreeMap<i32, Vec<BrokerId>>, CreateError> {
    let refuse = |why: &str| Err(CreateError::Assignment(why.to_owned()));
    if !assignment.keys().copied().eq(0..assignment.len() as i32) {
        return refuse("partitions should be a consecutive 0-based integer sequence");
    }
    let factor = assignment.values().next().map_or(0, Vec::len);
    for replicas in assignment.values() {
        if replicas.is_empty() {
            return refuse("a partition must have at least one replica");
        }
        if replicas.len() != factor {
            return refuse("All partitions should have the same number of replicas");
        }
        if replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
            return refuse("a broker can hold only one replica of a partition");
        }
        if replicas.iter().any(|replica| replica.0 < 0) {
            return refuse("broker ids must not be negative");
        }
    }
    Ok(assignment)
}

/// Writes a planned topic into ZooKeeper, where the controller finds it.
///
/// Not while one of that name is on its way out: the deletion that ends would take the new topic's configuration along.
pub async fn create(broker: &Broker, plan: &Plan) -> Result<Uuid, CreateError> {
    if broker.zookeeper.store().exists(&paths::delete_topic(&plan.name)).await?.is_some() {
        return Err(CreateError::Marked(plan.name.clone()));
    }
    let has_ids = broker.config.inter_broker_protocol >= ProtocolVersion::V2_8_IV0;
    let topic_id = has_ids.then(random::uuid);
    let assignment = TopicAssignment { topic_id, partitions: plan.assignment.clone(), ..Default::default() };
    // Before the controller can order this broker to make a log with it.
    broker.topic_configs.set(&plan.name, plan.config.clone());
    let config = EntityConfig(plan.config.clone());
    match broker.zookeeper.create_topic(&plan.name, &assignment, &config).await {
        Ok(()) => Ok(topic_id.unwrap_or(Uuid::ZERO)),
        Err(CreateTopicError::Exists(_)) => Err(CreateError::Exists(plan.name.clone())),
        Err(CreateTopicError::Zk(error)) => Err(error.into()),
    }
}

/// Why a topic gets no more partitions. The texts are what Kafka tells its clients.
#[derive(Debug, thiserror::Error)]
pub enum AddError {
    #[error("The topic '{0}' does not exist.")]
    UnknownTopic(String),
    #[error("Topic already has {0} partitions.")]
    NoMore(usize),
    #[error("Topic currently has {current} partitions, which is higher than the requested {asked}.")]
    Fewer { current: usize, asked: i32 },
    #[error("Unknown broker(s) in replica assignment: {0}.")]
    UnknownBrokers(String),
    #[error("Increasing the number of partitions by {added} but {assigned} assignments provided.")]
    Assignments { added: usize, assigned: usize },
    #[error("Cannot have replication factor of 0 for partition id {0}.")]
    NoReplica(i32),
    #[error("Duplicate brokers not allowed in replica assignment: {replicas} for partition id {partition}.")]
    BrokerTwice { replicas: String, partition: i32 },
    #[error(
        "Inconsistent replication factor between partitions, partition 0 has {first} while partition {partition} has replication factor {got}."
    )]
    Uneven { first: usize, partition: i32, got: usize },
    #[error("Replication factor: {asked} larger than available brokers: {available}.")]
    TooFewBrokers { asked: usize, available: usize },
    #[error("{}", .0.message())]
    Controller(ErrorCode),
}

impl AddError {
    pub fn code(&self) -> ErrorCode {
        match self {
            AddError::UnknownTopic(_) => ErrorCode::UnknownTopicOrPartition,
            AddError::NoMore(_) | AddError::Fewer { .. } => ErrorCode::InvalidPartitions,
            AddError::UnknownBrokers(_)
            | AddError::Assignments { .. }
            | AddError::NoReplica(_)
            | AddError::BrokerTwice { .. }
            | AddError::Uneven { .. } => ErrorCode::InvalidReplicaAssignment,
            AddError::TooFewBrokers { .. } => ErrorCode::InvalidReplicationFactor,
            AddError::Controller(error) => *error,
        }
    }
}

/// Checks a request for more partitions and decides where they go: by hand, or on from where the topic's first partition
/// begins. Changes nothing.
pub fn plan_more(
    broker: &Broker,
    topic: &str,
    count: i32,
    by_hand: Option<Vec<Vec<BrokerId>>>,
) -> Result<(TopicName, BTreeMap<i32, Vec<BrokerId>>), AddError> {
    let topic = broker.metadata.topic(topic).ok_or_else(|| AddError::UnknownTopic(topic.to_owned()))?;
    let current = topic.partitions.len();
    let added = match usize::try_from(count).ok().and_then(|count| count.checked_sub(current)) {
        None => return Err(AddError::Fewer { current, asked: count }),
        Some(0) => return Err(AddError::NoMore(current)),
        Some(added) => added,
    };
    let first = topic.partitions.values().next().map_or(&[][..], |partition| &partition.replicas);
    let live: Vec<BrokerId> = broker.metadata.brokers().iter().map(|broker| broker.id).collect();
    let replicas = match by_hand {
        Some(by_hand) => checked_more(by_hand, current, added, first.len(), &live)?,
        None => spread_more(current, added, first, &live)?,
    };
    Ok((topic.name.clone(), (current as i32..).zip(replicas).collect()))
}

fn checked_more(
    by_hand: Vec<Vec<BrokerId>>,
    current: usize,
    added: usize,
    factor: usize,
    live: &[BrokerId],
) -> Result<Vec<Vec<BrokerId>>, AddError> {
    let list = |brokers: &[BrokerId]| brokers.iter().map(BrokerId::to_string).collect::<Vec<_>>().join(", ");
    let unknown: BTreeSet<BrokerId> =
        by_hand.iter().flatten().copied().filter(|id| !live.contains(id)).collect();
    if !unknown.is_empty() {
        return Err(AddError::UnknownBrokers(list(&Vec::from_iter(unknown))));
    }
    if by_hand.len() != added {
        return Err(AddError::Assignments { added, assigned: by_hand.len() });
    }
    for (partition, replicas) in (current as i32..).zip(&by_hand) {
        if replicas.is_empty() {
            return Err(AddError::NoReplica(partition));
        }
        if replicas.iter().collect::<BTreeSet<_>>().len() != replicas.len() {
            return Err(AddError::BrokerTwice { replicas: list(replicas), partition });
        }
        if replicas.len() != factor {
            return Err(AddError::Uneven { first: factor, partition, got: replicas.len() });
        }
    }
    Ok(by_hand)
}

/// Goes on where the topic's partitions ended, as Kafka does: round robin from the broker of the first partition's leader.
fn spread_more(
    current: usize,
    added: usize,
    first: &[BrokerId],
    live: &[BrokerId],
) -> Result<Vec<Vec<BrokerId>>, AddError> {
    let start = first.first().and_then(|leader| live.iter().position(|id| id >= leader)).unwrap_or(0);
    // The shift grows with each round that is complete, but rounds from before do not count. It counts modulo one less than
    // there are brokers, so a whole number of those is added to stay above zero.
    let rounds = current.saturating_sub(1) / live.len().max(1);
    let shift = start + rounds * live.len().saturating_sub(2);
    let total = i32::try_from(current + added).unwrap_or(i32::MAX);
    let placed = assign_replicas(live, total, first.len() as i32, start, shift)
        .map_err(|_| AddError::TooFewBrokers { asked: first.len(), available: live.len() })?;
    Ok(placed.into_iter().skip(current).collect())
}

/// Makes a topic that a client asked the metadata of, with the broker's defaults. One that appeared meanwhile is as good.
pub async fn auto_create(broker: &Broker, name: &TopicName) -> Result<(), CreateError> {
    let (partitions, replication_factor, config) = match name.as_str() {
        OFFSETS_TOPIC => offsets_topic(&broker.config.offsets),
        TRANSACTIONS_TOPIC => transactions_topic(&broker.config.transactions),
        _ => (None, None, TopicOverrides::new()),
    };
    let placement = Placement::Spread { partitions, replication_factor };
    let planned = plan(broker, NewTopic { name: name.clone(), placement, config });
    let created = match planned {
        Ok(plan) => create(broker, &plan).await.map(drop),
        Err(error) => Err(error),
    };
    match created {
        Err(CreateError::Exists(_)) => Ok(()),
        other => other,
    }
}

type Shape = (Option<i32>, Option<i32>, TopicOverrides);

/// One batch per commit, compressed as the coordinator chose, the last record of each key kept.
fn offsets_topic(config: &OffsetsConfig) -> Shape {
    let overrides = overrides([
        ("cleanup.policy", "compact".to_owned()),
        ("compression.type", "producer".to_owned()),
        ("segment.bytes", config.topic_segment_bytes.to_string()),
    ]);
    (Some(config.topic_partitions), Some(config.topic_replication_factor.into()), overrides)
}

/// The same, but nothing of it may be lost: a transaction half forgotten is worse than none.
fn transactions_topic(config: &TransactionConfig) -> Shape {
    let overrides = overrides([
        ("cleanup.policy", "compact".to_owned()),
        ("compression.type", "uncompressed".to_owned()),
        ("min.insync.replicas", config.topic_min_isr.to_string()),
        ("segment.bytes", config.topic_segment_bytes.to_string()),
        ("unclean.leader.election.enable", "false".to_owned()),
    ]);
    (Some(config.topic_partitions), Some(config.topic_replication_factor.into()), overrides)
}

fn overrides<const N: usize>(pairs: [(&str, String); N]) -> TopicOverrides {
    pairs.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

/// Asks the controller to delete a topic.
pub async fn mark_for_deletion(broker: &Broker, name: &TopicName) -> Result<(), ZkError> {
    broker.zookeeper.mark_topic_for_deletion(name).await.map(drop)
}

/// Waits until nothing is left of a topic that was marked, and its name is free again.
pub async fn deleted(broker: &Broker, name: &TopicName) {
    let mark = paths::delete_topic(name);
    // An error ends the wait: the deletion goes on without it.
    while let Ok((Some(_), watch)) = broker.zookeeper.store().exists_and_watch(&mark).await {
        if watch.await == WatchEvent::SessionOver {
            return;
        }
    }
}

/// Whether clients can use the topic: every partition has a leader.
pub fn has_leaders(broker: &Broker, name: &str) -> bool {
    broker
        .metadata
        .topic(name)
        .is_some_and(|topic| topic.partitions.values().all(|partition| partition.leader != BrokerId::NONE))
}

/// Whether the topic has so many partitions, and all of them leaders.
pub fn has_partitions(broker: &Broker, name: &str, count: i32) -> bool {
    let topic = broker.metadata.topic(name);
    topic.is_some_and(|topic| topic.partitions.len() as i64 >= count.into()) && has_leaders(broker, name)
}

/// Waits for the metadata to say so, but no longer than `timeout`. `false` if it did not, and always where no time is
/// given: the client does not want to wait, and is told that it did not.
pub async fn wait_until(broker: &Broker, timeout: Duration, so: impl Fn(&Broker) -> bool) -> bool {
    if timeout.is_zero() {
        return false;
    }
    let mut changes = broker.metadata.changes();
    let wait = async {
        while !so(broker) {
            if changes.changed().await.is_err() {
                return;
            }
        }
    };
    tokio::time::timeout(timeout, wait).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_partitions_go_on_where_the_first_ones_ended() {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        for (why, current, added, first, live, expected) in [
            ("one broker", 2, 2, &[7][..], &[7][..], vec![vec![7], vec![7]]),
            ("round robin from the first leader", 3, 3, &[1], &[0, 1, 2], vec![vec![1], vec![2], vec![0]]),
            // What Kafka's AdminUtils gives for brokers 0 to 4, start index and shift 0, start partition 5.
            ("the shift grows", 5, 2, &[0, 1, 2], &[0, 1, 2, 3, 4], vec![vec![0, 2, 3], vec![1, 3, 4]]),
            ("the first leader is gone", 1, 1, &[3], &[0, 4], vec![vec![0]]),
        ] {
            let placed = spread_more(current, added, &ids(first), &ids(live)).unwrap();
            assert_eq!(placed, expected.iter().map(|replicas| ids(replicas)).collect::<Vec<_>>(), "{why}");
        }
        assert!(spread_more(1, 1, &ids(&[0, 1]), &ids(&[0])).is_err());
    }

    #[test]
    fn assignments_by_hand_follow_the_rules() {
        let assignment = |replicas: &[(i32, &[i32])]| -> BTreeMap<i32, Vec<BrokerId>> {
            let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect();
            replicas.iter().map(|(partition, replicas)| (*partition, ids(replicas))).collect()
        };
        for (why, replicas, legal) in [
            ("two partitions of two", vec![(0, &[1, 2][..]), (1, &[2, 1])], true),
            ("a broker that may not live", vec![(0, &[99][..])], true),
            ("a gap", vec![(0, &[1][..]), (2, &[1])], false),
            ("not from 0", vec![(1, &[1][..])], false),
            ("no replica", vec![(0, &[][..])], false),
            ("uneven", vec![(0, &[1, 2][..]), (1, &[1])], false),
            ("one broker twice", vec![(0, &[1, 1][..])], false),
            ("a negative id", vec![(0, &[-1][..])], false),
        ] {
            assert_eq!(checked(assignment(&replicas)).is_ok(), legal, "{why}");
        }
    }
}
