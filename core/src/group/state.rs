//! A group: its state, its members, and what follows from them alone.

use super::deadlines::{Deadline, DeadlineKey, DeadlineKind};
use super::effects::{JoinReply, SyncReply};
use super::member::{Member, Protocol};
use super::record::{GroupValue, MemberValue};
use super::stats::GroupStats;
use super::{CONSUMER_PROTOCOL_TYPE, consumer_protocol};
use crate::errors::ErrorCode;
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// State of a group. A group that is gone has none; clients are told "Dead".
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupState {
    /// No members.
    Empty,
    /// Waiting for the members to join again.
    PreparingRebalance,
    /// Waiting for the leader's assignment.
    CompletingRebalance,
    /// Everyone has an assignment.
    Stable,
}

impl GroupState {
    /// Name that clients see.
    pub fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// One group.
#[derive(Clone, Debug)]
pub struct Group {
    /// Its id.
    pub group_id: Arc<str>,
    /// Its state.
    pub state: GroupState,
    /// When it came into it, in milliseconds since 1970; `None` for groups of old records.
    pub state_since_ms: Option<i64>,
    /// Type of its protocol; `None` until it has a member.
    pub protocol_type: Option<String>,
    /// The chosen protocol.
    pub protocol_name: Option<String>,
    /// Its generation.
    pub generation: i32,
    /// Its leader.
    pub leader: Option<Arc<str>>,
    /// What has happened to it.
    pub stats: GroupStats,
    /// Its members by id.
    pub members: BTreeMap<Arc<str>, Member>,
    pub(super) static_members: BTreeMap<Arc<str>, Arc<str>>,
    /// Ids that were handed out, until their clients join with them.
    pub(super) pending_join: BTreeMap<Arc<str>, Deadline>,
    /// Members of which this generation's sync has not come yet.
    pub(super) pending_sync: BTreeSet<Arc<str>>,
    /// Topics that its members subscribe to; `None` if that cannot be known.
    pub(super) subscribed: Option<BTreeSet<String>>,
    /// This rebalance is the first since the group was empty: it waits for more members.
    pub(super) is_initial_rebalance: bool,
    /// A member came during the present delay of the initial rebalance.
    pub(super) new_member_added: bool,
    /// How much longer the initial rebalance may be put off after its present delay.
    pub(super) initial_remaining_ms: i32,
    pub(super) join_deadline: Deadline,
    pub(super) sync_deadline: Deadline,
    /// What the log says of it; `None` if it has no record there.
    pub(super) stored: Option<GroupValue>,
    /// The join phase is over, and its answers wait until the log knows the new ids of static members.
    pub(super) storing_ids: bool,
}

impl Group {
    /// A group without members.
    pub(super) fn new(group_id: Arc<str>, now_unix_ms: i64) -> Self {
        Self {
            group_id,
            state: GroupState::Empty,
            state_since_ms: Some(now_unix_ms),
            protocol_type: None,
            protocol_name: None,
            generation: 0,
            leader: None,
            stats: GroupStats::default(),
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_join: BTreeMap::new(),
            pending_sync: BTreeSet::new(),
            subscribed: None,
            is_initial_rebalance: false,
            new_member_added: false,
            initial_remaining_ms: 0,
            join_deadline: Deadline::default(),
            sync_deadline: Deadline::default(),
            stored: None,
            storing_ids: false,
        }
    }

    /// A group from its record.
    pub(super) fn from_value(group_id: Arc<str>, value: GroupValue) -> Self {
        let mut group = Self::new(group_id, 0);
        group.stored = Some(value.clone());
        group.state = if value.members.is_empty() { GroupState::Empty } else { GroupState::Stable };
        group.state_since_ms = value.state_since_ms;
        group.generation = value.generation;
        group.protocol_type = Some(value.protocol_type).filter(|kind| !kind.is_empty());
        group.protocol_name = value.protocol_name;
        group.leader = value.leader.map(Into::into);
        for member in value.members {
            group.insert(Member::from_value(member, group.protocol_name.as_deref()));
        }
        group.subscribed = group.compute_subscribed();
        group
    }

    /// The group as its record, with these assignments; members without one get an empty one.
    pub(super) fn to_value(&self, assignment_of: impl Fn(&Member) -> Bytes) -> GroupValue {
        let protocol = self.protocol_name.as_deref();
        let members: Vec<MemberValue> =
            self.members.values().map(|member| member.to_value(protocol, assignment_of(member))).collect();
        GroupValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation,
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.as_deref().map(str::to_owned),
            state_since_ms: self.state_since_ms,
            members,
        }
    }

    /// What the log says of the group, with the ids that its static members have now; `None` if it knows them already.
    ///
    /// A static member whose id the log does not know is fenced by its own former self when the log is loaded again.
    pub(super) fn stored_with_present_ids(&self) -> Option<GroupValue> {
        let present = |member: &MemberValue| {
            let id = self.static_members.get(member.instance_id.as_deref()?)?;
            (**id != *member.member_id).then(|| id.to_string())
        };
        let stored = self.stored.as_ref()?;
        if !stored.members.iter().any(|member| present(member).is_some()) {
            return None;
        }
        let mut value = stored.clone();
        for member in &mut value.members {
            let Some(id) = present(member) else { continue };
            if value.leader.as_ref() == Some(&member.member_id) {
                value.leader = Some(id.clone());
            }
            member.member_id = id;
        }
        Some(value)
    }

