//! Batches of idempotent producers that a leader refused only for now: what such a producer sent behind one of them is refused
//! for the same reason, not as out of order, which it could not help.
//!
//! Clients that have several requests on their way take OUT_OF_ORDER_SEQUENCE_NUMBER for a loss: librdkafka begins a new epoch,
//! and what it had on its way to other partitions then is written twice there if their leaders change meanwhile.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{ProducerEpoch, ProducerId};
use taffrail_core::record::{BatchHeader, decrement_sequence};

/// How long a producer may take to come back with what was refused. Who left it out then hears that it did.
const KEPT_MS: i64 = 30_000;

/// Producers that are kept at most, for each partition.
const PRODUCERS_MAX: usize = 1_000;

/// The first batch of a producer that was refused, since the last one that was taken.
#[derive(Debug, Clone, Copy)]
struct Refusal {
    epoch: ProducerEpoch,
    sequence: i32,
    error: ErrorCode,
    at_ms: i64,
}

/// What was refused only for now, in one leadership. While there is nothing, it costs an atomic load.
#[derive(Debug, Default)]
pub(super) struct TurnedAway {
    is_any: AtomicBool,
    refusals: Mutex<BTreeMap<ProducerId, Refusal>>,
}

impl TurnedAway {
    /// What the producer of a batch is to hear that the log refused with `error`.
    pub(super) fn refuse(&self, batch: &BatchHeader, error: ErrorCode, now_ms: i64) -> ErrorCode {
        if !batch.has_producer_id() {
            return error;
        }
        match error {
            ErrorCode::NotEnoughReplicas | ErrorCode::KafkaStorageError => self.note(batch, error, now_ms),
            ErrorCode::OutOfOrderSequenceNumber => return self.behind(batch, now_ms).unwrap_or(error),
            _ => {}
        }
        error
    }

    /// A batch was taken.
    pub(super) fn took(&self, batch: &BatchHeader) {
        if self.is_any.load(Ordering::Relaxed) && batch.has_producer_id() {
            let mut refusals = self.refusals.lock();
            refusals.remove(&batch.producer_id);
            self.is_any.store(!refusals.is_empty(), Ordering::Relaxed);
        }
    }

    fn note(&self, batch: &BatchHeader, error: ErrorCode, now_ms: i64) {
        let refusal = Refusal { epoch: batch.producer_epoch, sequence: batch.base_sequence, error, at_ms: now_ms };
        let mut refusals = self.refusals.lock();
        if refusals.len() >= PRODUCERS_MAX {
            refusals.retain(|_, refusal| !refusal.is_over(now_ms));
        }
        if let Some(known) = refusals.get_mut(&batch.producer_id) {
            // What is behind the first one is refused as well; it is the first that has to come again.
            *known = if known.holds_up(batch, now_ms) { Refusal { at_ms: now_ms, ..*known } } else { refusal };
        } else if refusals.len() < PRODUCERS_MAX {
            refusals.insert(batch.producer_id, refusal);
        }
        self.is_any.store(true, Ordering::Relaxed);
    }

    /// Why the batch before one was refused, if it was for now.
    fn behind(&self, batch: &BatchHeader, now_ms: i64) -> Option<ErrorCode> {
        if !self.is_any.load(Ordering::Relaxed) {
            return None;
        }
        let refusals = self.refusals.lock();
        let known = refusals.get(&batch.producer_id).filter(|known| known.holds_up(batch, now_ms))?;
        Some(known.error)
    }
}

impl Refusal {
    fn is_over(&self, now_ms: i64) -> bool {
        now_ms - self.at_ms > KEPT_MS
    }

