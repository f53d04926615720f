//! snappy, in the framing of snappy-java ("xerial"), which every Kafka client writes or at least reads.
//!
//! ```text
//! 82 53 4e 41 50 50 59 00 | i32 version 1 | i32 lowest compatible version 1
//! i32 length, raw snappy block | i32 length, raw snappy block | ..
//! ```
//!
//! Some clients send one raw block with no framing at all; whatever does not start with the magic is taken for
//! that. A second header in place of a block length starts a concatenated stream.

use super::{Blocks, Codec, CompressionError, PieceError};

const MAGIC: [u8; 8] = [0x82, b'S', b'N', b'A', b'P', b'P', b'Y', 0];
const HEADER_LENGTH: usize = 16;
const BLOCK_LENGTH: usize = 32 * 1024;

/// More bytes than one compressed byte can become: a copy of 64 bytes takes three.
const EXPANSION_MAX: usize = 22;

pub(super) struct Reader<'a> {
    input: &'a [u8],
    framed: bool,
    decoder: snap::raw::Decoder,
}

impl std::fmt::Debug for Reader<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("left", &self.input.len()).field("framed", &self.framed).finish()
    }
}

impl<'a> Reader<'a> {
    pub fn new(input: &'a [u8]) -> Result<Reader<'a>, CompressionError> {
        if input.is_empty() {
            return Err(CompressionError::Truncated { codec: Codec::Snappy });
        }
        let framed = input.len() >= HEADER_LENGTH && input.starts_with(&MAGIC);
        let input = if framed { &input[HEADER_LENGTH..] } else { input };
        Ok(Reader { input, framed, decoder: snap::raw::Decoder::new() })
    }

    pub fn next_piece(&mut self, out: &mut Vec<u8>, room: usize) -> Result<bool, PieceError> {
        let start = out.len();
        while out.len() == start {
            let Some(block) = self.next_block()? else { return Ok(false) };
            let length = snap::raw::decompress_len(block)
                .map_err(|_| PieceError::Corrupt("no length before a block"))?;
            if length > block.len().saturating_mul(EXPANSION_MAX) {
                return Err(PieceError::Corrupt("block claims more than its bytes can hold"));
            }
            if length > room {
                return Err(PieceError::TooLarge);
            }
            out.resize(start + length, 0);
            if self.decoder.decompress(block, &mut out[start..]).is_err() {
                out.truncate(start);
                return Err(PieceError::Corrupt("not a snappy block"));
            }
        }
        Ok(true)
    }

    fn next_block(&mut self) -> Result<Option<&'a [u8]>, PieceError> {
        if !self.framed {
            let block = std::mem::take(&mut self.input);
            return Ok((!block.is_empty()).then_some(block));
        }
        while self.input.starts_with(&MAGIC[..4]) {
            if !self.input.starts_with(&MAGIC) {
                return Err(PieceError::Corrupt("no stream header where one starts"));
            }
            self.input = self.input.get(HEADER_LENGTH..).ok_or(PieceError::Truncated)?;
        }
        // Fewer bytes than a length are the end, as in snappy-java.
        let Some((length, rest)) = self.input.split_first_chunk::<4>() else { return Ok(None) };
        let length = usize::try_from(i32::from_be_bytes(*length))
            .map_err(|_| PieceError::Corrupt("block length is negative"))?;
        let (block, rest) = rest.split_at_checked(length).ok_or(PieceError::Truncated)?;
        self.input = rest;
        Ok(Some(block))
    }
}

pub(super) struct Writer {
    blocks: Blocks,
    encoder: snap::raw::Encoder,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.blocks.fmt(f)
    }
}

impl Writer {
    pub fn new(out: &mut Vec<u8>) -> Writer {
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&1i32.to_be_bytes());
        out.extend_from_slice(&1i32.to_be_bytes());
        Writer { blocks: Blocks::new(BLOCK_LENGTH), encoder: snap::raw::Encoder::new() }
    }

    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Writer { blocks, encoder } = self;
        blocks.write(bytes, |block| put_block(encoder, block, out));
    }

    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.blocks.finish(|block| put_block(&mut self.encoder, block, out));
    }
}

fn put_block(encoder: &mut snap::raw::Encoder, block: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let data = start + 4;
    out.resize(data + snap::raw::max_compress_len(block.len()), 0);
    let length = encoder.compress(block, &mut out[data..]).expect("the output holds the longest block");
    out[start..data].copy_from_slice(&(length as i32).to_be_bytes());
    out.truncate(data + length);
}
