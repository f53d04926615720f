//! Configuration of topics, brokers, users and clients, and the notices that it has changed.

use ottla_model::Timestamp;

use super::{FencedError, KafkaZkClient, Versioned};
use crate::paths;
use crate::records::{ConfigChangeRecord, ConfigEntity, ControllerRecord, EntityConfig};
use crate::store::{MultiError, Op, Watch, ZkError, retry_read};

/// A notice under `/config/changes`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigChange {
    /// Counts up; what was handled need not be handled again.
    pub sequence: i64,
    /// `None` where the notice is not understood; it still counts as handled.
    pub entity: Option<ConfigEntity>,
}

const PREFIX: &str = "config_change_";

/// How long notices stay, in milliseconds, for brokers that were away.
const NOTICE_LIFETIME_MS: i64 = 15 * 60 * 1000;

impl KafkaZkClient {
    pub async fn read_config(&self, entity: &ConfigEntity) -> Result<EntityConfig, ZkError> {
        let found = self.read(entity.znode(), EntityConfig::decode).await?;
        Ok(found.map_or_else(EntityConfig::default, |found| found.record))
    }

    pub async fn read_configs(
        &self,
        entities: &[ConfigEntity],
    ) -> Vec<Result<Option<Versioned<EntityConfig>>, ZkError>> {
        self.read_all(entities.iter().map(ConfigEntity::znode).collect(), EntityConfig::decode).await
    }

    /// Entities of one kind that have a configuration: `topics`, `brokers`, `users`, `clients`, `ips`.
    pub async fn config_entities(&self, kind: &str) -> Result<Vec<ConfigEntity>, ZkError> {
        let names = self.children(&format!("{}/{kind}", paths::CONFIG)).await?;
        Ok(names.iter().map(|name| ConfigEntity::from_path(&format!("{kind}/{name}"))).collect())
    }

    /// Writes an entity's configuration and then tells every broker. Any broker may.
    ///
    /// Refused while there is no controller, or a KRaft one: then the cluster is being migrated, and what is
    /// written to ZooKeeper would be lost. The controller's znode may not have changed between that look and
    /// the write; only an entity's very first configuration is created without this condition, as Kafka does.
    pub async fn write_config(
        &self,
        entity: &ConfigEntity,
        config: &EntityConfig,
    ) -> Result<(), FencedError> {
        let (path, data) = (entity.znode(), config.encode());
        let controller = self.read(paths::CONTROLLER.to_owned(), ControllerRecord::decode).await?;
        let Some(controller) = controller.filter(|found| found.record.kraft_epoch.is_none()) else {
            return Err(FencedError::ControllerMoved);
        };
        let check = Op::Check { path: paths::CONTROLLER.to_owned(), version: controller.stat.version };
        let set = Op::Set { path: path.clone(), data: data.clone(), version: None };
        // Writing the same data twice is the same as once.
        let written = retry_read(|| {
            let reply = self.store.multi(vec![check.clone(), set.clone()]);
            Box::pin(async move {
                match reply.await {
                    Err(error) if error.source.is_outcome_unknown() => Err(error.source),
                    answer => Ok(answer),
                }
            })
        });
        match written.await? {
            Ok(_) => {}
            Err(error) if error.index == Some(0) => return Err(FencedError::ControllerMoved),
            Err(MultiError { source: ZkError::NoNode { .. }, .. }) => {
                self.set_or_create(&path, &data).await?
            }
            Err(error) => return Err(error.source.into()),
        }
        Ok(self.notify_config_change(entity).await?)
    }

    pub async fn notify_config_change(&self, entity: &ConfigEntity) -> Result<(), ZkError> {
        let notice = ConfigChangeRecord(entity.clone()).encode();
        self.create_sequential(&paths::config_change_prefix(), &notice).await.map(drop)
    }

    /// The notices after `last`, oldest first, and a watch on the next one.
    ///
    /// `None` asks for all, as at start and after every reconnect.
    pub async fn config_changes_and_watch(
        &self,
        last: Option<i64>,
    ) -> Result<(Vec<ConfigChange>, Watch), ZkError> {
        let (children, watch) = self.children_and_watch(paths::CONFIG_CHANGES).await?;
        let fresh =
            sequences(&children).into_iter().filter(|(sequence, _)| last.is_none_or(|last| *sequence > last));
        let fresh: Vec<(i64, String)> = fresh.collect();
        let znodes = fresh.iter().map(|(_, name)| znode(name)).collect();
        let answers = self.read_all(znodes, ConfigChangeRecord::decode).await;
        let mut changes = Vec::with_capacity(fresh.len());
        for ((sequence, name), answer) in fresh.into_iter().zip(answers) {
            match answer {
                Ok(Some(found)) => changes.push(ConfigChange { sequence, entity: Some(found.record.0) }),
                // Somebody has tidied up meanwhile.
                Ok(None) => {}
                Err(error @ ZkError::Malformed { .. }) => {
                    tracing::warn!(notice = name, %error, "notice of a config change is not understood");
                    changes.push(ConfigChange { sequence, entity: None });
                }
                Err(error) => return Err(error),
            }
        }
        Ok((changes, watch))
    }

    /// Removes notices that are older than a quarter of an hour.
    pub async fn purge_config_changes(&self, now: Timestamp) -> Result<(), ZkError> {
        let children = self.children(paths::CONFIG_CHANGES).await?;
        let znodes: Vec<String> = sequences(&children).iter().map(|(_, name)| znode(name)).collect();
        let stats = self
            .pipelined(znodes.clone(), |path| {
                let store = self.store.clone();
                retry_read(move || store.exists(&path))
            })
            .await;
        let mut outlived = Vec::new();
        for (path, stat) in znodes.into_iter().zip(stats) {
            if stat?.is_some_and(|stat| now.0 - stat.ctime > NOTICE_LIFETIME_MS) {
                outlived.push(path);
            }
        }
        let deletions = self.pipelined(outlived, |path| {
            let store = self.store.clone();
            retry_read(move || store.delete(&path, None))
        });
        for deleted in deletions.await {
            match deleted {
                // Every broker tidies up.
                Ok(()) | Err(ZkError::NoNode { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn znode(name: &str) -> String {
    format!("{}/{name}", paths::CONFIG_CHANGES)
}

fn sequences(children: &[String]) -> Vec<(i64, String)> {
    let mut sequences: Vec<(i64, String)> =
        children.iter().filter_map(|name| Some((paths::sequence(name, PREFIX)?, name.clone()))).collect();
    sequences.sort();
    sequences
}
