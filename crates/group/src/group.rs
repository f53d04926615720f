//! The group machine.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use ottla_model::{Timestamp, TopicPartition};
use ottla_protocol::ErrorCode;

use crate::clock::{Moment, Now};
use crate::member::Member;
use crate::offsets::{Committer, Offsets};
use crate::subscription::{CONSUMER_PROTOCOL_TYPE, subscribed_topics};

/// Names a request that waits for its answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// What every group goes by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupConfig {
    /// `group.min.session.timeout.ms`.
    pub session_timeout_ms_min: i32,
    /// `group.max.session.timeout.ms`.
    pub session_timeout_ms_max: i32,
    /// `group.initial.rebalance.delay.ms`: how long the first rebalance waits for more members.
    pub initial_rebalance_delay_ms: i32,
    /// `group.max.size`.
    pub size_max: usize,
}

/// Where a group is between two assignments.
///
/// ```text
///             join                      everyone has joined           the leader's assignment is stored
///   Empty ----------> PreparingRebalance ----------> CompletingRebalance ----------> Stable
///     ^                  |     ^  ^                        |                            |
///     +------------------+     |  +------------------------+                            |
///        nobody is left        +--------------------------------------------------------+
///                                 a member comes, goes, or changes its mind
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    Empty,
    PreparingRebalance,
    CompletingRebalance,
    Stable,
    /// Deleted, or handed over to another coordinator.
    Dead,
}

impl State {
    /// As DescribeGroups and ListGroups spell it.
    pub fn name(self) -> &'static str {
        match self {
            State::Empty => "Empty",
            State::PreparingRebalance => "PreparingRebalance",
            State::CompletingRebalance => "CompletingRebalance",
            State::Stable => "Stable",
            State::Dead => "Dead",
        }
    }
}

/// A JoinGroup request.
#[derive(Debug, Clone)]
pub struct JoinRequest {
    /// Empty from a member that has no id yet.
    pub member_id: String,
    /// The id to give it then: unique, made by the caller.
    pub new_member_id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    pub protocol_type: String,
    pub protocols: Vec<(String, Bytes)>,
    /// v4+: a dynamic member joins only with an id that it has been given before (KIP-394).
    pub requires_known_member_id: bool,
    /// v9+: the client can be told to skip the assignment (KIP-814).
    pub can_skip_assignment: bool,
}

/// The answer to a JoinGroup request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinAnswer {
    pub error: ErrorCode,
    pub generation: i32,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    pub leader: String,
    pub member_id: String,
    /// Filled for the leader only.
    pub members: Vec<JoinedMember>,
    pub skip_assignment: bool,
}

/// A member, as the leader sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JoinedMember {
    pub id: String,
    pub instance_id: Option<String>,
    pub metadata: Bytes,
}

/// A SyncGroup request.
#[derive(Debug, Clone)]
pub struct SyncRequest {
    pub member_id: String,
    pub generation: i32,
    pub instance_id: Option<String>,
    /// v5+: what the member believes the group does; `None` where it does not say (KIP-559).
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    /// By member id; from the leader only.
    pub assignments: Vec<(String, Bytes)>,
}

/// The answer to a SyncGroup request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncAnswer {
    pub error: ErrorCode,
    pub protocol_type: Option<String>,
    pub protocol: Option<String>,
    pub assignment: Bytes,
}

/// One member that leaves.
#[derive(Debug, Clone)]
pub struct Leaving {
    /// Empty: whoever has the instance id.
    pub member_id: String,
    pub instance_id: Option<String>,
}

/// A group as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredGroup {
    pub protocol_type: String,
    pub generation: i32,
    pub protocol: Option<String>,
    pub leader: Option<String>,
    /// When the group came into the state that is stored.
    pub state_timestamp: Timestamp,
    pub members: Vec<StoredMember>,
}

/// A member as the log keeps it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredMember {
    pub id: String,
    pub instance_id: Option<String>,
    pub client_id: String,
    pub client_host: String,
    pub session_timeout_ms: i32,
    pub rebalance_timeout_ms: i32,
    /// Metadata for the protocol that was chosen.
    pub subscription: Bytes,
    pub assignment: Bytes,
}

/// What the edge must do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    AnswerJoin {
        request: RequestId,
        answer: JoinAnswer,
    },
    AnswerSync {
        request: RequestId,
        answer: SyncAnswer,
    },
    /// Append the record; [`Group::stored`] follows, with the number.
    Store {
        number: u64,
        record: StoredGroup,
    },
}

/// What is to happen once a record is in the log.
#[derive(Debug, Clone)]
enum Storing {
    /// Assignments of a generation, by member.
    Assignments { generation: i32, assignments: BTreeMap<String, Bytes> },
    /// A static member came back with another id, and takes its place without a rebalance.
    Replacement { request: RequestId, before: Box<Member>, new_id: String, answer: JoinAnswer },
    /// Nobody is left; nothing waits for it.
    Emptied,
}

/// A rebalance that waits for members.
#[derive(Debug, Clone, Copy)]
struct Rebalance {
    deadline: Moment,
    /// The first rebalance of a group waits out its delay even if everyone seems to be there.
    initial: Option<InitialDelay>,
}

