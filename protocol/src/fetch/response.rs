//! Writing a Fetch response around records that stay where they are.
//!
//! What lies between the records is written once into one buffer; the records themselves stay whatever the broker has,
//! a range of a file or bytes in memory. The size in front of the frame is known before anything is sent.

use bytes::{Bytes, BytesMut};
use taffrail_core::errors::ErrorCode;

use super::{KEY, TOPIC_IDS_SINCE};
use crate::data::{CurrentLeader, NodeEndpoint, TopicRef, encode_endpoints};
use crate::frame::SIZE_BYTES;
use crate::header;
use crate::message::BodyError;
use crate::request::EncodeError;
use crate::wire::Writer;

/// The code for a partition's error at a version: readers before version 6 do not know KAFKA_STORAGE_ERROR.
pub fn error_for_version(version: i16, error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::KafkaStorageError if version < 6 => ErrorCode::NotLeaderOrFollower,
        _ => error,
    }
}

/// A run of whole record batches, wherever it lies.
pub trait Records {
    /// Bytes that it will put on the wire, exactly.
    fn size_bytes(&self) -> usize;
}

impl Records for Bytes {
    fn size_bytes(&self) -> usize {
        self.len()
    }
}

/// A piece of a frame, to be written in order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunk<R> {
    /// What lies between records; never empty.
    Bytes(Bytes),
    /// Records, to be sent as they are; never empty.
    Records(R),
}

/// The answer to a Fetch request, with the records as ranges of type `R`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FetchResponse<R> {
    /// How long the request was held back by a quota.
    pub throttle_time_ms: i32,
    /// Error of the whole request, for instance of its session (7+).
    pub error: ErrorCode,
    /// The session, or 0 (7+).
    pub session_id: i32,
    /// One entry a topic.
    pub topics: Vec<(TopicRef, Vec<PartitionFetched<R>>)>,
    /// Where the leaders named in `current_leader` listen (16+).
    pub node_endpoints: Vec<NodeEndpoint>,
}

/// What is answered for one partition. Fields that a version does not have are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartitionFetched<R> {
    /// Number of the partition.
    pub index: i32,
    /// Why there are no records, or `None`. Readers before version 6 get a code that they know.
    pub error: ErrorCode,
    /// High watermark, or -1.
    pub high_watermark: i64,
    /// Last stable offset, or -1.
    pub last_stable_offset: i64,
    /// First offset of the partition, or -1 (5+).
    pub log_start_offset: i64,
    /// Aborted transactions as pairs of producer id and first offset; `None` for readers of uncommitted records.
    pub aborted_transactions: Option<Vec<(i64, i64)>>,
    /// The replica that the consumer should ask instead, or -1 (11+).
    pub preferred_read_replica: i32,
    /// Epoch and its end offset from which on the follower's log differs (12+).
    pub diverging_epoch: Option<(i32, i64)>,
    /// Who leads the partition, if the client should have asked another broker (12+).
    pub current_leader: Option<CurrentLeader>,
    /// The records in offset order, as one or more ranges; none is an empty record set.
    pub records: Vec<R>,
}

impl<R> PartitionFetched<R> {
    /// The answer for a partition that cannot be read.
    pub fn failed(index: i32, error: ErrorCode) -> Self {
        Self {
            index,
            error,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            aborted_transactions: None,
            preferred_read_replica: -1,
            diverging_epoch: None,
            current_leader: None,
            records: Vec::new(),
        }
    }

    /// Writes what stands before the records.
    fn encode_head(&self, version: i16, writer: &mut Writer<'_>) {
        writer.i32(self.index);
        writer.i16(error_for_version(version, self.error).code());
        writer.i64(self.high_watermark);
        writer.i64(self.last_stable_offset);
        if version >= 5 {
            writer.i64(self.log_start_offset);
        }
        match &self.aborted_transactions {
            Some(transactions) => writer.array(transactions, |writer, (producer_id, first_offset)| {
                writer.i64(*producer_id);
                writer.i64(*first_offset);
                writer.no_tagged_fields();
            }),
            None => writer.length(None),
        }
        if version >= 11 {
            writer.i32(self.preferred_read_replica);
        }
    }

    /// Writes what stands after the records.
    fn encode_tail(&self, version: i16, writer: &mut Writer<'_>) {
        if version < 12 {
            return;
        }
        let count = u32::from(self.diverging_epoch.is_some()) + u32::from(self.current_leader.is_some());
        writer.unsigned_varint(count);
        if let Some((epoch, end_offset)) = self.diverging_epoch {
            writer.tagged(0, |writer| {
                writer.i32(epoch);
                writer.i64(end_offset);
                writer.no_tagged_fields();
            });
        }
        if let Some(leader) = self.current_leader {
            leader.encode_tagged(1, writer);
        }
    }
}

impl<R: Records> FetchResponse<R> {
    /// Bytes of all records.
    pub fn records_bytes(&self) -> usize {
        let partitions = self.topics.iter().flat_map(|(_, partitions)| partitions);
        partitions.flat_map(|partition| &partition.records).map(R::size_bytes).sum()
    }

