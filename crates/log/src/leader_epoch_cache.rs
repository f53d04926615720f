//! Which leader epoch wrote which offsets (KIP-101): `leader-epoch-checkpoint`.
//!
//! ```text
//! epoch 0 from 0, epoch 3 from 42:     0 0 0 0 ... 0 3 3 3 ...
//!                                      ^ 0          ^ 42
//! ```
//!
//! A follower asks where an epoch ended and cuts its own log there; so does a consumer that wants to know
//! whether what it read was lost.
//!
//! Changes stay in memory until [`LeaderEpochCache::text`] is written. That must happen before the recovery
//! point passes the offsets that an entry speaks of: entries above the recovery point come back from the
//! batches themselves.

use std::path::Path;

use ottla_files::Files;
use ottla_model::{LeaderEpoch, Offset};
use ottla_protocol::records::{BatchHeader, Magic};

use crate::checkpoint::{self, CheckpointError};

/// A leader epoch and the first offset it wrote, or could have written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochStart {
    pub epoch: LeaderEpoch,
    pub start: Offset,
}

/// Where an epoch ended: the answer to OffsetForLeaderEpoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The largest epoch known that is not above the one asked for.
    pub epoch: LeaderEpoch,
    /// The offset after the last one of that epoch.
    pub end_offset: Offset,
}

/// Both epochs and offsets strictly grow from entry to entry.
#[derive(Debug, Clone, Default)]
pub struct LeaderEpochCache {
    entries: Vec<EpochStart>,
    /// Counts changes.
    version: u64,
    /// The version that the file holds.
    written: u64,
}

impl LeaderEpochCache {
    /// Reads the checkpoint; a missing or empty one holds no epochs.
    pub fn read<F: Files>(files: &F, path: &Path) -> Result<LeaderEpochCache, CheckpointError> {
        let entries = checkpoint::read(files, path, |fields| {
            let [epoch, start] = fields else { return Err("expected epoch and start offset") };
            let epoch = epoch.parse().ok().filter(|e| *e >= 0).ok_or("the epoch is not a number from 0")?;
            let start = start.parse().ok().filter(|o| *o >= 0).ok_or("the offset is not a number from 0")?;
            Ok(EpochStart { epoch: LeaderEpoch(epoch), start: Offset(start) })
        })?;
        let mut cache = LeaderEpochCache::default();
        for entry in entries {
            // Through `assign`, so that entries out of order end as Kafka would have them.
            cache.assign(entry.epoch, entry.start);
        }
        cache.written = cache.version;
        Ok(cache)
    }

    /// The checkpoint to be written.
    pub fn text(&self) -> String {
        checkpoint::text(self.entries.iter().map(|entry| format!("{} {}", entry.epoch, entry.start)))
    }

    /// Whether memory is ahead of the file.
    pub fn is_changed(&self) -> bool {
        self.version != self.written
    }

    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Tells that the file holds what memory did at `version`.
    pub(crate) fn written(&mut self, version: u64) {
        self.written = version;
    }

    pub fn entries(&self) -> &[EpochStart] {
        &self.entries
    }

    pub fn latest(&self) -> Option<EpochStart> {
        self.entries.last().copied()
    }

    /// Notes that `epoch` begins at `start`, on becoming leader and with each appended batch.
    ///
    /// Entries that contradict it go: those of the same or later epochs, and those that start at or after it.
    pub fn assign(&mut self, epoch: LeaderEpoch, start: Offset) {
        if epoch < LeaderEpoch(0) {
            return;
        }
        if let Some(latest) = self.entries.last()
            && latest.epoch == epoch
            && latest.start <= start
        {
            return;
        }
        while self.entries.last().is_some_and(|last| last.epoch >= epoch || last.start >= start) {
            self.entries.pop();
        }
        self.entries.push(EpochStart { epoch, start });
        self.version += 1;
    }

    /// Notes the epoch of an appended batch.
    pub(crate) fn note_batch(&mut self, header: &BatchHeader) {
        match header.magic {
            Magic::V2 => self.assign(header.leader_epoch, header.base_offset),
            // What follows could not be told from what an older epoch wrote.
            Magic::V0 | Magic::V1 => self.clear(),
        }
    }

    /// Forgets what begins at or after `end`, when the log is cut there.
    pub fn truncate_from_end(&mut self, end: Offset) {
        let kept = self.entries.partition_point(|entry| entry.start < end);
        if kept < self.entries.len() {
            self.entries.truncate(kept);
            self.version += 1;
        }
    }

    /// Forgets what ends before `start`, when the log's start moves there. The epoch that `start` lies in
    /// remains.
    pub fn truncate_from_start(&mut self, start: Offset) {
        let below = self.entries.partition_point(|entry| entry.start <= start);
        let Some(last_below) = below.checked_sub(1) else { return };
        if last_below == 0 && self.entries[0].start == start {
            return;
        }
        self.entries.drain(..last_below);
        self.entries[0].start = start;
        self.version += 1;
    }

    /// Forgets everything: the log holds batches from before leader epochs existed.
    pub fn clear(&mut self) {
        if !self.entries.is_empty() {
            self.entries.clear();
            self.version += 1;
        }
    }

    /// Where `epoch` ended, for a log that ends at `log_end`; `None` when the log cannot tell.
    pub fn end_offset(&self, epoch: LeaderEpoch, log_end: Offset) -> Option<EpochEnd> {
        let latest = self.entries.last()?;
        if epoch == latest.epoch {
            return Some(EpochEnd { epoch, end_offset: log_end });
        }
        if epoch < LeaderEpoch(0) {
            return None;
        }
        let higher = self.entries.partition_point(|entry| entry.epoch <= epoch);
        let end_offset = self.entries.get(higher)?.start;
        // Below the first epoch, the log's start is the end of what was asked for.
        let epoch = higher.checked_sub(1).map_or(epoch, |found| self.entries[found].epoch);
        Some(EpochEnd { epoch, end_offset })
    }

