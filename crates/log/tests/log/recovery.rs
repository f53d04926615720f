//! Opening logs that were not closed, or that somebody has damaged.

use std::io::IoSlice;
use std::path::{Path, PathBuf};

use ottla_files::{File, Files, HostileDisk, Open};
use ottla_log::{Finding, Log, LogConfig, Opening, Recovered};
use ottla_model::{LeaderEpoch, Offset, ProducerId, Timestamp, Uuid};
use ottla_protocol::records::validate::AppendOrigin;
use ottla_protocol::records::{Batches, TransactionResult, batch as batch_format};

use crate::rig::*;

/// One batch of one record per offset, three to a segment, killed without having been closed.
fn killed(batches: i64) -> HostileDisk {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), three_per_segment(), clean()).0;
    for i in 0..batches {
        append(&mut log, batch(&[i]));
    }
    disk.kill();
    disk
}

/// A batch of one record with a one-digit value has 69 bytes.
const BATCH: usize = 69;

fn three_per_segment() -> LogConfig {
    LogConfig { segment_bytes: 3 * BATCH as u32, ..small() }
}

fn path(name: &str) -> PathBuf {
    hostile_partition().join(name)
}

fn content(disk: &HostileDisk, name: &str) -> Vec<u8> {
    disk.read(&path(name), 1 << 24).unwrap()
}

fn overwrite(disk: &HostileDisk, name: &str, content: &[u8]) {
    let file = disk.open(&path(name), Open::Truncate).unwrap();
    file.write_all_at(&mut [IoSlice::new(content)], 0).unwrap();
}

fn reopen(disk: &HostileDisk, opening: Opening) -> (Log<HostileDisk>, Recovered) {
    open(disk.clone(), &hostile_partition(), three_per_segment(), opening)
}

fn all_of(log: &Log<HostileDisk>) -> Vec<i64> {
    read_all(log, log.log_start_offset(), log.log_end_offset()).into_iter().map(|record| record.0).collect()
}

#[test]
fn an_unclean_log_without_damage_is_whole() {
    for batches in 0..8 {
        let disk = killed(batches);
        let (mut log, recovered) = reopen(&disk, unclean(0));
        assert!(recovered.findings.is_empty(), "{recovered:?}");
        assert_eq!(all_of(&log), (0..batches).collect::<Vec<_>>());
        assert_eq!(append(&mut log, batch(&[9])).first_offset, Offset(batches));
    }
}

#[test]
fn only_segments_from_the_recovery_point_on_are_read() {
    let disk = killed(8);
    for (recovery_point, scanned) in [(0, 3), (2, 3), (3, 2), (5, 2), (6, 1), (8, 1), (99, 1)] {
        let (log, recovered) = reopen(&disk, unclean(recovery_point));
        assert_eq!(recovered.segments_scanned, scanned, "recovery point {recovery_point}");
        assert_eq!(log.recovery_point(), Offset(recovery_point.min(8)));
        disk.kill();
    }
}

/// Damage to a file: what its bytes become.
type Damage = fn(Vec<u8>) -> Vec<u8>;

/// Damages of a segment of three batches, and how many of these are left.
const DAMAGES: [(&str, Damage, usize); 11] = [
    ("one byte is missing", |b| b[..b.len() - 1].to_vec(), 2),
    ("twelve bytes are missing", |b| b[..b.len() - 12].to_vec(), 2),
    ("only the header of the last is there", |b| b[..b.len() - (BATCH - 61)].to_vec(), 2),
    ("4096 zeros follow", |b| [&b[..], &[0; 4096]].concat(), 3),
    ("a megabyte of zeros follows", |b| [&b[..], &vec![0; 1 << 20]].concat(), 3),
    ("noise follows", |b| [&b[..], &[0xa5; 1000]].concat(), 3),
    ("half a batch follows", |b| [&b[..], &b[..BATCH / 2]].concat(), 3),
    ("a batch from before follows", |b| [&b[..], &b[..BATCH]].concat(), 3),
    (
        "a bit of the last is flipped",
        |mut b| {
            let last = b.len() - 1;
            b[last] ^= 1;
            b
        },
        2,
    ),
    (
        "a bit of the middle one is flipped",
        |mut b| {
            b[BATCH + 65] ^= 1;
            b
        },
        1,
    ),
    (
        "the middle one is larger than it can be",
        |mut b| {
            b[BATCH + 8..BATCH + 12].copy_from_slice(&i32::MAX.to_be_bytes());
            b
        },
        1,
    ),
];

