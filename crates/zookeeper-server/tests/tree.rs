//! The core, driven through its public verbs.

use std::net::{IpAddr, Ipv4Addr};

use ottla_zookeeper_server::SessionTimeouts;
use ottla_zookeeper_server::protocol::{
    Acl, AddWatchMode, ConnectRequest, Create, ErrorCode, EventType, Id, Lifetime, OpResult, ReadOp, Request,
    Response, Sequential, SessionId, SetWatches, Stat, WatcherType, WriteOp, Xid, Zxid, perms,
};
use ottla_zookeeper_server::tree::{Attach, CloseReason, Effect, Now, Tree, TxnBody};

use ErrorCode::*;

const TIMEOUTS: SessionTimeouts = SessionTimeouts { min_ms: 1000, max_ms: 10_000 };
const PASSWORD: [u8; 16] = [7; 16];

/// A tree with a clock that the test sets.
struct World {
    tree: Tree,
    now_ms: u64,
}

/// What one request led to, in order.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Saw {
    Event(SessionId, EventType, String),
    Reply(SessionId, Result<Response, ErrorCode>),
    Closed(SessionId, CloseReason),
}

impl World {
    fn new() -> World {
        let mut world = World { tree: Tree::new(TIMEOUTS), now_ms: 0 };
        world.tree.start(world.now(), &mut Vec::new());
        world
    }

    fn now(&self) -> Now {
        Now { elapsed_ms: self.now_ms, wall_ms: 1_700_000_000_000 + self.now_ms as i64 }
    }

    fn attach(&mut self, request: &ConnectRequest) -> Attach {
        self.tree.attach(request, IpAddr::V4(Ipv4Addr::LOCALHOST), PASSWORD, self.now(), &mut Vec::new())
    }

    fn session(&mut self) -> SessionId {
        match self.attach(&hello()) {
            Attach::Attached { response, .. } => response.session,
            refused => panic!("{refused:?}"),
        }
    }

    fn ask(&mut self, session: SessionId, request: Request<'_>) -> Vec<Saw> {
        let mut effects = Vec::new();
        self.tree.handle(session, Xid(1), &request, self.now(), &mut effects);
        seen(effects)
    }

    fn expire(&mut self) -> Vec<Saw> {
        let mut effects = Vec::new();
        self.tree.expire(self.now(), &mut effects);
        seen(effects)
    }

    /// The answer alone.
    fn answer(&mut self, session: SessionId, request: Request<'_>) -> Result<Response, ErrorCode> {
        let answers = self.ask(session, request).into_iter().filter_map(|saw| match saw {
            Saw::Reply(_, result) => Some(result),
            _ => None,
        });
        answers.last().expect("every request is answered")
    }

    fn write(&mut self, session: SessionId, op: WriteOp<'_>) -> Result<Response, ErrorCode> {
        self.answer(session, Request::Write(op))
    }

    fn make(&mut self, session: SessionId, path: &str) {
        self.write(session, create(path)).unwrap();
    }

    fn stat(&mut self, session: SessionId, path: &str) -> Stat {
        match self.answer(session, Request::Exists { path, watch: false }) {
            Ok(Response::Stat(stat)) => stat,
            other => panic!("{path}: {other:?}"),
        }
    }
}

fn seen(effects: Vec<Effect>) -> Vec<Saw> {
    let saw = effects.into_iter().filter_map(|effect| match effect {
        Effect::Log(_) => None,
        Effect::Event { session, event } => Some(Saw::Event(session, event.kind, event.path.to_string())),
        Effect::Reply { session, reply } => Some(Saw::Reply(session, reply.result)),
        Effect::Close { session, why } => Some(Saw::Closed(session, why)),
    });
    saw.collect()
}

fn hello() -> ConnectRequest {
    ConnectRequest {
        protocol_version: 0,
        last_zxid_seen: Zxid(0),
        timeout_ms: 4000,
        session: SessionId::NONE,
        password: Vec::new(),
        read_only: Some(false),
    }
}

