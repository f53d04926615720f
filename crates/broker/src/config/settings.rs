//! Values as they were given, by whom, and which of them counts.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use toml::de::{DeTable, DeValue};

use super::definition::{Definition, InvalidValue, Key, Typed, Value};
use super::keys::LOG_RETENTION_MS;
use super::topic_keys::RETENTION_MS;
use super::{BadValue, ConfigError, LISTENER_PREFIX, ListenerName, TOPIC_KEYS, find};

/// Where a value comes from; what an error message names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Origin {
    File {
        path: Arc<Path>,
        /// Counted from 1.
        line: usize,
    },
    /// `--override key=value`.
    Override,
    /// A `KAFKA_` variable.
    Environment,
    /// A config znode.
    ZooKeeper,
    /// Translated from a key of Kafka 0.8.
    Legacy(&'static str),
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::File { path, line } => write!(f, "{} line {line}", path.display()),
            Origin::Override => f.write_str("--override"),
            Origin::Environment => f.write_str("environment"),
            Origin::ZooKeeper => f.write_str("ZooKeeper"),
            Origin::Legacy(key) => write!(f, "{key}"),
        }
    }
}

/// One value as given, not yet parsed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Given {
    pub value: String,
    pub origin: Origin,
}

/// Values by key, from one place.
pub type Layer = BTreeMap<String, Given>;

/// Who decided a value; numbered as DescribeConfigs numbers it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    Topic = 1,
    DynamicBroker = 2,
    DynamicDefaultBroker = 3,
    StaticBroker = 4,
    Default = 5,
}

/// A broker's values in their layers: what was set for this broker in ZooKeeper beats what was set there for
/// all, which beats the file, which beats the defaults (KIP-226).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settings {
    pub dynamic_broker: Layer,
    pub dynamic_default: Layer,
    /// The file, and the overrides on the command line.
    pub stated: Layer,
}

impl Settings {
    pub fn new(stated: Layer) -> Settings {
        Settings { stated, ..Settings::default() }
    }

    /// The layers that speak before the defaults do, the strongest first.
    pub fn layers(&self) -> [(Source, &Layer); 3] {
        [
            (Source::DynamicBroker, &self.dynamic_broker),
            (Source::DynamicDefaultBroker, &self.dynamic_default),
            (Source::StaticBroker, &self.stated),
        ]
    }

    /// The text that decides `name`, if any layer has one.
    pub fn given(&self, name: &str) -> Option<&Given> {
        self.layers().into_iter().find_map(|(_, layer)| layer.get(name))
    }

    /// The value of a key: given for itself, or following from its synonyms, or the default.
    pub fn get<T: Typed>(&self, key: Key<T>) -> Result<T, ConfigError> {
        let value = self.value(key.definition)?;
        T::from_value(value).ok_or_else(|| ConfigError::Missing { key: key.name() })
    }

    /// The value of a key for one listener: `listener.name.<name>.<key>` in small letters, else the key
    /// itself.
    pub fn get_for_listener<T: Typed>(&self, listener: &ListenerName, key: Key<T>) -> Result<T, ConfigError> {
        let prefixed = format!("{LISTENER_PREFIX}{}.{}", listener.as_str().to_lowercase(), key.name());
        match self.given(&prefixed) {
            Some(given) => {
                let value = parse(key.definition, given)?;
                T::from_value(Some(value)).ok_or_else(|| ConfigError::Missing { key: key.name() })
            }
            None => self.get(key),
        }
    }

    /// As [`Settings::get`], without a Rust type; `None` where the value is null.
    pub fn value(&self, key: &Definition) -> Result<Option<Value>, ConfigError> {
        match self.given(key.name) {
            Some(given) => parse(key, given).map(Some),
            None => self.following(key),
        }
    }

    /// What a key is where it has no value of its own: the first of its synonyms that has one, else the
    /// default.
    pub(super) fn following(&self, key: &Definition) -> Result<Option<Value>, ConfigError> {
        for &(synonym, factor) in key.synonyms {
            let synonym = broker_key(synonym);
            // A synonym's default counts too: where none of them is set, log.roll.hours decides with its 168.
            let value = match self.given(synonym.name) {
                Some(given) => Some(parse(synonym, given)?),
                None => synonym.default_value(),
            };
            if let Some(value) = value {
                return scale(key, value, factor).map(Some);
            }
        }
        Ok(key.default_value())
    }
}

