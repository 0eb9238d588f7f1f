//! How a fetcher hears of the metadata: changes by partition, of which only the last one counts.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_core::image::PartitionKey;
use tokio::sync::Notify;

use crate::replica::Partition;

/// What changed for a fetcher. Holds at most one change a partition.
#[derive(Default)]
pub(super) struct Inbox {
    changes: Mutex<BTreeMap<PartitionKey, Change>>,
    changed: Notify,
    leader_moved: Notify,
}

/// What changed of a partition.
pub(super) enum Change {
    /// It is to be fetched, or its state is another one.
    Follow(Arc<Partition>),
    /// It is not to be fetched any more.
    Leave,
}

impl Inbox {
    /// Notes a change.
    pub(super) fn put(&self, key: PartitionKey, change: Change) {
        self.changes.lock().insert(key, change);
    }

    /// Lets the fetcher look.
    pub(super) fn ring(&self) {
        self.changed.notify_one();
    }

    /// All changes since the last call.
    pub(super) fn take(&self) -> BTreeMap<PartitionKey, Change> {
        std::mem::take(&mut *self.changes.lock())
    }

    /// Waits until there may be changes.
    pub(super) async fn rung(&self) {
        self.changed.notified().await;
    }

    /// The leader may be reached by now, or elsewhere.
    pub(super) fn note_leader_moved(&self) {
        self.leader_moved.notify_one();
    }

    /// Waits until it may.
    pub(super) async fn leader_moved(&self) {
        self.leader_moved.notified().await;
    }
}