#[test]
fn damage_at_the_end_is_cut_and_told() {
    for (why, damage, left) in DAMAGES {
        let disk = killed(6);
        let name = "00000000000000000003.log";
        let damaged = damage(content(&disk, name));
        overwrite(&disk, name, &damaged);
        let (mut log, recovered) = reopen(&disk, unclean(0));
        let end = 3 + left as i64;
        assert_eq!(all_of(&log), (0..end).collect::<Vec<_>>(), "{why}");
        match &recovered.findings[..] {
            [Finding::TailCut { path: found, position, bytes, next_offset, .. }] => {
                assert_eq!(found, &path(name), "{why}");
                assert_eq!(*position, (left * BATCH) as u64, "{why}");
                assert_eq!(*bytes, (damaged.len() - left * BATCH) as u64, "{why}");
                assert_eq!(*next_offset, Offset(end), "{why}");
            }
            other => panic!("{why}: {other:?}"),
        }
        assert_eq!(append(&mut log, batch(&[9])).first_offset, Offset(end), "{why}");
        assert_eq!(all_of(&log).len() as i64, end + 1, "{why}");
    }
}

#[test]
fn segments_behind_damage_are_dropped_and_told() {
    for (why, damage, left) in DAMAGES {
        let disk = killed(8);
        let name = "00000000000000000000.log";
        overwrite(&disk, name, &damage(content(&disk, name)));
        let (mut log, recovered) = reopen(&disk, unclean(0));
        assert_eq!(all_of(&log), (0..left as i64).collect::<Vec<_>>(), "{why}");
        assert!(
            matches!(
                recovered.findings[..],
                [Finding::TailCut { .. }, Finding::SegmentsDropped { first: Offset(3), count: 2, .. }]
            ),
            "{why}: {recovered:?}"
        );
        assert_eq!(log.segments().unwrap().len(), 1, "{why}");
        log.flush(NOW).unwrap();
        disk.crash();
        let (log, _) = reopen(&disk, unclean(0));
        assert_eq!(all_of(&log), (0..left as i64).collect::<Vec<_>>(), "{why}: and they do not come back");
    }
}

#[test]
fn damage_below_the_recovery_point_is_found_by_readers() {
    let disk = killed(6);
    let name = "00000000000000000000.log";
    let mut bytes = content(&disk, name);
    bytes[BATCH + 8..BATCH + 12].fill(0);
    overwrite(&disk, name, &bytes);
    let (log, recovered) = reopen(&disk, unclean(6));
    assert!(recovered.findings.is_empty());
    assert_eq!(records_in(&bytes_of(&log.read(Offset(0), Offset(6), 1, true).unwrap())).len(), 1);
    let error = log.read(Offset(1), Offset(6), 1, true).unwrap_err();
    assert_eq!(error.code(), ottla_protocol::ErrorCode::CorruptMessage);
    assert!(error.to_string().contains(name), "{error}");
    assert_eq!(records_in(&bytes_of(&log.read(Offset(3), Offset(6), 1, true).unwrap()))[0].0, 3);
}

#[test]
fn a_damaged_end_is_noticed_in_spite_of_a_clean_close() {
    for (why, damage, left) in DAMAGES {
        if why.starts_with("a bit") || why.starts_with("the middle") {
            // Nobody looks for that after a clean close: readers will come to it.
            continue;
        }
        let disk = hostile(0);
        let mut log = open(disk.clone(), &hostile_partition(), three_per_segment(), clean()).0;
        for i in 0..6 {
            append(&mut log, batch(&[i]));
        }
        log.close(NOW).unwrap();
        let name = "00000000000000000003.log";
        overwrite(&disk, name, &damage(content(&disk, name)));
        let (mut log, recovered) = reopen(&disk, clean());
        assert!(matches!(recovered.findings[..], [Finding::TailCut { .. }]), "{why}: {recovered:?}");
        assert_eq!(all_of(&log), (0..3 + left as i64).collect::<Vec<_>>(), "{why}");
        append(&mut log, batch(&[9]));
        assert_eq!(all_of(&log).len(), 4 + left, "{why}");
    }
}

