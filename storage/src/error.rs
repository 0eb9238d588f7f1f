//! What can go wrong, by what the caller can do about it.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use taffrail_core::ids::{Offset, TopicId, TopicPartition};
use taffrail_core::partition::ProducerError;

use crate::lock::LockError;

/// Why a partition does not serve: a text that names file, offset and cause.
pub type Reason = Arc<str>;

/// Whether an error of the disk means that there is no room, which passes by itself.
pub(crate) fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}

/// Whether an error of the disk means that too many files are open, which says nothing about the medium.
pub(crate) fn is_out_of_files(error: &io::Error) -> bool {
    const ENFILE: i32 = 23;
    const EMFILE: i32 = 24;
    matches!(error.raw_os_error(), Some(ENFILE | EMFILE))
}

/// Whether an error of the disk tells of its surroundings, not of what it holds: it passes by itself, or somebody mends it
/// without touching the files. What failed so can be tried again.
pub(crate) fn may_pass(error: &io::Error) -> bool {
    is_unwritable(error) || is_full(error) || is_out_of_files(error)
}

/// Whether an error of the disk means that this process may not write where it would.
pub(crate) fn is_unwritable(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem)
}

/// Whether an error of the disk means that a file of one partition cannot be opened or made as things are, which is no
/// reason to write to no other.
pub(crate) fn is_refused_here(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::PermissionDenied || is_out_of_files(error)
}

/// Why batches were not appended. Nothing of them is in the log.
#[derive(Debug, thiserror::Error)]
pub enum AppendError {
    /// The partition is damaged and does not serve.
    #[error("the partition is offline: {0}")]
    Offline(Reason),
    /// The data directory takes no writes any more.
    #[error("the data directory takes no writes: {0}")]
    Fenced(Reason),
    /// The partition was deleted.
    #[error("the partition was deleted")]
    Deleted,
    /// There is no room; it may come back.
    #[error("the disk is full")]
    DiskFull,
    /// The disk refused for another reason.
    #[error("the disk refused the write: {0}")]
    Io(io::Error),
    /// The producer's epoch or sequence does not fit.
    #[error(transparent)]
    Producer(#[from] ProducerError),
    /// A batch is larger than a segment may be.
    #[error("a batch of {bytes} bytes is larger than a segment of {segment_bytes}")]
    TooLarge {
        /// Size of the batch.
        bytes: usize,
        /// Size of a segment.
        segment_bytes: u32,
    },
    /// A leader's batch does not follow the end of this log.
    #[error("a batch at offset {offset} does not follow the log's end {end_offset}")]
    OutOfOrderOffset {
        /// Base offset of the batch.
        offset: Offset,
        /// End of the log.
        end_offset: Offset,
    },
    /// A batch breaks the format.
    #[error("a batch cannot be appended: {0}")]
    InvalidBatch(String),
}

/// Why nothing was read.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ReadError {
    /// The offset is before the start or after the end of the log.
    #[error("offset {offset} is not within {log_start_offset} to {end_offset}")]
    OutOfRange {
        /// What was asked for.
        offset: Offset,
        /// First offset that can be read.
        log_start_offset: Offset,
        /// Offset after the last record.
        end_offset: Offset,
    },
    /// The partition is damaged and does not serve.
    #[error("the partition is offline: {0}")]
    Offline(Reason),
    /// The partition was deleted.
    #[error("the partition was deleted")]
    Deleted,
    /// The disk refused; the partition stays as it is.
    #[error("the disk refused the read: {0}")]
    Io(Reason),
    /// Too much work waits for the disk.
    #[error("the disk is busy")]
    Busy,
}

/// Why a flush, a cut or a deletion did not happen.
#[derive(Debug, Clone, thiserror::Error)]
pub enum LogError {
    /// The partition is damaged and does not serve.
    #[error("the partition is offline: {0}")]
    Offline(Reason),
    /// The data directory takes no writes any more.
    #[error("the data directory takes no writes: {0}")]
    Fenced(Reason),
    /// The partition was deleted.
    #[error("the partition was deleted")]
    Deleted,
    /// The offset is before the start or after the end of the log.
    #[error("offset {offset} is not within {log_start_offset} to {end_offset}")]
    OutOfRange {
        /// What was asked for.
        offset: Offset,
        /// First offset that can be read.
        log_start_offset: Offset,
        /// Up to where the operation may go.
        end_offset: Offset,
    },
    /// There is no room; it may come back.
    #[error("the disk is full")]
    DiskFull,
    /// The disk refused for another reason.
    #[error("the disk refused: {0}")]
    Io(Reason),
    /// The process is stopping.
    #[error("the storage is closing")]
    Closing,
}

/// Why the data directory, or a partition in it, cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StorageError {
    /// Another process has the directory, or it cannot be locked.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The disk refused.
    #[error("{what}: {source}")]
    Io {
        /// What was tried, with the path.
        what: String,
        /// What the disk said.
        source: io::Error,
    },
    /// The folder of a partition belongs to another topic of the same name.
    #[error("the folder of {partition} belongs to topic id {found}, not {asked}")]
    TopicIdMismatch {
        /// Which partition.
        partition: TopicPartition,
        /// Whose data the folder has.
        found: TopicId,
        /// Whose data was asked for.
        asked: TopicId,
    },
    /// A folder has records that were durable, and nothing says any more whose they are.
    #[error(
        "{} has records of {partition}, but does not say of which topic: {cause}; restore the file, or delete the topic \
         to begin anew without them",
        dir.display()
    )]
    Unidentified {
        /// Which partition's name it has.
        partition: TopicPartition,
        /// The folder.
        dir: PathBuf,
        /// What is wrong with its `partition.metadata`.
        cause: String,
    },
    /// The folder of a partition is gone that had durable records.
    #[error(
        "{} is gone, where {partition} had records up to offset {end_offset}: restore it, or delete the topic to begin anew",
        dir.display()
    )]
    Gone {
        /// Which partition.
        partition: TopicPartition,
        /// Where its folder was.
        dir: PathBuf,
        /// Up to where it is known to have had records.
        end_offset: Offset,
    },
    /// There is no such partition here.
    #[error("there is no partition {0} here")]
    Unknown(TopicPartition),
    /// The data directory takes no writes any more.
    #[error("the data directory takes no writes: {0}")]
    Fenced(Reason),
    /// The partition is damaged and does not serve.
    #[error("the partition {partition} is offline: {reason}")]
    Offline {
        /// Which partition.
        partition: TopicPartition,
        /// What is wrong with it.
        reason: Reason,
    },
    /// Too much work waits, or the process is stopping.
    #[error("the storage is busy or closing")]
    Busy,
}

impl StorageError {
    /// Wraps what the disk said about something that was tried.
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}
