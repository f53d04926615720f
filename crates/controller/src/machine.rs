//! The controller machine: events in, effects out.

use std::collections::{BTreeMap, BTreeSet};

use ottla_model::{
    BrokerEpoch, BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicName, TopicPartition, Uuid,
};

use crate::election::{Choice, Electorate, after_broker_change, first_state};

/// A topic as its znode tells it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Assignment {
    /// `None` for topics made by tools older than topic ids (KIP-516); the controller gives them one.
    pub id: Option<Uuid>,
    /// Replicas of each partition, the preferred leader first.
    pub partitions: BTreeMap<i32, Vec<BrokerId>>,
}

/// A partition's state, as its znode holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionState {
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub controller_epoch: ControllerEpoch,
    /// The znode's version.
    pub partition_epoch: PartitionEpoch,
    /// The leader was elected without having been in sync (KIP-704).
    pub recovering: bool,
}

/// What the controller is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The registered brokers, after election and whenever `/brokers/ids` changed.
    BrokersRead(BTreeMap<BrokerId, BrokerEpoch>),
    /// The names under `/brokers/topics`, after election and whenever they changed.
    TopicsListed(BTreeSet<TopicName>),
    /// Topics whose znodes were read, with the partition states found (none for new partitions).
    TopicsRead(Vec<(TopicName, Assignment, BTreeMap<i32, PartitionState>)>),
    /// The names under `/admin/delete_topics`.
    DeletionsListed(BTreeSet<TopicName>),
    /// How the writes of one [`Effect::WriteStates`] ended.
    StatesWritten(Vec<(TopicPartition, WriteOutcome)>),
    /// A broker answered [`Effect::StopReplicas`]: these replicas are stopped, and deleted where that was asked.
    ReplicasStopped { broker: BrokerId, partitions: Vec<TopicPartition> },
    /// The znodes of a deleted topic are gone.
    TopicDeleted(TopicName),
    /// A leader asks for another set of in-sync replicas (AlterPartition, KIP-497).
    IsrProposed(IsrProposal),
    /// A broker is about to leave and asks for its leaderships to be moved away first (ControlledShutdown).
    ShutdownAnnounced(BrokerId),
    /// These partitions are to be led by their preferred replicas, as far as those can lead (ElectLeaders).
    PreferredLeadersWanted(Vec<TopicPartition>),
    /// Time to look whether leaderships are spread as they were meant to be. Brokers that lead too few of the partitions they
    /// should, by more than so many percent, get them back (`leader.imbalance.per.broker.percentage`).
    BalanceDue { imbalance_percent_max: u32 },
}

/// Whether a partition could be led by its preferred replica, the first of its assignment.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PreferredLeader {
    UnknownPartition,
    BeingDeleted,
    Leads,
    /// It lives and is in sync.
    CanLead,
    /// It is dead, leaving, or not in sync.
    Unavailable,
}

/// A leader's wish for another set of in-sync replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsrProposal {
    /// Comes back in the answer.
    pub id: u64,
    pub partition: TopicPartition,
    /// The epoch that the sender leads in; it proves that it is the leader.
    pub leader_epoch: LeaderEpoch,
    /// The state that the wish builds on.
    pub partition_epoch: PartitionEpoch,
    pub isr: Vec<BrokerId>,
}

/// Why a set of in-sync replicas was not changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsrRefusal {
    UnknownPartition,
    /// The sender knows of a later epoch than we do: it has another controller.
    FromTheFuture,
    /// The sender leads no more.
    Fenced,
    /// The state has moved on; the sender will hear of it.
    Outdated,
    /// A replica in the set is dead, or about to leave (KIP-841).
    Ineligible(BrokerId),
}

/// How one state write ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WriteOutcome {
    Written(PartitionEpoch),
    /// Somebody else had written: this is what stands there now.
    Conflict(PartitionState),
    /// The znode, or its topic, is gone.
    Gone,
}

/// The state after a wish was granted, or why it was not.
pub type IsrAnswer = Result<PartitionState, IsrRefusal>;

/// The condition of a state write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Expected {
    Absent,
    Version(PartitionEpoch),
}

