//! Fetch: reads record batches.

mod conversion;
mod response;
mod session;

use std::sync::Arc;
use std::time::Duration;

use ottla_log::ReadError;
use ottla_model::{BrokerId, LeaderEpoch};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::fetch::FetchRequest;
use ottla_protocol::{ApiKey, DecodeError, ErrorCode};
use tokio::time::Instant;

use self::conversion::records_for;
use self::response::{Envelope, FetchedPartition, FetchedTopic, LeaderEndpoint};
pub use self::session::Sessions;
use self::session::{Asked, Seat, TopicKey, take_seat};
use super::leader_endpoints::{current_leader, leader_endpoints};
use super::{Api, Call};
use crate::fetch_session::Wanted;
use crate::hosted_partition::{Found, HostedPartition, ReadFailure, ReadRequest, Reader};
use crate::parking::park_on_all;
use crate::purgatory::Moves;

/// Fetch: reads record batches as they lie in the log, waiting for them if need be.
///
/// v0 to v1 hear magic 0 and v2 to v3 magic 1, converted on the way; up to v2 a partition's last message may be
/// cut short. v3+ bounds the whole answer, but the first batch always fits (KIP-74). v4+ knows transactions, v9+
/// fences by leader epoch (KIP-320), v12+ tells where the logs part (KIP-595), v13+ names topics by id (KIP-516).
/// v7+ knows sessions (KIP-227): a session remembers the partitions, later requests name what changes, and answers
/// hold only news. Preferred read replicas (v11+, KIP-392) are not told: consumers read from the leader.
pub const API: Api = Api { key: ApiKey::Fetch, versions: 0..=17, handle };

const ISOLATION_READ_COMMITTED: i8 = 1;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: FetchRequest = call.decode()?;
    let reader = reader(&request, call.version);
    let privileged = matches!(reader, Reader::Follower(_));
    let (asked, seat) = match take_seat(&call.broker, &request, call.version, privileged) {
        Ok(taken) => taken,
        Err(refusal) => {
            tracing::debug!(client = call.client_id.as_deref(), %refusal, "fetch session not gone on with");
            return Ok(Reply::Now(respond(&call, refusal.code(), 0, &[])));
        }
    };
    let wait = Duration::from_millis(request.max_wait_ms.max(0) as u64);
    let fetch = Fetch::new(call, &request, reader, asked, seat);
    let mut outcome = fetch.read();
    if outcome.is_complete(&fetch) || wait.is_zero() {
        return Ok(Reply::Now(fetch.answer(outcome)));
    }
    let deadline = Instant::now() + wait;
    Ok(Reply::later(async move {
        fetch.wait(&mut outcome, deadline).await;
        fetch.answer(outcome)
    }))
}

fn reader(request: &FetchRequest, version: i16) -> Reader {
    let replica = if version >= 15 { request.replica_state.replica_id } else { request.replica_id };
    match replica {
        -1 if request.isolation_level == ISOLATION_READ_COMMITTED => Reader::ReadCommitted,
        -1 => Reader::ReadUncommitted,
        0.. => Reader::Follower(BrokerId(replica)),
        _ => Reader::Debugger,
    }
}

/// A fetch request, ready to be read any number of times.
struct Fetch {
    call: Call,
    reader: Reader,
    min_bytes: usize,
    max_bytes: usize,
    /// Up to v2 the limits are hard: a message may be cut, and the client asks again with more.
    cuts_messages: bool,
    asked: Asked,
    /// The replicas asked, in the order of `asked`.
    hosted: Vec<Result<Arc<HostedPartition>, ErrorCode>>,
    seat: Seat,
}

/// What was found so far.
struct Outcome {
    /// In the order of what was asked.
    partitions: Vec<FetchedPartition>,
    /// How often each had moved when it was looked at.
    moves: Vec<u64>,
    bytes: usize,
    /// An error, or a divergence: the fetcher should hear of it now.
    urgent: bool,
}

impl Outcome {
    fn is_complete(&self, fetch: &Fetch) -> bool {
        self.urgent || self.bytes >= fetch.min_bytes || self.partitions.is_empty()
    }
}

