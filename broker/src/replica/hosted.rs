//! The topics of which this broker keeps partitions: an immutable value, so that an answer is of one piece.

use std::collections::BTreeSet;
use std::sync::Arc;

use taffrail_core::collections::HashMap;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{PartitionIndex, TopicId};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::data::TopicRef;

use super::partition::{Partition, Refused};
use super::topic::Topic;

/// The topics of which this broker keeps a partition.
#[derive(Clone, Default)]
pub(crate) struct Hosted {
    by_name: HashMap<Arc<str>, Arc<HostedTopic>>,
    by_id: HashMap<TopicId, Arc<HostedTopic>>,
    /// Partitions whose logs could not be opened.
    failed: BTreeSet<(TopicId, PartitionIndex)>,
}

/// One of these topics.
#[derive(Clone)]
pub(super) struct HostedTopic {
    pub(super) topic: Arc<Topic>,
    partitions: Vec<Replica>,
}

/// What is here of a partition.
#[derive(Clone)]
pub(super) enum Replica {
    /// Other brokers keep it.
    Elsewhere,
    /// It is served.
    Served(Arc<Partition>),
    /// Its log could not be opened; that is tried again.
    Failed,
}

impl HostedTopic {
    pub(super) fn new(topic: Arc<Topic>) -> Self {
        Self { topic, partitions: Vec::new() }
    }

    /// What is here of a partition.
    pub(super) fn replica(&self, index: PartitionIndex) -> &Replica {
        let replica = usize::try_from(index).ok().and_then(|index| self.partitions.get(index));
        replica.unwrap_or(&Replica::Elsewhere)
    }

    /// All that is here.
    pub(super) fn replicas(&self) -> impl Iterator<Item = (PartitionIndex, &Replica)> {
        (0..).zip(&self.partitions)
    }

    /// All partitions that are served.
    pub(super) fn served(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.partitions.iter().filter_map(|replica| match replica {
            Replica::Served(partition) => Some(partition),
            _ => None,
        })
    }
}

impl Hosted {
    /// A partition that is kept here.
    ///
    /// # Errors
    /// What a client is told, by what `image` says about the partition.
    pub(crate) fn partition(
        &self,
        topic: &TopicRef,
        index: PartitionIndex,
        image: &MetadataImage,
    ) -> Result<&Arc<Partition>, Refused> {
        let hosted = match topic {
            TopicRef::Name(name) => self.by_name.get(&**name),
            TopicRef::Id(id) => self.by_id.get(id),
        };
        match hosted.map_or(&Replica::Elsewhere, |hosted| hosted.replica(index)) {
            Replica::Served(partition) => Ok(partition),
            Replica::Failed => Err(ErrorCode::KafkaStorageError.into()),
            Replica::Elsewhere => Err(elsewhere(topic, index, image)),
        }
    }

    /// All partitions that are served.
    pub(crate) fn partitions(&self) -> impl Iterator<Item = &Arc<Partition>> {
        self.by_id.values().flat_map(|topic| topic.served())
    }

    /// The ids of all topics.
    pub(super) fn ids(&self) -> impl Iterator<Item = TopicId> {
        self.by_id.keys().copied()
    }

    pub(super) fn by_id(&self, id: TopicId) -> Option<&Arc<HostedTopic>> {
        self.by_id.get(&id)
    }

    pub(super) fn by_name(&self, name: &str) -> Option<&Arc<HostedTopic>> {
        self.by_name.get(name)
    }

    /// All partitions whose logs could not be opened.
    pub(super) fn failed(&self) -> &BTreeSet<(TopicId, PartitionIndex)> {
        &self.failed
    }

    /// Makes replicas of a topic what `changes` says.
    pub(super) fn change(&mut self, topic: &HostedTopic, changes: Vec<(PartitionIndex, Replica)>) {
        let id = topic.topic.id;
        let mut next = self.by_id.get(&id).map_or_else(|| topic.clone(), |known| HostedTopic::clone(known));
        for (index, replica) in changes {
            let Ok(at) = usize::try_from(index) else { continue };
            if next.partitions.len() <= at {
                next.partitions.resize(at + 1, Replica::Elsewhere);
            }
            match &replica {
                Replica::Failed => self.failed.insert((id, index)),
                _ => self.failed.remove(&(id, index)),
            };
            next.partitions[at] = replica;
        }
        if next.partitions.iter().all(|replica| matches!(replica, Replica::Elsewhere)) {
            self.remove(id);
            return;
        }
        let (next, name) = (Arc::new(next), Arc::clone(&topic.topic.name));
        self.by_name.insert(name, Arc::clone(&next));
        self.by_id.insert(id, next);
    }

    pub(super) fn remove(&mut self, id: TopicId) {
        let Some(topic) = self.by_id.remove(&id) else { return };
        for (index, _) in topic.replicas() {
            self.failed.remove(&(id, index));
        }
        // A topic of the same name may have been made meanwhile.
        if self.by_name.get(&topic.topic.name).is_some_and(|named| named.topic.id == id) {
            self.by_name.remove(&topic.topic.name);
        }
    }
}

/// Why a partition that is not kept here is not served.
fn elsewhere(topic: &TopicRef, index: PartitionIndex, image: &MetadataImage) -> Refused {
    let (known, unknown) = match topic {
        TopicRef::Name(name) => (image.topic(name), ErrorCode::UnknownTopicOrPartition),
        TopicRef::Id(id) => (image.topic_by_id(*id), ErrorCode::UnknownTopicId),
    };
    let Some(known) = known else { return unknown.into() };
    match known.partition(index) {
        None => ErrorCode::UnknownTopicOrPartition.into(),
        Some(state) => {
            Refused { error: ErrorCode::NotLeaderOrFollower, leader: Some((state.leader, state.leader_epoch)) }
        }
    }
}