fn acl(perms: i32, scheme: &str, id: &str) -> Acl {
    Acl { perms, id: Id::new(scheme, id) }
}

fn create_as(path: &str, lifetime: Lifetime, sequential: Sequential) -> WriteOp<'_> {
    let mode = Some((lifetime, sequential));
    let acl = vec![acl(perms::ALL, "world", "anyone")];
    WriteOp::Create(Create { path, data: Some(b"data"), acl, mode, with_stat: false })
}

fn create(path: &str) -> WriteOp<'_> {
    create_as(path, Lifetime::Persistent, Sequential::No)
}

fn ephemeral(path: &str) -> WriteOp<'_> {
    create_as(path, Lifetime::Ephemeral, Sequential::No)
}

fn sequential(path: &str) -> WriteOp<'_> {
    create_as(path, Lifetime::Persistent, Sequential::Yes)
}

fn with_acl(path: &str, acl: Vec<Acl>) -> WriteOp<'_> {
    let mode = Some((Lifetime::Persistent, Sequential::No));
    WriteOp::Create(Create { path, data: None, acl, mode, with_stat: false })
}

fn delete(path: &str, version: i32) -> WriteOp<'_> {
    WriteOp::Delete { path, version }
}

fn set(path: &str, version: i32) -> WriteOp<'_> {
    WriteOp::SetData { path, data: Some(b"new"), version }
}

fn check(path: &str, version: i32) -> WriteOp<'_> {
    WriteOp::Check { path, version }
}

fn set_acl(path: &str, version: i32) -> WriteOp<'_> {
    WriteOp::SetAcl { path, acl: vec![acl(perms::READ, "world", "anyone")], version }
}

fn data_watch(path: &str) -> Request<'_> {
    Request::Read(ReadOp::GetData { path, watch: true })
}

fn child_watch(path: &str) -> Request<'_> {
    Request::Read(ReadOp::GetChildren { path, watch: true, with_stat: false })
}

fn exist_watch(path: &str) -> Request<'_> {
    Request::Exists { path, watch: true }
}

#[test]
fn every_write_is_done_or_refused_for_the_reason_zookeeper_gives() {
    let no_mode =
        WriteOp::Create(Create { path: "/x", data: None, acl: vec![], mode: None, with_stat: false });
    for (why, op, answer) in [
        ("a znode under another", create("/a/new"), None),
        ("a path that is taken", create("/a"), Some(NodeExists)),
        ("the root is always taken", create("/"), Some(NodeExists)),
        ("no parent", create("/none/x"), Some(NoNode)),
        ("a parent that dies with its session", create("/e/x"), Some(NoChildrenForEphemerals)),
        ("a relative path", create("a"), Some(BadArguments)),
        ("an empty path", create(""), Some(BadArguments)),
        ("a slash at the end", create("/a/"), Some(BadArguments)),
        ("a dot for a name", create("/a/.."), Some(BadArguments)),
        ("a control character", create("/a/\u{1}"), Some(BadArguments)),
        ("flags that name no mode", no_mode, Some(BadArguments)),
        ("no ACL at all", with_acl("/x", vec![]), Some(InvalidAcl)),
        ("an ACL for a scheme nobody knows", with_acl("/x", vec![acl(1, "kerberos", "x")]), Some(InvalidAcl)),
        ("a time to live", create_as("/x", Lifetime::Ttl, Sequential::No), Some(Unimplemented)),
        ("a parent that lets nobody create", create("/readable/x"), Some(NoAuth)),
        ("a slash at the end is fine when a number follows", sequential("/a/"), None),
        ("deleting at any version", delete("/a/b", -1), None),
        ("deleting at the version it has", delete("/a/b", 0), None),
        ("deleting at another version", delete("/a/b", 1), Some(BadVersion)),
        ("deleting what has children", delete("/a", -1), Some(NotEmpty)),
        ("deleting what is not there", delete("/x", -1), Some(NoNode)),
        ("deleting where there is no parent", delete("/x/y", -1), Some(NoNode)),
        ("deleting the root", delete("/", -1), Some(BadArguments)),
        ("deleting what ZooKeeper itself needs", delete("/zookeeper/quota", -1), Some(BadArguments)),
        ("setting data at any version", set("/a", -1), None),
        ("setting data at the version it has", set("/a", 0), None),
        ("setting data at another version", set("/a", 7), Some(BadVersion)),
        ("setting data of what is not there", set("/x", -1), Some(NoNode)),
        ("setting data of no path", set("x", -1), Some(BadArguments)),
        ("setting data that one may only read", set("/readable", -1), Some(NoAuth)),
        ("setting an ACL at the version it has", set_acl("/a", 0), None),
        ("setting an ACL at another version", set_acl("/a", 1), Some(BadVersion)),
        ("setting an ACL one may not administer", set_acl("/readable", -1), Some(NoAuth)),
        ("setting the ACL of what is not there", set_acl("/x", -1), Some(NoNode)),
    ] {
        let mut world = World::new();
        let ann = world.session();
        for path in ["/a", "/a/b"] {
            world.make(ann, path);
        }
        world.write(ann, ephemeral("/e")).unwrap();
        world.write(ann, with_acl("/readable", vec![acl(perms::READ, "world", "anyone")])).unwrap();
        let before = world.tree.zxid();
        let mut effects = Vec::new();
        world.tree.handle(ann, Xid(1), &Request::Write(op), world.now(), &mut effects);
        let is_logged = effects.iter().any(|effect| matches!(effect, Effect::Log(_)));
        let result = seen(effects).into_iter().find_map(|saw| match saw {
            Saw::Reply(_, result) => Some(result.err()),
            _ => None,
        });
        assert_eq!(result, Some(answer), "{why}");
        assert_eq!(is_logged, answer.is_none(), "{why}: a refusal writes nothing");
        assert_eq!(world.tree.zxid().0, before.0 + 1, "{why}: but it takes a number, as in ZooKeeper");
    }
}

