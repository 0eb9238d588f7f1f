//! Produce: batches from the socket's buffer to the end of a log, without a look at single records where none is needed.
//!
//! A request without a flush is answered in one go, without a task of its own; its appends happen in the order of the
//! requests. Batches are judged before the log is locked.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;
use taffrail_core::image::MetadataImage;
use taffrail_core::record::{Batch, ProduceError, ProduceRules, validate_produced};
use taffrail_protocol::data::{CurrentLeader, TopicRef};
use taffrail_protocol::message::StrBytes;
use taffrail_protocol::produce::{PartitionProduced, ProducePartition, ProduceRequestView, ProduceResponse};
use taffrail_runtime::time;

use super::{Call, wire};
use crate::listener::service::{CloseReason, Frame, Pace, Reply, Started};
use crate::replica::{Hosted, Partition, Refused};

/// The first version that may carry zstd (KIP-110).
const ZSTD_SINCE: i16 = 7;
/// Client id of the tools that may write to internal topics, as in Kafka.
const ADMIN_CLIENT: &str = "__admin_client";
/// Place of a batch's magic, and the value that we know.
const MAGIC_AT: usize = 16;
const MAGIC: u8 = 2;
/// Place of the lower byte of a batch's attributes, and the bit that makes it transactional.
const ATTRIBUTES_AT: usize = 22;
const TRANSACTIONAL: u8 = 0x10;

/// An append that must be on disk before it is acknowledged.
struct Flush {
    partition: Arc<Partition>,
    /// Up to which offset.
    offset: i64,
    /// Where its answer stands.
    place: (usize, usize),
}

/// What is the same for all partitions of a request.
struct Context<'a> {
    hosted: &'a Hosted,
    image: &'a MetadataImage,
    version: i16,
    all_in_sync: bool,
    may_write_internal: bool,
    now_ms: i64,
}

pub(crate) fn start(mut call: Call) -> Started {
    let request = match ProduceRequestView::decode(call.version, std::mem::take(&mut call.body)) {
        Ok(request) => request,
        Err(error) => return Started::Done(call.undecodable(&error)),
    };
    let (response, flushes) = append_all(&call, &request);
    let acks = request.acks;
    if flushes.is_empty() {
        return Started::Done(answer(&call, acks, response));
    }
    Started::Running(Box::pin(flush_all(call, acks, response, flushes)), Pace::Committing)
}

/// Appends all partitions' batches, and says what must be flushed before the answer may go.
fn append_all(call: &Call, request: &ProduceRequestView) -> (ProduceResponse, Vec<Flush>) {
    let hosted = call.broker.replicas.glance();
    let image = call.broker.metadata.glance();
    let context = Context {
        hosted: &hosted,
        image: &image,
        version: call.version,
        all_in_sync: request.acks == -1,
        may_write_internal: *call.client.client_id == *ADMIN_CLIENT,
        now_ms: time::unix_ms(),
    };
    let refusal = objection(request);
    let mut response = ProduceResponse::default();
    let mut flushes = Vec::new();
    for (topic, partitions) in request.topics() {
        let mut answers = Vec::with_capacity(partitions.len());
        for asked in partitions {
            let place = (response.topics.len(), answers.len());
            let answer = match refusal {
                Some(error) => PartitionProduced::refused(asked.index, error),
                None => append(&context, topic, asked, |partition, offset| {
                    flushes.push(Flush { partition, offset, place });
                }),
            };
            if let Some(leader) = answer.current_leader {
                name_leader(&mut response, &context, leader, &call.client.listener);
            }
            answers.push(answer);
        }
        response.topics.push((topic.clone(), answers));
    }
    (response, flushes)
}

/// What is wrong with a request as a whole.
fn objection(request: &ProduceRequestView) -> Option<ErrorCode> {
    if !matches!(request.acks, -1..=1) {
        return Some(ErrorCode::InvalidRequiredAcks);
    }
    // There are no transactions yet, so nobody may write in one.
    let mut batches = request.topics().flat_map(|(_, partitions)| partitions);
    let is_transactional = |asked: &ProducePartition| asked.records.as_ref().is_some_and(is_transactional);
    batches.any(is_transactional).then_some(ErrorCode::TransactionalIdAuthorizationFailed)
}

fn is_transactional(records: &Bytes) -> bool {
    records.get(MAGIC_AT) == Some(&MAGIC)
        && records.get(ATTRIBUTES_AT).is_some_and(|attributes| attributes & TRANSACTIONAL != 0)
}

