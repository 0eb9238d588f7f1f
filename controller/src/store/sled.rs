//! The sled backend.
//!
//! sled's `flush` writes but does not sync on Linux: it calls `sync_file_range`, which neither syncs the file's length nor
//! empties the disk's cache. So every barrier here ends with a real `fdatasync` on a handle of our own. Values longer than
//! a segment go to files that sled never syncs, so long values are kept in parts, and such files are synced here. A snapshot that sled was writing when it
//! was killed keeps it from opening, so such leftovers go first.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use sled::{Batch, Db, IVec, Tree};
use tokio::sync::oneshot;

use super::reserve::Reserve;
use super::{Mark, MetaStore, StoreError};

/// Memory that sled may use for its pages. The log is read once, at start.
const CACHE_BYTES: u64 = 16 << 20;

/// Longest value that is handed to sled in one piece.
const PART_BYTES: usize = 64 << 10;

/// Keys removed in one go when the log is cut: bounds what one cut holds in memory.
const REMOVE_KEYS_MAX: usize = 1_000;

/// The log and the marks in a sled database.
pub(crate) struct SledStore {
    path: PathBuf,
    db: Db,
    log: Tree,
    meta: Tree,
    file: File,
    synced_blobs: Mutex<BTreeSet<OsString>>,
    reserve: Option<Arc<Reserve>>,
    /// Dropped last, when the database is closed.
    _closed: Option<oneshot::Sender<()>>,
}

impl SledStore {
    /// Opens the database in folder `path`, or makes one.
    pub(crate) fn open(path: &Path) -> Result<Self, StoreError> {
        remove_unfinished_snapshots(path)?;
        let refused = |error: sled::Error| refusal(path, &error);
        let config = sled::Config::new().path(path).cache_capacity(CACHE_BYTES).flush_every_ms(None);
        let db = config.open().map_err(refused)?;
        let (log, meta) = (db.open_tree("log").map_err(refused)?, db.open_tree("meta").map_err(refused)?);
        let data = path.join("db");
        let file = File::open(&data).map_err(|source| StoreError::file(&data, "opened", source))?;
        let store = Self {
            path: path.to_owned(),
            db,
            log,
            meta,
            file,
            synced_blobs: Mutex::default(),
            reserve: None,
            _closed: None,
        };
        store.sync()?;
        sync_folder(path)?;
        if let Some(parent) = path.parent() {
            sync_folder(parent)?;
        }
        Ok(store)
    }

    /// The same, with room in `reserve` for when the disk is full. Room for opening is the caller's.
    pub(crate) fn with_reserve(self, reserve: Arc<Reserve>) -> Self {
        Self { reserve: Some(reserve), ..self }
    }

    /// The same; the receiver ends when the database is closed, and another process may open it.
    pub(crate) fn with_closing(self) -> (Self, oneshot::Receiver<()>) {
        let (closed, receiver) = oneshot::channel();
        (Self { _closed: Some(closed), ..self }, receiver)
    }

    /// Sees to it that there is room for a write: the database must never meet a full disk.
    fn make_room(&self) {
        if let Some(reserve) = &self.reserve {
            reserve.make_room(0);
        }
    }

    fn refused(&self, error: &sled::Error) -> StoreError {
        refusal(&self.path, error)
    }

    /// Removes keys in the order that the iterator gives them.
    fn remove(&self, mut keys: impl Iterator<Item = sled::Result<IVec>>) -> Result<(), StoreError> {
        loop {
            let mut batch = Batch::default();
            let mut count = 0;
            for key in keys.by_ref().take(REMOVE_KEYS_MAX) {
                batch.remove(key.map_err(|error| self.refused(&error))?);
                count += 1;
            }
            if count == 0 {
                return Ok(());
            }
            self.log.apply_batch(batch).map_err(|error| self.refused(&error))?;
        }
    }
}

impl MetaStore for SledStore {
    fn append(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        self.make_room();
        let mut batch = Batch::default();
        for (index, value) in entries {
            for (part, bytes) in (0_u32..).zip(value.chunks(PART_BYTES)) {
                batch.insert(&key(*index, part), bytes);
            }
        }
        self.log.apply_batch(batch).map_err(|error| self.refused(&error))
    }

    fn truncate(&self, index: u64) -> Result<(), StoreError> {
        self.make_room();
        // From the end, so that a crash in between leaves no hole.
        self.remove(self.log.range(key(index, 0)..).rev().keys_only())
    }

    fn purge(&self, index: u64) -> Result<(), StoreError> {
        self.remove(self.log.range(..=key(index, u32::MAX)).keys_only())
    }

