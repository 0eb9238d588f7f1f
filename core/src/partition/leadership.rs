//! What a leader knows of its followers, and what follows from it: the high watermark, who is in sync, what acks=all may
//! be told.
//!
//! The ISR belongs to the controllers: a leader proposes changes (AlterPartition) and has one proposal under way at a time.
//! Until the answer is known it goes by the largest ISR that may be true: a member that is proposed to join counts already,
//! one that is proposed to leave counts still. So whatever the controllers decide, nothing was committed that a member of
//! their ISR does not have. The rules are those of Kafka's `Partition`.
//!
//! Times are milliseconds of one clock that never goes back, chosen by the caller.

use std::sync::Arc;

use super::follower::{Follower, FollowerFetch, UNKNOWN_OFFSET};
use super::watermark::high_watermark;
use crate::control::{BrokerIdentity, FollowerLag, IsrChange};
use crate::errors::ErrorCode;
use crate::event::PartitionState;
use crate::ids::{BrokerId, LeaderEpoch, Offset};
use crate::image::{MetadataImage, PartitionKey};
use crate::planted::{PlantedBug, is_planted};

/// What the leader does after the answer to a proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AfterProposal {
    /// The ISR is known again; the high watermark may have moved.
    Settled,
    /// Whether the proposal was accepted is not known: the next metadata tell.
    AwaitMetadata,
    /// Send the same proposal again, after a pause.
    Retry,
}

/// A change of the ISR that is under way.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Pending {
    change: IsrChange,
    /// The member that joins, if it is that.
    joining: Option<BrokerId>,
}

/// A partition as its leader sees it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Leadership {
    key: PartitionKey,
    own: BrokerIdentity,
    state: Arc<PartitionState>,
    /// Where the log ended when this leadership began. Who has not fetched past that may still have other records.
    begun_at: Offset,
    followers: Vec<Follower>,
    pending: Option<Pending>,
}

impl Leadership {
    /// Broker `own` leads partition `key` from now on, as `state` says, with a log that ends at `log_end`.
    pub fn begin(
        key: PartitionKey,
        own: BrokerIdentity,
        state: Arc<PartitionState>,
        log_end: Offset,
        now_ms: i64,
    ) -> Self {
        let mut leadership = Self { key, own, state, begun_at: log_end, followers: Vec::new(), pending: None };
        leadership.adopt_followers();
        leadership.begin_followers(log_end, now_ms);
        leadership
    }

    /// Takes over what the metadata say; `state` must name this broker as the leader. An older state than the one known
    /// changes nothing. Gives whether anything changed.
    pub fn follow(&mut self, state: &Arc<PartitionState>, log_end: Offset, now_ms: i64) -> bool {
        if state.partition_epoch <= self.state.partition_epoch {
            return false;
        }
        let is_new = state.leader_epoch > self.state.leader_epoch;
        self.state = Arc::clone(state);
        self.pending = None;
        self.adopt_followers();
        if is_new {
            self.begun_at = log_end;
            self.begin_followers(log_end, now_ms);
        }
        true
    }

    /// This broker is registered as `own` now.
    pub fn identify(&mut self, own: BrokerIdentity) {
        self.own = own;
    }

    /// The log has grown; it ended at `end_before`. Whoever was level with it had caught up until now, though it may not
    /// have asked for long: a follower that has everything need not.
    pub fn grown(&mut self, end_before: Offset, now_ms: i64) {
        for follower in self.followers.iter_mut().filter(|follower| follower.log_end == end_before) {
            follower.was_level(now_ms);
        }
    }

    /// Where the log ended when this leadership began.
    pub fn begun_at(&self) -> Offset {
        self.begun_at
    }

    /// Epoch of the leadership.
    pub fn leader_epoch(&self) -> LeaderEpoch {
        self.state.leader_epoch
    }

    /// The newest state that the controllers are known to have.
    pub fn state(&self) -> &Arc<PartitionState> {
        &self.state
    }

    /// Whether a proposal is under way.
    pub fn is_proposing(&self) -> bool {
        self.pending.is_some()
    }

