//! The cluster's metadata at one moment: an immutable value.
//!
//! Controllers decide on it, brokers serve from it. Clones share everything that did not change (persistent maps), so
//! publishing a new image after a batch of events costs what the batch changed, however large the cluster is. There is
//! one way forward, [`MetadataImage::apply`], for everybody.

mod replica_index;
mod snapshot;
mod topics;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

pub use replica_index::{BrokerLoad, PartitionKey, ReplicaIndex};
pub use snapshot::SnapshotError;
pub use topics::{TopicImage, TopicsImage};

use crate::config::{BrokerLayers, Overrides};
use crate::event::{BrokerDuty, BrokerRegistration, ConfigResource, Grant, MetadataEvent, PartitionState};
use crate::ids::{BrokerId, PartitionIndex, ProducerId, TopicId, Uuid};

/// An event does not fit the image: it comes from another cluster's log, or a log with a hole. What was applied before
/// it stays; the owner must start again from a snapshot.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ApplyError {
    /// The cluster was created a second time.
    #[error("metadata offset {offset}: cluster {cluster_id} already exists")]
    ClusterExists {
        /// Where.
        offset: i64,
        /// The cluster that the image belongs to.
        cluster_id: Uuid,
    },
    /// A topic's name or id is taken.
    #[error("metadata offset {offset}: topic '{name}' ({topic_id}) already exists")]
    TopicExists {
        /// Where.
        offset: i64,
        /// Name of the topic.
        name: Arc<str>,
        /// Id of the topic.
        topic_id: TopicId,
    },
    /// The event speaks of a topic that is not there.
    #[error("metadata offset {offset}: there is no topic {topic_id}")]
    NoTopic {
        /// Where.
        offset: i64,
        /// Id of the topic.
        topic_id: TopicId,
    },
    /// The event speaks of a partition that is not there, or makes one out of turn.
    #[error("metadata offset {offset}: partition {partition} of topic {topic_id} is out of turn")]
    NoPartition {
        /// Where.
        offset: i64,
        /// Id of the topic.
        topic_id: TopicId,
        /// Number of the partition.
        partition: PartitionIndex,
    },
    /// The event speaks of a broker registration that is not there.
    #[error("metadata offset {offset}: broker {broker} is not registered with epoch {epoch}")]
    NoBroker {
        /// Where.
        offset: i64,
        /// Number of the broker.
        broker: BrokerId,
        /// Epoch in the event.
        epoch: i64,
    },
}

/// The cluster's metadata after the event at [`offset`](Self::offset).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataImage {
    offset: i64,
    cluster_id: Option<Uuid>,
    features: Arc<BTreeMap<Arc<str>, i16>>,
    brokers: Arc<BTreeMap<BrokerId, Arc<BrokerRegistration>>>,
    /// Brokers that are not just serving.
    duties: Arc<BTreeMap<BrokerId, BrokerDuty>>,
    grant: Option<Arc<Grant>>,
    operator_epoch: i64,
    topics: TopicsImage,
    configs: RedBlackTreeMapSync<ConfigResource, Arc<Overrides>>,
    next_producer_id: ProducerId,
}

impl Default for MetadataImage {
    fn default() -> Self {
        Self {
            offset: -1,
            cluster_id: None,
            features: Arc::default(),
            brokers: Arc::default(),
            duties: Arc::default(),
            grant: None,
            operator_epoch: -1,
            topics: TopicsImage::default(),
            configs: RedBlackTreeMapSync::new_sync(),
            next_producer_id: 0,
        }
    }
}

impl MetadataImage {
    /// Offset of the last event applied; -1 = none. Every event has the offset after the one before it.
    pub fn offset(&self) -> i64 {
        self.offset
    }

    /// Identity of the cluster, once it is created.
    pub fn cluster_id(&self) -> Option<Uuid> {
        self.cluster_id
    }

    /// Levels of the features that are on.
    pub fn features(&self) -> &BTreeMap<Arc<str>, i16> {
        &self.features
    }

