//! Bytes that mean harm: whatever they claim, they end in an error, and in memory that they have paid for.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use bytes::Bytes;
use ottla_model::{Offset, Timestamp};
use ottla_protocol::compression::{Codec, CompressionError, compress, decompress};
use ottla_protocol::records::validate::{AppendOrigin, TargetCompression, TopicRules, validate};
use ottla_protocol::records::{
    Batch, BatchBuilder, BatchHeader, Batches, Magic, MessageSetBuilder, RecordError, RecordHeader, batch,
    down_convert,
};

const NOW: Timestamp = Timestamp(1_700_000_000_000);
const KIB: usize = 1024;

/// Counts what the current thread holds and the most it has held.
struct Counting;

thread_local! {
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(change: isize) {
    // While a thread is torn down there is nobody left to count for.
    let _ = HELD.try_with(|held| {
        held.set(held.get() + change);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        count(-(layout.size() as isize));
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size() as isize);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Old and new exist side by side for a moment.
        count(size as isize);
        count(-(layout.size() as isize));
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that `work` held at once beyond what was held before, in bytes.
fn peak<T>(work: impl FnOnce() -> T) -> (T, usize) {
    let before = HELD.get();
    PEAK.set(before);
    let result = work();
    (result, (PEAK.get() - before) as usize)
}

/// Contexts that codecs keep per thread, and their tables.
const CONTEXTS: usize = 512 * KIB;

fn sample(magic: Magic, codec: Codec) -> Vec<u8> {
    let text = b"the quick brown fox jumps over the lazy dog, ".repeat(20);
    if magic == Magic::V2 {
        let mut builder = BatchBuilder::new().with_compression(codec);
        for at in 0..20 {
            let headers =
                [RecordHeader { key: b"h", value: None }, RecordHeader { key: b"h", value: Some(b"x") }];
            builder.append(Timestamp(NOW.0 + at), Some(b"key"), Some(&text[..at as usize * 40]), &headers);
        }
        return builder.finish().into();
    }
    let mut builder = MessageSetBuilder::new(magic, codec);
    for at in 0..20 {
        builder.append(Offset(at), NOW, Some(b"key"), Some(&text[..at as usize * 40]));
    }
    builder.finish().into()
}

/// Everything that is ever done with an entry from outside.
fn exercise(bytes: &[u8], limit: usize) {
    let shared = Bytes::copy_from_slice(bytes);
    for entry in Batches::new(bytes) {
        let Ok(entry) = entry else { break };
        let _ = entry.check_crc();
        let _ = (entry.header().last_offset(), entry.header().next_offset(), entry.header().last_sequence());
        let _ = entry.first_offset(limit);
        if let Ok(records) = entry.records(limit)
            && let Ok(records) = records.iter()
        {
            for record in records {
                let Ok(record) = record else { break };
                assert_eq!(record.headers.iter().count(), record.headers.len());
            }
        }
    }
    for compression in [TargetCompression::Producer, TargetCompression::Fixed(Codec::Lz4.into())] {
        let rules = TopicRules { compression, compacted: true, ..TopicRules::default() };
        let _ = validate(&shared, AppendOrigin::Client, &rules, NOW);
    }
    for target in [Magic::V0, Magic::V1] {
        let _ = down_convert(bytes, target, Offset(3), usize::MAX, limit);
    }
}

/// Gives each whole entry its right crc again, so that what was changed is looked at.
fn reseal(bytes: &mut [u8]) {
    let mut at = 0;
    while let Ok(Some(header)) = BatchHeader::parse(&bytes[at..]) {
        let Some(entry) = bytes.get_mut(at..at + header.length) else { return };
        batch::seal(entry, &[]);
        at += header.length;
    }
}

#[test]
fn mutated_entries_are_errors_or_records_within_bounded_memory() {
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut next = move |below: usize| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        (random % below as u64) as usize
    };
    let limit = 256 * KIB;
    for magic in [Magic::V0, Magic::V1, Magic::V2] {
        for codec in Codec::ALL {
            if magic < Magic::V2 && codec == Codec::Zstd {
                continue;
            }
            let good = sample(magic, codec);
            for _ in 0..400 {
                let mut bad = good.clone();
                for _ in 0..1 + next(3) {
                    let at = next(bad.len());
                    bad[at] = match next(4) {
                        0 => 0xff,
                        1 => 0x7f,
                        2 => 0,
                        _ => bad[at] ^ 1 << next(8),
                    };
                }
                if next(4) == 0 {
                    bad.truncate(next(bad.len()));
                }
                reseal(&mut bad);
                let ((), peak) = peak(|| exercise(&bad, limit));
                // Twice the limit as a vector doubles, one more 4 MiB block of an lz4 frame that says so, and the
                // record faults.
                assert!(peak < 2 * limit + CONTEXTS + 4096 * KIB, "{peak} bytes for magic {magic} {codec}");
            }
        }
    }
}

#[test]
fn counts_are_not_believed() {
    let good = sample(Magic::V2, Codec::None);
    let mut header = *Batch::parse(&good).unwrap().unwrap().header();
    (header.length, header.record_count, header.last_offset_delta) = (61, i32::MAX, i32::MAX - 1);
    let mut empty = header.to_bytes();
    batch::seal(&mut empty, &[]);
    let ((), held) = peak(|| exercise(&empty, KIB));
    assert!(held < 16 * KIB, "{held} bytes for a batch that counts 2^31 records and has none");

    // Length 11, attributes, two deltas, null key, null value, and 2^31 - 1 headers.
    let record = b"\x16\x00\x00\x00\x01\x01\xfe\xff\xff\xff\x0f\x00";
    (header.length, header.record_count, header.last_offset_delta) = (61 + record.len(), 1, 0);
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend_from_slice(record);
    batch::seal(&mut bytes, &[]);
    let entry = Batch::parse(&bytes).unwrap().unwrap();
    let error = entry.records(0).unwrap().iter().unwrap().next().unwrap().unwrap_err();
    assert_eq!(error, RecordError::HeaderCount { count: i32::MAX, left: 1 });
    let ((), held) = peak(|| exercise(&bytes, KIB));
    assert!(held < 16 * KIB, "{held} bytes for a record that counts 2^31 headers");
}

#[test]
fn wrappers_in_wrappers_are_refused_at_once() {
    let mut set = sample(Magic::V0, Codec::None);
    for depth in 1..=300 {
        let mut value = Vec::new();
        compress(Codec::Snappy.into(), Magic::V0, &set, &mut value);
        let mut builder = MessageSetBuilder::new(Magic::V0, Codec::None);
        builder.append(Offset(0), NOW, None, Some(&value));
        set = builder.finish().into();
        set[17] = Codec::Snappy as u8;
        batch::seal(&mut set, &[]);
        if depth == 1 {
            assert_eq!(
                Batch::parse(&set).unwrap().unwrap().records(1 << 20).unwrap().iter().unwrap().count(),
                20
            );
        }
    }
    let wrapper = Batch::parse(&set).unwrap().unwrap();
    let records = wrapper.records(1 << 20).unwrap();
    assert_eq!(records.iter().unwrap().next(), Some(Err(RecordError::NestedWrapper)));
    exercise(&set, 1 << 20);
}

#[test]
fn bombs_are_refused_while_they_go_off() {
    let zeros = vec![0; 8192 * KIB];
    for codec in [Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd] {
        let mut bomb = Vec::new();
        compress(codec.into(), Magic::V2, &zeros, &mut bomb);
        let limit = 256 * KIB;
        let (result, held) = peak(|| decompress(codec, Magic::V2, &bomb, limit));
        assert_eq!(result, Err(CompressionError::TooLarge { codec, limit }));
        assert!(held < 2 * limit + CONTEXTS, "{held} bytes for {codec}");
    }
    // 512 run-length blocks of 128 KiB: 64 MiB in two KiB.
    let mut bomb = vec![0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58];
    for at in 0..512 {
        let block = (128 * KIB as u32) << 3 | 1 << 1 | u32::from(at == 511);
        bomb.extend_from_slice(&block.to_le_bytes()[..3]);
        bomb.push(0);
    }
    assert_eq!(bomb.len(), 2054);
    assert_eq!(decompress(Codec::Zstd, Magic::V2, &bomb, 64 << 20).unwrap().len(), 64 << 20);
    let (result, held) = peak(|| decompress(Codec::Zstd, Magic::V2, &bomb, KIB));
    assert_eq!(result, Err(CompressionError::TooLarge { codec: Codec::Zstd, limit: KIB }));
    assert!(held < CONTEXTS, "{held} bytes");
}

#[test]
fn claimed_lengths_are_held_against_what_a_codec_can_do() {
    // A raw snappy block that claims 4 GiB - 1, framed and not, and one just possible that is not there.
    let raw = b"\xff\xff\xff\xff\x0f\x00a".to_vec();
    let mut framed = b"\x82SNAPPY\0\0\0\0\x01\0\0\0\x01".to_vec();
    framed.extend_from_slice(&(raw.len() as i32).to_be_bytes());
    framed.extend_from_slice(&raw);
    let mut negative = framed[..16].to_vec();
    negative.extend_from_slice(&(-5i32).to_be_bytes());
    for (why, codec, stream) in [
        ("raw snappy of 4 GiB", Codec::Snappy, raw),
        ("framed snappy of 4 GiB", Codec::Snappy, framed),
        ("snappy block of negative length", Codec::Snappy, negative),
        (
            "lz4 block longer than its frame allows",
            Codec::Lz4,
            b"\x04\x22\x4d\x18\x60\x40\x82\xff\xff\xff\x7f".to_vec(),
        ),
        ("lz4 with dependent blocks", Codec::Lz4, b"\x04\x22\x4d\x18\x40\x40\xc0\0\0\0\0".to_vec()),
        ("zstd with a window of 128 MiB", Codec::Zstd, b"\x28\xb5\x2f\xfd\x00\x88\x01\x00".to_vec()),
        ("gzip that is only a header", Codec::Gzip, b"\x1f\x8b\x08\0\0\0\0\0\0\0".to_vec()),
    ] {
        let (result, held) = peak(|| decompress(codec, Magic::V2, &stream, 1 << 30));
        assert!(result.is_err(), "{why}");
        assert!(held < CONTEXTS, "{held} bytes for {why}");
    }
}

#[test]
fn a_long_record_is_validated_through_a_window() {
    let value = vec![b'x'; 32 << 20];
    for codec in [Codec::Zstd, Codec::Lz4] {
        let mut builder = BatchBuilder::new().with_compression(codec);
        builder.append(NOW, Some(b"key"), Some(&value), &[RecordHeader { key: b"h", value: Some(b"x") }]);
        builder.append(NOW, Some(b"key"), Some(b"short"), &[]);
        let request = builder.finish();
        let rules = TopicRules { compacted: true, ..TopicRules::default() };
        let (result, held) = peak(|| validate(&request, AppendOrigin::Client, &rules, NOW));
        assert_eq!(result.unwrap().unwrap().record_count(), 2);
        assert!(held < CONTEXTS + 512 * KIB, "{held} bytes for a record of 32 MiB in {codec}");
    }
}
