//! Partitions as files: the only crate that touches partition data on disk, and the owner of its file formats.
//!
//! The directory of a partition and every file in it are those of Apache Kafka 4.4, byte for byte. [`Storage`] owns a data
//! directory, [`Log`] one partition in it; all calls to the disk go through [`disk::Disk`], so that the same code runs on
//! the real disk and on one that fails on request.

pub mod checkpoint;
mod clean_stop;
mod compaction;
pub mod disk;
pub mod dump;
mod env;
mod error;
mod flusher;
mod handles;
pub mod identity;
mod import;
pub mod index;
mod lock;
mod log;
mod maintenance;
pub mod names;
mod offset_file;
mod options;
mod presence;
mod reserve;
mod scan;
mod segment;
pub mod snapshot;
mod space;
mod storage;
#[cfg(test)]
mod testing;
mod vacancy;

pub use error::{AppendError, LogError, ReadError, Reason, StorageError};
pub use import::{ImportError, ImportMode, ImportedPartition, inspect};
pub use lock::LockError;
pub use log::{Appended, FileRange, Log, LogObserver, LogOffsets, LogRead, TimestampedOffset};
pub use maintenance::Maintenance;
pub use options::{LogOptions, StorageOptions};
pub use storage::{Storage, Usage};
