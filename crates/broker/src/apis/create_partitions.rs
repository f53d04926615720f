//! CreatePartitions: more partitions for topics, through the controller.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use ottla_model::{BrokerId, TopicName};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::create_partitions::{
    CreatePartitionsRequest, CreatePartitionsResponse, CreatePartitionsTopic, CreatePartitionsTopicResult,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::topics::{self, AddError};

/// CreatePartitions: raises the number of partitions of topics (KIP-195).
///
/// Only the controller answers. The answer waits until every new partition has a leader, or for `timeout_ms`: then the
/// error is REQUEST_TIMED_OUT, and they are made all the same.
pub const API: Api = Api { key: ApiKey::CreatePartitions, versions: 0..=3, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: CreatePartitionsRequest = call.decode()?;
    if !call.broker.is_controller() {
        let refuse = |topic: &CreatePartitionsTopic| result(&topic.name, ErrorCode::NotController, None);
        let results = request.topics.iter().map(refuse).collect();
        return Ok(call.reply(&CreatePartitionsResponse { results, ..Default::default() }));
    }
    Ok(Reply::later(create(call, request)))
}

async fn create(call: Call, request: CreatePartitionsRequest) -> Answer {
    let mut named: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *named.entry(&topic.name).or_default() += 1;
    }
    let mut results = Vec::with_capacity(request.topics.len());
    let mut created: Vec<(usize, TopicName, i32)> = Vec::new();
    let mut told = HashSet::new();
    for topic in &request.topics {
        if named[&*topic.name] > 1 {
            if told.insert(&*topic.name) {
                let message = "Duplicate topic in request.".to_owned();
                results.push(result(&topic.name, ErrorCode::InvalidRequest, Some(message)));
            }
            continue;
        }
        match create_for(&call, topic, request.validate_only).await {
            Ok(name) => {
                if !request.validate_only {
                    created.push((results.len(), name, topic.count));
                }
                results.push(result(&topic.name, ErrorCode::None, None));
            }
            Err(error) => {
                tracing::info!(topic = &*topic.name, %error, "partitions not created");
                results.push(result(&topic.name, error.code(), Some(error.to_string())));
            }
        }
    }
    let timeout = Duration::from_millis(request.timeout_ms.max(0) as u64);
    let ready = topics::wait_until(&call.broker, timeout, |broker| {
        created.iter().all(|(_, name, count)| topics::has_partitions(broker, name, *count))
    });
    if !created.is_empty() && !ready.await {
        for (at, name, count) in &created {
            if timeout.is_zero() || !topics::has_partitions(&call.broker, name, *count) {
                results[*at] = result(&Str::from(name.as_str()), ErrorCode::RequestTimedOut, None);
            }
        }
    }
    call.answer(&CreatePartitionsResponse { results, ..Default::default() })
}

async fn create_for(
    call: &Call,
    topic: &CreatePartitionsTopic,
    validate_only: bool,
) -> Result<TopicName, AddError> {
    let by_hand = topic.assignments.as_ref().map(|assignments| {
        let replicas = |ids: &[i32]| ids.iter().copied().map(BrokerId).collect::<Vec<_>>();
        assignments.iter().map(|assignment| replicas(&assignment.broker_ids)).collect::<Vec<_>>()
    });
    let (name, partitions) = topics::plan_more(&call.broker, &topic.name, topic.count, by_hand)?;
    if !validate_only {
        call.broker
            .controller
            .add_partitions(name.clone(), partitions)
            .await
            .map_err(AddError::Controller)?;
    }
    Ok(name)
}

fn result(name: &Str, error: ErrorCode, message: Option<String>) -> CreatePartitionsTopicResult {
    CreatePartitionsTopicResult {
        name: name.clone(),
        error_code: error as i16,
        error_message: message.map(Str::from),
        ..Default::default()
    }
}
