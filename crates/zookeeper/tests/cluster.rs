//! What brokers and controllers do, against a server.
//!
//! With `OTTLA_TEST_ZOOKEEPER=host:port` against that one, each test in a chroot of its own; else against the
//! embedded one.

mod ensemble;
mod lossy;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use ensemble::Ensemble;
use lossy::{Loss, LossyStore};
use ottla_model::{
    BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, Timestamp, TopicName, TopicPartition,
    Uuid,
};
use ottla_zookeeper::records::{
    BrokerEndpoint, BrokerRegistration, ConfigEntity, EntityConfig, FeatureRecord, FeatureStatus,
    PartitionRef, PartitionState, Reassignment, RegistrationVersion, TopicAssignment,
};
use ottla_zookeeper::{
    ClientStore, ConnectError, ConnectSettings, ControllerFence, CreateMode, CreateTopicError, Election,
    FencedError, FindingKind, KafkaZkClient, PERSISTENT_PATHS, Patience, RegisterError, SessionState,
    StateWrite, StateWriteError, WatchEvent, ZkError, ZkStore, paths,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const CLUSTER: Uuid = Uuid([7; 16]);
const PATIENT: Patience = Patience(Duration::from_secs(20));

fn registration(port: i32) -> BrokerRegistration {
    BrokerRegistration {
        endpoints: vec![BrokerEndpoint {
            listener: "PLAINTEXT".to_owned(),
            security_protocol: "PLAINTEXT".to_owned(),
            host: "h".to_owned(),
            port,
        }],
        rack: None,
        jmx_port: -1,
        features: BTreeMap::new(),
        timestamp: NOW,
    }
}

async fn register(client: &KafkaZkClient, id: i32, port: i32) -> Result<i64, RegisterError> {
    let view = client.start(CLUSTER).await?;
    let (id, registration) = (BrokerId(id), registration(port));
    let epoch =
        client.register_broker(id, &registration, RegistrationVersion::V5, &view.brokers, PATIENT).await?;
    Ok(epoch.0)
}

async fn elect(client: &KafkaZkClient, id: i32) -> Result<Election, ZkError> {
    let view = client.read_controller().await?;
    client.elect_controller(BrokerId(id), NOW, view).await
}

async fn fence(client: &KafkaZkClient) -> ControllerFence {
    match elect(client, 1).await.expect("an election") {
        Election::Won(fence) => fence,
        Election::Lost(other) => panic!("{other:?} is the controller"),
    }
}

fn name(name: &str) -> TopicName {
    TopicName::new(name).expect("a legal name")
}

fn tp(topic: &str, partition: i32) -> TopicPartition {
    TopicPartition::new(name(topic), partition)
}

fn assignment(partitions: i32) -> TopicAssignment {
    TopicAssignment {
        topic_id: Some(Uuid([9; 16])),
        partitions: (0..partitions).map(|partition| (partition, vec![BrokerId(1)])).collect(),
        ..TopicAssignment::default()
    }
}

fn state(leader: i32, leader_epoch: i32) -> PartitionState {
    PartitionState {
        leader: BrokerId(leader),
        leader_epoch: LeaderEpoch(leader_epoch),
        isr: vec![BrokerId(leader)],
        controller_epoch: ControllerEpoch(1),
        recovering: false,
    }
}

fn write(topic: &str, partition: i32, state: PartitionState, expected: Option<i32>) -> StateWrite {
    StateWrite { partition: tp(topic, partition), state, expected: expected.map(PartitionEpoch) }
}

fn config(value: &str) -> EntityConfig {
    EntityConfig(BTreeMap::from([("retention.ms".to_owned(), value.to_owned())]))
}

#[tokio::test]
async fn the_first_broker_completes_the_tree_and_later_ones_find_it() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    let first = client.start(CLUSTER).await.expect("a fresh tree");
    assert_eq!(first.cluster_id.0, CLUSTER.to_string());
    assert_eq!((first.brokers.len(), first.controller.controller), (0, None));
    for path in PERSISTENT_PATHS {
        let (data, _) = client.store().get(path).await.unwrap_or_else(|error| panic!("{error}"));
        assert!(data.is_empty(), "{path}");
    }
    let second = client.start(Uuid([8; 16])).await.expect("the same tree");
    assert_eq!(second.cluster_id, first.cluster_id, "the cluster keeps its first id");
}

