//! Who wants to hear of what.
//!
//! Watches live as long as the connection that set them. Two tables, as in ZooKeeper: `data` hears of a znode's
//! creation, deletion and new data, `child` of its deletion and of changes to its list of children. A persistent
//! watch stands in both; a recursive one in `data` only, where it hears of its whole subtree but never of
//! children lists.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use crate::path;
use crate::protocol::{AddWatchMode, SessionId, WatcherType};

/// What a session may hold at most: one entry for each path in each table. A session that asks for more loses its connection.
pub const WATCHES_PER_SESSION_MAX: usize = 1 << 18;

/// The ways in which one session watches one path, as bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Modes(u8);

impl Modes {
    const NONE: Modes = Modes(0);
    /// Fires once.
    const STANDARD: Modes = Modes(1);
    const PERSISTENT: Modes = Modes(2);
    const RECURSIVE: Modes = Modes(4);
    const ALL: Modes = Modes(7);

    fn has(self, other: Modes) -> bool {
        self.0 & other.0 != 0
    }

    fn with(self, other: Modes) -> Modes {
        Modes(self.0 | other.0)
    }

    fn without(self, other: Modes) -> Modes {
        Modes(self.0 & !other.0)
    }
}

#[derive(Debug, Default)]
struct Table {
    by_path: BTreeMap<Arc<str>, BTreeMap<SessionId, Modes>>,
    by_session: BTreeMap<SessionId, BTreeSet<Arc<str>>>,
    /// Entries that hold [`Modes::RECURSIVE`]; while there are none, firing need not look at ancestors.
    recursive: usize,
}

impl Table {
    fn add(&mut self, path: &str, session: SessionId, mode: Modes) {
        let path = match self.by_path.get_key_value(path) {
            Some((known, _)) => known.clone(),
            None => Arc::from(path),
        };
        let modes = self.by_path.entry(path.clone()).or_default().entry(session).or_insert(Modes::NONE);
        if mode.has(Modes::RECURSIVE) && !modes.has(Modes::RECURSIVE) {
            self.recursive += 1;
        }
        *modes = modes.with(mode);
        self.by_session.entry(session).or_default().insert(path);
    }

    fn modes(&self, path: &str, session: SessionId) -> Modes {
        self.by_path.get(path).and_then(|watchers| watchers.get(&session)).copied().unwrap_or(Modes::NONE)
    }

    /// Takes `mode` away; whether there was anything to take.
    fn remove(&mut self, path: &str, session: SessionId, mode: Modes) -> bool {
        let Some(watchers) = self.by_path.get_mut(path) else { return false };
        let Some(modes) = watchers.get_mut(&session) else { return false };
        let before = *modes;
        *modes = before.without(mode);
        if before.has(Modes::RECURSIVE) && !modes.has(Modes::RECURSIVE) {
            self.recursive -= 1;
        }
        let changed = *modes != before;
        if *modes == Modes::NONE {
            watchers.remove(&session);
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
            self.forget_path(path, session);
        }
        changed
    }

    fn forget_path(&mut self, path: &str, session: SessionId) {
        if let Some(paths) = self.by_session.get_mut(&session) {
            paths.remove(path);
            if paths.is_empty() {
                self.by_session.remove(&session);
            }
        }
    }

    fn remove_session(&mut self, session: SessionId) {
        for path in self.by_session.remove(&session).unwrap_or_default() {
            let Some(watchers) = self.by_path.get_mut(&path) else { continue };
            if watchers.remove(&session).is_some_and(|modes| modes.has(Modes::RECURSIVE)) {
                self.recursive -= 1;
            }
            if watchers.is_empty() {
                self.by_path.remove(&path);
            }
        }
    }

