//! What a controller is started with, and why it cannot start.

use std::path::PathBuf;
use std::time::Duration;

use taffrail_core::config::Overrides;
use taffrail_core::ids::Uuid;
use taffrail_runtime::blocking::PoolError;
use taffrail_runtime::grpc::Listener;

use crate::directory::DirectoryError;
use crate::raft::Fatal;
use crate::raft::links::Dialer;
use crate::store::StoreError;
#[cfg(any(test, feature = "any-disk"))]
use crate::store::folder::Folder;

/// Where a controller keeps the metadata.
#[derive(Debug, Clone)]
pub enum MetadataDir {
    /// In this folder of the machine, in sled.
    Folder(PathBuf),
    /// In this folder of any disk, in redb: whole clusters are simulated with it.
    #[cfg(any(test, feature = "any-disk"))]
    Disk(Folder),
    /// Nowhere: they are gone when it stops.
    Memory,
}

/// What a controller is started with.
#[derive(Debug)]
pub struct ControllerOptions {
    /// Its number.
    pub id: i32,
    /// Where it keeps the metadata.
    pub metadata_dir: MetadataDir,
    /// The one-time grant to found this cluster; needed when the folders of all controllers are empty, harmless later.
    pub bootstrap: Option<Uuid>,
    /// The cluster that it has to belong to; a folder or other controllers of another one are refused.
    pub cluster: Option<Uuid>,
    /// Addresses (host and port) of all controllers, its own too. Empty = it is alone.
    pub servers: Vec<String>,
    /// How other controllers are reached.
    pub dialer: Dialer,
    /// Where it takes connections.
    pub listener: Listener,
    /// Host and port at which others reach it.
    pub advertised: String,
    /// Broker settings under Kafka's names that all brokers are started with: defaults of topics are taken from here.
    pub static_config: Overrides,
    /// Silence after which a broker is fenced (`broker.session.timeout.ms`).
    pub session_timeout: Duration,
}

/// Why a controller cannot start, or has failed.
#[derive(Debug, thiserror::Error)]
pub enum ControllerError {
    /// Its folder cannot be used.
    #[error(transparent)]
    Directory(#[from] DirectoryError),
    /// Its store cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Raft refuses.
    #[error("the controllers' consensus failed: {0}")]
    Raft(String),
    /// The cluster was founded here once, but the database has lost its beginnings.
    #[error("the metadata database does not tell of the cluster's founding any more: it is damaged, restore it")]
    FoundingLost,
    /// The founding was refused.
    #[error("the cluster could not be founded: {0}")]
    Founding(String),
    /// The other controllers are of another cluster than the one that this one is to belong to.
    #[error("the other controllers are cluster {theirs}, which is not the cluster of this one")]
    ForeignCluster {
        /// Theirs.
        theirs: Uuid,
    },
    /// The service could not be run.
    #[error("the controller's gRPC service failed: {0}")]
    Service(#[from] std::io::Error),
    /// The threads of the store are gone.
    #[error("the store's threads failed: {0}")]
    Threads(#[from] PoolError),
}

impl From<Fatal> for ControllerError {
    fn from(error: Fatal) -> Self {
        Self::raft(error)
    }
}

impl ControllerError {
    pub(crate) fn raft(error: impl std::fmt::Display) -> Self {
        Self::Raft(error.to_string())
    }

    /// Whether the folder is damaged.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Directory(error) => error.is_damage(),
            Self::Store(error) => error.is_damage(),
            Self::FoundingLost => true,
            _ => false,
        }
    }
}
