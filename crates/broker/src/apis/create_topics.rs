//! CreateTopics: new topics, through the controller.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use ottla_model::{BrokerId, TopicName};
use ottla_network::{Answer, Reply};
use ottla_protocol::messages::create_topics::{
    CreatableTopic, CreatableTopicConfigs, CreatableTopicResult, CreateTopicsRequest, CreateTopicsResponse,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::config::describe_topic;
use crate::topics::{self, CreateError, NewTopic, Placement};

/// CreateTopics: new topics with their partitions, replicas and configurations (KIP-4).
///
/// Only the controller answers. v1+ can validate only and explains errors; -1 takes the broker's defaults (KIP-464, and
/// before v4 as well); v5+ tells the configuration that resulted (KIP-525), v7+ the topic's id.
/// The answer waits until every new partition has a leader, or for `timeout_ms`: then the error is
/// REQUEST_TIMED_OUT, and creation goes on all the same.
pub const API: Api = Api { key: ApiKey::CreateTopics, versions: 0..=7, handle };

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: CreateTopicsRequest = call.decode()?;
    if !call.broker.is_controller() {
        let refuse = |topic: &CreatableTopic| {
            failure(&topic.name, ErrorCode::NotController, Some("this broker is not the controller".into()))
        };
        let topics = request.topics.iter().map(refuse).collect();
        return Ok(call.reply(&CreateTopicsResponse { topics, ..Default::default() }));
    }
    Ok(Reply::later(create(call, request)))
}

async fn create(call: Call, request: CreateTopicsRequest) -> Answer {
    let mut named: HashMap<&str, usize> = HashMap::new();
    for topic in &request.topics {
        *named.entry(&topic.name).or_default() += 1;
    }
    let mut results = Vec::with_capacity(request.topics.len());
    let mut created = Vec::new();
    for topic in &request.topics {
        if named[&*topic.name] > 1 {
            let message = "Found multiple entries for this topic.".to_owned();
            results.push(failure(&topic.name, ErrorCode::InvalidRequest, Some(message)));
            continue;
        }
        match create_one(&call, topic, request.validate_only).await {
            Ok(result) => {
                if !request.validate_only {
                    created.push((results.len(), result.1));
                }
                results.push(result.0);
            }
            Err(error) => {
                tracing::info!(topic = %topic.name, %error, "topic not created");
                results.push(failure(&topic.name, error.code(), Some(error.to_string())));
            }
        }
    }
    let timeout = Duration::from_millis(request.timeout_ms.max(0) as u64);
    let names: Vec<TopicName> = created.iter().map(|(_, name)| name.clone()).collect();
    let ready = topics::wait_until(&call.broker, timeout, |broker| {
        names.iter().all(|name| topics::has_leaders(broker, name))
    });
    if !ready.await {
        for (at, name) in &created {
            if timeout.is_zero() || !topics::has_leaders(&call.broker, name) {
                results[*at] = CreatableTopicResult {
                    topic_id: results[*at].topic_id,
                    ..failure(&Str::from(name.as_str()), ErrorCode::RequestTimedOut, None)
                };
            }
        }
    }
    call.answer(&CreateTopicsResponse { topics: results, ..Default::default() })
}

async fn create_one(
    call: &Call,
    topic: &CreatableTopic,
    validate_only: bool,
) -> Result<(CreatableTopicResult, TopicName), CreateError> {
    let name = TopicName::new(&topic.name)?;
    let placement = placement(topic)?;
    let mut config = BTreeMap::new();
    for entry in &topic.configs {
        let value = entry.value.as_ref().ok_or_else(|| CreateError::NullConfig(entry.name.to_string()))?;
        config.insert(entry.name.to_string(), value.to_string());
    }
    let plan = topics::plan(&call.broker, NewTopic { name: name.clone(), placement, config })?;
    let id = if validate_only { None } else { Some(topics::create(&call.broker, &plan).await?) };
    let configs = describe_topic(&call.broker.dynamic.settings(), &plan.config)?;
    let configs = configs.into_iter().map(|config| CreatableTopicConfigs {
        name: Str::from(config.name),
        value: config.value.map(Str::from),
        read_only: config.read_only,
        config_source: config.source as i8,
        is_sensitive: config.sensitive,
        ..Default::default()
    });
    let result = CreatableTopicResult {
        name: topic.name.clone(),
        error_message: None,
        topic_id: id.unwrap_or_default(),
        num_partitions: plan.assignment.len() as i32,
        replication_factor: plan.assignment.values().next().map_or(0, Vec::len) as i16,
        configs: Some(configs.collect()),
        ..Default::default()
    };
    Ok((result, name))
}

fn placement(topic: &CreatableTopic) -> Result<Placement, CreateError> {
    let counted = topic.num_partitions != -1 || topic.replication_factor != -1;
    if topic.assignments.is_empty() {
        let or_default = |value: i32| (value != -1).then_some(value);
        return Ok(Placement::Spread {
            partitions: or_default(topic.num_partitions),
            replication_factor: or_default(topic.replication_factor.into()),
        });
    }
    if counted {
        return Err(CreateError::CountsAndAssignment);
    }
    let mut assignment = BTreeMap::new();
    for entry in &topic.assignments {
        let replicas = entry.broker_ids.iter().copied().map(BrokerId).collect();
        if assignment.insert(entry.partition_index, replicas).is_some() {
            return Err(CreateError::Assignment(format!(
                "partition {} is assigned more than once",
                entry.partition_index
            )));
        }
    }
    Ok(Placement::Manual(assignment))
}

fn failure(name: &Str, error: ErrorCode, message: Option<String>) -> CreatableTopicResult {
    CreatableTopicResult {
        name: name.clone(),
        error_code: error as i16,
        error_message: message.map(Str::from),
        configs: Some(Vec::new()),
        ..Default::default()
    }
}
