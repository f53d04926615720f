//! What brokers and controllers do in ZooKeeper.

mod admin;
mod config;
mod consumers;
mod election;
mod producer_ids;
mod registration;
mod start;
mod states;
mod topics;

use std::fmt;
use std::sync::Arc;

use futures_util::{StreamExt, stream};
use ottla_model::{BrokerEpoch, BrokerId, PartitionEpoch};

pub use config::ConfigChange;
pub use election::{ControllerFence, ControllerView, Election, FencedError};
pub use registration::{Patience, RegisterError};
pub use start::{PERSISTENT_PATHS, StartView};
pub use states::{StateWrite, StateWriteError};
pub use topics::CreateTopicError;

use crate::records::DecodeError;
use crate::store::{CreateMode, Stat, Watch, ZkError, ZkStore, retry_read};

/// Kafka's operations over a store. Cheap to clone.
///
/// Whatever touches many znodes keeps up to `in_flight_max` requests under way, so it takes a round trip for
/// so many, and not one for each.
#[derive(Clone)]
pub struct KafkaZkClient {
    store: Arc<dyn ZkStore>,
    in_flight_max: usize,
}

impl fmt::Debug for KafkaZkClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KafkaZkClient").field("session", &self.store.session()).finish_non_exhaustive()
    }
}

/// A record with the metadata of the znode that holds it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Versioned<T> {
    pub record: T,
    pub stat: Stat,
}

impl<T> Versioned<T> {
    /// The version of a partition's state is its epoch.
    pub fn partition_epoch(&self) -> PartitionEpoch {
        PartitionEpoch(self.stat.version)
    }

    /// The creation of a broker's registration is its epoch.
    pub fn broker_epoch(&self) -> BrokerEpoch {
        BrokerEpoch(self.stat.czxid)
    }
}

/// How often creating a line of znodes starts over when their parents are not there.
const CREATE_ATTEMPTS: usize = 5;

impl KafkaZkClient {
    /// `in_flight_max` is `zookeeper.max.in.flight.requests`; at least 1.
    pub fn new(store: Arc<dyn ZkStore>, in_flight_max: usize) -> KafkaZkClient {
        KafkaZkClient { store, in_flight_max: in_flight_max.max(1) }
    }

    /// The store itself, for its session and for znodes that are not Kafka's.
    pub fn store(&self) -> &Arc<dyn ZkStore> {
        &self.store
    }

    /// Sends a request for each item, the next as soon as there is room, and collects the answers in order.
    async fn pipelined<I, R: Future>(&self, items: Vec<I>, request: impl FnMut(I) -> R) -> Vec<R::Output> {
        stream::iter(items).map(request).buffered(self.in_flight_max).collect().await
    }

    /// Reads a znode that may not be there.
    fn read<T: 'static>(
        &self,
        path: String,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> impl Future<Output = Result<Option<Versioned<T>>, ZkError>> + use<T> {
        let store = self.store.clone();
        let reading = retry_read({
            let path = path.clone();
            move || store.get(&path)
        });
        async move { decoded(reading.await, &path, decode) }
    }

    /// Reads znodes that may not be there.
    async fn read_all<T: 'static>(
        &self,
        paths: Vec<String>,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Vec<Result<Option<Versioned<T>>, ZkError>> {
        self.pipelined(paths, |path| self.read(path, decode)).await
    }

    /// Reads a znode and watches it, whether it is there or not.
    async fn read_and_watch<T>(
        &self,
        path: &str,
        decode: fn(&[u8]) -> Result<T, DecodeError>,
    ) -> Result<(Option<Versioned<T>>, Watch), ZkError> {
        loop {
            match retry_read(|| self.store.get_and_watch(path)).await {
                Ok((data, stat, watch)) => return Ok((decoded(Ok((data, stat)), path, decode)?, watch)),
                Err(ZkError::NoNode { .. }) => {}
                Err(error) => return Err(error),
            }
            // Only a look at what exists can watch what does not.
            let (stat, watch) = retry_read(|| self.store.exists_and_watch(path)).await?;
            if stat.is_none() {
                return Ok((None, watch));
            }
        }
    }

