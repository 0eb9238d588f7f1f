//! Reading: which range of which file holds the batches from an offset on. No batch is read for that, only headers, and
//! near the end of the log or where a reader stopped before, nothing at all.

use std::io;
use std::ops::Range;
use std::sync::Arc;

use taffrail_core::ids::Offset;
use taffrail_runtime::blocking::{Pool, PoolError};

use super::Log;
use super::borders::Met;
use super::tail::Mark;
use crate::disk::{Access, DiskFile};
use crate::error::ReadError;
use crate::names::FileKind;
use crate::scan::{Scan, ScanError, WINDOW_LARGE_BYTES, WINDOW_SMALL_BYTES};
use crate::segment::Segment;

/// How often a read looks again when retention took a segment away under it.
const ATTEMPTS_MAX: u32 = 5;

/// Whole batches, one after the other, in a file.
#[derive(Clone)]
pub struct FileRange {
    /// The file; it can be read also after the segment was deleted.
    pub file: Arc<dyn DiskFile>,
    /// Where the first batch begins.
    pub position: u64,
    /// Bytes of all batches together.
    pub length: u64,
}

/// What was found to read.
#[derive(Clone)]
pub struct LogRead {
    /// The batches; `None` when there are none at the offset yet, or the limit is smaller than the first one.
    pub range: Option<FileRange>,
    /// First offset that can be read in the log.
    pub log_start_offset: Offset,
    /// Offset after the last record of the log.
    pub end_offset: Offset,
    /// Offset to go on with after the range; the offset asked for if there is no range.
    pub next_offset: Offset,
    /// Whether reading the range will hardly wait for the device; otherwise [`LogRead::warm`] goes first.
    pub is_warm: bool,
    source: Option<(Arc<Log>, Arc<Segment>)>,
}

impl LogRead {
    /// Bytes to read.
    pub fn bytes(&self) -> u64 {
        self.range.as_ref().map_or(0, |range| range.length)
    }

    /// Reads the range into the page cache and compares its checksums, on a pool. Does nothing for a warm range.
    ///
    /// # Errors
    /// [`ReadError::Offline`] when the bytes are damaged: the partition is offline from then on; [`ReadError::Busy`] when
    /// the pool has too much to do.
    pub async fn warm(&mut self, pool: &Pool) -> Result<(), ReadError> {
        let Some(range) = self.range.clone().filter(|_| !self.is_warm) else { return Ok(()) };
        let Some((log, segment)) = self.source.clone() else { return Ok(()) };
        match pool.run(move || log.read_through(&range, &segment)).await {
            Ok(result) => result?,
            Err(PoolError::Full | PoolError::Gone) => return Err(ReadError::Busy),
        }
        self.is_warm = true;
        Ok(())
    }

    /// The bytes of the range, read into memory; for callers that must look inside.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn read_bytes(&self) -> Result<Vec<u8>, ReadError> {
        let Some(range) = &self.range else { return Ok(Vec::new()) };
        let mut bytes = vec![0; range.length as usize];
        crate::disk::read_exact_at(&*range.file, &mut bytes, range.position)
            .map_err(|error| ReadError::Io(error.to_string().into()))?;
        Ok(bytes)
    }
}

/// How far a read may go.
#[derive(Clone, Copy)]
struct ReadLimits {
    max_bytes: u64,
    upper_offset: Offset,
    min_one_batch: bool,
}

/// What only the disk could tell.
fn would_wait() -> io::Error {
    io::ErrorKind::WouldBlock.into()
}

/// A place in a segment where a batch begins.
struct Start {
    segment: Arc<Segment>,
    next: Option<Arc<Segment>>,
    position: u32,
}

/// A range with what belongs to it.
struct FoundRange {
    range: FileRange,
    next_offset: Offset,
    is_warm: bool,
    segment: Arc<Segment>,
}

impl Log {
    /// Finds the batches from the one that contains `from` on: whole ones, together at most `max_bytes`, all of whose
    /// offsets are before `upper_offset`. With `min_one_batch`, the first one is given even if it is larger.
    ///
    /// # Errors
    /// [`ReadError::OutOfRange`] when `from` is before the start or after the end of the log.
    pub fn read(
        &self,
        from: Offset,
        max_bytes: u64,
        upper_offset: Offset,
        min_one_batch: bool,
    ) -> Result<LogRead, ReadError> {
        let limits = ReadLimits { max_bytes, upper_offset, min_one_batch };
        let mut attempts = 0;
        loop {
            attempts += 1;
            let offsets = self.check_readable(from)?;
            match self.find(from, offsets.1, limits, Access::Disk) {
                // Retention or compaction took the segment away: the batches are in another one now, or gone.
                Err(met) if met.is_gone() && attempts < ATTEMPTS_MAX => {}
                found => return Ok(self.read_result(from, offsets, found.map_err(|met| self.read_failed(&met))?)),
            }
        }
    }

