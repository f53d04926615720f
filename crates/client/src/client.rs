//! A client of one cluster: its connections and its picture of the cluster, shared by producers, consumers and admin calls.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use ottla_model::{BrokerId, TopicName};
use ottla_protocol::messages::metadata::MetadataRequestTopic;
use ottla_protocol::messages::{MetadataRequest, MetadataResponse};
use ottla_protocol::{ApiKey, ErrorCode, Request, Str};
use parking_lot::Mutex;
use tokio::time::{Instant, sleep, sleep_until, timeout};

use crate::backoff::Backoff;
use crate::connection::{Connection, ConnectionOptions, sasl_mechanisms};
use crate::error::{ClientError, ConnectionError};
use crate::metadata::{Metadata, Topic};
use crate::{Address, InvalidAddress};

#[derive(Debug, Clone)]
pub struct ClientOptions {
    pub connection: ConnectionOptions,
    /// After which the picture of the cluster is renewed even if nothing went wrong: `metadata.max.age.ms`.
    pub metadata_max_age: Duration,
    /// Time between two attempts at the same thing, doubling: `retry.backoff.ms` and `retry.backoff.max.ms`.
    pub retry_backoff: Duration,
    pub retry_backoff_max: Duration,
    /// How long to look for a topic that the brokers do not know: it may have been created a moment ago, or be created by the
    /// question itself.
    pub unknown_topic_wait: Duration,
    /// Whether to ask brokers to create missing topics, if their configuration allows that too: `allow.auto.create.topics`.
    pub create_topics: bool,
}

impl Default for ClientOptions {
    fn default() -> ClientOptions {
        ClientOptions {
            connection: ConnectionOptions::default(),
            metadata_max_age: Duration::from_secs(300),
            retry_backoff: Duration::from_millis(100),
            retry_backoff_max: Duration::from_secs(1),
            unknown_topic_wait: Duration::from_secs(5),
            create_topics: true,
        }
    }
}

/// How long one of several brokers may take to answer a question that another can answer as well.
const METADATA_PATIENCE: Duration = Duration::from_secs(3);

/// Cheap to clone; connections close with the last clone.
///
/// Memory: one connection for each broker in use, and the metadata of the topics that were named.
#[derive(Debug, Clone)]
pub struct Client(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    options: ClientOptions,
    bootstrap: Vec<Address>,
    metadata: Mutex<Arc<Metadata>>,
    /// That of `metadata`, for those who only want to know whether it is still the same.
    generation: AtomicU64,
    /// Topics that someone asked for, which every refresh asks for again.
    topics: Mutex<BTreeSet<TopicName>>,
    /// When the metadata was last asked for. Held while asking, so that one answer serves all who wait.
    refresh: tokio::sync::Mutex<Instant>,
    brokers: Mutex<HashMap<BrokerId, Arc<tokio::sync::Mutex<Slot>>>>,
}

/// The connection to one broker.
#[derive(Debug)]
struct Slot {
    connection: Option<Connection>,
    backoff: Backoff,
    not_before: Instant,
}

/// Which topics a metadata request names.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Topics<'a> {
    All,
    Named(&'a [TopicName]),
}

impl Client {
    /// Connects to the first of `bootstrap` that answers as a broker, and learns of the others from it.
    pub async fn connect(bootstrap: Vec<Address>, options: ClientOptions) -> Result<Client, ClientError> {
        if bootstrap.is_empty() {
            return Err(InvalidAddress::Empty.into());
        }
        let client = Client(Arc::new(Inner {
            options,
            bootstrap,
            metadata: Mutex::default(),
            generation: AtomicU64::new(0),
            topics: Mutex::default(),
            refresh: tokio::sync::Mutex::new(Instant::now()),
            brokers: Mutex::default(),
        }));
        let response = client.ask_bootstrap(Topics::Named(&[])).await?;
        client.learn(&response);
        Ok(client)
    }

    pub fn options(&self) -> &ClientOptions {
        &self.0.options
    }

    /// The picture of the cluster as of now.
    pub fn metadata(&self) -> Arc<Metadata> {
        self.0.metadata.lock().clone()
    }

    /// Changes whenever [`Client::metadata`] does.
    pub(crate) fn generation(&self) -> u64 {
        self.0.generation.load(Ordering::Acquire)
    }

    pub(crate) fn backoff(&self) -> Backoff {
        Backoff::new(self.0.options.retry_backoff, self.0.options.retry_backoff_max)
    }

    fn learn(&self, response: &MetadataResponse) {
        let mut metadata = self.0.metadata.lock();
        *metadata = Arc::new(metadata.updated(response));
        self.0.generation.store(metadata.generation, Ordering::Release);
    }

