//! One suite for all backends, openraft's own suite over them, and what only files can show.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::testing::{StoreBuilder, Suite, blank_ent};
use openraft::{EntryPayload, RaftLogReader};
use parking_lot::Mutex;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::encode_snapshot;
use taffrail_runtime::blocking::Pool;
use tokio::sync::oneshot;

use super::log::RaftLog;
use super::memory::MemoryStore;
use super::sled::SledStore;
use super::snapshots::Snapshots;
use super::writer::{Change, Writer};
use super::{Mark, MetaStore, StoreError};
use crate::machine::Machine;
use crate::machine::feed::Feed;
use crate::raft::{Entry, Events, LogId, NodeId, SnapshotMeta, StorageError, TypeConfig};

fn pool() -> Pool {
    Pool::new("store-test", 2, 256)
}

fn indices(store: &dyn MetaStore, first: u64, end: u64) -> Vec<u64> {
    store.read(first, end).unwrap().into_iter().map(|(index, _)| index).collect()
}

/// What every backend must do.
fn keeps_the_contract(store: &dyn MetaStore) {
    assert_eq!(store.bounds().unwrap(), None);
    assert_eq!(store.get(Mark::Vote).unwrap(), None);
    let entry = |index: u64| (index, index.to_string().into_bytes());
    store.append(&(5..300).map(entry).collect::<Vec<_>>()).unwrap();
    assert_eq!(store.bounds().unwrap(), Some((5, 299)));
    assert_eq!(indices(store, 0, 9), [5, 6, 7, 8]);
    assert_eq!(indices(store, 298, u64::MAX), [298, 299]);
    assert_eq!(indices(store, 9, 9), [0_u64; 0]);
    assert_eq!(indices(store, 9, 3), [0_u64; 0]);
    store.truncate(280).unwrap();
    store.purge(9).unwrap();
    assert_eq!(store.bounds().unwrap(), Some((10, 279)));
    // Values of all sizes, around the borders of the parts in which a backend may keep them.
    let long = [1, 65_535, 65_536, 65_537, 1_500_000].map(|length: usize| vec![length as u8; length]);
    let entries: Vec<_> = (280..).zip(long).collect();
    store.append(&entries).unwrap();
    assert_eq!(store.read(280, 285).unwrap(), entries);
    store.truncate(281).unwrap();
    assert_eq!(indices(store, 279, 300), [279, 280]);
    store.append(&[(281, b"again".to_vec())]).unwrap();
    assert_eq!(store.read(281, 400).unwrap(), [(281, b"again".to_vec())]);
    for (mark, value) in [(Mark::Vote, "a"), (Mark::Purged, "b"), (Mark::Vote, "c")] {
        store.put(mark, value.as_bytes()).unwrap();
    }
    assert_eq!(store.get(Mark::Vote).unwrap().as_deref(), Some(b"c".as_slice()));
    assert_eq!(store.get(Mark::Purged).unwrap().as_deref(), Some(b"b".as_slice()));
    store.sync().unwrap();
    store.purge(u64::MAX).unwrap();
    assert_eq!(store.bounds().unwrap(), None);
    store.sync().unwrap();
}

#[test]
fn every_backend_keeps_the_contract() {
    keeps_the_contract(&MemoryStore::default());
    let folder = tempfile::tempdir().unwrap();
    keeps_the_contract(&SledStore::open(&folder.path().join("raft")).unwrap());
}

#[test]
fn a_database_that_is_opened_again_has_what_was_synced() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raft");
    let long = vec![7; 3_000_000];
    {
        let store = SledStore::open(&path).unwrap();
        store.append(&[(0, b"a".to_vec()), (1, long.clone())]).unwrap();
        store.put(Mark::Vote, b"v").unwrap();
        store.sync().unwrap();
    }
    // What sled leaves behind when it is killed while it writes a snapshot.
    let leftover = path.join("snap.0000000000000000.generating");
    std::fs::write(&leftover, b"half").unwrap();
    let store = SledStore::open(&path).unwrap();
    assert_eq!(store.read(0, 9).unwrap(), [(0, b"a".to_vec()), (1, long)]);
    assert_eq!(store.get(Mark::Vote).unwrap().as_deref(), Some(b"v".as_slice()));
    assert!(!leftover.exists());
}

/// Builds what openraft's suite tests.
struct Builder<F>(F);

impl<F> StoreBuilder<TypeConfig, RaftLog, Machine, Option<tempfile::TempDir>> for Builder<F>
where
    F: Fn() -> (Option<tempfile::TempDir>, Arc<dyn MetaStore>, Snapshots) + Send + Sync,
{
    async fn build(&self) -> Result<(Option<tempfile::TempDir>, RaftLog, Machine), StorageError> {
        let (folder, store, snapshots) = (self.0)();
        let log = RaftLog::open(store, pool()).unwrap();
        let machine = Machine::open(Arc::new(snapshots), Arc::new(Feed::default()), pool()).unwrap();
        Ok((folder, log, machine))
    }
}