#[tokio::test]
async fn a_registration_is_ephemeral_and_its_creation_is_the_broker_epoch() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    let epoch = register(&client, 1, 9092).await.expect("a registration");
    let (data, stat) = client.store().get("/brokers/ids/1").await.expect("the znode");
    assert_eq!((stat.czxid, stat.version), (epoch, 1), "Kafka's two operations leave version 1");
    assert_eq!(stat.owner, Some(client.store().session()));
    assert_eq!(BrokerRegistration::decode(&data), Ok(registration(9092)));

    let (ids, watch) = client.broker_ids_and_watch().await.expect("the brokers");
    assert_eq!(ids, [BrokerId(1)]);
    client.store().close().await.expect("a farewell");
    let other = ensemble.client().await;
    let (ids, _) = other.broker_ids_and_watch().await.expect("the brokers");
    assert_eq!(ids, [], "closing the session takes the registration away at once");
    drop(watch);
}

#[tokio::test]
async fn a_registration_of_a_killed_life_is_waited_for() {
    let ensemble = Ensemble::start().await;
    let killed = ensemble.client().await;
    let old = register(&killed, 1, 9092).await.expect("the first life");
    let store = Arc::new(LossyStore::new(ensemble.store().await));
    let client = KafkaZkClient::new(store.clone(), 10);
    let again = tokio::spawn(async move { register(&client, 1, 9092).await });
    // It has met the znode of the first life, and watches it instead of failing.
    store.watched("/brokers/ids/1").await;
    killed.store().close().await.expect("the end of the first life");
    let new = again.await.expect("no panic").expect("the second life");
    assert!(new > old);
}

#[tokio::test]
async fn an_id_that_stays_taken_is_refused_with_kafkas_word_and_the_other_address() {
    let ensemble = Ensemble::start().await;
    let other = ensemble.client().await;
    register(&other, 1, 9092).await.expect("the other broker");
    let client = ensemble.client().await;
    let impatient = Patience(Duration::from_millis(50));
    let refused = client
        .register_broker(BrokerId(1), &registration(9093), RegistrationVersion::V5, &[], impatient)
        .await
        .expect_err("the id is taken");
    let shown = refused.to_string();
    assert!(
        shown.contains("NodeExists") && shown.contains("h:9092") && shown.contains("/brokers/ids/1"),
        "{shown}"
    );
    let refused = client
        .register_broker(BrokerId(2), &registration(9092), RegistrationVersion::V5, &[BrokerId(1)], impatient)
        .await
        .expect_err("the address is taken");
    assert_eq!(
        refused.to_string(),
        "Configured end points h:9092 in advertised listeners are already registered by broker 1"
    );
}

#[tokio::test]
async fn generated_ids_start_above_the_reserved_ones() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    assert_eq!(client.generate_broker_id(1000).await, Ok(BrokerId(1001)));
    assert_eq!(client.generate_broker_id(1000).await, Ok(BrokerId(1002)));
}

#[tokio::test]
async fn the_second_candidate_loses_and_wins_when_the_first_is_gone() {
    let ensemble = Ensemble::start().await;
    let (first, second) = (ensemble.client().await, ensemble.client().await);
    first.start(CLUSTER).await.expect("a tree");
    let stale = second.read_controller().await.expect("nobody yet");
    let won = fence(&first).await;
    assert_eq!(
        (won.epoch, won.epoch_version),
        (ControllerEpoch(1), 1),
        "Kafka's first controller has epoch 1"
    );
    let (data, _) = first.store().get("/controller_epoch").await.expect("the epoch");
    assert_eq!(data, b"1");
    match second.elect_controller(BrokerId(2), NOW, stale).await.expect("an election") {
        Election::Lost(controller) => assert_eq!(controller.broker, BrokerId(1)),
        won => panic!("{won:?} on a view that was out of date"),
    }
    let (_, watch) = second.controller_and_watch().await.expect("the controller");
    first.store().close().await.expect("a farewell");
    assert_eq!(watch.await, WatchEvent::Deleted);
    match elect(&second, 2).await.expect("an election") {
        Election::Won(fence) => assert_eq!((fence.epoch, fence.epoch_version), (ControllerEpoch(2), 2)),
        lost => panic!("{lost:?} with nobody else there"),
    }
}

