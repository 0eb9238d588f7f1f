//! The ConsumerGroup.
#![allow(unreachable_pub, reason = "KubeSchema makes a private twin of each type, with the same visibility")]
#![allow(clippy::duplicated_attributes, reason = "each printed column is an attribute of its own")]

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::parts::{ClusterRef, DeletionPolicy, Management};

/// A consumer group of a cluster.
#[derive(CustomResource, KubeSchema, Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[kube(
    group = "taffrail.dev",
    version = "v1alpha1",
    kind = "ConsumerGroup",
    plural = "consumergroups",
    namespaced,
    shortname = "tfg",
    category = "taffrail",
    status = "ConsumerGroupStatus",
    derive = "Default",
    derive = "PartialEq",
    doc = "A consumer group of a Taffrail cluster.",
    printcolumn(name = "Group", type_ = "string", json_path = ".spec.groupId"),
    printcolumn(name = "State", type_ = "string", json_path = ".status.state"),
    printcolumn(name = "Members", type_ = "integer", json_path = ".status.members"),
    printcolumn(name = "Lag", type_ = "integer", json_path = ".status.totalLag"),
    printcolumn(name = "MaxLag", type_ = "integer", json_path = ".status.maxLag"),
    printcolumn(name = "Ready", type_ = "string", json_path = ".status.conditions[?(@.type=='Ready')].status"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp")
)]
#[x_kube(
    validation = Rule::new("has(self.groupId) == has(oldSelf.groupId)").message("groupId cannot be changed"),
    validation = Rule::new("!has(self.reset) || !has(oldSelf.reset) || self.reset == oldSelf.reset || self.reset.requestId != oldSelf.reset.requestId")
        .message("another reset needs another requestId"),
    validation = Rule::new("!has(self.initialOffsets) || (has(self.topics) && size(self.topics) > 0)")
        .message("initialOffsets needs topics: a group that was never used has none"),
    validation = Rule::new("!has(self.initialOffsets) || self.management == 'Managed'")
        .message("initialOffsets needs management: Managed"),
    validation = Rule::new("!has(self.groupConfig)").message("settings of a group: not yet").field_path(".groupConfig"),
)]
#[serde(rename_all = "camelCase")]
pub struct ConsumerGroupSpec {
    /// The cluster that it belongs to.
    #[x_kube(validation = Rule::new("self == oldSelf").message("clusterRef cannot be changed"))]
    pub cluster_ref: ClusterRef,
    /// Name of the group; the resource's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 249))]
    #[x_kube(validation = Rule::new("self == oldSelf").message("groupId cannot be changed"))]
    pub group_id: Option<String>,
    /// Topics that are reported, reset and initialised; all of the group's if empty.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 1000))]
    pub topics: Vec<String>,
    /// Whether offsets are set, or the group is only watched.
    #[serde(default = "observe")]
    pub management: Management,
    /// A one-time change of the group's offsets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reset: Option<Reset>,
    /// Where the group starts: set once, and only if it has no members and has committed nothing of the topics yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_offsets: Option<InitialOffsets>,
    /// Topics that take what the group cannot process; what lies there is reported.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub dead_letter: Option<DeadLetter>,
    /// When lag is worth a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lag: Option<LagObjective>,
    /// Limits of session and heartbeat.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group_config: Option<GroupConfig>,
    /// What happens to the group when this resource is deleted.
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
}

fn observe() -> Management {
    Management::Observe
}

/// A one-time change of a group's offsets.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(
    validation = Rule::new("(self.to == 'Timestamp') == has(self.timestamp)").message("to: Timestamp needs timestamp, and only it does"),
    validation = Rule::new("(self.to == 'Offset') == has(self.offset)").message("to: Offset needs offset, and only it does"),
    validation = Rule::new("(self.to == 'ShiftBy') == has(self.shiftBy)").message("to: ShiftBy needs shiftBy, and only it does"),
    validation = Rule::new("!has(self.ifActive) || self.ifActive != 'Park' || has(self.workloadRef)").message("ifActive: Park needs workloadRef"),
)]
#[serde(rename_all = "camelCase")]
pub struct Reset {
    /// Any text; another one asks again.
    #[schemars(length(min = 1, max = 64))]
    pub request_id: String,
    /// Where to.
    pub to: ResetTo,
    /// Time to go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
    /// Offset to go to.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0))]
    pub offset: Option<i64>,
    /// Records to go forward, or back.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub shift_by: Option<i64>,
    /// Partitions by topic; all if absent.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub partitions: BTreeMap<String, Vec<i32>>,
    /// Whether it is only worked out and reported.
    #[serde(default)]
    pub dry_run: bool,
    /// What to do while the group has members.
    #[serde(default)]
    pub if_active: IfActive,
    /// Workload that is scaled to nothing for the time of the reset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workload_ref: Option<WorkloadRef>,
}

