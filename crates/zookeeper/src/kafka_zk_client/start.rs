//! What a starting broker finds, and makes where it is missing.

use futures_util::future::join_all;
use ottla_model::{BrokerId, Uuid};

use super::{ControllerView, KafkaZkClient, broker_ids, decoded, parents};
use crate::paths;
use crate::records::{ClusterId, ControllerRecord, decode_controller_epoch};
use crate::store::{ZkError, retry_read};

/// The znodes that every broker makes sure of when it starts.
pub const PERSISTENT_PATHS: [&str; 14] = [
    paths::CONSUMERS,
    paths::BROKER_IDS,
    paths::TOPICS,
    paths::CONFIG_CHANGES,
    paths::DELETE_TOPICS,
    paths::BROKER_SEQUENCE,
    paths::ISR_CHANGES,
    paths::PRODUCER_ID_BLOCK,
    paths::LOG_DIR_EVENTS,
    "/config/topics",
    "/config/clients",
    "/config/users",
    "/config/brokers",
    "/config/ips",
];

/// The cluster as a starting broker finds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartView {
    pub cluster_id: ClusterId,
    /// Registered brokers.
    pub brokers: Vec<BrokerId>,
    pub controller: ControllerView,
}

impl KafkaZkClient {
    /// Looks around, and completes the tree: the persistent paths, and the cluster's id, which the very first
    /// broker gives.
    ///
    /// One round trip; two where something has to be made.
    pub async fn start(&self, new_cluster_id: Uuid) -> Result<StartView, ZkError> {
        let store = || self.store.clone();
        let looks = join_all(PERSISTENT_PATHS.map(|path| {
            let store = store();
            retry_read(move || store.exists(path))
        }));
        let cluster_id = self.read(paths::CLUSTER_ID.to_owned(), ClusterId::decode);
        let brokers = retry_read({
            let store = store();
            move || store.children(paths::BROKER_IDS)
        });
        let controller = self.read_controller();

        let mut missing = Vec::new();
        for (path, stat) in PERSISTENT_PATHS.into_iter().zip(looks.await) {
            if stat?.is_none() {
                missing.push(path.to_owned());
            }
        }
        let brokers = match brokers.await {
            Ok((children, _)) => broker_ids(&children),
            Err(ZkError::NoNode { .. }) => vec![],
            Err(error) => return Err(error),
        };
        let controller = controller.await?;
        let cluster_id = match cluster_id.await? {
            Some(found) => found.record,
            None => {
                missing.push(paths::CLUSTER_ID.to_owned());
                ClusterId(new_cluster_id.to_string())
            }
        };
        let cluster_id =
            if missing.is_empty() { cluster_id } else { self.complete(missing, cluster_id).await? };
        Ok(StartView { cluster_id, brokers, controller })
    }

    /// Makes what is missing, in one pipeline; answers the cluster id that holds, ours or a faster broker's.
    async fn complete(&self, missing: Vec<String>, cluster_id: ClusterId) -> Result<ClusterId, ZkError> {
        let mut all: Vec<String> =
            missing.iter().flat_map(|path| parents(path)).chain(missing.clone()).collect();
        all.sort();
        all.dedup();
        let znodes = all.into_iter().map(|path| {
            let data = if path == paths::CLUSTER_ID { cluster_id.encode() } else { vec![] };
            (path, data)
        });
        let znodes: Vec<_> = znodes.collect();
        let id_at = znodes.iter().position(|(path, _)| path == paths::CLUSTER_ID);
        let made = self.create_missing(znodes).await?;
        if id_at.is_some_and(|at| !made[at]) {
            // Another broker was faster, or the answer to our own creation was lost: what stands there
            // counts.
            let found = self.read(paths::CLUSTER_ID.to_owned(), ClusterId::decode).await?;
            return found
                .map(|found| found.record)
                .ok_or_else(|| ZkError::NoNode { path: paths::CLUSTER_ID.to_owned() });
        }
        Ok(cluster_id)
    }

    /// Draws a broker id that nobody has had: the next version of `/brokers/seqid`, above the reserved ids.
    pub async fn generate_broker_id(&self, reserved_broker_max_id: i32) -> Result<BrokerId, ZkError> {
        loop {
            // A lost answer only wastes a number.
            match retry_read(|| self.store.set(paths::BROKER_SEQUENCE, b"", None)).await {
                Ok(stat) => {
                    let id = reserved_broker_max_id.checked_add(stat.version).ok_or(ZkError::Refused {
                        path: paths::BROKER_SEQUENCE.to_owned(),
                        detail: "all broker ids have been used".to_owned(),
                    })?;
                    return Ok(BrokerId(id));
                }
                Err(ZkError::NoNode { .. }) => self.ensure_path(paths::BROKER_SEQUENCE).await?,
                Err(error) => return Err(error),
            }
        }
    }

    /// Who the controller is and how many there have been; two reads, sent at once.
    pub fn read_controller(&self) -> impl Future<Output = Result<ControllerView, ZkError>> + use<> {
        let store = self.store.clone();
        let controller = retry_read({
            let store = store.clone();
            move || store.get(paths::CONTROLLER)
        });
        let epoch = retry_read(move || store.get(paths::CONTROLLER_EPOCH));
        async move {
            let controller = controller.await;
            let epoch = epoch.await;
            Ok(ControllerView {
                controller: decoded(controller, paths::CONTROLLER, ControllerRecord::decode)?,
                epoch: decoded(epoch, paths::CONTROLLER_EPOCH, decode_controller_epoch)?,
            })
        }
    }
}
