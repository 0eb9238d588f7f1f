//! Where the replicas of new partitions go.
//!
//! One stripe runs over the brokers and over all partitions ever placed: the next partition's leader is the next broker,
//! its followers are the brokers after it, and every full turn puts one more step between leader and followers, so that
//! the load of a lost leader falls on all others. The same image gives the same placement.

use super::ControlError;
use crate::errors::ErrorCode;
use crate::ids::BrokerId;
use crate::image::MetadataImage;

/// Replicas for `count` new partitions with `replication_factor` replicas each: for each partition the brokers, the
/// preferred leader first. Brokers that may lead come before fenced ones.
///
/// # Errors
/// INVALID_REPLICATION_FACTOR with Kafka's text, when the brokers are too few or all fenced.
pub(super) fn place(
    image: &MetadataImage,
    count: usize,
    replication_factor: i16,
) -> Result<Vec<Vec<BrokerId>>, ControlError> {
    let refuse = |why: String| {
        let text = format!("Unable to replicate the partition {replication_factor} time(s): {why}");
        ControlError::new(ErrorCode::InvalidReplicationFactor, text)
    };
    let wanted = usize::try_from(replication_factor).unwrap_or_default();
    if wanted == 0 {
        return Err(refuse(format!(
            "Invalid replication factor {replication_factor}: the replication factor must be positive."
        )));
    }
    let (active, fenced): (Vec<BrokerId>, Vec<BrokerId>) = image.brokers().keys().partition(|id| image.is_active(**id));
    if active.is_empty() {
        return Err(refuse("All brokers are currently fenced.".to_owned()));
    }
    let registered = active.len() + fenced.len();
    if wanted > registered {
        return Err(refuse(format!(
            "The target replication factor of {replication_factor} cannot be reached because only {registered} \
             broker(s) are registered."
        )));
    }
    let first = image.topics().partition_count();
    Ok((first..first + count).map(|turn| stripe(&active, &fenced, turn, wanted)).collect())
}

fn stripe(active: &[BrokerId], fenced: &[BrokerId], turn: usize, wanted: usize) -> Vec<BrokerId> {
    let brokers = active.len();
    let mut replicas = vec![active[turn % brokers]];
    if brokers > 1 {
        let shift = turn / brokers;
        let followers = (0..brokers - 1).map(|step| active[(turn + 1 + (shift + step) % (brokers - 1)) % brokers]);
        replicas.extend(followers.take(wanted - 1));
    }
    let missing = wanted - replicas.len();
    replicas.extend((0..missing).map(|step| fenced[(turn + step) % fenced.len()]));
    replicas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(count: i32) -> Vec<BrokerId> {
        (0..count).map(BrokerId).collect()
    }

    #[test]
    fn leaders_and_followers_are_spread_evenly() {
        let brokers = ids(5);
        let mut leaders = [0; 5];
        let mut replicas = [0; 5];
        for turn in 0..100 {
            let placed = stripe(&brokers, &[], turn, 3);
            let mut distinct = placed.clone();
            distinct.sort_unstable();
            distinct.dedup();
            assert_eq!(distinct.len(), 3, "{placed:?}");
            leaders[placed[0].0 as usize] += 1;
            for broker in placed {
                replicas[broker.0 as usize] += 1;
            }
        }
        assert_eq!(leaders, [20; 5]);
        assert_eq!(replicas, [60; 5]);
    }

    #[test]
    fn fenced_brokers_only_fill_up() {
        assert_eq!(stripe(&ids(1), &[BrokerId(7), BrokerId(8)], 0, 2), [BrokerId(0), BrokerId(7)]);
        assert_eq!(stripe(&ids(2), &[BrokerId(7)], 1, 3), [BrokerId(1), BrokerId(0), BrokerId(7)]);
    }
}
