//! From the raw spec to one that makes sense.

use std::collections::{BTreeMap, BTreeSet};

use kube::ResourceExt;
use taffrail_client::groups::TopicPartition;
use taffrail_core::ids::Offset;

use super::lag::Objective;
use crate::crd::consumer_group::{IfActive, Reset, ResetTo};
use crate::crd::parts::{DeletionPolicy, Management};
use crate::crd::{ConsumerGroup, ConsumerGroupSpec};

/// A ConsumerGroup that makes sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidGroup {
    /// Name of the group.
    pub id: String,
    /// Topics that are reported and reset; all of the group's if empty.
    pub topics: BTreeSet<String>,
    /// Whether offsets are set, or the group is only watched.
    pub management: Management,
    /// A change of the group's offsets.
    pub reset: Option<ValidReset>,
    /// What its lag is to stay under.
    pub lag: Option<Objective>,
    /// What happens to the group when its resource goes.
    pub deletion_policy: DeletionPolicy,
}

/// A change of a group's offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidReset {
    /// What tells it from others: it is done once.
    pub id: String,
    /// Where to.
    pub to: Target,
    /// Partitions that are reset; all of the group's topics if empty.
    pub partitions: BTreeSet<TopicPartition>,
    /// Whether it is only worked out.
    pub dry_run: bool,
}

/// Where offsets go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Target {
    /// To the first record that there is.
    Earliest,
    /// To the end.
    Latest,
    /// To the first record of this time or later, in milliseconds since 1970.
    Timestamp(i64),
    /// To this offset.
    Offset(Offset),
    /// By this number of records.
    ShiftBy(i64),
}

/// Name of the group that a resource is about.
pub fn group_id(group: &ConsumerGroup) -> String {
    group.spec.group_id.clone().unwrap_or_else(|| group.name_any())
}

/// Turns the raw spec into one that makes sense.
///
/// # Errors
/// Everything that does not, with the fields' names. The schema refuses most of it already.
pub fn validate(group: &ConsumerGroup) -> Result<ValidGroup, Vec<String>> {
    let spec = &group.spec;
    let mut problems = not_acted_on(spec);
    let reset = spec.reset.as_ref().and_then(|reset| validate_reset(reset, &mut problems));
    let lag = spec.lag.as_ref().map_or(Ok(None), Objective::read).unwrap_or_else(|problem| {
        problems.push(problem);
        None
    });
    if !problems.is_empty() {
        return Err(problems);
    }
    Ok(ValidGroup {
        id: group_id(group),
        topics: spec.topics.iter().cloned().collect(),
        management: spec.management,
        reset,
        lag,
        deletion_policy: spec.deletion_policy,
    })
}

/// Fields that nothing stands behind yet: nobody is to believe in a limit that is not kept.
fn not_acted_on(spec: &ConsumerGroupSpec) -> Vec<String> {
    let parks = spec.reset.as_ref().is_some_and(|reset| reset.if_active == IfActive::Park);
    let fields = [
        (spec.initial_offsets.is_some(), "initialOffsets"),
        (spec.dead_letter.is_some(), "deadLetter"),
        (spec.group_config.is_some(), "groupConfig"),
        (parks, "reset.ifActive: Park"),
    ];
    let given = fields.iter().filter(|(is_given, _)| *is_given);
    given.map(|(_, field)| format!("spec.{field}: not acted on yet: take it out")).collect()
}

fn validate_reset(reset: &Reset, problems: &mut Vec<String>) -> Option<ValidReset> {
    if reset.request_id.is_empty() || reset.request_id.chars().any(char::is_control) {
        problems.push("spec.reset.requestId: must be a text of one line".to_owned());
    }
    let to = match (reset.to, &reset.timestamp, reset.offset, reset.shift_by) {
        (ResetTo::Earliest, ..) => Some(Target::Earliest),
        (ResetTo::Latest, ..) => Some(Target::Latest),
        (ResetTo::Timestamp, Some(time), ..) => Some(Target::Timestamp(time.0.as_millisecond())),
        (ResetTo::Offset, _, Some(offset), _) => Some(Target::Offset(offset)),
        (ResetTo::ShiftBy, .., Some(by)) => Some(Target::ShiftBy(by)),
        _ => None,
    };
    if to.is_none() {
        problems.push(format!("spec.reset: to: {:?} needs the field of that name", reset.to));
    }
    let of_topic = |(topic, partitions): (&String, &Vec<i32>)| {
        partitions.iter().map(|index| TopicPartition::new(topic, *index)).collect::<Vec<_>>()
    };
    let empty = |partitions: &BTreeMap<String, Vec<i32>>| {
        partitions.iter().find(|(_, partitions)| partitions.is_empty()).map(|(topic, _)| topic.clone())
    };
    if let Some(topic) = empty(&reset.partitions) {
        problems.push(format!("spec.reset.partitions: {topic} names no partition"));
    }
    Some(ValidReset {
        id: reset.request_id.clone(),
        to: to?,
        partitions: reset.partitions.iter().flat_map(of_topic).collect(),
        dry_run: reset.dry_run,
    })
}
