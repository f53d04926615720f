//! The states of partitions: who leads, who is in sync.

use std::collections::BTreeMap;

use futures_util::future::join_all;
use futures_util::{StreamExt, stream};
use ottla_model::{PartitionEpoch, TopicName, TopicPartition};

use super::{ControllerFence, FencedError, KafkaZkClient, Versioned};
use crate::paths;
use crate::records::PartitionState;
use crate::store::{CreateMode, Op, OpResult, ZkError, retry_read};

/// One state to be written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StateWrite {
    pub partition: TopicPartition,
    pub state: PartitionState,
    /// `None`: there must be none yet.
    pub expected: Option<PartitionEpoch>,
}

/// Why a state was not written.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum StateWriteError {
    /// Another controller has been elected: resign.
    #[error("another controller has been elected")]
    ControllerMoved,
    /// Somebody else has written: this is what stands there.
    #[error("the state of the partition is another by now, at epoch {}", .0.stat.version)]
    Changed(Box<Versioned<PartitionState>>),
    /// The partition, or its topic, is gone.
    #[error("the partition is gone")]
    Gone,
    #[error(transparent)]
    Zk(#[from] ZkError),
}

impl From<FencedError> for StateWriteError {
    fn from(error: FencedError) -> StateWriteError {
        match error {
            FencedError::ControllerMoved => StateWriteError::ControllerMoved,
            FencedError::Zk(error) => StateWriteError::Zk(error),
        }
    }
}

type Written = (TopicPartition, Result<PartitionEpoch, StateWriteError>);

/// New partitions of one topic that are created in one transaction.
///
/// Each takes two operations, 800 bytes with the longest name; a request may not exceed the server's
/// jute.maxbuffer, 1 MiB.
const NEW_PARTITIONS_PER_MULTI: usize = 500;

impl KafkaZkClient {
    /// Writes states as the controller; answers each with its new epoch.
    ///
    /// New partitions of a topic go in one transaction with the znodes above them, up to 500 at a time, so
    /// that a topic costs one round trip; where that does not work, one by one. Changes are one fenced write
    /// each, pipelined. A write whose answer was lost is told from somebody else's by what stands in the
    /// znode.
    pub async fn write_states(&self, fence: ControllerFence, writes: Vec<StateWrite>) -> Vec<Written> {
        let mut new: BTreeMap<TopicName, Vec<StateWrite>> = BTreeMap::new();
        let mut changes = Vec::new();
        for write in writes {
            match write.expected {
                None => new.entry(write.partition.topic.clone()).or_default().push(write),
                Some(expected) => changes.push((write, expected)),
            }
        }
        let batches = new.into_values().flat_map(|writes| {
            let batches: Vec<Vec<StateWrite>> =
                writes.chunks(NEW_PARTITIONS_PER_MULTI).map(<[StateWrite]>::to_vec).collect();
            batches.into_iter().enumerate().map(|(index, batch)| (batch, index == 0))
        });
        let mut written: Vec<Written> = stream::iter(batches)
            .map(|(batch, first)| self.create_states(fence, batch, first))
            .buffered(self.in_flight_max)
            .collect::<Vec<_>>()
            .await
            .into_iter()
            .flatten()
            .collect();
        written.extend(
            self.pipelined(changes, |(write, expected)| async move {
                let changed = self.change_state(fence, &write, expected).await;
                (write.partition, changed)
            })
            .await,
        );
        written
    }

    /// The states of these partitions, and the errors of those that cannot be read.
    pub async fn read_states(
        &self,
        partitions: &[TopicPartition],
    ) -> Vec<Result<Option<Versioned<PartitionState>>, ZkError>> {
        self.read_all(partitions.iter().map(paths::partition_state).collect(), PartitionState::decode).await
    }

    /// Changes a state as a partition's leader, where `inter.broker.protocol.version` is below 2.7-IV2:
    /// without a fence.
    pub async fn change_state_as_leader(
        &self,
        partition: &TopicPartition,
        state: &PartitionState,
        expected: PartitionEpoch,
    ) -> Result<PartitionEpoch, StateWriteError> {
        let (path, data) = (paths::partition_state(partition), state.encode());
        // Done twice, the second finds another version, and then compares: so it may be repeated.
        match retry_read(|| self.store.set(&path, &data, Some(expected.0))).await {
            Ok(stat) => Ok(PartitionEpoch(stat.version)),
            Err(ZkError::NoNode { .. }) => Err(StateWriteError::Gone),
            Err(ZkError::BadVersion { .. }) => self.compare(partition, state).await,
            Err(error) => Err(error.into()),
        }
    }

