//! What a leader knows of one follower: how far it has fetched, and when it last had everything.

use ottla_model::{Offset, Timestamp};

/// A follower's progress, as its fetches tell it.
///
/// A fetch at offset N says that the follower holds everything below N. It counts as caught up at the moment
/// of the *previous* fetch if N reaches the log end as it was then: a follower of a busy leader is never quite
/// at the end, yet it is in step. (KAFKA-1546)
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Follower {
    log_end: Offset,
    log_start: Offset,
    last_caught_up: Timestamp,
    last_fetch: Timestamp,
    leader_end_at_last_fetch: Offset,
}

impl Follower {
    /// A follower at the start of a leadership: in-sync ones count as caught up now, others as never.
    pub(crate) fn new(in_sync: bool, leader_end: Offset, now: Timestamp) -> Follower {
        let caught_up = if in_sync { now } else { Timestamp(0) };
        Follower {
            log_end: Offset(-1),
            log_start: Offset(-1),
            last_caught_up: caught_up,
            last_fetch: caught_up,
            leader_end_at_last_fetch: if in_sync { leader_end } else { Offset(-1) },
        }
    }

    pub(crate) fn fetched(&mut self, offset: Offset, log_start: Offset, leader_end: Offset, now: Timestamp) {
        if offset >= leader_end {
            self.last_caught_up = self.last_caught_up.max(now);
        } else if offset >= self.leader_end_at_last_fetch {
            self.last_caught_up = self.last_caught_up.max(self.last_fetch);
        }
        self.log_end = offset;
        self.log_start = log_start;
        self.last_fetch = now;
        self.leader_end_at_last_fetch = leader_end;
    }

    /// The end of the follower's log; -1 until its first fetch in this leadership.
    pub fn log_end(&self) -> Offset {
        self.log_end
    }

    /// The start of the follower's log; -1 until its first fetch in this leadership.
    pub fn log_start(&self) -> Offset {
        self.log_start
    }

    /// Whether the follower holds the whole log, or did so within `lag_ms_max` (`replica.lag.time.max.ms`).
    pub fn is_caught_up(&self, leader_end: Offset, now: Timestamp, lag_ms_max: i64) -> bool {
        self.log_end == leader_end || now.0 - self.last_caught_up.0 <= lag_ms_max
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAG_MS_MAX: i64 = 10_000;

    #[test]
    fn a_follower_that_reaches_the_end_of_the_previous_fetch_is_in_step() {
        for (why, fetches, now, caught_up) in [
            ("never fetched and not in sync at the start", vec![], 10_001, false),
            ("at the end just now", vec![(100, 100, 50_000)], 60_000, true),
            ("at the end, for ever, since nothing was appended", vec![(100, 100, 50_000)], 900_000, true),
            (
                "always one append behind, but never two",
                vec![(100, 110, 50_000), (110, 120, 55_000), (120, 130, 64_000)],
                65_000,
                true,
            ),
            (
                "falls further behind with each fetch",
                vec![(100, 110, 50_000), (101, 120, 55_000), (102, 130, 64_000)],
                65_000,
                false,
            ),
        ] {
            let mut follower = Follower::new(false, Offset(0), Timestamp(0));
            let mut leader_end = Offset(100);
            for (offset, end, at) in fetches {
                leader_end = Offset(end);
                follower.fetched(Offset(offset), Offset(0), leader_end, Timestamp(at));
            }
            assert_eq!(follower.is_caught_up(leader_end, Timestamp(now), LAG_MS_MAX), caught_up, "{why}");
        }
    }

    #[test]
    fn an_in_sync_follower_has_the_lag_time_to_show_up() {
        let follower = Follower::new(true, Offset(5), Timestamp(1_000));
        assert!(follower.is_caught_up(Offset(5), Timestamp(11_000), LAG_MS_MAX));
        assert!(!follower.is_caught_up(Offset(5), Timestamp(11_001), LAG_MS_MAX));
    }
}
