//! Entries of a buffer or segment, and their headers, in all three formats.
//!
//! ```text
//! at   magic 0              magic 1              magic 2
//!  0   i64 offset           i64 offset           i64 base offset
//!  8   i32 size             i32 size             i32 size            of what follows these 12 bytes
//! 12   u32 crc              u32 crc              i32 partition leader epoch
//! 16   i8  0                i8  1                i8  2
//! 17   i8  attributes       i8  attributes       u32 crc             CRC-32C over 21..end
//! 18   i32 key length ..    i64 timestamp
//! 21                                             i16 attributes
//! 23                                             i32 last offset delta
//! 26                        i32 key length ..
//! 27                                             i64 base timestamp  or the delete horizon (KIP-534)
//! 35                                             i64 max timestamp
//! 43                                             i64 producer id
//! 51                                             i16 producer epoch
//! 53                                             i32 base sequence
//! 57                                             i32 record count
//! 61                                             records
//! ```
//!
//! The crc of magic 0 and 1 is CRC-32 over 16..end. What a leader assigns, base offset and leader epoch, lies
//! outside the crc in every format, so an append patches it without touching the rest.

use ottla_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};

use crate::compression::{Codec, UnknownCodec};

/// Bytes of an entry that its size field does not count: the offset and the size itself.
pub const ENTRY_OVERHEAD: usize = 12;

/// Bytes from the start of an entry up to and including its magic.
const PREFIX_LENGTH: usize = 17;

/// Bytes of a magic-2 header; no header is longer, so a prefix of this many bytes always suffices.
pub const HEADER_LENGTH: usize = 61;

/// The smallest size field any format allows; below it there is not even a magic-0 message without key and value.
const SIZE_MIN: i32 = 14;

mod at {
    pub const OFFSET: usize = 0;
    pub const SIZE: usize = 8;
    pub const LEGACY_CRC: usize = 12;
    pub const LEADER_EPOCH: usize = 12;
    pub const MAGIC: usize = 16;
    pub const LEGACY_ATTRIBUTES: usize = 17;
    pub const LEGACY_TIMESTAMP: usize = 18;
    pub const CRC: usize = 17;
    pub const ATTRIBUTES: usize = 21;
    pub const LAST_OFFSET_DELTA: usize = 23;
    pub const BASE_TIMESTAMP: usize = 27;
    pub const MAX_TIMESTAMP: usize = 35;
    pub const PRODUCER_ID: usize = 43;
    pub const PRODUCER_EPOCH: usize = 51;
    pub const BASE_SEQUENCE: usize = 53;
    pub const RECORD_COUNT: usize = 57;
}

/// The version of the record format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Magic {
    /// Kafka 0.8 and 0.9: messages without timestamps.
    V0 = 0,
    /// Kafka 0.10: a timestamp each, and relative offsets inside wrappers (KIP-31, KIP-32).
    V1 = 1,
    /// Kafka 0.11 and later: batches with producer state, headers and CRC-32C (KIP-82, KIP-98).
    V2 = 2,
}

impl Magic {
    pub fn from_byte(byte: u8) -> Option<Magic> {
        match byte {
            0 => Some(Magic::V0),
            1 => Some(Magic::V1),
            2 => Some(Magic::V2),
            _ => None,
        }
    }

    /// Bytes from the start of an entry that [`BatchHeader::parse`] wants to see.
    pub fn header_length(self) -> usize {
        match self {
            Magic::V0 => 18,
            Magic::V1 => 26,
            Magic::V2 => HEADER_LENGTH,
        }
    }

    /// The smallest whole entry: no key, no value, no records.
    pub fn entry_length_min(self) -> usize {
        match self {
            Magic::V0 => 26,
            Magic::V1 => 34,
            Magic::V2 => HEADER_LENGTH,
        }
    }
}

impl std::fmt::Display for Magic {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        (*self as u8).fmt(f)
    }
}

/// Whose clock stamped the records (KIP-32).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum TimestampType {
    /// The producer's; each record has its own.
    CreateTime,
    /// The broker's; every record of an entry reads as the entry's maximum.
    LogAppendTime,
}

/// The attribute bits of an entry; magic 0 and 1 have only the low byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Attributes(pub i16);

impl Attributes {
    const CODEC: i16 = 0x07;
    const LOG_APPEND_TIME: i16 = 0x08;
    const TRANSACTIONAL: i16 = 0x10;
    const CONTROL: i16 = 0x20;
    const DELETE_HORIZON: i16 = 0x40;

