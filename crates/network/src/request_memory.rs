//! The memory that requests may take while they arrive and wait: `queued.max.request.bytes`.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use tokio::sync::Notify;
use tokio::sync::futures::OwnedNotified;

/// A common purse for all connections.
///
/// A frame buffer of up to [`FREE`] bytes is not charged: heartbeats, fetches and metadata get through
/// however many large requests are held. Beyond that a buffer grows only while less than the limit is in
/// use, so the total is at most the limit, plus one growth step, plus `FREE` per connection. Who may not
/// grow stops reading until something is given back.
#[derive(Debug)]
pub(crate) struct RequestMemory {
    limit: Option<u64>,
    used: AtomicU64,
    given_back: Arc<Notify>,
}

/// Bytes of a frame buffer that nobody counts.
pub(crate) const FREE: usize = 128 << 10;

impl RequestMemory {
    pub(crate) fn new(limit: Option<u64>) -> Arc<RequestMemory> {
        Arc::new(RequestMemory { limit, used: AtomicU64::new(0), given_back: Arc::new(Notify::new()) })
    }

    pub(crate) fn used(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    pub(crate) fn is_limited(&self) -> bool {
        self.limit.is_some()
    }

    pub(crate) fn is_exhausted(&self) -> bool {
        self.limit.is_some_and(|limit| self.used() >= limit)
    }

    /// Takes `bytes` more for `charge`, or arranges for a wake-up and takes nothing.
    pub(crate) fn poll_grow(
        self: &Arc<Self>,
        charge: &mut Charge,
        bytes: usize,
        waiting: &mut Option<Pin<Box<OwnedNotified>>>,
        cx: &mut Context<'_>,
    ) -> Poll<()> {
        while self.is_exhausted() {
            // Registered before the second look, or a giving back in between would go unseen.
            let notified = waiting.get_or_insert_with(|| Box::pin(self.given_back.clone().notified_owned()));
            if notified.as_mut().poll(cx).is_pending() {
                if self.is_exhausted() {
                    return Poll::Pending;
                }
                break;
            }
            *waiting = None;
        }
        *waiting = None;
        self.used.fetch_add(bytes as u64, Ordering::Relaxed);
        charge.bytes += bytes as u64;
        charge.memory.get_or_insert_with(|| self.clone());
        Poll::Ready(())
    }
}

/// What one frame has taken; gives it back when dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    bytes: u64,
    memory: Option<Arc<RequestMemory>>,
}

impl Charge {
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            memory.used.fetch_sub(self.bytes, Ordering::AcqRel);
            if memory.limit.is_some() && !memory.is_exhausted() {
                memory.given_back.notify_waiters();
            }
        }
    }
}
