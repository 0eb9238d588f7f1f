//! Committed offsets: what groups store for the partitions they read.

use super::effects::{Effects, Reply, Then, Waiter, Write};
use super::record::GroupRecord;
use super::shard::GroupShard;
use super::state::{Group, GroupState};
use super::{GroupConfig, Now};
use crate::errors::ErrorCode;
use crate::ids::{LeaderEpoch, Offset, TopicId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Stands where a topic's name does in the offset that says which resets were done to a group: no topic can have this name.
///
/// Its metadata are the ids of the resets, one a line, the newest last. It is committed together with the offsets that the
/// newest one sets, so both are there or neither; a commit whose newest id is there already is refused: a reset happens
/// once, whoever asks for it again. It stays as long as any offset of the group.
pub const RESET_MARKER: &str = "taffrail.dev/reset";

/// An offset as it was committed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CommittedOffset {
    /// Offset of the next record to read.
    pub offset: Offset,
    /// Leader epoch of the last record read; -1 = not given.
    pub leader_epoch: LeaderEpoch,
    /// The client's own words.
    pub metadata: String,
    /// When it was committed, in milliseconds since 1970.
    pub commit_timestamp_ms: i64,
    /// When it expires, if the client said so (OffsetCommit 2 to 4); otherwise the broker's retention decides.
    pub expire_timestamp_ms: Option<i64>,
    /// The topic that it was committed for; zero in old records. A topic that was deleted and made anew has another.
    pub topic_id: TopicId,
}

/// The offsets of one group, by topic and partition.
pub type OffsetsOfGroup = BTreeMap<Arc<str>, BTreeMap<i32, CommittedOffset>>;

/// An offset to commit.
#[derive(Clone, Debug)]
pub struct PartitionOffset {
    /// Its topic.
    pub topic: Arc<str>,
    /// Its partition.
    pub partition: i32,
    /// What to store.
    pub value: CommittedOffset,
}

/// An OffsetCommit request, without the partitions that are refused for themselves.
#[derive(Clone, Debug)]
pub struct CommitRequest {
    /// Who waits for the reply.
    pub waiter: Waiter,
    /// The group.
    pub group_id: String,
    /// Generation of the member; -1 without membership.
    pub generation: i32,
    /// The member; empty without membership.
    pub member_id: String,
    /// Its `group.instance.id`.
    pub instance_id: Option<String>,
    /// Whether the client knows GROUP_ID_NOT_FOUND (OffsetCommit 9 and later).
    pub knows_group_id_not_found: bool,
    /// What to store.
    pub offsets: Vec<PartitionOffset>,
}

impl GroupConfig {
    /// Whether the client's words are too long to store (`offset.metadata.max.bytes`, counted in UTF-16 as Java does).
    pub fn is_metadata_too_large(&self, metadata: &str) -> bool {
        metadata.len() > self.offset_metadata_max_bytes
            && metadata.encode_utf16().count() > self.offset_metadata_max_bytes
    }
}

impl GroupShard {
    /// Commits offsets. They are visible, and the reply is given, when they are written.
    pub fn commit_offsets(&mut self, now: Now, request: CommitRequest) -> Effects {
        let refused = |error| Effects::reply(request.waiter, Reply::Done(error));
        match self.step(now, &request.group_id) {
            Some((group, mut step)) => {
                if let Err(error) = group.validate_commit(&request) {
                    return refused(error);
                }
                // A commit is a sign of life.
                if matches!(group.state, GroupState::Stable | GroupState::PreparingRebalance) {
                    group.renew_session(&mut step, &request.member_id);
                }
            }
            // A client that assigns partitions to itself needs no group beforehand.
            None if request.generation < 0 => {
                let group_id: Arc<str> = request.group_id.as_str().into();
                self.groups.insert(group_id.clone(), Group::new(group_id, now.unix_ms));
            }
            None if request.knows_group_id_not_found => return refused(ErrorCode::GroupIdNotFound),
            None => return refused(ErrorCode::IllegalGeneration),
        }
        if request.offsets.is_empty() {
            return refused(ErrorCode::None);
        }
        if self.has_been_reset(&request) {
            return refused(ErrorCode::DuplicateResource);
        }
        let group_id: Arc<str> = request.group_id.into();
        let to_record = |offset: PartitionOffset| GroupRecord::Offset {
            group_id: group_id.clone(),
            topic: offset.topic,
            partition: offset.partition,
            value: Some(offset.value),
        };
        let records = request.offsets.into_iter().map(to_record).collect();
        let reply = Some((request.waiter, Reply::Done(ErrorCode::None)));
        Effects { replies: Vec::new(), writes: vec![Write { records, then: Then::Apply, reply }] }
    }

