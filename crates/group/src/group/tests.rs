use super::*;

const NOW: Now = Now { wall: Timestamp(1_700_000_000_000), steady: Moment(1_000_000) };

const SESSION_MS: i32 = 10_000;
const REBALANCE_MS: i32 = 30_000;

const CONFIG: GroupConfig = GroupConfig {
    session_timeout_ms_min: 6_000,
    session_timeout_ms_max: 1_800_000,
    initial_rebalance_delay_ms: 3_000,
    size_max: usize::MAX,
};

/// A group and everything it has answered.
struct Story {
    group: Group,
    now: Now,
    joins: BTreeMap<u64, JoinAnswer>,
    syncs: BTreeMap<u64, SyncAnswer>,
    stores: Vec<(u64, StoredGroup)>,
    next: u64,
}

impl Story {
    fn new(config: GroupConfig) -> Story {
        let group = Group::new("g", config, NOW);
        Story { group, now: NOW, joins: BTreeMap::new(), syncs: BTreeMap::new(), stores: Vec::new(), next: 0 }
    }

    fn take_in(&mut self, effects: Vec<Effect>) {
        for effect in effects {
            match effect {
                Effect::AnswerJoin { request, answer } => {
                    assert!(self.joins.insert(request.0, answer).is_none(), "one answer for each request");
                }
                Effect::AnswerSync { request, answer } => {
                    assert!(self.syncs.insert(request.0, answer).is_none(), "one answer for each request");
                }
                Effect::Store { number, record } => self.stores.push((number, record)),
            }
        }
    }

    fn request(&mut self) -> RequestId {
        self.next += 1;
        RequestId(self.next)
    }

    fn join_with(&mut self, request: JoinRequest) -> u64 {
        let id = self.request();
        let mut effects = Vec::new();
        self.group.join(request, id, self.now, &mut effects);
        self.take_in(effects);
        id.0
    }

    fn join(&mut self, member_id: &str) -> u64 {
        self.join_with(join_request(member_id))
    }

    /// A dynamic member of an old client, whose id is `name`.
    fn join_new(&mut self, name: &str) -> u64 {
        self.join_with(JoinRequest { new_member_id: name.to_owned(), ..join_request("") })
    }

    fn sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &str)]) -> u64 {
        let id = self.request();
        let given =
            |(member, bytes): &(&str, &str)| (member.to_string(), Bytes::copy_from_slice(bytes.as_bytes()));
        let request = SyncRequest {
            member_id: member_id.to_owned(),
            generation,
            instance_id: None,
            protocol_type: None,
            protocol: None,
            assignments: assignments.iter().map(given).collect(),
        };
        let mut effects = Vec::new();
        self.group.sync(request, id, self.now, &mut effects);
        self.take_in(effects);
        id.0
    }

    fn heartbeat(&mut self, member_id: &str) -> ErrorCode {
        let generation = self.group.generation();
        self.group.heartbeat(member_id, generation, None, self.now)
    }

    fn leave(&mut self, member_id: &str) -> ErrorCode {
        let leaving = Leaving { member_id: member_id.to_owned(), instance_id: None };
        let mut effects = Vec::new();
        let answers = self.group.leave(&[leaving], self.now, &mut effects);
        self.take_in(effects);
        answers[0]
    }

    fn pass(&mut self, ms: i64) {
        self.now = Now { wall: Timestamp(self.now.wall.0 + ms), steady: self.now.after(ms) };
        let mut effects = Vec::new();
        self.group.tick(self.now, &mut effects);
        self.take_in(effects);
    }

    fn store_succeeds(&mut self) {
        self.store_ends(Ok(()));
    }

    fn store_ends(&mut self, outcome: Result<(), ErrorCode>) {
        let (number, _) = self.stores.pop().expect("something is to be stored");
        let mut effects = Vec::new();
        self.group.stored(number, outcome, self.now, &mut effects);
        self.take_in(effects);
    }

    /// `ann` leads, `bob` follows, both have their assignments.
    fn stable() -> Story {
        let mut story = Story::new(CONFIG);
        let (ann, bob) = (story.join_new("ann"), story.join_new("bob"));
        story.pass(3_000);
        story.pass(3_000);
        assert_eq!(story.joins[&ann].leader, "ann");
        assert_eq!(story.joins[&ann].members.len(), 2);
        assert!(story.joins[&bob].members.is_empty(), "only the leader sees the others");
        story.sync("bob", 1, &[]);
        story.sync("ann", 1, &[("ann", "p0"), ("bob", "p1")]);
        story.store_succeeds();
        assert_eq!(story.group.state(), State::Stable);
        story
    }
}

