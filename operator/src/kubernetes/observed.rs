//! What there is of a Cluster: its pods, and what the controllers know.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{Quorum, QuorumMember};

use super::listeners::Told;
use super::names::{Node, RACK_ANNOTATION, Role};
use super::revision::{Cause, Revision, zone};
use super::rollout::{BrokerView, GrantView, Lagging, PodView, QuorumView, View, health};
use super::wanted::Wanted;
use crate::crd::cluster::{RolloutGate, RolloutStrategy};
use crate::reconcile::topic::min_in_sync;

/// Partitions out of sync that are looked at one by one.
const LAGGING_MAX: usize = 50;

/// A controller that had everything so long ago still counts as one that has.
const CAUGHT_UP_WITHIN_MS: i64 = 3_000;

/// What there is.
#[derive(Clone, Debug, Default)]
pub struct Observed {
    /// Pods by their nodes.
    pub pods: BTreeMap<Node, Arc<Pod>>,
    /// The metadata as they have come.
    pub image: Arc<MetadataImage>,
    /// Whether they are those of now.
    pub is_current: bool,
    /// The quorum, if the active controller answers.
    pub quorum: Option<Quorum>,
    /// Unix time of all this.
    pub now_ms: i64,
}

/// What the planner looks at: `wanted` nodes of them, each with the revision that it is to have.
pub fn view(
    wanted: &Wanted,
    nodes: &BTreeSet<Node>,
    image_name: &str,
    observed: &Observed,
    told: impl Fn(Node) -> Told,
) -> View {
    let pod = |(node, pod): (&Node, &Arc<Pod>)| {
        let mut causes = Revision::read(pod).causes(&Revision::of(wanted, *node, image_name));
        if node.role == Role::Broker && told(*node).differs(pod) {
            causes.push(Cause::Listeners);
        }
        (*node, PodView { health: health(pod), causes })
    };
    let pods: BTreeMap<Node, PodView> = observed.pods.iter().map(pod).collect();
    let withheld =
        |(node, pod): (&Node, &PodView)| Some((*node, wanted.consent.withheld(*node, &pod.causes, observed.now_ms)?));
    let image = &observed.image;
    let grant = image.grant().filter(|grant| grant.is_open(observed.now_ms));
    View {
        wanted: nodes.clone(),
        withheld: pods.iter().filter(|(node, _)| nodes.contains(node)).filter_map(withheld).collect(),
        pods,
        quorum: observed.quorum.as_ref().map(|quorum| quorum_view(quorum, observed.now_ms)),
        brokers: observed.is_current.then(|| brokers(image)),
        lagging: lagging(image),
        grant: grant.map(|grant| GrantView { id: grant.id, brokers: grant.brokers.iter().map(|id| id.0).collect() }),
        racks: racks(wanted, nodes, &observed.pods),
        needs_all_in_sync: wanted.rollout.gate == RolloutGate::InSync,
    }
}

/// The racks of brokers, where those of one may go together.
fn racks(wanted: &Wanted, nodes: &BTreeSet<Node>, pods: &BTreeMap<Node, Arc<Pod>>) -> BTreeMap<i32, String> {
    let brokers = nodes.iter().filter(|node| node.role == Role::Broker);
    let brokers = brokers.filter(|_| wanted.rollout.strategy == RolloutStrategy::RackParallel);
    let told = |node: &Node| pods.get(node)?.annotations().get(RACK_ANNOTATION).cloned();
    brokers.filter_map(|node| Some((node.id, zone(wanted, node.id).cloned().or_else(|| told(node))?))).collect()
}

fn quorum_view(quorum: &Quorum, now_ms: i64) -> QuorumView {
    let active = quorum.active.as_ref().map(|active| active.id);
    let has_all = |member: &QuorumMember| {
        Some(member.voter.id) == active
            || member.last_caught_up_ms.is_some_and(|at| now_ms.saturating_sub(at) <= CAUGHT_UP_WITHIN_MS)
    };
    QuorumView { active, voters: quorum.voters.iter().map(|voter| (voter.voter.id, has_all(voter))).collect() }
}

/// Each registered broker: whether it serves, and whether everything that it keeps is in sync.
fn brokers(image: &MetadataImage) -> BTreeMap<i32, BrokerView> {
    let mut behind: BTreeSet<BrokerId> = BTreeSet::new();
    for topic in image.topics().iter() {
        for (_, state) in topic.numbered().filter(|(_, state)| state.is_under_replicated()) {
            behind.extend(state.replicas.iter().filter(|id| !state.isr.contains(id) && !state.adding.contains(id)));
        }
    }
    let view = |id: &BrokerId| BrokerView { serves: image.may_lead(*id), in_sync: !behind.contains(id) };
    image.brokers().keys().map(|id| (id.0, view(id))).collect()
}

/// The first partitions with replicas out of sync, one line for each such replica.
pub fn lagging(image: &MetadataImage) -> Vec<Lagging> {
    let mut found = Vec::new();
    for topic in image.topics().iter() {
        for (partition, state) in topic.numbered().filter(|(_, state)| state.is_under_replicated()) {
            let behind = state.replicas.iter().filter(|id| !state.isr.contains(id) && !state.adding.contains(id));
            for broker in behind {
                if found.len() >= LAGGING_MAX {
                    return found;
                }
                found.push(Lagging {
                    topic: topic.name.to_string(),
                    partition,
                    isr: state.isr.iter().map(|id| id.0).collect(),
                    minimum: i32::try_from(state.min_in_sync(min_in_sync(image, &topic.name))).ok(),
                    broker: Some(broker.0),
                });
            }
        }
    }
    found
}

/// Where a pod listens on `port`, once it has an address.
pub fn place(pod: &Pod, port: u16) -> Option<String> {
    let address = pod.status.as_ref()?.pod_ip.as_ref()?;
    Some(if address.contains(':') { format!("[{address}]:{port}") } else { format!("{address}:{port}") })
}

/// The ids of nodes that there are: pods, voters and registered brokers.
pub fn present(observed: &Observed, role: Role) -> BTreeSet<i32> {
    let mut ids: BTreeSet<i32> = observed.pods.keys().filter(|node| node.role == role).map(|node| node.id).collect();
    match role {
        Role::Broker => ids.extend(observed.image.brokers().keys().map(|id| id.0)),
        Role::Controller => {
            ids.extend(observed.quorum.iter().flat_map(|quorum| &quorum.voters).map(|voter| voter.voter.id));
        }
    }
    ids
}
