//! What a log promises to a follower: records as the leader has them, cut where the leader's part from them.

use bytes::Bytes;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::partition::ProducerError;
use taffrail_core::record::{Batch, BatchHeader, patch_prefix};

use crate::disk::fault::FaultDisk;
use crate::testing::{batch, batch_of_producer, open_log, read_all, run, small};
use crate::{AppendError, Log, LogOptions};

/// A batch as it lies in a leader's log.
fn led(batch: &Batch, base_offset: Offset, leader_epoch: LeaderEpoch) -> Batch {
    let mut bytes = batch.bytes().to_vec();
    let header = BatchHeader::parse(&bytes).unwrap();
    bytes[..16].copy_from_slice(&patch_prefix(base_offset, leader_epoch, &header));
    Batch::parse(&Bytes::from(bytes)).unwrap()
}

fn epochs(log: &Log) -> Vec<(LeaderEpoch, Offset)> {
    log.epochs().iter().map(|entry| (entry.epoch, entry.start_offset)).collect()
}

fn bases(log: &Log) -> Vec<Offset> {
    read_all(log).iter().map(|batch| batch.header().base_offset).collect()
}

#[test]
fn batches_of_a_leader_are_kept_byte_for_byte_gaps_of_compaction_too() {
    let disk = FaultDisk::new(1);
    let (storage, log) = open_log(&disk, small(600));
    let sent: Vec<Batch> = [(0, 1, 1), (1, 1, 3), (10, 2, 5), (15, 1, 5), (90, 4, 6)]
        .map(|(base, records, epoch)| led(&batch(records, 100, 1000), base, epoch))
        .to_vec();
    assert_eq!(log.append_as_follower(&sent, 0).unwrap(), 94);
    assert_eq!(epochs(&log), [(1, 0), (3, 1), (5, 10), (6, 90)]);
    assert!(log.segment_count() > 1);
    for _ in 0..2 {
        let read = read_all(&log);
        assert_eq!(read.len(), sent.len());
        assert!(read.iter().zip(&sent).all(|(read, sent)| read.bytes() == sent.bytes()));
    }
    run(log.flush_to(94)).unwrap();
    drop((log, storage));
    disk.crash();
    let (_storage, log) = open_log(&disk, small(600));
    assert_eq!((bases(&log), log.end_offset()), (vec![0, 1, 10, 15, 90], 94));
    assert_eq!(epochs(&log), [(1, 0), (3, 1), (5, 10), (6, 90)]);
}

#[test]
fn a_batch_before_the_end_is_refused() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, LogOptions::default());
    log.append_as_follower(&[led(&batch(5, 10, 1000), 0, 1)], 0).unwrap();
    for base in [0, 4] {
        let refused = log.append_as_follower(&[led(&batch(5, 10, 1000), base, 1)], 0);
        assert!(matches!(refused, Err(AppendError::OutOfOrderOffset { end_offset: 5, .. })), "{refused:?}");
    }
    assert_eq!(log.end_offset(), 5);
}

#[test]
fn an_epoch_that_was_led_without_a_record_leaves_no_trace_among_those_of_the_next_leader() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, LogOptions::default());
    log.append_as_follower(&[led(&batch(10, 10, 1000), 0, 1), led(&batch(10, 10, 1000), 10, 3)], 0).unwrap();
    log.begin_epoch(5);
    assert_eq!(epochs(&log), [(1, 0), (3, 10), (5, 20)]);
    // The next leader has more records of epoch 3, which this broker never had.
    log.append_as_follower(&[led(&batch(5, 10, 1000), 20, 3), led(&batch(1, 10, 1000), 25, 6)], 0).unwrap();
    assert_eq!(epochs(&log), [(1, 0), (3, 10), (6, 25)]);
}

