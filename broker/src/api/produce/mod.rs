//! Produce: batches from the socket's buffer to the end of a log, without a look at single records where none is needed.
//!
//! Requests that arrived together are worked on together, so that a partition is written once for all of them. Those that
//! need no flush and wait for no follower are answered in one go, without a task of their own. Batches are judged before a
//! log is locked.

mod appends;
mod commits;

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::data::CurrentLeader;
use taffrail_protocol::produce::{PartitionProduced, ProducePartition, ProduceRequestView, ProduceResponse};
use taffrail_runtime::time;

use self::appends::{Appends, Rules, not_taken};
use self::commits::{Commits, Committing};
use super::{Call, wire};
use crate::listener::service::{CloseReason, Frame, Pace, Reply, Started};
use crate::replica::Partition;

/// Client id of the tools that may write to internal topics, as in Kafka.
const ADMIN_CLIENT: &str = "__admin_client";
/// Place of a batch's magic, and the value that we know.
const MAGIC_AT: usize = 16;
const MAGIC: u8 = 2;
/// Place of the lower byte of a batch's attributes, and the bit that makes it transactional.
const ATTRIBUTES_AT: usize = 22;
const TRANSACTIONAL: u8 = 0x10;

/// Where the answer for a partition stands in a response.
#[derive(Clone, Copy)]
struct Place {
    topic: usize,
    partition: usize,
}

/// An append that must be on disk before it is acknowledged.
struct Flush {
    partition: Arc<Partition>,
    /// Up to which offset.
    offset: i64,
    place: Place,
}

/// A request on its way to its answer.
struct Request {
    call: Call,
    acks: i16,
    /// When an append must be acknowledged that waits for other replicas.
    timeout_ms: i32,
    response: ProduceResponse,
    flushes: Vec<Flush>,
    commits: Vec<(Committing, Place)>,
}

/// Starts a request that arrived alone.
pub(crate) fn start(call: Call) -> Started {
    let started = start_all(vec![call]).pop();
    started.unwrap_or_else(|| unreachable!("one request was started"))
}

/// Starts requests of one connection, in their order.
pub(crate) fn start_all(calls: Vec<Call>) -> Vec<Started> {
    let Some(broker) = calls.first().map(|call| Arc::clone(&call.broker)) else { return Vec::new() };
    let (hosted, image) = (broker.replicas.glance(), broker.metadata.glance());
    let now_ms = time::unix_ms();
    let mut appends = Appends::default();
    let judge = |(number, mut call): (usize, Call)| {
        let decoded = ProduceRequestView::decode(call.version, std::mem::take(&mut call.body));
        let request = decoded.map_err(|error| call.undecodable(&error))?;
        let rules = Rules {
            hosted: &hosted,
            image: &image,
            version: call.version,
            all_in_sync: request.acks == -1,
            may_write_internal: *call.client.client_id == *ADMIN_CLIENT,
            now_ms,
        };
        let mut judged = Request {
            call,
            acks: request.acks,
            timeout_ms: request.timeout_ms,
            response: skeleton(&request),
            flushes: Vec::new(),
            commits: Vec::new(),
        };
        judged.judge(number, &request, &rules, &mut appends);
        Ok(judged)
    };
    let mut requests: Vec<Result<Request, Reply>> = calls.into_iter().enumerate().map(judge).collect();
    appends.carry_out(now_ms, |number, place, outcome| {
        if let Ok(request) = &mut requests[number] {
            request.settle(place, outcome, &image);
        }
    });
    requests.into_iter().map(|request| request.map_or_else(Started::Done, Request::start)).collect()
}

/// A response with a place for each partition of a request.
fn skeleton(request: &ProduceRequestView) -> ProduceResponse {
    let unanswered = |asked: &ProducePartition| PartitionProduced::refused(asked.index, ErrorCode::UnknownServerError);
    let topics =
        request.topics().map(|(topic, partitions)| (topic.clone(), partitions.iter().map(unanswered).collect()));
    ProduceResponse { topics: topics.collect(), ..ProduceResponse::default() }
}

/// What became of a partition's batch.
struct Outcome {
    answer: PartitionProduced,
    flush: Option<(Arc<Partition>, i64)>,
    commit: Option<Committing>,
}

impl From<PartitionProduced> for Outcome {
    fn from(answer: PartitionProduced) -> Self {
        Self { answer, flush: None, commit: None }
    }
}

