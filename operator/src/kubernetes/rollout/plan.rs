//! The next step.

use std::fmt;

use super::view::{GrantView, Health, Lagging, PodView, QuorumView, View};
use crate::crd::reasons::Reason;
use crate::kubernetes::names::{Node, Role};
use crate::kubernetes::revision::Cause;

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Nothing: everything is as it should be.
    Done,
    /// Make these pods: nothing stands in their place.
    Create(Vec<Node>),
    /// Delete a pod; another one comes in its place. No causes: it has ended by itself.
    Delete(Node, Vec<Cause>),
    /// Ask the cluster whether this broker may go.
    AskGrant(i32),
    /// Ask the cluster whether these brokers of one rack may go together; if they may not, whether the first one may.
    AskBatch(Vec<i32>),
    /// Give the grant of this number back.
    ReturnGrant(i64),
    /// Wait, for all of this.
    Wait(Vec<Block>),
}

/// A rule that says wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rule {
    /// A pod is being deleted.
    PodGoing,
    /// A pod has not become ready yet.
    PodStarting,
    /// A pod cannot run as the spec has it.
    PodBroken,
    /// It is not known who votes, or nobody is active.
    QuorumUnknown,
    /// Without this controller there would be no majority.
    QuorumAtRisk,
    /// The brokers are not known.
    MetadataUnknown,
    /// A broker is out of the cluster.
    BrokerFenced,
    /// A partition has replicas out of sync.
    UnderReplicated,
    /// A partition would have fewer replicas in sync than its minimum.
    UnderMinIsr,
    /// Somebody else holds the grant.
    GrantHeld,
    /// The grant is refused for another reason.
    GrantRefused,
    /// No window is open for why it differs.
    WindowClosed,
    /// Nobody has agreed to the plan.
    NotApproved,
}

impl Rule {
    /// Whether this is more than the time that a restart takes: somebody may want to know.
    pub const fn is_news(self) -> bool {
        !matches!(self, Self::PodGoing | Self::PodStarting | Self::WindowClosed)
    }

    /// Whether it is about what people have agreed to: nothing is under way meanwhile.
    pub const fn is_consent(self) -> bool {
        matches!(self, Self::WindowClosed | Self::NotApproved)
    }

    /// Itself as the reason of a condition.
    pub const fn reason(self) -> Reason {
        match self {
            Self::PodGoing => Reason::PodGoing,
            Self::PodStarting => Reason::PodStarting,
            Self::PodBroken => Reason::PodBroken,
            Self::QuorumUnknown => Reason::QuorumUnknown,
            Self::QuorumAtRisk => Reason::QuorumAtRisk,
            Self::MetadataUnknown => Reason::MetadataUnknown,
            Self::BrokerFenced => Reason::BrokerFenced,
            Self::UnderReplicated => Reason::UnderReplicated,
            Self::UnderMinIsr => Reason::UnderMinIsr,
            Self::GrantHeld => Reason::GrantHeld,
            Self::GrantRefused => Reason::GrantRefused,
            Self::WindowClosed => Reason::WindowClosed,
            Self::NotApproved => Reason::NotApproved,
        }
    }

    /// Its name in status, events and metrics.
    pub const fn name(self) -> &'static str {
        self.reason().name()
    }
}

/// What a step waits for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Block {
    /// Rule that says wait.
    pub rule: Rule,
    /// Node that it is about, if it is about one.
    pub node: Option<Node>,
    /// Partition that it is about, if it is about one.
    pub partition: Option<Lagging>,
    /// More, in words.
    pub detail: String,
}

impl Block {
    /// A rule about a node.
    pub fn node(rule: Rule, node: Node, detail: impl Into<String>) -> Self {
        Self { rule, node: Some(node), partition: None, detail: detail.into() }
    }

    /// A rule about the whole cluster.
    pub fn cluster(rule: Rule, detail: impl Into<String>) -> Self {
        Self { rule, node: None, partition: None, detail: detail.into() }
    }

    /// A rule about a partition.
    pub fn partition(rule: Rule, partition: Lagging) -> Self {
        let node = partition.broker.map(Node::broker);
        Self { rule, node, partition: Some(partition), detail: String::new() }
    }
}