#[derive(Debug, Clone, Copy)]
struct InitialDelay {
    /// How much longer it may be prolonged, in milliseconds.
    left_ms: i64,
    member_came: bool,
}

/// One consumer group.
#[derive(Debug)]
pub struct Group {
    id: String,
    config: GroupConfig,
    state: State,
    state_timestamp: Timestamp,
    protocol_type: Option<String>,
    protocol: Option<String>,
    generation: i32,
    leader: Option<String>,
    members: BTreeMap<String, Member>,
    /// In the order of joining, for choosing a leader.
    join_order: Vec<String>,
    /// Member ids by instance id.
    instances: BTreeMap<String, String>,
    /// Ids that were given out and have not joined yet, with the end of their patience.
    pending_members: BTreeMap<String, Moment>,
    rebalance: Option<Rebalance>,
    /// Until when the members of this generation must have synced.
    sync_deadline: Option<Moment>,
    synced: BTreeSet<String>,
    /// Topics that the members of this generation read; `None` where that cannot be known.
    subscribed: Option<BTreeSet<String>>,
    storing: BTreeMap<u64, Storing>,
    next_number: u64,
    pub offsets: Offsets,
}

impl Group {
    /// A group that nobody has joined yet.
    pub fn new(id: &str, config: GroupConfig, now: Now) -> Group {
        Group {
            id: id.to_owned(),
            config,
            state: State::Empty,
            state_timestamp: now.wall,
            protocol_type: None,
            protocol: None,
            generation: 0,
            leader: None,
            members: BTreeMap::new(),
            join_order: Vec::new(),
            instances: BTreeMap::new(),
            pending_members: BTreeMap::new(),
            rebalance: None,
            sync_deadline: None,
            synced: BTreeSet::new(),
            subscribed: None,
            storing: BTreeMap::new(),
            next_number: 0,
            offsets: Offsets::default(),
        }
    }

    /// Takes over a group from the log. Every member's session starts anew.
    pub fn load(id: &str, config: GroupConfig, stored: StoredGroup, now: Now) -> Group {
        let mut group = Group::new(id, config, now);
        let named = |name: String| (!name.is_empty()).then_some(name);
        group.protocol_type = named(stored.protocol_type);
        group.generation = stored.generation;
        group.state_timestamp = stored.state_timestamp;
        let protocol = stored.protocol.unwrap_or_default();
        for member in stored.members {
            let mut loaded = Member::new(
                member.id.clone(),
                member.instance_id,
                (member.client_id, member.client_host),
                (member.session_timeout_ms, member.rebalance_timeout_ms),
                vec![(protocol.clone(), member.subscription)],
                now,
            );
            loaded.assignment = member.assignment;
            group.insert(loaded);
        }
        if !group.members.is_empty() {
            group.state = State::Stable;
            group.protocol = named(protocol);
            group.leader = stored.leader;
        }
        group.subscribed = group.topics_of_members();
        if group.members.len() > config.size_max {
            // `group.max.size` was lowered: those who join again first stay. Nobody waits yet, so nobody is to be told.
            group.prepare_rebalance(now, &mut Vec::new());
        }
        group
    }

    // ---- what is to be known of a group ----

    pub fn id(&self) -> &str {
        &self.id
    }

    pub fn state(&self) -> State {
        self.state
    }

    pub fn generation(&self) -> i32 {
        self.generation
    }

    pub fn protocol_type(&self) -> Option<&str> {
        self.protocol_type.as_deref()
    }

    pub fn protocol(&self) -> Option<&str> {
        self.protocol.as_deref()
    }

    pub fn leader(&self) -> Option<&str> {
        self.leader.as_deref()
    }

    pub fn members(&self) -> impl Iterator<Item = &Member> {
        self.members.values()
    }

    /// What a member tells the others, in the protocol that was chosen; empty between two generations.
    pub fn subscription(&self, member: &Member) -> Bytes {
        self.protocol.as_deref().map(|protocol| member.metadata(protocol)).unwrap_or_default()
    }

    /// When the group came into its present state.
    pub fn state_timestamp(&self) -> Timestamp {
        self.state_timestamp
    }

