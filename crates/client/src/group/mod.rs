//! The consumer as a member of a group: what it reads is decided together with the others.

mod assignor;
mod consumer_protocol;
mod coordinator;
mod membership;

use std::sync::Arc;
use std::time::Duration;

use ottla_model::{Offset, TopicName, TopicPartition};
use ottla_protocol::Str;
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

pub use self::assignor::{Assignments, Assignor, Subscriber};

use self::coordinator::{Coordinator, Identity};
use self::membership::{Command, Event, LastPoll, Membership, Offsets};
use crate::client::Client;
use crate::consumer::{ConsumeError, Consumer, ConsumerOptions, Fetched, OffsetReset};
use crate::error::ClientError;
use crate::offsets::OffsetSpec;

/// Commits that may wait to be sent.
const COMMANDS_MAX: usize = 8;

/// Named after the consumer's properties; the defaults are those of Kafka's own client.
#[derive(Debug, Clone)]
pub struct GroupOptions {
    pub group_id: String,
    /// `group.instance.id`: what the member is known by over restarts.
    pub instance_id: Option<String>,
    /// Without a heartbeat for so long a member is taken for dead.
    pub session_timeout: Duration,
    pub heartbeat_interval: Duration,
    /// Without a poll for so long a member leaves; also how long others wait for it to join again.
    pub max_poll_interval: Duration,
    /// `partition.assignment.strategy`, the best first.
    pub assignors: Vec<Assignor>,
    /// `auto.commit.interval.ms`; `None` where the caller commits.
    pub auto_commit: Option<Duration>,
    /// `default.api.timeout.ms`, for commits.
    pub commit_timeout: Duration,
}

impl GroupOptions {
    pub fn new(group_id: impl Into<String>) -> GroupOptions {
        GroupOptions {
            group_id: group_id.into(),
            instance_id: None,
            session_timeout: Duration::from_secs(45),
            heartbeat_interval: Duration::from_secs(3),
            max_poll_interval: Duration::from_secs(300),
            assignors: vec![Assignor::Range],
            auto_commit: Some(Duration::from_secs(5)),
            commit_timeout: Duration::from_secs(60),
        }
    }
}

/// Reads what its group gives it. Whoever polls sees records only; partitions come and go in between.
///
/// Records that were handed out are committed with the next automatic commit, a rebalance or [`GroupConsumer::close`], and so at
/// the earliest when the caller has come back for more: after a crash some are read again, and none is left out.
#[derive(Debug)]
pub struct GroupConsumer {
    consumer: Consumer,
    auto_commit: Option<Duration>,
    committed_at: Instant,
    commands: mpsc::Sender<Command>,
    events: mpsc::UnboundedReceiver<Event>,
    polled: Arc<LastPoll>,
    /// An assignment that is not read from yet, so that a poll that is dropped loses nothing.
    assigning: Option<Vec<(TopicPartition, OffsetSpec)>>,
}

impl GroupConsumer {
    /// Joins the group, in the background, to read these topics.
    pub fn subscribe(
        client: Client,
        topics: Vec<TopicName>,
        options: ConsumerOptions,
        group: GroupOptions,
    ) -> GroupConsumer {
        let (commands, received) = mpsc::channel(COMMANDS_MAX);
        let (events, told) = mpsc::unbounded_channel();
        let polled = Arc::new(LastPoll::default());
        let auto_commit = group.auto_commit;
        let membership = Membership {
            coordinator: Coordinator::new(client.clone(), &group.group_id),
            identity: Identity {
                instance_id: group.instance_id.as_deref().map(Str::from),
                generation: -1,
                ..Identity::default()
            },
            options: group,
            topics,
            events,
            commands: received,
            polled: polled.clone(),
            shared: None,
        };
        tokio::spawn(membership.run());
        GroupConsumer {
            consumer: Consumer::new(client, options),
            auto_commit,
            committed_at: Instant::now(),
            commands,
            events: told,
            polled,
            assigning: None,
        }
    }

    /// What it reads now.
    pub fn assignment(&self) -> impl Iterator<Item = &TopicPartition> {
        self.consumer.assignment()
    }

    /// For positions, pauses and seeks.
    pub fn consumer(&mut self) -> &mut Consumer {
        &mut self.consumer
    }

