//! `kafka-dump-log`: what the files of a partition hold, in the lines of Kafka's tool.

mod coordinator_records;
mod index_file;
mod segment_file;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Parser;
use ottla_log::ProducerStates;
use ottla_model::Timestamp;

use self::segment_file::SegmentFile;
use super::deserializer::Deserializer;
use super::servers::fail;
use super::tools::Failure;
use super::{Command, command_line};

pub const COMMAND: Command =
    Command { name: "kafka-dump-log", about: "show what log segments, indexes and snapshots hold", run };

/// Shows what the files of a partition hold: .log, .index, .timeindex, .txnindex and .snapshot. Changes nothing.
#[derive(Debug, Default, Parser)]
#[command(name = "kafka-dump-log")]
struct Options {
    /// The files, comma-separated.
    #[arg(long, required = true, value_delimiter = ',', value_name = "FILE,..")]
    files: Vec<PathBuf>,
    /// Show keys and values of records.
    #[arg(long)]
    print_data_log: bool,
    /// Show each record, not only batches.
    #[arg(long)]
    deep_iteration: bool,
    /// Leave out what a record has besides key and value.
    #[arg(long)]
    skip_record_metadata: bool,
    /// Compare indexes with their log and show only what does not fit.
    #[arg(long)]
    verify_index_only: bool,
    /// Only check indexes the way a broker does when it starts.
    #[arg(long)]
    index_sanity_check: bool,
    /// Stop after so many bytes of a log.
    #[arg(long, value_name = "BYTES", default_value_t = i32::MAX as u64)]
    max_bytes: u64,
    /// Records are those of __consumer_offsets.
    #[arg(long)]
    offsets_decoder: bool,
    /// Records are those of __transaction_state.
    #[arg(long)]
    transaction_log_decoder: bool,
    /// What keys are: StringDecoder, LongDecoder, IntegerDecoder or DefaultDecoder.
    #[arg(long, value_name = "CLASS", num_args = 0..=1, default_missing_value = "StringDecoder")]
    key_decoder_class: Option<String>,
    /// What values are, likewise.
    #[arg(long, value_name = "CLASS", num_args = 0..=1, default_missing_value = "StringDecoder")]
    value_decoder_class: Option<String>,
    /// Accepted without effect: a batch may be as large as its file.
    #[arg(long, value_name = "BYTES", hide = true)]
    max_message_size: Option<u64>,
}

/// How keys and values are shown.
#[derive(Debug, Clone, Copy)]
enum Contents {
    Hidden,
    Plain { key: Deserializer, value: Deserializer },
    Offsets,
    Transactions,
}

impl Options {
    fn contents(&self) -> Result<Contents, Failure> {
        if self.offsets_decoder {
            return Ok(Contents::Offsets);
        }
        if self.transaction_log_decoder {
            return Ok(Contents::Transactions);
        }
        if !self.print_data_log && self.key_decoder_class.is_none() && self.value_decoder_class.is_none() {
            return Ok(Contents::Hidden);
        }
        // Decoders are to logs what deserializers are to consumers.
        let decoder = |class: &Option<String>| match class.as_deref() {
            None => Ok(Deserializer::default()),
            Some(class) => match class.rsplit('.').next().and_then(|name| name.strip_suffix("Decoder")) {
                Some("Default") => Ok(Deserializer::Text),
                Some(name) => format!("{name}Deserializer").parse(),
                None => class.parse(),
            },
        };
        Ok(Contents::Plain {
            key: decoder(&self.key_decoder_class)?,
            value: decoder(&self.value_decoder_class)?,
        })
    }
}

fn run(arguments: Vec<String>) -> ExitCode {
    if arguments.len() <= 1 {
        let about = "This tool helps to parse a log file and dump its contents to the console, useful for debugging a \
                     seemingly corrupt log segment.";
        return command_line::refuse::<Options>(about);
    }
    let options: Options = match command_line::parse(arguments) {
        Ok(options) => options,
        Err(code) => return code,
    };
    let mut out = BufWriter::with_capacity(64 * 1024, io::stdout().lock());
    let dumped = options.contents().and_then(|contents| {
        for path in &options.files {
            dump(path, &options, contents, &mut out)?;
        }
        Ok(())
    });
    let flushed = out.flush();
    match dumped.and(flushed.map_err(Failure::from)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) if is_closed(&error) => ExitCode::SUCCESS,
        Err(error) => fail(error),
    }
}

