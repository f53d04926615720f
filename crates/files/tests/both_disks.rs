//! The real disk and the hostile one answer alike as long as nobody pulls the plug.

use std::io::{ErrorKind, IoSlice};
use std::path::Path;

use ottla_files::{Disk, Fault, File, Files, HostileDisk, Map, Open};

/// Runs a claim against both disks.
fn on_both(claim: impl Fn(&dyn Fn(&str) -> std::path::PathBuf, Either)) {
    let real = tempfile::tempdir().unwrap();
    claim(&|name| real.path().join(name), Either::Real(Disk));
    let hostile = HostileDisk::new(1);
    hostile.create_directory(Path::new("/data")).unwrap();
    claim(&|name| Path::new("/data").join(name), Either::Hostile(hostile));
}

enum Either {
    Real(Disk),
    Hostile(HostileDisk),
}

macro_rules! with {
    ($disk:expr, $files:ident => $body:expr) => {
        match $disk {
            Either::Real($files) => $body,
            Either::Hostile($files) => $body,
        }
    };
}

fn write(file: &impl File, slices: &[&[u8]], position: u64) {
    let mut slices: Vec<IoSlice<'_>> = slices.iter().map(|slice| IoSlice::new(slice)).collect();
    file.write_all_at(&mut slices, position).unwrap();
}

#[test]
fn slices_are_written_one_after_the_other() {
    on_both(|path, disk| {
        with!(disk, files => {
            let big = vec![7u8; 600 * 1024];
            let file = files.open(&path("a"), Open::Create).unwrap();
            write(&file, &[b"", b"head", b"", &big, b"tail", b""], 0);
            write(&file, &[], 5);
            assert_eq!(file.bytes().unwrap(), 8 + big.len() as u64);
            let mut read = vec![0; 8 + big.len()];
            file.read_exact_at(&mut read, 0).unwrap();
            assert_eq!(&read[..4], b"head");
            assert!(read[4..4 + big.len()].iter().all(|b| *b == 7));
            assert_eq!(&read[4 + big.len()..], b"tail");
        })
    });
}

#[test]
fn more_slices_than_the_system_takes_at_once_are_written_too() {
    on_both(|path, disk| {
        with!(disk, files => {
            let file = files.open(&path("a"), Open::Create).unwrap();
            let bytes: Vec<[u8; 1]> = (0..5000u32).map(|i| [i as u8]).collect();
            let slices: Vec<&[u8]> = bytes.iter().map(|b| &b[..]).collect();
            write(&file, &slices, 3);
            let content = files.read(&path("a"), 10_000).unwrap();
            assert_eq!(&content[..3], [0; 3], "a gap reads as zeros");
            assert_eq!(&content[3..], bytes.concat());
        })
    });
}

#[test]
fn reads_end_at_the_end_of_the_file() {
    on_both(|path, disk| {
        with!(disk, files => {
            let file = files.open(&path("a"), Open::Create).unwrap();
            write(&file, &[b"abc"], 0);
            let mut buffer = [0; 8];
            assert_eq!(file.read_at(&mut buffer, 1).unwrap(), 2);
            assert_eq!(file.read_at(&mut buffer, 9).unwrap(), 0);
            assert!(file.read_exact_at(&mut buffer, 0).unwrap_err().is_short_read());
        })
    });
}

#[test]
fn missing_files_are_told_by_name() {
    on_both(|path, disk| {
        with!(disk, files => {
            for how in [Open::Read, Open::Write] {
                let error = files.open(&path("absent"), how).unwrap_err();
                assert!(error.is_not_found());
                assert!(error.to_string().contains("absent"), "{error}");
            }
            assert!(files.list(&path("absent")).unwrap_err().is_not_found());
            assert!(files.rename(&path("absent"), &path("b")).unwrap_err().is_not_found());
            assert!(files.remove_file(&path("absent")).unwrap_err().is_not_found());
        })
    });
}

#[test]
fn a_removed_file_stays_readable_while_it_is_open() {
    on_both(|path, disk| {
        with!(disk, files => {
            let file = files.open(&path("a"), Open::Create).unwrap();
            write(&file, &[b"abc"], 0);
            files.rename(&path("a"), &path("a.deleted")).unwrap();
            files.remove_file(&path("a.deleted")).unwrap();
            let mut buffer = [0; 3];
            file.read_exact_at(&mut buffer, 0).unwrap();
            assert_eq!(&buffer, b"abc");
        })
    });
}

