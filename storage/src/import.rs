//! Adopting partitions of a stopped Kafka.
//!
//! Folders are taken as they are: same names, same files, same topic ids. Every batch is checked before anything is
//! adopted, and the folder gets its name only when all its files are durable, so an import that was interrupted leaves
//! nothing but a folder that is removed at the next start.

use std::collections::BTreeMap;
use std::io::{self, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use taffrail_core::ids::{Offset, TopicId, TopicPartition};

use crate::checkpoint::{self, LOG_STARTS};
use crate::disk::{self, Disk, OpenMode};
use crate::error::StorageError;
use crate::identity;
use crate::names::{
    FileKind, Folder, LEADER_EPOCHS, PARTITION_METADATA, deleted_folder, parse_folder, parse_segment_file,
};
use crate::scan::{Scan, WINDOW_LARGE_BYTES};
use crate::storage::Storage;

/// Bytes that are copied at once.
const COPY_BYTES: usize = 1 << 20;

/// The topic in which Kafka's controllers keep their metadata; it is none of a broker's.
const CLUSTER_METADATA: &str = "__cluster_metadata";

/// What happens to the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ImportMode {
    /// It stays as it is.
    Copy,
    /// Its folders are renamed, which takes no room but needs the same volume.
    Move,
}

/// A partition that was adopted, or could be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedPartition {
    /// Which partition.
    pub partition: TopicPartition,
    /// The id of its topic.
    pub topic_id: TopicId,
    /// Where its files are in the source.
    pub source: PathBuf,
    /// First offset that can be read.
    pub log_start_offset: Offset,
    /// Offset after the last record.
    pub end_offset: Offset,
    /// Bytes of all batches.
    pub bytes: u64,
    /// Base offset of the last segment that does not begin where the one before it ends, as compaction leaves them; 0 =
    /// there is none.
    pub gaps_to: Offset,
}

