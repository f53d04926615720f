//! OffsetFetch: from where a group goes on reading.

use ottla_group::{CommittedOffset, Group};
use ottla_model::{LeaderEpoch, Offset, TopicName, TopicPartition};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::offset_fetch::{
    OffsetFetchRequest, OffsetFetchRequestGroup, OffsetFetchRequestTopics, OffsetFetchResponse,
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions,
    OffsetFetchResponseTopic, OffsetFetchResponseTopics,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call, group_requests};

/// OffsetFetch: from where a group goes on reading.
///
/// v0 reads from ZooKeeper. v2+ may ask for everything and tells errors of the group as such, v5+ leader epochs (KIP-320),
/// v7+ can insist on offsets that no open transaction is about to change (KIP-447), v8+ asks for many groups (KIP-709),
/// v9+ names the member, which only newer kinds of groups look at (KIP-848).
pub const API: Api = Api { key: ApiKey::OffsetFetch, versions: 0..=9, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: OffsetFetchRequest = call.decode()?;
    if call.version == 0 {
        return Ok(Reply::later(read_from_zookeeper(call, request)));
    }
    if call.version >= 8 {
        let groups = request.groups.iter().map(|group| fetch(&call, group, request.require_stable)).collect();
        return Ok(call.reply(&OffsetFetchResponse { groups, ..Default::default() }));
    }
    let topics = request.topics.map(|topics| {
        let topic = |topic: ottla_protocol::messages::offset_fetch::OffsetFetchRequestTopic| {
            OffsetFetchRequestTopics {
                name: topic.name,
                partition_indexes: topic.partition_indexes,
                ..Default::default()
            }
        };
        topics.into_iter().map(topic).collect()
    });
    let asked = OffsetFetchRequestGroup { group_id: request.group_id, topics, ..Default::default() };
    let mut answer = fetch(&call, &asked, request.require_stable);
    if call.version < 2 && answer.error_code != ErrorCode::None as i16 {
        // An error had no place of its own then, so each partition carries it.
        let error = answer.error_code;
        answer = answer_each(&asked, |_, index| partition_error(index, error));
    }
    Ok(call.reply(&one_group(answer)))
}

fn fetch(call: &Call, asked: &OffsetFetchRequestGroup, require_stable: bool) -> OffsetFetchResponseGroup {
    let answer = match call.broker.groups.find(&call.broker, &asked.group_id) {
        Err(error) => OffsetFetchResponseGroup { error_code: error as i16, ..Default::default() },
        Ok(None) => answer_each(asked, |_, index| offset_of(None, index)),
        Ok(Some(group)) => group.look(|group| {
            let describe = |partition: &TopicPartition| {
                if require_stable && group.offsets.is_pending(partition) {
                    partition_error(partition.partition, ErrorCode::UnstableOffsetCommit as i16)
                } else {
                    offset_of(group.offsets.get(partition), partition.partition)
                }
            };
            match &asked.topics {
                None => all_offsets(group, describe),
                Some(_) => answer_each(asked, |topic, index| match TopicName::new(topic) {
                    Ok(topic) => describe(&TopicPartition::new(topic, index)),
                    Err(_) => offset_of(None, index),
                }),
            }
        }),
    };
    OffsetFetchResponseGroup { group_id: asked.group_id.clone(), ..answer }
}

fn all_offsets(
    group: &Group,
    describe: impl Fn(&TopicPartition) -> OffsetFetchResponsePartitions,
) -> OffsetFetchResponseGroup {
    let mut topics: Vec<OffsetFetchResponseTopics> = Vec::new();
    for (partition, _) in group.offsets.iter() {
        match topics.last_mut().filter(|topic| *topic.name == *partition.topic.as_str()) {
            Some(topic) => topic.partitions.push(describe(partition)),
            None => topics.push(OffsetFetchResponseTopics {
                name: Str::from(partition.topic.as_str()),
                partitions: vec![describe(partition)],
                ..Default::default()
            }),
        }
    }
    OffsetFetchResponseGroup { topics, ..Default::default() }
}

