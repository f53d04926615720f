//! What `kafka-topics --describe` shows: a header for each topic, and a line for each of its partitions.

use std::collections::BTreeMap;
use std::fmt::Write;

use ottla_client::{ConfigEntry, Partition, Topic};
use ottla_model::BrokerId;

/// Which lines are shown.
#[derive(Debug, Clone, Copy, Default)]
pub struct Filters {
    pub under_replicated: bool,
    pub unavailable: bool,
    pub under_min_isr: bool,
    pub at_min_isr: bool,
    /// Headers only, and only of topics with configurations of their own.
    pub with_overrides: bool,
}

impl Filters {
    /// Whether only partitions with something wrong are shown, and then without headers.
    pub fn partitions_only(self) -> bool {
        self.under_replicated || self.unavailable || self.under_min_isr || self.at_min_isr
    }

    /// Whether the topics' configurations make a difference.
    pub fn need_configs(self) -> bool {
        !self.partitions_only() || self.under_min_isr || self.at_min_isr
    }
}

/// Replicas that come and go in a partition that is being reassigned.
#[derive(Debug, Clone, Default)]
pub struct Reassignment {
    pub replicas: Vec<BrokerId>,
    pub adding: Vec<BrokerId>,
    pub removing: Vec<BrokerId>,
}

/// A topic and all that is shown of it.
#[derive(Debug)]
pub struct TopicDescription {
    pub topic: Topic,
    pub configs: Vec<ConfigEntry>,
    pub reassignments: BTreeMap<i32, Reassignment>,
}

/// Where a value of a configuration comes from if nobody has set it, in [`ConfigEntry::source`].
const BUILT_IN_DEFAULT: i8 = 5;

impl TopicDescription {
    /// Writes the lines that pass the filters.
    pub fn write(&self, filters: Filters, live: &[BrokerId], lines: &mut String) {
        let overridden = self.configs.iter().any(|config| config.source != BUILT_IN_DEFAULT);
        if !filters.partitions_only() && (!filters.with_overrides || overridden) {
            self.write_header(lines);
        }
        if filters.with_overrides {
            return;
        }
        for (number, partition) in (0..).zip(&self.topic.partitions) {
            let row = Row { number, partition, reassignment: self.reassignments.get(&number), of: self };
            if !filters.partitions_only() || row.passes(filters, live) {
                row.write(lines);
            }
        }
    }

    /// `Topic: t\tTopicId: A1b2\tPartitionCount: 2\tReplicationFactor: 1\tConfigs: retention.ms=1000`
    fn write_header(&self, lines: &mut String) {
        let topic = &self.topic;
        let first = topic.partitions.first();
        let factor = first.map_or(0, |first| replication_factor(first, self.reassignments.get(&0)));
        let mut configs: Vec<&ConfigEntry> =
            self.configs.iter().filter(|config| config.source != BUILT_IN_DEFAULT).collect();
        configs.sort_by(|a, b| a.name.cmp(&b.name));
        let configs: Vec<String> = configs
            .iter()
            .map(|config| format!("{}={}", config.name, config.value.as_deref().unwrap_or("null")))
            .collect();
        let id = if topic.id.is_zero() { String::new() } else { format!("\tTopicId: {}", topic.id) };
        // Writing to a string cannot fail.
        let _ = writeln!(
            lines,
            "Topic: {}{id}\tPartitionCount: {}\tReplicationFactor: {factor}\tConfigs: {}",
            topic.name,
            topic.partitions.len(),
            configs.join(","),
        );
    }

    fn min_isr(&self) -> Option<usize> {
        let config = self.configs.iter().find(|config| config.name == "min.insync.replicas")?;
        config.value.as_deref()?.parse().ok()
    }
}