/// One state to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWrite {
    pub partition: TopicPartition,
    pub state: PartitionState,
    pub expected: Expected,
}

/// What a broker is told of one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionOrder {
    pub partition: TopicPartition,
    pub topic_id: Option<Uuid>,
    pub state: PartitionState,
    pub replicas: Vec<BrokerId>,
    pub offline_replicas: Vec<BrokerId>,
    /// The replica may be created: it has never held data.
    pub is_new: bool,
}

/// What the edge must do, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Read these topics' znodes and the states of their partitions: [`Event::TopicsRead`].
    ReadTopics(Vec<TopicName>),
    /// Write a new topic id into these topics' znodes, then read them: [`Event::TopicsRead`].
    AssignTopicIds(Vec<TopicName>),
    /// [`Event::StatesWritten`] follows.
    WriteStates(Vec<StateWrite>),
    /// Orders for the replicas that one broker holds.
    SendLeaderAndIsr { broker: BrokerId, partitions: Vec<PartitionOrder> },
    /// News for brokers: all live brokers, and these partitions.
    SendUpdateMetadata {
        brokers: Vec<BrokerId>,
        partitions: Vec<PartitionOrder>,
        deleted: Vec<TopicPartition>,
    },
    /// Stop and delete replicas on one broker: [`Event::ReplicasStopped`].
    StopReplicas { broker: BrokerId, partitions: Vec<TopicPartition> },
    /// Remove all znodes of a topic, its deletion mark last: [`Event::TopicDeleted`].
    DeleteTopic(TopicName),
    /// Remove the deletion mark of a topic that does not exist.
    RemoveDeletionMark(TopicName),
    /// Answer the wish with this id.
    AnswerIsrProposal { id: u64, answer: IsrAnswer },
}

#[derive(Debug, Clone)]
struct Topic {
    id: Option<Uuid>,
    partitions: BTreeMap<i32, Partition>,
    deletion: Option<Deletion>,
}

#[derive(Debug, Clone)]
struct Partition {
    replicas: Vec<BrokerId>,
    state: Option<PartitionState>,
    /// A write is on its way; the state in it was decided on what we knew then.
    writing: Option<Writing>,
}

#[derive(Debug, Clone)]
struct Writing {
    state: PartitionState,
    cause: Cause,
}

/// What made a state change, and so who has to hear of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Cause {
    /// A new partition: its replicas make their logs.
    Creation,
    /// Leader or epoch changed: its replicas follow.
    Election,
    /// Only the in-sync set changed, as its leader wished.
    Proposal(u64),
}

/// A topic that is going: which replicas still have to confirm.
#[derive(Debug, Clone)]
struct Deletion {
    /// `None` until every replica's broker is alive and the orders are out.
    waiting_for: Option<BTreeSet<(BrokerId, i32)>>,
}

/// The active controller's view of the cluster, and its decisions.
#[derive(Debug, Clone)]
pub struct Controller {
    epoch: ControllerEpoch,
    unclean_election: bool,
    brokers: BTreeMap<BrokerId, BrokerEpoch>,
    live: BTreeSet<BrokerId>,
    /// Live brokers that have announced their shutdown: they get no leadership and leave the in-sync sets.
    leaving: BTreeSet<BrokerId>,
    topics: BTreeMap<TopicName, Topic>,
}

impl Controller {
    /// A controller that has just won epoch `epoch` and knows nothing yet.
    pub fn new(epoch: ControllerEpoch, unclean_election: bool) -> Controller {
        Controller {
            epoch,
            unclean_election,
            brokers: BTreeMap::new(),
            live: BTreeSet::new(),
            leaving: BTreeSet::new(),
            topics: BTreeMap::new(),
        }
    }

    pub fn epoch(&self) -> ControllerEpoch {
        self.epoch
    }