/// Appends one partition's batch; `flush_later` hears of an append that must be flushed before it is acknowledged.
fn append(
    context: &Context<'_>,
    topic: &TopicRef,
    asked: &ProducePartition,
    flush_later: impl FnOnce(Arc<Partition>, i64),
) -> PartitionProduced {
    let partition = match context.hosted.partition(topic, asked.index, context.image) {
        Ok(partition) => partition,
        Err(refused) => return not_taken(asked.index, refused, -1),
    };
    let counters = &partition.topic.counters;
    counters.produce_requests.inc();
    let answer = append_to(context, partition, asked, flush_later);
    if answer.error != ErrorCode::None {
        counters.failed_produce_requests.inc();
    }
    answer
}

fn append_to(
    context: &Context<'_>,
    partition: &Arc<Partition>,
    asked: &ProducePartition,
    flush_later: impl FnOnce(Arc<Partition>, i64),
) -> PartitionProduced {
    if partition.topic.is_internal && !context.may_write_internal {
        return PartitionProduced::refused(asked.index, ErrorCode::InvalidTopicException);
    }
    let settings = partition.topic.settings.load();
    let rules = ProduceRules { now_ms: context.now_ms, zstd_allowed: context.version >= ZSTD_SINCE, ..settings.rules };
    // Null means no records.
    let none = Bytes::new();
    let batch = match validate_produced(asked.records.as_ref().unwrap_or(&none), &rules) {
        Ok(produced) => Batch::from(produced),
        Err(error) => return invalid(asked.index, &error, partition.offsets().log_start),
    };
    match partition.append(batch, context.all_in_sync, context.now_ms) {
        Ok(appended) => {
            if appended.needs_flush {
                flush_later(Arc::clone(partition), appended.last_offset + 1);
            }
            PartitionProduced::taken(
                asked.index,
                appended.base_offset,
                appended.log_append_time_ms,
                appended.log_start_offset,
            )
        }
        Err(refused) => {
            let log_start = match refused.error {
                ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => -1,
                _ => partition.offsets().log_start,
            };
            not_taken(asked.index, refused, log_start)
        }
    }
}

fn not_taken(index: i32, refused: Refused, log_start_offset: i64) -> PartitionProduced {
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
        log_start_offset: if faults.is_empty() { -1 } else { log_start_offset },
        ..PartitionProduced::refused(index, error.code())
    }
}

/// Adds where a leader listens that an answer names (KIP-951).
fn name_leader(response: &mut ProduceResponse, context: &Context<'_>, leader: CurrentLeader, listener: &str) {
    let known = response.node_endpoints.iter().any(|endpoint| endpoint.node_id == leader.leader_id);
    if !known {
        let id = taffrail_core::ids::BrokerId(leader.leader_id);
        response.node_endpoints.extend(wire::node_endpoint(context.image, id, listener));
    }
}

/// Waits for the disk, then answers.
async fn flush_all(call: Call, acks: i16, mut response: ProduceResponse, flushes: Vec<Flush>) -> Reply {
    let waits = flushes.into_iter().map(async |flush| {
        let Flush { partition, offset, place } = flush;
        (place, partition.log().flush_to(offset).await)
    });
    for ((topic, partition), flushed) in futures::future::join_all(waits).await {
        if let Err(error) = flushed {
            tracing::warn!(%error, "an append could not be made durable");
            let answer = &mut response.topics[topic].1[partition];
            *answer = PartitionProduced::refused(answer.index, ErrorCode::KafkaStorageError);
        }
    }
    answer(&call, acks, response)
}

/// What the client gets: with acks=0 nothing, and when something failed, the end of its connection.
fn answer(call: &Call, acks: i16, response: ProduceResponse) -> Reply {
    if acks == 0 {
        call.broker.metrics.requests.finished(call.key, call.started);
        let mut answers = response.topics.iter().flat_map(|(_, answers)| answers);
        return match answers.find(|answer| answer.error != ErrorCode::None) {
            Some(failed) => Reply::Close(CloseReason::SilentProduceFailed(failed.error.name())),
            None => Reply::Silent,
        };
    }
    let mut out = BytesMut::with_capacity(super::ANSWER_BYTES);
    let encoded = response.encode(call.version, call.correlation_id, &mut out);
    call.encoded(encoded.map(|()| Frame::from(out.freeze())))
}
