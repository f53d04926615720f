//! Reading a partition of `__consumer_offsets` when this broker comes to lead it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use ottla_files::{File, FileError};
use ottla_group::{Group, Replay, Skipped};
use ottla_model::Offset;
use ottla_protocol::records::{Batches, CorruptBatch};
use tokio::sync::Semaphore;

use super::offsets_partition::OffsetsPartition;
use crate::hosted_partition::{Found, HostedPartition, ReadFailure, ReadRequest, Reader, Unavailable};
use crate::server::Broker;

/// How long until what could not be read is tried again.
const RETRY_PAUSE: Duration = Duration::from_secs(5);

/// Why a partition could not be read to its end.
#[derive(Debug, thiserror::Error)]
enum LoadFailure {
    #[error(transparent)]
    Read(#[from] ReadFailure),
    #[error(transparent)]
    Unavailable(#[from] Unavailable),
    #[error(transparent)]
    File(#[from] FileError),
    #[error("damaged at offset {at}: {source}")]
    Damaged { at: Offset, source: CorruptBatch },
}

struct Loaded {
    groups: Vec<Group>,
    skipped: Skipped,
    bytes: u64,
}

/// Reads the partition and opens it for requests, unless leadership goes first.
///
/// What cannot be read is tried again, and until then nobody hears of offsets that are not the last ones.
pub fn begin(broker: Arc<Broker>, partition: Arc<OffsetsPartition>, turns: Arc<Semaphore>) {
    if is_empty(partition.hosted()) {
        partition.loaded(Vec::new(), &broker.groups);
        return;
    }
    tokio::spawn(async move {
        while !partition.is_gone() {
            let Ok(turn) = turns.clone().acquire_owned().await else { return };
            let (reader, from) = (broker.clone(), partition.clone());
            let begun = Instant::now();
            let read = tokio::task::spawn_blocking(move || read(&reader, &from)).await;
            drop(turn);
            let name = partition.hosted().name();
            match read {
                Ok(Ok(Some(loaded))) => {
                    tell(partition.hosted(), &loaded, begun.elapsed());
                    partition.loaded(loaded.groups, &broker.groups);
                    return;
                }
                Ok(Ok(None)) => return,
                Ok(Err(error)) => tracing::error!(
                    partition = %name, %error,
                    "cannot load groups and offsets, their clients wait; restart this broker to have the log recovered, \
                     or move the partition's leadership"
                ),
                Err(error) => tracing::error!(partition = %name, %error, "loading groups and offsets failed"),
            }
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    });
}

fn is_empty(hosted: &HostedPartition) -> bool {
    hosted.watermarks().is_ok_and(|watermarks| watermarks.log_start == watermarks.log_end)
}

fn tell(hosted: &HostedPartition, loaded: &Loaded, took: Duration) {
    let Loaded { groups, skipped, bytes } = loaded;
    let offsets: usize = groups.iter().map(|group| group.offsets.iter().count()).sum();
    tracing::info!(
        groups = groups.len(),
        offsets,
        bytes,
        "Finished loading offsets and group metadata from {} in {} milliseconds",
        hosted.name(),
        took.as_millis()
    );
    for (key_version, count) in &skipped.other_keys {
        tracing::warn!(partition = %hosted.name(), key_version, count, "records of a newer kind of group passed over");
    }
    if let Some((offset, fault)) = &skipped.first_fault {
        let (count, first) = (skipped.unreadable, offset);
        tracing::error!(partition = %hosted.name(), count, %first, %fault, "records that cannot be read passed over");
    }
}

/// Replays the log, `offsets.load.buffer.size` bytes at a time. `None` if leadership went meanwhile.
fn read(broker: &Broker, partition: &OffsetsPartition) -> Result<Option<Loaded>, LoadFailure> {
    let hosted = partition.hosted();
    let mut replay = Replay::new(broker.groups.groups);
    let mut position = hosted.watermarks()?.log_start;
    let mut total = 0;
    let mut buffer = Vec::new();
    loop {
        if partition.is_gone() {
            return Ok(None);
        }
        let request = ReadRequest {
            // Records that are not committed yet have been promised to nobody, but may come to be committed.
            reader: Reader::Debugger,
            offset: position,
            bytes_max: broker.config.offsets.load_buffer_bytes as u64,
            at_least_one: true,
            leader_epoch: None,
            last_fetched_epoch: None,
            log_start_offset: Offset::ZERO,
            now: broker.now(),
        };
        let Found::Records { region: Some(region), .. } = hosted.read(&request)?.records else { break };
        buffer.resize(region.bytes as usize, 0);
        region.file.read_exact_at(&mut buffer, region.position)?;
        total += region.bytes;
        let before = position;
        for batch in Batches::new(&buffer) {
            let damaged = |source| LoadFailure::Damaged { at: position, source };
            let batch = batch.map_err(damaged)?;
            batch.check_crc().map_err(damaged)?;
            position = batch.header().next_offset();
            if let Err(error) = replay.batch(&batch) {
                let offset = batch.header().base_offset;
                tracing::error!(partition = %hosted.name(), %offset, %error, "batch that cannot be read passed over");
            }
        }
        if position == before {
            break;
        }
    }
    let (groups, skipped) = replay.finish(broker.groups.now());
    Ok(Some(Loaded { groups, skipped, bytes: total }))
}
