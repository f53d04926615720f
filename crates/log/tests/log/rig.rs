//! What the tests drive a log with.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use ottla_files::{Disk, File, Files, HostileDisk};
use ottla_log::{Appended, Log, LogConfig, Opening, Read, Recovered};
use ottla_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::compression::Codec;
use ottla_protocol::records::validate::{AppendOrigin, TopicRules, Validated, validate};
use ottla_protocol::records::{
    Batch, BatchBuilder, Batches, EndTransactionMarker, ProducerState, TransactionResult,
};

pub const NOW: Timestamp = Timestamp(1_700_000_000_000);

/// A directory of the disk of this machine, removed at the end.
pub struct RealDirectory(tempfile::TempDir);

pub fn real_directory() -> RealDirectory {
    RealDirectory(tempfile::tempdir().unwrap())
}

impl RealDirectory {
    pub fn partition(&self) -> PathBuf {
        self.0.path().join("orders-0")
    }

    pub fn open(&self, config: LogConfig) -> Log<Disk> {
        open(Disk, &self.partition(), config, clean()).0
    }
}

pub fn open<F: Files>(files: F, path: &Path, config: LogConfig, opening: Opening) -> (Log<F>, Recovered) {
    Log::open(files, path, config, opening, NOW).unwrap()
}

pub fn clean() -> Opening {
    Opening {
        recovery_point: Offset(0),
        log_start_offset: Offset(0),
        clean: true,
        compacted: false,
        jitter_seed: 0,
    }
}

pub fn unclean(recovery_point: i64) -> Opening {
    Opening { recovery_point: Offset(recovery_point), clean: false, ..clean() }
}

/// Where logs lie on a hostile disk.
pub fn hostile_partition() -> PathBuf {
    PathBuf::from("/data/orders-0")
}

pub fn hostile(seed: u64) -> HostileDisk {
    let disk = HostileDisk::new(seed);
    disk.create_directory(Path::new("/data")).unwrap();
    disk.sync_directory(Path::new("/")).unwrap();
    disk
}

/// Small limits, so that few records make many segments and index entries.
pub fn small() -> LogConfig {
    LogConfig {
        segment_bytes: 2000,
        index_interval_bytes: 100,
        segment_index_bytes: 240,
        ..LogConfig::default()
    }
}

/// Kafka's limits, but for index files that a disk in memory is quick to make.
pub fn roomy() -> LogConfig {
    LogConfig { segment_index_bytes: 4800, ..LogConfig::default() }
}

/// Timestamps of records, with a value that names them.
pub fn batch(timestamps: &[i64]) -> BatchBuilder {
    let mut builder = BatchBuilder::new();
    for timestamp in timestamps {
        builder.append(Timestamp(*timestamp), None, Some(timestamp.to_string().as_bytes()), &[]);
    }
    builder
}

pub fn compressed(codec: Codec, timestamps: &[i64]) -> BatchBuilder {
    let mut builder = BatchBuilder::new().with_compression(codec);
    for timestamp in timestamps {
        builder.append(Timestamp(*timestamp), None, Some(timestamp.to_string().as_bytes()), &[]);
    }
    builder
}

/// `count` records of one producer.
pub fn produced(id: i64, epoch: i16, base_sequence: i32, count: usize) -> BatchBuilder {
    let mut builder = batch(&vec![NOW.0; count]);
    builder.set_producer(producer(id, epoch, base_sequence));
    builder
}

pub fn producer(id: i64, epoch: i16, base_sequence: i32) -> ProducerState {
    ProducerState { id: ProducerId(id), epoch: ProducerEpoch(epoch), base_sequence }
}

pub fn transactional(id: i64, epoch: i16, base_sequence: i32, count: usize) -> BatchBuilder {
    let mut builder = batch(&vec![NOW.0; count]).with_transactional(true);
    builder.set_producer(producer(id, epoch, base_sequence));
    builder
}

pub fn valid(mut builder: BatchBuilder) -> Validated {
    valid_bytes(builder.finish(), AppendOrigin::Client)
}

pub fn valid_bytes(bytes: Bytes, origin: AppendOrigin) -> Validated {
    validate(&bytes, origin, &TopicRules::default(), NOW).unwrap().unwrap()
}

pub fn append<F: Files>(log: &mut Log<F>, builder: BatchBuilder) -> Appended {
    log.append_as_leader(valid(builder), LeaderEpoch(0), AppendOrigin::Client, NOW).unwrap()
}

pub fn end_transaction<F: Files>(
    log: &mut Log<F>,
    id: i64,
    epoch: i16,
    result: TransactionResult,
) -> Appended {
    let marker = EndTransactionMarker { result, coordinator_epoch: 7 };
    let bytes = marker.to_batch(Offset(0), NOW, ProducerId(id), ProducerEpoch(epoch));
    let records = valid_bytes(bytes, AppendOrigin::Coordinator);
    let epoch = log.leader_epochs().latest().map_or(LeaderEpoch(0), |latest| latest.epoch);
    log.append_as_leader(records, epoch, AppendOrigin::Coordinator, NOW).unwrap()
}

pub fn bytes_of<F: Files>(read: &Read<F>) -> Vec<u8> {
    let Some(region) = &read.region else { return Vec::new() };
    let mut bytes = vec![0; region.bytes as usize];
    region.file.read_exact_at(&mut bytes, region.position).unwrap();
    bytes
}

/// Offset and value of each record in whole batches of `bytes`, every crc checked.
pub fn records_in(bytes: &[u8]) -> Vec<(i64, String)> {
    let mut records = Vec::new();
    for batch in Batches::new(bytes) {
        let batch = batch.unwrap();
        batch.check_crc().unwrap();
        records.extend(records_of(&batch));
    }
    records
}

fn records_of(batch: &Batch<'_>) -> Vec<(i64, String)> {
    let records = batch.records(1 << 20).unwrap();
    records
        .iter()
        .unwrap()
        .map(|record| {
            let record = record.unwrap();
            (record.offset.0, String::from_utf8_lossy(record.value.unwrap_or_default()).into_owned())
        })
        .collect()
}

/// All records from `start` up to `end`, read piece by piece.
pub fn read_all<F: Files>(log: &Log<F>, start: Offset, end: Offset) -> Vec<(i64, String)> {
    let mut records: Vec<(i64, String)> = Vec::new();
    let mut next = start;
    while next < end {
        let read = log.read(next, end, 300, true).unwrap();
        let found = records_in(&bytes_of(&read));
        let Some(last) = found.last() else { break };
        next = Offset(last.0 + 1);
        records.extend(found.into_iter().filter(|record| record.0 >= start.0));
    }
    records
}

/// Names in a partition's directory, sorted.
pub fn names<F: Files>(files: &F, path: &Path) -> Vec<String> {
    let mut names: Vec<String> = files.list(path).unwrap().into_iter().map(|entry| entry.name).collect();
    names.sort();
    names
}