    #[must_use]
    pub fn with_codec(self, codec: Codec) -> Attributes {
        Attributes(self.0 & !Self::CODEC | i16::from(codec as u8))
    }

    #[must_use]
    pub fn with_timestamp_type(self, timestamp_type: TimestampType) -> Attributes {
        self.with(Self::LOG_APPEND_TIME, timestamp_type == TimestampType::LogAppendTime)
    }

    #[must_use]
    pub fn with_transactional(self, transactional: bool) -> Attributes {
        self.with(Self::TRANSACTIONAL, transactional)
    }

    #[must_use]
    pub fn with_control(self, control: bool) -> Attributes {
        self.with(Self::CONTROL, control)
    }

    #[must_use]
    pub fn with_delete_horizon(self, delete_horizon: bool) -> Attributes {
        self.with(Self::DELETE_HORIZON, delete_horizon)
    }

    fn with(self, bit: i16, set: bool) -> Attributes {
        Attributes(if set { self.0 | bit } else { self.0 & !bit })
    }

    /// Only the bits that some format gives a meaning; what a rewrite keeps.
    #[must_use]
    pub fn known(self) -> Attributes {
        Attributes(self.0 & 0x7f)
    }

    /// Ids 5 to 7 name no codec yet.
    pub fn codec(self) -> Result<Codec, UnknownCodec> {
        Codec::from_id((self.0 & Self::CODEC) as u8)
    }

    /// True for unknown codecs too: their records cannot be read as they lie there.
    pub fn is_compressed(self) -> bool {
        self.0 & Self::CODEC != 0
    }

    pub fn timestamp_type(self) -> TimestampType {
        if self.0 & Self::LOG_APPEND_TIME == 0 {
            TimestampType::CreateTime
        } else {
            TimestampType::LogAppendTime
        }
    }

    pub fn is_transactional(self) -> bool {
        self.0 & Self::TRANSACTIONAL != 0
    }

    pub fn is_control(self) -> bool {
        self.0 & Self::CONTROL != 0
    }

    pub fn has_delete_horizon(self) -> bool {
        self.0 & Self::DELETE_HORIZON != 0
    }
}

/// Why bytes are no entry. Whatever follows them in the buffer cannot be found either.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CorruptBatch {
    #[error("size field says {size}, below the {SIZE_MIN} bytes of the smallest message")]
    SizeTooSmall { size: i32 },
    #[error("magic {magic} names no record format")]
    UnknownMagic { magic: u8 },
    #[error("entry of {length} bytes is shorter than the {min} that magic {magic} needs")]
    TooShort { magic: Magic, length: usize, min: usize },
    #[error("crc is {stored:#010x} but the bytes give {computed:#010x}")]
    CrcMismatch { stored: u32, computed: u32 },
}

/// The fixed part of an entry. Fields that a format lacks hold what Kafka reads there: -1, or no flag.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchHeader {
    pub magic: Magic,
    /// The offset field as written: the first record's in magic 2; the message's own in magic 0 and 1, and for a
    /// compressed wrapper the *last* inner message's. [`Batch::first_offset`] looks inside where it must.
    pub base_offset: Offset,
    /// Bytes of the whole entry, offset and size fields included.
    pub length: usize,
    pub leader_epoch: LeaderEpoch,
    pub crc: u32,
    pub attributes: Attributes,
    /// `last offset - base_offset`; compaction keeps it when it drops records.
    pub last_offset_delta: i32,
    /// What record timestamps are relative to, or the delete horizon when that bit is set.
    pub base_timestamp: Timestamp,
    /// Largest record timestamp, or the append time of a LogAppendTime entry.
    pub max_timestamp: Timestamp,
    pub producer_id: ProducerId,
    pub producer_epoch: ProducerEpoch,
    pub base_sequence: i32,
    /// As claimed; -1 for a compressed wrapper of magic 0 or 1, whose messages only a walk can count.
    pub record_count: i32,
}

