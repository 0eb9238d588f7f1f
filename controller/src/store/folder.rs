//! A folder on a disk, real or simulated: small files that are whole or not there.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taffrail_runtime::disk::real::RealDisk;
use taffrail_runtime::disk::{Disk, DiskLock, OpenMode, read_file, remove_if_exists, replace_file};

use super::StoreError;

/// A folder of a controller.
#[derive(Clone)]
pub struct Folder {
    disk: Arc<dyn Disk>,
    path: PathBuf,
}

impl fmt::Debug for Folder {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_tuple("Folder").field(&self.path).finish()
    }
}

impl Folder {
    /// The folder `path` on `disk`.
    pub fn on(disk: Arc<dyn Disk>, path: impl Into<PathBuf>) -> Self {
        Self { disk, path: path.into() }
    }

    /// The folder `path` of this machine.
    pub(crate) fn real(path: impl Into<PathBuf>) -> Self {
        Self::on(Arc::new(RealDisk::new()), path)
    }

    /// The folder `name` in this one.
    pub(crate) fn below(&self, name: &str) -> Self {
        Self { disk: Arc::clone(&self.disk), path: self.path.join(name) }
    }

    #[cfg(any(test, feature = "any-disk"))]
    pub(crate) fn disk(&self) -> &dyn Disk {
        &*self.disk
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes the folder, if it is not there.
    pub(crate) fn make(&self) -> Result<(), StoreError> {
        self.disk.create_dir(&self.path).map_err(self.failed(None, "made"))
    }

    /// Names of what is in it, sorted.
    pub(crate) fn names(&self) -> Result<Vec<String>, StoreError> {
        let listed = self.disk.list(&self.path).map_err(self.failed(None, "listed"))?;
        let mut names: Vec<String> = listed.into_iter().map(|entry| entry.name).collect();
        names.sort();
        Ok(names)
    }

    pub(crate) fn contains(&self, name: &str) -> Result<bool, StoreError> {
        Ok(self.names()?.iter().any(|other| other == name))
    }

    /// The file `name`, if it is there; one of more than `max_bytes` is refused.
    pub(crate) fn read(&self, name: &str, max_bytes: u64) -> Result<Option<Vec<u8>>, StoreError> {
        match read_file(&*self.disk, &self.path.join(name), max_bytes) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(source) => Err(self.failed(Some(name), "read")(source)),
        }
    }

    /// Puts `content` into the file `name`; after a crash it has the old content or the new. Durable when this returns.
    pub(crate) fn replace(&self, name: &str, content: &[u8]) -> Result<(), StoreError> {
        replace_file(&*self.disk, &self.path.join(name), content).map_err(self.failed(Some(name), "written"))
    }

    /// Makes an empty file, if there is none. Durable when this returns.
    pub(crate) fn mark(&self, name: &str) -> Result<(), StoreError> {
        match self.disk.open(&self.path.join(name), OpenMode::CreateNew) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(self.failed(Some(name), "made")(error)),
            _ => self.sync(),
        }
    }

    /// Removes a file, if it is there.
    pub(crate) fn remove(&self, name: &str) -> Result<(), StoreError> {
        remove_if_exists(&*self.disk, &self.path.join(name)).map_err(self.failed(Some(name), "removed"))
    }

    /// Moves `name`, if it is there, to the folder `other`.
    pub(crate) fn give(&self, name: &str, other: &Self) -> Result<(), StoreError> {
        match self.disk.rename(&self.path.join(name), &other.path.join(name)) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(self.failed(Some(name), "set aside")(error)),
            _ => Ok(()),
        }
    }

    /// Makes the names in it survive a loss of power.
    pub(crate) fn sync(&self) -> Result<(), StoreError> {
        self.disk.sync_dir(&self.path).map_err(self.failed(None, "synced"))
    }

    /// Takes the lock `name`; `None` when somebody else has it.
    pub(crate) fn lock(&self, name: &str, holder: &str) -> Result<Option<DiskLock>, StoreError> {
        match self.disk.lock(&self.path.join(name), holder) {
            Ok(lock) => Ok(Some(lock)),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
            Err(source) => Err(self.failed(Some(name), "locked")(source)),
        }
    }

    fn failed<'a>(&'a self, name: Option<&'a str>, action: &'static str) -> impl FnOnce(io::Error) -> StoreError + 'a {
        move |source| {
            let path = name.map_or_else(|| self.path.clone(), |name| self.path.join(name));
            StoreError::file(path, action, source)
        }
    }
}
