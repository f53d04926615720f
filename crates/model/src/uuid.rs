//! Kafka's ids of topics and clusters: 16 bytes, written as 22 characters of URL-safe base64.

use std::fmt;
use std::str::FromStr;

/// A 128-bit id, shown as Kafka shows it: URL-safe base64 without padding.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Uuid(pub [u8; 16]);

/// The text is not 22 characters of URL-safe base64.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("\"{}\" is not an id: expected 22 characters of URL-safe base64", .0.escape_debug())]
pub struct InvalidUuid(String);

const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
const TEXT_LENGTH: usize = 22;

impl Uuid {
    /// "No id": what the wire carries for topics made before ids existed.
    pub const ZERO: Uuid = Uuid([0; 16]);

    /// Makes a version 4 UUID of random bytes, or `None` if Kafka would not use the result as an id.
    ///
    /// Kafka keeps 0 and 1 for itself, and shuns a leading `-`, which command line tools take for an option.
    pub fn from_random(mut bytes: [u8; 16]) -> Option<Uuid> {
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let first_sextet = bytes[0] >> 2;
        (ALPHABET[usize::from(first_sextet)] != b'-').then_some(Uuid(bytes))
    }

    pub fn is_zero(&self) -> bool {
        *self == Uuid::ZERO
    }
}

impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bits = u128::from_be_bytes(self.0);
        let mut text = [0u8; TEXT_LENGTH];
        for (i, character) in text.iter_mut().enumerate() {
            // 21 sextets cover 126 bits; the last character carries the remaining 2, padded with zeros.
            let sextet = if i < 21 { bits >> (122 - 6 * i) } else { bits << 4 };
            *character = ALPHABET[(sextet & 0x3f) as usize];
        }
        f.write_str(std::str::from_utf8(&text).map_err(|_| fmt::Error)?)
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Uuid {
    type Err = InvalidUuid;

    fn from_str(text: &str) -> Result<Uuid, InvalidUuid> {
        let invalid = || InvalidUuid(text.chars().take(64).collect());
        let digits = text.strip_suffix("==").unwrap_or(text).as_bytes();
        if digits.len() != TEXT_LENGTH {
            return Err(invalid());
        }
        let mut bits: u128 = 0;
        for (i, digit) in digits.iter().enumerate() {
            let sextet = ALPHABET.iter().position(|c| c == digit).ok_or_else(invalid)? as u128;
            if i < 21 {
                bits = bits << 6 | sextet;
            } else {
                bits = bits << 2 | sextet >> 4;
            }
        }
        Ok(Uuid(bits.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_matches_kafkas() {
        let id = Uuid((1u128 << 64 | 2).to_be_bytes());
        assert_eq!(id.to_string(), "AAAAAAAAAAEAAAAAAAAAAg");
        assert_eq!("AAAAAAAAAAEAAAAAAAAAAg".parse(), Ok(id));
    }

    #[test]
    fn every_id_survives_its_text() {
        for seed in 0..200u128 {
            let id = Uuid(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835).to_be_bytes());
            assert_eq!(id.to_string().parse(), Ok(id));
        }
    }

    #[test]
    fn text_that_is_no_id_is_refused() {
        for text in ["", "short", "AAAAAAAAAAEAAAAAAAAAA/", "AAAAAAAAAAEAAAAAAAAAAgA", "ÄAAAAAAAAAEAAAAAAAAA"]
        {
            assert!(text.parse::<Uuid>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn random_ids_never_look_like_an_option() {
        assert_eq!(Uuid::from_random([0b1111_1000; 16]), None, "sextet 62 is '-'");
        let id = Uuid::from_random([0; 16]).unwrap();
        assert!(!id.is_zero(), "the version bits keep it off the reserved ids");
    }
}
