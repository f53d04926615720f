//! Bytes to values, trusting none of them.

use std::ops::RangeInclusive;

use bytes::Bytes;
use ottla_model::Uuid;

use crate::{Str, UnknownTaggedFields};

/// The most memory that the arrays of one message may take, however large its frame, in bytes.
pub const DECODED_BYTES_MAX: usize = 256 << 20;

/// What the arrays of even the shortest frame may take, in bytes.
const DECODED_BYTES_BASE: usize = 64 << 10;

/// How much larger than its frame a decoded message may be. Real messages stay below 8: the widest is an array of topics with
/// empty names or of partitions with an error code each. An array of nothing but empty elements would reach 60.
const DECODED_BYTES_PER_FRAME_BYTE: usize = 16;

/// Memory reserved for an array ahead of its elements, in bytes; a longer array grows as elements really turn up.
const RESERVED_BYTES_MAX: usize = 64 << 10;

/// The longest string, in bytes: what the 16-bit length of the older versions can say, and the limit in flexible ones too.
pub(crate) const STRING_BYTES_MAX: usize = i16::MAX as usize;

/// Bytes that are no message. `position` counts bytes from the start of the frame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error("{needed} bytes expected at byte {position}, {remaining} left")]
    Truncated { position: usize, needed: usize, remaining: usize },
    #[error("negative length {length} at byte {position}")]
    NegativeLength { position: usize, length: i32 },
    #[error("string of {length} bytes at byte {position}, at most {STRING_BYTES_MAX} are allowed")]
    StringTooLong { position: usize, length: usize },
    #[error("array of {count} elements announced at byte {position}, in {remaining} bytes")]
    CountBeyondFrame { position: usize, count: usize, remaining: usize },
    #[error("array of {count} elements at byte {position} takes the decoded message over {limit} bytes")]
    TooMuchMemory { position: usize, count: usize, limit: usize },
    #[error("null at byte {position} where the version allows none")]
    UnexpectedNull { position: usize },
    #[error("string at byte {position} is not UTF-8")]
    InvalidUtf8 { position: usize },
    #[error("variable-length number at byte {position} exceeds 32 bits")]
    VarintTooLong { position: usize },
    #[error("tagged field {tag} appears twice, at byte {position}")]
    DuplicateTag { position: usize, tag: u32 },
    #[error("{remaining} bytes left over at byte {position}")]
    TrailingBytes { position: usize, remaining: usize },
    #[error("{message} has versions {} to {}, not {version}", supported.start(), supported.end())]
    UnsupportedVersion { message: &'static str, version: i16, supported: RangeInclusive<i16> },
}

/// Reads values off a frame, front to back.
///
/// `flexible` chooses between the two encodings of a length: a fixed 16 or 32 bits, or a variable-length number that is one
/// higher, 0 meaning null (KIP-482).
#[derive(Debug, Clone)]
pub struct Decoder {
    frame: Bytes,
    position: usize,
    /// Where reading ends: the frame's end, or that of the tagged field being read.
    end: usize,
    /// What the message's arrays may still take, in bytes.
    memory_left: usize,
    memory_limit: usize,
}

impl Decoder {
    /// Reads `frame` from its start.
    ///
    /// All arrays together may take 64 KiB and 16 times the frame's size, and never over [`DECODED_BYTES_MAX`]:
    /// strings and bytes cost nothing, being slices of the frame.
    pub fn new(frame: Bytes) -> Decoder {
        let limit = frame
            .len()
            .saturating_mul(DECODED_BYTES_PER_FRAME_BYTE)
            .saturating_add(DECODED_BYTES_BASE)
            .min(DECODED_BYTES_MAX);
        Decoder { position: 0, end: frame.len(), frame, memory_left: limit, memory_limit: limit }
    }

    /// Bytes read so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes not yet read.
    pub fn remaining(&self) -> usize {
        self.end - self.position
    }

    /// Everything not yet read, as a slice of the frame.
    pub fn rest(&self) -> Bytes {
        self.frame.slice(self.position..self.end)
    }

    /// Checks that nothing is left over.
    pub fn finish(&self) -> Result<(), DecodeError> {
        match self.remaining() {
            0 => Ok(()),
            remaining => Err(DecodeError::TrailingBytes { position: self.position, remaining }),
        }
    }

    /// Steps over `length` bytes and returns where they start.
    #[inline]
    fn advance(&mut self, length: usize) -> Result<usize, DecodeError> {
        let start = self.position;
        let remaining = self.end - start;
        if length > remaining {
            return Err(DecodeError::Truncated { position: start, needed: length, remaining });
        }
        self.position = start + length;
        Ok(start)
    }

    #[inline]
    fn fixed<const N: usize>(&mut self) -> Result<[u8; N], DecodeError> {
        let start = self.advance(N)?;
        let mut value = [0; N];
        value.copy_from_slice(&self.frame[start..start + N]);
        Ok(value)
    }

