//! Time as it is handed in: two clocks, each for what it is good at.

use ottla_model::Timestamp;

/// A point on a clock that is never set, in milliseconds since a moment of the caller's choice. Deadlines are measured by
/// it: a wall clock that jumps must neither end everyone's session nor keep the dead alive.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub i64);

/// One reading of both clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// What is written down and must mean something to another broker.
    pub wall: Timestamp,
    pub steady: Moment,
}

impl Now {
    /// The moment `ms` milliseconds from now.
    pub fn after(self, ms: i64) -> Moment {
        Moment(self.steady.0.saturating_add(ms))
    }

    pub fn is_past(self, deadline: Moment) -> bool {
        deadline <= self.steady
    }
}