#[test]
fn every_read_answers_or_says_why_not() {
    let mut world = World::new();
    let ann = world.session();
    for path in ["/a", "/a/c", "/a/b", "/a/b/d"] {
        world.make(ann, path);
    }
    world.write(ann, with_acl("/secret", vec![acl(perms::ALL, "digest", "bob:x")])).unwrap();
    world.write(ann, ephemeral("/a/e")).unwrap();
    let names = |names: &[&str]| Ok(Response::Names(names.iter().map(|name| (*name).into()).collect()));
    let children = |path| Request::Read(ReadOp::GetChildren { path, watch: false, with_stat: false });
    let data = |path| Request::Read(ReadOp::GetData { path, watch: false });
    for (why, request, answer) in [
        ("children in order", children("/a"), names(&["b", "c", "e"])),
        ("children of a leaf", children("/a/c"), names(&[])),
        ("children of nothing", children("/x"), Err(NoNode)),
        ("children one may not read", children("/secret"), Err(NoAuth)),
        ("data of nothing", data("/x"), Err(NoNode)),
        ("data one may not read", data("/secret"), Err(NoAuth)),
        ("whether there is nothing", Request::Exists { path: "/x", watch: false }, Err(NoNode)),
        (
            "whether there is what one may not read",
            Request::Exists { path: "/secret", watch: false },
            Err(NoAuth),
        ),
        ("whether there is no path", Request::Exists { path: "/\0", watch: false }, Err(BadArguments)),
        ("the ACL of nothing", Request::GetAcl { path: "/x" }, Err(NoNode)),
        ("the ACL one may neither read nor administer", Request::GetAcl { path: "/secret" }, Err(NoAuth)),
        ("all descendants", Request::GetAllChildrenNumber { path: "/a" }, Ok(Response::Number(4))),
        ("all descendants of nothing", Request::GetAllChildrenNumber { path: "/x" }, Err(NoNode)),
        ("one's ephemerals", Request::GetEphemerals { prefix: Some("/") }, names(&["/a/e"])),
        ("one's ephemerals elsewhere", Request::GetEphemerals { prefix: Some("/b") }, names(&[])),
        ("sync is in order already", Request::Sync { path: "/x" }, Ok(Response::Path("/x".into()))),
        ("who I am", Request::WhoAmI, Ok(Response::WhoAmI(vec![Id::new("ip", "127.0.0.1")]))),
        ("an ensemble cannot be made of this", Request::Reconfig, Err(ReconfigDisabled)),
        (
            "a watch that was not set",
            Request::CheckWatches { path: "/a", kind: WatcherType::Any },
            Err(NoWatcher),
        ),
    ] {
        assert_eq!(world.answer(ann, request), answer, "{why}");
    }
}

