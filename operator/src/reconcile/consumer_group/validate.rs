//! From the raw spec to one that makes sense.

use std::collections::BTreeSet;
use std::fmt;

use kube::ResourceExt;
use taffrail_client::groups::TopicPartition;
use taffrail_core::ids::Offset;

use super::lag::Objective;
use crate::crd::consumer_group::{IfActive, InitialFrom, InitialOffsets, Reset, ResetTo};
use crate::crd::parts::{DeletionPolicy, Management};
use crate::crd::{ConsumerGroup, ConsumerGroupSpec};

/// What coordinators remember the offsets by that a group begins with; no reset is called so.
pub const INITIAL_ID: &str = "initialOffsets";

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
    /// Where it begins if nobody has used it yet.
    pub initial: Option<Target>,
    /// Topics that take what it cannot process.
    pub dead_letters: BTreeSet<String>,
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
    /// Workload that is scaled to nothing while the group has members.
    pub park: Option<Workload>,
}

/// A workload of Kubernetes that can be scaled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Workload {
    /// What it is.
    pub kind: WorkloadKind,
    /// Its name.
    pub name: String,
}

/// Kinds of workloads that can be scaled, all of them of `apps/v1`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkloadKind {
    /// Pods that are all the same.
    Deployment,
    /// Pods with numbers.
    StatefulSet,
}

/// API version of workloads.
const WORKLOADS: &str = "apps/v1";

impl WorkloadKind {
    /// What resources say in `kind`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::StatefulSet => "StatefulSet",
        }
    }
}

impl Workload {
    /// The workload of this kind and name; `None` if such a kind cannot be scaled.
    pub fn named(kind: &str, name: &str) -> Option<Self> {
        let kinds = [WorkloadKind::Deployment, WorkloadKind::StatefulSet];
        let kind = kinds.into_iter().find(|known| known.name() == kind)?;
        Some(Self { kind, name: name.to_owned() })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.name(), self.name)
    }
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

/// What makes no sense in a spec.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flaw {
    /// The field, such as `spec.reset.offset`.
    pub field: &'static str,
    /// What is wrong with it.
    pub message: String,
}

impl Flaw {
    fn new(field: &'static str, message: impl Into<String>) -> Self {
        Self { field, message: message.into() }
    }
}