    /// Takes in one event and says what has to be done about it.
    pub fn handle(&mut self, event: Event) -> Vec<Effect> {
        let mut effects = Vec::new();
        match event {
            Event::BrokersRead(brokers) => self.brokers_read(brokers, &mut effects),
            Event::TopicsListed(names) => self.topics_listed(names, &mut effects),
            Event::TopicsRead(topics) => self.topics_read(topics, &mut effects),
            Event::DeletionsListed(names) => self.deletions_listed(names, &mut effects),
            Event::StatesWritten(outcomes) => self.states_written(outcomes, &mut effects),
            Event::ReplicasStopped { broker, partitions } => {
                self.replicas_stopped(broker, &partitions, &mut effects);
            }
            Event::TopicDeleted(name) => {
                self.topics.remove(&name);
            }
            Event::IsrProposed(proposal) => self.isr_proposed(proposal, &mut effects),
            Event::ShutdownAnnounced(broker) => self.shutdown_announced(broker, &mut effects),
            Event::PreferredLeadersWanted(partitions) => {
                self.elect_preferred(&partitions.into_iter().collect(), &mut effects);
            }
            Event::BalanceDue { imbalance_percent_max } => self.balance(imbalance_percent_max, &mut effects),
        }
        effects
    }

    /// Partitions with more than one replica that the broker leads: what a broker that wants to leave still has to wait for.
    pub fn led_by(&self, broker: BrokerId) -> Vec<TopicPartition> {
        let mut led = Vec::new();
        for (name, topic) in &self.topics {
            for (id, partition) in &topic.partitions {
                let leader = partition.state.as_ref().map(|state| state.leader);
                if leader == Some(broker) && partition.replicas.len() > 1 {
                    led.push(TopicPartition::new(name.clone(), *id));
                }
            }
        }
        led
    }

    pub fn preferred_leader(&self, name: &TopicPartition) -> PreferredLeader {
        let Some(topic) = self.topics.get(&name.topic) else { return PreferredLeader::UnknownPartition };
        let Some(partition) = topic.partitions.get(&name.partition) else {
            return PreferredLeader::UnknownPartition;
        };
        if topic.deletion.is_some() {
            return PreferredLeader::BeingDeleted;
        }
        let (Some(preferred), Some(state)) = (partition.replicas.first(), &partition.state) else {
            return PreferredLeader::Unavailable;
        };
        if state.leader == *preferred {
            PreferredLeader::Leads
        } else if state.isr.contains(preferred) && self.eligible().contains(preferred) {
            PreferredLeader::CanLead
        } else {
            PreferredLeader::Unavailable
        }
    }

    /// Brokers that may lead and be in sync.
    fn eligible(&self) -> BTreeSet<BrokerId> {
        self.live.difference(&self.leaving).copied().collect()
    }

    /// A broker that came back with another epoch has failed and returned: everything on it is told anew.
    fn brokers_read(&mut self, brokers: BTreeMap<BrokerId, BrokerEpoch>, effects: &mut Vec<Effect>) {
        let arrived: Vec<BrokerId> = brokers
            .iter()
            .filter(|(id, epoch)| self.brokers.get(id) != Some(epoch))
            .map(|(id, _)| *id)
            .collect();
        let bounced: BTreeSet<BrokerId> =
            arrived.iter().copied().filter(|id| self.brokers.contains_key(id)).collect();
        let lost = self.brokers.keys().any(|id| !brokers.contains_key(id));
        // A broker that is gone, or back, is not leaving any more.
        self.leaving.retain(|id| brokers.contains_key(id) && !arrived.contains(id));
        self.brokers = brokers;
        if arrived.is_empty() && !lost {
            return;
        }
        // The failed half of a bounce first: its leaderships move while it counts as dead.
        self.live = self.brokers.keys().copied().filter(|id| !bounced.contains(id)).collect();
        if !bounced.is_empty() {
            self.elect_everywhere(effects);
        }
        self.live = self.brokers.keys().copied().collect();

        let everyone: Vec<BrokerId> = self.live.iter().copied().collect();
        effects.push(Effect::SendUpdateMetadata {
            brokers: everyone,
            partitions: Vec::new(),
            deleted: Vec::new(),
        });
        if !arrived.is_empty() {
            self.introduce(&arrived, effects);
        }
        self.elect_everywhere(effects);
        self.continue_deletions(effects);
    }

