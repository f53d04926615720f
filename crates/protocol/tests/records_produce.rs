//! What producers get wrong, or do in ways of their own, and what the leader makes of it.

use bytes::Bytes;
use ottla_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::{Codec, Compression, compress};
use ottla_protocol::records::validate::{
    AppendOrigin, InvalidRecords, RECORD_FAULTS_MAX, TargetCompression, TopicRules, Validated, validate,
};
use ottla_protocol::records::{
    Batch, BatchBuilder, BatchHeader, Batches, EndTransactionMarker, Magic, MessageSetBuilder, TimestampType,
    TransactionResult, batch,
};

const NOW: Timestamp = Timestamp(1_700_000_001_000);

fn check(records: &[u8], rules: &TopicRules) -> Result<Option<Validated>, InvalidRecords> {
    validate(&Bytes::copy_from_slice(records), AppendOrigin::Client, rules, NOW)
}

fn code(records: &[u8], rules: &TopicRules) -> ErrorCode {
    check(records, rules).map_or_else(|error| error.code(), |_| ErrorCode::None)
}

fn stored(records: &[u8], rules: &TopicRules) -> Bytes {
    check(records, rules).unwrap().unwrap().assign(Offset(100), LeaderEpoch(4)).to_bytes()
}

fn values(entries: &[u8]) -> Vec<(i64, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in Batches::new(entries) {
        let records = entry.unwrap().records(64 << 20).unwrap();
        for record in records.iter().unwrap() {
            let record = record.unwrap();
            all.push((record.offset.0, record.value.unwrap().to_vec()));
        }
    }
    all
}

fn messages(magic: Magic, codec: Codec, offsets: &[i64]) -> Bytes {
    let mut builder = MessageSetBuilder::new(magic, codec);
    for offset in offsets {
        builder.append(Offset(*offset), NOW, Some(b"key"), Some(format!("value {offset}").as_bytes()));
    }
    builder.finish()
}

fn one_batch(codec: Codec, value: &[u8]) -> Bytes {
    let mut builder = BatchBuilder::new().with_compression(codec);
    builder.append(NOW, Some(b"key"), Some(value), &[]);
    builder.finish()
}

/// A magic-2 batch of one record whose codec stream is `payload`.
fn batch_around(codec: Codec, payload: &[u8]) -> Vec<u8> {
    let plain = one_batch(Codec::None, b"");
    let mut header = *Batch::parse(&plain).unwrap().unwrap().header();
    header.attributes = header.attributes.with_codec(codec);
    header.length = 61 + payload.len();
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(payload);
    batch::seal(&mut bytes, &[]);
    bytes
}

/// The records of a batch, as they lie behind its header.
fn payload(value: &[u8]) -> Vec<u8> {
    one_batch(Codec::None, value)[61..].to_vec()
}

#[test]
fn a_flipped_bit_is_corruption_in_every_format() {
    for magic in [Magic::V0, Magic::V1, Magic::V2] {
        for codec in [Codec::None, Codec::Gzip] {
            let good = match magic {
                Magic::V2 => one_batch(codec, b"value"),
                _ => messages(magic, codec, &[0, 1, 2]),
            };
            assert_eq!(code(&good, &TopicRules::default()), ErrorCode::None, "magic {magic} {codec}");
            // Behind magic and crc, and in the last byte of the last entry.
            for at in [if magic == Magic::V2 { 23 } else { 20 }, good.len() - 1] {
                let mut bad = good.to_vec();
                bad[at] ^= 0x10;
                assert_eq!(
                    code(&bad, &TopicRules::default()),
                    ErrorCode::CorruptMessage,
                    "magic {magic} at {at}"
                );
            }
        }
    }
}