impl fmt::Display for Block {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.rule.name())?;
        if let Some(partition) = &self.partition {
            write!(f, ": {}-{} has in sync {:?}", partition.topic, partition.partition, partition.isr)?;
            if let Some(minimum) = partition.minimum {
                write!(f, " of at least {minimum}")?;
            }
        }
        if let Some(node) = self.node {
            write!(f, ", {node}")?;
        }
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

/// A controller that is gone leaves this many others that have everything, of all voters: is that a majority?
fn keeps_majority(quorum: &QuorumView, without: i32) -> bool {
    let others = quorum.voters.iter().filter(|(id, caught_up)| **id != without && **caught_up).count();
    // A lone controller has nobody to wait for.
    quorum.voters.len() == 1 || 2 * others > quorum.voters.len()
}

/// The next step towards all wanted pods as they should be.
pub fn plan(view: &View) -> Step {
    let missing: Vec<Node> = view.wanted.iter().copied().filter(|node| !view.pods.contains_key(node)).collect();
    if !missing.is_empty() {
        return Step::Create(missing);
    }
    let pods = || view.pods.iter().filter(|(node, _)| view.wanted.contains(node));
    if let Some((node, _)) = pods().find(|(_, pod)| pod.health == Health::Ended) {
        return Step::Delete(*node, Vec::new());
    }
    // No process runs in these: whoever waits for them waits in vain, and nobody misses them more than before.
    let is_stuck = |health: &Health| matches!(health, Health::Broken(_));
    if let Some((node, pod)) = pods().find(|(_, pod)| is_stuck(&pod.health) && !pod.causes.is_empty()) {
        return Step::Delete(*node, pod.causes.clone());
    }
    if let Some(step) = return_grant(view) {
        return step;
    }
    let may_go = |node: &Node| !view.withheld.contains_key(node);
    let outdated: Vec<Node> =
        pods().filter(|(node, pod)| !pod.causes.is_empty() && may_go(node)).map(|(node, _)| *node).collect();
    let unready: Vec<Block> = pods().filter_map(|(node, pod)| unready(*node, &pod.health)).collect();
    if outdated.is_empty() && unready.is_empty() {
        let withheld: Vec<Block> = view.withheld.values().cloned().collect();
        return if withheld.is_empty() { Step::Done } else { Step::Wait(withheld) };
    }
    if let Some(step) = next_granted(view, &outdated, &unready) {
        return step;
    }
    // One at a time: whatever is away comes back first. A pod that is outdated and away itself may be replaced at once.
    let away = |node: &Node| view.pods[node].health == Health::Starting;
    let mut candidates = outdated;
    if !unready.is_empty() {
        candidates.retain(away);
        let others_ready = candidates.first().is_some_and(|node| unready.iter().all(|block| block.node == Some(*node)));
        if !others_ready {
            return Step::Wait(unready);
        }
    }
    match candidates.iter().any(|node| node.role == Role::Controller) {
        true => next_controller(view, &candidates),
        false => next_broker(view, &candidates),
    }
}

/// The next step towards no pods at all: brokers first, while there are controllers to take leave of.
pub fn plan_stop(view: &View) -> Step {
    let left = |role: Role| view.pods.iter().filter(move |(node, _)| node.role == role);
    let role = if left(Role::Broker).next().is_some() { Role::Broker } else { Role::Controller };
    let going = left(role).filter(|(_, pod)| pod.health == Health::Going);
    let going: Vec<Block> = going.map(|(node, _)| Block::node(Rule::PodGoing, *node, "")).collect();
    match left(role).find(|(_, pod)| pod.health != Health::Going) {
        Some((node, _)) => Step::Delete(*node, vec![Cause::Stop]),
        None if going.is_empty() => Step::Done,
        None => Step::Wait(going),
    }
}

fn unready(node: Node, health: &Health) -> Option<Block> {
    match health {
        Health::Ready | Health::Ended => None,
        Health::Starting => Some(Block::node(Rule::PodStarting, node, "")),
        Health::Broken(reason) => Some(Block::node(Rule::PodBroken, node, reason.clone())),
        Health::Going => Some(Block::node(Rule::PodGoing, node, "")),
    }
}