    /// Whether this is a reset that was done before.
    fn has_been_reset(&self, request: &CommitRequest) -> bool {
        let marker = request.offsets.iter().find(|offset| &*offset.topic == RESET_MARKER);
        let done = self.offsets.get(request.group_id.as_str()).and_then(|topics| topics.get(RESET_MARKER)?.get(&0));
        marker.zip(done).is_some_and(|(asked, done)| {
            let newest = asked.value.metadata.lines().next_back();
            newest.is_some_and(|newest| done.metadata.lines().any(|id| id == newest))
        })
    }

    /// The committed offsets of a group; `None` if it has none.
    pub fn offsets(&self, group_id: &str) -> Option<&OffsetsOfGroup> {
        self.offsets.get(group_id)
    }

    /// Deletes offsets. Those of topics that the group is subscribed to stay, and are named in the reply.
    pub fn delete_offsets(&mut self, waiter: Waiter, group_id: &str, partitions: &[(Arc<str>, i32)]) -> Effects {
        let refused = |error| Effects::reply(waiter, Reply::OffsetsDeleted { error, subscribed: BTreeSet::new() });
        let Some(group) = self.groups.get(group_id) else { return refused(ErrorCode::GroupIdNotFound) };
        if group.state != GroupState::Empty && !group.is_consumer() {
            return refused(ErrorCode::NonEmptyGroup);
        }
        let mut subscribed = BTreeSet::new();
        let mut records = Vec::new();
        for (topic, partition) in partitions {
            if group.is_subscribed_to(topic) {
                subscribed.insert(topic.to_string());
            } else if self.has_offset(group_id, topic, *partition) {
                records.push(tombstone(&group.group_id, topic, *partition));
            }
        }
        let reply = Reply::OffsetsDeleted { error: ErrorCode::None, subscribed };
        if records.is_empty() {
            return Effects::reply(waiter, reply);
        }
        let write = Write { records, then: Then::Apply, reply: Some((waiter, reply)) };
        Effects { replies: Vec::new(), writes: vec![write] }
    }

    fn has_offset(&self, group_id: &str, topic: &str, partition: i32) -> bool {
        let of_topic = self.offsets.get(group_id).and_then(|topics| topics.get(topic));
        of_topic.is_some_and(|partitions| partitions.contains_key(&partition))
    }

    /// Tombstones for all offsets of a group.
    pub(super) fn offset_tombstones(&self, group_id: &Arc<str>) -> Vec<GroupRecord> {
        let of_group = self.offsets.get(group_id).into_iter().flatten();
        of_group
            .flat_map(|(topic, partitions)| partitions.keys().map(|partition| tombstone(group_id, topic, *partition)))
            .collect()
    }

    /// Drops the offsets of topics that were deleted. Looks at every group: topics are deleted rarely.
    pub fn on_topics_deleted(&self, topics: &BTreeSet<Arc<str>>) -> Effects {
        let mut effects = Effects::default();
        for (group_id, of_group) in &self.offsets {
            let gone = of_group.iter().filter(|(topic, _)| topics.contains(*topic));
            let records: Vec<_> = gone
                .flat_map(|(topic, partitions)| partitions.keys().map(|p| tombstone(group_id, topic, *p)))
                .collect();
            if !records.is_empty() {
                effects.writes.push(Write { records, then: Then::Apply, reply: None });
            }
        }
        effects
    }

