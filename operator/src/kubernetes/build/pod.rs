//! Pods: one process each, under the restricted standard.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{
    Affinity, Capabilities, ConfigMapKeySelector, Container, ContainerPort, DownwardAPIVolumeFile,
    DownwardAPIVolumeSource, EmptyDirVolumeSource, EnvVar, EnvVarSource, HTTPGetAction, LocalObjectReference,
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, ObjectFieldSelector,
    PersistentVolumeClaimVolumeSource, Pod, PodAffinityTerm, PodAntiAffinity, PodSecurityContext, PodSpec, Probe,
    SeccompProfile, SecretVolumeSource, SecurityContext, TopologySpreadConstraint, Volume, VolumeMount,
    WeightedPodAffinityTerm,
};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::owned;
use crate::kubernetes::identity::{BOOTSTRAP, CLUSTER_ID, CONTROLLERS, Identity};
use crate::kubernetes::listeners::{FLAG, HOST_IP};
use crate::kubernetes::names::{
    CONTROLLER_PORT, CONTROLLERS_MAX, ID_LABEL, KAFKA_PORT, METRICS_PORT, Node, RACK_ANNOTATION, Role,
};
use crate::kubernetes::revision::{Revision, zone};
use crate::kubernetes::wanted::{LEADER_DRAIN_SECONDS, Wanted};

/// The user that the image runs as, who owns the disks too.
const USER: i64 = 65_532;

/// Where a node's disk is.
const DATA: &str = "/var/lib/taffrail";

/// Where a broker is told the rack of its Kubernetes node.
const PLACE: &str = "/etc/taffrail/place";

/// File there that has it.
const RACK: &str = "rack";

/// Where the shared secret is.
const TRUST: &str = "/etc/taffrail/trust";

/// How long a pod may take to stop, in seconds, beside the time in which leadership moves away: everything is written to
/// the disk.
const GRACE_SECONDS: i64 = 55;

/// The same for the process itself, with time left for Kubernetes.
const STOP_TIMEOUT_MS: i64 = 45_000;

/// Label of Kubernetes nodes that names their zone.
const ZONE_KEY: &str = "topology.kubernetes.io/zone";

/// Label of Kubernetes nodes that names them.
const HOST_KEY: &str = "kubernetes.io/hostname";

/// A node's pod, with `image`, whose broker is told this of its further listeners.
pub fn pod(wanted: &Wanted, identity: &Identity, node: Node, (image, told): (&str, &[String])) -> Pod {
    let names = &wanted.names;
    let mut labels = wanted.template.labels.clone();
    labels.extend(names.role_labels(node.role));
    labels.insert(ID_LABEL.to_owned(), node.id.to_string());
    let mut annotations = wanted.template.annotations.clone();
    Revision::of(wanted, node, image).write(&mut labels, &mut annotations);
    let mut metadata = owned(wanted, names.pod(node), labels);
    metadata.annotations = Some(annotations);
    let template = &wanted.template;
    let secrets = template.image_pull_secrets.iter().map(|name| LocalObjectReference { name: name.clone() });
    Pod {
        metadata,
        spec: Some(PodSpec {
            hostname: Some(names.pod(node)),
            subdomain: Some(names.headless(node.role)),
            service_account_name: Some(names.account()),
            automount_service_account_token: Some(false),
            enable_service_links: Some(false),
            termination_grace_period_seconds: Some(GRACE_SECONDS + wanted.leader_drain_seconds),
            security_context: Some(pod_security()),
            containers: vec![container(wanted, identity, node, (image, told))],
            volumes: Some(volumes(wanted, node)),
            affinity: Some(affinity(wanted, node)),
            topology_spread_constraints: Some(vec![spread(wanted, node)]),
            node_selector: Some(template.node_selector.clone()).filter(|selector| !selector.is_empty()),
            tolerations: Some(template.tolerations.clone()).filter(|tolerations| !tolerations.is_empty()),
            priority_class_name: template.priority_class_name.clone(),
            image_pull_secrets: Some(secrets.collect()),
            ..PodSpec::default()
        }),
        status: None,
    }
}

