//! Fetch: ranges of logs to consumers and to followers, by way of the page cache.
//!
//! A follower's fetch says what it has, which the leader notes before anything waits. Nothing is held while a fetch waits
//! but the list of its partitions. Ranges that the kernel may not have are read and checked on the disk pool first; large
//! ones then go by `sendfile`, small ones are copied, because a system call would cost more.

use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_core::partition::FollowerFetch;
use taffrail_protocol::data::{CurrentLeader, TopicRef};
use taffrail_protocol::fetch::{
    Chunk as WireChunk, FetchPartition, FetchRequestView, FetchResponse, PartitionFetched, Records,
};
use taffrail_runtime::{random, time};
use taffrail_storage::disk::read_exact_at;
use taffrail_storage::{FileRange, LogRead};

use super::{Call, wire};
use crate::fetch::cache::Context;
use crate::fetch::read::{Findings, Found, Item, Limits, Nearest, Reader};
use crate::fetch::session::{EPOCH_FINAL, NO_SESSION, PartitionKey, Session, Told, Wanted, next_epoch};
use crate::fetch::wait::{Named, Source, Turn, read_enough};
use crate::listener::Share;
use crate::listener::service::{Chunk, Chunks, Frame, Pace, Reply, Started};
use crate::metrics::RequestKind;
use crate::replica::{Offsets, Partition, Reach, Refused, ReplicaFetch, Side, read_refusal};

/// Ranges below this are copied into the answer rather than sent from the file.
const COPY_BELOW_BYTES: u64 = 16 * 1024;
/// Longest wait that a fetch may ask for.
const WAIT_MAX_MS: i32 = 600_000;
/// The first version that gives topics by id.
const TOPIC_IDS_SINCE: i16 = 13;
/// The value of `replica.selector.class` with which consumers read from a replica in their rack.
const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

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
        Ok(request) => {
            if request.replica_id >= 0 {
                call.kind = RequestKind::FETCH_FOLLOWER;
            }
            Started::Running(Box::pin(run(call, request)), Pace::Waiting)
        }
        Err(error) => Started::Done(call.undecodable(&error)),
    }
}

async fn run(call: Call, request: FetchRequestView) -> Reply {
    let is_replica = request.replica_id >= 0 && call.broker.is_replica(BrokerId(request.replica_id));
    if is_replica && !call.broker.may_be_broker(&call.client) {
        // Before anything of it is noted: it must not move a high watermark, nor an ISR, nor a session.
        let error = ErrorCode::ClusterAuthorizationFailed;
        return reply(&call, FetchResponse { error, ..FetchResponse::default() }, None);
    }
    let reader = reader(&call, &request);
    let reach = if request.replica_id >= 0 { Reach::LogEnd } else { Reach::Committed };
    let context = match begin(&call, &request, reach) {
        Ok(context) => context,
        Err(error) => return reply(&call, FetchResponse { error, ..FetchResponse::default() }, None),
    };
    if let Reader::Replica(replica) = reader {
        note_replica(&call, &request, replica);
    }
    let limits = Limits {
        max_bytes: u64::try_from(request.max_bytes.min(call.broker.config.load().fetch_max_bytes)).unwrap_or(0),
        reader,
    };
    let min_bytes = u64::try_from(request.min_bytes).unwrap_or(0);
    let wait_ms = request.max_wait_ms.min(WAIT_MAX_MS);
    let deadline = (wait_ms > 0).then(|| wire::deadline(wait_ms));
    let find = |key: &PartitionKey| find(&call, &key.topic, key.partition);
    let mut source = match &context {
        Context::Incremental(session) => {
            Source::Session(session, Turn::of(session, next_epoch(request.session_epoch)), &find)
        }
        Context::Sessionless | Context::Full => Source::Request(Named::new(items(&call, &request), reach)),
    };
    let (items, mut findings) = read_enough(call.broker.disk_pool(), &mut source, &limits, min_bytes, deadline).await;
    warm(&call, &mut findings).await;
    let mut copies = Copies::new(&call);
    let committed_only = matches!(limits.reader, Reader::Consumer { committed_only: true, .. });
    let answers = answers(&items, findings, committed_only, &mut copies);
    for (item, answer) in items.iter().zip(&answers) {
        count(&call, item, &answer.fetched, &limits.reader);
    }
    let response = respond(&call, &request, &context, &items, answers);
    reply(&call, response, copies.share)
}