    #[inline]
    fn slice(&mut self, length: usize) -> Result<Bytes, DecodeError> {
        let start = self.advance(length)?;
        Ok(self.frame.slice(start..start + length))
    }

    /// Any byte but 0 is true, as for Kafka.
    #[inline]
    pub fn bool(&mut self) -> Result<bool, DecodeError> {
        Ok(self.int8()? != 0)
    }

    #[inline]
    pub fn int8(&mut self) -> Result<i8, DecodeError> {
        self.fixed().map(i8::from_be_bytes)
    }

    #[inline]
    pub fn int16(&mut self) -> Result<i16, DecodeError> {
        self.fixed().map(i16::from_be_bytes)
    }

    #[inline]
    pub fn int32(&mut self) -> Result<i32, DecodeError> {
        self.fixed().map(i32::from_be_bytes)
    }

    #[inline]
    pub fn int64(&mut self) -> Result<i64, DecodeError> {
        self.fixed().map(i64::from_be_bytes)
    }

    #[inline]
    pub fn uint16(&mut self) -> Result<u16, DecodeError> {
        self.fixed().map(u16::from_be_bytes)
    }

    #[inline]
    pub fn uint32(&mut self) -> Result<u32, DecodeError> {
        self.fixed().map(u32::from_be_bytes)
    }

    #[inline]
    pub fn float64(&mut self) -> Result<f64, DecodeError> {
        self.fixed().map(f64::from_be_bytes)
    }

    #[inline]
    pub fn uuid(&mut self) -> Result<Uuid, DecodeError> {
        self.fixed().map(Uuid)
    }

