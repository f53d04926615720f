//! `kafka-producer-perf-test`: how fast records can be sent.

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use clap::Parser;
use ottla_client::{Address, BatchReport, Client, ClientOptions, Producer, ProducerOptions, ProducerRecord};
use ottla_model::TopicName;
use tokio::time::{Instant, sleep_until};

use super::client_properties::ClientProperties;
use super::tools::{self, Failure};
use super::{Command, command_line, producer_properties};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-producer-perf-test", about: "measure how fast records can be sent", run };

/// Measures how fast records can be sent, and how long they take.
///
/// A latency is that of a batch's first record, from its append to the answer: no other record of the batch has waited longer.
#[derive(Debug, Parser)]
#[command(name = "kafka-producer-perf-test")]
struct Options {
    /// The topic to send to.
    #[arg(long)]
    topic: String,
    /// How many records.
    #[arg(long, value_name = "N")]
    num_records: u64,
    /// Records a second at most; -1 for as many as possible.
    #[arg(long, value_name = "N")]
    throughput: f64,
    /// Bytes of each record.
    #[arg(long, value_name = "BYTES", required_unless_present_any = ["payload_file", "payload_monotonic"])]
    record_size: Option<usize>,
    /// A text file whose pieces are sent, one after the other.
    #[arg(long, value_name = "FILE", conflicts_with = "record_size")]
    payload_file: Option<PathBuf>,
    /// What is between two pieces of the file.
    #[arg(long, default_value = "\\n", value_name = "TEXT")]
    payload_delimiter: String,
    /// Send numbers, counting up.
    #[arg(long, conflicts_with_all = ["record_size", "payload_file"])]
    payload_monotonic: bool,
    /// Settings of the producer, such as bootstrap.servers=HOST:PORT acks=1.
    #[arg(long, value_name = "NAME=VALUE", num_args = 1.., required_unless_present = "producer_config")]
    producer_props: Vec<String>,
    /// A file of settings of the producer.
    #[arg(long = "producer.config", value_name = "FILE")]
    producer_config: Option<PathBuf>,
}

/// Time between two lines while records are sent.
const REPORT_EVERY: Duration = Duration::from_secs(5);

fn run(arguments: Vec<String>) -> ExitCode {
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(send(options))
}

async fn send(options: Options) -> Result<ExitCode, Failure> {
    let given = ClientProperties::new(options.producer_config.as_deref(), &options.producer_props)?;
    let bootstrap =
        given.text("bootstrap.servers").ok_or("bootstrap.servers is missing from --producer-props")?;
    let bootstrap = Address::parse_list(bootstrap)?;
    let mut client = ClientOptions::default();
    client.connection.client_id = "perf-producer-client".to_owned();
    given.apply_to(&mut client)?;
    let statistics = Arc::new(Mutex::new(Statistics::new()));
    let counting = statistics.clone();
    let mut producer = ProducerOptions {
        on_batch: Some(Arc::new(move |report| lock(&counting).add(report))),
        ..Default::default()
    };
    producer_properties::apply(&given, &mut producer)?;
    for name in given.unused() {
        tracing::warn!("the producer has no use for the property {name}");
    }
    let topic = TopicName::new(&options.topic)?;
    let mut payload = Payload::of(&options)?;

    let producer = Producer::start(Client::connect(bootstrap, client).await?, producer)?;
    lock(&statistics).start();
    let started = Instant::now();
    let mut reported = started;
    for number in 0..options.num_records {
        let bytes = payload.next(number);
        lock(&statistics).bytes += bytes.len() as u64;
        producer.send(ProducerRecord::new(&topic, None, Some(bytes))).await?;
        if options.throughput > 0.0 {
            // When the next record is due; behind time, none waits.
            sleep_until(started + Duration::from_secs_f64((number + 1) as f64 / options.throughput)).await;
        }
        if number % 1024 == 0 && reported.elapsed() >= REPORT_EVERY {
            reported = Instant::now();
            let line = lock(&statistics).window();
            tools::print(&line)?;
        }
    }
    producer.close().await;
    let (line, failed) = {
        let statistics = lock(&statistics);
        (statistics.total(), statistics.failed)
    };
    tools::print(&line)?;
    if failed > 0 {
        return Err(format!("{failed} record(s) were not delivered").into());
    }
    Ok(ExitCode::SUCCESS)
}

