//! Brokers in this process: real sockets, a shared state, and a script of what goes wrong.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ottla_client::{Address, Client, ClientOptions, ConnectionOptions};
use ottla_model::{Offset, TopicName, TopicPartition};
use ottla_protocol::messages::api_versions::ApiVersion;
use ottla_protocol::messages::fetch::{FetchableTopicResponse, PartitionData};
use ottla_protocol::messages::list_offsets::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use ottla_protocol::messages::metadata::{
    MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::messages::produce::{PartitionProduceResponse, TopicProduceResponse};
use ottla_protocol::messages::{
    ApiVersionsResponse, FetchRequest, FetchResponse, InitProducerIdRequest, InitProducerIdResponse,
    ListOffsetsRequest, ListOffsetsResponse, MetadataRequest, MetadataResponse, ProduceRequest,
    ProduceResponse, SaslHandshakeResponse,
};
use ottla_protocol::records::batch::{add_to_sequence, set_base_offset};
use ottla_protocol::records::{Batches, Magic};
use ottla_protocol::{ApiKey, Decoder, ErrorCode, Message, frame};
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Notify;
use tokio::time::timeout;

/// What a broker does with one request of an API, instead of what it should.
#[derive(Debug, Clone, PartialEq)]
pub enum Fault {
    /// Does it as it should.
    Nothing,
    /// Does nothing and answers this code for every partition.
    Refuse(ErrorCode),
    /// Does nothing and hangs up.
    HangUp,
    /// Does it, and hangs up before the answer.
    LoseAnswer,
    /// Sends these bytes in place of an answer.
    Say(Vec<u8>),
}

/// How a broker deals with the first requests of a connection.
#[derive(Debug, Clone, PartialEq)]
pub enum Era {
    /// Serves ApiVersions up to this version.
    Negotiates { api_versions_max: i16 },
    /// Hangs up on ApiVersions, as 0.8 and 0.9 do.
    HangsUp,
    /// Hangs up on everything but ApiVersions and SaslHandshake.
    WantsSasl,
    /// Hangs up on everything.
    Deaf,
    /// Hangs up on everything but `srvr`, the question of a ZooKeeper operator, which gets this answer.
    ZooKeeper(&'static str),
    /// Sends this as soon as something arrives.
    Says(&'static [u8]),
}

#[derive(Debug)]
pub struct State {
    pub era: Era,
    pub versions: BTreeMap<i16, RangeInclusive<i16>>,
    /// By partition number, for the one topic "t": the index of the leader.
    pub leaders: Vec<usize>,
    /// What brokers advertise; `None` is the truth.
    pub advertised: Option<Address>,
    pub logs: Vec<Log>,
    /// What goes wrong with the next requests of each API.
    pub script: HashMap<ApiKey, VecDeque<Fault>>,
    /// API and version of every request, in order of arrival.
    pub seen: Vec<(ApiKey, i16)>,
    pub next_producer_id: i64,
    /// `max.message.bytes` of the topic.
    pub batch_bytes_max: usize,
    pub addresses: Vec<Address>,
}

#[derive(Debug, Default)]
pub struct Log {
    /// Entries as they were sent, with their offsets.
    pub entries: Vec<(Offset, Offset, Bytes)>,
    pub start: i64,
    pub end: i64,
    /// The last five batches of each producer id and epoch.
    producers: HashMap<(i64, i16), VecDeque<Known>>,
}

/// A batch that would be a duplicate if it came again.
#[derive(Debug, PartialEq)]
struct Known {
    first_sequence: i32,
    last_sequence: i32,
    base_offset: i64,
}

#[derive(Clone)]
pub struct Cluster {
    pub state: Arc<Mutex<State>>,
    grown: Arc<Notify>,
}

/// No request of these tests is as long as the questions of other protocols look.
const REQUEST_BYTES_MAX: u32 = 16 << 20;

/// Long enough for any of these tests, and short enough to fail before anyone loses patience.
pub const PATIENCE: Duration = Duration::from_secs(20);

impl Cluster {
    /// `brokers` brokers, and topic "t" whose partitions they lead in turn.
    pub async fn start(brokers: usize, partitions: usize) -> Cluster {
        let ours = |api: ApiKey| (api as i16, api.versions());
        let served = [
            ApiKey::Produce,
            ApiKey::Fetch,
            ApiKey::ListOffsets,
            ApiKey::Metadata,
            ApiKey::ApiVersions,
            ApiKey::InitProducerId,
            ApiKey::SaslHandshake,
        ];
        let state = State {
            era: Era::Negotiates { api_versions_max: 4 },
            versions: served.into_iter().map(ours).collect(),
            leaders: (0..partitions).map(|partition| partition % brokers).collect(),
            advertised: None,
            logs: (0..partitions).map(|_| Log::default()).collect(),
            script: HashMap::new(),
            seen: Vec::new(),
            next_producer_id: 1000,
            batch_bytes_max: usize::MAX,
            addresses: Vec::new(),
        };
        let cluster = Cluster { state: Arc::new(Mutex::new(state)), grown: Arc::new(Notify::new()) };
        for broker in 0..brokers {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            cluster.state.lock().addresses.push(Address::new("127.0.0.1", port));
            let cluster = cluster.clone();
            tokio::spawn(async move {
                while let Ok((socket, _)) = listener.accept().await {
                    let cluster = cluster.clone();
                    tokio::spawn(async move { cluster.serve(socket, broker).await });
                }
            });
        }
        cluster
    }

    pub fn bootstrap(&self) -> Vec<Address> {
        self.state.lock().addresses[..1].to_vec()
    }

    pub async fn client(&self) -> Client {
        Client::connect(self.bootstrap(), quick()).await.unwrap()
    }

    pub fn script(&self, api: ApiKey, faults: impl IntoIterator<Item = Fault>) {
        self.state.lock().script.entry(api).or_default().extend(faults);
    }

    pub fn serve_only(&self, api: ApiKey, versions: RangeInclusive<i16>) {
        self.state.lock().versions.insert(api as i16, versions);
    }

    pub fn versions_seen(&self, api: ApiKey) -> Vec<i16> {
        let state = self.state.lock();
        state.seen.iter().filter(|(seen, _)| *seen == api).map(|(_, version)| *version).collect()
    }

    async fn serve(self, mut socket: TcpStream, broker: usize) {
        socket.set_nodelay(true).unwrap();
        loop {
            let Ok(size) = socket.read_u32().await else { return };
            if size > REQUEST_BYTES_MAX {
                let answer = match &self.state.lock().era {
                    Era::ZooKeeper(answer) if size.to_be_bytes() == *b"srvr" => *answer,
                    _ => return,
                };
                let _ = socket.write_all(answer.as_bytes()).await;
                return;
            }
            let mut request = vec![0; size as usize];
            if socket.read_exact(&mut request).await.is_err() {
                return;
            }
            let greeting = match &self.state.lock().era {
                Era::Says(greeting) => Some(*greeting),
                _ => None,
            };
            if let Some(greeting) = greeting {
                let _ = socket.write_all(greeting).await;
                return;
            }
            match self.answer(Bytes::from(request), broker).await {
                Reply::Frame(frame) => {
                    if socket.write_all(&frame).await.is_err() {
                        return;
                    }
                }
                Reply::Silence => {}
                Reply::HangUp => return,
            }
        }
    }

    async fn answer(&self, request: Bytes, broker: usize) -> Reply {
        let raw = [request[0], request[1], request[2], request[3]];
        let key = ApiKey::from_i16(i16::from_be_bytes([raw[0], raw[1]])).unwrap();
        let version = i16::from_be_bytes([raw[2], raw[3]]);
        let correlation = i32::from_be_bytes([request[4], request[5], request[6], request[7]]);
        let fault = {
            let mut state = self.state.lock();
            state.seen.push((key, version));
            let refuses = match state.era {
                Era::HangsUp => key == ApiKey::ApiVersions,
                Era::WantsSasl => !matches!(key, ApiKey::ApiVersions | ApiKey::SaslHandshake),
                Era::Deaf | Era::ZooKeeper(_) => true,
                Era::Negotiates { .. } | Era::Says(_) => false,
            };
            if refuses {
                return Reply::HangUp;
            }
            state.script.get_mut(&key).and_then(VecDeque::pop_front).unwrap_or(Fault::Nothing)
        };
        match fault {
            Fault::HangUp => return Reply::HangUp,
            Fault::Say(bytes) => return Reply::Frame(Bytes::from(bytes)),
            Fault::Nothing | Fault::Refuse(_) | Fault::LoseAnswer => {}
        }
        let (_, _, mut body) = frame::decode_request_header(request).unwrap();
        let reply = match key {
            ApiKey::ApiVersions => self.api_versions(version, correlation),
            ApiKey::Metadata => {
                reply(key, version, correlation, &self.metadata(&read(&mut body, version), version))
            }
            ApiKey::Produce => {
                let request: ProduceRequest = read(&mut body, version);
                let response = self.produce(&request, broker, &fault);
                if request.acks == 0 { Reply::Silence } else { reply(key, version, correlation, &response) }
            }
            ApiKey::Fetch => {
                let response = self.fetch(&read(&mut body, version), version, broker, &fault).await;
                reply(key, version, correlation, &response)
            }
            ApiKey::ListOffsets => {
                let response = self.list_offsets(&read(&mut body, version), version, broker, &fault);
                reply(key, version, correlation, &response)
            }
            ApiKey::InitProducerId => {
                let request: InitProducerIdRequest = read(&mut body, version);
                let code = match fault {
                    Fault::Refuse(code) => code,
                    _ if request.transactional_id.is_some() => ErrorCode::InvalidRequest,
                    _ => ErrorCode::None,
                };
                let mut state = self.state.lock();
                state.next_producer_id += 1;
                let response = InitProducerIdResponse {
                    error_code: code.into(),
                    producer_id: state.next_producer_id,
                    producer_epoch: 0,
                    ..Default::default()
                };
                reply(key, version, correlation, &response)
            }
            ApiKey::SaslHandshake => {
                let response = SaslHandshakeResponse {
                    error_code: ErrorCode::UnsupportedSaslMechanism.into(),
                    mechanisms: vec!["SCRAM-SHA-256".into(), "PLAIN".into()],
                };
                reply(key, version, correlation, &response)
            }
            other => panic!("no fake for {other:?}"),
        };
        if fault == Fault::LoseAnswer { Reply::HangUp } else { reply }
    }

    fn api_versions(&self, version: i16, correlation: i32) -> Reply {
        let state = self.state.lock();
        let max = match state.era {
            Era::Negotiates { api_versions_max } => api_versions_max,
            _ => 4,
        };
        let listed = |(key, versions): (&i16, &RangeInclusive<i16>)| ApiVersion {
            api_key: *key,
            min_version: *versions.start(),
            max_version: *versions.end(),
            ..Default::default()
        };
        if version > max {
            let code = ErrorCode::UnsupportedVersion.into();
            // Brokers before 2.4 list nothing here.
            let api_keys = match max {
                ..3 => Vec::new(),
                _ => vec![ApiVersion { api_key: 18, min_version: 0, max_version: max, ..Default::default() }],
            };
            let response = ApiVersionsResponse { error_code: code, api_keys, ..Default::default() };
            return reply(ApiKey::ApiVersions, 0, correlation, &response);
        }
        let api_keys = state.versions.iter().map(listed).collect();
        reply(
            ApiKey::ApiVersions,
            version,
            correlation,
            &ApiVersionsResponse { api_keys, ..Default::default() },
        )
    }

    fn metadata(&self, request: &MetadataRequest, version: i16) -> MetadataResponse {
        let state = self.state.lock();
        let brokers = state.addresses.iter().enumerate().map(|(id, address)| {
            let address = state.advertised.as_ref().unwrap_or(address);
            MetadataResponseBroker {
                node_id: id as i32,
                host: address.host().into(),
                port: i32::from(address.port()),
                ..Default::default()
            }
        });
        let all = match &request.topics {
            None => true,
            Some(topics) => version == 0 && topics.is_empty(),
        };
        let names: Vec<String> = match &request.topics {
            _ if all => vec!["t".to_owned()],
            None => Vec::new(),
            Some(topics) => topics.iter().map(|topic| topic.name.as_deref().unwrap().to_owned()).collect(),
        };
        let topics = names.into_iter().map(|name| {
            if name != "t" {
                return MetadataResponseTopic {
                    error_code: ErrorCode::UnknownTopicOrPartition.into(),
                    name: Some(name.into()),
                    ..Default::default()
                };
            }
            let partitions =
                state.leaders.iter().enumerate().map(|(partition, leader)| MetadataResponsePartition {
                    partition_index: partition as i32,
                    leader_id: *leader as i32,
                    replica_nodes: vec![*leader as i32],
                    isr_nodes: vec![*leader as i32],
                    ..Default::default()
                });
            MetadataResponseTopic {
                name: Some(name.into()),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        MetadataResponse {
            brokers: brokers.collect(),
            controller_id: 0,
            topics: topics.collect(),
            ..Default::default()
        }
    }

    fn produce(&self, request: &ProduceRequest, broker: usize, fault: &Fault) -> ProduceResponse {
        let mut state = self.state.lock();
        let mut responses = Vec::new();
        for topic in &request.topic_data {
            assert_eq!(topic.name, "t");
            let mut partition_responses = Vec::new();
            for data in &topic.partition_data {
                let outcome = match fault {
                    Fault::Refuse(code) => Err(*code),
                    _ => state.append(data.index, data.records.clone().unwrap(), broker),
                };
                partition_responses.push(PartitionProduceResponse {
                    index: data.index,
                    error_code: outcome.err().unwrap_or(ErrorCode::None).into(),
                    base_offset: outcome.unwrap_or(-1),
                    ..Default::default()
                });
            }
            responses.push(TopicProduceResponse {
                name: topic.name.clone(),
                partition_responses,
                ..Default::default()
            });
        }
        self.grown.notify_waiters();
        ProduceResponse { responses, ..Default::default() }
    }

    async fn fetch(
        &self,
        request: &FetchRequest,
        version: i16,
        broker: usize,
        fault: &Fault,
    ) -> FetchResponse {
        let wait = Duration::from_millis(request.max_wait_ms as u64);
        let grown = async {
            loop {
                let mut grown = std::pin::pin!(self.grown.notified());
                grown.as_mut().enable();
                let response = self.fetch_now(request, version, broker, fault);
                let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
                let mut worth = partitions.filter(|data| {
                    data.error_code != 0 || data.records.as_ref().is_some_and(|records| !records.is_empty())
                });
                if worth.next().is_some() {
                    return response;
                }
                grown.await;
            }
        };
        match timeout(wait, grown).await {
            Ok(response) => response,
            Err(_) => self.fetch_now(request, version, broker, fault),
        }
    }

    fn fetch_now(&self, request: &FetchRequest, version: i16, broker: usize, fault: &Fault) -> FetchResponse {
        let state = self.state.lock();
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let at = asked.partition as usize;
                let log = &state.logs[at];
                let code = match fault {
                    Fault::Refuse(code) => *code,
                    _ if state.leaders[at] != broker => ErrorCode::NotLeaderOrFollower,
                    _ if !(log.start..=log.end).contains(&asked.fetch_offset) => ErrorCode::OffsetOutOfRange,
                    _ => ErrorCode::None,
                };
                let records = match code {
                    ErrorCode::None => {
                        log.read(asked.fetch_offset, asked.partition_max_bytes as usize, version)
                    }
                    _ => Bytes::new(),
                };
                PartitionData {
                    partition_index: asked.partition,
                    error_code: code.into(),
                    high_watermark: log.end,
                    records: Some(records),
                    ..Default::default()
                }
            });
            FetchableTopicResponse {
                topic: topic.topic.clone(),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        FetchResponse { responses: topics.collect(), ..Default::default() }
    }

    fn list_offsets(
        &self,
        request: &ListOffsetsRequest,
        version: i16,
        broker: usize,
        fault: &Fault,
    ) -> ListOffsetsResponse {
        let state = self.state.lock();
        let topics = request.topics.iter().map(|topic| {
            let partitions = topic.partitions.iter().map(|asked| {
                let at = asked.partition_index as usize;
                let log = &state.logs[at];
                let code = match fault {
                    Fault::Refuse(code) => *code,
                    _ if state.leaders[at] != broker => ErrorCode::NotLeaderOrFollower,
                    _ => ErrorCode::None,
                };
                let offset = if asked.timestamp == -2 { log.start } else { log.end };
                ListOffsetsPartitionResponse {
                    partition_index: asked.partition_index,
                    error_code: code.into(),
                    old_style_offsets: if version == 0 { vec![offset] } else { Vec::new() },
                    offset: if version == 0 { -1 } else { offset },
                    ..Default::default()
                }
            });
            ListOffsetsTopicResponse {
                name: topic.name.clone(),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        ListOffsetsResponse { topics: topics.collect(), ..Default::default() }
    }
}

impl State {
    /// As a broker would: duplicates are known, gaps refused.
    fn append(&mut self, partition: i32, records: Bytes, broker: usize) -> Result<i64, ErrorCode> {
        let at = partition as usize;
        if self.leaders[at] != broker {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let log = &mut self.logs[at];
        let base = log.end;
        for entry in Batches::new(&records) {
            let entry = entry.unwrap();
            entry.check_crc().unwrap();
            let header = entry.header();
            if header.length > self.batch_bytes_max {
                return Err(ErrorCode::MessageTooLarge);
            }
            if header.has_producer_id() {
                let key = (header.producer_id.0, header.producer_epoch.0);
                let known = log.producers.entry(key).or_default();
                let (first_sequence, last_sequence) = (header.base_sequence, header.last_sequence());
                let same = |known: &&Known| {
                    known.first_sequence == first_sequence && known.last_sequence == last_sequence
                };
                if let Some(duplicate) = known.iter().find(same) {
                    return Ok(duplicate.base_offset);
                }
                // A broker that has not seen the producer before begins with any number.
                let expected =
                    known.back().map_or(first_sequence, |last| add_to_sequence(last.last_sequence, 1));
                if first_sequence != expected {
                    return Err(ErrorCode::OutOfOrderSequenceNumber);
                }
                known.push_back(Known { first_sequence, last_sequence, base_offset: log.end });
                if known.len() > 5 {
                    known.pop_front();
                }
            }
            // Wrappers of the old formats count as one record here, which is enough for these tests.
            let count = i64::from(header.last_offset_delta) + 1;
            let mut bytes = BytesMut::from(entry.bytes());
            set_base_offset(&mut bytes, Offset(log.end));
            log.entries.push((Offset(log.end), Offset(log.end + count), bytes.freeze()));
            log.end += count;
        }
        Ok(base)
    }
}

impl Log {
    fn read(&self, from: i64, max: usize, version: i16) -> Bytes {
        let mut out = BytesMut::new();
        for (_, end, bytes) in self.entries.iter().filter(|(_, end, _)| end.0 > from) {
            let _ = end;
            if version >= 3 && !out.is_empty() && out.len() + bytes.len() > max {
                break;
            }
            out.extend_from_slice(bytes);
            if out.len() >= max {
                break;
            }
        }
        // Old versions cut wherever the limit falls.
        if version < 3 {
            out.truncate(max);
        }
        out.freeze()
    }

    /// The values in the log, decompressed, in order.
    pub fn values(&self) -> Vec<String> {
        let mut values = Vec::new();
        for (.., bytes) in &self.entries {
            for entry in Batches::new(bytes) {
                let records = entry.unwrap().records(1 << 20).unwrap();
                for record in records.iter().unwrap() {
                    values.push(String::from_utf8(record.unwrap().value.unwrap().to_vec()).unwrap());
                }
            }
        }
        values
    }

    pub fn magic(&self) -> Option<Magic> {
        let (.., bytes) = self.entries.first()?;
        Some(Batches::new(bytes).next()?.unwrap().header().magic)
    }
}

enum Reply {
    Frame(Bytes),
    Silence,
    HangUp,
}

fn reply<M: Message>(key: ApiKey, version: i16, correlation: i32, response: &M) -> Reply {
    let mut out = BytesMut::new();
    frame::encode_response(&mut out, key, version, correlation, response).unwrap();
    Reply::Frame(out.freeze())
}

fn read<M: Message>(body: &mut Decoder, version: i16) -> M {
    let message = M::decode(body, version).unwrap();
    body.finish().unwrap();
    message
}

/// Options under which nothing waits long.
pub fn quick() -> ClientOptions {
    ClientOptions {
        connection: ConnectionOptions { client_id: "test".to_owned(), ..ConnectionOptions::default() },
        retry_backoff: Duration::from_millis(1),
        retry_backoff_max: Duration::from_millis(5),
        unknown_topic_wait: Duration::from_millis(20),
        ..ClientOptions::default()
    }
}

pub fn topic() -> TopicName {
    TopicName::new("t").unwrap()
}

pub fn partition(number: i32) -> TopicPartition {
    TopicPartition::new(topic(), number)
}
