//! What a partition remembers of idempotent and transactional producers (KIP-98).
//!
//! ```text
//! client batch --> duplicate()? --yes--> the offsets it got before; nothing is appended
//!                      | no
//!                  prepare()   epoch, sequence and transaction rules; changes nothing
//!                      |
//!                  (the batch is written)
//!                      |
//!                  apply()     the one writer; replay after a restart ends here too
//! ```
//!
//! Bounded by the clients: about 200 bytes for each producer id that was active within
//! `producer.id.expiration.ms`.

use std::collections::BTreeMap;

use ottla_model::{Offset, ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::ErrorCode;
use ottla_protocol::records::batch::{NO_PRODUCER_EPOCH, NO_SEQUENCE};
use ottla_protocol::records::{BatchHeader, EndTransactionMarker, TransactionResult};

use crate::transaction_index::AbortedTransaction;

/// How many batches of a producer are remembered: as many as a client may have under way at once.
pub const BATCHES_REMEMBERED: usize = 5;

const NO_COORDINATOR_EPOCH: i32 = -1;

/// Who asks for an append; decides which rules apply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A producer: everything is checked.
    Client,
    /// The transaction coordinator, with markers: epochs are checked, there are no sequences.
    Coordinator,
    /// The leader or the log itself: it was checked before, so it is only remembered.
    Replication,
}

/// What one appended batch means for its producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProducerBatch {
    pub producer_id: ProducerId,
    pub epoch: ProducerEpoch,
    pub content: ProducerContent,
    /// Offset of the first record; a marker has only one.
    pub base_offset: Offset,
    pub last_offset: Offset,
    /// Largest timestamp of the batch.
    pub timestamp: Timestamp,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ProducerContent {
    Data { base_sequence: i32, last_sequence: i32, transactional: bool },
    Marker(EndTransactionMarker),
}

impl ProducerBatch {
    /// What a data batch means; `None` without a producer id.
    pub fn data(header: &BatchHeader) -> Option<ProducerBatch> {
        let content = ProducerContent::Data {
            base_sequence: header.base_sequence,
            last_sequence: header.last_sequence(),
            transactional: header.is_transactional(),
        };
        Self::of(header, content)
    }

    /// What a control batch means.
    pub fn marker(header: &BatchHeader, marker: EndTransactionMarker) -> Option<ProducerBatch> {
        Self::of(header, ProducerContent::Marker(marker))
    }

    fn of(header: &BatchHeader, content: ProducerContent) -> Option<ProducerBatch> {
        header.has_producer_id().then(|| ProducerBatch {
            producer_id: header.producer_id,
            epoch: header.producer_epoch,
            content,
            base_offset: header.base_offset,
            last_offset: header.last_offset(),
            timestamp: header.max_timestamp,
        })
    }
}

/// Why a producer's batch or marker was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    #[error(
        "epoch {got} of producer {producer_id} is behind {current}: a newer life of the producer has fenced it"
    )]
    InvalidEpoch { producer_id: ProducerId, got: ProducerEpoch, current: ProducerEpoch },
    #[error(
        "producer {producer_id} sent sequence {got} where {expected} was expected: a batch before it was \
         lost, or it is an old duplicate"
    )]
    OutOfOrderSequence { producer_id: ProducerId, got: i32, expected: i32 },
    #[error(
        "producer {producer_id} sent a batch outside of its transaction, which is open since offset {since}"
    )]
    TransactionOpen { producer_id: ProducerId, since: Offset },
    #[error(
        "marker for producer {producer_id} comes from coordinator epoch {got}, which is behind {current}"
    )]
    CoordinatorFenced { producer_id: ProducerId, got: i32, current: i32 },
}

impl ProducerError {
    pub fn code(&self) -> ErrorCode {
        match self {
            ProducerError::InvalidEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            ProducerError::OutOfOrderSequence { .. } => ErrorCode::OutOfOrderSequenceNumber,
            ProducerError::TransactionOpen { .. } => ErrorCode::InvalidTxnState,
            ProducerError::CoordinatorFenced { .. } => ErrorCode::TransactionCoordinatorFenced,
        }
    }
}

