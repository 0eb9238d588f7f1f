//! The one writer of the store.
//!
//! Operations are carried out in the order they were handed over, on a thread of their own, and all that wait are made
//! durable by one sync: ten proposals at once cost one wait for the disk. After a failed write or sync nothing more is
//! written, because nobody knows what the disk has.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_runtime::blocking::Pool;

use super::{Mark, MetaStore, StoreError};

/// Operations that may wait. Raft waits for most of them itself, so more than this is a fault.
const QUEUE_MAX: usize = 16_384;

/// Told when an operation is durable, or why it is not.
pub(super) type Done = Box<dyn FnOnce(Result<(), String>) + Send>;

/// A change of the store.
pub(super) enum Change {
    Append(Vec<(u64, Vec<u8>)>),
    Truncate(u64),
    /// The mark is durable before anything is removed, so that a crash in between never shows a hole.
    Purge {
        index: u64,
        mark: Vec<u8>,
    },
    Put(Mark, Vec<u8>),
}

/// Hands changes to the store's thread.
#[derive(Clone)]
pub(super) struct Writer {
    shared: Arc<Shared>,
    pool: Pool,
}

struct Shared {
    store: Arc<dyn MetaStore>,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<(Change, Done)>,
    running: bool,
    fenced: Option<String>,
}

impl Writer {
    pub(super) fn new(store: Arc<dyn MetaStore>, pool: Pool) -> Self {
        Self { shared: Arc::new(Shared { store, queue: Mutex::default() }), pool }
    }

    /// Queues a change; `done` is called from the store's thread, or at once if nothing can be queued.
    pub(super) fn submit(&self, change: Change, done: Done) {
        let mut queue = self.shared.queue.lock();
        if let Some(reason) = &queue.fenced {
            let error = StoreError::Fenced(reason.clone()).to_string();
            drop(queue);
            return done(Err(error));
        }
        if queue.waiting.len() >= QUEUE_MAX {
            drop(queue);
            return done(Err("the queue of the metadata store is full".to_owned()));
        }
        queue.waiting.push_back((change, done));
        if queue.running {
            return;
        }
        queue.running = true;
        drop(queue);
        let shared = Arc::clone(&self.shared);
        if let Err(error) = self.pool.submit(move || shared.drain()) {
            self.shared.fence(&error.to_string());
        }
    }
}

impl Shared {
    /// Works until nothing waits.
    fn drain(&self) {
        loop {
            let batch = {
                let mut queue = self.queue.lock();
                if queue.waiting.is_empty() {
                    queue.running = false;
                    return;
                }
                std::mem::take(&mut queue.waiting)
            };
            let (changes, dones): (Vec<Change>, Vec<Done>) = batch.into_iter().unzip();
            let outcome = changes
                .iter()
                .try_for_each(|change| self.carry_out(change))
                .and_then(|()| if is_planted(PlantedBug::MetadataNotSynced) { Ok(()) } else { self.store.sync() });
            match outcome {
                Ok(()) => dones.into_iter().for_each(|done| done(Ok(()))),
                Err(error) => {
                    let reason = error.to_string();
                    tracing::error!(%reason, "the metadata store failed and takes no more writes");
                    self.fence(&reason);
                    dones.into_iter().for_each(|done| done(Err(reason.clone())));
                    return;
                }
            }
        }
    }

    fn carry_out(&self, change: &Change) -> Result<(), StoreError> {
        match change {
            Change::Append(entries) => self.store.append(entries),
            Change::Truncate(index) => self.store.truncate(*index),
            Change::Purge { index, mark } => {
                self.store.put(Mark::Purged, mark)?;
                self.store.sync()?;
                self.store.purge(*index)
            }
            Change::Put(mark, value) => self.store.put(*mark, value),
        }
    }

    fn fence(&self, reason: &str) {
        let waiting = {
            let mut queue = self.queue.lock();
            queue.fenced = Some(reason.to_owned());
            queue.running = false;
            std::mem::take(&mut queue.waiting)
        };
        for (_, done) in waiting {
            done(Err(reason.to_owned()));
        }
    }
}
