//! One controller: its parts, from start to stop.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use openraft::{Config, SnapshotPolicy};
use parking_lot::Mutex;
use taffrail_core::config::Overrides;
use taffrail_core::control::Command;
use taffrail_core::ids::Uuid;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::MESSAGE_BYTES_MAX;
use taffrail_protocol::rpc::v1::controller_server::ControllerServer;
use taffrail_protocol::rpc::v1::raft_server::RaftServer;
use taffrail_runtime::blocking::{Pool, PoolError};
use taffrail_runtime::grpc::{self, Listener};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{random, task};
use tonic::service::Routes;

use crate::decider::{Decider, Proposer};
use crate::directory::{Directory, DirectoryError};
use crate::machine::Machine;
use crate::machine::feed::Feed;
use crate::raft::network::Network;
use crate::raft::service::RaftService;
use crate::raft::{self, Fatal, Member, NodeId, Raft};
use crate::service::ControllerService;
use crate::sessions::Sessions;
use crate::store::log::RaftLog;
use crate::store::memory::MemoryStore;
use crate::store::reserve::Reserve;
use crate::store::sled::SledStore;
use crate::store::snapshots::Snapshots;
use crate::store::{MetaStore, StoreError};

/// Threads for the store: one writes, one reads.
const STORE_THREADS: usize = 2;

/// Jobs that may wait for the store's threads.
const STORE_JOBS_MAX: usize = 256;

/// Time between messages of an idle leader.
const HEARTBEAT_INTERVAL_MS: u64 = 100;

/// Silence after which a follower stands for election: at least, and at most.
const ELECTION_TIMEOUT_MS: (u64, u64) = (500, 1_000);

/// Entries after which a snapshot is taken.
const SNAPSHOT_ENTRIES: u64 = 5_000;

/// Entries kept before a snapshot, for followers that are a little behind.
const KEPT_ENTRIES: u64 = 1_000;

/// How long a controller that is alone waits until it leads.
const ELECTED_TIMEOUT: Duration = Duration::from_secs(10);

/// Where a controller keeps the metadata.
#[derive(Debug, Clone)]
pub enum MetadataDir {
    /// In this folder.
    Folder(PathBuf),
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
    /// The one-time grant to found this cluster; needed when the folder is empty, harmless later.
    pub bootstrap: Option<Uuid>,
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
    fn raft(error: impl std::fmt::Display) -> Self {
        Self::Raft(error.to_string())
    }
}

/// A running controller.
pub struct Controller {
    raft: Raft,
    feed: Arc<Feed>,
    cluster_id: Uuid,
    proposer: Proposer,
    shutdown: Shutdown,
    serving: task::JoinHandle<std::io::Result<()>>,
    others: Vec<task::JoinHandle<()>>,
    reserve: Option<Arc<Reserve>>,
    /// Locked as long as the controller runs.
    _directory: Option<Arc<Mutex<Directory>>>,
}

/// What is opened before Raft runs.
struct Opened {
    node: NodeId,
    cluster_id: Uuid,
    founded: bool,
    directory: Option<Directory>,
    reserve: Option<Arc<Reserve>>,
    log: RaftLog,
    machine: Machine,
}

