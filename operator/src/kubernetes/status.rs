//! What is reported of a Cluster.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;

use super::identity::Identity;
use super::names::{KAFKA_PORT, Node, Role};
use super::observed::Observed;
use super::rollout::{Block, Health, Step, View};
use super::scale::Move;
use super::wanted::Wanted;
use crate::crd::ClusterStatus;
use crate::crd::cluster_status::{
    Blocker, BrokerState, BrokerStatus, ControllersStatus, DrainStatus, ListenerStatus, Orphans, PartitionCounts,
    PlanStep, RolloutStatus, VersionStatus, VoterStatus,
};
use crate::crd::parts::{ConditionStatus, condition};
use crate::crd::reasons::Reason;
use crate::reconcile::topic::min_in_sync;

/// Names that a report lists at most; the rest is counted by nobody but whoever asks the cluster itself.
const NAMES_MAX: usize = 100;

/// Blockers that a report lists at most.
const BLOCKERS_MAX: usize = 10;

/// What a report is made from.
pub struct Facts<'a> {
    /// What is wanted.
    pub wanted: &'a Wanted,
    /// Which cluster it is.
    pub identity: &'a Identity,
    /// Image of its pods.
    pub image_name: &'a str,
    /// What there is.
    pub observed: &'a Observed,
    /// The same as the planner saw it.
    pub view: &'a View,
    /// What the planner said.
    pub step: &'a Step,
    /// What a node does that comes or leaves.
    pub moving: Option<&'a Move>,
    /// Settings that the controllers refuse, with their words.
    pub settings_refused: Option<&'a str>,
    /// Topics without a resource.
    pub orphans: &'a [String],
    /// Where clients of the further listeners begin.
    pub listeners: &'a [ListenerStatus],
    /// Since when each blocker stands in the way.
    pub since: &'a BTreeMap<String, Time>,
    /// Now.
    pub now: &'a Time,
}

impl Facts<'_> {
    /// Whether pods are being replaced, or are to be.
    pub fn is_rolling(&self) -> bool {
        self.view.grant.is_some() || self.view.pods.values().any(|pod| !pod.causes.is_empty())
    }
}

/// The report, without regard to the one before.
pub fn status(facts: &Facts<'_>) -> ClusterStatus {
    let Facts { wanted, identity, observed, view, .. } = facts;
    let image = &observed.image;
    let brokers = brokers(facts);
    let quorum = observed.quorum.as_ref().map(|quorum| ControllersStatus {
        leader: quorum.active.as_ref().map(|active| active.id),
        epoch: i64::try_from(quorum.term).ok(),
        // How far each is behind changes all the time; whether it is, is what counts here.
        voters: quorum.voters.iter().map(|voter| VoterStatus { id: voter.voter.id, lag: None }).collect(),
    });
    let selector: Vec<String> =
        wanted.names.selector(Role::Broker).iter().map(|(name, value)| format!("{name}={value}")).collect();
    let present = view.pods.iter().filter(|(node, pod)| node.role == Role::Broker && pod.health != Health::Going);
    let bootstrap = format!("{}.{}.svc:{KAFKA_PORT}", wanted.names.bootstrap(), wanted.names.namespace);
    ClusterStatus {
        cluster_id: Some(identity.cluster_id.to_string()),
        version: Some(version(facts)),
        replicas: count(present.count()),
        selector: Some(selector.join(",")),
        controllers: quorum,
        brokers,
        partitions: image.cluster_id().is_some().then(|| partitions(image)),
        rollout: rollout(facts),
        drain: match facts.moving {
            Some(Move::Draining(broker, left) | Move::Relocate(broker, left, _)) => {
                Some(DrainStatus { broker: *broker, remaining: count(*left), bytes: 0 })
            }
            _ => None,
        },
        plan: plan(facts),
        orphans: (!facts.orphans.is_empty())
            .then(|| Orphans { topics: facts.orphans.iter().take(NAMES_MAX).cloned().collect(), groups: Vec::new() }),
        listeners: std::iter::once(ListenerStatus { name: wanted.listener.clone(), bootstrap })
            .chain(facts.listeners.iter().cloned())
            .collect(),
        conditions: conditions(facts),
        ..ClusterStatus::default()
    }
}

fn count(number: usize) -> i32 {
    i32::try_from(number).unwrap_or(i32::MAX)
}

fn version(facts: &Facts<'_>) -> VersionStatus {
    let target = tag(facts.image_name).to_owned();
    let image_of = |pod: &k8s_openapi::api::core::v1::Pod| {
        pod.spec.as_ref().and_then(|spec| spec.containers.first()?.image.clone())
    };
    let others = facts.observed.pods.values().filter_map(|pod| image_of(pod)).find(|image| *image != facts.image_name);
    let current = others.map_or_else(|| target.clone(), |image| tag(&image).to_owned());
    VersionStatus { current: Some(current), target: Some(target), finalized: None }
}

