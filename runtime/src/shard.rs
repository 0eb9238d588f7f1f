//! Shards: threads with a single-threaded runtime each, which own connections.
//!
//! A connection lives on one shard from its first byte to its last, so its state needs no locks and its tasks are never
//! moved between cores.

use std::future::Future;
use std::io;
use std::pin::Pin;

use tokio::sync::mpsc;
use tokio::task::LocalSet;

type Start = Box<dyn FnOnce() -> Pin<Box<dyn Future<Output = ()>>> + Send>;

/// Starts that may wait for a shard to take them; more make the sender see [`ShardBusy`].
const STARTS_MAX: usize = 16_384;

/// The shard has too many starts waiting, or has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the shard takes no more work")]
pub struct ShardBusy;

/// A fixed number of shards. Dropping it ends them, with all that runs on them.
pub struct Shards {
    senders: Vec<mpsc::Sender<Start>>,
    threads: Vec<std::thread::JoinHandle<()>>,
}

impl Shards {
    /// Starts `count` shards, whose threads are called `<name>-<index>`.
    ///
    /// # Errors
    /// When the operating system refuses a thread or an event queue.
    pub fn start(count: usize, name: &str) -> io::Result<Self> {
        assert!(count > 0, "at least one shard is needed");
        let mut shards = Self { senders: Vec::with_capacity(count), threads: Vec::with_capacity(count) };
        for index in 0..count {
            #[cfg(feature = "simulation")]
            if crate::simulation::is_on() {
                // The machine's only thread is every shard of its.
                let (sender, receiver) = mpsc::channel(STARTS_MAX);
                drop(tokio::task::spawn_local(serve(receiver)));
                shards.senders.push(sender);
                continue;
            }
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            let (sender, receiver) = mpsc::channel(STARTS_MAX);
            let thread = std::thread::Builder::new()
                .name(format!("{name}-{index}"))
                .spawn(move || LocalSet::new().block_on(&runtime, serve(receiver)))?;
            shards.senders.push(sender);
            shards.threads.push(thread);
        }
        Ok(shards)
    }

    /// How many shards there are.
    pub fn count(&self) -> usize {
        self.senders.len()
    }

    /// Starts on shard `index` (taken modulo the count) the future that `make` makes there. The future never leaves the
    /// shard, so it need not be `Send`.
    ///
    /// # Errors
    /// [`ShardBusy`] when the shard cannot take it.
    pub fn spawn_on<M, F>(&self, index: usize, make: M) -> Result<(), ShardBusy>
    where
        M: FnOnce() -> F + Send + 'static,
        F: Future<Output = ()> + 'static,
    {
        let start: Start = Box::new(move || Box::pin(make()));
        self.senders[index % self.senders.len()].try_send(start).map_err(|_| ShardBusy)
    }
}

impl Drop for Shards {
    fn drop(&mut self) {
        self.senders.clear();
        for thread in self.threads.drain(..) {
            // A shard that dropped the last handle to itself cannot wait for its own end.
            if thread.thread().id() != std::thread::current().id() {
                let _ = thread.join();
            }
        }
    }
}

async fn serve(mut receiver: mpsc::Receiver<Start>) {
    while let Some(start) = receiver.recv().await {
        drop(tokio::task::spawn_local(start()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn work_runs_on_the_shard_that_was_asked() {
        let shards = Shards::start(2, "shard-test").unwrap();
        for (index, expected) in [(0, "shard-test-0"), (1, "shard-test-1"), (2, "shard-test-0")] {
            let (sender, receiver) = tokio::sync::oneshot::channel();
            shards
                .spawn_on(index, move || async move {
                    let _ = sender.send(std::thread::current().name().map(str::to_owned));
                })
                .unwrap();
            assert_eq!(receiver.await.unwrap().as_deref(), Some(expected));
        }
    }
}
