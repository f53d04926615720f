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
