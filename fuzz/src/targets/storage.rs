//! What storage reads again after a crash: whole data directories, and the small files beside the batches.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::ids::{TopicPartition, Uuid};
use taffrail_core::record::{Batch, BatchHeader, crc32c, offset_of, split_batches};
use taffrail_runtime::task::block_on_current_thread;
use taffrail_storage::disk::fault::FaultDisk;
use taffrail_storage::disk::{Disk, OpenMode, replace_file};
use taffrail_storage::index::{self, OffsetEntry, TimeEntry};
use taffrail_storage::{Log, LogOptions, Storage, StorageError, StorageOptions, snapshot};

use super::{coin, record};
use crate::memory::bounded;
use crate::random::Random;

const DIR: &str = "/data";
const PARTITION: &str = "t-0";

/// What opening a directory costs whatever lies in it: tables, windows, threads.
const DIRECTORY_BYTES: usize = 96 * 1024 * 1024;
const MEMORY_PER_BYTE: usize = 256;

/// Size of the disk: too small for room to be kept back on it, which would cost more time than all else.
const DISK_BYTES: u64 = 16 * 1024 * 1024;

/// Files of a directory: each a byte that is odd if it lies in the partition's folder, a byte with the length of its name,
/// the name, two bytes with its length, its content. The last one goes to the end.
fn files(mut input: &[u8]) -> Vec<(PathBuf, &[u8])> {
    let mut files = Vec::new();
    while let Some((&[folder, name_bytes], rest)) = input.split_first_chunk::<2>() {
        let Some((name, rest)) = rest.split_at_checked(usize::from(name_bytes)) else { break };
        let Some((length, rest)) = rest.split_first_chunk::<2>() else { break };
        let (content, rest) = rest.split_at(usize::from(u16::from_be_bytes(*length)).min(rest.len()));
        let name = String::from_utf8_lossy(name).replace(['/', '\0'], "_");
        if !name.is_empty() && name != "." && name != ".." {
            let folder = if folder % 2 == 1 { Path::new(DIR).join(PARTITION) } else { PathBuf::from(DIR) };
            files.push((folder.join(name), content));
        }
        input = rest;
    }
    files
}

/// A disk with the files of an input.
fn disk_of(input: &[u8]) -> FaultDisk {
    let disk = FaultDisk::new(1);
    let mut names = BTreeSet::new();
    let partition = Path::new(DIR).join(PARTITION);
    assert!(disk.create_dir(&partition).is_ok());
    for (path, content) in files(input) {
        if path != partition && names.insert(path.clone()) {
            assert!(replace_file(&disk, &path, content).is_ok(), "{}", path.display());
        }
    }
    disk
}

fn open(disk: &FaultDisk) -> Result<Arc<Storage>, StorageError> {
    disk.set_capacity(Some(DISK_BYTES));
    let mut options = StorageOptions::new(DIR);
    options.recovery_threads = 1;
    options.flush_threads = 1;
    let opened = block_on_current_thread(Storage::open(options, Arc::new(disk.clone())));
    opened.unwrap_or_else(|error| panic!("no runtime: {error}"))
}

/// Opens a directory of damaged files. Whatever serves then can be read from start to end, and is the same after a stop.
pub(super) fn data_directory(input: &[u8]) {
    let disk = disk_of(input);
    let storage = match bounded(input, MEMORY_PER_BYTE, DIRECTORY_BYTES, || open(&disk)) {
        Ok(storage) => storage,
        Err(StorageError::Busy) => panic!("a thread that opens partitions is gone"),
        Err(_) => return,
    };
    let logs = storage.logs();
    let ends: Vec<_> = logs.iter().filter(|log| read_through(&storage, log)).map(|log| log.offsets()).collect();
    drop(logs);
    assert!(block_on_current_thread(storage.close()).is_ok());
    drop(storage);
    let storage = open(&disk).unwrap_or_else(|error| panic!("it does not open again: {error}"));
    let logs = storage.logs();
    let again = logs.iter().filter(|log| log.offline().is_none()).map(|log| log.offsets());
    // A checkpoint or a mark of a clean stop that lies is believed, until the batches are read.
    let is_scanned = files(input).iter().all(|(path, _)| path.parent() != Some(Path::new(DIR)));
    for (before, after) in ends.iter().zip(again).filter(|_| is_scanned) {
        assert_eq!((before.log_start_offset, before.end_offset), (after.log_start_offset, after.end_offset));
    }
}

