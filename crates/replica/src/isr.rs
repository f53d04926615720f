//! The in-sync replicas, and a change of them that the controller has not answered yet.

use ottla_model::{BrokerId, LeaderEpoch, PartitionEpoch};

/// The in-sync replica set of one partition, as its leader knows it.
///
/// While a change is on its way to the controller (AlterPartition, KIP-497) both outcomes must be safe:
/// whoever asks "how many hold this?" counts the committed set, and the high watermark waits for the
/// *maximal* set, the committed one plus those about to join.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Isr {
    committed: Vec<BrokerId>,
    pending: Option<Vec<BrokerId>>,
}

/// A change of the in-sync replicas for the controller to confirm.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IsrProposal {
    pub isr: Vec<BrokerId>,
    /// The epoch that the sender leads in.
    pub leader_epoch: LeaderEpoch,
    /// The state the proposal builds on; the controller refuses it if the state has moved on.
    pub partition_epoch: PartitionEpoch,
}

impl Isr {
    pub(crate) fn new(committed: Vec<BrokerId>) -> Isr {
        Isr { committed, pending: None }
    }

    /// The set that the controller has confirmed.
    pub fn committed(&self) -> &[BrokerId] {
        &self.committed
    }

    pub fn contains(&self, broker: BrokerId) -> bool {
        self.committed.contains(&broker)
    }

    pub fn is_pending(&self) -> bool {
        self.pending.is_some()
    }

    /// Everyone whom the high watermark must wait for: the committed set, and those who are about to join it.
    pub(crate) fn maximal(&self) -> impl Iterator<Item = BrokerId> + '_ {
        let joining = self.pending.iter().flatten().filter(|id| !self.committed.contains(id));
        self.committed.iter().chain(joining).copied()
    }

    pub(crate) fn propose(&mut self, isr: Vec<BrokerId>) {
        self.pending = Some(isr);
    }

    pub(crate) fn commit(&mut self, isr: Vec<BrokerId>) {
        *self = Isr::new(isr);
    }

    pub(crate) fn withdraw(&mut self) {
        self.pending = None;
    }
}
