//! Topics: their creation, their assignment, their end.

use ottla_model::TopicName;

use super::{ControllerFence, FencedError, KafkaZkClient, Versioned};
use crate::paths;
use crate::records::{ConfigEntity, EntityConfig, TopicAssignment};
use crate::store::{CreateMode, Op, OpResult, Watch, ZkError, retry_read};

/// Why a topic was not created.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CreateTopicError {
    #[error("Topic '{0}' already exists.")]
    Exists(String),
    #[error(transparent)]
    Zk(#[from] ZkError),
}

/// Times a topic's creation starts again because the tree changed under it.
const ATTEMPTS: usize = 20;

/// Znodes of a topic that are deleted in one transaction: at most 320 bytes each, in a request of at most 1
/// MiB.
const DELETIONS_PER_MULTI: usize = 1000;

impl KafkaZkClient {
    /// Creates a topic: its configuration, which is always written, and then its assignment.
    ///
    /// Both in one transaction, so that no topic is ever without the configuration it was made with. One
    /// round trip.
    pub async fn create_topic(
        &self,
        topic: &TopicName,
        assignment: &TopicAssignment,
        config: &EntityConfig,
    ) -> Result<(), CreateTopicError> {
        let config_path = ConfigEntity::topic(topic).znode();
        let topic_path = paths::topic(topic);
        let create = |path: &str, data: Vec<u8>| Op::Create {
            path: path.to_owned(),
            data,
            mode: CreateMode::Persistent,
        };
        // A configuration can be left over from a topic of the same name.
        let mut config_exists = false;
        let mut lost = 0;
        for _ in 0..ATTEMPTS {
            let write_config = if config_exists {
                Op::Set { path: config_path.clone(), data: config.encode(), version: None }
            } else {
                create(&config_path, config.encode())
            };
            let ops = vec![write_config, create(&topic_path, assignment.encode())];
            let error = match self.store.multi(ops).await {
                Ok(_) => return Ok(()),
                Err(error) => error,
            };
            match (error.index, error.source) {
                (Some(0), ZkError::NodeExists { .. }) => config_exists = true,
                (Some(0), ZkError::NoNode { .. }) if config_exists => config_exists = false,
                (Some(0), ZkError::NoNode { .. }) => {
                    self.ensure_path("/config/topics").await?;
                }
                (Some(1), ZkError::NoNode { .. }) => {
                    self.ensure_path(paths::TOPICS).await?;
                }
                (Some(1), ZkError::NodeExists { .. }) => {
                    return Err(CreateTopicError::Exists(topic.to_string()));
                }
                // Ours, if it is what we meant to write; topic ids make that certain.
                (_, error) if error.is_outcome_unknown() => match self.read_topic(topic).await? {
                    Some(found) if found.record == *assignment => return Ok(()),
                    Some(_) => return Err(CreateTopicError::Exists(topic.to_string())),
                    None => lost += 1,
                },
                (_, error) => return Err(error.into()),
            }
        }
        Err(CreateTopicError::Zk(match lost {
            0 => ZkError::Refused {
                path: topic_path,
                detail: format!("{ATTEMPTS} tries to create the topic met a changing tree"),
            },
            attempts => ZkError::KeptBreaking { path: topic_path, attempts },
        }))
    }

    /// All topics' names, and a watch on their coming and going. Names that no topic may have are left out.
    pub async fn topics_and_watch(&self) -> Result<(Vec<TopicName>, Watch), ZkError> {
        let (children, watch) = self.children_and_watch(paths::TOPICS).await?;
        Ok((topic_names(&children), watch))
    }

    pub async fn read_topic(&self, topic: &str) -> Result<Option<Versioned<TopicAssignment>>, ZkError> {
        self.read(paths::topic(topic), TopicAssignment::decode).await
    }

    /// A topic, and a watch on its change or end.
    pub async fn topic_and_watch(
        &self,
        topic: &str,
    ) -> Result<(Option<Versioned<TopicAssignment>>, Watch), ZkError> {
        self.read_and_watch(&paths::topic(topic), TopicAssignment::decode).await
    }

    /// The assignments of these topics, and the errors of those that cannot be read.
    pub async fn read_topics(
        &self,
        topics: &[TopicName],
    ) -> Vec<Result<Option<Versioned<TopicAssignment>>, ZkError>> {
        self.read_all(topics.iter().map(|topic| paths::topic(topic)).collect(), TopicAssignment::decode).await
    }

    /// Topics with a watch on each. A topic that is gone has no watch.
    pub async fn read_and_watch_topics(
        &self,
        topics: &[TopicName],
    ) -> Vec<Result<Option<(Versioned<TopicAssignment>, Watch)>, ZkError>> {
        self.pipelined(topics.iter().map(|topic| paths::topic(topic)).collect(), |path| {
            let store = self.store.clone();
            let reading = retry_read({
                let path = path.clone();
                move || store.get_and_watch(&path)
            });
            async move {
                match reading.await {
                    Ok((data, stat, watch)) => {
                        let found = super::decoded(Ok((data, stat)), &path, TopicAssignment::decode)?;
                        Ok(found.map(|found| (found, watch)))
                    }
                    Err(ZkError::NoNode { .. }) => Ok(None),
                    Err(error) => Err(error),
                }
            }
        })
        .await
    }