    /// Whether a batch of the same producer is behind the refused one, which may still come again.
    fn holds_up(&self, batch: &BatchHeader, now_ms: i64) -> bool {
        let distance = decrement_sequence(batch.base_sequence, self.sequence);
        batch.producer_epoch == self.epoch && (1..i32::MAX / 2).contains(&distance) && !self.is_over(now_ms)
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::errors::ErrorCode::{
        InvalidProducerEpoch, KafkaStorageError, NotEnoughReplicas, OutOfOrderSequenceNumber,
    };
    use taffrail_core::record::{Batch, BatchBuilder, BatchOptions};

    use super::*;

    fn of(producer_id: ProducerId, epoch: ProducerEpoch, sequence: i32) -> BatchHeader {
        BatchHeader { producer_id, producer_epoch: epoch, base_sequence: sequence, ..plain() }
    }

    fn plain() -> BatchHeader {
        let mut builder = BatchBuilder::with_capacity(BatchOptions::default(), 0);
        builder.append(0, 0, None, Some(b"value"), std::iter::empty()).unwrap();
        *Batch::parse(&builder.build().unwrap().into()).unwrap().header()
    }

    #[test]
    fn what_is_behind_a_refused_batch_is_refused_alike_until_that_is_taken() {
        let turned_away = TurnedAway::default();
        assert_eq!(turned_away.refuse(&of(1, 0, 7), OutOfOrderSequenceNumber, 0), OutOfOrderSequenceNumber);
        assert_eq!(turned_away.refuse(&of(1, 0, 5), KafkaStorageError, 0), KafkaStorageError);
        assert_eq!(turned_away.refuse(&of(1, 0, 6), KafkaStorageError, 0), KafkaStorageError);
        // There is room again.
        assert_eq!(turned_away.refuse(&of(1, 0, 6), OutOfOrderSequenceNumber, 1), KafkaStorageError);
        turned_away.took(&of(2, 0, 6));
        assert_eq!(turned_away.refuse(&of(1, 0, 7), OutOfOrderSequenceNumber, 1), KafkaStorageError);
        turned_away.took(&of(1, 0, 5));
        assert_eq!(turned_away.refuse(&of(1, 0, 7), OutOfOrderSequenceNumber, 1), OutOfOrderSequenceNumber);
    }

    #[test]
    fn what_is_out_of_order_for_another_reason_is_said_to_be() {
        let cases = [
            ("another producer", of(2, 0, 6), 0),
            ("another epoch", of(1, 1, 6), 0),
            ("before it", of(1, 0, 4), 0),
            ("itself", of(1, 0, 5), 0),
            ("much later", of(1, 0, 6), KEPT_MS + 1),
        ];
        for (name, batch, at_ms) in cases {
            let turned_away = TurnedAway::default();
            turned_away.refuse(&of(1, 0, 5), NotEnoughReplicas, 0);
            let told = turned_away.refuse(&batch, OutOfOrderSequenceNumber, at_ms);
            assert_eq!(told, OutOfOrderSequenceNumber, "{name}");
        }
    }

    #[test]
    fn refusals_that_are_no_matter_of_time_are_not_kept_and_neither_are_producers_without_an_id() {
        let turned_away = TurnedAway::default();
        assert_eq!(turned_away.refuse(&of(1, 0, 5), InvalidProducerEpoch, 0), InvalidProducerEpoch);
        assert_eq!(turned_away.refuse(&plain(), KafkaStorageError, 0), KafkaStorageError);
        assert!(!turned_away.is_any.load(Ordering::Relaxed));
    }

    #[test]
    fn sequences_that_begin_again_are_behind_the_largest() {
        let turned_away = TurnedAway::default();
        turned_away.refuse(&of(1, 0, i32::MAX), KafkaStorageError, 0);
        assert_eq!(turned_away.refuse(&of(1, 0, 2), OutOfOrderSequenceNumber, 0), KafkaStorageError);
        assert_eq!(turned_away.refuse(&of(1, 0, i32::MAX - 3), OutOfOrderSequenceNumber, 0), OutOfOrderSequenceNumber);
    }

    #[test]
    fn there_is_room_for_so_many_producers_and_those_of_long_ago_make_room() {
        let turned_away = TurnedAway::default();
        for producer in 0..=PRODUCERS_MAX as i64 {
            turned_away.refuse(&of(producer, 0, 5), KafkaStorageError, 0);
        }
        let last = PRODUCERS_MAX as i64;
        let behind = |at_ms| turned_away.refuse(&of(last, 0, 6), OutOfOrderSequenceNumber, at_ms);
        assert_eq!(behind(0), OutOfOrderSequenceNumber);
        turned_away.refuse(&of(last, 0, 5), KafkaStorageError, KEPT_MS + 1);
        assert_eq!(behind(KEPT_MS + 1), KafkaStorageError);
        assert_eq!(turned_away.refusals.lock().len(), 1);
    }
}
