//! What to do.

use std::collections::BTreeSet;

use taffrail_core::config::{self, Overrides, Scope};

use super::{ObservedCluster, ValidCluster};
use crate::reconcile::topic::ConfigChange;

/// What to do about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPlan {
    /// Settings to change in the metadata.
    pub changes: Vec<ConfigChange>,
    /// Settings and fields that wait for a restart, because they changed in the spec after the start.
    pub waiting: Vec<String>,
}

/// Compares what is wanted with what is there. `started` is the spec that the brokers and controllers were started with.
///
/// The spec's `config` is the whole truth about settings for all brokers: what was set behind its back is taken away. A
/// spec without one leaves them alone.
pub fn build(wanted: &ValidCluster, observed: &ObservedCluster, started: &ValidCluster) -> ClusterPlan {
    let changes = if wanted.settings.given {
        ConfigChange::between(&observed.dynamic, &wanted.settings.dynamic)
    } else {
        Vec::new()
    };
    let before = &started.settings.at_start;
    let names: BTreeSet<&String> = wanted.settings.at_start.keys().chain(before.keys()).collect();
    let differs = |name: &&String| in_effect(&wanted.settings.at_start, name) != in_effect(before, name);
    let mut waiting: Vec<String> = names.into_iter().filter(differs).cloned().collect();
    let fields = [
        ("spec.brokers.replicas", wanted.brokers != started.brokers),
        ("spec.brokers.rack.zones", wanted.zones != started.zones),
        ("spec.controllers.replicas", wanted.controllers != started.controllers),
    ];
    waiting.extend(fields.iter().filter(|(_, differs)| *differs).map(|(field, _)| (*field).to_owned()));
    ClusterPlan { changes, waiting }
}

/// The value of a setting: given, or by default.
fn in_effect<'a>(given: &'a Overrides, name: &str) -> Option<&'a str> {
    let by_default = || config::find(Scope::Broker, name).and_then(|setting| setting.default);
    given.get(name).map(|value| value.trim()).or_else(by_default)
}
