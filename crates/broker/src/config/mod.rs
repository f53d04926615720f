//! The broker's configuration: Kafka's keys, read from Java properties or TOML.
//!
//! Every key is declared once, in [`keys`] and [`topic_keys`]. [`Config::load`] makes plain values of them,
//! which are handed down; [`Settings`] keeps what was given, for DescribeConfigs and for changes while the
//! broker runs.

mod definition;
mod describe;
mod host;
pub mod keys;
mod legacy;
mod listeners;
mod protocol_version;
mod settings;
mod topic;
pub mod topic_keys;

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use ottla_model::BrokerId;

pub use definition::{
    ClassName, Definition, Importance, InvalidValue, Key, Kind, Password, Reach, Typed, Update, Valid, Value,
};
pub use describe::{DescribedConfig, Synonym, describe_broker, describe_topic, effective, markdown};
pub use host::canonical_host_name;
pub use keys::BROKER_KEYS;
pub use listeners::{Endpoint, ListenerError, ListenerName, Listeners, SecurityProtocol};
pub use protocol_version::{ProtocolVersion, UnknownProtocolVersion};
pub use settings::{Allowed, Given, Layer, Origin, Settings, Source, from_environment, is_topic_key};
pub use topic::{CleanupPolicy, CompressionType, TimestampType, TopicConfig, TopicOverrides};
pub use topic_keys::TOPIC_KEYS;

use listeners::ListenerKeys;

