//! What is there.

use taffrail_core::config::Overrides;
use taffrail_core::event::ConfigResource;
use taffrail_core::ids::{BrokerId, TopicId};
use taffrail_core::image::MetadataImage;

/// A topic as the metadata have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTopic {
    /// Its id.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: i32,
    /// Replicas of each.
    pub replicas: i16,
    /// Partitions without a leader.
    pub leaderless: i32,
    /// Its own settings.
    pub config: Overrides,
}

/// Reads a topic from the metadata.
pub fn fetch(image: &MetadataImage, name: &str) -> Option<ObservedTopic> {
    let topic = image.topic(name)?;
    let overrides = image.overrides(&ConfigResource::topic(name));
    let leaderless = topic.partitions.iter().filter(|partition| partition.leader == BrokerId::NONE).count();
    Some(ObservedTopic {
        id: topic.id,
        partitions: topic.partition_count(),
        replicas: topic.replication_factor(),
        leaderless: i32::try_from(leaderless).unwrap_or(i32::MAX),
        config: overrides.map(|overrides| Overrides::clone(overrides)).unwrap_or_default(),
    })
}

/// Topics that no resource names, those of the cluster itself left out. They are reported, and never deleted.
pub fn orphans(image: &MetadataImage, is_named: impl Fn(&str) -> bool) -> Vec<String> {
    let names = image.topics().iter().map(|topic| &*topic.name);
    names.filter(|name| !name.starts_with("__") && !is_named(name)).map(str::to_owned).collect()
}
