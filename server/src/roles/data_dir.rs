//! The data directory: one process at a time.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use rustix::fs::{FlockOperation, flock};
use taffrail_core::ids::Uuid;
use taffrail_storage::identity::META_PROPERTIES;
use taffrail_storage::names::{Folder, parse_folder};

use crate::options::Options;

/// File whose lock says that the directory is taken; it names who took it.
const LOCK: &str = "taffrail.lock";

/// Folder of the partitions: one of Kafka's log directories.
const LOGS: &str = "logs";

/// Beginning of the folders of the partitions that further brokers of `up` keep; their number follows.
const BROKER: &str = "broker-";

/// Folder of the metadata; those of further controllers have their number behind it.
const METADATA: &str = "metadata";

/// Temporary directories are named by this and an id.
const EPHEMERAL: &str = "taffrail-";

/// Controllers that `up` can run.
const CONTROLLERS_MAX: i32 = 5;

/// Brokers that `up` can run.
pub(crate) const BROKERS_MAX: i32 = 9;

/// All that a controller has made in its folder before it says whose that is.
const METADATA_LOCK: &str = "lock";

/// Folder that some file systems have at the top of each volume.
const NEW_VOLUME: &str = "lost+found";

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
            let temporary = std::env::temp_dir();
            remove_left_behind(&temporary);
            let path = temporary.join(format!("{EPHEMERAL}{}", taffrail_runtime::random::uuid()));
            return Self::lock(path, true);
        }
        Self::lock(options.data_dir.clone(), false)
    }

    fn lock(path: PathBuf, ephemeral: bool) -> anyhow::Result<Self> {
        let shown = path.display();
        if std::fs::metadata(&path).is_ok_and(|found| !found.is_dir()) {
            bail!("{shown} is a file, where the data directory should be: choose another --data-dir");
        }
        std::fs::create_dir_all(&path).with_context(|| format!("the data directory {shown} cannot be made"))?;
        let fresh = is_unused(&path).with_context(|| format!("the data directory {shown} cannot be read"))?;
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
        let _ = file.set_len(0).and_then(|()| writeln!(file, "process {} (taffrail)", std::process::id()));
        Ok(Self { path, fresh, ephemeral, _lock: file })
    }

    /// Refuses a directory that was in use and has lost its metadata. Nothing could found a cluster there, and what stands
    /// in the partitions could not be told from what is new.
    pub(crate) fn check_whole(&self) -> anyhow::Result<()> {
        let (metadata, logs) = (self.metadata(1), self.logs());
        // Where there were several controllers, the others fill the disk of one again.
        if self.fresh || self.controllers() > 0 {
            return Ok(());
        }
        bail!(
            "{} is gone: restore it from a copy, or begin anew with another --data-dir and adopt the partitions there with \
             `taffrail log import {}`",
            metadata.display(),
            logs.display()
        )
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Where controller `id` of `up` keeps the metadata, or the only one of the process.
    pub(crate) fn metadata(&self, id: i32) -> PathBuf {
        if id == 1 { self.path.join(METADATA) } else { self.path.join(format!("{METADATA}-{id}")) }
    }

    /// How many controllers of `up` have kept metadata here.
    pub(crate) fn controllers(&self) -> i32 {
        (1..=CONTROLLERS_MAX).rev().find(|id| self.metadata(*id).exists()).unwrap_or(0)
    }

    /// Where the broker keeps its partitions: one of Kafka's log directories.
    pub(crate) fn logs(&self) -> PathBuf {
        self.path.join(LOGS)
    }

    /// Where broker `id` of `up` keeps its partitions.
    pub(crate) fn logs_of(&self, id: i32) -> PathBuf {
        if id == 1 { self.logs() } else { self.path.join(format!("{BROKER}{id}")) }
    }

    /// Removes the folder of broker `id` of `up`, which has left the cluster. What holds a partition still is kept.
    ///
    /// # Errors
    /// When it holds one, or cannot be removed.
    pub(crate) fn forget_broker(&self, id: i32) -> anyhow::Result<()> {
        let folder = self.logs_of(id);
        let shown = folder.display();
        let entries = std::fs::read_dir(&folder).with_context(|| format!("{shown} cannot be read"))?;
        for entry in entries {
            let entry = entry.with_context(|| format!("{shown} cannot be read"))?;
            let name = entry.file_name();
            let is_left_over = name == NEW_VOLUME || parse_folder(&name.to_string_lossy()) == Folder::Deleted;
            if entry.path().is_dir() && !is_left_over {
                bail!("{} is still there: {shown} is kept", entry.path().display());
            }
        }
        std::fs::remove_dir_all(&folder).with_context(|| format!("{shown} cannot be removed"))
    }

    /// How many brokers of `up` have kept partitions here.
    pub(crate) fn brokers(&self) -> i32 {
        (1..=BROKERS_MAX).rev().find(|id| self.logs_of(*id).exists()).unwrap_or(0)
    }
}

