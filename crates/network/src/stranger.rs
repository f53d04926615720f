//! Who else knocks on a Kafka port. Their first bytes read as an absurd frame size, and a log line that
//! says "invalid size 1195725856" helps nobody; "this is HTTP" does.

use std::fmt;

/// Someone who does not speak the Kafka protocol here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stranger {
    Http,
    Http2,
    Tls,
    Ssh,
    ZooKeeper,
    ZooKeeperCommand,
    Redis,
    Postgres,
    Mqtt,
    Amqp,
    ProxyProtocol,
    JavaRmi,
}

impl Stranger {
    /// `first`: what arrived first on the connection, from the size field on; 12 bytes are enough.
    pub fn recognise(first: &[u8]) -> Option<Stranger> {
        const WORDS: &[(&[u8], Stranger)] = &[
            (b"GET ", Stranger::Http),
            (b"HEAD", Stranger::Http),
            (b"POST", Stranger::Http),
            (b"PUT ", Stranger::Http),
            (b"DELE", Stranger::Http),
            (b"OPTI", Stranger::Http),
            (b"PATC", Stranger::Http),
            (b"CONN", Stranger::Http),
            (b"TRAC", Stranger::Http),
            (b"PRI ", Stranger::Http2),
            (b"SSH-", Stranger::Ssh),
            (b"PROX", Stranger::ProxyProtocol),
            (b"\r\n\r\n", Stranger::ProxyProtocol),
            (b"AMQP", Stranger::Amqp),
            (b"JRMI", Stranger::JavaRmi),
            (b"PING", Stranger::Redis),
            (b"ruok", Stranger::ZooKeeperCommand),
            (b"stat", Stranger::ZooKeeperCommand),
            (b"srvr", Stranger::ZooKeeperCommand),
            (b"mntr", Stranger::ZooKeeperCommand),
            (b"conf", Stranger::ZooKeeperCommand),
            (b"cons", Stranger::ZooKeeperCommand),
            (b"envi", Stranger::ZooKeeperCommand),
            (b"isro", Stranger::ZooKeeperCommand),
            (b"dump", Stranger::ZooKeeperCommand),
            (b"wchs", Stranger::ZooKeeperCommand),
            // SSLRequest, GSSENCRequest: a size of 8 and one of two magic numbers.
            (&[0, 0, 0, 8, 4, 210, 22, 47], Stranger::Postgres),
            (&[0, 0, 0, 8, 4, 210, 22, 48], Stranger::Postgres),
        ];
        if let Some((_, stranger)) = WORDS.iter().find(|(word, _)| first.starts_with(word)) {
            return Some(*stranger);
        }
        match first {
            // Handshake or alert, version 3.0 to 3.4; an SSLv2-style hello sets the top bit of its length.
            [0x16 | 0x15, 3, 0..=4, ..] | [0x80, _, 1, 3, ..] => Some(Stranger::Tls),
            // ConnectRequest: 44 bytes, 45 with the read-only flag; protocol version 0, then a zxid whose
            // high half is the ensemble's epoch: as a Kafka header, Produce v0 without a correlation id.
            [0, 0, 0, 44 | 45, 0, 0, 0, 0, ..] => Some(Stranger::ZooKeeper),
            [b'*', b'1'..=b'9', b'\r', b'\n', ..] => Some(Stranger::Redis),
            // StartupMessage: a size, then protocol version 3.0 or 3.2 in two halves.
            [0, 0, 0 | 1, _, 0, 3, 0, 0 | 2, name, ..] if name.is_ascii_lowercase() => {
                Some(Stranger::Postgres)
            }
            [0x10, _, 0, 4, b'M', b'Q', b'T', b'T', ..] => Some(Stranger::Mqtt),
            _ => None,
        }
    }

    /// As [`Stranger::recognise`], for the beginning of a frame whose rest will never come: this stranger's
    /// whole first message counts its size field in, and then it waits for us. No Kafka request begins so.
    pub(crate) fn recognise_torn(first: &[u8]) -> Option<Stranger> {
        // API key 1234 for SSLRequest and GSSENCRequest.
        matches!(first, [0, 0, 0, 8, 4, 210, 22, 47 | 48]).then_some(Stranger::Postgres)
    }

