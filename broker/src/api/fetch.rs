//! Fetch: ranges of logs to consumers, by way of the page cache.
//!
//! Nothing is held while a fetch waits but the list of its partitions. Ranges that the kernel may not have are read and
//! checked on the disk pool first; large ones then go by `sendfile`, small ones are copied, because a system call would
//! cost more.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use taffrail_core::errors::ErrorCode;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::data::{CurrentLeader, TopicRef};
use taffrail_protocol::fetch::{
    Chunk as WireChunk, FetchPartition, FetchRequestView, FetchResponse, PartitionFetched, Records,
};
use taffrail_runtime::{random, time};
use taffrail_storage::disk::read_exact_at;
use taffrail_storage::{FileRange, LogRead};

use super::{Call, wire};
use crate::fetch::cache::Context;
use crate::fetch::read::{Findings, Found, Item, Limits};
use crate::fetch::session::{EPOCH_FINAL, NO_SESSION, PartitionKey, Session, Told, Wanted, next_epoch};
use crate::fetch::wait::read_enough;
use crate::listener::Share;
use crate::listener::service::{Chunk, Chunks, Frame, Pace, Reply, Started};
use crate::replica::{Partition, Refused, read_refusal};

/// Ranges below this are copied into the answer rather than sent from the file.
const COPY_BELOW_BYTES: u64 = 16 * 1024;
/// Longest wait that a fetch may ask for.
const WAIT_MAX_MS: i32 = 600_000;
/// The first version that gives topics by id.
const TOPIC_IDS_SINCE: i16 = 13;

/// Records of one partition on their way out.
enum Range {
    File(FileRange),
    Bytes(Bytes),
}

impl Records for Range {
    fn size_bytes(&self) -> usize {
        match self {
            Self::File(range) => range.length as usize,
            Self::Bytes(bytes) => bytes.len(),
        }
    }
}

pub(crate) fn start(mut call: Call) -> Started {
    match FetchRequestView::decode(call.version, std::mem::take(&mut call.body)) {
        Ok(request) => Started::Running(Box::pin(run(call, request)), Pace::Waiting),
        Err(error) => Started::Done(call.undecodable(&error)),
    }
}

async fn run(call: Call, request: FetchRequestView) -> Reply {
    let context = match begin(&call, &request) {
        Ok(context) => context,
        Err(error) => return reply(&call, FetchResponse { error, ..FetchResponse::default() }, None),
    };
    let items = Arc::new(items(&call, &request, &context));
    let limits = Limits {
        max_bytes: u64::try_from(request.max_bytes.min(call.broker.config.load().fetch_max_bytes)).unwrap_or(0),
        committed_only: request.isolation_level == 1,
    };
    let min_bytes = u64::try_from(request.min_bytes).unwrap_or(0);
    let wait_ms = request.max_wait_ms.min(WAIT_MAX_MS);
    let deadline = (wait_ms > 0).then(|| wire::deadline(wait_ms));
    let mut findings = read_enough(call.broker.disk_pool(), &items, limits, min_bytes, deadline).await;
    warm(&call, &mut findings).await;
    let mut copies = Copies::new(&call);
    let answers = answers(&items, findings, limits.committed_only, &mut copies);
    let response = respond(&call, &request, &context, &items, answers);
    reply(&call, response, copies.share)
}

/// Finds the session, and brings it up to date.
fn begin(call: &Call, request: &FetchRequestView) -> Result<Context, ErrorCode> {
    let (id, epoch) = (request.session_id, request.session_epoch);
    if id == NO_SESSION && epoch == EPOCH_FINAL {
        return Ok(Context::Sessionless);
    }
    let forgotten: Vec<PartitionKey> = request
        .forgotten
        .iter()
        .flat_map(|(topic, partitions)| partitions.iter().map(|partition| key(topic, *partition)))
        .collect();
    let wanted = request
        .topics()
        .flat_map(|(topic, partitions)| partitions.iter().map(|asked| (key(topic, asked.index), wanted(asked))));
    let by_id = call.version >= TOPIC_IDS_SINCE;
    call.broker.sessions.lock().begin((id, epoch), by_id, time::unix_ms(), wanted, forgotten.iter())
}

fn key(topic: &TopicRef, partition: i32) -> PartitionKey {
    PartitionKey { topic: topic.clone(), partition }
}

fn wanted(asked: &FetchPartition) -> Wanted {
    Wanted {
        fetch_offset: asked.fetch_offset,
        max_bytes: asked.max_bytes,
        current_leader_epoch: asked.current_leader_epoch,
        last_fetched_epoch: asked.last_fetched_epoch,
    }
}

