//! Values to bytes.

use std::ops::RangeInclusive;

use bytes::{BufMut, Bytes, BytesMut};
use ottla_model::Uuid;

use crate::decode::STRING_BYTES_MAX;
use crate::{UnknownTaggedFields, UnknownTaggedFieldsWriter};

/// A message that a version cannot carry: always a mistake of the sender, never of the peer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EncodeError {
    #[error("{message} has versions {} to {}, not {version}", supported.start(), supported.end())]
    UnsupportedVersion { message: &'static str, version: i16, supported: RangeInclusive<i16> },
    #[error("{structure}.{field} is set, but version {version} cannot carry it")]
    FieldNotInVersion { structure: &'static str, field: &'static str, version: i16 },
    #[error("{structure}.{field} is null, which version {version} does not allow")]
    NullNotInVersion { structure: &'static str, field: &'static str, version: i16 },
    #[error("string of {length} bytes, at most {STRING_BYTES_MAX} are allowed")]
    StringTooLong { length: usize },
    #[error("{length} bytes or elements, at most {} are allowed", i32::MAX)]
    TooLong { length: usize },
}

/// Appends values to a buffer. `flexible` chooses the encoding of lengths, as for [`Decoder`](crate::Decoder).
#[derive(Debug)]
pub struct Encoder<'a> {
    out: &'a mut BytesMut,
}

/// Where a value begins whose size goes in front of it; ended by [`Encoder::end_tagged_field`].
#[derive(Debug)]
#[must_use]
pub struct SizedValue {
    start: usize,
}

