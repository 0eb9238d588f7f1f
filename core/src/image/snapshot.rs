//! An image as a list of events, and back.
//!
//! A snapshot is what a log would hold that says nothing twice: the same encoding and the same apply serve logs and
//! snapshots.

use std::sync::Arc;

use super::{ApplyError, MetadataImage};
use crate::event::MetadataEvent;
use crate::ids::BrokerId;
use crate::planted::{PlantedBug, is_planted};

/// Why a list of events is no snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// An event does not fit those before it.
    #[error("a snapshot at metadata offset {offset} does not hold together: {source}")]
    Apply {
        /// Offset that the snapshot claims.
        offset: i64,
        /// What did not fit; its own offset counts within the snapshot.
        source: ApplyError,
    },
}

impl MetadataImage {
    /// The events that make this image from nothing. Their number has nothing to do with [`MetadataImage::offset`].
    pub fn snapshot_events(&self) -> impl Iterator<Item = MetadataEvent> {
        let cluster = self.cluster_id.map(|cluster_id| MetadataEvent::ClusterCreated { cluster_id });
        let features = self
            .features
            .iter()
            .map(|(name, level)| MetadataEvent::FeatureLevelChanged { name: Arc::clone(name), level: *level });
        let brokers = self.brokers.values().map(|broker| MetadataEvent::BrokerRegistered(Arc::clone(broker)));
        let duties =
            self.duties.iter().map(|(broker, duty)| MetadataEvent::BrokerDutyChanged { broker: *broker, duty: *duty });
        // Of grants that are closed only the operator's epoch is left.
        let operator = (self.operator_epoch >= 0)
            .then_some(MetadataEvent::GrantClosed { id: -1, operator_epoch: self.operator_epoch });
        let grant = self.grant.iter().map(|grant| MetadataEvent::GrantOpened(Arc::clone(grant)));
        let topics = self.topics.iter().flat_map(|topic| {
            let created = MetadataEvent::TopicCreated { name: Arc::clone(&topic.name), topic_id: topic.id };
            let partitions = topic.numbered().map(|(partition, state)| MetadataEvent::PartitionCreated {
                topic_id: topic.id,
                partition,
                state: Arc::clone(state),
            });
            std::iter::once(created).chain(partitions)
        });
        let told = self.configs.iter().filter(|_| !is_planted(PlantedBug::SnapshotMissesSettings));
        let configs = told.flat_map(|(resource, overrides)| {
            overrides.iter().map(|(name, value)| MetadataEvent::ConfigChanged {
                resource: resource.clone(),
                name: name.as_str().into(),
                value: Some(value.as_str().into()),
            })
        });
        let producer_ids = (self.next_producer_id > 0)
            .then_some(MetadataEvent::ProducerIdsAllocated { broker: BrokerId::NONE, next: self.next_producer_id });
        let standing = cluster.into_iter().chain(features).chain(brokers).chain(duties).chain(operator).chain(grant);
        standing.chain(topics).chain(configs).chain(producer_ids)
    }

    /// The image at `offset` that `events` make from nothing.
    ///
    /// # Errors
    /// When an event does not fit those before it.
    pub fn from_snapshot(offset: i64, events: impl IntoIterator<Item = MetadataEvent>) -> Result<Self, SnapshotError> {
        let mut image = Self::default();
        for event in events {
            image.apply(&event).map_err(|source| SnapshotError::Apply { offset, source })?;
        }
        image.offset = offset;
        Ok(image)
    }
}