#[tokio::test]
async fn one_of_many_candidates_wins() {
    let ensemble = Ensemble::start().await;
    let mut candidates = Vec::new();
    for id in 1..=5 {
        let client = ensemble.client().await;
        client.start(CLUSTER).await.expect("a tree");
        candidates.push(tokio::spawn(async move {
            let election = elect(&client, id).await.expect("an election");
            (client, election)
        }));
    }
    let mut winners = 0;
    let mut clients = Vec::new();
    for candidate in candidates {
        let (client, election) = candidate.await.expect("no panic");
        winners += usize::from(matches!(election, Election::Won(_)));
        clients.push(client);
    }
    assert_eq!(winners, 1);
}

#[tokio::test]
async fn a_deposed_controller_writes_nothing_any_more() {
    let ensemble = Ensemble::start().await;
    let (first, second) = (ensemble.client().await, ensemble.client().await);
    first.start(CLUSTER).await.expect("a tree");
    let old = fence(&first).await;
    first.create_topic(&name("t"), &assignment(2), &config("1")).await.expect("a topic");
    let created = first.write_states(old, vec![write("t", 0, state(1, 0), None)]).await;
    assert_eq!(created, [(tp("t", 0), Ok(PartitionEpoch(0)))]);
    first.resign(old).await.expect("a resignation");
    fence(&second).await;

    let written = first
        .write_states(old, vec![write("t", 1, state(1, 0), None), write("t", 0, state(1, 1), Some(0))])
        .await;
    assert_eq!(
        written,
        [
            (tp("t", 1), Err(StateWriteError::ControllerMoved)),
            (tp("t", 0), Err(StateWriteError::ControllerMoved))
        ]
    );
    let moved = Err(FencedError::ControllerMoved);
    assert_eq!(first.update_topic(old, &name("t"), &assignment(3), None).await.map(drop), moved);
    assert_eq!(first.delete_topic(old, &name("t")).await, moved);
    assert_eq!(first.update_reassignment(old, &Reassignment::default()).await, moved);
    first.resign(old).await.expect("which is nothing new");
    let (controller, _) = second.controller_and_watch().await.expect("the controller");
    assert!(controller.is_some(), "and does not touch its successor");
    assert_eq!(second.read_states(&[tp("t", 1)]).await, [Ok(None)]);
}

#[tokio::test]
async fn a_topic_comes_with_its_config_and_only_once() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    let topic = name("orders");
    // Even where nothing is there yet.
    client.create_topic(&topic, &assignment(3), &config("1")).await.expect("a topic");
    let found = client.read_topic("orders").await.expect("a look").expect("the topic");
    assert_eq!((found.record, found.stat.version), (assignment(3), 0));
    assert_eq!(client.read_config(&ConfigEntity::topic("orders")).await, Ok(config("1")));
    let again = client.create_topic(&topic, &assignment(4), &config("2")).await;
    assert_eq!(again, Err(CreateTopicError::Exists("orders".to_owned())));
    assert_eq!(client.read_config(&ConfigEntity::topic("orders")).await, Ok(config("1")), "refused whole");

    // A config can be left over.
    client.store().delete("/brokers/topics/orders", None).await.expect("the topic alone");
    client.create_topic(&topic, &assignment(1), &config("3")).await.expect("the topic anew");
    assert_eq!(client.read_config(&ConfigEntity::topic("orders")).await, Ok(config("3")));
    let (topics, watch) = client.topics_and_watch().await.expect("the topics");
    assert_eq!(topics, [topic]);
    client.create_topic(&name("x"), &assignment(1), &config("3")).await.expect("another");
    assert_eq!(watch.await, WatchEvent::ChildrenChanged);
}

