use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_client::{
    Acks, ClientError, ProduceError, Producer, ProducerOptions, ProducerRecord, partition_for_key,
};
use ottla_model::{Offset, TopicName};
use ottla_protocol::compression::Codec;
use ottla_protocol::records::{Magic, RecordHeader};
use ottla_protocol::{ApiKey, ErrorCode};
use parking_lot::Mutex;
use tokio::time::timeout;

use crate::cluster::{Cluster, Era, Fault, PATIENCE, topic};

fn small_batches() -> ProducerOptions {
    // Three records of ten bytes or so.
    ProducerOptions { batch_bytes: 120, ..ProducerOptions::default() }
}

fn record<'a>(topic: &'a TopicName, partition: i32, value: &'a str) -> ProducerRecord<'a> {
    ProducerRecord { partition: Some(partition), ..ProducerRecord::new(topic, None, Some(value.as_bytes())) }
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("record {number:04}")).collect()
}

/// Sends the values to partition 0 and waits for all of them.
async fn send_all(producer: &Producer, values: &[String]) -> Vec<Result<Option<Offset>, ProduceError>> {
    let topic = topic();
    let mut deliveries = Vec::new();
    for value in values {
        deliveries.push(producer.send(record(&topic, 0, value)).await.unwrap());
    }
    timeout(PATIENCE, producer.flush()).await.expect("flush ends");
    deliveries
        .iter()
        .map(|delivery| delivery.outcome().expect("flush waits for all").map(|written| written.offset))
        .collect()
}

#[tokio::test]
async fn whatever_fails_on_the_way_each_record_is_written_once_and_in_order() {
    use Fault::{HangUp, LoseAnswer, Nothing, Refuse};
    let stale = Refuse(ErrorCode::NotLeaderOrFollower);
    let scarce = Refuse(ErrorCode::NotEnoughReplicas);
    for (why, faults) in [
        ("nothing fails", vec![]),
        ("the first answer is lost", vec![LoseAnswer]),
        ("an answer is lost while others are in flight", vec![Nothing, LoseAnswer, Nothing, LoseAnswer]),
        ("the broker hangs up on a request", vec![Nothing, HangUp, Nothing, HangUp]),
        (
            "a refusal makes those behind it come too early",
            vec![Nothing, stale.clone(), Nothing, scarce.clone()],
        ),
        ("the very first batch is refused", vec![stale.clone(), stale.clone()]),
        ("refused many times over", vec![scarce.clone(); 12]),
        (
            "everything at once",
            vec![LoseAnswer, stale, HangUp, Nothing, LoseAnswer, scarce, Nothing, HangUp, LoseAnswer],
        ),
    ] {
        let cluster = Cluster::start(1, 1).await;
        cluster.script(ApiKey::Produce, faults);
        let producer = Producer::start(cluster.client().await, small_batches()).unwrap();
        let values = numbered(200);
        let outcomes = send_all(&producer, &values).await;
        let expected: Vec<Option<Offset>> = (0..200).map(|offset| Some(Offset(offset))).collect();
        let offsets: Vec<Option<Offset>> = outcomes.into_iter().map(Result::unwrap).collect();
        assert_eq!(offsets, expected, "{why}: every record learns its own offset");
        assert_eq!(cluster.state.lock().logs[0].values(), values, "{why}");
        assert_eq!(cluster.state.lock().next_producer_id, 1001, "{why}: no reason for another producer id");
        producer.close().await;
    }
}

#[tokio::test]
async fn a_leader_that_moves_is_followed() {
    let cluster = Cluster::start(3, 1).await;
    let producer = Producer::start(cluster.client().await, small_batches()).unwrap();
    let values = numbered(90);
    for (leader, values) in values.chunks(30).enumerate() {
        cluster.state.lock().leaders[0] = leader;
        assert!(send_all(&producer, values).await.iter().all(Result::is_ok));
    }
    assert_eq!(cluster.state.lock().logs[0].values(), values);
}

