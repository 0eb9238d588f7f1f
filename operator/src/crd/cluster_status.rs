//! What the operator reports of a Cluster.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What the operator reports of a Cluster. Never an input: what is under way is read back from where it happens.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ClusterStatus {
    /// Generation of the spec that this report is about.
    pub observed_generation: Option<i64>,
    /// Id of the cluster.
    pub cluster_id: Option<String>,
    /// Releases.
    pub version: Option<VersionStatus>,
    /// Brokers that there are.
    pub replicas: i32,
    /// Labels that select the brokers' pods.
    pub selector: Option<String>,
    /// The quorum.
    pub controllers: Option<ControllersStatus>,
    /// Each broker.
    pub brokers: Vec<BrokerStatus>,
    /// Partitions, counted.
    pub partitions: Option<PartitionCounts>,
    /// The rolling restart under way.
    pub rollout: Option<RolloutStatus>,
    /// The drain under way.
    pub drain: Option<DrainStatus>,
    /// What would be done next.
    pub plan: Vec<PlanStep>,
    /// What is in the cluster without a resource that names it.
    pub orphans: Option<Orphans>,
    /// Addresses that clients connect to.
    pub listeners: Vec<ListenerStatus>,
    /// Conditions.
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

/// Releases of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VersionStatus {
    /// The oldest that runs.
    pub current: Option<String>,
    /// The one that is wanted.
    pub target: Option<String>,
    /// The one whose formats are in use, behind which there is no way back.
    pub finalized: Option<String>,
}

/// The quorum.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ControllersStatus {
    /// Id of the leader.
    pub leader: Option<i32>,
    /// Its term.
    pub epoch: Option<i64>,
    /// Each voter.
    pub voters: Vec<VoterStatus>,
}

/// A voter.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct VoterStatus {
    /// Its id.
    pub id: i32,
    /// Entries that it is behind the leader.
    pub lag: Option<i64>,
}

/// A broker.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct BrokerStatus {
    /// Its id.
    pub id: i32,
    /// Its pod.
    pub pod: Option<String>,
    /// Its rack.
    pub rack: Option<String>,
    /// What it is doing.
    pub state: BrokerState,
    /// Partitions that it leads.
    pub leaders: i32,
    /// Replicas that it holds.
    pub replicas: i32,
    /// Replicas that are not in sync.
    pub under_replicated: i32,
}

/// What a broker is doing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum BrokerState {
    /// Serving.
    #[default]
    Running,
    /// Giving its replicas away.
    Draining,
    /// Taking no new replicas.
    Cordoned,
    /// Out of the cluster.
    Fenced,
    /// Its disk is gone.
    DiskLost,
}

/// Partitions, counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PartitionCounts {
    /// All.
    pub total: i32,
    /// Without a leader.
    pub offline: i32,
    /// With fewer in-sync replicas than replicas.
    pub under_replicated: i32,
    /// With just the minimum of in-sync replicas.
    pub at_min_isr: i32,
    /// With fewer.
    pub under_min_isr: i32,
    /// With no more replicas than the minimum.
    pub small_rf: i32,
}

/// A rolling restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RolloutStatus {
    /// Its id.
    pub id: Option<String>,
    /// Why.
    pub reasons: Vec<String>,
    /// Pods that are done.
    pub done: i32,
    /// Pods that are to come.
    pub pending: i32,
    /// Pod that is being replaced.
    pub current: Option<String>,
    /// What it waits for.
    pub blocked_by: Vec<Blocker>,
}

/// What a step waits for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Blocker {
    /// Rule that says wait.
    pub rule: String,
    /// Topic.
    pub topic: Option<String>,
    /// Partition.
    pub partition: Option<i32>,
    /// Replicas that are in sync.
    pub isr: Vec<i32>,
    /// Replicas that must be in sync.
    pub minimum: Option<i32>,
    /// Broker.
    pub broker: Option<i32>,
    /// Node.
    pub pod: Option<String>,
    /// The same in words.
    pub message: Option<String>,
    /// Since when.
    pub since: Option<Time>,
}

/// A drain.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct DrainStatus {
    /// Broker that is drained.
    pub broker: i32,
    /// Replicas that are left.
    pub remaining: i32,
    /// Bytes that are left.
    pub bytes: i64,
}

/// A step of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct PlanStep {
    /// What would be done.
    pub action: String,
    /// To what.
    pub target: String,
    /// Bytes that would move.
    pub bytes: Option<i64>,
}

/// What is in the cluster without a resource that names it. Reported, never deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct Orphans {
    /// Topics.
    pub topics: Vec<String>,
    /// Groups.
    pub groups: Vec<String>,
}

/// An address that clients connect to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerStatus {
    /// Name of the listener.
    pub name: String,
    /// What to give to clients as bootstrap.servers.
    pub bootstrap: String,
}
