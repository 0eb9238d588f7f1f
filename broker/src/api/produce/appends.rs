//! From what a request asks of a partition to what its log says: batches are judged one by one, and appended together
//! where they go to the same partition.

use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::LeaderEpoch;
use taffrail_core::image::MetadataImage;
use taffrail_core::record::{Batch, ProduceError, ProduceRules, validate_produced};
use taffrail_protocol::data::{CurrentLeader, TopicRef};
use taffrail_protocol::message::StrBytes;
use taffrail_protocol::produce::{PartitionProduced, ProducePartition};
use taffrail_storage::Appended;

use super::commits::Committing;
use super::{Outcome, Place};
use crate::replica::{Hosted, Partition, Refused};

/// The first version that may carry zstd (KIP-110).
const ZSTD_SINCE: i16 = 7;

/// By what the batches of one request are judged.
pub(super) struct Rules<'a> {
    pub(super) hosted: &'a Hosted,
    pub(super) image: &'a MetadataImage,
    /// Of the request.
    pub(super) version: i16,
    /// The producer wants all replicas in sync to have its records.
    pub(super) all_in_sync: bool,
    pub(super) may_write_internal: bool,
    pub(super) now_ms: i64,
}

/// A batch that may be appended, and who is told what became of it.
struct Append {
    partition: Arc<Partition>,
    batch: Batch,
    all_in_sync: bool,
    index: i32,
    /// Number of the request, and the place in its response.
    answer_to: (usize, Place),
}

/// The batches of requests that arrived together, in their order.
#[derive(Default)]
pub(super) struct Appends(Vec<Append>);

impl Appends {
    /// Takes up a partition's batch if it may be appended.
    ///
    /// # Errors
    /// The answer for a batch that may not.
    pub(super) fn judge(
        &mut self,
        rules: &Rules<'_>,
        topic: &TopicRef,
        asked: &ProducePartition,
        answer_to: (usize, Place),
    ) -> Result<(), PartitionProduced> {
        let partition = match rules.hosted.partition(topic, asked.index, rules.image) {
            Ok(partition) => partition,
            Err(refused) => return Err(not_taken(asked.index, refused, -1)),
        };
        let counters = &partition.topic.counters;
        counters.produce_requests.inc();
        let batch = judge_batch(rules, partition, asked).inspect_err(|_| counters.failed_produce_requests.inc())?;
        let (partition, all_in_sync) = (Arc::clone(partition), rules.all_in_sync);
        self.0.push(Append { partition, batch, all_in_sync, index: asked.index, answer_to });
        Ok(())
    }

    /// Appends everything, each partition's batches together and in their order; `settle` hears what became of each.
    pub(super) fn carry_out(mut self, now_ms: i64, mut settle: impl FnMut(usize, Place, Outcome)) {
        // A stable sort: what goes to a partition stays in order.
        self.0.sort_by_key(|append| (append.partition.topic.id, append.partition.index, append.all_in_sync));
        let mut batches = Vec::with_capacity(self.0.len());
        let mut results = Vec::with_capacity(self.0.len());
        let is_same = |one: &Append, other: &Append| {
            Arc::ptr_eq(&one.partition, &other.partition) && one.all_in_sync == other.all_in_sync
        };
        for appends in self.0.chunk_by(is_same) {
            let (partition, all_in_sync) = (&appends[0].partition, appends[0].all_in_sync);
            batches.extend(appends.iter().map(|append| append.batch.clone()));
            let leader_epoch = partition.append_each(&batches, all_in_sync, now_ms, |result| results.push(result));
            for (append, result) in appends.iter().zip(results.drain(..)) {
                let (request, place) = append.answer_to;
                let mut outcome = outcome(partition, append.index, &result);
                if all_in_sync && let Ok(appended) = &result {
                    outcome.commit = commit(partition, appended, leader_epoch);
                }
                settle(request, place, outcome);
            }
            batches.clear();
        }
    }
}

/// The batch that is asked to be appended, if it keeps all rules.
fn judge_batch(rules: &Rules<'_>, partition: &Partition, asked: &ProducePartition) -> Result<Batch, PartitionProduced> {
    if partition.topic.is_internal && !rules.may_write_internal {
        return Err(PartitionProduced::refused(asked.index, ErrorCode::InvalidTopicException));
    }
    let settings = partition.topic.settings.load();
    let of_topic = ProduceRules { now_ms: rules.now_ms, zstd_allowed: rules.version >= ZSTD_SINCE, ..settings.rules };
    // Null means no records.
    let none = Bytes::new();
    validate_produced(asked.records.as_ref().unwrap_or(&none), &of_topic)
        .map(Batch::from)
        .map_err(|error| invalid(asked.index, &error, partition.offsets().log_start))
}

/// What an append means for the answer.
fn outcome(partition: &Arc<Partition>, index: i32, result: &Result<Appended, Refused>) -> Outcome {
    match *result {
        Ok(appended) => {
            let flush = appended.needs_flush.then(|| (Arc::clone(partition), appended.last_offset + 1));
            let Appended { base_offset, log_append_time_ms, log_start_offset, .. } = appended;
            let answer = PartitionProduced::taken(index, base_offset, log_append_time_ms, log_start_offset);
            Outcome { answer, flush, commit: None }
        }
        Err(refused) => {
            partition.topic.counters.failed_produce_requests.inc();
            let log_start = match refused.error {
                ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => -1,
                _ => partition.offsets().log_start,
            };
            not_taken(index, refused, log_start).into()
        }
    }
}

/// What an append with acks=all waits for; nothing if it is committed already, as it is where there is one replica.
fn commit(partition: &Arc<Partition>, appended: &Appended, leader_epoch: LeaderEpoch) -> Option<Committing> {
    let end = appended.last_offset + 1;
    let waits = partition.log().high_watermark() < end || partition.has_followers();
    waits.then(|| Committing { partition: Arc::clone(partition), end, leader_epoch })
}

pub(super) fn not_taken(index: i32, refused: Refused, log_start_offset: i64) -> PartitionProduced {
    let leader = refused.leader.filter(|_| refused.error == ErrorCode::NotLeaderOrFollower);
    let current_leader = leader.map(|(id, leader_epoch)| CurrentLeader { leader_id: id.0, leader_epoch });
    PartitionProduced { log_start_offset, current_leader, ..PartitionProduced::refused(index, refused.error) }
}

/// The answer for a batch that breaks a rule.
fn invalid(index: i32, error: &ProduceError, log_start_offset: i64) -> PartitionProduced {
    let faults = error.faults();
    let fault = |fault: &taffrail_core::record::RecordFault| (fault.index, Some(StrBytes::from(fault.message.clone())));
    PartitionProduced {
        record_errors: faults.iter().map(fault).collect(),
        error_message: Some(StrBytes::from(error.to_string())),
        // Kafka does not look at the log for what it refuses by its header alone.
        log_start_offset: if error.code() == ErrorCode::InvalidRecord || !faults.is_empty() {
            log_start_offset
        } else {
            -1
        },
        ..PartitionProduced::refused(index, error.code())
    }
}
