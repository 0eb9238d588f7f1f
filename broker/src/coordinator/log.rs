//! What the coordinator needs of a partition's log, and no more.

use std::future::Future;
use std::pin::Pin;

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Offset;
use taffrail_core::record::Batch;

/// A future of a log.
pub(crate) type LogFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The log of one partition of the offsets topic, as its leader sees it.
pub(crate) trait OffsetsLog: Send + Sync {
    /// Appends a batch; gives the offset of its last record. Must not wait for other replicas.
    ///
    /// # Errors
    /// What a producer would be told.
    fn append(&self, batch: Batch, now_ms: i64) -> Result<Offset, ErrorCode>;

    /// Whether the record at `offset` is committed: on all replicas in sync, and flushed if the topic asks for it.
    fn is_committed(&self, offset: Offset) -> bool;

    /// Waits until [`Self::is_committed`] may say something else.
    ///
    /// # Errors
    /// When that will never be: this broker does not lead any more, or its log is offline.
    fn wait_committed(&self, offset: Offset) -> LogFuture<'_, Result<(), ErrorCode>>;

    /// Offset of its first record, and of the next one that will be written.
    fn bounds(&self) -> (Offset, Offset);

    /// Whole batches from the one with the record at `from` on: about `max_bytes`, at least one batch. Empty at the end.
    ///
    /// # Errors
    /// When the log cannot be read there.
    fn read(&self, from: Offset, max_bytes: usize) -> LogFuture<'_, Result<Bytes, ErrorCode>>;
}
