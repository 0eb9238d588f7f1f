//! What a log promises, on a disk that can be made to fail.

use std::path::Path;
use std::sync::Arc;

use taffrail_core::ids::TopicPartition;
use taffrail_core::partition::ProducerError;
use taffrail_core::record::{BatchOptions, TimestampType, offset_of};
use taffrail_runtime::blocking::Pool;

use crate::checkpoint::LOG_STARTS;
use crate::disk::fault::{Fault, FaultDisk, Op};
use crate::disk::{Disk, OpenMode};
use crate::testing::{
    DIR, batch, batch_of_producer, batch_with, create_log, open, open_log, options, partition, read_all, read_from,
    run, small,
};
use crate::{AppendError, LogOptions, ReadError, StorageOptions};

#[test]
fn batches_come_back_byte_for_byte_but_for_offset_and_epoch() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, LogOptions::default());
    let sent = [batch(3, 10, 1000), batch(1, 0, 1001), batch(5, 300, 1002)];
    let first = log.append(&sent[..2], 4, 0).unwrap();
    assert_eq!((first.base_offset, first.last_offset, first.duplicate), (0, 3, false));
    let second = log.append(&sent[2..], 4, 0).unwrap();
    assert_eq!((second.base_offset, second.last_offset), (4, 8));
    let read = read_all(&log);
    let places: Vec<_> = read.iter().map(|b| (b.header().base_offset, b.header().leader_epoch)).collect();
    assert_eq!(places, [(0, 4), (3, 4), (4, 4)]);
    for (sent, read) in sent.iter().zip(&read) {
        assert_eq!(sent.bytes()[16..], read.bytes()[16..]);
    }
}

#[test]
fn reads_stop_at_whole_batches_within_their_limits() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, small(1 << 20));
    for _ in 0..200 {
        log.append(&[batch(2, 50, 1000)], 0, 0).unwrap();
    }
    let size = batch(2, 50, 1000).bytes().len() as u64;
    let read = log.read(7, 3 * size + 10, i64::MAX, true).unwrap();
    assert_eq!((read.bytes(), read.next_offset), (3 * size, 12), "from the batch that contains the offset");
    let read = log.read(7, 10, i64::MAX, false).unwrap();
    assert_eq!((read.bytes(), read.next_offset), (0, 7), "less than a batch");
    let read = log.read(7, 10, i64::MAX, true).unwrap();
    assert_eq!((read.bytes(), read.next_offset), (size, 8), "one batch at least");
    let read = log.read(0, 1 << 30, 100, true).unwrap();
    assert_eq!((read.bytes(), read.next_offset), (50 * size, 100), "up to the upper offset");
    assert!(log.read(400, 1 << 20, i64::MAX, true).unwrap().range.is_none(), "at the end");
    for offset in [-1, 401] {
        let error = log.read(offset, 1, i64::MAX, true).err().unwrap();
        assert!(matches!(error, ReadError::OutOfRange { log_start_offset: 0, end_offset: 400, .. }), "{error}");
    }
}

#[test]
fn a_reader_that_goes_on_where_it_stopped_asks_no_disk() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, small(4000));
    for n in 0..200 {
        log.append(&[batch(2, 50, 1000 + n)], 0, 0).unwrap();
    }
    assert!(log.read_from_memory(0, 1000, i64::MAX, true).is_none(), "nobody has stopped here");
    let (mut from, mut in_memory, mut ends) = (0, 0, Vec::new());
    while from < log.end_offset() {
        let read = match log.read_from_memory(from, 1000, i64::MAX, true) {
            Some(read) => {
                in_memory += 1;
                read.unwrap()
            }
            None => log.read(from, 1000, i64::MAX, true).unwrap(),
        };
        assert!(read.bytes() > 0 && read.bytes() <= 1000, "{from}");
        let bytes = read.read_bytes().unwrap();
        let first = taffrail_core::record::BatchHeader::parse(&bytes).unwrap();
        assert_eq!(first.base_offset, from);
        from = read.next_offset;
        ends.push(from);
    }
    assert!(in_memory > ends.len() / 2, "{in_memory} of {}", ends.len());
    // Files that are not in memory: the caller asks the disk, which tells what is wrong.
    let stop = log.read(ends[0], 1000, i64::MAX, true).unwrap().next_offset;
    assert!(log.read_from_memory(stop, 1000, i64::MAX, true).is_some(), "the stop is still known");
    let stop = log.read(ends[0], 1000, i64::MAX, true).unwrap().next_offset;
    disk.inject(Fault { op: Op::Read, path_contains: ".log".into(), skip: 0, times: u32::MAX, errno: 5 });
    assert!(log.read_from_memory(stop, 1000, i64::MAX, true).is_none());
    assert!(matches!(log.read(stop, 1000, i64::MAX, true), Err(ReadError::Io(_))));
    assert!(log.offline().is_none());
    for out_of_range in [-1, 401] {
        let found = log.read_from_memory(out_of_range, 1, i64::MAX, true);
        assert!(matches!(found, Some(Err(ReadError::OutOfRange { .. }))), "{out_of_range}");
    }
}

