//! `kafka-console-producer`: lines of standard input become records.

use std::io::{IsTerminal, Read, Write};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use ottla_client::{
    Acks, Address, BatchReport, Client, ClientOptions, ConnectionOptions, Producer, ProducerOptions,
    ProducerRecord,
};
use ottla_model::TopicName;
use ottla_protocol::compression::{Codec, Compression};
use tokio::sync::mpsc;

use super::Command;
use super::client_properties::ClientProperties;
use super::line_reader::{LineFormat, LineSplitter};
use super::servers::{asked_to_stop, fail, runtime};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-console-producer", about: "send lines of standard input as records", run };

/// Sends each line of standard input as a record, until the input ends.
#[derive(Debug, Parser)]
#[command(name = "kafka-console-producer", version)]
struct Options {
    /// The topic to send to.
    #[arg(long)]
    topic: String,
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, visible_alias = "broker-list", value_name = "HOST:PORT,..")]
    bootstrap_server: String,
    /// Wait for each record before sending the next.
    #[arg(long)]
    sync: bool,
    /// none, gzip, snappy, lz4 or zstd; gzip if no codec is named.
    #[arg(long, num_args = 0..=1, default_missing_value = "gzip", value_name = "CODEC")]
    compression_codec: Option<String>,
    /// The same as --compression-codec gzip (0.8).
    #[arg(long, conflicts_with = "compression_codec")]
    compress: bool,
    /// Bytes of one batch; on 0.8 this was a number of records, and small numbers are taken for that.
    #[arg(long, value_name = "BYTES")]
    batch_size: Option<usize>,
    /// Bytes of one batch; goes before --batch-size.
    #[arg(long, value_name = "BYTES")]
    max_partition_memory_bytes: Option<usize>,
    /// Milliseconds that a record may wait for others to share its batch [default: 10].
    #[arg(long, value_name = "MS")]
    timeout: Option<u64>,
    /// 0, 1, -1 or all: how many replicas must have a record [default: -1].
    #[arg(long, allow_hyphen_values = true, value_name = "ACKS")]
    request_required_acks: Option<String>,
    /// Milliseconds that a broker may take to replicate.
    #[arg(long, value_name = "MS")]
    request_timeout_ms: Option<u64>,
    /// Milliseconds between two attempts.
    #[arg(long, value_name = "MS")]
    retry_backoff_ms: Option<u64>,
    /// Milliseconds after which the picture of the cluster is renewed.
    #[arg(long, value_name = "MS")]
    metadata_expiry_ms: Option<u64>,
    /// Milliseconds to wait for memory or for the topic.
    #[arg(long, visible_alias = "metadata-fetch-timeout-ms", value_name = "MS")]
    max_block_ms: Option<u64>,
    /// Bytes of records that may be under way.
    #[arg(long, value_name = "BYTES")]
    max_memory_bytes: Option<usize>,
    /// A setting of the line reader: parse.key, key.separator, parse.headers, headers.delimiter, headers.separator,
    /// headers.key.separator, ignore.error, null.marker.
    #[arg(long, value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// A file of settings of the line reader.
    #[arg(long, value_name = "FILE")]
    reader_config: Option<std::path::PathBuf>,
    /// A setting of the producer, such as linger.ms=5; goes before --producer.config.
    #[arg(long, value_name = "NAME=VALUE")]
    producer_property: Vec<String>,
    /// A file of settings of the producer.
    #[arg(long = "producer.config", value_name = "FILE")]
    producer_config: Option<std::path::PathBuf>,
    #[command(flatten)]
    ignored: Ignored,
}

/// Options of Kafka's tool that have nothing to act on here; accepted so that scripts keep working.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Accepted without effect")]
struct Ignored {
    #[arg(long, value_name = "N")]
    message_send_max_retries: Option<String>,
    #[arg(long, value_name = "BYTES")]
    socket_buffer_size: Option<String>,
    #[arg(long, value_name = "CLASS")]
    line_reader: Option<String>,
    #[arg(long, value_name = "N")]
    queue_size: Option<String>,
    #[arg(long, value_name = "MS", allow_hyphen_values = true)]
    queue_enqueuetimeout_ms: Option<String>,
    #[arg(long, value_name = "CLASS")]
    key_serializer: Option<String>,
    #[arg(long, value_name = "CLASS")]
    value_serializer: Option<String>,
    #[arg(long)]
    new_producer: bool,
}

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
    let outcome = runtime.block_on(produce(plan));
    // The thread that waits for standard input may never return.
    runtime.shutdown_background();
    match outcome {
        Ok(code) => code,
        Err(reason) => fail(reason),
    }
}

