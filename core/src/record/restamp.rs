//! Changes to a batch's timestamps, which its CRC covers.

use super::batch::BatchRef;
use super::builder::seal;
use super::header::{BatchHeader, TIMESTAMP_TYPE_BIT, TimestampType};

/// A copy of the batch with this timestamp type and max timestamp, and a new CRC. With
/// [`TimestampType::LogAppendTime`] the max timestamp is the time of every record; the records stay as they are.
pub fn restamp(batch: BatchRef<'_>, timestamp_type: TimestampType, max_timestamp: i64) -> Vec<u8> {
    let bit = match timestamp_type {
        TimestampType::CreateTime => 0,
        TimestampType::LogAppendTime => TIMESTAMP_TYPE_BIT,
    };
    let attributes = (batch.header().attributes & !TIMESTAMP_TYPE_BIT) | bit;
    seal(BatchHeader { attributes, max_timestamp, ..*batch.header() }, batch.bytes().to_vec())
}
