//! Room for the metadata on a volume that others fill.
//!
//! A database that has met a full disk takes no more writes, so it must not meet one. A file keeps some room back; it is
//! given up before a write when hardly any other is left. What then remains is for changes that free room or keep the
//! cluster going; those that only add are refused (see [`Reserve::is_used_up`]). Where others have taken that room too,
//! writes wait until there is some again, so that nothing needs a restart then.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Name of the file that holds the room.
const RESERVE: &str = "reserve";

/// How much room is kept back: eight segments of the database, far more than a start and some thousand changes need.
const RESERVE_BYTES: u64 = 4 << 20;

/// Room below which what was kept back is given up, and below which, without it, nothing is added.
const LOW_BYTES: u64 = 2 << 20;

/// Room that a write finds, besides its own bytes, or it waits: two segments of the database.
const FLOOR_BYTES: u64 = 1 << 20;

/// How often a write that waits looks for room.
const LOOK_EVERY: Duration = Duration::from_millis(250);

/// Room that must be left besides before room is kept back again.
const SPARE_BYTES: u64 = 16 << 20;

/// Free bytes on the volume of a folder, as an unprivileged process sees them.
type Available = fn(&Path) -> io::Result<u64>;

/// The kept room of a controller's folder.
#[derive(Debug)]
pub(crate) struct Reserve {
    folder: PathBuf,
    available: Available,
    is_kept: AtomicBool,
    is_used_up: AtomicBool,
    /// Whether nobody shall wait for room any more.
    is_closed: Mutex<bool>,
    closed: Condvar,
}

impl Reserve {
    /// The reserve of `folder`, ready for opening what else is in it.
    pub(crate) fn open(folder: &Path) -> Self {
        Self::over(folder, |folder| {
            let stat = rustix::fs::statvfs(folder)?;
            Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
        })
    }

    pub(crate) fn over(folder: &Path, available: Available) -> Self {
        let is_kept = fs::metadata(folder.join(RESERVE)).is_ok_and(|file| file.len() == RESERVE_BYTES);
        let reserve = Self {
            folder: folder.to_owned(),
            available,
            is_kept: AtomicBool::new(is_kept),
            is_used_up: AtomicBool::new(false),
            is_closed: Mutex::new(false),
            closed: Condvar::new(),
        };
        reserve.tend();
        reserve
    }

    /// Sees to it that a write of `bytes` does not meet a full disk: gives the kept room up if need be, and waits for room
    /// when others have filled the disk to its end. Called before each write, and blocks as one.
    pub(crate) fn make_room(&self, bytes: u64) {
        self.tend();
        let wanted = FLOOR_BYTES.saturating_add(bytes);
        let is_full = || (self.available)(&self.folder).is_ok_and(|available| available < wanted);
        let mut is_closed = self.is_closed.lock();
        let mut has_waited = false;
        while !*is_closed && is_full() {
            if !has_waited {
                has_waited = true;
                tracing::error!(folder = %self.folder.display(), "the disk is full: the metadata wait until there is room");
            }
            self.closed.wait_for(&mut is_closed, LOOK_EVERY);
            self.tend();
        }
        if has_waited && !*is_closed {
            tracing::info!(folder = %self.folder.display(), "the disk has room again for the metadata");
        }
    }

    /// Ends all waiting for room, because the controller stops.
    pub(crate) fn close(&self) {
        *self.is_closed.lock() = true;
        self.closed.notify_all();
    }

    /// Gives the kept room up or keeps it back again, as the volume has it.
    fn tend(&self) {
        // A volume that cannot tell is written to until it refuses.
        let Ok(available) = (self.available)(&self.folder) else { return };
        let is_kept = self.is_kept.load(Ordering::Relaxed);
        if available < LOW_BYTES && is_kept {
            self.give_up();
        } else if !is_kept && available >= RESERVE_BYTES + SPARE_BYTES {
            match self.fill() {
                Ok(()) => self.is_kept.store(true, Ordering::Relaxed),
                Err(error) => {
                    tracing::debug!(%error, "no room is kept back for the metadata");
                    self.give_up();
                }
            }
        }
        self.is_used_up.store(available < LOW_BYTES && !is_kept, Ordering::Relaxed);
    }