/// The definition behind a synonym, which is always one of our own broker keys.
pub(super) fn broker_key(name: &str) -> &'static Definition {
    find(name).unwrap_or_else(|| panic!("{name} is declared as a synonym but is no broker key"))
}

pub(super) fn parse(definition: &Definition, given: &Given) -> Result<Value, ConfigError> {
    definition.parse(&given.value).map_err(|reason| ConfigError::invalid(definition, given, reason))
}

/// A synonym's value in the unit and type of the key it stands in for.
fn scale(key: &Definition, value: Value, factor: i64) -> Result<Value, ConfigError> {
    let is_retention = key.name == RETENTION_MS.name() || key.name == LOG_RETENTION_MS.name();
    let scaled = match value {
        // Below zero is Kafka's word for "unlimited", whatever the unit.
        Value::Int(..0) | Value::Long(..0) if is_retention => "-1".to_owned(),
        Value::Int(value) => (i64::from(value) * factor).to_string(),
        other => other.to_string(),
    };
    key.parse(&scaled).map_err(|reason| ConfigError::Follows { key: key.name, value: scaled, reason })
}

/// Reads a configuration file: TOML if its name ends in `.toml`, else Java properties.
pub(super) fn read_file(path: &Path) -> Result<Layer, ConfigError> {
    let bytes =
        std::fs::read(path).map_err(|source| ConfigError::Unreadable { path: path.to_owned(), source })?;
    let path: Arc<Path> = path.into();
    let origin = |line| Origin::File { path: path.clone(), line };
    let mut layer = Layer::new();
    if path.extension().is_some_and(|extension| extension == "toml") {
        let invalid = |line: usize, message: String| ConfigError::Malformed {
            path: PathBuf::from(&*path),
            line,
            message,
        };
        let text = std::str::from_utf8(&bytes)
            .map_err(|error| invalid(line_of(&bytes, error.valid_up_to()), "not UTF-8".to_owned()))?;
        let table = DeTable::parse(text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            invalid(line_of(&bytes, at), error.message().to_owned())
        })?;
        let mut problem = None;
        flatten(table.get_ref(), "", &mut |key, value, at| {
            let line = line_of(&bytes, at);
            match value {
                Some(value) => drop(layer.insert(key, Given { value, origin: origin(line) })),
                None => {
                    problem = Some(invalid(line, format!("{key}: dates and nested arrays are no values")))
                }
            }
        });
        return problem.map_or(Ok(layer), Err);
    }
    let properties = ottla_properties::parse(&bytes).map_err(|error| ConfigError::Malformed {
        path: PathBuf::from(&*path),
        line: error.line,
        message: error.reason.to_string(),
    })?;
    for entry in properties.entries() {
        layer.insert(entry.key.clone(), Given { value: entry.value.clone(), origin: origin(entry.line) });
    }
    Ok(layer)
}

fn line_of(bytes: &[u8], at: usize) -> usize {
    1 + bytes[..at.min(bytes.len())].iter().filter(|&&byte| byte == b'\n').count()
}

/// Tables of TOML are joined by dots, so `[log]` with `dirs = ..` is `log.dirs`; an array is a list.
fn flatten(table: &DeTable<'_>, prefix: &str, found: &mut impl FnMut(String, Option<String>, usize)) {
    for (name, value) in table {
        let key = format!("{prefix}{}", name.get_ref());
        match value.get_ref() {
            DeValue::Table(inner) => flatten(inner, &format!("{key}."), found),
            DeValue::Array(items) => {
                let items: Option<Vec<String>> = items.iter().map(|item| scalar(item.get_ref())).collect();
                found(key, items.map(|items| items.join(",")), value.span().start);
            }
            value_of => found(key, scalar(value_of), value.span().start),
        }
    }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Integer(number) => {
            i64::from_str_radix(number.as_str(), number.radix()).ok().map(|number| number.to_string())
        }
        DeValue::Float(number) => Some(number.as_str().to_owned()),
        DeValue::Boolean(value) => Some(value.to_string()),
        DeValue::Datetime(_) | DeValue::Array(_) | DeValue::Table(_) => None,
    }
}

