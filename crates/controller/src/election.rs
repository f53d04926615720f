//! Who leads a partition, as a pure choice.

use std::collections::BTreeSet;

use ottla_model::BrokerId;

/// Those among whom a leader is chosen.
#[derive(Debug, Clone, Copy)]
pub struct Electorate<'a> {
    /// In order of preference.
    pub replicas: &'a [BrokerId],
    pub live: &'a BTreeSet<BrokerId>,
    /// `unclean.leader.election.enable`: take a replica that is not in sync rather than none.
    pub unclean: bool,
}

/// The outcome of an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Choice {
    /// [`BrokerId::NONE`] if nobody can lead.
    pub leader: BrokerId,
    pub isr: Vec<BrokerId>,
    /// The leader was not in sync: records may have been lost (KIP-704).
    pub unclean: bool,
}

/// The first state of a new partition: everyone who is alive is in sync, and the first of them leads.
///
/// `None` while no replica is alive; the partition waits for one.
pub fn first_state(electorate: Electorate<'_>) -> Option<Choice> {
    let isr: Vec<BrokerId> = electorate.live_replicas().collect();
    let leader = *isr.first()?;
    Some(Choice { leader, isr, unclean: false })
}

/// The state after brokers came or went, or `None` if nothing needs to change.
///
/// | leader | in-sync replicas        | then                                                        |
/// |--------|-------------------------|-------------------------------------------------------------|
/// | lives  | all live                | nothing                                                     |
/// | lives  | some dead               | the dead leave the set                                      |
/// | dead   | some live               | first live in-sync replica leads; the dead leave the set    |
/// | dead   | none live, clean        | nobody leads; the set stays, so that its members can return |
/// | dead   | none live, unclean      | first live replica leads, alone in the set                  |
pub fn after_broker_change(electorate: Electorate<'_>, leader: BrokerId, isr: &[BrokerId]) -> Option<Choice> {
    let live_isr: Vec<BrokerId> = isr.iter().copied().filter(|id| electorate.live.contains(id)).collect();
    let choice = if electorate.live.contains(&leader) {
        Choice { leader, isr: live_isr, unclean: false }
    } else if let Some(successor) = electorate.live_replicas().find(|id| live_isr.contains(id)) {
        Choice { leader: successor, isr: live_isr, unclean: false }
    } else if let Some(any) = electorate.live_replicas().next().filter(|_| electorate.unclean) {
        Choice { leader: any, isr: vec![any], unclean: true }
    } else {
        Choice { leader: BrokerId::NONE, isr: isr.to_vec(), unclean: false }
    };
    (choice.leader != leader || choice.isr != isr).then_some(choice)
}

impl Electorate<'_> {
    fn live_replicas(&self) -> impl Iterator<Item = BrokerId> + '_ {
        self.replicas.iter().copied().filter(|id| self.live.contains(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    #[test]
    fn leaders_are_found_as_the_table_says() {
        let replicas = ids(&[1, 2, 3]);
        for (why, live, unclean, leader, isr, expected) in [
            ("all is well", vec![1, 2, 3], false, 1, vec![1, 2, 3], None),
            ("a broker outside the set died", vec![1, 2], false, 1, vec![1, 2], None),
            ("a follower died", vec![1, 3], false, 1, vec![1, 2, 3], Some((1, vec![1, 3], false))),
            ("the leader died", vec![2, 3], false, 1, vec![1, 2, 3], Some((2, vec![2, 3], false))),
            (
                "preference, not the set's order, decides",
                vec![2, 3],
                false,
                1,
                vec![3, 2, 1],
                Some((2, vec![3, 2], false)),
            ),
            ("nobody in sync lives", vec![3], false, 1, vec![1, 2], Some((-1, vec![1, 2], false))),
            ("nobody in sync lives, and still nobody", vec![3], false, -1, vec![1, 2], None),
            ("nobody in sync lives, unclean", vec![3], true, 1, vec![1, 2], Some((3, vec![3], true))),
            ("an in-sync replica returns", vec![2, 3], false, -1, vec![1, 2], Some((2, vec![2], false))),
            ("everyone died", vec![], true, 1, vec![1, 2], Some((-1, vec![1, 2], false))),
        ] {
            let live = ids(&live).into_iter().collect();
            let electorate = Electorate { replicas: &replicas, live: &live, unclean };
            let choice = after_broker_change(electorate, BrokerId(leader), &ids(&isr));
            let expected = expected.map(|(leader, isr, unclean)| Choice {
                leader: BrokerId(leader),
                isr: ids(&isr),
                unclean,
            });
            assert_eq!(choice, expected, "{why}");
        }
    }

    #[test]
    fn a_new_partition_starts_with_everyone_alive() {
        let replicas = ids(&[2, 1, 3]);
        for (why, live, expected) in [
            ("all alive", vec![1, 2, 3], Some((2, vec![2, 1, 3]))),
            ("the preferred one is dead", vec![1, 3], Some((1, vec![1, 3]))),
            ("nobody alive", vec![], None),
        ] {
            let live = ids(&live).into_iter().collect();
            let choice = first_state(Electorate { replicas: &replicas, live: &live, unclean: false });
            let found = choice.map(|choice| (choice.leader, choice.isr));
            assert_eq!(found, expected.map(|(leader, isr)| (BrokerId(leader), ids(&isr))), "{why}");
        }
    }
}
