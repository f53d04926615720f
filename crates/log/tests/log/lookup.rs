//! Finding offsets by time, and the transactions of what was read.

use ottla_files::{Disk, Files, HostileDisk, Open};
use ottla_log::{FoundTimestamp, Log, LogConfig};
use ottla_model::{LeaderEpoch, Offset, Timestamp};
use ottla_protocol::compression::Codec;
use ottla_protocol::records::TransactionResult::{Abort, Commit};
use ottla_protocol::records::{Magic, MessageSetBuilder};

use crate::rig::*;

const LIMIT: usize = 1 << 20;

fn first_from(log: &Log<impl Files>, timestamp: i64) -> Option<(i64, i64)> {
    let found = log.plan_timestamp_lookup().first_from(Timestamp(timestamp), LIMIT).unwrap();
    found.map(|found| (found.offset.0, found.timestamp.0))
}

fn max_of(log: &Log<impl Files>) -> Option<(i64, i64)> {
    let found = log.plan_timestamp_lookup().max_timestamp(LIMIT).unwrap();
    found.map(|found| (found.offset.0, found.timestamp.0))
}

#[test]
fn a_lookup_finds_the_record_not_the_batch() {
    for (why, batches) in [
        ("one batch", vec![batch(&[2, 4, 6, 8])]),
        ("a batch each", vec![batch(&[2]), batch(&[4]), batch(&[6]), batch(&[8])]),
        ("compressed", vec![compressed(Codec::Gzip, &[2, 4]), compressed(Codec::Zstd, &[6, 8])]),
    ] {
        let disk = hostile(0);
        let mut log = open(disk, &hostile_partition(), roomy(), clean()).0;
        assert_eq!(first_from(&log, 0), None, "an empty log");
        assert_eq!(max_of(&log), None, "an empty log");
        batches.into_iter().for_each(|builder| {
            append(&mut log, builder);
        });
        for (asked, found) in
            [(0, Some((0, 2))), (2, Some((0, 2))), (3, Some((1, 4))), (8, Some((3, 8))), (9, None)]
        {
            assert_eq!(first_from(&log, asked), found, "{why}: {asked}");
        }
        assert_eq!(max_of(&log), Some((3, 8)), "{why}");
    }
}

#[test]
fn a_lookup_takes_the_first_of_equal_and_of_unordered_timestamps() {
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), roomy(), clean()).0;
    append(&mut log, batch(&[9, 7, 7]));
    append(&mut log, batch(&[8, 9, 9]));
    assert_eq!(first_from(&log, 7), Some((0, 9)));
    assert_eq!(first_from(&log, 9), Some((0, 9)));
    assert_eq!(max_of(&log), Some((0, 9)));
    log.increment_log_start_offset(Offset(1));
    assert_eq!(first_from(&log, 7), Some((1, 7)), "not below the log's start");
    assert_eq!(first_from(&log, 8), Some((3, 8)));
    assert_eq!(max_of(&log), Some((4, 9)));
}

/// A model of what a lookup finds.
fn expected(timestamps: &[i64], start: usize, asked: i64) -> Option<(i64, i64)> {
    let from_start = timestamps.iter().enumerate().skip(start);
    from_start.into_iter().find(|(_, t)| **t >= asked).map(|(offset, t)| (offset as i64, *t))
}

#[test]
fn lookups_across_segments_agree_with_a_scan_before_and_after_a_restart() {
    let disk = hostile(0);
    let config = LogConfig { segment_bytes: 800, ..small() };
    let mut log = open(disk.clone(), &hostile_partition(), config.clone(), clean()).0;
    // Rises with dips, so that later segments also hold earlier timestamps.
    let timestamps: Vec<i64> = (0..150).map(|i| i * 10 - (i * 7919 % 13) * 25).map(|t| t.max(0)).collect();
    for pair in timestamps.chunks(3) {
        append(&mut log, compressed(Codec::Lz4, pair));
    }
    assert!(log.segments().unwrap().len() > 3);
    let check = |log: &Log<HostileDisk>, start: usize| {
        for asked in (0..1600).step_by(7) {
            assert_eq!(first_from(log, asked), expected(&timestamps, start, asked), "{start}: {asked}");
        }
        let max = timestamps[start..].iter().max().copied();
        assert_eq!(max_of(log), max.and_then(|max| expected(&timestamps, start, max)));
    };
    check(&log, 0);
    log.increment_log_start_offset(Offset(70));
    check(&log, 70);
    log.close(NOW).unwrap();
    check(&open(disk.clone(), &hostile_partition(), config.clone(), clean()).0, 0);
    check(&open(disk, &hostile_partition(), config, unclean(0)).0, 0);
}

