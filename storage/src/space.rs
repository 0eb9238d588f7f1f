//! Stops appends while there is still some room on the volume, so that everything else goes on when the disk is full:
//! metadata, checkpoints, deleting, and the next start.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::disk::Disk;

/// Bytes that are appended between two looks at the volume.
const LOOK_EVERY_BYTES: u64 = 1 << 20;

/// Knows whether the volume of a data directory has room for appends.
pub(crate) struct SpaceWatch {
    dir: PathBuf,
    is_full: AtomicBool,
    since_look: AtomicU64,
}

impl SpaceWatch {
    /// A watch that looks before the first append.
    pub(crate) fn new(dir: &Path) -> Self {
        Self { dir: dir.to_owned(), is_full: AtomicBool::new(false), since_look: AtomicU64::new(LOOK_EVERY_BYTES) }
    }

    /// Has the volume looked at before the next append: a write of somebody has found it full.
    pub(crate) fn look_again(&self) {
        self.since_look.store(LOOK_EVERY_BYTES, Ordering::Relaxed);
    }

    /// Whether `bytes` may be appended. While they may not, every call looks again, so room that comes back counts at once.
    pub(crate) fn admits(&self, disk: &dyn Disk, bytes: u64) -> bool {
        let since_look = self.since_look.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes);
        let was_full = self.is_full.load(Ordering::Relaxed);
        if since_look < LOOK_EVERY_BYTES && !was_full {
            return true;
        }
        self.since_look.store(0, Ordering::Relaxed);
        // A disk that cannot tell is asked by writing to it.
        let is_full = disk.space(&self.dir).is_ok_and(|space| space.available < space.floor().saturating_add(bytes));
        if self.is_full.swap(is_full, Ordering::Relaxed) != is_full {
            if is_full {
                tracing::warn!(dir = %self.dir.display(), "the disk is full: appends are refused until there is room");
            } else {
                tracing::info!(dir = %self.dir.display(), "the disk has room again: appends are taken");
            }
        }
        !is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;

    #[test]
    fn appends_leave_the_floor_free_and_go_on_when_there_is_room() {
        let disk = FaultDisk::new(1);
        let watch = SpaceWatch::new(Path::new("/d"));
        disk.set_capacity(Some(64 << 20));
        assert!(watch.admits(&disk, 56 << 20), "an eighth of the volume is left");
        assert!(!watch.admits(&disk, (56 << 20) + 1));
        assert!(watch.admits(&disk, 100), "the refused bytes were not written");
        disk.set_capacity(Some(0));
        assert!(watch.admits(&disk, 100), "the volume is not asked for every append");
        assert!(!watch.admits(&disk, LOOK_EVERY_BYTES));
        assert!(!watch.admits(&disk, 1));
        disk.set_capacity(None);
        assert!(watch.admits(&disk, 1));
        disk.set_capacity(Some(0));
        assert!(watch.admits(&disk, 1));
        watch.look_again();
        assert!(!watch.admits(&disk, 1), "somebody else has taken all the room");
    }
}
