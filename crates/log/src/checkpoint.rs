//! Kafka's text checkpoints: a version, a count, then one entry per line.
//!
//! ```text
//! 0            version
//! 2            how many entries follow
//! orders 0 42  topic partition offset, for the checkpoints of a log dir
//! orders 1 7
//! ```
//!
//! An empty file holds no entries. Anything else that does not fit is refused as a whole: a checkpoint that
//! was cut tells nothing that could be relied on.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use ottla_files::{FileError, Files};
use ottla_model::{Offset, TopicName, TopicPartition};

/// A checkpoint of a million partitions with the longest names is a quarter of this.
const BYTES_MAX: u64 = 1 << 30;

const VERSION: &str = "0";

#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is damaged at line {line}: {reason}", path.display())]
    Malformed { path: PathBuf, line: usize, reason: &'static str },
}

/// Reads a checkpoint whose entries `entry` parses from the fields of a line. A missing file holds no entries.
pub(crate) fn read<F: Files, T>(
    files: &F,
    path: &Path,
    entry: impl Fn(&[&str]) -> Result<T, &'static str>,
) -> Result<Vec<T>, CheckpointError> {
    let content = match files.read(path, BYTES_MAX) {
        Ok(content) => content,
        Err(error) if error.is_not_found() => return Ok(Vec::new()),
        Err(error) => return Err(error.into()),
    };
    let malformed = |line, reason| CheckpointError::Malformed { path: path.to_path_buf(), line, reason };
    let content = str::from_utf8(&content).map_err(|_| malformed(1, "it is not text"))?;
    let mut lines = content.lines().zip(1..);
    match lines.next() {
        None => return Ok(Vec::new()),
        Some((line, number)) if line.trim() != VERSION => {
            return Err(malformed(number, "expected version 0"));
        }
        Some(_) => {}
    }
    let count: usize = lines
        .next()
        .and_then(|(line, _)| line.trim().parse().ok())
        .ok_or_else(|| malformed(2, "expected the number of entries"))?;
    let mut entries = Vec::new();
    let mut fields = Vec::new();
    for (line, number) in lines {
        fields.clear();
        fields.extend(line.split_whitespace());
        entries.push(entry(&fields).map_err(|reason| malformed(number, reason))?);
    }
    if entries.len() != count {
        return Err(malformed(2, "the number of entries is not the one announced"));
    }
    Ok(entries)
}

/// The text of a checkpoint with these lines.
pub(crate) fn text<L: std::fmt::Display>(lines: impl ExactSizeIterator<Item = L>) -> String {
    let mut text = format!("{VERSION}\n{}\n", lines.len());
    for line in lines {
        writeln!(text, "{line}").expect("a String takes everything");
    }
    text
}

/// One offset per partition: the recovery points, log starts, high watermarks or cleaned ends of a log dir.
pub type Offsets = BTreeMap<TopicPartition, Offset>;

/// Reads one of the `..-offset-checkpoint` files. A missing or empty one holds nothing.
pub fn read_offsets<F: Files>(files: &F, path: &Path) -> Result<Offsets, CheckpointError> {
    let entries = read(files, path, |fields| {
        let [topic, partition, offset] = fields else {
            return Err("expected topic, partition and offset");
        };
        let topic = TopicName::new(topic).map_err(|_| "the topic is no topic name")?;
        let partition: i32 =
            partition.parse().ok().filter(|p| *p >= 0).ok_or("the partition is not a number from 0")?;
        let offset: i64 =
            offset.parse().ok().filter(|o| *o >= 0).ok_or("the offset is not a number from 0")?;
        Ok((TopicPartition::new(topic, partition), Offset(offset)))
    })?;
    Ok(entries.into_iter().collect())
}