#[test]
fn openrafts_suite_passes_over_memory() {
    let build = || -> (Option<tempfile::TempDir>, Arc<dyn MetaStore>, Snapshots) {
        (None, Arc::new(MemoryStore::default()), Snapshots::Memory(Mutex::default()))
    };
    Suite::test_all(Builder(build)).unwrap();
}

#[test]
fn openrafts_suite_passes_over_sled_and_files() {
    let build = || -> (Option<tempfile::TempDir>, Arc<dyn MetaStore>, Snapshots) {
        let folder = tempfile::tempdir().unwrap();
        let store = SledStore::open(&folder.path().join("raft")).unwrap();
        let snapshots = Snapshots::open(folder.path().join("snapshots"), None).unwrap();
        (Some(folder), Arc::new(store), snapshots)
    };
    Suite::test_all(Builder(build)).unwrap();
}

fn entry(index: u64, bytes: usize) -> Entry {
    Entry { payload: EntryPayload::Normal(Events(vec![1; bytes])), ..blank_ent(1, NodeId::from(1), index) }
}

#[tokio::test]
async fn a_log_longer_than_the_cache_is_read_back_whole() {
    let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::default());
    let mut log = RaftLog::open(Arc::clone(&store), pool()).unwrap();
    let entries: Vec<Entry> = (0..3_000).map(|index| entry(index, 10)).collect();
    log.blocking_append(entries.clone()).await.unwrap();
    assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries);
    assert_eq!(log.try_get_log_entries(1_970..=1_980).await.unwrap(), entries[1_970..=1_980]);
    log.truncate(entries[2_500].log_id).await.unwrap();
    log.purge(entries[99].log_id).await.unwrap();
    assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries[100..2_500]);
    let mut again = RaftLog::open(store, pool()).unwrap();
    assert_eq!(again.get_log_state().await.unwrap(), log.get_log_state().await.unwrap());
    assert_eq!(again.try_get_log_entries(..).await.unwrap(), entries[100..2_500]);
}

#[tokio::test]
async fn what_goes_to_a_follower_at_once_is_bounded_but_never_nothing() {
    let mut log = RaftLog::open(Arc::new(MemoryStore::default()), pool()).unwrap();
    let entries: Vec<Entry> = (0..4).map(|index| entry(index, 3 << 20)).collect();
    log.blocking_append(entries.clone()).await.unwrap();
    assert_eq!(log.limited_get_log_entries(0, 4).await.unwrap(), entries[..1]);
    log.blocking_append([entry(4, 5 << 20), entry(5, 1)]).await.unwrap();
    assert_eq!(log.limited_get_log_entries(4, 6).await.unwrap().len(), 1);
}

#[tokio::test]
async fn damage_and_holes_are_refused_when_the_log_is_opened() {
    let filled = async || {
        let store: Arc<dyn MetaStore> = Arc::new(MemoryStore::default());
        let mut log = RaftLog::open(Arc::clone(&store), pool()).unwrap();
        log.blocking_append((0..10).map(|index| entry(index, 10))).await.unwrap();
        log.save_vote(&openraft::Vote::new(3, NodeId::from(1))).await.unwrap();
        store
    };
    let refusal = |store| RaftLog::open(store, pool()).map(drop).unwrap_err();

    let store = filled().await;
    let (index, mut bytes) = store.read(4, 5).unwrap().remove(0);
    bytes[20] ^= 1;
    store.append(&[(index, bytes)]).unwrap();
    assert_eq!(refusal(store).to_string(), "entry 4 of the metadata log is damaged: its checksum is wrong");

    let store = filled().await;
    let moved = store.read(4, 5).unwrap().remove(0).1;
    store.append(&[(5, moved)]).unwrap();
    assert!(matches!(refusal(store), StoreError::Checksum { .. }), "an entry in another's place");

    let store = filled().await;
    let mut vote = store.get(Mark::Vote).unwrap().unwrap();
    vote[6] ^= 1;
    store.put(Mark::Vote, &vote).unwrap();
    assert_eq!(refusal(store).to_string(), "the vote is damaged: its checksum is wrong");

    let store = filled().await;
    let rest = store.read(6, 10).unwrap();
    store.truncate(5).unwrap();
    store.append(&rest).unwrap();
    assert!(matches!(refusal(store), StoreError::Hole { missing: 5 }));

    let store = filled().await;
    store.purge(2).unwrap();
    assert!(matches!(refusal(store), StoreError::Hole { missing: 0 }), "cut without a mark");
}

/// Counts syncs, holds the first one until it is let go, and fails from the `fails_at`th on.
pub(crate) struct Watched {
    inner: MemoryStore,
    syncs: AtomicUsize,
    fails_at: AtomicUsize,
    gate: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
}

impl Watched {
    pub(crate) fn new(fails_at: usize, gate: Option<std::sync::mpsc::Receiver<()>>) -> Arc<Self> {
        Arc::new(Self {
            inner: MemoryStore::default(),
            syncs: AtomicUsize::new(0),
            fails_at: AtomicUsize::new(fails_at),
            gate: Mutex::new(gate),
        })
    }

    /// Has the next sync wait until what this gives is dropped.
    pub(crate) fn stop(&self) -> std::sync::mpsc::Sender<()> {
        let (go_on, gate) = std::sync::mpsc::channel();
        *self.gate.lock() = Some(gate);
        go_on
    }