#[test]
fn missing_and_senseless_indexes_are_rebuilt() {
    let index = "00000000000000000003.index";
    type Spoil = fn(&HostileDisk, &str);
    let spoil: [(&str, Spoil); 4] = [
        ("missing", |disk, name| disk.remove_file(&path(name)).unwrap()),
        ("left at full size, all zeros", |disk, name| overwrite(disk, name, &[0; 240])),
        ("pointing behind the log", |disk, name| overwrite(disk, name, &[0, 0, 0, 1, 0, 0, 99, 0])),
        ("pointing into a batch", |disk, name| overwrite(disk, name, &[0, 0, 0, 1, 0, 0, 0, 77])),
    ];
    for (why, spoil) in spoil {
        let disk = hostile(0);
        let mut log = open(disk.clone(), &hostile_partition(), three_per_segment(), clean()).0;
        for i in 0..6 {
            append(&mut log, batch(&[i]));
        }
        log.close(NOW).unwrap();
        let before = content(&disk, index);
        assert_eq!(before.len(), 8, "one entry");
        spoil(&disk, index);
        let (mut log, _) = reopen(&disk, clean());
        assert_eq!(content(&disk, index), before, "{why}");
        assert_eq!(all_of(&log), [0, 1, 2, 3, 4, 5], "{why}");
        append(&mut log, batch(&[6]));
        assert_eq!(all_of(&log).len(), 7, "{why}");
    }
}

#[test]
fn a_wrong_index_of_an_old_segment_does_not_mislead_readers() {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), three_per_segment(), clean()).0;
    for i in 0..6 {
        append(&mut log, batch(&[i]));
    }
    log.close(NOW).unwrap();
    for entry in [[0, 0, 0, 1, 0, 0, 0, 77], [0, 0, 0, 1, 0, 0, 99, 0], [0xff; 8], [0; 8]] {
        overwrite(&disk, "00000000000000000000.index", &entry);
        let (log, recovered) = reopen(&disk, clean());
        assert!(recovered.findings.is_empty());
        assert_eq!(all_of(&log), [0, 1, 2, 3, 4, 5], "{entry:?}");
    }
}

#[test]
fn index_files_without_a_log_go() {
    let disk = killed(4);
    for name in
        ["00000000000000000099.index", "00000000000000000099.timeindex", "00000000000000000099.txnindex"]
    {
        overwrite(&disk, name, &[0; 34]);
    }
    overwrite(&disk, "somebody's notes", b"kept");
    reopen(&disk, unclean(0));
    let names = names(&disk, &hostile_partition());
    assert!(!names.iter().any(|name| name.starts_with("00000000000000000099")), "{names:?}");
    assert!(names.contains(&"somebody's notes".to_owned()));
}

#[test]
fn recovery_writes_the_indexes_that_appending_would() {
    let disk = hostile(0);
    let config = LogConfig { index_interval_bytes: 200, ..roomy() };
    let mut log = open(disk.clone(), &hostile_partition(), config.clone(), clean()).0;
    // One batch per append, and timestamps that also go back.
    for i in 0..50 {
        append(&mut log, batch(&[i * 7 % 31]));
    }
    log.close(NOW).unwrap();
    let kinds = ["00000000000000000000.index", "00000000000000000000.timeindex"];
    let before = kinds.map(|name| content(&disk, name));
    for name in kinds {
        overwrite(&disk, name, &[0xff; 48]);
    }
    open(disk.clone(), &hostile_partition(), config, unclean(0));
    let after = kinds.map(|name| content(&disk, name));
    // The rule while appending counts the bytes since the entry before; so does recovery, from the entry's
    // own position.
    assert_eq!(after, before);
}

