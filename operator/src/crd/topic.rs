//! The Topic.
#![allow(unreachable_pub, reason = "KubeSchema makes a private twin of each type, with the same visibility")]
#![allow(clippy::duplicated_attributes, reason = "each printed column is an attribute of its own")]

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::{ClusterRef, DeletionPolicy, Management};
use super::settings::TopicSettings;

/// A topic of a cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "taffrail.dev",
    version = "v1alpha1",
    kind = "Topic",
    namespaced,
    shortname = "tft",
    category = "taffrail",
    status = "TopicStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A topic of a Taffrail cluster.",
    printcolumn(name = "Cluster", type_ = "string", json_path = ".spec.clusterRef.name"),
    printcolumn(name = "Partitions", type_ = "integer", json_path = ".status.partitions"),
    printcolumn(name = "RF", type_ = "integer", json_path = ".status.replicas"),
    printcolumn(name = "ISR", type_ = "integer", json_path = ".status.minIsrMargin"),
    printcolumn(name = "Offline", type_ = "integer", json_path = ".status.offline"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("has(self.topicName) == has(oldSelf.topicName)").message("topicName cannot be changed"),
    validation = Rule::new("!has(self.replicas) || !has(self.config) || !has(self.config.min__dot__insync__dot__replicas) || int(self.config.min__dot__insync__dot__replicas) <= self.replicas")
        .message("replicas must be at or over config['min.insync.replicas']"),
)]
#[serde(rename_all = "camelCase")]
pub struct TopicSpec {
    /// The cluster that it belongs to.
    #[x_kube(validation = Rule::new("self == oldSelf").message("clusterRef cannot be changed"))]
    pub cluster_ref: ClusterRef,
    /// Name of the topic; the resource's own if absent. Kafka takes more names than Kubernetes does.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 249), regex(pattern = "^[a-zA-Z0-9._-]+$"))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("topicName cannot be changed"))]
    #[x_kube(validation = Rule::new("!(self in ['.', '..'])").message("topicName cannot be . or .."))]
    pub topic_name: Option<String>,
    /// How many partitions; never fewer than before.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    #[x_kube(validation = Rule::new("self >= oldSelf").message("partitions cannot be taken away"))]
    #[x_kube(validation = Rule::new("self <= 10000").message("more than the 10000 partitions that one request may create"))]
    pub partitions: Option<i32>,
    /// How many replicas each has.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 32))]
    pub replicas: Option<i32>,
    /// Settings of the topic, under Kafka's topic names.
    #[serde(default, skip_serializing_if = "TopicSettings::is_empty")]
    pub config: TopicSettings,
    /// Whether the topic is made and kept so, or only watched.
    #[serde(default)]
    pub management: Management,
    /// What happens when somebody changes the topic behind this resource's back.
    #[serde(default)]
    pub drift_policy: DriftPolicy,
    /// What happens to the topic when this resource is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    /// When the topic is deleted by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delete_deadline: Option<Time>,
    /// Whether partitions may be added to a compacted topic, although keys then land elsewhere.
    #[serde(default)]
    pub allow_keyed_expansion: bool,
    /// Which brokers hold which partition, of all partitions; the controllers choose if absent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 10000))]
    pub assignment: Vec<Assignment>,
}

/// Brokers that hold a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Assignment {
    /// The partition.
    #[schemars(range(min = 0))]
    pub partition: i32,
    /// Its brokers, first the preferred leader.
    #[schemars(length(min = 1, max = 32))]
    pub brokers: Vec<i32>,
}

/// What happens when a topic differs from its resource.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum DriftPolicy {
    /// It is set right.
    #[default]
    Correct,
    /// It is reported.
    Report,
}

/// What the operator reports of a Topic.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicStatus {
    /// Generation of the spec that this report is about.
    pub observed_generation: Option<i64>,
    /// Id of the topic: another life of the name has another one.
    pub topic_id: Option<String>,
    /// Partitions that there are.
    pub partitions: Option<i32>,
    /// Replicas that each has.
    pub replicas: Option<i32>,
    /// In-sync replicas that the worst partition has over its minimum.
    pub min_isr_margin: Option<i32>,
    /// Partitions that nobody can use.
    pub offline: Option<i32>,
    /// Partitions without a leader.
    pub leaderless: Option<i32>,
    /// The worst partitions.
    #[schemars(length(max = 50))]
    pub per_partition: Vec<PartitionStatus>,
    /// A move of replicas that is under way.
    pub reassignment: Option<Reassignment>,
    /// How the topic differs from the spec.
    #[schemars(length(max = 50))]
    pub drift: Vec<Drift>,
    /// Conditions.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// State of a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PartitionStatus {
    /// The partition.
    pub partition: i32,
    /// Its leader.
    pub leader: Option<i32>,
    /// Brokers that hold it.
    pub replicas: Vec<i32>,
    /// Those of them that are in sync.
    pub isr: Vec<i32>,
}

/// A move of replicas.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Reassignment {
    /// Partitions that have moved.
    pub moved: i32,
    /// Partitions that move.
    pub total: i32,
    /// Bytes that are left.
    pub bytes: i64,
}

/// One difference between a topic and its resource.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Drift {
    /// Field that differs, such as `partitions` or `config[retention.ms]`.
    pub field: String,
    /// What the resource says.
    pub want: Option<String>,
    /// What the topic has.
    pub have: Option<String>,
}
