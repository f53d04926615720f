//! The group's coordinator: finding it, and what it is asked.

use std::collections::BTreeMap;
use std::time::Duration;

use ottla_model::{BrokerId, LeaderEpoch, Offset, TopicName, TopicPartition};
use ottla_protocol::messages::leave_group::MemberIdentity;
use ottla_protocol::messages::offset_commit::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use ottla_protocol::messages::offset_fetch::OffsetFetchRequestTopic;
use ottla_protocol::messages::{
    FindCoordinatorRequest, HeartbeatRequest, LeaveGroupRequest, OffsetCommitRequest, OffsetFetchRequest,
};
use ottla_protocol::{ErrorCode, Request, Str};
use tokio::time::{Instant, sleep};

use crate::client::Client;
use crate::connection::Connection;
use crate::error::{ClientError, error_code};

/// Later versions ask for many groups at once.
const FIND_COORDINATOR_VERSION_MAX: i16 = 3;
const OFFSET_FETCH_VERSION_MAX: i16 = 7;
/// Later versions name topics by their ids.
const OFFSET_COMMIT_VERSION_MAX: i16 = 8;

/// A group as its coordinator is asked about it, on a connection of its own: a join may keep it busy for minutes.
#[derive(Debug)]
pub struct Coordinator {
    client: Client,
    group_id: Str,
    connection: Option<Connection>,
}

/// How a member is known to the coordinator.
#[derive(Debug, Clone, Default)]
pub struct Identity {
    /// Empty until it has one.
    pub member_id: Str,
    pub instance_id: Option<Str>,
    /// -1 outside of the group.
    pub generation: i32,
}

impl Coordinator {
    pub fn new(client: Client, group_id: &str) -> Coordinator {
        Coordinator { client, group_id: Str::from(group_id), connection: None }
    }

    pub fn group_id(&self) -> &Str {
        &self.group_id
    }

    pub fn client(&self) -> &Client {
        &self.client
    }

    /// It is somewhere else, or cannot be reached: the next question looks for it.
    pub fn lost(&mut self) {
        self.connection = None;
    }

    /// The connection to the coordinator. Looks for it for at most `within`.
    pub async fn connection(&mut self, within: Duration) -> Result<Connection, ClientError> {
        if let Some(connection) = self.connection.as_ref().filter(|connection| !connection.is_closed()) {
            return Ok(connection.clone());
        }
        let deadline = Instant::now() + within;
        let mut backoff = self.client.backoff();
        loop {
            match self.find().await {
                Ok(connection) => {
                    self.connection = Some(connection.clone());
                    return Ok(connection);
                }
                Err(error) if !error.is_retriable() || Instant::now() >= deadline => return Err(error),
                Err(error) => tracing::debug!(%error, group = &*self.group_id, "looking for the coordinator"),
            }
            sleep(backoff.failed()).await;
            let seen = self.client.metadata().generation;
            if let Err(error) = self.client.refresh(seen).await {
                tracing::debug!(%error, "no news of the cluster");
            }
        }
    }

    async fn find(&self) -> Result<Connection, ClientError> {
        let any = self.client.any_broker().await?;
        let version = any.version_of::<FindCoordinatorRequest>(FIND_COORDINATOR_VERSION_MAX)?;
        let request = FindCoordinatorRequest { key: self.group_id.clone(), ..Default::default() };
        let answer = any.submit(&request, version).await?.wait().await?;
        match error_code(answer.error_code) {
            ErrorCode::None => self.client.open(BrokerId(answer.node_id)).await,
            code => Err(ClientError::refused(self.subject(), code, answer.error_message.as_ref())),
        }
    }

    pub fn subject(&self) -> String {
        format!("group {}", &*self.group_id)
    }

    pub fn refused(&self, code: ErrorCode) -> ClientError {
        ClientError::refused(self.subject(), code, None)
    }

    /// One question; a connection that fails is not used again.
    pub async fn ask<R: Request>(
        &mut self,
        version_max: i16,
        request: impl Fn(i16) -> R,
        within: Duration,
    ) -> Result<R::Response, ClientError> {
        let connection = self.connection(within).await?;
        let answer = async {
            let version = connection.version_of::<R>(version_max)?;
            connection.submit(&request(version), version).await?.within(within).await
        };
        match answer.await {
            Ok(answer) => Ok(answer),
            Err(error) => {
                self.lost();
                Err(error.into())
            }
        }
    }

    pub async fn heartbeat(
        &mut self,
        identity: &Identity,
        within: Duration,
    ) -> Result<ErrorCode, ClientError> {
        let group_id = self.group_id.clone();
        let request = |version| HeartbeatRequest {
            group_id: group_id.clone(),
            generation_id: identity.generation,
            member_id: identity.member_id.clone(),
            group_instance_id: identity.instance_id.clone().filter(|_| version >= 3),
            ..Default::default()
        };
        Ok(error_code(self.ask(i16::MAX, request, within).await?.error_code))
    }