fn join_request(member_id: &str) -> JoinRequest {
    JoinRequest {
        member_id: member_id.to_owned(),
        new_member_id: "fresh".to_owned(),
        instance_id: None,
        client_id: "c".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout_ms: SESSION_MS,
        rebalance_timeout_ms: REBALANCE_MS,
        protocol_type: "consumer".to_owned(),
        protocols: vec![("range".to_owned(), Bytes::from_static(b"topics"))],
        requires_known_member_id: false,
        can_skip_assignment: false,
    }
}

#[test]
fn the_first_rebalance_waits_for_latecomers_and_everyone_gets_one_generation() {
    let mut story = Story::new(CONFIG);
    let requests: Vec<u64> = (0..200).map(|member| story.join_new(&format!("m{member:03}"))).collect();
    assert!(story.joins.is_empty(), "the delay is not over");
    story.pass(3_000);
    assert!(story.joins.is_empty(), "members came during the delay, so it is prolonged once");
    story.pass(3_000);
    let generations: BTreeSet<i32> = requests.iter().map(|request| story.joins[request].generation).collect();
    assert_eq!(generations, [1].into());
}

#[test]
fn the_initial_delay_ends_with_the_rebalance_timeout() {
    let mut story = Story::new(CONFIG);
    story.join_new("first");
    for member in 0..9 {
        story.join_new(&format!("m{member}"));
        story.pass(3_000);
    }
    story.join_new("late");
    story.pass(2_999);
    assert!(story.joins.is_empty());
    story.pass(1);
    assert_eq!(
        story.group.state(),
        State::CompletingRebalance,
        "30 s is the longest that a member would wait"
    );
}

#[test]
fn nobody_hears_of_an_assignment_that_is_not_stored() {
    let mut story = Story::new(CONFIG);
    story.join_new("ann");
    story.pass(3_000);
    let sync = story.sync("ann", 1, &[("ann", "p0")]);
    assert!(!story.syncs.contains_key(&sync));
    story.store_succeeds();
    assert_eq!(story.syncs[&sync].assignment, "p0");
}

#[test]
fn a_store_that_fails_begins_another_rebalance() {
    let mut story = Story::new(CONFIG);
    story.join_new("ann");
    story.pass(3_000);
    let sync = story.sync("ann", 1, &[("ann", "p0")]);
    story.store_ends(Err(ErrorCode::NotCoordinator));
    assert_eq!(story.syncs[&sync].error, ErrorCode::NotCoordinator);
    assert_eq!(story.group.state(), State::PreparingRebalance);
}

#[test]
fn members_left_out_get_nothing_and_strangers_are_passed_over() {
    let mut story = Story::new(CONFIG);
    story.join_new("ann");
    story.join_new("bob");
    story.pass(3_000);
    story.pass(3_000);
    let bob = story.sync("bob", 1, &[("bob", "mine")]);
    story.sync("ann", 1, &[("ann", "p0"), ("stranger", "p1")]);
    let (_, record) = story.stores.last().unwrap().clone();
    assert_eq!(record.members.len(), 2);
    story.store_succeeds();
    assert_eq!((story.syncs[&bob].error, &story.syncs[&bob].assignment[..]), (ErrorCode::None, &b""[..]));
}

#[test]
fn a_newcomer_makes_everyone_join_again() {
    let mut story = Story::stable();
    let carl = story.join_new("carl");
    assert_eq!(story.heartbeat("ann"), ErrorCode::RebalanceInProgress);
    story.join("ann");
    assert!(!story.joins.contains_key(&carl), "bob has not joined yet");
    let bob = story.join("bob");
    assert_eq!(story.joins[&carl].generation, 2);
    assert_eq!(story.joins[&bob].leader, "ann", "the leader stays");
}