    /// Seven bits a byte, the lowest first, the high bit set on all but the last.
    #[inline]
    pub fn unsigned_varint(&mut self) -> Result<u32, DecodeError> {
        let position = self.position;
        let mut value: u32 = 0;
        for shift in [0, 7, 14, 21, 28] {
            let [byte] = self.fixed()?;
            let bits = u32::from(byte & 0x7f);
            if shift == 28 && byte > 0x0f {
                break;
            }
            value |= bits << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(DecodeError::VarintTooLong { position })
    }

    /// The length of a string; `None` is null.
    #[inline]
    fn string_length(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        let position = self.position;
        if flexible {
            return match self.compact_length()? {
                Some(length) if length > STRING_BYTES_MAX => {
                    Err(DecodeError::StringTooLong { position, length })
                }
                length => Ok(length),
            };
        }
        signed_length(self.int16()?.into(), position)
    }

    /// The length of bytes, or the count of an array; `None` is null.
    #[inline]
    fn length(&mut self, flexible: bool) -> Result<Option<usize>, DecodeError> {
        if flexible {
            return self.compact_length();
        }
        let position = self.position;
        signed_length(self.int32()?, position)
    }

    #[inline]
    fn compact_length(&mut self) -> Result<Option<usize>, DecodeError> {
        Ok(self.unsigned_varint()?.checked_sub(1).map(|length| length as usize))
    }

    #[inline]
    pub fn nullable_string(&mut self, flexible: bool) -> Result<Option<Str>, DecodeError> {
        let Some(length) = self.string_length(flexible)? else { return Ok(None) };
        let position = self.position;
        let bytes = self.slice(length)?;
        match Str::from_utf8(bytes) {
            Ok(string) => Ok(Some(string)),
            Err(error) => Err(DecodeError::InvalidUtf8 { position: position + error.valid_up_to() }),
        }
    }

    #[inline]
    pub fn string(&mut self, flexible: bool) -> Result<Str, DecodeError> {
        let position = self.position;
        self.nullable_string(flexible)?.ok_or(DecodeError::UnexpectedNull { position })
    }

    /// Bytes, or record data, as a slice of the frame.
    #[inline]
    pub fn nullable_bytes(&mut self, flexible: bool) -> Result<Option<Bytes>, DecodeError> {
        let Some(length) = self.length(flexible)? else { return Ok(None) };
        self.slice(length).map(Some)
    }

    #[inline]
    pub fn bytes(&mut self, flexible: bool) -> Result<Bytes, DecodeError> {
        let position = self.position;
        self.nullable_bytes(flexible)?.ok_or(DecodeError::UnexpectedNull { position })
    }

    /// Reads an array whose elements take at least `element_bytes_min` bytes each on the wire.
    #[inline]
    pub fn nullable_array<T>(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
        mut element: impl FnMut(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<Option<Vec<T>>, DecodeError> {
        let position = self.position;
        let Some(count) = self.length(flexible)? else { return Ok(None) };
        let mut array = self.reserve(position, count, element_bytes_min)?;
        for _ in 0..count {
            array.push(element(self)?);
        }
        Ok(Some(array))
    }

    #[inline]
    pub fn array<T>(
        &mut self,
        flexible: bool,
        element_bytes_min: usize,
        element: impl FnMut(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<Vec<T>, DecodeError> {
        let position = self.position;
        self.nullable_array(flexible, element_bytes_min, element)?
            .ok_or(DecodeError::UnexpectedNull { position })
    }

    /// Makes room for `count` elements, once the bytes that are left could hold them and the budget can pay for them.
    fn reserve<T>(
        &mut self,
        position: usize,
        count: usize,
        element_bytes_min: usize,
    ) -> Result<Vec<T>, DecodeError> {
        let remaining = self.remaining();
        // An element of no bytes at all would let a count stand for nothing, so each pays at least one.
        if count > remaining / element_bytes_min.max(1) {
            return Err(DecodeError::CountBeyondFrame { position, count, remaining });
        }
        let element_bytes = size_of::<T>().max(1);
        self.memory_left = count
            .checked_mul(element_bytes)
            .and_then(|bytes| self.memory_left.checked_sub(bytes))
            .ok_or(DecodeError::TooMuchMemory { position, count, limit: self.memory_limit })?;
        Ok(Vec::with_capacity(count.min(RESERVED_BYTES_MAX / element_bytes)))
    }

    /// A struct that a byte in front of it may call null: below 0 is null.
    #[inline]
    pub fn nullable_struct<T>(
        &mut self,
        element: impl FnOnce(&mut Decoder) -> Result<T, DecodeError>,
    ) -> Result<Option<T>, DecodeError> {
        if self.int8()? < 0 { Ok(None) } else { element(self).map(Some) }
    }

    /// Reads the tagged fields that end a struct, offering each to `known`, which reads its value or answers false.
    ///
    /// What nobody knows is kept. The order is not checked, since Kafka does not; a tag that comes twice is refused.
    #[inline]
    pub fn tagged_fields(
        &mut self,
        mut known: impl FnMut(&mut Decoder, u32) -> Result<bool, DecodeError>,
    ) -> Result<UnknownTaggedFields, DecodeError> {
        let mut unknown = UnknownTaggedFields::default();
        let count = self.unsigned_varint()?;
        if count == 0 {
            return Ok(unknown);
        }
        let mut seen_below_64: u64 = 0;
        for _ in 0..count {
            let position = self.position;
            let tag = self.unsigned_varint()?;
            let size = self.unsigned_varint()? as usize;
            let start = self.advance(size)?;
            // One bit for each tag that a schema could know; the unknown ones above are compared after sorting.
            if let Some(bit) = 1u64.checked_shl(tag) {
                if seen_below_64 & bit != 0 {
                    return Err(DecodeError::DuplicateTag { position, tag });
                }
                seen_below_64 |= bit;
            }
            if !self.tagged_field(start, |d| known(d, tag))? {
                self.charge_unknown_tag(position)?;
                unknown.push(tag, self.frame.slice(start..start + size));
            }
        }
        match unknown.sort() {
            Ok(()) => Ok(unknown),
            Err(tag) => Err(DecodeError::DuplicateTag { position: self.position, tag }),
        }
    }

    /// The tagged fields of a struct that knows none.
    #[inline]
    pub fn unknown_tagged_fields(&mut self) -> Result<UnknownTaggedFields, DecodeError> {
        self.tagged_fields(|_, _| Ok(false))
    }

    /// Reads the value between `start` and the current position, which has to be all of it.
    #[inline]
    fn tagged_field(
        &mut self,
        start: usize,
        known: impl FnOnce(&mut Decoder) -> Result<bool, DecodeError>,
    ) -> Result<bool, DecodeError> {
        let (field_end, outer_end) = (self.position, self.end);
        (self.position, self.end) = (start, field_end);
        let is_known = known(self)?;
        if is_known {
            self.finish()?;
        }
        (self.position, self.end) = (field_end, outer_end);
        Ok(is_known)
    }

    /// Unknown tagged fields take memory too: as much as an element of an array.
    fn charge_unknown_tag(&mut self, position: usize) -> Result<(), DecodeError> {
        self.memory_left = self
            .memory_left
            .checked_sub(UnknownTaggedFields::ENTRY_BYTES)
            .ok_or(DecodeError::TooMuchMemory { position, count: 1, limit: self.memory_limit })?;
        Ok(())
    }
}

#[inline]
fn signed_length(length: i32, position: usize) -> Result<Option<usize>, DecodeError> {
    match length {
        -1 => Ok(None),
        0.. => Ok(Some(length as usize)),
        _ => Err(DecodeError::NegativeLength { position, length }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn decoder(bytes: &[u8]) -> Decoder {
        Decoder::new(Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn variable_length_numbers_end_at_32_bits() {
        for (why, bytes, value) in [
            ("zero", &[0][..], Some(0)),
            ("one byte", &[0x7f], Some(127)),
            ("two bytes", &[0x80, 0x01], Some(128)),
            ("padded, which is legal", &[0x81, 0x80, 0x00], Some(1)),
            ("the largest", &[0xff, 0xff, 0xff, 0xff, 0x0f], Some(u32::MAX)),
            ("a 33rd bit", &[0xff, 0xff, 0xff, 0xff, 0x1f], None),
            ("a sixth byte", &[0x80, 0x80, 0x80, 0x80, 0x80, 0x00], None),
            ("cut short", &[0x80], None),
        ] {
            assert_eq!(decoder(bytes).unsigned_varint().ok(), value, "{why}");
        }
    }

    #[test]
    fn strings_are_null_or_whole_or_an_error() {
        let at = |position| DecodeError::NegativeLength { position, length: -2 };
        for (why, bytes, flexible, read) in [
            ("null", &[0xff, 0xff][..], false, Ok(None)),
            ("compact null", &[0], true, Ok(None)),
            ("empty", &[0, 0], false, Ok(Some(""))),
            ("compact empty", &[1], true, Ok(Some(""))),
            ("whole", &[0, 2, b'a', b'b'], false, Ok(Some("ab"))),
            ("negative", &[0xff, 0xfe], false, Err(at(0))),
            (
                "cut short",
                &[0, 3, b'a', b'b'],
                false,
                Err(DecodeError::Truncated { position: 2, needed: 3, remaining: 2 }),
            ),
            ("no text", &[0, 2, b'a', 0xff], false, Err(DecodeError::InvalidUtf8 { position: 3 })),
            (
                "compact, too long for any string",
                &[0x81, 0x80, 0x02],
                true,
                Err(DecodeError::StringTooLong { position: 0, length: 32768 }),
            ),
        ] {
            let string = decoder(bytes).nullable_string(flexible);
            assert_eq!(string.as_ref().map(|s| s.as_deref()), read.as_ref().map(|s| *s), "{why}");
        }
        assert_eq!(
            decoder(&[0xff, 0xff]).string(false),
            Err(DecodeError::UnexpectedNull { position: 0 }),
            "null where none may be"
        );
    }

    #[test]
    fn an_array_is_refused_before_memory_is_taken() {
        let huge = decoder(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]).array(false, 4, Decoder::int32);
        assert_eq!(
            huge,
            Err(DecodeError::CountBeyondFrame { position: 0, count: 0x7fff_ffff, remaining: 4 })
        );
        let one = decoder(&[0, 0, 0, 1, 0, 0, 0, 7]).array(false, 4, Decoder::int32);
        assert_eq!(one, Ok(vec![7]));
    }

    #[test]
    fn empty_elements_cannot_outgrow_their_frame() {
        let count: u32 = 1 << 20;
        let mut frame = count.to_be_bytes().to_vec();
        frame.resize(4 + count as usize, 0);
        let wide = decoder(&frame).array(false, 1, |d| d.int8().map(|_| [0u64; 8]));
        assert!(
            matches!(wide, Err(DecodeError::TooMuchMemory { position: 0, .. })),
            "64 bytes for each byte"
        );
        let narrow = decoder(&frame).array(false, 1, |d| d.int8().map(u64::try_from));
        assert!(narrow.is_ok(), "at most 16 bytes for each byte");
    }

    #[test]
    fn unknown_tagged_fields_are_kept_and_duplicates_refused() {
        let two = decoder(&[2, 9, 1, 0xaa, 3, 0]).unknown_tagged_fields().unwrap();
        let kept: Vec<_> = two.iter().map(|(tag, value)| (tag, value.to_vec())).collect();
        assert_eq!(kept, [(3, vec![]), (9, vec![0xaa])], "sorted, as they will be written");
        for tag in [3, 64, 127] {
            let twice = decoder(&[2, tag, 0, tag, 0]).unknown_tagged_fields();
            assert!(matches!(twice, Err(DecodeError::DuplicateTag { .. })), "tag {tag}");
        }
    }

    #[test]
    fn a_known_tagged_field_is_read_within_its_size() {
        let read = |bytes: &[u8]| {
            let mut value = 0;
            decoder(bytes).tagged_fields(|d, _| d.int16().map(|v| value = v).map(|()| true))?;
            Ok(value)
        };
        assert_eq!(read(&[1, 0, 2, 0, 5]), Ok(5));
        assert_eq!(
            read(&[1, 0, 1, 0, 5]),
            Err(DecodeError::Truncated { position: 3, needed: 2, remaining: 1 }),
            "not past its end"
        );
        assert_eq!(
            read(&[1, 0, 3, 0, 5, 0]),
            Err(DecodeError::TrailingBytes { position: 5, remaining: 1 }),
            "and not less than its size"
        );
    }
}