    /// `first`: the znode above the partitions is not known to be there.
    async fn create_states(
        &self,
        fence: ControllerFence,
        batch: Vec<StateWrite>,
        first: bool,
    ) -> Vec<Written> {
        let Some(topic) = batch.first().map(|write| write.partition.topic.clone()) else { return vec![] };
        let to_all = |batch: Vec<StateWrite>, answer: &Result<PartitionEpoch, StateWriteError>| {
            batch.into_iter().map(|write| (write.partition, answer.clone())).collect()
        };
        let mut with_parent = first;
        loop {
            let mut ops = vec![fence.check()];
            if with_parent {
                ops.push(directory(paths::partitions(&topic)));
            }
            ops.extend(batch.iter().flat_map(|write| {
                [
                    directory(paths::partition(&write.partition)),
                    Op::Create {
                        path: paths::partition_state(&write.partition),
                        data: write.state.encode(),
                        mode: CreateMode::Persistent,
                    },
                ]
            }));
            let error = match self.store.multi(ops).await {
                Ok(_) => return to_all(batch, &Ok(PartitionEpoch(0))),
                Err(error) => error,
            };
            match (error.index, error.source) {
                (Some(0), _) => return to_all(batch, &Err(StateWriteError::ControllerMoved)),
                // Partitions are added to a topic that has some.
                (Some(1), ZkError::NodeExists { .. }) if with_parent => with_parent = false,
                (Some(1), ZkError::NoNode { .. }) if with_parent => {
                    return to_all(batch, &Err(StateWriteError::Gone));
                }
                (_, error) if error.is_session_over() => return to_all(batch, &Err(error.into())),
                // One of them is there already, or the answer was lost: only each by itself can tell.
                _ => break,
            }
        }
        self.pipelined(batch, |write| async move {
            let created = self.create_state(fence, &write).await;
            (write.partition, created)
        })
        .await
    }

    async fn create_state(
        &self,
        fence: ControllerFence,
        write: &StateWrite,
    ) -> Result<PartitionEpoch, StateWriteError> {
        let above = [paths::partitions(&write.partition.topic), paths::partition(&write.partition)];
        let creations = above.into_iter().map(|path| self.fenced_again(fence, directory(path)));
        for created in join_all(creations).await {
            match created {
                Ok(_) | Err(FencedError::Zk(ZkError::NodeExists { .. })) => {}
                Err(FencedError::Zk(ZkError::NoNode { .. })) => return Err(StateWriteError::Gone),
                Err(error) => return Err(error.into()),
            }
        }
        let create = Op::Create {
            path: paths::partition_state(&write.partition),
            data: write.state.encode(),
            mode: CreateMode::Persistent,
        };
        match self.fenced_again(fence, create).await {
            Ok(_) => Ok(PartitionEpoch(0)),
            Err(FencedError::Zk(ZkError::NodeExists { .. })) => {
                self.compare(&write.partition, &write.state).await
            }
            Err(FencedError::Zk(ZkError::NoNode { .. })) => Err(StateWriteError::Gone),
            Err(error) => Err(error.into()),
        }
    }

    async fn change_state(
        &self,
        fence: ControllerFence,
        write: &StateWrite,
        expected: PartitionEpoch,
    ) -> Result<PartitionEpoch, StateWriteError> {
        let set = Op::Set {
            path: paths::partition_state(&write.partition),
            data: write.state.encode(),
            version: Some(expected.0),
        };
        // Done twice, the second finds another version, and then compares: so it may be repeated.
        match self.fenced_again(fence, set).await {
            Ok(OpResult::Set(stat)) => Ok(PartitionEpoch(stat.version)),
            Ok(other) => Err(StateWriteError::Zk(ZkError::Refused {
                path: paths::partition_state(&write.partition),
                detail: format!("unexpected answer {other:?}"),
            })),
            Err(FencedError::Zk(ZkError::BadVersion { .. })) => {
                self.compare(&write.partition, &write.state).await
            }
            Err(FencedError::Zk(ZkError::NoNode { .. })) => Err(StateWriteError::Gone),
            Err(error) => Err(error.into()),
        }
    }

    /// Whether what stands in the znode is what we meant to write: then it was us, and only the answer was
    /// lost.
    async fn compare(
        &self,
        partition: &TopicPartition,
        ours: &PartitionState,
    ) -> Result<PartitionEpoch, StateWriteError> {
        match self.read(paths::partition_state(partition), PartitionState::decode).await? {
            None => Err(StateWriteError::Gone),
            Some(found) if found.record == *ours => Ok(found.partition_epoch()),
            Some(found) => Err(StateWriteError::Changed(Box::new(found))),
        }
    }
}

fn directory(path: String) -> Op {
    Op::Create { path, data: vec![], mode: CreateMode::Persistent }
}
