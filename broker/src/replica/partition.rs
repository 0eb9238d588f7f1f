//! One replica of one partition: what it is to the cluster, and what there is to read of it. How it is led and how it
//! follows is beside this.

use std::sync::atomic::AtomicI64;
use std::sync::{Arc, OnceLock};

use arc_swap::ArcSwap;
use parking_lot::{Mutex, RwLock};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::PartitionState;
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset, PartitionIndex};
use taffrail_core::image::{MetadataImage, PartitionKey};
use taffrail_core::partition::{Leadership, check_leader_epoch};
use taffrail_runtime::time;
use taffrail_storage::{Log, LogObserver, ReadError};
use tokio::sync::Notify;

use super::append_times::AppendTimes;
use super::commits::Commits;
use super::env::Env;
use super::gauges::Standing;
use super::news::{News, Subscribers, Subscription};
use super::topic::Topic;
use super::turned_away::TurnedAway;

/// A replica that this broker keeps. Its log may be offline, which shows when it is used.
pub(crate) struct Partition {
    pub(crate) topic: Arc<Topic>,
    pub(crate) index: PartitionIndex,
    pub(super) env: Arc<Env>,
    pub(super) log: Arc<Log>,
    pub(super) state: ArcSwap<PartitionState>,
    /// Held for reading while the leader appends or hears of followers, for writing while the office changes or a follower
    /// changes its log: so nothing is done in an office that is over. The state changes only under it.
    pub(super) office: RwLock<Office>,
    /// Why it is not here any more.
    gone: OnceLock<ErrorCode>,
    standing: Mutex<Standing>,
    /// Since when it has been led with replicas out of sync.
    under_replicated_since: Mutex<Option<time::Instant>>,
    /// Bytes that were appended since the high watermark reached the end of the log; some may be committed.
    pub(super) uncommitted_bytes: AtomicI64,
    /// When its records were appended here.
    pub(super) append_times: AppendTimes,
    /// Producers that wait for the high watermark.
    pub(super) commits: Commits,
    /// Who reads up to the high watermark.
    pub(super) readers: Subscribers,
    /// Who reads up to the end of the log.
    pub(super) followers: Subscribers,
    /// Wakes those who wait for all replicas to begin later.
    pub(super) low_watermark_moved: Notify,
}

/// What this broker is to a partition.
#[derive(Default)]
pub(super) struct Office {
    /// The first of the leader epochs in which it has led without a break, as far as it knows; `None` = it does not lead.
    pub(super) led_since: Option<LeaderEpoch>,
    /// What it knows of its followers, if it leads and there can be any. The lock is held for microseconds.
    pub(super) leadership: Option<Mutex<Leadership>>,
    /// What it has refused for now since it leads.
    pub(super) turned_away: TurnedAway,
}

/// How far somebody reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reach {
    /// Up to the high watermark, like a consumer.
    Committed,
    /// Up to the end of the log, like a follower.
    LogEnd,
}

/// A subscription to a partition's news that lasts as long as this lives.
pub(crate) struct Subscribed {
    partition: Arc<Partition>,
    reach: Reach,
    subscription: Arc<Subscription>,
}

/// Why a partition does not do what was asked. Carries what a client needs to find the right broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Refused {
    pub(crate) error: ErrorCode,
    /// Leader and epoch, when another broker should be asked.
    pub(crate) leader: Option<(BrokerId, LeaderEpoch)>,
}

impl From<ErrorCode> for Refused {
    fn from(error: ErrorCode) -> Self {
        Self { error, leader: None }
    }
}

/// The offsets of a partition at one moment: log start <= last stable <= high watermark <= end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Offsets {
    pub(crate) log_start: Offset,
    pub(crate) last_stable: Offset,
    pub(crate) high_watermark: Offset,
    pub(crate) log_end: Offset,
}

