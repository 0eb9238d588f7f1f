//! The gate for what clients produce, with the checks of Kafka's `ProduceRequest`, `UnifiedLog` and `LogValidator`.
//!
//! A batch passes as it is: its header, its CRC and the walk over its uncompressed records cost no copy. It is decompressed
//! only where a rule needs its records (keys on compacted topics, a timestamp window that the header cannot vouch for,
//! another codec, `strict`), and copied only where bytes under the CRC change (LogAppendTime, a wrong max timestamp,
//! another codec, wrong inner offsets). Kafka decompresses always; what is given up is the detection of compressed batches
//! whose records lie about their header, which then only their own readers meet.

use super::batch::{Batch, BatchRef};
use super::builder::{BatchBuilder, BatchOptions, BuildError};
use super::codec::{CodecError, Compression, DecompressLimits, Decompressor};
use super::header::{
    BATCH_HEADER_BYTES, BatchError, BatchHeader, LOG_OVERHEAD_BYTES, NO_TIMESTAMP, TimestampType, offset_of,
};
use super::iter::{Record, RecordIter};
use super::restamp::restamp;
use crate::errors::ErrorCode;
use bytes::Bytes;

/// Bytes of the smallest record: seven fields of one byte each.
const SMALLEST_RECORD: usize = 7;

/// Most bad records that an error lists. Kafka lists all; a client shows a few.
pub const MAX_RECORD_FAULTS: usize = 100;

/// Smallest length field of any batch format that Kafka ever had; a smaller one is damage rather than an old client.
const SMALLEST_LENGTH: i32 = 14;

/// What the topic allows, and the time.
#[derive(Clone, Copy, Debug)]
pub struct ProduceRules {
    /// `max.message.bytes`: largest batch, as compressed.
    pub max_message_bytes: usize,
    /// `segment.bytes`: a batch has to fit one segment.
    pub max_segment_bytes: usize,
    /// `message.timestamp.type`.
    pub timestamp_type: TimestampType,
    /// `message.timestamp.before.max.ms`: how old a record's timestamp may be.
    pub timestamp_before_max_ms: i64,
    /// `message.timestamp.after.max.ms`: how far ahead a record's timestamp may be.
    pub timestamp_after_max_ms: i64,
    /// Whether `cleanup.policy` has `compact`, so that every record needs a key.
    pub compacted: bool,
    /// `compression.type`: `None` keeps the producer's codec.
    pub compression: Option<Compression>,
    /// Level for [`Self::compression`]; `None` is the codec's default.
    pub compression_level: Option<i32>,
    /// Whether the request's version may carry zstd (Produce 7 and later).
    pub zstd_allowed: bool,
    /// Also decompress where no rule needs it, to check every record.
    pub strict: bool,
    /// The time, in milliseconds since 1970.
    pub now_ms: i64,
    /// Bounds for decompression.
    pub limits: DecompressLimits,
}

impl Default for ProduceRules {
    /// Kafka's defaults for a topic, at time 0.
    fn default() -> Self {
        Self {
            max_message_bytes: 1_048_588,
            max_segment_bytes: 1 << 30,
            timestamp_type: TimestampType::CreateTime,
            timestamp_before_max_ms: i64::MAX,
            timestamp_after_max_ms: 3_600_000,
            compacted: false,
            compression: None,
            compression_level: None,
            zstd_allowed: true,
            strict: false,
            now_ms: 0,
            limits: DecompressLimits::default(),
        }
    }
}

/// A batch that may be appended: sound, and with the timestamps and the codec that its topic wants. Its offsets still
/// begin at 0.
#[derive(Clone, Debug)]
pub struct ProducedBatch {
    /// Header of `bytes`.
    pub header: BatchHeader,
    /// The whole batch; the client's own bytes wherever possible.
    pub bytes: Bytes,
}

impl From<ProducedBatch> for Batch {
    fn from(produced: ProducedBatch) -> Self {
        Self::from_parts(produced.header, produced.bytes)
    }
}

/// A record that breaks a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordFault {
    /// Place in the batch, from 0.
    pub index: i32,
    /// What is wrong, for the client's log.
    pub message: String,
}