    /// [`Log::read`] for those that may not wait: `None` when the disk would have to be asked, as it is for a reader who
    /// comes from nowhere, or for files that are not in memory. What is found may still not be warm.
    pub fn read_from_memory(
        &self,
        from: Offset,
        max_bytes: u64,
        upper_offset: Offset,
        min_one_batch: bool,
    ) -> Option<Result<LogRead, ReadError>> {
        let limits = ReadLimits { max_bytes, upper_offset, min_one_batch };
        let offsets = match self.check_readable(from) {
            Ok(offsets) => offsets,
            Err(error) => return Some(Err(error)),
        };
        // Whatever it is that was met, the disk tells more about it.
        let found = self.find(from, offsets.1, limits, Access::Memory).ok()?;
        Some(Ok(self.read_result(from, offsets, found)))
    }

    fn read_result(&self, from: Offset, offsets: (Offset, Offset), found: Option<FoundRange>) -> LogRead {
        let (log_start_offset, end_offset) = offsets;
        match found {
            None => {
                LogRead { range: None, log_start_offset, end_offset, next_offset: from, is_warm: true, source: None }
            }
            Some(found) => LogRead {
                range: Some(found.range),
                log_start_offset,
                end_offset,
                next_offset: found.next_offset,
                is_warm: found.is_warm,
                source: self.me.upgrade().map(|log| (log, found.segment)),
            },
        }
    }

    /// The start and the end of the log, if `from` is within them and the log serves.
    pub(super) fn check_readable(&self, from: Offset) -> Result<(Offset, Offset), ReadError> {
        if let Some(reason) = self.offline() {
            return Err(ReadError::Offline(Arc::clone(reason)));
        }
        if self.is_deleted() {
            return Err(ReadError::Deleted);
        }
        let (log_start_offset, end_offset) = (self.log_start_offset(), self.end_offset());
        if from < log_start_offset || from > end_offset {
            return Err(ReadError::OutOfRange { offset: from, log_start_offset, end_offset });
        }
        Ok((log_start_offset, end_offset))
    }

    fn find(
        &self,
        from: Offset,
        end_offset: Offset,
        limits: ReadLimits,
        access: Access,
    ) -> Result<Option<FoundRange>, Met> {
        let max_bytes = limits.max_bytes;
        let upper_offset = limits.upper_offset.min(end_offset);
        if from >= upper_offset {
            return Ok(None);
        }
        let Some(start) = self.find_start(from, access)? else { return Ok(None) };
        let met = Met::in_segment(&start.segment);
        let (limit, offset_at_limit) = self.find_limit(&start, upper_offset, access).map_err(met)?;
        if start.position >= limit {
            return Ok(None);
        }
        let file = start.segment.open_for(&self.env, FileKind::Log, access).map_err(Met::in_segment(&start.segment))?;
        let position = u64::from(start.position);
        let everything = u64::from(limit) - position;
        let (length, next_offset) = if everything <= max_bytes {
            (everything, offset_at_limit)
        } else {
            let end = self.cut(&start, &*access.over(&file), limit, limits, access);
            let Some(end) = end.map_err(Met::in_segment(&start.segment))? else { return Ok(None) };
            let mut tail = self.tail.lock();
            tail.take_stop(start.segment.base_offset, from);
            tail.push_stop(start.segment.base_offset, end);
            (u64::from(end.position) - position, end.offset)
        };
        if let Some(next) = start.next.as_ref().filter(|next| next.base_offset == next_offset) {
            if access == Access::Memory && !start.segment.is_joined() {
                return Err(Met::in_segment(&start.segment)(would_wait()));
            }
            self.check_joined(&start.segment, next).map_err(Met::in_segment(&start.segment))?;
        }
        let range = FileRange { file, position, length };
        let is_warm = self.is_warm(&start, &range);
        Ok(Some(FoundRange { range, next_offset, is_warm, segment: start.segment }))
    }

    /// The batch that contains `from`, or the first after it.
    fn find_start(&self, from: Offset, access: Access) -> Result<Option<Start>, Met> {
        let mut from = from;
        while let Some((segment, next)) = self.segment_at(from) {
            let (known, hint) = {
                let tail = self.tail.lock();
                let is_active = segment.base_offset == tail.base_offset;
                let known = tail
                    .peek_stop(segment.base_offset, from)
                    .or_else(|| if is_active { tail.find(from) } else { None });
                let target = crate::index::relative(from, segment.base_offset);
                let hint = target
                    .filter(|_| is_active)
                    .and_then(|target| tail.offsets.floor_pending(|entry| entry.relative_offset <= target));
                (known, hint)
            };
            if let Some(position) = known {
                return Ok(Some(Start { segment, next, position }));
            }
            if access == Access::Memory {
                return Err(Met::in_segment(&segment)(would_wait()));
            }
            let batch = segment.locate(&self.env, from, segment.size(), hint).map_err(Met::in_segment(&segment))?;
            if let Some(batch) = batch {
                return Ok(Some(Start { segment, next, position: batch.position as u32 }));
            }
            // Compaction has taken the rest of this segment.
            let Some(following) = &next else { return Ok(None) };
            self.check_joined(&segment, following).map_err(Met::in_segment(&segment))?;
            from = following.base_offset;
        }
        Ok(None)
    }

