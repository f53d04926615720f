//! Strings as they travel: checked slices of the frame they came in.

use std::borrow::Borrow;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::ops::Deref;

use bytes::Bytes;

/// A UTF-8 string that shares its bytes with the frame it was decoded from; cheap to clone.
///
/// Holding one holds the whole frame in memory: state that outlives the request keeps a copy of the text instead.
#[derive(Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Str(Bytes);

impl Str {
    pub const fn from_static(text: &'static str) -> Str {
        Str(Bytes::from_static(text.as_bytes()))
    }

    /// Checks that the bytes are UTF-8 and takes them over without a copy.
    pub fn from_utf8(bytes: Bytes) -> Result<Str, std::str::Utf8Error> {
        std::str::from_utf8(&bytes)?;
        Ok(Str(bytes))
    }

    pub fn as_str(&self) -> &str {
        // SAFETY: every way to make a `Str` starts from a `str` or has checked the bytes, and they never change.
        unsafe { std::str::from_utf8_unchecked(&self.0) }
    }
}

impl Deref for Str {
    type Target = str;

    fn deref(&self) -> &str {
        self.as_str()
    }
}

impl AsRef<str> for Str {
    fn as_ref(&self) -> &str {
        self
    }
}

impl Borrow<str> for Str {
    fn borrow(&self) -> &str {
        self
    }
}

/// As `str` hashes, so that a map keyed by `Str` can be asked with a `&str`.
impl Hash for Str {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl From<&str> for Str {
    /// Copies; see [`Str::from_static`] for text that is part of the program.
    fn from(text: &str) -> Str {
        Str(Bytes::copy_from_slice(text.as_bytes()))
    }
}

impl From<String> for Str {
    fn from(text: String) -> Str {
        Str(Bytes::from(text.into_bytes()))
    }
}

impl PartialEq<str> for Str {
    fn eq(&self, other: &str) -> bool {
        self.as_str() == other
    }
}

impl PartialEq<&str> for Str {
    fn eq(&self, other: &&str) -> bool {
        self.as_str() == *other
    }
}

impl fmt::Display for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.as_str().fmt(f)
    }
}

impl fmt::Debug for Str {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self.as_str(), f)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn only_utf8_becomes_a_string() {
        assert_eq!(Str::from_utf8(Bytes::from_static("søster".as_bytes())).unwrap(), "søster");
        assert!(Str::from_utf8(Bytes::from_static(b"\xff\xfe")).is_err());
        assert!(Str::from_utf8(Bytes::from_static(b"cut \xc3")).is_err(), "a character cut in half");
    }

    #[test]
    fn a_map_keyed_by_wire_strings_is_asked_with_plain_text() {
        let map = HashMap::from([(Str::from("orders"), 1)]);
        assert_eq!(map.get("orders"), Some(&1));
    }
}
