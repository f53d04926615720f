//! Brokers in this process, with their ZooKeeper, asked over the wire in every version they serve.

mod cluster;
mod wire;

mod admin;
mod bad_input;
mod configs;
mod ending;
mod every_version;
mod fetch;
mod fetch_sessions;
mod group_consumers;
mod groups;
mod leaders;
mod list_offsets;
mod metadata;
mod produce;
mod topics;
