//! The folder of one controller: who it is, and whether it may found a cluster.
//!
//! An empty disk never founds anything. The first start needs a one-time grant, which names the cluster; the folder then
//! remembers that it was founded, so that a lost database is noticed and not taken for a new beginning.

use std::fs::{self, File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use taffrail_core::ids::Uuid;

use crate::store::StoreError;
use crate::store::sled::sync_folder;

/// Version of the identity file's layout.
const FILE_VERSION: &str = "1";

const IDENTITY: &str = "identity";
const LOCK: &str = "lock";

/// Why a controller's folder cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DirectoryError {
    /// Somebody else has it.
    #[error("'{}' is in use by another process", .path.display())]
    InUse {
        /// The folder.
        path: PathBuf,
    },
    /// It is empty, and nobody allowed founding a cluster.
    #[error(
        "'{}' holds no metadata, and no bootstrap was granted: an empty disk founds no cluster. If this is a new cluster, \
         grant it once; if the disk was lost, remove this controller from the others and add it again",
        .path.display()
    )]
    NotGranted {
        /// The folder.
        path: PathBuf,
    },
    /// Metadata were here once, and are gone.
    #[error("'{}' belonged to cluster {cluster_id}, but its metadata are gone: restore them", .path.display())]
    Wiped {
        /// The folder.
        path: PathBuf,
        /// The cluster.
        cluster_id: Uuid,
    },
    /// There are metadata, but nothing that says whose.
    #[error("'{}' holds metadata, but its file '{IDENTITY}' is gone: restore it", .path.display())]
    IdentityGone {
        /// The folder.
        path: PathBuf,
    },
    /// It belongs to another cluster or controller.
    #[error("'{}' belongs to {what} {theirs}, not {ours}", .path.display())]
    Foreign {
        /// The folder.
        path: PathBuf,
        /// "cluster" or "controller".
        what: &'static str,
        /// Whose it is.
        theirs: String,
        /// Who asked.
        ours: String,
    },
    /// The identity file cannot be understood.
    #[error("'{}' cannot be understood: {reason}", .path.display())]
    Malformed {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        reason: String,
    },
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] StoreError),
}

/// Who a controller is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    /// Number of the controller.
    pub(crate) controller: i32,
    /// Identity of this life of its disk.
    pub(crate) directory: Uuid,
    /// The cluster that it belongs to.
    pub(crate) cluster: Uuid,
    /// Whether the founding has been committed.
    pub(crate) founded: bool,
}

/// A controller's folder, locked while this lives.
#[derive(Debug)]
pub(crate) struct Directory {
    path: PathBuf,
    identity: Identity,
    /// Holds the lock.
    _lock: File,
}

impl Directory {
    /// Opens the folder of `controller`; a folder without metadata needs a `grant` to found that cluster.
    pub(crate) fn open(path: &Path, controller: i32, grant: Option<Uuid>, fresh: Uuid) -> Result<Self, DirectoryError> {
        fs::create_dir_all(path).map_err(|source| StoreError::file(path, "made", source))?;
        let lock = lock(path)?;
        let identity = match read(path)? {
            Some(identity) => checked(path, identity, controller, grant)?,
            None if path.join("raft").exists() => {
                return Err(DirectoryError::IdentityGone { path: path.to_owned() });
            }
            None => {
                let cluster = grant.ok_or_else(|| DirectoryError::NotGranted { path: path.to_owned() })?;
                let identity = Identity { controller, directory: fresh, cluster, founded: false };
                write(path, &identity)?;
                identity
            }
        };
        Ok(Self { path: path.to_owned(), identity, _lock: lock })
    }

    pub(crate) fn identity(&self) -> Identity {
        self.identity
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Remembers that the founding has been committed.
    pub(crate) fn mark_founded(&mut self) -> Result<(), DirectoryError> {
        if !self.identity.founded {
            self.identity.founded = true;
            write(&self.path, &self.identity)?;
        }
        Ok(())
    }
}

fn lock(path: &Path) -> Result<File, DirectoryError> {
    let name = path.join(LOCK);
    let open = File::options().create(true).truncate(false).write(true).open(&name);
    let file = open.map_err(|source| StoreError::file(&name, "opened", source))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(DirectoryError::InUse { path: path.to_owned() }),
        Err(TryLockError::Error(source)) => Err(StoreError::file(&name, "locked", source).into()),
    }
}

