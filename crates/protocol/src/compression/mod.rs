//! The codecs of record batches: gzip, snappy, lz4 and zstd, framed as Kafka's Java client frames them.
//!
//! Reading is done in pieces: [`Decompressor`] appends one piece at a time, so that a caller who only looks at
//! records holds a window of them, and a caller who wants everything ([`decompress`]) finds out that it is too
//! much before it is there. No length that a stream claims is believed beyond what its codec could make of the
//! bytes present. Contexts of gzip and zstd, which are costly to build, are kept one per thread.

mod gzip;
mod lz4;
mod snappy;
mod zstd;

use bytes::Bytes;

use crate::records::Magic;

/// How the records of an entry are compressed: the low three attribute bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[repr(u8)]
pub enum Codec {
    #[default]
    None = 0,
    Gzip = 1,
    Snappy = 2,
    /// Since 0.8.2.
    Lz4 = 3,
    /// Since 2.1, magic 2 only (KIP-110).
    Zstd = 4,
}

/// A codec id that no Kafka up to 3.9 gives a meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("codec {id} is unknown; 0 to 4 are none, gzip, snappy, lz4 and zstd")]
pub struct UnknownCodec {
    pub id: u8,
}

impl Codec {
    pub const ALL: [Codec; 5] = [Codec::None, Codec::Gzip, Codec::Snappy, Codec::Lz4, Codec::Zstd];

    pub fn from_id(id: u8) -> Result<Codec, UnknownCodec> {
        match id {
            0 => Ok(Codec::None),
            1 => Ok(Codec::Gzip),
            2 => Ok(Codec::Snappy),
            3 => Ok(Codec::Lz4),
            4 => Ok(Codec::Zstd),
            id => Err(UnknownCodec { id }),
        }
    }

    /// The name that producers know it by; a topic's `compression.type` says `uncompressed` for none.
    pub fn from_name(name: &str) -> Option<Codec> {
        Codec::ALL.into_iter().find(|codec| codec.name() == name)
    }

    pub fn name(self) -> &'static str {
        match self {
            Codec::None => "none",
            Codec::Gzip => "gzip",
            Codec::Snappy => "snappy",
            Codec::Lz4 => "lz4",
            Codec::Zstd => "zstd",
        }
    }

    /// The levels that `compression.<name>.level` takes; `None` where a codec has none (KIP-390).
    pub fn levels(self) -> Option<std::ops::RangeInclusive<i32>> {
        match self {
            Codec::None | Codec::Snappy => None,
            // -1 is zlib's own default.
            Codec::Gzip => Some(-1..=9),
            Codec::Lz4 => Some(1..=17),
            Codec::Zstd => Some(-131_072..=22),
        }
    }

    /// The level in force where none is configured; meaningless where a codec has none.
    pub fn level_default(self) -> i32 {
        match self {
            Codec::None | Codec::Snappy => 0,
            Codec::Gzip => -1,
            Codec::Lz4 => 9,
            Codec::Zstd => 3,
        }
    }
}

impl std::fmt::Display for Codec {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.name())
    }
}

/// A codec and how hard it tries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Compression {
    codec: Codec,
    level: i32,
}

impl Compression {
    pub const NONE: Compression = Compression { codec: Codec::None, level: 0 };

    /// `None` where the codec does not have that level. Zero is no gzip level in Kafka.
    ///
    /// The lz4 encoder here has one speed, that of Kafka's default level; others are accepted and give the same
    /// bytes, which any reader takes.
    pub fn with_level(codec: Codec, level: i32) -> Option<Compression> {
        let stored = codec == Codec::Gzip && level == 0;
        (codec.levels()?.contains(&level) && !stored).then_some(Compression { codec, level })
    }

    pub fn codec(self) -> Codec {
        self.codec
    }

    pub fn level(self) -> i32 {
        self.level
    }
}

impl From<Codec> for Compression {
    fn from(codec: Codec) -> Compression {
        Compression { codec, level: codec.level_default() }
    }
}

/// Why compressed bytes do not become records.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CompressionError {
    #[error("{codec} stream ends early")]
    Truncated { codec: Codec },
    #[error("{codec} stream is corrupt: {cause}")]
    Corrupt { codec: Codec, cause: &'static str },
    #[error("{codec} stream holds more than the {limit} bytes allowed")]
    TooLarge { codec: Codec, limit: usize },
}