#[test]
fn a_small_request_cannot_ask_for_an_answer_without_bounds() {
    let mut world = World::new();
    let ann = world.session();
    world.make(ann, "/big");
    world.write(ann, WriteOp::SetData { path: "/big", data: Some(&[0; 1_000_000]), version: -1 }).unwrap();
    let reads = |count| Request::MultiRead(vec![ReadOp::GetData { path: "/big", watch: false }; count]);
    assert!(world.answer(ann, reads(10)).is_ok());
    assert_eq!(world.answer(ann, reads(1000)), Err(MarshallingError));
}

#[test]
fn stats_count_as_zookeeper_counts() {
    let mut world = World::new();
    let ann = world.session();
    world.make(ann, "/a");
    let made = world.tree.zxid();
    world.now_ms = 5;
    for path in ["/a/x", "/a/y"] {
        world.make(ann, path);
    }
    world.write(ann, delete("/a/x", -1)).unwrap();
    let unlinked = world.tree.zxid();
    world.write(ann, set("/a", -1)).unwrap();
    let written = world.tree.zxid();
    world
        .write(ann, WriteOp::SetAcl { path: "/a", acl: vec![acl(31, "world", "anyone")], version: -1 })
        .unwrap();
    assert_eq!(
        world.stat(ann, "/a"),
        Stat {
            czxid: made,
            mzxid: written,
            ctime: 1_700_000_000_000,
            mtime: 1_700_000_000_005,
            version: 1,
            cversion: 3,
            aversion: 1,
            ephemeral_owner: 0,
            data_length: 3,
            num_children: 1,
            pzxid: unlinked,
        }
    );
}

#[test]
fn sequence_numbers_count_creations_and_are_never_given_twice() {
    let mut world = World::new();
    let ann = world.session();
    world.make(ann, "/q");
    let next = |world: &mut World| match world.write(ann, sequential("/q/n-")) {
        Ok(Response::Path(path)) => path.to_string(),
        other => panic!("{other:?}"),
    };
    assert_eq!(next(&mut world), "/q/n-0000000000");
    world.make(ann, "/q/other");
    assert_eq!(next(&mut world), "/q/n-0000000002", "every creation counts");
    world.write(ann, delete("/q/n-0000000002", -1)).unwrap();
    assert_eq!(next(&mut world), "/q/n-0000000003", "a deletion does not");
}

#[test]
fn a_multi_sees_its_own_changes_and_is_done_whole() {
    let mut world = World::new();
    let ann = world.session();
    world.make(ann, "/epoch");
    let before = world.tree.zxid();
    let ops = vec![
        check("/epoch", 0),
        create("/a"),
        sequential("/a/n-"),
        set("/a", 0),
        check("/a", 1),
        delete("/a/n-0000000000", 0),
        delete("/a", 1),
        ephemeral("/a"),
    ];
    let Ok(Response::Multi(results)) = world.answer(ann, Request::Multi(ops)) else {
        panic!("a multi is answered")
    };
    let kinds: Vec<_> = results
        .iter()
        .map(|result| match result {
            OpResult::Created { path, .. } => path.to_string(),
            OpResult::Deleted => "deleted".to_owned(),
            OpResult::SetData(stat) => format!("version {}", stat.version),
            OpResult::Checked => "checked".to_owned(),
            other => panic!("{other:?}"),
        })
        .collect();
    let expected = ["checked", "/a", "/a/n-0000000000", "version 1", "checked", "deleted", "deleted", "/a"];
    assert_eq!(kinds, expected);
    assert_eq!(world.tree.zxid().0, before.0 + 1, "all under one number");
    assert_eq!(world.stat(ann, "/a").ephemeral_owner, ann.0);
}

