//! Producer states against Kafka's rules.

use super::*;
use crate::record::{BatchBuilder, BatchOptions};
use proptest::prelude::*;

/// Five sequences before the wrap.
const NEAR_MAX: i32 = i32::MAX - 4;
const DAY_MS: i64 = 86_400_000;

/// A batch of `count` records of producer 1.
fn batch(epoch: i16, sequence: i32, count: i32, base_offset: i64) -> BatchHeader {
    BatchHeader {
        base_offset,
        batch_length: 100,
        leader_epoch: 0,
        crc: 0,
        attributes: 0,
        last_offset_delta: count - 1,
        base_timestamp: 1_000,
        max_timestamp: 1_000,
        producer_id: 1,
        producer_epoch: epoch,
        base_sequence: sequence,
        record_count: count,
    }
}

/// A partition that holds these batches (epoch, first sequence, count) one after the other.
fn holding(batches: &[(i16, i32, i32)]) -> ProducerStates {
    let mut states = ProducerStates::new();
    let mut offset = 0;
    for &(epoch, sequence, count) in batches {
        states.apply(&batch(epoch, sequence, count, offset));
        offset += i64::from(count);
    }
    states
}

#[derive(Debug, PartialEq)]
enum Outcome {
    Append,
    Duplicate(i64, i64),
    Refused(ErrorCode),
}
use Outcome::{Append, Duplicate, Refused};

#[test]
fn batches_are_judged_as_kafka_judges_them() {
    let gap = ErrorCode::OutOfOrderSequenceNumber;
    let old = ErrorCode::InvalidProducerEpoch;
    // What is in the log, the next batch, what becomes of it.
    type Case<'a> = (&'a str, &'a [(i16, i32, i32)], (i16, i32, i32), Outcome);
    let cases: Vec<Case<'_>> = vec![
        ("unknown producers start anywhere", &[], (3, 17, 2), Append),
        ("next in order", &[(0, 0, 10)], (0, 10, 1), Append),
        ("gap", &[(0, 0, 10)], (0, 11, 1), Refused(gap)),
        ("overlap that is no duplicate", &[(0, 0, 10)], (0, 5, 5), Refused(gap)),
        ("exact duplicate", &[(0, 0, 10)], (0, 0, 10), Duplicate(0, 9)),
        (
            "duplicate of the oldest of five",
            &[(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1)],
            (0, 0, 1),
            Duplicate(0, 0),
        ),
        (
            "the sixth is forgotten",
            &[(0, 0, 1), (0, 1, 1), (0, 2, 1), (0, 3, 1), (0, 4, 1), (0, 5, 1)],
            (0, 0, 1),
            Refused(gap),
        ),
        ("old epoch", &[(4, 0, 1)], (3, 1, 1), Refused(old)),
        ("old epoch, also when the sequences were seen", &[(3, 0, 1), (4, 0, 1)], (3, 0, 1), Refused(old)),
        ("a new epoch starts at 0", &[(4, 0, 5)], (5, 0, 1), Append),
        ("a new epoch does not go on", &[(4, 0, 5)], (5, 5, 1), Refused(gap)),
        ("wrap between batches", &[(0, NEAR_MAX, 5)], (0, 0, 1), Append),
        ("wrap inside a batch", &[(0, NEAR_MAX, 10)], (0, 5, 1), Append),
        ("duplicate across the wrap", &[(0, NEAR_MAX, 10)], (0, NEAR_MAX, 10), Duplicate(0, 9)),
        ("no wrap before its time", &[(0, NEAR_MAX, 4)], (0, 0, 1), Refused(gap)),
    ];
    for (name, log, (epoch, sequence, count), expected) in cases {
        let outcome = match holding(log).check(&batch(epoch, sequence, count, 0)) {
            Ok(Verdict::Append) => Append,
            Ok(Verdict::Duplicate(batch)) => Duplicate(batch.first_offset(), batch.last_offset),
            Err(e) => Refused(e.code()),
        };
        assert_eq!(outcome, expected, "{name}");
    }
}

#[test]
fn batches_without_a_producer_leave_no_trace() {
    let mut states = ProducerStates::new();
    let plain = BatchHeader { producer_id: -1, producer_epoch: -1, base_sequence: -1, ..batch(0, 0, 1, 0) };
    states.apply(&plain);
    assert!(states.is_empty());
    assert_eq!(states.check(&plain), Ok(Verdict::Append));
}

#[test]
fn silent_producers_expire_and_may_go_on_with_any_sequence() {
    let mut states = holding(&[(0, 0, 10)]);
    assert_eq!(states.next_expiry_ms(DAY_MS), Some(1_000 + DAY_MS));
    assert_eq!(states.expire(1_000 + DAY_MS - 1, DAY_MS), 0);
    assert_eq!(states.expire(1_000 + DAY_MS, DAY_MS), 1);
    assert_eq!(states.next_expiry_ms(DAY_MS), None);
    assert_eq!(states.check(&batch(0, 500, 1, 0)), Ok(Verdict::Append));
}

