//! Making a log durable, off the threads that append.
//!
//! Whoever needs an offset on disk waits for it; one job of the flusher then makes everything durable that is in the log
//! when it begins, and wakes all whose offset that covers. Appends that come while the disk works are covered by the next
//! job, so the slower the disk, the more appends share one sync (group commit).

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use parking_lot::Mutex;
use taffrail_core::ids::Offset;
use taffrail_core::planted::{PlantedBug, is_planted};
use tokio::sync::oneshot;

use super::Log;
use crate::checkpoint;
use crate::clean_stop::{Mark, MarkedSegment, PRODUCERS_MAX};
use crate::disk::{self, OpenMode};
use crate::error::{LogError, is_full, is_refused_here};
use crate::names::{FileKind, LEADER_EPOCHS, PARTITION_METADATA, segment_path};
use crate::segment::Segment;
use crate::snapshot::{self, ProducerEntry};

/// What a closed segment leaves to be written: the producers' states at its end.
pub(super) struct Rolled {
    pub(super) offset: Offset,
    pub(super) producers: Vec<ProducerEntry>,
}

/// How far a log is durable, and who waits for more.
pub(super) struct FlushState {
    flushed: AtomicI64,
    /// Up to where not only the batches are durable, but all that is needed to start from there.
    recovery_point: AtomicI64,
    /// Bytes that had been appended to the log, since it was opened, when the recovery point moved last.
    recovered_bytes: AtomicU64,
    work: Mutex<Work>,
}

#[derive(Default)]
struct Work {
    /// Whether a job of the flusher is going to look at this log.
    is_queued: bool,
    wants_recovery_point: bool,
    has_new_files: bool,
    /// Whether the folder itself, and the file with its topic's id, are not durable yet.
    is_new_folder: bool,
    /// Base of the first segment of which a refused write was cut off: until it is synced, a crash may bring it back.
    failed_write_at: Option<Offset>,
    /// Whether that happened again since a sync began.
    has_failed_again: bool,
    rolled: Vec<Rolled>,
    waiters: Vec<(Offset, oneshot::Sender<Result<(), LogError>>)>,
    /// How often the log's end was cut; a sync that overlaps with a cut proves nothing about what came after it.
    cuts: u64,
    /// Whether the log's end is about to be cut: the recovery point has been lowered for it, and may not rise before.
    is_cutting: bool,
}

/// For as long as it is there, the recovery point of a log does not rise.
pub(super) struct Cutting<'a>(&'a FlushState);

impl Drop for Cutting<'_> {
    fn drop(&mut self) {
        self.0.work.lock().is_cutting = false;
    }
}

impl FlushState {
    pub(super) fn new(flushed: Offset, has_new_files: bool) -> Self {
        Self {
            flushed: AtomicI64::new(flushed),
            recovery_point: AtomicI64::new(flushed),
            recovered_bytes: AtomicU64::new(0),
            work: Mutex::new(Work { has_new_files, ..Work::default() }),
        }
    }

    pub(super) fn flushed(&self) -> Offset {
        self.flushed.load(Ordering::Acquire)
    }

    pub(super) fn recovery_point(&self) -> Offset {
        self.recovery_point.load(Ordering::Acquire)
    }

    pub(super) fn note_roll(&self, rolled: Rolled) {
        let mut work = self.work.lock();
        work.rolled.push(rolled);
        work.has_new_files = true;
    }

    pub(super) fn note_new_file(&self) {
        self.work.lock().has_new_files = true;
    }

    /// A refused write was cut off the end of the segment at `base_offset`.
    pub(super) fn note_failed_write(&self, base_offset: Offset) {
        let mut work = self.work.lock();
        work.has_failed_again = work.failed_write_at.is_some();
        work.failed_write_at = Some(work.failed_write_at.map_or(base_offset, |first| first.min(base_offset)));
    }

    /// The end of the log was cut to `offset`.
    pub(super) fn note_cut(&self, offset: Offset) {
        let mut work = self.work.lock();
        work.cuts += 1;
        work.rolled.retain(|rolled| rolled.offset <= offset);
        self.flushed.fetch_min(offset, Ordering::AcqRel);
        self.recovery_point.fetch_min(offset, Ordering::AcqRel);
    }
}

