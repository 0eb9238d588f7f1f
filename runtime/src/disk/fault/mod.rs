//! A disk in memory that fails on request, and forgets on a crash what was not made durable. All that it decides comes
//! from a seed, so a run that found a fault can be run again.
//!
//! Names and contents are kept twice: as the running process sees them, and as they would be found after a power cut.
//! Changes wait in journals between the two until a sync moves them over; [`FaultDisk::crash`] lets a random first part
//! of each journal through, and tears the write it stops at.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;

use super::{DirEntry, Disk, DiskFile, DiskLock, FileId, FileStat, OpenMode, Space};

mod inode;
mod names;

pub use crate::random::Seeded as Rng;
use inode::Inode;
use names::{Change, Names, Node};

/// A kind of call, to say which one shall fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// [`Disk::open`].
    Open,
    /// [`DiskFile::read_at`].
    Read,
    /// [`DiskFile::write_at`].
    Write,
    /// [`DiskFile::set_len`].
    SetLen,
    /// [`DiskFile::sync`]; a failed one forgets what it should have made durable, as Linux does.
    Sync,
    /// [`Disk::sync_dir`].
    SyncDir,
    /// [`Disk::rename`].
    Rename,
    /// [`Disk::remove_file`] and [`Disk::remove_dir_all`].
    Remove,
    /// [`Disk::list`] and [`Disk::stat`].
    Look,
}

/// An order to fail.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Which calls.
    pub op: Op,
    /// Only for paths that contain this text; empty = all.
    pub path_contains: String,
    /// How many matching calls still succeed.
    pub skip: u32,
    /// How many then fail; `u32::MAX` = all.
    pub times: u32,
    /// With which error number of the operating system (5 = EIO, 28 = ENOSPC, 24 = EMFILE).
    pub errno: i32,
}

/// Changes what a read gives; tells whether it did.
type Garble = Box<dyn FnMut(&mut [u8], &mut Rng) -> bool + Send>;

/// An order to give wrong bytes.
struct Garbled {
    path_contains: String,
    times: u32,
    garble: Garble,
}

/// A disk in memory. Clones are the same disk.
#[derive(Clone)]
pub struct FaultDisk {
    world: Arc<Mutex<World>>,
}

struct World {
    rng: Rng,
    names: Names,
    durable_names: Names,
    journal: Vec<Change>,
    inodes: BTreeMap<u64, Inode>,
    next_inode: u64,
    /// Which life of the machine; handles of an earlier one are dead.
    life: u64,
    calls: u64,
    power_lost_at: Option<u64>,
    capacity: Option<u64>,
    faults: Vec<Fault>,
    garbled: Vec<Garbled>,
    locks: BTreeMap<PathBuf, String>,
    now_ms: i64,
}

impl FaultDisk {
    /// An empty disk.
    pub fn new(seed: u64) -> Self {
        let world = World {
            rng: Rng::new(seed),
            names: Names::default(),
            durable_names: Names::default(),
            journal: Vec::new(),
            inodes: BTreeMap::new(),
            next_inode: 0,
            life: 0,
            calls: 0,
            power_lost_at: None,
            capacity: None,
            faults: Vec::new(),
            garbled: Vec::new(),
            locks: BTreeMap::new(),
            now_ms: 0,
        };
        Self { world: Arc::new(Mutex::new(world)) }
    }

    /// Orders calls to fail.
    pub fn inject(&self, fault: Fault) {
        self.world.lock().faults.push(fault);
    }

    /// Whether a fault that was injected has yet to come.
    pub fn is_to_fail(&self) -> bool {
        self.world.lock().faults.iter().any(|fault| fault.times > 0)
    }

    /// Has reads of files whose paths contain `path_contains` changed by `garble` on their way, until that has done so `times`
    /// times, or the process dies. What is on the disk stays as it is.
    pub fn garble_reads(
        &self,
        path_contains: &str,
        times: u32,
        garble: impl FnMut(&mut [u8], &mut Rng) -> bool + Send + 'static,
    ) {
        let garbled = Garbled { path_contains: path_contains.to_owned(), times, garble: Box::new(garble) };
        self.world.lock().garbled.push(garbled);
    }

