//! Where the Raft log and vote are kept.
//!
//! A backend keeps bytes under numbers and answers only what it was asked; the rules (what is durable when, checksums,
//! order) are above it, in `log`. So another database can stand in without touching them, and one suite tests all.

mod checksum;
pub(crate) mod folder;
pub(crate) mod log;
pub(crate) mod memory;
#[cfg(any(test, feature = "any-disk"))]
pub(crate) mod redb;
pub(crate) mod reserve;
pub(crate) mod sled;
pub(crate) mod snapshots;
mod writer;

#[cfg(test)]
pub(crate) mod tests;

use std::io;
use std::path::PathBuf;

use taffrail_protocol::persisted::metadata::SnapshotFormatError;
use taffrail_protocol::rpc::FormatError;

/// Why the metadata store cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The database refuses.
    #[error("the metadata database in '{}' cannot be used: {reason}", .path.display())]
    Database {
        /// Its folder.
        path: PathBuf,
        /// What it says.
        reason: String,
        /// Whether it is damaged; otherwise the system refuses it something.
        damaged: bool,
    },
    /// A file operation failed.
    #[error("'{}' cannot be {action}: {source}", .path.display())]
    File {
        /// The file or folder.
        path: PathBuf,
        /// What was tried.
        action: &'static str,
        /// What the system says.
        source: io::Error,
    },
    /// Bytes are not what was written.
    #[error("{what} is damaged: its checksum is wrong")]
    Checksum {
        /// What was read.
        what: String,
    },
    /// A part of the log is missing.
    #[error("the metadata log has a hole: entry {missing} is not there")]
    Hole {
        /// Index of the first missing entry.
        missing: u64,
    },
    /// The log was cut up to a snapshot that is not there.
    #[error("the metadata log starts after entry {purged}, but no readable snapshot reaches that far")]
    SnapshotMissing {
        /// Index of the last entry cut off.
        purged: u64,
    },
    /// Written by a newer release, or not by us.
    #[error(transparent)]
    Format(#[from] FormatError),
    /// A snapshot's content makes no image.
    #[error(transparent)]
    Snapshot(#[from] SnapshotFormatError),
    /// An earlier write failed: what is durable is unknown, so nothing more is written.
    #[error("the metadata store takes no more writes since one failed: {0}")]
    Fenced(String),
}

impl StoreError {
    /// Whether what is on the disk is damaged, so that another start would find the same.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Database { damaged, .. } => *damaged,
            Self::Checksum { .. } | Self::Hole { .. } | Self::SnapshotMissing { .. } => true,
            Self::Format(FormatError::NewerVersion { .. })
            | Self::Snapshot(SnapshotFormatError::Format(FormatError::NewerVersion { .. })) => false,
            Self::Format(_) | Self::Snapshot(_) => true,
            Self::File { .. } | Self::Fenced(_) => false,
        }
    }

    pub(crate) fn file(path: impl Into<PathBuf>, action: &'static str, source: io::Error) -> Self {
        Self::File { path: path.into(), action, source }
    }
}

/// Small facts beside the log.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Mark {
    /// For whom this node voted last.
    Vote,
    /// Up to where the log was cut off at its start.
    Purged,
}

impl Mark {
    /// Its key in a database.
    fn name(self) -> &'static str {
        match self {
            Self::Vote => "vote",
            Self::Purged => "purged",
        }
    }
}

/// A backend. Calls block, and come from the store's own threads only. Writes may stay in memory until [`sync`]
/// (MetaStore::sync) returns; a crash before may lose them, the last ones first.
pub(crate) trait MetaStore: Send + Sync + 'static {
    /// Adds entries at the end, or replaces those at the same index. All or none survive a crash.
    fn append(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError>;

    /// Removes all entries from `index` on.
    fn truncate(&self, index: u64) -> Result<(), StoreError>;

    /// Removes all entries up to and with `index`.
    fn purge(&self, index: u64) -> Result<(), StoreError>;

    /// Entries from `first` on and before `end`, in order; absent ones are left out.
    fn read(&self, first: u64, end: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError>;

    /// Index of the first and the last entry, if there is one.
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError>;

    /// Sets a mark.
    fn put(&self, mark: Mark, value: &[u8]) -> Result<(), StoreError>;

    /// A mark, if it was ever set.
    fn get(&self, mark: Mark) -> Result<Option<Vec<u8>>, StoreError>;

    /// Makes everything written so far survive a loss of power.
    fn sync(&self) -> Result<(), StoreError>;
}
