//! ListPartitionReassignments: replicas on the move.

use std::collections::HashSet;

use ottla_model::{BrokerId, TopicName};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::list_partition_reassignments::{
    ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse, OngoingPartitionReassignment,
    OngoingTopicReassignment,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};
use ottla_zookeeper::records::TopicAssignment;

use super::{Api, Call};

/// ListPartitionReassignments: the partitions that are being reassigned, with replicas to come and to go (KIP-455).
///
/// Only the controller answers. It reads the topics' znodes, where a reassignment stands from its beginning to its end,
/// whichever broker's it was.
pub const API: Api = Api { key: ApiKey::ListPartitionReassignments, versions: 0..=0, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: ListPartitionReassignmentsRequest = call.decode()?;
    if !call.broker.is_controller() {
        return Ok(Reply::Now(failed(&call, ErrorCode::NotController)));
    }
    Ok(Reply::later(list(call, request)))
}

async fn list(call: Call, request: ListPartitionReassignmentsRequest) -> Answer {
    let mut topics: Vec<TopicName> = match &request.topics {
        Some(topics) => topics.iter().filter_map(|topic| TopicName::new(&topic.name).ok()).collect(),
        None => call.broker.metadata.topics().iter().map(|topic| topic.name.clone()).collect(),
    };
    topics.sort();
    topics.dedup();
    let asked: Option<HashSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        let partitions = topics
            .iter()
            .flat_map(|topic| topic.partition_indexes.iter().map(|partition| (&*topic.name, *partition)));
        partitions.collect()
    });
    let mut ongoing = Vec::new();
    for (topic, found) in topics.iter().zip(call.broker.zookeeper.read_topics(&topics).await) {
        let assignment = match found {
            Ok(Some(found)) => found.record,
            Ok(None) => continue,
            Err(error) => {
                tracing::warn!(%topic, %error, "reassignments not listed");
                return failed(&call, ErrorCode::UnknownServerError);
            }
        };
        let mut partitions = reassigned(&assignment);
        partitions.retain(|partition| {
            asked.as_ref().is_none_or(|asked| asked.contains(&(topic.as_str(), partition.partition_index)))
        });
        if !partitions.is_empty() {
            let name = Str::from(topic.as_str());
            ongoing.push(OngoingTopicReassignment { name, partitions, ..Default::default() });
        }
    }
    call.answer(&ListPartitionReassignmentsResponse { topics: ongoing, ..Default::default() })
}

fn reassigned(assignment: &TopicAssignment) -> Vec<OngoingPartitionReassignment> {
    let ids = |brokers: Option<&Vec<BrokerId>>| -> Vec<i32> {
        brokers.into_iter().flatten().map(|broker| broker.0).collect()
    };
    let rows = assignment.partitions.iter().map(|(index, replicas)| OngoingPartitionReassignment {
        partition_index: *index,
        replicas: ids(Some(replicas)),
        adding_replicas: ids(assignment.adding.get(index)),
        removing_replicas: ids(assignment.removing.get(index)),
        ..Default::default()
    });
    rows.filter(|row| !(row.adding_replicas.is_empty() && row.removing_replicas.is_empty())).collect()
}

fn failed(call: &Call, error: ErrorCode) -> Answer {
    call.answer(&ListPartitionReassignmentsResponse {
        error_code: error as i16,
        error_message: Some(Str::from(error.message())),
        ..Default::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_partitions_with_replicas_on_the_move_are_listed() {
        let ids = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        let assignment = TopicAssignment {
            partitions: [(0, ids(&[1, 2])), (1, ids(&[1, 2, 3])), (2, ids(&[2, 1]))].into(),
            adding: [(1, ids(&[3]))].into(),
            removing: [(1, ids(&[1])), (2, ids(&[]))].into(),
            ..Default::default()
        };
        let listed = reassigned(&assignment);
        assert_eq!(listed.len(), 1);
        let moves =
            (&listed[0].replicas[..], &listed[0].adding_replicas[..], &listed[0].removing_replicas[..]);
        assert_eq!((listed[0].partition_index, moves), (1, (&[1, 2, 3][..], &[3][..], &[1][..])));
    }
}