    /// Takes back all orders to fail.
    pub fn heal(&self) {
        let mut world = self.world.lock();
        world.faults.clear();
        world.garbled.clear();
    }

    /// Lets the volume have room for `bytes` in all (`None` = no limit).
    pub fn set_capacity(&self, bytes: Option<u64>) {
        self.world.lock().capacity = bytes;
    }

    /// Bytes in all files that have a name.
    pub fn used(&self) -> u64 {
        self.world.lock().used()
    }

    /// Sets the clock that stamps files.
    pub fn set_now_ms(&self, now_ms: i64) {
        self.world.lock().now_ms = now_ms;
    }

    /// How many calls were made so far.
    pub fn calls(&self) -> u64 {
        self.world.lock().calls
    }

    /// Lets the power fail at the call with this number (see [`FaultDisk::calls`]): it and all after it fail, until
    /// [`FaultDisk::crash`] starts the next life.
    pub fn lose_power_at(&self, call: u64) {
        self.world.lock().power_lost_at = Some(call);
    }

    /// Whether the power has failed.
    pub fn is_without_power(&self) -> bool {
        let world = self.world.lock();
        world.power_lost_at.is_some_and(|at| world.calls >= at)
    }

    /// A power cut: of what was not made durable, only a random first part is found afterwards. All handles and locks die.
    pub fn crash(&self) {
        let mut world = self.world.lock();
        let World { rng, journal, durable_names, inodes, .. } = &mut *world;
        let kept = rng.below(journal.len() as u64 + 1) as usize;
        for change in journal.drain(..).take(kept) {
            durable_names.apply(&change);
        }
        for inode in inodes.values_mut() {
            inode.crash(rng);
        }
        world.names = world.durable_names.clone();
        world.begin_life();
    }

    /// The death of the process alone: what was written stays, handles and locks die.
    pub fn kill(&self) {
        self.world.lock().begin_life();
    }

    /// Flips the bits of `mask` in one byte, as a decaying medium does.
    ///
    /// # Errors
    /// When there is no such byte.
    pub fn flip(&self, path: &Path, position: u64, mask: u8) -> io::Result<()> {
        let mut world = self.world.lock();
        let id = world.names.file(path)?;
        let inode = world.inodes.get_mut(&id).ok_or(io::ErrorKind::NotFound)?;
        inode.flip(position as usize, mask)
    }

    /// The content of a file as the process sees it.
    ///
    /// # Errors
    /// When there is no such file.
    pub fn content(&self, path: &Path) -> io::Result<Vec<u8>> {
        let world = self.world.lock();
        let id = world.names.file(path)?;
        Ok(world.inodes.get(&id).map(|inode| inode.current.clone()).unwrap_or_default())
    }
}

impl World {
    fn used(&self) -> u64 {
        self.names.files().filter_map(|id| self.inodes.get(&id)).map(|inode| inode.current.len() as u64).sum()
    }

    fn begin_life(&mut self) {
        self.life += 1;
        self.locks.clear();
        self.garbled.clear();
        self.power_lost_at = None;
        let named: std::collections::BTreeSet<u64> = self.names.files().chain(self.durable_names.files()).collect();
        self.inodes.retain(|id, _| named.contains(id));
    }

    /// Counts a call, and tells whether it is to fail.
    fn enter(&mut self, op: Op, path: &Path) -> io::Result<()> {
        self.calls += 1;
        if self.power_lost_at.is_some_and(|at| self.calls >= at) {
            return Err(io::Error::other("the power is off"));
        }
        for fault in &mut self.faults {
            if fault.op != op || fault.times == 0 || !path.to_string_lossy().contains(&fault.path_contains) {
                continue;
            }
            if fault.skip > 0 {
                fault.skip -= 1;
                continue;
            }
            if fault.times != u32::MAX {
                fault.times -= 1;
            }
            return Err(io::Error::from_raw_os_error(fault.errno));
        }
        Ok(())
    }

