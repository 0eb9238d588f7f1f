//! The two phases of a rebalance and the deadlines that move it on.

use super::deadlines::DeadlineKind;
use super::effects::{JoinReply, Reply, SyncReply, Then, Write};
use super::record::GroupRecord;
use super::shard::Step;
use super::state::{Group, GroupState};
use crate::errors::ErrorCode;
use bytes::Bytes;
use std::sync::Arc;

/// Least time between two looks for static members, whatever rebalance timeout they chose.
const MIN_WAIT_MS: i32 = 1_000;

impl Group {
    /// Lets a member be silent for `timeout_ms` from now.
    pub(super) fn set_session(&mut self, step: &mut Step<'_>, member_id: &str, timeout_ms: i32) {
        let group_id = &self.group_id;
        if let Some(member) = self.members.get_mut(member_id) {
            let at_ms = step.now.monotonic_ms + i64::from(timeout_ms);
            let member_id = &member.member_id;
            step.deadlines.set(&mut member.session, at_ms, || super::deadlines::DeadlineKey {
                group_id: group_id.clone(),
                kind: DeadlineKind::Member(member_id.clone()),
            });
        }
    }

    /// A member showed that it lives.
    pub(super) fn renew_session(&mut self, step: &mut Step<'_>, member_id: &str) {
        if let Some(timeout_ms) = self.members.get(member_id).map(|member| member.session_timeout_ms) {
            self.set_session(step, member_id, timeout_ms);
        }
    }

    fn set_join_deadline(&mut self, step: &mut Step<'_>, delay_ms: i32) {
        let key = self.key(DeadlineKind::Join);
        step.deadlines.set(&mut self.join_deadline, step.now.monotonic_ms + i64::from(delay_ms), || key);
    }

    /// Members changed: begin a rebalance, or see whether the one under way can go on.
    pub(super) fn rebalance_or_complete(&mut self, step: &mut Step<'_>) {
        if self.state == GroupState::PreparingRebalance {
            self.maybe_complete_join(step);
        } else {
            self.prepare_rebalance(step);
        }
    }

    /// Begins the join phase.
    pub(super) fn prepare_rebalance(&mut self, step: &mut Step<'_>) {
        if self.state == GroupState::CompletingRebalance {
            self.reset_assignments(step, ErrorCode::RebalanceInProgress);
        }
        self.pending_sync.clear();
        self.sync_deadline.cancel();
        self.is_initial_rebalance = self.state == GroupState::Empty;
        self.enter(GroupState::PreparingRebalance, step.now.unix_ms);
        if self.is_initial_rebalance {
            // Members of a new group start together; waiting a little spares a rebalance for each.
            let delay_ms = step.config.initial_rebalance_delay_ms;
            self.new_member_added = false;
            self.initial_remaining_ms = self.rebalance_timeout_ms().saturating_sub(delay_ms).max(0);
            self.set_join_deadline(step, delay_ms);
            if delay_ms <= 0 && self.has_everyone_joined() {
                self.complete_join(step);
            }
        } else if self.has_everyone_joined() {
            self.complete_join(step);
        } else {
            let timeout_ms = self.rebalance_timeout_ms();
            self.set_join_deadline(step, timeout_ms);
        }
    }

    /// Ends the join phase if everyone has joined; that of an initial rebalance ends by its deadline only.
    pub(super) fn maybe_complete_join(&mut self, step: &mut Step<'_>) {
        if self.state == GroupState::PreparingRebalance && !self.is_initial_rebalance && self.has_everyone_joined() {
            self.complete_join(step);
        }
    }

    /// The deadline of the join phase has passed.
    pub(super) fn on_join_deadline(&mut self, step: &mut Step<'_>) {
        if self.state != GroupState::PreparingRebalance {
            return;
        }
        if self.is_initial_rebalance && self.new_member_added && self.initial_remaining_ms > 0 {
            self.new_member_added = false;
            let delay_ms = step.config.initial_rebalance_delay_ms.min(self.initial_remaining_ms);
            self.initial_remaining_ms -= delay_ms;
            self.set_join_deadline(step, delay_ms);
        } else {
            self.complete_join(step);
        }
    }

    /// Ends the join phase with the members that have joined. Dynamic members that have not are removed; static ones stay
    /// until their session ends.
    fn complete_join(&mut self, step: &mut Step<'_>) {
        self.join_deadline.cancel();
        if self.storing_ids {
            return;
        }
        let absent: Vec<Arc<str>> = self
            .members
            .values()
            .filter(|member| member.awaiting_join.is_none() && member.instance_id.is_none())
            .map(|member| member.member_id.clone())
            .collect();
        self.stats.missed_join += absent.len() as u64;
        for member_id in absent {
            self.remove(&member_id);
        }
        if !self.members.is_empty() && !self.elect_joined_leader() {
            // Static members only, and none of them joined: wait on.
            let timeout_ms = self.rebalance_timeout_ms().max(MIN_WAIT_MS);
            self.set_join_deadline(step, timeout_ms);
            return;
        }
        if let Some(value) = self.stored_with_present_ids() {
            self.storing_ids = true;
            step.effects.writes.push(Write {
                records: vec![GroupRecord::Group { group_id: self.group_id.clone(), value: Some(value) }],
                then: Then::CompleteJoin { group_id: self.group_id.clone() },
                reply: None,
            });
            return;
        }
        self.is_initial_rebalance = false;
        self.begin_generation(step.now.unix_ms);
        if self.state == GroupState::Empty {
            let record = self.to_value(|_| Bytes::new());
            step.effects.writes.push(Write {
                records: vec![GroupRecord::Group { group_id: self.group_id.clone(), value: Some(record) }],
                then: Then::Apply,
                reply: None,
            });
            return;
        }
        let member_ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in member_ids {
            let reply = self.join_reply(&member_id);
            if let Some(member) = self.members.get_mut(&member_id) {
                member.is_new = false;
                if let Some(waiter) = member.awaiting_join.take() {
                    step.effects.replies.push((waiter, Reply::Join(reply)));
                }
            }
            self.renew_session(step, &member_id);
            self.pending_sync.insert(member_id);
        }
        let at_ms = step.now.monotonic_ms + i64::from(self.rebalance_timeout_ms());
        let key = self.key(DeadlineKind::Sync);
        step.deadlines.set(&mut self.sync_deadline, at_ms, || key);
    }

