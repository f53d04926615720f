//! The task that carries batches to the brokers and the answers back.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use ottla_model::{BrokerId, Offset, ProducerEpoch, ProducerId, Timestamp, TopicName, TopicPartition};
use ottla_protocol::compression::{Codec, Compression};
use ottla_protocol::messages::produce::{PartitionProduceData, PartitionProduceResponse, TopicProduceData};
use ottla_protocol::messages::{
    InitProducerIdRequest, InitProducerIdResponse, ProduceRequest, ProduceResponse,
};
use ottla_protocol::records::{Batch as RecordBatch, Magic, MessageSetBuilder};
use ottla_protocol::{ErrorCode, Str};
use tokio::time::{Instant, sleep, sleep_until};

use super::accumulator::{Batch, DECOMPRESSED_BYTES_MAX, Identity, Route, Taken, Verdict};
use super::delivery::Appended;
use super::error::ProduceError;
use super::{Acks, Shared};
use crate::backoff::Backoff;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::{ClientError, ConnectionError, error_code};

/// Newer versions name topics by id and change nothing else for a producer.
const PRODUCE_VERSION_MAX: i16 = 12;

/// The oldest version that takes batches of magic 2, and that takes zstd.
const PRODUCE_VERSION_BATCHES: i16 = 3;
const PRODUCE_VERSION_ZSTD: i16 = 7;

/// Bytes of a produce request beside its batches: a bound for the header and for each batch's topic and partition.
const REQUEST_OVERHEAD: usize = 512;

/// How much longer than the broker's own limit its answer may take.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

pub(super) struct Sender {
    shared: Arc<Shared>,
    links: HashMap<BrokerId, Link>,
    events: FuturesUnordered<BoxFuture<'static, Event>>,
    refreshing: bool,
    asking_identity: bool,
    refresh_backoff: Backoff,
    identity_backoff: Backoff,
}

/// The way to one broker.
#[derive(Debug, Default)]
struct Link {
    connection: Option<Connection>,
    connecting: bool,
    in_flight: usize,
}

/// What the sender waits for.
enum Event {
    Connected(BrokerId, Result<Connection, ClientError>),
    Answered {
        broker: BrokerId,
        batches: Vec<Batch>,
        outcome: Result<Option<ProduceResponse>, ConnectionError>,
    },
    Refreshed(Result<(), ClientError>),
    Identified(Result<InitProducerIdResponse, ClientError>),
}

impl Sender {
    pub fn new(shared: Arc<Shared>) -> Sender {
        let backoff = shared.client.backoff();
        Sender {
            links: HashMap::new(),
            events: FuturesUnordered::new(),
            refreshing: false,
            asking_identity: false,
            refresh_backoff: backoff.clone(),
            identity_backoff: backoff,
            shared,
        }
    }

    /// Runs until the producer is closed and everything is delivered or given up.
    pub async fn run(mut self) {
        loop {
            let next = self.send_what_may_go().await;
            self.shared.completed();
            if self.shared.is_finished() {
                return;
            }
            if self.shared.client.is_stale() {
                self.refresh();
            }
            let shared = self.shared.clone();
            tokio::select! {
                biased;
                Some(event) = self.events.next(), if !self.events.is_empty() => self.handle(event),
                () = shared.wake.notified() => {}
                () = sleep_until(next.unwrap_or_else(Instant::now)), if next.is_some() => {}
            }
        }
    }

    /// Sends requests until no batch may go. Returns when to look again.
    async fn send_what_may_go(&mut self) -> Option<Instant> {
        loop {
            let Taken { batches, next } = self.take();
            self.identify_if_needed();
            if batches.is_empty() {
                return next;
            }
            let mut requests: HashMap<BrokerId, Vec<Batch>> = HashMap::new();
            for (broker, batch) in batches {
                requests.entry(broker).or_default().push(batch);
            }
            for (broker, batches) in requests {
                self.send(broker, batches).await;
            }
        }
    }

