//! Writes record batches.

use super::codec::{CodecError, Compression, compress_at};
use super::crc::crc32c;
use super::header::{
    BATCH_HEADER_BYTES, BatchHeader, CONTROL_BIT, DELETE_HORIZON_BIT, LOG_OVERHEAD_BYTES, NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP, TIMESTAMP_TYPE_BIT, TRANSACTIONAL_BIT, TimestampType, offset_of,
};
use super::varint::{varint_bytes, varlong_bytes, write_varint, write_varlong};
use crate::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Everything about a batch that is not a record. Starts from [`BatchOptions::default`]: offset 0, no producer, no codec.
#[derive(Clone, Copy, Debug)]
pub struct BatchOptions {
    /// Offset that the records' offsets are relative to.
    pub base_offset: Offset,
    /// Leader epoch; -1 = none.
    pub leader_epoch: LeaderEpoch,
    /// Codec of the records.
    pub compression: Compression,
    /// Level of the codec; `None` is its default.
    pub compression_level: Option<i32>,
    /// Whose clock the timestamps come from.
    pub timestamp_type: TimestampType,
    /// With [`TimestampType::LogAppendTime`], the time of all records.
    pub log_append_time_ms: i64,
    /// Producer id, or [`NO_PRODUCER_ID`].
    pub producer_id: ProducerId,
    /// Producer epoch, or [`NO_PRODUCER_EPOCH`].
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, or [`NO_SEQUENCE`].
    pub base_sequence: i32,
    /// Part of a transaction.
    pub transactional: bool,
    /// Holds a control record.
    pub control: bool,
    /// When tombstones and markers may go; takes the place of the base timestamp.
    pub delete_horizon_ms: Option<i64>,
    /// Last offset to state although its record is gone (compaction keeps it); otherwise that of the last record.
    pub last_offset: Option<Offset>,
}

impl Default for BatchOptions {
    fn default() -> Self {
        Self {
            base_offset: 0,
            leader_epoch: -1,
            compression: Compression::None,
            compression_level: None,
            timestamp_type: TimestampType::CreateTime,
            log_append_time_ms: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            transactional: false,
            control: false,
            delete_horizon_ms: None,
            last_offset: None,
        }
    }
}

impl BatchOptions {
    /// The options that rebuild a batch as it is, keeping its offsets, producer and flags.
    pub fn of(header: &BatchHeader, compression: Compression) -> Self {
        Self {
            base_offset: header.base_offset,
            leader_epoch: header.leader_epoch,
            compression,
            compression_level: None,
            timestamp_type: header.timestamp_type(),
            log_append_time_ms: header.max_timestamp,
            producer_id: header.producer_id,
            producer_epoch: header.producer_epoch,
            base_sequence: header.base_sequence,
            transactional: header.is_transactional(),
            control: header.is_control(),
            delete_horizon_ms: header.delete_horizon_ms(),
            last_offset: Some(header.last_offset()),
        }
    }
}

/// A header of a record to be written: name and value (`None` is null).
pub type RecordHeader<'a> = (&'a [u8], Option<&'a [u8]>);

/// Why a record or a batch cannot be written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// Offsets must rise and stay within 2^31 of the base offset.
    #[error("offset {offset} does not follow {after} in a batch that begins at {base}")]
    Offset {
        /// The offset given.
        offset: Offset,
        /// The last one of the batch so far.
        after: Offset,
        /// The base offset of the batch.
        base: Offset,
    },
    /// The batch would be larger than its length field can say.
    #[error("a batch of {0} bytes does not fit its length field")]
    TooLarge(usize),
    /// The codec failed.
    #[error(transparent)]
    Codec(#[from] CodecError),
}

/// Collects records and writes one batch.
#[derive(Clone, Debug)]
pub struct BatchBuilder {
    options: BatchOptions,
    /// Room for the header, then the records, uncompressed.
    buffer: Vec<u8>,
    count: i32,
    base_timestamp: Option<i64>,
    max_timestamp: i64,
    last_offset: Offset,
}

/// Largest batch that the length field can state.
const MAX_BATCH_BYTES: usize = i32::MAX as usize;

impl BatchBuilder {
    /// An empty batch with these options.
    pub fn new(options: BatchOptions) -> Self {
        Self::with_capacity(options, 0)
    }

    /// An empty batch with room for `record_bytes` of records.
    pub fn with_capacity(options: BatchOptions, record_bytes: usize) -> Self {
        let mut buffer = Vec::with_capacity(BATCH_HEADER_BYTES + record_bytes);
        buffer.resize(BATCH_HEADER_BYTES, 0);
        Self {
            base_timestamp: options.delete_horizon_ms,
            last_offset: options.base_offset.saturating_sub(1),
            options,
            buffer,
            count: 0,
            max_timestamp: NO_TIMESTAMP,
        }
    }

    /// Number of records so far.
    pub fn record_count(&self) -> i32 {
        self.count
    }

    /// Bytes of the batch so far, before compression.
    pub fn bytes_len(&self) -> usize {
        self.buffer.len()
    }

    /// Adds the next record at the offset after the last one.
    pub fn push(&mut self, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) -> Result<(), BuildError> {
        self.append(self.last_offset.saturating_add(1), timestamp, key, value, std::iter::empty())
    }

