//! An asynchronous client for Kafka brokers, from 0.8 to the newest.

mod address;
mod admin;
mod backoff;
mod client;
mod connection;
mod consumer;
mod error;
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
pub use metadata::{Broker, Metadata, Partition, Topic};
pub use offsets::{IsolationLevel, ListedOffset, OffsetSpec};
pub use partitioner::{StickyPartition, murmur2, partition_for_key};
pub use producer::{
    Acks, BatchReport, Delivery, OnBatch, ProduceError, Producer, ProducerOptions, ProducerRecord,
    RecordMetadata,
};
pub use stranger::Stranger;
pub use versions::ServedVersions;