    /// Tells brokers that have just arrived about every partition there is, and about those that they hold.
    fn introduce(&self, arrived: &[BrokerId], effects: &mut Vec<Effect>) {
        let known: Vec<PartitionOrder> = self.orders(|_| true);
        for broker in arrived {
            let held: Vec<PartitionOrder> =
                known.iter().filter(|order| order.replicas.contains(broker)).cloned().collect();
            if !held.is_empty() {
                effects.push(Effect::SendLeaderAndIsr { broker: *broker, partitions: held });
            }
        }
        if !known.is_empty() {
            let brokers = arrived.to_vec();
            effects.push(Effect::SendUpdateMetadata { brokers, partitions: known, deleted: Vec::new() });
        }
    }

    fn topics_listed(&mut self, names: BTreeSet<TopicName>, effects: &mut Vec<Effect>) {
        // A topic whose znode somebody removed by hand is not ours to delete from the disks: forget it only.
        let vanished: Vec<TopicName> =
            self.topics.keys().filter(|name| !names.contains(*name)).cloned().collect();
        let mut deleted = Vec::new();
        for name in vanished {
            if let Some(topic) = self.topics.remove(&name) {
                deleted.extend(topic.partitions.keys().map(|p| TopicPartition::new(name.clone(), *p)));
            }
        }
        if !deleted.is_empty() {
            let brokers = self.live.iter().copied().collect();
            effects.push(Effect::SendUpdateMetadata { brokers, partitions: Vec::new(), deleted });
        }
        let new: Vec<TopicName> = names.into_iter().filter(|name| !self.topics.contains_key(name)).collect();
        if !new.is_empty() {
            effects.push(Effect::ReadTopics(new));
        }
    }

    fn topics_read(
        &mut self,
        topics: Vec<(TopicName, Assignment, BTreeMap<i32, PartitionState>)>,
        effects: &mut Vec<Effect>,
    ) {
        let mut nameless = Vec::new();
        let mut loaded = BTreeSet::new();
        for (name, assignment, mut states) in topics {
            if assignment.id.is_none() {
                nameless.push(name);
                continue;
            }
            let topic = self.topics.entry(name.clone()).or_insert_with(|| Topic {
                id: None,
                partitions: BTreeMap::new(),
                deletion: None,
            });
            topic.id = assignment.id;
            for (id, replicas) in assignment.partitions {
                let partition = topic.partitions.entry(id).or_insert_with(|| {
                    loaded.insert(TopicPartition::new(name.clone(), id));
                    Partition { replicas: Vec::new(), state: states.remove(&id), writing: None }
                });
                partition.replicas = replicas;
            }
        }
        if !nameless.is_empty() {
            effects.push(Effect::AssignTopicIds(nameless));
        }
        let known = self.orders(|partition| loaded.contains(partition));
        self.send(known, effects);
        self.elect(|partition| loaded.contains(partition), effects);
        self.continue_deletions(effects);
    }

    fn elect_everywhere(&mut self, effects: &mut Vec<Effect>) {
        self.elect(|_| true, effects);
    }

    /// Decides the state of each partition concerned, and asks for the writes that change one.
    fn elect(&mut self, concerned: impl Fn(&TopicPartition) -> bool, effects: &mut Vec<Effect>) {
        let mut writes = Vec::new();
        let (eligible, live) = (self.eligible(), self.live.clone());
        for (name, topic) in &mut self.topics {
            if topic.deletion.is_some() {
                continue;
            }
            for (id, partition) in &mut topic.partitions {
                let name = TopicPartition::new(name.clone(), *id);
                if partition.writing.is_some() || !concerned(&name) {
                    continue;
                }
                // The only replica of a partition leads until it is gone: nobody could take over.
                let electors = if partition.replicas.len() > 1 { &eligible } else { &live };
                let electorate = Electorate {
                    replicas: &partition.replicas,
                    live: electors,
                    unclean: self.unclean_election,
                };
                let Some((state, expected)) = decide(electorate, partition.state.as_ref(), self.epoch) else {
                    continue;
                };
                let cause = if expected == Expected::Absent { Cause::Creation } else { Cause::Election };
                partition.writing = Some(Writing { state: state.clone(), cause });
                writes.push(StateWrite { partition: name, state, expected });
            }
        }
        if !writes.is_empty() {
            effects.push(Effect::WriteStates(writes));
        }
    }

