//! What stands on a backend, with every backend under it: openraft's own suite, the log, the writer, snapshots.

mod backends;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use openraft::storage::{RaftLogStorage, RaftLogStorageExt};
use openraft::testing::{StoreBuilder, Suite, blank_ent};
use openraft::{EntryPayload, RaftLogReader};
use parking_lot::Mutex;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::persisted::metadata::encode_snapshot;
use taffrail_runtime::blocking::Pool;
use taffrail_runtime::disk::Disk;
use taffrail_runtime::disk::fault::{FaultDisk, Rng};
use taffrail_runtime::time;
use tokio::sync::oneshot;

use self::backends::{DATABASE, grounds};
use super::folder::Folder;
use super::log::RaftLog;
use super::memory::MemoryStore;
use super::redb::RedbStore;
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
        let snapshots = Snapshots::open(Folder::real(folder.path().join("snapshots")), None).unwrap();
        (Some(folder), Arc::new(store), snapshots)
    };
    Suite::test_all(Builder(build)).unwrap();
}

#[test]
fn openrafts_suite_passes_over_redb_and_files_of_a_simulated_disk() {
    let build = || -> (Option<tempfile::TempDir>, Arc<dyn MetaStore>, Snapshots) {
        let disk = FaultDisk::new(1);
        disk.create_dir(Path::new(DATABASE).parent().unwrap()).unwrap();
        let store = RedbStore::open(&disk, Path::new(DATABASE)).unwrap();
        let snapshots = Snapshots::open(Folder::on(Arc::new(disk), "/controller/snapshots"), None).unwrap();
        (None, Arc::new(store), snapshots)
    };
    Suite::test_all(Builder(build)).unwrap();
}

/// Waits until a store is used no more than `uses` times: a log that was dropped may still be at work.
async fn released(store: &Arc<dyn MetaStore>, uses: usize) {
    for _ in 0..10_000 {
        if Arc::strong_count(store) <= uses {
            return;
        }
        time::sleep(Duration::from_millis(1)).await;
    }
    panic!("the store is still in use");
}

fn entry(index: u64, bytes: usize) -> Entry {
    Entry { payload: EntryPayload::Normal(Events(vec![1; bytes])), ..blank_ent(1, NodeId::from(1), index) }
}

#[tokio::test]
async fn a_log_longer_than_the_cache_is_read_back_whole() {
    for ground in grounds(3) {
        let store = ground.open().unwrap();
        let uses = Arc::strong_count(&store);
        let mut log = RaftLog::open(Arc::clone(&store), pool()).unwrap();
        let entries: Vec<Entry> = (0..3_000).map(|index| entry(index, 10)).collect();
        log.blocking_append(entries.clone()).await.unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries);
        assert_eq!(log.try_get_log_entries(1_970..=1_980).await.unwrap(), entries[1_970..=1_980]);
        log.truncate(entries[2_500].log_id).await.unwrap();
        log.purge(entries[99].log_id).await.unwrap();
        assert_eq!(log.try_get_log_entries(..).await.unwrap(), entries[100..2_500]);
        let state = log.get_log_state().await.unwrap();
        drop(log);
        released(&store, uses).await;
        drop(store);
        let mut again = RaftLog::open(ground.open().unwrap(), pool()).unwrap();
        assert_eq!(again.get_log_state().await.unwrap(), state, "{}", ground.name());
        assert_eq!(again.try_get_log_entries(..).await.unwrap(), entries[100..2_500], "{}", ground.name());
    }
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
    type Damage = fn(&dyn MetaStore);
    let cases: [(Damage, &str); 5] = [
        (
            |store| {
                let (index, mut bytes) = store.read(4, 5).unwrap().remove(0);
                bytes[20] ^= 1;
                store.append(&[(index, bytes)]).unwrap();
            },
            "entry 4 of the metadata log is damaged: its checksum is wrong",
        ),
        (
            |store| {
                let moved = store.read(4, 5).unwrap().remove(0).1;
                store.append(&[(5, moved)]).unwrap();
            },
            "entry 5 of the metadata log is damaged: its checksum is wrong",
        ),
        (
            |store| {
                let mut vote = store.get(Mark::Vote).unwrap().unwrap();
                vote[6] ^= 1;
                store.put(Mark::Vote, &vote).unwrap();
            },
            "the vote is damaged: its checksum is wrong",
        ),
        (
            |store| {
                let rest = store.read(6, 10).unwrap();
                store.truncate(5).unwrap();
                store.append(&rest).unwrap();
            },
            "the metadata log has a hole: entry 5 is not there",
        ),
        // Cut without a mark.
        (|store| store.purge(2).unwrap(), "the metadata log has a hole: entry 0 is not there"),
    ];
    for (damage, refusal) in cases {
        for ground in grounds(4) {
            let store = ground.open().unwrap();
            let uses = Arc::strong_count(&store);
            let mut log = RaftLog::open(Arc::clone(&store), pool()).unwrap();
            log.blocking_append((0..10).map(|index| entry(index, 10))).await.unwrap();
            log.save_vote(&openraft::Vote::new(3, NodeId::from(1))).await.unwrap();
            drop(log);
            released(&store, uses).await;
            drop(store);
            let store = ground.open().unwrap();
            damage(&*store);
            let refused = RaftLog::open(store, pool()).map(drop).unwrap_err();
            assert_eq!(refused.to_string(), refusal, "{}", ground.name());
            assert!(refused.is_damage());
        }
    }
}

