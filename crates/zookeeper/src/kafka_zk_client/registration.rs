//! A broker's registration under `/brokers/ids`.

use std::time::Duration;

use ottla_model::{BrokerEpoch, BrokerId};
use tokio::time::Instant;

use super::{KafkaZkClient, Versioned, broker_ids};
use crate::paths;
use crate::records::{BrokerEndpoint, BrokerRegistration, RegistrationVersion};
use crate::store::{CreateMode, Op, OpResult, SessionId, Stat, Watch, ZkError, retry_read};

/// How long to wait for the registration of a former life to go.
///
/// A broker that was killed is there again long before ZooKeeper gives its old session up. Kafka then fails
/// with "NodeExists"; waiting for the session timeout costs a while and spares a crash loop.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Patience(pub Duration);

impl Patience {
    /// Servers look for expired sessions once in a tick, of two or three seconds.
    const EXPIRY_SLACK: Duration = Duration::from_secs(6);

    /// Enough for a session with this timeout to be over.
    pub fn for_session(timeout: Duration) -> Patience {
        Patience(timeout + Patience::EXPIRY_SLACK)
    }
}

/// Why a broker is not registered.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    #[error(
        "a broker is already registered on the path {path} (KeeperErrorCode = NodeExists), at {endpoints}, \
         by the live session {owner}; \
         stop that broker, or give this one another broker.id"
    )]
    IdTaken { path: String, endpoints: String, owner: SessionId },
    #[error(
        "Configured end points {endpoint} in advertised listeners are already registered by broker {broker}"
    )]
    EndpointTaken { endpoint: String, broker: BrokerId },
    #[error(transparent)]
    Zk(#[from] ZkError),
}

impl KafkaZkClient {
    /// Registers a broker: from then on the controller and every client can know of it. Answers its broker
    /// epoch.
    ///
    /// ```text
    /// no such znode                       -> create it, ephemeral
    /// znode of this session               -> the answer to our own creation was lost: done
    /// znode of a former session of ours   -> delete it, create it anew
    /// znode of another session            -> most likely this broker's own before a crash: wait, then fail
    /// ```
    ///
    /// `others` are the brokers that were registered a moment ago; no two may advertise the same address. One
    /// round trip where there are none, two otherwise.
    pub async fn register_broker(
        &self,
        id: BrokerId,
        registration: &BrokerRegistration,
        version: RegistrationVersion,
        others: &[BrokerId],
        patience: Patience,
    ) -> Result<BrokerEpoch, RegisterError> {
        let deadline = Instant::now() + patience.0;
        self.wait_for_endpoints(id, registration, others, deadline).await?;
        let path = paths::broker(id);
        let data = registration.encode(version);
        loop {
            // Two operations, so that the version tells a registration that was made from one that was
            // changed.
            let create = Op::Create { path: path.clone(), data: vec![], mode: CreateMode::Ephemeral };
            let fill = Op::Set { path: path.clone(), data: data.clone(), version: Some(0) };
            let error = match self.store.multi(vec![create, fill]).await {
                Ok(results) => match results.get(1) {
                    Some(OpResult::Set(stat)) => return Ok(BrokerEpoch(stat.czxid)),
                    _ => {
                        let detail = format!("unexpected answer {results:?}");
                        return Err(ZkError::Refused { path, detail }.into());
                    }
                },
                Err(error) => error.source,
            };
            match error {
                ZkError::NodeExists { .. } | ZkError::OutcomeUnknown { .. } => {}
                ZkError::NoNode { .. } => {
                    self.ensure_path(paths::BROKER_IDS).await?;
                    continue;
                }
                error => return Err(error.into()),
            }
            let Some((stat, watch)) = self.registration_and_watch(&path).await? else { continue };
            match stat.owner {
                Some(owner) if owner == self.store.session() => return Ok(BrokerEpoch(stat.czxid)),
                Some(owner) if self.store.was_ours(owner) => {
                    tracing::info!(broker = %id, session = %owner, "removing the registration of our \
                     former session");
                    self.delete_if_there(&path, Some(stat.version)).await?;
                }
                owner => {
                    tracing::warn!(
                        broker = %id,
                        session = ?owner,
                        seconds = deadline.saturating_duration_since(Instant::now()).as_secs(),
                        "this broker id is registered by another session, most likely our own before a \
                         crash: waiting for it to go",
                    );
                    if tokio::time::timeout_at(deadline, watch).await.is_err() {
                        return Err(self.id_taken(path, owner).await?);
                    }
                }
            }
        }
    }

