//! Which brokers are to keep which partition, by what `cluster move` is asked for: a pure function from what is there to a plan.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_client::kafka::{PartitionKey, Reassignment};

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Wish {
    /// These brokers keep each partition, the first of them leads it.
    Replicas(Vec<i32>),
    /// Only these brokers keep replicas; what others keep goes to those of them that keep the fewest.
    Only(Vec<i32>),
    /// What the first broker keeps is kept by the second.
    Replace(i32, i32),
    /// Moves that are under way are taken back.
    Cancel,
}

/// A partition as it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Kept {
    pub(super) partition: PartitionKey,
    /// Who keeps it, when the move that is under way is done.
    pub(super) replicas: Vec<i32>,
    /// Whether one is under way.
    pub(super) is_moving: bool,
}

/// A change of one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Planned {
    pub(super) from: Vec<i32>,
    pub(super) to: Reassignment,
}

/// Why a wish cannot be granted.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub(super) enum PlacementError {
    /// A broker is named more than once.
    #[error("broker {0} is named twice")]
    Twice(i32),
    /// There are fewer brokers than replicas.
    #[error("{topic}-{partition} has {replicas} replicas, and {brokers} brokers are named")]
    TooFew {
        /// Name of the topic.
        topic: String,
        /// Number of the partition.
        partition: i32,
        /// How many replicas it has.
        replicas: usize,
        /// How many brokers there are for them.
        brokers: usize,
    },
    /// A broker would have two replicas of a partition.
    #[error("broker {broker} keeps a replica of {topic}-{partition} already")]
    There {
        /// Name of the topic.
        topic: String,
        /// Number of the partition.
        partition: i32,
        /// Number of the broker.
        broker: i32,
    },
}

/// What has to change, without partitions that are as they should be.
///
/// # Errors
/// When the wish makes no sense for one of them.
pub(super) fn plan(wish: &Wish, kept: &[Kept]) -> Result<Vec<Planned>, PlacementError> {
    let wanted = match wish {
        Wish::Cancel => {
            let moving = kept.iter().filter(|kept| kept.is_moving);
            return Ok(moving.map(|kept| planned(kept, None)).collect());
        }
        Wish::Replicas(replicas) => {
            check_once(replicas)?;
            kept.iter().map(|_| replicas.clone()).collect()
        }
        Wish::Only(brokers) => only(brokers, kept)?,
        Wish::Replace(from, to) => kept.iter().map(|kept| replaced(kept, *from, *to)).collect::<Result<Vec<_>, _>>()?,
    };
    let changed = kept.iter().zip(wanted).filter(|(kept, wanted)| kept.replicas != *wanted);
    Ok(changed.map(|(kept, wanted)| planned(kept, Some(wanted))).collect())
}

fn planned(kept: &Kept, replicas: Option<Vec<i32>>) -> Planned {
    let to = Reassignment { partition: kept.partition.clone(), replicas };
    Planned { from: kept.replicas.clone(), to }
}

fn check_once(brokers: &[i32]) -> Result<(), PlacementError> {
    let mut seen = BTreeSet::new();
    match brokers.iter().find(|broker| !seen.insert(**broker)) {
        Some(twice) => Err(PlacementError::Twice(*twice)),
        None => Ok(()),
    }
}

fn replaced(kept: &Kept, from: i32, to: i32) -> Result<Vec<i32>, PlacementError> {
    if kept.replicas.contains(&from) && kept.replicas.contains(&to) {
        let (topic, partition) = kept.partition.clone();
        return Err(PlacementError::There { topic, partition, broker: to });
    }
    Ok(kept.replicas.iter().map(|broker| if *broker == from { to } else { *broker }).collect())
}

/// Replicas on `brokers` alone. What is there already stays, so that as little as possible moves.
fn only(brokers: &[i32], kept: &[Kept]) -> Result<Vec<Vec<i32>>, PlacementError> {
    check_once(brokers)?;
    let mut load: BTreeMap<i32, usize> = brokers.iter().map(|broker| (*broker, 0)).collect();
    for broker in kept.iter().flat_map(|kept| &kept.replicas) {
        if let Some(load) = load.get_mut(broker) {
            *load += 1;
        }
    }
    let mut wanted = Vec::with_capacity(kept.len());
    for Kept { partition: (topic, partition), replicas, .. } in kept {
        let mut placed = replicas.clone();
        for place in 0..placed.len() {
            if load.contains_key(&placed[place]) {
                continue;
            }
            let free = load.iter_mut().filter(|(broker, _)| !placed.contains(broker));
            let Some((broker, load)) = free.min_by_key(|(_, load)| **load) else {
                let (topic, partition) = (topic.clone(), *partition);
                let (replicas, brokers) = (replicas.len(), brokers.len());
                return Err(PlacementError::TooFew { topic, partition, replicas, brokers });
            };
            *load += 1;
            let broker = *broker;
            placed[place] = broker;
        }
        wanted.push(placed);
    }
    Ok(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Number of a partition, and who is to keep it.
    type Moved = (i32, Option<Vec<i32>>);

    fn kept(replicas: &[&[i32]]) -> Vec<Kept> {
        let kept = |(number, replicas): (i32, &&[i32])| Kept {
            partition: ("t".to_owned(), number),
            replicas: replicas.to_vec(),
            is_moving: number == 1,
        };
        (0..).zip(replicas).map(kept).collect()
    }

    fn planned(wish: &Wish, replicas: &[&[i32]]) -> Result<Vec<Moved>, PlacementError> {
        let plan = plan(wish, &kept(replicas))?;
        Ok(plan.into_iter().map(|planned| (planned.to.partition.1, planned.to.replicas)).collect())
    }

    #[test]
    fn only_what_differs_is_planned() {
        let there: &[&[i32]] = &[&[1, 2], &[2, 3], &[3, 1]];
        let cases = [
            (Wish::Replicas(vec![2, 3]), vec![(0, Some(vec![2, 3])), (2, Some(vec![2, 3]))]),
            (Wish::Replace(1, 4), vec![(0, Some(vec![4, 2])), (2, Some(vec![3, 4]))]),
            (Wish::Replace(9, 4), vec![]),
            (Wish::Cancel, vec![(1, None)]),
            (Wish::Only(vec![1, 2, 3]), vec![]),
            // Each of the new ones gets one before any gets two, and what may stay does.
            (Wish::Only(vec![2, 3, 4]), vec![(0, Some(vec![4, 2])), (2, Some(vec![3, 4]))]),
        ];
        for (wish, expected) in cases {
            assert_eq!(planned(&wish, there).unwrap(), expected, "{wish:?}");
        }
        assert_eq!(
            planned(&Wish::Only(vec![4, 5]), &[&[1], &[1], &[1]]).unwrap(),
            [(0, Some(vec![4])), (1, Some(vec![5])), (2, Some(vec![4]))]
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let there: &[&[i32]] = &[&[1, 2]];
        let told = |wish: Wish| planned(&wish, there).unwrap_err().to_string();
        assert_eq!(told(Wish::Replicas(vec![1, 1])), "broker 1 is named twice");
        assert_eq!(told(Wish::Only(vec![3, 3])), "broker 3 is named twice");
        assert_eq!(told(Wish::Only(vec![3])), "t-0 has 2 replicas, and 1 brokers are named");
        assert_eq!(told(Wish::Replace(1, 2)), "broker 2 keeps a replica of t-0 already");
    }
}
