//! Offsets of the consumers of Kafka 0.8, which version 0 of OffsetCommit and OffsetFetch still read and
//! write.

use ottla_model::{Offset, TopicPartition};

use super::KafkaZkClient;
use crate::paths;
use crate::records::{decode_offset, encode_offset};
use crate::store::ZkError;

impl KafkaZkClient {
    /// Writes a group's offsets; answers each.
    pub async fn write_consumer_offsets(
        &self,
        group: &str,
        offsets: &[(TopicPartition, Offset)],
    ) -> Vec<Result<(), ZkError>> {
        let writes = offsets
            .iter()
            .map(|(tp, offset)| {
                (paths::consumer_offset(group, &tp.topic, tp.partition), encode_offset(*offset))
            })
            .collect();
        self.pipelined(writes, |(path, data)| async move { self.set_or_create(&path, &data).await }).await
    }

    /// A group's offsets; `None` where it has none.
    pub async fn read_consumer_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Vec<Result<Option<Offset>, ZkError>> {
        let znodes =
            partitions.iter().map(|tp| paths::consumer_offset(group, &tp.topic, tp.partition)).collect();
        let answers = self.read_all(znodes, decode_offset).await;
        answers.into_iter().map(|answer| Ok(answer?.and_then(|found| found.record))).collect()
    }
}
