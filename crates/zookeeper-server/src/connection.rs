//! One client: frames in, answers out, in order.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use rustix::rand::{GetRandomFlags, getrandom};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::net::tcp::{ReadHalf, WriteHalf};
use tokio::time::{Instant, timeout, timeout_at};

use crate::four_letter_word::Asked;
use crate::jute::{BadFrameLength, Frames, JuteError};
use crate::monitor;
use crate::outbox::Broken;
use crate::protocol::{ConnectRequest, Password, SessionId, Zxid};
use crate::server::Settings;
use crate::service::{Attached, Connection, Service};

/// How long a connection may take to say what it wants.
const GREETING_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection that is to be closed may take to receive what is still queued for it.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);
/// Bytes read at a time; a longer frame gets its room as its bytes come in.
const READ_BYTES: usize = 32 * 1024;
/// More than any connect request has: 28 bytes, a password, a flag.
const CONNECT_BYTES_MAX: usize = 1024;

/// Why a connection ended that was no normal end.
#[derive(Debug, thiserror::Error)]
pub enum ConnectionError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("{0}")]
    Stranger(Stranger),
    #[error(transparent)]
    BadFrame(#[from] BadFrameLength),
    #[error(
        "the client has seen transaction {seen}, and the last one here is {ours}: it belongs to another ZooKeeper; \
         restart it to use this one"
    )]
    ClientAhead { seen: Zxid, ours: Zxid },
    #[error(transparent)]
    Broken(#[from] Broken),
}

/// Somebody who came to the wrong port, as far as the first bytes tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Stranger {
    #[error("this looks like an HTTP request; there is no admin server here")]
    Http,
    #[error("this looks like a TLS handshake; this port speaks plain ZooKeeper only")]
    Tls,
    #[error(
        "this looks like a Kafka client (api key {api_key}, version {version}): bootstrap servers and broker lists \
         name the port of a broker, this is ZooKeeper's"
    )]
    Kafka { api_key: i16, version: i16 },
    #[error("this is no ZooKeeper client ({0})")]
    Unknown(JuteError),
    #[error("this is no ZooKeeper client (it begins with a frame of {0} bytes)")]
    FrameLength(i32),
}

impl Stranger {
    /// Judges by the first four bytes, which should be the length of a connect request.
    fn from_start(start: [u8; 4]) -> Option<Stranger> {
        match &start {
            b"GET " | b"POST" | b"HEAD" | b"PUT " | b"OPTI" | b"DELE" | b"PATC" | b"CONN" | b"PRI " => {
                Some(Stranger::Http)
            }
            [0x16, 0x03, ..] => Some(Stranger::Tls),
            _ => match i32::from_be_bytes(start) {
                length if usize::try_from(length).is_ok_and(|length| length <= CONNECT_BYTES_MAX) => None,
                length => Some(Stranger::FrameLength(length)),
            },
        }
    }

    /// Judges by the frame that should be a connect request, which has begun with protocol version 0 ever since.
    fn from_connect_request(frame: &[u8]) -> Result<ConnectRequest, Stranger> {
        const API_KEY_MAX: i16 = 100;
        const VERSION_MAX: i16 = 20;
        if let Some((&[a, b, c, d], _)) = frame.split_first_chunk::<4>() {
            let (api_key, version) = (i16::from_be_bytes([a, b]), i16::from_be_bytes([c, d]));
            let plausible = (0..=API_KEY_MAX).contains(&api_key) && (0..=VERSION_MAX).contains(&version);
            if plausible && (api_key, version) != (0, 0) {
                return Err(Stranger::Kafka { api_key, version });
            }
        }
        match ConnectRequest::read(frame) {
            Ok(request) => Ok(request),
            // Produce, version 0: the oldest request of the oldest producer.
            Err(_) if frame.starts_with(&[0; 4]) => Err(Stranger::Kafka { api_key: 0, version: 0 }),
            Err(error) => Err(Stranger::Unknown(error)),
        }
    }
}

