//! Requests that wait for a partition to move: long-polling fetches, and produces with acks=all.
//!
//! A parked request is woken by the very append or watermark move it waits for, never by a timer that looks
//! again: that is the difference between a fifth of a millisecond and the whole of `fetch.wait.max.ms`.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering};
use std::task::{Poll, Waker};

use parking_lot::Mutex;

/// What has to move for a parked request to look again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Moves {
    /// The end of the log: what followers fetch up to.
    LogEnd,
    /// The high watermark: what consumers fetch up to, and what acks=all waits for.
    HighWatermark,
    /// The lowest log start among the replicas: what DeleteRecords waits for.
    LowWatermark,
}

/// A request that waits, shared between its future and the partitions that may wake it.
#[derive(Debug)]
pub struct Parked {
    on: Moves,
    /// Bytes still missing; the partitions count what they gain against it.
    missing: AtomicI64,
    /// Which of its places have moved and were not looked at since: a fetch of thousands of partitions looks again only
    /// into these.
    moved: Box<[AtomicBool]>,
    waker: Mutex<Option<Waker>>,
}

impl Parked {
    /// Waits at `places` partitions until `bytes` more are there, over all of them together.
    pub fn new(on: Moves, bytes: i64, places: usize) -> Arc<Parked> {
        let moved = (0..places).map(|_| AtomicBool::new(false)).collect();
        Arc::new(Parked { on, missing: AtomicI64::new(bytes.max(1)), moved, waker: Mutex::new(None) })
    }

    /// The places that have moved since they were last taken, by number.
    pub fn take_moved(&self) -> Vec<usize> {
        let moved = self.moved.iter().enumerate();
        // Most have not moved, and a look is cheaper than a swap.
        let moved = moved.filter(|(_, moved)| moved.load(Ordering::Acquire));
        moved.filter(|(_, moved)| moved.swap(false, Ordering::AcqRel)).map(|(place, _)| place).collect()
    }

    pub fn has_moved(&self) -> bool {
        self.moved.iter().any(|moved| moved.load(Ordering::Acquire))
    }

    /// Notes that a place may have moved unseen.
    pub fn suspect(&self, place: usize) {
        self.moved[place].store(true, Ordering::Release);
    }

    /// Waits anew, until `bytes` more are there.
    pub fn rearm(&self, bytes: i64) {
        self.missing.store(bytes.max(1), Ordering::Release);
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

    fn gain(&self, place: usize, bytes: i64) {
        self.suspect(place);
        let before = self.missing.fetch_sub(bytes, Ordering::AcqRel);
        if before > 0 && before <= bytes {
            self.wake();
        }
    }

    fn release(&self, place: usize) {
        self.suspect(place);
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
    /// Counts what has moved, so that whoever comes to park can tell whether something did since it looked.
    moves: AtomicU64,
    parked: Mutex<Vec<(Arc<Parked>, usize)>>,
}

impl Purgatory {
    /// How often something has moved here. To be read before a look at the partition; if it is still the same after
    /// parking, nothing was missed in between.
    pub fn moves(&self) -> u64 {
        self.moves.load(Ordering::SeqCst)
    }

    /// Parks a request, for which this partition is the one at `place`.
    pub fn park(&self, request: Arc<Parked>, place: usize) {
        let mut parked = self.parked.lock();
        parked.push((request, place));
        self.count.store(parked.len(), Ordering::SeqCst);
    }

    pub fn leave(&self, request: &Arc<Parked>) {
        let mut parked = self.parked.lock();
        if let Some(at) = parked.iter().position(|(other, _)| Arc::ptr_eq(other, request)) {
            parked.swap_remove(at);
        }
        self.count.store(parked.len(), Ordering::SeqCst);
    }

    /// Something moved, and `bytes` have become readable by it.
    pub fn moved(&self, what: Moves, bytes: i64) {
        // Against a request that parks meanwhile: it sees this count, or we see it. Hence the one order for all.
        self.moves.fetch_add(1, Ordering::SeqCst);
        if self.count.load(Ordering::SeqCst) == 0 {
            return;
        }
        for (request, place) in self.parked.lock().iter().filter(|(request, _)| request.on == what) {
            request.gain(*place, bytes.max(1));
        }
    }

    /// Everything changed (leadership, deletion): everyone looks again.
    pub fn release_all(&self) {
        self.moves.fetch_add(1, Ordering::SeqCst);
        for (request, place) in self.parked.lock().iter() {
            request.release(*place);
        }
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
        let request = Parked::new(Moves::HighWatermark, 100, 2);
        one.park(request.clone(), 0);
        two.park(request.clone(), 1);
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
        let request = Parked::new(Moves::LogEnd, i64::MAX, 1);
        purgatory.park(request.clone(), 0);
        purgatory.release_all();
        assert!(is_woken(&request));
        assert_eq!(request.take_moved(), [0]);
    }

    #[test]
    fn a_request_learns_which_of_its_partitions_moved() {
        let partitions = [(); 3].map(|()| Purgatory::default());
        let request = Parked::new(Moves::LogEnd, 100, 3);
        for (place, partition) in partitions.iter().enumerate() {
            partition.park(request.clone(), place);
        }
        partitions[2].moved(Moves::LogEnd, 60);
        partitions[0].moved(Moves::HighWatermark, 60);
        assert!(request.has_moved() && !is_woken(&request));
        assert_eq!(request.take_moved(), [2]);
        assert!(!request.has_moved(), "what was taken is not told again");
        request.rearm(10);
        partitions[1].moved(Moves::LogEnd, 10);
        assert!(is_woken(&request));
        assert_eq!(request.take_moved(), [1]);
    }

    #[test]
    fn what_moves_before_a_request_has_parked_is_counted() {
        let purgatory = Purgatory::default();
        let seen = purgatory.moves();
        purgatory.moved(Moves::LogEnd, 1);
        purgatory.park(Parked::new(Moves::LogEnd, 1, 1), 0);
        assert_ne!(purgatory.moves(), seen);
    }

    #[test]
    fn whoever_left_is_forgotten() {
        let purgatory = Purgatory::default();
        let requests = [(); 3].map(|()| Parked::new(Moves::LogEnd, 1, 1));
        requests.iter().for_each(|request| purgatory.park(request.clone(), 0));
        purgatory.leave(&requests[1]);
        purgatory.moved(Moves::LogEnd, 1);
        assert_eq!(requests.each_ref().map(is_woken), [true, false, true]);
        assert_eq!(purgatory.count.load(Ordering::Acquire), 2);
    }

    #[tokio::test]
    async fn a_gain_wakes_a_waiting_task() {
        let purgatory = Arc::new(Purgatory::default());
        let request = Parked::new(Moves::LogEnd, 1, 1);
        purgatory.park(request.clone(), 0);
        let waiting = tokio::spawn(async move { request.woken().await });
        tokio::task::yield_now().await;
        purgatory.moved(Moves::LogEnd, 1);
        waiting.await.unwrap();
    }
}
