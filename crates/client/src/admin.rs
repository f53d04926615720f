//! Administration: topics, partitions, configurations, offsets.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::join_all;
use ottla_model::{BrokerId, Offset, TopicName, TopicPartition, Uuid};
use ottla_protocol::messages::create_partitions::{CreatePartitionsAssignment, CreatePartitionsTopic};
use ottla_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicResult,
};
use ottla_protocol::messages::delete_records::{DeleteRecordsPartition, DeleteRecordsTopic};
use ottla_protocol::messages::delete_topics::DeleteTopicState;
use ottla_protocol::messages::describe_configs::{DescribeConfigsResource, DescribeConfigsResourceResult};
use ottla_protocol::messages::incremental_alter_configs::{AlterConfigsResource, AlterableConfig};
use ottla_protocol::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
    DescribeConfigsRequest, IncrementalAlterConfigsRequest,
};
use ottla_protocol::{ApiKey, ErrorCode, Str};

use crate::client::{Client, Topics};
use crate::connection::Connection;
use crate::error::{ClientError, error_code};
use crate::metadata::{Broker, Metadata, Topic};
use crate::offsets::{IsolationLevel, ListedOffset, OffsetSpec, list_offsets};

/// One outcome for each thing asked for, in the order asked.
pub type Outcomes<K, T> = Vec<(K, Result<T, ClientError>)>;

/// Admin calls; each is one request where the protocol allows it, and finds the broker that must answer.
#[derive(Debug, Clone)]
pub struct Admin {
    client: Client,
    timeout: Duration,
}

/// The cluster as one broker sees it.
#[derive(Debug, Clone)]
pub struct ClusterDescription {
    pub cluster_id: Option<String>,
    pub controller: Option<BrokerId>,
    pub brokers: Vec<Broker>,
}

#[derive(Debug, Clone)]
pub struct NewTopic {
    pub name: TopicName,
    pub placement: Placement,
    /// `None` as value is the default.
    pub configs: Vec<(String, Option<String>)>,
}

/// Where the partitions of a new topic go.
#[derive(Debug, Clone)]
pub enum Placement {
    /// The controller chooses the brokers; `None` takes the broker's default (brokers since 2.4).
    Counts { partitions: Option<i32>, replication_factor: Option<i16> },
    /// The replicas of each partition from 0, preferred leader first.
    Replicas(Vec<Vec<BrokerId>>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CreatedTopic {
    /// Zero from brokers before 2.8.
    pub id: Uuid,
    /// `None` from brokers before 2.4, and where the caller may not know.
    pub partitions: Option<i32>,
    pub replication_factor: Option<i16>,
}

#[derive(Debug, Clone)]
pub struct NewPartitions {
    pub topic: TopicName,
    /// How many there shall be in the end.
    pub count: i32,
    /// The replicas of each partition to add; `None` lets the controller choose.
    pub replicas: Option<Vec<Vec<BrokerId>>>,
}

/// What has a configuration.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum ConfigResource {
    Topic(TopicName),
    /// `None` is the default of all brokers.
    Broker(Option<BrokerId>),
    BrokerLogger(BrokerId),
}

impl ConfigResource {
    fn type_on_the_wire(&self) -> i8 {
        match self {
            ConfigResource::Topic(_) => 2,
            ConfigResource::Broker(_) => 4,
            ConfigResource::BrokerLogger(_) => 8,
        }
    }

    fn name(&self) -> String {
        match self {
            ConfigResource::Topic(name) => name.to_string(),
            ConfigResource::Broker(None) => String::new(),
            ConfigResource::Broker(Some(broker)) | ConfigResource::BrokerLogger(broker) => broker.to_string(),
        }
    }

