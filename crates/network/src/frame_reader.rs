//! Cuts the byte stream into request frames.
//!
//! ```text
//! socket -> scratch (one per thread, 16 KiB) -> small frames, each copied into an allocation of its own size
//!        -> the rest of a large frame, straight into its own buffer: record slices need no further copy
//! ```
//!
//! A connection at rest owns no buffer, and a slice of a request never keeps more alive than that request.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::{BufMut, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, ReadBuf};
use tokio::sync::futures::OwnedNotified;

use crate::request_memory::{Charge, FREE, RequestMemory};

/// Large enough for a burst of small requests, small enough that the copy of a large frame's beginning
/// out of it costs little (1 us).
const SCRATCH: usize = 16 << 10;

/// A frame buffer may be this many times larger than what has arrived of the frame, so that memory follows
/// bytes received, and a 1 MB frame moves twice while it grows rather than eight times.
const GROWTH: usize = 8;

/// No frame buffer starts smaller; it is what a peer gets for four bytes.
const SMALLEST: usize = 1 << 10;

/// A connection that has delivered a frame gets the same size again at once, up to this. A producer's
/// frames then land in buffers of their final size.
const TRUSTED_MAX: usize = 2 << 20;

thread_local! {
    static SCRATCH_BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; SCRATCH].into());
}

#[derive(Debug)]
pub(crate) struct Frame {
    pub(crate) bytes: Bytes,
    /// Held until the request is answered.
    pub(crate) charge: Charge,
}

#[derive(Debug)]
pub(crate) enum ReadError {
    /// The size field is negative or above the limit. `first`: the first bytes since the size field.
    Size {
        size: i32,
        first: Vec<u8>,
    },
    Io(io::Error),
}

impl From<io::Error> for ReadError {
    fn from(error: io::Error) -> ReadError {
        ReadError::Io(error)
    }
}

#[derive(Debug)]
pub(crate) struct FrameReader {
    /// Complete frames, oldest first. All were in the scratch buffer at once, but for the last, so this
    /// holds at most `SCRATCH` bytes and one large frame.
    complete: VecDeque<Frame>,
    partial: Partial,
    /// Size of the largest frame so far, `TRUSTED_MAX` at most.
    trusted: usize,
    memory: Arc<RequestMemory>,
    memory_wait: Option<Pin<Box<OwnedNotified>>>,
}

#[derive(Debug)]
enum Partial {
    Size { bytes: [u8; 4], len: usize },
    Body { size: usize, received: Vec<u8>, charge: Charge },
}

const BETWEEN_FRAMES: Partial = Partial::Size { bytes: [0; 4], len: 0 };

impl FrameReader {
    pub(crate) fn new(memory: Arc<RequestMemory>) -> FrameReader {
        FrameReader {
            complete: VecDeque::new(),
            partial: BETWEEN_FRAMES,
            trusted: 0,
            memory,
            memory_wait: None,
        }
    }

    pub(crate) fn next(&mut self) -> Option<Frame> {
        self.complete.pop_front()
    }

    pub(crate) fn has_complete(&self) -> bool {
        !self.complete.is_empty()
    }

    /// Holds charged memory for a frame that has not arrived in full.
    pub(crate) fn holds_memory(&self) -> bool {
        matches!(&self.partial, Partial::Body { charge, .. } if !charge.is_empty())
    }

    /// The beginning of a frame that never became whole; its size field comes first.
    pub(crate) fn torn_frame(&self) -> Option<Vec<u8>> {
        match &self.partial {
            Partial::Size { len: 0, .. } => None,
            Partial::Size { bytes, len } => Some(bytes[..*len].to_vec()),
            Partial::Body { size, received, .. } => {
                let mut first = (*size as u32).to_be_bytes().to_vec();
                first.extend(received.iter().take(32));
                Some(first)
            }
        }
    }