#[tokio::test]
async fn states_are_created_changed_and_told_apart() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    let fence = fence(&client).await;
    client.create_topic(&name("t"), &assignment(3), &config("1")).await.expect("a topic");
    let all = |first: i32, last: i32, write_one: &dyn Fn(i32) -> StateWrite| {
        (first..last).map(write_one).collect::<Vec<_>>()
    };
    let created = client.write_states(fence, all(0, 2, &|p| write("t", p, state(1, 0), None))).await;
    assert!(created.iter().all(|(_, epoch)| *epoch == Ok(PartitionEpoch(0))));

    let written = client
        .write_states(
            fence,
            vec![
                write("t", 0, state(2, 1), Some(0)),
                write("t", 1, state(2, 1), Some(7)),
                write("t", 2, state(2, 1), Some(0)),
                // Added to a topic that has partitions, one of which is not as thought.
                write("t", 2, state(1, 0), None),
                write("t", 1, state(9, 9), None),
                write("gone", 0, state(1, 0), None),
            ],
        )
        .await;
    let answer = |partition: &TopicPartition, nth: usize| {
        written.iter().filter(|(tp, _)| tp == partition).nth(nth).expect("an answer").1.clone()
    };
    assert_eq!(answer(&tp("gone", 0), 0), Err(StateWriteError::Gone));
    assert_eq!(answer(&tp("t", 2), 0), Ok(PartitionEpoch(0)));
    match answer(&tp("t", 1), 0) {
        Err(StateWriteError::Changed(found)) => assert_eq!(found.record, state(1, 0)),
        other => panic!("{other:?}"),
    }
    assert_eq!(answer(&tp("t", 0), 0), Ok(PartitionEpoch(1)));
    match answer(&tp("t", 1), 1) {
        Err(StateWriteError::Changed(found)) => assert_eq!(found.partition_epoch(), PartitionEpoch(0)),
        other => panic!("{other:?}"),
    }
    assert_eq!(answer(&tp("t", 2), 1), Ok(PartitionEpoch(1)), "changes come after creations");
    let read = client.read_states(&[tp("t", 0), tp("t", 9)]).await;
    assert_eq!(
        read[0].as_ref().map(|found| found.as_ref().map(|found| found.record.clone())),
        Ok(Some(state(2, 1)))
    );
    assert_eq!(read[1], Ok(None));

    let changed = client.change_state_as_leader(&tp("t", 0), &state(2, 1), PartitionEpoch(1)).await;
    assert_eq!(changed, Ok(PartitionEpoch(2)));
    let stale = client.change_state_as_leader(&tp("t", 0), &state(3, 3), PartitionEpoch(1)).await;
    assert!(matches!(stale, Err(StateWriteError::Changed(_))));
}

#[tokio::test]
async fn a_thousand_partitions_cost_a_handful_of_requests() {
    let ensemble = Ensemble::start().await;
    let counting = Arc::new(LossyStore::new(ensemble.store().await));
    let client = KafkaZkClient::new(counting.clone(), 10);
    let fence = fence(&client).await;
    client.create_topic(&name("t"), &assignment(1000), &config("1")).await.expect("a topic");
    let before = counting.requests();
    let created =
        client.write_states(fence, (0..1000).map(|p| write("t", p, state(1, 0), None)).collect()).await;
    assert!(created.iter().all(|(_, epoch)| epoch.is_ok()));
    assert_eq!(counting.requests() - before, 2, "500 partitions to a transaction");
    client.mark_topic_for_deletion(&name("t")).await.expect("a mark");
    // A tool of old days may have left something of its own.
    client.store().create("/brokers/topics/t/note", b"", CreateMode::Persistent).await.expect("a note");
    client.delete_topic(fence, &name("t")).await.expect("its end");
    for path in ["/brokers/topics/t", "/config/topics/t", "/admin/delete_topics/t"] {
        assert_eq!(client.store().exists(path).await, Ok(None), "{path}");
    }
}

