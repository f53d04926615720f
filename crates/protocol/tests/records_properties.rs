//! Whatever goes into an entry comes out of it, in every format and codec; a `Vec` of records is the model.

use bytes::Bytes;
use ottla_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::compression::{self, Codec, Compression, Decompressor};
use ottla_protocol::records::validate::{AppendOrigin, TargetCompression, TopicRules, validate};
use ottla_protocol::records::{
    Batch, BatchBuilder, Batches, Magic, MessageSetBuilder, ProducerState, Record, RecordHeader,
    TimestampType, down_convert,
};
use proptest::collection::vec;
use proptest::prelude::*;

const LIMIT: usize = 64 << 20;

#[derive(Debug, Clone, PartialEq)]
struct Model {
    timestamp: i64,
    key: Option<Vec<u8>>,
    value: Option<Vec<u8>>,
    headers: Vec<(Vec<u8>, Option<Vec<u8>>)>,
}

impl Model {
    fn of(record: Record<'_>) -> Model {
        Model {
            timestamp: record.timestamp.0,
            key: record.key.map(<[u8]>::to_vec),
            value: record.value.map(<[u8]>::to_vec),
            headers: record
                .headers
                .iter()
                .map(|header| (header.key.to_vec(), header.value.map(<[u8]>::to_vec)))
                .collect(),
        }
    }

    fn headers(&self) -> Vec<RecordHeader<'_>> {
        self.headers.iter().map(|(key, value)| RecordHeader { key, value: value.as_deref() }).collect()
    }

    /// As far as `magic` can say it.
    fn in_format(mut self, magic: Magic) -> Model {
        if magic < Magic::V2 {
            self.headers.clear();
        }
        if magic < Magic::V1 {
            self.timestamp = -1;
        }
        self
    }
}

/// Mostly short, now and then longer than any window or block; compressible to some degree.
fn bytes() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        20 => vec(any::<u8>(), 0..20),
        4 => (any::<u8>(), 0..5_000usize).prop_map(|(byte, length)| vec![byte; length]),
        1 => (any::<u64>(), 60_000..300_000usize).prop_map(|(seed, length)| {
            (0..length as u64).map(|at| (seed.wrapping_mul(at | 1) >> (at % 7 * 8)) as u8).collect()
        }),
    ]
}

fn record() -> impl Strategy<Value = Model> {
    let timestamp = prop_oneof![
        8 => 1_700_000_000_000..1_700_000_100_000i64,
        1 => Just(-1),
        1 => Just(i64::MAX),
        1 => 0..i64::MAX,
    ];
    let headers = vec((vec(any::<u8>(), 0..4), proptest::option::of(vec(any::<u8>(), 0..6))), 0..3);
    (timestamp, proptest::option::of(bytes()), proptest::option::of(bytes()), headers)
        .prop_map(|(timestamp, key, value, headers)| Model { timestamp, key, value, headers })
}

fn magic() -> impl Strategy<Value = Magic> {
    prop_oneof![Just(Magic::V0), Just(Magic::V1), Just(Magic::V2)]
}

fn codec() -> impl Strategy<Value = Codec> {
    proptest::sample::select(Codec::ALL.to_vec())
}

fn entry(magic: Magic, codec: Codec, base: i64, records: &[Model]) -> Bytes {
    if magic == Magic::V2 {
        let mut builder = BatchBuilder::new().with_compression(codec).with_base_offset(Offset(base));
        for record in records {
            let headers = record.headers();
            let size = builder.size_with(
                Timestamp(record.timestamp),
                record.key.as_deref(),
                record.value.as_deref(),
                &headers,
            );
            builder.append(
                Timestamp(record.timestamp),
                record.key.as_deref(),
                record.value.as_deref(),
                &headers,
            );
            assert_eq!(builder.size(), size, "the estimate is exact");
        }
        return builder.finish();
    }
    let mut builder = MessageSetBuilder::new(magic, codec);
    for (offset, record) in (base..).zip(records) {
        builder.append(
            Offset(offset),
            Timestamp(record.timestamp),
            record.key.as_deref(),
            record.value.as_deref(),
        );
    }
    builder.finish()
}