/// Reads a log from start to end; false if it does not serve.
fn read_through(storage: &Storage, log: &Log) -> bool {
    let offsets = log.offsets();
    assert!(offsets.log_start_offset <= offsets.end_offset, "{offsets:?}");
    let mut next = offsets.log_start_offset;
    while log.offline().is_none() && next < offsets.end_offset {
        let Ok(mut read) = log.read(next, 4096, i64::MAX, true) else { break };
        // What was not read since the start is checked first; damage takes the partition out of service.
        let warmed = block_on_current_thread(read.warm(storage.pool()));
        if !warmed.is_ok_and(|warmed| warmed.is_ok()) {
            break;
        }
        assert!(read.next_offset > next, "reading stands still at {next} of {offsets:?}");
        next = read.next_offset;
        let Ok(bytes) = read.read_bytes() else { break };
        for batch in split_batches(Bytes::from(bytes)) {
            assert!(batch.is_ok(), "a read gives whole batches");
        }
    }
    let _ = log.offset_for_timestamp(1_700_000_000_000);
    let _ = log.max_timestamp_offset();
    log.offline().is_none()
}

/// An offset index or a time index by the first byte, then its file.
pub(super) fn index(input: &[u8]) {
    let Some((kind, content)) = input.split_first() else { return };
    let disk = FaultDisk::new(1);
    let path = Path::new("/index");
    assert!(replace_file(&disk, path, content).is_ok());
    let Ok(file) = disk.open(path, OpenMode::Read) else { panic!("the file is gone") };
    bounded(input, 16, 64 * 1024, || {
        if kind % 2 == 0 {
            search::<OffsetEntry>(&*file, |entry| entry.position <= 1000);
        } else {
            search::<TimeEntry>(&*file, |entry| entry.timestamp <= 1_700_000_000_000);
        }
    });
    let _ = index::read_aborted(&*file);
}

fn search<E: index::Entry + PartialEq + std::fmt::Debug>(
    file: &dyn taffrail_storage::disk::DiskFile,
    is_within: impl Fn(&E) -> bool + Copy,
) {
    let Ok(count) = index::count::<E>(file) else { return };
    let unsound = index::first_unsound::<E>(file, count, |_| true);
    let sound = unsound.ok().flatten().unwrap_or(count);
    let entries: Vec<E> = (0..sound).filter_map(|number| index::entry_at(file, number).ok()).collect();
    // Over the sound part the search finds what looking at each entry finds.
    let Ok(found) = index::floor::<E>(file, sound, is_within) else { return };
    let expected = entries.iter().take_while(|entry| is_within(entry)).count();
    if let Some((number, entry)) = found {
        assert_eq!((number as usize + 1, Some(&entry)), (expected, entries.get(number as usize)));
    } else {
        assert_eq!(expected, 0);
    }
}

pub(super) fn sound_index(random: &mut Random) -> Vec<u8> {
    let kind = random.below(2);
    let mut content = Vec::new();
    for number in 1..random.below(800) as u32 {
        if kind == 0 {
            index::Entry::encode(&OffsetEntry { relative_offset: number * 3, position: number * 90 }, &mut content);
        } else {
            let timestamp = 1_699_999_999_000 + i64::from(number) * 7;
            index::Entry::encode(&TimeEntry { timestamp, relative_offset: number * 3 }, &mut content);
        }
    }
    content.insert(0, kind as u8);
    content
}

