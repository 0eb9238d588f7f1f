//! JoinGroup.

use super::deadlines::{Deadline, DeadlineKind};
use super::effects::{Effects, JoinReply, Replacement, Reply, SyncReply, Then, Waiter, Write};
use super::member::{Member, Protocol};
use super::record::GroupRecord;
use super::shard::{GroupShard, Step};
use super::state::{Group, GroupState};
use super::{MAX_PENDING_MEMBERS, Now};
use crate::errors::ErrorCode;
use bytes::Bytes;
use std::sync::Arc;

/// A JoinGroup request.
#[derive(Clone, Debug)]
pub struct JoinRequest {
    /// Who waits for the reply.
    pub waiter: Waiter,
    /// The group.
    pub group_id: String,
    /// The member's id; empty if it has none yet.
    pub member_id: String,
    /// Its `group.instance.id`.
    pub instance_id: Option<String>,
    /// Id for it if it has none yet: client id or instance id, a dash, and a random UUID.
    pub new_member_id: String,
    /// The client's id.
    pub client_id: String,
    /// Where it connects from, as "/address".
    pub client_host: String,
    /// How long it may be silent.
    pub session_timeout_ms: i32,
    /// How long a rebalance waits for it.
    pub rebalance_timeout_ms: i32,
    /// Type of its protocols.
    pub protocol_type: String,
    /// What it supports, most wanted first.
    pub protocols: Vec<Protocol>,
    /// Whether it has to come back with the id that it is given (JoinGroup 4 and later, KIP-394).
    pub requires_known_member_id: bool,
    /// Whether it understands that its assignment stands (JoinGroup 9 and later, KIP-814).
    pub supports_skipping_assignment: bool,
}

impl JoinRequest {
    fn refuse(&self, error: ErrorCode, member_id: &str) -> (Waiter, Reply) {
        (self.waiter, Reply::Join(JoinReply::refused(error, member_id)))
    }

    fn instance_id(&self) -> Option<&str> {
        self.instance_id.as_deref()
    }

    fn to_member(&self, member_id: Arc<str>) -> Member {
        Member {
            member_id,
            instance_id: self.instance_id().map(Into::into),
            client_id: self.client_id.clone(),
            client_host: self.client_host.clone(),
            rebalance_timeout_ms: self.rebalance_timeout_ms,
            session_timeout_ms: self.session_timeout_ms,
            protocols: self.protocols.clone(),
            assignment: Bytes::new(),
            awaiting_join: Some(self.waiter),
            awaiting_sync: None,
            is_new: true,
            session: Deadline::default(),
        }
    }
}

impl GroupShard {
    /// A client joins a group. The reply may come at once, when everyone has joined, or when a deadline passes.
    pub fn join(&mut self, now: Now, request: &JoinRequest) -> Effects {
        let refused = |error, member_id: &str| {
            let (waiter, reply) = request.refuse(error, member_id);
            Effects::reply(waiter, reply)
        };
        if request.group_id.is_empty() {
            return refused(ErrorCode::InvalidGroupId, &request.member_id);
        }
        let allowed = self.config.min_session_timeout_ms..=self.config.max_session_timeout_ms;
        if !allowed.contains(&request.session_timeout_ms) {
            return refused(ErrorCode::InvalidSessionTimeout, &request.member_id);
        }
        let is_new = request.member_id.is_empty();
        if is_new && !self.groups.contains_key(&*request.group_id) {
            let group_id: Arc<str> = request.group_id.as_str().into();
            self.groups.insert(group_id.clone(), Group::new(group_id, now.unix_ms));
        }
        let Some((group, mut step)) = self.step(now, &request.group_id) else {
            return refused(ErrorCode::UnknownMemberId, &request.member_id);
        };
        let refusal = if !group.accepts(&request.member_id, step.config.max_size) {
            group.remove(&request.member_id);
            Some((ErrorCode::GroupMaxSizeReached, ""))
        } else if !group.supports(&request.protocol_type, &request.protocols) {
            Some((ErrorCode::InconsistentGroupProtocol, request.member_id.as_str()))
        } else {
            None
        };
        if let Some((error, member_id)) = refusal {
            self.forget_unused(&request.group_id);
            return refused(error, member_id);
        }
        if is_new {
            group.join_new(&mut step, request);
        } else {
            group.join_known(&mut step, request);
        }
        step.effects
    }
}

