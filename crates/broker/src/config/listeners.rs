//! Listeners: where the broker listens, what it tells others to dial, and how it speaks there.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use super::definition::trim;

/// Name of a listener, in capitals: it is the key of `listener.security.protocol.map`, and what brokers and
/// clients of one kind share.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ListenerName(String);

impl ListenerName {
    pub fn new(name: &str) -> ListenerName {
        ListenerName(name.to_uppercase())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ListenerName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum SecurityProtocol {
    Plaintext,
    Ssl,
    SaslPlaintext,
    SaslSsl,
}

impl SecurityProtocol {
    pub const ALL: [SecurityProtocol; 4] = [
        SecurityProtocol::Plaintext,
        SecurityProtocol::Ssl,
        SecurityProtocol::SaslPlaintext,
        SecurityProtocol::SaslSsl,
    ];

    pub fn name(self) -> &'static str {
        match self {
            SecurityProtocol::Plaintext => "PLAINTEXT",
            SecurityProtocol::Ssl => "SSL",
            SecurityProtocol::SaslPlaintext => "SASL_PLAINTEXT",
            SecurityProtocol::SaslSsl => "SASL_SSL",
        }
    }
}

impl fmt::Display for SecurityProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for SecurityProtocol {
    type Err = ListenerError;

    fn from_str(text: &str) -> Result<SecurityProtocol, ListenerError> {
        SecurityProtocol::ALL
            .into_iter()
            .find(|protocol| protocol.name().eq_ignore_ascii_case(text))
            .ok_or_else(|| ListenerError::UnknownProtocol(text.to_owned()))
    }
}

/// One listener, as configured or as advertised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub name: ListenerName,
    pub protocol: SecurityProtocol,
    /// Without brackets. Empty: the default interface to listen on; to advertise, the canonical host name.
    pub host: String,
    /// 0: any free port.
    pub port: u16,
}

impl fmt::Display for Endpoint {
    /// `NAME://host:port`, with brackets around an IPv6 address; the form of znodes and log lines.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "{}://[{}]:{}", self.name, self.host, self.port)
        } else {
            write!(f, "{}://{}:{}", self.name, self.host, self.port)
        }
    }
}

/// All listeners of a broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listeners {
    /// Where to listen.
    pub bound: Vec<Endpoint>,
    /// What others are told to dial; names are among those of `bound`.
    pub advertised: Vec<Endpoint>,
    /// The listener among `advertised` that brokers use between themselves.
    pub inter_broker: ListenerName,
    /// The listener kept for the controller, if there is one.
    pub control_plane: Option<ListenerName>,
}

/// Why the listeners cannot be what is configured. Where Kafka has words for it, they are Kafka's.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ListenerError {
    #[error(
        "unable to parse {0} to a broker endpoint: write NAME://host:port, with brackets around an IPv6 \
         address"
    )]
    Malformed(String),
    #[error("port {port} of listener {name} is not between 0 and 65535")]
    Port { name: ListenerName, port: String },
    #[error("unknown security protocol {0}; it must be one of PLAINTEXT, SSL, SASL_PLAINTEXT, SASL_SSL")]
    UnknownProtocol(String),
    #[error("listener.security.protocol.map has {0:?}, which is not NAME:PROTOCOL")]
    MalformedMap(String),
    #[error(
        "No security protocol defined for listener {0}; add {0}:<protocol> to listener.security.protocol.map"
    )]
    NoProtocol(ListenerName),
    #[error("at least one listener is required")]
    None,
    #[error("Each listener must have a different name, listeners: {0}")]
    DuplicateName(String),
    #[error(
        "Each listener must have a different port unless exactly one listener has an IPv4 address and the \
         other IPv6 address, listeners: {0}"
    )]
    DuplicatePort(String),
    #[error(
        "advertised.listeners cannot use the nonroutable meta-address 0.0.0.0. Use a routable IP address."
    )]
    Nonroutable,
    #[error(
        "advertised.listeners listener names must be equal to or a subset of the ones defined in \
         listeners. Found {found}. The valid options based on the current configuration are {valid}"
    )]
    NotListening { found: String, valid: String },
    #[error("Only one of inter.broker.listener.name and security.inter.broker.protocol should be set.")]
    TwoInterBroker,
    #[error(
        "inter.broker.listener.name must be a listener name defined in advertised.listeners. The valid \
         options based on currently configured listeners are {0}"
    )]
    InterBroker(String),
    #[error(
        "control.plane.listener.name must be a listener of its own, defined in listeners and other than \
         the inter-broker one. The listeners are {0}"
    )]
    ControlPlane(String),
}

/// What the keys say, unparsed.
#[derive(Debug, Clone, Copy)]
pub struct ListenerKeys<'a> {
    pub listeners: &'a str,
    /// The listeners themselves if not given.
    pub advertised: Option<&'a str>,
    pub protocol_map: &'a str,
    pub inter_broker_name: Option<&'a str>,
    /// Only if given.
    pub inter_broker_protocol: Option<&'a str>,
    pub control_plane_name: Option<&'a str>,
}

