//! Answers on their way out.
//!
//! Small pieces of consecutive answers are gathered in one buffer and leave in one system call; a large
//! piece of memory leaves from where it is; a large piece of a file leaves by sendfile(2), its header held
//! back (MSG_MORE) so that both share a packet and the reader wakes once.

use std::collections::VecDeque;
use std::io::{self, IoSlice};
use std::os::unix::fs::FileExt;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::service::{FileRegion, Part, Response};
use crate::transport::Transport;

/// Memory up to this is copied into the gathering buffer: cheaper than an iovec entry and a reference count.
const GATHERED_MEMORY_MAX: usize = 16 << 10;

/// A file region up to this is read into the gathering buffer: one pread(2) for one sendfile(2), and the
/// answer stays a single packet and a single wake-up of the reader.
const GATHERED_FILE_MAX: u64 = 16 << 10;

/// The gathering buffer of a connection at rest is given up if it has grown beyond this.
const GATHERED_KEPT: usize = 4 << 10;

const SLICES_MAX: usize = 16;

#[derive(Debug, Default)]
pub(crate) struct Outbound {
    chunks: VecDeque<Chunk>,
    /// What comes behind `chunks`.
    gathered: BytesMut,
    memory: usize,
    files: usize,
}

#[derive(Debug)]
enum Chunk {
    Memory(Bytes),
    File(FileRegion),
}

impl Outbound {
    pub(crate) fn is_empty(&self) -> bool {
        self.chunks.is_empty() && self.gathered.is_empty()
    }

    /// Bytes of memory that wait to be sent.
    pub(crate) fn memory(&self) -> usize {
        self.memory
    }

    /// File regions that wait to be sent.
    pub(crate) fn files(&self) -> usize {
        self.files
    }

    /// Queues an answer. Fails if a region of it cannot be read.
    pub(crate) fn push(&mut self, response: Response) -> io::Result<()> {
        let size = i32::try_from(response.wire_len())
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "a response of more than 2 GiB"))?;
        self.gathered.put_i32(size);
        self.memory += 4;
        self.push_bytes(response.head);
        for part in response.rest {
            match part {
                Part::Bytes(bytes) => self.push_bytes(bytes),
                Part::File(region) => self.push_file(region)?,
            }
        }
        Ok(())
    }

    fn push_bytes(&mut self, bytes: Bytes) {
        self.memory += bytes.len();
        if bytes.len() <= GATHERED_MEMORY_MAX {
            self.gathered.extend_from_slice(&bytes);
        } else {
            self.close_gathered();
            self.chunks.push_back(Chunk::Memory(bytes));
        }
    }

    fn push_file(&mut self, region: FileRegion) -> io::Result<()> {
        if region.len > GATHERED_FILE_MAX {
            self.close_gathered();
            self.chunks.push_back(Chunk::File(region));
            self.files += 1;
            return Ok(());
        }
        let start = self.gathered.len();
        self.gathered.resize(start + region.len as usize, 0);
        self.memory += region.len as usize;
        region.file.read_exact_at(&mut self.gathered[start..], region.offset)
    }

    fn close_gathered(&mut self) {
        if !self.gathered.is_empty() {
            self.chunks.push_back(Chunk::Memory(self.gathered.split().freeze()));
        }
    }

    /// Sends until all is sent, the socket takes no more, or `quota` bytes have gone. Gives the bytes sent.
    pub(crate) fn poll_send<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
        quota: usize,
    ) -> Poll<io::Result<usize>> {
        let mut sent = 0;
        while !self.is_empty() && sent < quota {
            match self.poll_send_some(cx, transport) {
                Poll::Ready(count) => sent += count?,
                Poll::Pending if sent == 0 => return Poll::Pending,
                Poll::Pending => break,
            }
        }
        if self.is_empty() && self.gathered.capacity() > GATHERED_KEPT {
            self.gathered = BytesMut::new();
        }
        Poll::Ready(Ok(sent))
    }

    fn poll_send_some<T: Transport>(
        &mut self,
        cx: &mut Context<'_>,
        transport: &mut T,
    ) -> Poll<io::Result<usize>> {
        if let Some(Chunk::File(region)) = self.chunks.front_mut() {
            let count = ready!(transport.poll_send_file(cx, region))?;
            if count == 0 {
                return Poll::Ready(Err(io::Error::new(
                    io::ErrorKind::UnexpectedEof,
                    "a log file became shorter while it was being sent",
                )));
            }
            region.offset += count as u64;
            region.len -= count as u64;
            if region.len == 0 {
                self.chunks.pop_front();
                self.files -= 1;
            }
            return Poll::Ready(Ok(count));
        }
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut used = 0;
        let mut chunks = self.chunks.iter();
        let more = loop {
            match chunks.next() {
                Some(Chunk::File(_)) => break true,
                Some(Chunk::Memory(_)) if used == SLICES_MAX => break true,
                Some(Chunk::Memory(bytes)) => slices[used] = IoSlice::new(bytes),
                None if self.gathered.is_empty() => break false,
                None if used == SLICES_MAX => break true,
                None => {
                    slices[used] = IoSlice::new(&self.gathered);
                    used += 1;
                    break false;
                }
            }
            used += 1;
        };
        let count = ready!(transport.poll_send(cx, &slices[..used], more))?;
        self.memory -= count;
        self.advance(count);
        Poll::Ready(Ok(count))
    }

    fn advance(&mut self, mut count: usize) {
        while count > 0 {
            let Some(Chunk::Memory(bytes)) = self.chunks.front_mut() else {
                return self.gathered.advance(count);
            };
            let step = count.min(bytes.len());
            bytes.advance(step);
            count -= step;
            if bytes.is_empty() {
                self.chunks.pop_front();
            }
        }
    }
}
