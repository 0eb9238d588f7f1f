//! One segment of a log: the batches from a base offset on, with their indexes.
//!
//! A segment that nobody reads or writes costs two hundred bytes and no open file. The last segment of a log grows; what
//! only the growing one needs is kept by the log.

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering};

use parking_lot::Mutex;
use taffrail_core::ids::Offset;

use crate::disk::{Access, DiskFile};
use crate::env::Env;
use crate::handles::{Slot, Slots};
use crate::index::{self, OffsetEntry, TimeEntry};
use crate::names::{FileKind, SEGMENT_FILES, segment_path};
use crate::scan::{Located, Scan, ScanError, WINDOW_LARGE_BYTES, WINDOW_SMALL_BYTES};

/// A timestamp and the last offset of the batch that has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TimestampOffset {
    pub(crate) timestamp: i64,
    pub(crate) offset: Offset,
}

/// One segment.
pub(crate) struct Segment {
    pub(crate) base_offset: Offset,
    dir: Arc<Path>,
    size: AtomicU32,
    /// Bytes that had been appended to the log since it was opened when position 0 of this segment came; negative when
    /// that was before.
    origin: AtomicI64,
    facts: Mutex<Facts>,
    slots: [Slot; 3],
}

/// What is known of a segment, looked up when it is first asked for.
#[derive(Default)]
struct Facts {
    /// Largest timestamp; the outer `None` = not looked up yet, the inner = the segment has no timestamps.
    largest: Option<Option<TimestampOffset>>,
    modified_ms: Option<i64>,
    /// Positions between which all checksums were compared since the start of the process.
    verified: Range<u64>,
    /// Set when it was seen that the next segment goes on where this one ends, or need not.
    is_joined: bool,
    /// Set when an index proved wrong: lookups walk the batches, until maintenance has built it anew.
    index_damaged: bool,
}

impl Slots for Segment {
    fn slot(&self, number: usize) -> &Slot {
        &self.slots[number]
    }
}

fn slot_of(kind: FileKind) -> usize {
    match kind {
        FileKind::Log => 0,
        FileKind::Index => 1,
        FileKind::TimeIndex => 2,
        FileKind::TxnIndex | FileKind::Snapshot => unreachable!("{kind:?} files are not kept open"),
    }
}

impl Segment {
    /// A segment whose files exist, with `size` valid bytes.
    pub(crate) fn existing(dir: Arc<Path>, base_offset: Offset, size: u32, modified_ms: i64) -> Arc<Self> {
        let facts = Facts { modified_ms: Some(modified_ms), ..Facts::default() };
        Arc::new(Self {
            base_offset,
            dir,
            size: AtomicU32::new(size),
            origin: AtomicI64::new(i64::MIN / 2),
            facts: Mutex::new(facts),
            slots: Default::default(),
        })
    }

    /// Makes the files of a new segment. Files of that name that are there belong to a segment whose making failed half
    /// way, since the caller knows of none; they are replaced.
    pub(crate) fn create(env: &Env, dir: Arc<Path>, base_offset: Offset, now_ms: i64) -> io::Result<Arc<Self>> {
        let segment = Self::existing(dir, base_offset, 0, now_ms);
        segment.facts.lock().largest = Some(None);
        for kind in [FileKind::Index, FileKind::TimeIndex, FileKind::Log] {
            let path = segment.path(kind);
            let mut created = env.handles.create(&segment, slot_of(kind), &path);
            if created.as_ref().is_err_and(|error| error.kind() == io::ErrorKind::AlreadyExists) {
                env.disk.remove_file(&path)?;
                created = env.handles.create(&segment, slot_of(kind), &path);
            }
            created?;
            if kind != FileKind::Log {
                // The first entry comes late, if ever; until then no file need be open for it.
                segment.slots[slot_of(kind)].close();
            }
        }
        Ok(segment)
    }

    /// Where a file of this segment is.
    pub(crate) fn path(&self, kind: FileKind) -> PathBuf {
        segment_path(&self.dir, self.base_offset, kind, "")
    }