    /// The batches of the next round of requests, one request to each broker at most.
    fn take(&mut self) -> Taken {
        let shared = self.shared.clone();
        let metadata = shared.client.metadata();
        let options = &shared.options;
        let mut lost = false;
        let mut wanted: Vec<BrokerId> = Vec::new();
        let mut bytes: HashMap<BrokerId, usize> = HashMap::new();
        let taken = {
            let links = &self.links;
            let route = |partition: &TopicPartition, size: usize| {
                let leader = metadata.leader(&partition.topic, partition.partition);
                let Some((broker, _)) = leader.filter(|(broker, _)| metadata.brokers.contains_key(broker))
                else {
                    lost = true;
                    return Route::Blocked;
                };
                let link = links.get(&broker);
                let Some(link) = link.filter(|link| link.is_open()) else {
                    if link.is_none_or(|link| !link.connecting) && !wanted.contains(&broker) {
                        wanted.push(broker);
                    }
                    return Route::Blocked;
                };
                let bytes = bytes.entry(broker).or_insert(REQUEST_OVERHEAD);
                let size = size + REQUEST_OVERHEAD;
                // A batch that is alone may be over the limit by the overhead.
                let fits = *bytes == REQUEST_OVERHEAD || *bytes + size <= options.request_bytes_max;
                if link.in_flight >= options.in_flight_max || !fits {
                    return Route::Blocked;
                }
                *bytes += size;
                Route::To(broker)
            };
            shared.accumulator.lock().take(Instant::now(), route)
        };
        if lost {
            self.refresh();
        }
        for broker in wanted {
            self.connect(broker);
        }
        taken
    }

    async fn send(&mut self, broker: BrokerId, batches: Vec<Batch>) {
        let Some(link) = self.links.get_mut(&broker) else { return };
        let Some(connection) = link.connection.clone() else { return };
        link.in_flight += 1;
        let options = &self.shared.options;
        let version = match connection.version_of::<ProduceRequest>(PRODUCE_VERSION_MAX) {
            Ok(version) => version,
            Err(error) => return self.events.push(answered(broker, batches, Err(error))),
        };
        let (batches, request) = match self.shared.request(version, batches) {
            (batches, Some(request)) => (batches, request),
            (_, None) => {
                link.in_flight -= 1;
                return;
            }
        };
        if options.acks == Acks::None {
            let sent = connection.submit_unanswered(&request, version);
            self.events.push(Box::pin(async move {
                let outcome = match sent {
                    Ok(()) => connection.drained().await.map(|()| None),
                    Err(error) => Err(error),
                };
                Event::Answered { broker, batches, outcome }
            }));
            return;
        }
        let patience = options.request_timeout + ANSWER_GRACE;
        match connection.submit(&request, version).await {
            Ok(response) => self.events.push(Box::pin(async move {
                let outcome = response.within(patience).await.map(Some);
                Event::Answered { broker, batches, outcome }
            })),
            Err(error) => self.events.push(answered(broker, batches, Err(error))),
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected(broker, outcome) => {
                let link = self.links.entry(broker).or_default();
                link.connecting = false;
                match outcome {
                    Ok(connection) => link.connection = Some(connection),
                    Err(error) => {
                        self.shared.trouble(&error);
                        self.refresh();
                    }
                }
            }
            Event::Answered { broker, batches, outcome } => {
                if let Some(link) = self.links.get_mut(&broker) {
                    link.in_flight -= 1;
                }
                if self.shared.settle(batches, outcome) {
                    self.refresh();
                }
            }
            Event::Refreshed(outcome) => {
                self.refreshing = false;
                match outcome {
                    Ok(()) => self.refresh_backoff.succeeded(),
                    Err(error) => {
                        self.shared.trouble(&error);
                        self.refresh();
                    }
                }
            }
            Event::Identified(outcome) => {
                self.asking_identity = false;
                self.identified(outcome);
            }
        }
    }

    fn connect(&mut self, broker: BrokerId) {
        let link = self.links.entry(broker).or_default();
        link.connection = None;
        link.connecting = true;
        let client = self.shared.client.clone();
        self.events.push(Box::pin(async move { Event::Connected(broker, client.broker(broker).await) }));
    }

    /// Renews the metadata, a little later if that was just done in vain.
    fn refresh(&mut self) {
        if self.refreshing {
            return;
        }
        self.refreshing = true;
        let client = self.shared.client.clone();
        let wait = self.refresh_backoff.failed();
        self.events.push(Box::pin(async move {
            let seen = client.metadata().generation;
            sleep(wait).await;
            Event::Refreshed(client.refresh(seen).await)
        }));
    }

    fn identify_if_needed(&mut self) {
        if self.asking_identity || !self.shared.accumulator.lock().needs_identity() {
            return;
        }
        self.asking_identity = true;
        let client = self.shared.client.clone();
        self.events.push(Box::pin(async move { Event::Identified(init_producer_id(&client).await) }));
    }