/// Why a batch is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProduceError {
    /// There is no complete batch.
    #[error("produce requests must have at least one record batch per partition")]
    NoBatch,
    /// There is more than one batch.
    #[error("produce requests are only allowed to contain exactly one record batch per partition")]
    MoreThanOneBatch,
    /// An old message format.
    #[error("produce requests are only allowed to contain record batches with magic version 2, not {0}")]
    Magic(i8),
    /// Damaged in its frame or under its CRC.
    #[error("record batch is corrupt: {0}")]
    Corrupt(BatchError),
    /// Zstd in a request version that cannot carry it, or a codec that nobody knows.
    #[error("compression type {0} is not allowed in this request")]
    UnsupportedCompression(u8),
    /// Larger than `max.message.bytes`.
    #[error("the record batch is {bytes} bytes, which exceeds the maximum configured value of {max_bytes}")]
    TooLarge {
        /// Size of the batch.
        bytes: usize,
        /// What is allowed.
        max_bytes: usize,
    },
    /// Larger than a segment.
    #[error("the record batch is {bytes} bytes, which exceeds the segment size of {max_bytes}")]
    LargerThanSegment {
        /// Size of the batch.
        bytes: usize,
        /// Size of a segment.
        max_bytes: usize,
    },
    /// The base offset is not 0.
    #[error("the base offset of the record batch should be 0, but it is {0}")]
    BaseOffset(i64),
    /// The offsets do not match the number of records.
    #[error("inconsistent batch offset range [0, {last_offset_delta}] and count of records {count}")]
    Count {
        /// Last offset delta of the header.
        last_offset_delta: i32,
        /// Record count of the header.
        count: i32,
    },
    /// A control batch.
    #[error("clients are not allowed to write control records")]
    Control,
    /// A producer id without a sequence.
    #[error("invalid sequence number {sequence} in record batch with producer id {producer_id}")]
    Sequence {
        /// The sequence.
        sequence: i32,
        /// The producer.
        producer_id: i64,
    },
    /// The records do not decompress or break the format.
    #[error("invalid records: {0}")]
    Records(BatchError),
    /// Records that a rule of the topic forbids.
    #[error("One or more records have been rejected due to {}", reason(*.timestamp, faults))]
    Faults {
        /// Whether a timestamp is among the reasons.
        timestamp: bool,
        /// The first of them.
        faults: Vec<RecordFault>,
    },
    /// The batch cannot be written in the topic's codec.
    #[error("the record batch cannot be rewritten: {0}")]
    Rebuild(#[from] BuildError),
}

/// Why records are rejected, in Kafka's words.
fn reason(timestamp: bool, faults: &[RecordFault]) -> String {
    if timestamp {
        return "invalid timestamp".to_owned();
    }
    let shown = |fault: &RecordFault| format!("RecordError(batchIndex={}, message='{}')", fault.index, fault.message);
    let first: Vec<String> = faults.iter().take(3).map(shown).collect();
    let (count, first) = (faults.len(), first.join(", "));
    format!("{count} record errors in total, and only showing the first three errors at most: [{first}]")
}

impl ProduceError {
    /// The code that Kafka answers with.
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Corrupt(_) => ErrorCode::CorruptMessage,
            Self::UnsupportedCompression(_) => ErrorCode::UnsupportedCompressionType,
            Self::TooLarge { .. } => ErrorCode::MessageTooLarge,
            Self::LargerThanSegment { .. } => ErrorCode::RecordListTooLarge,
            Self::Faults { timestamp: true, .. } => ErrorCode::InvalidTimestamp,
            Self::Rebuild(_) => ErrorCode::UnknownServerError,
            _ => ErrorCode::InvalidRecord,
        }
    }

    /// The bad records, for the answer's `record_errors` (Produce 8 and later).
    pub fn faults(&self) -> &[RecordFault] {
        match self {
            Self::Faults { faults, .. } => faults,
            _ => &[],
        }
    }
}

/// Checks what a client sent for one partition, and brings it into the form that its topic wants.
pub fn validate_produced(records: &Bytes, rules: &ProduceRules) -> Result<ProducedBatch, ProduceError> {
    let batch = only_batch(records, rules)?;
    let header = *batch.header();
    check_header(&batch, rules)?;

    let codec = batch.header().compression().map_err(ProduceError::Records)?;
    let target = rules.compression.unwrap_or(codec);
    if !codec.begins(batch.records_bytes()) {
        let reason = "the records do not begin as the codec's data do".to_owned();
        return Err(ProduceError::Records(CodecError::Corrupt { codec: codec.name(), reason }.into()));
    }
    let walk = codec == Compression::None || target != codec || rules.strict || needs_records(&header, rules);
    let mut decompressor = Decompressor::new(rules.limits);
    let mut max_timestamp = header.max_timestamp;
    if walk {
        let view = batch.as_ref();
        let walked = walk_records(view.records(&mut decompressor).map_err(ProduceError::Records)?, &header, rules)?;
        if !walked.dense || target != codec {
            return rebuild(view, target, rules);
        }
        max_timestamp = walked.max_timestamp;
    } else if header.timestamp_type() == TimestampType::LogAppendTime && is_stamped_by_log(rules) {
        return Err(timestamp_type_fault());
    }
    if is_stamped_by_log(rules) {
        max_timestamp = rules.now_ms;
    }
    if header.timestamp_type() == rules.timestamp_type && header.max_timestamp == max_timestamp {
        return Ok(ProducedBatch { header, bytes: batch.bytes().clone() });
    }
    let bytes = restamp(batch.as_ref(), rules.timestamp_type, max_timestamp);
    produced(Bytes::from(bytes))
}

