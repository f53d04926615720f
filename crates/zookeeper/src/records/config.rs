//! `/config/...`: values of topics, brokers, users, clients and addresses, and the notices of their changes.

use std::collections::BTreeMap;

use ottla_model::BrokerId;
use serde::{Deserialize, Serialize};

use super::{DecodeError, decode_json, encode_json};

/// Whose configuration a znode holds; the path below `/config`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConfigEntity {
    path: String,
}

/// The name that stands for every entity without a configuration of its own.
const DEFAULT: &str = "<default>";

impl ConfigEntity {
    pub fn topic(name: &str) -> ConfigEntity {
        ConfigEntity { path: format!("topics/{name}") }
    }

    /// `None`: the defaults of all brokers.
    pub fn broker(id: Option<BrokerId>) -> ConfigEntity {
        match id {
            Some(id) => ConfigEntity { path: format!("brokers/{id}") },
            None => ConfigEntity { path: format!("brokers/{DEFAULT}") },
        }
    }

    /// A user, a client, or a client of a user; `Some(None)` stands for the default one.
    pub fn client(user: Option<Option<&str>>, client: Option<Option<&str>>) -> Option<ConfigEntity> {
        let name = |name: Option<&str>| name.map_or(DEFAULT.to_owned(), sanitize);
        let path = match (user, client) {
            (Some(user), Some(client)) => format!("users/{}/clients/{}", name(user), name(client)),
            (Some(user), None) => format!("users/{}", name(user)),
            (None, Some(client)) => format!("clients/{}", name(client)),
            (None, None) => return None,
        };
        Some(ConfigEntity { path })
    }

    /// `None`: every address.
    pub fn ip(address: Option<&str>) -> ConfigEntity {
        ConfigEntity { path: format!("ips/{}", address.map_or(DEFAULT.to_owned(), sanitize)) }
    }

    /// As a notice spells it: `topics/orders`, `users/alice/clients/<default>`.
    pub fn from_path(path: &str) -> ConfigEntity {
        ConfigEntity { path: path.trim_matches('/').to_owned() }
    }

    pub fn path(&self) -> &str {
        &self.path
    }

    /// The znode's whole path.
    pub fn znode(&self) -> String {
        format!("{}/{}", crate::paths::CONFIG, self.path)
    }

    /// The topic, if it is one.
    pub fn as_topic(&self) -> Option<&str> {
        self.path.strip_prefix("topics/").filter(|name| !name.contains('/'))
    }
}

/// A name made fit for a path, and for the names of metrics: Java's URL encoding, with `%20` and `%2A` for
/// the two characters it would leave ambiguous.
pub fn sanitize(name: &str) -> String {
    let mut sanitized = String::with_capacity(name.len());
    for byte in name.bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'.' | b'-' | b'_' => sanitized.push(byte.into()),
            _ => sanitized.push_str(&format!("%{byte:02X}")),
        }
    }
    sanitized
}

/// What an entity's znode holds: values by key, all of them text.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EntityConfig(pub BTreeMap<String, String>);

impl EntityConfig {
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&Written { version: 1, config: &self.0 })
    }

    /// A znode without data, or without `config`, has no values.
    pub fn decode(bytes: &[u8]) -> Result<EntityConfig, DecodeError> {
        if bytes.is_empty() {
            return Ok(EntityConfig::default());
        }
        let read: Read = decode_json("entity config", bytes)?;
        Ok(EntityConfig(read.config.unwrap_or_default()))
    }
}

#[derive(Serialize)]
struct Written<'a> {
    version: i32,
    config: &'a BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Read {
    config: Option<BTreeMap<String, String>>,
}

/// A notice under `/config/changes`: whose configuration to read again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChangeRecord(pub ConfigEntity);

impl ConfigChangeRecord {
    /// Version 2.
    pub fn encode(&self) -> Vec<u8> {
        encode_json(&WrittenChange { version: 2, entity_path: &self.0.path })
    }

    /// Version 2; version 1 of 0.9, which names topics and clients; and the quoted topic name of 0.8.
    pub fn decode(bytes: &[u8]) -> Result<ConfigChangeRecord, DecodeError> {
        const RECORD: &str = "config change";
        let entity = match decode_json(RECORD, bytes)? {
            ReadChange::Path { entity_path } => ConfigEntity::from_path(&entity_path),
            ReadChange::Entity { entity_type, entity_name } => {
                ConfigEntity::from_path(&format!("{entity_type}/{entity_name}"))
            }
            ReadChange::Topic(name) => ConfigEntity::topic(&name),
        };
        Ok(ConfigChangeRecord(entity))
    }
}

#[derive(Serialize)]
struct WrittenChange<'a> {
    version: i32,
    entity_path: &'a str,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum ReadChange {
    Path { entity_path: String },
    Entity { entity_type: String, entity_name: String },
    Topic(String),
}
