//! What is to be found at an address where ZooKeeper was expected.

use std::fmt;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// How long each address is given.
const PATIENCE: Duration = Duration::from_secs(1);

/// What one address turned out to be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub address: String,
    pub kind: FindingKind,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FindingKind {
    /// The name does not resolve, or nothing listens.
    NoConnection(String),
    /// Something listens, and never answers.
    Silent,
    /// Something listens that closes the connection.
    Closes,
    /// Something answers that is no ZooKeeper; its first bytes.
    NotZooKeeper(String),
    /// A ZooKeeper that does answer: it came too late, or refuses sessions.
    ZooKeeper,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.address;
        match &self.kind {
            FindingKind::NoConnection(error) => write!(f, "{address}: {error}"),
            FindingKind::Silent => write!(f, "{address} accepts connections and does not answer"),
            FindingKind::Closes => {
                write!(f, "{address} closes the connection, as a Kafka broker or a server with TLS does")
            }
            FindingKind::NotZooKeeper(words) => {
                write!(f, "{address} is not ZooKeeper, it answers \"{}\"", words.escape_debug())
            }
            FindingKind::ZooKeeper => write!(f, "{address} is ZooKeeper, but opens no session in time"),
        }
    }
}

/// Looks at each address of a connect string, all at once. Takes some seconds at most.
pub async fn diagnose(hosts: &str) -> Vec<Finding> {
    let addresses =
        hosts.split('/').next().unwrap_or("").split(',').map(str::trim).filter(|host| !host.is_empty());
    let looks = addresses.map(|address| async move {
        let kind = match timeout(PATIENCE * 3, look(address)).await {
            Ok(kind) => kind,
            Err(_) => FindingKind::NoConnection("no answer from this address".to_owned()),
        };
        Finding { address: address.to_owned(), kind }
    });
    futures_util::future::join_all(looks).await
}

async fn look(address: &str) -> FindingKind {
    let with_port = match address.rsplit_once(':') {
        Some((_, port)) if port.parse::<u16>().is_ok() => address.to_owned(),
        _ => format!("{address}:2181"),
    };
    let mut stream = match TcpStream::connect(with_port).await {
        Ok(stream) => stream,
        Err(error) => return FindingKind::NoConnection(error.to_string()),
    };
    if let Err(error) = stream.write_all(&session_request()).await {
        return FindingKind::NoConnection(error.to_string());
    }
    let mut answer = [0u8; 64];
    match timeout(PATIENCE, stream.read(&mut answer)).await {
        Err(_) => FindingKind::Silent,
        Ok(Ok(0)) => FindingKind::Closes,
        Ok(Err(error)) => FindingKind::NoConnection(error.to_string()),
        // A session's answer is 36 or 37 bytes, and says so first.
        Ok(Ok(length)) if length >= 4 && matches!(answer[..4], [0, 0, 0, 36 | 37]) => FindingKind::ZooKeeper,
        Ok(Ok(length)) => {
            let text = String::from_utf8_lossy(&answer[..length]);
            FindingKind::NotZooKeeper(text.lines().next().unwrap_or("").to_owned())
        }
    }
}

/// Asks to resume a session that does not exist, so that nothing is left behind.
///
/// ```text
/// i32 length | i32 protocol 0 | i64 last zxid 0 | i32 timeout ms | i64 session | i32 16, password | bool read-only
/// ```
fn session_request() -> Vec<u8> {
    let mut request = Vec::with_capacity(49);
    request.extend(45i32.to_be_bytes());
    request.extend(0i32.to_be_bytes());
    request.extend(0i64.to_be_bytes());
    request.extend(1000i32.to_be_bytes());
    request.extend(1i64.to_be_bytes());
    request.extend(16i32.to_be_bytes());
    request.extend([0; 16]);
    request.push(0);
    request
}
