//! Records as they came from a broker: whole batches, decompressed only when they are walked.

use std::collections::{HashSet, VecDeque};
use std::ops::ControlFlow;

use bytes::Bytes;
use ottla_model::{Offset, ProducerId, TopicPartition};
use ottla_protocol::records::{Batch, BatchHeader, Batches, ControlType, Record};

use super::error::ConsumeError;

/// The most that one batch may take when decompressed, in bytes; guards against bombs.
const DECOMPRESSED_BYTES_MAX: usize = 256 << 20;

/// A transaction that was aborted, and where it begins in the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Aborted {
    pub producer: ProducerId,
    pub first_offset: Offset,
}

/// Consecutive records of one partition.
#[derive(Debug, Clone)]
pub struct Fetched {
    pub(super) partition: TopicPartition,
    /// Whole batches. The first may begin before `start`: brokers send batches as they lie in the log.
    pub(super) batches: Bytes,
    pub(super) start: Offset,
    pub(super) end: Offset,
    pub(super) high_watermark: Offset,
    /// By first offset; empty unless reading committed.
    pub(super) aborted: Vec<Aborted>,
}

impl Fetched {
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The offset that was asked for: no record comes before it.
    pub fn start_offset(&self) -> Offset {
        self.start
    }

    /// Where reading goes on after these records; what a group would commit.
    pub fn end_offset(&self) -> Offset {
        self.end
    }