#[test]
fn whoever_does_not_join_again_is_left_behind() {
    let mut story = Story::stable();
    story.join_new("carl");
    let ann = story.join("ann");
    for _ in 0..4 {
        story.pass(8_000);
        story.heartbeat("bob");
    }
    assert_eq!(story.joins[&ann].generation, 2, "the rebalance timeout is over");
    assert_eq!(story.joins[&ann].members.len(), 2);
    assert_eq!(story.heartbeat("bob"), ErrorCode::UnknownMemberId);
}

#[test]
fn silent_members_are_given_up_and_a_leader_is_succeeded() {
    let mut story = Story::stable();
    story.pass(6_000);
    assert_eq!(story.heartbeat("bob"), ErrorCode::None);
    story.pass(6_000);
    assert_eq!(story.group.state(), State::PreparingRebalance, "ann is gone");
    let bob = story.join("bob");
    assert_eq!((story.joins[&bob].generation, story.joins[&bob].leader.as_str()), (2, "bob"));
}

#[test]
fn the_next_deadline_is_when_something_happens() {
    let mut story = Story::stable();
    let deadline = story.group.next_deadline().unwrap();
    assert_eq!(deadline, story.now.after(i64::from(SESSION_MS)));
    story.pass(deadline.0 - story.now.steady.0 - 1);
    assert_eq!(story.group.state(), State::Stable);
    story.pass(1);
    assert_ne!(story.group.state(), State::Stable);
}

#[test]
fn a_group_that_everyone_leaves_is_empty_and_stored_so() {
    let mut story = Story::stable();
    assert_eq!(story.leave("ann"), ErrorCode::None);
    assert_eq!(story.leave("bob"), ErrorCode::None);
    assert_eq!(story.group.state(), State::Empty);
    let (_, record) = story.stores.last().unwrap();
    assert_eq!((record.generation, record.protocol.as_ref(), record.members.len()), (2, None, 0));
    assert_eq!(story.leave("ann"), ErrorCode::UnknownMemberId);
}

#[test]
fn dynamic_members_of_new_clients_get_their_id_first() {
    let mut story = Story::new(CONFIG);
    let newcomer = JoinRequest { requires_known_member_id: true, ..join_request("") };
    let first = story.join_with(newcomer.clone());
    assert_eq!(story.joins[&first].error, ErrorCode::MemberIdRequired);
    let second = story.join_with(JoinRequest { member_id: "fresh".to_owned(), ..newcomer });
    story.pass(3_000);
    assert_eq!((story.joins[&second].error, story.joins[&second].generation), (ErrorCode::None, 1));
}

#[test]
fn an_id_that_was_given_out_is_waited_for_but_not_for_ever() {
    let mut story = Story::stable();
    let newcomer = JoinRequest { requires_known_member_id: true, ..join_request("") };
    story.join_with(newcomer);
    story.join_new("carl");
    story.join("ann");
    let bob = story.join("bob");
    assert!(!story.joins.contains_key(&bob), "an id is out that has not joined");
    story.pass(i64::from(SESSION_MS));
    assert_eq!(story.joins[&bob].generation, 2);
}

#[test]
fn requests_out_of_step_are_refused() {
    for (why, member, generation, instance, state, answer) in [
        ("in step", "bob", 1, None, State::Stable, ErrorCode::None),
        ("a stranger", "eve", 1, None, State::Stable, ErrorCode::UnknownMemberId),
        ("left behind", "bob", 0, None, State::Stable, ErrorCode::IllegalGeneration),
        ("an unknown instance", "bob", 1, Some("i"), State::Stable, ErrorCode::UnknownMemberId),
        ("during a rebalance", "bob", 1, None, State::PreparingRebalance, ErrorCode::RebalanceInProgress),
    ] {
        let mut story = Story::stable();
        if state == State::PreparingRebalance {
            story.join_new("carl");
        }
        let heartbeat = story.group.heartbeat(member, generation, instance, story.now);
        assert_eq!(heartbeat, answer, "heartbeat: {why}");
    }
}

