//! A whole log dir, from lock to clean shutdown.

use std::path::Path;

use ottla_files::{Files, HostileDisk, Open};
use ottla_log::{
    Contents, DirectoryState, InvalidDirectoryName, Log, LogConfig, LogDirectory, LogDirectoryError,
    MetaProperties, Offsets,
};
use ottla_model::{BrokerId, Offset, TopicName, TopicPartition};

use crate::rig::*;

const DATA: &str = "/data";

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new(TopicName::new("orders").unwrap(), partition)
}

#[test]
fn a_closed_directory_is_opened_as_it_was_left() {
    let disk = hostile(0);
    let directory = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap();
    assert_eq!(directory.meta_properties().unwrap(), None);
    let owner =
        MetaProperties { broker_id: Some(BrokerId(3)), cluster_id: Some("c".into()), directory_id: None };
    directory.write_meta_properties(&owner, NOW).unwrap();
    assert!(!directory.load().unwrap().clean, "a new directory was never closed");
    let mut recovery_points = Offsets::new();
    for partition in 0..2 {
        let path = directory.partition_path(&orders(partition));
        let opening = Contents::default().opening(&orders(partition), false, 0);
        let mut log = Log::open(disk.clone(), &path, small(), opening, NOW).unwrap().0;
        append(&mut log, batch(&[1, 2]));
        recovery_points.insert(orders(partition), log.close(NOW).unwrap().recovery_point);
    }
    directory.write_recovery_points(&recovery_points).unwrap();
    directory.finish().unwrap();
    disk.crash();

    let directory = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap();
    assert_eq!(directory.meta_properties().unwrap(), Some(owner));
    let contents = directory.load().unwrap();
    assert!(contents.clean && contents.damaged.is_empty());
    assert_eq!(contents.partitions.keys().cloned().collect::<Vec<_>>(), [orders(0), orders(1)]);
    for (partition, path) in &contents.partitions {
        let opening = contents.opening(partition, false, 0);
        assert_eq!(opening.recovery_point, Offset(2));
        let (log, recovered) = Log::open(disk.clone(), path, small(), opening, NOW).unwrap();
        assert_eq!(recovered, Default::default());
        assert_eq!(log.log_end_offset(), Offset(2));
    }
    drop(directory);
    disk.kill();
    let directory = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap();
    assert!(!directory.load().unwrap().clean, "the marker went when loading began");
}

#[test]
fn a_directory_belongs_to_one_broker_at_a_time() {
    let disk = hostile(0);
    let first = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap();
    let second = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap_err();
    assert!(matches!(second, LogDirectoryError::Locked { .. }));
    first.finish().unwrap();
    LogDirectory::lock(disk, Path::new(DATA)).unwrap();
}

#[test]
fn directories_are_sorted_by_their_names() {
    let disk = hostile(0);
    let id = "0123456789abcdef0123456789abcdef";
    for name in [
        "orders-0".to_owned(),
        format!("orders-1.{id}-future"),
        format!("orders-2.{id}-delete"),
        format!("orders-3.{id}-stray"),
        "remote-log-index-cache".to_owned(),
    ] {
        disk.create_directory(&Path::new(DATA).join(name)).unwrap();
    }
    let directory = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap();
    let contents = directory.load().unwrap();
    assert_eq!(contents.partitions.keys().cloned().collect::<Vec<_>>(), [orders(0)]);
    assert_eq!(contents.future.keys().cloned().collect::<Vec<_>>(), [orders(1)]);
    assert_eq!((contents.deleted.len(), contents.stray.len()), (1, 1));
    directory.remove(&contents.deleted[0]).unwrap();

    let set_aside = directory.set_aside(&orders(0), DirectoryState::Delete, 7).unwrap().unwrap();
    let again = directory.load().unwrap();
    assert!(again.partitions.is_empty());
    assert_eq!(again.deleted, [set_aside]);
}

#[test]
fn a_strange_directory_stops_the_start_and_is_named() {
    let disk = hostile(0);
    disk.create_directory(&Path::new(DATA).join("lost+found")).unwrap();
    let directory = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap();
    let error = directory.load().unwrap_err();
    assert!(matches!(
        &error,
        LogDirectoryError::StrangeDirectory { reason: InvalidDirectoryName::NoPartition(name), .. }
            if name == "lost+found"
    ));
    let text = error.to_string();
    assert!(text.contains("/data") && text.contains("lost+found") && text.contains("Move it"), "{text}");
}

#[test]
fn a_partition_in_two_directories_is_refused() {
    let with = |path: &str| Contents { partitions: [(orders(0), path.into())].into(), ..Contents::default() };
    assert!(Contents::check_disjoint(&[with("/a/orders-0"), Contents::default()]).is_ok());
    let error = Contents::check_disjoint(&[with("/a/orders-0"), with("/b/orders-0")]).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("/a/orders-0") && text.contains("/b/orders-0"), "{text}");
}

#[test]
fn damaged_checkpoints_are_told_and_taken_for_empty() {
    let disk = hostile(0);
    let directory = LogDirectory::lock(disk.clone(), Path::new(DATA)).unwrap();
    for name in [
        ottla_log::RECOVERY_POINT_CHECKPOINT,
        ottla_log::LOG_START_CHECKPOINT,
        ottla_log::HIGH_WATERMARK_CHECKPOINT,
        ottla_log::CLEANER_CHECKPOINT,
    ] {
        disk.replace(&Path::new(DATA).join(name), b"0\n2\norders 0 42\n").unwrap();
    }
    let contents = directory.load().unwrap();
    assert_eq!(contents.damaged.len(), 4);
    assert_eq!(contents.opening(&orders(0), false, 0).recovery_point, Offset(0), "so everything is scanned");
    assert!(contents.high_watermarks.is_empty());
}

/// Lets whoever opens a log count what it costs.
fn counted(disk: &HostileDisk, path: &Path) -> (usize, usize) {
    let entries = disk.list(path).unwrap();
    (entries.len(), entries.iter().filter(|entry| entry.name.ends_with(".log")).count())
}

#[test]
fn an_untouched_partition_is_closed_without_writing() {
    let disk = hostile(0);
    let path = hostile_partition();
    let mut log = open(disk.clone(), &path, LogConfig::default(), clean()).0;
    append(&mut log, batch(&[1]));
    log.close(NOW).unwrap();
    let before = counted(&disk, &path);
    let log = open(disk.clone(), &path, LogConfig::default(), clean()).0;
    disk.inject(ottla_files::Fault { after: 0, count: 99, kind: std::io::ErrorKind::StorageFull });
    log.close(NOW).unwrap();
    assert_eq!(counted(&disk, &path), before);
    assert!(disk.open(&path.join("x"), Open::Create).is_err(), "the fault was armed");
}
