//! Java properties files, read and written as `java.util.Properties` does.
//!
//! Kafka's and ZooKeeper's configuration and Kafka's `meta.properties` are such files. The syntax is that of
//! `Properties.load(InputStream)`: Latin-1 bytes, logical lines joined by a trailing backslash, a key ended
//! by the first unescaped `=`, `:` or blank. Blanks at the end of a value belong to it, quotes are ordinary
//! characters, and a byte order mark is part of the first key. Trimming and typing are the reader's caller's.

mod load;
mod store;

pub use load::{Malformed, ParseError, parse};
pub use store::{escape_key, escape_value, store};

/// One `key=value` of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub key: String,
    pub value: String,
    /// The line the entry starts on, counted from 1; what an error message should name.
    pub line: usize,
}

/// The entries of a file in its order, overridden ones included.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Properties {
    entries: Vec<Entry>,
}

impl Properties {
    /// The value of `key`; of several, the last.
    pub fn get(&self, key: &str) -> Option<&str> {
        self.entry(key).map(|entry| entry.value.as_str())
    }

    /// The entry that decides `key`: of several, the last.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.entries.iter().rfind(|entry| entry.key == key)
    }

    /// Every entry as the file has them; a key that is given twice is here twice, and the later one counts.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
