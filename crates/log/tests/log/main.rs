//! A log, through its public verbs only.

mod append_and_read;
mod flush;
mod kafka;
mod log_directory;
mod lookup;
mod property;
mod recovery;
mod rig;
mod truncation;