/// Removes temporary directories whose processes were killed. Nothing that stands in the way of that stops a start.
fn remove_left_behind(temporary: &Path) {
    let entries = std::fs::read_dir(temporary).into_iter().flatten().flatten();
    for path in entries.map(|entry| entry.path()).filter(|path| is_ephemeral(path)) {
        let shown = path.display();
        match remove_if_dead(&path) {
            Ok(true) => {
                tracing::info!(path = %shown, "removed a temporary directory that a killed process left behind")
            }
            Ok(false) => {}
            Err(error) => tracing::warn!(%error, path = %shown, "a temporary directory of a killed process stays"),
        }
    }
}

/// Whether this is named as a temporary directory of ours, and is one.
fn is_ephemeral(path: &Path) -> bool {
    let id = path.file_name().and_then(|name| name.to_str()).and_then(|name| name.strip_prefix(EPHEMERAL));
    id.is_some_and(|id| id.parse::<Uuid>().is_ok()) && path.symlink_metadata().is_ok_and(|found| found.is_dir())
}

/// Removes a temporary directory unless its process lives, or has only just made it; tells whether it did.
fn remove_if_dead(path: &Path) -> std::io::Result<bool> {
    let mut file = match File::open(path.join(LOCK)) {
        Ok(file) => file,
        // Of another user, or not taken yet.
        Err(_) => return Ok(false),
    };
    let mut holder = String::new();
    (&mut file).take(HOLDER_BYTES_MAX).read_to_string(&mut holder)?;
    // Who has taken it has written its name, under the lock.
    let is_dead = !holder.is_empty() && flock(&file, FlockOperation::NonBlockingLockExclusive).is_ok();
    if is_dead {
        std::fs::remove_dir_all(path)?;
    }
    Ok(is_dead)
}