impl Fetch {
    fn new(call: Call, request: &FetchRequest, reader: Reader, asked: Asked, seat: Seat) -> Fetch {
        let broker = &call.broker;
        let hosted = asked.iter().map(|((topic, partition), _)| match topic {
            TopicKey::Name(name) => broker.replicas.hosted(name, *partition),
            TopicKey::Id(id) => {
                let topic = broker.metadata.topic_by_id(*id).ok_or(ErrorCode::UnknownTopicId)?;
                broker.replicas.hosted(&topic.name, *partition)
            }
        });
        let hosted = hosted.collect();
        let max_bytes =
            (request.max_bytes.max(0) as usize).min(broker.config.network.fetch_bytes_max as usize);
        Fetch {
            reader,
            min_bytes: request.min_bytes.max(0) as usize,
            max_bytes,
            cuts_messages: call.version <= 2,
            asked,
            hosted,
            seat,
            call,
        }
    }

    /// Looks into every partition, within the limits of the request.
    fn read(&self) -> Outcome {
        let count = self.asked.len();
        let mut outcome = Outcome {
            partitions: Vec::with_capacity(count),
            moves: Vec::with_capacity(count),
            bytes: 0,
            urgent: false,
        };
        for place in 0..count {
            let (moves, answer) = self.read_partition(place, outcome.bytes);
            outcome.bytes += answer.records.len();
            outcome.urgent |= is_urgent(&answer);
            outcome.moves.push(moves);
            outcome.partitions.push(answer);
        }
        outcome
    }

    /// Looks again into the partitions at these places.
    fn read_again(&self, places: Vec<usize>, outcome: &mut Outcome) {
        for place in places {
            let others = outcome.bytes - outcome.partitions[place].records.len();
            let (moves, answer) = self.read_partition(place, others);
            outcome.bytes = others + answer.records.len();
            outcome.urgent |= is_urgent(&answer);
            outcome.moves[place] = moves;
            outcome.partitions[place] = answer;
        }
    }

    fn read_partition(&self, place: usize, have: usize) -> (u64, FetchedPartition) {
        let ((_, partition), wanted) = &self.asked[place];
        match &self.hosted[place] {
            Err(error) => {
                let mut answer = FetchedPartition::failed(*partition, *error);
                if *error == ErrorCode::NotLeaderOrFollower {
                    answer.current_leader = self.leader_told(place);
                }
                (0, answer)
            }
            Ok(hosted) => {
                let moves = hosted.purgatory().moves();
                let mut answer = self.read_hosted(hosted, *partition, wanted, have);
                if matches!(answer.error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch) {
                    answer.current_leader = self.leader_told(place);
                }
                (moves, answer)
            }
        }
    }

    /// Who leads instead. Told from v16 on, together with the leader's address: a client could do nothing with the id
    /// alone (KIP-951).
    fn leader_told(&self, place: usize) -> Option<(BrokerId, LeaderEpoch)> {
        if self.call.version < 16 {
            return None;
        }
        let (topic, partition) = &self.asked[place].0;
        match topic {
            TopicKey::Name(name) => current_leader(&self.call.broker, name, *partition),
            TopicKey::Id(id) => {
                let topic = self.call.broker.metadata.topic_by_id(*id)?;
                current_leader(&self.call.broker, &topic.name, *partition)
            }
        }
    }

    fn read_hosted(
        &self,
        hosted: &Arc<HostedPartition>,
        partition: i32,
        wanted: &Wanted,
        have: usize,
    ) -> FetchedPartition {
        let request = ReadRequest {
            reader: self.reader,
            offset: wanted.fetch_offset,
            bytes_max: (wanted.max_bytes.max(0) as usize).min(self.max_bytes.saturating_sub(have)) as u64,
            // The first batch is sent whole however large it is, or a consumer could never get past it.
            at_least_one: have == 0 && !self.cuts_messages,
            leader_epoch: wanted.leader_epoch,
            last_fetched_epoch: wanted.last_fetched_epoch,
            log_start_offset: wanted.log_start_offset,
            now: self.call.broker.now(),
        };
        let outcome = match hosted.read(&request) {
            Ok(outcome) => outcome,
            Err(failure) => return self.failed(partition, &failure),
        };
        if let Some(proposal) = outcome.proposal {
            self.call.broker.propose_isr(hosted, proposal);
        }
        let mut answer = FetchedPartition::found(partition, outcome.watermarks);
        match outcome.records {
            Found::Diverging(end) => answer.diverging = Some((end.epoch, end.end_offset)),
            Found::Records { region, aborted } => {
                answer.aborted = aborted.map(|aborted| {
                    aborted.iter().map(|aborted| (aborted.producer_id, aborted.first_offset)).collect()
                });
                if let Some(region) = region {
                    match records_for(self.call.version, hosted, &request, region) {
                        Ok(records) => answer.records = records,
                        Err(error) => return FetchedPartition::failed(partition, error),
                    }
                }
            }
        }
        answer
    }

