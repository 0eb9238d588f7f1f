//! Reading a Fetch request: two vectors hold all topics and partitions.

use std::ops::Range;

use bytes::Bytes;
use taffrail_core::ids::Uuid;

use super::{KEY, TOPIC_IDS_SINCE};
use crate::data::TopicRef;
use crate::guard::Direction;
use crate::message::StrBytes;
use crate::request::{self, DecodeError};
use crate::wire::{Reader, WireError};

/// A Fetch request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchRequestView {
    /// Id of the follower that asks, or -1 for a consumer.
    pub replica_id: i32,
    /// Epoch of the follower's registration, or -1 (15+).
    pub replica_epoch: i64,
    /// Cluster that the follower means to talk to (12+).
    pub cluster_id: Option<StrBytes>,
    /// How long the answer may wait for `min_bytes`.
    pub max_wait_ms: i32,
    /// Bytes for which the answer waits.
    pub min_bytes: i32,
    /// Bytes that the answer should not exceed, except for the first batch.
    pub max_bytes: i32,
    /// 0 = up to the high watermark, 1 = up to the last stable offset.
    pub isolation_level: i8,
    /// Session (KIP-227), or 0 (7+).
    pub session_id: i32,
    /// Epoch in the session; 0 asks for a new one, -1 for none (7+).
    pub session_epoch: i32,
    /// Rack of the consumer, or empty (11+).
    pub rack_id: StrBytes,
    /// Partitions to drop from the session (7+).
    pub forgotten: Vec<(TopicRef, Vec<i32>)>,
    topics: Vec<(TopicRef, Range<usize>)>,
    partitions: Vec<FetchPartition>,
}

/// What is asked of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FetchPartition {
    /// Number of the partition.
    pub index: i32,
    /// Leader epoch that the client knows, or -1 (9+).
    pub current_leader_epoch: i32,
    /// Offset of the first record that is wanted.
    pub fetch_offset: i64,
    /// Epoch of the last record that the client has, or -1 (12+).
    pub last_fetched_epoch: i32,
    /// The follower's log start offset, or -1 (5+).
    pub log_start_offset: i64,
    /// Bytes that the partition's records should not exceed.
    pub max_bytes: i32,
    /// Directory of the follower's replica, or zero (17+).
    pub replica_directory_id: Uuid,
    /// The high watermark that the follower knows, or `i64::MAX` (18+).
    pub high_watermark: i64,
}

impl FetchPartition {
    fn read(version: i16, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut partition = Self {
            index: reader.i32()?,
            current_leader_epoch: if version >= 9 { reader.i32()? } else { -1 },
            fetch_offset: reader.i64()?,
            last_fetched_epoch: if version >= 12 { reader.i32()? } else { -1 },
            log_start_offset: if version >= 5 { reader.i64()? } else { -1 },
            max_bytes: reader.i32()?,
            replica_directory_id: Uuid::ZERO,
            high_watermark: i64::MAX,
        };
        reader.tagged_fields(|tag, reader| {
            match tag {
                0 if version >= 17 => partition.replica_directory_id = reader.uuid()?,
                1 if version >= 18 => partition.high_watermark = reader.i64()?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(partition)
    }
}

impl FetchRequestView {
    /// Checks and reads the body of a Fetch request.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use taffrail_protocol::fetch::FetchRequestView;
    ///
    /// // Version 4: a consumer asks for topic "ab", partition 7, from offset 3, at most 1,024 bytes.
    /// let body = Bytes::from_static(
    ///     b"\xff\xff\xff\xff\0\0\x01\xf4\0\0\0\x01\0\x10\0\0\0\0\0\0\x01\0\x02ab\0\0\0\x01\
    ///       \0\0\0\x07\0\0\0\0\0\0\0\x03\0\0\x04\0",
    /// );
    /// let request = FetchRequestView::decode(4, body)?;
    /// let (topic, partitions) = request.topics().next().unwrap();
    /// assert_eq!((topic.to_string().as_str(), partitions[0].fetch_offset), ("ab", 3));
    /// # Ok::<(), taffrail_protocol::request::DecodeError>(())
    /// ```
    pub fn decode(version: i16, body: Bytes) -> Result<Self, DecodeError> {
        request::decode_with(KEY, Direction::Request, "FetchRequest", version, &body, Self::read)
    }

    fn read(version: i16, body: &Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(body, KEY.is_flexible(version));
        let by_id = version >= TOPIC_IDS_SINCE;
        let mut partitions = Vec::new();
        let mut request = Self {
            replica_id: if version <= 14 { reader.i32()? } else { -1 },
            replica_epoch: -1,
            cluster_id: None,
            max_wait_ms: reader.i32()?,
            min_bytes: reader.i32()?,
            max_bytes: reader.i32()?,
            isolation_level: reader.i8()?,
            session_id: if version >= 7 { reader.i32()? } else { 0 },
            session_epoch: if version >= 7 { reader.i32()? } else { -1 },
            topics: reader.array(|reader| {
                let topic = TopicRef::decode(by_id, reader)?;
                let start = partitions.len();
                let count = reader.array_length()?.ok_or(WireError::Length(-1))?;
                partitions.reserve(count);
                for _ in 0..count {
                    partitions.push(FetchPartition::read(version, reader)?);
                }
                reader.skip_tagged_fields()?;
                Ok((topic, start..partitions.len()))
            })?,
            forgotten: if version >= 7 { reader.array(|reader| read_forgotten(by_id, reader))? } else { Vec::new() },
            rack_id: if version >= 11 { reader.string()? } else { StrBytes::new() },
            partitions: Vec::new(),
        };
        request.partitions = partitions;
        reader.tagged_fields(|tag, reader| {
            match tag {
                0 => request.cluster_id = reader.nullable_string()?,
                1 if version >= 15 => {
                    request.replica_id = reader.i32()?;
                    request.replica_epoch = reader.i64()?;
                    reader.skip_tagged_fields()?;
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(request)
    }

    /// Topics with their partitions, in the order of the request, which is the order in which they are served (KIP-74).
    pub fn topics(&self) -> impl Iterator<Item = (&TopicRef, &[FetchPartition])> {
        self.topics.iter().map(|(topic, range)| (topic, &self.partitions[range.clone()]))
    }

    /// Number of partitions over all topics.
    pub fn partition_count(&self) -> usize {
        self.partitions.len()
    }
}

fn read_forgotten(by_id: bool, reader: &mut Reader<'_>) -> Result<(TopicRef, Vec<i32>), WireError> {
    let topic = TopicRef::decode(by_id, reader)?;
    let partitions = reader.array(Reader::i32)?;
    reader.skip_tagged_fields()?;
    Ok((topic, partitions))
}
