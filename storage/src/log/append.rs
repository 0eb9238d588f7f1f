//! Appending: one critical section with the producer check, the offsets, and one vectored write of all batches.
//!
//! A batch's bytes are never copied or looked into: the write takes 16 patched bytes (base offset, length, leader epoch),
//! then the rest of the batch as it came.

use std::io::IoSlice;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::partition::Verdict;
use taffrail_core::record::{
    Batch, BatchHeader, EndTransactionMarker, NO_TIMESTAMP, PREFIX_BYTES, TimestampType, patch_prefix,
};

use super::{Log, Writer};
use crate::disk::{self, DiskFile};
use crate::error::{AppendError, is_full, is_out_of_files, is_unwritable};
use crate::index::{OffsetEntry, TimeEntry, relative};
use crate::names::FileKind;
use crate::options::LogOptions;
use crate::scan::ScanError;
use crate::segment::{Segment, TimestampOffset};

/// What became of batches that were appended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Appended {
    /// Offset of the first record.
    pub base_offset: Offset,
    /// Offset of the last record.
    pub last_offset: Offset,
    /// With `LogAppendTime`, the time that all records got; otherwise -1.
    pub log_append_time_ms: i64,
    /// First offset that can be read.
    pub log_start_offset: Offset,
    /// Whether a repeated batch was recognised, so that nothing was written.
    pub duplicate: bool,
    /// Whether `flush.messages` asks for a flush before the answer.
    pub needs_flush: bool,
}

/// Batches that are written together: all fit into the active segment, and no producer has two among them.
struct Run<'a> {
    batches: Vec<Placed<'a>>,
    bytes: u64,
}

/// A batch with its place in the log.
struct Placed<'a> {
    /// With final base offset and leader epoch.
    header: BatchHeader,
    marker: Option<EndTransactionMarker>,
    prefix: [u8; PREFIX_BYTES],
    bytes: &'a [u8],
}

impl Log {
    /// Appends what a client (or a coordinator of this broker) produced: gives offsets, and writes all batches or none.
    /// The batches were checked before, but for what depends on the log's state.
    ///
    /// When the call returns, the bytes are in the page cache; see [`Log::flush_to`] for the disk.
    ///
    /// # Errors
    /// See [`AppendError`]; nothing is appended then.
    pub fn append(&self, batches: &[Batch], leader_epoch: LeaderEpoch, now_ms: i64) -> Result<Appended, AppendError> {
        let appended = self.append_as_leader(batches, leader_epoch, now_ms);
        appended.inspect_err(|error| self.env.note_refused(&self.partition, error, now_ms))
    }

    fn append_as_leader(
        &self,
        batches: &[Batch],
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let mut writer = self.writer.lock();
        let appended = self.append_locked(&mut writer, batches, leader_epoch, now_ms)?;
        drop(writer);
        self.note_changed();
        Ok(appended)
    }

    /// The same for who has locked the log.
    pub(super) fn append_locked(
        &self,
        writer: &mut Writer,
        batches: &[Batch],
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        self.check_writable()?;
        match self.check_producers(writer, batches)? {
            Some(duplicate) => Ok(duplicate),
            None => self.write_as_leader(writer, batches, leader_epoch, now_ms),
        }
    }

    /// Gives judged batches their offsets and writes them.
    pub(super) fn write_as_leader(
        &self,
        writer: &mut Writer,
        batches: &[Batch],
        leader_epoch: LeaderEpoch,
        now_ms: i64,
    ) -> Result<Appended, AppendError> {
        let options = self.options();
        let base_offset = writer.end_offset;
        let mut last_offset = base_offset - 1;
        let mut log_append_time_ms = NO_TIMESTAMP;
        let mut run = Run { batches: Vec::with_capacity(batches.len()), bytes: 0 };
        for batch in batches {
            let mut header = *batch.header();
            if header.timestamp_type() == TimestampType::LogAppendTime {
                log_append_time_ms = header.max_timestamp;
            }
            header.base_offset = last_offset + 1;
            header.leader_epoch = leader_epoch;
            last_offset = header.last_offset();
            let prefix = patch_prefix(header.base_offset, leader_epoch, &header);
            let marker = read_marker(batch)?;
            self.place(writer, &options, &mut run, Placed { header, marker, prefix, bytes: batch.bytes() }, now_ms)?;
        }
        self.write_run(writer, &options, &mut run, now_ms)?;
        let unflushed = writer.end_offset - self.flush.flushed();
        Ok(Appended {
            base_offset,
            last_offset,
            log_append_time_ms,
            log_start_offset: self.log_start_offset(),
            duplicate: false,
            needs_flush: unflushed >= options.flush_messages,
        })
    }

