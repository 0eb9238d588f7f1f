//! Requests by kind, and how long they took in each stage.
//!
//! A request is counted once, when its answer has been sent, by a few additions to counts of the thread's own. Stages that
//! took no time to speak of are not counted at all: how many they are follows from how many requests there were.

mod kind;
mod spread;
mod told;

use std::cell::Cell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::Registry;
use taffrail_runtime::time::{self, Instant};

pub(crate) use kind::RequestKind;
use spread::{Counts, Spread};
use told::Told;

use super::register;

/// Threads that count apart from each other; more share.
const THREADS_MAX: usize = 16;

/// A stage that took less is as good as one that took no time.
const NO_TIME: Duration = Duration::from_micros(1);

/// What a request goes through.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stage {
    /// From the arrival of its last byte until it is worked on: earlier requests of its connection come first.
    Queue,
    /// It is worked on here.
    Local,
    /// It waits for others: followers, the disk, records, members of a group, controllers.
    Remote,
    /// Its answer waits for those to earlier requests of its connection.
    ResponseQueue,
    /// Its answer is being sent.
    ResponseSend,
    /// All of that.
    Total,
}

impl Stage {
    pub(super) const COUNT: usize = 6;
    pub(super) const ALL: [Self; Self::COUNT] =
        [Self::Queue, Self::Local, Self::Remote, Self::ResponseQueue, Self::ResponseSend, Self::Total];
}

/// When what happened to a request, up to its answer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Times {
    /// Which request.
    pub(crate) kind: RequestKind,
    /// Its last byte came.
    pub(crate) arrived: Instant,
    /// Work on it began.
    pub(crate) started: Instant,
    /// It began to wait for others, if it did.
    pub(crate) waited_since: Option<Instant>,
    /// Its answer was made.
    pub(crate) answered: Instant,
}

impl Times {
    /// A request that is answered now.
    pub(crate) fn answered_now(kind: RequestKind, arrived: Instant, started: Instant) -> Self {
        Self { kind, arrived, started, waited_since: None, answered: time::monotonic() }
    }

    /// How long each stage took, in their order.
    fn stages(&self, taken: Instant, sent: Instant) -> [Duration; Stage::COUNT] {
        let waits = self.waited_since.unwrap_or(self.answered);
        [
            self.started - self.arrived,
            waits - self.started,
            self.answered - waits,
            taken - self.answered,
            sent - taken,
            sent - self.arrived,
        ]
    }
}

/// What has been counted of one kind by one thread.
type OfKind = [Counts; Stage::COUNT];

/// What has been counted by one thread. Kinds that never come take no room.
type OfThread = [OnceLock<Box<OfKind>>; RequestKind::COUNT];

/// All that has been counted. Clones share it.
#[derive(Clone)]
pub(crate) struct RequestMetrics {
    threads: Arc<[OfThread; THREADS_MAX]>,
}

impl RequestMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let metrics =
            Self { threads: Arc::new([const { [const { OnceLock::new() }; RequestKind::COUNT] }; THREADS_MAX]) };
        register(registry, Told::new(metrics.clone()));
        metrics
    }

    /// A request's answer was taken to be sent at `taken`, and has been sent at `sent`.
    pub(crate) fn sent(&self, times: &Times, taken: Instant, sent: Instant) {
        let cell = &self.threads[thread_number()][times.kind.index()];
        let counts = cell.get_or_init(|| Box::new(std::array::from_fn(|_| Counts::default())));
        for ((stage, took), counts) in Stage::ALL.into_iter().zip(times.stages(taken, sent)).zip(counts.iter()) {
            if took >= NO_TIME || stage == Stage::Total {
                counts.add(took);
            }
        }
    }

    /// A request is done with that gets no answer.
    pub(crate) fn unanswered(&self, times: &Times) {
        self.sent(times, times.answered, times.answered);
    }

    /// How long each stage took of each kind that came, in the order of kinds.
    fn read(&self) -> Vec<(RequestKind, Box<[Spread; Stage::COUNT]>)> {
        let of_kind = |kind: RequestKind| {
            let mut spreads: Box<[Spread; Stage::COUNT]> = Box::default();
            for counts in self.threads.iter().filter_map(|thread| thread[kind.index()].get()) {
                for (spread, counts) in spreads.iter_mut().zip(counts.iter()) {
                    spread.take_in(counts);
                }
            }
            let count = spreads[Stage::Total as usize].count();
            spreads.iter_mut().for_each(|spread| spread.fill_up_to(count));
            (count > 0).then_some((kind, spreads))
        };
        RequestKind::all().filter_map(of_kind).collect()
    }
}

/// The number of this thread among those that count.
fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static OWN: Cell<Option<usize>> = const { Cell::new(None) };
    }
    OWN.with(|own| {
        let number = own.get().unwrap_or_else(|| NEXT.fetch_add(1, Ordering::Relaxed) % THREADS_MAX);
        own.set(Some(number));
        number
    })
}

#[cfg(test)]
mod tests {
    use taffrail_protocol::versions::ApiKey;

    use super::*;

    #[test]
    fn a_request_is_told_by_stages_that_make_up_the_whole() {
        let metrics = RequestMetrics::new(&Registry::new());
        let arrived = time::monotonic();
        let at = |us: u64| arrived + Duration::from_micros(us);
        let kind = RequestKind::of(ApiKey::Produce);
        let waiting = Times { kind, arrived, started: at(10), waited_since: Some(at(30)), answered: at(90) };
        metrics.sent(&waiting, at(90), at(100));
        metrics.unanswered(&Times { waited_since: None, ..waiting });
        let read = metrics.read();
        let [(told, spreads)] = read.as_slice() else { panic!("{} kinds", read.len()) };
        assert_eq!(*told, kind);
        let sums_us = [20, 100, 60, 0, 10, 190];
        for ((stage, spread), sum_us) in Stage::ALL.iter().zip(spreads.iter()).zip(sums_us) {
            assert_eq!(spread.count(), 2, "{stage:?}");
            assert_eq!((spread.sum_seconds() * 1e6).round(), f64::from(sum_us), "{stage:?}");
        }
    }
}
