//! What the tests of this crate share: batches, and a storage on a disk that fails on request.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::ids::{Offset, TopicId, TopicPartition, Uuid};
use taffrail_core::record::{Batch, BatchBuilder, BatchOptions, split_batches};

use crate::disk::Disk;
use crate::disk::fault::FaultDisk;
use crate::{Log, LogOptions, Storage, StorageOptions};

/// Where the tests keep their data.
pub(crate) const DIR: &str = "/data";

/// The topic of most tests.
pub(crate) const TOPIC_ID: TopicId = Uuid([7; 16]);

/// Runs a future to its end.
pub(crate) fn run<F: Future>(future: F) -> F::Output {
    taffrail_runtime::task::block_on_current_thread(future).unwrap()
}

/// A batch of `records` records of `value_bytes` each, all with the same timestamp.
pub(crate) fn batch(records: usize, value_bytes: usize, timestamp: i64) -> Batch {
    batch_with(BatchOptions::default(), records, value_bytes, timestamp)
}

/// The same, with options.
pub(crate) fn batch_with(options: BatchOptions, records: usize, value_bytes: usize, timestamp: i64) -> Batch {
    let mut builder = BatchBuilder::new(options);
    for _ in 0..records {
        builder.push(timestamp, None, Some(&vec![b'v'; value_bytes])).unwrap();
    }
    Batch::parse(&Bytes::from(builder.build().unwrap())).unwrap()
}

/// A batch of an idempotent producer.
pub(crate) fn batch_of_producer(producer_id: i64, producer_epoch: i16, base_sequence: i32, records: usize) -> Batch {
    let options = BatchOptions { producer_id, producer_epoch, base_sequence, ..BatchOptions::default() };
    // Producers that have been silent for a day are forgotten, so this one has written just now.
    batch_with(options, records, 10, taffrail_runtime::time::unix_ms())
}

/// Options with small segments and a dense index.
pub(crate) fn small(segment_bytes: u32) -> LogOptions {
    LogOptions { segment_bytes, index_interval_bytes: 100, retention_ms: -1, ..LogOptions::default() }
}

/// The partition of most tests.
pub(crate) fn partition() -> TopicPartition {
    TopicPartition::new("t", 0)
}

/// How the tests open a storage.
pub(crate) fn options() -> StorageOptions {
    let mut options = StorageOptions::new(PathBuf::from(DIR));
    options.recovery_threads = 1;
    options.flush_threads = 1;
    options
}

/// Opens the storage on a disk.
pub(crate) fn open(disk: &FaultDisk) -> Arc<Storage> {
    open_with(disk, options())
}

fn open_with(disk: &FaultDisk, options: StorageOptions) -> Arc<Storage> {
    run(Storage::open(options, Arc::new(disk.clone()) as Arc<dyn Disk>)).unwrap()
}

/// Opens the storage and the log of most tests.
pub(crate) fn open_log(disk: &FaultDisk, options: LogOptions) -> (Arc<Storage>, Arc<Log>) {
    create_log(disk, self::options(), options)
}

/// The same, with other options of the storage.
pub(crate) fn create_log(disk: &FaultDisk, options: StorageOptions, of_log: LogOptions) -> (Arc<Storage>, Arc<Log>) {
    let storage = open_with(disk, options);
    let log = storage.create(&partition(), TOPIC_ID, of_log).unwrap();
    (storage, log)
}

/// Everything that can be read from a log, batch by batch.
pub(crate) fn read_all(log: &Log) -> Vec<Batch> {
    read_from(log, log.log_start_offset(), 1 << 20)
}

/// Everything that can be read from an offset on, in steps of so many bytes.
pub(crate) fn read_from(log: &Log, from: Offset, max_bytes: u64) -> Vec<Batch> {
    let mut batches = Vec::new();
    let mut next = from;
    while next < log.end_offset() {
        let read = log.read(next, max_bytes, i64::MAX, true).unwrap();
        assert!(read.next_offset > next, "reading stands still at {next}");
        next = read.next_offset;
        for batch in split_batches(Bytes::from(read.read_bytes().unwrap())) {
            let batch = batch.unwrap();
            batch.verify_crc().unwrap();
            batches.push(batch);
        }
    }
    batches
}
