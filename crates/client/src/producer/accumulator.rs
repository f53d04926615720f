//! Records on their way out: which batch they go to, which batch goes next, and what becomes of it.
//!
//! ```text
//! append -> open -> closed -> (sender) in flight -> completed
//!                     ^-------- returned ----'
//! ```
//!
//! No sockets and no clock: the sender passes the time in, and takes batches out. Batches of one partition leave in the order of
//! their records and, with idempotence, carry consecutive sequence numbers. When one comes back, nothing of its
//! partition leaves until all that was in flight there has come back; then it goes on from the oldest.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use ottla_model::{BrokerId, ProducerEpoch, ProducerId, Timestamp, TopicName, TopicPartition};
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::Compression;
use ottla_protocol::records::batch::{add_to_sequence, seal};
use ottla_protocol::records::{Batch as RecordBatch, BatchBuilder, ProducerState, RecordHeader};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use super::delivery::{Appended, BatchReport, Completion, Delivery};
use super::error::ProduceError;
use crate::backoff::Backoff;
use crate::error::ClientError;
use crate::metadata::Topic;
use crate::partitioner::{StickyPartition, partition_for_key};

/// Limit of a batch that is decompressed again; no open batch is larger.
pub(super) const DECOMPRESSED_BYTES_MAX: usize = i32::MAX as usize;

/// What a batch is allowed to become.
#[derive(Debug, Clone)]
pub(super) struct Limits {
    pub batch_bytes: usize,
    /// Of one record in a batch of its own.
    pub record_bytes_max: usize,
    pub linger: Duration,
    pub delivery_timeout: Duration,
    pub compression: Compression,
}

/// A record without its topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct Content<'a> {
    /// `None` leaves the choice to the key, or without a key to the accumulator.
    pub partition: Option<i32>,
    pub timestamp: Timestamp,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: &'a [RecordHeader<'a>],
}

impl Content<'_> {
    /// Bytes of the record, give or take some.
    fn size(&self) -> usize {
        const OVERHEAD: usize = 10;
        let length = |bytes: Option<&[u8]>| bytes.map_or(0, <[u8]>::len);
        let headers = self.headers.iter().map(|header| header.key.len() + length(header.value));
        OVERHEAD + length(self.key) + length(self.value) + headers.sum::<usize>()
    }
}

/// What [`Accumulator::append`] did.
#[derive(Debug)]
pub(super) enum Outcome {
    /// The topic has to be looked up, see [`Accumulator::learn`].
    NeedsTopic,
    /// `wake`: the sender has something new to send or to wait for.
    Accepted { delivery: Delivery, wake: bool },
    /// A new batch is needed, and memory for `bytes` of it must be had first.
    NeedsMemory { bytes: u32 },
}

#[derive(Debug)]
pub(super) struct Accumulator {
    limits: Limits,
    backoff: Backoff,
    memory: Arc<Semaphore>,
    topics: Vec<TopicQueues>,
    by_name: HashMap<TopicName, usize>,
    /// The topic of the last record: nearly always that of the next.
    last_topic: usize,
    queues: Vec<Queue>,
    /// The queues with something to send, in turn; each is here once.
    busy: VecDeque<usize>,
    identity: Identity,
    in_flight: usize,
    next_batch: u64,
    /// Batches without an outcome, and in how many parts they are.
    incomplete: BTreeMap<u64, usize>,
    /// Completed batches that have not been reported; `None` if nobody listens.
    reports: Option<Vec<BatchReport>>,
    /// What goes wrong on the way to the brokers, for the errors of what times out over it.
    pub trouble: Option<Arc<ClientError>>,
    /// Open batches up to this one do not linger.
    flush_through: Option<u64>,
    seed: u64,
}

#[derive(Debug)]
struct TopicQueues {
    known: Arc<Topic>,
    /// Of the metadata that `known` is from.
    generation: u64,
    sticky: StickyPartition,
    /// By partition number: the index of its queue.
    by_partition: Vec<Option<usize>>,
}

#[derive(Debug)]
struct Queue {
    partition: TopicPartition,
    open: Option<Open>,
    /// Full, lingered or returned, oldest first.
    closed: VecDeque<Batch>,
    /// The batches that the sender holds, at most one for each request under way.
    in_flight: Vec<BatchId>,
    /// Shrinks when the broker finds a batch too large.
    batch_bytes: usize,
    /// A batch came back: those after it come back first, or are known to be written.
    recovering: bool,
    next_sequence: i32,
    /// Whether the broker has taken a batch under the present identity. A broker that has not seen a producer before takes any number from
    /// it, so until then only one batch is in flight: if it were refused, the next would take its place.
    introduced: bool,
    not_before: Option<Instant>,
    backoff: Backoff,
    is_busy: bool,
}

#[derive(Debug)]
struct Open {
    id: u64,
    builder: BatchBuilder,
    completion: Arc<Completion>,
    opened: Instant,
    memory: OwnedSemaphorePermit,
}

