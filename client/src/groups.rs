//! Consumer groups, as an administrator sees and changes them over Kafka's protocol.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::RESET_MARKER;
use taffrail_core::ids::{Offset, PartitionIndex};
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::metadata_request::MetadataRequestTopic;
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use taffrail_protocol::message::offset_fetch_response::OffsetFetchResponseGroup;
use taffrail_protocol::message::{
    BrokerId, DeleteGroupsRequest, DescribeGroupsRequest, FindCoordinatorRequest, GroupId, ListOffsetsRequest,
    ListOffsetsResponse, MetadataRequest, OffsetCommitRequest, OffsetFetchRequest, Request, StrBytes, TopicName,
    from_wire_id,
};
use taffrail_protocol::unread::{self, Age, OFFSETS_MAX, PARTITIONS_MAX, Question};

use crate::kafka::{ConnectionError, KafkaConnection};

/// The versions that are spoken: those that name topics by name, and ask for several groups at once.
const FIND_COORDINATOR_VERSION: i16 = 4;
const DESCRIBE_GROUPS_VERSION: i16 = 5;
const DELETE_GROUPS_VERSION: i16 = 2;
const OFFSET_FETCH_VERSION: i16 = 9;
const OFFSET_COMMIT_VERSION: i16 = 9;
const LIST_OFFSETS_VERSION: i16 = 7;
const METADATA_VERSION: i16 = 12;

/// Timestamp that stands for the end of a log, and the replica id of those who see it as consumers do.
const LATEST: i64 = -1;
const CONSUMER: i32 = -1;

/// Ids of resets that a group is remembered to have had.
const RESETS_MAX: usize = 16;

/// One partition of a topic.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TopicPartition {
    /// The topic's name.
    pub topic: String,
    /// The partition's number.
    pub partition: PartitionIndex,
}

impl TopicPartition {
    /// A partition of the topic of this name.
    pub fn new(topic: impl Into<String>, partition: PartitionIndex) -> Self {
        Self { topic: topic.into(), partition }
    }
}

impl fmt::Display for TopicPartition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// What a coordinator says of a group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupDescription {
    /// The broker that coordinates it.
    pub coordinator: i32,
    /// State, in Kafka's words; `Dead` = there is no such group.
    pub state: String,
    /// Name of the strategy that its members agreed on; empty without members.
    pub protocol: String,
    /// How many members it has.
    pub members: usize,
}

/// What a group has committed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupOffsets {
    /// Offset of the next record that it reads, by partition.
    pub committed: BTreeMap<TopicPartition, Offset>,
    /// Ids of the resets that were done to it, the newest last.
    pub resets: Vec<String>,
}

/// Where a partition begins and ends.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PartitionEnds {
    /// Its first record.
    pub start: Offset,
    /// Up to where consumers can read.
    pub end: Offset,
    /// How old the record is, in milliseconds, that the group reads next.
    pub age_ms: Option<i64>,
}

/// Why something could not be asked or done.
#[derive(Debug, thiserror::Error)]
pub enum GroupsError {
    /// No broker of that number can be reached.
    #[error("broker {0} has no address")]
    NoAddress(i32),
    /// There is no broker to ask.
    #[error("there is no broker yet")]
    NoBroker,
    /// The connection failed.
    #[error(transparent)]
    Kafka(#[from] ConnectionError),
    /// The broker says no.
    #[error("{api} is refused: {}", .error.name())]
    Refused {
        /// The request.
        api: &'static str,
        /// Why.
        error: ErrorCode,
    },
}

impl GroupsError {
    /// What the broker says, if it was asked and answered.
    pub fn refusal(&self) -> Option<ErrorCode> {
        match self {
            Self::Refused { error, .. } => Some(*error),
            _ => None,
        }
    }
}

fn accepted(api: &'static str, code: i16) -> Result<(), GroupsError> {
    match ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError) {
        ErrorCode::None => Ok(()),
        error => Err(GroupsError::Refused { api, error }),
    }
}

fn text(value: &str) -> StrBytes {
    StrBytes::from(value.to_owned())
}

/// A topic as a broker describes it.
struct Topic {
    id: taffrail_core::ids::TopicId,
    leaders: BTreeMap<PartitionIndex, i32>,
}

/// The groups of one cluster.
#[derive(Debug)]
pub struct GroupClient {
    client_id: String,
    timeout: Duration,
    places: BTreeMap<i32, String>,
    connections: BTreeMap<i32, KafkaConnection>,
}

