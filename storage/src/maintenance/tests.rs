//! Background work, with the time given.

use std::path::Path;

use crate::disk::Disk;
use crate::disk::fault::FaultDisk;
use crate::testing::{DIR, batch, batch_of_producer, open_log, partition, read_all, run, small};
use crate::{LogOptions, Maintenance};

#[test]
fn a_record_dated_in_the_future_does_not_keep_old_ones() {
    let year_2050_ms = 2_524_608_000_000;
    for future in [year_2050_ms, year_2050_ms * 1000] {
        let disk = FaultDisk::new(1);
        let options = LogOptions { retention_ms: 60_000, file_delete_delay_ms: 10, ..small(1500) };
        let (storage, log) = open_log(&disk, options);
        let mut maintenance = Maintenance::new(storage.clone());
        log.append(&[batch(1, 10, future)], 0, 1_000_000).unwrap();
        for n in 0..50 {
            log.append(&[batch(1, 100, 1_000_000 + n)], 0, 1_000_000 + n).unwrap();
        }
        log.set_high_watermark(51);
        run(maintenance.round(1_001_000));
        assert_eq!(log.log_start_offset(), 0, "nothing is old yet");
        run(maintenance.round(1_000_000 + 400_000));
        assert_eq!(
            (log.log_start_offset(), log.end_offset()),
            (51, 51),
            "all are old, those of the active segment too"
        );
        assert!(read_all(&log).is_empty());
        run(maintenance.round(1_000_000 + 500_000));
        // The last removal runs on a pool.
        run(storage.pool().run(|| ())).unwrap();
        let left = disk.list(&Path::new(DIR).join("t-0")).unwrap();
        assert!(left.iter().all(|entry| !entry.name.ends_with(".deleted")), "{left:?}");
        log.append(&[batch(1, 10, 5)], 0, 0).unwrap();
    }
}

#[test]
fn the_oldest_segments_go_while_there_is_too_much() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions { retention_bytes: 5_000, ..small(1500) });
    let mut maintenance = Maintenance::new(storage);
    for _ in 0..100 {
        log.append(&[batch(1, 100, 1000)], 0, 0).unwrap();
    }
    log.set_high_watermark(100);
    run(maintenance.round(0));
    assert!((5_000..6_500).contains(&log.size_bytes()), "{} bytes", log.size_bytes());
    assert_eq!(read_all(&log)[0].header().base_offset, log.log_start_offset());
}

#[test]
fn what_is_not_replicated_is_not_removed() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions { retention_bytes: 0, ..small(1500) });
    let mut maintenance = Maintenance::new(storage);
    for _ in 0..100 {
        log.append(&[batch(1, 100, 1000)], 0, 0).unwrap();
    }
    run(maintenance.round(0));
    assert_eq!(log.log_start_offset(), 0);
}

#[test]
fn a_log_is_on_disk_after_flush_ms() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions { flush_ms: 50, ..small(1 << 20) });
    let mut maintenance = Maintenance::new(storage);
    log.append(&[batch(1, 100, 1000)], 0, 0).unwrap();
    run(maintenance.round(1_000));
    assert_eq!(log.offsets().flushed_offset, 0);
    run(maintenance.round(1_051));
    // The order is given; waiting for it is the same as waiting for the offset.
    run(log.flush_to(1)).unwrap();
    assert_eq!(log.offsets().flushed_offset, 1);
}

#[test]
fn silent_producers_are_looked_for_no_more_often_than_the_interval_says() {
    let day_ms = 86_400_000;
    let interval_ms = 600_000;
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(1 << 20));
    let mut maintenance = Maintenance::new(storage);
    log.append(&[batch_of_producer(7, 0, 0, 1)], 0, 0).unwrap();
    // Far past its time already: a batch is dated as its client likes.
    let now_ms = taffrail_runtime::time::unix_ms() + 2 * day_ms;
    run(maintenance.round(now_ms));
    run(maintenance.round(now_ms + interval_ms - 1));
    assert_eq!(log.producer_count(), 1);
    run(maintenance.round(now_ms + interval_ms));
    assert_eq!(log.producer_count(), 0);
}

#[test]
fn high_watermarks_survive_a_power_cut() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(1 << 20));
    let mut maintenance = Maintenance::new(storage.clone());
    log.append(&[batch(9, 100, 1000)], 0, 0).unwrap();
    log.set_high_watermark(9);
    run(maintenance.round(0));
    run(log.flush_to(9)).unwrap();
    disk.crash();
    drop((log, storage, maintenance));
    let (_storage, log) = open_log(&disk, small(1 << 20));
    assert_eq!((log.high_watermark(), log.written_high_watermark()), (9, 9));
}

#[test]
fn a_log_that_lost_committed_records_tells_how_far_they_went() {
    let mut told = 0;
    for seed in 1..=20 {
        let disk = FaultDisk::new(seed);
        let (storage, log) = open_log(&disk, small(1 << 20));
        let mut maintenance = Maintenance::new(storage.clone());
        log.append(&[batch(9, 100, 1000)], 0, 0).unwrap();
        log.set_high_watermark(9);
        run(maintenance.round(0));
        disk.crash();
        drop((log, storage, maintenance));
        let (_storage, log) = open_log(&disk, small(1 << 20));
        let (end, written) = (log.end_offset(), log.written_high_watermark());
        assert_eq!(log.high_watermark(), written.min(end), "seed {seed}");
        // Neither the records nor the file of high watermarks were brought to the disk: a power cut takes what it pleases.
        told += usize::from((end, written) == (0, 9));
    }
    assert!(told > 0, "no power cut took the records alone");
}

#[test]
fn deleted_partitions_go_after_the_delay_and_others_stay() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions { file_delete_delay_ms: 100, ..small(1500) });
    let mut maintenance = Maintenance::new(storage.clone());
    log.append(&[batch(1, 100, 1000)], 0, 0).unwrap();
    let read = log.read(0, 1 << 20, i64::MAX, true).unwrap();
    storage.delete(&partition()).unwrap();
    assert!(log.append(&[batch(1, 100, 1000)], 0, 0).is_err());
    assert_eq!(read.read_bytes().unwrap().len() as u64, read.bytes(), "a reader that has begun goes on");
    let folders = |disk: &FaultDisk| disk.list(Path::new(DIR)).unwrap().iter().filter(|entry| entry.is_dir).count();
    run(maintenance.round(0));
    assert_eq!(folders(&disk), 1);
    run(maintenance.round(101));
    run(storage.pool().run(|| ())).unwrap();
    assert_eq!(folders(&disk), 0);
    assert_eq!(read.read_bytes().unwrap().len() as u64, read.bytes());
}

#[test]
fn an_idle_storage_rests_until_something_is_due_or_a_log_changes() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, LogOptions { flush_ms: 300, ..small(1 << 20) });
    let mut maintenance = Maintenance::new(storage.clone());
    run(maintenance.round(0));
    run(maintenance.round(60_000));
    assert_eq!(maintenance.rest(60_000).as_millis(), 1_000, "partitions that do not change give nothing to do");
    log.append(&[batch(1, 100, 1000)], 0, 0).unwrap();
    run(storage.env.noted());
    run(maintenance.round(60_100));
    assert_eq!(maintenance.rest(60_100).as_millis(), 300, "flush.ms is what is due next");
    run(maintenance.round(60_400));
    assert_eq!(maintenance.rest(60_400).as_millis(), 600, "then it is looked whether the directory is there");
}
