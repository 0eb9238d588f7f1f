//! The task that follows one leader: dials it, asks, and hands answers on.
//!
//! One request is under way at a time, unless a partition comes in while the leader holds its answer back; see [`Plan`].
//! Appends write to the page cache, here on the shard; what waits for the disk runs on the disk pool, and its partition is
//! left out meanwhile.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use taffrail_core::collections::HashMap;
use taffrail_core::config::BrokerConfig;
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::Listener;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::PartitionKey;
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::fetch::{FetchPartition, FetchResponse, FollowerRequest};
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::time::{self, Alarm, Instant};
use taffrail_runtime::{random, task};

use super::backoff::Backoff;
use super::fetchers::FetcherId;
use super::inbox::{Change, Inbox};
use super::link::{Link, LinkError, Peer};
use super::plan::{Asked, Place, Plan};
use super::position::Position;
use super::range::{RangeAnswers, RangeQuestion};
use super::work::{Done, Job, Jobs, place_of};
use crate::broker::Broker;
use crate::replica::Partition;

/// Room in an answer for what is not records: heads of as many partitions as a session may hold.
const HEADS_MAX_BYTES: usize = 16 * 1024 * 1024;

/// Bytes that are appended before others on the shard get their turn.
const APPENDED_AT_ONCE_BYTES: usize = 1024 * 1024;

/// Longest rest of throttled partitions: another rate is heeded by then.
const REST_MAX_MS: i64 = 1_000;

/// Times in a row that a leader may lose the session before the connection is given up.
const SESSION_LOSSES_MAX: u32 = 3;

/// A question whose answer is due.
enum Sent {
    Fetch {
        number: u64,
        position: Position,
        /// Whether the leader may hold the answer back.
        may_wait: bool,
    },
    Range(RangeQuestion),
}

/// What a conversation waits for.
enum Event {
    Answer(Bytes),
    Worked(Done),
    Look,
}

/// The follower of one leader.
pub(super) struct Fetcher {
    pub(super) broker: Arc<Broker>,
    pub(super) id: FetcherId,
    inbox: Arc<Inbox>,
    pub(super) plan: Plan,
    pub(super) partitions: HashMap<PartitionKey, Followed>,
    pub(super) jobs: Jobs,
    pub(super) ranges: RangeAnswers,
    sent: VecDeque<Sent>,
    /// When the oldest answer is overdue.
    overdue: Instant,
    backoff: Backoff,
    session_losses: u32,
    began: Instant,
}

/// A partition that is fetched.
pub(super) struct Followed {
    pub(super) partition: Arc<Partition>,
    /// Committed records that it had not got at the last answer.
    pub(super) lag: i64,
}

impl Fetcher {
    pub(super) fn new(broker: Arc<Broker>, id: FetcherId, inbox: Arc<Inbox>) -> Self {
        let now = time::monotonic();
        Self {
            broker,
            id,
            inbox,
            plan: Plan::default(),
            partitions: HashMap::default(),
            jobs: Jobs::default(),
            ranges: RangeAnswers::default(),
            sent: VecDeque::new(),
            overdue: now,
            backoff: Backoff::default(),
            session_losses: 0,
            began: now,
        }
    }

    /// Follows until `shutdown`.
    pub(super) async fn run(mut self, shutdown: &Shutdown) {
        tokio::select! {
            () = shutdown.triggered() => {}
            () = self.follow() => {}
        }
    }

    async fn follow(&mut self) {
        loop {
            self.take_changes();
            if self.plan.is_empty() {
                self.wait_for_news().await;
                continue;
            }
            let Some(mut link) = self.dial().await else { continue };
            let ended = self.converse(&mut link).await;
            self.plan.disconnected();
            self.ranges = RangeAnswers::default();
            self.sent.clear();
            if let Err(error) = ended {
                self.lost(&error);
                self.pause().await;
            }
        }
    }

    /// Milliseconds on the clock of the plan.
    pub(super) fn now_ms(&self) -> i64 {
        i64::try_from((time::monotonic() - self.began).as_millis()).unwrap_or(i64::MAX)
    }

    pub(super) fn config(&self) -> Arc<BrokerConfig> {
        self.broker.config.load_full()
    }

