//! OffsetForLeaderEpoch: where a leader epoch ended.

use ottla_model::{LeaderEpoch, Offset};
use ottla_network::Reply;
use ottla_protocol::messages::offset_for_leader_epoch::{
    EpochEndOffset, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse, OffsetForLeaderPartition,
    OffsetForLeaderTopicResult,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};

use super::{Api, Call};

/// OffsetForLeaderEpoch: the end of an epoch in the leader's log, by which followers truncate theirs (KIP-101) and
/// consumers find out that records they have seen are gone (KIP-320).
///
/// v1+ tells the largest epoch that is not above the one asked for (KIP-279); v2+ fences by the epoch that the asker
/// believes in; v3+ says who asks. An epoch that the log knows nothing of ends at -1, which is no error.
pub const API: Api = Api { key: ApiKey::OffsetForLeaderEpoch, versions: 0..=4, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: OffsetForLeaderEpochRequest = call.decode()?;
    let topics = request.topics.iter().map(|topic| OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: topic.partitions.iter().map(|wanted| look_up(&call, &topic.topic, wanted)).collect(),
        ..Default::default()
    });
    let topics = topics.collect();
    Ok(call.reply(&OffsetForLeaderEpochResponse { topics, ..Default::default() }))
}

fn look_up(call: &Call, topic: &str, wanted: &OffsetForLeaderPartition) -> EpochEndOffset {
    let partition = wanted.partition;
    let current = (wanted.current_leader_epoch >= 0).then_some(LeaderEpoch(wanted.current_leader_epoch));
    let found = call.broker.replicas.hosted(topic, partition).and_then(|hosted| {
        let end = hosted.epoch_end(current, LeaderEpoch(wanted.leader_epoch));
        end.map_err(|failure| failure.code())
    });
    let (error, epoch, end_offset) = match found {
        Ok(Some(end)) => (ErrorCode::None, end.epoch, end.end_offset),
        Ok(None) => (ErrorCode::None, LeaderEpoch::NONE, Offset(-1)),
        Err(error) => (error, LeaderEpoch::NONE, Offset(-1)),
    };
    EpochEndOffset {
        error_code: error as i16,
        partition,
        leader_epoch: epoch.0,
        end_offset: end_offset.0,
        ..Default::default()
    }
}
