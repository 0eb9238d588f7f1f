//! Where two logs part, told from leader epochs alone (KIP-101, KIP-279, KIP-595), and who is too old to be heard
//! (KIP-320).
//!
//! High watermarks do not tell it: a leader may be elected before it knows how far its log was committed. Offset and epoch
//! of a record together name it for good, so the last epoch that both logs know, and where it ends in each, does.

use super::epochs::{EpochHistory, UNDEFINED_EPOCH, UNDEFINED_OFFSET};
use crate::errors::ErrorCode;
use crate::ids::{LeaderEpoch, Offset};
use crate::planted::{PlantedBug, is_planted};

/// An epoch, and where it ends in somebody's log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEnd {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset after its last record.
    pub end_offset: Offset,
}

/// How a follower gets its log in line with its leader's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Truncation {
    /// Everything from here on goes.
    pub offset: Offset,
    /// Whether the logs agree then. Otherwise the leader has to be asked again, about an older epoch.
    pub is_final: bool,
}

/// Refuses whoever believes in another leadership than the one of `current` (KIP-320). -1 = it does not say.
///
/// # Errors
/// FENCED_LEADER_EPOCH: it has missed an election. UNKNOWN_LEADER_EPOCH: this broker has.
pub fn check_leader_epoch(current: LeaderEpoch, believed: LeaderEpoch) -> Result<(), ErrorCode> {
    match believed {
        UNDEFINED_EPOCH => Ok(()),
        older if older < current => Err(ErrorCode::FencedLeaderEpoch),
        newer if newer > current => Err(ErrorCode::UnknownLeaderEpoch),
        _ => Ok(()),
    }
}

/// Leader's side: where the log of whoever fetches from `fetch_offset`, with a record of `last_fetched_epoch` before it,
/// parts from the leader's. `end_of` tells for an epoch the last one up to it that the leader knows, and where that ends in
/// its log ([`EpochHistory::end_offset_for`]). `None` = not at all, or the follower does not say (epoch -1).
///
/// # Errors
/// OFFSET_OUT_OF_RANGE when the leader knows nothing of such an epoch.
pub fn diverging(
    end_of: impl FnOnce(LeaderEpoch) -> (LeaderEpoch, Offset),
    fetch_offset: Offset,
    last_fetched_epoch: LeaderEpoch,
) -> Result<Option<EpochEnd>, ErrorCode> {
    if last_fetched_epoch < 0 {
        return Ok(None);
    }
    let (epoch, end_offset) = end_of(last_fetched_epoch);
    if epoch == UNDEFINED_EPOCH || end_offset == UNDEFINED_OFFSET {
        return Err(ErrorCode::OffsetOutOfRange);
    }
    let parts = epoch < last_fetched_epoch || end_offset < fetch_offset;
    let parts = parts && !is_planted(PlantedBug::DivergenceNotTold);
    Ok(parts.then_some(EpochEnd { epoch, end_offset }))
}

