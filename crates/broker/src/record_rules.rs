//! A topic's configuration as the log and the record checks want it.

use ottla_log::{LogConfig, Retention};
use ottla_protocol::compression::{Codec, Compression};
use ottla_protocol::records::validate::{TargetCompression, TopicRules};
use ottla_protocol::records::{Magic, TimestampType};

use crate::config::{self, CompressionType, ProtocolVersion, TopicConfig};
use crate::hosted_partition::PartitionRules;

/// What a leader asks of records before it appends them.
///
/// The format is magic 2 from `inter.broker.protocol.version` 3.0 on; older clusters are not held back to older
/// formats by this broker, which can read all of them. zstd is known from 2.1 on.
pub fn partition_rules(topic: &TopicConfig, protocol: ProtocolVersion) -> PartitionRules {
    let records = TopicRules {
        magic: Magic::V2,
        timestamp_type: match topic.message_timestamp_type {
            config::TimestampType::CreateTime => TimestampType::CreateTime,
            config::TimestampType::LogAppendTime => TimestampType::LogAppendTime,
        },
        timestamp_before_max_ms: topic.message_timestamp_before_max_ms,
        timestamp_after_max_ms: topic.message_timestamp_after_max_ms,
        message_bytes_max: usize::try_from(topic.max_message_bytes).unwrap_or(0),
        compression: compression(topic),
        compacted: topic.cleanup_policy.compact,
        zstd: protocol >= ProtocolVersion::V2_1_IV0,
    };
    // A compacted log forgets records by their keys; age and size count only where `delete` is asked for as well.
    let retention = if topic.cleanup_policy.delete {
        Retention { bytes: topic.retention_bytes, ms: topic.retention_ms }
    } else {
        Retention::default()
    };
    PartitionRules { records, allows_down_conversion: topic.message_downconversion_enable, retention }
}

fn compression(topic: &TopicConfig) -> TargetCompression {
    // The configuration has checked the levels; one out of range falls back to the codec's own.
    let leveled =
        |codec, level| Compression::with_level(codec, level).unwrap_or_else(|| Compression::from(codec));
    TargetCompression::Fixed(match topic.compression_type {
        CompressionType::Producer => return TargetCompression::Producer,
        CompressionType::Uncompressed => Compression::NONE,
        CompressionType::Gzip => leveled(Codec::Gzip, topic.gzip_level),
        CompressionType::Snappy => Compression::from(Codec::Snappy),
        CompressionType::Lz4 => leveled(Codec::Lz4, topic.lz4_level),
        CompressionType::Zstd => leveled(Codec::Zstd, topic.zstd_level),
    })
}

/// What the topic's logs go by. `producer_id_expiration_ms` is the broker's, not the topic's.
pub fn log_config(topic: &TopicConfig, producer_id_expiration_ms: i64) -> LogConfig {
    let unsigned = |value: i32| u32::try_from(value).unwrap_or(0);
    LogConfig {
        segment_bytes: unsigned(topic.segment_bytes),
        segment_ms: if topic.cleanup_policy.compact {
            topic.segment_ms.min(topic.max_compaction_lag_ms)
        } else {
            topic.segment_ms
        },
        segment_jitter_ms: topic.segment_jitter_ms.min(topic.segment_ms),
        index_interval_bytes: unsigned(topic.index_interval_bytes),
        segment_index_bytes: unsigned(topic.segment_index_bytes),
        flush_messages: topic.flush_messages,
        flush_ms: topic.flush_ms,
        preallocate: topic.preallocate,
        producer_id_expiration_ms,
    }
}
