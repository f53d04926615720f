//! Appending and reading back, as leader and as follower.

use ottla_files::{Disk, Files};
use ottla_log::{AppendError, LogConfig, ReadError};
use ottla_model::{LeaderEpoch, Offset, Timestamp};
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::Codec;
use ottla_protocol::records::Batches;
use ottla_protocol::records::validate::AppendOrigin;

use crate::rig::*;

#[test]
fn records_get_consecutive_offsets_and_are_read_back() {
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    assert_eq!(append(&mut log, batch(&[1, 2])).first_offset, Offset(0));
    let second = append(&mut log, compressed(Codec::Lz4, &[3, 4, 5]));
    assert_eq!((second.first_offset, second.last_offset), (Offset(2), Offset(4)));
    assert_eq!(log.log_end_offset(), Offset(5));
    assert_eq!(log.watch_end_offset().get(), Offset(5));
    let records = read_all(&log, Offset(0), Offset(5));
    let expected: Vec<_> = (0..5).map(|i| (i, (i + 1).to_string())).collect();
    assert_eq!(records, expected);
}

#[test]
fn a_read_starts_at_the_batch_that_holds_the_offset() {
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    append(&mut log, batch(&[0, 1]));
    append(&mut log, compressed(Codec::Gzip, &[2, 3]));
    for (why, offset, first) in [
        ("the start of a batch", 0, 0),
        ("inside a batch", 1, 0),
        ("the start of the next", 2, 2),
        ("inside a compressed batch", 3, 2),
    ] {
        let read = log.read(Offset(offset), Offset(4), 1 << 20, true).unwrap();
        assert_eq!(records_in(&bytes_of(&read))[0].0, first, "{why}");
    }
}

#[test]
fn reads_outside_the_log_are_refused_and_its_end_is_empty() {
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    append(&mut log, batch(&[0, 1, 2]));
    log.increment_log_start_offset(Offset(1));
    for offset in [-1, 0, 4, i64::MAX] {
        let error = log.read(Offset(offset), Offset(3), 1, true).unwrap_err();
        assert!(matches!(error, ReadError::OffsetOutOfRange { start: Offset(1), end: Offset(3), .. }));
        assert_eq!(error.code(), ErrorCode::OffsetOutOfRange);
    }
    assert_eq!(log.read(Offset(3), Offset(3), 1, true).unwrap().bytes(), 0);
    assert_eq!(records_in(&bytes_of(&log.read(Offset(1), Offset(3), 1, true).unwrap())).len(), 3);
}

#[test]
fn a_read_ends_before_the_upper_bound() {
    let directory = real_directory();
    let mut log = directory.open(small());
    for i in 0..200 {
        append(&mut log, batch(&[i]));
    }
    for (offset, upper) in [(0, 1), (0, 7), (100, 150), (150, 150), (160, 150), (199, 200), (3, 200)] {
        let upper = Offset(upper);
        let records = read_all(&log, Offset(offset), upper);
        let expected: Vec<_> = (offset..upper.0).map(|i| (i, i.to_string())).collect();
        assert_eq!(records, expected, "from {offset} to {upper}");
    }
}

#[test]
fn the_first_batch_is_whole_only_if_asked_for() {
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    append(&mut log, batch(&[0, 1, 2]));
    append(&mut log, batch(&[3]));
    let whole = log.read(Offset(0), Offset(4), 10, true).unwrap();
    assert_eq!(whole.bytes(), whole.first_entry_bytes);
    assert_eq!(records_in(&bytes_of(&whole)).len(), 3);
    let cut = log.read(Offset(0), Offset(4), 10, false).unwrap();
    assert_eq!(cut.bytes(), 10);
    assert!(cut.first_entry_bytes > 10, "which tells the caller that it was cut");
    assert_eq!(log.read(Offset(0), Offset(4), 0, false).unwrap().bytes(), 0);
}

#[test]
fn segments_roll_by_size_and_are_read_across() {
    let directory = real_directory();
    let mut log = directory.open(small());
    let mut rolled = 0;
    for i in 0..200 {
        rolled += usize::from(append(&mut log, batch(&[i])).rolled);
    }
    let segments = log.segments().unwrap();
    assert_eq!(segments.len(), rolled + 1);
    assert!(rolled > 5);
    assert!(segments.iter().all(|segment| segment.bytes <= 2000));
    assert!(segments.windows(2).all(|pair| pair[0].end_offset == pair[1].base_offset));
    assert_eq!(segments[0].max_timestamp, Timestamp(segments[0].end_offset.0 - 1));
    assert_eq!(read_all(&log, Offset(0), Offset(200)).len(), 200);
    assert_eq!(log.bytes(), segments.iter().map(|segment| segment.bytes).sum::<u64>());
}