    /// The topic with its leaders. Looks for it for a while if the brokers do not know it, see [`ClientOptions::unknown_topic_wait`].
    pub async fn topic(&self, name: &TopicName) -> Result<Arc<Topic>, ClientError> {
        let deadline = Instant::now() + self.0.options.unknown_topic_wait;
        let mut backoff = self.backoff();
        loop {
            let metadata = self.metadata();
            let verdict = match metadata.topics.get(name) {
                // Leaders may still be on their way; the caller minds only those it needs.
                Some(topic) if !topic.partitions.is_empty() => return Ok(topic.clone()),
                Some(topic) if topic.error.is_error() => ClientError::Refused {
                    subject: format!("topic {name}"),
                    code: topic.error,
                    message: None,
                },
                Some(_) | None => ClientError::UnknownTopic { topic: name.to_string() },
            };
            let first = self.0.topics.lock().insert(name.clone());
            if !first {
                if !verdict.is_retriable() || Instant::now() >= deadline {
                    return Err(verdict);
                }
                sleep_until((Instant::now() + backoff.failed()).min(deadline)).await;
            }
            self.refresh(metadata.generation).await?;
        }
    }

    /// Renews the metadata of all topics in use, unless someone else did since generation `seen`.
    pub async fn refresh(&self, seen: u64) -> Result<(), ClientError> {
        let mut last = self.0.refresh.lock().await;
        if self.metadata().generation > seen && seen > 0 {
            return Ok(());
        }
        let topics: Vec<TopicName> = self.0.topics.lock().iter().cloned().collect();
        let response = self.ask_metadata(Topics::Named(&topics), self.0.options.create_topics).await;
        *last = Instant::now();
        self.learn(&response?);
        Ok(())
    }

    /// Whether nobody has asked for longer than [`ClientOptions::metadata_max_age`].
    pub(crate) fn is_stale(&self) -> bool {
        let max_age = self.0.options.metadata_max_age;
        self.0.refresh.try_lock().is_ok_and(|last| last.elapsed() > max_age)
    }

    /// The topics of the cluster, all or some, without caching them or creating any.
    pub(crate) async fn describe(&self, topics: Topics<'_>) -> Result<MetadataResponse, ClientError> {
        let response = self.ask_metadata(topics, false).await?;
        let brokers_only = MetadataResponse { topics: Vec::new(), ..response.clone() };
        self.learn(&brokers_only);
        Ok(response)
    }

    /// Asks any broker that answers: those that are connected, then any known one, then those of the bootstrap list. The first
    /// round is short of patience, as a frozen broker would cost more time than all others together.
    async fn ask_metadata(&self, topics: Topics<'_>, create: bool) -> Result<MetadataResponse, ClientError> {
        let mut brokers: Vec<BrokerId> = self.metadata().brokers.keys().copied().collect();
        brokers.sort_by_key(|id| !self.is_connected(*id));
        for broker in brokers {
            let answer = async {
                let connection = self.broker(broker).await?;
                Ok::<_, ClientError>(ask(&connection, topics, create).await?)
            };
            match timeout(METADATA_PATIENCE, answer).await {
                Ok(Ok(response)) => return Ok(response),
                Ok(Err(error)) if !error.is_retriable() => return Err(error),
                Ok(Err(error)) => tracing::debug!(%broker, %error, "no metadata"),
                Err(_) => tracing::debug!(%broker, "no metadata for too long"),
            }
        }
        self.ask_bootstrap(topics).await
    }

    async fn ask_bootstrap(&self, topics: Topics<'_>) -> Result<MetadataResponse, ClientError> {
        let options = &self.0.options.connection;
        let mut attempts = Vec::new();
        for address in &self.0.bootstrap {
            let answer = async {
                let connection = Connection::open(address, options).await?;
                let response = ask(&connection, topics, false).await?;
                Ok((connection, response))
            };
            match answer.await {
                Ok((connection, response)) => {
                    self.adopt(connection, &response);
                    return Ok(response);
                }
                Err(error @ ConnectionError::Closed { .. }) => {
                    // Versions are told to everyone; hanging up on the next request is how a SASL listener says no.
                    attempts.push(match sasl_mechanisms(address, options).await {
                        Some(mechanisms) => {
                            ConnectionError::SaslRequired { address: address.clone(), mechanisms }
                        }
                        None => error,
                    });
                }
                Err(error) => attempts.push(error),
            }
        }
        match <[ConnectionError; 1]>::try_from(attempts) {
            Ok([only]) => Err(only.into()),
            Err(attempts) => Err(ClientError::NoBootstrap { attempts }),
        }
    }

    /// Keeps a bootstrap connection as that of the broker which advertises the same address.
    fn adopt(&self, connection: Connection, response: &MetadataResponse) {
        let address = connection.address();
        let broker = response
            .brokers
            .iter()
            .find(|broker| *broker.host == *address.host() && broker.port == i32::from(address.port()));
        if let Some(broker) = broker
            && let Ok(mut slot) = self.slot(BrokerId(broker.node_id)).try_lock()
        {
            slot.connection = Some(connection);
        }
    }

