//! A group and its assignment, exhaustively: clients that join, sync and show that they live; a coordinator whose writes
//! take their time, fail, or are lost with it; deadlines that pass. The coordinator is core's [`GroupShard`].

use std::collections::BTreeMap;
use std::fmt::{self, Write as _};
use std::hash::{Hash, Hasher};

use bytes::Bytes;
use stateright::{Model, Property};
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{
    Effects, GroupConfig, GroupRecord, GroupShard, GroupState, GroupValue, HeartbeatRequest, JoinRequest, Now,
    Protocol, Reply, SyncRequest, Write,
};

use crate::{IS_LONG, breaks, holds};

const GROUP: &str = "g";
const PARTITIONS: usize = 2;
const SESSION_MS: i32 = 6_000;
const REBALANCE_MS: i32 = 9_000;

/// How long clients let pass between two signs of life, and how many times a group that is left in peace has for coming to
/// rest: longer than all of its timeouts together.
const SIGN_MS: i64 = 2_000;
const PEACE_ROUNDS: usize = 30;

/// A rule that is replaced by a wrong one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flaw {
    /// Members are told their assignments before the log has them.
    AnswersBeforeCommit,
    /// A coordinator loads all but the last record of the log.
    ForgetsLastRecord,
    /// The leader gives every partition to every member.
    AssignsTwice,
    /// A client that is refused never joins again.
    GivesUp,
}

/// Where a client stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Phase {
    /// It is about to join.
    Out,
    Joining,
    Syncing,
    /// It has its assignment.
    Member,
    Dead,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Client {
    phase: Phase,
    member_id: String,
    generation: i32,
    /// The newest generation of which it was given its share.
    shared: i32,
    assignment: Bytes,
    /// Ids that it was given.
    ids: u8,
}

/// How often something may still happen.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
struct Left {
    deaths: u8,
    /// Deadlines that pass before anybody has shown that it lives.
    deadlines: u8,
    /// Writes that fail.
    failures: u8,
    /// Coordinators that die.
    failovers: u8,
}

#[derive(Clone)]
struct State {
    shard: GroupShard,
    now: Now,
    log: Vec<GroupRecord>,
    /// Writes that are on their way to the log.
    writes: Vec<Write>,
    replies: BTreeMap<u64, Reply>,
    clients: Vec<Client>,
    /// Who was told to assign by the present coordinator, by generation.
    leaders: BTreeMap<i32, usize>,
    left: Left,
    broken: Option<&'static str>,
}

impl fmt::Debug for State {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .debug_struct("State")
            .field("group", &self.shard.group(GROUP))
            .field("clients", &self.clients)
            .finish()
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        format!("{self:?}") == format!("{other:?}")
    }
}

/// Hashes what is written into it.
struct Hashed<'a, H>(&'a mut H);

impl<H: Hasher> fmt::Write for Hashed<'_, H> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0.write(text.as_bytes());
        Ok(())
    }
}

