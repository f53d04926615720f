//! CreateTopics, CreatePartitions, DeleteTopics.

use ottla_protocol::messages::create_partitions::{
    CreatePartitionsAssignment, CreatePartitionsRequest, CreatePartitionsTopic,
};
use ottla_protocol::messages::create_topics::{
    CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig, CreatableTopicResult,
    CreateTopicsRequest,
};
use ottla_protocol::messages::delete_topics::{DeleteTopicState, DeleteTopicsRequest};
use ottla_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic};
use ottla_protocol::{ErrorCode, Str};

use crate::cluster::{Cluster, batch, error};
use crate::wire::Wire;

fn topic(name: &str, partitions: i32, factor: i16) -> CreatableTopic {
    CreatableTopic {
        name: Str::from(name),
        num_partitions: partitions,
        replication_factor: factor,
        ..Default::default()
    }
}

fn placed(name: &str, replicas: &[(i32, &[i32])]) -> CreatableTopic {
    let assignment = |(partition_index, brokers): &(i32, &[i32])| CreatableReplicaAssignment {
        partition_index: *partition_index,
        broker_ids: brokers.to_vec(),
        ..Default::default()
    };
    CreatableTopic { assignments: replicas.iter().map(assignment).collect(), ..topic(name, -1, -1) }
}

fn configured(name: &str, configs: &[(&str, Option<&str>)]) -> CreatableTopic {
    let config = |(name, value): &(&str, Option<&str>)| CreatableTopicConfig {
        name: Str::from(*name),
        value: value.map(Str::from),
        ..Default::default()
    };
    CreatableTopic { configs: configs.iter().map(config).collect(), ..topic(name, 1, 1) }
}

async fn create(wire: &mut Wire, version: i16, topic: CreatableTopic) -> CreatableTopicResult {
    wire.create_topics(version, vec![topic]).await.topics.remove(0)
}

/// Partitions and their replicas, as Metadata tells them; `None` if there is no such topic.
async fn partitions(wire: &mut Wire, name: &str) -> Option<Vec<Vec<i32>>> {
    let topic = MetadataRequestTopic { name: Some(Str::from(name)), ..Default::default() };
    let topics = Some(vec![topic]);
    let request = MetadataRequest { topics, allow_auto_topic_creation: false, ..Default::default() };
    let mut answer = wire.ask(9, &request).await;
    let topic = answer.topics.remove(0);
    let found = error(topic.error_code) == ErrorCode::None;
    found.then(|| topic.partitions.into_iter().map(|partition| partition.replica_nodes).collect())
}

