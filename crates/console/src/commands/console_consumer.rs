//! `kafka-console-consumer`: records become lines on standard output.

use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ottla_client::{
    Address, Admin, Client, ClientOptions, ConnectionOptions, Consumer, ConsumerOptions, Fetched,
    IsolationLevel, OffsetReset, OffsetSpec,
};
use ottla_model::{Offset, TopicName, TopicPartition};
use regex::Regex;

use super::Command;
use super::client_properties::{self, ClientProperties};
use super::record_formatter::RecordFormat;
use super::servers::{asked_to_stop, fail, runtime};
use super::zookeeper_brokers::brokers_in_zookeeper;
use crate::logging;

pub const COMMAND: Command = Command { name: "kafka-console-consumer", about: "print records as lines", run };

/// Prints the records of a topic, one line each, until it is stopped.
#[derive(Debug, Parser)]
#[command(name = "kafka-console-consumer", version)]
struct Options {
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..", required_unless_present = "zookeeper")]
    bootstrap_server: Option<String>,
    /// Find the brokers in this ZooKeeper, HOST:PORT with a chroot behind the last (0.8).
    #[arg(long, value_name = "HOST:PORT,..[/CHROOT]", conflicts_with = "bootstrap_server")]
    zookeeper: Option<String>,
    /// The topic to read.
    #[arg(long, required_unless_present_any = ["include", "blacklist"])]
    topic: Option<String>,
    /// Read the topics whose whole names match this regular expression.
    #[arg(long, visible_alias = "whitelist", value_name = "REGEX", conflicts_with = "topic")]
    include: Option<String>,
    /// Read the topics whose names do not match this regular expression (0.8).
    #[arg(long, value_name = "REGEX", conflicts_with_all = ["topic", "include"])]
    blacklist: Option<String>,
    /// Read this partition only.
    #[arg(long, requires = "topic")]
    partition: Option<i32>,
    /// Where to begin: an offset, earliest or latest [default: latest].
    #[arg(long, allow_hyphen_values = true, requires = "partition")]
    offset: Option<String>,
    /// Begin with the first record there is instead of the next one that comes.
    #[arg(long, conflicts_with = "offset")]
    from_beginning: bool,
    /// Stop after so many records.
    #[arg(long, value_name = "N")]
    max_messages: Option<u64>,
    /// Stop when no record has come for so many milliseconds.
    #[arg(long, visible_alias = "consumer-timeout-ms", value_name = "MS", allow_hyphen_values = true)]
    timeout_ms: Option<i64>,
    /// read_uncommitted or read_committed.
    #[arg(long, value_name = "LEVEL")]
    isolation_level: Option<String>,
    /// What is printed: print.timestamp, print.partition, print.offset, print.headers, print.key, print.value, key.separator,
    /// line.separator, headers.separator, null.literal.
    #[arg(long, value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// A file of such settings.
    #[arg(long, value_name = "FILE")]
    formatter_config: Option<PathBuf>,
    /// A setting of the consumer, such as fetch.min.bytes=1; goes before --consumer.config.
    #[arg(long, value_name = "NAME=VALUE")]
    consumer_property: Vec<String>,
    /// A file of settings of the consumer.
    #[arg(long = "consumer.config", value_name = "FILE")]
    consumer_config: Option<PathBuf>,
    /// Bytes of one partition in one answer.
    #[arg(long, value_name = "BYTES")]
    fetch_size: Option<i32>,
    /// Bytes for which a broker waits before it answers.
    #[arg(long, value_name = "BYTES")]
    min_fetch_bytes: Option<i32>,
    /// Milliseconds for which a broker waits at most.
    #[arg(long, value_name = "MS")]
    max_wait_ms: Option<u64>,
    /// Go on behind a record that cannot be read.
    #[arg(long)]
    skip_message_on_error: bool,
    #[command(flatten)]
    ignored: Ignored,
}