#[test]
fn commits_follow_the_rules_of_each_state() {
    let outsider = Committer { generation: -1, member_id: "", instance_id: None };
    let bob = Committer { generation: 1, member_id: "bob", instance_id: None };
    let mut empty = Story::new(CONFIG);
    assert_eq!(empty.group.check_commit(outsider, NOW), Ok(()), "a consumer that assigns itself");
    let mut story = Story::stable();
    for (why, committer, answer) in [
        ("a member", bob, Ok(())),
        ("an outsider, while there are members", outsider, Err(ErrorCode::UnknownMemberId)),
        ("an old generation", Committer { generation: 0, ..bob }, Err(ErrorCode::IllegalGeneration)),
        ("a stranger", Committer { member_id: "eve", ..bob }, Err(ErrorCode::UnknownMemberId)),
    ] {
        assert_eq!(story.group.check_commit(committer, NOW), answer, "{why}");
    }
    story.join_new("carl");
    assert_eq!(story.group.check_commit(bob, NOW), Ok(()), "before it joins again it may commit what it did");
    story.join("ann");
    story.join("bob");
    let bob = Committer { generation: 2, ..bob };
    assert_eq!(
        story.group.check_commit(bob, NOW),
        Err(ErrorCode::RebalanceInProgress),
        "it owns nothing yet"
    );
}

fn static_request(instance: &str, fresh: &str) -> JoinRequest {
    JoinRequest {
        instance_id: Some(instance.to_owned()),
        new_member_id: fresh.to_owned(),
        requires_known_member_id: true,
        ..join_request("")
    }
}

/// Static members `x` (leader) and `y`.
fn static_group() -> Story {
    let mut story = Story::new(CONFIG);
    story.join_with(static_request("x", "x1"));
    story.join_with(static_request("y", "y1"));
    story.pass(3_000);
    story.pass(3_000);
    story.sync("y1", 1, &[]);
    story.sync("x1", 1, &[("x1", "p0"), ("y1", "p1")]);
    story.store_succeeds();
    story
}

#[test]
fn a_static_member_that_returns_keeps_its_assignment_without_a_rebalance() {
    let mut story = static_group();
    let back = story.join_with(static_request("y", "y2"));
    story.store_succeeds();
    assert_eq!(story.group.state(), State::Stable);
    assert_eq!((story.joins[&back].generation, story.joins[&back].leader.as_str()), (1, "x1"));
    let sync = story.sync("y2", 1, &[]);
    assert_eq!(story.syncs[&sync].assignment, "p1");
    assert_eq!(story.group.heartbeat("y1", 1, Some("y"), story.now), ErrorCode::FencedInstanceId);
}

#[test]
fn a_static_leader_that_returns_is_kept_from_assigning_anew() {
    for (why, can_skip, leader, skip) in [
        ("an old client is told that somebody else leads", false, "x1", false),
        ("a new client is told to skip the assignment", true, "x2", true),
    ] {
        let mut story = static_group();
        let request = JoinRequest { can_skip_assignment: can_skip, ..static_request("x", "x2") };
        let back = story.join_with(request);
        story.store_succeeds();
        let answer = &story.joins[&back];
        assert_eq!((answer.leader.as_str(), answer.skip_assignment), (leader, skip), "{why}");
        assert_eq!(answer.members.is_empty(), !can_skip, "{why}");
    }
}

#[test]
fn a_static_member_is_waited_for_until_its_session_ends() {
    let mut story = static_group();
    story.pass(6_000);
    story.heartbeat("x1");
    story.pass(4_000);
    assert_eq!(story.group.state(), State::PreparingRebalance, "y's session is over");
}

#[test]
fn protocols_are_chosen_by_vote_among_those_that_all_can_do() {
    let mut story = Story::new(CONFIG);
    let protocols = |names: &[&str]| -> Vec<(String, Bytes)> {
        names.iter().map(|name| (name.to_string(), Bytes::new())).collect()
    };
    for (name, likes) in
        [("a", &["sticky", "range", "rr"][..]), ("b", &["rr", "range"]), ("c", &["rr", "range"])]
    {
        story.join_with(JoinRequest {
            new_member_id: name.to_owned(),
            protocols: protocols(likes),
            ..join_request("")
        });
    }
    let odd = story.join_with(JoinRequest { protocols: protocols(&["sticky"]), ..join_request("") });
    assert_eq!(story.joins[&odd].error, ErrorCode::InconsistentGroupProtocol);
    story.pass(3_000);
    story.pass(3_000);
    assert_eq!(story.group.protocol(), Some("rr"));
}

