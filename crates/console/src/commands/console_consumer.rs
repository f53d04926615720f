//! `kafka-console-consumer`: records become lines on standard output.

use std::collections::BTreeSet;
use std::io::{self, BufWriter, StdoutLock, Write};
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser;
use ottla_client::{
    Address, Admin, Assignor, Client, ClientError, ClientOptions, ConsumeError, Consumer, ConsumerOptions,
    Fetched, GroupConsumer, GroupOptions, IsolationLevel, OffsetReset, OffsetSpec,
};
use ottla_model::{Offset, TopicName, TopicPartition};
use rustix::event::{PollFd, PollFlags, poll};
use tokio::sync::oneshot;

use super::client_properties::{self, ClientProperties};
use super::record_formatter::{RecordFormat, WriteError};
use super::servers::{asked_to_stop, fail};
use super::tools::{self, Failure};
use super::topic_filter::TopicFilter;
use super::zookeeper_brokers::brokers_in_zookeeper;
use super::{Command, command_line};
use crate::logging;

pub const COMMAND: Command = Command { name: "kafka-console-consumer", about: "print records as lines", run };

/// Prints the records of a topic, one line each, until it is stopped.
#[derive(Debug, Parser)]
#[command(name = "kafka-console-consumer")]
struct Options {
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..")]
    bootstrap_server: Option<String>,
    /// Find the brokers in this ZooKeeper, HOST:PORT with a chroot behind the last (0.8).
    #[arg(long, value_name = "HOST:PORT,..[/CHROOT]", conflicts_with = "bootstrap_server")]
    zookeeper: Option<String>,
    /// The topic to read.
    #[arg(long)]
    topic: Option<String>,
    /// Read the topics whose whole names match this regular expression.
    #[arg(long, visible_alias = "whitelist", value_name = "REGEX")]
    include: Option<String>,
    /// Read the topics whose names do not match this regular expression (0.8).
    #[arg(long, value_name = "REGEX")]
    blacklist: Option<String>,
    /// Read this partition only.
    #[arg(long, value_name = "N")]
    partition: Option<i32>,
    /// Where to begin: an offset, earliest or latest [default: latest].
    #[arg(long)]
    offset: Option<String>,
    /// Begin with the first record there is instead of the next one that comes.
    #[arg(long)]
    from_beginning: bool,
    /// Stop after so many records; -1 never stops.
    #[arg(long, value_name = "N")]
    max_messages: Option<i64>,
    /// Read as a member of this group: share the partitions with its other members, and go on where it last stopped.
    #[arg(long, value_name = "GROUP")]
    group: Option<String>,
    /// Stop when no record has come for so many milliseconds.
    #[arg(long, visible_alias = "consumer-timeout-ms", value_name = "MS")]
    timeout_ms: Option<i64>,
    /// read_uncommitted or read_committed.
    #[arg(long, value_name = "LEVEL")]
    isolation_level: Option<String>,
    /// What is printed: print.timestamp, print.partition, print.offset, print.headers, print.key, print.value, key.separator,
    /// line.separator, headers.separator, null.literal, key.deserializer, value.deserializer, headers.deserializer.
    #[arg(long, visible_alias = "formatter-property", value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// A file of such settings.
    #[arg(long, value_name = "FILE")]
    formatter_config: Option<PathBuf>,
    /// A setting of the consumer, such as fetch.min.bytes=1; goes before --consumer.config.
    #[arg(long, visible_alias = "command-property", value_name = "NAME=VALUE")]
    consumer_property: Vec<String>,
    /// A file of settings of the consumer.
    #[arg(long = "consumer.config", visible_alias = "command-config", value_name = "FILE")]
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
    /// DefaultMessageFormatter or NoOpMessageFormatter, which prints nothing.
    #[arg(long, value_name = "CLASS")]
    formatter: Option<String>,
    /// What keys are: StringDeserializer, LongDeserializer and the like.
    #[arg(long, value_name = "CLASS")]
    key_deserializer: Option<String>,
    /// What values are: StringDeserializer, LongDeserializer and the like.
    #[arg(long, value_name = "CLASS")]
    value_deserializer: Option<String>,
    #[command(flatten)]
    ignored: Ignored,
}