/// A batch that a producer got in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct BatchMetadata {
    pub last_sequence: i32,
    pub last_offset: Offset,
    /// Last offset minus first offset.
    pub offset_delta: i32,
    pub timestamp: Timestamp,
}

impl BatchMetadata {
    pub fn first_offset(&self) -> Offset {
        Offset(self.last_offset.0.wrapping_sub(i64::from(self.offset_delta)))
    }

    /// Sequences wrap from 2147483647 to 0, backwards too.
    fn first_sequence(&self) -> i32 {
        self.last_sequence.wrapping_sub(self.offset_delta) & i32::MAX
    }
}

/// What is known of one producer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerEntry {
    pub epoch: ProducerEpoch,
    pub last_timestamp: Timestamp,
    /// Of the last marker; -1 before the first.
    pub coordinator_epoch: i32,
    /// First offset of the transaction that is open on this partition.
    pub transaction_start: Option<Offset>,
    /// The oldest first.
    batches: [BatchMetadata; BATCHES_REMEMBERED],
    batch_count: u8,
}

impl ProducerEntry {
    const UNKNOWN: ProducerEntry = ProducerEntry {
        epoch: NO_PRODUCER_EPOCH,
        last_timestamp: Timestamp::NONE,
        coordinator_epoch: NO_COORDINATOR_EPOCH,
        transaction_start: None,
        batches: [BatchMetadata {
            last_sequence: 0,
            last_offset: Offset::ZERO,
            offset_delta: 0,
            timestamp: Timestamp(0),
        }; BATCHES_REMEMBERED],
        batch_count: 0,
    };

    /// The remembered batches, the oldest first.
    pub fn batches(&self) -> &[BatchMetadata] {
        &self.batches[..usize::from(self.batch_count)]
    }

    pub fn last_batch(&self) -> Option<&BatchMetadata> {
        self.batches().last()
    }

    fn last_sequence(&self) -> i32 {
        self.last_batch().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    fn set_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batch_count = 0;
        }
    }

    fn remember(&mut self, batch: BatchMetadata) {
        if usize::from(self.batch_count) == BATCHES_REMEMBERED {
            self.batches.copy_within(1.., 0);
            self.batch_count -= 1;
        }
        self.batches[usize::from(self.batch_count)] = batch;
        self.batch_count += 1;
    }
}

/// A transaction that a marker has ended on this partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct CompletedTransaction {
    pub producer_id: ProducerId,
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    pub result: TransactionResult,
}

/// The outcome of an append that is allowed, to be applied once it is written.
#[derive(Debug, Default)]
pub(crate) struct Prepared {
    entries: Vec<(ProducerId, ProducerEntry)>,
    started: Vec<(Offset, ProducerId)>,
    completed: Vec<CompletedTransaction>,
}

/// The producers of one partition.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ProducerStates {
    producers: BTreeMap<ProducerId, ProducerEntry>,
    /// Open transactions by their first offset.
    ongoing: BTreeMap<Offset, ProducerId>,
    /// Completed transactions by their first offset, with that of the marker: as long as the marker may still
    /// be lost, their records are not stable.
    unreplicated: BTreeMap<Offset, Offset>,
}

