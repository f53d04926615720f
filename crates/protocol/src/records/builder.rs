//! Builds entries: magic-2 batches, and messages and wrappers of magic 0 and 1.

use bytes::Bytes;
use ottla_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use super::batch::{
    self, Attributes, BatchHeader, ENTRY_OVERHEAD, HEADER_LENGTH, Magic, NO_PRODUCER_EPOCH, NO_SEQUENCE,
    TimestampType,
};
use super::record::{Headers, RecordHeader};
use super::varint::{put_varint, put_varlong, varint_length, varlong_length};
use crate::compression::{self, Codec, Compression};

/// Who wrote a batch, for idempotence (KIP-98).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    pub id: ProducerId,
    pub epoch: ProducerEpoch,
    /// Of the first record; [`NO_SEQUENCE`] in markers.
    pub base_sequence: i32,
}

impl ProducerState {
    /// A producer that is neither idempotent nor transactional.
    pub const NONE: ProducerState =
        ProducerState { id: ProducerId::NONE, epoch: NO_PRODUCER_EPOCH, base_sequence: NO_SEQUENCE };
}

/// Builds magic-2 batches, one after another, in one buffer.
///
/// Records are encoded straight into what becomes the batch: an uncompressed batch is never copied, a compressed
/// one is compressed in one go at the end. Memory is the records' own encoded size.
///
/// ```
/// # use ottla_protocol::records::BatchBuilder;
/// # use ottla_model::Timestamp;
/// let mut builder = BatchBuilder::new();
/// builder.append(Timestamp(1_700_000_000_000), Some(b"key"), Some(b"value"), &[]);
/// let batch = builder.finish();
/// assert_eq!(batch.len(), 61 + 15);
/// ```
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    compression: Compression,
    attributes: Attributes,
    producer: ProducerState,
    leader_epoch: LeaderEpoch,
    base_offset: Offset,
    append_time: Option<Timestamp>,
    /// Room for the header, then encoded records.
    buffer: Vec<u8>,
    base_timestamp: Timestamp,
    max_timestamp: Timestamp,
    last_offset_delta: i32,
    record_count: i32,
}

impl Default for BatchBuilder {
    fn default() -> BatchBuilder {
        BatchBuilder::new()
    }
}

impl BatchBuilder {
    /// A batch as a producer sends it: base offset 0, no leader epoch, CreateTime, uncompressed, not idempotent.
    pub fn new() -> BatchBuilder {
        BatchBuilder {
            compression: Compression::NONE,
            attributes: Attributes::default(),
            producer: ProducerState::NONE,
            leader_epoch: LeaderEpoch::NONE,
            base_offset: Offset::ZERO,
            append_time: None,
            buffer: Vec::new(),
            base_timestamp: Timestamp::NONE,
            max_timestamp: Timestamp::NONE,
            last_offset_delta: -1,
            record_count: 0,
        }
    }

    #[must_use]
    pub fn with_compression(mut self, compression: impl Into<Compression>) -> BatchBuilder {
        self.compression = compression.into();
        self
    }

    #[must_use]
    pub fn with_base_offset(mut self, base_offset: Offset) -> BatchBuilder {
        self.base_offset = base_offset;
        self
    }

    #[must_use]
    pub fn with_leader_epoch(mut self, leader_epoch: LeaderEpoch) -> BatchBuilder {
        self.leader_epoch = leader_epoch;
        self
    }

    /// Part of a transaction.
    #[must_use]
    pub fn with_transactional(mut self, transactional: bool) -> BatchBuilder {
        self.attributes = self.attributes.with_transactional(transactional);
        self
    }

    /// Records for the protocol, not for consumers.
    #[must_use]
    pub fn with_control(mut self, control: bool) -> BatchBuilder {
        self.attributes = self.attributes.with_control(control);
        self
    }

    /// Every record reads as written at `append_time`, whatever its own timestamp.
    #[must_use]
    pub fn with_log_append_time(mut self, append_time: Timestamp) -> BatchBuilder {
        self.attributes = self.attributes.with_timestamp_type(TimestampType::LogAppendTime);
        self.append_time = Some(append_time);
        self
    }