/// The partitions that this request is about, in the order in which they are served.
fn items(call: &Call, request: &FetchRequestView, context: &Context) -> Vec<Item> {
    let (hosted, image) = (call.broker.replicas.glance(), call.broker.metadata.glance());
    let item = |topic: &TopicRef, index: i32, wanted: Wanted| {
        let partition = hosted.partition(topic, index, &image).cloned();
        let partition = partition.and_then(|partition| readable_by(request.replica_id, partition));
        if let Ok(partition) = &partition {
            partition.topic.counters.fetch_requests.inc();
        }
        Item { topic: topic.clone(), index, wanted, partition }
    };
    match context {
        Context::Incremental(session) => {
            let session = session.lock();
            session.partitions().map(|(key, wanted)| item(&key.topic, key.partition, wanted)).collect()
        }
        Context::Sessionless | Context::Full => {
            let mut items = Vec::with_capacity(request.partition_count());
            for (topic, partitions) in request.topics() {
                items.extend(partitions.iter().map(|asked| item(topic, asked.index, wanted(asked))));
            }
            items
        }
    }
}

/// Refuses replicas: a partition has no followers yet, so whoever says that it is one is a stranger.
fn readable_by(replica_id: i32, partition: Arc<Partition>) -> Result<Arc<Partition>, Refused> {
    if replica_id < 0 { Ok(partition) } else { Err(ErrorCode::NotLeaderOrFollower.into()) }
}

/// Reads what the kernel may not have into its cache, off the shard.
async fn warm(call: &Call, findings: &mut Findings) {
    let is_cold = |found: &&mut Found| matches!(found, Found::Readable { read: Some(read), .. } if !read.is_warm);
    let cold = findings.found.iter_mut().filter(is_cold).map(async |found| {
        let Found::Readable { read: Some(read), .. } = found else { return };
        if let Err(error) = read.warm(call.broker.disk_pool()).await {
            match error {
                // The client asks again; others may have been served meanwhile.
                taffrail_storage::ReadError::Busy => read.range = None,
                error => *found = Found::Failed(read_refusal(&error)),
            }
        }
    });
    futures::future::join_all(cold).await;
}

/// Copies of small ranges, in one buffer, paid from a budget of the process so that slow readers cannot pin much memory.
struct Copies<'a> {
    call: &'a Call,
    buffer: BytesMut,
    share: Option<Share>,
    bytes: usize,
}

impl<'a> Copies<'a> {
    fn new(call: &'a Call) -> Self {
        Self { call, buffer: BytesMut::new(), share: None, bytes: 0 }
    }

    /// The range as it is to be sent.
    fn range(&mut self, range: &FileRange) -> Result<Range, ErrorCode> {
        let must_copy = range.file.as_file().is_none();
        if !must_copy && (range.length >= COPY_BELOW_BYTES || !self.pay(range.length as usize)) {
            return Ok(Range::File(range.clone()));
        }
        self.buffer.resize(range.length as usize, 0);
        read_exact_at(&*range.file, &mut self.buffer, range.position).map_err(|error| {
            tracing::warn!(%error, "records could not be read");
            ErrorCode::KafkaStorageError
        })?;
        Ok(Range::Bytes(self.buffer.split().freeze()))
    }

    fn pay(&mut self, bytes: usize) -> bool {
        let budget = &self.call.broker.response_memory;
        let share = self.share.get_or_insert_with(|| budget.empty_share());
        let paid = budget.try_grow(share, self.bytes + bytes);
        if paid {
            self.bytes += bytes;
        }
        paid
    }
}

/// What is answered for each partition, with what the session compares.
fn answers(
    items: &[Item],
    findings: Findings,
    committed_only: bool,
    copies: &mut Copies<'_>,
) -> Vec<PartitionFetched<Range>> {
    let answer = |(item, found): (&Item, Found)| {
        let answer = match found {
            Found::Failed(refused) => failed(item.index, refused),
            Found::Diverging { offsets, epoch, end_offset } => PartitionFetched {
                high_watermark: offsets.high_watermark,
                last_stable_offset: offsets.last_stable,
                log_start_offset: offsets.log_start,
                diverging_epoch: Some((epoch, end_offset)),
                ..PartitionFetched::failed(item.index, ErrorCode::None)
            },
            Found::Readable { offsets, read } => match records(read, copies) {
                Err(error) => failed(item.index, error.into()),
                Ok(records) => PartitionFetched {
                    high_watermark: offsets.high_watermark,
                    last_stable_offset: offsets.last_stable,
                    log_start_offset: offsets.log_start,
                    aborted_transactions: committed_only.then(Vec::new),
                    records,
                    ..PartitionFetched::failed(item.index, ErrorCode::None)
                },
            },
        };
        count(item, &answer);
        answer
    };
    items.iter().zip(findings.found).map(answer).collect()
}

fn records(read: Option<LogRead>, copies: &mut Copies<'_>) -> Result<Vec<Range>, ErrorCode> {
    match read.and_then(|read| read.range) {
        Some(range) => Ok(vec![copies.range(&range)?]),
        None => Ok(Vec::new()),
    }
}