    pub(super) fn enter(&mut self, state: GroupState, now_unix_ms: i64) {
        self.state = state;
        self.state_since_ms = Some(now_unix_ms);
    }

    pub(super) fn key(&self, kind: DeadlineKind) -> DeadlineKey {
        DeadlineKey { group_id: self.group_id.clone(), kind }
    }

    /// Adds a member, or puts another in its place; the first becomes leader.
    pub(super) fn insert(&mut self, member: Member) {
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), member.member_id.clone());
        }
        self.pending_join.remove(&member.member_id);
        self.leader.get_or_insert_with(|| member.member_id.clone());
        self.members.insert(member.member_id.clone(), member);
    }

    /// Takes a member out; if it led, another leads.
    pub(super) fn remove(&mut self, member_id: &str) -> Option<Member> {
        self.pending_join.remove(member_id);
        self.pending_sync.remove(member_id);
        let removed = self.members.remove(member_id);
        if let Some(instance_id) = removed.as_ref().and_then(|member| member.instance_id.as_ref()) {
            self.static_members.remove(instance_id);
        }
        if self.leader.as_deref() == Some(member_id) {
            self.leader = self.members.keys().next().cloned();
        }
        removed
    }

    pub(super) fn is_leader(&self, member_id: &str) -> bool {
        self.leader.as_deref() == Some(member_id)
    }

    /// Whether every member, and everyone who was given an id, waits for the join phase to end.
    pub(super) fn has_everyone_joined(&self) -> bool {
        self.pending_join.is_empty() && self.members.values().all(|member| member.awaiting_join.is_some())
    }

    /// How long a rebalance waits: as long as its slowest member may take.
    pub(super) fn rebalance_timeout_ms(&self) -> i32 {
        self.members.values().map(|member| member.rebalance_timeout_ms).max().unwrap_or(0).max(0)
    }

    /// Checks who speaks.
    pub(super) fn validate_member(&self, member_id: &str, instance_id: Option<&str>) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(current) if &**current != member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) { Ok(()) } else { Err(ErrorCode::UnknownMemberId) }
    }

    /// Whether a member with these protocols can take part.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[Protocol]) -> bool {
        if self.state == GroupState::Empty {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_deref() == Some(protocol_type) && protocols.iter().any(|p| self.is_common(&p.name))
    }

    /// Whether all members support a protocol.
    fn is_common(&self, name: &str) -> bool {
        self.members.values().all(|member| member.protocols.iter().any(|p| p.name == name))
    }

    /// The protocol that most members want among those that all support.
    pub(super) fn select_protocol(&self) -> Option<String> {
        let mut votes: BTreeMap<&str, usize> = BTreeMap::new();
        for member in self.members.values() {
            let choice = member.protocols.iter().find(|p| self.is_common(&p.name));
            if let Some(choice) = choice {
                *votes.entry(&choice.name).or_default() += 1;
            }
        }
        votes.into_iter().max_by_key(|&(_, count)| count).map(|(name, _)| name.to_owned())
    }

    /// Topics that the members subscribe to, if they are consumers and say so.
    pub(super) fn compute_subscribed(&self) -> Option<BTreeSet<String>> {
        if !self.is_consumer() {
            return None;
        }
        let mut topics = BTreeSet::new();
        let protocol = self.protocol_name.as_deref();
        if protocol.is_none() && !self.members.is_empty() {
            return None;
        }
        for member in self.members.values() {
            topics.extend(consumer_protocol::topics(&member.metadata(protocol))?);
        }
        Some(topics)
    }

    pub(super) fn is_consumer(&self) -> bool {
        self.protocol_type.as_deref() == Some(CONSUMER_PROTOCOL_TYPE)
    }

    /// Whether offsets of a topic are in use. A consumer group whose subscriptions cannot be read uses all.
    pub(super) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscribed.as_ref().map_or(self.is_consumer(), |topics| topics.contains(topic))
    }

    /// Begins the next generation with the members that are there.
    pub(super) fn begin_generation(&mut self, now_unix_ms: i64) {
        // Kafka lets it overflow; after 2^31 rebalances it begins anew here.
        self.generation = self.generation.checked_add(1).unwrap_or(1);
        self.pending_sync.clear();
        self.protocol_name = if self.members.is_empty() { None } else { self.select_protocol() };
        self.subscribed = self.compute_subscribed();
        let waited_ms = now_unix_ms.saturating_sub(self.state_since_ms.unwrap_or(now_unix_ms));
        self.stats.rebalances += 1;
        self.stats.rebalancing_ms += u64::try_from(waited_ms).unwrap_or(0);
        let next = if self.members.is_empty() { GroupState::Empty } else { GroupState::CompletingRebalance };
        self.enter(next, now_unix_ms);
    }

    /// The reply to a member that has joined this generation.
    pub(super) fn join_reply(&self, member_id: &str) -> JoinReply {
        let protocol = self.protocol_name.as_deref();
        let members = if self.is_leader(member_id) {
            self.members.values().map(|member| member.joined(protocol)).collect()
        } else {
            Vec::new()
        };
        JoinReply {
            error: ErrorCode::None,
            generation: self.generation,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader.as_deref().unwrap_or_default().to_owned(),
            skip_assignment: false,
            member_id: member_id.to_owned(),
            members,
        }
    }

    /// The reply to a member that asks for its assignment.
    pub(super) fn sync_reply(&self, assignment: Bytes) -> SyncReply {
        SyncReply {
            error: ErrorCode::None,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            assignment,
        }
    }
}