    /// One read. Gives the number of bytes read, 0 at the end of the stream.
    ///
    /// `size_max`: the largest frame allowed, in bytes, the size field not counted.
    pub(crate) fn poll_read<T: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        size_max: u32,
    ) -> Poll<Result<usize, ReadError>> {
        if matches!(&self.partial, Partial::Body { size, received, .. } if size - received.len() > SCRATCH / 4)
        {
            return self.poll_read_body(cx, transport);
        }
        SCRATCH_BUFFER.with_borrow_mut(|scratch| {
            let mut buffer = ReadBuf::new(scratch);
            ready!(Pin::new(transport).poll_read(cx, &mut buffer))?;
            let mut fresh = buffer.filled();
            let count = fresh.len();
            while !fresh.is_empty() {
                fresh = self.take(fresh, size_max)?;
            }
            Poll::Ready(Ok(count))
        })
    }

    /// Reads straight into the buffer of the current frame and not beyond its end.
    fn poll_read_body<T: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
    ) -> Poll<Result<usize, ReadError>> {
        let Partial::Body { size, received, charge } = &mut self.partial else {
            unreachable!("only called within a frame");
        };
        let trusted = self.trusted.min(*size);
        if received.len() == received.capacity() || received.capacity() < trusted {
            let capacity = capacity_for(*size, received.len(), trusted);
            let charged = capacity.saturating_sub(FREE) - received.capacity().saturating_sub(FREE);
            if charged > 0 {
                ready!(self.memory.poll_grow(charge, charged, &mut self.memory_wait, cx));
            }
            received.reserve_exact(capacity - received.len());
        }
        let room = received.capacity().min(*size) - received.len();
        let mut buffer = received.limit(room);
        let read = transport.read_buf(&mut buffer);
        let count = ready!(pin!(read).poll(cx))?;
        self.finish_if_whole();
        Poll::Ready(Ok(count))
    }

    /// Takes the bytes of one size field or of one frame; gives back what lies behind them.
    fn take<'a>(&mut self, fresh: &'a [u8], size_max: u32) -> Result<&'a [u8], ReadError> {
        match &mut self.partial {
            Partial::Size { bytes, len } => {
                let count = fresh.len().min(4 - *len);
                bytes[*len..*len + count].copy_from_slice(&fresh[..count]);
                *len += count;
                let rest = &fresh[count..];
                if *len == 4 {
                    let size = i32::from_be_bytes(*bytes);
                    match u32::try_from(size) {
                        Ok(size) if size <= size_max => self.begin_body(size as usize, rest.len()),
                        _ => {
                            let mut first = bytes.to_vec();
                            first.extend(rest.iter().take(32));
                            return Err(ReadError::Size { size, first });
                        }
                    }
                    self.finish_if_whole();
                }
                Ok(rest)
            }
            Partial::Body { size, received, .. } => {
                let count = fresh.len().min(*size - received.len());
                if received.capacity() - received.len() < count {
                    // The frame's last few KiB: not worth charging.
                    received.reserve_exact(*size - received.len());
                }
                received.extend_from_slice(&fresh[..count]);
                self.finish_if_whole();
                Ok(&fresh[count..])
            }
        }
    }

    fn begin_body(&mut self, size: usize, at_hand: usize) {
        // A large frame gets its buffer with the first direct read, where it can wait for memory.
        let capacity = if size <= FREE { capacity_for(size, at_hand, self.trusted) } else { at_hand };
        self.partial =
            Partial::Body { size, received: Vec::with_capacity(capacity), charge: Charge::default() };
    }

    fn finish_if_whole(&mut self) {
        if !matches!(&self.partial, Partial::Body { size, received, .. } if *size == received.len()) {
            return;
        }
        let Partial::Body { size, received, charge } = std::mem::replace(&mut self.partial, BETWEEN_FRAMES)
        else {
            unreachable!("matched above");
        };
        self.trusted = self.trusted.max(size.min(TRUSTED_MAX));
        self.complete.push_back(Frame { bytes: Bytes::from(received), charge });
    }
}