impl ProducerStates {
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    pub fn get(&self, producer_id: ProducerId) -> Option<&ProducerEntry> {
        self.producers.get(&producer_id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (ProducerId, &ProducerEntry)> {
        self.producers.iter().map(|(id, entry)| (*id, entry))
    }

    /// The batch that `batch` repeats, if it is one of the last five of its producer's epoch.
    pub(crate) fn duplicate(&self, batch: &ProducerBatch) -> Option<BatchMetadata> {
        let ProducerContent::Data { base_sequence, last_sequence, .. } = batch.content else { return None };
        let entry = self.producers.get(&batch.producer_id).filter(|entry| entry.epoch == batch.epoch)?;
        entry
            .batches()
            .iter()
            .find(|known| known.first_sequence() == base_sequence && known.last_sequence == last_sequence)
            .copied()
    }

    /// Decides on the batches of one append, in order, and changes nothing. Never refuses what is replicated.
    pub(crate) fn prepare(
        &self,
        batches: impl IntoIterator<Item = ProducerBatch>,
        origin: Origin,
    ) -> Result<Prepared, ProducerError> {
        let mut prepared = Prepared::default();
        for batch in batches {
            let before = self.producers.get(&batch.producer_id).copied().unwrap_or(ProducerEntry::UNKNOWN);
            let place = prepared.entries.iter().position(|(id, _)| *id == batch.producer_id);
            let mut entry = place.map_or(before, |place| prepared.entries[place].1);
            check_epoch(&batch, &entry, origin)?;
            match batch.content {
                ProducerContent::Data { base_sequence, last_sequence, transactional } => {
                    if origin == Origin::Client {
                        check_sequence(&batch, base_sequence, &entry, &before)?;
                    }
                    entry.set_epoch(batch.epoch);
                    entry.remember(BatchMetadata {
                        last_sequence,
                        last_offset: batch.last_offset,
                        offset_delta: (batch.last_offset.0.wrapping_sub(batch.base_offset.0)) as i32,
                        timestamp: batch.timestamp,
                    });
                    entry.last_timestamp = batch.timestamp;
                    match entry.transaction_start {
                        Some(since) if !transactional && origin != Origin::Replication => {
                            return Err(ProducerError::TransactionOpen {
                                producer_id: batch.producer_id,
                                since,
                            });
                        }
                        None if transactional => {
                            entry.transaction_start = Some(batch.base_offset);
                            prepared.started.push((batch.base_offset, batch.producer_id));
                        }
                        Some(_) | None => {}
                    }
                }
                ProducerContent::Marker(marker) => {
                    if origin != Origin::Replication && marker.coordinator_epoch < entry.coordinator_epoch {
                        return Err(ProducerError::CoordinatorFenced {
                            producer_id: batch.producer_id,
                            got: marker.coordinator_epoch,
                            current: entry.coordinator_epoch,
                        });
                    }
                    entry.set_epoch(batch.epoch);
                    entry.coordinator_epoch = marker.coordinator_epoch;
                    entry.last_timestamp = batch.timestamp;
                    if let Some(first_offset) = entry.transaction_start.take() {
                        prepared.completed.push(CompletedTransaction {
                            producer_id: batch.producer_id,
                            first_offset,
                            last_offset: batch.last_offset,
                            result: marker.result,
                        });
                    }
                }
            }
            match place {
                Some(place) => prepared.entries[place].1 = entry,
                None => prepared.entries.push((batch.producer_id, entry)),
            }
        }
        Ok(prepared)
    }

    /// Remembers an append. Returns what belongs into the transaction index.
    pub(crate) fn apply(&mut self, prepared: Prepared) -> Vec<AbortedTransaction> {
        self.producers.extend(prepared.entries);
        self.ongoing.extend(prepared.started);
        let mut aborted = Vec::new();
        for transaction in prepared.completed {
            self.ongoing.remove(&transaction.first_offset);
            if transaction.result == TransactionResult::Abort {
                let oldest_open = self.ongoing.keys().next().copied();
                aborted.push(AbortedTransaction {
                    producer_id: transaction.producer_id,
                    first_offset: transaction.first_offset,
                    last_offset: transaction.last_offset,
                    last_stable_offset: oldest_open.unwrap_or(transaction.last_offset.plus(1)),
                });
            }
            self.unreplicated.insert(transaction.first_offset, transaction.last_offset);
        }
        aborted
    }

    /// The first offset whose outcome is open, or could be lost again, while everything below
    /// `high_watermark` is replicated.
    pub fn first_unstable_offset(&self, high_watermark: Offset) -> Option<Offset> {
        let ongoing = self.ongoing.keys().next();
        let unreplicated =
            self.unreplicated.iter().find(|(_, marker)| **marker >= high_watermark).map(|(first, _)| first);
        ongoing.into_iter().chain(unreplicated).min().copied()
    }

    /// Forgets completed transactions whose marker lies below `offset`: the high watermark, or a new log start.
    pub(crate) fn forget_replicated(&mut self, offset: Offset) {
        if !self.unreplicated.is_empty() {
            self.unreplicated.retain(|_, marker| *marker >= offset);
        }
    }

    /// Forgets producers that were idle for `expiration_ms`; one with an open transaction stays.
    pub(crate) fn expire(&mut self, now: Timestamp, expiration_ms: i64) {
        self.producers.retain(|_, entry| !is_expired(entry, now, expiration_ms));
    }

    /// The content of a `.snapshot` file. Only the last batch of each producer is in it.
    pub fn encode_snapshot(&self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(SNAPSHOT_HEADER + self.producers.len() * SNAPSHOT_ENTRY);
        bytes.extend(SNAPSHOT_VERSION.to_be_bytes());
        bytes.extend([0; 4]);
        bytes.extend((self.producers.len() as i32).to_be_bytes());
        for (producer_id, entry) in &self.producers {
            let last = entry.last_batch();
            bytes.extend(producer_id.0.to_be_bytes());
            bytes.extend(entry.epoch.0.to_be_bytes());
            bytes.extend(entry.last_sequence().to_be_bytes());
            bytes.extend(last.map_or(-1, |batch| batch.last_offset.0).to_be_bytes());
            bytes.extend(last.map_or(0, |batch| batch.offset_delta).to_be_bytes());
            bytes.extend(entry.last_timestamp.0.to_be_bytes());
            bytes.extend(entry.coordinator_epoch.to_be_bytes());
            bytes.extend(entry.transaction_start.map_or(-1, |first| first.0).to_be_bytes());
        }
        let crc = crc_fast::crc32_iscsi(&bytes[SNAPSHOT_CRC_END..]);
        bytes[2..SNAPSHOT_CRC_END].copy_from_slice(&crc.to_be_bytes());
        bytes
    }

    /// Reads a `.snapshot` file, without the producers that have expired meanwhile.
    pub fn decode_snapshot(
        bytes: &[u8],
        now: Timestamp,
        expiration_ms: i64,
    ) -> Result<ProducerStates, DamagedSnapshot> {
        let (header, entries) =
            bytes.split_first_chunk::<SNAPSHOT_HEADER>().ok_or(DamagedSnapshot::Short(bytes.len()))?;
        let [v, w, crc @ .., c, o, u, n] = *header;
        let version = i16::from_be_bytes([v, w]);
        if version != SNAPSHOT_VERSION {
            return Err(DamagedSnapshot::Version(version));
        }
        let computed = crc_fast::crc32_iscsi(&bytes[SNAPSHOT_CRC_END..]);
        let stored = u32::from_be_bytes(crc);
        if computed != stored {
            return Err(DamagedSnapshot::Crc { stored, computed });
        }
        let count = i32::from_be_bytes([c, o, u, n]);
        let (entries, rest) = entries.as_chunks::<SNAPSHOT_ENTRY>();
        if !rest.is_empty() || i32::try_from(entries.len()) != Ok(count) {
            return Err(DamagedSnapshot::Count { count, bytes: bytes.len() });
        }
        let mut states = ProducerStates::default();
        for bytes in entries {
            let (producer_id, entry) = decode_entry(bytes);
            if is_expired(&entry, now, expiration_ms) {
                continue;
            }
            if let Some(first) = entry.transaction_start {
                states.ongoing.insert(first, producer_id);
            }
            states.producers.insert(producer_id, entry);
        }
        Ok(states)
    }
}

fn check_epoch(batch: &ProducerBatch, entry: &ProducerEntry, origin: Origin) -> Result<(), ProducerError> {
    if batch.epoch < entry.epoch && origin != Origin::Replication {
        let (producer_id, got, current) = (batch.producer_id, batch.epoch, entry.epoch);
        return Err(ProducerError::InvalidEpoch { producer_id, got, current });
    }
    Ok(())
}

/// `entry` has seen the batches before this one in the same append, `before` has not.
fn check_sequence(
    batch: &ProducerBatch,
    got: i32,
    entry: &ProducerEntry,
    before: &ProducerEntry,
) -> Result<(), ProducerError> {
    let out_of_order =
        |expected| Err(ProducerError::OutOfOrderSequence { producer_id: batch.producer_id, got, expected });
    if batch.epoch != entry.epoch {
        // A new life begins at 0. A producer that the partition knows nothing of may begin anywhere: what was
        // known may have expired, or have been deleted with its records.
        return if got == 0 || entry.epoch == NO_PRODUCER_EPOCH { Ok(()) } else { out_of_order(0) };
    }
    if before.epoch == NO_PRODUCER_EPOCH {
        return Ok(());
    }
    let expected = entry.last_sequence().wrapping_add(1) & i32::MAX;
    if got == expected { Ok(()) } else { out_of_order(expected) }
}

fn is_expired(entry: &ProducerEntry, now: Timestamp, expiration_ms: i64) -> bool {
    entry.transaction_start.is_none() && now.0.saturating_sub(entry.last_timestamp.0) >= expiration_ms
}

const SNAPSHOT_VERSION: i16 = 1;
const SNAPSHOT_CRC_END: usize = 6;
const SNAPSHOT_HEADER: usize = 10;
const SNAPSHOT_ENTRY: usize = 46;

/// Why a `.snapshot` file tells nothing; an older one and a longer replay take its place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DamagedSnapshot {
    #[error("it has only {0} bytes")]
    Short(usize),
    #[error("its version is {0}")]
    Version(i16),
    #[error("its crc is {stored:#010x} but the bytes give {computed:#010x}")]
    Crc { stored: u32, computed: u32 },
    #[error("it announces {count} producers in {bytes} bytes")]
    Count { count: i32, bytes: usize },
}

fn decode_entry(bytes: &[u8; SNAPSHOT_ENTRY]) -> (ProducerId, ProducerEntry) {
    let i64_at = |at: usize| i64::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
    let i32_at = |at: usize| i32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
    let timestamp = Timestamp(i64_at(26));
    let mut entry = ProducerEntry {
        epoch: ProducerEpoch(i16::from_be_bytes([bytes[8], bytes[9]])),
        last_timestamp: timestamp,
        coordinator_epoch: i32_at(34),
        transaction_start: Some(i64_at(38)).filter(|first| *first >= 0).map(Offset),
        ..ProducerEntry::UNKNOWN
    };
    let last_offset = i64_at(14);
    if last_offset >= 0 {
        entry.remember(BatchMetadata {
            last_sequence: i32_at(10),
            last_offset: Offset(last_offset),
            offset_delta: i32_at(22),
            timestamp,
        });
    }
    (ProducerId(i64_at(0)), entry)
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_700_000_000_000);
    const DAY_MS: i64 = 24 * 60 * 60 * 1000;

