//! Creates a topic, writes numbered records to it, reads them back and checks them:
//! `cargo run -p ottla-client --example round_trip -- localhost:9092 TOPIC COUNT [CODEC]`.

use std::error::Error;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use ottla_client::{
    Address, Admin, Client, ClientOptions, Consumer, ConsumerOptions, NewTopic, OffsetSpec, Placement,
    Producer, ProducerOptions, ProducerRecord,
};
use ottla_model::{TopicName, TopicPartition};
use ottla_protocol::compression::Codec;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [brokers, topic, count, codec @ ..] = arguments.as_slice() else {
        return Err("usage: round_trip BROKERS TOPIC COUNT [CODEC]".into());
    };
    let topic = TopicName::new(topic)?;
    let count: u64 = count.parse()?;
    let codec = match codec {
        [] => Codec::None,
        [name, ..] => Codec::ALL.into_iter().find(|codec| codec.name() == name).ok_or("unknown codec")?,
    };
    let client = Client::connect(Address::parse_list(brokers)?, ClientOptions::default()).await?;

    let placement = Placement::Counts { partitions: Some(3), replication_factor: Some(1) };
    let new = NewTopic { name: topic.clone(), placement, configs: Vec::new() };
    match Admin::new(client.clone()).create_topics(&[new], false).await {
        Ok(outcomes) => println!("create: {outcomes:?}"),
        Err(error) => println!("create: {error}"),
    }

    let started = Instant::now();
    let options = ProducerOptions { compression: codec.into(), ..ProducerOptions::default() };
    let producer = Producer::start(client.clone(), options)?;
    let mut last = None;
    for number in 0..count {
        let value = format!("record {number}");
        last = Some(producer.send(ProducerRecord::new(&topic, None, Some(value.as_bytes()))).await?);
    }
    producer.flush().await;
    if let Some(delivery) = last {
        println!("last record: {:?}", delivery.wait().await?);
    }
    producer.close().await;
    println!("wrote {count} records in {:?}", started.elapsed());

    let started = Instant::now();
    let mut consumer = Consumer::new(client, ConsumerOptions::default());
    let partitions =
        (0..3).map(|partition| (TopicPartition::new(topic.clone(), partition), OffsetSpec::Earliest));
    consumer.assign(partitions).await?;
    let mut seen = vec![false; count as usize];
    let mut read = 0;
    while read < count {
        let Some(fetched) = consumer.poll(Duration::from_secs(5)).await? else {
            return Err(format!("only {read} of {count} records came back").into());
        };
        let _ = fetched.for_each(|record| {
            let text = record.value.and_then(|value| std::str::from_utf8(value).ok()).unwrap_or_default();
            let number = text.strip_prefix("record ").and_then(|number| number.parse::<usize>().ok());
            if let Some(seen) = number.and_then(|number| seen.get_mut(number)) {
                assert!(!std::mem::replace(seen, true), "{text} came back twice");
                read += 1;
            }
            ControlFlow::Continue(())
        })?;
    }
    println!("read {read} records in {:?}", started.elapsed());
    Ok(())
}