impl BatchHeader {
    /// Reads a header from the start of an entry. The body need not be there: [`HEADER_LENGTH`] bytes are always
    /// enough, [`Magic::header_length`] are needed.
    ///
    /// `None` when `prefix` ends first, which in a buffer or file means a partial tail.
    pub fn parse(prefix: &[u8]) -> Result<Option<BatchHeader>, CorruptBatch> {
        if prefix.len() < ENTRY_OVERHEAD {
            return Ok(None);
        }
        let size = i32::from_be_bytes(array(prefix, at::SIZE));
        if size < SIZE_MIN {
            return Err(CorruptBatch::SizeTooSmall { size });
        }
        if prefix.len() < PREFIX_LENGTH {
            return Ok(None);
        }
        let magic = prefix[at::MAGIC];
        let magic = Magic::from_byte(magic).ok_or(CorruptBatch::UnknownMagic { magic })?;
        let length = ENTRY_OVERHEAD + size as usize;
        if length < magic.entry_length_min() {
            return Err(CorruptBatch::TooShort { magic, length, min: magic.entry_length_min() });
        }
        if prefix.len() < magic.header_length() {
            return Ok(None);
        }
        let base_offset = Offset(i64::from_be_bytes(array(prefix, at::OFFSET)));
        Ok(Some(match magic {
            Magic::V0 | Magic::V1 => Self::parse_legacy(prefix, magic, base_offset, length),
            Magic::V2 => Self::parse_current(prefix, base_offset, length),
        }))
    }

    fn parse_legacy(prefix: &[u8], magic: Magic, base_offset: Offset, length: usize) -> BatchHeader {
        let known = match magic {
            Magic::V0 => Attributes::CODEC,
            Magic::V1 | Magic::V2 => Attributes::CODEC | Attributes::LOG_APPEND_TIME,
        };
        let attributes = Attributes(i16::from(prefix[at::LEGACY_ATTRIBUTES]) & known);
        let timestamp = match magic {
            Magic::V0 => Timestamp::NONE,
            Magic::V1 | Magic::V2 => Timestamp(i64::from_be_bytes(array(prefix, at::LEGACY_TIMESTAMP))),
        };
        BatchHeader {
            magic,
            base_offset,
            length,
            leader_epoch: LeaderEpoch::NONE,
            crc: u32::from_be_bytes(array(prefix, at::LEGACY_CRC)),
            attributes,
            last_offset_delta: 0,
            base_timestamp: timestamp,
            max_timestamp: timestamp,
            producer_id: ProducerId::NONE,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: if attributes.is_compressed() { -1 } else { 1 },
        }
    }

    fn parse_current(prefix: &[u8], base_offset: Offset, length: usize) -> BatchHeader {
        BatchHeader {
            magic: Magic::V2,
            base_offset,
            length,
            leader_epoch: LeaderEpoch(i32::from_be_bytes(array(prefix, at::LEADER_EPOCH))),
            crc: u32::from_be_bytes(array(prefix, at::CRC)),
            attributes: Attributes(i16::from_be_bytes(array(prefix, at::ATTRIBUTES))),
            last_offset_delta: i32::from_be_bytes(array(prefix, at::LAST_OFFSET_DELTA)),
            base_timestamp: Timestamp(i64::from_be_bytes(array(prefix, at::BASE_TIMESTAMP))),
            max_timestamp: Timestamp(i64::from_be_bytes(array(prefix, at::MAX_TIMESTAMP))),
            producer_id: ProducerId(i64::from_be_bytes(array(prefix, at::PRODUCER_ID))),
            producer_epoch: ProducerEpoch(i16::from_be_bytes(array(prefix, at::PRODUCER_EPOCH))),
            base_sequence: i32::from_be_bytes(array(prefix, at::BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(array(prefix, at::RECORD_COUNT)),
        }
    }

    /// The header as bytes, with the crc that it holds; [`seal`] computes one. Magic 2 only: older headers run
    /// into the key.
    pub fn to_bytes(&self) -> [u8; HEADER_LENGTH] {
        assert_eq!(self.magic, Magic::V2, "only magic 2 has a header of its own");
        let mut bytes = [0; HEADER_LENGTH];
        put(&mut bytes, at::OFFSET, self.base_offset.0.to_be_bytes());
        let size = i32::try_from(self.length - ENTRY_OVERHEAD).expect("an entry is at most 2 GiB");
        put(&mut bytes, at::SIZE, size.to_be_bytes());
        put(&mut bytes, at::LEADER_EPOCH, self.leader_epoch.0.to_be_bytes());
        put(&mut bytes, at::MAGIC, [self.magic as u8]);
        put(&mut bytes, at::CRC, self.crc.to_be_bytes());
        put(&mut bytes, at::ATTRIBUTES, self.attributes.0.to_be_bytes());
        put(&mut bytes, at::LAST_OFFSET_DELTA, self.last_offset_delta.to_be_bytes());
        put(&mut bytes, at::BASE_TIMESTAMP, self.base_timestamp.0.to_be_bytes());
        put(&mut bytes, at::MAX_TIMESTAMP, self.max_timestamp.0.to_be_bytes());
        put(&mut bytes, at::PRODUCER_ID, self.producer_id.0.to_be_bytes());
        put(&mut bytes, at::PRODUCER_EPOCH, self.producer_epoch.0.to_be_bytes());
        put(&mut bytes, at::BASE_SEQUENCE, self.base_sequence.to_be_bytes());
        put(&mut bytes, at::RECORD_COUNT, self.record_count.to_be_bytes());
        bytes
    }

    /// Offset of the last record, included. Wraps on nonsense rather than failing, as the bytes may be anyone's.
    pub fn last_offset(&self) -> Offset {
        Offset(self.base_offset.0.wrapping_add(i64::from(self.last_offset_delta)))
    }

    /// The offset that the entry after this one starts at or after.
    pub fn next_offset(&self) -> Offset {
        Offset(self.last_offset().0.wrapping_add(1))
    }

    /// Sequence of the last record; 2147483647 is followed by 0. -1 without a sequence (KIP-98).
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            return NO_SEQUENCE;
        }
        add_to_sequence(self.base_sequence, self.last_offset_delta)
    }

