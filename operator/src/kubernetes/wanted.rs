//! What a Cluster resource asks for, as far as it makes sense: nothing raw passes it.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ResourceRequirements;
use kube::ResourceExt;
use taffrail_core::config::{self, BrokerLayers};

use super::listeners::ExtraListener;
use super::names::{CONTROLLERS_MAX, KAFKA_PORT, METRICS_PORT, Names, Role};
use super::rollout::{Consent, Window};
use super::throttle::Throttle;
use crate::crd::cluster::{
    Approval, Lifecycle, ListenerType, Reclaim, Rollout, RolloutStrategy, ScaleDownPolicy, Storage, Template,
};
use crate::crd::{Cluster, ClusterSpec};
use crate::reconcile::cluster::{Settings, ValidCluster};

/// Brokers of a Cluster that does not say how many.
const BROKERS: i32 = 3;

/// Controllers of a Cluster that does not say how many.
const CONTROLLERS: i32 = 3;

/// Longest name of a Cluster: names of pods are labels of DNS, and have more in them.
const NAME_CHARS_MAX: usize = 40;

/// Longest name of a Service.
const SERVICE_CHARS_MAX: usize = 63;

/// Highest id of a broker that names have room for.
const BROKER_ID_MAX: i32 = 9999;

/// Name that brokers give the first listener.
const INTER_BROKER: &str = "PLAINTEXT";

/// How long leaders may take to move away from a broker that stops, where the Cluster does not say.
pub const LEADER_DRAIN_SECONDS: i64 = 5;

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
    /// Label of Kubernetes nodes that names a broker's rack, where none is pinned.
    pub topology_key: Option<String>,
    /// What pods look like besides.
    pub template: Template,
    /// How pods are replaced.
    pub rollout: Rollout,
    /// How long leaders may take to move away from a broker that stops.
    pub leader_drain_seconds: i64,
    /// What has to be agreed to before they are.
    pub consent: Consent,
    /// Whether brokers that hold replicas may be drained and taken away.
    pub drains: bool,
    /// Partitions that move off such brokers at the same time; the controllers' own number if absent.
    pub moves_max: Option<usize>,
    /// How fast replicas may move.
    pub throttle: Throttle,
    /// Whether brokers that have less than their share are given replicas.
    pub rebalances: bool,
    /// Whether the pods are to be gone, with disks and identity kept.
    pub stopped: bool,
    /// Whether the operator keeps its hands off.
    pub paused: bool,
    /// Whether what there is outlives the Cluster.
    pub protected: bool,
    /// Whether node drains are to be held back.
    pub has_budget: bool,
    /// Whether the network is to keep strangers out.
    pub has_policy: bool,
    /// Name of the first listener, by which brokers reach each other too.
    pub listener: String,
    /// The others.
    pub listeners: Vec<ExtraListener>,
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

    /// Image that pods are to have: the one that the Cluster names, or that of its creation, in the release that it names.
    pub fn image_of(&self, at_creation: &str) -> String {
        match (&self.image, &self.version) {
            (Some(image), _) => image.clone(),
            (None, Some(version)) => format!("{}:{version}", without_tag(at_creation)),
            (None, None) => at_creation.to_owned(),
        }
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
    problems.extend(not_acted_on(spec));
    let listeners = listeners(spec, &names, &mut problems);
    let strategy = spec.rollout.as_ref().map(|rollout| rollout.strategy).unwrap_or_default();
    if strategy == RolloutStrategy::RackParallel && spec.brokers.rack.is_none() {
        problems.push("spec.rollout.strategy: RackParallel needs spec.brokers.rack".to_owned());
    }
    let throttle = Throttle::read(spec, &mut problems);
    let rollout = spec.rollout.clone().unwrap_or_default();
    let consent = consent(&rollout, cluster.metadata.generation, &mut problems);
    if !problems.is_empty() {
        return Err(problems);
    }
    let rack = spec.brokers.rack.clone().unwrap_or_default();
    let replace = spec.brokers.replace.iter().map(|replace| (replace.id, replace.nonce.clone())).collect();
    let scale_down = spec.scale_down.clone().unwrap_or_default();
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
        zones: rack.zones.unwrap_or_default(),
        topology_key: rack.topology_key,
        template,
        leader_drain_seconds: rollout.leader_drain_seconds.map_or(LEADER_DRAIN_SECONDS, i64::from),
        rollout,
        consent,
        drains: scale_down.policy == ScaleDownPolicy::Drain,
        moves_max: scale_down.max_moves.and_then(|max| usize::try_from(max).ok()),
        throttle,
        rebalances: spec.rebalance.as_ref().is_some_and(|rebalance| rebalance.on_scale_up),
        stopped: spec.lifecycle == Lifecycle::Stopped,
        paused: spec.paused,
        protected: spec.deletion_protection,
        has_budget: !spec.pdb.as_ref().is_some_and(|pdb| pdb.disabled),
        has_policy: !spec.network_policy.as_ref().is_some_and(|policy| policy.disabled),
        listener: spec.listeners.first().map_or_else(|| "plain".to_owned(), |listener| listener.name.clone()),
        listeners,
        allowed_namespaces: spec.allowed_namespaces.clone(),
    })
}

