//! DescribeLogDirs: what lies in the log dirs of this broker.

use std::collections::{BTreeMap, HashSet};
use std::path::Path;

use ottla_network::Reply;
use ottla_protocol::messages::describe_log_dirs::{
    DescribeLogDirsPartition, DescribeLogDirsRequest, DescribeLogDirsResponse, DescribeLogDirsResult,
    DescribeLogDirsTopic,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::replica_manager::HeldReplica;

/// DescribeLogDirs: the partitions in each log dir, their size, and how far they are behind (KIP-113).
///
/// v3+ has an error for the whole, v4+ tells size and free bytes of the volume (KIP-827). Replicas are not moved between
/// log dirs here, so none is ever a future one.
pub const API: Api = Api { key: ApiKey::DescribeLogDirs, versions: 0..=4, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: DescribeLogDirsRequest = call.decode()?;
    let wanted: Option<HashSet<(&str, i32)>> = request.topics.as_ref().map(|topics| {
        let partitions = topics
            .iter()
            .flat_map(|topic| topic.partitions.iter().map(|partition| (&*topic.topic, *partition)));
        partitions.collect()
    });
    let is_wanted = |held: &HeldReplica| {
        let name = (held.partition.topic.as_str(), held.partition.partition);
        wanted.as_ref().is_none_or(|wanted| wanted.contains(&name))
    };
    let results = call.broker.replicas.by_log_dir().into_iter().map(|(path, mut held)| {
        held.retain(is_wanted);
        describe(&path, &held)
    });
    let results = results.collect();
    Ok(call.reply(&DescribeLogDirsResponse { results, ..Default::default() }))
}

fn describe(path: &Path, held: &[HeldReplica]) -> DescribeLogDirsResult {
    let mut topics: BTreeMap<&str, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for replica in held {
        let partitions = topics.entry(replica.partition.topic.as_str()).or_default();
        partitions.push(DescribeLogDirsPartition {
            partition_index: replica.partition.partition,
            partition_size: i64::try_from(replica.bytes).unwrap_or(i64::MAX),
            offset_lag: replica.lag,
            is_future_key: false,
            ..Default::default()
        });
    }
    let topics = topics.into_iter().map(|(name, partitions)| DescribeLogDirsTopic {
        name: Str::from(name),
        partitions,
        ..Default::default()
    });
    let (error, total_bytes, usable_bytes) = match rustix::fs::statvfs(path) {
        Ok(volume) => {
            let bytes =
                |blocks: u64| i64::try_from(blocks.saturating_mul(volume.f_frsize)).unwrap_or(i64::MAX);
            (ErrorCode::None, bytes(volume.f_blocks), bytes(volume.f_bavail))
        }
        Err(error) => {
            tracing::error!(dir = %path.display(), %error, "log dir cannot be looked at");
            (ErrorCode::KafkaStorageError, -1, -1)
        }
    };
    DescribeLogDirsResult {
        error_code: error as i16,
        log_dir: Str::from(path.to_string_lossy().into_owned()),
        topics: topics.collect(),
        total_bytes,
        usable_bytes,
        ..Default::default()
    }
}
