//! Background work: making logs durable in time, retention, checkpoints, removing files, forgetting producers, compaction.
//!
//! Nothing here walks over all partitions. A log that changes puts itself on a list once; everything that has to happen
//! later waits in a queue of deadlines. A thousand idle partitions cost nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use taffrail_core::ids::TopicPartition;
use taffrail_runtime::shutdown::Shutdown;
use taffrail_runtime::{task, time};

use crate::disk;
use crate::log::Log;
use crate::storage::Storage;

mod deadlines;

use deadlines::Deadlines;

/// How often the lists are looked at while there is something on them.
const ROUND: Duration = Duration::from_millis(100);

/// How often it is looked whether the data directory is still there.
const PRESENCE_MS: i64 = 1_000;

/// Bytes past the recovery point after which a log is made durable at the next checkpoint, so that a start after a crash
/// has no more than this to look at in a partition.
const UNRECOVERED_BYTES_MAX: u64 = 64 << 20;

/// Logs that are made durable at once by a checkpoint.
const CHECKPOINTS_AT_ONCE: usize = 32;

/// Something that is due at a time.
#[derive(Debug)]
enum Due {
    /// `flush.ms` is over for a log.
    Flush(TopicPartition),
    /// The oldest segment of a log may be too old.
    Retain(TopicPartition),
    /// A producer of a log may have been silent for too long.
    Expire(TopicPartition),
    /// A file or folder has been kept long enough.
    Remove(PathBuf),
}

/// A file or folder that is to be removed.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) path: PathBuf,
    pub(crate) delay_ms: i64,
}

/// The background work of a storage. One of these runs for each storage.
pub struct Maintenance {
    storage: Arc<Storage>,
    deadlines: Deadlines<Due>,
    flushes: BTreeSet<TopicPartition>,
    expiries: BTreeSet<TopicPartition>,
    retentions: BTreeMap<TopicPartition, i64>,
    to_retain: BTreeMap<TopicPartition, Weak<Log>>,
    to_checkpoint: BTreeMap<TopicPartition, Weak<Log>>,
    to_note: BTreeMap<TopicPartition, Weak<Log>>,
    to_compact: BTreeSet<TopicPartition>,
    next_retention_ms: i64,
    next_checkpoint_ms: i64,
    next_high_watermark_ms: i64,
    next_compaction_ms: i64,
    next_presence_ms: i64,
}

impl Maintenance {
    /// The background work of `storage`.
    pub fn new(storage: Arc<Storage>) -> Self {
        Self {
            storage,
            deadlines: Deadlines::default(),
            flushes: BTreeSet::new(),
            expiries: BTreeSet::new(),
            retentions: BTreeMap::new(),
            to_retain: BTreeMap::new(),
            to_checkpoint: BTreeMap::new(),
            to_note: BTreeMap::new(),
            to_compact: BTreeSet::new(),
            next_retention_ms: 0,
            next_checkpoint_ms: 0,
            next_high_watermark_ms: 0,
            next_compaction_ms: 0,
            next_presence_ms: 0,
        }
    }

    /// Works until the word to stop is given.
    pub async fn run(mut self, shutdown: Shutdown) {
        while !shutdown.is_triggered() {
            self.round(time::unix_ms()).await;
            // The end of the waits and the word to stop lead to the same question. What is noted meanwhile comes together.
            let _ = time::timeout(ROUND, shutdown.triggered()).await;
            let rest = self.rest(time::unix_ms());
            tokio::select! {
                () = shutdown.triggered() => {}
                () = self.storage.env.noted() => {}
                () = time::sleep(rest) => {}
            }
        }
    }

    /// How long nothing is due, if nothing is noted.
    fn rest(&self, now_ms: i64) -> Duration {
        let periodic = [
            (true, self.next_presence_ms),
            (true, self.next_retention_ms),
            (!self.to_checkpoint.is_empty(), self.next_checkpoint_ms),
            (!self.to_note.is_empty(), self.next_high_watermark_ms),
            (!self.to_compact.is_empty(), self.next_compaction_ms),
        ];
        let periodic = periodic.into_iter().filter(|(is_wanted, _)| *is_wanted).map(|(_, next_ms)| next_ms);
        let next_ms = periodic.chain(self.deadlines.next_ms()).min().unwrap_or(i64::MAX);
        // The clock can be set, and what measures rests cannot: none is longer than the shortest period.
        let rest_ms = next_ms.saturating_sub(now_ms).clamp(0, PRESENCE_MS);
        Duration::from_millis(rest_ms.unsigned_abs())
    }

