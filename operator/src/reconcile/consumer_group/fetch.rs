//! What is there.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_client::groups::{GroupDescription, GroupsError, PartitionEnds, TopicPartition};
use taffrail_core::ids::Offset;

use super::validate::{INITIAL_ID, Target, ValidGroup};
use crate::platform::groups::GroupAdmin;

/// State of a group that does not exist.
const DEAD: &str = "Dead";

/// A group as its coordinator and the leaders of its partitions have it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ObservedGroup {
    /// What its coordinator says of it.
    pub description: GroupDescription,
    /// Offset of the next record that it reads, by partition.
    pub committed: BTreeMap<TopicPartition, Offset>,
    /// Ids of the resets that were done to it, the newest last.
    pub resets: Vec<String>,
    /// All partitions of the topics that matter: those that the resource names, else those that the group has committed.
    pub partitions: BTreeSet<TopicPartition>,
    /// Topics that the resource names, and that there are not.
    pub unknown_topics: Vec<String>,
    /// Where partitions begin and end, of those whose leaders have answered.
    pub ends: BTreeMap<TopicPartition, PartitionEnds>,
    /// The first record of each time that offsets are to go to, of those partitions whose leaders have answered.
    pub at_time: BTreeMap<i64, BTreeMap<TopicPartition, Option<Offset>>>,
    /// The partitions of dead-letter topics, with their ends where leaders have answered.
    pub dead_letters: BTreeMap<TopicPartition, Option<PartitionEnds>>,
}

impl ObservedGroup {
    /// Whether there is such a group.
    pub fn exists(&self) -> bool {
        self.description.state != DEAD
    }

    /// Whether somebody uses or has used the group, as far as the resource's topics go.
    pub fn has_begun(&self, valid: &ValidGroup) -> bool {
        self.description.members > 0
            || self.committed.keys().any(|key| valid.topics.contains(&key.topic))
            || self.resets.iter().any(|id| id == INITIAL_ID)
    }

    /// The times that offsets are to go to now.
    fn times(&self, valid: &ValidGroup) -> BTreeSet<i64> {
        let reset = valid.reset.as_ref().filter(|reset| !self.resets.contains(&reset.id)).map(|reset| reset.to);
        let initial = valid.initial.filter(|_| !self.has_begun(valid));
        let time = |to| match to {
            Target::Timestamp(ms) => Some(ms),
            _ => None,
        };
        reset.into_iter().chain(initial).filter_map(time).collect()
    }
}

/// Asks for all that matters of a group.
///
/// # Errors
/// When it cannot be told; leaders that do not answer leave their partitions out.
pub async fn fetch(valid: &ValidGroup, groups: &mut impl GroupAdmin) -> Result<ObservedGroup, GroupsError> {
    let description = groups.describe(&valid.id).await?;
    let offsets = groups.offsets(&valid.id).await?;
    let named = |topic: &String| valid.topics.is_empty() || valid.topics.contains(topic);
    let mut topics: BTreeSet<String> = offsets.committed.keys().map(|key| key.topic.clone()).filter(named).collect();
    let mut asked_for = valid.topics.clone();
    asked_for.extend(valid.reset.iter().flat_map(|reset| &reset.partitions).map(|key| key.topic.clone()));
    topics.extend(asked_for.iter().cloned());
    let partitions = groups.partitions(&topics).await?;
    let exists = |topic: &String| partitions.iter().any(|key| key.topic == *topic);
    let mut observed = ObservedGroup {
        unknown_topics: asked_for.iter().filter(|topic| !exists(topic)).cloned().collect(),
        description,
        committed: offsets.committed,
        resets: offsets.resets,
        ..ObservedGroup::default()
    };
    let asked = partitions.iter().map(|key| (key.clone(), observed.committed.get(key).copied())).collect();
    observed.ends = groups.ends(&asked).await?;
    for at_ms in observed.times(valid) {
        let found = groups.at_time(at_ms, &partitions).await?;
        observed.at_time.insert(at_ms, found);
    }
    observed.partitions = partitions;
    if !valid.dead_letters.is_empty() {
        observed.dead_letters = dead_letters(valid, groups).await?;
    }
    Ok(observed)
}

/// The ends of dead-letter topics, with the age of the oldest record that there is.
async fn dead_letters(
    valid: &ValidGroup,
    groups: &mut impl GroupAdmin,
) -> Result<BTreeMap<TopicPartition, Option<PartitionEnds>>, GroupsError> {
    let partitions = groups.partitions(&valid.dead_letters).await?;
    // What lies before the log counts as its beginning.
    let asked = partitions.iter().map(|key| (key.clone(), Some(0))).collect();
    let ends = groups.ends(&asked).await?;
    Ok(partitions.into_iter().map(|key| (key.clone(), ends.get(&key).copied())).collect())
}