/// Orders the batches of a partition: by when they were opened, and the parts of one by their first records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct BatchId {
    opened: u64,
    first_record: i32,
}

/// A batch that takes no more records. Whoever holds it completes it or gives it back.
#[derive(Debug)]
pub(super) struct Batch {
    pub partition: TopicPartition,
    pub record_count: i32,
    id: BatchId,
    queue: usize,
    content: BatchContent,
    completion: Arc<Completion>,
    opened: Instant,
    /// Under whom and with which number it was sent.
    stamp: Option<Stamp>,
    last_error: Option<ErrorCode>,
    memory: OwnedSemaphorePermit,
}

#[derive(Debug)]
enum BatchContent {
    Records(Box<BatchBuilder>),
    /// With the stamp that the bytes carry.
    Encoded(Bytes, Option<Stamp>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    id: ProducerId,
    epoch: ProducerEpoch,
    sequence: i32,
}

/// Whether batches are numbered, and under which producer id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Identity {
    /// No idempotence.
    Off,
    /// A new id must be had before anything is sent.
    Wanted,
    Known(ProducerId, ProducerEpoch),
}

/// How far a broker got with a batch.
#[derive(Debug)]
pub(super) enum Verdict {
    Written(Appended),
    Refused {
        code: ErrorCode,
        error: ProduceError,
    },
    /// Never sent, or sent and not answered.
    Unknown(ErrorCode),
}

/// What [`Accumulator::take`] gives the sender.
#[derive(Debug, Default)]
pub(super) struct Taken {
    /// With the broker that each goes to.
    pub batches: Vec<(BrokerId, Batch)>,
    /// When to look again, if nothing else happens.
    pub next: Option<Instant>,
}

/// Where a batch may go at the moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Route {
    To(BrokerId),
    /// The receiver cannot take more, or is not known; whatever changes that wakes the sender.
    Blocked,
}

impl Accumulator {
    pub fn new(
        limits: Limits,
        backoff: Backoff,
        memory: Arc<Semaphore>,
        identity: Identity,
        reporting: bool,
        seed: u64,
    ) -> Accumulator {
        Accumulator {
            limits,
            backoff,
            memory,
            topics: Vec::new(),
            by_name: HashMap::new(),
            last_topic: 0,
            queues: Vec::new(),
            busy: VecDeque::new(),
            identity,
            in_flight: 0,
            next_batch: 0,
            incomplete: BTreeMap::new(),
            reports: reporting.then(Vec::new),
            trouble: None,
            flush_through: None,
            seed,
        }
    }

    /// Takes note of a topic's partitions as of a generation of the metadata.
    pub fn learn(&mut self, known: Arc<Topic>, generation: u64) {
        if let Some(index) = self.by_name.get(&known.name) {
            let topic = &mut self.topics[*index];
            topic.known = known;
            topic.generation = generation;
            return;
        }
        self.seed = self.seed.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(0x1405_7b7e_f767_814f);
        self.by_name.insert(known.name.clone(), self.topics.len());
        self.topics.push(TopicQueues {
            known,
            generation,
            sticky: StickyPartition::new(self.seed),
            by_partition: Vec::new(),
        });
    }

    fn topic_index(&mut self, name: &TopicName) -> Option<usize> {
        if self.topics.get(self.last_topic).is_some_and(|last| last.known.name == *name) {
            return Some(self.last_topic);
        }
        self.last_topic = *self.by_name.get(name)?;
        Some(self.last_topic)
    }

    /// The queue of the partition that the record goes to; `None` if there is no such partition.
    fn queue_index(&mut self, topic: usize, record: &Content<'_>) -> Option<usize> {
        let fresh = self.queues.len();
        let topic = &mut self.topics[topic];
        let partitions = topic.known.partitions.len() as i32;
        let partition = match (record.partition, record.key) {
            (Some(partition), _) => partition,
            (None, Some(key)) => partition_for_key(key, partitions),
            (None, None) => {
                let available = &topic.known.available;
                topic.sticky.choose(record.size(), self.limits.batch_bytes, available, partitions)
            }
        };
        if !(0..partitions).contains(&partition) {
            return None;
        }
        let at = partition as usize;
        if topic.by_partition.len() <= at {
            topic.by_partition.resize(at + 1, None);
        }
        if let Some(index) = topic.by_partition[at] {
            return Some(index);
        }
        topic.by_partition[at] = Some(fresh);
        self.queues.push(Queue {
            partition: TopicPartition::new(topic.known.name.clone(), partition),
            open: None,
            closed: VecDeque::new(),
            in_flight: Vec::new(),
            batch_bytes: self.limits.batch_bytes,
            recovering: false,
            next_sequence: 0,
            introduced: false,
            not_before: None,
            backoff: self.backoff.clone(),
            is_busy: false,
        });
        Some(fresh)
    }

