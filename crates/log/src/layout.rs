//! The names of Kafka's files and directories.
//!
//! ```text
//! <log dir>/.lock, meta.properties, .kafka_cleanshutdown, ..-checkpoint
//! <log dir>/orders-0/00000000000000000000.log .index .timeindex .txnindex .snapshot
//! <log dir>/orders-0/leader-epoch-checkpoint, partition.metadata
//! <log dir>/orders-0.<32 hex>-delete/      deleted, waiting to be removed
//! <log dir>/orders-0.<32 hex>-future/      being moved here from another log dir of this broker
//! <log dir>/orders-0.<32 hex>-stray/       set aside as not belonging here; never removed by us
//! ```

use std::fmt;

use ottla_model::{InvalidTopicName, Offset, TopicName, TopicPartition};

/// Held with an exclusive lock while a broker runs on the directory.
pub const LOCK: &str = ".lock";
pub const META_PROPERTIES: &str = "meta.properties";
/// There after a clean stop, and only until the next start begins to load.
pub const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
pub const RECOVERY_POINT_CHECKPOINT: &str = "recovery-point-offset-checkpoint";
pub const LOG_START_CHECKPOINT: &str = "log-start-offset-checkpoint";
pub const HIGH_WATERMARK_CHECKPOINT: &str = "replication-offset-checkpoint";
pub const CLEANER_CHECKPOINT: &str = "cleaner-offset-checkpoint";
/// Belongs to tiered storage; the one directory that is no partition.
pub const REMOTE_INDEX_CACHE: &str = "remote-log-index-cache";

pub const LEADER_EPOCH_CHECKPOINT: &str = "leader-epoch-checkpoint";
pub const PARTITION_METADATA: &str = "partition.metadata";

/// The longest file name Kafka makes, as file systems allow no longer ones.
const NAME_LENGTH_MAX: usize = 255;

/// What a numbered file of a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileKind {
    Log,
    OffsetIndex,
    TimeIndex,
    TransactionIndex,
    /// Producer state up to, and without, the offset in the name.
    ProducerSnapshot,
}

impl FileKind {
    pub const ALL: [FileKind; 5] = [
        FileKind::Log,
        FileKind::OffsetIndex,
        FileKind::TimeIndex,
        FileKind::TransactionIndex,
        FileKind::ProducerSnapshot,
    ];

    pub fn extension(self) -> &'static str {
        match self {
            FileKind::Log => ".log",
            FileKind::OffsetIndex => ".index",
            FileKind::TimeIndex => ".timeindex",
            FileKind::TransactionIndex => ".txnindex",
            FileKind::ProducerSnapshot => ".snapshot",
        }
    }
}

/// What is going on with a numbered file, told by what follows its extension.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FileState {
    Current,
    /// Waiting to be removed.
    Deleted,
    /// Being written by compaction or by the splitting of a segment.
    Cleaned,
    /// Written whole, about to replace the segments whose offsets it covers.
    Swap,
}

impl FileState {
    pub fn suffix(self) -> &'static str {
        match self {
            FileState::Current => "",
            FileState::Deleted => ".deleted",
            FileState::Cleaned => ".cleaned",
            FileState::Swap => ".swap",
        }
    }
}

/// A numbered file of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileName {
    pub offset: Offset,
    pub kind: FileKind,
    pub state: FileState,
}

impl FileName {
    pub fn new(offset: Offset, kind: FileKind) -> FileName {
        FileName { offset, kind, state: FileState::Current }
    }

    #[must_use]
    pub fn in_state(self, state: FileState) -> FileName {
        FileName { state, ..self }
    }

    /// `None` for everything else a partition's directory may hold.
    pub fn parse(name: &str) -> Option<FileName> {
        let (name, state) = [FileState::Deleted, FileState::Cleaned, FileState::Swap]
            .into_iter()
            .find_map(|state| Some((name.strip_suffix(state.suffix())?, state)))
            .unwrap_or((name, FileState::Current));
        let (digits, kind) =
            FileKind::ALL.into_iter().find_map(|kind| Some((name.strip_suffix(kind.extension())?, kind)))?;
        if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        Some(FileName { offset: Offset(digits.parse().ok()?), kind, state })
    }
}

