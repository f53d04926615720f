//! Command lines, read as Kafka's tools read them and refused in their words.
//!
//! `--name value`, `--name=value`, and names cut short as long as only one is meant. A complaint goes to standard error, first
//! line first, with the options behind it; the exit code is then 1, as in every release of Kafka.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::builder::ArgAction;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, Parser};

/// What `--version` of a tool says. Scripts read the number in front to learn which options they may use.
pub const VERSION: &str = concat!("3.9.2 (Ottla ", env!("CARGO_PKG_VERSION"), ")");

/// Reads the options of a tool; `Err` has been said already, and is what to exit with.
pub fn parse<O: Parser>(arguments: Vec<String>) -> Result<O, ExitCode> {
    let mut command = as_kafka_reads(O::command());
    let parsed = command.try_get_matches_from_mut(arguments);
    let error = match parsed.and_then(|mut matches| O::from_arg_matches_mut(&mut matches)) {
        Ok(options) => return Ok(options),
        Err(error) => error,
    };
    Err(match error.kind() {
        ErrorKind::DisplayVersion => {
            println!("{VERSION}");
            ExitCode::SUCCESS
        }
        _ if !error.use_stderr() => {
            // Nothing can be done about an output that is closed.
            let _ = error.print();
            ExitCode::SUCCESS
        }
        _ => complain(command, &complaint(&error)),
    })
}

/// Says why the options of a tool do not go together, and shows them.
pub fn refuse<O: Parser>(message: &str) -> ExitCode {
    complain(as_kafka_reads(O::command()), message)
}

fn complain(mut command: Command, message: &str) -> ExitCode {
    // A reader that takes the first line and goes is no reason to panic.
    let _ = write!(io::stderr(), "{message}\n{}", command.render_help());
    ExitCode::FAILURE
}

fn as_kafka_reads(command: Command) -> Command {
    command.infer_long_args(true).version(VERSION).mut_args(|arg| {
        // What follows an option that takes a value is the value: topics may be called --list.
        let takes_value = matches!(arg.get_action(), ArgAction::Set | ArgAction::Append);
        if takes_value && arg.get_num_args().is_none_or(|count| count.min_values() > 0) {
            arg.allow_hyphen_values(true)
        } else {
            arg
        }
    })
}

/// What Kafka's parser says to the same mistake.
fn complaint(error: &clap::Error) -> String {
    let words = |kind| match error.get(kind) {
        Some(ContextValue::String(word)) => vec![word.as_str()],
        Some(ContextValue::Strings(words)) => words.iter().map(String::as_str).collect(),
        _ => Vec::new(),
    };
    let names = |kind| words(kind).into_iter().map(option_name);
    let name = names(ContextKind::InvalidArg).next().unwrap_or_default();
    let value = words(ContextKind::InvalidValue).first().copied().unwrap_or_default();
    match error.kind() {
        ErrorKind::UnknownArgument => match words(ContextKind::InvalidArg).first() {
            Some(shown) if !shown.starts_with('-') => {
                format!("{shown} is not an option, and nothing else goes here")
            }
            _ => format!("{name} is not a recognized option"),
        },
        ErrorKind::MissingRequiredArgument => format!("Missing required argument \"[{name}]\""),
        ErrorKind::InvalidValue if value.is_empty() => format!("Option {name} requires an argument"),
        ErrorKind::InvalidValue | ErrorKind::ValueValidation => {
            let reason = std::error::Error::source(error).map_or(String::new(), |why| format!(": {why}"));
            format!("Cannot parse argument '{value}' of option {name}{reason}")
        }
        ErrorKind::ArgumentConflict => match names(ContextKind::PriorArg).next() {
            Some(other) if other != name => {
                format!("Option \"[{name}]\" can't be used with option \"[{other}]\"")
            }
            _ => format!("Found multiple arguments for option {name}, but you asked for only one"),
        },
        _ => {
            let text = error.to_string();
            text.lines().next().unwrap_or_default().trim_start_matches("error: ").to_owned()
        }
    }
}

/// `topic` of `--topic <TOPIC>`.
fn option_name(shown: &str) -> &str {
    let name = shown.split([' ', '=', '[']).next().unwrap_or(shown);
    name.trim_start_matches('-')
}

#[cfg(test)]
mod tests {
    use clap::{CommandFactory, FromArgMatches};

    use super::*;

    #[derive(Debug, Parser)]
    #[command(name = "tool")]
    struct Options {
        #[arg(long)]
        topic: String,
        #[arg(long, conflicts_with = "partitions")]
        replica_assignment: Option<String>,
        #[arg(long)]
        partitions: Option<i32>,
        #[arg(long)]
        request_required_acks: Option<String>,
        #[arg(long)]
        list: bool,
    }

    fn read(arguments: &[&str]) -> Result<Options, String> {
        let mut command = as_kafka_reads(Options::command());
        let all = ["tool"].iter().chain(arguments);
        let mut matches = command.try_get_matches_from_mut(all).map_err(|error| complaint(&error))?;
        Options::from_arg_matches_mut(&mut matches).map_err(|error| complaint(&error))
    }

    #[test]
    fn options_are_read_as_kafka_reads_them() {
        for (why, arguments, topic, acks) in [
            ("a value of its own", &["--topic", "t"][..], "t", None),
            ("a value behind an equals sign", &["--topic=t"], "t", None),
            ("a name cut short", &["--top", "t"], "t", None),
            ("a value with a minus", &["--topic", "t", "--request-required-acks", "-1"], "t", Some("-1")),
            ("a value that looks like an option", &["--topic", "--list"], "--list", None),
        ] {
            let options = read(arguments).unwrap();
            assert_eq!(options.topic, topic, "{why}");
            assert_eq!(options.request_required_acks.as_deref(), acks, "{why}");
        }
    }

    #[test]
    fn mistakes_are_named_in_kafkas_words() {
        for (arguments, complaint) in [
            (&[][..], "Missing required argument \"[topic]\""),
            (&["--bogus"], "bogus is not a recognized option"),
            (&["--topic", "a", "b"], "b is not an option, and nothing else goes here"),
            (&["--topic"], "Option topic requires an argument"),
            (
                &["--topic", "a", "--topic", "b"],
                "Found multiple arguments for option topic, but you asked for only one",
            ),
            (
                &["--topic", "a", "--partitions", "x"],
                "Cannot parse argument 'x' of option partitions: invalid digit found in string",
            ),
            (
                &["--topic", "a", "--replica-assignment", "0", "--partitions", "1"],
                "Option \"[replica-assignment]\" can't be used with option \"[partitions]\"",
            ),
        ] {
            assert_eq!(read(arguments).unwrap_err(), complaint, "{arguments:?}");
        }
    }
}
