//! A `.log` file, batch by batch.

use std::fs::File;
use std::io::Write;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use ottla_model::Offset;
use ottla_protocol::records::{
    Batch, BatchHeader, ControlType, EndTransactionMarker, HEADER_LENGTH, Magic, Record, TimestampType,
    TransactionResult,
};

use super::super::record_formatter::WriteError;
use super::super::tools::Failure;
use super::coordinator_records::{offsets_record, transaction_record};
use super::{Contents, Options, base_offset, open, optional_long};

/// The most that one batch may take when decompressed, in bytes; guards against bombs.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// A segment's records on disk. Memory: one batch at a time, which is never larger than the file.
#[derive(Debug)]
pub struct SegmentFile {
    path: PathBuf,
    file: File,
    length: u64,
}

impl SegmentFile {
    pub fn open(path: &Path) -> Result<SegmentFile, Failure> {
        let file = open(path)?;
        let length = file.metadata()?.len();
        Ok(SegmentFile { path: path.to_owned(), file, length })
    }

    /// The header of the batch at `position`; `None` where no whole batch is.
    pub fn header_at(&self, position: u64) -> Result<Option<BatchHeader>, Failure> {
        let left = self.length.saturating_sub(position);
        let mut prefix = [0; HEADER_LENGTH];
        let there = usize::try_from(left).map_or(HEADER_LENGTH, |left| left.min(HEADER_LENGTH));
        self.file.read_exact_at(&mut prefix[..there], position)?;
        let header = BatchHeader::parse(&prefix[..there])
            .map_err(|error| format!("{}: at position {position}: {error}", self.path.display()))?;
        Ok(header.filter(|header| header.length as u64 <= left))
    }

    /// The bytes of a batch that [`SegmentFile::header_at`] found, so that there are as many.
    fn batch_at(&self, position: u64, header: &BatchHeader) -> Result<Vec<u8>, Failure> {
        let mut bytes = vec![0; header.length];
        self.file.read_exact_at(&mut bytes, position)?;
        Ok(bytes)
    }

    /// The first batch from `position` on that ends at `offset` or later, and its largest timestamp.
    pub fn find(&self, mut position: u64, offset: Offset) -> Result<Option<(Offset, i64)>, Failure> {
        while let Some(header) = self.header_at(position)? {
            if header.last_offset() >= offset {
                return Ok(Some((header.last_offset(), header.max_timestamp.0)));
            }
            position += header.length as u64;
        }
        Ok(None)
    }
}

pub fn dump(
    segment: &SegmentFile,
    options: &Options,
    contents: Contents,
    out: &mut impl Write,
) -> Result<(), Failure> {
    writeln!(out, "Log starting offset: {}", base_offset(&segment.path)?)?;
    let deep = options.deep_iteration || !matches!(contents, Contents::Hidden);
    let mut position = 0;
    let mut last: Option<Offset> = None;
    let mut gaps = Vec::new();
    let stopped = loop {
        if position >= options.max_bytes {
            break None;
        }
        let header = match segment.header_at(position) {
            Ok(Some(header)) => header,
            Ok(None) => break None,
            Err(error) => break Some(error),
        };
        let bytes = segment.batch_at(position, &header)?;
        let Some(batch) = Batch::parse(&bytes).ok().flatten() else { break None };
        write_batch(&batch, position, out)?;
        if deep {
            let mut walk = || -> Result<(), Failure> {
                let records = batch.records(DECOMPRESSED_BYTES_MAX)?;
                for record in records.iter()? {
                    let record = record?;
                    if let Some(before) = last
                        && record.offset.0 != before.0 + 1
                    {
                        gaps.push((before, record.offset));
                    }
                    last = Some(record.offset);
                    write_record(&header, &record, options.skip_record_metadata, contents, out)?;
                }
                Ok(())
            };
            if let Err(error) = walk() {
                if super::is_closed(&error) {
                    return Err(error);
                }
                out.flush()?;
                eprintln!(
                    "{}: the batch at position {position} cannot be read: {error}",
                    segment.path.display()
                );
            }
        }
        position += header.length as u64;
    };
    let name = segment.path.file_name().unwrap_or_default().to_string_lossy();
    if segment.length > position && position < options.max_bytes {
        writeln!(out, "Found {} invalid bytes at the end of {name}", segment.length - position)?;
    }
    out.flush()?;
    if let Some(error) = stopped {
        eprintln!("{error}");
    }
    if !gaps.is_empty() {
        eprintln!("Non-consecutive offsets in {}", segment.path.display());
        for (before, after) in gaps {
            eprintln!("  {before} is followed by {after}");
        }
    }
    Ok(())
}

fn timestamp_type(header: &BatchHeader) -> &'static str {
    match header.timestamp_type() {
        Some(TimestampType::CreateTime) => "CreateTime",
        Some(TimestampType::LogAppendTime) => "LogAppendTime",
        None => "NoTimestampType",
    }
}