/// One answer for each partition that was asked for, in the order of the request.
fn answer_each(
    asked: &OffsetFetchRequestGroup,
    answer: impl Fn(&str, i32) -> OffsetFetchResponsePartitions,
) -> OffsetFetchResponseGroup {
    let topic = |topic: &OffsetFetchRequestTopics| OffsetFetchResponseTopics {
        name: topic.name.clone(),
        partitions: topic.partition_indexes.iter().map(|index| answer(&topic.name, *index)).collect(),
        ..Default::default()
    };
    let topics = asked.topics.iter().flatten().map(topic).collect();
    OffsetFetchResponseGroup { topics, ..Default::default() }
}

/// A partition without an offset is no error.
fn offset_of(committed: Option<&CommittedOffset>, index: i32) -> OffsetFetchResponsePartitions {
    let epoch = committed.and_then(|committed| committed.leader_epoch).unwrap_or(LeaderEpoch::NONE);
    let metadata = committed.map_or_else(Str::default, |committed| Str::from(committed.metadata.as_str()));
    OffsetFetchResponsePartitions {
        partition_index: index,
        committed_offset: committed.map_or(-1, |committed| committed.offset.0),
        committed_leader_epoch: epoch.0,
        metadata: Some(metadata),
        ..Default::default()
    }
}

fn partition_error(index: i32, error_code: i16) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions { error_code, ..offset_of(None, index) }
}

/// The answer as it was before it could be about many groups.
fn one_group(answer: OffsetFetchResponseGroup) -> OffsetFetchResponse {
    let partition = |partition: OffsetFetchResponsePartitions| OffsetFetchResponsePartition {
        partition_index: partition.partition_index,
        committed_offset: partition.committed_offset,
        committed_leader_epoch: partition.committed_leader_epoch,
        metadata: partition.metadata,
        error_code: partition.error_code,
        ..Default::default()
    };
    let topic = |topic: OffsetFetchResponseTopics| OffsetFetchResponseTopic {
        name: topic.name,
        partitions: topic.partitions.into_iter().map(partition).collect(),
        ..Default::default()
    };
    OffsetFetchResponse {
        topics: answer.topics.into_iter().map(topic).collect(),
        error_code: answer.error_code,
        ..Default::default()
    }
}

/// Partitions that do not exist and partitions without an offset are told alike, as Kafka does.
async fn read_from_zookeeper(call: Call, request: OffsetFetchRequest) -> Answer {
    let named = request.topics.iter().flatten().flat_map(|topic| {
        let name = TopicName::new(&topic.name).ok();
        topic
            .partition_indexes
            .iter()
            .filter_map(move |index| Some(TopicPartition::new(name.clone()?, *index)))
    });
    let exists = |partition: &TopicPartition| {
        let topic = call.broker.metadata.topic(&partition.topic);
        topic.is_some_and(|topic| topic.partitions.contains_key(&partition.partition))
    };
    let partitions: Vec<TopicPartition> = named.filter(exists).collect();
    let group_id = &*request.group_id;
    let found = match group_requests::check_group_id(group_id) {
        Ok(()) => call.broker.zookeeper.read_consumer_offsets(group_id, &partitions).await,
        Err(_) => Vec::new(),
    };
    let mut outcomes = std::collections::HashMap::new();
    for (partition, found) in partitions.into_iter().zip(found) {
        let outcome: Result<Option<Offset>, ErrorCode> = found.map_err(|error| {
            tracing::error!(group = group_id, %error, "offset not read from ZooKeeper");
            ErrorCode::UnknownServerError
        });
        outcomes.insert(partition, outcome);
    }
    let answer_one = |topic: &str, index: i32| {
        let partition = TopicName::new(topic).ok().map(|topic| TopicPartition::new(topic, index));
        match partition.and_then(|partition| outcomes.get(&partition)) {
            Some(Ok(Some(offset))) => {
                OffsetFetchResponsePartitions { committed_offset: offset.0, ..offset_of(None, index) }
            }
            Some(Err(error)) => partition_error(index, *error as i16),
            Some(Ok(None)) | None => partition_error(index, ErrorCode::UnknownTopicOrPartition as i16),
        }
    };
    let topics = request.topics.iter().flatten().map(|topic| OffsetFetchRequestTopics {
        name: topic.name.clone(),
        partition_indexes: topic.partition_indexes.clone(),
        ..Default::default()
    });
    let asked = OffsetFetchRequestGroup { topics: Some(topics.collect()), ..Default::default() };
    call.answer(&one_group(answer_each(&asked, answer_one)))
}
