//! A checkpoint file of offsets that is kept in memory and written as a whole, by many callers at once.

use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;

use parking_lot::Mutex;
use taffrail_core::ids::{Offset, TopicPartition};

use crate::checkpoint::{self, CheckpointError};
use crate::disk::Disk;
use crate::reserve::Reserve;

/// One of the checkpoint files in the data directory.
pub(crate) struct OffsetFile {
    path: PathBuf,
    content: Mutex<Content>,
    /// Which version of the content is on disk. Held while it is written, so that callers that come meanwhile wait, and
    /// mostly find their change written by the one before them.
    written: Mutex<u64>,
}

struct Content {
    offsets: BTreeMap<TopicPartition, Offset>,
    version: u64,
}

impl OffsetFile {
    /// Reads the file.
    pub(crate) fn open(disk: &dyn Disk, path: PathBuf) -> Result<Self, CheckpointError> {
        let offsets = checkpoint::read_offsets(disk, &path)?;
        Ok(Self { path, content: Mutex::new(Content { offsets, version: 0 }), written: Mutex::new(0) })
    }

    /// An empty file, for when the one there cannot be used.
    pub(crate) fn empty(path: PathBuf) -> Self {
        let content = Content { offsets: BTreeMap::new(), version: 0 };
        Self { path, content: Mutex::new(content), written: Mutex::new(0) }
    }

    /// The offset of a partition.
    pub(crate) fn get(&self, partition: &TopicPartition) -> Option<Offset> {
        self.content.lock().offsets.get(partition).copied()
    }

    /// All partitions that have an offset.
    pub(crate) fn partitions(&self) -> Vec<TopicPartition> {
        self.content.lock().offsets.keys().cloned().collect()
    }

    /// Changes the content in memory; tells whether anything changed.
    pub(crate) fn change(&self, change: impl FnOnce(&mut BTreeMap<TopicPartition, Offset>) -> bool) -> bool {
        let mut content = self.content.lock();
        let changed = change(&mut content.offsets);
        content.version += u64::from(changed);
        changed
    }

    /// Sets the offset of a partition in memory.
    pub(crate) fn set(&self, partition: &TopicPartition, offset: Offset) -> bool {
        self.change(|offsets| offsets.insert(partition.clone(), offset) != Some(offset))
    }

    /// Removes a partition in memory.
    pub(crate) fn remove(&self, partition: &TopicPartition) -> bool {
        self.change(|offsets| offsets.remove(partition).is_some())
    }

    /// Makes everything that was changed before this call durable. Waits for the disk.
    pub(crate) fn write(&self, disk: &dyn Disk, reserve: &Reserve) -> io::Result<()> {
        let wanted = self.content.lock().version;
        let mut written = self.written.lock();
        if *written >= wanted {
            return Ok(());
        }
        let (offsets, version) = {
            let content = self.content.lock();
            (content.offsets.clone(), content.version)
        };
        reserve.with_room(disk, || {
            checkpoint::write_offsets(disk, &self.path, offsets.iter().map(|(partition, offset)| (partition, *offset)))
        })?;
        *written = version;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;

    use super::*;
    use crate::disk::OpenMode;
    use crate::disk::fault::FaultDisk;
    use crate::space::SpaceWatch;

    fn reserve() -> (Reserve, Arc<SpaceWatch>) {
        let space = Arc::new(SpaceWatch::new(Path::new("/d")));
        (Reserve::new(Path::new("/d"), Arc::clone(&space)), space)
    }

    #[test]
    fn changes_are_durable_after_a_write_and_only_then() {
        let disk = FaultDisk::new(1);
        disk.create_dir(Path::new("/d")).unwrap();
        disk.sync_dir(Path::new("/")).unwrap();
        let (reserve, _) = reserve();
        let path = PathBuf::from("/d/c");
        let partition = TopicPartition::new("t", 1);
        let file = OffsetFile::open(&disk, path.clone()).unwrap();
        assert!(file.set(&partition, 7));
        assert!(!file.set(&partition, 7));
        file.write(&disk, &reserve).unwrap();
        file.set(&partition, 9);
        disk.crash();
        assert_eq!(OffsetFile::open(&disk, path).unwrap().get(&partition), Some(7));
    }

    #[test]
    fn a_full_disk_does_not_keep_a_checkpoint_from_being_written() {
        let disk = FaultDisk::new(1);
        disk.create_dir(Path::new("/d")).unwrap();
        let (reserve, space) = reserve();
        reserve.fill(&disk);
        let others = disk.open(Path::new("/d/others"), OpenMode::CreateNew).unwrap();
        others.allocate(64 << 20).unwrap();
        assert!(space.admits(&disk, 1));
        let file = OffsetFile::open(&disk, PathBuf::from("/d/c")).unwrap();
        disk.set_capacity(Some(disk.used()));
        file.set(&TopicPartition::new("t", 1), 7);
        file.write(&disk, &reserve).unwrap();
        assert!(!disk.content(Path::new("/d/c")).unwrap().is_empty());
        assert!(!space.admits(&disk, 1), "the room that was given free is not for appends");
    }
}