/// Follower's side: what to cut off when the leader says that, of the epoch asked for, its own log goes to `leaders`. The
/// follower's log has this `history` and ends at `log_end`.
pub fn truncation(history: &EpochHistory, log_end: Offset, leaders: EpochEnd) -> Truncation {
    let end = |offset: Offset| offset.min(log_end).max(0);
    match history.end_offset_for(leaders.epoch, log_end) {
        // The follower knows nothing as old: all that it has is newer than what the leader means.
        (UNDEFINED_EPOCH, _) | (_, UNDEFINED_OFFSET) => Truncation { offset: end(leaders.end_offset), is_final: true },
        (epoch, own_end) if epoch == leaders.epoch => {
            Truncation { offset: end(own_end.min(leaders.end_offset)), is_final: true }
        }
        // The follower has nothing of the leader's epoch, so the logs part before it: back to where its own older epoch
        // ends, and ask again from there (KIP-279).
        (_, own_end) => Truncation { offset: end(own_end), is_final: false },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::partition::EpochEntry;

    fn history(entries: &[(LeaderEpoch, Offset)]) -> EpochHistory {
        EpochHistory::from_entries(entries.iter().map(|&(epoch, start_offset)| EpochEntry { epoch, start_offset }))
    }

    #[test]
    fn whoever_believes_in_another_leadership_is_told_who_has_missed_something() {
        let cases = [
            (5, -1, Ok(())),
            (5, 5, Ok(())),
            (5, 4, Err(ErrorCode::FencedLeaderEpoch)),
            (5, 6, Err(ErrorCode::UnknownLeaderEpoch)),
        ];
        for (current, believed, expected) in cases {
            assert_eq!(check_leader_epoch(current, believed), expected, "{current} {believed}");
        }
    }

    #[test]
    fn the_leader_tells_where_a_followers_log_parts_from_its_own() {
        let leader = history(&[(1, 0), (3, 10), (4, 20)]);
        let end = |epoch, end_offset| Ok(Some(EpochEnd { epoch, end_offset }));
        // Fetch offset, epoch of the record before it.
        let cases = [
            ((30, 4), Ok(None)),
            ((25, -1), Ok(None)),
            ((10, 1), Ok(None)),
            ((11, 1), end(1, 10)),
            ((20, 2), end(1, 10)),
            ((5, 2), end(1, 10)),
            ((31, 4), end(4, 30)),
            ((15, 0), end(0, 0)),
            ((15, 5), Err(ErrorCode::OffsetOutOfRange)),
        ];
        for ((fetch_offset, epoch), expected) in cases {
            let found = diverging(|epoch| leader.end_offset_for(epoch, 30), fetch_offset, epoch);
            assert_eq!(found, expected, "{fetch_offset} {epoch}");
        }
    }

    #[test]
    fn the_follower_cuts_what_the_leader_has_not() {
        let follower = history(&[(1, 0), (2, 8), (5, 15)]);
        let cases = [
            // The same epoch, the leader's ends before, after, beyond the log.
            ((5, 17), (17, true)),
            ((5, 99), (20, true)),
            ((2, 12), (12, true)),
            ((2, 99), (15, true)),
            // An epoch that the follower has nothing of: back to where its older one ends.
            ((3, 12), (15, false)),
            ((4, 99), (15, false)),
            // Older than all it has.
            ((0, 0), (0, true)),
            ((6, 18), (18, true)),
        ];
        for ((epoch, end_offset), (offset, is_final)) in cases {
            let found = truncation(&follower, 20, EpochEnd { epoch, end_offset });
            assert_eq!(found, Truncation { offset, is_final }, "{epoch} {end_offset}");
        }
        let empty = truncation(&EpochHistory::default(), 0, EpochEnd { epoch: 3, end_offset: 7 });
        assert_eq!(empty, Truncation { offset: 0, is_final: true });
    }

    /// A log as the epochs of its records, from offset 0 on.
    fn history_of(log: &[LeaderEpoch]) -> EpochHistory {
        let mut history = EpochHistory::default();
        for (offset, epoch) in (0..).zip(log) {
            history.assign(*epoch, offset);
        }
        history
    }

    /// Logs of two replicas that share a beginning. An epoch has one leader, so after the common part no epoch is in both
    /// but the one in which they part.
    fn logs() -> impl Strategy<Value = (Vec<LeaderEpoch>, Vec<LeaderEpoch>)> {
        let rising = |range, length| proptest::collection::vec(range, 0..length);
        (rising(0..4, 8), rising(4..10, 8), rising(4..10, 8)).prop_map(|(common, leader, follower)| {
            let mut common: Vec<LeaderEpoch> = common;
            common.sort_unstable();
            let tail = |mut own: Vec<LeaderEpoch>, parity| {
                own.sort_unstable();
                let own = own.into_iter().filter(move |epoch| epoch % 2 == parity);
                common.iter().copied().chain(own).collect::<Vec<_>>()
            };
            (tail(leader, 0), tail(follower, 1))
        })
    }

    proptest! {
        #[test]
        fn whatever_the_logs_they_agree_in_the_end_and_lose_nothing_that_they_share((leader, follower) in logs()) {
            let leaders_history = history_of(&leader);
            // A leader that leads has begun its own epoch, above all others.
            let mut leaders_history_now = leaders_history;
            leaders_history_now.assign(100, leader.len() as Offset);
            let mut log = follower.clone();
            for _ in 0..=follower.len() + leader.len() {
                let (history, end) = (history_of(&log), log.len() as Offset);
                let last = log.last().copied().unwrap_or(UNDEFINED_EPOCH);
                let leaders_end = |epoch| leaders_history_now.end_offset_for(epoch, leader.len() as Offset);
                let Some(found) = diverging(leaders_end, end, last).unwrap() else { break };
                let cut = truncation(&history, end, found);
                prop_assert!(cut.offset < end, "no way forward: {leader:?} {log:?} {found:?} {cut:?}");
                log.truncate(cut.offset as usize);
            }
            prop_assert!(leader.starts_with(&log), "{leader:?} {log:?}");
            let shared = leader.iter().zip(&follower).take_while(|(a, b)| a == b).count();
            prop_assert!(log.len() >= shared, "{leader:?} {follower:?} {log:?}");
        }
    }
}
