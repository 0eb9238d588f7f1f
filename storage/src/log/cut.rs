//! Taking records away: at the start by retention and `DeleteRecords`, at the end when a follower parted from its leader.
//! All of this waits for the disk, so it is called on a pool.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use taffrail_core::ids::Offset;
use taffrail_core::planted::{PlantedBug, is_planted};

use super::flush::Cutting;
use super::recover::{self, Damage};
use super::tail::Tail;
use super::{Log, Writer, producers};
use crate::disk;
use crate::error::{AppendError, LogError, is_full};
use crate::index::{self, Entry, Growing, OffsetEntry, TimeEntry};
use crate::names::{DELETED, FileKind, SEGMENT_FILES, segment_path};
use crate::scan::ScanError;
use crate::segment::Segment;
use crate::snapshot;

/// What a round of retention did.
#[derive(Debug, Default)]
pub(crate) struct Retained {
    /// Files that are no longer part of the log and can be removed after a while.
    pub(crate) removed: Vec<PathBuf>,
    /// When the oldest segment that is left will be too old, in milliseconds since 1970; `None` = not by time.
    pub(crate) due_ms: Option<i64>,
}

impl Log {
    /// Deletes the records before `before` (-1 = all before the high watermark), as `DeleteRecords` does. The new floor is
    /// durable when this returns. Gives the log's start.
    ///
    /// # Errors
    /// [`LogError::OutOfRange`] when `before` is after the high watermark.
    pub fn delete_records(&self, before: Offset) -> Result<Offset, LogError> {
        self.check_changeable()?;
        let high_watermark = self.high_watermark();
        let before = if before == -1 { high_watermark } else { before };
        if (before > high_watermark && !is_planted(PlantedBug::DeletedPastHighWatermark)) || before < 0 {
            return Err(LogError::OutOfRange {
                offset: before,
                log_start_offset: self.log_start_offset(),
                end_offset: high_watermark,
            });
        }
        self.raise_log_start(before)?;
        Ok(self.log_start_offset())
    }

    /// Raises the log's start, as a follower does when its leader has; durable when this returns.
    ///
    /// # Errors
    /// When the partition does not serve or the disk refuses.
    pub fn raise_log_start(&self, offset: Offset) -> Result<(), LogError> {
        self.check_changeable()?;
        // Compared with the floor and not with the log's start: where retention has moved that, a crash can undo it.
        if offset <= self.env.log_starts.get(&self.partition).unwrap_or(0) && offset <= self.log_start_offset() {
            // The one who set this floor may still be writing it.
            let written = self.env.log_starts.write(&*self.env.disk, &self.env.reserve);
            return written.map_err(|error| self.cut_failed(&error));
        }
        if offset > self.end_offset() {
            return Err(LogError::OutOfRange {
                offset,
                log_start_offset: self.log_start_offset(),
                end_offset: self.end_offset(),
            });
        }
        self.make_folder_durable()?;
        // The floor is written down before anyone sees it, so that records that were gone never come back.
        self.env.log_starts.change(|offsets| {
            let entry = offsets.entry(self.partition.clone()).or_insert(0);
            let is_higher = offset > *entry;
            *entry = offset.max(*entry);
            is_higher
        });
        if !is_planted(PlantedBug::FloorNotDurable) {
            self.env.log_starts.write(&*self.env.disk, &self.env.reserve).map_err(|error| self.cut_failed(&error))?;
        }
        self.log_start_offset.fetch_max(offset, Ordering::AcqRel);
        self.high_watermark.fetch_max(offset, Ordering::AcqRel);
        let mut writer = self.writer.lock();
        writer.epochs_changed |= writer.epochs.truncate_from_start(offset);
        drop(writer);
        self.note_changed();
        self.tell_observer(|observer| observer.start_moved());
        Ok(())
    }

    fn check_changeable(&self) -> Result<(), LogError> {
        if let Some(reason) = self.env.fenced() {
            return Err(LogError::Fenced(Arc::clone(reason)));
        }
        if let Some(reason) = self.offline() {
            return Err(LogError::Offline(Arc::clone(reason)));
        }
        if self.is_deleted() { Err(LogError::Deleted) } else { Ok(()) }
    }

    fn cut_failed(&self, error: &io::Error) -> LogError {
        if is_full(error) { LogError::DiskFull } else { LogError::Io(error.to_string().into()) }
    }

