//! What a partition remembers of each idempotent producer: enough to tell a new batch from a repeated one and from one that
//! skips. Follows Kafka's `ProducerStateManager`, `ProducerAppendInfo` and `ProducerStateEntry`.
//!
//! The leader asks [`ProducerStates::check`] before it appends; leader, follower and recovery all call
//! [`ProducerStates::apply`] for what is in the log, so they reach the same state.

use crate::collections::HashMap;
use crate::errors::ErrorCode;
use crate::ids::{Offset, ProducerEpoch, ProducerId};
use crate::planted::{PlantedBug, is_planted};
use crate::record::{
    BatchHeader, ControlKind, EndTransactionMarker, NO_PRODUCER_EPOCH, NO_SEQUENCE, NO_TIMESTAMP, decrement_sequence,
};
use std::collections::BTreeMap;

/// Batches of each producer that a retry is recognised among. A producer has at most five requests in flight.
pub const BATCHES_RETAINED: usize = 5;

/// One batch as it is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchMetadata {
    /// Sequence of its last record.
    pub last_sequence: i32,
    /// Offset of its last record.
    pub last_offset: Offset,
    /// Last offset minus base offset.
    pub offset_delta: i32,
    /// Its largest timestamp.
    pub timestamp: i64,
}

impl BatchMetadata {
    /// Sequence of its first record.
    pub fn first_sequence(&self) -> i32 {
        decrement_sequence(self.last_sequence, self.offset_delta)
    }

    /// Offset of its first record.
    pub fn first_offset(&self) -> Offset {
        self.last_offset - i64::from(self.offset_delta)
    }
}

/// What is remembered of one producer; also one entry of a producer snapshot, which keeps the last batch only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducerState {
    /// Id of the producer.
    pub producer_id: ProducerId,
    /// Its newest epoch; [`NO_PRODUCER_EPOCH`] if not known.
    pub epoch: ProducerEpoch,
    /// Epoch of the coordinator that wrote its last transaction marker; -1 if none did.
    pub coordinator_epoch: i32,
    /// Timestamp of its last batch or marker.
    pub last_timestamp: i64,
    /// First offset of its open transaction.
    pub transaction_start: Option<Offset>,
    batches: [BatchMetadata; BATCHES_RETAINED],
    batch_count: u8,
}

const NO_BATCH: BatchMetadata =
    BatchMetadata { last_sequence: NO_SEQUENCE, last_offset: -1, offset_delta: 0, timestamp: NO_TIMESTAMP };

impl ProducerState {
    /// Nothing known yet.
    fn unknown(producer_id: ProducerId) -> Self {
        Self::from_snapshot(producer_id, NO_PRODUCER_EPOCH, -1, NO_TIMESTAMP, None, None)
    }

    /// An entry of a producer snapshot.
    pub fn from_snapshot(
        producer_id: ProducerId,
        epoch: ProducerEpoch,
        coordinator_epoch: i32,
        last_timestamp: i64,
        transaction_start: Option<Offset>,
        last_batch: Option<BatchMetadata>,
    ) -> Self {
        let mut state = Self {
            producer_id,
            epoch,
            coordinator_epoch,
            last_timestamp,
            transaction_start,
            batches: [NO_BATCH; BATCHES_RETAINED],
            batch_count: 0,
        };
        if let Some(batch) = last_batch {
            state.push(batch);
        }
        state
    }

    /// The remembered batches, oldest first.
    pub fn batches(&self) -> &[BatchMetadata] {
        &self.batches[..usize::from(self.batch_count)]
    }

    /// The newest batch.
    pub fn last_batch(&self) -> Option<&BatchMetadata> {
        self.batches().last()
    }

    /// Sequence of the last record, or [`NO_SEQUENCE`].
    pub fn last_sequence(&self) -> i32 {
        self.last_batch().map_or(NO_SEQUENCE, |batch| batch.last_sequence)
    }

    fn push(&mut self, batch: BatchMetadata) {
        let count = usize::from(self.batch_count);
        if count == BATCHES_RETAINED {
            self.batches.rotate_left(1);
            self.batches[BATCHES_RETAINED - 1] = batch;
        } else {
            self.batches[count] = batch;
            self.batch_count += 1;
        }
    }

    fn enter_epoch(&mut self, epoch: ProducerEpoch) {
        if self.epoch != epoch {
            self.epoch = epoch;
            self.batch_count = 0;
        }
    }

    fn duplicate_of(&self, header: &BatchHeader) -> Option<BatchMetadata> {
        let last_sequence = header.last_sequence();
        let same = |batch: &&BatchMetadata| {
            batch.first_sequence() == header.base_sequence && batch.last_sequence == last_sequence
        };
        if header.producer_epoch == self.epoch { self.batches().iter().find(same).copied() } else { None }
    }
}

/// What a batch is to the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To be appended.
    Append,
    /// Already there: answer with these offsets and append nothing.
    Duplicate(BatchMetadata),
}

