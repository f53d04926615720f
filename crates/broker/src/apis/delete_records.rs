//! DeleteRecords: gives up the beginning of partitions.

use std::sync::Arc;
use std::time::Duration;

use ottla_model::Offset;
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::delete_records::{
    DeleteRecordsPartitionResult, DeleteRecordsRequest, DeleteRecordsResponse, DeleteRecordsTopicResult,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call};
use crate::hosted_partition::{DeletionTarget, HostedPartition};
use crate::parking::park_on_all;
use crate::purgatory::Moves;
use crate::server::Broker;
use crate::topics;

/// DeleteRecords: moves the log start of partitions that this broker leads (KIP-107).
///
/// -1 stands for the high watermark. Refused for topics that are only compacted, since their records stay for their keys.
/// The answer waits until every live replica begins at the new offset, or for `timeout_ms`.
pub const API: Api = Api { key: ApiKey::DeleteRecords, versions: 0..=2, handle };

const HIGH_WATERMARK: i64 = -1;

/// A partition whose replicas have yet to follow.
struct Waiting {
    /// Topic and partition of the response.
    place: (usize, usize),
    hosted: Arc<HostedPartition>,
    target: Offset,
}

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DeleteRecordsRequest = call.decode()?;
    let mut response = DeleteRecordsResponse::default();
    let mut waiting = Vec::new();
    for topic in &request.topics {
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            let deleted = delete(&call, &topic.name, wanted.partition_index, wanted.offset);
            let error = match deleted {
                Ok((hosted, target)) => {
                    let place = (response.topics.len(), partitions.len());
                    waiting.push(Waiting { place, hosted, target });
                    ErrorCode::None
                }
                Err(error) => error,
            };
            partitions.push(DeleteRecordsPartitionResult {
                partition_index: wanted.partition_index,
                low_watermark: -1,
                error_code: error as i16,
                ..Default::default()
            });
        }
        if !partitions.is_empty() {
            let name = topic.name.clone();
            response.topics.push(DeleteRecordsTopicResult { name, partitions, ..Default::default() });
        }
    }
    settle(&call.broker, &mut waiting, &mut response);
    if waiting.is_empty() {
        return Ok(call.reply(&response));
    }
    let timeout = Duration::from_millis(request.timeout_ms.max(0) as u64);
    Ok(Reply::later(wait(call, waiting, response, timeout)))
}

fn delete(
    call: &Call,
    topic: &str,
    partition: i32,
    offset: i64,
) -> Result<(Arc<HostedPartition>, Offset), ErrorCode> {
    let hosted = call.broker.replicas.hosted(topic, partition)?;
    if topics::is_internal(topic) {
        return Err(ErrorCode::InvalidTopicException);
    }
    if !call.broker.topic_configs.resolved(topic).cleanup_policy.delete {
        return Err(ErrorCode::PolicyViolation);
    }
    let target = match offset {
        HIGH_WATERMARK => DeletionTarget::HighWatermark,
        offset => DeletionTarget::Before(Offset(offset)),
    };
    let target = hosted.delete_records(target).map_err(|failure| failure.code())?;
    tracing::info!(partition = %hosted.name(), %target, "records before this offset deleted");
    Ok((hosted, target))
}

/// Takes out the partitions whose replicas have followed, or of which it will not be known any more.
fn settle(broker: &Broker, waiting: &mut Vec<Waiting>, response: &mut DeleteRecordsResponse) {
    waiting.retain(|partition| {
        let (topic, index) = partition.place;
        let answer = &mut response.topics[topic].partitions[index];
        match partition.hosted.low_watermark(|replica| broker.metadata.is_alive(replica)) {
            Ok(low) if low < partition.target => true,
            Ok(low) => {
                answer.low_watermark = low.0;
                false
            }
            Err(failure) => {
                answer.error_code = failure.code() as i16;
                false
            }
        }
    });
}

async fn wait(
    call: Call,
    mut waiting: Vec<Waiting>,
    mut response: DeleteRecordsResponse,
    timeout: Duration,
) -> Answer {
    let deadline = tokio::time::Instant::now() + timeout;
    loop {
        let hosted = waiting.iter().map(|partition| partition.hosted.clone());
        let parked = park_on_all(Moves::LowWatermark, 1, hosted);
        // What moved before the parking woke nobody.
        settle(&call.broker, &mut waiting, &mut response);
        if waiting.is_empty() {
            return call.answer(&response);
        }
        if tokio::time::timeout_at(deadline, parked.woken()).await.is_err() {
            for partition in waiting {
                let (topic, index) = partition.place;
                response.topics[topic].partitions[index].error_code = ErrorCode::RequestTimedOut as i16;
            }
            return call.answer(&response);
        }
    }
}
