//! Compaction of whole logs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::record::{Batch, BatchBuilder, BatchOptions, DecompressLimits, Decompressor};

use super::swap::rename_segment;
use crate::disk::Disk;
use crate::disk::fault::FaultDisk;
use crate::names::{CLEANED, FileKind, SWAP, parse_segment_file};
use crate::testing::{DIR, open_log, read_all, small};
use crate::{Log, LogOptions, Storage};

fn options() -> LogOptions {
    LogOptions { compact: true, delete: false, min_cleanable_dirty_ratio: 0.0, ..small(2000) }
}

fn keyed(key: &str, value: Option<&str>, producer: Option<(i64, i32)>) -> Batch {
    let mut options = BatchOptions::default();
    if let Some((producer_id, base_sequence)) = producer {
        options = BatchOptions { producer_id, producer_epoch: 0, base_sequence, ..options };
    }
    let mut builder = BatchBuilder::new(options);
    let now_ms = taffrail_runtime::time::unix_ms();
    builder.push(now_ms, Some(key.as_bytes()), value.map(str::as_bytes)).unwrap();
    Batch::parse(&Bytes::from(builder.build().unwrap())).unwrap()
}

/// Newest value and offset of each key, as a reader from the start finds them.
fn newest(log: &Log) -> BTreeMap<String, (i64, Option<String>)> {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut found = BTreeMap::new();
    for batch in read_all(log) {
        let mut decompressor = Decompressor::new(DecompressLimits::default());
        for record in batch.as_ref().records(&mut decompressor).unwrap() {
            let record = record.unwrap();
            found.insert(text(record.key.unwrap()), (record.offset, record.value.map(text)));
        }
    }
    found
}

/// Waits until the closed segments are durable, which a thread of the flusher sees to: before that a pass does nothing.
fn settle(log: &Arc<Log>) {
    crate::testing::run(async {
        log.checkpoint().await.unwrap();
        for _ in 0..2_000 {
            if log.recovery_point() >= log.active_base_offset() {
                return;
            }
            taffrail_runtime::time::sleep(std::time::Duration::from_millis(5)).await;
        }
        panic!("the closed segments do not become durable");
    });
}

/// A log of 300 records with 20 keys.
fn filled(disk: &FaultDisk) -> (Arc<Storage>, Arc<Log>) {
    filled_with(disk, 300)
}

fn filled_with(disk: &FaultDisk, records: usize) -> (Arc<Storage>, Arc<Log>) {
    let (storage, log) = open_log(disk, options());
    for n in 0..records {
        log.append(&[keyed(&format!("k{}", n % 20), Some(&format!("value {n}")), None)], 0, 0).unwrap();
    }
    log.set_high_watermark(log.end_offset());
    settle(&log);
    (storage, log)
}

#[test]
fn readers_find_the_same_newest_records_in_a_smaller_log() {
    let disk = FaultDisk::new(1);
    let (storage, log) = filled(&disk);
    let (before, size) = (newest(&log), log.size_bytes());
    let done = storage.compact(&log, 0).unwrap();
    assert!(!done.removed.is_empty());
    assert_eq!(newest(&log), before);
    assert!(log.size_bytes() < size / 3, "{} of {size} bytes", log.size_bytes());
    assert_eq!(log.end_offset(), 300);
    log.append(&[keyed("k1", Some("newer"), None)], 0, 0).unwrap();
    assert_eq!(newest(&log)["k1"], (300, Some("newer".to_owned())));
    drop((log, storage));
    disk.kill();
    let (_storage, log) = open_log(&disk, options());
    assert_eq!(log.offline(), None);
    assert_eq!(newest(&log)["k2"], before["k2"]);
    assert_eq!(log.end_offset(), 301);
}

#[test]
fn a_small_map_needs_several_passes_and_comes_to_the_same_end() {
    let disk = FaultDisk::new(1);
    let (mut storage, log) = filled(&disk);
    let before = newest(&log);
    Arc::get_mut(&mut storage).unwrap().options.compaction_map_bytes = 400;
    let mut passes = 0;
    while storage.compact(&log, 0).unwrap().look_again {
        passes += 1;
        assert!(passes < 100, "the passes do not end");
    }
    assert!(passes > 1);
    assert_eq!(newest(&log), before);
}

#[test]
fn the_last_batch_of_a_producer_stays_if_only_empty() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, options());
    log.append(&[keyed("a", Some("1"), Some((77, 0)))], 0, 0).unwrap();
    for n in 0..100 {
        log.append(&[keyed("a", Some(&n.to_string()), None)], 0, 0).unwrap();
    }
    log.set_high_watermark(101);
    settle(&log);
    storage.compact(&log, 0).unwrap();
    let first = read_all(&log)[0].clone();
    assert_eq!((first.header().producer_id, first.header().record_count, first.header().base_offset), (77, 0, 0));
    drop((log, storage));
    disk.kill();
    let (_storage, log) = open_log(&disk, options());
    assert!(log.append(&[keyed("a", Some("1"), Some((77, 0)))], 0, 0).unwrap().duplicate);
}

#[test]
fn what_is_not_replicated_yet_is_not_compacted() {
    let disk = FaultDisk::new(1);
    let (storage, log) = filled(&disk);
    log.set_high_watermark(0);
    assert!(storage.compact(&log, 0).unwrap().removed.is_empty());
}

#[test]
fn a_power_cut_at_any_call_of_a_pass_leaves_the_newest_records() {
    let calls = {
        let disk = FaultDisk::new(1);
        let (storage, log) = filled_with(&disk, 60);
        let before = disk.calls();
        storage.compact(&log, 0).unwrap();
        disk.calls() - before
    };
    for call in 1..=calls {
        let disk = FaultDisk::new(call);
        let (storage, log) = filled_with(&disk, 60);
        let before = newest(&log);
        disk.lose_power_at(disk.calls() + call);
        // Whether it fails or not: the question is what is found afterwards.
        let _ = storage.compact(&log, 0);
        drop((log, storage));
        disk.crash();
        let (_storage, log) = open_log(&disk, options());
        assert_eq!(log.offline(), None, "call {call} of {calls}");
        assert_eq!(newest(&log), before, "call {call} of {calls}");
        let names = disk.list(&Path::new(DIR).join("t-0")).unwrap();
        let left = names.iter().filter_map(|entry| parse_segment_file(&entry.name)).filter(|(.., e)| !e.is_empty());
        assert_eq!(left.count(), 0, "call {call}: nothing half done stays");
    }
}

#[test]
fn an_undecided_swap_is_undone() {
    let disk = FaultDisk::new(1);
    let (storage, log) = filled(&disk);
    let before = newest(&log);
    drop((log, storage));
    disk.kill();
    let dir = Path::new(DIR).join("t-0");
    // An index of a compaction that had not renamed its batches yet.
    crate::disk::replace_file(&disk, &crate::names::segment_path(&dir, 0, FileKind::Index, CLEANED), b"12345678")
        .unwrap();
    rename_segment(&disk, &dir, 0, CLEANED, SWAP).unwrap();
    let (_storage, log) = open_log(&disk, options());
    assert_eq!(newest(&log), before);
}
