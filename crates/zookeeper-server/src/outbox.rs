//! What is on its way to one client, in order, each piece held back until the log is as far as it must be.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::Notify;

use crate::jute;
use crate::jute::Writer;
use crate::tree::CloseReason;

/// How far the log must be, in bytes since the start, before something may be seen from outside.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Barrier {
    /// Handed to the operating system: survives `kill -9`.
    pub written: u64,
    /// On the disk: survives a power failure.
    pub synced: u64,
}

impl Barrier {
    /// Whether a log that is as far as `durable` lets through what waits at this barrier.
    pub fn is_met_by(self, durable: Barrier) -> bool {
        self.written <= durable.written && self.synced <= durable.synced
    }
}

/// Bytes that may wait for a client that does not read. Its own requests are not read past
/// [`Outbox::is_backlogged`], so only watch events come this far; then it loses its connection.
const QUEUED_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Bytes of unsent answers beyond which no further request of the client is read.
const BACKLOG_BYTES: usize = 1024 * 1024;

/// A stretch of the queue that waits at one barrier.
#[derive(Debug)]
struct Stretch {
    bytes: usize,
    frames: u32,
    barrier: Barrier,
    /// When its first frame was queued, in elapsed milliseconds.
    since_ms: u64,
}

#[derive(Debug, Default)]
struct Queue {
    bytes: Vec<u8>,
    stretches: VecDeque<Stretch>,
    close: Option<CloseReason>,
    broken: Option<Broken>,
    /// It will be told when the log gets further.
    awaits_log: bool,
}

/// Why a connection is to be dropped with things unsent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Broken {
    #[error("the client reads too slowly: {QUEUED_BYTES_MAX} bytes wait for it")]
    SlowReader,
    #[error("the session moved to another connection")]
    Moved,
    #[error("the server stops")]
    Stopping,
}

#[derive(Debug, Default)]
pub struct Outbox {
    queue: Mutex<Queue>,
    wake: Notify,
}

/// What [`Outbox::release`] found beside the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Released {
    pub frames: u32,
    /// When the oldest of them was queued.
    pub since_ms: u64,
    /// Set once nothing is left to send and the connection is to be closed.
    pub close: Option<CloseReason>,
}

impl Outbox {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Queues a frame behind `barrier`. Whether the outbox now waits for the log, and did not before.
    pub fn push(
        &self,
        barrier: Barrier,
        durable: Barrier,
        now_ms: u64,
        body: impl FnOnce(&mut Writer<'_>),
    ) -> bool {
        let mut queue = self.queue();
        if queue.broken.is_some() || queue.close.is_some() {
            return false;
        }
        let before = queue.bytes.len();
        jute::frame(&mut queue.bytes, body);
        let bytes = queue.bytes.len() - before;
        match queue.stretches.back_mut() {
            Some(last) if last.barrier == barrier => {
                last.bytes += bytes;
                last.frames += 1;
            }
            _ => queue.stretches.push_back(Stretch { bytes, frames: 1, barrier, since_ms: now_ms }),
        }
        if before > QUEUED_BYTES_MAX {
            queue.broken = Some(Broken::SlowReader);
        }
        if barrier.is_met_by(durable) {
            self.wake.notify_one();
            return false;
        }
        !std::mem::replace(&mut queue.awaits_log, true)
    }

    /// Lets the connection close once what is queued is sent.
    pub fn close(&self, why: CloseReason) {
        self.queue().close.get_or_insert(why);
        self.wake.notify_one();
    }

    /// The log is further: wakes the connection, and says whether something of it waits still.
    pub fn settle(&self, durable: Barrier) -> bool {
        let mut queue = self.queue();
        queue.awaits_log = queue.stretches.back().is_some_and(|last| !last.barrier.is_met_by(durable));
        self.wake.notify_one();
        queue.awaits_log
    }

    /// Drops the connection without regard to what is queued.
    pub fn break_off(&self, why: Broken) {
        self.queue().broken.get_or_insert(why);
        self.wake.notify_one();
    }

    /// Moves what `durable` lets through to the end of `out`.
    pub fn release(&self, durable: Barrier, out: &mut Vec<u8>) -> Result<Released, Broken> {
        let mut queue = self.queue();
        if let Some(why) = queue.broken {
            return Err(why);
        }
        let mut released = Released::default();
        let mut bytes = 0;
        while let Some(stretch) = queue.stretches.front().filter(|stretch| stretch.barrier.is_met_by(durable))
        {
            if released.frames == 0 {
                released.since_ms = stretch.since_ms;
            }
            bytes += stretch.bytes;
            released.frames += stretch.frames;
            queue.stretches.pop_front();
        }
        if bytes == queue.bytes.len() && out.is_empty() {
            std::mem::swap(out, &mut queue.bytes);
        } else {
            out.extend(queue.bytes.drain(..bytes));
        }
        released.close = queue.close.filter(|_| queue.bytes.is_empty());
        Ok(released)
    }

    /// Whether so much is unsent that the client's next requests should wait.
    pub fn is_backlogged(&self) -> bool {
        let queue = self.queue();
        queue.bytes.len() > BACKLOG_BYTES || queue.close.is_some()
    }

    /// Frames that are queued, for the operator.
    pub fn queued(&self) -> u32 {
        self.queue().stretches.iter().map(|stretch| stretch.frames).sum()
    }

    /// Whether the connection is to be closed, sooner or later.
    pub fn is_closing(&self) -> bool {
        let queue = self.queue();
        queue.close.is_some() || queue.broken.is_some()
    }

    /// Waits until there may be something to do.
    pub async fn woken(&self) {
        self.wake.notified().await;
    }
}
