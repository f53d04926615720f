//! Following leaders on other brokers: one task per leader broker fetches for all partitions it leads.

use std::collections::HashMap;
use std::sync::Arc;

use ottla_client::{Address, Connection, ConnectionError, ConnectionOptions};
use ottla_log::EpochEnd;
use ottla_model::{BrokerId, LeaderEpoch, Offset, TopicPartition, Uuid};
use ottla_protocol::messages::fetch::{
    FetchPartition, FetchRequest, FetchTopic, PartitionData, ReplicaState,
};
use ottla_protocol::messages::list_offsets::{ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic};
use ottla_protocol::{ErrorCode, Str};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::hosted_partition::{FollowerFailure, FollowerPosition, FromLeader, HostedPartition};
use crate::server::Broker;

/// From here on topics are named by id; without an id for each of them, the version below.
const VERSION_BY_ID_MIN: i16 = 13;
const VERSION_MAX: i16 = 17;
const LIST_OFFSETS_VERSION_MAX: i16 = 9;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;

/// The tasks that fetch for the followers on this broker.
#[derive(Debug, Default)]
pub struct ReplicaFetchers {
    fetchers: Mutex<Fetchers>,
}

#[derive(Debug, Default)]
struct Fetchers {
    by_leader: HashMap<BrokerId, Arc<Following>>,
    /// Who fetches what.
    leaders: HashMap<TopicPartition, BrokerId>,
    tasks: JoinSet<()>,
}

/// What one task fetches.
#[derive(Debug, Default)]
struct Following {
    partitions: Mutex<HashMap<TopicPartition, Followed>>,
    changed: Notify,
}

#[derive(Debug)]
struct Followed {
    hosted: Arc<HostedPartition>,
    /// After trouble: not to be asked for before.
    not_before: Option<Instant>,
}

impl ReplicaFetchers {
    /// Fetches for a partition from its leader, and from nobody else any more.
    pub fn follow(&self, broker: &Arc<Broker>, hosted: Arc<HostedPartition>, leader: BrokerId) {
        let name = hosted.name().clone();
        self.forget(&name);
        let mut fetchers = self.fetchers.lock();
        let Fetchers { by_leader, leaders, tasks } = &mut *fetchers;
        leaders.insert(name.clone(), leader);
        let following = by_leader.entry(leader).or_insert_with(|| {
            let following = Arc::new(Following::default());
            tasks.spawn(Fetcher::new(broker.clone(), leader, following.clone()).run());
            following
        });
        following.partitions.lock().insert(name, Followed { hosted, not_before: None });
        following.changed.notify_one();
    }

    /// Fetches no more for a partition: it leads itself now, has no leader, or is gone.
    pub fn forget(&self, name: &TopicPartition) {
        let mut fetchers = self.fetchers.lock();
        if let Some(leader) = fetchers.leaders.remove(name)
            && let Some(following) = fetchers.by_leader.get(&leader)
        {
            following.partitions.lock().remove(name);
        }
    }

    /// Ends all fetching.
    pub fn stop(&self) {
        *self.fetchers.lock() = Fetchers::default();
    }
}

/// Why a round of fetching failed as a whole.
#[derive(Debug, thiserror::Error)]
enum RoundFailure {
    #[error("the leader's address is not known")]
    NoAddress,
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the leader answers {}", .0.name())]
    Refused(ErrorCode),
}

/// One partition's place in a request.
struct Asked {
    hosted: Arc<HostedPartition>,
    position: FollowerPosition,
}

struct Fetcher {
    broker: Arc<Broker>,
    leader: BrokerId,
    following: Arc<Following>,
    connection: Option<(Address, Connection)>,
}

impl Fetcher {
    fn new(broker: Arc<Broker>, leader: BrokerId, following: Arc<Following>) -> Fetcher {
        Fetcher { broker, leader, following, connection: None }
    }

    async fn run(mut self) {
        let mut complained = false;
        loop {
            let (asked, next) = self.due();
            if asked.is_empty() {
                let changed = self.following.changed.notified();
                match next {
                    Some(at) => drop(tokio::time::timeout_at(at, changed).await),
                    None => changed.await,
                }
                continue;
            }
            match self.round(&asked).await {
                Ok(()) => complained = false,
                Err(error) => {
                    self.connection = None;
                    if !std::mem::replace(&mut complained, true) {
                        tracing::warn!(leader = %self.leader, %error, "cannot fetch from leader, trying again");
                    }
                    self.pause().await;
                }
            }
        }
    }

    /// Waits for the backoff, or for news of the cluster: the leader may be back, or another one be in its place.
    async fn pause(&self) {
        let mut news = self.broker.metadata.changes();
        let _ = tokio::time::timeout(self.broker.config.replication.fetch_backoff, news.changed()).await;
    }

