//! When partitions whose logs could not be opened are tried again.

use std::time::Duration;

use parking_lot::Mutex;
use taffrail_runtime::time::{self, Instant};

/// Pause before the first try; it doubles up to [`PAUSE_MAX`].
const PAUSE_MIN: Duration = Duration::from_secs(1);

/// Longest pause: a disk that has room again serves its partitions soon after.
const PAUSE_MAX: Duration = Duration::from_secs(5);

/// The next try, if one is needed. Nothing waits while every log is open.
#[derive(Default)]
pub(super) struct Retry {
    next: Mutex<Option<Try>>,
}

#[derive(Clone, Copy)]
struct Try {
    at: Instant,
    pause: Duration,
}

impl Retry {
    /// Notes whether there are logs to try. A try that is due already stays where it is.
    pub(super) fn arm(&self, is_needed: bool) {
        let mut next = self.next.lock();
        *next = is_needed.then(|| next.unwrap_or_else(|| Try { at: time::monotonic() + PAUSE_MIN, pause: PAUSE_MIN }));
    }

    /// Notes that a try begins now; the next one comes later than this one did.
    pub(super) fn begin(&self) {
        if let Some(next) = &mut *self.next.lock() {
            next.pause = (next.pause * 2).min(PAUSE_MAX);
            next.at = time::monotonic() + next.pause;
        }
    }

    /// Waits for the next try, which a call of [`Retry::arm`] meanwhile does not change.
    pub(super) async fn due(&self) {
        let next = *self.next.lock();
        match next {
            Some(next) => time::sleep_until(next.at).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn tries_come_at_growing_distances_while_they_are_needed() {
        let retry = Retry::default();
        let is_waiting = || retry.next.lock().is_some();
        retry.arm(false);
        assert!(!is_waiting());
        retry.arm(true);
        let mut pauses = Vec::new();
        for _ in 0..4 {
            retry.begin();
            retry.arm(true);
            pauses.push(retry.next.lock().unwrap().pause.as_secs());
        }
        assert_eq!(pauses, [2, 4, 5, 5]);
        retry.arm(false);
        assert!(!is_waiting());
        assert!(time::timeout(Duration::from_millis(1), retry.due()).await.is_err());
    }
}
