//! The controller's edge: wins the office in ZooKeeper, carries out what the core decides, and hands the office on.

mod orders;
mod peers;
mod requests;

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use ottla_controller::{
    Assignment, Controller, Effect, Event, Expected, IsrAnswer, IsrProposal, PartitionOrder, PartitionState,
    PreferredLeader, WriteOutcome,
};
use ottla_model::{BrokerEpoch, BrokerId, TopicName, TopicPartition};
use ottla_protocol::ErrorCode;
use ottla_protocol::messages::{
    LeaderAndIsrRequest, StopReplicaRequest, StopReplicaResponse, UpdateMetadataRequest,
};
use ottla_zookeeper::records::{BrokerRegistration, PartitionState as StateRecord, TopicAssignment};
use ottla_zookeeper::{
    ControllerFence, ControllerView, Election, FencedError, Patience, RegisterError, SessionState,
    StateWriteError, Versioned, Watch, WatchEvent, ZkError,
};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Instant, MissedTickBehavior, interval_at};

use self::orders::{RequestVersions, Sender};
use self::peers::{PeerAnswer, Peers};
use self::requests::{Asking, ControllerRequest};
pub use self::requests::{ControllerHandle, IsrWish};
use crate::apis::{leader_and_isr, stop_replica, update_metadata};
use crate::metadata_cache::{BrokerImage, Endpoint};
use crate::random;
use crate::server::{Broker, stopping};

/// A new controller looks after so long whether leaderships are spread as they were meant to be.
const FIRST_BALANCE: Duration = Duration::from_secs(5);

/// How long to wait before trying again what ZooKeeper did not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// This broker's candidacy for the controller, for as long as it runs.
///
/// ```text
///            /controller is free, we win                    another controller, or the session is over
///   waiting --------------------------------> in office ------------------------------------------------> waiting
/// ```
pub struct Office {
    broker: Arc<Broker>,
    stopped: watch::Receiver<bool>,
    term: Option<Term>,
    /// An office that we hold and no longer serve: nobody can win it before it is given up.
    abandoned: Option<ControllerFence>,
}

/// Why a term, or the wait for one, came to its end.
#[derive(Debug)]
enum End {
    /// The broker stops.
    Stopped,
    /// Another controller is, or may be, in office.
    Moved,
    SessionOver,
}

impl From<FencedError> for End {
    fn from(error: FencedError) -> End {
        match error {
            FencedError::ControllerMoved => End::Moved,
            FencedError::Zk(error) => error.into(),
        }
    }
}

impl From<ZkError> for End {
    fn from(error: ZkError) -> End {
        if error.is_session_over() {
            return End::SessionOver;
        }
        tracing::error!(%error, "the controller resigns, as ZooKeeper does not do what it asks");
        End::Moved
    }
}

impl Office {
    /// Tries for the office on the strength of what was seen at start. A winner has taken office when this returns, and
    /// told this broker what there is.
    pub async fn enter(
        broker: Arc<Broker>,
        view: ControllerView,
        stopped: watch::Receiver<bool>,
    ) -> Result<Office, ZkError> {
        let mut office = Office { broker, stopped, term: None, abandoned: None };
        office.stand(view).await?;
        Ok(office)
    }

    /// Stands for election; a winner takes office at once.
    async fn stand(&mut self, view: ControllerView) -> Result<(), ZkError> {
        let broker = &self.broker;
        match broker.zookeeper.elect_controller(broker.id, broker.now(), view).await? {
            Election::Won(fence) => {
                tracing::info!(epoch = %fence.epoch, "this broker is the controller");
                broker.metadata.set_controller(Some(broker.id));
                match Term::begin(broker.clone(), fence).await {
                    Ok(term) => self.term = Some(term),
                    Err(end) => {
                        tracing::warn!(?end, "the term ended as it began");
                        broker.metadata.set_controller(None);
                        self.abandoned = Some(fence);
                    }
                }
            }
            Election::Lost(record) => broker.metadata.set_controller(Some(record.broker)),
        }
        Ok(())
    }