    /// Appends a record to its partition's open batch, or to a new one. `generation` is that of the metadata as of now.
    ///
    /// A new batch reserves memory: what `permit` brings, else what is free at once.
    pub fn append(
        &mut self,
        topic: &TopicName,
        record: Content<'_>,
        generation: u64,
        permit: &mut Option<OwnedSemaphorePermit>,
        now: impl FnOnce() -> Instant,
    ) -> Result<Outcome, ProduceError> {
        let topic = self.topic_index(topic).filter(|topic| self.topics[*topic].generation == generation);
        let Some(topic) = topic else { return Ok(Outcome::NeedsTopic) };
        let Some(index) = self.queue_index(topic, &record) else {
            let known = &self.topics[topic].known;
            let partition = record.partition.unwrap_or_default();
            let (topic, partitions) = (known.name.to_string(), known.partitions.len());
            return Err(ClientError::UnknownPartition { topic, partition, partitions }.into());
        };
        let queue = &mut self.queues[index];
        let Content { timestamp, key, value, headers, .. } = record;
        if let Some(open) = &mut queue.open {
            let size = open.builder.size_with(timestamp, key, value, headers);
            if size <= queue.batch_bytes {
                let delivery = open.append(record);
                return Ok(Outcome::Accepted { delivery, wake: size == queue.batch_bytes });
            }
        }
        let alone = BatchBuilder::new().size_with(timestamp, key, value, headers);
        if alone > self.limits.record_bytes_max {
            return Err(ProduceError::RecordTooLarge { size: alone, limit: self.limits.record_bytes_max });
        }
        let bytes = alone.max(queue.batch_bytes);
        let memory = match permit.take() {
            Some(permit) => permit,
            None => {
                let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
                match self.memory.clone().try_acquire_many_owned(bytes) {
                    Ok(permit) => permit,
                    Err(_) => return Ok(Outcome::NeedsMemory { bytes }),
                }
            }
        };
        let full = queue.open.take().map(|open| open.close(queue.partition.clone(), index));
        let closed_one = full.is_some();
        queue.closed.extend(full);
        let id = self.next_batch;
        self.next_batch += 1;
        self.incomplete.insert(id, 1);
        let builder = BatchBuilder::new().with_compression(self.limits.compression).with_capacity(bytes);
        let completion = Arc::new(Completion::new(queue.partition.clone()));
        let mut open = Open { id, builder, completion, opened: now(), memory };
        let delivery = open.append(record);
        queue.open = Some(open);
        let newly_busy = !queue.is_busy;
        if newly_busy {
            queue.is_busy = true;
            self.busy.push_back(index);
        }
        Ok(Outcome::Accepted { delivery, wake: closed_one || newly_busy })
    }

    /// Takes what may be sent now, at most one batch of each partition, as far as `route` lets it.
    ///
    /// Batches that waited longer than the delivery timeout fail here.
    pub fn take(&mut self, now: Instant, mut route: impl FnMut(&TopicPartition, usize) -> Route) -> Taken {
        let mut taken = Taken::default();
        let look_at = |next: &mut Option<Instant>, when: Instant| {
            *next = Some(next.map_or(when, |next| next.min(when)));
        };
        for _ in 0..self.busy.len() {
            let Some(index) = self.busy.pop_front() else { break };
            self.expire(index, now);
            if let Some(oldest) = self.queues[index].oldest() {
                look_at(&mut taken.next, oldest + self.limits.delivery_timeout);
            }
            match self.next_of(index, now, &mut route) {
                Next::Batch(broker, batch) => taken.batches.push((broker, batch)),
                Next::Later(when) => look_at(&mut taken.next, when),
                Next::Blocked => {}
            }
            let queue = &mut self.queues[index];
            if queue.oldest().is_some() {
                self.busy.push_back(index);
            } else {
                queue.is_busy = false;
            }
        }
        taken
    }

    /// The oldest batch of a queue, if it may go.
    fn next_of(
        &mut self,
        index: usize,
        now: Instant,
        route: &mut impl FnMut(&TopicPartition, usize) -> Route,
    ) -> Next {
        let queue = &mut self.queues[index];
        let alone = queue.recovering || matches!(self.identity, Identity::Known(..)) && !queue.introduced;
        if self.identity == Identity::Wanted || alone && !queue.in_flight.is_empty() {
            return Next::Blocked;
        }
        if let Some(when) = queue.not_before.filter(|when| *when > now) {
            return Next::Later(when);
        }
        queue.not_before = None;
        queue.recovering = false;
        let size = match (queue.closed.front(), &queue.open) {
            (Some(batch), _) => batch.size(),
            (None, None) => return Next::Blocked,
            (None, Some(open)) => {
                let size = open.builder.size();
                let flushed = self.flush_through.is_some_and(|through| open.id <= through);
                // Whoever waits for memory waits for what lingers here.
                let short = self.memory.available_permits() < self.limits.batch_bytes;
                let due = open.opened + self.limits.linger;
                if !flushed && !short && size < queue.batch_bytes && due > now {
                    return Next::Later(due);
                }
                size
            }
        };
        let Route::To(broker) = route(&queue.partition, size) else { return Next::Blocked };
        let open = queue.open.take_if(|_| queue.closed.is_empty());
        let closed = open.map(|open| open.close(queue.partition.clone(), index));
        let Some(mut batch) = closed.or_else(|| queue.closed.pop_front()) else { return Next::Blocked };
        batch.stamp(self.identity, &mut queue.next_sequence);
        queue.in_flight.push(batch.id);
        self.in_flight += 1;
        Next::Batch(broker, batch)
    }