fn lock(statistics: &Mutex<Statistics>) -> std::sync::MutexGuard<'_, Statistics> {
    statistics.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What is sent.
enum Payload {
    /// Letters; each record is a piece of them that begins somewhere else.
    Random {
        letters: Vec<u8>,
        size: usize,
    },
    Pieces(Vec<Vec<u8>>),
    Numbers(String),
}

impl Payload {
    fn of(options: &Options) -> Result<Payload, Failure> {
        /// Bytes by which two records' beginnings differ at most.
        const SPREAD: usize = 64 * 1024;
        if let Some(path) = &options.payload_file {
            let read =
                std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
            let delimiter =
                if options.payload_delimiter == "\\n" { "\n" } else { &options.payload_delimiter };
            let text = String::from_utf8(read).map_err(|_| format!("{} is not text", path.display()))?;
            let pieces: Vec<Vec<u8>> =
                text.trim_end_matches(delimiter).split(delimiter).map(Into::into).collect();
            tools::print(&format!(
                "Reading payloads from: {}\nNumber of messages read: {}\n",
                path.display(),
                pieces.len()
            ))?;
            if text.is_empty() {
                return Err("File does not exist or empty file provided.".into());
            }
            return Ok(Payload::Pieces(pieces));
        }
        match options.record_size {
            Some(size) => {
                // Any fixed sequence will do, as long as it does not compress to nothing.
                let mut state = 0x9e37_79b9_7f4a_7c15_u64;
                let letters = (0..size.saturating_add(SPREAD)).map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    b'A' + (state % 26) as u8
                });
                Ok(Payload::Random { letters: letters.collect(), size })
            }
            None => Ok(Payload::Numbers(String::new())),
        }
    }

    fn next(&mut self, number: u64) -> &[u8] {
        match self {
            Payload::Random { letters, size } => {
                let start = (number.wrapping_mul(7919) % (letters.len() - *size + 1) as u64) as usize;
                &letters[start..start + *size]
            }
            Payload::Pieces(pieces) => &pieces[(number % pieces.len() as u64) as usize],
            Payload::Numbers(text) => {
                *text = number.to_string();
                text.as_bytes()
            }
        }
    }
}

/// Latencies are counted by the millisecond; longer ones count as this.
const LATENCY_MS_MAX: usize = 60_000;

/// What became of the records, since the start and since the last line.
///
/// Memory: a counter for each millisecond of latency, however many records there are.
#[derive(Debug)]
struct Statistics {
    started: Instant,
    window_started: Instant,
    /// Of records sent; those delivered are as large on average.
    bytes: u64,
    failed: u64,
    whole: Sum,
    window: Sum,
    by_ms: Vec<u64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Sum {
    count: u64,
    latency_ms_total: u64,
    latency_ms_max: u64,
}

impl Sum {
    fn add(&mut self, count: u64, latency_ms: u64) {
        self.count += count;
        self.latency_ms_total += count * latency_ms;
        self.latency_ms_max = self.latency_ms_max.max(latency_ms);
    }

    fn mean_ms(self) -> f64 {
        self.latency_ms_total as f64 / self.count as f64
    }
}

impl Statistics {
    fn new() -> Statistics {
        let now = Instant::now();
        Statistics {
            started: now,
            window_started: now,
            bytes: 0,
            failed: 0,
            whole: Sum::default(),
            window: Sum::default(),
            by_ms: vec![0; LATENCY_MS_MAX + 1],
        }
    }

    fn start(&mut self) {
        self.started = Instant::now();
        self.window_started = self.started;
    }