impl Controller {
    /// Starts a controller. When it returns, the controller serves; a controller that is alone also leads, and has
    /// applied all that it had committed.
    ///
    /// # Errors
    /// When its folder or store cannot be used, or the cluster cannot be founded.
    pub async fn start(options: ControllerOptions) -> Result<Self, ControllerError> {
        let pool = Pool::new("metadata", STORE_THREADS, STORE_JOBS_MAX);
        let feed = Arc::new(Feed::default());
        let opened = {
            let (pool, feed) = (pool.clone(), Arc::clone(&feed));
            let (dir, id, bootstrap) = (options.metadata_dir, options.id, options.bootstrap);
            pool.clone().run(move || open(dir, id, bootstrap, pool, feed)).await??
        };
        let Opened { node, cluster_id, founded, directory, reserve, log, machine } = opened;
        let raft = Raft::new(node, Arc::new(raft_config()?), Network, log, machine).await;
        let raft = raft.map_err(ControllerError::raft)?;
        let sessions = Arc::new(Sessions::new(options.session_timeout));
        let (proposer, deciding) = Decider::start(
            raft.clone(),
            Arc::clone(&feed),
            Arc::clone(&sessions),
            options.static_config,
            reserve.clone(),
        );
        let shutdown = Shutdown::new();
        let watching = {
            let (sessions, raft, feed) = (Arc::clone(&sessions), raft.clone(), Arc::clone(&feed));
            let (proposer, shutdown) = (proposer.clone(), shutdown.clone());
            task::spawn(async move { sessions.watch(raft, &feed, proposer, shutdown).await })
        };
        let service = ControllerService {
            node,
            raft: raft.clone(),
            feed: Arc::clone(&feed),
            sessions,
            proposer: proposer.clone(),
            shutdown: shutdown.clone(),
        };
        let serving = task::spawn(grpc::serve(options.listener, routes(service, &raft), shutdown.clone()));
        let directory = directory.map(|directory| Arc::new(Mutex::new(directory)));
        let controller = Self {
            raft,
            feed,
            cluster_id,
            proposer,
            shutdown,
            serving,
            others: vec![deciding, watching],
            reserve,
            _directory: directory.clone(),
        };
        controller.lead_if_alone(node, founded, Member { address: options.advertised }).await?;
        if !founded {
            controller.found(directory, &pool).await?;
        }
        Ok(controller)
    }

    /// Makes a new node the only voter, or has a node that is alone elected without waiting for a timeout.
    async fn lead_if_alone(&self, node: NodeId, founded: bool, member: Member) -> Result<(), ControllerError> {
        let initialized = self.raft.is_initialized().await.map_err(ControllerError::raft)?;
        if !initialized && !founded {
            let initialize = self.raft.initialize(BTreeMap::from([(node, member)])).await;
            initialize.map_err(ControllerError::raft)?;
        }
        let voters = self.raft.with_raft_state(|state| -> BTreeSet<NodeId> {
            state.membership_state.effective().membership().voter_ids().collect()
        });
        let voters = voters.await.map_err(ControllerError::raft)?;
        // A database that lost its first entries passes for that of a node that waits to be added to a cluster: nobody
        // would ever be elected, and everything that starts after it would wait for ever.
        if founded && voters.is_empty() {
            return Err(ControllerError::FoundingLost);
        }
        if voters == BTreeSet::from([node]) {
            if initialized {
                self.raft.trigger().elect().await.map_err(ControllerError::raft)?;
            }
            let elected = self.raft.wait(Some(ELECTED_TIMEOUT)).current_leader(node, "alone").await;
            elected.map_err(ControllerError::raft)?;
            self.raft.ensure_linearizable().await.map_err(ControllerError::raft)?;
            if founded && self.image().cluster_id().is_none() {
                return Err(ControllerError::FoundingLost);
            }
        }
        Ok(())
    }

    /// Commits the founding of the cluster, and remembers it.
    async fn found(&self, directory: Option<Arc<Mutex<Directory>>>, pool: &Pool) -> Result<(), ControllerError> {
        let command = Command::CreateCluster { cluster_id: self.cluster_id };
        let founded = self.proposer.propose(command).await;
        founded.map_err(|refused| ControllerError::Founding(refused.error.to_string()))?;
        if let Some(directory) = directory {
            pool.run(move || directory.lock().mark_founded()).await??;
        }
        Ok(())
    }

    /// Identity of the cluster.
    pub fn cluster_id(&self) -> Uuid {
        self.cluster_id
    }

    /// The metadata as this controller has applied them.
    pub fn image(&self) -> Arc<MetadataImage> {
        self.feed.image()
    }

