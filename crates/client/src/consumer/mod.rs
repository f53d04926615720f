//! The consumer: partitions that the caller assigns, read from their leaders.

mod error;
mod fetched;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};
use ottla_model::{BrokerId, LeaderEpoch, Offset, ProducerId, TopicName, TopicPartition};
use ottla_protocol::messages::fetch::{FetchPartition, FetchTopic, PartitionData};
use ottla_protocol::messages::{FetchRequest, FetchResponse};
use ottla_protocol::{ErrorCode, Str};
use tokio::time::{Instant, sleep, sleep_until};

pub use self::error::ConsumeError;
pub use self::fetched::Fetched;

use self::fetched::{Aborted, Arrival};
use crate::backoff::Backoff;
use crate::client::Client;
use crate::connection::Connection;
use crate::error::{ClientError, ConnectionError, error_code};
use crate::offsets::{IsolationLevel, ListedOffset, OffsetSpec, list_offsets};

/// Newer versions name topics by id, which a consumer that reads by name gains nothing from.
const FETCH_VERSION_MAX: i16 = 12;

/// Versions 3 and later send the first batch whole, whatever its size (KIP-74).
const FETCH_VERSION_WHOLE_BATCHES: i16 = 3;

/// Fetched pieces of one partition that may wait for the caller: the next one is on its way while one is worked on.
const PREFETCH: usize = 2;

/// How much longer than the wait it was told a broker may take to answer a fetch.
const ANSWER_GRACE: Duration = Duration::from_secs(30);

/// Where to go on when the position is not there: `auto.offset.reset`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetReset {
    Earliest,
    Latest,
    /// Report it.
    None,
}

/// Named after the consumer's properties; the defaults are those of Kafka's own client.
#[derive(Debug, Clone)]
pub struct ConsumerOptions {
    pub isolation: IsolationLevel,
    pub reset: OffsetReset,
    /// `fetch.min.bytes` and `fetch.max.wait.ms`: a broker answers when it has the bytes, or when the time is over.
    pub min_bytes: i32,
    pub wait_max: Duration,
    /// `fetch.max.bytes`: of one answer.
    pub bytes_max: i32,
    /// `max.partition.fetch.bytes`: of one partition in one answer. It grows by itself for larger records at brokers before 0.10.1, which
    /// cut them off.
    pub partition_bytes_max: i32,
}

impl Default for ConsumerOptions {
    fn default() -> ConsumerOptions {
        ConsumerOptions {
            isolation: IsolationLevel::ReadUncommitted,
            reset: OffsetReset::Latest,
            min_bytes: 1,
            wait_max: Duration::from_millis(500),
            bytes_max: 50 << 20,
            partition_bytes_max: 1 << 20,
        }
    }
}

/// Reads the partitions it was given.
///
/// Everything happens inside [`Consumer::poll`], except that answers arrive meanwhile: while the caller works on one piece the next is
/// on its way. Memory: at most two pieces of each partition, `partition_bytes_max` or one batch each.
#[derive(Debug)]
pub struct Consumer {
    client: Client,
    options: ConsumerOptions,
    partitions: BTreeMap<TopicPartition, Assigned>,
    links: HashMap<BrokerId, Link>,
    events: FuturesUnordered<BoxFuture<'static, Event>>,
    ready: VecDeque<Fetched>,
    errors: VecDeque<ConsumeError>,
    /// Tells one assignment or seek from the next, so that late answers go nowhere.
    next_life: u64,
    refreshing: bool,
    refresh_backoff: Backoff,
    last_trouble: Option<ClientError>,
}

#[derive(Debug)]
struct Assigned {
    life: u64,
    /// Next offset to hand out; `None` until it is known.
    position: Option<Offset>,
    state: State,
    /// A fetch or a look-up is under way.
    busy: bool,
    paused: bool,
    /// Pieces in `ready`.
    ready: usize,
    not_before: Option<Instant>,
    backoff: Backoff,
    partition_bytes: i32,
    high_watermark: Option<Offset>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The offset has to be looked up.
    Seeking(OffsetSpec),
    /// The next fetch is for this offset.
    Fetching(Offset),
    /// Stopped by an error that was reported; goes on after a seek.
    Failed,
}

