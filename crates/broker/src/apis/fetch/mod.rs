//! Fetch: reads record batches.

mod conversion;
mod response;

use std::sync::Arc;
use std::time::Duration;

use ottla_log::ReadError;
use ottla_model::{BrokerId, LeaderEpoch, Offset};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::fetch::FetchRequest;
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};
use tokio::time::Instant;

use self::conversion::records_for;
use self::response::{Envelope, FetchedPartition, FetchedTopic};
use super::{Api, Call};
use crate::hosted_partition::{Found, HostedPartition, ReadFailure, ReadRequest, Reader};
use crate::parking::{ParkedOnAll, park_on_all};
use crate::purgatory::Moves;

/// Fetch: reads record batches as they lie in the log, waiting for them if need be.
///
/// v0 to v1 hear magic 0 and v2 to v3 magic 1, converted on the way; up to v2 a partition's last message may be
/// cut short. v3+ bounds the whole answer, but the first batch always fits (KIP-74). v4+ knows transactions, v9+
/// fences by leader epoch (KIP-320), v12+ tells where the logs part (KIP-595), v13+ names topics by id (KIP-516).
/// Fetch sessions (v7+, KIP-227) are not granted: session id 0 tells the client to go on with full requests.
pub const API: Api = Api { key: ApiKey::Fetch, versions: 0..=17, handle };

const ISOLATION_READ_COMMITTED: i8 = 1;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: FetchRequest = call.decode()?;
    if request.session_id != 0 && request.session_epoch > 0 {
        // Sessions end with the broker that granted them; the client starts over with a full request.
        return Ok(Reply::Now(respond(&call, ErrorCode::FetchSessionIdNotFound, &[])));
    }
    let wait = Duration::from_millis(request.max_wait_ms.max(0) as u64);
    let fetch = Fetch::new(call, request);
    let outcome = fetch.read();
    if outcome.is_complete(&fetch) || wait.is_zero() {
        return Ok(Reply::Now(fetch.answer(outcome)));
    }
    let deadline = Instant::now() + wait;
    Ok(Reply::later(async move { fetch.wait(outcome.bytes, deadline).await }))
}

/// A fetch request, ready to be read any number of times.
struct Fetch {
    call: Call,
    reader: Reader,
    min_bytes: usize,
    max_bytes: usize,
    /// Up to v2 the limits are hard: a message may be cut, and the client asks again with more.
    cuts_messages: bool,
    topics: Vec<WantedTopic>,
}

struct WantedTopic {
    name: Str,
    id: ottla_model::Uuid,
    partitions: Vec<WantedPartition>,
}

struct WantedPartition {
    partition: i32,
    hosted: Result<Arc<HostedPartition>, ErrorCode>,
    fetch_offset: Offset,
    max_bytes: usize,
    leader_epoch: Option<LeaderEpoch>,
    last_fetched_epoch: Option<LeaderEpoch>,
    log_start_offset: Offset,
}

/// One pass over the partitions.
struct Outcome {
    topics: Vec<FetchedTopic>,
    bytes: usize,
    /// An error, or a divergence: the fetcher should hear of it now.
    urgent: bool,
}

impl Outcome {
    fn is_complete(&self, fetch: &Fetch) -> bool {
        self.urgent || self.bytes >= fetch.min_bytes || fetch.topics.iter().all(|t| t.partitions.is_empty())
    }
}

impl Fetch {
    fn new(call: Call, request: FetchRequest) -> Fetch {
        let replica = if call.version >= 15 { request.replica_state.replica_id } else { request.replica_id };
        let reader = match replica {
            -1 if request.isolation_level == ISOLATION_READ_COMMITTED => Reader::ReadCommitted,
            -1 => Reader::ReadUncommitted,
            0.. => Reader::Follower(BrokerId(replica)),
            _ => Reader::Debugger,
        };
        let epoch = |epoch: i32| (epoch >= 0).then_some(LeaderEpoch(epoch));
        let topics = request
            .topics
            .into_iter()
            .map(|topic| {
                let name = call.broker.topic_name(&topic.topic, topic.topic_id, call.version >= 13);
                let partitions = topic
                    .partitions
                    .iter()
                    .map(|wanted| WantedPartition {
                        partition: wanted.partition,
                        hosted: name
                            .as_ref()
                            .map_err(|error| *error)
                            .and_then(|name| call.broker.replicas.hosted(name, wanted.partition)),
                        fetch_offset: Offset(wanted.fetch_offset),
                        max_bytes: wanted.partition_max_bytes.max(0) as usize,
                        leader_epoch: epoch(wanted.current_leader_epoch),
                        last_fetched_epoch: epoch(wanted.last_fetched_epoch),
                        log_start_offset: Offset(wanted.log_start_offset),
                    })
                    .collect();
                WantedTopic { name: topic.topic, id: topic.topic_id, partitions }
            })
            .collect();
        let max_bytes =
            (request.max_bytes.max(0) as usize).min(call.broker.config.network.fetch_bytes_max as usize);
        Fetch {
            reader,
            min_bytes: request.min_bytes.max(0) as usize,
            max_bytes,
            cuts_messages: call.version <= 2,
            topics,
            call,
        }
    }

