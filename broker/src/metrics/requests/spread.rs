//! How long something took, many times over: counts by how long, from which quantiles and histograms are read.
//!
//! Limits are round numbers of microseconds, ten in each power of ten, so that a quantile is right within a tenth and every
//! limit of a histogram is one of them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Powers of ten above the first microseconds: up to 80 seconds.
const DECADES: usize = 7;
const FIRST: [u32; 7] = [1, 2, 3, 4, 5, 6, 8];
const OF_DECADE: [u32; 10] = [10, 12, 15, 20, 25, 30, 40, 50, 60, 80];
const LIMITS: usize = FIRST.len() + DECADES * OF_DECADE.len();

/// Counts: one up to each limit, and one of what took longer than the last.
pub(super) const COUNTS: usize = LIMITS + 1;

/// The limits in microseconds; each belongs to the count below it.
const LIMITS_US: [u32; LIMITS] = limits();

/// For each number of binary digits, the first limit that a number with so many may be below.
const STARTS: [u8; 33] = starts();

const fn limits() -> [u32; LIMITS] {
    let mut limits = [0; LIMITS];
    let mut at = 0;
    while at < FIRST.len() {
        limits[at] = FIRST[at];
        at += 1;
    }
    let mut power = 1;
    while at < LIMITS {
        let mut step = 0;
        while step < OF_DECADE.len() {
            limits[at] = OF_DECADE[step] * power;
            at += 1;
            step += 1;
        }
        if at < LIMITS {
            power *= 10;
        }
    }
    limits
}

const fn starts() -> [u8; 33] {
    let mut starts = [0; 33];
    let mut digits = 1;
    while digits <= 32 {
        let least = 1u32 << (digits - 1);
        let mut at = starts[digits - 1] as usize;
        while at < LIMITS && LIMITS_US[at] < least {
            at += 1;
        }
        starts[digits] = at as u8;
        digits += 1;
    }
    starts
}

/// Which count a duration belongs to.
fn count_of(took: Duration) -> usize {
    // Rounded up, so that a duration is counted at a limit that it does not exceed.
    let us = u32::try_from(took.as_nanos().div_ceil(1_000)).unwrap_or(u32::MAX);
    let mut at = usize::from(STARTS[(u32::BITS - us.leading_zeros()) as usize]);
    while LIMITS_US.get(at).is_some_and(|limit| *limit < us) {
        at += 1;
    }
    at
}

/// Counts that are added to.
pub(super) struct Counts {
    counts: [AtomicU64; COUNTS],
    sum_ns: AtomicU64,
}

impl Default for Counts {
    fn default() -> Self {
        Self { counts: [const { AtomicU64::new(0) }; COUNTS], sum_ns: AtomicU64::new(0) }
    }
}

impl Counts {
    /// Adds one.
    pub(super) fn add(&self, took: Duration) {
        self.counts[count_of(took)].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(u64::try_from(took.as_nanos()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }
}

/// Counts at one moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Spread {
    counts: [u64; COUNTS],
    sum_ns: u64,
}

impl Default for Spread {
    fn default() -> Self {
        Self { counts: [0; COUNTS], sum_ns: 0 }
    }
}

impl Spread {
    /// Adds what has been counted in `counts`.
    pub(super) fn take_in(&mut self, counts: &Counts) {
        for (own, theirs) in self.counts.iter_mut().zip(&counts.counts) {
            *own += theirs.load(Ordering::Relaxed);
        }
        self.sum_ns += counts.sum_ns.load(Ordering::Relaxed);
    }

    /// Adds another.
    pub(super) fn merge(&mut self, other: &Self) {
        for (own, theirs) in self.counts.iter_mut().zip(&other.counts) {
            *own += theirs;
        }
        self.sum_ns += other.sum_ns;
    }

    /// What came since `earlier`.
    pub(super) fn since(&self, earlier: &Self) -> Self {
        let mut rest = self.clone();
        for (own, theirs) in rest.counts.iter_mut().zip(&earlier.counts) {
            *own = own.saturating_sub(*theirs);
        }
        rest.sum_ns = rest.sum_ns.saturating_sub(earlier.sum_ns);
        rest
    }

