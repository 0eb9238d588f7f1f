//! What to do.

use std::fmt;
use std::sync::Arc;

use taffrail_core::config::Overrides;
use taffrail_core::control::{ConfigOp, ConfigOperation};
use taffrail_core::ids::{BrokerId, PartitionIndex};

use super::{ObservedTopic, ValidTopic};
use crate::crd::parts::{DeletionPolicy, Management};
use crate::crd::reasons::Reason;
use crate::crd::topic::{Drift, DriftPolicy};

/// Partitions of a topic that begin to move in one pass at most.
const MOVES_MAX: usize = 500;

/// Settings that say which replicas are slowed down while they are made.
pub const THROTTLED: [&str; 2] = ["leader.replication.throttled.replicas", "follower.replication.throttled.replicas"];

/// A change of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigChange {
    /// Name of the setting.
    pub name: String,
    /// Its new value; `None` takes the one that it has away.
    pub value: Option<String>,
    /// The value that it has.
    pub had: Option<String>,
}

impl fmt::Display for ConfigChange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.value {
            Some(value) => write!(f, "{}={value}", self.name)?,
            None => write!(f, "{} taken away", self.name)?,
        }
        self.had.as_ref().map_or(Ok(()), |had| write!(f, " (was {had})"))
    }
}

impl ConfigChange {
    /// What turns `have` into `want`.
    pub fn between(have: &Overrides, want: &Overrides) -> Vec<Self> {
        let set = want.iter().filter(|(name, value)| have.get(*name) != Some(value));
        let change = |name: &String, value| Self { name: name.clone(), value, had: have.get(name).cloned() };
        let set = set.map(|(name, value)| change(name, Some(value.clone())));
        let gone = have.keys().filter(|name| !want.contains_key(*name));
        set.chain(gone.map(|name| change(name, None))).collect()
    }

    /// The change as the controllers take it.
    pub fn to_operation(&self) -> ConfigOperation {
        ConfigOperation {
            name: self.name.as_str().into(),
            op: if self.value.is_some() { ConfigOp::Set } else { ConfigOp::Delete },
            value: self.value.as_deref().map(Arc::from),
        }
    }
}

/// One thing to do about a topic.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Create it.
    Create {
        /// Partitions; the cluster's default if `None`.
        partitions: Option<i32>,
        /// Replicas; the cluster's default if `None`.
        replicas: Option<i16>,
        /// Brokers of each partition; the controllers choose if empty.
        assignment: Vec<Vec<BrokerId>>,
        /// Settings.
        config: Overrides,
    },
    /// Add partitions.
    Grow {
        /// Partitions that it is to have in all.
        partitions: i32,
        /// Brokers of each new one; the controllers choose if empty.
        assignment: Vec<Vec<BrokerId>>,
    },
    /// Move partitions to these brokers.
    Assign {
        /// Each partition, and its brokers.
        partitions: Vec<(PartitionIndex, Vec<BrokerId>)>,
    },
    /// Have more or fewer replicas, on brokers that the controllers choose.
    Replicate {
        /// Replicas that each partition is to have.
        replicas: i16,
    },
    /// Change settings.
    Configure {
        /// The changes.
        changes: Vec<ConfigChange>,
    },
    /// Delete it, with its data.
    Delete,
}

/// Why a topic cannot be made as its resource says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stall {
    /// In a word.
    pub reason: Reason,
    /// The same in words.
    pub message: String,
}

/// What to do about a topic, and how it differs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TopicPlan {
    /// What to do, in this order.
    pub actions: Vec<Action>,
    /// How the topic differs from its resource; what `actions` set right is in here too.
    pub drift: Vec<Drift>,
    /// What stands in the way.
    pub stall: Option<Stall>,
}

/// Compares what is wanted with what is there.
pub fn build(wanted: &ValidTopic, observed: Option<&ObservedTopic>, now_ms: i64) -> TopicPlan {
    let managed = wanted.management == Management::Managed;
    if managed && wanted.delete_deadline_ms.is_some_and(|deadline_ms| deadline_ms <= now_ms) {
        let message = "spec.deleteDeadline is over: the topic is deleted, and not made again".to_owned();
        let actions = observed.map(|_| Action::Delete).into_iter().collect();
        return TopicPlan { actions, stall: Some(Stall { reason: Reason::Expired, message }), ..TopicPlan::default() };
    }
    let Some(observed) = observed else { return build_new(wanted, managed) };
    let mut plan = TopicPlan::default();
    let correct = managed && wanted.drift_policy == DriftPolicy::Correct;
    compare_partitions(wanted, observed, correct, &mut plan);
    compare_replicas(wanted, observed, correct, &mut plan);
    let mut changes = ConfigChange::between(&observed.config, &wanted.config);
    // These come and go with moves of replicas, whoever started them; a resource that says nothing of them leaves them alone.
    changes.retain(|change| change.value.is_some() || !THROTTLED.contains(&change.name.as_str()));
    for change in &changes {
        let field = format!("config[{}]", change.name);
        plan.drift.push(drift(&field, change.value.as_ref(), observed.config.get(&change.name)));
    }
    if correct && !changes.is_empty() {
        plan.actions.push(Action::Configure { changes });
    }
    plan
}