    /// Looks into every partition, within the limits of the request.
    fn read(&self) -> Outcome {
        let mut outcome = Outcome { topics: Vec::with_capacity(self.topics.len()), bytes: 0, urgent: false };
        for topic in &self.topics {
            let partitions = topic.partitions.iter().map(|wanted| self.read_partition(wanted, &mut outcome));
            let partitions = partitions.collect();
            outcome.topics.push(FetchedTopic { name: topic.name.clone(), id: topic.id, partitions });
        }
        outcome
    }

    fn read_partition(&self, wanted: &WantedPartition, outcome: &mut Outcome) -> FetchedPartition {
        let answer = match &wanted.hosted {
            Err(error) => FetchedPartition::failed(wanted.partition, *error),
            Ok(hosted) => self.read_hosted(hosted, wanted, outcome.bytes),
        };
        outcome.bytes += answer.records.len();
        outcome.urgent |= answer.error != ErrorCode::None || answer.diverging.is_some();
        answer
    }

    fn read_hosted(
        &self,
        hosted: &Arc<HostedPartition>,
        wanted: &WantedPartition,
        have: usize,
    ) -> FetchedPartition {
        let request = ReadRequest {
            reader: self.reader,
            offset: wanted.fetch_offset,
            bytes_max: wanted.max_bytes.min(self.max_bytes.saturating_sub(have)) as u64,
            // The first batch is sent whole however large it is, or a consumer could never get past it.
            at_least_one: have == 0 && !self.cuts_messages,
            leader_epoch: wanted.leader_epoch,
            last_fetched_epoch: wanted.last_fetched_epoch,
            log_start_offset: wanted.log_start_offset,
            now: self.call.broker.now(),
        };
        let outcome = match hosted.read(&request) {
            Ok(outcome) => outcome,
            Err(failure) => return self.failed(hosted, wanted.partition, &failure),
        };
        if let Some(proposal) = outcome.proposal {
            self.call.broker.propose_isr(hosted, proposal);
        }
        let mut answer = FetchedPartition::found(wanted.partition, outcome.watermarks);
        match outcome.records {
            Found::Diverging(end) => answer.diverging = Some((end.epoch, end.end_offset)),
            Found::Records { region, aborted } => {
                answer.aborted = aborted.map(|aborted| {
                    aborted.iter().map(|aborted| (aborted.producer_id, aborted.first_offset)).collect()
                });
                if let Some(region) = region {
                    match records_for(self.call.version, hosted, &request, region) {
                        Ok(records) => answer.records = records,
                        Err(error) => answer.error = error,
                    }
                }
            }
        }
        answer
    }

    fn failed(&self, hosted: &HostedPartition, partition: i32, failure: &ReadFailure) -> FetchedPartition {
        let mut answer = FetchedPartition::failed(partition, failure.code());
        match failure {
            ReadFailure::Leader(_) => answer.current_leader = hosted.current_leader(),
            ReadFailure::Log(ReadError::OffsetOutOfRange { start, .. }) => answer.log_start_offset = *start,
            ReadFailure::Log(ReadError::Storage(_))
            | ReadFailure::UnknownEpoch
            | ReadFailure::Unavailable(_) => {}
        }
        if answer.error == ErrorCode::KafkaStorageError && self.call.version < 6 {
            answer.error = ErrorCode::NotLeaderOrFollower; // what clients of that age know to retry
        }
        answer
    }

    /// Waits until the partitions have gained enough, then looks once more.
    async fn wait(self, have: usize, deadline: Instant) -> Answer {
        let mut have = have;
        loop {
            let parked = self.park(have);
            // What moved between the last look and the parking woke nobody.
            let outcome = self.read();
            if outcome.is_complete(&self) {
                return self.answer(outcome);
            }
            have = outcome.bytes;
            if tokio::time::timeout_at(deadline, parked.woken()).await.is_err() {
                let outcome = self.read();
                return self.answer(outcome);
            }
        }
    }

    fn park(&self, have: usize) -> ParkedOnAll {
        let moves = match self.reader {
            Reader::Follower(_) | Reader::Debugger => Moves::LogEnd,
            Reader::ReadUncommitted | Reader::ReadCommitted => Moves::HighWatermark,
        };
        let missing = self.min_bytes.saturating_sub(have) as i64;
        let partitions = self.topics.iter().flat_map(|topic| &topic.partitions);
        park_on_all(moves, missing, partitions.filter_map(|wanted| wanted.hosted.as_ref().ok()).cloned())
    }

    fn answer(&self, outcome: Outcome) -> Answer {
        respond(&self.call, ErrorCode::None, &outcome.topics)
    }
}

fn respond(call: &Call, error: ErrorCode, topics: &[FetchedTopic]) -> Answer {
    let envelope =
        Envelope { version: call.version, correlation_id: call.correlation_id, error, session_id: 0 };
    match response::write(envelope, topics) {
        Ok(response) => Answer::Send(response),
        Err(error) => super::misfit(call.key, call.version, &error),
    }
}
