//! Open files, bounded for the whole process.
//!
//! A partition needs no open file to exist: files are opened when they are first read or written, and the ones that were
//! not used lately are closed when there are too many (second chance). Whoever holds a handle keeps it as long as needed.
//! Closing a file with changes that are not yet durable loses nothing: the kernel keeps both the pages and an error of
//! writing them back, which the next sync of that file reports.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::disk::{Disk, DiskFile, OpenMode};
use crate::error::{is_out_of_files, is_unwritable};

/// Fewest files that are kept open, whatever is asked.
const OPEN_MIN: usize = 8;

/// A place for one open file.
#[derive(Default)]
pub(crate) struct Slot {
    file: Mutex<Option<Arc<dyn DiskFile>>>,
    used: AtomicBool,
}

impl Slot {
    /// Whether the file is open.
    pub(crate) fn is_open(&self) -> bool {
        self.file.lock().is_some()
    }

    /// The file, if it is open.
    pub(crate) fn opened(&self) -> Option<Arc<dyn DiskFile>> {
        let file = self.file.lock();
        self.used.store(true, Ordering::Relaxed);
        file.clone()
    }

    /// Closes the file, for those that do not hold it.
    pub(crate) fn close(&self) {
        *self.file.lock() = None;
    }
}

/// Something that has files with slots.
pub(crate) trait Slots: Send + Sync {
    /// The slot of the file with this number.
    fn slot(&self, number: usize) -> &Slot;
}

/// All open files of the storage.
pub(crate) struct Handles {
    disk: Arc<dyn Disk>,
    kept_max: usize,
    open: Arc<AtomicUsize>,
    /// Files in slots, in the order in which they are looked at for closing.
    clock: Mutex<VecDeque<(Weak<dyn Slots>, usize)>>,
}

impl Handles {
    pub(crate) fn new(disk: Arc<dyn Disk>, kept_max: usize) -> Self {
        Self { disk, kept_max: kept_max.max(OPEN_MIN), open: Arc::default(), clock: Mutex::default() }
    }

    /// Files that are open now, those that readers still hold included.
    pub(crate) fn open_count(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// The open file of a slot; opens it if needed.
    pub(crate) fn get<O: Slots + 'static>(
        &self,
        owner: &Arc<O>,
        number: usize,
        path: impl FnOnce() -> PathBuf,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let slot = owner.slot(number);
        let mut file = slot.file.lock();
        slot.used.store(true, Ordering::Relaxed);
        if let Some(file) = &*file {
            return Ok(Arc::clone(file));
        }
        let path = path();
        let opened = match self.open(&path, OpenMode::Write, None) {
            // What may not be written to can still be read. It is not kept, so that writing is tried again.
            Err(error) if is_unwritable(&error) => return self.open(&path, OpenMode::Read, Some(error.kind())),
            opened => opened?,
        };
        *file = Some(Arc::clone(&opened));
        drop(file);
        self.note(owner, number);
        Ok(opened)
    }

    /// Creates the file of a slot, and keeps it open.
    pub(crate) fn create<O: Slots + 'static>(
        &self,
        owner: &Arc<O>,
        number: usize,
        path: &Path,
    ) -> io::Result<Arc<dyn DiskFile>> {
        let file = self.open(path, OpenMode::CreateNew, None)?;
        let slot = owner.slot(number);
        *slot.file.lock() = Some(Arc::clone(&file));
        slot.used.store(true, Ordering::Relaxed);
        self.note(owner, number);
        Ok(file)
    }

    /// Opens a file; with a `refusal`, every write gets that as its error. If the process has too many open, the ones that
    /// nobody uses now are closed, and it is tried again.
    fn open(&self, path: &Path, mode: OpenMode, refusal: Option<io::ErrorKind>) -> io::Result<Arc<dyn DiskFile>> {
        let file = match self.disk.open(path, mode) {
            Err(error) if is_out_of_files(&error) => {
                tracing::warn!(file = %path.display(), open = self.open_count(), "too many files are open; some are closed");
                self.shrink(0);
                self.disk.open(path, mode)?
            }
            opened => opened?,
        };
        // Shards look into these files, and must not wait for memory; whoever walks through one reads ahead by itself.
        file.disable_read_ahead();
        self.open.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Counted { file, open: Arc::clone(&self.open), refusal }))
    }

    /// Notes a file that was put into its slot, and closes others if there are too many.
    fn note<O: Slots + 'static>(&self, owner: &Arc<O>, number: usize) {
        let weak: Weak<dyn Slots> = Arc::downgrade(owner) as Weak<dyn Slots>;
        self.clock.lock().push_back((weak, number));
        self.shrink(self.kept_max);
    }

    /// Closes files until no more than `kept_max` are kept, as far as others are not worked on.
    fn shrink(&self, kept_max: usize) {
        let mut clock = self.clock.lock();
        // Twice around is enough: the first time takes the second chance away from every file.
        let mut looks = clock.len() * 2;
        while clock.len() > kept_max && looks > 0 {
            looks -= 1;
            let Some((weak, number)) = clock.pop_front() else { break };
            let Some(owner) = weak.upgrade() else { continue };
            let slot = owner.slot(number);
            // A slot that someone works on right now is in use.
            let Some(mut file) = slot.file.try_lock() else {
                clock.push_back((weak, number));
                continue;
            };
            if file.is_some() && slot.used.swap(false, Ordering::Relaxed) {
                drop(file);
                clock.push_back((weak, number));
            } else {
                *file = None;
            }
        }
    }
}

