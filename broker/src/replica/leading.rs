//! A partition as its leader handles it: appends, what followers tell by their fetches, and what follows from that: the high
//! watermark, changes of the ISR, acks=all.
//!
//! A partition of one replica pays for none of this: what is appended is committed. The machine that decides is
//! `taffrail_core::partition::Leadership`.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;
use taffrail_core::control::{FollowerLag, IsrChange};
use taffrail_core::errors::ErrorCode;
use taffrail_core::event::PartitionState;
use taffrail_core::ids::{BrokerId, LeaderEpoch, Offset};
use taffrail_core::image::MetadataImage;
use taffrail_core::partition::{AfterProposal, EpochEnd, FollowerFetch, Leadership, diverging};
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_core::record::Batch;
use taffrail_storage::{AppendError, Appended};

use super::commits::CommitWait;
use super::partition::{Office, Offsets, Partition, Refused};
use super::turned_away::TurnedAway;
use crate::metrics::Loss;

/// What a follower says about itself when it fetches.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReplicaFetch {
    /// Who it is, from where on it fetches, and where its log begins.
    pub(crate) fetch: FollowerFetch,
    /// The leader epoch that it follows in.
    pub(crate) current_leader_epoch: LeaderEpoch,
    /// Epoch of its last record; -1 = it has none.
    pub(crate) last_fetched_epoch: LeaderEpoch,
}

impl Partition {
    /// This broker leads, as `state` says; `is_new`: it is the first it hears of this leadership.
    pub(super) fn lead(
        self: &Arc<Self>,
        office: &mut Office,
        state: &Arc<PartitionState>,
        image: &MetadataImage,
        is_new: bool,
    ) {
        if office.led_since.is_none() {
            office.led_since = Some(state.leader_epoch);
            self.tell_loss(state);
        }
        if is_new {
            office.turned_away = TurnedAway::default();
            self.log.begin_epoch(state.leader_epoch);
        }
        let log_end = self.log.end_offset();
        if state.replicas.len() <= 1 {
            office.leadership = None;
            self.commit_alone(log_end);
            self.tell_committed(log_end);
            return;
        }
        let (own, now_ms) = (self.env.identity(image), self.env.now_ms());
        let leadership = match &mut office.leadership {
            Some(known) => {
                let known = known.get_mut();
                known.identify(own);
                known.follow(state, log_end, now_ms);
                known
            }
            None => office
                .leadership
                .insert(Mutex::new(Leadership::begin(self.key(), own, Arc::clone(state), log_end, now_ms)))
                .get_mut(),
        };
        self.commit(leadership, image, now_ms);
        let proposal = leadership.propose_recovered().or_else(|| self.next_join(leadership, image, now_ms));
        self.propose(proposal);
    }

    /// Tells what of the partition is gone as this broker begins to lead it: what was committed in earlier leaderships and is
    /// not in its log. It was elected without being trusted to have all, or its disk has lost what it had.
    fn tell_loss(&self, state: &PartitionState) {
        let (from, written) = (self.log.end_offset(), self.log.written_high_watermark());
        if !state.recovering && from >= written {
            return;
        }
        let (partition, leader_epoch, to) = (self.log.partition().clone(), state.leader_epoch, from.max(written));
        tracing::error!(
            %partition, leader_epoch, from, known_to = to,
            "the leader has nothing from this offset on: what of that was committed before is lost"
        );
        self.env.losses.note(Loss { partition, leader_epoch, from, to });
    }

