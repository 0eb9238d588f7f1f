//! The 61 fixed bytes at the front of every record batch.

use super::codec::{CodecError, Compression};
use super::crc::crc32c;
use super::iter::RecordError;
use crate::ids::{LeaderEpoch, Offset, ProducerEpoch, ProducerId};

/// Bytes of a batch before its first record.
pub const BATCH_HEADER_BYTES: usize = 61;

/// Bytes of a batch that its own length field does not count: the base offset and the length.
pub const LOG_OVERHEAD_BYTES: usize = 12;

/// Bytes at the front that a log rewrites on append: base offset, length, leader epoch. The CRC does not cover them.
pub const PREFIX_BYTES: usize = 16;

/// Where each field begins.
pub mod offset_of {
    /// Base offset (i64).
    pub const BASE_OFFSET: usize = 0;
    /// Bytes that follow this field (i32).
    pub const LENGTH: usize = 8;
    /// Leader epoch of the append (i32).
    pub const LEADER_EPOCH: usize = 12;
    /// Format of the batch (i8).
    pub const MAGIC: usize = 16;
    /// CRC-32C of everything from the attributes to the end (u32).
    pub const CRC: usize = 17;
    /// Codec, timestamp type, transactional, control, delete horizon (i16).
    pub const ATTRIBUTES: usize = 21;
    /// Last offset minus base offset (i32).
    pub const LAST_OFFSET_DELTA: usize = 23;
    /// Timestamp of the first record, or the delete horizon (i64).
    pub const BASE_TIMESTAMP: usize = 27;
    /// Largest timestamp (i64).
    pub const MAX_TIMESTAMP: usize = 35;
    /// Producer id (i64).
    pub const PRODUCER_ID: usize = 43;
    /// Producer epoch (i16).
    pub const PRODUCER_EPOCH: usize = 51;
    /// Sequence of the first record (i32).
    pub const BASE_SEQUENCE: usize = 53;
    /// Number of records (i32).
    pub const RECORD_COUNT: usize = 57;
}

/// Magic of the only batch format that is kept and accepted.
pub(crate) const MAGIC: i8 = 2;
pub(crate) const TIMESTAMP_TYPE_BIT: i16 = 0x08;
pub(crate) const TRANSACTIONAL_BIT: i16 = 0x10;
pub(crate) const CONTROL_BIT: i16 = 0x20;
pub(crate) const DELETE_HORIZON_BIT: i16 = 0x40;

/// Producer id of a batch without one.
pub const NO_PRODUCER_ID: ProducerId = -1;
/// Producer epoch of a batch without one.
pub const NO_PRODUCER_EPOCH: ProducerEpoch = -1;
/// Base sequence of a batch without one.
pub const NO_SEQUENCE: i32 = -1;
/// Timestamp that means "none".
pub const NO_TIMESTAMP: i64 = -1;

/// Whose clock a batch's timestamps come from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TimestampType {
    /// The producer's: each record has its own.
    #[default]
    CreateTime,
    /// The leader's at append: all records have the batch's max timestamp.
    LogAppendTime,
}

/// Why bytes are no sound record batch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BatchError {
    /// Fewer bytes than the header, or than its length field says.
    #[error("a batch of {needed} bytes has only {available}")]
    Truncated {
        /// Bytes that the batch needs.
        needed: usize,
        /// Bytes that are there.
        available: usize,
    },
    /// The length field is smaller than a header.
    #[error("a batch length of {0} is smaller than a batch header")]
    Length(i32),
    /// Not the format of magic 2.
    #[error("batch magic {0} is not 2")]
    Magic(i8),
    /// The checksum does not match.
    #[error("the batch is corrupt: stored crc {stored}, computed {computed}")]
    Crc {
        /// The sum in the header.
        stored: u32,
        /// The sum of the bytes.
        computed: u32,
    },
    /// The attributes name no known codec.
    #[error("compression type {0} is unknown")]
    UnknownCompression(u8),
    /// The records do not decompress.
    #[error("the records cannot be decompressed: {0}")]
    Codec(#[from] CodecError),
    /// A record breaks the format.
    #[error("record {index}: {source}")]
    Record {
        /// Place of the record in the batch, from 0.
        index: i32,
        /// What is wrong with it.
        source: RecordError,
    },
}

