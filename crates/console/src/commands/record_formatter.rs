//! Records as lines, as Kafka's DefaultMessageFormatter writes them.

use std::io::{self, Write};

use ottla_protocol::records::Record;

use super::line_reader::InvalidProperty;

/// What is shown of a record: the `--property` settings of the console consumer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordFormat {
    pub print_timestamp: bool,
    pub print_partition: bool,
    pub print_offset: bool,
    pub print_headers: bool,
    pub print_key: bool,
    pub print_value: bool,
    /// Between two fields of a record.
    pub key_separator: String,
    /// Behind every record.
    pub line_separator: String,
    /// Between two headers.
    pub headers_separator: String,
    /// What null is shown as.
    pub null_literal: String,
}

impl Default for RecordFormat {
    fn default() -> RecordFormat {
        RecordFormat {
            print_timestamp: false,
            print_partition: false,
            print_offset: false,
            print_headers: false,
            print_key: false,
            print_value: true,
            key_separator: "\t".to_owned(),
            line_separator: "\n".to_owned(),
            headers_separator: ",".to_owned(),
            null_literal: "null".to_owned(),
        }
    }
}

impl RecordFormat {
    /// Takes one `--property`. `false` if the name means nothing to the formatter.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, InvalidProperty> {
        let boolean = || match value.trim() {
            text if text.eq_ignore_ascii_case("true") => Ok(true),
            text if text.eq_ignore_ascii_case("false") => Ok(false),
            _ => Err(InvalidProperty::NotBoolean(name.to_owned(), value.to_owned())),
        };
        match name {
            "print.timestamp" => self.print_timestamp = boolean()?,
            "print.partition" => self.print_partition = boolean()?,
            "print.offset" => self.print_offset = boolean()?,
            "print.headers" => self.print_headers = boolean()?,
            "print.key" => self.print_key = boolean()?,
            "print.value" => self.print_value = boolean()?,
            "key.separator" => self.key_separator = value.to_owned(),
            "line.separator" => self.line_separator = value.to_owned(),
            "headers.separator" => self.headers_separator = value.to_owned(),
            "null.literal" => self.null_literal = value.to_owned(),
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes one record:
    /// `[CreateTime:ms<sep>][Partition:n<sep>][Offset:n<sep>][headers<sep>][key<sep>][value]<line separator>`.
    pub fn write(&self, out: &mut impl Write, partition: i32, record: &Record<'_>) -> io::Result<()> {
        let mut line = Line { out, separator: self.key_separator.as_bytes(), first: true };
        if self.print_timestamp {
            match record.timestamp.0 {
                -1 => line.field(b"NO_TIMESTAMP")?,
                ms => line.field(format!("CreateTime:{ms}").as_bytes())?,
            }
        }
        if self.print_partition {
            line.field(format!("Partition:{partition}").as_bytes())?;
        }
        if self.print_offset {
            line.field(format!("Offset:{}", record.offset).as_bytes())?;
        }
        if self.print_headers {
            line.field(&self.headers(record))?;
        }
        if self.print_key {
            line.field(record.key.unwrap_or(self.null_literal.as_bytes()))?;
        }
        if self.print_value {
            line.field(record.value.unwrap_or(self.null_literal.as_bytes()))?;
        }
        out.write_all(self.line_separator.as_bytes())
    }

    fn headers(&self, record: &Record<'_>) -> Vec<u8> {
        let mut text = Vec::new();
        for header in record.headers.iter() {
            if !text.is_empty() {
                text.extend_from_slice(self.headers_separator.as_bytes());
            }
            text.extend_from_slice(header.key);
            text.push(b':');
            text.extend_from_slice(header.value.unwrap_or(self.null_literal.as_bytes()));
        }
        if text.is_empty() { b"NO_HEADERS".to_vec() } else { text }
    }
}

struct Line<'a, W> {
    out: &'a mut W,
    separator: &'a [u8],
    first: bool,
}

impl<W: Write> Line<'_, W> {
    fn field(&mut self, text: &[u8]) -> io::Result<()> {
        if !std::mem::take(&mut self.first) {
            self.out.write_all(self.separator)?;
        }
        self.out.write_all(text)
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use ottla_model::Timestamp;
    use ottla_protocol::records::{Batch, BatchBuilder, RecordHeader};

    use super::*;

    type Header<'a> = (&'a str, Option<&'a str>);

    fn line(
        properties: &[(&str, &str)],
        key: Option<&str>,
        value: Option<&str>,
        headers: &[Header<'_>],
    ) -> String {
        let mut format = RecordFormat::default();
        for (name, value) in properties {
            assert!(format.set(name, value).unwrap());
        }
        let headers: Vec<RecordHeader<'_>> = headers
            .iter()
            .map(|(key, value)| RecordHeader { key: key.as_bytes(), value: value.map(str::as_bytes) })
            .collect();
        let mut builder = BatchBuilder::new();
        builder.append(Timestamp(1000), key.map(str::as_bytes), value.map(str::as_bytes), &headers);
        let bytes: Bytes = builder.finish();
        let batch = Batch::parse(&bytes).unwrap().unwrap();
        let mut out = Vec::new();
        for record in batch.records(1 << 20).unwrap().iter().unwrap() {
            format.write(&mut out, 3, &record.unwrap()).unwrap();
        }
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn records_are_written_as_kafka_writes_them() {
        let everything = [
            ("print.timestamp", "true"),
            ("print.partition", "true"),
            ("print.offset", "true"),
            ("print.headers", "true"),
            ("print.key", "true"),
        ];
        let bare = ("print.value", "false");
        assert_eq!(line(&[], Some("k"), Some("v"), &[]), "v\n");
        assert_eq!(line(&[], None, None, &[]), "null\n");
        assert_eq!(line(&[("print.key", "true")], None, Some("v"), &[]), "null\tv\n");
        assert_eq!(line(&[("print.key", "true"), bare], Some("k"), Some("v"), &[]), "k\n");
        assert_eq!(
            line(&everything, Some("k"), Some("v"), &[("a", Some("1")), ("b", None)]),
            "CreateTime:1000\tPartition:3\tOffset:0\ta:1,b:null\tk\tv\n"
        );
        assert_eq!(line(&[("print.headers", "true")], None, Some("v"), &[]), "NO_HEADERS\tv\n");
        assert_eq!(line(&[("line.separator", "|")], None, Some("v"), &[]), "v|");
    }
}