fn is_stamped_by_log(rules: &ProduceRules) -> bool {
    rules.timestamp_type == TimestampType::LogAppendTime
}

fn produced(bytes: Bytes) -> Result<ProducedBatch, ProduceError> {
    let header = BatchHeader::parse(&bytes).map_err(ProduceError::Corrupt)?;
    Ok(ProducedBatch { header, bytes })
}

/// The one batch that a client may send for a partition.
fn only_batch(records: &Bytes, rules: &ProduceRules) -> Result<Batch, ProduceError> {
    if let Some(length) = length_field(records)
        && length < SMALLEST_LENGTH
    {
        return Err(ProduceError::Corrupt(BatchError::Length(length)));
    }
    let batch = Batch::parse(records).map_err(|e| match e {
        BatchError::Magic(magic @ (0 | 1)) => ProduceError::Magic(magic),
        BatchError::Truncated { .. } => ProduceError::NoBatch,
        damage => ProduceError::Corrupt(damage),
    })?;
    let codec = batch.header().compression();
    match codec {
        Err(BatchError::UnknownCompression(id)) => return Err(ProduceError::UnsupportedCompression(id)),
        Ok(Compression::Zstd) if !rules.zstd_allowed => {
            return Err(ProduceError::UnsupportedCompression(Compression::Zstd.id()));
        }
        _ => {}
    }
    // A cut piece after the batch is dropped, as Kafka does; a whole second batch is refused.
    let rest = &records[batch.bytes().len()..];
    match length_field(rest) {
        Some(length) if length < SMALLEST_LENGTH => Err(ProduceError::Corrupt(BatchError::Length(length))),
        Some(length) if rest.len() >= LOG_OVERHEAD_BYTES + length as usize => Err(ProduceError::MoreThanOneBatch),
        _ => Ok(batch),
    }
}

fn length_field(bytes: &[u8]) -> Option<i32> {
    let field = bytes.get(offset_of::LENGTH..offset_of::LEADER_EPOCH)?;
    field.first_chunk().map(|field| i32::from_be_bytes(*field))
}

fn check_header(batch: &Batch, rules: &ProduceRules) -> Result<(), ProduceError> {
    let header = batch.header();
    if header.base_offset != 0 {
        return Err(ProduceError::BaseOffset(header.base_offset));
    }
    check_size(header.total_bytes(), rules)?;
    batch.verify_crc().map_err(ProduceError::Corrupt)?;
    let (last_offset_delta, count) = (header.last_offset_delta, header.record_count);
    if last_offset_delta < 0 || count <= 0 || i64::from(last_offset_delta) + 1 != i64::from(count) {
        return Err(ProduceError::Count { last_offset_delta, count });
    }
    if (count as usize).saturating_mul(SMALLEST_RECORD) > rules.limits.max_bytes {
        // More records than any reader would unpack: a count that is made up, for which offsets would be given away.
        return Err(ProduceError::Count { last_offset_delta, count });
    }
    if header.is_control() {
        return Err(ProduceError::Control);
    }
    if header.has_producer_id() && header.base_sequence < 0 {
        return Err(ProduceError::Sequence { sequence: header.base_sequence, producer_id: header.producer_id });
    }
    Ok(())
}

fn check_size(bytes: usize, rules: &ProduceRules) -> Result<(), ProduceError> {
    if bytes > rules.max_message_bytes {
        return Err(ProduceError::TooLarge { bytes, max_bytes: rules.max_message_bytes });
    }
    if bytes > rules.max_segment_bytes {
        return Err(ProduceError::LargerThanSegment { bytes, max_bytes: rules.max_segment_bytes });
    }
    Ok(())
}