    /// Notes a follower's fetch, which meets a log that ends at `leader_end`. `registered_epoch` is the epoch of the
    /// broker's registration, if it has one. Gives whether the follower's log begins elsewhere than it was known to.
    ///
    /// # Errors
    /// NOT_LEADER_OR_FOLLOWER when the broker keeps no replica, or the fetch is from an earlier life of it.
    pub fn fetched(
        &mut self,
        fetch: FollowerFetch,
        registered_epoch: Option<i64>,
        leader_end: Offset,
        now_ms: i64,
    ) -> Result<bool, ErrorCode> {
        let is_stale = fetch.broker_epoch != -1
            && registered_epoch.is_some_and(|newest| newest > fetch.broker_epoch)
            && !is_planted(PlantedBug::StaleBrokerEpochAccepted);
        let follower = self.followers.iter_mut().find(|it| it.id == fetch.broker && !is_stale);
        let follower = follower.ok_or(ErrorCode::NotLeaderOrFollower)?;
        let has_moved = follower.log_start != fetch.log_start;
        follower.fetched(fetch, leader_end, now_ms);
        Ok(has_moved)
    }

    /// The high watermark by all that is known, `current` at least. `configured` is the topic's `min.insync.replicas`.
    ///
    /// Followers that keep up and are about to join are waited for too, so that they can: an ISR that commits without them
    /// would run away from them.
    pub fn high_watermark(
        &self,
        current: Offset,
        log_end: Offset,
        configured: usize,
        lag_max_ms: i64,
        image: &MetadataImage,
        now_ms: i64,
    ) -> Offset {
        let counts = |follower: &&Follower| {
            self.may_be_in_sync(follower.id)
                || (follower.keeps_up(log_end, lag_max_ms, now_ms)
                    && self.is_admissible(follower, image)
                    && !is_planted(PlantedBug::JoiningNotWaitedFor))
        };
        let ends = self.followers.iter().filter(counts).map(|follower| follower.log_end);
        high_watermark(current, ends.chain([log_end]), !self.is_below_minimum(configured))
    }

    /// Whether fewer replicas than the minimum are known to be in sync: nothing is committed then.
    pub fn is_below_minimum(&self, configured: usize) -> bool {
        self.state.isr.len() < self.state.min_in_sync(configured) && !is_planted(PlantedBug::MinInSyncIgnored)
    }

    /// Whether a batch with acks=all may be appended.
    ///
    /// # Errors
    /// NOT_ENOUGH_REPLICAS when it could not be committed.
    pub fn check_append(&self, configured: usize) -> Result<(), ErrorCode> {
        if self.is_below_minimum(configured) { Err(ErrorCode::NotEnoughReplicas) } else { Ok(()) }
    }

    /// What a producer with acks=all is told whose batch ends at `end`; `None` = it has to wait.
    ///
    /// NOT_ENOUGH_REPLICAS_AFTER_APPEND: the batch is committed, but the ISR has shrunk below the minimum meanwhile.
    pub fn acknowledge(&self, end: Offset, high_watermark: Offset, configured: usize) -> Option<Result<(), ErrorCode>> {
        if high_watermark < end && !is_planted(PlantedBug::AcknowledgedEarly) {
            return None;
        }
        let joining = usize::from(self.joining().is_some());
        let is_enough = self.state.isr.len() + joining >= self.state.min_in_sync(configured)
            || is_planted(PlantedBug::MinInSyncIgnored);
        Some(if is_enough { Ok(()) } else { Err(ErrorCode::NotEnoughReplicasAfterAppend) })
    }

    /// Proposes that `broker` joins the ISR, if it has all that is committed and is allowed to; call it after its fetch.
    pub fn propose_join(
        &mut self,
        broker: BrokerId,
        high_watermark: Offset,
        image: &MetadataImage,
    ) -> Option<IsrChange> {
        if self.pending.is_some() || self.state.isr.contains(&broker) {
            return None;
        }
        let follower = self.followers.iter().find(|it| it.id == broker)?;
        let has_all = (follower.log_end >= high_watermark && follower.log_end >= self.begun_at)
            || is_planted(PlantedBug::JoinsWithoutRecords);
        if !has_all || !self.is_admissible(follower, image) {
            return None;
        }
        let isr =
            self.state.replicas.iter().copied().filter(|id| self.state.isr.contains(id) || *id == broker).collect();
        Some(self.propose(isr, Some(broker)))
    }

