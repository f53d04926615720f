//! A topic's configuration: its own values over the broker's.

use std::collections::BTreeMap;

use super::definition::{Definition, Key, Typed, Value};
use super::settings::{Given, Origin, Settings, parse};
use super::{ConfigError, TOPIC_KEYS, topic_keys as keys};

/// How a topic's old records go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    pub delete: bool,
    pub compact: bool,
}

/// Whose time records carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

/// The codec a topic's records are kept in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    /// As each producer sent them.
    Producer,
    Uncompressed,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// What rules one topic, resolved. Bytes and milliseconds as the keys have them.
#[derive(Debug, Clone, PartialEq)]
pub struct TopicConfig {
    pub cleanup_policy: CleanupPolicy,
    pub compression_type: CompressionType,
    pub gzip_level: i32,
    pub lz4_level: i32,
    pub zstd_level: i32,
    pub max_message_bytes: i32,
    pub message_downconversion_enable: bool,
    pub message_timestamp_type: TimestampType,
    pub message_timestamp_before_max_ms: i64,
    pub message_timestamp_after_max_ms: i64,
    pub min_insync_replicas: i32,
    pub unclean_leader_election_enable: bool,
    /// `None` keeps records for ever.
    pub retention_ms: Option<i64>,
    /// `None` sets no bound.
    pub retention_bytes: Option<i64>,
    pub delete_retention_ms: i64,
    pub min_compaction_lag_ms: i64,
    pub max_compaction_lag_ms: i64,
    pub min_cleanable_dirty_ratio: f64,
    pub file_delete_delay_ms: i64,
    pub segment_bytes: i32,
    pub segment_ms: i64,
    pub segment_jitter_ms: i64,
    pub segment_index_bytes: i32,
    pub index_interval_bytes: i32,
    pub flush_messages: i64,
    pub flush_ms: i64,
    pub preallocate: bool,
    pub leader_throttled_replicas: Vec<String>,
    pub follower_throttled_replicas: Vec<String>,
}

/// A topic's own values by key.
pub type TopicOverrides = BTreeMap<String, String>;

impl TopicConfig {
    /// A topic without values of its own.
    pub fn defaults(broker: &Settings) -> Result<TopicConfig, ConfigError> {
        TopicConfig::resolve(broker, &TopicOverrides::new())
    }

    /// Refuses unknown keys, bad values, and values that contradict each other: what CreateTopics and
    /// AlterConfigs may not let in.
    pub fn validate(broker: &Settings, overrides: &TopicOverrides) -> Result<TopicConfig, ConfigError> {
        if let Some(unknown) = overrides.keys().find(|name| !super::is_topic_key(name)) {
            return Err(ConfigError::UnknownTopicKey(unknown.clone()));
        }
        let remote = value(broker, overrides, keys::REMOTE_STORAGE_ENABLE.definition)?;
        if remote == Some(Value::Boolean(true)) {
            return Err(ConfigError::rule(
                "Tiered Storage functionality is disabled in the broker. Topic cannot be configured with \
                 remote log storage.",
            ));
        }
        TopicConfig::resolve(broker, overrides)
    }

