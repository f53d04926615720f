//! Metadata: topics, their leaders, and the addresses of brokers.

use std::collections::HashSet;
use std::sync::Arc;

use ottla_model::{BrokerId, TopicName, Uuid};
use ottla_network::Reply;
use ottla_protocol::messages::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, MetadataResponseBroker,
    MetadataResponsePartition, MetadataResponseTopic,
};
use ottla_protocol::{ApiKey, DecodeError, ErrorCode, Str};

use super::{Api, Call};
use crate::metadata_cache::{PartitionImage, TopicImage};
use crate::server::{Broker, FIRST_NEWS_PATIENCE};
use crate::topics;

/// Metadata: which topics there are, who leads their partitions, and where the brokers are.
///
/// v0 asks for everything with an empty list, v1+ with null. v4+ says whether unknown topics may be created;
/// before that they are, if `auto.create.topics.enable` says so. v5+ lists offline replicas, v7+ leader epochs
/// (KIP-320), v8+ permissions on demand (KIP-430), v10+ topic ids (KIP-516), v12+ may ask by id.
/// A client hears the address of the listener that it came in through.
pub const API: Api = Api { key: ApiKey::Metadata, versions: 0..=13, handle };

/// Bits of the operations that a client without an authorizer in its way may do, as KIP-430 counts them.
pub const TOPIC_OPERATIONS: i32 = 0b1101_1111_1000;
pub const CLUSTER_OPERATIONS: i32 = 0b1_1111_1010_0000;
pub const NOT_ASKED: i32 = i32::MIN;

fn handle(mut call: Call) -> Result<Reply, DecodeError> {
    let request: MetadataRequest = call.decode()?;
    if let Some(refused) = refuse_ids(&request, call.version) {
        return Ok(call.reply(&refused));
    }
    if !call.broker.metadata.is_empty() {
        return Ok(respond(call, &request));
    }
    // An answer without brokers would keep clients from asking again for as long as a minute.
    Ok(Reply::later(async move {
        topics::wait_until(&call.broker, FIRST_NEWS_PATIENCE, |broker| !broker.metadata.is_empty()).await;
        match respond(call, &request) {
            Reply::Now(answer) => answer,
            Reply::Later(answer) | Reply::Alone(answer) => answer.await,
        }
    }))
}

fn respond(call: Call, request: &MetadataRequest) -> Reply {
    let wanted = Wanted::of(request, call.version);
    let mut answer = Answering::new(&call, request);
    match wanted {
        Wanted::All => {
            for topic in call.broker.metadata.topics() {
                answer.describe(&topic);
            }
        }
        Wanted::These(topics) => {
            for topic in topics {
                answer.look_up(topic);
            }
        }
    }
    if answer.missing.is_empty() {
        let response = answer.finish();
        return call.reply(&response);
    }
    let (response, missing) = (answer.response, answer.missing);
    Reply::later(create_missing(call, response, missing))
}

/// v10 and v11 have the field for ids already, but do not look topics up by it (KIP-516).
fn refuse_ids(request: &MetadataRequest, version: i16) -> Option<MetadataResponse> {
    let topics = request.topics.as_ref().filter(|_| version < 12)?;
    if !topics.iter().any(|topic| topic.name.is_none() || !topic.topic_id.is_zero()) {
        return None;
    }
    let refused = topics.iter().map(|topic| MetadataResponseTopic {
        topic_id: topic.topic_id,
        is_internal: false,
        ..failed(topic.name.clone().unwrap_or_default(), ErrorCode::InvalidRequest)
    });
    Some(MetadataResponse { topics: refused.collect(), ..Default::default() })
}

enum Wanted {
    All,
    These(Vec<Lookup>),
}

#[derive(Clone, PartialEq, Eq, Hash)]
enum Lookup {
    Name(Str),
    Id(Uuid),
}

impl Wanted {
    fn of(request: &MetadataRequest, version: i16) -> Wanted {
        match &request.topics {
            None => Wanted::All,
            Some(topics) if topics.is_empty() && version == 0 => Wanted::All,
            Some(topics) => {
                let mut seen = HashSet::new();
                // An id is meant even where a name stands beside it.
                let lookup = |topic: &MetadataRequestTopic| match &topic.name {
                    Some(name) if topic.topic_id.is_zero() => Lookup::Name(name.clone()),
                    _ => Lookup::Id(topic.topic_id),
                };
                let topics = topics.iter().map(lookup).filter(|topic| seen.insert(topic.clone()));
                Wanted::These(topics.collect())
            }
        }
    }
}

/// A response being filled in.
struct Answering<'a> {
    broker: &'a Arc<Broker>,
    listener: &'a str,
    version: i16,
    topic_operations: i32,
    may_create: bool,
    response: MetadataResponse,
    /// Topics that are to be created before the answer goes out.
    missing: Vec<TopicName>,
}