/// All fields of a batch header. Cheap to copy; holds none of the bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchHeader {
    /// Offset of the first record (0 in what producers send).
    pub base_offset: Offset,
    /// Bytes that follow the length field.
    pub batch_length: i32,
    /// Leader epoch of the append; -1 in what producers send.
    pub leader_epoch: LeaderEpoch,
    /// Stored CRC-32C.
    pub crc: u32,
    /// Raw attribute bits.
    pub attributes: i16,
    /// Last offset minus base offset. Kept by compaction, so it can be larger than the number of records.
    pub last_offset_delta: i32,
    /// Timestamp of the first record, or the delete horizon when its bit is set.
    pub base_timestamp: i64,
    /// Largest timestamp of the records.
    pub max_timestamp: i64,
    /// Producer id, or [`NO_PRODUCER_ID`].
    pub producer_id: ProducerId,
    /// Producer epoch, or [`NO_PRODUCER_EPOCH`].
    pub producer_epoch: ProducerEpoch,
    /// Sequence of the first record, or [`NO_SEQUENCE`].
    pub base_sequence: i32,
    /// Number of records; 0 in batches that compaction emptied.
    pub record_count: i32,
}

fn field<const N: usize>(bytes: &[u8; BATCH_HEADER_BYTES], at: usize) -> [u8; N] {
    let mut value = [0; N];
    value.copy_from_slice(&bytes[at..at + N]);
    value
}

impl BatchHeader {
    /// Reads the header at the front of `bytes`, which need not hold the records. Checks magic and length, not the CRC.
    pub fn parse(bytes: &[u8]) -> Result<Self, BatchError> {
        if let Some(&magic) = bytes.get(offset_of::MAGIC)
            && magic as i8 != MAGIC
        {
            return Err(BatchError::Magic(magic as i8));
        }
        let Some(bytes) = bytes.first_chunk::<BATCH_HEADER_BYTES>() else {
            return Err(BatchError::Truncated { needed: BATCH_HEADER_BYTES, available: bytes.len() });
        };
        let header = Self {
            base_offset: i64::from_be_bytes(field(bytes, offset_of::BASE_OFFSET)),
            batch_length: i32::from_be_bytes(field(bytes, offset_of::LENGTH)),
            leader_epoch: i32::from_be_bytes(field(bytes, offset_of::LEADER_EPOCH)),
            crc: u32::from_be_bytes(field(bytes, offset_of::CRC)),
            attributes: i16::from_be_bytes(field(bytes, offset_of::ATTRIBUTES)),
            last_offset_delta: i32::from_be_bytes(field(bytes, offset_of::LAST_OFFSET_DELTA)),
            base_timestamp: i64::from_be_bytes(field(bytes, offset_of::BASE_TIMESTAMP)),
            max_timestamp: i64::from_be_bytes(field(bytes, offset_of::MAX_TIMESTAMP)),
            producer_id: i64::from_be_bytes(field(bytes, offset_of::PRODUCER_ID)),
            producer_epoch: i16::from_be_bytes(field(bytes, offset_of::PRODUCER_EPOCH)),
            base_sequence: i32::from_be_bytes(field(bytes, offset_of::BASE_SEQUENCE)),
            record_count: i32::from_be_bytes(field(bytes, offset_of::RECORD_COUNT)),
        };
        if header.batch_length < (BATCH_HEADER_BYTES - LOG_OVERHEAD_BYTES) as i32 {
            return Err(BatchError::Length(header.batch_length));
        }
        Ok(header)
    }

    /// Writes the header into its place at the front of a batch.
    pub fn write(&self, target: &mut [u8; BATCH_HEADER_BYTES]) {
        let mut put = |at: usize, value: &[u8]| target[at..at + value.len()].copy_from_slice(value);
        put(offset_of::BASE_OFFSET, &self.base_offset.to_be_bytes());
        put(offset_of::LENGTH, &self.batch_length.to_be_bytes());
        put(offset_of::LEADER_EPOCH, &self.leader_epoch.to_be_bytes());
        put(offset_of::MAGIC, &MAGIC.to_be_bytes());
        put(offset_of::CRC, &self.crc.to_be_bytes());
        put(offset_of::ATTRIBUTES, &self.attributes.to_be_bytes());
        put(offset_of::LAST_OFFSET_DELTA, &self.last_offset_delta.to_be_bytes());
        put(offset_of::BASE_TIMESTAMP, &self.base_timestamp.to_be_bytes());
        put(offset_of::MAX_TIMESTAMP, &self.max_timestamp.to_be_bytes());
        put(offset_of::PRODUCER_ID, &self.producer_id.to_be_bytes());
        put(offset_of::PRODUCER_EPOCH, &self.producer_epoch.to_be_bytes());
        put(offset_of::BASE_SEQUENCE, &self.base_sequence.to_be_bytes());
        put(offset_of::RECORD_COUNT, &self.record_count.to_be_bytes());
    }