/// A grant goes back when what it was for is back.
fn return_grant(view: &View) -> Option<Step> {
    let GrantView { id, brokers } = view.grant.as_ref()?;
    let states = view.brokers.as_ref()?;
    let is_back = |id: &i32| {
        let node = Node::broker(*id);
        // What is not wanted any more is not waited for.
        !view.wanted.contains(&node)
            || (view.pods.get(&node).is_some_and(|pod| pod.health == Health::Ready && is_settled(view, node, pod))
                && states.get(id).is_some_and(|broker| broker.serves && broker.in_sync))
    };
    brokers.iter().all(is_back).then_some(Step::ReturnGrant(*id))
}

/// Whether a pod is as it should be, or stays as it is for now.
fn is_settled(view: &View, node: Node, pod: &PodView) -> bool {
    pod.causes.is_empty() || view.withheld.contains_key(&node)
}

fn next_controller(view: &View, candidates: &[Node]) -> Step {
    if let Some(grant) = &view.grant {
        // A broker is on its way back.
        return Step::Wait(waits_for_grant(view, grant));
    }
    let unknown = |detail: &str| Step::Wait(vec![Block::cluster(Rule::QuorumUnknown, detail)]);
    let Some(quorum) = &view.quorum else { return unknown("no controller answers") };
    let Some(active) = quorum.active else { return unknown("no controller is active") };
    let ids = candidates.iter().filter(|node| node.role == Role::Controller).map(|node| node.id);
    // Whoever has no vote is missed by nobody; the active one goes last.
    let mut ids: Vec<i32> = ids.collect();
    ids.sort_by_key(|id| (quorum.voters.contains_key(id), *id == active, *id));
    let Some(id) = ids.first().copied() else { return Step::Done };
    let node = Node::controller(id);
    if quorum.voters.contains_key(&id) && !keeps_majority(quorum, id) {
        let behind: Vec<String> =
            quorum.voters.iter().filter(|(_, has)| !**has).map(|(id, _)| id.to_string()).collect();
        let detail = format!("these controllers are behind or away: {}", behind.join(", "));
        return Step::Wait(vec![Block::node(Rule::QuorumAtRisk, node, detail)]);
    }
    Step::Delete(node, view.pods[&node].causes.clone())
}

fn next_broker(view: &View, candidates: &[Node]) -> Step {
    let Some(brokers) = &view.brokers else {
        return Step::Wait(vec![Block::cluster(Rule::MetadataUnknown, "no controller answers")]);
    };
    // A grant that was taken before is used before another one is asked for.
    if let Some(grant) = &view.grant {
        let granted = candidates.iter().find(|node| grant.brokers.contains(&node.id));
        return match granted {
            Some(node) => Step::Delete(*node, view.pods[node].causes.clone()),
            None => Step::Wait(waits_for_grant(view, grant)),
        };
    }
    let serves = |id: &i32| brokers.get(id).is_some_and(|broker| broker.serves);
    let wanted = || view.wanted.iter().filter(|node| node.role == Role::Broker);
    // Brokers that are out of the cluster already go first: nobody misses them.
    let mut candidates: Vec<Node> = candidates.to_vec();
    candidates.sort_by_key(|node| (serves(&node.id), node.id));
    let Some(node) = candidates.first().copied() else { return Step::Done };
    if !brokers.contains_key(&node.id) {
        // It has never been part of the cluster, so nothing depends on it.
        return Step::Delete(node, view.pods[&node].causes.clone());
    }
    let fenced: Vec<Block> = wanted()
        .filter(|other| **other != node && !serves(&other.id))
        .map(|other| Block::node(Rule::BrokerFenced, *other, ""))
        .collect();
    if !fenced.is_empty() {
        return Step::Wait(fenced);
    }
    let others_behind = view.lagging.iter().filter(|lagging| lagging.broker != Some(node.id));
    if view.needs_all_in_sync && others_behind.clone().next().is_some() {
        let blocks = others_behind.map(|lagging| Block::partition(Rule::UnderReplicated, lagging.clone()));
        return Step::Wait(blocks.collect());
    }
    match batch(view, node, &candidates) {
        batch if batch.len() > 1 => Step::AskBatch(batch),
        _ => Step::AskGrant(node.id),
    }
}

