//! Changes of in-sync sets on their way to the controller and back (AlterPartition, KIP-497).

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use ottla_client::{Address, Connection, ConnectionError, ConnectionOptions};
use ottla_model::{BrokerId, PartitionEpoch, TopicPartition};
use ottla_protocol::messages::alter_partition::{
    AlterPartitionRequest, AlterPartitionRequestPartition, AlterPartitionRequestTopic,
    AlterPartitionResponse, AlterPartitionResponsePartition, BrokerState,
};
use ottla_protocol::{ErrorCode, Str};
use ottla_replica::IsrProposal;
use tokio::sync::{mpsc, watch};
use tokio::time::{MissedTickBehavior, interval};

use crate::apis::alter_partition;
use crate::hosted_partition::HostedPartition;
use crate::server::{Broker, stopping};

/// Pause before a change is sent again, as Kafka's leaders make it.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

/// Newer versions add nothing that a ZooKeeper cluster uses.
const VERSION_MAX: i16 = 3;

/// A change to be confirmed. There is at most one for each partition, which bounds the queue.
pub type Change = (Arc<HostedPartition>, IsrProposal);

/// Sends changes to the controller until the broker stops, one request at a time with all changes that have come together,
/// and looks for laggards.
pub async fn run(
    broker: Arc<Broker>,
    mut changes: mpsc::UnboundedReceiver<Change>,
    mut stopped: watch::Receiver<bool>,
) {
    let lag = broker.config.replication.lag_time_max;
    let mut laggards = interval((lag / 2).max(Duration::from_millis(1)));
    laggards.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut courier = Courier { broker: broker.clone(), connection: None };
    let mut pending: HashMap<TopicPartition, Change> = HashMap::new();
    loop {
        tokio::select! {
            () = stopping(&mut stopped) => return,
            Some(change) = changes.recv() => drop(pending.insert(change.0.name().clone(), change)),
            _ = laggards.tick() => {
                for hosted in broker.replicas.all() {
                    if let Some(proposal) = hosted.shrink_isr(broker.now()) {
                        tracing::info!(partition = %hosted.name(), isr = ?proposal.isr, "in-sync replicas to shrink");
                        pending.insert(hosted.name().clone(), (hosted, proposal));
                    }
                }
            }
        }
        while let Ok(change) = changes.try_recv() {
            pending.insert(change.0.name().clone(), change);
        }
        while !pending.is_empty() {
            let delivered = tokio::select! {
                () = stopping(&mut stopped) => return,
                delivered = courier.deliver(&mut pending) => delivered,
            };
            if let Err(error) = delivered {
                tracing::debug!(%error, "in-sync sets not changed yet");
                tokio::time::sleep(RETRY_PAUSE).await;
            }
        }
    }
}

/// Why no change was decided on.
#[derive(Debug, thiserror::Error)]
enum NotDelivered {
    #[error("no controller is known")]
    NoController,
    #[error(transparent)]
    Connection(#[from] ConnectionError),
    #[error("the controller answers {}", .0.name())]
    Refused(ErrorCode),
}

struct Courier {
    broker: Arc<Broker>,
    connection: Option<(Address, Connection)>,
}

impl Courier {
    /// Has all pending changes decided; what must be tried again stays pending.
    async fn deliver(&mut self, pending: &mut HashMap<TopicPartition, Change>) -> Result<(), NotDelivered> {
        let controller = self.broker.metadata.controller().ok_or(NotDelivered::NoController)?;
        let by_id = pending.values().all(|(hosted, _)| !hosted.topic_id().is_zero());
        let (version, response) = if controller == self.broker.id {
            let version = if by_id { VERSION_MAX } else { 1 };
            let request = self.request(version, pending);
            (version, alter_partition::apply(&self.broker, version, &request).await)
        } else {
            let connection = self.connect(controller).await?;
            let cap = if by_id { VERSION_MAX } else { 1 };
            let version = connection.version_of::<AlterPartitionRequest>(cap)?;
            let request = self.request(version, pending);
            let sent = async { connection.submit(&request, version).await?.wait().await };
            (version, sent.await.inspect_err(|_| self.connection = None)?)
        };
        match ErrorCode::from_i16(response.error_code) {
            Some(ErrorCode::None) => {}
            code => return Err(NotDelivered::Refused(code.unwrap_or(ErrorCode::UnknownServerError))),
        }
        self.settle(version, &response, pending);
        Ok(())
    }