/// Serves `stream` to its end, and says in the log why it ended if that is of interest.
pub async fn serve(
    stream: TcpStream,
    connection: Arc<Connection>,
    service: Arc<Service>,
    settings: Arc<Settings>,
) {
    let peer = connection.peer;
    match (Task { connection, service, settings, session: None }).run(stream).await {
        Ok(()) => {}
        Err(ConnectionError::Io(error)) => tracing::debug!(%peer, %error, "connection lost"),
        Err(ConnectionError::Broken(Broken::Moved | Broken::Stopping)) => {}
        Err(error) => tracing::warn!(%peer, %error, "connection closed"),
    }
}

struct Task {
    connection: Arc<Connection>,
    service: Arc<Service>,
    settings: Arc<Settings>,
    session: Option<SessionId>,
}

impl Drop for Task {
    fn drop(&mut self) {
        if let Some(session) = self.session {
            self.service.detach(&self.connection, session);
        }
    }
}

impl Task {
    async fn run(mut self, mut stream: TcpStream) -> Result<(), ConnectionError> {
        stream.set_nodelay(true)?;
        let mut buffer = BytesMut::with_capacity(READ_BYTES);
        let request = match timeout(GREETING_TIMEOUT, self.greeting(&mut stream, &mut buffer)).await {
            Ok(Ok(Some(request))) => request,
            Ok(Ok(None)) => return Ok(()),
            Ok(Err(error)) => return Err(error),
            Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
        };
        let mut password = Password::default();
        getrandom(&mut password, GetRandomFlags::empty()).map_err(io::Error::from)?;
        match self.service.attach(&self.connection, &request, password) {
            Attached::Session { id, reattached } => {
                tracing::debug!(session = %id, peer = %self.connection.peer, reattached, "session attached");
                self.session = Some(id);
            }
            Attached::Expired => {
                tracing::info!(session = %request.session, peer = %self.connection.peer, "the session is unknown: expired");
            }
            Attached::ClientAhead { seen, ours } => return Err(ConnectionError::ClientAhead { seen, ours }),
        }
        self.converse(stream, buffer).await
    }

    /// Reads until there is a connect request. Answers a four-letter word, after which there is nothing more to do.
    async fn greeting(
        &self,
        stream: &mut TcpStream,
        buffer: &mut BytesMut,
    ) -> Result<Option<ConnectRequest>, ConnectionError> {
        loop {
            if let Some(start) = buffer.first_chunk::<4>().copied() {
                if let Some(asked) = Asked::from_bytes(start) {
                    let answer = monitor::answer(asked, &self.service, &self.settings);
                    stream.write_all(answer.as_bytes()).await?;
                    stream.shutdown().await?;
                    return Ok(None);
                }
                if let Some(stranger) = Stranger::from_start(start) {
                    return Err(ConnectionError::Stranger(stranger));
                }
                let length = i32::from_be_bytes(start) as usize;
                if let Some(frame) = buffer.get(4..4 + length) {
                    let request = Stranger::from_connect_request(frame).map_err(ConnectionError::Stranger)?;
                    buffer.advance(4 + length);
                    return Ok(Some(request));
                }
            }
            if stream.read_buf(buffer).await? == 0 {
                return Ok(None);
            }
        }
    }

