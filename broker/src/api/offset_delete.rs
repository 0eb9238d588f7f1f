//! OffsetDelete (KIP-496).

use std::collections::BTreeSet;
use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::Reply;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::message::offset_delete_request::OffsetDeleteRequestTopic;
use taffrail_protocol::message::offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic};
use taffrail_protocol::message::{OffsetDeleteRequest, OffsetDeleteResponse};

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: OffsetDeleteRequest,
    _version: i16,
) -> OffsetDeleteResponse {
    let image = broker.metadata.image();
    let subscribed = match delete(broker, &image, &request).await {
        Ok(subscribed) => subscribed,
        Err(error) => return OffsetDeleteResponse::default().with_error_code(error.code()),
    };
    let topic = |topic: &OffsetDeleteRequestTopic| {
        let partitions = topic.partitions.iter().map(|partition| {
            let error = if !is_known(&image, topic, partition.partition_index) {
                ErrorCode::UnknownTopicOrPartition
            } else if subscribed.contains(&**topic.name) {
                ErrorCode::GroupSubscribedToTopic
            } else {
                ErrorCode::None
            };
            let index = partition.partition_index;
            OffsetDeleteResponsePartition::default().with_partition_index(index).with_error_code(error.code())
        });
        OffsetDeleteResponseTopic::default().with_name(topic.name.clone()).with_partitions(partitions.collect())
    };
    OffsetDeleteResponse::default().with_topics(request.topics.iter().map(topic).collect())
}

fn is_known(image: &MetadataImage, topic: &OffsetDeleteRequestTopic, index: i32) -> bool {
    image.topic(&topic.name).is_some_and(|known| known.partition(index).is_some())
}

/// Deletes what can be deleted; gives the topics whose offsets are in use.
async fn delete(
    broker: &Broker,
    image: &MetadataImage,
    request: &OffsetDeleteRequest,
) -> Result<BTreeSet<String>, ErrorCode> {
    if request.group_id.is_empty() {
        return Err(ErrorCode::InvalidGroupId);
    }
    let mut partitions: Vec<(Arc<str>, i32)> = Vec::new();
    for topic in &request.topics {
        let name = wire::shared(&topic.name);
        let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
        let known = indexes.filter(|index| is_known(image, topic, *index));
        partitions.extend(known.map(|index| (Arc::clone(&name), index)));
    }
    let shard = broker.groups.shard(&request.group_id)?;
    let group_id = request.group_id.to_string();
    match shard.ask_to_write(|machine, _, waiter| machine.delete_offsets(waiter, &group_id, &partitions)).await? {
        Reply::OffsetsDeleted { error: ErrorCode::None, subscribed } => Ok(subscribed),
        Reply::OffsetsDeleted { error, .. } => Err(error),
        _ => Err(ErrorCode::UnknownServerError),
    }
}