/// Why a producer's batch is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    /// A newer instance of the producer has written already.
    #[error("epoch {epoch} of producer {producer_id} is smaller than the last seen epoch {current}")]
    OldEpoch {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch of the batch.
        epoch: ProducerEpoch,
        /// Epoch that was seen.
        current: ProducerEpoch,
    },
    /// The sequence does not follow the last one; a new epoch has to begin at 0.
    #[error("out of order sequence number for producer {producer_id}: {sequence} (incoming), {last} (current end)")]
    OutOfOrder {
        /// The producer.
        producer_id: ProducerId,
        /// First sequence of the batch.
        sequence: i32,
        /// Last sequence in the log.
        last: i32,
    },
    /// A batch without a transaction while the producer's transaction is open.
    #[error("producer {producer_id} writes outside of its open transaction")]
    OutsideTransaction {
        /// The producer.
        producer_id: ProducerId,
    },
    /// A marker from a coordinator that has been replaced.
    #[error("coordinator epoch {epoch} for producer {producer_id} is smaller than {current}")]
    OldCoordinator {
        /// The producer.
        producer_id: ProducerId,
        /// Epoch of the marker.
        epoch: i32,
        /// Epoch that was seen.
        current: i32,
    },
}

impl ProducerError {
    /// The code that Kafka answers with.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::OldEpoch { .. } => ErrorCode::InvalidProducerEpoch,
            Self::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
            Self::OutsideTransaction { .. } => ErrorCode::InvalidTxnState,
            Self::OldCoordinator { .. } => ErrorCode::TransactionCoordinatorFenced,
        }
    }
}

/// A transaction that a marker has ended in this partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CompletedTransaction {
    /// Its producer.
    pub producer_id: ProducerId,
    /// Offset of its first record.
    pub first_offset: Offset,
    /// Offset of the marker.
    pub last_offset: Offset,
    /// Whether it was aborted.
    pub aborted: bool,
}

/// The producers of one partition.
#[derive(Clone, Debug, Default)]
pub struct ProducerStates {
    producers: HashMap<ProducerId, ProducerState>,
    /// Open transactions by first offset.
    open_transactions: BTreeMap<Offset, ProducerId>,
}

impl ProducerStates {
    /// No producer known.
    pub fn new() -> Self {
        Self::default()
    }

    /// The states of a snapshot; those that have expired by `now_ms` are left out.
    pub fn from_snapshot(entries: impl IntoIterator<Item = ProducerState>, now_ms: i64, expiration_ms: i64) -> Self {
        let mut states = Self::new();
        for entry in entries {
            if !is_expired(&entry, now_ms, expiration_ms) {
                if let Some(start) = entry.transaction_start {
                    states.open_transactions.insert(start, entry.producer_id);
                }
                states.producers.insert(entry.producer_id, entry);
            }
        }
        states
    }

    /// All states by rising producer id, as a snapshot wants them.
    pub fn snapshot(&self) -> Vec<&ProducerState> {
        let mut entries: Vec<_> = self.producers.values().collect();
        entries.sort_unstable_by_key(|entry| entry.producer_id);
        entries
    }

    /// The batches that retries are recognised among, oldest first, of producers of whom more than the last is known: what
    /// a snapshot leaves out. Of the `count_max` such producers that wrote last.
    pub fn recent(&self, count_max: usize) -> Vec<(ProducerId, &[BatchMetadata])> {
        let several = self.producers.values().filter(|state| state.batch_count > 1);
        let mut recent: Vec<_> = several.map(|state| (state.producer_id, state.batches())).collect();
        let newest_first = |(_, batches): &(ProducerId, &[BatchMetadata])| {
            std::cmp::Reverse(batches.last().map_or(-1, |batch| batch.last_offset))
        };
        if recent.len() > count_max {
            recent.select_nth_unstable_by_key(count_max, newest_first);
            recent.truncate(count_max);
        }
        recent.sort_unstable_by_key(|(producer_id, _)| *producer_id);
        recent
    }

    /// Takes back what [`ProducerStates::recent`] gave of a producer, after its snapshot was loaded. Batches that do not end
    /// with the snapshot's are of another time, and are not believed.
    pub fn recall(&mut self, producer_id: ProducerId, batches: &[BatchMetadata]) {
        let Some(state) = self.producers.get_mut(&producer_id) else { return };
        if state.batches() == batches.last().map_or(&[][..], std::slice::from_ref) {
            state.batch_count = 0;
            batches.iter().for_each(|batch| state.push(*batch));
        }
    }

    /// Number of producers known.
    pub fn len(&self) -> usize {
        self.producers.len()
    }

    /// Whether no producer is known.
    pub fn is_empty(&self) -> bool {
        self.producers.is_empty()
    }

    /// What is known of a producer.
    pub fn get(&self, producer_id: ProducerId) -> Option<&ProducerState> {
        self.producers.get(&producer_id)
    }

    /// First offset of the oldest open transaction: no reader of committed data gets past it.
    pub fn first_open_offset(&self) -> Option<Offset> {
        self.open_transactions.first_key_value().map(|(&offset, _)| offset)
    }

