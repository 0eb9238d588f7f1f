//! One suite for all backends: what each must do, each on its own ground.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use taffrail_runtime::disk::Disk;
use taffrail_runtime::disk::fault::{FaultDisk, Rng};
use taffrail_runtime::disk::real::RealDisk;
use tempfile::TempDir;

use super::super::memory::MemoryStore;
use super::super::redb::RedbStore;
use super::super::sled::SledStore;
use super::super::{Mark, MetaStore, StoreError};

/// Where a redb database is kept in tests.
pub(super) const DATABASE: &str = "/controller/raft";

/// What a backend stands on, so that it can be opened again, after a loss of power too.
pub(super) trait Ground {
    /// What to call it.
    fn name(&self) -> &'static str;

    /// Opens the store; the one from before is closed, or dead since the power went.
    fn open(&self) -> Result<Arc<dyn MetaStore>, StoreError>;

    /// Takes the power away from `store`, which must be used no more.
    fn lose_power(&mut self, store: Arc<dyn MetaStore>, rng: &mut Rng);
}

/// Lives as long as the process.
#[derive(Default)]
struct Memory(Arc<MemoryStore>);

/// sled on the machine's disk. What a loss of power leaves is put together from its file as it was synced and as it is.
struct Sled {
    folder: TempDir,
    life: usize,
}

/// redb on a disk that forgets what was not synced, and tears what it was writing.
struct Redb(FaultDisk);

/// redb on the machine's disk, which only ever loses the process.
struct RedbOnFiles(TempDir);

/// Every backend on fresh ground.
pub(super) fn grounds(seed: u64) -> Vec<Box<dyn Ground>> {
    let folder = || tempfile::tempdir().unwrap();
    vec![
        Box::new(Memory::default()),
        Box::new(Sled { folder: folder(), life: 0 }),
        Box::new(redb_ground(seed)),
        Box::new(RedbOnFiles(folder())),
    ]
}

fn redb_ground(seed: u64) -> Redb {
    let disk = FaultDisk::new(seed);
    disk.create_dir(Path::new(DATABASE).parent().unwrap()).unwrap();
    disk.sync_dir(Path::new("/")).unwrap();
    Redb(disk)
}

impl Ground for Memory {
    fn name(&self) -> &'static str {
        "memory"
    }

    fn open(&self) -> Result<Arc<dyn MetaStore>, StoreError> {
        Ok(Arc::clone(&self.0) as Arc<dyn MetaStore>)
    }

    fn lose_power(&mut self, _store: Arc<dyn MetaStore>, _rng: &mut Rng) {}
}

impl Ground for Redb {
    fn name(&self) -> &'static str {
        "redb"
    }

    fn open(&self) -> Result<Arc<dyn MetaStore>, StoreError> {
        Ok(Arc::new(RedbStore::open(&self.0, Path::new(DATABASE))?))
    }

    fn lose_power(&mut self, store: Arc<dyn MetaStore>, _rng: &mut Rng) {
        self.0.crash();
        drop(store);
    }
}

impl Ground for RedbOnFiles {
    fn name(&self) -> &'static str {
        "redb on files"
    }

    fn open(&self) -> Result<Arc<dyn MetaStore>, StoreError> {
        Ok(Arc::new(RedbStore::open(&RealDisk::new(), &self.0.path().join("raft"))?))
    }

    fn lose_power(&mut self, store: Arc<dyn MetaStore>, _rng: &mut Rng) {
        drop(store);
    }
}

impl Sled {
    fn path(&self) -> PathBuf {
        self.folder.path().join(self.life.to_string())
    }
}

/// sled, with a copy of its file as the last sync left it.
struct Copied {
    store: SledStore,
    data: PathBuf,
    durable: PathBuf,
}

impl Copied {
    fn keep(&self) {
        std::fs::copy(&self.data, &self.durable).unwrap();
    }
}

