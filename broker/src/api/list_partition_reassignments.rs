//! ListPartitionReassignments: the moves that are under way, as this broker has seen them (KIP-455).

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use taffrail_core::ids::PartitionIndex;
use taffrail_core::image::{MetadataImage, PartitionKey};
use taffrail_protocol::message::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use taffrail_protocol::message::{ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: ListPartitionReassignmentsRequest,
    _version: i16,
) -> ListPartitionReassignmentsResponse {
    let image = broker.metadata.image();
    let mut topics: BTreeMap<Arc<str>, BTreeMap<PartitionIndex, OngoingPartitionReassignment>> = BTreeMap::new();
    for key in asked(&image, &request) {
        let (Some(topic), Some(state)) = (image.topic_by_id(key.0), image.partition(key)) else { continue };
        if !state.is_reassigning() {
            continue;
        }
        let moving = OngoingPartitionReassignment::default()
            .with_partition_index(key.1)
            .with_replicas(wire::broker_ids(&state.replicas))
            .with_adding_replicas(wire::broker_ids(&state.adding))
            .with_removing_replicas(wire::broker_ids(&state.removing));
        topics.entry(Arc::clone(&topic.name)).or_default().insert(key.1, moving);
    }
    let topic = |(name, partitions): (Arc<str>, BTreeMap<PartitionIndex, OngoingPartitionReassignment>)| {
        OngoingTopicReassignment::default()
            .with_name(wire::topic_name(&name))
            .with_partitions(partitions.into_values().collect())
    };
    ListPartitionReassignmentsResponse::default()
        .with_error_message(None)
        .with_topics(topics.into_iter().map(topic).collect())
}

/// Partitions that may be moving and are asked about. As in Kafka, what does not exist is not mentioned.
fn asked(image: &MetadataImage, request: &ListPartitionReassignmentsRequest) -> BTreeSet<PartitionKey> {
    let Some(topics) = &request.topics else { return image.replica_index().reassigning().collect() };
    let named = topics.iter().filter_map(|topic| {
        let id = image.topic(&topic.name)?.id;
        Some(topic.partition_indexes.iter().map(move |partition| (id, *partition)))
    });
    named.flatten().collect()
}