/// The way to one leader, for fetches only: a broker answers in order, and a fetch may take its time.
#[derive(Debug, Default)]
struct Link {
    connection: Option<Connection>,
    connecting: bool,
    busy: bool,
}

/// A partition of a fetch that is under way.
#[derive(Debug)]
struct Asked {
    partition: TopicPartition,
    life: u64,
    offset: Offset,
    bytes: i32,
}

#[derive(Debug)]
enum Event {
    Connected(BrokerId, Result<Connection, ClientError>),
    Fetched {
        broker: BrokerId,
        asked: Vec<Asked>,
        version: i16,
        outcome: Result<FetchResponse, ConnectionError>,
    },
    Sought(Vec<(u64, TopicPartition, OffsetSpec, Result<ListedOffset, ClientError>)>),
    Refreshed(Result<(), ClientError>),
}

impl Consumer {
    pub fn new(client: Client, options: ConsumerOptions) -> Consumer {
        Consumer {
            refresh_backoff: client.backoff(),
            client,
            options,
            partitions: BTreeMap::new(),
            links: HashMap::new(),
            events: FuturesUnordered::new(),
            ready: VecDeque::new(),
            errors: VecDeque::new(),
            next_life: 0,
            refreshing: false,
            last_trouble: None,
        }
    }

    /// What went wrong last on the way to the brokers; the consumer keeps trying meanwhile. `None` after a fetch that went well.
    pub fn last_trouble(&self) -> Option<&ClientError> {
        self.last_trouble.as_ref()
    }

