//! One partition of the offsets topic: machine, log, and the requests that wait.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use taffrail_core::collections::HashMap;
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{Effects, GroupShard, Now, Reply, Waiter, Write};
use taffrail_core::ids::{Offset, PartitionIndex};
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_core::record::{Batch, BatchBuilder, BatchOptions, Compression};
use taffrail_protocol::persisted::offsets;
use taffrail_runtime::time;
use tokio::sync::{Notify, oneshot};

use super::load;
use super::log::OffsetsLog;
use super::{CoordinatorConfig, Term};

/// Requests that may wait for one shard. The limits of connections keep far below it.
const WAITING_MAX: usize = 200_000;
/// Largest batch that one step may write. Kafka's limit for the topic (1 MiB) makes large groups fail; readers of the log
/// take any batch that was accepted.
const BATCH_BYTES_MAX: usize = 64 << 20;

/// The groups of one partition.
pub(crate) struct Shard {
    term: Term,
    log: Arc<dyn OffsetsLog>,
    origin: time::Instant,
    inner: Mutex<Inner>,
    /// Wakes the shard's task: an earlier deadline, something to settle, or the end.
    changed: Notify,
}

struct Inner {
    phase: Phase,
    config: CoordinatorConfig,
    machine: GroupShard,
    waiting: HashMap<Waiter, oneshot::Sender<Reply>>,
    next_waiter: Waiter,
    /// Writes that are in the log and not committed yet, in its order.
    unsettled: VecDeque<(Offset, Write)>,
    /// Topics that were deleted while the shard was loading.
    deleted_meanwhile: BTreeSet<Arc<str>>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Loading,
    Active,
    /// Not led any more, or its log cannot be loaded.
    Gone,
}

impl Phase {
    fn check(self) -> Result<(), ErrorCode> {
        match self {
            Self::Active => Ok(()),
            Self::Loading => Err(ErrorCode::CoordinatorLoadInProgress),
            Self::Gone => Err(ErrorCode::NotCoordinator),
        }
    }
}

impl Shard {
    pub(super) fn new(
        term: Term,
        log: Arc<dyn OffsetsLog>,
        config: CoordinatorConfig,
        origin: time::Instant,
    ) -> Arc<Self> {
        let inner = Inner {
            phase: Phase::Loading,
            config,
            machine: GroupShard::new(config.groups),
            waiting: HashMap::default(),
            next_waiter: 0,
            unsettled: VecDeque::new(),
            deleted_meanwhile: BTreeSet::new(),
        };
        Arc::new(Self { term, log, origin, inner: Mutex::new(inner), changed: Notify::new() })
    }

    pub(super) fn term(&self) -> Term {
        self.term
    }

    pub(super) fn set_config(&self, config: CoordinatorConfig) {
        let mut inner = self.inner.lock();
        inner.config = config;
        inner.machine.set_config(config.groups);
    }

    fn now(&self) -> Now {
        let elapsed = time::monotonic().duration_since(self.origin).as_millis();
        Now { unix_ms: time::unix_ms(), monotonic_ms: i64::try_from(elapsed).unwrap_or(i64::MAX) }
    }

    /// Takes a step of the machine and waits for the reply to it.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS, or NOT_COORDINATOR, also when leadership goes while the reply is awaited.
    pub(crate) async fn ask(
        &self,
        step: impl FnOnce(&mut GroupShard, Now, Waiter) -> Effects,
    ) -> Result<Reply, ErrorCode> {
        let reply = {
            let mut inner = self.inner.lock();
            inner.phase.check()?;
            if inner.waiting.len() >= WAITING_MAX {
                return Err(ErrorCode::CoordinatorNotAvailable);
            }
            let (sender, reply) = oneshot::channel();
            inner.next_waiter += 1;
            let waiter = inner.next_waiter;
            inner.waiting.insert(waiter, sender);
            let now = self.now();
            self.carry_out(&mut inner, |machine| step(machine, now, waiter));
            reply
        };
        reply.await.map_err(|_| ErrorCode::NotCoordinator)
    }

