//! Any sequence of appends, flushes, cuts, crashes and restarts against a list of batches.
//!
//! What the list knows is what the log must hold: all of it after a restart or a `kill -9`, and after a crash
//! of the machine a prefix of it that has everything that was flushed.

use std::path::{Path, PathBuf};

use ottla_files::{Disk, Files, HostileDisk};
use ottla_log::{Log, LogConfig, Opening};
use ottla_model::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Timestamp};
use ottla_protocol::compression::Codec;
use ottla_protocol::records::validate::AppendOrigin;
use ottla_protocol::records::{BatchBuilder, EndTransactionMarker, TransactionResult};
use proptest::prelude::*;

use crate::rig::*;

#[derive(Debug, Clone)]
enum Step {
    /// `producer` 0 is none, 1 and 2 are idempotent, 3 and 4 transactional.
    Append {
        producer: usize,
        codec: Codec,
        timestamps: Vec<i64>,
        as_follower: bool,
    },
    /// Sends the last batch of an idempotent producer again.
    Repeat {
        producer: usize,
    },
    EndTransaction {
        producer: usize,
        result: TransactionResult,
    },
    /// A new life of a producer: its next batch starts at sequence 0.
    NewProducerEpoch {
        producer: usize,
    },
    NewLeaderEpoch,
    Flush,
    /// A flush that others append during.
    FlushAround {
        timestamps: Vec<i64>,
    },
    /// Writes what a broker writes now and then: the recovery point.
    Checkpoint,
    Truncate {
        to: f64,
    },
    DeleteRecords {
        to: f64,
    },
    DeleteSegments {
        count: usize,
    },
    Read {
        from: f64,
        bytes_max: u64,
    },
    Restart,
    Kill,
    Crash,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let codec = prop_oneof![3 => Just(Codec::None), 1 => Just(Codec::Lz4), 1 => Just(Codec::Gzip)];
    let append = (0usize..5, codec, prop::collection::vec(0i64..1000, 1..5), any::<bool>()).prop_map(
        |(producer, codec, timestamps, as_follower)| Step::Append {
            producer,
            codec,
            timestamps,
            as_follower,
        },
    );
    let result = prop_oneof![Just(TransactionResult::Abort), Just(TransactionResult::Commit)];
    let step = prop_oneof![
        30 => append,
        2 => (1usize..3).prop_map(|producer| Step::Repeat { producer }),
        5 => (3usize..5, result).prop_map(|(producer, result)| Step::EndTransaction { producer, result }),
        1 => (1usize..3).prop_map(|producer| Step::NewProducerEpoch { producer }),
        2 => Just(Step::NewLeaderEpoch),
        3 => Just(Step::Flush),
        2 => prop::collection::vec(0i64..1000, 1..5).prop_map(|timestamps| Step::FlushAround { timestamps }),
        2 => Just(Step::Checkpoint),
        1 => (0.0..1.1).prop_map(|to| Step::Truncate { to }),
        1 => (0.0..1.0).prop_map(|to| Step::DeleteRecords { to }),
        1 => (0usize..4).prop_map(|count| Step::DeleteSegments { count }),
        5 => (0.0..1.0, 1u64..1000).prop_map(|(from, bytes_max)| Step::Read { from, bytes_max }),
        1 => Just(Step::Restart),
        1 => Just(Step::Kill),
        2 => Just(Step::Crash),
    ];
    prop::collection::vec(step, 1..80)
}

/// A batch that was appended.
#[derive(Debug, Clone)]
struct Known {
    base: i64,
    /// Timestamp and value of each record; a marker has one without a value.
    records: Vec<(i64, String)>,
    leader_epoch: i32,
    producer: usize,
    producer_epoch: i16,
    base_sequence: i32,
    marker: Option<TransactionResult>,
}

impl Known {
    fn end(&self) -> i64 {
        self.base + self.records.len() as i64
    }

    fn is_transactional(&self) -> bool {
        self.producer >= 3
    }
}

/// What the log must hold.
#[derive(Debug, Default)]
struct Model {
    batches: Vec<Known>,
    start: i64,
    /// Everything below is on the platter.
    flushed: i64,
    /// The recovery point that the log dir knows; behind `flushed` at times.
    checkpointed: i64,
    leader_epoch: i32,
    producer_epochs: [i16; 5],
    /// How often a producer was given up, see [`Run::give_up_producers`].
    given_up: [i64; 5],
    /// Transactions that nobody will end, as their producer was given up.
    abandoned: Vec<i64>,
    /// Makes every value different.
    values: u64,
    end: i64,
}

