//! Consumer groups: who is there, how far they are, and what changes that.

use std::collections::{BTreeMap, BTreeSet};

use taffrail_core::group::consumer_protocol;
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::{
    DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, ListGroupsRequest,
    OffsetCommitRequest, OffsetCommitResponse, OffsetFetchRequest, Request,
};
use taffrail_protocol::versions::VersionRange;

use super::topics::topic_name;
use super::{KafkaClient, KafkaError, PartitionKey, Patience, check};

/// The last version that asks for one group.
const FIND_COORDINATOR: VersionRange = VersionRange { min: 0, max: 3 };
const LIST_GROUPS: VersionRange = VersionRange { min: 0, max: 5 };
const DESCRIBE_GROUPS: VersionRange = VersionRange { min: 0, max: 5 };
const DELETE_GROUPS: VersionRange = VersionRange { min: 0, max: 2 };
/// Versions that may ask for all partitions, up to the last one that asks for one group.
pub(super) const OFFSET_FETCH: VersionRange = VersionRange { min: 2, max: 7 };
/// Versions without a retention time, up to the last one that names topics.
pub(super) const OFFSET_COMMIT: VersionRange = VersionRange { min: 5, max: 8 };

/// The generation of a client that is no member.
pub(super) const NO_GENERATION: i32 = -1;

/// A group as its coordinator lists it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListedGroup {
    /// Its name.
    pub name: String,
    /// Kafka's word for how it is; empty where brokers do not tell.
    pub state: String,
    /// What its members are, such as `consumer`; empty if it only has offsets.
    pub protocol_type: String,
    /// The broker that coordinates it.
    pub coordinator: i32,
}

/// A group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its name.
    pub name: String,
    /// Kafka's word for how it is.
    pub state: String,
    /// What its members are, such as `consumer`; empty if it only has offsets.
    pub protocol_type: String,
    /// How partitions are assigned, such as `range`.
    pub assignor: String,
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// Its members.
    pub members: Vec<GroupMember>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupMember {
    /// Its id, from the coordinator.
    pub id: String,
    /// Its own lasting name, if it is a static member.
    pub instance_id: Option<String>,
    /// What it calls its client.
    pub client_id: String,
    /// From where it connects.
    pub host: String,
    /// What it reads; nothing if it says so in another way than consumers do.
    pub partitions: BTreeSet<PartitionKey>,
}

/// How far a group is in one partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommittedOffset {
    /// The next offset to read.
    pub offset: i64,
    /// What the consumer noted with it.
    pub metadata: String,
}

impl KafkaClient {
    /// The groups of all brokers, in the order of their names.
    ///
    /// # Errors
    /// The refusal of the first broker that cannot tell.
    pub async fn groups(&mut self) -> Result<Vec<ListedGroup>, KafkaError> {
        self.metadata(Some(&[])).await?;
        let brokers: Vec<i32> = self.addresses.keys().copied().collect();
        let mut groups = Vec::new();
        for broker in brokers {
            let answer = self.ask(broker, LIST_GROUPS, &ListGroupsRequest::default()).await?;
            check(format!("groups of broker {broker}"), answer.error_code, None)?;
            groups.extend(answer.groups.into_iter().map(|group| ListedGroup {
                name: group.group_id.to_string(),
                state: group.group_state.to_string(),
                protocol_type: group.protocol_type.to_string(),
                coordinator: broker,
            }));
        }
        groups.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        // While a group moves to another coordinator, both may list it.
        groups.dedup_by(|one, other| one.name == other.name);
        Ok(groups)
    }

    /// A group and its members. One that does not exist has the state `Dead`.
    ///
    /// # Errors
    /// The refusal.
    pub async fn group(&mut self, name: &str) -> Result<Group, KafkaError> {
        let request = DescribeGroupsRequest::default().with_groups(vec![group_id(name)]);
        let check_answer = |answer: &<DescribeGroupsRequest as Request>::Response| {
            let group = answer.groups.first().ok_or_else(|| KafkaError::NotAnswered(format!("group {name}")))?;
            check(format!("group {name}"), group.error_code, group.error_message.as_deref())
        };
        let (coordinator, answer) = self.ask_coordinator(name, DESCRIBE_GROUPS, &request, check_answer).await?;
        let group = answer.groups.into_iter().next();
        let group = group.ok_or_else(|| KafkaError::NotAnswered(format!("group {name}")))?;
        let member = |member: taffrail_protocol::message::describe_groups_response::DescribedGroupMember| {
            let assigned = consumer_protocol::partitions(&member.member_assignment).unwrap_or_default().into_iter();
            let partitions = assigned
                .flat_map(|(topic, partitions)| partitions.into_iter().map(move |number| (topic.to_owned(), number)));
            GroupMember {
                id: member.member_id.to_string(),
                instance_id: member.group_instance_id.map(|id| id.to_string()),
                client_id: member.client_id.to_string(),
                host: member.client_host.trim_start_matches('/').to_owned(),
                partitions: partitions.collect(),
            }
        };
        Ok(Group {
            name: group.group_id.to_string(),
            state: group.group_state.to_string(),
            protocol_type: group.protocol_type.to_string(),
            assignor: group.protocol_data.to_string(),
            coordinator,
            members: group.members.into_iter().map(member).collect(),
        })
    }

