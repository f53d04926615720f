//! What a connection runs over. TLS will be a second one, whose `poll_send_file` reads and encrypts.

use std::io::{self, IoSlice};
use std::task::{Context, Poll, ready};

use rustix::net::{SendAncillaryBuffer, SendFlags};
use tokio::io::{AsyncRead, Interest};
use tokio::net::TcpStream;

use crate::service::FileRegion;

pub(crate) trait Transport: AsyncRead + Unpin {
    /// Sends some of `slices`. `more`: other bytes follow at once, so the last packet may wait to be filled.
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>>;

    /// Sends some of the region. Gives 0 when the file ends before it.
    fn poll_send_file(&mut self, cx: &mut Context<'_>, region: &FileRegion) -> Poll<io::Result<usize>>;
}

/// One call moves no more than this, so that a fast reader does not hold a worker thread for milliseconds.
const SEND_FILE_BYTES_MAX: u64 = 512 << 10;

impl Transport for TcpStream {
    fn poll_send(
        &mut self,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
        more: bool,
    ) -> Poll<io::Result<usize>> {
        let flags = if more { SendFlags::NOSIGNAL | SendFlags::MORE } else { SendFlags::NOSIGNAL };
        poll_write(self, cx, |stream| {
            Ok(rustix::net::sendmsg(stream, slices, &mut SendAncillaryBuffer::default(), flags)?)
        })
    }

    fn poll_send_file(&mut self, cx: &mut Context<'_>, region: &FileRegion) -> Poll<io::Result<usize>> {
        // A cold page blocks the worker inside this call (measured: 7 ms at worst on a local disk). A probe
        // with preadv2(RWF_NOWAIT) could send cold ranges to a blocking thread; not done yet.
        let mut offset = region.offset;
        let count = region.len.min(SEND_FILE_BYTES_MAX) as usize;
        poll_write(self, cx, |stream| {
            Ok(rustix::fs::sendfile(stream, &region.file, Some(&mut offset), count)?)
        })
    }
}

fn poll_write(
    stream: &TcpStream,
    cx: &mut Context<'_>,
    mut write: impl FnMut(&TcpStream) -> io::Result<usize>,
) -> Poll<io::Result<usize>> {
    loop {
        ready!(stream.poll_write_ready(cx))?;
        match stream.try_io(Interest::WRITABLE, || write(stream)) {
            // Readiness was stale and is now cleared: the next look registers for a wake-up.
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            sent => return Poll::Ready(sent),
        }
    }
}
