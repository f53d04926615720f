//! A client that speaks the bare protocol, to see exactly what a server sends and in which order.
#![allow(dead_code, reason = "each test binary uses its own part of this module")]

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use ottla_zookeeper_server::jute::{self, Reader, Writer};
use ottla_zookeeper_server::protocol::{Stat, Zxid, op};

/// Long enough for a loaded machine; a test that waits this long fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Pings have a number of their own.
const PING_XID: i32 = -2;

pub struct RawClient {
    stream: TcpStream,
    pub session: i64,
    pub password: Vec<u8>,
    pub timeout_ms: i32,
    next_xid: i32,
    /// The highest transaction an answer named.
    pub last_zxid: i64,
}

/// What a connect request says.
#[derive(Debug, Clone)]
pub struct Hello {
    pub last_zxid: i64,
    pub timeout_ms: i32,
    pub session: i64,
    pub password: Vec<u8>,
    pub read_only: Option<bool>,
}

impl Default for Hello {
    fn default() -> Hello {
        Hello { last_zxid: 0, timeout_ms: 10_000, session: 0, password: vec![0; 16], read_only: Some(false) }
    }
}

/// One frame from the server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Frame {
    Event { kind: i32, path: String },
    Reply { xid: i32, zxid: i64, error: i32, body: Vec<u8> },
}

impl RawClient {
    /// Connects and shakes hands. A session of 0 afterwards means that the server says it expired.
    pub fn connect(address: SocketAddr, hello: &Hello) -> io::Result<RawClient> {
        let mut stream = TcpStream::connect(address)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        let mut bytes = Vec::new();
        jute::frame(&mut bytes, |writer| {
            writer.int(0);
            writer.long(hello.last_zxid);
            writer.int(hello.timeout_ms);
            writer.long(hello.session);
            writer.buffer(Some(&hello.password));
            if let Some(read_only) = hello.read_only {
                writer.boolean(read_only);
            }
        });
        stream.write_all(&bytes)?;
        let answer = read_frame(&mut stream)?;
        let mut reader = Reader::new(&answer);
        assert_eq!(reader.int(), Ok(0), "protocol version");
        let timeout_ms = reader.int().unwrap();
        let session = reader.long().unwrap();
        let password = reader.buffer().unwrap().unwrap().to_vec();
        assert_eq!(
            reader.left(),
            usize::from(hello.read_only.is_some()),
            "read-only flag only to those who know it"
        );
        Ok(RawClient { stream, session, password, timeout_ms, next_xid: 1, last_zxid: hello.last_zxid })
    }

    /// What re-attaches this session.
    pub fn hello(&self) -> Hello {
        Hello {
            last_zxid: self.last_zxid,
            timeout_ms: self.timeout_ms,
            session: self.session,
            password: self.password.clone(),
            read_only: Some(false),
        }
    }

    /// Sends a request and returns its xid.
    pub fn send(&mut self, operation: i32, body: impl FnOnce(&mut Writer<'_>)) -> i32 {
        let xid = if operation == op::PING { PING_XID } else { self.next_xid };
        self.next_xid += 1;
        let mut bytes = Vec::new();
        jute::frame(&mut bytes, |writer| {
            writer.int(xid);
            writer.int(operation);
            body(writer);
        });
        self.stream.write_all(&bytes).unwrap();
        xid
    }

    pub fn send_bytes(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).unwrap();
    }

    pub fn receive(&mut self) -> io::Result<Frame> {
        let bytes = read_frame(&mut self.stream)?;
        let mut reader = Reader::new(&bytes);
        let (xid, zxid, error) = (reader.int().unwrap(), reader.long().unwrap(), reader.int().unwrap());
        if xid == -1 {
            let (kind, state) = (reader.int().unwrap(), reader.int().unwrap());
            assert_eq!(state, 3, "events say that the session is connected");
            return Ok(Frame::Event { kind, path: reader.string().unwrap().to_owned() });
        }
        self.last_zxid = self.last_zxid.max(zxid);
        let body = bytes[bytes.len() - reader.left()..].to_vec();
        Ok(Frame::Reply { xid, zxid, error, body })
    }

    /// Sends a request, and returns the events that came before its answer, and the answer.
    pub fn call(&mut self, operation: i32, body: impl FnOnce(&mut Writer<'_>)) -> (Vec<Frame>, Frame) {
        let sent = self.send(operation, body);
        let mut events = Vec::new();
        loop {
            match self.receive().unwrap() {
                Frame::Reply { xid, .. } if xid != sent => panic!("answer {xid} before {sent}"),
                reply @ Frame::Reply { .. } => return (events, reply),
                event @ Frame::Event { .. } => events.push(event),
            }
        }
    }
}

fn read_frame(stream: &mut TcpStream) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    stream.read_exact(&mut length)?;
    let mut frame = vec![0; u32::from_be_bytes(length) as usize];
    stream.read_exact(&mut frame)?;
    Ok(frame)
}

pub fn read_stat(reader: &mut Reader<'_>) -> Stat {
    let long = |reader: &mut Reader<'_>| reader.long().unwrap();
    Stat {
        czxid: Zxid(long(reader)),
        mzxid: Zxid(long(reader)),
        ctime: long(reader),
        mtime: long(reader),
        version: reader.int().unwrap(),
        cversion: reader.int().unwrap(),
        aversion: reader.int().unwrap(),
        ephemeral_owner: long(reader),
        data_length: reader.int().unwrap(),
        num_children: reader.int().unwrap(),
        pzxid: Zxid(long(reader)),
    }
}