    pub fn codec(&self) -> Result<Codec, UnknownCodec> {
        self.attributes.codec()
    }

    /// `None` for magic 0, which has no timestamps.
    pub fn timestamp_type(&self) -> Option<TimestampType> {
        (self.magic > Magic::V0).then(|| self.attributes.timestamp_type())
    }

    pub fn is_transactional(&self) -> bool {
        self.magic == Magic::V2 && self.attributes.is_transactional()
    }

    pub fn is_control(&self) -> bool {
        self.magic == Magic::V2 && self.attributes.is_control()
    }

    /// Whether an idempotent or transactional producer wrote it.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id.0 > ProducerId::NONE.0
    }

    /// When compaction may drop the entry's tombstones and markers (KIP-534).
    pub fn delete_horizon(&self) -> Option<Timestamp> {
        (self.magic == Magic::V2 && self.attributes.has_delete_horizon()).then_some(self.base_timestamp)
    }
}

/// "No epoch": the producer is not idempotent.
pub const NO_PRODUCER_EPOCH: ProducerEpoch = ProducerEpoch(-1);
/// "No sequence": the producer is not idempotent, or the batch is a marker.
pub const NO_SEQUENCE: i32 = -1;

/// The sequence `delta` records after `sequence`; after 2147483647 comes 0.
pub fn add_to_sequence(sequence: i32, delta: i32) -> i32 {
    sequence.wrapping_add(delta) & i32::MAX
}

/// One whole entry of a buffer.
#[derive(Clone, Copy)]
pub struct Batch<'a> {
    header: BatchHeader,
    bytes: &'a [u8],
}

impl std::fmt::Debug for Batch<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.header.fmt(f)
    }
}

impl<'a> Batch<'a> {
    /// The entry that `bytes` starts with; `None` when they hold only part of it.
    pub fn parse(bytes: &'a [u8]) -> Result<Option<Batch<'a>>, CorruptBatch> {
        let Some(header) = BatchHeader::parse(bytes)? else { return Ok(None) };
        Ok(bytes.get(..header.length).map(|bytes| Batch { header, bytes }))
    }

    pub fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole entry. `Bytes::slice_ref` turns it into a shared slice of the buffer it came from.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }

    /// Whether the bytes are those that were written. Nothing of an entry is to be trusted before.
    pub fn check_crc(&self) -> Result<(), CorruptBatch> {
        let computed = match self.header.magic {
            Magic::V0 | Magic::V1 => crc32fast::hash(&self.bytes[at::MAGIC..]),
            Magic::V2 => crc_fast::crc32_iscsi(&self.bytes[at::ATTRIBUTES..]),
        };
        if computed == self.header.crc {
            Ok(())
        } else {
            Err(CorruptBatch::CrcMismatch { stored: self.header.crc, computed })
        }
    }
}

/// Walks the entries of a buffer.
///
/// ```text
/// [ entry ][ entry ][ ent          Some(Ok) Some(Ok) None, and partial_tail() is what is left
/// [ entry ][ garbage ..            Some(Ok) Some(Err) None, and position() is where it starts
/// ```
///
/// A partial tail is no error: brokers cut fetched bytes anywhere, and a crash may cut a segment.
/// Checks no crc: ask each [`Batch`].
#[derive(Debug, Clone)]
pub struct Batches<'a> {
    bytes: &'a [u8],
    position: usize,
    corrupt: bool,
}