    fn identified(&mut self, outcome: Result<InitProducerIdResponse, ClientError>) {
        let shared = &self.shared;
        let code = match outcome {
            Ok(response) => match error_code(response.error_code) {
                ErrorCode::None => {
                    let id = ProducerId(response.producer_id);
                    let epoch = ProducerEpoch(response.producer_epoch);
                    tracing::debug!(producer_id = %id, producer_epoch = %epoch, "idempotent producer");
                    self.identity_backoff.succeeded();
                    shared.accumulator.lock().set_identity(Identity::Known(id, epoch));
                    return;
                }
                code => code,
            },
            Err(ClientError::Connection(ConnectionError::UnsupportedVersion { .. })) => {
                ErrorCode::UnsupportedVersion
            }
            Err(error) if error.is_retriable() => {
                shared.trouble(&error);
                ErrorCode::NetworkException
            }
            Err(error) => {
                shared.accumulator.lock().fail_waiting(&error.into());
                return self.identify_later();
            }
        };
        if code.is_retriable() {
            self.identify_later();
        } else if shared.options.idempotence.is_none()
            && matches!(code, ErrorCode::UnsupportedVersion | ErrorCode::ClusterAuthorizationFailed)
        {
            // Brokers before 0.11, or a principal that may only write.
            tracing::info!(%code, "no idempotence: a retry may write a record twice");
            shared.accumulator.lock().set_identity(Identity::Off);
        } else {
            let error = ClientError::refused("InitProducerId", code, None);
            shared.accumulator.lock().fail_waiting(&error.into());
            // An operator may give the permission at any time.
            self.identify_later();
        }
    }

    fn identify_later(&mut self) {
        self.asking_identity = true;
        let wait = self.identity_backoff.failed();
        let client = self.shared.client.clone();
        self.events.push(Box::pin(async move {
            sleep(wait).await;
            Event::Identified(init_producer_id(&client).await)
        }));
    }
}

impl Link {
    fn is_open(&self) -> bool {
        self.connection.as_ref().is_some_and(|connection| !connection.is_closed())
    }
}

fn answered(
    broker: BrokerId,
    batches: Vec<Batch>,
    outcome: Result<Option<ProduceResponse>, ConnectionError>,
) -> BoxFuture<'static, Event> {
    Box::pin(std::future::ready(Event::Answered { broker, batches, outcome }))
}

async fn init_producer_id(client: &Client) -> Result<InitProducerIdResponse, ClientError> {
    let connection = client.any_broker().await?;
    // Without a transactional id the timeout has no meaning, but brokers check it.
    let request = InitProducerIdRequest {
        transactional_id: None,
        transaction_timeout_ms: 60_000,
        ..Default::default()
    };
    Ok(connection.request(&request).await?)
}

impl Shared {
    /// The request for batches that the version can carry; those that it cannot carry fail here.
    fn request(&self, version: i16, batches: Vec<Batch>) -> (Vec<Batch>, Option<ProduceRequest>) {
        let codec = self.options.compression.codec();
        let mut sent = Vec::with_capacity(batches.len());
        let mut topics: HashMap<TopicName, Vec<PartitionProduceData>> = HashMap::new();
        for batch in batches {
            let partition = batch.partition.clone();
            let records = if version >= PRODUCE_VERSION_BATCHES {
                if codec == Codec::Zstd && version < PRODUCE_VERSION_ZSTD {
                    Err(ProduceError::CodecUnsupported { partition, codec })
                } else {
                    Ok(batch.bytes())
                }
            } else {
                let magic = if version == 2 { Magic::V1 } else { Magic::V0 };
                older_format(&batch, magic, self.options.compression)
            };
            match records {
                Ok(records) => {
                    let data = PartitionProduceData {
                        index: batch.partition.partition,
                        records: Some(records),
                        ..Default::default()
                    };
                    match topics.entry(batch.partition.topic.clone()) {
                        Entry::Occupied(mut partitions) => partitions.get_mut().push(data),
                        Entry::Vacant(topic) => {
                            topic.insert(vec![data]);
                        }
                    }
                    sent.push(batch);
                }
                Err(error) => {
                    let code = ErrorCode::UnsupportedForMessageFormat;
                    self.accumulator.lock().settle(batch, Verdict::Refused { code, error }, Instant::now());
                }
            }
        }
        if sent.is_empty() {
            return (sent, None);
        }
        let topic_data = topics
            .into_iter()
            .map(|(name, partition_data)| TopicProduceData {
                name: Str::from(name.as_str()),
                partition_data,
                ..Default::default()
            })
            .collect();
        let request = ProduceRequest {
            acks: self.options.acks.on_the_wire(),
            timeout_ms: millis(self.options.request_timeout),
            topic_data,
            ..Default::default()
        };
        (sent, Some(request))
    }