/// Whether the rules cannot be judged by the header of a compressed batch alone.
fn needs_records(header: &BatchHeader, rules: &ProduceRules) -> bool {
    if rules.compacted {
        return true;
    }
    if is_stamped_by_log(rules) {
        return false;
    }
    // The header knows the largest timestamp, not the smallest; and one below that of the first record is made up.
    rules.timestamp_before_max_ms != i64::MAX
        || is_outside(header.max_timestamp, rules)
        || header.max_timestamp < header.base_timestamp
        || header.timestamp_type() == TimestampType::LogAppendTime
}

fn is_outside(timestamp: i64, rules: &ProduceRules) -> bool {
    let age = i128::from(rules.now_ms) - i128::from(timestamp);
    timestamp != NO_TIMESTAMP
        && (age > i128::from(rules.timestamp_before_max_ms) || -age > i128::from(rules.timestamp_after_max_ms))
}

/// What a walk over the records found.
struct Walked {
    max_timestamp: i64,
    /// Whether the records' offsets count up from 0. Old clients got this wrong inside compressed batches.
    dense: bool,
}

fn walk_records(records: RecordIter<'_>, header: &BatchHeader, rules: &ProduceRules) -> Result<Walked, ProduceError> {
    let mut walked = Walked { max_timestamp: NO_TIMESTAMP, dense: true };
    let mut faults = Vec::new();
    let mut timestamp_fault = false;
    for (index, record) in (0..).zip(records) {
        let record = record.map_err(ProduceError::Records)?;
        walked.max_timestamp = walked.max_timestamp.max(record.timestamp);
        walked.dense &= record.offset == i64::from(index);
        if let Some((is_timestamp, message)) = fault_of(&record, header, rules) {
            timestamp_fault |= is_timestamp;
            if faults.len() < MAX_RECORD_FAULTS {
                faults.push(RecordFault { index, message });
            }
        }
    }
    if faults.is_empty() { Ok(walked) } else { Err(ProduceError::Faults { timestamp: timestamp_fault, faults }) }
}

/// What a record does wrong, and whether it is about its timestamp.
fn fault_of(record: &Record<'_>, header: &BatchHeader, rules: &ProduceRules) -> Option<(bool, String)> {
    if rules.compacted && record.key.is_none() {
        return Some((false, "Compacted topic cannot accept message without key".to_owned()));
    }
    if !is_stamped_by_log(rules) && record.timestamp != NO_TIMESTAMP {
        let earliest = rules.now_ms.saturating_sub(rules.timestamp_before_max_ms);
        let latest = rules.now_ms.saturating_add(rules.timestamp_after_max_ms);
        return is_outside(record.timestamp, rules).then(|| {
            let (timestamp, offset) = (record.timestamp, record.offset);
            let window = format!("[{earliest}, {latest}]");
            let reason = format!("Timestamp {timestamp} of message with offset {offset} is out of range. ");
            (true, reason + "The timestamp should be within " + &window)
        });
    }
    (header.timestamp_type() == TimestampType::LogAppendTime).then(|| (true, TIMESTAMP_TYPE_MESSAGE.to_owned()))
}

const TIMESTAMP_TYPE_MESSAGE: &str =
    "Invalid timestamp type in message. Producer should not set timestamp type to LogAppendTime.";

fn timestamp_type_fault() -> ProduceError {
    let fault = RecordFault { index: 0, message: TIMESTAMP_TYPE_MESSAGE.to_owned() };
    ProduceError::Faults { timestamp: true, faults: vec![fault] }
}

/// Writes the records anew, in another codec or with the offsets they should have had.
fn rebuild(batch: BatchRef<'_>, target: Compression, rules: &ProduceRules) -> Result<ProducedBatch, ProduceError> {
    let header = batch.header();
    let options = BatchOptions {
        compression_level: rules.compression_level,
        timestamp_type: rules.timestamp_type,
        log_append_time_ms: rules.now_ms,
        delete_horizon_ms: None,
        last_offset: None,
        ..BatchOptions::of(header, target)
    };
    let mut decompressor = Decompressor::new(rules.limits);
    let records = batch.records(&mut decompressor).map_err(ProduceError::Records)?;
    let mut builder = BatchBuilder::with_capacity(options, records.remaining_bytes());
    for (offset, record) in (0..).zip(records) {
        let record = record.map_err(ProduceError::Records)?;
        builder.append(offset, record.timestamp, record.key, record.value, record.headers)?;
    }
    let bytes = builder.build()?;
    check_size(bytes.len(), rules)?;
    assert!(bytes.len() >= BATCH_HEADER_BYTES, "a built batch has a header");
    produced(Bytes::from(bytes))
}

#[cfg(test)]
#[path = "produce_tests.rs"]
mod tests;
