//! Fetch sessions: what a fetcher asked for, remembered, so that it need not ask again (KIP-227).
//!
//! A client that follows a thousand partitions names them once; later requests name only what changes, and
//! answers hold only partitions that have news. A plain machine without a clock: time comes in.

use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;

use ottla_model::{LeaderEpoch, Offset, Timestamp};

/// A session that was used within this time is not evicted for another, in milliseconds.
const EVICTION_MS_MIN: i64 = 120_000;

/// The epoch that opens a session.
pub const INITIAL_EPOCH: i32 = 0;
/// The epoch of a request that wants none, and ends the one it names.
pub const FINAL_EPOCH: i32 = -1;

/// What is asked of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub fetch_offset: Offset,
    pub max_bytes: i32,
    pub leader_epoch: Option<LeaderEpoch>,
    pub last_fetched_epoch: Option<LeaderEpoch>,
    pub log_start_offset: Offset,
}

/// What the fetcher was last told of a partition; an answer that says the same is left out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    pub high_watermark: Offset,
    pub log_start_offset: Offset,
}

impl Told {
    const NOTHING: Told = Told { high_watermark: Offset(-1), log_start_offset: Offset(-1) };
}

#[derive(Debug, Clone)]
struct Remembered {
    wanted: Wanted,
    told: Told,
    turn: u64,
}

/// One fetcher's partitions, in the order in which they are served.
///
/// `K` names a partition: by topic name, or by topic id from Fetch v13 on.
#[derive(Debug, Clone)]
pub struct Session<K> {
    id: i32,
    next_epoch: i32,
    /// A follower; consumers never push one out.
    privileged: bool,
    by_topic_id: bool,
    created: Timestamp,
    last_used: Timestamp,
    partitions: HashMap<K, Remembered>,
    /// Partitions by turn: whoever returned data goes to the end, so that nobody starves under a byte limit.
    turns: BTreeMap<u64, K>,
    next_turn: u64,
}

impl<K: Clone + Eq + Hash> Session<K> {
    /// Partitions in the order in which they are to be read, with what was asked and what was last told.
    pub fn partitions(&self) -> impl Iterator<Item = (&K, &Wanted, Told)> {
        self.turns.values().filter_map(|key| {
            let known = self.partitions.get(key)?;
            Some((key, &known.wanted, known.told))
        })
    }

    pub fn id(&self) -> i32 {
        self.id
    }

    pub fn len(&self) -> usize {
        self.partitions.len()
    }

    pub fn is_empty(&self) -> bool {
        self.partitions.is_empty()
    }

    fn want(&mut self, key: K, wanted: Wanted) {
        if let Some(known) = self.partitions.get_mut(&key) {
            known.wanted = wanted;
            return;
        }
        let turn = self.take_turn(key.clone());
        self.partitions.insert(key, Remembered { wanted, told: Told::NOTHING, turn });
    }

    fn forget(&mut self, key: &K) {
        if let Some(known) = self.partitions.remove(key) {
            self.turns.remove(&known.turn);
        }
    }

    fn take_turn(&mut self, key: K) -> u64 {
        let turn = self.next_turn;
        self.next_turn += 1;
        self.turns.insert(turn, key);
        turn
    }

    /// Whether a partition's answer is news, and remembers it as told. `has_data` sends it to the end of the line.
    ///
    /// An error or a divergence is always news, and so is what follows it: nothing counts as told then.
    pub fn is_news(&mut self, key: &K, answer: Told, has_data: bool, is_trouble: bool) -> bool {
        let Some(known) = self.partitions.get_mut(key) else { return true };
        let news = has_data || is_trouble || known.told != answer;
        known.told = if is_trouble { Told::NOTHING } else { answer };
        if has_data {
            let turn = known.turn;
            self.turns.remove(&turn);
            let turn = self.take_turn(key.clone());
            if let Some(known) = self.partitions.get_mut(key) {
                known.turn = turn;
            }
        }
        news
    }
}

