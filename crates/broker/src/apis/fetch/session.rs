//! How a fetch request takes part in a session, and what of its answer is news there.

use ottla_model::{LeaderEpoch, Offset, Uuid};
use ottla_protocol::Str;
use ottla_protocol::messages::fetch::{FetchPartition, FetchRequest};
use parking_lot::Mutex;

use super::response::FetchedPartition;
use crate::fetch_session::{FetchSessions, Participation, Session, SessionRefusal, Told, Wanted};
use crate::random;
use crate::server::Broker;

/// A topic as the session's requests name it: by id from v13 on.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum TopicKey {
    /// A copy: a slice of a request would keep the whole of it in memory.
    Name(Str),
    Id(Uuid),
}

/// A partition in a session.
pub type PartitionKey = (TopicKey, i32);

/// The sessions of this broker. One lock: it is held while a session's partitions are listed, not while they are read.
pub type Sessions = Mutex<FetchSessions<PartitionKey>>;

/// What a request asks for, in the order in which it is to be read.
pub type Asked = Vec<(PartitionKey, Wanted)>;

/// What happens to the session when the request is answered.
#[derive(Debug)]
pub enum Seat {
    /// There is none; the whole answer goes out.
    None,
    /// One is opened, if a slot can be had; the whole answer goes out.
    Opens { privileged: bool, by_topic_id: bool },
    /// Only news go out. What each partition was last told, in the order of [`Asked`].
    Incremental { id: i32, told: Vec<Told> },
}

/// Finds out what the request asks for, itself or by its session.
pub fn take_seat(
    broker: &Broker,
    request: &FetchRequest,
    version: i16,
    privileged: bool,
) -> Result<(Asked, Seat), SessionRefusal> {
    let by_topic_id = version >= 13;
    let (id, epoch) = match Participation::of(request.session_id, request.session_epoch) {
        Participation::Continue { id, epoch } => (id, epoch),
        full => {
            let (over, seat) = match full {
                Participation::Open { over } => (over, Seat::Opens { privileged, by_topic_id }),
                Participation::Sessionless { over } | Participation::Continue { id: over, .. } => {
                    (over, Seat::None)
                }
            };
            if over != 0 {
                broker.fetch_sessions.lock().end(over);
            }
            return Ok((asked(request, by_topic_id).collect(), seat));
        }
    };
    let mut sessions = broker.fetch_sessions.lock();
    let news = asked(request, by_topic_id);
    let session =
        sessions.go_on(id, epoch, by_topic_id, news, forgotten(request, by_topic_id), broker.now())?;
    if session.is_empty() {
        sessions.end(id);
        return Ok((Vec::new(), Seat::None));
    }
    let partitions = session.partitions().map(|(key, wanted, told)| ((key.clone(), *wanted), told));
    let (asked, told) = partitions.unzip();
    Ok((asked, Seat::Incremental { id, told }))
}

fn key(name: &Str, id: Uuid, by_topic_id: bool) -> TopicKey {
    if by_topic_id { TopicKey::Id(id) } else { TopicKey::Name(Str::from(name.as_str())) }
}

fn asked(request: &FetchRequest, by_topic_id: bool) -> impl Iterator<Item = (PartitionKey, Wanted)> {
    request.topics.iter().flat_map(move |topic| {
        let key = key(&topic.topic, topic.topic_id, by_topic_id);
        topic.partitions.iter().map(move |partition| ((key.clone(), partition.partition), wanted(partition)))
    })
}

fn forgotten(request: &FetchRequest, by_topic_id: bool) -> impl Iterator<Item = PartitionKey> {
    request.forgotten_topics_data.iter().flat_map(move |topic| {
        let key = key(&topic.topic, topic.topic_id, by_topic_id);
        topic.partitions.iter().map(move |partition| (key.clone(), *partition))
    })
}

fn wanted(partition: &FetchPartition) -> Wanted {
    let epoch = |epoch: i32| (epoch >= 0).then_some(LeaderEpoch(epoch));
    Wanted {
        fetch_offset: Offset(partition.fetch_offset),
        max_bytes: partition.partition_max_bytes,
        leader_epoch: epoch(partition.current_leader_epoch),
        last_fetched_epoch: epoch(partition.last_fetched_epoch),
        log_start_offset: Offset(partition.log_start_offset),
    }
}

impl Seat {
    /// Which of the answers go out, and under which session id. `answers` are in the order of `asked`.
    pub fn settle(
        self,
        broker: &Broker,
        asked: &[(PartitionKey, Wanted)],
        answers: &[FetchedPartition],
    ) -> (i32, Vec<bool>) {
        let everything = || vec![true; answers.len()];
        match self {
            Seat::None => (0, everything()),
            Seat::Opens { privileged, by_topic_id } => {
                let mut sessions = broker.fetch_sessions.lock();
                let wanted = asked.iter().cloned();
                let opened =
                    sessions.open(random::session_id(), privileged, by_topic_id, wanted, broker.now());
                let id = opened.map_or(0, |session| {
                    for ((key, _), answer) in asked.iter().zip(answers) {
                        is_news(session, key, answer);
                    }
                    session.id()
                });
                (id, everything())
            }
            Seat::Incremental { id, told } => {
                let mut sessions = broker.fetch_sessions.lock();
                // An evicted session is noticed at the next request; until then nothing can be left out.
                let Some(session) = sessions.get_mut(id) else { return (id, everything()) };
                let partitions = asked.iter().zip(answers).zip(told);
                // Most partitions have nothing to say: they are told apart without a look into the session.
                let news = partitions.map(|(((key, _), answer), told)| {
                    let is_quiet = !has_data(answer) && !is_trouble(answer) && told == telling(answer);
                    !is_quiet && is_news(session, key, answer)
                });
                (id, news.collect())
            }
        }
    }
}

fn is_news(session: &mut Session<PartitionKey>, key: &PartitionKey, answer: &FetchedPartition) -> bool {
    session.is_news(key, telling(answer), has_data(answer), is_trouble(answer))
}

fn telling(answer: &FetchedPartition) -> Told {
    Told { high_watermark: answer.high_watermark, log_start_offset: answer.log_start_offset }
}

fn has_data(answer: &FetchedPartition) -> bool {
    answer.records.len() > 0
}

fn is_trouble(answer: &FetchedPartition) -> bool {
    answer.error.is_error() || answer.diverging.is_some()
}
