//! The coordinator of consumer groups.
//!
//! Each partition of `__consumer_offsets` that this broker leads is a [`Shard`]: the pure machine of
//! `taffrail_core::group`, the partition's log, and the requests that wait. A request is one step of the machine; the
//! records that it asks for are appended in the same critical section, so the log has the order of the decisions; replies
//! that depend on records go out when the high watermark covers them. A shard loads its log before it answers, and while
//! it does clients get the retriable COORDINATOR_LOAD_IN_PROGRESS; when leadership goes, everyone who waits gets
//! NOT_COORDINATOR and the state is dropped.

mod follow;
mod load;
mod log;
mod partition_log;
mod shard;

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::GroupConfig;
use taffrail_core::ids::{LeaderEpoch, PartitionIndex, TopicId};
use taffrail_core::record::Compression;
use taffrail_runtime::{task, time};

pub(crate) use log::OffsetsLog;
pub(crate) use shard::Shard;

/// What the broker's settings say about groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CoordinatorConfig {
    /// For the machine.
    pub(crate) groups: GroupConfig,
    /// How often expired offsets are looked for (`offsets.retention.check.interval.ms`).
    pub(crate) expiry_interval: Duration,
    /// Bytes that are read at a time while loading (`offsets.load.buffer.size`).
    pub(crate) load_bytes: usize,
    /// How long the reply to a write waits for its records (`offsets.commit.timeout.ms`).
    pub(crate) write_wait_max: Duration,
    /// Codec of the records (`offsets.topic.compression.codec`).
    pub(crate) compression: Compression,
}

/// A time during which one broker leads a partition of one life of the offsets topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Term {
    /// The topic.
    pub(crate) topic_id: TopicId,
    /// The leadership.
    pub(crate) leader_epoch: LeaderEpoch,
}

/// The groups that this broker coordinates.
pub(crate) struct GroupCoordinator {
    config: RwLock<CoordinatorConfig>,
    /// Partitions of the offsets topic; 0 while there is no such topic.
    partitions: AtomicI32,
    shards: RwLock<BTreeMap<PartitionIndex, Arc<Shard>>>,
    origin: time::Instant,
}

impl GroupCoordinator {
    pub(crate) fn new(config: CoordinatorConfig) -> Self {
        Self {
            config: RwLock::new(config),
            partitions: AtomicI32::new(0),
            shards: RwLock::default(),
            origin: time::monotonic(),
        }
    }

    /// Takes new settings.
    pub(crate) fn set_config(&self, config: CoordinatorConfig) {
        *self.config.write() = config;
        self.shards.read().values().for_each(|shard| shard.set_config(config));
    }

    /// The settings.
    pub(crate) fn config(&self) -> CoordinatorConfig {
        *self.config.read()
    }

    /// Notes how many partitions the offsets topic has; 0 = there is none.
    pub(crate) fn set_partitions(&self, count: i32) {
        self.partitions.store(count, Ordering::Release);
    }

    /// This broker leads a partition of the offsets topic now: its groups are loaded from `log`. Does nothing if it does so
    /// in this term already.
    pub(crate) fn lead<L: OffsetsLog + 'static>(
        &self,
        index: PartitionIndex,
        term: Term,
        log: impl FnOnce() -> Arc<L>,
    ) {
        let mut shards = self.shards.write();
        if shards.get(&index).is_some_and(|shard| shard.term() == term) {
            return;
        }
        let shard = Shard::new(term, log(), self.config(), self.origin);
        if let Some(former) = shards.insert(index, Arc::clone(&shard)) {
            former.unload();
        }
        task::spawn(async move { shard.run(index).await });
    }

    /// This broker does not lead a partition of the offsets topic any more.
    pub(crate) fn resign(&self, index: PartitionIndex) {
        if let Some(shard) = self.shards.write().remove(&index) {
            shard.unload();
        }
    }

    /// Partitions of the offsets topic that are led here.
    pub(crate) fn led(&self) -> Vec<PartitionIndex> {
        self.shards.read().keys().copied().collect()
    }

    /// Drops the offsets of topics that were deleted.
    pub(crate) fn topics_deleted(&self, topics: &BTreeSet<Arc<str>>) {
        if !topics.is_empty() {
            self.all().iter().for_each(|shard| shard.topics_deleted(topics));
        }
    }

    /// All shards of this broker.
    pub(crate) fn all(&self) -> Vec<Arc<Shard>> {
        self.shards.read().values().cloned().collect()
    }

    /// The shard of a group.
    ///
    /// # Errors
    /// NOT_COORDINATOR if another broker has it, or nobody yet.
    pub(crate) fn shard(&self, group_id: &str) -> Result<Arc<Shard>, ErrorCode> {
        let index = partition_of(group_id, self.partitions.load(Ordering::Acquire)).ok_or(ErrorCode::NotCoordinator)?;
        self.shards.read().get(&index).cloned().ok_or(ErrorCode::NotCoordinator)
    }
}

/// The partition of the offsets topic that has a group: Java's hash of its id. `None` without partitions.
pub(crate) fn partition_of(group_id: &str, partitions: i32) -> Option<PartitionIndex> {
    let hash = group_id.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    // Kafka's `Utils.abs` makes 0 of the one number that has no absolute value.
    (partitions > 0).then(|| hash.checked_abs().unwrap_or(0) % partitions)
}
