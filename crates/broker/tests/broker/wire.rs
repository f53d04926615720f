//! A client that says exactly what a test wants on the wire, in the version it wants.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ottla_protocol::{Message, Request, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};

/// No answer takes this long; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub struct Wire {
    reader: OwnedReadHalf,
    writer: OwnedWriteHalf,
    next_correlation: i32,
    /// Of requests whose answers are due, the oldest first.
    due: VecDeque<i32>,
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).await.expect("the broker listens");
        stream.set_nodelay(true).unwrap();
        let (reader, writer) = stream.into_split();
        Wire { reader, writer, next_correlation: 1, due: VecDeque::new() }
    }

    /// Sends a request and takes its answer, which must be all there is in its frame.
    pub async fn ask<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.send(version, request).await;
        self.receive::<R>(version).await
    }

    pub async fn send<R: Request>(&mut self, version: i16, request: &R) {
        let bytes = self.encode(version, request);
        self.write(&bytes).await;
    }

    /// A request as bytes, whose answer is then due once they are written.
    pub fn encode<R: Request>(&mut self, version: i16, request: &R) -> Bytes {
        let correlation = self.next_correlation;
        self.next_correlation += 1;
        let mut bytes = BytesMut::new();
        frame::encode_request(&mut bytes, version, correlation, Some("test"), request)
            .unwrap_or_else(|error| panic!("{} v{version}: {error}", R::NAME));
        self.due.push_back(correlation);
        bytes.freeze()
    }

    /// As [`Wire::encode`], for a request that gets no answer.
    pub fn encode_unanswered<R: Request>(&mut self, version: i16, request: &R) -> Bytes {
        let bytes = self.encode(version, request);
        self.due.pop_back();
        bytes
    }

    pub async fn write(&mut self, bytes: &[u8]) {
        self.writer.write_all(bytes).await.unwrap();
    }

    /// The next answer, which must be that to the oldest request: answers keep the order of requests.
    pub async fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        receive::<R>(&mut self.reader, &mut self.due, version).await
    }

    /// Reads `count` answers while it still writes: neither side could hold so much.
    pub async fn flood<R: Request>(&mut self, version: i16, bytes: &[u8], count: usize) {
        let Wire { reader, writer, due, .. } = self;
        let reading = async {
            for _ in 0..count {
                receive::<R>(reader, due, version).await;
            }
        };
        let (written, ()) = tokio::join!(writer.write_all(bytes), reading);
        written.unwrap();
    }

    /// The next frame, without its size; `None` once the broker has closed the connection.
    pub async fn frame(&mut self) -> Option<Bytes> {
        frame_from(&mut self.reader).await
    }
}

async fn receive<R: Request>(
    reader: &mut OwnedReadHalf,
    due: &mut VecDeque<i32>,
    version: i16,
) -> R::Response {
    let frame =
        frame_from(reader).await.unwrap_or_else(|| panic!("{} v{version}: connection closed", R::NAME));
    let (header, mut body) = frame::decode_response_header(frame, R::KEY, version).unwrap();
    assert_eq!(Some(header.correlation_id), due.pop_front(), "answers come in order");
    let response = R::Response::decode(&mut body, version);
    let response = response.unwrap_or_else(|error| panic!("{} v{version}: {error}", R::Response::NAME));
    body.finish().unwrap_or_else(|error| panic!("{} v{version}: {error}", R::Response::NAME));
    response
}

async fn frame_from(reader: &mut OwnedReadHalf) -> Option<Bytes> {
    let read = async {
        let size = reader.read_u32().await.ok()?;
        let mut frame = vec![0; size as usize];
        reader.read_exact(&mut frame).await.ok()?;
        Some(frame.into())
    };
    tokio::time::timeout(PATIENCE, read).await.expect("an answer, or the end of the connection")
}
