//! The controller's decisions: who leads which partition, and what the brokers are told.
//!
//! A plain machine: what ZooKeeper and the brokers say comes in as an [`Event`], what must be read, written or
//! ordered goes out as [`Effect`]s. The edge carries the effects out in order, and answers writes with the
//! event that reports them before it takes the next one from outside. Every effect that writes is fenced by
//! the edge with the controller epoch, and every state write carries the version it was decided on.

mod assignment;
mod election;
mod machine;

pub use assignment::{AssignmentRefusal, assign_replicas};
pub use election::{Choice, Electorate, after_broker_change, first_state};
pub use machine::{
    Assignment, Controller, Effect, Event, Expected, IsrAnswer, IsrProposal, IsrRefusal, PartitionOrder,
    PartitionState, PreferredLeader, StateWrite, WriteOutcome,
};