impl Partition {
    pub(super) fn new(topic: Arc<Topic>, index: PartitionIndex, env: Arc<Env>, log: Arc<Log>) -> Arc<Self> {
        let partition = Arc::new(Self {
            topic,
            index,
            env,
            state: ArcSwap::from_pointee(PartitionState::new(Vec::new(), Vec::new())),
            log,
            office: RwLock::default(),
            gone: OnceLock::new(),
            standing: Mutex::new(Standing::GONE),
            under_replicated_since: Mutex::default(),
            uncommitted_bytes: AtomicI64::new(0),
            append_times: AppendTimes::default(),
            commits: Commits::default(),
            readers: Subscribers::default(),
            followers: Subscribers::default(),
            low_watermark_moved: Notify::new(),
        });
        let observer = Arc::downgrade(&partition);
        partition.log.observe(observer);
        partition
    }

    /// Its log.
    pub(crate) fn log(&self) -> &Arc<Log> {
        &self.log
    }

    /// Topic and number.
    pub(crate) fn key(&self) -> PartitionKey {
        (self.topic.id, self.index)
    }

    /// When the record at `offset` was appended here, in milliseconds since 1970, for a log that ends at `end`; `None` = that
    /// was before this process.
    pub(crate) fn appended_at(&self, offset: Offset, end: Offset) -> Option<i64> {
        self.append_times.of(offset, end)
    }

    /// Who keeps and leads it, as far as this broker knows.
    pub(crate) fn state(&self) -> Arc<PartitionState> {
        self.state.load_full()
    }

    /// Whether this broker leads it.
    pub(crate) fn leads(&self) -> bool {
        self.state.load().leader == self.env.own_id
    }

    /// Whether other brokers keep it too.
    pub(crate) fn has_followers(&self) -> bool {
        self.state.load().replicas.len() > 1
    }

    /// Takes over what `image` says of it. Whoever waits for what may have changed by that is told.
    pub(super) fn follow(self: &Arc<Self>, state: &Arc<PartitionState>, image: &MetadataImage) {
        let mut office = self.office.write();
        let before = self.state.swap(Arc::clone(state));
        let has_another_leader = before.leader_epoch != state.leader_epoch || before.leader != state.leader;
        if state.leader == self.env.own_id {
            self.lead(&mut office, state, image, has_another_leader);
        } else {
            *office = Office::default();
            self.commits.fail(ErrorCode::NotLeaderOrFollower);
        }
        drop(office);
        if has_another_leader {
            self.readers.changed();
            self.followers.changed();
        }
        self.low_watermark_moved.notify_waiters();
        self.count();
    }

    /// It is not here any more; whoever still holds it, or waits for it, is told `why`.
    pub(super) fn end(&self, why: ErrorCode) {
        let mut office = self.office.write();
        // Whoever came first has said why.
        let _ = self.gone.set(why);
        *office = Office::default();
        self.commits.fail(why);
        drop(office);
        self.readers.changed();
        self.followers.changed();
        self.low_watermark_moved.notify_waiters();
        self.count();
    }

    /// Whether it is not here any more.
    pub(crate) fn is_gone(&self) -> bool {
        self.gone.get().is_some()
    }

    /// Brings the gauges up to date.
    fn count(&self) {
        let now = match self.gone.get() {
            Some(_) => Standing::GONE,
            None if self.leads() => Standing::leads(&self.state.load(), self.in_sync_against_minimum()),
            None => Standing::FOLLOWS,
        };
        let mut standing = self.standing.lock();
        self.env.gauges.change(*standing, now);
        *standing = now;
        let mut since = self.under_replicated_since.lock();
        *since = now.is_under_replicated().then(|| since.unwrap_or_else(time::monotonic));
    }

    /// How long it has been led here with replicas out of sync, in seconds; `None` = it is not so.
    pub(crate) fn under_replicated_seconds(&self) -> Option<i64> {
        let since = *self.under_replicated_since.lock();
        since.map(|since| i64::try_from((time::monotonic() - since).as_secs()).unwrap_or(i64::MAX))
    }

