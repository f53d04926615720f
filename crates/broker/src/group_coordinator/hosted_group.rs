//! One group under its lock: requests go in, what the group decides is carried out, and whoever waits is told.

use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use ottla_group::{
    CommittedOffset, Committer, Effect, Group, JoinAnswer, JoinRequest, Leaving, Moment, Now, RequestId,
    State, StoredGroup, SyncAnswer, SyncRequest, group_key, group_value, offset_key, offset_value,
};
use ottla_model::{Offset, Timestamp, TopicPartition};
use ottla_protocol::records::{BatchBuilder, ProducerState};
use ottla_protocol::{EncodeError, ErrorCode};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::offsets_partition::OffsetsPartition;
use super::{GroupCoordinator, commit_error, store_error};
use crate::hosted_partition::RequiredAcks;

/// Kafka's brokers write commits as the first of a producer that they do not name. Nobody looks at it.
const COMMIT_PRODUCER: ProducerState = ProducerState { base_sequence: 0, ..ProducerState::NONE };

#[derive(Debug)]
pub struct HostedGroup {
    id: String,
    partition: Arc<OffsetsPartition>,
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    group: Group,
    /// Who waits for an answer. Bounded by the members: each waits for one at most.
    waiting: HashMap<RequestId, Waiter>,
    next_request: u64,
    /// The deadline that the timers know of.
    wake_at: Option<Moment>,
}

#[derive(Debug)]
enum Waiter {
    Join(oneshot::Sender<JoinAnswer>),
    Sync(oneshot::Sender<SyncAnswer>),
}

impl Inner {
    fn wait(&mut self, waiter: Waiter) -> RequestId {
        let id = RequestId(self.next_request);
        self.next_request += 1;
        self.waiting.insert(id, waiter);
        id
    }

    /// A client that is gone does not hear its answer; its member is given up when its session ends.
    fn answer_join(&mut self, request: RequestId, answer: JoinAnswer) {
        if let Some(Waiter::Join(waiter)) = self.waiting.remove(&request) {
            let _ = waiter.send(answer);
        }
    }

    fn answer_sync(&mut self, request: RequestId, answer: SyncAnswer) {
        if let Some(Waiter::Sync(waiter)) = self.waiting.remove(&request) {
            let _ = waiter.send(answer);
        }
    }
}

/// What waits for records to be committed.
#[derive(Debug)]
pub enum Completion {
    /// The group asked for it to be stored.
    Stored {
        group: Arc<HostedGroup>,
        number: u64,
    },
    Commit {
        group: Arc<HostedGroup>,
        commit: Commit,
    },
}

/// Offsets in the log, from `position` on one after the other.
#[derive(Debug)]
pub struct Commit {
    position: Offset,
    offsets: Vec<(TopicPartition, CommittedOffset)>,
    answer: oneshot::Sender<ErrorCode>,
}

impl Completion {
    pub fn complete(self, outcome: Result<(), ErrorCode>, coordinator: &GroupCoordinator) {
        match self {
            Completion::Stored { group, number } => {
                let reason = format_args!("the group could not be stored");
                group.act(coordinator, reason, |inner, now, effects| {
                    inner.group.stored(number, outcome.map_err(store_error), now, effects);
                });
            }
            Completion::Commit { group, commit } => commit.complete(&mut group.inner.lock().group, outcome),
        }
    }
}

impl Commit {
    fn complete(self, group: &mut Group, outcome: Result<(), ErrorCode>) {
        let Commit { position, offsets, answer } = self;
        for (place, (partition, committed)) in (0..).zip(offsets) {
            match outcome {
                Ok(()) => group.offsets.finish(partition, position.plus(place), committed),
                Err(_) => group.offsets.fail(&partition),
            }
        }
        let _ = answer.send(outcome.map_or_else(commit_error, |()| ErrorCode::None));
    }
}

/// How an OffsetDelete went for one partition.
pub type OffsetDeletion = (TopicPartition, Result<(), ErrorCode>);

impl HostedGroup {
    pub fn new(group: Group, partition: Arc<OffsetsPartition>) -> HostedGroup {
        let id = group.id().to_owned();
        let inner = Inner { group, waiting: HashMap::new(), next_request: 0, wake_at: None };
        HostedGroup { id, partition, inner: Mutex::new(inner) }
    }

    pub fn id(&self) -> &str {
        &self.id
    }

    /// Looks at the group.
    pub fn look<T>(&self, look: impl FnOnce(&Group) -> T) -> T {
        look(&self.inner.lock().group)
    }

    // ---- membership ----

