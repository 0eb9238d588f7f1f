//! The replicated machine: core's image, fed by the Raft log.
//!
//! It lives in memory. At start it is read from the newest snapshot, and the log behind that is applied again, by the same
//! apply that followers run. An entry that was decided from another image than the one it meets changes nothing: that is
//! what makes it safe to decide ahead of the commit.

pub(crate) mod feed;

use std::io::Cursor;
use std::sync::Arc;

use openraft::storage::RaftStateMachine;
use openraft::{AnyError, EntryPayload, OptionalSend, RaftSnapshotBuilder, StorageIOError};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::{EventBatch, decode_snapshot, encode_snapshot};
use taffrail_runtime::blocking::Pool;

use self::feed::Feed;
use crate::raft::{
    Applied, Entry, Events, LogId, NodeId, Snapshot, SnapshotMeta, StorageError, StoredMembership, TypeConfig,
};
use crate::store::StoreError;
use crate::store::snapshots::Snapshots;

/// The machine. openraft owns it; others see its [`Feed`].
pub(crate) struct Machine {
    image: MetadataImage,
    applied: Option<LogId>,
    membership: StoredMembership,
    feed: Arc<Feed>,
    snapshots: Arc<Snapshots>,
    pool: Pool,
}

impl Machine {
    /// The machine as the newest snapshot has it.
    pub(crate) fn open(snapshots: Arc<Snapshots>, feed: Arc<Feed>, pool: Pool) -> Result<Self, StoreError> {
        let mut machine = Self {
            image: MetadataImage::default(),
            applied: None,
            membership: StoredMembership::default(),
            feed,
            snapshots,
            pool,
        };
        if let Some((meta, bytes)) = machine.snapshots.load()? {
            machine.adopt(&meta, decode_snapshot(&bytes)?);
        }
        Ok(machine)
    }

    /// Index of the last entry applied.
    pub(crate) fn applied_index(&self) -> Option<u64> {
        self.applied.map(|log_id| log_id.index)
    }

    fn adopt(&mut self, meta: &SnapshotMeta, image: MetadataImage) {
        self.applied = meta.last_log_id;
        self.membership = meta.last_membership.clone();
        self.image = image;
        self.feed.reset(self.image.clone());
    }

    #[allow(clippy::result_large_err, reason = "openraft's own error, passed on as it wants it")]
    /// Applies one entry's events; those that fit are added to `batches`.
    fn apply_events(
        &mut self,
        log_id: LogId,
        events: Events,
        batches: &mut Vec<EventBatch>,
    ) -> Result<Applied, StorageError> {
        let failed = |error: &(dyn std::error::Error + 'static)| {
            StorageError::from(StorageIOError::apply(log_id, AnyError::error(error)))
        };
        let batch = EventBatch::decode(events.0.into()).map_err(|error| failed(&error))?;
        if batch.base_offset != self.image.offset() + 1 {
            return Ok(Applied::Stale);
        }
        let mut image = self.image.clone();
        for event in &batch.events {
            image.apply(event).map_err(|error| failed(&error))?;
        }
        self.image = image;
        batches.push(batch);
        Ok(Applied::Accepted { offset: self.image.offset() })
    }
}

impl RaftStateMachine<TypeConfig> for Machine {
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), StorageError> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<I>(&mut self, entries: I) -> Result<Vec<Applied>, StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let mut outcomes = Vec::new();
        let mut batches = Vec::new();
        for entry in entries {
            let outcome = match entry.payload {
                EntryPayload::Blank => Applied::Accepted { offset: self.image.offset() },
                EntryPayload::Normal(events) => self.apply_events(entry.log_id, events, &mut batches)?,
                EntryPayload::Membership(membership) => {
                    self.membership = StoredMembership::new(Some(entry.log_id), membership);
                    Applied::Accepted { offset: self.image.offset() }
                }
            };
            self.applied = Some(entry.log_id);
            outcomes.push(outcome);
        }
        if !batches.is_empty() {
            self.feed.publish(self.image.clone(), batches);
        }
        Ok(outcomes)
    }

    async fn get_snapshot_builder(&mut self) -> Self::SnapshotBuilder {
        SnapshotBuilder {
            image: self.image.clone(),
            applied: self.applied,
            membership: self.membership.clone(),
            snapshots: Arc::clone(&self.snapshots),
            pool: self.pool.clone(),
        }
    }

    async fn begin_receiving_snapshot(&mut self) -> Result<Box<Cursor<Vec<u8>>>, StorageError> {
        Ok(Box::default())
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: Box<Cursor<Vec<u8>>>,
    ) -> Result<(), StorageError> {
        let bytes = snapshot.into_inner();
        let image = decode_snapshot(&bytes).map_err(|error| snapshot_error(&StoreError::from(error)))?;
        let (snapshots, saved) = (Arc::clone(&self.snapshots), meta.clone());
        let written = self.pool.run(move || snapshots.save(&saved, &bytes)).await;
        flatten(written).map_err(|error| snapshot_error(&error))?;
        self.adopt(meta, image);
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot>, StorageError> {
        let snapshots = Arc::clone(&self.snapshots);
        let loaded = flatten(self.pool.run(move || snapshots.load()).await).map_err(|error| snapshot_error(&error))?;
        Ok(loaded.map(|(meta, bytes)| Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) }))
    }
}

/// Writes a snapshot of the image as it was when the builder was made.
pub(crate) struct SnapshotBuilder {
    image: MetadataImage,
    applied: Option<LogId>,
    membership: StoredMembership,
    snapshots: Arc<Snapshots>,
    pool: Pool,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    async fn build_snapshot(&mut self) -> Result<Snapshot, StorageError> {
        let snapshot_id = match self.applied {
            Some(log_id) => format!("{}-{}", log_id.leader_id.term, log_id.index),
            None => "empty".to_owned(),
        };
        let meta = SnapshotMeta { last_log_id: self.applied, last_membership: self.membership.clone(), snapshot_id };
        let (snapshots, image, saved) = (Arc::clone(&self.snapshots), self.image.clone(), meta.clone());
        let built = self.pool.run(move || {
            let bytes = encode_snapshot(&image);
            snapshots.save(&saved, &bytes).map(|()| bytes)
        });
        let bytes = flatten(built.await).map_err(|error| snapshot_error(&error))?;
        Ok(Snapshot { meta, snapshot: Box::new(Cursor::new(bytes)) })
    }
}

fn flatten<T>(outcome: Result<Result<T, StoreError>, taffrail_runtime::blocking::PoolError>) -> Result<T, StoreError> {
    outcome.unwrap_or_else(|error| Err(StoreError::Fenced(error.to_string())))
}

fn snapshot_error(error: &StoreError) -> StorageError {
    StorageIOError::<NodeId>::write_snapshot(None, AnyError::new(error)).into()
}
