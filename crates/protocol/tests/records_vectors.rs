//! Entries that Kafka 3.9's own classes wrote, byte for byte: read, and written again.

use bytes::Bytes;
use ottla_model::{Offset, ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::compression::{self, Codec, Compression};
use ottla_protocol::records::{
    Batch, BatchBuilder, Batches, EndTransactionMarker, HEADER_LENGTH, Magic, MessageSetBuilder, Record,
    RecordHeader, TimestampType, TransactionResult,
};

const T: i64 = 1_700_000_000_000;

fn unhex(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(u8::is_ascii_hexdigit).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

fn only_batch(bytes: &[u8]) -> Batch<'_> {
    let mut batches = Batches::new(bytes);
    let batch = batches.next().unwrap().unwrap();
    assert!(batches.next().is_none());
    assert!(batches.partial_tail().is_empty());
    batch.check_crc().unwrap();
    batch
}

/// Offset, timestamp, key, value, headers.
type Seen = (i64, i64, Option<String>, Option<String>, Vec<(String, Option<String>)>);

fn seen(record: Record<'_>) -> Seen {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        record.offset.0,
        record.timestamp.0,
        record.key.map(text),
        record.value.map(text),
        record.headers.iter().map(|header| (text(header.key), header.value.map(text))).collect(),
    )
}

fn records_of(batch: &Batch<'_>) -> Vec<Seen> {
    let records = batch.records(1 << 20).unwrap();
    records.iter().unwrap().map(|record| seen(record.unwrap())).collect()
}

fn plain(offset: i64, timestamp: i64, key: Option<&str>, value: Option<&str>) -> Seen {
    (offset, timestamp, key.map(str::to_owned), value.map(str::to_owned), vec![])
}

#[test]
fn a_magic_0_message_is_read_and_written_as_kafka_does() {
    let bytes = unhex("0000000000000005 00000010 1fecd70a 00 00 00000001 6b 00000001 76");
    let batch = only_batch(&bytes);
    assert_eq!(batch.header().magic, Magic::V0);
    assert_eq!(batch.header().timestamp_type(), None);
    assert_eq!(batch.header().last_offset(), Offset(5));
    assert_eq!(records_of(&batch), [plain(5, -1, Some("k"), Some("v"))]);

    let mut builder = MessageSetBuilder::new(Magic::V0, Codec::None);
    builder.append(Offset(5), Timestamp(T), Some(b"k"), Some(b"v"));
    assert_eq!(builder.finish(), bytes);
}

#[test]
fn a_magic_1_message_is_read_and_written_as_kafka_does() {
    let bytes = unhex("0000000000000005 00000017 c1672ac5 01 00 0000018bcfe56800 ffffffff 00000001 76");
    let batch = only_batch(&bytes);
    assert_eq!(batch.header().timestamp_type(), Some(TimestampType::CreateTime));
    assert_eq!(records_of(&batch), [plain(5, T, None, Some("v"))]);

    let mut builder = MessageSetBuilder::new(Magic::V1, Codec::None);
    builder.append(Offset(5), Timestamp(T), None, Some(b"v"));
    assert_eq!(builder.finish(), bytes);
}

#[test]
fn a_magic_2_batch_with_a_null_header_is_read_and_written_as_kafka_does() {
    let bytes = unhex(
        "0000000000000000 00000045 ffffffff 02 e0440fbc 0000 00000001 0000018bcfe56800 0000018bcfe56803
         ffffffffffffffff ffff ffffffff 00000002 10 00 00 00 02 6b 02 76 00 14 00 06 02 01 02 77 02 02 68 01",
    );
    let batch = only_batch(&bytes);
    let header = batch.header();
    assert_eq!((header.length, header.record_count), (81, 2));
    assert_eq!((header.base_offset, header.last_offset()), (Offset(0), Offset(1)));
    assert_eq!(header.max_timestamp, Timestamp(T + 3));
    assert_eq!(
        records_of(&batch),
        [
            plain(0, T, Some("k"), Some("v")),
            (1, T + 3, None, Some("w".to_owned()), vec![("h".to_owned(), None)]),
        ]
    );

    let mut builder = BatchBuilder::new();
    builder.append(Timestamp(T), Some(b"k"), Some(b"v"), &[]);
    let headers = [RecordHeader { key: b"h", value: None }];
    let size_with = builder.size_with(Timestamp(T + 3), None, Some(b"w"), &headers);
    builder.append(Timestamp(T + 3), None, Some(b"w"), &headers);
    assert_eq!((size_with, builder.size()), (bytes.len(), bytes.len()));
    assert_eq!(builder.finish(), bytes);
}