/// Offsets and records of all entries; crcs and partial tails checked on the way.
fn read(bytes: &[u8]) -> Vec<(i64, Model)> {
    let mut entries = Batches::new(bytes);
    let mut all = Vec::new();
    for entry in &mut entries {
        let entry = entry.unwrap();
        entry.check_crc().unwrap();
        let first = all.len();
        let records = entry.records(LIMIT).unwrap();
        all.extend(records.iter().unwrap().map(|record| {
            let record = record.unwrap();
            (record.offset.0, Model::of(record))
        }));
        assert_eq!(entry.first_offset(LIMIT).unwrap().0, all[first].0);
        assert_eq!(entry.header().last_offset().0, all.last().unwrap().0);
    }
    assert!(entries.partial_tail().is_empty());
    all
}

fn numbered(base: i64, magic: Magic, records: &[Model]) -> Vec<(i64, Model)> {
    (base..).zip(records.iter().map(|record| record.clone().in_format(magic))).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 192, ..ProptestConfig::default() })]

    #[test]
    fn records_survive_every_format_and_codec(
        magic in magic(),
        codec in codec(),
        base in 0..1i64 << 40,
        records in vec(record(), 1..12),
    ) {
        prop_assume!(magic == Magic::V2 || codec != Codec::Zstd);
        let bytes = entry(magic, codec, base, &records);
        prop_assert_eq!(read(&bytes), numbered(base, magic, &records));
    }

    #[test]
    fn a_codec_stream_is_what_went_into_it_however_it_is_cut(
        codec in codec(),
        pieces in vec(bytes(), 0..5),
        level in 0..10i32,
    ) {
        let compression = Compression::with_level(codec, level).unwrap_or(Compression::from(codec));
        let whole = pieces.concat();
        let mut stream = Vec::new();
        let mut compressor = compression::Compressor::new(compression, Magic::V2, None, &mut stream);
        for piece in &pieces {
            compressor.write(piece, &mut stream);
        }
        compressor.finish(&mut stream);
        prop_assert_eq!(&compression::decompress(codec, Magic::V2, &stream, whole.len()).unwrap()[..], &whole);

        let mut one_go = Vec::new();
        compression::compress(compression, Magic::V2, &whole, &mut one_go);
        let mut out = Vec::new();
        let mut decompressor = Decompressor::new(codec, Magic::V2, &one_go, whole.len()).unwrap();
        while decompressor.next_piece(&mut out).unwrap() {}
        prop_assert_eq!(&out, &whole);
        if let Some(less) = whole.len().checked_sub(1) {
            prop_assert!(compression::decompress(codec, Magic::V2, &one_go, less).is_err(), "one byte too many");
        }
    }

    #[test]
    fn a_leader_stores_what_the_producer_sent(
        magic in magic(),
        codec in codec(),
        target in proptest::option::of(codec()),
        topic_magic in magic(),
        records in vec(record(), 1..12),
        append_time in any::<bool>(),
    ) {
        prop_assume!(magic == Magic::V2 || codec != Codec::Zstd);
        let stored_codec = target.unwrap_or(codec);
        prop_assume!(topic_magic == Magic::V2 || stored_codec != Codec::Zstd);
        let rules = TopicRules {
            magic: topic_magic,
            compression: target.map_or(TargetCompression::Producer, |codec| TargetCompression::Fixed(codec.into())),
            timestamp_type: if append_time { TimestampType::LogAppendTime } else { TimestampType::CreateTime },
            message_bytes_max: 64 << 20,
            ..TopicRules::default()
        };
        let headers_lost = topic_magic < magic && records.iter().any(|record| !record.headers.is_empty());
        let sent = entry(magic, codec, 0, &records);
        let now = Timestamp(1_800_000_000_000);
        let answer = validate(&sent, AppendOrigin::Client, &rules, now);
        if headers_lost && magic == Magic::V2 {
            prop_assert!(answer.is_err(), "headers are never dropped in silence");
            return Ok(());
        }
        let validated = answer.unwrap().unwrap();
        prop_assert_eq!(validated.record_count() as usize, records.len());
        let assigned = validated.assign(Offset(1000), LeaderEpoch(3));
        let mut expected = numbered(1000, magic.min(topic_magic), &records);
        if append_time && topic_magic > Magic::V0 {
            expected.iter_mut().for_each(|(_, record)| record.timestamp = now.0);
        }
        let stored = assigned.to_bytes();
        prop_assert_eq!(read(&stored), expected);
        prop_assert_eq!(assigned.last_offset.0, 999 + records.len() as i64);
        for entry in Batches::new(&stored) {
            let header = *entry.unwrap().header();
            prop_assert_eq!(header.magic, topic_magic);
            prop_assert_eq!(header.codec(), Ok(stored_codec));
            prop_assert_eq!(header.leader_epoch.0, if topic_magic == Magic::V2 { 3 } else { -1 });
        }
    }

    #[test]
    fn old_readers_see_the_same_records(
        codec in codec(),
        target in prop_oneof![Just(Magic::V0), Just(Magic::V1)],
        records in vec(record(), 1..12),
    ) {
        prop_assume!(codec != Codec::Zstd);
        let stored = entry(Magic::V2, codec, 7, &records);
        let converted = down_convert(&stored, target, Offset(7), usize::MAX, LIMIT).unwrap();
        prop_assert_eq!(read(&converted.bytes), numbered(7, target, &records));
        prop_assert_eq!(converted.next_offset, Some(Offset(7 + records.len() as i64)));
    }

    #[test]
    fn the_header_of_a_batch_survives_its_own_bytes(
        offset: i64, epoch: i32, pid: i64, producer_epoch: i16, base_sequence: i32, transactional: bool,
    ) {
        let mut builder = BatchBuilder::new()
            .with_base_offset(Offset(offset))
            .with_leader_epoch(LeaderEpoch(epoch))
            .with_transactional(transactional);
        builder.set_producer(ProducerState { id: ProducerId(pid), epoch: ProducerEpoch(producer_epoch), base_sequence });
        builder.append(Timestamp(5), None, None, &[]);
        let bytes = builder.finish();
        let header = *Batch::parse(&bytes).unwrap().unwrap().header();
        prop_assert_eq!(header.to_bytes(), &bytes[..61]);
        prop_assert_eq!(
            (header.base_offset.0, header.leader_epoch.0, header.producer_id.0, header.producer_epoch.0),
            (offset, epoch, pid, producer_epoch)
        );
        prop_assert_eq!((header.base_sequence, header.is_transactional()), (base_sequence, transactional));
    }
}

