//! ListOffsets: where a partition begins and ends, and what was written when.

use std::collections::BTreeSet;
use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::image::MetadataImage;
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::list_offsets_request::ListOffsetsPartition;
use taffrail_protocol::message::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
use taffrail_protocol::message::{ListOffsetsRequest, ListOffsetsResponse};
use taffrail_protocol::unread;
use taffrail_storage::{Log, ReadError, TimestampedOffset};

use crate::broker::Broker;
use crate::client_info::ClientInfo;
use crate::lag;
use crate::replica::{Hosted, Partition, Refused, read_refusal};

/// Timestamps below zero stand for places (Kafka's `ListOffsetsRequest`), with the first version that knows them.
const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;
const EARLIEST_LOCAL: i64 = -4;
const LATEST_TIERED: i64 = -5;
const EARLIEST_PENDING_UPLOAD: i64 = -6;

/// Replica id of consumers. Followers, and tools that look for faults, see the end of the log instead of the high watermark.
const CONSUMER: i32 = -1;
/// Replica id of such tools, which may ask any replica.
const DEBUGGING_REPLICA: i32 = -2;

/// The first version whose clients know that the end cannot be told yet (OFFSET_NOT_AVAILABLE).
const NOT_AVAILABLE_SINCE: i16 = 5;

/// The first version whose answers tell leader epochs.
const LEADER_EPOCH_SINCE: i16 = 4;

/// A place that was found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    timestamp: i64,
    offset: Offset,
    leader_epoch: LeaderEpoch,
}

impl Place {
    const NONE: Self = Self { timestamp: -1, offset: -1, leader_epoch: -1 };

    fn at(offset: Offset, leader_epoch: LeaderEpoch) -> Self {
        Self { timestamp: -1, offset, leader_epoch }
    }
}

pub(crate) async fn handle(
    broker: &Broker,
    client: &ClientInfo,
    request: ListOffsetsRequest,
    version: i16,
) -> ListOffsetsResponse {
    let (hosted, image) = (broker.replicas.hosted(), broker.metadata.image());
    let context = Context { broker, hosted: &hosted, image: &image, request: &request, version };
    let twice = named_twice(&request);
    let is_forged = request.replica_id.0 >= 0 && !broker.may_be_broker(client);
    let unread = context.unread().await;
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let mut partitions: Vec<ListOffsetsPartitionResponse> = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            let index = asked.partition_index;
            let place = if twice.contains(&(&**topic.name, index)) {
                // As in Kafka, it is refused once.
                if partitions.iter().any(|answer| answer.partition_index == index) {
                    continue;
                }
                Err(ErrorCode::InvalidRequest.into())
            } else if is_forged {
                Err(ErrorCode::ClusterAuthorizationFailed.into())
            } else {
                context.look_up(&TopicRef::Name(topic.name.0.clone()), asked).await
            };
            partitions.push(answer(index, place, version));
        }
        topics.push(ListOffsetsTopicResponse::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    let mut response = ListOffsetsResponse::default().with_topics(topics);
    if let Some(answers) = unread {
        unread::answer(&mut response, &answers);
    }
    response
}

/// Partitions that the request names more than once.
fn named_twice(request: &ListOffsetsRequest) -> BTreeSet<(&str, i32)> {
    let mut seen = BTreeSet::new();
    let mut twice = BTreeSet::new();
    for topic in &request.topics {
        for asked in &topic.partitions {
            let name = (&**topic.name, asked.partition_index);
            if !seen.insert(name) {
                twice.insert(name);
            }
        }
    }
    twice
}

fn answer(index: i32, place: Result<Place, Refused>, version: i16) -> ListOffsetsPartitionResponse {
    let (error, place) = match place {
        Ok(place) => (ErrorCode::None, place),
        Err(refused) => (refused.error, Place::NONE),
    };
    let answer = ListOffsetsPartitionResponse::default()
        .with_partition_index(index)
        .with_error_code(error.code())
        .with_timestamp(place.timestamp)
        .with_offset(place.offset);
    if version >= LEADER_EPOCH_SINCE { answer.with_leader_epoch(place.leader_epoch) } else { answer }
}

/// Whether a version knows a timestamp.
fn is_known(timestamp: i64, version: i16) -> bool {
    let since = match timestamp {
        LATEST | EARLIEST => 1,
        MAX_TIMESTAMP => 7,
        EARLIEST_LOCAL => 8,
        LATEST_TIERED => 9,
        EARLIEST_PENDING_UPLOAD => 11,
        other => return other >= 0,
    };
    version >= since
}

struct Context<'a> {
    broker: &'a Broker,
    hosted: &'a Hosted,
    image: &'a MetadataImage,
    request: &'a ListOffsetsRequest,
    version: i16,
}