    /// Reserves room for `bytes` of batch at once.
    #[must_use]
    pub fn with_capacity(mut self, bytes: usize) -> BatchBuilder {
        self.buffer.reserve(bytes);
        self
    }

    /// May be set until the batch is finished: a producer knows its sequence only when the batch goes out.
    pub fn set_producer(&mut self, producer: ProducerState) {
        self.producer = producer;
    }

    /// Appends a record at the next offset.
    ///
    /// # Panics
    /// If the batch grows beyond what its fields can count: 2 GiB, 2^31 records.
    pub fn append(
        &mut self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader<'_>],
    ) {
        let delta = self.last_offset_delta + 1;
        self.append_at(delta, timestamp, key, value, headers);
    }

    /// Appends a record `offset_delta` after the base offset, leaving a gap such as compaction leaves.
    ///
    /// # Panics
    /// As [`BatchBuilder::append`], and if offsets do not ascend.
    pub fn append_at(
        &mut self,
        offset_delta: i32,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader<'_>],
    ) {
        assert!(offset_delta > self.last_offset_delta, "offsets of a batch ascend");
        if self.record_count == 0 {
            self.buffer.resize(HEADER_LENGTH, 0);
            self.base_timestamp = timestamp;
        }
        let timestamp_delta = timestamp.0.wrapping_sub(self.base_timestamp.0);
        let out = &mut self.buffer;
        put_record(out, timestamp_delta, offset_delta, key, value, headers);
        assert!(out.len() - ENTRY_OVERHEAD <= i32::MAX as usize, "a batch is at most 2 GiB");
        self.max_timestamp = self.max_timestamp.max(timestamp);
        self.last_offset_delta = offset_delta;
        self.record_count += 1;
    }

    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    pub fn is_empty(&self) -> bool {
        self.record_count == 0
    }

    /// Bytes of the batch so far, before compression.
    pub fn size(&self) -> usize {
        self.buffer.len().max(HEADER_LENGTH)
    }

    /// [`BatchBuilder::size`] as it would be with this record, to decide whether it still fits.
    pub fn size_with(
        &self,
        timestamp: Timestamp,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[RecordHeader<'_>],
    ) -> usize {
        let timestamp_delta =
            if self.is_empty() { 0 } else { timestamp.0.wrapping_sub(self.base_timestamp.0) };
        let body = record_body_length(timestamp_delta, self.last_offset_delta + 1, key, value, headers);
        self.size() + body + varint_length(i32::try_from(body).unwrap_or(i32::MAX))
    }

    /// The batch, and the builder empty again with the same settings.
    ///
    /// A batch without records is what compaction leaves of one; brokers take none from a client.
    pub fn finish(&mut self) -> Bytes {
        self.buffer.resize(self.size(), 0);
        // Markers are read by code that does not decompress.
        let codec = if self.attributes.is_control() { Codec::None } else { self.compression.codec() };
        let mut bytes = if codec == Codec::None {
            std::mem::take(&mut self.buffer)
        } else {
            let records = &self.buffer[HEADER_LENGTH..];
            let mut bytes = Vec::with_capacity(HEADER_LENGTH + records.len() / 2);
            bytes.resize(HEADER_LENGTH, 0);
            compression::compress(self.compression, Magic::V2, records, &mut bytes);
            bytes
        };
        let header = BatchHeader {
            magic: Magic::V2,
            base_offset: self.base_offset,
            length: bytes.len(),
            leader_epoch: self.leader_epoch,
            crc: 0,
            attributes: self.attributes.with_codec(codec),
            last_offset_delta: self.last_offset_delta.max(0),
            base_timestamp: self.base_timestamp,
            max_timestamp: self.append_time.unwrap_or(self.max_timestamp),
            producer_id: self.producer.id,
            producer_epoch: self.producer.epoch,
            base_sequence: self.producer.base_sequence,
            record_count: self.record_count,
        };
        bytes[..HEADER_LENGTH].copy_from_slice(&header.to_bytes());
        batch::seal(&mut bytes, &[]);
        self.clear();
        bytes.into()
    }

    /// Drops the records appended so far.
    pub fn clear(&mut self) {
        self.buffer.clear();
        self.base_timestamp = Timestamp::NONE;
        self.max_timestamp = Timestamp::NONE;
        self.last_offset_delta = -1;
        self.record_count = 0;
    }
}

/// Headers on their way into a record: as a caller lists them, or as another record holds them encoded.
pub(super) trait PutHeaders {
    fn count(&self) -> usize;
    fn encoded_length(&self) -> usize;
    fn put(&self, out: &mut Vec<u8>);
}

impl PutHeaders for [RecordHeader<'_>] {
    fn count(&self) -> usize {
        self.len()
    }

    fn encoded_length(&self) -> usize {
        self.iter().map(|header| nullable_length(Some(header.key)) + nullable_length(header.value)).sum()
    }

    fn put(&self, out: &mut Vec<u8>) {
        for header in self {
            put_nullable(out, Some(header.key));
            put_nullable(out, header.value);
        }
    }
}

impl PutHeaders for Headers<'_> {
    fn count(&self) -> usize {
        self.len()
    }