/// The tag of an image, or all of its name if it has none.
fn tag(image: &str) -> &str {
    match image.rsplit_once(':') {
        Some((_, tag)) if !tag.contains('/') => tag,
        _ => image,
    }
}

fn brokers(facts: &Facts<'_>) -> Vec<BrokerStatus> {
    let image = &facts.observed.image;
    let mut behind: BTreeMap<BrokerId, i32> = BTreeMap::new();
    for topic in image.topics().iter() {
        for (_, state) in topic.numbered().filter(|(_, state)| state.is_under_replicated()) {
            let missing = state.replicas.iter().filter(|id| !state.isr.contains(id) && !state.adding.contains(id));
            missing.for_each(|id| *behind.entry(*id).or_default() += 1);
        }
    }
    let status = |id: &BrokerId| {
        let node = Node::broker(id.0);
        let load = image.replica_index().load(*id);
        let registration = image.broker(*id);
        BrokerStatus {
            id: id.0,
            pod: facts.observed.pods.contains_key(&node).then(|| facts.wanted.names.pod(node)),
            rack: registration.and_then(|known| known.rack.as_deref().map(str::to_owned)),
            state: match (registration.is_none_or(|known| known.fenced), image.duty(*id)) {
                (true, _) => BrokerState::Fenced,
                (_, BrokerDuty::Draining) => BrokerState::Draining,
                (_, BrokerDuty::Cordoned) => BrokerState::Cordoned,
                (_, BrokerDuty::Serving) => BrokerState::Running,
            },
            leaders: count(load.leads),
            replicas: count(load.replicas),
            under_replicated: behind.get(id).copied().unwrap_or(0),
        }
    };
    image.brokers().keys().map(status).collect()
}

fn partitions(image: &MetadataImage) -> PartitionCounts {
    let mut counts = PartitionCounts::default();
    for topic in image.topics().iter() {
        let minimum = min_in_sync(image, &topic.name);
        for (_, state) in topic.numbered() {
            let minimum = state.min_in_sync(minimum);
            counts.total += 1;
            counts.offline += i32::from(!state.has_leader());
            counts.under_replicated += i32::from(state.is_under_replicated());
            let is_small = state.replicas.len() <= minimum;
            counts.small_rf += i32::from(is_small);
            counts.at_min_isr += i32::from(!is_small && state.isr.len() == minimum);
            counts.under_min_isr += i32::from(state.isr.len() < minimum);
        }
    }
    counts
}

fn rollout(facts: &Facts<'_>) -> Option<RolloutStatus> {
    let pods = || facts.view.pods.iter().filter(|(node, _)| facts.view.wanted.contains(node));
    let mut reasons: Vec<String> =
        pods().flat_map(|(_, pod)| &pod.causes).map(|cause| cause.name().to_owned()).collect();
    reasons.sort_unstable();
    reasons.dedup();
    let pending = pods().filter(|(_, pod)| !pod.causes.is_empty()).count();
    let granted = facts.view.grant.as_ref().and_then(|grant| grant.brokers.first().copied()).map(Node::broker);
    let current = match facts.step {
        Step::Delete(node, _) => Some(*node),
        Step::AskGrant(id) => Some(Node::broker(*id)),
        Step::AskBatch(ids) => ids.first().copied().map(Node::broker),
        _ => granted,
    };
    let blocked_by: Vec<Blocker> = match facts.step {
        Step::Wait(blocks) => blocks.iter().take(BLOCKERS_MAX).map(|block| blocker(block, facts.since)).collect(),
        _ => Vec::new(),
    };
    if pending == 0 && granted.is_none() && blocked_by.is_empty() {
        return None;
    }
    Some(RolloutStatus {
        id: None,
        reasons,
        done: count(pods().count() - pending),
        pending: count(pending),
        current: current.map(|node| facts.wanted.names.pod(node)),
        blocked_by,
    })
}

/// What would be done if somebody agreed, or a window were open.
fn plan(facts: &Facts<'_>) -> Vec<PlanStep> {
    let step = |node: &Node| {
        let causes = facts.view.pods.get(node).map(|pod| pod.causes.as_slice()).unwrap_or_default();
        let causes: Vec<&str> = causes.iter().map(|cause| cause.name()).collect();
        let action = format!("Replace: {}", causes.join(", "));
        PlanStep { action, target: facts.wanted.names.pod(*node), bytes: None }
    };
    facts.view.withheld.keys().take(NAMES_MAX).map(step).collect()
}

