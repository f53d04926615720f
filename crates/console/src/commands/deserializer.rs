//! Bytes shown as what a serializer of Kafka's made them from.

use std::io::Write;
use std::str::FromStr;

use super::record_formatter::WriteError;

/// How the bytes of a key, value or header are to be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deserializer {
    /// As they are: text, and whatever a terminal makes of the rest.
    #[default]
    Text,
    Short,
    Integer,
    Long,
    Float,
    Double,
    Boolean,
}

/// Bytes that are not what they were said to be.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error("Size of data received by {0:?}Deserializer is not {1} but {2}")]
pub struct Undecodable(Deserializer, usize, usize);

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0}: the deserializers of this program are String, ByteArray, ByteBuffer, Bytes, UUID, Short, Integer, Long, Float, Double and \
     Boolean, each with Deserializer behind it"
)]
pub struct UnknownDeserializer(String);

impl FromStr for Deserializer {
    type Err = UnknownDeserializer;

    /// Takes the name of a class, with or without its package.
    fn from_str(class: &str) -> Result<Deserializer, UnknownDeserializer> {
        let name = class.rsplit('.').next().unwrap_or(class);
        Ok(match name.strip_suffix("Deserializer") {
            Some("String" | "ByteArray" | "ByteBuffer" | "Bytes" | "UUID") => Deserializer::Text,
            Some("Short") => Deserializer::Short,
            Some("Integer") => Deserializer::Integer,
            Some("Long") => Deserializer::Long,
            Some("Float") => Deserializer::Float,
            Some("Double") => Deserializer::Double,
            Some("Boolean") => Deserializer::Boolean,
            _ => return Err(UnknownDeserializer(class.to_owned())),
        })
    }
}

impl Deserializer {
    /// Writes what the bytes stand for. Numbers are big-endian.
    pub fn write(self, bytes: &[u8], out: &mut impl Write) -> Result<(), WriteError> {
        match self {
            Deserializer::Text => out.write_all(bytes)?,
            Deserializer::Short => write!(out, "{}", i16::from_be_bytes(self.sized(bytes)?))?,
            Deserializer::Integer => write!(out, "{}", i32::from_be_bytes(self.sized(bytes)?))?,
            Deserializer::Long => write!(out, "{}", i64::from_be_bytes(self.sized(bytes)?))?,
            Deserializer::Float => {
                let number = f32::from_be_bytes(self.sized(bytes)?);
                write_java(format_args!("{number:e}"), number.into(), format_args!("{number:?}"), out)?;
            }
            Deserializer::Double => {
                let number = f64::from_be_bytes(self.sized(bytes)?);
                write_java(format_args!("{number:e}"), number, format_args!("{number:?}"), out)?;
            }
            Deserializer::Boolean => {
                let [byte] = self.sized(bytes)?;
                out.write_all(if byte == 0 { b"false" } else { b"true" })?;
            }
        }
        Ok(())
    }

    fn sized<const N: usize>(self, bytes: &[u8]) -> Result<[u8; N], Undecodable> {
        bytes.try_into().map_err(|_| Undecodable(self, N, bytes.len()))
    }
}

/// Java turns to `1.0E10` outside of 10^-3 to 10^7.
fn write_java(
    scientific: std::fmt::Arguments<'_>,
    number: f64,
    plain: std::fmt::Arguments<'_>,
    out: &mut impl Write,
) -> std::io::Result<()> {
    match number {
        number if number.is_nan() => out.write_all(b"NaN"),
        f64::INFINITY => out.write_all(b"Infinity"),
        f64::NEG_INFINITY => out.write_all(b"-Infinity"),
        number if number == 0.0 || (1e-3..1e7).contains(&number.abs()) => out.write_fmt(plain),
        _ => {
            let text = scientific.to_string();
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let point = if digits.contains('.') { "" } else { ".0" };
            write!(out, "{digits}{point}E{exponent}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(class: &str, bytes: &[u8]) -> Result<String, String> {
        let mut out = Vec::new();
        let deserializer: Deserializer =
            class.parse().map_err(|error: UnknownDeserializer| error.to_string())?;
        deserializer.write(bytes, &mut out).map_err(|error| error.to_string())?;
        Ok(String::from_utf8(out).unwrap())
    }

    #[test]
    fn bytes_are_shown_as_java_shows_what_they_stand_for() {
        for (class, bytes, text) in [
            ("org.apache.kafka.common.serialization.StringDeserializer", &b"text"[..], "text"),
            ("LongDeserializer", &(-5i64).to_be_bytes(), "-5"),
            ("IntegerDeserializer", &7i32.to_be_bytes(), "7"),
            ("ShortDeserializer", &[1, 0], "256"),
            ("BooleanDeserializer", &[1], "true"),
            ("DoubleDeserializer", &1.0f64.to_be_bytes(), "1.0"),
            ("DoubleDeserializer", &1e10f64.to_be_bytes(), "1.0E10"),
            ("DoubleDeserializer", &(-1.5e-7f64).to_be_bytes(), "-1.5E-7"),
            ("DoubleDeserializer", &f64::NAN.to_be_bytes(), "NaN"),
            ("FloatDeserializer", &0.1f32.to_be_bytes(), "0.1"),
        ] {
            assert_eq!(shown(class, bytes).as_deref(), Ok(text), "{class} of {bytes:?}");
        }
    }

    #[test]
    fn what_is_no_such_number_is_refused() {
        let refusal = shown("LongDeserializer", b"text").unwrap_err();
        assert_eq!(refusal, "Size of data received by LongDeserializer is not 8 but 4");
        assert!(
            shown("com.example.AvroDeserializer", b"")
                .unwrap_err()
                .starts_with("com.example.AvroDeserializer: ")
        );
    }
}