#[test]
fn a_snapshot_brings_back_the_last_batch_and_drops_the_expired() {
    let states = holding(&[(2, 0, 10), (2, 10, 5)]);
    let entries = || {
        states.snapshot().into_iter().map(|s| {
            let last = s.last_batch().copied();
            ProducerState::from_snapshot(
                s.producer_id,
                s.epoch,
                s.coordinator_epoch,
                s.last_timestamp,
                s.transaction_start,
                last,
            )
        })
    };
    let loaded = ProducerStates::from_snapshot(entries(), 2_000, DAY_MS);
    assert!(matches!(loaded.check(&batch(2, 10, 5, 0)), Ok(Verdict::Duplicate(b)) if b.first_offset() == 10));
    assert_eq!(loaded.check(&batch(2, 15, 1, 0)), Ok(Verdict::Append));
    assert_eq!(loaded.check(&batch(2, 0, 10, 0)).unwrap_err().code(), ErrorCode::OutOfOrderSequenceNumber);
    assert!(ProducerStates::from_snapshot(entries(), 1_000 + DAY_MS, DAY_MS).is_empty());
}

#[test]
fn a_marker_ends_the_open_transaction() {
    let transactional = |sequence, offset| BatchHeader { attributes: 0x10, ..batch(0, sequence, 5, offset) };
    let marker_batch = BatchHeader { attributes: 0x30, base_sequence: -1, ..batch(0, 0, 1, 10) };
    let marker = EndTransactionMarker { kind: ControlKind::Abort, coordinator_epoch: 3 };
    let mut states = ProducerStates::new();
    states.apply(&transactional(0, 0));
    states.apply(&transactional(5, 5));
    assert_eq!(states.first_open_offset(), Some(0));
    assert_eq!(states.next_expiry_ms(DAY_MS), None);
    assert_eq!(states.expire(i64::MAX, DAY_MS), 0, "an open transaction does not expire");
    assert_eq!(states.check(&batch(0, 10, 1, 10)).unwrap_err().code(), ErrorCode::InvalidTxnState);
    assert_eq!(states.check_marker(&marker_batch, &marker), Ok(()));
    let completed = states.apply_marker(&marker_batch, &marker).unwrap();
    assert_eq!(completed, CompletedTransaction { producer_id: 1, first_offset: 0, last_offset: 10, aborted: true });
    assert_eq!(states.first_open_offset(), None);
    let older = EndTransactionMarker { coordinator_epoch: 2, ..marker };
    assert_eq!(states.check_marker(&marker_batch, &older).unwrap_err().code(), ErrorCode::TransactionCoordinatorFenced);
    assert_eq!(states.check(&batch(0, 10, 1, 11)), Ok(Verdict::Append), "sequences go on after a marker");
}

#[test]
fn a_batch_that_compaction_emptied_still_carries_the_sequence() {
    let options = BatchOptions {
        base_offset: 40,
        last_offset: Some(49),
        producer_id: 1,
        producer_epoch: 0,
        base_sequence: 30,
        ..BatchOptions::default()
    };
    let bytes = BatchBuilder::new(options).build().unwrap();
    let mut states = ProducerStates::new();
    states.apply(&BatchHeader::parse(&bytes).unwrap());
    assert_eq!(states.check(&batch(0, 40, 1, 50)), Ok(Verdict::Append));
}

proptest! {
    #[test]
    fn an_accepted_stream_is_accepted_once_whatever_is_retried(
        counts in proptest::collection::vec(1..2_000_i32, 1..30), start in 0..=i32::MAX, back in 0..5_usize,
    ) {
        let mut states = ProducerStates::new();
        let (mut sequence, mut offset) = (start, 0);
        let mut sent = Vec::new();
        for count in counts {
            let header = batch(0, sequence, count, offset);
            prop_assert_eq!(states.check(&header), Ok(Verdict::Append));
            states.apply(&header);
            sent.push(header);
            let again = sent[sent.len() - 1 - back.min(sent.len() - 1)];
            let duplicate = matches!(states.check(&again), Ok(Verdict::Duplicate(b)) if b.first_offset() == again.base_offset);
            prop_assert!(duplicate, "{again:?}");
            sequence = crate::record::increment_sequence(sequence, count);
            offset += i64::from(count);
        }
    }
}

#[test]
fn what_a_snapshot_leaves_out_is_recalled_if_it_is_of_the_same_time() {
    let states = holding(&[(0, 0, 2), (0, 2, 1), (0, 3, 4)]);
    let batches = states.get(1).unwrap().batches().to_vec();
    assert_eq!(states.recent(10), [(1, &batches[..])]);
    assert!(states.recent(0).is_empty());
    let loaded = || {
        let known = states.get(1).unwrap();
        let last = known.last_batch().copied();
        let entry = ProducerState::from_snapshot(1, known.epoch, -1, known.last_timestamp, None, last);
        ProducerStates::from_snapshot([entry], 1_000, DAY_MS)
    };
    let mut recalled = loaded();
    recalled.recall(1, &batches);
    assert_eq!(recalled.get(1), states.get(1));
    for foreign in [&batches[..2], &[]] {
        let mut kept = loaded();
        kept.recall(1, foreign);
        kept.recall(2, &batches);
        assert_eq!(kept.get(1).unwrap().batches(), &batches[2..], "{foreign:?}");
        assert_eq!(kept.len(), 1);
    }
}
