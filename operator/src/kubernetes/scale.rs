//! Which nodes there are to be, and how the others leave.
//!
//! Brokers that leave give their replicas away first; only when the metadata say that nothing is left on them does their
//! pod go, then their registration, then the disk if it is not to be kept. Controllers come and go by votes, one at a time.
//! As in [`super::rollout`], what is under way is read back from where it happens: duties, replicas and votes are in the
//! metadata, and a spec that changed back turns a drain around.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_core::control::Reassignment;
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::{Quorum, VoterChange, VoterId};

use super::names::Node;
use super::relocate;
use super::rollout::{Health, QuorumView};

/// Topics that a refusal names at most.
const NAMED_MAX: usize = 5;

/// Ids of a role: those that are to be, and those that leave, in the order in which they go.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ids {
    /// Those that are to be.
    pub stay: BTreeSet<i32>,
    /// Those that leave, first the one that goes first.
    pub leave: Vec<i32>,
}

/// The brokers that are to be: those that are there and are not asked to go, then the lowest free ids; the highest leave.
pub fn broker_ids(present: &BTreeSet<i32>, count: i32, remove: &[i32]) -> Ids {
    let count = usize::try_from(count).unwrap_or(0);
    let staying = present.iter().copied().filter(|id| !remove.contains(id));
    let mut stay: BTreeSet<i32> = staying.take(count).collect();
    let free = (0..).filter(|id| !present.contains(id) && !remove.contains(id));
    stay.extend(free.take(count - stay.len()));
    let leave = present.iter().rev().copied().filter(|id| !stay.contains(id)).collect();
    Ids { stay, leave }
}

/// The controllers that are to be: the lowest ids.
pub fn controller_ids(present: &BTreeSet<i32>, count: i32) -> Ids {
    let leave = present.iter().rev().copied().filter(|id| *id >= count).collect();
    Ids { stay: (0..count).collect(), leave }
}

/// What to do about nodes that come or leave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Move {
    /// Use a broker so from now on.
    SetDuty(i32, BrokerDuty),
    /// A broker is being drained: so many replicas are left on it.
    Draining(i32, usize),
    /// The same, and these begin to move.
    Relocate(i32, usize, Vec<Reassignment>),
    /// Delete the pod of a node that nothing depends on any more.
    DeletePod(Node),
    /// A node that is gone is forgotten by the cluster.
    Unregister(i32),
    /// Change who votes.
    ChangeVoters(VoterChange),
    /// The disk of a node that is gone is of no use any more.
    DeleteClaim(Node),
    /// Move replicas to brokers that have less than their share.
    Rebalance(Vec<Reassignment>),
    /// So many partitions move.
    Rebalancing(usize),
    /// A node cannot leave: why, in words.
    Refused(Node, String),
}

/// What brokers do that leave, or do not leave any more.
pub struct Leaving<'a> {
    /// Who stays and who leaves.
    pub ids: &'a Ids,
    /// The metadata as they are now.
    pub image: &'a MetadataImage,
    /// Pods that there are.
    pub pods: &'a BTreeSet<Node>,
    /// Disks that there are, and are to go with their nodes.
    pub disks: &'a BTreeSet<Node>,
    /// Whether brokers that hold replicas are drained; otherwise they do not leave.
    pub drains: bool,
    /// Partitions that may move at the same time; the controllers' own number if absent.
    pub moves_max: Option<usize>,
}

/// The next move of brokers; `None` = nobody leaves.
pub fn brokers(leaving: &Leaving<'_>) -> Option<Move> {
    let Leaving { ids, image, .. } = leaving;
    let stays_after_all = ids.stay.iter().find(|id| image.duty(BrokerId(**id)) != BrokerDuty::Serving);
    if let Some(id) = stays_after_all.filter(|id| image.broker(BrokerId(**id)).is_some()) {
        return Some(Move::SetDuty(*id, BrokerDuty::Serving));
    }
    let first = ids.leave.first().copied()?;
    let holds = |id: i32| image.replica_index().hosted_by(BrokerId(id)).count();
    if ids.leave.iter().any(|id| holds(*id) > 0)
        && let Some(refusal) = refusal(leaving)
    {
        return Some(Move::Refused(Node::broker(first), refusal));
    }
    // All that will leave get nothing new; one at a time gives away what it has. Of one that drains the controllers move
    // as many partitions as they see fit.
    let counted = leaving.moves_max.is_some();
    for (index, id) in ids.leave.iter().enumerate() {
        let wanted = if index == 0 && !counted { BrokerDuty::Draining } else { BrokerDuty::Cordoned };
        let present = image.duty(BrokerId(*id));
        let is_right = present == wanted || (present == BrokerDuty::Draining && !counted);
        if image.broker(BrokerId(*id)).is_some() && !is_right {
            return Some(Move::SetDuty(*id, wanted));
        }
    }
    let node = Node::broker(first);
    match holds(first) {
        0 if leaving.pods.contains(&node) => Some(Move::DeletePod(node)),
        0 if image.broker(BrokerId(first)).is_some() => Some(Move::Unregister(first)),
        0 => leaving.disks.contains(&node).then_some(Move::DeleteClaim(node)),
        left => {
            let moves = leaving.moves_max.map(|max| relocate::next(image, first, &ids.stay, max)).unwrap_or_default();
            Some(if moves.is_empty() { Move::Draining(first, left) } else { Move::Relocate(first, left, moves) })
        }
    }
}