/// Starts, registers, elects: how many requests wait for another's answer decides how fast a broker is there.
#[tokio::test]
async fn a_start_is_a_few_round_trips() {
    let ensemble = Ensemble::start().await;
    let warm = ensemble.client().await;
    warm.start(CLUSTER).await.expect("a tree");
    let counting = Arc::new(LossyStore::new(ensemble.store().await));
    let client = KafkaZkClient::new(counting.clone(), 10);

    let view = client.start(CLUSTER).await.expect("the tree");
    assert_eq!(counting.round_trips(), 1, "everything is looked at at once");
    client
        .register_broker(BrokerId(1), &registration(1), RegistrationVersion::V5, &view.brokers, PATIENT)
        .await
        .expect("a registration");
    assert_eq!(counting.round_trips(), 2);
    warm.elect_controller(BrokerId(2), NOW, view.controller.clone()).await.expect("the first controller");
    warm.store().close().await.expect("its end");
    let view = client.start(CLUSTER).await.expect("the tree");
    assert_eq!(counting.round_trips(), 3);
    let election = client.elect_controller(BrokerId(1), NOW, view.controller).await.expect("an election");
    assert!(matches!(election, Election::Won(_)));
    assert_eq!(counting.round_trips(), 4);
}

#[tokio::test]
async fn changed_configs_are_heard_of_in_order_and_notices_go_when_they_are_old() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    client.start(CLUSTER).await.expect("a tree");
    let (changes, watch) = client.config_changes_and_watch(None).await.expect("the notices");
    assert_eq!(changes, []);
    let refused = client.write_config(&ConfigEntity::topic("a"), &config("1")).await;
    assert_eq!(refused, Err(FencedError::ControllerMoved), "without a controller nothing is written");
    fence(&client).await;
    client.write_config(&ConfigEntity::topic("a"), &config("1")).await.expect("a change");
    assert_eq!(watch.await, WatchEvent::ChildrenChanged);
    client.write_config(&ConfigEntity::topic("b"), &config("2")).await.expect("a change");
    for odd in [&b"\"of.0.8\""[..], b"not understood"] {
        let path = paths::config_change_prefix();
        client.store().create(&path, odd, CreateMode::PersistentSequential).await.expect("a notice");
    }
    let (changes, _) = client.config_changes_and_watch(None).await.expect("the notices");
    let entities: Vec<Option<&str>> =
        changes.iter().map(|change| change.entity.as_ref().map(ConfigEntity::path)).collect();
    assert_eq!(entities, [Some("topics/a"), Some("topics/b"), Some("topics/of.0.8"), None]);
    let (fresh, _) = client.config_changes_and_watch(Some(changes[1].sequence)).await.expect("the notices");
    assert_eq!(fresh, changes[2..]);
    assert_eq!(client.read_config(&ConfigEntity::topic("a")).await, Ok(config("1")));
    let topics = client.config_entities("topics").await.expect("the entities");
    assert_eq!(topics.iter().filter_map(ConfigEntity::as_topic).count(), 2);

    let (_, stat) = client.store().get("/config/topics/a").await.expect("the config");
    client.purge_config_changes(Timestamp(stat.ctime)).await.expect("a look");
    let (left, _) = client.config_changes_and_watch(None).await.expect("the notices");
    assert_eq!(left.len(), 4, "a broker that was away may still need them");
    client.purge_config_changes(Timestamp(stat.ctime + 20 * 60 * 1000)).await.expect("a clearing");
    let (left, _) = client.config_changes_and_watch(None).await.expect("the notices");
    assert_eq!(left, []);
}

#[tokio::test]
async fn no_two_brokers_get_the_same_producer_ids() {
    let ensemble = Ensemble::start().await;
    let mut takers = Vec::new();
    for id in 1..=4 {
        let client = ensemble.client().await;
        takers.push(tokio::spawn(async move {
            let mut firsts = Vec::new();
            for _ in 0..5 {
                firsts.push(client.allocate_producer_ids(BrokerId(id)).await.expect("a block").first.0);
            }
            firsts
        }));
    }
    let mut firsts = Vec::new();
    for taker in takers {
        firsts.extend(taker.await.expect("no panic"));
    }
    firsts.sort_unstable();
    assert_eq!(firsts, (0..20).map(|block| block * 1000).collect::<Vec<_>>());
}

