//! A member's life, in a task of its own: it joins, beats, and tells the consumer what it has to read.
//!
//! ```text
//!            join, sync                     the group shares anew
//!  outside -------------> member: beats ---------------------------> gives up what it has, joins again
//!     ^                     |
//!     +---------------------+
//!   not heard of in time, or not polled in time
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use ottla_model::{Offset, TopicName, TopicPartition};
use ottla_protocol::messages::join_group::JoinGroupRequestProtocol;
use ottla_protocol::messages::sync_group::SyncGroupRequestAssignment;
use ottla_protocol::messages::{JoinGroupRequest, JoinGroupResponse, SyncGroupRequest};
use ottla_protocol::{ErrorCode, Str};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};
use tokio::time::{Instant, sleep, sleep_until};

use super::GroupOptions;
use super::assignor::{Assignor, Subscriber};
use super::consumer_protocol as wire;
use super::coordinator::{Coordinator, Identity};
use crate::error::{ClientError, error_code};

/// How much longer than its members' timeouts a coordinator may take to answer.
const ANSWER_GRACE: Duration = Duration::from_secs(5);

/// What the member tells the consumer.
#[derive(Debug)]
pub enum Event {
    /// What it has to read from now on, and from where; `None` where nothing is committed.
    Assigned(Vec<(TopicPartition, Option<Offset>)>),
    /// What it had is not its own any more. The answer is how far it got; it is committed if that still can be.
    Revoked(oneshot::Sender<Offsets>),
    Failed(ClientError),
}

/// What the consumer tells the member.
#[derive(Debug)]
pub enum Command {
    Commit(Offsets, oneshot::Sender<Result<(), ClientError>>),
    /// Commit, and leave the group. A static member stays in it until its session ends.
    Close(Offsets, oneshot::Sender<Result<(), ClientError>>),
}

/// The next offsets to be read.
pub type Offsets = BTreeMap<TopicPartition, Offset>;

/// When the consumer was last polled; `None` while it is.
#[derive(Debug)]
pub struct LastPoll(Mutex<Option<Instant>>);

/// A poll that is under way, ended or dropped with this.
pub struct Polling<'a>(&'a LastPoll);

impl Default for LastPoll {
    fn default() -> LastPoll {
        LastPoll(Mutex::new(Some(Instant::now())))
    }
}

impl LastPoll {
    pub fn begin(&self) -> Polling<'_> {
        *self.0.lock() = None;
        Polling(self)
    }

    fn elapsed(&self) -> Duration {
        self.0.lock().map_or(Duration::ZERO, |last| last.elapsed())
    }
}

impl Drop for Polling<'_> {
    fn drop(&mut self) {
        *self.0.0.lock() = Some(Instant::now());
    }
}

pub struct Membership {
    pub coordinator: Coordinator,
    pub options: GroupOptions,
    pub topics: Vec<TopicName>,
    pub events: mpsc::UnboundedSender<Event>,
    pub commands: mpsc::Receiver<Command>,
    pub polled: Arc<LastPoll>,
    pub identity: Identity,
    /// Of the topics that the members read, when this member shared them out; it leads if there is one.
    pub shared: Option<BTreeMap<TopicName, i32>>,
}

/// How the member's life in one generation ended.
enum End {
    /// The group shares anew, and the member is still in it.
    Rebalance,
    /// The group does not know the member any more, or it left because nobody polled.
    Lost,
    /// The consumer closes, or is gone.
    Closed,
}

impl Membership {
    pub async fn run(mut self) {
        loop {
            match self.join().await {
                ControlFlow::Continue(()) => {}
                ControlFlow::Break(()) => return,
            }
            let end = self.live().await;
            let offsets = match end {
                End::Closed => return,
                End::Rebalance | End::Lost => self.revoke().await,
            };
            match end {
                End::Rebalance if !offsets.is_empty() => {
                    if let Err(error) = self.commit(&offsets).await {
                        tracing::warn!(%error, "offsets not committed before the rebalance, some records are read again");
                    }
                }
                End::Rebalance => {}
                End::Lost | End::Closed => self.forget(),
            }
        }
    }

