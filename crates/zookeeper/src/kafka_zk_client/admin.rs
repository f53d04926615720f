//! Wishes to the controller that tools and brokers leave in ZooKeeper, and notices to it.

use ottla_model::{BrokerId, TopicName};

use super::topics::topic_names;
use super::{ControllerFence, FencedError, KafkaZkClient, Versioned};
use crate::paths;
use crate::records::{
    DecodeError, FeatureRecord, IsrChange, LogDirEvent, PartitionRef, PreferredElection, Reassignment,
};
use crate::store::{CreateMode, Op, Watch, ZkError, retry_read};

impl KafkaZkClient {
    /// Asks for a topic's deletion. Answers false if that has been asked already.
    pub async fn mark_topic_for_deletion(&self, topic: &TopicName) -> Result<bool, ZkError> {
        let path = paths::delete_topic(topic);
        loop {
            match retry_read(|| self.store.create(&path, b"", CreateMode::Persistent)).await {
                Ok(_) => return Ok(true),
                Err(ZkError::NodeExists { .. }) => return Ok(false),
                Err(ZkError::NoNode { .. }) => {
                    self.ensure_path(paths::DELETE_TOPICS).await?;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Topics that shall be deleted, and a watch on more.
    pub async fn topic_deletions_and_watch(&self) -> Result<(Vec<TopicName>, Watch), ZkError> {
        let (children, watch) = self.children_and_watch(paths::DELETE_TOPICS).await?;
        Ok((topic_names(&children), watch))
    }

    /// Removes the marks of topics that need not be deleted (any more).
    pub async fn remove_deletion_marks(
        &self,
        fence: ControllerFence,
        topics: &[TopicName],
    ) -> Result<(), FencedError> {
        let deletions = {
            let marks = topics.iter().map(|topic| paths::delete_topic(topic)).collect();
            self.pipelined(marks, |mark| self.delete_fenced(fence, mark))
        };
        deletions.await.into_iter().collect()
    }

    /// The reassignment that a tool has left, and a watch on one.
    ///
    /// What cannot be read counts as empty, as it does for Kafka: it is to be removed.
    pub async fn reassignment_and_watch(&self) -> Result<(Option<Reassignment>, Watch), ZkError> {
        let lenient = |bytes: &[u8]| {
            Ok::<_, DecodeError>(Reassignment::decode(bytes).unwrap_or_else(|error| {
                tracing::error!(%error, "the partition reassignment in ZooKeeper is passed over");
                Reassignment::default()
            }))
        };
        let (found, watch) = self.read_and_watch(paths::REASSIGN_PARTITIONS, lenient).await?;
        Ok((found.map(|found| found.record), watch))
    }

    /// Rewrites the reassignment to what is left of it; with nothing left it is removed.
    pub async fn update_reassignment(
        &self,
        fence: ControllerFence,
        left: &Reassignment,
    ) -> Result<(), FencedError> {
        let path = paths::REASSIGN_PARTITIONS.to_owned();
        if left.0.is_empty() {
            return self.delete_fenced(fence, path).await;
        }
        match self.fenced_again(fence, Op::Set { path, data: left.encode(), version: None }).await {
            Ok(_) | Err(FencedError::Zk(ZkError::NoNode { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// The preferred replica election that a tool has left, and a watch on one.
    pub async fn preferred_election_and_watch(&self) -> Result<(Option<PreferredElection>, Watch), ZkError> {
        let lenient = |bytes: &[u8]| {
            Ok::<_, DecodeError>(PreferredElection::decode(bytes).unwrap_or_else(|error| {
                tracing::error!(%error, "the preferred replica election in ZooKeeper is passed over");
                PreferredElection::default()
            }))
        };
        let (found, watch) = self.read_and_watch(paths::PREFERRED_REPLICA_ELECTION, lenient).await?;
        Ok((found.map(|found| found.record), watch))
    }

    pub async fn remove_preferred_election(&self, fence: ControllerFence) -> Result<(), FencedError> {
        self.delete_fenced(fence, paths::PREFERRED_REPLICA_ELECTION.to_owned()).await
    }

    /// Tells the controller of states that we have rewritten as their leader (below 2.7-IV2).
    pub async fn notify_isr_change(&self, partitions: &[PartitionRef]) -> Result<(), ZkError> {
        let notice = IsrChange(partitions.to_vec()).encode();
        self.create_sequential(&format!("{}/isr_change_", paths::ISR_CHANGES), &notice).await.map(drop)
    }

    /// Tells the controller that we have lost a log directory.
    pub async fn notify_log_dir_failure(&self, broker: BrokerId) -> Result<(), ZkError> {
        let notice = LogDirEvent { broker }.encode();
        self.create_sequential(&format!("{}/log_dir_event_", paths::LOG_DIR_EVENTS), &notice).await.map(drop)
    }

    /// Partitions whose states their leaders have rewritten, the notices' names, and a watch on more.
    pub async fn isr_changes_and_watch(&self) -> Result<(Vec<PartitionRef>, Vec<String>, Watch), ZkError> {
        let (notices, names, watch) = self.notices_and_watch(paths::ISR_CHANGES, IsrChange::decode).await?;
        Ok((notices.into_iter().flat_map(|notice| notice.0).collect(), names, watch))
    }

    /// Brokers that have lost a log directory, the notices' names, and a watch on more.
    pub async fn log_dir_events_and_watch(&self) -> Result<(Vec<BrokerId>, Vec<String>, Watch), ZkError> {
        let (notices, names, watch) =
            self.notices_and_watch(paths::LOG_DIR_EVENTS, LogDirEvent::decode).await?;
        Ok((notices.into_iter().map(|notice| notice.broker).collect(), names, watch))
    }

    /// Removes notices that have been acted on, or all that a new controller finds. `below` is their parent.
    pub async fn remove_notices(
        &self,
        fence: ControllerFence,
        below: &str,
        names: &[String],
    ) -> Result<(), FencedError> {
        let deletions = {
            let notices = names.iter().map(|name| format!("{below}/{name}")).collect();
            self.pipelined(notices, |notice| self.delete_fenced(fence, notice))
        };
        deletions.await.into_iter().collect()
    }

    /// Those that cannot be read are passed over, and named among the names, to be removed with the others.
    async fn notices_and_watch<T: 'static>(
        &self,
        below: &str,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<(Vec<T>, Vec<String>, Watch), ZkError> {
        let (names, watch) = self.children_and_watch(below).await?;
        let znodes = names.iter().map(|name| format!("{below}/{name}")).collect();
        let answers = self.read_all(znodes, decode).await;
        let mut notices = Vec::with_capacity(names.len());
        for answer in answers {
            match answer {
                Ok(found) => notices.extend(found.map(|found| found.record)),
                Err(error @ ZkError::Malformed { .. }) => tracing::warn!(%error, "notice is not understood"),
                Err(error) => return Err(error),
            }
        }
        Ok((notices, names, watch))
    }

    /// The features that the cluster has agreed on, and a watch on their change.
    pub async fn feature_and_watch(&self) -> Result<(Option<Versioned<FeatureRecord>>, Watch), ZkError> {
        self.read_and_watch(paths::FEATURE, FeatureRecord::decode).await
    }

    /// Writes the agreement as the controller: creates it where there is none, else replaces the version that
    /// was read.
    pub async fn write_feature(
        &self,
        fence: ControllerFence,
        record: &FeatureRecord,
        version_2: bool,
        read: Option<i32>,
    ) -> Result<(), FencedError> {
        let (path, data) = (paths::FEATURE.to_owned(), record.encode(version_2));
        let op = match read {
            Some(version) => Op::Set { path, data, version: Some(version) },
            None => Op::Create { path, data, mode: CreateMode::Persistent },
        };
        match self.fenced_again(fence, op).await {
            Ok(_) => Ok(()),
            Err(FencedError::Zk(error @ (ZkError::BadVersion { .. } | ZkError::NodeExists { .. }))) => {
                // If it holds what we meant to write, it was us, and the answer was lost.
                match self.read(paths::FEATURE.to_owned(), FeatureRecord::decode).await? {
                    Some(found) if found.record == *record => Ok(()),
                    _ => Err(FencedError::Zk(error)),
                }
            }
            Err(error) => Err(error),
        }
    }
}
