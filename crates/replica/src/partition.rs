//! One replica of one partition: leader, follower, or neither yet.

use std::collections::BTreeMap;

use ottla_model::{BrokerId, ControllerEpoch, LeaderEpoch, Offset, PartitionEpoch, Timestamp};
use ottla_protocol::ErrorCode;

use crate::{Follower, Isr, IsrProposal};

/// The configuration that leadership depends on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rules {
    /// `min.insync.replicas` of the topic.
    pub min_insync_replicas: usize,
    /// `replica.lag.time.max.ms` of the broker.
    pub lag_ms_max: i64,
}

/// The controller's order for one partition (LeaderAndIsr).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaderAndIsr {
    pub controller_epoch: ControllerEpoch,
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub partition_epoch: PartitionEpoch,
    pub replicas: Vec<BrokerId>,
}

/// What an accepted order made of this replica.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OrderOutcome {
    /// It leads; the epoch cache must learn that this epoch starts at the log end.
    Leader,
    /// It follows `leader`, which is [`BrokerId::NONE`] while there is none.
    Follower { leader: BrokerId },
}

/// Why an order was not followed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum OrderRefusal {
    #[error("leader epoch {got} is not newer than {current}")]
    Stale { got: LeaderEpoch, current: LeaderEpoch },
    #[error("broker {0} is not among the replicas it was told to be one of")]
    NotAReplica(BrokerId),
}

impl OrderRefusal {
    pub fn code(&self) -> ErrorCode {
        match self {
            OrderRefusal::Stale { .. } => ErrorCode::StaleControllerEpoch,
            OrderRefusal::NotAReplica(_) => ErrorCode::UnknownTopicOrPartition,
        }
    }
}

/// Why this replica may not serve a request as the leader, or in the epoch the client believes in (KIP-320).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LeaderRefusal {
    #[error("the leader is broker {leader}")]
    NotLeader { leader: BrokerId },
    #[error("leader epoch {got} is behind {current}")]
    Fenced { got: LeaderEpoch, current: LeaderEpoch },
    #[error("leader epoch {got} is ahead of {current}")]
    UnknownEpoch { got: LeaderEpoch, current: LeaderEpoch },
}

impl LeaderRefusal {
    pub fn code(&self) -> ErrorCode {
        match self {
            LeaderRefusal::NotLeader { .. } => ErrorCode::NotLeaderOrFollower,
            LeaderRefusal::Fenced { .. } => ErrorCode::FencedLeaderEpoch,
            LeaderRefusal::UnknownEpoch { .. } => ErrorCode::UnknownLeaderEpoch,
        }
    }
}

/// Why a produce request may not be appended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum AppendRefusal {
    #[error(transparent)]
    Leader(#[from] LeaderRefusal),
    #[error("{in_sync} replicas are in sync, min.insync.replicas asks for {required}")]
    NotEnoughReplicas { in_sync: usize, required: usize },
}

impl AppendRefusal {
    pub fn code(&self) -> ErrorCode {
        match self {
            AppendRefusal::Leader(refusal) => refusal.code(),
            AppendRefusal::NotEnoughReplicas { .. } => ErrorCode::NotEnoughReplicas,
        }
    }
}

/// What a follower's fetch has moved.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FetchProgress {
    pub high_watermark_moved: bool,
    /// The follower is in step again: ask the controller to take it back.
    pub proposal: Option<IsrProposal>,
}

/// One replica of one partition.
///
/// ```text
///              order naming another leader
///          +---------------------------------+
///          v                                 |
///   no order yet --> Follower  <-------->  Leader     each change with a higher leader epoch
/// ```
#[derive(Debug, Clone)]
pub struct Partition {
    local: BrokerId,
    rules: Rules,
    leader: BrokerId,
    leader_epoch: LeaderEpoch,
    controller_epoch: ControllerEpoch,
    partition_epoch: PartitionEpoch,
    replicas: Vec<BrokerId>,
    isr: Isr,
    high_watermark: Offset,
    leadership: Option<Leadership>,
}

/// What only a leader keeps; gone with the leadership.
#[derive(Debug, Clone)]
struct Leadership {
    /// Where this epoch begins: a follower that has not reached it may still hold records that nobody else has.
    epoch_start: Offset,
    log_end: Offset,
    followers: BTreeMap<BrokerId, Follower>,
}