    /// The open `.log`, `.index` or `.timeindex` file.
    pub(crate) fn open(self: &Arc<Self>, env: &Env, kind: FileKind) -> io::Result<Arc<dyn DiskFile>> {
        env.handles.get(self, slot_of(kind), || self.path(kind))
    }

    /// The same file for `access`.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when only memory may be asked and the file is not open.
    pub(crate) fn open_for(
        self: &Arc<Self>,
        env: &Env,
        kind: FileKind,
        access: Access,
    ) -> io::Result<Arc<dyn DiskFile>> {
        match access {
            Access::Disk => self.open(env, kind),
            Access::Memory => Ok(self.slots[slot_of(kind)].opened().ok_or(io::ErrorKind::WouldBlock)?),
        }
    }

    /// Valid bytes of the `.log` file.
    pub(crate) fn size(&self) -> u32 {
        self.size.load(Ordering::Acquire)
    }

    pub(crate) fn set_size(&self, size: u32) {
        self.size.store(size, Ordering::Release);
    }

    /// See the field of this name.
    pub(crate) fn origin(&self) -> i64 {
        self.origin.load(Ordering::Relaxed)
    }

    pub(crate) fn set_origin(&self, origin: i64) {
        self.origin.store(origin, Ordering::Relaxed);
    }

    /// Notes what an append changed.
    pub(crate) fn note_append(&self, size: u32, largest: TimestampOffset, now_ms: i64) {
        let mut facts = self.facts.lock();
        facts.modified_ms = Some(now_ms);
        if let Some(known) = &mut facts.largest
            && largest.timestamp >= 0
            && known.is_none_or(|known| largest.timestamp > known.timestamp)
        {
            *known = Some(largest);
        }
        drop(facts);
        self.set_size(size);
    }

    /// The largest timestamp if it was looked up before; the inner `None` = there is none.
    pub(crate) fn known_largest(&self) -> Option<Option<TimestampOffset>> {
        self.facts.lock().largest
    }

    /// Sets what a walk over the segment found.
    pub(crate) fn set_largest(&self, largest: Option<TimestampOffset>) {
        self.facts.lock().largest = Some(largest);
    }

    /// When the file was changed last.
    pub(crate) fn modified_ms(&self) -> i64 {
        self.facts.lock().modified_ms.unwrap_or_default()
    }

    /// The largest timestamp in the segment; `None` when no batch has one. Looks it up in the last entry of the time
    /// index, which closing a segment writes, and walks the headers behind it.
    pub(crate) fn largest(self: &Arc<Self>, env: &Env) -> Result<Option<TimestampOffset>, ScanError> {
        if let Some(known) = self.facts.lock().largest {
            return Ok(known);
        }
        let size = self.size();
        let mut largest: Option<TimestampOffset> = None;
        let mut from = 0;
        if let Some(entry) = self.last_time_entry(env)? {
            let offset = self.base_offset + i64::from(entry.relative_offset);
            // The entry is believed only if the batch says the same.
            if let Some(batch) = self.locate(env, offset, size, None)?
                && batch.header.max_timestamp == entry.timestamp
                && batch.header.last_offset() == offset
            {
                largest = Some(TimestampOffset { timestamp: entry.timestamp, offset });
                // All behind it is walked: after a power cut the offset index may know of batches that the time index forgot.
                from = batch.end();
            }
        }
        let file = self.open(env, FileKind::Log)?;
        let mut scan = Scan::new(&*file, from, u64::from(size), WINDOW_LARGE_BYTES);
        while let Some(batch) = scan.next()? {
            let found = TimestampOffset { timestamp: batch.header.max_timestamp, offset: batch.header.last_offset() };
            if found.timestamp >= 0 && largest.is_none_or(|largest| found.timestamp > largest.timestamp) {
                largest = Some(found);
            }
        }
        let mut facts = self.facts.lock();
        // An append may have come in between; it was noted only if the fact was known.
        if self.size() == size {
            facts.largest = Some(largest);
        }
        Ok(largest)
    }

