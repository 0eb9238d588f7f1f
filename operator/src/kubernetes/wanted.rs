//! What a Cluster resource asks for, as far as it makes sense: nothing raw passes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::ResourceExt;
use taffrail_core::config::{self, BrokerLayers};

use super::names::{CONTROLLERS_MAX, Names, Role};
use crate::crd::Cluster;
use crate::crd::cluster::{Lifecycle, Reclaim, Rollout, ScaleDownPolicy, Storage, Template};
use crate::reconcile::cluster::{Settings, ValidCluster};

/// Brokers of a Cluster that does not say how many.
const BROKERS: i32 = 3;

/// Controllers of a Cluster that does not say how many.
const CONTROLLERS: i32 = 3;

/// Longest name of a Cluster: names of pods are labels of DNS, and have more in them.
const NAME_CHARS_MAX: usize = 40;

/// Disk of a broker of a Cluster that does not say how large.
const BROKER_DISK: &str = "10Gi";

/// The same of a controller.
const CONTROLLER_DISK: &str = "1Gi";

/// A node's disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Its size, as Kubernetes writes quantities.
    pub size: String,
    /// Its storage class; the default one if absent.
    pub class: Option<String>,
    /// Whether it stays when its node or its Cluster goes.
    pub retained: bool,
}

/// A Cluster that makes sense.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Names of its objects.
    pub names: Names,
    /// The resource's own identity.
    pub uid: String,
    /// Generation of the spec that this was made from.
    pub generation: Option<i64>,
    /// How many brokers there are to be.
    pub brokers: i32,
    /// Ids of brokers that are to go.
    pub remove: Vec<i32>,
    /// Brokers to build anew on an empty disk, with the text that asks for it.
    pub replace: BTreeMap<i32, String>,
    /// How many controllers there are to be.
    pub controllers: i32,
    /// Settings.
    pub settings: Settings,
    /// Image that the Cluster names.
    pub image: Option<String>,
    /// Release that the Cluster names.
    pub version: Option<String>,
    /// The brokers' disks.
    pub broker_disk: Disk,
    /// The controllers' disks.
    pub controller_disk: Disk,
    /// The brokers' processors and memory.
    pub broker_resources: Option<ResourceRequirements>,
    /// The controllers' processors and memory.
    pub controller_resources: Option<ResourceRequirements>,
    /// Zones that brokers are pinned to, in turn.
    pub zones: Vec<String>,
    /// What pods look like besides.
    pub template: Template,
    /// How pods are replaced.
    pub rollout: Rollout,
    /// Whether brokers that hold replicas may be drained and taken away.
    pub drains: bool,
    /// Whether the pods are to be gone, with disks and identity kept.
    pub stopped: bool,
    /// Whether the operator keeps its hands off.
    pub paused: bool,
    /// Whether what there is outlives the Cluster.
    pub protected: bool,
    /// Whether node drains are to be held back.
    pub has_budget: bool,
    /// Other namespaces whose Topics may name this Cluster.
    pub allowed_namespaces: Vec<String>,
}

impl Wanted {
    /// The disk of nodes of a role.
    pub fn disk(&self, role: Role) -> &Disk {
        match role {
            Role::Controller => &self.controller_disk,
            Role::Broker => &self.broker_disk,
        }
    }

    /// Whether resources of `namespace` may name this Cluster.
    pub fn allows(&self, namespace: &str) -> bool {
        let listed = || self.allowed_namespaces.iter().any(|allowed| allowed == "*" || allowed == namespace);
        self.names.namespace == namespace || listed()
    }

    /// Replicas of topics that say nothing about them: three, or as many as there are brokers.
    pub fn default_replicas(&self) -> i32 {
        let set = self.settings.at_start.get("default.replication.factor").and_then(|value| value.parse().ok());
        set.unwrap_or_else(|| self.brokers.clamp(1, 3))
    }

    /// What topics are checked against.
    pub fn for_topics(&self) -> ValidCluster {
        ValidCluster {
            name: self.names.cluster.clone(),
            settings: self.settings.clone(),
            brokers: Some(self.brokers),
            controllers: Some(self.controllers),
            zones: self.zones.clone(),
        }
    }
}

