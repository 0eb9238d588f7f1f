//! The Cluster: brokers and controllers that belong together.
#![allow(unreachable_pub, reason = "KubeSchema makes a private twin of each type, with the same visibility")]
#![allow(clippy::duplicated_attributes, reason = "each printed column is an attribute of its own")]

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Affinity, ResourceRequirements, Toleration};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::cluster_status::ClusterStatus;
use super::quantities;
use super::settings::ClusterSettings;

/// A cluster of brokers and its controllers.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "taffrail.dev",
    version = "v1alpha1",
    kind = "Cluster",
    namespaced,
    shortname = "tfc",
    category = "taffrail",
    status = "ClusterStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A cluster of Taffrail brokers and its controllers.",
    scale(
        spec_replicas_path = ".spec.brokers.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Brokers", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "URP", type_ = "integer", json_path = ".status.partitions.underReplicated"),
    printcolumn(name = "Offline", type_ = "integer", json_path = ".status.partitions.offline"),
    printcolumn(name = "Version", type_ = "string", json_path = ".status.version.current"),
    printcolumn(name = "Rolling", type_ = "string", json_path = ".status.rollout.current"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("!has(self.config) || !has(self.config.default__dot__replication__dot__factor) || !has(self.config.min__dot__insync__dot__replicas) || int(self.config.min__dot__insync__dot__replicas) <= int(self.config.default__dot__replication__dot__factor)")
        .message("config['default.replication.factor'] must be at or over config['min.insync.replicas']"),
    validation = Rule::new("!has(self.listeners) || !has(self.brokers) || !has(self.brokers.replicas) || self.brokers.replicas < 2 || self.listeners.all(one, !has(one.advertised) || !has(one.advertised.host) || one.advertised.host.contains('{id}') || (has(one.advertised.port) && one.advertised.port.contains('{id}')))")
        .message("listeners[].advertised needs {id} in host or port, as each broker has an address of its own"),
    validation = Rule::new("!has(self.rollout) || !has(self.rollout.strategy) || self.rollout.strategy != 'RackParallel' || (has(self.brokers) && has(self.brokers.rack))")
        .message("rollout.strategy: RackParallel needs brokers.rack"),
    validation = Rule::new("!has(self.metrics)").message("metrics: not yet").field_path(".metrics"),
)]
#[serde(rename_all = "camelCase")]
pub struct ClusterSpec {
    /// Release of Taffrail that the brokers and controllers run; the operator's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub version: Option<String>,
    /// The quorum that keeps the metadata.
    #[serde(default)]
    pub controllers: Controllers,
    /// The nodes that keep the partitions.
    #[serde(default)]
    pub brokers: Brokers,
    /// Addresses that clients connect to.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
    #[x_kube(validation = Rule::new("self.all(one, self.exists_one(other, other.port == one.port))").message("two listeners cannot have the same port"))]
    #[x_kube(validation = Rule::new("size(self) == 0 || (self[0].port == 9092 && (!has(self[0].type) || self[0].type == 'Internal') && !has(self[0].advertised))").message("by the first listener brokers reach each other: port 9092, type Internal, nothing advertised"))]
    pub listeners: Vec<Listener>,
    /// Settings of all brokers, under Kafka's broker names.
    #[serde(default, skip_serializing_if = "ClusterSettings::is_empty")]
    pub config: ClusterSettings,
    /// How pods are replaced when something changes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rollout: Option<Rollout>,
    /// How brokers are taken away.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scale_down: Option<ScaleDown>,
    /// How partitions spread over new brokers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rebalance: Option<Rebalance>,
    /// Whether the cluster runs or sleeps; its data and identity stay.
    #[serde(default)]
    pub lifecycle: Lifecycle,
    /// Whether the operator keeps its hands off.
    #[serde(default)]
    pub paused: bool,
    /// Whether the cluster runs on when this resource is deleted; a new one of the same name adopts it.
    #[serde(default)]
    pub deletion_protection: bool,
    /// Namespaces whose Topics and ConsumerGroups may name this cluster; its own always may. `*` = all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 256), extend("x-kubernetes-list-type" = "set"))]
    pub allowed_namespaces: Vec<String>,
    /// The budget that keeps node drains from taking too many brokers.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pdb: Option<Pdb>,
    /// The policies that keep strangers away from controllers, where the network enforces them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub network_policy: Option<NetworkPolicy>,
    /// What is measured, and how finely.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metrics: Option<Metrics>,
    /// What the pods look like besides.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template: Option<Template>,
}

/// The quorum that keeps the metadata.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Controllers {
    /// Voters: one, three or five.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[x_kube(validation = Rule::new("self in [1, 3, 5]").message("controllers.replicas must be 1, 3 or 5"))]
    pub replicas: Option<i32>,
    /// Disk of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Processor and memory of each.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "quantities::read")]
    pub resources: Option<ResourceRequirements>,
}

