//! Records: what is inside an entry, whatever its format.

use bytes::Bytes;
use ottla_model::{Offset, Timestamp};

use super::batch::{Batch, BatchHeader, CorruptBatch, Magic, TimestampType};
use super::legacy::{self, WrapperMessages};
use super::varint::{NoVarint, read_varint, read_varlong};
use crate::ErrorCode;
use crate::compression::{self, Codec, CompressionError, UnknownCodec};

/// One record, borrowed from its entry. Copying it copies no bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Record<'a> {
    pub offset: Offset,
    /// [`Timestamp::NONE`] in magic 0; the append time in a LogAppendTime entry.
    pub timestamp: Timestamp,
    pub key: Option<&'a [u8]>,
    /// `None` is a tombstone.
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// A header of a record (KIP-82). Keys are UTF-8 by convention only, may repeat, and are kept as they came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordHeader<'a> {
    pub key: &'a [u8],
    pub value: Option<&'a [u8]>,
}

/// The headers of one record, in order; empty below magic 2.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Headers<'a> {
    count: usize,
    bytes: &'a [u8],
}

impl<'a> Headers<'a> {
    pub fn len(&self) -> usize {
        self.count
    }

    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    pub fn iter(&self) -> HeadersIter<'a> {
        HeadersIter { left: self.count, bytes: Reader(self.bytes) }
    }

    /// The encoded headers, without their count.
    pub(super) fn encoded(&self) -> &'a [u8] {
        self.bytes
    }
}

impl<'a> IntoIterator for Headers<'a> {
    type Item = RecordHeader<'a>;
    type IntoIter = HeadersIter<'a>;

    fn into_iter(self) -> HeadersIter<'a> {
        self.iter()
    }
}

#[derive(Debug, Clone)]
pub struct HeadersIter<'a> {
    left: usize,
    bytes: Reader<'a>,
}

impl<'a> Iterator for HeadersIter<'a> {
    type Item = RecordHeader<'a>;

