//! The groups of one partition of `__consumer_offsets`.

use super::deadlines::{Deadline, DeadlineKind, Deadlines, Due};
use super::effects::{Effects, Then, Write};
use super::offsets::OffsetsOfGroup;
use super::record::GroupRecord;
use super::state::{Group, GroupState};
use super::{GroupConfig, Now};
use crate::errors::ErrorCode;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The machine: all groups of one partition of the offsets topic, with their offsets and deadlines.
#[derive(Clone, Debug, Default)]
pub struct GroupShard {
    pub(super) config: GroupConfig,
    pub(super) groups: BTreeMap<Arc<str>, Group>,
    /// Offsets whose records are committed.
    pub(super) offsets: BTreeMap<Arc<str>, OffsetsOfGroup>,
    /// How many writes of a group are on their way to the log.
    pub(super) pending_writes: BTreeMap<Arc<str>, usize>,
    deadlines: Deadlines,
}

/// What a group needs around it while it takes a step.
pub(super) struct Step<'a> {
    pub(super) now: Now,
    pub(super) config: &'a GroupConfig,
    pub(super) deadlines: &'a mut Deadlines,
    pub(super) effects: Effects,
}

impl GroupShard {
    /// Without any group.
    pub fn new(config: GroupConfig) -> Self {
        Self { config, ..Self::default() }
    }

    /// The settings.
    pub fn config(&self) -> &GroupConfig {
        &self.config
    }

    /// Takes new settings; they count from the next request on.
    pub fn set_config(&mut self, config: GroupConfig) {
        self.config = config;
    }

    /// Number of groups.
    pub fn group_count(&self) -> usize {
        self.groups.len()
    }

    /// A group.
    pub fn group(&self, group_id: &str) -> Option<&Group> {
        self.groups.get(group_id)
    }

    /// A group and what it needs to take a step.
    pub(super) fn step(&mut self, now: Now, group_id: &str) -> Option<(&mut Group, Step<'_>)> {
        let group = self.groups.get_mut(group_id)?;
        let step = Step { now, config: &self.config, deadlines: &mut self.deadlines, effects: Effects::default() };
        Some((group, step))
    }

