//! How long a broker takes to serve, and what it costs while it does nothing.

use std::error::Error;
use std::net::SocketAddr;
use std::process::Command;
use std::time::Duration;

use crate::process::{Started, cpu_seconds, resident_mib};
use crate::summary::Summary;
use crate::wire::{self, Client};

/// Time from exec to the first Metadata answer, `runs` times. `{dir}` in the command becomes a new empty
/// directory each time.
pub fn startup(command: &[String], address: SocketAddr, runs: usize) -> Result<Summary, Box<dyn Error>> {
    let mut ready_ms = Vec::new();
    for _ in 0..runs {
        let directory = tempfile::tempdir()?;
        let started = Started::new(&mut command_in(command, &directory.path().to_string_lossy())?, address)?;
        ready_ms.push(started.ready_after.as_secs_f64() * 1e3);
    }
    Ok(Summary::of(ready_ms))
}

pub fn command_in(command: &[String], directory: &str) -> Result<Command, Box<dyn Error>> {
    let mut words = command.iter().map(|word| word.replace("{dir}", directory));
    let mut command = Command::new(words.next().ok_or("no command to start the broker with")?);
    command.args(words);
    Ok(command)
}

/// What a running broker costs when nothing happens.
#[derive(Debug)]
pub struct Idle {
    pub resident_mib: f64,
    /// Share of one core, with no client.
    pub cpu_alone: f64,
    /// Share of one core, with 100 consumers in long polls of 500 ms on an empty topic.
    pub cpu_with_consumers: f64,
}

const CONSUMERS: usize = 100;

pub fn idle(address: SocketAddr, pid: u32, seconds: f64) -> Result<Idle, Box<dyn Error>> {
    let span = Duration::from_secs_f64(seconds);
    std::thread::sleep(Duration::from_secs(1)); // what starting left to do
    let resident_mib = resident_mib(pid)?;
    let before = cpu_seconds(pid)?;
    std::thread::sleep(span);
    let cpu_alone = (cpu_seconds(pid)? - before) / seconds;

    Client::connect(address)?.create_topic("idle", 1)?;
    let frame = wire::fetch("idle", 0, 0, 500, 1 << 20);
    let mut consumers: Vec<Client> =
        (0..CONSUMERS).map(|_| Client::connect(address)).collect::<Result<_, _>>()?;
    for consumer in &mut consumers {
        consumer.send(&frame)?;
    }
    let before = cpu_seconds(pid)?;
    let until = std::time::Instant::now() + span;
    while std::time::Instant::now() < until {
        for consumer in &mut consumers {
            consumer.receive()?;
            consumer.send(&frame)?;
        }
    }
    let cpu_with_consumers = (cpu_seconds(pid)? - before) / seconds;
    drop(consumers);
    Client::connect(address)?.delete_topic("idle")?;
    Ok(Idle { resident_mib, cpu_alone, cpu_with_consumers })
}