/// The listeners beside the first.
fn listeners(spec: &ClusterSpec, names: &Names, problems: &mut Vec<String>) -> Vec<ExtraListener> {
    let mut found = Vec::new();
    for (index, raw) in spec.listeners.iter().enumerate().skip(1) {
        let mut refuse = |text: String| problems.push(format!("spec.listeners[{index}].{text}"));
        match ExtraListener::read(raw) {
            Err(problem) => refuse(problem),
            Ok(listener) if [KAFKA_PORT, METRICS_PORT].contains(&listener.port) => {
                refuse(format!("port: {} is the broker's own", listener.port));
            }
            Ok(listener) if listener.name.eq_ignore_ascii_case(INTER_BROKER) => {
                refuse(format!("name: {} is what brokers call their first listener", listener.name));
            }
            Ok(listener) if names.listener(BROKER_ID_MAX, &listener.name).len() > SERVICE_CHARS_MAX => {
                refuse(format!("name: {} is too long behind the Cluster's name", listener.name));
            }
            Ok(listener) => found.push(listener),
        }
    }
    found
}

/// What has to be agreed to before pods are replaced. To agree changes the spec, and so its generation, by one.
fn consent(rollout: &Rollout, generation: Option<i64>, problems: &mut Vec<String>) -> Consent {
    let mut windows = Vec::new();
    for (index, raw) in rollout.windows.iter().enumerate() {
        match Window::read(raw) {
            Ok(window) => windows.push(window),
            Err(problem) => problems.push(format!("spec.rollout.windows[{index}]: {problem}")),
        }
    }
    let generation = generation.unwrap_or_default();
    let is_approved =
        rollout.approved_generation.is_some_and(|approved| [generation, generation - 1].contains(&approved));
    let needs_approval = rollout.approval == Approval::Manual && !is_approved;
    Consent { windows, unapproved: needs_approval.then_some(generation) }
}

/// Fields that nothing stands behind yet: nobody is to believe in a window or a limit that is not kept.
fn not_acted_on(spec: &ClusterSpec) -> Vec<String> {
    let mut fields: Vec<String> = Vec::new();
    let mut refuse = |is_given: bool, field: &str| {
        if is_given {
            fields.push(format!("spec.{field}: not acted on yet: take it out"));
        }
    };
    let has_volumes = |storage: &Option<Storage>| storage.as_ref().is_some_and(|storage| !storage.volumes.is_empty());
    refuse(has_volumes(&spec.brokers.storage), "brokers.storage.volumes");
    refuse(has_volumes(&spec.controllers.storage), "controllers.storage.volumes");
    refuse(spec.metrics.is_some(), "metrics");
    for (index, listener) in spec.listeners.iter().enumerate() {
        let at = |field: &str| format!("listeners[{index}]{field}");
        refuse(listener.tls, &at(".tls"));
        refuse(listener.auth.is_some(), &at(".auth"));
        // By the first one brokers reach each other.
        refuse(index == 0 && listener.advertised.is_some(), &at(".advertised"));
        refuse(index == 0 && listener.type_ != ListenerType::Internal, &at(".type"));
        refuse(index == 0 && listener.port != i32::from(KAFKA_PORT), &at(".port"));
    }
    fields
}

