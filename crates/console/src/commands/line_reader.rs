//! Lines of input into records, as Kafka's LineMessageReader makes them.

use std::borrow::Cow;

use ottla_protocol::records::RecordHeader;

/// How a line is taken apart: the `--property` settings of the console producer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFormat {
    /// `parse.key`.
    pub parse_key: bool,
    /// `key.separator`.
    pub key_separator: String,
    /// `parse.headers`.
    pub parse_headers: bool,
    /// `headers.delimiter`: between the headers and what follows.
    pub headers_delimiter: String,
    /// `headers.separator`: between two headers.
    pub headers_separator: String,
    /// `headers.key.separator`: between a header's key and its value.
    pub headers_key_separator: String,
    /// `ignore.error`: take the whole line as the value where a separator is missing.
    pub ignore_error: bool,
    /// `null.marker`: this text stands for null.
    pub null_marker: Option<String>,
}

impl Default for LineFormat {
    fn default() -> LineFormat {
        LineFormat {
            parse_key: false,
            key_separator: "\t".to_owned(),
            parse_headers: false,
            headers_delimiter: "\t".to_owned(),
            headers_separator: ",".to_owned(),
            headers_key_separator: ":".to_owned(),
            ignore_error: false,
            null_marker: None,
        }
    }
}

/// Settings that contradict each other.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFormat {
    #[error("{0} and {1} may not be equal")]
    Equal(&'static str, &'static str),
    #[error("{0} may not be empty")]
    Empty(&'static str),
}

/// A line that does not hold what the format asks for.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidLine {
    #[error("No key separator found on line number {line}: '{text}'")]
    Key { line: u64, text: String },
    #[error("No headers delimiter found on line number {line}: '{text}'")]
    Headers { line: u64, text: String },
    #[error("No header key separator found in pair '{pair}' on line number {line}")]
    HeaderKey { line: u64, pair: String },
    #[error(
        "Header keys should not be equal to the null marker '{marker}' as they can't be null (line number {line})"
    )]
    NullHeaderKey { line: u64, marker: String },
}

/// One record, borrowed from its line.
#[derive(Debug, Default, PartialEq)]
pub struct LineRecord<'a> {
    pub key: Option<&'a [u8]>,
    pub value: Option<&'a [u8]>,
    pub headers: Vec<RecordHeader<'a>>,
}

impl LineFormat {
    /// Takes one `--property`. `false` if the name means nothing to the reader.
    pub fn set(&mut self, name: &str, value: &str) -> bool {
        match name {
            "parse.key" => self.parse_key = is_true(name, value),
            "key.separator" => self.key_separator = value.to_owned(),
            "parse.headers" => self.parse_headers = is_true(name, value),
            "headers.delimiter" => self.headers_delimiter = value.to_owned(),
            "headers.separator" => self.headers_separator = value.to_owned(),
            "headers.key.separator" => self.headers_key_separator = value.to_owned(),
            "ignore.error" => self.ignore_error = is_true(name, value),
            "null.marker" => self.null_marker = Some(value.to_owned()),
            _ => return false,
        }
        true
    }

    /// Refuses what no line could be taken apart with.
    pub fn check(&self) -> Result<(), InvalidFormat> {
        let (delimiter, separator, key_separator) = (
            ("headers.delimiter", self.headers_delimiter.as_str()),
            ("headers.separator", self.headers_separator.as_str()),
            ("headers.key.separator", self.headers_key_separator.as_str()),
        );
        let key = ("key.separator", self.key_separator.as_str());
        let mut different =
            vec![(delimiter, separator), (delimiter, key_separator), (separator, key_separator)];
        if let Some(marker) = &self.null_marker {
            let marker = ("null.marker", marker.as_str());
            different.extend([key, separator, delimiter, key_separator].map(|other| (marker, other)));
        }
        for ((name, value), (other_name, other)) in different {
            if value == other {
                return Err(InvalidFormat::Equal(name, other_name));
            }
        }
        let used = [(self.parse_key, key), (self.parse_headers, delimiter)];
        let in_headers = [(self.parse_headers, separator), (self.parse_headers, key_separator)];
        match used.iter().chain(&in_headers).find(|(used, (_, value))| *used && value.is_empty()) {
            Some((_, (name, _))) => Err(InvalidFormat::Empty(name)),
            None => Ok(()),
        }
    }