    fn failed(&self, partition: i32, failure: &ReadFailure) -> FetchedPartition {
        let mut answer = FetchedPartition::failed(partition, failure.code());
        match failure {
            ReadFailure::Log(ReadError::OffsetOutOfRange { start, .. }) => answer.log_start_offset = *start,
            ReadFailure::Leader(_)
            | ReadFailure::Log(ReadError::Storage(_))
            | ReadFailure::UnknownEpoch
            | ReadFailure::Unavailable(_) => {}
        }
        if answer.error == ErrorCode::KafkaStorageError && self.call.version < 6 {
            answer.error = ErrorCode::NotLeaderOrFollower; // what clients of that age know to retry
        }
        answer
    }

    /// Waits until the partitions have gained enough. Whatever wakes it, only those are looked into that have moved.
    async fn wait(&self, outcome: &mut Outcome, deadline: Instant) {
        let moves = match self.reader {
            Reader::Follower(_) | Reader::Debugger => Moves::LogEnd,
            Reader::ReadUncommitted | Reader::ReadCommitted => Moves::HighWatermark,
        };
        // An error would have been urgent, so each place is that of a replica.
        let hosted = self.hosted.iter().flatten();
        let parked = park_on_all(moves, self.missing(outcome), hosted.clone().cloned());
        let request = parked.request();
        for (place, (hosted, seen)) in hosted.zip(&outcome.moves).enumerate() {
            if hosted.purgatory().moves() != *seen {
                request.suspect(place);
            }
        }
        loop {
            self.read_again(request.take_moved(), outcome);
            if outcome.is_complete(self) {
                return;
            }
            request.rearm(self.missing(outcome));
            // What moved just before was not counted against what is missing now.
            if request.has_moved() {
                continue;
            }
            if tokio::time::timeout_at(deadline, parked.woken()).await.is_err() {
                self.read_again(request.take_moved(), outcome);
                return;
            }
        }
    }

    fn missing(&self, outcome: &Outcome) -> i64 {
        self.min_bytes.saturating_sub(outcome.bytes) as i64
    }

    fn answer(self, outcome: Outcome) -> Answer {
        let (session_id, news) = self.seat.settle(&self.call.broker, &self.asked, &outcome.partitions);
        let mut topics: Vec<FetchedTopic> = Vec::new();
        let answers = self.asked.into_iter().zip(outcome.partitions).zip(news);
        for (((topic, _), _), answer) in answers.filter(|(_, is_news)| *is_news).map(|(pair, _)| pair) {
            match topics.last_mut() {
                Some(last) if last.topic == topic => last.partitions.push(answer),
                _ => topics.push(FetchedTopic { topic, partitions: vec![answer] }),
            }
        }
        respond(&self.call, ErrorCode::None, session_id, &topics)
    }
}

fn is_urgent(answer: &FetchedPartition) -> bool {
    answer.error != ErrorCode::None || answer.diverging.is_some()
}

fn respond(call: &Call, error: ErrorCode, session_id: i32, topics: &[FetchedTopic]) -> Answer {
    let envelope = Envelope { version: call.version, correlation_id: call.correlation_id, error, session_id };
    let answers = topics.iter().flat_map(|topic| &topic.partitions);
    let leaders = answers.filter_map(|answer| answer.current_leader.map(|(leader, _)| leader));
    let leaders: Vec<LeaderEndpoint> = leader_endpoints(call, leaders)
        .into_iter()
        .map(|(broker, host, port)| LeaderEndpoint { id: broker.id, host, port, rack: broker.rack })
        .collect();
    match response::write(envelope, topics, &leaders) {
        Ok(response) => Answer::Send(response),
        Err(error) => super::misfit(call.key, call.version, &error),
    }
}
