//! Groups from the log: what a coordinator does when it takes a partition of `__consumer_offsets` over.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use ottla_model::{Offset, ProducerId, TopicName, TopicPartition};
use ottla_protocol::records::{Batch, EndTransactionMarker, RecordError, TransactionResult};

use crate::clock::Now;
use crate::group::{Group, GroupConfig, StoredGroup};
use crate::offsets::Offsets;
use crate::records::{Record, RecordFault};

/// What one batch may decompress to.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 30;

/// Reads a partition from its start to its end, uncommitted records too: the last record of a key counts.
///
/// Commits of a transaction count from its marker on, and stay pending where there is none yet.
#[derive(Debug)]
pub struct Replay {
    config: GroupConfig,
    groups: HashMap<String, Replayed>,
    /// One copy of each name, however many offsets have it.
    topics: HashSet<TopicName>,
    /// Groups in which a producer's transaction is open.
    open: HashMap<ProducerId, BTreeSet<String>>,
    skipped: Skipped,
}

#[derive(Debug, Default)]
struct Replayed {
    stored: Option<StoredGroup>,
    offsets: Offsets,
}

/// Records that were passed over, by reason.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Skipped {
    /// Versions of keys that belong to newer coordinators, and how often each was met.
    pub other_keys: BTreeMap<i16, u64>,
    pub unreadable: u64,
    /// The first of those.
    pub first_fault: Option<(Offset, RecordFault)>,
}

impl Replay {
    pub fn new(config: GroupConfig) -> Replay {
        Replay {
            config,
            groups: HashMap::new(),
            topics: HashSet::new(),
            open: HashMap::new(),
            skipped: Skipped::default(),
        }
    }

    /// Takes in the next batch. One that cannot be read is to be told of; the ones behind it may be fine.
    pub fn batch(&mut self, batch: &Batch<'_>) -> Result<(), RecordError> {
        let header = *batch.header();
        let records = batch.records(DECOMPRESSED_BYTES_MAX)?;
        for record in records.iter()? {
            let record = record?;
            if header.is_control() {
                let marker = record.key.zip(record.value);
                let marker = marker.and_then(|(key, value)| EndTransactionMarker::from_record(key, value));
                if let Some(marker) = marker {
                    self.end_transaction(header.producer_id, marker.result == TransactionResult::Commit);
                }
                continue;
            }
            let producer = header.is_transactional().then_some(header.producer_id);
            match Record::decode(record.key, record.value) {
                Ok(Record::Offset { group, topic, partition, committed }) => {
                    let Some(partition) = self.partition(&topic, partition) else {
                        self.skipped.unreadable += 1;
                        continue;
                    };
                    let offsets = &mut self.group(&group).offsets;
                    match (committed, producer) {
                        (Some(committed), None) => offsets.load(partition, record.offset, committed),
                        (Some(committed), Some(producer)) => {
                            offsets.stage(producer, partition, record.offset, committed);
                            self.open.entry(producer).or_default().insert(group.to_string());
                        }
                        (None, None) => drop(offsets.remove(&partition)),
                        (None, Some(producer)) => offsets.unstage(producer, &partition),
                    }
                }
                Ok(Record::Group { group, stored }) => self.group(&group).stored = stored,
                Ok(Record::Other { key_version }) => {
                    *self.skipped.other_keys.entry(key_version).or_default() += 1;
                }
                Err(fault) => {
                    self.skipped.unreadable += 1;
                    self.skipped.first_fault.get_or_insert((record.offset, fault));
                }
            }
        }
        Ok(())
    }

    fn group(&mut self, group: &str) -> &mut Replayed {
        if !self.groups.contains_key(group) {
            self.groups.insert(group.to_owned(), Replayed::default());
        }
        self.groups.get_mut(group).expect("it was put there if it was not")
    }

    /// `None` if the name is none that a topic can have.
    fn partition(&mut self, topic: &str, partition: i32) -> Option<TopicPartition> {
        let topic = match self.topics.get(topic) {
            Some(known) => known.clone(),
            None => {
                let topic = TopicName::new(topic).ok()?;
                self.topics.insert(topic.clone());
                topic
            }
        };
        Some(TopicPartition::new(topic, partition))
    }

    fn end_transaction(&mut self, producer: ProducerId, committed: bool) {
        for group in self.open.remove(&producer).unwrap_or_default() {
            self.group(&group).offsets.end_transaction(producer, committed);
        }
    }

    /// The groups as the log leaves them. Sessions of their members start anew.
    pub fn finish(self, now: Now) -> (Vec<Group>, Skipped) {
        let config = self.config;
        let alive = |(id, Replayed { stored, offsets }): (String, Replayed)| {
            let mut group = match stored {
                Some(stored) => Group::load(&id, config, stored, now),
                None if offsets.is_empty() => return None,
                None => Group::new(&id, config, now),
            };
            group.offsets = offsets;
            Some(group)
        };
        (self.groups.into_iter().filter_map(alive).collect(), self.skipped)
    }
}