    /// Appends batches that were judged before, as the leader; `done` gets what became of each, in their order.
    /// `all_in_sync`: the producers want every replica in sync to have them (acks=all), so there must be enough of them.
    /// Gives the leader epoch in which they were appended.
    pub(crate) fn append_each(
        &self,
        batches: &[Batch],
        all_in_sync: bool,
        now_ms: i64,
        mut done: impl FnMut(Result<Appended, Refused>),
    ) -> LeaderEpoch {
        let office = self.office.read();
        let leader_epoch = match self.check_appendable(all_in_sync) {
            Ok(leader_epoch) => leader_epoch,
            Err(refused) => {
                for batch in batches {
                    let error = office.turned_away.refuse(batch.header(), refused.error, now_ms);
                    done(Err(Refused { error, ..refused }));
                }
                return -1;
            }
        };
        let (mut bytes, mut records, mut range) = (0, 0, None);
        let mut appending = batches.iter();
        self.log.append_each(batches, leader_epoch, now_ms, |result| {
            let batch = appending.next().unwrap_or_else(|| unreachable!("there is one answer for each batch"));
            let header = batch.header();
            if let Ok(appended) = &result
                && !appended.duplicate
            {
                bytes += batch.bytes().len() as u64;
                records += u64::try_from(header.record_count).unwrap_or(0);
                let (base_offset, _) = range.unwrap_or((appended.base_offset, 0));
                range = Some((base_offset, appended.last_offset + 1));
                office.turned_away.took(header);
            }
            done(result.map_err(|error| office.turned_away.refuse(header, append_refusal(&error), now_ms).into()));
        });
        if let Some((base_offset, end_offset)) = range {
            self.append_times.note(base_offset, now_ms);
            let counters = &self.topic.counters;
            counters.bytes_in.inc_by(bytes);
            counters.messages_in.inc_by(records);
            match &office.leadership {
                None => {
                    self.commit_alone(end_offset);
                    self.readers.grown(bytes as i64);
                }
                Some(leadership) => {
                    let now_ms = self.env.now_ms();
                    let mut leadership = leadership.lock();
                    leadership.grown(base_offset, now_ms);
                    self.uncommitted_bytes.fetch_add(bytes as i64, Ordering::AcqRel);
                    self.commit(&leadership, &self.env.metadata.glance(), now_ms);
                    let high_watermark = self.log.high_watermark();
                    if high_watermark >= end_offset {
                        // By this, or by a follower that was quicker than this thread.
                        self.tell_committed(high_watermark);
                    }
                    drop(leadership);
                    self.followers.grown(bytes as i64);
                }
            }
        }
        leader_epoch
    }

    /// [`Self::append_each`] for one batch.
    pub(crate) fn append(&self, batch: &Batch, all_in_sync: bool, now_ms: i64) -> Result<Appended, Refused> {
        let mut appended = None;
        self.append_each(std::slice::from_ref(batch), all_in_sync, now_ms, |result| appended = Some(result));
        appended.unwrap_or_else(|| unreachable!("each batch gets an answer"))
    }

    /// Whether this broker may append as the leader; tells in which epoch.
    fn check_appendable(&self, all_in_sync: bool) -> Result<LeaderEpoch, Refused> {
        let leader_epoch = self.check_leader(-1)?;
        let is_enough = self.in_sync_against_minimum().is_ge() || is_planted(PlantedBug::MinInSyncIgnored);
        if all_in_sync && !is_enough {
            return Err(ErrorCode::NotEnoughReplicas.into());
        }
        Ok(leader_epoch)
    }

    /// Has append `number` of `wait` told when everything before `end` is committed. It was appended in `leader_epoch`.
    pub(crate) fn await_commit(&self, wait: &Arc<CommitWait>, number: usize, end: Offset, leader_epoch: LeaderEpoch) {
        let office = self.office.read();
        if office.led_since.is_none_or(|since| since > leader_epoch) {
            // The log may have been cut since.
            return wait.settle(number, Err(ErrorCode::NotLeaderOrFollower));
        }
        let Some(leadership) = &office.leadership else { return wait.settle(number, Ok(())) };
        let leadership = leadership.lock();
        match leadership.acknowledge(end, self.log.high_watermark(), self.configured_minimum()) {
            Some(outcome) => wait.settle(number, outcome),
            None => self.commits.enter(wait, number, end),
        }
    }

    /// Ends what [`Self::await_commit`] began.
    pub(crate) fn await_no_commit(&self, wait: &Arc<CommitWait>, end: Offset) {
        self.commits.leave(wait, end);
    }

    /// Notes a follower's fetch, before it is answered: it has everything before its offset. `image` says who it is.
    ///
    /// # Errors
    /// What the follower is told: it does not follow in this leadership, keeps no replica, or is an earlier life of itself.
    pub(crate) fn fetched(self: &Arc<Self>, fetch: &ReplicaFetch, image: &MetadataImage) -> Result<(), Refused> {
        let office = self.office.read();
        self.check_leader(fetch.current_leader_epoch)?;
        let FollowerFetch { broker, offset, .. } = fetch.fetch;
        self.check_follower(broker, fetch.current_leader_epoch)?;
        let Some(leadership) = &office.leadership else { return Err(ErrorCode::NotLeaderOrFollower.into()) };
        let offsets = self.offsets();
        let is_in_range = (offsets.log_start..=offsets.log_end).contains(&offset);
        if !is_in_range || self.diverging(offset, fetch.last_fetched_epoch, &offsets)?.is_some() {
            // The answer says so; until its log agrees with this one it tells nothing.
            return Ok(());
        }
        let now_ms = self.env.now_ms();
        let mut leadership = leadership.lock();
        let registered = image.broker(broker).map(|registered| registered.epoch);
        if leadership.fetched(fetch.fetch, registered, offsets.log_end, now_ms)? {
            self.low_watermark_moved.notify_waiters();
        }
        self.commit(&leadership, image, now_ms);
        let joins = leadership.propose_join(broker, self.log.high_watermark(), image);
        drop(leadership);
        self.propose(joins);
        Ok(())
    }

