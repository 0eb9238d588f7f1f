//! What to do.

use taffrail_core::config::Overrides;

use super::{ObservedCluster, ValidCluster};
use crate::reconcile::topic::ConfigChange;

/// What to do about a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClusterPlan {
    /// Settings to change in the metadata.
    pub changes: Vec<ConfigChange>,
    /// Settings that wait for a restart, because they changed in the spec after the start.
    pub waiting: Vec<String>,
}

/// Compares what is wanted with what is there. `started_with` are the settings that the brokers had at their start.
///
/// The spec's `config` is the whole truth about settings for all brokers: what was set behind its back is taken away. A
/// spec without one leaves them alone.
pub fn build(wanted: &ValidCluster, observed: &ObservedCluster, started_with: &Overrides) -> ClusterPlan {
    let changes =
        if wanted.has_config { ConfigChange::between(&observed.dynamic, &wanted.dynamic) } else { Vec::new() };
    let mut waiting: Vec<String> = wanted
        .at_start
        .iter()
        .filter(|(name, value)| started_with.get(*name) != Some(value))
        .map(|(name, _)| name.clone())
        .collect();
    waiting.extend(started_with.keys().filter(|name| !wanted.at_start.contains_key(*name)).cloned());
    ClusterPlan { changes, waiting }
}
