//! The names of the system: what every other crate passes around instead of bare integers.
//!
//! Bare integers live only in `ottla-protocol`; everything past the wire speaks in these types, so that an
//! offset is never handed over where an epoch was meant.

mod topic;
mod uuid;

pub use topic::{InvalidTopicName, TOPIC_NAME_LENGTH_MAX, TopicName, TopicPartition};
pub use uuid::{InvalidUuid, Uuid};

/// Declares a newtype over an integer with the traits that identifiers and counters share.
macro_rules! number {
    ($(#[$doc:meta])* $name:ident($inner:ty)) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub $inner);

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }

        impl From<$inner> for $name {
            fn from(value: $inner) -> Self {
                Self(value)
            }
        }
    };
}

number! {
    /// Position of a record in a partition. The first record ever is 0; an *end* offset excludes, a *last* offset includes.
    Offset(i64)
}

impl Offset {
    pub const ZERO: Offset = Offset(0);

    /// The offset `count` records further on.
    #[must_use]
    pub fn plus(self, count: i64) -> Offset {
        Offset(self.0 + count)
    }
}

number! {
    /// Counts the leaderships of one partition; grows with every election (KIP-101).
    LeaderEpoch(i32)
}

impl LeaderEpoch {
    /// What the wire says where no epoch is known.
    pub const NONE: LeaderEpoch = LeaderEpoch(-1);
}

number! {
    /// Counts the controllers a cluster has had; fences the orders of a deposed one.
    ControllerEpoch(i32)
}

number! {
    /// A broker's id: `broker.id`, or one generated through `/brokers/seqid`.
    BrokerId(i32)
}

impl BrokerId {
    /// What the wire says where there is no broker, such as the leader of a leaderless partition.
    pub const NONE: BrokerId = BrokerId(-1);
}

number! {
    /// The `czxid` of a broker's registration; tells one life of a broker from the next.
    BrokerEpoch(i64)
}

number! {
    /// The znode version of a partition's state; the condition of the next write to it.
    PartitionEpoch(i32)
}

number! {
    /// Identifies an idempotent or transactional producer (KIP-98).
    ProducerId(i64)
}

impl ProducerId {
    /// Marks batches of producers that are neither idempotent nor transactional.
    pub const NONE: ProducerId = ProducerId(-1);
}

number! {
    /// Tells one life of a producer id from the next.
    ProducerEpoch(i16)
}

number! {
    /// A point in time as Kafka writes it: milliseconds since 1970-01-01 UTC; -1 where none is known.
    Timestamp(i64)
}

impl Timestamp {
    pub const NONE: Timestamp = Timestamp(-1);
}
