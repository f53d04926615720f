//! Taking records away, at the end and at the start.

use ottla_files::{Disk, HostileDisk};
use ottla_log::{EpochStart, Log, Opening};
use ottla_model::{LeaderEpoch, Offset, ProducerId, Timestamp};
use ottla_protocol::records::TransactionResult;
use ottla_protocol::records::validate::AppendOrigin;

use crate::rig::*;

/// Batches of two records; segments of about ten batches.
fn log_of(batches: i64) -> (HostileDisk, Log<HostileDisk>) {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
    for i in 0..batches {
        append(&mut log, batch(&[2 * i, 2 * i + 1]));
    }
    (disk, log)
}

#[test]
fn a_cut_log_goes_on_from_the_cut() {
    for (why, target, end) in [
        ("at its end", 120, 120),
        ("beyond its end", 500, 120),
        ("in the active segment", 118, 118),
        ("inside a batch, which goes whole", 117, 116),
        ("in an old segment", 40, 40),
        ("inside a batch of an old segment", 41, 40),
        ("at the start", 0, 0),
    ] {
        let (disk, mut log) = log_of(60);
        assert!(log.segments().unwrap().len() > 2);
        assert_eq!(log.truncate_to(Offset(target), NOW).unwrap(), Offset(end), "{why}");
        assert_eq!(log.log_end_offset(), Offset(end), "{why}");
        assert_eq!(log.watch_end_offset().get(), Offset(end), "{why}");
        let expected = |end: i64| (0..end).map(|i| (i, i.to_string())).collect::<Vec<_>>();
        assert_eq!(read_all(&log, Offset(0), Offset(end)), expected(end), "{why}");
        for i in 0..30 {
            let next = end + 2 * i;
            assert_eq!(append(&mut log, batch(&[next, next + 1])).first_offset, Offset(next), "{why}");
        }
        assert_eq!(read_all(&log, Offset(0), Offset(end + 60)), expected(end + 60), "{why}");
        drop(log);
        disk.kill();
        let (log, recovered) = open(disk, &hostile_partition(), small(), unclean(0));
        assert!(recovered.findings.is_empty(), "{why}: {recovered:?}");
        assert_eq!(read_all(&log, Offset(0), Offset(end + 60)), expected(end + 60), "{why}");
    }
}

#[test]
fn a_cut_below_the_first_segment_starts_over() {
    let disk = hostile(0);
    let opening = Opening { log_start_offset: Offset(100), ..clean() };
    let mut log = open(disk, &hostile_partition(), small(), opening).0;
    append(&mut log, batch(&[1]));
    assert_eq!(log.truncate_to(Offset(50), NOW).unwrap(), Offset(50));
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(50), Offset(50)));
    assert_eq!(append(&mut log, batch(&[1])).first_offset, Offset(50));
}

#[test]
fn starting_over_forgets_everything() {
    let (_, mut log) = log_of(60);
    append(&mut log, produced(4000, 0, 0, 1));
    log.truncate_fully_and_start_at(Offset(1000), NOW).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(1000), Offset(1000)));
    assert_eq!(log.segments().unwrap().len(), 1);
    assert!(log.producers().get(ProducerId(4000)).is_none());
    assert!(log.leader_epochs().entries().is_empty());
    assert_eq!(append(&mut log, batch(&[1])).first_offset, Offset(1000));
}