    /// The one broker that knows; any will do for the others.
    fn broker(&self) -> Option<BrokerId> {
        match self {
            ConfigResource::Topic(_) | ConfigResource::Broker(None) => None,
            ConfigResource::Broker(Some(broker)) | ConfigResource::BrokerLogger(broker) => Some(*broker),
        }
    }
}

impl std::fmt::Display for ConfigResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            ConfigResource::Topic(name) => write!(f, "topic {name}"),
            ConfigResource::Broker(None) => f.write_str("brokers"),
            ConfigResource::Broker(Some(broker)) => write!(f, "broker {broker}"),
            ConfigResource::BrokerLogger(broker) => write!(f, "loggers of broker {broker}"),
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigEntry {
    pub name: String,
    /// `None` for secrets, and for what has no value.
    pub value: Option<String>,
    pub read_only: bool,
    pub sensitive: bool,
    /// Where the value comes from: 1 topic, 2 dynamic broker, 3 dynamic default, 4 server.properties, 5 built-in default, 6 logger;
    /// 0 unknown.
    pub source: i8,
    /// Every place that sets the key, in order of precedence: name, value, source.
    pub synonyms: Vec<(String, Option<String>, i8)>,
    pub documentation: Option<String>,
}

#[derive(Debug, Clone)]
pub enum ConfigChange {
    Set {
        key: String,
        value: String,
    },
    /// Back to the default.
    Delete {
        key: String,
    },
    /// Adds elements to a list.
    Append {
        key: String,
        value: String,
    },
    /// Takes elements from a list.
    Subtract {
        key: String,
        value: String,
    },
}

impl ConfigChange {
    fn on_the_wire(&self) -> AlterableConfig {
        let (operation, key, value) = match self {
            ConfigChange::Set { key, value } => (0, key, Some(value)),
            ConfigChange::Delete { key } => (1, key, None),
            ConfigChange::Append { key, value } => (2, key, Some(value)),
            ConfigChange::Subtract { key, value } => (3, key, Some(value)),
        };
        AlterableConfig {
            name: Str::from(key.as_str()),
            config_operation: operation,
            value: value.map(|value| Str::from(value.as_str())),
            ..Default::default()
        }
    }
}

impl Admin {
    pub fn new(client: Client) -> Admin {
        Admin { client, timeout: Duration::from_secs(30) }
    }

