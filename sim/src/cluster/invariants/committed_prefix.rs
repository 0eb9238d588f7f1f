//! What is below the high watermark of any replica is the same on all of them, and what clients know of.

use std::collections::BTreeMap;

use bytes::Bytes;
use taffrail_core::record::{DecompressLimits, Decompressor, split_batches};
use taffrail_storage::Log;

use super::{Invariant, Reached, View, named};
use crate::cluster::ledger::Value;

/// Bytes that are read at once.
const READ_BYTES: u64 = 64 << 10;

#[derive(Default)]
pub(super) struct CommittedPrefix {
    /// Committed records by partition and offset, with the broker on which they were seen first.
    committed: BTreeMap<(i32, i64), (Value, u8)>,
    /// How far logs were compared.
    compared: Reached,
}

impl Invariant for CommittedPrefix {
    fn name(&self) -> &'static str {
        "committed-prefix-agrees"
    }

    fn look(&mut self, view: &View) -> Result<(), String> {
        for broker in &view.brokers {
            for (partition, log) in View::logs(broker) {
                let compared = self.compared.of(broker, partition, &log);
                let from = (*compared).max(log.log_start_offset());
                // What the disk refuses to read is looked at in the next life.
                let Ok(records) = records(&log, from, log.high_watermark()) else { continue };
                for (offset, value) in records {
                    *compared = offset + 1;
                    let first = *self.committed.entry((partition, offset)).or_insert((value, broker.number));
                    let known = view.ledger.with(partition, |seen| seen.known(offset)).unwrap_or(value);
                    if first.0 != value || known != value {
                        let partition = named(partition);
                        return Err(format!(
                            "{partition}, offset {offset}: {value} on broker {}, {} on broker {}, {known} to clients",
                            broker.number, first.0, first.1
                        ));
                    }
                }
            }
        }
        Ok(())
    }
}

/// The records of a log from `from` on and before `end`.
pub(in crate::cluster) fn records(log: &Log, from: i64, end: i64) -> Result<Vec<(i64, Value)>, String> {
    let mut found = Vec::new();
    let mut next = from;
    while next < end {
        let read = log.read(next, READ_BYTES, end, true).map_err(|error| error.to_string())?;
        let bytes = read.read_bytes().map_err(|error| error.to_string())?;
        for batch in split_batches(Bytes::from(bytes)) {
            let batch = batch.map_err(|error| error.to_string())?;
            batch.verify_crc().map_err(|error| error.to_string())?;
            let mut decompressor = Decompressor::new(DecompressLimits::default());
            let view = batch.as_ref();
            for record in view.records(&mut decompressor).map_err(|error| error.to_string())? {
                let record = record.map_err(|error| error.to_string())?;
                let value = record.value.and_then(|value| value.first_chunk()).map_or(0, |it| u64::from_be_bytes(*it));
                if (from..end).contains(&record.offset) {
                    found.push((record.offset, value));
                }
            }
        }
        if read.next_offset <= next {
            return Err(format!("reading stands still at {next}"));
        }
        next = read.next_offset;
    }
    Ok(found)
}
