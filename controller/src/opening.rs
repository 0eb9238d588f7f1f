//! Opens what a controller keeps, before Raft runs.

use std::sync::Arc;

use parking_lot::Mutex;
use taffrail_core::ids::Uuid;
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::{random, time};
use tokio::sync::oneshot;

use crate::directory::{Directory, DirectoryError, Opening};
use crate::machine::Machine;
use crate::machine::feed::Feed;
use crate::options::{ControllerError, MetadataDir};
use crate::raft::NodeId;
use crate::store::folder::Folder;
use crate::store::log::RaftLog;
use crate::store::memory::MemoryStore;
#[cfg(any(test, feature = "any-disk"))]
use crate::store::redb::RedbStore;
use crate::store::reserve::Reserve;
use crate::store::sled::SledStore;
use crate::store::snapshots::Snapshots;
use crate::store::{MetaStore, StoreError};

/// What is asked for.
pub(crate) struct Request {
    pub(crate) dir: MetadataDir,
    /// How the folder is opened.
    pub(crate) opening: Opening,
    pub(crate) pool: Pool,
    pub(crate) feed: Arc<Feed>,
}

/// What is opened before Raft runs.
pub(crate) struct Opened {
    pub(crate) node: NodeId,
    /// The cluster, if it is known.
    pub(crate) cluster: Option<Uuid>,
    /// The cluster that this controller has to belong to, if it was told or has been in one.
    pub(crate) expected: Option<Uuid>,
    /// Whether it has the grant to found the cluster.
    pub(crate) granted: bool,
    /// Whether it has a part in the cluster.
    pub(crate) founded: bool,
    pub(crate) directory: Option<Directory>,
    pub(crate) reserve: Option<Arc<Reserve>>,
    pub(crate) log: RaftLog,
    pub(crate) machine: Machine,
    /// Ends when the database is closed again.
    pub(crate) closed: Option<oneshot::Receiver<()>>,
}

/// Opens folder, log and machine. What is damaged is set aside where there are others who may take this controller in as a
/// new one: a store that has lost something must not vote as if it had not. Blocks.
///
/// # Errors
/// When the folder is not to be used, or is damaged and there is nobody else.
pub(crate) fn open(request: &Request) -> Result<Opened, ControllerError> {
    let error = match open_as_it_is(request) {
        Err(error) if error.is_damage() && request.opening.may_join => error,
        outcome => return outcome,
    };
    let folder = match &request.dir {
        MetadataDir::Memory => return Err(error),
        MetadataDir::Folder(path) => Folder::real(path),
        #[cfg(any(test, feature = "any-disk"))]
        MetadataDir::Disk(folder) => folder.clone(),
    };
    let (cluster, aside) = Directory::quarantine(&folder, time::unix_ms())?;
    tracing::error!(
        %error, aside = %aside.display(),
        "the metadata cannot be used and were set aside; this controller starts anew and asks the others to take it in"
    );
    // Whoever had a part in a cluster founds none, whatever it was granted once.
    let expected = cluster.or(request.opening.expected).or(request.opening.grant);
    let opening = Opening { grant: None, expected, ..request.opening };
    let (dir, pool, feed) = (request.dir.clone(), request.pool.clone(), Arc::clone(&request.feed));
    open_as_it_is(&Request { dir, opening, pool, feed })
}

fn open_as_it_is(request: &Request) -> Result<Opened, ControllerError> {
    match &request.dir {
        MetadataDir::Memory => open_store(request, Arc::new(MemoryStore::default())),
        MetadataDir::Folder(path) => open_sled(request, &Folder::real(path)),
        #[cfg(any(test, feature = "any-disk"))]
        MetadataDir::Disk(folder) => open_redb(request, folder),
    }
}

fn open_sled(request: &Request, folder: &Folder) -> Result<Opened, ControllerError> {
    let directory = Directory::open(folder, request.opening)?;
    let reserve = Arc::new(Reserve::open(directory.path()));
    // The database writes when it is opened, too.
    reserve.make_room(0);
    let (store, closed) = SledStore::open(&directory.database())?.with_reserve(Arc::clone(&reserve)).with_closing();
    let snapshots = Snapshots::open(directory.snapshots(), Some(Arc::clone(&reserve)))?;
    let opened = check(request, Some(directory), Arc::new(store), snapshots)?;
    Ok(Opened { reserve: Some(reserve), closed: Some(closed), ..opened })
}

#[cfg(any(test, feature = "any-disk"))]
fn open_redb(request: &Request, folder: &Folder) -> Result<Opened, ControllerError> {
    let directory = Directory::open(folder, request.opening)?;
    let (store, closed) = RedbStore::open(folder.disk(), &directory.database())?.with_closing();
    let snapshots = Snapshots::open(directory.snapshots(), None)?;
    let opened = check(request, Some(directory), Arc::new(store), snapshots)?;
    Ok(Opened { closed: Some(closed), ..opened })
}

/// A log in `store` and no folder.
pub(crate) fn open_store(request: &Request, store: Arc<dyn MetaStore>) -> Result<Opened, ControllerError> {
    check(request, None, store, Snapshots::Memory(Mutex::default()))
}

/// Opens log and machine, and checks that they are all that there was.
fn check(
    request: &Request,
    directory: Option<Directory>,
    store: Arc<dyn MetaStore>,
    snapshots: Snapshots,
) -> Result<Opened, ControllerError> {
    let Opening { controller, grant, expected, may_join, fresh } = request.opening;
    let identity = directory.as_ref().and_then(Directory::identity);
    let founded = identity.is_some_and(|identity| identity.founded);
    let log = RaftLog::open(store, request.pool.clone())?;
    let machine = Machine::open(Arc::new(snapshots), Arc::clone(&request.feed), request.pool.clone())?;
    if let Some(purged) = log.purged_index()
        && machine.applied_index().is_none_or(|applied| applied < purged)
    {
        return Err(StoreError::SnapshotMissing { purged }.into());
    }
    if let (Some(directory), Some(identity)) = (&directory, identity)
        && founded
        && log.is_pristine()
    {
        let path = directory.path().to_owned();
        return Err(DirectoryError::Wiped { path, cluster_id: identity.cluster }.into());
    }
    // A database that lost its first entries passes for that of a node that waits to be added to a cluster.
    if founded && !log.is_pristine() && log.is_empty() && machine.applied_index().is_none() {
        return Err(ControllerError::FoundingLost);
    }
    let directory_id = directory.as_ref().map_or(fresh, Directory::directory_id);
    let alone = (!may_join).then(|| grant.unwrap_or_else(random::uuid));
    let cluster = identity.map(|identity| identity.cluster).or(grant).or(alone);
    Ok(Opened {
        node: NodeId::new(controller, directory_id),
        cluster,
        expected: cluster.or(expected),
        granted: !founded && (grant.is_some() || identity.is_some_and(|identity| identity.granted)),
        founded,
        directory,
        reserve: None,
        log,
        machine,
        closed: None,
    })
}
