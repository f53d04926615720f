//! One partition of `__consumer_offsets` that is led here: the groups in it, and their records on their way into the log.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;
use ottla_group::{Group, Now};
use ottla_model::{Offset, Timestamp};
use ottla_protocol::ErrorCode;
use parking_lot::{Mutex, RwLock};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::GroupCoordinator;
use super::hosted_group::{Completion, HostedGroup};
use crate::hosted_partition::{Appended, HostedPartition, RequiredAcks};
use crate::parking::park_on_all;
use crate::purgatory::Moves;
use crate::server::Broker;

#[derive(Debug)]
pub struct OffsetsPartition {
    hosted: Arc<HostedPartition>,
    groups: RwLock<Groups>,
    uncommitted: Mutex<Uncommitted>,
    /// Something was added to `uncommitted`, or it was closed.
    changed: Notify,
}

#[derive(Debug)]
enum Groups {
    /// Still being read from the log.
    Loading,
    Loaded(HashMap<String, Arc<HostedGroup>>),
    /// Led elsewhere by now.
    Gone,
}

/// Records in the log that are not yet on every in-sync replica, by the offset behind them.
///
/// Bounded as requests are: each is a commit, or a record of a group, that somebody waits for until
/// `offsets.commit.timeout.ms`.
#[derive(Debug, Default)]
struct Uncommitted {
    waiting: BTreeMap<Offset, (Instant, Completion)>,
    closed: bool,
}

type Ended = (Completion, Result<(), ErrorCode>);

impl OffsetsPartition {
    pub fn new(hosted: Arc<HostedPartition>) -> OffsetsPartition {
        OffsetsPartition {
            hosted,
            groups: RwLock::new(Groups::Loading),
            uncommitted: Mutex::default(),
            changed: Notify::new(),
        }
    }

    pub fn hosted(&self) -> &Arc<HostedPartition> {
        &self.hosted
    }

    pub fn find(&self, group: &str) -> Result<Option<Arc<HostedGroup>>, ErrorCode> {
        match &*self.groups.read() {
            Groups::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Groups::Loaded(groups) => Ok(groups.get(group).cloned()),
            Groups::Gone => Err(ErrorCode::NotCoordinator),
        }
    }

    pub fn find_or_create(
        self: &Arc<Self>,
        group: &str,
        coordinator: &GroupCoordinator,
    ) -> Result<Arc<HostedGroup>, ErrorCode> {
        if let Some(found) = self.find(group)? {
            return Ok(found);
        }
        match &mut *self.groups.write() {
            Groups::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Groups::Loaded(groups) => {
                let new = || {
                    let group = Group::new(group, coordinator.groups, coordinator.now());
                    Arc::new(HostedGroup::new(group, self.clone()))
                };
                Ok(groups.entry(group.to_owned()).or_insert_with(new).clone())
            }
            Groups::Gone => Err(ErrorCode::NotCoordinator),
        }
    }

    pub fn all(&self) -> Result<Vec<Arc<HostedGroup>>, ErrorCode> {
        match &*self.groups.read() {
            Groups::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Groups::Loaded(groups) => Ok(groups.values().cloned().collect()),
            Groups::Gone => Err(ErrorCode::NotCoordinator),
        }
    }

    /// The group is dead, and its place free.
    pub fn forget(&self, group: &HostedGroup) {
        if let Groups::Loaded(groups) = &mut *self.groups.write()
            && groups.get(group.id()).is_some_and(|found| std::ptr::eq(&**found, group))
        {
            groups.remove(group.id());
        }
    }

    pub fn is_gone(&self) -> bool {
        matches!(&*self.groups.read(), Groups::Gone)
    }

