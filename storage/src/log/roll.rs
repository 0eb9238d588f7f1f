//! Closing the active segment and beginning the next.

use std::io;
use std::sync::Arc;

use taffrail_core::ids::Offset;
use taffrail_core::record::BatchHeader;

use super::flush::Rolled;
use super::{Log, Writer, producers};
use crate::disk::OpenMode;
use crate::error::{AppendError, is_full, is_refused_here};
use crate::index::{self, Entry, Growing, OffsetEntry, TimeEntry};
use crate::names::FileKind;
use crate::options::LogOptions;
use crate::scan::{Scan, ScanError, WINDOW_SMALL_BYTES};
use crate::segment::Segment;

impl Log {
    /// Whether the active segment has to be closed before a batch of `bytes`, when `waiting` bytes are to be written
    /// before it. The rules are Kafka's `LogSegment.shouldRoll`, with one addition: a first record that is dated in the
    /// future does not keep a segment open for ever, since the clock of this machine counts too.
    pub(super) fn must_roll(
        &self,
        writer: &mut Writer,
        options: &LogOptions,
        waiting: u64,
        header: &BatchHeader,
        bytes: usize,
        now_ms: i64,
    ) -> Result<bool, AppendError> {
        let filled = u64::from(writer.position) + waiting;
        if filled == 0 {
            // An empty segment takes what has an offset that it can express.
            return Ok(index::relative(header.last_offset(), writer.active.base_offset).is_none());
        }
        let is_index_full = {
            let tail = self.tail.lock();
            let max_bytes = options.segment_index_bytes as usize;
            (tail.offsets.count() as usize + 1) * OffsetEntry::BYTES > max_bytes
                || (tail.times.count() as usize + 2) * TimeEntry::BYTES > max_bytes
        };
        if is_index_full
            || filled + bytes as u64 > u64::from(options.segment_bytes)
            || index::relative(header.last_offset(), writer.active.base_offset).is_none()
        {
            return Ok(true);
        }
        let roll_ms = options.segment_ms.saturating_sub(writer.jitter_ms);
        if now_ms.saturating_sub(writer.created_ms) > roll_ms {
            return Ok(true);
        }
        let first = self.first_timestamp(writer).map_err(|error| self.append_refused(error))?;
        let is_spanned = |first: i64| first >= 0 && header.max_timestamp.saturating_sub(first) > roll_ms;
        Ok(first.is_some_and(is_spanned))
    }

    /// Timestamp of the first batch of the active segment.
    fn first_timestamp(&self, writer: &mut Writer) -> Result<Option<i64>, ScanError> {
        if writer.first_timestamp.is_none() && writer.position > 0 {
            let file = writer.active.open(&self.env, FileKind::Log)?;
            let mut scan = Scan::new(&*file, 0, u64::from(writer.position), WINDOW_SMALL_BYTES);
            writer.first_timestamp = scan.next()?.map(|batch| batch.header.max_timestamp);
        }
        Ok(writer.first_timestamp)
    }

    /// Closes the active segment, and begins one at `base_offset`, which is the end of the log (or further on, when the
    /// leader's log has a gap there).
    pub(super) fn roll(&self, writer: &mut Writer, base_offset: Offset, now_ms: i64) -> Result<(), AppendError> {
        assert!(base_offset >= writer.end_offset, "a segment cannot begin before the log's end");
        let refused = |error: io::Error| {
            if is_full(&error) {
                AppendError::DiskFull
            } else if is_refused_here(&error) {
                AppendError::Io(error)
            } else {
                AppendError::Fenced(self.env.fence(&format!("closing a segment of {}", self.partition), &error))
            }
        };
        self.finish_active(writer).map_err(refused)?;
        let segment = Segment::create(&self.env, Arc::clone(&self.dir), base_offset, now_ms).map_err(refused)?;
        let mut segments = self.segments.write();
        let mut tail = self.tail.lock();
        // Segments that a gap leaves empty would have the end of the log, not the start of their batches, as their name.
        if writer.position == 0 && segments.len() > 1 && base_offset > writer.active.base_offset {
            segments.pop();
        }
        segment.set_origin(tail.appended() as i64);
        segments.push(Arc::clone(&segment));
        tail.roll(base_offset);
        drop(tail);
        drop(segments);
        writer.active = segment;
        writer.position = 0;
        writer.bytes_since_index = 0;
        writer.first_timestamp = None;
        writer.created_ms = now_ms;
        writer.jitter_ms = super::open::draw_jitter(&self.options());
        self.flush.note_roll(Rolled { offset: writer.end_offset, producers: producers::to_entries(&writer.producers) });
        self.request_flush();
        Ok(())
    }

    /// Writes what is still in memory of the active segment's indexes, with the last entry of the time index, by which
    /// retention later finds the segment's largest timestamp.
    pub(super) fn finish_active(&self, writer: &mut Writer) -> io::Result<()> {
        if writer.position > 0
            && let Ok(Some(largest)) = writer.active.largest(&self.env)
            && let Some(relative_offset) = index::relative(largest.offset, writer.active.base_offset)
        {
            self.tail.lock().times.push(TimeEntry { timestamp: largest.timestamp, relative_offset });
        }
        self.write_indexes(writer)
    }

    /// Writes the index entries that wait in memory.
    pub(super) fn write_indexes(&self, writer: &mut Writer) -> io::Result<()> {
        self.write_pending(&writer.active, FileKind::Index, |tail| &mut tail.offsets)?;
        self.write_pending(&writer.active, FileKind::TimeIndex, |tail| &mut tail.times)?;
        self.write_aborted(writer)
    }

    fn write_pending<E: Entry>(
        &self,
        active: &Arc<Segment>,
        kind: FileKind,
        growing: impl Fn(&mut super::tail::Tail) -> &mut Growing<E>,
    ) -> io::Result<()> {
        let Some((position, bytes, entries)) = growing(&mut self.tail.lock()).unwritten() else { return Ok(()) };
        let file = active.open(&self.env, kind)?;
        index::write(&*file, position, &bytes)?;
        growing(&mut self.tail.lock()).mark_written(entries);
        Ok(())
    }

    fn write_aborted(&self, writer: &mut Writer) -> io::Result<()> {
        if writer.aborted.is_empty() {
            return Ok(());
        }
        let mut bytes = Vec::new();
        writer.aborted.iter().for_each(|entry| entry.encode(&mut bytes));
        let path = writer.active.path(FileKind::TxnIndex);
        let file = match self.env.disk.open(&path, OpenMode::Write) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.flush.note_new_file();
                self.env.disk.open(&path, OpenMode::CreateNew)?
            }
            other => other?,
        };
        let len = file.len()?;
        if let Err(error) = index::write(&*file, len, &bytes) {
            // Nothing covers a part of an entry here, so it goes.
            file.set_len(len)?;
            return Err(error);
        }
        writer.aborted = Vec::new();
        Ok(())
    }
}