    async fn converse(&mut self, mut stream: TcpStream, mut buffer: BytesMut) -> Result<(), ConnectionError> {
        let (mut reader, mut writer) = stream.split();
        let mut out = Vec::new();
        loop {
            // What came with the last read is served first, so that its answers leave in one write.
            let is_blocked =
                self.connection.outbox.is_backlogged() || self.service.is_backlogged(&self.connection);
            if let Some(session) = self.session.filter(|_| !is_blocked) {
                self.handle_frames(session, &mut buffer)?;
            }
            let released = self.connection.outbox.release(self.service.durable(), &mut out)?;
            if !out.is_empty() {
                self.count(released.frames, released.since_ms);
                self.send(&mut writer, &mut out).await?;
                continue;
            }
            if released.close.is_some() {
                writer.shutdown().await?;
                return Ok(());
            }
            let may_read = !is_blocked && self.session.is_some();
            tokio::select! {
                () = self.connection.outbox.woken() => {}
                read = fill(&mut reader, &mut buffer), if may_read => {
                    if read? == 0 {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Serves what can be served of the frames that are whole.
    fn handle_frames(&self, session: SessionId, buffer: &mut BytesMut) -> Result<(), BadFrameLength> {
        let mut frames = Frames::of(buffer, self.settings.config.frame_bytes_max)?;
        let whole = frames.left();
        if whole > 0 {
            self.service.handle(&self.connection, session, &mut frames);
            let served = whole - frames.left();
            buffer.advance(served);
        }
        Ok(())
    }

    /// Sends all of `out`. While the client does not take it, its end may be ordered.
    async fn send(&self, writer: &mut WriteHalf<'_>, out: &mut Vec<u8>) -> Result<(), ConnectionError> {
        let outbox = &self.connection.outbox;
        let mut sent = 0;
        let mut deadline = None;
        while sent < out.len() {
            let wrote = match deadline {
                Some(deadline) => match timeout_at(deadline, writer.write(&out[sent..])).await {
                    Ok(wrote) => wrote?,
                    Err(_) => return Err(io::Error::from(io::ErrorKind::TimedOut).into()),
                },
                None => tokio::select! {
                    biased;
                    wrote = writer.write(&out[sent..]) => wrote?,
                    () = outbox.woken() => {
                        if outbox.is_closing() {
                            deadline = Some(Instant::now() + FAREWELL_TIMEOUT);
                        }
                        continue;
                    }
                },
            };
            if wrote == 0 {
                return Err(io::Error::from(io::ErrorKind::WriteZero).into());
            }
            sent += wrote;
        }
        out.clear();
        out.shrink_to(READ_BYTES * 4);
        Ok(())
    }

    fn count(&self, frames: u32, since_ms: u64) {
        let counters = &self.service.counters;
        let latency_ms = self.service.elapsed_ms().saturating_sub(since_ms);
        self.connection.sent.fetch_add(frames.into(), Ordering::Relaxed);
        counters.sent.fetch_add(frames.into(), Ordering::Relaxed);
        counters.latency_sum_ms.fetch_add(latency_ms * u64::from(frames), Ordering::Relaxed);
        counters.latency_max_ms.fetch_max(latency_ms, Ordering::Relaxed);
    }
}

/// Reads what is there, making room only for bytes that come, and giving up what a long frame took.
async fn fill(reader: &mut ReadHalf<'_>, buffer: &mut BytesMut) -> io::Result<usize> {
    if buffer.is_empty() && buffer.capacity() > 8 * READ_BYTES {
        *buffer = BytesMut::new();
    }
    buffer.reserve(READ_BYTES);
    reader.read_buf(buffer).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_are_told_by_their_first_bytes() {
        for (why, start, stranger) in [
            ("a connect request", [0, 0, 0, 45], None),
            ("a browser", *b"GET ", Some(Stranger::Http)),
            ("a TLS client hello", [0x16, 0x03, 0x01, 0x02], Some(Stranger::Tls)),
            ("a negative length", [0xff, 0xff, 0xff, 0xff], Some(Stranger::FrameLength(-1))),
            ("a length no connect request has", [0, 1, 0, 0], Some(Stranger::FrameLength(65536))),
        ] {
            assert_eq!(Stranger::from_start(start), stranger, "{why}");
        }
        let api_versions = [0, 18, 0, 3, 0, 0, 0, 1, 0, 4, b't', b'e', b's', b't', 0];
        assert_eq!(
            Stranger::from_connect_request(&api_versions),
            Err(Stranger::Kafka { api_key: 18, version: 3 }),
            "a Kafka client asking for versions"
        );
        let produce_v0 = [0, 0, 0, 0, 0, 0, 0, 1, 0, 4, b't', b'e', b's', b't', 0, 1];
        assert_eq!(
            Stranger::from_connect_request(&produce_v0),
            Err(Stranger::Kafka { api_key: 0, version: 0 }),
            "the oldest Kafka producer"
        );
    }
}