/// The brokers that may go with `node`, itself first: those of its rack, where racks go together. All of them are there, as
/// otherwise nobody but who is away is a candidate.
fn batch(view: &View, node: Node, candidates: &[Node]) -> Vec<i32> {
    let rack = |node: &Node| view.racks.get(&node.id);
    let goes_along = |other: &&Node| rack(other).is_some() && rack(other) == rack(&node) && **other != node;
    let others = candidates.iter().filter(|node| node.role == Role::Broker).filter(goes_along);
    std::iter::once(node.id).chain(others.map(|node| node.id)).collect()
}

/// The next broker of several that were granted together: of the others nobody but such is away.
fn next_granted(view: &View, outdated: &[Node], unready: &[Block]) -> Option<Step> {
    let grant = view.grant.as_ref().filter(|grant| grant.brokers.len() > 1 && view.brokers.is_some())?;
    let is_granted = |node: &Node| node.role == Role::Broker && grant.brokers.contains(&node.id);
    let is_next = |node: &&Node| is_granted(node) && view.pods[node].health == Health::Ready;
    let node = outdated.iter().find(is_next)?;
    let all_granted = unready.iter().all(|block| block.node.as_ref().is_some_and(is_granted));
    all_granted.then(|| Step::Delete(*node, view.pods[node].causes.clone()))
}