    /// Appends what a leader sent: offsets and leader epochs are already in the batches and stay as they are.
    ///
    /// # Errors
    /// See [`AppendError`]. Batches before the refused one may be appended.
    pub fn append_as_follower(&self, batches: &[Batch], now_ms: i64) -> Result<Offset, AppendError> {
        self.check_writable()?;
        let mut writer = self.writer.lock();
        let options = self.options();
        let mut run = Run { batches: Vec::with_capacity(batches.len()), bytes: 0 };
        let mut next_offset = writer.end_offset;
        // An epoch in which this broker led and wrote nothing is no epoch of the leader that goes on from here. Left in place
        // it would take the epochs before it along when a record of one of those comes.
        if writer.epochs.latest().is_some_and(|latest| latest.start_offset >= next_offset) {
            writer.epochs_changed |= writer.epochs.truncate_from_end(next_offset);
        }
        for batch in batches {
            let header = *batch.header();
            // Compaction leaves gaps, so an offset may be further on, but never before the end.
            if header.base_offset < next_offset || header.last_offset_delta < 0 {
                return Err(AppendError::OutOfOrderOffset { offset: header.base_offset, end_offset: next_offset });
            }
            next_offset = header.last_offset() + 1;
            let prefix = patch_prefix(header.base_offset, header.leader_epoch, &header);
            let marker = read_marker(batch)?;
            self.place(
                &mut writer,
                &options,
                &mut run,
                Placed { header, marker, prefix, bytes: batch.bytes() },
                now_ms,
            )?;
        }
        self.write_run(&mut writer, &options, &mut run, now_ms)?;
        drop(writer);
        self.note_changed();
        Ok(next_offset)
    }

    pub(super) fn check_writable(&self) -> Result<(), AppendError> {
        if let Some(reason) = self.env.fenced() {
            return Err(AppendError::Fenced(Arc::clone(reason)));
        }
        if let Some(reason) = self.offline() {
            return Err(AppendError::Offline(Arc::clone(reason)));
        }
        if self.is_deleted() { Err(AppendError::Deleted) } else { Ok(()) }
    }

    /// Judges all batches; tells if the first is a repeated one. Clients send one batch of a producer at a time, so a
    /// request is repeated as a whole.
    fn check_producers(&self, writer: &Writer, batches: &[Batch]) -> Result<Option<Appended>, AppendError> {
        for batch in batches {
            let header = batch.header();
            if header.is_control() {
                if let Some(marker) = read_marker(batch)? {
                    writer.producers.check_marker(header, &marker)?;
                }
                continue;
            }
            if let Verdict::Duplicate(known) = writer.producers.check(header)? {
                return Ok(Some(Appended {
                    base_offset: known.first_offset(),
                    last_offset: known.last_offset,
                    // As in Kafka, the time of the batch that is there, whosever clock it is from.
                    log_append_time_ms: known.timestamp,
                    log_start_offset: self.log_start_offset(),
                    duplicate: true,
                    needs_flush: known.last_offset >= self.flush.flushed() && self.options().flush_messages == 1,
                }));
            }
        }
        Ok(None)
    }