    /// Does what is due at `now_ms`. A clock that was set back delays work; it never makes it wrong.
    pub async fn round(&mut self, now_ms: i64) {
        if self.storage.env.presence.is_lost() {
            return;
        }
        if is_due(&mut self.next_presence_ms, now_ms, PRESENCE_MS) {
            let env = Arc::clone(&self.storage.env);
            // Losing this job to a full queue only means looking again later.
            let _ = self.storage.pool.run(move || env.check_presence()).await;
        }
        self.storage.env.flusher.work_here();
        self.take_lists(now_ms);
        while let Some(due) = self.deadlines.pop(now_ms) {
            self.handle(due, now_ms).await;
        }
        let options = &self.storage.options;
        let (retention_ms, checkpoint_ms) = (options.retention_check_ms, options.checkpoint_ms);
        let high_watermark_ms = options.high_watermark_ms;
        let (compacts, compaction_ms) = (options.compacts, options.compaction_check_ms);
        if is_due(&mut self.next_retention_ms, now_ms, retention_ms) {
            for (partition, log) in std::mem::take(&mut self.to_retain) {
                if let Some(log) = log.upgrade() {
                    self.retain(&partition, log, now_ms).await;
                }
            }
            let env = Arc::clone(&self.storage.env);
            // Losing this job to a full queue only means trying again in the next round.
            let _ = self.storage.pool.run(move || env.reserve.fill(&*env.disk)).await;
        }
        if is_due(&mut self.next_checkpoint_ms, now_ms, checkpoint_ms) {
            self.write_recovery_points().await;
        }
        if is_due(&mut self.next_high_watermark_ms, now_ms, high_watermark_ms) {
            self.write_high_watermarks().await;
        }
        if compacts && is_due(&mut self.next_compaction_ms, now_ms, compaction_ms) {
            self.compact(now_ms).await;
        }
    }

    /// Sorts what logs and the storage have noted since the last round.
    fn take_lists(&mut self, now_ms: i64) {
        for Removal { path, delay_ms } in self.storage.env.take_removals() {
            self.deadlines.push(now_ms.saturating_add(delay_ms), Due::Remove(path));
        }
        for weak in self.storage.env.take_changed() {
            let Some(log) = weak.upgrade() else { continue };
            log.take_note();
            if log.is_deleted() || log.offline().is_some() {
                continue;
            }
            let partition = log.partition().clone();
            let options = log.options();
            let offsets = log.offsets();
            if options.flush_ms != i64::MAX
                && offsets.flushed_offset < offsets.end_offset
                && self.flushes.insert(partition.clone())
            {
                self.deadlines.push(now_ms.saturating_add(options.flush_ms), Due::Flush(partition.clone()));
            }
            self.plan_expiry(&log, now_ms);
            if log.is_configured() {
                self.to_retain.insert(partition.clone(), Weak::clone(&weak));
                if options.compact {
                    self.to_compact.insert(partition.clone());
                }
            }
            self.to_checkpoint.insert(partition.clone(), Weak::clone(&weak));
            self.to_note.insert(partition, weak);
        }
    }

    async fn handle(&mut self, due: Due, now_ms: i64) {
        match due {
            Due::Remove(path) => self.remove(path, now_ms),
            Due::Flush(partition) => {
                self.flushes.remove(&partition);
                if let Some(log) = self.storage.log(&partition) {
                    log.request_flush();
                    self.storage.env.flusher.work_here();
                }
            }
            Due::Expire(partition) => {
                self.expiries.remove(&partition);
                let Some(log) = self.storage.log(&partition) else { return };
                let gone = log.expire_producers(now_ms);
                tracing::debug!(%partition, gone, "silent producers are forgotten");
                self.plan_expiry(&log, now_ms);
            }
            Due::Retain(partition) => {
                // A newer time may have been set since.
                if self.retentions.get(&partition).is_none_or(|&due_ms| due_ms > now_ms) {
                    return;
                }
                self.retentions.remove(&partition);
                if let Some(log) = self.storage.log(&partition) {
                    self.retain(&partition, log, now_ms).await;
                }
            }
        }
    }

    /// Notes when a log's producers are to be looked at: when the first will have been silent for too long, but a batch may
    /// be dated as its client likes, so not before the interval of these looks has gone by.
    fn plan_expiry(&mut self, log: &Log, now_ms: i64) {
        if self.expiries.contains(log.partition()) {
            return;
        }
        if let Some(due_ms) = log.producer_expiry_ms() {
            let earliest_ms = now_ms.saturating_add(self.storage.options.producer_expiration_check_ms);
            self.expiries.insert(log.partition().clone());
            self.deadlines.push(due_ms.max(earliest_ms), Due::Expire(log.partition().clone()));
        }
    }

    /// Removes a file or folder on the pool; tries again later when that fails.
    fn remove(&mut self, path: PathBuf, now_ms: i64) {
        let env = Arc::clone(&self.storage.env);
        let target = path.clone();
        let job = move || {
            let removed = match env.disk.list(&target) {
                Ok(_) => env.disk.remove_dir_all(&target),
                Err(_) => disk::remove_if_exists(&*env.disk, &target),
            };
            if let Err(error) = removed {
                tracing::warn!(path = %target.display(), %error, "cannot be removed; it is tried again later");
                env.note_removal(target, RETRY_MS);
            }
        };
        if self.storage.pool.submit(job).is_err() {
            self.deadlines.push(now_ms.saturating_add(RETRY_MS), Due::Remove(path));
        }
    }

