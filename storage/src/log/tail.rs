//! The growing end of a log as readers see it: how far the active segment is valid, and what lies near its end.

use std::collections::VecDeque;

use taffrail_core::ids::Offset;

use crate::env::Env;
use crate::index::{Growing, OffsetEntry, TimeEntry};

/// Batches at the end whose place is known without asking the disk.
const MARKS_MAX: usize = 32;

/// Places at which readers stopped, and will most probably go on.
const STOPS_MAX: usize = 8;

/// Bytes between two marks of the clock of bytes.
const WARM_STEP_BYTES: u64 = 1 << 20;

/// Where a batch begins: the first offset it may contain, and the position in the segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Mark {
    pub(super) offset: Offset,
    pub(super) position: u32,
}

/// The end of a log. Guarded by a lock under which nothing is asked of the disk.
#[derive(Debug)]
pub(super) struct Tail {
    /// Base offset of the active segment.
    pub(super) base_offset: Offset,
    pub(super) end_offset: Offset,
    /// Valid bytes of the active segment.
    pub(super) position: u32,
    pub(super) offsets: Growing<OffsetEntry>,
    pub(super) times: Growing<TimeEntry>,
    marks: VecDeque<Mark>,
    stops: VecDeque<(Offset, Mark)>,
    /// The clock of bytes when the log was that long (in bytes appended to it), oldest first.
    warm: VecDeque<(u64, u64)>,
    appended: u64,
}

impl Tail {
    pub(super) fn new(
        base_offset: Offset,
        end_offset: Offset,
        position: u32,
        offsets: Growing<OffsetEntry>,
        times: Growing<TimeEntry>,
    ) -> Self {
        Self {
            base_offset,
            end_offset,
            position,
            offsets,
            times,
            marks: VecDeque::new(),
            stops: VecDeque::new(),
            warm: VecDeque::new(),
            appended: 0,
        }
    }

    /// Begins a new active segment at the end.
    pub(super) fn roll(&mut self, base_offset: Offset) {
        self.base_offset = base_offset;
        self.position = 0;
        self.offsets = Growing::new(0, None);
        self.times = Growing::new(0, None);
        self.marks = VecDeque::new();
    }

    /// Notes a batch that was appended.
    pub(super) fn push_mark(&mut self, offset: Offset, position: u32) {
        if self.marks.len() == MARKS_MAX {
            self.marks.pop_front();
        }
        self.marks.push_back(Mark { offset, position });
    }

    /// Where the batch that contains `offset` begins, if it is near the end. The end itself is known too.
    pub(super) fn find(&self, offset: Offset) -> Option<u32> {
        if offset >= self.end_offset {
            return (offset == self.end_offset).then_some(self.position);
        }
        let after = self.marks.partition_point(|mark| mark.offset <= offset);
        after.checked_sub(1).map(|at| self.marks[at].position)
    }

    /// Notes where a reader stopped in the segment at `base_offset`: at the batch that begins with `next`.
    pub(super) fn push_stop(&mut self, base_offset: Offset, next: Mark) {
        if self.stops.len() == STOPS_MAX {
            self.stops.pop_front();
        }
        self.stops.push_back((base_offset, next));
    }

    /// Where the batch that begins with `offset` is, if a reader stopped there; the stop is used up.
    pub(super) fn take_stop(&mut self, base_offset: Offset, offset: Offset) -> Option<u32> {
        let at = self.find_stop(base_offset, offset)?;
        self.stops.remove(at).map(|(_, mark)| mark.position)
    }

    /// The same, and the stop stays.
    pub(super) fn peek_stop(&self, base_offset: Offset, offset: Offset) -> Option<u32> {
        self.find_stop(base_offset, offset).map(|at| self.stops[at].1.position)
    }

    fn find_stop(&self, base_offset: Offset, offset: Offset) -> Option<usize> {
        self.stops.iter().position(|(base, mark)| *base == base_offset && mark.offset == offset)
    }

    /// Forgets where readers stopped, after batches have moved.
    pub(super) fn forget_stops(&mut self) {
        self.stops = VecDeque::new();
    }

    /// Notes that `bytes` were appended.
    pub(super) fn note_appended(&mut self, env: &Env, bytes: u64) {
        let before = env.count_appended(bytes) - bytes;
        if self.warm.back().is_none_or(|&(_, length)| self.appended >= length + WARM_STEP_BYTES) {
            while self.warm.front().is_some_and(|&(clock, _)| !env.is_recent(clock)) {
                self.warm.pop_front();
            }
            self.warm.push_back((before, self.appended));
        }
        self.appended += bytes;
    }

    /// Bytes that were appended to the log since it was opened.
    pub(super) fn appended(&self) -> u64 {
        self.appended
    }

    /// Whether what was appended when the log had this many appended bytes is most probably still in the page cache.
    pub(super) fn is_warm(&self, env: &Env, appended: i64) -> bool {
        let Ok(appended) = u64::try_from(appended) else { return false };
        // The newest mark that was set before the bytes in question came.
        let after = self.warm.partition_point(|&(_, at)| at <= appended);
        after.checked_sub(1).is_some_and(|at| env.is_recent(self.warm[at].0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail() -> Tail {
        Tail::new(100, 100, 0, Growing::new(0, None), Growing::new(0, None))
    }

    #[test]
    fn batches_near_the_end_are_found_and_older_ones_are_not() {
        let mut tail = tail();
        for n in 0..100_u32 {
            tail.push_mark(100 + i64::from(n) * 10, n * 70);
            tail.end_offset = 110 + i64::from(n) * 10;
            tail.position = (n + 1) * 70;
        }
        assert_eq!(tail.find(1100), Some(7000), "the end");
        assert_eq!(tail.find(1101), None);
        assert_eq!(tail.find(1099), Some(99 * 70));
        assert_eq!(tail.find(1090), Some(99 * 70));
        assert_eq!(tail.find(780), Some(68 * 70), "the oldest that is kept");
        assert_eq!(tail.find(779), None);
    }

    #[test]
    fn a_reader_goes_on_where_it_stopped() {
        let mut tail = tail();
        tail.push_stop(0, Mark { offset: 50, position: 900 });
        assert_eq!(tail.take_stop(100, 50), None, "another segment");
        assert_eq!(tail.take_stop(0, 51), None);
        assert_eq!(tail.take_stop(0, 50), Some(900));
        assert_eq!(tail.take_stop(0, 50), None);
    }
}
