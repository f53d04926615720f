//! A running broker: how it starts, what it consists of, how it ends.

use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicI64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ottla_client::Address;
use ottla_model::{BrokerEpoch, BrokerId, ControllerEpoch, Timestamp, TopicName, Uuid};
use ottla_network::{BindError, BoundListener, Limits, ListenerConfig, SocketServer};
use ottla_protocol::{ErrorCode, Str};
use ottla_replica::IsrProposal;
use ottla_zookeeper::records::{BrokerEndpoint, BrokerRegistration, ConfigEntity, RegistrationVersion};
use ottla_zookeeper::{
    ClientStore, ConnectError, ConnectSettings, KafkaZkClient, Patience, RegisterError, SessionState,
    ZkError, ZkStore,
};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::apis::{Router, fetch};
use crate::config::{Config, ConfigError, Endpoint, ProtocolVersion};
use crate::controller::{self, ControllerHandle};
use crate::dynamic_config::DynamicConfig;
use crate::fetch_session::FetchSessions;
use crate::group_coordinator::{self, GroupCoordinator};
use crate::hosted_partition::HostedPartition;
use crate::metadata_cache::MetadataCache;
use crate::producer_ids::ProducerIds;
use crate::random;
use crate::replica_fetcher::ReplicaFetchers;
use crate::replica_manager::{LockedLogDirs, LogDirsError, ReplicaManager};
use crate::topic_configs::TopicConfigs;
use crate::{config_changes, controlled_shutdown, housekeeping, in_sync_replicas, topics};

/// How long answers that are due may take to leave when the broker stops.
const SHUTDOWN_GRACE: Duration = Duration::from_secs(5);

/// How long a broker that stops waits for ZooKeeper to come back.
const RECONNECT_GRACE: Duration = Duration::from_secs(2);

/// How long a broker that starts, and whoever asks it for metadata, waits for the controller's first word.
pub const FIRST_NEWS_PATIENCE: Duration = Duration::from_secs(5);

/// What every part of the broker can reach.
#[derive(Debug)]
pub struct Broker {
    pub id: BrokerId,
    pub cluster_id: String,
    /// As it was at start.
    pub config: Arc<Config>,
    /// What has been set since, over it.
    pub dynamic: Arc<DynamicConfig>,
    pub metadata: Arc<MetadataCache>,
    pub topic_configs: Arc<TopicConfigs>,
    pub replicas: ReplicaManager,
    pub zookeeper: KafkaZkClient,
    pub producer_ids: ProducerIds,
    /// The controller, where it is on this broker.
    pub controller: ControllerHandle,
    pub fetchers: ReplicaFetchers,
    pub fetch_sessions: fetch::Sessions,
    pub groups: GroupCoordinator,
    isr_changes: mpsc::UnboundedSender<in_sync_replicas::Change>,
    registration: BrokerRegistration,
    /// The czxid of our registration.
    epoch: AtomicI64,
    /// The highest controller epoch that any order carried.
    controller_epoch: AtomicI32,
}

impl Broker {
    pub fn now(&self) -> Timestamp {
        now()
    }

    pub fn epoch(&self) -> BrokerEpoch {
        BrokerEpoch(self.epoch.load(Ordering::Acquire))
    }

    pub fn is_controller(&self) -> bool {
        self.metadata.controller() == Some(self.id)
    }

    /// Whether an order may be followed: it must come from the newest controller known, and be meant for this life of
    /// this broker. -1 stands for an unknown life (KIP-380).
    pub fn check_controller(
        &self,
        controller: ControllerEpoch,
        broker: BrokerEpoch,
    ) -> Result<(), ErrorCode> {
        if broker.0 != -1 && broker < self.epoch() {
            return Err(ErrorCode::StaleBrokerEpoch);
        }
        let highest = self.controller_epoch.fetch_max(controller.0, Ordering::AcqRel);
        if controller.0 < highest { Err(ErrorCode::StaleControllerEpoch) } else { Ok(()) }
    }

    /// The topic that a request names, by name or, from some version of each API on, by id.
    pub fn topic_name(&self, name: &Str, id: Uuid, by_id: bool) -> Result<Str, ErrorCode> {
        if !by_id {
            return Ok(name.clone());
        }
        let topic = self.metadata.topic_by_id(id).ok_or(ErrorCode::UnknownTopicId)?;
        Ok(Str::from(topic.name.as_str()))
    }

