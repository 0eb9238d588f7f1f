//! A word from one future to another on the same shard.

use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::task::{Poll, Waker};

/// A flag with one waiter. Raising it twice before it is seen is the same as once.
#[derive(Default)]
pub(crate) struct Signal {
    raised: Cell<bool>,
    waiter: RefCell<Option<Waker>>,
}

impl Signal {
    /// Raises the flag and wakes who waits for it.
    pub(crate) fn raise(&self) {
        if !self.raised.replace(true)
            && let Some(waker) = self.waiter.borrow_mut().take()
        {
            waker.wake();
        }
    }

    /// Raises the flag without a wake-up: for callers whose own task polls the waiter next anyway.
    pub(crate) fn raise_quietly(&self) {
        self.raised.set(true);
    }

    /// Waits until the flag is raised, and lowers it.
    pub(crate) async fn wait(&self) {
        poll_fn(|context| {
            if self.raised.replace(false) {
                return Poll::Ready(());
            }
            let mut waiter = self.waiter.borrow_mut();
            if !waiter.as_ref().is_some_and(|waker| waker.will_wake(context.waker())) {
                *waiter = Some(context.waker().clone());
            }
            Poll::Pending
        })
        .await;
    }
}