#[test]
fn checksums_are_compared_once_and_only_of_what_was_there_before_the_start() {
    let disk = FaultDisk::new(1);
    let options = || StorageOptions { warm_bytes: 0, ..options() };
    let (storage, log) = create_log(&disk, options(), LogOptions::default());
    for _ in 0..100 {
        log.append(&[batch(1, 1000, 5)], 0, 0).unwrap();
    }
    assert!(log.read(0, 5000, i64::MAX, true).unwrap().is_warm, "it was checked when it came");
    run(storage.close());
    drop((log, storage));
    let (_storage, log) = create_log(&disk, options(), LogOptions::default());
    log.append(&[batch(1, 1000, 5)], 0, 0).unwrap();
    assert!(log.read(100, 5000, i64::MAX, true).unwrap().is_warm, "this came after the start");
    let pool = Pool::new("test-disk", 1, 10);
    for (from, was_warm) in [(0, false), (0, true), (50, false)] {
        let mut read = log.read(from, 5000, i64::MAX, true).unwrap();
        assert_eq!(read.is_warm, was_warm, "from {from}");
        run(read.warm(&pool)).unwrap();
        assert!(read.is_warm);
    }
}

#[test]
fn every_offset_is_found_whatever_the_sizes_of_batches_and_segments() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(3000));
    for n in 0..150_usize {
        log.append(&[batch(1 + n % 4, n * 7 % 400, 1000 + n as i64)], 0, 0).unwrap();
    }
    assert!(log.segment_count() > 5);
    let check = |log: &crate::Log| {
        for offset in 0..log.end_offset() {
            for max_bytes in [1, 700, 1 << 20] {
                let read = log.read(offset, max_bytes, i64::MAX, true).unwrap();
                let batches: Vec<_> = taffrail_core::record::split_batches(read.read_bytes().unwrap().into())
                    .map(|batch| *batch.unwrap().header())
                    .collect();
                assert!(batches[0].base_offset <= offset && batches[0].last_offset() >= offset, "{offset}");
                assert_eq!(batches.last().unwrap().last_offset() + 1, read.next_offset);
            }
        }
    };
    check(&log);
    run(storage.close());
    drop((log, storage));
    let (_storage, log) = open_log(&disk, small(3000));
    check(&log);
}

#[test]
fn a_clean_stop_keeps_everything_and_the_next_start_looks_into_no_log() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(2000));
    for n in 0..50 {
        log.append(&[batch(2, 100, n), batch_of_producer(9, 0, n as i32 * 3, 3)], 1, 0).unwrap();
    }
    let before = read_all(&log);
    log.set_high_watermark(77);
    run(storage.close());
    drop((log, storage));
    disk.crash();
    // Whoever reads batches now fails.
    disk.inject(Fault { op: Op::Read, path_contains: ".log".into(), skip: 0, times: u32::MAX, errno: 5 });
    let storage = open(&disk);
    disk.heal();
    let log = storage.log(&partition()).unwrap();
    assert_eq!(log.offline(), None);
    assert_eq!((log.high_watermark(), log.end_offset(), log.recovery_point()), (77, 250, 250));
    assert_eq!(read_all(&log).len(), before.len());
    assert_eq!(log.epochs().len(), 1);
    // A client with five requests on the way repeats the oldest first.
    for n in 45..50 {
        let repeated = log.append(&[batch_of_producer(9, 0, n * 3, 3)], 1, 0).unwrap();
        assert!(repeated.duplicate && repeated.last_offset == i64::from(n) * 5 + 4, "{n}: {repeated:?}");
    }
    let skips = log.append(&[batch_of_producer(9, 0, 44 * 3, 3)], 1, 0);
    assert!(matches!(skips, Err(AppendError::Producer(ProducerError::OutOfOrder { .. }))), "{skips:?}");
    let next = log.append(&[batch_of_producer(9, 0, 50 * 3, 3)], 1, 0).unwrap();
    assert!(!next.duplicate && next.base_offset == 250, "{next:?}");
}