    /// Changes a registration while the broker runs, as when its listeners change. Its epoch stays.
    pub async fn update_registration(
        &self,
        id: BrokerId,
        registration: &BrokerRegistration,
        version: RegistrationVersion,
    ) -> Result<(), ZkError> {
        let data = registration.encode(version);
        retry_read(|| self.store.set(&paths::broker(id), &data, None)).await.map(drop)
    }

    /// The brokers that are there, and a watch on their coming and going.
    pub async fn broker_ids_and_watch(&self) -> Result<(Vec<BrokerId>, Watch), ZkError> {
        let (children, watch) = self.children_and_watch(paths::BROKER_IDS).await?;
        Ok((broker_ids(&children), watch))
    }

    /// Registrations of these brokers, as far as they are still there. A registration that cannot be read is
    /// left out, with a word in the log: one odd broker must not hide the others.
    pub async fn read_brokers(
        &self,
        ids: &[BrokerId],
    ) -> Result<Vec<(BrokerId, Versioned<BrokerRegistration>)>, ZkError> {
        let answers =
            self.read_all(ids.iter().copied().map(paths::broker).collect(), BrokerRegistration::decode).await;
        let mut brokers = Vec::with_capacity(ids.len());
        for (id, answer) in ids.iter().zip(answers) {
            match answer {
                Ok(Some(registration)) => brokers.push((*id, registration)),
                Ok(None) => {}
                Err(error @ ZkError::Malformed { .. }) => {
                    tracing::error!(broker = %id, %error, "registration is not understood, the broker is \
                     passed over");
                }
                Err(error) => return Err(error),
            }
        }
        Ok(brokers)
    }

    /// A registration, and a watch on its change or end.
    pub async fn broker_and_watch(
        &self,
        id: BrokerId,
    ) -> Result<(Option<Versioned<BrokerRegistration>>, Watch), ZkError> {
        self.read_and_watch(&paths::broker(id), BrokerRegistration::decode).await
    }

    async fn registration_and_watch(&self, path: &str) -> Result<Option<(Stat, Watch)>, ZkError> {
        let (stat, watch) = retry_read(|| self.store.exists_and_watch(path)).await?;
        Ok(stat.map(|stat| (stat, watch)))
    }

    async fn delete_if_there(&self, path: &str, version: Option<i32>) -> Result<(), ZkError> {
        match retry_read(|| self.store.delete(path, version)).await {
            Ok(()) | Err(ZkError::NoNode { .. } | ZkError::BadVersion { .. }) => Ok(()),
            Err(error) => Err(error),
        }
    }

    async fn id_taken(&self, path: String, owner: Option<SessionId>) -> Result<RegisterError, ZkError> {
        let endpoints = match self.read(path.clone(), BrokerRegistration::decode).await {
            Ok(Some(found)) => {
                let endpoints = found.record.endpoints.iter().map(|e| format!("{}:{}", e.host, e.port));
                endpoints.collect::<Vec<_>>().join(", ")
            }
            _ => "an unknown address".to_owned(),
        };
        Ok(RegisterError::IdTaken { path, endpoints, owner: owner.unwrap_or(SessionId(0)) })
    }

    /// No two brokers may advertise the same address. A broker that was renumbered meets its former self
    /// here.
    async fn wait_for_endpoints(
        &self,
        id: BrokerId,
        registration: &BrokerRegistration,
        others: &[BrokerId],
        deadline: Instant,
    ) -> Result<(), RegisterError> {
        let mut others: Vec<BrokerId> = others.iter().copied().filter(|other| *other != id).collect();
        loop {
            let registered = self.read_brokers(&others).await?;
            let conflict = registered.iter().find_map(|(broker, other)| {
                let same = |a: &BrokerEndpoint, b: &BrokerEndpoint| (&a.host, a.port) == (&b.host, b.port);
                let ours = &registration.endpoints;
                let taken = ours
                    .iter()
                    .find(|ours| other.record.endpoints.iter().any(|theirs| same(ours, theirs)))?;
                Some((*broker, format!("{}:{}", taken.host, taken.port)))
            });
            let Some((broker, endpoint)) = conflict else { return Ok(()) };
            let Some((_, watch)) = self.registration_and_watch(&paths::broker(broker)).await? else {
                continue;
            };
            tracing::warn!(%broker, endpoint, "our address is registered by another broker: waiting for it \
             to go");
            if tokio::time::timeout_at(deadline, watch).await.is_err() {
                return Err(RegisterError::EndpointTaken { endpoint, broker });
            }
            others.retain(|other| *other >= broker);
        }
    }
}
