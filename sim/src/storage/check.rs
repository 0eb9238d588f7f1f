//! Comparing a log with the model.

use bytes::Bytes;
use taffrail_core::record::{DecompressLimits, Decompressor, split_batches};
use taffrail_storage::Log;

use super::model::{Entry, Model};

/// Reads everything and compares it; also looks some offsets up by time.
pub(super) fn content(log: &Log, model: &Model, max_bytes: u64) -> Result<(), String> {
    let offsets = log.offsets();
    if offsets.end_offset != model.end() {
        return Err(format!("the log ends at {}, the model at {}", offsets.end_offset, model.end()));
    }
    if offsets.log_start_offset < model.floor {
        return Err(format!("the log starts at {}, before the floor {}", offsets.log_start_offset, model.floor));
    }
    let mut next = offsets.log_start_offset;
    let mut expected = None;
    while next < offsets.end_offset {
        let read = log.read(next, max_bytes, i64::MAX, true).map_err(|error| error.to_string())?;
        let bytes = read.read_bytes().map_err(|error| error.to_string())?;
        for batch in split_batches(Bytes::from(bytes)) {
            let batch = batch.map_err(|error| format!("reading at {next}: {error}"))?;
            batch.verify_crc().map_err(|error| format!("reading at {next}: {error}"))?;
            let base_offset = batch.header().base_offset;
            if expected.is_some_and(|expected| expected != base_offset) {
                return Err(format!("a batch begins at {base_offset}, not at {expected:?}"));
            }
            expected = Some(batch.header().last_offset() + 1);
            records(&batch, model)?;
        }
        if read.next_offset <= next {
            return Err(format!("reading stands still at {next}"));
        }
        next = read.next_offset;
    }
    times(log, model)
}

/// Compares the checksums of what is read from `from` on. A log that refuses to be read has told of its damage.
pub(super) fn checksums(log: &Log, from: i64) -> Result<(), String> {
    let mut next = from.max(log.log_start_offset());
    while next < log.end_offset() {
        let Ok(read) = log.read(next, 1, i64::MAX, true) else { return Ok(()) };
        let bytes = read.read_bytes().map_err(|error| error.to_string())?;
        for batch in split_batches(Bytes::from(bytes)) {
            let batch = batch.map_err(|error| format!("past the recovery point {from}, at {next}: {error}"))?;
            batch.verify_crc().map_err(|error| format!("past the recovery point {from}, at {next}: {error}"))?;
        }
        if read.next_offset <= next {
            return Ok(());
        }
        next = read.next_offset;
    }
    Ok(())
}

fn records(batch: &taffrail_core::record::Batch, model: &Model) -> Result<(), String> {
    let mut decompressor = Decompressor::new(DecompressLimits::default());
    for record in batch.as_ref().records(&mut decompressor).map_err(|error| error.to_string())? {
        let record = record.map_err(|error| error.to_string())?;
        let mut number = [0; 8];
        number.copy_from_slice(record.value.and_then(|value| value.get(..8)).ok_or("a record without its number")?);
        let sequence = batch.header().has_producer_id().then_some(record.sequence);
        let found = Entry { timestamp: record.timestamp, number: u64::from_be_bytes(number), sequence };
        let expected = model.entries.get(record.offset as usize);
        if expected != Some(&found) {
            return Err(format!("offset {} has {found:?}, where {expected:?} is expected", record.offset));
        }
    }
    Ok(())
}

fn times(log: &Log, model: &Model) -> Result<(), String> {
    let start = log.log_start_offset();
    let visible = || model.entries.iter().enumerate().skip(start as usize);
    let targets = visible().step_by(17).map(|(_, entry)| entry.timestamp).chain([0, i64::MAX]);
    for target in targets.collect::<Vec<_>>() {
        let expected = visible().find(|(_, entry)| entry.timestamp >= target).map(|(offset, _)| offset as i64);
        let found = log.offset_for_timestamp(target).map_err(|error| error.to_string())?.map(|found| found.offset);
        if found != expected {
            return Err(format!("time {target} is at {found:?}, where {expected:?} is expected"));
        }
    }
    let newest = visible().map(|(_, entry)| entry.timestamp).max();
    let found = log.max_timestamp_offset().map_err(|error| error.to_string())?.map(|found| found.timestamp);
    // A segment may begin before the log's start: deleted records in it count, too.
    if found < newest {
        return Err(format!("the newest time is {found:?}, where {newest:?} is expected"));
    }
    Ok(())
}
