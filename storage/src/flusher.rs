//! Workers that make logs durable, several at once, because each sync waits for the device by itself.
//!
//! Without any worker, logs wait until someone who holds no lock calls [`Flusher::work_here`]: so the simulator gets the
//! same order of calls in every run.

use std::collections::VecDeque;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use taffrail_runtime::blocking::Pool;

use crate::log::Log;

/// The workers, and the logs that wait for one. A log waits at most once, so the queue is bounded by their number.
pub(crate) struct Flusher {
    /// `None` = there are no workers.
    pool: Option<Pool>,
    threads_max: usize,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    /// Weak, because each log holds the flusher: without workers they would keep each other in memory for ever.
    logs: VecDeque<Weak<Log>>,
    running: usize,
}

impl Flusher {
    pub(crate) fn new(threads_max: usize) -> Self {
        let pool = (threads_max > 0).then(|| Pool::new("taffrail-flush", threads_max, threads_max));
        Self { pool, threads_max, queue: Arc::default() }
    }

    /// Lets a worker look at a log.
    pub(crate) fn submit(&self, log: Weak<Log>) {
        let mut queue = self.queue.lock();
        queue.logs.push_back(log);
        if self.pool.is_some() && queue.running == self.threads_max {
            return;
        }
        let Some(pool) = &self.pool else { return };
        queue.running += 1;
        drop(queue);
        let shared = Arc::clone(&self.queue);
        if pool.submit(move || work(&shared)).is_err() {
            // No thread is to be had: the next log that comes finds one, or the one after it.
            self.queue.lock().running -= 1;
            tracing::warn!("no thread is to be had for making logs durable");
        }
    }

    /// Does what waits on the caller's thread, if there are no workers.
    pub(crate) fn work_here(&self) {
        if self.pool.is_none() {
            self.queue.lock().running += 1;
            work(&self.queue);
        }
    }
}

fn work(queue: &Mutex<Queue>) {
    loop {
        let log = {
            let mut queue = queue.lock();
            let Some(log) = queue.logs.pop_front() else {
                queue.running -= 1;
                return;
            };
            log
        };
        // Another round of the same log goes to the end of the queue, so that no log keeps a worker to itself.
        if log.upgrade().is_some_and(|log| log.run_flush()) {
            queue.lock().logs.push_back(log);
        }
    }
}