#[tokio::test]
async fn one_bad_batch_does_not_take_the_others_with_it() {
    let cluster = Cluster::start(1, 1).await;
    cluster.script(ApiKey::Produce, [Fault::Nothing, Fault::Refuse(ErrorCode::InvalidRecord)]);
    let producer = Producer::start(cluster.client().await, small_batches()).unwrap();
    let values = numbered(60);
    let outcomes = send_all(&producer, &values).await;
    let written: Vec<String> = values
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(value, _)| value.clone())
        .collect();
    assert!(written.len() < values.len(), "one batch was refused");
    let refused = outcomes.iter().find_map(|outcome| outcome.as_ref().err()).unwrap();
    assert!(matches!(refused, ProduceError::Refused { code: ErrorCode::InvalidRecord, .. }), "{refused}");
    assert_eq!(cluster.state.lock().logs[0].values(), written, "the rest is there, once and in order");
    assert!(cluster.state.lock().next_producer_id > 1001, "the numbers went on under a new producer id");
}

#[tokio::test]
async fn batches_too_large_for_the_topic_are_split_and_records_too_large_refused() {
    for codec in [Codec::None, Codec::Lz4] {
        let cluster = Cluster::start(1, 1).await;
        cluster.state.lock().batch_bytes_max = 150;
        let options =
            ProducerOptions { batch_bytes: 1000, compression: codec.into(), ..ProducerOptions::default() };
        let producer = Producer::start(cluster.client().await, options).unwrap();
        let mut values: Vec<String> = (0..200u64)
            .map(|number| format!("{number:04} {:016x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)))
            .collect();
        let large = (0..60u64).map(|number| format!("{:x}", number.wrapping_mul(0x9e37_79b9_7f4a_7c15)));
        values.insert(77, large.collect());
        let outcomes = send_all(&producer, &values).await;
        let error = outcomes[77].as_ref().unwrap_err();
        assert!(
            matches!(error, ProduceError::Refused { code: ErrorCode::MessageTooLarge, .. }),
            "{codec}: {error}"
        );
        values.remove(77);
        assert_eq!(cluster.state.lock().logs[0].values(), values, "{codec}: all others, once and in order");
        let offsets: Vec<Option<Offset>> = outcomes.into_iter().filter_map(Result::ok).collect();
        let expected: Vec<Option<Offset>> = (0..200).map(|offset| Some(Offset(offset))).collect();
        assert_eq!(offsets, expected, "{codec}: every record learns its own offset");
    }
}

#[tokio::test]
async fn a_forgotten_producer_id_is_replaced() {
    let cluster = Cluster::start(1, 1).await;
    let producer = Producer::start(cluster.client().await, small_batches()).unwrap();
    let values = numbered(30);
    assert!(send_all(&producer, &values[..15]).await.iter().all(Result::is_ok));
    cluster.script(ApiKey::Produce, [Fault::Refuse(ErrorCode::UnknownProducerId)]);
    assert!(send_all(&producer, &values[15..]).await.iter().all(Result::is_ok));
    assert_eq!(cluster.state.lock().logs[0].values(), values);
}

#[tokio::test]
async fn the_producer_starts_when_a_producer_id_can_be_had() {
    let cluster = Cluster::start(1, 1).await;
    let loading = Fault::Refuse(ErrorCode::CoordinatorLoadInProgress);
    cluster.script(ApiKey::InitProducerId, vec![loading; 3]);
    let producer = Producer::start(cluster.client().await, ProducerOptions::default()).unwrap();
    assert_eq!(send_all(&producer, &numbered(1)).await, [Ok(Some(Offset(0)))]);
}

#[tokio::test]
async fn without_permission_for_idempotence_the_producer_does_without() {
    let cluster = Cluster::start(1, 1).await;
    cluster.script(ApiKey::InitProducerId, [Fault::Refuse(ErrorCode::ClusterAuthorizationFailed)]);
    let producer = Producer::start(cluster.client().await, ProducerOptions::default()).unwrap();
    assert_eq!(send_all(&producer, &numbered(1)).await, [Ok(Some(Offset(0)))]);
}

#[tokio::test]
async fn asked_for_idempotence_the_producer_does_not_do_without() {
    let cluster = Cluster::start(1, 1).await;
    let refused = Fault::Refuse(ErrorCode::ClusterAuthorizationFailed);
    cluster.script(ApiKey::InitProducerId, vec![refused; 10_000]);
    let options = ProducerOptions { idempotence: Some(true), ..ProducerOptions::default() };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let outcomes = send_all(&producer, &numbered(1)).await;
    assert!(matches!(&outcomes[..], [Err(ProduceError::Client(error))]
        if matches!(**error, ClientError::Refused { code: ErrorCode::ClusterAuthorizationFailed, .. })));

    let options =
        ProducerOptions { idempotence: Some(true), acks: Acks::Leader, ..ProducerOptions::default() };
    let error = Producer::start(cluster.client().await, options).unwrap_err();
    assert!(matches!(error, ProduceError::IdempotenceImpossible { .. }));
}

#[tokio::test]
async fn old_brokers_get_the_format_they_know() {
    for (why, era, versions, magic) in [
        ("0.8 and 0.9", Era::HangsUp, 0..=0, Magic::V0),
        ("0.10", Era::Negotiates { api_versions_max: 0 }, 0..=2, Magic::V1),
        ("0.11", Era::Negotiates { api_versions_max: 1 }, 0..=3, Magic::V2),
    ] {
        for codec in [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4] {
            let cluster = Cluster::start(1, 1).await;
            cluster.state.lock().era = era.clone();
            cluster.serve_only(ApiKey::Produce, versions.clone());
            if magic < Magic::V2 {
                cluster.state.lock().versions.remove(&(ApiKey::InitProducerId as i16));
            }
            let options = ProducerOptions { compression: codec.into(), ..ProducerOptions::default() };
            let producer = Producer::start(cluster.client().await, options).unwrap();
            let values = numbered(20);
            assert!(send_all(&producer, &values).await.iter().all(Result::is_ok), "{why}, {codec}");
            let state = cluster.state.lock();
            assert_eq!(state.logs[0].magic(), Some(magic), "{why}, {codec}");
            assert_eq!(state.logs[0].values(), values, "{why}, {codec}");
        }
    }
}

#[tokio::test]
async fn what_an_old_broker_cannot_take_is_refused_by_name() {
    let cluster = Cluster::start(1, 1).await;
    cluster.serve_only(ApiKey::Produce, 0..=6);
    let options = ProducerOptions { compression: Codec::Zstd.into(), ..ProducerOptions::default() };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let outcomes = send_all(&producer, &numbered(1)).await;
    assert!(matches!(&outcomes[..], [Err(ProduceError::CodecUnsupported { codec: Codec::Zstd, .. })]));

    let cluster = Cluster::start(1, 1).await;
    cluster.serve_only(ApiKey::Produce, 0..=2);
    let producer = Producer::start(cluster.client().await, ProducerOptions::default()).unwrap();
    let topic = topic();
    let headers = [RecordHeader { key: b"h", value: None }];
    let record = ProducerRecord { headers: &headers, ..record(&topic, 0, "v") };
    let delivery = producer.send(record).await.unwrap();
    producer.flush().await;
    assert!(matches!(delivery.outcome(), Some(Err(ProduceError::HeadersUnsupported { .. }))));
}

#[tokio::test]
async fn without_acknowledgements_nothing_is_waited_for() {
    let cluster = Cluster::start(1, 1).await;
    let options = ProducerOptions { acks: Acks::None, ..small_batches() };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let values = numbered(100);
    let outcomes = send_all(&producer, &values).await;
    assert!(outcomes.iter().all(|outcome| *outcome == Ok(None)), "no answer, no offset");
    producer.close().await;
    // The broker reads what was sent in its own time, but in order: an answer shows that it is through.
    let _ = cluster.client().await;
    while cluster.state.lock().logs[0].end < 100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(cluster.state.lock().logs[0].values(), values);
}

#[tokio::test]
async fn keys_choose_partitions_and_keyless_records_spread() {
    let cluster = Cluster::start(2, 4).await;
    let producer = Producer::start(cluster.client().await, small_batches()).unwrap();
    let topic = topic();
    for number in 0..40 {
        let key = format!("key {number}");
        let record = ProducerRecord::new(&topic, Some(key.as_bytes()), Some(b"v"));
        let delivery = producer.send(record).await.unwrap();
        assert_eq!(delivery.partition().partition, partition_for_key(key.as_bytes(), 4));
    }
    let mut spread: HashMap<i32, usize> = HashMap::new();
    for _ in 0..400 {
        let delivery = producer.send(ProducerRecord::new(&topic, None, Some(b"v"))).await.unwrap();
        *spread.entry(delivery.partition().partition).or_default() += 1;
    }
    assert_eq!(spread.len(), 4, "{spread:?}");
    producer.close().await;
    let written: i64 = cluster.state.lock().logs.iter().map(|log| log.end).sum();
    assert_eq!(written, 440);
}

#[tokio::test]
async fn full_memory_holds_the_sender_back_and_loses_nothing() {
    let cluster = Cluster::start(1, 1).await;
    let options = ProducerOptions { memory_bytes_max: 300, ..small_batches() };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let values = numbered(500);
    assert!(timeout(PATIENCE, send_all(&producer, &values)).await.unwrap().iter().all(Result::is_ok));
    assert_eq!(cluster.state.lock().logs[0].values(), values);
}

#[tokio::test]
async fn memory_that_stays_full_is_an_error_with_its_cause() {
    let cluster = Cluster::start(1, 1).await;
    let client = cluster.client().await;
    client.topic(&topic()).await.unwrap();
    let scarce = Fault::Refuse(ErrorCode::NotEnoughReplicas);
    cluster.script(ApiKey::Produce, vec![scarce; 100_000]);
    let options = ProducerOptions {
        memory_bytes_max: 120,
        block_max: Duration::from_millis(10),
        delivery_timeout: Duration::from_millis(200),
        ..small_batches()
    };
    let producer = Producer::start(client, options).unwrap();
    let topic = topic();
    let long = "x".repeat(40);
    let first = producer.send(record(&topic, 0, &long)).await.unwrap();
    let error = producer.send(record(&topic, 0, &long)).await.unwrap_err();
    assert!(matches!(error, ProduceError::MemoryFull { .. }), "{error}");
    let error = timeout(PATIENCE, first.wait()).await.unwrap().unwrap_err();
    assert!(
        matches!(error, ProduceError::TimedOut { last: Some(ErrorCode::NotEnoughReplicas), .. }),
        "given up with what the broker said last: {error}"
    );
}

#[tokio::test]
async fn a_record_too_large_for_any_request_is_refused_at_once() {
    let cluster = Cluster::start(1, 1).await;
    let options = ProducerOptions { request_bytes_max: 1000, ..ProducerOptions::default() };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let topic = topic();
    let error = producer.send(record(&topic, 0, &"x".repeat(1000))).await.unwrap_err();
    assert!(matches!(error, ProduceError::RecordTooLarge { limit: 1000, .. }), "{error}");
    let error = producer.send(record(&topic, 7, "x")).await.unwrap_err();
    assert!(error.to_string().contains("no partition 7"), "{error}");
}

#[tokio::test]
async fn lingering_records_share_a_batch_and_leave_in_time() {
    let cluster = Cluster::start(1, 1).await;
    let options = ProducerOptions { linger: Duration::from_millis(30), ..ProducerOptions::default() };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let topic = topic();
    let mut last = None;
    for value in numbered(50) {
        last = Some(producer.send(record(&topic, 0, &value)).await.unwrap());
    }
    timeout(PATIENCE, last.unwrap().wait()).await.unwrap().unwrap();
    assert_eq!(cluster.state.lock().logs[0].entries.len(), 1);
}

#[tokio::test]
async fn a_dropped_producer_still_sends_what_it_has() {
    let cluster = Cluster::start(1, 1).await;
    let options = ProducerOptions { linger: Duration::from_secs(3600), ..ProducerOptions::default() };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let topic = topic();
    let delivery = producer.send(record(&topic, 0, "last words")).await.unwrap();
    drop(producer);
    timeout(PATIENCE, delivery.wait()).await.unwrap().unwrap();
    assert_eq!(cluster.state.lock().logs[0].values(), ["last words"]);
}

#[tokio::test]
async fn every_batch_is_reported_once() {
    let cluster = Cluster::start(1, 1).await;
    cluster.script(ApiKey::Produce, [Fault::LoseAnswer, Fault::Refuse(ErrorCode::NotEnoughReplicas)]);
    let reported = Arc::new(Mutex::new(Vec::new()));
    let options = ProducerOptions {
        on_batch: Some(Arc::new({
            let reported = reported.clone();
            move |report| reported.lock().push((report.record_count, report.outcome.clone()))
        })),
        ..small_batches()
    };
    let producer = Producer::start(cluster.client().await, options).unwrap();
    send_all(&producer, &numbered(50)).await;
    producer.close().await;
    let reported = reported.lock();
    assert_eq!(reported.iter().map(|(count, _)| count).sum::<i32>(), 50);
    assert!(reported.iter().all(|(_, outcome)| outcome.is_ok()));
}