#[tokio::test(flavor = "multi_thread")]
async fn names_follow_the_rules_and_never_leave_the_log_dir() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    let (longest, longer) = ("x".repeat(249), "x".repeat(250));
    for version in [0, 7] {
        for name in ["", ".", "..", "a b", "a/b", "../x", "ü", "a\0b", &longer] {
            let refused = create(&mut wire, version, topic(name, 1, 1)).await;
            assert_eq!(error(refused.error_code), ErrorCode::InvalidTopicException, "{name:?}");
            if version >= 1 {
                let reason = refused.error_message.unwrap();
                assert!(reason.starts_with("Topic name is invalid: "), "{reason}");
            }
        }
        let reserved = create(&mut wire, version, topic("__cluster_metadata", 1, 1)).await;
        assert_eq!(error(reserved.error_code), ErrorCode::InvalidRequest);
    }
    for name in [longest.as_str(), "-lead", "x-delete", "x.1-delete", "a.b", "Case", "case"] {
        assert_eq!(create(&mut wire, 7, topic(name, 1, 1)).await.error_code, 0, "{name}");
        assert_eq!(wire.produce(name, 0, batch(&[name])).await.error_code, 0, "{name}");
        assert_eq!(wire.values(name, 0, 0).await, [name]);
    }
    let collides = create(&mut wire, 7, topic("a_b", 1, 1)).await;
    assert_eq!(error(collides.error_code), ErrorCode::InvalidTopicException);
    assert_eq!(collides.error_message.as_deref(), Some("Topic 'a_b' collides with existing topics: a.b"));
    let directories = std::fs::read_dir(cluster.log_dir(0)).unwrap();
    let directories = directories.filter(|entry| entry.as_ref().unwrap().file_type().unwrap().is_dir());
    assert_eq!(directories.count(), 7, "one for each, side by side");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_made_is_refused_with_its_code() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("there", 1, 1, &[]).await;
    use ErrorCode::*;
    for (why, wanted, expected) in [
        ("exists", topic("there", 1, 1), TopicAlreadyExists),
        ("no partitions", topic("t", 0, 1), InvalidPartitions),
        ("fewer than none", topic("t", -2, 1), InvalidPartitions),
        ("no replicas", topic("t", 1, 0), InvalidReplicationFactor),
        ("more replicas than brokers", topic("t", 1, 2), InvalidReplicationFactor),
        (
            "by number and by hand",
            CreatableTopic { num_partitions: 1, ..placed("t", &[(0, &[0])]) },
            InvalidRequest,
        ),
        ("a gap", placed("t", &[(0, &[0]), (2, &[0])]), InvalidReplicaAssignment),
        ("a broker twice", placed("t", &[(0, &[0, 0])]), InvalidReplicaAssignment),
        ("an unknown key", configured("t", &[("nope", Some("1"))]), InvalidConfig),
        ("an impossible value", configured("t", &[("cleanup.policy", Some("nope"))]), InvalidConfig),
        ("no number", configured("t", &[("retention.ms", Some("soon"))]), InvalidConfig),
        ("null", configured("t", &[("retention.ms", Option::None)]), InvalidConfig),
        (
            "values at odds",
            configured("t", &[("min.compaction.lag.ms", Some("10")), ("max.compaction.lag.ms", Some("5"))]),
            InvalidConfig,
        ),
    ] {
        for version in 0..=7 {
            let refused = create(&mut wire, version, wanted.clone()).await;
            assert_eq!(error(refused.error_code), expected, "{why} v{version}");
            assert_eq!(
                refused.error_message.is_some_and(|text| !text.is_empty()),
                version >= 1,
                "{why} v{version}"
            );
        }
    }
    assert!(partitions(&mut wire, "t").await.is_none());
    let twice = wire.create_topics(7, vec![topic("t", 1, 1), topic("u", 1, 1), topic("t", 2, 1)]).await;
    let codes: Vec<ErrorCode> = twice.topics.iter().map(|topic| error(topic.error_code)).collect();
    assert_eq!(codes, [InvalidRequest, None, InvalidRequest], "named twice");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topic_is_ready_when_its_creation_is_answered() {
    let cluster = Cluster::of(2, &[("num.partitions", "3")]).await;
    let mut wire = cluster.connect().await;
    for version in 0..=7 {
        let (name, by_default, by_hand) =
            (format!("t{version}"), format!("d{version}"), format!("h{version}"));
        let wanted = vec![
            topic(&name, 2, 2),
            topic(&by_default, -1, -1),
            placed(&by_hand, &[(0, &[1, 0]), (1, &[0, 1])]),
        ];
        let answer = wire.create_topics(version, wanted).await;
        assert!(answer.topics.iter().all(|topic| topic.error_code == 0), "v{version}: {answer:?}");
        let counts: Vec<i32> = answer.topics.iter().map(|topic| topic.num_partitions).collect();
        assert_eq!(counts, if version >= 5 { [2, 3, 2] } else { [-1; 3] }, "v{version}");
        assert_eq!(partitions(&mut wire, &name).await.unwrap().len(), 2, "v{version}");
        assert_eq!(partitions(&mut wire, &by_default).await.unwrap().len(), 3, "v{version}");
        assert_eq!(partitions(&mut wire, &by_hand).await.unwrap(), [[1, 0], [0, 1]], "v{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn validation_alone_changes_nothing() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    for version in 1..=7 {
        let topics = vec![topic("t", 4, 1), topic("a b", 1, 1)];
        let request =
            CreateTopicsRequest { topics, timeout_ms: 60_000, validate_only: true, ..Default::default() };
        let answer = wire.ask(version, &request).await;
        let codes: Vec<ErrorCode> = answer.topics.iter().map(|topic| error(topic.error_code)).collect();
        assert_eq!(codes, [ErrorCode::None, ErrorCode::InvalidTopicException], "v{version}");
        assert!(answer.topics[0].topic_id.is_zero(), "v{version}");
        assert_eq!(partitions(&mut wire, "t").await, None, "v{version}");
    }
}

/// Whoever does not want to wait is told that it did not happen yet, and then it happens.
#[tokio::test(flavor = "multi_thread")]
async fn without_time_to_wait_the_answer_is_that_it_timed_out() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    let request = CreateTopicsRequest { topics: vec![topic("t", 1, 1)], timeout_ms: 0, ..Default::default() };
    let answer = wire.ask(7, &request).await;
    assert_eq!(error(answer.topics[0].error_code), ErrorCode::RequestTimedOut);
    while partitions(&mut wire, "t").await.is_none() {}
    let topic_names = vec![Str::from("t")];
    let deletion = DeleteTopicsRequest { topic_names, timeout_ms: 0, ..Default::default() };
    assert_eq!(error(wire.ask(5, &deletion).await.responses[0].error_code), ErrorCode::RequestTimedOut);
    while partitions(&mut wire, "t").await.is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn only_the_controller_makes_and_unmakes() {
    let cluster = Cluster::of(2, &[]).await;
    let mut wire = cluster.connect_to(1).await;
    let created = create(&mut wire, 7, topic("t", 1, 1)).await;
    assert_eq!(error(created.error_code), ErrorCode::NotController);
    let request = more("t", 2, None);
    assert_eq!(error(wire.ask(3, &request).await.results[0].error_code), ErrorCode::NotController);
    let topic_names = vec![Str::from("t")];
    let deletion = DeleteTopicsRequest { topic_names, timeout_ms: 1000, ..Default::default() };
    assert_eq!(error(wire.ask(5, &deletion).await.responses[0].error_code), ErrorCode::NotController);
}

fn more(name: &str, count: i32, by_hand: Option<&[&[i32]]>) -> CreatePartitionsRequest {
    let assignment =
        |brokers: &&[i32]| CreatePartitionsAssignment { broker_ids: brokers.to_vec(), ..Default::default() };
    let assignments = by_hand.map(|by_hand| by_hand.iter().map(assignment).collect());
    let topic = CreatePartitionsTopic { name: Str::from(name), count, assignments, ..Default::default() };
    CreatePartitionsRequest { topics: vec![topic], timeout_ms: 60_000, ..Default::default() }
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_are_added_and_lead_at_once() {
    let cluster = Cluster::of(2, &[]).await;
    let mut wire = cluster.connect().await;
    let made = wire.create_topics(7, vec![placed("t", &[(0, &[1])])]).await;
    assert_eq!(made.topics[0].error_code, 0);
    let mut expected = vec![vec![1]];
    for version in 0..=3 {
        let count = expected.len() as i32 + 2;
        let mut only = more("t", count, None);
        only.validate_only = true;
        assert_eq!(wire.ask(version, &only).await.results[0].error_code, 0, "v{version}");
        assert_eq!(partitions(&mut wire, "t").await.unwrap(), expected, "v{version}: only validated");
        let answer = wire.ask(version, &more("t", count, Some(&[&[0], &[1]]))).await;
        assert_eq!(answer.results[0].error_code, 0, "v{version}: {answer:?}");
        expected.extend([vec![0], vec![1]]);
        assert_eq!(partitions(&mut wire, "t").await.unwrap(), expected, "v{version}");
    }
    assert_eq!(wire.ask(3, &more("t", 11, None)).await.results[0].error_code, 0);
    let spread = partitions(&mut wire, "t").await.unwrap();
    assert_eq!(spread[9..], [[0], [1]], "round robin goes on from the first leader");
    let leader = spread[10][0] as usize;
    // The answer came when the controller knew; its order to the other broker may be on its way yet.
    let mut leader = cluster.connect_to(leader).await;
    while leader.produce("t", 10, batch(&["v"])).await.error_code != 0 {}
}

#[tokio::test(flavor = "multi_thread")]
async fn partitions_that_cannot_be_added_are_refused_with_their_code() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 2, 1, &[]).await;
    use ErrorCode::*;
    for (why, request, expected, message) in [
        ("as many", more("t", 2, Option::None), InvalidPartitions, "Topic already has 2 partitions."),
        (
            "fewer",
            more("t", 1, Option::None),
            InvalidPartitions,
            "Topic currently has 2 partitions, which is higher than the requested 1.",
        ),
        ("unknown", more("u", 5, Option::None), UnknownTopicOrPartition, "The topic 'u' does not exist."),
        (
            "an unknown broker",
            more("t", 3, Some(&[&[9]])),
            InvalidReplicaAssignment,
            "Unknown broker(s) in replica assignment: 9.",
        ),
        (
            "too many places",
            more("t", 3, Some(&[&[0], &[0]])),
            InvalidReplicaAssignment,
            "Increasing the number of partitions by 1 but 2 assignments provided.",
        ),
        (
            "a broker twice",
            more("t", 3, Some(&[&[0, 0]])),
            InvalidReplicaAssignment,
            "Duplicate brokers not allowed in replica assignment: 0, 0 for partition id 2.",
        ),
        (
            "no replica",
            more("t", 3, Some(&[&[]])),
            InvalidReplicaAssignment,
            "Cannot have replication factor of 0 for partition id 2.",
        ),
    ] {
        let answer = wire.ask(3, &request).await;
        let result = &answer.results[0];
        assert_eq!(
            (error(result.error_code), result.error_message.as_deref()),
            (expected, Some(message)),
            "{why}"
        );
    }
    let mut twice = more("t", 3, Option::None);
    twice.topics.push(twice.topics[0].clone());
    let answer = wire.ask(3, &twice).await;
    assert_eq!((answer.results.len(), error(answer.results[0].error_code)), (1, InvalidRequest));
    assert_eq!(partitions(&mut wire, "t").await.unwrap().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_topic_is_gone_and_made_again_it_is_another() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    for version in 0..=6 {
        wire.create_topic("t", 2, 1, &[("retention.ms", "1000")]).await;
        wire.produce("t", 0, batch(&["old"])).await;
        let id = wire.topic_id("t").await;
        let mut request = DeleteTopicsRequest { timeout_ms: 60_000, ..Default::default() };
        if version >= 6 {
            request.topics = vec![
                DeleteTopicState { topic_id: id, ..Default::default() },
                DeleteTopicState { name: Some(Str::from("nope")), ..Default::default() },
            ];
        } else {
            request.topic_names = ["t", "nope"].map(Str::from).to_vec();
        }
        let answer = wire.ask(version, &request).await;
        let codes: Vec<ErrorCode> = answer.responses.iter().map(|row| error(row.error_code)).collect();
        assert_eq!(codes, [ErrorCode::None, ErrorCode::UnknownTopicOrPartition], "v{version}");
        assert_eq!(answer.responses[0].name.as_deref(), Some("t"), "v{version}");
        assert_eq!(partitions(&mut wire, "t").await, None, "v{version}");
        wire.create_topic("t", 1, 1, &[]).await;
        assert_ne!(wire.topic_id("t").await, id, "v{version}");
        assert!(wire.values("t", 0, 0).await.is_empty(), "v{version}: none of the old records");
        let again = DeleteTopicsRequest {
            topic_names: vec![Str::from("t")],
            timeout_ms: 60_000,
            ..Default::default()
        };
        assert_eq!(wire.ask(1, &again).await.responses[0].error_code, 0);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deletion_can_be_disabled() {
    let cluster = Cluster::start(&[("delete.topic.enable", "false")]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    for (version, expected) in [(2, ErrorCode::InvalidRequest), (3, ErrorCode::TopicDeletionDisabled)] {
        let topic_names = vec![Str::from("t")];
        let request = DeleteTopicsRequest { topic_names, timeout_ms: 1000, ..Default::default() };
        assert_eq!(error(wire.ask(version, &request).await.responses[0].error_code), expected, "v{version}");
    }
    assert!(partitions(&mut wire, "t").await.is_some());
}
