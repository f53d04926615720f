//! What a client too old for the stored format is sent instead: the same records in its own format.

use ottla_model::Offset;

use super::batch::{Batch, Batches, CorruptBatch, Magic, TimestampType};
use super::builder::MessageSetBuilder;
use super::record::RecordError;
use crate::ErrorCode;
use crate::compression::Codec;

/// The format that a Fetch request of `version` must be answered in, if what is stored as `stored` is newer.
pub fn fetch_format(stored: Magic, version: i16) -> Option<Magic> {
    match version {
        ..=1 if stored > Magic::V0 => Some(Magic::V0),
        ..=3 if stored > Magic::V1 => Some(Magic::V1),
        _ => None,
    }
}

/// Why an entry has no older form.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DownConversionError {
    #[error("zstd is not defined below magic 2")]
    Zstd,
    #[error("stored entry: {0}")]
    Corrupt(#[from] CorruptBatch),
    #[error("stored records: {0}")]
    Records(#[from] RecordError),
}

impl DownConversionError {
    pub fn code(&self) -> ErrorCode {
        match self {
            DownConversionError::Zstd => ErrorCode::UnsupportedCompressionType,
            DownConversionError::Corrupt(_) | DownConversionError::Records(_) => ErrorCode::CorruptMessage,
        }
    }
}

/// Entries in an older format.
#[derive(Debug, Clone, Default)]
pub struct DownConverted {
    /// What the client is sent. Empty if the source held only what old clients are not shown.
    pub bytes: Vec<u8>,
    /// The offset after the last entry that was taken in, shown or not; `None` if there was no whole entry. A caller
    /// with nothing to show goes on from here, so that the client is not left waiting before a marker.
    pub next_offset: Option<Offset>,
    /// What stopped the conversion after some entries; the client meets it when it has come this far.
    pub stopped: Option<DownConversionError>,
}

/// Converts `records`, whole entries as read from a log, to `target`, until `bytes_max` are exceeded.
///
/// Entries already in the target format or an older one are copied. Others are written anew with the same codec:
/// an uncompressed batch as one message for each record from `fetch_offset` on, a compressed one as one wrapper
/// around all of its records. Markers are left out, and so are headers, producer state and leader epochs, which
/// have no older form; so the records of aborted transactions are there, as old clients always saw them.
///
/// Fails only if the first entry cannot be converted. `decompressed_max` bounds what one entry may decompress to.
pub fn down_convert(
    records: &[u8],
    target: Magic,
    fetch_offset: Offset,
    bytes_max: usize,
    decompressed_max: usize,
) -> Result<DownConverted, DownConversionError> {
    let mut converted = DownConverted::default();
    for entry in Batches::new(records) {
        let entry = entry.map_err(DownConversionError::from);
        let done = entry.and_then(|entry| {
            convert_entry(&entry, target, fetch_offset, decompressed_max, &mut converted.bytes)?;
            Ok(entry.header().next_offset())
        });
        match done {
            Ok(next_offset) => converted.next_offset = Some(next_offset),
            Err(error) if converted.next_offset.is_none() => return Err(error),
            Err(error) => {
                converted.stopped = Some(error);
                break;
            }
        }
        if converted.bytes.len() >= bytes_max {
            break;
        }
    }
    Ok(converted)
}

fn convert_entry(
    entry: &Batch<'_>,
    target: Magic,
    fetch_offset: Offset,
    decompressed_max: usize,
    out: &mut Vec<u8>,
) -> Result<(), DownConversionError> {
    let header = entry.header();
    if header.is_control() {
        return Ok(());
    }
    if header.magic <= target {
        out.extend_from_slice(entry.bytes());
        return Ok(());
    }
    let codec = header.codec().map_err(RecordError::from)?;
    if codec == Codec::Zstd {
        return Err(DownConversionError::Zstd);
    }
    let mut set = MessageSetBuilder::new(target, codec);
    if header.timestamp_type() == Some(TimestampType::LogAppendTime) {
        set = set.with_log_append_time(header.max_timestamp);
    }
    for record in entry.records(decompressed_max)?.iter()? {
        let record = record?;
        if codec == Codec::None && record.offset < fetch_offset {
            continue;
        }
        if record.offset <= set.last_offset() {
            return Err(RecordError::OffsetsNotAscending { offset: record.offset }.into());
        }
        set.append(record.offset, record.timestamp, record.key, record.value);
    }
    out.extend_from_slice(&set.finish());
    Ok(())
}
