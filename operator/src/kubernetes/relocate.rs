//! Moving replicas off a broker a few at a time, where a Cluster says how many: otherwise the controllers do it by themselves.
//!
//! A pure function, asked again whenever a move is over.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use taffrail_core::control::Reassignment;
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;

use super::rebalance::racks;

/// The moves that begin now, so that no more than `moves_max` partitions move at the same time: off `from`, to brokers that
/// `stay`, first those with the fewest replicas, in as many racks as can be. None for partitions that nobody can take.
pub fn next(image: &MetadataImage, from: i32, stay: &BTreeSet<i32>, moves_max: usize) -> Vec<Reassignment> {
    let room = moves_max.saturating_sub(image.replica_index().reassigning_count());
    let is_usable = |id: &BrokerId| image.may_lead(*id) && image.duty(*id) == BrokerDuty::Serving;
    let heirs = stay.iter().map(|id| BrokerId(*id)).filter(|id| id.0 != from && is_usable(id));
    let mut loads: BTreeMap<BrokerId, usize> = heirs.map(|id| (id, image.replica_index().load(id).replicas)).collect();
    let mut moves = Vec::new();
    for (topic, partition) in image.replica_index().hosted_by(BrokerId(from)) {
        if moves.len() >= room {
            break;
        }
        let Some(topic) = image.topic_by_id(topic) else { continue };
        let Some(state) = topic.partition(partition).filter(|state| !state.is_reassigning()) else { continue };
        // At the same place in the list: preferred leaders move along.
        let with = |heir: BrokerId| -> Vec<BrokerId> {
            state.replicas.iter().map(|id| if id.0 == from { heir } else { *id }).collect()
        };
        let free = loads.keys().copied().filter(|id| !state.replicas.contains(id));
        let Some(heir) = free.min_by_key(|id| (Reverse(racks(image, &with(*id))), loads[id], *id)) else { continue };
        *loads.entry(heir).or_default() += 1;
        moves.push(Reassignment { topic: topic.name.clone(), partition, replicas: Some(with(heir)) });
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kubernetes::fixtures;

    /// Partitions that move off broker 3, with their new replicas.
    fn moved(racks: &[&str], replicas: &[&[i32]], moves_max: usize) -> Vec<(i32, Vec<i32>)> {
        let racks: Vec<Option<&str>> = racks.iter().copied().map(Some).collect();
        let image = fixtures::image(&racks, replicas);
        let ids = |replicas: Option<Vec<BrokerId>>| replicas.unwrap().iter().map(|id| id.0).collect();
        let moves = next(&image, 3, &[0, 1, 2].into(), moves_max);
        moves.into_iter().map(|it| (it.partition, ids(it.replicas))).collect()
    }

    #[test]
    fn no_more_move_at_once_than_may_each_to_whom_has_least() {
        let one_rack = ["a"; 4];
        let replicas: &[&[i32]] = &[&[3, 0], &[0, 3], &[3, 1], &[0, 1]];
        assert_eq!(moved(&one_rack, replicas, 2), [(0, vec![2, 0]), (1, vec![0, 2])]);
        assert_eq!(moved(&one_rack, replicas, 9), [(0, vec![2, 0]), (1, vec![0, 2]), (2, vec![2, 1])]);
        assert_eq!(moved(&one_rack, replicas, 0), []);
    }

    #[test]
    fn racks_count_more_than_an_even_load_and_what_has_no_room_stays() {
        assert_eq!(moved(&["a", "b", "a", "b"], &[&[0, 3], &[1, 0], &[1, 0]], 5), [(0, vec![0, 1])]);
        assert_eq!(moved(&["a"; 4], &[&[0, 1, 2, 3]], 5), []);
    }
}