#[test]
fn segments_roll_by_time_of_the_records_or_of_the_clock() {
    let ms = 1000;
    for (why, first, second, waited, rolls) in [
        ("records close in time", 100, 100 + ms, 0, false),
        ("records far apart", 100, 101 + ms, 0, true),
        ("records that go back in time", 5000, 0, 10 * ms, false),
        ("records without time, at once", -1, -1, ms, false),
        ("records without time, later", -1, -1, ms + 1, true),
    ] {
        let directory = real_directory();
        let mut log = directory.open(LogConfig { segment_ms: ms, ..LogConfig::default() });
        append(&mut log, batch(&[first]));
        let later = Timestamp(NOW.0 + waited);
        let records = valid(batch(&[second]));
        let appended = log.append_as_leader(records, LeaderEpoch(0), AppendOrigin::Client, later).unwrap();
        assert_eq!(appended.rolled, rolls, "{why}");
    }
}

#[test]
fn segments_roll_when_an_index_is_full() {
    let directory = real_directory();
    let config = LogConfig { index_interval_bytes: 0, segment_index_bytes: 40, ..LogConfig::default() };
    let mut log = directory.open(config);
    for i in 0..50 {
        append(&mut log, batch(&[i]));
    }
    // 40 bytes hold 5 offset entries, or 3 of time of which one is kept for the roll; the first append is not
    // indexed.
    let lengths: Vec<i64> =
        log.segments().unwrap().iter().map(|s| s.end_offset.0 - s.base_offset.0).collect();
    assert_eq!(lengths[0], 3);
    assert_eq!(read_all(&log, Offset(0), Offset(50)).len(), 50);
}

#[test]
fn more_than_a_segment_at_once_is_refused() {
    let directory = real_directory();
    let mut log = directory.open(small());
    let records = valid(batch(&vec![1; 500]));
    let error = log.append_as_leader(records, LeaderEpoch(0), AppendOrigin::Client, NOW).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { max: 2000, .. }));
    assert_eq!(error.code(), ErrorCode::RecordListTooLarge);
    assert_eq!(log.log_end_offset(), Offset(0));
}

/// What a leader with these batches would send.
fn leader_bytes(batches: &[&[i64]], epoch: i32) -> Vec<u8> {
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    for timestamps in batches {
        let records = valid(batch(timestamps));
        log.append_as_leader(records, LeaderEpoch(epoch), AppendOrigin::Client, NOW).unwrap();
    }
    bytes_of(&log.read(Offset(0), log.log_end_offset(), 1 << 20, true).unwrap())
}

#[test]
fn a_follower_keeps_the_leaders_bytes() {
    let sent = leader_bytes(&[&[0, 1], &[2], &[3, 4]], 9);
    let directory = real_directory();
    let mut log = directory.open(small());
    let partial = [&sent[..], &sent[..70]].concat();
    let appended = log.append_as_follower(&partial, NOW).unwrap().unwrap();
    assert_eq!((appended.first_offset, appended.last_offset), (Offset(0), Offset(4)));
    assert_eq!(bytes_of(&log.read(Offset(0), Offset(5), 1 << 20, true).unwrap()), sent);
    assert_eq!(log.leader_epochs().latest().unwrap().epoch, LeaderEpoch(9), "as the batches say");
    assert_eq!(log.append_as_follower(&sent[..20], NOW).unwrap(), None, "not even one whole batch");
}

#[test]
fn a_follower_splits_what_does_not_fit_its_segments() {
    let batches: Vec<[i64; 1]> = (0..100).map(|i| [i]).collect();
    let sent = leader_bytes(&batches.iter().map(|b| &b[..]).collect::<Vec<_>>(), 0);
    let directory = real_directory();
    let mut log = directory.open(small());
    log.append_as_follower(&sent, NOW).unwrap().unwrap();
    assert!(log.segments().unwrap().len() > 3);
    assert_eq!(read_all(&log, Offset(0), Offset(100)).len(), 100);
}

#[test]
fn a_follower_refuses_what_does_not_follow() {
    let sent = leader_bytes(&[&[0, 1], &[2]], 0);
    let first = Batches::new(&sent).next().unwrap().unwrap().header().length;
    let mut flipped = sent.clone();
    *flipped.last_mut().unwrap() ^= 1;
    let twice = [&sent[..first], &sent[..first]].concat();
    for (why, bytes, code) in [
        ("a flipped bit", &flipped, ErrorCode::CorruptMessage),
        ("the same offsets again", &twice, ErrorCode::UnknownServerError),
        ("zeros", &vec![0; 100], ErrorCode::CorruptMessage),
    ] {
        let directory = real_directory();
        let mut log = directory.open(LogConfig::default());
        let error = log.append_as_follower(bytes, NOW).unwrap_err();
        assert_eq!(error.code(), code, "{why}");
        assert_eq!(log.log_end_offset(), Offset(0), "{why}: nothing is appended");
    }
}