impl Model {
    fn cut(&mut self, end: i64) {
        self.batches.retain(|batch| batch.end() <= end);
        self.end = end;
        self.flushed = self.flushed.min(end);
        self.checkpointed = self.checkpointed.min(end);
    }

    fn last_of(&self, producer: usize) -> Option<&Known> {
        self.batches.iter().rfind(|batch| batch.producer == producer)
    }

    fn id(&self, producer: usize) -> ProducerId {
        ProducerId(producer as i64 + 10 * self.given_up[producer])
    }

    /// The sequence after the last data batch of the producer's epoch. A marker leaves it as it is.
    fn next_sequence(&self, producer: usize) -> i32 {
        let epoch = self.producer_epochs[producer];
        let data = |batch: &&Known| batch.producer == producer && batch.marker.is_none();
        self.batches
            .iter()
            .rfind(data)
            .filter(|batch| batch.producer_epoch == epoch)
            .map_or(0, |batch| batch.base_sequence + batch.records.len() as i32)
    }

    fn open_transaction(&self, producer: usize) -> Option<i64> {
        let mut open = None;
        let of_producer = |batch: &&Known| batch.producer == producer && batch.is_transactional();
        for batch in self.batches.iter().filter(of_producer) {
            match batch.marker {
                Some(_) => open = None,
                None => open = open.or(Some(batch.base)),
            }
        }
        open
    }

    /// Producer, first offset and marker offset of each aborted transaction.
    fn aborted(&self) -> Vec<(usize, i64, i64)> {
        let mut aborted = Vec::new();
        for producer in 3..5 {
            let mut open = None;
            for batch in self.batches.iter().filter(|batch| batch.producer == producer) {
                match (batch.marker, open) {
                    (Some(TransactionResult::Abort), Some(first)) => {
                        aborted.push((producer, first, batch.base));
                        open = None;
                    }
                    (Some(_), _) => open = None,
                    (None, first) => open = first.or(Some(batch.base)),
                }
            }
        }
        aborted
    }

    fn leader_epochs(&self) -> Vec<(i32, i64)> {
        let mut epochs: Vec<(i32, i64)> = Vec::new();
        for batch in &self.batches {
            if epochs.last().is_none_or(|(epoch, _)| *epoch < batch.leader_epoch) {
                epochs.push((batch.leader_epoch, batch.base));
            }
        }
        let below = epochs.iter().filter(|(_, start)| *start <= self.start).count();
        if below > 0 {
            epochs.drain(..below - 1);
            epochs[0].1 = epochs[0].1.max(self.start);
        }
        epochs
    }

    fn offset(&self, part: f64) -> i64 {
        self.start + ((self.end - self.start) as f64 * part) as i64
    }
}

/// A disk that the steps can be run on.
trait Machine: Files {
    /// Loses what a crash loses. What is open must have been dropped.
    fn crash(&self);
    fn kill(&self);
    /// Whether a crash loses anything.
    const LOSES: bool;
}

impl Machine for HostileDisk {
    fn crash(&self) {
        HostileDisk::crash(self);
    }

    fn kill(&self) {
        HostileDisk::kill(self);
    }

    const LOSES: bool = true;
}

/// A test cannot pull the plug of the machine it runs on.
impl Machine for Disk {
    fn crash(&self) {}

    fn kill(&self) {}

    const LOSES: bool = false;
}

struct Run<F: Machine> {
    files: F,
    path: PathBuf,
    config: LogConfig,
    log: Option<Log<F>>,
    model: Model,
}

/// A few batches to a segment. Producers are kept although their records are stamped with the year 1970.
fn tiny() -> LogConfig {
    LogConfig {
        segment_bytes: 700,
        index_interval_bytes: 150,
        segment_index_bytes: 120,
        producer_id_expiration_ms: i64::MAX,
        ..LogConfig::default()
    }
}

impl<F: Machine> Run<F> {
    fn new(files: F, path: &Path) -> Run<F> {
        let log = open(files.clone(), path, tiny(), clean()).0;
        let model = Model::default();
        Run { files, path: path.to_path_buf(), config: tiny(), log: Some(log), model }
    }

