//! OffsetFetch 10, which names topics by id; the codec crate's structs have the field, its codec stops at 9.

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::offset_fetch_response::{
    OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics,
};

use super::{BodyError, GroupId, Message, OffsetFetchRequest, OffsetFetchResponse, codec, from_wire_id, to_wire_id};
use crate::versions::ApiKey;
use crate::wire::{Reader, WireError, Writer};

/// The first version that the codec crate cannot read or write.
const BY_HAND_SINCE: i16 = 10;

fn encode_request_topic(writer: &mut Writer<'_>, topic: &OffsetFetchRequestTopics) {
    writer.uuid(&from_wire_id(topic.topic_id));
    writer.array(&topic.partition_indexes, |writer, index| writer.i32(*index));
    writer.no_tagged_fields();
}

fn encode_request_group(writer: &mut Writer<'_>, group: &OffsetFetchRequestGroup) {
    writer.string(&group.group_id);
    writer.nullable_string(group.member_id.as_deref());
    writer.i32(group.member_epoch);
    match &group.topics {
        Some(topics) => writer.array(topics, encode_request_topic),
        None => writer.length(None),
    }
    writer.no_tagged_fields();
}

fn decode_request_topic(reader: &mut Reader<'_>) -> Result<OffsetFetchRequestTopics, WireError> {
    let topic = OffsetFetchRequestTopics::default()
        .with_topic_id(to_wire_id(reader.uuid()?))
        .with_partition_indexes(reader.array(Reader::i32)?);
    reader.skip_tagged_fields()?;
    Ok(topic)
}

fn decode_request_group(reader: &mut Reader<'_>) -> Result<OffsetFetchRequestGroup, WireError> {
    let group = OffsetFetchRequestGroup::default()
        .with_group_id(GroupId(reader.string()?))
        .with_member_id(reader.nullable_string()?)
        .with_member_epoch(reader.i32()?)
        .with_topics(reader.nullable_array(decode_request_topic)?);
    reader.skip_tagged_fields()?;
    Ok(group)
}

impl Message for OffsetFetchRequest {
    const KEY: ApiKey = ApiKey::OffsetFetch;
    const NAME: &'static str = "OffsetFetchRequest";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        if version < BY_HAND_SINCE {
            return codec::encode(self, version, out);
        }
        let mut writer = Writer::new(out, true);
        writer.array(&self.groups, encode_request_group);
        writer.bool(self.require_stable);
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        if version < BY_HAND_SINCE {
            return codec::decode(version, body);
        }
        let mut reader = Reader::new(body, true);
        let request =
            Self::default().with_groups(reader.array(decode_request_group)?).with_require_stable(reader.bool()?);
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(request)
    }
}

fn encode_response_partition(writer: &mut Writer<'_>, partition: &OffsetFetchResponsePartitions) {
    writer.i32(partition.partition_index);
    writer.i64(partition.committed_offset);
    writer.i32(partition.committed_leader_epoch);
    writer.nullable_string(partition.metadata.as_deref());
    writer.i16(partition.error_code);
    writer.no_tagged_fields();
}

fn encode_response_group(writer: &mut Writer<'_>, group: &OffsetFetchResponseGroup) {
    writer.string(&group.group_id);
    writer.array(&group.topics, |writer, topic| {
        writer.uuid(&from_wire_id(topic.topic_id));
        writer.array(&topic.partitions, encode_response_partition);
        writer.no_tagged_fields();
    });
    writer.i16(group.error_code);
    writer.no_tagged_fields();
}

fn decode_response_partition(reader: &mut Reader<'_>) -> Result<OffsetFetchResponsePartitions, WireError> {
    let partition = OffsetFetchResponsePartitions::default()
        .with_partition_index(reader.i32()?)
        .with_committed_offset(reader.i64()?)
        .with_committed_leader_epoch(reader.i32()?)
        .with_metadata(reader.nullable_string()?)
        .with_error_code(reader.i16()?);
    reader.skip_tagged_fields()?;
    Ok(partition)
}

fn decode_response_topic(reader: &mut Reader<'_>) -> Result<OffsetFetchResponseTopics, WireError> {
    let topic = OffsetFetchResponseTopics::default()
        .with_topic_id(to_wire_id(reader.uuid()?))
        .with_partitions(reader.array(decode_response_partition)?);
    reader.skip_tagged_fields()?;
    Ok(topic)
}

fn decode_response_group(reader: &mut Reader<'_>) -> Result<OffsetFetchResponseGroup, WireError> {
    let group = OffsetFetchResponseGroup::default()
        .with_group_id(GroupId(reader.string()?))
        .with_topics(reader.array(decode_response_topic)?)
        .with_error_code(reader.i16()?);
    reader.skip_tagged_fields()?;
    Ok(group)
}

impl Message for OffsetFetchResponse {
    const KEY: ApiKey = ApiKey::OffsetFetch;
    const NAME: &'static str = "OffsetFetchResponse";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        if version < BY_HAND_SINCE {
            return codec::encode(self, version, out);
        }
        let mut writer = Writer::new(out, true);
        writer.i32(self.throttle_time_ms);
        writer.array(&self.groups, encode_response_group);
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        if version < BY_HAND_SINCE {
            return codec::decode(version, body);
        }
        let mut reader = Reader::new(body, true);
        let response =
            Self::default().with_throttle_time_ms(reader.i32()?).with_groups(reader.array(decode_response_group)?);
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(response)
    }
}