    /// Tells the accumulator what became of a request's batches. Returns whether the metadata needs a refresh.
    fn settle(&self, batches: Vec<Batch>, outcome: Result<Option<ProduceResponse>, ConnectionError>) -> bool {
        let now = Instant::now();
        if let Err(error) = &outcome {
            self.trouble(&error.clone().into());
        }
        let mut accumulator = self.accumulator.lock();
        let response = match outcome {
            Ok(Some(response)) => response,
            Ok(None) => {
                for batch in batches {
                    let appended = Appended { base_offset: None, append_time: None };
                    accumulator.settle(batch, Verdict::Written(appended), now);
                }
                return false;
            }
            Err(error) => {
                let retriable = error.is_retriable();
                let failure = ProduceError::from(ClientError::from(error));
                for batch in batches {
                    let verdict = if retriable {
                        Verdict::Unknown(ErrorCode::NetworkException)
                    } else {
                        Verdict::Refused { code: ErrorCode::UnknownServerError, error: failure.clone() }
                    };
                    accumulator.settle(batch, verdict, now);
                }
                return retriable;
            }
        };
        accumulator.trouble = None;
        let mut answers: HashMap<(&str, i32), &PartitionProduceResponse> = HashMap::new();
        for topic in &response.responses {
            for partition in &topic.partition_responses {
                answers.insert((&topic.name, partition.index), partition);
            }
        }
        let mut refresh = false;
        for batch in batches {
            let key = (batch.partition.topic.as_str(), batch.partition.partition);
            let verdict = match answers.get(&key) {
                Some(answer) => verdict(&batch.partition, answer),
                // An answer that leaves a batch out does not say that it was not written.
                None => Verdict::Unknown(ErrorCode::UnknownServerError),
            };
            refresh |= accumulator.settle(batch, verdict, now);
        }
        refresh
    }
}

fn verdict(partition: &TopicPartition, answer: &PartitionProduceResponse) -> Verdict {
    match error_code(answer.error_code) {
        ErrorCode::None => Verdict::Written(Appended {
            base_offset: (answer.base_offset >= 0).then_some(Offset(answer.base_offset)),
            append_time: (answer.log_append_time_ms >= 0).then_some(Timestamp(answer.log_append_time_ms)),
        }),
        code => {
            // What is wrong with the first bad record says more than the message of the whole batch.
            let first = answer.record_errors.first().and_then(|bad| bad.batch_index_error_message.as_deref());
            let message = first.or(answer.error_message.as_deref()).map(Arc::from);
            let partition = partition.clone();
            Verdict::Refused { code, error: ProduceError::Refused { partition, code, message } }
        }
    }
}

/// The batch as a set of messages, for brokers before 0.11.
fn older_format(batch: &Batch, magic: Magic, compression: Compression) -> Result<bytes::Bytes, ProduceError> {
    let partition = || batch.partition.clone();
    if compression.codec() == Codec::Zstd {
        return Err(ProduceError::CodecUnsupported { partition: partition(), codec: Codec::Zstd });
    }
    let bytes = batch.bytes();
    let corrupt =
        |_| ProduceError::Refused { partition: partition(), code: ErrorCode::CorruptMessage, message: None };
    let parsed = RecordBatch::parse(&bytes).ok().flatten().expect("a batch that was just built is whole");
    let records = parsed.records(DECOMPRESSED_BYTES_MAX).map_err(corrupt)?;
    let mut set = MessageSetBuilder::new(magic, compression);
    for record in records.iter().map_err(corrupt)? {
        let record = record.map_err(corrupt)?;
        if !record.headers.is_empty() {
            return Err(ProduceError::HeadersUnsupported { partition: partition() });
        }
        set.append(record.offset, record.timestamp, record.key, record.value);
    }
    Ok(set.finish())
}

fn millis(duration: Duration) -> i32 {
    i32::try_from(duration.as_millis()).unwrap_or(i32::MAX)
}