    /// Adds durations of no length, so that there are `count` of all.
    pub(super) fn fill_up_to(&mut self, count: u64) {
        self.counts[0] += count.saturating_sub(self.count());
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// All of them together, in seconds.
    pub(super) fn sum_seconds(&self) -> f64 {
        self.sum_ns as f64 / 1e9
    }

    /// How many took no longer than a limit, which is one of ours.
    pub(super) fn up_to(&self, limit: Duration) -> u64 {
        self.counts[..=count_of(limit)].iter().sum()
    }

    /// The duration that a part of all, from 0 to 1, did not exceed, in milliseconds; `None` without any.
    pub(super) fn quantile_ms(&self, part: f64) -> Option<f64> {
        let count = self.count();
        if count == 0 {
            return None;
        }
        let rank = (part * count as f64).clamp(1.0, count as f64);
        let mut below = 0;
        for (at, here) in self.counts.iter().enumerate() {
            let reached = below + here;
            if reached as f64 >= rank {
                let floor = at.checked_sub(1).map_or(0, |before| LIMITS_US[before]);
                // What took longer than all limits is told as the last of them, as Prometheus does.
                let limit = LIMITS_US.get(at).copied().unwrap_or(floor);
                let within = (rank - below as f64) / *here as f64;
                return Some((f64::from(floor) + f64::from(limit - floor) * within) / 1e3);
            }
            below = reached;
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(micros: impl IntoIterator<Item = u64>) -> Spread {
        let counts = Counts::default();
        micros.into_iter().for_each(|us| counts.add(Duration::from_micros(us)));
        let mut spread = Spread::default();
        spread.take_in(&counts);
        spread
    }

    #[test]
    fn a_duration_is_counted_at_the_first_limit_that_it_does_not_exceed() {
        assert!(LIMITS_US.is_sorted_by(|one, next| one < next));
        assert_eq!(LIMITS_US.last(), Some(&80_000_000));
        for (at, limit) in LIMITS_US.iter().enumerate() {
            let limit = Duration::from_micros(u64::from(*limit));
            assert_eq!(count_of(limit), at, "{limit:?}");
            assert_eq!(count_of(limit + Duration::from_nanos(1)), at + 1, "{limit:?} and a little");
        }
        assert_eq!(count_of(Duration::ZERO), 0);
        assert_eq!(count_of(Duration::MAX), LIMITS);
    }

    #[test]
    fn quantiles_are_near_to_those_of_what_was_counted() {
        let spread = of(1..=10_000);
        for (part, exact_ms) in [(0.5, 5.0), (0.95, 9.5), (0.99, 9.9)] {
            let told = spread.quantile_ms(part).unwrap();
            assert!((told - exact_ms).abs() <= exact_ms / 10.0, "{part}: {told} for {exact_ms}");
        }
        assert_eq!(Spread::default().quantile_ms(0.5), None);
        assert_eq!(of([100_000_000]).quantile_ms(0.5), Some(80_000.0), "as much as is known");
    }

    #[test]
    fn counts_up_to_a_limit_are_exact() {
        let spread = of([100, 101, 250, 251, 5_000_000]);
        assert_eq!(spread.up_to(Duration::from_micros(100)), 1);
        assert_eq!(spread.up_to(Duration::from_micros(250)), 3);
        assert_eq!(spread.up_to(Duration::from_secs(5)), 5);
        assert_eq!(spread.count(), 5);
        assert!((spread.sum_seconds() - 5.000_702).abs() < 1e-9, "{}", spread.sum_seconds());
    }

    #[test]
    fn what_took_no_time_is_added_where_it_is_known_how_many_there_are() {
        let mut spread = of([10]);
        spread.fill_up_to(3);
        assert_eq!((spread.count(), spread.up_to(Duration::from_micros(1))), (3, 2));
        let later = of([10, 20]);
        assert_eq!(later.since(&of([10])), of([20]));
    }
}