/// Options of Kafka's tool that have nothing to act on here; accepted so that scripts keep working.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Accepted without effect")]
struct Ignored {
    #[arg(long, value_name = "BYTES")]
    socket_buffer_size: Option<String>,
    #[arg(long, value_name = "MS")]
    socket_timeout_ms: Option<String>,
    #[arg(long, value_name = "MS")]
    refresh_leader_backoff_ms: Option<String>,
    #[arg(long = "autocommit.interval.ms", value_name = "MS")]
    autocommit_interval_ms: Option<String>,
    #[arg(long)]
    enable_systest_events: bool,
    #[arg(long)]
    csv_reporter_enabled: bool,
    #[arg(long, value_name = "DIR")]
    metrics_dir: Option<String>,
}

impl Options {
    /// Kafka's words for why the options do not go together.
    fn check(&self) -> Result<(), String> {
        let selections = [&self.topic, &self.include, &self.blacklist];
        if selections.iter().filter(|selection| selection.is_some()).count() != 1 {
            return Err("Exactly one of --include/--topic is required. ".into());
        }
        match (&self.partition, &self.topic, &self.offset) {
            (Some(_), None, _) => return Err("The topic is required when partition is specified.".into()),
            (Some(_), _, Some(_)) if self.from_beginning => {
                return Err("Options from-beginning and offset cannot be specified together.".into());
            }
            (None, _, Some(_)) => return Err("The partition is required when offset is specified.".into()),
            _ => {}
        }
        if self.bootstrap_server.is_none() && self.zookeeper.is_none() {
            return Err("Missing required argument \"[bootstrap-server]\"".into());
        }
        if self.group.is_some() && self.partition.is_some() {
            return Err(
                "A group shares its partitions out by itself, so --group goes without --partition.".into()
            );
        }
        if self.group.is_some() && self.zookeeper.is_some() {
            return Err("Groups are kept by brokers, so --group goes with --bootstrap-server.".into());
        }
        self.start().map(drop)
    }

    fn start(&self) -> Result<OffsetSpec, String> {
        match self.offset.as_deref() {
            None if self.from_beginning => Ok(OffsetSpec::Earliest),
            None => Ok(OffsetSpec::Latest),
            Some(text) if text.eq_ignore_ascii_case("latest") => Ok(OffsetSpec::Latest),
            Some(text) if text.eq_ignore_ascii_case("earliest") => Ok(OffsetSpec::Earliest),
            Some(text) => match text.parse() {
                Ok(offset @ 0..) => Ok(OffsetSpec::Offset(Offset(offset))),
                _ => Err(format!(
                    "The provided offset value '{text}' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long."
                )),
            },
        }
    }
}

fn run(arguments: Vec<String>) -> ExitCode {
    if arguments.len() <= 1 {
        let about = "This tool helps to read data from Kafka topics and outputs it to standard output.";
        return command_line::refuse::<Options>(about);
    }
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    if let Err(complaint) = options.check() {
        return command_line::refuse::<Options>(&complaint);
    }
    logging::to_stderr();
    match Plan::of(&options) {
        Ok(plan) => tools::run(consume(plan)),
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
    Matching(TopicFilter),
    NotMatching(TopicFilter),
}

/// The options, understood.
struct Plan {
    cluster: Cluster,
    selection: Selection,
    start: OffsetSpec,
    client: ClientOptions,
    consumer: ConsumerOptions,
    group: Option<GroupOptions>,
    format: RecordFormat,
    records_max: Option<u64>,
    timeout: Option<Duration>,
    skip_errors: bool,
}

impl Plan {
    fn of(options: &Options) -> Result<Plan, Failure> {
        let mut given =
            ClientProperties::new(options.consumer_config.as_deref(), &options.consumer_property)?;
        given.put("max.partition.fetch.bytes", options.fetch_size);
        given.put("fetch.min.bytes", options.min_fetch_bytes);
        given.put("fetch.max.wait.ms", options.max_wait_ms);
        given.put("isolation.level", options.isolation_level.as_deref());
        let consumer = consumer_options(options, &given)?;
        let group = group_options(options, &given)?;
        let mut client = ClientOptions::default();
        client.connection.client_id = "console-consumer".to_owned();
        given.apply_to(&mut client)?;
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
            start: options.start()?,
            client,
            consumer,
            group,
            format: format(options)?,
            records_max: options.max_messages.and_then(|count| u64::try_from(count).ok()),
            timeout: options.timeout_ms.and_then(|ms| u64::try_from(ms).ok()).map(Duration::from_millis),
            skip_errors: options.skip_message_on_error,
        })
    }
}