    /// Keeps standing and serving until the broker stops.
    pub async fn run(mut self) {
        loop {
            if self.term.is_none() && self.abandoned.is_none() && *self.stopped.borrow() {
                return;
            }
            let mut end = match self.term.take() {
                Some(mut term) => {
                    let end = term.serve(&mut self.stopped).await;
                    self.abandoned = Some(term.fence);
                    self.broker.metadata.set_controller(None);
                    end
                }
                None if self.abandoned.is_some() && *self.stopped.borrow() => End::Stopped,
                None if self.abandoned.is_some() => End::Moved,
                None => self.wait().await,
            };
            if let Some(fence) = self.abandoned
                && matches!(end, End::Stopped | End::Moved)
            {
                // Frees the office for the next; somebody else's is left alone by the fence.
                match self.broker.zookeeper.resign(fence).await {
                    Ok(()) => self.abandoned = None,
                    Err(FencedError::Zk(error)) if error.is_session_over() && matches!(end, End::Moved) => {
                        end = End::SessionOver;
                    }
                    Err(error) => tracing::warn!(%error, "could not resign"),
                }
            }
            let next = match end {
                End::Stopped => return,
                End::Moved if self.abandoned.is_some() => {
                    self.pause().await;
                    Ok(())
                }
                End::Moved => self.stand_again().await,
                End::SessionOver => {
                    // The office went with the session.
                    self.abandoned = None;
                    self.come_back().await
                }
            };
            if let Err(error) = next {
                tracing::warn!(%error, "no election yet");
                self.pause().await;
            }
        }
    }

    async fn pause(&mut self) {
        tokio::select! {
            () = stopping(&mut self.stopped) => {}
            () = tokio::time::sleep(RETRY_PAUSE) => {}
        }
    }

    /// Waits while another broker is in office.
    async fn wait(&mut self) -> End {
        loop {
            let (controller, watch) = match self.broker.zookeeper.controller_and_watch().await {
                Ok(found) => found,
                Err(error) => return error.into(),
            };
            let Some(controller) = controller else { return End::Moved };
            self.broker.metadata.set_controller(Some(controller.record.broker));
            tokio::select! {
                () = stopping(&mut self.stopped) => return End::Stopped,
                event = watch => if event == WatchEvent::SessionOver { return End::SessionOver },
            }
        }
    }

    async fn stand_again(&mut self) -> Result<(), ZkError> {
        let view = self.broker.zookeeper.read_controller().await?;
        self.stand(view).await
    }

    /// Opens a new session in place of one that is over, and begins a new life in it.
    async fn come_back(&mut self) -> Result<(), ZkError> {
        let broker = self.broker.clone();
        tracing::warn!("the ZooKeeper session is over, opening another");
        let session = tokio::select! {
            () = stopping(&mut self.stopped) => return Ok(()),
            session = broker.zookeeper.store().reopen() => session?,
        };
        tracing::info!(%session, "new ZooKeeper session");
        match broker.register(&[], Patience::for_session(broker.config.zookeeper.session_timeout)).await {
            Ok(()) => self.stand_again().await,
            Err(RegisterError::Zk(error)) => Err(error),
            Err(error) => {
                tracing::error!(%error, "not registered");
                Err(ZkError::Refused { path: "/brokers/ids".to_owned(), detail: error.to_string() })
            }
        }
    }
}

/// One term of office.
struct Term {
    broker: Arc<Broker>,
    fence: ControllerFence,
    core: Controller,
    versions: RequestVersions,
    /// The live brokers, as orders name them.
    brokers: BTreeMap<BrokerId, (BrokerEpoch, BrokerImage)>,
    peers: Peers,
    answers: mpsc::UnboundedReceiver<PeerAnswer>,
    requests: mpsc::Receiver<ControllerRequest>,
    /// Wishes that have yet to be answered, by the number the core knows them by.
    proposals: HashMap<u64, oneshot::Sender<Result<IsrAnswer, ErrorCode>>>,
    next_proposal: u64,
    brokers_watch: Watch,
    topics_watch: Watch,
    deletions_watch: Watch,
    /// One for each topic: somebody may add partitions to it.
    topic_watches: FuturesUnordered<TopicWatch>,
}