    fn log(&mut self) -> &mut Log<F> {
        self.log.as_mut().unwrap()
    }

    fn open(&mut self, clean: bool) {
        let opening = Opening {
            recovery_point: Offset(self.model.checkpointed),
            log_start_offset: Offset(self.model.start),
            clean,
            compacted: false,
            jitter_seed: 0,
        };
        self.log = Some(open(self.files.clone(), &self.path, self.config.clone(), opening).0);
    }

    fn step(&mut self, step: Step) {
        match step {
            Step::Append { producer, codec, timestamps, as_follower } => {
                self.append(producer, codec, &timestamps, as_follower);
            }
            Step::Repeat { producer } => self.repeat(producer),
            Step::EndTransaction { producer, result } => self.end_transaction(producer, result),
            Step::NewProducerEpoch { producer } => self.model.producer_epochs[producer] += 1,
            Step::NewLeaderEpoch => self.model.leader_epoch += 1,
            Step::Flush => {
                self.log().flush(NOW).unwrap();
                self.model.flushed = self.model.end;
            }
            Step::FlushAround { timestamps } => {
                let flush = self.log().begin_flush();
                let flushed_to = self.model.end;
                assert_eq!(flush.end_offset().0, flushed_to);
                self.append(0, Codec::None, &timestamps, false);
                let flushed = flush.run().unwrap();
                self.log().finish_flush(flushed, NOW);
                self.model.flushed = flushed_to;
            }
            Step::Checkpoint => self.model.checkpointed = self.log().recovery_point().0,
            Step::Truncate { to } => self.truncate(to),
            Step::DeleteRecords { to } => {
                let to = self.model.offset(to);
                self.log().increment_log_start_offset(Offset(to));
                self.model.start = self.model.start.max(to);
            }
            Step::DeleteSegments { count } => {
                let files = self.files.clone();
                self.log().delete_oldest_segments(count, NOW).unwrap().remove(&files).unwrap();
                self.model.start = self.log().log_start_offset().0;
            }
            Step::Read { from, bytes_max } => self.read(from, bytes_max),
            Step::Restart => {
                let closed = self.log.take().unwrap().close(NOW).unwrap();
                self.files.crash();
                self.model.flushed = self.model.end;
                self.model.checkpointed = closed.recovery_point.0;
                self.open(true);
                assert_eq!(self.log().log_end_offset().0, self.model.end);
                self.check_all();
            }
            Step::Kill => {
                self.log = None;
                self.files.kill();
                self.open(false);
                assert_eq!(self.log().log_end_offset().0, self.model.end, "the page cache has it all");
                self.check_all();
            }
            Step::Crash => {
                self.log = None;
                self.files.crash();
                self.open(false);
                let end = self.log().log_end_offset().0;
                assert!(end >= self.model.flushed, "flushed to {}, but ends at {end}", self.model.flushed);
                assert!(F::LOSES || end == self.model.end);
                assert!(end <= self.model.end);
                assert!(
                    end == self.model.start || self.model.batches.iter().any(|batch| batch.end() == end),
                    "{end} is inside a batch"
                );
                // Recovery may have cut below the recovery point that is checkpointed, which a broker then
                // writes anew.
                self.model.cut(end);
                self.model.checkpointed = self.log().recovery_point().0;
                self.give_up_producers();
                self.check_all();
            }
        }
        let (start, end) = (self.model.start, self.model.end);
        assert_eq!((self.log().log_start_offset().0, self.log().log_end_offset().0), (start, end));
    }

