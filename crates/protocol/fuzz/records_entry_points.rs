//! Where record bytes from outside come in; the `records_*` fuzz targets call these, and an ordinary test replays
//! their corpora. A crc would keep a fuzzer out, so every entry is given its right one first.

// Every target uses one of them.
#![allow(dead_code)]

use bytes::Bytes;
use ottla_model::{LeaderEpoch, Offset, Timestamp};
use ottla_protocol::compression::{Codec, Compression, Decompressor, compress, decompress};
use ottla_protocol::records::validate::{
    AppendOrigin, TargetCompression, TopicRules, check_produce_version, validate,
};
use ottla_protocol::records::{BatchHeader, Batches, Magic, TimestampType, batch, down_convert};

const LIMIT: usize = 1 << 20;
const NOW: Timestamp = Timestamp(1_700_000_001_000);

/// Reading, and down-conversion: what is converted can be read.
pub fn iterate(bytes: &[u8]) {
    let bytes = resealed(bytes);
    walk(&bytes);
    for target in [Magic::V0, Magic::V1] {
        if let Ok(converted) = down_convert(&bytes, target, Offset(2), LIMIT, LIMIT) {
            walk(&converted.bytes);
        }
    }
}

/// Validation behind one byte that picks the topic's rules: what is taken can be read, and is taken again as it is.
pub fn validated(bytes: &[u8]) {
    let [pick, bytes @ ..] = bytes else { return };
    let records = Bytes::from(resealed(bytes));
    let rules = TopicRules {
        magic: [Magic::V2, Magic::V2, Magic::V1, Magic::V0][usize::from(pick & 3)],
        compression: match pick >> 2 & 7 {
            codec @ 0..=4 => TargetCompression::Fixed(Codec::from_id(codec).expect("of five").into()),
            _ => TargetCompression::Producer,
        },
        timestamp_type: [TimestampType::CreateTime, TimestampType::LogAppendTime][usize::from(pick >> 5 & 1)],
        compacted: pick >> 6 & 1 == 1,
        ..TopicRules::default()
    };
    let _ = check_produce_version(&records, i16::from(pick >> 4));
    let Ok(Some(taken)) = validate(&records, AppendOrigin::Client, &rules, NOW) else { return };
    let count = taken.record_count();
    let stored = taken.assign(Offset::ZERO, LeaderEpoch(1));
    assert_eq!(stored.last_offset, Offset(i64::from(count) - 1));
    let bytes = stored.to_bytes();
    assert_eq!(walk(&bytes), count as usize, "every record that was taken is stored");
    let rules = TopicRules { timestamp_type: TimestampType::CreateTime, compacted: false, ..rules };
    let again = validate(&bytes, AppendOrigin::Client, &rules, NOW).expect("what is stored is valid");
    let again = again.expect("and not empty");
    assert!(!again.was_rebuilt() || rules.magic == Magic::V0, "what is stored stays as it is");
}

/// A codec stream behind one byte that picks codec and magic: in pieces and in one go it is the same, within its
/// limit, and comes back when compressed again.
pub fn decompressed(bytes: &[u8]) {
    let [pick, stream @ ..] = bytes else { return };
    let codec = Codec::ALL[usize::from(pick & 7) % Codec::ALL.len()];
    let magic = if pick & 8 == 0 || codec == Codec::Zstd { Magic::V2 } else { Magic::V0 };
    let whole = decompress(codec, magic, stream, LIMIT);
    let mut pieces = Vec::new();
    let in_pieces = Decompressor::new(codec, magic, stream, LIMIT).and_then(|mut stream| {
        while stream.next_piece(&mut pieces)? {}
        Ok(())
    });
    assert_eq!(whole.clone().map(|_| ()), in_pieces);
    let Ok(whole) = whole else { return };
    assert_eq!(whole, pieces);
    assert!(whole.len() <= LIMIT);
    let mut again = Vec::new();
    compress(Compression::from(codec), magic, &whole, &mut again);
    assert_eq!(decompress(codec, magic, &again, whole.len()), Ok(whole));
}

/// How many records could be read.
fn walk(bytes: &[u8]) -> usize {
    let mut count = 0;
    for entry in Batches::new(bytes) {
        let Ok(entry) = entry else { break };
        let _ = entry.first_offset(LIMIT);
        let Ok(records) = entry.records(LIMIT) else { continue };
        let Ok(records) = records.iter() else { continue };
        for record in records {
            let Ok(record) = record else { break };
            assert_eq!(record.headers.iter().count(), record.headers.len());
            count += 1;
        }
    }
    count
}

fn resealed(bytes: &[u8]) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    let mut at = 0;
    while let Ok(Some(header)) = BatchHeader::parse(&bytes[at..]) {
        let Some(entry) = bytes.get_mut(at..at + header.length) else { break };
        batch::seal(entry, &[]);
        at += header.length;
    }
    bytes
}