/// An open file that counts as one until the last holder drops it.
struct Counted {
    file: Arc<dyn DiskFile>,
    open: Arc<AtomicUsize>,
    /// Why it may not be written to, if so.
    refusal: Option<io::ErrorKind>,
}

impl Counted {
    fn check_writable(&self) -> io::Result<()> {
        self.refusal.map_or(Ok(()), |kind| Err(kind.into()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl DiskFile for Counted {
    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_at(buffer, position)
    }

    fn read_cached_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.file.read_cached_at(buffer, position)
    }

    fn write_at(&self, buffers: &[IoSlice<'_>], position: u64) -> io::Result<usize> {
        self.check_writable()?;
        self.file.write_at(buffers, position)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.check_writable()?;
        self.file.set_len(len)
    }

    fn allocate(&self, len: u64) -> io::Result<()> {
        self.file.allocate(len)
    }

    fn len(&self) -> io::Result<u64> {
        self.file.len()
    }

    fn sync(&self) -> io::Result<()> {
        self.file.sync()
    }

    fn is_cached(&self, position: u64, length: u64) -> Option<bool> {
        self.file.is_cached(position, length)
    }

    fn disable_read_ahead(&self) {
        self.file.disable_read_ahead();
    }

    fn prefetch(&self, position: u64, length: u64) {
        self.file.prefetch(position, length);
    }

    fn as_file(&self) -> Option<&File> {
        self.file.as_file()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::{Fault, FaultDisk, Op};

    #[derive(Default)]
    struct Owner([Slot; 1]);

    impl Slots for Owner {
        fn slot(&self, number: usize) -> &Slot {
            &self.0[number]
        }
    }

    #[test]
    fn no_more_files_are_open_than_allowed_and_each_can_be_opened_again() {
        let handles = Handles::new(Arc::new(FaultDisk::new(1)), 10);
        let owners: Vec<_> = (0..100).map(|_| Arc::new(Owner::default())).collect();
        let path = |n: usize| PathBuf::from(format!("/{n}"));
        for (n, owner) in owners.iter().enumerate() {
            handles.create(owner, 0, &path(n)).unwrap();
            assert!(handles.open_count() <= 10, "{} are open", handles.open_count());
        }
        for (n, owner) in owners.iter().enumerate().chain(owners.iter().enumerate().rev()) {
            assert_eq!(handles.get(owner, 0, || path(n)).unwrap().len().unwrap(), 0);
            assert!(handles.open_count() <= 10, "{} are open", handles.open_count());
        }
        let held = handles.get(&owners[0], 0, || path(0)).unwrap();
        drop(owners);
        assert_eq!(handles.open_count(), 1, "only what a reader holds stays open");
        assert_eq!(held.len().unwrap(), 0);
    }

    #[test]
    fn when_the_process_has_too_many_files_open_others_are_closed_for_the_next() {
        let disk = FaultDisk::new(1);
        let handles = Handles::new(Arc::new(disk.clone()), 100);
        let owners: Vec<_> = (0..20).map(|_| Arc::new(Owner::default())).collect();
        for (n, owner) in owners.iter().enumerate() {
            handles.create(owner, 0, &PathBuf::from(format!("/{n}"))).unwrap();
        }
        disk.inject(Fault { op: Op::Open, path_contains: "one-more".into(), skip: 0, times: 1, errno: 24 });
        let more = Arc::new(Owner::default());
        handles.create(&more, 0, Path::new("/one-more")).unwrap();
        assert_eq!(handles.open_count(), 1);
    }

    #[test]
    fn a_file_that_may_not_be_written_to_is_read_and_written_to_again_later() {
        for (errno, kind) in [(13, io::ErrorKind::PermissionDenied), (30, io::ErrorKind::ReadOnlyFilesystem)] {
            let disk = FaultDisk::new(1);
            let handles = Handles::new(Arc::new(disk.clone()), 10);
            let owner = Arc::new(Owner::default());
            let get = || handles.get(&owner, 0, || PathBuf::from("/a")).unwrap();
            handles.create(&owner, 0, Path::new("/a")).unwrap().write_at(&[IoSlice::new(b"x")], 0).unwrap();
            owner.slot(0).close();
            // Opening for writing fails, and then, for reading, does not.
            disk.inject(Fault { op: Op::Open, path_contains: "a".into(), skip: 0, times: 1, errno });
            let readable = get();
            assert_eq!(readable.read_at(&mut [0; 4], 0).unwrap(), 1);
            assert_eq!(readable.write_at(&[IoSlice::new(b"y")], 0).unwrap_err().kind(), kind);
            assert_eq!(readable.set_len(0).unwrap_err().kind(), kind);
            get().write_at(&[IoSlice::new(b"y")], 0).unwrap();
        }
    }

    #[test]
    fn a_file_that_is_used_all_the_time_stays_open() {
        let handles = Handles::new(Arc::new(FaultDisk::new(1)), 10);
        let busy = Arc::new(Owner::default());
        handles.create(&busy, 0, Path::new("/busy")).unwrap();
        for n in 0..100 {
            let owner = Arc::new(Owner::default());
            handles.create(&owner, 0, &PathBuf::from(format!("/{n}"))).unwrap();
            handles.get(&busy, 0, || panic!("it was closed after {n} others")).unwrap();
        }
    }
}
