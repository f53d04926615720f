//! The replicas held here, and the log dirs they lie in.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use ottla_files::{Disk, FileError};
use ottla_log::{
    Contents, DirectoryState, DoomedFiles, Log, LogDirectory, LogDirectoryError, MetaProperties,
    MetaPropertiesError, Offsets, Opening, StorageError, TopicIdError,
};
use ottla_model::{BrokerId, LeaderEpoch, Offset, Timestamp, TopicName, TopicPartition, Uuid};
use ottla_protocol::ErrorCode;
use ottla_replica::{LeaderAndIsr, OrderOutcome, Partition, Rules};
use parking_lot::{Mutex, RwLock};

use crate::config::{Config, TopicConfig};
use crate::hosted_partition::{FollowFailure, HostedPartition, Unavailable};
use crate::metadata_cache::MetadataCache;
use crate::random;
use crate::record_rules::{log_config, partition_rules};
use crate::topic_configs::TopicConfigs;

/// The controller's order for one replica on this broker.
#[derive(Debug, Clone)]
pub struct ReplicaOrder {
    pub partition: TopicPartition,
    /// All zeros where the topic has none.
    pub topic_id: Uuid,
    pub order: LeaderAndIsr,
}

/// Why an order for a replica was not followed.
#[derive(Debug, thiserror::Error)]
pub enum ReplicaFailure {
    #[error(transparent)]
    Follow(#[from] FollowFailure),
    #[error(transparent)]
    TopicId(#[from] TopicIdError),
    #[error(transparent)]
    Storage(#[from] StorageError),
    #[error("the replica has topic id {held}, the order is for {got}")]
    OtherTopic { held: Uuid, got: Uuid },
    #[error("leader epoch {got} is behind {current}")]
    Fenced { got: LeaderEpoch, current: LeaderEpoch },
}

impl ReplicaFailure {
    pub fn code(&self) -> ErrorCode {
        match self {
            ReplicaFailure::Follow(failure) => failure.code(),
            ReplicaFailure::TopicId(error) => error.code(),
            ReplicaFailure::Storage(error) => error.code(),
            ReplicaFailure::OtherTopic { .. } => ErrorCode::InconsistentTopicId,
            ReplicaFailure::Fenced { .. } => ErrorCode::FencedLeaderEpoch,
        }
    }
}

/// A replica as it lies in a log dir.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HeldReplica {
    pub partition: TopicPartition,
    pub bytes: u64,
    /// Records that are committed and not yet here.
    pub lag: i64,
}

/// Bounds what is remembered of replicas that may never come; the next one is placed as if nobody had asked.
const PLACEMENTS_MAX: usize = 10_000;

/// Why a replica does not lie where it was asked to.
#[derive(Debug, thiserror::Error)]
pub enum PlacementRefusal {
    #[error("{} is none of the log dirs of this broker", .0.display())]
    NoSuchDir(PathBuf),
    #[error("the replica is not here yet; it will be made there")]
    NotYet,
    #[error("the replica lies in another log dir, and is not moved while it is in use")]
    Elsewhere,
}

impl PlacementRefusal {
    pub fn code(&self) -> ErrorCode {
        match self {
            PlacementRefusal::NoSuchDir(_) => ErrorCode::LogDirNotFound,
            PlacementRefusal::NotYet => ErrorCode::ReplicaNotAvailable,
            PlacementRefusal::Elsewhere => ErrorCode::UnsupportedVersion,
        }
    }
}

/// Why the data directories cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LogDirsError {
    #[error(transparent)]
    Directory(#[from] LogDirectoryError),
    #[error(transparent)]
    MetaProperties(#[from] MetaPropertiesError),
    #[error("cannot open partition {partition}: {source}")]
    Partition { partition: TopicPartition, source: StorageError },
}

/// The log dirs of this broker: locked, and told apart from other brokers', but not yet looked into.
#[derive(Debug)]
pub struct LockedLogDirs {
    dirs: Vec<LogDirectory<Disk>>,
    found: Vec<(PathBuf, Option<MetaProperties>)>,
}

impl LockedLogDirs {
    pub fn lock(paths: &[PathBuf]) -> Result<LockedLogDirs, LogDirsError> {
        let dirs: Vec<_> =
            paths.iter().map(|path| LogDirectory::lock(Disk, path)).collect::<Result<_, _>>()?;
        let found = dirs
            .iter()
            .map(|dir| Ok((dir.meta_properties_path(), dir.meta_properties()?)))
            .collect::<Result<_, LogDirectoryError>>()?;
        Ok(LockedLogDirs { dirs, found })
    }

    /// The broker id that the directories and the configuration agree on, if either knows one.
    pub fn broker_id(
        &self,
        configured: Option<BrokerId>,
        cluster_id: &str,
    ) -> Result<Option<BrokerId>, LogDirsError> {
        Ok(MetaProperties::agree(&self.found, configured, cluster_id)?)
    }

    /// Writes the owner into directories that have none yet.
    pub fn claim(&self, broker: BrokerId, cluster_id: &str, now: Timestamp) -> Result<(), LogDirsError> {
        for (dir, (_, found)) in self.dirs.iter().zip(&self.found) {
            let complete = |found: &MetaProperties| found.broker_id.is_some() && found.cluster_id.is_some();
            if !found.as_ref().is_some_and(complete) {
                let directory_id = found.as_ref().and_then(|found| found.directory_id.clone());
                let properties = MetaProperties {
                    broker_id: Some(broker),
                    cluster_id: Some(cluster_id.to_owned()),
                    directory_id,
                };
                dir.write_meta_properties(&properties, now)?;
            }
        }
        Ok(())
    }
}

/// One of the checkpoint files of a log dir.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Checkpoint {
    HighWatermarks,
    RecoveryPoints,
    LogStarts,
}

impl Checkpoint {
    fn write(self, dir: &LogDirectory<Disk>, offsets: &Offsets) -> Result<(), FileError> {
        match self {
            Checkpoint::HighWatermarks => dir.write_high_watermarks(offsets),
            Checkpoint::RecoveryPoints => dir.write_recovery_points(offsets),
            Checkpoint::LogStarts => dir.write_log_starts(offsets),
        }
    }
}

/// A log that was found at start, until the controller says what it is to us.
#[derive(Debug)]
struct Found {
    log: Log<Disk>,
    log_dir: usize,
    high_watermark: Offset,
}

/// All replicas of this broker.
#[derive(Debug)]
pub struct ReplicaManager {
    local: BrokerId,
    config: Arc<Config>,
    topic_configs: Arc<TopicConfigs>,
    metadata: Arc<MetadataCache>,
    /// Empty once closed.
    dirs: RwLock<Vec<LogDirectory<Disk>>>,
    /// Found at start and not yet claimed by an order.
    found: Mutex<HashMap<TopicPartition, Found>>,
    hosted: RwLock<HashMap<TopicName, BTreeMap<i32, Arc<HostedPartition>>>>,
    /// What the checkpoints hold, by log dir: an idle broker writes nothing.
    checkpointed: Mutex<HashMap<(Checkpoint, usize), Offsets>>,
    /// Log dirs that were asked for by name, for replicas that are yet to be made.
    placements: Mutex<HashMap<TopicPartition, usize>>,
    /// Directories of deleted replicas, to be removed after `file.delete.delay.ms`.
    deleted: Mutex<Vec<(usize, PathBuf, Timestamp)>>,
    /// Files of deleted segments, likewise.
    doomed: Mutex<Vec<(DoomedFiles, Timestamp)>>,
}

impl ReplicaManager {
    /// Opens every partition that lies in the log dirs. After an unclean shutdown this reads what was not flushed.
    pub fn open(
        locked: LockedLogDirs,
        local: BrokerId,
        config: Arc<Config>,
        topic_configs: Arc<TopicConfigs>,
        metadata: Arc<MetadataCache>,
        now: Timestamp,
    ) -> Result<ReplicaManager, LogDirsError> {
        let dirs = locked.dirs;
        let contents: Vec<Contents> = dirs.iter().map(LogDirectory::load).collect::<Result<_, _>>()?;
        Contents::check_disjoint(&contents)?;
        let manager = ReplicaManager {
            local,
            config,
            topic_configs,
            metadata,
            dirs: RwLock::new(dirs),
            found: Mutex::default(),
            hosted: RwLock::default(),
            placements: Mutex::default(),
            checkpointed: Mutex::default(),
            deleted: Mutex::default(),
            doomed: Mutex::default(),
        };
        let mut any_repaired = false;
        for (log_dir, contents) in contents.iter().enumerate() {
            any_repaired |= manager.load(log_dir, contents, now)?;
        }
        if any_repaired {
            // What was recovered may end before its old recovery point, which would hide the loss of records yet to come.
            manager.checkpoint_recovery_points();
        }
        Ok(manager)
    }

    /// Whether anything was not as it was left.
    fn load(&self, log_dir: usize, contents: &Contents, now: Timestamp) -> Result<bool, LogDirsError> {
        let mut any_repaired = false;
        let dir = self.dirs.read()[log_dir].path().to_owned();
        for damaged in &contents.damaged {
            tracing::warn!(dir = %dir.display(), %damaged, "checkpoint is damaged and taken for empty");
        }
        if !contents.clean && !contents.partitions.is_empty() {
            tracing::warn!(dir = %dir.display(), "not closed cleanly, recovering logs");
        }
        for path in &contents.stray {
            tracing::warn!(path = %path.display(), "stray replica, left alone");
        }
        for (partition, path) in &contents.partitions {
            let topic = self.topic_configs.resolved(&partition.topic);
            let opening = contents.opening(partition, topic.cleanup_policy.compact, jitter_seed(partition));
            let (log, repaired) = self
                .open_log(path, &topic, opening, now)
                .map_err(|source| LogDirsError::Partition { partition: partition.clone(), source })?;
            any_repaired |= repaired;
            let high_watermark = contents.high_watermarks.get(partition).copied().unwrap_or(Offset::ZERO);
            self.found.lock().insert(partition.clone(), Found { log, log_dir, high_watermark });
        }
        let mut deleted = self.deleted.lock();
        deleted.extend(contents.deleted.iter().map(|path| (log_dir, path.clone(), now)));
        Ok(any_repaired)
    }

    /// The log, and whether it was not as it was left.
    fn open_log(
        &self,
        path: &Path,
        topic: &TopicConfig,
        opening: Opening,
        now: Timestamp,
    ) -> Result<(Log<Disk>, bool), StorageError> {
        let config = log_config(topic, self.producer_id_expiration_ms());
        let (log, recovered) = Log::open(Disk, path, config, opening, now)?;
        for finding in &recovered.findings {
            tracing::warn!(path = %path.display(), "{finding}");
        }
        Ok((log, !recovered.findings.is_empty()))
    }

    fn producer_id_expiration_ms(&self) -> i64 {
        i64::try_from(self.config.log.producer_id_expiration.as_millis()).unwrap_or(i64::MAX)
    }

    fn replica_rules(&self, topic: &TopicConfig) -> Rules {
        Rules {
            min_insync_replicas: usize::try_from(topic.min_insync_replicas).unwrap_or(1),
            lag_ms_max: i64::try_from(self.config.replication.lag_time_max.as_millis()).unwrap_or(i64::MAX),
        }
    }

    /// The replica, or the error that a client is told instead.
    pub fn hosted(&self, topic: &str, partition: i32) -> Result<Arc<HostedPartition>, ErrorCode> {
        if let Some(hosted) = self.find(topic, partition) {
            return Ok(hosted);
        }
        let exists =
            self.metadata.topic(topic).is_some_and(|topic| topic.partitions.contains_key(&partition));
        Err(if exists { ErrorCode::NotLeaderOrFollower } else { ErrorCode::UnknownTopicOrPartition })
    }

    fn find(&self, topic: &str, partition: i32) -> Option<Arc<HostedPartition>> {
        self.hosted.read().get(topic)?.get(&partition).cloned()
    }

    /// All replicas, in no particular order.
    pub fn all(&self) -> Vec<Arc<HostedPartition>> {
        self.hosted.read().values().flat_map(BTreeMap::values).cloned().collect()
    }

    /// Takes a topic's changed configuration into account.
    pub fn reconfigure(&self, topic: &TopicName) {
        let resolved = self.topic_configs.resolved(topic);
        let hosted: Vec<_> =
            self.hosted.read().get(topic).into_iter().flat_map(BTreeMap::values).cloned().collect();
        for hosted in hosted {
            hosted.reconfigure(
                partition_rules(&resolved, self.config.inter_broker_protocol),
                self.replica_rules(&resolved),
                log_config(&resolved, self.producer_id_expiration_ms()),
            );
        }
    }

    /// Takes changed defaults into account, which may rule any topic.
    pub fn reconfigure_all(&self) {
        let topics: Vec<TopicName> = self.hosted.read().keys().cloned().collect();
        topics.iter().for_each(|topic| self.reconfigure(topic));
    }

    /// Whether a log of the topic would be made with what is known of its configuration, or was.
    pub fn holds(&self, topic: &str) -> bool {
        self.hosted.read().contains_key(topic)
    }

    /// Follows the controller's order for one replica, making its log if there is none.
    pub fn follow(
        &self,
        order: &ReplicaOrder,
        now: Timestamp,
    ) -> Result<(Arc<HostedPartition>, OrderOutcome), ReplicaFailure> {
        let ReplicaOrder { partition, topic_id, .. } = order;
        let hosted = match self.find(&partition.topic, partition.partition) {
            Some(hosted) if hosted.topic_id() == *topic_id || topic_id.is_zero() => hosted,
            Some(hosted) => {
                return Err(ReplicaFailure::OtherTopic { held: hosted.topic_id(), got: *topic_id });
            }
            None => self.host(partition, *topic_id, now)?,
        };
        let outcome = hosted.follow(&order.order, now)?;
        Ok((hosted, outcome))
    }

    fn host(
        &self,
        partition: &TopicPartition,
        topic_id: Uuid,
        now: Timestamp,
    ) -> Result<Arc<HostedPartition>, ReplicaFailure> {
        let topic = self.topic_configs.resolved(&partition.topic);
        let found = self.found.lock().remove(partition);
        let mut found = match found {
            Some(found) => found,
            None => self.create(partition, &topic, now)?,
        };
        if !topic_id.is_zero()
            && let Err(error) = found.log.set_topic_id(topic_id)
        {
            // What lies there belongs to a topic of the same name that was deleted: it stays, for a person to judge.
            self.found.lock().insert(partition.clone(), found);
            return Err(error.into());
        }
        let (start, end) = (found.log.log_start_offset(), found.log.log_end_offset());
        let high_watermark = found.high_watermark.min(end).max(start);
        let replica = Partition::new(self.local, self.replica_rules(&topic), high_watermark);
        let held_id = found.log.topic_id().unwrap_or(Uuid::ZERO);
        let hosted = Arc::new(HostedPartition::new(
            partition.clone(),
            held_id,
            found.log_dir,
            replica,
            found.log,
            partition_rules(&topic, self.config.inter_broker_protocol),
        ));
        let mut all = self.hosted.write();
        let topic = all.entry(partition.topic.clone()).or_default();
        Ok(topic.entry(partition.partition).or_insert(hosted).clone())
    }

    /// The replicas in each log dir: those at work, and those that no order has claimed yet.
    pub fn by_log_dir(&self) -> Vec<(PathBuf, Vec<HeldReplica>)> {
        let paths = self.dirs.read().iter().map(|dir| dir.path().to_owned()).collect::<Vec<_>>();
        let mut dirs: Vec<_> = paths.into_iter().map(|path| (path, Vec::new())).collect();
        for hosted in self.all() {
            if let (Some((_, held)), Ok((bytes, lag))) =
                (dirs.get_mut(hosted.log_dir()), hosted.size_and_lag())
            {
                held.push(HeldReplica { partition: hosted.name().clone(), bytes, lag });
            }
        }
        for (partition, found) in &*self.found.lock() {
            if let Some((_, held)) = dirs.get_mut(found.log_dir) {
                let lag = (found.high_watermark.0 - found.log.log_end_offset().0).max(0);
                held.push(HeldReplica { partition: partition.clone(), bytes: found.log.bytes(), lag });
            }
        }
        dirs
    }

    /// Has a replica that is yet to be made lie in the log dir at `path`.
    pub fn place(&self, partition: &TopicPartition, path: &Path) -> Result<(), PlacementRefusal> {
        let wanted = self.dirs.read().iter().position(|dir| dir.path() == path);
        let wanted = wanted.ok_or_else(|| PlacementRefusal::NoSuchDir(path.to_owned()))?;
        let hosted = self.find(&partition.topic, partition.partition).map(|hosted| hosted.log_dir());
        match hosted.or_else(|| self.found.lock().get(partition).map(|found| found.log_dir)) {
            Some(there) if there == wanted => return Ok(()),
            Some(_) => return Err(PlacementRefusal::Elsewhere),
            None => {}
        }
        let mut placements = self.placements.lock();
        if placements.len() < PLACEMENTS_MAX || placements.contains_key(partition) {
            placements.insert(partition.clone(), wanted);
        }
        Err(PlacementRefusal::NotYet)
    }

    /// A new log, in the log dir that holds the fewest partitions, or in that which was asked for.
    fn create(
        &self,
        partition: &TopicPartition,
        topic: &TopicConfig,
        now: Timestamp,
    ) -> Result<Found, ReplicaFailure> {
        let dirs = self.dirs.read();
        if dirs.is_empty() {
            return Err(FollowFailure::from(Unavailable::Gone).into());
        }
        let mut load = vec![0usize; dirs.len()];
        self.all().iter().for_each(|hosted| load[hosted.log_dir()] += 1);
        self.found.lock().values().for_each(|found| load[found.log_dir] += 1);
        let placed = self.placements.lock().remove(partition);
        let log_dir = placed.or_else(|| (0..load.len()).min_by_key(|dir| load[*dir])).unwrap_or(0);
        let path = dirs[log_dir].partition_path(partition);
        drop(dirs);
        let opening = Opening {
            recovery_point: Offset::ZERO,
            log_start_offset: Offset::ZERO,
            clean: true,
            compacted: topic.cleanup_policy.compact,
            jitter_seed: jitter_seed(partition),
        };
        let (log, _) = self.open_log(&path, topic, opening, now)?;
        tracing::info!(%partition, path = %path.display(), "created log");
        Ok(Found { log, log_dir, high_watermark: Offset::ZERO })
    }

    /// Stops a replica, and deletes its log if that is asked. A replica that is not here is stopped already.
    ///
    /// A negative epoch is not compared: the topic is being deleted, or the sender is too old to say.
    pub fn stop(
        &self,
        partition: &TopicPartition,
        epoch: LeaderEpoch,
        delete: bool,
        now: Timestamp,
    ) -> Result<(), ReplicaFailure> {
        let hosted = self.find(&partition.topic, partition.partition);
        if let Some(current) =
            hosted.as_ref().and_then(|hosted| hosted.current_leader()).map(|(_, epoch)| epoch)
            && epoch >= LeaderEpoch(0)
            && epoch < current
        {
            return Err(ReplicaFailure::Fenced { got: epoch, current });
        }
        let (log, log_dir, high_watermark) = match hosted {
            Some(hosted) => {
                let high_watermark =
                    hosted.watermarks().map_or(Offset::ZERO, |watermarks| watermarks.high_watermark);
                let mut all = self.hosted.write();
                if let Some(topic) = all.get_mut(&partition.topic) {
                    topic.remove(&partition.partition);
                    if topic.is_empty() {
                        all.remove(&partition.topic);
                    }
                }
                drop(all);
                let Some(log) = hosted.stop() else { return Ok(()) };
                (log, hosted.log_dir(), high_watermark)
            }
            None => match self.found.lock().remove(partition) {
                Some(found) => (found.log, found.log_dir, found.high_watermark),
                None => return Ok(()),
            },
        };
        if !delete {
            self.found.lock().insert(partition.clone(), Found { log, log_dir, high_watermark });
            return Ok(());
        }
        drop(log);
        let dirs = self.dirs.read();
        let Some(dir) = dirs.get(log_dir) else { return Ok(()) };
        let aside = dir.set_aside(partition, DirectoryState::Delete, random::number());
        if let Some(path) = aside.map_err(StorageError::from)? {
            tracing::info!(%partition, path = %path.display(), "deleted log, its files go later");
            let delay = self.topic_configs.resolved(&partition.topic).file_delete_delay_ms;
            self.deleted.lock().push((log_dir, path, Timestamp(now.0.saturating_add(delay))));
        }
        Ok(())
    }

    /// Deletes the segments that retention lets go, of all logs.
    pub fn delete_old_segments(&self, now: Timestamp) {
        for hosted in self.all() {
            match hosted.delete_old_segments(now) {
                Ok(doomed) if doomed.is_empty() => {}
                Ok(doomed) => {
                    let delay = self.topic_configs.resolved(&hosted.name().topic).file_delete_delay_ms;
                    self.doomed.lock().push((doomed, Timestamp(now.0.saturating_add(delay))));
                }
                Err(error) => {
                    tracing::error!(partition = %hosted.name(), %error, "old segments not deleted");
                }
            }
        }
    }

    fn remove_doomed(&self, now: Timestamp) {
        let due: Vec<(DoomedFiles, Timestamp)> = {
            let mut doomed = self.doomed.lock();
            let (due, later) = doomed.drain(..).partition(|(_, at)| *at <= now);
            *doomed = later;
            due
        };
        for (files, _) in due {
            if let Err(error) = files.remove(&Disk) {
                tracing::error!(%error, "cannot remove the files of a deleted segment");
            }
        }
    }

    /// Removes what was deleted, replicas and segments, once its delay is over.
    pub fn remove_deleted(&self, now: Timestamp) {
        self.remove_doomed(now);
        let due: Vec<(usize, PathBuf, Timestamp)> = {
            let mut deleted = self.deleted.lock();
            let (due, later) = deleted.drain(..).partition(|(_, _, at)| *at <= now);
            *deleted = later;
            due
        };
        let dirs = self.dirs.read();
        for (log_dir, path, _) in due {
            if let Some(Err(error)) = dirs.get(log_dir).map(|dir| dir.remove(&path)) {
                tracing::error!(path = %path.display(), %error, "cannot remove a deleted log");
            }
        }
    }

    /// Flushes the logs for which `flush.ms` is over.
    pub fn flush_due(&self, now: Timestamp) {
        for hosted in self.all() {
            if let Err(error) = hosted.flush_if_due(now) {
                tracing::error!(partition = %hosted.name(), %error, "cannot flush");
            }
        }
    }

    /// Writes how far each partition's records are committed.
    pub fn checkpoint_high_watermarks(&self) {
        let hosted = self.all();
        let high_watermark = |hosted: &HostedPartition| Some(hosted.watermarks().ok()?.high_watermark);
        let found = |found: &Found| Some(found.high_watermark);
        self.checkpoint(Checkpoint::HighWatermarks, &hosted, high_watermark, found);
    }

    /// Writes how far each log is known to be on disk, and where each begins.
    pub fn checkpoint_recovery_points(&self) {
        let hosted = self.all();
        let recovery_point = |hosted: &HostedPartition| hosted.recovery_point().ok();
        let found = |found: &Found| Some(found.log.recovery_point());
        self.checkpoint(Checkpoint::RecoveryPoints, &hosted, recovery_point, found);
        let after_zero = |start: Offset| (start > Offset::ZERO).then_some(start);
        let log_start = |hosted: &HostedPartition| after_zero(hosted.watermarks().ok()?.log_start);
        let found = |found: &Found| after_zero(found.log.log_start_offset());
        self.checkpoint(Checkpoint::LogStarts, &hosted, log_start, found);
    }

    fn checkpoint(
        &self,
        checkpoint: Checkpoint,
        hosted: &[Arc<HostedPartition>],
        offset: impl Fn(&HostedPartition) -> Option<Offset>,
        found_offset: impl Fn(&Found) -> Option<Offset>,
    ) {
        let dirs = self.dirs.read();
        let mut offsets: Vec<Offsets> = vec![Offsets::default(); dirs.len()];
        for hosted in hosted {
            if let Some(offset) = offset(hosted) {
                offsets[hosted.log_dir()].insert(hosted.name().clone(), offset);
            }
        }
        for (partition, found) in &*self.found.lock() {
            if let Some(offset) = found_offset(found) {
                offsets[found.log_dir].insert(partition.clone(), offset);
            }
        }
        // Held while writing, so that of two writers the later one's file is the one that stays.
        let mut checkpointed = self.checkpointed.lock();
        for (log_dir, (dir, offsets)) in dirs.iter().zip(offsets).enumerate() {
            if checkpointed.get(&(checkpoint, log_dir)) == Some(&offsets) {
                continue;
            }
            match checkpoint.write(dir, &offsets) {
                Ok(()) => drop(checkpointed.insert((checkpoint, log_dir), offsets)),
                Err(error) => {
                    checkpointed.remove(&(checkpoint, log_dir));
                    tracing::error!(dir = %dir.path().display(), %error, "cannot write a checkpoint");
                }
            }
        }
    }

    /// Closes all logs so that the next start need not look at their records, and gives the log dirs up.
    ///
    /// A directory in which anything failed is not marked as closed cleanly: its logs are recovered at the next start.
    pub fn close(&self, now: Timestamp) {
        self.checkpoint_high_watermarks();
        let dirs = std::mem::take(&mut *self.dirs.write());
        let mut closed: Vec<(Offsets, Offsets, bool)> =
            dirs.iter().map(|_| (Offsets::default(), Offsets::default(), true)).collect();
        let hosted = self.all().into_iter().filter_map(|hosted| {
            let log = hosted.stop()?;
            Some((hosted.name().clone(), hosted.log_dir(), log))
        });
        let found = std::mem::take(&mut *self.found.lock());
        let found = found.into_iter().map(|(name, found)| (name, found.log_dir, found.log));
        for (partition, log_dir, log) in hosted.chain(found) {
            let (recovery_points, log_starts, clean) = &mut closed[log_dir];
            match log.close(now) {
                Ok(closed) => {
                    recovery_points.insert(partition.clone(), closed.recovery_point);
                    if closed.log_start_offset > Offset::ZERO {
                        log_starts.insert(partition, closed.log_start_offset);
                    }
                }
                Err(error) => {
                    tracing::error!(%partition, %error, "log not closed cleanly");
                    *clean = false;
                }
            }
        }
        for (dir, (recovery_points, log_starts, clean)) in dirs.into_iter().zip(closed) {
            let path = dir.path().to_owned();
            let finished = dir
                .write_recovery_points(&recovery_points)
                .and_then(|()| dir.write_log_starts(&log_starts))
                .and_then(|()| if clean { dir.finish() } else { Ok(()) });
            if let Err(error) = finished {
                tracing::error!(dir = %path.display(), %error, "log dir not closed cleanly");
            }
        }
    }
}

/// Spreads the rolling of many logs; the same for a partition at every start.
fn jitter_seed(partition: &TopicPartition) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    partition.hash(&mut hasher);
    hasher.finish()
}
