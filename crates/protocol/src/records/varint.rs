//! Zig-zag varints: the integers inside magic-2 records.
//!
//! `(n << 1) ^ (n >> 31)` folds the sign into bit 0, then seven bits a byte, low bits first, high bit = more follow.
//! Small numbers of either sign take one byte: 0 is `00`, -1 is `01`, 1 is `02`, 64 is `80 01`.

/// Longest encoding of an `i32`.
pub(crate) const VARINT_LENGTH_MAX: usize = 5;
/// Longest encoding of an `i64`.
pub(crate) const VARLONG_LENGTH_MAX: usize = 10;

/// Why no integer could be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NoVarint {
    /// The bytes end inside the integer.
    Short,
    /// The last byte that an integer of this width may have still says "more follow".
    TooLong,
}

/// The integer at the start of `bytes`, and how many bytes it took.
///
/// Bits beyond the width, which only a fifth byte can carry, are dropped, as Kafka's reader drops them.
#[inline(always)]
pub(crate) fn read_varint(bytes: &[u8]) -> Result<(i32, usize), NoVarint> {
    match *bytes {
        [first, ..] if first < 0x80 => Ok((zigzag_32(u32::from(first)), 1)),
        [first, second, ..] if second < 0x80 => {
            Ok((zigzag_32(u32::from(first & 0x7f) | u32::from(second) << 7), 2))
        }
        _ => read_long_varint(bytes),
    }
}

#[inline(never)]
fn read_long_varint(bytes: &[u8]) -> Result<(i32, usize), NoVarint> {
    let mut value = 0u32;
    for (at, byte) in bytes.iter().take(VARINT_LENGTH_MAX).enumerate() {
        value |= u32::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((zigzag_32(value), at + 1));
        }
    }
    Err(if bytes.len() < VARINT_LENGTH_MAX { NoVarint::Short } else { NoVarint::TooLong })
}

/// As [`read_varint`], for 64 bits.
#[inline(always)]
pub(crate) fn read_varlong(bytes: &[u8]) -> Result<(i64, usize), NoVarint> {
    match *bytes {
        [first, ..] if first < 0x80 => Ok((zigzag_64(u64::from(first)), 1)),
        _ => read_long_varlong(bytes),
    }
}

#[inline(never)]
fn read_long_varlong(bytes: &[u8]) -> Result<(i64, usize), NoVarint> {
    let mut value = 0u64;
    for (at, byte) in bytes.iter().take(VARLONG_LENGTH_MAX).enumerate() {
        value |= u64::from(byte & 0x7f) << (7 * at);
        if byte & 0x80 == 0 {
            return Ok((zigzag_64(value), at + 1));
        }
    }
    Err(if bytes.len() < VARLONG_LENGTH_MAX { NoVarint::Short } else { NoVarint::TooLong })
}

#[inline(always)]
fn zigzag_32(value: u32) -> i32 {
    (value >> 1) as i32 ^ -((value & 1) as i32)
}

#[inline(always)]
fn zigzag_64(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

#[inline]
pub(crate) fn put_varint(out: &mut Vec<u8>, value: i32) {
    put_varlong(out, i64::from(value));
}

/// The encoding of a number does not depend on the width it is declared with.
#[inline]
pub(crate) fn put_varlong(out: &mut Vec<u8>, value: i64) {
    let mut rest = ((value << 1) ^ (value >> 63)) as u64;
    while rest >= 0x80 {
        out.push(rest as u8 | 0x80);
        rest >>= 7;
    }
    out.push(rest as u8);
}

/// Bytes that [`put_varlong`] writes for `value`.
#[inline]
pub(crate) fn varlong_length(value: i64) -> usize {
    let folded = ((value << 1) ^ (value >> 63)) as u64;
    let bits = 64 - (folded | 1).leading_zeros() as usize;
    bits.div_ceil(7)
}

#[inline]
pub(crate) fn varint_length(value: i32) -> usize {
    varlong_length(i64::from(value))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn encodings_are_those_that_kafka_writes() {
        for (value, bytes) in [
            (0, "00"),
            (-1, "01"),
            (1, "02"),
            (-64, "7f"),
            (64, "8001"),
            (300, "d804"),
            (i32::MAX, "feffffff0f"),
            (i32::MIN, "ffffffff0f"),
        ] {
            let mut out = Vec::new();
            put_varint(&mut out, value);
            let hex: String = out.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex, bytes, "{value}");
            assert_eq!(read_varint(&out), Ok((value, out.len())));
        }
    }

    #[test]
    fn an_integer_that_never_ends_is_told_from_one_cut_short() {
        assert_eq!(read_varint(&[0x80; 4]), Err(NoVarint::Short));
        assert_eq!(read_varint(&[0x80; 5]), Err(NoVarint::TooLong));
        assert_eq!(read_varint(&[]), Err(NoVarint::Short));
        assert_eq!(read_varlong(&[0x80; 9]), Err(NoVarint::Short));
        assert_eq!(read_varlong(&[0x80; 10]), Err(NoVarint::TooLong));
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(narrow: i32, wide: i64) {
            let mut out = Vec::new();
            put_varint(&mut out, narrow);
            prop_assert_eq!(out.len(), varint_length(narrow));
            prop_assert_eq!(read_varint(&out), Ok((narrow, out.len())));
            out.clear();
            put_varlong(&mut out, wide);
            prop_assert_eq!(out.len(), varlong_length(wide));
            prop_assert_eq!(read_varlong(&out), Ok((wide, out.len())));
        }
    }
}
