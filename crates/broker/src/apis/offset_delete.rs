//! OffsetDelete: offsets of topics that a group does not read any more.

use std::collections::HashMap;

use ottla_model::{TopicName, TopicPartition};
use ottla_network::Reply;
use ottla_protocol::messages::offset_delete::{
    OffsetDeleteRequest, OffsetDeleteResponse, OffsetDeleteResponsePartition, OffsetDeleteResponseTopic,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call, group_requests};
use crate::group_coordinator::OffsetDeletion;

/// OffsetDelete: forgets offsets, but of no topic that a member still reads (KIP-496).
pub const API: Api = Api { key: ApiKey::OffsetDelete, versions: 0..=0, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: OffsetDeleteRequest = call.decode()?;
    let response = match delete(&call, &request) {
        Ok(deletions) => describe(&request, &deletions.into_iter().collect()),
        Err(error) => OffsetDeleteResponse { error_code: error as i16, ..Default::default() },
    };
    Ok(call.reply(&response))
}

fn delete(call: &Call, request: &OffsetDeleteRequest) -> Result<Vec<OffsetDeletion>, ErrorCode> {
    let coordinator = &call.broker.groups;
    group_requests::check_group_id(&request.group_id)?;
    let found = coordinator.find(&call.broker, &request.group_id)?;
    let group = found.ok_or(ErrorCode::GroupIdNotFound)?;
    let mut existing = Vec::new();
    for topic in &request.topics {
        let Some(image) = call.broker.metadata.topic(&topic.name) else { continue };
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let known = indexes.filter(|index| image.partitions.contains_key(index));
        existing.extend(known.map(|index| TopicPartition::new(image.name.clone(), index)));
    }
    group.delete_offsets(coordinator, existing)
}

/// What was not even tried does not exist.
fn describe(
    request: &OffsetDeleteRequest,
    deletions: &HashMap<TopicPartition, Result<(), ErrorCode>>,
) -> OffsetDeleteResponse {
    let outcome = |topic: &str, index: i32| {
        let topic = TopicName::new(topic).ok()?;
        deletions.get(&TopicPartition::new(topic, index)).copied()
    };
    let topics = request.topics.iter().map(|topic| OffsetDeleteResponseTopic {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| {
                let index = partition.partition_index;
                let outcome = outcome(&topic.name, index).unwrap_or(Err(ErrorCode::UnknownTopicOrPartition));
                let error_code = outcome.err().unwrap_or(ErrorCode::None) as i16;
                OffsetDeleteResponsePartition { partition_index: index, error_code }
            })
            .collect(),
    });
    OffsetDeleteResponse { topics: topics.collect(), ..Default::default() }
}
