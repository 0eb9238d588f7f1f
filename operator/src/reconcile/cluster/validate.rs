//! From the raw spec to one that makes sense.

use taffrail_core::config::{self, BrokerLayers, Overrides, Scope, Update};

use crate::crd::Cluster;
use crate::crd::settings::ClusterSettings;
use crate::yaml::{Loaded, Problem};

/// Brokers that one process runs.
const BROKERS: std::ops::RangeInclusive<i32> = 1..=9;

/// Controllers that can agree with each other.
const CONTROLLERS: [i32; 3] = [1, 3, 5];

/// Settings of all brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    /// Those that a running broker takes; the metadata keep them.
    pub dynamic: Overrides,
    /// Those that a broker takes at its start.
    pub at_start: Overrides,
    /// Whether the spec has a `config` at all; without one, settings are nobody's business here.
    pub given: bool,
}

impl Settings {
    /// The settings of a spec's `config`.
    pub fn of(config: &ClusterSettings) -> Self {
        let (at_start, dynamic) = config.0.clone().into_iter().partition(|(name, _)| {
            config::find(Scope::Broker, name).is_none_or(|setting| setting.update == Update::ReadOnly)
        });
        Self { dynamic, at_start, given: !config.is_empty() }
    }
}

/// A Cluster that makes sense.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ValidCluster {
    /// Its name.
    pub name: String,
    /// Its settings.
    pub settings: Settings,
    /// How many brokers there are to be, if it says so.
    pub brokers: Option<i32>,
    /// How many controllers, if it says so.
    pub controllers: Option<i32>,
    /// Zones that the brokers are pinned to, in turn.
    pub zones: Vec<String>,
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
    if let Some(count) = spec.brokers.replicas.filter(|count| !BROKERS.contains(count)) {
        let (least, most) = (BROKERS.start(), BROKERS.end());
        let message = format!("one process runs {least} to {most} brokers, not {count}");
        problems.push(first.problem(&["spec", "brokers", "replicas"], message));
    }
    if let Some(count) = spec.controllers.replicas.filter(|count| !CONTROLLERS.contains(count)) {
        let message = format!("{count} controllers are not 1, 3 or 5: an even one more helps no majority");
        problems.push(first.problem(&["spec", "controllers", "replicas"], message));
    }
    let layers = BrokerLayers { static_broker: spec.config.0.clone(), ..BrokerLayers::default() };
    if let Err(error) = config::validate_broker(&layers) {
        problems.push(first.problem(&["spec", "config"], error.to_string()));
    }
    Some(ValidCluster {
        name: first.resource.metadata.name.clone().unwrap_or_default(),
        settings: Settings::of(&spec.config),
        brokers: spec.brokers.replicas,
        controllers: spec.controllers.replicas,
        zones: spec.brokers.rack.as_ref().and_then(|rack| rack.zones.clone()).unwrap_or_default(),
    })
}