/// Who asks.
fn reader(call: &Call, request: &FetchRequestView) -> Reader {
    let replica = BrokerId(request.replica_id);
    if request.replica_id >= 0 {
        let image = call.broker.metadata.glance();
        let registered = image.broker(replica).map(|broker| broker.epoch);
        // An earlier life of a broker, or somebody who does not say which life, is not heard (KIP-903).
        let is_known = registered.is_some_and(|registered| (registered..).contains(&request.replica_epoch));
        return if is_known { Reader::Replica(replica) } else { Reader::Stranger(ErrorCode::NotLeaderOrFollower) };
    }
    let selects = call.broker.config.load().replica_selector_class.as_deref() == Some(RACK_AWARE_SELECTOR);
    let nearest = || Nearest { rack: request.rack_id.clone(), image: call.broker.metadata.image() };
    let may_follow = !request.rack_id.is_empty();
    Reader::Consumer {
        committed_only: request.isolation_level == 1,
        may_follow,
        nearest: (selects && may_follow).then(|| Arc::new(nearest())),
    }
}

/// Notes what a follower has, by what it asks for.
fn note_replica(call: &Call, request: &FetchRequestView, broker: BrokerId) {
    let (hosted, image) = (call.broker.replicas.glance(), call.broker.metadata.glance());
    for (topic, partitions) in request.topics() {
        for asked in partitions {
            let fetch = ReplicaFetch {
                fetch: FollowerFetch {
                    broker,
                    broker_epoch: request.replica_epoch,
                    log_start: asked.log_start_offset,
                    offset: asked.fetch_offset,
                },
                current_leader_epoch: asked.current_leader_epoch,
                last_fetched_epoch: asked.last_fetched_epoch,
            };
            let noted = hosted.partition(topic, asked.index, &image).map(|partition| partition.fetched(&fetch, &image));
            if let Err(refused) | Ok(Err(refused)) = noted {
                // The follower is told when the partition is read.
                tracing::debug!(%topic, partition = asked.index, %broker, error = %refused.error, "a follower is not heard");
            }
        }
    }
}