#[test]
fn a_flush_makes_durable_what_a_crash_would_take() {
    for seed in 0..20 {
        let disk = FaultDisk::new(seed);
        let (storage, log) = open_log(&disk, small(1 << 20));
        for _ in 0..30 {
            log.append(&[batch(2, 100, 5)], 2, 0).unwrap();
        }
        run(log.flush_to(40)).unwrap();
        let flushed = log.offsets().flushed_offset;
        assert!(flushed >= 40);
        for _ in 0..10 {
            log.append(&[batch(2, 100, 5)], 3, 0).unwrap();
        }
        disk.crash();
        drop((log, storage));
        let (_storage, log) = open_log(&disk, small(1 << 20));
        assert_eq!(log.offline(), None, "seed {seed}");
        assert!((flushed..=80).contains(&log.end_offset()), "seed {seed}: {} of {flushed}", log.end_offset());
        let mut expected = 0;
        for batch in read_all(&log) {
            assert_eq!(batch.header().base_offset, expected);
            expected = batch.header().last_offset() + 1;
        }
        assert_eq!(expected, log.end_offset());
        log.append(&[batch(1, 1, 5)], 4, 0).unwrap();
    }
}

#[test]
fn repeated_and_skipping_sequences_are_told_apart_also_after_a_kill() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(1000));
    for n in 0..20 {
        log.append(&[batch_of_producer(5, 1, n * 2, 2)], 0, 0).unwrap();
    }
    let check = |log: &crate::Log| {
        let repeated = log.append(&[batch_of_producer(5, 1, 38, 2)], 0, 0).unwrap();
        assert_eq!((repeated.base_offset, repeated.last_offset, repeated.duplicate), (38, 39, true));
        let skipping = log.append(&[batch_of_producer(5, 1, 42, 2)], 0, 0).unwrap_err();
        assert!(matches!(skipping, AppendError::Producer(ProducerError::OutOfOrder { .. })), "{skipping}");
        let fenced = log.append(&[batch_of_producer(5, 0, 40, 2)], 0, 0).unwrap_err();
        assert!(matches!(fenced, AppendError::Producer(ProducerError::OldEpoch { .. })), "{fenced}");
        assert_eq!(log.end_offset(), 40);
    };
    check(&log);
    disk.kill();
    drop((log, storage));
    let (_storage, log) = open_log(&disk, small(1000));
    check(&log);
}

#[test]
fn log_append_time_is_told() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, LogOptions::default());
    let options = BatchOptions {
        timestamp_type: TimestampType::LogAppendTime,
        log_append_time_ms: 4711,
        ..BatchOptions::default()
    };
    assert_eq!(log.append(&[batch_with(options, 1, 1, 5)], 0, 0).unwrap().log_append_time_ms, 4711);
    assert_eq!(log.append(&[batch(1, 1, 5)], 0, 0).unwrap().log_append_time_ms, -1);
}

#[test]
fn a_full_disk_refuses_writes_serves_reads_and_recovers_by_itself() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, small(4000));
    for _ in 0..10 {
        log.append(&[batch(2, 100, 5)], 0, 0).unwrap();
    }
    disk.set_capacity(Some(disk.used() + 150));
    for _ in 0..3 {
        assert!(matches!(log.append(&[batch(2, 100, 5)], 0, 0), Err(AppendError::DiskFull)));
        assert_eq!(read_all(&log).len(), 10);
    }
    disk.set_capacity(None);
    for _ in 0..30 {
        log.append(&[batch(2, 100, 5)], 0, 0).unwrap();
    }
    assert_eq!(read_all(&log).len(), 40);
}

