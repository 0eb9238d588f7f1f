//! Which leader epoch wrote from which offset on (KIP-101): what followers and consumers compare to find where two logs
//! part. Follows Kafka's `LeaderEpochFileCache`.

use crate::ids::{LeaderEpoch, Offset};

/// The epoch that means "not known".
pub const UNDEFINED_EPOCH: LeaderEpoch = -1;

/// The offset that means "not known".
pub const UNDEFINED_OFFSET: Offset = -1;

/// One leader epoch and the offset of the first record that it wrote.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// The epoch.
    pub epoch: LeaderEpoch,
    /// Offset of its first record.
    pub start_offset: Offset,
}

/// The epochs of a log, both epochs and start offsets rising.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EpochHistory {
    entries: Vec<EpochEntry>,
}

impl EpochHistory {
    /// A history from entries in any state: each is assigned in turn, so later ones win over what they contradict.
    pub fn from_entries(entries: impl IntoIterator<Item = EpochEntry>) -> Self {
        let mut history = Self::default();
        for entry in entries {
            history.assign(entry.epoch, entry.start_offset);
        }
        history
    }

    /// All entries, oldest first.
    pub fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    /// The newest epoch.
    pub fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Notes that records from `start_offset` on are of `epoch`. Entries that contradict it (an epoch as new, or a start as
    /// late) go. Gives whether anything changed, that is whether a checkpoint has to be written. Negative values change
    /// nothing.
    pub fn assign(&mut self, epoch: LeaderEpoch, start_offset: Offset) -> bool {
        let needed = match self.latest() {
            None => true,
            Some(latest) => epoch != latest.epoch || start_offset < latest.start_offset,
        };
        if !needed || epoch < 0 || start_offset < 0 {
            return false;
        }
        while self.latest().is_some_and(|last| last.epoch >= epoch || last.start_offset >= start_offset) {
            self.entries.pop();
        }
        self.entries.push(EpochEntry { epoch, start_offset });
        true
    }

    /// The largest epoch not above `requested` and the offset where it ends, for OffsetForLeaderEpoch and for divergence.
    /// `log_end_offset` ends the newest epoch. (-1, -1) if nothing is known of it.
    pub fn end_offset_for(&self, requested: LeaderEpoch, log_end_offset: Offset) -> (LeaderEpoch, Offset) {
        if requested == UNDEFINED_EPOCH {
            return (UNDEFINED_EPOCH, UNDEFINED_OFFSET);
        }
        if self.latest().is_some_and(|latest| latest.epoch == requested) {
            return (requested, log_end_offset);
        }
        let above = self.entries.partition_point(|entry| entry.epoch <= requested);
        match (above.checked_sub(1).and_then(|at| self.entries.get(at)), self.entries.get(above)) {
            (_, None) => (UNDEFINED_EPOCH, UNDEFINED_OFFSET),
            // Older than anything kept: its records are gone, and the first kept epoch begins where it ended at the latest.
            (None, Some(next)) => (requested, next.start_offset),
            (Some(at), Some(next)) => (at.epoch, next.start_offset),
        }
    }

    /// The epoch that wrote the record at `offset`.
    pub fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        let after = self.entries.partition_point(|entry| entry.start_offset <= offset);
        after.checked_sub(1).and_then(|at| self.entries.get(at)).map(|entry| entry.epoch)
    }

    /// Forgets epochs that wrote nothing before `end_offset`, after the log's end was cut to it. Gives whether any went.
    pub fn truncate_from_end(&mut self, end_offset: Offset) -> bool {
        let before = self.entries.len();
        if end_offset >= 0 {
            self.entries.retain(|entry| entry.start_offset < end_offset);
        }
        self.entries.len() != before
    }

    /// Forgets epochs that ended at or before `start_offset`, after the log's start moved to it; the epoch that contains it
    /// begins there now. Gives whether anything changed.
    pub fn truncate_from_start(&mut self, start_offset: Offset) -> bool {
        let count = self.entries.partition_point(|entry| entry.start_offset <= start_offset);
        let Some(last) = count.checked_sub(1).and_then(|at| self.entries.get_mut(at)) else {
            return false;
        };
        let changed = count > 1 || last.start_offset != start_offset;
        last.start_offset = start_offset;
        self.entries.drain(..count - 1);
        changed
    }