impl Group {
    /// Whether there is room for a member.
    fn accepts(&self, member_id: &str, max_size: usize) -> bool {
        match self.state {
            GroupState::Empty => true,
            GroupState::PreparingRebalance => {
                let awaits = |member: &Member| member.awaiting_join.is_some();
                self.members.get(member_id).is_some_and(awaits)
                    || self.members.values().filter(|member| awaits(member)).count() < max_size
            }
            GroupState::CompletingRebalance | GroupState::Stable => {
                self.members.contains_key(member_id) || self.members.len() < max_size
            }
        }
    }

    /// A client without a member id.
    fn join_new(&mut self, step: &mut Step<'_>, request: &JoinRequest) {
        let member_id: Arc<str> = request.new_member_id.as_str().into();
        if let Some(instance_id) = request.instance_id() {
            match self.static_members.get(instance_id).cloned() {
                Some(former_id) => self.replace_static(step, request, &former_id, member_id),
                None => self.add_and_rebalance(step, request, member_id),
            }
        } else if !request.requires_known_member_id {
            self.add_and_rebalance(step, request, member_id);
        } else if self.pending_join.len() >= MAX_PENDING_MEMBERS {
            step.effects.replies.push(request.refuse(ErrorCode::GroupMaxSizeReached, ""));
        } else {
            let at_ms = step.now.monotonic_ms + i64::from(request.session_timeout_ms);
            let mut deadline = Deadline::default();
            let key = self.key(DeadlineKind::Member(member_id.clone()));
            step.deadlines.set(&mut deadline, at_ms, || key);
            step.effects.replies.push(request.refuse(ErrorCode::MemberIdRequired, &member_id));
            self.pending_join.insert(member_id, deadline);
        }
    }

    /// A client with a member id: one that was just given, or a member that joins again.
    fn join_known(&mut self, step: &mut Step<'_>, request: &JoinRequest) {
        let member_id = request.member_id.as_str();
        if self.pending_join.contains_key(member_id) {
            // Ids that wait are never handed to static members.
            if request.instance_id.is_some() {
                step.effects.replies.push(request.refuse(ErrorCode::UnknownMemberId, member_id));
                return;
            }
            return self.add_and_rebalance(step, request, member_id.into());
        }
        if let Err(error) = self.validate_member(member_id, request.instance_id()) {
            step.effects.replies.push(request.refuse(error, member_id));
            return;
        }
        let unchanged = self.members.get(member_id).is_some_and(|member| member.protocols == request.protocols);
        let answers_at_once = match self.state {
            GroupState::PreparingRebalance | GroupState::Empty => false,
            // The reply may have been lost.
            GroupState::CompletingRebalance => unchanged,
            // A leader that joins again asks for a rebalance: what it assigns may have changed.
            GroupState::Stable => unchanged && !self.is_leader(member_id),
        };
        if answers_at_once {
            step.effects.replies.push((request.waiter, Reply::Join(self.join_reply(member_id))));
        } else {
            self.update(step, request, member_id);
            self.rebalance_or_complete(step);
        }
    }

    /// Takes what a member says of itself now; it waits for the join phase to end.
    fn update(&mut self, step: &mut Step<'_>, request: &JoinRequest, member_id: &str) {
        let Some(member) = self.members.get_mut(member_id) else { return };
        member.protocols.clone_from(&request.protocols);
        member.rebalance_timeout_ms = request.rebalance_timeout_ms;
        member.session_timeout_ms = request.session_timeout_ms;
        if let Some(earlier) = member.awaiting_join.replace(request.waiter)
            && earlier != request.waiter
        {
            // The client has given up on its former request, which still owes an answer.
            step.effects
                .replies
                .push((earlier, Reply::Join(JoinReply::refused(ErrorCode::RebalanceInProgress, member_id))));
        }
    }