    /// Has every sync fail from now on.
    pub(crate) fn fail(&self) {
        self.fails_at.store(0, Ordering::SeqCst);
    }
}

impl MetaStore for Watched {
    fn append(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        self.inner.append(entries)
    }
    fn truncate(&self, index: u64) -> Result<(), StoreError> {
        self.inner.truncate(index)
    }
    fn purge(&self, index: u64) -> Result<(), StoreError> {
        self.inner.purge(index)
    }
    fn read(&self, first: u64, end: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        self.inner.read(first, end)
    }
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        self.inner.bounds()
    }
    fn put(&self, mark: Mark, value: &[u8]) -> Result<(), StoreError> {
        self.inner.put(mark, value)
    }
    fn get(&self, mark: Mark) -> Result<Option<Vec<u8>>, StoreError> {
        self.inner.get(mark)
    }
    fn sync(&self) -> Result<(), StoreError> {
        if let Some(gate) = self.gate.lock().take() {
            let _ = gate.recv();
        }
        let syncs = self.syncs.fetch_add(1, Ordering::SeqCst) + 1;
        if syncs < self.fails_at.load(Ordering::SeqCst) {
            return Ok(());
        }
        Err(StoreError::file("the-disk", "synced", std::io::Error::other("no")))
    }
}

fn submit(writer: &Writer, index: u64) -> oneshot::Receiver<Result<(), String>> {
    let (sender, receiver) = oneshot::channel();
    let done = move |outcome| {
        let _ = sender.send(outcome);
    };
    writer.submit(Change::Append(vec![(index, vec![1])]), Box::new(done));
    receiver
}

#[tokio::test]
async fn changes_that_wait_together_share_one_sync() {
    let (release, gate) = std::sync::mpsc::channel();
    let store = Watched::new(usize::MAX, Some(gate));
    let writer = Writer::new(Arc::clone(&store) as Arc<dyn MetaStore>, pool());
    let waiting: Vec<_> = (0..100).map(|index| submit(&writer, index)).collect();
    release.send(()).unwrap();
    for done in waiting {
        assert_eq!(done.await.unwrap(), Ok(()));
    }
    let syncs = store.syncs.load(Ordering::SeqCst);
    assert!(syncs <= 3, "{syncs} syncs for 100 changes");
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_written_or_called_durable_any_more() {
    let store = Watched::new(2, None);
    let writer = Writer::new(Arc::clone(&store) as Arc<dyn MetaStore>, pool());
    assert_eq!(submit(&writer, 0).await.unwrap(), Ok(()));
    let failed = submit(&writer, 1).await.unwrap().unwrap_err();
    assert!(failed.contains("'the-disk' cannot be synced"), "{failed}");
    let fenced = submit(&writer, 2).await.unwrap().unwrap_err();
    assert!(fenced.contains("takes no more writes"), "{fenced}");
    assert_eq!(indices(&*store, 0, 9), [0, 1]);
    assert_eq!(store.syncs.load(Ordering::SeqCst), 2, "a failed sync is not repeated");
}

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: Some(LogId { index, ..entry(0, 0).log_id }),
        snapshot_id: format!("1-{index}"),
        ..SnapshotMeta::default()
    }
}

fn snapshot_files(folder: &Path) -> Vec<String> {
    let names = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.collect();
    names.sort();
    names
}

#[test]
fn the_newest_snapshot_that_can_be_read_is_the_one() {
    let folder = tempfile::tempdir().unwrap();
    let snapshots = Snapshots::open(folder.path().to_owned(), None).unwrap();
    assert_eq!(snapshots.load().unwrap(), None);
    for index in [3, 20, 100] {
        snapshots.save(&meta(index), format!("image {index}").as_bytes()).unwrap();
    }
    let newest = "00000000000000000100.snapshot";
    assert_eq!(snapshot_files(folder.path()), ["00000000000000000020.snapshot", newest]);
    assert_eq!(snapshots.load().unwrap(), Some((meta(100), b"image 100".to_vec())));

    let path = folder.path().join(newest);
    let mut bytes = std::fs::read(&path).unwrap();
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    assert_eq!(snapshots.load().unwrap(), Some((meta(20), b"image 20".to_vec())), "a damaged one is passed over");

    std::fs::write(folder.path().join("00000000000000000200.tmp"), b"half").unwrap();
    drop(Snapshots::open(folder.path().to_owned(), None).unwrap());
    assert_eq!(snapshot_files(folder.path()).len(), 2, "a half-written one is removed");
}

#[tokio::test]
async fn a_machine_starts_from_its_snapshot() {
    let snapshots = Arc::new(Snapshots::Memory(Mutex::default()));
    let image = MetadataImage::from_snapshot(41, []).unwrap();
    snapshots.save(&meta(7), &encode_snapshot(&image)).unwrap();
    let feed = Arc::new(Feed::default());
    let machine = Machine::open(snapshots, Arc::clone(&feed), pool()).unwrap();
    assert_eq!(machine.applied_index(), Some(7));
    assert_eq!(*feed.image(), image);
}
