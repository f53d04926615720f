//! What this broker knows of the cluster: what the controller's UpdateMetadata last said.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use ottla_model::{BrokerId, ControllerEpoch, LeaderEpoch, PartitionEpoch, TopicName, TopicPartition, Uuid};
use parking_lot::RwLock;
use tokio::sync::watch;

/// One address of a broker, as it is told to clients that came in through the listener of the same name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    pub listener: String,
    pub host: String,
    pub port: i32,
    /// PLAINTEXT 0, SSL 1, SASL_PLAINTEXT 2, SASL_SSL 3.
    pub security_protocol: i16,
}

/// A live broker.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BrokerImage {
    pub id: BrokerId,
    pub endpoints: Vec<Endpoint>,
    pub rack: Option<String>,
}

impl BrokerImage {
    pub fn endpoint(&self, listener: &str) -> Option<&Endpoint> {
        self.endpoints.iter().find(|endpoint| endpoint.listener == listener)
    }
}

/// A partition as clients hear of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionImage {
    pub leader: BrokerId,
    pub leader_epoch: LeaderEpoch,
    pub isr: Vec<BrokerId>,
    pub replicas: Vec<BrokerId>,
    pub offline_replicas: Vec<BrokerId>,
    pub partition_epoch: PartitionEpoch,
    pub controller_epoch: ControllerEpoch,
}

/// A topic as clients hear of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicImage {
    pub name: TopicName,
    pub id: Uuid,
    pub partitions: BTreeMap<i32, PartitionImage>,
}

#[derive(Debug, Default)]
struct Image {
    controller: Option<BrokerId>,
    brokers: BTreeMap<BrokerId, BrokerImage>,
    topics: HashMap<TopicName, Arc<TopicImage>>,
    names: HashMap<Uuid, TopicName>,
}

/// The cluster as this broker sees it; reading one topic costs the same however many there are.
#[derive(Debug)]
pub struct MetadataCache {
    image: RwLock<Image>,
    version: watch::Sender<u64>,
}

impl Default for MetadataCache {
    fn default() -> MetadataCache {
        MetadataCache { image: RwLock::default(), version: watch::Sender::new(0) }
    }
}

impl MetadataCache {
    /// Counts the updates; whoever waits for a topic to appear or to go waits on this.
    pub fn changes(&self) -> watch::Receiver<u64> {
        self.version.subscribe()
    }

    pub fn set_controller(&self, controller: Option<BrokerId>) {
        self.image.write().controller = controller;
        self.version.send_modify(|version| *version += 1);
    }

    /// Takes in an UpdateMetadata: the live brokers replace the old ones, the partitions are merged in.
    pub fn update(
        &self,
        brokers: Vec<BrokerImage>,
        partitions: impl IntoIterator<Item = (TopicPartition, Uuid, PartitionImage)>,
        deleted: &[TopicPartition],
    ) {
        let mut image = self.image.write();
        image.brokers = brokers.into_iter().map(|broker| (broker.id, broker)).collect();
        for (name, id, partition) in partitions {
            image.merge(name, id, partition);
        }
        for name in deleted {
            image.remove(name);
        }
        drop(image);
        self.version.send_modify(|version| *version += 1);
    }

    /// The controller, if it is known and alive.
    pub fn controller(&self) -> Option<BrokerId> {
        let image = self.image.read();
        image.controller.filter(|id| image.brokers.contains_key(id))
    }

    pub fn brokers(&self) -> Vec<BrokerImage> {
        self.image.read().brokers.values().cloned().collect()
    }

    /// Nobody has told this broker anything yet: it knows of no broker, not even of itself.
    pub fn is_empty(&self) -> bool {
        self.image.read().brokers.is_empty()
    }

    pub fn is_alive(&self, broker: BrokerId) -> bool {
        self.image.read().brokers.contains_key(&broker)
    }

    pub fn broker(&self, broker: BrokerId) -> Option<BrokerImage> {
        self.image.read().brokers.get(&broker).cloned()
    }

    pub fn topic(&self, name: &str) -> Option<Arc<TopicImage>> {
        self.image.read().topics.get(name).cloned()
    }

    pub fn topic_by_id(&self, id: Uuid) -> Option<Arc<TopicImage>> {
        let image = self.image.read();
        image.names.get(&id).and_then(|name| image.topics.get(name)).cloned()
    }

