//! The little of the Kafka protocol that load and floor need, in old request versions that every broker
//! since 0.11 understands. Written apart from `ottla-protocol`: a bench that shares the code it measures
//! would share its faults.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

pub const PRODUCE: i16 = 0;
pub const FETCH: i16 = 1;
pub const LIST_OFFSETS: i16 = 2;
pub const METADATA: i16 = 3;
pub const API_VERSIONS: i16 = 18;
pub const CREATE_TOPICS: i16 = 19;
pub const DELETE_TOPICS: i16 = 20;

/// Bytes of a batch (magic 2) before its records.
pub const BATCH_HEADER: usize = 61;

/// Appends big-endian fields.
#[derive(Debug, Default, Clone)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    pub fn i8(&mut self, value: i8) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn i16(&mut self, value: i16) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn i32(&mut self, value: i32) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn i64(&mut self, value: i64) -> &mut Self {
        self.raw(&value.to_be_bytes())
    }

    pub fn string(&mut self, value: &str) -> &mut Self {
        self.i16(value.len() as i16).raw(value.as_bytes())
    }

    pub fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub fn varint(&mut self, value: i64) -> &mut Self {
        let mut rest = ((value << 1) ^ (value >> 63)) as u64;
        while rest >= 0x80 {
            self.0.push(rest as u8 | 0x80);
            rest >>= 7;
        }
        self.0.push(rest as u8);
        self
    }
}

/// Reads big-endian fields; `None` where the bytes end.
#[derive(Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    pub fn take(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    pub fn i8(&mut self) -> Option<i8> {
        self.array().map(i8::from_be_bytes)
    }

    pub fn i16(&mut self) -> Option<i16> {
        self.array().map(i16::from_be_bytes)
    }

    pub fn i32(&mut self) -> Option<i32> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn i64(&mut self) -> Option<i64> {
        self.array().map(i64::from_be_bytes)
    }

    /// Null reads as empty.
    pub fn string(&mut self) -> Option<&'a str> {
        let len = self.i16()?.max(0) as usize;
        std::str::from_utf8(self.take(len)?).ok()
    }
}

/// A batch (magic 2) of `values`, without keys and uncompressed.
pub fn batch<'a>(values: impl ExactSizeIterator<Item = &'a [u8]>, timestamp_ms: i64) -> Vec<u8> {
    let count = values.len() as i32;
    let mut covered = Writer::default(); // by the CRC
    covered.i16(0).i32(count - 1).i64(timestamp_ms).i64(timestamp_ms).i64(-1).i16(-1).i32(-1).i32(count);
    for (delta, value) in values.enumerate() {
        let mut record = Writer::default();
        record
            .i8(0)
            .varint(0)
            .varint(delta as i64)
            .varint(-1)
            .varint(value.len() as i64)
            .raw(value)
            .varint(0);
        covered.varint(record.0.len() as i64).raw(&record.0);
    }
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &covered.0) as u32;
    let mut batch = Writer::default();
    batch.i64(0).i32(covered.0.len() as i32 + 9).i32(0).i8(2).i32(crc as i32).raw(&covered.0);
    batch.0
}

/// A request frame with its size field.
pub fn request(api: i16, version: i16, correlation: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = Writer::default();
    frame.i32(0).i16(api).i16(version).i32(correlation).string("ottla-benches").raw(body);
    let size = frame.0.len() as i32 - 4;
    frame.0[..4].copy_from_slice(&size.to_be_bytes());
    frame.0
}

/// A Produce v3 request of one batch.
pub fn produce(topic: &str, partition: i32, acks: i16, batch: &[u8]) -> Vec<u8> {
    let mut body = Writer::default();
    body.i16(-1).i16(acks).i32(30_000).i32(1).string(topic).i32(1).i32(partition);
    body.i32(batch.len() as i32).raw(batch);
    request(PRODUCE, 3, 1, &body.0)
}

/// The error code in an answer to [`produce`].
pub fn produce_error(answer: &[u8]) -> Option<i16> {
    let mut reader = Reader(answer);
    reader.take(8)?; // correlation id, number of topics
    reader.string()?;
    reader.take(8)?; // number of partitions, index
    reader.i16()
}

