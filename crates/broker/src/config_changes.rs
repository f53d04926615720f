//! Configurations of topics and brokers in ZooKeeper: read at start, and again when somebody tells of a change.

use std::sync::Arc;
use std::time::Duration;

use ottla_model::{BrokerId, TopicName};
use ottla_zookeeper::records::ConfigEntity;
use ottla_zookeeper::{KafkaZkClient, WatchEvent, ZkError};
use tokio::sync::watch;

use crate::dynamic_config::{Audience, DynamicConfig};
use crate::server::{Broker, stopping};
use crate::topic_configs::TopicConfigs;

/// How long to wait before asking again when ZooKeeper does not answer.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

/// Reads what has been set for this broker, for all brokers, and for every topic that has set something.
pub async fn load_all(
    zookeeper: &KafkaZkClient,
    broker: BrokerId,
    dynamic: &DynamicConfig,
    topic_configs: &TopicConfigs,
) -> Result<(), ZkError> {
    for (audience, entity) in [
        (Audience::AllBrokers, ConfigEntity::broker(None)),
        (Audience::ThisBroker, ConfigEntity::broker(Some(broker))),
    ] {
        dynamic.set(audience, zookeeper.read_config(&entity).await?.0);
    }
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
        if let Err(error) = ended {
            tracing::warn!(%error, "configuration changes not read, trying again");
        }
        loop {
            tokio::select! {
                () = stopping(&mut stopped) => return,
                () = tokio::time::sleep(RETRY_PAUSE) => {}
            }
            // Notices may have come and gone meanwhile.
            match catch_up(&broker).await {
                Ok(()) => break,
                Err(error) => tracing::warn!(%error, "configurations not read, trying again"),
            }
        }
        last = None;
    }
}

async fn catch_up(broker: &Broker) -> Result<(), ZkError> {
    load_all(&broker.zookeeper, broker.id, &broker.dynamic, &broker.topic_configs).await?;
    broker.replicas.reconfigure_all();
    Ok(())
}

/// Ends when the session does.
async fn follow(broker: &Broker, last: &mut Option<i64>) -> Result<(), ZkError> {
    loop {
        let (changes, watch) = broker.zookeeper.config_changes_and_watch(*last).await?;
        let any = !changes.is_empty();
        for change in changes {
            if let Some(entity) = &change.entity {
                apply(broker, entity).await?;
            }
            *last = Some(change.sequence);
        }
        if any {
            broker.zookeeper.purge_config_changes(broker.now()).await?;
        }
        if watch.await == WatchEvent::SessionOver {
            return Ok(());
        }
    }
}

/// Reads a configuration that has changed and goes by it from now on.
pub async fn apply(broker: &Broker, entity: &ConfigEntity) -> Result<(), ZkError> {
    if let Some(topic) = entity.as_topic().and_then(|name| TopicName::new(name).ok()) {
        broker.load_topic_configs(std::slice::from_ref(&topic)).await?;
        broker.replicas.reconfigure(&topic);
        tracing::info!(%topic, "configuration of topic read");
        return Ok(());
    }
    let audience = if *entity == ConfigEntity::broker(None) {
        Audience::AllBrokers
    } else if *entity == ConfigEntity::broker(Some(broker.id)) {
        Audience::ThisBroker
    } else {
        // Users, clients, addresses, and other brokers.
        return Ok(());
    };
    let values = broker.zookeeper.read_config(entity).await?.0;
    tracing::info!(?audience, keys = ?values.keys(), "dynamic configuration of brokers read");
    broker.dynamic.set(audience, values);
    broker.replicas.reconfigure_all();
    Ok(())
}