fn format(options: &Options) -> Result<RecordFormat, Failure> {
    let mut format = RecordFormat::default();
    if let Some(class) = &options.formatter {
        format.set_class(class)?;
    }
    let mut shown: Vec<(String, String)> = Vec::new();
    if let Some(path) = &options.formatter_config {
        shown.extend(client_properties::read_file(path)?);
    }
    let flags = [
        ("key.deserializer", &options.key_deserializer),
        ("value.deserializer", &options.value_deserializer),
    ];
    for (name, flag) in flags {
        shown.extend(flag.as_ref().map(|class| (name.to_owned(), class.clone())));
    }
    shown.extend(options.property.iter().map(|text| client_properties::split(text)));
    for (name, value) in shown {
        if !format.set(&name, &value)? {
            tracing::warn!("the formatter has no property {name}");
        }
    }
    Ok(format)
}

fn selection(options: &Options) -> Result<Selection, Failure> {
    Ok(match (&options.topic, &options.include, &options.blacklist) {
        (Some(topic), _, _) => Selection::Topic(TopicName::new(topic)?, options.partition),
        (None, Some(pattern), _) => Selection::Matching(TopicFilter::new(pattern)?),
        (None, None, Some(pattern)) => Selection::NotMatching(TopicFilter::new(pattern)?),
        (None, None, None) => return Err("--topic or --include is required".into()),
    })
}

/// `None` without a group: then it reads alone.
fn group_options(options: &Options, given: &ClientProperties) -> Result<Option<GroupOptions>, Failure> {
    let named = given.text("group.id").map(str::to_owned);
    let group_id = match (&options.group, named) {
        (Some(flag), Some(named)) if *flag != named => {
            return Err(format!(
                "The group ids provided in different places (directly using '--group', via '--consumer-property', or via \
                 '--consumer.config') do not match. Detected group ids: '{flag}', '{named}'"
            )
            .into());
        }
        (Some(group_id), _) => group_id.clone(),
        (None, Some(named)) if options.partition.is_none() && options.zookeeper.is_none() => named,
        (None, _) => return Ok(None),
    };
    let mut group = GroupOptions::new(group_id);
    group.instance_id = given.text("group.instance.id").map(str::to_owned);
    let times = [
        ("session.timeout.ms", &mut group.session_timeout),
        ("heartbeat.interval.ms", &mut group.heartbeat_interval),
        ("max.poll.interval.ms", &mut group.max_poll_interval),
        ("default.api.timeout.ms", &mut group.commit_timeout),
    ];
    for (name, time) in times {
        if let Some(ms) = given.number(name)? {
            *time = Duration::from_millis(ms);
        }
    }
    if let Some(ms) = given.number("auto.commit.interval.ms")? {
        group.auto_commit = Some(Duration::from_millis(ms));
    }
    let expected = "String must be true or false";
    if given.choice("enable.auto.commit", expected, &[("true", true), ("false", false)])? == Some(false) {
        group.auto_commit = None;
    }
    let assignors = [
        ("org.apache.kafka.clients.consumer.RangeAssignor", Assignor::Range),
        ("range", Assignor::Range),
        ("org.apache.kafka.clients.consumer.RoundRobinAssignor", Assignor::RoundRobin),
        ("roundrobin", Assignor::RoundRobin),
    ];
    let expected = "this consumer knows the RangeAssignor and the RoundRobinAssignor";
    if let Some(assignor) = given.choice("partition.assignment.strategy", expected, &assignors)? {
        group.assignors = vec![assignor];
    }
    Ok(Some(group))
}