    fn states_written(&mut self, outcomes: Vec<(TopicPartition, WriteOutcome)>, effects: &mut Vec<Effect>) {
        let mut causes = BTreeMap::new();
        let mut again = BTreeSet::new();
        for (name, outcome) in outcomes {
            let Some(partition) =
                self.topics.get_mut(&name.topic).and_then(|topic| topic.partitions.get_mut(&name.partition))
            else {
                continue;
            };
            let Some(Writing { mut state, cause }) = partition.writing.take() else { continue };
            let answer = match outcome {
                WriteOutcome::Written(epoch) => {
                    state.partition_epoch = epoch;
                    partition.state = Some(state.clone());
                    causes.insert(name.clone(), cause);
                    Ok(state)
                }
                WriteOutcome::Conflict(found) => {
                    partition.state = Some(found);
                    causes.insert(name.clone(), Cause::Election);
                    Err(IsrRefusal::Outdated)
                }
                // Its topic is being removed behind our back; the listing of topics will say so.
                WriteOutcome::Gone => Err(IsrRefusal::UnknownPartition),
            };
            if let Cause::Proposal(id) = cause {
                effects.push(Effect::AnswerIsrProposal { id, answer });
            }
            // What happened while the write was under way was left for now.
            again.insert(name);
        }
        let mut orders = self.orders(|partition| causes.contains_key(partition));
        let cause = |order: &PartitionOrder| causes.get(&order.partition).copied();
        for order in &mut orders {
            order.is_new = cause(order) == Some(Cause::Creation);
        }
        let (news, orders): (Vec<_>, Vec<_>) =
            orders.into_iter().partition(|order| matches!(cause(order), Some(Cause::Proposal(_))));
        self.send(orders, effects);
        self.tell(news, effects);
        self.elect(|partition| again.contains(partition), effects);
    }

    /// A leader's wish is granted if it still leads, builds on the present state, and names only brokers that may be in
    /// sync. The leader epoch stays: nobody's leadership changes.
    fn isr_proposed(&mut self, proposal: IsrProposal, effects: &mut Vec<Effect>) {
        let IsrProposal { id, partition: name, leader_epoch, partition_epoch, isr } = proposal;
        let eligible = self.eligible();
        let epoch = self.epoch;
        let known = self.topics.get_mut(&name.topic).filter(|topic| topic.deletion.is_none());
        let partition = known.and_then(|topic| topic.partitions.get_mut(&name.partition));
        let verdict = match partition.as_ref().and_then(|partition| partition.state.as_ref()) {
            None => Err(IsrRefusal::UnknownPartition),
            Some(state) if leader_epoch > state.leader_epoch || partition_epoch > state.partition_epoch => {
                Err(IsrRefusal::FromTheFuture)
            }
            Some(state) if leader_epoch < state.leader_epoch => Err(IsrRefusal::Fenced),
            // Asked before, and the answer was lost.
            Some(state) if state.isr == isr && !state.recovering => Ok(None),
            Some(state) if partition_epoch < state.partition_epoch => Err(IsrRefusal::Outdated),
            Some(state) => match isr.iter().find(|member| !eligible.contains(member)) {
                Some(dead) => Err(IsrRefusal::Ineligible(*dead)),
                None => Ok(Some(PartitionState {
                    isr,
                    controller_epoch: epoch,
                    recovering: false,
                    ..state.clone()
                })),
            },
        };
        let answer = match (verdict, partition) {
            (Ok(Some(state)), Some(partition)) if partition.writing.is_none() => {
                let expected = Expected::Version(state.partition_epoch);
                partition.writing = Some(Writing { state: state.clone(), cause: Cause::Proposal(id) });
                effects.push(Effect::WriteStates(vec![StateWrite { partition: name, state, expected }]));
                return;
            }
            (Ok(None), Some(Partition { state: Some(state), .. })) => Ok(state.clone()),
            // A write is under way: whatever it is, the state that the wish builds on is about to be history.
            (Ok(_), _) => Err(IsrRefusal::Outdated),
            (Err(refusal), _) => Err(refusal),
        };
        effects.push(Effect::AnswerIsrProposal { id, answer });
    }

