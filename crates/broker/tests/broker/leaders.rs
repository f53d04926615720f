//! Who leads: after a broker went, after it came back, and after somebody asked for the preferred order.

use ottla_protocol::messages::create_topics::{CreatableReplicaAssignment, CreatableTopic};
use ottla_protocol::messages::elect_leaders::{ElectLeadersRequest, TopicPartitions};
use ottla_protocol::messages::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponsePartition};
use ottla_protocol::{ErrorCode, Str};

use crate::cluster::{Cluster, error};
use crate::wire::Wire;

/// Asks until partition 0 is as wanted. Every question waits for its answer, so this does not spin faster than the broker.
async fn until(wire: &mut Wire, topic: &str, wanted: impl Fn(&MetadataResponsePartition) -> bool) {
    let topic = MetadataRequestTopic { name: Some(Str::from(topic)), ..Default::default() };
    let request = MetadataRequest { topics: Some(vec![topic]), ..Default::default() };
    loop {
        let answer = wire.ask(9, &request).await;
        if wanted(&answer.topics[0].partitions[0]) {
            return;
        }
    }
}

async fn elect(
    wire: &mut Wire,
    version: i16,
    named: Option<&[(&str, i32)]>,
) -> Vec<(String, i32, ErrorCode)> {
    let topic = |(topic, partition): &(&str, i32)| TopicPartitions {
        topic: Str::from(*topic),
        partitions: vec![*partition],
        ..Default::default()
    };
    let topic_partitions = named.map(|named| named.iter().map(topic).collect());
    let answer = wire.ask(version, &ElectLeadersRequest { topic_partitions, ..Default::default() }).await;
    let results = answer.replica_election_results.iter().flat_map(|topic| {
        topic
            .partition_result
            .iter()
            .map(|partition| (topic.topic.to_string(), partition.partition_id, error(partition.error_code)))
    });
    results.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_comes_back_leads_again_when_asked() {
    let mut cluster = Cluster::of(2, &[("auto.leader.rebalance.enable", "false")]).await;
    let mut wire = cluster.connect().await;
    let assignment =
        CreatableReplicaAssignment { partition_index: 0, broker_ids: vec![1, 0], ..Default::default() };
    let topic = CreatableTopic {
        name: Str::from("t"),
        num_partitions: -1,
        replication_factor: -1,
        assignments: vec![assignment],
        ..Default::default()
    };
    assert_eq!(wire.create_topics(5, vec![topic]).await.topics[0].error_code, 0);
    until(&mut wire, "t", |partition| partition.leader_id == 1).await;

    cluster.stop_broker(1).await;
    until(&mut wire, "t", |partition| partition.leader_id == 0).await;
    let outcome = elect(&mut wire, 2, Some(&[("t", 0)])).await;
    assert_eq!(outcome, [("t".to_owned(), 0, ErrorCode::PreferredLeaderNotAvailable)]);

    cluster.start_broker(1).await;
    until(&mut wire, "t", |partition| partition.isr_nodes.len() == 2).await;
    let outcome = elect(&mut wire, 2, Some(&[("t", 0), ("t", 7), ("nothing", 0)])).await;
    assert_eq!(
        outcome,
        [
            ("nothing".to_owned(), 0, ErrorCode::UnknownTopicOrPartition),
            ("t".to_owned(), 0, ErrorCode::None),
            ("t".to_owned(), 7, ErrorCode::UnknownTopicOrPartition),
        ]
    );
    until(&mut wire, "t", |partition| partition.leader_id == 1).await;

    let outcome = elect(&mut wire, 0, Some(&[("t", 0)])).await;
    assert_eq!(outcome, [("t".to_owned(), 0, ErrorCode::ElectionNotNeeded)]);
    assert_eq!(
        elect(&mut wire, 1, None).await,
        [],
        "where all are meant, those that need no election are left out"
    );
    let mut other = cluster.connect_to(1).await;
    assert_eq!(
        elect(&mut other, 2, Some(&[("t", 0)])).await,
        [("t".to_owned(), 0, ErrorCode::NotController)]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_broker_that_has_started_knows_the_cluster() {
    let mut cluster = Cluster::of(2, &[]).await;
    for turn in 0..8 {
        cluster.restart_broker(1).await;
        let answer = cluster.connect_to(1).await.ask(9, &MetadataRequest::default()).await;
        assert!(answer.brokers.iter().any(|broker| broker.node_id == 1), "turn {turn}: {:?}", answer.brokers);
        assert_eq!(answer.controller_id, 0, "turn {turn}");
    }
}
