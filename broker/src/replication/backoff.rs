//! Pauses between tries to reach a leader.

use std::time::Duration;

/// First pause.
const PAUSE_MIN: Duration = Duration::from_millis(50);

/// Longest pause.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Doubles the pause with each failure in a row.
#[derive(Debug, Default)]
pub(super) struct Backoff {
    failures: u32,
}

impl Backoff {
    /// Notes a failure; gives how long to wait: half of the pause, and of the other half a part by `entropy`, so that many
    /// followers of one leader do not come back in step.
    pub(super) fn failed(&mut self, entropy: u64) -> Duration {
        let pause = PAUSE_MIN.saturating_mul(1 << self.failures.min(16)).min(PAUSE_MAX);
        self.failures = self.failures.saturating_add(1);
        let half_ms = u64::try_from(pause.as_millis()).unwrap_or(u64::MAX) / 2;
        Duration::from_millis(half_ms + entropy % (half_ms + 1))
    }

    /// Whether nothing failed since the last success.
    pub(super) fn is_fresh(&self) -> bool {
        self.failures == 0
    }

    /// Notes a success.
    pub(super) fn succeeded(&mut self) {
        self.failures = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest_and_start_anew_after_a_success() {
        let mut backoff = Backoff::default();
        let longest: Vec<u128> = (0..7).map(|_| backoff.failed(u64::MAX / 2 * 2).as_millis()).collect();
        assert!(longest.iter().all(|pause| *pause <= 1000), "{longest:?}");
        assert_eq!(backoff.failed(0).as_millis(), 500, "at least half of the longest");
        backoff.succeeded();
        assert!(backoff.is_fresh());
        assert_eq!(backoff.failed(0).as_millis(), 25);
        assert_eq!(backoff.failed(50).as_millis(), 100);
    }
}