    fn forget(&mut self) {
        self.identity.member_id = Str::default();
        self.identity.generation = -1;
    }

    /// Joins until it is in; what cannot be mended by trying is told, and ends the member.
    async fn join(&mut self) -> ControlFlow<()> {
        let mut backoff = self.coordinator.client().backoff();
        loop {
            let outcome = tokio::select! {
                outcome = join_once(&mut self.coordinator, &self.options, &self.topics, &mut self.identity) => outcome,
                command = self.commands.recv() => {
                    // A join that is under way is given up with its connection.
                    self.coordinator.lost();
                    match command {
                        Some(command) => match self.obey(command).await {
                            Some(_) => return ControlFlow::Break(()),
                            None => continue,
                        },
                        None => return ControlFlow::Break(()),
                    }
                }
            };
            match outcome {
                Ok(Joined { shared, start }) => {
                    self.shared = shared;
                    let told = self.events.send(Event::Assigned(start));
                    return if told.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) };
                }
                Err(Refusal::Again) => {}
                Err(Refusal::Forgotten) => self.forget(),
                Err(Refusal::Later(error)) => {
                    tracing::debug!(%error, "cannot join for now");
                    self.coordinator.lost();
                    sleep(backoff.failed()).await;
                }
                Err(Refusal::Never(error)) => {
                    // Nobody may listen any more.
                    let _ = self.events.send(Event::Failed(error));
                    return ControlFlow::Break(());
                }
            }
        }
    }

    /// Beats until something ends the generation for this member.
    async fn live(&mut self) -> End {
        let interval = self.options.heartbeat_interval;
        let mut next = Instant::now() + interval;
        let mut heard = Instant::now();
        loop {
            tokio::select! {
                () = sleep_until(next) => {}
                command = self.commands.recv() => {
                    match command {
                        Some(command) => if let Some(end) = self.obey(command).await { return end },
                        None => return End::Closed,
                    }
                    continue;
                }
            }
            next = Instant::now() + interval;
            let unpolled = self.polled.elapsed();
            if unpolled > self.options.max_poll_interval {
                tracing::warn!(
                    "not polled for {} ms, over max.poll.interval.ms: leaving the group so that others read on; poll more \
                     often, or raise it",
                    unpolled.as_millis()
                );
                if let Err(error) = self.coordinator.leave(&self.identity, interval + ANSWER_GRACE).await {
                    tracing::debug!(%error, "could not leave");
                }
                return End::Lost;
            }
            if self.topics_changed() {
                tracing::info!("partitions of the group's topics have changed, it has to share anew");
                return End::Rebalance;
            }
            match self.coordinator.heartbeat(&self.identity, interval + ANSWER_GRACE).await {
                Ok(ErrorCode::None) => heard = Instant::now(),
                Ok(ErrorCode::RebalanceInProgress) => return End::Rebalance,
                Ok(ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration) => return End::Lost,
                Ok(ErrorCode::FencedInstanceId) => {
                    let error = self.coordinator.refused(ErrorCode::FencedInstanceId);
                    let _ = self.events.send(Event::Failed(error));
                    return End::Closed;
                }
                Ok(code) => {
                    tracing::debug!(%code, "the coordinator is elsewhere");
                    self.coordinator.lost();
                }
                Err(error) => tracing::debug!(%error, "no answer to a heartbeat"),
            }
            if heard.elapsed() > self.options.session_timeout {
                return End::Lost;
            }
        }
    }

    /// The leader notices when a topic of the group grows, appears or goes.
    fn topics_changed(&self) -> bool {
        let Some(shared) = &self.shared else { return false };
        let metadata = self.coordinator.client().metadata();
        shared.iter().any(|(topic, count)| {
            metadata.topics.get(topic).is_some_and(|known| known.partitions.len() != *count as usize)
        })
    }

    async fn revoke(&mut self) -> Offsets {
        let (answer, answered) = oneshot::channel();
        if self.events.send(Event::Revoked(answer)).is_err() {
            return Offsets::new();
        }
        let patience = self.options.max_poll_interval;
        tokio::time::timeout(patience, answered).await.ok().and_then(Result::ok).unwrap_or_default()
    }

    async fn commit(&mut self, offsets: &Offsets) -> Result<(), ClientError> {
        let within = self.options.commit_timeout;
        let deadline = Instant::now() + within;
        let mut backoff = self.coordinator.client().backoff();
        loop {
            match self.coordinator.commit(&self.identity, offsets, within).await {
                Err(error) if error.is_retriable() && Instant::now() < deadline => {
                    tracing::debug!(%error, "not committed yet");
                    sleep(backoff.failed()).await;
                }
                outcome => return outcome,
            }
        }
    }

    async fn obey(&mut self, command: Command) -> Option<End> {
        match command {
            Command::Commit(offsets, answer) => {
                let outcome = self.commit(&offsets).await;
                if let Err(error) = &outcome {
                    tracing::warn!(%error, "offsets not committed");
                }
                let _ = answer.send(outcome);
                None
            }
            Command::Close(offsets, answer) => {
                let mut outcome = if offsets.is_empty() { Ok(()) } else { self.commit(&offsets).await };
                if self.identity.instance_id.is_none() && !self.identity.member_id.is_empty() {
                    let left = self.coordinator.leave(&self.identity, ANSWER_GRACE).await;
                    outcome = outcome.and(left);
                }
                let _ = answer.send(outcome);
                Some(End::Closed)
            }
        }
    }
}

