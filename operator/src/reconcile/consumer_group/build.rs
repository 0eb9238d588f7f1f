//! What is to be done about a group's offsets, as a value.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_client::groups::TopicPartition;
use taffrail_core::ids::Offset;

use super::fetch::ObservedGroup;
use super::validate::{INITIAL_ID, Target, ValidGroup, ValidReset};
use crate::crd::consumer_group::LastReset;
use crate::crd::parts::Management;
use crate::crd::reasons::Reason;

/// Partitions that a message names at most.
const NAMES_MAX: usize = 5;

/// What is to be done, and what is to be said.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupPlan {
    /// About the offsets.
    pub reset: ResetPlan,
    /// About those that the group begins with.
    pub initial: InitialPlan,
}

/// What is to be done about the offsets that a group begins with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum InitialPlan {
    /// Nothing is asked for, or the group has begun.
    None,
    /// It waits.
    Blocked(Blocked),
    /// They are to be set.
    Set(Change),
}

/// What is to be done about offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResetPlan {
    /// Nothing is asked for.
    None,
    /// It was done before.
    Done {
        /// Which one.
        id: String,
    },
    /// It waits.
    Blocked(Blocked),
    /// Offsets are to be set.
    Set(Change),
    /// Offsets would be set, and are not.
    Report(Change),
}

/// Offsets that change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// Which reset this is.
    pub id: String,
    /// Offsets as they are; partitions of which nothing is committed are left out.
    pub before: BTreeMap<TopicPartition, Offset>,
    /// Offsets as they are to be.
    pub after: BTreeMap<TopicPartition, Offset>,
}

/// Why offsets are not set yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Blocked {
    /// In a word.
    pub reason: Reason,
    /// In a sentence.
    pub message: String,
}

