//! OffsetFetch.

use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{CommittedOffset, OffsetsOfGroup, RESET_MARKER};
use taffrail_core::ids::TopicId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::message::offset_fetch_request::{
    OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics,
};
use taffrail_protocol::message::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartition, OffsetFetchResponsePartitions, OffsetFetchResponseTopic,
    OffsetFetchResponseTopics,
};
use taffrail_protocol::message::{OffsetFetchRequest, OffsetFetchResponse, from_wire_id, to_wire_id};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version with an error for the whole group.
const GROUP_ERROR_SINCE: i16 = 2;
/// The first version that asks for several groups (KIP-709).
const MANY_GROUPS_SINCE: i16 = 8;
/// The first version that names topics by id.
const TOPIC_IDS_SINCE: i16 = 10;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: OffsetFetchRequest,
    version: i16,
) -> OffsetFetchResponse {
    if version >= MANY_GROUPS_SINCE {
        let groups = request.groups.iter().map(|group| answer(broker, group, version)).collect();
        return OffsetFetchResponse::default().with_groups(groups);
    }
    let by_name = |topic: &OffsetFetchRequestTopic| {
        OffsetFetchRequestTopics::default()
            .with_name(topic.name.clone())
            .with_partition_indexes(topic.partition_indexes.clone())
    };
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(request.group_id.clone())
        .with_topics(request.topics.map(|topics| topics.iter().map(by_name).collect()));
    let mut answered = answer(broker, &group, version);
    if version < GROUP_ERROR_SINCE && answered.error_code != ErrorCode::None.code() {
        // The first version can tell an error for partitions only.
        answered.topics = group.topics.iter().flatten().map(|topic| refused(topic, answered.error_code)).collect();
        answered.error_code = ErrorCode::None.code();
    }
    OffsetFetchResponse::default()
        .with_error_code(answered.error_code)
        .with_topics(answered.topics.into_iter().map(to_old_topic).collect())
}

fn to_old_topic(topic: OffsetFetchResponseTopics) -> OffsetFetchResponseTopic {
    let partition = |partition: OffsetFetchResponsePartitions| {
        OffsetFetchResponsePartition::default()
            .with_partition_index(partition.partition_index)
            .with_committed_offset(partition.committed_offset)
            .with_committed_leader_epoch(partition.committed_leader_epoch)
            .with_metadata(partition.metadata)
            .with_error_code(partition.error_code)
    };
    OffsetFetchResponseTopic::default()
        .with_name(topic.name)
        .with_partitions(topic.partitions.into_iter().map(partition).collect())
}

fn answer(broker: &Broker, group: &OffsetFetchRequestGroup, version: i16) -> OffsetFetchResponseGroup {
    let response = OffsetFetchResponseGroup::default().with_group_id(group.group_id.clone());
    let image = broker.metadata.image();
    let topics = broker.groups.shard(&group.group_id).and_then(|shard| {
        shard.look(|machine, _| {
            let offsets = machine.offsets(&group.group_id);
            match &group.topics {
                Some(topics) => topics.iter().map(|topic| asked(&image, topic, offsets, version)).collect(),
                None => all(&image, offsets, version),
            }
        })
    });
    match topics {
        Ok(topics) => response.with_topics(topics),
        Err(error) => response.with_error_code(error.code()),
    }
}

/// Whether an offset was committed for an earlier topic of the same name. Old records do not say.
fn is_stale(offset: &CommittedOffset, topic_id: Option<TopicId>) -> bool {
    !offset.topic_id.is_zero() && topic_id.is_some_and(|current| current != offset.topic_id)
}

fn nothing(index: i32) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions::default()
        .with_partition_index(index)
        .with_committed_offset(-1)
        .with_committed_leader_epoch(-1)
        .with_metadata(Some(wire::text("")))
}

fn found(index: i32, offset: &CommittedOffset) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions::default()
        .with_partition_index(index)
        .with_committed_offset(offset.offset)
        .with_committed_leader_epoch(offset.leader_epoch)
        .with_metadata(Some(wire::text(&offset.metadata)))
}

/// All partitions of a topic with the same error.
fn refused(topic: &OffsetFetchRequestTopics, error_code: i16) -> OffsetFetchResponseTopics {
    let partition = |index: &i32| nothing(*index).with_error_code(error_code);
    OffsetFetchResponseTopics::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_partitions(topic.partition_indexes.iter().map(partition).collect())
}

/// The offsets of the partitions that were asked for.
fn asked(
    image: &MetadataImage,
    topic: &OffsetFetchRequestTopics,
    offsets: Option<&OffsetsOfGroup>,
    version: i16,
) -> OffsetFetchResponseTopics {
    let by_id = version >= TOPIC_IDS_SINCE;
    let known = if by_id { image.topic_by_id(from_wire_id(topic.topic_id)) } else { image.topic(&topic.name) };
    if by_id && known.is_none() {
        return refused(topic, ErrorCode::UnknownTopicId.code());
    }
    let name: &str = known.map_or(&topic.name, |known| &known.name);
    let of_topic = offsets.and_then(|offsets| offsets.get(name));
    let topic_id = known.map(|known| known.id);
    let partition = |index: &i32| {
        let offset = of_topic.and_then(|of_topic| of_topic.get(index)).filter(|offset| !is_stale(offset, topic_id));
        offset.map_or_else(|| nothing(*index), |offset| found(*index, offset))
    };
    OffsetFetchResponseTopics::default()
        .with_name(topic.name.clone())
        .with_topic_id(topic.topic_id)
        .with_partitions(topic.partition_indexes.iter().map(partition).collect())
}

/// All offsets of a group. Where topics are named by id, those that do not exist any more are left out.
fn all(image: &MetadataImage, offsets: Option<&OffsetsOfGroup>, version: i16) -> Vec<OffsetFetchResponseTopics> {
    let topic = |(name, of_topic): (&Arc<str>, &BTreeMap<i32, CommittedOffset>)| {
        let topic_id = image.topic(name).map(|topic| topic.id);
        let current = of_topic.iter().filter(|(_, offset)| !is_stale(offset, topic_id));
        let partitions: Vec<_> = current.map(|(index, offset)| found(*index, offset)).collect();
        let response = OffsetFetchResponseTopics::default().with_partitions(partitions);
        let response = match (version >= TOPIC_IDS_SINCE, topic_id) {
            (true, Some(id)) => response.with_topic_id(to_wire_id(id)),
            (true, None) => return None,
            (false, _) => response.with_name(wire::topic_name(name)),
        };
        (!response.partitions.is_empty()).then_some(response)
    };
    // Which reset was done is told to those who ask for it: others take it for a topic.
    let of_topics = offsets.into_iter().flatten().filter(|(name, _)| &***name != RESET_MARKER);
    of_topics.filter_map(topic).collect()
}
