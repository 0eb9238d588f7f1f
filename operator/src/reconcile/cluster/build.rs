//! What to do.

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
    let changes =
        if wanted.has_config { ConfigChange::between(&observed.dynamic, &wanted.dynamic) } else { Vec::new() };
    let before = &started.at_start;
    let mut waiting: Vec<String> = wanted
        .at_start
        .iter()
        .filter(|(name, value)| before.get(*name) != Some(value))
        .map(|(name, _)| name.clone())
        .collect();
    waiting.extend(before.keys().filter(|name| !wanted.at_start.contains_key(*name)).cloned());
    let fields = [
        ("spec.brokers.replicas", wanted.brokers != started.brokers),
        ("spec.brokers.rack.zones", wanted.zones != started.zones),
        ("spec.controllers.replicas", wanted.controllers != started.controllers),
    ];
    waiting.extend(fields.iter().filter(|(_, differs)| *differs).map(|(field, _)| (*field).to_owned()));
    ClusterPlan { changes, waiting }
}