/// The options, understood.
struct Plan {
    topic: TopicName,
    bootstrap: Vec<Address>,
    client: ClientOptions,
    producer: ProducerOptions,
    format: LineFormat,
    sync: bool,
}

type Failure = Box<dyn std::error::Error + Send + Sync>;

impl Plan {
    fn of(options: &Options) -> Result<Plan, Failure> {
        let mut format = LineFormat::default();
        let mut reader: Vec<(String, String)> = Vec::new();
        if let Some(path) = &options.reader_config {
            reader.extend(super::client_properties::read_file(path)?);
        }
        for text in &options.property {
            reader.push(super::client_properties::split(text)?);
        }
        for (name, value) in reader {
            if !format.set(&name, &value)? {
                tracing::warn!("the line reader has no property {name}");
            }
        }

        let given = ClientProperties::new(options.producer_config.as_deref(), &options.producer_property)?;
        let mut client = ClientOptions {
            connection: ConnectionOptions {
                client_id: given.text("client.id").unwrap_or("console-producer").to_owned(),
                ..Default::default()
            },
            ..Default::default()
        };
        let mut producer = ProducerOptions { linger: Duration::from_millis(10), ..Default::default() };
        settings(options, &given, &mut client, &mut producer)?;
        for name in given.unused() {
            tracing::warn!("the producer has no use for the property {name}");
        }
        Ok(Plan {
            topic: TopicName::new(&options.topic)?,
            bootstrap: Address::parse_list(&options.bootstrap_server)?,
            client,
            producer,
            format,
            sync: options.sync,
        })
    }
}

/// Flags of their own go before properties, and both before the defaults.
fn settings(
    options: &Options,
    given: &ClientProperties,
    client: &mut ClientOptions,
    producer: &mut ProducerOptions,
) -> Result<(), Failure> {
    let ms = Duration::from_millis;
    let number = |flag: Option<u64>, name: &str| flag.map_or_else(|| given.number(name), |n| Ok(Some(n)));
    if let Some(timeout) = number(options.request_timeout_ms, "request.timeout.ms")? {
        producer.request_timeout = ms(timeout);
    }
    if let Some(backoff) = number(options.retry_backoff_ms, "retry.backoff.ms")? {
        client.retry_backoff = ms(backoff);
    }
    if let Some(age) = number(options.metadata_expiry_ms, "metadata.max.age.ms")? {
        client.metadata_max_age = ms(age);
    }
    if let Some(block) = number(options.max_block_ms, "max.block.ms")? {
        producer.block_max = ms(block);
    }
    if let Some(linger) = number(options.timeout, "linger.ms")? {
        producer.linger = ms(linger);
    }
    if let Some(timeout) = given.number("delivery.timeout.ms")? {
        producer.delivery_timeout = ms(timeout);
    }
    let memory = options.max_memory_bytes.map(|bytes| bytes as u64);
    if let Some(bytes) = number(memory, "buffer.memory")? {
        producer.memory_bytes_max = bytes as usize;
    }
    if let Some(bytes) = given.number("max.request.size")? {
        producer.request_bytes_max = bytes as usize;
    }
    // 0.8 counted records: what is too small for a batch of bytes is left to the default.
    let batch = options.max_partition_memory_bytes.or(options.batch_size.filter(|size| *size >= 1024));
    if let Some(bytes) = number(batch.map(|bytes| bytes as u64), "batch.size")? {
        producer.batch_bytes = bytes as usize;
    }
    if let Some(count) = given.number("max.in.flight.requests.per.connection")? {
        producer.in_flight_max = count as usize;
    }
    if let Some(acks) = options.request_required_acks.as_deref().or(given.text("acks")) {
        producer.acks = match acks {
            "0" => Acks::None,
            "1" => Acks::Leader,
            "-1" | "all" => Acks::All,
            other => return Err(format!("acks must be 0, 1, -1 or all, not {other:?}").into()),
        };
    }
    producer.idempotence = given.boolean("enable.idempotence")?;
    let codec = options.compress.then_some("gzip").or(options.compression_codec.as_deref());
    if let Some(codec) = codec.or(given.text("compression.type")) {
        let named = Codec::ALL.iter().find(|known| known.name() == codec);
        let known = named.ok_or_else(|| {
            format!("compression codec must be none, gzip, snappy, lz4 or zstd, not {codec:?}")
        })?;
        producer.compression = Compression::from(*known);
    }
    Ok(())
}

