//! The group coordinator's edge: which groups are ours, their requests, their records, their timers.
//!
//! ```text
//! group id --Java hash--> partition of __consumer_offsets --leader--> the broker that coordinates the group
//!
//! request -> HostedGroup (one lock each) -> Group decides -> records -> OffsetsPartition -> log
//!                 ^                                                          |
//!                 +------- committed: assignments and offsets count ---------+
//! ```
//!
//! Whoever leads a partition of `__consumer_offsets` reads its groups from it first ([`loading`]). Groups share no lock; one
//! task sleeps until the earliest deadline of all ([`timers`]).

mod expiry;
mod hosted_group;
mod loading;
mod offsets_partition;
mod timers;

use std::collections::BTreeMap;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use ottla_group::{GroupConfig, Moment, Now, RecordVersions};
use ottla_model::{LeaderEpoch, TopicName, TopicPartition};
use ottla_protocol::ErrorCode;
use ottla_protocol::compression::Codec;
use parking_lot::RwLock;
use tokio::sync::{Semaphore, watch};

pub use self::hosted_group::{HostedGroup, OffsetDeletion};
use self::offsets_partition::OffsetsPartition;
use self::timers::Timers;
use crate::config::{Config, ProtocolVersion};
use crate::hosted_partition::{HostedPartition, RequiredAcks};
use crate::server::{self, Broker, stopping};
use crate::topics::{self, OFFSETS_TOPIC};

/// The groups that this broker coordinates.
#[derive(Debug)]
pub struct GroupCoordinator {
    groups: GroupConfig,
    versions: RecordVersions,
    /// Of the batches written here.
    codec: Codec,
    acks: RequiredAcks,
    commit_timeout: Duration,
    /// What `steady` moments count from.
    origin: Instant,
    /// Partitions of the offsets topic when it was first seen. Groups would change their coordinators if it grew, so more
    /// are not counted until the broker starts again, as Kafka does it.
    partition_count: OnceLock<i32>,
    partitions: RwLock<Partitions>,
    timers: Timers,
    /// Bounds how many partitions are read at once.
    loading: Arc<Semaphore>,
    /// Held by whoever makes the offsets topic, with the time of the last failure that was told.
    creating: tokio::sync::Mutex<Option<Instant>>,
}

/// How long whoever made the offsets topic waits for it to have leaders. Clients that hear "not available" look away for up
/// to a second, so most of them get there sooner by waiting.
const CREATION_PATIENCE: Duration = Duration::from_secs(1);

/// Clients ask for their coordinator many times a second; that there can be none is told less often.
const COMPLAINT_PAUSE: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
struct Partitions {
    led: BTreeMap<i32, Arc<OffsetsPartition>>,
    /// The newest leader epoch that was heard of each: what is older has been overtaken.
    epochs: BTreeMap<i32, LeaderEpoch>,
}

impl GroupCoordinator {
    pub fn new(config: &Config) -> GroupCoordinator {
        let ms = |duration: Duration| i32::try_from(duration.as_millis()).unwrap_or(i32::MAX);
        let readers = std::thread::available_parallelism().map_or(1, |cores| cores.get());
        GroupCoordinator {
            groups: GroupConfig {
                session_timeout_ms_min: ms(config.groups.session_timeout_min),
                session_timeout_ms_max: ms(config.groups.session_timeout_max),
                initial_rebalance_delay_ms: ms(config.groups.initial_rebalance_delay),
                size_max: config.groups.size_max,
            },
            versions: record_versions(config.inter_broker_protocol),
            codec: codec(config.offsets.topic_compression_codec),
            acks: match RequiredAcks::from_wire(config.offsets.commit_required_acks) {
                Some(RequiredAcks::None | RequiredAcks::Leader) => RequiredAcks::Leader,
                // Any other number of replicas can only be waited for as "all".
                Some(RequiredAcks::All) | None => RequiredAcks::All,
            },
            commit_timeout: config.offsets.commit_timeout,
            origin: Instant::now(),
            partition_count: OnceLock::new(),
            partitions: RwLock::default(),
            timers: Timers::default(),
            loading: Arc::new(Semaphore::new(readers)),
            creating: tokio::sync::Mutex::default(),
        }
    }

    pub fn now(&self) -> Now {
        let steady = i64::try_from(self.origin.elapsed().as_millis()).unwrap_or(i64::MAX);
        Now { wall: server::now(), steady: Moment(steady) }
    }

