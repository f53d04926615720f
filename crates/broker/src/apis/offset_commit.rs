//! OffsetCommit: how far a group has read.

use ottla_group::{CommittedOffset, Committer};
use ottla_model::{LeaderEpoch, Offset, Timestamp, TopicName, TopicPartition};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::offset_commit::{
    OffsetCommitRequest, OffsetCommitRequestPartition, OffsetCommitResponse, OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};
use tokio::sync::oneshot;

use super::{Api, Call, group_requests};

/// OffsetCommit: how far a group has read.
///
/// v0 writes to ZooKeeper, as the consumers of 0.8 do themselves. v1 brings a timestamp, v2 to v4 a retention time, v5+
/// neither (KIP-211); v6+ leader epochs (KIP-320), v7+ static members (KIP-345).
pub const API: Api = Api { key: ApiKey::OffsetCommit, versions: 0..=9, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: OffsetCommitRequest = call.decode()?;
    let (wanted, response) = sort(&call, &request);
    if wanted.is_empty() {
        return Ok(call.reply(&response));
    }
    if call.version == 0 {
        return Ok(Reply::later(write_to_zookeeper(call, request, wanted, response)));
    }
    Ok(match begin(&call, &request, wanted) {
        Ok(mut answer) => match answer.try_recv() {
            Ok(error) => Reply::Now(finish(&call, response, error)),
            Err(_) => Reply::later(async move {
                let error = answer.await.unwrap_or(ErrorCode::NotCoordinator);
                finish(&call, response, error)
            }),
        },
        Err(error) => Reply::Now(finish(&call, response, error)),
    })
}

/// Offsets that may be committed, and the answer: complete for the others, and with [`UNDECIDED`] for these.
fn sort(
    call: &Call,
    request: &OffsetCommitRequest,
) -> (Vec<(TopicPartition, CommittedOffset)>, OffsetCommitResponse) {
    let now = call.broker.now();
    let mut wanted = Vec::new();
    let mut response = OffsetCommitResponse::default();
    for topic in &request.topics {
        let name = TopicName::new(&topic.name).ok();
        let partitions = topic.partitions.iter().map(|partition| {
            let index = partition.partition_index;
            let committed = check(call, name.as_ref(), partition)
                .map(|name| (TopicPartition::new(name, index), committed(request, partition, now)));
            let error_code = match committed {
                Ok(committed) => {
                    wanted.push(committed);
                    UNDECIDED
                }
                Err(error) => error as i16,
            };
            OffsetCommitResponsePartition { partition_index: index, error_code, ..Default::default() }
        });
        response.topics.push(OffsetCommitResponseTopic {
            name: topic.name.clone(),
            partitions: partitions.collect(),
            ..Default::default()
        });
    }
    (wanted, response)
}

/// No error of Kafka's has this number.
const UNDECIDED: i16 = i16::MIN;

fn check(
    call: &Call,
    topic: Option<&TopicName>,
    partition: &OffsetCommitRequestPartition,
) -> Result<TopicName, ErrorCode> {
    let name = topic.ok_or(ErrorCode::UnknownTopicOrPartition)?;
    let exists = call
        .broker
        .metadata
        .topic(name)
        .is_some_and(|t| t.partitions.contains_key(&partition.partition_index));
    if !exists {
        return Err(ErrorCode::UnknownTopicOrPartition);
    }
    // Kafka counts as Java does, so that a note which one broker took is not refused by the next.
    let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
    if metadata.encode_utf16().count() > call.broker.config.offsets.metadata_bytes_max {
        return Err(ErrorCode::OffsetMetadataTooLarge);
    }
    Ok(name.clone())
}

fn committed(
    request: &OffsetCommitRequest,
    partition: &OffsetCommitRequestPartition,
    now: Timestamp,
) -> CommittedOffset {
    let epoch = partition.committed_leader_epoch;
    let said = partition.commit_timestamp;
    let retention_ms = request.retention_time_ms;
    CommittedOffset {
        offset: Offset(partition.committed_offset),
        leader_epoch: (epoch >= 0).then_some(LeaderEpoch(epoch)),
        metadata: partition.committed_metadata.as_deref().unwrap_or_default().to_owned(),
        committed_at: if said == -1 { now } else { Timestamp(said) },
        expires_at: (retention_ms != -1).then(|| Timestamp(now.0.saturating_add(retention_ms))),
    }
}

fn begin(
    call: &Call,
    request: &OffsetCommitRequest,
    wanted: Vec<(TopicPartition, CommittedOffset)>,
) -> Result<oneshot::Receiver<ErrorCode>, ErrorCode> {
    let coordinator = &call.broker.groups;
    group_requests::check_instance_id(call, &request.group_instance_id)?;
    let generation = request.generation_id_or_member_epoch;
    let group = match coordinator.find(&call.broker, &request.group_id)? {
        Some(group) => group,
        // Somebody who assigns its partitions itself, and keeps only its offsets here.
        None if generation < 0 => coordinator.find_or_create(&call.broker, &request.group_id)?,
        None => return Err(ErrorCode::IllegalGeneration),
    };
    let instance_id = request.group_instance_id.as_deref();
    let committer = Committer { generation, member_id: &request.member_id, instance_id };
    Ok(group.commit(coordinator, committer, wanted))
}

fn finish(call: &Call, mut response: OffsetCommitResponse, error: ErrorCode) -> Answer {
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if partition.error_code == UNDECIDED {
            partition.error_code = error as i16;
        }
    }
    call.answer(&response)
}

async fn write_to_zookeeper(
    call: Call,
    request: OffsetCommitRequest,
    wanted: Vec<(TopicPartition, CommittedOffset)>,
    mut response: OffsetCommitResponse,
) -> Answer {
    if let Err(error) = group_requests::check_group_id(&request.group_id) {
        return finish(&call, response, error);
    }
    let offsets: Vec<(TopicPartition, Offset)> =
        wanted.into_iter().map(|(partition, committed)| (partition, committed.offset)).collect();
    let written = call.broker.zookeeper.write_consumer_offsets(&request.group_id, &offsets).await;
    let mut outcomes = written.into_iter().map(|written| match written {
        Ok(()) => ErrorCode::None,
        Err(error) => {
            tracing::error!(group = &*request.group_id, %error, "offset not written to ZooKeeper");
            ErrorCode::UnknownServerError
        }
    });
    for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
        if partition.error_code == UNDECIDED {
            partition.error_code = outcomes.next().unwrap_or(ErrorCode::UnknownServerError) as i16;
        }
    }
    call.answer(&response)
}