    /// What whoever reads the log should do.
    pub fn cure(self) -> &'static str {
        match self {
            Stranger::Http | Stranger::Http2 => {
                "point the browser, health check or metrics scraper elsewhere: this port speaks only the Kafka protocol"
            }
            Stranger::Tls => {
                "this listener is not encrypted: set security.protocol=PLAINTEXT (or SASL_PLAINTEXT) in the client, or use the port of an SSL listener"
            }
            Stranger::Ssh => "use the SSH port",
            Stranger::ZooKeeper | Stranger::ZooKeeperCommand => {
                "this is a broker: use the address in zookeeper.connect, port 2181 as a rule"
            }
            Stranger::ProxyProtocol => "turn the PROXY protocol off at the load balancer",
            Stranger::JavaRmi => "this is not the JMX port",
            Stranger::Redis | Stranger::Postgres | Stranger::Mqtt | Stranger::Amqp => {
                "check the host and port in that client's configuration"
            }
        }
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stranger::Http => "an HTTP request",
            Stranger::Http2 => "HTTP/2 or gRPC",
            Stranger::Tls => "a TLS handshake",
            Stranger::Ssh => "SSH",
            Stranger::ZooKeeper => "a ZooKeeper client",
            Stranger::ZooKeeperCommand => "a ZooKeeper four-letter command",
            Stranger::Redis => "a Redis client",
            Stranger::Postgres => "a PostgreSQL client",
            Stranger::Mqtt => "an MQTT client",
            Stranger::Amqp => "an AMQP client",
            Stranger::ProxyProtocol => "a PROXY protocol header",
            Stranger::JavaRmi => "a JMX (Java RMI) client",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_named_by_their_first_bytes() {
        for (why, first, stranger) in [
            ("curl", &b"GET / HTTP/1.1\r\n"[..], Some(Stranger::Http)),
            ("a gRPC client", b"PRI * HTTP/2.0\r\n", Some(Stranger::Http2)),
            ("openssl s_client", &[0x16, 3, 1, 1, 0x2c, 1, 0, 1], Some(Stranger::Tls)),
            ("a TLS alert", &[0x15, 3, 3, 0, 2, 2, 40], Some(Stranger::Tls)),
            ("an SSLv2-style hello", &[0x80, 0x2e, 1, 3, 1, 0], Some(Stranger::Tls)),
            ("ssh", b"SSH-2.0-OpenSSH_9.2\r\n", Some(Stranger::Ssh)),
            ("echo ruok | nc", b"ruok", Some(Stranger::ZooKeeperCommand)),
            ("echo stat | nc", b"stat\n", Some(Stranger::ZooKeeperCommand)),
            ("echo srvr | nc", b"srvr\n", Some(Stranger::ZooKeeperCommand)),
            ("echo mntr | nc", b"mntr\n", Some(Stranger::ZooKeeperCommand)),
            ("zkCli", &[0, 0, 0, 45, 0, 0, 0, 0, 0, 0, 0, 0], Some(Stranger::ZooKeeper)),
            ("redis-cli", b"*1\r\n$7\r\nCOMMAND", Some(Stranger::Redis)),
            ("psql, asking for TLS", &[0, 0, 0, 8, 4, 210, 22, 47], Some(Stranger::Postgres)),
            ("psql without TLS", b"\0\0\0\x54\0\x03\0\0user\0me", Some(Stranger::Postgres)),
            ("mosquitto_pub", b"\x10\x25\0\x04MQTT", Some(Stranger::Mqtt)),
            ("an AMQP library", b"AMQP\0\0\x09\x01", Some(Stranger::Amqp)),
            ("HAProxy v1", b"PROXY TCP4 10.0.0.1", Some(Stranger::ProxyProtocol)),
            ("HAProxy v2", b"\r\n\r\n\0\r\nQUIT\n", Some(Stranger::ProxyProtocol)),
            ("jconsole", b"JRMI\0\x02K", Some(Stranger::JavaRmi)),
            ("a Kafka client's ApiVersions v3", &[0, 0, 0, 37, 0, 18, 0, 3, 0, 0, 0, 1, 0, 7], None),
            ("a Kafka client's Metadata v0", &[0, 0, 0, 20, 0, 3, 0, 0, 0, 0, 0, 1, 0, 2], None),
            ("nothing at all", &[], None),
            ("noise", &[0xff, 0xfe, 0xfd, 0xfc], None),
        ] {
            assert_eq!(Stranger::recognise(first), stranger, "{why}");
        }
    }
}
