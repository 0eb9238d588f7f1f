//! The budget of memory for requests.
//!
//! Bytes of requests that are being received or handled count against one budget of the process
//! (`queued.max.request.bytes`), so that no number of clients can take memory without bound. A frame pays for what has
//! arrived of it, not for what it announces: a client that announces much and sends little holds little.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use taffrail_runtime::time;
use tokio::sync::Semaphore;

/// The budget was used up for longer than a connection may wait for its share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the memory for requests was used up for too long")]
pub(crate) struct NoMemory;

/// A budget in bytes. Clones share it.
#[derive(Clone)]
pub(crate) struct Budget {
    free: Arc<Semaphore>,
    /// Connections that wait for a share.
    waiting: Arc<AtomicUsize>,
    wait_max: Duration,
}

/// Counts a connection that waits, for as long as it does.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn enter(waiting: &'a AtomicUsize) -> Self {
        waiting.fetch_add(1, Ordering::Relaxed);
        Self(waiting)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A share of a [`Budget`], given back when dropped.
pub(crate) struct Share {
    budget: Arc<Semaphore>,
    bytes: usize,
}

impl Budget {
    /// A budget of `bytes`, for a share of which a caller waits `wait_max` at most.
    pub(crate) fn new(bytes: usize, wait_max: Duration) -> Self {
        let free = Arc::new(Semaphore::new(bytes.min(Semaphore::MAX_PERMITS)));
        Self { free, waiting: Arc::default(), wait_max }
    }

    /// A share of no bytes, to be grown.
    pub(crate) fn empty_share(&self) -> Share {
        Share { budget: Arc::clone(&self.free), bytes: 0 }
    }

    /// Makes `share` at least `bytes` large, waiting for others to give back if need be.
    ///
    /// # Errors
    /// [`NoMemory`] when the wait took too long; the share keeps its size.
    pub(crate) async fn grow(&self, share: &mut Share, bytes: usize) -> Result<(), NoMemory> {
        if self.try_grow(share, bytes) {
            return Ok(());
        }
        let more = u32::try_from(bytes - share.bytes).unwrap_or(u32::MAX);
        let _waiting = Waiting::enter(&self.waiting);
        match time::timeout(self.wait_max, self.free.acquire_many(more)).await {
            Ok(Ok(permit)) => {
                permit.forget();
                share.bytes = bytes;
                Ok(())
            }
            _ => Err(NoMemory),
        }
    }

    /// [`Budget::grow`] without waiting: tells whether the bytes were free.
    pub(crate) fn try_grow(&self, share: &mut Share, bytes: usize) -> bool {
        let Some(more) = bytes.checked_sub(share.bytes).filter(|more| *more > 0) else { return true };
        let Ok(permit) = self.free.try_acquire_many(u32::try_from(more).unwrap_or(u32::MAX)) else { return false };
        permit.forget();
        share.bytes = bytes;
        true
    }

    /// Whether somebody waits for others to give back.
    pub(crate) fn is_wanted(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    /// Bytes that nobody holds.
    #[cfg(test)]
    pub(crate) fn free_bytes(&self) -> usize {
        self.free.available_permits()
    }
}

impl Share {
    /// Whether it holds nothing.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes == 0
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.add_permits(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_share_comes_back_when_it_is_dropped_and_too_long_a_wait_is_refused() {
        let budget = Budget::new(100, Duration::from_millis(20));
        let mut first = budget.empty_share();
        budget.grow(&mut first, 80).await.unwrap();
        let mut second = budget.empty_share();
        assert_eq!(budget.grow(&mut second, 30).await, Err(NoMemory));
        budget.grow(&mut second, 20).await.unwrap();
        assert_eq!(budget.free_bytes(), 0);
        drop(first);
        budget.grow(&mut second, 60).await.unwrap();
        assert_eq!(budget.free_bytes(), 40);
        drop(second);
        assert_eq!(budget.free_bytes(), 100);
    }
}