impl GroupClient {
    /// A client that calls itself `client_id`, and gives each call `timeout`.
    pub fn new(client_id: &str, timeout: Duration) -> Self {
        Self { client_id: client_id.to_owned(), timeout, places: BTreeMap::new(), connections: BTreeMap::new() }
    }

    /// Where brokers are from now on: host and port by their ids.
    pub fn set_places(&mut self, places: BTreeMap<i32, String>) {
        self.connections.retain(|id, _| places.get(id) == self.places.get(id));
        self.places = places;
    }

    /// Asks a broker. A connection that was kept may be one to an earlier life of it, so another one is tried then.
    async fn call<R: Request>(&mut self, id: i32, version: i16, message: &R) -> Result<R::Response, GroupsError> {
        if let Some(mut kept) = self.connections.remove(&id)
            && let Ok(answer) = kept.call(version, message).await
        {
            self.connections.insert(id, kept);
            return Ok(answer);
        }
        let place = self.places.get(&id).ok_or(GroupsError::NoAddress(id))?;
        let mut connection = KafkaConnection::dial(place, &self.client_id, self.timeout).await?;
        let answer = connection.call(version, message).await?;
        self.connections.insert(id, connection);
        Ok(answer)
    }

    /// Asks the first broker that answers.
    async fn call_any<R: Request>(&mut self, version: i16, message: &R) -> Result<R::Response, GroupsError> {
        let mut outcome = Err(GroupsError::NoBroker);
        for id in self.places.keys().copied().collect::<Vec<_>>() {
            outcome = self.call(id, version, message).await;
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    async fn coordinator(&mut self, group: &str) -> Result<i32, GroupsError> {
        let request = FindCoordinatorRequest::default().with_coordinator_keys(vec![text(group)]);
        let response = self.call_any(FIND_COORDINATOR_VERSION, &request).await?;
        let missing = GroupsError::Refused { api: "FindCoordinator", error: ErrorCode::CoordinatorNotAvailable };
        let found = response.coordinators.first().ok_or(missing)?;
        accepted("FindCoordinator", found.error_code)?;
        Ok(found.node_id.0)
    }

    /// What the coordinator says of a group; one that does not exist is `Dead`.
    ///
    /// # Errors
    /// When nobody can say.
    pub async fn describe(&mut self, group: &str) -> Result<GroupDescription, GroupsError> {
        let coordinator = self.coordinator(group).await?;
        let request = DescribeGroupsRequest::default().with_groups(vec![GroupId(text(group))]);
        let response = self.call(coordinator, DESCRIBE_GROUPS_VERSION, &request).await?;
        let found = response.groups.first().cloned().unwrap_or_default();
        accepted("DescribeGroups", found.error_code)?;
        Ok(GroupDescription {
            coordinator,
            state: found.group_state.to_string(),
            protocol: found.protocol_data.to_string(),
            members: found.members.len(),
        })
    }

    /// What a group has committed, and the resets that were done to it.
    ///
    /// # Errors
    /// When nobody can say.
    pub async fn offsets(&mut self, group: &str) -> Result<GroupOffsets, GroupsError> {
        let coordinator = self.coordinator(group).await?;
        let marker = OffsetFetchRequestTopics::default()
            .with_name(TopicName(text(RESET_MARKER)))
            .with_partition_indexes(vec![0]);
        let asked = |topics| {
            OffsetFetchRequestGroup::default()
                .with_group_id(GroupId(text(group)))
                .with_member_epoch(-1)
                .with_topics(topics)
        };
        let request = OffsetFetchRequest::default().with_groups(vec![asked(Some(vec![marker])), asked(None)]);
        let response = self.call(coordinator, OFFSET_FETCH_VERSION, &request).await?;
        let mut offsets = GroupOffsets::default();
        for answer in &response.groups {
            accepted("OffsetFetch", answer.error_code)?;
            take_offsets(answer, &mut offsets)?;
        }
        Ok(offsets)
    }

    async fn topics(&mut self, names: &BTreeSet<String>) -> Result<BTreeMap<String, Topic>, GroupsError> {
        if names.is_empty() {
            return Ok(BTreeMap::new());
        }
        let asked = |name: &String| MetadataRequestTopic::default().with_name(Some(TopicName(text(name))));
        let request = MetadataRequest::default()
            .with_topics(Some(names.iter().map(asked).collect()))
            .with_allow_auto_topic_creation(false);
        let response = self.call_any(METADATA_VERSION, &request).await?;
        let mut topics = BTreeMap::new();
        for topic in response.topics {
            match ErrorCode::from_code(topic.error_code) {
                Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::InvalidTopicException) => continue,
                _ => accepted("Metadata", topic.error_code)?,
            }
            let leaders = topic.partitions.iter().map(|it| (it.partition_index, it.leader_id.0)).collect();
            let name = topic.name.map(|name| name.to_string()).unwrap_or_default();
            topics.insert(name, Topic { id: from_wire_id(topic.topic_id), leaders });
        }
        Ok(topics)
    }

    /// The partitions of these topics; one that does not exist has none.
    ///
    /// # Errors
    /// When nobody can say.
    pub async fn partitions(&mut self, topics: &BTreeSet<String>) -> Result<BTreeSet<TopicPartition>, GroupsError> {
        let topics = self.topics(topics).await?;
        let each = |(name, topic): (&String, &Topic)| {
            topic.leaders.keys().map(|index| TopicPartition::new(name, *index)).collect::<Vec<_>>()
        };
        Ok(topics.iter().flat_map(each).collect())
    }

    /// Where these partitions begin and end, and how old the record at the given offset is. Those whose leader does not
    /// answer are left out.
    ///
    /// # Errors
    /// When not even the leaders are known.
    pub async fn ends(
        &mut self,
        asked: &BTreeMap<TopicPartition, Option<Offset>>,
    ) -> Result<BTreeMap<TopicPartition, PartitionEnds>, GroupsError> {
        let mut ends = BTreeMap::new();
        for (leader, asked) in self.by_leader(asked).await? {
            for asked in asked.chunks(PARTITIONS_MAX) {
                let mut request = to_request(asked, LATEST);
                let questions = asked.iter().map(|(_, question)| question.clone()).collect::<Vec<_>>();
                unread::ask(&mut request, &questions);
                match self.call(leader, LIST_OFFSETS_VERSION, &request).await {
                    Ok(response) => ends.extend(ends_in(asked, &response)),
                    Err(error) => tracing::debug!(leader, %error, "the ends of its logs are not known"),
                }
            }
        }
        Ok(ends)
    }

    /// The first offset of these partitions with this timestamp or a later one; `None` = there is no such record. Those
    /// whose leader does not answer are left out.
    ///
    /// # Errors
    /// When not even the leaders are known.
    pub async fn at_time(
        &mut self,
        timestamp_ms: i64,
        partitions: &BTreeSet<TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, Option<Offset>>, GroupsError> {
        let asked = partitions.iter().map(|partition| (partition.clone(), None)).collect();
        let mut found = BTreeMap::new();
        for (leader, asked) in self.by_leader(&asked).await? {
            match self.call(leader, LIST_OFFSETS_VERSION, &to_request(&asked, timestamp_ms)).await {
                Ok(response) => found.extend(
                    offsets_in(&response).into_iter().map(|(key, offset)| (key, Some(offset).filter(|it| *it >= 0))),
                ),
                Err(error) => tracing::debug!(leader, %error, "the times of its records are not known"),
            }
        }
        Ok(found)
    }

    async fn by_leader(
        &mut self,
        asked: &BTreeMap<TopicPartition, Option<Offset>>,
    ) -> Result<BTreeMap<i32, Vec<(TopicPartition, Question)>>, GroupsError> {
        let names = asked.keys().map(|key| key.topic.clone()).collect();
        let topics = self.topics(&names).await?;
        let mut by_leader: BTreeMap<i32, Vec<(TopicPartition, Question)>> = BTreeMap::new();
        for (key, offset) in asked {
            let Some(topic) = topics.get(&key.topic) else { continue };
            let Some(leader) = topic.leaders.get(&key.partition).filter(|leader| **leader >= 0) else { continue };
            let question = Question { topic_id: topic.id, offsets: offset.iter().copied().take(OFFSETS_MAX).collect() };
            by_leader.entry(*leader).or_default().push((key.clone(), question));
        }
        Ok(by_leader)
    }

    /// Sets offsets of a group without members, all or none, as the reset `id`, beside those of `resets` that were done to it
    /// before.
    ///
    /// # Errors
    /// DUPLICATE_RESOURCE if that reset was done before, UNKNOWN_MEMBER_ID if the group has members; others when it cannot
    /// be done now.
    pub async fn reset(
        &mut self,
        group: &str,
        id: &str,
        resets: &[String],
        offsets: &BTreeMap<TopicPartition, Offset>,
    ) -> Result<(), GroupsError> {
        let coordinator = self.coordinator(group).await?;
        let kept = resets.len().saturating_sub(RESETS_MAX - 1);
        let ids: Vec<&str> = resets[kept..].iter().map(String::as_str).chain([id]).collect();
        let mut topics: BTreeMap<&str, Vec<OffsetCommitRequestPartition>> = BTreeMap::new();
        let partition = |index, offset, metadata: &str| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(index)
                .with_committed_offset(offset)
                .with_committed_leader_epoch(-1)
                .with_committed_metadata(Some(text(metadata)))
        };
        topics.insert(RESET_MARKER, vec![partition(0, 0, &ids.join("\n"))]);
        for (key, offset) in offsets {
            topics.entry(&key.topic).or_default().push(partition(key.partition, *offset, ""));
        }
        let topic = |(name, partitions): (&str, Vec<OffsetCommitRequestPartition>)| {
            OffsetCommitRequestTopic::default().with_name(TopicName(text(name))).with_partitions(partitions)
        };
        let request = OffsetCommitRequest::default()
            .with_group_id(GroupId(text(group)))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(topics.into_iter().map(topic).collect());
        let response = self.call(coordinator, OFFSET_COMMIT_VERSION, &request).await?;
        let mut outcomes = response.topics.iter().flat_map(|topic| &topic.partitions);
        outcomes.try_for_each(|outcome| accepted("OffsetCommit", outcome.error_code))
    }

    /// Deletes a group with its offsets, if it has no members.
    ///
    /// # Errors
    /// NON_EMPTY_GROUP if it has members, GROUP_ID_NOT_FOUND if there is none; others when it cannot be done now.
    pub async fn delete(&mut self, group: &str) -> Result<(), GroupsError> {
        let coordinator = self.coordinator(group).await?;
        let request = DeleteGroupsRequest::default().with_groups_names(vec![GroupId(text(group))]);
        let response = self.call(coordinator, DELETE_GROUPS_VERSION, &request).await?;
        response.results.iter().try_for_each(|result| accepted("DeleteGroups", result.error_code))
    }
}

fn take_offsets(answer: &OffsetFetchResponseGroup, offsets: &mut GroupOffsets) -> Result<(), GroupsError> {
    for topic in &answer.topics {
        for partition in topic.partitions.iter().filter(|partition| partition.committed_offset >= 0) {
            accepted("OffsetFetch", partition.error_code)?;
            if &**topic.name == RESET_MARKER {
                let ids = partition.metadata.as_deref().unwrap_or_default().lines();
                offsets.resets = ids.map(str::to_owned).collect();
            } else {
                let key = TopicPartition::new(topic.name.to_string(), partition.partition_index);
                offsets.committed.insert(key, partition.committed_offset);
            }
        }
    }
    Ok(())
}

fn to_request(asked: &[(TopicPartition, Question)], timestamp: i64) -> ListOffsetsRequest {
    let partition = |(key, _): &(TopicPartition, Question)| {
        ListOffsetsPartition::default().with_partition_index(key.partition).with_timestamp(timestamp)
    };
    let topics = asked.chunk_by(|(one, _), (next, _)| one.topic == next.topic).map(|of_topic| {
        let name = of_topic.first().map(|(key, _)| text(&key.topic)).unwrap_or_default();
        ListOffsetsTopic::default().with_name(TopicName(name)).with_partitions(of_topic.iter().map(partition).collect())
    });
    ListOffsetsRequest::default().with_replica_id(BrokerId(CONSUMER)).with_topics(topics.collect())
}

/// The offsets that a response tells; partitions that are refused are left out.
fn offsets_in(response: &ListOffsetsResponse) -> BTreeMap<TopicPartition, Offset> {
    let topics = response.topics.iter();
    let each = topics.flat_map(|topic| topic.partitions.iter().map(move |partition| (topic, partition)));
    each.filter(|(_, partition)| partition.error_code == ErrorCode::None.code())
        .map(|(topic, partition)| {
            (TopicPartition::new(topic.name.to_string(), partition.partition_index), partition.offset)
        })
        .collect()
}

fn ends_in(
    asked: &[(TopicPartition, Question)],
    response: &ListOffsetsResponse,
) -> BTreeMap<TopicPartition, PartitionEnds> {
    let found = offsets_in(response);
    let answers = unread::answered(response).unwrap_or_default();
    let mut ends = BTreeMap::new();
    for ((key, _), answer) in asked.iter().zip(answers) {
        if let (Some(end), Some(answer)) = (found.get(key), answer) {
            let age_ms = answer.ages.first().and_then(|age| match age {
                Age::Unknown => None,
                Age::Appended(ms) | Age::Stamped(ms) => Some(*ms),
            });
            ends.insert(key.clone(), PartitionEnds { start: answer.log_start, end: *end, age_ms });
        }
    }
    ends
}