fn write_batch(batch: &Batch<'_>, position: u64, out: &mut impl Write) -> std::io::Result<()> {
    let header = batch.header();
    match header.magic {
        Magic::V2 => write!(
            out,
            "baseOffset: {} lastOffset: {} count: {} baseSequence: {} lastSequence: {} producerId: {} producerEpoch: {} \
             partitionLeaderEpoch: {} isTransactional: {} isControl: {} deleteHorizonMs: {}",
            header.base_offset,
            header.last_offset(),
            header.record_count,
            header.base_sequence,
            header.last_sequence(),
            header.producer_id,
            header.producer_epoch,
            header.leader_epoch,
            header.is_transactional(),
            header.is_control(),
            optional_long(header.delete_horizon().map(|horizon| horizon.0)),
        )?,
        Magic::V0 | Magic::V1 => write!(out, "offset: {}", header.last_offset())?,
    }
    let codec = header.codec().map_or("unknown", |codec| codec.name());
    writeln!(
        out,
        " position: {position} {}: {} size: {} magic: {} compresscodec: {codec} crc: {} isvalid: {}",
        timestamp_type(header),
        header.max_timestamp,
        header.length,
        header.magic,
        header.crc,
        batch.check_crc().is_ok(),
    )
}

fn write_record(
    header: &BatchHeader,
    record: &Record<'_>,
    skip_metadata: bool,
    contents: Contents,
    out: &mut impl Write,
) -> Result<(), Failure> {
    let mut prefix = "| ";
    if !skip_metadata {
        let size = |bytes: Option<&[u8]>| bytes.map_or(-1, |bytes| bytes.len() as i64);
        write!(
            out,
            "{prefix}offset: {} {}: {} keySize: {} valueSize: {}",
            record.offset,
            timestamp_type(header),
            record.timestamp,
            size(record.key),
            size(record.value),
        )?;
        prefix = " ";
        if header.magic == Magic::V2 {
            write!(out, " sequence: {} headerKeys: [", sequence(header, record))?;
            for (number, header) in record.headers.iter().enumerate() {
                if number > 0 {
                    out.write_all(b",")?;
                }
                out.write_all(header.key)?;
            }
            out.write_all(b"]")?;
        } else if !header.attributes.is_compressed() {
            // The brace is Kafka's.
            write!(out, " isValid: true crc: {}}}", header.crc)?;
        }
        if header.is_control() {
            write_marker(record, out)?;
        }
    }
    if !header.is_control() {
        write_contents(record, prefix, contents, out)?;
    }
    Ok(writeln!(out)?)
}

fn sequence(header: &BatchHeader, record: &Record<'_>) -> i32 {
    if header.base_sequence < 0 {
        return -1;
    }
    // Sequences wrap from the largest to 0, and a batch spans fewer offsets than an i32 counts.
    let delta = record.offset.0.wrapping_sub(header.base_offset.0) as i32;
    header.base_sequence.wrapping_add(delta) & i32::MAX
}

fn write_marker(record: &Record<'_>, out: &mut impl Write) -> std::io::Result<()> {
    let (key, value) = (record.key.unwrap_or_default(), record.value.unwrap_or_default());
    match (EndTransactionMarker::from_record(key, value), ControlType::from_key(key)) {
        (Some(EndTransactionMarker { result, coordinator_epoch }), _) => {
            let result = match result {
                TransactionResult::Abort => "ABORT",
                TransactionResult::Commit => "COMMIT",
            };
            write!(out, " endTxnMarker: {result} coordinatorEpoch: {coordinator_epoch}")
        }
        (None, Some(ControlType::Other(id))) => write!(out, " controlType: UNKNOWN({id})"),
        (None, _) => write!(out, " controlType: unreadable"),
    }
}

fn write_contents(
    record: &Record<'_>,
    prefix: &str,
    contents: Contents,
    out: &mut impl Write,
) -> Result<(), Failure> {
    match contents {
        Contents::Hidden => {}
        Contents::Plain { key, value } => {
            let fields = [(prefix, "key: ", key, record.key), (" ", "payload: ", value, record.value)];
            for (prefix, name, decoder, bytes) in fields {
                let Some(bytes) = bytes else { continue };
                write!(out, "{prefix}{name}")?;
                match decoder.write(bytes, out) {
                    Err(WriteError::Output(error)) => return Err(error.into()),
                    written => written?,
                }
            }
        }
        Contents::Offsets | Contents::Transactions => {
            let (key, value) = match contents {
                Contents::Offsets => offsets_record(record),
                _ => transaction_record(record),
            };
            write!(out, "{prefix}key: {key}")?;
            if let Some(value) = value {
                write!(out, " payload: {value}")?;
            }
        }
    }
    Ok(())
}