    /// End of what was committed when the broker answered; [`Fetched::end_offset`] has arrived there when it is as large.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark
    }

    /// Bytes as they came, compressed.
    pub fn size(&self) -> usize {
        self.batches.len()
    }

    /// Walks the records in order until `visit` breaks. Control records, aborted transactions and what lies before the offset asked for
    /// are left out.
    ///
    /// Checks each batch's crc. Costs one buffer for each compressed batch, and nothing for a record.
    pub fn for_each(
        &self,
        mut visit: impl FnMut(Record<'_>) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, ConsumeError> {
        let mut transactions = Transactions::new(&self.aborted);
        for batch in Batches::new(&self.batches) {
            let corrupt =
                |offset, source| ConsumeError::Corrupt { partition: self.partition.clone(), offset, source };
            let batch = batch.map_err(|source| corrupt(self.start, source))?;
            let header = batch.header();
            if header.next_offset() <= self.start {
                continue;
            }
            batch.check_crc().map_err(|source| corrupt(header.base_offset, source))?;
            let unreadable = |source| ConsumeError::Unreadable {
                partition: self.partition.clone(),
                offset: header.base_offset,
                source,
            };
            if header.is_control() {
                transactions.see_marker(&batch).map_err(unreadable)?;
                continue;
            }
            if transactions.is_aborted(header) {
                continue;
            }
            let records = batch.records(DECOMPRESSED_BYTES_MAX).map_err(unreadable)?;
            for record in records.iter().map_err(unreadable)? {
                let record = record.map_err(unreadable)?;
                if record.offset >= self.start && visit(record).is_break() {
                    return Ok(ControlFlow::Break(()));
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Which producers' records belong to an aborted transaction at the batch that is being looked at.
struct Transactions {
    coming: VecDeque<Aborted>,
    open: HashSet<ProducerId>,
}

impl Transactions {
    fn new(aborted: &[Aborted]) -> Transactions {
        Transactions { coming: aborted.iter().copied().collect(), open: HashSet::new() }
    }

    fn is_aborted(&mut self, header: &BatchHeader) -> bool {
        while let Some(aborted) = self.coming.pop_front_if(|next| next.first_offset <= header.last_offset()) {
            self.open.insert(aborted.producer);
        }
        header.is_transactional() && self.open.contains(&header.producer_id)
    }

    /// An abort marker ends the producer's transaction; what it writes later is another one.
    fn see_marker(&mut self, batch: &Batch<'_>) -> Result<(), ottla_protocol::records::RecordError> {
        let records = batch.records(DECOMPRESSED_BYTES_MAX)?;
        for record in records.iter()? {
            let kind = record?.key.and_then(ControlType::from_key);
            if kind == Some(ControlType::Abort) {
                self.is_aborted(batch.header());
                self.open.remove(&batch.header().producer_id);
            }
        }
        Ok(())
    }
}

/// What a broker sent for one partition, looked at only as far as its batches' headers.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    Nothing,
    /// `length` bytes are whole batches, after which reading goes on at `end`.
    Batches {
        length: usize,
        end: Offset,
    },
    /// Not even one batch is whole; it takes `bytes`.
    Truncated {
        bytes: usize,
    },
    /// Padding that a converting broker sends in place of a batch it left out altogether.
    Padding,
    Corrupt(ottla_protocol::records::CorruptBatch),
}

impl Arrival {
    pub fn of(records: &[u8], start: Offset) -> Arrival {
        let mut walk = Batches::new(records);
        let mut end = start;
        let mut whole = 0;
        for batch in &mut walk {
            match batch {
                Ok(batch) => {
                    end = end.max(batch.header().next_offset());
                    whole += batch.header().length;
                }
                // Good batches in front of a bad one are read first.
                Err(_) if whole > 0 => break,
                Err(corrupt) => return Arrival::Corrupt(corrupt),
            }
        }
        if whole > 0 {
            return Arrival::Batches { length: whole, end };
        }
        match records {
            [] => Arrival::Nothing,
            [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, ..] => Arrival::Padding,
            [_, _, _, _, _, _, _, _, size @ ..] if size.len() >= 4 => {
                let size = i32::from_be_bytes([size[0], size[1], size[2], size[3]]);
                Arrival::Truncated { bytes: usize::try_from(size).unwrap_or(0).saturating_add(12) }
            }
            _ => Arrival::Truncated { bytes: 0 },
        }
    }
}

#[cfg(test)]
mod tests {
    use ottla_model::{ProducerEpoch, Timestamp};
    use ottla_protocol::compression::Codec;
    use ottla_protocol::records::{
        BatchBuilder, EndTransactionMarker, Magic, MessageSetBuilder, ProducerState, TransactionResult,
    };

    use super::*;

    /// What lies in a log: records of a producer, or the end of its transaction.
    enum Entry {
        Plain(&'static str),
        InTransaction(i64, &'static str),
        Ends(i64, TransactionResult),
    }

    /// Each entry takes one offset, from 0.
    fn log(entries: &[Entry]) -> Bytes {
        let mut log = Vec::new();
        for (offset, entry) in (0..).map(Offset).zip(entries) {
            let batch = match entry {
                Entry::Plain(value) => batch(offset, None, value),
                Entry::InTransaction(producer, value) => batch(offset, Some(*producer), value),
                Entry::Ends(producer, result) => {
                    EndTransactionMarker { result: *result, coordinator_epoch: 0 }.to_batch(
                        offset,
                        Timestamp(0),
                        ProducerId(*producer),
                        ProducerEpoch(0),
                    )
                }
            };
            log.extend_from_slice(&batch);
        }
        log.into()
    }

    fn batch(offset: Offset, producer: Option<i64>, value: &str) -> Bytes {
        let mut builder = BatchBuilder::new().with_base_offset(offset).with_transactional(producer.is_some());
        if let Some(id) = producer {
            let (id, epoch) = (ProducerId(id), ProducerEpoch(0));
            builder.set_producer(ProducerState { id, epoch, base_sequence: 0 });
        }
        builder.append(Timestamp(0), None, Some(value.as_bytes()), &[]);
        builder.finish()
    }

    fn fetched(batches: Bytes, start: i64, aborted: &[(i64, i64)]) -> Fetched {
        let aborted = aborted.iter().map(|(producer, first_offset)| Aborted {
            producer: ProducerId(*producer),
            first_offset: Offset(*first_offset),
        });
        Fetched {
            partition: TopicPartition::new(ottla_model::TopicName::new("t").unwrap(), 0),
            batches,
            start: Offset(start),
            end: Offset(100),
            high_watermark: Offset(100),
            aborted: aborted.collect(),
        }
    }

    fn values(fetched: &Fetched) -> String {
        let mut values = String::new();
        let _ = fetched
            .for_each(|record| {
                values.push_str(std::str::from_utf8(record.value.unwrap()).unwrap());
                ControlFlow::Continue(())
            })
            .unwrap();
        values
    }

    #[test]
    fn aborted_records_and_markers_are_left_out() {
        use Entry::{Ends, InTransaction, Plain};
        use TransactionResult::{Abort, Commit};
        for (why, entries, aborted, seen) in [
            (
                "a committed transaction",
                vec![Plain("a"), InTransaction(1, "b"), Ends(1, Commit), Plain("c")],
                vec![],
                "abc",
            ),
            (
                "an aborted transaction",
                vec![Plain("a"), InTransaction(1, "b"), Ends(1, Abort), Plain("c")],
                vec![(1, 1)],
                "ac",
            ),
            (
                "aborted, then committed by the same producer",
                vec![InTransaction(1, "a"), Ends(1, Abort), InTransaction(1, "b"), Ends(1, Commit)],
                vec![(1, 0)],
                "b",
            ),
            (
                "aborted twice by the same producer",
                vec![
                    InTransaction(1, "a"),
                    Ends(1, Abort),
                    InTransaction(1, "b"),
                    Ends(1, Abort),
                    Plain("c"),
                ],
                vec![(1, 0), (1, 2)],
                "c",
            ),
            (
                "two producers at the same time",
                vec![
                    InTransaction(1, "a"),
                    InTransaction(2, "b"),
                    InTransaction(1, "c"),
                    Ends(1, Abort),
                    Ends(2, Commit),
                ],
                vec![(1, 0)],
                "b",
            ),
            (
                "aborted before the fetch began, which still lists it",
                vec![
                    InTransaction(1, "a"),
                    InTransaction(1, "b"),
                    Ends(1, Abort),
                    InTransaction(1, "c"),
                    Ends(1, Commit),
                ],
                vec![(1, -5)],
                "c",
            ),
            (
                "read uncommitted: nothing is listed",
                vec![InTransaction(1, "a"), Ends(1, Abort), Plain("b")],
                vec![],
                "ab",
            ),
        ] {
            assert_eq!(values(&fetched(log(&entries), 0, &aborted)), seen, "{why}");
        }
    }

    #[test]
    fn reading_starts_at_the_record_asked_for_in_every_format() {
        let set = |magic, codec: Codec| {
            let mut set = MessageSetBuilder::new(magic, codec);
            for (offset, value) in (0..).map(Offset).zip(["a", "b", "c", "d"]) {
                set.append(offset, Timestamp(0), None, Some(value.as_bytes()));
            }
            set.finish()
        };
        let whole = |codec: Codec| {
            let mut builder = BatchBuilder::new().with_compression(codec);
            for value in ["a", "b", "c", "d"] {
                builder.append(Timestamp(0), None, Some(value.as_bytes()), &[]);
            }
            builder.finish()
        };
        for (why, bytes) in [
            ("magic 0", set(Magic::V0, Codec::None)),
            ("magic 0, a wrapper", set(Magic::V0, Codec::Gzip)),
            ("magic 1", set(Magic::V1, Codec::None)),
            ("magic 1, a wrapper", set(Magic::V1, Codec::Lz4)),
            ("magic 2", whole(Codec::None)),
            ("magic 2, compressed", whole(Codec::Zstd)),
        ] {
            for (start, seen) in [(0, "abcd"), (2, "cd"), (3, "d"), (4, "")] {
                assert_eq!(values(&fetched(bytes.clone(), start, &[])), seen, "{why}, from {start}");
            }
            assert_eq!(
                Arrival::of(&bytes, Offset(1)),
                Arrival::Batches { length: bytes.len(), end: Offset(4) },
                "{why}"
            );
        }
    }

    #[test]
    fn what_a_broker_sends_is_told_apart_by_its_headers() {
        let one = batch(Offset(7), None, "a");
        let two = [&one[..], &batch(Offset(8), None, "b")[..]].concat();
        let mut corrupt_second = two.clone();
        corrupt_second[one.len() + 16] = 9;
        let mut corrupt = one.to_vec();
        corrupt[16] = 9;
        let whole = |length, end| Arrival::Batches { length, end: Offset(end) };
        for (why, bytes, arrival) in [
            ("nothing new", &[][..], Arrival::Nothing),
            ("two batches", &two, whole(two.len(), 9)),
            ("the second cut off", &two[..two.len() - 1], whole(one.len(), 8)),
            ("the first cut off", &one[..one.len() - 1], Arrival::Truncated { bytes: one.len() }),
            ("cut off before its size", &one[..9], Arrival::Truncated { bytes: 0 }),
            ("the second of no known format", &corrupt_second, whole(one.len(), 8)),
            ("padding", &[&[0xff; 8][..], &[0, 0, 0, 61, 0, 0]].concat(), Arrival::Padding),
        ] {
            assert_eq!(Arrival::of(bytes, Offset(7)), arrival, "{why}");
        }
        assert!(matches!(Arrival::of(&corrupt, Offset(7)), Arrival::Corrupt(_)));
    }

    #[test]
    fn a_visitor_that_has_enough_stops_the_walk() {
        let fetched = fetched(log(&[Entry::Plain("a"), Entry::Plain("b")]), 0, &[]);
        let mut seen = 0;
        let flow = fetched.for_each(|_| {
            seen += 1;
            ControlFlow::Break(())
        });
        assert_eq!((flow.unwrap(), seen), (ControlFlow::Break(()), 1));
    }
}
