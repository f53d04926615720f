//! What survives the machine, what asks for that, and what a failing disk does.

use std::io::ErrorKind;

use ottla_files::{Fault, HostileDisk};
use ottla_log::{AppendError, Log, LogConfig, Opening};
use ottla_model::{LeaderEpoch, Offset, ProducerId, Timestamp};
use ottla_protocol::ErrorCode;
use ottla_protocol::records::validate::AppendOrigin;

use crate::rig::*;

#[test]
fn what_is_flushed_survives_a_crash() {
    for seed in 0..100 {
        let disk = hostile(seed);
        let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
        let flushed_at = (seed % 60) as i64;
        for i in 0..70 {
            append(&mut log, produced(4000, 0, i as i32, 1));
            if i == flushed_at {
                log.flush(NOW).unwrap();
            }
        }
        let recovery_point = log.recovery_point();
        assert_eq!(recovery_point, Offset(flushed_at + 1));
        drop(log);
        disk.crash();
        let (log, _) = open(disk, &hostile_partition(), small(), unclean(recovery_point.0));
        assert!(log.log_end_offset() >= recovery_point, "seed {seed}");
        let records = read_all(&log, Offset(0), log.log_end_offset());
        assert_eq!(records.len() as i64, log.log_end_offset().0, "seed {seed}: no hole");
        let last = log.producers().get(ProducerId(4000)).unwrap().last_batch().unwrap().last_sequence;
        assert_eq!(i64::from(last) + 1, log.log_end_offset().0, "seed {seed}");
    }
}

#[test]
fn what_rolling_writes_behind_the_recovery_point_survives_a_crash() {
    for (seed, rolled_during_the_flush) in (0..30).flat_map(|seed| [(seed, false), (seed, true)]) {
        let disk = hostile(seed);
        let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
        append(&mut log, batch(&[100]));
        // Closing makes the first entry of the time index durable; the second one is at stake.
        log.close(NOW).unwrap();
        let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
        append(&mut log, batch(&[250]));
        // A week later by its timestamp, so the segment of the first record is closed.
        let flushed = log.begin_flush().run().unwrap();
        if rolled_during_the_flush {
            assert!(append(&mut log, batch(&[NOW.0])).rolled);
            log.finish_flush(flushed, NOW);
        } else {
            log.finish_flush(flushed, NOW);
            assert!(append(&mut log, batch(&[NOW.0])).rolled);
        }
        let recovery_point = log.close(NOW).unwrap().recovery_point;
        disk.crash();
        let opening = Opening { recovery_point, ..clean() };
        let log = open(disk, &hostile_partition(), small(), opening).0;
        let found = log.plan_timestamp_lookup().first_from(Timestamp(250), 1 << 20).unwrap();
        assert_eq!(found.unwrap().offset, Offset(1), "seed {seed}: the end of the time index is there");
    }
}

#[test]
fn what_deleted_records_told_of_producers_survives_a_crash() {
    for seed in 0..50 {
        let disk = hostile(seed);
        let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
        append(&mut log, produced(4000, 0, 0, 1));
        for i in 0..60 {
            append(&mut log, batch(&[i]));
        }
        log.delete_oldest_segments(1, NOW).unwrap().remove(&disk).unwrap();
        let start = log.log_start_offset();
        drop(log);
        disk.crash();
        let opening = Opening { log_start_offset: start, ..unclean(0) };
        let log = open(disk, &hostile_partition(), small(), opening).0;
        if log.log_end_offset() > start {
            assert!(log.producers().get(ProducerId(4000)).is_some(), "seed {seed}");
        }
    }
}

#[test]
fn the_configuration_asks_for_flushes() {
    let disk = hostile(0);
    let config = LogConfig { flush_messages: 3, flush_ms: 1000, ..roomy() };
    let mut log = open(disk, &hostile_partition(), config, clean()).0;
    let at = |ms| Timestamp(NOW.0 + ms);
    assert!(!log.flush_due(at(5000)), "nothing to flush");
    assert!(!append(&mut log, batch(&[1, 2])).flush_due);
    assert!(append(&mut log, batch(&[3])).flush_due, "three records since the last flush");
    assert!(!log.flush_due(at(999)));
    assert!(log.flush_due(at(1000)));
    log.flush(at(1500)).unwrap();
    assert!(!append(&mut log, batch(&[4])).flush_due);
    assert!(!log.flush_due(at(2499)), "counted from the last flush");
    assert!(log.flush_due(at(2500)));
}

