//! How far a partition is replicated.

use crate::ids::Offset;

/// The high watermark once the in-sync replicas (the leader among them) have reached `in_sync_ends`: the smallest of them,
/// but never less than `current`, and no advance while fewer than `min_in_sync` replicas are in sync, so that what readers
/// have seen is always on the minimum of replicas (KIP-966).
pub fn high_watermark(current: Offset, in_sync_ends: impl IntoIterator<Item = Offset>, min_in_sync: usize) -> Offset {
    let mut count = 0;
    let mut smallest = None;
    for end in in_sync_ends {
        count += 1;
        smallest = Some(smallest.map_or(end, |smallest: Offset| smallest.min(end)));
    }
    match smallest {
        Some(end) if count >= min_in_sync => end.max(current),
        _ => current,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_smallest_end_never_falls_and_waits_for_the_minimum() {
        let cases: [(i64, &[i64], usize, i64); 6] = [
            (0, &[7], 1, 7),
            (0, &[7, 5, 9], 2, 5),
            (6, &[7, 5, 9], 2, 6),
            (3, &[7, 9], 3, 3),
            (3, &[], 0, 3),
            (0, &[0], 1, 0),
        ];
        for (current, ends, minimum, expected) in cases {
            assert_eq!(
                high_watermark(current, ends.iter().copied(), minimum),
                expected,
                "{current} {ends:?} {minimum}"
            );
        }
    }
}
