//! Room that is kept back on the volume, so that a full disk does not keep from being written what frees it: the floor of
//! `DeleteRecords`, checkpoints, the mark of a clean stop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{self, Disk, OpenMode};
use crate::error::is_full;
use crate::space::SpaceWatch;

/// Name of the file that holds the room.
const RESERVE: &str = "taffrail-reserve";

/// How much room is kept back: a hundred times what a thousand partitions need in a checkpoint.
const RESERVE_BYTES: u64 = 4 << 20;

/// Room that must be left on the volume besides, before room is kept back again.
const SPARE_BYTES: u64 = 16 << 20;

/// The kept room of a data directory.
pub(crate) struct Reserve {
    path: PathBuf,
    /// Keeps appends from taking the room that is given free.
    space: Arc<SpaceWatch>,
}

impl Reserve {
    pub(crate) fn new(dir: &Path, space: Arc<SpaceWatch>) -> Self {
        Self { path: dir.join(RESERVE), space }
    }

    /// Does `work`; if the disk is full, gives the kept room free and does it once more.
    pub(crate) fn with_room<T>(&self, disk: &dyn Disk, mut work: impl FnMut() -> io::Result<T>) -> io::Result<T> {
        match work() {
            Err(error) if is_full(&error) && disk.remove_file(&self.path).is_ok() => {
                self.space.look_again();
                tracing::warn!("the disk is full; the room that was kept back is used for a checkpoint");
                work()
            }
            other => other,
        }
    }

    /// Keeps room back, if it is not kept yet and the volume has enough. Failing is no harm.
    pub(crate) fn fill(&self, disk: &dyn Disk) {
        if disk.stat(&self.path).is_ok_and(|stat| stat.len == RESERVE_BYTES) {
            return;
        }
        let Some(dir) = self.path.parent() else { return };
        if disk.space(dir).map_or(true, |space| space.available < RESERVE_BYTES + SPARE_BYTES) {
            return;
        }
        if let Err(error) = self.write(disk) {
            tracing::debug!(%error, "no room is kept back");
            // A part of it is of no use.
            let _ = disk.remove_file(&self.path);
        }
    }

    fn write(&self, disk: &dyn Disk) -> io::Result<()> {
        disk::remove_if_exists(disk, &self.path)?;
        let file = disk.open(&self.path, OpenMode::CreateNew)?;
        file.allocate(RESERVE_BYTES)?;
        // A crash on a disk that is full by then must not take the room away.
        file.sync()
    }
}