    /// Takes a line apart; `number` counts from 1, for complaints.
    pub fn parse<'a>(&self, line: &'a [u8], number: u64) -> Result<LineRecord<'a>, InvalidLine> {
        let mut record = LineRecord::default();
        let mut rest = line;
        if self.parse_headers {
            match split(rest, &self.headers_delimiter) {
                Some((headers, after)) => {
                    record.headers = self.headers(headers, number)?;
                    rest = after;
                }
                None if self.ignore_error => {}
                None => {
                    let text = lossy(line).into_owned();
                    return Err(InvalidLine::Headers { line: number, text });
                }
            }
        }
        if self.parse_key {
            match split(rest, &self.key_separator) {
                Some((key, after)) => {
                    record.key = self.unless_null(key);
                    rest = after;
                }
                None if self.ignore_error => {}
                None => {
                    let text = lossy(line).into_owned();
                    return Err(InvalidLine::Key { line: number, text });
                }
            }
        }
        record.value = self.unless_null(rest);
        Ok(record)
    }

    fn headers<'a>(&self, text: &'a [u8], line: u64) -> Result<Vec<RecordHeader<'a>>, InvalidLine> {
        if self.unless_null(text).is_none() {
            return Ok(Vec::new());
        }
        let mut headers = Vec::new();
        // Separators at the end have no pairs behind them, as Java splits.
        let mut text = text;
        while let Some(before) = text.strip_suffix(self.headers_separator.as_bytes()) {
            text = before;
        }
        let mut rest = Some(text);
        while let Some(text) = rest {
            let (pair, after) = match split(text, &self.headers_separator) {
                Some((pair, after)) => (pair, Some(after)),
                None => (text, None),
            };
            rest = after;
            let (key, value) = match split(pair, &self.headers_key_separator) {
                Some((key, value)) => (key, self.unless_null(value)),
                None if self.ignore_error => (pair, None),
                None => {
                    return Err(InvalidLine::HeaderKey { line, pair: lossy(pair).into_owned() });
                }
            };
            if self.unless_null(key).is_none() {
                return Err(InvalidLine::NullHeaderKey { line, marker: lossy(key).into_owned() });
            }
            headers.push(RecordHeader { key, value });
        }
        Ok(headers)
    }

    fn unless_null<'a>(&self, text: &'a [u8]) -> Option<&'a [u8]> {
        match &self.null_marker {
            Some(marker) if marker.as_bytes() == text => None,
            _ => Some(text),
        }
    }
}

/// Kafka takes everything but "true" for false.
pub fn is_true(name: &str, value: &str) -> bool {
    let value = value.trim();
    if !value.eq_ignore_ascii_case("true") && !value.eq_ignore_ascii_case("false") {
        tracing::warn!("{name}={value} counts as false; true is what switches it on");
    }
    value.eq_ignore_ascii_case("true")
}

fn split<'a>(text: &'a [u8], separator: &str) -> Option<(&'a [u8], &'a [u8])> {
    let separator = separator.as_bytes();
    let at = memchr::memmem::find(text, separator)?;
    Some((&text[..at], &text[at + separator.len()..]))
}

fn lossy(text: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(text)
}

/// Cuts lines out of pieces of input. The last line need not end in a newline.
#[derive(Debug, Default)]
pub struct LineSplitter {
    /// Input from the start of the first line that has not been given out.
    input: Vec<u8>,
    given: usize,
    /// There is no newline before this.
    searched: usize,
}

impl LineSplitter {
    pub fn push(&mut self, piece: &[u8]) {
        self.input.drain(..self.given);
        self.searched -= self.given;
        self.given = 0;
        self.input.extend_from_slice(piece);
    }

    /// The next whole line, without its `\n` or `\r\n`.
    pub fn next_line(&mut self) -> Option<&[u8]> {
        match memchr::memchr(b'\n', &self.input[self.searched..]) {
            None => {
                self.searched = self.input.len();
                None
            }
            Some(at) => {
                let (start, end) = (self.given, self.searched + at);
                self.given = end + 1;
                self.searched = self.given;
                Some(without_return(&self.input[start..end]))
            }
        }
    }

    /// The line that the input ended in, if it did not end in a newline.
    pub fn last_line(&self) -> Option<&[u8]> {
        let rest = &self.input[self.given..];
        (!rest.is_empty()).then(|| without_return(rest))
    }
}

