//! `/brokers/ids/N`: a broker that is there.

use std::collections::BTreeMap;

use ottla_model::Timestamp;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};

use super::{DecodeError, decode_json, encode_json, timestamp};

/// A broker as it presents itself. Its epoch is the `czxid` of the znode.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerRegistration {
    /// In the order in which they are advertised.
    pub endpoints: Vec<BrokerEndpoint>,
    pub rack: Option<String>,
    /// -1 where there is no JMX.
    pub jmx_port: i32,
    /// Features that the broker supports; a 3.9 broker supports none while it keeps to ZooKeeper.
    pub features: BTreeMap<String, FeatureRange>,
    /// When the broker registered.
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerEndpoint {
    pub listener: String,
    /// `PLAINTEXT`, `SSL`, `SASL_PLAINTEXT` or `SASL_SSL`; as read, so that a stranger's protocol loses
    /// nobody.
    pub security_protocol: String,
    pub host: String,
    pub port: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct FeatureRange {
    pub min_version: i16,
    pub max_version: i16,
}

/// The versions that are written; which one follows from `inter.broker.protocol.version`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RegistrationVersion {
    /// Below 0.10.0-IV1: listeners are security protocols.
    V2 = 2,
    /// 0.10.0-IV1 to 2.6: with rack and the protocol of each listener.
    V4 = 4,
    /// From 2.7-IV0 on: with features.
    V5 = 5,
}

const RECORD: &str = "broker registration";
const PLAINTEXT: &str = "PLAINTEXT";

impl BrokerEndpoint {
    /// `LISTENER://host:port`, with brackets around an IPv6 address.
    fn show(&self) -> String {
        let BrokerEndpoint { listener, host, port, .. } = self;
        if host.contains(':') {
            format!("{listener}://[{host}]:{port}")
        } else {
            format!("{listener}://{host}:{port}")
        }
    }

    fn parse(text: &str, protocols: Option<&BTreeMap<String, String>>) -> Option<BrokerEndpoint> {
        let (listener, address) = text.split_once("://")?;
        let (host, port) = address.rsplit_once(':')?;
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        // Before version 4 a listener's name was its protocol.
        let security_protocol = match protocols {
            Some(protocols) => protocols.get(listener)?,
            None => listener,
        };
        Some(BrokerEndpoint {
            listener: listener.to_owned(),
            security_protocol: security_protocol.to_owned(),
            host: host.to_owned(),
            port: port.parse().ok()?,
        })
    }
}

impl BrokerRegistration {
    /// The listener of that name.
    pub fn endpoint(&self, listener: &str) -> Option<&BrokerEndpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.listener == listener)
    }

    /// What clients of 0.8 dial: the first listener without security.
    fn plaintext(&self) -> Option<&BrokerEndpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.security_protocol == PLAINTEXT)
    }

    pub fn encode(&self, version: RegistrationVersion) -> Vec<u8> {
        encode_json(&Written { registration: self, version })
    }

    pub fn decode(bytes: &[u8]) -> Result<BrokerRegistration, DecodeError> {
        let read: Read = decode_json(RECORD, bytes)?;
        let refused = |detail: String| DecodeError { record: RECORD, detail };
        if read.version < 1 {
            return Err(refused(format!("version {} does not exist", read.version)));
        }
        let endpoints = match &read.endpoints {
            Some(endpoints) => endpoints
                .iter()
                .map(|text| {
                    BrokerEndpoint::parse(text, read.listener_security_protocol_map.as_ref())
                        .ok_or_else(|| refused(format!("endpoint {text:?} cannot be read")))
                })
                .collect::<Result<_, _>>()?,
            // Version 1 had but one listener.
            None => match (read.host, read.port) {
                (Some(host), Some(port)) => vec![BrokerEndpoint {
                    listener: PLAINTEXT.to_owned(),
                    security_protocol: PLAINTEXT.to_owned(),
                    host,
                    port,
                }],
                _ => return Err(refused("neither endpoints nor host and port".to_owned())),
            },
        };
        Ok(BrokerRegistration {
            endpoints,
            rack: read.rack,
            jmx_port: read.jmx_port.unwrap_or(-1),
            features: read.features.unwrap_or_default(),
            timestamp: Timestamp(read.timestamp),
        })
    }
}

#[derive(Deserialize)]
struct Read {
    version: i64,
    host: Option<String>,
    port: Option<i32>,
    endpoints: Option<Vec<String>>,
    listener_security_protocol_map: Option<BTreeMap<String, String>>,
    rack: Option<String>,
    jmx_port: Option<i32>,
    features: Option<BTreeMap<String, FeatureRange>>,
    #[serde(default, deserialize_with = "timestamp")]
    timestamp: i64,
}

struct Written<'a> {
    registration: &'a BrokerRegistration,
    version: RegistrationVersion,
}

impl Serialize for Written<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let BrokerRegistration { endpoints, rack, jmx_port, features, timestamp } = self.registration;
        let mut fields = serializer.serialize_map(None)?;
        if self.version >= RegistrationVersion::V5 {
            fields.serialize_entry("features", features)?;
        }
        if self.version >= RegistrationVersion::V4 {
            fields.serialize_entry("listener_security_protocol_map", &ProtocolMap(endpoints))?;
        }
        let shown: Vec<String> = endpoints.iter().map(BrokerEndpoint::show).collect();
        fields.serialize_entry("endpoints", &shown)?;
        if let Some(rack) = rack
            && self.version >= RegistrationVersion::V4
        {
            fields.serialize_entry("rack", rack)?;
        }
        let plaintext = self.registration.plaintext();
        fields.serialize_entry("jmx_port", jmx_port)?;
        fields.serialize_entry("port", &plaintext.map_or(-1, |endpoint| endpoint.port))?;
        fields.serialize_entry("host", &plaintext.map(|endpoint| &endpoint.host))?;
        fields.serialize_entry("version", &(self.version as i32))?;
        fields.serialize_entry("timestamp", &timestamp.to_string())?;
        fields.end()
    }
}

/// Listener to protocol, in the order of the listeners.
struct ProtocolMap<'a>(&'a [BrokerEndpoint]);

impl Serialize for ProtocolMap<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer
            .collect_map(self.0.iter().map(|endpoint| (&endpoint.listener, &endpoint.security_protocol)))
    }
}