type TopicWatch = std::pin::Pin<Box<dyn Future<Output = (TopicName, WatchEvent)> + Send>>;

impl Term {
    /// Takes office: reads the cluster and brings it into order.
    async fn begin(broker: Arc<Broker>, fence: ControllerFence) -> Result<Term, End> {
        let zookeeper = &broker.zookeeper;
        let (brokers, topics, deletions) = tokio::join!(
            zookeeper.broker_ids_and_watch(),
            zookeeper.topics_and_watch(),
            zookeeper.topic_deletions_and_watch(),
        );
        let ((ids, brokers_watch), (topics, topics_watch), (deletions, deletions_watch)) =
            (brokers?, topics?, deletions?);
        let (peers, answers) = Peers::new(&broker);
        let unclean = broker.config.topic_defaults.unclean_leader_election_enable;
        let mut term = Term {
            versions: RequestVersions::of(broker.config.inter_broker_protocol),
            core: Controller::new(fence.epoch, unclean),
            fence,
            brokers: BTreeMap::new(),
            peers,
            answers,
            requests: broker.controller.open(),
            proposals: HashMap::new(),
            next_proposal: 0,
            brokers_watch,
            topics_watch,
            deletions_watch,
            topic_watches: FuturesUnordered::new(),
            broker,
        };
        let event = term.brokers_event(&ids).await?;
        term.handle(event).await?;
        term.handle(Event::TopicsListed(topics.into_iter().collect())).await?;
        term.handle(Event::DeletionsListed(deletions.into_iter().collect())).await?;
        Ok(term)
    }

    /// Reacts to whatever changes, until the term ends.
    async fn serve(&mut self, stopped: &mut watch::Receiver<bool>) -> End {
        match self.serve_until_failure(stopped).await {
            Ok(end) | Err(end) => end,
        }
    }