/// Whether nobody has kept anything in a data directory: there is nothing in it, or what a file system puts into a new
/// volume, or what a first start has made that was ended before it founded a cluster.
fn is_unused(path: &Path) -> std::io::Result<bool> {
    let names = |path: &Path| -> std::io::Result<Vec<_>> {
        std::fs::read_dir(path)?.map(|entry| Ok(entry?.file_name())).collect()
    };
    for name in names(path)? {
        let inner = path.join(&name);
        let is_unused = match name.to_str() {
            Some(LOCK | NEW_VOLUME) => true,
            Some(name) if name == LOGS || name.starts_with(BROKER) => !names(&inner)?
                .iter()
                .any(|name| name == META_PROPERTIES || (name != NEW_VOLUME && inner.join(name).is_dir())),
            Some(name) if name.starts_with(METADATA) => names(&inner)?.iter().all(|name| name == METADATA_LOCK),
            _ => false,
        };
        if !is_unused {
            return Ok(false);
        }
    }
    Ok(true)
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
        assert!(error.contains(&format!("is in use by process {} (taffrail)", std::process::id())), "{error}");
        std::fs::create_dir_all(first.logs().join("t-0")).unwrap();
        drop(first);
        assert!(!DataDir::lock(path, false).unwrap().fresh);
    }

    #[test]
    fn a_file_in_the_place_of_the_directory_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::write(&path, "x").unwrap();
        for path in [path.clone(), path.join("deeper")] {
            let error = crate::exit::told(&DataDir::lock(path.clone(), false).unwrap_err());
            assert!(error.contains(&path.display().to_string()), "{error}");
        }
    }

    #[test]
    fn metadata_that_are_gone_beside_partitions_are_missed_before_anything_is_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data");
        std::fs::create_dir_all(path.join("logs/t-0")).unwrap();
        let taken = DataDir::lock(path, false).unwrap();
        let error = taken.check_whole().unwrap_err().to_string();
        assert!(error.contains("metadata is gone") && error.contains("taffrail log import"), "{error}");
        std::fs::create_dir(taken.metadata(1)).unwrap();
        taken.check_whole().unwrap();
    }

    #[test]
    fn a_directory_is_new_until_something_was_kept_in_it() {
        for (made, is_new) in [
            ("", true),
            ("lost+found", true),
            ("logs/lost+found", true),
            ("logs/t-0", false),
            ("notes", false),
            ("metadata/raft", false),
            ("metadata", true),
            ("metadata-3", true),
            ("metadata-3/raft", false),
            ("broker-2", true),
            ("broker-2/t-0", false),
        ] {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(dir.path().join(made)).unwrap();
            assert_eq!(DataDir::lock(dir.path().to_owned(), false).unwrap().fresh, is_new, "{made}");
        }
        for (file, is_new) in [("logs/LOCK", true), ("logs/meta.properties", false), ("metadata/lock", true)] {
            let dir = tempfile::tempdir().unwrap();
            let file = dir.path().join(file);
            std::fs::create_dir_all(file.parent().unwrap()).unwrap();
            std::fs::write(&file, "").unwrap();
            assert_eq!(DataDir::lock(dir.path().to_owned(), false).unwrap().fresh, is_new, "{}", file.display());
        }
    }

    #[test]
    fn brokers_and_controllers_that_were_there_are_found_again() {
        let dir = tempfile::tempdir().unwrap();
        let taken = DataDir::lock(dir.path().to_owned(), false).unwrap();
        assert_eq!((taken.brokers(), taken.controllers()), (0, 0));
        for folder in [taken.logs_of(1), taken.logs_of(3), taken.metadata(1)] {
            std::fs::create_dir(folder).unwrap();
        }
        assert_eq!((taken.brokers(), taken.controllers()), (3, 1));
    }

    #[test]
    fn the_folder_of_a_broker_that_left_goes_unless_a_partition_is_in_it() {
        let dir = tempfile::tempdir().unwrap();
        let taken = DataDir::lock(dir.path().to_owned(), false).unwrap();
        std::fs::create_dir_all(taken.logs_of(3).join("t-0")).unwrap();
        let error = taken.forget_broker(3).unwrap_err().to_string();
        assert!(error.contains("broker-3/t-0 is still there"), "{error}");
        let deleted = format!("t-0.{}-delete", "ab".repeat(16));
        std::fs::rename(taken.logs_of(3).join("t-0"), taken.logs_of(3).join(deleted)).unwrap();
        std::fs::write(taken.logs_of(3).join("meta.properties"), "x").unwrap();
        taken.forget_broker(3).unwrap();
        assert!(!taken.logs_of(3).exists());
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

    #[test]
    fn what_killed_processes_left_behind_is_removed_and_nothing_else() {
        let dir = tempfile::tempdir().unwrap();
        let id = |first: u8| Uuid([first; 16]);
        let killed = dir.path().join(format!("{EPHEMERAL}{}", id(1)));
        std::fs::create_dir_all(killed.join("logs/t-0")).unwrap();
        std::fs::write(killed.join(LOCK), "process 1 (taffrail)\n").unwrap();
        let living = DataDir::lock(dir.path().join(format!("{EPHEMERAL}{}", id(2))), true).unwrap();
        let others = [format!("{EPHEMERAL}{}", id(3)), "taffrail-data".to_owned(), "other".to_owned()];
        for other in &others {
            std::fs::create_dir(dir.path().join(other)).unwrap();
        }
        std::fs::write(dir.path().join("taffrail-data").join(LOCK), "process 1 (taffrail)\n").unwrap();
        remove_left_behind(dir.path());
        assert!(!killed.exists());
        assert!(living.path().exists() && others.iter().all(|other| dir.path().join(other).exists()));
    }
}