#[test]
fn a_failed_sync_ends_writing_to_the_directory_and_is_never_tried_again() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions::default());
    log.append(&[batch(2, 100, 5)], 0, 0).unwrap();
    disk.inject(Fault { op: Op::Sync, path_contains: ".log".into(), skip: 0, times: 1, errno: 5 });
    assert!(run(log.flush_to(2)).is_err());
    assert!(run(log.flush_to(2)).is_err(), "the disk would say yes now, but that proves nothing");
    assert!(matches!(log.append(&[batch(2, 100, 5)], 0, 0), Err(AppendError::Fenced(_))));
    assert!(storage.fenced().unwrap().contains("00000000000000000000.log"));
    assert_eq!(read_all(&log).len(), 1, "reads go on");
    run(storage.close());
    assert!(disk.content(&Path::new(DIR).join("taffrail-clean-stop")).unwrap() == b"3\n0\n", "no log is called clean");
}

#[test]
fn a_sync_that_fails_while_the_end_is_cut_ends_writing_to_the_directory() {
    let fail = |disk: &FaultDisk| {
        disk.inject(Fault { op: Op::Sync, path_contains: ".log".into(), skip: 0, times: 1, errno: 5 });
    };
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions::default());
    log.append(&[batch(2, 100, 5)], 0, 0).unwrap();
    log.append(&[batch(2, 100, 5)], 0, 0).unwrap();
    let path = Path::new(DIR).join("t-0/00000000000000000000.log");
    let torn = disk.content(&path).unwrap().len() as u64 - 10;
    fail(&disk);
    assert!(log.truncate_to(2, 0).is_err());
    assert!(storage.fenced().is_some(), "whether the cut is durable is not known");
    drop((storage, log));
    // The same when the cut is that of a torn tail, at the start after a crash.
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions::default());
    log.append(&[batch(2, 100, 5)], 0, 0).unwrap();
    log.append(&[batch(2, 100, 5)], 0, 0).unwrap();
    disk.kill();
    drop((storage, log));
    disk.open(&path, OpenMode::Write).unwrap().set_len(torn).unwrap();
    fail(&disk);
    assert!(open(&disk).fenced().is_some());
}

#[test]
fn a_clean_stop_costs_nothing_for_what_was_never_written_to_and_a_power_cut_after_it_does_no_harm() {
    for seed in 0..10 {
        let disk = FaultDisk::new(seed);
        let (storage, log) = open_log(&disk, LogOptions::default());
        let others: Vec<_> = (1..=20).map(|index| TopicPartition::new("t", index)).collect();
        let create = |storage: &crate::Storage, name| {
            storage.create(name, log.topic_id(), LogOptions::default()).unwrap();
        };
        create(&storage, &others[0]);
        let before = disk.calls();
        run(storage.close());
        let few = disk.calls() - before;
        drop(storage);
        let storage = open(&disk);
        others.iter().for_each(|name| create(&storage, name));
        let before = disk.calls();
        run(storage.close());
        assert_eq!(disk.calls() - before, few, "as many calls for 21 partitions as for 2");
        disk.crash();
        drop(storage);
        let storage = open(&disk);
        for name in &others {
            create(&storage, name);
            let log = storage.log(name).unwrap();
            assert!(log.offline().is_none(), "{:?}", log.offline());
            log.append(&[batch(1, 1, 1)], 0, 0).unwrap();
            assert_eq!(read_all(&log).len(), 1);
        }
    }
}

#[test]
fn records_deleted_before_an_offset_stay_deleted_also_within_a_batch() {
    for seed in 0..10 {
        let disk = FaultDisk::new(seed);
        let (storage, log) = open_log(&disk, LogOptions::default());
        log.append(&[batch(100, 10, 5), batch(10, 10, 5)], 0, 0).unwrap();
        log.set_high_watermark(110);
        run(log.flush_to(110)).unwrap();
        assert!(log.delete_records(111).is_err(), "not past the high watermark");
        assert_eq!(log.delete_records(37).unwrap(), 37);
        disk.crash();
        drop((log, storage));
        let (_storage, log) = open_log(&disk, LogOptions::default());
        assert_eq!((log.log_start_offset(), log.end_offset()), (37, 110));
        assert!(matches!(log.read(36, 1 << 20, 110, true), Err(ReadError::OutOfRange { .. })));
        assert_eq!(read_from(&log, 37, 10)[0].header().base_offset, 0, "batches stay whole");
    }
}

