//! The producer: records into batches, batches to their leaders, each acknowledged once.

mod accumulator;
mod delivery;
mod error;
mod sender;

use std::hash::{BuildHasher, RandomState};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ottla_model::{Timestamp, TopicName};
use ottla_protocol::compression::Compression;
use ottla_protocol::records::RecordHeader;
use parking_lot::Mutex;
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout};

pub use self::delivery::{BatchReport, Delivery, RecordMetadata};
pub use self::error::ProduceError;

use self::accumulator::{Accumulator, Content, Identity, Limits, Outcome};
use self::sender::Sender;
use crate::client::Client;
use crate::error::ClientError;

/// How many replicas must have a record before it counts as delivered: `acks`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Acks {
    /// Nobody answers; delivered means handed to the network.
    None,
    Leader,
    /// All in-sync replicas.
    All,
}

impl Acks {
    fn on_the_wire(self) -> i16 {
        match self {
            Acks::None => 0,
            Acks::Leader => 1,
            Acks::All => -1,
        }
    }
}

/// How many batches back a broker knows duplicates.
const IN_FLIGHT_MAX_IDEMPOTENT: usize = 5;

/// Hears of every batch that completes, from the sending task: it must not block.
pub type OnBatch = Arc<dyn Fn(&BatchReport) + Send + Sync>;

/// Named after the producer's properties; the defaults are those of Kafka's own client.
#[derive(Clone)]
pub struct ProducerOptions {
    pub acks: Acks,
    /// Whether retries write nothing twice and keep the order: `enable.idempotence`. `None`: where acks is `All`, at most 5 requests are in flight, and the
    /// broker can do it.
    pub idempotence: Option<bool>,
    pub compression: Compression,
    /// `batch.size`: an open batch is sent at the latest when it has grown to this, before compression.
    pub batch_bytes: usize,
    /// `linger.ms`: how long a batch waits for more records. Even with zero, records that arrive while the broker is busy share a batch.
    pub linger: Duration,
    /// `max.request.size`: also the largest record.
    pub request_bytes_max: usize,
    /// `buffer.memory`: all batches that are not acknowledged yet. When it is full [`Producer::send`] waits.
    pub memory_bytes_max: usize,
    /// `max.block.ms`: how long [`Producer::send`] waits for memory.
    pub block_max: Duration,
    /// `max.in.flight.requests.per.connection`. Without idempotence only 1 keeps the order when a request fails.
    pub in_flight_max: usize,
    /// `request.timeout.ms`: what a broker is given to replicate a batch.
    pub request_timeout: Duration,
    /// `delivery.timeout.ms`: after which a record is given up, tries and all.
    pub delivery_timeout: Duration,
    pub on_batch: Option<OnBatch>,
}

impl Default for ProducerOptions {
    fn default() -> ProducerOptions {
        ProducerOptions {
            acks: Acks::All,
            idempotence: None,
            compression: Compression::NONE,
            batch_bytes: 16 << 10,
            linger: Duration::ZERO,
            request_bytes_max: 1 << 20,
            memory_bytes_max: 32 << 20,
            block_max: Duration::from_secs(60),
            in_flight_max: 5,
            request_timeout: Duration::from_secs(30),
            delivery_timeout: Duration::from_secs(120),
            on_batch: None,
        }
    }
}

impl std::fmt::Debug for ProducerOptions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProducerOptions")
            .field("acks", &self.acks)
            .field("idempotence", &self.idempotence)
            .field("compression", &self.compression)
            .field("batch_bytes", &self.batch_bytes)
            .field("linger", &self.linger)
            .finish_non_exhaustive()
    }
}

/// A record to send; everything is borrowed until [`Producer::send`] returns.
#[derive(Debug, Clone, Copy)]
pub struct ProducerRecord<'a> {
    pub topic: &'a TopicName,
    /// `None` leaves the choice to the key, or without a key to the producer.
    pub partition: Option<i32>,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: &'a [RecordHeader<'a>],
    /// `None` is now.
    pub timestamp: Option<Timestamp>,
}