/// What to do about a topic that is not there.
fn build_new(wanted: &ValidTopic, managed: bool) -> TopicPlan {
    if !managed {
        let message = format!("the topic {} is observed only, and does not exist", wanted.name);
        return TopicPlan { stall: Some(Stall { reason: Reason::NotFound, message }), ..TopicPlan::default() };
    }
    let create = Action::Create {
        partitions: wanted.partitions,
        replicas: wanted.replicas.or(wanted.default_replicas),
        assignment: wanted.assignment.clone(),
        config: wanted.config.clone(),
    };
    TopicPlan { actions: vec![create], ..TopicPlan::default() }
}

fn compare_partitions(wanted: &ValidTopic, observed: &ObservedTopic, correct: bool, plan: &mut TopicPlan) {
    let Some(partitions) = wanted.partitions.filter(|wanted| *wanted != observed.partitions) else { return };
    plan.drift.push(drift("partitions", Some(partitions), Some(observed.partitions)));
    let is_keyed = wanted.config.get("cleanup.policy").is_some_and(|policy| policy.contains("compact"));
    if partitions < observed.partitions {
        let message = format!(
            "partitions cannot be taken away: the topic has {}, the resource says {partitions}",
            observed.partitions
        );
        plan.stall = Some(Stall { reason: Reason::PartitionsCannotShrink, message });
    } else if is_keyed && !wanted.allows_keyed_expansion {
        let message = format!(
            "the topic is compacted, and with {partitions} partitions keys land elsewhere than with {}: to add partitions \
             nevertheless, say allowKeyedExpansion: true",
            observed.partitions
        );
        plan.stall = Some(Stall { reason: Reason::KeysWouldMove, message });
    } else if correct {
        let there = usize::try_from(observed.partitions).unwrap_or(0);
        let assignment = wanted.assignment.get(there..).unwrap_or_default().to_vec();
        plan.actions.push(Action::Grow { partitions, assignment });
    }
}

fn compare_replicas(wanted: &ValidTopic, observed: &ObservedTopic, correct: bool, plan: &mut TopicPlan) {
    if !wanted.assignment.is_empty() {
        let brokers = |partition: &PartitionIndex| wanted.assignment.get(usize::try_from(*partition).ok()?).cloned();
        let partitions = observed.misplaced.iter().filter_map(|it| Some((*it, brokers(it)?)));
        let partitions: Vec<(PartitionIndex, Vec<BrokerId>)> = partitions.take(MOVES_MAX).collect();
        if let Some((first, _)) = partitions.first() {
            let have = format!("{} partitions are elsewhere, the first is {first}", observed.misplaced.len());
            plan.drift.push(drift("assignment", None::<String>, Some(have)));
            if correct {
                plan.actions.push(Action::Assign { partitions });
            }
        }
        return;
    }
    let Some(replicas) = wanted.replicas.filter(|wanted| *wanted != observed.replicas) else { return };
    plan.drift.push(drift("replicas", Some(replicas), Some(observed.replicas)));
    if !wanted.moves_replicas {
        let message = format!("the topic has {} replicas, and moving replicas is not acted on yet", observed.replicas);
        plan.stall.get_or_insert(Stall { reason: Reason::ReplicasCannotChange, message });
    } else if correct && observed.moving == 0 {
        plan.actions.push(Action::Replicate { replicas });
    }
}

/// What to do about a topic whose resource is gone.
pub fn build_removed(removed: &ValidTopic, observed: Option<&ObservedTopic>) -> TopicPlan {
    let deletes = removed.management == Management::Managed && removed.deletion_policy == DeletionPolicy::Delete;
    let actions = if deletes && observed.is_some() { vec![Action::Delete] } else { Vec::new() };
    TopicPlan { actions, ..TopicPlan::default() }
}

fn drift(field: &str, want: Option<impl ToString>, have: Option<impl ToString>) -> Drift {
    Drift {
        field: field.to_owned(),
        want: want.map(|value| value.to_string()),
        have: have.map(|value| value.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::Uuid;

    use super::*;
    use crate::yaml::Origin;

    #[test]
    fn partitions_that_are_elsewhere_than_assigned_move_and_nothing_is_said_of_the_others() {
        let brokers = |ids: &[i32]| ids.iter().map(|id| BrokerId(*id)).collect::<Vec<_>>();
        let wanted = ValidTopic {
            name: "orders".to_owned(),
            partitions: Some(3),
            replicas: Some(2),
            default_replicas: None,
            moves_replicas: true,
            assignment: vec![brokers(&[0, 1]), brokers(&[1, 2]), brokers(&[2, 0])],
            delete_deadline_ms: None,
            allows_keyed_expansion: false,
            config: Overrides::new(),
            management: Management::Managed,
            drift_policy: DriftPolicy::Correct,
            deletion_policy: DeletionPolicy::Retain,
            origin: Origin::default(),
        };
        let observed = ObservedTopic {
            id: Uuid([1; 16]),
            partitions: 2,
            replicas: 3,
            moving: 1,
            leaderless: 0,
            min_isr_margin: 0,
            troubled: Vec::new(),
            config: Overrides::new(),
            misplaced: vec![1],
        };
        let plan = build(&wanted, Some(&observed), 0);
        let grow = Action::Grow { partitions: 3, assignment: vec![brokers(&[2, 0])] };
        let assign = Action::Assign { partitions: vec![(1, brokers(&[1, 2]))] };
        assert_eq!(plan.actions, [grow, assign]);
        let told = ValidTopic { drift_policy: DriftPolicy::Report, ..wanted };
        let plan = build(&told, Some(&observed), 0);
        let fields: Vec<&str> = plan.drift.iter().map(|drift| drift.field.as_str()).collect();
        assert_eq!((plan.actions, fields), (Vec::new(), vec!["partitions", "assignment"]));
    }
}