    fn encoded_length(&self) -> usize {
        self.encoded().len()
    }

    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self.encoded());
    }
}

/// Appends one magic-2 record.
pub(super) fn put_record(
    out: &mut Vec<u8>,
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &(impl PutHeaders + ?Sized),
) {
    let body_length = record_body_length(timestamp_delta, offset_delta, key, value, headers);
    put_varint(out, i32::try_from(body_length).expect("a record is at most 2 GiB"));
    out.push(0);
    put_varlong(out, timestamp_delta);
    put_varint(out, offset_delta);
    put_nullable(out, key);
    put_nullable(out, value);
    put_varlong(out, headers.count() as i64);
    headers.put(out);
}

/// Bytes of a record after its length.
fn record_body_length(
    timestamp_delta: i64,
    offset_delta: i32,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
    headers: &(impl PutHeaders + ?Sized),
) -> usize {
    1 + varlong_length(timestamp_delta)
        + varint_length(offset_delta)
        + nullable_length(key)
        + nullable_length(value)
        + varlong_length(headers.count() as i64)
        + headers.encoded_length()
}

fn nullable_length(bytes: Option<&[u8]>) -> usize {
    bytes.map_or(1, |bytes| varlong_length(bytes.len() as i64) + bytes.len())
}

fn put_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            put_varlong(out, bytes.len() as i64);
            out.extend_from_slice(bytes);
        }
        None => put_varint(out, -1),
    }
}

/// Builds sets of magic-0 and magic-1 messages: what clients before 0.11 produce and read.
///
/// ```text
/// codec none   [message][message][message]
/// a codec      [wrapper: [message][message][message]]
/// ```
#[derive(Debug, Clone)]
pub struct MessageSetBuilder {
    magic: Magic,
    compression: Compression,
    append_time: Option<Timestamp>,
    base_offset: Option<Offset>,
    last_offset: Offset,
    max_timestamp: Timestamp,
    set: Vec<u8>,
}

impl MessageSetBuilder {
    /// # Panics
    /// For magic 2, and for a codec that the format does not have (zstd).
    pub fn new(magic: Magic, compression: impl Into<Compression>) -> MessageSetBuilder {
        let compression = compression.into();
        assert!(magic < Magic::V2, "magic 2 has batches, not message sets");
        assert!(compression.codec() < Codec::Zstd, "zstd is not defined below magic 2");
        MessageSetBuilder {
            magic,
            compression,
            append_time: None,
            base_offset: None,
            last_offset: Offset(-1),
            max_timestamp: Timestamp::NONE,
            set: Vec::new(),
        }
    }

    /// Every message of a magic-1 set is marked as written at `append_time`; magic 0 has no place for it.
    #[must_use]
    pub fn with_log_append_time(mut self, append_time: Timestamp) -> MessageSetBuilder {
        self.append_time = Some(append_time);
        self
    }