/// Options of Kafka's tool that have nothing to act on here; accepted so that scripts keep working.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Accepted without effect")]
struct Ignored {
    #[arg(long, value_name = "CLASS")]
    formatter: Option<String>,
    #[arg(long, value_name = "CLASS")]
    key_deserializer: Option<String>,
    #[arg(long, value_name = "CLASS")]
    value_deserializer: Option<String>,
    #[arg(long, value_name = "BYTES")]
    socket_buffer_size: Option<String>,
    #[arg(long, value_name = "MS")]
    socket_timeout_ms: Option<String>,
    #[arg(long, value_name = "MS")]
    refresh_leader_backoff_ms: Option<String>,
    #[arg(long = "autocommit.interval.ms", value_name = "MS")]
    autocommit_interval_ms: Option<String>,
    #[arg(long)]
    csv_reporter_enabled: bool,
    #[arg(long, value_name = "DIR")]
    metrics_dir: Option<String>,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn run(arguments: Vec<String>) -> ExitCode {
    let options = match Options::try_parse_from(arguments) {
        Ok(options) => options,
        Err(error) => return super::usage(&error),
    };
    logging::to_stderr();
    let plan = match Plan::of(&options) {
        Ok(plan) => plan,
        Err(reason) => return fail(reason),
    };
    let runtime = match runtime() {
        Ok(runtime) => runtime,
        Err(error) => return fail(error),
    };
    match runtime.block_on(consume(plan)) {
        Ok(code) => code,
        Err(reason) => fail(reason),
    }
}

/// Where the brokers are to be found.
enum Cluster {
    Bootstrap(Vec<Address>),
    ZooKeeper(String),
}

/// Which topics are read.
enum Selection {
    Topic(TopicName, Option<i32>),
    Matching(Regex),
    NotMatching(Regex),
}

/// The options, understood.
struct Plan {
    cluster: Cluster,
    selection: Selection,
    start: OffsetSpec,
    client: ClientOptions,
    consumer: ConsumerOptions,
    format: RecordFormat,
    records_max: Option<u64>,
    timeout: Option<Duration>,
    skip_errors: bool,
}

impl Plan {
    fn of(options: &Options) -> Result<Plan, Failure> {
        let mut format = RecordFormat::default();
        let mut shown: Vec<(String, String)> = Vec::new();
        if let Some(path) = &options.formatter_config {
            shown.extend(client_properties::read_file(path)?);
        }
        for text in &options.property {
            shown.push(client_properties::split(text)?);
        }
        for (name, value) in shown {
            if !format.set(&name, &value)? {
                tracing::warn!("the formatter has no property {name}");
            }
        }
        let given = ClientProperties::new(options.consumer_config.as_deref(), &options.consumer_property)?;
        let consumer = consumer_options(options, &given)?;
        let client_id = given.text("client.id").unwrap_or("console-consumer").to_owned();
        for name in given.unused() {
            tracing::warn!("the consumer has no use for the property {name}");
        }
        let cluster = match (&options.bootstrap_server, &options.zookeeper) {
            (Some(list), _) => Cluster::Bootstrap(Address::parse_list(list)?),
            (None, Some(connect)) => Cluster::ZooKeeper(connect.clone()),
            (None, None) => return Err("--bootstrap-server or --zookeeper is required".into()),
        };
        Ok(Plan {
            cluster,
            selection: selection(options)?,
            start: start(options)?,
            client: ClientOptions {
                connection: ConnectionOptions { client_id, ..Default::default() },
                ..Default::default()
            },
            consumer,
            format,
            records_max: options.max_messages,
            timeout: options.timeout_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
            skip_errors: options.skip_message_on_error,
        })
    }
}

fn selection(options: &Options) -> Result<Selection, Failure> {
    // Kafka matches whole names, and takes a comma for "or".
    let whole = |pattern: &str| Regex::new(&format!("^(?:{})$", pattern.trim().replace(',', "|")));
    Ok(match (&options.topic, &options.include, &options.blacklist) {
        (Some(topic), _, _) => Selection::Topic(TopicName::new(topic)?, options.partition),
        (None, Some(pattern), _) => Selection::Matching(whole(pattern)?),
        (None, None, Some(pattern)) => Selection::NotMatching(whole(pattern)?),
        (None, None, None) => return Err("--topic or --include is required".into()),
    })
}

fn start(options: &Options) -> Result<OffsetSpec, Failure> {
    if options.from_beginning {
        return Ok(OffsetSpec::Earliest);
    }
    match options.offset.as_deref() {
        None | Some("latest") => Ok(OffsetSpec::Latest),
        Some("earliest") => Ok(OffsetSpec::Earliest),
        Some(text) => match text.parse() {
            Ok(offset @ 0..) => Ok(OffsetSpec::Offset(Offset(offset))),
            _ => Err(format!("--offset must be a number from 0 on, earliest or latest, not {text:?}").into()),
        },
    }
}

fn consumer_options(options: &Options, given: &ClientProperties) -> Result<ConsumerOptions, Failure> {
    let mut consumer = ConsumerOptions {
        reset: if options.from_beginning { OffsetReset::Earliest } else { OffsetReset::Latest },
        ..Default::default()
    };
    let bytes = |flag: Option<i32>, name: &str| match flag {
        Some(bytes) => Ok(Some(bytes)),
        None => given.number(name).map(|bytes| bytes.map(|bytes| i32::try_from(bytes).unwrap_or(i32::MAX))),
    };
    if let Some(bytes) = bytes(options.fetch_size, "max.partition.fetch.bytes")? {
        consumer.partition_bytes_max = bytes;
    }
    if let Some(bytes) = bytes(options.min_fetch_bytes, "fetch.min.bytes")? {
        consumer.min_bytes = bytes;
    }
    if let Some(bytes) = bytes(None, "fetch.max.bytes")? {
        consumer.bytes_max = bytes;
    }
    let wait = options.max_wait_ms.map_or_else(|| given.number("fetch.max.wait.ms"), |ms| Ok(Some(ms)))?;
    if let Some(ms) = wait {
        consumer.wait_max = Duration::from_millis(ms);
    }
    if let Some(reset) = given.text("auto.offset.reset") {
        consumer.reset = match reset {
            "earliest" | "smallest" => OffsetReset::Earliest,
            "latest" | "largest" => OffsetReset::Latest,
            "none" => OffsetReset::None,
            other => {
                return Err(
                    format!("auto.offset.reset must be earliest, latest or none, not {other:?}").into()
                );
            }
        };
    }
    if let Some(level) = options.isolation_level.as_deref().or(given.text("isolation.level")) {
        consumer.isolation = match level {
            "read_uncommitted" => IsolationLevel::ReadUncommitted,
            "read_committed" => IsolationLevel::ReadCommitted,
            other => {
                let allowed = "read_uncommitted or read_committed";
                return Err(format!("the isolation level must be {allowed}, not {other:?}").into());
            }
        };
    }
    Ok(consumer)
}

async fn consume(plan: Plan) -> Result<ExitCode, Failure> {
    let (bootstrap, old) = match &plan.cluster {
        Cluster::Bootstrap(bootstrap) => (bootstrap.clone(), false),
        Cluster::ZooKeeper(connect) => (brokers_in_zookeeper(connect).await?, true),
    };
    let client = Client::connect(bootstrap, plan.client.clone()).await?;
    let partitions = partitions(&client, &plan.selection).await?;
    let mut consumer = Consumer::new(client, plan.consumer.clone());
    consumer.assign(partitions.into_iter().map(|partition| (partition, plan.start))).await?;

    let mut printer = Printer::new(&plan);
    let ended = tokio::select! {
        ended = print(&plan, &mut consumer, &mut printer) => ended,
        _ = asked_to_stop() => Ok(ExitCode::from(130)),
    };
    let flushed = printer.out.flush();
    let said = if old { "Consumed" } else { "Processed a total of" };
    eprintln!("{said} {} messages", printer.count);
    match flushed {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => ended,
    }
}

async fn partitions(client: &Client, selection: &Selection) -> Result<Vec<TopicPartition>, Failure> {
    let all = |topic: &ottla_client::Topic| -> Vec<TopicPartition> {
        let numbers = 0..topic.partitions.len() as i32;
        numbers.map(|number| TopicPartition::new(topic.name.clone(), number)).collect()
    };
    let matching = |found: Vec<ottla_client::Topic>, keep: &dyn Fn(&str) -> bool| {
        found.iter().filter(|topic| keep(&topic.name)).flat_map(all).collect()
    };
    Ok(match selection {
        Selection::Topic(topic, Some(partition)) => vec![TopicPartition::new(topic.clone(), *partition)],
        Selection::Topic(topic, None) => all(&*client.topic(topic).await?),
        Selection::Matching(pattern) => {
            matching(Admin::new(client.clone()).list_topics().await?, &|name| pattern.is_match(name))
        }
        Selection::NotMatching(pattern) => {
            matching(Admin::new(client.clone()).list_topics().await?, &|name| !pattern.is_match(name))
        }
    })
}

struct Printer<'a> {
    out: BufWriter<StdoutLock<'static>>,
    format: &'a RecordFormat,
    left: u64,
    count: u64,
}

