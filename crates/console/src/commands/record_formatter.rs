//! Records as lines, as Kafka's DefaultMessageFormatter writes them.

use std::io::{self, Write};

use ottla_protocol::records::Record;

use super::deserializer::{Deserializer, Undecodable, UnknownDeserializer};
use super::line_reader::is_true;

/// Why a record was not written, or not to its end.
#[derive(Debug, thiserror::Error)]
pub enum WriteError {
    #[error(transparent)]
    Output(#[from] io::Error),
    #[error(transparent)]
    Undecodable(#[from] Undecodable),
}

/// A class that `--formatter` does not know.
#[derive(Debug, thiserror::Error)]
#[error(
    "{0}: the formatters of this program are DefaultMessageFormatter, LoggingMessageFormatter and NoOpMessageFormatter"
)]
pub struct UnknownFormatter(String);

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
    pub key_deserializer: Deserializer,
    pub value_deserializer: Deserializer,
    pub headers_deserializer: Deserializer,
    /// Nothing is shown at all: NoOpMessageFormatter, to measure how fast reading is.
    pub silent: bool,
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
            key_deserializer: Deserializer::default(),
            value_deserializer: Deserializer::default(),
            headers_deserializer: Deserializer::default(),
            silent: false,
        }
    }
}

impl RecordFormat {
    /// Takes `--formatter`, by the last part of the class's name: packages changed with the releases.
    pub fn set_class(&mut self, class: &str) -> Result<(), UnknownFormatter> {
        self.silent = match class.rsplit(['.', '$']).next() {
            // What the second writes to its log besides is what the first writes here.
            Some("DefaultMessageFormatter" | "LoggingMessageFormatter") => false,
            Some("NoOpMessageFormatter") => true,
            _ => return Err(UnknownFormatter(class.to_owned())),
        };
        Ok(())
    }

    /// Takes one `--property`. `false` if the name means nothing to the formatter.
    pub fn set(&mut self, name: &str, value: &str) -> Result<bool, UnknownDeserializer> {
        match name {
            "print.timestamp" => self.print_timestamp = is_true(name, value),
            "print.partition" => self.print_partition = is_true(name, value),
            "print.offset" => self.print_offset = is_true(name, value),
            "print.headers" => self.print_headers = is_true(name, value),
            "print.key" => self.print_key = is_true(name, value),
            "print.value" => self.print_value = is_true(name, value),
            "key.separator" => self.key_separator = value.to_owned(),
            "line.separator" => self.line_separator = value.to_owned(),
            "headers.separator" => self.headers_separator = value.to_owned(),
            "null.literal" => self.null_literal = value.to_owned(),
            "key.deserializer" => self.key_deserializer = value.parse()?,
            "value.deserializer" => self.value_deserializer = value.parse()?,
            "headers.deserializer" => self.headers_deserializer = value.parse()?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Writes one record:
    /// `[CreateTime:ms<sep>][Partition:n<sep>][Offset:n<sep>][headers<sep>][key<sep>][value]<line separator>`.
    ///
    /// Allocates nothing. A record of which nothing is to be shown is not even an empty line.
    pub fn write(&self, out: &mut impl Write, partition: i32, record: &Record<'_>) -> Result<(), WriteError> {
        if self.silent {
            return Ok(());
        }
        let mut line = Line { out, separator: self.key_separator.as_bytes(), empty: true };
        if self.print_timestamp {
            let out = line.field()?;
            match record.timestamp.0 {
                -1 => out.write_all(b"NO_TIMESTAMP")?,
                ms => write!(out, "CreateTime:{ms}")?,
            }
        }
        if self.print_partition {
            write!(line.field()?, "Partition:{partition}")?;
        }
        if self.print_offset {
            write!(line.field()?, "Offset:{}", record.offset)?;
        }
        if self.print_headers {
            self.write_headers(line.field()?, record)?;
        }
        if self.print_key {
            self.write_bytes(line.field()?, self.key_deserializer, record.key)?;
        }
        if self.print_value {
            self.write_bytes(line.field()?, self.value_deserializer, record.value)?;
        }
        if !line.empty {
            out.write_all(self.line_separator.as_bytes())?;
        }
        Ok(())
    }

    fn write_headers(&self, out: &mut impl Write, record: &Record<'_>) -> Result<(), WriteError> {
        if record.headers.is_empty() {
            out.write_all(b"NO_HEADERS")?;
        }
        for (number, header) in record.headers.iter().enumerate() {
            if number > 0 {
                out.write_all(self.headers_separator.as_bytes())?;
            }
            out.write_all(header.key)?;
            out.write_all(b":")?;
            self.write_bytes(out, self.headers_deserializer, header.value)?;
        }
        Ok(())
    }

    fn write_bytes(
        &self,
        out: &mut impl Write,
        deserializer: Deserializer,
        bytes: Option<&[u8]>,
    ) -> Result<(), WriteError> {
        match bytes {
            Some(bytes) => deserializer.write(bytes, out),
            None => Ok(out.write_all(self.null_literal.as_bytes())?),
        }
    }
}

struct Line<'a, W> {
    out: &'a mut W,
    separator: &'a [u8],
    empty: bool,
}

impl<W: Write> Line<'_, W> {
    /// Where the next field goes.
    fn field(&mut self) -> io::Result<&mut W> {
        if !std::mem::take(&mut self.empty) {
            self.out.write_all(self.separator)?;
        }
        Ok(self.out)
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
    fn formatters_are_known_by_the_end_of_their_names() {
        let mut format = RecordFormat::default();
        for (class, silent) in [
            ("kafka.consumer.DefaultMessageFormatter", false),
            ("org.apache.kafka.tools.consumer.NoOpMessageFormatter", true),
            ("kafka.tools.LoggingMessageFormatter", false),
        ] {
            format.set_class(class).unwrap();
            assert_eq!(format.silent, silent, "{class}");
        }
        assert!(
            format.set_class("com.example.Mine").unwrap_err().to_string().starts_with("com.example.Mine: ")
        );
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
        assert_eq!(line(&[bare], Some("k"), Some("v"), &[]), "", "nothing is not a line");
        let number = ("value.deserializer", "org.apache.kafka.common.serialization.LongDeserializer");
        assert_eq!(line(&[number], None, Some("\0\0\0\0\0\0\x01\0"), &[]), "256\n");
        assert_eq!(line(&[number], None, None, &[]), "null\n");
        assert_eq!(
            line(&everything, Some("k"), Some("v"), &[("a", Some("1")), ("b", None)]),
            "CreateTime:1000\tPartition:3\tOffset:0\ta:1,b:null\tk\tv\n"
        );
        assert_eq!(line(&[("print.headers", "true")], None, Some("v"), &[]), "NO_HEADERS\tv\n");
        assert_eq!(line(&[("line.separator", "|")], None, Some("v"), &[]), "v|");
    }
}