    pub fn join(
        self: &Arc<Self>,
        coordinator: &GroupCoordinator,
        request: JoinRequest,
        reason: &str,
    ) -> oneshot::Receiver<JoinAnswer> {
        let (answer, receiver) = oneshot::channel();
        let member = if request.member_id.is_empty() { &request.new_member_id } else { &request.member_id };
        let member = member.clone();
        let reason = format_args!("member {member} joins; client reason: {reason}");
        self.act(coordinator, reason, |inner, now, effects| {
            let id = inner.wait(Waiter::Join(answer));
            inner.group.join(request, id, now, effects);
        });
        receiver
    }

    pub fn sync(
        self: &Arc<Self>,
        coordinator: &GroupCoordinator,
        request: SyncRequest,
    ) -> oneshot::Receiver<SyncAnswer> {
        let (answer, receiver) = oneshot::channel();
        let reason = format_args!("the group could not be stored");
        self.act(coordinator, reason, |inner, now, effects| {
            let id = inner.wait(Waiter::Sync(answer));
            inner.group.sync(request, id, now, effects);
        });
        receiver
    }

    /// The only request that comes in numbers. It changes no more than one deadline, and that to a later one.
    pub fn heartbeat(
        &self,
        coordinator: &GroupCoordinator,
        member_id: &str,
        generation: i32,
        instance_id: Option<&str>,
    ) -> ErrorCode {
        let now = coordinator.now();
        self.inner.lock().group.heartbeat(member_id, generation, instance_id, now)
    }

    pub fn leave(
        self: &Arc<Self>,
        coordinator: &GroupCoordinator,
        leaving: &[Leaving],
        reason: &str,
    ) -> Result<Vec<ErrorCode>, ErrorCode> {
        let names: Vec<&str> = leaving.iter().map(|leaving| leaving.member_id.as_str()).collect();
        let reason = format_args!("members {names:?} leave; client reason: {reason}");
        self.act(coordinator, reason, |inner, now, effects| match inner.group.state() {
            State::Dead => Err(ErrorCode::CoordinatorNotAvailable),
            _ => Ok(inner.group.leave(leaving, now, effects)),
        })
    }

    /// The log was read, or the group made: its timers begin.
    pub fn begin(self: &Arc<Self>, coordinator: &GroupCoordinator) {
        self.arm(coordinator, &mut self.inner.lock());
    }

    /// The time has come that was asked for, unless another one was asked for since.
    pub fn wake(self: &Arc<Self>, at: Moment, coordinator: &GroupCoordinator) {
        {
            let mut inner = self.inner.lock();
            if inner.wake_at != Some(at) {
                return;
            }
            inner.wake_at = None;
        }
        let reason = format_args!("a member was not heard of in time");
        self.act(coordinator, reason, |inner, now, effects| inner.group.tick(now, effects));
    }

    /// Another broker coordinates the group now, or it is deleted.
    pub fn end(&self, error: ErrorCode, now: Now) {
        let mut inner = self.inner.lock();
        let mut effects = Vec::new();
        inner.group.end(error, now, &mut effects);
        for effect in effects {
            match effect {
                Effect::AnswerJoin { request, answer } => inner.answer_join(request, answer),
                Effect::AnswerSync { request, answer } => inner.answer_sync(request, answer),
                Effect::Store { .. } => unreachable!("a group that ends has nothing to store"),
            }
        }
    }

    /// Lets the group act, carries out what it decides, and sees to its timers.
    fn act<T>(
        self: &Arc<Self>,
        coordinator: &GroupCoordinator,
        reason: fmt::Arguments<'_>,
        act: impl FnOnce(&mut Inner, Now, &mut Vec<Effect>) -> T,
    ) -> T {
        let now = coordinator.now();
        let mut inner = self.inner.lock();
        let before = (inner.group.state(), inner.group.generation());
        let mut effects = Vec::new();
        let result = act(&mut inner, now, &mut effects);
        if inner.group.next_deadline().is_some_and(|deadline| now.is_past(deadline)) {
            inner.group.tick(now, &mut effects);
        }
        self.carry_out(coordinator, &mut inner, effects, now);
        self.tell(&inner.group, before, reason);
        if !self.bury_stillborn(&mut inner, now) {
            self.arm(coordinator, &mut inner);
        }
        result
    }

    fn arm(self: &Arc<Self>, coordinator: &GroupCoordinator, inner: &mut Inner) {
        let Some(deadline) = inner.group.next_deadline() else { return };
        if inner.wake_at.is_none_or(|at| deadline < at) {
            inner.wake_at = Some(deadline);
            coordinator.timers.arm(deadline, self);
        }
    }

    fn carry_out(
        self: &Arc<Self>,
        coordinator: &GroupCoordinator,
        inner: &mut Inner,
        effects: Vec<Effect>,
        now: Now,
    ) {
        let mut effects = VecDeque::from(effects);
        while let Some(effect) = effects.pop_front() {
            match effect {
                Effect::AnswerJoin { request, answer } => inner.answer_join(request, answer),
                Effect::AnswerSync { request, answer } => inner.answer_sync(request, answer),
                Effect::Store { number, record } => {
                    if let Some(outcome) = self.store(coordinator, number, &record, now) {
                        let mut more = Vec::new();
                        inner.group.stored(number, outcome.map_err(store_error), now, &mut more);
                        effects.extend(more);
                    }
                }
            }
        }
    }

