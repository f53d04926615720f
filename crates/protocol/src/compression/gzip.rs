//! gzip (RFC 1952), possibly several members one after another.

use flate2::{Compress, Decompress, FlushCompress, FlushDecompress, Status};

use super::{Codec, CompressionError, PieceError, piece_length, pooled};

const HEADER: [u8; 10] = [0x1f, 0x8b, DEFLATE, 0, 0, 0, 0, 0, 0, OS_UNKNOWN];
const DEFLATE: u8 = 8;
/// What the JDK writes since version 16.
const OS_UNKNOWN: u8 = 0xff;
const TRAILER_LENGTH: usize = 8;

mod flag {
    pub const HEADER_CRC: u8 = 0x02;
    pub const EXTRA: u8 = 0x04;
    pub const NAME: u8 = 0x08;
    pub const COMMENT: u8 = 0x10;
    pub const RESERVED: u8 = 0xe0;
}

// A raw inflate state with its 32 KiB window, and a raw deflate state: some 50 and 300 KiB.
pooled! {
    Inflate: Decompress,
    create: || Decompress::new(false),
    reset: |inflate| { inflate.reset(false); true }
}
pooled! {
    Deflate: Compress,
    create: || Compress::new(flate2::Compression::default(), false),
    reset: |deflate| { deflate.reset(); true }
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// From the first byte not yet inflated.
    input: &'a [u8],
    piece_length: usize,
    inflate: Inflate,
    crc: crc32fast::Hasher,
    member_length: u32,
    ended: bool,
}