    fn next(&mut self) -> Option<RecordHeader<'a>> {
        self.left = self.left.checked_sub(1)?;
        // The record's reader has walked these bytes already, so this cannot fail.
        self.bytes.header().ok()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl ExactSizeIterator for HeadersIter<'_> {}

/// Why the records of an entry cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    #[error("batch claims {count} records")]
    NegativeRecordCount { count: i32 },
    #[error("records end early, within or before one that the batch counts")]
    EndsEarly,
    #[error("{left} bytes are left after the last record that the batch counts")]
    BytesLeft { left: usize },
    #[error("record of {length} bytes does not fill them: {left} are left")]
    RecordNotFilled { length: i32, left: usize },
    #[error("record claims a length of {length} bytes")]
    RecordLength { length: i32 },
    #[error("record of {length} bytes is longer than the {max} that are looked at in one piece")]
    RecordTooLarge { length: usize, max: usize },
    #[error("record claims {count} headers in {left} bytes")]
    HeaderCount { count: i32, left: usize },
    #[error("record header claims a key of {length} bytes")]
    HeaderKeyLength { length: i32 },
    #[error("integer of a record does not end where its width does")]
    VarintTooLong,
    #[error("message claims a key or value of {length} bytes where {left} are left")]
    MessageLength { length: i32, left: usize },
    #[error("compressed wrapper message has no value")]
    WrapperWithoutValue,
    #[error("compressed wrapper message holds no messages")]
    WrapperWithoutMessages,
    #[error("message inside a compressed wrapper is itself compressed")]
    NestedWrapper,
    #[error("magic-2 batch inside a compressed wrapper message")]
    BatchInWrapper,
    #[error("wrapper offset {outer} is below {inner}, the offset of its last message")]
    WrapperOffset { outer: Offset, inner: Offset },
    #[error("offset {offset} does not follow the one before it")]
    OffsetsNotAscending { offset: Offset },
    #[error("codec {codec} is not defined for magic {magic}")]
    CodecNotInFormat { codec: Codec, magic: Magic },
    #[error("message inside a wrapper: {0}")]
    Message(#[from] CorruptBatch),
    #[error(transparent)]
    UnknownCodec(#[from] UnknownCodec),
    #[error(transparent)]
    Compression(#[from] CompressionError),
}

impl RecordError {
    /// What a producer of such records is told.
    pub fn code(&self) -> ErrorCode {
        match self {
            RecordError::Message(_) => ErrorCode::CorruptMessage,
            RecordError::RecordTooLarge { .. }
            | RecordError::Compression(CompressionError::TooLarge { .. }) => ErrorCode::MessageTooLarge,
            // Kafka meets these as exceptions that it has no code for.
            RecordError::UnknownCodec(_)
            | RecordError::Compression(
                CompressionError::Truncated { .. } | CompressionError::Corrupt { .. },
            ) => ErrorCode::UnknownServerError,
            RecordError::NegativeRecordCount { .. }
            | RecordError::EndsEarly
            | RecordError::BytesLeft { .. }
            | RecordError::RecordNotFilled { .. }
            | RecordError::RecordLength { .. }
            | RecordError::HeaderCount { .. }
            | RecordError::HeaderKeyLength { .. }
            | RecordError::VarintTooLong
            | RecordError::MessageLength { .. }
            | RecordError::WrapperWithoutValue
            | RecordError::WrapperWithoutMessages
            | RecordError::NestedWrapper
            | RecordError::BatchInWrapper
            | RecordError::WrapperOffset { .. }
            | RecordError::OffsetsNotAscending { .. }
            | RecordError::CodecNotInFormat { .. } => ErrorCode::InvalidRecord,
        }
    }
}

impl From<NoVarint> for RecordError {
    fn from(no: NoVarint) -> RecordError {
        match no {
            NoVarint::Short => RecordError::EndsEarly,
            NoVarint::TooLong => RecordError::VarintTooLong,
        }
    }
}

impl<'a> Batch<'a> {
    /// The records of this entry, decompressed if need be into at most `limit` bytes.
    ///
    /// Costs no copy and no allocation for an uncompressed entry, one buffer for a compressed one. Checks the
    /// records as they are walked, not here; checks no crc.
    pub fn records(&self, limit: usize) -> Result<BatchRecords<'a>, RecordError> {
        let header = *self.header();
        let codec = header.codec()?;
        let payload = match header.magic {
            Magic::V2 => &self.bytes()[super::HEADER_LENGTH..],
            // The message itself is what a wrapper's payload is a set of.
            Magic::V0 | Magic::V1 if codec == Codec::None => self.bytes(),
            Magic::V0 | Magic::V1 => legacy::wrapper_payload(self)?,
        };
        // A batch that compaction emptied keeps its codec and need not keep a stream.
        if codec == Codec::None || (header.magic == Magic::V2 && header.record_count == 0) {
            return Ok(BatchRecords { header, payload: Payload::Borrowed(payload) });
        }
        let bytes = compression::decompress(codec, header.magic, payload, limit)?;
        Ok(BatchRecords { header, payload: Payload::Decompressed(bytes) })
    }

    /// Offset of the first record that this entry still holds; for a compressed wrapper this decompresses.
    ///
    /// The base offset of a magic-2 batch stands even where compaction has dropped the record there.
    pub fn first_offset(&self, limit: usize) -> Result<Offset, RecordError> {
        let header = self.header();
        if header.magic == Magic::V2 || !header.attributes.is_compressed() {
            return Ok(header.base_offset);
        }
        match self.records(limit)?.iter()?.next() {
            Some(record) => Ok(record?.offset),
            None => Err(RecordError::WrapperWithoutMessages),
        }
    }
}

/// The records of one entry in readable form.
#[derive(Debug, Clone)]
pub struct BatchRecords<'a> {
    header: BatchHeader,
    payload: Payload<'a>,
}

#[derive(Debug, Clone)]
enum Payload<'a> {
    Borrowed(&'a [u8]),
    Decompressed(Bytes),
}

impl BatchRecords<'_> {
    /// Walks the records. Fails at once where the entry as a whole makes no sense.
    pub fn iter(&self) -> Result<Records<'_>, RecordError> {
        let payload = match &self.payload {
            Payload::Borrowed(bytes) => bytes,
            Payload::Decompressed(bytes) => &bytes[..],
        };
        Records::new(&self.header, payload)
    }

    /// What was decompressed, for callers that keep shared slices of it; `None` if nothing was compressed.
    pub fn decompressed(&self) -> Option<&Bytes> {
        match &self.payload {
            Payload::Borrowed(_) => None,
            Payload::Decompressed(bytes) => Some(bytes),
        }
    }
}

/// Walks the records of one entry; after an error it ends.
#[derive(Debug, Clone)]
pub struct Records<'a>(Walk<'a>);