    /// What rules the topic. Keys that we do not know are another version's, and are passed over.
    pub fn resolve(broker: &Settings, overrides: &TopicOverrides) -> Result<TopicConfig, ConfigError> {
        let values = Resolver { broker, overrides };
        let policies = values.get(keys::CLEANUP_POLICY)?;
        let timestamp_difference = values.get(keys::MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS)?;
        let timestamp_bound = |key| {
            // The deprecated key still counts where its successors are left at their default.
            values.get(key).map(|bound| if bound == i64::MAX { timestamp_difference } else { bound })
        };
        let unlimited = |value: i64| (value >= 0).then_some(value);
        let config = TopicConfig {
            cleanup_policy: CleanupPolicy {
                delete: policies.iter().any(|policy| policy == "delete"),
                compact: policies.iter().any(|policy| policy == "compact"),
            },
            compression_type: match values.get(keys::COMPRESSION_TYPE)?.as_str() {
                "uncompressed" => CompressionType::Uncompressed,
                "gzip" => CompressionType::Gzip,
                "snappy" => CompressionType::Snappy,
                "lz4" => CompressionType::Lz4,
                "zstd" => CompressionType::Zstd,
                // The key's rule leaves only this.
                _ => CompressionType::Producer,
            },
            gzip_level: values.get(keys::COMPRESSION_GZIP_LEVEL)?,
            lz4_level: values.get(keys::COMPRESSION_LZ4_LEVEL)?,
            zstd_level: values.get(keys::COMPRESSION_ZSTD_LEVEL)?,
            max_message_bytes: values.get(keys::MAX_MESSAGE_BYTES)?,
            message_downconversion_enable: values.get(keys::MESSAGE_DOWNCONVERSION_ENABLE)?,
            message_timestamp_type: match values.get(keys::MESSAGE_TIMESTAMP_TYPE)?.as_str() {
                "LogAppendTime" => TimestampType::LogAppendTime,
                _ => TimestampType::CreateTime,
            },
            message_timestamp_before_max_ms: timestamp_bound(keys::MESSAGE_TIMESTAMP_BEFORE_MAX_MS)?,
            message_timestamp_after_max_ms: timestamp_bound(keys::MESSAGE_TIMESTAMP_AFTER_MAX_MS)?,
            min_insync_replicas: values.get(keys::MIN_INSYNC_REPLICAS)?,
            unclean_leader_election_enable: values.get(keys::UNCLEAN_LEADER_ELECTION_ENABLE)?,
            retention_ms: unlimited(values.get(keys::RETENTION_MS)?),
            retention_bytes: unlimited(values.get(keys::RETENTION_BYTES)?),
            delete_retention_ms: values.get(keys::DELETE_RETENTION_MS)?,
            min_compaction_lag_ms: values.get(keys::MIN_COMPACTION_LAG_MS)?,
            max_compaction_lag_ms: values.get(keys::MAX_COMPACTION_LAG_MS)?,
            min_cleanable_dirty_ratio: values.get(keys::MIN_CLEANABLE_DIRTY_RATIO)?,
            file_delete_delay_ms: values.get(keys::FILE_DELETE_DELAY_MS)?,
            segment_bytes: values.get(keys::SEGMENT_BYTES)?,
            segment_ms: values.get(keys::SEGMENT_MS)?,
            segment_jitter_ms: values.get(keys::SEGMENT_JITTER_MS)?,
            segment_index_bytes: values.get(keys::SEGMENT_INDEX_BYTES)?,
            index_interval_bytes: values.get(keys::INDEX_INTERVAL_BYTES)?,
            flush_messages: values.get(keys::FLUSH_MESSAGES)?,
            flush_ms: values.get(keys::FLUSH_MS)?,
            preallocate: values.get(keys::PREALLOCATE)?,
            leader_throttled_replicas: values.get(keys::LEADER_REPLICATION_THROTTLED_REPLICAS)?,
            follower_throttled_replicas: values.get(keys::FOLLOWER_REPLICATION_THROTTLED_REPLICAS)?,
        };
        if config.min_compaction_lag_ms > config.max_compaction_lag_ms {
            return Err(ConfigError::rule(format!(
                "conflict topic config setting {} ({}) > {} ({})",
                keys::MIN_COMPACTION_LAG_MS.name(),
                config.min_compaction_lag_ms,
                keys::MAX_COMPACTION_LAG_MS.name(),
                config.max_compaction_lag_ms,
            )));
        }
        Ok(config)
    }
}

struct Resolver<'a> {
    broker: &'a Settings,
    overrides: &'a TopicOverrides,
}

impl Resolver<'_> {
    fn get<T: Typed>(&self, key: Key<T>) -> Result<T, ConfigError> {
        let value = value(self.broker, self.overrides, key.definition)?;
        T::from_value(value).ok_or_else(|| ConfigError::Missing { key: key.name() })
    }
}

/// The value that rules a topic: its own, else what follows from the broker's keys, else the default.
pub(super) fn value(
    broker: &Settings,
    overrides: &TopicOverrides,
    key: &Definition,
) -> Result<Option<Value>, ConfigError> {
    match overrides.get(key.name) {
        Some(text) => parse(key, &Given { value: text.clone(), origin: Origin::ZooKeeper }).map(Some),
        // The broker's own key of the same name is among the synonyms where there is one.
        None => broker.following(key),
    }
}

/// Every topic key with its value, for a topic with these overrides.
pub fn values<'a>(
    broker: &'a Settings,
    overrides: &'a TopicOverrides,
) -> impl Iterator<Item = Result<(&'static Definition, Option<Value>), ConfigError>> + 'a {
    TOPIC_KEYS.iter().map(move |key| Ok((*key, value(broker, overrides, key)?)))
}
