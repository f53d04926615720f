//! What brokers ask of the controller, on their way from the requests that carry it to the one task that decides.

use std::collections::BTreeMap;

use ottla_controller::{IsrAnswer, PreferredLeader};
use ottla_model::{BrokerEpoch, BrokerId, LeaderEpoch, PartitionEpoch, TopicName, TopicPartition};
use ottla_protocol::ErrorCode;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

/// Requests that may wait for the controller; whoever comes later waits for room.
const QUEUE_MAX: usize = 1024;

/// A leader's wish for another set of in-sync replicas.
#[derive(Debug, Clone)]
pub struct IsrWish {
    pub partition: TopicPartition,
    pub leader_epoch: LeaderEpoch,
    pub partition_epoch: PartitionEpoch,
    pub isr: Vec<BrokerId>,
}

/// Who asks: a broker, and which life of it; -1 where it does not say.
pub type Asking = (BrokerId, BrokerEpoch);

#[derive(Debug)]
pub(super) enum ControllerRequest {
    ChangeIsr {
        asking: Asking,
        wish: IsrWish,
        answer: oneshot::Sender<Result<IsrAnswer, ErrorCode>>,
    },
    ElectPreferred {
        partitions: Vec<TopicPartition>,
        answer: oneshot::Sender<Result<Vec<PreferredLeader>, ErrorCode>>,
    },
    AddPartitions {
        topic: TopicName,
        partitions: BTreeMap<i32, Vec<BrokerId>>,
        answer: oneshot::Sender<Result<(), ErrorCode>>,
    },
    AnnounceShutdown {
        asking: Asking,
        answer: oneshot::Sender<Result<Vec<TopicPartition>, ErrorCode>>,
    },
}

/// The way to the controller, if it is on this broker.
#[derive(Debug, Default)]
pub struct ControllerHandle {
    sender: Mutex<Option<mpsc::Sender<ControllerRequest>>>,
}

impl ControllerHandle {
    /// Opens the way for a term; it is closed when the receiver is dropped.
    pub(super) fn open(&self) -> mpsc::Receiver<ControllerRequest> {
        let (sender, receiver) = mpsc::channel(QUEUE_MAX);
        *self.sender.lock() = Some(sender);
        receiver
    }

    /// NOT_CONTROLLER where this broker is none, or ceases to be while the question waits.
    async fn ask<T>(
        &self,
        request: impl FnOnce(oneshot::Sender<Result<T, ErrorCode>>) -> ControllerRequest,
    ) -> Result<T, ErrorCode> {
        let sender = self.sender.lock().clone().ok_or(ErrorCode::NotController)?;
        let (answer, answered) = oneshot::channel();
        sender.send(request(answer)).await.map_err(|_| ErrorCode::NotController)?;
        answered.await.map_err(|_| ErrorCode::NotController)?
    }

    pub async fn propose_isr(&self, asking: Asking, wish: IsrWish) -> Result<IsrAnswer, ErrorCode> {
        self.ask(|answer| ControllerRequest::ChangeIsr { asking, wish, answer }).await
    }

    /// Has partitions led by their preferred replicas. Answers how it stood with each before: those that could lead do now.
    pub async fn elect_preferred(
        &self,
        partitions: Vec<TopicPartition>,
    ) -> Result<Vec<PreferredLeader>, ErrorCode> {
        self.ask(|answer| ControllerRequest::ElectPreferred { partitions, answer }).await
    }

    /// Writes new partitions into a topic's znode. They have no leaders yet when this returns.
    pub async fn add_partitions(
        &self,
        topic: TopicName,
        partitions: BTreeMap<i32, Vec<BrokerId>>,
    ) -> Result<(), ErrorCode> {
        self.ask(|answer| ControllerRequest::AddPartitions { topic, partitions, answer }).await
    }

    /// Answers what the broker still leads and others could lead.
    pub async fn announce_shutdown(&self, asking: Asking) -> Result<Vec<TopicPartition>, ErrorCode> {
        self.ask(|answer| ControllerRequest::AnnounceShutdown { asking, answer }).await
    }
}
