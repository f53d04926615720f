//! Compressed records, seen through a window of bounded size.

use super::batch::Batch;
use super::record::{EncodedRecord, Reader, RecordError};
use super::varint::{NoVarint, VARINT_LENGTH_MAX, VARLONG_LENGTH_MAX, read_varint, read_varlong};
use crate::compression::{CompressionError, Decompressor};

/// Records up to this long are looked at whole; longer ones are skipped through piece by piece.
const SKIM_WHOLE_MAX: usize = 128 * 1024;

/// The part of a codec stream that is decompressed right now: what has been passed is dropped, what comes is
/// decompressed when it is asked for.
#[derive(Debug)]
pub(super) struct Window<'a> {
    stream: Decompressor<'a>,
    buffer: Vec<u8>,
    at: usize,
}

/// What validation wants to know of a record.
#[derive(Debug, Clone, Copy)]
pub(super) struct Skimmed {
    pub timestamp_delta: i64,
    pub offset_delta: i32,
    pub has_key: bool,
}

impl From<EncodedRecord<'_>> for Skimmed {
    #[inline]
    fn from(record: EncodedRecord<'_>) -> Skimmed {
        Skimmed {
            timestamp_delta: record.timestamp_delta,
            offset_delta: record.offset_delta,
            has_key: record.key.is_some(),
        }
    }
}

impl<'a> Window<'a> {
    pub fn new(stream: Decompressor<'a>) -> Window<'a> {
        Window { stream, buffer: Vec::new(), at: 0 }
    }

    /// What is in view.
    fn view(&self) -> &[u8] {
        &self.buffer[self.at..]
    }

    /// Decompresses on until `wanted` bytes are in view; false if the stream ends before.
    fn fill(&mut self, wanted: usize) -> Result<bool, CompressionError> {
        while self.view().len() < wanted {
            self.buffer.drain(..self.at);
            self.at = 0;
            if !self.stream.next_piece(&mut self.buffer)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn skip(&mut self, mut length: usize) -> Result<(), RecordError> {
        while self.view().len() < length {
            length -= self.view().len();
            self.at = self.buffer.len();
            if !self.fill(1)? {
                return Err(RecordError::EndsEarly);
            }
        }
        self.at += length;
        Ok(())
    }

    /// Bytes in view once the stream has nothing more to give; 0 at the end of a well-formed batch.
    pub fn bytes_left(&mut self) -> Result<usize, CompressionError> {
        self.fill(1)?;
        Ok(self.view().len())
    }

    /// The next magic-2 record, whole. Refuses one longer than `length_max`, which bounds the window.
    pub fn record(&mut self, length_max: usize) -> Result<EncodedRecord<'_>, RecordError> {
        let total = self.record_length()?;
        if total > length_max {
            return Err(RecordError::RecordTooLarge { length: total, max: length_max });
        }
        if !self.fill(total)? {
            return Err(RecordError::EndsEarly);
        }
        let start = self.at;
        self.at += total;
        Reader(&self.buffer[start..self.at]).record()
    }

    /// Passes the next magic-2 record with the same checks, in a window that does not grow with it.
    #[inline]
    pub fn skim(&mut self) -> Result<Skimmed, RecordError> {
        // Nearly all records lie whole in view.
        let mut reader = Reader(self.view());
        if let Ok(record) = reader.record() {
            let skimmed = record.into();
            self.at = self.buffer.len() - reader.0.len();
            return Ok(skimmed);
        }
        self.skim_across()
    }

    #[inline(never)]
    fn skim_across(&mut self) -> Result<Skimmed, RecordError> {
        let total = self.record_length()?;
        if total <= SKIM_WHOLE_MAX {
            self.record(SKIM_WHOLE_MAX).map(Skimmed::from)
        } else {
            self.skim_long()
        }
    }

    /// Bytes of the next record, its length included.
    fn record_length(&mut self) -> Result<usize, RecordError> {
        self.fill(VARINT_LENGTH_MAX)?;
        let (length, prefix) = read_varint(self.view())?;
        let body = usize::try_from(length).map_err(|_| RecordError::RecordLength { length })?;
        Ok(prefix + body)
    }

    fn skim_long(&mut self) -> Result<Skimmed, RecordError> {
        let (length, prefix) = read_varint(self.view())?;
        self.skip(prefix)?;
        let mut body = Body { left: length as usize, window: self };
        body.skip(1)?;
        let timestamp_delta = body.number(VARLONG_LENGTH_MAX, read_varlong)?;
        let offset_delta = body.varint()?;
        let has_key = body.skip_nullable()?;
        body.skip_nullable()?;
        let headers = body.varint()?;
        if usize::try_from(headers).is_err() || headers as usize > body.left {
            return Err(RecordError::HeaderCount { count: headers, left: body.left });
        }
        for _ in 0..headers {
            let key_length = body.varint()?;
            let skip = usize::try_from(key_length)
                .map_err(|_| RecordError::HeaderKeyLength { length: key_length })?;
            body.skip(skip)?;
            body.skip_nullable()?;
        }
        if body.left != 0 {
            return Err(RecordError::RecordNotFilled { length, left: body.left });
        }
        Ok(Skimmed { timestamp_delta, offset_delta, has_key })
    }
}

/// The body of a record too long to be in view at once.
struct Body<'w, 'a> {
    left: usize,
    window: &'w mut Window<'a>,
}

impl Body<'_, '_> {
    fn skip(&mut self, length: usize) -> Result<(), RecordError> {
        self.left = self.left.checked_sub(length).ok_or(RecordError::EndsEarly)?;
        self.window.skip(length)
    }

    fn number<T>(
        &mut self,
        length_max: usize,
        read: impl Fn(&[u8]) -> Result<(T, usize), NoVarint>,
    ) -> Result<T, RecordError> {
        self.window.fill(length_max)?;
        let (number, length) = read(self.window.view())?;
        self.skip(length)?;
        Ok(number)
    }

    fn varint(&mut self) -> Result<i32, RecordError> {
        self.number(VARINT_LENGTH_MAX, read_varint)
    }

    /// Whether there was anything but null.
    fn skip_nullable(&mut self) -> Result<bool, RecordError> {
        match usize::try_from(self.varint()?) {
            Ok(length) => self.skip(length).map(|()| true),
            Err(_) => Ok(false),
        }
    }
}

/// Walks the entries inside a compressed wrapper of magic 0 or 1, one in view at a time.
impl Window<'_> {
    /// The next whole entry; `None` at the end, where a partial one is ignored as in any buffer.
    pub fn entry(&mut self, length_max: usize) -> Result<Option<Batch<'_>>, RecordError> {
        let mut wanted = super::HEADER_LENGTH;
        // Twice: the header says how long the entry is.
        for _ in 0..2 {
            self.fill(wanted)?;
            match super::BatchHeader::parse(self.view())? {
                None => return Ok(None),
                Some(header) if header.length > length_max => {
                    return Err(RecordError::RecordTooLarge { length: header.length, max: length_max });
                }
                Some(header) => wanted = header.length,
            }
        }
        let start = self.at;
        if self.view().len() < wanted {
            return Ok(None);
        }
        self.at += wanted;
        Ok(Batch::parse(&self.buffer[start..self.at])?)
    }
}