/// Brokers of the grant that are not back yet, or somebody else's.
fn waits_for_grant(view: &View, grant: &GrantView) -> Vec<Block> {
    let states = view.brokers.as_ref();
    let mut blocks: Vec<Block> = Vec::new();
    for id in &grant.brokers {
        let broker = states.and_then(|states| states.get(id)).copied().unwrap_or_default();
        if !broker.serves {
            blocks.push(Block::node(Rule::BrokerFenced, Node::broker(*id), "it was restarted and is not back yet"));
        } else if !broker.in_sync {
            let own = view.lagging.iter().filter(|lagging| lagging.broker == Some(*id));
            blocks.extend(own.map(|lagging| Block::partition(Rule::UnderReplicated, lagging.clone())));
        }
    }
    if blocks.is_empty() {
        blocks.push(Block::cluster(Rule::GrantHeld, format!("grant {} is open", grant.id)));
    }
    blocks
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};

    use super::*;
    use crate::kubernetes::rollout::{BrokerView, PodView};

    /// A cluster of three and three where all is well.
    fn well() -> View {
        let nodes: BTreeSet<Node> = (0..3).flat_map(|id| [Node::controller(id), Node::broker(id)]).collect();
        let pod = |node: &Node| (*node, PodView { health: Health::Ready, causes: Vec::new() });
        View {
            pods: nodes.iter().map(pod).collect(),
            wanted: nodes,
            quorum: Some(QuorumView { active: Some(0), voters: (0..3).map(|id| (id, true)).collect() }),
            brokers: Some((0..3).map(|id| (id, BrokerView { serves: true, in_sync: true })).collect()),
            lagging: Vec::new(),
            grant: None,
            needs_all_in_sync: true,
            withheld: BTreeMap::new(),
            racks: BTreeMap::new(),
        }
    }

    /// The same after `change`.
    fn when(change: impl FnOnce(&mut View)) -> Step {
        let mut view = well();
        change(&mut view);
        plan(&view)
    }

    fn outdated(view: &mut View, node: Node) {
        view.pods.get_mut(&node).unwrap().causes = vec![Cause::Config];
    }

    fn all_outdated(view: &mut View) {
        view.pods.values_mut().for_each(|pod| pod.causes = vec![Cause::Image]);
    }

    fn set(view: &mut View, node: Node, health: Health) {
        view.pods.get_mut(&node).unwrap().health = health;
    }

    fn fence(view: &mut View, id: i32) {
        view.brokers.as_mut().unwrap().get_mut(&id).unwrap().serves = false;
    }

    fn lag(view: &mut View, id: i32) {
        view.brokers.as_mut().unwrap().get_mut(&id).unwrap().in_sync = false;
        let isr = (0..3).filter(|other| *other != id).collect();
        view.lagging.push(Lagging { topic: "t".to_owned(), partition: 4, isr, minimum: None, broker: Some(id) });
    }

    fn grant(view: &mut View, id: i32) {
        view.grant = Some(GrantView { id: 7, brokers: [id].into() });
    }

    fn rules(step: &Step) -> Vec<Rule> {
        let Step::Wait(blocks) = step else { panic!("{step:?} waits for nothing") };
        blocks.iter().map(|block| block.rule).collect()
    }

    fn deletes(node: Node, cause: Cause) -> Step {
        Step::Delete(node, vec![cause])
    }

    #[test]
    fn where_all_is_well_nothing_is_done() {
        assert_eq!(plan(&well()), Step::Done);
    }

    #[test]
    fn pods_that_are_missing_are_made_all_at_once() {
        let missing = [Node::controller(1), Node::broker(2)];
        let step = when(|view| missing.iter().for_each(|node| drop(view.pods.remove(node))));
        assert_eq!(step, Step::Create(missing.to_vec()));
    }

    #[test]
    fn a_pod_that_has_ended_is_taken_away_whatever_else_there_is() {
        let step = when(|view| {
            all_outdated(view);
            set(view, Node::broker(1), Health::Ended);
        });
        assert_eq!(step, Step::Delete(Node::broker(1), vec![]));
    }

    #[test]
    fn controllers_come_first_and_the_active_one_last() {
        let active = |active| {
            when(|view| {
                all_outdated(view);
                view.quorum.as_mut().unwrap().active = Some(active);
            })
        };
        assert_eq!(active(0), deletes(Node::controller(1), Cause::Image));
        assert_eq!(active(1), deletes(Node::controller(0), Cause::Image));
        let last = when(|view| {
            outdated(view, Node::controller(0));
            outdated(view, Node::broker(0));
        });
        assert_eq!(last, deletes(Node::controller(0), Cause::Config));
    }

    #[test]
    fn a_controller_goes_only_while_the_others_have_everything_and_are_a_majority() {
        let with_voters = |voters: &[(i32, bool)]| {
            when(|view| {
                outdated(view, Node::controller(1));
                view.quorum.as_mut().unwrap().voters = voters.iter().copied().collect();
            })
        };
        let goes = deletes(Node::controller(1), Cause::Config);
        for (voters, may_go) in [
            (vec![(0, true), (1, true), (2, true)], true),
            (vec![(0, true), (1, false), (2, true)], true),
            (vec![(0, true), (1, true), (2, false)], false),
            (vec![(0, true), (1, true)], false),
            (vec![(1, true)], true),
            (vec![(0, true), (2, false)], true),
            (vec![(0, true), (1, true), (2, true), (3, true), (4, false)], true),
            (vec![(0, true), (1, true), (2, true), (3, false), (4, false)], false),
        ] {
            let step = with_voters(&voters);
            if may_go {
                assert_eq!(step, goes, "{voters:?}");
            } else {
                assert_eq!(rules(&step), [Rule::QuorumAtRisk], "{voters:?}");
            }
        }
        for quorum in [None, Some(QuorumView::default())] {
            let step = when(|view| {
                outdated(view, Node::controller(1));
                view.quorum = quorum;
            });
            assert_eq!(rules(&step), [Rule::QuorumUnknown]);
        }
    }

    #[test]
    fn a_broker_goes_only_with_the_clusters_grant() {
        let step = when(|view| outdated(view, Node::broker(1)));
        assert_eq!(step, Step::AskGrant(1));
        let step = when(|view| {
            outdated(view, Node::broker(1));
            outdated(view, Node::broker(2));
            grant(view, 2);
        });
        assert_eq!(step, deletes(Node::broker(2), Cause::Config), "the grant says which");
        let step = when(|view| {
            outdated(view, Node::broker(1));
            view.brokers = None;
        });
        assert_eq!(rules(&step), [Rule::MetadataUnknown]);
    }

    #[test]
    fn a_broker_that_was_never_part_of_the_cluster_needs_no_grant() {
        let step = when(|view| {
            outdated(view, Node::broker(1));
            set(view, Node::broker(1), Health::Starting);
            view.brokers.as_mut().unwrap().remove(&1);
        });
        assert_eq!(step, deletes(Node::broker(1), Cause::Config));
    }

    #[test]
    fn the_grant_goes_back_when_its_broker_is_back_and_in_sync() {
        assert_eq!(when(|view| grant(view, 1)), Step::ReturnGrant(7));
        let step = when(|view| {
            grant(view, 1);
            lag(view, 1);
            outdated(view, Node::broker(2));
        });
        let Step::Wait(blocks) = &step else { panic!("{step:?}") };
        assert_eq!(blocks[0].to_string(), "UnderReplicated: t-4 has in sync [0, 2], broker 1");
        let step = when(|view| {
            grant(view, 1);
            fence(view, 1);
            outdated(view, Node::broker(2));
        });
        assert_eq!(rules(&step), [Rule::BrokerFenced]);
        let step = when(|view| {
            grant(view, 1);
            set(view, Node::broker(1), Health::Going);
        });
        assert_eq!(rules(&step), [Rule::PodGoing]);
        let step = when(|view| {
            grant(view, 9);
            outdated(view, Node::broker(2));
        });
        assert_eq!(step, Step::ReturnGrant(7), "a broker that is not wanted any more is not waited for");
    }

    #[test]
    fn the_next_broker_waits_until_every_replica_is_in_sync_or_only_for_the_minimum() {
        let step = |needs_all_in_sync| {
            when(|view| {
                outdated(view, Node::broker(0));
                lag(view, 2);
                view.needs_all_in_sync = needs_all_in_sync;
            })
        };
        assert_eq!(rules(&step(true)), [Rule::UnderReplicated]);
        assert_eq!(step(false), Step::AskGrant(0), "the cluster itself judges");
        let own = when(|view| {
            outdated(view, Node::broker(0));
            lag(view, 0);
        });
        assert_eq!(own, Step::AskGrant(0), "a broker that lags itself is not waited for");
    }

    #[test]
    fn while_another_broker_is_out_none_goes_and_one_that_is_out_goes_first() {
        let step = when(|view| {
            outdated(view, Node::broker(0));
            fence(view, 2);
        });
        assert_eq!(rules(&step), [Rule::BrokerFenced]);
        let step = when(|view| {
            all_outdated(view);
            (0..3).for_each(|id| view.pods.get_mut(&Node::controller(id)).unwrap().causes.clear());
            fence(view, 2);
        });
        assert_eq!(step, Step::AskGrant(2));
    }

    #[test]
    fn one_pod_at_a_time_is_away() {
        for health in [Health::Starting, Health::Going, Health::Broken("ErrImagePull".to_owned())] {
            let step = when(|view| {
                outdated(view, Node::broker(0));
                set(view, Node::broker(1), health.clone());
            });
            assert!(matches!(step, Step::Wait(_)), "{health:?}");
        }
    }

    #[test]
    fn a_broken_pod_waits_for_a_better_spec_and_is_replaced_first_by_it() {
        let broken = Health::Broken("ImagePullBackOff".to_owned());
        let step = when(|view| set(view, Node::broker(1), broken.clone()));
        assert_eq!(rules(&step), [Rule::PodBroken]);
        let step = when(|view| {
            all_outdated(view);
            set(view, Node::broker(1), broken);
            lag(view, 1);
            view.quorum = None;
        });
        assert_eq!(step, deletes(Node::broker(1), Cause::Image));
    }

    #[test]
    fn a_spec_that_changes_in_the_middle_goes_straight_to_the_newest() {
        // Broker 1 has just been replaced and starts, when the spec changes again.
        let step = when(|view| {
            all_outdated(view);
            (0..3).for_each(|id| view.pods.get_mut(&Node::controller(id)).unwrap().causes.clear());
            set(view, Node::broker(1), Health::Starting);
            fence(view, 1);
            lag(view, 1);
            grant(view, 1);
        });
        assert_eq!(step, deletes(Node::broker(1), Cause::Image));
        // Now back to what the others have: nothing is left to do but to wait for it.
        let step = when(|view| {
            set(view, Node::broker(1), Health::Starting);
            grant(view, 1);
        });
        assert_eq!(rules(&step), [Rule::PodStarting]);
    }

    #[test]
    fn a_cluster_that_stops_loses_its_brokers_first() {
        let mut view = well();
        let mut deleted = Vec::new();
        while let Step::Delete(node, _) = plan_stop(&view) {
            deleted.push(node.role);
            set(&mut view, node, Health::Going);
            if deleted.len() == 3 {
                assert!(matches!(plan_stop(&view), Step::Wait(blocks) if blocks.len() == 3));
                view.pods.retain(|node, _| node.role == Role::Controller);
            }
        }
        assert_eq!(deleted, [[Role::Broker; 3], [Role::Controller; 3]].concat());
        view.pods.clear();
        assert_eq!(plan_stop(&view), Step::Done);
    }

    #[test]
    fn brokers_of_a_rack_go_together_where_the_cluster_grants_it() {
        let racked = |view: &mut View| {
            view.racks = [(0, "a"), (1, "b"), (2, "a")].map(|(id, rack)| (id, rack.to_owned())).into();
            (0..3).for_each(|id| outdated(view, Node::broker(id)));
        };
        assert_eq!(when(racked), Step::AskBatch(vec![0, 2]));
        let granted = |view: &mut View| {
            racked(view);
            view.grant = Some(GrantView { id: 4, brokers: [0, 2].into() });
        };
        assert_eq!(when(granted), deletes(Node::broker(0), Cause::Config));
        let one_away = |view: &mut View| {
            granted(view);
            set(view, Node::broker(0), Health::Going);
        };
        assert_eq!(when(one_away), deletes(Node::broker(2), Cause::Config));
        let another_away = |view: &mut View| {
            one_away(view);
            set(view, Node::broker(1), Health::Starting);
        };
        assert_eq!(rules(&when(another_away)), [Rule::PodGoing, Rule::PodStarting], "nobody granted that");
        let both_away = |view: &mut View| {
            one_away(view);
            set(view, Node::broker(2), Health::Going);
        };
        assert_eq!(rules(&when(both_away)), [Rule::PodGoing; 2]);
    }

    #[test]
    fn what_nobody_has_agreed_to_waits_and_holds_up_nothing_else() {
        let closed = |node| Block::node(Rule::WindowClosed, node, "");
        let withhold = |view: &mut View, node: Node| drop(view.withheld.insert(node, closed(node)));
        let (one, two) = (Node::broker(1), Node::broker(2));
        let withheld = |view: &mut View| {
            outdated(view, one);
            withhold(view, one);
        };
        assert_eq!(when(withheld), Step::Wait(vec![closed(one)]));
        let other_may = |view: &mut View| {
            withheld(view);
            outdated(view, two);
        };
        assert_eq!(when(other_may), Step::AskGrant(2));
        let broken = |view: &mut View| {
            withheld(view);
            set(view, one, Health::Broken("CrashLoopBackOff".to_owned()));
        };
        assert_eq!(when(broken), Step::Delete(one, vec![Cause::Config]), "nobody misses it more than before");
        let granted = |view: &mut View| {
            withheld(view);
            view.grant = Some(GrantView { id: 4, brokers: [1].into() });
        };
        assert_eq!(when(granted), Step::ReturnGrant(4), "the window closed before it went");
    }

    #[test]
    fn no_order_of_events_takes_two_brokers_down_without_the_clusters_word() {
        // All small states: each broker is ready or starting, current or outdated, serving or fenced, in sync or not.
        let mut states = Vec::new();
        for bits in 0..(1_u32 << 12) {
            let mut view = well();
            for id in 0..3 {
                let bit = |index: u32| bits & (1 << (4 * id as u32 + index)) != 0;
                if bit(0) {
                    outdated(&mut view, Node::broker(id));
                }
                if bit(1) {
                    set(&mut view, Node::broker(id), Health::Starting);
                }
                if bit(2) {
                    fence(&mut view, id);
                }
                if bit(3) {
                    lag(&mut view, id);
                }
            }
            states.push(view);
        }
        for view in states {
            let is_well = |id: i32| {
                let broker: &BTreeMap<i32, BrokerView> = view.brokers.as_ref().unwrap();
                broker[&id].serves && view.pods[&Node::broker(id)].health == Health::Ready
            };
            match plan(&view) {
                Step::Delete(node, _) => panic!("{node} is deleted without a grant: {view:?}"),
                Step::AskGrant(id) => {
                    let others = (0..3).filter(|other| *other != id);
                    assert!(others.clone().all(is_well), "another one is away: {view:?}");
                    assert!(others.clone().all(|other| view.brokers.as_ref().unwrap()[&other].in_sync), "{view:?}");
                    assert!(!view.pods[&Node::broker(id)].causes.is_empty(), "{view:?}");
                }
                _ => {}
            }
        }
    }
}