    fn expire(&mut self, index: usize, now: Instant) {
        let timeout = self.limits.delivery_timeout;
        let queue = &mut self.queues[index];
        if let Some(open) = queue.open.take_if(|open| open.opened + timeout <= now) {
            queue.closed.push_back(open.close(queue.partition.clone(), index));
        }
        let expired = queue.closed.partition_point(|batch| batch.opened + timeout <= now);
        for batch in queue.closed.drain(..expired).collect::<Vec<Batch>>() {
            let error = ProduceError::TimedOut {
                partition: batch.partition.clone(),
                after: timeout,
                last: batch.last_error,
                trouble: self.trouble.clone(),
            };
            // A number that may or may not be taken makes all that follow it uncertain.
            if batch.stamp.is_some() {
                self.lose_identity();
            }
            self.finish(batch, Err(error));
        }
    }

    /// What became of a batch that [`Accumulator::take`] gave out. Returns whether the metadata needs a refresh.
    pub fn settle(&mut self, batch: Batch, verdict: Verdict, now: Instant) -> bool {
        let queue = &mut self.queues[batch.queue];
        queue.in_flight.retain(|id| *id != batch.id);
        self.in_flight -= 1;
        match verdict {
            Verdict::Written(appended) => {
                queue.backoff.succeeded();
                queue.introduced = true;
                self.finish(batch, Ok(appended));
                false
            }
            Verdict::Unknown(code) => {
                self.give_back(batch, code, now);
                true
            }
            Verdict::Refused { code, error } => match self.reaction(&batch, code) {
                Reaction::Written => {
                    self.finish(batch, Ok(Appended { base_offset: None, append_time: None }));
                    false
                }
                Reaction::Retry => {
                    self.give_back(batch, code, now);
                    code.is_stale_metadata()
                }
                Reaction::RetryUnderNewIdentity => {
                    tracing::warn!(partition = %batch.partition, %code, "the broker lost count of this producer's batches");
                    self.lose_identity();
                    self.give_back(batch, code, now);
                    false
                }
                Reaction::Split => {
                    // The broker did not take its number, so those of later batches leave a hole.
                    if batch.stamp.is_some() {
                        self.lose_identity();
                    }
                    self.split(batch, now);
                    false
                }
                Reaction::Fail => {
                    if batch.stamp.is_some() {
                        self.lose_identity();
                    }
                    self.finish(batch, Err(error));
                    false
                }
            },
        }
    }

    fn reaction(&self, batch: &Batch, code: ErrorCode) -> Reaction {
        let queue = &self.queues[batch.queue];
        match code {
            // Written before, so long ago that the broker no longer knows where.
            ErrorCode::DuplicateSequenceNumber if batch.stamp.is_some() => Reaction::Written,
            ErrorCode::OutOfOrderSequenceNumber if batch.stamp.is_some() => {
                // It came too early only because one before it did not get through, or is not there yet.
                let returned = queue.closed.front().is_some_and(|first| first.id < batch.id);
                let early = returned || queue.in_flight.iter().any(|id| *id < batch.id);
                if early { Reaction::Retry } else { Reaction::RetryUnderNewIdentity }
            }
            ErrorCode::UnknownProducerId
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping
                if batch.stamp.is_some() =>
            {
                Reaction::RetryUnderNewIdentity
            }
            ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge if batch.record_count > 1 => {
                Reaction::Split
            }
            code if code.is_retriable() => Reaction::Retry,
            _ => Reaction::Fail,
        }
    }

    /// Puts a batch that is too large for the topic back in two halves, and keeps later ones as small as these.
    fn split(&mut self, batch: Batch, now: Instant) {
        let queue = &mut self.queues[batch.queue];
        queue.batch_bytes = (batch.size() / 2).clamp(1, queue.batch_bytes);
        tracing::debug!(partition = %batch.partition, records = batch.record_count, "batch too large, split");
        if let Some(parts) = self.incomplete.get_mut(&batch.id.opened) {
            *parts += 1;
        }
        for half in batch.halves(self.limits.compression) {
            self.give_back(half, ErrorCode::MessageTooLarge, now);
        }
    }

    /// Puts a batch back where it belongs by its age.
    fn give_back(&mut self, mut batch: Batch, code: ErrorCode, now: Instant) {
        batch.last_error = Some(code);
        let index = batch.queue;
        let queue = &mut self.queues[index];
        if !queue.recovering {
            queue.recovering = true;
            queue.not_before = Some(now + queue.backoff.failed());
        }
        let at = queue.closed.partition_point(|other| other.id < batch.id);
        queue.closed.insert(at, batch);
        if !queue.is_busy {
            queue.is_busy = true;
            self.busy.push_back(index);
        }
    }

