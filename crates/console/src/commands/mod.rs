//! The commands of the program, one file each.

mod broker;
mod broker_api_versions;
mod client_properties;
mod cluster;
mod command_line;
mod configs;
mod console_consumer;
mod console_producer;
mod consumer_perf_test;
mod create_topic;
mod delete_records;
mod deserializer;
mod dev;
mod doctor;
mod dump_log;
mod get_offsets;
mod line_reader;
mod list_topic;
mod log_dirs;
mod producer_perf_test;
mod producer_properties;
mod record_formatter;
mod servers;
mod standard_input;
mod tools;
mod topic_description;
mod topic_filter;
mod topics;
mod zookeeper;
mod zookeeper_brokers;
mod zookeeper_shell;

use std::process::ExitCode;

/// One command: its name is the name of the script without `.sh`.
pub struct Command {
    pub name: &'static str,
    pub about: &'static str,
    /// Takes the arguments, the command's own name first.
    pub run: fn(Vec<String>) -> ExitCode,
}

/// Every command there is, in the order of the help.
pub const COMMANDS: &[Command] = &[
    dev::COMMAND,
    broker::COMMAND,
    zookeeper::COMMAND,
    doctor::COMMAND,
    console_producer::COMMAND,
    console_consumer::COMMAND,
    topics::COMMAND,
    create_topic::COMMAND,
    list_topic::COMMAND,
    zookeeper_shell::COMMAND,
    configs::COMMAND,
    get_offsets::COMMAND,
    delete_records::COMMAND,
    log_dirs::COMMAND,
    broker_api_versions::COMMAND,
    dump_log::COMMAND,
    producer_perf_test::COMMAND,
    consumer_perf_test::COMMAND,
];

/// What clap has to say about the arguments. Help and versions go to standard output and succeed; complaints go to standard
/// error and fail with Kafka's exit code.
fn usage(error: &clap::Error) -> ExitCode {
    // Nothing can be done about an output that is closed.
    let _ = error.print();
    if error.use_stderr() { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