impl<'a> Printer<'a> {
    fn new(plan: &'a Plan) -> Printer<'a> {
        Printer {
            out: BufWriter::with_capacity(64 * 1024, io::stdout().lock()),
            format: &plan.format,
            left: plan.records_max.unwrap_or(u64::MAX),
            count: 0,
        }
    }

    /// Prints the records of one piece; breaks when enough have been printed.
    fn print(&mut self, fetched: &Fetched) -> Result<ControlFlow<()>, Failure> {
        let partition = fetched.partition().partition;
        let mut written = Ok(());
        let flow = fetched.for_each(|record| {
            if self.left == 0 {
                return ControlFlow::Break(());
            }
            written = self.format.write(&mut self.out, partition, &record);
            if written.is_err() {
                return ControlFlow::Break(());
            }
            self.left -= 1;
            self.count += 1;
            if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        });
        written?;
        self.out.flush()?;
        Ok(flow?)
    }
}

async fn print(plan: &Plan, consumer: &mut Consumer, printer: &mut Printer<'_>) -> Result<ExitCode, Failure> {
    if plan.records_max == Some(0) {
        return Ok(ExitCode::SUCCESS);
    }
    let wait = plan.timeout.unwrap_or(Duration::from_secs(3600));
    loop {
        let fetched = match consumer.poll(wait).await {
            Ok(Some(fetched)) => fetched,
            Ok(None) if plan.timeout.is_some() => {
                match consumer.last_trouble() {
                    Some(trouble) => eprintln!("no message came within {} ms: {trouble}", wait.as_millis()),
                    None => eprintln!("no message came within {} ms", wait.as_millis()),
                }
                return Ok(ExitCode::SUCCESS);
            }
            Ok(None) => continue,
            Err(error) if plan.skip_errors => {
                tracing::error!("{error}");
                continue;
            }
            Err(error) => return Err(error.into()),
        };
        match printer.print(&fetched) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => return Ok(ExitCode::SUCCESS),
            Err(error) if is_closed(&error) => {
                eprintln!("Unable to write to standard out, closing consumer.");
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) if plan.skip_errors => tracing::error!("{error}"),
            Err(error) => return Err(error),
        }
    }
}

fn is_closed(error: &Failure) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}
