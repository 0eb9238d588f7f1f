//! OffsetCommit.

use std::sync::Arc;

use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{CommitRequest, CommittedOffset, GroupConfig, PartitionOffset, RESET_MARKER, Reply};
use taffrail_core::ids::TopicId;
use taffrail_core::image::{MetadataImage, TopicImage};
use taffrail_protocol::message::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use taffrail_protocol::message::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
use taffrail_protocol::message::{OffsetCommitRequest, OffsetCommitResponse, from_wire_id};
use taffrail_runtime::time;

use crate::broker::Broker;
use crate::client_info::ClientInfo;

/// The first version whose clients know GROUP_ID_NOT_FOUND.
const GROUP_ID_NOT_FOUND_SINCE: i16 = 9;
/// The first version that names topics by id.
const TOPIC_IDS_SINCE: i16 = 10;
/// The versions in which a client may say how long its offsets are kept.
const RETENTION_VERSIONS: std::ops::RangeInclusive<i16> = 2..=4;

pub(crate) async fn handle(
    broker: &Broker,
    _client: &ClientInfo,
    request: OffsetCommitRequest,
    version: i16,
) -> OffsetCommitResponse {
    let judged = Judged::of(broker, &request, version);
    let error = match judged.offsets.is_empty() {
        // Kafka does not look at the group then.
        true => ErrorCode::None,
        false => commit(broker, &request, version, judged.offsets).await,
    };
    let partition = |(index, own): (i32, ErrorCode)| {
        let error = if own.is_none() { error } else { own };
        OffsetCommitResponsePartition::default().with_partition_index(index).with_error_code(error.code())
    };
    let topic = |(topic, partitions): (&OffsetCommitRequestTopic, Vec<(i32, ErrorCode)>)| {
        OffsetCommitResponseTopic::default()
            .with_name(topic.name.clone())
            .with_topic_id(topic.topic_id)
            .with_partitions(partitions.into_iter().map(partition).collect())
    };
    OffsetCommitResponse::default().with_topics(request.topics.iter().zip(judged.outcomes).map(topic).collect())
}

/// The partitions of a request, each judged for itself.
struct Judged {
    /// What is to be committed.
    offsets: Vec<PartitionOffset>,
    /// For each topic its partitions, with what they are refused for.
    outcomes: Vec<Vec<(i32, ErrorCode)>>,
}

impl Judged {
    fn of(broker: &Broker, request: &OffsetCommitRequest, version: i16) -> Self {
        let image = broker.metadata.image();
        let config = broker.groups.config().groups;
        let now_ms = time::unix_ms();
        let kept_ms = if RETENTION_VERSIONS.contains(&version) { request.retention_time_ms } else { -1 };
        let expire_timestamp_ms = (kept_ms != -1).then(|| now_ms.saturating_add(kept_ms));
        let mut judged = Self { offsets: Vec::new(), outcomes: Vec::with_capacity(request.topics.len()) };
        for topic in &request.topics {
            if &**topic.name == RESET_MARKER {
                judged.outcomes.push(judge_reset(topic, &config, now_ms, &mut judged.offsets));
                continue;
            }
            let known = topic_of(&image, topic, version);
            let name: Option<Arc<str>> = known.as_ref().ok().map(|known| Arc::clone(&known.name));
            let mut outcomes = Vec::with_capacity(topic.partitions.len());
            for partition in &topic.partitions {
                let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
                let error = match &known {
                    Err(error) => *error,
                    Ok(known) if known.partition(partition.partition_index).is_none() => {
                        ErrorCode::UnknownTopicOrPartition
                    }
                    Ok(_) if config.is_metadata_too_large(metadata) => ErrorCode::OffsetMetadataTooLarge,
                    Ok(_) => ErrorCode::None,
                };
                outcomes.push((partition.partition_index, error));
                if let (true, Some(topic), Ok(known)) = (error.is_none(), &name, &known) {
                    let value = committed(partition, metadata, known.id, now_ms, expire_timestamp_ms);
                    let (topic, partition) = (Arc::clone(topic), partition.partition_index);
                    judged.offsets.push(PartitionOffset { topic, partition, value });
                }
            }
            judged.outcomes.push(outcomes);
        }
        let is_reset = judged.offsets.iter().any(|offset| &*offset.topic == RESET_MARKER);
        if is_reset && judged.outcomes.iter().flatten().any(|(_, error)| !error.is_none()) {
            // All of a reset, or nothing.
            judged.offsets.clear();
        }
        judged
    }
}

/// Which reset these offsets belong to: one partition of no topic.
fn judge_reset(
    topic: &OffsetCommitRequestTopic,
    config: &GroupConfig,
    now_ms: i64,
    offsets: &mut Vec<PartitionOffset>,
) -> Vec<(i32, ErrorCode)> {
    let mut judge = |partition: &OffsetCommitRequestPartition| {
        let metadata = partition.committed_metadata.as_deref().unwrap_or_default();
        let error = match partition.partition_index {
            0 if config.is_metadata_too_large(metadata) => ErrorCode::OffsetMetadataTooLarge,
            0 => ErrorCode::None,
            _ => ErrorCode::UnknownTopicOrPartition,
        };
        if error.is_none() {
            let value = committed(partition, metadata, TopicId::default(), now_ms, None);
            offsets.push(PartitionOffset { topic: RESET_MARKER.into(), partition: 0, value });
        }
        (partition.partition_index, error)
    };
    topic.partitions.iter().map(&mut judge).collect()
}

fn topic_of<'a>(
    image: &'a MetadataImage,
    topic: &OffsetCommitRequestTopic,
    version: i16,
) -> Result<&'a Arc<TopicImage>, ErrorCode> {
    if version >= TOPIC_IDS_SINCE {
        image.topic_by_id(from_wire_id(topic.topic_id)).ok_or(ErrorCode::UnknownTopicId)
    } else {
        image.topic(&topic.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}

fn committed(
    partition: &OffsetCommitRequestPartition,
    metadata: &str,
    topic_id: TopicId,
    now_ms: i64,
    expire_timestamp_ms: Option<i64>,
) -> CommittedOffset {
    CommittedOffset {
        offset: partition.committed_offset,
        leader_epoch: partition.committed_leader_epoch,
        metadata: metadata.to_owned(),
        commit_timestamp_ms: now_ms,
        expire_timestamp_ms,
        topic_id,
    }
}

async fn commit(
    broker: &Broker,
    request: &OffsetCommitRequest,
    version: i16,
    offsets: Vec<PartitionOffset>,
) -> ErrorCode {
    let shard = match broker.groups.shard(&request.group_id) {
        Ok(shard) => shard,
        Err(error) => return error,
    };
    let request = CommitRequest {
        waiter: 0,
        group_id: request.group_id.to_string(),
        generation: request.generation_id_or_member_epoch,
        member_id: request.member_id.to_string(),
        instance_id: request.group_instance_id.as_deref().map(str::to_owned),
        knows_group_id_not_found: version >= GROUP_ID_NOT_FOUND_SINCE,
        offsets,
    };
    let step = |machine: &mut taffrail_core::group::GroupShard, now, waiter| {
        machine.commit_offsets(now, CommitRequest { waiter, ..request })
    };
    match shard.ask_to_write(step).await {
        Ok(Reply::Done(error)) | Err(error) => error,
        Ok(_) => ErrorCode::UnknownServerError,
    }
}
