//! A directory that Apache Kafka wrote: opened, rebuilt, and written again to the byte.

use std::collections::BTreeMap;

use ottla_files::{Files, HostileDisk};
use ottla_log::{Log, LogConfig, ProducerStates};
use ottla_model::{LeaderEpoch, Offset, Timestamp};
use ottla_protocol::records::Batches;

use crate::rig::*;

/// File names and their bytes; how they were made is told there.
fn golden() -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let mut name = String::new();
    for line in include_str!("golden/kafka-3.9.1-small.hex").lines() {
        match line.strip_prefix("  ") {
            Some(hex) => {
                let digits = hex.as_bytes().as_chunks::<2>().0;
                let bytes =
                    digits.iter().map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap());
                files.entry(name.clone()).or_insert_with(Vec::new).extend(bytes);
            }
            None if line.is_empty() || line.starts_with('#') => {}
            None => {
                name = line.to_owned();
                files.insert(name.clone(), Vec::new());
            }
        }
    }
    files
}

fn config() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 100,
        producer_id_expiration_ms: i64::MAX,
        ..roomy()
    }
}

fn planted(wanted: impl Fn(&str) -> bool) -> HostileDisk {
    let disk = hostile(0);
    disk.create_directory(&hostile_partition()).unwrap();
    for (name, content) in golden() {
        if wanted(&name) {
            disk.replace(&hostile_partition().join(name), &content).unwrap();
        }
    }
    disk
}

fn content(disk: &HostileDisk, name: &str) -> Vec<u8> {
    disk.read(&hostile_partition().join(name), 1 << 20).unwrap()
}

/// Whether two files are the same, but for the order of producers in a snapshot, which Kafka leaves to a hash
/// map.
fn same(name: &str, ours: &[u8], kafkas: &[u8]) -> bool {
    if !name.ends_with(".snapshot") {
        return ours == kafkas;
    }
    let read = |bytes| ProducerStates::decode_snapshot(bytes, NOW, i64::MAX).unwrap();
    ours.len() == kafkas.len() && read(ours) == read(kafkas)
}

fn check(log: &Log<HostileDisk>) {
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(0), Offset(16)));
    assert_eq!(log.segments().unwrap().iter().map(|s| s.base_offset.0).collect::<Vec<_>>(), [0, 8, 12]);
    assert_eq!(log.last_stable_offset(Offset(16)), Offset(16));
    assert_eq!(log.leader_epochs().latest().unwrap().epoch, LeaderEpoch(0));
    let data: Vec<_> = read_all(log, Offset(0), Offset(16))
        .into_iter()
        .filter(|(_, value)| value.starts_with('v'))
        .collect();
    let offsets: Vec<i64> = data.iter().map(|record| record.0).collect();
    assert_eq!(offsets, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 14], "markers lie at 12 and 15");
    assert!(data.iter().enumerate().all(|(i, (_, value))| *value == format!("v{i}")));
    for i in 0..12 {
        let timestamp = Timestamp(1_700_000_000_000 + i);
        let found = log.plan_timestamp_lookup().first_from(timestamp, 1 << 20).unwrap().unwrap();
        assert_eq!((found.offset, found.timestamp), (Offset(i), timestamp));
    }
    let plan = log.plan_read(Offset(8), Offset(16)).unwrap();
    let aborted = plan.aborted_transactions(&plan.run(1 << 20, true).unwrap()).unwrap();
    assert_eq!(aborted.iter().map(|t| (t.first_offset.0, t.last_offset.0)).collect::<Vec<_>>(), [(10, 12)]);
}

#[test]
fn a_directory_of_kafkas_opens_as_it_is() {
    let disk = planted(|_| true);
    let (log, recovered) = open(disk.clone(), &hostile_partition(), config(), clean());
    assert_eq!(recovered, Default::default());
    check(&log);
    assert_eq!(
        log.topic_id().map(|id| format!("version: 0\ntopic_id: {id}").into_bytes()),
        golden().remove("partition.metadata")
    );
    assert_eq!(log.producers().len(), 3);
    log.close(NOW).unwrap();
    for (name, kafkas) in golden() {
        assert_eq!(content(&disk, &name), kafkas, "{name} is left alone");
    }
}

#[test]
fn recovery_writes_kafkas_indexes_and_snapshots() {
    let disk = planted(|name| name.ends_with(".log") || name == "partition.metadata");
    let (log, recovered) = open(disk.clone(), &hostile_partition(), config(), unclean(0));
    assert!(recovered.findings.is_empty(), "{recovered:?}");
    check(&log);
    log.close(NOW).unwrap();
    for (name, kafkas) in golden() {
        let ours = content(&disk, &name);
        assert!(same(&name, &ours, &kafkas), "{name}: ours {ours:02x?}, Kafka's {kafkas:02x?}");
    }
}

#[test]
fn appending_writes_kafkas_files() {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), config(), clean()).0;
    let kafkas = open(planted(|_| true), &hostile_partition(), config(), clean()).0;
    log.set_topic_id(kafkas.topic_id().unwrap()).unwrap();
    for (_, segment) in golden().iter().filter(|(name, _)| name.ends_with(".log")) {
        for batch in Batches::new(segment) {
            log.append_as_follower(batch.unwrap().bytes(), NOW).unwrap();
        }
    }
    check(&log);
    log.close(NOW).unwrap();
    let kafkas = golden();
    assert_eq!(names(&disk, &hostile_partition()), kafkas.keys().cloned().collect::<Vec<_>>());
    for (name, kafkas) in kafkas {
        let ours = content(&disk, &name);
        assert!(same(&name, &ours, &kafkas), "{name}: ours {ours:02x?}, Kafka's {kafkas:02x?}");
    }
}
