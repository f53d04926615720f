//! Settings of clients from `--producer-property`, `--consumer.config` and their like.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use ottla_client::ClientOptions;

/// Why settings cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum PropertyError {
    #[error("cannot read {}: {source}", path.display())]
    Unreadable { path: PathBuf, source: std::io::Error },
    #[error("{}: {source}", path.display())]
    Malformed { path: PathBuf, source: ottla_properties::ParseError },
    #[error(
        "security.protocol={0} is beyond this client, which speaks PLAINTEXT only; use the port of a PLAINTEXT listener"
    )]
    Security(String),
    /// In Kafka's words.
    #[error("Invalid value {value} for configuration {name}: {expected}")]
    Value { name: String, value: String, expected: &'static str },
}

/// Settings by Kafka's names. Remembers which of them were asked for, so that the others can be complained about.
#[derive(Debug, Default)]
pub struct ClientProperties {
    given: BTreeMap<String, String>,
    used: RefCell<BTreeSet<String>>,
}

impl ClientProperties {
    /// The settings of a file, and over them those of the command line.
    pub fn new(file: Option<&Path>, pairs: &[String]) -> Result<ClientProperties, PropertyError> {
        let mut given: BTreeMap<String, String> = BTreeMap::new();
        if let Some(path) = file {
            given.extend(read_file(path)?);
        }
        for pair in pairs {
            let (name, value) = split(pair);
            given.insert(name, value);
        }
        Ok(ClientProperties { given, used: RefCell::default() })
    }

    /// What a flag of its own says goes before all else.
    pub fn put(&mut self, name: &str, flag: Option<impl ToString>) {
        if let Some(value) = flag {
            self.given.insert(name.to_owned(), value.to_string());
        }
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        let value = self.given.get(name)?;
        self.used.borrow_mut().insert(name.to_owned());
        Some(value.trim())
    }

    /// One of the values that the property takes.
    pub fn choice<T: Copy>(
        &self,
        name: &str,
        expected: &'static str,
        choices: &[(&str, T)],
    ) -> Result<Option<T>, PropertyError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match choices.iter().find(|(choice, _)| *choice == text) {
            Some((_, value)) => Ok(Some(*value)),
            None => Err(PropertyError::Value { name: name.to_owned(), value: text.to_owned(), expected }),
        }
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>, PropertyError> {
        self.parsed(name, "Not a number of type LONG, 0 or more", |text| text.parse().ok())
    }

    pub fn boolean(&self, name: &str) -> Result<Option<bool>, PropertyError> {
        self.parsed(name, "Expected value to be either true or false", |text| {
            text.to_ascii_lowercase().parse().ok()
        })
    }

    fn parsed<T>(
        &self,
        name: &str,
        expected: &'static str,
        parse: impl FnOnce(&str) -> Option<T>,
    ) -> Result<Option<T>, PropertyError> {
        let Some(text) = self.text(name) else { return Ok(None) };
        match parse(text) {
            Some(value) => Ok(Some(value)),
            None => Err(PropertyError::Value { name: name.to_owned(), value: text.to_owned(), expected }),
        }
    }

    /// Takes what every client has.
    pub fn apply_to(&self, options: &mut ClientOptions) -> Result<(), PropertyError> {
        // To go on without the protection that was asked for would be worse than to stop.
        if let Some(protocol) = self.text("security.protocol").filter(|protocol| *protocol != "PLAINTEXT") {
            return Err(PropertyError::Security(protocol.to_owned()));
        }
        if let Some(id) = self.text("client.id") {
            options.connection.client_id = id.to_owned();
        }
        let durations = [
            ("request.timeout.ms", &mut options.connection.request_timeout),
            ("socket.connection.setup.timeout.ms", &mut options.connection.connect_timeout),
            ("metadata.max.age.ms", &mut options.metadata_max_age),
            ("retry.backoff.ms", &mut options.retry_backoff),
            ("retry.backoff.max.ms", &mut options.retry_backoff_max),
        ];
        for (name, duration) in durations {
            if let Some(ms) = self.number(name)? {
                *duration = Duration::from_millis(ms);
            }
        }
        Ok(())
    }

    /// Settings that nobody asked for: misspelt, or without meaning here.
    pub fn unused(&self) -> impl Iterator<Item = &str> {
        // Said on the command line, or without a counterpart in this program.
        const NEEDLESS: &[&str] = &["bootstrap.servers", "key.serializer", "value.serializer"];
        let used = self.used.borrow();
        let unused: Vec<&str> = self
            .given
            .keys()
            .map(String::as_str)
            .filter(|name| !used.contains(*name) && !NEEDLESS.contains(name))
            .collect();
        unused.into_iter()
    }
}

/// `NAME=VALUE`; later `=` belong to the value. A name alone stands for an empty value.
pub fn split(pair: &str) -> (String, String) {
    let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
    (name.trim().to_owned(), value.to_owned())
}

/// A Java properties file.
pub fn read_file(path: &Path) -> Result<Vec<(String, String)>, PropertyError> {
    let unreadable = |source| PropertyError::Unreadable { path: path.to_owned(), source };
    let malformed = |source| PropertyError::Malformed { path: path.to_owned(), source };
    let bytes = std::fs::read(path).map_err(unreadable)?;
    let properties = ottla_properties::parse(&bytes).map_err(malformed)?;
    Ok(properties.entries().iter().map(|entry| (entry.key.clone(), entry.value.clone())).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unused_settings_are_known_by_name() {
        let pairs = ["acks=1", "linger.ms=5", "no.such=x"].map(str::to_owned);
        let given = ClientProperties::new(None, &pairs).unwrap();
        assert_eq!(given.text("acks"), Some("1"));
        assert_eq!(given.number("linger.ms").unwrap(), Some(5));
        assert_eq!(given.unused().collect::<Vec<_>>(), ["no.such"]);
    }

    #[test]
    fn bad_values_name_the_setting_and_what_it_takes() {
        let given = ClientProperties::new(None, &["linger.ms=soon".to_owned()]).unwrap();
        let error = given.number("linger.ms").unwrap_err();
        assert_eq!(
            error.to_string(),
            "Invalid value soon for configuration linger.ms: Not a number of type LONG, 0 or more"
        );
    }

    #[test]
    fn a_name_alone_has_an_empty_value() {
        let given = ClientProperties::new(None, &["acks".to_owned()]).unwrap();
        assert_eq!(given.text("acks"), Some(""));
    }

    #[test]
    fn protection_that_cannot_be_given_is_refused() {
        let given = ClientProperties::new(None, &["security.protocol=SSL".to_owned()]).unwrap();
        let refused = given.apply_to(&mut ClientOptions::default()).unwrap_err();
        assert!(matches!(refused, PropertyError::Security(protocol) if protocol == "SSL"));
    }
}
