//! OffsetCommit 10, which names topics by id; the codec crate's structs have the field, its codec stops at 9.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic};
use kafka_protocol::messages::offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};

use super::{BodyError, GroupId, Message, OffsetCommitRequest, OffsetCommitResponse, codec, from_wire_id, to_wire_id};
use crate::versions::ApiKey;
use crate::wire::{Reader, WireError, Writer};

/// The first version that the codec crate cannot read or write.
const BY_HAND_SINCE: i16 = 10;

fn encode_request_partition(writer: &mut Writer<'_>, partition: &OffsetCommitRequestPartition) {
    writer.i32(partition.partition_index);
    writer.i64(partition.committed_offset);
    writer.i32(partition.committed_leader_epoch);
    writer.nullable_string(partition.committed_metadata.as_deref());
    writer.no_tagged_fields();
}

fn decode_request_partition(reader: &mut Reader<'_>) -> Result<OffsetCommitRequestPartition, WireError> {
    let partition = OffsetCommitRequestPartition::default()
        .with_partition_index(reader.i32()?)
        .with_committed_offset(reader.i64()?)
        .with_committed_leader_epoch(reader.i32()?)
        .with_committed_metadata(reader.nullable_string()?);
    reader.skip_tagged_fields()?;
    Ok(partition)
}

fn decode_request_topic(reader: &mut Reader<'_>) -> Result<OffsetCommitRequestTopic, WireError> {
    let topic = OffsetCommitRequestTopic::default()
        .with_topic_id(to_wire_id(reader.uuid()?))
        .with_partitions(reader.array(decode_request_partition)?);
    reader.skip_tagged_fields()?;
    Ok(topic)
}

impl Message for OffsetCommitRequest {
    const KEY: ApiKey = ApiKey::OffsetCommit;
    const NAME: &'static str = "OffsetCommitRequest";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        if version < BY_HAND_SINCE {
            return codec::encode(self, version, out);
        }
        let mut writer = Writer::new(out, true);
        writer.string(&self.group_id);
        writer.i32(self.generation_id_or_member_epoch);
        writer.string(&self.member_id);
        writer.nullable_string(self.group_instance_id.as_deref());
        writer.array(&self.topics, |writer, topic| {
            writer.uuid(&from_wire_id(topic.topic_id));
            writer.array(&topic.partitions, encode_request_partition);
            writer.no_tagged_fields();
        });
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        if version < BY_HAND_SINCE {
            return codec::decode(version, body);
        }
        let mut reader = Reader::new(body, true);
        let request = Self::default()
            .with_group_id(GroupId(reader.string()?))
            .with_generation_id_or_member_epoch(reader.i32()?)
            .with_member_id(reader.string()?)
            .with_group_instance_id(reader.nullable_string()?)
            .with_topics(reader.array(decode_request_topic)?);
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(request)
    }
}

fn decode_response_topic(reader: &mut Reader<'_>) -> Result<OffsetCommitResponseTopic, WireError> {
    let topic = OffsetCommitResponseTopic::default().with_topic_id(to_wire_id(reader.uuid()?)).with_partitions(
        reader.array(|reader| {
            let partition = OffsetCommitResponsePartition::default()
                .with_partition_index(reader.i32()?)
                .with_error_code(reader.i16()?);
            reader.skip_tagged_fields()?;
            Ok(partition)
        })?,
    );
    reader.skip_tagged_fields()?;
    Ok(topic)
}

impl Message for OffsetCommitResponse {
    const KEY: ApiKey = ApiKey::OffsetCommit;
    const NAME: &'static str = "OffsetCommitResponse";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        if version < BY_HAND_SINCE {
            return codec::encode(self, version, out);
        }
        let mut writer = Writer::new(out, true);
        writer.i32(self.throttle_time_ms);
        writer.array(&self.topics, |writer, topic| {
            writer.uuid(&from_wire_id(topic.topic_id));
            writer.array(&topic.partitions, |writer, partition| {
                writer.i32(partition.partition_index);
                writer.i16(partition.error_code);
                writer.no_tagged_fields();
            });
            writer.no_tagged_fields();
        });
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        if version < BY_HAND_SINCE {
            return codec::decode(version, body);
        }
        let mut reader = Reader::new(body, true);
        let response =
            Self::default().with_throttle_time_ms(reader.i32()?).with_topics(reader.array(decode_response_topic)?);
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(response)
    }
}
