//! Heartbeat and LeaveGroup.

use super::Now;
use super::effects::{Effects, LeaveReply, Reply, Waiter};
use super::shard::{GroupShard, Step};
use super::state::{Group, GroupState};
use crate::errors::ErrorCode;
use std::sync::Arc;

/// A Heartbeat request.
#[derive(Clone, Copy, Debug)]
pub struct HeartbeatRequest<'a> {
    /// The group.
    pub group_id: &'a str,
    /// Generation that the member joined.
    pub generation: i32,
    /// The member.
    pub member_id: &'a str,
    /// Its `group.instance.id`.
    pub instance_id: Option<&'a str>,
}

/// A LeaveGroup request.
#[derive(Clone, Debug)]
pub struct LeaveRequest {
    /// Who waits for the reply.
    pub waiter: Waiter,
    /// The group.
    pub group_id: String,
    /// Who leaves.
    pub members: Vec<LeavingMember>,
}

/// One who leaves, by its own wish or an administrator's.
#[derive(Clone, Debug)]
pub struct LeavingMember {
    /// Its id; empty when an administrator removes a static member.
    pub member_id: String,
    /// Its `group.instance.id`.
    pub instance_id: Option<String>,
}

impl GroupShard {
    /// A member lives; the code tells it whether to join again.
    pub fn heartbeat(&mut self, now: Now, request: &HeartbeatRequest<'_>) -> ErrorCode {
        if request.group_id.is_empty() {
            return ErrorCode::InvalidGroupId;
        }
        let Some((group, mut step)) = self.step(now, request.group_id) else {
            return ErrorCode::UnknownMemberId;
        };
        if let Err(error) = group.validate_member(request.member_id, request.instance_id) {
            return error;
        }
        if request.generation != group.generation {
            return ErrorCode::IllegalGeneration;
        }
        group.renew_session(&mut step, request.member_id);
        match group.state {
            GroupState::Empty => ErrorCode::UnknownMemberId,
            GroupState::PreparingRebalance => ErrorCode::RebalanceInProgress,
            GroupState::CompletingRebalance | GroupState::Stable => ErrorCode::None,
        }
    }

    /// Members leave. When the group is empty by that, the reply waits until this is written.
    pub fn leave(&mut self, now: Now, request: &LeaveRequest) -> Effects {
        let all = |error: ErrorCode| {
            let each = |m: &LeavingMember| (m.member_id.clone(), m.instance_id.clone(), error);
            LeaveReply { error: ErrorCode::None, members: request.members.iter().map(each).collect() }
        };
        if request.group_id.is_empty() {
            let reply = LeaveReply { error: ErrorCode::InvalidGroupId, members: Vec::new() };
            return Effects::reply(request.waiter, Reply::Leave(reply));
        }
        let Some((group, mut step)) = self.step(now, &request.group_id) else {
            return Effects::reply(request.waiter, Reply::Leave(all(ErrorCode::UnknownMemberId)));
        };
        let mut reply = all(ErrorCode::None);
        for (member, (_, _, error)) in request.members.iter().zip(&mut reply.members) {
            *error = group.let_leave(&mut step, member);
        }
        if reply.members.iter().any(|(_, _, error)| error.is_none()) {
            group.after_removal(&mut step);
        }
        match step.effects.writes.last_mut() {
            Some(write) => write.reply = Some((request.waiter, Reply::Leave(reply))),
            None => step.effects.replies.push((request.waiter, Reply::Leave(reply))),
        }
        step.effects
    }
}

impl Group {
    fn let_leave(&mut self, step: &mut Step<'_>, leaving: &LeavingMember) -> ErrorCode {
        let instance_id = leaving.instance_id.as_deref();
        let member_id: Arc<str> = if leaving.member_id.is_empty() {
            match instance_id.and_then(|instance_id| self.static_members.get(instance_id)) {
                Some(member_id) => member_id.clone(),
                None => return ErrorCode::UnknownMemberId,
            }
        } else if self.pending_join.remove(&*leaving.member_id).is_some() {
            return ErrorCode::None;
        } else {
            if let Err(error) = self.validate_member(&leaving.member_id, instance_id) {
                return error;
            }
            leaving.member_id.as_str().into()
        };
        self.stats.left += 1;
        self.drop_member(step, &member_id);
        ErrorCode::None
    }
}
