//! Appends with acks=all on their way to being committed: a request waits once, for all its partitions.

use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_runtime::time;

use super::Place;
use crate::replica::{CommitWait, Partition};

/// An append that is acknowledged when all replicas in sync have it.
pub(super) struct Committing {
    pub(super) partition: Arc<Partition>,
    /// Where it ends.
    pub(super) end: Offset,
    /// The leadership in which it was made.
    pub(super) leader_epoch: LeaderEpoch,
}

/// The appends of one request that are waited for, for as long as this lives.
pub(super) struct Commits {
    wait: Arc<CommitWait>,
    appends: Vec<(Committing, Place)>,
}

impl Commits {
    /// Begins to wait for `appends`; `None` = there are none.
    pub(super) fn begin(appends: Vec<(Committing, Place)>) -> Option<Self> {
        if appends.is_empty() {
            return None;
        }
        let wait = CommitWait::new(appends.len());
        for (number, (append, _)) in appends.iter().enumerate() {
            append.partition.await_commit(&wait, number, append.end, append.leader_epoch);
        }
        Some(Self { wait, appends })
    }

    /// Whether there is nothing to wait for.
    pub(super) fn is_done(&self) -> bool {
        self.wait.is_done()
    }

    /// Waits until the fate of all appends is known, at most until `deadline`.
    pub(super) async fn done(&self, deadline: time::Instant) {
        // What is not known by then is told as that.
        let _ = time::timeout_at(deadline, self.wait.done()).await;
    }

    /// The appends that are not acknowledged: where their answers stand, their partitions, and why.
    pub(super) fn failed(&self) -> impl Iterator<Item = (Place, &Arc<Partition>, ErrorCode)> {
        self.appends.iter().enumerate().filter_map(|(number, (append, place))| {
            let error = match self.wait.outcome(number) {
                Some(Ok(())) => return None,
                Some(Err(error)) => error,
                None => ErrorCode::RequestTimedOut,
            };
            Some((*place, &append.partition, error))
        })
    }
}

impl Drop for Commits {
    fn drop(&mut self) {
        // Those whose fate is known were taken out then.
        if !self.is_done() {
            for (append, _) in &self.appends {
                append.partition.await_no_commit(&self.wait, append.end);
            }
        }
    }
}
