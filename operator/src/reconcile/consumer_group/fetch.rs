//! What is there.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_client::groups::{GroupDescription, GroupsError, PartitionEnds, TopicPartition};
use taffrail_core::ids::Offset;

use super::validate::{Target, ValidGroup};
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
    /// The first record of the time that offsets are to go to, of those partitions whose leaders have answered.
    pub at_time: BTreeMap<TopicPartition, Option<Offset>>,
}

impl ObservedGroup {
    /// Whether there is such a group.
    pub fn exists(&self) -> bool {
        self.description.state != DEAD
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
    let is_due = |id: &String| !observed.resets.contains(id);
    if let Some(reset) = valid.reset.as_ref().filter(|reset| is_due(&reset.id))
        && let Target::Timestamp(at_ms) = reset.to
    {
        observed.at_time = groups.at_time(at_ms, &partitions).await?;
    }
    observed.partitions = partitions;
    Ok(observed)
}
