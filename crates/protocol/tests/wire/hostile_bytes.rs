//! Bytes that mean harm: no message panics on them, or lets a hundred of them cost more than a few kilobytes.

use bytes::{BufMut, Bytes, BytesMut};
use ottla_protocol::messages::ProduceRequest;
use ottla_protocol::messages::produce::{PartitionProduceData, TopicProduceData};
use ottla_protocol::{ApiKey, Message, frame};

use crate::all_messages::{Row, all_messages};
use crate::any_message::{Random, UnknownTags, any_message, schemas_by_message};
use crate::counting_allocator::allocated;

/// No input is longer.
const INPUT_BYTES_MAX: usize = 99;

/// What decoding such an input may hold at one time. The worst found is 6,192 bytes: an array of wide structs, as many as the
/// input could hold at their smallest.
const PEAK_BYTES_MAX: usize = 8 << 10;

/// Counts, lengths and sizes that lie: fixed and variable-length, positive and negative, and varints without end.
const BOMBS: [&[u8]; 12] = [
    &[0x7f, 0xff, 0xff, 0xff],
    &[0xff, 0xff, 0xff, 0xfe],
    &[0x80, 0x00, 0x00, 0x00],
    &[0x00, 0x00, 0x00, 0x60],
    &[0x00, 0x00, 0x00, 0x20],
    &[0x7f, 0xff],
    &[0xff, 0xfe],
    &[0xff, 0xff, 0xff, 0xff, 0x0f],
    &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
    &[0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80],
    &[0x60],
    &[0x20],
];

fn fill(mut input: Vec<u8>, byte: u8) -> Bytes {
    input.resize(INPUT_BYTES_MAX, byte);
    input.into()
}

/// Inputs without a thought for the message: nothing, and the same byte or bomb over and over.
fn blunt_inputs() -> Vec<Bytes> {
    let mut inputs = vec![Bytes::new()];
    inputs.extend((0..=u8::MAX).map(|byte| fill(Vec::new(), byte)));
    for bomb in BOMBS {
        let repeated: Vec<u8> = bomb.iter().copied().cycle().take(INPUT_BYTES_MAX).collect();
        inputs.push(repeated.into());
        inputs.extend([0, 1, 2, 0x7f, 0xff].map(|byte| fill(bomb.to_vec(), byte)));
    }
    inputs
}

/// A true message up to some byte, then a lie, then filling that small elements could be read from.
fn spoiled_inputs(message: &[u8], random: &mut Random) -> Vec<Bytes> {
    let kept = message.len().min(INPUT_BYTES_MAX - 8);
    let mut inputs = Vec::new();
    for _ in 0..24 {
        let at = random.below(kept + 1);
        let bomb = BOMBS[random.below(BOMBS.len())];
        let filling = [0, 0, 1, 1, 2, 0xff][random.below(6)];
        inputs.push(fill([&message[..at], bomb].concat(), filling));
    }
    for _ in 0..8 {
        let mut input = message[..kept].to_vec();
        for _ in 0..1 + random.below(3) {
            match input.len() {
                0 => input.push(random.next() as u8),
                length => input[random.below(length)] = random.next() as u8,
            }
        }
        inputs.push(input.into());
    }
    inputs
}

#[test]
fn a_hundred_hostile_bytes_cost_little_memory() {
    let schemas = schemas_by_message();
    let blunt = blunt_inputs();
    let mut worst = (0, String::new());
    let mut judge = |row: &Row, version: i16, input: &Bytes| {
        let (_, allocated) = allocated(|| (row.decode)(input.clone(), version));
        if allocated.peak > worst.0 {
            worst = (allocated.peak, format!("{} v{version}: {input:02x?}", row.name));
        }
    };
    for row in all_messages() {
        let (schema, index) = &schemas[row.name];
        for version in row.versions.clone() {
            for input in &blunt {
                judge(&row, version, input);
            }
            for round in 0..4 {
                let mut random = Random::of(row.name, version, round);
                let message = any_message(schema, *index, version, &mut random, UnknownTags::Between);
                for input in spoiled_inputs(&message, &mut random) {
                    judge(&row, version, &input);
                }
            }
        }
    }
    let (peak, input) = worst;
    println!("worst: {peak} bytes for {input}");
    assert!(peak <= PEAK_BYTES_MAX, "{peak} bytes allocated for {input}");
    assert!(peak > 1000, "the inputs reach the arrays at all, or this test shows nothing");
}