impl Context<'_> {
    async fn look_up(&self, topic: &TopicRef, asked: &ListOffsetsPartition) -> Result<Place, Refused> {
        if !is_known(asked.timestamp, self.version) {
            return Err(ErrorCode::UnsupportedVersion.into());
        }
        let partition = self.hosted.partition(topic, asked.partition_index, self.image)?;
        let may_follow = *self.request.replica_id == DEBUGGING_REPLICA;
        let leader_epoch = partition.check_replica(asked.current_leader_epoch, may_follow)?;
        if let Some(reason) = partition.log().offline() {
            return Err(read_refusal(&ReadError::Offline(Arc::clone(reason))));
        }
        let upper = self.upper(partition);
        let found = match asked.timestamp {
            LATEST => {
                self.check_known(partition)?;
                return Ok(Place::at(upper, leader_epoch));
            }
            EARLIEST | EARLIEST_LOCAL => {
                let start = partition.offsets().log_start;
                return Ok(Place::at(start, partition.log().epoch_of(start).unwrap_or(-1)));
            }
            // There is no tier, so nothing is in it and nothing is on its way there.
            LATEST_TIERED | EARLIEST_PENDING_UPLOAD => return Ok(Place::NONE),
            MAX_TIMESTAMP => self.search(partition, Log::max_timestamp_offset).await?,
            timestamp => self.search(partition, move |log| log.offset_for_timestamp(timestamp)).await?,
        };
        let visible = found.filter(|found| found.offset < upper);
        if found.is_some() && visible.is_none() {
            self.check_known(partition)?;
        }
        Ok(visible.map_or(Place::NONE, |found| Place {
            timestamp: found.timestamp,
            offset: found.offset,
            leader_epoch: found.leader_epoch,
        }))
    }

    /// What other brokers ask beside: how old the records are that groups have not read. In the order of the partitions.
    ///
    /// Looked up before the ends of the logs, so that no group seems to be ahead of one.
    async fn unread(&self) -> Option<Vec<Option<unread::Answer>>> {
        let questions = unread::asked(self.request)?;
        let partitions =
            self.request.topics.iter().flat_map(|topic| topic.partitions.iter().map(|it| it.partition_index));
        let mut answers = Vec::with_capacity(questions.len());
        for (question, index) in questions.iter().zip(partitions) {
            // By id: a topic of the same name may be another one.
            answers.push(match self.hosted.partition(&TopicRef::Id(question.topic_id), index, self.image) {
                Ok(partition) if partition.leads() => {
                    Some(lag::unread(self.broker, partition, &question.offsets).await)
                }
                _ => None,
            });
        }
        Some(answers)
    }

    /// Refuses consumers as long as a new leader does not know how far its log is committed: what it would name as the end
    /// could be before what an earlier leader named.
    fn check_known(&self, partition: &Partition) -> Result<(), Refused> {
        if *self.request.replica_id != CONSUMER || !partition.is_behind_its_epoch() {
            return Ok(());
        }
        let is_known = self.version >= NOT_AVAILABLE_SINCE;
        let error = if is_known { ErrorCode::OffsetNotAvailable } else { ErrorCode::LeaderNotAvailable };
        Err(error.into())
    }

    /// Where the partition ends for this client.
    fn upper(&self, partition: &Partition) -> Offset {
        if *self.request.replica_id != CONSUMER {
            return partition.log().end_offset();
        }
        let offsets = partition.offsets();
        if self.request.isolation_level == 1 { offsets.last_stable } else { offsets.high_watermark }
    }

    /// Searches the log on the disk pool.
    async fn search(
        &self,
        partition: &Partition,
        search: impl FnOnce(&Log) -> Result<Option<TimestampedOffset>, ReadError> + Send + 'static,
    ) -> Result<Option<TimestampedOffset>, Refused> {
        let log = Arc::clone(partition.log());
        let searched = self.broker.disk_pool().run(move || search(&log)).await;
        searched.unwrap_or(Err(ReadError::Busy)).map_err(|error| read_refusal(&error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_known_from_the_version_on_that_kafka_says() {
        for (timestamp, since) in [(-1, 1), (-2, 1), (-3, 7), (-4, 8), (-5, 9), (-6, 11)] {
            assert!(is_known(timestamp, since), "{timestamp} in {since}");
            assert!(!is_known(timestamp, since - 1), "{timestamp} before {since}");
        }
        assert!(is_known(0, 1));
        for unknown in [-7, -100, i64::MIN] {
            assert!(!is_known(unknown, 11), "{unknown}");
        }
    }
}