/// Finds the session, and brings it up to date.
fn begin(call: &Call, request: &FetchRequestView, reach: Reach) -> Result<Context, ErrorCode> {
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
    call.broker.sessions.lock().begin((id, epoch), (by_id, reach), time::unix_ms(), wanted, forgotten.iter())
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

/// The partitions that a request names, in the order in which they are served.
fn items(call: &Call, request: &FetchRequestView) -> Vec<Item> {
    let mut items = Vec::with_capacity(request.partition_count());
    let mut numbers = 0..;
    for (topic, partitions) in request.topics() {
        items.extend(partitions.iter().zip(&mut numbers).map(|(asked, number)| {
            let partition = find(call, topic, asked.index);
            Item { topic: topic.clone(), index: asked.index, wanted: wanted(asked), partition, number }
        }));
    }
    items
}

fn find(call: &Call, topic: &TopicRef, index: i32) -> Result<Arc<Partition>, Refused> {
    let (hosted, image) = (call.broker.replicas.glance(), call.broker.metadata.glance());
    hosted.partition(topic, index, &image).cloned()
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

/// What is answered for a partition.
struct Answer {
    fetched: PartitionFetched<Range>,
    /// There is more than that.
    has_rest: bool,
}

/// An answer without records.
fn at(index: i32, offsets: &Offsets) -> PartitionFetched<Range> {
    PartitionFetched {
        high_watermark: offsets.high_watermark,
        last_stable_offset: offsets.last_stable,
        log_start_offset: offsets.log_start,
        ..PartitionFetched::failed(index, ErrorCode::None)
    }
}

/// What is answered for each partition, with what the session compares.
fn answers(items: &[Item], findings: Findings, committed_only: bool, copies: &mut Copies<'_>) -> Vec<Answer> {
    let answer = |(item, found): (&Item, Found)| {
        let mut has_rest = false;
        let answer = match found {
            Found::Failed(refused) => failed(item.index, refused),
            Found::Diverging { offsets, end } => {
                PartitionFetched { diverging_epoch: Some((end.epoch, end.end_offset)), ..at(item.index, &offsets) }
            }
            Found::Nearer { offsets, replica } => PartitionFetched {
                preferred_read_replica: replica.0,
                aborted_transactions: committed_only.then(Vec::new),
                ..at(item.index, &offsets)
            },
            Found::Readable { offsets, upper, read } => {
                let next_offset = read.as_ref().map_or(item.wanted.fetch_offset, |read| read.next_offset);
                has_rest = next_offset < upper;
                match records(read, copies) {
                    Err(error) => failed(item.index, error.into()),
                    Ok(records) => PartitionFetched {
                        aborted_transactions: committed_only.then(Vec::new),
                        records,
                        ..at(item.index, &offsets)
                    },
                }
            }
        };
        Answer { fetched: answer, has_rest }
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

fn count(call: &Call, item: &Item, answer: &PartitionFetched<Range>, reader: &Reader) {
    let Ok(partition) = &item.partition else { return };
    let counters = &partition.topic.counters;
    counters.fetch_requests.inc();
    let bytes: usize = answer.records.iter().map(Records::size_bytes).sum();
    if bytes > 0 {
        match reader {
            Reader::Replica(broker) => {
                let metrics = &call.broker.metrics.followers;
                metrics.bytes_out.inc_by(bytes as u64);
                if partition.state().adding.contains(broker) {
                    metrics.reassignment_bytes_out.inc_by(bytes as u64);
                }
                partition.replicated(Side::Leader, bytes);
            }
            Reader::Consumer { .. } | Reader::Stranger(_) => counters.bytes_out.inc_by(bytes as u64),
        }
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
    answers: Vec<Answer>,
) -> FetchResponse<Range> {
    match context {
        Context::Sessionless => all(call, items, answers, NO_SESSION),
        Context::Full => {
            let id = create_session(call, request, items, &answers);
            all(call, items, answers, id)
        }
        Context::Incremental(session) => news(call, session, request, items, answers),
    }
}

fn all(call: &Call, items: &[Item], answers: Vec<Answer>, session_id: i32) -> FetchResponse<Range> {
    let answers = items.iter().zip(answers);
    grouped(call, answers, FetchResponse { session_id, ..FetchResponse::default() })
}

fn create_session(call: &Call, request: &FetchRequestView, items: &[Item], answers: &[Answer]) -> i32 {
    let by_id = call.version >= TOPIC_IDS_SINCE;
    let reach = if request.replica_id >= 0 { Reach::LogEnd } else { Reach::Committed };
    let fill = |session: &mut Session| {
        for (item, answer) in items.iter().zip(answers) {
            let number = session.want(&key(&item.topic, item.index), item.wanted);
            // Everything is told in a full answer, so only what it says counts, not whether it is new.
            session.remember(number, &told(answer));
        }
    };
    call.broker.sessions.lock().create(items.len(), (by_id, reach), time::unix_ms(), random::u64, fill)
}

/// Only what is new.
fn news(
    call: &Call,
    session: &Mutex<Session>,
    request: &FetchRequestView,
    items: &[Item],
    answers: Vec<Answer>,
) -> FetchResponse<Range> {
    let mut session = session.lock();
    if session.epoch != next_epoch(request.session_epoch) {
        // Another request of the session came meanwhile. A follower does that to have a new partition served while it waits
        // for others, and is told all by the next answer. Any other client is not in step.
        if session.reach == Reach::LogEnd {
            return FetchResponse { session_id: session.id, ..FetchResponse::default() };
        }
        return FetchResponse { error: ErrorCode::InvalidFetchSessionEpoch, ..FetchResponse::default() };
    }
    let mut new = Vec::new();
    for (item, answer) in items.iter().zip(answers) {
        if session.tell(item.number, &told(&answer)) {
            new.push((item, answer));
        }
    }
    let response = FetchResponse { session_id: session.id, ..FetchResponse::default() };
    drop(session);
    grouped(call, new.into_iter(), response)
}

fn told(answer: &Answer) -> Told {
    let Answer { fetched, has_rest } = answer;
    Told {
        error: fetched.error,
        records_bytes: fetched.records.iter().map(Records::size_bytes).sum(),
        high_watermark: fetched.high_watermark,
        log_start_offset: fetched.log_start_offset,
        is_pressing: fetched.diverging_epoch.is_some() || fetched.preferred_read_replica >= 0,
        has_rest: *has_rest,
    }
}

/// Adds the answers by topic, with the addresses of leaders that they name (KIP-951).
fn grouped<'a>(
    call: &Call,
    answers: impl Iterator<Item = (&'a Item, Answer)>,
    mut response: FetchResponse<Range>,
) -> FetchResponse<Range> {
    let mut image: Option<Arc<MetadataImage>> = None;
    for (item, Answer { fetched: answer, .. }) in answers {
        if let Some(leader) = answer.current_leader
            && !response.node_endpoints.iter().any(|endpoint| endpoint.node_id == leader.leader_id)
        {
            let image = image.get_or_insert_with(|| call.broker.metadata.image());
            let id = BrokerId(leader.leader_id);
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
    let frame = chunks.map(|chunks| Frame {
        chunks: Chunks::Many(chunks.into_iter().map(chunk).collect()),
        _held: held,
        times: None,
    });
    call.encoded(frame)
}