/// Records that were given up, and why the last one was.
#[derive(Debug, Default)]
struct Undelivered(AtomicU64);

impl Undelivered {
    fn note(&self, report: &BatchReport) {
        if let Err(error) = &report.outcome {
            self.0.fetch_add(report.record_count.max(0) as u64, Ordering::Relaxed);
            tracing::error!(
                "error when sending {} message(s) to partition {}: {error}",
                report.record_count,
                report.partition
            );
        }
    }
}

async fn produce(mut plan: Plan) -> Result<ExitCode, Failure> {
    let undelivered = Arc::new(Undelivered::default());
    let noting = undelivered.clone();
    plan.producer.on_batch = Some(Arc::new(move |report| noting.note(report)));
    let client = Client::connect(plan.bootstrap.clone(), plan.client.clone()).await?;
    let producer = Producer::start(client, plan.producer.clone())?;

    // Both end the input the same way: what was read is sent, nothing is lost.
    let mut code = ExitCode::SUCCESS;
    tokio::select! {
        sent = send_lines(&plan, &producer) => {
            if let Err(failure) = sent {
                producer.close().await;
                return Err(failure);
            }
        }
        _ = asked_to_stop() => code = ExitCode::from(130),
    }
    producer.close().await;
    match undelivered.0.load(Ordering::Relaxed) {
        0 => Ok(code),
        count => Err(format!("{count} message(s) were not delivered").into()),
    }
}

async fn send_lines(plan: &Plan, producer: &Producer) -> Result<(), Failure> {
    let interactive = std::io::stdin().is_terminal();
    let mut input = read_stdin(interactive);
    let mut lines = LineSplitter::default();
    let mut number = 0;
    while let Some(piece) = input.recv().await {
        lines.push(&piece?);
        while let Some(line) = lines.next_line() {
            number += 1;
            send(plan, producer, line, number).await?;
        }
    }
    if let Some(line) = lines.last_line() {
        send(plan, producer, line, number + 1).await?;
    }
    Ok(())
}

async fn send(plan: &Plan, producer: &Producer, line: &[u8], number: u64) -> Result<(), Failure> {
    let record = plan.format.parse(line, number)?;
    let mut sending = ProducerRecord::new(&plan.topic, record.key, record.value);
    sending.headers = &record.headers;
    let delivery = producer.send(sending).await?;
    if plan.sync {
        delivery.wait().await?;
    }
    Ok(())
}

/// Standard input in pieces, read by a thread of its own, at most two pieces ahead.
fn read_stdin(interactive: bool) -> mpsc::Receiver<std::io::Result<Vec<u8>>> {
    const PIECE_BYTES: usize = 256 * 1024;
    let (sender, receiver) = mpsc::channel(2);
    std::thread::spawn(move || {
        let mut stdin = std::io::stdin().lock();
        loop {
            if interactive {
                print!(">");
                // A prompt that cannot be shown is no reason to stop.
                let _ = std::io::stdout().flush();
            }
            let mut piece = vec![0; PIECE_BYTES];
            let read = match stdin.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    Ok(piece)
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                Err(error) => Err(error),
            };
            let failed = read.is_err();
            if sender.blocking_send(read).is_err() || failed {
                return;
            }
        }
    });
    receiver
}