    /// [`Shard::ask`] for a step whose reply waits for nothing but its records.
    ///
    /// # Errors
    /// As [`Shard::ask`], and COORDINATOR_NOT_AVAILABLE when they are not committed within `offsets.commit.timeout.ms`; they
    /// may still be later.
    pub(crate) async fn ask_to_write(
        &self,
        step: impl FnOnce(&mut GroupShard, Now, Waiter) -> Effects,
    ) -> Result<Reply, ErrorCode> {
        let wait_max = self.inner.lock().config.write_wait_max;
        time::timeout(wait_max, self.ask(step)).await.unwrap_or(Err(ErrorCode::CoordinatorNotAvailable))
    }

    /// Takes a step that answers at once and writes nothing.
    ///
    /// # Errors
    /// COORDINATOR_LOAD_IN_PROGRESS or NOT_COORDINATOR.
    pub(crate) fn look<T>(&self, step: impl FnOnce(&mut GroupShard, Now) -> T) -> Result<T, ErrorCode> {
        let mut inner = self.inner.lock();
        inner.phase.check()?;
        Ok(step(&mut inner.machine, self.now()))
    }

    /// Topics were deleted: so are their offsets.
    pub(super) fn topics_deleted(&self, topics: &BTreeSet<Arc<str>>) {
        let mut inner = self.inner.lock();
        match inner.phase {
            Phase::Loading => inner.deleted_meanwhile.extend(topics.iter().cloned()),
            Phase::Active => self.carry_out(&mut inner, |machine| machine.on_topics_deleted(topics)),
            Phase::Gone => {}
        }
    }

    /// Does what a step of the machine asks for, and what follows from that.
    fn carry_out(&self, inner: &mut Inner, step: impl FnOnce(&mut GroupShard) -> Effects) {
        let deadline = inner.machine.next_deadline();
        let mut effects = step(&mut inner.machine);
        loop {
            for (waiter, reply) in effects.replies.drain(..) {
                // Who does not wait any more has lost its connection.
                if let Some(sender) = inner.waiting.remove(&waiter) {
                    let _ = sender.send(reply);
                }
            }
            if effects.writes.is_empty() {
                break;
            }
            let mut next = Effects::default();
            for write in effects.writes.drain(..) {
                next.extend(self.write(inner, write));
            }
            effects = next;
        }
        let earlier = match (deadline, inner.machine.next_deadline()) {
            (Some(before), Some(after)) => after < before,
            (None, after) => after.is_some(),
            (Some(_), None) => false,
        };
        if earlier || !inner.unsettled.is_empty() {
            self.changed.notify_one();
        }
    }

    /// Appends the records of a write; goes on at once if they are committed by that.
    fn write(&self, inner: &mut Inner, write: Write) -> Effects {
        let now = self.now();
        inner.machine.begin(&write);
        let appended = to_batch(&write, inner.config.compression, now.unix_ms)
            .and_then(|batch| self.log.append(batch, now.unix_ms));
        match appended {
            Err(error) => {
                tracing::warn!(%error, "records of a group could not be written");
                inner.machine.failed(now, write, error)
            }
            Ok(_) if is_planted(PlantedBug::OffsetsAnsweredEarly) => inner.machine.committed(now, write),
            Ok(last_offset) if inner.unsettled.is_empty() && self.log.is_committed(last_offset) => {
                inner.machine.committed(now, write)
            }
            Ok(last_offset) => {
                inner.unsettled.push_back((last_offset, write));
                Effects::default()
            }
        }
    }

    /// Goes on with every write that is committed now.
    fn settle(&self) {
        let mut inner = self.inner.lock();
        while let Some((last_offset, _)) = inner.unsettled.front()
            && self.log.is_committed(*last_offset)
        {
            let Some((_, write)) = inner.unsettled.pop_front() else { return };
            let now = self.now();
            self.carry_out(&mut inner, |machine| machine.committed(now, write));
        }
    }

    /// The shard is not led here any more: whoever waits is told to look for its new coordinator.
    pub(super) fn unload(&self) {
        let mut inner = self.inner.lock();
        inner.phase = Phase::Gone;
        inner.waiting.clear();
        inner.unsettled.clear();
        inner.machine = GroupShard::new(inner.config.groups);
        drop(inner);
        self.changed.notify_one();
    }