impl fmt::Display for Flaw {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// Name of the group that a resource is about.
pub fn group_id(group: &ConsumerGroup) -> String {
    group.spec.group_id.clone().unwrap_or_else(|| group.name_any())
}

/// Turns the raw spec into one that makes sense.
///
/// # Errors
/// Everything that does not. Where an API server has seen it before, its schema has refused most of it already.
pub fn validate(group: &ConsumerGroup) -> Result<ValidGroup, Vec<Flaw>> {
    let spec = &group.spec;
    let mut flaws = not_acted_on(spec);
    let reset = spec.reset.as_ref().and_then(|reset| validate_reset(reset, &mut flaws));
    let initial = spec.initial_offsets.as_ref().and_then(|initial| validate_initial(initial, spec, &mut flaws));
    let lag = spec.lag.as_ref().map_or(Ok(None), Objective::read).unwrap_or_else(|message| {
        flaws.push(Flaw::new("spec.lag", message));
        None
    });
    if !flaws.is_empty() {
        return Err(flaws);
    }
    Ok(ValidGroup {
        id: group_id(group),
        topics: spec.topics.iter().cloned().collect(),
        management: spec.management,
        reset,
        initial,
        dead_letters: spec.dead_letter.iter().flat_map(|found| &found.topics).cloned().collect(),
        lag,
        deletion_policy: spec.deletion_policy,
    })
}

/// Fields that nothing stands behind yet: nobody is to believe in a limit that is not kept.
fn not_acted_on(spec: &ConsumerGroupSpec) -> Vec<Flaw> {
    // Kafka has settings for groups of the new consumer protocol (KIP-848) only.
    let message = "not acted on yet: classic groups have no settings of their own; take it out";
    spec.group_config.iter().map(|_| Flaw::new("spec.groupConfig", message)).collect()
}

fn validate_initial(initial: &InitialOffsets, spec: &ConsumerGroupSpec, flaws: &mut Vec<Flaw>) -> Option<Target> {
    if spec.topics.is_empty() {
        flaws.push(Flaw::new("spec.initialOffsets", "needs spec.topics: a group that was never used has none"));
    }
    if spec.management == Management::Observe {
        flaws.push(Flaw::new("spec.initialOffsets", "needs management: Managed: Observe only watches"));
    }
    let to = match (initial.from, &initial.timestamp) {
        (InitialFrom::Earliest, None) => Some(Target::Earliest),
        (InitialFrom::Latest, None) => Some(Target::Latest),
        (InitialFrom::Timestamp, Some(time)) => Some(Target::Timestamp(time.0.as_millisecond())),
        _ => None,
    };
    if to.is_none() {
        flaws.push(Flaw::new("spec.initialOffsets", "from: Timestamp needs timestamp, and only it does"));
    }
    to
}

fn validate_reset(reset: &Reset, flaws: &mut Vec<Flaw>) -> Option<ValidReset> {
    if reset.request_id.is_empty() || reset.request_id.chars().any(char::is_control) {
        flaws.push(Flaw::new("spec.reset.requestId", "must be a text of one line"));
    }
    if reset.request_id == INITIAL_ID {
        flaws.push(Flaw::new("spec.reset.requestId", "this one stands for spec.initialOffsets: take another"));
    }
    let to = match (reset.to, &reset.timestamp, reset.offset, reset.shift_by) {
        (ResetTo::Earliest, None, None, None) => Some(Target::Earliest),
        (ResetTo::Latest, None, None, None) => Some(Target::Latest),
        (ResetTo::Timestamp, Some(time), None, None) => Some(Target::Timestamp(time.0.as_millisecond())),
        (ResetTo::Offset, None, Some(offset), None) => Some(Target::Offset(offset)),
        (ResetTo::ShiftBy, None, None, Some(by)) => Some(Target::ShiftBy(by)),
        _ => None,
    };
    if to.is_none() {
        let message = format!("{:?} needs the field of that name if there is one, and no other", reset.to);
        flaws.push(Flaw::new("spec.reset.to", message));
    }
    if let Some((topic, _)) = reset.partitions.iter().find(|(_, partitions)| partitions.is_empty()) {
        flaws.push(Flaw::new("spec.reset.partitions", format!("{topic} names no partition")));
    }
    let of_topic = |(topic, partitions): (&String, &Vec<i32>)| {
        partitions.iter().map(|index| TopicPartition::new(topic, *index)).collect::<Vec<_>>()
    };
    Some(ValidReset {
        id: reset.request_id.clone(),
        to: to?,
        partitions: reset.partitions.iter().flat_map(of_topic).collect(),
        dry_run: reset.dry_run,
        park: validate_park(reset, flaws),
    })
}

fn validate_park(reset: &Reset, flaws: &mut Vec<Flaw>) -> Option<Workload> {
    let raw = match (reset.if_active, &reset.workload_ref) {
        (IfActive::Refuse, _) => return None,
        (IfActive::Park, Some(raw)) => raw,
        (IfActive::Park, None) => {
            flaws.push(Flaw::new("spec.reset.ifActive", "Park needs workloadRef"));
            return None;
        }
    };
    let workload = Workload::named(&raw.kind, &raw.name).filter(|_| raw.api_version == WORKLOADS);
    if workload.is_none() {
        let message = format!(
            "a Deployment or StatefulSet of {WORKLOADS} can be parked, and no {} of {}",
            raw.kind, raw.api_version
        );
        flaws.push(Flaw::new("spec.reset.workloadRef", message));
    }
    workload
}