    fn finish(&mut self, batch: Batch, outcome: Result<Appended, ProduceError>) {
        if let Entry::Occupied(mut parts) = self.incomplete.entry(batch.id.opened) {
            *parts.get_mut() -= 1;
            if *parts.get() == 0 {
                parts.remove();
            }
        }
        if let Some(reports) = &mut self.reports {
            reports.push(BatchReport {
                partition: batch.partition.clone(),
                record_count: batch.record_count,
                opened: batch.opened,
                outcome: outcome.clone().map(|appended| appended.base_offset),
            });
        }
        batch.completion.complete(outcome);
    }

    /// The batches completed since the last call, if anyone wants reports.
    pub fn take_reports(&mut self) -> Vec<BatchReport> {
        self.reports.as_mut().map(std::mem::take).unwrap_or_default()
    }

    fn lose_identity(&mut self) {
        if matches!(self.identity, Identity::Known(..)) {
            self.identity = Identity::Wanted;
        }
    }

    /// Whether a new producer id is needed, and nothing is in flight under the old one.
    pub fn needs_identity(&self) -> bool {
        self.identity == Identity::Wanted && self.in_flight == 0
    }

    /// Numbers start over in every partition. What waits is numbered again: a batch whose answer was lost may then be written
    /// twice, but only after a batch before it was lost for good.
    pub fn set_identity(&mut self, identity: Identity) {
        self.identity = identity;
        for queue in &mut self.queues {
            queue.next_sequence = 0;
            queue.introduced = false;
            for batch in &mut queue.closed {
                batch.stamp = None;
            }
        }
    }

    /// Fails everything that waits, such as when no producer id can be had.
    pub fn fail_waiting(&mut self, error: &ProduceError) {
        for index in std::mem::take(&mut self.busy) {
            let queue = &mut self.queues[index];
            queue.is_busy = false;
            let open = queue.open.take().map(|open| open.close(queue.partition.clone(), index));
            let waiting: Vec<Batch> = queue.closed.drain(..).chain(open).collect();
            for batch in waiting {
                self.finish(batch, Err(error.clone()));
            }
        }
    }

    /// Everything appended so far leaves without lingering. Returns the last batch of it.
    pub fn flush(&mut self) -> Option<u64> {
        self.flush_through = self.next_batch.checked_sub(1);
        self.flush_through
    }

    /// Whether every batch up to `through` has been written or has failed.
    pub fn is_flushed(&self, through: u64) -> bool {
        self.incomplete.first_key_value().is_none_or(|(first, _)| *first > through)
    }

    pub fn is_empty(&self) -> bool {
        self.incomplete.is_empty()
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    Written,
    Retry,
    RetryUnderNewIdentity,
    /// Again in two halves.
    Split,
    Fail,
}

/// What [`Accumulator::next_of`] found.
#[derive(Debug)]
enum Next {
    Batch(BrokerId, Batch),
    Later(Instant),
    /// Until something comes back, is appended, or changes at the brokers.
    Blocked,
}

impl Queue {
    /// When the oldest batch that waits here was opened.
    fn oldest(&self) -> Option<Instant> {
        self.closed.front().map(|batch| batch.opened).or(self.open.as_ref().map(|open| open.opened))
    }
}

impl Open {
    fn append(&mut self, record: Content<'_>) -> Delivery {
        let index = self.builder.record_count();
        self.builder.append(record.timestamp, record.key, record.value, record.headers);
        Delivery::new(self.completion.clone(), index)
    }

    fn close(self, partition: TopicPartition, queue: usize) -> Batch {
        Batch {
            partition,
            record_count: self.builder.record_count(),
            id: BatchId { opened: self.id, first_record: 0 },
            queue,
            content: BatchContent::Records(Box::new(self.builder)),
            completion: self.completion,
            opened: self.opened,
            stamp: None,
            last_error: None,
            memory: self.memory,
        }
    }
}

impl Batch {
    /// Bytes before compression, or after it once that is done.
    fn size(&self) -> usize {
        match &self.content {
            BatchContent::Records(builder) => builder.size(),
            BatchContent::Encoded(bytes, _) => bytes.len(),
        }
    }

    /// Numbers the batch, unless it has been under the same identity, and compresses it when it goes out first.
    fn stamp(&mut self, identity: Identity, next_sequence: &mut i32) {
        if let Identity::Known(id, epoch) = identity
            && self.stamp.is_none()
        {
            self.stamp = Some(Stamp { id, epoch, sequence: *next_sequence });
            *next_sequence = add_to_sequence(*next_sequence, self.record_count);
        }
        let producer = self.stamp.map_or(ProducerState::NONE, |stamp| ProducerState {
            id: stamp.id,
            epoch: stamp.epoch,
            base_sequence: stamp.sequence,
        });
        match &mut self.content {
            BatchContent::Records(builder) => {
                builder.set_producer(producer);
                self.content = BatchContent::Encoded(builder.finish(), self.stamp);
            }
            BatchContent::Encoded(bytes, stamp) if *stamp != self.stamp => {
                let mut renumbered = BytesMut::from(std::mem::take(bytes));
                write_producer(&mut renumbered, producer);
                self.content = BatchContent::Encoded(renumbered.freeze(), self.stamp);
            }
            BatchContent::Encoded(..) => {}
        }
    }