    /// Changes what was read from `path` as it was ordered.
    fn garble(&mut self, path: &Path, read: &mut [u8]) {
        let Self { garbled, rng, .. } = self;
        let order = garbled.iter_mut().find(|order| path.to_string_lossy().contains(&order.path_contains));
        if let Some(order) = order
            && (order.garble)(read, rng)
        {
            order.times = order.times.saturating_sub(1);
        }
        garbled.retain(|order| order.times > 0);
    }

    /// Makes an empty file; gives the number of its inode.
    fn make_file(&mut self, path: &Path) -> u64 {
        let id = self.next_inode;
        self.next_inode += 1;
        self.inodes.insert(id, Inode::new(self.now_ms));
        self.change(Change::Make(path.to_owned(), Node::File(id)));
        id
    }

    fn change(&mut self, change: Change) {
        self.names.apply(&change);
        self.journal.push(change);
    }
}

impl Disk for FaultDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        let mut world = self.world.lock();
        world.enter(Op::Open, path)?;
        let inode = if mode == OpenMode::CreateNew {
            world.names.check_free(path)?;
            world.make_file(path)
        } else {
            world.names.file(path)?
        };
        let life = world.life;
        Ok(Arc::new(FaultFile { world: Arc::clone(&self.world), inode, life, path: path.to_owned(), mode }))
    }

    fn stat(&self, path: &Path) -> io::Result<FileStat> {
        let mut world = self.world.lock();
        world.enter(Op::Look, path)?;
        let id = world.names.file(path)?;
        let inode = world.inodes.get(&id).ok_or(io::ErrorKind::NotFound)?;
        let id = FileId { device: 0, number: id };
        Ok(FileStat { len: inode.current.len() as u64, modified_ms: inode.modified_ms, id })
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<DirEntry>> {
        let mut world = self.world.lock();
        world.enter(Op::Look, dir)?;
        world.names.list(dir)
    }

    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        let mut missing: Vec<PathBuf> = Vec::new();
        for ancestor in dir.ancestors() {
            if ancestor.as_os_str().is_empty() || world.names.is_dir(ancestor) {
                break;
            }
            missing.push(ancestor.to_owned());
        }
        for path in missing.into_iter().rev() {
            world.enter(Op::Open, &path)?;
            world.change(Change::Make(path, Node::Dir));
        }
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        world.enter(Op::Rename, from)?;
        world.names.check_rename(from, to)?;
        world.change(Change::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove_file(&self, path: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        world.enter(Op::Remove, path)?;
        world.names.file(path)?;
        world.change(Change::Remove(path.to_owned()));
        Ok(())
    }

    fn remove_dir_all(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        world.enter(Op::Remove, dir)?;
        world.names.check_dir(dir)?;
        // A tree is not removed in one step: the files go first, each for itself.
        for path in world.names.below(dir) {
            world.change(Change::Remove(path));
        }
        world.change(Change::Remove(dir.to_owned()));
        Ok(())
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        let mut world = self.world.lock();
        world.enter(Op::SyncDir, dir)?;
        world.names.check_dir(dir)?;
        // As with a journalling file system, everything older than what was asked for becomes durable too.
        let World { journal, durable_names, .. } = &mut *world;
        for change in journal.drain(..) {
            durable_names.apply(&change);
        }
        Ok(())
    }

    fn space(&self, _dir: &Path) -> io::Result<Space> {
        let world = self.world.lock();
        let total = world.capacity.unwrap_or(1 << 40);
        Ok(Space { total, available: total.saturating_sub(world.used()) })
    }

    fn lock(&self, path: &Path, holder: &str) -> io::Result<DiskLock> {
        let mut world = self.world.lock();
        if let Some(other) = world.locks.get(path) {
            return Err(io::Error::new(io::ErrorKind::WouldBlock, other.clone()));
        }
        if world.names.check_free(path).is_ok() {
            world.make_file(path);
        }
        world.locks.insert(path.to_owned(), holder.to_owned());
        Ok(Box::new(HeldLock { world: Arc::clone(&self.world), path: path.to_owned(), life: world.life }))
    }
}

struct HeldLock {
    world: Arc<Mutex<World>>,
    path: PathBuf,
    life: u64,
}

impl Drop for HeldLock {
    fn drop(&mut self) {
        let mut world = self.world.lock();
        if world.life == self.life {
            world.locks.remove(&self.path);
        }
    }
}

struct FaultFile {
    world: Arc<Mutex<World>>,
    inode: u64,
    life: u64,
    path: PathBuf,
    mode: OpenMode,
}

impl FaultFile {
    fn with<T>(
        &self,
        op: Op,
        work: impl FnOnce(&mut World, &mut Inode, io::Result<()>) -> io::Result<T>,
    ) -> io::Result<T> {
        let mut world = self.world.lock();
        if world.life != self.life {
            return Err(io::Error::other("the handle is of a process that has died"));
        }
        let verdict = world.enter(op, &self.path);
        let mut inode = world.inodes.remove(&self.inode).ok_or_else(|| io::Error::other("the file is gone"))?;
        let result = work(&mut world, &mut inode, verdict);
        world.inodes.insert(self.inode, inode);
        result
    }

    fn check_writable(&self) -> io::Result<()> {
        if self.mode == OpenMode::Read { Err(io::ErrorKind::PermissionDenied.into()) } else { Ok(()) }
    }
}

impl DiskFile for FaultFile {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.with(Op::Read, |world, inode, verdict| {
            verdict?;
            let rest = inode.current.get(position as usize..).unwrap_or_default();
            let count = rest.len().min(buffer.len());
            buffer[..count].copy_from_slice(&rest[..count]);
            world.garble(&self.path, &mut buffer[..count]);
            Ok(count)
        })
    }

    /// All of it is in memory, unless the device is asked to fail.
    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.read_at(buffer, position).map_err(|_| io::ErrorKind::WouldBlock.into())
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.check_writable()?;
        self.with(Op::Write, |world, inode, verdict| {
            verdict?;
            let mut bytes: Vec<u8> = Vec::with_capacity(buffers.iter().map(|buffer| buffer.len()).sum());
            buffers.iter().for_each(|buffer| bytes.extend_from_slice(buffer));
            if let Some(capacity) = world.capacity {
                // The file is out of the map while it is worked on, so its own length is added.
                let room = capacity.saturating_sub(world.used() + inode.current.len() as u64);
                let overlap = (inode.current.len() as u64).saturating_sub(position);
                let taken = (room + overlap).min(bytes.len() as u64) as usize;
                if taken == 0 && !bytes.is_empty() {
                    return Err(io::Error::from_raw_os_error(ENOSPC));
                }
                bytes.truncate(taken);
            }
            let count = bytes.len();
            inode.write(position, bytes, world.now_ms);
            Ok(count)
        })
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        self.with(Op::SetLen, |world, inode, verdict| {
            verdict?;
            inode.set_len(len, world.now_ms);
            Ok(())
        })
    }

    fn len(&self) -> io::Result<u64> {
        self.with(Op::Look, |_, inode, verdict| {
            verdict?;
            Ok(inode.current.len() as u64)
        })
    }

    fn sync(&self) -> io::Result<()> {
        self.with(Op::Sync, |_, inode, verdict| {
            if verdict.is_err() {
                inode.forget_unsynced();
            } else {
                inode.sync();
            }
            verdict
        })
    }

    /// All of it is in memory.
    fn is_cached(&self, _position: u64, _length: u64) -> Option<bool> {
        Some(true)
    }

    fn as_file(&self) -> Option<&File> {
        None
    }
}

const ENOSPC: i32 = 28;
