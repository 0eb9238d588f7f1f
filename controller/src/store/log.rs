//! The Raft log over a backend: what openraft needs, with checksums, durability and a cache.
//!
//! Nothing here waits for the disk on Raft's own task: writes go to the writer's thread, and reads that the cache cannot
//! answer go to a pool. What was just appended is read from memory, because Raft reads every entry again to apply it.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};
use std::sync::Arc;

use openraft::storage::{LogFlushed, LogState, RaftLogStorage};
use openraft::{AnyError, EntryPayload, OptionalSend, RaftLogReader, StorageIOError};
use parking_lot::Mutex;
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_runtime::blocking::Pool;
use tokio::sync::oneshot;

use super::checksum::{seal, unseal};
use super::writer::{Change, Writer};
use super::{Mark, MetaStore, StoreError};
use crate::raft::messages::{decode_entry, decode_purged, decode_vote, encode_entry, encode_purged, encode_vote};
use crate::raft::{Entry, LogId, NodeId, StorageError, TypeConfig, Vote};

/// Entries kept in memory after they are durable.
const CACHED_ENTRIES_MAX: usize = 1_024;

/// Bytes of entries kept in memory after they are durable.
const CACHED_BYTES_MAX: usize = 8 << 20;

/// Entries read at a time when the log is opened.
const LOADED_ENTRIES: u64 = 64;

/// Bytes of entries that go to a follower in one message, if there is more than one.
const REPLICATED_BYTES_MAX: usize = 4 << 20;

/// Places of the marks, which have no index.
const VOTE_PLACE: u64 = u64::MAX;
const PURGED_PLACE: u64 = u64::MAX - 1;

/// The log. Clones share it.
#[derive(Clone)]
pub(crate) struct RaftLog {
    store: Arc<dyn MetaStore>,
    writer: Writer,
    pool: Pool,
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    vote: Option<Vote>,
    purged: Option<LogId>,
    last: Option<LogId>,
    /// The newest entries, without a gap up to the last. Those that are not durable yet are all here.
    cache: BTreeMap<u64, Entry>,
    cached_bytes: usize,
    durable: u64,
}

impl RaftLog {
    /// The log in `store`, checked: no holes, no damage.
    pub(crate) fn open(store: Arc<dyn MetaStore>, pool: Pool) -> Result<Self, StoreError> {
        let mark = |mark: Mark, place: u64, what: &'static str| -> Result<Option<Vec<u8>>, StoreError> {
            let Some(sealed) = store.get(mark)? else { return Ok(None) };
            Ok(Some(unseal(place, &sealed, &|| what.to_owned())?.to_vec()))
        };
        let vote = mark(Mark::Vote, VOTE_PLACE, "the vote")?.map(|bytes| decode_vote(&bytes)).transpose()?;
        let purged = mark(Mark::Purged, PURGED_PLACE, "the mark of the log's start")?;
        let purged = purged.map(|bytes| decode_purged(&bytes)).transpose()?;
        let mut state = State { vote, purged, last: purged, ..State::default() };
        if let Some(purged) = purged {
            // A crash may have come between the mark and the removal.
            store.purge(purged.index)?;
        }
        if let Some((first, last)) = store.bounds()? {
            let start = purged.map_or(0, |purged| purged.index + 1);
            if first != start {
                return Err(StoreError::Hole { missing: start });
            }
            state.load(&*store, first, last)?;
        }
        let writer = Writer::new(Arc::clone(&store), pool.clone());
        Ok(Self { store, writer, pool, state: Arc::new(Mutex::new(state)) })
    }

    /// Whether this store has never held anything.
    pub(crate) fn is_pristine(&self) -> bool {
        let state = self.state.lock();
        state.vote.is_none() && state.last.is_none()
    }

    /// Whether there is no entry, and never was one.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.lock().last.is_none()
    }

    /// Index of the last entry that was cut off at the start.
    pub(crate) fn purged_index(&self) -> Option<u64> {
        self.state.lock().purged.map(|log_id| log_id.index)
    }

    /// Carries out a change and waits until it is durable.
    async fn write(&self, change: Change) -> Result<(), io::Error> {
        let (sender, receiver) = oneshot::channel();
        let done = move |outcome: Result<(), String>| {
            // Raft may have given up waiting.
            let _ = sender.send(outcome);
        };
        self.writer.submit(change, Box::new(done));
        match receiver.await {
            Ok(Ok(())) => Ok(()),
            Ok(Err(reason)) => Err(io::Error::other(reason)),
            Err(_) => Err(io::Error::other("the metadata store is gone")),
        }
    }

    /// Entries from `first` on and before `end`.
    async fn read(&self, first: u64, end: u64) -> Result<Vec<Entry>, StoreError> {
        let (mut stored_end, cached) = {
            let state = self.state.lock();
            let end = end.min(state.last.map_or(0, |last| last.index + 1));
            if first >= end {
                return Ok(Vec::new());
            }
            let cached: Vec<Entry> = state.cache.range(first..end).map(|(_, entry)| entry.clone()).collect();
            (end, cached)
        };
        if let Some(entry) = cached.first() {
            stored_end = entry.log_id.index;
        }
        let mut entries = Vec::new();
        if first < stored_end {
            let store = Arc::clone(&self.store);
            let read = self.pool.run(move || store.read(first, stored_end)).await;
            let stored = read.map_err(|error| StoreError::Fenced(error.to_string()))??;
            for (index, sealed) in stored {
                entries.push(decode(index, &sealed)?);
            }
        }
        entries.extend(cached);
        Ok(entries)
    }
}