#[test]
fn a_follower_may_start_anywhere_and_keeps_gaps() {
    let mut sent = leader_bytes(&[&[0, 1], &[2]], 0);
    let second = Batches::new(&sent).next().unwrap().unwrap().header().length;
    // Compaction on the leader has left a hole of more than a segment's offsets.
    let far = Offset(3 << 31);
    ottla_protocol::records::batch::set_base_offset(&mut sent[second..], far);
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    log.append_as_follower(&sent, NOW).unwrap().unwrap();
    assert_eq!(log.log_end_offset(), far.plus(1));
    assert_eq!(log.segments().unwrap().len(), 2, "offsets of one segment span 31 bits");
    assert_eq!(
        read_all(&log, Offset(0), far.plus(1)),
        [(0, "0".to_owned()), (1, "1".to_owned()), (far.0, "2".to_owned())]
    );
    let in_gap = log.read(Offset(1000), far.plus(1), 1 << 20, true).unwrap();
    assert_eq!(records_in(&bytes_of(&in_gap))[0].0, far.0, "the next batch there is");
}

#[test]
fn a_clean_close_and_open_changes_nothing_and_reads_no_records() {
    let directory = real_directory();
    let mut log = directory.open(small());
    for i in 0..100 {
        append(&mut log, batch(&[i]));
    }
    let segments = log.segments().unwrap();
    let closed = log.close(NOW).unwrap();
    assert_eq!(closed.recovery_point, Offset(100));
    let before = names(&Disk, &directory.partition());
    let (mut log, recovered) = open(Disk, &directory.partition(), small(), clean());
    assert_eq!(recovered, Default::default());
    assert_eq!(log.log_end_offset(), Offset(100));
    assert_eq!(log.recovery_point(), Offset(100));
    assert_eq!(log.segments().unwrap(), segments);
    assert_eq!(read_all(&log, Offset(0), Offset(100)).len(), 100);
    assert_eq!(append(&mut log, batch(&[100])).first_offset, Offset(100));
    assert_eq!(read_all(&log, Offset(90), Offset(101)).len(), 11);
    drop(log);
    assert!(before.contains(&"00000000000000000100.snapshot".to_owned()), "{before:?}");
}

#[test]
fn index_files_are_as_large_as_kafkas_and_trimmed_when_done() {
    let directory = real_directory();
    let mut log = directory.open(LogConfig::default());
    append(&mut log, batch(&[1]));
    let length = |name: &str| {
        let entries = Disk.list(&directory.partition()).unwrap();
        entries.into_iter().find(|entry| entry.name == name).map(|entry| entry.bytes)
    };
    assert_eq!(length("00000000000000000000.index"), Some(10_485_760));
    assert_eq!(length("00000000000000000000.timeindex"), Some(10_485_756));
    log.close(NOW).unwrap();
    assert_eq!(length("00000000000000000000.index"), Some(0));
    assert_eq!(length("00000000000000000000.timeindex"), Some(12), "the largest timestamp");
    assert_eq!(length("00000000000000000000.txnindex"), None, "only made when needed");
}

#[test]
fn preallocated_segments_are_trimmed_when_done() {
    let directory = real_directory();
    let config = LogConfig { preallocate: true, ..small() };
    let mut log = directory.open(config.clone());
    append(&mut log, batch(&[1]));
    let path = directory.partition().join("00000000000000000000.log");
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 2000);
    let bytes = log.bytes();
    log.close(NOW).unwrap();
    assert_eq!(std::fs::metadata(&path).unwrap().len(), bytes);
}

#[test]
fn a_region_outlives_the_deletion_of_its_segment() {
    let directory = real_directory();
    let mut log = directory.open(small());
    for i in 0..100 {
        append(&mut log, batch(&[i]));
    }
    let plan = log.plan_read(Offset(5), Offset(100)).unwrap();
    let read = log.read(Offset(0), Offset(100), 1 << 20, true).unwrap();
    let doomed = log.delete_oldest_segments(2, NOW).unwrap();
    assert!(names(&Disk, &directory.partition()).iter().any(|name| name.ends_with(".log.deleted")));
    doomed.remove(&Disk).unwrap();
    assert!(!names(&Disk, &directory.partition()).iter().any(|name| name.ends_with(".deleted")));
    assert_eq!(records_in(&bytes_of(&read))[0].0, 0, "a region that was handed out before");
    let planned = plan.run(1 << 20, true).unwrap();
    assert_eq!(records_in(&bytes_of(&planned))[0].0, 5, "a read that was planned before");
    let first = log.segments().unwrap()[0].base_offset;
    assert_eq!(log.log_start_offset(), first);
    assert!(log.read(Offset(0), Offset(100), 1, true).is_err());
}