impl fmt::Display for FileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}{}{}", self.offset.0, self.kind.extension(), self.state.suffix())
    }
}

/// What a partition's directory is there for, told by the end of its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum DirectoryState {
    Current,
    /// The partition is deleted; the directory goes after a delay, also across a restart.
    Delete,
    /// A replica on its way here from another log dir of the same broker.
    Future,
    /// Set aside as not belonging to this broker.
    Stray,
}

impl DirectoryState {
    fn suffix(self) -> &'static str {
        match self {
            DirectoryState::Current => "",
            DirectoryState::Delete => "-delete",
            DirectoryState::Future => "-future",
            DirectoryState::Stray => "-stray",
        }
    }
}

/// The parsed name of a partition's directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DirectoryName {
    /// The topic of a deleted or stray partition may be cut short, see [`DirectoryName::aside`].
    pub partition: TopicPartition,
    pub state: DirectoryState,
}

/// Why a directory among the partitions is none. A broker does not start over one.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidDirectoryName {
    #[error("\"{0}\" is not of the form topic-partition")]
    NoPartition(String),
    #[error("\"{0}\" is not of the form topic-partition.uniqueid{suffix}", suffix = .1)]
    NoUniqueId(String, &'static str),
    #[error("the partition number in \"{0}\" is not a number from 0 to 2147483647")]
    PartitionNumber(String),
    #[error("the topic in \"{0}\" is no topic name: {1}")]
    Topic(String, #[source] InvalidTopicName),
}

impl DirectoryName {
    /// Splits at the last dash, as topics may hold dashes: `a-b-12` is partition 12 of `a-b`, and
    /// `foo-delete-0` an ordinary partition of `foo-delete`.
    pub fn parse(name: &str) -> Result<DirectoryName, InvalidDirectoryName> {
        let state = [DirectoryState::Delete, DirectoryState::Future, DirectoryState::Stray]
            .into_iter()
            .find(|state| name.ends_with(state.suffix()))
            .unwrap_or(DirectoryState::Current);
        let numbered = match state {
            DirectoryState::Current => name,
            _ => {
                let no_unique_id = || InvalidDirectoryName::NoUniqueId(name.to_owned(), state.suffix());
                let marked = name.strip_suffix(state.suffix()).ok_or_else(no_unique_id)?;
                let (numbered, unique_id) = marked.rsplit_once('.').ok_or_else(no_unique_id)?;
                if unique_id.is_empty() {
                    return Err(no_unique_id());
                }
                numbered
            }
        };
        let (topic, partition) =
            numbered.rsplit_once('-').ok_or_else(|| InvalidDirectoryName::NoPartition(name.to_owned()))?;
        let partition = Some(partition)
            .filter(|digits| !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit()))
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| InvalidDirectoryName::PartitionNumber(name.to_owned()))?;
        let topic =
            TopicName::new(topic).map_err(|error| InvalidDirectoryName::Topic(name.to_owned(), error))?;
        Ok(DirectoryName { partition: TopicPartition::new(topic, partition), state })
    }

    /// The name for a partition that is put aside; `unique` keeps several lives of one partition apart and
    /// should be random.
    ///
    /// Deleted and stray names cut the topic so that the whole fits a file system. A future one is never cut,
    /// as its topic must be found again: `None` when it does not fit.
    pub fn aside(partition: &TopicPartition, state: DirectoryState, unique: u128) -> Option<String> {
        if state == DirectoryState::Current {
            return Some(partition.to_string());
        }
        let rest = format!("-{}.{unique:032x}{}", partition.partition, state.suffix());
        let room = NAME_LENGTH_MAX - rest.len();
        let topic = partition.topic.as_str();
        if topic.len() > room && state == DirectoryState::Future {
            return None;
        }
        Some(format!("{}{rest}", &topic[..topic.len().min(room)]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbered_files_parse_and_print() {
        for (name, offset, kind, state) in [
            ("00000000000000000000.log", 0, FileKind::Log, FileState::Current),
            ("00000000000000000042.index", 42, FileKind::OffsetIndex, FileState::Current),
            ("00000000000000000042.timeindex.swap", 42, FileKind::TimeIndex, FileState::Swap),
            ("00000000000000000042.txnindex.cleaned", 42, FileKind::TransactionIndex, FileState::Cleaned),
            (
                "09223372036854775807.snapshot.deleted",
                i64::MAX,
                FileKind::ProducerSnapshot,
                FileState::Deleted,
            ),
        ] {
            let parsed = FileName::parse(name);
            assert_eq!(parsed, Some(FileName { offset: Offset(offset), kind, state }), "{name}");
            assert_eq!(parsed.unwrap().to_string(), name);
        }
    }

    #[test]
    fn other_files_are_not_numbered() {
        for name in [
            "leader-epoch-checkpoint",
            "partition.metadata",
            ".log",
            "x.log",
            "-1.log",
            "+1.log",
            "00000000000000000000.log.tmp",
            "99999999999999999999.log",
            "00000000000000000000.log.swap.deleted",
            "",
        ] {
            assert_eq!(FileName::parse(name), None, "{name}");
        }
    }

    #[test]
    fn directories_are_split_at_the_last_dash() {
        use DirectoryState::{Current, Delete, Future, Stray};
        let id = "0123456789abcdef0123456789abcdef";
        for (why, name, topic, partition, state) in [
            ("plain", "orders-0".to_owned(), "orders", 0, Current),
            ("a topic with dashes", "a-b-12".to_owned(), "a-b", 12, Current),
            ("a topic that starts with one", "-lead-0".to_owned(), "-lead", 0, Current),
            ("a topic that ends with one", "x--1".to_owned(), "x-", 1, Current),
            ("a topic that ends like a suffix", "foo-delete-0".to_owned(), "foo-delete", 0, Current),
            ("a topic with a dot, deleted", format!("a.b-0.{id}-delete"), "a.b", 0, Delete),
            ("on its way here", format!("x-0.{id}-future"), "x", 0, Future),
            ("set aside", format!("x-0.{id}-stray"), "x", 0, Stray),
            ("largest number", "x-2147483647".to_owned(), "x", i32::MAX, Current),
        ] {
            let parsed = DirectoryName::parse(&name).expect(why);
            assert_eq!(
                parsed.partition,
                TopicPartition::new(TopicName::new(topic).unwrap(), partition),
                "{why}"
            );
            assert_eq!(parsed.state, state, "{why}");
        }
    }

    #[test]
    fn directories_that_are_no_partitions_say_why() {
        for (name, expected) in [
            ("x-0-delete", InvalidDirectoryName::NoUniqueId("x-0-delete".into(), "-delete")),
            ("x-0.-stray", InvalidDirectoryName::NoUniqueId("x-0.-stray".into(), "-stray")),
            ("lost+found", InvalidDirectoryName::NoPartition("lost+found".into())),
            ("x-99999999999", InvalidDirectoryName::PartitionNumber("x-99999999999".into())),
            ("x-", InvalidDirectoryName::PartitionNumber("x-".into())),
            ("x-+1", InvalidDirectoryName::PartitionNumber("x-+1".into())),
            ("-0", InvalidDirectoryName::Topic("-0".into(), InvalidTopicName::Empty)),
            ("..-0", InvalidDirectoryName::Topic("..-0".into(), InvalidTopicName::Dots)),
        ] {
            assert_eq!(DirectoryName::parse(name), Err(expected), "{name}");
        }
    }

    #[test]
    fn names_put_aside_fit_the_file_system_and_parse_again() {
        let long = TopicPartition::new(TopicName::new(&"t".repeat(249)).unwrap(), 7);
        let deleted = DirectoryName::aside(&long, DirectoryState::Delete, 0xabc).unwrap();
        assert_eq!(deleted.len(), 255);
        assert!(deleted.ends_with("-7.00000000000000000000000000000abc-delete"));
        assert_eq!(DirectoryName::parse(&deleted).unwrap().state, DirectoryState::Delete);
        assert_eq!(DirectoryName::aside(&long, DirectoryState::Future, 0xabc), None, "must not be cut");

        let short = TopicPartition::new(TopicName::new("t").unwrap(), 7);
        for state in [DirectoryState::Delete, DirectoryState::Future, DirectoryState::Stray] {
            let name = DirectoryName::aside(&short, state, u128::MAX).unwrap();
            assert_eq!(DirectoryName::parse(&name), Ok(DirectoryName { partition: short.clone(), state }));
        }
    }
}
