//! What became of a record: one completion for a whole batch, and a number in it for each record.

use std::sync::{Arc, OnceLock};

use ottla_model::{Offset, Timestamp, TopicPartition};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::error::ProduceError;

/// Where a record was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RecordMetadata {
    pub partition: TopicPartition,
    /// `None` without acknowledgements, and for a duplicate whose place the broker no longer knows.
    pub offset: Option<Offset>,
    /// The broker's time if the topic uses LogAppendTime.
    pub append_time: Option<Timestamp>,
}

/// Where a batch was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Appended {
    pub base_offset: Option<Offset>,
    pub append_time: Option<Timestamp>,
}

/// What became of a batch, for whoever counts rather than waits.
#[derive(Debug, Clone)]
pub struct BatchReport {
    pub partition: TopicPartition,
    pub record_count: i32,
    /// When the first record was appended.
    pub opened: Instant,
    /// Offset of the first record, as in [`RecordMetadata::offset`].
    pub outcome: Result<Option<Offset>, ProduceError>,
}

#[derive(Debug)]
pub(super) struct Completion {
    partition: TopicPartition,
    outcome: OnceLock<Outcome>,
    done: Notify,
}

#[derive(Debug)]
enum Outcome {
    Whole(Result<Appended, ProduceError>),
    /// The batch was too large and went on in two: the records before `middle`, and those from there on.
    Split {
        middle: i32,
        halves: [Arc<Completion>; 2],
    },
}

impl Completion {
    pub fn new(partition: TopicPartition) -> Completion {
        Completion { partition, outcome: OnceLock::new(), done: Notify::new() }
    }

    /// # Panics
    /// If the batch was completed or split before.
    pub fn complete(&self, outcome: Result<Appended, ProduceError>) {
        self.set(Outcome::Whole(outcome));
    }

    /// Leaves the outcome to two others.
    ///
    /// # Panics
    /// If the batch was completed or split before.
    pub fn split(&self, middle: i32) -> [Arc<Completion>; 2] {
        let halves = [(); 2].map(|()| Arc::new(Completion::new(self.partition.clone())));
        self.set(Outcome::Split { middle, halves: halves.clone() });
        halves
    }

    fn set(&self, outcome: Outcome) {
        assert!(self.outcome.set(outcome).is_ok(), "a batch completes once");
        self.done.notify_waiters();
    }
}

/// The promise that a record will be delivered. Dropping it changes nothing for the record.
#[derive(Debug, Clone)]
pub struct Delivery {
    completion: Arc<Completion>,
    index: i32,
}

impl Delivery {
    pub(super) fn new(completion: Arc<Completion>, index: i32) -> Delivery {
        Delivery { completion, index }
    }

    pub fn partition(&self) -> &TopicPartition {
        &self.completion.partition
    }

    /// The completion that decides over this record as of now, and the record's number in it.
    fn decisive(&self) -> (&Arc<Completion>, i32) {
        let (mut completion, mut index) = (&self.completion, self.index);
        while let Some(Outcome::Split { middle, halves: [first, second] }) = completion.outcome.get() {
            (completion, index) = if index < *middle { (first, index) } else { (second, index - middle) };
        }
        (completion, index)
    }

    /// Waits until the record is acknowledged or given up.
    pub async fn wait(&self) -> Result<RecordMetadata, ProduceError> {
        loop {
            let (decisive, _) = self.decisive();
            let mut done = std::pin::pin!(decisive.done.notified());
            done.as_mut().enable();
            if let Some(outcome) = self.outcome() {
                return outcome;
            }
            // Split a moment ago: another one decides.
            if decisive.outcome.get().is_none() {
                done.await;
            }
        }
    }

    /// The outcome, if it is known yet.
    pub fn outcome(&self) -> Option<Result<RecordMetadata, ProduceError>> {
        let (decisive, index) = self.decisive();
        match decisive.outcome.get()? {
            Outcome::Whole(outcome) => Some(outcome.clone().map(|appended| RecordMetadata {
                partition: decisive.partition.clone(),
                offset: appended.base_offset.map(|base| base.plus(i64::from(index))),
                append_time: appended.append_time,
            })),
            // Split between the two looks.
            Outcome::Split { .. } => None,
        }
    }
}
