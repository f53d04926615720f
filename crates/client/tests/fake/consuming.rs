use std::ops::ControlFlow;
use std::time::Duration;

use bytes::Bytes;
use ottla_client::{
    ConsumeError, Consumer, ConsumerOptions, Fetched, OffsetReset, OffsetSpec, Producer, ProducerOptions,
    ProducerRecord,
};
use ottla_model::{Offset, TopicPartition};
use ottla_protocol::compression::Codec;
use ottla_protocol::{ApiKey, ErrorCode};
use tokio::time::timeout;

use crate::cluster::{Cluster, Era, Fault, PATIENCE, partition, topic};

async fn fill(cluster: &Cluster, options: ProducerOptions, number: i32, values: &[String]) {
    let producer = Producer::start(cluster.client().await, options).unwrap();
    let topic = topic();
    for value in values {
        let record = ProducerRecord::new(&topic, None, Some(value.as_bytes()));
        producer.send(ProducerRecord { partition: Some(number), ..record }).await.unwrap();
    }
    producer.close().await;
}

fn small_batches() -> ProducerOptions {
    ProducerOptions { batch_bytes: 120, ..ProducerOptions::default() }
}

fn numbered(count: usize) -> Vec<String> {
    (0..count).map(|number| format!("record {number:04}")).collect()
}

fn quick() -> ConsumerOptions {
    ConsumerOptions { wait_max: Duration::from_millis(20), ..ConsumerOptions::default() }
}

fn values(fetched: &Fetched) -> Vec<(Offset, String)> {
    let mut values = Vec::new();
    let _ = fetched
        .for_each(|record| {
            let value = String::from_utf8(record.value.unwrap_or_default().to_vec()).unwrap();
            values.push((record.offset, value));
            ControlFlow::Continue(())
        })
        .unwrap();
    values
}

/// Polls until `count` records came.
async fn read(consumer: &mut Consumer, count: usize) -> Result<Vec<(Offset, String)>, ConsumeError> {
    let mut read = Vec::new();
    let reading = async {
        while read.len() < count {
            if let Some(fetched) = consumer.poll(Duration::from_secs(1)).await? {
                read.extend(values(&fetched));
            }
        }
        Ok::<_, ConsumeError>(())
    };
    timeout(PATIENCE, reading).await.expect("the records come")?;
    Ok(read)
}

async fn consumer(cluster: &Cluster, options: ConsumerOptions, start: OffsetSpec) -> Consumer {
    let mut consumer = Consumer::new(cluster.client().await, options);
    consumer.assign([(partition(0), start)]).await.unwrap();
    consumer
}

fn with_offsets(values: &[String], from: usize) -> Vec<(Offset, String)> {
    values.iter().enumerate().skip(from).map(|(at, value)| (Offset(at as i64), value.clone())).collect()
}

#[tokio::test]
async fn records_come_back_in_order_from_wherever_reading_starts() {
    let cluster = Cluster::start(1, 1).await;
    let written = numbered(50);
    fill(&cluster, small_batches(), 0, &written).await;
    for (why, start, from) in [
        ("from the beginning", OffsetSpec::Earliest, 0),
        ("from an offset inside a batch", OffsetSpec::Offset(Offset(7)), 7),
        ("from the last record", OffsetSpec::Offset(Offset(49)), 49),
    ] {
        let mut consumer = consumer(&cluster, quick(), start).await;
        let expected = with_offsets(&written, from);
        assert_eq!(read(&mut consumer, expected.len()).await.unwrap(), expected, "{why}");
        assert_eq!(consumer.position(&partition(0)), Some(Offset(50)), "{why}");
        assert!(consumer.is_caught_up(), "{why}");
        assert!(consumer.poll(Duration::from_millis(1)).await.unwrap().is_none(), "{why}: no more");
    }
}

#[tokio::test]
async fn a_consumer_at_the_end_sees_what_comes_next() {
    let cluster = Cluster::start(1, 1).await;
    fill(&cluster, small_batches(), 0, &numbered(5)).await;
    let mut consumer = consumer(&cluster, quick(), OffsetSpec::Latest).await;
    while consumer.position(&partition(0)).is_none() {
        assert!(consumer.poll(Duration::from_millis(1)).await.unwrap().is_none());
    }
    fill(&cluster, small_batches(), 0, &["next".to_owned()]).await;
    assert_eq!(read(&mut consumer, 1).await.unwrap(), [(Offset(5), "next".to_owned())]);
}