impl<'a> Batches<'a> {
    pub fn new(bytes: &'a [u8]) -> Batches<'a> {
        Batches { bytes, position: 0, corrupt: false }
    }

    /// Where the next entry starts; after the walk, how many bytes were whole entries.
    pub fn position(&self) -> usize {
        self.position
    }

    /// What follows the last whole entry; meaningful once the walk has ended.
    pub fn partial_tail(&self) -> &'a [u8] {
        &self.bytes[self.position..]
    }
}

impl<'a> Iterator for Batches<'a> {
    type Item = Result<Batch<'a>, CorruptBatch>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.corrupt {
            return None;
        }
        match Batch::parse(&self.bytes[self.position..]) {
            Ok(batch) => {
                let batch = batch?;
                self.position += batch.header.length;
                Some(Ok(batch))
            }
            Err(corrupt) => {
                self.corrupt = true;
                Some(Err(corrupt))
            }
        }
    }
}

/// Writes the offset field of the entry that `entry` starts with: the base offset of magic 2, a message's or
/// wrapper's own offset in magic 0 and 1. Outside the crc.
pub fn set_base_offset(entry: &mut [u8], offset: Offset) {
    put(entry, at::OFFSET, offset.0.to_be_bytes());
}

/// Writes the leader epoch of a magic-2 entry. Outside the crc.
pub fn set_leader_epoch(entry: &mut [u8], epoch: LeaderEpoch) {
    assert_eq!(entry[at::MAGIC], Magic::V2 as u8, "only magic 2 has a leader epoch");
    put(entry, at::LEADER_EPOCH, epoch.0.to_be_bytes());
}

/// Writes timestamp type and maximum timestamp of a magic-1 or magic-2 entry, whole in `head` and `rest`, and its
/// crc if either changed. A rewritten attribute byte keeps only bits with a meaning.
///
/// `head` holds at least the fixed part, so that the rest may stay where others share it.
pub fn set_max_timestamp(head: &mut [u8], rest: &[u8], timestamp_type: TimestampType, max: Timestamp) {
    match Magic::from_byte(head[at::MAGIC]) {
        Some(Magic::V2) => {
            let attributes = Attributes(i16::from_be_bytes(array(head, at::ATTRIBUTES)));
            let now = i64::from_be_bytes(array(head, at::MAX_TIMESTAMP));
            if attributes.timestamp_type() == timestamp_type && now == max.0 {
                return;
            }
            let attributes = attributes.known().with_timestamp_type(timestamp_type);
            put(head, at::ATTRIBUTES, attributes.0.to_be_bytes());
            put(head, at::MAX_TIMESTAMP, max.0.to_be_bytes());
        }
        Some(Magic::V1) => {
            let attributes = Attributes(i16::from(head[at::LEGACY_ATTRIBUTES]));
            let now = i64::from_be_bytes(array(head, at::LEGACY_TIMESTAMP));
            if attributes.timestamp_type() == timestamp_type && now == max.0 {
                return;
            }
            let codec = Attributes(attributes.0 & Attributes::CODEC);
            head[at::LEGACY_ATTRIBUTES] = codec.with_timestamp_type(timestamp_type).0 as u8;
            put(head, at::LEGACY_TIMESTAMP, max.0.to_be_bytes());
        }
        Some(Magic::V0) | None => panic!("only magic 1 and 2 have timestamps"),
    }
    seal(head, rest);
}

/// Computes and writes the crc of an entry that is whole in `head` and `rest`.
pub fn seal(head: &mut [u8], rest: &[u8]) {
    match Magic::from_byte(head[at::MAGIC]) {
        Some(Magic::V2) => {
            let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
            digest.update(&head[at::ATTRIBUTES..]);
            digest.update(rest);
            put(head, at::CRC, (digest.finalize() as u32).to_be_bytes());
        }
        Some(Magic::V0 | Magic::V1) => {
            let mut hasher = crc32fast::Hasher::new();
            hasher.update(&head[at::MAGIC..]);
            hasher.update(rest);
            put(head, at::LEGACY_CRC, hasher.finalize().to_be_bytes());
        }
        None => panic!("an entry of no known format cannot be sealed"),
    }
}

/// The `N` bytes at `at`; the caller has checked that they are there.
pub(super) fn array<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..at + N].try_into().expect("the range is N long")
}

fn put<const N: usize>(bytes: &mut [u8], at: usize, value: [u8; N]) {
    bytes[at..at + N].copy_from_slice(&value);
}