    /// How far a group is, in each partition where it has committed.
    ///
    /// # Errors
    /// The refusal.
    pub async fn committed(&mut self, group: &str) -> Result<BTreeMap<PartitionKey, CommittedOffset>, KafkaError> {
        let request = OffsetFetchRequest::default().with_group_id(group_id(group)).with_topics(None);
        let check_answer = |answer: &<OffsetFetchRequest as Request>::Response| {
            check(format!("offsets of group {group}"), answer.error_code, None)
        };
        let (_, answer) = self.ask_coordinator(group, OFFSET_FETCH, &request, check_answer).await?;
        let mut committed = BTreeMap::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let what = format!("offset of group {group} in {}-{}", topic.name.as_str(), partition.partition_index);
                check(what, partition.error_code, None)?;
                let metadata = partition.metadata.map(|text| text.to_string()).unwrap_or_default();
                let offset = CommittedOffset { offset: partition.committed_offset, metadata };
                if offset.offset >= 0 {
                    committed.insert((topic.name.to_string(), partition.partition_index), offset);
                }
            }
        }
        Ok(committed)
    }

    /// Has a group without members go on at these offsets.
    ///
    /// # Errors
    /// The refusal of the first partition, such as UNKNOWN_MEMBER_ID while the group has members.
    pub async fn commit(&mut self, group: &str, offsets: &BTreeMap<PartitionKey, i64>) -> Result<(), KafkaError> {
        let request = commit_request(group, "", NO_GENERATION, offsets);
        let check_answer = |answer: &OffsetCommitResponse| check_commit(group, offsets.len(), answer);
        self.ask_coordinator(group, OFFSET_COMMIT, &request, check_answer).await?;
        Ok(())
    }

    /// Forgets a group without members, and how far it was.
    ///
    /// # Errors
    /// The refusal.
    pub async fn delete_group(&mut self, name: &str) -> Result<(), KafkaError> {
        let request = DeleteGroupsRequest::default().with_groups_names(vec![group_id(name)]);
        let check_answer = |answer: &<DeleteGroupsRequest as Request>::Response| {
            let group = answer.results.first().ok_or_else(|| KafkaError::NotAnswered(format!("group {name}")))?;
            check(format!("group {name}"), group.error_code, None)
        };
        self.ask_coordinator(name, DELETE_GROUPS, &request, check_answer).await?;
        Ok(())
    }

    /// Asks the coordinator of a group, which may move or load meanwhile; gives who it was, and the answer when
    /// `check_answer` has nothing against it.
    pub(super) async fn ask_coordinator<R: Request>(
        &mut self,
        group: &str,
        versions: VersionRange,
        request: &R,
        check_answer: impl Fn(&R::Response) -> Result<(), KafkaError>,
    ) -> Result<(i32, R::Response), KafkaError> {
        let patience = Patience::new(self.timeout);
        loop {
            let coordinator = self.coordinator(group).await;
            let outcome = match coordinator {
                Ok(coordinator) => self.ask(coordinator, versions, request).await.map(|answer| (coordinator, answer)),
                Err(error) => Err(error),
            };
            match outcome.and_then(|(coordinator, answer)| check_answer(&answer).map(|()| (coordinator, answer))) {
                Ok(found) => return Ok(found),
                Err(error) => patience.after(error).await?,
            }
        }
    }

    /// The broker that coordinates a group.
    pub(super) async fn coordinator(&mut self, group: &str) -> Result<i32, KafkaError> {
        // Where brokers are is told by Metadata, under the names that clients reach them by.
        self.metadata(Some(&[])).await?;
        let request = FindCoordinatorRequest::default().with_key(group.to_owned().into());
        let answer = self.ask_any(FIND_COORDINATOR, &request).await?;
        check(format!("coordinator of group {group}"), answer.error_code, answer.error_message.as_deref())?;
        Ok(answer.node_id.0)
    }
}

pub(super) fn group_id(name: &str) -> GroupId {
    GroupId(name.to_owned().into())
}

/// Has a group go on at these offsets, on behalf of one of its members (an empty id is none).
pub(super) fn commit_request(
    group: &str,
    member_id: &str,
    generation: i32,
    offsets: &BTreeMap<PartitionKey, i64>,
) -> OffsetCommitRequest {
    let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
    for ((topic, partition), offset) in offsets {
        let partition = OffsetCommitRequestPartition::default()
            .with_partition_index(*partition)
            .with_committed_offset(*offset)
            .with_committed_metadata(None);
        topics.entry(topic).or_default().push(partition);
    }
    let topics = topics.into_iter().map(|(topic, partitions)| {
        OffsetCommitRequestTopic::default().with_name(topic_name(topic)).with_partitions(partitions)
    });
    OffsetCommitRequest::default()
        .with_group_id(group_id(group))
        .with_generation_id_or_member_epoch(generation)
        .with_member_id(member_id.to_owned().into())
        .with_topics(topics.collect())
}

/// Whether all of `count` offsets were taken.
///
/// # Errors
/// The refusal of the first that was not.
pub(super) fn check_commit(group: &str, count: usize, answer: &OffsetCommitResponse) -> Result<(), KafkaError> {
    let partitions = || answer.topics.iter().flat_map(|it| it.partitions.iter().map(move |on| (&it.name, on)));
    for (topic, partition) in partitions() {
        let what = format!("offset of group {group} in {}-{}", topic.as_str(), partition.partition_index);
        check(what, partition.error_code, None)?;
    }
    if partitions().count() < count {
        return Err(KafkaError::NotAnswered(format!("offsets of group {group}")));
    }
    Ok(())
}