impl Partition {
    /// A replica that has had no order yet. `high_watermark` is the checkpointed one, clamped to the log.
    pub fn new(local: BrokerId, rules: Rules, high_watermark: Offset) -> Partition {
        Partition {
            local,
            rules,
            leader: BrokerId::NONE,
            leader_epoch: LeaderEpoch::NONE,
            controller_epoch: ControllerEpoch(0),
            partition_epoch: PartitionEpoch(-1),
            replicas: Vec::new(),
            isr: Isr::default(),
            high_watermark,
            leadership: None,
        }
    }

    /// Follows the controller's order if it is newer than the last one.
    ///
    /// `log_end` is the end of the local log. A new leader's in-sync followers count as caught up now, so that
    /// they get the whole of `replica.lag.time.max.ms` to find the new leader.
    pub fn follow(
        &mut self,
        order: &LeaderAndIsr,
        log_end: Offset,
        now: Timestamp,
    ) -> Result<OrderOutcome, OrderRefusal> {
        if order.leader_epoch <= self.leader_epoch {
            return Err(OrderRefusal::Stale { got: order.leader_epoch, current: self.leader_epoch });
        }
        if !order.replicas.contains(&self.local) {
            return Err(OrderRefusal::NotAReplica(self.local));
        }
        self.controller_epoch = order.controller_epoch;
        self.leader = order.leader;
        self.leader_epoch = order.leader_epoch;
        self.partition_epoch = order.partition_epoch;
        self.replicas.clone_from(&order.replicas);
        self.isr = Isr::new(order.isr.clone());
        if order.leader != self.local {
            self.leadership = None;
            return Ok(OrderOutcome::Follower { leader: order.leader });
        }
        let follower = |id: &BrokerId| (*id, Follower::new(self.isr.contains(*id), log_end, now));
        let followers = order.replicas.iter().filter(|id| **id != self.local).map(follower).collect();
        self.leadership = Some(Leadership { epoch_start: log_end, log_end, followers });
        self.advance_high_watermark(now);
        Ok(OrderOutcome::Leader)
    }

    /// Whether this replica leads, in the epoch that the client believes in (`None`: it did not say).
    pub fn check_leader(&self, epoch: Option<LeaderEpoch>) -> Result<(), LeaderRefusal> {
        self.check_epoch(epoch)?;
        if self.leadership.is_none() {
            return Err(LeaderRefusal::NotLeader { leader: self.leader });
        }
        Ok(())
    }

    /// Whether the client's idea of the leader epoch is this replica's; leader or not.
    pub fn check_epoch(&self, epoch: Option<LeaderEpoch>) -> Result<(), LeaderRefusal> {
        let current = self.leader_epoch;
        match epoch {
            Some(got) if got < current => Err(LeaderRefusal::Fenced { got, current }),
            Some(got) if got > current => Err(LeaderRefusal::UnknownEpoch { got, current }),
            _ => Ok(()),
        }
    }

    /// Whether a producer's records may be appended. `all` is acks=all, which asks for `min.insync.replicas`.
    pub fn check_append(&self, all: bool) -> Result<(), AppendRefusal> {
        self.check_leader(None)?;
        let (in_sync, required) = (self.isr.committed().len(), self.required_replicas());
        if all && in_sync < required {
            return Err(AppendRefusal::NotEnoughReplicas { in_sync, required });
        }
        Ok(())
    }

    /// Tells that the leader's own log now ends at `log_end`. True if that moved the high watermark.
    pub fn appended(&mut self, log_end: Offset, now: Timestamp) -> bool {
        if let Some(leadership) = &mut self.leadership {
            leadership.log_end = log_end;
        }
        self.advance_high_watermark(now)
    }

    /// Takes note of a follower's fetch at `offset`, which acknowledges everything below it.
    pub fn follower_fetched(
        &mut self,
        follower: BrokerId,
        offset: Offset,
        log_start: Offset,
        now: Timestamp,
    ) -> Result<FetchProgress, LeaderRefusal> {
        let not_leader = LeaderRefusal::NotLeader { leader: self.leader };
        let leadership = self.leadership.as_mut().ok_or(not_leader)?;
        let (leader_end, epoch_start) = (leadership.log_end, leadership.epoch_start);
        let unknown = LeaderRefusal::UnknownEpoch { got: self.leader_epoch, current: self.leader_epoch };
        leadership.followers.get_mut(&follower).ok_or(unknown)?.fetched(offset, log_start, leader_end, now);

        let in_step = offset >= self.high_watermark && offset >= epoch_start;
        let proposal = if in_step && !self.isr.is_pending() && !self.isr.contains(follower) {
            let isr = self.isr.committed().iter().copied().chain([follower]).collect();
            Some(self.propose(isr))
        } else {
            None
        };
        Ok(FetchProgress { high_watermark_moved: self.advance_high_watermark(now), proposal })
    }

