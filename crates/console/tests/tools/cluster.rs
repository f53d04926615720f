//! A cluster of one broker in a process of its own.

use std::io::{BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use crate::OTTLA;

/// How long anything may take before a test fails; only a failure waits this long.
const DEADLINE: Duration = Duration::from_secs(60);

pub struct Cluster {
    process: Child,
    broker: String,
    zookeeper: String,
    data: tempfile::TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // It may have ended by itself, which the test has noticed then.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Cluster {
    /// Starts `ottla dev` on free ports, and reads them from its log.
    pub fn start() -> Cluster {
        let data = tempfile::tempdir().unwrap();
        let mut process = Command::new(OTTLA)
            .args(["dev", "--port", "0", "--data"])
            .arg(data.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let announced = lines.by_ref().map(Result::unwrap).find(|line| line.contains("] INFO brokers at "));
        let announced = announced.expect("ottla dev says where it listens");
        let after = |words: &str| {
            let rest = &announced[announced.find(words).unwrap() + words.len()..];
            rest.split([',', ' ']).next().unwrap().to_owned()
        };
        let (broker, zookeeper) = (after("brokers at "), after("ZooKeeper at "));
        // Its log is read to the end, so that it never has to wait for us.
        std::thread::spawn(move || lines.for_each(drop));
        Cluster { process, broker, zookeeper, data }
    }

    pub fn broker(&self) -> &str {
        &self.broker
    }

    pub fn zookeeper(&self) -> &str {
        &self.zookeeper
    }

    pub fn data(&self) -> &Path {
        self.data.path()
    }

    /// Runs a tool to its end. `$BROKER`, `$ZOOKEEPER` and `$DATA` stand for what they are.
    pub fn run(&self, words: &[&str], input: &str) -> Output {
        let words = words.iter().map(|word| {
            word.replace("$BROKER", &self.broker)
                .replace("$ZOOKEEPER", &self.zookeeper)
                .replace("$DATA", self.data.path().to_str().unwrap())
        });
        let mut process = Command::new(OTTLA)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .env_remove("OTTLA_LOG")
            .env("TZ", "UTC")
            .spawn()
            .unwrap();
        let mut stdin = process.stdin.take().unwrap();
        // A tool that reads nothing may be gone by now.
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        process.wait_with_output().unwrap()
    }
}

pub fn wait_until(what: &str, mut condition: impl FnMut() -> bool) {
    let started = Instant::now();
    while !condition() {
        assert!(started.elapsed() < DEADLINE, "not within {DEADLINE:?}: {what}");
        std::thread::yield_now();
    }
}

/// Bytes that were written to a pipe and that nobody has read yet.
pub fn unread(pipe: impl AsFd) -> u64 {
    rustix::io::ioctl_fionread(pipe).unwrap()
}
