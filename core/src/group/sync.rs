//! SyncGroup.

use super::Now;
use super::effects::{Effects, Reply, SyncReply, Then, Waiter, Write};
use super::record::GroupRecord;
use super::shard::{GroupShard, Step};
use super::state::{Group, GroupState};
use crate::errors::ErrorCode;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A SyncGroup request.
#[derive(Clone, Debug)]
pub struct SyncRequest {
    /// Who waits for the reply.
    pub waiter: Waiter,
    /// The group.
    pub group_id: String,
    /// Generation that the member joined.
    pub generation: i32,
    /// The member.
    pub member_id: String,
    /// Its `group.instance.id`.
    pub instance_id: Option<String>,
    /// Type of the protocol that it thinks was chosen (SyncGroup 5 and later).
    pub protocol_type: Option<String>,
    /// Protocol that it thinks was chosen (SyncGroup 5 and later).
    pub protocol_name: Option<String>,
    /// If it leads: what each member gets.
    pub assignments: Vec<(String, Bytes)>,
}

impl GroupShard {
    /// A member asks for its assignment; the leader brings everyone's. Replies come when the leader's is committed.
    pub fn sync(&mut self, now: Now, request: SyncRequest) -> Effects {
        let refused = |error| Effects::reply(request.waiter, Reply::Sync(SyncReply::refused(error)));
        if request.group_id.is_empty() {
            return refused(ErrorCode::InvalidGroupId);
        }
        let Some((group, mut step)) = self.step(now, &request.group_id) else {
            return refused(ErrorCode::UnknownMemberId);
        };
        match group.validate_sync(&request) {
            Err(error) => refused(error),
            Ok(()) => {
                group.sync(&mut step, request);
                step.effects
            }
        }
    }
}

impl Group {
    fn validate_sync(&self, request: &SyncRequest) -> Result<(), ErrorCode> {
        self.validate_member(&request.member_id, request.instance_id.as_deref())?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        let differs =
            |theirs: &Option<String>, ours: &Option<String>| theirs.is_some() && ours.is_some() && theirs != ours;
        if differs(&request.protocol_type, &self.protocol_type) || differs(&request.protocol_name, &self.protocol_name)
        {
            return Err(ErrorCode::InconsistentGroupProtocol);
        }
        match self.state {
            GroupState::PreparingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    fn sync(&mut self, step: &mut Step<'_>, request: SyncRequest) {
        self.pending_sync.remove(&*request.member_id);
        if self.pending_sync.is_empty() {
            self.sync_deadline.cancel();
        }
        let Some(member) = self.members.get_mut(&*request.member_id) else { return };
        if self.state == GroupState::Stable {
            let assignment = member.assignment.clone();
            step.effects.replies.push((request.waiter, Reply::Sync(self.sync_reply(assignment))));
            return;
        }
        if let Some(earlier) = member.awaiting_sync.replace(request.waiter) {
            // The client has given up on its former request, which still owes an answer.
            let reply = SyncReply::refused(ErrorCode::RebalanceInProgress);
            step.effects.replies.push((earlier, Reply::Sync(reply)));
        }
        if self.is_leader(&request.member_id) {
            let assignments: BTreeMap<Arc<str>, Bytes> =
                request.assignments.into_iter().map(|(member_id, assignment)| (member_id.into(), assignment)).collect();
            let record = self.to_value(|member| assignments.get(&member.member_id).cloned().unwrap_or_default());
            step.effects.writes.push(Write {
                records: vec![GroupRecord::Group { group_id: self.group_id.clone(), value: Some(record) }],
                then: Then::Assign { group_id: self.group_id.clone(), generation: self.generation, assignments },
                reply: None,
            });
        }
    }

    /// The leader's assignment is committed: everyone gets theirs. Unless a rebalance has begun meanwhile.
    pub(super) fn assign(&mut self, step: &mut Step<'_>, generation: i32, assignments: &BTreeMap<Arc<str>, Bytes>) {
        if self.state != GroupState::CompletingRebalance || self.generation != generation {
            return;
        }
        let member_ids: Vec<Arc<str>> = self.members.keys().cloned().collect();
        for member_id in member_ids {
            let assignment = assignments.get(&member_id).cloned().unwrap_or_default();
            let waiting = self.members.get_mut(&member_id).and_then(|member| {
                member.assignment = assignment.clone();
                member.awaiting_sync.take()
            });
            if let Some(waiter) = waiting {
                step.effects.replies.push((waiter, Reply::Sync(self.sync_reply(assignment))));
                self.renew_session(step, &member_id);
            }
        }
        self.enter(GroupState::Stable, step.now.unix_ms);
    }

    /// The leader's assignment could not be written: members are told, and join again.
    pub(super) fn undo_assign(&mut self, step: &mut Step<'_>, generation: i32, error: ErrorCode) {
        if self.state == GroupState::CompletingRebalance && self.generation == generation {
            self.reset_assignments(step, error);
            self.prepare_rebalance(step);
        }
    }
}