    /// Waits for the metadata or the end of work on a log.
    async fn wait_for_news(&mut self) {
        let done = tokio::select! {
            () = self.inbox.rung() => None,
            done = self.jobs.next(), if !self.jobs.is_empty() => done,
        };
        if let Some(done) = done {
            self.worked(done);
        }
    }

    /// Acts on what the metadata have changed.
    fn take_changes(&mut self) {
        for (key, change) in self.inbox.take() {
            match change {
                Change::Leave => self.leave(key),
                Change::Follow(partition) => match partition.following() {
                    Some(following) if following.leader == self.id.leader => {
                        let place = place_of(partition.log());
                        self.broker.metrics.followers.forget(partition.log().partition());
                        self.plan.set_throttled(key, partition.is_held_back());
                        let high_watermark = partition.log().high_watermark();
                        let is_new = self.partitions.insert(key, Followed { partition, lag: 0 }).is_none();
                        self.plan.follow(key, following.leader_epoch, place);
                        if is_new && is_planted(PlantedBug::TruncatedToHighWatermark) {
                            self.work(key, following.leader_epoch, Job::Truncate(high_watermark));
                        }
                    }
                    // The state has changed once more, which is the next change here or elsewhere.
                    _ => self.leave(key),
                },
            }
        }
    }

    /// Has nothing to do with a partition any more.
    pub(super) fn leave(&mut self, key: PartitionKey) {
        self.plan.leave(key);
        if let Some(followed) = self.partitions.remove(&key) {
            self.broker.metrics.followers.forget(followed.partition.log().partition());
        }
    }

    /// Connects to the leader where the metadata say it is, resolved anew; `None` = not now.
    async fn dial(&mut self) -> Option<Link> {
        let Some(peer) = self.peer() else {
            // Nobody can be fetched from who is not registered.
            tokio::select! {
                () = self.inbox.leader_moved() => {}
                () = self.inbox.rung() => {}
            }
            return None;
        };
        let dialled = tokio::select! {
            dialled = Link::dial(&peer) => dialled,
            () = self.inbox.leader_moved() => return None,
        };
        match dialled {
            Ok(link) => {
                tracing::debug!(leader = %self.id.leader, address = %peer.address, "following over a new connection");
                Some(link)
            }
            Err(error) => {
                self.lost(&error);
                self.pause().await;
                None
            }
        }
    }

    fn peer(&self) -> Option<Peer> {
        let config = self.config();
        let bytes = |value: i32| usize::try_from(value).unwrap_or(0);
        // No batch is larger than the request that brought it.
        let answer_max_bytes = bytes(config.replica_fetch_response_max_bytes)
            .saturating_add(bytes(config.socket_request_max_bytes))
            .saturating_add(HEADS_MAX_BYTES);
        let client_id = format!("broker-{}-fetcher-{}", self.broker.id, self.id.number);
        peer(&self.broker, self.id.leader, client_id, answer_max_bytes)
    }

    /// Says that the leader is not heard; once, until it is again.
    fn lost(&self, error: &LinkError) {
        let (leader, reason) = (self.id.leader, error.in_full());
        if self.backoff.is_fresh() {
            tracing::warn!(%leader, partitions = self.plan.len(), %reason, "the leader cannot be followed; trying again");
        } else {
            tracing::debug!(%leader, %reason, "the leader still cannot be followed");
        }
    }

    /// Waits before the next try, less when the leader may be elsewhere by then.
    async fn pause(&mut self) {
        let pause = self.backoff.failed(random::u64());
        tokio::select! {
            () = time::sleep(pause) => {}
            () = self.inbox.leader_moved() => {}
        }
    }

    /// Asks and listens until the connection breaks, or there is nothing to be followed.
    async fn converse(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let mut alarm = Alarm::new(time::monotonic());
        let mut rings_at = time::monotonic();
        loop {
            self.take_changes();
            if self.plan.is_empty() {
                return Ok(());
            }
            self.ask(link).await?;
            let due = self.next_look(link);
            // A later moment is left to the alarm that rings before it: most answers come long before they are overdue.
            if due < rings_at || rings_at <= time::monotonic() {
                rings_at = due;
                alarm.set(due);
            }
            match self.next_event(link, &mut alarm).await? {
                Event::Answer(frame) => self.take_answer(link, frame).await?,
                Event::Worked(done) => self.worked(done),
                Event::Look if link.awaited() > 0 && self.overdue <= time::monotonic() => {
                    return Err(LinkError::Silent);
                }
                Event::Look => {}
            }
        }
    }