impl State {
    /// Reads and checks the entries from `first` to `last`; the newest stay in the cache.
    fn load(&mut self, store: &dyn MetaStore, first: u64, last: u64) -> Result<(), StoreError> {
        let mut expected = first;
        while expected <= last {
            let end = (last + 1).min(expected + LOADED_ENTRIES);
            let mut entries = store.read(expected, end)?.into_iter();
            for expected in expected..end {
                let (index, sealed) = entries.next().ok_or(StoreError::Hole { missing: expected })?;
                if index != expected {
                    return Err(StoreError::Hole { missing: expected });
                }
                let entry = decode(index, &sealed)?;
                self.last = Some(entry.log_id);
                self.insert(entry);
                self.durable = index;
                self.evict();
            }
            expected = end;
        }
        Ok(())
    }

    fn insert(&mut self, entry: Entry) {
        self.cached_bytes += entry_bytes(&entry);
        if let Some(replaced) = self.cache.insert(entry.log_id.index, entry) {
            self.cached_bytes -= entry_bytes(&replaced);
        }
    }

    /// Forgets the oldest durable entries while there are too many.
    fn evict(&mut self) {
        while self.cache.len() > CACHED_ENTRIES_MAX || self.cached_bytes > CACHED_BYTES_MAX {
            let Some(oldest) = self.cache.first_entry().filter(|oldest| *oldest.key() < self.durable) else { return };
            self.cached_bytes -= entry_bytes(&oldest.remove());
        }
    }

    fn remove(&mut self, removed: BTreeMap<u64, Entry>) {
        self.cached_bytes -= removed.values().map(entry_bytes).sum::<usize>();
    }
}

/// About how much memory an entry takes.
fn entry_bytes(entry: &Entry) -> usize {
    let payload = match &entry.payload {
        EntryPayload::Normal(events) => events.0.len(),
        EntryPayload::Blank | EntryPayload::Membership(_) => 0,
    };
    size_of::<Entry>() + payload
}

fn decode(index: u64, sealed: &[u8]) -> Result<Entry, StoreError> {
    let entry = decode_entry(unseal(index, sealed, &|| format!("entry {index} of the metadata log"))?)?;
    if entry.log_id.index == index { Ok(entry) } else { Err(StoreError::Hole { missing: index }) }
}

fn read_error(error: &StoreError) -> StorageError {
    StorageIOError::read_logs(AnyError::new(error)).into()
}