    /// The same for background work: files that it opens are closed again, so that looking at many partitions that nobody
    /// uses leaves nothing open.
    pub(crate) fn largest_in_passing(self: &Arc<Self>, env: &Env) -> Result<Option<TimestampOffset>, ScanError> {
        let was_open = self.slots.each_ref().map(Slot::is_open);
        let largest = self.largest(env);
        for (slot, was_open) in self.slots.iter().zip(was_open) {
            if !was_open {
                slot.close();
            }
        }
        largest
    }

    fn last_time_entry(self: &Arc<Self>, env: &Env) -> io::Result<Option<TimeEntry>> {
        let file = match self.open(env, FileKind::TimeIndex) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            other => other?,
        };
        match index::count::<TimeEntry>(&*file)? {
            0 => Ok(None),
            count => index::entry_at(&*file, count - 1).map(Some),
        }
    }

    /// The batch that contains `offset`, or the first one after it, before position `limit`. `hint` is an entry that is not
    /// in the file yet.
    pub(crate) fn locate(
        self: &Arc<Self>,
        env: &Env,
        offset: Offset,
        limit: u32,
        hint: Option<OffsetEntry>,
    ) -> Result<Option<Located>, ScanError> {
        let file = self.open(env, FileKind::Log)?;
        let entry = match hint {
            Some(entry) => Some(entry),
            None => self.index_floor(env, offset)?,
        };
        if let Some(entry) = entry.filter(|entry| entry.position < limit) {
            let mut scan = Scan::new(&*file, u64::from(entry.position), u64::from(limit), WINDOW_SMALL_BYTES);
            match scan.next() {
                // A follower of Kafka writes one entry for several batches, so the offset may be that of a later one.
                Ok(Some(first))
                    if first.header.base_offset >= self.base_offset
                        && first.header.last_offset() <= self.base_offset + i64::from(entry.relative_offset) =>
                {
                    return walk_to(&mut scan, Some(first), offset);
                }
                Err(ScanError::Io(error)) => return Err(error.into()),
                // The index does not agree with the batches, which are the truth.
                _ => self.note_damaged_index(),
            }
        }
        let mut scan = Scan::new(&*file, 0, u64::from(limit), WINDOW_LARGE_BYTES);
        walk_to(&mut scan, None, offset)
    }

    /// The last entry of the index file for an offset before or at `offset`.
    fn index_floor(self: &Arc<Self>, env: &Env, offset: Offset) -> io::Result<Option<OffsetEntry>> {
        let Some(target) = index::relative(offset, self.base_offset) else { return Ok(None) };
        let Some(file) = self.open_index(env, Access::Disk)? else { return Ok(None) };
        let count = index::count::<OffsetEntry>(&*file)?;
        Ok(index::floor::<OffsetEntry>(&*file, count, |entry| entry.relative_offset <= target)?.map(|(_, entry)| entry))
    }

    /// The last entry of the index file whose position is before or at `position`.
    pub(crate) fn index_floor_position(
        self: &Arc<Self>,
        env: &Env,
        position: u64,
        access: Access,
    ) -> io::Result<Option<OffsetEntry>> {
        let Some(file) = self.open_index(env, access)? else { return Ok(None) };
        let count = index::count::<OffsetEntry>(&*file)?;
        let found = index::floor::<OffsetEntry>(&*file, count, |entry| u64::from(entry.position) <= position)?;
        Ok(found.map(|(_, entry)| entry))
    }

    fn open_index(self: &Arc<Self>, env: &Env, access: Access) -> io::Result<Option<Arc<dyn DiskFile>>> {
        if self.facts.lock().index_damaged {
            return Ok(None);
        }
        match self.open_for(env, FileKind::Index, access) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.note_damaged_index();
                Ok(None)
            }
            other => other.map(|file| Some(access.over(&file))),
        }
    }

    /// Notes that the index cannot be used until it is built anew.
    pub(crate) fn note_damaged_index(&self) {
        let mut facts = self.facts.lock();
        if !facts.index_damaged {
            facts.index_damaged = true;
            tracing::warn!(file = %self.path(FileKind::Index).display(), "the index does not fit the log; it will be built anew");
        }
    }

    /// Whether the index proved wrong.
    pub(crate) fn has_damaged_index(&self) -> bool {
        self.facts.lock().index_damaged
    }

    /// Takes note that the index was built anew.
    pub(crate) fn note_rebuilt_index(&self) {
        self.slots[slot_of(FileKind::Index)].close();
        self.slots[slot_of(FileKind::TimeIndex)].close();
        self.facts.lock().index_damaged = false;
    }

    /// Whether it was seen before that the next segment goes on where this one ends.
    pub(crate) fn is_joined(&self) -> bool {
        self.facts.lock().is_joined
    }

    /// Notes that the next segment goes on where this one ends, or need not.
    pub(crate) fn note_joined(&self) {
        self.facts.lock().is_joined = true;
    }

    /// The offset after the last batch: a walk over the few headers behind the last entry of the index.
    pub(crate) fn end_offset(self: &Arc<Self>, env: &Env) -> Result<Offset, ScanError> {
        let size = self.size();
        let entry =
            self.index_floor_position(env, u64::from(size), Access::Disk)?.filter(|entry| entry.position < size);
        let file = self.open(env, FileKind::Log)?;
        let walk = |from: u32| {
            let mut scan = Scan::new(&*file, u64::from(from), u64::from(size), WINDOW_SMALL_BYTES);
            let mut end_offset = self.base_offset;
            while let Some(batch) = scan.next()? {
                end_offset = batch.header.last_offset() + 1;
            }
            Ok(end_offset)
        };
        match walk(entry.map_or(0, |entry| entry.position)) {
            // The index does not agree with the batches, which are the truth.
            Err(ScanError::Invalid { .. }) if entry.is_some() => {
                self.note_damaged_index();
                walk(0)
            }
            end_offset => end_offset,
        }
    }

    /// Whether all checksums of a range were compared before.
    pub(crate) fn is_verified(&self, range: &Range<u64>) -> bool {
        let facts = self.facts.lock();
        facts.verified.start <= range.start && range.end <= facts.verified.end
    }

    /// Notes that all checksums of a range are right. One stretch is kept: readers go forward.
    pub(crate) fn note_verified(&self, range: Range<u64>) {
        let mut facts = self.facts.lock();
        let touches = range.start <= facts.verified.end && range.end >= facts.verified.start;
        facts.verified =
            if touches { facts.verified.start.min(range.start)..facts.verified.end.max(range.end) } else { range };
    }

    /// Forgets what no longer holds after the file was cut.
    pub(crate) fn note_cut(&self, size: u32) {
        let mut facts = self.facts.lock();
        facts.largest = None;
        facts.is_joined = false;
        facts.verified = 0..0;
        self.set_size(size);
    }

    /// Gives all files another ending, so that they are no longer part of the log. Those that do not exist are no error.
    pub(crate) fn rename_all(&self, env: &Env, ending: &str) -> io::Result<()> {
        // The batches go last: as long as they are there, a crash leaves a segment whose indexes can be built anew.
        for kind in SEGMENT_FILES.into_iter().rev() {
            let target = segment_path(&self.dir, self.base_offset, kind, ending);
            match env.disk.rename(&self.path(kind), &target) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        self.close();
        Ok(())
    }

    /// Closes the files; readers that hold one keep it.
    pub(crate) fn close(&self) {
        for slot in &self.slots {
            slot.close();
        }
    }
}

/// Goes on from `first` to the batch that contains `offset` or is the first after it.
fn walk_to(scan: &mut Scan<'_>, first: Option<Located>, offset: Offset) -> Result<Option<Located>, ScanError> {
    let mut batch = match first {
        Some(batch) => Some(batch),
        None => scan.next()?,
    };
    while let Some(found) = batch {
        if found.header.last_offset() >= offset {
            return Ok(Some(found));
        }
        batch = scan.next()?;
    }
    Ok(None)
}
