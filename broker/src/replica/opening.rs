//! Opening the logs of partitions that this broker is to keep.

use std::sync::Arc;

use futures::StreamExt;
use taffrail_core::event::PartitionState;
use taffrail_core::ids::{PartitionIndex, TopicId, TopicPartition};
use taffrail_core::image::MetadataImage;
use taffrail_storage::{Log, LogOptions, Storage, StorageError};

use super::ReplicaManager;
use super::hosted::Replica;
use super::partition::Partition;
use super::topic::Topic;

/// Partitions that one job on the storage's threads opens, and such jobs at the same time, when many come at once.
const OPENING_BATCH: usize = 64;
const OPENING_MAX: usize = 32;

/// A partition that should be here and is not open.
#[derive(Clone)]
pub(super) struct Missing {
    pub(super) index: PartitionIndex,
    pub(super) state: Arc<PartitionState>,
    /// Whether its log could not be opened before.
    pub(super) failed_before: bool,
}

impl ReplicaManager {
    /// Opens the logs of partitions of a topic, or makes new ones.
    pub(super) async fn open_all(
        &self,
        topic: &Arc<Topic>,
        missing: Vec<Missing>,
        image: &MetadataImage,
    ) -> Vec<(PartitionIndex, Replica)> {
        let options = Arc::new(topic.settings.load().log_options());
        let open = |batch: &[Missing]| self.open(Arc::clone(topic), batch.to_vec(), Arc::clone(&options), image);
        let jobs: Vec<_> = missing.chunks(OPENING_BATCH).map(open).collect();
        let opened: Vec<Vec<_>> = futures::stream::iter(jobs).buffer_unordered(OPENING_MAX).collect().await;
        opened.into_iter().flatten().collect()
    }

    /// Opens the logs of some partitions of a topic, or makes new ones. A failure is told once, not again for those that
    /// failed before.
    async fn open(
        &self,
        topic: Arc<Topic>,
        partitions: Vec<Missing>,
        options: Arc<LogOptions>,
        image: &MetadataImage,
    ) -> Vec<(PartitionIndex, Replica)> {
        let name = |missing: &Missing| TopicPartition::new(Arc::clone(&topic.name), missing.index);
        let names: Vec<_> = partitions.iter().map(name).collect();
        let (storage, topic_id) = (Arc::clone(&self.storage), topic.id);
        let open_all = move || -> Vec<_> {
            names.iter().map(|name| open_log(&storage, name, topic_id, Arc::clone(&options))).collect()
        };
        let opened = self.storage.pool().run(open_all).await;
        let opened = opened.unwrap_or_else(|_| partitions.iter().map(|_| Err(StorageError::Busy)).collect());
        let replica = |(missing, log): (Missing, _)| (missing.index, self.replica(&topic, missing, log, image));
        partitions.into_iter().zip(opened).map(replica).collect()
    }

    fn replica(
        &self,
        topic: &Arc<Topic>,
        missing: Missing,
        log: Result<Arc<Log>, StorageError>,
        image: &MetadataImage,
    ) -> Replica {
        let (name, partition) = (&topic.name, missing.index);
        match log {
            Ok(log) => {
                let partition = Partition::new(Arc::clone(topic), partition, Arc::clone(&self.env), log);
                partition.follow(&missing.state, image);
                return Replica::Served(partition);
            }
            Err(error) if missing.failed_before => {
                tracing::debug!(topic = %name, partition, %error, "a partition's log still cannot be opened");
            }
            Err(error) => {
                tracing::error!(
                    topic = %name, partition, %error,
                    "a partition's log cannot be opened; it is tried again"
                );
            }
        }
        Replica::Failed
    }
}

/// The log of a partition, made if there is none. A folder that belongs to another life of the topic is set aside.
fn open_log(
    storage: &Storage,
    name: &TopicPartition,
    topic_id: TopicId,
    options: Arc<LogOptions>,
) -> Result<Arc<Log>, StorageError> {
    match storage.create(name, topic_id, Arc::clone(&options)) {
        Err(StorageError::TopicIdMismatch { .. }) => {
            storage.set_aside(name)?;
            storage.create(name, topic_id, options)
        }
        opened => opened,
    }
}
