//! zstd frames, possibly several one after another.

use zstd::zstd_safe::{
    CCtx, CParameter, DCtx, InBuffer, OutBuffer, ResetDirective, zstd_sys::ZSTD_EndDirective,
};

use super::{PieceError, piece_length, pooled};

/// The most that a context kept for the next stream may weigh. A frame says how large a window it needs, up to
/// 128 MiB; levels up to 19 need 8 MiB. Windows are touched only as far as a stream is long.
const KEPT_BYTES_MAX: usize = 10 << 20;

pooled! {
    Decompress: DCtx<'static>,
    create: DCtx::create,
    reset: |context| context.sizeof() <= KEPT_BYTES_MAX && context.reset(ResetDirective::SessionOnly).is_ok()
}
pooled! {
    Compress: CCtx<'static>,
    create: CCtx::create,
    reset: |context| {
        context.sizeof() <= KEPT_BYTES_MAX && context.reset(ResetDirective::SessionAndParameters).is_ok()
    }
}

#[derive(Debug)]
pub(super) struct Reader<'a> {
    input: &'a [u8],
    piece_length: usize,
    context: Decompress,
    /// Between frames; only there may the input end.
    at_frame_end: bool,
}

impl<'a> Reader<'a> {
    pub fn new(input: &'a [u8]) -> Reader<'a> {
        Reader { input, piece_length: piece_length(input), context: Decompress::take(), at_frame_end: true }
    }

    pub fn next_piece(&mut self, out: &mut Vec<u8>, room: usize) -> Result<bool, PieceError> {
        let start = out.len();
        while out.len() == start {
            if self.at_frame_end && self.input.is_empty() {
                return Ok(false);
            }
            // One byte beyond the room tells "just fits" from "too large".
            out.reserve(self.piece_length.min(room.saturating_add(1)));
            let mut input = InBuffer::around(self.input);
            let mut output = OutBuffer::around_pos(out, start);
            let hint = self
                .context
                .get()
                .decompress_stream(&mut output, &mut input)
                .map_err(|_| PieceError::Corrupt("not a zstd frame"))?;
            let consumed = input.pos();
            self.input = &self.input[consumed..];
            self.at_frame_end = hint == 0;
            if out.len() == start && consumed == 0 {
                return Err(PieceError::Truncated);
            }
        }
        if out.len() - start > room {
            out.truncate(start);
            return Err(PieceError::TooLarge);
        }
        Ok(true)
    }
}

#[derive(Debug)]
pub(super) struct Writer {
    context: Compress,
}

impl Writer {
    pub fn new(level: i32, length: Option<usize>) -> Writer {
        let mut context = Compress::take();
        let cctx = context.get();
        cctx.set_parameter(CParameter::CompressionLevel(level)).expect("the level is in zstd's range");
        cctx.set_pledged_src_size(length.map(|length| length as u64)).expect("no frame has been started");
        Writer { context }
    }

    pub fn write(&mut self, bytes: &[u8], out: &mut Vec<u8>) {
        self.run(bytes, ZSTD_EndDirective::ZSTD_e_continue, out);
    }

    pub fn finish(mut self, out: &mut Vec<u8>) {
        self.run(&[], ZSTD_EndDirective::ZSTD_e_end, out);
    }

    fn run(&mut self, bytes: &[u8], directive: ZSTD_EndDirective, out: &mut Vec<u8>) {
        let mut input = InBuffer::around(bytes);
        loop {
            out.reserve(bytes.len() / 4 + 512);
            let position = out.len();
            let mut output = OutBuffer::around_pos(out, position);
            let left = self
                .context
                .get()
                .compress_stream2(&mut output, &mut input, directive)
                .expect("zstd takes any bytes, as many as were pledged");
            let taken = input.pos() == bytes.len();
            match directive {
                ZSTD_EndDirective::ZSTD_e_end if left == 0 => return,
                ZSTD_EndDirective::ZSTD_e_end => {}
                _ if taken => return,
                _ => {}
            }
        }
    }
}