#[tokio::test]
async fn wishes_of_old_tools_are_seen_and_taken_away() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    let fence = fence(&client).await;
    client.start(CLUSTER).await.expect("a tree");
    assert_eq!(client.mark_topic_for_deletion(&name("t")).await, Ok(true));
    assert_eq!(client.mark_topic_for_deletion(&name("t")).await, Ok(false), "asked for before");
    let (deletions, _) = client.topic_deletions_and_watch().await.expect("the marks");
    assert_eq!(deletions, [name("t")]);
    client.remove_deletion_marks(fence, &[name("t"), name("u")]).await.expect("their end");

    let (none, watch) = client.reassignment_and_watch().await.expect("a look");
    assert_eq!(none, None);
    let t0 = PartitionRef { topic: "t".to_owned(), partition: 0 };
    let wish = Reassignment(vec![(t0.clone(), vec![BrokerId(2)])]);
    client
        .store()
        .create(paths::REASSIGN_PARTITIONS, &wish.encode(), CreateMode::Persistent)
        .await
        .expect("a wish");
    assert_eq!(watch.await, WatchEvent::Created, "a look at nothing watches for something");
    let (found, _) = client.reassignment_and_watch().await.expect("a look");
    assert_eq!(found, Some(wish));
    client.store().set(paths::REASSIGN_PARTITIONS, b"rubbish", None).await.expect("another wish");
    let (found, _) = client.reassignment_and_watch().await.expect("a look");
    assert_eq!(found, Some(Reassignment::default()), "which counts as empty");
    client.update_reassignment(fence, &Reassignment::default()).await.expect("its end");
    assert_eq!(client.store().exists(paths::REASSIGN_PARTITIONS).await, Ok(None));

    client.notify_isr_change(std::slice::from_ref(&t0)).await.expect("a notice");
    client.notify_log_dir_failure(BrokerId(3)).await.expect("a notice");
    let (partitions, names, _) = client.isr_changes_and_watch().await.expect("the notices");
    assert_eq!((partitions, names.len()), (vec![t0], 1));
    client.remove_notices(fence, paths::ISR_CHANGES, &names).await.expect("their end");
    let (brokers, _, _) = client.log_dir_events_and_watch().await.expect("the notices");
    assert_eq!(brokers, [BrokerId(3)]);
}

#[tokio::test]
async fn offsets_of_old_consumers_are_kept() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    let written = client
        .write_consumer_offsets(
            "g",
            &[(tp("t", 0), Offset(5)), (tp("t", 1), Offset(6)), (tp("t", 0), Offset(7))],
        )
        .await;
    assert!(written.iter().all(Result::is_ok));
    let read = client.read_consumer_offsets("g", &[tp("t", 0), tp("t", 1), tp("t", 2)]).await;
    assert_eq!(read, [Ok(Some(Offset(7))), Ok(Some(Offset(6))), Ok(None)]);
}

/// Path, kind, version and data of every znode below.
async fn tree(store: &Arc<dyn ZkStore>, path: String, rows: &mut Vec<String>) {
    let shown = if path.is_empty() { "/" } else { &path };
    let (data, stat) = store.get(shown).await.expect("a znode");
    let kind = if stat.owner.is_some() { "ephemeral" } else { "persistent" };
    let data = String::from_utf8(data).expect("text");
    let data = if data.is_empty() { "-" } else { &data };
    rows.push(format!("{shown} | {kind} | {} | {data}", stat.version));
    let (mut children, _) = store.children(shown).await.expect("its children");
    children.sort();
    for child in children.into_iter().filter(|child| child != "zookeeper") {
        Box::pin(tree(store, format!("{path}/{child}"), rows)).await;
    }
}

