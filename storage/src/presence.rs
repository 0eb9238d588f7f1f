//! Whether the data directory is still there. Files that are open can be written to after they were removed, and below a
//! mount point that lost its volume there is another directory: records would be acknowledged that nobody finds again.
//!
//! The lock file, which this process made or took when it opened the directory, stands for it: as long as the name leads
//! to that very file, nobody has removed the directory, put another in its place, unmounted it, or emptied it.

use std::io;
use std::path::{Path, PathBuf};

use taffrail_runtime::shutdown::Shutdown;

use crate::disk::{Disk, FileId};
use crate::lock::LOCK;

/// Knows the lock file of a data directory.
pub(crate) struct Presence {
    path: PathBuf,
    id: FileId,
    lost: Shutdown,
}

impl Presence {
    /// Remembers the lock file of `dir`, which has just been locked.
    pub(crate) fn new(disk: &dyn Disk, dir: &Path) -> io::Result<Self> {
        let path = dir.join(LOCK);
        let id = disk.stat(&path)?.id;
        Ok(Self { path, id, lost: Shutdown::new() })
    }

    /// Looks whether the lock file is still the same; tells what is wrong when this finds out that it is not. An error that
    /// says nothing about that, for instance of a disk that cannot be read, is left to those who read and write.
    pub(crate) fn look(&self, disk: &dyn Disk) -> Option<io::Error> {
        let what = match disk.stat(&self.path) {
            Ok(stat) if stat.id == self.id => return None,
            Ok(_) => "its lock file is another one now",
            Err(error) => match error.kind() {
                io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => "its lock file is gone",
                io::ErrorKind::StaleNetworkFileHandle => "its volume is gone",
                _ => return None,
            },
        };
        Some(io::Error::new(io::ErrorKind::NotFound, format!("{what}: it was removed, replaced or unmounted")))
    }

    /// Notes that the directory is gone, for all who wait.
    pub(crate) fn note_lost(&self) {
        self.lost.trigger();
    }

    /// Whether the directory is gone.
    pub(crate) fn is_lost(&self) -> bool {
        self.lost.is_triggered()
    }

    /// Waits until the directory is gone.
    pub(crate) async fn lost(&self) {
        self.lost.triggered().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::OpenMode;
    use crate::disk::fault::{Fault, FaultDisk, Op};
    use crate::testing::{DIR, batch, open_log, run, small};
    use crate::{AppendError, Maintenance};

    #[test]
    fn a_directory_that_goes_away_under_the_process_takes_no_more_records_and_is_not_written_to() {
        let moved = Path::new("/elsewhere");
        let removed = |disk: &FaultDisk| disk.remove_dir_all(Path::new(DIR)).unwrap();
        let replaced = |disk: &FaultDisk| {
            disk.rename(Path::new(DIR), moved).unwrap();
            disk.create_dir(Path::new(DIR)).unwrap();
            disk.open(&Path::new(DIR).join(LOCK), OpenMode::CreateNew).unwrap();
        };
        for takes_away in [&removed as &dyn Fn(&FaultDisk), &replaced] {
            let disk = FaultDisk::new(1);
            let (storage, log) = open_log(&disk, small(1 << 20));
            let mut maintenance = Maintenance::new(storage.clone());
            run(maintenance.round(0));
            log.append(&[batch(1, 1, 1)], 0, 0).unwrap();
            takes_away(&disk);
            run(maintenance.round(1_000));
            let reason = run(storage.lost());
            assert!(reason.contains(DIR) && reason.contains("lock file"), "{reason}");
            assert!(matches!(log.append(&[batch(1, 1, 1)], 0, 0), Err(AppendError::Fenced(_))));
            run(maintenance.round(100_000));
            run(storage.close());
            let left = disk.list(Path::new(DIR)).unwrap_or_default();
            assert!(left.iter().all(|entry| entry.name == LOCK), "nothing is put into what took its place: {left:?}");
        }
    }

    #[test]
    fn a_disk_that_cannot_tell_does_not_count_as_gone() {
        let disk = FaultDisk::new(1);
        let (storage, log) = open_log(&disk, small(1 << 20));
        let mut maintenance = Maintenance::new(storage.clone());
        disk.inject(Fault { op: Op::Look, path_contains: LOCK.into(), skip: 0, times: u32::MAX, errno: 5 });
        run(maintenance.round(0));
        log.append(&[batch(1, 1, 1)], 0, 0).unwrap();
        assert_eq!(storage.fenced(), None);
    }
}