    /// Refuses who believes in another leader epoch, or asks a broker that does not lead. `epoch` -1 = does not say.
    pub(crate) fn check_leader(&self, epoch: LeaderEpoch) -> Result<LeaderEpoch, Refused> {
        self.check_replica(epoch, false)
    }

    /// [`Self::check_leader`] for who may as well read from a follower.
    pub(crate) fn check_replica(&self, epoch: LeaderEpoch, may_follow: bool) -> Result<LeaderEpoch, Refused> {
        let state = self.state.load();
        let leader = Some((state.leader, state.leader_epoch));
        if let Some(why) = self.gone.get() {
            return Err(Refused { error: *why, leader });
        }
        check_leader_epoch(state.leader_epoch, epoch).map_err(|error| Refused { error, leader })?;
        if state.leader == self.env.own_id || (may_follow && state.has_leader()) {
            Ok(state.leader_epoch)
        } else {
            Err(Refused { error: ErrorCode::NotLeaderOrFollower, leader })
        }
    }

    /// What the topic sets as `min.insync.replicas`.
    pub(super) fn configured_minimum(&self) -> usize {
        usize::try_from(self.topic.settings.load().config.min_insync_replicas).unwrap_or(1)
    }

    /// How many replicas in sync it has beyond its minimum.
    pub(crate) fn in_sync_margin(&self) -> i64 {
        let state = self.state.load();
        state.isr.len() as i64 - state.min_in_sync(self.configured_minimum()) as i64
    }

    /// Whether its replicas in sync are fewer than (`Less`), just (`Equal`) or more than its minimum.
    pub(crate) fn in_sync_against_minimum(&self) -> std::cmp::Ordering {
        let state = self.state.load();
        state.isr.len().cmp(&state.min_in_sync(self.configured_minimum()))
    }

    /// Its offsets. Read in an order in which none can be ahead of one that must not be behind it.
    pub(crate) fn offsets(&self) -> Offsets {
        let high_watermark = self.log.high_watermark();
        let log_start = self.log.log_start_offset();
        let high_watermark = high_watermark.max(log_start);
        let log_end = self.log.end_offset().max(high_watermark);
        // Without transactions everything below the high watermark is decided.
        Offsets { log_start, last_stable: high_watermark, high_watermark, log_end }
    }

    /// Has `news` hear of this partition under `number`.
    pub(crate) fn subscribe(self: &Arc<Self>, reach: Reach, news: &Arc<News>, number: u32) -> Subscribed {
        let subscribed =
            Subscribed { partition: Arc::clone(self), reach, subscription: Subscription::new(news, number) };
        subscribed.subscribers().enter(&subscribed.subscription);
        subscribed
    }
}

impl Subscribed {
    /// The partition.
    pub(crate) fn partition(&self) -> &Arc<Partition> {
        &self.partition
    }

    /// Somebody is about to look; what comes from now on is news again.
    pub(crate) fn looked_at(&self) {
        self.subscription.looked_at();
    }

    fn subscribers(&self) -> &Subscribers {
        match self.reach {
            Reach::Committed => &self.partition.readers,
            Reach::LogEnd => &self.partition.followers,
        }
    }
}

impl Drop for Subscribed {
    fn drop(&mut self) {
        self.subscribers().leave(&self.subscription);
    }
}

impl LogObserver for Partition {
    fn start_moved(&self) {
        self.readers.noted();
        self.followers.noted();
    }

    fn went_offline(&self) {
        self.readers.changed();
        self.followers.changed();
    }
}

/// What a client is told when a read failed.
pub(crate) fn read_refusal(error: &ReadError) -> Refused {
    let code = match error {
        ReadError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        ReadError::Deleted => ErrorCode::NotLeaderOrFollower,
        ReadError::Offline(_) | ReadError::Io(_) | ReadError::Busy => ErrorCode::KafkaStorageError,
    };
    code.into()
}