    /// Takes away segments that are too old, too many, or before the log's start.
    ///
    /// # Errors
    /// When the partition does not serve or the disk refuses.
    pub(crate) fn apply_retention(&self, now_ms: i64) -> Result<Retained, LogError> {
        self.check_changeable()?;
        let options = self.options();
        let high_watermark = self.high_watermark();
        let segments = self.segments.read().clone();
        let mut excess = match u64::try_from(options.retention_bytes) {
            Ok(bytes) if options.delete => self.size_bytes().saturating_sub(bytes),
            _ => 0,
        };
        let mut count = 0;
        let mut due_ms = None;
        for (at, segment) in segments.iter().enumerate() {
            let next_base = segments.get(at + 1).map_or(self.end_offset(), |next| next.base_offset);
            let size = u64::from(segment.size());
            // Compaction can leave closed segments without a batch; the active one without any has nothing to take.
            if next_base > high_watermark || (size == 0 && at + 1 == segments.len()) {
                break;
            }
            let is_before_start = next_base <= self.log_start_offset() && at + 1 < segments.len();
            let is_in_excess = excess > 0 && excess >= size;
            let newest_ms = self.newest_ms(segment, now_ms)?;
            let expires_ms = newest_ms.saturating_add(options.retention_ms);
            let is_too_old = options.delete && options.retention_ms >= 0 && expires_ms < now_ms;
            if !(is_before_start || is_in_excess || is_too_old) {
                due_ms = (options.delete && options.retention_ms >= 0).then_some(expires_ms.saturating_add(1));
                break;
            }
            excess = excess.saturating_sub(size);
            count += 1;
        }
        let removed = if count == 0 { Vec::new() } else { self.remove_oldest(&segments, count, now_ms)? };
        Ok(Retained { removed, due_ms })
    }

    /// When the newest record of a segment was written. A record that is dated later than its file was changed lies about
    /// its time, and does not keep the segment.
    fn newest_ms(&self, segment: &Arc<Segment>, now_ms: i64) -> Result<i64, LogError> {
        let largest = segment.largest_in_passing(&self.env).map_err(|error| match error {
            ScanError::Io(error) => LogError::Io(error.to_string().into()),
            ScanError::Invalid { .. } => LogError::Offline(self.take_offline(error.to_string())),
        })?;
        let modified_ms = segment.modified_ms();
        Ok(match largest {
            Some(largest) if largest.timestamp <= now_ms => largest.timestamp,
            Some(_) | None => modified_ms,
        })
    }

    /// Takes the oldest `count` of `segments` out of the log.
    fn remove_oldest(&self, segments: &[Arc<Segment>], count: usize, now_ms: i64) -> Result<Vec<PathBuf>, LogError> {
        let mut writer = self.writer.lock();
        if count == segments.len() {
            // All records go, those of the active segment too: an empty one begins at the end of the log.
            if writer.end_offset > self.high_watermark() || writer.position == 0 {
                return Ok(Vec::new());
            }
            let end_offset = writer.end_offset;
            self.roll(&mut writer, end_offset, now_ms).map_err(|error| match error {
                AppendError::DiskFull => LogError::DiskFull,
                other => LogError::Io(other.to_string().into()),
            })?;
        }
        let gone: Vec<_> = {
            let mut all = self.segments.write();
            let count = all.len().saturating_sub(1).min(count);
            all.drain(..count).collect()
        };
        let first_base = self.segments.read().first().map_or(0, |segment| segment.base_offset);
        self.log_start_offset.fetch_max(first_base, Ordering::AcqRel);
        self.high_watermark.fetch_max(first_base, Ordering::AcqRel);
        writer.epochs_changed |= writer.epochs.truncate_from_start(self.log_start_offset());
        drop(writer);
        self.tell_observer(|observer| observer.start_moved());
        tracing::info!(
            partition = %self.partition, segments = gone.len(), log_start_offset = self.log_start_offset(),
            "old segments are removed"
        );
        self.retire(&gone, first_base).map_err(|error| self.cut_failed(&error))
    }

    /// Renames the files of segments that are no longer part of the log, oldest first, and of the snapshots before
    /// `first_base`; gives the new names.
    pub(crate) fn retire(&self, gone: &[Arc<Segment>], first_base: Offset) -> io::Result<Vec<PathBuf>> {
        let mut removed = Vec::new();
        for segment in gone {
            segment.rename_all(&self.env, DELETED)?;
            removed.extend(SEGMENT_FILES.map(|kind| segment_path(&self.dir, segment.base_offset, kind, DELETED)));
            let snapshot = segment_path(&self.dir, segment.base_offset, FileKind::Snapshot, "");
            if segment.base_offset < first_base {
                disk::remove_if_exists(&*self.env.disk, &snapshot)?;
            }
        }
        Ok(removed)
    }

