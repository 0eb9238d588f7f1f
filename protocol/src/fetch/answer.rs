//! Reading a Fetch response, as a follower does: records stay where they lie in the frame.

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;

use super::{FetchResponse, KEY, PartitionFetched, TOPIC_IDS_SINCE};
use crate::data::{CurrentLeader, TopicRef, decode_endpoints};
use crate::guard::Direction;
use crate::header;
use crate::message::BodyError;
use crate::request::{self, DecodeError};
use crate::wire::{Reader, WireError};

const NAME: &str = "FetchResponse";

impl FetchResponse<Bytes> {
    /// Decodes the frame (without its size) that answers a Fetch request sent at `version`: gives the correlation id and the
    /// response. Records are slices of `frame` and keep all of it in memory.
    ///
    /// # Errors
    /// When the frame is not sound. Nothing is taken then that its bytes do not explain.
    ///
    /// ```
    /// use bytes::{Bytes, BytesMut};
    /// use taffrail_core::errors::ErrorCode;
    /// use taffrail_core::ids::Uuid;
    /// use taffrail_protocol::data::TopicRef;
    /// use taffrail_protocol::fetch::{Chunk, FetchResponse, PartitionFetched};
    ///
    /// let records = vec![Bytes::from_static(b"batches")];
    /// let partition = PartitionFetched { high_watermark: 12, records, ..PartitionFetched::failed(0, ErrorCode::None) };
    /// let topics = vec![(TopicRef::Id(Uuid([7; 16])), vec![partition])];
    /// let response = FetchResponse { topics, ..FetchResponse::default() };
    /// let mut frame = BytesMut::new();
    /// for Chunk::Bytes(bytes) | Chunk::Records(bytes) in response.clone().into_chunks(17, 5)? {
    ///     frame.extend_from_slice(&bytes);
    /// }
    /// let frame = frame.freeze().slice(4..);
    /// assert_eq!(FetchResponse::decode(17, frame).unwrap(), (5, response));
    /// # Ok::<(), taffrail_protocol::request::EncodeError>(())
    /// ```
    pub fn decode(version: i16, mut frame: Bytes) -> Result<(i32, Self), DecodeError> {
        let correlation_id = header::parse_response(KEY, version, &mut frame).map_err(|error| DecodeError::Body {
            message: NAME,
            version,
            error: BodyError::Wire(error),
        })?;
        let response = request::decode_with(KEY, Direction::Response, NAME, version, &frame, Self::read)?;
        Ok((correlation_id, response))
    }

    fn read(version: i16, body: &Bytes) -> Result<Self, WireError> {
        let mut reader = Reader::new(body, KEY.is_flexible(version));
        let mut response = Self {
            throttle_time_ms: reader.i32()?,
            error: if version >= 7 { error_of(reader.i16()?) } else { ErrorCode::None },
            session_id: if version >= 7 { reader.i32()? } else { 0 },
            topics: reader.array(|reader| {
                let topic = TopicRef::decode(version >= TOPIC_IDS_SINCE, reader)?;
                let partitions = reader.array(|reader| PartitionFetched::read(version, body, reader))?;
                reader.skip_tagged_fields()?;
                Ok((topic, partitions))
            })?,
            node_endpoints: Vec::new(),
        };
        reader.tagged_fields(|tag, reader| {
            if tag == 0 && version >= 16 {
                response.node_endpoints = decode_endpoints(reader)?;
            }
            Ok(())
        })?;
        Ok(response)
    }
}

impl PartitionFetched<Bytes> {
    fn read(version: i16, body: &Bytes, reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let mut partition = Self {
            index: reader.i32()?,
            error: error_of(reader.i16()?),
            high_watermark: reader.i64()?,
            last_stable_offset: reader.i64()?,
            log_start_offset: if version >= 5 { reader.i64()? } else { -1 },
            aborted_transactions: reader.nullable_array(|reader| {
                let transaction = (reader.i64()?, reader.i64()?);
                reader.skip_tagged_fields()?;
                Ok(transaction)
            })?,
            preferred_read_replica: if version >= 11 { reader.i32()? } else { -1 },
            records: reader
                .bytes_range()?
                .filter(|range| !range.is_empty())
                .map(|range| vec![body.slice(range)])
                .unwrap_or_default(),
            diverging_epoch: None,
            current_leader: None,
        };
        reader.tagged_fields(|tag, reader| {
            match tag {
                0 if version >= 12 => {
                    let (epoch, end_offset) = (reader.i32()?, reader.i64()?);
                    reader.skip_tagged_fields()?;
                    // Both are -1 where somebody writes down that the logs do not differ.
                    partition.diverging_epoch = Some((epoch, end_offset)).filter(|_| epoch >= 0 && end_offset >= 0);
                }
                1 if version >= 12 => {
                    let leader = CurrentLeader { leader_id: reader.i32()?, leader_epoch: reader.i32()? };
                    reader.skip_tagged_fields()?;
                    partition.current_leader = Some(leader);
                }
                _ => {}
            }
            Ok(())
        })?;
        Ok(partition)
    }
}

/// The error with this number; one that a newer peer knows says only that something went wrong.
fn error_of(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}
