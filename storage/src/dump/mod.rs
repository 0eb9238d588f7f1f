//! What the files of a partition say, entry by entry, for people who want to know what is on a disk and what is wrong with it.
//! Nothing is changed, and no file has to be whole: what cannot be read is an entry of its own, with its place.

mod batches;
mod indexes;
#[cfg(test)]
mod tests;

use std::io;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use taffrail_core::ids::{LeaderEpoch, Offset, TopicId};
use taffrail_core::record::{BatchHeader, BatchRef};

use crate::checkpoint;
use crate::disk::{self, Disk, OpenMode};
use crate::identity;
use crate::index::AbortedTransaction;
use crate::names::{FileKind, LEADER_EPOCHS, PARTITION_METADATA, parse_segment_file};
use crate::snapshot::{self, ProducerEntry};

/// Largest snapshot that is read.
const SNAPSHOT_BYTES_MAX: u64 = 512 << 20;

/// What a file of a partition is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DumpedFile {
    /// A file of a segment, or a snapshot: the offset in its name, and its kind.
    Segment(Offset, FileKind),
    /// Leader epochs.
    LeaderEpochs,
    /// Identity of the topic.
    Topic,
}

impl DumpedFile {
    /// What a file is by its name, also when it waits to be removed or to take the place of others; `None` if it is none of
    /// a partition's.
    pub fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?;
        match name {
            LEADER_EPOCHS => Some(Self::LeaderEpochs),
            PARTITION_METADATA => Some(Self::Topic),
            _ => parse_segment_file(name).map(|(base, kind, _)| Self::Segment(base, kind)),
        }
    }

    /// What is called so in reports: the ending of its name, or the whole of it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Segment(_, kind) => kind.extension(),
            Self::LeaderEpochs => LEADER_EPOCHS,
            Self::Topic => PARTITION_METADATA,
        }
    }
}

/// An entry of a file.
#[derive(Clone, Debug)]
pub enum Dumped<'a> {
    /// A sound batch.
    Batch {
        /// Where it begins in the file.
        position: u64,
        /// Its header.
        header: BatchHeader,
        /// All of it, if its records were asked for.
        batch: Option<BatchRef<'a>>,
    },
    /// An entry of `.index`.
    Position {
        /// Last offset of a batch.
        offset: Offset,
        /// Where the batch begins in the `.log` file.
        position: u32,
    },
    /// An entry of `.timeindex`.
    Time {
        /// Largest timestamp up to here.
        timestamp: i64,
        /// Last offset of the batch that has it.
        offset: Offset,
    },
    /// An entry of `.txnindex`.
    Aborted(AbortedTransaction),
    /// What a snapshot says of a producer.
    Producer(ProducerEntry),
    /// An epoch, and the first offset that was written in it.
    Epoch(LeaderEpoch, Offset),
    /// Whose partition it is.
    Topic(TopicId),
    /// Something that is wrong.
    Damage {
        /// Where in the file.
        position: u64,
        /// What.
        what: String,
    },
}

/// Takes entries, until it breaks off.
pub type Visit<'a> = dyn FnMut(Dumped<'_>) -> ControlFlow<()> + 'a;

/// The files of a partition's folder, in the order of their names.
///
/// # Errors
/// What the disk says.
pub fn files(disk: &dyn Disk, dir: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = disk.list(dir)?.into_iter().filter(|entry| !entry.is_dir);
    let mut files: Vec<PathBuf> = entries.map(|entry| dir.join(entry.name)).collect();
    files.retain(|path| DumpedFile::of(path).is_some());
    files.sort_unstable();
    Ok(files)
}

/// Shows the entries of `path`, which is what `file` says; with `with_records`, whole batches.
///
/// # Errors
/// What the disk says.
pub fn dump(
    disk: &dyn Disk,
    path: &Path,
    file: DumpedFile,
    with_records: bool,
    visit: &mut Visit<'_>,
) -> io::Result<()> {
    match file {
        DumpedFile::Segment(_, FileKind::Log) => {
            batches::dump(&*disk.open(path, OpenMode::Read)?, with_records, visit)?;
        }
        DumpedFile::Segment(base, FileKind::Index) => {
            let log = disk.open(&path.with_extension(FileKind::Log.extension()), OpenMode::Read).ok();
            indexes::positions(&*disk.open(path, OpenMode::Read)?, base, log.as_deref(), visit)?;
        }
        DumpedFile::Segment(base, FileKind::TimeIndex) => {
            indexes::times(&*disk.open(path, OpenMode::Read)?, base, visit)?;
        }
        DumpedFile::Segment(_, FileKind::TxnIndex) => {
            let entries = crate::index::read_aborted(&*disk.open(path, OpenMode::Read)?);
            show(entries.map(|all| all.into_iter().map(Dumped::Aborted).collect()), visit)?;
        }
        DumpedFile::Segment(_, FileKind::Snapshot) => {
            let bytes = disk::read_file(disk, path, SNAPSHOT_BYTES_MAX)?;
            let entries = snapshot::decode(&bytes).map_err(invalid);
            show(entries.map(|all| all.into_iter().map(Dumped::Producer).collect()), visit)?;
        }
        DumpedFile::LeaderEpochs => {
            disk.stat(path)?;
            let entries = checkpoint::read_epochs(disk, path).map_err(invalid);
            show(entries.map(|all| all.into_iter().map(|(epoch, from)| Dumped::Epoch(epoch, from)).collect()), visit)?;
        }
        DumpedFile::Topic => {
            let dir = path.parent().unwrap_or(Path::new("."));
            disk.stat(path)?;
            let id = identity::read_topic_id(disk, dir).map_err(invalid);
            show(id.map(|id| id.into_iter().map(Dumped::Topic).collect()), visit)?;
        }
    }
    Ok(())
}

fn invalid(error: impl std::error::Error + Send + Sync + 'static) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}

/// Shows entries of a file that is read as a whole, or what is wrong with it.
fn show(entries: io::Result<Vec<Dumped<'_>>>, visit: &mut Visit<'_>) -> io::Result<()> {
    match entries {
        Ok(entries) => {
            let _ = entries.into_iter().try_for_each(visit);
            Ok(())
        }
        Err(error) if error.kind() == io::ErrorKind::InvalidData => {
            let _ = visit(Dumped::Damage { position: 0, what: error.to_string() });
            Ok(())
        }
        Err(error) => Err(error),
    }
}