#[test]
fn a_full_group_takes_nobody_else() {
    let mut story = Story::new(GroupConfig { size_max: 1, ..CONFIG });
    story.join_new("ann");
    let bob = story.join_new("bob");
    assert_eq!(story.joins[&bob].error, ErrorCode::GroupMaxSizeReached);
}

#[test]
fn session_timeouts_have_bounds() {
    let mut story = Story::new(CONFIG);
    for session_timeout_ms in [5_999, 1_800_001, -1] {
        let request = story.join_with(JoinRequest { session_timeout_ms, ..join_request("") });
        assert_eq!(story.joins[&request].error, ErrorCode::InvalidSessionTimeout);
    }
}

#[test]
fn a_coordinator_that_takes_over_finds_the_group_as_it_was() {
    let mut story = Story::new(CONFIG);
    story.join_new("ann");
    story.pass(3_000);
    story.sync("ann", 1, &[("ann", "p0")]);
    let (_, record) = story.stores.last().unwrap().clone();
    let mut loaded = Group::load("g", CONFIG, record, NOW);
    assert_eq!((loaded.state(), loaded.leader(), loaded.generation()), (State::Stable, Some("ann"), 1));
    assert_eq!(loaded.heartbeat("ann", 1, None, NOW), ErrorCode::None);
    assert_eq!(loaded.members().next().unwrap().assignment, "p0");
}

#[test]
fn whoever_waits_when_the_group_is_handed_over_is_told() {
    let mut story = Story::new(CONFIG);
    let ann = story.join_new("ann");
    let mut effects = Vec::new();
    story.group.end(ErrorCode::NotCoordinator, NOW, &mut effects);
    story.take_in(effects);
    assert_eq!(story.joins[&ann].error, ErrorCode::NotCoordinator);
    assert_eq!(story.group.next_deadline(), None);
    let (join, sync) = (story.join_new("bob"), story.sync("ann", 1, &[]));
    for late in [story.joins[&join].error, story.syncs[&sync].error, story.heartbeat("ann")] {
        assert_eq!(late, ErrorCode::CoordinatorNotAvailable, "whoever comes after that looks for another");
    }
}

#[test]
fn a_static_leader_that_stays_away_is_succeeded_by_one_that_came() {
    let mut story = static_group();
    story.join_new("carl");
    let y = story.join("y1");
    for _ in 0..6 {
        story.pass(5_000);
        story.group.heartbeat("x1", 1, Some("x"), story.now);
    }
    assert_eq!((story.joins[&y].generation, story.joins[&y].leader.as_str()), (2, "y1"));
    assert_eq!(story.joins[&y].members.len(), 3, "x is still waited for, and gets its share");
}

#[test]
fn static_members_that_all_stay_away_get_another_round() {
    let mut story = static_group();
    let back = story.join("x1");
    assert!(!story.joins.contains_key(&back), "the leader wants to share anew");
    let mut effects = Vec::new();
    story.group.leave(
        &[Leaving { member_id: "x1".to_owned(), instance_id: Some("x".to_owned()) }],
        story.now,
        &mut effects,
    );
    story.take_in(effects);
    for _ in 0..7 {
        story.pass(5_000);
        story.group.heartbeat("y1", 1, Some("y"), story.now);
    }
    assert_eq!(story.group.state(), State::PreparingRebalance);
    let y = story.join("y1");
    assert_eq!(story.joins[&y].generation, 2);
}

