//! DescribeLogDirsResponse, by hand because version 5 says whether a directory is cordoned (KIP-1066).

use bytes::{Buf, Bytes, BytesMut};
use kafka_protocol::messages::describe_log_dirs_response::{DescribeLogDirsPartition, DescribeLogDirsTopic};

use super::structs::message_struct;
use super::{BodyError, Message, StrBytes, TopicName};
use crate::versions::ApiKey;
use crate::wire::{Reader, WireError, Writer};

/// DescribeLogDirsResponse and its nested structs.
pub mod describe_log_dirs_response {
    pub use kafka_protocol::messages::describe_log_dirs_response::{DescribeLogDirsPartition, DescribeLogDirsTopic};

    pub use super::{DescribeLogDirsResponse, DescribeLogDirsResult};
}

message_struct! {
    /// DescribeLogDirsResponse, versions 1 to 5.
    pub struct DescribeLogDirsResponse {
        /// How long the request was held back by a quota.
        throttle_time_ms / with_throttle_time_ms: i32 = 0,
        /// 0, or why nothing could be described (3+).
        error_code / with_error_code: i16 = 0,
        /// One result a directory.
        results / with_results: Vec<DescribeLogDirsResult> = Vec::new(),
    }
}

message_struct! {
    /// One directory.
    pub struct DescribeLogDirsResult {
        /// 0, or for instance KAFKA_STORAGE_ERROR if the directory is offline.
        error_code / with_error_code: i16 = 0,
        /// Absolute path.
        log_dir / with_log_dir: StrBytes = StrBytes::new(),
        /// What lies in it.
        topics / with_topics: Vec<DescribeLogDirsTopic> = Vec::new(),
        /// Size of the volume, or -1 (4+).
        total_bytes / with_total_bytes: i64 = -1,
        /// Free bytes of the volume, or -1 (4+).
        usable_bytes / with_usable_bytes: i64 = -1,
        /// Whether new partitions stay away from it (5+).
        is_cordoned / with_is_cordoned: bool = false,
    }
}

fn encode_partition(writer: &mut Writer<'_>, partition: &DescribeLogDirsPartition) {
    writer.i32(partition.partition_index);
    writer.i64(partition.partition_size);
    writer.i64(partition.offset_lag);
    writer.bool(partition.is_future_key);
    writer.no_tagged_fields();
}

fn decode_partition(reader: &mut Reader<'_>) -> Result<DescribeLogDirsPartition, WireError> {
    let partition = DescribeLogDirsPartition::default()
        .with_partition_index(reader.i32()?)
        .with_partition_size(reader.i64()?)
        .with_offset_lag(reader.i64()?)
        .with_is_future_key(reader.bool()?);
    reader.skip_tagged_fields()?;
    Ok(partition)
}

fn encode_topic(writer: &mut Writer<'_>, topic: &DescribeLogDirsTopic) {
    writer.string(&topic.name);
    writer.array(&topic.partitions, encode_partition);
    writer.no_tagged_fields();
}

fn decode_topic(reader: &mut Reader<'_>) -> Result<DescribeLogDirsTopic, WireError> {
    let topic = DescribeLogDirsTopic::default()
        .with_name(TopicName(reader.string()?))
        .with_partitions(reader.array(decode_partition)?);
    reader.skip_tagged_fields()?;
    Ok(topic)
}

impl DescribeLogDirsResult {
    fn encode(&self, version: i16, writer: &mut Writer<'_>) {
        writer.i16(self.error_code);
        writer.string(&self.log_dir);
        writer.array(&self.topics, encode_topic);
        if version >= 4 {
            writer.i64(self.total_bytes);
            writer.i64(self.usable_bytes);
        }
        if version >= 5 {
            writer.bool(self.is_cordoned);
        }
        writer.no_tagged_fields();
    }

    fn decode(version: i16, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut result = Self {
            error_code: reader.i16()?,
            log_dir: reader.string()?,
            topics: reader.array(decode_topic)?,
            ..Self::default()
        };
        if version >= 4 {
            result.total_bytes = reader.i64()?;
            result.usable_bytes = reader.i64()?;
        }
        if version >= 5 {
            result.is_cordoned = reader.bool()?;
        }
        reader.skip_tagged_fields()?;
        Ok(result)
    }
}

impl Message for DescribeLogDirsResponse {
    const KEY: ApiKey = ApiKey::DescribeLogDirs;
    const NAME: &'static str = "DescribeLogDirsResponse";

    fn encode_body(&self, version: i16, out: &mut BytesMut) -> Result<(), BodyError> {
        let mut writer = Writer::new(out, Self::KEY.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        if version >= 3 {
            writer.i16(self.error_code);
        }
        writer.array(&self.results, |writer, result| result.encode(version, writer));
        writer.no_tagged_fields();
        Ok(())
    }

    fn decode_body(version: i16, body: &mut Bytes) -> Result<Self, BodyError> {
        let mut reader = Reader::new(body, Self::KEY.is_flexible(version));
        let throttle_time_ms = reader.i32()?;
        let error_code = if version >= 3 { reader.i16()? } else { 0 };
        let results = reader.array(|reader| DescribeLogDirsResult::decode(version, reader))?;
        reader.skip_tagged_fields()?;
        let position = reader.position();
        body.advance(position);
        Ok(Self { throttle_time_ms, error_code, results })
    }
}
