//! A log, through its public verbs only.

mod append_and_read;
mod log_directory;
mod rig;