fn checked(path: &Path, identity: Identity, controller: i32, grant: Option<Uuid>) -> Result<Identity, DirectoryError> {
    let foreign =
        |what, theirs: String, ours: String| Err(DirectoryError::Foreign { path: path.to_owned(), what, theirs, ours });
    if identity.controller != controller {
        return foreign("controller", identity.controller.to_string(), controller.to_string());
    }
    match grant {
        Some(cluster) if cluster != identity.cluster => {
            foreign("cluster", identity.cluster.to_string(), cluster.to_string())
        }
        _ => Ok(identity),
    }
}

fn write(path: &Path, identity: &Identity) -> Result<(), DirectoryError> {
    let name = path.join(IDENTITY);
    let unfinished = name.with_extension("tmp");
    let text = format!(
        "version={FILE_VERSION}\ncontroller.id={}\ndirectory.id={}\ncluster.id={}\nfounded={}\n",
        identity.controller, identity.directory, identity.cluster, identity.founded
    );
    let written = File::create(&unfinished).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&unfinished, &name)
    });
    written.map_err(|source| StoreError::file(&name, "written", source))?;
    Ok(sync_folder(path)?)
}

fn read(path: &Path) -> Result<Option<Identity>, DirectoryError> {
    let name = path.join(IDENTITY);
    let text = match fs::read_to_string(&name) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(StoreError::file(&name, "read", source).into()),
    };
    let malformed = |reason: String| DirectoryError::Malformed { path: name.clone(), reason };
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.ok_or_else(|| malformed(format!("'{key}' is missing")))
    };
    let version = value("version")?;
    if version != FILE_VERSION {
        return Err(malformed(format!("its version is {version}; this release knows version {FILE_VERSION}")));
    }
    let id = |key: &str| value(key)?.parse::<Uuid>().map_err(|error| malformed(format!("{key}: {error}")));
    let controller = value("controller.id")?;
    Ok(Some(Identity {
        controller: controller.parse().map_err(|_| malformed(format!("controller.id: '{controller}' is no number")))?,
        directory: id("directory.id")?,
        cluster: id("cluster.id")?,
        founded: value("founded")? == "true",
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLUSTER: Uuid = Uuid([1; 16]);
    const FRESH: Uuid = Uuid([2; 16]);

    #[test]
    fn an_empty_folder_needs_a_grant_and_remembers_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("controller");
        let open = |grant| Directory::open(&path, 3, grant, FRESH);
        assert!(matches!(open(None), Err(DirectoryError::NotGranted { .. })));
        let mut directory = open(Some(CLUSTER)).unwrap();
        let expected = Identity { controller: 3, directory: FRESH, cluster: CLUSTER, founded: false };
        assert_eq!(directory.identity(), expected);
        directory.mark_founded().unwrap();
        drop(directory);
        assert_eq!(open(None).unwrap().identity(), Identity { founded: true, ..expected });
    }

    #[test]
    fn folders_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(Directory::open(folder.path(), 3, Some(CLUSTER), FRESH).unwrap());
        let refusal =
            |controller, grant| Directory::open(folder.path(), controller, grant, FRESH).unwrap_err().to_string();
        assert!(refusal(4, None).contains("belongs to controller 3, not 4"));
        assert!(refusal(3, Some(FRESH)).contains(&format!("belongs to cluster {CLUSTER}, not {FRESH}")));
        let holder = Directory::open(folder.path(), 3, None, FRESH).unwrap();
        assert!(refusal(3, None).contains("is in use by another process"));
        drop(holder);
        fs::write(folder.path().join(IDENTITY), "version=2\n").unwrap();
        assert!(refusal(3, None).contains("its version is 2; this release knows version 1"));
        fs::remove_file(folder.path().join(IDENTITY)).unwrap();
        fs::create_dir(folder.path().join("raft")).unwrap();
        assert!(refusal(3, Some(CLUSTER)).contains("its file 'identity' is gone"));
    }
}
