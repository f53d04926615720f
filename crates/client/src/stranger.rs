//! Who answers where a broker was expected. A wrong port otherwise shows as a time-out or a broken frame, which helps nobody.

use std::fmt;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::Address;
use crate::connection::open_socket;

/// A server that does not speak the Kafka protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stranger {
    ZooKeeper,
    Tls,
    Http,
    Http2,
    Ssh,
    Redis,
    /// Takes the connection and hangs up at every request.
    Mute,
    Unknown,
}

impl Stranger {
    /// Reads the first bytes that a server sent, 5 of them as a rule. `None`: they may be the start of a Kafka response.
    pub fn recognise(first: &[u8]) -> Option<Stranger> {
        const WORDS: &[(&[u8], Stranger)] = &[
            (b"HTTP", Stranger::Http),
            (b"<htm", Stranger::Http),
            (b"<HTM", Stranger::Http),
            (b"<!DO", Stranger::Http),
            (b"SSH-", Stranger::Ssh),
            (b"Zook", Stranger::ZooKeeper),
            (b"-ERR", Stranger::Redis),
            (b"-DEN", Stranger::Redis),
            (b"-NOA", Stranger::Redis),
            (b"+PON", Stranger::Redis),
        ];
        if let Some((_, stranger)) = WORDS.iter().find(|(word, _)| first.starts_with(word)) {
            return Some(*stranger);
        }
        match first {
            // A TLS alert or handshake record, versions 3.0 to 3.4.
            [0x15 | 0x16, 3, 0..=4, ..] => Some(Stranger::Tls),
            // A SETTINGS frame, which an HTTP/2 server sends first: a 24-bit length below 256, type 4, no flags.
            [0, 0, _, 4, 0, ..] => Some(Stranger::Http2),
            _ => None,
        }
    }

    /// What whoever gave the address should do.
    pub fn cure(self) -> &'static str {
        match self {
            Stranger::ZooKeeper => {
                "give the address of a broker instead (port 9092 as a rule), or pass this one with --zookeeper"
            }
            Stranger::Tls => {
                "this listener is encrypted, which needs security.protocol=SSL; use the port of a PLAINTEXT listener"
            }
            Stranger::Http | Stranger::Http2 => {
                "give the port of a broker's listener (9092 as a rule), not that of a web service, REST proxy or console"
            }
            Stranger::Ssh | Stranger::Redis => "give the address of a broker, port 9092 as a rule",
            Stranger::Mute => {
                "if a broker is there, the listener may expect TLS or SASL, or not let this client in; its log tells"
            }
            Stranger::Unknown => "give the address of a broker, port 9092 as a rule",
        }
    }
}

impl fmt::Display for Stranger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Stranger::ZooKeeper => "ZooKeeper answers there, not a broker",
            Stranger::Tls => "the port speaks TLS",
            Stranger::Http => "an HTTP server answers there, not a broker",
            Stranger::Http2 => "an HTTP/2 or gRPC server answers there, not a broker",
            Stranger::Ssh => "an SSH server answers there, not a broker",
            Stranger::Redis => "Redis answers there, not a broker",
            Stranger::Mute => "whatever listens there hangs up on Kafka requests",
            Stranger::Unknown => "what answers there does not speak the Kafka protocol",
        })
    }
}

/// How long one question of [`ask`] may take.
const ANSWER_TIMEOUT: Duration = Duration::from_millis(1500);

/// Asks a server that did not answer Kafka requests who it is, as a ZooKeeper operator, a TLS client and a browser would.
///
/// Only for addresses where something is wrong already: a broker answers none of them, and notes in its log that someone tried.
pub(crate) async fn ask(address: &Address) -> Stranger {
    // `srvr` is the one command that ZooKeeper answers unless told otherwise; if told so, it says that.
    let (operator, client, browser) = tokio::join!(
        answer(address, b"srvr"),
        answer(address, &CLIENT_HELLO),
        answer(address, b"GET / HTTP/1.0\r\n\r\n"),
    );
    if operator.as_deref().is_some_and(|first| first.starts_with(b"srvr")) {
        return Stranger::ZooKeeper;
    }
    let recognised = [operator, client, browser].into_iter().flatten();
    recognised.filter_map(|first| Stranger::recognise(&first)).next().unwrap_or(Stranger::Mute)
}

/// The first bytes that `question` brings; `None` if none come.
async fn answer(address: &Address, question: &[u8]) -> Option<Vec<u8>> {
    let conversation = async {
        let mut socket: TcpStream = open_socket(address).await.ok()?;
        socket.write_all(question).await.ok()?;
        let mut first = vec![0; 64];
        let length = socket.read(&mut first).await.ok()?;
        first.truncate(length);
        (length > 0).then_some(first)
    };
    timeout(ANSWER_TIMEOUT, conversation).await.ok().flatten()
}

/// The smallest TLS 1.2 hello: version 3.3, no session, one cipher suite (TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256), no
/// compression. A TLS server answers with a handshake or an alert, either of which gives it away.
const CLIENT_HELLO: [u8; 50] = {
    let mut hello = [0; 50];
    let head = [0x16, 3, 1, 0, 45, 1, 0, 0, 41, 3, 3];
    let mut at = 0;
    while at < head.len() {
        hello[at] = head[at];
        at += 1;
    }
    // 32 random bytes may as well be zeros, and the session id is empty.
    let tail = [0, 2, 0xc0, 0x2f, 1, 0];
    let mut from = 0;
    while from < tail.len() {
        hello[44 + from] = tail[from];
        from += 1;
    }
    hello
};

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_named_by_their_first_bytes() {
        for (why, first, stranger) in [
            ("a web server", &b"HTTP/1.1 400 Bad Request\r\n"[..], Some(Stranger::Http)),
            ("an old web server", b"<html>", Some(Stranger::Http)),
            ("sshd greets first", b"SSH-2.0-OpenSSH_9.2", Some(Stranger::Ssh)),
            ("ZooKeeper asked srvr", b"Zookeeper version: 3.8.4", Some(Stranger::ZooKeeper)),
            ("redis", b"-ERR unknown command", Some(Stranger::Redis)),
            ("a TLS alert", &[0x15, 3, 3, 0, 2, 2, 10], Some(Stranger::Tls)),
            ("a TLS server hello", &[0x16, 3, 3, 0, 0x7a], Some(Stranger::Tls)),
            ("a gRPC server", &[0, 0, 18, 4, 0, 0, 0, 0, 0], Some(Stranger::Http2)),
            ("an ApiVersions response", &[0, 0, 1, 0xa6, 0, 0, 0, 0], None),
            ("a short response", &[0, 0, 0, 16, 0, 0, 0, 1], None),
            ("nothing", &[], None),
        ] {
            assert_eq!(Stranger::recognise(first), stranger, "{why}");
        }
    }

    #[test]
    fn the_hello_is_as_long_as_it_claims() {
        let record = u16::from_be_bytes([CLIENT_HELLO[3], CLIENT_HELLO[4]]);
        assert_eq!(usize::from(record) + 5, CLIENT_HELLO.len());
        assert_eq!(usize::from(CLIENT_HELLO[8]) + 9, CLIENT_HELLO.len(), "handshake body");
    }
}
