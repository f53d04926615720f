//! An asynchronous client for Kafka brokers, from 0.8 to the newest.

mod address;
mod backoff;
mod client;
mod connection;
mod error;
mod metadata;
mod partitioner;
mod producer;
mod stranger;
mod versions;

pub use address::{Address, InvalidAddress};
pub use backoff::Backoff;
pub use client::{Client, ClientOptions};
pub use connection::{Connection, ConnectionOptions, ResponseOf};
pub use error::{ClientError, ConnectionError};
pub use metadata::{Broker, Metadata, Partition, Topic};
pub use partitioner::{StickyPartition, murmur2, partition_for_key};
pub use producer::{
    Acks, BatchReport, Delivery, OnBatch, ProduceError, Producer, ProducerOptions, ProducerRecord,
    RecordMetadata,
};
pub use stranger::Stranger;
pub use versions::ServedVersions;