/// A producer snapshot: what is understood comes back byte for byte.
pub(super) fn producer_snapshot(input: &[u8]) {
    if let Ok(entries) = bounded(input, 4, 4096, || snapshot::decode(input)) {
        assert_eq!(snapshot::encode(&entries), input);
    }
}

pub(super) fn sound_producer_snapshot(random: &mut Random) -> Vec<u8> {
    let disk = directory(random, true);
    let folder = Path::new(DIR).join(PARTITION);
    let names = disk.list(&folder).unwrap_or_default();
    let name = names.into_iter().map(|entry| entry.name).find(|name| name.ends_with(".snapshot"));
    name.and_then(|name| disk.content(&folder.join(name)).ok()).unwrap_or_default()
}

/// Makes the checksum of a producer snapshot right again.
pub(super) fn mend_producer_snapshot(input: &mut [u8]) {
    if input.len() > 6 {
        let crc = crc32c(&input[6..]);
        input[2..6].copy_from_slice(&crc.to_be_bytes());
    }
}

/// A directory with one partition of a few segments, as it is after a clean stop or after a kill.
fn directory(random: &mut Random, is_clean: bool) -> FaultDisk {
    let disk = FaultDisk::new(random.next_u64());
    let Ok(storage) = open(&disk) else { panic!("an empty directory opens") };
    let options = LogOptions { segment_bytes: 400, index_interval_bytes: 100, ..LogOptions::default() };
    let Ok(log) = storage.create(&TopicPartition::new("t", 0), Uuid([7; 16]), options) else {
        panic!("a partition can be made")
    };
    for epoch in 0..1 + random.below(6) as i32 {
        if let Ok(batch) = Batch::parse(&record::sound_batch(random).into()) {
            let _ = log.append(&[batch], epoch / 2, 1_700_000_000_000);
        }
    }
    if is_clean {
        assert!(block_on_current_thread(storage.close()).is_ok());
    }
    disk
}

pub(super) fn sound_data_directory(random: &mut Random) -> Vec<u8> {
    let is_clean = coin(random);
    let disk = directory(random, is_clean);
    let mut input = Vec::new();
    for (flag, folder) in [(0, PathBuf::from(DIR)), (1, Path::new(DIR).join(PARTITION))] {
        let mut entries = disk.list(&folder).unwrap_or_default();
        entries.sort();
        for entry in entries.iter().filter(|entry| !entry.is_dir && entry.name != "LOCK") {
            let content = disk.content(&folder.join(&entry.name)).unwrap_or_default();
            // The room that is held back for a full disk is no file that is read.
            if content.len() <= usize::from(u16::MAX) {
                input.extend_from_slice(&[flag, entry.name.len() as u8]);
                input.extend_from_slice(entry.name.as_bytes());
                input.extend_from_slice(&(content.len() as u16).to_be_bytes());
                input.extend_from_slice(&content);
            }
        }
    }
    input
}

/// Makes the checksums of the batches in `.log` files right again.
pub(super) fn mend_data_directory(input: &mut [u8]) {
    let start = input.as_ptr() as usize;
    let logs: Vec<(usize, usize)> = files(input)
        .into_iter()
        .filter(|(path, _)| path.extension().is_some_and(|extension| extension == "log"))
        .map(|(_, content)| (content.as_ptr() as usize - start, content.len()))
        .collect();
    for (at, length) in logs {
        let mut rest = &mut input[at..at + length];
        while let Ok(header) = BatchHeader::parse(rest) {
            let Some((batch, following)) = rest.split_at_mut_checked(header.total_bytes()) else { break };
            let crc = crc32c(&batch[offset_of::ATTRIBUTES..]);
            batch[offset_of::CRC..offset_of::ATTRIBUTES].copy_from_slice(&crc.to_be_bytes());
            rest = following;
        }
    }
}
