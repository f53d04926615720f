//! The election of the controller, and the fence around what it writes.

use std::pin::Pin;

use ottla_model::{BrokerId, ControllerEpoch, Timestamp};

use super::{KafkaZkClient, Versioned};
use crate::paths;
use crate::records::{ControllerRecord, encode_controller_epoch};
use crate::store::{CreateMode, Op, OpResult, Watch, ZkError, retry_read};

/// What there is to know before an election.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ControllerView {
    pub controller: Option<Versioned<ControllerRecord>>,
    /// The znode's version is the condition of the next election.
    pub epoch: Option<Versioned<ControllerEpoch>>,
}

/// What a controller's writes are bound to: as soon as another one is elected, none of them happens any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ControllerFence {
    pub epoch: ControllerEpoch,
    /// Version of `/controller_epoch` since our election.
    pub epoch_version: i32,
}

/// How an election ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Election {
    Won(ControllerFence),
    /// This one is the controller.
    Lost(ControllerRecord),
}

/// Why a fenced write did not happen.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FencedError {
    /// Another controller has been elected: resign.
    #[error("another controller has been elected")]
    ControllerMoved,
    #[error(transparent)]
    Zk(#[from] ZkError),
}

/// Elections in a row that may end with nobody elected, before that is somebody's fault.
const ATTEMPTS: usize = 20;

impl KafkaZkClient {
    /// Tries to become the controller, on the strength of what was seen last.
    ///
    /// ```text
    /// multi [ create /controller ephemeral, set /controller_epoch = e + 1 if its version is still v ]
    /// ```
    ///
    /// One round trip to win; none to lose against a controller already seen; two more where the view was out
    /// of date or the answer got lost.
    pub async fn elect_controller(
        &self,
        broker: BrokerId,
        now: Timestamp,
        mut view: ControllerView,
    ) -> Result<Election, ZkError> {
        let record = ControllerRecord { broker, timestamp: now, kraft_epoch: None };
        for _ in 0..ATTEMPTS {
            if let Some(seen) = view.controller {
                return Ok(Election::Lost(seen.record));
            }
            let epoch = match view.epoch {
                Some(epoch) => epoch,
                None => self.create_controller_epoch().await?,
            };
            let next = ControllerEpoch(epoch.record.0.checked_add(1).ok_or_else(|| ZkError::Refused {
                path: paths::CONTROLLER_EPOCH.to_owned(),
                detail: "all controller epochs have been used".to_owned(),
            })?);
            let ops = vec![
                Op::Create {
                    path: paths::CONTROLLER.to_owned(),
                    data: record.encode(),
                    mode: CreateMode::Ephemeral,
                },
                Op::Set {
                    path: paths::CONTROLLER_EPOCH.to_owned(),
                    data: encode_controller_epoch(next),
                    version: Some(epoch.stat.version),
                },
            ];
            match self.store.multi(ops).await {
                Ok(_) => {
                    let fence = ControllerFence { epoch: next, epoch_version: epoch.stat.version + 1 };
                    return Ok(Election::Won(fence));
                }
                Err(error) => match error.source {
                    ZkError::NodeExists { .. } | ZkError::BadVersion { .. } | ZkError::NoNode { .. } => {}
                    ZkError::OutcomeUnknown { .. } => {}
                    error => return Err(error),
                },
            }
            view = self.read_controller().await?;
            // It may be ourselves: the answer to our own election was lost.
            if let (Some(controller), Some(epoch)) = (&view.controller, &view.epoch)
                && controller.stat.owner == Some(self.store.session())
                && controller.record.broker == broker
                && epoch.record == next
            {
                return Ok(Election::Won(ControllerFence { epoch: next, epoch_version: epoch.stat.version }));
            }
        }
        Err(ZkError::Refused {
            path: paths::CONTROLLER.to_owned(),
            detail: format!("{ATTEMPTS} elections in a row have elected nobody"),
        })
    }

    /// The controller, and a watch on its going, coming or change.
    pub async fn controller_and_watch(
        &self,
    ) -> Result<(Option<Versioned<ControllerRecord>>, Watch), ZkError> {
        self.read_and_watch(paths::CONTROLLER, ControllerRecord::decode).await
    }

    /// Gives the office up, so that another broker can win it.
    pub async fn resign(&self, fence: ControllerFence) -> Result<(), FencedError> {
        let delete = Op::Delete { path: paths::CONTROLLER.to_owned(), version: None };
        match self.fenced_again(fence, delete).await {
            Ok(_) | Err(FencedError::ControllerMoved | FencedError::Zk(ZkError::NoNode { .. })) => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// One operation, if nobody else has been elected since. Sent at once.
    pub(super) fn fenced(
        &self,
        fence: ControllerFence,
        op: Op,
    ) -> Pin<Box<dyn Future<Output = Result<OpResult, FencedError>> + Send>> {
        let reply = self.store.multi(vec![fence.check(), op]);
        Box::pin(async move {
            match reply.await {
                Ok(results) => results.into_iter().nth(1).ok_or_else(|| {
                    FencedError::Zk(ZkError::Refused {
                        path: paths::CONTROLLER_EPOCH.to_owned(),
                        detail: "an answer with too few results".to_owned(),
                    })
                }),
                Err(error) if error.index == Some(0) => Err(FencedError::ControllerMoved),
                Err(error) => Err(FencedError::Zk(error.source)),
            }
        })
    }

    /// As [`KafkaZkClient::fenced`], again while connections break under it: for what may be done twice.
    pub(super) async fn fenced_again(&self, fence: ControllerFence, op: Op) -> Result<OpResult, FencedError> {
        // A moved controller is an answer like any other to the retrying; only lost answers are asked for
        // again.
        let answer = retry_read(|| {
            let reply = self.fenced(fence, op.clone());
            Box::pin(async move {
                match reply.await {
                    Err(FencedError::Zk(error)) if error.is_outcome_unknown() => Err(error),
                    answer => Ok(answer),
                }
            })
        });
        answer.await?
    }

    async fn create_controller_epoch(&self) -> Result<Versioned<ControllerEpoch>, ZkError> {
        let first = encode_controller_epoch(ControllerEpoch(0));
        match retry_read(|| self.store.create(paths::CONTROLLER_EPOCH, &first, CreateMode::Persistent)).await
        {
            Ok(_) | Err(ZkError::NodeExists { .. }) => {}
            Err(error) => return Err(error),
        }
        let view = self.read_controller().await?;
        view.epoch.ok_or(ZkError::NoNode { path: paths::CONTROLLER_EPOCH.to_owned() })
    }
}

impl ControllerFence {
    pub(super) fn check(self) -> Op {
        Op::Check { path: paths::CONTROLLER_EPOCH.to_owned(), version: self.epoch_version }
    }
}