#[test]
fn a_failed_multi_names_each_outcome_and_changes_nothing() {
    let mut world = World::new();
    let ann = world.session();
    world.make(ann, "/a");
    let ops = vec![create("/b"), set("/a", -1), check("/a", 5), create("/c"), delete("/nothing", -1)];
    assert_eq!(
        world.answer(ann, Request::Multi(ops)),
        Ok(Response::Multi(vec![
            OpResult::Failed(None),
            OpResult::Failed(None),
            OpResult::Failed(Some(BadVersion)),
            OpResult::Failed(Some(RuntimeInconsistency)),
            OpResult::Failed(Some(RuntimeInconsistency)),
        ]))
    );
    assert_eq!(world.answer(ann, Request::Exists { path: "/b", watch: false }), Err(NoNode));
    assert_eq!(world.stat(ann, "/a").version, 0);
    assert_eq!(
        world.answer(ann, Request::Multi(vec![])),
        Ok(Response::Multi(vec![])),
        "nothing to do is done"
    );
}

#[test]
fn an_event_comes_before_the_reply_that_shows_what_fired_it() {
    use EventType::*;
    let mut world = World::new();
    let (ann, bob) = (world.session(), world.session());
    world.make(ann, "/a");
    for (why, watch, op, events) in [
        ("data watch, new data", data_watch("/a"), set("/a", -1), vec![(NodeDataChanged, "/a")]),
        ("child watch, new data", child_watch("/a"), set("/a", -1), vec![]),
        ("child watch, new child", child_watch("/a"), create("/a/b"), vec![(NodeChildrenChanged, "/a")]),
        ("data watch, new child", data_watch("/a"), create("/a/c"), vec![]),
        (
            "the data watch of before still stands",
            Request::Ping,
            set("/a", -1),
            vec![(NodeDataChanged, "/a")],
        ),
        ("exist watch, new data", exist_watch("/a/b"), set("/a/b", -1), vec![(NodeDataChanged, "/a/b")]),
        (
            "exist watch on nothing, creation",
            exist_watch("/new"),
            create("/new"),
            vec![(NodeCreated, "/new")],
        ),
        ("data watch on nothing is not set", data_watch("/newer"), create("/newer"), vec![]),
        (
            "deletion of what is watched",
            data_watch("/newer"),
            delete("/newer", -1),
            vec![(NodeDeleted, "/newer")],
        ),
        ("deletion of a child", child_watch("/a"), delete("/a/c", -1), vec![(NodeChildrenChanged, "/a")]),
        (
            "deletion of what is watched for children",
            child_watch("/a/b"),
            delete("/a/b", -1),
            vec![(NodeDeleted, "/a/b")],
        ),
        (
            "an ACL is no data",
            data_watch("/a"),
            WriteOp::SetAcl { path: "/a", acl: vec![acl(31, "world", "anyone")], version: -1 },
            vec![],
        ),
        ("what failed fires nothing", Request::Ping, set("/a", 99), vec![]),
    ] {
        world.ask(bob, watch);
        let mut saw = world.ask(ann, Request::Write(op));
        assert!(matches!(saw.pop(), Some(Saw::Reply(to, _)) if to == ann), "{why}: the reply comes last");
        let events: Vec<_> =
            events.into_iter().map(|(kind, path)| Saw::Event(bob, kind, path.to_owned())).collect();
        assert_eq!(saw, events, "{why}");
    }
}

#[test]
fn a_one_shot_watch_fires_once_and_on_deletion_only_once_for_both_kinds() {
    let mut world = World::new();
    let (ann, bob) = (world.session(), world.session());
    world.make(ann, "/a");
    world.ask(bob, data_watch("/a"));
    world.ask(bob, child_watch("/a"));
    world.ask(ann, Request::Write(set("/a", -1)));
    assert_eq!(world.ask(ann, Request::Write(set("/a", -1))).len(), 1, "the data watch is used up");
    world.ask(bob, data_watch("/a"));
    let saw = world.ask(ann, Request::Write(delete("/a", -1)));
    assert_eq!(saw[..saw.len() - 1], [Saw::Event(bob, EventType::NodeDeleted, "/a".to_owned())]);
}

