//! Offsets of the consumers of Kafka 0.8, which version 0 of OffsetCommit and OffsetFetch still read and write.

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
        self.pipelined(offsets, |(partition, offset)| {
            let path = paths::consumer_offset(group, &partition.topic, partition.partition);
            let data = encode_offset(*offset);
            async move { self.set_or_create(&path, &data).await }
        })
        .await
    }

    /// A group's offsets; `None` where it has none.
    pub async fn read_consumer_offsets(
        &self,
        group: &str,
        partitions: &[TopicPartition],
    ) -> Vec<Result<Option<Offset>, ZkError>> {
        let answers = self.pipelined(partitions, |partition| {
            self.read(paths::consumer_offset(group, &partition.topic, partition.partition), decode_offset)
        });
        answers.await.into_iter().map(|answer| Ok(answer?.and_then(|found| found.record))).collect()
    }
}