    /// The partitions to ask for now, and when the next of the others is due.
    fn due(&self) -> (Vec<Asked>, Option<Instant>) {
        let now = Instant::now();
        let (mut asked, mut next, mut any_cut) = (Vec::new(), None::<Instant>, false);
        self.following.partitions.lock().retain(|name, followed| {
            if let Some(at) = followed.not_before.filter(|at| *at > now) {
                next = Some(next.map_or(at, |next| next.min(at)));
                return true;
            }
            match followed.hosted.follower_position(self.broker.now()) {
                Ok(Some((position, cut))) => {
                    any_cut |= cut;
                    asked.push(Asked { hosted: followed.hosted.clone(), position });
                    true
                }
                Ok(None) => false,
                Err(error) => {
                    tracing::error!(partition = %name, %error, "replica fetches no more");
                    false
                }
            }
        });
        if any_cut {
            self.broker.replicas.checkpoint_recovery_points();
        }
        (asked, next)
    }

    fn delay(&self, name: &TopicPartition) {
        if let Some(followed) = self.following.partitions.lock().get_mut(name) {
            followed.not_before = Some(Instant::now() + self.broker.config.replication.fetch_backoff);
        }
    }

    async fn connect(&mut self) -> Result<Connection, RoundFailure> {
        let address = self.broker.inter_broker_address(self.leader).ok_or(RoundFailure::NoAddress)?;
        if let Some((to, connection)) = &self.connection
            && *to == address
            && !connection.is_closed()
        {
            return Ok(connection.clone());
        }
        let replication = &self.broker.config.replication;
        let options = ConnectionOptions {
            client_id: format!("broker-{}-fetcher-0", self.broker.id),
            request_timeout: replication.socket_timeout + replication.fetch_wait_max,
            response_bytes_max: i32::MAX as usize,
            ..Default::default()
        };
        let connection = Connection::open(&address, &options).await?;
        self.connection = Some((address, connection.clone()));
        Ok(connection)
    }

    /// One fetch for all partitions that are due.
    async fn round(&mut self, asked: &[Asked]) -> Result<(), RoundFailure> {
        let connection = self.connect().await?;
        let by_id = asked.iter().all(|asked| !asked.hosted.topic_id().is_zero());
        let cap = if by_id { VERSION_MAX } else { VERSION_BY_ID_MIN - 1 };
        let version = connection.version_of::<FetchRequest>(cap)?;
        let request = self.request(version, asked);
        let response = connection.submit(&request, version).await?.wait().await?;
        match ErrorCode::from_i16(response.error_code) {
            Some(ErrorCode::None) => {}
            code => return Err(RoundFailure::Refused(code.unwrap_or(ErrorCode::UnknownServerError))),
        }
        let mut by_name: HashMap<(&str, i32), &Asked> = HashMap::new();
        let mut by_topic_id: HashMap<(Uuid, i32), &Asked> = HashMap::new();
        for asked in asked {
            let name = asked.hosted.name();
            by_name.insert((name.topic.as_str(), name.partition), asked);
            by_topic_id.insert((asked.hosted.topic_id(), name.partition), asked);
        }
        for topic in &response.responses {
            for data in &topic.partitions {
                let found = if version >= VERSION_BY_ID_MIN {
                    by_topic_id.get(&(topic.topic_id, data.partition_index))
                } else {
                    by_name.get(&(&*topic.topic, data.partition_index))
                };
                if let Some(asked) = found {
                    self.take_in(&connection, asked, data).await?;
                }
            }
        }
        Ok(())
    }

    fn request(&self, version: i16, asked: &[Asked]) -> FetchRequest {
        let replication = &self.broker.config.replication;
        let bytes = |bytes: u32| i32::try_from(bytes).unwrap_or(i32::MAX);
        let mut topics: HashMap<Uuid, FetchTopic> = HashMap::new();
        let mut nameless: HashMap<&str, FetchTopic> = HashMap::new();
        for Asked { hosted, position } in asked {
            let name = hosted.name();
            let partition = FetchPartition {
                partition: name.partition,
                current_leader_epoch: position.leader_epoch.0,
                fetch_offset: position.offset.0,
                last_fetched_epoch: position.last_epoch.unwrap_or(LeaderEpoch::NONE).0,
                log_start_offset: position.log_start.0,
                partition_max_bytes: bytes(replication.fetch_bytes_max),
                ..Default::default()
            };
            let topic = if version >= VERSION_BY_ID_MIN {
                topics.entry(hosted.topic_id()).or_default()
            } else {
                nameless.entry(name.topic.as_str()).or_default()
            };
            topic.topic = Str::from(name.topic.as_str());
            topic.topic_id = hosted.topic_id();
            topic.partitions.push(partition);
        }
        let replica_id = self.broker.id.0;
        FetchRequest {
            replica_id: if version < 15 { replica_id } else { -1 },
            replica_state: if version >= 15 {
                ReplicaState { replica_id, replica_epoch: self.broker.epoch().0, ..Default::default() }
            } else {
                ReplicaState::default()
            },
            max_wait_ms: i32::try_from(replication.fetch_wait_max.as_millis()).unwrap_or(i32::MAX),
            min_bytes: bytes(replication.fetch_bytes_min),
            max_bytes: bytes(replication.fetch_response_bytes_max),
            topics: topics.into_values().chain(nameless.into_values()).collect(),
            ..Default::default()
        }
    }