impl Blocked {
    /// For this reason, in these words.
    pub fn new(reason: Reason, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Compares what is asked for with what is there. `reported` is the reset that the resource's status has: one that is
/// there is not done again, also when the group's coordinator has forgotten it together with the group.
pub fn build(valid: &ValidGroup, observed: &ObservedGroup, reported: Option<&LastReset>) -> GroupPlan {
    let reset = build_reset(valid, observed, reported);
    // A reset that is to be done, or waits to be, says itself where the group goes on; one that has nothing to go on from
    // yet needs the beginning first.
    let is_set = match &reset {
        ResetPlan::Blocked(blocked) => blocked.reason != Reason::NoOffsets,
        reset => matches!(reset, ResetPlan::Set(_)),
    };
    let initial = if is_set { InitialPlan::None } else { build_initial(valid, observed) };
    GroupPlan { reset, initial }
}

fn build_reset(valid: &ValidGroup, observed: &ObservedGroup, reported: Option<&LastReset>) -> ResetPlan {
    let Some(reset) = &valid.reset else { return ResetPlan::None };
    let is_reported = reported.is_some_and(|reported| reported.request_id == reset.id);
    if is_reported || observed.resets.contains(&reset.id) {
        return ResetPlan::Done { id: reset.id.clone() };
    }
    match reset_changes(valid, reset, observed) {
        Err(blocked) => ResetPlan::Blocked(blocked),
        Ok(change) if reset.dry_run => ResetPlan::Report(change),
        Ok(change) => ResetPlan::Set(change),
    }
}

/// Offsets for a group that was never used: it has no members, and nothing is committed of its topics.
fn build_initial(valid: &ValidGroup, observed: &ObservedGroup) -> InitialPlan {
    let Some(to) = valid.initial else { return InitialPlan::None };
    if observed.has_begun(valid) {
        return InitialPlan::None;
    }
    if !observed.unknown_topics.is_empty() {
        let message = format!("there is no topic {} yet", observed.unknown_topics.join(", "));
        return InitialPlan::Blocked(Blocked::new(Reason::UnknownTopic, message));
    }
    let named = observed.partitions.iter().filter(|key| valid.topics.contains(&key.topic));
    match targets(INITIAL_ID, to, named, observed) {
        Err(blocked) => InitialPlan::Blocked(blocked),
        Ok(change) => InitialPlan::Set(change),
    }
}

fn reset_changes(valid: &ValidGroup, reset: &ValidReset, observed: &ObservedGroup) -> Result<Change, Blocked> {
    if valid.management == Management::Observe && !reset.dry_run {
        let message = "management: Observe only watches; to set offsets, say management: Managed";
        return Err(Blocked::new(Reason::ObservedOnly, message));
    }
    if !observed.unknown_topics.is_empty() {
        let topics = observed.unknown_topics.join(", ");
        return Err(Blocked::new(Reason::UnknownTopic, format!("there is no topic {topics}; nothing is reset")));
    }
    let partitions = if reset.partitions.is_empty() { &observed.partitions } else { &reset.partitions };
    let unknown: BTreeSet<&TopicPartition> = partitions.difference(&observed.partitions).collect();
    if !unknown.is_empty() {
        let names = listed(unknown);
        return Err(Blocked::new(Reason::UnknownTopic, format!("there is no partition {names}; nothing is reset")));
    }
    if partitions.is_empty() {
        let message = "the group has committed nothing yet: name the topics in spec.topics";
        return Err(Blocked::new(Reason::NoOffsets, message));
    }
    let members = observed.description.members;
    if members > 0 && !reset.dry_run {
        let message = format!("the group has {members} members: stop them, and the reset is done at once");
        return Err(Blocked::new(Reason::GroupActive, message));
    }
    targets(&reset.id, reset.to, partitions, observed)
}

/// Where all of these partitions go, as the change `id`; none of them if one cannot be worked out.
fn targets<'p>(
    id: &str,
    to: Target,
    partitions: impl IntoIterator<Item = &'p TopicPartition>,
    observed: &ObservedGroup,
) -> Result<Change, Blocked> {
    let mut change = Change { id: id.to_owned(), ..Change::default() };
    let (mut silent, mut uncommitted) = (BTreeSet::new(), BTreeSet::new());
    for partition in partitions {
        let before = observed.committed.get(partition).copied();
        change.before.extend(before.map(|before| (partition.clone(), before)));
        match target(to, before, observed, partition) {
            Some(after) => drop(change.after.insert(partition.clone(), after)),
            None if matches!(to, Target::ShiftBy(_)) && before.is_none() => drop(uncommitted.insert(partition)),
            None => drop(silent.insert(partition)),
        }
    }
    if !uncommitted.is_empty() {
        let message = format!("nothing is committed of {}: there is nothing to shift", listed(uncommitted));
        return Err(Blocked::new(Reason::NoOffsets, message));
    }
    if !silent.is_empty() {
        let message = format!("the leaders of {} do not answer; no offset is set", listed(silent));
        return Err(Blocked::new(Reason::LeadersSilent, message));
    }
    Ok(change)
}

/// Where a partition's offset goes: what lies outside of the log goes to its nearer end, as with Kafka's own tool.
fn target(to: Target, before: Option<Offset>, observed: &ObservedGroup, partition: &TopicPartition) -> Option<Offset> {
    let ends = observed.ends.get(partition)?;
    let within = |offset: Offset| offset.clamp(ends.start, ends.end.max(ends.start));
    Some(match to {
        Target::Earliest => ends.start,
        Target::Latest => ends.end,
        Target::Offset(offset) => within(offset),
        Target::ShiftBy(by) => within(before?.saturating_add(by)),
        Target::Timestamp(ms) => observed.at_time.get(&ms)?.get(partition)?.map_or(ends.end, within),
    })
}

fn listed(partitions: BTreeSet<&TopicPartition>) -> String {
    let count = partitions.len();
    let mut names: Vec<String> = partitions.into_iter().take(NAMES_MAX).map(ToString::to_string).collect();
    if count > NAMES_MAX {
        names.push(format!("and {} more", count - NAMES_MAX));
    }
    names.join(", ")
}