/// The nodes that keep the partitions.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Brokers {
    /// How many.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: Option<i32>,
    /// Ids of brokers to drain and take away, wherever they are in the order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "set"))]
    pub remove: Vec<i32>,
    /// Brokers to build anew on an empty disk.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub replace: Vec<Replace>,
    /// Disks of each.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub storage: Option<Storage>,
    /// Processor and memory of each.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "quantities::read")]
    pub resources: Option<ResourceRequirements>,
    /// How brokers spread over zones.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rack: Option<Rack>,
}

/// A broker to build anew on an empty disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Replace {
    /// Its id.
    #[schemars(range(min = 0))]
    pub id: i32,
    /// Any text; another one asks again.
    #[schemars(length(min = 1, max = 64))]
    pub nonce: String,
}

/// Disks of a node.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Storage {
    /// Size of the disk, when there is one.
    #[serde(default, skip_serializing_if = "Option::is_none", deserialize_with = "quantities::read")]
    #[x_kube(validation = Rule::new("isQuantity(string(self))").message("not a quantity such as 10Gi"))]
    #[x_kube(validation = Rule::new("!isQuantity(string(self)) || !quantity(string(self)).isLessThan(quantity('64Mi'))").message("a disk of less than 64Mi holds no log"))]
    #[x_kube(validation = Rule::new("quantity(string(self)).compareTo(quantity(string(oldSelf))) >= 0").message("storage cannot shrink"))]
    pub size: Option<Quantity>,
    /// Storage class; the namespace's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub class: Option<String>,
    /// What happens to the disk when its node goes.
    #[serde(default)]
    pub reclaim: Reclaim,
    /// Several disks instead of one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(validation = Rule::new("size(self) == 0").message("several volumes a broker: not yet"))]
    #[schemars(length(max = 16), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["id"]))]
    pub volumes: Vec<Volume>,
}

/// One of several disks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Volume {
    /// Number of the disk within its node; never changes.
    #[schemars(range(min = 0, max = 15))]
    pub id: i32,
    /// Its size.
    #[serde(deserialize_with = "quantities::read")]
    pub size: Quantity,
    /// Storage class; the namespace's default if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub class: Option<String>,
}

/// What happens to a disk when its node goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Reclaim {
    /// It stays.
    #[default]
    Retain,
    /// It is deleted, once the node is drained.
    Delete,
}

/// How brokers spread over zones: by a list, which needs no rights, or by a node label, which needs a ClusterRole.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("has(self.zones) != has(self.topologyKey)").message("give either rack.zones or rack.topologyKey"))]
#[serde(rename_all = "camelCase")]
pub struct Rack {
    /// Zones; each broker is pinned to one of them in turn.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 64))]
    pub zones: Option<Vec<String>>,
    /// Node label that names the zone.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 317))]
    pub topology_key: Option<String>,
}

/// An address that clients connect to.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("!has(self.auth)").message("authentication: not yet").field_path(".auth"))]
#[serde(rename_all = "camelCase")]
pub struct Listener {
    /// Its name, as brokers call it.
    #[schemars(length(min = 1, max = 25), regex(pattern = "^[a-z0-9]+$"))]
    pub name: String,
    /// Port that the broker listens on.
    #[schemars(range(min = 1, max = 65535))]
    pub port: i32,
    /// How it is reached.
    #[serde(rename = "type", default)]
    pub type_: ListenerType,
    /// Whether TLS is spoken.
    #[serde(default)]
    #[x_kube(validation = Rule::new("!self").message("TLS: not yet"))]
    pub tls: bool,
    /// How clients prove who they are.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<ListenerAuth>,
    /// What clients are told, with `{id}` for the broker's id; the listener's own address if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub advertised: Option<Advertised>,
}

/// How a listener is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ListenerType {
    /// From within the Kubernetes cluster.
    #[default]
    Internal,
    /// By a port of every node.
    NodePort,
    /// By a load balancer for each broker.
    LoadBalancer,
}

/// How clients of a listener prove who they are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ListenerAuth {
    /// By a TLS certificate.
    Tls,
    /// By SASL SCRAM-SHA-512.
    ScramSha512,
}

/// Templates of what clients are told.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Advertised {
    /// Host, with `{id}` for the broker's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new("!(self in ['0.0.0.0', '::', '[::]'])").message("nobody can connect to an address that stands for all"))]
    pub host: Option<String>,
    /// Port, with `{id}` for the broker's id.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub port: Option<String>,
}

