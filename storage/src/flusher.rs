//! Workers that make logs durable, several at once, because each sync waits for the device by itself.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_runtime::blocking::Pool;

use crate::log::Log;

/// The workers, and the logs that wait for one. A log waits at most once, so the queue is bounded by their number.
pub(crate) struct Flusher {
    pool: Pool,
    threads_max: usize,
    queue: Arc<Mutex<Queue>>,
}

#[derive(Default)]
struct Queue {
    logs: VecDeque<Arc<Log>>,
    running: usize,
}

impl Flusher {
    pub(crate) fn new(threads_max: usize) -> Self {
        let threads_max = threads_max.max(1);
        Self { pool: Pool::new("taffrail-flush", threads_max, threads_max), threads_max, queue: Arc::default() }
    }

    /// Lets a worker look at a log.
    pub(crate) fn submit(&self, log: Arc<Log>) {
        let mut queue = self.queue.lock();
        queue.logs.push_back(log);
        if queue.running == self.threads_max {
            return;
        }
        queue.running += 1;
        drop(queue);
        let shared = Arc::clone(&self.queue);
        if self.pool.submit(move || work(&shared)).is_err() {
            // There is no thread to be had at all: the caller's thread does it, rather than nobody.
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
        if log.run_flush() {
            queue.lock().logs.push_back(log);
        }
    }
}