#[test]
fn deleted_files_go_and_interrupted_swaps_are_finished() {
    // What a cleaner leaves that was killed after renaming its output to .swap: segments 0 and 3 are to
    // become one.
    let disk = killed(8);
    let both =
        [content(&disk, "00000000000000000000.log"), content(&disk, "00000000000000000003.log")].concat();
    overwrite(&disk, "00000000000000000000.log.swap", &both);
    overwrite(&disk, "00000000000000000000.index.swap", &[]);
    overwrite(&disk, "00000000000000000000.timeindex.swap", &[]);
    overwrite(&disk, "00000000000000000099.log.deleted", b"x");
    let (log, recovered) = reopen(&disk, unclean(0));
    assert!(matches!(recovered.findings[..], [Finding::SwapFinished { .. }]), "{recovered:?}");
    assert_eq!(log.segments().unwrap().iter().map(|s| s.base_offset.0).collect::<Vec<_>>(), [0, 6]);
    assert_eq!(all_of(&log), (0..8).collect::<Vec<_>>());
    let names = names(&disk, &hostile_partition());
    assert!(!names.iter().any(|name| name.ends_with(".swap") || name.ends_with(".deleted")), "{names:?}");
}

#[test]
fn unfinished_cleaning_is_undone() {
    // A split of segment 3 in two was under way: not all of its output had become .swap.
    let disk = killed(8);
    overwrite(&disk, "00000000000000000003.log.cleaned", b"half written");
    overwrite(&disk, "00000000000000000003.index.cleaned", b"");
    overwrite(&disk, "00000000000000000004.log.swap", b"not to be used");
    let (log, recovered) = reopen(&disk, unclean(0));
    assert!(recovered.findings.is_empty(), "{recovered:?}");
    assert_eq!(all_of(&log), (0..8).collect::<Vec<_>>());
    assert!(
        !names(&disk, &hostile_partition()).iter().any(|n| n.ends_with(".swap") || n.ends_with(".cleaned"))
    );
}

#[test]
fn a_log_that_ends_below_its_start_is_empty() {
    let disk = killed(4);
    let opening = Opening { log_start_offset: Offset(50), ..unclean(0) };
    let (mut log, recovered) = reopen(&disk, opening);
    assert_eq!(recovered.findings, [Finding::EndedBelowStart { log_start: Offset(50), log_end: Offset(4) }]);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(50), Offset(50)));
    assert_eq!(append(&mut log, batch(&[1])).first_offset, Offset(50));
}

#[test]
fn a_new_log_begins_at_the_start_it_is_given() {
    let disk = hostile(0);
    let opening = Opening { log_start_offset: Offset(50), ..clean() };
    let (log, _) = reopen(&disk, opening);
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(50), Offset(50)));
    assert!(names(&disk, &hostile_partition()).contains(&"00000000000000000050.log".to_owned()));
}

#[test]
fn producer_state_survives_a_kill_and_a_damaged_snapshot() {
    for damaged in [false, true] {
        let disk = hostile(0);
        let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
        for i in 0..60 {
            append(&mut log, produced(4000, 2, i, 1));
        }
        append(&mut log, transactional(4001, 0, 0, 2));
        let before = log.producers().clone();
        drop(log);
        disk.kill();
        let snapshots: Vec<_> =
            names(&disk, &hostile_partition()).into_iter().filter(|n| n.ends_with(".snapshot")).collect();
        assert_eq!(snapshots.len(), 2);
        if damaged {
            for name in &snapshots {
                overwrite(&disk, name, b"\0\x01 not a snapshot");
            }
        }
        let (mut log, recovered) = open(disk.clone(), &hostile_partition(), small(), unclean(61));
        assert_eq!(!recovered.findings.is_empty(), damaged, "{recovered:?}");
        let state = log.producers().get(ProducerId(4000)).unwrap();
        assert_eq!(state.last_batch(), before.get(ProducerId(4000)).unwrap().last_batch());
        assert_eq!(log.last_stable_offset(Offset(62)), Offset(60), "the transaction is open still");
        assert!(append(&mut log, produced(4000, 2, 59, 1)).duplicate);
        assert_eq!(append(&mut log, produced(4000, 2, 60, 1)).first_offset, Offset(62));
    }
}