    /// Adds a batch to the run; writes the run and closes the segment first where that is needed.
    fn place<'a>(
        &self,
        writer: &mut Writer,
        options: &LogOptions,
        run: &mut Run<'a>,
        batch: Placed<'a>,
        now_ms: i64,
    ) -> Result<(), AppendError> {
        let bytes = batch.bytes.len();
        if bytes as u64 > u64::from(options.segment_bytes) {
            return Err(AppendError::TooLarge { bytes, segment_bytes: options.segment_bytes });
        }
        if self.must_roll(writer, options, run.bytes, &batch.header, bytes, now_ms)? {
            self.write_run(writer, options, run, now_ms)?;
            // A segment begins where the one before it ends, so that a start after a crash can tell what is missing; only
            // an offset that would be too far away begins one of its own.
            let follows = relative(batch.header.last_offset(), writer.end_offset).is_some();
            let base_offset = if follows { writer.end_offset } else { batch.header.base_offset };
            self.roll(writer, base_offset, now_ms)?;
        }
        run.bytes += bytes as u64;
        run.batches.push(batch);
        Ok(())
    }

    /// Writes the run at the end of the active segment, and then, not before, lets everyone know of it.
    fn write_run(
        &self,
        writer: &mut Writer,
        options: &LogOptions,
        run: &mut Run<'_>,
        now_ms: i64,
    ) -> Result<(), AppendError> {
        if run.batches.is_empty() {
            return Ok(());
        }
        if writer.active.known_largest().is_none() {
            writer.active.largest(&self.env).map_err(|error| self.append_refused(error))?;
        }
        if !self.env.space.admits(&*self.env.disk, run.bytes) {
            return Err(AppendError::DiskFull);
        }
        let file = writer.active.open(&self.env, FileKind::Log).map_err(AppendError::Io)?;
        self.write_batches(&*file, writer.active.base_offset, writer.position, run)?;
        let is_index_due = self.note_written(writer, options, run, now_ms);
        run.batches.clear();
        run.bytes = 0;
        if is_index_due && let Err(error) = self.write_indexes(writer) {
            // Entries that cannot be written now stay in memory; the indexes can always be built anew.
            tracing::debug!(partition = %self.partition, %error, "the index is not written");
        }
        Ok(())
    }

    fn write_batches(
        &self,
        file: &dyn DiskFile,
        active_base: Offset,
        position: u32,
        run: &Run<'_>,
    ) -> Result<(), AppendError> {
        let written = if let [batch] = &run.batches[..] {
            let mut slices = [IoSlice::new(&batch.prefix), IoSlice::new(&batch.bytes[PREFIX_BYTES..])];
            disk::write_all_at(file, &mut slices, u64::from(position))
        } else {
            let mut slices: Vec<_> = run
                .batches
                .iter()
                .flat_map(|batch| [IoSlice::new(&batch.prefix), IoSlice::new(&batch.bytes[PREFIX_BYTES..])])
                .collect();
            disk::write_all_at(file, &mut slices, u64::from(position))
        };
        let Err(error) = written else { return Ok(()) };
        if error.kind() == std::io::ErrorKind::PermissionDenied {
            // The file could be opened for reading only: nothing was taken.
            return Err(AppendError::Io(error));
        }
        // What was taken of a refused write goes, so that the file ends with a whole batch.
        let cut = file.set_len(u64::from(position));
        self.flush.note_failed_write(active_base);
        if is_full(&error) && cut.is_ok() {
            self.env.space.look_again();
            return Err(AppendError::DiskFull);
        }
        if is_out_of_files(&error) && cut.is_ok() {
            return Err(AppendError::Io(error));
        }
        let reason = self.env.fence(&format!("writing to the log of {}", self.partition), &error);
        // On a volume that was made read-only nothing can be cut, and nothing be added; it is read as far as it was known.
        if let Err(error) = cut
            && !is_unwritable(&error)
        {
            self.take_offline(format!("the log cannot be cut back to {position} after a failed write: {error}"));
        }
        Err(AppendError::Fenced(reason))
    }

    /// Turns damage that was met on the way to an append into the refusal of it.
    pub(super) fn append_refused(&self, error: ScanError) -> AppendError {
        match error {
            ScanError::Io(error) => AppendError::Io(error),
            ScanError::Invalid { .. } => AppendError::Offline(self.take_offline(error.to_string())),
        }
    }

    /// Brings everything that is kept in memory to the new end. Tells whether index entries are due to be written.
    fn note_written(&self, writer: &mut Writer, options: &LogOptions, run: &Run<'_>, now_ms: i64) -> bool {
        let base = writer.active.base_offset;
        let mut tail = self.tail.lock();
        let mut position = writer.position;
        for batch in &run.batches {
            let header = &batch.header;
            if position == 0 {
                writer.first_timestamp = Some(header.max_timestamp);
                writer.created_ms = now_ms;
            }
            let largest = TimestampOffset { timestamp: header.max_timestamp, offset: header.last_offset() };
            writer.active.note_append(position + batch.bytes.len() as u32, largest, now_ms);
            if writer.bytes_since_index > u64::from(options.index_interval_bytes)
                && let Some(relative_offset) = relative(header.last_offset(), base)
            {
                tail.offsets.push(OffsetEntry { relative_offset, position });
                if let Some(entry) = self.newest_time_entry(&writer.active) {
                    tail.times.push(entry);
                }
                writer.bytes_since_index = 0;
            }
            writer.bytes_since_index += batch.bytes.len() as u64;
            tail.push_mark(header.base_offset, position);
            position += batch.bytes.len() as u32;
            if writer.epochs.assign(header.leader_epoch, header.base_offset) {
                writer.epochs_changed = true;
            }
            self.apply_to_producers(writer, header, batch.marker.as_ref());
            writer.end_offset = header.last_offset() + 1;
        }
        writer.position = position;
        tail.position = position;
        tail.end_offset = writer.end_offset;
        tail.note_appended(&self.env, run.bytes);
        self.end_offset.store(writer.end_offset, Ordering::Release);
        tail.offsets.is_due() || tail.times.is_due()
    }

    /// The entry that the time index would get now.
    fn newest_time_entry(&self, active: &Arc<Segment>) -> Option<TimeEntry> {
        let largest = active.known_largest()??;
        let relative_offset = relative(largest.offset, active.base_offset)?;
        Some(TimeEntry { timestamp: largest.timestamp, relative_offset })
    }
}

/// The marker that a control batch holds; `None` for data.
fn read_marker(batch: &Batch) -> Result<Option<EndTransactionMarker>, AppendError> {
    if !batch.header().is_control() {
        return Ok(None);
    }
    super::producers::marker_of(batch.as_ref()).map_err(AppendError::InvalidBatch)
}