    /// Cuts the log's end back to `offset`, as a follower does that has records its leader does not have. A batch that
    /// contains the offset goes as a whole. Gives the new end.
    ///
    /// # Errors
    /// When the partition does not serve or the disk refuses.
    pub fn truncate_to(&self, offset: Offset, now_ms: i64) -> Result<Offset, LogError> {
        self.check_changeable()?;
        if offset >= self.end_offset() {
            return Ok(self.end_offset());
        }
        if offset <= self.log_start_offset() {
            self.start_over_at(offset, now_ms)?;
            return Ok(offset);
        }
        // The cut may come before the offset, when a batch contains it, but not before the segment.
        let segment_base = self.segment_at(offset).map_or(0, |(segment, _)| segment.base_offset);
        let cutting = self.lower_recovery_point(segment_base)?;
        let mut writer = self.writer.lock();
        let cut = self.cut_end(&mut writer, offset, now_ms);
        drop((writer, cutting));
        let end_offset = cut.map_err(|damage| LogError::Offline(self.take_offline(damage.to_string())))?;
        if end_offset < self.log_start_offset() {
            // The log began within the batch that had to go.
            let log_start_offset = self.log_start_offset();
            self.start_over_at(log_start_offset, now_ms)?;
            return Ok(log_start_offset);
        }
        Ok(end_offset)
    }

    /// Throws all records away and begins anew at `offset`, as a follower does whose leader has none of its records left.
    ///
    /// # Errors
    /// When the partition does not serve or the disk refuses.
    pub fn start_over_at(&self, offset: Offset, now_ms: i64) -> Result<(), LogError> {
        self.check_changeable()?;
        let _cutting = self.lower_recovery_point(offset)?;
        self.env.log_starts.set(&self.partition, offset);
        self.env.log_starts.write(&*self.env.disk, &self.env.reserve).map_err(|error| self.cut_failed(&error))?;
        let mut writer = self.writer.lock();
        let begun = self.begin_anew(&mut writer, offset, now_ms);
        begun.map_err(|error| LogError::Offline(self.take_offline(format!("{}: {error}", self.dir.display()))))
    }

    fn begin_anew(&self, writer: &mut Writer, offset: Offset, now_ms: i64) -> io::Result<()> {
        let gone = self.segments.read().clone();
        // Newest first, so that a crash leaves no gap.
        for segment in gone.iter().rev() {
            segment.rename_all(&self.env, DELETED)?;
        }
        let active = Segment::create(&self.env, Arc::clone(&self.dir), offset, now_ms)?;
        snapshot::retain(&*self.env.disk, &self.dir, |_| false)?;
        self.env.disk.sync_dir(&self.dir)?;
        writer.epochs.clear();
        writer.epochs_changed = true;
        writer.producers.clear();
        writer.aborted = Vec::new();
        self.reset_end(writer, &[], &active, 0, offset, (Growing::default(), Growing::default()));
        self.log_start_offset.store(offset, Ordering::Release);
        self.high_watermark.store(offset, Ordering::Release);
        self.flush.note_cut(offset);
        self.note_changed();
        Ok(())
    }