impl Log {
    /// Waits until everything before `offset` is on disk. Many callers share one sync.
    ///
    /// # Errors
    /// When the disk failed; the data directory then takes no writes any more.
    pub async fn flush_to(&self, offset: Offset) -> Result<(), LogError> {
        if self.flush.flushed() >= offset {
            return Ok(());
        }
        let (sender, receiver) = oneshot::channel();
        {
            let mut work = self.flush.work.lock();
            // Looked at again under the lock, under which jobs announce what they did.
            if self.flush.flushed() >= offset {
                return Ok(());
            }
            work.waiters.push((offset, sender));
        }
        self.request_flush();
        self.env.flusher.work_here();
        receiver.await.map_err(|_| LogError::Closing)?
    }

    /// Makes the whole log durable, with all that is needed to start from its end; tells up to where.
    ///
    /// # Errors
    /// When the disk failed.
    pub async fn checkpoint(&self) -> Result<Offset, LogError> {
        let (sender, receiver) = oneshot::channel();
        {
            let mut work = self.flush.work.lock();
            work.wants_recovery_point = true;
            work.waiters.push((self.end_offset(), sender));
        }
        self.request_flush();
        self.env.flusher.work_here();
        receiver.await.map_err(|_| LogError::Closing)??;
        Ok(self.flush.recovery_point())
    }