    /// A follower is in step again. The controller is to take it back into the in-sync set.
    pub fn propose_isr(&self, hosted: &Arc<HostedPartition>, proposal: IsrProposal) {
        tracing::info!(partition = %hosted.name(), isr = ?proposal.isr, "in-sync replicas to grow");
        if self.isr_changes.send((hosted.clone(), proposal)).is_err() {
            tracing::debug!(
                "the broker stops, nobody takes changes of in-sync sets to the controller any more"
            );
        }
    }

    /// Where another broker listens for brokers.
    pub fn inter_broker_address(&self, broker: BrokerId) -> Option<Address> {
        let image = self.metadata.broker(broker)?;
        let endpoint = image.endpoint(self.config.listeners.inter_broker.as_str())?;
        Some(Address::new(&endpoint.host, u16::try_from(endpoint.port).ok()?))
    }

    /// Registers this broker, and thereby begins a new life of it.
    pub async fn register(&self, others: &[BrokerId], patience: Patience) -> Result<(), RegisterError> {
        let version = registration_version(self.config.inter_broker_protocol);
        let epoch =
            self.zookeeper.register_broker(self.id, &self.registration, version, others, patience).await?;
        self.epoch.store(epoch.0, Ordering::Release);
        tracing::info!(id = %self.id, %epoch, "registered broker at /brokers/ids/{}", self.id);
        Ok(())
    }

    /// Reads what topics have configured for themselves, before the first of their logs is made here.
    pub async fn load_topic_configs(&self, topics: &[TopicName]) -> Result<(), ZkError> {
        let entities: Vec<ConfigEntity> = topics.iter().map(|topic| ConfigEntity::topic(topic)).collect();
        let configs = self.zookeeper.read_configs(&entities).await;
        for (topic, config) in topics.iter().zip(configs) {
            let overrides = config?.map(|config| config.record.0).unwrap_or_default();
            self.topic_configs.set(topic, overrides);
        }
        Ok(())
    }
}

/// Resolves when the broker stops.
pub async fn stopping(stopped: &mut watch::Receiver<bool>) {
    // A sender that is gone has stopped too.
    let _ = stopped.wait_for(|stopped| *stopped).await;
}

pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

fn registration_version(protocol: ProtocolVersion) -> RegistrationVersion {
    if protocol >= ProtocolVersion::V2_7_IV0 {
        RegistrationVersion::V5
    } else if protocol >= ProtocolVersion::V0_10_0_IV1 {
        RegistrationVersion::V4
    } else {
        RegistrationVersion::V2
    }
}

/// Why a broker did not start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Bind(#[from] BindError),
    #[error(transparent)]
    LogDirs(#[from] LogDirsError),
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error("ZooKeeper: {0}")]
    ZooKeeper(#[from] ZkError),
    #[error(transparent)]
    Register(#[from] RegisterError),
    #[error(
        "broker.id is not set, and broker.id.generation.enable=false forbids to generate one; set broker.id"
    )]
    NoBrokerId,
}

/// A broker that serves.
#[derive(Debug)]
pub struct RunningBroker {
    broker: Arc<Broker>,
    store: Arc<ClientStore>,
    server: SocketServer,
    stop: watch::Sender<bool>,
    tasks: JoinSet<()>,
}