#[test]
fn a_message_cut_short_anywhere_is_an_error() {
    let schemas = schemas_by_message();
    for row in all_messages() {
        let (schema, index) = &schemas[row.name];
        for version in row.versions.clone() {
            let mut random = Random::of(row.name, version, 0);
            let message = any_message(schema, *index, version, &mut random, UnknownTags::Between);
            for length in 0..message.len() {
                let cut = Bytes::copy_from_slice(&message[..length]);
                assert!((row.decode)(cut, version).is_err(), "{} v{version} cut at byte {length}", row.name);
            }
        }
    }
}

#[test]
fn headers_of_hostile_bytes_are_errors_or_headers() {
    for key in -2..100 {
        for version in [-1, 0, 1, 2, 9, 100, i16::MAX] {
            for input in blunt_inputs() {
                let mut bytes = BytesMut::new();
                bytes.put_i16(key);
                bytes.put_i16(version);
                bytes.put_slice(&input);
                let ((), allocated) = allocated(|| {
                    if let Ok((api, header, _)) = frame::decode_request_header(bytes.split().freeze()) {
                        assert_eq!((api as i16, header.request_api_version), (key, version));
                    }
                });
                assert!(allocated.peak <= PEAK_BYTES_MAX, "{allocated:?} for {input:02x?}");
            }
        }
    }
}

#[test]
fn a_large_hostile_frame_costs_a_fixed_multiple_of_its_size() {
    const FRAME_BYTES: usize = 8 << 10;
    // The decoder's budget, and up to three times that while a growing array moves.
    const PEAK_BYTES_MAX: usize = 3 * ((64 << 10) + 16 * FRAME_BYTES);
    // Counts of elements that are all zeros, as the smallest ones are: 8,000, 4,000 and 2,000 of them.
    let counts: [&[u8]; 6] = [
        &[0, 0, 0x1f, 0x40],
        &[0, 0, 0x0f, 0xa0],
        &[0, 0, 0x07, 0xd0],
        &[0xc1, 0x3e],
        &[0xa1, 0x1f],
        &[0xd1, 0x0f],
    ];
    let mut worst = 0;
    for row in all_messages() {
        for version in row.versions.clone() {
            for count in counts {
                for at in [0, 1, 2, 4, 5, 6, 7, 8, 9, 13, 14, 17, 21] {
                    let mut frame = vec![0; FRAME_BYTES];
                    frame[at..at + count.len()].copy_from_slice(count);
                    let frame = Bytes::from(frame);
                    let (_, allocated) = allocated(|| (row.decode)(frame, version));
                    worst = worst.max(allocated.peak);
                    assert!(allocated.peak <= PEAK_BYTES_MAX, "{} v{version}: {allocated:?}", row.name);
                }
            }
        }
    }
    println!("worst: {worst} bytes for a frame of {FRAME_BYTES}");
    assert!(worst > 16 * FRAME_BYTES, "the frames reach the budget at all, or this test shows nothing");
}

#[test]
fn a_produce_request_of_ten_partitions_takes_two_allocations() {
    let mut out = BytesMut::new();
    let request = ProduceRequest {
        topic_data: vec![TopicProduceData {
            name: "orders".into(),
            partition_data: (0..10)
                .map(|index| PartitionProduceData {
                    index,
                    records: Some(Bytes::from(vec![7; 16 << 10])),
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    frame::encode_request(&mut out, 9, 1, Some("me"), &request).unwrap();
    let frame = out.split_off(frame::SIZE_BYTES).freeze();
    let (decoded, allocated) = allocated(|| {
        let (key, _, mut body) = frame::decode_request_header(frame.clone()).unwrap();
        assert_eq!(key, ApiKey::Produce);
        ProduceRequest::decode(&mut body, 9).unwrap()
    });
    assert_eq!(allocated.count, 2, "the topics, and the partitions of one");
    let records = decoded.topic_data[0].partition_data[9].records.as_ref().unwrap();
    assert!(frame.as_ptr_range().contains(&records.as_ptr()), "records are a slice of the frame");
    assert_eq!(decoded, request);
}