    /// Whether nothing that only adds should be written, because the kept room is in use and little is left of it.
    pub(crate) fn is_used_up(&self) -> bool {
        if self.is_used_up.load(Ordering::Relaxed) {
            // Room may be back, and no write may come that would notice.
            self.tend();
        }
        self.is_used_up.load(Ordering::Relaxed)
    }

    fn give_up(&self) {
        match fs::remove_file(self.folder.join(RESERVE)) {
            Ok(()) => {
                tracing::warn!(folder = %self.folder.display(), "room that was kept back for the metadata is used")
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => tracing::error!(%error, "room that was kept back for the metadata cannot be used"),
        }
        self.is_kept.store(false, Ordering::Relaxed);
    }

    fn fill(&self) -> io::Result<()> {
        let mut file = File::create(self.folder.join(RESERVE))?;
        match allocate(&file) {
            Err(error) if error.kind() == io::ErrorKind::Unsupported => {
                // Written, not only lengthened: a hole takes no room.
                let block = vec![0_u8; 1 << 20];
                (0..RESERVE_BYTES / block.len() as u64).try_for_each(|_| file.write_all(&block))
            }
            allocated => allocated,
        }?;
        // A crash on a disk that is full by then must not take the room away.
        file.sync_all()
    }
}

/// Takes the room without writing to it, where the file system can.
#[cfg(target_os = "linux")]
fn allocate(file: &File) -> io::Result<()> {
    Ok(rustix::fs::fallocate(file, rustix::fs::FallocateFlags::empty(), 0, RESERVE_BYTES)?)
}

/// Other systems have no such call that is everywhere the same.
#[cfg(not(target_os = "linux"))]
fn allocate(_file: &File) -> io::Result<()> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use taffrail_runtime::blocking::Pool;
    use taffrail_runtime::{task, time};

    use super::*;

    /// How long a test waits for what must happen.
    const SOON: Duration = Duration::from_secs(20);

    /// Reads the free bytes from a file, so that a test can say them.
    fn told(folder: &Path) -> io::Result<u64> {
        fs::read_to_string(folder.join("available"))?.parse().map_err(io::Error::other)
    }

    #[test]
    fn room_is_kept_given_up_when_the_disk_is_full_and_kept_again() {
        let folder = tempfile::tempdir().unwrap();
        let tell = |bytes: u64| fs::write(folder.path().join("available"), bytes.to_string()).unwrap();
        let kept = || fs::metadata(folder.path().join(RESERVE)).map_or(0, |file| file.len());
        tell(1 << 30);
        drop(Reserve::over(folder.path(), told));
        assert_eq!(kept(), RESERVE_BYTES);

        tell(LOW_BYTES - 1);
        let reserve = Reserve::over(folder.path(), told);
        assert_eq!(kept(), 0, "a start on a full disk has the room");
        assert!(!reserve.is_used_up());
        tell(LOW_BYTES + 1);
        reserve.tend();
        assert!(!reserve.is_used_up());
        assert_eq!(kept(), 0, "it is not kept back from those that may need it");
        tell(0);
        reserve.tend();
        assert!(reserve.is_used_up());

        tell(1 << 30);
        assert!(!reserve.is_used_up(), "room that is back counts without a write");
        assert_eq!(kept(), RESERVE_BYTES);
    }

    #[test]
    fn a_write_waits_for_room_that_others_have_taken_and_not_when_all_stops() {
        let folder = tempfile::tempdir().unwrap();
        let tell = |bytes: u64| fs::write(folder.path().join("available"), bytes.to_string()).unwrap();
        tell(0);
        let reserve = Arc::new(Reserve::over(folder.path(), told));
        let pool = Pool::new("reserve-test", 1, 4);
        let write = || {
            let (reserve, pool) = (Arc::clone(&reserve), pool.clone());
            async move { pool.run(move || reserve.make_room(100)).await.unwrap() }
        };
        task::block_on_current_thread(async {
            let mut waiting = std::pin::pin!(write());
            assert!(time::timeout(LOOK_EVERY * 2, &mut waiting).await.is_err(), "there is no room");
            tell(FLOOR_BYTES + 100);
            time::timeout(SOON, waiting).await.unwrap();

            tell(FLOOR_BYTES + 99);
            let mut waiting = std::pin::pin!(write());
            assert!(time::timeout(LOOK_EVERY, &mut waiting).await.is_err(), "there is not enough");
            reserve.close();
            time::timeout(SOON, waiting).await.unwrap();
        })
        .unwrap();
    }
}