    /// Registered brokers, fenced ones too.
    pub fn brokers(&self) -> &BTreeMap<BrokerId, Arc<BrokerRegistration>> {
        &self.brokers
    }

    /// A registered broker.
    pub fn broker(&self, id: BrokerId) -> Option<&Arc<BrokerRegistration>> {
        self.brokers.get(&id)
    }

    /// Whether the broker is registered and not fenced: only then may it lead or be in an ISR.
    pub fn is_active(&self, id: BrokerId) -> bool {
        self.brokers.get(&id).is_some_and(|broker| !broker.fenced)
    }

    /// Whether the broker may be made a leader or a member of an ISR: it is active, and not about to stop.
    pub fn may_lead(&self, id: BrokerId) -> bool {
        self.brokers.get(&id).is_some_and(|broker| !broker.fenced && !broker.shutting_down)
    }

    /// What the operator wants the broker to be used for.
    pub fn duty(&self, id: BrokerId) -> BrokerDuty {
        self.duties.get(&id).copied().unwrap_or_default()
    }

    /// Brokers that are cordoned or draining.
    pub fn duties(&self) -> &BTreeMap<BrokerId, BrokerDuty> {
        &self.duties
    }

    /// The last grant that was opened, unless it was closed; it may have expired.
    pub fn grant(&self) -> Option<&Arc<Grant>> {
        self.grant.as_ref()
    }

    /// Highest epoch of an operator that opened or closed a grant: older operators are refused. -1 = there was none.
    pub fn operator_epoch(&self) -> i64 {
        self.operator_epoch
    }

    /// A partition by its topic's id and its number.
    pub fn partition(&self, (topic, partition): PartitionKey) -> Option<&Arc<PartitionState>> {
        self.topic_by_id(topic)?.partition(partition)
    }

    /// Which partitions concern a broker, and which need attention.
    pub fn replica_index(&self) -> &ReplicaIndex {
        self.topics.replica_index()
    }

    /// All topics.
    pub fn topics(&self) -> &TopicsImage {
        &self.topics
    }

    /// The topic of this name.
    pub fn topic(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.by_name(name)
    }

