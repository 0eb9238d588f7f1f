//! What is there.

use taffrail_core::config::Overrides;
use taffrail_core::event::{ConfigResource, PartitionState};
use taffrail_core::ids::{BrokerId, PartitionIndex, TopicId};
use taffrail_core::image::MetadataImage;

use super::ValidTopic;
use crate::crd::topic::PartitionStatus;

/// Setting that says how many replicas must be in sync.
const MIN_IN_SYNC: &str = "min.insync.replicas";

/// Partitions that a report lists at most.
const TROUBLED_MAX: usize = 50;

/// A topic as the metadata have it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObservedTopic {
    /// Its id.
    pub id: TopicId,
    /// Its partitions.
    pub partitions: i32,
    /// Replicas of each, when the moves that are under way are done.
    pub replicas: i16,
    /// Partitions whose replicas move.
    pub moving: i32,
    /// Partitions without a leader.
    pub leaderless: i32,
    /// In-sync replicas that the worst partition has over its minimum.
    pub min_isr_margin: i32,
    /// The first partitions with replicas out of sync, or without a leader.
    pub troubled: Vec<PartitionStatus>,
    /// Its own settings.
    pub config: Overrides,
    /// Partitions that are not, and do not move, where they are wanted.
    pub misplaced: Vec<PartitionIndex>,
}

/// Reads a topic from the metadata, and where it is not as it is `wanted`.
pub fn fetch_wanted(image: &MetadataImage, wanted: &ValidTopic) -> Option<ObservedTopic> {
    let mut observed = fetch(image, &wanted.name)?;
    let topic = image.topic(&wanted.name)?;
    let placed = topic.numbered().zip(&wanted.assignment);
    let misplaced = placed.filter(|((_, state), brokers)| state.replicas_after() != **brokers);
    observed.misplaced = misplaced.map(|((partition, _), _)| partition).collect();
    Some(observed)
}

/// Reads a topic from the metadata.
pub fn fetch(image: &MetadataImage, name: &str) -> Option<ObservedTopic> {
    let topic = image.topic(name)?;
    let overrides = image.overrides(&ConfigResource::topic(name));
    let count = |is: &dyn Fn(&PartitionState) -> bool| {
        i32::try_from(topic.partitions.iter().filter(|partition| is(partition)).count()).unwrap_or(i32::MAX)
    };
    let least = min_in_sync(image, name);
    let margin = |state: &PartitionState| state.isr.len() as i32 - state.min_in_sync(least) as i32;
    let ids = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect();
    let troubled = topic.numbered().filter(|(_, state)| !state.has_leader() || state.is_under_replicated());
    let replicas = topic.partitions.first().map_or(0, |first| first.replicas_after().len());
    Some(ObservedTopic {
        id: topic.id,
        partitions: topic.partition_count(),
        replicas: i16::try_from(replicas).unwrap_or(i16::MAX),
        moving: count(&PartitionState::is_reassigning),
        leaderless: count(&|state| !state.has_leader()),
        min_isr_margin: topic.partitions.iter().map(|state| margin(state)).min().unwrap_or(0),
        troubled: troubled
            .take(TROUBLED_MAX)
            .map(|(partition, state)| PartitionStatus {
                partition,
                leader: state.has_leader().then_some(state.leader.0),
                replicas: ids(&state.replicas),
                isr: ids(&state.isr),
            })
            .collect(),
        misplaced: Vec::new(),
        config: overrides.map(|overrides| Overrides::clone(overrides)).unwrap_or_default(),
    })
}

/// How many replicas of a topic must be in sync, as the metadata have it.
pub fn min_in_sync(image: &MetadataImage, topic: &str) -> usize {
    let own = image.overrides(&ConfigResource::topic(topic)).and_then(|own| own.get(MIN_IN_SYNC));
    let default = || image.overrides(&ConfigResource::broker_default()).and_then(|all| all.get(MIN_IN_SYNC));
    own.or_else(default).and_then(|value| value.trim().parse().ok()).unwrap_or(1)
}

/// Topics that no resource names, those of the cluster itself left out. They are reported, and never deleted.
pub fn orphans(image: &MetadataImage, is_named: impl Fn(&str) -> bool) -> Vec<String> {
    let names = image.topics().iter().map(|topic| &*topic.name);
    names.filter(|name| !name.starts_with("__") && !is_named(name)).map(str::to_owned).collect()
}
