//! Requests that wait for a partition to grow (Kafka's purgatory, without the polling).
//!
//! A waiting Fetch counts down the bytes that it still wants. Each partition that it names holds a reference to it while
//! it waits; an append counts on all of them and wakes only those that have enough. A partition that nobody waits for pays
//! one load of an atomic counter for an append.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use taffrail_core::collections::HashMap;

/// One waiting request.
#[derive(Default)]
pub(crate) struct Waiter {
    missing_bytes: AtomicI64,
    done: AtomicBool,
    waker: AtomicWaker,
}

impl Waiter {
    /// A request that wants `missing_bytes` more.
    pub(crate) fn new(missing_bytes: i64) -> Arc<Self> {
        Arc::new(Self { missing_bytes: AtomicI64::new(missing_bytes), ..Self::default() })
    }

    /// `bytes` more can be read.
    pub(crate) fn add(&self, bytes: i64) {
        if self.missing_bytes.fetch_sub(bytes, Ordering::AcqRel) <= bytes {
            self.finish();
        }
    }

    /// There is nothing to wait for any more, for instance because a partition is gone.
    pub(crate) fn finish(&self) {
        self.done.store(true, Ordering::Release);
        self.waker.wake();
    }

    /// Waits until enough bytes came, or there is nothing to wait for.
    pub(crate) async fn wait(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.done.load(Ordering::Acquire) { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }
}

/// The requests that wait for one partition.
#[derive(Default)]
pub(crate) struct Waiters {
    /// By address, so that one can be taken out wherever it stands.
    waiting: Mutex<HashMap<usize, Arc<Waiter>>>,
    count: AtomicUsize,
}

impl Waiters {
    /// Makes `waiter` hear of this partition.
    pub(crate) fn enter(&self, waiter: &Arc<Waiter>) {
        let mut waiting = self.waiting.lock();
        waiting.insert(Arc::as_ptr(waiter) as usize, Arc::clone(waiter));
        // With the fence of the lock this is seen by every append that the caller's next look does not see.
        self.count.store(waiting.len(), Ordering::SeqCst);
    }

    /// Makes it hear no more.
    pub(crate) fn leave(&self, waiter: &Arc<Waiter>) {
        let mut waiting = self.waiting.lock();
        waiting.remove(&(Arc::as_ptr(waiter) as usize));
        self.count.store(waiting.len(), Ordering::SeqCst);
    }

    /// `bytes` more can be read of this partition.
    pub(crate) fn grown(&self, bytes: i64) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.waiting.lock().values().for_each(|waiter| waiter.add(bytes));
        }
    }

    /// What this partition can give has changed in another way: all have to look again.
    pub(crate) fn changed(&self) {
        if self.count.load(Ordering::SeqCst) > 0 {
            self.waiting.lock().values().for_each(|waiter| waiter.finish());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taffrail_runtime::{task, time};

    use super::*;

    fn is_done(waiter: &Waiter) -> bool {
        waiter.done.load(Ordering::Acquire)
    }

    #[tokio::test]
    async fn a_waiter_is_woken_when_its_partitions_together_have_grown_enough() {
        let (first, second) = (Waiters::default(), Waiters::default());
        let waiter = Waiter::new(100);
        first.enter(&waiter);
        second.enter(&waiter);
        let waiting = Arc::clone(&waiter);
        let task = task::spawn(async move { waiting.wait().await });
        first.grown(60);
        assert!(!is_done(&waiter));
        second.grown(40);
        time::timeout(Duration::from_secs(5), task).await.unwrap().unwrap();
    }

    #[test]
    fn a_change_wakes_all_and_growth_after_leaving_wakes_nobody() {
        let waiters = Waiters::default();
        let (stays, leaves) = (Waiter::new(100), Waiter::new(100));
        waiters.enter(&stays);
        waiters.enter(&leaves);
        waiters.leave(&leaves);
        waiters.changed();
        waiters.grown(1000);
        assert!(is_done(&stays));
        assert!(!is_done(&leaves));
    }
}
