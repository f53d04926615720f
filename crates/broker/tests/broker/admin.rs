//! DeleteRecords, OffsetForLeaderEpoch, log dirs, producers, and what is not there.

use ottla_model::{ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::messages::alter_replica_log_dirs::{
    AlterReplicaLogDir, AlterReplicaLogDirTopic, AlterReplicaLogDirsRequest,
};
use ottla_protocol::messages::delete_records::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use ottla_protocol::messages::describe_acls::DescribeAclsRequest;
use ottla_protocol::messages::describe_log_dirs::{DescribableLogDirTopic, DescribeLogDirsRequest};
use ottla_protocol::messages::describe_producers::{DescribeProducersRequest, TopicRequest};
use ottla_protocol::messages::list_partition_reassignments::ListPartitionReassignmentsRequest;
use ottla_protocol::messages::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use ottla_protocol::records::{BatchBuilder, ProducerState};
use ottla_protocol::{ErrorCode, Str};

use crate::cluster::{Cluster, batch, error, fetch_request};
use crate::wire::Wire;

/// The new low watermark, or what went wrong.
async fn delete_records(
    wire: &mut Wire,
    version: i16,
    topic: &str,
    partition_index: i32,
    offset: i64,
) -> Result<i64, ErrorCode> {
    let partitions = vec![DeleteRecordsPartition { partition_index, offset, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: Str::from(topic), partitions, ..Default::default() }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 60_000, ..Default::default() };
    let answer = wire.ask(version, &request).await;
    let row = &answer.topics[0].partitions[0];
    match error(row.error_code) {
        ErrorCode::None => Ok(row.low_watermark),
        refused => Err(refused),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_records_are_read_no_more() {
    let mut cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    wire.create_topic("compacted", 1, 1, &[("cleanup.policy", "compact")]).await;
    wire.produce("t", 0, batch(&["0", "1", "2", "3"])).await;
    use ErrorCode::*;
    for version in 0..=2 {
        for (why, topic, partition, offset, expected) in [
            ("into the middle of a batch", "t", 0, 2, Ok(2)),
            ("back: what is gone is gone", "t", 0, 1, Ok(2)),
            ("beyond what is committed", "t", 0, 5, Err(OffsetOutOfRange)),
            ("before everything", "t", 0, -2, Err(OffsetOutOfRange)),
            ("an unknown partition", "t", 9, 0, Err(UnknownTopicOrPartition)),
            ("an unknown topic", "nope", 0, 0, Err(UnknownTopicOrPartition)),
            ("a topic that is compacted", "compacted", 0, 0, Err(PolicyViolation)),
        ] {
            assert_eq!(
                delete_records(&mut wire, version, topic, partition, offset).await,
                expected,
                "{why} v{version}"
            );
        }
    }
    let gone = wire.ask(5, &fetch_request("t", &[(0, 1)])).await;
    let gone = &gone.responses[0].partitions[0];
    assert_eq!((error(gone.error_code), gone.log_start_offset), (OffsetOutOfRange, 2));
    assert_eq!(wire.values("t", 0, 2).await.last().map(String::as_str), Some("3"));

    assert_eq!(delete_records(&mut wire, 2, "t", 0, -1).await, Ok(4), "to the high watermark");
    assert!(wire.values("t", 0, 4).await.is_empty());
    cluster.restart_broker(0).await;
    let mut wire = cluster.connect().await;
    let still_gone = wire.ask(5, &fetch_request("t", &[(0, 3)])).await;
    assert_eq!(still_gone.responses[0].partitions[0].log_start_offset, 4, "after a restart as well");
    assert_eq!(wire.produce("t", 0, batch(&["4"])).await.base_offset, 4);
}

/// The answer is the lowest start of all replicas, so it has waited for the follower.
#[tokio::test(flavor = "multi_thread")]
async fn deletion_is_answered_when_the_followers_have_followed() {
    let cluster = Cluster::of(2, &[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 2, 2, &[]).await;
    let mut brokers = [wire, cluster.connect_to(1).await];
    for partition in 0..2 {
        // The one that leads may not have heard of it yet, so whoever refuses is asked again after the other.
        let mut leader = 0;
        while brokers[leader].produce("t", partition, batch(&["0", "1", "2"])).await.error_code != 0 {
            leader = 1 - leader;
        }
        assert_eq!(delete_records(&mut brokers[leader], 2, "t", partition, 2).await, Ok(2));
        let refused = delete_records(&mut brokers[1 - leader], 2, "t", partition, 2).await;
        assert_eq!(refused, Err(ErrorCode::NotLeaderOrFollower), "it follows, as the answer above shows");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn epochs_end_where_the_log_says() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    wire.produce("t", 0, batch(&["0", "1", "2"])).await;
    for version in 0..=4 {
        let fenced = if version < 2 { ErrorCode::None } else { ErrorCode::UnknownLeaderEpoch };
        for (why, topic, current, epoch, code, end) in [
            ("the epoch it is", "t", -1, 0, ErrorCode::None, 3),
            ("an epoch to come", "t", -1, 1, ErrorCode::None, -1),
            ("no epoch", "t", -1, -1, ErrorCode::None, -1),
            ("believing in another", "t", 4, 0, fenced, if version < 2 { 3 } else { -1 }),
            ("an unknown topic", "nope", -1, 0, ErrorCode::UnknownTopicOrPartition, -1),
        ] {
            let partition = OffsetForLeaderPartition {
                current_leader_epoch: current,
                leader_epoch: epoch,
                ..Default::default()
            };
            let topics = vec![OffsetForLeaderTopic {
                topic: Str::from(topic),
                partitions: vec![partition],
                ..Default::default()
            }];
            let request = OffsetForLeaderEpochRequest { topics, ..Default::default() };
            let answer = wire.ask(version, &request).await;
            let row = &answer.topics[0].partitions[0];
            assert_eq!((error(row.error_code), row.end_offset), (code, end), "{why} v{version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn log_dirs_tell_what_lies_in_them() {
    let dirs = tempfile::tempdir().unwrap();
    let (one, two) = (dirs.path().join("one"), dirs.path().join("two"));
    let both = format!("{},{}", one.display(), two.display());
    let cluster = Cluster::start(&[("log.dirs", &both)]).await;
    let mut wire = cluster.connect().await;
    let place = |path: &std::path::Path, topic: &str, partition| AlterReplicaLogDirsRequest {
        dirs: vec![AlterReplicaLogDir {
            path: Str::from(path.to_str().unwrap()),
            topics: vec![AlterReplicaLogDirTopic {
                name: Str::from(topic),
                partitions: vec![partition],
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    for (why, path, topic, partition, expected) in [
        ("yet to come", &two, "t", 0, ErrorCode::ReplicaNotAvailable),
        ("yet to come, the other one too", &two, "t", 1, ErrorCode::ReplicaNotAvailable),
        ("no log dir of ours", &dirs.path().join("three"), "t", 0, ErrorCode::LogDirNotFound),
        ("an impossible name", &two, "a b", 0, ErrorCode::InvalidTopicException),
    ] {
        for version in 0..=2 {
            let answer = wire.ask(version, &place(path, topic, partition)).await;
            assert_eq!(error(answer.results[0].partitions[0].error_code), expected, "{why}");
        }
    }
    wire.create_topic("t", 2, 1, &[]).await;
    let size = batch(&["v"]).len() as i64;
    wire.produce("t", 1, batch(&["v"])).await;
    for (why, path, expected) in
        [("is there", &two, ErrorCode::None), ("is elsewhere", &one, ErrorCode::UnsupportedVersion)]
    {
        let answer = wire.ask(2, &place(path, "t", 0)).await;
        assert_eq!(error(answer.results[0].partitions[0].error_code), expected, "{why}");
    }
    for version in 0..=4 {
        let asked = |partitions: &[i32]| {
            let partitions = partitions.to_vec();
            DescribeLogDirsRequest {
                topics: Some(vec![DescribableLogDirTopic {
                    topic: Str::from("t"),
                    partitions,
                    ..Default::default()
                }]),
                ..Default::default()
            }
        };
        let all = wire.ask(version, &DescribeLogDirsRequest::default()).await;
        let found: Vec<(&str, Vec<(i32, i64)>)> = all
            .results
            .iter()
            .map(|dir| {
                let partitions = dir.topics.iter().flat_map(|topic| &topic.partitions);
                (&*dir.log_dir, partitions.map(|row| (row.partition_index, row.partition_size)).collect())
            })
            .collect();
        let expected = [(one.to_str().unwrap(), vec![]), (two.to_str().unwrap(), vec![(0, 0), (1, size)])];
        let mut found = found;
        found.iter_mut().for_each(|(_, partitions)| partitions.sort());
        assert_eq!(found, expected, "v{version}: both where they were wanted");
        let total = all.results[0].total_bytes;
        assert_eq!(total > 0, version >= 4, "v{version}: {total}");
        let some = wire.ask(version, &asked(&[1, 9])).await;
        assert_eq!(some.results[1].topics[0].partitions.len(), 1, "v{version}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn producers_are_remembered_by_partition() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 2, 1, &[]).await;
    let mut builder = BatchBuilder::new();
    builder.set_producer(ProducerState { id: ProducerId(4711), epoch: ProducerEpoch(3), base_sequence: 0 });
    builder.append(Timestamp(1), None, Some(b"0"), &[]);
    builder.append(Timestamp(2), None, Some(b"1"), &[]);
    assert_eq!(wire.produce("t", 1, builder.finish()).await.error_code, 0);
    let topic = |name: &str, indexes: &[i32]| TopicRequest {
        name: Str::from(name),
        partition_indexes: indexes.to_vec(),
        ..Default::default()
    };
    let request = DescribeProducersRequest {
        topics: vec![topic("t", &[0, 1, 9]), topic("a b", &[0])],
        ..Default::default()
    };
    let answer = wire.ask(0, &request).await;
    let [none, one, unknown] = &answer.topics[0].partitions[..] else { panic!("three were asked for") };
    assert!(none.active_producers.is_empty());
    let producer = &one.active_producers[0];
    assert_eq!((producer.producer_id, producer.producer_epoch, producer.last_sequence), (4711, 3, 1));
    assert_eq!((producer.last_timestamp, producer.current_txn_start_offset), (2, -1));
    assert_eq!(error(unknown.error_code), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(error(answer.topics[1].partitions[0].error_code), ErrorCode::InvalidTopicException);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_says_so() {
    let cluster = Cluster::of(2, &[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    for version in 0..=3 {
        let acls = wire.ask(version, &DescribeAclsRequest::default()).await;
        assert_eq!(error(acls.error_code), ErrorCode::SecurityDisabled, "v{version}");
        assert_eq!(acls.error_message.as_deref(), Some("No Authorizer is configured on the broker"));
    }
    let moving = wire.ask(0, &ListPartitionReassignmentsRequest::default()).await;
    assert_eq!((moving.error_code, moving.topics.len()), (0, 0));
    let other = cluster.connect_to(1).await.ask(0, &ListPartitionReassignmentsRequest::default()).await;
    assert_eq!(error(other.error_code), ErrorCode::NotController);
}
