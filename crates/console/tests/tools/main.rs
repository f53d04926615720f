//! The tools as processes against a cluster in another process: every line, every exit status.
//!
//! A transcript is a list of command lines, each with what it printed: standard output as it is, the first line of standard error
//! behind `! `, and the exit status if it is not 0. Reading a transcript's diff is the review; `WRITE_TRANSCRIPTS=1` writes it anew.

mod cluster;
mod transcript;

use std::io::Write;
use std::process::{Command, Stdio};

use crate::cluster::Cluster;

const OTTLA: &str = env!("CARGO_BIN_EXE_ottla");

#[test]
fn topics_are_made_shown_and_deleted_as_kafka_does() {
    transcript::check("topics");
}

#[test]
fn the_tools_of_0_8_0_speak_to_zookeeper_alone() {
    transcript::check("topics-of-0.8.0");
}

#[test]
fn zookeeper_is_looked_at_and_changed_as_zkcli_does() {
    transcript::check("zookeeper-shell");
}

#[test]
fn records_go_in_and_come_out_as_the_properties_say() {
    transcript::check("console");
}

#[test]
fn what_lies_in_a_partition_is_shown() {
    transcript::check("offsets-and-files");
}

#[test]
fn configurations_are_shown() {
    transcript::check("configs");
}

#[test]
fn the_wrong_port_is_named() {
    transcript::check("wrong-port");
}

/// What was in the pipe is read, and what is read is sent, even if the signal comes at once.
#[test]
fn a_producer_that_is_interrupted_sends_what_it_has_read() {
    let cluster = Cluster::start();
    for (signal, status) in [("-INT", 130), ("-TERM", 143)] {
        let topic = format!("interrupted{signal}");
        let mut producer = Command::new(OTTLA)
            .args(["kafka-console-producer", "--bootstrap-server", cluster.broker(), "--topic", &topic])
            .args(["--timeout", "600000"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let lines: String = (0..5000).map(|number| format!("line {number}\n")).collect();
        let stdin = producer.stdin.as_mut().unwrap();
        stdin.write_all(lines.as_bytes()).unwrap();
        stdin.write_all(b"half a li").unwrap();
        // The pipe holds 64 KiB and the text is longer, but its end may still be in there.
        cluster::wait_until("the producer has read all", || cluster::unread(&*stdin) == 0);
        let killed = Command::new("kill").args([signal, &producer.id().to_string()]).status().unwrap();
        assert!(killed.success());
        assert_eq!(producer.wait().unwrap().code(), Some(status), "{signal}");

        let read = Command::new(OTTLA)
            .args(["kafka-console-consumer", "--bootstrap-server", cluster.broker(), "--topic", &topic])
            .args(["--from-beginning", "--max-messages", "5000"])
            .output()
            .unwrap();
        assert_eq!(String::from_utf8(read.stdout).unwrap(), lines, "{signal}");
    }
}

/// As behind `| head -1`: there is nothing more to print, and yet the consumer ends.
#[test]
fn a_consumer_whose_reader_is_gone_ends_by_itself() {
    let cluster = Cluster::start();
    let sent =
        cluster.run(&["kafka-console-producer", "--bootstrap-server", "$BROKER", "--topic", "t"], "one\n");
    assert_eq!(sent.status.code(), Some(0));
    let mut consumer = Command::new(OTTLA)
        .args([
            "kafka-console-consumer",
            "--bootstrap-server",
            cluster.broker(),
            "--topic",
            "t",
            "--from-beginning",
        ])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut line = [0; 4];
    std::io::Read::read_exact(consumer.stdout.as_mut().unwrap(), &mut line).unwrap();
    assert_eq!(&line, b"one\n");
    drop(consumer.stdout.take());
    assert_eq!(consumer.wait().unwrap().code(), Some(0));
}

#[test]
fn every_tool_has_help_and_a_version() {
    let help = Command::new(OTTLA).arg("help").output().unwrap();
    let text = String::from_utf8(help.stdout).unwrap();
    let names = text.lines().filter_map(|line| line.strip_prefix("  ")?.split_whitespace().next());
    let tools: Vec<&str> = names.filter(|name| name.starts_with("kafka-")).collect();
    assert!(tools.len() > 10, "{tools:?}");
    for tool in tools {
        let help = Command::new(OTTLA).args([tool, "--help"]).output().unwrap();
        assert!(help.status.success() && help.stderr.is_empty(), "{tool} --help");
        assert!(String::from_utf8(help.stdout).unwrap().contains("--help"), "{tool} --help");
        let version = Command::new(OTTLA).args([tool, "--version"]).output().unwrap();
        let version = String::from_utf8(version.stdout).unwrap();
        assert!(
            version.starts_with("3.9."),
            "scripts read the release of Kafka from {tool} --version: {version}"
        );
    }
}
