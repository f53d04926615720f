//! A single-node ZooKeeper server for development: persistent, quick to start, and no ensemble.
//!
//! It speaks the protocol of ZooKeeper 3.9 to any client from 3.4 on. Production runs on Apache ZooKeeper.
//!
//! ```text
//! server      the listener, the clock of the sessions
//! connection  frames in, answers out
//! service     the tree under a lock, the log thread, what may leave when
//! tree        decides: sessions, znodes, watches, transactions. No I/O, no clock
//! storage     the log and the snapshot
//! ```
//!
//! Left out: ensembles and reconfiguration, observers and read-only mode, TTL znodes, quotas (their znodes can be
//! written, nothing is enforced), SASL and TLS, the HTTP admin server.

pub mod acl;
mod config;
mod connection;
mod four_letter_word;
pub mod jute;
mod monitor;
mod outbox;
mod path;
pub mod protocol;
mod server;
mod service;
pub mod storage;
pub mod tree;
mod watch;
pub mod znodes;

pub use config::{Config, ConfigError};
pub use four_letter_word::{FourLetterWord, Whitelist};
pub use server::{Server, ServerError};
pub use tree::SessionTimeouts;