impl Request {
    /// Judges each partition's batch: those that may be appended go to `appends`, the others are answered.
    fn judge(&mut self, number: usize, request: &ProduceRequestView, rules: &Rules<'_>, appends: &mut Appends) {
        let refusal = objection(request);
        for (topic, (name, partitions)) in request.topics().enumerate() {
            for (partition, asked) in partitions.iter().enumerate() {
                let place = Place { topic, partition };
                let judged = match refusal {
                    Some(error) => Err(PartitionProduced::refused(asked.index, error)),
                    None => appends.judge(rules, name, asked, (number, place)),
                };
                if let Err(answer) = judged {
                    self.settle(place, answer.into(), rules.image);
                }
            }
        }
    }

    /// Takes in what became of a partition's batch.
    fn settle(&mut self, place: Place, outcome: Outcome, image: &MetadataImage) {
        if let Some(leader) = outcome.answer.current_leader {
            self.name_leader(leader, image);
        }
        if let Some((partition, offset)) = outcome.flush {
            self.flushes.push(Flush { partition, offset, place });
        }
        self.commits.extend(outcome.commit.map(|commit| (commit, place)));
        self.response.topics[place.topic].1[place.partition] = outcome.answer;
    }

    /// Adds where a leader listens that an answer names (KIP-951).
    fn name_leader(&mut self, leader: CurrentLeader, image: &MetadataImage) {
        let endpoints = &mut self.response.node_endpoints;
        if !endpoints.iter().any(|endpoint| endpoint.node_id == leader.leader_id) {
            let id = taffrail_core::ids::BrokerId(leader.leader_id);
            endpoints.extend(wire::node_endpoint(image, id, &self.call.client.listener));
        }
    }

    fn start(mut self) -> Started {
        let commits = Commits::begin(std::mem::take(&mut self.commits));
        let is_committed = commits.as_ref().is_none_or(Commits::is_done);
        if self.flushes.is_empty() && is_committed {
            self.take_in(commits.as_ref());
            return Started::Done(self.answer());
        }
        let deadline = wire::deadline(self.timeout_ms);
        Started::Running(Box::pin(self.finish(commits, deadline)), Pace::Committing)
    }

    /// Waits for the disk and for other replicas, then answers.
    async fn finish(mut self, commits: Option<Commits>, deadline: time::Instant) -> Reply {
        let committed = async {
            if let Some(commits) = &commits {
                commits.done(deadline).await;
            }
        };
        let flushes = std::mem::take(&mut self.flushes);
        let ((), flushed) = futures::future::join(committed, flush_all(flushes)).await;
        self.take_in(commits.as_ref());
        for place in flushed {
            let answer = &mut self.response.topics[place.topic].1[place.partition];
            *answer = PartitionProduced::refused(answer.index, ErrorCode::KafkaStorageError);
        }
        self.answer()
    }

    /// Takes in which appends are not acknowledged.
    fn take_in(&mut self, commits: Option<&Commits>) {
        let Some(commits) = commits else { return };
        let image = self.call.broker.metadata.image();
        for (place, partition, error) in commits.failed() {
            partition.topic.counters.failed_produce_requests.inc();
            let refused = partition.check_leader(-1).err().filter(|refused| refused.error == error);
            let answer = &mut self.response.topics[place.topic].1[place.partition];
            let leader = not_taken(answer.index, refused.unwrap_or(error.into()), -1).current_leader;
            // As in Kafka the rest of the answer stays: where the records are, acknowledged or not.
            (answer.error, answer.current_leader) = (error, leader);
            if let Some(leader) = leader {
                self.name_leader(leader, &image);
            }
        }
    }

    /// What the client gets: with acks=0 nothing, and when something failed, the end of its connection.
    fn answer(self) -> Reply {
        let Self { call, acks, response, .. } = self;
        if acks == 0 {
            call.unanswered();
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
}

/// Waits until appends are on the disk; gives the places of those that are not.
async fn flush_all(flushes: Vec<Flush>) -> Vec<Place> {
    let waits = flushes.into_iter().map(async |flush| {
        let Flush { partition, offset, place } = flush;
        let flushed = partition.log().flush_to(offset).await;
        flushed.inspect_err(|error| tracing::warn!(%error, "an append could not be made durable")).err().map(|_| place)
    });
    futures::future::join_all(waits).await.into_iter().flatten().collect()
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