    fn data(epoch: i16, base_sequence: i32, count: i32, base_offset: i64) -> ProducerBatch {
        ProducerBatch {
            producer_id: ProducerId(4000),
            epoch: ProducerEpoch(epoch),
            content: ProducerContent::Data {
                base_sequence,
                last_sequence: base_sequence.wrapping_add(count - 1) & i32::MAX,
                transactional: false,
            },
            base_offset: Offset(base_offset),
            last_offset: Offset(base_offset + i64::from(count) - 1),
            timestamp: NOW,
        }
    }

    fn transactional(mut batch: ProducerBatch) -> ProducerBatch {
        if let ProducerContent::Data { transactional, .. } = &mut batch.content {
            *transactional = true;
        }
        batch
    }

    fn marker(epoch: i16, coordinator_epoch: i32, result: TransactionResult, offset: i64) -> ProducerBatch {
        ProducerBatch {
            content: ProducerContent::Marker(EndTransactionMarker { result, coordinator_epoch }),
            ..data(epoch, NO_SEQUENCE, 1, offset)
        }
    }

    fn of(producer_id: i64, batch: ProducerBatch) -> ProducerBatch {
        ProducerBatch { producer_id: ProducerId(producer_id), ..batch }
    }

    /// Producers that have seen these batches.
    fn seen(batches: &[ProducerBatch]) -> ProducerStates {
        let mut states = ProducerStates::default();
        for batch in batches {
            let prepared = states.prepare([*batch], Origin::Replication).unwrap();
            states.apply(prepared);
        }
        states
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|b| format!("{b:02x}")).collect()
    }

    #[test]
    fn sequences_follow_one_another() {
        use ErrorCode::{InvalidProducerEpoch, OutOfOrderSequenceNumber};
        let max = i32::MAX;
        for (why, before, batch, refused) in [
            ("an unknown producer may begin anywhere", vec![], data(5, 70, 1, 0), None),
            ("the next", vec![data(5, 0, 3, 0)], data(5, 3, 1, 3), None),
            ("a gap", vec![data(5, 0, 3, 0)], data(5, 4, 1, 3), Some(OutOfOrderSequenceNumber)),
            (
                "overlapping the last",
                vec![data(5, 0, 3, 0)],
                data(5, 2, 2, 3),
                Some(OutOfOrderSequenceNumber),
            ),
            ("0 follows the largest", vec![data(5, max - 1, 2, 0)], data(5, 0, 1, 2), None),
            ("a batch that wraps", vec![data(5, max - 1, 4, 0)], data(5, 2, 1, 4), None),
            ("not 1", vec![data(5, max - 1, 2, 0)], data(5, 1, 1, 2), Some(OutOfOrderSequenceNumber)),
            ("a new epoch begins at 0", vec![data(5, 0, 3, 0)], data(6, 0, 1, 3), None),
            ("and nowhere else", vec![data(5, 0, 3, 0)], data(6, 3, 1, 3), Some(OutOfOrderSequenceNumber)),
            ("an old epoch is fenced", vec![data(5, 0, 3, 0)], data(4, 0, 1, 3), Some(InvalidProducerEpoch)),
            (
                "after a marker alone, 0",
                vec![marker(5, 7, TransactionResult::Commit, 0)],
                data(5, 0, 1, 1),
                None,
            ),
            (
                "and nothing else",
                vec![marker(5, 7, TransactionResult::Commit, 0)],
                data(5, 9, 1, 1),
                Some(OutOfOrderSequenceNumber),
            ),
        ] {
            let states = seen(&before);
            let prepared = states.prepare([batch], Origin::Client);
            assert_eq!(prepared.err().map(|error| error.code()), refused, "{why}");
            assert!(
                states.prepare([batch], Origin::Replication).is_ok(),
                "{why}: what is replicated is taken"
            );
        }
    }

    #[test]
    fn batches_of_one_append_follow_one_another_too() {
        let states = seen(&[data(5, 0, 1, 0)]);
        assert!(states.prepare([data(5, 1, 2, 1), data(5, 3, 1, 3)], Origin::Client).is_ok());
        assert!(states.prepare([data(5, 1, 2, 1), data(5, 4, 1, 3)], Origin::Client).is_err());
    }

    #[test]
    fn the_last_five_batches_are_known_again() {
        let batches: Vec<_> = (0..7).map(|i| data(5, i * 2, 2, i64::from(i) * 10)).collect();
        let states = seen(&batches);
        for (i, batch) in batches.iter().enumerate() {
            let known = states.duplicate(batch);
            assert_eq!(known.is_some(), i >= 2, "batch {i}");
            if let Some(known) = known {
                assert_eq!((known.first_offset(), known.last_offset), (batch.base_offset, batch.last_offset));
            }
        }
        for (why, batch) in [
            ("another epoch", data(6, 12, 2, 0)),
            ("only part of a batch", data(5, 12, 1, 0)),
            ("another producer", of(1, data(5, 12, 2, 0))),
        ] {
            assert_eq!(states.duplicate(&batch), None, "{why}");
        }
        let wrapped = data(5, i32::MAX - 1, 4, 0);
        assert!(seen(&[wrapped]).duplicate(&wrapped).is_some(), "a batch whose sequences wrap");
        let new_epoch = seen(&[data(5, 0, 1, 0), data(6, 0, 1, 1)]);
        assert_eq!(new_epoch.duplicate(&data(5, 0, 1, 0)), None, "a new epoch forgets the old batches");
    }

    #[test]
    fn markers_end_transactions_and_fence() {
        use TransactionResult::{Abort, Commit};
        let open = seen(&[transactional(data(5, 0, 2, 10)), transactional(data(5, 2, 1, 12))]);
        assert_eq!(open.first_unstable_offset(Offset(0)), Some(Offset(10)));
        let refused = |batch, origin| open.prepare([batch], origin).err().map(|error| error.code());
        assert_eq!(
            refused(data(5, 3, 1, 13), Origin::Client),
            Some(ErrorCode::InvalidTxnState),
            "outside of the open transaction"
        );
        assert_eq!(
            refused(marker(4, 7, Abort, 13), Origin::Coordinator),
            Some(ErrorCode::InvalidProducerEpoch)
        );

        let mut states = open.clone();
        let prepared = states.prepare([marker(5, 7, Abort, 13)], Origin::Coordinator).unwrap();
        assert_eq!(
            states.apply(prepared),
            [AbortedTransaction {
                producer_id: ProducerId(4000),
                first_offset: Offset(10),
                last_offset: Offset(13),
                last_stable_offset: Offset(14),
            }]
        );
        assert_eq!(states.get(ProducerId(4000)).unwrap().transaction_start, None);
        let fenced = states.prepare([marker(5, 6, Commit, 14)], Origin::Coordinator).unwrap_err();
        assert_eq!(fenced.code(), ErrorCode::TransactionCoordinatorFenced);
        let again = states.prepare([marker(5, 7, Abort, 14)], Origin::Coordinator).unwrap();
        assert_eq!(states.apply(again), [], "a marker without a transaction ends none");

        let mut committed = open;
        let prepared = committed.prepare([marker(5, 7, Commit, 13)], Origin::Coordinator).unwrap();
        assert_eq!(committed.apply(prepared), [], "only aborted ones are indexed");
    }

    #[test]
    fn records_are_stable_once_their_marker_is_replicated() {
        let mut states = seen(&[
            of(1, transactional(data(0, 0, 1, 10))),
            of(2, transactional(data(0, 0, 1, 20))),
            of(1, marker(0, 0, TransactionResult::Abort, 30)),
        ]);
        for (why, high_watermark, unstable) in [
            ("the marker may still be lost", 30, Some(10)),
            ("the marker is safe, the other transaction open", 31, Some(20)),
        ] {
            assert_eq!(states.first_unstable_offset(Offset(high_watermark)), unstable.map(Offset), "{why}");
        }
        let prepared = states
            .prepare([of(2, marker(0, 0, TransactionResult::Commit, 40))], Origin::Coordinator)
            .unwrap();
        states.apply(prepared);
        assert_eq!(states.first_unstable_offset(Offset(41)), None);
        states.forget_replicated(Offset(31));
        assert_eq!(states.first_unstable_offset(Offset(0)), Some(Offset(20)));
        states.forget_replicated(Offset(41));
        assert_eq!(states.first_unstable_offset(Offset(0)), None);
    }

    #[test]
    fn an_aborted_transaction_is_indexed_with_the_oldest_one_still_open() {
        let mut states = seen(&[
            of(1, transactional(data(0, 0, 1, 10))),
            of(2, transactional(data(0, 0, 1, 20))),
            of(3, transactional(data(0, 0, 1, 25))),
        ]);
        for (producer, offset, stable) in [(2, 30, 10), (1, 31, 25), (3, 32, 33)] {
            let batch = of(producer, marker(0, 0, TransactionResult::Abort, offset));
            let prepared = states.prepare([batch], Origin::Coordinator).unwrap();
            assert_eq!(states.apply(prepared)[0].last_stable_offset, Offset(stable), "producer {producer}");
        }
    }

    #[test]
    fn idle_producers_expire_unless_a_transaction_is_open() {
        let mut states = seen(&[of(1, data(0, 0, 1, 0)), of(2, transactional(data(0, 0, 1, 1)))]);
        states.expire(Timestamp(NOW.0 + DAY_MS - 1), DAY_MS);
        assert_eq!(states.len(), 2);
        states.expire(Timestamp(NOW.0 + DAY_MS), DAY_MS);
        assert_eq!(states.iter().map(|(id, _)| id.0).collect::<Vec<_>>(), [2]);
        let back = states.prepare([of(1, data(0, 77, 1, 9))], Origin::Client);
        assert!(back.is_ok(), "a forgotten producer goes on where it was");
    }

    #[test]
    fn snapshots_are_kafkas() {
        assert_eq!(hex(&ProducerStates::default().encode_snapshot()), "000148674bc700000000");
        let mut one = seen(&[marker(5, 7, TransactionResult::Commit, 9)]);
        let prepared = one.prepare([data(5, 0, 2, 10)], Origin::Client).unwrap();
        one.apply(prepared);
        assert_eq!(
            hex(&one.encode_snapshot()),
            "0001528b36ae00000001\
             0000000000000fa0000500000001000000000000000b000000010000018bcfe5680000000007ffffffffffffffff"
        );
    }

    #[test]
    fn snapshots_keep_the_last_batch_and_open_transactions() {
        let states = seen(&[
            of(1, data(0, 0, 1, 0)),
            of(1, data(0, 1, 3, 1)),
            of(2, transactional(data(3, 7, 1, 4))),
            of(3, marker(1, 9, TransactionResult::Commit, 5)),
        ]);
        let read = ProducerStates::decode_snapshot(&states.encode_snapshot(), NOW, DAY_MS).unwrap();
        let one = read.get(ProducerId(1)).unwrap();
        assert_eq!(one.batches(), [*states.get(ProducerId(1)).unwrap().last_batch().unwrap()]);
        assert_eq!(read.first_unstable_offset(Offset(99)), Some(Offset(4)));
        assert_eq!(read.get(ProducerId(3)), states.get(ProducerId(3)), "without any batch");
        let later =
            ProducerStates::decode_snapshot(&states.encode_snapshot(), Timestamp(NOW.0 + DAY_MS), DAY_MS);
        assert_eq!(later.unwrap().len(), 1, "only the open transaction keeps its producer");
    }

    #[test]
    fn damaged_snapshots_are_noticed() {
        let good = seen(&[data(5, 0, 2, 10)]).encode_snapshot();
        for length in 0..good.len() {
            assert!(
                ProducerStates::decode_snapshot(&good[..length], NOW, DAY_MS).is_err(),
                "cut to {length}"
            );
        }
        for at in 0..good.len() {
            let mut flipped = good.clone();
            flipped[at] ^= 1;
            assert!(ProducerStates::decode_snapshot(&flipped, NOW, DAY_MS).is_err(), "bit flipped at {at}");
        }
        let mut counted = good.clone();
        counted[6..10].copy_from_slice(&i32::MAX.to_be_bytes());
        let crc = crc_fast::crc32_iscsi(&counted[6..]);
        counted[2..6].copy_from_slice(&crc.to_be_bytes());
        assert_eq!(
            ProducerStates::decode_snapshot(&counted, NOW, DAY_MS),
            Err(DamagedSnapshot::Count { count: i32::MAX, bytes: good.len() }),
            "no memory is reserved for what is not there"
        );
    }
}