#[test]
fn the_transaction_index_is_rebuilt_from_the_markers() {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), roomy(), clean()).0;
    append(&mut log, transactional(1, 0, 0, 2));
    append(&mut log, transactional(2, 0, 0, 1));
    end_transaction(&mut log, 1, 0, TransactionResult::Abort);
    end_transaction(&mut log, 2, 0, TransactionResult::Commit);
    let name = "00000000000000000000.txnindex";
    let before = content(&disk, name);
    assert_eq!(before.len(), 34);
    disk.kill();
    for damage in [&b""[..], &[0xff; 34], &before[..20]] {
        overwrite(&disk, name, damage);
        let (log, _) = open(disk.clone(), &hostile_partition(), roomy(), unclean(0));
        assert_eq!(content(&disk, name), before);
        assert_eq!(log.last_stable_offset(Offset(5)), Offset(5));
        disk.kill();
    }
}

#[test]
fn damaged_leader_epochs_are_read_from_the_batches() {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), three_per_segment(), clean()).0;
    for (i, epoch) in [0, 0, 1, 1, 1, 4, 4].into_iter().enumerate() {
        let records = valid(batch(&[i as i64]));
        log.append_as_leader(records, LeaderEpoch(epoch), AppendOrigin::Client, NOW).unwrap();
    }
    let epochs = log.leader_epochs().entries().to_vec();
    log.close(NOW).unwrap();
    let name = "leader-epoch-checkpoint";
    assert_eq!(content(&disk, name), b"0\n3\n0 0\n1 2\n4 5\n");
    for damage in [&b"0\n3\n0 0\n1"[..], b"\0\0\0\0", b"7\n0\n"] {
        overwrite(&disk, name, damage);
        let (log, recovered) = reopen(&disk, clean());
        assert!(matches!(recovered.findings[..], [Finding::LeaderEpochsDamaged { .. }]), "{recovered:?}");
        assert_eq!(log.leader_epochs().entries(), epochs);
    }
}

#[test]
fn epochs_of_records_that_a_crash_has_lost_are_forgotten() {
    let disk = hostile(0);
    let mut log = reopen(&disk, clean()).0;
    let in_epoch = |log: &mut Log<HostileDisk>, epoch| {
        let records = valid(batch(&[1]));
        log.append_as_leader(records, LeaderEpoch(epoch), AppendOrigin::Client, NOW).unwrap();
    };
    in_epoch(&mut log, 0);
    log.flush(NOW).unwrap();
    // The checkpoint, written by a cut, knows an epoch whose record goes down with the machine.
    in_epoch(&mut log, 0);
    in_epoch(&mut log, 5);
    in_epoch(&mut log, 5);
    log.truncate_to(Offset(3), NOW).unwrap();
    drop(log);
    let lost = content(&disk, "00000000000000000000.log");
    overwrite(&disk, "00000000000000000000.log", &lost[..BATCH]);
    let mut log = reopen(&disk, unclean(1)).0;
    assert_eq!(log.log_end_offset(), Offset(1));
    in_epoch(&mut log, 5);
    drop(log);
    disk.kill();
    let (log, _) = reopen(&disk, unclean(1));
    let epochs: Vec<_> = log.leader_epochs().entries().iter().map(|e| (e.epoch.0, e.start.0)).collect();
    assert_eq!(epochs, [(0, 0), (5, 1)], "not from 2, where the lost record was");
}

#[test]
fn a_topic_id_is_kept_and_a_damaged_one_is_told() {
    let disk = hostile(0);
    let [ours, theirs] = [1u128, 2].map(|id| Uuid(id.to_be_bytes()));
    let mut log = reopen(&disk, clean()).0;
    log.set_topic_id(ours).unwrap();
    log.set_topic_id(ours).unwrap();
    let error = log.set_topic_id(theirs).unwrap_err();
    assert_eq!(error.code(), ottla_protocol::ErrorCode::InconsistentTopicId);
    log.flush(NOW).unwrap();
    disk.crash();
    let (log, _) = reopen(&disk, unclean(0));
    assert_eq!(log.topic_id(), Some(ours));
    overwrite(&disk, "partition.metadata", b"version: 0\n");
    let (mut log, recovered) = reopen(&disk, unclean(0));
    assert!(matches!(recovered.findings[..], [Finding::TopicIdDamaged { .. }]));
    log.set_topic_id(theirs).unwrap();
}