#[test]
fn a_flush_speaks_for_what_was_appended_before_it_began() {
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), small(), clean()).0;
    append(&mut log, batch(&[1]));
    let flush = log.begin_flush();
    append(&mut log, batch(&[2]));
    assert_eq!(flush.end_offset(), Offset(1));
    let flushed = flush.run().unwrap();
    log.finish_flush(flushed, NOW);
    assert_eq!(log.recovery_point(), Offset(1));
}

#[test]
fn a_flush_from_before_a_truncation_does_not_count() {
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), small(), clean()).0;
    append(&mut log, batch(&[1, 2, 3]));
    let flushed = log.begin_flush().run().unwrap();
    log.truncate_to(Offset(0), NOW).unwrap();
    append(&mut log, batch(&[4, 5, 6]));
    log.finish_flush(flushed, NOW);
    assert_eq!(log.recovery_point(), Offset(0), "other records have these offsets now");
}

#[test]
fn an_append_that_fails_leaves_no_trace() {
    for kind in [ErrorKind::StorageFull, ErrorKind::Other] {
        for seed in 0..20 {
            let disk = hostile(seed);
            let mut log = open(disk.clone(), &hostile_partition(), roomy(), clean()).0;
            append(&mut log, produced(4000, 0, 0, 1));
            disk.inject(Fault { after: 0, count: 1, kind });
            let records = valid(produced(4000, 0, 1, 5));
            let error = log.append_as_leader(records, LeaderEpoch(0), AppendOrigin::Client, NOW).unwrap_err();
            assert!(matches!(error, AppendError::Storage(_)));
            assert_eq!(error.code(), ErrorCode::KafkaStorageError);
            assert_eq!(log.log_end_offset(), Offset(1));
            assert_eq!(log.producers().get(ProducerId(4000)).unwrap().batches().len(), 1);
            assert_eq!(read_all(&log, Offset(0), Offset(1)).len(), 1);
            drop(log);
            let (mut log, recovered) = open(disk, &hostile_partition(), roomy(), unclean(0));
            assert!(recovered.findings.is_empty(), "what was written of it is cut: {recovered:?}");
            assert_eq!(append(&mut log, produced(4000, 0, 1, 5)).first_offset, Offset(1));
        }
    }
}

/// Everything that changes the disk fails at some step once; whatever is there afterwards can be opened.
#[test]
fn a_disk_that_fails_at_any_step_leaves_a_log_that_opens() {
    for step in 0..60 {
        let disk = hostile(step);
        let mut flushed = Offset(0);
        let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
        disk.inject(Fault { after: step as u32, count: u32::MAX, kind: ErrorKind::StorageFull });
        let all_went_well = work(&mut log, &mut flushed) && log.close(NOW).is_ok();
        disk.crash();
        let (log, _) = open(disk, &hostile_partition(), small(), unclean(flushed.0));
        assert!(log.log_end_offset() >= flushed, "step {step}");
        assert!(!all_went_well || log.log_end_offset() == Offset(60), "step {step}");
        let records = read_all(&log, Offset(0), log.log_end_offset());
        assert_eq!(records.len() as i64, log.log_end_offset().0, "step {step}");
    }
}

/// Appends and flushes until something fails.
fn work(log: &mut Log<HostileDisk>, flushed: &mut Offset) -> bool {
    for i in 0..60 {
        let records = valid(batch(&[i]));
        if log.append_as_leader(records, LeaderEpoch(0), AppendOrigin::Client, NOW).is_err() {
            return false;
        }
        if i % 10 == 9 {
            if log.flush(NOW).is_err() {
                return false;
            }
            *flushed = log.recovery_point();
        }
    }
    true
}

#[test]
fn a_producer_is_told_the_offsets_of_what_it_sends_again() {
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), roomy(), clean()).0;
    append(&mut log, batch(&[1]));
    for i in 0..7 {
        append(&mut log, produced(4000, 0, i * 2, 2));
    }
    let again = append(&mut log, produced(4000, 0, 6, 2));
    assert_eq!((again.first_offset, again.last_offset, again.duplicate), (Offset(7), Offset(8), true));
    assert_eq!(log.log_end_offset(), Offset(15), "nothing was written");
    for (why, sequence, code) in [
        ("a duplicate that is too old to be known", 0, ErrorCode::OutOfOrderSequenceNumber),
        ("a gap", 16, ErrorCode::OutOfOrderSequenceNumber),
    ] {
        let records = valid(produced(4000, 0, sequence, 2));
        let error = log.append_as_leader(records, LeaderEpoch(0), AppendOrigin::Client, NOW).unwrap_err();
        assert_eq!(error.code(), code, "{why}");
    }
}