    /// Appends the record of the group. `None` while it is not known how that ends.
    fn store(
        self: &Arc<Self>,
        coordinator: &GroupCoordinator,
        number: u64,
        record: &StoredGroup,
        now: Now,
    ) -> Option<Result<(), ErrorCode>> {
        let mut batch = BatchBuilder::new().with_compression(coordinator.codec);
        let records =
            group_key(&self.id).and_then(|key| Ok((key, group_value(record, coordinator.versions)?)));
        match records {
            Ok((key, value)) => batch.append(now.wall, Some(&key), Some(&value), &[]),
            Err(error) => return Some(Err(self.misfit(&error))),
        }
        let appended = match self.partition.append(&batch.finish(), coordinator.acks, now.wall) {
            Ok(appended) => appended,
            Err(error) => return Some(Err(error)),
        };
        let completion = Completion::Stored { group: self.clone(), number };
        self.partition.when_committed(&appended, coordinator, completion).map(|(outcome, _)| outcome)
    }

    /// What the wire can carry the log can carry too, so this says that we filled something in wrongly.
    fn misfit(&self, error: &EncodeError) -> ErrorCode {
        tracing::error!(group = self.id, %error, "record of the group cannot be written");
        ErrorCode::UnknownServerError
    }

    /// Changes of state, in the words that Kafka's own log has for them.
    fn tell(&self, group: &Group, before: (State, i32), reason: fmt::Arguments<'_>) {
        let (state, generation) = (group.state(), group.generation());
        if before == (state, generation) {
            return;
        }
        let (id, partition) = (&self.id, self.partition.hosted().name());
        let members = group.members().count();
        match state {
            State::PreparingRebalance => tracing::info!(
                "Preparing to rebalance group {id} in state {} with old generation {generation} ({partition}) (reason: \
                 {reason})",
                state.name()
            ),
            State::CompletingRebalance => {
                tracing::info!(
                    "Stabilized group {id} generation {generation} ({partition}) with {members} members"
                );
            }
            State::Stable => tracing::info!(
                "Assignment received from leader {} for group {id} for generation {generation}. The group has {members} \
                 members, {} of which are static.",
                group.leader().unwrap_or_default(),
                group.members().filter(|member| member.instance_id.is_some()).count()
            ),
            State::Empty => {
                tracing::info!("Group {id} with generation {generation} is now empty ({partition})")
            }
            State::Dead => tracing::info!("Group {id} is dead, skipping rebalance stage"),
        }
    }

    // ---- offsets ----

    /// Commits offsets; the answer comes once they are in the log and replicated.
    pub fn commit(
        self: &Arc<Self>,
        coordinator: &GroupCoordinator,
        committer: Committer<'_>,
        offsets: Vec<(TopicPartition, CommittedOffset)>,
    ) -> oneshot::Receiver<ErrorCode> {
        let now = coordinator.now();
        let (answer, receiver) = oneshot::channel();
        let mut inner = self.inner.lock();
        let group = &mut inner.group;
        let appended = group.check_commit(committer, now).and_then(|()| {
            let batch =
                self.commit_batch(coordinator, &offsets, now.wall).map_err(|error| self.misfit(&error))?;
            self.partition.append(&batch, coordinator.acks, now.wall).map_err(commit_error)
        });
        match appended {
            Ok(appended) => {
                offsets.iter().for_each(|(partition, _)| group.offsets.begin(partition));
                let commit = Commit { position: appended.base_offset, offsets, answer };
                let completion = Completion::Commit { group: self.clone(), commit };
                if let Some((outcome, Completion::Commit { commit, .. })) =
                    self.partition.when_committed(&appended, coordinator, completion)
                {
                    commit.complete(group, outcome);
                }
            }
            Err(error) => {
                let _ = answer.send(error);
                self.bury_stillborn(&mut inner, now);
            }
        }
        receiver
    }

    fn commit_batch(
        &self,
        coordinator: &GroupCoordinator,
        offsets: &[(TopicPartition, CommittedOffset)],
        now: Timestamp,
    ) -> Result<Bytes, EncodeError> {
        let mut batch = BatchBuilder::new().with_compression(coordinator.codec);
        batch.set_producer(COMMIT_PRODUCER);
        for (partition, committed) in offsets {
            let key = offset_key(&self.id, partition)?;
            let value = offset_value(committed, coordinator.versions)?;
            batch.append(now, Some(&key), Some(&value), &[]);
        }
        Ok(batch.finish())
    }