    /// Up to which position of the segment a reader may see, and the offset there.
    fn find_limit(&self, start: &Start, upper_offset: Offset, access: Access) -> Result<(u32, Offset), ScanError> {
        if let Some(next) = &start.next
            && next.base_offset <= upper_offset
        {
            return Ok((start.segment.size(), next.base_offset));
        }
        let hint = {
            let tail = self.tail.lock();
            if start.segment.base_offset == tail.base_offset {
                if let Some(position) = tail.find(upper_offset) {
                    return Ok((position, upper_offset));
                }
                crate::index::relative(upper_offset, tail.base_offset)
                    .and_then(|target| tail.offsets.floor_pending(|entry| entry.relative_offset <= target))
            } else {
                None
            }
        };
        if access == Access::Memory {
            return Err(would_wait().into());
        }
        match start.segment.locate(&self.env, upper_offset, start.segment.size(), hint)? {
            Some(batch) => Ok((batch.position as u32, upper_offset)),
            None => Ok((start.segment.size(), upper_offset)),
        }
    }

    /// Where whole batches end, at most `max_bytes` after the start, with the offset to go on with there.
    fn cut(
        &self,
        start: &Start,
        file: &dyn DiskFile,
        limit: u32,
        limits: ReadLimits,
        access: Access,
    ) -> Result<Option<Mark>, ScanError> {
        let position = u64::from(start.position);
        let end_max = position + limits.max_bytes;
        // A batch that the index knows to begin before the limit ends all those before it.
        let entry = start.segment.index_floor_position(&self.env, end_max, access)?;
        let mut cut = None;
        if let Some(from) = entry.map(|entry| u64::from(entry.position)).filter(|from| *from > position) {
            cut = self.last_boundary(file, from, limit, end_max)?;
        }
        if cut.is_none() {
            cut = self.last_boundary(file, position, limit, end_max)?.filter(|end| end.position > start.position);
        }
        if cut.is_none() && limits.min_one_batch {
            let first = Scan::new(file, position, u64::from(limit), WINDOW_SMALL_BYTES).next()?;
            cut = first.map(|batch| Mark { offset: batch.header.last_offset() + 1, position: batch.end() as u32 });
        }
        Ok(cut)
    }

    /// The last place at or before `end_max` where a batch begins or the readable part ends, found by walking from `from` on.
    /// A start that is no batch gives none.
    fn last_boundary(
        &self,
        file: &dyn DiskFile,
        from: u64,
        limit: u32,
        end_max: u64,
    ) -> Result<Option<Mark>, ScanError> {
        let mut scan = Scan::new(file, from, u64::from(limit), WINDOW_SMALL_BYTES);
        let mut boundary = None;
        loop {
            match scan.next() {
                Ok(Some(batch)) => {
                    let begin = Mark { offset: batch.header.base_offset, position: batch.position as u32 };
                    if batch.end() > end_max {
                        return Ok(Some(begin));
                    }
                    boundary = Some(Mark { offset: batch.header.last_offset() + 1, position: batch.end() as u32 });
                }
                Ok(None) | Err(ScanError::Invalid { .. }) => return Ok(boundary),
                Err(error) => return Err(error),
            }
        }
    }

    /// Whether a range can be sent without waiting for the device: it was appended lately, or the kernel has it and its
    /// checksums were compared, when it came or when it was first read.
    fn is_warm(&self, start: &Start, range: &FileRange) -> bool {
        // Negative: it was there before the log was opened, so nobody has looked at it since.
        let appended = start.segment.origin() + range.position as i64;
        if self.tail.lock().is_warm(&self.env, appended) {
            return true;
        }
        let is_checked = appended >= 0 || start.segment.is_verified(&(range.position..range.position + range.length));
        is_checked && range.file.is_cached(range.position, range.length) == Some(true)
    }

    /// Reads a range from the device and compares the checksums of its batches.
    fn read_through(&self, range: &FileRange, segment: &Arc<Segment>) -> Result<(), ReadError> {
        let bytes: Range<u64> = range.position..range.position + range.length;
        let mut scan = Scan::new(&*range.file, bytes.start, bytes.end, WINDOW_LARGE_BYTES);
        let failed = |error: ScanError| match error {
            ScanError::Io(error) => ReadError::Io(error.to_string().into()),
            ScanError::Invalid { .. } => {
                ReadError::Offline(self.take_offline(format!("{}: {error}", segment.path(FileKind::Log).display())))
            }
        };
        while let Some(batch) = scan.next().map_err(failed)? {
            scan.verify(&batch).map_err(failed)?;
        }
        // Whoever reads on comes back for this.
        range.file.prefetch(bytes.end, range.length);
        segment.note_verified(bytes);
        self.env.count_appended(range.length);
        Ok(())
    }
}