    fn add_and_rebalance(&mut self, step: &mut Step<'_>, request: &JoinRequest, member_id: Arc<str>) {
        if self.members.is_empty() {
            self.protocol_type = Some(request.protocol_type.clone());
        }
        if self.state == GroupState::PreparingRebalance && self.is_initial_rebalance {
            self.new_member_added = true;
        }
        self.insert(request.to_member(member_id.clone()));
        let timeout_ms = step.config.new_member_join_timeout_ms;
        self.set_session(step, &member_id, timeout_ms);
        self.rebalance_or_complete(step);
    }

    /// A static member came back without its id: it takes the place of its former self, which is fenced (KIP-345).
    fn replace_static(&mut self, step: &mut Step<'_>, request: &JoinRequest, former_id: &str, member_id: Arc<str>) {
        let former_leader = self.leader.clone();
        let Some(mut former) = self.members.remove(former_id) else { return };
        self.pending_sync.remove(former_id);
        if let Some(waiter) = former.awaiting_join.take() {
            let reply = JoinReply::refused(ErrorCode::FencedInstanceId, former_id);
            step.effects.replies.push((waiter, Reply::Join(reply)));
        }
        if let Some(waiter) = former.awaiting_sync.take() {
            step.effects.replies.push((waiter, Reply::Sync(SyncReply::refused(ErrorCode::FencedInstanceId))));
        }
        if self.is_leader(former_id) {
            self.leader = Some(member_id.clone());
        }
        // Like Kafka, keep client id and host of the former self.
        let mut member = Member { member_id: member_id.clone(), session: Deadline::default(), ..former.clone() };
        member.is_new = false;
        self.insert(member);
        self.update(step, request, &member_id);
        self.set_session(step, &member_id, former.session_timeout_ms);
        match self.state {
            GroupState::Stable if self.select_protocol() == self.protocol_name => {
                let record = self.to_value(|member| member.assignment.clone());
                let replacement = Replacement {
                    group_id: self.group_id.clone(),
                    instance_id: request.instance_id().unwrap_or_default().into(),
                    former,
                    former_leader,
                    member_id,
                    skip_assignment: request.supports_skipping_assignment,
                };
                step.effects.writes.push(Write {
                    records: vec![GroupRecord::Group { group_id: self.group_id.clone(), value: Some(record) }],
                    then: Then::Replace(Box::new(replacement)),
                    reply: None,
                });
            }
            GroupState::Stable | GroupState::CompletingRebalance => self.prepare_rebalance(step),
            GroupState::PreparingRebalance | GroupState::Empty => self.maybe_complete_join(step),
        }
    }

    /// The record with a replaced static member is committed: it has its place, without a rebalance.
    pub(super) fn finish_replacement(&mut self, step: &mut Step<'_>, replacement: &Replacement) {
        let member_id = &*replacement.member_id;
        let mut reply = self.join_reply(member_id);
        if replacement.skip_assignment {
            // A leader that is told to skip keeps the assignment it once made (KIP-814).
            reply.skip_assignment = self.is_leader(member_id);
        } else {
            // Older clients would assign anew if they were told that they lead: name the former leader to them.
            reply.leader = replacement.former_leader.as_deref().unwrap_or_default().to_owned();
            reply.members.clear();
        }
        if let Some(waiter) = self.members.get_mut(member_id).and_then(|member| member.awaiting_join.take()) {
            step.effects.replies.push((waiter, Reply::Join(reply)));
        }
    }

    /// The record could not be written: the former self is back, and the client has to ask again.
    pub(super) fn undo_replacement(&mut self, step: &mut Step<'_>, replacement: Replacement, error: ErrorCode) {
        if self.static_members.get(&replacement.instance_id) != Some(&replacement.member_id) {
            return;
        }
        let Some(mut member) = self.remove(&replacement.member_id) else { return };
        if let Some(waiter) = member.awaiting_join.take() {
            step.effects.replies.push((waiter, Reply::Join(JoinReply::refused(error, ""))));
        }
        let former = Member { session: Deadline::default(), ..replacement.former };
        let (former_id, timeout_ms) = (former.member_id.clone(), former.session_timeout_ms);
        self.insert(former);
        self.leader = replacement.former_leader;
        self.set_session(step, &former_id, timeout_ms);
    }
}