#[test]
fn a_found_record_names_its_leader_epoch() {
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    append(&mut log, batch(&[5]));
    assert_eq!(
        log.plan_timestamp_lookup().first_from(Timestamp(5), LIMIT).unwrap(),
        Some(FoundTimestamp {
            timestamp: Timestamp(5),
            offset: Offset(0),
            leader_epoch: Some(LeaderEpoch(0))
        })
    );
}

#[test]
fn old_messages_are_found_by_their_timestamps() {
    for (why, magic, codec) in
        [("magic 1", Magic::V1, Codec::None), ("a magic 1 wrapper", Magic::V1, Codec::Gzip)]
    {
        let mut set = MessageSetBuilder::new(magic, codec);
        for i in 0..4 {
            set.append(Offset(i), Timestamp(10 * i), None, Some(b"v"));
        }
        let disk = hostile(0);
        let mut log = open(disk, &hostile_partition(), small(), clean()).0;
        append(&mut log, batch(&[0]));
        log.truncate_fully_and_start_at(Offset(0), NOW).unwrap();
        log.append_as_follower(&set.finish(), NOW).unwrap();
        assert_eq!(log.log_end_offset(), Offset(4), "{why}");
        assert_eq!(first_from(&log, 11), Some((2, 20)), "{why}");
        assert!(log.leader_epochs().entries().is_empty(), "{why}: it has no epochs");
        let read = log.read(Offset(3), Offset(4), LIMIT as u64, true).unwrap();
        assert_eq!(records_in(&bytes_of(&read)).last().unwrap().0, 3, "{why}");
    }
}

#[test]
fn messages_without_timestamps_are_not_found() {
    let mut set = MessageSetBuilder::new(Magic::V0, Codec::None);
    set.append(Offset(0), Timestamp::NONE, None, Some(b"v"));
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), small(), clean()).0;
    log.append_as_follower(&set.finish(), NOW).unwrap();
    assert_eq!(first_from(&log, 0), None);
    assert_eq!(max_of(&log), None);
    assert_eq!(log.segments().unwrap()[0].max_timestamp, Timestamp::NONE);
}

#[test]
fn segment_times_begin_at_the_log_start() {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
    for i in 0..60 {
        disk.set_now(i);
        append(&mut log, batch(&[i]));
    }
    log.increment_log_start_offset(Offset(3));
    let times = log.segment_times().unwrap();
    assert_eq!(times.len(), log.segments().unwrap().len());
    assert_eq!(times[0].0, Offset(3));
    assert_eq!(times.last().unwrap().1, Timestamp(59));
}

#[test]
fn a_missing_time_index_costs_a_scan_not_an_answer() {
    let directory = real_directory();
    let mut log = directory.open(small());
    for i in 0..60 {
        append(&mut log, batch(&[i * 10]));
    }
    log.close(NOW).unwrap();
    for name in names(&Disk, &directory.partition()).iter().filter(|name| name.ends_with(".timeindex")) {
        std::fs::remove_file(directory.partition().join(name)).unwrap();
    }
    let mut log = directory.open(small());
    for asked in (0..600).step_by(50) {
        assert_eq!(first_from(&log, asked), Some((asked / 10, asked)));
    }
    append(&mut log, batch(&[601]));
    assert_eq!(first_from(&log, 600), Some((60, 601)));
    log.flush(NOW).unwrap();
}

/// Reads like a `read_committed` consumer. Returns producer and first offset of each aborted transaction.
fn aborted(log: &Log<impl Files>, offset: i64, upper: i64, bytes: u64) -> Vec<(i64, i64)> {
    let plan = log.plan_read(Offset(offset), Offset(upper)).unwrap();
    let read = plan.run(bytes, true).unwrap();
    let aborted = plan.aborted_transactions(&read).unwrap();
    aborted.into_iter().map(|t| (t.producer_id.0, t.first_offset.0)).collect()
}