    /// Or the log would end, after a crash, before its recovery point, which would be damage.
    pub(super) fn lower_recovery_point(&self, offset: Offset) -> Result<Cutting<'_>, LogError> {
        let cutting = self.note_cutting(offset);
        let written = self.env.recovery_points.write(&*self.env.disk, &self.env.reserve);
        written.map(|()| cutting).map_err(|error| self.cut_failed(&error))
    }

    fn cut_end(&self, writer: &mut Writer, offset: Offset, now_ms: i64) -> Result<Offset, Damage> {
        let fail = |error: io::Error| Damage::Files(format!("{}: cutting the end failed: {error}", self.dir.display()));
        match self.write_indexes(writer) {
            // Entries that find no room are left out; lookups walk a little further then.
            Err(error) if !is_full(&error) => return Err(fail(error)),
            _ => {}
        }
        let segments = self.segments.read().clone();
        let kept = segments.partition_point(|segment| segment.base_offset <= offset).max(1);
        // Newest first, so that a crash leaves no gap.
        for segment in segments[kept..].iter().rev() {
            segment.rename_all(&self.env, DELETED).map_err(fail)?;
        }
        let active = Arc::clone(&segments[kept - 1]);
        let size = active.size();
        let batch = active.locate(&self.env, offset, size, None).map_err(|error| Damage::Files(error.to_string()))?;
        let (position, end_offset) = match &batch {
            Some(batch) => (batch.position as u32, batch.header.base_offset.min(offset)),
            None => (size, offset),
        };
        let file = active.open(&self.env, FileKind::Log).map_err(fail)?;
        file.set_len(u64::from(position)).map_err(fail)?;
        if !is_planted(PlantedBug::CutNotDurable) {
            self.env.sync(&*file, &active.path(FileKind::Log)).map_err(fail)?;
        }
        active.note_cut(position);
        let target = index::relative(end_offset, active.base_offset).unwrap_or(0);
        let offsets = self
            .cut_index::<OffsetEntry>(&active, FileKind::Index, |entry| entry.relative_offset < target)
            .map_err(fail)?;
        let times = self
            .cut_index::<TimeEntry>(&active, FileKind::TimeIndex, |entry| entry.relative_offset < target)
            .map_err(fail)?;
        let known = self.log_start_offset()..=end_offset;
        let snapshots = snapshot::retain(&*self.env.disk, &self.dir, |offset| known.contains(&offset)).map_err(fail)?;
        self.env.disk.sync_dir(&self.dir).map_err(fail)?;
        self.reset_end(writer, &segments[..kept], &active, position, end_offset, (offsets, times));
        self.cut_producers(writer, &segments[..kept], &snapshots, now_ms)?;
        self.flush.note_cut(end_offset);
        self.note_changed();
        Ok(end_offset)
    }

    fn reset_end(
        &self,
        writer: &mut Writer,
        kept: &[Arc<Segment>],
        active: &Arc<Segment>,
        position: u32,
        end_offset: Offset,
        indexes: (Growing<OffsetEntry>, Growing<TimeEntry>),
    ) {
        let mut segments = self.segments.write();
        let mut tail = self.tail.lock();
        *segments = if kept.is_empty() { vec![Arc::clone(active)] } else { kept.to_vec() };
        *tail = Tail::new(active.base_offset, end_offset, position, indexes.0, indexes.1);
        active.set_origin(-i64::from(position));
        self.end_offset.store(end_offset, Ordering::Release);
        self.high_watermark.fetch_min(end_offset, Ordering::AcqRel);
        drop(tail);
        drop(segments);
        writer.active = Arc::clone(active);
        writer.position = position;
        writer.end_offset = end_offset;
        writer.bytes_since_index = 0;
        writer.first_timestamp = None;
        writer.epochs_changed |= writer.epochs.truncate_from_end(end_offset);
    }

    fn cut_index<E: Entry>(
        &self,
        segment: &Arc<Segment>,
        kind: FileKind,
        is_kept: impl Fn(&E) -> bool,
    ) -> io::Result<Growing<E>> {
        let file = segment.open(&self.env, kind)?;
        let count = index::count::<E>(&*file)?;
        let last = index::floor::<E>(&*file, count, is_kept)?;
        let kept = last.map_or(0, |(number, _)| number + 1);
        file.set_len(u64::from(kept) * E::BYTES as u64)?;
        Ok(Growing::new(kept, last.map(|(_, entry)| entry)))
    }

    /// Rebuilds the producers' states as they were at the end of `segments`, from the newest of `snapshots` that can be read.
    fn cut_producers(
        &self,
        writer: &mut Writer,
        segments: &[Arc<Segment>],
        snapshots: &[Offset],
        now_ms: i64,
    ) -> Result<(), Damage> {
        writer.producers.clear();
        let mut from = self.log_start_offset();
        for &offset in snapshots.iter().rev() {
            let path = segment_path(&self.dir, offset, FileKind::Snapshot, "");
            if let Ok(entries) = snapshot::read(&*self.env.disk, &path) {
                writer.producers = producers::from_entries(&entries, now_ms, self.env.producer_expiration_ms);
                from = from.max(offset);
                break;
            }
        }
        recover::replay_producers(&self.env, segments, from, &mut writer.producers)?;
        writer.producers.expire(now_ms, self.env.producer_expiration_ms);
        writer.aborted = Vec::new();
        Ok(())
    }

    /// Marks the partition as deleted: all operations are refused from now on.
    pub(crate) fn mark_deleted(&self) {
        self.deleted.store(true, Ordering::Release);
        for segment in self.segments.read().iter() {
            segment.close();
        }
    }
}