    fn add(&mut self, report: &BatchReport) {
        let count = report.record_count.max(0) as u64;
        if let Err(error) = &report.outcome {
            self.failed += count;
            tracing::error!("{count} record(s) of {} were not delivered: {error}", report.partition);
            return;
        }
        self.add_latency(count, report.opened.elapsed().as_millis() as u64);
    }

    fn add_latency(&mut self, count: u64, ms: u64) {
        self.whole.add(count, ms);
        self.window.add(count, ms);
        self.by_ms[usize::try_from(ms).map_or(LATENCY_MS_MAX, |ms| ms.min(LATENCY_MS_MAX))] += count;
    }

    /// The line of the time since the last one.
    fn window(&mut self) -> String {
        let seconds = self.window_started.elapsed().as_secs_f64();
        let window = std::mem::take(&mut self.window);
        self.window_started = Instant::now();
        let rate = window.count as f64 / seconds;
        format!(
            "{} records sent, {rate:.1} records/sec ({:.2} MB/sec), {:.1} ms avg latency, {:.1} ms max latency.\n",
            window.count,
            self.megabytes(rate),
            window.mean_ms(),
            window.latency_ms_max as f64,
        )
    }

    fn total(&self) -> String {
        let rate = self.whole.count as f64 / self.started.elapsed().as_secs_f64();
        let [p50, p95, p99, p999] = [0.5, 0.95, 0.99, 0.999].map(|share| self.percentile(share));
        format!(
            "{} records sent, {rate:.6} records/sec ({:.2} MB/sec), {:.2} ms avg latency, {:.2} ms max latency, \
             {p50} ms 50th, {p95} ms 95th, {p99} ms 99th, {p999} ms 99.9th.\n",
            self.whole.count,
            self.megabytes(rate),
            self.whole.mean_ms(),
            self.whole.latency_ms_max as f64,
        )
    }

    fn megabytes(&self, records_per_second: f64) -> f64 {
        let sent = (self.whole.count + self.failed).max(1);
        records_per_second * self.bytes as f64 / sent as f64 / (1024.0 * 1024.0)
    }

    /// The latency that this share of the records does not exceed, in milliseconds.
    fn percentile(&self, share: f64) -> usize {
        let rank = (share * self.whole.count as f64) as u64;
        let mut seen = 0;
        let within = self.by_ms.iter().position(|count| {
            seen += count;
            seen > rank
        });
        within.unwrap_or(self.whole.latency_ms_max as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_those_of_records() {
        let mut statistics = Statistics::new();
        statistics.add_latency(900, 2);
        statistics.add_latency(90, 10);
        statistics.add_latency(10, 500);
        let percentiles = [0.5, 0.95, 0.99, 0.999].map(|share| statistics.percentile(share));
        assert_eq!(percentiles, [2, 10, 500, 500]);
        let line = statistics.total();
        assert!(line.starts_with("1000 records sent, "), "{line}");
        assert!(
            line.ends_with(" 7.70 ms avg latency, 500.00 ms max latency, 2 ms 50th, 10 ms 95th, 500 ms 99th, 500 ms 99.9th.\n"),
            "{line}"
        );
    }

    #[test]
    fn a_line_on_the_way_starts_the_next_window() {
        let mut statistics = Statistics::new();
        statistics.add_latency(3, 4);
        assert!(statistics.window().starts_with("3 records sent, "));
        statistics.add_latency(1, 4);
        assert!(statistics.window().starts_with("1 records sent, "));
        assert_eq!(statistics.whole.count, 4);
    }

    #[test]
    fn payloads_have_the_size_asked_for() {
        let required = ["--topic=t", "--num-records=1", "--throughput=-1", "--producer-props", "a=b"];
        for (size, lengths) in [("--record-size=7", [7, 7]), ("--payload-monotonic", [1, 2])] {
            let words = ["kafka-producer-perf-test", size].into_iter().chain(required);
            let options = Options::try_parse_from(words).unwrap();
            let mut payload = Payload::of(&options).unwrap();
            assert_eq!([payload.next(0).len(), payload.next(10).len()], lengths, "{size}");
        }
    }
}