    /// The topic with this id.
    pub fn topic_by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.by_id(id)
    }

    /// What was set explicitly for `resource`; `None` = nothing. A value that equals the default is in there too.
    pub fn overrides(&self, resource: &ConfigResource) -> Option<&Arc<Overrides>> {
        self.configs.get(resource)
    }

    /// The settings of `broker`, or those that count for all when `None`, over the defaults: what the metadata set, and
    /// below it `static_config`, with which the process was started.
    pub fn broker_layers(&self, broker: Option<BrokerId>, static_config: &Overrides) -> BrokerLayers {
        let set =
            |resource: &ConfigResource| self.overrides(resource).map(|it| Overrides::clone(it)).unwrap_or_default();
        BrokerLayers {
            dynamic_broker: broker.map(|id| set(&ConfigResource::broker(id))).unwrap_or_default(),
            dynamic_default: set(&ConfigResource::broker_default()),
            static_broker: static_config.clone(),
        }
    }

    /// All resources with explicit settings.
    pub fn all_overrides(&self) -> impl Iterator<Item = (&ConfigResource, &Arc<Overrides>)> {
        self.configs.iter()
    }

    /// First producer id that no broker has.
    pub fn next_producer_id(&self) -> ProducerId {
        self.next_producer_id
    }

    /// Applies the next event. Its offset is one above [`offset`](Self::offset).
    ///
    /// # Errors
    /// When the event does not fit; the image is then as before.
    pub fn apply(&mut self, event: &MetadataEvent) -> Result<(), ApplyError> {
        let offset = self.offset + 1;
        match event {
            MetadataEvent::ClusterCreated { cluster_id } => {
                if let Some(cluster_id) = self.cluster_id {
                    return Err(ApplyError::ClusterExists { offset, cluster_id });
                }
                self.cluster_id = Some(*cluster_id);
            }
            MetadataEvent::FeatureLevelChanged { name, level } => {
                let features = Arc::make_mut(&mut self.features);
                if *level == 0 {
                    features.remove(name);
                } else {
                    features.insert(Arc::clone(name), *level);
                }
            }
            MetadataEvent::BrokerRegistered(registration) => {
                Arc::make_mut(&mut self.brokers).insert(registration.id, Arc::clone(registration));
            }
            MetadataEvent::BrokerFenced { broker, epoch } => {
                // Whoever was about to stop has stopped by now.
                self.change_broker(offset, *broker, *epoch, |it| (it.fenced, it.shutting_down) = (true, false))?;
            }
            MetadataEvent::BrokerUnfenced { broker, epoch } => {
                self.change_broker(offset, *broker, *epoch, |it| it.fenced = false)?;
            }
            MetadataEvent::BrokerUnregistered { broker, epoch } => {
                self.registration(offset, *broker, *epoch)?;
                Arc::make_mut(&mut self.brokers).remove(broker);
                Arc::make_mut(&mut self.duties).remove(broker);
            }
            MetadataEvent::BrokerShuttingDown { broker, epoch } => {
                self.change_broker(offset, *broker, *epoch, |it| it.shutting_down = true)?;
            }
            MetadataEvent::BrokerDutyChanged { broker, duty } => {
                let duties = Arc::make_mut(&mut self.duties);
                match duty {
                    BrokerDuty::Serving => duties.remove(broker),
                    duty => duties.insert(*broker, *duty),
                };
            }
            MetadataEvent::GrantOpened(grant) => {
                self.operator_epoch = self.operator_epoch.max(grant.operator_epoch);
                self.grant = Some(Arc::clone(grant));
            }
            MetadataEvent::GrantClosed { id, operator_epoch } => {
                self.operator_epoch = self.operator_epoch.max(*operator_epoch);
                self.grant = self.grant.take().filter(|grant| grant.id != *id);
            }
            MetadataEvent::TopicCreated { name, topic_id } => self.topics.create(offset, name, *topic_id)?,
            MetadataEvent::PartitionCreated { topic_id, partition, state } => {
                self.topics.create_partition(offset, *topic_id, *partition, state)?;
            }
            MetadataEvent::PartitionChanged { topic_id, partition, state } => {
                self.topics.change_partition(offset, *topic_id, *partition, state)?;
            }
            MetadataEvent::TopicDeleted { topic_id, .. } => {
                let name = self.topics.delete(offset, *topic_id)?;
                self.configs.remove_mut(&ConfigResource::topic(name));
            }
            MetadataEvent::ConfigChanged { resource, name, value } => self.set_config(resource, name, value.as_ref()),
            MetadataEvent::ProducerIdsAllocated { next, .. } => {
                self.next_producer_id = self.next_producer_id.max(*next);
            }
        }
        self.offset = offset;
        Ok(())
    }

    fn registration(&self, offset: i64, broker: BrokerId, epoch: i64) -> Result<&Arc<BrokerRegistration>, ApplyError> {
        self.brokers.get(&broker).filter(|registered| registered.epoch == epoch).ok_or(ApplyError::NoBroker {
            offset,
            broker,
            epoch,
        })
    }

    fn change_broker(
        &mut self,
        offset: i64,
        broker: BrokerId,
        epoch: i64,
        change: impl FnOnce(&mut BrokerRegistration),
    ) -> Result<(), ApplyError> {
        let mut registration = Arc::clone(self.registration(offset, broker, epoch)?);
        change(Arc::make_mut(&mut registration));
        Arc::make_mut(&mut self.brokers).insert(broker, registration);
        Ok(())
    }

    fn set_config(&mut self, resource: &ConfigResource, name: &Arc<str>, value: Option<&Arc<str>>) {
        let mut overrides = self.configs.get(resource).cloned().unwrap_or_default();
        let map = Arc::make_mut(&mut overrides);
        match value {
            Some(value) => map.insert(name.to_string(), value.to_string()),
            None => map.remove(&**name),
        };
        if map.is_empty() {
            self.configs.remove_mut(resource);
        } else {
            self.configs.insert_mut(resource.clone(), overrides);
        }
    }
}
