//! ListOffsets: landmarks and times.

use ottla_model::Timestamp;
use ottla_protocol::compression::Codec;
use ottla_protocol::messages::list_offsets::{
    ListOffsetsPartition, ListOffsetsPartitionResponse, ListOffsetsRequest, ListOffsetsTopic,
};
use ottla_protocol::records::BatchBuilder;
use ottla_protocol::{ErrorCode, Str};

use crate::cluster::{Cluster, error};
use crate::wire::Wire;

fn request(topic: &str, timestamps: &[i64]) -> ListOffsetsRequest {
    let partition = |timestamp: &i64| ListOffsetsPartition { timestamp: *timestamp, ..Default::default() };
    let partitions = timestamps.iter().map(partition).collect();
    let topics = vec![ListOffsetsTopic { name: Str::from(topic), partitions, ..Default::default() }];
    ListOffsetsRequest { replica_id: -1, topics, ..Default::default() }
}

async fn look_up(wire: &mut Wire, version: i16, topic: &str, timestamp: i64) -> ListOffsetsPartitionResponse {
    let mut answer = wire.ask(version, &request(topic, &[timestamp])).await;
    answer.topics.remove(0).partitions.remove(0)
}

/// Records stamped as given, in batches as given.
async fn write(wire: &mut Wire, topic: &str, batches: &[&[i64]], codec: Codec) {
    for batch in batches {
        let mut builder = BatchBuilder::new().with_compression(codec);
        for timestamp in *batch {
            builder.append(Timestamp(*timestamp), None, Some(b"v"), &[]);
        }
        wire.produce(topic, 0, builder.finish()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_record_that_is_young_enough_is_found() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    for (topic, batches, codec) in [
        ("one-batch", vec![&[2, 4, 6, 8][..]], Codec::None),
        ("four-batches", vec![&[2][..], &[4], &[6], &[8]], Codec::None),
        ("compressed", vec![&[2, 4][..], &[6, 8]], Codec::Gzip),
    ] {
        wire.create_topic(topic, 1, 1, &[]).await;
        write(&mut wire, topic, &batches, codec).await;
        for version in 1..=10 {
            for (asked, offset, timestamp) in [(0, 0, 2), (2, 0, 2), (3, 1, 4), (8, 3, 8), (9, -1, -1)] {
                let found = look_up(&mut wire, version, topic, asked).await;
                assert_eq!(
                    (error(found.error_code), found.offset, found.timestamp),
                    (ErrorCode::None, offset, timestamp),
                    "{topic} v{version} {asked}"
                );
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn landmarks_are_told_from_the_version_that_knows_them() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    write(&mut wire, "t", &[&[5, 9], &[9, 7]], Codec::None).await;
    for version in 1..=10 {
        for (why, asked, since, offset, timestamp) in [
            ("latest", -1, 1, 4, -1),
            ("earliest", -2, 1, 0, -1),
            ("the first with the maximum timestamp", -3, 7, 1, 9),
            ("earliest local", -4, 8, 0, -1),
            ("latest tiered", -5, 9, -1, -1),
            ("no landmark", -9, i16::MAX, -1, -1),
        ] {
            let found = look_up(&mut wire, version, "t", asked).await;
            let expected = if version >= since {
                (ErrorCode::None, offset, timestamp)
            } else {
                (ErrorCode::UnsupportedVersion, -1, -1)
            };
            assert_eq!(
                (error(found.error_code), found.offset, found.timestamp),
                expected,
                "{why} v{version}"
            );
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn v0_lists_segments_newest_first() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[("segment.bytes", "100")]).await;
    write(&mut wire, "t", &[&[1, 2], &[3, 4], &[5, 6]], Codec::None).await;
    for (why, timestamp, limit, expected) in [
        ("the end", -1, 1, vec![6]),
        ("everything", -1, 9, vec![6, 4, 2, 0]),
        ("the beginning", -2, 9, vec![0]),
        ("none", -1, 0, vec![]),
    ] {
        let mut request = request("t", &[timestamp]);
        request.topics[0].partitions[0].max_num_offsets = limit;
        let answer = wire.ask(0, &request).await;
        assert_eq!(answer.topics[0].partitions[0].old_style_offsets, expected, "{why}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn asked_twice_it_is_refused_twice() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    for version in 0..=10 {
        let answer = wire.ask(version, &request("t", &[-1, -2])).await;
        let expected = if version == 0 { ErrorCode::None } else { ErrorCode::InvalidRequest };
        for row in &answer.topics[0].partitions {
            assert_eq!(error(row.error_code), expected, "v{version}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_empty_topic_has_an_end_and_no_times() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    for (asked, offset) in [(-1, 0), (-2, 0), (-3, -1), (0, -1)] {
        let found = look_up(&mut wire, 7, "t", asked).await;
        assert_eq!((found.error_code, found.offset, found.timestamp), (0, offset, -1), "{asked}");
    }
}
