//! A client that does what real ones do.

use super::*;

/// One process that consumes in group "g".
#[derive(Debug, Default)]
pub(super) struct Client {
    pub(super) instance_id: Option<String>,
    /// The id that it was told last.
    pub(super) member_id: String,
    pub(super) generation: i32,
    /// What it was assigned in its generation.
    pub(super) assignment: Bytes,
    pub(super) is_member: bool,
    /// It was told that another process has its instance id, and stopped.
    pub(super) is_fenced: bool,
    /// It has asked for its place without an id since this was cleared, and so took it from others.
    pub(super) has_claimed: bool,
    /// Another process took its place: it may be fenced.
    pub(super) is_superseded: bool,
    joining: Option<Waiter>,
    syncing: Option<Waiter>,
}

impl Client {
    pub(super) fn new(instance_id: Option<String>) -> Self {
        Self { instance_id, ..Self::default() }
    }

    /// Its connection broke: who waits for a reply gets none and begins again.
    pub(super) fn disconnect(&mut self) {
        (self.joining, self.syncing) = (None, None);
    }

    /// It has not reached the coordinator for its session timeout, and begins anew.
    pub(super) fn forget(&mut self) {
        self.disconnect();
        self.member_id.clear();
        self.is_member = false;
    }

    /// Joins again by its own wish.
    pub(super) fn rejoin(&mut self) {
        self.is_member = false;
    }

    /// Takes its replies and sends its next request.
    pub(super) fn act(&mut self, h: &mut Harness) {
        if self.is_fenced || !self.take_join_reply(h) || !self.take_sync_reply(h) {
            return;
        }
        if self.is_member {
            let request = HeartbeatRequest {
                group_id: "g",
                generation: self.generation,
                member_id: &self.member_id,
                instance_id: self.instance_id.as_deref(),
            };
            let error = if h.is_down { ErrorCode::None } else { h.shard.heartbeat(h.now, &request) };
            if error.is_none() {
                return;
            }
            self.is_member = false;
            self.refused(error);
        }
        if !self.is_fenced && self.joining.is_none() && self.syncing.is_none() {
            let (member_id, instance_id) = (self.member_id.clone(), self.instance_id.clone());
            self.has_claimed |= member_id.is_empty();
            self.joining = Some(h.send_join(JoinRequest { member_id, instance_id, ..request() }));
        }
    }

    /// False while it waits.
    fn take_join_reply(&mut self, h: &mut Harness) -> bool {
        let Some(waiter) = self.joining else { return true };
        let Some(Reply::Join(reply)) = h.replies.get(&waiter).cloned() else { return false };
        self.joining = None;
        match reply.error {
            ErrorCode::None => {
                (self.member_id, self.generation) = (reply.member_id, reply.generation);
                let part = |id: &str| format!("part of {id} in {}", reply.generation);
                let all: Vec<_> = reply.members.into_iter().map(|m| (part(&m.member_id), m.member_id)).collect();
                let all: Vec<_> = all.iter().map(|(part, id)| (id.as_str(), part.as_str())).collect();
                let assigns = if reply.skip_assignment { &[] } else { &all[..] };
                let instance_id = self.instance_id.as_deref();
                self.syncing = Some(h.send_sync_of(instance_id, &self.member_id, self.generation, assigns));
            }
            ErrorCode::MemberIdRequired => self.member_id = reply.member_id,
            error => self.refused(error),
        }
        !self.is_fenced
    }

    /// False while it waits.
    fn take_sync_reply(&mut self, h: &mut Harness) -> bool {
        let Some(waiter) = self.syncing else { return true };
        let Some(Reply::Sync(reply)) = h.replies.get(&waiter).cloned() else { return false };
        self.syncing = None;
        self.is_member = reply.error.is_none();
        if self.is_member {
            self.assignment = reply.assignment;
        } else {
            self.refused(reply.error);
        }
        !self.is_fenced
    }

    fn refused(&mut self, error: ErrorCode) {
        match error {
            ErrorCode::UnknownMemberId => self.member_id.clear(),
            ErrorCode::FencedInstanceId => self.is_fenced = true,
            _ => {}
        }
    }
}
