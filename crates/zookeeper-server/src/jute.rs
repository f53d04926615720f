//! Jute, ZooKeeper's serialization: big-endian integers, length-prefixed buffers, strings and vectors.
//!
//! A length or count is checked against the bytes that are there before anything is reserved for it, so a
//! message never costs more memory than a small multiple of its own size.
//!
//! ```text
//! int     4 bytes           buffer, ustring   int length (-1: null), then that many bytes
//! long    8 bytes           vector<T>         int count (-1: null), then that many T
//! boolean 1 byte
//! ```

/// Why bytes could not be read as the record they should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum JuteError {
    #[error("{wanted} bytes wanted, {left} left")]
    Truncated { wanted: usize, left: usize },
    #[error("length {0} is negative")]
    NegativeLength(i32),
    #[error("{count} elements claimed, {left} bytes left")]
    CountBeyondBytes { count: usize, left: usize },
    #[error("string is not UTF-8")]
    NotUtf8,
    #[error("null where a value is required")]
    Null,
    #[error("value {0} has no meaning here")]
    UnknownValue(i32),
}

/// Reads jute values from the front of a slice, borrowing buffers and strings from it.
#[derive(Debug, Clone, Copy)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Bytes not yet read.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    fn take(&mut self, wanted: usize) -> Result<&'a [u8], JuteError> {
        let Some((taken, rest)) = self.rest.split_at_checked(wanted) else {
            return Err(JuteError::Truncated { wanted, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], JuteError> {
        let Some((taken, rest)) = self.rest.split_first_chunk::<N>() else {
            return Err(JuteError::Truncated { wanted: N, left: self.rest.len() });
        };
        self.rest = rest;
        Ok(*taken)
    }

    pub fn byte(&mut self) -> Result<u8, JuteError> {
        self.array::<1>().map(|[byte]| byte)
    }

    pub fn boolean(&mut self) -> Result<bool, JuteError> {
        self.byte().map(|byte| byte != 0)
    }

    pub fn int(&mut self) -> Result<i32, JuteError> {
        self.array().map(i32::from_be_bytes)
    }

    pub fn long(&mut self) -> Result<i64, JuteError> {
        self.array().map(i64::from_be_bytes)
    }

    fn length(&mut self) -> Result<Option<usize>, JuteError> {
        match self.int()? {
            -1 => Ok(None),
            length => usize::try_from(length).map(Some).map_err(|_| JuteError::NegativeLength(length)),
        }
    }

    /// A buffer, or `None` where null was sent.
    pub fn buffer(&mut self) -> Result<Option<&'a [u8]>, JuteError> {
        match self.length()? {
            Some(length) => self.take(length).map(Some),
            None => Ok(None),
        }
    }

    /// A string that must be there.
    pub fn string(&mut self) -> Result<&'a str, JuteError> {
        self.nullable_string()?.ok_or(JuteError::Null)
    }

    pub fn nullable_string(&mut self) -> Result<Option<&'a str>, JuteError> {
        match self.buffer()? {
            Some(bytes) => std::str::from_utf8(bytes).map(Some).map_err(|_| JuteError::NotUtf8),
            None => Ok(None),
        }
    }

    /// A vector; null reads as empty. `element_size_min` is the fewest bytes one element can take.
    pub fn vector<T>(
        &mut self,
        element_size_min: usize,
        mut element: impl FnMut(&mut Self) -> Result<T, JuteError>,
    ) -> Result<Vec<T>, JuteError> {
        let count = self.length()?.unwrap_or(0);
        if count > self.left() / element_size_min {
            return Err(JuteError::CountBeyondBytes { count, left: self.left() });
        }
        let mut elements = Vec::with_capacity(count);
        for _ in 0..count {
            elements.push(element(self)?);
        }
        Ok(elements)
    }

    /// A vector of strings, each of which must be there.
    pub fn strings(&mut self) -> Result<Vec<&'a str>, JuteError> {
        self.vector(4, Reader::string)
    }
}

/// Appends jute values to a byte vector.
#[derive(Debug)]
pub struct Writer<'a> {
    out: &'a mut Vec<u8>,
}