fn is_closed(error: &Failure) -> bool {
    error.downcast_ref::<io::Error>().is_some_and(|error| error.kind() == io::ErrorKind::BrokenPipe)
}

fn dump(path: &Path, options: &Options, contents: Contents, out: &mut impl Write) -> Result<(), Failure> {
    writeln!(out, "Dumping {}", path.display())?;
    match path.extension().and_then(|extension| extension.to_str()) {
        Some("log") => segment_file::dump(&SegmentFile::open(path)?, options, contents, out),
        Some("index") => index_file::dump_offsets(path, options, out),
        Some("timeindex") => index_file::dump_times(path, options, out),
        Some("txnindex") => index_file::dump_transactions(path, out),
        Some("snapshot") => dump_snapshot(path, out),
        _ => {
            out.flush()?;
            eprintln!("Ignoring unknown file {}", path.display());
            Ok(())
        }
    }
}

fn dump_snapshot(path: &Path, out: &mut impl Write) -> Result<(), Failure> {
    let bytes = read(path)?;
    // Of the producers, none is too old to be shown.
    let states = ProducerStates::decode_snapshot(&bytes, Timestamp(0), i64::MAX)
        .map_err(|error| format!("{}: {error}", path.display()))?;
    for (id, entry) in states.iter() {
        let start = entry.transaction_start.map(|start| start.0);
        write!(
            out,
            "producerId: {id} producerEpoch: {} coordinatorEpoch: {} currentTxnFirstOffset: {} lastTimestamp: {} ",
            entry.epoch,
            entry.coordinator_epoch,
            optional_long(start),
            entry.last_timestamp,
        )?;
        if let Some(batch) = entry.batches().first() {
            // Sequences wrap from the largest to 0, backwards too.
            let first_sequence = batch.last_sequence.wrapping_sub(batch.offset_delta) & i32::MAX;
            write!(
                out,
                "firstSequence: {first_sequence} lastSequence: {} lastOffset: {} offsetDelta: {} timestamp: {}",
                batch.last_sequence, batch.last_offset, batch.offset_delta, batch.timestamp,
            )?;
        }
        writeln!(out)?;
    }
    Ok(())
}

/// As Java shows one.
fn optional_long(value: Option<i64>) -> String {
    value.map_or("OptionalLong.empty".to_owned(), |value| format!("OptionalLong[{value}]"))
}

fn open(path: &Path) -> Result<File, Failure> {
    File::open(path).map_err(|error| format!("cannot open {}: {error}", path.display()).into())
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()).into())
}

/// The offset that a segment's files are named for.
fn base_offset(path: &Path) -> Result<i64, Failure> {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let base = name.split('.').next().unwrap_or_default().parse();
    base.map_err(|_| format!("{}: the name does not begin with a base offset", path.display()).into())
}

#[cfg(test)]
mod tests {
    use ottla_model::{Offset, ProducerEpoch, ProducerId};
    use ottla_protocol::records::{
        Batch, BatchBuilder, EndTransactionMarker, ProducerState, RecordHeader, TransactionResult,
    };

    use super::*;

    struct Segment {
        directory: tempfile::TempDir,
    }

    impl Segment {
        /// Two batches of two records each, the offsets 0 to 3, and the end of a transaction.
        fn new() -> Segment {
            let segment = Segment { directory: tempfile::tempdir().unwrap() };
            let mut log = Vec::new();
            for base in [0, 2] {
                let mut builder = BatchBuilder::new().with_base_offset(Offset(base));
                let (id, epoch) = (ProducerId(9), ProducerEpoch(1));
                builder.set_producer(ProducerState { id, epoch, base_sequence: base as i32 });
                let header = RecordHeader { key: b"h", value: None };
                builder.append(Timestamp(1000 + base), Some(b"k"), Some(b"value"), &[header]);
                builder.append(Timestamp(1001 + base), None, None, &[]);
                log.extend_from_slice(&builder.finish());
            }
            let end = EndTransactionMarker { result: TransactionResult::Commit, coordinator_epoch: 5 };
            log.extend_from_slice(&end.to_batch(Offset(4), Timestamp(2000), ProducerId(9), ProducerEpoch(1)));
            segment.write("log", &log);
            segment
        }

        fn path(&self, extension: &str) -> PathBuf {
            self.directory.path().join(format!("00000000000000000000.{extension}"))
        }

        fn write(&self, extension: &str, bytes: &[u8]) {
            std::fs::write(self.path(extension), bytes).unwrap();
        }