/// How a request takes part in sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Participation {
    /// Wants no session; the one named is over.
    Sessionless { over: i32 },
    /// Wants a new one; the one named is over.
    Open { over: i32 },
    /// Goes on with the one named.
    Continue { id: i32, epoch: i32 },
}

impl Participation {
    pub fn of(id: i32, epoch: i32) -> Participation {
        match epoch {
            FINAL_EPOCH => Participation::Sessionless { over: id },
            INITIAL_EPOCH => Participation::Open { over: id },
            _ => Participation::Continue { id, epoch },
        }
    }
}

/// Why a session cannot go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SessionRefusal {
    #[error("there is no fetch session {0}; it may have been evicted")]
    NotFound(i32),
    #[error("fetch session epoch {got} does not follow {expected}")]
    Epoch { got: i32, expected: i32 },
    #[error("the session names topics by id, the request by name, or the other way round")]
    TopicIds,
}

impl SessionRefusal {
    pub fn code(self) -> ottla_protocol::ErrorCode {
        match self {
            SessionRefusal::NotFound(_) => ottla_protocol::ErrorCode::FetchSessionIdNotFound,
            SessionRefusal::Epoch { .. } => ottla_protocol::ErrorCode::InvalidFetchSessionEpoch,
            SessionRefusal::TopicIds => ottla_protocol::ErrorCode::FetchSessionTopicIdError,
        }
    }
}

/// Partitions that all sessions together may remember: some 200 MB. Beyond that no session is opened, and one that outgrows
/// what is left is over.
const PARTITIONS_MAX: usize = 1_000_000;

/// The sessions of one broker, at most `max.incremental.fetch.session.cache.slots` of them.
///
/// When all slots are taken a newcomer gets one only from a session that has been idle for two minutes, or from
/// one that is as old and matters less (consumers before followers, few partitions before many); else it goes
/// without, which costs it longer requests and nothing else.
#[derive(Debug)]
pub struct FetchSessions<K> {
    slots: usize,
    sessions: HashMap<i32, Session<K>>,
    /// Remembered by all sessions together.
    partitions: usize,
    partitions_max: usize,
}

impl<K: Clone + Eq + Hash> FetchSessions<K> {
    pub fn new(slots: usize) -> FetchSessions<K> {
        FetchSessions { slots, sessions: HashMap::new(), partitions: 0, partitions_max: PARTITIONS_MAX }
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.sessions.len()
    }

    pub fn end(&mut self, id: i32) {
        if let Some(session) = self.sessions.remove(&id) {
            self.partitions -= session.len();
        }
    }

    /// Opens a session under an id chosen by the caller at random (ids are not guessed by other clients), if a slot
    /// can be had. Ids are positive; one that is taken gives no session.
    pub fn open(
        &mut self,
        id: i32,
        privileged: bool,
        by_topic_id: bool,
        wanted: impl IntoIterator<Item = (K, Wanted)>,
        now: Timestamp,
    ) -> Option<&mut Session<K>> {
        let mut session = Session {
            id,
            next_epoch: 1,
            privileged,
            by_topic_id,
            created: now,
            last_used: now,
            partitions: HashMap::new(),
            turns: BTreeMap::new(),
            next_turn: 0,
        };
        wanted.into_iter().for_each(|(key, wanted)| session.want(key, wanted));
        let impossible = id <= 0 || session.is_empty() || self.sessions.contains_key(&id);
        if impossible || self.partitions + session.len() > self.partitions_max {
            return None;
        }
        if self.sessions.len() >= self.slots && !self.evict(&session) {
            return None;
        }
        self.partitions += session.len();
        Some(self.sessions.entry(id).or_insert(session))
    }