    /// The first and the second half of the records, to be numbered anew. Each completes its own part of the batch's completion.
    fn halves(mut self, compression: Compression) -> [Batch; 2] {
        let bytes = self.bytes();
        let whole = RecordBatch::parse(&bytes).ok().flatten().expect("the batch was built here");
        let middle = self.record_count / 2;
        let mut builders = [(); 2].map(|()| BatchBuilder::new().with_compression(compression));
        let records = whole.records(DECOMPRESSED_BYTES_MAX).expect("the batch was built here");
        let mut headers = Vec::new();
        for (at, record) in (0..).zip(records.iter().expect("the batch was built here")) {
            let record = record.expect("the batch was built here");
            headers.clear();
            headers.extend(record.headers);
            builders[usize::from(at >= middle)].append(record.timestamp, record.key, record.value, &headers);
        }
        let memory = self.memory.split(self.memory.num_permits() / 2).expect("half of them are there");
        let [first, second] = self.completion.split(middle);
        let [first_builder, second_builder] = builders;
        let half = |builder: BatchBuilder, completion, first_record, memory| Batch {
            partition: self.partition.clone(),
            record_count: builder.record_count(),
            id: BatchId { opened: self.id.opened, first_record: self.id.first_record + first_record },
            queue: self.queue,
            content: BatchContent::Records(Box::new(builder)),
            completion,
            opened: self.opened,
            stamp: None,
            last_error: self.last_error,
            memory,
        };
        let second = half(second_builder, second, middle, memory);
        [half(first_builder, first, 0, self.memory), second]
    }

    /// The batch as it goes out.
    pub fn bytes(&self) -> Bytes {
        match &self.content {
            BatchContent::Encoded(bytes, _) => bytes.clone(),
            BatchContent::Records(_) => unreachable!("a batch is encoded when it is taken"),
        }
    }
}

/// Puts another producer into an encoded batch.
fn write_producer(batch: &mut [u8], producer: ProducerState) {
    const ID: std::ops::Range<usize> = 43..51;
    const EPOCH: std::ops::Range<usize> = 51..53;
    const BASE_SEQUENCE: std::ops::Range<usize> = 53..57;
    batch[ID].copy_from_slice(&producer.id.0.to_be_bytes());
    batch[EPOCH].copy_from_slice(&producer.epoch.0.to_be_bytes());
    batch[BASE_SEQUENCE].copy_from_slice(&producer.base_sequence.to_be_bytes());
    seal(batch, &[]);
}

#[cfg(test)]
mod tests {
    use ottla_model::Offset;
    use ottla_protocol::messages::MetadataResponse;
    use ottla_protocol::messages::metadata::{MetadataResponsePartition, MetadataResponseTopic};
    use ottla_protocol::records::Batches;

    use super::*;
    use crate::metadata::Metadata;

    const KNOWN: Identity = Identity::Known(ProducerId(7), ProducerEpoch(0));

    fn accumulator(identity: Identity, linger: Duration) -> Accumulator {
        let limits = Limits {
            // One record of a byte fits, two do not.
            batch_bytes: 70,
            record_bytes_max: 1000,
            linger,
            delivery_timeout: Duration::from_secs(100),
            compression: Compression::NONE,
        };
        let backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(10));
        let memory = Arc::new(Semaphore::new(1 << 20));
        let mut accumulator = Accumulator::new(limits, backoff, memory, identity, false, 1);
        let partition = MetadataResponsePartition::default();
        let topic = MetadataResponseTopic {
            name: Some("t".into()),
            partitions: vec![
                partition.clone(),
                MetadataResponsePartition { partition_index: 1, ..partition },
            ],
            ..Default::default()
        };
        let response = MetadataResponse { topics: vec![topic], ..Default::default() };
        accumulator.learn(Metadata::default().updated(&response).topics["t"].clone(), 1);
        accumulator
    }

    fn append(accumulator: &mut Accumulator, partition: i32, value: &str, now: Instant) -> (Delivery, bool) {
        let topic = TopicName::new("t").unwrap();
        let content = Content {
            partition: Some(partition),
            timestamp: Timestamp(0),
            key: None,
            value: Some(value.as_bytes()),
            headers: &[],
        };
        match accumulator.append(&topic, content, 1, &mut None, || now).unwrap() {
            Outcome::Accepted { delivery, wake } => (delivery, wake),
            outcome => panic!("there is a topic and memory: {outcome:?}"),
        }
    }

    fn take(accumulator: &mut Accumulator, now: Instant) -> Vec<Batch> {
        let taken = accumulator.take(now, |_, _| Route::To(BrokerId(1)));
        taken.batches.into_iter().map(|(_, batch)| batch).collect()
    }

