//! Messages of magic 0 and 1, and the compressed wrappers around sets of them.
//!
//! ```text
//! wrapper, offset 11:  attributes = codec, key null, value = codec stream of
//!     magic 0          [offset 10 | message][offset 11 | message]      absolute
//!     magic 1          [offset  0 | message][offset  1 | message]      relative: 11 - 1 = 10 is their base
//! ```

use ottla_model::{Offset, Timestamp};

use super::batch::{Batch, BatchHeader, Batches, Magic, TimestampType, array};
use super::record::{Headers, Record, RecordError};
use crate::compression::Codec;

/// Key and value of one uncompressed message.
#[derive(Debug, Clone, Copy)]
pub(super) struct Message<'a> {
    key: Option<&'a [u8]>,
    value: Option<&'a [u8]>,
}

impl<'a> Message<'a> {
    /// `entry` is the whole message, framing included. Bytes after the value are ignored, as Kafka ignores them.
    pub fn parse(header: &BatchHeader, entry: &'a [u8]) -> Result<Message<'a>, RecordError> {
        let (key, rest) = sized(&entry[header.magic.header_length()..])?;
        let (value, _) = sized(rest)?;
        Ok(Message { key, value })
    }

    pub fn record(self, offset: Offset, timestamp: Timestamp) -> Record<'a> {
        Record { offset, timestamp, key: self.key, value: self.value, headers: Headers::default() }
    }
}

/// `i32` length, -1 (or any negative) for null, then that many bytes.
fn sized(bytes: &[u8]) -> Result<(Option<&[u8]>, &[u8]), RecordError> {
    let (length, rest) =
        bytes.split_at_checked(4).ok_or(RecordError::MessageLength { length: 4, left: bytes.len() })?;
    let length = i32::from_be_bytes(array(length, 0));
    let Ok(wanted) = usize::try_from(length) else { return Ok((None, rest)) };
    let (value, rest) =
        rest.split_at_checked(wanted).ok_or(RecordError::MessageLength { length, left: rest.len() })?;
    Ok((Some(value), rest))
}

/// The codec stream of a compressed wrapper.
pub(super) fn wrapper_payload<'a>(wrapper: &Batch<'a>) -> Result<&'a [u8], RecordError> {
    let header = wrapper.header();
    let codec = header.codec()?;
    if codec == Codec::Zstd {
        return Err(RecordError::CodecNotInFormat { codec, magic: header.magic });
    }
    Message::parse(header, wrapper.bytes())?.value.ok_or(RecordError::WrapperWithoutValue)
}

/// Walks the messages inside a wrapper. Depth is one: a wrapper inside is an error, so nothing here recurses.
#[derive(Debug, Clone)]
pub(super) struct WrapperMessages<'a> {
    wrapper: BatchHeader,
    messages: Batches<'a>,
    base: Base,
}

/// What the offsets inside a wrapper count from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Base {
    Absolute,
    Relative(Offset),
}

impl<'a> WrapperMessages<'a> {
    /// `set` is the decompressed value of the wrapper that `header` describes. Walks it once to find the base.
    pub fn new(header: &BatchHeader, set: &'a [u8]) -> Result<WrapperMessages<'a>, RecordError> {
        let mut last = None;
        for message in Batches::new(set) {
            last = Some(message?.header().base_offset);
        }
        let last = last.ok_or(RecordError::WrapperWithoutMessages)?;
        Ok(WrapperMessages { wrapper: *header, messages: Batches::new(set), base: Base::new(header, last)? })
    }
}

impl Base {
    pub fn new(wrapper: &BatchHeader, last_inner: Offset) -> Result<Base, RecordError> {
        let outer = wrapper.base_offset;
        match wrapper.magic {
            Magic::V0 => Ok(Base::Absolute),
            // Some librdkafka versions produce wrappers with offset 0 whatever is inside.
            Magic::V1 | Magic::V2 if outer == Offset::ZERO => Ok(Base::Relative(Offset::ZERO)),
            Magic::V1 | Magic::V2 if outer < last_inner => {
                Err(RecordError::WrapperOffset { outer, inner: last_inner })
            }
            Magic::V1 | Magic::V2 => Ok(Base::Relative(Offset(outer.0.wrapping_sub(last_inner.0)))),
        }
    }

    pub fn offset(self, written: Offset) -> Offset {
        match self {
            Base::Absolute => written,
            Base::Relative(base) => Offset(base.0.wrapping_add(written.0)),
        }
    }
}

impl<'a> Iterator for WrapperMessages<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.messages.next()?.map_err(RecordError::from).and_then(|message| {
            let record = inner_record(&self.wrapper, &message)?;
            Ok(Record { offset: self.base.offset(record.offset), ..record })
        }))
    }
}

/// A message inside a wrapper as a record, its offset as written there.
///
/// LogAppendTime of the wrapper overrides the timestamps inside, which are left as they were.
pub(super) fn inner_record<'a>(
    wrapper: &BatchHeader,
    message: &Batch<'a>,
) -> Result<Record<'a>, RecordError> {
    let header = message.header();
    if header.magic == Magic::V2 {
        return Err(RecordError::BatchInWrapper);
    }
    if header.attributes.is_compressed() {
        return Err(RecordError::NestedWrapper);
    }
    let timestamp = match (header.magic, wrapper.timestamp_type()) {
        (Magic::V1, Some(TimestampType::LogAppendTime)) => wrapper.max_timestamp,
        _ => header.max_timestamp,
    };
    Ok(Message::parse(header, message.bytes())?.record(header.base_offset, timestamp))
}