#[test]
fn sequences_wrap_to_zero() {
    for (base, delta, last) in
        [(0, 0, 0), (5, 4, 9), (i32::MAX, 0, i32::MAX), (i32::MAX, 1, 0), (i32::MAX - 1, 5, 3)]
    {
        assert_eq!(ottla_protocol::records::batch::add_to_sequence(base, delta), last, "{base} + {delta}");
    }
}

#[test]
fn a_builder_starts_afresh_after_each_batch() {
    let mut builder = BatchBuilder::new().with_compression(Codec::Lz4);
    let batches: Vec<Bytes> = (0..2)
        .map(|_| {
            builder.append(Timestamp(9), Some(b"k"), Some(b"v"), &[]);
            builder.finish()
        })
        .collect();
    assert_eq!(batches[0], batches[1]);
    assert!(builder.is_empty());
}

/// What compaction leaves: deltas with gaps, a last offset that no record has, a batch without records.
#[test]
fn gaps_and_emptied_batches_are_read() {
    for codec in Codec::ALL {
        let mut builder = BatchBuilder::new().with_base_offset(Offset(100)).with_compression(codec);
        builder.append_at(3, Timestamp(1), Some(b"a"), None, &[]);
        builder.append_at(7, Timestamp(2), Some(b"b"), None, &[]);
        let bytes = builder.finish();
        let batch = Batch::parse(&bytes).unwrap().unwrap();
        let offsets: Vec<i64> =
            batch.records(LIMIT).unwrap().iter().unwrap().map(|record| record.unwrap().offset.0).collect();
        assert_eq!(offsets, [103, 107], "{codec}");
        assert_eq!(batch.header().next_offset(), Offset(108), "{codec}");

        let mut emptied = *batch.header();
        (emptied.length, emptied.record_count, emptied.base_timestamp) = (61, 0, Timestamp::NONE);
        let mut bytes = emptied.to_bytes();
        ottla_protocol::records::batch::seal(&mut bytes, &[]);
        let batch = Batch::parse(&bytes).unwrap().unwrap();
        batch.check_crc().unwrap();
        assert_eq!(batch.records(LIMIT).unwrap().iter().unwrap().count(), 0, "{codec}");
        assert_eq!(batch.header().next_offset(), Offset(108), "{codec}");
    }
}