impl Listeners {
    pub fn parse(keys: ListenerKeys<'_>) -> Result<Listeners, ListenerError> {
        let protocols = parse_protocol_map(keys.protocol_map)?;
        let bound = parse_endpoints(keys.listeners, &protocols)?;
        require_distinct_ports(&bound, keys.listeners)?;
        let advertised = parse_endpoints(keys.advertised.unwrap_or(keys.listeners), &protocols)?;
        let inter_broker = match (keys.inter_broker_name, keys.inter_broker_protocol) {
            (Some(_), Some(_)) => return Err(ListenerError::TwoInterBroker),
            (Some(name), None) => ListenerName::new(name),
            (None, protocol) => ListenerName::new(protocol.unwrap_or("PLAINTEXT")),
        };
        let control_plane = keys.control_plane_name.map(ListenerName::new);
        if advertised.iter().any(|endpoint| endpoint.host == Ipv4Addr::UNSPECIFIED.to_string()) {
            return Err(ListenerError::Nonroutable);
        }
        if !advertised.iter().all(|endpoint| has(&bound, &endpoint.name)) {
            return Err(ListenerError::NotListening { found: names(&advertised), valid: names(&bound) });
        }
        if !has(&advertised, &inter_broker) {
            return Err(ListenerError::InterBroker(names(&advertised)));
        }
        if let Some(control_plane) = &control_plane
            && (!has(&bound, control_plane) || *control_plane == inter_broker)
        {
            return Err(ListenerError::ControlPlane(names(&bound)));
        }
        Ok(Listeners { bound, advertised, inter_broker, control_plane })
    }
}

fn has(endpoints: &[Endpoint], name: &ListenerName) -> bool {
    endpoints.iter().any(|endpoint| endpoint.name == *name)
}

fn names(endpoints: &[Endpoint]) -> String {
    endpoints.iter().map(|endpoint| endpoint.name.as_str()).collect::<Vec<_>>().join(",")
}

fn items(text: &str) -> impl Iterator<Item = &str> {
    text.split(',').map(trim).filter(|item| !item.is_empty())
}

fn parse_protocol_map(text: &str) -> Result<BTreeMap<ListenerName, SecurityProtocol>, ListenerError> {
    items(text)
        .map(|pair| {
            let malformed = || ListenerError::MalformedMap(pair.to_owned());
            let (name, protocol) = pair.rsplit_once(':').ok_or_else(malformed)?;
            Ok((ListenerName::new(trim(name)), trim(protocol).parse()?))
        })
        .collect()
}

fn parse_endpoints(
    text: &str,
    protocols: &BTreeMap<ListenerName, SecurityProtocol>,
) -> Result<Vec<Endpoint>, ListenerError> {
    let endpoints: Vec<Endpoint> =
        items(text).map(|item| parse_endpoint(item, protocols)).collect::<Result<_, _>>()?;
    if endpoints.is_empty() {
        return Err(ListenerError::None);
    }
    let distinct: BTreeSet<&ListenerName> = endpoints.iter().map(|endpoint| &endpoint.name).collect();
    if distinct.len() < endpoints.len() {
        return Err(ListenerError::DuplicateName(text.to_owned()));
    }
    Ok(endpoints)
}

fn parse_endpoint(
    text: &str,
    protocols: &BTreeMap<ListenerName, SecurityProtocol>,
) -> Result<Endpoint, ListenerError> {
    let malformed = || ListenerError::Malformed(text.to_owned());
    let (name, address) = text.split_once("://").ok_or_else(malformed)?;
    let (host, port) = address.rsplit_once(':').ok_or_else(malformed)?;
    // Kafka does not insist that brackets come in pairs.
    let host = host.strip_prefix('[').unwrap_or(host);
    let host = host.strip_suffix(']').unwrap_or(host);
    let is_host = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'%' | b'.' | b'_' | b':');
    let digits = port.strip_prefix('-').unwrap_or(port);
    if !host.bytes().all(is_host) || digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(malformed());
    }
    let name = ListenerName::new(name);
    let port = port.parse().map_err(|_| ListenerError::Port { name: name.clone(), port: port.to_owned() })?;
    let protocol = *protocols.get(&name).ok_or_else(|| ListenerError::NoProtocol(name.clone()))?;
    Ok(Endpoint { name, protocol, host: host.to_owned(), port })
}

/// Two listeners may share a port only as an IPv4 and an IPv6 address.
fn require_distinct_ports(endpoints: &[Endpoint], text: &str) -> Result<(), ListenerError> {
    let mut by_port: BTreeMap<u16, Vec<&Endpoint>> = BTreeMap::new();
    for endpoint in endpoints.iter().filter(|endpoint| endpoint.port != 0) {
        by_port.entry(endpoint.port).or_default().push(endpoint);
    }
    let is_v4 = |endpoint: &Endpoint| endpoint.host.parse::<Ipv4Addr>().is_ok();
    let is_v6 = |endpoint: &Endpoint| endpoint.host.parse::<Ipv6Addr>().is_ok();
    let fine = by_port.values().all(|sharing| match sharing[..] {
        [_] => true,
        [a, b] => is_v4(a) && is_v6(b) || is_v6(a) && is_v4(b),
        _ => false,
    });
    if fine { Ok(()) } else { Err(ListenerError::DuplicatePort(text.to_owned())) }
}