/// An image's name without its tag or digest.
fn without_tag(image: &str) -> &str {
    let image = image.split_once('@').map_or(image, |(name, _)| name);
    match image.rsplit_once(':') {
        // A colon before a slash belongs to a port.
        Some((name, tag)) if !tag.contains('/') => name,
        _ => image,
    }
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
            (r#"{"listeners":[{"name":"tls","port":9092,"tls":true}]}"#, "spec.listeners[0].tls: not acted on yet"),
            (r#"{"listeners":[{"name":"plain","port":9094}]}"#, "spec.listeners[0].port: not acted on yet"),
            (
                r#"{"listeners":[{"name":"a","port":9092},{"name":"b","port":9404}]}"#,
                "spec.listeners[1].port: 9404 is the broker's own",
            ),
            (
                r#"{"listeners":[{"name":"a","port":9092},{"name":"plaintext","port":9094}]}"#,
                "spec.listeners[1].name: plaintext is what",
            ),
            (
                r#"{"listeners":[{"name":"a","port":9092},{"name":"b","port":9094,"advertised":{"host":"h","port":"x{id}"}}]}"#,
                "spec.listeners[1].advertised.port: x{id} is no port",
            ),
            (r#"{"brokers":{"storage":{"volumes":[{"id":0,"size":"1Gi"}]}}}"#, "spec.brokers.storage.volumes: not"),
            (r#"{"rollout":{"strategy":"RackParallel"}}"#, "spec.rollout.strategy: RackParallel needs"),
            (r#"{"metrics":{}}"#, "spec.metrics: not acted on yet"),
            (
                r#"{"config":{"leader.replication.throttled.rate":"9"},"rebalance":{"throttleBytesPerSecond":5}}"#,
                "spec.config: leader.replication.throttled.rate: give it either here or as",
            ),
            (r#"{"rollout":{"windows":[{"cron":"* 24 * * *","duration":"1h"}]}}"#, "spec.rollout.windows[0]: 24 is"),
        ] {
            let problems = validate(&cluster(spec)).unwrap_err();
            assert!(problems.len() == 1 && problems[0].starts_with(expected), "{problems:?}");
        }
    }

    #[test]
    fn the_image_is_the_clusters_or_that_of_its_creation_in_the_release_that_it_names() {
        let image = |spec: &str| validate(&cluster(spec)).unwrap().image_of("host:5000/taffrail:1");
        assert_eq!(image("{}"), "host:5000/taffrail:1");
        assert_eq!(image(r#"{"version":"2"}"#), "host:5000/taffrail:2");
        assert_eq!(image(r#"{"version":"2","template":{"image":"mine"}}"#), "mine");
        assert_eq!(without_tag("host:5000/taffrail"), "host:5000/taffrail");
        assert_eq!(without_tag("taffrail@sha256:00"), "taffrail");
    }

    #[test]
    fn other_namespaces_may_name_the_cluster_only_where_it_allows_them() {
        let allows = |spec: &str, namespace: &str| validate(&cluster(spec)).unwrap().allows(namespace);
        assert!(allows("{}", "shop") && !allows("{}", "other"));
        assert!(allows(r#"{"allowedNamespaces":["other"]}"#, "other"));
        assert!(allows(r#"{"allowedNamespaces":["*"]}"#, "any"));
    }

    #[test]
    fn a_plan_is_agreed_to_by_the_generation_that_made_it() {
        let unapproved = |spec: &str| {
            let mut cluster = cluster(spec);
            cluster.metadata.generation = Some(7);
            validate(&cluster).unwrap().consent.unapproved
        };
        assert_eq!(unapproved("{}"), None);
        assert_eq!(unapproved(r#"{"rollout":{"approval":"Manual"}}"#), Some(7));
        for (approved, expected) in [(5, Some(7)), (6, None), (7, None), (8, Some(7))] {
            let spec = format!(r#"{{"rollout":{{"approval":"Manual","approvedGeneration":{approved}}}}}"#);
            assert_eq!(unapproved(&spec), expected, "{approved}");
        }
    }
}