        /// What is shown of a file, without its first line, which names it.
        fn dump(&self, extension: &str, more: &[&str]) -> Result<String, String> {
            let path = self.path(extension);
            let words = ["kafka-dump-log", "--files", path.to_str().unwrap()];
            let options = Options::try_parse_from(words.iter().chain(more)).unwrap();
            let mut out = Vec::new();
            let contents = options.contents().map_err(|error| error.to_string())?;
            dump(&path, &options, contents, &mut out).map_err(|error| error.to_string())?;
            let text = String::from_utf8(out).unwrap();
            Ok(text.split_once('\n').unwrap().1.to_owned())
        }
    }

    #[test]
    fn batches_are_lines_and_records_below_them() {
        let shown = Segment::new().dump("log", &["--print-data-log"]).unwrap();
        let lines: Vec<&str> = shown.lines().collect();
        assert_eq!(lines[0], "Log starting offset: 0");
        assert!(
            lines[1].starts_with(
                "baseOffset: 0 lastOffset: 1 count: 2 baseSequence: 0 lastSequence: 1 producerId: 9 producerEpoch: 1 \
                 partitionLeaderEpoch: -1 isTransactional: false isControl: false deleteHorizonMs: OptionalLong.empty \
                 position: 0 CreateTime: 1001 size: "
            ),
            "{}",
            lines[1]
        );
        assert!(lines[1].ends_with(" isvalid: true"), "{}", lines[1]);
        assert_eq!(
            lines[2..4],
            [
                "| offset: 0 CreateTime: 1000 keySize: 1 valueSize: 5 sequence: 0 headerKeys: [h] key: k payload: value",
                "| offset: 1 CreateTime: 1001 keySize: -1 valueSize: -1 sequence: 1 headerKeys: []",
            ]
        );
        assert!(
            lines[8].ends_with(" headerKeys: [] endTxnMarker: COMMIT coordinatorEpoch: 5"),
            "{}",
            lines[8]
        );
    }

    #[test]
    fn a_torn_end_is_counted() {
        let segment = Segment::new();
        let mut bytes = std::fs::read(segment.path("log")).unwrap();
        bytes.truncate(bytes.len() - 3);
        segment.write("log", &bytes);
        let shown = segment.dump("log", &[]).unwrap();
        let rest = shown.lines().last().unwrap();
        assert_eq!(rest, "Found 75 invalid bytes at the end of 00000000000000000000.log");
        segment.write("log", &[0xff; 100]);
        let shown = segment.dump("log", &[]).unwrap();
        assert_eq!(
            shown.lines().last().unwrap(),
            "Found 100 invalid bytes at the end of 00000000000000000000.log"
        );
    }

    #[test]
    fn the_unused_end_of_an_index_is_not_shown() {
        let segment = Segment::new();
        let log = std::fs::read(segment.path("log")).unwrap();
        let second = Batch::parse(&log).unwrap().unwrap().header().length as u32;
        let entry = |offset: u32, position: u32| [offset.to_be_bytes(), position.to_be_bytes()].concat();
        segment.write("index", &[entry(3, second), entry(0, 0), entry(0, 0)].concat());
        let shown = segment.dump("index", &[]).unwrap();
        assert_eq!(shown, format!("offset: 3 position: {second}\n"));
        let sane = segment.dump("index", &["--index-sanity-check"]).unwrap();
        assert!(sane.ends_with("00000000000000000000.index passed sanity check.\n"), "{sane}");
        segment.write("index", &[0; 80]);
        assert!(segment.dump("index", &[]).unwrap().ends_with(" is empty.\n"));
    }

    #[test]
    fn damaged_files_are_refused_and_do_no_harm() {
        let segment = Segment::new();
        segment.write("snapshot", &[0, 1, 2]);
        assert!(segment.dump("snapshot", &[]).is_err());
        assert!(segment.dump("timeindex", &[]).unwrap_err().starts_with("cannot read "));
        segment.write("txnindex", &[0; 40]);
        let shown = segment.dump("txnindex", &[]).unwrap();
        assert_eq!(shown, "version: 0 producerId: 0 firstOffset: 0 lastOffset: 0 lastStableOffset: 0\n");
    }

    #[test]
    fn records_that_are_not_the_coordinators_are_named_and_skipped() {
        let shown = Segment::new().dump("log", &["--offsets-decoder", "--skip-record-metadata"]).unwrap();
        assert!(shown.contains("| key: Error at offset 0, skipping. "), "{shown}");
    }
}
