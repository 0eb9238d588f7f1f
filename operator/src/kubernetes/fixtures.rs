//! What unit tests of planners begin with.

use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::event::{BrokerRegistration, MetadataEvent, PartitionState};
use taffrail_core::ids::{BrokerId, Uuid};
use taffrail_core::image::MetadataImage;

/// Metadata of brokers 0 and on, each in its rack if it has one, and of a topic "t" with these replicas, all of them in sync.
pub(super) fn image(racks: &[Option<&str>], replicas: &[&[i32]]) -> MetadataImage {
    let mut image = MetadataImage::default();
    let mut apply = |event| image.apply(&event).unwrap();
    apply(MetadataEvent::ClusterCreated { cluster_id: Uuid([1; 16]) });
    for (id, rack) in (0..).zip(racks) {
        apply(MetadataEvent::BrokerRegistered(Arc::new(BrokerRegistration {
            id: BrokerId(id),
            epoch: i64::from(id),
            incarnation: Uuid([id as u8; 16]),
            rack: rack.map(Into::into),
            listeners: vec![],
            log_dirs: vec![],
            features: BTreeMap::new(),
            fenced: false,
            shutting_down: false,
            min_in_sync: None,
        })));
    }
    let topic_id = Uuid([9; 16]);
    apply(MetadataEvent::TopicCreated { name: "t".into(), topic_id });
    for (partition, replicas) in (0..).zip(replicas) {
        let replicas: Vec<BrokerId> = replicas.iter().map(|id| BrokerId(*id)).collect();
        let state = Arc::new(PartitionState::new(replicas.clone(), replicas));
        apply(MetadataEvent::PartitionCreated { topic_id, partition, state });
    }
    image
}