    /// Turns the answer into the pieces of its frame: the first has the size and the headers, then records and what lies
    /// between them take turns.
    ///
    /// ```
    /// use bytes::Bytes;
    /// use taffrail_core::errors::ErrorCode;
    /// use taffrail_protocol::data::TopicRef;
    /// use taffrail_protocol::fetch::{Chunk, FetchResponse, PartitionFetched, Records};
    ///
    /// struct FileRange { position: u64, length: usize }
    /// impl Records for FileRange {
    ///     fn size_bytes(&self) -> usize { self.length }
    /// }
    ///
    /// let partition = PartitionFetched {
    ///     high_watermark: 12,
    ///     records: vec![FileRange { position: 4096, length: 500 }],
    ///     ..PartitionFetched::failed(0, ErrorCode::None)
    /// };
    /// let response = FetchResponse {
    ///     topics: vec![(TopicRef::Name("ab".into()), vec![partition])],
    ///     ..FetchResponse::default()
    /// };
    /// let chunks = response.into_chunks(12, 7)?;
    /// let Chunk::Bytes(head) = &chunks[0] else { panic!("the head comes first") };
    /// let Chunk::Records(range) = &chunks[1] else { panic!("then the records") };
    /// let Chunk::Bytes(tail) = &chunks[2] else { panic!("then the rest") };
    /// assert_eq!((range.position, range.length), (4096, 500));
    /// let size = i32::from_be_bytes(head[..4].try_into().unwrap());
    /// assert_eq!(size as usize, head.len() - 4 + 500 + tail.len());
    /// # Ok::<(), taffrail_protocol::request::EncodeError>(())
    /// ```
    pub fn into_chunks(self, version: i16, correlation_id: i32) -> Result<Vec<Chunk<R>>, EncodeError> {
        const NAME: &str = "FetchResponse";
        if !KEY.versions().contains(version) {
            return Err(EncodeError::Version { key: KEY, version });
        }
        let mut out = BytesMut::with_capacity(self.head_bytes());
        out.resize(SIZE_BYTES, 0);
        header::encode_response(KEY, version, correlation_id, &mut out);
        let mut cuts = Vec::with_capacity(self.topics.iter().map(|(_, partitions)| partitions.len()).sum());
        let mut records_bytes: usize = 0;
        self.encode_body(version, &mut out, |at, ranges, bytes| {
            cuts.push((at, ranges));
            records_bytes = records_bytes.saturating_add(bytes);
        })
        .map_err(|error| EncodeError::Body { message: NAME, version, error })?;
        let bytes = (out.len() - SIZE_BYTES).saturating_add(records_bytes);
        let size = i32::try_from(bytes).map_err(|_| EncodeError::TooLarge { message: NAME, bytes })?;
        out[..SIZE_BYTES].copy_from_slice(&size.to_be_bytes());
        Ok(weave(out.freeze(), cuts))
    }

    /// A guess at the bytes around the records, to allocate once.
    fn head_bytes(&self) -> usize {
        const TOPIC_BYTES: usize = 64;
        const PARTITION_BYTES: usize = 72;
        let topics = self.topics.iter().map(|(_, partitions)| TOPIC_BYTES + partitions.len() * PARTITION_BYTES);
        TOPIC_BYTES + topics.sum::<usize>() + self.node_endpoints.len() * TOPIC_BYTES
    }

    /// Writes all but the records; `cut` gets the place in `out` where a partition's records belong, the ranges, and
    /// their bytes.
    fn encode_body(
        self,
        version: i16,
        out: &mut BytesMut,
        mut cut: impl FnMut(usize, Vec<R>, usize),
    ) -> Result<(), BodyError> {
        let mut writer = Writer::new(out, KEY.is_flexible(version));
        writer.i32(self.throttle_time_ms);
        if version >= 7 {
            writer.i16(self.error.code());
            writer.i32(self.session_id);
        }
        writer.length(Some(self.topics.len()));
        for (topic, partitions) in self.topics {
            topic.encode(version >= TOPIC_IDS_SINCE, &mut writer)?;
            writer.length(Some(partitions.len()));
            for mut partition in partitions {
                partition.encode_head(version, &mut writer);
                let bytes = partition.records.iter().map(R::size_bytes).sum();
                writer.length(Some(bytes));
                cut(writer.position(), std::mem::take(&mut partition.records), bytes);
                partition.encode_tail(version, &mut writer);
            }
            writer.no_tagged_fields();
        }
        encode_endpoints(&self.node_endpoints, version >= 16, &mut writer);
        Ok(())
    }
}

impl<R> Default for FetchResponse<R> {
    fn default() -> Self {
        Self {
            throttle_time_ms: 0,
            error: ErrorCode::None,
            session_id: 0,
            topics: Vec::new(),
            node_endpoints: Vec::new(),
        }
    }
}

/// Cuts `head` at the places where records belong and puts them in between; empty pieces are left out.
fn weave<R: Records>(head: Bytes, cuts: Vec<(usize, Vec<R>)>) -> Vec<Chunk<R>> {
    let mut chunks = Vec::with_capacity(2 * cuts.len() + 1);
    let mut start = 0;
    for (at, ranges) in cuts {
        let mut ranges = ranges.into_iter().filter(|range| range.size_bytes() > 0).peekable();
        if ranges.peek().is_some() {
            chunks.push(Chunk::Bytes(head.slice(start..at)));
            chunks.extend(ranges.map(Chunk::Records));
            start = at;
        }
    }
    chunks.push(Chunk::Bytes(head.slice(start..)));
    chunks.retain(|chunk| !matches!(chunk, Chunk::Bytes(bytes) if bytes.is_empty()));
    chunks
}