/// Counts syncs, holds the first one until it is let go, and fails from the `fails_at`th on.
pub(crate) struct Watched {
    inner: Arc<dyn MetaStore>,
    syncs: AtomicUsize,
    fails_at: AtomicUsize,
    gate: Mutex<Option<std::sync::mpsc::Receiver<()>>>,
}

impl Watched {
    pub(crate) fn new(fails_at: usize, gate: Option<std::sync::mpsc::Receiver<()>>) -> Arc<Self> {
        Self::over(Arc::new(MemoryStore::default()), fails_at, gate)
    }

    fn over(inner: Arc<dyn MetaStore>, fails_at: usize, gate: Option<std::sync::mpsc::Receiver<()>>) -> Arc<Self> {
        Arc::new(Self {
            inner,
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
            return self.inner.sync();
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
async fn changes_that_wait_together_share_one_sync_and_are_durable_when_it_is_said() {
    for mut ground in grounds(5) {
        let (release, gate) = std::sync::mpsc::channel();
        let inner = ground.open().unwrap();
        let uses = Arc::strong_count(&inner);
        let store = Watched::over(Arc::clone(&inner), usize::MAX, Some(gate));
        let writer = Writer::new(Arc::clone(&store) as Arc<dyn MetaStore>, pool());
        let waiting: Vec<_> = (0..100).map(|index| submit(&writer, index)).collect();
        release.send(()).unwrap();
        for done in waiting {
            assert_eq!(done.await.unwrap(), Ok(()));
        }
        let syncs = store.syncs.load(Ordering::SeqCst);
        assert!(syncs <= 3, "{}: {syncs} syncs for 100 changes", ground.name());
        drop((writer, store));
        released(&inner, uses).await;
        ground.lose_power(inner, &mut Rng::new(5));
        assert_eq!(ground.open().unwrap().bounds().unwrap(), Some((0, 99)), "{}", ground.name());
    }
}

#[tokio::test]
async fn after_a_failed_sync_nothing_is_written_or_called_durable_any_more() {
    for ground in grounds(6) {
        let store = Watched::over(ground.open().unwrap(), 2, None);
        let writer = Writer::new(Arc::clone(&store) as Arc<dyn MetaStore>, pool());
        assert_eq!(submit(&writer, 0).await.unwrap(), Ok(()));
        let failed = submit(&writer, 1).await.unwrap().unwrap_err();
        assert!(failed.contains("'the-disk' cannot be synced"), "{failed}");
        let fenced = submit(&writer, 2).await.unwrap().unwrap_err();
        assert!(fenced.contains("takes no more writes"), "{fenced}");
        assert_eq!(store.bounds().unwrap(), Some((0, 1)), "{}", ground.name());
        assert_eq!(store.syncs.load(Ordering::SeqCst), 2, "a failed sync is not repeated");
    }
}

fn meta(index: u64) -> SnapshotMeta {
    SnapshotMeta {
        last_log_id: Some(LogId { index, ..entry(0, 0).log_id }),
        snapshot_id: format!("1-{index}"),
        ..SnapshotMeta::default()
    }
}

#[test]
fn the_newest_snapshot_that_can_be_read_is_the_one() {
    let real = tempfile::tempdir().unwrap();
    let folders = [Folder::real(real.path()), Folder::on(Arc::new(FaultDisk::new(1)), "/snapshots")];
    for folder in folders {
        let snapshots = Snapshots::open(folder.clone(), None).unwrap();
        assert_eq!(snapshots.load().unwrap(), None);
        for index in [3, 20, 100] {
            snapshots.save(&meta(index), format!("image {index}").as_bytes()).unwrap();
        }
        let newest = "00000000000000000100.snapshot";
        assert_eq!(folder.names().unwrap(), ["00000000000000000020.snapshot", newest]);
        assert_eq!(snapshots.load().unwrap(), Some((meta(100), b"image 100".to_vec())));

        let mut bytes = folder.read(newest, 1_000).unwrap().unwrap();
        let last = bytes.len() - 1;
        bytes[last] ^= 1;
        folder.replace(newest, &bytes).unwrap();
        assert_eq!(snapshots.load().unwrap(), Some((meta(20), b"image 20".to_vec())), "a damaged one is passed over");

        folder.mark("00000000000000000200.snapshot.tmp").unwrap();
        drop(Snapshots::open(folder.clone(), None).unwrap());
        assert_eq!(folder.names().unwrap().len(), 2, "a half-written one is removed");
    }
}

#[test]
fn a_snapshot_that_was_saved_survives_a_loss_of_power_and_one_that_was_not_hides_none() {
    let scenario = |disk: &FaultDisk| -> u64 {
        let mut saved = 0;
        let mut run = || -> Result<(), StoreError> {
            let snapshots = Snapshots::open(Folder::on(Arc::new(disk.clone()), "/snapshots"), None)?;
            for index in 1..=4 {
                snapshots.save(&meta(index), format!("image {index}").as_bytes())?;
                saved = index;
            }
            Ok(())
        };
        let _ = run();
        saved
    };
    let whole = FaultDisk::new(0);
    assert_eq!(scenario(&whole), 4);
    for call in 1..=whole.calls() {
        let disk = FaultDisk::new(call);
        disk.lose_power_at(call);
        let saved = scenario(&disk);
        disk.crash();
        let found = Snapshots::open(Folder::on(Arc::new(disk), "/snapshots"), None).unwrap().load().unwrap();
        let index = found.and_then(|(meta, _)| meta.last_log_id).map_or(0, |log_id| log_id.index);
        assert!(index == saved || index == saved + 1, "power lost at call {call}: {saved} saved, {index} found");
    }
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