    /// The sessions to tell of something that happened to `path`, in order; standard watches are used up.
    fn fire(&mut self, path: &str) -> Vec<SessionId> {
        let mut heard = Vec::new();
        if let Some(watchers) = self.by_path.get_mut(path) {
            let mut done = Vec::new();
            watchers.retain(|session, modes| {
                heard.push(*session);
                *modes = modes.without(Modes::STANDARD);
                if *modes == Modes::NONE {
                    done.push(*session);
                }
                *modes != Modes::NONE
            });
            if watchers.is_empty() {
                self.by_path.remove(path);
            }
            for session in done {
                self.forget_path(path, session);
            }
        }
        if self.recursive > 0 {
            for ancestor in path::ancestors(path) {
                let Some(watchers) = self.by_path.get(ancestor) else { continue };
                heard.extend(
                    watchers
                        .iter()
                        .filter(|(_, modes)| modes.has(Modes::RECURSIVE))
                        .map(|(session, _)| *session),
                );
            }
            heard.sort_unstable();
            heard.dedup();
        }
        heard
    }
}

#[derive(Debug, Default)]
pub struct Watches {
    data: Table,
    child: Table,
}

impl Watches {
    pub fn add_data(&mut self, path: &str, session: SessionId) {
        self.data.add(path, session, Modes::STANDARD);
    }

    pub fn add_child(&mut self, path: &str, session: SessionId) {
        self.child.add(path, session, Modes::STANDARD);
    }

    pub fn add(&mut self, path: &str, session: SessionId, mode: AddWatchMode) {
        match mode {
            AddWatchMode::Persistent => {
                self.data.add(path, session, Modes::PERSISTENT);
                self.child.add(path, session, Modes::PERSISTENT);
            }
            AddWatchMode::PersistentRecursive => self.data.add(path, session, Modes::RECURSIVE),
        }
    }

    /// Whether `session` watches `path` in the way that `kind` says.
    pub fn contains(&self, path: &str, session: SessionId, kind: WatcherType) -> bool {
        let (data, child) = modes_of(kind);
        self.data.modes(path, session).has(data) || self.child.modes(path, session).has(child)
    }

    /// Takes such watches away; whether there were any.
    pub fn remove(&mut self, path: &str, session: SessionId, kind: WatcherType) -> bool {
        let (data, child) = modes_of(kind);
        let in_data = self.data.remove(path, session, data);
        let in_child = self.child.remove(path, session, child);
        in_data || in_child
    }

    pub fn remove_session(&mut self, session: SessionId) {
        self.data.remove_session(session);
        self.child.remove_session(session);
    }

    pub fn held_by(&self, session: SessionId) -> usize {
        let held = |table: &Table| table.by_session.get(&session).map_or(0, BTreeSet::len);
        held(&self.data) + held(&self.child)
    }

    /// Watches of all sessions, for the operator.
    pub fn count(&self) -> usize {
        let count = |table: &Table| table.by_session.values().map(BTreeSet::len).sum::<usize>();
        count(&self.data) + count(&self.child)
    }

    /// Whom to tell that `path` was created or has new data.
    pub fn fire_data(&mut self, path: &str) -> Vec<SessionId> {
        self.data.fire(path)
    }

    /// Whom to tell that the children of `path` changed.
    pub fn fire_children(&mut self, path: &str) -> Vec<SessionId> {
        self.child.fire(path)
    }

    /// Whom to tell that `path` was deleted: once, even if watched in both tables.
    pub fn fire_deleted(&mut self, path: &str) -> Vec<SessionId> {
        let mut heard = self.data.fire(path);
        let of_children = self.child.fire(path);
        let both = heard.len();
        heard.extend(
            of_children.into_iter().filter(|session| !heard[..both].contains(session)).collect::<Vec<_>>(),
        );
        heard
    }
}

/// What a watcher type stands for in the data and in the child table.
fn modes_of(kind: WatcherType) -> (Modes, Modes) {
    match kind {
        WatcherType::Children => (Modes::NONE, Modes::STANDARD),
        WatcherType::Data => (Modes::STANDARD, Modes::NONE),
        WatcherType::Persistent => (Modes::PERSISTENT, Modes::PERSISTENT),
        WatcherType::PersistentRecursive => (Modes::RECURSIVE, Modes::NONE),
        WatcherType::Any => (Modes::ALL, Modes::ALL),
    }
}
