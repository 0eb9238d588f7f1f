//! What a follower does with its leader's answers.

use super::divergence::{EpochEnd, truncation};
use super::epochs::EpochHistory;
use crate::errors::ErrorCode;
use crate::ids::Offset;

/// The offsets of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogRange {
    /// Offset of the first record kept.
    pub start: Offset,
    /// Offset after the last record.
    pub end: Offset,
}

/// What comes next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NextStep {
    /// Fetch on, from the end of the log.
    Fetch,
    /// Cut everything from this offset on, then fetch on.
    Truncate(Offset),
    /// Forget the log; it begins anew, empty, at this offset, because the leader keeps nothing older.
    StartAt(Offset),
    /// Ask the leader which offsets it keeps (ListOffsets), then see [`on_leaders_range`].
    AskRange,
    /// Try again, after a pause.
    Retry,
    /// Stop until the metadata tell of another leadership: this one is over, or not known here yet.
    AwaitMetadata,
}

/// The leader answered with the place where the logs part.
pub fn on_divergence(history: &EpochHistory, log_end: Offset, leaders: EpochEnd) -> NextStep {
    let cut = truncation(history, log_end, leaders);
    // Nothing to cut, and yet the logs part: the leader's answer makes no sense of this log.
    if cut.offset < log_end { NextStep::Truncate(cut.offset) } else { NextStep::Retry }
}

/// The leader refused the fetch.
pub fn on_error(code: ErrorCode) -> NextStep {
    match code {
        ErrorCode::None => NextStep::Fetch,
        ErrorCode::OffsetOutOfRange => NextStep::AskRange,
        ErrorCode::FencedLeaderEpoch => NextStep::AwaitMetadata,
        // The leader is slower than this follower to learn of its leadership, or busy; all of that passes.
        _ => NextStep::Retry,
    }
}

/// The leader keeps `leaders`; this follower, whose fetch it called out of range, keeps `own`.
pub fn on_leaders_range(own: LogRange, leaders: LogRange) -> NextStep {
    if leaders.end < own.end {
        // Only after an unclean election, or when the follower was not told of a divergence: the leader decides.
        NextStep::Truncate(leaders.end)
    } else if leaders.start > own.end {
        NextStep::StartAt(leaders.start)
    } else {
        NextStep::Fetch
    }
}

/// The committed records that a cut at `cut` takes from a follower that knew `high_watermark`: from the first offset up to,
/// not including, the second. There are none unless an election was unclean; then this is the loss, to be counted and told.
pub fn committed_loss(cut: Offset, high_watermark: Offset) -> Option<(Offset, Offset)> {
    (cut < high_watermark).then_some((cut, high_watermark))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::partition::EpochEntry;

    #[test]
    fn a_divergence_is_answered_by_a_cut_and_nonsense_by_another_try() {
        let entries = [(1, 0), (3, 10)].map(|(epoch, start_offset)| EpochEntry { epoch, start_offset });
        let history = EpochHistory::from_entries(entries);
        let cases = [
            ((3, 12), NextStep::Truncate(12)),
            ((2, 30), NextStep::Truncate(10)),
            ((1, 7), NextStep::Truncate(7)),
            ((3, 20), NextStep::Retry),
        ];
        for ((epoch, end_offset), expected) in cases {
            assert_eq!(on_divergence(&history, 20, EpochEnd { epoch, end_offset }), expected, "{epoch} {end_offset}");
        }
    }

    #[test]
    fn a_follower_that_is_out_of_range_goes_where_its_leader_is() {
        let range = |start, end| LogRange { start, end };
        let cases = [
            (range(0, 10), range(0, 8), NextStep::Truncate(8)),
            (range(5, 10), range(0, 3), NextStep::Truncate(3)),
            (range(0, 10), range(11, 20), NextStep::StartAt(11)),
            (range(0, 10), range(10, 20), NextStep::Fetch),
            (range(0, 0), range(40, 40), NextStep::StartAt(40)),
        ];
        for (own, leaders, expected) in cases {
            assert_eq!(on_leaders_range(own, leaders), expected, "{own:?} {leaders:?}");
        }
    }

    #[test]
    fn what_is_cut_below_the_high_watermark_is_a_loss() {
        assert_eq!(committed_loss(7, 10), Some((7, 10)));
        assert_eq!(committed_loss(10, 10), None);
        assert_eq!(committed_loss(12, 10), None);
    }

    #[test]
    fn errors_that_pass_are_waited_out() {
        let cases = [
            (ErrorCode::None, NextStep::Fetch),
            (ErrorCode::OffsetOutOfRange, NextStep::AskRange),
            (ErrorCode::FencedLeaderEpoch, NextStep::AwaitMetadata),
            (ErrorCode::UnknownLeaderEpoch, NextStep::Retry),
            (ErrorCode::NotLeaderOrFollower, NextStep::Retry),
            (ErrorCode::UnknownTopicId, NextStep::Retry),
            (ErrorCode::KafkaStorageError, NextStep::Retry),
        ];
        for (code, expected) in cases {
            assert_eq!(on_error(code), expected, "{code:?}");
        }
    }
}