#[test]
fn a_commit_marker_is_read_and_written_as_kafka_does() {
    let bytes = unhex(
        "0000000000000000 00000042 ffffffff 02 23abeaac 0030 00000000 0000018bcfe56800 0000018bcfe56800
         0000000000000fa0 0005 ffffffff 00000001 20 00 00 00 08 00000001 0c 0000 00000007 00",
    );
    let batch = only_batch(&bytes);
    let header = batch.header();
    assert!(header.is_control() && header.is_transactional());
    assert_eq!((header.producer_id, header.producer_epoch), (ProducerId(4000), ProducerEpoch(5)));
    assert_eq!((header.base_sequence, header.last_sequence()), (-1, -1));
    let marker = EndTransactionMarker { result: TransactionResult::Commit, coordinator_epoch: 7 };
    let records = batch.records(0).unwrap();
    let record = records.iter().unwrap().next().unwrap().unwrap();
    assert_eq!(EndTransactionMarker::from_record(record.key.unwrap(), record.value.unwrap()), Some(marker));

    assert_eq!(marker.to_batch(Offset(0), Timestamp(T), ProducerId(4000), ProducerEpoch(5)), bytes);
}

/// The records of every compressed sample: ("k", "v") at T and (null, "w") at T + 3.
const PAYLOAD: &str = "10000000026b027600 0e00060201027700";

#[test]
fn every_codec_stream_that_kafka_wrote_is_read() {
    for (codec, stream) in [
        (Codec::Gzip, "1f8b08000000000000ff1360606060ca662a63e063606362642a670000e6a74c2611000000"),
        (Codec::Snappy, "82534e41505059000000000100000001 00000013 114010000000026b0276000e00060201027700"),
        (Codec::Lz4, "04224d18604082 11000080 10000000026b0276000e00060201027700 00000000"),
        (Codec::Zstd, "28b52ffd0058 880000 10000000026b0276000e00060201027700 010000"),
    ] {
        let payload = compression::decompress(codec, Magic::V2, &unhex(stream), 17).unwrap();
        assert_eq!(payload, unhex(PAYLOAD), "{codec}");
    }
}

#[test]
fn streams_without_freedom_are_written_as_kafka_writes_them() {
    for (codec, stream) in [
        (Codec::Gzip, "1f8b08000000000000ff1360606060ca662a63e063606362642a670000e6a74c2611000000"),
        (Codec::Lz4, "04224d18604082 11000080 10000000026b0276000e00060201027700 00000000"),
    ] {
        let mut out = Vec::new();
        compression::compress(Compression::from(codec), Magic::V2, &unhex(PAYLOAD), &mut out);
        assert_eq!(out, unhex(stream), "{codec}");
    }
}

#[test]
fn the_lz4_header_checksum_of_magic_0_is_wrong_on_purpose() {
    for (magic, checksum) in [(Magic::V0, 0x1a), (Magic::V1, 0x82), (Magic::V2, 0x82)] {
        let mut out = Vec::new();
        compression::compress(Compression::from(Codec::Lz4), magic, b"x", &mut out);
        assert_eq!(out[6], checksum, "magic {magic}");
        assert!(compression::decompress(Codec::Lz4, magic, &out, 1).is_ok(), "magic {magic}");
        out[6] ^= 0xff;
        let tolerated = compression::decompress(Codec::Lz4, magic, &out, 1).is_ok();
        assert_eq!(tolerated, magic == Magic::V0, "only magic 0 takes any value there");
    }
}

#[test]
fn wrapper_offsets_are_relative_in_magic_1_and_absolute_in_magic_0() {
    for (magic, inner) in [(Magic::V0, [10, 11]), (Magic::V1, [0, 1])] {
        let mut builder = MessageSetBuilder::new(magic, Codec::Lz4);
        builder.append(Offset(10), Timestamp(T + 3), Some(b"k"), Some(b"v"));
        builder.append(Offset(11), Timestamp(T), None, Some(b"w"));
        let bytes = builder.finish();
        let batch = only_batch(&bytes);
        assert_eq!(batch.header().last_offset(), Offset(11));
        assert_eq!(batch.header().codec(), Ok(Codec::Lz4));
        let times = if magic == Magic::V0 { [-1, -1] } else { [T + 3, T] };
        assert_eq!(batch.header().max_timestamp, Timestamp(times[0]), "the larger inner timestamp");
        assert_eq!(
            records_of(&batch),
            [plain(10, times[0], Some("k"), Some("v")), plain(11, times[1], None, Some("w"))]
        );
        assert_eq!(batch.first_offset(1 << 20), Ok(Offset(10)));

        let records = batch.records(1 << 20).unwrap();
        let set = records.decompressed().unwrap();
        let written: Vec<i64> =
            Batches::new(set).map(|message| message.unwrap().header().base_offset.0).collect();
        assert_eq!(written, inner, "magic {magic}");
    }
}

#[test]
fn a_header_is_read_from_its_own_61_bytes() {
    let mut builder = BatchBuilder::new();
    builder.append(Timestamp(T), None, Some(&[0; 1000]), &[]);
    let batch: Bytes = builder.finish();
    let from_prefix = ottla_protocol::records::BatchHeader::parse(&batch[..HEADER_LENGTH]).unwrap().unwrap();
    assert_eq!(from_prefix, *only_batch(&batch).header());
    assert_eq!(from_prefix.to_bytes(), batch[..HEADER_LENGTH]);
    for short in 0..HEADER_LENGTH {
        assert_eq!(ottla_protocol::records::BatchHeader::parse(&batch[..short]), Ok(None), "{short} bytes");
    }
}