    fn slot(&self, broker: BrokerId) -> Arc<tokio::sync::Mutex<Slot>> {
        let mut brokers = self.0.brokers.lock();
        let slot = brokers.entry(broker).or_insert_with(|| {
            let slot = Slot { connection: None, backoff: self.backoff(), not_before: Instant::now() };
            Arc::new(tokio::sync::Mutex::new(slot))
        });
        slot.clone()
    }

    fn is_connected(&self, broker: BrokerId) -> bool {
        let slot = self.0.brokers.lock().get(&broker).cloned();
        slot.is_some_and(|slot| {
            slot.try_lock().is_ok_and(|slot| slot.connection.as_ref().is_some_and(|open| !open.is_closed()))
        })
    }

    /// The shared connection to a broker. After a failure the next attempt waits a little.
    pub async fn broker(&self, broker: BrokerId) -> Result<Connection, ClientError> {
        let slot = self.slot(broker);
        let mut slot = slot.lock().await;
        if let Some(connection) = slot.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        sleep_until(slot.not_before).await;
        match self.open(broker).await {
            Ok(connection) => {
                slot.backoff.succeeded();
                slot.connection = Some(connection.clone());
                Ok(connection)
            }
            Err(error) => {
                slot.not_before = Instant::now() + slot.backoff.failed();
                Err(error)
            }
        }
    }

    /// A connection of its own to a broker, for requests that the broker keeps waiting, as answers come in order.
    pub async fn open(&self, broker: BrokerId) -> Result<Connection, ClientError> {
        let metadata = self.metadata();
        let known = metadata.brokers.get(&broker).ok_or(ClientError::UnknownBroker { broker })?;
        Connection::open(&known.address, &self.0.options.connection).await.map_err(|cause| {
            let advertised = known.address.clone();
            // An address from the bootstrap list is the caller's own word, not the broker's.
            if self.0.bootstrap.contains(&advertised) {
                ClientError::Connection(cause)
            } else {
                ClientError::AdvertisedUnreachable { broker, advertised, cause }
            }
        })
    }

    /// A connection to any broker.
    pub async fn any_broker(&self) -> Result<Connection, ClientError> {
        let mut brokers: Vec<BrokerId> = self.metadata().brokers.keys().copied().collect();
        brokers.sort_by_key(|id| !self.is_connected(*id));
        let mut last = ClientError::Incomplete { api: ApiKey::Metadata, missing: "any broker".to_owned() };
        for broker in brokers {
            match self.broker(broker).await {
                Ok(connection) => return Ok(connection),
                Err(error) => last = error,
            }
        }
        Err(last)
    }

    /// Asks the controller, and follows it when it moves, for at most `within`.
    ///
    /// `request` makes the request for a version; `refusal` finds NOT_CONTROLLER in a response.
    pub(crate) async fn ask_controller<R: Request>(
        &self,
        request: impl Fn(i16) -> R,
        within: Duration,
        refusal: impl Fn(&R::Response) -> ErrorCode,
    ) -> Result<R::Response, ClientError> {
        let deadline = Instant::now() + within;
        let mut backoff = self.backoff();
        loop {
            let metadata = self.metadata();
            let attempt = async {
                let Some(controller) = metadata.controller else {
                    // An old broker does not tell who it is, and would not understand the request either.
                    self.any_broker().await?.version_of::<R>(i16::MAX)?;
                    return Err(ClientError::NoController);
                };
                let connection = self.broker(controller).await?;
                let version = connection.version_of::<R>(i16::MAX)?;
                Ok::<_, ClientError>(connection.submit(&request(version), version).await?.wait().await?)
            };
            let trouble = match attempt.await {
                Ok(response) => match refusal(&response) {
                    code @ ErrorCode::NotController => ClientError::refused("controller", code, None),
                    _ => return Ok(response),
                },
                Err(error) if error.is_retriable() => error,
                Err(error) => return Err(error),
            };
            if Instant::now() >= deadline {
                return Err(trouble);
            }
            tracing::debug!(%trouble, "looking for the controller");
            sleep(backoff.failed()).await;
            self.refresh(metadata.generation).await?;
        }
    }
}

async fn ask(
    connection: &Connection,
    topics: Topics<'_>,
    create: bool,
) -> Result<MetadataResponse, ConnectionError> {
    let version = connection.version_of::<MetadataRequest>(i16::MAX)?;
    let named = match topics {
        // In version 0 an empty list asks for all topics, and there is no way to ask for none.
        Topics::All if version == 0 => Some(Vec::new()),
        Topics::All => None,
        Topics::Named(names) => Some(
            names
                .iter()
                .map(|name| MetadataRequestTopic {
                    name: Some(Str::from(name.as_str())),
                    ..Default::default()
                })
                .collect(),
        ),
    };
    let request = MetadataRequest {
        topics: named,
        // Before version 4 brokers create as they please.
        allow_auto_topic_creation: create || version < 4,
        ..Default::default()
    };
    connection.submit(&request, version).await?.wait().await
}