/// The shard's state is its own; its debug form shows all of it.
impl Hash for State {
    fn hash<H: Hasher>(&self, state: &mut H) {
        (&self.clients, &self.leaders, self.left, self.broken, self.now.monotonic_ms).hash(state);
        let written = write!(Hashed(state), "{:?}{:?}{:?}{:?}", self.shard, self.log.last(), self.writes, self.replies);
        assert!(written.is_ok(), "a hasher takes everything");
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Action {
    /// A client joins.
    Join(usize),
    /// A client gets the reply that it waits for, and goes on.
    Deliver(usize),
    /// A member shows that it lives.
    Sign(usize),
    Die(usize),
    /// The log has the oldest write.
    Commit,
    Fail,
    /// Time passes to the next deadline.
    Deadline,
    /// Another coordinator loads what the log has.
    Failover,
}

/// The model.
#[derive(Debug, Clone, Copy)]
struct Groups {
    clients: usize,
    left: Left,
    must_recover: bool,
    flaw: Option<Flaw>,
}

impl State {
    fn new(model: &Groups) -> Self {
        let config = GroupConfig { initial_rebalance_delay_ms: 0, ..GroupConfig::default() };
        let client = Client {
            phase: Phase::Out,
            member_id: String::new(),
            generation: -1,
            shared: -1,
            assignment: Bytes::new(),
            ids: 0,
        };
        Self {
            shard: GroupShard::new(config),
            now: Now { unix_ms: 0, monotonic_ms: 0 },
            log: Vec::new(),
            writes: Vec::new(),
            replies: BTreeMap::new(),
            clients: vec![client; model.clients],
            leaders: BTreeMap::new(),
            left: model.left,
            broken: None,
        }
    }

    fn promise(&mut self, is_kept: bool, what: &'static str) {
        if !is_kept && self.broken.is_none() {
            self.broken = Some(what);
        }
    }

    fn carry_out(&mut self, effects: Effects) {
        for (waiter, reply) in effects.replies {
            let earlier = self.replies.insert(waiter, reply);
            self.promise(earlier.is_none(), "a request is answered twice");
        }
        for write in effects.writes {
            self.shard.begin(&write);
            self.writes.push(write);
        }
    }

    /// The request of a client, of which it has one at a time.
    fn waiter(client: usize, phase: Phase) -> u64 {
        client as u64 * 2 + u64::from(phase == Phase::Syncing)
    }

    fn join(&mut self, client: usize) {
        let waiter = Self::waiter(client, Phase::Joining);
        // What it asked before, nobody waits for.
        self.replies.remove(&waiter);
        let it = &mut self.clients[client];
        it.phase = Phase::Joining;
        it.ids += u8::from(it.member_id.is_empty());
        let request = JoinRequest {
            waiter,
            group_id: GROUP.to_owned(),
            member_id: it.member_id.clone(),
            instance_id: None,
            new_member_id: format!("{client}-{}", it.ids),
            client_id: String::new(),
            client_host: String::new(),
            session_timeout_ms: SESSION_MS,
            rebalance_timeout_ms: REBALANCE_MS,
            protocol_type: "test".to_owned(),
            protocols: vec![Protocol { name: "p".to_owned(), metadata: Bytes::new() }],
            requires_known_member_id: false,
            supports_skipping_assignment: true,
        };
        let effects = self.shard.join(self.now, &request);
        self.carry_out(effects);
    }

    fn deliver(&mut self, client: usize, flaw: Option<Flaw>) {
        let waiter = Self::waiter(client, self.clients[client].phase);
        match self.replies.remove(&waiter) {
            Some(Reply::Join(reply)) if reply.error.is_none() => {
                // A generation whose share was not committed is not known to the next coordinator, which counts from the
                // one before it, as Kafka's does.
                let rises = reply.generation > self.clients[client].shared;
                self.promise(rises, "generations rise");
                if !reply.members.is_empty() {
                    let leader = *self.leaders.entry(reply.generation).or_insert(client);
                    self.promise(leader == client, "a generation has one leader");
                }
                let count = reply.members.len();
                let share = |position: usize| -> Bytes {
                    let is_own = |partition: &usize| flaw == Some(Flaw::AssignsTwice) || partition % count == position;
                    (0..PARTITIONS).filter(is_own).map(|partition| partition as u8).collect()
                };
                let named = reply.members.iter().enumerate();
                let assignments = named.map(|(position, it)| (it.member_id.clone(), share(position))).collect();
                let it = &mut self.clients[client];
                (it.phase, it.member_id, it.generation) = (Phase::Syncing, reply.member_id, reply.generation);
                let request = SyncRequest {
                    waiter: Self::waiter(client, Phase::Syncing),
                    group_id: GROUP.to_owned(),
                    generation: it.generation,
                    member_id: it.member_id.clone(),
                    instance_id: None,
                    protocol_type: None,
                    protocol_name: None,
                    assignments,
                };
                self.replies.remove(&request.waiter);
                let effects = self.shard.sync(self.now, request);
                self.carry_out(effects);
            }
            Some(Reply::Sync(reply)) if reply.error.is_none() => self.assigned(client, reply.assignment),
            Some(Reply::Join(reply)) => self.refused(client, reply.error, flaw),
            Some(Reply::Sync(reply)) => self.refused(client, reply.error, flaw),
            _ => {}
        }
    }

    fn assigned(&mut self, client: usize, assignment: Bytes) {
        let it = &mut self.clients[client];
        (it.phase, it.assignment, it.shared) = (Phase::Member, assignment.clone(), it.generation);
        let (generation, member_id) = (it.generation, it.member_id.clone());
        let stored = self.stored().cloned();
        let is_same = |value: &GroupValue| {
            let told = value.members.iter().find(|member| member.member_id == member_id);
            value.generation > generation || told.is_some_and(|member| member.assignment == assignment)
        };
        self.promise(stored.is_some_and(|value| is_same(&value)), "what members are told is in the log");
        let others: Vec<Bytes> = self.mates(client).map(|mate| mate.assignment.clone()).collect();
        let is_shared = others.iter().any(|other| other.iter().any(|partition| assignment.contains(partition)));
        self.promise(!is_shared, "a partition has one owner in a generation");
    }

    /// Members of the same generation.
    fn mates(&self, client: usize) -> impl Iterator<Item = &Client> {
        let generation = self.clients[client].generation;
        let is_mate = move |(other, it): &(usize, &Client)| {
            *other != client && it.phase == Phase::Member && it.generation == generation
        };
        self.clients.iter().enumerate().filter(is_mate).map(|(_, it)| it)
    }

    fn refused(&mut self, client: usize, error: ErrorCode, flaw: Option<Flaw>) {
        let it = &mut self.clients[client];
        it.phase = if flaw == Some(Flaw::GivesUp) { Phase::Syncing } else { Phase::Out };
        if error == ErrorCode::UnknownMemberId {
            it.member_id.clear();
        }
    }

    fn sign(&mut self, client: usize, flaw: Option<Flaw>) {
        let it = &self.clients[client];
        let present = self.shard.group(GROUP).map_or(-1, |group| group.generation);
        let (member_id, own) = (it.member_id.clone(), it.generation);
        let request = HeartbeatRequest { group_id: GROUP, generation: own, member_id: &member_id, instance_id: None };
        match self.shard.heartbeat(self.now, &request) {
            ErrorCode::None => self.promise(own == present, "who is of an older generation is told"),
            error => self.refused(client, error, flaw),
        }
    }

    fn commit(&mut self, flaw: Option<Flaw>) {
        let write = self.writes.remove(0);
        if flaw != Some(Flaw::AnswersBeforeCommit) {
            self.log.extend(write.records.iter().cloned());
        }
        let effects = self.shard.committed(self.now, write);
        self.carry_out(effects);
    }

    fn fail(&mut self) {
        let write = self.writes.remove(0);
        let effects = self.shard.failed(self.now, write, ErrorCode::NotEnoughReplicas);
        self.carry_out(effects);
    }

    /// Time passes, at most to the next deadline.
    fn pass(&mut self, ms: i64) {
        let end_ms = self.now.monotonic_ms + ms;
        let next_ms = self.shard.next_deadline().unwrap_or(end_ms).clamp(self.now.monotonic_ms, end_ms);
        self.now = Now { unix_ms: next_ms, monotonic_ms: next_ms };
        let effects = self.shard.expire(self.now);
        self.carry_out(effects);
    }

    fn fail_over(&mut self, flaw: Option<Flaw>) {
        let mut shard = GroupShard::new(*self.shard.config());
        if flaw == Some(Flaw::ForgetsLastRecord) {
            self.log.pop();
        }
        self.log.iter().for_each(|record| shard.replay(record.clone()));
        self.shard = shard;
        self.writes.clear();
        self.replies.clear();
        self.leaders.clear();
        let effects = self.shard.loaded(self.now);
        self.carry_out(effects);
        for it in &mut self.clients {
            if matches!(it.phase, Phase::Joining | Phase::Syncing) {
                it.phase = Phase::Out;
            }
        }
    }

    /// The group as the log has it.
    fn stored(&self) -> Option<&GroupValue> {
        let value = |record: &'_ GroupRecord| matches!(record, GroupRecord::Group { .. });
        match self.log.iter().rfind(|record| value(record))? {
            GroupRecord::Group { value, .. } => value.as_ref(),
            GroupRecord::Offset { .. } => None,
        }
    }

    /// Whether the group comes to rest when nothing goes wrong any more.
    fn recovers(&self, model: &Groups) -> bool {
        let mut state = self.clone();
        for _ in 0..PEACE_ROUNDS {
            state.peace(model);
            if state.is_at_rest() {
                return true;
            }
        }
        false
    }

    fn peace(&mut self, model: &Groups) {
        for _ in 0..3 {
            for client in 0..self.clients.len() {
                let phase = self.clients[client].phase;
                match phase {
                    Phase::Out => self.join(client),
                    Phase::Joining | Phase::Syncing => self.deliver(client, model.flaw),
                    Phase::Member => self.sign(client, model.flaw),
                    Phase::Dead => {}
                }
            }
            while !self.writes.is_empty() {
                self.commit(model.flaw);
            }
        }
        self.pass(SIGN_MS);
    }

    /// Whether all that live are members of the newest generation, and share all partitions; or nobody lives, and the group
    /// is empty.
    fn is_at_rest(&self) -> bool {
        let mut living = self.clients.iter().filter(|it| it.phase != Phase::Dead).peekable();
        let Some(group) = self.shard.group(GROUP) else { return living.peek().is_none() };
        if living.peek().is_none() {
            return group.state == GroupState::Empty;
        }
        let mut owned: Vec<u8> = living.clone().flat_map(|it| it.assignment.to_vec()).collect();
        owned.sort_unstable();
        let all: Vec<u8> = (0..PARTITIONS as u8).collect();
        group.state == GroupState::Stable
            && living.clone().all(|it| it.phase == Phase::Member && it.generation == group.generation)
            && group.members.len() == living.count()
            && owned == all
    }
}

impl Model for Groups {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![State::new(self)]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.broken.is_some() {
            return;
        }
        for (client, it) in state.clients.iter().enumerate() {
            match it.phase {
                Phase::Out => actions.push(Action::Join(client)),
                Phase::Member => actions.push(Action::Sign(client)),
                phase if state.replies.contains_key(&State::waiter(client, phase)) => {
                    actions.push(Action::Deliver(client));
                }
                _ => {}
            }
            if it.phase != Phase::Dead && state.left.deaths > 0 {
                actions.push(Action::Die(client));
            }
        }
        if !state.writes.is_empty() {
            actions.push(Action::Commit);
        }
        let left = state.left;
        let rest = [
            (Action::Fail, left.failures > 0 && !state.writes.is_empty()),
            (Action::Deadline, left.deadlines > 0 && state.shard.next_deadline().is_some()),
            (Action::Failover, left.failovers > 0),
        ];
        actions.extend(rest.into_iter().filter(|(_, is_possible)| *is_possible).map(|(action, _)| action));
    }

    fn next_state(&self, state: &State, action: Action) -> Option<State> {
        let mut next = state.clone();
        match action {
            Action::Join(client) => next.join(client),
            Action::Deliver(client) => next.deliver(client, self.flaw),
            Action::Sign(client) => next.sign(client, self.flaw),
            Action::Die(client) => {
                next.left.deaths -= 1;
                next.clients[client].phase = Phase::Dead;
                next.replies.retain(|waiter, _| *waiter / 2 != client as u64);
            }
            Action::Commit => next.commit(self.flaw),
            Action::Fail => {
                next.left.failures -= 1;
                next.fail();
            }
            Action::Deadline => {
                next.left.deadlines -= 1;
                next.pass(i64::from(SESSION_MS + REBALANCE_MS));
            }
            Action::Failover => {
                next.left.failovers -= 1;
                next.fail_over(self.flaw);
            }
        }
        Some(next)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        vec![
            Property::always("a request is answered once", |_, it: &State| it.keeps("a request is answered twice")),
            Property::always("generations rise", |_, it: &State| it.keeps("generations rise")),
            Property::always("a generation has one leader", |_, it: &State| it.keeps("a generation has one leader")),
            Property::always("a partition has one owner in a generation", |_, it: &State| {
                it.keeps("a partition has one owner in a generation")
            }),
            Property::always("what members are told is in the log", |_, it: &State| {
                it.keeps("what members are told is in the log")
            }),
            Property::always("who is of an older generation is told", |_, it: &State| {
                it.keeps("who is of an older generation is told")
            }),
            Property::always("it comes to rest", |model: &Self, it: &State| !model.must_recover || it.recovers(model)),
            Property::sometimes("everyone has a share", |_, it: &State| it.is_at_rest()),
        ]
    }
}

impl State {
    fn keeps(&self, promise: &'static str) -> bool {
        self.broken != Some(promise)
    }
}

fn groups() -> Groups {
    let more = u8::from(IS_LONG);
    let left = Left { deaths: more, deadlines: 1, failures: more, failovers: 1 };
    Groups { clients: 2, left, must_recover: IS_LONG, flaw: None }
}

#[test]
fn a_group_shares_its_partitions_whatever_dies_or_takes_too_long() {
    holds("groups", groups());
}

#[test]
fn a_group_that_is_left_in_peace_comes_to_rest() {
    let left = Left { deaths: u8::from(IS_LONG), failures: 1, ..Left::default() };
    holds("groups in peace", Groups { left, must_recover: true, ..groups() });
}

#[test]
fn wrong_rules_of_groups_are_noticed() {
    let cases = [
        (Flaw::AnswersBeforeCommit, "what members are told is in the log"),
        (Flaw::ForgetsLastRecord, "generations rise"),
        (Flaw::AssignsTwice, "a partition has one owner in a generation"),
        (Flaw::GivesUp, "it comes to rest"),
    ];
    for (flaw, promise) in cases {
        let must_recover = flaw == Flaw::GivesUp;
        let steps = breaks(Groups { flaw: Some(flaw), must_recover, ..groups() }, promise);
        println!("{flaw:?}: {steps:?}");
    }
}