    /// Refuses a broker that keeps no replica; `epoch` is the leader epoch that it named, which is right.
    pub(crate) fn check_follower(&self, broker: BrokerId, epoch: LeaderEpoch) -> Result<(), Refused> {
        if self.state.load().replicas.contains(&broker) && broker != self.env.own_id {
            return Ok(());
        }
        // With a leader epoch that is right, this broker may be the one that has not heard of it yet (Kafka's reading).
        let error = if epoch == -1 { ErrorCode::NotLeaderOrFollower } else { ErrorCode::UnknownLeaderEpoch };
        Err(error.into())
    }

    /// Where the log of whoever fetches from `fetch_offset`, with a record of `last_fetched_epoch` before it, parts from this
    /// one; `None` = not at all, or it does not say (epoch -1).
    ///
    /// # Errors
    /// OFFSET_OUT_OF_RANGE when nothing is known of such an epoch, or it is gone.
    pub(crate) fn diverging(
        &self,
        fetch_offset: Offset,
        last_fetched_epoch: LeaderEpoch,
        offsets: &Offsets,
    ) -> Result<Option<EpochEnd>, Refused> {
        let leads_since_then = || {
            let state = self.state.load();
            state.leader == self.env.own_id && state.leader_epoch == last_fetched_epoch
        };
        // What nearly everyone asks: the newest epoch goes on to the end of the log, which need not be locked for that.
        if last_fetched_epoch < 0 || (leads_since_then() && fetch_offset <= offsets.log_end) {
            return Ok(None);
        }
        if fetch_offset < offsets.log_start {
            return Err(ErrorCode::OffsetOutOfRange.into());
        }
        Ok(diverging(|epoch| self.log.epoch_end(epoch), fetch_offset, last_fetched_epoch)?)
    }

    /// The controllers answer a proposal; the metadata that they decided from have been followed.
    pub(crate) fn isr_answered(
        self: &Arc<Self>,
        change: &IsrChange,
        answer: Result<&Arc<PartitionState>, ErrorCode>,
    ) -> AfterProposal {
        let office = self.office.read();
        let Some(leadership) = &office.leadership else { return AfterProposal::Settled };
        let (image, now_ms) = (self.env.metadata.glance(), self.env.now_ms());
        let mut leadership = leadership.lock();
        let after = leadership.answered(change, answer);
        self.commit(&leadership, &image, now_ms);
        let next = self.next_join(&mut leadership, &image, now_ms);
        drop(leadership);
        self.propose(next);
        after
    }

    /// Brokers have come, says `image`: proposes that one of them joins the ISR if it has everything, as it need not ask again.
    pub(super) fn brokers_came(self: &Arc<Self>, image: &MetadataImage) {
        let office = self.office.read();
        let Some(leadership) = &office.leadership else { return };
        let joins = self.next_join(&mut leadership.lock(), image, self.env.now_ms());
        self.propose(joins);
    }

    /// Who joins the ISR next of those that do not ask. Needs the office.
    fn next_join(&self, leadership: &mut Leadership, image: &MetadataImage, now_ms: i64) -> Option<IsrChange> {
        let (high_watermark, log_end) = (self.log.high_watermark(), self.log.end_offset());
        leadership.propose_next_join(high_watermark, log_end, self.env.lag_max_ms(), image, now_ms)
    }

    /// Proposes that followers leave the ISR that have not kept up; call it from time to time.
    pub(crate) fn check_lag(self: &Arc<Self>) {
        let office = self.office.read();
        let Some(leadership) = &office.leadership else { return };
        let now_ms = self.env.now_ms();
        let mut leadership = leadership.lock();
        let leave = leadership.propose_leave(self.log.end_offset(), self.env.lag_max_ms(), now_ms);
        // Whoever is not in the ISR and stopped fetching is not waited for any more.
        let image = self.env.metadata.glance();
        self.commit(&leadership, &image, now_ms);
        // Whom the controllers did not let in is tried again.
        let change = leave.or_else(|| self.next_join(&mut leadership, &image, now_ms));
        drop(leadership);
        self.propose(change);
    }