struct Joined {
    shared: Option<BTreeMap<TopicName, i32>>,
    start: Vec<(TopicPartition, Option<Offset>)>,
}

/// Why a join did not end with an assignment.
enum Refusal {
    /// At once, as the same member.
    Again,
    /// At once, as a new one.
    Forgotten,
    Later(ClientError),
    Never(ClientError),
}

impl From<ClientError> for Refusal {
    fn from(error: ClientError) -> Refusal {
        if error.is_retriable() { Refusal::Later(error) } else { Refusal::Never(error) }
    }
}

fn refusal(coordinator: &Coordinator, code: ErrorCode) -> Refusal {
    match code {
        ErrorCode::RebalanceInProgress | ErrorCode::MemberIdRequired => Refusal::Again,
        ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => Refusal::Forgotten,
        code => coordinator.refused(code).into(),
    }
}

async fn join_once(
    coordinator: &mut Coordinator,
    options: &GroupOptions,
    topics: &[TopicName],
    identity: &mut Identity,
) -> Result<Joined, Refusal> {
    let joined = ask_to_join(coordinator, options, topics, identity).await?;
    match error_code(joined.error_code) {
        ErrorCode::None => {}
        code => {
            if code == ErrorCode::MemberIdRequired {
                identity.member_id = joined.member_id.clone();
            }
            return Err(refusal(coordinator, code));
        }
    }
    identity.member_id = joined.member_id.clone();
    identity.generation = joined.generation_id;
    let leads = joined.leader == joined.member_id && !joined.skip_assignment;
    let (shared, assignments) =
        if leads { share(coordinator, options, &joined).await? } else { (None, Vec::new()) };
    let own = sync(coordinator, options, &joined, identity, assignments).await?;
    let committed = coordinator.committed(&own, options.session_timeout).await?;
    let start = own.into_iter().map(|partition| {
        let offset = committed.get(&partition).copied();
        (partition, offset)
    });
    Ok(Joined { shared, start: start.collect() })
}