#[test]
fn members_that_never_ask_for_their_assignment_are_given_up() {
    let mut story = Story::new(CONFIG);
    story.join_new("ann");
    story.join_new("bob");
    story.pass(3_000);
    story.pass(3_000);
    story.sync("ann", 1, &[("ann", "p0"), ("bob", "p1")]);
    story.store_succeeds();
    for _ in 0..5 {
        story.pass(6_000);
        story.heartbeat("ann");
        story.heartbeat("bob");
    }
    assert_eq!(story.group.state(), State::PreparingRebalance, "bob beats and does nothing else");
    assert_eq!(story.heartbeat("bob"), ErrorCode::UnknownMemberId);
    assert_eq!(story.heartbeat("ann"), ErrorCode::RebalanceInProgress);
}

/// A subscription of version 1 to one topic, with what a sticky assignor remembers behind it.
fn subscription(topic: &str, remembered: &str) -> Bytes {
    let mut bytes = vec![0, 1, 0, 0, 0, 1, 0, topic.len() as u8];
    bytes.extend(topic.bytes());
    bytes.extend([0, 0, 0, remembered.len() as u8]);
    bytes.extend(remembered.bytes());
    bytes.into()
}

#[test]
fn a_static_member_that_wants_other_topics_makes_everyone_share_anew() {
    for (why, subscription_after, state) in [
        ("only what its assignor remembers is different", subscription("a", ""), State::Stable),
        (
            "another topic: alone, it has joined anew at once",
            subscription("b", "p1"),
            State::CompletingRebalance,
        ),
    ] {
        let mut story = Story::new(CONFIG);
        let request = |fresh: &str, metadata: Bytes| JoinRequest {
            protocols: vec![("sticky".to_owned(), metadata)],
            ..static_request("y", fresh)
        };
        story.join_with(request("y1", subscription("a", "p1")));
        story.pass(3_000);
        story.sync("y1", 1, &[("y1", "p1")]);
        story.store_succeeds();
        story.join_with(request("y2", subscription_after));
        assert_eq!(story.group.state(), state, "{why}");
    }
}

#[test]
fn a_static_member_keeps_its_old_id_if_the_new_one_is_not_stored() {
    let mut story = static_group();
    let back = story.join_with(static_request("x", "x2"));
    story.store_ends(Err(ErrorCode::CoordinatorNotAvailable));
    assert_eq!(story.joins[&back].error, ErrorCode::CoordinatorNotAvailable);
    assert_eq!(story.group.heartbeat("x1", 1, Some("x"), story.now), ErrorCode::None);
    assert_eq!(story.group.leader(), Some("x1"));
    assert_eq!(story.heartbeat("x2"), ErrorCode::UnknownMemberId);
}

#[test]
fn a_group_that_became_too_large_shares_anew_when_it_is_loaded() {
    let mut story = Story::stable();
    story.join_new("carl");
    story.join("ann");
    story.join("bob");
    story.sync("ann", 2, &[]);
    let (_, record) = story.stores.pop().unwrap();
    let config = GroupConfig { size_max: 2, ..CONFIG };
    let mut story = Story { group: Group::load("g", config, record, NOW), ..Story::new(config) };
    assert_eq!(story.group.state(), State::PreparingRebalance);
    story.join("bob");
    story.join("carl");
    let late = story.join("ann");
    assert_eq!(story.joins[&late].error, ErrorCode::GroupMaxSizeReached);
    assert_eq!((story.group.state(), story.group.members().count()), (State::CompletingRebalance, 2));
}

#[test]
fn the_first_of_two_joins_of_one_member_is_told_to_join_again() {
    let mut story = Story::stable();
    story.join_new("carl");
    let first = story.join("ann");
    let second = story.join("ann");
    assert_eq!(story.joins[&first].error, ErrorCode::RebalanceInProgress);
    story.join("bob");
    assert_eq!(story.joins[&second].error, ErrorCode::None);
}

const DAY_MS: i64 = 86_400_000;

fn partition(topic: &str) -> TopicPartition {
    TopicPartition::new(ottla_model::TopicName::new(topic).unwrap(), 0)
}

/// Offsets of topics `a` and `b`, committed when the story began.
fn with_offsets(mut story: Story, expires_at: Option<Timestamp>) -> Story {
    for (position, topic) in (0..).zip(["a", "b"]) {
        let committed = crate::CommittedOffset {
            offset: ottla_model::Offset(7),
            leader_epoch: None,
            metadata: String::new(),
            committed_at: NOW.wall,
            expires_at,
        };
        story.group.offsets.load(partition(topic), ottla_model::Offset(position), committed);
    }
    story
}

