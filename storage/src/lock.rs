//! The lock on a data directory: two processes on one directory would destroy it, so the second is refused by name.

use std::io;
use std::path::Path;

use crate::disk::{Disk, DiskLock};

/// Name of the lock file.
pub(crate) const LOCK: &str = "LOCK";

/// Why a data directory cannot be locked.
#[derive(Debug, thiserror::Error)]
pub enum LockError {
    /// Someone else has it.
    #[error("the data directory {dir} is in use by another process{holder}")]
    InUse {
        /// Which directory.
        dir: String,
        /// Who has it, if known: " (pid 123)".
        holder: String,
    },
    /// The disk refused.
    #[error("the data directory {dir} cannot be locked: {source}")]
    Io {
        /// Which directory.
        dir: String,
        /// What the disk said.
        source: io::Error,
    },
}

/// Locks a data directory until the lock is dropped or the process ends.
///
/// # Errors
/// [`LockError::InUse`] when another process has it.
pub(crate) fn lock(disk: &dyn Disk, dir: &Path) -> Result<DiskLock, LockError> {
    let holder = format!("{}\n", std::process::id());
    disk.lock(&dir.join(LOCK), &holder).map_err(|source| {
        let dir = dir.display().to_string();
        if source.kind() != io::ErrorKind::WouldBlock {
            return LockError::Io { dir, source };
        }
        // The text in the file is shown only if it is a number, as ours is.
        let holder = source.to_string().trim().parse::<u32>().map(|pid| format!(" (pid {pid})")).unwrap_or_default();
        LockError::InUse { dir, holder }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;
    use crate::disk::real::RealDisk;

    #[test]
    fn the_second_one_is_refused_and_told_who_has_the_directory() {
        let folder = tempfile::tempdir().unwrap();
        let disks: [(&dyn Disk, &Path); 2] = [(&RealDisk::new(), folder.path()), (&FaultDisk::new(1), Path::new("/"))];
        for (disk, dir) in disks {
            let held = lock(disk, dir).unwrap();
            let refused = lock(disk, dir).err().unwrap().to_string();
            assert!(refused.contains(&format!("(pid {})", std::process::id())), "{refused}");
            assert!(refused.contains(&dir.display().to_string()), "{refused}");
            drop(held);
            assert!(lock(disk, dir).is_ok());
        }
    }
}