fn container(wanted: &Wanted, identity: &Identity, node: Node, (image, told): (&str, &[String])) -> Container {
    let (mut ports, resources) = match node.role {
        Role::Broker => (vec![("kafka", KAFKA_PORT)], &wanted.broker_resources),
        Role::Controller => (vec![("grpc", CONTROLLER_PORT)], &wanted.controller_resources),
    };
    ports.push(("metrics", METRICS_PORT));
    let port = |(name, port): (&str, u16)| ContainerPort {
        name: Some(name.to_owned()),
        container_port: i32::from(port),
        protocol: Some("TCP".to_owned()),
        ..ContainerPort::default()
    };
    Container {
        name: "taffrail".to_owned(),
        image: Some(image.to_owned()),
        image_pull_policy: Some("IfNotPresent".to_owned()),
        args: Some(args(wanted, identity, node, told)),
        env: Some(environment(wanted, node.role)),
        ports: Some(ports.into_iter().map(port).collect()),
        resources: resources.clone(),
        liveness_probe: Some(probe("/healthz", 10, 6)),
        readiness_probe: Some(probe("/readyz", 2, 3)),
        security_context: Some(container_security()),
        volume_mounts: Some(mounts(wanted, node)),
        ..Container::default()
    }
}

/// What the process is started with. Everything that a node is told stands in its own pod: no ConfigMap that changes can
/// reach a pod before its turn.
fn args(wanted: &Wanted, identity: &Identity, node: Node, told: &[String]) -> Vec<String> {
    let names = &wanted.names;
    let own_port = if node.role == Role::Broker { KAFKA_PORT } else { CONTROLLER_PORT };
    let mut args: Vec<String> = vec![node.role.name().to_owned()];
    let mut give = |flag: &str, value: String| args.extend([flag.to_owned(), value]);
    give("--node-id", node.id.to_string());
    give("--listen", format!("0.0.0.0:{own_port}"));
    give("--advertise", format!("{}:{own_port}", names.host(node)));
    give("--metrics", format!("0.0.0.0:{METRICS_PORT}"));
    give("--data-dir", DATA.to_owned());
    give("--cluster-secret-file", format!("{TRUST}/{}", super::TRUST_KEY));
    if node.role == Role::Broker {
        // All that there can ever be, so that another number of controllers restarts no broker.
        let controllers: Vec<String> = (0..CONTROLLERS_MAX).map(|id| names.controller_address(id)).collect();
        give("--controllers", controllers.join(","));
        give("--cluster-id", identity.cluster_id.to_string());
        if let Some(zone) = zone(wanted, node.id) {
            give("--rack", zone.clone());
        }
        if reads_rack(wanted, node) {
            give("--rack-file", format!("{PLACE}/{RACK}"));
        }
        told.iter().for_each(|listener| give(FLAG, listener.clone()));
    }
    let replicas = wanted.default_replicas().to_string();
    let leave_timeout_ms = wanted.leader_drain_seconds * 1000;
    let mut settings = BTreeMap::from([
        ("stop_timeout_ms".to_owned(), (STOP_TIMEOUT_MS + leave_timeout_ms).to_string()),
        ("default.replication.factor".to_owned(), replicas),
    ]);
    if wanted.leader_drain_seconds != LEADER_DRAIN_SECONDS {
        settings.insert("leave_timeout_ms".to_owned(), leave_timeout_ms.to_string());
    }
    settings.extend(wanted.settings.at_start.clone());
    for (name, value) in settings {
        give("--set", format!("{name}={value}"));
    }
    args
}

/// What is read anew whenever a container starts: of a controller, whether it may found the cluster, and with whom; of a broker,
/// which machine it is on.
fn environment(wanted: &Wanted, role: Role) -> Vec<EnvVar> {
    let from_identity = |name: &str, key: &str| EnvVar {
        name: name.to_owned(),
        value_from: Some(EnvVarSource {
            config_map_key_ref: Some(ConfigMapKeySelector {
                name: wanted.names.identity(),
                key: key.to_owned(),
                optional: Some(false),
            }),
            ..EnvVarSource::default()
        }),
        ..EnvVar::default()
    };
    match role {
        // A pod that has none by such a listener is not made otherwise because of it.
        Role::Broker if wanted.listeners.is_empty() => Vec::new(),
        Role::Broker => {
            let field =
                ObjectFieldSelector { field_path: "status.hostIP".to_owned(), ..ObjectFieldSelector::default() };
            let source = EnvVarSource { field_ref: Some(field), ..EnvVarSource::default() };
            vec![EnvVar { name: HOST_IP.to_owned(), value_from: Some(source), ..EnvVar::default() }]
        }
        Role::Controller => vec![
            from_identity("TAFFRAIL_CONTROLLERS", CONTROLLERS),
            from_identity("TAFFRAIL_CLUSTER_ID", CLUSTER_ID),
            from_identity("TAFFRAIL_BOOTSTRAP", BOOTSTRAP),
        ],
    }
}

