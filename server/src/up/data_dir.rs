//! The data directory: one process at a time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};

use crate::options::Options;

/// File whose lock says that the directory is taken; it names who took it.
const LOCK: &str = "taffrail.lock";

/// Longest text that is read from the lock file.
const HOLDER_BYTES_MAX: u64 = 200;

/// A data directory that belongs to this process until it is dropped.
#[derive(Debug)]
pub(crate) struct DataDir {
    path: PathBuf,
    /// Whether there was nothing in it before.
    pub(crate) fresh: bool,
    /// Whether it goes with the process.
    pub(crate) ephemeral: bool,
    _lock: File,
}

impl DataDir {
    /// Takes the directory that the options name, and makes it if need be.
    pub(crate) fn take(options: &Options) -> anyhow::Result<Self> {
        if options.ephemeral {
            let path = std::env::temp_dir().join(format!("taffrail-{}", taffrail_runtime::random::uuid()));
            return Self::lock(path, true);
        }
        Self::lock(options.data_dir.clone(), false)
    }

    fn lock(path: PathBuf, ephemeral: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        std::fs::create_dir_all(&path).with_context(|| format!("the data directory {shown} cannot be made"))?;
        let fresh = std::fs::read_dir(&path)
            .with_context(|| format!("the data directory {shown} cannot be read"))?
            .filter_map(Result::ok)
            .all(|entry| entry.file_name() == LOCK);
        let mut file = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(path.join(LOCK))
            .with_context(|| format!("the data directory {shown} cannot be written to"))?;
        if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
            let mut holder = String::new();
            let _ = (&mut file).take(HOLDER_BYTES_MAX).read_to_string(&mut holder);
            let holder = if holder.trim().is_empty() { "another process" } else { holder.trim() };
            bail!("the data directory {shown} is in use by {holder}: stop it first, or choose another --data-dir");
        }
        // Only the lock counts; the text is for whoever comes second.
        let _ = file.set_len(0).and_then(|()| writeln!(file, "process {} (taffrail up)", std::process::id()));
        Ok(Self { path, fresh, ephemeral, _lock: file })
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where the controller keeps the metadata.
    pub(crate) fn metadata(&self) -> PathBuf {
        self.path.join("metadata")
    }

    /// Where the broker keeps its partitions: one of Kafka's log directories.
    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join("logs")
    }
}

impl Drop for DataDir {
    fn drop(&mut self) {
        if self.ephemeral
            && let Err(error) = std::fs::remove_dir_all(&self.path)
        {
            tracing::warn!(%error, path = %self.path.display(), "the temporary directory is left behind");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_second_process_is_refused_by_name_and_the_next_is_not() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("deep/data");
        let first = DataDir::lock(path.clone(), false).unwrap();
        assert!(first.fresh);
        let error = DataDir::lock(path.clone(), false).unwrap_err().to_string();
        assert!(error.contains(&format!("is in use by process {} (taffrail up)", std::process::id())), "{error}");
        std::fs::create_dir(first.logs()).unwrap();
        drop(first);
        assert!(!DataDir::lock(path, false).unwrap().fresh);
    }

    #[test]
    fn a_temporary_directory_goes_with_its_process() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        let taken = DataDir::lock(path.clone(), true).unwrap();
        std::fs::create_dir(taken.logs()).unwrap();
        drop(taken);
        assert!(!path.exists());
    }
}