    async fn serve_until_failure(&mut self, stopped: &mut watch::Receiver<bool>) -> Result<End, End> {
        let broker = self.broker.clone();
        let zookeeper = &broker.zookeeper;
        let (_, mut office_watch) = zookeeper.controller_and_watch().await?;
        let mut states = zookeeper.store().states();
        let mut connection = connection_of(*states.borrow_and_update());
        let config = &broker.config.controller;
        let mut balance = interval_at(Instant::now() + FIRST_BALANCE, config.leader_imbalance_check_interval);
        balance.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                () = stopping(stopped) => return Ok(End::Stopped),
                event = &mut office_watch => {
                    over(event)?;
                    let (found, again) = zookeeper.controller_and_watch().await?;
                    if found.is_none_or(|found| found.record.broker != broker.id) {
                        return Ok(End::Moved);
                    }
                    office_watch = again;
                }
                event = &mut self.brokers_watch => { over(event)?; self.read_brokers().await?; }
                event = &mut self.topics_watch => { over(event)?; self.list_topics().await?; }
                event = &mut self.deletions_watch => { over(event)?; self.list_deletions().await?; }
                Some((topic, event)) = self.topic_watches.next(), if !self.topic_watches.is_empty() => {
                    over(event)?;
                    if event != WatchEvent::Deleted {
                        let event = self.read_topics(vec![topic]).await?;
                        self.handle(event).await?;
                    }
                }
                _ = balance.tick(), if config.auto_leader_rebalance_enable => {
                    let imbalance_percent_max = config.leader_imbalance_percentage;
                    self.handle(Event::BalanceDue { imbalance_percent_max }).await?;
                }
                Some(answer) = self.answers.recv() => self.answered(answer).await?,
                Some(request) = self.requests.recv() => self.asked(request).await?,
                changed = states.changed() => {
                    let state = *states.borrow_and_update();
                    if changed.is_err() || matches!(state, SessionState::Expired { .. } | SessionState::Closed) {
                        return Ok(End::SessionOver);
                    }
                    // What changed while there was no connection may have fired no watch that we still hold.
                    let now = connection_of(state);
                    if now.is_some() && now != connection {
                        connection = now;
                        self.read_brokers().await?;
                        self.list_topics().await?;
                        self.list_deletions().await?;
                    }
                }
            }
        }
    }

    async fn read_brokers(&mut self) -> Result<(), End> {
        let (ids, watch) = self.broker.zookeeper.broker_ids_and_watch().await?;
        self.brokers_watch = watch;
        let event = self.brokers_event(&ids).await?;
        self.handle(event).await
    }

    async fn list_topics(&mut self) -> Result<(), End> {
        let (topics, watch) = self.broker.zookeeper.topics_and_watch().await?;
        self.topics_watch = watch;
        self.handle(Event::TopicsListed(topics.into_iter().collect())).await
    }

    async fn list_deletions(&mut self) -> Result<(), End> {
        let (topics, watch) = self.broker.zookeeper.topic_deletions_and_watch().await?;
        self.deletions_watch = watch;
        self.handle(Event::DeletionsListed(topics.into_iter().collect())).await
    }

    async fn brokers_event(&mut self, ids: &[BrokerId]) -> Result<Event, End> {
        let registered = self.broker.zookeeper.read_brokers(ids).await?;
        self.brokers = registered
            .into_iter()
            .map(|(id, found)| (id, (found.broker_epoch(), broker_image(id, &found.record))))
            .collect();
        self.peers.set(self.brokers.values().map(|(_, image)| image));
        Ok(Event::BrokersRead(self.brokers.iter().map(|(id, (epoch, _))| (*id, *epoch)).collect()))
    }

    /// Lets the core handle an event, carries out what it decides, and reports back until nothing is left to do.
    async fn handle(&mut self, event: Event) -> Result<(), End> {
        let mut events = VecDeque::from([event]);
        while let Some(event) = events.pop_front() {
            for effect in self.core.handle(event) {
                if let Some(event) = self.carry_out(effect).await? {
                    events.push_back(event);
                }
            }
        }
        Ok(())
    }

    async fn carry_out(&mut self, effect: Effect) -> Result<Option<Event>, End> {
        match effect {
            Effect::ReadTopics(topics) => return self.read_topics(topics).await.map(Some),
            Effect::AssignTopicIds(topics) => return self.assign_topic_ids(topics).await.map(Some),
            Effect::WriteStates(writes) => {
                let names: Vec<TopicPartition> = writes.iter().map(|write| write.partition.clone()).collect();
                let writes = writes.into_iter().map(state_write).collect();
                let written = self.broker.zookeeper.write_states(self.fence, writes).await;
                let outcomes: Result<Vec<_>, End> = names
                    .into_iter()
                    .zip(written)
                    .map(|(name, written)| Ok((name, outcome(written.1)?)))
                    .collect();
                return Ok(Some(Event::StatesWritten(outcomes?)));
            }
            Effect::SendLeaderAndIsr { broker, partitions } => {
                let request = self.leader_and_isr(broker, &partitions);
                self.send_leader_and_isr(broker, request).await?;
            }
            Effect::SendUpdateMetadata { brokers, partitions, deleted } => {
                for broker in brokers {
                    let request = self.update_metadata(broker, &partitions, &deleted);
                    if broker == self.broker.id {
                        update_metadata::apply(&self.broker, self.versions.update_metadata, &request);
                    } else {
                        self.peers.update_metadata(broker, request, self.versions.update_metadata);
                    }
                }
            }
            Effect::StopReplicas { broker, partitions } => {
                let request = self.stop_replicas(broker, &partitions);
                if broker == self.broker.id {
                    let response = stop_replica::apply(&self.broker, &request);
                    return Ok(Some(replicas_stopped(broker, &response)));
                }
                self.peers.stop_replicas(broker, request, self.versions.stop_replica);
            }
            Effect::DeleteTopic(topic) => {
                self.broker.zookeeper.delete_topic(self.fence, &topic).await?;
                tracing::info!(%topic, "deleted topic");
                self.broker.topic_configs.set(&topic, BTreeMap::new());
                return Ok(Some(Event::TopicDeleted(topic)));
            }
            Effect::RemoveDeletionMark(topic) => {
                self.broker.zookeeper.remove_deletion_marks(self.fence, &[topic]).await?;
            }
            Effect::AnswerIsrProposal { id, answer } => {
                if let Some(waiting) = self.proposals.remove(&id) {
                    // Whoever asked may have gone.
                    let _ = waiting.send(Ok(answer));
                }
            }
        }
        Ok(None)
    }

    async fn read_topics(&mut self, topics: Vec<TopicName>) -> Result<Event, End> {
        let found = self.broker.zookeeper.read_and_watch_topics(&topics).await;
        let mut known: Vec<(TopicName, TopicAssignment)> = Vec::new();
        for (topic, found) in topics.into_iter().zip(found) {
            match found {
                Ok(Some((assignment, watch))) => {
                    let name = topic.clone();
                    self.topic_watches.push(Box::pin(async move { (name, watch.await) }));
                    known.push((topic, assignment.record));
                }
                Ok(None) => {}
                Err(error) if error.is_session_over() => return Err(End::SessionOver),
                // One odd topic must not keep the others from being led.
                Err(error) => tracing::error!(%topic, %error, "topic passed over"),
            }
        }
        let partitions: Vec<TopicPartition> = known
            .iter()
            .flat_map(|(topic, assignment)| {
                assignment.partitions.keys().map(|partition| TopicPartition::new(topic.clone(), *partition))
            })
            .collect();
        let states = self.broker.zookeeper.read_states(&partitions).await;
        let mut by_topic: BTreeMap<TopicName, BTreeMap<i32, PartitionState>> = BTreeMap::new();
        for (name, state) in partitions.into_iter().zip(states) {
            match state {
                Ok(Some(state)) => {
                    by_topic.entry(name.topic).or_default().insert(name.partition, state_of(&state));
                }
                Ok(None) => {}
                Err(error) if error.is_session_over() => return Err(End::SessionOver),
                Err(error) => return Err(error.into()),
            }
        }
        let read = known.into_iter().map(|(topic, assignment)| {
            let states = by_topic.remove(&topic).unwrap_or_default();
            (topic, Assignment { id: assignment.topic_id, partitions: assignment.partitions }, states)
        });
        Ok(Event::TopicsRead(read.collect()))
    }

    /// Gives ids to topics that tools older than topic ids have made (KIP-516).
    async fn assign_topic_ids(&mut self, topics: Vec<TopicName>) -> Result<Event, End> {
        for topic in &topics {
            let Some(found) = self.broker.zookeeper.read_topic(topic).await? else { continue };
            let mut assignment = found.record;
            if assignment.topic_id.is_some() {
                continue;
            }
            assignment.topic_id = Some(random::uuid());
            let version = Some(found.stat.version);
            let written = self.broker.zookeeper.update_topic(self.fence, topic, &assignment, version).await;
            match written {
                Ok(_) => {}
                // Somebody wrote in between: what stands there now is read below, and brought here again if need be.
                Err(FencedError::Zk(ZkError::BadVersion { .. } | ZkError::NoNode { .. })) => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.read_topics(topics).await
    }

    async fn send_leader_and_isr(
        &mut self,
        broker: BrokerId,
        request: LeaderAndIsrRequest,
    ) -> Result<(), End> {
        let version = self.versions.leader_and_isr;
        if broker != self.broker.id {
            self.peers.leader_and_isr(broker, request, version);
            return Ok(());
        }
        let response = leader_and_isr::apply(&self.broker, version, &request).await;
        if response.error_code != ErrorCode::None as i16 {
            tracing::error!(code = response.error_code, "this broker does not follow its own controller");
        }
        Ok(())
    }

    async fn answered(&mut self, answer: PeerAnswer) -> Result<(), End> {
        match answer {
            PeerAnswer::Stopped { broker, response } => {
                self.handle(replicas_stopped(broker, &response)).await
            }
        }
    }

    async fn asked(&mut self, request: ControllerRequest) -> Result<(), End> {
        match request {
            ControllerRequest::ChangeIsr { asking, wish, answer } => {
                if let Err(error) = self.check_life(asking) {
                    let _ = answer.send(Err(error));
                    return Ok(());
                }
                let id = self.next_proposal;
                self.next_proposal += 1;
                self.proposals.insert(id, answer);
                let IsrWish { partition, leader_epoch, partition_epoch, isr } = wish;
                let proposal = IsrProposal { id, partition, leader_epoch, partition_epoch, isr };
                self.handle(Event::IsrProposed(proposal)).await
            }
            ControllerRequest::AddPartitions { topic, partitions, answer } => {
                let outcome = self.add_partitions(&topic, partitions).await?;
                let _ = answer.send(outcome);
                Ok(())
            }
            ControllerRequest::ElectPreferred { partitions, answer } => {
                let before: Vec<PreferredLeader> =
                    partitions.iter().map(|partition| self.core.preferred_leader(partition)).collect();
                self.handle(Event::PreferredLeadersWanted(partitions.clone())).await?;
                let outcomes = partitions.iter().zip(before).map(|(partition, before)| match before {
                    PreferredLeader::CanLead => match self.core.preferred_leader(partition) {
                        PreferredLeader::Leads => PreferredLeader::CanLead,
                        after => after,
                    },
                    before => before,
                });
                let _ = answer.send(Ok(outcomes.collect()));
                Ok(())
            }
            ControllerRequest::AnnounceShutdown { asking, answer } => {
                let (broker, _) = asking;
                let outcome = match self.check_life(asking) {
                    Err(error) => Err(error),
                    Ok(()) => {
                        tracing::info!(%broker, "broker is leaving, moving its leaderships");
                        self.handle(Event::ShutdownAnnounced(broker)).await?;
                        Ok(self.core.led_by(broker))
                    }
                };
                let _ = answer.send(outcome);
                Ok(())
            }
        }
    }

    /// Writes new partitions into a topic's znode; the watch on it brings them to the core.
    async fn add_partitions(
        &mut self,
        topic: &TopicName,
        partitions: BTreeMap<i32, Vec<BrokerId>>,
    ) -> Result<Result<(), ErrorCode>, End> {
        let Some(found) = self.broker.zookeeper.read_topic(topic).await? else {
            return Ok(Err(ErrorCode::UnknownTopicOrPartition));
        };
        let mut assignment = found.record;
        if !assignment.adding.is_empty() || !assignment.removing.is_empty() {
            return Ok(Err(ErrorCode::ReassignmentInProgress));
        }
        // Planned on what the metadata said: somebody may have been quicker.
        if partitions.keys().any(|partition| assignment.partitions.contains_key(partition)) {
            return Ok(Err(ErrorCode::InvalidPartitions));
        }
        assignment.partitions.extend(partitions);
        let version = Some(found.stat.version);
        match self.broker.zookeeper.update_topic(self.fence, topic, &assignment, version).await {
            Ok(_) => Ok(Ok(())),
            Err(FencedError::Zk(ZkError::BadVersion { .. })) => Ok(Err(ErrorCode::InvalidPartitions)),
            Err(FencedError::Zk(ZkError::NoNode { .. })) => Ok(Err(ErrorCode::UnknownTopicOrPartition)),
            Err(error) => Err(error.into()),
        }
    }

    /// Only a live broker may ask, and not in the name of a former life.
    fn check_life(&self, (broker, epoch): Asking) -> Result<(), ErrorCode> {
        match self.brokers.get(&broker) {
            Some((current, _)) if epoch.0 == -1 || epoch == *current => Ok(()),
            Some(_) => Err(ErrorCode::StaleBrokerEpoch),
            None => Err(ErrorCode::BrokerNotAvailable),
        }
    }

    fn sender(&self) -> Sender {
        Sender { controller: self.broker.id, controller_epoch: self.fence.epoch }
    }

    fn epoch_of(&self, broker: BrokerId) -> BrokerEpoch {
        self.brokers.get(&broker).map_or(BrokerEpoch(-1), |(epoch, _)| *epoch)
    }

    fn images(&self) -> impl Iterator<Item = &BrokerImage> {
        self.brokers.values().map(|(_, image)| image)
    }

    fn leader_and_isr(&self, to: BrokerId, orders: &[PartitionOrder]) -> LeaderAndIsrRequest {
        let leaders: BTreeSet<BrokerId> = orders.iter().map(|order| order.state.leader).collect();
        let leaders = self.images().filter(|image| leaders.contains(&image.id));
        let listener = self.broker.config.listeners.inter_broker.as_str();
        let version = self.versions.leader_and_isr;
        orders::leader_and_isr(self.sender(), self.epoch_of(to), version, orders, leaders, listener)
    }

    fn update_metadata(
        &self,
        to: BrokerId,
        orders: &[PartitionOrder],
        deleted: &[TopicPartition],
    ) -> UpdateMetadataRequest {
        let version = self.versions.update_metadata;
        orders::update_metadata(self.sender(), self.epoch_of(to), version, orders, deleted, self.images())
    }

    fn stop_replicas(&self, to: BrokerId, partitions: &[TopicPartition]) -> StopReplicaRequest {
        orders::stop_replicas(self.sender(), self.epoch_of(to), self.versions.stop_replica, partitions)
    }
}

fn over(event: WatchEvent) -> Result<(), End> {
    if event == WatchEvent::SessionOver { Err(End::SessionOver) } else { Ok(()) }
}

/// Counts the connections of a session; `None` while there is none.
fn connection_of(state: SessionState) -> Option<u64> {
    match state {
        SessionState::Connected { connection, .. } => Some(connection),
        SessionState::Disconnected { .. }
        | SessionState::Expired { .. }
        | SessionState::AuthFailed
        | SessionState::Closed => None,
    }
}

fn broker_image(id: BrokerId, registration: &BrokerRegistration) -> BrokerImage {
    let endpoints = registration.endpoints.iter().map(|endpoint| Endpoint {
        listener: endpoint.listener.clone(),
        host: endpoint.host.clone(),
        port: endpoint.port,
        security_protocol: match endpoint.security_protocol.as_str() {
            "SSL" => 1,
            "SASL_PLAINTEXT" => 2,
            "SASL_SSL" => 3,
            _ => 0,
        },
    });
    BrokerImage { id, endpoints: endpoints.collect(), rack: registration.rack.clone() }
}

fn state_of(found: &Versioned<StateRecord>) -> PartitionState {
    PartitionState {
        leader: found.record.leader,
        leader_epoch: found.record.leader_epoch,
        isr: found.record.isr.clone(),
        controller_epoch: found.record.controller_epoch,
        partition_epoch: found.partition_epoch(),
        recovering: found.record.recovering,
    }
}

fn state_write(write: ottla_controller::StateWrite) -> ottla_zookeeper::StateWrite {
    ottla_zookeeper::StateWrite {
        partition: write.partition,
        state: StateRecord {
            leader: write.state.leader,
            leader_epoch: write.state.leader_epoch,
            isr: write.state.isr,
            controller_epoch: write.state.controller_epoch,
            recovering: write.state.recovering,
        },
        expected: match write.expected {
            Expected::Absent => None,
            Expected::Version(version) => Some(version),
        },
    }
}

fn outcome(written: Result<ottla_model::PartitionEpoch, StateWriteError>) -> Result<WriteOutcome, End> {
    Ok(match written {
        Ok(epoch) => WriteOutcome::Written(epoch),
        Err(StateWriteError::Changed(found)) => WriteOutcome::Conflict(state_of(&found)),
        Err(StateWriteError::Gone) => WriteOutcome::Gone,
        Err(StateWriteError::ControllerMoved) => return Err(End::Moved),
        Err(StateWriteError::Zk(error)) => return Err(error.into()),
    })
}

fn replicas_stopped(broker: BrokerId, response: &StopReplicaResponse) -> Event {
    let stopped =
        response.partition_errors.iter().filter(|answer| answer.error_code == ErrorCode::None as i16);
    let partitions = stopped.filter_map(|answer| {
        let topic = TopicName::new(&answer.topic_name).ok()?;
        Some(TopicPartition::new(topic, answer.partition_index))
    });
    Event::ReplicasStopped { broker, partitions: partitions.collect() }
}