#[test]
fn persistent_watches_stay_and_recursive_ones_hear_of_the_subtree() {
    use EventType::*;
    let mut world = World::new();
    let (ann, bob, cat) = (world.session(), world.session(), world.session());
    world.make(ann, "/a");
    let watch = |path, mode| Request::AddWatch { path, mode };
    assert_eq!(world.answer(bob, watch("/a", AddWatchMode::Persistent)), Ok(Response::Number(0)));
    world.ask(cat, watch("/a", AddWatchMode::PersistentRecursive));
    let event = |session, kind, path: &str| Saw::Event(session, kind, path.to_owned());
    for (op, events) in [
        (set("/a", -1), vec![event(bob, NodeDataChanged, "/a"), event(cat, NodeDataChanged, "/a")]),
        (set("/a", -1), vec![event(bob, NodeDataChanged, "/a"), event(cat, NodeDataChanged, "/a")]),
        (create("/a/b"), vec![event(cat, NodeCreated, "/a/b"), event(bob, NodeChildrenChanged, "/a")]),
        (create("/a/b/c"), vec![event(cat, NodeCreated, "/a/b/c")]),
        (create("/ab"), vec![]),
        (delete("/a/b/c", -1), vec![event(cat, NodeDeleted, "/a/b/c")]),
        (delete("/a/b", -1), vec![event(cat, NodeDeleted, "/a/b"), event(bob, NodeChildrenChanged, "/a")]),
        (delete("/a", -1), vec![event(bob, NodeDeleted, "/a"), event(cat, NodeDeleted, "/a")]),
        (create("/a"), vec![event(bob, NodeCreated, "/a"), event(cat, NodeCreated, "/a")]),
    ] {
        let why = format!("{op:?}");
        let mut saw = world.ask(ann, Request::Write(op));
        saw.pop();
        assert_eq!(saw, events, "{why}");
    }
    let remove = |kind| Request::RemoveWatches { path: "/a", kind };
    let holds = |kind| Request::CheckWatches { path: "/a", kind };
    assert_eq!(world.answer(bob, remove(WatcherType::Data)), Err(NoWatcher), "it has none that fires once");
    assert_eq!(world.answer(bob, holds(WatcherType::Persistent)), Ok(Response::Done));
    assert_eq!(world.answer(bob, remove(WatcherType::Persistent)), Ok(Response::Done));
    assert_eq!(world.answer(bob, holds(WatcherType::Any)), Err(NoWatcher));
    assert_eq!(world.answer(cat, remove(WatcherType::Any)), Ok(Response::Done));
    assert_eq!(world.ask(ann, Request::Write(set("/a", -1))).len(), 1, "nobody hears of it any more");
}

#[test]
fn watches_that_would_have_fired_in_a_clients_absence_fire_when_it_is_back() {
    use EventType::*;
    let mut world = World::new();
    let (ann, bob) = (world.session(), world.session());
    for path in ["/same", "/set", "/gone", "/parent", "/calm"] {
        world.make(ann, path);
    }
    let relative_zxid = world.tree.zxid();
    world.tree.detach(bob);
    for op in [set("/set", -1), delete("/gone", -1), create("/parent/child"), create("/came")] {
        world.write(ann, op).unwrap();
    }
    world.attach(&ConnectRequest { session: bob, password: PASSWORD.to_vec(), ..hello() });
    let saw = world.ask(
        bob,
        Request::SetWatches(SetWatches {
            relative_zxid,
            data: vec!["/same", "/set", "/gone"],
            exist: vec!["/came", "/never"],
            child: vec!["/parent", "/calm", "/gone"],
            persistent: vec![],
            persistent_recursive: vec![],
        }),
    );
    let event = |kind, path: &str| Saw::Event(bob, kind, path.to_owned());
    assert_eq!(
        saw,
        [
            event(NodeDataChanged, "/set"),
            event(NodeDeleted, "/gone"),
            event(NodeCreated, "/came"),
            event(NodeChildrenChanged, "/parent"),
            event(NodeDeleted, "/gone"),
            Saw::Reply(bob, Ok(Response::Done)),
        ]
    );
    for (op, fired) in [
        (set("/same", -1), event(NodeDataChanged, "/same")),
        (create("/never"), event(NodeCreated, "/never")),
        (create("/calm/x"), event(NodeChildrenChanged, "/calm")),
    ] {
        assert_eq!(world.ask(ann, Request::Write(op))[0], fired, "the others are set again");
    }
}

