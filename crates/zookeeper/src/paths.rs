//! Where Kafka's znodes are, below the chroot.

use ottla_model::{BrokerId, TopicPartition};

pub const BROKER_IDS: &str = "/brokers/ids";
pub const BROKER_SEQUENCE: &str = "/brokers/seqid";
pub const TOPICS: &str = "/brokers/topics";
pub const CONTROLLER: &str = "/controller";
pub const CONTROLLER_EPOCH: &str = "/controller_epoch";
pub const CLUSTER_ID: &str = "/cluster/id";
pub const DELETE_TOPICS: &str = "/admin/delete_topics";
pub const REASSIGN_PARTITIONS: &str = "/admin/reassign_partitions";
pub const PREFERRED_REPLICA_ELECTION: &str = "/admin/preferred_replica_election";
pub const CONFIG: &str = "/config";
pub const CONFIG_CHANGES: &str = "/config/changes";
pub const ISR_CHANGES: &str = "/isr_change_notification";
pub const LOG_DIR_EVENTS: &str = "/log_dir_event_notification";
pub const PRODUCER_ID_BLOCK: &str = "/latest_producer_id_block";
pub const FEATURE: &str = "/feature";
pub const CONSUMERS: &str = "/consumers";

pub fn broker(id: BrokerId) -> String {
    format!("{BROKER_IDS}/{id}")
}

pub fn topic(topic: &str) -> String {
    format!("{TOPICS}/{topic}")
}

pub fn partitions(topic: &str) -> String {
    format!("{TOPICS}/{topic}/partitions")
}

pub fn partition(partition: &TopicPartition) -> String {
    format!("{TOPICS}/{}/partitions/{}", partition.topic, partition.partition)
}

pub fn partition_state(tp: &TopicPartition) -> String {
    format!("{}/state", partition(tp))
}

pub fn delete_topic(topic: &str) -> String {
    format!("{DELETE_TOPICS}/{topic}")
}

pub fn config_change_prefix() -> String {
    format!("{CONFIG_CHANGES}/config_change_")
}

pub fn consumer_ids(group: &str) -> String {
    format!("{CONSUMERS}/{group}/ids")
}

pub fn consumer_owner(group: &str, topic: &str, partition: i32) -> String {
    format!("{CONSUMERS}/{group}/owners/{topic}/{partition}")
}

pub fn consumer_offset(group: &str, topic: &str, partition: i32) -> String {
    format!("{CONSUMERS}/{group}/offsets/{topic}/{partition}")
}

/// The number ZooKeeper gave a sequential znode, from its name.
pub fn sequence(name: &str, prefix: &str) -> Option<i64> {
    let number = name.strip_prefix(prefix)?;
    number.parse().ok()
}
