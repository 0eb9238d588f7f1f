//! Topics and their partitions.

use std::ops::Bound;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::{ApplyError, ReplicaIndex};
use crate::event::PartitionState;
use crate::ids::{BrokerId, PartitionIndex, TopicId};
use crate::topic_name;

/// One topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicImage {
    /// Name of the topic.
    pub name: Arc<str>,
    /// Identity of this life of the topic.
    pub id: TopicId,
    /// Its partitions, by number.
    pub partitions: Vec<Arc<PartitionState>>,
}

impl TopicImage {
    /// A partition by its number.
    pub fn partition(&self, index: PartitionIndex) -> Option<&Arc<PartitionState>> {
        self.partitions.get(usize::try_from(index).ok()?)
    }

    /// Partitions with their numbers.
    pub fn numbered(&self) -> impl Iterator<Item = (PartitionIndex, &Arc<PartitionState>)> {
        (0..).zip(&self.partitions)
    }

    /// Partitions that `broker` keeps a replica of, with their numbers.
    pub fn replicas_of(&self, broker: BrokerId) -> impl Iterator<Item = (PartitionIndex, &Arc<PartitionState>)> {
        self.numbered().filter(move |(_, state)| state.replicas.contains(&broker))
    }

    /// How many partitions there are.
    pub fn partition_count(&self) -> i32 {
        i32::try_from(self.partitions.len()).unwrap_or(i32::MAX)
    }

    /// How many replicas the first partition has; new partitions get as many.
    pub fn replication_factor(&self) -> i16 {
        self.partitions.first().map_or(0, |state| i16::try_from(state.replicas.len()).unwrap_or(i16::MAX))
    }
}

/// All topics, by id and by name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicsImage {
    topics: RedBlackTreeMapSync<TopicId, Arc<TopicImage>>,
    ids: RedBlackTreeMapSync<Arc<str>, TopicId>,
    /// Names that could collide with another one, by the form in which they would.
    collisions: RedBlackTreeMapSync<String, Arc<str>>,
    partition_count: usize,
    replicas: Arc<ReplicaIndex>,
}

impl Default for TopicsImage {
    fn default() -> Self {
        Self {
            topics: RedBlackTreeMapSync::new_sync(),
            ids: RedBlackTreeMapSync::new_sync(),
            collisions: RedBlackTreeMapSync::new_sync(),
            partition_count: 0,
            replicas: Arc::default(),
        }
    }
}

impl TopicsImage {
    /// How many topics there are.
    pub fn len(&self) -> usize {
        self.topics.size()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.topics.is_empty()
    }

    /// Partitions of all topics together.
    pub fn partition_count(&self) -> usize {
        self.partition_count
    }

    /// Which partitions concern a broker, and which need attention.
    pub fn replica_index(&self) -> &ReplicaIndex {
        &self.replicas
    }

    /// The topic of this name.
    pub fn by_name(&self, name: &str) -> Option<&Arc<TopicImage>> {
        self.topics.get(self.ids.get(name)?)
    }

    /// The topic with this id.
    pub fn by_id(&self, id: TopicId) -> Option<&Arc<TopicImage>> {
        self.topics.get(&id)
    }

    /// All topics, in the order of their names.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<TopicImage>> {
        self.ids.values().filter_map(|id| self.topics.get(id))
    }

    /// All topics from the name `first` on, in the order of their names; for answers in pages.
    pub fn iter_from<'a>(&'a self, first: &'a str) -> impl Iterator<Item = &'a Arc<TopicImage>> {
        self.ids.range::<str, _>((Bound::Included(first), Bound::Unbounded)).filter_map(|(_, id)| self.topics.get(id))
    }

    /// The topic whose name cannot stand beside `name`, because the two differ only in '.' and '_'. A topic of the very
    /// same name counts, as in Kafka.
    pub fn colliding(&self, name: &str) -> Option<&Arc<str>> {
        self.collisions.get(&topic_name::collision_key(name)?)
    }

    pub(super) fn create(&mut self, offset: i64, name: &Arc<str>, id: TopicId) -> Result<(), ApplyError> {
        if self.ids.contains_key(name) || self.topics.contains_key(&id) {
            return Err(ApplyError::TopicExists { offset, name: Arc::clone(name), topic_id: id });
        }
        let topic = TopicImage { name: Arc::clone(name), id, partitions: Vec::new() };
        self.topics.insert_mut(id, Arc::new(topic));
        self.ids.insert_mut(Arc::clone(name), id);
        if let Some(key) = topic_name::collision_key(name) {
            self.collisions.insert_mut(key, Arc::clone(name));
        }
        Ok(())
    }

    pub(super) fn create_partition(
        &mut self,
        offset: i64,
        topic_id: TopicId,
        partition: PartitionIndex,
        state: &Arc<PartitionState>,
    ) -> Result<(), ApplyError> {
        let topic = self.topics.get_mut(&topic_id).ok_or(ApplyError::NoTopic { offset, topic_id })?;
        if topic.partition_count() != partition {
            return Err(ApplyError::NoPartition { offset, topic_id, partition });
        }
        Arc::make_mut(topic).partitions.push(Arc::clone(state));
        self.partition_count += 1;
        Arc::make_mut(&mut self.replicas).change((topic_id, partition), None, state);
        Ok(())
    }

    pub(super) fn change_partition(
        &mut self,
        offset: i64,
        topic_id: TopicId,
        partition: PartitionIndex,
        state: &Arc<PartitionState>,
    ) -> Result<(), ApplyError> {
        let topic = self.topics.get_mut(&topic_id).ok_or(ApplyError::NoTopic { offset, topic_id })?;
        let missing = ApplyError::NoPartition { offset, topic_id, partition };
        let index = usize::try_from(partition).map_err(|_| missing.clone())?;
        if index >= topic.partitions.len() {
            return Err(missing);
        }
        let before = std::mem::replace(&mut Arc::make_mut(topic).partitions[index], Arc::clone(state));
        Arc::make_mut(&mut self.replicas).change((topic_id, partition), Some(&before), state);
        Ok(())
    }

    pub(super) fn delete(&mut self, offset: i64, topic_id: TopicId) -> Result<Arc<str>, ApplyError> {
        let topic = self.topics.get(&topic_id).cloned().ok_or(ApplyError::NoTopic { offset, topic_id })?;
        self.topics.remove_mut(&topic_id);
        self.ids.remove_mut(&*topic.name);
        if let Some(key) = topic_name::collision_key(&topic.name) {
            self.collisions.remove_mut(&key);
        }
        self.partition_count -= topic.partitions.len();
        Arc::make_mut(&mut self.replicas).delete(&topic);
        Ok(Arc::clone(&topic.name))
    }
}