#[derive(Debug, Clone)]
enum Walk<'a> {
    /// Magic 2.
    Batch {
        reader: Reader<'a>,
        left: usize,
        origin: Origin,
    },
    /// Magic 0 and 1, uncompressed: the entry is the record.
    Message(Option<Record<'a>>),
    /// Magic 0 and 1, compressed.
    Wrapper(WrapperMessages<'a>),
    Ended,
}

impl<'a> Records<'a> {
    /// `payload`: for magic 2 the uncompressed records; for magic 0 and 1 the whole message, or the decompressed
    /// set of messages inside a wrapper.
    pub(super) fn new(header: &BatchHeader, payload: &'a [u8]) -> Result<Records<'a>, RecordError> {
        if header.magic == Magic::V2 {
            let left = usize::try_from(header.record_count)
                .map_err(|_| RecordError::NegativeRecordCount { count: header.record_count })?;
            if left == 0 && !payload.is_empty() {
                return Err(RecordError::BytesLeft { left: payload.len() });
            }
            return Ok(Records(Walk::Batch { reader: Reader(payload), left, origin: Origin::of(header) }));
        }
        if header.attributes.is_compressed() {
            return Ok(Records(Walk::Wrapper(WrapperMessages::new(header, payload)?)));
        }
        let message = legacy::Message::parse(header, payload)?;
        Ok(Records(Walk::Message(Some(message.record(header.base_offset, header.max_timestamp)))))
    }
}

impl<'a> Iterator for Records<'a> {
    type Item = Result<Record<'a>, RecordError>;

    fn next(&mut self) -> Option<Self::Item> {
        let item = match &mut self.0 {
            Walk::Batch { left: 0, .. } | Walk::Ended => return None,
            Walk::Batch { reader, left, origin } => {
                *left -= 1;
                let last = *left == 0;
                reader.record().and_then(|record| {
                    if last && !reader.0.is_empty() {
                        return Err(RecordError::BytesLeft { left: reader.0.len() });
                    }
                    Ok(Record {
                        offset: origin.offset(record.offset_delta),
                        timestamp: origin.timestamp(record.timestamp_delta),
                        key: record.key,
                        value: record.value,
                        headers: record.headers,
                    })
                })
            }
            Walk::Message(record) => return record.take().map(Ok),
            Walk::Wrapper(messages) => messages.next()?,
        };
        if item.is_err() {
            self.0 = Walk::Ended;
        }
        Some(item)
    }
}

/// What the deltas of a magic-2 batch count from.
#[derive(Debug, Clone, Copy)]
pub(super) struct Origin {
    base_offset: Offset,
    base_timestamp: Timestamp,
    append_time: Option<Timestamp>,
}

impl Origin {
    pub(super) fn of(header: &BatchHeader) -> Origin {
        let append_time = match header.attributes.timestamp_type() {
            TimestampType::CreateTime => None,
            TimestampType::LogAppendTime => Some(header.max_timestamp),
        };
        Origin { base_offset: header.base_offset, base_timestamp: header.base_timestamp, append_time }
    }

    #[inline]
    pub(super) fn offset(&self, delta: i32) -> Offset {
        Offset(self.base_offset.0.wrapping_add(i64::from(delta)))
    }

    #[inline]
    pub(super) fn timestamp(&self, delta: i64) -> Timestamp {
        self.append_time.unwrap_or(Timestamp(self.base_timestamp.0.wrapping_add(delta)))
    }
}

/// A magic-2 record as encoded: deltas, not yet offsets and times.
#[derive(Debug, Clone, Copy)]
pub(super) struct EncodedRecord<'a> {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Headers<'a>,
}

/// Reads magic-2 records off the front of a slice.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// ```text
    /// varint length | i8 attributes | varlong timestamp delta | varint offset delta
    /// varint key length, key | varint value length, value | varint header count, headers
    /// ```
    #[inline]
    pub fn record(&mut self) -> Result<EncodedRecord<'a>, RecordError> {
        let length = self.varint()?;
        let body_length = usize::try_from(length).map_err(|_| RecordError::RecordLength { length })?;
        let mut body = Reader(self.take(body_length)?);
        let record = body.record_body()?;
        if !body.0.is_empty() {
            return Err(RecordError::RecordNotFilled { length, left: body.0.len() });
        }
        Ok(record)
    }

    #[inline]
    fn record_body(&mut self) -> Result<EncodedRecord<'a>, RecordError> {
        let _attributes = self.take(1)?;
        let timestamp_delta = self.varlong()?;
        let offset_delta = self.varint()?;
        let key = self.nullable()?;
        let value = self.nullable()?;
        let headers = self.headers()?;
        Ok(EncodedRecord { timestamp_delta, offset_delta, key, value, headers })
    }

    #[inline]
    fn headers(&mut self) -> Result<Headers<'a>, RecordError> {
        let claimed = self.varint()?;
        if claimed == 0 {
            return Ok(Headers::default());
        }
        let left = self.0.len();
        let count = usize::try_from(claimed)
            .ok()
            .filter(|count| *count <= left)
            .ok_or(RecordError::HeaderCount { count: claimed, left })?;
        let bytes = self.0;
        for _ in 0..count {
            self.header()?;
        }
        Ok(Headers { count, bytes: &bytes[..left - self.0.len()] })
    }

    fn header(&mut self) -> Result<RecordHeader<'a>, RecordError> {
        let length = self.varint()?;
        let key_length = usize::try_from(length).map_err(|_| RecordError::HeaderKeyLength { length })?;
        let key = self.take(key_length)?;
        Ok(RecordHeader { key, value: self.nullable()? })
    }

    /// Any negative length is null, as in Kafka's own reader.
    #[inline]
    fn nullable(&mut self) -> Result<Option<&'a [u8]>, RecordError> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.take(length).map(Some),
            Err(_) => Ok(None),
        }
    }

    #[inline]
    fn take(&mut self, length: usize) -> Result<&'a [u8], RecordError> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(RecordError::EndsEarly)?;
        self.0 = rest;
        Ok(taken)
    }

    #[inline]
    fn varint(&mut self) -> Result<i32, RecordError> {
        let (value, length) = read_varint(self.0)?;
        self.0 = &self.0[length..];
        Ok(value)
    }

    #[inline]
    fn varlong(&mut self) -> Result<i64, RecordError> {
        let (value, length) = read_varlong(self.0)?;
        self.0 = &self.0[length..];
        Ok(value)
    }
}
