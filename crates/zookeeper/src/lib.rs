//! Kafka's znodes as typed records over a small store trait.
//!
//! ```text
//! kafka_zk_client  what a broker and a controller do in ZooKeeper: register, elect, write fenced
//! records          what the znodes hold, as Kafka 0.8 to 3.9 write and read it
//! paths            where they are
//! store            the few ZooKeeper operations all this needs, as a trait
//! client_store     the trait over a real ensemble, through the zookeeper-client crate
//! ```
//!
//! Watches are one-shot and armed by the read whose result they guard. After a reconnect, and after a new
//! session, everything is read again: see [`SessionState`].

mod client_store;
mod diagnosis;
mod kafka_zk_client;
pub mod paths;
pub mod records;
mod store;

pub use client_store::{ClientStore, ConnectError, ConnectSettings};
pub use diagnosis::{Finding, FindingKind, diagnose};
pub use kafka_zk_client::{
    ConfigChange, ControllerFence, ControllerView, CreateTopicError, Election, FencedError, KafkaZkClient,
    PERSISTENT_PATHS, Patience, RegisterError, StartView, StateWrite, StateWriteError, Versioned,
};
pub use store::{
    CreateMode, MultiError, Op, OpResult, Reply, SessionId, SessionState, Stat, Watch, WatchEvent, ZkError,
    ZkStore, retry_read,
};