    fn elect_preferred(&mut self, wanted: &BTreeSet<TopicPartition>, effects: &mut Vec<Effect>) {
        let mut writes = Vec::new();
        for name in wanted {
            if self.preferred_leader(name) != PreferredLeader::CanLead {
                continue;
            }
            let controller_epoch = self.epoch;
            let topic = self.topics.get_mut(&name.topic);
            let Some(partition) = topic.and_then(|topic| topic.partitions.get_mut(&name.partition)) else {
                continue;
            };
            let (Some(current), Some(preferred), None) =
                (&partition.state, partition.replicas.first(), &partition.writing)
            else {
                continue;
            };
            let state = PartitionState {
                leader: *preferred,
                leader_epoch: LeaderEpoch(current.leader_epoch.0 + 1),
                controller_epoch,
                ..current.clone()
            };
            let expected = Expected::Version(current.partition_epoch);
            partition.writing = Some(Writing { state: state.clone(), cause: Cause::Election });
            writes.push(StateWrite { partition: name.clone(), state, expected });
        }
        if !writes.is_empty() {
            effects.push(Effect::WriteStates(writes));
        }
    }

    fn balance(&mut self, imbalance_percent_max: u32, effects: &mut Vec<Effect>) {
        // Of the partitions that each broker should lead: how many, and which it does not.
        let mut shares: BTreeMap<BrokerId, (usize, Vec<TopicPartition>)> = BTreeMap::new();
        for (name, topic) in self.topics.iter().filter(|(_, topic)| topic.deletion.is_none()) {
            for (id, partition) in &topic.partitions {
                let (Some(preferred), Some(state)) = (partition.replicas.first(), &partition.state) else {
                    continue;
                };
                let (all, missing) = shares.entry(*preferred).or_default();
                *all += 1;
                if state.leader != *preferred {
                    missing.push(TopicPartition::new(name.clone(), *id));
                }
            }
        }
        let wanted = shares
            .into_values()
            .filter(|(all, missing)| missing.len() * 100 > all * imbalance_percent_max as usize)
            .flat_map(|(_, missing)| missing)
            .collect();
        self.elect_preferred(&wanted, effects);
    }

    fn shutdown_announced(&mut self, broker: BrokerId, effects: &mut Vec<Effect>) {
        if !self.live.contains(&broker) || !self.leaving.insert(broker) {
            return;
        }
        self.elect_everywhere(effects);
    }

    /// Each live replica gets its orders first; then everyone hears the news.
    fn send(&self, orders: Vec<PartitionOrder>, effects: &mut Vec<Effect>) {
        if orders.is_empty() {
            return;
        }
        for broker in &self.live {
            let held: Vec<PartitionOrder> =
                orders.iter().filter(|order| order.replicas.contains(broker)).cloned().collect();
            if !held.is_empty() {
                effects.push(Effect::SendLeaderAndIsr { broker: *broker, partitions: held });
            }
        }
        self.tell(orders, effects);
    }

    /// Everyone hears the news.
    fn tell(&self, orders: Vec<PartitionOrder>, effects: &mut Vec<Effect>) {
        if orders.is_empty() {
            return;
        }
        let brokers = self.live.iter().copied().collect();
        effects.push(Effect::SendUpdateMetadata { brokers, partitions: orders, deleted: Vec::new() });
    }

    /// Orders for the partitions that have a state and are not being deleted.
    fn orders(&self, concerned: impl Fn(&TopicPartition) -> bool) -> Vec<PartitionOrder> {
        let mut orders = Vec::new();
        for (name, topic) in self.topics.iter().filter(|(_, topic)| topic.deletion.is_none()) {
            for (id, partition) in &topic.partitions {
                let name = TopicPartition::new(name.clone(), *id);
                let Some(state) = &partition.state else { continue };
                if !concerned(&name) {
                    continue;
                }
                orders.push(PartitionOrder {
                    partition: name,
                    topic_id: topic.id,
                    state: state.clone(),
                    replicas: partition.replicas.clone(),
                    offline_replicas: self.dead_among(&partition.replicas),
                    is_new: false,
                });
            }
        }
        orders
    }