    /// When something has to be done if nothing happens.
    fn next_look(&self, link: &Link) -> Instant {
        let pause_ends = self.plan.next_due_ms().map(|due_ms| self.began + millis(due_ms));
        let answer_is_overdue = (link.awaited() > 0).then_some(self.overdue);
        let idle = time::monotonic() + Duration::from_secs(3600);
        pause_ends.into_iter().chain(answer_is_overdue).min().unwrap_or(idle)
    }

    async fn next_event(&mut self, link: &mut Link, alarm: &mut Alarm) -> Result<Event, LinkError> {
        let is_awaiting = link.awaited() > 0;
        Ok(tokio::select! {
            biased;
            frame = link.receive(), if is_awaiting => Event::Answer(frame?),
            Some(done) = self.jobs.next(), if !self.jobs.is_empty() => Event::Worked(done),
            () = self.inbox.rung() => Event::Look,
            () = alarm.rung() => Event::Look,
        })
    }

    /// Sends what is to be asked now.
    async fn ask(&mut self, link: &mut Link) -> Result<(), LinkError> {
        let now_ms = self.now_ms();
        // Also while nothing can be asked: the alarm rings for what is due as long as it is.
        self.plan.end_pauses(now_ms);
        self.hold_back(now_ms);
        match self.sent.front() {
            None => {
                let questions = self.range_questions();
                if !questions.is_empty() {
                    for question in questions {
                        let (version, replica_id) = (link.list_offsets_version, self.broker.id);
                        link.send(|number, client_id, out| {
                            question.encode(version, number, client_id, replica_id, out)
                        })
                        .await?;
                        self.note_sent(Sent::Range(question), 0);
                    }
                    return Ok(());
                }
            }
            Some(Sent::Fetch { may_wait: true, .. })
                if self.sent.len() == 1 && !link.is_receiving() && self.plan.must_nudge(now_ms) => {}
            Some(_) => return Ok(()),
        }
        let Some(ask) = self.plan.ask(now_ms) else { return Ok(()) };
        let config = self.config();
        let wait_ms = if ask.may_wait { config.replica_fetch_wait_max_ms } else { 0 };
        let asked: Vec<_> = ask.asked.iter().map(|asked| on_wire(asked, config.replica_fetch_max_bytes)).collect();
        let request = FollowerRequest {
            replica_id: self.broker.id.0,
            replica_epoch: self.broker.identity().epoch,
            max_wait_ms: wait_ms,
            min_bytes: config.replica_fetch_min_bytes,
            max_bytes: config.replica_fetch_response_max_bytes,
            session_id: ask.position.id,
            session_epoch: ask.position.epoch,
            asked: &asked,
            forgotten: &ask.forgotten,
        };
        let version = link.fetch_version;
        link.send(|number, client_id, out| request.encode(version, number, client_id, out)).await?;
        let sent = Sent::Fetch { number: ask.number, position: ask.position, may_wait: ask.may_wait };
        self.note_sent(sent, wait_ms);
        Ok(())
    }

    /// Has throttled partitions rest while they have fetched more than they may.
    fn hold_back(&mut self, now_ms: i64) {
        let is_answer_due = !self.sent.is_empty();
        if self.plan.may_have_to_hold(is_answer_due, now_ms) {
            let rest_ms = self.broker.replicas.followers_rest_ms();
            self.plan.hold(rest_ms.map(|rest_ms| now_ms + rest_ms.min(REST_MAX_MS)), is_answer_due);
        }
    }

    fn note_sent(&mut self, sent: Sent, wait_ms: i32) {
        if self.sent.is_empty() {
            let patience = millis(wait_ms) + millis(self.config().replica_socket_timeout_ms);
            self.overdue = time::monotonic() + patience;
        }
        self.sent.push_back(sent);
    }