async fn ask_to_join(
    coordinator: &mut Coordinator,
    options: &GroupOptions,
    topics: &[TopicName],
    identity: &Identity,
) -> Result<JoinGroupResponse, ClientError> {
    let ms = |time: Duration| i32::try_from(time.as_millis()).unwrap_or(i32::MAX);
    let protocols: Vec<JoinGroupRequestProtocol> = options
        .assignors
        .iter()
        .map(|assignor| JoinGroupRequestProtocol {
            name: Str::from_static(assignor.name()),
            metadata: wire::encode_subscription(topics),
            ..Default::default()
        })
        .collect();
    let group_id = coordinator.group_id().clone();
    let request = |version| JoinGroupRequest {
        group_id: group_id.clone(),
        session_timeout_ms: ms(options.session_timeout),
        rebalance_timeout_ms: ms(options.max_poll_interval),
        member_id: identity.member_id.clone(),
        group_instance_id: identity.instance_id.clone().filter(|_| version >= 5),
        protocol_type: Str::from_static(wire::PROTOCOL_TYPE),
        protocols: protocols.clone(),
        ..Default::default()
    };
    coordinator.ask(i16::MAX, request, options.max_poll_interval + ANSWER_GRACE).await
}

type Shared = (Option<BTreeMap<TopicName, i32>>, Vec<SyncGroupRequestAssignment>);

/// The leader shares out what the members subscribe to. A topic that nobody can find has no partitions for now.
async fn share(
    coordinator: &Coordinator,
    options: &GroupOptions,
    joined: &JoinGroupResponse,
) -> Result<Shared, ClientError> {
    let chosen = joined.protocol_name.as_deref().unwrap_or_default();
    let assignor = options.assignors.iter().find(|assignor| assignor.name() == chosen);
    let assignor: Assignor =
        *assignor.ok_or_else(|| coordinator.refused(ErrorCode::InconsistentGroupProtocol))?;
    let members = joined.members.iter().map(|member| Subscriber {
        member_id: member.member_id.to_string(),
        instance_id: member.group_instance_id.as_deref().map(str::to_owned),
        topics: wire::decode_subscription(member.metadata.clone()).unwrap_or_else(|error| {
            tracing::warn!(member = &*member.member_id, %error, "subscription cannot be read, the member gets nothing");
            Vec::new()
        }),
    });
    let members: Vec<Subscriber> = members.collect();
    let wanted: BTreeSet<&TopicName> = members.iter().flat_map(|member| &member.topics).collect();
    let mut partitions = BTreeMap::new();
    for topic in wanted {
        match coordinator.client().topic(topic).await {
            Ok(known) => {
                let count = i32::try_from(known.partitions.len()).unwrap_or(i32::MAX);
                partitions.insert(topic.clone(), count);
            }
            Err(error) => tracing::warn!(%error, "a topic of the group is left out"),
        }
    }
    let assigned = assignor.assign(&members, &partitions);
    let assignments = assigned.into_iter().map(|(member, partitions)| SyncGroupRequestAssignment {
        member_id: Str::from(member),
        assignment: wire::encode_assignment(&partitions),
        ..Default::default()
    });
    Ok((Some(partitions), assignments.collect()))
}

async fn sync(
    coordinator: &mut Coordinator,
    options: &GroupOptions,
    joined: &JoinGroupResponse,
    identity: &Identity,
    assignments: Vec<SyncGroupRequestAssignment>,
) -> Result<Vec<TopicPartition>, Refusal> {
    let group_id = coordinator.group_id().clone();
    let request = |version| SyncGroupRequest {
        group_id: group_id.clone(),
        generation_id: identity.generation,
        member_id: identity.member_id.clone(),
        group_instance_id: identity.instance_id.clone().filter(|_| version >= 3),
        protocol_type: (version >= 5).then(|| Str::from_static(wire::PROTOCOL_TYPE)),
        protocol_name: joined.protocol_name.clone().filter(|_| version >= 5),
        assignments: assignments.clone(),
        ..Default::default()
    };
    let answer = coordinator.ask(i16::MAX, request, options.max_poll_interval + ANSWER_GRACE).await?;
    match error_code(answer.error_code) {
        ErrorCode::None => wire::decode_assignment(answer.assignment).map_err(|error| {
            tracing::error!(%error, "the leader's assignment cannot be read");
            Refusal::Never(coordinator.refused(ErrorCode::InconsistentGroupProtocol))
        }),
        code => Err(refusal(coordinator, code)),
    }
}