    fn dead_among(&self, replicas: &[BrokerId]) -> Vec<BrokerId> {
        replicas.iter().copied().filter(|id| !self.live.contains(id)).collect()
    }

    fn deletions_listed(&mut self, names: BTreeSet<TopicName>, effects: &mut Vec<Effect>) {
        for name in names {
            match self.topics.get_mut(&name) {
                Some(topic) if topic.deletion.is_none() => {
                    topic.deletion = Some(Deletion { waiting_for: None });
                }
                Some(_) => {}
                None => effects.push(Effect::RemoveDeletionMark(name)),
            }
        }
        self.continue_deletions(effects);
    }

    /// Starts each deletion whose replicas are all on live brokers; the others wait for theirs to return.
    fn continue_deletions(&mut self, effects: &mut Vec<Effect>) {
        let everyone: Vec<BrokerId> = self.live.iter().copied().collect();
        for (name, topic) in &mut self.topics {
            let Some(deletion) = &mut topic.deletion else { continue };
            let mut replicas: BTreeMap<BrokerId, Vec<TopicPartition>> = BTreeMap::new();
            for (id, partition) in &topic.partitions {
                for broker in &partition.replicas {
                    let name = TopicPartition::new(name.clone(), *id);
                    replicas.entry(*broker).or_default().push(name);
                }
            }
            let all_live = replicas.keys().all(|broker| self.live.contains(broker));
            if deletion.waiting_for.is_some() || !all_live {
                continue;
            }
            let waiting_for: BTreeSet<(BrokerId, i32)> = replicas
                .iter()
                .flat_map(|(broker, held)| held.iter().map(|held| (*broker, held.partition)))
                .collect();
            let deleted = topic.partitions.keys().map(|id| TopicPartition::new(name.clone(), *id)).collect();
            effects.push(Effect::SendUpdateMetadata {
                brokers: everyone.clone(),
                partitions: Vec::new(),
                deleted,
            });
            if waiting_for.is_empty() {
                effects.push(Effect::DeleteTopic(name.clone()));
            }
            for (broker, partitions) in replicas {
                effects.push(Effect::StopReplicas { broker, partitions });
            }
            deletion.waiting_for = Some(waiting_for);
        }
    }

    fn replicas_stopped(
        &mut self,
        broker: BrokerId,
        partitions: &[TopicPartition],
        effects: &mut Vec<Effect>,
    ) {
        for stopped in partitions {
            let Some(topic) = self.topics.get_mut(&stopped.topic) else { continue };
            let Some(Deletion { waiting_for: Some(waiting_for) }) = &mut topic.deletion else { continue };
            if waiting_for.remove(&(broker, stopped.partition)) && waiting_for.is_empty() {
                effects.push(Effect::DeleteTopic(stopped.topic.clone()));
            }
        }
    }
}

/// The next state of a partition and the condition of writing it, or `None` if it stays as it is.
fn decide(
    electorate: Electorate<'_>,
    current: Option<&PartitionState>,
    controller_epoch: ControllerEpoch,
) -> Option<(PartitionState, Expected)> {
    let Some(current) = current else {
        let Choice { leader, isr, .. } = first_state(electorate)?;
        let state = PartitionState {
            leader,
            leader_epoch: LeaderEpoch(0),
            isr,
            controller_epoch,
            partition_epoch: PartitionEpoch(0),
            recovering: false,
        };
        return Some((state, Expected::Absent));
    };
    let choice = after_broker_change(electorate, current.leader, &current.isr)?;
    let state = PartitionState {
        leader: choice.leader,
        leader_epoch: LeaderEpoch(current.leader_epoch.0 + 1),
        isr: choice.isr,
        controller_epoch,
        partition_epoch: current.partition_epoch,
        recovering: choice.unclean || current.recovering,
    };
    Some((state, Expected::Version(current.partition_epoch)))
}

#[cfg(test)]
mod tests;