#[test]
fn a_partial_last_message_is_dropped_and_the_rest_stored() {
    for magic in [Magic::V0, Magic::V1] {
        let whole = messages(magic, Codec::None, &[0, 1, 2]);
        let first_two = messages(magic, Codec::None, &[0, 1]);
        for cut in [1, 10, 20] {
            let rules = TopicRules { magic, ..TopicRules::default() };
            let kept = stored(&whole[..whole.len() - cut], &rules);
            assert_eq!(kept.len(), first_two.len(), "magic {magic}, {cut} bytes missing");
            assert_eq!(values(&kept).len(), 2);
        }
        assert!(
            check(&whole[..10], &TopicRules::default()).unwrap().is_none(),
            "nothing whole: nothing to store"
        );
    }
}

/// KAFKA-9080: a stricter check once broke old clients.
#[test]
fn gaps_in_the_offsets_of_uncompressed_messages_are_closed() {
    for topic_magic in [Magic::V1, Magic::V2] {
        let sent = messages(Magic::V1, Codec::None, &[0, 5, 9]);
        let rules = TopicRules { magic: topic_magic, ..TopicRules::default() };
        let stored = stored(&sent, &rules);
        let expected: Vec<_> = [(100, "value 0"), (101, "value 5"), (102, "value 9")]
            .map(|(o, v)| (o, v.as_bytes().to_vec()))
            .into();
        assert_eq!(values(&stored), expected);
    }
}

#[test]
fn snappy_is_read_framed_raw_and_concatenated() {
    for length in [0, 10, 200_000] {
        let value: Vec<u8> = (0..length).map(|at| (at / 7) as u8).collect();
        let payload = payload(&value);
        let raw = snap::raw::Encoder::new().compress_vec(&payload).unwrap();
        let mut framed = Vec::new();
        compress(Codec::Snappy.into(), Magic::V2, &payload, &mut framed);
        let mut concatenated = Vec::new();
        let (head, tail) = payload.split_at(payload.len() / 2);
        compress(Codec::Snappy.into(), Magic::V2, head, &mut concatenated);
        compress(Codec::Snappy.into(), Magic::V2, tail, &mut concatenated);
        // 0.9 and 0.10 clients cut blocks of 1 KiB.
        let mut small_blocks = framed[..16].to_vec();
        for block in payload.chunks(1024) {
            let block = snap::raw::Encoder::new().compress_vec(block).unwrap();
            small_blocks.extend_from_slice(&(block.len() as i32).to_be_bytes());
            small_blocks.extend_from_slice(&block);
        }
        for (how, stream) in
            [("raw", raw), ("framed", framed), ("concatenated", concatenated), ("1 KiB blocks", small_blocks)]
        {
            let sent = batch_around(Codec::Snappy, &stream);
            for (compacted, compression) in
                [(true, TargetCompression::Producer), (false, TargetCompression::Fixed(Codec::Zstd.into()))]
            {
                let rules = TopicRules { compacted, compression, ..TopicRules::default() };
                assert_eq!(values(&stored(&sent, &rules)), [(100, value.clone())], "{how}, {length} bytes");
            }
        }
    }
}

#[test]
fn the_size_limit_holds_before_and_after_recompression() {
    let value = vec![b'x'; 5_000_000];
    let limited =
        |compression| TopicRules { message_bytes_max: 100_000, compression, ..TopicRules::default() };
    let uncompressed = TargetCompression::Fixed(Compression::NONE);
    let zstd = one_batch(Codec::Zstd, &value);
    assert!(zstd.len() < 5_000);
    for (why, records, rules, answer) in [
        ("small, and stays small", &zstd, limited(TargetCompression::Producer), ErrorCode::None),
        ("small, but not as the topic stores it", &zstd, limited(uncompressed), ErrorCode::MessageTooLarge),
        (
            "too large as it comes",
            &one_batch(Codec::None, &value),
            limited(TargetCompression::Fixed(Codec::Zstd.into())),
            ErrorCode::MessageTooLarge,
        ),
    ] {
        assert_eq!(code(records, &rules), answer, "{why}");
    }
    let exact = one_batch(Codec::None, b"value");
    for (max, answer) in [(exact.len(), ErrorCode::None), (exact.len() - 1, ErrorCode::MessageTooLarge)] {
        let rules = TopicRules { message_bytes_max: max, ..TopicRules::default() };
        assert_eq!(code(&exact, &rules), answer, "limit {max}");
    }
    let mut damaged = zstd.to_vec();
    *damaged.last_mut().unwrap() ^= 1;
    let rules = TopicRules { message_bytes_max: 100, ..TopicRules::default() };
    assert_eq!(code(&damaged, &rules), ErrorCode::MessageTooLarge, "size comes before crc");
}

