//! The least a broker can do: one write(2) per batch, sendfile(2) to answer a fetch. No checks, no groups,
//! no index on disk. What a real broker costs beyond it is the price of being a broker.
//!
//! It runs over two edges. `threads`: a thread per connection and blocking calls, the floor proper.
//! `network`: the same work behind `ottla-network`, so the difference of the two is what that crate costs.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use ottla_network::{
    Answer, FileRegion, Limits, ListenerConfig, Peer, Reply, Response, Service, SocketServer,
};
use tokio::sync::Notify;

use crate::wire::{self, BATCH_HEADER, Reader, Writer};

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Storage {
    /// Acknowledge and forget: the ceiling of a producer.
    Drop,
    /// Write, and leave the rest to the kernel.
    File,
    /// As `file`, and fdatasync(2) before the acknowledgement.
    Sync,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Edge {
    Threads,
    /// On tokio's multi-thread runtime, as the broker runs.
    Network,
    /// On a current-thread runtime.
    NetworkOneThread,
}

#[derive(Debug)]
pub struct Floor {
    address: SocketAddr,
    storage: Storage,
    directory: PathBuf,
    partitions: i32,
    topics: Mutex<HashMap<String, Vec<Arc<Partition>>>>,
    appended: Appended,
}

/// Wakes those who wait for an append, on either edge.
#[derive(Debug, Default)]
struct Appended {
    count: Mutex<u64>,
    thread: Condvar,
    task: Notify,
}

#[derive(Debug)]
struct Partition {
    log: Mutex<Log>,
    file: Arc<File>,
}

#[derive(Debug, Default)]
struct Log {
    next_offset: i64,
    len: u64,
    /// Base offset, position and length of each batch.
    batches: Vec<(i64, u64, u32)>,
}

/// What a request comes to.
enum Outcome {
    Answer(Vec<Piece>),
    Nothing,
    /// A fetch that found nothing: ask again after an append, or at the deadline at the latest.
    Wait(Fetch),
    Close,
}

enum Piece {
    Bytes(Writer),
    File(FileRegion),
}

struct Fetch {
    correlation: i32,
    deadline: Instant,
    bytes_max: i64,
    asked: Vec<(String, i32, i64, i64)>,
}

/// Guards are never held across a panic that would matter: this is a bench.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Floor {
    pub fn new(address: SocketAddr, storage: Storage, directory: PathBuf, partitions: i32) -> Floor {
        let topics = Mutex::default();
        Floor { address, storage, directory, partitions, topics, appended: Appended::default() }
    }

    fn topic(&self, name: &str, partitions: i32) -> io::Result<Vec<Arc<Partition>>> {
        let mut topics = lock(&self.topics);
        if let Some(found) = topics.get(name) {
            return Ok(found.clone());
        }
        let open = |index| {
            let path = self.log_path(name, index);
            let file = File::options().create(true).truncate(true).read(true).write(true).open(path)?;
            Ok(Arc::new(Partition { log: Mutex::default(), file: Arc::new(file) }))
        };
        let created: Vec<_> = (0..partitions).map(open).collect::<io::Result<_>>()?;
        topics.insert(name.into(), created.clone());
        Ok(created)
    }

    fn log_path(&self, topic: &str, partition: i32) -> PathBuf {
        self.directory.join(format!("{}-{partition}.log", topic.replace('/', "_")))
    }

    fn append(&self, partition: &Partition, batch: &mut [u8]) -> io::Result<i64> {
        let mut log = lock(&partition.log);
        let base_offset = log.next_offset;
        batch[..8].copy_from_slice(&base_offset.to_be_bytes()); // outside the CRC
        let count = batch[57..BATCH_HEADER].try_into().map(i32::from_be_bytes).unwrap_or(0);
        log.next_offset += i64::from(count);
        if self.storage == Storage::Drop {
            return Ok(base_offset);
        }
        (&*partition.file).write_all(batch)?;
        if self.storage == Storage::Sync {
            partition.file.sync_data()?;
        }
        let entry = (base_offset, log.len, batch.len() as u32);
        log.batches.push(entry);
        log.len += batch.len() as u64;
        drop(log);
        *lock(&self.appended.count) += 1;
        self.appended.thread.notify_all();
        self.appended.task.notify_waiters();
        Ok(base_offset)
    }

    /// `None`: a request that makes no sense.
    fn handle(&self, request: &mut [u8]) -> Option<Outcome> {
        let mut header = Reader(request);
        let (api, version, correlation) = (header.i16()?, header.i16()?, header.i32()?);
        header.string()?; // client id
        let body = request.len() - header.0.len();
        let mut answer = Writer::default();
        answer.i32(correlation);
        match api {
            wire::PRODUCE => {
                if !self.produce(&mut request[body..], version, &mut answer)? {
                    return Some(Outcome::Nothing);
                }
            }
            wire::FETCH => {
                let fetch = parse_fetch(correlation, Reader(&request[body..]))?;
                return Some(self.fetch(fetch));
            }
            wire::API_VERSIONS => api_versions(version, &mut answer),
            wire::METADATA => self.metadata(Reader(&request[body..]), version, &mut answer)?,
            wire::LIST_OFFSETS => self.list_offsets(Reader(&request[body..]), &mut answer)?,
            wire::CREATE_TOPICS => {
                let mut body = Reader(&request[body..]);
                let count = body.i32()?;
                answer.i32(0).i32(count);
                for _ in 0..count {
                    let (name, partitions) = (body.string()?, body.i32()?);
                    body.take(10)?; // replication factor; no assignments, no configs
                    self.topic(name, partitions).ok()?;
                    answer.string(name).i16(0).i16(-1);
                }
            }
            wire::DELETE_TOPICS => {
                let mut body = Reader(&request[body..]);
                let count = body.i32()?;
                answer.i32(0).i32(count);
                for _ in 0..count {
                    let name = body.string()?;
                    let deleted = lock(&self.topics).remove(name);
                    for index in 0..deleted.map_or(0, |partitions| partitions.len()) {
                        let _ = std::fs::remove_file(self.log_path(name, index as i32));
                    }
                    answer.string(name).i16(0);
                }
            }
            _ => return None,
        }
        Some(Outcome::Answer(vec![Piece::Bytes(answer)]))
    }

    /// Versions 0 to 3. False when acks=0.
    fn produce(&self, body: &mut [u8], version: i16, answer: &mut Writer) -> Option<bool> {
        let len = body.len();
        let mut reader = Reader(body);
        if version >= 3 {
            reader.string()?; // transactional id
        }
        let acks = reader.i16()?;
        reader.i32()?; // timeout
        let mut batches = Vec::new();
        for _ in 0..reader.i32()? {
            let topic = reader.string()?.to_owned();
            for _ in 0..reader.i32()? {
                let (index, size) = (reader.i32()?, reader.i32()? as usize);
                let start = len - reader.0.len();
                reader.take(size)?;
                if size < BATCH_HEADER {
                    return None;
                }
                batches.push((topic.clone(), index, start..start + size));
            }
        }
        answer.i32(batches.len() as i32); // one topic entry per partition: legal, and simpler
        for (topic, index, range) in batches {
            let partitions = self.topic(&topic, self.partitions).ok()?;
            let base_offset = self.append(partitions.get(index as usize)?, &mut body[range]).ok()?;
            answer.string(&topic).i32(1).i32(index).i16(0).i64(base_offset).i64(-1);
        }
        answer.i32(0);
        Some(acks != 0)
    }

    /// Answers with what there is, or says that the fetch has to wait.
    fn fetch(&self, fetch: Fetch) -> Outcome {
        let mut left = fetch.bytes_max;
        let mut answer = Writer::default();
        answer.i32(fetch.correlation).i32(0).i32(fetch.asked.len() as i32);
        let mut pieces = Vec::with_capacity(2 * fetch.asked.len());
        for (topic, index, offset, partition_max) in &fetch.asked {
            let partition = lock(&self.topics).get(topic).and_then(|all| all.get(*index as usize)).cloned();
            answer.string(topic).i32(1).i32(*index);
            let Some(partition) = partition else {
                answer.i16(3).i64(-1).i64(-1).i32(0).i32(0);
                continue;
            };
            let log = lock(&partition.log);
            let (position, len) = log.region(*offset, left.min(*partition_max), left == fetch.bytes_max);
            answer.i16(0).i64(log.next_offset).i64(log.next_offset).i32(0).i32(len as i32);
            drop(log);
            left -= len;
            if len > 0 {
                pieces.push(Piece::Bytes(std::mem::take(&mut answer)));
                let region = FileRegion { file: partition.file.clone(), offset: position, len: len as u64 };
                pieces.push(Piece::File(region));
            }
        }
        if left == fetch.bytes_max && Instant::now() < fetch.deadline {
            return Outcome::Wait(fetch);
        }
        pieces.push(Piece::Bytes(answer));
        Outcome::Answer(pieces)
    }

    /// Versions 0 and 1. Creates what is asked for.
    fn metadata(&self, mut body: Reader<'_>, version: i16, answer: &mut Writer) -> Option<()> {
        let count = body.i32()?;
        let names: Vec<String> = match count {
            ..0 => lock(&self.topics).keys().cloned().collect(),
            0 if version == 0 => lock(&self.topics).keys().cloned().collect(),
            _ => (0..count).map(|_| body.string().map(str::to_owned)).collect::<Option<_>>()?,
        };
        answer.i32(1).i32(1).string(&self.address.ip().to_string()).i32(self.address.port().into());
        if version >= 1 {
            answer.i16(-1).i32(1);
        }
        answer.i32(names.len() as i32);
        for name in names {
            answer.i16(0).string(&name);
            if version >= 1 {
                answer.i8(0);
            }
            let partitions = self.topic(&name, self.partitions).ok()?.len() as i32;
            answer.i32(partitions);
            for index in 0..partitions {
                answer.i16(0).i32(index).i32(1).i32(1).i32(1).i32(1).i32(1);
            }
        }
        Some(())
    }

    /// Version 1.
    fn list_offsets(&self, mut body: Reader<'_>, answer: &mut Writer) -> Option<()> {
        body.i32()?; // replica id
        let topics = body.i32()?;
        answer.i32(topics);
        for _ in 0..topics {
            let (topic, asked) = (body.string()?, body.i32()?);
            let partitions = self.topic(topic, self.partitions).ok()?;
            answer.string(topic).i32(asked);
            for _ in 0..asked {
                let (index, timestamp) = (body.i32()?, body.i64()?);
                let end = lock(&partitions.get(index as usize)?.log).next_offset;
                answer.i32(index).i16(0).i64(-1).i64(if timestamp == -2 { 0 } else { end });
            }
        }
        Some(())
    }

    /// Serves for ever, with a thread for each connection.
    pub fn run_threads(self, listener: TcpListener) -> io::Result<()> {
        let floor = Arc::new(self);
        loop {
            let (stream, _) = listener.accept()?;
            let floor = floor.clone();
            // The end of a connection, however it comes, is nobody's concern here.
            std::thread::spawn(move || drop(floor.serve(stream)));
        }
    }

    fn serve(&self, mut stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let mut reader = BufReader::with_capacity(128 << 10, stream.try_clone()?);
        let mut request = Vec::new();
        loop {
            let mut size = [0; 4];
            reader.read_exact(&mut size)?;
            request.resize(u32::from_be_bytes(size) as usize, 0);
            reader.read_exact(&mut request)?;
            let mut outcome = self.handle(&mut request).unwrap_or(Outcome::Close);
            while let Outcome::Wait(fetch) = outcome {
                let count = *lock(&self.appended.count);
                outcome = self.fetch(fetch);
                if let Outcome::Wait(fetch) = &outcome {
                    let left = fetch.deadline.saturating_duration_since(Instant::now());
                    let unchanged = |now: &mut u64| *now == count;
                    drop(self.appended.thread.wait_timeout_while(
                        lock(&self.appended.count),
                        left,
                        unchanged,
                    ));
                }
            }
            match outcome {
                Outcome::Answer(pieces) => send(&mut stream, pieces)?,
                Outcome::Nothing => {}
                Outcome::Wait(_) | Outcome::Close => return Ok(()),
            }
        }
    }

    /// Serves for ever behind `ottla-network`.
    pub async fn run_network(
        self,
        socket_buffer_bytes: Option<usize>,
    ) -> Result<(), ottla_network::BindError> {
        let host = self.address.ip().to_string();
        let mut listener = ListenerConfig::new("PLAINTEXT", &host, self.address.port());
        listener.send_buffer_bytes = socket_buffer_bytes;
        listener.receive_buffer_bytes = socket_buffer_bytes;
        let listener = listener.bind()?;
        let service = Arc::new(Networked(Arc::new(self)));
        let _server = SocketServer::start(vec![listener], Limits::default(), service)?;
        std::future::pending().await
    }
}

