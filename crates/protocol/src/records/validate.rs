//! What a leader does with the records of a produce request before they go into the log.
//!
//! ```text
//! check_produce_version   may this request version carry such an entry?
//! validate                are the records what the topic takes? -> Validated, not yet placed
//! Validated::assign       first offset and leader epoch -> Assigned, bytes ready to write
//! ```
//!
//! Validating is the costly part and needs nothing of the partition but its rules; assigning costs a few bytes, so
//! only it belongs under the partition's lock. A batch that can stay as it is, is not copied: its fixed part is
//! patched in a copy of 61 bytes, and the rest stays the slice of the request that it was.
//!
//! Every record is looked at, compressed or not, as Kafka does: it is the leader's word that consumers and
//! followers can read what it has stored. Compressed records pass through a window of a few hundred KiB; their keys
//! and values are skipped, not kept.

use bytes::Bytes;
use ottla_model::{LeaderEpoch, Offset, Timestamp, TopicPartition};

use super::batch::{
    self, Attributes, Batch, BatchHeader, Batches, CorruptBatch, HEADER_LENGTH, Magic, TimestampType,
};
use super::builder::{self, MessageSetBuilder};
use super::legacy;
use super::record::{Origin, Reader, Record, RecordError};
use super::window::{Skimmed, Window};
use crate::ErrorCode;
use crate::compression::{Codec, Compression, Compressor, Decompressor, UnknownCodec};

/// What one batch may decompress to in total while it is validated. Kafka has no such limit; a stream of zeros can
/// hold 30,000 times its size, and the time to find that out is a whole worker's.
pub const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// The longest record or inner message that is held in memory decompressed, where one has to be: in the wrappers
/// of magic 0 and 1, and to encode records anew. A larger `max.message.bytes` raises it.
pub const DECOMPRESSED_RECORD_BYTES_MAX: usize = 64 << 20;

/// Failing records of one batch that are named; further ones are counted.
pub const RECORD_FAULTS_MAX: usize = 10_000;

/// Whether a Produce request of `version` may carry `records` for a partition.
///
/// From version 3 on that is exactly one magic-2 batch; zstd needs version 7. Older versions carry anything.
pub fn check_produce_version(records: &[u8], version: i16) -> Result<(), InvalidRecords> {
    if version < 3 {
        return Ok(());
    }
    let mut entries = Batches::new(records);
    let first = entries.next().ok_or(InvalidRecords::NoBatch { version })??;
    let header = first.header();
    if header.magic != Magic::V2 {
        return Err(InvalidRecords::MagicForVersion { magic: header.magic, version });
    }
    if version < 7 && header.codec() == Ok(Codec::Zstd) {
        return Err(InvalidRecords::ZstdForVersion { version });
    }
    match entries.next() {
        None => Ok(()),
        Some(Ok(_)) => Err(InvalidRecords::SeveralBatches { version }),
        Some(Err(corrupt)) => Err(corrupt.into()),
    }
}

/// Who wants to append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendOrigin {
    /// A produce request.
    Client,
    /// A group or transaction coordinator on this broker: it may write markers and batches without sequences.
    Coordinator,
}

/// What `compression.type` of a topic asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TargetCompression {
    /// Whatever the producer chose.
    Producer,
    /// This, whatever the producer chose.
    Fixed(Compression),
}

