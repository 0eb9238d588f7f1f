//! What to do.

use std::fmt;
use std::sync::Arc;

use taffrail_core::config::Overrides;
use taffrail_core::control::{ConfigOp, ConfigOperation};

use super::{ObservedTopic, ValidTopic};
use crate::crd::parts::{DeletionPolicy, Management};
use crate::crd::reasons::Reason;
use crate::crd::topic::{Drift, DriftPolicy};

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
        /// Settings.
        config: Overrides,
    },
    /// Add partitions.
    Grow {
        /// Partitions that it is to have in all.
        partitions: i32,
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
pub fn build(wanted: &ValidTopic, observed: Option<&ObservedTopic>) -> TopicPlan {
    let managed = wanted.management == Management::Managed;
    let Some(observed) = observed else {
        let replicas = wanted.replicas.or(wanted.default_replicas);
        let create = Action::Create { partitions: wanted.partitions, replicas, config: wanted.config.clone() };
        if managed {
            return TopicPlan { actions: vec![create], ..TopicPlan::default() };
        }
        let message = format!("the topic {} is observed only, and does not exist", wanted.name);
        return TopicPlan { stall: Some(Stall { reason: Reason::NotFound, message }), ..TopicPlan::default() };
    };
    let mut plan = TopicPlan::default();
    let correct = managed && wanted.drift_policy == DriftPolicy::Correct;
    if let Some(partitions) = wanted.partitions.filter(|wanted| *wanted != observed.partitions) {
        plan.drift.push(drift("partitions", Some(partitions), Some(observed.partitions)));
        if partitions < observed.partitions {
            let message = format!(
                "partitions cannot be taken away: the topic has {}, the resource says {partitions}",
                observed.partitions
            );
            plan.stall = Some(Stall { reason: Reason::PartitionsCannotShrink, message });
        } else if correct {
            plan.actions.push(Action::Grow { partitions });
        }
    }
    if let Some(replicas) = wanted.replicas.filter(|wanted| *wanted != observed.replicas) {
        plan.drift.push(drift("replicas", Some(replicas), Some(observed.replicas)));
        if !wanted.moves_replicas {
            let message =
                format!("the topic has {} replicas, and moving replicas is not acted on yet", observed.replicas);
            plan.stall.get_or_insert(Stall { reason: Reason::ReplicasCannotChange, message });
        } else if correct && observed.moving == 0 {
            plan.actions.push(Action::Replicate { replicas });
        }
    }
    let changes = ConfigChange::between(&observed.config, &wanted.config);
    for change in &changes {
        let field = format!("config[{}]", change.name);
        plan.drift.push(drift(&field, change.value.as_ref(), observed.config.get(&change.name)));
    }
    if correct && !changes.is_empty() {
        plan.actions.push(Action::Configure { changes });
    }
    plan
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
