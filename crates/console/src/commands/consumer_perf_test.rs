//! `kafka-consumer-perf-test`: how fast records can be read.

use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use clap::Parser;
use jiff::{Timestamp, ZonedDateTime, tz::TimeZone};
use ottla_client::{Address, Client, ClientOptions, Consumer, ConsumerOptions, OffsetReset, OffsetSpec};
use ottla_model::{TopicName, TopicPartition};

use super::client_properties::ClientProperties;
use super::tools::{self, Failure};
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-consumer-perf-test", about: "measure how fast records can be read", run };

/// Measures how fast the records of a topic can be read. All partitions are read by this one consumer, without a group.
#[derive(Debug, Parser)]
#[command(name = "kafka-consumer-perf-test")]
struct Options {
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..", required_unless_present = "broker_list")]
    bootstrap_server: Option<String>,
    /// The same, as it used to be called.
    #[arg(long, value_name = "HOST:PORT,..")]
    broker_list: Option<String>,
    /// The topic to read.
    #[arg(long)]
    topic: String,
    /// How many records.
    #[arg(long, value_name = "N")]
    messages: u64,
    /// Bytes of one partition in one answer.
    #[arg(long, value_name = "BYTES", default_value_t = 1024 * 1024)]
    fetch_size: i32,
    /// Begin with the next record that comes instead of the first there is.
    #[arg(long)]
    from_latest: bool,
    /// Stop when no record has come for so many milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 10_000)]
    timeout: u64,
    /// Show a line for each interval instead of one at the end.
    #[arg(long)]
    show_detailed_stats: bool,
    /// Milliseconds of an interval.
    #[arg(long, value_name = "MS", default_value_t = 5_000)]
    reporting_interval: u64,
    /// Do not name the columns.
    #[arg(long)]
    hide_header: bool,
    /// A file of settings of the consumer.
    #[arg(long = "consumer.config", value_name = "FILE")]
    consumer_config: Option<PathBuf>,
    /// Accepted without effect: there is no group.
    #[arg(long, value_name = "GROUP", hide = true)]
    group: Option<String>,
    /// Accepted without effect.
    #[arg(long, value_name = "BYTES", hide = true)]
    socket_buffer_size: Option<u64>,
    /// Accepted without effect.
    #[arg(long, value_name = "N", hide = true)]
    threads: Option<u64>,
    /// Accepted without effect.
    #[arg(long, value_name = "N", hide = true)]
    num_fetch_threads: Option<u64>,
}

fn run(arguments: Vec<String>) -> ExitCode {
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    tools::run(read(options))
}

/// Records and bytes of their keys and values, up to a moment.
#[derive(Debug, Clone, Copy)]
struct Mark {
    at: Timestamp,
    elapsed: Duration,
    records: u64,
    bytes: u64,
}