    fn trouble(&mut self, error: ClientError) {
        if self.last_trouble.as_ref() != Some(&error) {
            tracing::warn!(%error, "cannot read for now");
            self.last_trouble = Some(error);
        }
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    pub fn options(&self) -> &ConsumerOptions {
        &self.options
    }

    /// Reads nothing any more, until something is assigned.
    pub fn unassign(&mut self) {
        self.partitions.clear();
        self.ready.clear();
    }

    /// Replaces the assignment, positions and all.
    ///
    /// Fails if a topic or partition does not exist; nothing is changed then.
    pub async fn assign(
        &mut self,
        partitions: impl IntoIterator<Item = (TopicPartition, OffsetSpec)>,
    ) -> Result<(), ClientError> {
        let wanted: BTreeMap<TopicPartition, OffsetSpec> = partitions.into_iter().collect();
        for partition in wanted.keys() {
            self.check(&partition.topic, partition.partition).await?;
        }
        self.unassign();
        for (partition, start) in wanted {
            let assigned = self.assigned(start);
            self.partitions.insert(partition, assigned);
        }
        Ok(())
    }

    async fn check(&self, topic: &TopicName, partition: i32) -> Result<(), ClientError> {
        let known = self.client.topic(topic).await?;
        if known.partition(partition).is_some() {
            return Ok(());
        }
        let partitions = known.partitions.len();
        Err(ClientError::UnknownPartition { topic: topic.to_string(), partition, partitions })
    }

    fn assigned(&mut self, start: OffsetSpec) -> Assigned {
        let mut assigned = Assigned {
            life: 0,
            position: None,
            state: State::Failed,
            busy: false,
            paused: false,
            ready: 0,
            not_before: None,
            backoff: self.client.backoff(),
            partition_bytes: self.options.partition_bytes_max,
            high_watermark: None,
        };
        assigned.seek(start, self.life());
        assigned
    }

    fn life(&mut self) -> u64 {
        self.next_life += 1;
        self.next_life
    }

    /// What is assigned.
    pub fn assignment(&self) -> impl Iterator<Item = &TopicPartition> {
        self.partitions.keys()
    }

    /// Goes on elsewhere; what was fetched and not handed out is dropped.
    pub fn seek(&mut self, partition: &TopicPartition, start: OffsetSpec) -> Result<(), ConsumeError> {
        let life = self.life();
        let assigned = find(&mut self.partitions, partition)?;
        assigned.seek(start, life);
        self.ready.retain(|fetched| fetched.partition != *partition);
        Ok(())
    }

    /// Hands nothing of the partition out until [`Consumer::resume`].
    pub fn pause(&mut self, partition: &TopicPartition) -> Result<(), ConsumeError> {
        find(&mut self.partitions, partition)?.paused = true;
        Ok(())
    }

    pub fn resume(&mut self, partition: &TopicPartition) -> Result<(), ConsumeError> {
        find(&mut self.partitions, partition)?.paused = false;
        Ok(())
    }

    /// The next offset that [`Consumer::poll`] would hand out; `None` until it is known.
    pub fn position(&self, partition: &TopicPartition) -> Option<Offset> {
        self.partitions.get(partition)?.position
    }

    /// End of what was committed when the leader last answered.
    pub fn high_watermark(&self, partition: &TopicPartition) -> Option<Offset> {
        self.partitions.get(partition)?.high_watermark
    }

    /// Whether everything that was committed when the leaders last answered has been handed out.
    pub fn is_caught_up(&self) -> bool {
        self.partitions.values().all(|assigned| {
            assigned.position.zip(assigned.high_watermark).is_some_and(|(position, end)| position >= end)
        })
    }

    /// The next piece of some partition; `None` if none comes within `wait`.
    ///
    /// Brokers that fail are tried again for as long as it takes; only what the caller can do something about is an error, and the next
    /// call goes on with the other partitions. Dropping the future loses nothing.
    pub async fn poll(&mut self, wait: Duration) -> Result<Option<Fetched>, ConsumeError> {
        let deadline = Instant::now() + wait;
        loop {
            while let Some(Some(event)) = self.events.next().now_or_never() {
                self.handle(event);
            }
            let next = self.ask().await;
            if let Some(error) = self.errors.pop_front() {
                return Err(error);
            }
            if let Some(fetched) = self.pop_ready() {
                // The place that this frees is asked for before the caller goes to work on it.
                self.ask().await;
                return Ok(Some(fetched));
            }
            if Instant::now() >= deadline {
                return Ok(None);
            }
            let until = next.map_or(deadline, |next| next.min(deadline));
            tokio::select! {
                Some(event) = self.events.next(), if !self.events.is_empty() => self.handle(event),
                () = sleep_until(until) => {}
            }
        }
    }

    fn pop_ready(&mut self) -> Option<Fetched> {
        let partitions = &self.partitions;
        let waits = |fetched: &Fetched| !partitions.get(&fetched.partition).is_some_and(|of| of.paused);
        let at = self.ready.iter().position(waits)?;
        let fetched = self.ready.remove(at)?;
        let assigned = self.partitions.get_mut(&fetched.partition)?;
        assigned.ready -= 1;
        assigned.position = Some(fetched.end);
        Some(fetched)
    }

    /// Sends every request that may go. Returns when to look again.
    async fn ask(&mut self) -> Option<Instant> {
        let now = Instant::now();
        let metadata = self.client.metadata();
        let mut next: Option<Instant> = None;
        let mut lost = self.client.is_stale();
        let mut fetches: HashMap<BrokerId, Vec<(Asked, LeaderEpoch)>> = HashMap::new();
        let mut seeks: Vec<(u64, TopicPartition, OffsetSpec)> = Vec::new();
        for (partition, assigned) in &mut self.partitions {
            if assigned.busy || assigned.paused || assigned.ready >= PREFETCH {
                continue;
            }
            if let Some(when) = assigned.not_before.filter(|when| *when > now) {
                next = Some(next.map_or(when, |next| next.min(when)));
                continue;
            }
            assigned.not_before = None;
            let Some((leader, epoch)) = metadata.leader(&partition.topic, partition.partition) else {
                lost |= assigned.state != State::Failed;
                continue;
            };
            match assigned.state {
                State::Seeking(spec) => {
                    assigned.busy = true;
                    seeks.push((assigned.life, partition.clone(), spec));
                }
                State::Fetching(offset) => {
                    let link = self.links.entry(leader).or_default();
                    if link.busy || link.connecting {
                        continue;
                    }
                    let asked = Asked {
                        partition: partition.clone(),
                        life: assigned.life,
                        offset,
                        bytes: assigned.partition_bytes,
                    };
                    fetches.entry(leader).or_default().push((asked, epoch));
                }
                State::Failed => {}
            }
        }
        if lost {
            self.refresh();
        }
        if !seeks.is_empty() {
            self.look_up(seeks);
        }
        for (leader, asked) in fetches {
            self.fetch(leader, asked).await;
        }
        next
    }

    async fn fetch(&mut self, leader: BrokerId, asked: Vec<(Asked, LeaderEpoch)>) {
        let link = self.links.entry(leader).or_default();
        let Some(connection) = link.connection.clone().filter(|connection| !connection.is_closed()) else {
            link.connecting = true;
            let client = self.client.clone();
            self.events.push(Box::pin(async move { Event::Connected(leader, client.open(leader).await) }));
            return;
        };
        link.busy = true;
        for (asked, _) in &asked {
            if let Some(assigned) = self.partitions.get_mut(&asked.partition) {
                assigned.busy = true;
            }
        }
        let sent = match connection.version_of::<FetchRequest>(FETCH_VERSION_MAX) {
            Ok(version) => {
                let request = self.request(version, &asked);
                connection.submit(&request, version).await.map(|response| (version, response))
            }
            Err(error) => Err(error),
        };
        let patience = self.options.wait_max + ANSWER_GRACE;
        let asked = asked.into_iter().map(|(asked, _)| asked).collect();
        self.events.push(Box::pin(async move {
            let (version, outcome) = match sent {
                Ok((version, response)) => (version, response.within(patience).await),
                Err(error) => (0, Err(error)),
            };
            Event::Fetched { broker: leader, asked, version, outcome }
        }));
    }

    fn request(&self, version: i16, asked: &[(Asked, LeaderEpoch)]) -> FetchRequest {
        let mut topics: Vec<FetchTopic> = Vec::new();
        // In the order of the assignment, so that partitions of a topic are together.
        for (asked, epoch) in asked {
            let partition = FetchPartition {
                partition: asked.partition.partition,
                current_leader_epoch: epoch.0,
                fetch_offset: asked.offset.0,
                partition_max_bytes: asked.bytes,
                ..Default::default()
            };
            match topics.last_mut() {
                Some(topic) if *topic.topic == *asked.partition.topic => topic.partitions.push(partition),
                _ => topics.push(FetchTopic {
                    topic: Str::from(asked.partition.topic.as_str()),
                    partitions: vec![partition],
                    ..Default::default()
                }),
            }
        }
        FetchRequest {
            replica_id: -1,
            max_wait_ms: i32::try_from(self.options.wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: self.options.min_bytes,
            max_bytes: self.options.bytes_max,
            // Brokers before 0.11 know no transactions.
            isolation_level: if version >= 4 { self.options.isolation.on_the_wire() } else { 0 },
            topics,
            ..Default::default()
        }
    }

    fn look_up(&mut self, seeks: Vec<(u64, TopicPartition, OffsetSpec)>) {
        let client = self.client.clone();
        let isolation = self.options.isolation;
        self.events.push(Box::pin(async move {
            let wanted = seeks.iter().map(|(_, partition, spec)| (partition.clone(), *spec)).collect();
            let mut found: HashMap<TopicPartition, Result<ListedOffset, ClientError>> =
                list_offsets(&client, wanted, isolation).await.into_iter().collect();
            let sought = seeks.into_iter().filter_map(|(life, partition, spec)| {
                let found = found.remove(&partition)?;
                Some((life, partition, spec, found))
            });
            Event::Sought(sought.collect())
        }));
    }

    /// Renews the metadata, after a pause that grows while it is in vain.
    fn refresh(&mut self) {
        if self.refreshing {
            return;
        }
        self.refreshing = true;
        let client = self.client.clone();
        let seen = client.metadata().generation;
        let wait = self.refresh_backoff.failed();
        self.events.push(Box::pin(async move {
            sleep(wait).await;
            Event::Refreshed(client.refresh(seen).await)
        }));
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Connected(broker, outcome) => {
                let link = self.links.entry(broker).or_default();
                link.connecting = false;
                match outcome {
                    Ok(connection) => link.connection = Some(connection),
                    Err(error) => self.unreachable(broker, error),
                }
            }
            Event::Refreshed(outcome) => {
                self.refreshing = false;
                match outcome {
                    Ok(()) => self.refresh_backoff.succeeded(),
                    Err(error) if error.is_retriable() => {
                        self.trouble(error);
                        self.refresh();
                    }
                    Err(error) => self.errors.push_back(error.into()),
                }
            }
            Event::Sought(sought) => {
                for (life, partition, spec, found) in sought {
                    self.sought(life, &partition, spec, found);
                }
            }
            Event::Fetched { broker, asked, version, outcome } => {
                if let Some(link) = self.links.get_mut(&broker) {
                    link.busy = false;
                }
                self.fetched(asked, version, outcome);
            }
        }
    }

    /// Holds back the partitions that a broker leads: it may be back in a moment, or lose them.
    fn unreachable(&mut self, broker: BrokerId, error: ClientError) {
        let metadata = self.client.metadata();
        let now = Instant::now();
        for (partition, assigned) in &mut self.partitions {
            if metadata
                .leader(&partition.topic, partition.partition)
                .is_some_and(|(leader, _)| leader == broker)
            {
                assigned.hold_back(now);
            }
        }
        if error.is_retriable() {
            self.trouble(error);
        } else {
            self.errors.push_back(error.into());
        }
        self.refresh();
    }

    fn sought(
        &mut self,
        life: u64,
        partition: &TopicPartition,
        spec: OffsetSpec,
        found: Result<ListedOffset, ClientError>,
    ) {
        let Some(assigned) = self.partitions.get_mut(partition).filter(|assigned| assigned.life == life)
        else {
            return;
        };
        assigned.busy = false;
        match found {
            Ok(ListedOffset { offset: Some(offset), .. }) => {
                assigned.backoff.succeeded();
                assigned.state = State::Fetching(offset);
                assigned.position = Some(offset);
            }
            // Nothing is that young: what comes next will be.
            Ok(ListedOffset { offset: None, .. }) if spec != OffsetSpec::Latest => {
                assigned.state = State::Seeking(OffsetSpec::Latest);
            }
            Ok(ListedOffset { offset: None, .. }) => {
                tracing::debug!(%partition, "the broker knows no end of the partition for now");
                assigned.hold_back(Instant::now());
            }
            Err(error) if error.is_retriable() => {
                tracing::debug!(%partition, %error, "no offset for now");
                assigned.hold_back(Instant::now());
                self.refresh();
            }
            Err(source) => {
                assigned.state = State::Failed;
                let (partition, source) = (partition.clone(), Box::new(source));
                self.errors.push_back(ConsumeError::Partition { partition, source });
            }
        }
    }

    fn fetched(&mut self, asked: Vec<Asked>, version: i16, outcome: Result<FetchResponse, ConnectionError>) {
        let now = Instant::now();
        let mut asked: HashMap<(TopicName, i32), Asked> = asked
            .into_iter()
            .map(|asked| ((asked.partition.topic.clone(), asked.partition.partition), asked))
            .collect();
        asked.retain(|_, asked| {
            let assigned = self.partitions.get_mut(&asked.partition);
            assigned
                .filter(|assigned| assigned.life == asked.life)
                .map(|assigned| assigned.busy = false)
                .is_some()
        });
        let response = match outcome {
            Ok(response) => response,
            Err(error) => {
                for asked in asked.into_values() {
                    if let Some(assigned) = self.partitions.get_mut(&asked.partition) {
                        assigned.hold_back(now);
                    }
                }
                if error.is_retriable() {
                    self.trouble(error.into());
                } else {
                    self.errors.push_back(ClientError::from(error).into());
                }
                return self.refresh();
            }
        };
        let refused = error_code(response.error_code);
        self.last_trouble = None;
        for topic in response.responses {
            for data in topic.partitions {
                let Ok(name) = TopicName::new(&topic.topic) else { continue };
                if let Some(asked) = asked.remove(&(name, data.partition_index)) {
                    self.partition_fetched(&asked, version, data, now);
                }
            }
        }
        // What the broker left out is asked for again, but not in a hurry.
        for asked in asked.into_values() {
            tracing::debug!(partition = %asked.partition, code = %refused, "no answer for partition");
            if let Some(assigned) = self.partitions.get_mut(&asked.partition) {
                assigned.hold_back(now);
            }
        }
    }

    fn partition_fetched(&mut self, asked: &Asked, version: i16, data: PartitionData, now: Instant) {
        let partition = &asked.partition;
        let Some(assigned) = self.partitions.get_mut(partition) else { return };
        let code = error_code(data.error_code);
        match code {
            ErrorCode::None => {
                assigned.backoff.succeeded();
                assigned.high_watermark = Some(Offset(data.high_watermark));
                self.records_arrived(asked, version, data);
            }
            ErrorCode::OffsetOutOfRange => {
                let reset = match self.options.reset {
                    OffsetReset::Earliest => OffsetSpec::Earliest,
                    OffsetReset::Latest => OffsetSpec::Latest,
                    OffsetReset::None => {
                        assigned.state = State::Failed;
                        let error = ConsumeError::OffsetOutOfRange {
                            partition: partition.clone(),
                            offset: asked.offset,
                        };
                        return self.errors.push_back(error);
                    }
                };
                tracing::info!(%partition, offset = %asked.offset, ?reset, "offset is out of range");
                assigned.state = State::Seeking(reset);
            }
            code if code.is_retriable() => {
                tracing::debug!(%partition, %code, "fetch refused for now");
                assigned.hold_back(now);
                self.refresh();
            }
            code => {
                assigned.state = State::Failed;
                let source = ClientError::refused("fetch", code, None);
                let (partition, source) = (partition.clone(), Box::new(source));
                self.errors.push_back(ConsumeError::Partition { partition, source });
            }
        }
    }

    fn records_arrived(&mut self, asked: &Asked, version: i16, data: PartitionData) {
        let Some(assigned) = self.partitions.get_mut(&asked.partition) else { return };
        let records: Bytes = data.records.unwrap_or_default();
        let limit = self.client.options().connection.response_bytes_max;
        let partition = asked.partition.clone();
        match Arrival::of(&records, asked.offset) {
            Arrival::Nothing => {}
            Arrival::Batches { length, end } => {
                let mut aborted: Vec<Aborted> = data
                    .aborted_transactions
                    .unwrap_or_default()
                    .iter()
                    .map(|aborted| Aborted {
                        producer: ProducerId(aborted.producer_id),
                        first_offset: Offset(aborted.first_offset),
                    })
                    .collect();
                aborted.sort_by_key(|aborted| aborted.first_offset);
                assigned.ready += 1;
                assigned.state = State::Fetching(end);
                self.ready.push_back(Fetched {
                    partition,
                    batches: records.slice(..length),
                    start: asked.offset,
                    end,
                    high_watermark: Offset(data.high_watermark),
                    aborted,
                });
            }
            Arrival::Padding => {
                // Not one record that this version may see: the next place to look is one further on.
                let end = asked.offset.plus(1);
                assigned.state = State::Fetching(end);
                if assigned.ready == 0 {
                    assigned.position = Some(end);
                }
            }
            Arrival::Truncated { bytes } => {
                let wanted = bytes.max(asked.bytes as usize * 2);
                match i32::try_from(wanted) {
                    Ok(wanted) if bytes <= limit && version < FETCH_VERSION_WHOLE_BATCHES => {
                        assigned.partition_bytes = wanted;
                    }
                    _ => {
                        assigned.state = State::Failed;
                        let offset = asked.offset;
                        self.errors.push_back(ConsumeError::RecordTooLarge {
                            partition,
                            offset,
                            bytes,
                            limit,
                        });
                    }
                }
            }
            Arrival::Corrupt(source) => {
                assigned.state = State::Failed;
                let offset = asked.offset;
                self.errors.push_back(ConsumeError::Corrupt { partition, offset, source });
            }
        }
    }
}

fn find<'a>(
    partitions: &'a mut BTreeMap<TopicPartition, Assigned>,
    partition: &TopicPartition,
) -> Result<&'a mut Assigned, ConsumeError> {
    let not_assigned = || ConsumeError::NotAssigned { partition: partition.clone() };
    partitions.get_mut(partition).ok_or_else(not_assigned)
}

impl Assigned {
    fn seek(&mut self, start: OffsetSpec, life: u64) {
        self.life = life;
        self.busy = false;
        self.ready = 0;
        self.not_before = None;
        match start {
            OffsetSpec::Offset(offset) => {
                self.position = Some(offset);
                self.state = State::Fetching(offset);
            }
            spec => {
                self.position = None;
                self.state = State::Seeking(spec);
            }
        }
    }

    fn hold_back(&mut self, now: Instant) {
        self.not_before = Some(now + self.backoff.failed());
    }
}
