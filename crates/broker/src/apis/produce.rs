//! Produce: appends record batches.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use ottla_log::AppendError;
use ottla_model::{BrokerId, Offset, Timestamp, Uuid};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::produce::{
    BatchIndexAndErrorMessage, LeaderIdAndEpoch, NodeEndpoint, PartitionProduceResponse, ProduceRequest,
    ProduceResponse, TopicProduceResponse,
};
use ottla_protocol::records::validate::{InvalidRecords, RecordFault};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::leader_endpoints::{current_leader, leader_endpoints};
use super::{Api, Call};
use crate::hosted_partition::{AppendFailure, Appended, HostedPartition, RequiredAcks};
use crate::parking::park_on_all;
use crate::purgatory::Moves;
use crate::topics;

/// Produce: appends record batches to partitions that this broker leads.
///
/// v0 to v2 carry message sets of magic 0 and 1; v3+ exactly one batch of magic 2 per partition (KIP-98), v7+
/// may be zstd (KIP-110). v1+ answers throttle time, v2+ the append time, v5+ the log start, v8+ which
/// records were refused and why (KIP-467), v10+ who leads instead (KIP-951); v13 names topics by id.
/// acks=0 is never answered: after an error the connection closes, so that the producer notices.
pub const API: Api = Api { key: ApiKey::Produce, versions: 0..=13, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: ProduceRequest = call.decode()?;
    let acks = RequiredAcks::from_wire(request.acks);
    let mut waiting = Waiting { timeout_ms: request.timeout_ms, partitions: Vec::new() };
    let mut response =
        ProduceResponse { responses: Vec::with_capacity(request.topic_data.len()), ..Default::default() };
    for topic in request.topic_data {
        let name = topic_name(&call, &topic.name, topic.topic_id);
        let mut partition_responses = Vec::with_capacity(topic.partition_data.len());
        for partition in topic.partition_data {
            let outcome = match (&name, acks) {
                (Err(error), _) => Err(Failure::Code(*error)),
                (Ok(_), None) => Err(Failure::Code(ErrorCode::InvalidRequiredAcks)),
                (Ok(name), Some(acks)) => append(&call, name, partition.index, partition.records, acks),
            };
            let answer = match outcome {
                Ok((hosted, appended)) => {
                    if acks == Some(RequiredAcks::All) {
                        let place = (response.responses.len(), partition_responses.len());
                        let end_offset = appended.end_offset;
                        waiting.partitions.push(Uncommitted { place, hosted, end_offset });
                    }
                    success(partition.index, appended)
                }
                Err(failure) => failure.answer(partition.index),
            };
            partition_responses.push(answer);
        }
        response.responses.push(TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses,
            ..Default::default()
        });
    }
    if acks == Some(RequiredAcks::None) {
        return Ok(Reply::Now(without_answer(&response)));
    }
    waiting.settle(&mut response);
    if waiting.partitions.is_empty() {
        name_leaders(&call, &mut response);
        return Ok(call.reply(&response));
    }
    Ok(Reply::later(async move {
        waiting.wait(&mut response).await;
        name_leaders(&call, &mut response);
        call.answer(&response)
    }))
}

/// From v10 on, whoever asked the wrong broker is told the right one and where it is (KIP-951).
fn name_leaders(call: &Call, response: &mut ProduceResponse) {
    if call.version < 10 {
        return;
    }
    for topic in &mut response.responses {
        let Ok(name) = call.broker.topic_name(&topic.name, topic.topic_id, call.version >= 13) else {
            continue;
        };
        for answer in &mut topic.partition_responses {
            const NOT_LEADER: i16 = ErrorCode::NotLeaderOrFollower as i16;
            if answer.error_code == NOT_LEADER
                && let Some((leader, epoch)) = current_leader(&call.broker, &name, answer.index)
            {
                answer.current_leader =
                    LeaderIdAndEpoch { leader_id: leader.0, leader_epoch: epoch.0, ..Default::default() };
            }
        }
    }
    let answers = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    let named = answers.map(|answer| BrokerId(answer.current_leader.leader_id));
    let endpoints = leader_endpoints(call, named).into_iter().map(|(broker, host, port)| NodeEndpoint {
        node_id: broker.id.0,
        host: Str::from(host),
        port,
        rack: broker.rack.map(Str::from),
        ..Default::default()
    });
    response.node_endpoints = endpoints.collect();
}

fn topic_name(call: &Call, name: &Str, id: Uuid) -> Result<Str, ErrorCode> {
    let name = call.broker.topic_name(name, id, call.version >= 13)?;
    // Internal topics are written by the coordinators; a client could only corrupt them.
    let exists = call.broker.metadata.topic(&name).is_some();
    if exists && topics::is_internal(&name) && call.client_id.as_deref() != Some("__admin_client") {
        return Err(ErrorCode::InvalidTopicException);
    }
    Ok(name)
}

/// Why one partition's records were not appended.
enum Failure {
    Code(ErrorCode),
    Append(Arc<HostedPartition>, AppendFailure),
}