    /// The log knows the static members by their present ids: they may be told them.
    pub(super) fn ids_stored(&mut self, step: &mut Step<'_>) {
        self.storing_ids = false;
        if self.state == GroupState::PreparingRebalance {
            self.complete_join(step);
        }
    }

    /// The present ids of static members could not be written: nobody is told one, and everyone joins again.
    pub(super) fn ids_not_stored(&mut self, step: &mut Step<'_>, error: ErrorCode) {
        self.storing_ids = false;
        let member_ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in member_ids {
            let Some(waiter) = self.members.get_mut(&member_id).and_then(|member| member.awaiting_join.take()) else {
                continue;
            };
            step.effects.replies.push((waiter, Reply::Join(JoinReply::refused(error, ""))));
            self.renew_session(step, &member_id);
        }
        if self.state == GroupState::PreparingRebalance {
            let timeout_ms = self.rebalance_timeout_ms();
            self.set_join_deadline(step, timeout_ms);
        }
    }

    /// A leader that did not join cannot assign: another one leads. False if nobody has joined.
    fn elect_joined_leader(&mut self) -> bool {
        let has_joined = |id: &Arc<str>| self.members.get(id).is_some_and(|member| member.awaiting_join.is_some());
        if self.leader.as_ref().is_some_and(has_joined) {
            return true;
        }
        match self.members.values().find(|member| member.awaiting_join.is_some()) {
            Some(member) => {
                self.leader = Some(member.member_id.clone());
                true
            }
            None => false,
        }
    }

    /// The sync phase took too long: members whose sync did not come are removed, and the others join again.
    pub(super) fn on_sync_deadline(&mut self, step: &mut Step<'_>) {
        let syncs = matches!(self.state, GroupState::CompletingRebalance | GroupState::Stable);
        if !syncs || self.pending_sync.is_empty() {
            return;
        }
        let missing = std::mem::take(&mut self.pending_sync);
        self.stats.missed_sync += missing.len() as u64;
        for member_id in missing {
            self.remove(&member_id);
        }
        self.prepare_rebalance(step);
    }

    /// The session of a member, or of an id that was handed out, has ended.
    pub(super) fn on_session_deadline(&mut self, step: &mut Step<'_>, member_id: &str) {
        if self.pending_join.remove(member_id).is_some() {
            self.maybe_complete_join(step);
            return;
        }
        let excused = self.members.get(member_id).is_none_or(super::member::Member::is_excused);
        if !excused {
            self.stats.expired += 1;
            self.drop_member(step, member_id);
            self.after_removal(step);
        }
    }

    /// Takes a member out and answers what it waits for.
    pub(super) fn drop_member(&mut self, step: &mut Step<'_>, member_id: &str) {
        let Some(mut member) = self.remove(member_id) else { return };
        if let Some(waiter) = member.awaiting_join.take() {
            step.effects.replies.push((waiter, Reply::Join(JoinReply::refused(ErrorCode::UnknownMemberId, ""))));
        }
        if let Some(waiter) = member.awaiting_sync.take() {
            step.effects.replies.push((waiter, Reply::Sync(SyncReply::refused(ErrorCode::UnknownMemberId))));
        }
    }

    /// Members were removed: the rest share anew, or the join phase need not wait for them.
    pub(super) fn after_removal(&mut self, step: &mut Step<'_>) {
        match self.state {
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(step),
            // The last one has gone: there is nothing to wait for.
            GroupState::PreparingRebalance if self.members.is_empty() && self.pending_join.is_empty() => {
                self.complete_join(step);
            }
            GroupState::PreparingRebalance => self.maybe_complete_join(step),
            GroupState::Empty => {}
        }
    }

    /// Takes all assignments back and answers the members that wait for one.
    pub(super) fn reset_assignments(&mut self, step: &mut Step<'_>, error: ErrorCode) {
        let member_ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in member_ids {
            let waiting = self.members.get_mut(&member_id).and_then(|member| {
                member.assignment = Bytes::new();
                member.awaiting_sync.take()
            });
            if let Some(waiter) = waiting {
                step.effects.replies.push((waiter, Reply::Sync(SyncReply::refused(error))));
                self.renew_session(step, &member_id);
            }
        }
    }
}