#[test]
fn offsets_are_found_by_time_as_by_looking_at_every_record() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(2000));
    let times: Vec<i64> = (0..120_i64).map(|n| 1000 + n * 10 + (n * 7919) % 50).collect();
    for &time in &times {
        log.append(&[batch(1, 60, time)], 0, 0).unwrap();
    }
    let check = |log: &crate::Log| {
        for target in (990..2300).step_by(3) {
            let expected = times.iter().position(|&time| time >= target).map(|at| at as i64);
            let found = log.offset_for_timestamp(target).unwrap();
            assert_eq!(found.map(|found| found.offset), expected, "{target}");
        }
        let largest = *times.iter().max().unwrap();
        let found = log.max_timestamp_offset().unwrap().unwrap();
        assert_eq!((found.timestamp, times[found.offset as usize]), (largest, largest));
    };
    check(&log);
    run(storage.close());
    drop((log, storage));
    let (storage, log) = open_log(&disk, small(2000));
    check(&log);
    disk.kill();
    drop((log, storage));
    let (_storage, log) = open_log(&disk, small(2000));
    check(&log);
}

#[test]
fn a_torn_tail_is_cut_and_damage_in_the_middle_takes_only_that_log_offline() {
    let disk = FaultDisk::new(1);
    let path = Path::new(DIR).join("t-0/00000000000000000000.log");
    let (storage, log) = open_log(&disk, LogOptions::default());
    for _ in 0..10 {
        log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
    }
    drop((log, storage));
    disk.kill();
    let file = disk.open(&path, OpenMode::Write).unwrap();
    let len = file.len().unwrap();
    file.set_len(len - 1).unwrap();
    let (storage, log) = open_log(&disk, LogOptions::default());
    assert_eq!((log.offline(), log.end_offset()), (None, 9));
    drop((log, storage));
    disk.kill();
    disk.flip(&path, len / 2 + 30, 1).unwrap();
    let storage = open(&disk);
    let log = storage.log(&partition()).unwrap();
    let reason = log.offline().unwrap().to_string();
    assert!(reason.contains("00000000000000000000.log") && reason.contains("offset 5"), "{reason}");
    assert!(matches!(log.append(&[batch(1, 1, 1)], 0, 0), Err(AppendError::Offline(_))));
    assert_eq!(disk.stat(&path).unwrap().len, len - len / 10, "nothing was cut");
}

#[test]
fn a_damaged_length_of_the_last_durable_batch_never_makes_those_behind_it_be_cut() {
    // What lies before the recovery point is not verified on the way there, and no length is part of a checksum: a batch that
    // seems to reach into the last one, or to its beginning, or to the end, would take valid batches with it.
    let batch_bytes = batch(1, 100, 5).bytes().len() as u64;
    for swallowed_bytes in [3 * batch_bytes + batch_bytes / 2, batch_bytes, 3 * batch_bytes, 4 * batch_bytes] {
        let disk = FaultDisk::new(1);
        let path = Path::new(DIR).join("t-0/00000000000000000000.log");
        let (storage, log) = open_log(&disk, LogOptions::default());
        for appended in 0..10 {
            if appended == 6 {
                let durable_to = run(log.checkpoint()).unwrap();
                assert_eq!(durable_to, 6);
                storage.write_recovery_points(&[Arc::clone(&log)]).unwrap();
            }
            log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
        }
        drop((log, storage));
        disk.kill();
        let before = disk.stat(&path).unwrap().len;
        assert_eq!(before, 10 * batch_bytes);
        let length = i32::try_from(batch_bytes - 12 + swallowed_bytes).unwrap();
        let file = disk.open(&path, OpenMode::Write).unwrap();
        crate::index::write(&*file, 5 * batch_bytes + offset_of::LENGTH as u64, &length.to_be_bytes()).unwrap();
        let log = open(&disk).log(&partition()).unwrap();
        let reason = log.offline().map(|reason| reason.to_string()).unwrap_or_default();
        let position = format!("position {}", 5 * batch_bytes);
        assert!(reason.contains(&position) && reason.contains("crc"), "{swallowed_bytes}: {reason:?}");
        assert_eq!(disk.stat(&path).unwrap().len, before, "nothing was cut");
    }
}

