//! Every key of a broker: those of Kafka 3.9 in ZooKeeper mode, its KRaft keys included.

use super::definition::{
    CODECS, ClassName, Definition, HOUR, Importance, Key, MINUTE, Password, Reach, Typed, Update, Valid,
    default, keys, reach,
};

keys! {
    /// All broker keys, by subject.
    pub static BROKER_KEYS;

    "Identity and ZooKeeper" {
        /// Identity of this broker in the cluster. With -1 the id stored in `meta.properties` is used, or a
        /// new one above `reserved.broker.max.id` is drawn from ZooKeeper.
        BROKER_ID: i32 = "broker.id", "-1", Any, High, ReadOnly;

        /// Whether ids above `reserved.broker.max.id` are left to generation. While on, a configured
        /// `broker.id` may not be larger than that.
        BROKER_ID_GENERATION_ENABLE: bool = "broker.id.generation.enable", "true", Any, Medium, ReadOnly;

        /// Largest `broker.id` that may be configured by hand; generated ids start one above it.
        RESERVED_BROKER_MAX_ID: i32 = "reserved.broker.max.id", "1000", AtLeast(0), Medium, ReadOnly;

        /// Name of the rack, zone or room this broker stands in. New topics spread their replicas over racks,
        /// and consumers may fetch from a replica in their own.
        BROKER_RACK: Option<String> = "broker.rack", null, Any, Medium, ReadOnly;

        /// Addresses of the ZooKeeper ensemble, `host1:2181,host2:2181/chroot`. The chroot is created if it
        /// is missing.
        ZOOKEEPER_CONNECT: Option<String> = "zookeeper.connect", null, Any, High, ReadOnly;

        /// Silence after which ZooKeeper gives this broker up, in milliseconds; the server may clamp it. A
        /// shorter time notices failures sooner, a longer one survives pauses.
        ZOOKEEPER_SESSION_TIMEOUT_MS: i32 = "zookeeper.session.timeout.ms", "18000", Any, High, ReadOnly;

        /// How long the start waits for a first ZooKeeper session, in milliseconds. The session timeout if
        /// unset.
        ZOOKEEPER_CONNECTION_TIMEOUT_MS: Option<i32> =
            "zookeeper.connection.timeout.ms", null, Any, High, ReadOnly;

        /// How many requests may be under way to ZooKeeper at once before further ones wait.
        ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS: i32 =
            "zookeeper.max.in.flight.requests", "10", AtLeast(1), High, ReadOnly;

        /// Whether znodes are created with ACLs that let only brokers write them. Needs an authenticated
        /// ZooKeeper session.
        ZOOKEEPER_SET_ACL: bool = "zookeeper.set.acl", "false", Any, High, ReadOnly;

        /// Whether ZooKeeper is spoken to over TLS.
        ZOOKEEPER_SSL_CLIENT_ENABLE: bool = "zookeeper.ssl.client.enable", "false", Any, Medium, ReadOnly;

        /// Java class of ZooKeeper's client socket.
        ZOOKEEPER_CLIENTCNXNSOCKET: Option<String> =
            "zookeeper.clientCnxnSocket", null, Any, Medium, ReadOnly, NoEffect;

        /// Key store with the certificate shown to ZooKeeper.
        ZOOKEEPER_SSL_KEYSTORE_LOCATION: Option<String> =
            "zookeeper.ssl.keystore.location", null, Any, Medium, ReadOnly;

        /// Password of the key store used towards ZooKeeper.
        ZOOKEEPER_SSL_KEYSTORE_PASSWORD: Option<Password> =
            "zookeeper.ssl.keystore.password", null, Any, Medium, ReadOnly;

        /// Format of the key store used towards ZooKeeper; told from the file's name if unset.
        ZOOKEEPER_SSL_KEYSTORE_TYPE: Option<String> =
            "zookeeper.ssl.keystore.type", null, Any, Medium, ReadOnly;

        /// Trust store with the authorities believed when ZooKeeper shows its certificate.
        ZOOKEEPER_SSL_TRUSTSTORE_LOCATION: Option<String> =
            "zookeeper.ssl.truststore.location", null, Any, Medium, ReadOnly;

        /// Password of the trust store used towards ZooKeeper.
        ZOOKEEPER_SSL_TRUSTSTORE_PASSWORD: Option<Password> =
            "zookeeper.ssl.truststore.password", null, Any, Medium, ReadOnly;

        /// Format of the trust store used towards ZooKeeper; told from the file's name if unset.
        ZOOKEEPER_SSL_TRUSTSTORE_TYPE: Option<String> =
            "zookeeper.ssl.truststore.type", null, Any, Medium, ReadOnly;

        /// TLS version that a handshake with ZooKeeper starts with.
        ZOOKEEPER_SSL_PROTOCOL: String = "zookeeper.ssl.protocol", "TLSv1.2", Any, Low, ReadOnly;

        /// TLS versions allowed towards ZooKeeper; `zookeeper.ssl.protocol` alone if unset.
        ZOOKEEPER_SSL_ENABLED_PROTOCOLS: Option<Vec<String>> =
            "zookeeper.ssl.enabled.protocols", null, Any, Low, ReadOnly;

        /// Cipher suites allowed towards ZooKeeper; the library's own choice if unset.
        ZOOKEEPER_SSL_CIPHER_SUITES: Option<Vec<String>> =
            "zookeeper.ssl.cipher.suites", null, Any, Low, ReadOnly;

        /// `HTTPS` checks that ZooKeeper's certificate names the host that was dialled; empty does not.
        ZOOKEEPER_SSL_ENDPOINT_IDENTIFICATION_ALGORITHM: String =
            "zookeeper.ssl.endpoint.identification.algorithm", "HTTPS", Any, Low, ReadOnly;

        /// Whether certificates of ZooKeeper are looked up in revocation lists.
        ZOOKEEPER_SSL_CRL_ENABLE: bool = "zookeeper.ssl.crl.enable", "false", Any, Low, ReadOnly;

        /// Whether the revocation of ZooKeeper's certificates is asked about online.
        ZOOKEEPER_SSL_OCSP_ENABLE: bool = "zookeeper.ssl.ocsp.enable", "false", Any, Low, ReadOnly;

        /// Whether to take part in a migration from ZooKeeper to KRaft.
        ZOOKEEPER_METADATA_MIGRATION_ENABLE: bool =
            "zookeeper.metadata.migration.enable", "false", Any, High, ReadOnly;

        /// Smallest number of records in a batch of a migration to KRaft.
        ZOOKEEPER_METADATA_MIGRATION_MIN_BATCH_SIZE: i32 =
            "zookeeper.metadata.migration.min.batch.size", "200", AtLeast(1), Medium, ReadOnly, Internal;
    }

    "Listeners and connections" {
        /// Where to listen: a comma-separated list of `NAME://host:port`. An empty host means the default
        /// interface, `0.0.0.0` every one; names and ports must not repeat.
        LISTENERS: String = "listeners", "PLAINTEXT://:9092", Any, High, PerBroker;

        /// What clients and other brokers are told to dial, in the form of `listeners`. The listeners
        /// themselves if unset; `0.0.0.0` cannot be advertised.
        ADVERTISED_LISTENERS: Option<String> = "advertised.listeners", null, Any, High, PerBroker;

        /// Security protocol of each listener name, as `NAME:PROTOCOL` pairs. A name that is itself a
        /// protocol stands for it by default.
        LISTENER_SECURITY_PROTOCOL_MAP: String =
            "listener.security.protocol.map",
            "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
            Any, Low, PerBroker;

        /// Listener that brokers use among themselves. If unset, `security.inter.broker.protocol` decides;
        /// both cannot be set.
        INTER_BROKER_LISTENER_NAME: Option<String> =
            "inter.broker.listener.name", null, Any, Medium, ReadOnly;

        /// Security protocol that brokers use among themselves when no `inter.broker.listener.name` is given.
        SECURITY_INTER_BROKER_PROTOCOL: String =
            "security.inter.broker.protocol", "PLAINTEXT",
            OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]), Medium, ReadOnly;

        /// Listener kept for the controller's requests, with its own thread; none if unset.
        CONTROL_PLANE_LISTENER_NAME: Option<String> =
            "control.plane.listener.name", null, Any, High, ReadOnly;

        /// Listeners that may open before authorization is ready.
        EARLY_START_LISTENERS: Option<String> = "early.start.listeners", null, Any, High, ReadOnly;

        /// Size of each connection's send buffer (SO_SNDBUF) in bytes; -1 leaves it to the system.
        SOCKET_SEND_BUFFER_BYTES: i32 = "socket.send.buffer.bytes", "102400", Any, High, ReadOnly;

        /// Size of each connection's receive buffer (SO_RCVBUF) in bytes; -1 leaves it to the system.
        SOCKET_RECEIVE_BUFFER_BYTES: i32 = "socket.receive.buffer.bytes", "102400", Any, High, ReadOnly;

        /// Largest request in bytes. A connection that announces a larger one is closed.
        SOCKET_REQUEST_MAX_BYTES: i32 = "socket.request.max.bytes", "104857600", AtLeast(1), High, ReadOnly;

        /// Connections that may wait to be accepted; the system may allow fewer.
        SOCKET_LISTEN_BACKLOG_SIZE: i32 = "socket.listen.backlog.size", "50", AtLeast(1), Medium, ReadOnly;

        /// How long the first try to connect to another broker may take, in milliseconds; doubles with each
        /// failure.
        SOCKET_CONNECTION_SETUP_TIMEOUT_MS: i64 =
            "socket.connection.setup.timeout.ms", "10000", Any, Medium, ReadOnly;

        /// Longest time a try to connect to another broker may take, in milliseconds.
        SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS: i64 =
            "socket.connection.setup.timeout.max.ms", "30000", Any, Medium, ReadOnly;

        /// Connections this broker accepts in all. May be set for one listener with the `listener.name.`
        /// prefix.
        MAX_CONNECTIONS: i32 = "max.connections", "2147483647", AtLeast(0), Medium, ClusterWide;

        /// Connections accepted from one address. 0 is allowed only with overrides.
        MAX_CONNECTIONS_PER_IP: i32 = "max.connections.per.ip", "2147483647", AtLeast(0), Medium, ClusterWide;

        /// Connections accepted from particular addresses, as `host:number` pairs.
        MAX_CONNECTIONS_PER_IP_OVERRIDES: String =
            "max.connections.per.ip.overrides", "", Any, Medium, ClusterWide;

        /// New connections accepted in a second, over all listeners.
        MAX_CONNECTION_CREATION_RATE: i32 =
            "max.connection.creation.rate", "2147483647", AtLeast(0), Medium, ClusterWide;

        /// Idle time after which a connection is closed, in milliseconds.
        CONNECTIONS_MAX_IDLE_MS: i64 = "connections.max.idle.ms", "600000", Any, Medium, ReadOnly;

        /// Lifetime of a SASL login, in milliseconds, after which a client must prove itself again; 0 means
        /// for ever.
        CONNECTIONS_MAX_REAUTH_MS: i64 = "connections.max.reauth.ms", "0", Any, Medium, ReadOnly;

        /// Pause before a connection that failed to authenticate is closed, in milliseconds. Must be shorter
        /// than `connections.max.idle.ms`.
        CONNECTION_FAILED_AUTHENTICATION_DELAY_MS: i32 =
            "connection.failed.authentication.delay.ms", "100", AtLeast(0), Low, ReadOnly;

        /// Threads that Kafka uses for the network. Connections here are tasks on as many threads as there
        /// are cores.
        NUM_NETWORK_THREADS: i32 = "num.network.threads", "3", AtLeast(1), High, ClusterWide, NoEffect;

        /// Threads that Kafka uses to handle requests. Requests here are tasks on as many threads as there
        /// are cores.
        NUM_IO_THREADS: i32 = "num.io.threads", "8", AtLeast(1), High, ClusterWide, NoEffect;

        /// Threads that Kafka keeps for periodic work.
        BACKGROUND_THREADS: i32 = "background.threads", "10", AtLeast(1), High, ClusterWide, NoEffect;

        /// Requests that may wait to be handled before reading from connections stops.
        QUEUED_MAX_REQUESTS: i32 = "queued.max.requests", "500", AtLeast(1), High, ReadOnly;

        /// Bytes of requests that may be held before reading from connections stops; -1 for no such bound.
        QUEUED_MAX_REQUEST_BYTES: i64 = "queued.max.request.bytes", "-1", Any, Medium, ReadOnly;

        /// How long an answer from another broker is awaited, in milliseconds.
        REQUEST_TIMEOUT_MS: i32 = "request.timeout.ms", "30000", Any, High, ReadOnly;
    }

    "Topics" {
        /// Whether a topic is created when a client asks for one that does not exist.
        AUTO_CREATE_TOPICS_ENABLE: bool = "auto.create.topics.enable", "true", Any, High, ReadOnly;

        /// Whether topics can be deleted.
        DELETE_TOPIC_ENABLE: bool = "delete.topic.enable", "true", Any, High, ReadOnly;

        /// Partitions of a topic created without naming a number.
        NUM_PARTITIONS: i32 = "num.partitions", "1", AtLeast(1), Medium, ReadOnly;

        /// Replicas of a topic created without naming a number.
        DEFAULT_REPLICATION_FACTOR: i32 = "default.replication.factor", "1", Any, Medium, ReadOnly;

        /// Replicas that must hold a record before a producer with acks=all is told that it is written.
        MIN_INSYNC_REPLICAS: i32 = "min.insync.replicas", "1", AtLeast(1), High, ClusterWide;

        /// Whether a replica outside the ISR may lead when no member of it is left. Brings the partition back
        /// at the price of acknowledged records.
        UNCLEAN_LEADER_ELECTION_ENABLE: bool =
            "unclean.leader.election.enable", "false", Any, High, ClusterWide;

        /// How often partitions without a leader are looked at for an unclean election, in milliseconds.
        UNCLEAN_LEADER_ELECTION_INTERVAL_MS: i64 =
            "unclean.leader.election.interval.ms", "300000", AtLeast(1), Medium, ReadOnly, Internal;

        /// Codec records are stored in: `producer` keeps what each producer chose.
        COMPRESSION_TYPE: String = "compression.type", "producer", OneOf(CODECS), High, ClusterWide;

        /// Level used where this broker compresses with gzip; -1 is zlib's own default.
        COMPRESSION_GZIP_LEVEL: i32 =
            "compression.gzip.level", "-1", BetweenOr(1, 9, -1), Medium, ClusterWide;

        /// Level used where this broker compresses with lz4.
        COMPRESSION_LZ4_LEVEL: i32 = "compression.lz4.level", "9", Between(1, 17), Medium, ClusterWide;

        /// Level used where this broker compresses with zstd.
        COMPRESSION_ZSTD_LEVEL: i32 =
            "compression.zstd.level", "3", Between(-131072, 22), Medium, ClusterWide;

        /// Largest batch of records accepted, in bytes as compressed, with its 12 bytes of offset and length.
        MESSAGE_MAX_BYTES: i32 = "message.max.bytes", "1048588", AtLeast(0), High, ClusterWide;

        /// Java class that may refuse new topics.
        CREATE_TOPIC_POLICY_CLASS_NAME: Option<ClassName> =
            "create.topic.policy.class.name", null, Any, Low, ReadOnly;

        /// Java class that may refuse changes of configuration.
        ALTER_CONFIG_POLICY_CLASS_NAME: Option<ClassName> =
            "alter.config.policy.class.name", null, Any, Low, ReadOnly;

        /// Partitions that one DescribeTopicPartitions answer may hold.
        MAX_REQUEST_PARTITION_SIZE_LIMIT: i32 =
            "max.request.partition.size.limit", "2000", AtLeast(1), Medium, ReadOnly;
    }

    "The log" {
        /// Directories that hold the partitions, separated by commas. Instead of `log.dir` if set.
        LOG_DIRS: Option<String> = "log.dirs", null, Any, High, ReadOnly;

        /// Directory that holds the partitions, used where `log.dirs` is unset.
        LOG_DIR: String = "log.dir", "/tmp/kafka-logs", Any, High, ReadOnly;

        /// Size at which the active segment is closed and a new one begun, in bytes.
        LOG_SEGMENT_BYTES: i32 = "log.segment.bytes", "1073741824", AtLeast(14), High, ClusterWide;

        /// Age at which the active segment is closed and a new one begun, in milliseconds. `log.roll.hours`
        /// if unset.
        LOG_ROLL_MS: Option<i64> = "log.roll.ms", null, Any, High, ClusterWide, ["log.roll.hours" * HOUR];

        /// Age at which the active segment is closed and a new one begun, in hours.
        LOG_ROLL_HOURS: i32 = "log.roll.hours", "168", AtLeast(1), High, ReadOnly;

        /// Up to how much of `log.roll.ms` is taken off at random, in milliseconds, so that segments do not
        /// roll all at once. `log.roll.jitter.hours` if unset.
        LOG_ROLL_JITTER_MS: Option<i64> =
            "log.roll.jitter.ms", null, Any, High, ClusterWide, ["log.roll.jitter.hours" * HOUR];

        /// Up to how much of `log.roll.hours` is taken off at random, in hours.
        LOG_ROLL_JITTER_HOURS: i32 = "log.roll.jitter.hours", "0", AtLeast(0), High, ReadOnly;

        /// Age at which records may be deleted, in milliseconds; -1 keeps them for ever.
        /// `log.retention.minutes` if unset.
        LOG_RETENTION_MS: Option<i64> =
            "log.retention.ms", null, Any, High, ClusterWide,
            ["log.retention.minutes" * MINUTE, "log.retention.hours" * HOUR];

        /// Age at which records may be deleted, in minutes. `log.retention.hours` if unset.
        LOG_RETENTION_MINUTES: Option<i32> = "log.retention.minutes", null, Any, High, ReadOnly;

        /// Age at which records may be deleted, in hours.
        LOG_RETENTION_HOURS: i32 = "log.retention.hours", "168", Any, High, ReadOnly;

        /// Size a partition may grow to before its oldest segments are deleted, in bytes; -1 for no bound.
        LOG_RETENTION_BYTES: i64 = "log.retention.bytes", "-1", Any, High, ClusterWide;

        /// How often logs are looked over for segments to delete, in milliseconds.
        LOG_RETENTION_CHECK_INTERVAL_MS: i64 =
            "log.retention.check.interval.ms", "300000", AtLeast(1), Medium, ReadOnly;

        /// How long the files of a deleted segment stay on disk, in milliseconds.
        LOG_SEGMENT_DELETE_DELAY_MS: i64 =
            "log.segment.delete.delay.ms", "60000", AtLeast(0), High, ClusterWide;

        /// What becomes of old records: `delete` by age and size, `compact` to the last per key, or both.
        LOG_CLEANUP_POLICY: Vec<String> =
            "log.cleanup.policy", "delete", EachOf(&["compact", "delete"]), Medium, ClusterWide;

        /// Size each index file is given, in bytes.
        LOG_INDEX_SIZE_MAX_BYTES: i32 =
            "log.index.size.max.bytes", "10485760", AtLeast(4), Medium, ClusterWide;

        /// Bytes of log between two entries of an index. Less finds records sooner and makes larger indexes.
        LOG_INDEX_INTERVAL_BYTES: i32 = "log.index.interval.bytes", "4096", AtLeast(0), Medium, ClusterWide;

        /// Records a partition may hold unsynced before it is fsynced. Left large, replication protects them
        /// and the system flushes when it likes.
        LOG_FLUSH_INTERVAL_MESSAGES: i64 =
            "log.flush.interval.messages", "9223372036854775807", AtLeast(1), High, ClusterWide;

        /// How long a record may stay unsynced, in milliseconds. `log.flush.scheduler.interval.ms` if unset.
        LOG_FLUSH_INTERVAL_MS: Option<i64> =
            "log.flush.interval.ms", null, Any, High, ClusterWide, ["log.flush.scheduler.interval.ms"];

        /// How often logs are looked over for what is due to be fsynced, in milliseconds.
        LOG_FLUSH_SCHEDULER_INTERVAL_MS: i64 =
            "log.flush.scheduler.interval.ms", "9223372036854775807", Any, High, ReadOnly;

        /// How often recovery points are written, in milliseconds. A start after a crash need not read what
        /// lies before them.
        LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS: i32 =
            "log.flush.offset.checkpoint.interval.ms", "60000", AtLeast(0), High, ReadOnly;

        /// How often the start offsets of logs are written, in milliseconds.
        LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS: i32 =
            "log.flush.start.offset.checkpoint.interval.ms", "60000", AtLeast(0), High, ReadOnly;

        /// Whether a new segment gets its full size on disk at once.
        LOG_PREALLOCATE: bool = "log.preallocate", "false", Any, Medium, ClusterWide;

        /// How long after the start the first round of log upkeep begins, in milliseconds.
        LOG_INITIAL_TASK_DELAY_MS: i64 =
            "log.initial.task.delay.ms", "30000", AtLeast(0), Low, ReadOnly, Internal;

        /// How long a failed log directory may stay unknown to the controller before the broker shuts down,
        /// in milliseconds.
        LOG_DIR_FAILURE_TIMEOUT_MS: i64 = "log.dir.failure.timeout.ms", "30000", AtLeast(1), Low, ReadOnly;

        /// Threads for each log directory that load logs at start and flush them at shutdown.
        NUM_RECOVERY_THREADS_PER_DATA_DIR: i32 =
            "num.recovery.threads.per.data.dir", "1", AtLeast(1), High, ClusterWide;

        /// Record format of old brokers. From 3.0 on records are always kept in format 2.
        LOG_MESSAGE_FORMAT_VERSION: String =
            "log.message.format.version", "3.0-IV1", ProtocolVersion, Medium, ReadOnly, NoEffect;

        /// Whose time a record carries: `CreateTime` the producer's, `LogAppendTime` the broker's.
        LOG_MESSAGE_TIMESTAMP_TYPE: String =
            "log.message.timestamp.type", "CreateTime",
            OneOf(&["CreateTime", "LogAppendTime"]), Medium, ClusterWide;

        /// How far a record's time may lie before the broker's, in milliseconds, under `CreateTime`.
        LOG_MESSAGE_TIMESTAMP_BEFORE_MAX_MS: i64 =
            "log.message.timestamp.before.max.ms", "9223372036854775807", AtLeast(0), Medium, ClusterWide;

        /// How far a record's time may lie after the broker's, in milliseconds, under `CreateTime`.
        LOG_MESSAGE_TIMESTAMP_AFTER_MAX_MS: i64 =
            "log.message.timestamp.after.max.ms", "9223372036854775807", AtLeast(0), Medium, ClusterWide;

        /// How far a record's time may lie from the broker's either way, in milliseconds; used where the
        /// newer two keys are left alone.
        LOG_MESSAGE_TIMESTAMP_DIFFERENCE_MAX_MS: i64 =
            "log.message.timestamp.difference.max.ms", "9223372036854775807", AtLeast(0), Medium, ClusterWide;

        /// Whether records are converted to older formats for old consumers. If not, those get an error.
        LOG_MESSAGE_DOWNCONVERSION_ENABLE: bool =
            "log.message.downconversion.enable", "true", Any, Low, ClusterWide;

        /// How long an idle producer's sequence numbers are remembered, in milliseconds.
        PRODUCER_ID_EXPIRATION_MS: i32 =
            "producer.id.expiration.ms", "86400000", AtLeast(1), Low, ClusterWide;

        /// How often idle producers are looked for, in milliseconds.
        PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS: i32 =
            "producer.id.expiration.check.interval.ms", "600000", AtLeast(1), Low, ReadOnly, Internal;
    }

    "Compaction" {
        /// Whether compaction runs. Without it compacted topics, consumer offsets among them, grow for ever.
        LOG_CLEANER_ENABLE: bool = "log.cleaner.enable", "true", Any, Medium, ReadOnly;

        /// Threads that compact.
        LOG_CLEANER_THREADS: i32 = "log.cleaner.threads", "1", AtLeast(0), Medium, ClusterWide;

        /// Memory for the key maps of all cleaner threads together, in bytes.
        LOG_CLEANER_DEDUPE_BUFFER_SIZE: i64 =
            "log.cleaner.dedupe.buffer.size", "134217728", Any, Medium, ClusterWide;

        /// Memory for reading and writing of all cleaner threads together, in bytes.
        LOG_CLEANER_IO_BUFFER_SIZE: i32 =
            "log.cleaner.io.buffer.size", "524288", AtLeast(0), Medium, ClusterWide;

        /// How full a key map may become. Fuller maps clean more at once and collide more often.
        LOG_CLEANER_IO_BUFFER_LOAD_FACTOR: f64 =
            "log.cleaner.io.buffer.load.factor", "0.9", Any, Medium, ClusterWide;

        /// Most bytes that cleaners read and write in a second, on average.
        LOG_CLEANER_IO_MAX_BYTES_PER_SECOND: f64 =
            "log.cleaner.io.max.bytes.per.second", "1.7976931348623157E308", Any, Medium, ClusterWide;

        /// Pause of a cleaner that found nothing to do, in milliseconds.
        LOG_CLEANER_BACKOFF_MS: i64 = "log.cleaner.backoff.ms", "15000", AtLeast(0), Medium, ClusterWide;

        /// Share of a log that must be uncompacted before it is compacted.
        LOG_CLEANER_MIN_CLEANABLE_RATIO: f64 =
            "log.cleaner.min.cleanable.ratio", "0.5", Fraction(0.0, 1.0), Medium, ClusterWide;

        /// How long the mark of a deleted key is kept, in milliseconds, for readers that started before.
        LOG_CLEANER_DELETE_RETENTION_MS: i64 =
            "log.cleaner.delete.retention.ms", "86400000", AtLeast(0), Medium, ClusterWide;

        /// Youngest age at which a record may be compacted away, in milliseconds.
        LOG_CLEANER_MIN_COMPACTION_LAG_MS: i64 =
            "log.cleaner.min.compaction.lag.ms", "0", AtLeast(0), Medium, ClusterWide;

        /// Age at which a record makes its log due for compaction, in milliseconds.
        LOG_CLEANER_MAX_COMPACTION_LAG_MS: i64 =
            "log.cleaner.max.compaction.lag.ms", "9223372036854775807", AtLeast(1), Medium, ClusterWide;
    }

    "Replication" {
        /// How long a follower may be behind the leader's end before it leaves the ISR, in milliseconds.
        REPLICA_LAG_TIME_MAX_MS: i64 = "replica.lag.time.max.ms", "30000", Any, High, ReadOnly;

        /// Bytes a follower asks for from each partition; a larger first batch still comes whole.
        REPLICA_FETCH_MAX_BYTES: i32 = "replica.fetch.max.bytes", "1048576", AtLeast(0), Medium, ReadOnly;

        /// Bytes a leader waits for before it answers a follower.
        REPLICA_FETCH_MIN_BYTES: i32 = "replica.fetch.min.bytes", "1", Any, High, ReadOnly;

        /// How long a leader may make a follower wait, in milliseconds. Should be shorter than
        /// `replica.lag.time.max.ms`.
        REPLICA_FETCH_WAIT_MAX_MS: i32 = "replica.fetch.wait.max.ms", "500", Any, High, ReadOnly;

        /// Bytes a follower asks for in one answer; a larger first batch still comes whole.
        REPLICA_FETCH_RESPONSE_MAX_BYTES: i32 =
            "replica.fetch.response.max.bytes", "10485760", AtLeast(0), Medium, ReadOnly;

        /// Pause after a failed fetch from a leader, in milliseconds.
        REPLICA_FETCH_BACKOFF_MS: i32 = "replica.fetch.backoff.ms", "1000", AtLeast(0), Medium, ReadOnly;

        /// How long a follower waits for a leader's answer, in milliseconds; at least
        /// `replica.fetch.wait.max.ms`.
        REPLICA_SOCKET_TIMEOUT_MS: i32 = "replica.socket.timeout.ms", "30000", Any, High, ReadOnly;

        /// Receive buffer of a follower's connections, in bytes.
        REPLICA_SOCKET_RECEIVE_BUFFER_BYTES: i32 =
            "replica.socket.receive.buffer.bytes", "65536", Any, High, ReadOnly;

        /// How often high watermarks are written to disk, in milliseconds.
        REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS: i64 =
            "replica.high.watermark.checkpoint.interval.ms", "5000", Any, High, ReadOnly;

        /// Java class that picks the replica a consumer reads from. The rack-aware selector of Kafka is known
        /// by its name.
        REPLICA_SELECTOR_CLASS: Option<String> = "replica.selector.class", null, Any, Medium, ReadOnly;

        /// Connections over which followers fetch from each broker.
        NUM_REPLICA_FETCHERS: i32 = "num.replica.fetchers", "1", Any, High, ClusterWide;

        /// Threads that move partitions between log directories; as many as directories if unset.
        NUM_REPLICA_ALTER_LOG_DIRS_THREADS: Option<i32> =
            "num.replica.alter.log.dirs.threads", null, Any, High, ReadOnly;

        /// Version of Kafka whose protocol brokers speak among themselves. Raise it when every broker has
        /// been upgraded.
        INTER_BROKER_PROTOCOL_VERSION: String =
            "inter.broker.protocol.version", "3.9-IV0", ProtocolVersion, Medium, ReadOnly;

        /// Bytes one fetch may return, whatever the client asked for.
        FETCH_MAX_BYTES: i32 = "fetch.max.bytes", "57671680", AtLeast(1024), Medium, ReadOnly;

        /// Incremental fetch sessions that are kept.
        MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS: i32 =
            "max.incremental.fetch.session.cache.slots", "1000", AtLeast(0), Medium, ReadOnly;

        /// Finished waiting fetches after which Kafka sweeps them out. Here they leave when they finish.
        FETCH_PURGATORY_PURGE_INTERVAL_REQUESTS: i32 =
            "fetch.purgatory.purge.interval.requests", "1000", Any, Medium, ReadOnly, NoEffect;

        /// Finished waiting produces after which Kafka sweeps them out. Here they leave when they finish.
        PRODUCER_PURGATORY_PURGE_INTERVAL_REQUESTS: i32 =
            "producer.purgatory.purge.interval.requests", "1000", Any, Medium, ReadOnly, NoEffect;

        /// Finished waiting record deletions after which Kafka sweeps them out. Here they leave when they
        /// finish.
        DELETE_RECORDS_PURGATORY_PURGE_INTERVAL_REQUESTS: i32 =
            "delete.records.purgatory.purge.interval.requests", "1", Any, Medium, ReadOnly, NoEffect;
    }

    "Controller" {
        /// Whether leadership is given back to preferred replicas from time to time.
        AUTO_LEADER_REBALANCE_ENABLE: bool = "auto.leader.rebalance.enable", "true", Any, High, ReadOnly;

        /// How often the spread of leadership is looked at, in seconds.
        LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS: i64 =
            "leader.imbalance.check.interval.seconds", "300", AtLeast(1), High, ReadOnly;

        /// Share of a broker's partitions that others may lead before it gets its own back, in percent.
        LEADER_IMBALANCE_PER_BROKER_PERCENTAGE: i32 =
            "leader.imbalance.per.broker.percentage", "10", Any, High, ReadOnly;

        /// Whether a stopping broker first hands its leadership over.
        CONTROLLED_SHUTDOWN_ENABLE: bool = "controlled.shutdown.enable", "true", Any, Medium, ReadOnly;

        /// How often handing leadership over is tried.
        CONTROLLED_SHUTDOWN_MAX_RETRIES: i32 = "controlled.shutdown.max.retries", "3", Any, Medium, ReadOnly;

        /// Pause before handing leadership over is tried again, in milliseconds.
        CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS: i64 =
            "controlled.shutdown.retry.backoff.ms", "5000", Any, Medium, ReadOnly;

        /// How long the controller waits for a broker's answer, in milliseconds.
        CONTROLLER_SOCKET_TIMEOUT_MS: i32 = "controller.socket.timeout.ms", "30000", Any, Medium, ReadOnly;
    }

    "Consumer groups and offsets" {
        /// Shortest session timeout a member of a group may ask for, in milliseconds.
        GROUP_MIN_SESSION_TIMEOUT_MS: i32 = "group.min.session.timeout.ms", "6000", Any, Medium, ReadOnly;

        /// Longest session timeout a member of a group may ask for, in milliseconds.
        GROUP_MAX_SESSION_TIMEOUT_MS: i32 = "group.max.session.timeout.ms", "1800000", Any, Medium, ReadOnly;

        /// How long a group with its first member waits for more before it balances, in milliseconds.
        GROUP_INITIAL_REBALANCE_DELAY_MS: i32 =
            "group.initial.rebalance.delay.ms", "3000", Any, Medium, ReadOnly;

        /// Members a group may have.
        GROUP_MAX_SIZE: i32 = "group.max.size", "2147483647", AtLeast(1), Medium, ReadOnly;

        /// Length of the note that may be stored with an offset, in bytes.
        OFFSET_METADATA_MAX_BYTES: i32 = "offset.metadata.max.bytes", "4096", Any, High, ReadOnly;

        /// Partitions of the topic that holds offsets. Not to be changed once it exists.
        OFFSETS_TOPIC_NUM_PARTITIONS: i32 = "offsets.topic.num.partitions", "50", AtLeast(1), High, ReadOnly;

        /// Replicas of the topic that holds offsets. It is created when so many brokers are there.
        OFFSETS_TOPIC_REPLICATION_FACTOR: i16 =
            "offsets.topic.replication.factor", "3", AtLeast(1), High, ReadOnly;

        /// Segment size of the topic that holds offsets, in bytes; small, so that it is compacted and loaded
        /// fast.
        OFFSETS_TOPIC_SEGMENT_BYTES: i32 =
            "offsets.topic.segment.bytes", "104857600", AtLeast(1), High, ReadOnly;

        /// Codec of the topic that holds offsets, as a number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
        OFFSETS_TOPIC_COMPRESSION_CODEC: i32 = "offsets.topic.compression.codec", "0", Any, High, ReadOnly;

        /// Bytes read at once while offsets are loaded into memory.
        OFFSETS_LOAD_BUFFER_SIZE: i32 = "offsets.load.buffer.size", "5242880", AtLeast(1), High, ReadOnly;

        /// How long offsets outlive their group, or their last commit if there is no group, in minutes.
        OFFSETS_RETENTION_MINUTES: i32 = "offsets.retention.minutes", "10080", AtLeast(1), High, ReadOnly;

        /// How often outlived offsets are looked for, in milliseconds.
        OFFSETS_RETENTION_CHECK_INTERVAL_MS: i64 =
            "offsets.retention.check.interval.ms", "600000", AtLeast(1), High, ReadOnly;

        /// How long a commit of offsets waits for its replicas, in milliseconds.
        OFFSETS_COMMIT_TIMEOUT_MS: i32 = "offsets.commit.timeout.ms", "5000", AtLeast(1), High, ReadOnly;

        /// Acks that a commit of offsets waits for; -1, all, should not be changed.
        OFFSETS_COMMIT_REQUIRED_ACKS: i16 = "offsets.commit.required.acks", "-1", Any, High, ReadOnly;

        /// Whether Kafka's newer group coordinator is used.
        GROUP_COORDINATOR_NEW_ENABLE: bool =
            "group.coordinator.new.enable", "false", Any, Medium, ReadOnly, Internal;

        /// Rebalance protocols that are offered: `classic`, and `consumer` for KIP-848.
        GROUP_COORDINATOR_REBALANCE_PROTOCOLS: Vec<String> =
            "group.coordinator.rebalance.protocols", "classic",
            EachOf(&["consumer", "classic", "share", "unknown"]), Medium, ReadOnly;

        /// Threads of Kafka's newer group coordinator.
        GROUP_COORDINATOR_THREADS: i32 =
            "group.coordinator.threads", "1", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// How long the newer coordinator collects records before it writes them, in milliseconds.
        GROUP_COORDINATOR_APPEND_LINGER_MS: i32 =
            "group.coordinator.append.linger.ms", "10", AtLeast(0), Medium, ReadOnly;

        /// Session timeout of members under the consumer protocol, in milliseconds.
        GROUP_CONSUMER_SESSION_TIMEOUT_MS: i32 =
            "group.consumer.session.timeout.ms", "45000", AtLeast(1), Medium, ReadOnly;

        /// Shortest session timeout under the consumer protocol, in milliseconds.
        GROUP_CONSUMER_MIN_SESSION_TIMEOUT_MS: i32 =
            "group.consumer.min.session.timeout.ms", "45000", AtLeast(1), Medium, ReadOnly;

        /// Longest session timeout under the consumer protocol, in milliseconds.
        GROUP_CONSUMER_MAX_SESSION_TIMEOUT_MS: i32 =
            "group.consumer.max.session.timeout.ms", "60000", AtLeast(1), Medium, ReadOnly;

        /// Heartbeat interval of members under the consumer protocol, in milliseconds.
        GROUP_CONSUMER_HEARTBEAT_INTERVAL_MS: i32 =
            "group.consumer.heartbeat.interval.ms", "5000", AtLeast(1), Medium, ReadOnly;

        /// Shortest heartbeat interval under the consumer protocol, in milliseconds.
        GROUP_CONSUMER_MIN_HEARTBEAT_INTERVAL_MS: i32 =
            "group.consumer.min.heartbeat.interval.ms", "5000", AtLeast(1), Medium, ReadOnly;

        /// Longest heartbeat interval under the consumer protocol, in milliseconds.
        GROUP_CONSUMER_MAX_HEARTBEAT_INTERVAL_MS: i32 =
            "group.consumer.max.heartbeat.interval.ms", "15000", AtLeast(1), Medium, ReadOnly;

        /// Members a group under the consumer protocol may have.
        GROUP_CONSUMER_MAX_SIZE: i32 = "group.consumer.max.size", "2147483647", AtLeast(1), Medium, ReadOnly;

        /// Assignors that a group under the consumer protocol may choose from; the first is the default.
        GROUP_CONSUMER_ASSIGNORS: Vec<String> =
            "group.consumer.assignors",
            "org.apache.kafka.coordinator.group.assignor.UniformAssignor,\
             org.apache.kafka.coordinator.group.assignor.RangeAssignor",
            Any, Medium, ReadOnly;

        /// Which way a group may change between the classic and the consumer protocol.
        GROUP_CONSUMER_MIGRATION_POLICY: String =
            "group.consumer.migration.policy", "disabled",
            OneOfIgnoringCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]),
            Medium, ReadOnly, Internal;
    }

    "Transactions" {
        /// Longest time a transaction may ask for, in milliseconds.
        TRANSACTION_MAX_TIMEOUT_MS: i32 = "transaction.max.timeout.ms", "900000", AtLeast(1), High, ReadOnly;

        /// How long an idle transactional id is remembered, in milliseconds.
        TRANSACTIONAL_ID_EXPIRATION_MS: i32 =
            "transactional.id.expiration.ms", "604800000", AtLeast(1), High, ReadOnly;

        /// Partitions of the topic that holds transactions. Not to be changed once it exists.
        TRANSACTION_STATE_LOG_NUM_PARTITIONS: i32 =
            "transaction.state.log.num.partitions", "50", AtLeast(1), High, ReadOnly;

        /// Replicas of the topic that holds transactions. It is created when so many brokers are there.
        TRANSACTION_STATE_LOG_REPLICATION_FACTOR: i16 =
            "transaction.state.log.replication.factor", "3", AtLeast(1), High, ReadOnly;

        /// `min.insync.replicas` of the topic that holds transactions.
        TRANSACTION_STATE_LOG_MIN_ISR: i32 = "transaction.state.log.min.isr", "2", AtLeast(1), High, ReadOnly;

        /// Segment size of the topic that holds transactions, in bytes; small, so that it is compacted and
        /// loaded fast.
        TRANSACTION_STATE_LOG_SEGMENT_BYTES: i32 =
            "transaction.state.log.segment.bytes", "104857600", AtLeast(1), High, ReadOnly;

        /// Bytes read at once while transactions are loaded into memory.
        TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE: i32 =
            "transaction.state.log.load.buffer.size", "5242880", AtLeast(1), High, ReadOnly;

        /// How often transactions that took too long are aborted, in milliseconds.
        TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS: i32 =
            "transaction.abort.timed.out.transaction.cleanup.interval.ms", "10000", AtLeast(1), Low, ReadOnly;

        /// How often expired transactional ids are removed, in milliseconds.
        TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS: i32 =
            "transaction.remove.expired.transaction.cleanup.interval.ms", "3600000",
            AtLeast(1), Low, ReadOnly;

        /// Whether a partition asks the coordinator that a transaction is open before it takes its records.
        TRANSACTION_PARTITION_VERIFICATION_ENABLE: bool =
            "transaction.partition.verification.enable", "true", Any, Low, ClusterWide;
    }

    "Quotas" {
        /// Samples kept for client quotas.
        QUOTA_WINDOW_NUM: i32 = "quota.window.num", "11", AtLeast(1), Low, ReadOnly;

        /// Length of a sample for client quotas, in seconds.
        QUOTA_WINDOW_SIZE_SECONDS: i32 = "quota.window.size.seconds", "1", AtLeast(1), Low, ReadOnly;

        /// Samples kept for replication quotas.
        REPLICATION_QUOTA_WINDOW_NUM: i32 = "replication.quota.window.num", "11", AtLeast(1), Low, ReadOnly;

        /// Length of a sample for replication quotas, in seconds.
        REPLICATION_QUOTA_WINDOW_SIZE_SECONDS: i32 =
            "replication.quota.window.size.seconds", "1", AtLeast(1), Low, ReadOnly;

        /// Samples kept for quotas on moves between log directories.
        ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_NUM: i32 =
            "alter.log.dirs.replication.quota.window.num", "11", AtLeast(1), Low, ReadOnly;

        /// Length of a sample for quotas on moves between log directories, in seconds.
        ALTER_LOG_DIRS_REPLICATION_QUOTA_WINDOW_SIZE_SECONDS: i32 =
            "alter.log.dirs.replication.quota.window.size.seconds", "1", AtLeast(1), Low, ReadOnly;

        /// Samples kept for quotas on changes of topics.
        CONTROLLER_QUOTA_WINDOW_NUM: i32 = "controller.quota.window.num", "11", AtLeast(1), Low, ReadOnly;

        /// Length of a sample for quotas on changes of topics, in seconds.
        CONTROLLER_QUOTA_WINDOW_SIZE_SECONDS: i32 =
            "controller.quota.window.size.seconds", "1", AtLeast(1), Low, ReadOnly;

        /// Java class that decides client quotas.
        CLIENT_QUOTA_CALLBACK_CLASS: Option<ClassName> =
            "client.quota.callback.class", null, Any, Low, ReadOnly;
    }

    "Security" {
        /// Authorizer. Kafka's `AclAuthorizer`, which keeps its ACLs in ZooKeeper, is known by its name;
        /// empty allows everything.
        AUTHORIZER_CLASS_NAME: String = "authorizer.class.name", "", Any, Low, ReadOnly;

        /// Java class that names the principal of a connection.
        PRINCIPAL_BUILDER_CLASS: ClassName =
            "principal.builder.class",
            "org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder",
            Any, Medium, PerBroker;

        /// Java classes that provide security algorithms.
        SECURITY_PROVIDERS: Option<String> = "security.providers", null, Any, Low, ReadOnly, NoEffect;

        /// TLS version that a handshake starts with.
        SSL_PROTOCOL: String = "ssl.protocol", "TLSv1.3", Any, Medium, PerBroker;

        /// Java security provider of TLS.
        SSL_PROVIDER: Option<String> = "ssl.provider", null, Any, Medium, PerBroker, NoEffect;

        /// TLS versions that are allowed.
        SSL_ENABLED_PROTOCOLS: Vec<String> =
            "ssl.enabled.protocols", "TLSv1.2,TLSv1.3", Any, Medium, PerBroker;

        /// Cipher suites that are allowed; the library's own choice if empty.
        SSL_CIPHER_SUITES: Vec<String> = "ssl.cipher.suites", "", Any, Medium, PerBroker;

        /// Whether clients must show a certificate: `required`, `requested` or `none`.
        SSL_CLIENT_AUTH: String =
            "ssl.client.auth", "none", OneOf(&["required", "requested", "none"]), Medium, PerBroker;

        /// Format of the key store: JKS, PKCS12 or PEM.
        SSL_KEYSTORE_TYPE: String = "ssl.keystore.type", "JKS", Any, Medium, PerBroker;

        /// File that holds this broker's key and certificate.
        SSL_KEYSTORE_LOCATION: Option<String> = "ssl.keystore.location", null, Any, Medium, PerBroker;

        /// Password of the key store.
        SSL_KEYSTORE_PASSWORD: Option<Password> = "ssl.keystore.password", null, Any, Medium, PerBroker;

        /// Password of the key in the key store, or of the PEM key.
        SSL_KEY_PASSWORD: Option<Password> = "ssl.key.password", null, Any, Medium, PerBroker;

        /// This broker's private key in PEM (PKCS#8), instead of a file.
        SSL_KEYSTORE_KEY: Option<Password> = "ssl.keystore.key", null, Any, Medium, PerBroker;

        /// This broker's certificate chain in PEM, instead of a file.
        SSL_KEYSTORE_CERTIFICATE_CHAIN: Option<Password> =
            "ssl.keystore.certificate.chain", null, Any, Medium, PerBroker;

        /// Format of the trust store: JKS, PKCS12 or PEM.
        SSL_TRUSTSTORE_TYPE: String = "ssl.truststore.type", "JKS", Any, Medium, PerBroker;

        /// File that holds the authorities to believe.
        SSL_TRUSTSTORE_LOCATION: Option<String> = "ssl.truststore.location", null, Any, Medium, PerBroker;

        /// Password of the trust store.
        SSL_TRUSTSTORE_PASSWORD: Option<Password> = "ssl.truststore.password", null, Any, Medium, PerBroker;

        /// Authorities to believe, in PEM, instead of a file.
        SSL_TRUSTSTORE_CERTIFICATES: Option<Password> =
            "ssl.truststore.certificates", null, Any, Medium, PerBroker;

        /// Java algorithm of the key manager.
        SSL_KEYMANAGER_ALGORITHM: String =
            "ssl.keymanager.algorithm", "SunX509", Any, Medium, PerBroker, NoEffect;

        /// Java algorithm of the trust manager.
        SSL_TRUSTMANAGER_ALGORITHM: String =
            "ssl.trustmanager.algorithm", "PKIX", Any, Medium, PerBroker, NoEffect;

        /// `https` checks that a broker's certificate names the host that was dialled; empty does not.
        SSL_ENDPOINT_IDENTIFICATION_ALGORITHM: String =
            "ssl.endpoint.identification.algorithm", "https", Any, Low, PerBroker;

        /// Java source of random numbers for TLS.
        SSL_SECURE_RANDOM_IMPLEMENTATION: Option<String> =
            "ssl.secure.random.implementation", null, Any, Low, PerBroker, NoEffect;

        /// Java class that makes TLS engines.
        SSL_ENGINE_FACTORY_CLASS: Option<ClassName> = "ssl.engine.factory.class", null, Any, Low, PerBroker;

        /// Rules that turn the subject of a client's certificate into a user name. The first that matches
        /// counts; `DEFAULT` takes the whole subject.
        SSL_PRINCIPAL_MAPPING_RULES: String = "ssl.principal.mapping.rules", "DEFAULT", Any, Low, ReadOnly;

        /// Whether a new key store may name another subject.
        SSL_ALLOW_DN_CHANGES: bool = "ssl.allow.dn.changes", "false", Any, Low, ReadOnly;

        /// Whether a new key store may name other hosts.
        SSL_ALLOW_SAN_CHANGES: bool = "ssl.allow.san.changes", "false", Any, Low, ReadOnly;

        /// SASL mechanisms that clients may use.
        SASL_ENABLED_MECHANISMS: Vec<String> = "sasl.enabled.mechanisms", "GSSAPI", Any, Medium, PerBroker;

        /// SASL mechanism that brokers use among themselves.
        SASL_MECHANISM_INTER_BROKER_PROTOCOL: String =
            "sasl.mechanism.inter.broker.protocol", "GSSAPI", Any, Medium, PerBroker;

        /// SASL mechanism towards KRaft controllers.
        SASL_MECHANISM_CONTROLLER_PROTOCOL: String =
            "sasl.mechanism.controller.protocol", "GSSAPI", Any, High, ReadOnly, NoEffect;

        /// Login of a listener's mechanism in JAAS syntax, set under `listener.name.<name>.<mechanism>.`.
        SASL_JAAS_CONFIG: Option<Password> = "sasl.jaas.config", null, Any, Medium, PerBroker;

        /// Java class that answers a mechanism's questions on the server.
        SASL_SERVER_CALLBACK_HANDLER_CLASS: Option<ClassName> =
            "sasl.server.callback.handler.class", null, Any, Medium, ReadOnly;

        /// Java class that answers a mechanism's questions on the client.
        SASL_CLIENT_CALLBACK_HANDLER_CLASS: Option<ClassName> =
            "sasl.client.callback.handler.class", null, Any, Medium, ReadOnly;

        /// Java class that answers a login's questions.
        SASL_LOGIN_CALLBACK_HANDLER_CLASS: Option<ClassName> =
            "sasl.login.callback.handler.class", null, Any, Medium, ReadOnly;

        /// Java class that logs in.
        SASL_LOGIN_CLASS: Option<ClassName> = "sasl.login.class", null, Any, Medium, ReadOnly;

        /// Bytes a client may send before it is authenticated.
        SASL_SERVER_MAX_RECEIVE_SIZE: i32 = "sasl.server.max.receive.size", "524288", Any, Medium, ReadOnly;

        /// Name that brokers run under in Kerberos.
        SASL_KERBEROS_SERVICE_NAME: Option<String> =
            "sasl.kerberos.service.name", null, Any, Medium, PerBroker;

        /// Path of Kerberos's kinit.
        SASL_KERBEROS_KINIT_CMD: String = "sasl.kerberos.kinit.cmd", "/usr/bin/kinit", Any, Medium, PerBroker;

        /// Share of a ticket's life after which it is renewed.
        SASL_KERBEROS_TICKET_RENEW_WINDOW_FACTOR: f64 =
            "sasl.kerberos.ticket.renew.window.factor", "0.8", Any, Medium, PerBroker;

        /// Random share added to the time of renewal.
        SASL_KERBEROS_TICKET_RENEW_JITTER: f64 =
            "sasl.kerberos.ticket.renew.jitter", "0.05", Any, Medium, PerBroker;

        /// Shortest time between two renewals, in milliseconds.
        SASL_KERBEROS_MIN_TIME_BEFORE_RELOGIN: i64 =
            "sasl.kerberos.min.time.before.relogin", "60000", Any, Medium, PerBroker;

        /// Rules that turn Kerberos principals into user names.
        SASL_KERBEROS_PRINCIPAL_TO_LOCAL_RULES: Vec<String> =
            "sasl.kerberos.principal.to.local.rules", "DEFAULT", Any, Medium, PerBroker;

        /// Share of a token's life after which it is refreshed.
        SASL_LOGIN_REFRESH_WINDOW_FACTOR: f64 =
            "sasl.login.refresh.window.factor", "0.8", Any, Medium, PerBroker;

        /// Random share added to the time of refreshing.
        SASL_LOGIN_REFRESH_WINDOW_JITTER: f64 =
            "sasl.login.refresh.window.jitter", "0.05", Any, Medium, PerBroker;

        /// Shortest time between two refreshes, in seconds.
        SASL_LOGIN_REFRESH_MIN_PERIOD_SECONDS: i16 =
            "sasl.login.refresh.min.period.seconds", "60", Any, Medium, PerBroker;

        /// Time before a token's end by which it should be refreshed, in seconds.
        SASL_LOGIN_REFRESH_BUFFER_SECONDS: i16 =
            "sasl.login.refresh.buffer.seconds", "300", Any, Medium, PerBroker;

        /// How long connecting to a token provider may take, in milliseconds.
        SASL_LOGIN_CONNECT_TIMEOUT_MS: Option<i32> =
            "sasl.login.connect.timeout.ms", null, Any, Low, ReadOnly;

        /// How long reading from a token provider may take, in milliseconds.
        SASL_LOGIN_READ_TIMEOUT_MS: Option<i32> = "sasl.login.read.timeout.ms", null, Any, Low, ReadOnly;

        /// First pause between tries to reach a token provider, in milliseconds.
        SASL_LOGIN_RETRY_BACKOFF_MS: i64 = "sasl.login.retry.backoff.ms", "100", Any, Low, ReadOnly;

        /// Longest pause between tries to reach a token provider, in milliseconds.
        SASL_LOGIN_RETRY_BACKOFF_MAX_MS: i64 = "sasl.login.retry.backoff.max.ms", "10000", Any, Low, ReadOnly;

        /// Claim of a token that holds its scopes.
        SASL_OAUTHBEARER_SCOPE_CLAIM_NAME: String =
            "sasl.oauthbearer.scope.claim.name", "scope", Any, Low, ReadOnly;

        /// Claim of a token that holds its subject.
        SASL_OAUTHBEARER_SUB_CLAIM_NAME: String =
            "sasl.oauthbearer.sub.claim.name", "sub", Any, Low, ReadOnly;

        /// Address at which tokens are fetched.
        SASL_OAUTHBEARER_TOKEN_ENDPOINT_URL: Option<String> =
            "sasl.oauthbearer.token.endpoint.url", null, Any, Medium, ReadOnly;

        /// Address or file of the keys that tokens are checked with.
        SASL_OAUTHBEARER_JWKS_ENDPOINT_URL: Option<String> =
            "sasl.oauthbearer.jwks.endpoint.url", null, Any, Medium, ReadOnly;

        /// How long fetched keys are used, in milliseconds.
        SASL_OAUTHBEARER_JWKS_ENDPOINT_REFRESH_MS: i64 =
            "sasl.oauthbearer.jwks.endpoint.refresh.ms", "3600000", Any, Low, ReadOnly;

        /// First pause between tries to fetch keys, in milliseconds.
        SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MS: i64 =
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms", "100", Any, Low, ReadOnly;

        /// Longest pause between tries to fetch keys, in milliseconds.
        SASL_OAUTHBEARER_JWKS_ENDPOINT_RETRY_BACKOFF_MAX_MS: i64 =
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms", "10000", Any, Low, ReadOnly;

        /// Difference between clocks that a token's times are forgiven, in seconds.
        SASL_OAUTHBEARER_CLOCK_SKEW_SECONDS: i32 =
            "sasl.oauthbearer.clock.skew.seconds", "30", Any, Low, ReadOnly;

        /// Audiences that a token must name one of.
        SASL_OAUTHBEARER_EXPECTED_AUDIENCE: Option<Vec<String>> =
            "sasl.oauthbearer.expected.audience", null, Any, Low, ReadOnly;

        /// Issuer that a token must name.
        SASL_OAUTHBEARER_EXPECTED_ISSUER: Option<String> =
            "sasl.oauthbearer.expected.issuer", null, Any, Low, ReadOnly;

        /// Old name of `delegation.token.secret.key`.
        DELEGATION_TOKEN_MASTER_KEY: Option<Password> =
            "delegation.token.master.key", null, Any, Medium, ReadOnly;

        /// Secret with which delegation tokens are made and checked; the same on every broker. Tokens are off
        /// if unset.
        DELEGATION_TOKEN_SECRET_KEY: Option<Password> =
            "delegation.token.secret.key", null, Any, Medium, ReadOnly;

        /// Longest life of a delegation token, renewals included, in milliseconds.
        DELEGATION_TOKEN_MAX_LIFETIME_MS: i64 =
            "delegation.token.max.lifetime.ms", "604800000", AtLeast(1), Medium, ReadOnly;

        /// Life of a delegation token between renewals, in milliseconds.
        DELEGATION_TOKEN_EXPIRY_TIME_MS: i64 =
            "delegation.token.expiry.time.ms", "86400000", AtLeast(1), Medium, ReadOnly;

        /// How often expired delegation tokens are removed, in milliseconds.
        DELEGATION_TOKEN_EXPIRY_CHECK_INTERVAL_MS: i64 =
            "delegation.token.expiry.check.interval.ms", "3600000", AtLeast(1), Low, ReadOnly;

        /// Secret with which passwords among dynamic configs are encrypted in ZooKeeper.
        PASSWORD_ENCODER_SECRET: Option<Password> = "password.encoder.secret", null, Any, Medium, ReadOnly;

        /// Former secret, to read passwords encrypted before it was changed.
        PASSWORD_ENCODER_OLD_SECRET: Option<Password> =
            "password.encoder.old.secret", null, Any, Medium, ReadOnly;

        /// How a key is made from the secret; PBKDF2WithHmacSHA512 if unset.
        PASSWORD_ENCODER_KEYFACTORY_ALGORITHM: Option<String> =
            "password.encoder.keyfactory.algorithm", null, Any, Low, ReadOnly;

        /// Cipher that passwords are encrypted with.
        PASSWORD_ENCODER_CIPHER_ALGORITHM: String =
            "password.encoder.cipher.algorithm", "AES/CBC/PKCS5Padding", Any, Low, ReadOnly;

        /// Length of the key made from the secret, in bits.
        PASSWORD_ENCODER_KEY_LENGTH: i32 = "password.encoder.key.length", "128", AtLeast(8), Low, ReadOnly;

        /// Rounds in which a key is made from the secret.
        PASSWORD_ENCODER_ITERATIONS: i32 =
            "password.encoder.iterations", "4096", AtLeast(1024), Low, ReadOnly;
    }

    "Metrics" {
        /// Java classes that are given metrics.
        METRIC_REPORTERS: Vec<String> = "metric.reporters", "", Any, Low, ClusterWide, NoEffect;

        /// Java classes that are given metrics of the older kind.
        KAFKA_METRICS_REPORTERS: Vec<String> = "kafka.metrics.reporters", "", Any, Low, ReadOnly, NoEffect;

        /// How often those are given metrics, in seconds.
        KAFKA_METRICS_POLLING_INTERVAL_SECS: i32 =
            "kafka.metrics.polling.interval.secs", "10", AtLeast(1), Low, ReadOnly, NoEffect;

        /// Whether the JMX reporter is added to `metric.reporters`.
        AUTO_INCLUDE_JMX_REPORTER: bool = "auto.include.jmx.reporter", "true", Any, Low, ReadOnly, NoEffect;

        /// Samples from which rates are computed.
        METRICS_NUM_SAMPLES: i32 = "metrics.num.samples", "2", AtLeast(1), Low, ReadOnly;

        /// Length of a sample, in milliseconds.
        METRICS_SAMPLE_WINDOW_MS: i64 = "metrics.sample.window.ms", "30000", AtLeast(1), Low, ReadOnly;

        /// Most detailed level of metrics that is recorded.
        METRICS_RECORDING_LEVEL: String = "metrics.recording.level", "INFO", Any, Low, ReadOnly;

        /// Most bytes of metrics that a client may push at once.
        TELEMETRY_MAX_BYTES: i32 = "telemetry.max.bytes", "1048576", AtLeast(1), Low, ReadOnly;
    }

    "Unstable features" {
        /// Whether versions of APIs that are still being worked on are offered.
        UNSTABLE_API_VERSIONS_ENABLE: bool =
            "unstable.api.versions.enable", "false", Any, High, ReadOnly, Internal;

        /// Whether versions of features that are still being worked on are offered.
        UNSTABLE_FEATURE_VERSIONS_ENABLE: bool =
            "unstable.feature.versions.enable", "false", Any, High, ReadOnly, Internal;
    }

    "Tiered storage" {
        /// Whether segments are moved to remote storage.
        REMOTE_LOG_STORAGE_SYSTEM_ENABLE: bool =
            "remote.log.storage.system.enable", "false", Any, Medium, ReadOnly, NoEffect;

        /// Java class that reads and writes remote segments.
        REMOTE_LOG_STORAGE_MANAGER_CLASS_NAME: Option<String> =
            "remote.log.storage.manager.class.name", null, NonEmpty, Medium, ReadOnly, NoEffect;

        /// Where to find that class.
        REMOTE_LOG_STORAGE_MANAGER_CLASS_PATH: Option<String> =
            "remote.log.storage.manager.class.path", null, Any, Medium, ReadOnly, NoEffect;

        /// Prefix of the settings handed to that class.
        REMOTE_LOG_STORAGE_MANAGER_IMPL_PREFIX: String =
            "remote.log.storage.manager.impl.prefix", "rsm.config.", NonEmpty, Medium, ReadOnly, NoEffect;

        /// Java class that remembers remote segments.
        REMOTE_LOG_METADATA_MANAGER_CLASS_NAME: String =
            "remote.log.metadata.manager.class.name",
            "org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager",
            NonEmpty, Medium, ReadOnly, NoEffect;

        /// Where to find that class.
        REMOTE_LOG_METADATA_MANAGER_CLASS_PATH: Option<String> =
            "remote.log.metadata.manager.class.path", null, Any, Medium, ReadOnly, NoEffect;

        /// Prefix of the settings handed to that class.
        REMOTE_LOG_METADATA_MANAGER_IMPL_PREFIX: String =
            "remote.log.metadata.manager.impl.prefix", "rlmm.config.", NonEmpty, Medium, ReadOnly, NoEffect;

        /// Listener that this class reaches brokers on.
        REMOTE_LOG_METADATA_MANAGER_LISTENER_NAME: Option<String> =
            "remote.log.metadata.manager.listener.name", null, NonEmpty, Medium, ReadOnly, NoEffect;

        /// Bytes a storage manager may add to what is remembered of a segment.
        REMOTE_LOG_METADATA_CUSTOM_METADATA_MAX_BYTES: i32 =
            "remote.log.metadata.custom.metadata.max.bytes", "128", AtLeast(0), Low, ReadOnly, NoEffect;

        /// Space for the indexes of remote segments, in bytes.
        REMOTE_LOG_INDEX_FILE_CACHE_TOTAL_SIZE_BYTES: i64 =
            "remote.log.index.file.cache.total.size.bytes", "1073741824",
            AtLeast(1), Low, ClusterWide, NoEffect;

        /// Threads that tend remote storage.
        REMOTE_LOG_MANAGER_THREAD_POOL_SIZE: i32 =
            "remote.log.manager.thread.pool.size", "10", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Threads that copy segments away.
        REMOTE_LOG_MANAGER_COPIER_THREAD_POOL_SIZE: i32 =
            "remote.log.manager.copier.thread.pool.size", "-1",
            BetweenOr(1, i64::MAX, -1), Medium, ReadOnly, NoEffect;

        /// Threads that delete remote segments.
        REMOTE_LOG_MANAGER_EXPIRATION_THREAD_POOL_SIZE: i32 =
            "remote.log.manager.expiration.thread.pool.size", "-1",
            BetweenOr(1, i64::MAX, -1), Medium, ReadOnly, NoEffect;

        /// How often remote storage is tended, in milliseconds.
        REMOTE_LOG_MANAGER_TASK_INTERVAL_MS: i64 =
            "remote.log.manager.task.interval.ms", "30000", AtLeast(1), Low, ReadOnly, NoEffect;

        /// First pause after a failure, in milliseconds.
        REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MS: i64 =
            "remote.log.manager.task.retry.backoff.ms", "500", AtLeast(1), Low, ReadOnly, Internal;

        /// Longest pause after a failure, in milliseconds.
        REMOTE_LOG_MANAGER_TASK_RETRY_BACKOFF_MAX_MS: i64 =
            "remote.log.manager.task.retry.backoff.max.ms", "30000", AtLeast(1), Low, ReadOnly, Internal;

        /// Random share added to that pause.
        REMOTE_LOG_MANAGER_TASK_RETRY_JITTER: f64 =
            "remote.log.manager.task.retry.jitter", "0.2", Fraction(0.0, 0.5), Low, ReadOnly, Internal;

        /// Threads that read from remote storage.
        REMOTE_LOG_READER_THREADS: i32 =
            "remote.log.reader.threads", "10", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Reads of remote storage that may wait.
        REMOTE_LOG_READER_MAX_PENDING_TASKS: i32 =
            "remote.log.reader.max.pending.tasks", "100", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Most bytes copied away in a second.
        REMOTE_LOG_MANAGER_COPY_MAX_BYTES_PER_SECOND: i64 =
            "remote.log.manager.copy.max.bytes.per.second", "9223372036854775807",
            AtLeast(1), Medium, ClusterWide, NoEffect;

        /// Samples kept for that bound.
        REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_NUM: i32 =
            "remote.log.manager.copy.quota.window.num", "11", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Length of a sample for that bound, in seconds.
        REMOTE_LOG_MANAGER_COPY_QUOTA_WINDOW_SIZE_SECONDS: i32 =
            "remote.log.manager.copy.quota.window.size.seconds", "1", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Most bytes read back in a second.
        REMOTE_LOG_MANAGER_FETCH_MAX_BYTES_PER_SECOND: i64 =
            "remote.log.manager.fetch.max.bytes.per.second", "9223372036854775807",
            AtLeast(1), Medium, ClusterWide, NoEffect;

        /// Samples kept for that bound.
        REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_NUM: i32 =
            "remote.log.manager.fetch.quota.window.num", "11", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Length of a sample for that bound, in seconds.
        REMOTE_LOG_MANAGER_FETCH_QUOTA_WINDOW_SIZE_SECONDS: i32 =
            "remote.log.manager.fetch.quota.window.size.seconds", "1", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// How long a fetch may wait for remote storage, in milliseconds.
        REMOTE_FETCH_MAX_WAIT_MS: i32 =
            "remote.fetch.max.wait.ms", "500", AtLeast(1), Medium, ClusterWide, NoEffect;

        /// Age at which a copied segment may be deleted here, in milliseconds; -2 follows `log.retention.ms`.
        LOG_LOCAL_RETENTION_MS: i64 =
            "log.local.retention.ms", "-2", AtLeast(-2), Medium, ClusterWide, NoEffect;

        /// Size of what is kept here of a copied log, in bytes; -2 follows `log.retention.bytes`.
        LOG_LOCAL_RETENTION_BYTES: i64 =
            "log.local.retention.bytes", "-2", AtLeast(-2), Medium, ClusterWide, NoEffect;
    }

    "Share groups" {
        /// Whether share groups (KIP-932) are offered.
        GROUP_SHARE_ENABLE: bool = "group.share.enable", "false", Any, Medium, ReadOnly, Internal;

        /// Share groups there may be.
        GROUP_SHARE_MAX_GROUPS: i16 =
            "group.share.max.groups", "10", Between(1, 100), Medium, ReadOnly, NoEffect;

        /// Members a share group may have.
        GROUP_SHARE_MAX_SIZE: i16 =
            "group.share.max.size", "200", Between(10, 1000), Medium, ReadOnly, NoEffect;

        /// Session timeout of members of share groups, in milliseconds.
        GROUP_SHARE_SESSION_TIMEOUT_MS: i32 =
            "group.share.session.timeout.ms", "45000", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Shortest session timeout of members of share groups, in milliseconds.
        GROUP_SHARE_MIN_SESSION_TIMEOUT_MS: i32 =
            "group.share.min.session.timeout.ms", "45000", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Longest session timeout of members of share groups, in milliseconds.
        GROUP_SHARE_MAX_SESSION_TIMEOUT_MS: i32 =
            "group.share.max.session.timeout.ms", "60000", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Heartbeat interval of members of share groups, in milliseconds.
        GROUP_SHARE_HEARTBEAT_INTERVAL_MS: i32 =
            "group.share.heartbeat.interval.ms", "5000", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Shortest heartbeat interval of members of share groups, in milliseconds.
        GROUP_SHARE_MIN_HEARTBEAT_INTERVAL_MS: i32 =
            "group.share.min.heartbeat.interval.ms", "5000", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// Longest heartbeat interval of members of share groups, in milliseconds.
        GROUP_SHARE_MAX_HEARTBEAT_INTERVAL_MS: i32 =
            "group.share.max.heartbeat.interval.ms", "15000", AtLeast(1), Medium, ReadOnly, NoEffect;

        /// How often a record is given to a share group at most.
        GROUP_SHARE_DELIVERY_COUNT_LIMIT: i32 =
            "group.share.delivery.count.limit", "5", Between(2, 10), Medium, ReadOnly, NoEffect;

        /// How long a record is held for one member of a share group, in milliseconds.
        GROUP_SHARE_RECORD_LOCK_DURATION_MS: i32 =
            "group.share.record.lock.duration.ms", "30000", Between(1000, 60000), Medium, ReadOnly, NoEffect;

        /// Shortest time a record may be held, in milliseconds.
        GROUP_SHARE_MIN_RECORD_LOCK_DURATION_MS: i32 =
            "group.share.min.record.lock.duration.ms", "15000",
            Between(1000, 30000), Medium, ReadOnly, NoEffect;

        /// Longest time a record may be held, in milliseconds.
        GROUP_SHARE_MAX_RECORD_LOCK_DURATION_MS: i32 =
            "group.share.max.record.lock.duration.ms", "60000",
            Between(30000, 3600000), Medium, ReadOnly, NoEffect;

        /// Records of a partition that may be held at once.
        GROUP_SHARE_PARTITION_MAX_RECORD_LOCKS: i32 =
            "group.share.partition.max.record.locks", "200", Between(100, 10000), Medium, ReadOnly, NoEffect;
    }

    "KRaft" {
        /// Roles in a KRaft cluster. Empty here: this broker keeps to ZooKeeper.
        PROCESS_ROLES: Vec<String> = "process.roles", "", EachOf(&["broker", "controller"]), High, ReadOnly;

        /// Identity in a KRaft cluster; here another name of `broker.id`, each deciding the other where only
        /// one is set.
        NODE_ID: i32 = "node.id", "-1", Any, High, ReadOnly;

        /// Listeners of KRaft controllers.
        CONTROLLER_LISTENER_NAMES: Option<String> =
            "controller.listener.names", null, Any, High, ReadOnly, NoEffect;

        /// KRaft controllers, as `id@host:port`.
        CONTROLLER_QUORUM_VOTERS: Vec<String> = "controller.quorum.voters", "", Any, High, ReadOnly, NoEffect;

        /// Addresses where KRaft controllers are found.
        CONTROLLER_QUORUM_BOOTSTRAP_SERVERS: Vec<String> =
            "controller.quorum.bootstrap.servers", "", Any, High, ReadOnly, NoEffect;

        /// How long the KRaft leader collects records, in milliseconds.
        CONTROLLER_QUORUM_APPEND_LINGER_MS: i32 =
            "controller.quorum.append.linger.ms", "25", Any, Medium, ReadOnly, NoEffect;

        /// How long a KRaft voter waits before it calls an election, in milliseconds.
        CONTROLLER_QUORUM_ELECTION_TIMEOUT_MS: i32 =
            "controller.quorum.election.timeout.ms", "1000", Any, High, ReadOnly, NoEffect;

        /// Longest pause between KRaft elections, in milliseconds.
        CONTROLLER_QUORUM_ELECTION_BACKOFF_MAX_MS: i32 =
            "controller.quorum.election.backoff.max.ms", "1000", Any, High, ReadOnly, NoEffect;

        /// How long a KRaft voter goes without a fetch from the leader, in milliseconds.
        CONTROLLER_QUORUM_FETCH_TIMEOUT_MS: i32 =
            "controller.quorum.fetch.timeout.ms", "2000", Any, High, ReadOnly, NoEffect;

        /// How long a KRaft voter waits for an answer, in milliseconds.
        CONTROLLER_QUORUM_REQUEST_TIMEOUT_MS: i32 =
            "controller.quorum.request.timeout.ms", "2000", Any, Medium, ReadOnly, NoEffect;

        /// Pause after a failed request between KRaft voters, in milliseconds.
        CONTROLLER_QUORUM_RETRY_BACKOFF_MS: i32 =
            "controller.quorum.retry.backoff.ms", "20", Any, Low, ReadOnly, NoEffect;

        /// Heartbeat interval of a KRaft broker, in milliseconds.
        BROKER_HEARTBEAT_INTERVAL_MS: i32 =
            "broker.heartbeat.interval.ms", "2000", Any, Medium, ReadOnly, NoEffect;

        /// Session timeout of a KRaft broker, in milliseconds.
        BROKER_SESSION_TIMEOUT_MS: i32 = "broker.session.timeout.ms", "9000", Any, Medium, ReadOnly, NoEffect;

        /// How long a KRaft broker tries to register, in milliseconds.
        INITIAL_BROKER_REGISTRATION_TIMEOUT_MS: i32 =
            "initial.broker.registration.timeout.ms", "60000", Any, Medium, ReadOnly, NoEffect;

        /// How long a KRaft server may take to start, in milliseconds.
        SERVER_MAX_STARTUP_TIME_MS: i64 =
            "server.max.startup.time.ms", "9223372036854775807", AtLeast(0), Medium, ReadOnly, Internal;

        /// Directory of the KRaft metadata log.
        METADATA_LOG_DIR: Option<String> = "metadata.log.dir", null, Any, High, ReadOnly, NoEffect;

        /// Segment size of the KRaft metadata log, in bytes.
        METADATA_LOG_SEGMENT_BYTES: i32 =
            "metadata.log.segment.bytes", "1073741824", AtLeast(12), High, ReadOnly, NoEffect;

        /// Smallest segment size of the KRaft metadata log, in bytes.
        METADATA_LOG_SEGMENT_MIN_BYTES: i32 =
            "metadata.log.segment.min.bytes", "8388608", AtLeast(12), High, ReadOnly, Internal;

        /// Segment age of the KRaft metadata log, in milliseconds.
        METADATA_LOG_SEGMENT_MS: i64 = "metadata.log.segment.ms", "604800000", Any, High, ReadOnly, NoEffect;

        /// Bytes between two snapshots of KRaft metadata.
        METADATA_LOG_MAX_RECORD_BYTES_BETWEEN_SNAPSHOTS: i64 =
            "metadata.log.max.record.bytes.between.snapshots", "20971520",
            AtLeast(1), High, ReadOnly, NoEffect;

        /// Time between two snapshots of KRaft metadata, in milliseconds.
        METADATA_LOG_MAX_SNAPSHOT_INTERVAL_MS: i64 =
            "metadata.log.max.snapshot.interval.ms", "3600000", AtLeast(0), High, ReadOnly, NoEffect;

        /// How often an idle KRaft controller writes a record, in milliseconds.
        METADATA_MAX_IDLE_INTERVAL_MS: i32 =
            "metadata.max.idle.interval.ms", "500", AtLeast(0), Low, ReadOnly, NoEffect;

        /// Size of the KRaft metadata log that is kept, in bytes.
        METADATA_MAX_RETENTION_BYTES: i64 =
            "metadata.max.retention.bytes", "104857600", Any, High, ReadOnly, NoEffect;

        /// Age of the KRaft metadata log that is kept, in milliseconds.
        METADATA_MAX_RETENTION_MS: i64 =
            "metadata.max.retention.ms", "604800000", Any, High, ReadOnly, NoEffect;

        /// Whether KRaft tracks replicas that may lead although outside the ISR.
        ELIGIBLE_LEADER_REPLICAS_ENABLE: bool =
            "eligible.leader.replicas.enable", "false", Any, High, ReadOnly, NoEffect;
    }
}
