//! A client that says exactly what a test wants on the wire, in the version it wants.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ottla_protocol::{Message, Request, frame};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// No answer takes this long; a test that waits longer has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// One connection.
#[derive(Debug)]
pub struct Wire {
    stream: TcpStream,
    next_correlation: i32,
    /// Of requests whose answers are due, the oldest first.
    due: VecDeque<i32>,
}

impl Wire {
    pub async fn connect(address: SocketAddr) -> Wire {
        let stream = TcpStream::connect(address).await.expect("the broker listens");
        stream.set_nodelay(true).unwrap();
        Wire { stream, next_correlation: 1, due: VecDeque::new() }
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
        self.stream.write_all(bytes).await.unwrap();
    }

    /// The next answer, which must be that to the oldest request: answers keep the order of requests.
    pub async fn receive<R: Request>(&mut self, version: i16) -> R::Response {
        let frame = self.frame().await.unwrap_or_else(|| panic!("{} v{version}: connection closed", R::NAME));
        let (header, mut body) = frame::decode_response_header(frame, R::KEY, version).unwrap();
        assert_eq!(Some(header.correlation_id), self.due.pop_front(), "answers come in order");
        let response = R::Response::decode(&mut body, version);
        let response = response.unwrap_or_else(|error| panic!("{} v{version}: {error}", R::Response::NAME));
        body.finish().unwrap_or_else(|error| panic!("{} v{version}: {error}", R::Response::NAME));
        response
    }

    /// The next frame, without its size; `None` once the broker has closed the connection.
    pub async fn frame(&mut self) -> Option<Bytes> {
        let read = async {
            let size = self.stream.read_u32().await.ok()?;
            let mut frame = vec![0; size as usize];
            self.stream.read_exact(&mut frame).await.ok()?;
            Some(frame.into())
        };
        tokio::time::timeout(PATIENCE, read).await.expect("an answer, or the end of the connection")
    }
}