    /// Takes away what a log no longer keeps, and notes when to look again.
    async fn retain(&mut self, partition: &TopicPartition, log: Arc<Log>, now_ms: i64) {
        let delay_ms = log.options().file_delete_delay_ms;
        let kept = self
            .storage
            .pool
            .run(move || {
                if let Err(error) = log.repair_indexes() {
                    tracing::warn!(partition = %log.partition(), %error, "an index cannot be built anew");
                }
                log.apply_retention(now_ms)
            })
            .await;
        let due_ms = match kept {
            Ok(Ok(kept)) => {
                for path in kept.removed {
                    self.deadlines.push(now_ms.saturating_add(delay_ms), Due::Remove(path));
                }
                kept.due_ms
            }
            Ok(Err(error)) => {
                tracing::warn!(%partition, %error, "old segments cannot be removed");
                Some(now_ms.saturating_add(RETRY_MS))
            }
            Err(_) => Some(now_ms.saturating_add(RETRY_MS)),
        };
        if let Some(due_ms) = due_ms {
            // Never more often than retention is looked at in general.
            let due_ms = due_ms.max(now_ms.saturating_add(self.storage.options.retention_check_ms));
            self.retentions.insert(partition.clone(), due_ms);
            self.deadlines.push(due_ms, Due::Retain(partition.clone()));
        }
    }

    /// Makes logs durable that have grown much, and writes down up to where every changed log is.
    async fn write_recovery_points(&mut self) {
        let logs: Vec<_> =
            std::mem::take(&mut self.to_checkpoint).into_values().filter_map(|log| log.upgrade()).collect();
        let grown: Vec<_> = logs.iter().filter(|log| log.unrecovered_bytes() > UNRECOVERED_BYTES_MAX).collect();
        for some in grown.chunks(CHECKPOINTS_AT_ONCE) {
            let jobs: Vec<_> = some
                .iter()
                .map(|log| {
                    let log = Arc::clone(log);
                    task::spawn(async move { log.checkpoint().await })
                })
                .collect();
            for job in jobs {
                if let Ok(Err(error)) = job.await {
                    tracing::warn!(%error, "a log is not made durable for its checkpoint");
                }
            }
        }
        if logs.is_empty() {
            return;
        }
        let storage = Arc::clone(&self.storage);
        match self.storage.pool.run(move || storage.write_recovery_points(&logs)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the recovery points are not written down"),
            Err(error) => tracing::warn!(%error, "the recovery points are not written down"),
        }
    }

    async fn write_high_watermarks(&mut self) {
        let logs: Vec<_> = std::mem::take(&mut self.to_note).into_values().filter_map(|log| log.upgrade()).collect();
        if logs.is_empty() {
            return;
        }
        let storage = Arc::clone(&self.storage);
        match self.storage.pool.run(move || storage.write_high_watermarks(&logs)).await {
            Ok(Ok(())) => {}
            Ok(Err(error)) => tracing::warn!(%error, "the high watermarks are not written down"),
            Err(error) => tracing::warn!(%error, "the high watermarks are not written down"),
        }
    }

    /// Compacts the logs that are worth it.
    async fn compact(&mut self, now_ms: i64) {
        for partition in std::mem::take(&mut self.to_compact) {
            let Some(log) = self.storage.log(&partition) else { continue };
            let delay_ms = log.options().file_delete_delay_ms;
            let storage = Arc::clone(&self.storage);
            let done = self.storage.compaction_pool.run(move || storage.compact(&log, now_ms)).await;
            match done {
                Ok(Ok(done)) => {
                    for path in done.removed {
                        self.deadlines.push(now_ms.saturating_add(delay_ms), Due::Remove(path));
                    }
                    // Tombstones go some time after they were compacted, also when nothing is written any more.
                    if done.look_again {
                        self.to_compact.insert(partition);
                    }
                }
                Ok(Err(error)) => tracing::warn!(%partition, %error, "the log is not compacted"),
                Err(error) => tracing::warn!(%partition, %error, "the log is not compacted"),
            }
        }
    }
}

/// Whether something that is done every `every_ms` is to be done now, and if so, when it will be again. A clock that was
/// set back far does not keep it waiting.
fn is_due(next_ms: &mut i64, now_ms: i64, every_ms: i64) -> bool {
    let is_due = now_ms >= *next_ms || *next_ms > now_ms.saturating_add(every_ms);
    if is_due {
        *next_ms = now_ms.saturating_add(every_ms);
    }
    is_due
}

/// After how long something that failed is tried again.
const RETRY_MS: i64 = 10_000;

#[cfg(test)]
mod tests;
