//! ElectLeaders: hands partitions back to their preferred leaders.

use std::collections::BTreeMap;

use ottla_controller::PreferredLeader;
use ottla_model::{TopicName, TopicPartition};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::elect_leaders::{
    ElectLeadersRequest, ElectLeadersResponse, PartitionResult, ReplicaElectionResult,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};

/// ElectLeaders: the first replica of each partition leads it again, if it lives and is in sync (KIP-183).
///
/// Only the controller answers. Without a list of partitions all of them are meant, and the answer leaves out those
/// that need no election. v1+ may ask for unclean elections (KIP-460), which are refused; v2 is flexible.
pub const API: Api = Api { key: ApiKey::ElectLeaders, versions: 0..=2, handle };

/// The number of the election that takes the first replica, and no other.
const PREFERRED: i8 = 0;

/// The number of the election in which a replica that is not in sync may win.
const UNCLEAN: i8 = 1;

type Outcomes = BTreeMap<Str, Vec<(i32, ErrorCode)>>;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: ElectLeadersRequest = call.decode()?;
    Ok(Reply::later(elect(call, request)))
}

async fn elect(call: Call, request: ElectLeadersRequest) -> Answer {
    let all = request.topic_partitions.is_none();
    let wanted = wanted(&call, &request);
    let mut outcomes = Outcomes::new();
    let mut electable = Vec::new();
    for (topic, partition) in wanted {
        match TopicName::new(&topic) {
            _ if call.version >= 1 && request.election_type != PREFERRED => {
                let error = refuse_unclean(&call, &topic, partition, request.election_type);
                outcomes.entry(topic).or_default().push((partition, error));
            }
            Ok(name) => electable.push((topic, TopicPartition::new(name, partition))),
            Err(_) => outcomes.entry(topic).or_default().push((partition, ErrorCode::InvalidTopicException)),
        }
    }
    let partitions = electable.iter().map(|(_, partition)| partition.clone()).collect();
    let before = call.broker.controller.elect_preferred(partitions).await;
    for (index, (topic, partition)) in electable.into_iter().enumerate() {
        let error = match &before {
            Ok(before) => code(before[index]),
            Err(error) => *error,
        };
        if !(all && error == ErrorCode::ElectionNotNeeded) {
            outcomes.entry(topic).or_default().push((partition.partition, error));
        }
    }
    answer(&call, outcomes)
}

/// A partition that is led needs no unclean election; one that is not has to wait for a replica that was in sync.
fn refuse_unclean(call: &Call, topic: &str, partition: i32, election_type: i8) -> ErrorCode {
    let image = call.broker.metadata.topic(topic);
    match image.as_ref().and_then(|image| image.partitions.get(&partition)) {
        _ if election_type != UNCLEAN => ErrorCode::InvalidRequest,
        None => ErrorCode::UnknownTopicOrPartition,
        Some(image) if call.broker.metadata.is_alive(image.leader) => ErrorCode::ElectionNotNeeded,
        Some(_) => ErrorCode::InvalidRequest,
    }
}

/// What the request names, or all there is.
fn wanted(call: &Call, request: &ElectLeadersRequest) -> Vec<(Str, i32)> {
    match &request.topic_partitions {
        Some(topics) => {
            let of = |partitions: &[i32], topic: &Str| -> Vec<_> {
                partitions.iter().map(|partition| (topic.clone(), *partition)).collect()
            };
            topics.iter().flat_map(|topic| of(&topic.partitions, &topic.topic)).collect()
        }
        None => {
            let topics = call.broker.metadata.topics();
            let of = |partition: i32, topic: &TopicName| (Str::from(topic.as_str()), partition);
            topics
                .iter()
                .flat_map(|topic| topic.partitions.keys().map(|partition| of(*partition, &topic.name)))
                .collect()
        }
    }
}

/// What to say, from how it stood before.
fn code(before: PreferredLeader) -> ErrorCode {
    match before {
        PreferredLeader::CanLead => ErrorCode::None,
        PreferredLeader::Leads => ErrorCode::ElectionNotNeeded,
        PreferredLeader::Unavailable => ErrorCode::PreferredLeaderNotAvailable,
        PreferredLeader::UnknownPartition | PreferredLeader::BeingDeleted => {
            ErrorCode::UnknownTopicOrPartition
        }
    }
}

/// In Kafka's words where it has some.
fn message(error: ErrorCode) -> Option<Str> {
    match error {
        ErrorCode::None => None,
        ErrorCode::ElectionNotNeeded => {
            Some(Str::from_static("Leader election not needed for topic partition."))
        }
        ErrorCode::UnknownTopicOrPartition => Some(Str::from_static("The partition does not exist.")),
        other => Some(Str::from(other.message())),
    }
}

fn answer(call: &Call, outcomes: Outcomes) -> Answer {
    let result = |(partition_id, error): (i32, ErrorCode)| PartitionResult {
        partition_id,
        error_code: error as i16,
        error_message: message(error),
        ..Default::default()
    };
    let results = outcomes.into_iter().map(|(topic, partitions)| ReplicaElectionResult {
        topic,
        partition_result: partitions.into_iter().map(result).collect(),
        ..Default::default()
    });
    call.answer(&ElectLeadersResponse { replica_election_results: results.collect(), ..Default::default() })
}