impl RunningBroker {
    /// Starts a broker; its ports open when it can serve, and not before.
    ///
    /// What can go wrong without ZooKeeper goes wrong first: a taken port, a data directory in use.
    pub async fn start(config: Config) -> Result<RunningBroker, StartError> {
        let begun = std::time::Instant::now();
        config.check_supported()?;
        for warning in &config.warnings {
            tracing::warn!("{warning}");
        }
        let config = Arc::new(config);
        let listeners = bind(&config)?;
        let log_dirs = LockedLogDirs::lock(&config.log.dirs)?;
        let store = Arc::new(
            ClientStore::connect(ConnectSettings {
                connect: config.zookeeper.connect.clone(),
                session_timeout: config.zookeeper.session_timeout,
                connection_timeout: config.zookeeper.connection_timeout,
            })
            .await?,
        );
        let zookeeper = KafkaZkClient::new(store.clone(), config.zookeeper.in_flight_max);
        let view = zookeeper.start(random::uuid()).await?;
        let cluster_id = view.cluster_id.0.clone();
        let id = match log_dirs.broker_id(config.broker_id, &cluster_id)? {
            Some(id) => id,
            None if config.broker_id_generation_enable => {
                zookeeper.generate_broker_id(config.reserved_broker_max_id).await?
            }
            None => return Err(StartError::NoBrokerId),
        };
        log_dirs.claim(id, &cluster_id, now())?;

        let dynamic = Arc::new(DynamicConfig::new(config.settings.clone()));
        let topic_configs = Arc::new(TopicConfigs::new(config.clone(), dynamic.clone()));
        config_changes::load_all(&zookeeper, id, &dynamic, &topic_configs).await?;
        let metadata = Arc::new(MetadataCache::default());
        let replicas = ReplicaManager::open(
            log_dirs,
            id,
            config.clone(),
            topic_configs.clone(),
            metadata.clone(),
            now(),
        )?;
        let endpoints = advertised(&config, &listeners);
        let (isr_changes, changes) = mpsc::unbounded_channel();
        let groups = GroupCoordinator::new(&config);
        let fetch_sessions_max = config.network.fetch_sessions_max;
        let broker = Arc::new(Broker {
            id,
            cluster_id,
            registration: registration(&config, &endpoints),
            config,
            dynamic,
            metadata,
            topic_configs,
            replicas,
            zookeeper,
            producer_ids: ProducerIds::default(),
            groups,
            controller: ControllerHandle::default(),
            fetchers: ReplicaFetchers::default(),
            fetch_sessions: fetch::Sessions::new(FetchSessions::new(fetch_sessions_max)),
            isr_changes,
            epoch: AtomicI64::new(-1),
            controller_epoch: AtomicI32::new(0),
        });
        broker.register(&view.brokers, Patience::for_session(store.session_timeout())).await?;

        let (stop, stopped) = watch::channel(false);
        let mut tasks = JoinSet::new();
        // The first controller learns of itself before anybody can ask; any other is told by its controller, for which
        // its port must be open.
        let controller = controller::Office::enter(broker.clone(), view.controller, stopped.clone()).await?;
        tasks.spawn(controller.run());
        tasks.spawn(config_changes::watch(broker.clone(), stopped.clone()));
        tasks.spawn(group_coordinator::run(broker.clone(), stopped.clone()));
        tasks.spawn(in_sync_replicas::run(broker.clone(), changes, stopped.clone()));
        tasks.spawn(housekeeping::run(broker.clone(), stopped));
        let limits = limits(&broker.config);
        let server = SocketServer::start(listeners, limits, Arc::new(Router::new(broker.clone())))?;
        // Only now can the controller reach us. Who reads that we have started may ask for metadata at once.
        if !topics::wait_until(&broker, FIRST_NEWS_PATIENCE, |broker| broker.metadata.is_alive(broker.id))
            .await
        {
            tracing::warn!(
                "no controller has told this broker of the cluster yet; clients hear of nothing until one does"
            );
        }
        announce(&broker, &endpoints, &server, begun.elapsed());
        Ok(RunningBroker { broker, store, server, stop, tasks })
    }

    pub fn id(&self) -> BrokerId {
        self.broker.id
    }

    /// Listener names and the addresses they listen on.
    pub fn local_addrs(&self) -> &[(Arc<str>, std::net::SocketAddr)] {
        self.server.local_addrs()
    }