    /// Forgets everything.
    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn history(entries: &[(i32, i64)]) -> EpochHistory {
        EpochHistory::from_entries(entries.iter().map(|&(epoch, start_offset)| EpochEntry { epoch, start_offset }))
    }

    fn plain(history: &EpochHistory) -> Vec<(i32, i64)> {
        history.entries().iter().map(|entry| (entry.epoch, entry.start_offset)).collect()
    }

    #[test]
    fn assigning_keeps_epochs_and_offsets_rising() {
        // What is there, what is assigned, whether it changes anything, what is there then (LeaderEpochFileCacheTest).
        type Case<'a> = (&'a [(i32, i64)], (i32, i64), bool, &'a [(i32, i64)]);
        let cases: [Case<'_>; 8] = [
            (&[], (2, 10), true, &[(2, 10)]),
            (&[(2, 6)], (2, 7), false, &[(2, 6)]),
            (&[(2, 6)], (2, 5), true, &[(2, 5)]),
            (&[(1, 2), (2, 6)], (3, 6), true, &[(1, 2), (3, 6)]),
            (&[(1, 5), (2, 6), (3, 7)], (1, 5), true, &[(1, 5)]),
            (&[(1, 5), (2, 6), (3, 7)], (4, 6), true, &[(1, 5), (4, 6)]),
            (&[(1, 5)], (-1, 9), false, &[(1, 5)]),
            (&[(1, 5)], (2, -9), false, &[(1, 5)]),
        ];
        for (before, (epoch, offset), changed, after) in cases {
            let mut history = history(before);
            assert_eq!(history.assign(epoch, offset), changed, "{before:?} {epoch} {offset}");
            assert_eq!(plain(&history), after);
        }
    }

    #[test]
    fn the_end_of_an_epoch_is_the_start_of_the_next() {
        let history = history(&[(2, 13), (5, 16), (8, 20)]);
        let cases = [
            (-1, (-1, -1)),
            (0, (0, 13)),
            (1, (1, 13)),
            (2, (2, 16)),
            (4, (2, 16)),
            (5, (5, 20)),
            (7, (5, 20)),
            (8, (8, 99)),
            (9, (-1, -1)),
        ];
        for (requested, expected) in cases {
            assert_eq!(history.end_offset_for(requested, 99), expected, "{requested}");
        }
        assert_eq!(EpochHistory::default().end_offset_for(0, 99), (-1, -1));
    }

    #[test]
    fn truncation_forgets_what_is_gone() {
        let full = [(2, 6), (3, 8), (4, 11)];
        for (end, left) in [(11, 2), (9, 2), (8, 1), (1, 0), (12, 3), (-1, 3)] {
            let mut history = history(&full);
            assert_eq!(history.truncate_from_end(end), left != 3);
            assert_eq!(plain(&history), full[..left], "{end}");
        }
        let cases: [(i64, &[(i32, i64)]); 6] = [
            (5, &[(2, 6), (3, 8), (4, 11)]),
            (6, &[(2, 6), (3, 8), (4, 11)]),
            (7, &[(2, 7), (3, 8), (4, 11)]),
            (8, &[(3, 8), (4, 11)]),
            (10, &[(3, 10), (4, 11)]),
            (15, &[(4, 15)]),
        ];
        for (start, left) in cases {
            let mut history = history(&full);
            assert_eq!(history.truncate_from_start(start), left != full, "{start}");
            assert_eq!(plain(&history), left, "{start}");
        }
    }

    #[test]
    fn the_epoch_of_an_offset_is_that_of_the_last_start() {
        let history = history(&[(2, 6), (3, 8), (4, 11)]);
        for (offset, epoch) in [(5, None), (6, Some(2)), (7, Some(2)), (8, Some(3)), (11, Some(4)), (99, Some(4))] {
            assert_eq!(history.epoch_of(offset), epoch, "{offset}");
        }
    }

    proptest! {
        #[test]
        fn no_order_of_assignments_breaks_the_order(steps in proptest::collection::vec((-1..9_i32, -1..30_i64), 0..40)) {
            let mut history = EpochHistory::default();
            for (epoch, start) in steps {
                history.assign(epoch, start);
                let rising = history.entries().windows(2).all(|w| w[0].epoch < w[1].epoch && w[0].start_offset < w[1].start_offset);
                prop_assert!(rising, "{history:?}");
            }
        }
    }
}
