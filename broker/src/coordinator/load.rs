//! Loading a shard from its log.

use std::collections::BTreeMap;

use bytes::Bytes;
use taffrail_core::errors::ErrorCode;
use taffrail_core::group::{GroupRecord, GroupShard};
use taffrail_core::ids::{Offset, ProducerId};
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_core::record::{
    Batch, BatchError, ControlKind, DecompressLimits, Decompressor, EndTransactionMarker, split_batches,
};
use taffrail_protocol::persisted::offsets::{self, OffsetsRecordError};
use taffrail_runtime::task;

use super::log::OffsetsLog;

/// Most that the records of one batch may decompress to. Batches of ours are not compressed; those of a folder that comes
/// from Kafka may be.
const BATCH_BYTES_MAX: usize = 256 << 20;

/// Why a shard cannot be loaded.
#[derive(Debug, thiserror::Error)]
pub(super) enum LoadError {
    /// The log cannot be read.
    #[error("the log cannot be read at offset {offset}: {error}")]
    Read {
        /// From where.
        offset: Offset,
        /// What it said.
        error: ErrorCode,
    },
    /// What is in the log will not be committed by this leader.
    #[error("the log will not be committed up to offset {offset}: {error}")]
    Uncommitted {
        /// Its last offset.
        offset: Offset,
        /// What it said.
        error: ErrorCode,
    },
    /// A batch is damaged.
    #[error("the batch at offset {offset}: {error}")]
    Batch {
        /// Where.
        offset: Offset,
        /// What is wrong.
        error: BatchError,
    },
    /// A record is no record of groups.
    #[error("the record at offset {offset}: {error}")]
    Record {
        /// Where.
        offset: Offset,
        /// What is wrong.
        error: OffsetsRecordError,
    },
}

/// Replays everything that is in `log` now into `machine`, and waits until it is committed: what is not may be taken back
/// by the next leader, so nobody is shown it. Gives the number of records.
pub(super) async fn load(log: &dyn OffsetsLog, machine: &mut GroupShard, max_bytes: usize) -> Result<u64, LoadError> {
    let (mut offset, end) = log.bounds();
    let is_empty = offset >= end;
    let mut loader = Loader { machine, open: BTreeMap::new(), decompressor: decompressor(), records: 0 };
    while offset < end && !is_planted(PlantedBug::GroupsNotLoaded) {
        let bytes = log.read(offset, max_bytes).await.map_err(|error| LoadError::Read { offset, error })?;
        if bytes.is_empty() {
            break;
        }
        offset = loader.batches(bytes, offset)?;
        // Others on this thread wait no longer than one buffer takes.
        task::yield_now().await;
    }
    let records = loader.records;
    if !is_empty {
        let last = end - 1;
        log.wait_committed(last).await.map_err(|error| LoadError::Uncommitted { offset: last, error })?;
    }
    Ok(records)
}

fn decompressor() -> Decompressor {
    Decompressor::new(DecompressLimits::bytes(BATCH_BYTES_MAX))
}

struct Loader<'a> {
    machine: &'a mut GroupShard,
    /// Records of transactions that are not decided, by producer. Only folders that come from Kafka have any.
    open: BTreeMap<ProducerId, Vec<GroupRecord>>,
    decompressor: Decompressor,
    records: u64,
}

impl Loader<'_> {
    /// Replays whole batches; gives the offset behind them.
    fn batches(&mut self, bytes: Bytes, from: Offset) -> Result<Offset, LoadError> {
        let mut next = from;
        for batch in split_batches(bytes) {
            let failed = |error| LoadError::Batch { offset: next, error };
            let batch = match batch {
                Ok(batch) => batch,
                // A read may end inside a batch; it begins the next one.
                Err(BatchError::Truncated { .. }) if next > from => return Ok(next),
                Err(error) => return Err(failed(error)),
            };
            batch.verify_crc().map_err(failed)?;
            if batch.header().is_control() {
                self.control(&batch).map_err(failed)?;
            } else {
                self.data(&batch)?;
            }
            next = batch.header().last_offset() + 1;
        }
        Ok(next)
    }

    fn control(&mut self, batch: &Batch) -> Result<(), BatchError> {
        let Some(record) = batch.as_ref().records(&mut self.decompressor)?.next().transpose()? else { return Ok(()) };
        let decided = self.open.remove(&batch.header().producer_id);
        if EndTransactionMarker::read(&record).is_ok_and(|marker| marker.kind == ControlKind::Commit) {
            decided.into_iter().flatten().for_each(|record| self.machine.replay(record));
        }
        Ok(())
    }

    fn data(&mut self, batch: &Batch) -> Result<(), LoadError> {
        let header = *batch.header();
        let failed = |error| LoadError::Batch { offset: header.base_offset, error };
        for record in batch.as_ref().records(&mut self.decompressor).map_err(failed)? {
            let record = record.map_err(failed)?;
            let (key, value) = (record.key.map(Bytes::copy_from_slice), record.value.map(Bytes::copy_from_slice));
            let decoded = offsets::decode(key.as_ref(), value.as_ref())
                .map_err(|error| LoadError::Record { offset: record.offset, error })?;
            self.records += 1;
            match decoded {
                None => {}
                Some(record) if header.is_transactional() => {
                    self.open.entry(header.producer_id).or_default().push(record);
                }
                Some(record) => self.machine.replay(record),
            }
        }
        Ok(())
    }
}
