//! Brokers side by side in alternating runs, so that a noisy minute hits all of them.

use std::collections::BTreeMap;
use std::error::Error;
use std::net::SocketAddr;
use std::str::FromStr;

use crate::load::{self, Produce};
use crate::process::{cpu_seconds, machine_busy_seconds, resident_mib};
use crate::summary::Summary;
use crate::wire::Client;

/// A running broker: `name=host:port,pid`.
#[derive(Debug, Clone)]
pub struct Broker {
    pub name: String,
    pub address: SocketAddr,
    pub pid: u32,
}

impl FromStr for Broker {
    type Err = String;

    fn from_str(text: &str) -> Result<Broker, String> {
        let parts = text.split_once('=').and_then(|(name, rest)| Some((name, rest.rsplit_once(',')?)));
        let (name, (address, pid)) = parts.ok_or("expected name=host:port,pid")?;
        let address = address.parse().map_err(|error| format!("{address}: {error}"))?;
        let pid = pid.parse().map_err(|error| format!("pid {pid}: {error}"))?;
        Ok(Broker { name: name.into(), address, pid })
    }
}

/// What is measured. Each cell of the table is one of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Shape {
    /// Batches of 64 KiB, 5 in flight, acks=all; then everything is fetched back.
    Replay100,
    Replay1024,
    /// As above over 6 partitions and 2 connections.
    Replay1024x6,
    /// Requests of one 100-byte record, 5 in flight.
    OneRecord,
    /// 1,000 records of 100 bytes a second from producer to consumer.
    Latency,
}

pub const ALL_SHAPES: [Shape; 5] =
    [Shape::Replay100, Shape::Replay1024, Shape::Replay1024x6, Shape::OneRecord, Shape::Latency];

/// Runs in which others used more than this share of the machine are repeated.
const FOREIGN_MAX: f64 = 0.15;
const REPEATS_MAX: usize = 2;

/// Name and unit of a measured value to its value.
type Values = BTreeMap<&'static str, f64>;

/// Measures the first broker against the others and prints a row for each value.
pub fn compare(
    brokers: &[Broker],
    shapes: &[Shape],
    runs: usize,
    seconds: f64,
) -> Result<(), Box<dyn Error>> {
    let names: Vec<&str> = brokers.iter().map(|broker| broker.name.as_str()).collect();
    let ratios: Vec<String> = names[1..].iter().map(|other| format!("{} / {other}", names[0])).collect();
    println!("\n| shape | value | {} | {} |", names.join(" | "), ratios.join(" | "));
    println!("|---|---|{}", "---|".repeat(names.len() + ratios.len()));
    for shape in shapes {
        // rows[value][broker][round]
        let mut rows: BTreeMap<&'static str, Vec<Vec<f64>>> = BTreeMap::new();
        for round in 0..runs {
            let mut order: Vec<usize> = (0..brokers.len()).collect();
            if round % 2 == 1 {
                order.reverse();
            }
            for at in order {
                for (name, value) in quietest(&brokers[at], *shape, seconds, round)? {
                    rows.entry(name).or_insert_with(|| vec![Vec::new(); brokers.len()])[at].push(value);
                }
            }
        }
        for (name, by_broker) in rows {
            let values: Vec<String> =
                by_broker.iter().map(|values| Summary::of(values.clone()).to_string()).collect();
            let ratios: Vec<String> = by_broker[1..]
                .iter()
                .map(|other| {
                    if name == FOREIGN {
                        return String::new();
                    }
                    let paired = by_broker[0].iter().zip(other).filter(|(_, other)| **other != 0.0);
                    Summary::of(paired.map(|(ours, other)| ours / other).collect()).to_string()
                })
                .collect();
            println!("| {shape:?} | {name} | {} | {} |", values.join(" | "), ratios.join(" | "));
        }
    }
    Ok(())
}

