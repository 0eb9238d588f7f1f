//! What a log keeps of its producers: taking batches in, and snapshots.

use taffrail_core::ids::ProducerId;
use taffrail_core::partition::{BatchMetadata, ProducerState, ProducerStates};
use taffrail_core::record::{
    BatchHeader, BatchRef, ControlKind, DecompressLimits, Decompressor, EndTransactionMarker, NO_SEQUENCE,
    increment_sequence,
};

use super::{Log, Writer};
use crate::index::AbortedTransaction;
use crate::snapshot::ProducerEntry;

/// Most bytes that a control record may have; Kafka writes 16.
const MARKER_BYTES_MAX: usize = 4096;

/// The transaction marker in a control batch; `None` when the control record is of another kind.
pub(super) fn marker_of(batch: BatchRef<'_>) -> Result<Option<EndTransactionMarker>, String> {
    let mut decompressor = Decompressor::new(DecompressLimits::bytes(MARKER_BYTES_MAX));
    let mut records = batch.records(&mut decompressor).map_err(|error| error.to_string())?;
    // Compaction may have emptied the batch; it then says nothing.
    let Some(record) = records.next() else { return Ok(None) };
    let record = record.map_err(|error| error.to_string())?;
    match ControlKind::of(record.key).map_err(|error| error.to_string())? {
        ControlKind::Other(_) => Ok(None),
        ControlKind::Abort | ControlKind::Commit => {
            EndTransactionMarker::read(&record).map(Some).map_err(|error| error.to_string())
        }
    }
}

/// Takes a batch that is in the log into the producers' states; gives the transaction that it aborted, if it did.
pub(super) fn apply(
    producers: &mut ProducerStates,
    header: &BatchHeader,
    marker: Option<&EndTransactionMarker>,
) -> Option<AbortedTransaction> {
    let Some(marker) = marker else {
        if !header.is_control() {
            producers.apply(header);
        }
        return None;
    };
    let completed = producers.apply_marker(header, marker).filter(|completed| completed.aborted)?;
    Some(AbortedTransaction {
        producer_id: completed.producer_id,
        first_offset: completed.first_offset,
        last_offset: completed.last_offset,
        last_stable_offset: producers.first_open_offset().unwrap_or(completed.last_offset + 1),
    })
}

/// The states as a snapshot keeps them: with the last batch of each producer.
pub(super) fn to_entries(producers: &ProducerStates) -> Vec<ProducerEntry> {
    let entry = |state: &ProducerState| {
        let batch = state.last_batch();
        ProducerEntry {
            producer_id: state.producer_id,
            producer_epoch: state.epoch,
            last_sequence: state.last_sequence(),
            last_offset: batch.map_or(-1, |batch| batch.last_offset),
            offset_delta: batch.map_or(0, |batch| batch.offset_delta),
            timestamp: state.last_timestamp,
            coordinator_epoch: state.coordinator_epoch,
            current_txn_first_offset: state.transaction_start.unwrap_or(-1),
        }
    };
    producers.snapshot().into_iter().map(entry).collect()
}

/// The states that a snapshot has kept.
pub(super) fn from_entries(entries: &[ProducerEntry], now_ms: i64, expiration_ms: i64) -> ProducerStates {
    let state = |entry: &ProducerEntry| {
        let last_batch = (entry.last_sequence != NO_SEQUENCE && entry.last_offset >= 0).then_some(BatchMetadata {
            last_sequence: entry.last_sequence,
            last_offset: entry.last_offset,
            offset_delta: entry.offset_delta,
            timestamp: entry.timestamp,
        });
        ProducerState::from_snapshot(
            entry.producer_id,
            entry.producer_epoch,
            entry.coordinator_epoch,
            entry.timestamp,
            (entry.current_txn_first_offset >= 0).then_some(entry.current_txn_first_offset),
            last_batch,
        )
    };
    ProducerStates::from_snapshot(entries.iter().map(state), now_ms, expiration_ms)
}

impl Log {
    pub(super) fn apply_to_producers(
        &self,
        writer: &mut Writer,
        header: &BatchHeader,
        marker: Option<&EndTransactionMarker>,
    ) {
        if let Some(aborted) = apply(&mut writer.producers, header, marker) {
            writer.aborted.push(aborted);
        }
    }

    /// The sequence with which a producer would go on in its epoch; `None` when nothing is known of it.
    pub fn next_sequence(&self, producer_id: ProducerId) -> Option<i32> {
        let writer = self.writer.lock();
        let last = writer.producers.get(producer_id)?.last_batch()?.last_sequence;
        Some(increment_sequence(last, 1))
    }

    /// When the first producer will have been silent for too long; `None` if no producer is remembered that may be forgotten.
    pub(crate) fn producer_expiry_ms(&self) -> Option<i64> {
        self.writer.lock().producers.next_expiry_ms(self.env.producer_expiration_ms)
    }

    /// Forgets producers that have been silent for too long; tells how many went.
    pub(crate) fn expire_producers(&self, now_ms: i64) -> usize {
        self.writer.lock().producers.expire(now_ms, self.env.producer_expiration_ms)
    }
}
