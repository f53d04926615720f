//! Topic names and the partitions they have.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// The longest legal topic name, in characters (which are all one byte).
pub const TOPIC_NAME_LENGTH_MAX: usize = 249;

/// A topic's name, proven to follow Kafka's rules; cheap to clone.
///
/// Letters, digits, `.`, `_` and `-`, at most 249 of them, and neither `.` nor `..`: so a name can be part of
/// a file name and never leaves the data directory.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicName(Arc<str>);

/// Why a topic name was refused; the text is what Kafka's own clients are shown.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidTopicName {
    #[error("topic name is illegal, it can't be empty")]
    Empty,
    #[error("topic name cannot be \".\" or \"..\"")]
    Dots,
    #[error(
        "topic name is illegal, it can't be longer than {TOPIC_NAME_LENGTH_MAX} characters, topic name has {0}"
    )]
    TooLong(usize),
    #[error(
        "topic name \"{}\" is illegal, it contains a character other than ASCII alphanumerics, '.', '_' and '-'",
        .0.escape_debug()
    )]
    Character(String),
}

impl TopicName {
    pub fn new(name: &str) -> Result<TopicName, InvalidTopicName> {
        if name.is_empty() {
            return Err(InvalidTopicName::Empty);
        }
        if name == "." || name == ".." {
            return Err(InvalidTopicName::Dots);
        }
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-')) {
            let shown: String = name.chars().take(TOPIC_NAME_LENGTH_MAX).collect();
            return Err(InvalidTopicName::Character(shown));
        }
        if name.len() > TOPIC_NAME_LENGTH_MAX {
            return Err(InvalidTopicName::TooLong(name.len()));
        }
        Ok(TopicName(Arc::from(name)))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether the two names would share a metric name: Kafka's metrics turn `.` into `_`.
    pub fn collides_with(&self, other: &TopicName) -> bool {
        self != other
            && self.len() == other.len()
            && self.bytes().zip(other.bytes()).all(|(a, b)| {
                let flat = |c| if c == b'.' { b'_' } else { c };
                flat(a) == flat(b)
            })
    }
}

impl Deref for TopicName {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl Borrow<str> for TopicName {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for TopicName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&*self.0, f)
    }
}

/// One partition of one topic; also the name of its directory.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TopicPartition {
    pub topic: TopicName,
    pub partition: i32,
}

impl TopicPartition {
    pub fn new(topic: TopicName, partition: i32) -> TopicPartition {
        TopicPartition { topic, partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_follow_kafkas_rules() {
        let longest = "a".repeat(249);
        for (why, name, legal) in [
            ("plain", "orders", true),
            ("every kind of character", "A.z_0-9", true),
            ("a leading dash is legal", "-lead", true),
            ("three dots are a name", "...", true),
            ("the longest", longest.as_str(), true),
            ("empty", "", false),
            ("this directory", ".", false),
            ("the parent directory", "..", false),
            ("space", "a b", false),
            ("path separator", "a/b", false),
            ("escape from the directory", "../x", false),
            ("not ASCII", "ü", false),
            ("NUL", "a\0b", false),
            ("one too long", &"a".repeat(250), false),
        ] {
            assert_eq!(TopicName::new(name).is_ok(), legal, "{why}");
        }
    }

    #[test]
    fn only_dots_and_underscores_collide() {
        let name = |s| TopicName::new(s).unwrap();
        assert!(name("a.b").collides_with(&name("a_b")));
        assert!(!name("a.b").collides_with(&name("a.b")), "a name does not collide with itself");
        assert!(!name("a.b").collides_with(&name("a-b")));
        assert!(!name("a.b").collides_with(&name("a_bc")));
    }
}
