//! Groups without brokers: a coordinator that keeps what is committed, and logs that only have ends.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_client::groups::{GroupDescription, GroupOffsets, GroupsError, PartitionEnds, TopicPartition};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Offset;
use taffrail_operator::platform::groups::GroupAdmin;

/// One group.
#[derive(Clone, Default)]
pub(crate) struct MemoryGroup {
    pub(crate) members: usize,
    pub(crate) offsets: GroupOffsets,
}

/// The groups of a cluster.
#[derive(Default)]
pub(crate) struct MemoryGroups {
    pub(crate) groups: BTreeMap<String, MemoryGroup>,
    /// First and last offset of every partition that there is.
    pub(crate) logs: BTreeMap<TopicPartition, (Offset, Offset)>,
    /// Offsets of the records of a time.
    pub(crate) times: BTreeMap<(TopicPartition, i64), Offset>,
    /// Nobody answers.
    pub(crate) is_away: bool,
    /// A reset is carried out, and its answer is lost.
    pub(crate) loses_answers: bool,
    /// Members come between the look and the reset.
    pub(crate) members_come: bool,
    /// Resets that were carried out.
    pub(crate) done: Vec<String>,
}

impl MemoryGroups {
    /// A topic whose partitions all have records from 10 up to 100.
    pub(crate) fn topic(&mut self, name: &str, partitions: i32) {
        self.logs.extend((0..partitions).map(|index| (TopicPartition::new(name, index), (10, 100))));
    }

    /// A group without members that has committed this in partitions 0 and on.
    pub(crate) fn group(&mut self, id: &str, topic: &str, committed: &[Offset]) {
        let offsets = (0..).zip(committed).map(|(index, offset)| (TopicPartition::new(topic, index), *offset));
        self.groups.entry(id.to_owned()).or_default().offsets.committed.extend(offsets);
    }

    pub(crate) fn committed(&self, id: &str) -> Vec<Offset> {
        self.groups.get(id).map(|group| group.offsets.committed.values().copied().collect()).unwrap_or_default()
    }

    fn reach(&self) -> Result<(), GroupsError> {
        if self.is_away { Err(GroupsError::NoBroker) } else { Ok(()) }
    }
}

fn refused<T>(api: &'static str, error: ErrorCode) -> Result<T, GroupsError> {
    Err(GroupsError::Refused { api, error })
}

impl GroupAdmin for MemoryGroups {
    async fn describe(&mut self, group: &str) -> Result<GroupDescription, GroupsError> {
        self.reach()?;
        let found = self.groups.get(group);
        let state = match found.map(|group| group.members) {
            None => "Dead",
            Some(0) => "Empty",
            Some(_) => "Stable",
        };
        let members = found.map_or(0, |group| group.members);
        let protocol = if members > 0 { "range".to_owned() } else { String::new() };
        Ok(GroupDescription { coordinator: 2, state: state.to_owned(), protocol, members })
    }

    async fn offsets(&mut self, group: &str) -> Result<GroupOffsets, GroupsError> {
        Ok(self.groups.get(group).map(|group| group.offsets.clone()).unwrap_or_default())
    }

    async fn partitions(&mut self, topics: &BTreeSet<String>) -> Result<BTreeSet<TopicPartition>, GroupsError> {
        Ok(self.logs.keys().filter(|key| topics.contains(&key.topic)).cloned().collect())
    }

    async fn ends(
        &mut self,
        asked: &BTreeMap<TopicPartition, Option<Offset>>,
    ) -> Result<BTreeMap<TopicPartition, PartitionEnds>, GroupsError> {
        let ends = |key: &TopicPartition| {
            let (start, end) = *self.logs.get(key)?;
            Some((key.clone(), PartitionEnds { start, end, age_ms: Some(7_500) }))
        };
        Ok(asked.keys().filter_map(ends).collect())
    }

    async fn at_time(
        &mut self,
        timestamp_ms: i64,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, Option<Offset>>, GroupsError> {
        let found = |key: &TopicPartition| self.times.get(&(key.clone(), timestamp_ms)).copied();
        Ok(partitions.iter().map(|key| (key.clone(), found(key))).collect())
    }

    async fn reset(
        &mut self,
        group: &str,
        id: &str,
        resets: &[String],
        offsets: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), GroupsError> {
        let kept = self.groups.entry(group.to_owned()).or_default();
        if kept.members > 0 || self.members_come {
            return refused("OffsetCommit", ErrorCode::UnknownMemberId);
        }
        if kept.offsets.resets.iter().any(|done| done == id) {
            return refused("OffsetCommit", ErrorCode::DuplicateResource);
        }
        kept.offsets.committed.extend(offsets.clone());
        kept.offsets.resets = resets.iter().cloned().chain([id.to_owned()]).collect();
        self.done.push(id.to_owned());
        if self.loses_answers { Err(GroupsError::NoBroker) } else { Ok(()) }
    }

    async fn delete(&mut self, group: &str) -> Result<(), GroupsError> {
        self.reach()?;
        match self.groups.get(group).map(|group| group.members) {
            None => refused("DeleteGroups", ErrorCode::GroupIdNotFound),
            Some(0) => {
                self.groups.remove(group);
                Ok(())
            }
            Some(_) => refused("DeleteGroups", ErrorCode::NonEmptyGroup),
        }
    }
}
