//! The machine without I/O: a harness that plays log, clock and clients, and the cases that users reported (G-02 to G-08).

mod churn;
mod client;
mod crashes;
mod members;
mod offsets;
mod statics;

use super::*;
use crate::errors::ErrorCode;
use bytes::Bytes;
use std::collections::BTreeMap;
use std::sync::Arc;

/// A shard, its log, its clock and the replies it gave.
struct Harness {
    shard: GroupShard,
    now: Now,
    log: Vec<GroupRecord>,
    replies: BTreeMap<Waiter, Reply>,
    next_waiter: Waiter,
    /// Writes are kept back here instead of being committed.
    hold: bool,
    held: Vec<Write>,
    /// How many more steps (an append, what follows from it, a reply) the coordinator lives.
    fuse: Option<usize>,
    /// It is dead: nothing is written or answered until it is started again.
    is_down: bool,
}

impl Harness {
    fn new() -> Self {
        Self::with(GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() })
    }

    fn with(config: GroupConfig) -> Self {
        let now = Now { unix_ms: 1_700_000_000_000, monotonic_ms: 1_000 };
        Self {
            shard: GroupShard::new(config),
            now,
            log: Vec::new(),
            replies: BTreeMap::new(),
            next_waiter: 0,
            hold: false,
            held: Vec::new(),
            fuse: None,
            is_down: false,
        }
    }

    fn waiter(&mut self) -> Waiter {
        self.next_waiter += 1;
        self.next_waiter
    }

    /// Takes one step, unless the coordinator dies before it.
    fn lives(&mut self) -> bool {
        match &mut self.fuse {
            Some(0) => self.is_down = true,
            Some(left) => *left -= 1,
            None => {}
        }
        !self.is_down
    }

    /// Does what the coordinator does: gives replies, appends writes, and goes on when they are committed.
    fn run(&mut self, effects: Effects) {
        let mut effects = effects;
        loop {
            for (waiter, reply) in std::mem::take(&mut effects.replies) {
                if !self.lives() {
                    return;
                }
                assert!(self.replies.insert(waiter, reply).is_none(), "request {waiter} is answered twice");
            }
            if effects.writes.is_empty() {
                return;
            }
            let mut next = Effects::default();
            for write in std::mem::take(&mut effects.writes) {
                self.shard.begin(&write);
                if self.hold {
                    self.held.push(write);
                } else {
                    if !self.lives() {
                        return;
                    }
                    self.log.extend(write.records.iter().cloned());
                    if !self.lives() {
                        return;
                    }
                    next.extend(self.shard.committed(self.now, write));
                }
            }
            effects = next;
        }
    }

    fn commit_held(&mut self) {
        self.hold = false;
        for write in std::mem::take(&mut self.held) {
            self.log.extend(write.records.iter().cloned());
            let effects = self.shard.committed(self.now, write);
            self.run(effects);
        }
    }

    fn fail_held(&mut self, error: ErrorCode) {
        self.hold = false;
        for write in std::mem::take(&mut self.held) {
            let effects = self.shard.failed(self.now, write, error);
            self.run(effects);
        }
    }

    /// Lets time pass, acting on every deadline on the way.
    fn advance(&mut self, ms: i64) {
        let end = self.now.monotonic_ms + ms;
        while let Some(at) = self.shard.next_deadline().filter(|at| *at <= end && !self.is_down) {
            let step = at.max(self.now.monotonic_ms) - self.now.monotonic_ms;
            self.now = Now { unix_ms: self.now.unix_ms + step, monotonic_ms: self.now.monotonic_ms + step };
            let effects = self.shard.expire(self.now);
            self.run(effects);
        }
        let rest = end - self.now.monotonic_ms;
        self.now = Now { unix_ms: self.now.unix_ms + rest, monotonic_ms: end };
    }

    /// A fresh shard that has loaded this one's log, as after a restart or a change of leader.
    fn restart(&mut self) {
        let mut shard = GroupShard::new(*self.shard.config());
        for record in &self.log {
            shard.replay(record.clone());
        }
        self.shard = shard;
        (self.is_down, self.fuse) = (false, None);
        let effects = self.shard.loaded(self.now);
        self.run(effects);
    }

    fn send_join(&mut self, request: JoinRequest) -> Waiter {
        let waiter = self.waiter();
        if self.is_down {
            return waiter;
        }
        let request = JoinRequest { waiter, new_member_id: format!("{}-{waiter}", request.client_id), ..request };
        let effects = self.shard.join(self.now, &request);
        self.run(effects);
        waiter
    }

    /// Asks for an id and joins with it, as clients have done since KIP-394.
    fn join(&mut self, request: JoinRequest) -> (Waiter, String) {
        let waiter = self.send_join(request.clone());
        let member_id = self.join_reply(waiter, ErrorCode::MemberIdRequired).member_id;
        let waiter = self.send_join(JoinRequest { member_id: member_id.clone(), ..request });
        (waiter, member_id)
    }

    #[track_caller]
    fn join_reply(&self, waiter: Waiter, error: ErrorCode) -> JoinReply {
        match self.replies.get(&waiter) {
            Some(Reply::Join(reply)) => {
                assert_eq!(reply.error, error);
                reply.clone()
            }
            other => panic!("no reply to join {waiter}: {other:?}"),
        }
    }

    fn send_sync(&mut self, member_id: &str, generation: i32, assignments: &[(&str, &str)]) -> Waiter {
        self.send_sync_of(None, member_id, generation, assignments)
    }

    fn send_sync_of(
        &mut self,
        instance_id: Option<&str>,
        member_id: &str,
        generation: i32,
        assignments: &[(&str, &str)],
    ) -> Waiter {
        let waiter = self.waiter();
        if self.is_down {
            return waiter;
        }
        let assignments =
            assignments.iter().map(|(id, text)| ((*id).to_owned(), Bytes::copy_from_slice(text.as_bytes())));
        let request = SyncRequest {
            waiter,
            group_id: "g".to_owned(),
            generation,
            member_id: member_id.to_owned(),
            instance_id: instance_id.map(str::to_owned),
            protocol_type: None,
            protocol_name: None,
            assignments: assignments.collect(),
        };
        let effects = self.shard.sync(self.now, request);
        self.run(effects);
        waiter
    }

    #[track_caller]
    fn sync_reply(&self, waiter: Waiter, error: ErrorCode) -> Bytes {
        match self.replies.get(&waiter) {
            Some(Reply::Sync(reply)) => {
                assert_eq!(reply.error, error);
                reply.assignment.clone()
            }
            other => panic!("no reply to sync {waiter}: {other:?}"),
        }
    }

    fn heartbeat(&mut self, member_id: &str, generation: i32) -> ErrorCode {
        let request = HeartbeatRequest { group_id: "g", generation, member_id, instance_id: None };
        self.shard.heartbeat(self.now, &request)
    }

    fn leave(&mut self, member_id: &str, instance_id: Option<&str>) -> LeaveReply {
        let waiter = self.waiter();
        let leaving = LeavingMember { member_id: member_id.to_owned(), instance_id: instance_id.map(str::to_owned) };
        let request = LeaveRequest { waiter, group_id: "g".to_owned(), members: vec![leaving] };
        let effects = self.shard.leave(self.now, &request);
        self.run(effects);
        match self.replies.get(&waiter) {
            Some(Reply::Leave(reply)) => reply.clone(),
            other => panic!("no reply to leave: {other:?}"),
        }
    }

    /// An administrator removes a static member, if it is there.
    fn remove_instance(&mut self, instance_id: &str) {
        let waiter = self.waiter();
        let member = LeavingMember { member_id: String::new(), instance_id: Some(instance_id.to_owned()) };
        let request = LeaveRequest { waiter, group_id: "g".to_owned(), members: vec![member] };
        let effects = self.shard.leave(self.now, &request);
        self.run(effects);
    }

    fn send_commit(&mut self, member_id: &str, generation: i32, topic: &str, offset: i64) -> Waiter {
        let waiter = self.waiter();
        let value = CommittedOffset {
            offset,
            leader_epoch: 3,
            metadata: "words".to_owned(),
            commit_timestamp_ms: self.now.unix_ms,
            expire_timestamp_ms: None,
            topic_id: crate::ids::Uuid([7; 16]),
        };
        let request = CommitRequest {
            waiter,
            group_id: "g".to_owned(),
            generation,
            member_id: member_id.to_owned(),
            instance_id: None,
            knows_group_id_not_found: true,
            offsets: vec![PartitionOffset { topic: topic.into(), partition: 0, value }],
        };
        let effects = self.shard.commit_offsets(self.now, request);
        self.run(effects);
        waiter
    }

    #[track_caller]
    fn done(&self, waiter: Waiter) -> ErrorCode {
        match self.replies.get(&waiter) {
            Some(Reply::Done(error)) => *error,
            other => panic!("no reply to {waiter}: {other:?}"),
        }
    }

    fn offset(&self, topic: &str) -> Option<i64> {
        let value = self.shard.offsets("g")?.get(topic)?.get(&0)?;
        Some(value.offset)
    }

    fn state(&self) -> Option<GroupState> {
        self.shard.group("g").map(|group| group.state)
    }

    /// A stable group of one, subscribed to topic "t".
    fn stable_group_of_one(&mut self) -> String {
        let (waiter, member_id) = self.join(request());
        let generation = self.join_reply(waiter, ErrorCode::None).generation;
        let waiter = self.send_sync(&member_id, generation, &[(&member_id, "all")]);
        assert_eq!(&self.sync_reply(waiter, ErrorCode::None)[..], b"all");
        assert_eq!(self.state(), Some(GroupState::Stable));
        member_id
    }
}

/// A subscription of the consumer protocol to one topic.
fn subscription(topic: &str) -> Bytes {
    let mut bytes = vec![0, 0, 0, 0, 0, 1, 0, topic.len() as u8];
    bytes.extend_from_slice(topic.as_bytes());
    bytes.extend_from_slice(&[0xff; 4]);
    Bytes::from(bytes)
}

/// A consumer of topic "t" in group "g".
fn request() -> JoinRequest {
    JoinRequest {
        waiter: 0,
        group_id: "g".to_owned(),
        member_id: String::new(),
        instance_id: None,
        new_member_id: String::new(),
        client_id: "client".to_owned(),
        client_host: "/127.0.0.1".to_owned(),
        session_timeout_ms: 10_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".to_owned(),
        protocols: vec![Protocol { name: "range".to_owned(), metadata: subscription("t") }],
        requires_known_member_id: true,
        supports_skipping_assignment: true,
    }
}
