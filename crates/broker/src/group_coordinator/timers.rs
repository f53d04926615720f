//! When groups want to be asked again.

use std::cmp::{Ordering, Reverse};
use std::collections::BinaryHeap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use ottla_group::{Moment, Now};
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::HostedGroup;
use crate::server::Broker;

/// One entry for each group that waits for something, at its earliest deadline when it was last armed.
///
/// Heartbeats only move deadlines back, so they touch nothing here: a group is asked when its old deadline comes, and says
/// then when to come again. Entries that an earlier one has overtaken are passed over when their time comes.
#[derive(Debug, Default)]
pub struct Timers {
    heap: Mutex<BinaryHeap<Reverse<Entry>>>,
    /// The earliest deadline is earlier now.
    changed: Notify,
}

#[derive(Debug)]
struct Entry {
    at: Moment,
    group: Weak<HostedGroup>,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.at == other.at
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    fn cmp(&self, other: &Entry) -> Ordering {
        self.at.cmp(&other.at)
    }
}

impl Timers {
    pub fn arm(&self, at: Moment, group: &Arc<HostedGroup>) {
        let mut heap = self.heap.lock();
        let is_first = heap.peek().is_none_or(|first| at < first.0.at);
        heap.push(Reverse(Entry { at, group: Arc::downgrade(group) }));
        drop(heap);
        if is_first {
            self.changed.notify_one();
        }
    }

    fn take_due(&self, now: Now) -> Vec<(Moment, Arc<HostedGroup>)> {
        let mut heap = self.heap.lock();
        let mut due = Vec::new();
        while let Some(Reverse(first)) = heap.peek()
            && now.is_past(first.at)
        {
            let Some(Reverse(first)) = heap.pop() else { break };
            due.extend(first.group.upgrade().map(|group| (first.at, group)));
        }
        due
    }

    fn earliest(&self) -> Option<Moment> {
        self.heap.lock().peek().map(|first| first.0.at)
    }
}

/// Asks groups when their time has come; ends never.
pub async fn run(broker: &Broker) {
    let coordinator = &broker.groups;
    let timers = &coordinator.timers;
    loop {
        for (at, group) in timers.take_due(coordinator.now()) {
            group.wake(at, coordinator);
        }
        let Some(at) = timers.earliest() else {
            timers.changed.notified().await;
            continue;
        };
        let wait = Duration::from_millis(u64::try_from(at.0 - coordinator.now().steady.0).unwrap_or(0));
        tokio::select! {
            () = tokio::time::sleep(wait) => {}
            () = timers.changed.notified() => {}
        }
    }
}