    /// Stops serving, closes the logs and leaves ZooKeeper. The next start need not look at any record.
    pub async fn shutdown(mut self) {
        tracing::info!("[KafkaServer id={}] shutting down", self.broker.id);
        let mut alone = false;
        if self.broker.config.controller.controlled_shutdown_enable {
            tokio::select! {
                () = controlled_shutdown::leave(&self.broker) => {}
                () = lost(self.store.states()) => {
                    tracing::warn!("without ZooKeeper nobody can take leaderships over, stopping");
                    alone = true;
                }
            }
        }
        self.stop.send_replace(true);
        self.broker.groups.close();
        for hosted in self.broker.replicas.all() {
            hosted.purgatory().release_all();
        }
        self.server.shutdown(SHUTDOWN_GRACE).await;
        tokio::select! {
            () = async { while self.tasks.join_next().await.is_some() {} } => {}
            // What waits for ZooKeeper could as well have been killed: nothing rests on its last word.
            () = async { if !alone { lost(self.store.states()).await } } => self.tasks.shutdown().await,
        }
        self.broker.fetchers.stop();
        self.broker.replicas.close(now());
        if let Err(error) = self.store.close().await {
            tracing::warn!(%error, "the ZooKeeper session will end by its timeout");
        }
        tracing::info!("[KafkaServer id={}] shut down completed", self.broker.id);
    }
}

/// Returns once ZooKeeper has been out of reach for a while, or the session is over.
async fn lost(mut states: watch::Receiver<SessionState>) {
    let connected = |state: &SessionState| matches!(state, SessionState::Connected { .. });
    // A sender that is gone has nothing to say any more.
    while states.wait_for(|state| !connected(state)).await.is_ok() {
        let back = tokio::time::timeout(RECONNECT_GRACE, states.wait_for(connected)).await;
        if !matches!(back, Ok(Ok(_))) {
            return;
        }
    }
}

fn bind(config: &Config) -> Result<Vec<BoundListener>, BindError> {
    let network = &config.network;
    let bind = |endpoint: &Endpoint| {
        let mut listener = ListenerConfig::new(endpoint.name.as_str(), &endpoint.host, endpoint.port);
        listener.send_buffer_bytes = network.socket_send_buffer_bytes.map(|bytes| bytes as usize);
        listener.receive_buffer_bytes = network.socket_receive_buffer_bytes.map(|bytes| bytes as usize);
        listener.backlog = i32::try_from(network.listen_backlog).unwrap_or(i32::MAX);
        listener.inter_broker = endpoint.name == config.listeners.inter_broker;
        listener.bind()
    };
    config.listeners.bound.iter().map(bind).collect()
}

/// What is told to clients, with the ports that were free where none was configured.
fn advertised(config: &Config, listeners: &[BoundListener]) -> Vec<Endpoint> {
    config.advertised(|name| {
        let bound = listeners.iter().find(|listener| listener.name() == name.as_str())?;
        Some(bound.local_addr().port())
    })
}

fn registration(config: &Config, endpoints: &[Endpoint]) -> BrokerRegistration {
    let endpoint = |endpoint: &Endpoint| BrokerEndpoint {
        listener: endpoint.name.as_str().to_owned(),
        security_protocol: endpoint.protocol.name().to_owned(),
        host: endpoint.host.clone(),
        port: endpoint.port.into(),
    };
    BrokerRegistration {
        endpoints: endpoints.iter().map(endpoint).collect(),
        rack: config.rack.clone(),
        jmx_port: -1,
        features: Default::default(),
        timestamp: now(),
    }
}

fn limits(config: &Config) -> Limits {
    let network = &config.network;
    Limits {
        request_bytes_max: network.request_bytes_max,
        queued_request_bytes_max: network.queued_request_bytes_max,
        connections_max: network.connections_max as usize,
        connections_per_ip_max: network.connections_per_ip_max as usize,
        idle_max: network.connections_idle_max,
        ..Limits::default()
    }
}

fn announce(broker: &Broker, advertised: &[Endpoint], server: &SocketServer, took: Duration) {
    for (listener, address) in server.local_addrs() {
        let told = advertised.iter().find(|endpoint| endpoint.name.as_str() == &**listener);
        let told =
            told.map_or_else(|| "not advertised".to_owned(), |endpoint| format!("advertised as {endpoint}"));
        tracing::info!("listener {listener} on {address}, {told}");
    }
    tracing::info!(
        "cluster {} at ZooKeeper {}, data in {:?}",
        broker.cluster_id,
        broker.config.zookeeper.connect,
        broker.config.log.dirs
    );
    tracing::info!(after_ms = took.as_millis() as u64, "[KafkaServer id={}] started", broker.id);
}
