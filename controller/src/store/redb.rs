//! The redb backend: the log and the marks in one file of a disk that the caller brings.
//!
//! Simulation runs on it, because redb takes any file that can be read, written and synced, while sled insists on the
//! operating system's. A change is a transaction of its own, in memory until [`MetaStore::sync`] commits one that is durable;
//! a crash before falls back to the last durable one, so what is lost is lost from the end.

use std::fmt;
use std::io::{self, IoSlice};
use std::ops::RangeBounds;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Database, Durability, ReadableDatabase, ReadableTable, StorageBackend, TableDefinition, WriteTransaction};
use taffrail_runtime::disk::{Disk, DiskFile, OpenMode, read_exact_at, remove_if_exists, write_all_at};
use tokio::sync::oneshot;

use super::{Mark, MetaStore, StoreError};

/// Memory that redb may use for its pages. The log is read once, at start.
const CACHE_BYTES: usize = 4 << 20;

const LOG: TableDefinition<u64, &[u8]> = TableDefinition::new("log");
const MARKS: TableDefinition<&str, &[u8]> = TableDefinition::new("marks");

/// The log and the marks in a redb database.
pub(crate) struct RedbStore {
    path: PathBuf,
    db: Database,
    /// Dropped last, when the database is closed.
    _closed: Option<oneshot::Sender<()>>,
}

impl RedbStore {
    /// Opens the database in the file `path`, or makes one.
    pub(crate) fn open(disk: &dyn Disk, path: &Path) -> Result<Self, StoreError> {
        let unfinished = path.with_extension("new");
        let failed = |action| move |source| StoreError::file(path, action, source);
        remove_if_exists(disk, &unfinished).map_err(failed("made"))?;
        match disk.open(path, OpenMode::Write) {
            Ok(file) => Self::over(file, path),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // redb takes a file that it was killed over while making it for one of somebody else's.
                let file = disk.open(&unfinished, OpenMode::CreateNew).map_err(failed("made"))?;
                let store = Self::over(file, path)?;
                disk.rename(&unfinished, path).map_err(failed("made"))?;
                path.parent().map_or(Ok(()), |parent| disk.sync_dir(parent)).map_err(failed("made"))?;
                Ok(store)
            }
            Err(source) => Err(StoreError::file(path, "opened", source)),
        }
    }

    fn over(file: Arc<dyn DiskFile>, path: &Path) -> Result<Self, StoreError> {
        let opened = redb::Builder::new()
            .set_cache_size(CACHE_BYTES)
            // Without it a damaged file may end the process.
            .set_check_integrity_on_open(true)
            .create_with_backend(Backend(file));
        let db = opened.map_err(|error| refusal(path, error.into()))?;
        let store = Self { path: path.to_owned(), db, _closed: None };
        store.commit(Durability::Immediate, |transaction| {
            transaction.open_table(LOG)?;
            transaction.open_table(MARKS)?;
            Ok(())
        })?;
        Ok(store)
    }

    /// The same; the receiver ends when the database is closed, and another process may open it.
    pub(crate) fn with_closing(self) -> (Self, oneshot::Receiver<()>) {
        let (closed, receiver) = oneshot::channel();
        (Self { _closed: Some(closed), ..self }, receiver)
    }

    fn refused(&self, error: impl Into<redb::Error>) -> StoreError {
        refusal(&self.path, error.into())
    }

    /// Runs `change` in a transaction: all of it or nothing of it is there afterwards.
    fn commit(
        &self,
        durability: Durability,
        change: impl FnOnce(&WriteTransaction) -> Result<(), redb::Error>,
    ) -> Result<(), StoreError> {
        let carry_out = || -> Result<(), redb::Error> {
            let mut transaction = self.db.begin_write()?;
            transaction.set_durability(durability)?;
            change(&transaction)?;
            Ok(transaction.commit()?)
        };
        carry_out().map_err(|error| self.refused(error))
    }

    fn remove(&self, indices: impl RangeBounds<u64>) -> Result<(), StoreError> {
        self.commit(Durability::None, |transaction| {
            Ok(transaction.open_table(LOG)?.retain_in::<u64, _>(indices, |_, _| false)?)
        })
    }

    fn view<T>(&self, look: impl FnOnce(&redb::ReadTransaction) -> Result<T, redb::Error>) -> Result<T, StoreError> {
        let transaction = self.db.begin_read().map_err(|error| self.refused(error))?;
        look(&transaction).map_err(|error| self.refused(error))
    }
}

impl MetaStore for RedbStore {
    fn append(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        self.commit(Durability::None, |transaction| {
            let mut log = transaction.open_table(LOG)?;
            for (index, value) in entries {
                log.insert(index, value.as_slice())?;
            }
            Ok(())
        })
    }

    fn truncate(&self, index: u64) -> Result<(), StoreError> {
        self.remove(index..)
    }

    fn purge(&self, index: u64) -> Result<(), StoreError> {
        self.remove(..=index)
    }

    fn read(&self, first: u64, end: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        self.view(|transaction| {
            let log = transaction.open_table(LOG)?;
            let mut entries = Vec::new();
            for item in log.range(first..end.max(first))? {
                let (index, value) = item?;
                entries.push((index.value(), value.value().to_vec()));
            }
            Ok(entries)
        })
    }

    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        self.view(|transaction| {
            let log = transaction.open_table(LOG)?;
            let (first, last) = (log.first()?, log.last()?);
            Ok(first.zip(last).map(|((first, _), (last, _))| (first.value(), last.value())))
        })
    }

    fn put(&self, mark: Mark, value: &[u8]) -> Result<(), StoreError> {
        self.commit(Durability::None, |transaction| {
            transaction.open_table(MARKS)?.insert(mark.name(), value)?;
            Ok(())
        })
    }

    fn get(&self, mark: Mark) -> Result<Option<Vec<u8>>, StoreError> {
        self.view(|transaction| {
            let value = transaction.open_table(MARKS)?.get(mark.name())?;
            Ok(value.map(|value| value.value().to_vec()))
        })
    }

    fn sync(&self) -> Result<(), StoreError> {
        // A durable transaction makes those before it durable too.
        self.commit(Durability::Immediate, |_| Ok(()))
    }
}

fn refusal(path: &Path, error: redb::Error) -> StoreError {
    use io::ErrorKind::{InvalidData, UnexpectedEof};
    let damaged = match &error {
        redb::Error::Io(error) => matches!(error.kind(), InvalidData | UnexpectedEof),
        redb::Error::PreviousIo | redb::Error::DatabaseAlreadyOpen | redb::Error::UpgradeRequired(_) => false,
        // What else it says of tables that only we write is that they are not what we wrote.
        _ => true,
    };
    StoreError::Database { path: path.to_owned(), reason: error.to_string(), damaged }
}

/// A file as redb wants it.
struct Backend(Arc<dyn DiskFile>);

impl fmt::Debug for Backend {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("Backend")
    }
}

impl StorageBackend for Backend {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        read_exact_at(&*self.0, out, offset)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync()
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        write_all_at(&*self.0, &mut [IoSlice::new(data)], offset)
    }
}