/// Turns the raw spec into one that makes sense.
///
/// # Errors
/// Everything that does not, with the fields' names. The schema refuses most of it already.
pub fn validate(cluster: &Cluster) -> Result<Wanted, Vec<String>> {
    let spec = &cluster.spec;
    let names = Names::new(cluster.namespace().unwrap_or_default(), cluster.name_any());
    let mut problems = Vec::new();
    if names.cluster.len() > NAME_CHARS_MAX || names.cluster.contains('.') {
        let text = format!("metadata.name: {} must have at most {NAME_CHARS_MAX} characters and no dot", names.cluster);
        problems.push(text);
    }
    let brokers = spec.brokers.replicas.unwrap_or(BROKERS);
    if brokers < 1 {
        problems.push("spec.brokers.replicas: at least 1 is needed; to stop a cluster, set spec.lifecycle".to_owned());
    }
    let controllers = spec.controllers.replicas.unwrap_or(CONTROLLERS);
    if !(1..=CONTROLLERS_MAX).contains(&controllers) || controllers % 2 == 0 {
        problems.push(format!("spec.controllers.replicas: {controllers} is not 1, 3 or 5"));
    }
    let layers = BrokerLayers { static_broker: spec.config.0.clone(), ..BrokerLayers::default() };
    if let Err(error) = config::validate_broker(&layers) {
        problems.push(format!("spec.config: {error}"));
    }
    for (field, storage) in [("brokers", &spec.brokers.storage), ("controllers", &spec.controllers.storage)] {
        if storage.as_ref().is_some_and(|storage| !storage.volumes.is_empty()) {
            problems.push(format!("spec.{field}.storage.volumes: several disks a node are not acted on yet"));
        }
    }
    for listener in &spec.listeners {
        if listener.tls || listener.auth.is_some() {
            problems.push(format!("spec.listeners: tls and auth of {} are not acted on yet", listener.name));
        }
    }
    if !problems.is_empty() {
        return Err(problems);
    }
    let zones = spec.brokers.rack.as_ref().and_then(|rack| rack.zones.clone()).unwrap_or_default();
    let replace = spec.brokers.replace.iter().map(|replace| (replace.id, replace.nonce.clone())).collect();
    let scale_down = spec.scale_down.as_ref().map(|scale_down| scale_down.policy).unwrap_or_default();
    let template = spec.template.clone().unwrap_or_default();
    Ok(Wanted {
        names,
        uid: cluster.uid().unwrap_or_default(),
        generation: cluster.metadata.generation,
        brokers,
        remove: spec.brokers.remove.clone(),
        replace,
        controllers,
        settings: Settings::of(&spec.config),
        image: template.image.clone(),
        version: spec.version.clone(),
        broker_disk: disk(spec.brokers.storage.as_ref(), BROKER_DISK),
        controller_disk: disk(spec.controllers.storage.as_ref(), CONTROLLER_DISK),
        broker_resources: spec.brokers.resources.clone(),
        controller_resources: spec.controllers.resources.clone(),
        zones,
        template,
        rollout: spec.rollout.clone().unwrap_or_default(),
        drains: scale_down == ScaleDownPolicy::Drain,
        stopped: spec.lifecycle == Lifecycle::Stopped,
        paused: spec.paused,
        protected: spec.deletion_protection,
        has_budget: !spec.pdb.as_ref().is_some_and(|pdb| pdb.disabled),
        allowed_namespaces: spec.allowed_namespaces.clone(),
    })
}

fn disk(storage: Option<&Storage>, default_size: &str) -> Disk {
    let size = storage.and_then(|storage| storage.size.as_ref()).map(|size| size.0.clone());
    Disk {
        size: size.unwrap_or_else(|| default_size.to_owned()),
        class: storage.and_then(|storage| storage.class.clone()),
        retained: storage.is_none_or(|storage| storage.reclaim == Reclaim::Retain),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crd::ClusterSpec;

    fn cluster(spec: &str) -> Cluster {
        let spec: ClusterSpec = serde_json::from_str(spec).unwrap();
        let mut cluster = Cluster::new("log", spec);
        cluster.metadata.namespace = Some("shop".to_owned());
        cluster
    }

    #[test]
    fn an_empty_spec_is_a_cluster_that_survives_a_node() {
        let wanted = validate(&cluster("{}")).unwrap();
        assert_eq!((wanted.brokers, wanted.controllers, wanted.default_replicas()), (3, 3, 3));
        assert_eq!(wanted.disk(Role::Broker).size, "10Gi");
        assert!(wanted.disk(Role::Controller).retained && wanted.has_budget && wanted.drains);
    }

    #[test]
    fn what_makes_no_sense_is_named_by_its_field() {
        for (spec, expected) in [
            (r#"{"controllers":{"replicas":2}}"#, "spec.controllers.replicas: 2 is not 1, 3 or 5"),
            (r#"{"brokers":{"replicas":0}}"#, "spec.brokers.replicas: at least 1"),
            (r#"{"config":{"log.retention.ms":"0"}}"#, "spec.config: log.retention.ms"),
            (r#"{"listeners":[{"name":"tls","port":9094,"tls":true}]}"#, "spec.listeners: tls and auth of tls"),
            (
                r#"{"brokers":{"storage":{"volumes":[{"id":0,"size":"1Gi"}]}}}"#,
                "spec.brokers.storage.volumes: several disks",
            ),
        ] {
            let problems = validate(&cluster(spec)).unwrap_err();
            assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
        }
    }

    #[test]
    fn other_namespaces_may_name_the_cluster_only_where_it_allows_them() {
        let allows = |spec: &str, namespace: &str| validate(&cluster(spec)).unwrap().allows(namespace);
        assert!(allows("{}", "shop") && !allows("{}", "other"));
        assert!(allows(r#"{"allowedNamespaces":["other"]}"#, "other"));
        assert!(allows(r#"{"allowedNamespaces":["*"]}"#, "any"));
    }
}
