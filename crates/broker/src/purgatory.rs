//! Requests that wait for a partition to move: long-polling fetches, and produces with acks=all.
//!
//! A parked request is woken by the very append or watermark move it waits for, never by a timer that looks
//! again: that is the difference between a fifth of a millisecond and the whole of `fetch.wait.max.ms`.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// What has to move for a parked request to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// The end of the log: what followers fetch up to.
    LogEnd,
    /// The high watermark: what consumers fetch up to, and what acks=all waits for.
    HighWatermark,
}

/// A request that waits, shared between its future and the partitions that may wake it.
#[derive(Debug)]
pub struct Parked {
    on: Moves,
    /// Bytes still missing; the partitions count what they gain against it.
    missing: AtomicI64,
    waker: Mutex<Option<Waker>>,
}

impl Parked {
    /// Waits until `bytes` more are there, over all partitions together.
    pub fn new(on: Moves, bytes: i64) -> Arc<Parked> {
        Arc::new(Parked { on, missing: AtomicI64::new(bytes.max(1)), waker: Mutex::new(None) })
    }

    /// Resolves once enough has been gained or a partition said that everything changed.
    pub async fn woken(&self) {
        poll_fn(|context| {
            // The waker goes in before the look, so that a gain in between is not missed.
            *self.waker.lock() = Some(context.waker().clone());
            if self.missing.load(Ordering::Acquire) <= 0 { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    fn gain(&self, bytes: i64) {
        let before = self.missing.fetch_sub(bytes, Ordering::AcqRel);
        if before > 0 && before <= bytes {
            self.wake();
        }
    }

    fn release(&self) {
        if self.missing.swap(0, Ordering::AcqRel) > 0 {
            self.wake();
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.lock().take() {
            waker.wake();
        }
    }
}

/// The requests parked on one partition. Bounded by the number of connections times their pipelining depth;
/// a request leaves when its future is dropped, answered or not.
#[derive(Debug, Default)]
pub struct Purgatory {
    /// Spares an append the lock when nobody waits.
    count: AtomicUsize,
    parked: Mutex<Vec<Arc<Parked>>>,
}

impl Purgatory {
    pub fn park(&self, request: Arc<Parked>) {
        let mut parked = self.parked.lock();
        parked.push(request);
        self.count.store(parked.len(), Ordering::Release);
    }

    pub fn leave(&self, request: &Arc<Parked>) {
        let mut parked = self.parked.lock();
        if let Some(at) = parked.iter().position(|other| Arc::ptr_eq(other, request)) {
            parked.swap_remove(at);
        }
        self.count.store(parked.len(), Ordering::Release);
    }

    /// Something moved, and `bytes` have become readable by it.
    pub fn moved(&self, what: Moves, bytes: i64) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        for request in self.parked.lock().iter().filter(|request| request.on == what) {
            request.gain(bytes.max(1));
        }
    }

    /// Everything changed (leadership, deletion): everyone looks again.
    pub fn release_all(&self) {
        for request in self.parked.lock().iter() {
            request.release();
        }
    }

    pub fn len(&self) -> usize {
        self.count.load(Ordering::Acquire)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

#[cfg(test)]
mod tests {
    use std::future::Future;
    use std::pin::pin;
    use std::task::Context;

    use super::*;

    fn is_woken(request: &Arc<Parked>) -> bool {
        let mut context = Context::from_waker(Waker::noop());
        pin!(request.woken()).poll(&mut context).is_ready()
    }

    #[test]
    fn a_request_waits_for_all_its_bytes_over_all_partitions() {
        let (one, two) = (Purgatory::default(), Purgatory::default());
        let request = Parked::new(Moves::HighWatermark, 100);
        one.park(request.clone());
        two.park(request.clone());
        one.moved(Moves::HighWatermark, 60);
        assert!(!is_woken(&request));
        two.moved(Moves::LogEnd, 60);
        assert!(!is_woken(&request), "it cannot read what is not committed");
        two.moved(Moves::HighWatermark, 40);
        assert!(is_woken(&request));
    }

    #[test]
    fn a_change_of_leadership_wakes_everyone() {
        let purgatory = Purgatory::default();
        let request = Parked::new(Moves::LogEnd, i64::MAX);
        purgatory.park(request.clone());
        purgatory.release_all();
        assert!(is_woken(&request));
    }

    #[test]
    fn whoever_left_is_forgotten() {
        let purgatory = Purgatory::default();
        let requests = [(); 3].map(|()| Parked::new(Moves::LogEnd, 1));
        requests.iter().for_each(|request| purgatory.park(request.clone()));
        purgatory.leave(&requests[1]);
        purgatory.moved(Moves::LogEnd, 1);
        assert_eq!(requests.each_ref().map(is_woken), [true, false, true]);
        assert_eq!(purgatory.len(), 2);
    }

    #[tokio::test]
    async fn a_gain_wakes_a_waiting_task() {
        let purgatory = Arc::new(Purgatory::default());
        let request = Parked::new(Moves::LogEnd, 1);
        purgatory.park(request.clone());
        let waiting = tokio::spawn(async move { request.woken().await });
        tokio::task::yield_now().await;
        purgatory.moved(Moves::LogEnd, 1);
        waiting.await.unwrap();
    }
}
