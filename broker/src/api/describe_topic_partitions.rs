//! DescribeTopicPartitions: topics in pages (KIP-966).

use std::collections::BTreeSet;
use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::PartitionIndex;
use taffrail_core::image::{MetadataImage, TopicImage};
use taffrail_core::topic_name;
use taffrail_protocol::message::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use taffrail_protocol::message::{
    BrokerId as WireBrokerId, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, to_wire_id,
};

use super::{metadata, wire};
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DescribeTopicPartitionsRequest,
    _version: i16,
) -> DescribeTopicPartitionsResponse {
    let image = broker.metadata.image();
    let (first, first_partition) = match &request.cursor {
        Some(cursor) => (wire::shared(&cursor.topic_name), cursor.partition_index),
        None => (Arc::from(""), 0),
    };
    let mut names: BTreeSet<Arc<str>> = request.topics.iter().map(|topic| wire::shared(&topic.name)).collect();
    let all = names.is_empty();
    let names_the_cursor = all || request.cursor.is_none() || names.contains(&first);
    if first_partition < 0 || !names_the_cursor {
        return refused(&names);
    }
    names.retain(|name| *name >= first);
    let limit = request.response_partition_limit.min(broker.config.load().max_request_partition_size_limit).max(1);
    let mut page = Page { image: &image, room: limit as usize, topics: Vec::new(), next: None };
    if all {
        for topic in image.topics().iter_from(&first) {
            let from = if topic.name == first { first_partition } else { 0 };
            if !page.add(&topic.name, Some(topic), from) {
                break;
            }
        }
    } else {
        for name in &names {
            let from = if *name == first { first_partition } else { 0 };
            if !page.add(name, image.topic(name).map(|topic| &**topic), from) {
                break;
            }
        }
    }
    DescribeTopicPartitionsResponse::default().with_topics(page.topics).with_next_cursor(page.next)
}

fn refused(names: &BTreeSet<Arc<str>>) -> DescribeTopicPartitionsResponse {
    let entry = |name: &Arc<str>| {
        DescribeTopicPartitionsResponseTopic::default()
            .with_error_code(ErrorCode::InvalidRequest.code())
            .with_name(Some(wire::topic_name(name)))
    };
    DescribeTopicPartitionsResponse::default().with_topics(names.iter().map(entry).collect())
}

/// An answer that fills up.
struct Page<'a> {
    image: &'a MetadataImage,
    /// Partitions that still fit.
    room: usize,
    topics: Vec<DescribeTopicPartitionsResponseTopic>,
    next: Option<Cursor>,
}

impl Page<'_> {
    /// Adds a topic from partition `from` on; tells whether the next topic has a place too.
    fn add(&mut self, name: &str, topic: Option<&TopicImage>, from: PartitionIndex) -> bool {
        let cursor =
            |index| Some(Cursor::default().with_topic_name(wire::topic_name(name)).with_partition_index(index));
        if self.room == 0 {
            self.next = cursor(from);
            return false;
        }
        let entry = DescribeTopicPartitionsResponseTopic::default()
            .with_name(Some(wire::topic_name(name)))
            .with_is_internal(topic_name::is_internal(name))
            .with_topic_authorized_operations(wire::TOPIC_OPERATIONS);
        let Some(topic) = topic else {
            let error = match topic_name::validate(name) {
                Ok(()) => ErrorCode::UnknownTopicOrPartition,
                Err(_) => ErrorCode::InvalidTopicException,
            };
            self.topics.push(entry.with_error_code(error.code()));
            return true;
        };
        let partitions: Vec<_> =
            (from..topic.partition_count()).take(self.room).filter_map(|index| self.partition(topic, index)).collect();
        self.room -= partitions.len();
        let reached = from.saturating_add(partitions.len() as i32);
        self.topics.push(entry.with_topic_id(to_wire_id(topic.id)).with_partitions(partitions));
        if reached < topic.partition_count() {
            self.next = cursor(reached);
            return false;
        }
        true
    }

    fn partition(&self, topic: &TopicImage, index: PartitionIndex) -> Option<DescribeTopicPartitionsResponsePartition> {
        let state = topic.partition(index)?;
        let (error, leader) = metadata::leader_of(self.image, state);
        let partition = DescribeTopicPartitionsResponsePartition::default()
            .with_error_code(error.code())
            .with_partition_index(index)
            .with_leader_id(WireBrokerId(leader.0))
            .with_leader_epoch(state.leader_epoch)
            .with_replica_nodes(wire::broker_ids(&state.replicas))
            .with_isr_nodes(wire::broker_ids(&state.isr))
            .with_eligible_leader_replicas(Some(wire::broker_ids(&state.eligible)))
            .with_last_known_elr(Some(wire::broker_ids(&state.last_known)))
            .with_offline_replicas(wire::broker_ids(&metadata::offline_replicas(self.image, state)));
        Some(partition)
    }
}
