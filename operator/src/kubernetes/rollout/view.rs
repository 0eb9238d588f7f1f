//! What the planner looks at.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ContainerStatus, Pod, PodStatus};

use super::plan::Block;
use crate::kubernetes::names::Node;
use crate::kubernetes::revision::Cause;

/// Why a container is not running and will not be before somebody does something: reasons of Kubernetes.
const BROKEN: [&str; 9] = [
    "CrashLoopBackOff",
    "ImagePullBackOff",
    "ErrImagePull",
    "ErrImageNeverPull",
    "InvalidImageName",
    "ImageInspectError",
    "CreateContainerConfigError",
    "CreateContainerError",
    "RunContainerError",
];

/// How a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Health {
    /// It serves.
    Ready,
    /// Its process runs, or is about to; it may recover what is on its disk.
    Starting,
    /// No process runs in it, and none will by itself: why, in Kubernetes' word.
    Broken(String),
    /// It has ended for good.
    Ended,
    /// It is being deleted.
    Going,
}

/// A pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PodView {
    /// How it is.
    pub health: Health,
    /// Why it has to be replaced; empty if it need not be.
    pub causes: Vec<Cause>,
}

/// The quorum.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuorumView {
    /// Who is active.
    pub active: Option<i32>,
    /// Each voter, and whether it has, or had a moment ago, all that the active one has.
    pub voters: BTreeMap<i32, bool>,
}

/// A broker as the metadata have it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BrokerView {
    /// Whether it may lead: it is registered, and neither fenced nor about to stop.
    pub serves: bool,
    /// Whether it is in sync in all partitions that it keeps.
    pub in_sync: bool,
}

/// A partition that keeps brokers from being taken down.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lagging {
    /// Its topic.
    pub topic: String,
    /// Its number.
    pub partition: i32,
    /// Who is in sync.
    pub isr: Vec<i32>,
    /// How many must be.
    pub minimum: Option<i32>,
    /// Who is behind.
    pub broker: Option<i32>,
}

/// The grant that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantView {
    /// Its number.
    pub id: i64,
    /// Brokers that it names.
    pub brokers: BTreeSet<i32>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct View {
    /// Nodes that there are to be.
    pub wanted: BTreeSet<Node>,
    /// Pods that there are.
    pub pods: BTreeMap<Node, PodView>,
    /// The quorum; `None` = it cannot be told.
    pub quorum: Option<QuorumView>,
    /// Brokers; `None` = the metadata are not known, or not those of now.
    pub brokers: Option<BTreeMap<i32, BrokerView>>,
    /// Partitions with replicas out of sync.
    pub lagging: Vec<Lagging>,
    /// The grant that is open.
    pub grant: Option<GrantView>,
    /// The racks of brokers, where those of one may go together.
    pub racks: BTreeMap<i32, String>,
    /// Pods that are to be replaced and may not be yet, with what keeps them.
    pub withheld: BTreeMap<Node, Block>,
    /// Whether every replica has to be in sync before the next broker goes, not just enough of them.
    pub needs_all_in_sync: bool,
}

/// How a pod is.
pub fn health(pod: &Pod) -> Health {
    if pod.metadata.deletion_timestamp.is_some() {
        return Health::Going;
    }
    let Some(status) = &pod.status else { return Health::Starting };
    if matches!(status.phase.as_deref(), Some("Failed" | "Succeeded")) {
        return Health::Ended;
    }
    let condition = |type_: &str| status.conditions.iter().flatten().find(|found| found.type_ == type_);
    if condition("Ready").is_some_and(|ready| ready.status == "True") {
        return Health::Ready;
    }
    let unscheduled = condition("PodScheduled").filter(|scheduled| scheduled.status == "False");
    if let Some(reason) = unscheduled.and_then(|scheduled| scheduled.reason.clone()) {
        return Health::Broken(reason);
    }
    waiting(status).map_or(Health::Starting, |reason| Health::Broken(reason.to_owned()))
}

fn waiting(status: &PodStatus) -> Option<&str> {
    let reason = |container: &'_ ContainerStatus| -> Option<String> {
        container.state.as_ref()?.waiting.as_ref()?.reason.clone()
    };
    let reasons: Vec<String> = status.container_statuses.iter().flatten().filter_map(reason).collect();
    BROKEN.into_iter().find(|broken| reasons.iter().any(|reason| reason == broken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pods_health_is_read_from_what_kubernetes_says() {
        let broken = |reason: &str| Health::Broken(reason.to_owned());
        for (pod, expected) in [
            (r#"{}"#, Health::Starting),
            (r#"{"metadata":{"deletionTimestamp":"2026-01-01T00:00:00Z"}}"#, Health::Going),
            (r#"{"status":{"phase":"Failed"}}"#, Health::Ended),
            (r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"True"}]}}"#, Health::Ready),
            (r#"{"status":{"phase":"Running","conditions":[{"type":"Ready","status":"False"}]}}"#, Health::Starting),
            (
                r#"{"status":{"phase":"Pending","conditions":[{"type":"PodScheduled","status":"False","reason":"Unschedulable"}]}}"#,
                broken("Unschedulable"),
            ),
            (
                r#"{"status":{"containerStatuses":[{"name":"taffrail","ready":false,"restartCount":3,"image":"a","imageID":"b",
                    "state":{"waiting":{"reason":"CrashLoopBackOff"}}}]}}"#,
                broken("CrashLoopBackOff"),
            ),
            (
                r#"{"status":{"containerStatuses":[{"name":"taffrail","ready":false,"restartCount":0,"image":"a","imageID":"b",
                    "state":{"waiting":{"reason":"ContainerCreating"}}}]}}"#,
                Health::Starting,
            ),
        ] {
            assert_eq!(health(&serde_json::from_str(pod).unwrap()), expected, "{pod}");
        }
    }
}