impl Log {
    /// Position and length of the whole batches from `offset` on that fit; `at_least_one` even if it does not.
    fn region(&self, offset: i64, bytes_max: i64, at_least_one: bool) -> (u64, i64) {
        if offset >= self.next_offset {
            return (0, 0);
        }
        let first = self.batches.partition_point(|batch| batch.0 <= offset).saturating_sub(1);
        let mut len = 0;
        for (_, _, size) in &self.batches[first.min(self.batches.len())..] {
            if len + i64::from(*size) > bytes_max && !(len == 0 && at_least_one) {
                break;
            }
            len += i64::from(*size);
        }
        (self.batches.get(first).map_or(0, |batch| batch.1), len)
    }
}

/// Version 4.
fn parse_fetch(correlation: i32, mut body: Reader<'_>) -> Option<Fetch> {
    body.i32()?; // replica id
    let wait_ms = body.i32()?.max(0) as u64;
    body.i32()?; // any byte is enough
    let bytes_max = body.i32()?.into();
    body.i8()?; // isolation level
    let mut asked = Vec::new();
    for _ in 0..body.i32()? {
        let topic = body.string()?;
        for _ in 0..body.i32()? {
            asked.push((topic.to_owned(), body.i32()?, body.i64()?, body.i32()?.into()));
        }
    }
    Some(Fetch { correlation, deadline: Instant::now() + Duration::from_millis(wait_ms), bytes_max, asked })
}