/// Where offsets go.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum ResetTo {
    /// To the first record that there is.
    Earliest,
    /// To the end.
    #[default]
    Latest,
    /// To the first record of a time or later.
    Timestamp,
    /// To an offset.
    Offset,
    /// By a number of records.
    ShiftBy,
}

/// What a reset does while the group has members.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum IfActive {
    /// It waits and says so.
    #[default]
    Refuse,
    /// It scales the workload to nothing, resets, and scales it back.
    Park,
}

/// A workload of the same namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkloadRef {
    /// Its API version.
    #[schemars(length(min = 1, max = 128))]
    pub api_version: String,
    /// Its kind, such as Deployment.
    #[schemars(length(min = 1, max = 63))]
    pub kind: String,
    /// Its name.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
}

/// Where a group starts before its first use.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("(self.from == 'Timestamp') == has(self.timestamp)").message("from: Timestamp needs timestamp, and only it does"))]
#[serde(rename_all = "camelCase")]
pub struct InitialOffsets {
    /// From where.
    pub from: InitialFrom,
    /// From which time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub timestamp: Option<Time>,
}

/// Where a new group starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum InitialFrom {
    /// At the first record that there is.
    Earliest,
    /// At the end.
    #[default]
    Latest,
    /// At the first record of a time or later.
    Timestamp,
}

/// Topics that take what a group cannot process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct DeadLetter {
    /// Their names.
    #[schemars(length(min = 1, max = 64))]
    pub topics: Vec<String>,
}

/// When lag is worth a warning.
#[derive(KubeSchema, Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[x_kube(validation = Rule::new("!has(self.warn) || !has(self.critical) || self.warn <= self.critical").message("lag.warn must be at or under lag.critical"))]
#[serde(rename_all = "camelCase")]
pub struct LagObjective {
    /// Records behind that are worth a warning.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub warn: Option<i64>,
    /// Records behind that are worth a call.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1))]
    pub critical: Option<i64>,
    /// How long it must last, such as `5m`.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 2, max = 16), regex(pattern = "^([0-9]+h)?([0-9]+m)?([0-9]+s)?$"))]
    pub window: Option<String>,
}

/// Limits of session and heartbeat.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct GroupConfig {
    /// Silence after which a member is out.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1000, max = 1800000))]
    pub session_timeout_ms: Option<i32>,
    /// Time between heartbeats.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 100, max = 600000))]
    pub heartbeat_interval_ms: Option<i32>,
}

/// What the operator reports of a ConsumerGroup.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ConsumerGroupStatus {
    /// Generation of the spec that this report is about.
    pub observed_generation: Option<i64>,
    /// State, in Kafka's words.
    pub state: Option<String>,
    /// Protocol, in Kafka's words.
    pub protocol: Option<String>,
    /// Broker that coordinates it.
    pub coordinator: Option<i32>,
    /// Members that it has.
    pub members: Option<i32>,
    /// Records behind, over all partitions.
    pub total_lag: Option<i64>,
    /// Records behind in the worst partition.
    pub max_lag: Option<i64>,
    /// Age of the oldest record that is not consumed.
    pub lag_seconds: Option<i64>,
    /// The worst topics.
    #[schemars(length(max = 50))]
    pub topics: Vec<TopicLag>,
    /// What lies in the dead-letter topics.
    #[schemars(length(max = 64))]
    pub dead_letters: Vec<DeadLetterTopic>,
    /// The last change of offsets.
    pub last_reset: Option<LastReset>,
    /// Conditions.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Lag of a topic.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct TopicLag {
    /// The topic.
    pub topic: String,
    /// Records behind.
    pub lag: i64,
}

/// What lies in a topic that takes what a group cannot process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DeadLetterTopic {
    /// The topic.
    pub topic: String,
    /// Whether there is one.
    pub exists: bool,
    /// Records in it, as its partitions' first and last offsets have it.
    pub records: Option<i64>,
    /// Age of the oldest one.
    pub oldest_seconds: Option<i64>,
}

/// A change of offsets.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct LastReset {
    /// The request.
    pub request_id: String,
    /// How far it got.
    pub state: String,
    /// Offsets before, by `topic-partition`.
    pub before: BTreeMap<String, i64>,
    /// Offsets after, by `topic-partition`.
    pub after: BTreeMap<String, i64>,
}