impl<'a> Encoder<'a> {
    pub fn new(out: &'a mut BytesMut) -> Encoder<'a> {
        Encoder { out }
    }

    /// Bytes in the buffer, those before this encoder included.
    pub fn position(&self) -> usize {
        self.out.len()
    }

    pub fn bool(&mut self, value: bool) {
        self.out.put_u8(value.into());
    }

    pub fn int8(&mut self, value: i8) {
        self.out.put_i8(value);
    }

    pub fn int16(&mut self, value: i16) {
        self.out.put_i16(value);
    }

    pub fn int32(&mut self, value: i32) {
        self.out.put_i32(value);
    }

    pub fn int64(&mut self, value: i64) {
        self.out.put_i64(value);
    }

    pub fn uint16(&mut self, value: u16) {
        self.out.put_u16(value);
    }

    pub fn uint32(&mut self, value: u32) {
        self.out.put_u32(value);
    }

    pub fn float64(&mut self, value: f64) {
        self.out.put_f64(value);
    }

    pub fn uuid(&mut self, value: Uuid) {
        self.out.put_slice(&value.0);
    }

    pub fn unsigned_varint(&mut self, value: u32) {
        let (bytes, length) = unsigned_varint(value);
        self.out.put_slice(&bytes[..length]);
    }

    pub fn string(&mut self, value: &str, flexible: bool) -> Result<(), EncodeError> {
        self.nullable_string(Some(value), flexible)
    }

    pub fn nullable_string(&mut self, value: Option<&str>, flexible: bool) -> Result<(), EncodeError> {
        let length = value.map(str::len);
        match length {
            Some(length) if length > STRING_BYTES_MAX => return Err(EncodeError::StringTooLong { length }),
            _ if flexible => self.unsigned_varint(length.map_or(0, |length| length as u32 + 1)),
            _ => self.int16(length.map_or(-1, |length| length as i16)),
        }
        self.out.put_slice(value.unwrap_or_default().as_bytes());
        Ok(())
    }

    pub fn bytes(&mut self, value: &[u8], flexible: bool) -> Result<(), EncodeError> {
        self.nullable_bytes(Some(value), flexible)
    }

    pub fn nullable_bytes(&mut self, value: Option<&[u8]>, flexible: bool) -> Result<(), EncodeError> {
        self.length(value.map(<[u8]>::len), flexible)?;
        self.out.put_slice(value.unwrap_or_default());
        Ok(())
    }

    /// The length of bytes or the count of an array that the caller writes next; `None` is null.
    pub fn length(&mut self, length: Option<usize>, flexible: bool) -> Result<(), EncodeError> {
        let value = match length {
            None => -1,
            Some(length) => i32::try_from(length).map_err(|_| EncodeError::TooLong { length })?,
        };
        if flexible {
            self.unsigned_varint(value.wrapping_add(1) as u32);
        } else {
            self.int32(value);
        }
        Ok(())
    }

    pub fn array<T>(
        &mut self,
        values: &[T],
        flexible: bool,
        element: impl FnMut(&mut Encoder<'a>, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.nullable_array(Some(values), flexible, element)
    }

    pub fn nullable_array<T>(
        &mut self,
        values: Option<&[T]>,
        flexible: bool,
        mut element: impl FnMut(&mut Encoder<'a>, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        self.length(values.map(<[T]>::len), flexible)?;
        for value in values.unwrap_or_default() {
            element(self, value)?;
        }
        Ok(())
    }

    /// A struct behind the byte that says whether it is there: 1, or -1 for null.
    pub fn nullable_struct<T>(
        &mut self,
        value: Option<&T>,
        element: impl FnOnce(&mut Encoder<'a>, &T) -> Result<(), EncodeError>,
    ) -> Result<(), EncodeError> {
        let Some(value) = value else {
            self.int8(-1);
            return Ok(());
        };
        self.int8(1);
        element(self, value)
    }

    /// Begins a struct's tagged fields, of which the caller will write `known` ones beside the unknown.
    pub fn begin_tagged_fields<'u>(
        &mut self,
        known: usize,
        unknown: &'u UnknownTaggedFields,
    ) -> UnknownTaggedFieldsWriter<'u> {
        self.unsigned_varint((known + unknown.len()) as u32);
        UnknownTaggedFieldsWriter::new(unknown)
    }

    /// The tagged fields of a struct that knows none.
    pub fn unknown_tagged_fields(&mut self, unknown: &UnknownTaggedFields) {
        self.begin_tagged_fields(0, unknown).write_rest(self);
    }

    pub(crate) fn raw_tagged_fields(&mut self, fields: &[(u32, Bytes)]) {
        for (tag, value) in fields {
            self.unsigned_varint(*tag);
            self.unsigned_varint(value.len() as u32);
            self.out.put_slice(value);
        }
    }

    /// Begins the value of a known tagged field.
    pub fn begin_tagged_field(&mut self, tag: u32) -> SizedValue {
        self.unsigned_varint(tag);
        let start = self.out.len();
        self.out.put_u8(0);
        SizedValue { start }
    }

    /// Writes the size of the value that began at `value` in front of it.
    ///
    /// One byte was kept for the size, enough for nearly every tagged field; a longer value moves up to make room.
    pub fn end_tagged_field(&mut self, value: SizedValue) -> Result<(), EncodeError> {
        let SizedValue { start } = value;
        let end = self.out.len();
        let length = end - start - 1;
        let size = i32::try_from(length).map_err(|_| EncodeError::TooLong { length })?;
        let (bytes, size_bytes) = unsigned_varint(size as u32);
        self.out.put_bytes(0, size_bytes - 1);
        self.out.copy_within(start + 1..end, start + size_bytes);
        self.out[start..start + size_bytes].copy_from_slice(&bytes[..size_bytes]);
        Ok(())
    }
}

/// The number's bytes, and how many of the five are used.
fn unsigned_varint(mut value: u32) -> ([u8; 5], usize) {
    let mut bytes = [0; 5];
    let mut length = 0;
    while value >= 0x80 {
        bytes[length] = value as u8 | 0x80;
        value >>= 7;
        length += 1;
    }
    bytes[length] = value as u8;
    (bytes, length + 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Decoder;

    #[test]
    fn variable_length_numbers_come_back() {
        for value in [0, 1, 127, 128, 16383, 16384, 1 << 21, 1 << 28, u32::MAX] {
            let mut out = BytesMut::new();
            Encoder::new(&mut out).unsigned_varint(value);
            let mut d = Decoder::new(out.freeze());
            assert_eq!(d.unsigned_varint(), Ok(value));
            assert_eq!(d.remaining(), 0);
        }
    }

    #[test]
    fn a_tagged_field_moves_up_when_its_size_needs_more_than_a_byte() {
        for length in [0, 1, 127, 128, 300, 16384] {
            let mut out = BytesMut::from(&b"before"[..]);
            let mut encoder = Encoder::new(&mut out);
            let value = encoder.begin_tagged_field(7);
            for i in 0..length {
                encoder.int8(i as i8);
            }
            encoder.end_tagged_field(value).unwrap();
            let mut d = Decoder::new(out.freeze().slice(6..));
            assert_eq!(d.unsigned_varint(), Ok(7));
            let expected: Vec<u8> = (0..length).map(|i| i as u8).collect();
            assert_eq!(d.unsigned_varint(), Ok(length), "size");
            assert_eq!(d.rest(), expected, "value of {length} bytes");
        }
    }

    #[test]
    fn lengths_that_the_wire_cannot_say_are_refused() {
        let mut out = BytesMut::new();
        let mut encoder = Encoder::new(&mut out);
        let length = 32768;
        let long = "a".repeat(length);
        assert_eq!(encoder.string(&long, false), Err(EncodeError::StringTooLong { length }));
        assert_eq!(encoder.string(&long, true), Err(EncodeError::StringTooLong { length }));
        assert_eq!(encoder.string(&long[1..], false), Ok(()));
    }
}