/// Bytes that one step of a streaming codec (gzip, zstd) appends at most: a few times the input, so that a small
/// batch does not cost a large buffer, between 1 and 64 KiB.
fn piece_length(input: &[u8]) -> usize {
    input.len().saturating_mul(4).clamp(1024, 64 * 1024)
}

/// Takes a codec stream apart piece by piece.
#[derive(Debug)]
pub struct Decompressor<'a> {
    stream: Stream<'a>,
    codec: Codec,
    produced: usize,
    limit: usize,
}

#[derive(Debug)]
enum Stream<'a> {
    Plain(Option<&'a [u8]>),
    Gzip(gzip::Reader<'a>),
    Snappy(snappy::Reader<'a>),
    Lz4(lz4::Reader<'a>),
    Zstd(zstd::Reader<'a>),
}

impl<'a> Decompressor<'a> {
    /// `magic` is that of the entry: magic-0 lz4 streams carry a header checksum that is wrong by design.
    /// `limit` is the most that may come out in total.
    pub fn new(
        codec: Codec,
        magic: Magic,
        input: &'a [u8],
        limit: usize,
    ) -> Result<Decompressor<'a>, CompressionError> {
        let stream = match codec {
            Codec::None => Stream::Plain(Some(input)),
            Codec::Gzip => Stream::Gzip(gzip::Reader::new(input)?),
            Codec::Snappy => Stream::Snappy(snappy::Reader::new(input)?),
            Codec::Lz4 => Stream::Lz4(lz4::Reader::new(input, magic)?),
            Codec::Zstd => Stream::Zstd(zstd::Reader::new(input)),
        };
        Ok(Decompressor { stream, codec, produced: 0, limit })
    }

    /// Appends the next piece to `out`; false, and nothing appended, at the end.
    ///
    /// A piece is at most 64 KiB of gzip or zstd, one block of snappy (what is claimed, if the compressed bytes
    /// can make that much) or lz4 (at most 4 MiB), or all that is there if nothing is compressed.
    pub fn next_piece(&mut self, out: &mut Vec<u8>) -> Result<bool, CompressionError> {
        let before = out.len();
        let room = self.limit - self.produced;
        let more = match &mut self.stream {
            Stream::Plain(input) => {
                let input = input.take().unwrap_or_default();
                if input.len() <= room {
                    out.extend_from_slice(input);
                    Ok(!input.is_empty())
                } else {
                    Err(PieceError::TooLarge)
                }
            }
            Stream::Gzip(reader) => reader.next_piece(out, room),
            Stream::Snappy(reader) => reader.next_piece(out, room),
            Stream::Lz4(reader) => reader.next_piece(out, room),
            Stream::Zstd(reader) => reader.next_piece(out, room),
        };
        self.produced += out.len() - before;
        more.map_err(|error| match error {
            PieceError::Truncated => CompressionError::Truncated { codec: self.codec },
            PieceError::Corrupt(cause) => CompressionError::Corrupt { codec: self.codec, cause },
            PieceError::TooLarge => CompressionError::TooLarge { codec: self.codec, limit: self.limit },
        })
    }
}

/// [`CompressionError`] before it knows its codec and limit.
#[derive(Debug, PartialEq, Eq)]
enum PieceError {
    Truncated,
    Corrupt(&'static str),
    TooLarge,
}

/// Everything in a codec stream, if that is at most `limit` bytes. Memory grows with what comes out, at most
/// doubling it, never with what the stream claims.
pub fn decompress(codec: Codec, magic: Magic, input: &[u8], limit: usize) -> Result<Bytes, CompressionError> {
    let mut out = Vec::new();
    let mut stream = Decompressor::new(codec, magic, input, limit)?;
    while stream.next_piece(&mut out)? {}
    Ok(out.into())
}

/// Builds a codec stream piece by piece.
#[derive(Debug)]
pub struct Compressor(Sink);

#[derive(Debug)]
enum Sink {
    Plain,
    Gzip(gzip::Writer),
    Snappy(Box<snappy::Writer>),
    Lz4(lz4::Writer),
    Zstd(zstd::Writer),
}

impl Compressor {
    /// `magic` is that of the entry to be; `length` the bytes to come, where known, which saves zstd memory.
    /// Writes the stream's header to `out`; the same `out` goes to every further call.
    pub fn new(
        compression: Compression,
        magic: Magic,
        length: Option<usize>,
        out: &mut Vec<u8>,
    ) -> Compressor {
        Compressor(match compression.codec {
            Codec::None => Sink::Plain,
            Codec::Gzip => Sink::Gzip(gzip::Writer::new(compression.level, out)),
            Codec::Snappy => Sink::Snappy(Box::new(snappy::Writer::new(out))),
            Codec::Lz4 => Sink::Lz4(lz4::Writer::new(magic, out)),
            Codec::Zstd => {
                assert_eq!(magic, Magic::V2, "zstd is not defined below magic 2");
                Sink::Zstd(zstd::Writer::new(compression.level, length))
            }
        })
    }

    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        match &mut self.0 {
            Sink::Plain => out.extend_from_slice(bytes),
            Sink::Gzip(writer) => writer.write(bytes, out),
            Sink::Snappy(writer) => writer.write(bytes, out),
            Sink::Lz4(writer) => writer.write(bytes, out),
            Sink::Zstd(writer) => writer.write(bytes, out),
        }
    }

    pub fn finish(self, out: &mut Vec<u8>) {
        match self.0 {
            Sink::Plain => {}
            Sink::Gzip(writer) => writer.finish(out),
            Sink::Snappy(writer) => writer.finish(out),
            Sink::Lz4(writer) => writer.finish(out),
            Sink::Zstd(writer) => writer.finish(out),
        }
    }
}

/// Appends `input` as one codec stream to `out`.
pub fn compress(compression: Compression, magic: Magic, input: &[u8], out: &mut Vec<u8>) {
    let mut stream = Compressor::new(compression, magic, Some(input.len()), out);
    stream.write(input, out);
    stream.finish(out);
}

/// Collects bytes into blocks of a fixed size, for the codecs that compress block by block.
#[derive(Debug)]
struct Blocks {
    size: usize,
    partial: Vec<u8>,
}

impl Blocks {
    fn new(size: usize) -> Blocks {
        Blocks { size, partial: Vec::new() }
    }

    /// Hands each block that `bytes` completes to `emit`. Whole blocks are not copied.
    fn write(&mut self, mut bytes: &[u8], mut emit: impl FnMut(&[u8])) {
        if !self.partial.is_empty() {
            let (head, rest) = bytes.split_at(bytes.len().min(self.size - self.partial.len()));
            self.partial.extend_from_slice(head);
            bytes = rest;
            if self.partial.len() == self.size {
                emit(&self.partial);
                self.partial.clear();
            }
        }
        let mut blocks = bytes.chunks_exact(self.size);
        for block in &mut blocks {
            emit(block);
        }
        self.partial.extend_from_slice(blocks.remainder());
    }

    /// The last, shorter block, unless the bytes came out even.
    fn finish(self, emit: impl FnOnce(&[u8])) {
        if !self.partial.is_empty() {
            emit(&self.partial);
        }
    }
}

/// A context that a thread keeps for its next stream.
///
/// One context per thread and kind at rest, however many streams are open; what a context may weigh at rest is
/// its codec's to say.
macro_rules! pooled {
    ($name:ident: $inner:ty, create: $create:expr, reset: $reset:expr) => {
        struct $name(Option<Box<$inner>>);

        impl $name {
            fn take() -> $name {
                let kept = $name::spare(|spare| spare.take());
                $name(Some(kept.flatten().unwrap_or_else(|| Box::new($create()))))
            }

            fn get(&mut self) -> &mut $inner {
                self.0.as_mut().expect("held until dropped")
            }

            /// `None` while the thread is being torn down.
            fn spare<R>(with: impl FnOnce(&std::cell::Cell<Option<Box<$inner>>>) -> R) -> Option<R> {
                thread_local! {
                    static SPARE: std::cell::Cell<Option<Box<$inner>>> = const { std::cell::Cell::new(None) };
                }
                SPARE.try_with(with).ok()
            }
        }

        impl std::fmt::Debug for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(stringify!($name))
            }
        }

        impl Drop for $name {
            fn drop(&mut self) {
                let mut context = self.0.take().expect("held until dropped");
                let reset: fn(&mut $inner) -> bool = $reset;
                if reset(&mut context) {
                    $name::spare(|spare| spare.set(Some(context)));
                }
            }
        }
    };
}
use pooled;