    fn is_wrapper(&self) -> bool {
        self.compression.codec() != Codec::None
    }

    fn timestamp_type(&self) -> TimestampType {
        if self.append_time.is_some() { TimestampType::LogAppendTime } else { TimestampType::CreateTime }
    }

    /// Appends a message. Offsets ascend; gaps are kept.
    ///
    /// # Panics
    /// If offsets do not ascend, or the set grows beyond 2 GiB.
    pub fn append(&mut self, offset: Offset, timestamp: Timestamp, key: Option<&[u8]>, value: Option<&[u8]>) {
        assert!(offset > self.last_offset, "offsets of a set ascend");
        let base = *self.base_offset.get_or_insert(offset);
        let written = match self.magic {
            Magic::V1 if self.is_wrapper() => Offset(offset.0 - base.0),
            _ => offset,
        };
        let attributes = Attributes::default().with_timestamp_type(self.timestamp_type());
        let timestamp = self.append_time.unwrap_or(timestamp);
        put_message(&mut self.set, self.magic, written, attributes, timestamp, key, value);
        self.last_offset = offset;
        self.max_timestamp = self.max_timestamp.max(timestamp);
    }

    pub fn is_empty(&self) -> bool {
        self.base_offset.is_none()
    }

    /// Of the last message; -1 before the first.
    pub fn last_offset(&self) -> Offset {
        self.last_offset
    }

    /// Bytes of the set so far, before compression.
    pub fn size(&self) -> usize {
        self.set.len()
    }

    /// The set; empty if nothing was appended.
    pub fn finish(self) -> Bytes {
        if !self.is_wrapper() || self.is_empty() {
            return self.set.into();
        }
        put_wrapper(
            self.magic,
            self.compression,
            self.last_offset,
            self.timestamp_type(),
            self.append_time.unwrap_or(self.max_timestamp),
            &self.set,
        )
        .into()
    }
}

/// One wrapper around `set`, whose inner offsets are already as the format wants them.
pub(super) fn put_wrapper(
    magic: Magic,
    compression: Compression,
    last_offset: Offset,
    timestamp_type: TimestampType,
    timestamp: Timestamp,
    set: &[u8],
) -> Vec<u8> {
    let mut value = Vec::with_capacity(set.len() / 2);
    compression::compress(compression, magic, set, &mut value);
    let attributes =
        Attributes::default().with_codec(compression.codec()).with_timestamp_type(timestamp_type);
    let mut out = Vec::with_capacity(magic.entry_length_min() + value.len());
    put_message(&mut out, magic, last_offset, attributes, timestamp, None, Some(&value));
    out
}

fn put_message(
    out: &mut Vec<u8>,
    magic: Magic,
    offset: Offset,
    attributes: Attributes,
    timestamp: Timestamp,
    key: Option<&[u8]>,
    value: Option<&[u8]>,
) {
    let start = out.len();
    let length = magic.entry_length_min() + key.map_or(0, <[u8]>::len) + value.map_or(0, <[u8]>::len);
    let size = i32::try_from(length - ENTRY_OVERHEAD).expect("a message is at most 2 GiB");
    out.reserve(length);
    out.extend_from_slice(&offset.0.to_be_bytes());
    out.extend_from_slice(&size.to_be_bytes());
    // The crc, once there is something to compute it over.
    out.extend_from_slice(&[0; 4]);
    out.push(magic as u8);
    match magic {
        Magic::V0 => out.push(attributes.with_timestamp_type(TimestampType::CreateTime).0 as u8),
        Magic::V1 | Magic::V2 => {
            out.push(attributes.0 as u8);
            out.extend_from_slice(&timestamp.0.to_be_bytes());
        }
    }
    for bytes in [key, value] {
        match bytes {
            Some(bytes) => {
                out.extend_from_slice(&(bytes.len() as i32).to_be_bytes());
                out.extend_from_slice(bytes);
            }
            None => out.extend_from_slice(&(-1i32).to_be_bytes()),
        }
    }
    batch::seal(&mut out[start..], &[]);
}