fn consumer_options(options: &Options, given: &ClientProperties) -> Result<ConsumerOptions, Failure> {
    let mut consumer = ConsumerOptions {
        reset: if options.from_beginning { OffsetReset::Earliest } else { OffsetReset::Latest },
        ..Default::default()
    };
    let sizes = [
        ("max.partition.fetch.bytes", &mut consumer.partition_bytes_max),
        ("fetch.min.bytes", &mut consumer.min_bytes),
        ("fetch.max.bytes", &mut consumer.bytes_max),
    ];
    for (name, size) in sizes {
        if let Some(bytes) = given.number(name)? {
            *size = i32::try_from(bytes).unwrap_or(i32::MAX);
        }
    }
    if let Some(ms) = given.number("fetch.max.wait.ms")? {
        consumer.wait_max = Duration::from_millis(ms);
    }
    let resets = [
        ("earliest", OffsetReset::Earliest),
        ("smallest", OffsetReset::Earliest),
        ("latest", OffsetReset::Latest),
        ("largest", OffsetReset::Latest),
        ("none", OffsetReset::None),
    ];
    let expected = "String must be one of: earliest, latest, none";
    if let Some(reset) = given.choice("auto.offset.reset", expected, &resets)? {
        if options.from_beginning && reset != OffsetReset::Earliest {
            let said = given.text("auto.offset.reset").unwrap_or_default();
            return Err(format!(
                "Can't simultaneously specify --from-beginning and 'auto.offset.reset={said}', please remove one option"
            )
            .into());
        }
        consumer.reset = reset;
    }
    let levels = [
        ("read_committed", IsolationLevel::ReadCommitted),
        ("read_uncommitted", IsolationLevel::ReadUncommitted),
    ];
    let expected = "String must be one of: read_committed, read_uncommitted";
    if let Some(level) = given.choice("isolation.level", expected, &levels)? {
        consumer.isolation = level;
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
    let mut reader = match &plan.group {
        Some(group) => {
            let topics: BTreeSet<TopicName> =
                partitions.into_iter().map(|partition| partition.topic).collect();
            let (topics, options) = (topics.into_iter().collect(), plan.consumer.clone());
            Reader::Member(Box::new(GroupConsumer::subscribe(client, topics, options, group.clone())))
        }
        None => {
            let mut consumer = Consumer::new(client, plan.consumer.clone());
            consumer.assign(partitions.into_iter().map(|partition| (partition, plan.start))).await?;
            Reader::Alone(Box::new(consumer))
        }
    };

    let mut printer = Printer::new(&plan);
    let ended = tokio::select! {
        ended = print(&plan, &mut reader, &mut printer) => ended,
        signal = asked_to_stop() => Ok(signal?.exit_code()),
        () = reader_gone() => {
            eprintln!("{READER_GONE}");
            Ok(ExitCode::SUCCESS)
        }
    };
    let flushed = printer.out.flush();
    reader.close(printer.stopped_at.take()).await;
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
            matching(Admin::new(client.clone()).list_topics().await?, &|name| pattern.matches(name))
        }
        Selection::NotMatching(pattern) => {
            matching(Admin::new(client.clone()).list_topics().await?, &|name| !pattern.matches(name))
        }
    })
}

/// Where the records come from.
enum Reader {
    Alone(Box<Consumer>),
    Member(Box<GroupConsumer>),
}

impl Reader {
    async fn poll(&mut self, wait: Duration) -> Result<Option<Fetched>, ConsumeError> {
        match self {
            Reader::Alone(consumer) => consumer.poll(wait).await,
            Reader::Member(member) => member.poll(wait).await,
        }
    }

    fn last_trouble(&mut self) -> Option<&ClientError> {
        match self {
            Reader::Alone(consumer) => consumer.last_trouble(),
            Reader::Member(member) => member.consumer().last_trouble(),
        }
    }

    /// Leaves the group, if it is in one, with everything committed that was printed and nothing that was not.
    async fn close(self, stopped_at: Option<(TopicPartition, Offset)>) {
        let Reader::Member(mut member) = self else { return };
        if let Some((partition, next)) = stopped_at
            && let Err(error) = member.consumer().seek(&partition, OffsetSpec::Offset(next))
        {
            // Another member has it by now, and goes on where this one last committed.
            tracing::debug!("{error}");
        }
        if let Err(error) = member.close().await {
            eprintln!("what was read is not committed: {error}");
        }
    }
}

struct Printer<'a> {
    out: BufWriter<StdoutLock<'static>>,
    format: &'a RecordFormat,
    skip_errors: bool,
    left: u64,
    count: u64,
    /// Where it stopped inside of a piece: the next record that would have been printed.
    stopped_at: Option<(TopicPartition, Offset)>,
}