#[test]
fn who_may_not_read_is_told_nothing() {
    let mut world = World::new();
    let (ann, bob) = (world.session(), world.session());
    world.answer(ann, Request::Auth { scheme: "digest", auth: b"ann:secret" }).unwrap();
    world.ask(bob, exist_watch("/mine"));
    let saw = world.ask(ann, Request::Write(with_acl("/mine", vec![acl(perms::ALL, "auth", "")])));
    assert_eq!(saw.len(), 1, "only the reply: {saw:?}");
    assert_eq!(world.answer(bob, data_watch("/mine")), Err(NoAuth));
    let owner = world.answer(ann, Request::GetAcl { path: "/mine" });
    let Ok(Response::Acl { acl, .. }) = owner else { panic!("{owner:?}") };
    assert!(acl[0].id.id.starts_with("ann:") && acl[0].id.id != "ann:x");
}

#[test]
fn a_reader_without_admin_sees_no_digest() {
    let mut world = World::new();
    let (ann, bob) = (world.session(), world.session());
    let list = vec![acl(perms::READ, "world", "anyone"), acl(perms::ALL, "digest", "ann:hash")];
    world.write(ann, with_acl("/a", list)).unwrap();
    let Ok(Response::Acl { acl, .. }) = world.answer(bob, Request::GetAcl { path: "/a" }) else {
        panic!("it is readable")
    };
    assert_eq!(acl[1].id, Id::new("digest", "ann:x"));
}

#[test]
fn authentication_that_fails_ends_the_connection_but_not_the_session() {
    let mut world = World::new();
    let ann = world.session();
    for request in [Request::Auth { scheme: "kerberos", auth: b"x" }, Request::Sasl] {
        let saw = world.ask(ann, request);
        assert_eq!(saw, [Saw::Reply(ann, Err(AuthFailed)), Saw::Closed(ann, CloseReason::AuthFailed)]);
    }
    let again = world.attach(&ConnectRequest { session: ann, password: PASSWORD.to_vec(), ..hello() });
    assert!(matches!(again, Attach::Attached { reattached: true, .. }));
}

#[test]
fn timeouts_are_clamped_and_sessions_need_their_password() {
    let mut world = World::new();
    for (asked, granted) in [(-1, 1000), (10, 1000), (5000, 5000), (i32::MAX, 10_000)] {
        let Attach::Attached { response, .. } =
            world.attach(&ConnectRequest { timeout_ms: asked, ..hello() })
        else {
            panic!("a new session is granted")
        };
        assert_eq!(response.timeout_ms, granted, "asked for {asked}");
    }
    let ann = world.session();
    let back = ConnectRequest { session: ann, password: PASSWORD.to_vec(), ..hello() };
    assert!(matches!(world.attach(&back), Attach::Attached { reattached: true, .. }));
    assert_eq!(world.attach(&ConnectRequest { password: vec![0; 16], ..back.clone() }), Attach::Expired);
    assert_eq!(world.attach(&ConnectRequest { session: SessionId(99), ..back.clone() }), Attach::Expired);
    let seen = Zxid(world.tree.zxid().0 + 1);
    assert_eq!(
        world.attach(&ConnectRequest { last_zxid_seen: seen, ..back }),
        Attach::ClientAhead { seen, ours: world.tree.zxid() }
    );
}

