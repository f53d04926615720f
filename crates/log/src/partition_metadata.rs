//! The topic id of a partition: `partition.metadata` (KIP-516).
//!
//! ```text
//! version: 0
//! topic_id: AAAAAAAAAAEAAAAAAAAAAg     no newline at the end
//! ```

use std::path::{Path, PathBuf};

use ottla_files::{FileError, Files};
use ottla_model::Uuid;

/// Two short lines.
const BYTES_MAX: u64 = 4096;

#[derive(Debug, thiserror::Error)]
pub enum PartitionMetadataError {
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{} is damaged: {reason}", path.display())]
    Malformed { path: PathBuf, reason: &'static str },
}

/// The topic id in the file; `None` if there is no file.
pub fn read_topic_id<F: Files>(files: &F, path: &Path) -> Result<Option<Uuid>, PartitionMetadataError> {
    let content = match files.read(path, BYTES_MAX) {
        Ok(content) => content,
        Err(error) if error.is_not_found() => return Ok(None),
        Err(error) => return Err(error.into()),
    };
    parse(&content)
        .map(Some)
        .map_err(|reason| PartitionMetadataError::Malformed { path: path.to_path_buf(), reason })
}

fn parse(content: &[u8]) -> Result<Uuid, &'static str> {
    let content = str::from_utf8(content).map_err(|_| "it is not text")?;
    let mut version: Option<i32> = None;
    let mut topic_id: Option<Uuid> = None;
    for line in content.lines() {
        let (key, value) = line.split_once(':').ok_or("a line is not of the form \"key: value\"")?;
        match key {
            "version" => version = value.trim().parse().ok(),
            "topic_id" => topic_id = value.trim().parse().ok(),
            // Whatever a later version adds.
            _ => {}
        }
    }
    version.filter(|version| *version >= 0).ok_or("there is no version")?;
    topic_id.filter(|id| !id.is_zero()).ok_or("there is no topic id")
}

/// What the file of a topic with this id holds.
pub(crate) fn text(topic_id: Uuid) -> String {
    format!("version: 0\ntopic_id: {topic_id}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_kafkas() {
        let id = Uuid((1u128 << 64 | 2).to_be_bytes());
        assert_eq!(text(id), "version: 0\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg");
        assert_eq!(parse(text(id).as_bytes()), Ok(id));
        assert_eq!(parse(b"topic_id: AAAAAAAAAAEAAAAAAAAAAg\r\nversion:  1\r\nx: y\r\n"), Ok(id));
    }

    #[test]
    fn damage_is_told_from_an_id() {
        for (why, content) in [
            ("empty", &b""[..]),
            ("zeros", &[0; 40]),
            ("not text", b"\xff"),
            ("no version", b"topic_id: AAAAAAAAAAEAAAAAAAAAAg"),
            ("negative version", b"version: -1\ntopic_id: AAAAAAAAAAEAAAAAAAAAAg"),
            ("no id", b"version: 0\n"),
            ("cut id", b"version: 0\ntopic_id: AAAAAAAAAAEAAA"),
            ("the id that means none", b"version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA"),
            ("no key", b"version: 0\ntopic_id"),
        ] {
            assert!(parse(content).is_err(), "{why}");
        }
    }
}
