//! Topic configurations in ZooKeeper: read at start, and again when somebody tells of a change.

use std::sync::Arc;
use std::time::Duration;

use ottla_model::TopicName;
use ottla_zookeeper::records::ConfigEntity;
use ottla_zookeeper::{KafkaZkClient, WatchEvent, ZkError};
use tokio::sync::watch;

use crate::server::{Broker, stopping};
use crate::topic_configs::TopicConfigs;

/// How long to wait before asking again when ZooKeeper does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Reads the configurations of all topics that have one.
pub async fn load_all(zookeeper: &KafkaZkClient, topic_configs: &TopicConfigs) -> Result<(), ZkError> {
    let entities = zookeeper.config_entities("topics").await?;
    let configs = zookeeper.read_configs(&entities).await;
    for (entity, config) in entities.iter().zip(configs) {
        let Some(topic) = entity.as_topic().and_then(|name| TopicName::new(name).ok()) else { continue };
        if let Some(config) = config? {
            topic_configs.set(&topic, config.record.0);
        }
    }
    Ok(())
}

/// Applies changes as they are told, until the broker stops.
pub async fn watch(broker: Arc<Broker>, mut stopped: watch::Receiver<bool>) {
    let mut last = None;
    loop {
        let ended = tokio::select! {
            () = stopping(&mut stopped) => return,
            ended = follow(&broker, &mut last) => ended,
        };
        // After a lost session everything is read again; notices may have come and gone meanwhile.
        last = None;
        if let Err(error) = ended {
            tracing::warn!(%error, "configuration changes not read, trying again");
        }
        tokio::select! {
            () = stopping(&mut stopped) => return,
            () = tokio::time::sleep(RETRY_PAUSE) => {}
        }
    }
}

/// Ends when the session does.
async fn follow(broker: &Broker, last: &mut Option<i64>) -> Result<(), ZkError> {
    loop {
        let (changes, watch) = broker.zookeeper.config_changes_and_watch(*last).await?;
        for change in changes {
            if let Some(entity) = &change.entity {
                apply(broker, entity).await?;
            }
            *last = Some(change.sequence);
        }
        if watch.await == WatchEvent::SessionOver {
            return Ok(());
        }
    }
}

async fn apply(broker: &Broker, entity: &ConfigEntity) -> Result<(), ZkError> {
    let Some(topic) = entity.as_topic().and_then(|name| TopicName::new(name).ok()) else { return Ok(()) };
    broker.load_topic_configs(std::slice::from_ref(&topic)).await?;
    broker.replicas.reconfigure(&topic);
    tracing::info!(%topic, "configuration of topic read");
    Ok(())
}