    /// Judges a client's batch before it is appended. Batches without producer id are always to be appended.
    pub fn check(&self, header: &BatchHeader) -> Result<Verdict, ProducerError> {
        let known = self.producers.get(&header.producer_id).filter(|_| header.has_producer_id());
        let Some(state) = known else { return Ok(Verdict::Append) };
        if let Some(batch) = state.duplicate_of(header) {
            let is_missed = is_planted(PlantedBug::DuplicateAccepted);
            return Ok(if is_missed { Verdict::Append } else { Verdict::Duplicate(batch) });
        }
        let producer_id = header.producer_id;
        if header.producer_epoch < state.epoch {
            return Err(ProducerError::OldEpoch { producer_id, epoch: header.producer_epoch, current: state.epoch });
        }
        let sequence = header.base_sequence;
        let in_order = if state.epoch == NO_PRODUCER_EPOCH {
            // Known by a marker of unknown epoch only: nothing to compare with.
            true
        } else if header.producer_epoch != state.epoch {
            sequence == 0
        } else {
            let last = state.last_sequence();
            i64::from(sequence) == i64::from(last) + 1 || (sequence == 0 && last == i32::MAX)
        };
        if !in_order {
            return Err(ProducerError::OutOfOrder { producer_id, sequence, last: state.last_sequence() });
        }
        if state.transaction_start.is_some() && !header.is_transactional() {
            return Err(ProducerError::OutsideTransaction { producer_id });
        }
        Ok(Verdict::Append)
    }

    /// Takes in a data batch that is in the log, with its final offsets. What is in the log counts as it is: nothing is
    /// refused, since the leader that wrote it has checked it. Control batches go to [`Self::apply_marker`].
    pub fn apply(&mut self, header: &BatchHeader) {
        if !header.has_producer_id() || header.is_control() {
            return;
        }
        let producer_id = header.producer_id;
        let state = self.producers.entry(producer_id).or_insert_with(|| ProducerState::unknown(producer_id));
        state.enter_epoch(header.producer_epoch);
        state.push(BatchMetadata {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        state.last_timestamp = header.max_timestamp;
        if header.is_transactional() && state.transaction_start.is_none() {
            state.transaction_start = Some(header.base_offset);
            self.open_transactions.insert(header.base_offset, producer_id);
        }
    }

    /// Judges a transaction marker before it is appended.
    pub fn check_marker(&self, header: &BatchHeader, marker: &EndTransactionMarker) -> Result<(), ProducerError> {
        let producer_id = header.producer_id;
        let Some(state) = self.producers.get(&producer_id) else { return Ok(()) };
        if header.producer_epoch < state.epoch {
            return Err(ProducerError::OldEpoch { producer_id, epoch: header.producer_epoch, current: state.epoch });
        }
        if marker.coordinator_epoch < state.coordinator_epoch {
            let (epoch, current) = (marker.coordinator_epoch, state.coordinator_epoch);
            return Err(ProducerError::OldCoordinator { producer_id, epoch, current });
        }
        Ok(())
    }

    /// Takes in a transaction marker that is in the log. Gives the transaction that it ends; none if the producer had none
    /// open here.
    pub fn apply_marker(
        &mut self,
        header: &BatchHeader,
        marker: &EndTransactionMarker,
    ) -> Option<CompletedTransaction> {
        if !header.has_producer_id() || matches!(marker.kind, ControlKind::Other(_)) {
            return None;
        }
        let producer_id = header.producer_id;
        let state = self.producers.entry(producer_id).or_insert_with(|| ProducerState::unknown(producer_id));
        state.enter_epoch(header.producer_epoch);
        state.coordinator_epoch = marker.coordinator_epoch;
        state.last_timestamp = header.max_timestamp;
        let first_offset = state.transaction_start.take()?;
        self.open_transactions.remove(&first_offset);
        let aborted = marker.kind == ControlKind::Abort;
        Some(CompletedTransaction { producer_id, first_offset, last_offset: header.base_offset, aborted })
    }

    /// Forgets producers that have been silent for `expiration_ms`; those with an open transaction stay. Gives how many
    /// went. A forgotten producer may go on with any sequence.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) -> usize {
        let before = self.producers.len();
        self.producers.retain(|_, state| !is_expired(state, now_ms, expiration_ms));
        before - self.producers.len()
    }

    /// When the first of the producers that [`Self::expire`] may forget will have been silent for `expiration_ms`.
    pub fn next_expiry_ms(&self, expiration_ms: i64) -> Option<i64> {
        let idle = self.producers.values().filter(|state| state.transaction_start.is_none());
        idle.map(|state| state.last_timestamp.saturating_add(expiration_ms)).min()
    }

    /// Forgets everything, before it is rebuilt from a snapshot and the log.
    pub fn clear(&mut self) {
        self.producers.clear();
        self.open_transactions.clear();
    }
}

fn is_expired(state: &ProducerState, now_ms: i64, expiration_ms: i64) -> bool {
    state.transaction_start.is_none() && now_ms.saturating_sub(state.last_timestamp) >= expiration_ms
}

#[cfg(test)]
#[path = "producers_tests.rs"]
mod tests;
