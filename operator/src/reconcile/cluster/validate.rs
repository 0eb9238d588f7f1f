//! From the raw spec to one that makes sense.

use taffrail_core::config::{self, BrokerLayers, Overrides, Scope, Update};

use crate::crd::Cluster;
use crate::yaml::{Loaded, Problem};

/// A Cluster that makes sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidCluster {
    /// Its name.
    pub name: String,
    /// Settings that a running broker takes; the metadata keep them.
    pub dynamic: Overrides,
    /// Settings that a broker takes at its start.
    pub at_start: Overrides,
    /// Whether the spec has a `config` at all; without one, settings are nobody's business here.
    pub has_config: bool,
}

/// The cluster of these resources: one process runs one.
pub fn validate(clusters: &[Loaded<Cluster>], problems: &mut Vec<Problem>) -> Option<ValidCluster> {
    let first = clusters.first()?;
    for more in &clusters[1..] {
        let message = format!(
            "one process runs one cluster, and {}:{} describes one already",
            first.origin.file, first.origin.place.line
        );
        problems.push(more.problem(&["kind"], message));
    }
    let spec = &first.resource.spec;
    let one = "one process runs one broker that is its own controller: write 1, or leave it out";
    if spec.brokers.replicas.is_some_and(|replicas| replicas != 1) {
        problems.push(first.problem(&["spec", "brokers", "replicas"], one));
    }
    if spec.controllers.replicas.is_some_and(|replicas| replicas != 1) {
        problems.push(first.problem(&["spec", "controllers", "replicas"], one));
    }
    let layers = BrokerLayers { static_broker: spec.config.0.clone(), ..BrokerLayers::default() };
    if let Err(error) = config::validate_broker(&layers) {
        problems.push(first.problem(&["spec", "config"], error.to_string()));
    }
    let (at_start, dynamic) = spec.config.0.clone().into_iter().partition(|(name, _)| {
        config::find(Scope::Broker, name).is_none_or(|setting| setting.update == Update::ReadOnly)
    });
    Some(ValidCluster {
        name: first.resource.metadata.name.clone().unwrap_or_default(),
        dynamic,
        at_start,
        has_config: !spec.config.is_empty(),
    })
}
