//! What a follower does to a log that waits for the disk: cuts, beginnings anew, a new start. It runs on the disk pool, and
//! the partition is not fetched meanwhile.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use futures::stream::FuturesUnordered;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::image::PartitionKey;
use taffrail_core::partition::following::committed_loss;
use taffrail_core::record::Batch;
use taffrail_runtime::blocking::{Pool, PoolError};
use taffrail_runtime::time;
use taffrail_storage::{Log, LogError};

use super::plan::Place;
use crate::replica::{FollowError, Partition};

/// Work under way; no more than one job a partition.
pub(super) type Jobs = FuturesUnordered<Pin<Box<dyn Future<Output = Done>>>>;

/// What is to be done to a log.
#[derive(Debug)]
pub(super) enum Job {
    /// Cut everything from this offset on, which the leader has not.
    Truncate(Offset),
    /// Forget all and begin at this offset: the leader keeps nothing older.
    StartOver(Offset),
    /// Drop what is before this offset, as the leader has.
    RaiseStart(Offset),
    /// Begin anew with these batches, of which the first has records before the start of the log, which stays.
    BeginWith(Vec<Batch>),
}

/// A job that is over.
pub(super) struct Done {
    pub(super) key: PartitionKey,
    pub(super) partition: Arc<Partition>,
    /// What was cut of what had been committed: from the first offset up to, not including, the second.
    pub(super) loss: Option<(Offset, Offset)>,
    /// What was cut at all, likewise.
    pub(super) cut: Option<(Offset, Offset)>,
    pub(super) outcome: Result<(), JobError>,
}

/// Why a job was not done.
#[derive(Debug, thiserror::Error)]
pub(super) enum JobError {
    #[error(transparent)]
    Follow(#[from] FollowError),
    #[error(transparent)]
    Pool(#[from] PoolError),
}

/// Where a log is.
pub(super) fn place_of(log: &Log) -> Place {
    let offsets = log.offsets();
    let end = offsets.end_offset;
    // Not the latest epoch that the log knows: this broker may have led in that without appending anything.
    let last_epoch = if end > offsets.log_start_offset { log.epoch_of(end - 1) } else { None };
    Place { end, last_epoch: last_epoch.unwrap_or(-1), log_start: offsets.log_start_offset }
}

/// Does `job` on the pool, as the follower of the leader of `leader_epoch`.
pub(super) fn start(
    pool: &Pool,
    key: PartitionKey,
    partition: Arc<Partition>,
    leader_epoch: LeaderEpoch,
    job: Job,
) -> Pin<Box<dyn Future<Output = Done>>> {
    let pool = pool.clone();
    Box::pin(async move {
        let worker = Arc::clone(&partition);
        let work = pool.run(move || {
            let before = worker.log().offsets();
            let outcome = carry_out(&worker, leader_epoch, job);
            let end = worker.log().end_offset();
            let cut = (end < before.end_offset).then_some((end, before.end_offset));
            (outcome, cut, cut.and_then(|(from, _)| committed_loss(from, before.high_watermark)))
        });
        match work.await {
            Ok((outcome, cut, loss)) => Done { key, partition, loss, cut, outcome: outcome.map_err(JobError::from) },
            Err(error) => Done { key, partition, loss: None, cut: None, outcome: Err(error.into()) },
        }
    })
}

/// Waits until the records before `offset` are on the disk. The flusher does that for many logs at once.
pub(super) fn flush(
    key: PartitionKey,
    partition: Arc<Partition>,
    offset: Offset,
) -> Pin<Box<dyn Future<Output = Done>>> {
    Box::pin(async move {
        let flushed = partition.log().flush_to(offset).await;
        let outcome = flushed.map_err(|error| JobError::Follow(error.into()));
        Done { key, partition, loss: None, cut: None, outcome }
    })
}

fn carry_out(partition: &Partition, leader_epoch: LeaderEpoch, job: Job) -> Result<(), FollowError> {
    let now_ms = time::unix_ms();
    match job {
        Job::Truncate(offset) => partition.truncate(leader_epoch, offset, now_ms).map(drop),
        Job::StartOver(offset) => partition.start_over_at(leader_epoch, offset, now_ms),
        Job::RaiseStart(offset) => partition.raise_log_start(leader_epoch, offset),
        Job::BeginWith(batches) => {
            let log_start = partition.log().log_start_offset();
            let Some(first) = batches.first() else { return Ok(()) };
            partition.start_over_at(leader_epoch, first.header().base_offset, now_ms)?;
            partition.append_fetched(leader_epoch, &batches, log_start, log_start, now_ms)?;
            partition.raise_log_start(leader_epoch, log_start)
        }
    }
}

/// What a failure on the log means for the partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Setback {
    /// The metadata have told of another leadership, or of the partition's end.
    Superseded,
    /// It passes by itself.
    Passing,
    /// The log here does not serve; other partitions may.
    Broken,
}

/// Sorts failures of appends and jobs.
pub(super) fn setback(error: &FollowError) -> Setback {
    use taffrail_storage::AppendError as Append;
    match error {
        FollowError::Superseded(_) | FollowError::Append(Append::Deleted) | FollowError::Log(LogError::Deleted) => {
            Setback::Superseded
        }
        FollowError::Append(Append::Offline(_) | Append::Fenced(_))
        | FollowError::Log(LogError::Offline(_) | LogError::Fenced(_)) => Setback::Broken,
        FollowError::Append(_) | FollowError::Log(_) => Setback::Passing,
    }
}
