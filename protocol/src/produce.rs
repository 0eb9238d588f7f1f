//! Produce, the fast way in: a request is a few numbers and slices of its frame.
//!
//! Two vectors hold all topics and partitions; nothing is allocated or copied for a record. Batches are looked into by
//! `core::record`, not here.

use std::ops::Range;

use bytes::{Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;

use crate::data::{CurrentLeader, NodeEndpoint, TopicRef, encode_endpoints};
use crate::guard::Direction;
use crate::message::{BodyError, StrBytes};
use crate::request::{self, DecodeError, EncodeError};
use crate::versions::ApiKey;
use crate::wire::{Reader, WireError, Writer};

const KEY: ApiKey = ApiKey::Produce;

/// The first version that gives topics by id.
const TOPIC_IDS_SINCE: i16 = 13;

/// A Produce request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProduceRequestView {
    /// Id of a transactional producer.
    pub transactional_id: Option<StrBytes>,
    /// 0 = do not answer, 1 = when the leader has it, -1 = when all in-sync replicas have it. Others are an error.
    pub acks: i16,
    /// How long the answer may wait for the replicas.
    pub timeout_ms: i32,
    topics: Vec<(TopicRef, Range<usize>)>,
    partitions: Vec<ProducePartition>,
}

/// What is produced to one partition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProducePartition {
    /// Number of the partition.
    pub index: i32,
    /// The record batches, a slice of the frame; `None` if the client sent null.
    pub records: Option<Bytes>,
}

impl ProduceRequestView {
    /// Checks and reads the body of a Produce request.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use taffrail_protocol::data::TopicRef;
    /// use taffrail_protocol::produce::ProduceRequestView;
    ///
    /// // Version 9: no transaction, acks -1, timeout 1,500 ms, one topic with one partition and three bytes of records.
    /// let body = Bytes::from_static(b"\x00\xff\xff\0\0\x05\xdc\x02\x03ab\x02\0\0\0\x07\x04xyz\0\0\0");
    /// let request = ProduceRequestView::decode(9, body)?;
    /// for (topic, partitions) in request.topics() {
    ///     assert_eq!(topic, &TopicRef::Name("ab".into()));
    ///     assert_eq!(partitions[0].index, 7);
    ///     assert_eq!(partitions[0].records.as_deref(), Some(&b"xyz"[..]));
    /// }
    /// # Ok::<(), taffrail_protocol::request::DecodeError>(())
    /// ```
    pub fn decode(version: i16, body: Bytes) -> Result<Self, DecodeError> {
        request::decode_with(KEY, Direction::Request, "ProduceRequest", version, &body, Self::read)
    }

    fn read(version: i16, body: &Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(body, KEY.is_flexible(version));
        let mut partitions = Vec::new();
        let request = Self {
            transactional_id: reader.nullable_string()?,
            acks: reader.i16()?,
            timeout_ms: reader.i32()?,
            topics: reader.array(|reader| {
                let topic = TopicRef::decode(version >= TOPIC_IDS_SINCE, reader)?;
                let start = partitions.len();
                let count = reader.array_length()?.ok_or(WireError::Length(-1))?;
                partitions.reserve(count);
                for _ in 0..count {
                    let index = reader.i32()?;
                    let records = reader.bytes_range()?.map(|range| body.slice(range));
                    reader.skip_tagged_fields()?;
                    partitions.push(ProducePartition { index, records });
                }
                reader.skip_tagged_fields()?;
                Ok((topic, start..partitions.len()))
            })?,
            partitions: Vec::new(),
        };
        reader.skip_tagged_fields()?;
        Ok(Self { partitions, ..request })
    }

    /// Topics with their partitions, in the order of the request.
    pub fn topics(&self) -> impl Iterator<Item = (&TopicRef, &[ProducePartition])> {
        self.topics.iter().map(|(topic, range)| (topic, &self.partitions[range.clone()]))
    }

    /// Number of partitions over all topics.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }
}

/// The answer to a Produce request.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProduceResponse {
    /// One entry a topic, in the order of the request.
    pub topics: Vec<(TopicRef, Vec<PartitionProduced>)>,
    /// How long the request was held back by a quota.
    pub throttle_time_ms: i32,
    /// Where the leaders named in `current_leader` listen (10+).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// What became of the records of one partition. Fields that a version does not have are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionProduced {
    /// Number of the partition.
    pub index: i32,
    /// Whether the records were taken.
    pub error: ErrorCode,
    /// Offset of the first record, or -1.
    pub base_offset: i64,
    /// When the broker took them, if the topic's timestamps say that; otherwise -1.
    pub log_append_time_ms: i64,
    /// First offset of the partition, or -1 (5+).
    pub log_start_offset: i64,
    /// Records that made the batch be refused, each with its place in the batch and a reason (8+).
    pub record_errors: Vec<(i32, Option<StrBytes>)>,
    /// Why the batch was refused (8+).
    pub error_message: Option<StrBytes>,
    /// Who leads the partition, if the client should have asked another broker (10+).
    pub current_leader: Option<CurrentLeader>,
}

impl PartitionProduced {
    /// The answer for a partition whose records were taken.
    pub fn taken(index: i32, base_offset: i64, log_append_time_ms: i64, log_start_offset: i64) -> Self {
        Self { base_offset, log_append_time_ms, log_start_offset, ..Self::refused(index, ErrorCode::None) }
    }

    /// The answer for a partition whose records were refused.
    pub fn refused(index: i32, error: ErrorCode) -> Self {
        Self {
            index,
            error,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message: None,
            current_leader: None,
        }
    }

    fn encode(&self, version: i16, writer: &mut Writer<'_>) {
        writer.i32(self.index);
        writer.i16(self.error.code());
        writer.i64(self.base_offset);
        writer.i64(self.log_append_time_ms);
        if version >= 5 {
            writer.i64(self.log_start_offset);
        }
        if version >= 8 {
            writer.array(&self.record_errors, |writer, (index, reason)| {
                writer.i32(*index);
                writer.nullable_string(reason.as_deref());
                writer.no_tagged_fields();
            });
            writer.nullable_string(self.error_message.as_deref());
        }
        match self.current_leader {
            Some(leader) if version >= 10 => {
                writer.unsigned_varint(1);
                leader.encode_tagged(0, writer);
            }
            _ => writer.no_tagged_fields(),
        }
    }
}

impl ProduceResponse {
    /// Appends the frame of the answer.
    pub fn encode(&self, version: i16, correlation_id: i32, out: &mut BytesMut) -> Result<(), EncodeError> {
        request::encode_frame_with(KEY, "ProduceResponse", version, out, |out| {
            crate::header::encode_response(KEY, version, correlation_id, out);
            self.encode_body(version, &mut Writer::new(out, KEY.is_flexible(version)))
        })
    }

    fn encode_body(&self, version: i16, writer: &mut Writer<'_>) -> Result<(), BodyError> {
        writer.length(Some(self.topics.len()));
        for (topic, partitions) in &self.topics {
            topic.encode(version >= TOPIC_IDS_SINCE, writer)?;
            writer.array(partitions, |writer, partition| partition.encode(version, writer));
            writer.no_tagged_fields();
        }
        writer.i32(self.throttle_time_ms);
        encode_endpoints(&self.node_endpoints, version >= 10, writer);
        Ok(())
    }
}