/// Why partitions cannot be adopted. Those before the one that is named may be.
#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    /// The disk refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which file or folder.
        path: PathBuf,
        /// What the disk said.
        source: io::Error,
    },
    /// There is nothing to adopt.
    #[error("{} is neither a partition's folder nor a directory with such folders", .0.display())]
    NothingFound(PathBuf),
    /// A partition is not fit to be adopted.
    #[error("{}: {reason}", path.display())]
    Unfit {
        /// Which file or folder.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is such a partition here already.
    #[error("there is a partition {0} here already")]
    Exists(TopicPartition),
    /// The adopted folder cannot be opened.
    #[error(transparent)]
    Storage(#[from] StorageError),
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> ImportError + '_ {
    move |source| ImportError::Io { path: path.to_owned(), source }
}

fn unfit(path: &Path, reason: impl ToString) -> ImportError {
    ImportError::Unfit { path: path.to_owned(), reason: reason.to_string() }
}

/// Looks at a partition's folder, or at all in a data directory, and checks every batch. Changes nothing.
///
/// # Errors
/// When a partition is damaged, or its topic cannot be told.
pub fn inspect(disk: &dyn Disk, source: &Path) -> Result<Vec<ImportedPartition>, ImportError> {
    let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let mut folders = Vec::new();
    let mut floors = BTreeMap::new();
    if let (Folder::Partition(partition), Ok(_)) = (parse_folder(&name), disk.stat(&source.join(PARTITION_METADATA))) {
        folders.push((partition, source.to_owned()));
    } else {
        let path = source.join(LOG_STARTS);
        floors = checkpoint::read_offsets(disk, &path).map_err(|error| unfit(&path, error))?;
        for entry in disk.list(source).map_err(failed(source))?.into_iter().filter(|entry| entry.is_dir) {
            if let Folder::Partition(partition) = parse_folder(&entry.name)
                && &*partition.topic != CLUSTER_METADATA
            {
                folders.push((partition, source.join(&entry.name)));
            }
        }
    }
    if folders.is_empty() {
        return Err(ImportError::NothingFound(source.to_owned()));
    }
    folders.sort();
    let inspect = |(partition, path): (TopicPartition, PathBuf)| {
        let floor = floors.get(&partition).copied().unwrap_or(0);
        inspect_partition(disk, partition, &path, floor)
    };
    folders.into_iter().map(inspect).collect()
}

fn inspect_partition(
    disk: &dyn Disk,
    partition: TopicPartition,
    path: &Path,
    floor: Offset,
) -> Result<ImportedPartition, ImportError> {
    let topic_id = identity::read_topic_id(disk, path)
        .map_err(|error| unfit(path, error))?
        .ok_or_else(|| unfit(path, "there is no partition.metadata, so its topic cannot be told"))?;
    let mut logs: Vec<(Offset, PathBuf)> = Vec::new();
    for entry in disk.list(path).map_err(failed(path))? {
        match parse_segment_file(&entry.name) {
            Some((base, FileKind::Log, "")) => logs.push((base, path.join(&entry.name))),
            Some((_, _, ending)) if ending == crate::names::SWAP => {
                return Err(unfit(path, format!("{} is there: Kafka has not stopped cleanly", entry.name)));
            }
            _ => {}
        }
    }
    logs.sort();
    let Some(&(first_base, _)) = logs.first() else { return Err(unfit(path, "there is no segment")) };
    let mut found = ImportedPartition {
        partition,
        topic_id,
        source: path.to_owned(),
        log_start_offset: first_base.max(floor),
        end_offset: first_base,
        bytes: 0,
        gaps_to: 0,
    };
    for (base, log) in &logs {
        if *base > found.end_offset {
            found.gaps_to = *base;
        }
        found.end_offset = check_segment(disk, log, (*base).max(found.end_offset))?;
        found.bytes += disk.stat(log).map_err(failed(log))?.len;
    }
    found.log_start_offset = found.log_start_offset.min(found.end_offset);
    Ok(found)
}

/// Checks every batch of a segment that begins at `end_offset`; gives the offset after the last.
fn check_segment(disk: &dyn Disk, path: &Path, mut end_offset: Offset) -> Result<Offset, ImportError> {
    let file = disk.open(path, OpenMode::Read).map_err(failed(path))?;
    let mut scan = Scan::new(&*file, 0, file.len().map_err(failed(path))?, WINDOW_LARGE_BYTES);
    while let Some(batch) = scan.next().map_err(|error| unfit(path, error))? {
        scan.verify(&batch).map_err(|error| unfit(path, error))?;
        if batch.header.base_offset < end_offset {
            let reason = format!(
                "the batch at position {} has offset {}, where {end_offset} or more is expected",
                batch.position, batch.header.base_offset
            );
            return Err(unfit(path, reason));
        }
        end_offset = batch.header.last_offset() + 1;
    }
    Ok(end_offset)
}

impl Storage {
    /// Adopts a partition's folder, or all in a data directory, of a Kafka that was stopped. Waits for the disk.
    ///
    /// # Errors
    /// When a partition is damaged or is here already; then nothing is adopted. When the disk fails, those before the one
    /// that is named may be.
    pub fn import(&self, source: &Path, mode: ImportMode) -> Result<Vec<ImportedPartition>, ImportError> {
        let disk = &*self.env.disk;
        let found = inspect(disk, source)?;
        for candidate in &found {
            let target = self.env.dir.join(candidate.partition.to_string());
            if self.log(&candidate.partition).is_some() || disk.list(&target).is_ok() {
                return Err(ImportError::Exists(candidate.partition.clone()));
            }
        }
        for candidate in &found {
            self.import_partition(candidate, mode)?;
            tracing::info!(
                partition = %candidate.partition, topic_id = %candidate.topic_id, end_offset = candidate.end_offset,
                "the partition is adopted"
            );
        }
        Ok(found)
    }

    fn import_partition(&self, candidate: &ImportedPartition, mode: ImportMode) -> Result<(), ImportError> {
        let disk = &*self.env.disk;
        let target = self.env.dir.join(candidate.partition.to_string());
        self.note_imported(candidate).map_err(failed(&self.env.dir))?;
        if mode == ImportMode::Move {
            disk.rename(&candidate.source, &target).map_err(failed(&candidate.source))?;
        } else {
            // A folder of this name is removed at the next start, should this be interrupted.
            let unfinished = deleted_folder(&candidate.partition, taffrail_runtime::random::uuid());
            let unfinished = self.env.dir.join(unfinished);
            disk.create_dir(&unfinished).map_err(failed(&unfinished))?;
            copy_folder(disk, &candidate.source, &unfinished)?;
            disk.rename(&unfinished, &target).map_err(failed(&target))?;
        }
        disk.sync_dir(&self.env.dir).map_err(failed(&self.env.dir))?;
        self.open_imported(&candidate.partition, Arc::from(target))?;
        Ok(())
    }

    /// Writes down where the log begins and ends before the folder is there. All batches were looked at, so that opening
    /// need not look again, and takes the gaps of compacted logs for what they are.
    fn note_imported(&self, candidate: &ImportedPartition) -> io::Result<()> {
        self.env.recovery_points.set(&candidate.partition, candidate.end_offset);
        self.env.log_starts.set(&candidate.partition, candidate.log_start_offset);
        self.high_watermarks.set(&candidate.partition, candidate.end_offset);
        let (disk, reserve) = (&*self.env.disk, &self.env.reserve);
        self.env.note_gaps(&candidate.partition, candidate.gaps_to)?;
        self.env.recovery_points.write(disk, reserve)?;
        self.env.log_starts.write(disk, reserve)?;
        self.high_watermarks.write(disk, reserve)
    }
}

/// Copies the files of a partition that mean something; all are durable then.
fn copy_folder(disk: &dyn Disk, source: &Path, target: &Path) -> Result<(), ImportError> {
    for entry in disk.list(source).map_err(failed(source))? {
        let is_segment_file = matches!(parse_segment_file(&entry.name), Some((_, _, "")));
        if entry.is_dir || !(is_segment_file || entry.name == LEADER_EPOCHS || entry.name == PARTITION_METADATA) {
            continue;
        }
        let path = source.join(&entry.name);
        copy_file(disk, &path, &target.join(&entry.name)).map_err(failed(&path))?;
    }
    disk.sync_dir(target).map_err(failed(target))
}

fn copy_file(disk: &dyn Disk, source: &Path, target: &Path) -> io::Result<()> {
    let from = disk.open(source, OpenMode::Read)?;
    let to = disk.open(target, OpenMode::CreateNew)?;
    let mut buffer = vec![0; COPY_BYTES];
    let mut position = 0;
    loop {
        let read = disk::read_up_to(&*from, &mut buffer, position)?;
        if read == 0 {
            return to.sync();
        }
        disk::write_all_at(&*to, &mut [IoSlice::new(&buffer[..read])], position)?;
        position += read as u64;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::fault::FaultDisk;
    use crate::testing::{DIR, TOPIC_ID, batch, batch_of_producer, open, open_log, partition, read_all, run, small};

    /// A data directory with one partition at `/data`, moved to `/kafka`.
    fn kafka(disk: &FaultDisk) -> Vec<taffrail_core::record::Batch> {
        let (storage, log) = open_log(disk, small(1500));
        for n in 0..30 {
            log.append(&[batch(2, 100, 1000 + i64::from(n)), batch_of_producer(3, 0, n, 1)], 2, 0).unwrap();
        }
        log.set_high_watermark(90);
        log.delete_records(4).unwrap();
        let batches = read_all(&log);
        run(storage.close());
        drop((log, storage));
        disk.rename(Path::new(DIR), Path::new("/kafka")).unwrap();
        batches
    }

    #[test]
    fn adopted_partitions_serve_the_same_batches_also_after_a_restart() {
        for mode in [ImportMode::Copy, ImportMode::Move] {
            let disk = FaultDisk::new(1);
            let batches = kafka(&disk);
            let storage = open(&disk);
            let imported = storage.import(Path::new("/kafka"), mode).unwrap();
            assert_eq!(imported.len(), 1);
            assert_eq!((imported[0].topic_id, imported[0].log_start_offset, imported[0].end_offset), (TOPIC_ID, 4, 90));
            let log = storage.log(&partition()).unwrap();
            let check = |log: &crate::Log| {
                let read = read_all(log);
                assert!(read.iter().map(|b| b.bytes()).eq(batches.iter().map(|b| b.bytes())));
                assert_eq!((log.high_watermark(), log.log_start_offset()), (90, 4));
                assert!(log.append(&[batch_of_producer(3, 0, 29, 1)], 2, 0).unwrap().duplicate);
            };
            check(&log);
            assert!(storage.import(Path::new("/kafka"), mode).is_err(), "twice is refused");
            disk.crash();
            drop((log, storage));
            check(&open(&disk).log(&partition()).unwrap());
            assert_eq!(disk.list(Path::new("/kafka/t-0")).is_ok(), mode == ImportMode::Copy);
        }
    }

    #[test]
    fn a_damaged_partition_is_refused_by_file_and_position_and_nothing_is_adopted() {
        let disk = FaultDisk::new(1);
        kafka(&disk);
        disk.flip(Path::new("/kafka/t-0/00000000000000000000.log"), 300, 1).unwrap();
        let storage = open(&disk);
        let error = storage.import(Path::new("/kafka/t-0"), ImportMode::Copy).unwrap_err().to_string();
        assert!(error.contains("/kafka/t-0/00000000000000000000.log") && error.contains("position"), "{error}");
        assert!(storage.logs().is_empty());
        let error = storage.import(Path::new("/data"), ImportMode::Copy).unwrap_err();
        assert!(matches!(error, ImportError::NothingFound(_)), "{error}");
    }

    #[test]
    fn gaps_that_compaction_has_left_are_adopted_as_they_are() {
        let disk = FaultDisk::new(1);
        kafka(&disk);
        let gone = Path::new("/kafka/t-0");
        let names = disk.list(gone).unwrap();
        let mut logs: Vec<_> = names.iter().filter(|entry| entry.name.ends_with(".log")).collect();
        logs.sort();
        disk.remove_file(&gone.join(&logs[2].name)).unwrap();
        for _ in 0..2 {
            let storage = open(&disk);
            if storage.logs().is_empty() {
                storage.import(Path::new("/kafka"), ImportMode::Copy).unwrap();
            }
            let log = storage.log(&partition()).unwrap();
            let offsets: Vec<_> = read_all(&log).iter().map(|batch| batch.header().base_offset).collect();
            assert!(offsets.windows(2).any(|pair| pair[1] > pair[0] + 2), "{offsets:?}");
            assert_eq!(log.offline(), None);
            drop((log, storage));
            disk.kill();
        }
    }

    #[test]
    fn an_interrupted_copy_leaves_nothing_that_is_taken_for_a_partition() {
        let calls = {
            let disk = FaultDisk::new(1);
            kafka(&disk);
            let storage = open(&disk);
            let before = disk.calls();
            storage.import(Path::new("/kafka"), ImportMode::Copy).unwrap();
            disk.calls() - before
        };
        for call in (1..calls).step_by(7) {
            let disk = FaultDisk::new(call);
            let batches = kafka(&disk);
            disk.sync_dir(Path::new("/")).unwrap();
            let storage = open(&disk);
            disk.lose_power_at(disk.calls() + call);
            let done = storage.import(Path::new("/kafka"), ImportMode::Copy);
            drop(storage);
            disk.crash();
            if let Some(log) = open(&disk).log(&partition()) {
                assert_eq!(log.offline(), None, "call {call}");
                assert_eq!(read_all(&log).len(), batches.len(), "call {call}");
            } else {
                assert!(done.is_err(), "call {call}: an import that is done stays done");
            }
        }
    }
}
