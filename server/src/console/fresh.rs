//! An answer that is kept for a moment, so that many who look cost no more than one.

use std::sync::Arc;
use std::time::Duration;

use taffrail_runtime::time;
use tokio::sync::Mutex;

/// See the module.
pub(super) struct Fresh<T> {
    fresh_for: Duration,
    kept: Mutex<Option<(time::Instant, Arc<T>)>>,
}

impl<T> Fresh<T> {
    pub(super) fn new(fresh_for: Duration) -> Self {
        Self { fresh_for, kept: Mutex::new(None) }
    }

    /// The kept answer if it is fresh, else that of `make`. Who asks meanwhile waits for it.
    pub(super) async fn get(&self, make: impl Future<Output = T>) -> Arc<T> {
        let mut kept = self.kept.lock().await;
        if let Some((at, answer)) = &*kept
            && time::monotonic().duration_since(*at) < self.fresh_for
        {
            return Arc::clone(answer);
        }
        let made = Arc::new(make.await);
        *kept = Some((time::monotonic(), Arc::clone(&made)));
        made
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn an_answer_serves_until_it_is_too_old() {
        let fresh = Fresh::new(Duration::from_secs(3_600));
        assert_eq!(*fresh.get(async { 1 }).await, 1);
        assert_eq!(*fresh.get(async { 2 }).await, 1, "the first one is fresh");
        let stale = Fresh::new(Duration::ZERO);
        assert_eq!(*stale.get(async { 1 }).await, 1);
        assert_eq!(*stale.get(async { 2 }).await, 2);
    }
}