#[test]
fn maps_write_through_to_the_file_and_change_length() {
    on_both(|path, disk| {
        with!(disk, files => {
            files.open(&path("index"), Open::Create).unwrap();
            assert_eq!(files.map(&path("index"), None).unwrap().content(), b"");
            let mut map = files.map(&path("index"), Some(16)).unwrap();
            assert_eq!(map.content(), [0; 16]);
            map.write(4, b"abcd");
            map.sync().unwrap();
            map.resize(8).unwrap();
            assert_eq!(map.content(), b"\0\0\0\0abcd");
            assert_eq!(files.read(&path("index"), 100).unwrap(), b"\0\0\0\0abcd");
        })
    });
}

#[test]
fn replace_leaves_no_temporary_file() {
    on_both(|path, disk| {
        with!(disk, files => {
            files.create_directory(&path("d")).unwrap();
            files.replace(&path("d/checkpoint"), b"one").unwrap();
            files.replace(&path("d/checkpoint"), b"two").unwrap();
            assert_eq!(files.read(&path("d/checkpoint"), 3).unwrap(), b"two");
            let names: Vec<String> = files.list(&path("d")).unwrap().into_iter().map(|e| e.name).collect();
            assert_eq!(names, ["checkpoint"]);
        })
    });
}

#[test]
fn a_file_that_is_too_long_is_not_read() {
    on_both(|path, disk| {
        with!(disk, files => {
            files.replace(&path("a"), b"four").unwrap();
            assert_eq!(files.read(&path("a"), 3).unwrap_err().kind(), ErrorKind::InvalidData);
        })
    });
}

#[test]
fn a_lock_excludes_until_it_is_dropped() {
    on_both(|path, disk| {
        with!(disk, files => {
            let held = files.lock(&path(".lock")).unwrap();
            assert_eq!(files.lock(&path(".lock")).unwrap_err().kind(), ErrorKind::WouldBlock);
            drop(held);
            files.lock(&path(".lock")).unwrap();
        })
    });
}

#[test]
fn a_crash_forgets_what_was_not_synced_and_nothing_else() {
    let path = |name: &str| Path::new("/data").join(name);
    let (mut lost_name, mut lost_bytes, mut torn, mut kept) = (0, 0, 0, 0);
    for seed in 0..300 {
        let disk = HostileDisk::new(seed);
        disk.create_directory(Path::new("/data")).unwrap();
        disk.sync_directory(Path::new("/")).unwrap();
        let safe = disk.open(&path("safe"), Open::Create).unwrap();
        disk.sync_directory(Path::new("/data")).unwrap();
        write(&safe, &[&[1; 2000]], 0);
        safe.sync().unwrap();
        write(&safe, &[&[2; 2000]], 2000);
        disk.open(&path("unsynced"), Open::Create).unwrap();
        disk.crash();

        let content = disk.read(&path("safe"), 4000).unwrap();
        assert!(content.len() >= 2000 && content[..2000].iter().all(|b| *b == 1), "synced bytes are there");
        let new = content[2000..].iter().filter(|b| **b == 2).count();
        assert!(content[2000..].iter().all(|b| *b == 0 || *b == 2));
        match new {
            0 => lost_bytes += 1,
            2000 => kept += 1,
            _ => torn += 1,
        }
        lost_name += usize::from(disk.open(&path("unsynced"), Open::Read).is_err());
        let mut byte = [0];
        assert!(safe.read_at(&mut byte, 0).is_err(), "what was open before the crash is dead");
    }
    assert!(lost_bytes > 0 && torn > 0 && kept > 0, "every outcome comes up: {lost_bytes} {torn} {kept}");
    assert!(lost_name > 0 && lost_name < 300);
}

#[test]
fn a_kill_forgets_nothing() {
    let disk = HostileDisk::new(1);
    let file = disk.open(Path::new("/a"), Open::Create).unwrap();
    write(&file, &[b"abc"], 0);
    disk.kill();
    assert_eq!(disk.read(Path::new("/a"), 3).unwrap(), b"abc");
    assert!(file.sync().is_err());
}

#[test]
fn an_injected_fault_comes_once_and_on_time() {
    let disk = HostileDisk::new(1);
    let file = disk.open(Path::new("/a"), Open::Create).unwrap();
    disk.inject(Fault { after: 1, count: 1, kind: ErrorKind::StorageFull });
    write(&file, &[b"abc"], 0);
    let error = file.write_all_at(&mut [IoSlice::new(b"def")], 3).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::StorageFull);
    write(&file, &[b"def"], 3);
}