#[test]
fn a_cut_forgets_epochs_producers_and_transactions_above_it() {
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), roomy(), clean()).0;
    let leader = |log: &mut Log<HostileDisk>, builder, epoch| {
        log.append_as_leader(valid(builder), LeaderEpoch(epoch), AppendOrigin::Client, NOW).unwrap();
    };
    leader(&mut log, produced(1, 0, 0, 2), 0);
    leader(&mut log, transactional(2, 0, 0, 1), 1);
    end_transaction(&mut log, 2, 0, TransactionResult::Abort);
    leader(&mut log, produced(1, 0, 2, 2), 3);
    leader(&mut log, produced(3, 0, 0, 1), 3);
    log.flush(NOW).unwrap();
    assert_eq!(log.recovery_point(), Offset(7));

    // Between the aborted transaction's record and its marker.
    log.truncate_to(Offset(3), NOW).unwrap();
    assert_eq!(log.recovery_point(), Offset(3));
    assert_eq!(
        log.leader_epochs().entries(),
        [
            EpochStart { epoch: LeaderEpoch(0), start: Offset(0) },
            EpochStart { epoch: LeaderEpoch(1), start: Offset(2) },
        ]
    );
    assert_eq!(log.producers().get(ProducerId(1)).unwrap().last_batch().unwrap().last_sequence, 1);
    assert!(log.producers().get(ProducerId(3)).is_none());
    assert_eq!(log.last_stable_offset(Offset(3)), Offset(2), "the transaction is open again");
    let plan = log.plan_read(Offset(0), Offset(3)).unwrap();
    let read = plan.run(1 << 20, true).unwrap();
    assert!(plan.aborted_transactions(&read).unwrap().is_empty());
}

#[test]
fn a_cut_stays_cut_after_a_crash() {
    for seed in 0..50 {
        let disk = hostile(seed);
        let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
        for i in 0..60 {
            append(&mut log, batch(&[i]));
        }
        log.flush(NOW).unwrap();
        log.truncate_to(Offset(31), NOW).unwrap();
        // Not flushed; some of it may survive, nothing of what was cut may come back.
        for i in 0..20 {
            append(&mut log, batch(&[100 + i]));
        }
        drop(log);
        disk.crash();
        let (log, _) = open(disk, &hostile_partition(), small(), unclean(31));
        let records = read_all(&log, Offset(0), log.log_end_offset());
        assert!(records.len() >= 31, "seed {seed}");
        for (offset, value) in records {
            let expected = if offset < 31 { offset } else { 100 + offset - 31 };
            assert_eq!(value, expected.to_string(), "seed {seed}");
        }
    }
}

#[test]
fn the_log_start_moves_forward_only() {
    let (_, mut log) = log_of(10);
    assert!(log.increment_log_start_offset(Offset(7)));
    assert!(!log.increment_log_start_offset(Offset(6)));
    assert!(!log.increment_log_start_offset(Offset(7)));
    assert!(log.increment_log_start_offset(Offset(99)), "not beyond the end");
    assert_eq!(log.log_start_offset(), Offset(20));
    assert_eq!(log.leader_epochs().entries(), [EpochStart { epoch: LeaderEpoch(0), start: Offset(20) }]);
    assert_eq!(log.read(Offset(20), Offset(20), 1, true).unwrap().bytes(), 0);
}

#[test]
fn retention_takes_whole_segments_and_leaves_one() {
    let directory = real_directory();
    let mut log = directory.open(small());
    for i in 0..100 {
        append(&mut log, batch(&[i]));
    }
    let segments = log.segments().unwrap();
    log.delete_oldest_segments(1, NOW).unwrap().remove(&Disk).unwrap();
    assert_eq!(log.log_start_offset(), segments[1].base_offset);
    assert_eq!(log.segments().unwrap(), segments[1..]);
    log.delete_oldest_segments(99, NOW).unwrap().remove(&Disk).unwrap();
    assert_eq!((log.log_start_offset(), log.log_end_offset()), (Offset(100), Offset(100)));
    assert_eq!(log.segments().unwrap().len(), 1);
    assert!(log.delete_oldest_segments(99, NOW).unwrap().is_empty(), "the empty one stays");
    assert_eq!(append(&mut log, batch(&[5])).first_offset, Offset(100));
    assert_eq!(log.segments().unwrap()[0].max_timestamp, Timestamp(5));
    log.close(NOW).unwrap();
    let opening = Opening { log_start_offset: Offset(100), ..clean() };
    let (log, recovered) = open(Disk, &directory.partition(), small(), opening);
    assert!(recovered.findings.is_empty());
    assert_eq!(read_all(&log, Offset(100), Offset(101)).len(), 1);
}
