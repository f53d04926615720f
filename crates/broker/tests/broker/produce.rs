//! Produce, in every version and format.

use bytes::Bytes;
use ottla_model::{Offset, ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::Codec;
use ottla_protocol::messages::api_versions::ApiVersionsRequest;
use ottla_protocol::messages::init_producer_id::InitProducerIdRequest;
use ottla_protocol::messages::produce::ProduceRequest;
use ottla_protocol::records::{BatchBuilder, Magic, MessageSetBuilder, ProducerState};

use crate::cluster::{Cluster, batch, error, produce_request};
use crate::wire::Wire;

/// A set as clients of the version send it.
fn set(version: i16, codec: Codec, values: &[&str]) -> Bytes {
    if version >= 3 {
        let mut builder = BatchBuilder::new().with_compression(codec);
        for value in values {
            builder.append(Timestamp(1000), None, Some(value.as_bytes()), &[]);
        }
        return builder.finish();
    }
    let magic = if version == 2 { Magic::V1 } else { Magic::V0 };
    let mut builder = MessageSetBuilder::new(magic, codec);
    for (offset, value) in (0..).zip(values) {
        builder.append(Offset(offset), Timestamp(1000), None, Some(value.as_bytes()));
    }
    builder.finish()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_any_client_of_any_age_sends_is_read_back() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    let mut end = 0;
    for (version, codec) in [
        (0, Codec::None),
        (0, Codec::Gzip),
        (0, Codec::Snappy),
        (0, Codec::Lz4),
        (1, Codec::None),
        (2, Codec::None),
        (2, Codec::Gzip),
        (2, Codec::Snappy),
        (2, Codec::Lz4),
        (3, Codec::None),
        (4, Codec::Gzip),
        (5, Codec::Snappy),
        (6, Codec::Lz4),
        (7, Codec::Zstd),
        (9, Codec::Zstd),
        (11, Codec::None),
    ] {
        let (one, two) = (format!("{codec:?}-{version}"), "second".to_owned());
        let answer = wire.produce_with(version, -1, "t", 0, set(version, codec, &[&one, &two])).await;
        let why = format!("v{version} {codec:?}");
        assert_eq!((error(answer.error_code), answer.base_offset), (ErrorCode::None, end), "{why}");
        assert_eq!(wire.values("t", 0, end).await, [one, two], "{why}");
        end += 2;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_appended_is_refused_with_its_code() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    wire.create_topic("compacted", 1, 1, &[("cleanup.policy", "compact")]).await;
    wire.create_topic("recent", 1, 1, &[("message.timestamp.before.max.ms", "1000")]).await;
    let good = || batch(&["v"]);
    let damaged = {
        let mut bytes = good().to_vec();
        *bytes.last_mut().unwrap() ^= 1;
        Bytes::from(bytes)
    };
    let old = || set(2, Codec::None, &["v"]);
    let control = {
        let mut builder = BatchBuilder::new().with_control(true);
        builder.append(Timestamp(1), Some(&[0, 0, 0, 1]), Some(b"v"), &[]);
        builder.finish()
    };
    let large = || batch(&[&"x".repeat(1_100_000)]);
    for (why, version, acks, topic, partition, records, expected) in [
        ("a checksum that is wrong", 3, 1, "t", 0, damaged, ErrorCode::CorruptMessage),
        ("garbage", 3, 1, "t", 0, Bytes::from_static(&[0xff; 80]), ErrorCode::CorruptMessage),
        ("an unknown topic", 3, 1, "nope", 0, good(), ErrorCode::UnknownTopicOrPartition),
        ("an unknown partition", 3, 1, "t", 1, good(), ErrorCode::UnknownTopicOrPartition),
        ("a negative partition", 0, 1, "t", -1, old(), ErrorCode::UnknownTopicOrPartition),
        ("an impossible name", 3, 1, "a b", 0, good(), ErrorCode::UnknownTopicOrPartition),
        ("too large", 3, 1, "t", 0, large(), ErrorCode::MessageTooLarge),
        ("acks of 2", 3, 2, "t", 0, good(), ErrorCode::InvalidRequiredAcks),
        ("zstd before v7", 6, 1, "t", 0, set(6, Codec::Zstd, &["v"]), ErrorCode::UnsupportedCompressionType),
        ("an old format in a new version", 3, 1, "t", 0, old(), ErrorCode::InvalidRecord),
        ("nothing", 3, 1, "t", 0, Bytes::new(), ErrorCode::InvalidRecord),
        ("two batches", 3, 1, "t", 0, [good(), good()].concat().into(), ErrorCode::InvalidRecord),
        ("a marker", 3, 1, "t", 0, control, ErrorCode::InvalidRecord),
        ("no key for a compacted topic", 3, 1, "compacted", 0, good(), ErrorCode::InvalidRecord),
        ("too old a timestamp", 3, 1, "recent", 0, good(), ErrorCode::InvalidTimestamp),
    ] {
        let answer = wire.produce_with(version, acks, topic, partition, records).await;
        assert_eq!((error(answer.error_code), answer.base_offset), (expected, -1), "{why}");
    }
    assert!(wire.values("t", 0, 0).await.is_empty(), "nothing of it was appended");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_record_that_is_to_blame_is_named_from_v8_on() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[("cleanup.policy", "compact")]).await;
    let mut builder = BatchBuilder::new();
    for key in [None, Some(b"k".as_slice()), None] {
        builder.append(Timestamp(1), key, Some(b"v"), &[]);
    }
    for version in 8..=11 {
        let answer = wire.produce_with(version, 1, "t", 0, builder.clone().finish()).await;
        let blamed: Vec<i32> = answer.record_errors.iter().map(|error| error.batch_index).collect();
        assert_eq!(blamed, [0, 2], "v{version}");
        assert_eq!(
            answer.record_errors[0].batch_index_error_message.as_deref(),
            Some("Compacted topic cannot accept message without key in topic partition t-0"),
        );
        assert!(answer.error_message.is_some(), "v{version}");
    }
}

/// Whoever wants no answer hears of a failure by the end of the connection, and of success by nothing at all.
#[tokio::test(flavor = "multi_thread")]
async fn acks_0_is_silent_until_something_fails() {
    let cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    for version in [0, 3, 11] {
        let send = |wire: &mut Wire, topic: &str| {
            let request = produce_request(0, topic, 0, set(version, Codec::None, &["v"]));
            wire.encode_unanswered::<ProduceRequest>(version, &request)
        };
        let (good, bad) = (send(&mut wire, "t"), send(&mut wire, "nope"));
        wire.write(&good).await;
        wire.ask(0, &ApiVersionsRequest::default()).await;
        wire.write(&bad).await;
        assert!(wire.frame().await.is_none(), "v{version}");
        wire = cluster.connect().await;
    }
    assert_eq!(wire.values("t", 0, 0).await.len(), 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_idempotent_producer_is_known_after_a_restart() {
    let mut cluster = Cluster::start(&[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 1, 1, &[]).await;
    let id = wire.ask(4, &InitProducerIdRequest::default()).await;
    assert_eq!((id.error_code, id.producer_epoch), (0, 0));
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap();
    let now = Timestamp(since_1970.as_millis() as i64);
    let sent = |epoch: i16, base_sequence: i32| {
        let mut builder = BatchBuilder::new();
        let (id, epoch) = (ProducerId(id.producer_id), ProducerEpoch(epoch));
        builder.set_producer(ProducerState { id, epoch, base_sequence });
        // Of today: by the time of their records producers are forgotten.
        builder.append(now, None, Some(b"v"), &[]);
        builder.finish()
    };
    for sequence in 0..3 {
        assert_eq!(wire.produce("t", 0, sent(0, sequence)).await.base_offset, i64::from(sequence));
    }
    assert_eq!(wire.produce("t", 0, sent(0, 0)).await.base_offset, 0, "the oldest, sent again");
    // Across a restart the last batch of each producer is remembered.
    cluster.restart_broker(0).await;
    let mut wire = cluster.connect().await;
    for (why, records, expected, offset) in [
        ("sent again", sent(0, 2), ErrorCode::None, 2),
        ("one lost before it", sent(0, 4), ErrorCode::OutOfOrderSequenceNumber, -1),
        ("a new life does not begin at 0", sent(1, 3), ErrorCode::OutOfOrderSequenceNumber, -1),
        ("the next", sent(0, 3), ErrorCode::None, 3),
        ("a new life", sent(1, 0), ErrorCode::None, 4),
        ("from its former life", sent(0, 4), ErrorCode::InvalidProducerEpoch, -1),
    ] {
        let answer = wire.produce("t", 0, records).await;
        assert_eq!((error(answer.error_code), answer.base_offset), (expected, offset), "{why}");
    }
    assert_eq!(wire.values("t", 0, 0).await.len(), 5);
    let next = wire.ask(4, &InitProducerIdRequest::default()).await;
    assert_ne!(next.producer_id, id.producer_id, "ids are given out once");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_wrong_broker_names_the_right_one() {
    let cluster = Cluster::of(2, &[]).await;
    let mut wire = cluster.connect().await;
    wire.create_topic("t", 2, 1, &[]).await;
    for id in 0..2 {
        let mut wire = cluster.connect_to(id).await;
        for version in [3, 9, 10, 11] {
            for partition in 0..2 {
                let answer = wire.ask(version, &produce_request(1, "t", partition, batch(&["v"]))).await;
                let row = &answer.responses[0].partition_responses[0];
                if error(row.error_code) == ErrorCode::NotLeaderOrFollower && version >= 10 {
                    let leader = row.current_leader.leader_id;
                    assert_eq!(leader, 1 - id as i32, "v{version}");
                    let address = cluster.address(leader as usize);
                    let told = &answer.node_endpoints[0];
                    assert_eq!((told.node_id, told.port), (leader, address.port().into()), "v{version}");
                }
            }
        }
    }
}
