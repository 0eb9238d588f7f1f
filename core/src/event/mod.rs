//! What happens to a cluster's metadata: the only way it ever changes.
//!
//! The controllers agree on a sequence of events. Whoever applies the same events to a
//! [`MetadataImage`](crate::image::MetadataImage) holds the same image: active and standby controllers, brokers, and
//! whoever starts again from disk.

mod broker;
mod config;
mod grant;
mod partition;

use std::sync::Arc;

pub use broker::{BrokerDuty, BrokerRegistration, FeatureRange, Listener, SecurityProtocol};
pub use config::{ConfigResource, ResourceKind};
pub use grant::Grant;
pub use partition::PartitionState;

use crate::ids::{BrokerId, PartitionIndex, ProducerId, TopicId, Uuid};

/// One change of the cluster's metadata. An event tells what is true from now on, never how to compute it, so that old
/// events keep their meaning when rules change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MetadataEvent {
    /// The cluster came to be; always the first event.
    ClusterCreated {
        /// Identity of the cluster.
        cluster_id: Uuid,
    },
    /// A feature has a new level; 0 takes it away.
    FeatureLevelChanged {
        /// Name of the feature, for instance `metadata.version`.
        name: Arc<str>,
        /// Its level.
        level: i16,
    },
    /// A broker process registered; it replaces an earlier registration under the same id.
    BrokerRegistered(Arc<BrokerRegistration>),
    /// A broker may no longer lead, nor count as in sync.
    BrokerFenced {
        /// Which broker.
        broker: BrokerId,
        /// Its registration's epoch.
        epoch: i64,
    },
    /// A broker has caught up with the metadata and may lead.
    BrokerUnfenced {
        /// Which broker.
        broker: BrokerId,
        /// Its registration's epoch.
        epoch: i64,
    },
    /// A broker is about to stop: it hands over what it leads.
    BrokerShuttingDown {
        /// Which broker.
        broker: BrokerId,
        /// Its registration's epoch.
        epoch: i64,
    },
    /// The operator wants a broker to be used differently.
    BrokerDutyChanged {
        /// Which broker.
        broker: BrokerId,
        /// What for.
        duty: BrokerDuty,
    },
    /// A broker is gone for good.
    BrokerUnregistered {
        /// Which broker.
        broker: BrokerId,
        /// Its registration's epoch.
        epoch: i64,
    },
    /// A topic came to be; its partitions and settings follow in the same batch.
    TopicCreated {
        /// Name of the topic.
        name: Arc<str>,
        /// Identity of this life of the topic.
        topic_id: TopicId,
    },
    /// The next partition of a topic came to be: indices have no gaps.
    PartitionCreated {
        /// Which topic.
        topic_id: TopicId,
        /// Which partition.
        partition: PartitionIndex,
        /// Its first state.
        state: Arc<PartitionState>,
    },
    /// A partition's replicas, ISR or leader changed.
    PartitionChanged {
        /// Which topic.
        topic_id: TopicId,
        /// Which partition.
        partition: PartitionIndex,
        /// The whole state that it has now.
        state: Arc<PartitionState>,
    },
    /// A topic is gone, with its partitions and settings.
    TopicDeleted {
        /// The name it had.
        name: Arc<str>,
        /// Identity of the life that ended.
        topic_id: TopicId,
    },
    /// A setting was set or taken away.
    ConfigChanged {
        /// Whose setting.
        resource: ConfigResource,
        /// Name of the setting.
        name: Arc<str>,
        /// The value set explicitly; `None` = what stands below counts again.
        value: Option<Arc<str>>,
    },
    /// The operator may take brokers down; replaces the grant before, which ends.
    GrantOpened(Arc<Grant>),
    /// The operator gave its grant back, or it was taken from it.
    GrantClosed {
        /// Number of the grant.
        id: i64,
        /// Epoch of the operator that closed it: from now on older ones are refused.
        operator_epoch: i64,
    },
    /// All producer ids below `next` are given away.
    ProducerIdsAllocated {
        /// The broker that got the block.
        broker: BrokerId,
        /// First id that is still free.
        next: ProducerId,
    },
}
