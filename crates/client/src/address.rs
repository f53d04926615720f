//! Where a broker is said to be: a host and a port, as configuration and metadata write them.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// `host:port`; the host is a name, an IPv4 address or an IPv6 address. Cheap to clone.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Address {
    host: Arc<str>,
    port: u16,
}

/// Why a text names no broker.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidAddress {
    #[error("the list of brokers is empty; write for example localhost:9092")]
    Empty,
    #[error("{text:?} has no port; write for example {text}:9092")]
    NoPort { text: String },
    #[error("{text:?} has no host in front of the port")]
    NoHost { text: String },
    #[error("{text:?}: the port is a number from 1 to 65535")]
    Port { text: String },
    #[error("{text:?}: write an IPv6 address in brackets, as in [::1]:9092")]
    BareIpv6 { text: String },
}

impl Address {
    pub fn new(host: &str, port: u16) -> Address {
        Address { host: Arc::from(host), port }
    }

    /// Without the brackets of an IPv6 address.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Reads `host:port,host:port`, the form of `bootstrap.servers` and `--broker-list`; blanks and empty entries are skipped.
    pub fn parse_list(text: &str) -> Result<Vec<Address>, InvalidAddress> {
        let entries = text.split(',').map(str::trim).filter(|entry| !entry.is_empty());
        let addresses = entries.map(str::parse).collect::<Result<Vec<Address>, _>>()?;
        if addresses.is_empty() { Err(InvalidAddress::Empty) } else { Ok(addresses) }
    }
}

impl FromStr for Address {
    type Err = InvalidAddress;

    /// A protocol in front, as in `PLAINTEXT://host:port`, is what a listener's setting has, and is dropped.
    fn from_str(text: &str) -> Result<Address, InvalidAddress> {
        let text = text.trim();
        let shown = || text.chars().take(256).collect::<String>();
        let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
        if rest.is_empty() {
            return Err(InvalidAddress::Empty);
        }
        let (host, port) = match rest.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            Some((host, port)) => {
                (host, port.strip_prefix(':').ok_or_else(|| InvalidAddress::NoPort { text: shown() })?)
            }
            None => rest.rsplit_once(':').ok_or_else(|| InvalidAddress::NoPort { text: shown() })?,
        };
        if host.is_empty() {
            return Err(InvalidAddress::NoHost { text: shown() });
        }
        if host.contains(':') && !rest.starts_with('[') {
            return Err(InvalidAddress::BareIpv6 { text: shown() });
        }
        match port.parse() {
            Ok(port) if port > 0 => Ok(Address::new(host, port)),
            _ => Err(InvalidAddress::Port { text: shown() }),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl fmt::Debug for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_of_brokers_is_read_as_configuration_writes_it() {
        for (why, text, addresses) in [
            ("one", "localhost:9092", &["localhost:9092"][..]),
            ("several, with blanks and a trailing comma", " a:1 , b:2,", &["a:1", "b:2"]),
            ("an IPv6 address", "[::1]:9092", &["[::1]:9092"]),
            ("the form of a listener", "PLAINTEXT://kafka:9092", &["kafka:9092"]),
        ] {
            let parsed = Address::parse_list(text).unwrap();
            assert_eq!(parsed.iter().map(Address::to_string).collect::<Vec<_>>(), addresses, "{why}");
        }
    }

    #[test]
    fn what_names_no_broker_is_refused_with_its_reason() {
        let text = |text: &str| text.to_owned();
        for (why, given, error) in [
            ("nothing", "", InvalidAddress::Empty),
            ("only commas", ",,", InvalidAddress::Empty),
            ("no port", "localhost", InvalidAddress::NoPort { text: text("localhost") }),
            ("no host", ":9092", InvalidAddress::NoHost { text: text(":9092") }),
            ("port 0", "a:0", InvalidAddress::Port { text: text("a:0") }),
            ("a port too large", "a:65536", InvalidAddress::Port { text: text("a:65536") }),
            ("a word for a port", "a:kafka", InvalidAddress::Port { text: text("a:kafka") }),
            ("brackets without port", "[::1]", InvalidAddress::NoPort { text: text("[::1]") }),
            ("IPv6 without brackets", "::1:9092", InvalidAddress::BareIpv6 { text: text("::1:9092") }),
        ] {
            assert_eq!(Address::parse_list(given), Err(error), "{why}");
        }
    }
}