/// One round. The least disturbed of up to three attempts counts.
fn quietest(broker: &Broker, shape: Shape, seconds: f64, round: usize) -> Result<Values, Box<dyn Error>> {
    let mut best: Option<Values> = None;
    for attempt in 0..=REPEATS_MAX {
        let topic = format!("bench-{}-{shape:?}-{round}-{attempt}", std::process::id());
        let values = measure(broker, shape, seconds, &topic)?;
        let foreign = |values: &Values| values.get(FOREIGN).copied().unwrap_or(0.0);
        if best.as_ref().is_none_or(|best| foreign(&values) < foreign(best)) {
            best = Some(values);
        }
        if best.as_ref().is_some_and(|best| foreign(best) <= FOREIGN_MAX) {
            break;
        }
    }
    best.ok_or_else(|| "no attempt was made".into())
}

const FOREIGN: &str = "foreign CPU, share of the machine";

fn measure(broker: &Broker, shape: Shape, seconds: f64, topic: &str) -> Result<Values, Box<dyn Error>> {
    let (size, partitions, batch_bytes) = match shape {
        Shape::Replay100 => (100, 1, 64 << 10),
        Shape::Replay1024 => (1024, 1, 64 << 10),
        Shape::Replay1024x6 => (1024, 6, 64 << 10),
        Shape::OneRecord | Shape::Latency => (100, 1, 1),
    };
    let mut values = Values::new();
    Client::connect(broker.address)?.create_topic(topic, partitions)?;
    rustix::fs::sync(); // dirty pages of the last run must not be written during this one
    let machine = machine_busy_seconds()?;
    let (own, start) = (cpu_seconds(std::process::id())?, std::time::Instant::now());
    let before = cpu_seconds(broker.pid)?;
    if shape == Shape::Latency {
        let latency = load::latency(broker.address, topic, size, 1000.0, seconds)?;
        values.insert("p50, us", latency.quantile(0.5));
        values.insert("p99, us", latency.quantile(0.99));
        values.insert("p99.9, us", latency.quantile(0.999));
    } else {
        let produce = Produce {
            topic: topic.into(),
            partitions,
            size,
            batch_bytes,
            in_flight: 5,
            connections: partitions.min(2),
            acks: -1,
            seconds,
        };
        let produced = load::produce(broker.address, &produce)?;
        let produced_cpu = cpu_seconds(broker.pid)? - before;
        if shape == Shape::OneRecord {
            values.insert("produce, k requests/s", produced.messages as f64 / produced.seconds / 1e3);
            values.insert("produce, CPU-us a request", produced_cpu / produced.messages as f64 * 1e6);
        } else {
            values.insert("produce, MB/s", produced.payload_bytes as f64 / produced.seconds / 1e6);
            values.insert("produce, CPU-s/GB", produced_cpu / produced.payload_bytes as f64 * 1e9);
            let fetched = load::fetch(broker.address, topic, partitions, 1 << 20, size)?;
            let fetched_cpu = cpu_seconds(broker.pid)? - before - produced_cpu;
            if fetched.messages != produced.messages {
                let (sent, came) = (produced.messages, fetched.messages);
                return Err(format!("{}: {sent} messages produced, {came} fetched", broker.name).into());
            }
            values.insert("fetch, MB/s", fetched.payload_bytes as f64 / fetched.seconds / 1e6);
            values.insert("fetch, CPU-s/GB", fetched_cpu / fetched.payload_bytes as f64 * 1e9);
        }
    }
    let known = cpu_seconds(broker.pid)? - before + cpu_seconds(std::process::id())? - own;
    let cores = std::thread::available_parallelism()?.get() as f64;
    let foreign = (machine_busy_seconds()? - machine - known) / (start.elapsed().as_secs_f64() * cores);
    values.insert(FOREIGN, foreign.max(0.0));
    values.insert("resident after, MiB", resident_mib(broker.pid)?);
    Client::connect(broker.address)?.delete_topic(topic)?;
    Ok(values)
}