#[test]
fn a_session_expires_when_it_was_silent_for_its_whole_timeout() {
    let mut world = World::new();
    let (ann, bob) = (world.session(), world.session());
    world.write(ann, ephemeral("/a")).unwrap();
    world.write(ann, ephemeral("/b")).unwrap();
    world.ask(bob, child_watch("/"));
    world.ask(bob, exist_watch("/b"));
    world.now_ms = 3000;
    world.ask(bob, Request::Ping);
    world.now_ms = 3999;
    assert_eq!(world.expire(), []);
    let before = world.tree.zxid();
    world.now_ms = 4000;
    let event = |kind, path: &str| Saw::Event(bob, kind, path.to_owned());
    assert_eq!(
        world.expire(),
        [
            event(EventType::NodeChildrenChanged, "/"),
            event(EventType::NodeDeleted, "/b"),
            Saw::Closed(ann, CloseReason::Expired),
        ]
    );
    assert_eq!(world.tree.zxid().0, before.0 + 1, "one number for the session and all its ephemerals");
    assert_eq!(world.tree.next_deadline_ms(), Some(7000), "bob was heard at 3000");
    assert_eq!(world.ask(ann, Request::Ping)[0], Saw::Reply(ann, Err(SessionExpired)));
}

#[test]
fn closing_a_session_deletes_its_ephemerals_before_the_reply() {
    let mut world = World::new();
    let (ann, bob) = (world.session(), world.session());
    world.write(ann, ephemeral("/a")).unwrap();
    world.ask(bob, data_watch("/a"));
    assert_eq!(
        world.ask(ann, Request::CloseSession),
        [
            Saw::Event(bob, EventType::NodeDeleted, "/a".to_owned()),
            Saw::Reply(ann, Ok(Response::Done)),
            Saw::Closed(ann, CloseReason::ClosedByClient),
        ]
    );
}

#[test]
fn a_container_goes_once_its_last_child_has_gone() {
    let mut world = World::new();
    let ann = world.session();
    for path in ["/used", "/unused"] {
        world.write(ann, create_as(path, Lifetime::Container, Sequential::No)).unwrap();
    }
    world.make(ann, "/used/x");
    world.write(ann, delete("/used/x", -1)).unwrap();
    for _ in 0..30 {
        world.now_ms += 3000;
        world.ask(ann, Request::Ping);
        world.expire();
    }
    assert_eq!(world.answer(ann, Request::Exists { path: "/used", watch: false }), Err(NoNode));
    assert_eq!(world.stat(ann, "/unused").ephemeral_owner, 0);
}

#[test]
fn a_restart_begins_a_new_epoch_and_gives_sessions_their_whole_timeout() {
    let mut world = World::new();
    let mut log = Vec::new();
    let Attach::Attached { response, .. } =
        world.tree.attach(&hello(), IpAddr::V4(Ipv4Addr::LOCALHOST), PASSWORD, world.now(), &mut log)
    else {
        panic!("a new session is granted")
    };
    world.tree.handle(response.session, Xid(1), &Request::Write(ephemeral("/a")), world.now(), &mut log);
    // Numbers of refusals are told to clients, and are nowhere in the log.
    world.write(response.session, ephemeral("/a")).unwrap_err();
    let told = world.tree.zxid();

    let mut restarted = World { tree: Tree::new(TIMEOUTS), now_ms: 1_000_000 };
    for effect in &log {
        if let Effect::Log(txn) = effect {
            restarted.tree.replay(txn).unwrap();
        }
    }
    let now = restarted.now();
    let mut effects = Vec::new();
    restarted.tree.start(now, &mut effects);
    assert!(matches!(&effects[..], [Effect::Log(txn)] if txn.body == TxnBody::Epoch));
    assert!(restarted.tree.zxid() > told, "no number is given twice");
    assert_eq!(restarted.tree.next_deadline_ms(), Some(1_004_000));
    assert_eq!(restarted.stat(response.session, "/a").ephemeral_owner, response.session.0);
}