    /// How long brokers may take over a change, and how long to look for the controller.
    #[must_use]
    pub fn with_timeout(mut self, timeout: Duration) -> Admin {
        self.timeout = timeout;
        self
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    fn timeout_ms(&self) -> i32 {
        i32::try_from(self.timeout.as_millis()).unwrap_or(i32::MAX)
    }

    pub async fn describe_cluster(&self) -> Result<ClusterDescription, ClientError> {
        let response = self.client.describe(Topics::Named(&[])).await?;
        let metadata = Metadata::default().updated(&response);
        Ok(ClusterDescription {
            cluster_id: metadata.cluster_id.as_deref().map(str::to_owned),
            controller: metadata.controller,
            brokers: metadata.brokers.into_values().collect(),
        })
    }

    /// Every topic that the caller may see, by name, internal ones included.
    pub async fn list_topics(&self) -> Result<Vec<Topic>, ClientError> {
        let response = self.client.describe(Topics::All).await?;
        let mut topics: Vec<Topic> =
            Metadata::default().updated(&response).topics.into_values().map(Arc::unwrap_or_clone).collect();
        topics.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(topics)
    }

    pub async fn describe_topics(
        &self,
        names: &[TopicName],
    ) -> Result<Outcomes<TopicName, Topic>, ClientError> {
        if names.is_empty() {
            // An empty list would ask an old broker for everything.
            return Ok(Vec::new());
        }
        let response = self.client.describe(Topics::Named(names)).await?;
        let mut topics = Metadata::default().updated(&response).topics;
        let mut outcome = |name: &TopicName| match topics.remove(name) {
            Some(topic) if topic.error.is_error() && topic.partitions.is_empty() => {
                Err(ClientError::refused(format!("topic {name}"), topic.error, None))
            }
            Some(topic) => Ok(Arc::unwrap_or_clone(topic)),
            None => Err(ClientError::UnknownTopic { topic: name.to_string() }),
        };
        Ok(names.iter().map(|name| (name.clone(), outcome(name))).collect())
    }

    pub async fn create_topics(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<Outcomes<TopicName, CreatedTopic>, ClientError> {
        let request = |_| CreateTopicsRequest {
            topics: topics.iter().map(creatable).collect(),
            timeout_ms: self.timeout_ms(),
            validate_only,
            ..Default::default()
        };
        let response = self
            .client
            .ask_controller(request, self.timeout, |response| {
                find_not_controller(response.topics.iter().map(|topic| topic.error_code))
            })
            .await?;
        let mut results: HashMap<&str, &CreatableTopicResult> =
            response.topics.iter().map(|result| (&*result.name, result)).collect();
        let outcomes = topics.iter().map(|topic| {
            let result = results.remove(topic.name.as_str());
            let outcome = answered(ApiKey::CreateTopics, &topic.name, result).and_then(|result| {
                let subject = format!("topic {}", topic.name);
                succeeded(subject, result.error_code, result.error_message.as_ref())?;
                Ok(CreatedTopic {
                    id: result.topic_id,
                    partitions: (result.num_partitions >= 0).then_some(result.num_partitions),
                    replication_factor: (result.replication_factor >= 0).then_some(result.replication_factor),
                })
            });
            (topic.name.clone(), outcome)
        });
        Ok(outcomes.collect())
    }

    pub async fn delete_topics(&self, names: &[TopicName]) -> Result<Outcomes<TopicName, ()>, ClientError> {
        let by_name = |name: &TopicName| Str::from(name.as_str());
        let request = |version| {
            let mut request = DeleteTopicsRequest { timeout_ms: self.timeout_ms(), ..Default::default() };
            if version >= 6 {
                let state = |name| DeleteTopicState { name: Some(by_name(name)), ..Default::default() };
                request.topics = names.iter().map(state).collect();
            } else {
                request.topic_names = names.iter().map(by_name).collect();
            }
            request
        };
        let response = self
            .client
            .ask_controller(request, self.timeout, |response| {
                find_not_controller(response.responses.iter().map(|topic| topic.error_code))
            })
            .await?;
        let results = |name: &TopicName| {
            response.responses.iter().find(|result| result.name.as_deref() == Some(name.as_str()))
        };
        let outcomes = names.iter().map(|name| {
            let outcome = answered(ApiKey::DeleteTopics, name, results(name)).and_then(|result| {
                succeeded(format!("topic {name}"), result.error_code, result.error_message.as_ref())
            });
            (name.clone(), outcome)
        });
        Ok(outcomes.collect())
    }

    pub async fn create_partitions(
        &self,
        topics: &[NewPartitions],
        validate_only: bool,
    ) -> Result<Outcomes<TopicName, ()>, ClientError> {
        let request = |_| CreatePartitionsRequest {
            topics: topics
                .iter()
                .map(|topic| CreatePartitionsTopic {
                    name: Str::from(topic.topic.as_str()),
                    count: topic.count,
                    assignments: topic.replicas.as_ref().map(|partitions| {
                        let replicas = |replicas: &Vec<BrokerId>| CreatePartitionsAssignment {
                            broker_ids: ids(replicas),
                            ..Default::default()
                        };
                        partitions.iter().map(replicas).collect()
                    }),
                    ..Default::default()
                })
                .collect(),
            timeout_ms: self.timeout_ms(),
            validate_only,
            ..Default::default()
        };
        let response = self
            .client
            .ask_controller(request, self.timeout, |response| {
                find_not_controller(response.results.iter().map(|topic| topic.error_code))
            })
            .await?;
        let outcomes = topics.iter().map(|NewPartitions { topic, .. }| {
            let result = response.results.iter().find(|result| *result.name == *topic.as_str());
            let outcome = answered(ApiKey::CreatePartitions, topic, result).and_then(|result| {
                succeeded(format!("topic {topic}"), result.error_code, result.error_message.as_ref())
            });
            (topic.clone(), outcome)
        });
        Ok(outcomes.collect())
    }

    /// Every key of each resource. `documentation` costs the broker tens of kilobytes a resource.
    pub async fn describe_configs(
        &self,
        resources: &[ConfigResource],
        documentation: bool,
    ) -> Result<Outcomes<ConfigResource, Vec<ConfigEntry>>, ClientError> {
        let mut described = HashMap::new();
        for (broker, group) in by_broker(resources) {
            let connection = self.connection(broker).await?;
            let version = connection.version_of::<DescribeConfigsRequest>(i16::MAX)?;
            let resource = |resource: &&ConfigResource| DescribeConfigsResource {
                resource_type: resource.type_on_the_wire(),
                resource_name: Str::from(resource.name()),
                configuration_keys: None,
                ..Default::default()
            };
            let request = DescribeConfigsRequest {
                resources: group.iter().map(resource).collect(),
                include_synonyms: version >= 1,
                include_documentation: documentation && version >= 3,
                ..Default::default()
            };
            let response = connection.submit(&request, version).await?.wait().await?;
            for result in response.results {
                described.insert((result.resource_type, result.resource_name.to_string()), result);
            }
        }
        let outcomes = resources.iter().map(|resource| {
            let result = described.remove(&(resource.type_on_the_wire(), resource.name()));
            let outcome = answered(ApiKey::DescribeConfigs, resource, result).and_then(|result| {
                succeeded(resource.to_string(), result.error_code, result.error_message.as_ref())?;
                Ok(result.configs.iter().map(config_entry).collect())
            });
            (resource.clone(), outcome)
        });
        Ok(outcomes.collect())
    }

    /// Changes single keys (KIP-339, brokers since 2.3).
    pub async fn alter_configs(
        &self,
        changes: &[(ConfigResource, Vec<ConfigChange>)],
        validate_only: bool,
    ) -> Result<Outcomes<ConfigResource, ()>, ClientError> {
        let resources: Vec<ConfigResource> = changes.iter().map(|(resource, _)| resource.clone()).collect();
        let mut altered = HashMap::new();
        for (broker, group) in by_broker(&resources) {
            let altering = changes.iter().filter(|(resource, _)| group.contains(&resource));
            let request = IncrementalAlterConfigsRequest {
                resources: altering
                    .map(|(resource, changes)| AlterConfigsResource {
                        resource_type: resource.type_on_the_wire(),
                        resource_name: Str::from(resource.name()),
                        configs: changes.iter().map(ConfigChange::on_the_wire).collect(),
                        ..Default::default()
                    })
                    .collect(),
                validate_only,
                ..Default::default()
            };
            let response = self.connection(broker).await?.request(&request).await?;
            for result in response.responses {
                altered.insert((result.resource_type, result.resource_name.to_string()), result);
            }
        }
        let outcomes = resources.into_iter().map(|resource| {
            let result = altered.remove(&(resource.type_on_the_wire(), resource.name()));
            let outcome = answered(ApiKey::IncrementalAlterConfigs, &resource, result).and_then(|result| {
                succeeded(resource.to_string(), result.error_code, result.error_message.as_ref())
            });
            (resource, outcome)
        });
        Ok(outcomes.collect())
    }

    /// Offsets by time or place. Tries again while leaders move, until the timeout.
    pub async fn list_offsets(
        &self,
        wanted: Vec<(TopicPartition, OffsetSpec)>,
        isolation: IsolationLevel,
    ) -> Outcomes<TopicPartition, ListedOffset> {
        let order: Vec<TopicPartition> = wanted.iter().map(|(partition, _)| partition.clone()).collect();
        let work = |wanted| list_offsets(&self.client, wanted, isolation);
        let mut found = self.until_settled(wanted, work).await;
        order
            .into_iter()
            .filter_map(|partition| found.remove(&partition).map(|outcome| (partition, outcome)))
            .collect()
    }

    /// Moves log start offsets forward; [`Offset`] -1 is the high watermark. Returns the new log start offsets.
    pub async fn delete_records(
        &self,
        before: Vec<(TopicPartition, Offset)>,
    ) -> Outcomes<TopicPartition, Offset> {
        let order: Vec<TopicPartition> = before.iter().map(|(partition, _)| partition.clone()).collect();
        let mut deleted = self.until_settled(before, |before| self.delete_records_once(before)).await;
        order
            .into_iter()
            .filter_map(|partition| deleted.remove(&partition).map(|outcome| (partition, outcome)))
            .collect()
    }

    async fn delete_records_once(
        &self,
        before: Vec<(TopicPartition, Offset)>,
    ) -> Outcomes<TopicPartition, Offset> {
        let metadata = self.client.metadata();
        let asked = before.into_iter().map(async |(partition, offset)| {
            let outcome = async {
                let (leader, _) =
                    metadata.leader(&partition.topic, partition.partition).ok_or_else(|| {
                        ClientError::NoLeader {
                            topic: partition.topic.to_string(),
                            partition: partition.partition,
                        }
                    })?;
                let request = DeleteRecordsRequest {
                    topics: vec![DeleteRecordsTopic {
                        name: Str::from(partition.topic.as_str()),
                        partitions: vec![DeleteRecordsPartition {
                            partition_index: partition.partition,
                            offset: offset.0,
                            ..Default::default()
                        }],
                        ..Default::default()
                    }],
                    timeout_ms: self.timeout_ms(),
                    ..Default::default()
                };
                let response = self.client.broker(leader).await?.request(&request).await?;
                let result = response.topics.first().and_then(|topic| topic.partitions.first());
                let result = answered(ApiKey::DeleteRecords, &partition, result)?;
                succeeded(partition.to_string(), result.error_code, None)?;
                Ok(Offset(result.low_watermark))
            };
            let outcome = outcome.await;
            (partition, outcome)
        });
        join_all(asked).await
    }

    /// Does `work` on each partition until it succeeds or fails for good, or the time is over.
    async fn until_settled<S: Copy, T>(
        &self,
        mut wanted: Vec<(TopicPartition, S)>,
        work: impl AsyncFn(Vec<(TopicPartition, S)>) -> Outcomes<TopicPartition, T>,
    ) -> HashMap<TopicPartition, Result<T, ClientError>> {
        let deadline = tokio::time::Instant::now() + self.timeout;
        let mut backoff = self.client.backoff();
        let mut settled = HashMap::new();
        let mut unknown: HashMap<TopicName, ClientError> = HashMap::new();
        for topic in wanted.iter().map(|(partition, _)| &partition.topic) {
            if !unknown.contains_key(topic)
                && let Err(error) = self.client.topic(topic).await
            {
                unknown.insert(topic.clone(), error);
            }
        }
        wanted.retain(|(partition, _)| match unknown.get(&partition.topic) {
            Some(error) => {
                settled.insert(partition.clone(), Err(error.clone()));
                false
            }
            None => true,
        });
        loop {
            let seen = self.client.metadata().generation;
            let specs: HashMap<TopicPartition, S> = wanted.iter().cloned().collect();
            let mut again = Vec::new();
            for (partition, outcome) in work(std::mem::take(&mut wanted)).await {
                let retry = outcome.as_ref().err().is_some_and(ClientError::is_retriable)
                    && tokio::time::Instant::now() < deadline;
                match specs.get(&partition) {
                    Some(spec) if retry => again.push((partition, *spec)),
                    _ => {
                        settled.insert(partition, outcome);
                    }
                }
            }
            if again.is_empty() {
                return settled;
            }
            tokio::time::sleep(backoff.failed()).await;
            if let Err(error) = self.client.refresh(seen).await {
                tracing::debug!(%error, "no metadata for now");
            }
            wanted = again;
        }
    }

    async fn connection(&self, broker: Option<BrokerId>) -> Result<Connection, ClientError> {
        match broker {
            Some(broker) => self.client.broker(broker).await,
            None => self.client.any_broker().await,
        }
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let (num_partitions, replication_factor, assignments) = match &topic.placement {
        Placement::Counts { partitions, replication_factor } => {
            (partitions.unwrap_or(-1), replication_factor.unwrap_or(-1), Vec::new())
        }
        Placement::Replicas(partitions) => {
            let assignment = |(number, replicas): (i32, &Vec<BrokerId>)| CreatableReplicaAssignment {
                partition_index: number,
                broker_ids: ids(replicas),
                ..Default::default()
            };
            (-1, -1, (0..).zip(partitions).map(assignment).collect())
        }
    };
    let config = |(name, value): &(String, Option<String>)| CreatableTopicConfig {
        name: Str::from(name.as_str()),
        value: value.as_deref().map(Str::from),
        ..Default::default()
    };
    CreatableTopic {
        name: Str::from(topic.name.as_str()),
        num_partitions,
        replication_factor,
        assignments,
        configs: topic.configs.iter().map(config).collect(),
        ..Default::default()
    }
}

fn config_entry(entry: &DescribeConfigsResourceResult) -> ConfigEntry {
    ConfigEntry {
        name: entry.name.to_string(),
        value: entry.value.as_deref().map(str::to_owned),
        read_only: entry.read_only,
        sensitive: entry.is_sensitive,
        // Version 0 knows only whether somebody set the key.
        source: match entry.config_source {
            -1 if entry.is_default => 5,
            -1 => 0,
            source => source,
        },
        synonyms: entry
            .synonyms
            .iter()
            .map(|synonym| {
                (synonym.name.to_string(), synonym.value.as_deref().map(str::to_owned), synonym.source)
            })
            .collect(),
        documentation: entry.documentation.as_deref().map(str::to_owned),
    }
}

/// The resources of each broker that must be asked itself; those that any broker knows are under `None`.
fn by_broker(resources: &[ConfigResource]) -> HashMap<Option<BrokerId>, Vec<&ConfigResource>> {
    let mut groups: HashMap<Option<BrokerId>, Vec<&ConfigResource>> = HashMap::new();
    for resource in resources {
        groups.entry(resource.broker()).or_default().push(resource);
    }
    groups
}

fn ids(brokers: &[BrokerId]) -> Vec<i32> {
    brokers.iter().map(|broker| broker.0).collect()
}

fn find_not_controller(mut codes: impl Iterator<Item = i16>) -> ErrorCode {
    let not_controller = ErrorCode::NotController;
    if codes.any(|code| code == i16::from(not_controller)) { not_controller } else { ErrorCode::None }
}

fn answered<T>(api: ApiKey, subject: &impl std::fmt::Display, result: Option<T>) -> Result<T, ClientError> {
    result.ok_or_else(|| ClientError::Incomplete { api, missing: subject.to_string() })
}

fn succeeded(subject: String, code: i16, message: Option<&Str>) -> Result<(), ClientError> {
    match error_code(code) {
        ErrorCode::None => Ok(()),
        code => Err(ClientError::refused(subject, code, message)),
    }
}