/// How large the buffer of a frame of `size` may be when `received` bytes of it are here.
fn capacity_for(size: usize, received: usize, trusted: usize) -> usize {
    size.min((received * GROWTH).max(trusted).max(SMALLEST))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Gives its bytes in pieces of the given sizes, one a read; pending when there are none.
    struct Pieces<'a> {
        bytes: &'a [u8],
        sizes: Box<dyn Iterator<Item = usize> + 'a>,
    }

    impl AsyncRead for Pieces<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buffer: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            if self.bytes.is_empty() {
                return Poll::Pending;
            }
            let count =
                self.sizes.next().unwrap_or(usize::MAX).clamp(1, self.bytes.len()).min(buffer.remaining());
            let (piece, rest) = self.bytes.split_at(count);
            buffer.put_slice(piece);
            self.bytes = rest;
            Poll::Ready(Ok(()))
        }
    }

    fn context() -> Context<'static> {
        Context::from_waker(std::task::Waker::noop())
    }

    fn frame(content: &[u8]) -> Vec<u8> {
        [&(content.len() as u32).to_be_bytes(), content].concat()
    }

    /// Reads until the source is dry.
    fn read_all(reader: &mut FrameReader, mut source: Pieces<'_>) -> Result<Vec<Bytes>, ReadError> {
        let mut frames = Vec::new();
        while let Poll::Ready(read) = reader.poll_read(&mut context(), &mut source, 100 << 20) {
            read?;
            frames.extend(std::iter::from_fn(|| reader.next()).map(|frame| frame.bytes));
        }
        Ok(frames)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn frames_come_out_as_they_went_in_however_the_stream_is_cut(
            lens in prop::collection::vec(prop_oneof![0usize..300, 4_000usize..20_000, 100_000usize..400_000], 0..12),
            cuts in prop::collection::vec(prop_oneof![1usize..9, 1usize..5_000, 1usize..200_000], 0..60),
        ) {
            let frames: Vec<Vec<u8>> = lens.iter().map(|len| (0..*len).map(|at| (at * 7 + len) as u8).collect()).collect();
            let stream: Vec<u8> = frames.iter().flat_map(|content| frame(content)).collect();
            let mut reader = FrameReader::new(RequestMemory::new(None));
            let sizes = Box::new(cuts.into_iter());
            let read = read_all(&mut reader, Pieces { bytes: &stream, sizes }).expect("sizes are legal");
            prop_assert_eq!(read, frames);
            prop_assert!(reader.torn_frame().is_none());
        }
    }

    #[test]
    fn a_buffer_follows_what_arrived_and_not_what_was_announced() {
        let announced = [&(100u32 << 20).to_be_bytes()[..], &vec![0; 3 << 20]].concat();
        let mut reader = FrameReader::new(RequestMemory::new(None));
        let mut source = Pieces { bytes: &announced, sizes: Box::new(std::iter::repeat(10_000)) };
        let mut arrived = 0;
        while let Poll::Ready(count) = reader.poll_read(&mut context(), &mut source, 100 << 20) {
            arrived += count.unwrap();
            let Partial::Body { received, .. } = &reader.partial else { panic!("the frame is not whole") };
            let capacity = received.capacity();
            assert!(capacity <= (arrived * GROWTH).max(SMALLEST), "{capacity} bytes for {arrived} received");
        }
        assert_eq!(arrived, announced.len());
    }

    #[test]
    fn a_connection_that_delivered_a_large_frame_gets_the_next_buffer_at_once() {
        let size = 1 << 20;
        let stream = [frame(&vec![1; size]), frame(&vec![2; size])[..20_000].to_vec()].concat();
        let mut reader = FrameReader::new(RequestMemory::new(None));
        let frames =
            read_all(&mut reader, Pieces { bytes: &stream, sizes: Box::new(std::iter::empty()) }).unwrap();
        assert_eq!(frames.len(), 1);
        let Partial::Body { received, .. } = &reader.partial else { panic!("the second is not whole") };
        assert_eq!(received.capacity(), size);
    }

    #[test]
    fn a_small_request_owns_no_more_than_its_bytes() {
        let stream: Vec<u8> = (0..50u8).flat_map(|content| frame(&[content; 100])).collect();
        let mut reader = FrameReader::new(RequestMemory::new(None));
        let frames =
            read_all(&mut reader, Pieces { bytes: &stream, sizes: Box::new(std::iter::empty()) }).unwrap();
        assert_eq!(frames.len(), 50);
        for frame in frames {
            let owned = frame.try_into_mut().expect("nobody shares it");
            assert_eq!(owned.capacity(), 100);
        }
    }

    #[test]
    fn impossible_sizes_are_refused_with_what_came_with_them() {
        for (size, allowed) in
            [(5, true), (1000, true), (1001, false), (i32::MAX, false), (-1, false), (i32::MIN, false)]
        {
            let stream = [&size.to_be_bytes()[..], b"who?"].concat();
            for cut in [1, 4, 8] {
                let mut reader = FrameReader::new(RequestMemory::new(None));
                let mut source = Pieces { bytes: &stream, sizes: Box::new(std::iter::repeat(cut)) };
                let refused = loop {
                    match reader.poll_read(&mut context(), &mut source, 1000) {
                        Poll::Ready(Ok(_)) => {}
                        Poll::Ready(Err(ReadError::Size { size: got, first })) => {
                            assert_eq!(got, size);
                            assert!(stream.starts_with(&first) && first.len() >= 4);
                            break true;
                        }
                        Poll::Ready(Err(ReadError::Io(error))) => panic!("{error}"),
                        Poll::Pending => break false,
                    }
                };
                assert_eq!(refused, !allowed, "{size} in pieces of {cut}");
            }
        }
    }

    #[test]
    fn a_large_frame_is_charged_until_it_is_answered_and_a_small_one_never() {
        let memory = RequestMemory::new(Some(1 << 20));
        let mut reader = FrameReader::new(memory.clone());
        let small = frame(&vec![0; FREE]);
        let mut source = Pieces { bytes: &small, sizes: Box::new(std::iter::empty()) };
        while reader.poll_read(&mut context(), &mut source, u32::MAX).is_ready() {}
        let small = reader.next().unwrap();
        assert_eq!((small.bytes.len(), memory.used()), (FREE, 0));

        let large = frame(&vec![0; 2 << 20]);
        let mut source = Pieces { bytes: &large, sizes: Box::new(std::iter::empty()) };
        while reader.poll_read(&mut context(), &mut source, u32::MAX).is_ready() {}
        let first = reader.next().expect("the limit may be passed by the frame that reaches it");
        assert_eq!(memory.used(), (2 << 20) - FREE as u64);

        let mut source = Pieces { bytes: &large, sizes: Box::new(std::iter::empty()) };
        while reader.poll_read(&mut context(), &mut source, u32::MAX).is_ready() {}
        assert!(reader.next().is_none(), "the next one waits");
        assert!(source.bytes.len() > large.len() - 2 * SCRATCH, "and is left in the socket");

        drop(first);
        assert_eq!(memory.used(), 0);
        while reader.poll_read(&mut context(), &mut source, u32::MAX).is_ready() {}
        drop(reader.next().expect("its turn has come"));
        assert_eq!(memory.used(), 0);
    }
}
