//! `inter.broker.protocol.version`: which Kafka the brokers of a cluster speak like.

use std::fmt;
use std::str::FromStr;

/// A level of the protocol between brokers and of what is kept in ZooKeeper.
///
/// Ordered: `version >= ProtocolVersion::V2_8_IV0` asks for a feature. A release such as `2.8` is its last
/// level.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProtocolVersion(usize);

/// The text names no level that we know.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no version of Kafka's inter-broker protocol up to {latest}", latest = ProtocolVersion::LATEST)]
pub struct UnknownProtocolVersion(String);

/// Every level, oldest first: the release, and the level within it where there were several.
const LEVELS: &[&str] = &[
    "0.8.0",
    "0.8.1",
    "0.8.2",
    "0.9.0",
    "0.10.0-IV0",
    "0.10.0-IV1",
    "0.10.1-IV0",
    "0.10.1-IV1",
    "0.10.1-IV2",
    "0.10.2-IV0",
    "0.11.0-IV0",
    "0.11.0-IV1",
    "0.11.0-IV2",
    "1.0-IV0",
    "1.1-IV0",
    "2.0-IV0",
    "2.0-IV1",
    "2.1-IV0",
    "2.1-IV1",
    "2.1-IV2",
    "2.2-IV0",
    "2.2-IV1",
    "2.3-IV0",
    "2.3-IV1",
    "2.4-IV0",
    "2.4-IV1",
    "2.5-IV0",
    "2.6-IV0",
    "2.7-IV0",
    "2.7-IV1",
    "2.7-IV2",
    "2.8-IV0",
    "2.8-IV1",
    "3.0-IV0",
    "3.0-IV1",
    "3.1-IV0",
    "3.2-IV0",
    "3.3-IV0",
    "3.3-IV1",
    "3.3-IV2",
    "3.3-IV3",
    "3.4-IV0",
    "3.5-IV0",
    "3.5-IV1",
    "3.5-IV2",
    "3.6-IV0",
    "3.6-IV1",
    "3.6-IV2",
    "3.7-IV0",
    "3.7-IV1",
    "3.7-IV2",
    "3.7-IV3",
    "3.7-IV4",
    "3.8-IV0",
    "3.9-IV0",
];

impl ProtocolVersion {
    pub const OLDEST: ProtocolVersion = ProtocolVersion(0);
    pub const LATEST: ProtocolVersion = ProtocolVersion(LEVELS.len() - 1);

    /// Listener names in broker registrations (version 4).
    pub const V0_10_0_IV1: ProtocolVersion = level("0.10.0-IV1");
    /// Rebalance timeouts in records of groups.
    pub const V0_10_1_IV0: ProtocolVersion = level("0.10.1-IV0");
    /// zstd, and commits that leave their expiry to the broker.
    pub const V2_1_IV0: ProtocolVersion = level("2.1-IV0");
    /// Leader epochs in committed offsets.
    pub const V2_1_IV1: ProtocolVersion = level("2.1-IV1");
    /// Static members of groups.
    pub const V2_3_IV0: ProtocolVersion = level("2.3-IV0");
    /// Features in broker registrations (version 5), and the `/feature` znode.
    pub const V2_7_IV0: ProtocolVersion = level("2.7-IV0");
    /// Followers truncate by the epochs in fetch answers.
    pub const V2_7_IV1: ProtocolVersion = level("2.7-IV1");
    /// ISR changes go through the controller (AlterPartition).
    pub const V2_7_IV2: ProtocolVersion = level("2.7-IV2");
    /// Topic ids in ZooKeeper.
    pub const V2_8_IV0: ProtocolVersion = level("2.8-IV0");
    /// Topic ids in LeaderAndIsr and UpdateMetadata.
    pub const V2_8_IV1: ProtocolVersion = level("2.8-IV1");
    /// Producer ids in blocks from the controller.
    pub const V3_0_IV0: ProtocolVersion = level("3.0-IV0");
    /// Records are kept in format 2, whatever the configuration says.
    pub const V3_0_IV1: ProtocolVersion = level("3.0-IV1");
    /// Topic ids in fetches.
    pub const V3_1_IV0: ProtocolVersion = level("3.1-IV0");
    /// The recovery state of a partition's leader.
    pub const V3_2_IV0: ProtocolVersion = level("3.2-IV0");
    /// Version 2 of the `/feature` znode.
    pub const V3_3_IV0: ProtocolVersion = level("3.3-IV0");
}

/// The level with this name; a name that does not exist fails the build.
const fn level(name: &str) -> ProtocolVersion {
    let mut i = 0;
    while i < LEVELS.len() {
        if same(LEVELS[i].as_bytes(), name.as_bytes()) {
            return ProtocolVersion(i);
        }
        i += 1;
    }
    panic!("no such level")
}

const fn same(a: &[u8], b: &[u8]) -> bool {
    if a.len() != b.len() {
        return false;
    }
    let mut i = 0;
    while i < a.len() {
        if a[i] != b[i] {
            return false;
        }
        i += 1;
    }
    true
}

impl FromStr for ProtocolVersion {
    type Err = UnknownProtocolVersion;

    /// As Kafka reads it: the first two numbers name the release (three for `0.x`), and what follows a third
    /// number is not looked at, so that `2.8.1` is `2.8`.
    fn from_str(text: &str) -> Result<ProtocolVersion, UnknownProtocolVersion> {
        if let Some(exact) = LEVELS.iter().position(|level| *level == text) {
            return Ok(ProtocolVersion(exact));
        }
        let numbers = if text.starts_with("0.") { 3 } else { 2 };
        let release = match text.match_indices('.').nth(numbers - 1) {
            Some((end, _)) if end + 1 < text.len() => &text[..end],
            _ => text,
        };
        LEVELS
            .iter()
            .rposition(|level| *level == release || level.split("-IV").next() == Some(release))
            .map(ProtocolVersion)
            .ok_or_else(|| UnknownProtocolVersion(text.to_owned()))
    }
}

impl fmt::Display for ProtocolVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(LEVELS[self.0])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_as_kafka_reads_them() {
        for (text, level) in [
            ("0.8.2.1", Some("0.8.2")),
            ("0.8", None),
            ("0.10.0", Some("0.10.0-IV1")),
            ("0.10.0.1", Some("0.10.0-IV1")),
            ("0.10.0-IV0", Some("0.10.0-IV0")),
            ("0.11.0", Some("0.11.0-IV2")),
            ("1", None),
            ("1.0.0-IV0", Some("1.0-IV0")),
            ("2.8", Some("2.8-IV1")),
            ("2.8.1", Some("2.8-IV1")),
            ("2.8-IV0", Some("2.8-IV0")),
            ("2.8.1-IV0", Some("2.8-IV1")),
            ("2.8-IV0.1", Some("2.8-IV0")),
            ("2.8-IV7", None),
            ("2.8.", None),
            ("3.9", Some("3.9-IV0")),
            ("3.10", None),
            ("02.8", None),
            ("4.0-IV1", None),
            ("", None),
        ] {
            assert_eq!(
                text.parse::<ProtocolVersion>().ok().map(|v| v.to_string()).as_deref(),
                level,
                "{text:?}"
            );
        }
    }

    #[test]
    fn levels_are_in_order() {
        assert!(ProtocolVersion::V0_10_0_IV1 < ProtocolVersion::V2_1_IV0);
        assert!(ProtocolVersion::V2_7_IV2 < ProtocolVersion::V2_8_IV0);
        assert!(ProtocolVersion::V3_3_IV0 < ProtocolVersion::LATEST);
    }
}