impl<'a> Reader<'a> {
    pub fn new(input: &'a [u8]) -> Result<Reader<'a>, CompressionError> {
        let input = skip_header(input).map_err(|error| match error {
            BadHeader::Truncated => CompressionError::Truncated { codec: Codec::Gzip },
            BadHeader::Corrupt(cause) => CompressionError::Corrupt { codec: Codec::Gzip, cause },
        })?;
        Ok(Reader {
            input,
            piece_length: piece_length(input),
            inflate: Inflate::take(),
            crc: crc32fast::Hasher::new(),
            member_length: 0,
            ended: false,
        })
    }

    pub fn next_piece(&mut self, out: &mut Vec<u8>, room: usize) -> Result<bool, PieceError> {
        let start = out.len();
        while !self.ended {
            // One byte beyond the room tells "just fits" from "too large".
            out.reserve(self.piece_length.min(room.saturating_add(1)));
            let inflate = self.inflate.get();
            let (in_before, out_before) = (inflate.total_in(), out.len());
            let status = inflate
                .decompress_vec(self.input, out, FlushDecompress::None)
                .map_err(|_| PieceError::Corrupt("not a deflate stream"))?;
            let consumed = (inflate.total_in() - in_before) as usize;
            self.input = &self.input[consumed..];
            let piece = &out[out_before..];
            self.crc.update(piece);
            self.member_length = self.member_length.wrapping_add(piece.len() as u32);
            if out.len() - start > room {
                out.truncate(start);
                return Err(PieceError::TooLarge);
            }
            match status {
                Status::StreamEnd => self.end_member()?,
                Status::Ok | Status::BufError if out.len() > start => {}
                // Neither input taken nor output made: the stream wants bytes that are not there.
                Status::Ok | Status::BufError if consumed == 0 => return Err(PieceError::Truncated),
                Status::Ok | Status::BufError => continue,
            }
            if out.len() > start {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Checks a member's trailer, and goes on to the next member if there is one. What follows the last member
    /// and is none is ignored, as the JDK ignores it.
    fn end_member(&mut self) -> Result<(), PieceError> {
        let (trailer, rest) = self.input.split_at_checked(TRAILER_LENGTH).ok_or(PieceError::Truncated)?;
        let [crc, length] =
            [0, 4].map(|at| u32::from_le_bytes(trailer[at..at + 4].try_into().expect("four bytes")));
        if std::mem::take(&mut self.crc).finalize() != crc {
            return Err(PieceError::Corrupt("crc of a member does not match its bytes"));
        }
        if std::mem::take(&mut self.member_length) != length {
            return Err(PieceError::Corrupt("length of a member does not match its bytes"));
        }
        match skip_header(rest) {
            Ok(rest) => {
                self.input = rest;
                self.inflate.get().reset(false);
            }
            Err(_) => self.ended = true,
        }
        Ok(())
    }
}

enum BadHeader {
    Truncated,
    Corrupt(&'static str),
}

/// What follows the member header at the start of `input`.
fn skip_header(input: &[u8]) -> Result<&[u8], BadHeader> {
    let (fixed, mut rest) = input.split_at_checked(HEADER.len()).ok_or(BadHeader::Truncated)?;
    if fixed[..2] != HEADER[..2] {
        return Err(BadHeader::Corrupt("no gzip magic"));
    }
    let flags = fixed[3];
    if fixed[2] != DEFLATE || flags & flag::RESERVED != 0 {
        return Err(BadHeader::Corrupt("compression method or flags are not gzip's"));
    }
    let skip = |bytes: &mut &[u8], length: usize| {
        *bytes = bytes.get(length..).ok_or(BadHeader::Truncated)?;
        Ok(())
    };
    if flags & flag::EXTRA != 0 {
        let length = rest.first_chunk::<2>().ok_or(BadHeader::Truncated)?;
        skip(&mut rest, 2 + usize::from(u16::from_le_bytes(*length)))?;
    }
    for text in [flag::NAME, flag::COMMENT] {
        if flags & text != 0 {
            let end = rest.iter().position(|byte| *byte == 0).ok_or(BadHeader::Truncated)?;
            skip(&mut rest, end + 1)?;
        }
    }
    if flags & flag::HEADER_CRC != 0 {
        let stored = *rest.first_chunk::<2>().ok_or(BadHeader::Truncated)?;
        let header = &input[..input.len() - rest.len()];
        if crc32fast::hash(header) as u16 != u16::from_le_bytes(stored) {
            return Err(BadHeader::Corrupt("header checksum does not match"));
        }
        skip(&mut rest, 2)?;
    }
    Ok(rest)
}

#[derive(Debug)]
pub(super) struct Writer {
    deflate: Deflate,
    crc: crc32fast::Hasher,
    length: u32,
}

impl Writer {
    pub fn new(level: i32, out: &mut Vec<u8>) -> Writer {
        out.extend_from_slice(&HEADER);
        let mut deflate = Deflate::take();
        let level =
            u32::try_from(level).map_or_else(|_| flate2::Compression::default(), flate2::Compression::new);
        deflate.get().set_level(level).expect("a fresh stream takes any level");
        Writer { deflate, crc: crc32fast::Hasher::new(), length: 0 }
    }

    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.crc.update(bytes);
        self.length = self.length.wrapping_add(bytes.len() as u32);
        self.run(bytes, FlushCompress::None, out);
    }

    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.run(&[], FlushCompress::Finish, out);
        out.extend_from_slice(&self.crc.finalize().to_le_bytes());
        out.extend_from_slice(&self.length.to_le_bytes());
    }

    fn run(&mut self, mut bytes: &[u8], flush: FlushCompress, out: &mut Vec<u8>) {
        let deflate = self.deflate.get();
        loop {
            out.reserve(bytes.len() / 2 + 64);
            let before = deflate.total_in();
            let status = deflate.compress_vec(bytes, out, flush).expect("deflate takes any bytes");
            bytes = &bytes[(deflate.total_in() - before) as usize..];
            match flush {
                FlushCompress::Finish if status == Status::StreamEnd => return,
                FlushCompress::Finish => {}
                _ if bytes.is_empty() => return,
                _ => {}
            }
        }
    }
}