/// Writes one of the `..-offset-checkpoint` files: after a crash it is the old one or the new one.
pub fn write_offsets<F: Files>(files: &F, path: &Path, offsets: &Offsets) -> Result<(), FileError> {
    let lines = offsets.iter().map(|(partition, offset)| {
        // As Kafka joins them: one space.
        format!("{} {} {offset}", partition.topic, partition.partition)
    });
    files.replace(path, text(lines).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_files::HostileDisk;

    fn write(content: &[u8]) -> HostileDisk {
        let disk = HostileDisk::new(0);
        disk.replace(Path::new("/checkpoint"), content).unwrap();
        disk
    }

    fn partition(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new(topic).unwrap(), partition)
    }

    #[test]
    fn offsets_survive_their_text() {
        let offsets = Offsets::from([
            (partition("orders", 0), Offset(42)),
            (partition("orders", 1), Offset(i64::MAX)),
            (partition("a.b-c", 12), Offset(0)),
        ]);
        let disk = write(b"");
        write_offsets(&disk, Path::new("/checkpoint"), &offsets).unwrap();
        assert_eq!(
            disk.read(Path::new("/checkpoint"), 1000).unwrap(),
            b"0\n3\na.b-c 12 0\norders 0 42\norders 1 9223372036854775807\n"
        );
        assert_eq!(read_offsets(&disk, Path::new("/checkpoint")).unwrap(), offsets);
    }

    #[test]
    fn what_kafka_reads_we_read() {
        for (why, content, count) in [
            ("empty", "", 0),
            ("no entries", "0\n0\n", 0),
            ("no newline at the end", "0\n1\na 0 1", 1),
            ("Windows line ends", "0\r\n1\r\na 0 1\r\n", 1),
            ("any whitespace", "0\n1\na\t0   1\n", 1),
            ("a partition that is gone", "0\n1\nno-such-topic 99 1\n", 1),
        ] {
            let offsets = read_offsets(&write(content.as_bytes()), Path::new("/checkpoint")).expect(why);
            assert_eq!(offsets.len(), count, "{why}");
        }
        assert_eq!(read_offsets(&HostileDisk::new(0), Path::new("/absent")).unwrap().len(), 0, "no file");
    }

    #[test]
    fn a_damaged_checkpoint_names_its_line() {
        for (why, content, at) in [
            ("unknown version", &b"1\n0\n"[..], 1),
            ("zeros where the text was", b"\0\0\0\0", 1),
            ("not text", b"\xff\xfe", 1),
            ("cut after the version", b"0\n", 2),
            ("cut after the count", b"0\n2\na 0 1\n", 2),
            ("count too low", b"0\n1\na 0 1\na 1 1\n", 2),
            ("count is huge", b"0\n99999999999999\n", 2),
            ("negative count", b"0\n-1\n", 2),
            ("entry cut", b"0\n1\na 0\n", 3),
            ("entry too long", b"0\n1\na 0 1 1\n", 3),
            ("negative offset", b"0\n1\na 0 -1\n", 3),
            ("negative partition", b"0\n1\na -1 1\n", 3),
            ("empty line", b"0\n1\na 0 1\n\n", 4),
        ] {
            match read_offsets(&write(content), Path::new("/checkpoint")) {
                Err(CheckpointError::Malformed { line, .. }) => assert_eq!(line, at, "{why}"),
                other => panic!("{why}: {other:?}"),
            }
        }
    }

    #[test]
    fn a_crash_while_writing_leaves_the_old_or_the_new() {
        let (old, new) = (
            Offsets::from([(partition("a", 0), Offset(1))]),
            Offsets::from([(partition("a", 0), Offset(2)), (partition("a", 1), Offset(2))]),
        );
        for seed in 0..200 {
            let disk = HostileDisk::new(seed);
            write_offsets(&disk, Path::new("/checkpoint"), &old).unwrap();
            // The fault stops the second write at one of its steps, then the plug is pulled.
            disk.inject(ottla_files::Fault {
                after: (seed % 7) as u32,
                count: 9,
                kind: std::io::ErrorKind::Other,
            });
            let written = write_offsets(&disk, Path::new("/checkpoint"), &new);
            disk.crash();
            let found = read_offsets(&disk, Path::new("/checkpoint")).unwrap();
            assert!(found == new || (found == old && written.is_err()), "seed {seed}: {found:?}");
        }
    }
}