#[tokio::test]
async fn the_tree_is_the_one_that_kafka_leaves() {
    let ensemble = Ensemble::start().await;
    let client = ensemble.client().await;
    let view = client.start("B9cmNDSPQ_-9jhvvo1Eftw".parse().expect("an id")).await.expect("an empty tree");
    let mut registration = registration(21484);
    registration.endpoints[0].host = "127.0.0.1".to_owned();
    registration.rack = Some("r1".to_owned());
    client
        .register_broker(BrokerId(1), &registration, RegistrationVersion::V5, &view.brokers, PATIENT)
        .await
        .expect("a registration");
    let fence = fence(&client).await;
    let feature = FeatureRecord { status: FeatureStatus::Enabled, features: BTreeMap::new() };
    client.write_feature(fence, &feature, true, None).await.expect("an agreement");
    let mut assignment = assignment(3);
    assignment.topic_id = Some("RZcLcIhNQ863puNjqWe0eg".parse().expect("an id"));
    client.create_topic(&name("orders"), &assignment, &config("1000")).await.expect("a topic");
    let states = (0..3).map(|partition| write("orders", partition, state(1, 0), None)).collect();
    let written = client.write_states(fence, states).await;
    assert!(written.iter().all(|(_, epoch)| epoch.is_ok()));

    let mut ours = Vec::new();
    tree(client.store(), String::new(), &mut ours).await;
    let kafkas: Vec<&str> =
        include_str!("golden/tree.txt").lines().filter(|line| !line.starts_with('#')).collect();
    assert_eq!(ours, kafkas);
}

/// Whatever answer gets lost, before or after the request was carried out, each operation ends as if none had
/// been.
#[tokio::test]
async fn lost_answers_change_nothing() {
    for loss in [Loss::Request, Loss::Answer] {
        for nth in 0.. {
            let ensemble = Ensemble::start().await;
            let lossy = Arc::new(LossyStore::new(ensemble.store().await));
            lossy.lose(nth, loss);
            let client = KafkaZkClient::new(lossy.clone(), 10);
            let case = format!("{loss:?} {nth} lost");
            register(&client, 1, 9092).await.unwrap_or_else(|error| panic!("{case}: {error}"));
            let fence = match elect(&client, 1).await {
                Ok(Election::Won(fence)) => fence,
                other => panic!("{case}: {other:?}"),
            };
            assert_eq!((fence.epoch, fence.epoch_version), (ControllerEpoch(1), 1), "{case}");
            let created = client.create_topic(&name("t"), &assignment(2), &config("1")).await;
            assert_eq!(created, Ok(()), "{case}");
            let written = client
                .write_states(fence, vec![write("t", 0, state(1, 0), None), write("t", 1, state(1, 0), None)])
                .await;
            assert!(written.iter().all(|(_, epoch)| *epoch == Ok(PartitionEpoch(0))), "{case}: {written:?}");
            let changed = client.write_states(fence, vec![write("t", 0, state(1, 1), Some(0))]).await;
            assert_eq!(changed, [(tp("t", 0), Ok(PartitionEpoch(1)))], "{case}");
            let changed = client.change_state_as_leader(&tp("t", 0), &state(1, 2), PartitionEpoch(1)).await;
            assert_eq!(changed, Ok(PartitionEpoch(2)), "{case}");
            assert_eq!(
                client.update_topic(fence, &name("t"), &assignment(3), Some(0)).await,
                Ok(1),
                "{case}"
            );
            client.write_config(&ConfigEntity::topic("t"), &config("2")).await.expect(&case);
            client.allocate_producer_ids(BrokerId(1)).await.expect(&case);
            client.delete_topic(fence, &name("t")).await.expect(&case);
            client.resign(fence).await.expect(&case);
            assert_eq!(client.read_topic("t").await, Ok(None), "{case}");
            if !lossy.has_lost() {
                assert!(nth > 20, "every request has had its turn");
                break;
            }
        }
    }
}

#[tokio::test]
async fn requests_are_sent_when_made_not_when_awaited() {
    let ensemble = Ensemble::start().await;
    let store = ensemble.store().await;
    let create = store.create("/a", b"", CreateMode::Persistent);
    let set = store.set("/a", b"x", Some(0));
    let children = store.children("/");
    // In the order of the calls, whatever the order of the awaits.
    let (children, _) = children.await.expect("a listing");
    assert!(children.contains(&"a".to_owned()));
    assert_eq!(set.await.map(|stat| stat.version), Ok(1));
    create.await.expect("a creation");
}

