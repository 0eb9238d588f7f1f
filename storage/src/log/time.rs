//! Looking up offsets by time.

use std::sync::Arc;

use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::record::{BatchRef, DecompressLimits, Decompressor, TimestampType};

use super::Log;
use super::borders::Met;
use crate::disk;
use crate::error::ReadError;
use crate::index::{self, TimeEntry};
use crate::names::FileKind;
use crate::scan::{Located, Scan, ScanError, WINDOW_LARGE_BYTES};
use crate::segment::Segment;

/// A record found by time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimestampedOffset {
    /// Its timestamp in milliseconds.
    pub timestamp: i64,
    /// Its offset.
    pub offset: Offset,
    /// The leader epoch that wrote it; -1 = unknown.
    pub leader_epoch: LeaderEpoch,
}

impl Log {
    /// The first record, from the log's start on, whose timestamp is `timestamp` or later. Reads from the disk: call it on
    /// a pool.
    ///
    /// # Errors
    /// When the partition does not serve or the disk refuses.
    pub fn offset_for_timestamp(&self, timestamp: i64) -> Result<Option<TimestampedOffset>, ReadError> {
        let (log_start_offset, _) = self.check_readable(self.log_start_offset())?;
        let segments = self.segments.read().clone();
        for segment in &segments {
            let largest = match segment.largest(&self.env) {
                Err(ScanError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => continue,
                other => other.map_err(|error| self.search_failed(segment, error))?,
            };
            if largest.is_none_or(|largest| largest.timestamp < timestamp) {
                continue;
            }
            let found = self
                .search_segment(segment, timestamp, log_start_offset)
                .map_err(|error| self.search_failed(segment, error))?;
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(None)
    }

    /// The record with the largest timestamp; the first of them if several have it (KIP-734). As in Kafka, records that
    /// DeleteRecords took away count for as long as their segment is there.
    ///
    /// # Errors
    /// When the partition does not serve or the disk refuses.
    pub fn max_timestamp_offset(&self) -> Result<Option<TimestampedOffset>, ReadError> {
        self.check_readable(self.log_start_offset())?;
        let mut best: Option<(Arc<Segment>, i64)> = None;
        for segment in self.segments.read().clone() {
            let largest = segment.largest(&self.env).map_err(|error| self.search_failed(&segment, error))?;
            if let Some(largest) = largest
                && best.as_ref().is_none_or(|(_, timestamp)| largest.timestamp > *timestamp)
            {
                best = Some((segment, largest.timestamp));
            }
        }
        let Some((segment, timestamp)) = best else { return Ok(None) };
        let from = segment.base_offset;
        self.search_segment(&segment, timestamp, from).map_err(|error| self.search_failed(&segment, error))
    }

    /// The greatest timestamp in the batch that contains `offset`, or in the first one behind it; `None` = there is none. Reads
    /// from the disk: call it on a pool.
    ///
    /// # Errors
    /// When `offset` is out of range, the partition does not serve, or the disk refuses.
    pub fn batch_timestamp(&self, offset: Offset) -> Result<Option<i64>, ReadError> {
        self.check_readable(offset)?;
        let segments = self.segments.read().clone();
        let first = segments.partition_point(|segment| segment.base_offset <= offset).saturating_sub(1);
        for segment in &segments[first..] {
            match segment.locate(&self.env, offset, segment.size(), None) {
                Ok(Some(batch)) => return Ok(Some(batch.header.max_timestamp)),
                Ok(None) => {}
                // Retention took it away meanwhile; the next one is the first now.
                Err(ScanError::Io(error)) if error.kind() == std::io::ErrorKind::NotFound => {}
                Err(error) => return Err(self.search_failed(segment, error)),
            }
        }
        Ok(None)
    }

    fn search_failed(&self, segment: &Arc<Segment>, error: ScanError) -> ReadError {
        self.read_failed(&Met::in_segment(segment)(error))
    }

    /// The first record of a segment that is at or after `offset_min` and not older than `timestamp`.
    fn search_segment(
        &self,
        segment: &Arc<Segment>,
        timestamp: i64,
        offset_min: Offset,
    ) -> Result<Option<TimestampedOffset>, ScanError> {
        let size = segment.size();
        let from = self.time_floor(segment, timestamp, size)?;
        let file = segment.open(&self.env, FileKind::Log)?;
        let mut scan = Scan::new(&*file, from, u64::from(size), WINDOW_LARGE_BYTES);
        while let Some(batch) = scan.next()? {
            if batch.header.max_timestamp < timestamp || batch.header.last_offset() < offset_min {
                continue;
            }
            if let Some(found) = first_record(&*file, &batch, timestamp, offset_min)? {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// A position before which all batches are older than `timestamp`.
    fn time_floor(&self, segment: &Arc<Segment>, timestamp: i64, size: u32) -> Result<u64, ScanError> {
        let is_older = |entry: &TimeEntry| entry.timestamp < timestamp;
        let pending = {
            let tail = self.tail.lock();
            if tail.base_offset == segment.base_offset { tail.times.floor_pending(is_older) } else { None }
        };
        let entry = match pending {
            Some(entry) => Some(entry),
            None => match segment.open(&self.env, FileKind::TimeIndex) {
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
                Err(error) => return Err(error.into()),
                Ok(file) => {
                    let count = index::count::<TimeEntry>(&*file)?;
                    index::floor::<TimeEntry>(&*file, count, is_older)?.map(|(_, entry)| entry)
                }
            },
        };
        let Some(entry) = entry else { return Ok(0) };
        let offset = segment.base_offset + i64::from(entry.relative_offset);
        // The entry is believed only if the batch says the same; otherwise the whole segment is walked.
        match segment.locate(&self.env, offset, size, None)? {
            Some(batch) if batch.header.max_timestamp == entry.timestamp => Ok(batch.position),
            _ => Ok(0),
        }
    }
}

/// The first record of a batch that is at or after `offset_min` and not older than `timestamp`.
fn first_record(
    file: &dyn disk::DiskFile,
    batch: &Located,
    timestamp: i64,
    offset_min: Offset,
) -> Result<Option<TimestampedOffset>, ScanError> {
    let leader_epoch = batch.header.leader_epoch;
    if batch.header.timestamp_type() == TimestampType::LogAppendTime {
        let offset = batch.header.base_offset.max(offset_min);
        return Ok(Some(TimestampedOffset { timestamp: batch.header.max_timestamp, offset, leader_epoch }));
    }
    let invalid = |cause: String| ScanError::Invalid { position: batch.position, cause };
    let mut bytes = vec![0; batch.header.total_bytes()];
    disk::read_exact_at(file, &mut bytes, batch.position)?;
    let view = BatchRef::parse(&bytes).map_err(|error| invalid(error.to_string()))?;
    let mut decompressor = Decompressor::new(DecompressLimits::default());
    match search_records(view, &mut decompressor, timestamp, offset_min) {
        Ok(found) => Ok(found.map(|(timestamp, offset)| TimestampedOffset { timestamp, offset, leader_epoch })),
        // A batch that nobody can look into has at least an offset: readers start there and skip by themselves.
        Err(error) => {
            tracing::warn!(%error, offset = batch.header.base_offset, "a batch cannot be searched by time");
            let offset = batch.header.base_offset.max(offset_min);
            Ok(Some(TimestampedOffset { timestamp: batch.header.max_timestamp, offset, leader_epoch }))
        }
    }
}

fn search_records(
    batch: BatchRef<'_>,
    decompressor: &mut Decompressor,
    timestamp: i64,
    offset_min: Offset,
) -> Result<Option<(i64, Offset)>, String> {
    for record in batch.records(decompressor).map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        if record.timestamp >= timestamp && record.offset >= offset_min {
            return Ok(Some((record.timestamp, record.offset)));
        }
    }
    Ok(None)
}
