//! The partitions of a measured server: real logs on the real disk.

use std::io;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::ids::{TopicId, TopicPartition};
use taffrail_core::record::{Batch, ProduceRules, validate_produced};
use taffrail_runtime::time;
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::{Log, LogOptions, Storage, StorageOptions};

/// All logs, by partition.
pub(super) struct Logs {
    logs: Vec<Arc<Log>>,
    _storage: Arc<Storage>,
}

impl Logs {
    /// Makes `partitions` logs in `dir`.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(super) async fn open(dir: &Path, partitions: usize) -> io::Result<Arc<Self>> {
        let storage = Storage::open(StorageOptions::new(dir), Arc::new(RealDisk::new())).await;
        let storage = storage.map_err(io::Error::other)?;
        let id = TopicId::from_random([7; 16]);
        let logs = (0..partitions)
            .map(|index| storage.create(&TopicPartition::new("measured", index as i32), id, LogOptions::default()))
            .collect::<Result<_, _>>()
            .map_err(io::Error::other)?;
        Ok(Arc::new(Self { logs, _storage: storage }))
    }

    /// Appends to a partition what [`checked`] has let through; gives the offset.
    ///
    /// # Errors
    /// When there is no such partition, or its log refuses.
    pub(super) fn append(&self, partition: usize, batch: Batch) -> io::Result<i64> {
        let log = self.logs.get(partition).ok_or_else(|| io::Error::other(format!("no partition {partition}")))?;
        Ok(log.append(&[batch], 0, time::unix_ms()).map_err(io::Error::other)?.base_offset)
    }
}

/// Checks what a client sent as Produce does, before any log is locked.
///
/// # Errors
/// When the batch breaks a rule.
pub(super) fn checked(batch: &Bytes) -> io::Result<Batch> {
    let rules = ProduceRules { now_ms: time::unix_ms(), ..ProduceRules::default() };
    Ok(validate_produced(batch, &rules).map_err(io::Error::other)?.into())
}