    /// The partition of the offsets topic that a group lives in.
    pub fn partition_for(&self, broker: &Broker, group: &str) -> i32 {
        let count = self.partition_count.get().copied().or_else(|| {
            let count = broker.metadata.topic(OFFSETS_TOPIC)?.partitions.len();
            Some(*self.partition_count.get_or_init(|| i32::try_from(count).unwrap_or(i32::MAX)))
        });
        partition_of(group, count.unwrap_or(broker.config.offsets.topic_partitions))
    }

    /// Makes the offsets topic, unless somebody else is about to, and gives it a moment to get leaders.
    pub async fn create_offsets_topic(&self, broker: &Broker) {
        let mut told = self.creating.lock().await;
        if broker.metadata.topic(OFFSETS_TOPIC).is_none() {
            let name = TopicName::new(OFFSETS_TOPIC).expect("it is a name that topics can have");
            if let Err(error) = topics::auto_create(broker, &name).await {
                if told.is_none_or(|told| told.elapsed() > COMPLAINT_PAUSE) {
                    *told = Some(Instant::now());
                    tracing::error!(
                        %error,
                        "{OFFSETS_TOPIC} cannot be created, and groups have no coordinator until it is; see \
                         offsets.topic.replication.factor and offsets.topic.num.partitions"
                    );
                }
                return;
            }
        }
        topics::wait_until(broker, CREATION_PATIENCE, |broker| topics::has_leaders(broker, OFFSETS_TOPIC))
            .await;
    }

    /// The group with this id, if there is one here; or why this broker cannot tell.
    pub fn find(&self, broker: &Broker, group: &str) -> Result<Option<Arc<HostedGroup>>, ErrorCode> {
        self.home_of(broker, group)?.find(group)
    }

    /// The group with this id, made if there is none.
    pub fn find_or_create(&self, broker: &Broker, group: &str) -> Result<Arc<HostedGroup>, ErrorCode> {
        self.home_of(broker, group)?.find_or_create(group, self)
    }

    fn home_of(&self, broker: &Broker, group: &str) -> Result<Arc<OffsetsPartition>, ErrorCode> {
        let partition = self.partition_for(broker, group);
        self.partitions.read().led.get(&partition).cloned().ok_or(ErrorCode::NotCoordinator)
    }

    /// All groups here, and whether more are being read from the log.
    pub fn all(&self) -> (Vec<Arc<HostedGroup>>, bool) {
        let led: Vec<_> = self.partitions.read().led.values().cloned().collect();
        let mut loading = false;
        let mut groups = Vec::new();
        for partition in led {
            match partition.all() {
                Ok(some) => groups.extend(some),
                Err(error) => loading |= error == ErrorCode::CoordinatorLoadInProgress,
            }
        }
        (groups, loading)
    }

    /// This broker leads a partition of the offsets topic from now on, or goes on doing so in a newer epoch.
    pub fn elected(&self, broker: &Arc<Broker>, hosted: &Arc<HostedPartition>, epoch: LeaderEpoch) {
        let number = hosted.name().partition;
        let mut partitions = self.partitions.write();
        if !partitions.is_news(number, epoch) {
            return;
        }
        if partitions.led.get(&number).is_some_and(|led| Arc::ptr_eq(led.hosted(), hosted)) {
            return;
        }
        let partition = Arc::new(OffsetsPartition::new(hosted.clone()));
        let replaced = partitions.led.insert(number, partition.clone());
        drop(partitions);
        self.unload(replaced);
        tokio::spawn(offsets_partition::complete_appends(broker.clone(), partition.clone()));
        loading::begin(broker.clone(), partition, self.loading.clone());
    }

    /// Another broker leads a partition of the offsets topic, or nobody does. A negative epoch ends them all.
    pub fn resigned(&self, partition: &TopicPartition, epoch: LeaderEpoch) {
        let mut partitions = self.partitions.write();
        if epoch < LeaderEpoch(0) {
            // The topic is deleted; should it be made again, epochs begin again.
            partitions.epochs.remove(&partition.partition);
        } else if !partitions.is_news(partition.partition, epoch) {
            return;
        }
        let given_up = partitions.led.remove(&partition.partition);
        drop(partitions);
        self.unload(given_up);
    }