    /// Waits until the controller fails, for instance because its disk took no write. It answers nothing useful from then
    /// on: stop the process, and start it again when the cause is gone.
    pub async fn failed(&self) -> ControllerError {
        raft::failed(&self.raft).await.into()
    }

    /// Stops serving, then Raft; what is committed stays.
    ///
    /// # Errors
    /// When a part had failed before.
    pub async fn stop(self) -> Result<(), ControllerError> {
        self.shutdown.trigger();
        if let Some(reserve) = &self.reserve {
            reserve.close();
        }
        let served = self.serving.await;
        self.raft.shutdown().await.map_err(ControllerError::raft)?;
        drop(self.proposer);
        for other in self.others {
            other.await.map_err(ControllerError::raft)?;
        }
        Ok(served.map_err(ControllerError::raft)??)
    }
}

/// Opens folder, log and machine. Blocks.
fn open(
    dir: MetadataDir,
    id: i32,
    bootstrap: Option<Uuid>,
    pool: Pool,
    feed: Arc<Feed>,
) -> Result<Opened, ControllerError> {
    let fresh = random::uuid();
    let (directory, reserve, store, snapshots): (_, _, Arc<dyn MetaStore>, _) = match dir {
        MetadataDir::Folder(path) => {
            let directory = Directory::open(&path, id, bootstrap, fresh)?;
            let reserve = Arc::new(Reserve::open(directory.path()));
            // The database writes when it is opened, too.
            reserve.make_room(0);
            let store = SledStore::open(&directory.path().join("raft"))?.with_reserve(Arc::clone(&reserve));
            let snapshots = Snapshots::open(directory.path().join("snapshots"), Some(Arc::clone(&reserve)))?;
            (Some(directory), Some(reserve), Arc::new(store), snapshots)
        }
        MetadataDir::Memory => (None, None, Arc::new(MemoryStore::default()), Snapshots::Memory(Mutex::default())),
    };
    let identity = directory.as_ref().map(Directory::identity);
    let log = RaftLog::open(store, pool.clone())?;
    let machine = Machine::open(Arc::new(snapshots), feed, pool)?;
    if let Some(purged) = log.purged_index()
        && machine.applied_index().is_none_or(|applied| applied < purged)
    {
        return Err(StoreError::SnapshotMissing { purged }.into());
    }
    if let (Some(directory), Some(identity)) = (&directory, identity)
        && identity.founded
        && log.is_pristine()
    {
        let path = directory.path().to_owned();
        return Err(DirectoryError::Wiped { path, cluster_id: identity.cluster }.into());
    }
    let directory_id = identity.map_or(fresh, |identity| identity.directory);
    let cluster_id = identity.map(|identity| identity.cluster).or(bootstrap).unwrap_or_else(random::uuid);
    Ok(Opened {
        node: NodeId::new(id, directory_id),
        cluster_id,
        founded: identity.is_some_and(|identity| identity.founded),
        directory,
        reserve,
        log,
        machine,
    })
}

fn raft_config() -> Result<Config, ControllerError> {
    let config = Config {
        cluster_name: "taffrail".to_owned(),
        heartbeat_interval: HEARTBEAT_INTERVAL_MS,
        election_timeout_min: ELECTION_TIMEOUT_MS.0,
        election_timeout_max: ELECTION_TIMEOUT_MS.1,
        snapshot_policy: SnapshotPolicy::LogsSinceLast(SNAPSHOT_ENTRIES),
        max_in_snapshot_log_to_keep: KEPT_ENTRIES,
        ..Config::default()
    };
    config.validate().map_err(ControllerError::raft)
}

fn routes(service: ControllerService, raft: &Raft) -> Routes {
    let controller = ControllerServer::new(service)
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    let raft = RaftServer::new(RaftService::new(raft.clone()))
        .max_decoding_message_size(MESSAGE_BYTES_MAX)
        .max_encoding_message_size(MESSAGE_BYTES_MAX);
    Routes::new(controller).add_service(raft)
}