impl<'a> Answering<'a> {
    fn new(call: &'a Call, request: &MetadataRequest) -> Answering<'a> {
        let broker = &call.broker;
        let asked = |asked, operations| if asked { operations } else { NOT_ASKED };
        let response = MetadataResponse {
            brokers: live_brokers(broker, call.listener()),
            cluster_id: Some(Str::from(broker.cluster_id.as_str())),
            controller_id: broker.metadata.controller().unwrap_or(BrokerId::NONE).0,
            cluster_authorized_operations: asked(
                request.include_cluster_authorized_operations,
                CLUSTER_OPERATIONS,
            ),
            ..Default::default()
        };
        Answering {
            broker,
            listener: call.listener(),
            version: call.version,
            topic_operations: asked(request.include_topic_authorized_operations, TOPIC_OPERATIONS),
            may_create: broker.config.topics.auto_create_enable
                && (call.version < 4 || request.allow_auto_topic_creation),
            response,
            missing: Vec::new(),
        }
    }

    fn finish(self) -> MetadataResponse {
        self.response
    }

    fn look_up(&mut self, wanted: Lookup) {
        let found = match &wanted {
            Lookup::Name(name) => self.broker.metadata.topic(name),
            Lookup::Id(id) => self.broker.metadata.topic_by_id(*id),
        };
        match (found, wanted) {
            (Some(topic), _) => self.describe(&topic),
            (None, Lookup::Id(id)) => self.response.topics.push(unknown_id(id)),
            (None, Lookup::Name(name)) => match TopicName::new(&name) {
                Ok(name) if self.may_create => self.missing.push(name),
                Ok(_) => self.refuse(name, ErrorCode::UnknownTopicOrPartition),
                Err(_) => self.refuse(name, ErrorCode::InvalidTopicException),
            },
        }
    }

    fn refuse(&mut self, name: Str, error: ErrorCode) {
        let topic_authorized_operations = self.topic_operations;
        self.response
            .topics
            .push(MetadataResponseTopic { topic_authorized_operations, ..failed(name, error) });
    }

    fn describe(&mut self, topic: &TopicImage) {
        let partitions =
            topic.partitions.iter().map(|(id, image)| self.describe_partition(*id, image)).collect();
        self.response.topics.push(MetadataResponseTopic {
            name: Some(Str::from(topic.name.as_str())),
            topic_id: topic.id,
            is_internal: topics::is_internal(&topic.name),
            partitions,
            topic_authorized_operations: self.topic_operations,
            ..Default::default()
        });
    }

    /// A partition without a usable leader carries an error, so that no client takes it for a good answer.
    ///
    /// v0 clients look each replica up in the broker list and fail on one that is not there, so for them the
    /// dead are left out.
    fn describe_partition(&self, id: i32, image: &PartitionImage) -> MetadataResponsePartition {
        let alive = |broker: &BrokerId| {
            self.broker.metadata.broker(*broker).is_some_and(|found| found.endpoint(self.listener).is_some())
        };
        let listed = |brokers: &[BrokerId]| -> Vec<i32> {
            let kept = |broker: &&BrokerId| self.version > 0 || alive(broker);
            brokers.iter().filter(kept).map(|broker| broker.0).collect()
        };
        let (replica_nodes, isr_nodes) = (listed(&image.replicas), listed(&image.isr));
        let dropped = replica_nodes.len() < image.replicas.len() || isr_nodes.len() < image.isr.len();
        let (leader, error) = if alive(&image.leader) {
            let error = if dropped { ErrorCode::ReplicaNotAvailable } else { ErrorCode::None };
            (image.leader, error)
        } else if self.version >= 6 && self.broker.metadata.is_alive(image.leader) {
            (BrokerId::NONE, ErrorCode::ListenerNotFound)
        } else {
            (BrokerId::NONE, ErrorCode::LeaderNotAvailable)
        };
        MetadataResponsePartition {
            error_code: error as i16,
            partition_index: id,
            leader_id: leader.0,
            leader_epoch: image.leader_epoch.0,
            replica_nodes,
            isr_nodes,
            offline_replicas: image.offline_replicas.iter().map(|broker| broker.0).collect(),
            ..Default::default()
        }
    }
}

/// Creates topics that were asked for by name, each once; the client asks again for their leaders.
async fn create_missing(
    call: Call,
    mut response: MetadataResponse,
    missing: Vec<TopicName>,
) -> ottla_network::Answer {
    for name in missing {
        let error = match topics::auto_create(&call.broker, &name).await {
            Ok(()) => ErrorCode::LeaderNotAvailable,
            Err(error) => {
                tracing::warn!(topic = %name, %error, "topic not created");
                error.code()
            }
        };
        response.topics.push(failed(Str::from(name.as_str()), error));
    }
    call.answer(&response)
}

fn failed(name: Str, error: ErrorCode) -> MetadataResponseTopic {
    let is_internal = topics::is_internal(&name);
    MetadataResponseTopic {
        error_code: error as i16,
        name: Some(name),
        is_internal,
        topic_authorized_operations: NOT_ASKED,
        ..Default::default()
    }
}

fn unknown_id(id: Uuid) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: ErrorCode::UnknownTopicId as i16,
        name: None,
        topic_id: id,
        topic_authorized_operations: NOT_ASKED,
        ..Default::default()
    }
}

fn live_brokers(broker: &Broker, listener: &str) -> Vec<MetadataResponseBroker> {
    let brokers = broker.metadata.brokers();
    let listed = brokers.iter().filter_map(|broker| {
        let endpoint = broker.endpoint(listener)?;
        Some(MetadataResponseBroker {
            node_id: broker.id.0,
            host: Str::from(endpoint.host.as_str()),
            port: endpoint.port,
            rack: broker.rack.as_deref().map(Str::from),
            ..Default::default()
        })
    });
    listed.collect()
}
