//! Where the leaders are that an answer names beside its errors (KIP-951).

use std::collections::BTreeSet;

use ottla_model::{BrokerId, LeaderEpoch};

use super::Call;
use crate::metadata_cache::BrokerImage;
use crate::server::Broker;

/// Who leads a partition, as far as this broker knows: by its own orders where it holds a replica, else by the news.
pub fn current_leader(broker: &Broker, topic: &str, partition: i32) -> Option<(BrokerId, LeaderEpoch)> {
    if let Ok(hosted) = broker.replicas.hosted(topic, partition) {
        return hosted.current_leader();
    }
    let topic = broker.metadata.topic(topic)?;
    let image = topic.partitions.get(&partition)?;
    Some((image.leader, image.leader_epoch))
}

/// The brokers among `leaders` that the client can reach through the listener it came in by, each once, with their
/// addresses there.
pub fn leader_endpoints(
    call: &Call,
    leaders: impl Iterator<Item = BrokerId>,
) -> Vec<(BrokerImage, String, i32)> {
    let leaders: BTreeSet<BrokerId> = leaders.filter(|leader| *leader != BrokerId::NONE).collect();
    let reachable = leaders.into_iter().filter_map(|leader| {
        let broker = call.broker.metadata.broker(leader)?;
        let endpoint = broker.endpoint(call.listener())?;
        let (host, port) = (endpoint.host.clone(), endpoint.port);
        Some((broker, host, port))
    });
    reachable.collect()
}