    /// When [`Group::tick`] has something to do, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Moment> {
        let members = self.members.values().filter_map(Member::expires_at);
        let pending = self.pending_members.values().copied();
        let rebalance = self.rebalance.map(|rebalance| rebalance.deadline);
        members.chain(pending).chain(rebalance).chain(self.sync_deadline).min()
    }

    // ---- requests ----

    /// A member joins, or joins again. The answer is an effect, now or later.
    pub fn join(&mut self, request: JoinRequest, id: RequestId, now: Now, effects: &mut Vec<Effect>) {
        if let Err(error) = self.check_join(&request) {
            let member_id = request.member_id;
            if error == ErrorCode::GroupMaxSizeReached {
                self.pending_members.remove(&member_id);
                self.drop_member(&member_id, effects);
            }
            effects.push(Effect::AnswerJoin { request: id, answer: JoinAnswer::refused(error, member_id) });
        } else if request.member_id.is_empty() {
            self.join_as_unknown(request, id, now, effects);
        } else {
            self.join_as_known(request, id, now, effects);
        }
        self.complete_join_if_all_are_there(now, effects);
    }

    fn check_join(&self, request: &JoinRequest) -> Result<(), ErrorCode> {
        let GroupConfig { session_timeout_ms_min, session_timeout_ms_max, .. } = self.config;
        if !(session_timeout_ms_min..=session_timeout_ms_max).contains(&request.session_timeout_ms) {
            return Err(ErrorCode::InvalidSessionTimeout);
        }
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if !self.has_room_for(&request.member_id) {
            return Err(ErrorCode::GroupMaxSizeReached);
        }
        if !self.can_do(&request.protocol_type, &request.protocols) {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn has_room_for(&self, member_id: &str) -> bool {
        let member = self.members.get(member_id);
        match self.state {
            State::Empty | State::Dead => true,
            State::PreparingRebalance => {
                let waiting = self.members.values().filter(|member| member.awaiting_join.is_some()).count();
                member.is_some_and(|member| member.awaiting_join.is_some()) || waiting < self.config.size_max
            }
            State::CompletingRebalance | State::Stable => {
                member.is_some() || self.members.len() < self.config.size_max
            }
        }
    }

    /// Whether a member of this type and with these protocols can be in the group.
    fn can_do(&self, protocol_type: &str, protocols: &[(String, Bytes)]) -> bool {
        if self.state == State::Empty || self.members.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type)
            && protocols.iter().any(|(name, _)| self.members.values().all(|member| member.supports(name)))
    }

    fn join_as_unknown(&mut self, request: JoinRequest, id: RequestId, now: Now, effects: &mut Vec<Effect>) {
        let new_id = request.new_member_id.clone();
        let known = request.instance_id.as_ref().and_then(|instance| self.instances.get(instance)).cloned();
        match (known, &request.instance_id) {
            (Some(old_id), _) => self.replace_static(old_id, request, id, now, effects),
            (None, None) if request.requires_known_member_id => {
                let patience = now.after(i64::from(request.session_timeout_ms));
                self.pending_members.insert(new_id.clone(), patience);
                let answer = JoinAnswer::refused(ErrorCode::MemberIdRequired, new_id);
                effects.push(Effect::AnswerJoin { request: id, answer });
            }
            (None, _) => self.add(new_id, request, id, now, effects),
        }
    }

    fn join_as_known(&mut self, request: JoinRequest, id: RequestId, now: Now, effects: &mut Vec<Effect>) {
        let member_id = request.member_id.clone();
        if self.pending_members.remove(&member_id).is_some() && request.instance_id.is_none() {
            self.add(member_id, request, id, now, effects);
            return;
        }
        if let Err(error) = self.check_member(&member_id, request.instance_id.as_deref()) {
            let answer = JoinAnswer::refused(error, member_id);
            effects.push(Effect::AnswerJoin { request: id, answer });
            return;
        }
        let is_leader = self.leader.as_deref() == Some(member_id.as_str());
        let unchanged = self.members.get(&member_id).is_some_and(|m| m.protocols == request.protocols);
        match self.state {
            State::PreparingRebalance => self.wait_for_join(&member_id, request, id, now, effects),
            State::CompletingRebalance if unchanged => self.answer_with_present(&member_id, id, now, effects),
            // Followers with the same wishes have only lost their answer; a leader that joins again wants to reassign.
            State::Stable if unchanged && !is_leader => {
                self.answer_with_present(&member_id, id, now, effects);
            }
            State::CompletingRebalance | State::Stable => {
                self.wait_for_join(&member_id, request, id, now, effects);
                self.prepare_rebalance(now, effects);
            }
            State::Empty | State::Dead => {
                let answer = JoinAnswer::refused(ErrorCode::UnknownMemberId, member_id);
                effects.push(Effect::AnswerJoin { request: id, answer });
            }
        }
    }

    fn add(
        &mut self,
        member_id: String,
        request: JoinRequest,
        id: RequestId,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let mut member = Member::new(
            member_id.clone(),
            request.instance_id,
            (request.client_id, request.client_host),
            (request.session_timeout_ms, request.rebalance_timeout_ms),
            request.protocols,
            now,
        );
        member.begin_as_new(now);
        member.awaiting_join = Some(id);
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type);
        }
        if self.leader.is_none() {
            self.leader = Some(member_id.clone());
        }
        self.pending_members.remove(&member_id);
        self.insert(member);
        if let Some(Rebalance { initial: Some(initial), .. }) = &mut self.rebalance
            && self.generation == 0
        {
            initial.member_came = true;
        }
        self.prepare_rebalance(now, effects);
    }

    /// The member waits for the rebalance to end, with what it says of itself now.
    fn wait_for_join(
        &mut self,
        member_id: &str,
        request: JoinRequest,
        id: RequestId,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.protocols = request.protocols;
        member.session_timeout_ms = request.session_timeout_ms;
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        member.seen(now);
        if let Some(replaced) = member.awaiting_join.replace(id) {
            // The client has given that one up, or it would not ask again. If not, it is told to ask again.
            let answer = JoinAnswer::refused(ErrorCode::RebalanceInProgress, member_id.to_owned());
            effects.push(Effect::AnswerJoin { request: replaced, answer });
        }
    }

    /// Tells a member about the present generation once more.
    fn answer_with_present(&mut self, member_id: &str, id: RequestId, now: Now, effects: &mut Vec<Effect>) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.seen(now);
        }
        let answer = self.join_answer(member_id);
        effects.push(Effect::AnswerJoin { request: id, answer });
    }

    fn join_answer(&self, member_id: &str) -> JoinAnswer {
        let is_leader = self.leader.as_deref() == Some(member_id);
        JoinAnswer {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            leader: self.leader.clone().unwrap_or_default(),
            member_id: member_id.to_owned(),
            members: if is_leader { self.joined_members() } else { Vec::new() },
            skip_assignment: false,
        }
    }

    fn joined_members(&self) -> Vec<JoinedMember> {
        let joined = |member: &Member| JoinedMember {
            id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            metadata: self.subscription(member),
        };
        self.members.values().map(joined).collect()
    }

    /// A static member is back under another id: it takes its old place, and whoever still uses the old id is fenced.
    ///
    /// If the group is stable and would choose the same protocol again, the member goes on with its old assignment, without
    /// a rebalance. Kafka does so even if it subscribes to other topics now, of which it would then get none; here that
    /// makes the others share anew.
    fn replace_static(
        &mut self,
        old_id: String,
        request: JoinRequest,
        id: RequestId,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        let new_id = request.new_member_id.clone();
        let Some(mut member) = self.remove(&old_id) else { return };
        if let Some(waiting) = member.awaiting_join.take() {
            let answer = JoinAnswer::refused(ErrorCode::FencedInstanceId, old_id.clone());
            effects.push(Effect::AnswerJoin { request: waiting, answer });
        }
        if let Some(waiting) = member.awaiting_sync.take() {
            let answer = SyncAnswer::refused(ErrorCode::FencedInstanceId);
            effects.push(Effect::AnswerSync { request: waiting, answer });
        }
        let before = Box::new(member.clone());
        member.id = new_id.clone();
        member.protocols = request.protocols;
        member.session_timeout_ms = request.session_timeout_ms;
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        member.client_id = request.client_id;
        member.client_host = request.client_host;
        member.seen(now);
        let was_leader = self.leader.as_deref() == Some(old_id.as_str());
        if was_leader {
            self.leader = Some(new_id.clone());
        }
        self.insert(member);
        match self.state {
            State::Stable if self.goes_on_with(&before, &new_id) => {
                let mut answer = self.join_answer(&new_id);
                if request.can_skip_assignment {
                    answer.skip_assignment = was_leader;
                } else {
                    // An older leader would assign anew and nobody would take part: it is told that another one leads.
                    answer.leader = if was_leader { old_id } else { answer.leader };
                    answer.members = Vec::new();
                }
                let storing = Storing::Replacement { request: id, before, new_id, answer };
                self.store(storing, BTreeMap::new(), effects);
            }
            State::PreparingRebalance => self.await_join(&new_id, id),
            State::Stable | State::CompletingRebalance => {
                self.await_join(&new_id, id);
                self.prepare_rebalance(now, effects);
            }
            State::Empty | State::Dead => {
                let answer = JoinAnswer::refused(ErrorCode::UnknownMemberId, new_id);
                effects.push(Effect::AnswerJoin { request: id, answer });
            }
        }
    }

    /// Whether a static member that was `before` and has come back as `new_id` can do with the present assignments.
    fn goes_on_with(&self, before: &Member, new_id: &str) -> bool {
        let Some(after) = self.members.get(new_id) else { return false };
        let all: Vec<&Member> = self.members.values().collect();
        let Some(protocol) = choose_protocol(&all).filter(|chosen| self.protocol.as_ref() == Some(chosen))
        else {
            return false;
        };
        // Not the bytes as they are: sticky assignors put into them what a member owned before it stopped.
        let topics = |member: &Member| subscribed_topics(&member.metadata(&protocol));
        self.protocol_type() != Some(CONSUMER_PROTOCOL_TYPE) || topics(before) == topics(after)
    }

    fn await_join(&mut self, member_id: &str, id: RequestId) {
        if let Some(member) = self.members.get_mut(member_id) {
            member.awaiting_join = Some(id);
        }
    }

    /// A member asks for its assignment; the leader brings everyone's. The answer is an effect, now or later.
    pub fn sync(&mut self, request: SyncRequest, id: RequestId, now: Now, effects: &mut Vec<Effect>) {
        let refuse = |error| Effect::AnswerSync { request: id, answer: SyncAnswer::refused(error) };
        if let Err(error) = self.check_sync(&request) {
            effects.push(refuse(error));
            return;
        }
        match self.state {
            State::Empty | State::Dead => effects.push(refuse(ErrorCode::UnknownMemberId)),
            State::PreparingRebalance => effects.push(refuse(ErrorCode::RebalanceInProgress)),
            State::Stable => {
                self.note_synced(&request.member_id);
                let Some(member) = self.members.get_mut(&request.member_id) else { return };
                member.seen(now);
                let assignment = member.assignment.clone();
                effects.push(Effect::AnswerSync { request: id, answer: self.sync_answer(assignment) });
            }
            State::CompletingRebalance => {
                self.note_synced(&request.member_id);
                if let Some(member) = self.members.get_mut(&request.member_id)
                    && let Some(replaced) = member.awaiting_sync.replace(id)
                {
                    let answer = SyncAnswer::refused(ErrorCode::RebalanceInProgress);
                    effects.push(Effect::AnswerSync { request: replaced, answer });
                }
                if self.leader.as_deref() == Some(request.member_id.as_str()) && !self.is_storing() {
                    let given: BTreeMap<String, Bytes> = request.assignments.into_iter().collect();
                    // Whoever was left out gets nothing; whoever is no member is passed over.
                    let assignments: BTreeMap<String, Bytes> = self
                        .members
                        .keys()
                        .map(|member| (member.clone(), given.get(member).cloned().unwrap_or_default()))
                        .collect();
                    let generation = self.generation;
                    let storing = Storing::Assignments { generation, assignments: assignments.clone() };
                    self.store(storing, assignments, effects);
                }
            }
        }
    }

    /// Once all members have asked for their assignments, nobody is waited for any more.
    fn note_synced(&mut self, member_id: &str) {
        self.synced.insert(member_id.to_owned());
        self.stop_waiting_for_syncs_if_all_came();
    }

    fn stop_waiting_for_syncs_if_all_came(&mut self) {
        if self.members.keys().all(|member| self.synced.contains(member)) {
            self.sync_deadline = None;
        }
    }

    fn check_sync(&self, request: &SyncRequest) -> Result<(), ErrorCode> {
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        self.check_member(&request.member_id, request.instance_id.as_deref())?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs = |said: &Option<String>, is: &Option<String>| said.is_some() && said != is;
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol, &self.protocol)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        Ok(())
    }

    fn sync_answer(&self, assignment: Bytes) -> SyncAnswer {
        SyncAnswer {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol: self.protocol.clone(),
            assignment,
        }
    }

    fn is_storing(&self) -> bool {
        self.storing.values().any(|storing| {
            matches!(storing, Storing::Assignments { generation, .. } if *generation == self.generation)
        })
    }

    /// A member says that it is alive, and hears of a rebalance.
    pub fn heartbeat(
        &mut self,
        member_id: &str,
        generation: i32,
        instance_id: Option<&str>,
        now: Now,
    ) -> ErrorCode {
        if self.state == State::Dead {
            return ErrorCode::CoordinatorNotAvailable;
        }
        if let Err(error) = self.check_member(member_id, instance_id) {
            return error;
        }
        if generation != self.generation {
            return ErrorCode::IllegalGeneration;
        }
        match (self.state, self.members.get_mut(member_id)) {
            (State::Empty | State::Dead, _) | (_, None) => ErrorCode::UnknownMemberId,
            (State::PreparingRebalance, Some(member)) => {
                member.seen(now);
                ErrorCode::RebalanceInProgress
            }
            (State::CompletingRebalance | State::Stable, Some(member)) => {
                member.seen(now);
                ErrorCode::None
            }
        }
    }

    /// Members leave; answers each.
    pub fn leave(&mut self, leaving: &[Leaving], now: Now, effects: &mut Vec<Effect>) -> Vec<ErrorCode> {
        let mut went = false;
        let answers = leaving
            .iter()
            .map(|leaving| {
                let by_instance = || self.instances.get(leaving.instance_id.as_ref()?).cloned();
                let member_id = match (leaving.member_id.as_str(), by_instance()) {
                    ("", Some(member_id)) => member_id,
                    ("", None) => return ErrorCode::UnknownMemberId,
                    (member_id, _) => member_id.to_owned(),
                };
                if self.pending_members.remove(&member_id).is_some() {
                    went = true;
                    return ErrorCode::None;
                }
                if let Err(error) = self.check_member(&member_id, leaving.instance_id.as_deref()) {
                    return error;
                }
                went = true;
                self.drop_member(&member_id, effects);
                ErrorCode::None
            })
            .collect();
        if went {
            self.member_went(now, effects);
        }
        answers
    }

    /// Whether a commit may be taken.
    pub fn check_commit(&mut self, committer: Committer<'_>, now: Now) -> Result<(), ErrorCode> {
        let Committer { generation, member_id, instance_id } = committer;
        if self.state == State::Dead {
            return Err(ErrorCode::CoordinatorNotAvailable);
        }
        if generation < 0 && self.state == State::Empty {
            // Not as a member: a consumer that assigns its partitions itself.
            return Ok(());
        }
        let as_member = generation >= 0 || !member_id.is_empty() || instance_id.is_some();
        if !as_member {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.check_member(member_id, instance_id)?;
        if generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        if self.state == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        if let Some(member) = self.members.get_mut(member_id) {
            member.seen(now);
        }
        Ok(())
    }

    /// Offsets whose time is over (KIP-211), measured by the wall clock since:
    ///
    /// ```text
    /// nobody is in the group               the group became empty
    /// consumers are, but not of the topic  the commit
    /// the group never had members          the commit
    /// anything else                        never
    /// ```
    ///
    /// An offset that came with a time of its own to expire goes by that, in the same cases.
    pub fn expired_offsets(&self, now: Now, retention_ms: i64) -> Vec<TopicPartition> {
        let nothing = BTreeSet::new();
        let (since_empty, in_use) = match (self.protocol_type(), self.state, &self.subscribed) {
            (None, _, _) => (None, &nothing),
            // Groups that Kafka stored before 2.1 do not tell since when they are empty.
            (Some(_), State::Empty, _) => {
                (Some(self.state_timestamp).filter(|at| *at > Timestamp::NONE), &nothing)
            }
            (Some(CONSUMER_PROTOCOL_TYPE), State::Stable, Some(subscribed)) => (None, subscribed),
            (Some(_), _, _) => return Vec::new(),
        };
        self.offsets.expired(|partition, committed| {
            let over = match committed.expires_at {
                Some(at) => now.wall >= at,
                None => now.wall.0 - since_empty.unwrap_or(committed.committed_at).0 >= retention_ms,
            };
            over && !in_use.contains(partition.topic.as_str())
        })
    }

    /// Whether the group may be deleted.
    pub fn check_delete(&self) -> Result<(), ErrorCode> {
        match self.state {
            State::Empty => Ok(()),
            State::Dead => Err(ErrorCode::GroupIdNotFound),
            State::PreparingRebalance | State::CompletingRebalance | State::Stable => {
                Err(ErrorCode::NonEmptyGroup)
            }
        }
    }

    /// Whether offsets may be deleted at all; [`Group::is_subscribed_to`] tells of which topics they may not.
    pub fn check_delete_offsets(&self) -> Result<(), ErrorCode> {
        match self.state {
            State::Dead => Err(ErrorCode::GroupIdNotFound),
            State::Empty => Ok(()),
            _ if self.protocol_type() == Some(CONSUMER_PROTOCOL_TYPE) => Ok(()),
            _ => Err(ErrorCode::NonEmptyGroup),
        }
    }

    /// Whether some member reads the topic, as far as is known: what cannot be known is taken for true.
    pub fn is_subscribed_to(&self, topic: &str) -> bool {
        match (&self.subscribed, self.state) {
            (_, State::Empty | State::Dead) => false,
            (Some(subscribed), _) => subscribed.contains(topic),
            (None, _) => true,
        }
    }

    /// A group of which nothing is left that anybody could ask for.
    pub fn is_forgotten(&self) -> bool {
        self.state == State::Empty
            && self.pending_members.is_empty()
            && self.storing.is_empty()
            && self.offsets.is_empty()
    }

    /// What the members of this generation subscribe to together.
    fn topics_of_members(&self) -> Option<BTreeSet<String>> {
        if self.protocol_type() != Some(CONSUMER_PROTOCOL_TYPE) {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            topics.append(&mut subscribed_topics(&self.subscription(member))?);
        }
        Some(topics)
    }

    fn check_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance) = instance_id {
            match self.instances.get(instance) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(id) if id != member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    // ---- rebalancing ----

    /// Begins a rebalance, if none is waiting for members already.
    fn prepare_rebalance(&mut self, now: Now, effects: &mut Vec<Effect>) {
        if !matches!(self.state, State::Empty | State::CompletingRebalance | State::Stable) {
            return;
        }
        if self.state == State::CompletingRebalance {
            self.answer_syncs(ErrorCode::RebalanceInProgress, effects);
            self.members.values_mut().for_each(|member| member.assignment = Bytes::new());
        }
        let timeout_ms = self.rebalance_timeout_ms();
        self.rebalance = Some(if self.state == State::Empty {
            let delay = i64::from(self.config.initial_rebalance_delay_ms).min(timeout_ms);
            Rebalance {
                deadline: now.after(delay),
                initial: Some(InitialDelay { left_ms: timeout_ms - delay, member_came: false }),
            }
        } else {
            Rebalance { deadline: now.after(timeout_ms), initial: None }
        });
        self.sync_deadline = None;
        self.synced.clear();
        self.enter(State::PreparingRebalance, now);
    }

    /// The longest that any member may take to join again.
    fn rebalance_timeout_ms(&self) -> i64 {
        self.members.values().map(|member| i64::from(member.rebalance_timeout_ms)).max().unwrap_or(0).max(0)
    }

    fn enter(&mut self, state: State, now: Now) {
        self.state = state;
        self.state_timestamp = now.wall;
    }

    fn complete_join_if_all_are_there(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let Some(Rebalance { initial: None, .. }) = self.rebalance else { return };
        let all_joined = self.members.values().all(|member| member.awaiting_join.is_some());
        if all_joined && self.pending_members.is_empty() {
            self.complete_join(now, effects);
        }
    }

    /// The waiting is over: a new generation begins with those who came.
    fn complete_join(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let absent: Vec<String> = self
            .members
            .values()
            .filter(|member| member.awaiting_join.is_none() && member.instance_id.is_none())
            .map(|member| member.id.clone())
            .collect();
        for member_id in absent {
            self.take_out(&member_id);
        }
        let joined =
            |group: &Group, id: &str| group.members.get(id).is_some_and(|m| m.awaiting_join.is_some());
        if !self.leader.as_deref().is_some_and(|leader| joined(self, leader)) {
            let successor = self.join_order.iter().find(|id| joined(self, id)).cloned();
            match successor {
                Some(successor) => self.leader = Some(successor),
                // Only static members are left, and none has come: they get another round until their sessions end.
                None if !self.members.is_empty() => {
                    let deadline = now.after(self.rebalance_timeout_ms());
                    self.rebalance = Some(Rebalance { deadline, initial: None });
                    return;
                }
                None => self.leader = None,
            }
        }
        self.rebalance = None;
        self.generation += 1;
        if self.members.is_empty() {
            self.protocol = None;
            self.subscribed = self.topics_of_members();
            self.enter(State::Empty, now);
            self.store(Storing::Emptied, BTreeMap::new(), effects);
            return;
        }
        let all: Vec<&Member> = self.members.values().collect();
        self.protocol = choose_protocol(&all);
        self.subscribed = self.topics_of_members();
        self.enter(State::CompletingRebalance, now);
        self.sync_deadline = Some(now.after(self.rebalance_timeout_ms()));
        let ids: Vec<String> = self.members.keys().cloned().collect();
        for id in ids {
            let answer = self.join_answer(&id);
            let Some(member) = self.members.get_mut(&id) else { continue };
            member.is_new = false;
            member.seen(now);
            if let Some(request) = member.awaiting_join.take() {
                effects.push(Effect::AnswerJoin { request, answer });
            }
        }
    }

    /// A member is gone: the others have to share anew.
    fn member_went(&mut self, now: Now, effects: &mut Vec<Effect>) {
        match self.state {
            State::Stable | State::CompletingRebalance => {
                self.prepare_rebalance(now, effects);
                self.complete_join_if_all_are_there(now, effects);
            }
            State::PreparingRebalance => self.complete_join_if_all_are_there(now, effects),
            State::Empty | State::Dead => {}
        }
    }

    /// Does what is due: members that were not heard of are given up, rebalances that waited long enough go on.
    pub fn tick(&mut self, now: Now, effects: &mut Vec<Effect>) {
        let pending = self.pending_members.len();
        self.pending_members.retain(|_, patience| !now.is_past(*patience));
        let mut went = self.pending_members.len() < pending;

        let expired: Vec<String> = self
            .members
            .values()
            .filter(|member| member.expires_at().is_some_and(|at| now.is_past(at)))
            .map(|member| member.id.clone())
            .collect();
        for member_id in &expired {
            self.drop_member(member_id, effects);
        }
        went |= !expired.is_empty();

        if self.sync_deadline.is_some_and(|deadline| now.is_past(deadline)) {
            self.sync_deadline = None;
            let silent: Vec<String> =
                self.members.keys().filter(|member| !self.synced.contains(*member)).cloned().collect();
            for member_id in &silent {
                self.drop_member(member_id, effects);
            }
            went |= !silent.is_empty();
        }
        if went {
            self.member_went(now, effects);
        }
        if let Some(rebalance) = self.rebalance.filter(|rebalance| now.is_past(rebalance.deadline)) {
            match rebalance.initial {
                Some(InitialDelay { left_ms, member_came: true }) if left_ms > 0 => {
                    let delay = i64::from(self.config.initial_rebalance_delay_ms).min(left_ms);
                    self.rebalance = Some(Rebalance {
                        deadline: now.after(delay),
                        initial: Some(InitialDelay { left_ms: left_ms - delay, member_came: false }),
                    });
                }
                _ => self.complete_join(now, effects),
            }
        }
    }

    // ---- storing ----

    /// Has the group stored, with `assignments` where members have no assignment in memory yet.
    fn store(&mut self, storing: Storing, assignments: BTreeMap<String, Bytes>, effects: &mut Vec<Effect>) {
        let stored = |member: &Member| StoredMember {
            id: member.id.clone(),
            instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            session_timeout_ms: member.session_timeout_ms,
            rebalance_timeout_ms: member.rebalance_timeout_ms,
            subscription: self.subscription(member),
            assignment: assignments.get(&member.id).cloned().unwrap_or_else(|| member.assignment.clone()),
        };
        let record = StoredGroup {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol: self.protocol.clone(),
            leader: self.leader.clone(),
            state_timestamp: self.state_timestamp,
            members: self.members.values().map(stored).collect(),
        };
        let number = self.next_number;
        self.next_number += 1;
        self.storing.insert(number, storing);
        effects.push(Effect::Store { number, record });
    }

    /// A record is in the log, or could not be written.
    pub fn stored(
        &mut self,
        number: u64,
        outcome: Result<(), ErrorCode>,
        now: Now,
        effects: &mut Vec<Effect>,
    ) {
        match self.storing.remove(&number) {
            None | Some(Storing::Emptied) => {}
            Some(Storing::Assignments { generation, assignments }) => {
                if self.state != State::CompletingRebalance || self.generation != generation {
                    // Another rebalance has begun meanwhile, and has answered everyone who waited.
                    return;
                }
                match outcome {
                    Ok(()) => self.assign(&assignments, now, effects),
                    Err(error) => {
                        self.answer_syncs(error, effects);
                        self.prepare_rebalance(now, effects);
                    }
                }
            }
            Some(Storing::Replacement { request, before, new_id, answer }) => match outcome {
                Ok(()) => effects.push(Effect::AnswerJoin { request, answer }),
                Err(error) => {
                    self.take_back_replacement(*before, &new_id, now);
                    let answer = JoinAnswer::refused(error, String::new());
                    effects.push(Effect::AnswerJoin { request, answer });
                }
            },
        }
    }

    /// The log does not know of the new id, so the old one stays.
    fn take_back_replacement(&mut self, mut before: Member, new_id: &str, now: Now) {
        if self.remove(new_id).is_none() {
            return;
        }
        if self.leader.as_deref() == Some(new_id) {
            self.leader = Some(before.id.clone());
        }
        before.seen(now);
        self.insert(before);
    }

    fn assign(&mut self, assignments: &BTreeMap<String, Bytes>, now: Now, effects: &mut Vec<Effect>) {
        self.enter(State::Stable, now);
        let mut answers = Vec::new();
        for member in self.members.values_mut() {
            member.assignment = assignments.get(&member.id).cloned().unwrap_or_default();
            if let Some(request) = member.awaiting_sync.take() {
                member.seen(now);
                answers.push((request, member.assignment.clone()));
            }
        }
        for (request, assignment) in answers {
            effects.push(Effect::AnswerSync { request, answer: self.sync_answer(assignment) });
        }
    }

    fn answer_syncs(&mut self, error: ErrorCode, effects: &mut Vec<Effect>) {
        for member in self.members.values_mut() {
            if let Some(request) = member.awaiting_sync.take() {
                effects.push(Effect::AnswerSync { request, answer: SyncAnswer::refused(error) });
            }
        }
    }

    /// The group is deleted, or another broker coordinates it now: whoever waits is told with `error`.
    pub fn end(&mut self, error: ErrorCode, now: Now, effects: &mut Vec<Effect>) {
        self.answer_syncs(error, effects);
        for member in self.members.values_mut() {
            if let Some(request) = member.awaiting_join.take() {
                let answer = JoinAnswer::refused(error, member.id.clone());
                effects.push(Effect::AnswerJoin { request, answer });
            }
        }
        for storing in std::mem::take(&mut self.storing).into_values() {
            if let Storing::Replacement { request, .. } = storing {
                let answer = JoinAnswer::refused(error, String::new());
                effects.push(Effect::AnswerJoin { request, answer });
            }
        }
        self.rebalance = None;
        self.sync_deadline = None;
        self.pending_members.clear();
        self.members.clear();
        self.instances.clear();
        self.join_order.clear();
        self.enter(State::Dead, now);
    }

    // ---- members ----

    fn insert(&mut self, member: Member) {
        if let Some(instance) = &member.instance_id {
            self.instances.insert(instance.clone(), member.id.clone());
        }
        self.join_order.push(member.id.clone());
        self.members.insert(member.id.clone(), member);
    }

    /// Takes a member out; if it led, the one that has been there longest leads now.
    fn take_out(&mut self, member_id: &str) -> Option<Member> {
        let member = self.remove(member_id)?;
        if self.leader.as_deref() == Some(member_id) {
            self.leader = self.join_order.first().cloned();
        }
        self.stop_waiting_for_syncs_if_all_came();
        Some(member)
    }

    fn remove(&mut self, member_id: &str) -> Option<Member> {
        let member = self.members.remove(member_id)?;
        self.join_order.retain(|id| id != member_id);
        if let Some(instance) = &member.instance_id {
            self.instances.remove(instance);
        }
        Some(member)
    }

    /// Removes a member, and tells whatever request of it still waits.
    fn drop_member(&mut self, member_id: &str, effects: &mut Vec<Effect>) {
        let Some(mut member) = self.take_out(member_id) else { return };
        if let Some(request) = member.awaiting_join.take() {
            let answer = JoinAnswer::refused(ErrorCode::UnknownMemberId, member_id.to_owned());
            effects.push(Effect::AnswerJoin { request, answer });
        }
        if let Some(request) = member.awaiting_sync.take() {
            let answer = SyncAnswer::refused(ErrorCode::UnknownMemberId);
            effects.push(Effect::AnswerSync { request, answer });
        }
    }
}

impl JoinAnswer {
    pub fn refused(error: ErrorCode, member_id: String) -> JoinAnswer {
        JoinAnswer {
            error,
            generation: -1,
            protocol_type: None,
            protocol: None,
            leader: String::new(),
            member_id,
            members: Vec::new(),
            skip_assignment: false,
        }
    }
}

impl SyncAnswer {
    pub fn refused(error: ErrorCode) -> SyncAnswer {
        SyncAnswer { error, protocol_type: None, protocol: None, assignment: Bytes::new() }
    }
}

/// Of the protocols that all members can do, the one that most of them prefer; by name where that is a draw.
fn choose_protocol(members: &[&Member]) -> Option<String> {
    let first = members.first()?;
    let candidates: BTreeSet<&str> = first
        .protocols
        .iter()
        .map(|(name, _)| name.as_str())
        .filter(|name| members.iter().all(|member| member.supports(name)))
        .collect();
    let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
    for vote in members.iter().filter_map(|member| member.vote(&candidates)) {
        *votes.entry(vote).or_default() += 1;
    }
    let most = votes.values().copied().max()?;
    votes.into_iter().find(|(_, count)| *count == most).map(|(name, _)| name.to_owned())
}

#[cfg(test)]
mod tests;