#[test]
fn no_recovery_point_from_before_a_cut_is_written_down_during_it_or_after_it() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions::default());
    for _ in 0..10 {
        log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
    }
    assert_eq!(run(log.checkpoint()).unwrap(), 10);
    storage.write_recovery_points(&[Arc::clone(&log)]).unwrap();
    // While the cut is on its way, the log is still as long as it was, and may be made durable once more.
    let cutting = log.lower_recovery_point(0).unwrap();
    assert_eq!(run(log.checkpoint()).unwrap(), 0);
    storage.write_recovery_points(&[Arc::clone(&log)]).unwrap();
    drop(cutting);
    assert_eq!(log.truncate_to(6, 0).unwrap(), 6);
    storage.write_recovery_points(&[Arc::clone(&log)]).unwrap();
    drop((log, storage));
    disk.crash();
    let log = open(&disk).log(&partition()).unwrap();
    assert_eq!((log.offline().map(ToString::to_string), log.end_offset()), (None, 6));
    assert_eq!(run(log.checkpoint()).unwrap(), 6, "after the cut it rises again");
}

#[test]
fn a_cut_that_the_disk_refuses_holds_no_recovery_point_back() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, LogOptions::default());
    for _ in 0..10 {
        log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
    }
    assert_eq!(run(log.checkpoint()).unwrap(), 10);
    // The recovery point is written down first, where the log starts after it.
    disk.inject(Fault { op: Op::Write, path_contains: LOG_STARTS.into(), skip: 0, times: 1, errno: 5 });
    log.start_over_at(3, 0).unwrap_err();
    assert_eq!(run(log.checkpoint()).unwrap(), 10);
}

#[test]
fn a_damaged_base_offset_never_makes_valid_batches_be_cut() {
    // The base offset is no part of the checksum, so a flipped one leaves a valid batch in a place where it cannot be.
    for (segment_bytes, flipped_batch, mask) in [(1 << 20, 3, 0x0f), (400, 1, 0x0f), (1 << 20, 9, 0x01)] {
        let disk = FaultDisk::new(1);
        let path = Path::new(DIR).join("t-0/00000000000000000000.log");
        let (storage, log) = open_log(&disk, small(segment_bytes));
        for _ in 0..10 {
            log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
        }
        let batch_bytes = read_all(&log)[0].bytes().len() as u64;
        drop((log, storage));
        disk.kill();
        let before = disk.stat(&path).unwrap().len;
        // The fourth byte of the offset, or its last one, which makes 9 an 8.
        let byte = if mask == 0x01 { 7 } else { 4 };
        disk.flip(&path, flipped_batch * batch_bytes + byte, mask).unwrap();
        let storage = open(&disk);
        let log = storage.log(&partition()).unwrap();
        let reason = log.offline().map(|reason| reason.to_string()).unwrap_or_default();
        assert!(reason.contains("does not follow offset"), "{flipped_batch} {mask}: {reason:?}");
        assert_eq!(disk.stat(&path).unwrap().len, before, "nothing was cut");
    }
}

#[test]
fn what_is_larger_than_a_segment_is_refused() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, small(1000));
    let error = log.append(&[batch(1, 2000, 5)], 0, 0).unwrap_err();
    assert!(matches!(error, AppendError::TooLarge { segment_bytes: 1000, .. }), "{error}");
    assert_eq!(log.end_offset(), 0);
}

#[test]
fn an_idle_log_takes_little_memory_and_no_open_file() {
    assert!(size_of::<crate::Log>() + size_of::<crate::segment::Segment>() < 2048);
    let disk = FaultDisk::new(1);
    let storage = open(&disk);
    for n in 0..50 {
        let partition = TopicPartition::new("many", n);
        storage.create(&partition, crate::testing::TOPIC_ID, LogOptions::default()).unwrap();
    }
    run(storage.close());
    drop(storage);
    let storage = open(&disk);
    assert_eq!(storage.logs().len(), 50);
    assert_eq!(storage.usage().unwrap().open_files, 0);
}

#[test]
fn looking_for_what_is_too_old_leaves_no_file_open() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions::default());
    log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
    run(storage.close());
    drop((storage, log));
    let (storage, log) = open_log(&disk, LogOptions::default());
    let before = storage.usage().unwrap().open_files;
    assert!(log.apply_retention(10).unwrap().removed.is_empty());
    assert_eq!(storage.usage().unwrap().open_files, before);
}