/// Liveness asks whether the process answers at all; recovery, quorum and disk are no reason to kill it, so there is no
/// deadline for the start.
fn probe(path: &str, period_seconds: i32, failures: i32) -> Probe {
    Probe {
        http_get: Some(HTTPGetAction {
            path: Some(path.to_owned()),
            port: IntOrString::Int(i32::from(METRICS_PORT)),
            ..HTTPGetAction::default()
        }),
        period_seconds: Some(period_seconds),
        timeout_seconds: Some(5),
        failure_threshold: Some(failures),
        ..Probe::default()
    }
}

fn mount(name: &str, path: &str, read_only: bool) -> VolumeMount {
    VolumeMount {
        name: name.to_owned(),
        mount_path: path.to_owned(),
        read_only: Some(read_only),
        ..VolumeMount::default()
    }
}

/// Whether a node is told its rack when it is known on which machine it is.
fn reads_rack(wanted: &Wanted, node: Node) -> bool {
    node.role == Role::Broker && wanted.topology_key.is_some()
}

fn mounts(wanted: &Wanted, node: Node) -> Vec<VolumeMount> {
    let mut mounts = vec![mount("data", DATA, false), mount("trust", TRUST, true), mount("tmp", "/tmp", false)];
    mounts.extend(reads_rack(wanted, node).then(|| mount("place", PLACE, true)));
    mounts
}

/// The pod's own annotation as a file, which follows it.
fn rack_file() -> DownwardAPIVolumeSource {
    let field_path = format!("metadata.annotations['{RACK_ANNOTATION}']");
    let file = DownwardAPIVolumeFile {
        path: RACK.to_owned(),
        field_ref: Some(ObjectFieldSelector { field_path, ..ObjectFieldSelector::default() }),
        ..DownwardAPIVolumeFile::default()
    };
    DownwardAPIVolumeSource { items: Some(vec![file]), ..DownwardAPIVolumeSource::default() }
}

fn volumes(wanted: &Wanted, node: Node) -> Vec<Volume> {
    let named = |name: &str| Volume { name: name.to_owned(), ..Volume::default() };
    let claim = PersistentVolumeClaimVolumeSource { claim_name: wanted.names.claim(node), ..Default::default() };
    let trust = SecretVolumeSource {
        secret_name: Some(wanted.names.trust()),
        // Readable by the group that owns the disks.
        default_mode: Some(0o440),
        ..SecretVolumeSource::default()
    };
    let scratch = EmptyDirVolumeSource { size_limit: Some(Quantity("64Mi".to_owned())), ..Default::default() };
    let mut volumes = vec![
        Volume { persistent_volume_claim: Some(claim), ..named("data") },
        Volume { secret: Some(trust), ..named("trust") },
        Volume { empty_dir: Some(scratch), ..named("tmp") },
    ];
    volumes.extend(reads_rack(wanted, node).then(|| Volume { downward_api: Some(rack_file()), ..named("place") }));
    volumes
}

fn pod_security() -> PodSecurityContext {
    PodSecurityContext {
        run_as_non_root: Some(true),
        run_as_user: Some(USER),
        run_as_group: Some(USER),
        fs_group: Some(USER),
        fs_group_change_policy: Some("OnRootMismatch".to_owned()),
        seccomp_profile: Some(SeccompProfile { type_: "RuntimeDefault".to_owned(), ..SeccompProfile::default() }),
        ..PodSecurityContext::default()
    }
}

fn container_security() -> SecurityContext {
    SecurityContext {
        allow_privilege_escalation: Some(false),
        read_only_root_filesystem: Some(true),
        capabilities: Some(Capabilities { drop: Some(vec!["ALL".to_owned()]), ..Capabilities::default() }),
        ..SecurityContext::default()
    }
}

