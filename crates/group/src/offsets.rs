//! What a group has committed.

use std::collections::{BTreeMap, BTreeSet};

use ottla_model::{LeaderEpoch, Offset, Timestamp, TopicPartition};
use ottla_protocol::ErrorCode;

/// A committed offset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next record to read.
    pub offset: Offset,
    /// Epoch of the last record read; `None` from clients that do not say (KIP-320).
    pub leader_epoch: Option<LeaderEpoch>,
    pub metadata: String,
    pub committed_at: Timestamp,
    /// From clients that set their own retention (before KIP-211).
    pub expires_at: Option<Timestamp>,
}

/// Who commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Committer<'a> {
    /// Negative: not as a member.
    pub generation: i32,
    /// Empty: not as a member.
    pub member_id: &'a str,
    pub instance_id: Option<&'a str>,
}

/// Why a commit was not taken.
pub type CommitRefusal = ErrorCode;

/// Offsets that nobody needs any more.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Expired(pub Vec<TopicPartition>);

/// The offsets of one group. One commit per partition and generation of the log: the last one counts.
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    committed: BTreeMap<TopicPartition, CommittedOffset>,
    /// Commits on their way into the log, which `require_stable` fetches must wait for.
    pending: BTreeMap<TopicPartition, usize>,
}

impl Offsets {
    pub fn get(&self, partition: &TopicPartition) -> Option<&CommittedOffset> {
        self.committed.get(partition)
    }

    pub fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &CommittedOffset)> {
        self.committed.iter()
    }

    pub fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty()
    }

    /// A commit is on its way.
    pub fn begin(&mut self, partition: &TopicPartition) {
        *self.pending.entry(partition.clone()).or_default() += 1;
    }

    /// The commit that was begun is in the log, or failed (`None`).
    pub fn finish(&mut self, partition: &TopicPartition, committed: Option<CommittedOffset>) {
        if let Some(count) = self.pending.get_mut(partition) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(partition);
            }
        }
        if let Some(committed) = committed {
            self.committed.insert(partition.clone(), committed);
        }
    }

    pub fn is_pending(&self, partition: &TopicPartition) -> bool {
        self.pending.contains_key(partition)
    }

    /// Replays what the log says: the last one counts, `None` is a tombstone.
    pub fn load(&mut self, partition: TopicPartition, committed: Option<CommittedOffset>) {
        match committed {
            Some(committed) => drop(self.committed.insert(partition, committed)),
            None => drop(self.committed.remove(&partition)),
        }
    }

    /// Forgets offsets, whose tombstones the caller writes. Answers those that were there.
    pub fn remove(&mut self, partitions: &[TopicPartition]) -> Expired {
        Expired(
            partitions
                .iter()
                .filter(|partition| self.committed.remove(partition).is_some())
                .cloned()
                .collect(),
        )
    }

    /// Offsets whose time is over (KIP-211).
    ///
    /// `since` tells from when on an offset counts as unused: its commit, or when its group became empty. Partitions of
    /// topics in `subscribed` are in use, whatever their age.
    pub fn expired(
        &self,
        now: Timestamp,
        retention_ms: i64,
        since: impl Fn(&CommittedOffset) -> Timestamp,
        subscribed: &BTreeSet<String>,
    ) -> Expired {
        let is_over = |(partition, committed): &(&TopicPartition, &CommittedOffset)| {
            if subscribed.contains(partition.topic.as_str()) || self.is_pending(partition) {
                return false;
            }
            match committed.expires_at {
                Some(at) => now >= at,
                None => now.0 - since(committed).0 >= retention_ms,
            }
        };
        Expired(self.committed.iter().filter(is_over).map(|(partition, _)| partition.clone()).collect())
    }
}
