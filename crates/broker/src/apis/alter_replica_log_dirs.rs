//! AlterReplicaLogDirs: in which log dir a replica lies.

use std::collections::BTreeMap;
use std::path::Path;

use ottla_model::{TopicName, TopicPartition};
use ottla_network::Reply;
use ottla_protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult, AlterReplicaLogDirsRequest,
    AlterReplicaLogDirsResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};

/// AlterReplicaLogDirs: has replicas lie in a certain log dir of this broker (KIP-113).
///
/// A replica that is yet to come is told REPLICA_NOT_AVAILABLE, and made there when it comes. One that lies elsewhere
/// stays: it is not moved while it is in use, and is told UNSUPPORTED_VERSION.
pub const API: Api = Api { key: ApiKey::AlterReplicaLogDirs, versions: 0..=2, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: AlterReplicaLogDirsRequest = call.decode()?;
    let mut results: BTreeMap<Str, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for dir in &request.dirs {
        for topic in &dir.topics {
            let placed = topic.partitions.iter().map(|partition| AlterReplicaLogDirPartitionResult {
                partition_index: *partition,
                error_code: place(&call, &topic.name, *partition, Path::new(&*dir.path)) as i16,
                ..Default::default()
            });
            results.entry(topic.name.clone()).or_default().extend(placed);
        }
    }
    let results = results.into_iter().map(|(topic_name, partitions)| AlterReplicaLogDirTopicResult {
        topic_name,
        partitions,
        ..Default::default()
    });
    Ok(call.reply(&AlterReplicaLogDirsResponse { results: results.collect(), ..Default::default() }))
}

fn place(call: &Call, topic: &str, partition: i32, dir: &Path) -> ErrorCode {
    let Ok(topic) = TopicName::new(topic) else { return ErrorCode::InvalidTopicException };
    let partition = TopicPartition::new(topic, partition);
    match call.broker.replicas.place(&partition, dir) {
        Ok(()) => ErrorCode::None,
        Err(refusal) => {
            tracing::info!(%partition, dir = %dir.display(), %refusal, "replica not moved");
            refusal.code()
        }
    }
}
