//! Who reads what: the leader of a group shares the partitions out by an assignor that all members know.

use std::collections::BTreeMap;

use ottla_model::{TopicName, TopicPartition};

/// `partition.assignment.strategy`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignor {
    /// Of each topic, one run of partitions for every member: partitions of the same number stay together.
    Range,
    /// All partitions dealt out one by one: as even as can be.
    RoundRobin,
}

/// A member as the assignors see it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subscriber {
    pub member_id: String,
    /// Static members are told apart, and sorted, by this, so that they get the same again after a restart.
    pub instance_id: Option<String>,
    pub topics: Vec<TopicName>,
}

/// Partitions by member id.
pub type Assignments = BTreeMap<String, Vec<TopicPartition>>;

impl Assignor {
    /// As clients of all kinds call it on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Assignor::Range => "range",
            Assignor::RoundRobin => "roundrobin",
        }
    }

    /// Shares the partitions of each topic out. Everyone who subscribes to a topic must come to the same result, so order is all that
    /// decides. Topics nobody can name the partitions of are left out.
    pub fn assign(self, members: &[Subscriber], partitions: &BTreeMap<TopicName, i32>) -> Assignments {
        let mut members: Vec<&Subscriber> = members.iter().collect();
        // Static members first, by instance, then the others by id.
        members.sort_by_key(|member| (member.instance_id.is_none(), &member.instance_id, &member.member_id));
        let mut assigned: Assignments =
            members.iter().map(|member| (member.member_id.clone(), Vec::new())).collect();
        let mut give = |member: &Subscriber, topic: &TopicName, partition: i32| {
            let of_member = assigned.entry(member.member_id.clone()).or_default();
            of_member.push(TopicPartition::new(topic.clone(), partition));
        };
        match self {
            Assignor::Range => {
                for (topic, count) in partitions {
                    let readers: Vec<&&Subscriber> =
                        members.iter().filter(|member| member.topics.contains(topic)).collect();
                    let mut next = 0;
                    for (place, member) in (0..).zip(&readers) {
                        let readers = readers.len() as i32;
                        let share = count / readers + i32::from(place < count % readers);
                        (next..next + share).for_each(|partition| give(member, topic, partition));
                        next += share;
                    }
                }
            }
            Assignor::RoundRobin => {
                let mut turn = 0;
                for (topic, count) in partitions {
                    if !members.iter().any(|member| member.topics.contains(topic)) {
                        continue;
                    }
                    for partition in 0..*count {
                        while !members[turn % members.len()].topics.contains(topic) {
                            turn += 1;
                        }
                        give(members[turn % members.len()], topic, partition);
                        turn += 1;
                    }
                }
            }
        }
        assigned
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn member(id: &str, topics: &str) -> Subscriber {
        let (member_id, instance_id) = match id.split_once('=') {
            Some((instance, id)) => (id, Some(instance.to_owned())),
            None => (id, None),
        };
        let topics = topics.chars().map(|topic| TopicName::new(&topic.to_string()).unwrap()).collect();
        Subscriber { member_id: member_id.to_owned(), instance_id, topics }
    }

    /// `ann: a0 b0; bob: ..`, in the order of members.
    fn assign(assignor: Assignor, members: &[(&str, &str)], partitions: &[(&str, i32)]) -> String {
        let members: Vec<Subscriber> = members.iter().map(|(id, topics)| member(id, topics)).collect();
        let partitions =
            partitions.iter().map(|(topic, count)| (TopicName::new(topic).unwrap(), *count)).collect();
        let assigned = assignor.assign(&members, &partitions);
        let one = |(member, partitions): (&String, &Vec<TopicPartition>)| {
            let named: Vec<String> =
                partitions.iter().map(|of| format!("{}{}", of.topic.as_str(), of.partition)).collect();
            format!("{member}: {}", named.join(" "))
        };
        assigned.iter().map(one).collect::<Vec<_>>().join("; ")
    }

    /// The examples of Kafka's documentation of its assignors, and the corners.
    #[test]
    fn partitions_are_shared_as_kafkas_own_clients_share_them() {
        use Assignor::{Range, RoundRobin};
        let two = &[("ann", "ab"), ("bob", "ab")][..];
        let three = &[("a", 3), ("b", 3)][..];
        for (assignor, members, partitions, expected) in [
            (Range, two, three, "ann: a0 a1 b0 b1; bob: a2 b2"),
            (RoundRobin, two, three, "ann: a0 a2 b1; bob: a1 b0 b2"),
            (Range, two, &[("a", 1)], "ann: a0; bob: "),
            (
                RoundRobin,
                &[("x", "a"), ("y", "ab"), ("z", "abc")],
                &[("a", 1), ("b", 2), ("c", 3)],
                "x: a0; y: b0; z: b1 c0 c1 c2",
            ),
            (Range, &[("x", "a"), ("y", "ab")], &[("a", 2), ("b", 2)], "x: a0; y: a1 b0 b1"),
            (Range, &[("i2=p", "a"), ("i1=q", "a"), ("c", "a")], &[("a", 3)], "c: a2; p: a1; q: a0"),
            (RoundRobin, &[("ann", "a")], &[("b", 3)], "ann: "),
            (Range, &[("ann", "a")], &[("b", 3)], "ann: "),
        ] {
            assert_eq!(assign(assignor, members, partitions), expected, "{assignor:?} {members:?}");
        }
    }
}
