//! Brokers in this process, with their ZooKeeper, asked over the wire in every version they serve.

mod cluster;
mod wire;

mod ending;
mod every_version;
mod fetch_sessions;
mod groups;
mod leaders;