    /// The epoch that wrote `offset`.
    pub fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start <= offset);
        Some(self.entries[after.checked_sub(1)?].epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ottla_files::HostileDisk;

    fn cache(entries: &[(i32, i64)]) -> LeaderEpochCache {
        let mut cache = LeaderEpochCache::default();
        for (epoch, start) in entries {
            cache.assign(LeaderEpoch(*epoch), Offset(*start));
        }
        cache
    }

    fn held(cache: &LeaderEpochCache) -> Vec<(i32, i64)> {
        cache.entries().iter().map(|entry| (entry.epoch.0, entry.start.0)).collect()
    }

    #[test]
    fn text_is_kafkas() {
        assert_eq!(cache(&[(0, 0), (3, 42)]).text(), "0\n2\n0 0\n3 42\n");
    }

    #[test]
    fn a_checkpoint_is_read_back_and_damage_is_named() {
        let disk = HostileDisk::new(0);
        let path = Path::new("/leader-epoch-checkpoint");
        assert_eq!(LeaderEpochCache::read(&disk, path).unwrap().latest(), None, "no file");
        for (content, entries) in
            [("", vec![]), ("0\n2\n0 0\n3 42\n", vec![(0, 0), (3, 42)]), ("0\n2\n3 42\n1 7\n", vec![(1, 7)])]
        {
            disk.replace(path, content.as_bytes()).unwrap();
            assert_eq!(held(&LeaderEpochCache::read(&disk, path).unwrap()), entries, "{content:?}");
        }
        for content in ["0\n1\n", "0\n1\n-1 0\n", "0\n1\n0 -1\n", "0\n1\n0\n", "1\n0\n"] {
            disk.replace(path, content.as_bytes()).unwrap();
            assert!(LeaderEpochCache::read(&disk, path).is_err(), "{content:?}");
        }
    }

    #[test]
    fn assigning_removes_what_it_contradicts() {
        let before = [(1, 10), (2, 20), (4, 40)];
        for (why, epoch, start, after) in [
            ("the latest epoch goes on", 4, 50, vec![(1, 10), (2, 20), (4, 40)]),
            ("a later epoch", 5, 50, vec![(1, 10), (2, 20), (4, 40), (5, 50)]),
            ("a later epoch where the latest wrote nothing", 5, 40, vec![(1, 10), (2, 20), (5, 40)]),
            ("a later epoch below the latest", 5, 30, vec![(1, 10), (2, 20), (5, 30)]),
            ("the latest epoch from earlier", 4, 30, vec![(1, 10), (2, 20), (4, 30)]),
            ("an earlier epoch", 3, 50, vec![(1, 10), (2, 20), (3, 50)]),
            ("an epoch before all, from the start", 0, 0, vec![(0, 0)]),
            ("no epoch", -1, 60, vec![(1, 10), (2, 20), (4, 40)]),
        ] {
            let mut cache = cache(&before);
            cache.assign(LeaderEpoch(epoch), Offset(start));
            assert_eq!(held(&cache), after, "{why}");
        }
    }

    #[test]
    fn truncation_from_the_end_forgets_what_begins_there() {
        for (why, end, after) in [
            ("above all", 50, vec![(1, 10), (2, 20)]),
            ("inside the last epoch", 21, vec![(1, 10), (2, 20)]),
            ("at the start of the last epoch", 20, vec![(1, 10)]),
            ("below all", 0, vec![]),
        ] {
            let mut cache = cache(&[(1, 10), (2, 20)]);
            cache.truncate_from_end(Offset(end));
            assert_eq!(held(&cache), after, "{why}");
        }
    }

    #[test]
    fn truncation_from_the_start_keeps_the_epoch_it_lies_in() {
        for (why, start, after) in [
            ("below all", 5, vec![(1, 10), (2, 20), (3, 30)]),
            ("at the first", 10, vec![(1, 10), (2, 20), (3, 30)]),
            ("inside the first", 15, vec![(1, 15), (2, 20), (3, 30)]),
            ("at the second", 20, vec![(2, 20), (3, 30)]),
            ("inside the second", 29, vec![(2, 29), (3, 30)]),
            ("above all", 99, vec![(3, 99)]),
        ] {
            let mut cache = cache(&[(1, 10), (2, 20), (3, 30)]);
            cache.written(cache.version());
            cache.truncate_from_start(Offset(start));
            assert_eq!(held(&cache), after, "{why}");
            assert_eq!(cache.is_changed(), after != [(1, 10), (2, 20), (3, 30)], "{why}");
        }
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next_higher() {
        let cache = cache(&[(2, 10), (4, 40)]);
        for (why, epoch, end) in [
            ("no epoch", -1, None),
            ("the latest ends with the log", 4, Some((4, 99))),
            ("above the latest", 5, None),
            ("a known one", 2, Some((2, 40))),
            ("one that wrote nothing", 3, Some((2, 40))),
            ("below the first", 1, Some((1, 10))),
        ] {
            let found = cache.end_offset(LeaderEpoch(epoch), Offset(99));
            assert_eq!(found.map(|end| (end.epoch.0, end.end_offset.0)), end, "{why}");
        }
        assert_eq!(
            LeaderEpochCache::default().end_offset(LeaderEpoch(0), Offset(9)),
            None,
            "no epochs known"
        );
        assert_eq!(cache.epoch_of(Offset(9)), None);
        assert_eq!(cache.epoch_of(Offset(39)), Some(LeaderEpoch(2)));
        assert_eq!(cache.epoch_of(Offset(40)), Some(LeaderEpoch(4)));
    }
}