/// Everything the broker is told at its start.
#[derive(Debug, Clone, PartialEq)]
pub struct Config {
    /// `None`: the stored id, or a generated one.
    pub broker_id: Option<BrokerId>,
    pub broker_id_generation_enable: bool,
    pub reserved_broker_max_id: i32,
    pub rack: Option<String>,
    pub zookeeper: ZooKeeperConfig,
    pub listeners: Listeners,
    pub inter_broker_protocol: ProtocolVersion,
    pub network: NetworkConfig,
    pub log: LogDirConfig,
    pub cleaner: CleanerConfig,
    pub replication: ReplicationConfig,
    pub controller: ControllerConfig,
    pub topics: TopicCreationConfig,
    pub groups: GroupConfig,
    pub offsets: OffsetsConfig,
    pub transactions: TransactionConfig,
    /// What rules a topic that has no values of its own.
    pub topic_defaults: TopicConfig,
    /// What was given, for DescribeConfigs.
    pub settings: Settings,
    /// What the operator should hear of: unknown keys, keys of 0.8, keys without effect.
    pub warnings: Vec<Warning>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ZooKeeperConfig {
    /// `host:port,.. [/chroot]`.
    pub connect: String,
    pub session_timeout: Duration,
    pub connection_timeout: Duration,
    pub in_flight_max: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NetworkConfig {
    /// `None` leaves the size to the system.
    pub socket_send_buffer_bytes: Option<u32>,
    pub socket_receive_buffer_bytes: Option<u32>,
    pub request_bytes_max: u32,
    pub listen_backlog: u32,
    pub connections_max: u32,
    pub connections_per_ip_max: u32,
    /// By host name or address.
    pub connections_per_ip_overrides: BTreeMap<String, u32>,
    pub connection_creation_rate_max: u32,
    /// `None`: idle connections stay.
    pub connections_idle_max: Option<Duration>,
    pub failed_authentication_delay: Duration,
    pub queued_requests_max: usize,
    /// `None`: no bound on their bytes.
    pub queued_request_bytes_max: Option<u64>,
    pub fetch_bytes_max: u32,
    pub fetch_sessions_max: usize,
    pub request_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogDirConfig {
    /// In the order given; at least one.
    pub dirs: Vec<PathBuf>,
    pub recovery_threads_per_dir: usize,
    pub retention_check_interval: Duration,
    pub flush_scheduler_interval: Duration,
    pub recovery_point_checkpoint_interval: Duration,
    pub log_start_checkpoint_interval: Duration,
    pub initial_task_delay: Duration,
    pub producer_id_expiration: Duration,
    pub producer_id_expiration_check_interval: Duration,
}

#[derive(Debug, Clone, PartialEq)]
pub struct CleanerConfig {
    pub enable: bool,
    pub threads: usize,
    pub dedupe_buffer_bytes: u64,
    pub io_buffer_bytes: u32,
    pub io_buffer_load_factor: f64,
    pub io_bytes_per_second_max: f64,
    pub backoff: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReplicationConfig {
    pub lag_time_max: Duration,
    pub fetch_bytes_max: u32,
    pub fetch_bytes_min: u32,
    pub fetch_wait_max: Duration,
    pub fetch_response_bytes_max: u32,
    pub fetch_backoff: Duration,
    pub fetchers_per_broker: usize,
    pub socket_timeout: Duration,
    /// `None` leaves the size to the system.
    pub socket_receive_buffer_bytes: Option<u32>,
    pub high_watermark_checkpoint_interval: Duration,
    /// Whether consumers may read from replicas in their own rack (KIP-392).
    pub rack_aware_selector: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerConfig {
    pub auto_leader_rebalance_enable: bool,
    pub leader_imbalance_check_interval: Duration,
    pub leader_imbalance_percentage: u32,
    pub unclean_leader_election_interval: Duration,
    pub controlled_shutdown_enable: bool,
    pub controlled_shutdown_retries_max: u32,
    pub controlled_shutdown_retry_backoff: Duration,
    pub socket_timeout: Duration,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicCreationConfig {
    pub auto_create_enable: bool,
    pub delete_enable: bool,
    pub partitions: i32,
    pub replication_factor: i16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupConfig {
    pub session_timeout_min: Duration,
    pub session_timeout_max: Duration,
    pub initial_rebalance_delay: Duration,
    pub size_max: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetsConfig {
    pub metadata_bytes_max: usize,
    pub topic_partitions: i32,
    pub topic_replication_factor: i16,
    pub topic_segment_bytes: i32,
    /// A codec's number: 0 none, 1 gzip, 2 snappy, 3 lz4, 4 zstd.
    pub topic_compression_codec: i32,
    pub load_buffer_bytes: usize,
    pub retention: Duration,
    pub retention_check_interval: Duration,
    pub commit_timeout: Duration,
    pub commit_required_acks: i16,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TransactionConfig {
    pub timeout_max: Duration,
    pub id_expiration: Duration,
    pub topic_partitions: i32,
    pub topic_replication_factor: i16,
    pub topic_min_isr: i32,
    pub topic_segment_bytes: i32,
    pub load_buffer_bytes: usize,
    pub abort_timed_out_interval: Duration,
    pub remove_expired_interval: Duration,
    pub partition_verification_enable: bool,
}

/// Why a broker cannot start with a configuration. Each tells what is wrong where, and what would be right.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{} line {line}: {message}", path.display())]
    Malformed { path: PathBuf, line: usize, message: String },
    #[error("--override {0:?} has no \"=\"; write --override key=value")]
    Override(String),
    #[error(transparent)]
    Value(Box<BadValue>),
    #[error("Invalid value {value} for configuration {key}, which follows from another: {reason}")]
    Follows { key: &'static str, value: String, reason: InvalidValue },
    #[error("Missing required configuration \"{key}\" which has no default value.")]
    Missing { key: &'static str },
    #[error("{origin}: Invalid listeners {value:?}: {source}")]
    Listeners { value: String, origin: String, source: ListenerError },
    /// Values that do not go together, or not with what a broker needs.
    #[error("{0}")]
    Rule(String),
    #[error("{key}={value} asks for what this broker cannot do: {cure}")]
    Unsupported { key: &'static str, value: String, cure: &'static str },
    #[error("Unknown topic config name: {0}")]
    UnknownTopicKey(String),
}

/// A value that its key does not take.
#[derive(Debug, thiserror::Error)]
#[error("{origin}: Invalid value {value} for configuration {key}: {reason} (allowed: {allowed})")]
pub struct BadValue {
    pub key: &'static str,
    /// `[hidden]` for a secret.
    pub value: String,
    pub reason: InvalidValue,
    pub allowed: Allowed,
    pub origin: Origin,
}

impl ConfigError {
    fn rule(message: impl Into<String>) -> ConfigError {
        ConfigError::Rule(message.into())
    }
}

/// What does not stop a broker but should be known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Warning {
    /// Nobody knows this key.
    Unknown { key: String, origin: Origin },
    /// A key of 0.8 that lives on under another name.
    Legacy { key: &'static str, becomes: String },
    /// A key of 0.8 beside its successor, which counts.
    Overruled { key: &'static str, by: &'static str },
    /// A key of 0.8 with nothing left to act on.
    Gone { key: &'static str, instead: &'static str },
    /// A key that is about what is not here.
    NoEffect { key: &'static str },
    /// An address that nobody else can dial.
    AdvertisedUnspecified { endpoint: String },
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Warning::Unknown { key, origin } => {
                write!(f, "{origin}: configuration '{key}' is not known and not used")
            }
            Warning::Legacy { key, becomes } => write!(f, "configuration '{key}' is read as {becomes}"),
            Warning::Overruled { key, by } => write!(f, "configuration '{key}' is not used, {by} decides"),
            Warning::Gone { key, instead } => write!(f, "configuration '{key}' is not used: {instead}"),
            Warning::NoEffect { key } => write!(f, "configuration '{key}' has no effect here"),
            Warning::AdvertisedUnspecified { endpoint } => {
                write!(f, "advertised listener {endpoint} can only be reached from this machine")
            }
        }
    }
}

/// Keys that are read by prefix or by plugins, and so stand in no table.
const PLUGIN_KEYS: &[&str] = &[
    "super.users",
    "allow.everyone.if.no.acl.found",
    "authorizer.zookeeper.url",
    "authorizer.zookeeper.connection.timeout.ms",
    "authorizer.zookeeper.session.timeout.ms",
    "authorizer.zookeeper.max.in.flight.requests",
    "replica.alter.log.dirs.io.max.bytes.per.second",
    "leader.replication.throttled.rate",
    "follower.replication.throttled.rate",
];

const LISTENER_PREFIX: &str = "listener.name.";

/// The definition of a broker key.
pub fn find(name: &str) -> Option<&'static Definition> {
    BROKER_KEYS.iter().copied().find(|key| key.name == name)
}

/// The definition of a broker key, also behind the prefix of a listener:
/// `listener.name.internal.ssl.key.password`.
///
/// SASL settings can be for one mechanism of the listener: `listener.name.internal.plain.sasl.jaas.config`.
fn find_prefixed(name: &str) -> Option<&'static Definition> {
    find(name).or_else(|| {
        let (_listener, key) = name.strip_prefix(LISTENER_PREFIX)?.split_once('.')?;
        let for_mechanism = key.split_once('.').map_or("", |(_mechanism, key)| key);
        find(key).or_else(|| find(for_mechanism))
    })
}

/// Whether anything here, or a plugin of Kafka's, goes by that name.
fn is_known(name: &str) -> bool {
    find_prefixed(name).is_some()
        || PLUGIN_KEYS.contains(&name)
        || ["rsm.config.", "rlmm.config."].iter().any(|prefix| name.starts_with(prefix))
}

impl Config {
    /// Reads a file, `.properties` or `.toml`, and puts `--override key=value` over it, the later over the
    /// earlier.
    pub fn load(path: &Path, overrides: &[String]) -> Result<Config, ConfigError> {
        let mut layer = settings::read_file(path)?;
        for text in overrides {
            settings::apply_override(&mut layer, text)?;
        }
        Config::from_layer(layer)
    }

    /// A configuration from `key=value` pairs, as for brokers that have no file.
    pub fn from_pairs<'a>(
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Config, ConfigError> {
        let given = |value: &str| Given { value: value.to_owned(), origin: Origin::Override };
        Config::from_layer(pairs.into_iter().map(|(key, value)| (key.to_owned(), given(value))).collect())
    }

    /// A configuration from what was given, wherever that was.
    pub fn from_layer(mut layer: Layer) -> Result<Config, ConfigError> {
        let mut warnings = Vec::new();
        legacy::translate(&mut layer, &mut warnings);
        for (key, given) in &layer {
            if !is_known(key) {
                warnings.push(Warning::Unknown { key: key.clone(), origin: given.origin.clone() });
            }
        }
        settings::share(&mut layer, keys::BROKER_ID.name(), keys::NODE_ID.name());
        let settings = Settings::new(layer);
        for (name, given) in &settings.stated {
            // By its own name it is looked at below.
            if let Some(key) = find_prefixed(name).filter(|key| key.name != name) {
                settings::parse(key, given)?;
            }
        }
        // Every key, used or not: a bad value is a mistake of the operator's that is better heard of.
        for key in BROKER_KEYS {
            settings.value(key)?;
            if key.reach == Reach::NoEffect && settings.given(key.name).is_some() {
                warnings.push(Warning::NoEffect { key: key.name });
            }
        }
        check_log_rules(&settings)?;
        let config = Config {
            broker_id: match settings.get(keys::BROKER_ID)? {
                id if id < 0 => None,
                id => Some(BrokerId(id)),
            },
            broker_id_generation_enable: settings.get(keys::BROKER_ID_GENERATION_ENABLE)?,
            reserved_broker_max_id: settings.get(keys::RESERVED_BROKER_MAX_ID)?,
            rack: settings.get(keys::BROKER_RACK)?.filter(|rack| !rack.is_empty()),
            zookeeper: ZooKeeperConfig::from(&settings)?,
            listeners: listeners(&settings)?,
            inter_broker_protocol: protocol_version(&settings)?,
            network: NetworkConfig::from(&settings)?,
            log: LogDirConfig::from(&settings)?,
            cleaner: CleanerConfig::from(&settings)?,
            replication: ReplicationConfig::from(&settings)?,
            controller: ControllerConfig::from(&settings)?,
            topics: TopicCreationConfig::from(&settings)?,
            groups: GroupConfig::from(&settings)?,
            offsets: OffsetsConfig::from(&settings)?,
            transactions: TransactionConfig::from(&settings)?,
            topic_defaults: TopicConfig::defaults(&settings)?,
            settings,
            warnings,
        };
        config.check_broker_id()?;
        config.check_rules()?;
        Ok(config.with_warnings())
    }

    fn with_warnings(mut self) -> Config {
        for endpoint in self.listeners.advertised.iter().filter(|endpoint| endpoint.host == "::") {
            self.warnings.push(Warning::AdvertisedUnspecified { endpoint: endpoint.to_string() });
        }
        self
    }

    fn check_broker_id(&self) -> Result<(), ConfigError> {
        let id = self.settings.get(keys::BROKER_ID)?;
        if self.broker_id_generation_enable && (id < -1 || id > self.reserved_broker_max_id) {
            return Err(broken_rule(
                &self.settings,
                "broker.id must be greater than or equal to -1 and not greater than reserved.broker.max.id, \
                 for larger ids are for generation (broker.id.generation.enable)",
                &["broker.id", "reserved.broker.max.id"],
            ));
        }
        if !self.broker_id_generation_enable && id < 0 {
            return Err(broken_rule(
                &self.settings,
                "broker.id must be greater than or equal to 0 while broker.id.generation.enable is false",
                &["broker.id", "broker.id.generation.enable"],
            ));
        }
        Ok(())
    }

    /// What Kafka requires of values together, beyond each by itself.
    fn check_rules(&self) -> Result<(), ConfigError> {
        let (network, replication) = (&self.network, &self.replication);
        let rules: [Rule; 10] = [
            (
                !self.cleaner.enable
                    || self.cleaner.threads == 0
                    || self.cleaner.dedupe_buffer_bytes / self.cleaner.threads as u64 > 1024 * 1024,
                "log.cleaner.dedupe.buffer.size must be at least 1MB per cleaner thread.",
                &["log.cleaner.dedupe.buffer.size", "log.cleaner.threads"],
            ),
            (
                replication.fetch_wait_max <= replication.socket_timeout,
                "replica.socket.timeout.ms should always be at least replica.fetch.wait.max.ms to prevent \
                 unnecessary socket timeouts",
                &["replica.socket.timeout.ms", "replica.fetch.wait.max.ms"],
            ),
            (
                replication.fetch_wait_max <= replication.lag_time_max,
                "replica.fetch.wait.max.ms should always be less than or equal to replica.lag.time.max.ms \
                 to prevent frequent changes in ISR",
                &["replica.fetch.wait.max.ms", "replica.lag.time.max.ms"],
            ),
            (
                self.offsets.commit_required_acks >= -1
                    && self.offsets.commit_required_acks <= self.offsets.topic_replication_factor,
                "offsets.commit.required.acks must be greater or equal to -1 and less or equal to \
                 offsets.topic.replication.factor",
                &["offsets.commit.required.acks", "offsets.topic.replication.factor"],
            ),
            (
                (0..=4).contains(&self.offsets.topic_compression_codec),
                "offsets.topic.compression.codec must be one of 0 (none), 1 (gzip), 2 (snappy), 3 (lz4), 4 \
                 (zstd)",
                &["offsets.topic.compression.codec"],
            ),
            (
                network
                    .queued_request_bytes_max
                    .is_none_or(|bytes| bytes >= network.request_bytes_max.into()),
                "queued.max.request.bytes must be larger or equal to socket.request.max.bytes",
                &["queued.max.request.bytes", "socket.request.max.bytes"],
            ),
            (
                network.connections_per_ip_max > 0 || !network.connections_per_ip_overrides.is_empty(),
                "max.connections.per.ip can be set to zero only if max.connections.per.ip.overrides \
                 property is set.",
                &["max.connections.per.ip"],
            ),
            (
                network.connections_idle_max.is_none_or(|idle| network.failed_authentication_delay < idle),
                "connection.failed.authentication.delay.ms should always be less than \
                 connections.max.idle.ms to prevent failed authentication responses from timing out",
                &["connection.failed.authentication.delay.ms", "connections.max.idle.ms"],
            ),
            (
                self.groups.session_timeout_min <= self.groups.session_timeout_max,
                "group.min.session.timeout.ms must not be greater than group.max.session.timeout.ms",
                &["group.min.session.timeout.ms", "group.max.session.timeout.ms"],
            ),
            (
                self.topics.replication_factor >= 1,
                "default.replication.factor must be greater than or equal to 1",
                &["default.replication.factor"],
            ),
        ];
        keep(&self.settings, rules)
    }

    /// Refuses what is well-formed but beyond this broker. To be asked before anything is opened.
    ///
    /// Security above all: a policy or an authorizer that is passed over in silence would open what it should
    /// close.
    pub fn check_supported(&self) -> Result<(), ConfigError> {
        let set = |key: &'static str, value: &str, cure| {
            Err(ConfigError::Unsupported { key, value: value.to_owned(), cure })
        };
        if let Some(role) = self.settings.get(keys::PROCESS_ROLES)?.first() {
            return set(
                "process.roles",
                role,
                "it coordinates through ZooKeeper only; remove process.roles and set zookeeper.connect",
            );
        }
        for (key, cure) in [
            (keys::ZOOKEEPER_METADATA_MIGRATION_ENABLE, "a migration to KRaft needs Kafka's own brokers"),
            (keys::ZOOKEEPER_SET_ACL, "sessions with ZooKeeper are not authenticated; set it to false"),
            (keys::ZOOKEEPER_SSL_CLIENT_ENABLE, "ZooKeeper is spoken to without TLS; set it to false"),
            (keys::REMOTE_LOG_STORAGE_SYSTEM_ENABLE, "there is no tiered storage; set it to false"),
        ] {
            if self.settings.get(key)? {
                return set(key.name(), "true", cure);
            }
        }
        for endpoint in &self.listeners.bound {
            if endpoint.protocol != SecurityProtocol::Plaintext {
                return set(
                    "listeners",
                    &endpoint.to_string(),
                    "only listeners of protocol PLAINTEXT can be opened; TLS and SASL are not there yet",
                );
            }
        }
        let authorizer = self.settings.get(keys::AUTHORIZER_CLASS_NAME)?;
        if !authorizer.is_empty() {
            return set(
                "authorizer.class.name",
                &authorizer,
                "requests are not authorized; remove it to allow everything",
            );
        }
        for key in [
            keys::CREATE_TOPIC_POLICY_CLASS_NAME,
            keys::ALTER_CONFIG_POLICY_CLASS_NAME,
            keys::CLIENT_QUOTA_CALLBACK_CLASS,
            keys::SASL_SERVER_CALLBACK_HANDLER_CLASS,
            keys::SASL_LOGIN_CALLBACK_HANDLER_CLASS,
            keys::SASL_LOGIN_CLASS,
        ] {
            if let Some(ClassName(class)) = self.settings.get(key)? {
                return set(key.name(), &class, "Java classes cannot be run here; remove it");
            }
        }
        let ClassName(principal_builder) = self.settings.get(keys::PRINCIPAL_BUILDER_CLASS)?;
        if Some(principal_builder.as_str()) != keys::PRINCIPAL_BUILDER_CLASS.definition.default {
            return set(
                "principal.builder.class",
                &principal_builder,
                "Java classes cannot be run here; remove it",
            );
        }
        Ok(())
    }

    /// The listeners to advertise, with the name of this machine where no host was given.
    ///
    /// `bound_port` tells the port that was bound for a listener whose port was left open.
    pub fn advertised(&self, bound_port: impl Fn(&ListenerName) -> Option<u16>) -> Vec<Endpoint> {
        let mut endpoints = self.listeners.advertised.clone();
        for endpoint in &mut endpoints {
            if endpoint.host.is_empty() {
                endpoint.host = canonical_host_name();
            }
            if endpoint.port == 0 {
                endpoint.port = bound_port(&endpoint.name).unwrap_or(0);
            }
        }
        endpoints
    }
}

/// Whether a rule holds, the rule in Kafka's words, and the keys whose values to show if it does not hold.
type Rule = (bool, &'static str, &'static [&'static str]);

fn keep<const N: usize>(settings: &Settings, rules: [Rule; N]) -> Result<(), ConfigError> {
    match rules.into_iter().find(|(holds, ..)| !holds) {
        Some((_, rule, keys)) => Err(broken_rule(settings, rule, keys)),
        None => Ok(()),
    }
}

/// A rule, and what was given that does not keep it.
fn broken_rule(settings: &Settings, rule: &str, keys: &[&str]) -> ConfigError {
    let given = keys.iter().filter_map(|key| {
        let given = settings.given(key)?;
        Some(format!("{}: {key}={}", given.origin, given.value))
    });
    ConfigError::Rule(format!("{rule} ({})", given.collect::<Vec<_>>().join(", ")))
}

/// The rules on what topics take their defaults from, in the broker's own words.
fn check_log_rules(settings: &Settings) -> Result<(), ConfigError> {
    let ms = |key: Key<Option<i64>>| settings.get(key);
    let rules: [Rule; 3] = [
        (
            ms(keys::LOG_ROLL_MS)?.is_none_or(|ms| ms >= 1),
            "log.roll.ms must be greater than or equal to 1",
            &["log.roll.ms", "log.roll.hours"],
        ),
        (
            ms(keys::LOG_ROLL_JITTER_MS)?.is_none_or(|ms| ms >= 0),
            "log.roll.jitter.ms must be greater than or equal to 0",
            &["log.roll.jitter.ms", "log.roll.jitter.hours"],
        ),
        (
            ms(keys::LOG_RETENTION_MS)?.is_none_or(|ms| ms != 0),
            "log.retention.ms must be unlimited (-1) or, greater than or equal to 1",
            &["log.retention.ms", "log.retention.minutes", "log.retention.hours"],
        ),
    ];
    keep(settings, rules)
}

fn listeners(settings: &Settings) -> Result<Listeners, ConfigError> {
    let text = settings.get(keys::LISTENERS)?;
    let advertised = settings.get(keys::ADVERTISED_LISTENERS)?;
    let inter_broker_name = settings.get(keys::INTER_BROKER_LISTENER_NAME)?;
    let control_plane_name = settings.get(keys::CONTROL_PLANE_LISTENER_NAME)?;
    let inter_broker_protocol = settings.given(keys::SECURITY_INTER_BROKER_PROTOCOL.name());
    Listeners::parse(ListenerKeys {
        listeners: &text,
        advertised: advertised.as_deref().filter(|advertised| !advertised.is_empty()),
        protocol_map: &settings.get(keys::LISTENER_SECURITY_PROTOCOL_MAP)?,
        inter_broker_name: inter_broker_name.as_deref(),
        inter_broker_protocol: inter_broker_protocol.map(|given| definition::trim(&given.value)),
        control_plane_name: control_plane_name.as_deref(),
    })
    .map_err(|source| {
        let given = settings.given(keys::LISTENERS.name());
        let origin = given.map_or("default".to_owned(), |given| given.origin.to_string());
        ConfigError::Listeners { value: text.clone(), origin, source }
    })
}

fn protocol_version(settings: &Settings) -> Result<ProtocolVersion, ConfigError> {
    settings
        .get(keys::INTER_BROKER_PROTOCOL_VERSION)?
        .parse()
        .map_err(|error: UnknownProtocolVersion| ConfigError::rule(error.to_string()))
}

/// Negative and zero timeouts are zero.
fn ms(value: impl Into<i64>) -> Duration {
    Duration::from_millis(value.into().try_into().unwrap_or(0))
}

/// A number of which the key's rule leaves nothing negative.
fn count<T: TryInto<N>, N: Default>(value: T) -> N {
    value.try_into().unwrap_or_default()
}

/// A size of a socket's buffer; -1 leaves it to the system.
fn buffer_size(bytes: i32) -> Option<u32> {
    u32::try_from(bytes).ok()
}

impl ZooKeeperConfig {
    fn from(settings: &Settings) -> Result<ZooKeeperConfig, ConfigError> {
        let connect = settings.get(keys::ZOOKEEPER_CONNECT)?.filter(|connect| !connect.is_empty());
        let session_timeout = settings.get(keys::ZOOKEEPER_SESSION_TIMEOUT_MS)?;
        Ok(ZooKeeperConfig {
            connect: connect.ok_or(ConfigError::Missing { key: keys::ZOOKEEPER_CONNECT.name() })?,
            session_timeout: ms(session_timeout),
            connection_timeout: ms(settings
                .get(keys::ZOOKEEPER_CONNECTION_TIMEOUT_MS)?
                .unwrap_or(session_timeout)),
            in_flight_max: count(settings.get(keys::ZOOKEEPER_MAX_IN_FLIGHT_REQUESTS)?),
        })
    }
}

impl NetworkConfig {
    fn from(settings: &Settings) -> Result<NetworkConfig, ConfigError> {
        let idle = settings.get(keys::CONNECTIONS_MAX_IDLE_MS)?;
        let queued_bytes = settings.get(keys::QUEUED_MAX_REQUEST_BYTES)?;
        Ok(NetworkConfig {
            socket_send_buffer_bytes: buffer_size(settings.get(keys::SOCKET_SEND_BUFFER_BYTES)?),
            socket_receive_buffer_bytes: buffer_size(settings.get(keys::SOCKET_RECEIVE_BUFFER_BYTES)?),
            request_bytes_max: count(settings.get(keys::SOCKET_REQUEST_MAX_BYTES)?),
            listen_backlog: count(settings.get(keys::SOCKET_LISTEN_BACKLOG_SIZE)?),
            connections_max: count(settings.get(keys::MAX_CONNECTIONS)?),
            connections_per_ip_max: count(settings.get(keys::MAX_CONNECTIONS_PER_IP)?),
            connections_per_ip_overrides: connection_overrides(
                &settings.get(keys::MAX_CONNECTIONS_PER_IP_OVERRIDES)?,
            )?,
            connection_creation_rate_max: count(settings.get(keys::MAX_CONNECTION_CREATION_RATE)?),
            connections_idle_max: (idle >= 0).then(|| ms(idle)),
            failed_authentication_delay: ms(settings.get(keys::CONNECTION_FAILED_AUTHENTICATION_DELAY_MS)?),
            queued_requests_max: count(settings.get(keys::QUEUED_MAX_REQUESTS)?),
            queued_request_bytes_max: u64::try_from(queued_bytes).ok().filter(|&bytes| bytes > 0),
            fetch_bytes_max: count(settings.get(keys::FETCH_MAX_BYTES)?),
            fetch_sessions_max: count(settings.get(keys::MAX_INCREMENTAL_FETCH_SESSION_CACHE_SLOTS)?),
            request_timeout: ms(settings.get(keys::REQUEST_TIMEOUT_MS)?),
        })
    }
}

/// `host:number` pairs; the number follows the last colon, so that an IPv6 address may come before it.
fn connection_overrides(text: &str) -> Result<BTreeMap<String, u32>, ConfigError> {
    text.split(',')
        .map(definition::trim)
        .filter(|pair| !pair.is_empty())
        .map(|pair| {
            pair.rsplit_once(':')
                .and_then(|(host, number)| Some((host.trim().to_owned(), number.trim().parse().ok()?)))
                .ok_or_else(|| {
                    ConfigError::rule(format!(
                        "max.connections.per.ip.overrides has {pair:?}, which is not host:number"
                    ))
                })
        })
        .collect()
}

impl LogDirConfig {
    fn from(settings: &Settings) -> Result<LogDirConfig, ConfigError> {
        let dirs = match settings.get(keys::LOG_DIRS)? {
            Some(dirs) => dirs,
            None => settings.get(keys::LOG_DIR)?,
        };
        let dirs: Vec<PathBuf> =
            dirs.split(',').map(definition::trim).filter(|dir| !dir.is_empty()).map(PathBuf::from).collect();
        if dirs.is_empty() {
            return Err(ConfigError::rule(
                "At least one log directory must be defined via log.dirs or log.dir.",
            ));
        }
        Ok(LogDirConfig {
            dirs,
            recovery_threads_per_dir: count(settings.get(keys::NUM_RECOVERY_THREADS_PER_DATA_DIR)?),
            retention_check_interval: ms(settings.get(keys::LOG_RETENTION_CHECK_INTERVAL_MS)?),
            flush_scheduler_interval: ms(settings.get(keys::LOG_FLUSH_SCHEDULER_INTERVAL_MS)?),
            recovery_point_checkpoint_interval: ms(
                settings.get(keys::LOG_FLUSH_OFFSET_CHECKPOINT_INTERVAL_MS)?
            ),
            log_start_checkpoint_interval: ms(
                settings.get(keys::LOG_FLUSH_START_OFFSET_CHECKPOINT_INTERVAL_MS)?
            ),
            initial_task_delay: ms(settings.get(keys::LOG_INITIAL_TASK_DELAY_MS)?),
            producer_id_expiration: ms(settings.get(keys::PRODUCER_ID_EXPIRATION_MS)?),
            producer_id_expiration_check_interval: ms(
                settings.get(keys::PRODUCER_ID_EXPIRATION_CHECK_INTERVAL_MS)?
            ),
        })
    }
}

impl CleanerConfig {
    fn from(settings: &Settings) -> Result<CleanerConfig, ConfigError> {
        Ok(CleanerConfig {
            enable: settings.get(keys::LOG_CLEANER_ENABLE)?,
            threads: count(settings.get(keys::LOG_CLEANER_THREADS)?),
            dedupe_buffer_bytes: count(settings.get(keys::LOG_CLEANER_DEDUPE_BUFFER_SIZE)?),
            io_buffer_bytes: count(settings.get(keys::LOG_CLEANER_IO_BUFFER_SIZE)?),
            io_buffer_load_factor: settings.get(keys::LOG_CLEANER_IO_BUFFER_LOAD_FACTOR)?,
            io_bytes_per_second_max: settings.get(keys::LOG_CLEANER_IO_MAX_BYTES_PER_SECOND)?,
            backoff: ms(settings.get(keys::LOG_CLEANER_BACKOFF_MS)?),
        })
    }
}

impl ReplicationConfig {
    fn from(settings: &Settings) -> Result<ReplicationConfig, ConfigError> {
        const RACK_AWARE: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";
        let selector = settings.get(keys::REPLICA_SELECTOR_CLASS)?.filter(|class| !class.is_empty());
        let rack_aware_selector = match selector.as_deref() {
            None => false,
            Some(RACK_AWARE) => true,
            Some(class) => {
                return Err(ConfigError::Unsupported {
                    key: "replica.selector.class",
                    value: class.to_owned(),
                    cure: "the only selector is org.apache.kafka.common.replica.RackAwareReplicaSelector",
                });
            }
        };
        Ok(ReplicationConfig {
            lag_time_max: ms(settings.get(keys::REPLICA_LAG_TIME_MAX_MS)?),
            fetch_bytes_max: count(settings.get(keys::REPLICA_FETCH_MAX_BYTES)?),
            fetch_bytes_min: count(settings.get(keys::REPLICA_FETCH_MIN_BYTES)?),
            fetch_wait_max: ms(settings.get(keys::REPLICA_FETCH_WAIT_MAX_MS)?),
            fetch_response_bytes_max: count(settings.get(keys::REPLICA_FETCH_RESPONSE_MAX_BYTES)?),
            fetch_backoff: ms(settings.get(keys::REPLICA_FETCH_BACKOFF_MS)?),
            fetchers_per_broker: count(settings.get(keys::NUM_REPLICA_FETCHERS)?),
            socket_timeout: ms(settings.get(keys::REPLICA_SOCKET_TIMEOUT_MS)?),
            socket_receive_buffer_bytes: buffer_size(
                settings.get(keys::REPLICA_SOCKET_RECEIVE_BUFFER_BYTES)?,
            ),
            high_watermark_checkpoint_interval: ms(
                settings.get(keys::REPLICA_HIGH_WATERMARK_CHECKPOINT_INTERVAL_MS)?
            ),
            rack_aware_selector,
        })
    }
}

impl ControllerConfig {
    fn from(settings: &Settings) -> Result<ControllerConfig, ConfigError> {
        let check_seconds = settings.get(keys::LEADER_IMBALANCE_CHECK_INTERVAL_SECONDS)?;
        Ok(ControllerConfig {
            auto_leader_rebalance_enable: settings.get(keys::AUTO_LEADER_REBALANCE_ENABLE)?,
            leader_imbalance_check_interval: Duration::from_secs(count(check_seconds)),
            leader_imbalance_percentage: count(settings.get(keys::LEADER_IMBALANCE_PER_BROKER_PERCENTAGE)?),
            unclean_leader_election_interval: ms(settings.get(keys::UNCLEAN_LEADER_ELECTION_INTERVAL_MS)?),
            controlled_shutdown_enable: settings.get(keys::CONTROLLED_SHUTDOWN_ENABLE)?,
            controlled_shutdown_retries_max: count(settings.get(keys::CONTROLLED_SHUTDOWN_MAX_RETRIES)?),
            controlled_shutdown_retry_backoff: ms(settings.get(keys::CONTROLLED_SHUTDOWN_RETRY_BACKOFF_MS)?),
            socket_timeout: ms(settings.get(keys::CONTROLLER_SOCKET_TIMEOUT_MS)?),
        })
    }
}

impl TopicCreationConfig {
    fn from(settings: &Settings) -> Result<TopicCreationConfig, ConfigError> {
        let replication_factor = settings.get(keys::DEFAULT_REPLICATION_FACTOR)?;
        Ok(TopicCreationConfig {
            auto_create_enable: settings.get(keys::AUTO_CREATE_TOPICS_ENABLE)?,
            delete_enable: settings.get(keys::DELETE_TOPIC_ENABLE)?,
            partitions: settings.get(keys::NUM_PARTITIONS)?,
            replication_factor: count(replication_factor),
        })
    }
}

impl GroupConfig {
    fn from(settings: &Settings) -> Result<GroupConfig, ConfigError> {
        Ok(GroupConfig {
            session_timeout_min: ms(settings.get(keys::GROUP_MIN_SESSION_TIMEOUT_MS)?),
            session_timeout_max: ms(settings.get(keys::GROUP_MAX_SESSION_TIMEOUT_MS)?),
            initial_rebalance_delay: ms(settings.get(keys::GROUP_INITIAL_REBALANCE_DELAY_MS)?),
            size_max: count(settings.get(keys::GROUP_MAX_SIZE)?),
        })
    }
}

impl OffsetsConfig {
    fn from(settings: &Settings) -> Result<OffsetsConfig, ConfigError> {
        let retention_minutes = settings.get(keys::OFFSETS_RETENTION_MINUTES)?;
        Ok(OffsetsConfig {
            metadata_bytes_max: count(settings.get(keys::OFFSET_METADATA_MAX_BYTES)?),
            topic_partitions: settings.get(keys::OFFSETS_TOPIC_NUM_PARTITIONS)?,
            topic_replication_factor: settings.get(keys::OFFSETS_TOPIC_REPLICATION_FACTOR)?,
            topic_segment_bytes: settings.get(keys::OFFSETS_TOPIC_SEGMENT_BYTES)?,
            topic_compression_codec: settings.get(keys::OFFSETS_TOPIC_COMPRESSION_CODEC)?,
            load_buffer_bytes: count(settings.get(keys::OFFSETS_LOAD_BUFFER_SIZE)?),
            retention: ms(i64::from(retention_minutes) * definition::MINUTE),
            retention_check_interval: ms(settings.get(keys::OFFSETS_RETENTION_CHECK_INTERVAL_MS)?),
            commit_timeout: ms(settings.get(keys::OFFSETS_COMMIT_TIMEOUT_MS)?),
            commit_required_acks: settings.get(keys::OFFSETS_COMMIT_REQUIRED_ACKS)?,
        })
    }
}

impl TransactionConfig {
    fn from(settings: &Settings) -> Result<TransactionConfig, ConfigError> {
        Ok(TransactionConfig {
            timeout_max: ms(settings.get(keys::TRANSACTION_MAX_TIMEOUT_MS)?),
            id_expiration: ms(settings.get(keys::TRANSACTIONAL_ID_EXPIRATION_MS)?),
            topic_partitions: settings.get(keys::TRANSACTION_STATE_LOG_NUM_PARTITIONS)?,
            topic_replication_factor: settings.get(keys::TRANSACTION_STATE_LOG_REPLICATION_FACTOR)?,
            topic_min_isr: settings.get(keys::TRANSACTION_STATE_LOG_MIN_ISR)?,
            topic_segment_bytes: settings.get(keys::TRANSACTION_STATE_LOG_SEGMENT_BYTES)?,
            load_buffer_bytes: count(settings.get(keys::TRANSACTION_STATE_LOG_LOAD_BUFFER_SIZE)?),
            abort_timed_out_interval: ms(
                settings.get(keys::TRANSACTION_ABORT_TIMED_OUT_TRANSACTION_CLEANUP_INTERVAL_MS)?
            ),
            remove_expired_interval: ms(
                settings.get(keys::TRANSACTION_REMOVE_EXPIRED_TRANSACTION_CLEANUP_INTERVAL_MS)?
            ),
            partition_verification_enable: settings.get(keys::TRANSACTION_PARTITION_VERIFICATION_ENABLE)?,
        })
    }
}
