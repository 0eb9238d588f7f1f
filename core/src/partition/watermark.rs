//! How far a partition is replicated.

use crate::ids::Offset;
use crate::planted::{PlantedBug, is_planted};

/// The high watermark once the in-sync replicas (the leader among them) have reached `in_sync_ends`: the smallest of them,
/// but never less than `current`. Unless `may_advance` it stays where it is: while fewer replicas than the minimum are in
/// sync nothing is committed, so that what readers have seen is always on the minimum of replicas, and whoever left the
/// ISR meanwhile has every committed record still (KIP-966).
pub fn high_watermark(current: Offset, in_sync_ends: impl IntoIterator<Item = Offset>, may_advance: bool) -> Offset {
    match in_sync_ends.into_iter().min() {
        Some(end) if may_advance && is_planted(PlantedBug::HighWatermarkOffByOne) => (end + 1).max(current),
        Some(end) if may_advance => end.max(current),
        _ => current,
    }
}

/// The high watermark of a follower: what the leader has told, but no more than the follower has. It may fall behind what
/// the follower knew before, when a new leader does not know yet how far its followers are; then it stays.
pub fn follower_high_watermark(current: Offset, leaders: Offset, own_end: Offset) -> Offset {
    leaders.min(own_end).max(current.min(own_end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_smallest_end_never_falls_and_waits_for_the_minimum() {
        let cases: [(i64, &[i64], bool, i64); 7] = [
            (0, &[7], true, 7),
            (0, &[7, 5, 9], true, 5),
            (6, &[7, 5, 9], true, 6),
            (3, &[7, 9], false, 3),
            (3, &[], true, 3),
            (0, &[0], true, 0),
            (4, &[9, -1], true, 4),
        ];
        for (current, ends, may_advance, expected) in cases {
            let found = high_watermark(current, ends.iter().copied(), may_advance);
            assert_eq!(found, expected, "{current} {ends:?} {may_advance}");
        }
    }

    #[test]
    fn a_follower_commits_what_it_has_and_its_leader_has_committed() {
        for (current, leaders, own_end, expected) in
            [(0, 5, 9, 5), (0, 9, 5, 5), (5, 3, 9, 5), (5, 9, 4, 4), (0, 0, 0, 0)]
        {
            assert_eq!(follower_high_watermark(current, leaders, own_end), expected, "{current} {leaders} {own_end}");
        }
    }
}