impl<'a> Writer<'a> {
    pub fn new(out: &'a mut Vec<u8>) -> Writer<'a> {
        Writer { out }
    }

    pub fn byte(&mut self, value: u8) {
        self.out.push(value);
    }

    pub fn boolean(&mut self, value: bool) {
        self.out.push(u8::from(value));
    }

    pub fn int(&mut self, value: i32) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    pub fn long(&mut self, value: i64) {
        self.out.extend_from_slice(&value.to_be_bytes());
    }

    fn length(&mut self, length: usize) {
        self.int(i32::try_from(length).expect("what is written came in through a bounded frame"));
    }

    pub fn buffer(&mut self, value: Option<&[u8]>) {
        match value {
            Some(bytes) => {
                self.length(bytes.len());
                self.out.extend_from_slice(bytes);
            }
            None => self.int(-1),
        }
    }

    pub fn string(&mut self, value: &str) {
        self.buffer(Some(value.as_bytes()));
    }

    pub fn vector<T>(&mut self, elements: &[T], mut element: impl FnMut(&mut Self, &T)) {
        self.length(elements.len());
        for value in elements {
            element(self, value);
        }
    }
}

/// Appends one frame (length, then what `body` writes) to `out`.
pub fn frame(out: &mut Vec<u8>, body: impl FnOnce(&mut Writer<'_>)) {
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    body(&mut Writer { out });
    let length = i32::try_from(out.len() - start - 4).expect("an answer fits in 2 GiB");
    out[start..start + 4].copy_from_slice(&length.to_be_bytes());
}

/// The bodies of whole frames that lie one behind the other.
#[derive(Debug)]
pub struct Frames<'a> {
    rest: &'a [u8],
}

/// A frame whose length is none: negative, or more than allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a frame of {length} bytes is longer than the {max} that jute.maxbuffer allows")]
pub struct BadFrameLength {
    pub length: i32,
    pub max: usize,
}

impl<'a> Frames<'a> {
    /// The whole frames at the front of `bytes`; one that is still coming in is not among them.
    pub fn of(bytes: &'a [u8], max: usize) -> Result<Frames<'a>, BadFrameLength> {
        let mut whole = 0;
        while let Some(start) = bytes[whole..].first_chunk::<4>() {
            let length = i32::from_be_bytes(*start);
            let end = match usize::try_from(length) {
                Ok(length) if length <= max => whole + 4 + length,
                _ => return Err(BadFrameLength { length, max }),
            };
            if end > bytes.len() {
                break;
            }
            whole = end;
        }
        Ok(Frames { rest: &bytes[..whole] })
    }

    /// Bytes of frames not yet taken.
    pub fn left(&self) -> usize {
        self.rest.len()
    }
}

impl<'a> Iterator for Frames<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let (length, rest) = self.rest.split_first_chunk::<4>()?;
        let (frame, rest) = rest.split_at(i32::from_be_bytes(*length) as usize);
        self.rest = rest;
        Some(frame)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let mut bytes = Vec::new();
        let mut writer = Writer::new(&mut bytes);
        writer.int(-7);
        writer.long(i64::MIN);
        writer.boolean(true);
        writer.buffer(None);
        writer.buffer(Some(b""));
        writer.string("/café");
        writer.vector(&["a", "b"], |writer, name| writer.string(name));

        let mut reader = Reader::new(&bytes);
        assert_eq!(reader.int(), Ok(-7));
        assert_eq!(reader.long(), Ok(i64::MIN));
        assert_eq!(reader.boolean(), Ok(true));
        assert_eq!(reader.buffer(), Ok(None));
        assert_eq!(reader.buffer(), Ok(Some(&b""[..])));
        assert_eq!(reader.string(), Ok("/café"));
        assert_eq!(reader.strings(), Ok(vec!["a", "b"]));
        assert_eq!(reader.left(), 0);
    }

    #[test]
    fn hostile_lengths_are_refused_before_memory_is_reserved() {
        for (why, bytes, error) in [
            ("a string longer than the frame", &[0x7f, 0xff, 0xff, 0xff][..], {
                JuteError::Truncated { wanted: 0x7fff_ffff, left: 0 }
            }),
            ("a negative length that is not null", &[0xff, 0xff, 0xff, 0xfe], JuteError::NegativeLength(-2)),
            ("null for a required string", &[0xff, 0xff, 0xff, 0xff], JuteError::Null),
            ("bytes that are no text", &[0, 0, 0, 1, 0xff], JuteError::NotUtf8),
        ] {
            assert_eq!(Reader::new(bytes).string(), Err(error), "{why}");
        }
        assert_eq!(
            Reader::new(&[0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0]).strings(),
            Err(JuteError::CountBeyondBytes { count: 0x7fff_ffff, left: 4 }),
            "a count that the bytes left cannot hold"
        );
    }
}