impl<'a> ProducerRecord<'a> {
    pub fn new(topic: &'a TopicName, key: Option<&'a [u8]>, value: Option<&'a [u8]>) -> ProducerRecord<'a> {
        ProducerRecord { topic, partition: None, key, value, headers: &[], timestamp: None }
    }
}

/// Sends records; share it by reference.
///
/// Without [`Producer::close`] or [`Producer::flush`] records that are on their way when the program ends are lost with it. A dropped
/// producer still sends what it has, as long as the runtime lives.
#[derive(Debug)]
pub struct Producer {
    shared: Arc<Shared>,
    sender: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    client: Client,
    options: ProducerOptions,
    accumulator: Mutex<Accumulator>,
    memory: Arc<Semaphore>,
    /// Rings for the sender: something new to send, or the end.
    wake: Notify,
    /// Rings for those who flush, after batches completed.
    progress: Notify,
    closing: AtomicBool,
}

impl Producer {
    /// Starts the sending task on the current runtime.
    pub fn start(client: Client, options: ProducerOptions) -> Result<Producer, ProduceError> {
        let possible = options.acks == Acks::All && options.in_flight_max <= IN_FLIGHT_MAX_IDEMPOTENT;
        if options.idempotence == Some(true) && !possible {
            return Err(ProduceError::IdempotenceImpossible { max: IN_FLIGHT_MAX_IDEMPOTENT });
        }
        let idempotent = options.idempotence.unwrap_or(possible);
        let identity = if idempotent { Identity::Wanted } else { Identity::Off };
        let memory = Arc::new(Semaphore::new(options.memory_bytes_max.min(Semaphore::MAX_PERMITS)));
        let limits = Limits {
            batch_bytes: options.batch_bytes.min(options.memory_bytes_max),
            record_bytes_max: options.request_bytes_max.min(options.memory_bytes_max),
            linger: options.linger,
            delivery_timeout: options.delivery_timeout,
            compression: options.compression,
        };
        // Producers that start together should not choose the same partitions.
        let seed = RandomState::new().hash_one(std::process::id());
        let accumulator = Accumulator::new(
            limits,
            client.backoff(),
            memory.clone(),
            identity,
            options.on_batch.is_some(),
            seed,
        );
        let shared = Arc::new(Shared {
            client,
            options,
            accumulator: Mutex::new(accumulator),
            memory,
            wake: Notify::new(),
            progress: Notify::new(),
            closing: AtomicBool::new(false),
        });
        let sender = tokio::spawn(Sender::new(shared.clone()).run());
        Ok(Producer { shared, sender: Some(sender) })
    }

    /// Hands a record over. Returns as soon as it is in a batch, which is at once unless the topic has to be looked up or memory is full.
    ///
    /// Records of one caller and one partition keep their order.
    pub async fn send(&self, record: ProducerRecord<'_>) -> Result<Delivery, ProduceError> {
        let shared = &self.shared;
        if shared.closing.load(Ordering::Relaxed) {
            return Err(ProduceError::Closed);
        }
        let ProducerRecord { topic, partition, key, value, headers, timestamp } = record;
        let timestamp = timestamp.unwrap_or_else(now);
        let content = Content { partition, timestamp, key, value, headers };
        let mut permit = None;
        loop {
            let generation = shared.client.generation();
            let outcome =
                shared.accumulator.lock().append(topic, content, generation, &mut permit, Instant::now)?;
            match outcome {
                Outcome::Accepted { delivery, wake } => {
                    if wake {
                        shared.wake.notify_one();
                    }
                    return Ok(delivery);
                }
                Outcome::NeedsTopic => {
                    let known = shared.client.topic(topic).await?;
                    shared.accumulator.lock().learn(known, generation);
                }
                Outcome::NeedsMemory { bytes } => {
                    // What lingers may leave early now, and bring its memory back.
                    shared.wake.notify_one();
                    let waited = shared.options.block_max;
                    let room = shared.memory.clone().acquire_many_owned(bytes);
                    let full = || ProduceError::MemoryFull { bytes: bytes as usize, waited };
                    permit = match timeout(waited, room).await {
                        Ok(Ok(permit)) => Some(permit),
                        Ok(Err(_)) => return Err(ProduceError::Closed),
                        Err(_) => return Err(shared.explain(full())),
                    };
                }
            }
        }
    }

    /// Sends everything without lingering, and waits until it is acknowledged or given up.
    pub async fn flush(&self) {
        let shared = &self.shared;
        let Some(through) = shared.accumulator.lock().flush() else { return };
        shared.wake.notify_one();
        loop {
            let mut progress = std::pin::pin!(shared.progress.notified());
            progress.as_mut().enable();
            if shared.accumulator.lock().is_flushed(through) {
                return;
            }
            progress.await;
        }
    }

    /// Flushes and ends the sending task.
    pub async fn close(mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.flush().await;
        self.shared.wake.notify_one();
        if let Some(sender) = self.sender.take()
            && let Err(error) = sender.await
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }

    /// What went wrong last on the way to the brokers; the producer keeps trying meanwhile.
    pub fn last_trouble(&self) -> Option<Arc<ClientError>> {
        self.shared.accumulator.lock().trouble.clone()
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::Relaxed);
        self.shared.accumulator.lock().flush();
        self.shared.wake.notify_one();
    }
}

impl Shared {
    fn is_finished(&self) -> bool {
        self.closing.load(Ordering::Relaxed) && self.accumulator.lock().is_empty()
    }

    /// Wakes those who flush, and tells of completed batches.
    fn completed(&self) {
        self.progress.notify_waiters();
        if let Some(on_batch) = &self.options.on_batch {
            let reports = self.accumulator.lock().take_reports();
            reports.iter().for_each(|report| on_batch(report));
        }
    }

    fn trouble(&self, error: &ClientError) {
        let mut accumulator = self.accumulator.lock();
        if accumulator.trouble.as_deref() != Some(error) {
            tracing::warn!(%error, "cannot send for now");
            accumulator.trouble = Some(Arc::new(error.clone()));
        }
    }

    /// The reason behind a time-out, if there is one.
    fn explain(&self, error: ProduceError) -> ProduceError {
        match self.accumulator.lock().trouble.clone() {
            Some(trouble) => ProduceError::Client(trouble),
            None => error,
        }
    }
}

fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