impl MetaStore for Copied {
    fn append(&self, entries: &[(u64, Vec<u8>)]) -> Result<(), StoreError> {
        self.store.append(entries)
    }
    fn truncate(&self, index: u64) -> Result<(), StoreError> {
        self.store.truncate(index)
    }
    fn purge(&self, index: u64) -> Result<(), StoreError> {
        self.store.purge(index)
    }
    fn read(&self, first: u64, end: u64) -> Result<Vec<(u64, Vec<u8>)>, StoreError> {
        self.store.read(first, end)
    }
    fn bounds(&self) -> Result<Option<(u64, u64)>, StoreError> {
        self.store.bounds()
    }
    fn put(&self, mark: Mark, value: &[u8]) -> Result<(), StoreError> {
        self.store.put(mark, value)
    }
    fn get(&self, mark: Mark) -> Result<Option<Vec<u8>>, StoreError> {
        self.store.get(mark)
    }
    fn sync(&self) -> Result<(), StoreError> {
        self.store.sync()?;
        self.keep();
        Ok(())
    }
}

/// What a loss of power leaves of a file: of the blocks that were written since it was synced, any.
fn mix(durable: &[u8], current: &[u8], rng: &mut Rng) -> Vec<u8> {
    const BLOCK: usize = 4_096;
    let grown = current.len().saturating_sub(durable.len()) as u64;
    let len = current.len().min(durable.len()) + rng.below(grown + 1) as usize;
    let mut left = current[..len].to_vec();
    for (index, block) in left.chunks_mut(BLOCK).enumerate() {
        if rng.one_in(2) {
            let at = index * BLOCK;
            let old = &durable[at.min(durable.len())..(at + block.len()).min(durable.len())];
            block[..old.len()].copy_from_slice(old);
            block[old.len()..].fill(0);
        }
    }
    left
}

impl Ground for Sled {
    fn name(&self) -> &'static str {
        "sled"
    }

    fn open(&self) -> Result<Arc<dyn MetaStore>, StoreError> {
        let path = self.path();
        let (data, durable) = (path.join("db"), path.with_extension("durable"));
        let store = Copied { store: SledStore::open(&path)?, data, durable };
        store.keep();
        Ok(Arc::new(store))
    }

    /// The next life begins with what may be left of the files as they are now, without what closing would write.
    fn lose_power(&mut self, store: Arc<dyn MetaStore>, rng: &mut Rng) {
        let from = self.path();
        self.life += 1;
        copy(&from, &self.path());
        let read = |path: PathBuf| std::fs::read(path).unwrap();
        let left = mix(&read(from.with_extension("durable")), &read(from.join("db")), rng);
        std::fs::write(self.path().join("db"), left).unwrap();
        drop(store);
    }
}

/// Copies a folder with all that is in it.
pub(super) fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).unwrap();
        }
    }
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
    for ground in grounds(1) {
        println!("{}", ground.name());
        keeps_the_contract(&*ground.open().unwrap());
    }
}

#[test]
fn a_store_that_is_opened_again_has_what_was_synced() {
    let long = vec![7; 3_000_000];
    for ground in grounds(2) {
        let store = ground.open().unwrap();
        store.append(&[(0, b"a".to_vec()), (1, long.clone())]).unwrap();
        store.put(Mark::Vote, b"v").unwrap();
        store.sync().unwrap();
        drop(store);
        let store = ground.open().unwrap();
        assert_eq!(store.read(0, 9).unwrap(), [(0, b"a".to_vec()), (1, long.clone())], "{}", ground.name());
        assert_eq!(store.get(Mark::Vote).unwrap().as_deref(), Some(b"v".as_slice()), "{}", ground.name());
    }
}

/// All that a store holds.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Content {
    entries: Vec<(u64, Vec<u8>)>,
    vote: Option<Vec<u8>>,
}