/// Why brokers that hold replicas cannot leave.
fn refusal(leaving: &Leaving<'_>) -> Option<String> {
    let Leaving { ids, image, .. } = leaving;
    let leaves = |id: &BrokerId| ids.leave.contains(&id.0);
    let mut held: Vec<String> = Vec::new();
    for topic in image.topics().iter() {
        let replicas = topic.numbered().map(|(_, state)| state.replicas_after().len()).max().unwrap_or(0);
        if replicas > ids.stay.len() {
            held.push(format!("{} has {replicas} replicas", topic.name));
        }
    }
    if !held.is_empty() {
        held.truncate(NAMED_MAX);
        return Some(format!("there would be {} brokers, and {}", ids.stay.len(), held.join(", ")));
    }
    if leaving.drains {
        return None;
    }
    for topic in image.topics().iter() {
        let on = topic.numbered().filter(|(_, state)| state.replicas.iter().any(leaves));
        held.extend(on.map(|(partition, _)| format!("{}-{partition}", topic.name)));
    }
    let count = held.len();
    held.truncate(NAMED_MAX);
    let more = if count > held.len() { format!(" and {} more", count - held.len()) } else { String::new() };
    Some(format!("scaleDown.policy is Refuse, and they hold {}{more}", held.join(", ")))
}

/// What controllers do that come or leave.
pub struct Voting<'a> {
    /// Who stays and who leaves.
    pub ids: &'a Ids,
    /// The quorum as the active controller sees it.
    pub quorum: &'a Quorum,
    /// The same, with who has everything.
    pub view: &'a QuorumView,
    /// How the pods are.
    pub pods: &'a BTreeMap<Node, Health>,
    /// Disks that there are, and are to go with their nodes.
    pub disks: &'a BTreeSet<Node>,
    /// How long a controller may take to copy the metadata.
    pub timeout: std::time::Duration,
}