fn without_return(line: &[u8]) -> &[u8] {
    line.strip_suffix(b"\r").unwrap_or(line)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(properties: &[(&str, &str)]) -> LineFormat {
        let mut format = LineFormat::default();
        for (name, value) in properties {
            assert!(format.set(name, value), "{name} is a property of the reader");
        }
        format
    }

    #[test]
    fn lines_become_records_as_the_properties_say() {
        let keyed = [("parse.key", "true"), ("key.separator", ":")];
        for (why, properties, line, key, value) in [
            ("the whole line", vec![], "a\tb", None, Some("a\tb")),
            ("an empty line", vec![], "", None, Some("")),
            ("key and value", keyed.to_vec(), "k:v:w", Some("k"), Some("v:w")),
            ("an empty key is a key", keyed.to_vec(), ":v", Some(""), Some("v")),
            (
                "no separator, ignored",
                [&keyed[..], &[("ignore.error", "true")]].concat(),
                "plain",
                None,
                Some("plain"),
            ),
            ("null value", [&keyed[..], &[("null.marker", "NULL")]].concat(), "k:NULL", Some("k"), None),
            ("null key", [&keyed[..], &[("null.marker", "NULL")]].concat(), "NULL:v", None, Some("v")),
        ] {
            let record = format(&properties).parse(line.as_bytes(), 1).unwrap();
            assert_eq!(record.key, key.map(str::as_bytes), "{why}");
            assert_eq!(record.value, value.map(str::as_bytes), "{why}");
        }
    }

    #[test]
    fn headers_come_first() {
        let format = format(&[("parse.headers", "true"), ("parse.key", "true"), ("null.marker", "-")]);
        let record = format.parse(b"h1:a,h2:-,h1:b\tk\tv", 1).unwrap();
        let headers: Vec<_> = record.headers.iter().map(|header| (header.key, header.value)).collect();
        let expected: [(&[u8], Option<&[u8]>); 3] = [(b"h1", Some(b"a")), (b"h2", None), (b"h1", Some(b"b"))];
        assert_eq!(headers, expected, "a list with duplicates, not a map");
        assert_eq!((record.key, record.value), (Some(&b"k"[..]), Some(&b"v"[..])));
        assert!(format.parse(b"-\tk\tv", 1).unwrap().headers.is_empty());
        assert_eq!(
            format.parse(b"h:a,,\tk\tv", 1).unwrap().headers.len(),
            1,
            "separators at the end are nothing"
        );
        assert!(matches!(format.parse(b"-:a\tk\tv", 1), Err(InvalidLine::NullHeaderKey { line: 1, .. })));
    }

    #[test]
    fn a_missing_separator_names_the_line() {
        let error = format(&[("parse.key", "true")]).parse(b"oops", 7).unwrap_err();
        assert_eq!(error.to_string(), "No key separator found on line number 7: 'oops'");
        let headers = format(&[("parse.headers", "true")]);
        assert!(matches!(headers.parse(b"oops", 1), Err(InvalidLine::Headers { .. })));
        assert!(matches!(headers.parse(b"a\tv", 1), Err(InvalidLine::HeaderKey { .. })));
    }

    #[test]
    fn settings_that_cannot_work_are_refused() {
        let refusal =
            |properties: &[(&str, &str)]| format(properties).check().map_err(|error| error.to_string());
        let refused = |said: &str| Err(said.to_owned());
        for (why, said, expected) in [
            ("the defaults", refusal(&[]), Ok(())),
            (
                "null looks like the separator",
                refusal(&[("null.marker", "a"), ("key.separator", "a")]),
                refused("null.marker and key.separator may not be equal"),
            ),
            (
                "headers end as their keys do",
                refusal(&[("headers.delimiter", ":")]),
                refused("headers.delimiter and headers.key.separator may not be equal"),
            ),
            (
                "nothing separates the key",
                refusal(&[("parse.key", "true"), ("key.separator", "")]),
                refused("key.separator may not be empty"),
            ),
            ("nothing separates a key that is not there", refusal(&[("key.separator", "")]), Ok(())),
        ] {
            assert_eq!(said, expected, "{why}");
        }
        assert!(!LineFormat::default().set("no.such", "x"));
        assert!(!format(&[("parse.key", "yes")]).parse_key, "only true is true");
    }

    #[test]
    fn lines_are_the_same_however_the_input_is_cut() {
        let input = b"one\ntwo\r\n\nlast";
        for cut in 0..=input.len() {
            let mut splitter = LineSplitter::default();
            let mut lines: Vec<Vec<u8>> = Vec::new();
            for piece in [&input[..cut], &input[cut..]] {
                splitter.push(piece);
                while let Some(line) = splitter.next_line() {
                    lines.push(line.to_vec());
                }
            }
            lines.extend(splitter.last_line().map(<[u8]>::to_vec));
            assert_eq!(lines, [&b"one"[..], b"two", b"", b"last"], "cut at {cut}");
        }
    }
}
