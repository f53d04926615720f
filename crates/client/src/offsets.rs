//! Offsets by time: ListOffsets, asked of every leader concerned.

use std::collections::{BTreeMap, HashMap};

use futures_util::future::join_all;
use ottla_model::{BrokerId, LeaderEpoch, Offset, Timestamp, TopicPartition};
use ottla_protocol::messages::ListOffsetsRequest;
use ottla_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsTopic,
};
use ottla_protocol::{ApiKey, ErrorCode, Str};

use crate::client::Client;
use crate::error::{ClientError, error_code};

/// Newer versions add only what this client does not ask for.
const LIST_OFFSETS_VERSION_MAX: i16 = 9;

/// Which offset of a partition is meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum OffsetSpec {
    /// The first record that is still there.
    Earliest,
    /// The end: where the next record will be; with read committed, the last stable offset.
    Latest,
    /// The first record at or after the time, else the end.
    Timestamp(Timestamp),
    /// The record with the largest timestamp (brokers since 3.0).
    MaxTimestamp,
    Offset(Offset),
}

impl OffsetSpec {
    fn on_the_wire(self) -> i64 {
        match self {
            OffsetSpec::Earliest => -2,
            OffsetSpec::Latest => -1,
            OffsetSpec::MaxTimestamp => -3,
            OffsetSpec::Timestamp(timestamp) => timestamp.0,
            OffsetSpec::Offset(offset) => offset.0,
        }
    }
}

/// Which records a consumer gets to see: `isolation.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationLevel {
    #[default]
    ReadUncommitted,
    /// No record of an open or aborted transaction (KIP-98).
    ReadCommitted,
}

impl IsolationLevel {
    pub(crate) fn on_the_wire(self) -> i8 {
        match self {
            IsolationLevel::ReadUncommitted => 0,
            IsolationLevel::ReadCommitted => 1,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    /// `None` when no record is that young, or the partition is empty and its largest timestamp was asked for.
    pub offset: Option<Offset>,
    /// Of the record found; `None` where it was not searched by time.
    pub timestamp: Option<Timestamp>,
    /// Of the record found; `None` from brokers before 2.1.
    pub leader_epoch: Option<LeaderEpoch>,
}

type Listed = Vec<(TopicPartition, Result<ListedOffset, ClientError>)>;

/// Asks once for each partition, every leader in one request.
pub(crate) async fn list_offsets(
    client: &Client,
    wanted: Vec<(TopicPartition, OffsetSpec)>,
    isolation: IsolationLevel,
) -> Listed {
    let metadata = client.metadata();
    let mut by_leader: HashMap<BrokerId, Vec<(TopicPartition, OffsetSpec, LeaderEpoch)>> = HashMap::new();
    let mut listed = Vec::with_capacity(wanted.len());
    for (partition, spec) in wanted {
        if let OffsetSpec::Offset(offset) = spec {
            let found = ListedOffset { offset: Some(offset), timestamp: None, leader_epoch: None };
            listed.push((partition, Ok(found)));
            continue;
        }
        match metadata.leader(&partition.topic, partition.partition) {
            Some((leader, epoch)) => by_leader.entry(leader).or_default().push((partition, spec, epoch)),
            None => {
                let error = ClientError::NoLeader {
                    topic: partition.topic.to_string(),
                    partition: partition.partition,
                };
                listed.push((partition, Err(error)));
            }
        }
    }
    let answers = by_leader.into_iter().map(|(leader, wanted)| ask_leader(client, leader, wanted, isolation));
    listed.extend(join_all(answers).await.into_iter().flatten());
    listed
}

async fn ask_leader(
    client: &Client,
    leader: BrokerId,
    wanted: Vec<(TopicPartition, OffsetSpec, LeaderEpoch)>,
    isolation: IsolationLevel,
) -> Listed {
    let answer = async {
        let connection = client.broker(leader).await?;
        let version = connection.version_of::<ListOffsetsRequest>(LIST_OFFSETS_VERSION_MAX)?;
        let mut topics: BTreeMap<&str, Vec<ListOffsetsPartition>> = BTreeMap::new();
        for (partition, spec, epoch) in &wanted {
            topics.entry(&partition.topic).or_default().push(ListOffsetsPartition {
                partition_index: partition.partition,
                current_leader_epoch: epoch.0,
                timestamp: spec.on_the_wire(),
                ..Default::default()
            });
        }
        let topics = topics.into_iter().map(|(name, partitions)| ListOffsetsTopic {
            name: Str::from(name),
            partitions,
            ..Default::default()
        });
        let request = ListOffsetsRequest {
            replica_id: -1,
            // Brokers before 0.11 know no transactions.
            isolation_level: if version >= 2 { isolation.on_the_wire() } else { 0 },
            topics: topics.collect(),
            ..Default::default()
        };
        Ok::<_, ClientError>((version, connection.submit(&request, version).await?.wait().await?))
    };
    let (version, response) = match answer.await {
        Ok(answer) => answer,
        Err(error) => {
            return wanted.into_iter().map(|(partition, ..)| (partition, Err(error.clone()))).collect();
        }
    };
    let mut answers: HashMap<(&str, i32), &ListOffsetsPartitionResponse> = HashMap::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            answers.insert((&topic.name, partition.partition_index), partition);
        }
    }
    if version == 0 {
        // Segments by age: none for a time before all of them, where the first record is what is meant.
        let (early, wanted): (Vec<_>, Vec<_>) = wanted.into_iter().partition(|(partition, spec, _)| {
            let answer = answers.get(&(partition.topic.as_str(), partition.partition));
            matches!(spec, OffsetSpec::Timestamp(_))
                && answer.is_some_and(|answer| answer.error_code == 0 && answer.old_style_offsets.is_empty())
        });
        let listed = found(wanted, &answers, version);
        if early.is_empty() {
            return listed.collect();
        }
        let early = early.into_iter().map(|(partition, _, epoch)| (partition, OffsetSpec::Earliest, epoch));
        let earliest = Box::pin(ask_leader(client, leader, early.collect(), isolation)).await;
        return listed.chain(earliest).collect();
    }
    found(wanted, &answers, version).collect()
}