/// Puts `key=value` over what a file says; the first `=` separates, later ones belong to the value.
pub(super) fn apply_override(layer: &mut Layer, text: &str) -> Result<(), ConfigError> {
    let Some((key, value)) = text.split_once('=') else {
        return Err(ConfigError::Override(text.to_owned()));
    };
    layer.insert(key.to_owned(), Given { value: value.to_owned(), origin: Origin::Override });
    Ok(())
}

/// Gives two names of one thing the same value, where only one of them has one.
pub(super) fn share(layer: &mut Layer, one: &str, other: &str) {
    for (from, to) in [(one, other), (other, one)] {
        if let Some(given) = layer.get(from).cloned() {
            layer.entry(to.to_owned()).or_insert(given);
        }
    }
}

/// Settings for images that are configured by variables: `KAFKA_LOG_DIRS` is `log.dirs`.
///
/// `_` is a dot, `__` an underscore, `___` a dash; the prefix may also be `KAFKA_CFG_`, which then wins.
/// Variables that speak to start scripts or the JVM are left out.
pub fn from_environment(variables: impl IntoIterator<Item = (String, String)>) -> Layer {
    const NOT_SETTINGS: &[&str] = &[
        "VERSION",
        "HOME",
        "HEAP_OPTS",
        "LOG4J_OPTS",
        "OPTS",
        "JMX_OPTS",
        "JMX_PORT",
        "JMX_HOSTNAME",
        "JVM_PERFORMANCE_OPTS",
        "GC_LOG_OPTS",
        "LOG4J_ROOT_LOGLEVEL",
        "LOG4J_LOGGERS",
        "TOOLS_LOG4J_LOGLEVEL",
        "DEBUG",
        "CREATE_TOPICS",
        "ADVERTISED_PROTOCOL_NAME",
        "PROTOCOL_NAME",
    ];
    let mut layer = Layer::new();
    let mut preferred = Layer::new();
    for (variable, value) in variables {
        let Some(name) = variable.strip_prefix("KAFKA_") else { continue };
        let (name, target) = match name.strip_prefix("CFG_") {
            Some(name) => (name, &mut preferred),
            None if NOT_SETTINGS.contains(&name) => continue,
            None => (name, &mut layer),
        };
        let key =
            name.to_lowercase().replace("___", "-").replace("__", "\0").replace('_', ".").replace('\0', "_");
        // Keys are case-sensitive and variables are not: zookeeper.clientCnxnSocket.
        let key = find_ignoring_case(&key).map_or(key, str::to_owned);
        target.insert(key, Given { value, origin: Origin::Environment });
    }
    layer.extend(preferred);
    layer
}

fn find_ignoring_case(name: &str) -> Option<&'static str> {
    super::BROKER_KEYS.iter().find(|key| key.name.eq_ignore_ascii_case(name)).map(|key| key.name)
}

impl ConfigError {
    fn invalid(definition: &Definition, given: &Given, reason: InvalidValue) -> ConfigError {
        let value = if definition.kind.is_sensitive() { "[hidden]" } else { &given.value };
        ConfigError::Value(Box::new(BadValue {
            key: definition.name,
            value: value.to_owned(),
            reason,
            allowed: Allowed { kind: definition.kind, valid: definition.valid },
            origin: given.origin.clone(),
        }))
    }
}

/// The values a key takes, for an error message.
#[derive(Debug)]
pub struct Allowed {
    kind: super::Kind,
    valid: super::Valid,
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.kind)?;
        let valid = self.valid.to_string();
        if valid.is_empty() { Ok(()) } else { write!(f, " {valid}") }
    }
}

/// Whether the name can be meant for a topic.
pub fn is_topic_key(name: &str) -> bool {
    TOPIC_KEYS.iter().any(|key| key.name == name)
}