    /// All topics, in the order of their names.
    pub fn topics(&self) -> Vec<Arc<TopicImage>> {
        let mut topics: Vec<Arc<TopicImage>> = self.image.read().topics.values().cloned().collect();
        topics.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        topics
    }
}

impl Image {
    fn merge(&mut self, name: TopicPartition, id: Uuid, partition: PartitionImage) {
        let TopicPartition { topic, partition: number } = name;
        let image = self
            .topics
            .entry(topic.clone())
            .or_insert_with(|| Arc::new(TopicImage { name: topic.clone(), id, partitions: BTreeMap::new() }));
        if image.id != id {
            // Deleted and made again while we were not looking: nothing of the old one is true any more.
            self.names.remove(&image.id);
            *image = Arc::new(TopicImage { name: topic.clone(), id, partitions: BTreeMap::new() });
        }
        Arc::make_mut(image).partitions.insert(number, partition);
        if !id.is_zero() {
            self.names.insert(id, topic);
        }
    }

    fn remove(&mut self, name: &TopicPartition) {
        let Some(image) = self.topics.get_mut(&name.topic) else { return };
        let topic = Arc::make_mut(image);
        topic.partitions.remove(&name.partition);
        if topic.partitions.is_empty() {
            self.names.remove(&topic.id);
            self.topics.remove(&name.topic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(leader: i32) -> PartitionImage {
        PartitionImage {
            leader: BrokerId(leader),
            leader_epoch: LeaderEpoch(0),
            isr: vec![BrokerId(leader)],
            replicas: vec![BrokerId(leader)],
            offline_replicas: Vec::new(),
            partition_epoch: PartitionEpoch(0),
            controller_epoch: ControllerEpoch(1),
        }
    }

    fn name(topic: &str, partition: i32) -> TopicPartition {
        TopicPartition::new(TopicName::new(topic).unwrap(), partition)
    }

    #[test]
    fn brokers_are_replaced_and_partitions_merged() {
        let cache = MetadataCache::default();
        let broker = |id| BrokerImage { id: BrokerId(id), endpoints: Vec::new(), rack: None };
        let id = Uuid([1; 16]);
        cache.update(vec![broker(1), broker(2)], [(name("t", 0), id, partition(1))], &[]);
        cache.update(vec![broker(2)], [(name("t", 1), id, partition(2))], &[]);
        assert!(!cache.is_alive(BrokerId(1)));
        assert_eq!(cache.topic("t").unwrap().partitions.len(), 2);
        assert_eq!(cache.topic_by_id(id).unwrap().name.as_str(), "t");
    }

    #[test]
    fn a_topic_goes_with_its_last_partition() {
        let cache = MetadataCache::default();
        let id = Uuid([1; 16]);
        cache.update(Vec::new(), [0, 1].map(|p| (name("t", p), id, partition(1))), &[]);
        cache.update(Vec::new(), [], &[name("t", 0)]);
        assert!(cache.topic("t").is_some());
        cache.update(Vec::new(), [], &[name("t", 1), name("unknown", 0)]);
        assert!(cache.topic("t").is_none());
        assert!(cache.topic_by_id(id).is_none());
    }

    #[test]
    fn a_topic_made_again_forgets_the_old_one() {
        let cache = MetadataCache::default();
        let (old, new) = (Uuid([1; 16]), Uuid([2; 16]));
        cache.update(Vec::new(), [0, 1].map(|p| (name("t", p), old, partition(1))), &[]);
        cache.update(Vec::new(), [(name("t", 0), new, partition(1))], &[]);
        assert_eq!(cache.topic("t").unwrap().partitions.len(), 1);
        assert!(cache.topic_by_id(old).is_none());
    }

    #[test]
    fn a_dead_controller_is_not_told_to_clients() {
        let cache = MetadataCache::default();
        cache.set_controller(Some(BrokerId(1)));
        assert_eq!(cache.controller(), None);
        let broker = BrokerImage { id: BrokerId(1), endpoints: Vec::new(), rack: None };
        cache.update(vec![broker], [], &[]);
        assert_eq!(cache.controller(), Some(BrokerId(1)));
    }
}
