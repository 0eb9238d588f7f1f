//! The folder of one controller: who it is, and whether it may found a cluster.
//!
//! An empty disk never founds anything. The first start needs a one-time grant, which names the cluster, or others that take
//! this controller in; the folder then remembers that it has a part, so that a lost database is noticed and not taken for a
//! new beginning. What is damaged is set aside, never deleted.

use std::path::{Path, PathBuf};

use taffrail_core::ids::Uuid;
use taffrail_runtime::disk::DiskLock;

use crate::store::StoreError;
use crate::store::folder::Folder;

/// Version of the identity file's layout.
const FILE_VERSION: &str = "1";

const IDENTITY: &str = "identity";
const DATABASE: &str = "raft";
const SNAPSHOTS: &str = "snapshots";
const QUARANTINE: &str = "quarantine";
const LOCK: &str = "lock";

/// Size of an identity file that is read; ours have some hundred bytes.
const IDENTITY_BYTES_MAX: u64 = 64 << 10;

/// Stands beside a database of no cluster yet. A database without it and without an identity has lost the identity.
const UNCLAIMED: &str = "unclaimed";

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
    #[error("'{}' belonged to cluster {cluster_id}, but its metadata are gone: restore them from a copy", .path.display())]
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
        /// Whether a newer release has written it, which is no damage.
        newer: bool,
    },
    /// A file operation failed.
    #[error(transparent)]
    File(#[from] StoreError),
}

impl DirectoryError {
    /// Whether the folder is damaged, so that nothing but a new beginning among others helps.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            Self::Wiped { .. } | Self::IdentityGone { .. } => true,
            Self::Malformed { newer, .. } => !newer,
            Self::File(error) => error.is_damage(),
            Self::InUse { .. } | Self::NotGranted { .. } | Self::Foreign { .. } => false,
        }
    }
}

/// How a folder is opened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Opening {
    /// Number of the controller.
    pub(crate) controller: i32,
    /// The cluster that it may found.
    pub(crate) grant: Option<Uuid>,
    /// The cluster that it has to belong to, if it was told.
    pub(crate) expected: Option<Uuid>,
    /// Whether there are others that could take it in if the folder is empty.
    pub(crate) may_join: bool,
    /// Identity of this life of the disk, if it has none.
    pub(crate) fresh: Uuid,
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
    /// Whether it may found that cluster: the grant is remembered until then, so that a founding that was interrupted goes on.
    pub(crate) granted: bool,
    /// Whether it has a part in that cluster: the database has known of it.
    pub(crate) founded: bool,
}

/// A controller's folder, locked while this lives.
#[derive(Debug)]
pub(crate) struct Directory {
    folder: Folder,
    opening: Opening,
    /// Absent while the folder is empty and its cluster not known.
    identity: Option<Identity>,
    /// Whether the controller has stopped: whatever is under way still changes nothing any more.
    is_closed: bool,
    /// Holds the lock.
    _lock: DiskLock,
}

impl Directory {
    /// Opens the folder; one without metadata needs a grant to found a cluster, or others who take it in.
    pub(crate) fn open(folder: &Folder, opening: Opening) -> Result<Self, DirectoryError> {
        folder.make()?;
        let path = folder.path();
        let lock = lock(folder)?;
        let identity = match read(folder)? {
            Some(identity) => Some(checked(path, identity, &opening)?),
            None if folder.contains(DATABASE)? && !folder.contains(UNCLAIMED)? => {
                return Err(DirectoryError::IdentityGone { path: path.to_owned() });
            }
            None => match opening.grant {
                Some(cluster) => {
                    let identity = Identity { granted: true, ..opening.identity(cluster) };
                    write(folder, &identity)?;
                    Some(identity)
                }
                None if opening.may_join => {
                    folder.mark(UNCLAIMED)?;
                    None
                }
                None => return Err(DirectoryError::NotGranted { path: path.to_owned() }),
            },
        };
        Ok(Self { folder: folder.clone(), opening, identity, is_closed: false, _lock: lock })
    }

    pub(crate) fn identity(&self) -> Option<Identity> {
        self.identity
    }