    /// Adds a record. Offsets must rise; gaps are allowed, since compaction leaves them.
    pub fn append<'h>(
        &mut self,
        offset: Offset,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: impl Iterator<Item = RecordHeader<'h>> + Clone,
    ) -> Result<(), BuildError> {
        let base = self.options.base_offset;
        let refused = || BuildError::Offset { offset, after: self.last_offset, base };
        if offset <= self.last_offset {
            return Err(refused());
        }
        let offset_delta = offset.checked_sub(base).and_then(|delta| i32::try_from(delta).ok()).ok_or_else(refused)?;
        let base_timestamp = *self.base_timestamp.get_or_insert(timestamp);
        let timestamp_delta = timestamp.wrapping_sub(base_timestamp);

        let field_bytes = |field: Option<&[u8]>| field.map_or(0, <[u8]>::len);
        let header_count = headers.clone().count();
        let header_bytes: usize = headers.clone().map(|(name, value)| name.len() + field_bytes(value) + 10).sum();
        let most_bytes = self.buffer.len() + field_bytes(key) + field_bytes(value) + header_bytes + 64;
        if most_bytes > MAX_BATCH_BYTES {
            return Err(BuildError::TooLarge(most_bytes));
        }
        let sized = |field: Option<&[u8]>| match field {
            None => varint_bytes(-1),
            Some(bytes) => varint_bytes(bytes.len() as i32) + bytes.len(),
        };
        let body_bytes = 1
            + varlong_bytes(timestamp_delta)
            + varint_bytes(offset_delta)
            + sized(key)
            + sized(value)
            + varint_bytes(header_count as i32)
            + headers.clone().map(|(name, value)| sized(Some(name)) + sized(value)).sum::<usize>();

        let buffer = &mut self.buffer;
        write_varint(body_bytes as i32, buffer);
        buffer.push(0);
        write_varlong(timestamp_delta, buffer);
        write_varint(offset_delta, buffer);
        write_field(key, buffer);
        write_field(value, buffer);
        write_varint(header_count as i32, buffer);
        for (name, value) in headers {
            write_field(Some(name), buffer);
            write_field(value, buffer);
        }
        self.count += 1;
        self.last_offset = offset;
        self.max_timestamp = self.max_timestamp.max(timestamp);
        Ok(())
    }

    /// Compresses, sums and gives the batch. Without records this is the empty batch that compaction leaves behind to keep
    /// a producer's last sequence; it states the offsets and times of its options.
    pub fn build(mut self) -> Result<Vec<u8>, BuildError> {
        let options = self.options;
        // An empty batch is never compressed: there is nothing for a reader to decompress.
        let compression = if self.count == 0 { Compression::None } else { options.compression };
        if compression != Compression::None {
            let compressed = compress_at(compression, options.compression_level, &self.buffer[BATCH_HEADER_BYTES..])?;
            self.buffer.truncate(BATCH_HEADER_BYTES);
            self.buffer.extend_from_slice(&compressed);
        }
        if self.buffer.len() > MAX_BATCH_BYTES {
            return Err(BuildError::TooLarge(self.buffer.len()));
        }
        let mut attributes = i16::from(compression.id());
        let flags = [
            (options.timestamp_type == TimestampType::LogAppendTime, TIMESTAMP_TYPE_BIT),
            (options.transactional, TRANSACTIONAL_BIT),
            (options.control, CONTROL_BIT),
            (options.delete_horizon_ms.is_some(), DELETE_HORIZON_BIT),
        ];
        for (set, bit) in flags {
            attributes |= if set { bit } else { 0 };
        }
        let base = options.base_offset;
        let last_offset = options.last_offset.unwrap_or(self.last_offset).max(self.last_offset);
        let last_offset_delta = last_offset
            .checked_sub(base)
            .and_then(|delta| i32::try_from(delta).ok())
            .ok_or(BuildError::Offset { offset: last_offset, after: self.last_offset, base })?;
        let max_timestamp = match options.timestamp_type {
            TimestampType::LogAppendTime => options.log_append_time_ms,
            TimestampType::CreateTime => self.max_timestamp,
        };
        let header = BatchHeader {
            base_offset: base,
            batch_length: (self.buffer.len() - LOG_OVERHEAD_BYTES) as i32,
            leader_epoch: options.leader_epoch,
            crc: 0,
            attributes,
            last_offset_delta,
            base_timestamp: self.base_timestamp.unwrap_or(NO_TIMESTAMP),
            max_timestamp,
            producer_id: options.producer_id,
            producer_epoch: options.producer_epoch,
            base_sequence: options.base_sequence,
            record_count: self.count,
        };
        Ok(seal(header, self.buffer))
    }
}

fn write_field(field: Option<&[u8]>, buffer: &mut Vec<u8>) {
    match field {
        None => write_varint(-1, buffer),
        Some(bytes) => {
            write_varint(bytes.len() as i32, buffer);
            buffer.extend_from_slice(bytes);
        }
    }
}

/// Writes the header over the first 61 bytes of `batch` and the CRC over what it covers.
pub(crate) fn seal(mut header: BatchHeader, mut batch: Vec<u8>) -> Vec<u8> {
    let head = batch.first_chunk_mut::<BATCH_HEADER_BYTES>();
    assert!(head.is_some(), "a batch buffer begins with room for the header");
    if let Some(head) = head {
        header.write(head);
    }
    header.crc = crc32c(&batch[offset_of::ATTRIBUTES..]);
    batch[offset_of::CRC..offset_of::ATTRIBUTES].copy_from_slice(&header.crc.to_be_bytes());
    batch
}