#[test]
fn reads_name_the_aborted_transactions_they_overlap() {
    let disk = hostile(0);
    let config = LogConfig { index_interval_bytes: 0, ..roomy() };
    let mut log = open(disk.clone(), &hostile_partition(), config.clone(), clean()).0;
    append(&mut log, transactional(1, 0, 0, 2)); // 0..2
    append(&mut log, transactional(2, 0, 0, 1)); // 2
    end_transaction(&mut log, 1, 0, Abort); // 3
    append(&mut log, batch(&[1])); // 4
    end_transaction(&mut log, 2, 0, Commit); // 5
    append(&mut log, transactional(3, 0, 0, 1)); // 6
    end_transaction(&mut log, 3, 0, Abort); // 7
    append(&mut log, batch(&[1])); // 8
    let check = |log: &Log<HostileDisk>| {
        assert_eq!(aborted(log, 0, 9, 1 << 20), [(1, 0), (3, 6)], "everything");
        assert_eq!(aborted(log, 0, 9, 1), [(1, 0)], "the first batch");
        assert_eq!(aborted(log, 3, 9, 1), [(1, 0)], "a marker");
        assert_eq!(aborted(log, 4, 9, 1), [], "between the two");
        assert_eq!(aborted(log, 8, 9, 1 << 20), [], "after both");
        assert_eq!(aborted(log, 9, 9, 1 << 20), [], "nothing at all");
    };
    check(&log);
    log.close(NOW).unwrap();
    let log = open(disk, &hostile_partition(), config, clean()).0;
    check(&log);
}

#[test]
fn aborted_transactions_are_found_across_segments() {
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), small(), clean()).0;
    append(&mut log, transactional(1, 0, 0, 1));
    for i in 0..60 {
        append(&mut log, batch(&[i]));
    }
    end_transaction(&mut log, 1, 0, Abort);
    assert!(log.segments().unwrap().len() > 2);
    assert_eq!(aborted(&log, 0, 62, 10), [(1, 0)], "the marker lies segments later");
    assert_eq!(aborted(&log, 30, 62, 10), [(1, 0)], "and covers what lies between");
}

#[test]
fn records_are_stable_up_to_the_first_open_transaction() {
    let disk = hostile(0);
    let mut log = open(disk, &hostile_partition(), roomy(), clean()).0;
    append(&mut log, batch(&[1])); // 0
    append(&mut log, transactional(1, 0, 0, 1)); // 1
    append(&mut log, batch(&[1])); // 2
    for (high_watermark, stable) in [(0, 0), (1, 1), (2, 1), (3, 1)] {
        assert_eq!(log.last_stable_offset(Offset(high_watermark)), Offset(stable));
    }
    end_transaction(&mut log, 1, 0, Commit); // 3
    assert_eq!(log.last_stable_offset(Offset(3)), Offset(1), "the marker is not replicated");
    assert_eq!(log.last_stable_offset(Offset(4)), Offset(4));
    log.high_watermark_advanced(Offset(4));
    assert_eq!(log.last_stable_offset(Offset(4)), Offset(4));
}

#[test]
fn a_plan_outlives_appends_rolls_and_deletion() {
    let disk = hostile(0);
    let mut log = open(disk.clone(), &hostile_partition(), small(), clean()).0;
    for i in 0..60 {
        append(&mut log, batch(&[i]));
    }
    let (read, lookup) = (log.plan_read(Offset(0), Offset(60)).unwrap(), log.plan_timestamp_lookup());
    for i in 60..120 {
        append(&mut log, batch(&[i]));
    }
    let doomed = log.delete_oldest_segments(4, NOW).unwrap();
    doomed.remove(&disk).unwrap();
    assert_eq!(records_in(&bytes_of(&read.run(1, true).unwrap())), [(0, "0".to_owned())]);
    let found = lookup.first_from(Timestamp(59), LIMIT).unwrap().unwrap();
    assert_eq!(found.offset, Offset(59));
    assert!(lookup.first_from(Timestamp(60), LIMIT).unwrap().is_none(), "it was made before that was there");
    assert!(disk.open(&hostile_partition().join("00000000000000000000.log"), Open::Read).is_err());
}