    /// Lets a group take a step, if it is there.
    fn step_of(&mut self, now: Now, group_id: &str, act: impl FnOnce(&mut Group, &mut Step<'_>)) -> Effects {
        let Some((group, mut step)) = self.step(now, group_id) else { return Effects::default() };
        act(group, &mut step);
        step.effects
    }

    /// Takes in a record of the log, while the shard is loaded. Records come in the order of the log.
    pub fn replay(&mut self, record: GroupRecord) {
        match record {
            GroupRecord::Group { group_id, value: Some(value) } => {
                self.groups.insert(group_id.clone(), Group::from_value(group_id, value));
            }
            GroupRecord::Group { group_id, value: None } => {
                self.groups.remove(&group_id);
            }
            offset @ GroupRecord::Offset { .. } => self.apply_offset(offset),
        }
    }

    /// All records are in: sessions begin anew, so that nobody is fenced for the time that loading took. A group that is
    /// larger than the settings allow now is made to join again. Offsets without a group get one.
    pub fn loaded(&mut self, now: Now) -> Effects {
        for group_id in self.offsets.keys() {
            if !self.groups.contains_key(group_id) {
                self.groups.insert(group_id.clone(), Group::new(group_id.clone(), now.unix_ms));
            }
        }
        let group_ids: Vec<Arc<str>> = self.groups.keys().cloned().collect();
        let mut effects = Effects::default();
        for group_id in group_ids {
            let Some((group, mut step)) = self.step(now, &group_id) else { continue };
            let member_ids: Vec<Arc<str>> = group.members.keys().cloned().collect();
            for member_id in &member_ids {
                group.renew_session(&mut step, member_id);
            }
            if member_ids.len() > step.config.max_size {
                group.prepare_rebalance(&mut step);
            }
            effects.extend(step.effects);
        }
        effects
    }

    /// Notes that a write is on its way to the log. Every write is given to [`Self::committed`] or [`Self::failed`] after.
    pub fn begin(&mut self, write: &Write) {
        for group_id in groups_of(write) {
            *self.pending_writes.entry(group_id).or_default() += 1;
        }
    }

    fn end(&mut self, write: &Write) {
        for group_id in groups_of(write) {
            if let Some(count) = self.pending_writes.get_mut(&group_id) {
                *count -= 1;
                if *count == 0 {
                    self.pending_writes.remove(&group_id);
                }
            }
        }
    }

    /// The high watermark covers a write: its records count, and what waited for them goes on.
    pub fn committed(&mut self, now: Now, write: Write) -> Effects {
        self.end(&write);
        for record in write.records {
            self.apply(record);
        }
        let mut effects = self.go_on(now, write.then);
        effects.replies.extend(write.reply);
        effects
    }

    fn go_on(&mut self, now: Now, then: Then) -> Effects {
        match then {
            Then::Apply => Effects::default(),
            Then::Assign { group_id, generation, assignments } => {
                self.step_of(now, &group_id, |group, step| group.assign(step, generation, &assignments))
            }
            Then::CompleteJoin { group_id } => self.step_of(now, &group_id, Group::ids_stored),
            Then::Replace(replacement) => self.step_of(now, &replacement.group_id, |group, step| {
                group.finish_replacement(step, &replacement);
            }),
        }
    }

    /// A write could not be written: its records do not count, and what was begun is undone. `error` is what clients get,
    /// see [`write_error`].
    pub fn failed(&mut self, now: Now, write: Write, error: ErrorCode) -> Effects {
        self.end(&write);
        let error = write_error(error);
        let mut effects = match write.then {
            Then::Apply => Effects::default(),
            Then::Assign { group_id, generation, .. } => {
                self.step_of(now, &group_id, |group, step| group.undo_assign(step, generation, error))
            }
            Then::CompleteJoin { group_id } => {
                self.step_of(now, &group_id, |group, step| group.ids_not_stored(step, error))
            }
            Then::Replace(replacement) => self.step_of(now, &replacement.group_id.clone(), |group, step| {
                group.undo_replacement(step, *replacement, error);
            }),
        };
        effects.replies.extend(write.reply.map(|(waiter, reply)| (waiter, reply.failed(error))));
        effects
    }

    /// Applies a committed record of this leader. Members and generations are ahead of their records already.
    fn apply(&mut self, record: GroupRecord) {
        match record {
            GroupRecord::Group { group_id, value: Some(value) } => {
                if let Some(group) = self.groups.get_mut(&group_id) {
                    group.stored = Some(value);
                }
            }
            GroupRecord::Group { group_id, value: None } => self.forget(&group_id),
            offset @ GroupRecord::Offset { .. } => self.apply_offset(offset),
        }
    }

    /// A group's tombstone is committed. If members have come meanwhile it lives on, and its next record says so.
    fn forget(&mut self, group_id: &Arc<str>) {
        let Some(group) = self.groups.get_mut(group_id) else { return };
        group.stored = None;
        self.forget_unused(group_id);
    }

    /// Drops a group of which nothing is stored, or will be.
    pub(super) fn forget_unused(&mut self, group_id: &str) {
        let unused =
            |group: &Group| group.state == GroupState::Empty && group.pending_join.is_empty() && group.stored.is_none();
        let stored = self.offsets.contains_key(group_id) || self.pending_writes.contains_key(group_id);
        if !stored && self.groups.get(group_id).is_some_and(unused) {
            self.groups.remove(group_id);
        }
    }

    fn apply_offset(&mut self, record: GroupRecord) {
        let GroupRecord::Offset { group_id, topic, partition, value } = record else { return };
        if let Some(value) = value {
            self.offsets.entry(group_id).or_default().entry(topic).or_default().insert(partition, value);
            return;
        }
        let Some(of_group) = self.offsets.get_mut(&group_id) else { return };
        if let Some(of_topic) = of_group.get_mut(&topic) {
            of_topic.remove(&partition);
            if of_topic.is_empty() {
                of_group.remove(&topic);
            }
        }
        if of_group.is_empty() {
            self.offsets.remove(&group_id);
        }
    }

    /// When to call [`Self::expire`] next, by the monotonic clock; it may find nothing to do then.
    pub fn next_deadline(&self) -> Option<i64> {
        self.deadlines.next_ms()
    }

    /// Acts on every deadline that has passed.
    pub fn expire(&mut self, now: Now) -> Effects {
        let mut effects = Effects::default();
        while let Some((queued_ms, key)) = self.deadlines.pop(now.monotonic_ms) {
            let group_id = key.group_id.clone();
            let Some((group, mut step)) = self.step(now, &group_id) else { continue };
            let kind = key.kind.clone();
            let Some(deadline) = group.deadline_mut(&kind) else { continue };
            if let Due::Reached = step.deadlines.judge(deadline, queued_ms, now.monotonic_ms, key) {
                match kind {
                    DeadlineKind::Member(member_id) => group.on_session_deadline(&mut step, &member_id),
                    DeadlineKind::Join => group.on_join_deadline(&mut step),
                    DeadlineKind::Sync => group.on_sync_deadline(&mut step),
                }
            }
            effects.extend(step.effects);
        }
        effects
    }
}

impl Group {
    fn deadline_mut(&mut self, kind: &DeadlineKind) -> Option<&mut Deadline> {
        match kind {
            DeadlineKind::Join => Some(&mut self.join_deadline),
            DeadlineKind::Sync => Some(&mut self.sync_deadline),
            DeadlineKind::Member(member_id) => match self.members.get_mut(member_id) {
                Some(member) => Some(&mut member.session),
                None => self.pending_join.get_mut(member_id),
            },
        }
    }
}

fn groups_of(write: &Write) -> std::collections::BTreeSet<Arc<str>> {
    let group_of = |record: &GroupRecord| match record {
        GroupRecord::Offset { group_id, .. } | GroupRecord::Group { group_id, .. } => group_id.clone(),
    };
    write.records.iter().map(group_of).collect()
}

/// What a client is told when the log refuses a record: whether to try again, and where.
pub(super) fn write_error(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::UnknownTopicOrPartition
        | ErrorCode::NotEnoughReplicas
        | ErrorCode::NotEnoughReplicasAfterAppend
        | ErrorCode::RequestTimedOut => ErrorCode::CoordinatorNotAvailable,
        ErrorCode::NotLeaderOrFollower | ErrorCode::KafkaStorageError => ErrorCode::NotCoordinator,
        ErrorCode::MessageTooLarge | ErrorCode::RecordListTooLarge | ErrorCode::InvalidFetchSize => {
            ErrorCode::UnknownServerError
        }
        other => other,
    }
}