#[test]
fn a_batch_that_may_stay_as_it_is_keeps_sharing_the_request() {
    for codec in Codec::ALL {
        let request = one_batch(codec, b"value");
        let assigned = validate(&request, AppendOrigin::Client, &TopicRules::default(), NOW)
            .unwrap()
            .unwrap()
            .assign(Offset(7), LeaderEpoch(2));
        let [head, rest] = assigned.slices();
        assert_eq!(rest.as_ptr(), request[61..].as_ptr(), "{codec}: not copied");
        assert_eq!(head[8..12], request[8..12]);
        assert_eq!(head[16..], request[16..61], "{codec}: only offset and epoch are the leader's");
    }
}

#[test]
fn append_time_replaces_what_readers_see_and_not_what_was_sent() {
    let sent = one_batch(Codec::None, b"value");
    let rules = TopicRules { timestamp_type: TimestampType::LogAppendTime, ..TopicRules::default() };
    let validated = check(&sent, &rules).unwrap().unwrap();
    assert_eq!(validated.append_time(), Some(NOW));
    let stored = validated.assign(Offset(0), LeaderEpoch(0)).to_bytes();
    let header = *Batch::parse(&stored).unwrap().unwrap().header();
    assert_eq!((header.attributes.0, header.max_timestamp, header.base_timestamp), (8, NOW, NOW));
    assert_eq!(stored[61..], sent[61..]);
}

#[test]
fn timestamps_at_the_edges_overflow_nothing() {
    let hour = TopicRules { timestamp_after_max_ms: 3_600_000, ..TopicRules::default() };
    let recent = TopicRules { timestamp_before_max_ms: 3_600_000, ..TopicRules::default() };
    let any = TopicRules::default();
    for (why, timestamp, rules, answer) in [
        ("no timestamp", -1, &recent, ErrorCode::None),
        ("1970", 0, &any, ErrorCode::None),
        ("1970 where an hour is allowed", 0, &recent, ErrorCode::InvalidTimestamp),
        ("the end of time", i64::MAX, &any, ErrorCode::None),
        ("the end of time where an hour is allowed", i64::MAX, &hour, ErrorCode::InvalidTimestamp),
        ("the beginning of time", i64::MIN, &any, ErrorCode::None),
        ("the beginning of time where an hour is allowed", i64::MIN, &recent, ErrorCode::InvalidTimestamp),
        ("an hour ahead", NOW.0 + 3_600_000, &hour, ErrorCode::None),
        ("a millisecond more", NOW.0 + 3_600_001, &hour, ErrorCode::InvalidTimestamp),
        ("ten years ago", NOW.0 - 315_360_000_000, &any, ErrorCode::None),
    ] {
        let mut builder = BatchBuilder::new();
        builder.append(Timestamp(timestamp), None, None, &[]);
        assert_eq!(code(&builder.finish(), rules), answer, "{why}");
    }
}

#[test]
fn every_failing_record_is_named_up_to_a_bound() {
    let rules = TopicRules { compacted: true, ..TopicRules::default() };
    let mut builder = BatchBuilder::new().with_compression(Codec::Zstd);
    for _ in 0..RECORD_FAULTS_MAX + 5 {
        builder.append(NOW, None, None, &[]);
    }
    let error = check(&builder.finish(), &rules).unwrap_err();
    assert_eq!(error.code(), ErrorCode::InvalidRecord);
    assert_eq!(error.record_faults().len(), RECORD_FAULTS_MAX);
    assert!(error.to_string().contains("10005 record errors in total"), "{error}");
}