/// The template's affinity, with the zone that a broker is pinned to; without one of its own, nodes of a role like to be on
/// different machines.
fn affinity(wanted: &Wanted, node: Node) -> Affinity {
    let mut affinity = wanted.template.affinity.clone().unwrap_or_default();
    if affinity.pod_anti_affinity.is_none() {
        let apart = WeightedPodAffinityTerm {
            weight: 100,
            pod_affinity_term: PodAffinityTerm {
                label_selector: Some(same_role(wanted, node)),
                topology_key: HOST_KEY.to_owned(),
                ..PodAffinityTerm::default()
            },
        };
        affinity.pod_anti_affinity = Some(PodAntiAffinity {
            preferred_during_scheduling_ignored_during_execution: Some(vec![apart]),
            ..PodAntiAffinity::default()
        });
    }
    if let Some(zone) = (node.role == Role::Broker).then(|| zone(wanted, node.id)).flatten() {
        let pinned = NodeSelectorRequirement {
            key: ZONE_KEY.to_owned(),
            operator: "In".to_owned(),
            values: Some(vec![zone.clone()]),
        };
        let own = affinity.node_affinity.get_or_insert_with(NodeAffinity::default);
        let required =
            own.required_during_scheduling_ignored_during_execution.get_or_insert_with(NodeSelector::default);
        if required.node_selector_terms.is_empty() {
            required.node_selector_terms.push(NodeSelectorTerm::default());
        }
        // Terms are alternatives, so each of them has to have it.
        for term in &mut required.node_selector_terms {
            term.match_expressions.get_or_insert_with(Vec::new).push(pinned.clone());
        }
    }
    affinity
}

fn spread(wanted: &Wanted, node: Node) -> TopologySpreadConstraint {
    TopologySpreadConstraint {
        max_skew: 1,
        topology_key: wanted.topology_key.clone().unwrap_or_else(|| ZONE_KEY.to_owned()),
        when_unsatisfiable: "ScheduleAnyway".to_owned(),
        label_selector: Some(same_role(wanted, node)),
        ..TopologySpreadConstraint::default()
    }
}

