//! Produce requests with acks=all that wait until what they appended is committed.
//!
//! A request has one [`CommitWait`] for all its partitions, and stands in each of them under the offset that it waits for.
//! Whoever moves the high watermark takes out those that it has reached, with what they are told; when leadership goes, all
//! of them go with it.

use std::collections::BTreeMap;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicI16, AtomicUsize, Ordering};
use std::task::Poll;

use futures::task::AtomicWaker;
use parking_lot::Mutex;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Offset;

/// The outcome of an append that is not known yet: no error code of Kafka.
const PENDING: i16 = i16::MIN;

/// One waiting request.
pub(crate) struct CommitWait {
    /// The error codes of its appends.
    outcomes: Vec<AtomicI16>,
    missing: AtomicUsize,
    waker: AtomicWaker,
}

impl CommitWait {
    /// A request that waits for `count` appends.
    pub(crate) fn new(count: usize) -> Arc<Self> {
        let outcomes = (0..count).map(|_| AtomicI16::new(PENDING)).collect();
        Arc::new(Self { outcomes, missing: AtomicUsize::new(count), waker: AtomicWaker::new() })
    }

    /// The outcome of append `number` is known; the first one counts.
    pub(super) fn settle(&self, number: usize, outcome: Result<(), ErrorCode>) {
        let code = outcome.err().unwrap_or(ErrorCode::None).code();
        let is_first = self
            .outcomes
            .get(number)
            .is_some_and(|known| known.compare_exchange(PENDING, code, Ordering::AcqRel, Ordering::Acquire).is_ok());
        if is_first && self.missing.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.waker.wake();
        }
    }

    /// Whether all outcomes are known.
    pub(crate) fn is_done(&self) -> bool {
        self.missing.load(Ordering::Acquire) == 0
    }

    /// Waits for all outcomes.
    pub(crate) async fn done(&self) {
        poll_fn(|context| {
            self.waker.register(context.waker());
            if self.is_done() { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// The outcome of append `number`; `None` = not known yet.
    pub(crate) fn outcome(&self, number: usize) -> Option<Result<(), ErrorCode>> {
        match self.outcomes.get(number)?.load(Ordering::Acquire) {
            PENDING => None,
            code => match ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError) {
                ErrorCode::None => Some(Ok(())),
                error => Some(Err(error)),
            },
        }
    }
}

/// The offset up to which must be committed, and a place among those who wait for the same.
type Place = (Offset, usize);

/// Who waits, and which of its appends that is.
type Waiting = (Arc<CommitWait>, usize);

/// The appends of one partition that are waited for.
#[derive(Default)]
pub(super) struct Commits {
    waiting: Mutex<BTreeMap<Place, Waiting>>,
    count: AtomicUsize,
}

impl Commits {
    /// Append `number` of `wait` is to be told when everything before `end` is committed. Whoever calls this keeps the high
    /// watermark from moving meanwhile.
    pub(super) fn enter(&self, wait: &Arc<CommitWait>, number: usize, end: Offset) {
        let mut waiting = self.waiting.lock();
        let last = waiting.range((end, 0)..=(end, usize::MAX)).next_back();
        let place = last.map_or(0, |((_, place), _)| place + 1);
        waiting.insert((end, place), (Arc::clone(wait), number));
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// Nobody waits for it any more.
    pub(super) fn leave(&self, wait: &Arc<CommitWait>, end: Offset) {
        let mut waiting = self.waiting.lock();
        let same_end = waiting.range((end, 0)..=(end, usize::MAX));
        let own = same_end.filter(|(_, (other, _))| Arc::ptr_eq(other, wait)).map(|(place, _)| *place);
        for place in own.collect::<Vec<_>>() {
            waiting.remove(&place);
        }
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// Everything before `high_watermark` is committed; tells whoever waited for that.
    pub(super) fn reach(&self, high_watermark: Offset, outcome: impl Fn() -> Result<(), ErrorCode>) {
        if self.count.load(Ordering::Acquire) == 0 {
            return;
        }
        let mut waiting = self.waiting.lock();
        while let Some(first) = waiting.first_entry().filter(|first| first.key().0 <= high_watermark) {
            let (wait, number) = first.remove();
            wait.settle(number, outcome());
        }
        self.count.store(waiting.len(), Ordering::Release);
    }

    /// Nothing of it will be committed as far as this broker can tell.
    pub(super) fn fail(&self, error: ErrorCode) {
        let mut waiting = self.waiting.lock();
        for (wait, number) in std::mem::take(&mut *waiting).into_values() {
            wait.settle(number, Err(error));
        }
        self.count.store(0, Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_done_when_all_its_appends_are_decided_and_each_has_its_own_outcome() {
        let (first, second) = (Commits::default(), Commits::default());
        let wait = CommitWait::new(2);
        first.enter(&wait, 0, 10);
        second.enter(&wait, 1, 7);
        first.reach(9, || Ok(()));
        assert_eq!((wait.outcome(0), wait.is_done()), (None, false), "one record is missing");
        first.reach(10, || Err(ErrorCode::NotEnoughReplicasAfterAppend));
        assert!(!wait.is_done());
        second.fail(ErrorCode::NotLeaderOrFollower);
        assert!(wait.is_done());
        assert_eq!(wait.outcome(0), Some(Err(ErrorCode::NotEnoughReplicasAfterAppend)));
        assert_eq!(wait.outcome(1), Some(Err(ErrorCode::NotLeaderOrFollower)));
    }

    #[test]
    fn the_high_watermark_takes_out_whom_it_has_reached_and_no_others() {
        let commits = Commits::default();
        let waits: Vec<_> = (0..4).map(|_| CommitWait::new(1)).collect();
        for (wait, end) in waits.iter().zip([5, 3, 9, 5]) {
            commits.enter(wait, 0, end);
        }
        commits.leave(&waits[3], 5);
        commits.reach(5, || Ok(()));
        let done: Vec<bool> = waits.iter().map(|wait| wait.is_done()).collect();
        assert_eq!(done, [true, true, false, false], "one had left");
        assert_eq!(commits.waiting.lock().len(), 1);
        commits.reach(9, || Ok(()));
        assert_eq!(waits[2].outcome(0), Some(Ok(())));
    }
}