    /// Tells everyone who waits that the groups are elsewhere now; there may be many, so not while the caller waits.
    fn unload(&self, partition: Option<Arc<OffsetsPartition>>) {
        let Some(partition) = partition else { return };
        let now = self.now();
        tokio::task::spawn_blocking(move || partition.unload(now));
    }

    /// Gives everything up, as the broker stops.
    pub fn close(&self) {
        let led = std::mem::take(&mut self.partitions.write().led);
        for partition in led.into_values() {
            partition.unload(self.now());
        }
    }

    /// Topics are deleted, and nobody can want offsets of them any more.
    pub fn partitions_deleted(&self, broker: &Arc<Broker>, deleted: Vec<TopicPartition>) {
        if deleted.is_empty() || self.partitions.read().led.is_empty() {
            return;
        }
        let broker = broker.clone();
        tokio::task::spawn_blocking(move || {
            let coordinator = &broker.groups;
            for group in coordinator.all().0 {
                group.forget_offsets(coordinator, &deleted);
            }
        });
    }
}

impl Partitions {
    /// Notes the epoch, unless a newer one is known.
    fn is_news(&mut self, partition: i32, epoch: LeaderEpoch) -> bool {
        let known = self.epochs.entry(partition).or_insert(epoch);
        let is_news = epoch >= *known;
        *known = epoch.max(*known);
        is_news
    }
}

/// Carries out what is due, until the broker stops.
pub async fn run(broker: Arc<Broker>, mut stopped: watch::Receiver<bool>) {
    tokio::select! {
        () = stopping(&mut stopped) => {}
        () = timers::run(&broker) => {}
        () = expiry::run(&broker) => {}
    }
}

fn record_versions(protocol: ProtocolVersion) -> RecordVersions {
    let newest = |steps: &[ProtocolVersion]| steps.iter().filter(|step| protocol >= **step).count() as i16;
    use ProtocolVersion as V;
    RecordVersions {
        offset: 1 + newest(&[V::V2_1_IV0, V::V2_1_IV1]),
        group: newest(&[V::V0_10_1_IV0, V::V2_1_IV0, V::V2_3_IV0]),
    }
}

/// By its number, which was checked when the configuration was read.
fn codec(number: i32) -> Codec {
    match number {
        1 => Codec::Gzip,
        2 => Codec::Snappy,
        3 => Codec::Lz4,
        4 => Codec::Zstd,
        _ => Codec::None,
    }
}

/// `abs(id.hashCode()) % count`, as Java counts.
fn partition_of(group: &str, count: i32) -> i32 {
    let hash = group.encode_utf16().fold(0i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(unit.into()));
    hash.checked_abs().unwrap_or(0) % count.max(1)
}

/// What the client is told when the record of a group could not be written.
fn store_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::RequestTimedOut => ErrorCode::RebalanceInProgress,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::UnknownServerError
        }
        other => other,
    }
}

/// What the client is told when its offsets could not be written.
fn commit_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::InvalidCommitOffsetSize
        }
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_live_where_java_puts_them() {
        for (group, partition) in [
            ("test", 48),
            ("my-group", 12),
            ("console-consumer-1", 24),
            // Its hash is the one number that has no absolute value.
            ("polygenelubricants", 0),
            ("", 0),
        ] {
            assert_eq!(partition_of(group, 50), partition, "{group}");
        }
    }

    #[test]
    fn values_are_written_so_that_the_oldest_broker_can_read_them() {
        for (protocol, offset, group) in [
            ("0.9.0", 1, 0),
            ("0.10.1", 1, 1),
            ("2.0", 1, 1),
            ("2.1-IV0", 2, 2),
            ("2.1", 3, 2),
            ("2.3", 3, 3),
            ("3.9", 3, 3),
        ] {
            let versions = record_versions(protocol.parse().unwrap());
            assert_eq!(versions, RecordVersions { offset, group }, "{protocol}");
        }
    }

    #[test]
    fn news_of_older_epochs_are_none() {
        let mut partitions = Partitions::default();
        let told: Vec<bool> = [3, 3, 2, 4].map(|epoch| partitions.is_news(0, LeaderEpoch(epoch))).into();
        assert_eq!(told, [true, true, false, true]);
        assert!(partitions.is_news(1, LeaderEpoch(0)), "each partition has its own");
    }
}