fn append(
    call: &Call,
    topic: &str,
    partition: i32,
    records: Option<Bytes>,
    acks: RequiredAcks,
) -> Result<(Arc<HostedPartition>, Appended), Failure> {
    let hosted = call.broker.replicas.hosted(topic, partition).map_err(Failure::Code)?;
    let records = records.unwrap_or_default();
    match hosted.append_as_leader(&records, call.version, acks, call.broker.now()) {
        Ok(appended) => Ok((hosted, appended)),
        Err(failure) => Err(Failure::Append(hosted, failure)),
    }
}

fn success(index: i32, appended: Appended) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        base_offset: appended.base_offset.0,
        log_append_time_ms: appended.log_append_time.unwrap_or(Timestamp::NONE).0,
        log_start_offset: appended.log_start.0,
        ..Default::default()
    }
}

impl Failure {
    fn answer(&self, index: i32) -> PartitionProduceResponse {
        let (hosted, failure) = match self {
            Failure::Code(error) => return refusal(index, *error),
            Failure::Append(hosted, failure) => (hosted, failure),
        };
        let error = failure.code();
        if error == ErrorCode::KafkaStorageError || error == ErrorCode::UnknownServerError {
            tracing::error!(partition = %hosted.name(), error = %failure, "append failed");
        }
        let mut answer = PartitionProduceResponse {
            error_message: Some(Str::from(failure.to_string())),
            ..refusal(index, error)
        };
        if tells_log_start(failure) {
            answer.log_start_offset = hosted.watermarks().map_or(-1, |watermarks| watermarks.log_start.0);
        }
        if let AppendFailure::Invalid(invalid) = failure {
            let fault = |fault: &RecordFault| BatchIndexAndErrorMessage {
                batch_index: fault.index,
                batch_index_error_message: Some(Str::from(fault.message(hosted.name()))),
                ..Default::default()
            };
            answer.record_errors = invalid.record_faults().iter().map(fault).collect();
        }
        answer
    }
}

/// Kafka tells the log start beside an error only where it got as far as to look at the records themselves.
fn tells_log_start(failure: &AppendFailure) -> bool {
    match failure {
        AppendFailure::Invalid(invalid) => !matches!(
            invalid,
            InvalidRecords::NoBatch { .. }
                | InvalidRecords::SeveralBatches { .. }
                | InvalidRecords::MagicForVersion { .. }
                | InvalidRecords::ZstdForVersion { .. }
                | InvalidRecords::Corrupt(_)
                | InvalidRecords::TooLarge { .. }
        ),
        AppendFailure::Log(error) => !matches!(error, AppendError::Storage(_)),
        _ => false,
    }
}

fn refusal(index: i32, error: ErrorCode) -> PartitionProduceResponse {
    PartitionProduceResponse { index, error_code: error as i16, base_offset: -1, ..Default::default() }
}

fn without_answer(response: &ProduceResponse) -> Answer {
    let failed = |partition: &&PartitionProduceResponse| partition.error_code != ErrorCode::None as i16;
    let mut partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    match partitions.find(failed) {
        None => Answer::Nothing,
        Some(partition) => {
            Answer::Close(format!("produce with acks=0 failed: error {}", partition.error_code).into())
        }
    }
}

/// Appended partitions whose records are not yet on every in-sync replica.
struct Waiting {
    timeout_ms: i32,
    partitions: Vec<Uncommitted>,
}

struct Uncommitted {
    /// Topic and partition index in the response.
    place: (usize, usize),
    hosted: Arc<HostedPartition>,
    end_offset: Offset,
}

impl Waiting {
    /// Drops the partitions that need no more waiting, and notes in the response how those ended that failed.
    fn settle(&mut self, response: &mut ProduceResponse) {
        self.partitions.retain(|uncommitted| match uncommitted.hosted.committed(uncommitted.end_offset) {
            None => true,
            Some(Ok(())) => false,
            Some(Err(error)) => {
                uncommitted.fail(response, error);
                false
            }
        });
    }

    async fn wait(&mut self, response: &mut ProduceResponse) {
        let timeout = Duration::from_millis(self.timeout_ms.max(0) as u64);
        let deadline = tokio::time::Instant::now() + timeout;
        loop {
            let hosted = self.partitions.iter().map(|uncommitted| uncommitted.hosted.clone());
            let parked = park_on_all(Moves::HighWatermark, 1, hosted);
            self.settle(response);
            if self.partitions.is_empty() {
                return;
            }
            if tokio::time::timeout_at(deadline, parked.woken()).await.is_err() {
                for uncommitted in self.partitions.drain(..) {
                    uncommitted.fail(response, ErrorCode::RequestTimedOut);
                }
                return;
            }
        }
    }
}

impl Uncommitted {
    fn fail(&self, response: &mut ProduceResponse, error: ErrorCode) {
        let (topic, partition) = self.place;
        let answer = &mut response.responses[topic].partition_responses[partition];
        answer.error_code = error as i16;
        answer.base_offset = -1;
        answer.log_append_time_ms = -1;
    }
}