    /// Drops what has expired (KIP-211): offsets of groups that have been empty for the retention, of topics that a stable
    /// group no longer reads, of clients without a group; then groups that have nothing left.
    pub fn expire_offsets(&mut self, now: Now) -> Effects {
        let mut effects = Effects::default();
        let mut forgotten = Vec::new();
        for (group_id, group) in &self.groups {
            let of_group = self.offsets.get(group_id);
            let total: usize = of_group.map_or(0, |topics| topics.values().map(BTreeMap::len).sum());
            let mut records = Vec::new();
            for (topic, partitions) in of_group.into_iter().flatten().filter(|(topic, _)| &***topic != RESET_MARKER) {
                let expired = |offset: &CommittedOffset| {
                    group.has_expired(topic, offset, now.unix_ms, self.config.offsets_retention_ms)
                };
                let expired = partitions.iter().filter(|(_, offset)| expired(offset));
                records.extend(expired.map(|(partition, _)| tombstone(group_id, topic, *partition)));
            }
            if records.len() + 1 == total && group.state == GroupState::Empty {
                let marker = of_group.and_then(|topics| topics.get_key_value(RESET_MARKER));
                records.extend(marker.map(|(marker, _)| tombstone(group_id, marker, 0)));
            }
            if records.len() == total && group.state == GroupState::Empty && group.pending_join.is_empty() {
                if group.stored.is_some() {
                    records.push(GroupRecord::Group { group_id: group_id.clone(), value: None });
                } else if records.is_empty() && !self.pending_writes.contains_key(group_id) {
                    forgotten.push(group_id.clone());
                }
            }
            if !records.is_empty() {
                effects.writes.push(Write { records, then: Then::Apply, reply: None });
            }
        }
        for group_id in forgotten {
            self.groups.remove(&group_id);
        }
        effects
    }
}

fn tombstone(group_id: &Arc<str>, topic: &Arc<str>, partition: i32) -> GroupRecord {
    GroupRecord::Offset { group_id: group_id.clone(), topic: topic.clone(), partition, value: None }
}

impl Group {
    fn validate_commit(&self, request: &CommitRequest) -> Result<(), ErrorCode> {
        if request.generation < 0 && self.state == GroupState::Empty {
            // An administrator, or a client that assigns partitions to itself.
            return Ok(());
        }
        if request.generation < 0 && request.member_id.is_empty() && request.instance_id.is_none() {
            return Err(ErrorCode::UnknownMemberId);
        }
        self.validate_member(&request.member_id, request.instance_id.as_deref())?;
        if request.generation != self.generation {
            return Err(ErrorCode::IllegalGeneration);
        }
        match self.state {
            // The member has not got its assignment of this generation: what it read may be another's now.
            GroupState::CompletingRebalance => Err(ErrorCode::RebalanceInProgress),
            _ => Ok(()),
        }
    }

    fn has_expired(&self, topic: &str, offset: &CommittedOffset, now_unix_ms: i64, retention_ms: i64) -> bool {
        if self.is_subscribed_to(topic) {
            return false;
        }
        let since_ms = match (&self.protocol_type, self.state) {
            (None, _) => offset.commit_timestamp_ms,
            // The clock of an ordinary group starts when it became empty.
            (Some(_), GroupState::Empty) => self.state_since_ms.unwrap_or(offset.commit_timestamp_ms),
            (Some(_), GroupState::Stable) if self.is_consumer() && self.subscribed.is_some() => {
                offset.commit_timestamp_ms
            }
            _ => return false,
        };
        match offset.expire_timestamp_ms {
            Some(expire_ms) => now_unix_ms >= expire_ms,
            None => now_unix_ms.saturating_sub(since_ms) >= retention_ms,
        }
    }
}