    /// Bytes of the whole batch, header and both uncounted fields included.
    pub fn total_bytes(&self) -> usize {
        LOG_OVERHEAD_BYTES + self.batch_length as usize
    }

    /// Offset of the last record that the batch ever held. Saturates on hostile headers.
    pub fn last_offset(&self) -> Offset {
        self.base_offset.saturating_add(i64::from(self.last_offset_delta))
    }

    /// The codec of the records.
    pub fn compression(&self) -> Result<Compression, BatchError> {
        Compression::from_attributes(self.attributes)
    }

    /// Whose clock the timestamps come from.
    pub fn timestamp_type(&self) -> TimestampType {
        if self.attributes & TIMESTAMP_TYPE_BIT == 0 { TimestampType::CreateTime } else { TimestampType::LogAppendTime }
    }

    /// Whether the batch is part of a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes & TRANSACTIONAL_BIT != 0
    }

    /// Whether the batch holds a control record (a transaction marker) in place of data.
    pub fn is_control(&self) -> bool {
        self.attributes & CONTROL_BIT != 0
    }

    /// When compaction may drop the tombstones and markers of this batch, if that was set (KAFKA-8522).
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes & DELETE_HORIZON_BIT != 0).then_some(self.base_timestamp)
    }

    /// Whether an idempotent or transactional producer wrote the batch.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id > NO_PRODUCER_ID
    }

    /// Whether this is the batch that the same producer sends right after `before`.
    pub fn continues(&self, before: &Self) -> bool {
        self.has_producer_id()
            && (self.producer_id, self.producer_epoch) == (before.producer_id, before.producer_epoch)
            && self.is_transactional() == before.is_transactional()
            && before.base_sequence != NO_SEQUENCE
            && self.base_sequence == increment_sequence(before.last_sequence(), 1)
    }

    /// Sequence of the last record, wrapping after [`i32::MAX`] to 0; [`NO_SEQUENCE`] if the batch has none.
    pub fn last_sequence(&self) -> i32 {
        if self.base_sequence == NO_SEQUENCE {
            NO_SEQUENCE
        } else {
            increment_sequence(self.base_sequence, self.last_offset_delta)
        }
    }

    /// Checks the stored sum against the bytes of the whole batch.
    pub(crate) fn verify_crc(&self, batch: &[u8]) -> Result<(), BatchError> {
        let computed = crc32c(&batch[offset_of::ATTRIBUTES..]);
        if computed == self.crc { Ok(()) } else { Err(BatchError::Crc { stored: self.crc, computed }) }
    }
}

/// The sequence `increment` records after `sequence`; after [`i32::MAX`] comes 0.
pub fn increment_sequence(sequence: i32, increment: i32) -> i32 {
    (i64::from(sequence) + i64::from(increment)).rem_euclid(1 << 31) as i32
}

/// The sequence `decrement` records before `sequence`; before 0 comes [`i32::MAX`].
pub fn decrement_sequence(sequence: i32, decrement: i32) -> i32 {
    (i64::from(sequence) - i64::from(decrement)).rem_euclid(1 << 31) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequences_wrap_after_the_largest_integer() {
        for (sequence, step, expected) in [
            (0, 1, 1),
            (i32::MAX, 1, 0),
            (i32::MAX - 1, 1, i32::MAX),
            (i32::MAX - 2, 9, 6),
            (i32::MAX, i32::MAX, i32::MAX - 1),
        ] {
            assert_eq!(increment_sequence(sequence, step), expected);
            assert_eq!(decrement_sequence(expected, step), sequence);
        }
    }

    #[test]
    fn headers_are_written_as_they_were_read() {
        let mut bytes = [0u8; BATCH_HEADER_BYTES];
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = index as u8;
        }
        bytes[offset_of::MAGIC] = 2;
        let header = BatchHeader::parse(&bytes).unwrap();
        let mut written = [0xffu8; BATCH_HEADER_BYTES];
        header.write(&mut written);
        assert_eq!(written, bytes);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let mut bytes = [0u8; BATCH_HEADER_BYTES];
        assert_eq!(BatchHeader::parse(&bytes), Err(BatchError::Magic(0)));
        bytes[offset_of::MAGIC] = 2;
        assert_eq!(BatchHeader::parse(&bytes), Err(BatchError::Length(0)));
        bytes[offset_of::LENGTH] = 0x80;
        assert_eq!(BatchHeader::parse(&bytes), Err(BatchError::Length(i32::MIN)));
        assert_eq!(BatchHeader::parse(&bytes[..60]), Err(BatchError::Truncated { needed: 61, available: 60 }));
        assert_eq!(BatchHeader::parse(&[]), Err(BatchError::Truncated { needed: 61, available: 0 }));
    }
}