    /// Takes until nothing more may go, as the sender does.
    fn take_all(accumulator: &mut Accumulator, now: Instant) -> Vec<Batch> {
        std::iter::repeat_with(|| take(accumulator, now))
            .take_while(|taken| !taken.is_empty())
            .flatten()
            .collect()
    }

    /// Has one record written, so that the broker knows the producer.
    fn introduce(accumulator: &mut Accumulator, now: Instant) {
        append(accumulator, 0, "x", now);
        let batch = take(accumulator, now).remove(0);
        accumulator.settle(batch, written(0), now);
    }

    /// The only value of a batch, and its sequence number.
    fn shown(batch: &Batch) -> (String, i32) {
        let bytes = batch.bytes();
        let entry = Batches::new(&bytes).next().unwrap().unwrap();
        entry.check_crc().unwrap();
        let records = entry.records(100).unwrap();
        let record = records.iter().unwrap().next().unwrap().unwrap();
        (String::from_utf8(record.value.unwrap().to_vec()).unwrap(), entry.header().base_sequence)
    }

    fn written(base_offset: i64) -> Verdict {
        Verdict::Written(Appended { base_offset: Some(Offset(base_offset)), append_time: None })
    }

    fn refused(code: ErrorCode) -> Verdict {
        Verdict::Refused { code, error: ProduceError::Closed }
    }

    #[tokio::test]
    async fn what_a_batch_becomes_follows_from_the_brokers_answer() {
        use ErrorCode::{
            DuplicateSequenceNumber, InvalidProducerEpoch, MessageTooLarge, NotEnoughReplicas,
            NotLeaderOrFollower, OutOfOrderSequenceNumber, TopicAuthorizationFailed, UnknownProducerId,
        };
        // The second of two batches in flight; what becomes of it when the first was written, and when it came back.
        for (why, code, after_written, after_returned) in [
            ("another leader may take it", NotLeaderOrFollower, "again", "again"),
            ("replicas may come back", NotEnoughReplicas, "again", "again"),
            (
                "too early behind one that came back, lost if nothing is missing",
                OutOfOrderSequenceNumber,
                "anew",
                "again",
            ),
            ("the broker forgot the producer", UnknownProducerId, "anew", "anew"),
            ("another life of the producer id", InvalidProducerEpoch, "anew", "anew"),
            ("it was there before", DuplicateSequenceNumber, "done", "done"),
            ("one record that is too large stays so", MessageTooLarge, "failed", "failed"),
            ("no permission", TopicAuthorizationFailed, "failed", "failed"),
        ] {
            for (first_is, expected) in [("written", after_written), ("returned", after_returned)] {
                let now = Instant::now();
                let mut accumulator = accumulator(KNOWN, Duration::ZERO);
                introduce(&mut accumulator, now);
                append(&mut accumulator, 0, "a", now);
                let (delivery, _) = append(&mut accumulator, 0, "b", now);
                let [a, b] = <[Batch; 2]>::try_from(take_all(&mut accumulator, now)).unwrap();
                let first = if first_is == "written" { written(0) } else { refused(NotEnoughReplicas) };
                accumulator.settle(a, first, now);
                accumulator.settle(b, refused(code), now);
                let became = match delivery.outcome() {
                    Some(Ok(_)) => "done",
                    Some(Err(_)) => "failed",
                    None if accumulator.needs_identity() => "anew",
                    None => "again",
                };
                assert_eq!(became, expected, "{why} ({code:?}), the first was {first_is}");
            }
        }
    }

    #[tokio::test]
    async fn batches_that_come_back_leave_again_in_order_with_their_numbers() {
        let now = Instant::now();
        let mut accumulator = accumulator(KNOWN, Duration::ZERO);
        introduce(&mut accumulator, now);
        for value in ["a", "b", "c", "d"] {
            append(&mut accumulator, 0, value, now);
        }
        let mut sent = take_all(&mut accumulator, now);
        let numbered = [("a", 1), ("b", 2), ("c", 3), ("d", 4)].map(|(value, at)| (value.to_owned(), at));
        assert_eq!(sent.iter().map(shown).collect::<Vec<_>>(), numbered);

        // b comes back; nothing leaves before c and d are back as well.
        accumulator.settle(sent.remove(0), written(0), now);
        accumulator.settle(sent.remove(0), refused(ErrorCode::NotEnoughReplicas), now);
        append(&mut accumulator, 0, "e", now);
        let later = now + Duration::from_secs(1);
        assert!(take(&mut accumulator, later).is_empty(), "two are still in flight");
        accumulator.settle(sent.remove(1), refused(ErrorCode::OutOfOrderSequenceNumber), now);
        accumulator.settle(sent.remove(0), refused(ErrorCode::OutOfOrderSequenceNumber), now);
        assert!(take(&mut accumulator, now).is_empty(), "a little later");
        let again = take_all(&mut accumulator, later);
        let numbered = [("b", 2), ("c", 3), ("d", 4), ("e", 5)].map(|(value, at)| (value.to_owned(), at));
        assert_eq!(again.iter().map(shown).collect::<Vec<_>>(), numbered);
    }