#[test]
fn markers_are_for_coordinators_only() {
    let marker = EndTransactionMarker { result: TransactionResult::Abort, coordinator_epoch: 3 };
    let bytes = marker.to_batch(Offset(0), NOW, ProducerId(9), ProducerEpoch(1));
    let rules =
        TopicRules { compression: TargetCompression::Fixed(Codec::Gzip.into()), ..TopicRules::default() };
    assert_eq!(code(&bytes, &rules), ErrorCode::InvalidRecord);
    let stored = validate(&bytes, AppendOrigin::Coordinator, &rules, NOW)
        .unwrap()
        .unwrap()
        .assign(Offset(5), LeaderEpoch(1))
        .to_bytes();
    let entry = Batch::parse(&stored).unwrap().unwrap();
    assert!(entry.header().is_control());
    assert_eq!(entry.header().codec(), Ok(Codec::None), "markers are never compressed");
    let records = entry.records(0).unwrap();
    let record = records.iter().unwrap().next().unwrap().unwrap();
    assert_eq!(EndTransactionMarker::from_record(record.key.unwrap(), record.value.unwrap()), Some(marker));
}

#[test]
fn streams_that_are_none_are_refused() {
    let payload = payload(b"value");
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut stream = Vec::new();
        compress(codec.into(), Magic::V2, &payload, &mut stream);
        for (why, stream) in [
            ("not that codec", payload.clone()),
            ("cut short", stream[..stream.len() / 2].to_vec()),
            ("nothing at all", Vec::new()),
        ] {
            let refused = code(&batch_around(codec, &stream), &TopicRules::default());
            let wanted = [ErrorCode::UnknownServerError, ErrorCode::InvalidRecord];
            assert!(wanted.contains(&refused), "{codec}, {why}: {refused:?}");
        }
        assert_eq!(code(&batch_around(codec, &stream), &TopicRules::default()), ErrorCode::None);
    }
    let mut unknown = batch_around(Codec::None, &payload);
    unknown[22] = 5;
    batch::seal(&mut unknown, &[]);
    assert_eq!(code(&unknown, &TopicRules::default()), ErrorCode::UnknownServerError, "codec 5");
}

#[test]
fn zstd_is_stored_only_where_every_broker_and_reader_knows_it() {
    let zstd = one_batch(Codec::Zstd, b"value");
    let plain = one_batch(Codec::None, b"value");
    let force = TargetCompression::Fixed(Codec::Zstd.into());
    let gzip = TargetCompression::Fixed(Codec::Gzip.into());
    let any = TopicRules::default();
    let refused = ErrorCode::UnsupportedCompressionType;
    for (why, records, rules, answer) in [
        ("with brokers of today", &zstd, any, ErrorCode::None),
        ("beside brokers before 2.1", &zstd, TopicRules { zstd: false, ..any }, refused),
        ("forced by the topic", &plain, TopicRules { zstd: false, compression: force, ..any }, refused),
        (
            "taken apart by the topic",
            &zstd,
            TopicRules { zstd: false, compression: gzip, ..any },
            ErrorCode::None,
        ),
        ("in magic 1", &zstd, TopicRules { magic: Magic::V1, ..any }, refused),
        ("forced in magic 0", &plain, TopicRules { magic: Magic::V0, compression: force, ..any }, refused),
    ] {
        assert_eq!(code(records, &rules), answer, "{why}");
    }
}

#[test]
fn a_magic_0_topic_stores_absolute_offsets_inside_its_wrappers() {
    let rules = TopicRules { magic: Magic::V0, ..TopicRules::default() };
    let assigned = check(&messages(Magic::V0, Codec::Gzip, &[0, 1, 2]), &rules)
        .unwrap()
        .unwrap()
        .assign(Offset(1 << 40), LeaderEpoch(0));
    let bytes = assigned.to_bytes();
    let header = BatchHeader::parse(&bytes).unwrap().unwrap();
    assert_eq!(header, assigned.header);
    assert_eq!(header.base_offset, Offset((1 << 40) + 2));
    let offsets: Vec<i64> = values(&bytes).into_iter().map(|(offset, _)| offset - (1 << 40)).collect();
    assert_eq!(offsets, [0, 1, 2]);
}