/// The next move of controllers; `None` = the votes are as they should be.
pub fn controllers(voting: &Voting<'_>) -> Option<Move> {
    let Voting { ids, quorum, view, pods, .. } = voting;
    let newcomer = quorum.observers.iter().find(|observer| {
        let id = observer.voter.id;
        let is_ready = pods.get(&Node::controller(id)) == Some(&Health::Ready);
        ids.stay.contains(&id) && !view.voters.contains_key(&id) && is_ready
    });
    if let Some(newcomer) = newcomer {
        let (voter, address, timeout) = (newcomer.voter, newcomer.address.clone(), voting.timeout);
        return Some(Move::ChangeVoters(VoterChange::Add { voter, address, timeout }));
    }
    // Nobody leaves before all that stay have a vote.
    if ids.leave.is_empty() || !ids.stay.iter().all(|id| view.voters.contains_key(id)) {
        return None;
    }
    let mut leaving: Vec<VoterId> =
        quorum.voters.iter().map(|voter| voter.voter).filter(|voter| ids.leave.contains(&voter.id)).collect();
    // The active one last, otherwise the highest first.
    leaving.sort_by_key(|voter| (Some(voter.id) == view.active, std::cmp::Reverse(voter.id)));
    if let Some(voter) = leaving.first() {
        let others = view.voters.iter().filter(|(id, _)| **id != voter.id);
        let (count, have_all) = (others.clone().count(), others.filter(|(_, caught_up)| **caught_up).count());
        if 2 * have_all <= count {
            let text = format!("of the {count} controllers that would be left only {have_all} have everything");
            return Some(Move::Refused(Node::controller(voter.id), text));
        }
        return Some(Move::ChangeVoters(VoterChange::Remove(*voter)));
    }
    let node = ids.leave.iter().map(|id| Node::controller(*id)).find(|node| pods.contains_key(node));
    node.map(Move::DeletePod).or_else(|| {
        let is_gone = |node: &&Node| !pods.contains_key(*node) && ids.leave.contains(&node.id);
        voting.disks.iter().find(is_gone).map(|node| Move::DeleteClaim(*node))
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use taffrail_core::event::MetadataEvent;
    use taffrail_core::ids::Uuid;
    use taffrail_protocol::rpc::{ControllerAddress, QuorumMember};

    use super::*;
    use crate::kubernetes::fixtures;

    fn set(ids: &[i32]) -> BTreeSet<i32> {
        ids.iter().copied().collect()
    }

    #[test]
    fn brokers_keep_their_ids_and_the_highest_leave() {
        for (present, count, remove, stay, leave) in [
            (vec![], 3, vec![], vec![0, 1, 2], vec![]),
            (vec![0, 1, 2], 5, vec![], vec![0, 1, 2, 3, 4], vec![]),
            (vec![0, 1, 2, 3, 4], 3, vec![], vec![0, 1, 2], vec![4, 3]),
            (vec![0, 1, 2], 3, vec![1], vec![0, 2, 3], vec![1]),
            (vec![0, 1, 2], 2, vec![0], vec![1, 2], vec![0]),
            (vec![0, 7], 3, vec![], vec![0, 1, 7], vec![]),
            (vec![], 2, vec![0], vec![1, 2], vec![]),
        ] {
            let ids = broker_ids(&set(&present), count, &remove);
            assert_eq!(ids, Ids { stay: set(&stay), leave }, "{present:?} -> {count} without {remove:?}");
        }
    }

    /// Brokers 0 to 3 and a topic with these replicas.
    fn image(replicas: &[&[i32]], duties: &[(i32, BrokerDuty)]) -> MetadataImage {
        let mut image = fixtures::image(&[None; 4], replicas);
        for (id, duty) in duties {
            image.apply(&MetadataEvent::BrokerDutyChanged { broker: BrokerId(*id), duty: *duty }).unwrap();
        }
        image
    }

    fn next(image: &MetadataImage, ids: &Ids, pods: &[i32], drains: bool) -> Option<Move> {
        let pods: BTreeSet<Node> = pods.iter().map(|id| Node::broker(*id)).collect();
        let disks = BTreeSet::from([Node::broker(3)]);
        brokers(&Leaving { ids, image, pods: &pods, disks: &disks, drains, moves_max: None })
    }

    #[test]
    fn where_moves_are_counted_the_broker_is_cordoned_and_so_many_begin() {
        use BrokerDuty::{Cordoned, Draining};
        let ids = Ids { stay: set(&[0, 1, 2]), leave: vec![3] };
        let (pods, disks) = (BTreeSet::from([Node::broker(3)]), BTreeSet::new());
        let step = |duty: BrokerDuty| {
            let image = image(&[&[3, 0], &[3, 1]], &[(3, duty)]);
            brokers(&Leaving { ids: &ids, image: &image, pods: &pods, disks: &disks, drains: true, moves_max: Some(1) })
        };
        assert_eq!(step(BrokerDuty::Serving), Some(Move::SetDuty(3, Cordoned)));
        assert_eq!(step(Draining), Some(Move::SetDuty(3, Cordoned)), "the number was given in the middle of it");
        let Some(Move::Relocate(3, 2, moves)) = step(Cordoned) else { panic!("{:?}", step(Cordoned)) };
        assert_eq!(moves.len(), 1);
    }

    #[test]
    fn a_broker_leaves_step_by_step_and_only_with_nothing_on_it() {
        use BrokerDuty::{Cordoned, Draining};
        let ids = Ids { stay: set(&[0, 1]), leave: vec![3, 2] };
        let on_three: &[&[i32]] = &[&[0, 3], &[1, 0]];
        let moved: &[&[i32]] = &[&[0, 1], &[1, 0]];
        let all = [0, 1, 2, 3];
        for (replicas, duties, pods, expected) in [
            (on_three, vec![], &all[..], Move::SetDuty(3, Draining)),
            (on_three, vec![(3, Draining)], &all, Move::SetDuty(2, Cordoned)),
            (on_three, vec![(3, Draining), (2, Cordoned)], &all, Move::Draining(3, 1)),
            (on_three, vec![(3, Draining), (2, Cordoned)], &all[..3], Move::Draining(3, 1)),
            (moved, vec![(3, Draining), (2, Cordoned)], &all, Move::DeletePod(Node::broker(3))),
            (moved, vec![(3, Draining), (2, Cordoned)], &all[..3], Move::Unregister(3)),
        ] {
            assert_eq!(next(&image(replicas, &duties), &ids, pods, true), Some(expected), "{duties:?}");
        }
        let gone = Ids { stay: set(&[0, 1]), leave: vec![] };
        assert_eq!(next(&image(moved, &[]), &gone, &all[..2], true), None);
    }

    #[test]
    fn a_drain_is_turned_around_when_the_broker_stays_after_all() {
        let ids = Ids { stay: set(&[0, 1, 2, 3]), leave: vec![] };
        let image = image(&[&[0, 3]], &[(3, BrokerDuty::Draining)]);
        assert_eq!(next(&image, &ids, &[0, 1, 2, 3], true), Some(Move::SetDuty(3, BrokerDuty::Serving)));
    }

    #[test]
    fn nobody_leaves_where_replicas_have_no_room_or_may_not_be_moved() {
        let refused = |replicas: &[&[i32]], stay: &[i32], leave: Vec<i32>, drains| {
            let ids = Ids { stay: set(stay), leave };
            match next(&image(replicas, &[]), &ids, &[0, 1, 2, 3], drains) {
                Some(Move::Refused(_, text)) => text,
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(refused(&[&[0, 1, 2]], &[0], vec![3, 2, 1], true), "there would be 1 brokers, and t has 3 replicas");
        assert_eq!(
            refused(&[&[0, 3], &[1, 3]], &[0, 1, 2], vec![3], false),
            "scaleDown.policy is Refuse, and they hold t-0, t-1"
        );
        let free = Ids { stay: set(&[0, 1, 2]), leave: vec![3] };
        let image = image(&[&[0, 1, 2]], &[]);
        assert_eq!(next(&image, &free, &[0, 1, 2, 3], false), Some(Move::SetDuty(3, BrokerDuty::Draining)));
    }

    fn member(id: i32) -> QuorumMember {
        let voter = VoterId { id, directory_id: Uuid([id as u8; 16]) };
        QuorumMember {
            voter,
            address: format!("c{id}:9093"),
            log_end: None,
            last_heard_ms: None,
            last_caught_up_ms: None,
        }
    }

    /// The next move from these voters (with whether each has everything) and observers to `count` controllers.
    fn vote(voters: &[(i32, bool)], observers: &[i32], pods: &[i32], count: i32, active: i32) -> Option<Move> {
        let quorum = Quorum {
            active: Some(ControllerAddress { id: active, address: format!("c{active}:9093") }),
            term: 1,
            committed_log_end: 1,
            voters: voters.iter().map(|(id, _)| member(*id)).collect(),
            observers: observers.iter().map(|id| member(*id)).collect(),
        };
        let view = QuorumView { active: Some(active), voters: voters.iter().copied().collect() };
        let present = voters.iter().map(|(id, _)| *id).chain(pods.iter().copied()).collect();
        let ids = controller_ids(&present, count);
        let pods: BTreeMap<Node, Health> = pods.iter().map(|id| (Node::controller(*id), Health::Ready)).collect();
        let disks = BTreeSet::from([Node::controller(2)]);
        let timeout = Duration::from_secs(1);
        controllers(&Voting { ids: &ids, quorum: &quorum, view: &view, pods: &pods, disks: &disks, timeout })
    }

    #[test]
    fn controllers_come_and_go_one_vote_at_a_time() {
        let removed = |id| Some(Move::ChangeVoters(VoterChange::Remove(member(id).voter)));
        let three = [(0, true), (1, true), (2, true)];
        match vote(&three[..1], &[1, 2], &[0, 1, 2], 3, 0) {
            Some(Move::ChangeVoters(VoterChange::Add { voter, .. })) => assert_eq!(voter.id, 1),
            other => panic!("{other:?}"),
        }
        assert_eq!(vote(&three[..1], &[1], &[0], 3, 0), None, "its pod is not ready");
        assert_eq!(vote(&three, &[], &[0, 1, 2], 3, 0), None);
        assert_eq!(vote(&three, &[], &[0, 1, 2], 1, 0), removed(2));
        assert_eq!(vote(&three, &[], &[0, 1, 2], 1, 2), removed(1), "the active one goes last");
        assert_eq!(vote(&three[..1], &[], &[0, 1, 2], 1, 0), Some(Move::DeletePod(Node::controller(2))));
        assert_eq!(vote(&three[..2], &[2], &[0, 1, 2], 1, 0), removed(1));
        assert_eq!(vote(&three[..1], &[], &[0, 1], 1, 0), Some(Move::DeletePod(Node::controller(1))));
    }

    #[test]
    fn no_controller_goes_if_those_that_are_left_are_behind() {
        let step = vote(&[(0, true), (1, false), (2, true)], &[], &[0, 1, 2], 1, 0);
        assert!(matches!(step, Some(Move::Refused(node, _)) if node == Node::controller(2)), "{step:?}");
    }
}
