//! Giving new brokers load: replicas move from those that have most to those that have less than their share.
//!
//! A pure function, asked again when the moves before are over: it ends by itself, because every move is from above the
//! even share to below it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use taffrail_core::control::Reassignment;
use taffrail_core::event::{BrokerDuty, PartitionState};
use taffrail_core::ids::BrokerId;
use taffrail_core::image::{MetadataImage, TopicImage};

use super::scale::Move;

/// Partitions that move at the same time.
const MOVES_AT_ONCE: usize = 10;

/// What to do so that the brokers that `stay` carry about as much as each other; `None` = they do. Topics that are `pinned`
/// stay where they are, since somebody says where that is.
pub fn next(image: &MetadataImage, stay: &BTreeSet<i32>, pinned: impl Fn(&str) -> bool) -> Option<Move> {
    let moving = image.replica_index().reassigning_count();
    if moving > 0 {
        return Some(Move::Rebalancing(moving));
    }
    let is_usable = |id: &BrokerId| image.may_lead(*id) && image.duty(*id) == BrokerDuty::Serving;
    let brokers = stay.iter().map(|id| BrokerId(*id)).filter(is_usable);
    let mut loads: BTreeMap<BrokerId, usize> =
        brokers.map(|id| (id, image.replica_index().load(id).replicas)).collect();
    let share = loads.values().sum::<usize>() / loads.len().max(1);
    let mut moves: Vec<Reassignment> = Vec::new();
    // Those that nothing can be found for are left out.
    let mut receivers: BTreeSet<BrokerId> = loads.keys().copied().collect();
    while moves.len() < MOVES_AT_ONCE {
        let least = receivers.iter().copied().min_by_key(|id| loads[id]).filter(|id| loads[id] < share);
        let Some(receiver) = least else { break };
        let mut donors: Vec<BrokerId> = loads.keys().copied().filter(|id| loads[id] > share).collect();
        donors.sort_by_key(|id| Reverse(loads[id]));
        let found = donors.iter().find_map(|donor| Some((*donor, one(image, *donor, receiver, &moves, &pinned)?)));
        match found {
            Some((donor, reassignment)) => {
                moves.push(reassignment);
                *loads.entry(donor).or_default() -= 1;
                *loads.entry(receiver).or_default() += 1;
            }
            None => drop(receivers.remove(&receiver)),
        }
    }
    (!moves.is_empty()).then_some(Move::Rebalance(moves))
}

/// A replica that can move from `donor` to `receiver`, and is not among `moves`.
fn one(
    image: &MetadataImage,
    donor: BrokerId,
    receiver: BrokerId,
    moves: &[Reassignment],
    pinned: &impl Fn(&str) -> bool,
) -> Option<Reassignment> {
    let can_move = |topic: &TopicImage, partition: i32, state: &PartitionState| {
        let is_moving = || moves.iter().any(|it| *it.topic == *topic.name && it.partition == partition);
        !state.replicas.contains(&receiver) && !pinned(&topic.name) && !is_moving()
    };
    for (topic, partition) in image.replica_index().hosted_by(donor) {
        let Some(topic) = image.topic_by_id(topic) else { continue };
        let Some(state) = topic.partition(partition).filter(|state| can_move(topic, partition, state)) else {
            continue;
        };
        // At the same place in the list: preferred leaders move along.
        let replicas: Vec<BrokerId> =
            state.replicas.iter().map(|id| if *id == donor { receiver } else { *id }).collect();
        if racks(image, &replicas) >= racks(image, &state.replicas) {
            return Some(Reassignment { topic: topic.name.clone(), partition, replicas: Some(replicas) });
        }
    }
    None
}

/// In how many racks these brokers stand.
pub(super) fn racks(image: &MetadataImage, brokers: &[BrokerId]) -> usize {
    let rack = |id: &BrokerId| image.broker(*id).and_then(|broker| broker.rack.as_deref());
    brokers.iter().filter_map(rack).collect::<BTreeSet<_>>().len()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::fixtures;

    /// Brokers 0 and on in these racks, and a topic with these replicas.
    fn image(racks: &[&str], replicas: &[&[i32]]) -> MetadataImage {
        let racks: Vec<Option<&str>> = racks.iter().copied().map(Some).collect();
        fixtures::image(&racks, replicas)
    }

    /// Partitions that move, with their new replicas.
    fn moved(image: &MetadataImage, stay: &[i32], pinned: bool) -> Vec<(i32, Vec<i32>)> {
        let stay = stay.iter().copied().collect();
        let ids = |replicas: Option<Vec<BrokerId>>| replicas.unwrap().iter().map(|id| id.0).collect();
        match next(image, &stay, |_| pinned) {
            None => Vec::new(),
            Some(Move::Rebalance(moves)) => moves.into_iter().map(|it| (it.partition, ids(it.replicas))).collect(),
            Some(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_new_broker_gets_its_share_and_no_more() {
        let one_rack = ["a"; 3];
        let two = image(&one_rack, &[&[0, 1], &[1, 0], &[0, 1]]);
        let moves = moved(&two, &[0, 1, 2], false);
        assert_eq!(moves.len(), 2, "{moves:?}");
        assert!(moves.iter().all(|(_, replicas)| replicas.contains(&2)), "{moves:?}");
        assert_eq!(moved(&two, &[0, 1, 2], true), [], "somebody says where they are");
        assert_eq!(moved(&two, &[0, 1], false), [], "the third one is not to stay");
        let even = image(&one_rack, &[&[0, 1], &[1, 2], &[2, 0]]);
        assert_eq!(moved(&even, &[0, 1, 2], false), []);
        let nearly = image(&one_rack, &[&[0, 1], &[0, 2]]);
        assert_eq!(moved(&nearly, &[0, 1, 2], false), [], "one more or less is even");
    }

    #[test]
    fn no_partition_loses_a_rack_by_it() {
        let racks = ["a", "b", "a"];
        let moves = moved(&image(&racks, &[&[0, 1], &[0, 1], &[1, 0]]), &[0, 1, 2], false);
        assert_eq!(moves, [(0, vec![2, 1])], "only what comes from the same rack");
        let moves = moved(&image(&["a", "b", "b"], &[&[0, 1], &[0, 1]]), &[0, 1, 2], false);
        assert_eq!(moves, [(0, vec![0, 2])]);
    }
}