    /// Makes room for a newcomer by ending the session that matters least, if that one matters little enough.
    fn evict(&mut self, newcomer: &Session<K>) -> bool {
        let now = newcomer.created.0;
        let idle = self.sessions.values().min_by_key(|session| session.last_used);
        if let Some(idle) = idle.filter(|session| now - session.last_used.0 > EVICTION_MS_MIN) {
            let id = idle.id;
            self.end(id);
            return true;
        }
        let importance = |session: &Session<K>| (session.privileged, session.len(), session.id);
        let replaceable = |session: &&Session<K>| {
            now - session.created.0 > EVICTION_MS_MIN || (newcomer.privileged && !session.privileged)
        };
        let least = self.sessions.values().filter(replaceable).min_by_key(|session| importance(session));
        match least.map(|session| (session.id, importance(session))) {
            Some((id, least)) if least <= importance(newcomer) => {
                self.end(id);
                true
            }
            _ => false,
        }
    }

    /// Goes on with a session: what the request names is added or changed, what it forgets is dropped.
    pub fn go_on(
        &mut self,
        id: i32,
        epoch: i32,
        by_topic_id: bool,
        wanted: impl IntoIterator<Item = (K, Wanted)>,
        forgotten: impl IntoIterator<Item = K>,
        now: Timestamp,
    ) -> Result<&mut Session<K>, SessionRefusal> {
        let session = self.sessions.get_mut(&id).ok_or(SessionRefusal::NotFound(id))?;
        if session.next_epoch != epoch {
            return Err(SessionRefusal::Epoch { got: epoch, expected: session.next_epoch });
        }
        if session.by_topic_id != by_topic_id {
            return Err(SessionRefusal::TopicIds);
        }
        session.next_epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        session.last_used = now;
        let before = session.len();
        wanted.into_iter().for_each(|(key, wanted)| session.want(key, wanted));
        forgotten.into_iter().for_each(|key| session.forget(&key));
        self.partitions = self.partitions - before + session.len();
        if self.partitions > self.partitions_max {
            self.end(id);
        }
        self.sessions.get_mut(&id).ok_or(SessionRefusal::NotFound(id))
    }