    /// Proposes that a follower joins that has all that is committed, though it does not ask right now: one that has everything
    /// need not. Call it when what kept it out may be over, which is after the answer to a proposal and when brokers come.
    pub fn propose_next_join(
        &mut self,
        high_watermark: Offset,
        log_end: Offset,
        lag_max_ms: i64,
        image: &MetadataImage,
        now_ms: i64,
    ) -> Option<IsrChange> {
        // Whoever had to leave because it did not keep up comes back by asking.
        let keeping_up = self.followers.iter().filter(|it| it.keeps_up(log_end, lag_max_ms, now_ms));
        let candidates: Vec<BrokerId> = keeping_up.map(|it| it.id).collect();
        candidates.into_iter().find_map(|id| self.propose_join(id, high_watermark, image))
    }

    /// Proposes that whoever has not kept up for `lag_max_ms` leaves the ISR; call it from time to time.
    pub fn propose_leave(&mut self, log_end: Offset, lag_max_ms: i64, now_ms: i64) -> Option<IsrChange> {
        if self.pending.is_some() {
            return None;
        }
        let keeps_up = |id: &BrokerId| {
            let follower = self.followers.iter().find(|follower| follower.id == *id);
            *id == self.own.id || follower.is_some_and(|it| it.keeps_up(log_end, lag_max_ms, now_ms))
        };
        let isr: Vec<BrokerId> = self.state.isr.iter().copied().filter(keeps_up).collect();
        (isr.len() < self.state.isr.len()).then(|| self.propose(isr, None))
    }

    /// Tells the controllers that the leader is done with what an unclean election takes, if it was elected so.
    pub fn propose_recovered(&mut self) -> Option<IsrChange> {
        if self.pending.is_some() || !self.state.recovering {
            return None;
        }
        let isr = self.state.isr.clone();
        Some(self.propose(isr, None))
    }

    /// The controllers answer the proposal `change`. To be told only when this broker has applied the metadata that the
    /// answer was decided from: an ISR counts with the topic's minimum of the same moment, never of an earlier one.
    pub fn answered(&mut self, change: &IsrChange, answer: Result<&Arc<PartitionState>, ErrorCode>) -> AfterProposal {
        if self.pending.as_ref().is_none_or(|pending| pending.change != *change) {
            // Overtaken by the metadata, which tell more than the answer.
            return AfterProposal::Settled;
        }
        match answer {
            Ok(state) if state.leader_epoch != self.state.leader_epoch => AfterProposal::AwaitMetadata,
            // As new as what is known: nothing had to change.
            Ok(state) if state.partition_epoch >= self.state.partition_epoch => {
                self.state = Arc::clone(state);
                self.pending = None;
                self.adopt_followers();
                AfterProposal::Settled
            }
            Ok(_) => AfterProposal::AwaitMetadata,
            // The epochs were right and the proposal was not accepted, nor will it ever be: the ISR is what it was.
            Err(ErrorCode::IneligibleReplica | ErrorCode::OperationNotAttempted) => {
                self.pending = None;
                AfterProposal::Settled
            }
            Err(
                ErrorCode::UnknownTopicOrPartition
                | ErrorCode::UnknownTopicId
                | ErrorCode::FencedLeaderEpoch
                | ErrorCode::InvalidUpdateVersion
                | ErrorCode::InvalidRequest
                | ErrorCode::NewLeaderElected,
            ) => AfterProposal::AwaitMetadata,
            Err(_) => AfterProposal::Retry,
        }
    }

    /// How far the replicas outside of the ISR are behind, for the controllers' answers to whether brokers may restart.
    pub fn lags(&self, log_end: Offset) -> Vec<FollowerLag> {
        let outside = self.followers.iter().filter(|it| !self.state.isr.contains(&it.id));
        let known = outside.filter(|it| it.log_end != UNKNOWN_OFFSET);
        known.map(|it| FollowerLag { broker: it.id, records: (log_end - it.log_end).max(0) }).collect()
    }

