//! An asynchronous client for Kafka brokers, from 0.8 to the newest.
//!
//! ```text
//! Client           one cluster: a connection to each broker in use, and a picture of topics and leaders
//!   Producer       records into batches, batches to their leaders, each acknowledged once
//!   Consumer       partitions the caller assigns, read from their leaders
//!   GroupConsumer  partitions shared with the other members of a group
//!   Admin          topics, partitions, configurations, offsets
//! Connection       one broker: pipelined requests in any version both sides speak
//! ```
//!
//! Versions are negotiated with each broker. One that has no ApiVersions (0.8, 0.9) is spoken to in version 0 and in its own
//! message format; what it cannot do at all is an error that says so. Whoever turns out not to be a broker is named.
//!
//! ```no_run
//! # use std::{error::Error, ops::ControlFlow, time::Duration};
//! use ottla_client::*;
//! use ottla_model::{TopicName, TopicPartition};
//!
//! # async fn example() -> Result<(), Box<dyn Error>> {
//! let client = Client::connect(Address::parse_list("localhost:9092")?, ClientOptions::default()).await?;
//! let orders = TopicName::new("orders")?;
//!
//! let producer = Producer::start(client.clone(), ProducerOptions::default())?;
//! let delivery = producer.send(ProducerRecord::new(&orders, Some(b"ann"), Some(b"3 pears"))).await?;
//! println!("written at {:?}", delivery.wait().await?.offset);
//! producer.close().await;
//!
//! let mut consumer = Consumer::new(client, ConsumerOptions::default());
//! consumer.assign([(TopicPartition::new(orders, 0), OffsetSpec::Earliest)]).await?;
//! while let Some(fetched) = consumer.poll(Duration::from_secs(1)).await? {
//!     let _ = fetched.for_each(|record| {
//!         println!("{}: {:?}", record.offset, record.value);
//!         ControlFlow::Continue(())
//!     })?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Every wait has an end: connecting and each request have time limits, records a delivery time-out. What only takes patience (a broker
//! that is down, a leader that moves) is tried again by itself, ever more slowly; `last_trouble` of producer and consumer tells
//! what they are waiting for.

mod address;
mod admin;
mod backoff;
mod client;
mod connection;
mod consumer;
mod error;
mod group;
mod metadata;
mod offsets;
mod partitioner;
mod producer;
mod stranger;
mod versions;

pub use address::{Address, InvalidAddress};
pub use admin::{
    Admin, ClusterDescription, ConfigChange, ConfigEntry, ConfigResource, CreatedTopic, NewPartitions,
    NewTopic, Outcomes, Placement,
};
pub use backoff::Backoff;
pub use client::{Client, ClientOptions};
pub use connection::{Connection, ConnectionOptions, ResponseOf};
pub use consumer::{ConsumeError, Consumer, ConsumerOptions, Fetched, OffsetReset};
pub use error::{ClientError, ConnectionError};
pub use group::{Assignments, Assignor, GroupConsumer, GroupOptions, Subscriber};
pub use metadata::{Broker, Metadata, Partition, Topic};
pub use offsets::{IsolationLevel, ListedOffset, OffsetSpec};
pub use partitioner::{StickyPartition, murmur2, partition_for_key};
pub use producer::{
    Acks, BatchReport, Delivery, OnBatch, ProduceError, Producer, ProducerOptions, ProducerRecord,
    RecordMetadata,
};
pub use stranger::Stranger;
pub use versions::ServedVersions;