    pub async fn leave(&mut self, identity: &Identity, within: Duration) -> Result<(), ClientError> {
        let group_id = self.group_id.clone();
        let request = |version| {
            let member_id = identity.member_id.clone();
            if version < 3 {
                return LeaveGroupRequest { group_id: group_id.clone(), member_id, ..Default::default() };
            }
            let members = vec![MemberIdentity { member_id, ..Default::default() }];
            LeaveGroupRequest { group_id: group_id.clone(), members, ..Default::default() }
        };
        let answer = self.ask(i16::MAX, request, within).await?;
        match error_code(answer.error_code) {
            ErrorCode::None => Ok(()),
            code => Err(self.refused(code)),
        }
    }

    /// Commits the offsets of what is to be read next.
    pub async fn commit(
        &mut self,
        identity: &Identity,
        offsets: &BTreeMap<TopicPartition, Offset>,
        within: Duration,
    ) -> Result<(), ClientError> {
        let mut topics: Vec<OffsetCommitRequestTopic> = Vec::new();
        for (partition, offset) in offsets {
            let committed = OffsetCommitRequestPartition {
                partition_index: partition.partition,
                committed_offset: offset.0,
                committed_leader_epoch: LeaderEpoch::NONE.0,
                committed_metadata: Some(Str::default()),
                ..Default::default()
            };
            match topics.last_mut().filter(|topic| *topic.name == *partition.topic.as_str()) {
                Some(topic) => topic.partitions.push(committed),
                None => topics.push(OffsetCommitRequestTopic {
                    name: Str::from(partition.topic.as_str()),
                    partitions: vec![committed],
                    ..Default::default()
                }),
            }
        }
        let group_id = self.group_id.clone();
        let request = |version| OffsetCommitRequest {
            group_id: group_id.clone(),
            generation_id_or_member_epoch: identity.generation,
            member_id: identity.member_id.clone(),
            group_instance_id: identity.instance_id.clone().filter(|_| version >= 7),
            topics: topics.clone(),
            ..Default::default()
        };
        let answer = self.ask(OFFSET_COMMIT_VERSION_MAX, request, within).await?;
        for topic in &answer.topics {
            for partition in &topic.partitions {
                let code = error_code(partition.error_code);
                if code == ErrorCode::NotCoordinator || code == ErrorCode::CoordinatorNotAvailable {
                    self.lost();
                }
                if code.is_error() {
                    let subject = format!("{}, {}-{}", self.subject(), topic.name, partition.partition_index);
                    return Err(ClientError::refused(subject, code, None));
                }
            }
        }
        Ok(())
    }

    /// The offsets that are committed; partitions without one are left out. Waits for open transactions to end where the broker
    /// can tell (KIP-447), as an offset that is about to move would be read twice.
    pub async fn committed(
        &mut self,
        partitions: &[TopicPartition],
        within: Duration,
    ) -> Result<BTreeMap<TopicPartition, Offset>, ClientError> {
        let deadline = Instant::now() + within;
        let mut backoff = self.client.backoff();
        loop {
            match self.committed_once(partitions, within).await {
                Err(error) if error.is_retriable() && Instant::now() < deadline => {
                    tracing::debug!(%error, "no committed offsets yet");
                    self.lost();
                }
                outcome => return outcome,
            }
            sleep(backoff.failed()).await;
        }
    }

    async fn committed_once(
        &mut self,
        partitions: &[TopicPartition],
        within: Duration,
    ) -> Result<BTreeMap<TopicPartition, Offset>, ClientError> {
        let mut topics: BTreeMap<&TopicName, Vec<i32>> = BTreeMap::new();
        for partition in partitions {
            topics.entry(&partition.topic).or_default().push(partition.partition);
        }
        let topics: Vec<OffsetFetchRequestTopic> = topics
            .into_iter()
            .map(|(name, partition_indexes)| OffsetFetchRequestTopic {
                name: Str::from(name.as_str()),
                partition_indexes,
                ..Default::default()
            })
            .collect();
        let group_id = self.group_id.clone();
        let request = |version| OffsetFetchRequest {
            group_id: group_id.clone(),
            topics: Some(topics.clone()),
            require_stable: version >= 7,
            ..Default::default()
        };
        let answer = self.ask(OFFSET_FETCH_VERSION_MAX, request, within).await?;
        let whole = error_code(answer.error_code);
        if whole.is_error() {
            return Err(self.refused(whole));
        }
        let mut committed = BTreeMap::new();
        for topic in &answer.topics {
            let Ok(name) = TopicName::new(&topic.name) else { continue };
            for partition in &topic.partitions {
                let code = error_code(partition.error_code);
                if code.is_error() {
                    return Err(ClientError::refused(self.subject(), code, None));
                }
                if partition.committed_offset >= 0 {
                    let key = TopicPartition::new(name.clone(), partition.partition_index);
                    committed.insert(key, Offset(partition.committed_offset));
                }
            }
        }
        Ok(committed)
    }
}
