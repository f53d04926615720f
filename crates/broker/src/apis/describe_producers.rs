//! DescribeProducers: who writes to a partition.

use ottla_log::ProducerEntry;
use ottla_model::{Offset, ProducerId, TopicName};
use ottla_network::Reply;
use ottla_protocol::messages::describe_producers::{
    DescribeProducersRequest, DescribeProducersResponse, PartitionResponse, ProducerState, TopicResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::topics::invalid_name;

/// DescribeProducers: the idempotent and transactional producers that a partition's log remembers (KIP-664).
pub const API: Api = Api { key: ApiKey::DescribeProducers, versions: 0..=0, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DescribeProducersRequest = call.decode()?;
    let topics = request.topics.iter().map(|topic| TopicResponse {
        name: topic.name.clone(),
        partitions: topic
            .partition_indexes
            .iter()
            .map(|index| describe(&call, &topic.name, *index))
            .collect(),
        ..Default::default()
    });
    let topics = topics.collect();
    Ok(call.reply(&DescribeProducersResponse { topics, ..Default::default() }))
}

fn describe(call: &Call, topic: &str, partition_index: i32) -> PartitionResponse {
    if let Err(invalid) = TopicName::new(topic) {
        return failed(partition_index, ErrorCode::InvalidTopicException, &invalid_name(&invalid));
    }
    let producers = call.broker.replicas.hosted(topic, partition_index).and_then(|hosted| {
        let producers = hosted.producers();
        producers.map_err(|unavailable| unavailable.code())
    });
    match producers {
        Ok(producers) => PartitionResponse {
            partition_index,
            active_producers: producers.iter().map(|(id, entry)| row(*id, entry)).collect(),
            ..Default::default()
        },
        Err(error) => failed(partition_index, error, error.message()),
    }
}

fn row(id: ProducerId, entry: &ProducerEntry) -> ProducerState {
    ProducerState {
        producer_id: id.0,
        producer_epoch: entry.epoch.0.into(),
        last_sequence: entry.last_batch().map_or(-1, |batch| batch.last_sequence),
        last_timestamp: entry.last_timestamp.0,
        coordinator_epoch: entry.coordinator_epoch,
        current_txn_start_offset: entry.transaction_start.unwrap_or(Offset(-1)).0,
        ..Default::default()
    }
}

fn failed(partition_index: i32, error: ErrorCode, message: &str) -> PartitionResponse {
    PartitionResponse {
        partition_index,
        error_code: error as i16,
        error_message: Some(Str::from(message)),
        ..Default::default()
    }
}
