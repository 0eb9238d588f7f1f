//! OffsetForLeaderEpoch: where an epoch of a partition's leadership ended, by which clients and followers find out whether
//! their log still agrees (KIP-101, KIP-320).

use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::offset_for_leader_epoch_request::OffsetForLeaderPartition;
use taffrail_protocol::message::offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
use taffrail_protocol::message::{OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse};

use crate::broker::Broker;
use crate::client_info::ClientInfo;
use crate::replica::Refused;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: OffsetForLeaderEpochRequest,
    _version: i16,
) -> OffsetForLeaderEpochResponse {
    let (hosted, image) = (broker.replicas.hosted(), broker.metadata.image());
    let look_up = |topic: &TopicRef, asked: &OffsetForLeaderPartition| -> Result<(LeaderEpoch, Offset), Refused> {
        let partition = hosted.partition(topic, asked.partition, &image)?;
        partition.check_leader(asked.current_leader_epoch)?;
        Ok(partition.log().epoch_end(asked.leader_epoch))
    };
    let topics = request.topics.iter().map(|topic| {
        let name = TopicRef::Name(topic.topic.0.clone());
        let answer = |asked: &OffsetForLeaderPartition| {
            let end = EpochEndOffset::default().with_partition(asked.partition);
            match look_up(&name, asked) {
                Ok((epoch, offset)) => end.with_leader_epoch(epoch).with_end_offset(offset),
                Err(refused) => end.with_error_code(refused.error.code()).with_leader_epoch(-1).with_end_offset(-1),
            }
        };
        OffsetForLeaderTopicResult::default()
            .with_topic(topic.topic.clone())
            .with_partitions(topic.partitions.iter().map(answer).collect())
    });
    OffsetForLeaderEpochResponse::default().with_topics(topics.collect())
}