#[tokio::test]
async fn every_codec_and_every_format_is_read() {
    for (why, era, produce, fetch) in [
        ("magic 0", Era::HangsUp, 0..=0, 0..=0),
        ("magic 1", Era::Negotiates { api_versions_max: 0 }, 0..=2, 0..=2),
        ("magic 2", Era::Negotiates { api_versions_max: 4 }, 0..=13, 0..=18),
    ] {
        for codec in Codec::ALL {
            if codec == Codec::Zstd && *produce.end() < 7 {
                continue;
            }
            let cluster = Cluster::start(1, 1).await;
            cluster.state.lock().era = era.clone();
            cluster.serve_only(ApiKey::Produce, produce.clone());
            cluster.serve_only(ApiKey::Fetch, fetch.clone());
            if *produce.end() < 3 {
                cluster.state.lock().versions.remove(&(ApiKey::InitProducerId as i16));
            }
            let written = numbered(20);
            let options = ProducerOptions { compression: codec.into(), ..ProducerOptions::default() };
            fill(&cluster, options, 0, &written).await;
            let mut consumer = consumer(&cluster, quick(), OffsetSpec::Earliest).await;
            let read = read(&mut consumer, 20).await.unwrap();
            let read: Vec<String> = read.into_iter().map(|(_, value)| value).collect();
            assert_eq!(read, written, "{why}, {codec}");
        }
    }
}

#[tokio::test]
async fn reading_goes_on_whatever_happens_to_a_fetch() {
    use Fault::{HangUp, LoseAnswer, Refuse};
    for (why, faults) in [
        ("the broker hangs up", vec![HangUp, LoseAnswer, HangUp]),
        ("the leader is not sure", vec![Refuse(ErrorCode::NotLeaderOrFollower); 3]),
        ("the epoch is from the future", vec![Refuse(ErrorCode::UnknownLeaderEpoch); 3]),
        ("the disk failed over", vec![Refuse(ErrorCode::KafkaStorageError)]),
    ] {
        let cluster = Cluster::start(1, 1).await;
        let written = numbered(30);
        fill(&cluster, small_batches(), 0, &written).await;
        cluster.script(ApiKey::Fetch, faults);
        cluster.script(ApiKey::ListOffsets, [Refuse(ErrorCode::LeaderNotAvailable), HangUp]);
        let mut consumer = consumer(&cluster, quick(), OffsetSpec::Earliest).await;
        assert_eq!(read(&mut consumer, 30).await.unwrap(), with_offsets(&written, 0), "{why}");
    }
}

#[tokio::test]
async fn a_leader_that_moves_is_followed() {
    let cluster = Cluster::start(2, 1).await;
    let written = numbered(20);
    fill(&cluster, small_batches(), 0, &written[..10]).await;
    let mut consumer = consumer(&cluster, quick(), OffsetSpec::Earliest).await;
    assert_eq!(read(&mut consumer, 10).await.unwrap(), with_offsets(&written[..10], 0));
    cluster.state.lock().leaders[0] = 1;
    fill(&cluster, small_batches(), 0, &written[10..]).await;
    assert_eq!(read(&mut consumer, 10).await.unwrap(), with_offsets(&written, 10));
}

#[tokio::test]
async fn an_offset_that_is_gone_follows_the_reset_policy() {
    let written = numbered(20);
    for (why, reset, start) in [
        ("to what is left", OffsetReset::Earliest, Some(Offset(9))),
        ("to the end", OffsetReset::Latest, Some(Offset(20))),
        ("to the caller", OffsetReset::None, None),
    ] {
        let cluster = Cluster::start(1, 1).await;
        fill(&cluster, small_batches(), 0, &written).await;
        cluster.state.lock().logs[0].start = 9;
        let options = ConsumerOptions { reset, ..quick() };
        let mut consumer = consumer(&cluster, options, OffsetSpec::Offset(Offset(3))).await;
        match start {
            Some(Offset(9)) => {
                assert_eq!(read(&mut consumer, 11).await.unwrap(), with_offsets(&written, 9), "{why}")
            }
            Some(end) => {
                while consumer.position(&partition(0)) != Some(end) {
                    assert!(consumer.poll(Duration::from_millis(1)).await.unwrap().is_none(), "{why}");
                }
            }
            None => {
                let error = read(&mut consumer, 1).await.unwrap_err();
                assert!(
                    matches!(error, ConsumeError::OffsetOutOfRange { offset: Offset(3), .. }),
                    "{why}: {error}"
                );
                assert!(consumer.poll(Duration::from_millis(1)).await.unwrap().is_none(), "{why}: said once");
                consumer.seek(&partition(0), OffsetSpec::Offset(Offset(10))).unwrap();
                assert_eq!(read(&mut consumer, 10).await.unwrap(), with_offsets(&written, 10), "{why}");
            }
        }
    }
}