    /// Identity of this life of the disk.
    pub(crate) fn directory_id(&self) -> Uuid {
        self.identity.map_or(self.opening.fresh, |identity| identity.directory)
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Where the Raft log is.
    pub(crate) fn database(&self) -> PathBuf {
        self.path().join(DATABASE)
    }

    /// Where the snapshots are.
    pub(crate) fn snapshots(&self) -> Folder {
        self.folder.below(SNAPSHOTS)
    }

    /// Remembers which cluster the folder belongs to.
    pub(crate) fn belongs_to(&mut self, cluster: Uuid) -> Result<(), DirectoryError> {
        if self.identity.is_none() && !self.is_closed {
            let identity = self.opening.identity(cluster);
            write(&self.folder, &identity)?;
            self.identity = Some(identity);
        }
        Ok(())
    }

    /// Remembers that the controller has a part in the cluster.
    pub(crate) fn mark_founded(&mut self) -> Result<(), DirectoryError> {
        let identity = self.identity.as_mut().filter(|identity| !identity.founded && !self.is_closed);
        if let Some(identity) = identity {
            (identity.founded, identity.granted) = (true, false);
            write(&self.folder, identity)?;
        }
        Ok(())
    }

    /// Writes nothing any more. What was being written is when this returns.
    pub(crate) fn close(&mut self) {
        self.is_closed = true;
    }

    /// Sets everything in `folder` aside, so that the controller can begin as a new one; gives the cluster that it belonged
    /// to, if that can still be read, and where things are now.
    pub(crate) fn quarantine(folder: &Folder, now_ms: i64) -> Result<(Option<Uuid>, PathBuf), DirectoryError> {
        let _lock = lock(folder)?;
        let cluster = read(folder).ok().flatten().map(|identity| identity.cluster);
        let aside = folder.below(&format!("{QUARANTINE}-{now_ms}"));
        aside.make()?;
        // The identity goes last: until then the next start finds the same damage.
        for name in [DATABASE, SNAPSHOTS, IDENTITY] {
            folder.give(name, &aside)?;
        }
        aside.sync()?;
        folder.sync()?;
        Ok((cluster, aside.path().to_owned()))
    }
}

impl Opening {
    fn identity(&self, cluster: Uuid) -> Identity {
        Identity { controller: self.controller, directory: self.fresh, cluster, granted: false, founded: false }
    }
}

fn lock(folder: &Folder) -> Result<DiskLock, DirectoryError> {
    let lock = folder.lock(LOCK, "a controller")?;
    lock.ok_or_else(|| DirectoryError::InUse { path: folder.path().to_owned() })
}

fn checked(path: &Path, identity: Identity, opening: &Opening) -> Result<Identity, DirectoryError> {
    let foreign =
        |what, theirs: String, ours: String| Err(DirectoryError::Foreign { path: path.to_owned(), what, theirs, ours });
    if identity.controller != opening.controller {
        return foreign("controller", identity.controller.to_string(), opening.controller.to_string());
    }
    match opening.expected.or(opening.grant) {
        Some(cluster) if cluster != identity.cluster => {
            foreign("cluster", identity.cluster.to_string(), cluster.to_string())
        }
        _ => Ok(identity),
    }
}

fn write(folder: &Folder, identity: &Identity) -> Result<(), DirectoryError> {
    let text = format!(
        "version={FILE_VERSION}\ncontroller.id={}\ndirectory.id={}\ncluster.id={}\ngranted={}\nfounded={}\n",
        identity.controller, identity.directory, identity.cluster, identity.granted, identity.founded
    );
    folder.replace(IDENTITY, text.as_bytes())?;
    Ok(folder.remove(UNCLAIMED)?)
}

fn read(folder: &Folder) -> Result<Option<Identity>, DirectoryError> {
    let name = folder.path().join(IDENTITY);
    let Some(content) = folder.read(IDENTITY, IDENTITY_BYTES_MAX)? else { return Ok(None) };
    let malformed = |reason: String| DirectoryError::Malformed { path: name.clone(), reason, newer: false };
    let text = std::str::from_utf8(&content).map_err(|error| malformed(error.to_string()))?;
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.ok_or_else(|| malformed(format!("'{key}' is missing")))
    };
    let version = value("version")?;
    if version != FILE_VERSION {
        let reason = format!("its version is {version}; this release knows version {FILE_VERSION}");
        let newer = version.parse::<u32>().is_ok();
        return Err(DirectoryError::Malformed { path: name, reason, newer });
    }
    let id = |key: &str| value(key)?.parse::<Uuid>().map_err(|error| malformed(format!("{key}: {error}")));
    let controller = value("controller.id")?;
    let founded = value("founded")? == "true";
    Ok(Some(Identity {
        controller: controller.parse().map_err(|_| malformed(format!("controller.id: '{controller}' is no number")))?,
        directory: id("directory.id")?,
        cluster: id("cluster.id")?,
        // Files from before there was more than one controller do not say it.
        granted: value("granted").map_or(!founded, |granted| granted == "true"),
        founded,
    }))
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    const CLUSTER: Uuid = Uuid([1; 16]);
    const FRESH: Uuid = Uuid([2; 16]);

    fn opening(controller: i32, grant: Option<Uuid>) -> Opening {
        Opening { controller, grant, expected: None, may_join: false, fresh: FRESH }
    }