    /// Acts on the answer to the oldest question.
    async fn take_answer(&mut self, link: &Link, frame: Bytes) -> Result<(), LinkError> {
        let Some(sent) = self.sent.pop_front() else { return Err(LinkError::Unasked) };
        let patience = self.config().replica_fetch_wait_max_ms.saturating_add(self.config().replica_socket_timeout_ms);
        self.overdue = time::monotonic() + millis(patience);
        match sent {
            Sent::Range(question) => self.take_range(&question, link.list_offsets_version, frame),
            Sent::Fetch { number, position, .. } => {
                let (_, response) = FetchResponse::decode(link.fetch_version, frame)?;
                self.take_fetched(number, position, response).await
            }
        }
    }

    async fn take_fetched(
        &mut self,
        number: u64,
        position: Position,
        response: FetchResponse<Bytes>,
    ) -> Result<(), LinkError> {
        if !self.plan.answered(position, response.error, response.session_id) {
            return self.lost_session(response.error);
        }
        self.backoff.succeeded();
        if !position.is_full() {
            self.session_losses = 0;
        }
        let mut appended_bytes = 0;
        for (topic, answers) in response.topics {
            let TopicRef::Id(topic) = topic else { continue };
            for answer in answers {
                appended_bytes += self.take_partition(number, (topic, answer.index), answer);
                if appended_bytes >= APPENDED_AT_ONCE_BYTES {
                    appended_bytes = 0;
                    task::yield_now().await;
                }
            }
        }
        Ok(())
    }

    /// The leader has answered with an error as a whole.
    fn lost_session(&mut self, error: ErrorCode) -> Result<(), LinkError> {
        let is_of_session = matches!(
            error,
            ErrorCode::None
                | ErrorCode::FetchSessionIdNotFound
                | ErrorCode::InvalidFetchSessionEpoch
                | ErrorCode::FetchSessionTopicIdError
        );
        // The second of two requests in a session that the first one lost is no loss of its own.
        self.session_losses += u32::from(error != ErrorCode::None);
        if !is_of_session || self.session_losses > SESSION_LOSSES_MAX {
            return Err(LinkError::Refused(error));
        }
        tracing::debug!(leader = %self.id.leader, error = error.name(), "the fetch session is opened anew");
        Ok(())
    }
}

/// What a request says of a partition.
fn on_wire(asked: &Asked, max_bytes: i32) -> (taffrail_core::ids::TopicId, FetchPartition) {
    let Asked { key: (topic, index), leader_epoch, place: Place { end, last_epoch, log_start } } = *asked;
    let partition = FetchPartition {
        index,
        current_leader_epoch: leader_epoch,
        fetch_offset: end,
        last_fetched_epoch: last_epoch,
        log_start_offset: log_start,
        max_bytes,
        replica_directory_id: taffrail_core::ids::Uuid::ZERO,
        high_watermark: i64::MAX,
    };
    (topic, partition)
}

/// The listener by which brokers reach the one that has these.
/// Another broker, where the metadata say that it is.
pub(crate) fn peer(broker: &Broker, id: BrokerId, client_id: String, answer_max_bytes: usize) -> Option<Peer> {
    let (config, image) = (broker.config.load(), broker.metadata.image());
    let listener = inter_broker(&config, &image.broker(id)?.listeners)?;
    Some(Peer {
        address: address(listener),
        id,
        cluster_id: image.cluster_id(),
        client_id,
        answer_max_bytes,
        timeout: millis(config.replica_socket_timeout_ms),
        secret: broker.cluster_secret().cloned(),
    })
}

fn inter_broker<'a>(config: &BrokerConfig, listeners: &'a [Listener]) -> Option<&'a Listener> {
    let named = config.inter_broker_listener_name.as_deref();
    let named = named.and_then(|name| listeners.iter().find(|listener| &*listener.name == name));
    named.or(listeners.first())
}

fn address(listener: &Listener) -> String {
    let Listener { host, port, .. } = listener;
    // An IPv6 address has colons of its own.
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

fn millis(ms: impl TryInto<u64>) -> Duration {
    Duration::from_millis(ms.try_into().unwrap_or(0))
}