#[tokio::test]
async fn a_session_that_is_lost_is_followed_by_a_new_one() {
    let mut ensemble = Ensemble::start().await;
    if !ensemble.is_embedded() {
        // Stopping a server needs one of our own.
        return;
    }
    let store = ensemble.store().await;
    let client = KafkaZkClient::new(Arc::new(store), 10);
    let epoch = register(&client, 1, 9092).await.expect("a registration");
    let (_, watch) = client.broker_and_watch(BrokerId(1)).await.expect("a look");
    let mut states = client.store().states();
    let first = client.store().session();
    assert_eq!(*states.borrow_and_update(), SessionState::Connected { session: first, connection: 1 });

    ensemble.restart().await;
    let back = states.wait_for(|state| matches!(state, SessionState::Connected { connection: 2.., .. }));
    back.await.expect("the same session again");
    let (found, _) = client.broker_and_watch(BrokerId(1)).await.expect("a look");
    assert_eq!(found.map(|found| found.broker_epoch().0), Some(epoch), "nothing was lost");

    ensemble.stop().await;
    let over = states.wait_for(|state| matches!(state, SessionState::Expired { .. }));
    over.await.expect("the client's own clock");
    assert_eq!(watch.await, WatchEvent::SessionOver);
    assert_eq!(client.store().get("/").await.map(drop), Err(ZkError::SessionExpired));

    ensemble.resume().await;
    let second = client.store().reopen().await.expect("a new session");
    assert_ne!(second, first);
    assert!(client.store().was_ours(first) && !client.store().was_ours(second));
    // The server may not have noticed the end of the first session: its registration is ours to remove.
    let again = register(&client, 1, 9092).await.expect("a registration");
    assert!(again > epoch);
}

#[tokio::test]
async fn a_wrong_address_is_described() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let web = listener.local_addr().expect("an address");
    std::thread::spawn(move || {
        use std::io::{Read, Write};
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let _ = stream.read(&mut [0; 64]);
            let _ = stream.write_all(b"HTTP/1.1 400 Bad Request\r\n\r\n");
        }
    });
    let closed = {
        let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
        free.local_addr().expect("an address")
    };
    let settings = |connect: String| ConnectSettings {
        connect,
        session_timeout: Duration::from_millis(400),
        connection_timeout: Duration::from_millis(600),
    };
    let error =
        ClientStore::connect(settings(format!("{web},{closed}/chroot"))).await.expect_err("no ZooKeeper");
    let ConnectError::Unreachable { findings, .. } = &error else { panic!("{error}") };
    assert_eq!(findings[0].kind, FindingKind::NotZooKeeper("HTTP/1.1 400 Bad Request".to_owned()));
    assert!(matches!(findings[1].kind, FindingKind::NoConnection(_)));
    let shown = error.to_string();
    for words in [
        &web.to_string(),
        "is not ZooKeeper",
        &closed.to_string(),
        "zookeeper-server-start.sh",
        "zookeeper.connect",
    ] {
        assert!(shown.contains(words), "{shown}");
    }
    for bad in ["", " , ", ":", "h:port"] {
        let error = ClientStore::connect(settings(bad.to_owned())).await.expect_err("no address");
        assert!(matches!(error, ConnectError::Address { .. }), "{bad:?}: {error}");
    }
}

#[tokio::test]
async fn a_chroot_is_made_where_it_is_missing() {
    let ensemble = Ensemble::start().await;
    let inside = ensemble.store_at("/deep/down").await;
    inside.create("/x", b"", CreateMode::Persistent).await.expect("inside");
    let outside = ensemble.store().await;
    assert!(outside.exists("/deep/down/x").await.expect("a look").is_some());
    let again = ensemble.store_at("/deep/down/ ").await;
    assert!(again.exists("/x").await.expect("a look").is_some(), "and entered where it is there");
}