/// Replicas that come in a reassignment do not count before it is done.
fn replication_factor(partition: &Partition, reassignment: Option<&Reassignment>) -> usize {
    match reassignment {
        // It may have ended between the two questions.
        Some(moving)
            if partition
                .replicas
                .iter()
                .any(|id| moving.adding.contains(id) || moving.removing.contains(id)) =>
        {
            moving.replicas.len().saturating_sub(moving.adding.len())
        }
        _ => partition.replicas.len(),
    }
}

/// One partition's line.
struct Row<'a> {
    number: i32,
    partition: &'a Partition,
    reassignment: Option<&'a Reassignment>,
    of: &'a TopicDescription,
}

impl Row<'_> {
    /// Several filters together show what any of them shows.
    fn passes(&self, filters: Filters, live: &[BrokerId]) -> bool {
        let partition = self.partition;
        let in_sync = partition.isr.len();
        let min_isr = self.of.min_isr();
        let under_min_isr = partition.leader.is_none() || min_isr.is_some_and(|min| in_sync < min);
        (filters.under_replicated && in_sync < replication_factor(partition, self.reassignment))
            || (filters.unavailable && partition.leader.is_none_or(|leader| !live.contains(&leader)))
            || (filters.under_min_isr && under_min_isr)
            || (filters.at_min_isr && min_isr == Some(in_sync))
    }

    /// `\tTopic: t\tPartition: 0\tLeader: 1\tReplicas: 1,2\tIsr: 1,2\tElr: N/A\tLastKnownElr: N/A`; eligible leader replicas
    /// (KIP-966) do not exist with ZooKeeper.
    fn write(&self, lines: &mut String) {
        let partition = self.partition;
        let leader = partition.leader.map_or("none".to_owned(), |leader| leader.to_string());
        let moving = self.reassignment.map_or(String::new(), |moving| {
            format!(
                "\tAdding Replicas: {}\tRemoving Replicas: {}",
                ids(&moving.adding),
                ids(&moving.removing)
            )
        });
        let _ = writeln!(
            lines,
            "\tTopic: {}\tPartition: {}\tLeader: {leader}\tReplicas: {}\tIsr: {}{moving}\tElr: N/A\tLastKnownElr: N/A",
            self.of.topic.name,
            self.number,
            ids(&partition.replicas),
            ids(&partition.isr),
        );
    }
}

