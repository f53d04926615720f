//! What a group has committed.

use std::collections::BTreeMap;

use ottla_model::{LeaderEpoch, Offset, ProducerId, Timestamp, TopicPartition};

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

/// A commit and where in the log it stands. Of two commits the one further on counts, in whatever order they become known:
/// so memory and a replay of the log agree.
#[derive(Debug, Clone)]
struct Entry {
    position: Offset,
    committed: CommittedOffset,
}

/// The offsets of one group.
///
/// Bounded by the partitions that exist: commits to others are refused, and deleted topics take their offsets along.
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    committed: BTreeMap<TopicPartition, Entry>,
    /// Commits on their way into the log, which `require_stable` fetches must wait for.
    pending: BTreeMap<TopicPartition, usize>,
    /// Commits of transactions that have not ended.
    transactional: BTreeMap<ProducerId, BTreeMap<TopicPartition, Entry>>,
}

impl Offsets {
    pub fn get(&self, partition: &TopicPartition) -> Option<&CommittedOffset> {
        self.committed.get(partition).map(|entry| &entry.committed)
    }

    /// All of them, in the order of topics and partitions.
    pub fn iter(&self) -> impl Iterator<Item = (&TopicPartition, &CommittedOffset)> {
        self.committed.iter().map(|(partition, entry)| (partition, &entry.committed))
    }

    /// Nothing is committed, and nothing may yet be.
    pub fn is_empty(&self) -> bool {
        self.committed.is_empty() && self.pending.is_empty() && self.transactional.is_empty()
    }

    /// A commit is on its way.
    pub fn begin(&mut self, partition: &TopicPartition) {
        *self.pending.entry(partition.clone()).or_default() += 1;
    }

    /// The commit that was begun is in the log at `position`.
    pub fn finish(&mut self, partition: TopicPartition, position: Offset, committed: CommittedOffset) {
        self.end_pending(&partition);
        self.load(partition, position, committed);
    }

    /// The commit that was begun is not known to be in the log.
    pub fn fail(&mut self, partition: &TopicPartition) {
        self.end_pending(partition);
    }

    fn end_pending(&mut self, partition: &TopicPartition) {
        if let Some(count) = self.pending.get_mut(partition) {
            *count -= 1;
            if *count == 0 {
                self.pending.remove(partition);
            }
        }
    }

    /// A commit may yet come to count that was made before now: plain and on its way, or part of an open transaction.
    pub fn is_pending(&self, partition: &TopicPartition) -> bool {
        self.pending.contains_key(partition)
            || self.transactional.values().any(|staged| staged.contains_key(partition))
    }

    /// Takes a commit from the log, unless a later one is known.
    pub fn load(&mut self, partition: TopicPartition, position: Offset, committed: CommittedOffset) {
        let entry = Entry { position, committed };
        match self.committed.get_mut(&partition) {
            Some(known) if known.position > position => {}
            Some(known) => *known = entry,
            None => drop(self.committed.insert(partition, entry)),
        }
    }

    /// Forgets an offset, whose tombstone is in the log or about to be. Whether there was one.
    pub fn remove(&mut self, partition: &TopicPartition) -> bool {
        self.committed.remove(partition).is_some()
    }

    /// Takes a commit that counts once its transaction commits (KIP-98).
    pub fn stage(
        &mut self,
        producer: ProducerId,
        partition: TopicPartition,
        position: Offset,
        committed: CommittedOffset,
    ) {
        self.transactional.entry(producer).or_default().insert(partition, Entry { position, committed });
    }

    /// Takes back a commit of a transaction: it failed to be written, or the log says that it is deleted.
    pub fn unstage(&mut self, producer: ProducerId, partition: &TopicPartition) {
        if let Some(staged) = self.transactional.get_mut(&producer) {
            staged.remove(partition);
            if staged.is_empty() {
                self.transactional.remove(&producer);
            }
        }
    }

    /// The producer's transaction has ended: what it committed counts, or is dropped.
    pub fn end_transaction(&mut self, producer: ProducerId, committed: bool) {
        let Some(staged) = self.transactional.remove(&producer) else { return };
        if committed {
            for (partition, Entry { position, committed }) in staged {
                self.load(partition, position, committed);
            }
        }
    }

    /// Partitions whose offsets are `over`, leaving out those for which a commit is on its way.
    pub fn expired(&self, over: impl Fn(&TopicPartition, &CommittedOffset) -> bool) -> Vec<TopicPartition> {
        self.iter()
            .filter(|(partition, committed)| over(partition, committed) && !self.is_pending(partition))
            .map(|(partition, _)| partition.clone())
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use ottla_model::TopicName;

    use super::*;

    fn partition() -> TopicPartition {
        TopicPartition::new(TopicName::new("t").unwrap(), 0)
    }

    fn committed(offset: i64) -> CommittedOffset {
        CommittedOffset {
            offset: Offset(offset),
            leader_epoch: None,
            metadata: String::new(),
            committed_at: Timestamp(0),
            expires_at: None,
        }
    }

    fn offset_of(offsets: &Offsets) -> Option<i64> {
        offsets.get(&partition()).map(|committed| committed.offset.0)
    }

    #[test]
    fn the_commit_further_on_in_the_log_counts_whenever_it_is_heard_of() {
        let mut offsets = Offsets::default();
        offsets.begin(&partition());
        offsets.begin(&partition());
        offsets.finish(partition(), Offset(11), committed(2));
        assert!(offsets.is_pending(&partition()));
        offsets.finish(partition(), Offset(10), committed(1));
        assert!(!offsets.is_pending(&partition()));
        assert_eq!(offset_of(&offsets), Some(2));
    }

    #[test]
    fn an_open_transaction_makes_an_offset_unstable_and_counts_when_it_commits() {
        let producer = ProducerId(4000);
        for (why, plain_at, commits, expected) in [
            ("committed", 5, true, Some(7)),
            ("aborted", 5, false, Some(1)),
            ("committed, but a plain commit came after it", 15, true, Some(1)),
        ] {
            let mut offsets = Offsets::default();
            offsets.stage(producer, partition(), Offset(10), committed(7));
            offsets.load(partition(), Offset(plain_at), committed(1));
            assert!(offsets.is_pending(&partition()), "{why}");
            offsets.end_transaction(producer, commits);
            assert!(!offsets.is_pending(&partition()), "{why}");
            assert_eq!(offset_of(&offsets), expected, "{why}");
        }
    }

    #[test]
    fn a_group_is_not_without_offsets_while_a_transaction_is_open() {
        let mut offsets = Offsets::default();
        offsets.stage(ProducerId(1), partition(), Offset(1), committed(1));
        assert!(!offsets.is_empty());
        offsets.unstage(ProducerId(1), &partition());
        assert!(offsets.is_empty());
    }

    #[test]
    fn what_is_about_to_be_committed_does_not_expire() {
        let mut offsets = Offsets::default();
        offsets.load(partition(), Offset(1), committed(1));
        assert_eq!(offsets.expired(|_, _| true), [partition()]);
        offsets.begin(&partition());
        assert_eq!(offsets.expired(|_, _| true), []);
        offsets.fail(&partition());
        offsets.stage(ProducerId(1), partition(), Offset(2), committed(2));
        assert_eq!(offsets.expired(|_, _| true), []);
    }
}