fn blocker(block: &Block, since: &BTreeMap<String, Time>) -> Blocker {
    let partition = block.partition.as_ref();
    Blocker {
        rule: block.rule.name().to_owned(),
        topic: partition.map(|partition| partition.topic.clone()),
        partition: partition.map(|partition| partition.partition),
        isr: partition.map(|partition| partition.isr.clone()).unwrap_or_default(),
        minimum: partition.and_then(|partition| partition.minimum),
        broker: block.node.filter(|node| node.role == Role::Broker).map(|node| node.id),
        pod: block.node.map(|node| format!("{}-{}", node.role.name(), node.id)),
        message: Some(block.to_string()),
        since: since.get(&block.to_string()).cloned(),
    }
}

fn conditions(facts: &Facts<'_>) -> Vec<Condition> {
    let generation = facts.wanted.generation;
    let state = |type_, holds: bool, reason: Reason, message: String| {
        condition(type_, ConditionStatus::from(holds), reason, message, generation, facts.now.clone())
    };
    let (done, reason, message) = progress(facts);
    let has_quorum = facts.observed.quorum.is_some();
    let partitions = partitions(&facts.observed.image);
    let serving = facts.observed.image.brokers().keys().filter(|id| facts.observed.image.is_active(**id)).count();
    // Those that are being restarted in turn are no trouble.
    let granted = facts.view.grant.as_ref().map_or(0, |grant| count(grant.brokers.len()));
    let (is_ready, ready_reason, ready_message) = match () {
        () if facts.wanted.stopped && *facts.step == Step::Done => {
            (true, Reason::Stopped, "the pods are gone, disks and identity stay".to_owned())
        }
        () if !has_quorum => (false, Reason::NoQuorum, "no controller is active".to_owned()),
        () if count(serving) + granted < facts.wanted.brokers => {
            (false, Reason::BrokersMissing, format!("{serving} of {} brokers serve", facts.wanted.brokers))
        }
        () if partitions.offline > 0 => {
            (false, Reason::PartitionsOffline, format!("{} partitions have no leader", partitions.offline))
        }
        () => (true, Reason::Serving, format!("{serving} brokers serve")),
    };
    let mut conditions = vec![
        state(condition::READY, is_ready, ready_reason, ready_message),
        state(condition::RECONCILING, !done, reason, message),
        state(
            condition::QUORUM_HEALTHY,
            has_quorum,
            if has_quorum { Reason::Active } else { Reason::NoneActive },
            String::new(),
        ),
    ];
    if let Some(refused) = facts.settings_refused {
        conditions.push(state(condition::STALLED, true, Reason::SettingsRefused, refused.to_owned()));
    }
    if let Some(Move::Refused(_, text)) = facts.moving {
        conditions.push(state(condition::SCALE_DOWN_BLOCKED, true, Reason::Refused, text.clone()));
    }
    if facts.wanted.paused {
        conditions.push(state(condition::PAUSED, true, Reason::Asked, "the operator keeps its hands off".to_owned()));
    }
    if let Step::Wait(blocks) = facts.step
        && let Some(first) = blocks.iter().find(|block| block.rule.is_news() && facts.is_rolling())
    {
        let more = blocks.len() - 1;
        let text = if more > 0 { format!("{first}, and {more} more") } else { first.to_string() };
        conditions.push(state(condition::ROLLOUT_BLOCKED, true, first.rule.reason(), text));
    }
    conditions
}

/// Whether there is nothing left to do, and what is being done.
fn progress(facts: &Facts<'_>) -> (bool, Reason, String) {
    match facts.step {
        Step::Done if facts.moving.is_some() => {
            let text = match facts.moving {
                Some(Move::Draining(id, left) | Move::Relocate(id, left, _)) => {
                    format!("broker {id} gives its replicas away, {left} are left")
                }
                Some(Move::Refused(node, _)) => format!("{node} cannot leave"),
                Some(Move::Rebalance(moves)) => format!("{} partitions begin to move to other brokers", moves.len()),
                Some(Move::Rebalancing(count)) => format!("{count} partitions move to other brokers"),
                _ => "nodes come or leave".to_owned(),
            };
            (false, Reason::Scaling, text)
        }
        Step::Done => (true, Reason::Done, "everything is as the spec says".to_owned()),
        Step::Create(nodes) => (false, Reason::CreatingPods, format!("{} pods are made", nodes.len())),
        Step::Delete(node, _) => (false, Reason::ReplacingPod, format!("{node} is replaced")),
        Step::AskGrant(id) => (false, Reason::AskingForGrant, format!("whether broker {id} may go is asked")),
        Step::AskBatch(ids) => (false, Reason::AskingForGrant, format!("whether brokers {ids:?} may go is asked")),
        Step::ReturnGrant(_) => (false, Reason::ReturningGrant, "the grant is given back".to_owned()),
        Step::Wait(blocks) => {
            let first = blocks.first().map(ToString::to_string).unwrap_or_default();
            (false, Reason::Waiting, first)
        }
    }
}
