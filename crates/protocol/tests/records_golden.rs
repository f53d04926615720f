//! Validation and down-conversion held against Kafka's own, on what `LogValidatorGolden.java` has written down.

use bytes::Bytes;
use ottla_model::{LeaderEpoch, Offset, Timestamp, TopicName, TopicPartition};
use ottla_protocol::compression::{Codec, Compression};
use ottla_protocol::records::validate::{
    AppendOrigin, TargetCompression, TopicRules, Validated, check_produce_version, validate,
};
use ottla_protocol::records::{
    Batch, BatchBuilder, Batches, Magic, MessageSetBuilder, ProducerState, RecordHeader, TimestampType,
    down_convert,
};

const NOW: Timestamp = Timestamp(1_700_000_001_000);
const FIRST_OFFSET: Offset = Offset(42);
const LEADER_EPOCH: LeaderEpoch = LeaderEpoch(7);

fn lines(kind: &str) -> impl Iterator<Item = Vec<&'static str>> {
    let prefix = format!("{kind}|");
    include_str!("golden/records/log-validator.txt")
        .lines()
        .filter(move |line| line.starts_with(&prefix))
        .map(|line| line.split('|').collect())
}

fn unhex(hex: &str) -> Bytes {
    (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect()
}

fn magic(text: &str) -> Magic {
    Magic::from_byte(text.parse().unwrap()).unwrap()
}

/// All that two encodings of the same entries have in common: headers but for length and crc, and the records.
fn meaning(entries: &[u8]) -> Vec<String> {
    let mut all = Batches::new(entries);
    let meaning = (&mut all)
        .map(|entry| {
            let entry = entry.unwrap();
            entry.check_crc().unwrap();
            let mut header = *entry.header();
            (header.length, header.crc) = (0, 0);
            let records = entry.records(1 << 20).unwrap();
            let records: Vec<_> = records
                .iter()
                .unwrap()
                .map(|record| {
                    let record = record.unwrap();
                    format!(
                        "{} {} {:?} {:?} {:?}",
                        record.offset,
                        record.timestamp,
                        record.key,
                        record.value,
                        record.headers.iter().collect::<Vec<_>>()
                    )
                })
                .collect();
            format!("{header:?} {records:#?}")
        })
        .collect();
    assert!(all.partial_tail().is_empty());
    meaning
}

fn is_compressed(entries: &[u8]) -> bool {
    Batches::new(entries).any(|entry| entry.unwrap().header().attributes.is_compressed())
}

fn assert_same_entries(ours: &[u8], theirs: &[u8], case: &str) {
    assert_eq!(meaning(ours), meaning(theirs), "{case}");
    if !is_compressed(theirs) {
        assert_eq!(ours, theirs, "{case}: there is one way to write this");
    }
}

fn rules(line: &[&str]) -> TopicRules {
    let [topic_magic, target, timestamp_type, before, after, compacted] = line[2..8] else { unreachable!() };
    TopicRules {
        magic: magic(topic_magic),
        timestamp_type: match timestamp_type {
            "CreateTime" => TimestampType::CreateTime,
            "LogAppendTime" => TimestampType::LogAppendTime,
            other => panic!("{other}"),
        },
        timestamp_before_max_ms: before.parse().unwrap(),
        timestamp_after_max_ms: after.parse().unwrap(),
        compression: match target {
            "producer" => TargetCompression::Producer,
            name => TargetCompression::Fixed(Compression::from(Codec::from_name(name).unwrap())),
        },
        compacted: compacted.parse().unwrap(),
        ..TopicRules::default()
    }
}

fn accepted(validated: Validated, expected: &[&str], case: &str) {
    let [max_timestamp, rebuilt, output] = *expected else { panic!("{case}: {expected:?}") };
    assert_eq!(validated.was_rebuilt(), rebuilt == "true", "{case}");
    let assigned = validated.assign(FIRST_OFFSET, LEADER_EPOCH);
    // Kafka reports the append time of rebuilt magic-0 messages, which have none to be found by.
    if assigned.header.magic > Magic::V0 {
        assert_eq!(assigned.max_timestamp, Timestamp(max_timestamp.parse().unwrap()), "{case}");
    }
    assert_same_entries(&assigned.to_bytes(), &unhex(output), case);
    let first = Batch::parse(&assigned.to_bytes()).unwrap().map(|entry| *entry.header());
    assert_eq!(first, Some(assigned.header), "{case}");
    assert_eq!(assigned.len(), assigned.to_bytes().len(), "{case}");
}

#[test]
fn produced_records_are_taken_refused_and_rewritten_as_kafka_does() {
    let partition = TopicPartition::new(TopicName::new("t").unwrap(), 0);
    let mut cases = 0;
    for line in lines("validate") {
        let case = line[..8].join(" ");
        let expected: Vec<&str> = line[9].splitn(4, ' ').collect();
        let input = unhex(line[8]);
        let result = validate(&input, AppendOrigin::Client, &rules(&line), NOW);
        cases += 1;
        if case.contains("record offsets 0, 2, 5") {
            // Kafka fails with -1 on the compressed ones, having skipped what it then needs, and stores the
            // uncompressed one with an offset that belongs to the batch after it.
            let renumbered = result.unwrap().unwrap().assign(FIRST_OFFSET, LEADER_EPOCH).to_bytes();
            let entry = Batch::parse(&renumbered).unwrap().unwrap();
            let records = entry.records(1000).unwrap();
            let seen: Vec<_> = records.iter().unwrap().map(|record| record.unwrap()).collect();
            let offsets: Vec<_> = seen.iter().map(|record| record.offset.0 - FIRST_OFFSET.0).collect();
            let values: Vec<_> = seen.iter().map(|record| record.value.unwrap()).collect();
            assert_eq!((offsets, values), (vec![0, 1, 2], vec![&b"v0"[..], b"v2", b"v5"]), "{case}");
            continue;
        }
        match (expected.as_slice(), result) {
            (["ok", rest @ ..], Ok(Some(validated))) => accepted(validated, rest, &case),
            (["err", code, rest @ ..], Err(error)) => {
                let code: i16 = code.parse().unwrap();
                // Kafka's "unknown error" is a slip; ours may say more, as long as it refuses.
                assert!(code == -1 || code == i16::from(error.code()), "{case}: {error} for {code}");
                if let [indexes, message] = rest {
                    let ours: Vec<String> =
                        error.record_faults().iter().map(|fault| fault.index.to_string()).collect();
                    assert_eq!(ours.join(","), *indexes, "{case}");
                    // Kafka dumps the record in between, and lets the ends of the range overflow.
                    let said = error.record_faults()[0].message(&partition);
                    let until =
                        if message.contains("Invalid timestamp type") { " message" } else { "within [" };
                    assert_eq!(said.split(until).next(), message.split(until).next(), "{case}");
                }
            }
            (expected, result) => panic!("{case}: Kafka {expected:?}, we {result:?}"),
        }
    }
    assert!(cases > 300, "{cases} cases");
}

#[test]
fn what_kafka_wrote_uncompressed_is_written_again_byte_for_byte() {
    let mut cases = 0;
    for line in lines("validate") {
        let input = unhex(line[8]);
        let well_formed =
            ["magic", "one record", "no timestamps", "an empty key", "idempotent", "timestamps"];
        let one_format = !line[1].contains(" and ");
        if is_compressed(&input) || !one_format || !well_formed.iter().any(|start| line[1].starts_with(start))
        {
            continue;
        }
        let header = *Batch::parse(&input).unwrap().unwrap().header();
        let mut batch = BatchBuilder::new();
        batch.set_producer(ProducerState {
            id: header.producer_id,
            epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
        });
        let mut messages =
            (header.magic < Magic::V2).then(|| MessageSetBuilder::new(header.magic, Codec::None));
        for entry in Batches::new(&input) {
            let records = entry.unwrap().records(0).unwrap();
            for record in records.iter().unwrap() {
                let record = record.unwrap();
                match &mut messages {
                    Some(set) => set.append(record.offset, record.timestamp, record.key, record.value),
                    None => {
                        let headers: Vec<RecordHeader<'_>> = record.headers.iter().collect();
                        batch.append(record.timestamp, record.key, record.value, &headers);
                    }
                }
            }
        }
        let written = messages.map_or_else(|| batch.finish(), MessageSetBuilder::finish);
        assert_eq!(written, input, "{}", line[1]);
        cases += 1;
    }
    assert!(cases > 10, "{cases} cases");
}

#[test]
fn old_readers_are_sent_what_kafka_sends_them() {
    let mut cases = 0;
    for line in lines("down") {
        let case = line[..4].join(" ");
        let fetch_offset = Offset(line[3].parse().unwrap());
        let input = unhex(line[4]);
        let result = down_convert(&input, magic(line[2]), fetch_offset, usize::MAX, 1 << 20);
        cases += 1;
        match (line[5].split_once(' ').unwrap(), result) {
            (("ok", output), Ok(converted)) => {
                assert_eq!(converted.stopped, None, "{case}");
                assert_same_entries(&converted.bytes, &unhex(output), &case);
            }
            (("err", code), Err(error)) => {
                assert_eq!(i16::from(error.code()), code.parse::<i16>().unwrap(), "{case}");
            }
            (expected, result) => panic!("{case}: Kafka {expected:?}, we {result:?}"),
        }
    }
    assert!(cases > 20, "{cases} cases");
}

#[test]
fn request_versions_carry_what_kafka_lets_them_carry() {
    let line = |case: &str| {
        let line = lines("validate").find(|line| line[1] == case).unwrap();
        unhex(line[8])
    };
    for (why, records, version, code) in [
        ("a batch in version 3", line("magic 2 none"), 3, 0),
        ("a message of magic 1 in version 3", line("magic 1 none"), 3, 87),
        ("a message of magic 1 in version 2", line("magic 1 none"), 2, 0),
        ("two batches in version 3", line("two batches none"), 3, 87),
        ("two batches in version 2", line("two batches none"), 2, 0),
        ("zstd in version 6", line("magic 2 zstd"), 6, 76),
        ("zstd in version 7", line("magic 2 zstd"), 7, 0),
        ("nothing in version 11", Bytes::new(), 11, 87),
        ("nothing in version 0", Bytes::new(), 0, 0),
        ("half a batch in version 9", line("magic 2 none").slice(..70), 9, 87),
        ("garbage in version 9", Bytes::from_static(&[0; 80]), 9, 2),
    ] {
        let answer =
            check_produce_version(&records, version).map_or_else(|error| i16::from(error.code()), |()| 0);
        assert_eq!(answer, code, "{why}");
    }
}
