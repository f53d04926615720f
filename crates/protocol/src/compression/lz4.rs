//! The LZ4 frame format, as far as Kafka uses it: independent blocks, no dictionary.
//!
//! ```text
//! 04 22 4d 18 | FLG | BD | [u64 content size] | HC | blocks | u32 0 | [u32 content checksum]
//! block:  u32 LE length, bit 31 = stored | data | [u32 block checksum]
//! ```
//!
//! HC is a byte of the xxHash32 of the descriptor (FLG to content size). Kafka before 0.10 hashed the frame magic
//! too, and insists on that wrong value when it reads; so magic-0 streams are written with it, and read with any.

use xxhash_rust::xxh32::xxh32;

use super::{Blocks, Codec, CompressionError, PieceError};
use crate::records::Magic;

const MAGIC: [u8; 4] = 0x184d_2204u32.to_le_bytes();
/// Version 01, independent blocks, no checksums, no content size.
const FLG: u8 = 0x60;
/// Blocks of at most 64 KiB.
const BD: u8 = 0x40;
const BLOCK_LENGTH: usize = 64 * 1024;
/// Set in a block length: the block is stored as it is.
const STORED: u32 = 1 << 31;

/// More bytes than one compressed byte can become: each 255 of a match length takes one.
const EXPANSION_MAX: usize = 255;

#[derive(Debug)]
pub(super) struct Reader<'a> {
    /// From the next block on.
    input: &'a [u8],
    block_length_max: usize,
    block_checksums: bool,
    content_checksum: bool,
    ended: bool,
}

impl<'a> Reader<'a> {
    pub fn new(input: &'a [u8], magic: Magic) -> Result<Reader<'a>, CompressionError> {
        let corrupt = |cause| CompressionError::Corrupt { codec: Codec::Lz4, cause };
        let truncated = CompressionError::Truncated { codec: Codec::Lz4 };
        let Some((frame_magic, descriptor)) = input.split_first_chunk::<4>() else { return Err(truncated) };
        if *frame_magic != MAGIC {
            return Err(corrupt("no lz4 frame magic"));
        }
        let [flg, bd, ..] = *descriptor else { return Err(truncated) };
        if flg >> 6 != 1 || flg & 0x03 != 0 {
            return Err(corrupt("frame version is not 1, or reserved bits are set"));
        }
        if flg & 0x20 == 0 {
            return Err(corrupt("blocks depend on each other"));
        }
        let size_code = bd >> 4;
        if !(4..=7).contains(&size_code) || bd & 0x0f != 0 {
            return Err(corrupt("block size is none of 64 KiB to 4 MiB, or reserved bits are set"));
        }
        let descriptor_length = if flg & 0x08 == 0 { 2 } else { 10 };
        let Some((descriptor, rest)) = descriptor.split_at_checked(descriptor_length) else {
            return Err(truncated);
        };
        let Some((&checksum, input)) = rest.split_first() else { return Err(truncated) };
        if magic > Magic::V0 && checksum != header_checksum(descriptor) {
            return Err(corrupt("header checksum does not match"));
        }
        Ok(Reader {
            input,
            block_length_max: 1 << (8 + 2 * size_code),
            block_checksums: flg & 0x10 != 0,
            content_checksum: flg & 0x04 != 0,
            ended: false,
        })
    }

    pub fn next_piece(&mut self, out: &mut Vec<u8>, room: usize) -> Result<bool, PieceError> {
        let start = out.len();
        while !self.ended && out.len() == start {
            let field = self.take_u32()?;
            let length = (field & !STORED) as usize;
            if length == 0 {
                self.ended = true;
                if self.content_checksum {
                    // Kafka reads it and does not check it, and some writers get it wrong.
                    self.take_u32()?;
                }
                break;
            }
            if length > self.block_length_max {
                return Err(PieceError::Corrupt("block is longer than the frame allows"));
            }
            let (block, rest) = self.input.split_at_checked(length).ok_or(PieceError::Truncated)?;
            self.input = rest;
            if self.block_checksums && xxh32(block, 0) != self.take_u32()? {
                return Err(PieceError::Corrupt("checksum of a block does not match its bytes"));
            }
            if field & STORED == 0 {
                self.decompress_block(block, out, room)?;
            } else if length > room {
                return Err(PieceError::TooLarge);
            } else {
                out.extend_from_slice(block);
            }
        }
        Ok(out.len() > start)
    }

    fn decompress_block(&self, block: &[u8], out: &mut Vec<u8>, room: usize) -> Result<(), PieceError> {
        let start = out.len();
        let most = self.block_length_max.min(block.len() * EXPANSION_MAX);
        out.resize(start + most.min(room), 0);
        let length = match lz4_flex::block::decompress_into(block, &mut out[start..]) {
            Ok(length) => length,
            Err(error) => {
                out.truncate(start);
                let too_small = matches!(error, lz4_flex::block::DecompressError::OutputTooSmall { .. });
                return Err(if too_small && room < most {
                    PieceError::TooLarge
                } else {
                    PieceError::Corrupt("not an lz4 block")
                });
            }
        };
        out.truncate(start + length);
        Ok(())
    }

    fn take_u32(&mut self) -> Result<u32, PieceError> {
        let (field, rest) = self.input.split_first_chunk::<4>().ok_or(PieceError::Truncated)?;
        self.input = rest;
        Ok(u32::from_le_bytes(*field))
    }
}

fn header_checksum(hashed: &[u8]) -> u8 {
    (xxh32(hashed, 0) >> 8) as u8
}

#[derive(Debug)]
pub(super) struct Writer {
    blocks: Blocks,
    table: Table,
}

struct Table(lz4_flex::block::CompressTable);

impl std::fmt::Debug for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Table")
    }
}

impl Writer {
    pub fn new(magic: Magic, out: &mut Vec<u8>) -> Writer {
        let start = out.len();
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&[FLG, BD]);
        let hashed_from = if magic == Magic::V0 { start } else { start + MAGIC.len() };
        out.push(header_checksum(&out[hashed_from..]));
        Writer { blocks: Blocks::new(BLOCK_LENGTH), table: Table(lz4_flex::block::CompressTable::default()) }
    }

    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        let Writer { blocks, table } = self;
        blocks.write(bytes, |block| put_block(table, block, out));
    }

    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.blocks.finish(|block| put_block(&mut self.table, block, out));
        out.extend_from_slice(&0u32.to_le_bytes());
    }
}

fn put_block(table: &mut Table, block: &[u8], out: &mut Vec<u8>) {
    let start = out.len();
    let data = start + 4;
    out.resize(data + lz4_flex::block::get_maximum_output_size(block.len()), 0);
    let length = lz4_flex::block::compress_into_with_table(block, &mut out[data..], &mut table.0)
        .expect("the output holds the longest block");
    let field = if length < block.len() {
        out.truncate(data + length);
        length as u32
    } else {
        out.truncate(data);
        out.extend_from_slice(block);
        block.len() as u32 | STORED
    };
    out[start..data].copy_from_slice(&field.to_le_bytes());
}
