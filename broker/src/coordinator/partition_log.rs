//! A partition of this broker as the log of groups.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Offset;
use taffrail_core::record::Batch;
use taffrail_runtime::blocking::Pool;

use super::log::{LogFuture, OffsetsLog};
use crate::replica::news::News;
use crate::replica::{Partition, Reach, read_refusal};

/// The log of groups in a partition that this broker leads.
pub(super) struct PartitionLog {
    partition: Arc<Partition>,
    pool: Pool,
    /// Everything before this offset has to be on disk before it counts, by the topic's `flush.messages`.
    flush_before: AtomicI64,
    /// Everything before this offset is on disk for sure.
    flushed: AtomicI64,
}

impl PartitionLog {
    pub(super) fn new(partition: Arc<Partition>, pool: Pool) -> Self {
        Self { partition, pool, flush_before: AtomicI64::new(0), flushed: AtomicI64::new(0) }
    }

    /// Up to where the log must be flushed for the record at `offset` to count, if it is not yet.
    fn missing_flush(&self, offset: Offset) -> Option<Offset> {
        let before = self.flush_before.load(Ordering::Acquire);
        (offset < before && self.flushed.load(Ordering::Acquire) < before).then_some(before)
    }

    /// Waits until the partition has changed since it was found that the record at `offset` is not committed.
    async fn wait_changed(&self, offset: Offset) {
        let news = News::new();
        news.expect(1);
        let _subscribed = self.partition.subscribe(Reach::Committed, &news, 0);
        // Looked at again: what changed before the subscription was not heard.
        if !self.is_committed(offset) && self.partition.leads() {
            news.woken().await;
        }
    }
}

impl OffsetsLog for PartitionLog {
    fn append(&self, batch: Batch, now_ms: i64) -> Result<Offset, ErrorCode> {
        let appended = self.partition.append(&batch, true, now_ms).map_err(|refused| refused.error)?;
        if appended.needs_flush {
            self.flush_before.fetch_max(appended.last_offset + 1, Ordering::AcqRel);
        }
        Ok(appended.last_offset)
    }

    fn is_committed(&self, offset: Offset) -> bool {
        self.partition.offsets().high_watermark > offset && self.missing_flush(offset).is_none()
    }

    fn wait_committed(&self, offset: Offset) -> LogFuture<'_, Result<(), ErrorCode>> {
        Box::pin(async move {
            while !self.is_committed(offset) {
                if !self.partition.leads() {
                    return Err(ErrorCode::NotLeaderOrFollower);
                }
                if let Some(before) = self.missing_flush(offset) {
                    self.partition.log().flush_to(before).await.map_err(|_| ErrorCode::KafkaStorageError)?;
                    self.flushed.fetch_max(before, Ordering::AcqRel);
                } else {
                    self.wait_changed(offset).await;
                }
            }
            Ok(())
        })
    }

    fn bounds(&self) -> (Offset, Offset) {
        let offsets = self.partition.log().offsets();
        (offsets.log_start_offset, offsets.end_offset)
    }

    fn read(&self, from: Offset, max_bytes: usize) -> LogFuture<'_, Result<Bytes, ErrorCode>> {
        Box::pin(async move {
            let refused = |error| read_refusal(&error).error;
            let log = self.partition.log();
            let mut read = log.read(from, max_bytes as u64, Offset::MAX, true).map_err(refused)?;
            read.warm(&self.pool).await.map_err(refused)?;
            let bytes = self.pool.run(move || read.read_bytes()).await.map_err(|_| ErrorCode::KafkaStorageError)?;
            bytes.map(Bytes::from).map_err(refused)
        })
    }
}