/// How pods are replaced when something changes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rollout {
    /// How many at a time.
    #[serde(default)]
    pub strategy: RolloutStrategy,
    /// What must hold before the next one.
    #[serde(default)]
    pub gate: RolloutGate,
    /// How long leaders may take to move away when a broker stops, before it goes without; 5 if absent. A pod takes another
    /// value up when it starts; none is restarted for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 540))]
    pub leader_drain_seconds: Option<i32>,
    /// What to do about partitions whose replicas are no more than their minimum.
    #[serde(default)]
    pub small_rf_policy: SmallRfPolicy,
    /// When disruption is allowed; always if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 32))]
    pub windows: Vec<Window>,
    /// Whether somebody has to agree first.
    #[serde(default)]
    pub approval: Approval,
    /// Generation of this resource whose plan somebody has agreed to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub approved_generation: Option<i64>,
    /// Any text; another one asks for a rolling restart.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 64))]
    pub restart_nonce: Option<String>,
}

/// How many pods are replaced at a time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutStrategy {
    /// One broker.
    #[default]
    OneByOne,
    /// All brokers of a rack that can go together.
    RackParallel,
}

/// What must hold before the next pod is replaced.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum RolloutGate {
    /// Every replica is in sync.
    #[default]
    InSync,
    /// Every partition keeps its minimum of in-sync replicas.
    MinIsr,
}

/// What to do about partitions whose replicas are no more than their minimum.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum SmallRfPolicy {
    /// Go on silently.
    Allow,
    /// Go on and list them.
    #[default]
    Warn,
    /// Wait.
    Refuse,
}

/// When disruption is allowed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Window {
    /// When it opens, as five fields of cron in UTC.
    #[schemars(length(min = 9, max = 128))]
    pub cron: String,
    /// How long it stays open, such as `2h30m`.
    #[schemars(length(min = 2, max = 16), regex(pattern = "^([0-9]+h)?([0-9]+m)?$"))]
    pub duration: String,
    /// For which reasons; all if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub reasons: Vec<Reason>,
}

/// Why pods are replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Reason {
    /// A certificate runs out.
    Certificate,
    /// Another release of Taffrail.
    Version,
    /// A setting that needs a restart.
    Config,
    /// A newer operator writes pods otherwise.
    OperatorUpgrade,
    /// Partitions move.
    Rebalance,
    /// Somebody asked.
    Restart,
}

/// Whether somebody has to agree to a plan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Approval {
    /// No.
    #[default]
    Automatic,
    /// Yes, by `approvedGeneration`.
    Manual,
}

/// How brokers are taken away.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ScaleDown {
    /// Whether their replicas are moved away first, or a broker with replicas is not taken away.
    #[serde(default)]
    pub policy: ScaleDownPolicy,
    /// Bytes a second that moving may take of each broker, while brokers are drained; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub throttle_bytes_per_second: Option<i64>,
    /// Partitions that move at the same time; 50 if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 10000))]
    pub max_moves: Option<i32>,
}

/// What happens to a broker that is to go and has replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ScaleDownPolicy {
    /// Its replicas move away first.
    #[default]
    Drain,
    /// It does not go.
    Refuse,
}

/// How partitions spread over new brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rebalance {
    /// Whether replicas move to a new broker.
    #[serde(default)]
    pub on_scale_up: bool,
    /// Bytes a second that moving may take of each broker, whatever moves while no broker is drained; no limit if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub throttle_bytes_per_second: Option<i64>,
}

/// Whether the cluster runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Lifecycle {
    /// It runs.
    #[default]
    Running,
    /// Its pods are gone; disks and identity stay.
    Stopped,
}

/// The budget that keeps node drains from taking too many brokers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Pdb {
    /// Whether none is written.
    #[serde(default)]
    pub disabled: bool,
}

/// The policies that keep strangers away from controllers.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NetworkPolicy {
    /// Whether none is written.
    #[serde(default)]
    pub disabled: bool,
}

/// What is measured, and how finely.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Metrics {
    /// Whether each partition has its series.
    #[serde(default)]
    pub granularity: Granularity,
    /// Series that one process may expose.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 1000000))]
    pub max_series: Option<i32>,
    /// Whether a PodMonitor is written.
    #[serde(default)]
    pub pod_monitor: bool,
}

/// How finely is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Granularity {
    /// By partition until the budget of series is reached, then the worst ones and sums.
    #[default]
    Auto,
    /// By partition.
    Partition,
    /// By topic.
    Topic,
}

/// What pods look like besides.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Template {
    /// Labels of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Annotations of the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub annotations: BTreeMap<String, String>,
    /// Image; the operator's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 1024))]
    pub image: Option<String>,
    /// Secrets to pull the image with.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16))]
    pub image_pull_secrets: Vec<String>,
    /// Labels that a Kubernetes node must have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods bear.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub tolerations: Vec<Toleration>,
    /// Where pods like to be.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub affinity: Option<Affinity>,
    /// Priority of the pods.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    pub priority_class_name: Option<String>,
}