/// `ann` reads topic `a`, all the time.
fn reading_a(protocol_type: &str) -> Story {
    let mut story = Story::new(CONFIG);
    story.join_with(JoinRequest {
        new_member_id: "ann".to_owned(),
        protocol_type: protocol_type.to_owned(),
        protocols: vec![("range".to_owned(), subscription("a", ""))],
        session_timeout_ms: 1_800_000,
        ..join_request("")
    });
    story.pass(3_000);
    story.sync("ann", 1, &[]);
    story.store_succeeds();
    story
}

fn left_by_everyone(mut story: Story, after_ms: i64) -> Story {
    story.now = Now { wall: Timestamp(NOW.wall.0 + after_ms), ..story.now };
    story.leave("ann");
    story
}

#[test]
fn offsets_expire_when_nobody_can_want_them_any_more() {
    let old = NOW.wall.0 + 7 * DAY_MS;
    for (why, story, expires_at, at, expired) in [
        ("never had members, committed a week ago", Story::new(CONFIG), None, old, vec!["a", "b"]),
        ("never had members, committed not quite a week ago", Story::new(CONFIG), None, old - 1, vec![]),
        ("a member reads one of the topics", reading_a("consumer"), None, old, vec!["b"]),
        ("members that are no consumers may read anything", reading_a("connect"), None, old, vec![]),
        ("empty for a week", left_by_everyone(reading_a("consumer"), 0), None, old, vec!["a", "b"]),
        ("empty for an hour only", left_by_everyone(reading_a("consumer"), 6 * DAY_MS), None, old, vec![]),
        ("a time of its own", Story::new(CONFIG), Some(Timestamp(5)), 5, vec!["a", "b"]),
        ("a time of its own, not yet come", Story::new(CONFIG), Some(Timestamp(i64::MAX)), old, vec![]),
    ] {
        let story = with_offsets(story, expires_at);
        let now = Now { wall: Timestamp(at), ..story.now };
        let over = story.group.expired_offsets(now, 7 * DAY_MS);
        let expected: Vec<TopicPartition> = expired.into_iter().map(partition).collect();
        assert_eq!(over, expected, "{why}");
    }
}

#[test]
fn groups_and_offsets_in_use_are_not_deleted() {
    let mut dead = Story::new(CONFIG);
    dead.group.end(ErrorCode::CoordinatorNotAvailable, NOW, &mut Vec::new());
    for (why, story, group, offsets, reads_a) in [
        ("nobody is in it", Story::new(CONFIG), Ok(()), Ok(()), false),
        ("it is gone", dead, Err(ErrorCode::GroupIdNotFound), Err(ErrorCode::GroupIdNotFound), false),
        ("consumers read a", reading_a("consumer"), Err(ErrorCode::NonEmptyGroup), Ok(()), true),
        (
            "others read who knows what",
            reading_a("connect"),
            Err(ErrorCode::NonEmptyGroup),
            Err(ErrorCode::NonEmptyGroup),
            true,
        ),
        ("everyone has left", left_by_everyone(reading_a("consumer"), 0), Ok(()), Ok(()), false),
    ] {
        assert_eq!(story.group.check_delete(), group, "{why}");
        assert_eq!(story.group.check_delete_offsets(), offsets, "{why}");
        assert_eq!(story.group.is_subscribed_to("a"), reads_a, "{why}");
    }
    assert!(!reading_a("consumer").group.is_subscribed_to("b"));
}

#[test]
fn a_group_is_forgotten_when_nothing_is_left_of_it() {
    let mut story = Story::new(CONFIG);
    assert!(story.group.is_forgotten());
    story.join_with(JoinRequest { requires_known_member_id: true, ..join_request("") });
    assert!(!story.group.is_forgotten(), "an id was given out");
    story.pass(i64::from(SESSION_MS));
    assert!(story.group.is_forgotten());
    assert!(!with_offsets(story, None).group.is_forgotten());
}