    /// Where the logs of all replicas begin at the latest, for DeleteRecords: `own` is the leader's. `None` = a follower has
    /// not said yet.
    pub fn low_watermark(&self, own: Offset, image: &MetadataImage) -> Option<Offset> {
        let live = self.followers.iter().filter(|it| image.is_active(it.id));
        let starts = live.map(|it| Some(it.log_start).filter(|start| *start != UNKNOWN_OFFSET));
        starts.chain([Some(own)]).try_fold(own, |low, start| start.map(|start| low.min(start)))
    }

    /// The follower from which a consumer in `rack` should read from `fetch_offset` on (KIP-392), if the leader is not in its
    /// rack itself: one that serves and has the offset, of several the one that is furthest.
    pub fn read_replica(&self, rack: &str, fetch_offset: Offset, image: &MetadataImage) -> Option<BrokerId> {
        let is_near = |id: BrokerId| image.broker(id).is_some_and(|broker| broker.rack.as_deref() == Some(rack));
        if is_near(self.own.id) {
            return None;
        }
        let has_offset = |it: &&Follower| it.log_start != UNKNOWN_OFFSET && it.log_start <= fetch_offset;
        let reaches_it = |it: &&Follower| it.log_end >= fetch_offset;
        let near = self.followers.iter().filter(|it| image.is_active(it.id) && is_near(it.id));
        near.filter(has_offset).filter(reaches_it).max_by_key(|it| (it.log_end, it.id)).map(|it| it.id)
    }

    fn joining(&self) -> Option<BrokerId> {
        self.pending.as_ref()?.joining
    }

    /// Whether `broker` may be in the ISR by now, as far as this leader knows.
    fn may_be_in_sync(&self, broker: BrokerId) -> bool {
        let is_leaving = |pending: &Pending| !pending.change.isr.iter().any(|member| member.id == broker);
        if is_planted(PlantedBug::IsrShrinksBeforeCommit) && self.pending.as_ref().is_some_and(is_leaving) {
            return false;
        }
        self.state.isr.contains(&broker)
            || (self.joining() == Some(broker) && !is_planted(PlantedBug::JoiningNotWaitedFor))
    }

    /// Whether the controllers would take the follower into the ISR: it serves, and it is the registered process that
    /// fetched.
    fn is_admissible(&self, follower: &Follower, image: &MetadataImage) -> bool {
        let Some(epoch) = follower.broker_epoch else { return false };
        image.may_lead(follower.id)
            && (image.broker(follower.id).is_some_and(|broker| epoch == -1 || broker.epoch == epoch)
                || is_planted(PlantedBug::StaleBrokerEpochAccepted))
    }

    fn propose(&mut self, isr: Vec<BrokerId>, joining: Option<BrokerId>) -> IsrChange {
        let epoch = |id: BrokerId| {
            let follower = self.followers.iter().find(|follower| follower.id == id);
            follower.and_then(|it| it.broker_epoch).unwrap_or(-1)
        };
        let member = |id| if id == self.own.id { self.own } else { BrokerIdentity { id, epoch: epoch(id) } };
        let change = IsrChange {
            topic_id: self.key.0,
            partition: self.key.1,
            leader_epoch: self.state.leader_epoch,
            partition_epoch: self.state.partition_epoch,
            isr: isr.into_iter().map(member).collect(),
            recovering: false,
        };
        self.pending = Some(Pending { change: change.clone(), joining });
        change
    }

    /// Makes the followers those of the state; what is known of those that stay is kept.
    fn adopt_followers(&mut self) {
        let (state, own) = (&self.state, self.own.id);
        self.followers.retain(|follower| state.replicas.contains(&follower.id));
        for id in state.replicas.iter().copied().filter(|id| *id != own) {
            if !self.followers.iter().any(|follower| follower.id == id) {
                self.followers.push(Follower::new(id));
            }
        }
    }

    fn begin_followers(&mut self, log_end: Offset, now_ms: i64) {
        for follower in &mut self.followers {
            follower.begin(log_end, self.state.isr.contains(&follower.id), now_ms);
        }
    }
}