#[tokio::test]
async fn a_message_that_an_old_broker_cuts_off_is_asked_for_whole() {
    let cluster = Cluster::start(1, 1).await;
    cluster.serve_only(ApiKey::Fetch, 0..=2);
    let long = vec!["x".repeat(5000), "after it".to_owned()];
    fill(&cluster, ProducerOptions::default(), 0, &long).await;
    let options = ConsumerOptions { partition_bytes_max: 10, ..quick() };
    let mut consumer = consumer(&cluster, options, OffsetSpec::Earliest).await;
    assert_eq!(read(&mut consumer, 2).await.unwrap(), with_offsets(&long, 0));
}

#[tokio::test]
async fn a_corrupt_batch_is_reported_and_what_is_before_it_read() {
    let cluster = Cluster::start(1, 1).await;
    let written = numbered(9);
    fill(&cluster, small_batches(), 0, &written).await;
    {
        let mut state = cluster.state.lock();
        let (.., bytes) = state.logs[0].entries.last_mut().unwrap();
        let mut corrupt = bytes.to_vec();
        *corrupt.last_mut().unwrap() ^= 1;
        *bytes = Bytes::from(corrupt);
    }
    let mut consumer = consumer(&cluster, quick(), OffsetSpec::Earliest).await;
    let fetched = loop {
        if let Some(fetched) = consumer.poll(Duration::from_secs(1)).await.unwrap() {
            break fetched;
        }
    };
    let mut read = 0;
    let error = fetched
        .for_each(|_| {
            read += 1;
            ControlFlow::Continue(())
        })
        .unwrap_err();
    assert!(matches!(error, ConsumeError::Corrupt { .. }), "{error}");
    assert!(read > 0 && read < 9, "{read} records came before it");
}

#[tokio::test]
async fn a_paused_partition_waits_and_others_do_not() {
    let cluster = Cluster::start(2, 2).await;
    for number in [0, 1] {
        fill(&cluster, small_batches(), number, &numbered(10)).await;
    }
    let mut consumer = Consumer::new(cluster.client().await, quick());
    consumer.assign([0, 1].map(|number| (partition(number), OffsetSpec::Earliest))).await.unwrap();
    consumer.pause(&partition(0)).unwrap();
    let mut seen: Vec<TopicPartition> = Vec::new();
    while consumer.position(&partition(1)) != Some(Offset(10)) {
        if let Some(fetched) = consumer.poll(Duration::from_secs(1)).await.unwrap() {
            seen.push(fetched.partition().clone());
        }
    }
    assert!(seen.iter().all(|of| *of == partition(1)));
    consumer.resume(&partition(0)).unwrap();
    assert_eq!(read(&mut consumer, 10).await.unwrap().len(), 10);
}

#[tokio::test]
async fn what_was_fetched_before_a_seek_is_not_handed_out_after_it() {
    let cluster = Cluster::start(1, 1).await;
    let written = numbered(60);
    fill(&cluster, small_batches(), 0, &written).await;
    let options = ConsumerOptions { partition_bytes_max: 200, ..quick() };
    let mut consumer = consumer(&cluster, options, OffsetSpec::Earliest).await;
    read(&mut consumer, 1).await.unwrap();
    consumer.seek(&partition(0), OffsetSpec::Offset(Offset(40))).unwrap();
    assert_eq!(read(&mut consumer, 20).await.unwrap(), with_offsets(&written, 40));
}

#[tokio::test]
async fn a_missing_topic_or_partition_is_an_error_of_the_assignment() {
    let cluster = Cluster::start(1, 1).await;
    let mut consumer = Consumer::new(cluster.client().await, quick());
    let error = consumer.assign([(partition(7), OffsetSpec::Earliest)]).await.unwrap_err();
    assert!(error.to_string().contains("no partition 7"), "{error}");
}