impl<'a> Printer<'a> {
    fn new(plan: &'a Plan) -> Printer<'a> {
        Printer {
            out: BufWriter::with_capacity(64 * 1024, io::stdout().lock()),
            format: &plan.format,
            skip_errors: plan.skip_errors,
            left: plan.records_max.unwrap_or(u64::MAX),
            count: 0,
            stopped_at: None,
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
            self.left -= 1;
            self.count += 1;
            match self.format.write(&mut self.out, partition, &record) {
                Err(WriteError::Undecodable(error)) if self.skip_errors => {
                    tracing::error!("{}, offset {}: {error}", fetched.partition(), record.offset);
                }
                Ok(()) => {}
                Err(error) => {
                    written = Err(error);
                    self.stopped_at = Some((fetched.partition().clone(), record.offset));
                    return ControlFlow::Break(());
                }
            }
            if self.left > 0 {
                return ControlFlow::Continue(());
            }
            self.stopped_at = Some((fetched.partition().clone(), record.offset.plus(1)));
            ControlFlow::Break(())
        });
        match written {
            // As plain trouble with the output, which the caller knows from that of brokers.
            Err(WriteError::Output(error)) => return Err(error.into()),
            written => written?,
        }
        self.out.flush()?;
        Ok(flow?)
    }
}

async fn print(plan: &Plan, consumer: &mut Reader, printer: &mut Printer<'_>) -> Result<ExitCode, Failure> {
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
                eprintln!("{READER_GONE}");
                return Ok(ExitCode::SUCCESS);
            }
            Err(error) if plan.skip_errors => tracing::error!("{error}"),
            Err(error) => return Err(error),
        }
    }
}

/// In Kafka's words.
const READER_GONE: &str = "Unable to write to standard out, closing consumer.";

/// Resolves when nobody reads standard output any more, as behind `| head -1`: the next record may be long in coming.
async fn reader_gone() {
    let (gone, hears) = oneshot::channel();
    std::thread::spawn(move || {
        let stdout = io::stdout();
        // Asked for nothing, poll tells of errors and hang-ups only, and of a file never anything.
        let mut watched = [PollFd::new(&stdout, PollFlags::empty())];
        while let Err(rustix::io::Errno::INTR) = poll(&mut watched, None) {}
        if !watched[0].revents().is_empty() {
            // Nobody waits for it when the program is ending anyway.
            let _ = gone.send(());
        }
    });
    if hears.await.is_err() {
        std::future::pending::<()>().await;
    }
}

fn is_closed(error: &Failure) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn complaint(arguments: &str) -> Option<String> {
        let words = std::iter::once("kafka-console-consumer").chain(arguments.split_whitespace());
        Options::try_parse_from(words).unwrap().check().err()
    }

    #[test]
    fn options_that_do_not_go_together_are_refused_in_kafkas_words() {
        for (arguments, words) in [
            ("--bootstrap-server b:1", "Exactly one of --include/--topic is required. "),
            (
                "--topic t --include u --bootstrap-server b:1",
                "Exactly one of --include/--topic is required. ",
            ),
            ("--topic t", "Missing required argument \"[bootstrap-server]\""),
            (
                "--include t --partition 0 --bootstrap-server b:1",
                "The topic is required when partition is specified.",
            ),
            (
                "--topic t --offset 0 --bootstrap-server b:1",
                "The partition is required when offset is specified.",
            ),
            (
                "--topic t --partition 0 --offset 0 --from-beginning --bootstrap-server b:1",
                "Options from-beginning and offset cannot be specified together.",
            ),
            (
                "--topic t --partition 0 --offset=-5 --bootstrap-server b:1",
                "The provided offset value '-5' is incorrect. Valid values are 'earliest', 'latest', or a non-negative long.",
            ),
        ] {
            assert_eq!(complaint(arguments).as_deref(), Some(words), "{arguments}");
        }
        assert_eq!(complaint("--topic t --zookeeper z:1 --from-beginning"), None);
        assert_eq!(complaint("--topic t --partition 0 --offset Earliest --bootstrap-server b:1"), None);
    }

    #[test]
    fn a_group_shares_its_partitions_out_by_itself() {
        let said = complaint("--topic t --group g --partition 0 --bootstrap-server b:1").unwrap();
        assert!(said.contains("without --partition"), "{said}");
        let said = complaint("--topic t --group g --zookeeper z:1").unwrap();
        assert!(said.contains("--bootstrap-server"), "{said}");
        assert_eq!(complaint("--topic t --group g --bootstrap-server b:1"), None);
    }
}