fn same_role(wanted: &Wanted, node: Node) -> LabelSelector {
    LabelSelector { match_labels: Some(wanted.names.selector(node.role)), ..LabelSelector::default() }
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::Uuid;

    use super::*;
    use crate::crd::Cluster;
    use crate::kubernetes::wanted;

    fn built(spec: &str, node: Node) -> (Pod, PodSpec, Container) {
        let mut cluster = Cluster::new("log", serde_json::from_str(spec).unwrap());
        cluster.metadata.namespace = Some("shop".to_owned());
        let wanted = wanted::validate(&cluster).unwrap();
        let pod = pod(
            &wanted,
            &Identity::new(Uuid([7; 16]), "image:1", 3, "uid"),
            node,
            ("image:1", &["EXT=0.0.0.0:9094,a:1".to_owned()]),
        );
        let spec = pod.spec.clone().unwrap();
        let container = spec.containers[0].clone();
        (pod, spec, container)
    }

    #[test]
    fn pods_pass_the_restricted_standard() {
        for node in [Node::broker(0), Node::controller(0)] {
            let (_, spec, container) = built("{}", node);
            let security = spec.security_context.unwrap();
            assert_eq!(security.run_as_non_root, Some(true));
            assert_eq!(security.seccomp_profile.unwrap().type_, "RuntimeDefault");
            let security = container.security_context.unwrap();
            assert_eq!(security.allow_privilege_escalation, Some(false));
            assert_eq!(security.read_only_root_filesystem, Some(true));
            assert_eq!(security.capabilities.unwrap().drop.unwrap(), ["ALL"]);
            assert_eq!(spec.automount_service_account_token, Some(false));
        }
    }

    #[test]
    fn a_broker_is_told_who_it_is_and_which_controllers_there_can_be() {
        let (_, _, container) = built(r#"{"brokers":{"replicas":2,"rack":{"zones":["a","b"]}}}"#, Node::broker(3));
        let args = container.args.unwrap().join(" ");
        for expected in [
            "broker --node-id 3 --listen 0.0.0.0:9092 --advertise log-broker-3.log-brokers.shop.svc:9092",
            "log-controller-4.log-controllers.shop.svc:9093",
            "--rack b",
            "--set default.replication.factor=2",
            "--set stop_timeout_ms=50000",
            "--listener EXT=0.0.0.0:9094,a:1",
        ] {
            assert!(args.contains(expected), "{expected} in {args}");
        }
        assert_eq!(container.env.unwrap(), []);
    }

    #[test]
    fn a_broker_whose_rack_is_that_of_its_node_is_told_by_a_file() {
        let spec = r#"{"brokers":{"rack":{"topologyKey":"rack"}}}"#;
        let (_, pod, container) = built(spec, Node::broker(1));
        let args = container.args.unwrap().join(" ");
        assert!(args.contains("--rack-file /etc/taffrail/place/rack") && !args.contains("--rack "), "{args}");
        let volumes = pod.volumes.unwrap();
        let file = &volumes[3].downward_api.as_ref().unwrap().items.as_ref().unwrap()[0];
        assert_eq!(file.field_ref.as_ref().unwrap().field_path, "metadata.annotations['taffrail.dev/rack']");
        assert_eq!(pod.topology_spread_constraints.unwrap()[0].topology_key, "rack");
        let (_, pod, container) = built(spec, Node::controller(1));
        assert_eq!((pod.volumes.unwrap().len(), container.volume_mounts.unwrap().len()), (3, 3));
    }

    #[test]
    fn leaders_have_as_long_to_move_away_as_the_cluster_says() {
        for (spec, grace, told) in [
            ("{}", 60, "--set stop_timeout_ms=50000"),
            (
                r#"{"rollout":{"leaderDrainSeconds":30}}"#,
                85,
                "--set leave_timeout_ms=30000 --set stop_timeout_ms=75000",
            ),
        ] {
            let (_, pod, container) = built(spec, Node::broker(0));
            assert_eq!(pod.termination_grace_period_seconds, Some(grace));
            let args = container.args.unwrap().join(" ");
            assert!(args.contains(told) && (grace > 60 || !args.contains("leave_timeout")), "{args}");
        }
    }

    #[test]
    fn a_controllers_pod_is_the_same_before_and_after_the_founding() {
        let (_, _, container) = built("{}", Node::controller(1));
        let args = container.args.unwrap();
        assert!(!args.iter().any(|arg| arg == "--controllers" || arg == "--bootstrap"), "{args:?}");
        let names: Vec<String> = container.env.unwrap().into_iter().map(|variable| variable.name).collect();
        assert_eq!(names, ["TAFFRAIL_CONTROLLERS", "TAFFRAIL_CLUSTER_ID", "TAFFRAIL_BOOTSTRAP"]);
    }

    #[test]
    fn labels_that_services_select_by_cannot_be_taken_away_by_the_template() {
        let spec = r#"{"template":{"labels":{"taffrail.dev/cluster":"x","team":"a"},"image":"mine:2"}}"#;
        let (pod, _, _) = built(spec, Node::broker(0));
        let labels = pod.metadata.labels.unwrap();
        assert_eq!((labels["taffrail.dev/cluster"].as_str(), labels["team"].as_str()), ("log", "a"));
    }

    #[test]
    fn each_alternative_of_an_affinity_is_pinned_to_the_zone() {
        let term = r#"{"matchExpressions":[{"key":"disk","operator":"Exists"}]}"#;
        let affinity = format!(
            r#"{{"nodeAffinity":{{"requiredDuringSchedulingIgnoredDuringExecution":{{"nodeSelectorTerms":[{term},{term}]}}}}}}"#
        );
        let spec = format!(r#"{{"brokers":{{"rack":{{"zones":["a"]}}}},"template":{{"affinity":{affinity}}}}}"#);
        let (_, spec, _) = built(&spec, Node::broker(0));
        let required = spec.affinity.unwrap().node_affinity.unwrap();
        let terms = required.required_during_scheduling_ignored_during_execution.unwrap().node_selector_terms;
        assert_eq!(terms.len(), 2);
        assert!(terms.iter().all(|term| term.match_expressions.as_ref().unwrap().len() == 2));
    }
}