    /// The in-sync replicas without those that lag too far behind, if there are such; asked for periodically.
    pub fn shrink_isr(&mut self, now: Timestamp) -> Option<IsrProposal> {
        let leadership = self.leadership.as_ref()?;
        if self.isr.is_pending() {
            return None;
        }
        let in_step = |id: &BrokerId| {
            *id == self.local
                || leadership
                    .followers
                    .get(id)
                    .is_some_and(|f| f.is_caught_up(leadership.log_end, now, self.rules.lag_ms_max))
        };
        let isr: Vec<BrokerId> = self.isr.committed().iter().copied().filter(in_step).collect();
        if isr.len() == self.isr.committed().len() {
            return None;
        }
        Some(self.propose(isr))
    }

    fn propose(&mut self, isr: Vec<BrokerId>) -> IsrProposal {
        self.isr.propose(isr.clone());
        IsrProposal { isr, leader_epoch: self.leader_epoch, partition_epoch: self.partition_epoch }
    }

    /// The controller confirmed a set of in-sync replicas. True if that moved the high watermark.
    ///
    /// An answer that is not newer than the state at hand is old news and changes nothing.
    pub fn isr_committed(&mut self, isr: Vec<BrokerId>, epoch: PartitionEpoch, now: Timestamp) -> bool {
        if self.leadership.is_none() || epoch <= self.partition_epoch {
            return false;
        }
        self.partition_epoch = epoch;
        self.isr.commit(isr);
        self.advance_high_watermark(now)
    }

    /// The controller refused a proposal for a reason that leaves the committed set as it is.
    pub fn isr_refused(&mut self) {
        self.isr.withdraw();
    }

    /// Moves the high watermark up to the lowest log end among the replicas that count.
    ///
    /// ```text
    /// broker 1  leader   0 1 2 3 4 5 |   log end 6
    /// broker 2  in ISR   0 1 2 3 |       log end 4  <- high watermark: 0..=3 are committed
    /// broker 3  lagging  0 1 |           outside the ISR, so it holds nothing back
    /// ```
    ///
    /// A follower outside the set that has caught up counts too: it is about to join. Never moves back: a
    /// deposed leader truncates by epoch, not by watermark (KIP-101). Stays while fewer than
    /// `min.insync.replicas` are in sync, so that what was shown to consumers is as safe as was promised.
    fn advance_high_watermark(&mut self, now: Timestamp) -> bool {
        let Some(leadership) = &self.leadership else { return false };
        if self.isr.maximal().count() < self.required_replicas() {
            return false;
        }
        let lag_ms_max = self.rules.lag_ms_max;
        let counts = |id: &BrokerId, follower: &Follower| {
            self.isr.maximal().any(|member| member == *id)
                || follower.is_caught_up(leadership.log_end, now, lag_ms_max)
        };
        let lowest = leadership
            .followers
            .iter()
            .filter(|(id, follower)| counts(id, follower))
            .map(|(_, follower)| follower.log_end())
            .fold(leadership.log_end, Offset::min);
        if lowest <= self.high_watermark {
            return false;
        }
        self.high_watermark = lowest;
        true
    }

    /// A follower takes the leader's high watermark, as far as its own log reaches; this one may go back.
    pub fn follower_high_watermark(&mut self, leaders: Offset, log_start: Offset, log_end: Offset) {
        self.high_watermark = leaders.min(log_end).max(log_start);
    }

    /// Whether records up to `end_offset` (exclusive) have reached everyone who counts.
    pub fn is_committed(&self, end_offset: Offset) -> bool {
        self.high_watermark >= end_offset
    }

    /// Whether enough replicas are in sync for acks=all, asked once the records are committed.
    pub fn has_enough_replicas(&self) -> bool {
        self.isr.maximal().count() >= self.required_replicas()
    }

    /// `min.insync.replicas`, but never more than there are replicas.
    fn required_replicas(&self) -> usize {
        self.rules.min_insync_replicas.min(self.replicas.len())
    }

    pub fn set_rules(&mut self, rules: Rules) {
        self.rules = rules;
    }

    /// Keeps the watermark inside the log after the log itself was cut or emptied.
    pub fn clamp_high_watermark(&mut self, log_start: Offset, log_end: Offset) {
        self.high_watermark = self.high_watermark.min(log_end).max(log_start);
    }