    /// Opens for requests, with the groups that the log held; unless leadership has gone meanwhile.
    pub fn loaded(self: &Arc<Self>, groups: Vec<Group>, coordinator: &GroupCoordinator) {
        let hosted: Vec<Arc<HostedGroup>> =
            groups.into_iter().map(|group| Arc::new(HostedGroup::new(group, self.clone()))).collect();
        let mut state = self.groups.write();
        if !matches!(&*state, Groups::Loading) {
            return;
        }
        *state = Groups::Loaded(hosted.iter().map(|group| (group.id().to_owned(), group.clone())).collect());
        drop(state);
        hosted.iter().for_each(|group| group.begin(coordinator));
    }

    /// Gives the groups up, and tells everyone who waits.
    pub fn unload(&self, now: Now) {
        let groups = std::mem::replace(&mut *self.groups.write(), Groups::Gone);
        if let Groups::Loaded(groups) = groups {
            groups.values().for_each(|group| group.end(ErrorCode::NotCoordinator, now));
        }
        self.uncommitted.lock().closed = true;
        self.changed.notify_one();
    }

    /// Appends a batch. The records count once they are committed, see [`OffsetsPartition::when_committed`].
    pub fn append(&self, batch: &Bytes, acks: RequiredAcks, now: Timestamp) -> Result<Appended, ErrorCode> {
        self.hosted.append_as_coordinator(batch, acks, now).map_err(|failure| {
            let error = failure.code();
            if error != ErrorCode::NotLeaderOrFollower {
                tracing::warn!(partition = %self.hosted.name(), error = %failure, "record of a group not written");
            }
            error
        })
    }

    /// How an append ended, if that is known; otherwise `completion` is told once it is.
    pub fn when_committed(
        &self,
        appended: &Appended,
        coordinator: &GroupCoordinator,
        completion: Completion,
    ) -> Option<(Result<(), ErrorCode>, Completion)> {
        if coordinator.acks != RequiredAcks::All {
            return Some((Ok(()), completion));
        }
        if let Some(outcome) = self.hosted.committed(appended.end_offset) {
            return Some((outcome, completion));
        }
        let mut uncommitted = self.uncommitted.lock();
        if uncommitted.closed {
            return Some((Err(ErrorCode::NotLeaderOrFollower), completion));
        }
        let deadline = Instant::now() + coordinator.commit_timeout;
        uncommitted.waiting.insert(appended.end_offset, (deadline, completion));
        drop(uncommitted);
        self.changed.notify_one();
        None
    }

    /// Takes out what has ended one way or the other, and says when the next one times out.
    fn take_ended(&self, now: Instant) -> (Vec<Ended>, Option<Instant>) {
        let mut ended = Vec::new();
        let mut uncommitted = self.uncommitted.lock();
        let closed = uncommitted.closed;
        while let Some(first) = uncommitted.waiting.first_entry() {
            let outcome = match self.hosted.committed(*first.key()) {
                Some(outcome) => outcome,
                None if closed => Err(ErrorCode::NotLeaderOrFollower),
                None if first.get().0 <= now => Err(ErrorCode::RequestTimedOut),
                None => break,
            };
            ended.push((first.remove().1, outcome));
        }
        (ended, uncommitted.waiting.first_key_value().map(|(_, (deadline, _))| *deadline))
    }
}

/// Tells groups when their records are committed, in the order of the log, for as long as the partition is led here.
pub async fn complete_appends(broker: Arc<Broker>, partition: Arc<OffsetsPartition>) {
    loop {
        // Parked before looking, so that nothing that moves in between is missed.
        let parked = park_on_all(Moves::HighWatermark, 1, [partition.hosted.clone()]);
        let (ended, deadline) = partition.take_ended(Instant::now());
        for (completion, outcome) in ended {
            completion.complete(outcome, &broker.groups);
        }
        let Some(deadline) = deadline else {
            drop(parked);
            if partition.uncommitted.lock().closed {
                return;
            }
            partition.changed.notified().await;
            continue;
        };
        tokio::select! {
            () = parked.woken() => {}
            () = tokio::time::sleep_until(deadline) => {}
            // A commit that was not there when we looked may be committed already.
            () = partition.changed.notified() => {}
        }
    }
}