    /// How far the replicas outside of the ISR are behind; empty when this broker does not lead.
    pub(crate) fn lags(&self) -> Vec<FollowerLag> {
        let office = self.office.read();
        let leadership = office.leadership.as_ref();
        leadership.map(|leadership| leadership.lock().lags(self.log.end_offset())).unwrap_or_default()
    }

    /// Where the logs of all replicas begin at the latest; `None` = a follower has not said yet.
    pub(crate) fn low_watermark(&self, image: &MetadataImage) -> Option<Offset> {
        let office = self.office.read();
        let own = self.log.log_start_offset();
        match &office.leadership {
            Some(leadership) => leadership.lock().low_watermark(own, image),
            None => Some(own),
        }
    }

    /// Asks `reached` now, and whenever [`Self::low_watermark`] may have changed or the leader has, until it gives something.
    pub(crate) async fn low_watermark_reaches<T>(&self, reached: impl Fn() -> Option<T>) -> T {
        loop {
            // Made before the question, so that no answer is missed.
            let moved = self.low_watermark_moved.notified();
            if let Some(reached) = reached() {
                return reached;
            }
            moved.await;
        }
    }

    /// The follower from which a consumer in `rack` should read from `offset` on, if that is better than here (KIP-392).
    pub(crate) fn read_replica(&self, rack: &str, offset: Offset, image: &MetadataImage) -> Option<BrokerId> {
        let office = self.office.read();
        let leadership = office.leadership.as_ref()?.lock();
        leadership.read_replica(rack, offset, image)
    }

    /// Whether the end of the log cannot be told to consumers yet: the high watermark may still be behind what consumers of an
    /// earlier leader have seen.
    pub(crate) fn is_behind_its_epoch(&self) -> bool {
        let office = self.office.read();
        let begun_at = office.leadership.as_ref().map(|leadership| leadership.lock().begun_at());
        begun_at.is_some_and(|begun_at| self.log.high_watermark() < begun_at)
    }

    /// What is appended is committed: there is no other replica. Needs the office.
    fn commit_alone(&self, end_offset: Offset) {
        let (_, high_watermark) = self.log.advance_high_watermark(end_offset);
        self.commits.reach(high_watermark, || Ok(()));
    }

    /// Raises the high watermark as far as is known to be replicated, and tells those who wait for it. Needs the office.
    fn commit(&self, leadership: &Leadership, image: &MetadataImage, now_ms: i64) {
        let (log_end, configured) = (self.log.end_offset(), self.configured_minimum());
        let current = self.log.high_watermark();
        let lag_max_ms = self.env.lag_max_ms();
        let reached = leadership.high_watermark(current, log_end, configured, lag_max_ms, image, now_ms);
        if reached <= current {
            return;
        }
        self.log.advance_high_watermark(reached);
        self.commits.reach(reached, || {
            leadership.acknowledge(reached, reached, configured).unwrap_or(Err(ErrorCode::UnknownServerError))
        });
        self.tell_committed(reached);
    }

    /// Tells readers that the high watermark has moved to `high_watermark`.
    pub(super) fn tell_committed(&self, high_watermark: Offset) {
        // While some of it is not committed yet all of it is told again, rather than too little once.
        let bytes = if high_watermark >= self.log.end_offset() {
            self.uncommitted_bytes.swap(0, Ordering::AcqRel)
        } else {
            self.uncommitted_bytes.load(Ordering::Acquire)
        };
        // What was in the log before it was counted, when the process started, is worth a look too.
        self.readers.grown(bytes.max(1));
        self.followers.noted();
    }

    /// Sends a proposal on its way.
    fn propose(self: &Arc<Self>, change: Option<IsrChange>) {
        if let Some(change) = change {
            self.env.isr_changes.push(Arc::clone(self), change);
        }
    }
}

/// What a client is told when an append failed.
fn append_refusal(error: &AppendError) -> ErrorCode {
    match error {
        AppendError::Producer(error) => error.code(),
        AppendError::TooLarge { .. } => ErrorCode::RecordListTooLarge,
        AppendError::Deleted => ErrorCode::NotLeaderOrFollower,
        AppendError::InvalidBatch(_) => ErrorCode::InvalidRecord,
        AppendError::OutOfOrderOffset { .. } => ErrorCode::UnknownServerError,
        AppendError::Offline(_) | AppendError::Fenced(_) | AppendError::DiskFull | AppendError::Io(_) => {
            ErrorCode::KafkaStorageError
        }
    }
}
