//! One partition's leadership, decided without a clock, a socket or a disk.
//!
//! [`Partition`] knows who leads, in which epoch, which replicas are in sync, and how far the high watermark
//! may go. The edge hands it the controller's orders, its own log's end and the followers' fetches; it answers
//! whether a request may be served and what has moved.

mod follower;
mod isr;
mod partition;

pub use follower::Follower;
pub use isr::{Isr, IsrProposal};
pub use partition::{
    AppendRefusal, FetchProgress, LeaderAndIsr, LeaderRefusal, OrderOutcome, OrderRefusal, Partition, Rules,
};