fn failed(index: i32, refused: Refused) -> PartitionFetched<Range> {
    let tells_leader = matches!(refused.error, ErrorCode::NotLeaderOrFollower | ErrorCode::FencedLeaderEpoch);
    let leader = refused.leader.filter(|_| tells_leader);
    let current_leader = leader.map(|(id, leader_epoch)| CurrentLeader { leader_id: id.0, leader_epoch });
    PartitionFetched { current_leader, ..PartitionFetched::failed(index, refused.error) }
}

fn count(item: &Item, answer: &PartitionFetched<Range>) {
    let Ok(partition) = &item.partition else { return };
    let counters = &partition.topic.counters;
    let bytes: usize = answer.records.iter().map(Records::size_bytes).sum();
    if bytes > 0 {
        counters.bytes_out.inc_by(bytes as u64);
    }
    if answer.error != ErrorCode::None {
        counters.failed_fetch_requests.inc();
    }
}

/// Puts the answers together, as the session wants them.
fn respond(
    call: &Call,
    request: &FetchRequestView,
    context: &Context,
    items: &[Item],
    answers: Vec<PartitionFetched<Range>>,
) -> FetchResponse<Range> {
    match context {
        Context::Sessionless => all(call, items, answers, NO_SESSION),
        Context::Full => {
            let id = create_session(call, items, &answers);
            all(call, items, answers, id)
        }
        Context::Incremental(session) => news(call, session, request, items, answers),
    }
}

fn all(call: &Call, items: &[Item], answers: Vec<PartitionFetched<Range>>, session_id: i32) -> FetchResponse<Range> {
    let answers = items.iter().zip(answers);
    grouped(call, answers, FetchResponse { session_id, ..FetchResponse::default() })
}

fn create_session(call: &Call, items: &[Item], answers: &[PartitionFetched<Range>]) -> i32 {
    let by_id = call.version >= TOPIC_IDS_SINCE;
    let fill = |session: &mut Session| {
        for (item, answer) in items.iter().zip(answers) {
            let key = key(&item.topic, item.index);
            session.want(&key, item.wanted);
            // Everything is told in a full answer, so only what it says counts, not whether it is new.
            session.tell(&key, &told(answer));
        }
    };
    call.broker.sessions.lock().create(items.len(), by_id, time::unix_ms(), random::u64, fill)
}

/// Only what is new.
fn news(
    call: &Call,
    session: &Mutex<Session>,
    request: &FetchRequestView,
    items: &[Item],
    answers: Vec<PartitionFetched<Range>>,
) -> FetchResponse<Range> {
    let mut session = session.lock();
    if session.epoch != next_epoch(request.session_epoch) {
        // Another request of the session came meanwhile; the client is not in step.
        return FetchResponse { error: ErrorCode::InvalidFetchSessionEpoch, ..FetchResponse::default() };
    }
    let mut new = Vec::new();
    for (item, answer) in items.iter().zip(answers) {
        if session.tell(&key(&item.topic, item.index), &told(&answer)) {
            new.push((item, answer));
        }
    }
    let response = FetchResponse { session_id: session.id, ..FetchResponse::default() };
    drop(session);
    grouped(call, new.into_iter(), response)
}

fn told(answer: &PartitionFetched<Range>) -> Told {
    Told {
        error: answer.error,
        records_bytes: answer.records.iter().map(Records::size_bytes).sum(),
        high_watermark: answer.high_watermark,
        log_start_offset: answer.log_start_offset,
        diverging: answer.diverging_epoch.is_some(),
    }
}

/// Adds the answers by topic, with the addresses of leaders that they name (KIP-951).
fn grouped<'a>(
    call: &Call,
    answers: impl Iterator<Item = (&'a Item, PartitionFetched<Range>)>,
    mut response: FetchResponse<Range>,
) -> FetchResponse<Range> {
    let mut image: Option<Arc<MetadataImage>> = None;
    for (item, answer) in answers {
        if let Some(leader) = answer.current_leader
            && !response.node_endpoints.iter().any(|endpoint| endpoint.node_id == leader.leader_id)
        {
            let image = image.get_or_insert_with(|| call.broker.metadata.image());
            let id = taffrail_core::ids::BrokerId(leader.leader_id);
            response.node_endpoints.extend(wire::node_endpoint(image, id, &call.client.listener));
        }
        match response.topics.last_mut() {
            Some((topic, partitions)) if *topic == item.topic => partitions.push(answer),
            _ => response.topics.push((item.topic.clone(), vec![answer])),
        }
    }
    response
}

fn reply(call: &Call, response: FetchResponse<Range>, held: Option<Share>) -> Reply {
    let chunks = response.into_chunks(call.version, call.correlation_id);
    let chunk = |chunk| match chunk {
        WireChunk::Bytes(bytes) | WireChunk::Records(Range::Bytes(bytes)) => Chunk::Bytes(bytes),
        WireChunk::Records(Range::File(range)) => Chunk::File(range),
    };
    let frame =
        chunks.map(|chunks| Frame { chunks: Chunks::Many(chunks.into_iter().map(chunk).collect()), _held: held });
    call.encoded(frame)
}
