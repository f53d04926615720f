//! Which topics a pattern on the command line means.

use fancy_regex::Regex;

/// A pattern for whole names, as Kafka's tools read it: a comma is "or", blanks and quotes around it are dropped.
///
/// Java's look-ahead is understood, since `^(?!__).*` is how scripts say "all but the internal ones".
#[derive(Debug)]
pub struct TopicFilter(Regex);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0} is an invalid regex.")]
pub struct InvalidPattern(String);

impl TopicFilter {
    pub fn new(pattern: &str) -> Result<TopicFilter, InvalidPattern> {
        let quotes = ['"', '\''];
        let pattern = pattern.trim().replace(',', "|").replace(' ', "");
        let pattern = pattern.trim_matches(quotes);
        match Regex::new(&format!("^(?:{pattern})$")) {
            Ok(regex) => Ok(TopicFilter(regex)),
            Err(_) => Err(InvalidPattern(pattern.to_owned())),
        }
    }

    pub fn matches(&self, topic: &str) -> bool {
        // A pattern that backtracks without end matches nothing.
        self.0.is_match(topic).unwrap_or(false)
    }
}

/// Whether a topic is Kafka's own.
pub fn is_internal(topic: &str) -> bool {
    matches!(topic, "__consumer_offsets" | "__transaction_state")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_for_whole_names() {
        for (why, pattern, topic, matches) in [
            ("a plain name", "orders", "orders", true),
            ("not a part of one", "orders", "orders2", false),
            ("nor another part", "rders", "orders", false),
            ("a pattern", "ord.*", "orders", true),
            ("a dot is any character", "a.b", "axb", true),
            ("unless escaped", r"a\.b", "axb", false),
            ("a comma is or", "a,b", "b", true),
            ("blanks do not count", " a , b ", "a", true),
            ("quotes from a properties file", "\"a|b\"", "b", true),
            ("look-ahead", "^(?!__).*", "orders", true),
            ("look-ahead, refused", "^(?!__).*", "__consumer_offsets", false),
            ("or binds the whole pattern", "a|b", "bc", false),
        ] {
            assert_eq!(TopicFilter::new(pattern).unwrap().matches(topic), matches, "{why}");
        }
        assert_eq!(TopicFilter::new("a[").unwrap_err().to_string(), "a[ is an invalid regex.");
    }
}