fn api_versions(version: i16, answer: &mut Writer) {
    let apis = [
        (wire::PRODUCE, 3),
        (wire::FETCH, 4),
        (wire::LIST_OFFSETS, 1),
        (wire::METADATA, 1),
        (wire::API_VERSIONS, 3),
        (wire::CREATE_TOPICS, 2),
        (wire::DELETE_TOPICS, 1),
    ];
    let flexible = version >= 3;
    answer.i16(0);
    if flexible {
        answer.i8(apis.len() as i8 + 1);
    } else {
        answer.i32(apis.len() as i32);
    }
    for (api, newest) in apis {
        answer.i16(api).i16(0).i16(newest);
        if flexible {
            answer.i8(0);
        }
    }
    if version >= 1 {
        answer.i32(0);
    }
    if flexible {
        answer.i8(0);
    }
}

fn send(stream: &mut TcpStream, pieces: Vec<Piece>) -> io::Result<()> {
    let size: u64 = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Bytes(bytes) => bytes.0.len() as u64,
            Piece::File(region) => region.len,
        })
        .sum();
    let mut unsent = (size as u32).to_be_bytes().to_vec();
    for piece in pieces {
        match piece {
            Piece::Bytes(bytes) => unsent.extend(bytes.0),
            Piece::File(mut region) => {
                stream.write_all(&unsent)?;
                unsent.clear();
                while region.len > 0 {
                    let offset = Some(&mut region.offset);
                    let sent = rustix::fs::sendfile(&*stream, &region.file, offset, region.len as usize)?;
                    if sent == 0 {
                        return Err(io::ErrorKind::UnexpectedEof.into());
                    }
                    region.len -= sent as u64;
                }
            }
        }
    }
    if unsent.is_empty() { Ok(()) } else { stream.write_all(&unsent) }
}