#[test]
fn a_partition_may_be_damaged_in_any_byte_without_a_panic() {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), three_per_segment(), clean()).0;
    append(&mut log, transactional(1, 0, 0, 1));
    end_transaction(&mut log, 1, 0, TransactionResult::Abort);
    for i in 0..3 {
        append(&mut log, produced(2, 0, i, 1));
    }
    log.close(NOW).unwrap();
    let files: Vec<(String, Vec<u8>)> = names(&disk, &hostile_partition())
        .into_iter()
        .map(|name| (name.clone(), content(&disk, &name)))
        .collect();
    for (damaged, good) in &files {
        for (at, opening) in (0..good.len()).flat_map(|at| [(at, clean()), (at, unclean(0))]) {
            let disk = hostile(0);
            disk.create_directory(&hostile_partition()).unwrap();
            files.iter().for_each(|(name, content)| overwrite(&disk, name, content));
            let mut bad = good.clone();
            bad[at] ^= 0x81;
            overwrite(&disk, damaged, &bad);
            // Opening, reading and looking up may fail, but neither panic nor loop.
            if let Ok((mut log, _)) =
                Log::open(disk.clone(), &hostile_partition(), three_per_segment(), opening, NOW)
            {
                for offset in 0..5 {
                    let _ = log.read(Offset(offset), Offset(5), 100, true);
                }
                let _ = log.plan_timestamp_lookup().first_from(Timestamp(0), 1 << 20);
                let records = valid(batch(&[9]));
                let _ = log.append_as_leader(records, LeaderEpoch(9), AppendOrigin::Client, NOW);
            }
        }
    }
}

#[test]
fn old_segments_that_begin_with_the_first_offset_of_an_append_are_read() {
    // Kafka 0.8 to 1.1 indexed the first offset of an append, not the last.
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), roomy(), clean()).0;
    for i in 0..4 {
        append(&mut log, batch(&[i * 10, i * 10 + 1, i * 10 + 2]));
    }
    let bytes = bytes_of(&log.read(Offset(0), Offset(12), 1 << 20, true).unwrap());
    let length = Batches::new(&bytes).next().unwrap().unwrap().header().length as u8;
    log.close(NOW).unwrap();
    overwrite(&disk, "00000000000000000000.index", &[0, 0, 0, 3, 0, 0, 0, length]);
    let (mut log, recovered) = open(disk.clone(), &hostile_partition(), roomy(), clean());
    assert!(recovered.findings.is_empty());
    for offset in 0..12 {
        let read = log.read(Offset(offset), Offset(12), 1, true).unwrap();
        assert_eq!(records_in(&bytes_of(&read))[0].0, offset / 3 * 3);
    }
    log.truncate_to(Offset(4), NOW).unwrap();
    assert_eq!(log.log_end_offset(), Offset(3));
    append(&mut log, batch(&[7]));
    assert_eq!(read_all(&log, Offset(0), Offset(4)).len(), 4);
}

#[test]
fn a_segment_whose_offsets_span_more_than_31_bits_is_read() {
    // Compaction of Kafka before 2.0 could make one (KAFKA-5413); its far offsets cannot be indexed.
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), roomy(), clean()).0;
    append(&mut log, batch(&[1]));
    append(&mut log, batch(&[2]));
    log.close(NOW).unwrap();
    let name = "00000000000000000000.log";
    let mut bytes = content(&disk, name);
    batch_format::set_base_offset(&mut bytes[BATCH..], Offset(3 << 31));
    overwrite(&disk, name, &bytes);
    let config = LogConfig { index_interval_bytes: 0, ..roomy() };
    let (mut log, recovered) = open(disk, Path::new(&hostile_partition()), config, unclean(0));
    assert!(recovered.findings.is_empty(), "{recovered:?}");
    assert_eq!(all_of(&log), [0, 3 << 31]);
    assert!(append(&mut log, batch(&[3])).rolled);
    assert_eq!(all_of(&log), [0, 3 << 31, (3 << 31) + 1]);
}