    #[test]
    fn an_empty_folder_needs_a_grant_and_remembers_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("controller");
        let open = |grant| Directory::open(&Folder::real(&path), opening(3, grant));
        assert!(matches!(open(None), Err(DirectoryError::NotGranted { .. })));
        let directory = open(Some(CLUSTER)).unwrap();
        let expected = Identity { controller: 3, directory: FRESH, cluster: CLUSTER, granted: true, founded: false };
        assert_eq!(directory.identity(), Some(expected));
        drop(directory);
        let mut directory = open(None).unwrap();
        assert_eq!(directory.identity(), Some(expected), "a founding that was interrupted may go on");
        directory.mark_founded().unwrap();
        drop(directory);
        assert_eq!(open(None).unwrap().identity(), Some(Identity { granted: false, founded: true, ..expected }));
    }

    #[test]
    fn an_empty_folder_among_others_has_no_cluster_until_it_is_told() {
        let folder = tempfile::tempdir().unwrap();
        let joining = Opening { may_join: true, ..opening(3, None) };
        let mut directory = Directory::open(&Folder::real(folder.path()), joining).unwrap();
        assert_eq!((directory.identity(), directory.directory_id()), (None, FRESH));
        directory.belongs_to(CLUSTER).unwrap();
        drop(directory);
        let again = Directory::open(&Folder::real(folder.path()), Opening { fresh: Uuid([9; 16]), ..joining }).unwrap();
        assert_eq!(again.identity().map(|identity| (identity.cluster, identity.founded)), Some((CLUSTER, false)));
        assert_eq!(again.directory_id(), FRESH);
    }

    #[test]
    fn a_database_that_belonged_to_no_cluster_yet_is_no_damage() {
        let folder = tempfile::tempdir().unwrap();
        let joining = Opening { may_join: true, ..opening(3, None) };
        for _ in 0..2 {
            let directory = Directory::open(&Folder::real(folder.path()), joining).unwrap();
            assert_eq!(directory.identity(), None);
            fs::create_dir_all(directory.database()).unwrap();
        }
        Directory::open(&Folder::real(folder.path()), joining).unwrap().belongs_to(CLUSTER).unwrap();
        fs::remove_file(folder.path().join(IDENTITY)).unwrap();
        assert!(matches!(
            Directory::open(&Folder::real(folder.path()), joining),
            Err(DirectoryError::IdentityGone { .. })
        ));
    }

    #[test]
    fn what_is_set_aside_is_kept_and_the_cluster_is_remembered() {
        let folder = tempfile::tempdir().unwrap();
        drop(Directory::open(&Folder::real(folder.path()), opening(3, Some(CLUSTER))).unwrap());
        fs::create_dir(folder.path().join(DATABASE)).unwrap();
        fs::write(folder.path().join(DATABASE).join("db"), b"damaged").unwrap();
        let (cluster, aside) = Directory::quarantine(&Folder::real(folder.path()), 77).unwrap();
        assert_eq!(cluster, Some(CLUSTER));
        assert_eq!(fs::read(aside.join(DATABASE).join("db")).unwrap(), b"damaged");
        assert!(aside.join(IDENTITY).exists());
        assert!(matches!(
            Directory::open(&Folder::real(folder.path()), opening(3, None)),
            Err(DirectoryError::NotGranted { .. })
        ));
    }

    #[test]
    fn folders_of_others_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        drop(Directory::open(&Folder::real(folder.path()), opening(3, Some(CLUSTER))).unwrap());
        let refusal = |controller, grant| {
            Directory::open(&Folder::real(folder.path()), opening(controller, grant)).unwrap_err().to_string()
        };
        assert!(refusal(4, None).contains("belongs to controller 3, not 4"));
        assert!(refusal(3, Some(FRESH)).contains(&format!("belongs to cluster {CLUSTER}, not {FRESH}")));
        let expecting = Opening { expected: Some(FRESH), ..opening(3, None) };
        let refused = Directory::open(&Folder::real(folder.path()), expecting).unwrap_err().to_string();
        assert!(refused.contains(&format!("belongs to cluster {CLUSTER}, not {FRESH}")), "{refused}");
        let holder = Directory::open(&Folder::real(folder.path()), opening(3, None)).unwrap();
        assert!(refusal(3, None).contains("is in use by another process"));
        drop(holder);
        fs::write(folder.path().join(IDENTITY), "version=2\n").unwrap();
        assert!(refusal(3, None).contains("its version is 2; this release knows version 1"));
        fs::remove_file(folder.path().join(IDENTITY)).unwrap();
        fs::create_dir(folder.path().join("raft")).unwrap();
        assert!(refusal(3, Some(CLUSTER)).contains("its file 'identity' is gone"));
    }
}