fn found(
    wanted: Vec<(TopicPartition, OffsetSpec, LeaderEpoch)>,
    answers: &HashMap<(&str, i32), &ListOffsetsPartitionResponse>,
    version: i16,
) -> impl Iterator<Item = (TopicPartition, Result<ListedOffset, ClientError>)> {
    wanted.into_iter().map(move |(partition, spec, _)| {
        let answer = answers.get(&(partition.topic.as_str(), partition.partition));
        let found = match answer {
            Some(answer) => listed(&partition, spec, version, answer),
            None => Err(ClientError::Incomplete { api: ApiKey::ListOffsets, missing: partition.to_string() }),
        };
        (partition, found)
    })
}

fn listed(
    partition: &TopicPartition,
    spec: OffsetSpec,
    version: i16,
    answer: &ListOffsetsPartitionResponse,
) -> Result<ListedOffset, ClientError> {
    match error_code(answer.error_code) {
        ErrorCode::None => {}
        code => return Err(ClientError::refused(partition.to_string(), code, None)),
    }
    // Version 0 answers with segments: the one that may hold the time.
    let offset = match version {
        0 => answer.old_style_offsets.first().copied(),
        _ => (answer.offset >= 0).then_some(answer.offset),
    };
    let searched = matches!(spec, OffsetSpec::Timestamp(_) | OffsetSpec::MaxTimestamp);
    Ok(ListedOffset {
        offset: offset.map(Offset),
        timestamp: (searched && answer.timestamp >= 0).then_some(Timestamp(answer.timestamp)),
        leader_epoch: (answer.leader_epoch >= 0).then_some(LeaderEpoch(answer.leader_epoch)),
    })
}