#[test]
fn a_folder_that_cannot_be_read_is_kept_under_another_name() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions::default());
    log.append(&[batch(1, 1, 1)], 0, 0).unwrap();
    drop((log, storage));
    disk.kill();
    disk.remove_file(&Path::new(DIR).join("t-0/partition.metadata")).unwrap();
    let (storage, log) = open_log(&disk, LogOptions::default());
    assert_eq!(log.end_offset(), 0, "records of another life do not come back");
    let names: Vec<_> = disk.list(Path::new(DIR)).unwrap().into_iter().filter(|entry| entry.is_dir).collect();
    assert!(names.iter().any(|entry| entry.name.ends_with("-stray")), "{names:?}");
    let other = storage.create(&partition(), taffrail_core::ids::Uuid([9; 16]), LogOptions::default());
    assert!(matches!(other, Err(crate::StorageError::TopicIdMismatch { .. })));
    storage.set_aside(&partition()).unwrap();
    assert!(storage.create(&partition(), taffrail_core::ids::Uuid([9; 16]), LogOptions::default()).is_ok());
}

#[test]
fn a_start_on_a_full_disk_serves_reads_and_takes_deletes() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(1500));
    for _ in 0..60 {
        log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
    }
    log.set_high_watermark(60);
    drop((log, storage));
    disk.kill();
    disk.set_capacity(Some(disk.used()));
    let (storage, log) = open_log(&disk, small(1500));
    assert_eq!(log.offline(), None);
    assert_eq!(read_all(&log).len(), 60);
    disk.set_capacity(Some(disk.used()));
    assert!(matches!(log.append(&[batch(1, 100, 5)], 0, 0), Err(AppendError::DiskFull)));
    log.set_high_watermark(60);
    assert_eq!(log.delete_records(30).unwrap(), 30, "there is room that was kept back for this");
    let mut maintenance = crate::Maintenance::new(storage);
    run(maintenance.round(0));
    disk.set_capacity(None);
    log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
    assert_eq!(read_all(&log).len(), 31);
}

#[test]
fn the_largest_batch_is_recovered_also_when_the_limits_were_lowered() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions::default());
    for _ in 0..2 {
        log.append(&[batch(1, 8 << 20, 5)], 0, 0).unwrap();
    }
    drop((log, storage));
    disk.kill();
    let (_storage, log) = open_log(&disk, small(1 << 20));
    assert_eq!((log.offline(), log.end_offset()), (None, 2));
    assert_eq!(read_all(&log).len(), 2);
}

/// Leaves a log of several segments, closed cleanly; gives their base offsets.
fn log_with_segments(disk: &FaultDisk) -> Vec<i64> {
    let (storage, log) = open_log(disk, small(1500));
    for _ in 0..60 {
        log.append(&[batch(1, 100, 5)], 0, 0).unwrap();
    }
    log.set_high_watermark(60);
    run(log.checkpoint()).unwrap();
    run(storage.close());
    let mut bases: Vec<i64> = disk
        .list(&Path::new(DIR).join("t-0"))
        .unwrap()
        .iter()
        .filter_map(|entry| entry.name.strip_suffix(".log")?.parse().ok())
        .collect();
    bases.sort_unstable();
    assert!(bases.len() > 4, "{bases:?}");
    bases
}

fn segment_file(base: i64) -> std::path::PathBuf {
    crate::names::segment_path(&Path::new(DIR).join("t-0"), base, crate::names::FileKind::Log, "")
}

#[test]
fn a_segment_that_was_taken_away_after_a_clean_stop_is_missed_by_name() {
    let count = log_with_segments(&FaultDisk::new(1)).len();
    for at in 0..count {
        let disk = FaultDisk::new(1);
        let bases = log_with_segments(&disk);
        disk.remove_file(&segment_file(bases[at])).unwrap();
        let log = open(&disk).log(&partition()).unwrap();
        let reason = log.offline().unwrap().to_string();
        let last = bases.get(at + 1).map_or(59, |next| next - 1);
        let expected = format!("it had offsets {} to {last}", bases[at]);
        assert!(reason.contains(&format!("{:020}.log", bases[at])) && reason.contains(&expected), "{reason}");
    }
}

#[test]
fn an_index_that_a_crash_took_away_alone_is_built_anew_and_the_log_can_be_cut_within_its_segment() {
    // A segment's files are renamed one after the other when it is removed.
    for lost in [crate::names::FileKind::Index, crate::names::FileKind::TimeIndex] {
        let disk = FaultDisk::new(1);
        let bases = log_with_segments(&disk);
        let path = crate::names::segment_path(&Path::new(DIR).join("t-0"), bases[1], lost, "");
        disk.remove_file(&path).unwrap();
        let log = open(&disk).log(&partition()).unwrap();
        assert_eq!(log.offline(), None, "{lost:?}");
        assert!(disk.stat(&path).is_ok(), "{lost:?}");
        assert_eq!(log.truncate_to(bases[1] + 1, 0).unwrap(), bases[1] + 1, "{lost:?}");
        assert_eq!(log.append(&[batch(1, 100, 5)], 0, 0).unwrap().base_offset, bases[1] + 1, "{lost:?}");
    }
}

