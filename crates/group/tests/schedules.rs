//! Random schedules: members join, sync, commit, fall silent and come back, records fail or wait, and the coordinator moves,
//! in any order. Whatever happens:
//!
//! - one member leads a generation;
//! - a member has one assignment in a generation, and it is the one that the leader gave it;
//! - an offset whose commit was acknowledged is neither lost nor moved back;
//! - every request is answered once.
//!
//! `SEED=7 cargo test -p ottla-group --test schedules` repeats one schedule.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use bytes::Bytes;
use ottla_group::{
    CommittedOffset, Committer, Effect, Group, GroupConfig, JoinAnswer, JoinRequest, Leaving, Moment, Now,
    RecordVersions, Replay, RequestId, State, SyncAnswer, SyncRequest, group_key, group_value, offset_key,
    offset_value,
};
use ottla_model::{Offset, Timestamp, TopicName, TopicPartition};
use ottla_protocol::ErrorCode;
use ottla_protocol::records::{Batch, BatchBuilder};

const SCHEDULES: u64 = 400;
const STEPS: usize = 600;
const CLIENTS: usize = 5;
const PARTITIONS: i32 = 3;
const VERSIONS: RecordVersions = RecordVersions { offset: 3, group: 3 };
const CONFIG: GroupConfig = GroupConfig {
    session_timeout_ms_min: 6_000,
    session_timeout_ms_max: 1_800_000,
    initial_rebalance_delay_ms: 3_000,
    size_max: 4,
};

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

/// A member as it sees itself.
#[derive(Default, Clone)]
struct Client {
    instance: Option<String>,
    id: String,
    generation: i32,
    /// Whom it has to give assignments to, if it leads.
    leads: Option<Vec<String>>,
    /// It has joined and not yet heard of its assignment.
    must_sync: bool,
    waits_for: Option<RequestId>,
}

enum Waiting {
    Stored(u64),
    Commit(TopicPartition, CommittedOffset),
}

struct Record {
    batch: Bytes,
    waiting: Option<Waiting>,
}

struct World {
    seed: u64,
    random: Random,
    now: Now,
    group: Group,
    clients: Vec<Client>,
    /// The partition of the offsets topic; what lies below `committed` survives the coordinator.
    log: Vec<Record>,
    committed: usize,
    requests: HashMap<RequestId, usize>,
    next: u64,
    /// Which coordinator this is, counted from 0: a generation that was never stored may come twice, but not under one.
    coordinator: u64,
    leaders: HashMap<(u64, i32), BTreeSet<String>>,
    /// What leaders gave to whom, by coordinator and generation.
    given: HashMap<(u64, i32), Vec<(String, Bytes)>>,
    /// What members were told they own, by generation and who they are.
    told: HashMap<(i32, String), Bytes>,
    /// Where each commit lies, by its offset, which no other has.
    positions: HashMap<i64, usize>,
    acknowledged: BTreeMap<TopicPartition, usize>,
}

impl World {
    fn new(seed: u64) -> World {
        let now = Now { wall: Timestamp(1_700_000_000_000), steady: Moment(0) };
        let clients = (0..CLIENTS).map(|client| Client {
            instance: (client % 2 == 0).then(|| format!("i{client}")),
            ..Client::default()
        });
        World {
            seed,
            random: Random(seed),
            now,
            group: Group::new("g", CONFIG, now),
            clients: clients.collect(),
            log: Vec::new(),
            committed: 0,
            requests: HashMap::new(),
            next: 0,
            coordinator: 0,
            leaders: HashMap::new(),
            given: HashMap::new(),
            told: HashMap::new(),
            positions: HashMap::new(),
            acknowledged: BTreeMap::new(),
        }
    }