    fn append(&mut self, producer: usize, codec: Codec, timestamps: &[i64], as_follower: bool) {
        let model = &mut self.model;
        let (base, leader_epoch) = (model.end, model.leader_epoch);
        let base_sequence = model.next_sequence(producer);
        let mut records = Vec::new();
        let mut builder = BatchBuilder::new()
            .with_compression(codec)
            .with_transactional(producer >= 3)
            .with_base_offset(Offset(if as_follower { base } else { 0 }));
        if as_follower {
            builder = builder.with_leader_epoch(LeaderEpoch(leader_epoch));
        }
        if producer > 0 {
            builder.set_producer(crate::rig::producer(
                model.id(producer).0,
                model.producer_epochs[producer],
                base_sequence,
            ));
        }
        for timestamp in timestamps {
            model.values += 1;
            let value = model.values.to_string();
            builder.append(Timestamp(*timestamp), None, Some(value.as_bytes()), &[]);
            records.push((*timestamp, value));
        }
        model.batches.push(Known {
            base,
            records,
            leader_epoch,
            producer,
            producer_epoch: model.producer_epochs[producer],
            base_sequence,
            marker: None,
        });
        model.end += timestamps.len() as i64;
        let end = model.end;
        let appended = if as_follower {
            self.log().append_as_follower(&builder.finish(), NOW).unwrap().unwrap()
        } else {
            let records = valid(builder);
            self.log()
                .append_as_leader(records, LeaderEpoch(leader_epoch), AppendOrigin::Client, NOW)
                .unwrap()
        };
        assert_eq!((appended.first_offset.0, appended.last_offset.0 + 1), (base, end));
        assert!(!appended.duplicate);
    }

    fn repeat(&mut self, producer: usize) {
        let Some(last) = self.model.last_of(producer).cloned() else { return };
        let records =
            produced(self.model.id(producer).0, last.producer_epoch, last.base_sequence, last.records.len());
        let epoch = LeaderEpoch(self.model.leader_epoch);
        let appended = self.log().append_as_leader(valid(records), epoch, AppendOrigin::Client, NOW).unwrap();
        assert!(appended.duplicate);
        assert_eq!((appended.first_offset.0, appended.last_offset.0 + 1), (last.base, last.end()));
    }

    fn end_transaction(&mut self, producer: usize, result: TransactionResult) {
        let (base, leader_epoch) = (self.model.end, self.model.leader_epoch);
        let marker = EndTransactionMarker { result, coordinator_epoch: 1 };
        let id = self.model.id(producer);
        let bytes = marker.to_batch(Offset(0), NOW, id, ProducerEpoch(0));
        let records = valid_bytes(bytes, AppendOrigin::Coordinator);
        self.log()
            .append_as_leader(records, LeaderEpoch(leader_epoch), AppendOrigin::Coordinator, NOW)
            .unwrap();
        self.model.batches.push(Known {
            base,
            records: vec![(NOW.0, String::new())],
            leader_epoch,
            producer,
            producer_epoch: 0,
            base_sequence: -1,
            marker: Some(result),
        });
        self.model.end += 1;
    }

    fn truncate(&mut self, to: f64) {
        let to = self.model.offset(to);
        let inside = |batch: &&Known| batch.base < to && to < batch.end();
        let end = self.model.batches.iter().find(inside).map_or(to, |batch| batch.base).min(self.model.end);
        if end < self.model.start {
            return;
        }
        let found = self.log().truncate_to(Offset(to), NOW).unwrap();
        assert_eq!(found.0, end);
        self.model.cut(end);
        self.model.checkpointed = self.log().recovery_point().0;
    }

    fn read(&mut self, from: f64, bytes_max: u64) {
        let from = self.model.offset(from);
        let log = self.log.as_ref().unwrap();
        let plan = log.plan_read(Offset(from), log.log_end_offset()).unwrap();
        let read = plan.run(bytes_max, true).unwrap();
        let records = records_in(&bytes_of(&read));
        if from == self.model.end {
            assert!(records.is_empty());
            return;
        }
        let (first, last) = (records[0].0, records.last().unwrap().0);
        let holding = self.model.batches.iter().find(|batch| batch.end() > from).unwrap();
        assert_eq!(first, holding.base, "reads begin at the batch that holds the offset");
        assert_eq!(records, self.expected(first, last + 1));

        let named: Vec<_> = plan
            .aborted_transactions(&read)
            .unwrap()
            .iter()
            .map(|t| (t.producer_id.0 as usize % 10, t.first_offset.0, t.last_offset.0))
            .collect();
        let known = self.model.aborted();
        assert!(named.iter().all(|transaction| known.contains(transaction)), "{named:?} of {known:?}");
        for transaction in known {
            let overlaps = transaction.2 >= from && transaction.1 <= last;
            assert!(!overlaps || named.contains(&transaction), "{transaction:?} in {named:?}");
        }
    }