    async fn connect(&mut self, controller: BrokerId) -> Result<Connection, NotDelivered> {
        let address = self.broker.inter_broker_address(controller).ok_or(NotDelivered::NoController)?;
        if let Some((to, connection)) = &self.connection
            && *to == address
            && !connection.is_closed()
        {
            return Ok(connection.clone());
        }
        let options = ConnectionOptions {
            client_id: self.broker.id.to_string(),
            request_timeout: self.broker.config.controller.socket_timeout,
            ..Default::default()
        };
        let connection = Connection::open(&address, &options).await?;
        self.connection = Some((address, connection.clone()));
        Ok(connection)
    }

    fn request(&self, version: i16, pending: &HashMap<TopicPartition, Change>) -> AlterPartitionRequest {
        let topics = pending.values().map(|(hosted, proposal)| {
            let mut partition = AlterPartitionRequestPartition {
                partition_index: hosted.name().partition,
                leader_epoch: proposal.leader_epoch.0,
                partition_epoch: proposal.partition_epoch.0,
                ..Default::default()
            };
            if version >= 3 {
                let member = |id: &BrokerId| BrokerState { broker_id: id.0, ..Default::default() };
                partition.new_isr_with_epochs = proposal.isr.iter().map(member).collect();
            } else {
                partition.new_isr = proposal.isr.iter().map(|member| member.0).collect();
            }
            AlterPartitionRequestTopic {
                topic_name: Str::from(hosted.name().topic.as_str()),
                topic_id: hosted.topic_id(),
                partitions: vec![partition],
                ..Default::default()
            }
        });
        AlterPartitionRequest {
            broker_id: self.broker.id.0,
            broker_epoch: self.broker.epoch().0,
            topics: topics.collect(),
            ..Default::default()
        }
    }

    fn settle(
        &self,
        version: i16,
        response: &AlterPartitionResponse,
        pending: &mut HashMap<TopicPartition, Change>,
    ) {
        for topic in &response.topics {
            for answer in &topic.partitions {
                let named = |hosted: &HostedPartition| {
                    let same_topic = if version >= 2 {
                        hosted.topic_id() == topic.topic_id
                    } else {
                        hosted.name().topic.as_str() == &*topic.topic_name
                    };
                    same_topic && hosted.name().partition == answer.partition_index
                };
                let found = pending.values().find(|(hosted, _)| named(hosted));
                let Some((hosted, _)) = found.cloned() else { continue };
                if self.settle_partition(&hosted, answer) {
                    pending.remove(hosted.name());
                }
            }
        }
    }

    /// `false` if the same change must be sent again.
    fn settle_partition(&self, hosted: &HostedPartition, answer: &AlterPartitionResponsePartition) -> bool {
        match ErrorCode::from_i16(answer.error_code) {
            Some(ErrorCode::None) => {
                let isr: Vec<BrokerId> = answer.isr.iter().copied().map(BrokerId).collect();
                tracing::info!(partition = %hosted.name(), ?isr, "in-sync replicas changed");
                hosted.isr_committed(isr, PartitionEpoch(answer.partition_epoch), self.broker.now());
                true
            }
            // The state has moved on: an order that says so is on its way, and until then both outcomes stay possible.
            Some(
                ErrorCode::FencedLeaderEpoch
                | ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::InvalidRequest
                | ErrorCode::InvalidUpdateVersion,
            ) => true,
            Some(ErrorCode::OperationNotAttempted | ErrorCode::IneligibleReplica) => {
                hosted.isr_refused();
                true
            }
            _ => false,
        }
    }
}