    /// Rewrites a topic's assignment as the controller, if nobody else has since it was read.
    pub async fn update_topic(
        &self,
        fence: ControllerFence,
        topic: &TopicName,
        assignment: &TopicAssignment,
        expected_version: Option<i32>,
    ) -> Result<i32, FencedError> {
        let path = paths::topic(topic);
        let set = Op::Set { path: path.clone(), data: assignment.encode(), version: expected_version };
        match self.fenced_again(fence, set).await {
            Ok(OpResult::Set(stat)) => Ok(stat.version),
            Ok(other) => Err(FencedError::Zk(ZkError::Refused {
                path,
                detail: format!("unexpected answer {other:?}"),
            })),
            // If it holds what we meant to write, it was us, and the answer was lost.
            Err(FencedError::Zk(error @ ZkError::BadVersion { .. })) => match self.read_topic(topic).await? {
                Some(found) if found.record == *assignment => Ok(found.stat.version),
                _ => Err(FencedError::Zk(error)),
            },
            Err(error) => Err(error),
        }
    }

    /// Removes all that is left of a topic, and at last the mark that asked for it.
    pub async fn delete_topic(&self, fence: ControllerFence, topic: &TopicName) -> Result<(), FencedError> {
        // What a topic usually has needs no looking for; only where something is left over everything is
        // listed.
        let mut znodes = self.usual_znodes(topic).await?;
        loop {
            let batches = znodes.chunks(DELETIONS_PER_MULTI).map(<[String]>::to_vec).collect();
            let deletions = self.pipelined(batches, |batch| self.delete_all(fence, batch)).await;
            let grew = deletions.into_iter().collect::<Result<Vec<bool>, _>>()?;
            if !grew.contains(&true) {
                break;
            }
            znodes = self.descendants(&paths::topic(topic)).await?;
            znodes.push(paths::topic(topic));
        }
        for path in [ConfigEntity::topic(topic).znode(), paths::delete_topic(topic)] {
            self.delete_fenced(fence, path).await?;
        }
        Ok(())
    }

    /// The znodes of a topic and its partitions, children before their parents.
    async fn usual_znodes(&self, topic: &TopicName) -> Result<Vec<String>, ZkError> {
        let above = paths::partitions(topic);
        let partitions = self.children(&above).await?;
        let mut znodes: Vec<String> = partitions
            .iter()
            .flat_map(|partition| [format!("{above}/{partition}/state"), format!("{above}/{partition}")])
            .collect();
        znodes.extend([above, paths::topic(topic)]);
        Ok(znodes)
    }

    /// Deletes znodes in their order, in one transaction if that works. Answers whether one has got new
    /// children.
    async fn delete_all(&self, fence: ControllerFence, paths: Vec<String>) -> Result<bool, FencedError> {
        let ops = std::iter::once(fence.check()).chain(paths.iter().cloned().map(delete)).collect();
        match self.store.multi(ops).await {
            Ok(_) => return Ok(false),
            Err(error) if error.index == Some(0) => return Err(FencedError::ControllerMoved),
            Err(error) if error.source.is_session_over() => return Err(error.source.into()),
            // One is gone already, or the answer was lost: only each by itself can tell.
            Err(_) => {}
        }
        let mut grew = false;
        for deleted in self.pipelined(paths, |path| self.fenced_again(fence, delete(path))).await {
            match deleted {
                Ok(_) | Err(FencedError::Zk(ZkError::NoNode { .. })) => {}
                Err(FencedError::Zk(ZkError::NotEmpty { .. })) => grew = true,
                Err(error) => return Err(error),
            }
        }
        Ok(grew)
    }

    /// Deletes a znode as the controller; one that is gone already is as good.
    pub(super) async fn delete_fenced(
        &self,
        fence: ControllerFence,
        path: String,
    ) -> Result<(), FencedError> {
        match self.fenced_again(fence, delete(path)).await {
            Ok(_) | Err(FencedError::Zk(ZkError::NoNode { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// All znodes below one, children before their parents. A round trip for each level.
    async fn descendants(&self, root: &str) -> Result<Vec<String>, ZkError> {
        let mut levels: Vec<Vec<String>> = vec![vec![root.to_owned()]];
        while let Some(level) = levels.last().filter(|level| !level.is_empty()) {
            let listings = self.pipelined(level.clone(), |path| async move {
                let children = self.children(&path).await?;
                Ok::<_, ZkError>(children.iter().map(|child| format!("{path}/{child}")).collect::<Vec<_>>())
            });
            let below = listings.await.into_iter().collect::<Result<Vec<_>, _>>()?.concat();
            levels.push(below);
        }
        levels.remove(0);
        Ok(levels.into_iter().rev().flatten().collect())
    }
}

fn delete(path: String) -> Op {
    Op::Delete { path, version: None }
}

pub(super) fn topic_names(children: &[String]) -> Vec<TopicName> {
    let mut names: Vec<TopicName> = children.iter().filter_map(|name| TopicName::new(name).ok()).collect();
    names.sort();
    names
}
