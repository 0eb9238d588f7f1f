//! Clocks and timers.

use std::future::Future;
use std::pin::Pin;
use std::time::Duration;

pub use tokio::time::{Instant, Interval, MissedTickBehavior};

/// Now, on a clock that never goes back. For measuring and for deadlines.
pub fn monotonic() -> Instant {
    Instant::now()
}

/// Now, in milliseconds since 1970 (UTC), as Kafka stamps records. May jump when the machine's clock is set.
pub fn unix_ms() -> i64 {
    #[cfg(feature = "simulation")]
    if let Some(now_ms) = crate::simulation::unix_ms() {
        return now_ms;
    }
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Waits for `duration`.
pub async fn sleep(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Waits until `deadline`.
pub async fn sleep_until(deadline: Instant) {
    tokio::time::sleep_until(deadline).await;
}

/// A timer that is kept and set anew, for waits that come often and rarely end by it.
#[derive(Debug)]
pub struct Alarm(Pin<Box<tokio::time::Sleep>>);

impl Alarm {
    /// An alarm that rings at `deadline`.
    pub fn new(deadline: Instant) -> Self {
        Self(Box::pin(tokio::time::sleep_until(deadline)))
    }

    /// Makes it ring at `deadline` instead.
    pub fn set(&mut self, deadline: Instant) {
        self.0.as_mut().reset(deadline);
    }

    /// Waits until it rings; it goes on ringing until it is set anew.
    pub async fn rung(&mut self) {
        self.0.as_mut().await;
    }
}

/// The wait given to [`timeout`] was over before the work was.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("timed out")]
pub struct Elapsed;

/// Runs `work` for at most `duration`; the work is dropped when the time is over.
///
/// # Errors
/// [`Elapsed`] when the time was over first.
pub async fn timeout<F: Future>(duration: Duration, work: F) -> Result<F::Output, Elapsed> {
    tokio::time::timeout(duration, work).await.map_err(|_| Elapsed)
}

/// Like [`timeout`], with the moment given.
///
/// # Errors
/// [`Elapsed`] when the moment came first.
pub async fn timeout_at<F: Future>(deadline: Instant, work: F) -> Result<F::Output, Elapsed> {
    tokio::time::timeout_at(deadline, work).await.map_err(|_| Elapsed)
}

/// Ticks every `period`, first after one period; ticks that were missed are not made up for.
pub fn interval(period: Duration) -> Interval {
    let mut interval = tokio::time::interval_at(monotonic() + period, period);
    interval.set_missed_tick_behavior(MissedTickBehavior::Delay);
    interval
}