    pub fn is_leader(&self) -> bool {
        self.leadership.is_some()
    }

    pub fn leader(&self) -> BrokerId {
        self.leader
    }

    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.leader_epoch
    }

    pub fn controller_epoch(&self) -> ControllerEpoch {
        self.controller_epoch
    }

    pub fn partition_epoch(&self) -> PartitionEpoch {
        self.partition_epoch
    }

    pub fn replicas(&self) -> &[BrokerId] {
        &self.replicas
    }

    pub fn isr(&self) -> &Isr {
        &self.isr
    }

    /// First offset that is not known to be on every in-sync replica.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Where the leader's own epoch began; `None` on a follower.
    pub fn epoch_start(&self) -> Option<Offset> {
        self.leadership.as_ref().map(|leadership| leadership.epoch_start)
    }

    pub fn follower(&self, id: BrokerId) -> Option<&Follower> {
        self.leadership.as_ref()?.followers.get(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);

    fn brokers(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn order(leader: i32, epoch: i32, isr: &[i32]) -> LeaderAndIsr {
        LeaderAndIsr {
            controller_epoch: ControllerEpoch(1),
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(epoch),
            isr: brokers(isr),
            partition_epoch: PartitionEpoch(10),
            replicas: brokers(&[1, 2, 3]),
        }
    }

    fn partition(min_insync_replicas: usize) -> Partition {
        Partition::new(BrokerId(1), Rules { min_insync_replicas, lag_ms_max: 10_000 }, Offset(0))
    }

    /// Broker 1 leads in epoch 5 from an empty log.
    fn leader(isr: &[i32], min_insync_replicas: usize) -> Partition {
        let mut partition = partition(min_insync_replicas);
        partition.follow(&order(1, 5, isr), Offset(0), NOW).unwrap();
        partition
    }

    #[test]
    fn only_a_newer_leader_epoch_is_followed() {
        for (why, epoch, answer) in [
            ("newer", 6, Ok(OrderOutcome::Leader)),
            ("the same", 5, Err(OrderRefusal::Stale { got: LeaderEpoch(5), current: LeaderEpoch(5) })),
            ("older", 4, Err(OrderRefusal::Stale { got: LeaderEpoch(4), current: LeaderEpoch(5) })),
        ] {
            assert_eq!(leader(&[1], 1).follow(&order(1, epoch, &[1]), Offset(0), NOW), answer, "{why}");
        }
    }

    #[test]
    fn an_order_for_others_is_refused() {
        let mut stray = Partition::new(BrokerId(9), partition(1).rules, Offset(0));
        let refusal = stray.follow(&order(1, 5, &[1]), Offset(0), NOW).unwrap_err();
        assert_eq!(refusal.code(), ErrorCode::UnknownTopicOrPartition);
        assert_eq!(stray.leader_epoch(), LeaderEpoch::NONE, "a refused order leaves no trace");
    }

    #[test]
    fn clients_with_another_epoch_are_told_so() {
        let leads = leader(&[1], 1);
        let mut follows = leader(&[1], 1);
        follows.follow(&order(2, 6, &[1, 2]), Offset(0), NOW).unwrap();
        for (why, partition, epoch, code) in [
            ("no epoch, leader", &leads, None, None),
            ("right epoch, leader", &leads, Some(5), None),
            ("old epoch", &leads, Some(4), Some(ErrorCode::FencedLeaderEpoch)),
            ("epoch from the future", &leads, Some(6), Some(ErrorCode::UnknownLeaderEpoch)),
            ("no epoch, follower", &follows, None, Some(ErrorCode::NotLeaderOrFollower)),
            ("right epoch, follower", &follows, Some(6), Some(ErrorCode::NotLeaderOrFollower)),
            (
                "old epoch, follower: the epoch is judged first",
                &follows,
                Some(5),
                Some(ErrorCode::FencedLeaderEpoch),
            ),
        ] {
            let answer = partition.check_leader(epoch.map(LeaderEpoch));
            assert_eq!(answer.err().map(|refusal| refusal.code()), code, "{why}");
        }
    }

    #[test]
    fn the_watermark_waits_for_the_slowest_in_sync_replica() {
        let mut partition = leader(&[1, 2], 1);
        assert!(!partition.appended(Offset(6), NOW), "broker 2 has not fetched yet");
        let progress = partition.follower_fetched(BrokerId(2), Offset(4), Offset(0), NOW).unwrap();
        assert!(progress.high_watermark_moved);
        assert_eq!(partition.high_watermark(), Offset(4));
        assert!(partition.is_committed(Offset(4)));
        assert!(!partition.is_committed(Offset(5)));
    }

    #[test]
    fn alone_in_sync_the_leader_commits_at_once() {
        let mut partition = leader(&[1], 1);
        assert!(partition.appended(Offset(3), NOW));
        assert_eq!(partition.high_watermark(), Offset(3));
    }

    #[test]
    fn acks_all_needs_min_insync_replicas() {
        for (why, isr, min, all, refused) in [
            ("enough", vec![1, 2], 2, true, false),
            ("too few", vec![1], 2, true, true),
            ("too few, but acks=1", vec![1], 2, false, false),
            ("a minimum beyond the replicas is capped", vec![1, 2, 3], 9, true, false),
        ] {
            let refusal = leader(&isr, min).check_append(all).err();
            assert_eq!(refusal.is_some(), refused, "{why}");
        }
    }

    #[test]
    fn the_watermark_stands_while_too_few_are_in_sync() {
        let mut partition = leader(&[1], 2);
        assert!(!partition.appended(Offset(3), NOW));
        assert_eq!(partition.high_watermark(), Offset(0));
        assert!(!partition.isr_committed(brokers(&[1]), PartitionEpoch(11), NOW));
    }

    #[test]
    fn a_follower_rejoins_once_it_has_the_watermark_and_this_epoch() {
        let mut partition = partition(1);
        partition.follow(&order(1, 5, &[1]), Offset(10), NOW).unwrap();
        partition.appended(Offset(20), NOW);
        for (why, offset, proposed) in [
            ("before this epoch began", 9, false),
            ("in this epoch but behind the watermark", 15, false),
            ("at the watermark", 20, true),
            ("one proposal at a time", 20, false),
        ] {
            let progress = partition.follower_fetched(BrokerId(3), Offset(offset), Offset(0), NOW).unwrap();
            assert_eq!(progress.proposal.is_some(), proposed, "{why}");
        }
        assert_eq!(partition.isr().committed(), brokers(&[1]), "not in sync until the controller says so");
        partition.isr_committed(brokers(&[1, 3]), PartitionEpoch(11), NOW);
        assert_eq!(partition.isr().committed(), brokers(&[1, 3]));
    }

    #[test]
    fn the_watermark_waits_for_a_replica_that_is_about_to_join() {
        let mut partition = leader(&[1], 1);
        partition.appended(Offset(5), NOW);
        let progress = partition.follower_fetched(BrokerId(2), Offset(5), Offset(0), NOW).unwrap();
        assert_eq!(progress.proposal.unwrap().isr, brokers(&[1, 2]));
        assert!(!partition.appended(Offset(8), NOW), "broker 2 may be in the set already, for all we know");
        partition.isr_refused();
        assert!(!partition.appended(Offset(8), NOW), "still caught up, so still waited for");
        assert!(
            partition.appended(Offset(8), Timestamp(NOW.0 + 10_001)),
            "fallen behind: waited for no more"
        );
    }

    #[test]
    fn laggards_are_dropped_and_only_them() {
        let mut partition = leader(&[1, 2, 3], 1);
        partition.appended(Offset(5), NOW);
        let later = Timestamp(NOW.0 + 10_001);
        partition.follower_fetched(BrokerId(2), Offset(5), Offset(0), later).unwrap();
        let proposal = partition.shrink_isr(later).unwrap();
        assert_eq!(proposal.isr, brokers(&[1, 2]));
        assert_eq!((proposal.leader_epoch, proposal.partition_epoch), (LeaderEpoch(5), PartitionEpoch(10)));
        assert_eq!(partition.shrink_isr(later), None, "one proposal at a time");
        assert!(partition.isr_committed(proposal.isr, PartitionEpoch(11), later));
        assert_eq!(partition.high_watermark(), Offset(5), "nobody holds it back any more");
    }

    #[test]
    fn a_late_answer_of_the_controller_changes_nothing() {
        let mut partition = leader(&[1, 2], 1);
        for epoch in [9, 10] {
            assert!(!partition.isr_committed(brokers(&[1]), PartitionEpoch(epoch), NOW));
        }
        assert_eq!(partition.isr().committed(), brokers(&[1, 2]));
    }

    #[test]
    fn strangers_move_nothing() {
        let mut partition = leader(&[1, 2], 1);
        partition.appended(Offset(5), NOW);
        assert!(partition.follower_fetched(BrokerId(7), Offset(5), Offset(0), NOW).is_err());
        assert_eq!(partition.high_watermark(), Offset(0));
    }
}
