//! Bounded pools of threads for calls that wait for the disk.
//!
//! A shard never waits for a disk. What may block (reading a cold range, fsync, unlink, rename, truncate) runs on a pool
//! with a named number of threads and a named queue length, so that a slow disk cannot take memory without bound. Threads
//! start with the first job, so a process that needs none has none. In a simulation a job is a task that takes its time.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::{Condvar, Mutex};
use tokio::sync::oneshot;

type Job = Box<dyn FnOnce() + Send>;

/// Why a pool did not do a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PoolError {
    /// The queue is full: the caller has to slow down or refuse work.
    #[error("the queue of the thread pool is full")]
    Full,
    /// The pool was closed, or the job ended in a panic.
    #[error("the thread pool did not finish the job")]
    Gone,
}

/// A pool of threads with a bounded queue. Clones share it; it ends when the last clone goes.
#[derive(Clone)]
pub struct Pool {
    inner: Arc<Owner>,
}

struct Owner {
    shared: Arc<Shared>,
}

struct Shared {
    name: &'static str,
    threads_max: usize,
    queue_max: usize,
    state: Mutex<State>,
    wake: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<Job>,
    threads: usize,
    idle: usize,
    closed: bool,
}

impl Pool {
    /// A pool of at most `threads_max` threads called `name`, with at most `queue_max` jobs waiting.
    pub fn new(name: &'static str, threads_max: usize, queue_max: usize) -> Self {
        assert!(threads_max > 0 && queue_max > 0, "a pool needs a thread and a place in its queue");
        let shared = Shared { name, threads_max, queue_max, state: Mutex::default(), wake: Condvar::new() };
        Self { inner: Arc::new(Owner { shared: Arc::new(shared) }) }
    }

    /// Runs `job` on a thread of the pool and waits for its result.
    ///
    /// # Errors
    /// [`PoolError::Full`] when too many jobs wait; [`PoolError::Gone`] when the job panicked.
    pub async fn run<T: Send + 'static>(&self, job: impl FnOnce() -> T + Send + 'static) -> Result<T, PoolError> {
        let (sender, receiver) = oneshot::channel();
        self.submit(move || {
            // The caller may have gone meanwhile; then nobody wants the result.
            let _ = sender.send(job());
        })?;
        receiver.await.map_err(|_| PoolError::Gone)
    }

    /// Hands `job` over without waiting for it.
    ///
    /// # Errors
    /// [`PoolError::Full`] when too many jobs wait.
    pub fn submit(&self, job: impl FnOnce() + Send + 'static) -> Result<(), PoolError> {
        #[cfg(feature = "simulation")]
        if let Some(delay) = crate::simulation::disk_delay() {
            drop(crate::task::spawn(async move {
                crate::time::sleep(delay).await;
                job();
            }));
            return Ok(());
        }
        let shared = &self.inner.shared;
        let mut state = shared.state.lock();
        if state.queue.len() >= shared.queue_max {
            return Err(PoolError::Full);
        }
        state.queue.push_back(Box::new(job));
        if state.idle >= state.queue.len() || state.threads == shared.threads_max {
            shared.wake.notify_one();
            return Ok(());
        }
        state.threads += 1;
        drop(state);
        let worker = Arc::clone(shared);
        let started = std::thread::Builder::new().name(shared.name.to_owned()).spawn(move || worker.work());
        if started.is_err() {
            // Without a thread the job waits for those that run; if there are none, it is refused.
            let mut state = shared.state.lock();
            state.threads -= 1;
            if state.threads == 0 {
                state.queue.pop_back();
                return Err(PoolError::Gone);
            }
        }
        Ok(())
    }

    /// Jobs that wait for a thread.
    pub fn queued(&self) -> usize {
        self.inner.shared.state.lock().queue.len()
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.state.lock().closed = true;
        self.shared.wake.notify_all();
    }
}

impl Shared {
    fn work(&self) {
        loop {
            let mut state = self.state.lock();
            let job = loop {
                if let Some(job) = state.queue.pop_front() {
                    break job;
                }
                if state.closed {
                    state.threads -= 1;
                    return;
                }
                state.idle += 1;
                self.wake.wait(&mut state);
                state.idle -= 1;
            };
            drop(state);
            // A job that panics must not take its thread, and with it the pool, along: its caller sees `Gone`.
            let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(job));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn results_come_back_and_a_panic_harms_only_its_caller() {
        let pool = Pool::new("test", 2, 8);
        assert_eq!(pool.run(|| 6 * 7).await, Ok(42));
        assert_eq!(pool.run(|| panic!("on purpose")).await, Err::<(), _>(PoolError::Gone));
        assert_eq!(pool.run(|| 1).await, Ok(1));
    }

    #[tokio::test]
    async fn a_full_queue_refuses_more() {
        let pool = Pool::new("test", 1, 2);
        let (release, wait) = std::sync::mpsc::channel::<()>();
        let (started, running) = oneshot::channel();
        pool.submit(move || {
            let _ = started.send(());
            let _ = wait.recv();
        })
        .unwrap();
        running.await.unwrap();
        pool.submit(|| ()).unwrap();
        pool.submit(|| ()).unwrap();
        assert_eq!(pool.submit(|| ()), Err(PoolError::Full));
        release.send(()).unwrap();
        while pool.queued() > 0 {
            crate::task::yield_now().await;
        }
        assert_eq!(pool.run(|| 3).await, Ok(3));
    }
}