    /// The children of a znode and a watch on them; none, and a watch for its coming, where it is missing.
    pub async fn children_and_watch(&self, path: &str) -> Result<(Vec<String>, Watch), ZkError> {
        loop {
            match retry_read(|| self.store.children_and_watch(path)).await {
                Ok((children, _, watch)) => return Ok((children, watch)),
                Err(ZkError::NoNode { .. }) => {}
                Err(error) => return Err(error),
            }
            let (stat, watch) = retry_read(|| self.store.exists_and_watch(path)).await?;
            if stat.is_none() {
                return Ok((vec![], watch));
            }
        }
    }

    /// As [`KafkaZkClient::children_and_watch`], without the watch.
    pub async fn children(&self, path: &str) -> Result<Vec<String>, ZkError> {
        match retry_read(|| self.store.children(path)).await {
            Ok((children, _)) => Ok(children),
            Err(ZkError::NoNode { .. }) => Ok(vec![]),
            Err(error) => Err(error),
        }
    }

    /// Creates znodes where they are missing, parents before their children, in one pipeline. Answers which
    /// were missing.
    async fn create_missing(&self, znodes: Vec<(String, Vec<u8>)>) -> Result<Vec<bool>, ZkError> {
        let mut missing = vec![false; znodes.len()];
        for _ in 0..CREATE_ATTEMPTS {
            let creations = self.pipelined(znodes.clone(), |(path, data)| {
                let store = self.store.clone();
                retry_read(move || store.create(&path, &data, CreateMode::Persistent))
            });
            let mut orphaned = false;
            for (missing, created) in missing.iter_mut().zip(creations.await) {
                match created {
                    Ok(_) => *missing = true,
                    Err(ZkError::NodeExists { .. }) => {}
                    // Its parent's creation got lost on the way: that was repeated, but only after ours.
                    Err(ZkError::NoNode { .. }) => orphaned = true,
                    Err(error) => return Err(error),
                }
            }
            if !orphaned {
                return Ok(missing);
            }
        }
        let path = znodes.into_iter().next_back().map(|(path, _)| path).unwrap_or_default();
        Err(ZkError::NoNode { path })
    }

    /// Makes sure of a znode and those above it.
    async fn ensure_path(&self, path: &str) -> Result<(), ZkError> {
        let all = parents(path).into_iter().chain([path.to_owned()]).map(|path| (path, vec![])).collect();
        self.create_missing(all).await.map(drop)
    }

    /// Writes a znode that need not be there; its parents are made if they are missing.
    async fn set_or_create(&self, path: &str, data: &[u8]) -> Result<(), ZkError> {
        loop {
            // Writing the same data twice is the same as once.
            match retry_read(|| self.store.set(path, data, None)).await {
                Err(ZkError::NoNode { .. }) => {}
                answer => return answer.map(drop),
            }
            match retry_read(|| self.store.create(path, data, CreateMode::Persistent)).await {
                Err(ZkError::NodeExists { .. }) => {}
                Err(ZkError::NoNode { .. }) => self.ensure_path(parent(path)).await?,
                answer => return answer.map(drop),
            }
        }
    }

    /// Creates a sequential znode. Told twice is no harm: these are notices.
    async fn create_sequential(&self, prefix: &str, data: &[u8]) -> Result<String, ZkError> {
        loop {
            match retry_read(|| self.store.create(prefix, data, CreateMode::PersistentSequential)).await {
                Err(ZkError::NoNode { .. }) => self.ensure_path(parent(prefix)).await?,
                answer => return answer,
            }
        }
    }
}

fn decoded<T>(
    answer: Result<(Vec<u8>, Stat), ZkError>,
    path: &str,
    decode: fn(&[u8]) -> Result<T, DecodeError>,
) -> Result<Option<Versioned<T>>, ZkError> {
    match answer {
        Ok((data, stat)) => {
            let record = decode(&data)
                .map_err(|error| ZkError::Malformed { path: path.to_owned(), detail: error.to_string() })?;
            Ok(Some(Versioned { record, stat }))
        }
        Err(ZkError::NoNode { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// `/a/b/c` has `/a` and `/a/b`.
fn parents(path: &str) -> Vec<String> {
    path.match_indices('/').skip(1).map(|(end, _)| path[..end].to_owned()).collect()
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// The ids that a listing of `/brokers/ids` names; children that are no numbers are nobody's.
fn broker_ids(children: &[String]) -> Vec<BrokerId> {
    let mut ids: Vec<BrokerId> = children.iter().filter_map(|name| name.parse().ok().map(BrokerId)).collect();
    ids.sort();
    ids
}