/// The topic's configuration, as far as it decides over records.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TopicRules {
    /// The format that the topic stores: 2, unless an old `inter.broker.protocol.version` holds it back.
    pub magic: Magic,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`.
    pub timestamp_after_max_ms: i64,
    /// `max.message.bytes`: of an entry as sent and as stored, its 12 bytes of framing included.
    pub message_bytes_max: usize,
    /// `compression.type`.
    pub compression: TargetCompression,
    /// Whether zstd may be stored: not below `inter.broker.protocol.version` 2.1, and never below magic 2 (KIP-110).
    pub zstd: bool,
    /// Whether `cleanup.policy` has `compact`: then every record needs a key.
    pub compacted: bool,
}

impl Default for TopicRules {
    /// Kafka 3.9's defaults.
    fn default() -> TopicRules {
        TopicRules {
            magic: Magic::V2,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: i64::MAX,
            message_bytes_max: 1_048_588,
            compression: TargetCompression::Producer,
            zstd: true,
            compacted: false,
        }
    }
}

/// Why nothing of what was sent for a partition is appended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRecords {
    #[error("Produce requests with version {version} must have at least one record batch per partition")]
    NoBatch { version: i16 },
    #[error("Produce requests with version {version} must have exactly one record batch per partition")]
    SeveralBatches { version: i16 },
    #[error("Produce requests with version {version} may only hold record batches of magic 2, not {magic}")]
    MagicForVersion { magic: Magic, version: i16 },
    #[error("Produce requests with version {version} may not use ZStandard compression")]
    ZstdForVersion { version: i16 },
    #[error("inter.broker.protocol.version and message format of the topic do not allow zstd compression")]
    ZstdForTopic,
    #[error("{0}")]
    Corrupt(#[from] CorruptBatch),
    #[error("base offset of the batch should be 0, but is {base_offset}")]
    BaseOffset { base_offset: Offset },
    #[error("record batch of {length} bytes exceeds the maximum of {max} (max.message.bytes)")]
    TooLarge { length: usize, max: usize },
    #[error("batch magic {magic} is not that of the first batch, {first}")]
    MixedMagic { magic: Magic, first: Magic },
    #[error("a compressed set or a magic-2 batch must be the only entry")]
    NotAlone,
    #[error("last offset delta {last_offset_delta} gives no offset range")]
    OffsetRange { last_offset_delta: i32 },
    #[error("batch claims {count} records")]
    RecordCount { count: i32 },
    #[error("batch claims {count} records, but its last offset delta is {last_offset_delta}")]
    CountAndRange { count: i32, last_offset_delta: i32 },
    #[error("clients may not write control records")]
    ControlBatch,
    #[error("sequence {sequence} of a batch with a producer id")]
    Sequence { sequence: i32 },
    #[error("transactional or idempotent records need message format 2, the topic stores {magic}")]
    ProducerStateInOldFormat { magic: Magic },
    #[error("record headers need message format 2, the topic stores {magic}")]
    HeadersInOldFormat { magic: Magic },
    #[error(transparent)]
    Codec(#[from] UnknownCodec),
    #[error("{0}")]
    Structure(#[from] RecordError),
    #[error("{0}")]
    Records(RecordFaults),
}

impl InvalidRecords {
    pub fn code(&self) -> ErrorCode {
        match self {
            InvalidRecords::NoBatch { .. }
            | InvalidRecords::SeveralBatches { .. }
            | InvalidRecords::MagicForVersion { .. }
            | InvalidRecords::BaseOffset { .. }
            | InvalidRecords::MixedMagic { .. }
            | InvalidRecords::NotAlone
            | InvalidRecords::OffsetRange { .. }
            | InvalidRecords::RecordCount { .. }
            | InvalidRecords::CountAndRange { .. }
            | InvalidRecords::ControlBatch
            | InvalidRecords::Sequence { .. } => ErrorCode::InvalidRecord,
            InvalidRecords::ZstdForVersion { .. } | InvalidRecords::ZstdForTopic => {
                ErrorCode::UnsupportedCompressionType
            }
            InvalidRecords::Corrupt(_) => ErrorCode::CorruptMessage,
            InvalidRecords::TooLarge { .. } => ErrorCode::MessageTooLarge,
            InvalidRecords::ProducerStateInOldFormat { .. } | InvalidRecords::HeadersInOldFormat { .. } => {
                ErrorCode::UnsupportedForMessageFormat
            }
            InvalidRecords::Codec(_) => ErrorCode::UnknownServerError,
            InvalidRecords::Structure(error) => error.code(),
            InvalidRecords::Records(faults) => faults.code(),
        }
    }

    /// The records to blame, for `record_errors` of Produce v8 and later (KIP-467); empty if it is the batch.
    pub fn record_faults(&self) -> &[RecordFault] {
        match self {
            InvalidRecords::Records(faults) => &faults.named,
            _ => &[],
        }
    }
}

/// All records of a batch that break a rule, none of which alone would stop the others from being named.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RecordFaults {
    /// The first [`RECORD_FAULTS_MAX`], by index.
    named: Vec<RecordFault>,
    count: u64,
    any_timestamp: bool,
}

impl RecordFaults {
    #[cold]
    fn add(&mut self, index: i32, cause: RecordFaultCause) {
        self.count += 1;
        self.any_timestamp |= cause.is_timestamp();
        if self.named.len() < RECORD_FAULTS_MAX {
            self.named.push(RecordFault { index, cause });
        }
    }

    fn code(&self) -> ErrorCode {
        if self.any_timestamp { ErrorCode::InvalidTimestamp } else { ErrorCode::InvalidRecord }
    }
}

impl std::fmt::Display for RecordFaults {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.any_timestamp {
            return f.write_str("One or more records have been rejected due to invalid timestamp");
        }
        write!(
            f,
            "One or more records have been rejected due to {} record errors in total, and only showing the first \
             three errors at most: ",
            self.count
        )?;
        f.debug_list()
            .entries(self.named.iter().take(3).map(|fault| (fault.index, fault.cause.to_string())))
            .finish()
    }
}

/// One record that breaks a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordFault {
    /// Position in its batch, from 0.
    pub index: i32,
    pub cause: RecordFaultCause,
}

impl RecordFault {
    /// What `record_errors` of the response says, in Kafka's words.
    pub fn message(&self, partition: &TopicPartition) -> String {
        match self.cause {
            RecordFaultCause::NullKey | RecordFaultCause::Magic { .. } => {
                format!("{} in topic partition {partition}", self.cause)
            }
            RecordFaultCause::TimestampOutOfRange { .. } | RecordFaultCause::LogAppendTime => {
                self.cause.to_string()
            }
        }
    }
}

/// The rule that a record breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum RecordFaultCause {
    #[error("Compacted topic cannot accept message without key")]
    NullKey,
    #[error(
        "Timestamp {timestamp} of message with offset {offset} is out of range. The timestamp should be within \
         [{earliest}, {latest}]"
    )]
    TimestampOutOfRange { timestamp: Timestamp, offset: Offset, earliest: Timestamp, latest: Timestamp },
    #[error("Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime.")]
    LogAppendTime,
    #[error("Record's magic {inner} does not match outer magic {outer}")]
    Magic { inner: Magic, outer: Magic },
}

impl RecordFaultCause {
    fn is_timestamp(self) -> bool {
        match self {
            RecordFaultCause::TimestampOutOfRange { .. } | RecordFaultCause::LogAppendTime => true,
            RecordFaultCause::NullKey | RecordFaultCause::Magic { .. } => false,
        }
    }
}

/// Records that the topic takes, not yet placed in a partition.
#[derive(Debug, Clone)]
pub struct Validated {
    bytes: ValidBytes,
    first: BatchHeader,
    record_count: i32,
    max_timestamp: Timestamp,
    /// Offset of the last record of the entry that holds `max_timestamp`, counted from the first record.
    max_timestamp_delta: i32,
    append_time: Option<Timestamp>,
    rebuilt: bool,
}

#[derive(Debug, Clone)]
enum ValidBytes {
    /// One entry. `rest` is a slice of the request, or of what was built anew.
    Entry { head: Head, rest: Bytes },
    /// Several uncompressed messages of magic 0 or 1, copied: with one offset each to patch, one copy of them all
    /// beats a write of two slices for each.
    Messages(Vec<u8>),
    /// To be a magic-0 wrapper, whose inner offsets are absolute and therefore compressed only once they are known.
    Wrapper { set: Vec<u8>, compression: Compression },
}

/// The fixed part of an entry, copied to be patched.
#[derive(Debug, Clone, Copy)]
struct Head {
    bytes: [u8; HEADER_LENGTH],
    length: usize,
}

impl Head {
    fn of(header: &BatchHeader, entry: &[u8]) -> Head {
        let length = header.magic.header_length();
        let mut bytes = [0; HEADER_LENGTH];
        bytes[..length].copy_from_slice(&entry[..length]);
        Head { bytes, length }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.bytes[..self.length]
    }
}

impl Validated {
    /// The header of the first entry; producer state and the like are final, offset and leader epoch are not.
    pub fn header(&self) -> &BatchHeader {
        &self.first
    }

    pub fn record_count(&self) -> i32 {
        self.record_count
    }

    /// Largest timestamp; the append time of a LogAppendTime topic, none in magic 0.
    pub fn max_timestamp(&self) -> Timestamp {
        self.max_timestamp
    }

    /// What the response's `log_append_time` says; `None`, -1 on the wire, for CreateTime topics.
    pub fn append_time(&self) -> Option<Timestamp> {
        self.append_time
    }

    /// Whether records had to be converted or compressed anew.
    pub fn was_rebuilt(&self) -> bool {
        self.rebuilt
    }

    /// Bytes to be written; for a magic-0 wrapper those before compression.
    pub fn length(&self) -> usize {
        match &self.bytes {
            ValidBytes::Entry { head, rest } => head.length + rest.len(),
            ValidBytes::Messages(set) | ValidBytes::Wrapper { set, .. } => set.len(),
        }
    }

    /// Places the records: the first at `first_offset`, the others after it without a gap.
    pub fn assign(self, first_offset: Offset, leader_epoch: LeaderEpoch) -> Assigned {
        let mut first = self.first;
        let last_offset = first_offset.plus(i64::from(self.record_count) - 1);
        let (head, rest) = match self.bytes {
            ValidBytes::Entry { mut head, rest } => {
                first.base_offset = if first.magic == Magic::V2 { first_offset } else { last_offset };
                batch::set_base_offset(head.bytes_mut(), first.base_offset);
                if first.magic == Magic::V2 {
                    first.leader_epoch = leader_epoch;
                    batch::set_leader_epoch(head.bytes_mut(), leader_epoch);
                }
                (head, rest)
            }
            ValidBytes::Messages(mut set) => {
                number_messages(&mut set, first_offset);
                first.base_offset = first_offset;
                (Head { bytes: [0; HEADER_LENGTH], length: 0 }, set.into())
            }
            ValidBytes::Wrapper { mut set, compression } => {
                number_messages(&mut set, first_offset);
                let wrapper = builder::put_wrapper(
                    Magic::V0,
                    compression,
                    last_offset,
                    TimestampType::CreateTime,
                    Timestamp::NONE,
                    &set,
                );
                first = whole_header(&wrapper);
                (Head { bytes: [0; HEADER_LENGTH], length: 0 }, wrapper.into())
            }
        };
        Assigned {
            header: first,
            first_offset,
            last_offset,
            max_timestamp: self.max_timestamp,
            max_timestamp_offset: first_offset.plus(i64::from(self.max_timestamp_delta)),
            append_time: self.append_time,
            head,
            rest,
        }
    }
}

/// Gives the uncompressed messages of a set consecutive offsets.
fn number_messages(set: &mut [u8], first: Offset) {
    let mut at = 0;
    let mut next = first;
    while at < set.len() {
        let length = whole_header(&set[at..]).length;
        batch::set_base_offset(&mut set[at..], next);
        next = next.plus(1);
        at += length;
    }
}

/// The header of an entry that was validated or built here.
fn whole_header(entry: &[u8]) -> BatchHeader {
    BatchHeader::parse(entry).expect("the entry is sound").expect("the header is there")
}

/// Records with their place in the partition: what is written, and what the log remembers of it.
#[derive(Debug, Clone)]
pub struct Assigned {
    /// Of the first entry, as written. There is only one, unless these are uncompressed messages of magic 0 or 1.
    pub header: BatchHeader,
    pub first_offset: Offset,
    pub last_offset: Offset,
    pub max_timestamp: Timestamp,
    /// Last offset of the entry that holds `max_timestamp`: what the time index points at.
    pub max_timestamp_offset: Offset,
    pub append_time: Option<Timestamp>,
    head: Head,
    rest: Bytes,
}

impl Assigned {
    /// What to write, in order, without having been copied together.
    pub fn slices(&self) -> [&[u8]; 2] {
        [self.head.bytes(), &self.rest]
    }

    /// Bytes of both slices.
    #[expect(clippy::len_without_is_empty, reason = "never empty: at least one record")]
    pub fn len(&self) -> usize {
        self.head.length + self.rest.len()
    }

    /// Both slices in one buffer.
    pub fn to_bytes(&self) -> Bytes {
        self.slices().concat().into()
    }
}

/// Holds what was sent for one partition against the topic's rules.
///
/// `None` if there is no whole entry, which requests before version 3 may do. A partial entry at the end is
/// dropped. `now` is the broker's clock.
pub fn validate(
    records: &Bytes,
    origin: AppendOrigin,
    rules: &TopicRules,
    now: Timestamp,
) -> Result<Option<Validated>, InvalidRecords> {
    let Some(set) = EntrySet::check(records, origin, rules)? else { return Ok(None) };
    Validation { set, origin, rules, now }.run().map(Some)
}

/// The entries of one partition's records, after the checks that look at none but each entry's own frame.
struct EntrySet<'a> {
    records: &'a Bytes,
    /// Whole entries, in bytes.
    length: usize,
    count: usize,
    first: BatchHeader,
    /// The last codec seen in the set; where it is none, nothing is compressed.
    codec: Codec,
}

impl<'a> EntrySet<'a> {
    fn check(
        records: &'a Bytes,
        origin: AppendOrigin,
        rules: &TopicRules,
    ) -> Result<Option<EntrySet<'a>>, InvalidRecords> {
        let mut first = None;
        let mut codec = Codec::None;
        let mut count = 0;
        let mut entries = Batches::new(records);
        for entry in &mut entries {
            let entry = entry?;
            let header = entry.header();
            if header.magic == Magic::V2
                && origin == AppendOrigin::Client
                && header.base_offset != Offset::ZERO
            {
                return Err(InvalidRecords::BaseOffset { base_offset: header.base_offset });
            }
            if header.length > rules.message_bytes_max {
                return Err(InvalidRecords::TooLarge { length: header.length, max: rules.message_bytes_max });
            }
            entry.check_crc()?;
            match header.codec()? {
                Codec::None => {}
                compressed => codec = compressed,
            }
            first.get_or_insert(*header);
            count += 1;
        }
        let length = entries.position();
        Ok(first.map(|first| EntrySet { records, length, count, first, codec }))
    }

    fn entries(&self) -> impl Iterator<Item = Batch<'a>> {
        Batches::new(&self.records[..self.length]).map(|entry| entry.expect("the frame of each was checked"))
    }
}

struct Validation<'a> {
    set: EntrySet<'a>,
    origin: AppendOrigin,
    rules: &'a TopicRules,
    now: Timestamp,
}

impl Validation<'_> {
    fn run(self) -> Result<Validated, InvalidRecords> {
        let Validation { set, rules, .. } = &self;
        let alone = set.first.magic == Magic::V2 || set.codec != Codec::None;
        if alone && set.count > 1 {
            return Err(InvalidRecords::NotAlone);
        }
        let target = self.target();
        if target.codec() == Codec::Zstd && !(rules.zstd && rules.magic == Magic::V2) {
            return Err(InvalidRecords::ZstdForTopic);
        }
        let mut check = RecordCheck::new(rules, self.now);
        for entry in set.entries() {
            self.check_entry(entry.header())?;
            check.entry(&entry)?;
        }
        let in_place = set.first.magic == rules.magic
            && set.codec == target.codec()
            && check.consecutive
            && (target.codec() == Codec::None || rules.magic > Magic::V0);
        if in_place { Ok(self.in_place(&check)) } else { self.rebuild(&check, target) }
    }

    /// The codec that is to be stored.
    fn target(&self) -> Compression {
        match self.rules.compression {
            // Readers of markers do not decompress.
            _ if self.set.first.is_control() && self.set.codec == Codec::None => Compression::NONE,
            TargetCompression::Producer => self.set.codec.into(),
            TargetCompression::Fixed(compression) => compression,
        }
    }

    fn check_entry(&self, header: &BatchHeader) -> Result<(), InvalidRecords> {
        if header.magic != self.set.first.magic {
            return Err(InvalidRecords::MixedMagic { magic: header.magic, first: self.set.first.magic });
        }
        if header.magic == Magic::V2 {
            let (count, last_offset_delta) = (header.record_count, header.last_offset_delta);
            if last_offset_delta < 0 {
                return Err(InvalidRecords::OffsetRange { last_offset_delta });
            }
            if count <= 0 {
                return Err(InvalidRecords::RecordCount { count });
            }
            if i64::from(last_offset_delta) + 1 != i64::from(count) {
                return Err(InvalidRecords::CountAndRange { count, last_offset_delta });
            }
        }
        if self.origin == AppendOrigin::Client {
            if header.is_control() {
                return Err(InvalidRecords::ControlBatch);
            }
            if header.has_producer_id() && header.base_sequence < 0 {
                return Err(InvalidRecords::Sequence { sequence: header.base_sequence });
            }
        }
        let magic = self.rules.magic;
        if (header.is_transactional() || header.has_producer_id()) && magic < Magic::V2 {
            return Err(InvalidRecords::ProducerStateInOldFormat { magic });
        }
        Ok(())
    }

    fn append_time(&self) -> Option<Timestamp> {
        (self.rules.timestamp_type == TimestampType::LogAppendTime).then_some(self.now)
    }

    fn in_place(&self, check: &RecordCheck<'_>) -> Validated {
        let Validation { set, rules, .. } = self;
        let timestamp_type = rules.timestamp_type;
        let bytes = if set.count == 1 {
            let entry = set.records.slice(..set.length);
            let mut head = Head::of(&set.first, &entry);
            let rest = entry.slice(head.length..);
            if set.first.magic > Magic::V0 {
                let max = self.append_time().unwrap_or(check.max_timestamp);
                batch::set_max_timestamp(head.bytes_mut(), &rest, timestamp_type, max);
            }
            ValidBytes::Entry { head, rest }
        } else {
            let mut messages = set.records[..set.length].to_vec();
            let mut at = 0;
            for entry in set.entries() {
                let header = entry.header();
                if header.magic > Magic::V0 {
                    let own = header.max_timestamp.max(Timestamp::NONE);
                    let message = &mut messages[at..at + header.length];
                    batch::set_max_timestamp(message, &[], timestamp_type, self.append_time().unwrap_or(own));
                }
                at += header.length;
            }
            ValidBytes::Messages(messages)
        };
        self.validated(bytes, check, false)
    }

    /// Encodes the records anew, in the topic's format and codec.
    fn rebuild(&self, check: &RecordCheck<'_>, target: Compression) -> Result<Validated, InvalidRecords> {
        let bytes = match self.rules.magic {
            Magic::V2 => self.rebuild_batch(check, target)?,
            Magic::V0 | Magic::V1 => self.rebuild_messages(target)?,
        };
        Ok(self.validated(bytes, check, true))
    }

    /// One magic-2 batch. Holds one record and the compressed result, however much lies between.
    fn rebuild_batch(
        &self,
        check: &RecordCheck<'_>,
        target: Compression,
    ) -> Result<ValidBytes, InvalidRecords> {
        let max = self.rules.message_bytes_max;
        let mut out = vec![0; HEADER_LENGTH];
        let mut stream = Compressor::new(target, Magic::V2, None, &mut out);
        let mut encoded = Vec::new();
        let mut base_timestamp = None;
        let mut count = 0;
        self.for_each_record(|record| {
            let base = *base_timestamp.get_or_insert(record.timestamp);
            let timestamp_delta = record.timestamp.0.wrapping_sub(base.0);
            encoded.clear();
            builder::put_record(
                &mut encoded,
                timestamp_delta,
                count,
                record.key,
                record.value,
                &record.headers,
            );
            count += 1;
            stream.write(&encoded, &mut out);
            if out.len() > max {
                return Err(InvalidRecords::TooLarge { length: out.len(), max });
            }
            Ok(())
        })?;
        stream.finish(&mut out);
        if out.len() > max {
            return Err(InvalidRecords::TooLarge { length: out.len(), max });
        }
        let source = &self.set.first;
        let header = BatchHeader {
            magic: Magic::V2,
            base_offset: Offset::ZERO,
            length: out.len(),
            leader_epoch: LeaderEpoch::NONE,
            crc: 0,
            attributes: Attributes::default()
                .with_codec(target.codec())
                .with_timestamp_type(self.rules.timestamp_type)
                .with_transactional(source.is_transactional())
                .with_control(source.is_control()),
            last_offset_delta: count - 1,
            base_timestamp: base_timestamp.unwrap_or(Timestamp::NONE),
            max_timestamp: self.append_time().unwrap_or(check.max_timestamp),
            producer_id: source.producer_id,
            producer_epoch: source.producer_epoch,
            base_sequence: source.base_sequence,
            record_count: count,
        };
        let mut head = Head { bytes: header.to_bytes(), length: HEADER_LENGTH };
        let rest = Bytes::from(out).slice(HEADER_LENGTH..);
        batch::seal(head.bytes_mut(), &rest);
        Ok(ValidBytes::Entry { head, rest })
    }

    /// Messages of magic 0 or 1, or one wrapper. The uncompressed set is held whole, within the bound of a single
    /// decompressed record.
    fn rebuild_messages(&self, target: Compression) -> Result<ValidBytes, InvalidRecords> {
        let magic = self.rules.magic;
        let max = self.rules.message_bytes_max;
        // Inner offsets of magic 0 wait for their values.
        let deferred = magic == Magic::V0 && target.codec() != Codec::None;
        let mut set = MessageSetBuilder::new(magic, if deferred { Compression::NONE } else { target });
        if let Some(append_time) = self.append_time() {
            set = set.with_log_append_time(append_time);
        }
        let set_max = self.record_bytes_max();
        let mut next = Offset::ZERO;
        self.for_each_record(|record| {
            if !record.headers.is_empty() {
                return Err(InvalidRecords::HeadersInOldFormat { magic });
            }
            set.append(next, record.timestamp, record.key, record.value);
            next = next.plus(1);
            if set.size() > set_max {
                return Err(InvalidRecords::TooLarge { length: set.size(), max: set_max });
            }
            Ok(())
        })?;
        let bytes = set.finish();
        let largest = if deferred {
            // Offsets near zero stand in for the real ones, whose digits may cost a few bytes more.
            let wrapper =
                builder::put_wrapper(magic, target, next, TimestampType::CreateTime, Timestamp::NONE, &bytes);
            wrapper.len()
        } else {
            Batches::new(&bytes).filter_map(Result::ok).map(|entry| entry.header().length).max().unwrap_or(0)
        };
        if largest > max {
            return Err(InvalidRecords::TooLarge { length: largest, max });
        }
        let set = Vec::from(bytes);
        Ok(if deferred {
            ValidBytes::Wrapper { set, compression: target }
        } else if target.codec() != Codec::None {
            let entry = Bytes::from(set);
            let head = Head::of(&whole_header(&entry), &entry);
            ValidBytes::Entry { head, rest: entry.slice(head.length..) }
        } else {
            ValidBytes::Messages(set)
        })
    }

    fn record_bytes_max(&self) -> usize {
        DECOMPRESSED_RECORD_BYTES_MAX.max(self.rules.message_bytes_max)
    }

    /// Every record of every entry, one in memory at a time.
    fn for_each_record(
        &self,
        mut see: impl FnMut(Record<'_>) -> Result<(), InvalidRecords>,
    ) -> Result<(), InvalidRecords> {
        for entry in self.set.entries() {
            let header = entry.header();
            let codec = header.codec()?;
            if codec == Codec::None {
                // What is not compressed needs no limit on what it decompresses to.
                for record in entry.records(0)?.iter()? {
                    see(record?)?;
                }
            } else if header.magic == Magic::V2 {
                let mut window = open_window(&entry, codec)?;
                let origin = Origin::of(header);
                for _ in 0..header.record_count {
                    let record = window.record(self.record_bytes_max())?;
                    see(Record {
                        offset: origin.offset(record.offset_delta),
                        timestamp: origin.timestamp(record.timestamp_delta),
                        key: record.key,
                        value: record.value,
                        headers: record.headers,
                    })?;
                }
            } else {
                let mut window = open_window(&entry, codec)?;
                while let Some(message) = window.entry(self.record_bytes_max())? {
                    see(legacy::inner_record(header, &message)?)?;
                }
            }
        }
        Ok(())
    }

    fn validated(&self, bytes: ValidBytes, check: &RecordCheck<'_>, rebuilt: bool) -> Validated {
        let first = match &bytes {
            ValidBytes::Entry { head, .. } => whole_header(head.bytes()),
            ValidBytes::Messages(set) | ValidBytes::Wrapper { set, .. } => whole_header(set),
        };
        let several = matches!(bytes, ValidBytes::Messages(_)) && self.append_time().is_none();
        Validated {
            bytes,
            first,
            record_count: check.index,
            max_timestamp: match self.append_time() {
                _ if self.rules.magic == Magic::V0 => Timestamp::NONE,
                Some(now) => now,
                None => check.max_timestamp,
            },
            max_timestamp_delta: if several { check.max_timestamp_index } else { check.index - 1 },
            append_time: self.append_time(),
            rebuilt,
        }
    }
}

/// The payload of a compressed entry, to be walked in bounded memory.
fn open_window<'a>(entry: &Batch<'a>, codec: Codec) -> Result<Window<'a>, RecordError> {
    let header = entry.header();
    let payload = match header.magic {
        Magic::V2 => &entry.bytes()[HEADER_LENGTH..],
        Magic::V0 | Magic::V1 => legacy::wrapper_payload(entry)?,
    };
    Ok(Window::new(Decompressor::new(codec, header.magic, payload, DECOMPRESSED_BYTES_MAX)?))
}

/// Walks records and remembers what the topic's rules and the batch's header need to know of them.
struct RecordCheck<'r> {
    rules: &'r TopicRules,
    earliest: Timestamp,
    latest: Timestamp,
    /// Records seen; of all entries.
    index: i32,
    max_timestamp: Timestamp,
    max_timestamp_index: i32,
    /// Whether the records inside an entry sit at 0, 1, 2, .. as they should. Where they do not, Kafka renumbers
    /// compressed messages, as some old clients get them wrong; but it stores an uncompressed magic-2 batch with
    /// offsets beyond its own last one, which sends readers past the records that follow. So those are renumbered too.
    consecutive: bool,
}

impl<'r> RecordCheck<'r> {
    fn new(rules: &'r TopicRules, now: Timestamp) -> RecordCheck<'r> {
        RecordCheck {
            rules,
            // The default is no bound, not one that ends 292 million years away.
            earliest: Timestamp(match rules.timestamp_before_max_ms {
                i64::MAX => i64::MIN,
                before => now.0.saturating_sub(before),
            }),
            latest: Timestamp(now.0.saturating_add(rules.timestamp_after_max_ms)),
            index: 0,
            max_timestamp: Timestamp::NONE,
            max_timestamp_index: 0,
            consecutive: true,
        }
    }

    /// All records of one entry; if any break a rule, all that do are named.
    fn entry(&mut self, entry: &Batch<'_>) -> Result<(), InvalidRecords> {
        let header = entry.header();
        let mut faults = RecordFaults::default();
        match (header.magic, header.codec()?) {
            (Magic::V2, Codec::None) => self.batch(header, entry, &mut faults)?,
            (Magic::V2, codec) => self.compressed_batch(header, open_window(entry, codec)?, &mut faults)?,
            (Magic::V0 | Magic::V1, Codec::None) => {
                for record in entry.records(0)?.iter()? {
                    let record = record?;
                    self.record(
                        header,
                        0,
                        record.timestamp,
                        record.offset,
                        record.key.is_some(),
                        &mut faults,
                    );
                }
            }
            (Magic::V0 | Magic::V1, codec) => {
                self.wrapper(header, open_window(entry, codec)?, &mut faults)?
            }
        }
        if faults.count == 0 { Ok(()) } else { Err(InvalidRecords::Records(faults)) }
    }

    fn batch(
        &mut self,
        header: &BatchHeader,
        entry: &Batch<'_>,
        faults: &mut RecordFaults,
    ) -> Result<(), RecordError> {
        let mut reader = Reader(&entry.bytes()[HEADER_LENGTH..]);
        let origin = Origin::of(header);
        for index in 0..header.record_count {
            let record = reader.record()?;
            self.consecutive &= record.offset_delta == index;
            self.batch_record(header, &origin, index, record.into(), faults);
        }
        match reader.0.len() {
            0 => Ok(()),
            left => Err(RecordError::BytesLeft { left }),
        }
    }

    fn compressed_batch(
        &mut self,
        header: &BatchHeader,
        mut window: Window<'_>,
        faults: &mut RecordFaults,
    ) -> Result<(), RecordError> {
        let origin = Origin::of(header);
        for index in 0..header.record_count {
            let record = window.skim()?;
            self.consecutive &= record.offset_delta == index;
            self.batch_record(header, &origin, index, record, faults);
        }
        match window.bytes_left()? {
            0 => Ok(()),
            left => Err(RecordError::BytesLeft { left }),
        }
    }

    #[inline]
    fn batch_record(
        &mut self,
        header: &BatchHeader,
        origin: &Origin,
        index: i32,
        record: Skimmed,
        faults: &mut RecordFaults,
    ) {
        let timestamp = origin.timestamp(record.timestamp_delta);
        let offset = origin.offset(record.offset_delta);
        self.record(header, index, timestamp, offset, record.has_key, faults);
    }

    fn wrapper(
        &mut self,
        header: &BatchHeader,
        mut window: Window<'_>,
        faults: &mut RecordFaults,
    ) -> Result<(), RecordError> {
        let record_max = DECOMPRESSED_RECORD_BYTES_MAX.max(self.rules.message_bytes_max);
        let (mut index, mut first, mut last) = (0, None, Offset::ZERO);
        while let Some(message) = window.entry(record_max)? {
            let inner = message.header();
            last = inner.base_offset;
            let expected = first.get_or_insert(last).0.wrapping_add(i64::from(index));
            self.consecutive &= last.0 == expected;
            if inner.magic == header.magic {
                message.check_crc()?;
                let record = legacy::inner_record(header, &message)?;
                self.record(header, index, record.timestamp, last, record.key.is_some(), faults);
            } else {
                faults.add(index, RecordFaultCause::Magic { inner: inner.magic, outer: header.magic });
            }
            index = index.checked_add(1).ok_or(RecordError::EndsEarly)?;
        }
        let first = first.ok_or(RecordError::WrapperWithoutMessages)?;
        // Where the offsets inside start, and what they count from.
        let base = legacy::Base::new(header, last)?;
        self.consecutive &= base.offset(first) == Offset::ZERO;
        Ok(())
    }

    /// One record against the rules. `index` is its position in its entry.
    #[inline]
    fn record(
        &mut self,
        header: &BatchHeader,
        index: i32,
        timestamp: Timestamp,
        offset: Offset,
        has_key: bool,
        faults: &mut RecordFaults,
    ) {
        if self.rules.compacted && !has_key {
            faults.add(index, RecordFaultCause::NullKey);
        } else if self.rules.timestamp_type == TimestampType::CreateTime && timestamp != Timestamp::NONE {
            if timestamp < self.earliest || timestamp > self.latest {
                let (earliest, latest) = (self.earliest, self.latest);
                faults.add(
                    index,
                    RecordFaultCause::TimestampOutOfRange { timestamp, offset, earliest, latest },
                );
            }
        } else if header.timestamp_type() == Some(TimestampType::LogAppendTime) {
            faults.add(index, RecordFaultCause::LogAppendTime);
        }
        if timestamp > self.max_timestamp {
            self.max_timestamp = timestamp;
            self.max_timestamp_index = self.index;
        }
        self.index = self.index.wrapping_add(1);
    }
}