    pub fn get_mut(&mut self, id: i32) -> Option<&mut Session<K>> {
        self.sessions.get_mut(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Timestamp = Timestamp(1_000_000);
    const LATER: Timestamp = Timestamp(NOW.0 + EVICTION_MS_MIN + 1);

    fn wanted(offset: i64) -> Wanted {
        Wanted {
            fetch_offset: Offset(offset),
            max_bytes: 1000,
            leader_epoch: None,
            last_fetched_epoch: None,
            log_start_offset: Offset(-1),
        }
    }

    fn told(high_watermark: i64) -> Told {
        Told { high_watermark: Offset(high_watermark), log_start_offset: Offset(0) }
    }

    fn keys(session: &Session<u32>) -> Vec<u32> {
        session.partitions().map(|(key, ..)| *key).collect()
    }

    /// A cache with session 7 over partitions 1, 2 and 3.
    fn opened() -> FetchSessions<u32> {
        let mut sessions = FetchSessions::new(2);
        sessions.open(7, false, true, [1, 2, 3].map(|key| (key, wanted(0))), NOW).unwrap();
        sessions
    }

    #[test]
    fn a_session_remembers_what_was_asked() {
        let mut sessions = opened();
        let session = sessions.go_on(7, 1, true, [(2, wanted(50)), (9, wanted(0))], [1], NOW).unwrap();
        assert_eq!(keys(session), [2, 3, 9]);
        assert_eq!(session.partitions().next().unwrap().1.fetch_offset, Offset(50));
    }

    #[test]
    fn requests_out_of_line_are_refused() {
        for (why, id, epoch, by_topic_id, code) in [
            ("in line", 7, 1, true, None),
            ("unknown", 8, 1, true, Some(SessionRefusal::NotFound(8))),
            ("one skipped", 7, 2, true, Some(SessionRefusal::Epoch { got: 2, expected: 1 })),
            ("by name in a session by id", 7, 1, false, Some(SessionRefusal::TopicIds)),
        ] {
            let mut sessions = opened();
            let outcome = sessions.go_on(id, epoch, by_topic_id, [], [], NOW);
            assert_eq!(outcome.err(), code, "{why}");
        }
    }

    #[test]
    fn the_epoch_wraps_past_zero() {
        let mut sessions = opened();
        sessions.get_mut(7).unwrap().next_epoch = i32::MAX;
        sessions.go_on(7, i32::MAX, true, [], [], NOW).unwrap();
        assert!(sessions.go_on(7, 1, true, [], [], NOW).is_ok(), "0 would open a new session");
    }

    #[test]
    fn only_news_is_told() {
        let mut sessions = opened();
        let session = sessions.get_mut(7).unwrap();
        for (why, answer, has_data, is_trouble, news) in [
            ("never told before", told(5), false, false, true),
            ("the same again", told(5), false, false, false),
            ("the watermark moved", told(6), false, false, true),
            ("data", told(6), true, false, true),
            ("an error", told(6), false, true, true),
            ("the same error is told again", told(6), false, true, true),
            ("recovered: told, though the watermark is as before", told(6), false, false, true),
        ] {
            assert_eq!(session.is_news(&1, answer, has_data, is_trouble), news, "{why}");
        }
    }

    #[test]
    fn whoever_got_data_goes_to_the_end_of_the_line() {
        let mut sessions = opened();
        let session = sessions.get_mut(7).unwrap();
        session.is_news(&1, told(5), true, false);
        session.is_news(&2, told(5), false, false);
        assert_eq!(keys(session), [2, 3, 1]);
    }

    #[test]
    fn slots_go_to_whoever_matters_more() {
        let many = [4, 5, 6, 7].map(|key| (key, wanted(0)));
        let few = [(4, wanted(0))];
        for (why, privileged, partitions, now, opens) in [
            ("all slots are in use by the young", false, many.to_vec(), NOW, false),
            ("a follower pushes out a consumer at once", true, few.to_vec(), NOW, true),
            ("an idle session makes room for anyone", false, few.to_vec(), LATER, true),
        ] {
            let mut sessions = opened();
            sessions.open(8, false, true, [(1, wanted(0)), (2, wanted(0))], NOW).unwrap();
            assert_eq!(sessions.open(9, privileged, true, partitions, now).is_some(), opens, "{why}");
            assert_eq!(sessions.len(), 2, "{why}");
        }
    }

    #[test]
    fn what_all_sessions_remember_together_is_bounded() {
        let mut sessions = opened();
        sessions.partitions_max = 4;
        assert!(sessions.open(8, true, true, [4, 5].map(|key| (key, wanted(0))), NOW).is_none());
        assert!(sessions.open(9, false, true, [(4, wanted(0))], NOW).is_some());
        let outgrown = sessions.go_on(9, 1, true, [(5, wanted(0))], [], NOW).err();
        assert_eq!(outgrown, Some(SessionRefusal::NotFound(9)), "it is over");
        sessions.go_on(7, 1, true, [], [1, 2], NOW).unwrap();
        assert!(sessions.open(8, false, true, [4, 5, 6].map(|key| (key, wanted(0))), NOW).is_some());
    }

    #[test]
    fn busy_old_sessions_yield_to_larger_ones_only() {
        let mut sessions = opened();
        sessions.open(8, false, true, [(1, wanted(0)), (2, wanted(0))], NOW).unwrap();
        for id in [7, 8] {
            sessions.go_on(id, 1, true, [], [], LATER).unwrap();
        }
        assert!(
            sessions.open(9, false, true, [(4, wanted(0))], LATER).is_none(),
            "fewer partitions than both"
        );
        let many = [4, 5, 6].map(|key| (key, wanted(0)));
        assert!(sessions.open(10, false, true, many, LATER).is_some());
        assert!(sessions.get_mut(8).is_none(), "the smaller of the two went");
    }
}