    fn request(&mut self, client: usize) -> RequestId {
        self.next += 1;
        let id = RequestId(self.next);
        self.requests.insert(id, client);
        self.clients[client].waits_for = Some(id);
        id
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..70 => {
                let client = self.random.below(CLIENTS);
                self.act(client);
            }
            70..88 => self.replicate(),
            88..89 => self.fail(),
            89..99 => {
                let ms = [1, 50, 1_000, 3_000, 9_000][self.random.below(5)];
                self.pass(ms);
                (0..CLIENTS).for_each(|client| self.heartbeat(client));
            }
            _ => self.fail_over(),
        }
        self.check();
    }

    /// Mostly what a client does at this point, now and then anything else.
    fn act(&mut self, client: usize) {
        let Client { waits_for, must_sync, .. } = &self.clients[client];
        let likely = match (waits_for, must_sync) {
            (Some(_), _) => {
                return if self.random.one_in(20) {
                    self.join(client)
                };
            }
            (None, true) => 40,
            (None, false) => 0,
        };
        match likely + self.random.below(60) {
            0..5 | 90..94 => self.join(client),
            5..40 | 94..97 => self.commit(client),
            40..90 => self.sync(client),
            97..98 => self.leave(client),
            98.. => {
                // It restarts and knows nothing any more, but its instance id.
                let instance = self.clients[client].instance.clone();
                self.clients[client] = Client { instance, ..Client::default() };
            }
        }
    }

    fn join(&mut self, client: usize) {
        let id = self.request(client);
        let Client { id: member_id, instance, .. } = self.clients[client].clone();
        let metadata = if self.random.one_in(10) { "other wishes" } else { "wishes" };
        let request = JoinRequest {
            member_id,
            new_member_id: format!("m{}", self.next),
            instance_id: instance,
            client_id: "c".to_owned(),
            client_host: "/127.0.0.1".to_owned(),
            session_timeout_ms: 10_000,
            rebalance_timeout_ms: 20_000,
            protocol_type: "consumer".to_owned(),
            protocols: vec![("range".to_owned(), Bytes::from_static(metadata.as_bytes()))],
            requires_known_member_id: self.random.one_in(2),
            can_skip_assignment: self.random.one_in(2),
        };
        let mut effects = Vec::new();
        self.group.join(request, id, self.now, &mut effects);
        self.carry_out(effects);
    }

    fn joined(&mut self, client: usize, answer: JoinAnswer) {
        let this = &mut self.clients[client];
        match answer.error {
            ErrorCode::None => {}
            ErrorCode::MemberIdRequired => {
                this.id = answer.member_id;
                return;
            }
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => {
                this.id = String::new();
                return;
            }
            _ => return,
        }
        this.id = answer.member_id.clone();
        this.generation = answer.generation;
        this.must_sync = true;
        this.leads = (!answer.members.is_empty() && !answer.skip_assignment)
            .then(|| answer.members.iter().map(|member| member.id.clone()).collect());
        if self.group.state() == State::CompletingRebalance && self.group.generation() == answer.generation {
            let is_member = self.group.members().any(|member| member.id == answer.leader);
            assert!(is_member, "{} leads and is no member; SEED={}", answer.leader, self.seed);
        }
        if answer.leader == answer.member_id {
            // A static leader that comes back leads under another id.
            let name = this.instance.clone().unwrap_or(answer.member_id);
            let leaders = self.leaders.entry((self.coordinator, answer.generation)).or_default();
            leaders.insert(name);
            assert!(
                leaders.len() <= 1,
                "{leaders:?} lead generation {}; SEED={}",
                answer.generation,
                self.seed
            );
        }
    }

    fn sync(&mut self, client: usize) {
        let id = self.request(client);
        let Client { id: member_id, generation, leads, instance, .. } = self.clients[client].clone();
        let given = leads.iter().flatten().map(|member| {
            let assignment = Bytes::from(format!("{member} of {generation} by request {}", id.0));
            (member.clone(), assignment)
        });
        let assignments: Vec<(String, Bytes)> = given.filter(|_| self.random.below(8) > 0).collect();
        let is_taken = self.group.state() == State::CompletingRebalance
            && self.group.generation() == generation
            && self.group.leader() == Some(&member_id);
        if is_taken {
            // Only the first time: what it sends again while that is being stored changes nothing.
            self.given.entry((self.coordinator, generation)).or_insert_with(|| assignments.clone());
        }
        let request = SyncRequest {
            member_id,
            generation,
            instance_id: instance,
            protocol_type: None,
            protocol: None,
            assignments,
        };
        let mut effects = Vec::new();
        self.group.sync(request, id, self.now, &mut effects);
        self.carry_out(effects);
    }

    fn synced(&mut self, client: usize, answer: SyncAnswer) {
        if answer.error != ErrorCode::None {
            return;
        }
        self.clients[client].must_sync = false;
        let Client { id, generation, instance, .. } = &self.clients[client];
        let name = instance.clone().unwrap_or_else(|| id.clone());
        let told = self.told.entry((*generation, name)).or_insert_with(|| answer.assignment.clone());
        assert_eq!(*told, answer.assignment, "one assignment in generation {generation}; SEED={}", self.seed);
        let given = self.given.get(&(self.coordinator, *generation));
        if let Some((_, given)) = given.into_iter().flatten().find(|(member, _)| member == id) {
            assert_eq!(*given, answer.assignment, "it gets what the leader gave it; SEED={}", self.seed);
        }
        let mut ever_given = self.given.values().flatten().map(|(_, given)| given);
        let from_a_leader =
            answer.assignment.is_empty() || ever_given.any(|given| *given == answer.assignment);
        assert!(from_a_leader, "{:?} comes from a leader; SEED={}", answer.assignment, self.seed);
    }

    fn heartbeat(&mut self, client: usize) {
        if self.random.one_in(8) {
            return;
        }
        let Client { id, generation, instance, .. } = &self.clients[client];
        let answer = self.group.heartbeat(id, *generation, instance.as_deref(), self.now);
        match answer {
            ErrorCode::None => {}
            ErrorCode::UnknownMemberId | ErrorCode::FencedInstanceId => {
                let instance = instance.clone();
                self.clients[client] = Client { instance, ..Client::default() };
            }
            _ if self.clients[client].waits_for.is_none() => self.join(client),
            _ => {}
        }
    }

    fn leave(&mut self, client: usize) {
        let Client { id, instance, .. } = self.clients[client].clone();
        let mut effects = Vec::new();
        let leaving = Leaving { member_id: id, instance_id: instance.clone() };
        self.group.leave(&[leaving], self.now, &mut effects);
        self.clients[client] = Client { instance, ..Client::default() };
        self.carry_out(effects);
    }

    fn partition(&mut self) -> TopicPartition {
        let partition = self.random.below(PARTITIONS as usize) as i32;
        TopicPartition::new(TopicName::new("t").unwrap(), partition)
    }

    fn commit(&mut self, client: usize) {
        let partition = self.partition();
        let Client { id, generation, instance, .. } = self.clients[client].clone();
        let alone = self.random.one_in(4);
        let committer = Committer {
            generation: if alone { -1 } else { generation },
            member_id: if alone { "" } else { &id },
            instance_id: instance.as_deref().filter(|_| !alone),
        };
        if self.group.check_commit(committer, self.now).is_err() {
            return;
        }
        self.next += 1;
        let committed = CommittedOffset {
            offset: Offset(self.next as i64),
            leader_epoch: None,
            metadata: String::new(),
            committed_at: self.now.wall,
            expires_at: None,
        };
        self.positions.insert(committed.offset.0, self.log.len());
        self.group.offsets.begin(&partition);
        let key = offset_key("g", &partition).unwrap();
        let value = offset_value(&committed, VERSIONS).unwrap();
        self.append(&key, &value, Waiting::Commit(partition, committed));
    }

    fn append(&mut self, key: &[u8], value: &[u8], waiting: Waiting) {
        let mut builder = BatchBuilder::new().with_base_offset(Offset(self.log.len() as i64));
        builder.append(self.now.wall, Some(key), Some(value), &[]);
        self.log.push(Record { batch: builder.finish(), waiting: Some(waiting) });
    }

    fn carry_out(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::AnswerJoin { request, answer } => {
                    if let Some(client) = self.answered(request) {
                        self.joined(client, answer);
                    }
                }
                Effect::AnswerSync { request, answer } => {
                    if let Some(client) = self.answered(request) {
                        self.synced(client, answer);
                    }
                }
                Effect::Store { number, record } => {
                    let key = group_key("g").unwrap();
                    let value = group_value(&record, VERSIONS).unwrap();
                    self.append(&key, &value, Waiting::Stored(number));
                }
            }
        }
    }

    /// The client that the answer is for, if it still waits for it.
    fn answered(&mut self, request: RequestId) -> Option<usize> {
        let client = self.requests.remove(&request);
        let client = client.unwrap_or_else(|| panic!("{request:?} is answered twice; SEED={}", self.seed));
        let waits = &mut self.clients[client].waits_for;
        (*waits == Some(request)).then(|| {
            *waits = None;
            client
        })
    }

    /// The next record that is not committed yet gets so.
    fn replicate(&mut self) {
        let position = self.committed;
        let Some(record) = self.log.get_mut(position) else { return };
        self.committed += 1;
        let mut effects = Vec::new();
        match record.waiting.take() {
            Some(Waiting::Stored(number)) => self.group.stored(number, Ok(()), self.now, &mut effects),
            Some(Waiting::Commit(partition, committed)) => {
                self.group.offsets.finish(partition.clone(), Offset(position as i64), committed);
                self.acknowledged.insert(partition, position);
            }
            None => {}
        }
        self.carry_out(effects);
    }

    /// A record takes too long, and whoever waits gives up; it stays in the log and may come to be committed all the same.
    fn fail(&mut self) {
        let waiting = self.log[self.committed..].iter_mut().find_map(|record| record.waiting.take());
        let mut effects = Vec::new();
        match waiting {
            Some(Waiting::Stored(number)) => {
                let outcome = Err(ErrorCode::CoordinatorNotAvailable);
                self.group.stored(number, outcome, self.now, &mut effects);
            }
            Some(Waiting::Commit(partition, _)) => self.group.offsets.fail(&partition),
            None => {}
        }
        self.carry_out(effects);
    }

    fn pass(&mut self, ms: i64) {
        self.now = Now { wall: Timestamp(self.now.wall.0 + ms), steady: self.now.after(ms) };
        let mut effects = Vec::new();
        if self.group.next_deadline().is_some_and(|deadline| self.now.is_past(deadline)) {
            self.group.tick(self.now, &mut effects);
        }
        self.carry_out(effects);
    }

    /// Another broker takes over. It has all that is committed, and as much of the rest as it happens to have.
    fn fail_over(&mut self) {
        let mut effects = Vec::new();
        self.group.end(ErrorCode::NotCoordinator, self.now, &mut effects);
        self.carry_out(effects);
        let uncommitted = self.log.len() - self.committed;
        let kept = self.committed + self.random.below(uncommitted + 1);
        self.log.truncate(kept);
        self.committed = kept;
        self.coordinator += 1;
        let mut replay = Replay::new(CONFIG);
        for record in &self.log {
            replay.batch(&Batch::parse(&record.batch).unwrap().unwrap()).unwrap();
        }
        let (groups, _) = replay.finish(self.now);
        let loaded = groups.into_iter().next();
        self.group = loaded.unwrap_or_else(|| Group::new("g", CONFIG, self.now));
    }

    fn check(&self) {
        for (partition, acknowledged) in &self.acknowledged {
            let seen = self.group.offsets.get(partition).map(|committed| self.positions[&committed.offset.0]);
            assert!(seen >= Some(*acknowledged), "{partition} is at {seen:?}; SEED={}", self.seed);
        }
        if self.requests.is_empty() {
            return;
        }
        let stores = self.log[self.committed..].iter().any(|record| record.waiting.is_some());
        let woken = self.group.next_deadline().is_some() || stores;
        assert!(woken, "somebody waits and nothing will happen; SEED={}", self.seed);
    }

    /// However it stands, in the end nobody waits.
    fn settle(&mut self) {
        for _ in 0..200 {
            self.pass(10_000);
            self.replicate();
        }
        assert_eq!(self.requests, HashMap::new(), "these wait for ever; SEED={}", self.seed);
    }
}

#[test]
fn whatever_happens_groups_have_one_leader_and_lose_no_offset() {
    let only = std::env::var("SEED").ok().map(|seed| seed.parse().expect("SEED is a number"));
    let seeds = only.map_or(0..SCHEDULES, |seed: u64| seed..seed + 1);
    let (mut generations, mut assignments, mut coordinators) = (0, 0, 0);
    for seed in seeds {
        let mut world = World::new(seed);
        for _ in 0..STEPS {
            world.step();
        }
        world.settle();
        generations += world.leaders.len();
        assignments += world.told.len();
        coordinators += world.coordinator;
    }
    if only.is_none() {
        let seen = (generations, assignments, coordinators);
        assert!(
            generations > 3_000 && assignments > 3_000 && coordinators > 1_000,
            "too little happens: {seen:?}"
        );
    }
}