    /// The next piece of some partition; `None` if none comes within `wait`. Dropping the future loses nothing.
    pub async fn poll(&mut self, wait: Duration) -> Result<Option<Fetched>, ConsumeError> {
        let deadline = Instant::now() + wait;
        let polled = self.polled.clone();
        let _polling = polled.begin();
        self.commit_if_due();
        loop {
            while let Ok(event) = self.events.try_recv() {
                self.handle(event)?;
            }
            if let Some(assigning) = &self.assigning {
                self.consumer.assign(assigning.iter().cloned()).await?;
                self.assigning = None;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            tokio::select! {
                fetched = self.consumer.poll(left) => return fetched,
                event = self.events.recv() => match event {
                    Some(event) => self.handle(event)?,
                    // Why it ended was told before; what is left is to wait, as for records.
                    None => return self.consumer.poll(left).await,
                },
            }
        }
    }

    fn handle(&mut self, event: Event) -> Result<(), ConsumeError> {
        match event {
            Event::Assigned(start) => {
                let reset = self.consumer.options().reset;
                let mut assigning = Vec::with_capacity(start.len());
                for (partition, committed) in start {
                    let spec = match (committed, reset) {
                        (Some(offset), _) => OffsetSpec::Offset(offset),
                        (None, OffsetReset::Earliest) => OffsetSpec::Earliest,
                        (None, OffsetReset::Latest) => OffsetSpec::Latest,
                        (None, OffsetReset::None) => {
                            return Err(ConsumeError::NoCommittedOffset { partition });
                        }
                    };
                    assigning.push((partition, spec));
                }
                self.assigning = Some(assigning);
                self.committed_at = Instant::now();
            }
            Event::Revoked(answer) => {
                let positions = if self.auto_commit.is_some() { self.positions() } else { Offsets::new() };
                self.consumer.unassign();
                self.assigning = None;
                // A member that does not wait for it any more has given the partitions up already.
                let _ = answer.send(positions);
            }
            Event::Failed(error) => {
                self.consumer.unassign();
                return Err(error.into());
            }
        }
        Ok(())
    }

    /// Where it would read on, of everything that is assigned.
    fn positions(&self) -> Offsets {
        let assigned = self.consumer.assignment();
        let known =
            assigned.filter_map(|partition| Some((partition.clone(), self.consumer.position(partition)?)));
        known.collect()
    }

    /// Does not wait for the answer: the next commit says more anyway.
    fn commit_if_due(&mut self) {
        let due = self.auto_commit.is_some_and(|interval| self.committed_at.elapsed() >= interval);
        let positions = if due { self.positions() } else { Offsets::new() };
        if positions.is_empty() {
            return;
        }
        self.committed_at = Instant::now();
        let (answer, _) = oneshot::channel();
        if self.commands.try_send(Command::Commit(positions, answer)).is_err() {
            tracing::debug!("earlier commits are still under way");
        }
    }

    /// Commits everything that was handed out, and waits for it.
    pub async fn commit(&mut self) -> Result<(), ClientError> {
        let positions = self.positions();
        self.commit_offsets(positions).await
    }

    /// Commits these offsets: of the next records to be read.
    pub async fn commit_offsets(
        &mut self,
        offsets: impl IntoIterator<Item = (TopicPartition, Offset)>,
    ) -> Result<(), ClientError> {
        let offsets: Offsets = offsets.into_iter().collect();
        if offsets.is_empty() { Ok(()) } else { self.tell(|answer| Command::Commit(offsets, answer)).await }
    }

    /// Commits, if that is done automatically, and leaves the group; a static member keeps its place until its session ends.
    pub async fn close(self) -> Result<(), ClientError> {
        let positions = if self.auto_commit.is_some() { self.positions() } else { Offsets::new() };
        self.tell(|answer| Command::Close(positions, answer)).await
    }

    /// A member that has failed has told why, and can do nothing more.
    async fn tell(
        &self,
        command: impl FnOnce(oneshot::Sender<Result<(), ClientError>>) -> Command,
    ) -> Result<(), ClientError> {
        let (answer, answered) = oneshot::channel();
        let _ = self.commands.send(command(answer)).await;
        answered.await.unwrap_or(Ok(()))
    }
}