    /// Offset and value of each record in `from..to`; markers show theirs as text.
    fn expected(&self, from: i64, to: i64) -> Vec<(i64, String)> {
        let marker = String::from_utf8_lossy(&[0, 0, 0, 0, 0, 1]).into_owned();
        self.model
            .batches
            .iter()
            .flat_map(|batch| {
                (batch.base..).zip(&batch.records).map(move |(offset, record)| (offset, batch, record))
            })
            .filter(|(offset, ..)| (from..to).contains(offset))
            .map(|(offset, batch, record)| {
                (offset, if batch.marker.is_some() { marker.clone() } else { record.1.clone() })
            })
            .collect()
    }

    /// A crash may lose what was known of a producer by records that are deleted. Then it is replaced by
    /// another one.
    fn give_up_producers(&mut self) {
        for producer in 1..5 {
            let found = self.log.as_ref().unwrap().producers().get(self.model.id(producer)).copied();
            let deleted = |batch: &Known| batch.producer == producer && batch.base < self.model.start;
            let any_deleted = self.model.batches.iter().any(deleted);
            if !any_deleted {
                continue;
            }
            let open = found.and_then(|state| state.transaction_start).map(|first| first.0);
            let next_sequence =
                found.and_then(|state| state.last_batch().copied()).map_or(0, |last| last.last_sequence + 1);
            if found.is_some()
                && next_sequence == self.model.next_sequence(producer)
                && open == self.model.open_transaction(producer)
            {
                continue;
            }
            self.model.abandoned.extend(open);
            self.model.given_up[producer] += 1;
            self.model.producer_epochs[producer] = 0;
            self.model.batches.iter_mut().filter(|batch| batch.producer == producer).for_each(|batch| {
                batch.producer = 0;
            });
        }
    }

    /// Holds everything against the model, after the log was opened.
    fn check_all(&mut self) {
        let log = self.log.as_ref().unwrap();
        let (start, end) = (self.model.start, self.model.end);
        assert_eq!(read_all(log, Offset(start), Offset(end)), self.expected(start, end));
        let lookup = log.plan_timestamp_lookup();
        for asked in [0, 250, 500, 999, 1001] {
            let found = lookup.first_from(Timestamp(asked), 1 << 20).unwrap();
            let expected = self
                .model
                .batches
                .iter()
                .flat_map(|batch| (batch.base..).zip(&batch.records))
                .find(|(offset, record)| *offset >= start && record.0 >= asked)
                .map(|(offset, record)| (offset, record.0));
            assert_eq!(found.map(|f| (f.offset.0, f.timestamp.0)), expected, "timestamp {asked}");
        }
        let epochs: Vec<_> =
            log.leader_epochs().entries().iter().map(|entry| (entry.epoch.0, entry.start.0)).collect();
        // Without a record, the last epoch may be known or not.
        assert!(start == end || epochs == self.model.leader_epochs(), "{epochs:?}");
        for producer in 1..5 {
            self.check_producer(producer);
        }
        let open = (3..5).filter_map(|producer| self.model.open_transaction(producer)).min();
        if self.model.abandoned.is_empty() {
            assert_eq!(log.last_stable_offset(Offset(end)).0, open.unwrap_or(end));
        }
    }

    fn check_producer(&self, producer: usize) {
        let log = self.log.as_ref().unwrap();
        let found = log.producers().get(self.model.id(producer));
        let Some(last) = self.model.last_of(producer) else { return };
        let found = found.unwrap_or_else(|| panic!("producer {producer} is forgotten"));
        assert_eq!(found.epoch.0, last.producer_epoch);
        assert_eq!(found.transaction_start.map(|first| first.0), self.model.open_transaction(producer));
        if last.marker.is_none() {
            let batch = found.last_batch().unwrap();
            assert_eq!(batch.first_offset().0, last.base);
            assert_eq!(batch.last_sequence, last.base_sequence + last.records.len() as i32 - 1);
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_on_a_hostile_disk_holds_what_its_model_holds(seed: u64, steps in steps()) {
        let mut run = Run::new(hostile(seed), &hostile_partition());
        steps.into_iter().for_each(|step| run.step(step));
        run.step(Step::Kill);
        run.step(Step::Restart);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 25, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_log_on_the_real_disk_holds_what_its_model_holds(steps in steps()) {
        let directory = real_directory();
        let mut run = Run::new(Disk, &directory.partition());
        steps.into_iter().for_each(|step| run.step(step));
        run.step(Step::Kill);
        run.step(Step::Restart);
    }
}