    /// Loads the shard, then moves it on by time and by what is committed, until it is unloaded.
    pub(super) async fn run(&self, index: PartitionIndex) {
        if !self.load(index).await {
            return;
        }
        let mut next_expiry = time::monotonic() + self.expiry_interval();
        loop {
            let (deadline, unsettled) = {
                let inner = self.inner.lock();
                if inner.phase == Phase::Gone {
                    return;
                }
                (inner.machine.next_deadline(), inner.unsettled.front().map(|(offset, _)| *offset))
            };
            let deadline = deadline.map(|ms| self.origin + Duration::from_millis(u64::try_from(ms).unwrap_or(0)));
            let wake = deadline.map_or(next_expiry, |deadline| deadline.min(next_expiry));
            tokio::select! {
                () = self.changed.notified() => {}
                () = time::sleep_until(wake) => {
                    let now = self.now();
                    let mut inner = self.inner.lock();
                    self.carry_out(&mut inner, |machine| machine.expire(now));
                    if time::monotonic() >= next_expiry {
                        self.carry_out(&mut inner, |machine| machine.expire_offsets(now));
                        next_expiry = time::monotonic() + inner.config.expiry_interval;
                    }
                }
                outcome = self.committed(unsettled), if unsettled.is_some() => match outcome {
                    Ok(()) => self.settle(),
                    Err(error) => {
                        tracing::warn!(index, %error, "records of groups will not be committed by this broker");
                        self.unload();
                    }
                },
            }
        }
    }

    fn expiry_interval(&self) -> Duration {
        self.inner.lock().config.expiry_interval
    }

    async fn committed(&self, offset: Option<Offset>) -> Result<(), ErrorCode> {
        match offset {
            Some(offset) => self.log.wait_committed(offset).await,
            None => Ok(()),
        }
    }

    /// Loads the log. False if the shard is gone, or its log cannot be loaded, which is logged.
    async fn load(&self, index: PartitionIndex) -> bool {
        let started = time::monotonic();
        let config = self.inner.lock().config;
        let mut machine = GroupShard::new(config.groups);
        match load::load(&*self.log, &mut machine, config.load_bytes).await {
            Ok(records) => {
                let mut inner = self.inner.lock();
                if inner.phase == Phase::Gone {
                    return false;
                }
                let groups = machine.group_count();
                if records > 0 {
                    let ms = started.elapsed().as_millis();
                    tracing::info!(index, records, groups, ms, "groups loaded");
                }
                // Settings may have changed meanwhile.
                machine.set_config(inner.config.groups);
                inner.machine = machine;
                inner.phase = Phase::Active;
                let now = self.now();
                self.carry_out(&mut inner, |machine| machine.loaded(now));
                let deleted = std::mem::take(&mut inner.deleted_meanwhile);
                self.carry_out(&mut inner, |machine| machine.on_topics_deleted(&deleted));
                true
            }
            Err(_) if self.inner.lock().phase == Phase::Gone => false,
            Err(error) => {
                tracing::error!(index, %error, "groups cannot be loaded; this partition of the offsets topic is not served");
                self.unload();
                false
            }
        }
    }
}

/// The records of a write as one batch.
fn to_batch(write: &Write, compression: Compression, now_ms: i64) -> Result<Batch, ErrorCode> {
    let failed = |error: taffrail_core::record::BuildError| {
        tracing::error!(%error, "records of a group cannot be encoded");
        ErrorCode::UnknownServerError
    };
    let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
    for record in &write.records {
        let (key, value) = offsets::encode(record);
        builder.push(now_ms, Some(&key), value.as_deref()).map_err(failed)?;
        if builder.bytes_len() > BATCH_BYTES_MAX {
            return Err(ErrorCode::MessageTooLarge);
        }
    }
    let bytes = Bytes::from(builder.build().map_err(failed)?);
    Batch::parse(&bytes).map_err(|_| ErrorCode::UnknownServerError)
}