    fn read(&self, first: u64, end: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        let mut entries: Vec<(u64, Vec<u8>)> = Vec::new();
        if first >= end {
            return Ok(entries);
        }
        for item in self.log.range(key(first, 0)..key(end, 0)) {
            let (key, bytes) = item.map_err(|error| self.refused(&error))?;
            let index = index_of(&key).ok_or_else(|| self.foreign_key(&key))?;
            match entries.last_mut() {
                Some((last, value)) if *last == index => value.extend_from_slice(&bytes),
                _ => entries.push((index, bytes.to_vec())),
            }
        }
        Ok(entries)
    }

    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        let index = |item: Option<(IVec, IVec)>| {
            item.map(|(key, _)| index_of(&key).ok_or_else(|| self.foreign_key(&key))).transpose()
        };
        let first = index(self.log.first().map_err(|error| self.refused(&error))?)?;
        let last = index(self.log.last().map_err(|error| self.refused(&error))?)?;
        Ok(first.zip(last))
    }

    fn put(&self, mark: Mark, value: &[u8]) -> Result<(), StoreError> {
        self.make_room();
        self.meta.insert(mark.name(), value).map_err(|error| self.refused(&error))?;
        Ok(())
    }

    fn get(&self, mark: Mark) -> Result<Option<Vec<u8>>, StoreError> {
        let value = self.meta.get(mark.name()).map_err(|error| self.refused(&error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn sync(&self) -> Result<(), StoreError> {
        self.db.flush().map_err(|error| self.refused(&error))?;
        self.sync_blobs()?;
        self.file.sync_data().map_err(|source| StoreError::file(self.path.join("db"), "synced", source))
    }
}

impl SledStore {
    /// Syncs the files of values that sled found too long for a segment, and forgets those that are gone.
    fn sync_blobs(&self) -> Result<(), StoreError> {
        let folder = self.path.join("blobs");
        let mut synced = self.synced_blobs.lock();
        let before = std::mem::take(&mut *synced);
        let mut is_new = false;
        for entry in list(&folder)? {
            let name = entry.file_name();
            if !before.contains(&name) {
                let synced = File::open(entry.path()).and_then(|blob| blob.sync_data());
                match synced {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                    Err(source) => return Err(StoreError::file(entry.path(), "synced", source)),
                    Ok(()) => is_new = true,
                }
            }
            synced.insert(name);
        }
        if is_new { sync_folder(&folder) } else { Ok(()) }
    }

    fn foreign_key(&self, key: &[u8]) -> StoreError {
        let reason = format!("key {key:?} is not ours");
        StoreError::Database { path: self.path.clone(), reason, damaged: true }
    }
}

fn refusal(path: &Path, error: &sled::Error) -> StoreError {
    use std::io::ErrorKind::{InvalidData, InvalidInput, UnexpectedEof};
    let damaged = match error {
        sled::Error::Corruption { .. } | sled::Error::ReportableBug(_) | sled::Error::CollectionNotFound(_) => true,
        sled::Error::Io(error) => matches!(error.kind(), InvalidData | InvalidInput | UnexpectedEof),
        sled::Error::Unsupported(_) => false,
    };
    StoreError::Database { path: path.to_owned(), reason: error.to_string(), damaged }
}

/// Only the keys of an iterator over a tree.
trait KeysOnly: Iterator<Item = sled::Result<(IVec, IVec)>> + Sized {
    fn keys_only(self) -> impl Iterator<Item = sled::Result<IVec>> {
        self.map(|item| item.map(|(key, _)| key))
    }
}

impl<I: Iterator<Item = sled::Result<(IVec, IVec)>>> KeysOnly for I {}

/// Big endian, so that keys sort as numbers.
fn key(index: u64, part: u32) -> [u8; 12] {
    let mut key = [0; 12];
    key[..8].copy_from_slice(&index.to_be_bytes());
    key[8..].copy_from_slice(&part.to_be_bytes());
    key
}

fn index_of(key: &[u8]) -> Option<u64> {
    let (index, part) = key.split_first_chunk::<8>()?;
    (part.len() == 4).then_some(u64::from_be_bytes(*index))
}

/// Removes `snap.*.generating`: sled renames them when they are complete, and takes them for damage when they are not.
fn remove_unfinished_snapshots(path: &Path) -> Result<(), StoreError> {
    for entry in list(path)? {
        let name = entry.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("snap.") && name.ends_with(".generating") {
            fs::remove_file(entry.path()).map_err(|source| StoreError::file(entry.path(), "removed", source))?;
            tracing::info!(file = %entry.path().display(), "removed a snapshot that the database never finished");
        }
    }
    Ok(())
}

/// What a folder holds; nothing if it is not there.
fn list(path: &Path) -> Result<Vec<fs::DirEntry>, StoreError> {
    match fs::read_dir(path) {
        Ok(entries) => entries.collect::<Result<_, _>>().map_err(|source| StoreError::file(path, "listed", source)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(source) => Err(StoreError::file(path, "listed", source)),
    }
}

/// Makes the names in a folder survive a loss of power.
fn sync_folder(path: &Path) -> Result<(), StoreError> {
    File::open(path).and_then(|folder| folder.sync_all()).map_err(|source| StoreError::file(path, "synced", source))
}
