//! DeleteRecords: a new beginning of a partition, which survives a crash right after the answer. The answer waits until all
//! live replicas have it.

use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Offset;
use taffrail_core::image::MetadataImage;
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_protocol::data::TopicRef;
use taffrail_protocol::message::delete_records_request::DeleteRecordsPartition;
use taffrail_protocol::message::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use taffrail_protocol::message::{DeleteRecordsRequest, DeleteRecordsResponse};
use taffrail_runtime::time;
use taffrail_storage::LogError;

use super::wire;
use crate::broker::Broker;
use crate::client_info::ClientInfo;
use crate::replica::{Hosted, Partition, Refused};

/// The offset that stands for "all that can be read".
const TO_HIGH_WATERMARK: Offset = -1;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: DeleteRecordsRequest,
    _version: i16,
) -> DeleteRecordsResponse {
    let (hosted, image) = (broker.replicas.hosted(), broker.metadata.image());
    let deadline = wire::deadline(request.timeout_ms);
    let mut topics = Vec::with_capacity(request.topics.len());
    for topic in &request.topics {
        let name = TopicRef::Name(topic.name.0.clone());
        let mut partitions = Vec::with_capacity(topic.partitions.len());
        for asked in &topic.partitions {
            partitions.push((asked.partition_index, delete(broker, &hosted, &image, &name, asked).await));
        }
        // Only now, when the followers can learn of all of it at once.
        let waits = partitions.into_iter().map(async |(index, deleted)| {
            let reached = match deleted {
                Ok((partition, before)) => low_watermark(broker, &partition, before, deadline).await,
                Err(refused) => Err(refused),
            };
            let (error, low_watermark) = match reached {
                Ok(low_watermark) => (ErrorCode::None, low_watermark),
                Err(refused) => (refused.error, -1),
            };
            DeleteRecordsPartitionResult::default()
                .with_partition_index(index)
                .with_low_watermark(low_watermark)
                .with_error_code(error.code())
        });
        let partitions = futures::future::join_all(waits).await;
        topics.push(DeleteRecordsTopicResult::default().with_name(topic.name.clone()).with_partitions(partitions));
    }
    DeleteRecordsResponse::default().with_topics(topics)
}

/// Waits until the logs of all live replicas begin at `before` or later; tells where.
async fn low_watermark(
    broker: &Broker,
    partition: &Partition,
    before: Offset,
    deadline: time::Instant,
) -> Result<Offset, Refused> {
    let reached = || {
        if let Err(refused) = partition.check_leader(-1) {
            return Some(Err(refused));
        }
        // Not of an older image: a replica may be live by now, or not any more.
        let low_watermark = partition.low_watermark(&broker.metadata.glance());
        low_watermark.filter(|low_watermark| *low_watermark >= before).map(Ok)
    };
    let waited = time::timeout_at(deadline, partition.low_watermark_reaches(reached)).await;
    waited.unwrap_or(Err(ErrorCode::RequestTimedOut.into()))
}

/// Deletes what is before the offset; tells where the log begins now.
async fn delete(
    broker: &Broker,
    hosted: &Hosted,
    image: &MetadataImage,
    topic: &TopicRef,
    asked: &DeleteRecordsPartition,
) -> Result<(Arc<Partition>, Offset), Refused> {
    let partition = hosted.partition(topic, asked.partition_index, image)?;
    if partition.topic.is_internal {
        return Err(ErrorCode::InvalidTopicException.into());
    }
    partition.check_leader(-1)?;
    if !partition.topic.settings.load().config.cleanup_policy.delete {
        return Err(ErrorCode::PolicyViolation.into());
    }
    let high_watermark = partition.offsets().high_watermark;
    let before = if asked.offset == TO_HIGH_WATERMARK { high_watermark } else { asked.offset };
    if before < 0 || (before > high_watermark && !is_planted(PlantedBug::DeletedPastHighWatermark)) {
        return Err(ErrorCode::OffsetOutOfRange.into());
    }
    let log = Arc::clone(partition.log());
    match broker.disk_pool().run(move || log.delete_records(before)).await {
        Ok(deleted) => deleted.map(|_| (Arc::clone(partition), before)).map_err(|error| refusal(&error)),
        // The disk has too much to do; the client asks again.
        Err(_) => Err(ErrorCode::RequestTimedOut.into()),
    }
}

fn refusal(error: &LogError) -> Refused {
    let code = match error {
        LogError::OutOfRange { .. } => ErrorCode::OffsetOutOfRange,
        LogError::Deleted | LogError::Closing => ErrorCode::NotLeaderOrFollower,
        LogError::Offline(_) | LogError::Fenced(_) | LogError::DiskFull | LogError::Io(_) => {
            ErrorCode::KafkaStorageError
        }
    };
    code.into()
}
