//! How long to wait before the next try.

use std::time::Duration;

/// Doubles from `initial` up to `max`: `retry.backoff.ms` and `retry.backoff.max.ms` (KIP-580).
#[derive(Debug, Clone)]
pub struct Backoff {
    initial: Duration,
    max: Duration,
    failures: u32,
}

impl Backoff {
    pub fn new(initial: Duration, max: Duration) -> Backoff {
        Backoff { initial, max, failures: 0 }
    }

    /// How long to wait after one more failure.
    pub fn failed(&mut self) -> Duration {
        let wait = self.initial.saturating_mul(1 << self.failures.min(20)).min(self.max);
        self.failures = self.failures.saturating_add(1);
        wait
    }

    pub fn succeeded(&mut self) {
        self.failures = 0;
    }
}

impl Default for Backoff {
    /// 100 ms to 1 s, as Kafka's clients.
    fn default() -> Backoff {
        Backoff::new(Duration::from_millis(100), Duration::from_secs(1))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_limit_and_start_over_after_success() {
        let mut backoff = Backoff::default();
        let waits: Vec<u128> = (0..6).map(|_| backoff.failed().as_millis()).collect();
        assert_eq!(waits, [100, 200, 400, 800, 1000, 1000]);
        backoff.succeeded();
        assert_eq!(backoff.failed().as_millis(), 100);
    }

    #[test]
    fn a_long_outage_does_not_overflow() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(3));
        for _ in 0..100 {
            backoff.failed();
        }
        assert_eq!(backoff.failed(), Duration::from_secs(3));
    }
}
