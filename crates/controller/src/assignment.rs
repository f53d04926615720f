//! Which brokers get the replicas of a new topic.

use ottla_model::BrokerId;

/// Why replicas could not be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssignmentRefusal {
    /// Partitions must be at least 1.
    Partitions(i32),
    /// The replication factor must be at least 1 and at most the number of brokers.
    ReplicationFactor { asked: i32, brokers: usize },
}

/// Places `replication_factor` replicas of each partition on different brokers, evenly.
///
/// ```text
/// brokers 0..5, factor 3:   first replicas go round robin; the others follow at a distance (shift)
///   broker  0    1    2    3    4            that grows each time the round is complete
///           p0   p1   p2   p3   p4   first
///           p5   p6   p7   p8   p9   first
///           p4   p0   p1   p2   p3   second, shift 0
///           p8   p9   p5   p6   p7   second, shift 1
/// ```
///
/// `start` and `shift` are random for a new topic, so that small topics do not all begin on the same broker.
pub fn assign_replicas(
    brokers: &[BrokerId],
    partitions: i32,
    replication_factor: i32,
    start: usize,
    shift: usize,
) -> Result<Vec<Vec<BrokerId>>, AssignmentRefusal> {
    let count = brokers.len();
    if partitions <= 0 {
        return Err(AssignmentRefusal::Partitions(partitions));
    }
    let refusal = AssignmentRefusal::ReplicationFactor { asked: replication_factor, brokers: count };
    let factor = usize::try_from(replication_factor).map_err(|_| refusal)?;
    if factor == 0 || factor > count {
        return Err(refusal);
    }
    let mut shift = shift;
    let place = |partition: usize| {
        if partition > 0 && partition.is_multiple_of(count) {
            shift += 1;
        }
        let first = (partition + start) % count;
        let follower = |j: usize| (first + 1 + (shift + j) % (count - 1)) % count;
        let places = std::iter::once(first).chain((0..factor - 1).map(follower));
        places.map(|place| brokers[place]).collect()
    };
    Ok((0..partitions as usize).map(place).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    #[test]
    fn replicas_spread_as_kafka_spreads_them() {
        let assignment = assign_replicas(&ids(&[0, 1, 2, 3, 4]), 10, 3, 0, 0).unwrap();
        let expected = [
            [0, 1, 2],
            [1, 2, 3],
            [2, 3, 4],
            [3, 4, 0],
            [4, 0, 1],
            [0, 2, 3],
            [1, 3, 4],
            [2, 4, 0],
            [3, 0, 1],
            [4, 1, 2],
        ];
        assert_eq!(assignment, expected.map(|replicas| ids(&replicas)));
    }

    #[test]
    fn one_broker_holds_everything_once() {
        assert_eq!(assign_replicas(&ids(&[7]), 2, 1, 5, 3), Ok(vec![ids(&[7]), ids(&[7])]));
    }

    #[test]
    fn impossible_requests_are_refused() {
        for (why, brokers, partitions, factor) in [
            ("no partition", vec![0], 0, 1),
            ("negative partitions", vec![0], -1, 1),
            ("no replica", vec![0], 1, 0),
            ("negative factor", vec![0], 1, -1),
            ("more replicas than brokers", vec![0], 1, 2),
            ("no broker", vec![], 1, 1),
        ] {
            assert!(assign_replicas(&ids(&brokers), partitions, factor, 0, 0).is_err(), "{why}");
        }
    }
}