/// The floor behind `ottla-network`.
struct Networked(Arc<Floor>);

impl Service for Networked {
    type Connection = ();

    fn connected(&self, _: &Peer) {}

    fn call(&self, _: &mut (), request: Bytes) -> Reply {
        let Ok(mut request) = request.try_into_mut() else { return Reply::close("the request is shared") };
        match self.0.handle(&mut request) {
            Some(Outcome::Answer(pieces)) => Reply::now(response(pieces)),
            Some(Outcome::Nothing) => Reply::Now(Answer::Nothing),
            Some(Outcome::Wait(fetch)) => Reply::later(wait(self.0.clone(), fetch)),
            Some(Outcome::Close) | None => Reply::close("not a request that the floor knows"),
        }
    }
}

async fn wait(floor: Arc<Floor>, mut fetch: Fetch) -> Answer {
    loop {
        let mut appended = std::pin::pin!(floor.appended.task.notified());
        appended.as_mut().enable(); // before the look, or an append in between would go unseen
        fetch = match floor.fetch(fetch) {
            Outcome::Wait(fetch) => fetch,
            Outcome::Answer(pieces) => return Answer::Send(response(pieces)),
            Outcome::Nothing | Outcome::Close => return Answer::Close("a fetch without an answer".into()),
        };
        let _ = tokio::time::timeout_at(fetch.deadline.into(), appended).await;
    }
}

fn response(pieces: Vec<Piece>) -> Response {
    let mut pieces = pieces.into_iter().peekable();
    let head = match pieces.next_if(|piece| matches!(piece, Piece::Bytes(_))) {
        Some(Piece::Bytes(bytes)) => bytes.0,
        _ => Vec::new(),
    };
    pieces.fold(Response::new(head), |response, piece| match piece {
        Piece::Bytes(bytes) => response.bytes(bytes.0),
        Piece::File(region) => response.file(region),
    })
}
