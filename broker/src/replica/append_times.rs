//! When the records of a partition were appended: sampled spans, from which the age of a record follows that no consumer
//! has read yet. Producers' timestamps say when something happened somewhere, which may be long ago or never.
//!
//! An append costs two atomic accesses; once a second it also notes a span. There are few spans: where there would be too
//! many, the two are joined whose joining blurs the age of their records least, so that young records have exact ages and
//! old ones nearly so.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicI64, Ordering};

use parking_lot::Mutex;
use taffrail_core::ids::Offset;

/// Spans that are kept.
const SPANS_MAX: usize = 32;

/// Least time between the beginnings of two spans.
const INTERVAL_MS: i64 = 1_000;

/// Records that were appended one after another. Times are milliseconds since 1970.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: Offset,
    from_ms: i64,
    until_ms: i64,
}

/// The append times of one partition.
#[derive(Debug, Default)]
pub(crate) struct AppendTimes {
    /// When the next span begins.
    due_ms: AtomicI64,
    last_ms: AtomicI64,
    spans: Mutex<VecDeque<Span>>,
}

impl AppendTimes {
    /// Records from `first` on are appended at `now_ms`. What was noted of these offsets before counts no more.
    pub(crate) fn note(&self, first: Offset, now_ms: i64) {
        let due_ms = self.due_ms.load(Ordering::Relaxed);
        // A clock that was set back must not end the notes until it has caught up.
        if now_ms < due_ms && due_ms - now_ms <= INTERVAL_MS {
            self.last_ms.store(now_ms, Ordering::Relaxed);
            return;
        }
        let mut spans = self.spans.lock();
        let last_ms = self.last_ms.swap(now_ms, Ordering::Relaxed);
        self.due_ms.store(now_ms + INTERVAL_MS, Ordering::Relaxed);
        while spans.back().is_some_and(|span| span.first >= first) {
            spans.pop_back();
        }
        if let Some(last) = spans.back_mut() {
            last.until_ms = last_ms.max(last.from_ms);
        }
        spans.push_back(Span { first, from_ms: now_ms, until_ms: now_ms });
        if spans.len() > SPANS_MAX {
            thin(&mut spans, now_ms);
        }
    }

    /// When the record at `offset` was appended, as far as that is known: in milliseconds since 1970, for a log that ends at
    /// `end`. `None` = before the first note.
    pub(crate) fn of(&self, offset: Offset, end: Offset) -> Option<i64> {
        let spans = self.spans.lock();
        let at = spans.partition_point(|span| span.first <= offset).checked_sub(1)?;
        let span = spans.get(at)?;
        let (next, until_ms) = match spans.get(at + 1) {
            Some(next) => (next.first, span.until_ms),
            None => (end, self.last_ms.load(Ordering::Relaxed).max(span.from_ms)),
        };
        let records = i128::from((next - span.first).max(1));
        let share = i128::from(until_ms - span.from_ms) * i128::from(offset - span.first) / records;
        Some(span.from_ms + i64::try_from(share).unwrap_or(0).min(until_ms - span.from_ms))
    }
}

/// Joins the two neighbours whose records differ least in age, compared with how old they are.
fn thin(spans: &mut VecDeque<Span>, now_ms: i64) {
    let blur = |at: usize| {
        let (from_ms, until_ms) = (spans[at].from_ms, spans[at + 1].until_ms);
        // The newest record of the joined span decides how much its length matters.
        (until_ms - from_ms) as f64 / (now_ms - until_ms).max(INTERVAL_MS) as f64
    };
    // The span that grows stays as it is.
    let least = (0..spans.len().saturating_sub(2)).min_by(|one, other| blur(*one).total_cmp(&blur(*other)));
    if let Some(at) = least
        && let Some(joined) = spans.remove(at + 1)
    {
        spans[at].until_ms = joined.until_ms;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_of_the_last_seconds_have_their_ages_to_a_tenth() {
        let times = AppendTimes::default();
        // Ten records every 100 ms.
        for append in 0..200 {
            times.note(append * 10, 1_000_000 + append * 100);
        }
        for offset in (0..2_000).step_by(7) {
            let (told, truth) = (times.of(offset, 2_000).unwrap(), 1_000_000 + offset / 10 * 100);
            assert!((told - truth).abs() <= 100, "{offset}: {told} instead of {truth}");
        }
    }

    #[test]
    fn a_pause_makes_no_record_before_it_younger() {
        let times = AppendTimes::default();
        times.note(0, 1_000);
        times.note(10, 1_500);
        times.note(20, 3_600_000);
        assert_eq!(times.of(0, 30), Some(1_000));
        assert!((1_000..=1_500).contains(&times.of(19, 30).unwrap()));
        assert_eq!(times.of(20, 30), Some(3_600_000));
    }

    #[test]
    fn old_records_keep_ages_that_are_nearly_right_with_few_spans() {
        let times = AppendTimes::default();
        let now_ms = 7 * 24 * 3_600_000;
        for at_ms in (0..now_ms).step_by(1_000) {
            times.note(at_ms, at_ms);
        }
        assert!(times.spans.lock().len() <= SPANS_MAX);
        for age_ms in [5_000, 60_000, 3_600_000, 24 * 3_600_000, 6 * 24 * 3_600_000] {
            let told = now_ms - times.of(now_ms - age_ms, now_ms).unwrap();
            assert!((told - age_ms).abs() <= 2_000.max(age_ms / 10), "{told} instead of {age_ms}");
        }
    }

    #[test]
    fn what_was_cut_and_written_anew_has_the_age_of_the_new_records() {
        let times = AppendTimes::default();
        [(0, 1_000), (10, 3_000), (20, 5_000)].into_iter().for_each(|(first, at_ms)| times.note(first, at_ms));
        times.note(5, 9_000);
        assert_eq!(times.of(5, 15), Some(9_000));
        assert_eq!(times.of(14, 15), Some(9_000));
        assert!(times.of(4, 15).unwrap() <= 5_000);
    }

    #[test]
    fn before_the_first_note_nothing_is_known_and_a_clock_set_back_ends_nothing() {
        let times = AppendTimes::default();
        assert_eq!(times.of(3, 9), None);
        times.note(5, 1_000_000);
        assert_eq!(times.of(4, 9), None);
        times.note(7, 5_000);
        assert_eq!(times.of(7, 9), Some(5_000));
    }
}