#[test]
fn a_closed_segment_that_was_cut_at_a_batch_after_a_clean_stop_is_found() {
    let disk = FaultDisk::new(1);
    let bases = log_with_segments(&disk);
    let file = disk.open(&segment_file(bases[1]), OpenMode::Write).unwrap();
    file.set_len(file.len().unwrap() / 2).unwrap();
    let log = open(&disk).log(&partition()).unwrap();
    let reason = log.offline().unwrap().to_string();
    assert!(reason.contains(&format!("{:020}.log", bases[1])), "{reason}");
}

#[test]
fn a_gap_that_nothing_told_of_at_the_start_is_found_by_the_first_reader_that_gets_there() {
    let disk = FaultDisk::new(1);
    let bases = log_with_segments(&disk);
    // Without the mark, nothing before the recovery point is looked at.
    disk.remove_file(&Path::new(DIR).join("taffrail-clean-stop")).unwrap();
    disk.remove_file(&segment_file(bases[2])).unwrap();
    let log = open(&disk).log(&partition()).unwrap();
    assert_eq!(log.offline(), None);
    assert!(log.read(bases[0], 1 << 20, i64::MAX, true).is_ok(), "before the gap all is well");
    for from in [bases[1], bases[2]] {
        assert!(matches!(log.read(from, 1 << 20, i64::MAX, true), Err(ReadError::Offline(_))), "{from}");
    }
    let reason = log.offline().unwrap().to_string();
    let missing = format!("offsets {} to {} are missing", bases[2], bases[3] - 1);
    assert!(reason.contains(&format!("{:020}.log", bases[1])) && reason.contains(&missing), "{reason}");
}

#[test]
fn a_file_that_is_taken_away_while_the_log_runs_takes_it_offline_and_retention_does_not() {
    let disk = FaultDisk::new(1);
    let bases = log_with_segments(&disk);
    let (_storage, log) = open_log(&disk, LogOptions { retention_bytes: 3000, ..small(1500) });
    log.set_high_watermark(60);
    assert!(!log.apply_retention(0).unwrap().removed.is_empty());
    assert!(matches!(log.read(bases[1], 1 << 20, i64::MAX, true), Err(ReadError::OutOfRange { .. })));
    assert_eq!(log.offline(), None);
    disk.remove_file(&segment_file(log.log_start_offset())).unwrap();
    assert!(matches!(log.read(log.log_start_offset(), 1 << 20, i64::MAX, true), Err(ReadError::Offline(_))));
    let reason = log.offline().unwrap().to_string();
    assert!(reason.contains(&format!("{:020}.log: the file is gone", log.log_start_offset())), "{reason}");
}

#[test]
fn a_folder_that_lost_all_its_segments_is_not_taken_for_a_new_one() {
    for has_mark in [true, false] {
        let disk = FaultDisk::new(1);
        let bases = log_with_segments(&disk);
        bases.iter().for_each(|base| disk.remove_file(&segment_file(*base)).unwrap());
        if !has_mark {
            disk.remove_file(&Path::new(DIR).join("taffrail-clean-stop")).unwrap();
        }
        let log = open(&disk).log(&partition()).unwrap();
        assert!(log.offline().is_some_and(|reason| reason.contains("/data/t-0")), "{:?}", log.offline());
        assert_eq!(
            disk.list(&Path::new(DIR).join("t-0")).unwrap().iter().filter(|e| e.name.ends_with(".log")).count(),
            0
        );
    }
}

#[test]
fn a_log_that_waits_for_a_flush_that_never_comes_goes_with_its_storage() {
    let disk = FaultDisk::new(1);
    let without_workers = StorageOptions { flush_threads: 0, ..options() };
    let (storage, log) = create_log(&disk, without_workers, small(1500));
    for _ in 0..60 {
        log.append(&[batch(1, 60, 1_000)], 0, 0).unwrap();
    }
    assert!(log.segment_count() > 1, "each roll asks for a flush");
    let gone = Arc::downgrade(&log);
    drop((log, storage));
    assert!(gone.upgrade().is_none());
}
