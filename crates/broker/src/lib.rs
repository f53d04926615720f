//! The broker: the dull edge that joins the cores to the network, the disk and ZooKeeper.

pub mod config;

mod apis;
mod config_alterations;
mod config_changes;
mod controlled_shutdown;
mod controller;
mod dynamic_config;
mod fetch_session;
mod group_coordinator;
mod hosted_partition;
mod housekeeping;
mod in_sync_replicas;
mod metadata_cache;
mod parking;
mod producer_ids;
mod purgatory;
mod random;
mod record_rules;
mod replica_fetcher;
mod replica_manager;
mod server;
mod topic_configs;
mod topics;

pub use server::{RunningBroker, StartError};