async fn read(options: Options) -> Result<ExitCode, Failure> {
    let given = ClientProperties::new(options.consumer_config.as_deref(), &[])?;
    let mut client = ClientOptions::default();
    client.connection.client_id = "perf-consumer-client".to_owned();
    given.apply_to(&mut client)?;
    for name in given.unused() {
        tracing::warn!("the consumer has no use for the property {name}");
    }
    let bootstrap =
        options.bootstrap_server.as_deref().or(options.broker_list.as_deref()).unwrap_or_default();
    let bootstrap = Address::parse_list(bootstrap)?;
    let topic = TopicName::new(&options.topic)?;
    if !options.hide_header {
        let when = if options.show_detailed_stats { "time, threadId" } else { "start.time, end.time" };
        tools::print(&format!(
            "{when}, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, rebalance.time.ms, fetch.time.ms, \
             fetch.MB.sec, fetch.nMsg.sec\n"
        ))?;
    }

    let started = Instant::now();
    let start = Mark { at: Timestamp::now(), elapsed: Duration::ZERO, records: 0, bytes: 0 };
    let client = Client::connect(bootstrap, client).await?;
    let partitions = client.topic(&topic).await?.partitions.len() as i32;
    let (spec, reset) = match options.from_latest {
        true => (OffsetSpec::Latest, OffsetReset::Latest),
        false => (OffsetSpec::Earliest, OffsetReset::Earliest),
    };
    let consumer = ConsumerOptions { partition_bytes_max: options.fetch_size, reset, ..Default::default() };
    let mut consumer = Consumer::new(client, consumer);
    let all = (0..partitions).map(|number| (TopicPartition::new(topic.clone(), number), spec));
    consumer.assign(all).await?;

    let interval = Duration::from_millis(options.reporting_interval);
    let (mut now, mut shown) = (start, start);
    while now.records < options.messages {
        let Some(fetched) = consumer.poll(Duration::from_millis(options.timeout)).await? else {
            let ms = options.timeout;
            tools::print(&format!(
                "WARNING: Exiting before consuming the expected number of messages: timeout ({ms} ms) exceeded. You can use the \
                 --timeout option to increase the timeout.\n"
            ))?;
            break;
        };
        let _ = fetched.for_each(|record| {
            now.records += 1;
            now.bytes += (record.key.map_or(0, <[u8]>::len) + record.value.map_or(0, <[u8]>::len)) as u64;
            ControlFlow::Continue(())
        })?;
        now.at = Timestamp::now();
        now.elapsed = started.elapsed();
        if options.show_detailed_stats && now.elapsed - shown.elapsed >= interval {
            tools::print(&progress(shown, now))?;
            shown = now;
        }
    }
    now.at = Timestamp::now();
    now.elapsed = started.elapsed();
    if !options.show_detailed_stats {
        tools::print(&total(start, now))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Without a group no time goes into joining one, so all of it is fetching.
const REBALANCE_MS: u64 = 0;

/// One line for all: the columns of the header.
fn total(start: Mark, end: Mark) -> String {
    let (mb, seconds) = (megabytes(end.bytes), (end.elapsed - start.elapsed).as_secs_f64());
    let (mb_rate, rate) = (mb / seconds, end.records as f64 / seconds);
    format!(
        "{}, {}, {mb:.4}, {mb_rate:.4}, {}, {rate:.4}, {REBALANCE_MS}, {}, {mb_rate:.4}, {rate:.4}\n",
        date(start.at),
        date(end.at),
        end.records,
        (end.elapsed - start.elapsed).as_millis(),
    )
}

/// One line for an interval: totals so far, and rates of the interval.
fn progress(before: Mark, now: Mark) -> String {
    let taken = now.elapsed - before.elapsed;
    let mb_rate = megabytes(now.bytes - before.bytes) / taken.as_secs_f64();
    let rate = (now.records - before.records) as f64 / taken.as_secs_f64();
    format!(
        "{}, 0, {:.4}, {mb_rate:.4}, {}, {rate:.4}, {REBALANCE_MS}, {}, {mb_rate:.4}, {rate:.4}\n",
        date(now.at),
        megabytes(now.bytes),
        now.records,
        taken.as_millis(),
    )
}

fn megabytes(bytes: u64) -> f64 {
    bytes as f64 / (1024.0 * 1024.0)
}

/// `2026-11-30 19:38:01:130`
fn date(at: Timestamp) -> String {
    ZonedDateTime::new(at, TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S:%3f").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(ms: i64, records: u64, bytes: u64) -> Mark {
        let at = Timestamp::from_millisecond(1_000_000 + ms).unwrap();
        Mark { at, elapsed: Duration::from_millis(ms as u64), records, bytes }
    }

    #[test]
    fn lines_have_the_columns_of_the_header() {
        let (start, end) = (mark(0, 0, 0), mark(2000, 1000, 2 << 20));
        let (from, to) = (date(start.at), date(end.at));
        assert_eq!(
            total(start, end),
            format!("{from}, {to}, 2.0000, 1.0000, 1000, 500.0000, 0, 2000, 1.0000, 500.0000\n")
        );
        assert_eq!(
            progress(mark(1000, 400, 1 << 20), end),
            format!("{to}, 0, 2.0000, 1.0000, 1000, 600.0000, 0, 1000, 1.0000, 600.0000\n")
        );
    }
}