    /// The end of the log is about to be cut, at `offset` or behind it: notes that among the recovery points that are written
    /// down, and lets none rise beyond it until what is returned goes, whether the cut was made or not.
    pub(super) fn note_cutting(&self, offset: Offset) -> Cutting<'_> {
        let mut work = self.flush.work.lock();
        work.is_cutting = true;
        self.flush.recovery_point.fetch_min(offset, Ordering::AcqRel);
        self.env.recovery_points.change(|offsets| match offsets.get_mut(&self.partition) {
            Some(point) if *point > offset => {
                *point = offset;
                true
            }
            _ => false,
        });
        Cutting(&self.flush)
    }

    /// Puts the recovery point among those that are written down next. A cut lowers both under the same lock: what was read
    /// before it must not be noted after it, or the log would end, after a crash, before its recovery point.
    pub(crate) fn note_recovery_point(&self) {
        let _cutting = self.flush.work.lock();
        if !self.is_deleted() {
            self.env.recovery_points.set(&self.partition, self.recovery_point());
        }
    }

    /// Up to where the log need not be looked at after a crash.
    pub fn recovery_point(&self) -> Offset {
        if is_planted(PlantedBug::CheckpointBeyondDurable) {
            return self.end_offset();
        }
        self.flush.recovery_point()
    }

    /// Bytes that were appended since the recovery point moved last.
    pub(crate) fn unrecovered_bytes(&self) -> u64 {
        self.tail.lock().appended().saturating_sub(self.flush.recovered_bytes.load(Ordering::Acquire))
    }

    /// Whether `flush.messages` asks for a flush of what is in the log by now.
    pub fn owes_flush(&self) -> bool {
        self.end_offset() - self.flush.flushed() >= self.options().flush_messages
    }

    /// Asks the flusher to look at this log, if it is not going to anyway.
    pub(crate) fn request_flush(&self) {
        let mut work = self.flush.work.lock();
        if work.is_queued {
            return;
        }
        work.is_queued = true;
        drop(work);
        self.env.flusher.submit(self.me.clone());
    }

    /// The folder was just made; it becomes durable with the first flush.
    pub(crate) fn note_new_folder(&self) {
        self.flush.work.lock().is_new_folder = true;
    }

    /// Makes the folder and the id of its topic durable, if they are not yet.
    pub(super) fn make_folder_durable(&self) -> Result<(), LogError> {
        if !self.flush.work.lock().is_new_folder {
            return Ok(());
        }
        let path = self.dir.join(PARTITION_METADATA);
        let synced = self.env.disk.open(&path, OpenMode::Write).and_then(|file| file.sync());
        synced
            .and_then(|()| self.env.disk.sync_dir(&self.dir))
            .and_then(|()| self.env.disk.sync_dir(&self.env.dir))
            .map_err(|error| self.sync_failed(&path, &error))?;
        self.flush.work.lock().is_new_folder = false;
        Ok(())
    }

    /// One round of making the log durable; called by the flusher. Tells whether another one is needed.
    pub(crate) fn run_flush(&self) -> bool {
        let (rolled, has_new_files, wants_recovery_point, cuts) = {
            let mut work = self.flush.work.lock();
            (
                std::mem::take(&mut work.rolled),
                std::mem::take(&mut work.has_new_files),
                std::mem::take(&mut work.wants_recovery_point),
                work.cuts,
            )
        };
        let result = self.make_durable(&rolled, has_new_files, wants_recovery_point);
        let mut work = self.flush.work.lock();
        let result = match result {
            Ok(done) => {
                if work.cuts == cuts {
                    self.flush.flushed.fetch_max(done.flushed, Ordering::AcqRel);
                    let reached = done.recovery_point;
                    if !work.is_cutting && self.flush.recovery_point.fetch_max(reached, Ordering::AcqRel) < reached {
                        self.flush.recovered_bytes.store(done.appended_bytes, Ordering::Release);
                    }
                }
                Ok(())
            }
            Err(error) => {
                // What was to be written besides is tried again with the next flush.
                work.rolled.extend(rolled);
                work.has_new_files |= has_new_files;
                Err(error)
            }
        };
        let flushed = self.flush.flushed();
        let end_offset = self.end_offset();
        let (done, waiting): (Vec<_>, Vec<_>) = std::mem::take(&mut work.waiters)
            .into_iter()
            // An offset that was cut off the log's end meanwhile will never come.
            .partition(|(offset, _)| result.is_err() || *offset <= flushed || *offset > end_offset);
        work.waiters = waiting;
        let again =
            result.is_ok() && (!work.waiters.is_empty() || !work.rolled.is_empty() || work.wants_recovery_point);
        work.is_queued = again;
        drop(work);
        for (_, waiter) in done {
            // Who gave up waiting misses nothing.
            let _ = waiter.send(result.clone());
        }
        again
    }

    fn make_durable(&self, rolled: &[Rolled], has_new_files: bool, to_start_from: bool) -> Result<Durable, LogError> {
        if let Some(reason) = self.env.fenced() {
            return Err(LogError::Fenced(Arc::clone(reason)));
        }
        if self.is_deleted() {
            return Err(LogError::Deleted);
        }
        self.make_folder_durable()?;
        let failed_write_at = self.flush.work.lock().failed_write_at;
        let from = self.flush.flushed();
        let appended_bytes = self.tail.lock().appended();
        let (end_offset, epochs) = {
            let mut writer = self.writer.lock();
            if to_start_from {
                self.finish_active(&mut writer).map_err(|error| self.flush_failed("its indexes", error))?;
            }
            let epochs = (writer.epochs_changed && (to_start_from || !rolled.is_empty()))
                .then(|| writer.epochs.entries().iter().map(|e| (e.epoch, e.start_offset)).collect::<Vec<_>>());
            (writer.end_offset, epochs)
        };
        let recovery_point = self.flush.recovery_point();
        let segments = self.segments.read().clone();
        let last = segments.len().saturating_sub(1);
        for (at, segment) in segments.iter().enumerate() {
            let next_base = segments.get(at + 1).map_or(i64::MAX, |next| next.base_offset);
            let is_closed = at < last;
            if next_base > from || failed_write_at.is_some_and(|base| segment.base_offset >= base) {
                self.sync_file(segment, FileKind::Log)?;
            }
            // Indexes can be built anew from the batches past the recovery point, so they need not be durable earlier.
            let is_starting_point = to_start_from || (is_closed && !rolled.is_empty());
            if is_starting_point && next_base > recovery_point {
                self.sync_file(segment, FileKind::Index)?;
                self.sync_file(segment, FileKind::TimeIndex)?;
            }
        }
        if failed_write_at.is_some() {
            let mut work = self.flush.work.lock();
            // Another write may have failed meanwhile, in the active segment.
            work.failed_write_at = segments.last().map(|active| active.base_offset).filter(|_| work.has_failed_again);
            work.has_failed_again = false;
        }
        self.write_beside(rolled, epochs.as_deref())?;
        if has_new_files || !rolled.is_empty() {
            self.env.disk.sync_dir(&self.dir).map_err(|error| self.sync_failed(&self.dir, &error))?;
        }
        if epochs.is_some() {
            self.note_epochs_written(epochs.as_deref());
        }
        let reached = match rolled.last() {
            _ if to_start_from => end_offset,
            Some(rolled) => rolled.offset,
            None => recovery_point,
        };
        Ok(Durable { flushed: end_offset, recovery_point: reached, appended_bytes })
    }

    fn sync_file(&self, segment: &Arc<Segment>, kind: FileKind) -> Result<(), LogError> {
        let file = match segment.open(&self.env, kind) {
            // Retention or compaction has taken the segment away meanwhile.
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(LogError::Io(format!("{}: {error}", segment.path(kind).display()).into())),
            Ok(file) => file,
        };
        if is_planted(PlantedBug::SkippedSync) {
            return Ok(());
        }
        match file.sync() {
            Err(_) if is_planted(PlantedBug::FailedSyncIgnored) => Ok(()),
            synced => synced.map_err(|error| self.sync_failed(&segment.path(kind), &error)),
        }
    }

    fn sync_failed(&self, path: &Path, error: &io::Error) -> LogError {
        LogError::Fenced(self.env.fence(&format!("syncing {}", path.display()), error))
    }

    fn flush_failed(&self, what: &str, error: io::Error) -> LogError {
        if is_full(&error) {
            LogError::DiskFull
        } else if is_refused_here(&error) || error.kind() == io::ErrorKind::NotFound {
            LogError::Io(format!("writing {what} of {}: {error}", self.partition).into())
        } else {
            LogError::Fenced(self.env.fence(&format!("writing {what} of {}", self.partition), &error))
        }
    }

    /// Writes producer snapshots and leader epochs.
    fn write_beside(&self, rolled: &[Rolled], epochs: Option<&[(i32, Offset)]>) -> Result<(), LogError> {
        for rolled in rolled {
            self.write_snapshot(rolled.offset, &rolled.producers)?;
        }
        if let Some(epochs) = epochs {
            checkpoint::write_epochs(&*self.env.disk, &self.dir.join(LEADER_EPOCHS), epochs.iter().copied())
                .map_err(|error| self.flush_failed("the leader epochs", error))?;
        }
        Ok(())
    }

    fn write_snapshot(&self, offset: Offset, producers: &[ProducerEntry]) -> Result<(), LogError> {
        let path = segment_path(&self.dir, offset, FileKind::Snapshot, "");
        disk::replace_file(&*self.env.disk, &path, &snapshot::encode(producers))
            .map_err(|error| self.flush_failed("a producer snapshot", error))
    }

    fn note_epochs_written(&self, written: Option<&[(i32, Offset)]>) {
        let mut writer = self.writer.lock();
        let now = writer.epochs.entries().iter().map(|e| (e.epoch, e.start_offset));
        if written.is_some_and(|written| now.eq(written.iter().copied())) {
            writer.epochs_changed = false;
        }
    }

    /// Makes everything durable and writes the snapshot at the end, for a clean stop. Tells what to write into the mark.
    pub(crate) fn close(&self) -> Result<Mark, LogError> {
        if let Some(reason) = self.offline() {
            return Err(LogError::Offline(Arc::clone(reason)));
        }
        let (end_offset, producers) = {
            let writer = self.writer.lock();
            let is_untouched = writer.end_offset == 0 && writer.position == 0 && !writer.epochs_changed;
            if is_untouched && self.segments.read().len() == 1 {
                // Nothing was ever written, so there is nothing to make durable: a folder that a power cut takes is made
                // anew.
                let segments = vec![MarkedSegment { base_offset: 0, bytes: 0 }];
                return Ok(Mark { end_offset: 0, segments, recent: Vec::new() });
            }
            (writer.end_offset, super::producers::to_entries(&writer.producers))
        };
        let mut rolled = std::mem::take(&mut self.flush.work.lock().rolled);
        if rolled.last().is_none_or(|last| last.offset < end_offset) {
            rolled.push(Rolled { offset: end_offset, producers });
        }
        let done = self.make_durable(&rolled, true, true)?;
        if done.flushed != end_offset || self.end_offset() != end_offset {
            return Err(LogError::Io("the log grew while it was closed".into()));
        }
        self.flush.flushed.store(end_offset, Ordering::Release);
        self.flush.recovery_point.store(end_offset, Ordering::Release);
        let marked = |segment: &Arc<Segment>| MarkedSegment { base_offset: segment.base_offset, bytes: segment.size() };
        let segments = self.segments.read().iter().map(marked).collect();
        let writer = self.writer.lock();
        let recent = writer.producers.recent(PRODUCERS_MAX);
        let recent = recent.into_iter().map(|(producer_id, batches)| (producer_id, batches.to_vec())).collect();
        Ok(Mark { end_offset, segments, recent })
    }

    /// Builds the indexes of closed segments anew where they proved wrong.
    pub(crate) fn repair_indexes(&self) -> io::Result<()> {
        let segments = self.segments.read().clone();
        let Some((_, closed)) = segments.split_last() else { return Ok(()) };
        for segment in closed.iter().filter(|segment| segment.has_damaged_index()) {
            super::recover::rebuild_indexes(&self.env, segment, self.options().index_interval_bytes)
                .map_err(|error| io::Error::other(error.to_string()))?;
            segment.note_rebuilt_index();
        }
        Ok(())
    }
}

/// What a round of making durable has reached.
struct Durable {
    flushed: Offset,
    recovery_point: Offset,
    /// Bytes that had been appended to the log before.
    appended_bytes: u64,
}