impl RaftLogReader<TypeConfig> for RaftLog {
    async fn try_get_log_entries<RB: RangeBounds<u64> + Clone + Debug + OptionalSend>(
        &mut self,
        range: RB,
    ) -> Result<Vec<Entry>, StorageError> {
        let first = match range.start_bound() {
            Bound::Included(first) => *first,
            Bound::Excluded(before) => before.saturating_add(1),
            Bound::Unbounded => 0,
        };
        let end = match range.end_bound() {
            Bound::Included(last) => last.saturating_add(1),
            Bound::Excluded(end) => *end,
            Bound::Unbounded => u64::MAX,
        };
        self.read(first, end).await.map_err(|error| read_error(&error))
    }

    async fn limited_get_log_entries(&mut self, start: u64, end: u64) -> Result<Vec<Entry>, StorageError> {
        let mut entries = self.read(start, end).await.map_err(|error| read_error(&error))?;
        let mut bytes = 0;
        let fits = |entry: &&Entry| {
            bytes += entry_bytes(entry);
            bytes <= REPLICATED_BYTES_MAX
        };
        let count = entries.iter().take_while(fits).count();
        entries.truncate(count.max(1));
        Ok(entries)
    }
}

impl RaftLogStorage<TypeConfig> for RaftLog {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, StorageError> {
        let state = self.state.lock();
        Ok(LogState { last_purged_log_id: state.purged, last_log_id: state.last })
    }

    async fn get_log_reader(&mut self) -> Self::LogReader {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), StorageError> {
        let sealed = seal(VOTE_PLACE, &encode_vote(*vote));
        if !is_planted(PlantedBug::VoteNotKept) {
            let written = self.write(Change::Put(Mark::Vote, sealed)).await;
            written.map_err(|error| StorageError::from(StorageIOError::write_vote(AnyError::new(&error))))?;
        }
        self.state.lock().vote = Some(*vote);
        Ok(())
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, StorageError> {
        Ok(self.state.lock().vote)
    }

    async fn append<I>(&mut self, entries: I, callback: LogFlushed<TypeConfig>) -> Result<(), StorageError>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries: Vec<Entry> = entries.into_iter().collect();
        let sealed = entries.iter().map(|entry| (entry.log_id.index, seal(entry.log_id.index, &encode_entry(entry))));
        let change = Change::Append(sealed.collect());
        let last = entries.last().map(|entry| entry.log_id);
        {
            let mut state = self.state.lock();
            state.last = last.or(state.last);
            entries.into_iter().for_each(|entry| state.insert(entry));
        }
        let state = Arc::clone(&self.state);
        let done = move |outcome: Result<(), String>| {
            if let (Ok(()), Some(last)) = (&outcome, last) {
                let mut state = state.lock();
                state.durable = last.index;
                state.evict();
            }
            callback.log_io_completed(outcome.map_err(io::Error::other));
        };
        self.writer.submit(change, Box::new(done));
        Ok(())
    }

    async fn truncate(&mut self, log_id: LogId) -> Result<(), StorageError> {
        let before = match log_id.index.checked_sub(1) {
            Some(index) => self.read(index, index + 1).await.map_err(|error| read_error(&error))?.pop(),
            None => None,
        };
        {
            let mut state = self.state.lock();
            let removed = state.cache.split_off(&log_id.index);
            state.remove(removed);
            state.last = before.map(|entry| entry.log_id).or(state.purged);
        }
        let written = self.write(Change::Truncate(log_id.index)).await;
        {
            // Appends that were under way have told by now how far they came.
            let mut state = self.state.lock();
            state.durable = state.durable.min(log_id.index.saturating_sub(1));
        }
        written.map_err(|error| StorageIOError::<NodeId>::write_logs(AnyError::new(&error)).into())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), StorageError> {
        {
            let mut state = self.state.lock();
            state.purged = Some(log_id);
            if state.last.is_none_or(|last| last.index < log_id.index) {
                state.last = Some(log_id);
            }
            let kept = state.cache.split_off(&(log_id.index + 1));
            let removed = std::mem::replace(&mut state.cache, kept);
            state.remove(removed);
        }
        let mark = seal(PURGED_PLACE, &encode_purged(log_id));
        let written = self.write(Change::Purge { index: log_id.index, mark }).await;
        written.map_err(|error| StorageIOError::<NodeId>::write_logs(AnyError::new(&error)).into())
    }
}