fn ids(brokers: &[BrokerId]) -> String {
    brokers.iter().map(BrokerId::to_string).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use ottla_model::{LeaderEpoch, TopicName, Uuid};
    use ottla_protocol::ErrorCode;

    use super::*;

    fn brokers(ids: &[i32]) -> Vec<BrokerId> {
        ids.iter().copied().map(BrokerId).collect()
    }

    fn partition(leader: Option<i32>, replicas: &[i32], isr: &[i32]) -> Partition {
        Partition {
            error: ErrorCode::None,
            leader: leader.map(BrokerId),
            leader_epoch: LeaderEpoch(0),
            replicas: brokers(replicas),
            isr: brokers(isr),
            offline: Vec::new(),
        }
    }

    fn config(name: &str, value: &str, source: i8) -> ConfigEntry {
        ConfigEntry {
            name: name.to_owned(),
            value: Some(value.to_owned()),
            read_only: false,
            sensitive: false,
            source,
            synonyms: Vec::new(),
            documentation: None,
        }
    }

    fn topic(partitions: Vec<Partition>, configs: &[(&str, &str, i8)]) -> TopicDescription {
        let configs = configs.iter().map(|(name, value, source)| config(name, value, *source));
        TopicDescription {
            topic: Topic {
                name: TopicName::new("t").unwrap(),
                id: Uuid::default(),
                internal: false,
                error: ErrorCode::None,
                partitions,
                available: Vec::new(),
            },
            configs: configs.collect(),
            reassignments: BTreeMap::new(),
        }
    }

    fn lines(topic: &TopicDescription, filters: Filters) -> String {
        let mut lines = String::new();
        topic.write(filters, &brokers(&[0, 1]), &mut lines);
        lines
    }

    #[test]
    fn a_topic_is_a_header_and_its_partitions() {
        let mut described = topic(
            vec![partition(Some(0), &[0, 1], &[0]), partition(None, &[7], &[7])],
            &[("retention.ms", "1000", 1), ("cleanup.policy", "compact", 4), ("segment.bytes", "1", 5)],
        );
        described.topic.id = "Su935hJKR72-3pm8Q3Dr7Q".parse().unwrap();
        assert_eq!(
            lines(&described, Filters::default()),
            "Topic: t\tTopicId: Su935hJKR72-3pm8Q3Dr7Q\tPartitionCount: 2\tReplicationFactor: 2\
             \tConfigs: cleanup.policy=compact,retention.ms=1000\n\
             \tTopic: t\tPartition: 0\tLeader: 0\tReplicas: 0,1\tIsr: 0\tElr: N/A\tLastKnownElr: N/A\n\
             \tTopic: t\tPartition: 1\tLeader: none\tReplicas: 7\tIsr: 7\tElr: N/A\tLastKnownElr: N/A\n"
        );
    }

    #[test]
    fn a_topic_of_an_old_cluster_has_no_id() {
        let described = topic(vec![partition(Some(0), &[0], &[0])], &[]);
        assert!(
            lines(&described, Filters::default())
                .starts_with("Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: \n")
        );
    }

    #[test]
    fn replicas_on_their_way_are_shown_and_do_not_count() {
        let mut described = topic(vec![partition(Some(0), &[0, 1], &[0])], &[]);
        let moving =
            Reassignment { replicas: brokers(&[0, 1]), adding: brokers(&[1]), removing: brokers(&[0]) };
        described.reassignments.insert(0, moving);
        let shown = lines(&described, Filters::default());
        assert!(shown.starts_with("Topic: t\tPartitionCount: 1\tReplicationFactor: 1\t"), "{shown}");
        assert!(
            shown.contains(
                "\tIsr: 0\tAdding Replicas: 1\tRemoving Replicas: 0\tElr: N/A\tLastKnownElr: N/A\n"
            )
        );
        let under_replicated = Filters { under_replicated: true, ..Default::default() };
        assert_eq!(lines(&described, under_replicated), "", "one of one replica is in sync");
    }

    #[test]
    fn filters_show_partitions_with_something_wrong() {
        let filters = [
            Filters { under_replicated: true, ..Default::default() },
            Filters { unavailable: true, ..Default::default() },
            Filters { under_min_isr: true, ..Default::default() },
            Filters { at_min_isr: true, ..Default::default() },
        ];
        for (why, partition, shown) in [
            ("healthy", partition(Some(0), &[0, 1, 2], &[0, 1, 2]), [false, false, false, false]),
            ("one of three is out", partition(Some(0), &[0, 1, 2], &[0, 1]), [true, false, false, true]),
            ("two of three are out", partition(Some(0), &[0, 1, 2], &[0]), [true, false, true, false]),
            (
                "its leader has died unnoticed",
                partition(Some(7), &[7, 0, 1], &[7, 0, 1]),
                [false, true, false, false],
            ),
            ("nobody leads", partition(None, &[7, 8], &[7, 8]), [false, true, true, true]),
        ] {
            let described = topic(vec![partition], &[("min.insync.replicas", "2", 5)]);
            let found = filters.map(|filters| !lines(&described, filters).is_empty());
            assert_eq!(found, shown, "{why}: under-replicated, unavailable, under and at the minimum ISR");
        }
    }

    #[test]
    fn overrides_are_shown_without_partitions() {
        let filters = Filters { with_overrides: true, ..Default::default() };
        let plain = topic(vec![partition(Some(0), &[0], &[0])], &[("segment.bytes", "1", 5)]);
        assert_eq!(lines(&plain, filters), "");
        let own = topic(vec![partition(Some(0), &[0], &[0])], &[("segment.bytes", "1", 1)]);
        assert_eq!(
            lines(&own, filters),
            "Topic: t\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: segment.bytes=1\n"
        );
    }
}
