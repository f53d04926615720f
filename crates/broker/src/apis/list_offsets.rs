//! ListOffsets: offsets by time.

use std::collections::HashSet;

use ottla_model::{BrokerId, LeaderEpoch, Offset, Timestamp};
use ottla_network::Reply;
use ottla_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsResponse,
    ListOffsetsTopicResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call};
use crate::hosted_partition::{OffsetQuery, Reader};

/// ListOffsets: the offset of the first record that is at least as young as a timestamp, or a landmark.
///
/// v0 lists segment base offsets, newest first. v1+ answers one offset with its timestamp (KIP-79); v2+ may ask
/// as read_committed; v4+ fences by leader epoch; v7+ finds the maximum timestamp (KIP-734); v8+ the
/// start of the local log (KIP-405), v9+ the last tiered offset (KIP-1005), of which there is none here.
pub const API: Api = Api { key: ApiKey::ListOffsets, versions: 0..=10, handle };

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: ListOffsetsRequest = call.decode()?;
    let reader = match request.replica_id {
        -1 if request.isolation_level == 1 => Reader::ReadCommitted,
        -1 => Reader::ReadUncommitted,
        id @ 0.. => Reader::Follower(BrokerId(id)),
        _ => Reader::Debugger,
    };
    let twice = asked_twice(&request);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let name = call.broker.topic_name(&topic.name, Default::default(), false);
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for wanted in &topic.partitions {
            let answer = match &name {
                Err(error) => Err(*error),
                // v0 never minded.
                Ok(_) if call.version >= 1 && twice.contains(&(&*topic.name, wanted.partition_index)) => {
                    Err(ErrorCode::InvalidRequest)
                }
                Ok(name) => look_up(&call, name, reader, wanted),
            };
            partitions.push(answer.unwrap_or_else(|error| ListOffsetsPartitionResponse {
                partition_index: wanted.partition_index,
                error_code: error as i16,
                ..Default::default()
            }));
        }
        topics.push(ListOffsetsTopicResponse { name: topic.name.clone(), partitions, ..Default::default() });
    }
    Ok(call.reply(&ListOffsetsResponse { topics, ..Default::default() }))
}

fn asked_twice(request: &ListOffsetsRequest) -> HashSet<(&str, i32)> {
    let mut asked = HashSet::new();
    let partitions = request
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| (&*topic.name, partition.partition_index)));
    partitions.filter(|partition| !asked.insert(*partition)).collect()
}

fn look_up(
    call: &Call,
    topic: &str,
    reader: Reader,
    wanted: &ListOffsetsPartition,
) -> Result<ListOffsetsPartitionResponse, ErrorCode> {
    let hosted = call.broker.replicas.hosted(topic, wanted.partition_index)?;
    let partition_index = wanted.partition_index;
    if call.version == 0 {
        let limit = wanted.max_num_offsets.max(0) as usize;
        let timestamp = wanted.timestamp;
        if timestamp < EARLIEST {
            return Err(ErrorCode::UnsupportedVersion);
        }
        let offsets = hosted
            .segment_offsets(reader, timestamp, limit, call.broker.now())
            .map_err(|failure| failure.code())?;
        let old_style_offsets = offsets.into_iter().map(|offset| offset.0).collect();
        return Ok(ListOffsetsPartitionResponse { partition_index, old_style_offsets, ..Default::default() });
    }
    let query = match (wanted.timestamp, call.version) {
        (LATEST, _) => OffsetQuery::Latest,
        (EARLIEST, _) | (EARLIEST_LOCAL, 8..) => OffsetQuery::Earliest,
        (MAX_TIMESTAMP, 7..) => OffsetQuery::MaxTimestamp,
        (LATEST_TIERED, 9..) => return Ok(nothing_found(partition_index)),
        (timestamp @ 0.., _) => OffsetQuery::AtLeast(Timestamp(timestamp)),
        _ => return Err(ErrorCode::UnsupportedVersion),
    };
    let epoch = (wanted.current_leader_epoch >= 0).then_some(LeaderEpoch(wanted.current_leader_epoch));
    // Versions before 4 have no room for it.
    let told_epoch =
        |epoch: Option<LeaderEpoch>| epoch.filter(|_| call.version >= 4).unwrap_or(LeaderEpoch::NONE);
    let Some(found) = hosted.find_offset(reader, query, epoch).map_err(|failure| failure.code())? else {
        return Ok(nothing_found(partition_index));
    };
    Ok(ListOffsetsPartitionResponse {
        partition_index,
        timestamp: found.timestamp.0,
        offset: found.offset.0,
        leader_epoch: told_epoch(found.leader_epoch).0,
        ..Default::default()
    })
}

/// No error, and no offset: the log has no record that is young enough.
fn nothing_found(partition_index: i32) -> ListOffsetsPartitionResponse {
    ListOffsetsPartitionResponse {
        partition_index,
        timestamp: Timestamp::NONE.0,
        offset: Offset(-1).0,
        ..Default::default()
    }
}