/// A Fetch v4 request for one partition.
pub fn fetch(topic: &str, partition: i32, offset: i64, wait_ms: i32, bytes_max: i32) -> Vec<u8> {
    let mut body = Writer::default();
    body.i32(-1).i32(wait_ms).i32(1).i32(bytes_max).i8(0).i32(1).string(topic);
    body.i32(1).i32(partition).i64(offset).i32(bytes_max);
    request(FETCH, 4, 1, &body.0)
}

/// What matters in an answer to [`fetch`].
#[derive(Debug)]
pub struct Fetched<'a> {
    pub error: i16,
    pub high_watermark: i64,
    pub records: &'a [u8],
}

pub fn fetched(answer: &[u8]) -> Option<Fetched<'_>> {
    let mut reader = Reader(answer);
    reader.take(12)?; // correlation id, throttle time, number of topics
    reader.string()?;
    reader.take(8)?; // number of partitions, index
    let error = reader.i16()?;
    let high_watermark = reader.i64()?;
    reader.i64()?; // last stable offset
    for _ in 0..reader.i32()?.max(0) {
        reader.take(16)?; // an aborted transaction
    }
    let len = reader.i32()?.max(0) as usize;
    Some(Fetched { error, high_watermark, records: reader.take(len)? })
}

/// The whole batches in `records`: base offset, record count, the batch.
pub fn batches(mut records: &[u8]) -> impl Iterator<Item = (i64, i32, &[u8])> {
    std::iter::from_fn(move || {
        let mut header = Reader(records);
        let base_offset = header.i64()?;
        let len = header.i32()? as usize + 12;
        let (batch, rest) = records.split_at_checked(len)?;
        records = rest;
        let count = batch.get(57..BATCH_HEADER)?;
        Some((base_offset, i32::from_be_bytes(count.try_into().ok()?), batch))
    })
}

/// A blocking connection to a broker.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    answer: Vec<u8>,
}

impl Client {
    /// Refuses what is not loopback: this is a load generator.
    pub fn connect(address: SocketAddr) -> io::Result<Client> {
        if !address.ip().is_loopback() {
            return Err(io::Error::other(format!("{address} is not a loopback address")));
        }
        let stream = TcpStream::connect_timeout(&address, Duration::from_secs(2))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(Duration::from_secs(30)))?;
        Ok(Client { stream, answer: Vec::new() })
    }

    pub fn send(&mut self, frame: &[u8]) -> io::Result<()> {
        self.stream.write_all(frame)
    }

    /// The next answer, without its size field.
    pub fn receive(&mut self) -> io::Result<&[u8]> {
        let mut size = [0; 4];
        self.stream.read_exact(&mut size)?;
        self.answer.resize(u32::from_be_bytes(size) as usize, 0);
        self.stream.read_exact(&mut self.answer)?;
        Ok(&self.answer)
    }

    pub fn call(&mut self, frame: &[u8]) -> io::Result<&[u8]> {
        self.send(frame)?;
        self.receive()
    }

    /// Number of brokers that a Metadata v1 answer for no topic names.
    pub fn broker_count(&mut self) -> io::Result<i32> {
        let answer = self.call(&request(METADATA, 1, 1, &0i32.to_be_bytes()))?;
        Reader(&answer[4.min(answer.len())..])
            .i32()
            .ok_or_else(|| io::Error::other("a Metadata answer too short"))
    }

    pub fn create_topic(&mut self, topic: &str, partitions: i32) -> io::Result<()> {
        let mut body = Writer::default();
        body.i32(1).string(topic).i32(partitions).i16(1).i32(0).i32(0).i32(15_000).i8(0);
        self.topic_call(CREATE_TOPICS, 2, &body.0)
    }

    pub fn delete_topic(&mut self, topic: &str) -> io::Result<()> {
        let mut body = Writer::default();
        body.i32(1).string(topic).i32(15_000);
        self.topic_call(DELETE_TOPICS, 1, &body.0)
    }

    fn topic_call(&mut self, api: i16, version: i16, body: &[u8]) -> io::Result<()> {
        let answer = self.call(&request(api, version, 1, body))?;
        let mut reader = Reader(answer);
        let error = (|| {
            reader.take(12)?; // correlation id, throttle time, number of topics
            reader.string()?;
            reader.i16()
        })();
        match error {
            Some(0) => Ok(()),
            Some(code) => Err(io::Error::other(format!("error code {code} to API {api}"))),
            None => Err(io::Error::other("an answer too short")),
        }
    }
}