    /// Deletes the group, if nobody is in it.
    pub fn delete(&self, coordinator: &GroupCoordinator) -> Result<(), ErrorCode> {
        let mut inner = self.inner.lock();
        inner.group.check_delete()?;
        let now = coordinator.now();
        let group = &inner.group;
        let offsets = group.offsets.iter().map(|(partition, _)| offset_key(&self.id, partition));
        self.write_tombstones(offsets.chain(self.own_key(group)), now).map_err(store_error)?;
        self.bury(&mut inner, now);
        Ok(())
    }

    /// Deletes offsets of topics that no member reads; answers each partition.
    pub fn delete_offsets(
        &self,
        coordinator: &GroupCoordinator,
        partitions: Vec<TopicPartition>,
    ) -> Result<Vec<OffsetDeletion>, ErrorCode> {
        let mut inner = self.inner.lock();
        inner.group.check_delete_offsets()?;
        let answers: Vec<OffsetDeletion> = partitions
            .into_iter()
            .map(|partition| {
                let in_use = inner.group.is_subscribed_to(&partition.topic);
                (partition, if in_use { Err(ErrorCode::GroupSubscribedToTopic) } else { Ok(()) })
            })
            .collect();
        let deleted: Vec<TopicPartition> = answers
            .iter()
            .filter(|(partition, answer)| answer.is_ok() && inner.group.offsets.get(partition).is_some())
            .map(|(partition, _)| partition.clone())
            .collect();
        self.remove_offsets(&mut inner, &deleted, coordinator.now()).map_err(commit_error)?;
        Ok(answers)
    }

    /// Deletes the offsets of partitions that are gone. What cannot be written now expires later.
    pub fn forget_offsets(&self, coordinator: &GroupCoordinator, gone: &[TopicPartition]) {
        let mut inner = self.inner.lock();
        let known: Vec<TopicPartition> =
            gone.iter().filter(|partition| inner.group.offsets.get(partition).is_some()).cloned().collect();
        if !known.is_empty() {
            self.remove_or_tell(&mut inner, &known, coordinator.now());
        }
    }

    /// Deletes the offsets whose time is over, and the group with the last of them if nobody is in it.
    pub fn expire_offsets(&self, coordinator: &GroupCoordinator, retention_ms: i64) -> usize {
        let now = coordinator.now();
        let mut inner = self.inner.lock();
        let expired = inner.group.expired_offsets(now, retention_ms);
        self.remove_or_tell(&mut inner, &expired, now);
        expired.len()
    }

    fn remove_or_tell(&self, inner: &mut Inner, partitions: &[TopicPartition], now: Now) {
        if let Err(error) = self.remove_offsets(inner, partitions, now) {
            tracing::warn!(group = self.id, ?error, "offsets not removed, tried again later");
        }
    }

    fn remove_offsets(
        &self,
        inner: &mut Inner,
        partitions: &[TopicPartition],
        now: Now,
    ) -> Result<(), ErrorCode> {
        self.write_tombstones(partitions.iter().map(|partition| offset_key(&self.id, partition)), now)?;
        for partition in partitions {
            inner.group.offsets.remove(partition);
        }
        if inner.group.is_forgotten() {
            self.write_tombstones(self.own_key(&inner.group), now)?;
            self.bury(inner, now);
        }
        Ok(())
    }

    /// The key of the group, if it was ever stored.
    fn own_key(&self, group: &Group) -> Option<Result<Bytes, EncodeError>> {
        (group.generation() > 0).then(|| group_key(&self.id))
    }

    /// Nobody waits for them to be replicated: should they be lost, what they delete is deleted once more.
    fn write_tombstones(
        &self,
        keys: impl IntoIterator<Item = Result<Bytes, EncodeError>>,
        now: Now,
    ) -> Result<(), ErrorCode> {
        let mut batch = BatchBuilder::new();
        for key in keys {
            batch.append(now.wall, Some(&key.map_err(|error| self.misfit(&error))?), None, &[]);
        }
        if batch.is_empty() {
            return Ok(());
        }
        self.partition.append(&batch.finish(), RequiredAcks::Leader, now.wall).map(drop)
    }

    /// A group that came to nothing, such as one that was made for a request which was then refused, takes no place.
    fn bury_stillborn(&self, inner: &mut Inner, now: Now) -> bool {
        let stillborn = inner.group.generation() == 0 && inner.group.is_forgotten();
        if stillborn {
            self.bury(inner, now);
        }
        stillborn
    }

    /// The group is no more; whoever still holds it hears so.
    fn bury(&self, inner: &mut Inner, now: Now) {
        // Nobody waits: an empty group has no members.
        inner.group.end(ErrorCode::CoordinatorNotAvailable, now, &mut Vec::new());
        self.partition.forget(self);
    }
}