impl Content {
    fn of(store: &dyn MetaStore) -> Self {
        Self { entries: store.read(0, u64::MAX).unwrap(), vote: store.get(Mark::Vote).unwrap() }
    }
}

/// A log that grows, is cut at both ends, and a vote; each life ends with a loss of power somewhere.
fn survives_losses_of_power(ground: &mut dyn Ground, rng: &mut Rng) {
    const LIVES: usize = 6;
    const STEPS: u64 = 24;
    let mut next: u64 = 0;
    let mut number: u64 = 0;
    for life in 0..LIVES {
        let store = ground.open().unwrap();
        // The contents since the last sync, the synced one first.
        let mut possible = vec![Content::of(&*store)];
        for _ in 0..rng.below(STEPS) {
            let first = possible.last().unwrap().entries.first().map_or(next, |(index, _)| *index);
            next = possible.last().unwrap().entries.last().map_or(next, |(index, _)| index + 1);
            number += 1;
            match rng.below(8) {
                0..=3 => {
                    let value = |_| number.to_string().repeat(1 + rng.below(40) as usize).into_bytes();
                    let values: Vec<_> = (0..3).map(value).collect();
                    store.append(&(next..).zip(values).collect::<Vec<_>>()).unwrap();
                }
                4 if next > first => store.truncate(first + rng.below(next - first)).unwrap(),
                5 if next > first => store.purge(first + rng.below(next - first)).unwrap(),
                6 => store.put(Mark::Vote, number.to_string().as_bytes()).unwrap(),
                _ => {
                    store.sync().unwrap();
                    possible.clear();
                }
            }
            possible.push(Content::of(&*store));
        }
        ground.lose_power(store, rng);
        let found = Content::of(&*ground.open().unwrap());
        assert!(possible.contains(&found), "{} in life {life}: {found:?}\nis none of {possible:?}", ground.name());
        next = found.entries.last().map_or(next, |(index, _)| index + 1);
    }
}

#[test]
fn what_was_synced_survives_a_loss_of_power_and_of_the_rest_a_first_part() {
    for seed in 0..12 {
        for mut ground in grounds(seed) {
            println!("{} with seed {seed}", ground.name());
            survives_losses_of_power(&mut *ground, &mut Rng::new(seed));
        }
    }
}

#[test]
fn redb_opens_wherever_the_power_was_lost_while_it_was_made_and_written() {
    let entry = |index: u64| (index, vec![index as u8; 5_000]);
    // Gives what was durable for sure.
    let scenario = |ground: &Redb| -> u64 {
        let mut synced = 0;
        let mut run = || -> Result<(), StoreError> {
            let store = ground.open()?;
            for index in 0..4 {
                store.append(&[entry(index)])?;
                store.sync()?;
                synced = index + 1;
            }
            store.purge(1)
        };
        let _ = run();
        synced
    };
    let whole = redb_ground(0);
    let before = whole.0.calls();
    assert_eq!(scenario(&whole), 4);
    let calls = whole.0.calls();
    assert!(calls > before + 20, "{calls} calls to the disk");
    for call in before + 1..=calls {
        let ground = redb_ground(call);
        ground.0.lose_power_at(call);
        let synced = scenario(&ground);
        ground.0.crash();
        let store = ground.open().unwrap_or_else(|error| panic!("power lost at call {call}: {error}"));
        let found = store.read(0, 9).unwrap();
        assert!(found.len() as u64 >= synced.saturating_sub(2), "power lost at call {call}: {synced} became {found:?}");
        assert!(found.iter().all(|(index, value)| entry(*index) == (*index, value.clone())));
    }
}

#[test]
fn what_sled_leaves_when_it_is_killed_over_a_snapshot_does_not_keep_it_from_opening() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("raft");
    drop(SledStore::open(&path).unwrap());
    let leftover = path.join("snap.0000000000000000.generating");
    std::fs::write(&leftover, b"half").unwrap();
    SledStore::open(&path).unwrap();
    assert!(!leftover.exists());
}