    #[tokio::test]
    async fn until_the_broker_knows_the_producer_one_batch_is_in_flight() {
        let now = Instant::now();
        let mut accumulator = accumulator(KNOWN, Duration::ZERO);
        append(&mut accumulator, 0, "a", now);
        append(&mut accumulator, 0, "b", now);
        append(&mut accumulator, 0, "c", now);
        let first = take_all(&mut accumulator, now).remove(0);
        assert!(
            take(&mut accumulator, now).is_empty(),
            "a broker would take b for the first if a did not get through"
        );
        accumulator.settle(first, written(0), now);
        assert_eq!(take_all(&mut accumulator, now).len(), 2);
    }

    #[tokio::test]
    async fn under_a_new_identity_numbers_start_over_everywhere() {
        let now = Instant::now();
        let mut accumulator = accumulator(KNOWN, Duration::ZERO);
        append(&mut accumulator, 0, "a", now);
        append(&mut accumulator, 1, "b", now);
        let [a, b] = <[Batch; 2]>::try_from(take_all(&mut accumulator, now)).unwrap();
        accumulator.settle(a, refused(ErrorCode::UnknownProducerId), now);
        assert!(!accumulator.needs_identity(), "b may still be written under the old one");
        append(&mut accumulator, 1, "c", now);
        assert!(take(&mut accumulator, now).is_empty());
        accumulator.settle(b, written(0), now);
        assert!(accumulator.needs_identity());
        accumulator.set_identity(Identity::Known(ProducerId(8), ProducerEpoch(0)));
        let again = take_all(&mut accumulator, now + Duration::from_secs(1));
        let mut shown: Vec<(String, i32)> = again.iter().map(shown).collect();
        shown.sort();
        assert_eq!(shown, [("a".to_owned(), 0), ("c".to_owned(), 0)]);
        let bytes = again[0].bytes();
        let header = *Batches::new(&bytes).next().unwrap().unwrap().header();
        assert_eq!(header.producer_id, ProducerId(8));
    }

    #[tokio::test]
    async fn nothing_leaves_before_there_is_a_producer_id() {
        let now = Instant::now();
        let mut accumulator = accumulator(Identity::Wanted, Duration::ZERO);
        append(&mut accumulator, 0, "a", now);
        assert!(accumulator.needs_identity());
        assert!(take(&mut accumulator, now).is_empty());
        accumulator.set_identity(KNOWN);
        assert_eq!(take(&mut accumulator, now).len(), 1);
    }

    #[tokio::test]
    async fn a_batch_lingers_until_it_is_due_full_or_flushed() {
        let linger = Duration::from_millis(500);
        for (why, second, flush, after, sent) in [
            ("it waits for company", None, false, Duration::ZERO, 0),
            ("until it is due", None, false, linger, 1),
            ("or until company does not fit", Some("b"), false, Duration::ZERO, 1),
            ("or until someone flushes", None, true, Duration::ZERO, 1),
        ] {
            let now = Instant::now();
            let mut accumulator = accumulator(Identity::Off, linger);
            assert!(append(&mut accumulator, 0, "a", now).1, "the sender has to know when it is due");
            if let Some(second) = second {
                assert!(append(&mut accumulator, 0, second, now).1);
            }
            if flush {
                accumulator.flush();
            }
            assert_eq!(take(&mut accumulator, now + after).len(), sent, "{why}");
        }
    }

    #[tokio::test]
    async fn a_batch_that_is_never_taken_is_given_up_in_time() {
        let now = Instant::now();
        let mut accumulator = accumulator(KNOWN, Duration::ZERO);
        let (delivery, _) = append(&mut accumulator, 0, "a", now);
        let nowhere = |_: &TopicPartition, _| Route::Blocked;
        let taken = accumulator.take(now, nowhere);
        assert_eq!(taken.next, Some(now + Duration::from_secs(100)));
        assert!(delivery.outcome().is_none());
        accumulator.take(now + Duration::from_secs(100), nowhere);
        assert!(matches!(delivery.outcome(), Some(Err(ProduceError::TimedOut { .. }))));
        assert!(accumulator.is_empty());
        assert!(!accumulator.needs_identity(), "it was never sent, so no number is in doubt");
    }

    #[tokio::test]
    async fn an_unacknowledged_batch_that_is_given_up_puts_the_numbers_in_doubt() {
        let now = Instant::now();
        let mut accumulator = accumulator(KNOWN, Duration::ZERO);
        append(&mut accumulator, 0, "a", now);
        let batch = take(&mut accumulator, now).remove(0);
        accumulator.settle(batch, Verdict::Unknown(ErrorCode::NetworkException), now);
        accumulator.take(now + Duration::from_secs(100), |_, _| Route::To(BrokerId(1)));
        assert!(accumulator.needs_identity());
    }
}