#[test]
fn a_cut_takes_whole_batches_and_what_was_known_of_them_and_lasts() {
    // Where it is cut, where the log ends then.
    for (at, end) in [(30, 30), (29, 28), (21, 20), (20, 20), (3, 2), (1, 0), (0, 0), (99, 40)] {
        let disk = FaultDisk::new(at as u64);
        let (storage, log) = open_log(&disk, small(700));
        let batches: Vec<Batch> = (0..20_i32)
            .map(|n| led(&batch_of_producer(9, 0, n * 2, 2), i64::from(n) * 2, if n < 10 { 1 } else { 4 }))
            .collect();
        log.append_as_follower(&batches, 0).unwrap();
        log.set_high_watermark(35);
        run(log.flush_to(40)).unwrap();
        assert!(log.segment_count() > 1);
        assert_eq!(log.truncate_to(at, 0).unwrap(), end, "{at}");
        let check = |log: &Log| {
            assert_eq!((log.end_offset(), log.high_watermark()), (end, end.min(35)), "{at}");
            let expected: Vec<_> = [(1, 0), (4, 20)].into_iter().filter(|(_, start)| *start < end).collect();
            assert_eq!(epochs(log), expected, "{at}");
            assert_eq!(bases(log), (0..end / 2).map(|n| n * 2).collect::<Vec<_>>(), "{at}");
            let next = log.next_sequence(9);
            assert_eq!(next, (end > 0).then_some(end as i32), "{at}: what the producer may send next");
        };
        check(&log);
        drop((log, storage));
        disk.crash();
        let (_storage, log) = open_log(&disk, small(700));
        assert_eq!(log.end_offset(), end, "{at}");
        let batch = led(&batch(2, 10, 1000), end, 5);
        assert_eq!(log.append_as_follower(&[batch], 0).unwrap(), end + 2, "{at}: the log goes on");
    }
}

#[test]
fn a_log_that_begins_anew_knows_no_batch_of_before_again_when_it_is_cut_later() {
    let disk = FaultDisk::new(1);
    let (_storage, log) = open_log(&disk, small(700));
    let batches: Vec<Batch> =
        (0..20_i32).map(|n| led(&batch_of_producer(9, 0, n * 2, 2), i64::from(n) * 2, 1)).collect();
    log.append_as_follower(&batches, 0).unwrap();
    run(log.flush_to(40)).unwrap();
    log.start_over_at(100, 0).unwrap();
    log.append_as_follower(&[led(&batch_of_producer(9, 0, 0, 2), 100, 2), led(&batch(2, 10, 1000), 102, 2)], 0)
        .unwrap();
    assert_eq!(log.truncate_to(102, 0).unwrap(), 102);
    assert_eq!(log.next_sequence(9), Some(2));
    for sequence in (4..40).step_by(2) {
        let again = log.append(&[batch_of_producer(9, 0, sequence, 2)], 3, 0);
        assert!(matches!(again, Err(AppendError::Producer(ProducerError::OutOfOrder { .. }))), "{sequence}: {again:?}");
    }
}

#[test]
fn a_log_that_begins_anew_has_nothing_and_starts_where_it_is_told_also_after_a_crash() {
    for seed in 0..10 {
        let disk = FaultDisk::new(seed);
        let (storage, log) = open_log(&disk, small(700));
        let batches: Vec<Batch> = (0..20).map(|n| led(&batch(2, 100, 1000), n * 2, 1)).collect();
        log.append_as_follower(&batches, 0).unwrap();
        run(log.flush_to(40)).unwrap();
        log.start_over_at(100, 0).unwrap();
        let offsets = log.offsets();
        assert_eq!((offsets.log_start_offset, offsets.high_watermark, offsets.end_offset), (100, 100, 100));
        assert_eq!(epochs(&log), []);
        log.append_as_follower(&[led(&batch(2, 100, 1000), 100, 4)], 0).unwrap();
        run(log.flush_to(102)).unwrap();
        drop((log, storage));
        disk.crash();
        let (_storage, log) = open_log(&disk, small(700));
        assert_eq!((log.log_start_offset(), bases(&log)), (100, vec![100]), "{seed}");
        assert_eq!(epochs(&log), [(4, 100)], "{seed}");
    }
}
