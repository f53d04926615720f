//! Every key of a topic, and the broker keys that decide where a topic has none.

use super::definition::{
    CODECS, Definition, HOUR, Importance, Key, MINUTE, Reach, Typed, Update, Valid, default, keys, reach,
};

keys! {
    /// All topic keys, by subject.
    pub static TOPIC_KEYS;

    "Retention and compaction" {
        /// What becomes of old records: `delete` by age and size, `compact` to the last per key, or both.
        CLEANUP_POLICY: Vec<String> =
            "cleanup.policy", "delete", EachOf(&["compact", "delete"]), Medium, ClusterWide,
            ["log.cleanup.policy"];

        /// How long the mark of a deleted key is kept in a compacted topic, in milliseconds.
        DELETE_RETENTION_MS: i64 =
            "delete.retention.ms", "86400000", AtLeast(0), Medium, ClusterWide,
            ["log.cleaner.delete.retention.ms"];

        /// How long the files of a deleted segment stay on disk, in milliseconds.
        FILE_DELETE_DELAY_MS: i64 =
            "file.delete.delay.ms", "60000", AtLeast(0), Medium, ClusterWide,
            ["log.segment.delete.delay.ms"];

        /// Age at which a record makes its log due for compaction, in milliseconds.
        MAX_COMPACTION_LAG_MS: i64 =
            "max.compaction.lag.ms", "9223372036854775807", AtLeast(1), Medium, ClusterWide,
            ["log.cleaner.max.compaction.lag.ms"];

        /// Share of a log that must be uncompacted before it is compacted.
        MIN_CLEANABLE_DIRTY_RATIO: f64 =
            "min.cleanable.dirty.ratio", "0.5", Fraction(0.0, 1.0), Medium, ClusterWide,
            ["log.cleaner.min.cleanable.ratio"];

        /// Youngest age at which a record may be compacted away, in milliseconds.
        MIN_COMPACTION_LAG_MS: i64 =
            "min.compaction.lag.ms", "0", AtLeast(0), Medium, ClusterWide,
            ["log.cleaner.min.compaction.lag.ms"];

        /// Size a partition may grow to before its oldest segments are deleted, in bytes; -1 for no bound.
        RETENTION_BYTES: i64 = "retention.bytes", "-1", Any, Medium, ClusterWide, ["log.retention.bytes"];

        /// Age at which records may be deleted, in milliseconds; -1 keeps them for ever.
        RETENTION_MS: i64 =
            "retention.ms", "604800000", AtLeast(-1), Medium, ClusterWide,
            ["log.retention.ms", "log.retention.minutes" * MINUTE, "log.retention.hours" * HOUR];
    }

    "Records" {
        /// Codec records are stored in: `producer` keeps what each producer chose.
        COMPRESSION_TYPE: String =
            "compression.type", "producer", OneOf(CODECS), Medium, ClusterWide, ["compression.type"];

        /// Level used where the broker compresses with gzip; -1 is zlib's own default.
        COMPRESSION_GZIP_LEVEL: i32 =
            "compression.gzip.level", "-1", BetweenOr(1, 9, -1), Medium, ClusterWide,
            ["compression.gzip.level"];

        /// Level used where the broker compresses with lz4.
        COMPRESSION_LZ4_LEVEL: i32 =
            "compression.lz4.level", "9", Between(1, 17), Medium, ClusterWide, ["compression.lz4.level"];

        /// Level used where the broker compresses with zstd.
        COMPRESSION_ZSTD_LEVEL: i32 =
            "compression.zstd.level", "3", Between(-131072, 22), Medium, ClusterWide,
            ["compression.zstd.level"];

        /// Largest batch of records accepted, in bytes as compressed, with its 12 bytes of offset and length.
        MAX_MESSAGE_BYTES: i32 =
            "max.message.bytes", "1048588", AtLeast(0), Medium, ClusterWide, ["message.max.bytes"];

        /// Whether records are converted to older formats for old consumers. If not, those get an error.
        MESSAGE_DOWNCONVERSION_ENABLE: bool =
            "message.downconversion.enable", "true", Any, Low, ClusterWide,
            ["log.message.downconversion.enable"];

        /// Record format of old brokers. From 3.0 on records are always kept in format 2.
        MESSAGE_FORMAT_VERSION: String =
            "message.format.version", "3.0-IV1", ProtocolVersion, Medium, ClusterWide, NoEffect,
            ["log.message.format.version"];

        /// How far a record's time may lie after the broker's, in milliseconds, under `CreateTime`.
        MESSAGE_TIMESTAMP_AFTER_MAX_MS: i64 =
            "message.timestamp.after.max.ms", "9223372036854775807", AtLeast(0), Medium, ClusterWide,
            ["log.message.timestamp.after.max.ms"];

        /// How far a record's time may lie before the broker's, in milliseconds, under `CreateTime`.
        MESSAGE_TIMESTAMP_BEFORE_MAX_MS: i64 =
            "message.timestamp.before.max.ms", "9223372036854775807", AtLeast(0), Medium, ClusterWide,
            ["log.message.timestamp.before.max.ms"];

        /// How far a record's time may lie from the broker's either way, in milliseconds; used where the
        /// newer two keys are left alone.
        MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS: i64 =
            "message.timestamp.difference.max.ms", "9223372036854775807", AtLeast(0), Medium, ClusterWide,
            ["log.message.timestamp.difference.max.ms"];

        /// Whose time a record carries: `CreateTime` the producer's, `LogAppendTime` the broker's.
        MESSAGE_TIMESTAMP_TYPE: String =
            "message.timestamp.type", "CreateTime",
            OneOf(&["CreateTime", "LogAppendTime"]), Medium, ClusterWide,
            ["log.message.timestamp.type"];
    }

    "Segments and flushing" {
        /// Records a partition may hold unsynced before it is fsynced.
        FLUSH_MESSAGES: i64 =
            "flush.messages", "9223372036854775807", AtLeast(1), Medium, ClusterWide,
            ["log.flush.interval.messages"];

        /// How long a record may stay unsynced, in milliseconds.
        FLUSH_MS: i64 =
            "flush.ms", "9223372036854775807", AtLeast(0), Medium, ClusterWide,
            ["log.flush.interval.ms", "log.flush.scheduler.interval.ms"];

        /// Bytes of log between two entries of an index.
        INDEX_INTERVAL_BYTES: i32 =
            "index.interval.bytes", "4096", AtLeast(0), Medium, ClusterWide, ["log.index.interval.bytes"];

        /// Whether a new segment gets its full size on disk at once.
        PREALLOCATE: bool = "preallocate", "false", Any, Medium, ClusterWide, ["log.preallocate"];

        /// Size at which the active segment is closed and a new one begun, in bytes.
        SEGMENT_BYTES: i32 =
            "segment.bytes", "1073741824", AtLeast(14), Medium, ClusterWide, ["log.segment.bytes"];

        /// Size each index file is given, in bytes.
        SEGMENT_INDEX_BYTES: i32 =
            "segment.index.bytes", "10485760", AtLeast(4), Medium, ClusterWide,
            ["log.index.size.max.bytes"];

        /// Up to how much of `segment.ms` is taken off at random, in milliseconds, so that segments do not
        /// roll all at once.
        SEGMENT_JITTER_MS: i64 =
            "segment.jitter.ms", "0", AtLeast(0), Medium, ClusterWide,
            ["log.roll.jitter.ms", "log.roll.jitter.hours" * HOUR];

        /// Age at which the active segment is closed and a new one begun, in milliseconds.
        SEGMENT_MS: i64 =
            "segment.ms", "604800000", AtLeast(1), Medium, ClusterWide,
            ["log.roll.ms", "log.roll.hours" * HOUR];
    }

    "Replication" {
        /// Replicas whose fetching counts against the follower's throttle, as `partition:broker` pairs, or
        /// `*` for all.
        FOLLOWER_REPLICATION_THROTTLED_REPLICAS: Vec<String> =
            "follower.replication.throttled.replicas", "", ThrottledReplicas, Medium, ClusterWide;

        /// Replicas whose being fetched counts against the leader's throttle, as `partition:broker` pairs, or
        /// `*` for all.
        LEADER_REPLICATION_THROTTLED_REPLICAS: Vec<String> =
            "leader.replication.throttled.replicas", "", ThrottledReplicas, Medium, ClusterWide;

        /// Replicas that must hold a record before a producer with acks=all is told that it is written.
        MIN_INSYNC_REPLICAS: i32 =
            "min.insync.replicas", "1", AtLeast(1), Medium, ClusterWide, ["min.insync.replicas"];

        /// Whether a replica outside the ISR may lead when no member of it is left.
        UNCLEAN_LEADER_ELECTION_ENABLE: bool =
            "unclean.leader.election.enable", "false", Any, Medium, ClusterWide,
            ["unclean.leader.election.enable"];
    }

    "Tiered storage" {
        /// Size of what is kept here of a copied log, in bytes; -2 follows `retention.bytes`.
        LOCAL_RETENTION_BYTES: i64 =
            "local.retention.bytes", "-2", AtLeast(-2), Medium, ClusterWide, NoEffect,
            ["log.local.retention.bytes"];

        /// Age at which a copied segment may be deleted here, in milliseconds; -2 follows `retention.ms`.
        LOCAL_RETENTION_MS: i64 =
            "local.retention.ms", "-2", AtLeast(-2), Medium, ClusterWide, NoEffect,
            ["log.local.retention.ms"];

        /// Whether copying to remote storage is stopped.
        REMOTE_LOG_COPY_DISABLE: bool =
            "remote.log.copy.disable", "false", Any, Medium, ClusterWide, NoEffect;

        /// Whether remote segments are deleted when remote storage is turned off.
        REMOTE_LOG_DELETE_ON_DISABLE: bool =
            "remote.log.delete.on.disable", "false", Any, Medium, ClusterWide, NoEffect;

        /// Whether segments are moved to remote storage.
        REMOTE_STORAGE_ENABLE: bool = "remote.storage.enable", "false", Any, Medium, ClusterWide, NoEffect;
    }
}
