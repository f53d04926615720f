//! `kafka-console-producer`: lines of standard input become records.

use std::io::IsTerminal;
use std::pin::pin;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Parser;
use ottla_client::{Address, BatchReport, Client, ClientOptions, Producer, ProducerOptions, ProducerRecord};
use ottla_model::TopicName;

use super::client_properties::{self, ClientProperties};
use super::line_reader::{LineFormat, LineSplitter};
use super::servers::{StopSignals, fail};
use super::standard_input::{self, Piece, Pieces};
use super::tools::{self, Failure};
use super::{Command, command_line, producer_properties};
use crate::logging;

pub const COMMAND: Command =
    Command { name: "kafka-console-producer", about: "send lines of standard input as records", run };

/// Sends each line of standard input as a record, until the input ends.
#[derive(Debug, Parser)]
#[command(name = "kafka-console-producer")]
struct Options {
    /// The topic to send to.
    #[arg(long)]
    topic: String,
    /// The brokers to begin with: HOST:PORT, comma-separated.
    #[arg(long, value_name = "HOST:PORT,..", required_unless_present = "broker_list")]
    bootstrap_server: Option<String>,
    /// The same, as Kafka 0.8 called it.
    #[arg(long, value_name = "HOST:PORT,..")]
    broker_list: Option<String>,
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
    #[arg(long, visible_alias = "reader-property", value_name = "NAME=VALUE")]
    property: Vec<String>,
    /// Only the line reader of Kafka itself.
    #[arg(long, value_name = "CLASS")]
    line_reader: Option<String>,
    /// A file of settings of the line reader.
    #[arg(long, value_name = "FILE")]
    reader_config: Option<std::path::PathBuf>,
    /// A setting of the producer, such as linger.ms=5; goes before --producer.config.
    #[arg(long, visible_alias = "command-property", value_name = "NAME=VALUE")]
    producer_property: Vec<String>,
    /// A file of settings of the producer.
    #[arg(long = "producer.config", visible_alias = "command-config", value_name = "FILE")]
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
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    logging::to_stderr();
    match Plan::of(&options) {
        Ok(plan) => tools::run(produce(plan)),
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

impl Plan {
    fn of(options: &Options) -> Result<Plan, Failure> {
        if let Some(reader) = &options.line_reader
            && reader.rsplit(['.', '$']).next() != Some("LineMessageReader")
        {
            return Err(format!(
                "--line-reader {reader}: there is no other reader here than LineMessageReader"
            )
            .into());
        }
        let mut format = LineFormat::default();
        let mut reader: Vec<(String, String)> = Vec::new();
        if let Some(path) = &options.reader_config {
            reader.extend(client_properties::read_file(path)?);
        }
        reader.extend(options.property.iter().map(|text| client_properties::split(text)));
        for (name, value) in reader {
            if !format.set(&name, &value) {
                tracing::warn!("the line reader has no property {name}");
            }
        }
        format.check()?;

        let mut given =
            ClientProperties::new(options.producer_config.as_deref(), &options.producer_property)?;
        put_flags(options, &mut given);
        let mut client = ClientOptions::default();
        client.connection.client_id = "console-producer".to_owned();
        given.apply_to(&mut client)?;
        let mut producer = ProducerOptions { linger: Duration::from_millis(10), ..Default::default() };
        producer_properties::apply(&given, &mut producer)?;
        for name in given.unused() {
            tracing::warn!("the producer has no use for the property {name}");
        }
        let bootstrap = options.bootstrap_server.as_deref().or(options.broker_list.as_deref());
        Ok(Plan {
            topic: TopicName::new(&options.topic)?,
            bootstrap: Address::parse_list(bootstrap.unwrap_or_default())?,
            client,
            producer,
            format,
            sync: options.sync,
        })
    }
}

/// Flags of their own go before properties.
fn put_flags(options: &Options, given: &mut ClientProperties) {
    given.put("request.timeout.ms", options.request_timeout_ms);
    given.put("retry.backoff.ms", options.retry_backoff_ms);
    given.put("metadata.max.age.ms", options.metadata_expiry_ms);
    given.put("max.block.ms", options.max_block_ms);
    given.put("linger.ms", options.timeout);
    given.put("buffer.memory", options.max_memory_bytes);
    // 0.8 counted records: what is too small for a batch of bytes is left to the default.
    given.put("batch.size", options.batch_size.filter(|size| *size >= 1024));
    given.put("batch.size", options.max_partition_memory_bytes);
    given.put("acks", options.request_required_acks.as_deref());
    given
        .put("compression.type", options.compression_codec.as_deref().or(options.compress.then_some("gzip")));
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

    let mut signals = StopSignals::listen()?;
    let (pieces, reading) = standard_input::read(std::io::stdin().is_terminal())?;
    let mut code = ExitCode::SUCCESS;
    let sent = {
        let mut sending = pin!(send_lines(&plan, &producer, pieces));
        tokio::select! {
            sent = &mut sending => sent,
            signal = signals.next() => {
                code = signal.exit_code();
                // What has been read is sent: nothing that left the pipe is lost.
                drop(reading);
                tokio::select! {
                    sent = &mut sending => sent,
                    // Told twice.
                    _ = signals.next() => return Ok(code),
                }
            }
        }
    };
    tokio::select! {
        () = producer.close() => {}
        signal = signals.next() => {
            eprintln!("stopped before all messages were delivered");
            return Ok(signal.exit_code());
        }
    }
    sent?;
    match undelivered.0.load(Ordering::Relaxed) {
        0 => Ok(code),
        count => Err(format!("{count} message(s) were not delivered").into()),
    }
}

async fn send_lines(plan: &Plan, producer: &Producer, mut pieces: Pieces) -> Result<(), Failure> {
    let mut lines = LineSplitter::default();
    let mut number = 0;
    while let Some(piece) = pieces.recv().await {
        match piece? {
            Piece::Bytes(bytes) => lines.push(&bytes),
            Piece::End => {
                if let Some(line) = lines.last_line() {
                    send(plan, producer, line, number + 1).await?;
                }
                return Ok(());
            }
        }
        while let Some(line) = lines.next_line() {
            number += 1;
            send(plan, producer, line, number).await?;
        }
    }
    if let Some(line) = lines.last_line() {
        eprintln!("interrupted inside line {}, whose {} bytes are not sent", number + 1, line.len());
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