    /// Takes in the answer for one partition. Only the connection's trouble is an error.
    async fn take_in(
        &self,
        connection: &Connection,
        asked: &Asked,
        data: &PartitionData,
    ) -> Result<(), RoundFailure> {
        let (hosted, position) = (&asked.hosted, &asked.position);
        let now = self.broker.now();
        let outcome = match ErrorCode::from_i16(data.error_code) {
            Some(ErrorCode::None) if data.diverging_epoch.end_offset >= 0 => {
                let end = EpochEnd {
                    epoch: LeaderEpoch(data.diverging_epoch.epoch),
                    end_offset: Offset(data.diverging_epoch.end_offset),
                };
                hosted.truncate_as_follower(position, end, now)
            }
            Some(ErrorCode::None) => {
                let sent = FromLeader {
                    position: *position,
                    records: data.records.as_deref().unwrap_or_default(),
                    high_watermark: Offset(data.high_watermark),
                    log_start: Offset(data.log_start_offset),
                };
                hosted.append_as_follower(&sent, now).map(|()| false)
            }
            Some(ErrorCode::OffsetOutOfRange) => self.out_of_range(connection, asked).await?,
            Some(ErrorCode::FencedLeaderEpoch) => {
                // Either the leader got its order first, and ours is on its way, or we have had it while this fetch waited.
                let current = hosted.current_leader().map(|(_, epoch)| epoch);
                if current == Some(position.leader_epoch) {
                    self.delay(hosted.name());
                }
                return Ok(());
            }
            code => {
                let code = code.map_or("an unknown error", ErrorCode::name);
                tracing::debug!(partition = %hosted.name(), leader = %self.leader, code, "fetch refused");
                self.delay(hosted.name());
                return Ok(());
            }
        };
        match outcome {
            // A recovery point above records that are yet to come would hide their loss.
            Ok(true) => self.broker.replicas.checkpoint_recovery_points(),
            Ok(false) => {}
            Err(error @ FollowerFailure::Append(_)) => {
                tracing::error!(partition = %hosted.name(), leader = %self.leader, %error, "not appended");
                self.delay(hosted.name());
            }
            Err(error @ (FollowerFailure::Unavailable(_) | FollowerFailure::Storage(_))) => {
                tracing::error!(partition = %hosted.name(), %error, "replica fetches no more");
                self.following.partitions.lock().remove(hosted.name());
            }
        }
        Ok(())
    }

    /// Our end is outside the leader's log.
    ///
    /// ```text
    /// leader ends before us     an unclean election: cut ours down to its end
    /// leader begins behind us   retention was faster: begin where it begins
    /// ```
    async fn out_of_range(
        &self,
        connection: &Connection,
        asked: &Asked,
    ) -> Result<Result<bool, FollowerFailure>, RoundFailure> {
        let now = self.broker.now();
        let Some(leader_end) = self.ask_offset(connection, asked, LATEST).await? else {
            return Ok(Ok(false));
        };
        if leader_end < asked.position.offset {
            return Ok(asked.hosted.truncate_to(&asked.position, leader_end, now));
        }
        let Some(leader_start) = self.ask_offset(connection, asked, EARLIEST).await? else {
            return Ok(Ok(false));
        };
        if leader_start > asked.position.offset {
            return Ok(asked.hosted.start_over_at(&asked.position, leader_start, now));
        }
        Ok(Ok(false))
    }

    /// `None` if the leader does not tell; the partition is then left alone for a while.
    async fn ask_offset(
        &self,
        connection: &Connection,
        asked: &Asked,
        timestamp: i64,
    ) -> Result<Option<Offset>, RoundFailure> {
        let name = asked.hosted.name();
        let partition = ListOffsetsPartition {
            partition_index: name.partition,
            current_leader_epoch: asked.position.leader_epoch.0,
            timestamp,
            ..Default::default()
        };
        let topic = ListOffsetsTopic {
            name: Str::from(name.topic.as_str()),
            partitions: vec![partition],
            ..Default::default()
        };
        let request =
            ListOffsetsRequest { replica_id: self.broker.id.0, topics: vec![topic], ..Default::default() };
        let version = connection.version_of::<ListOffsetsRequest>(LIST_OFFSETS_VERSION_MAX)?;
        let response = connection.submit(&request, version).await?.wait().await?;
        let answer = response.topics.iter().flat_map(|topic| &topic.partitions).next();
        match answer.filter(|answer| answer.error_code == 0 && answer.offset >= 0) {
            Some(answer) => Ok(Some(Offset(answer.offset))),
            None => {
                self.delay(name);
                Ok(None)
            }
        }
    }
}
