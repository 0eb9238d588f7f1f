//! Finding the true end of a log after a crash.
//!
//! Only what lies past the recovery point is looked at. The first place without a sound batch there is a torn tail if
//! nothing valid follows it, in this segment or in a later one; it is cut off, with a line in the log that says so.
//! Anything else is damage: it is reported, and nothing is cut.

use std::io;
use std::path::Path;
use std::sync::Arc;

use taffrail_core::ids::{LeaderEpoch, Offset};
use taffrail_core::partition::ProducerStates;
use taffrail_core::planted::{PlantedBug, is_planted};
use taffrail_core::record::BatchRef;

use super::producers;
use crate::disk;
use crate::env::Env;
use crate::error::{is_full, may_pass};
use crate::index::{self, AbortedTransaction, Entry, Growing, OffsetEntry, TimeEntry, relative};
use crate::names::{FileKind, segment_path};
use crate::scan::{Located, Scan, ScanError, WINDOW_LARGE_BYTES, WINDOW_SMALL_BYTES, find_valid_batch};
use crate::segment::{Segment, TimestampOffset};

/// Largest control batch that is read; Kafka writes 78 bytes.
const CONTROL_BATCH_BYTES_MAX: usize = 64 << 10;

/// Why a log cannot be opened: a text that names file, offset and cause.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Damage {
    /// The files are not what they should be.
    #[error("{0}")]
    Files(String),
    /// The disk refuses for now, which says nothing about the files.
    #[error("{0}")]
    Refused(String),
}

impl Damage {
    /// What the disk said about a path.
    pub(super) fn io(path: &Path, error: &io::Error) -> Self {
        let text = format!("{}: {error}", path.display());
        if may_pass(error) { Self::Refused(text) } else { Self::Files(text) }
    }

    /// What a walk over the batches of a segment met.
    fn scan(segment: &Segment, error: &ScanError) -> Self {
        let path = segment.path(FileKind::Log);
        match error {
            ScanError::Io(error) => Self::io(&path, error),
            ScanError::Invalid { .. } => Self::Files(format!("{}: {error}", path.display())),
        }
    }
}

/// Builds both indexes of a segment, batch by batch, by the same rule as appending does.
pub(crate) struct IndexBuilder {
    base_offset: Offset,
    interval_bytes: u64,
    since: u64,
    largest: Option<TimestampOffset>,
    pub(super) offsets: Growing<OffsetEntry>,
    pub(super) times: Growing<TimeEntry>,
}

impl IndexBuilder {
    /// The indexes of a segment of which nothing is known.
    pub(crate) fn empty(base_offset: Offset, interval_bytes: u32) -> Self {
        Self::new(base_offset, interval_bytes, Kept::default())
    }

    fn new(base_offset: Offset, interval_bytes: u32, kept: Kept) -> Self {
        let largest = kept
            .times
            .last()
            .map(|e| TimestampOffset { timestamp: e.timestamp, offset: base_offset + i64::from(e.relative_offset) });
        Self {
            base_offset,
            interval_bytes: u64::from(interval_bytes),
            since: 0,
            largest,
            offsets: kept.offsets,
            times: kept.times,
        }
    }

    /// Bytes since the last entry.
    pub(super) fn since(&self) -> u64 {
        self.since
    }

    pub(crate) fn add(&mut self, batch: &Located) {
        let header = &batch.header;
        let found = TimestampOffset { timestamp: header.max_timestamp, offset: header.last_offset() };
        if found.timestamp >= 0 && self.largest.is_none_or(|largest| found.timestamp > largest.timestamp) {
            self.largest = Some(found);
        }
        if self.since > self.interval_bytes
            && let Some(relative_offset) = relative(header.last_offset(), self.base_offset)
        {
            self.offsets.push(OffsetEntry { relative_offset, position: batch.position as u32 });
            self.push_largest();
            self.since = 0;
        }
        self.since += header.total_bytes() as u64;
    }

    /// Adds the entry that closing a segment writes.
    pub(crate) fn push_largest(&mut self) {
        if let Some(largest) = self.largest
            && let Some(relative_offset) = relative(largest.offset, self.base_offset)
        {
            self.times.push(TimeEntry { timestamp: largest.timestamp, relative_offset });
        }
    }

    /// Writes both files as far as they are not written, and cuts what lies behind.
    fn write(&mut self, env: &Env, segment: &Arc<Segment>) -> io::Result<()> {
        write_growing(env, &segment.path(FileKind::Index), &mut self.offsets, false)?;
        write_growing(env, &segment.path(FileKind::TimeIndex), &mut self.times, false)
    }

    /// Writes both files under names with an ending.
    pub(crate) fn write_with_ending(mut self, env: &Env, dir: &Path, ending: &str) -> io::Result<()> {
        let path = |kind| segment_path(dir, self.base_offset, kind, ending);
        write_growing(env, &path(FileKind::Index), &mut self.offsets, true)?;
        write_growing(env, &path(FileKind::TimeIndex), &mut self.times, true)
    }
}

/// Writes what is not in an index file yet, and cuts what lies behind. It need not be durable where the next start after a
/// crash would build it anew.
fn write_growing<E: Entry>(env: &Env, path: &Path, growing: &mut Growing<E>, must_be_durable: bool) -> io::Result<()> {
    let file = match env.disk.open(path, disk::OpenMode::Write) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => env.disk.open(path, disk::OpenMode::CreateNew)?,
        other => other?,
    };
    let kept_bytes = u64::from(growing.written()) * E::BYTES as u64;
    if file.len()? != kept_bytes {
        file.set_len(kept_bytes)?;
    }
    if let Some((position, bytes, entries)) = growing.unwritten() {
        index::write(&*file, position, &bytes)?;
        growing.mark_written(entries);
    }
    if must_be_durable { file.sync() } else { Ok(()) }
}

/// The sound first part of a segment's indexes.
#[derive(Default)]
struct Kept {
    offsets: Growing<OffsetEntry>,
    times: Growing<TimeEntry>,
}

impl Kept {
    /// What the indexes of a segment say about offsets before `offset`, if it makes sense.
    fn read(env: &Env, segment: &Arc<Segment>, offset: Offset) -> io::Result<Self> {
        let target = relative(offset, segment.base_offset).unwrap_or(0);
        let size = segment.size();
        let offsets = read_kept::<OffsetEntry>(env, segment, FileKind::Index, |entry| {
            entry.relative_offset < target && entry.position < size
        })?;
        let times = read_kept::<TimeEntry>(env, segment, FileKind::TimeIndex, |entry| entry.relative_offset < target)?;
        Ok(match (offsets, times) {
            (Some(offsets), Some(times)) => Self { offsets, times },
            // One without the other is of no use: both are built anew.
            _ => Self::default(),
        })
    }
}

/// The entries of a file up to the first for which `is_kept` does not hold; `None` when one of those is out of order.
fn read_kept<E: Entry>(
    env: &Env,
    segment: &Arc<Segment>,
    kind: FileKind,
    is_kept: impl Fn(&E) -> bool,
) -> io::Result<Option<Growing<E>>> {
    let file = match segment.open(env, kind) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    let count = index::count::<E>(&*file)?;
    let kept = index::first_unsound::<E>(&*file, count, is_kept)?.unwrap_or(count);
    let last = kept.checked_sub(1).map(|number| index::entry_at::<E>(&*file, number)).transpose()?;
    Ok(Some(Growing::new(kept, last)))
}

/// What recovery found.
pub(super) struct Recovered {
    pub(super) end_offset: Offset,
    /// Indexes of the last segment.
    pub(super) active: IndexBuilder,
    /// First offsets of leader epochs among the batches that were looked at.
    pub(super) epochs: Vec<(LeaderEpoch, Offset)>,
    /// Segments that are left.
    pub(super) segments: Vec<Arc<Segment>>,
}

/// Looks at everything from `recovery_point` on.
pub(super) fn recover(
    env: &Env,
    mut segments: Vec<Arc<Segment>>,
    recovery_point: Offset,
    interval_bytes: u32,
) -> Result<Recovered, Damage> {
    // The segment that ends at the recovery point is looked at too: a refused write may stand behind its last batch.
    let first = segments.partition_point(|segment| segment.base_offset < recovery_point).saturating_sub(1);
    let mut epochs = Vec::new();
    let mut end_offset = segments.get(first).map_or(0, |segment| segment.base_offset);
    let mut active = None;
    let mut at = first;
    while let Some(segment) = segments.get(at).cloned() {
        let later = segments.get(at + 1..).unwrap_or_default().to_vec();
        let walk = Walk { env, segment: &segment, later: &later, recovery_point, interval_bytes };
        let done = walk.run(end_offset.max(segment.base_offset), &mut epochs)?;
        end_offset = done.end_offset;
        if done.is_cut || walk.has_lost_its_end(end_offset)? {
            // Nothing valid is in the later segments, or this would be damage.
            for segment in later {
                segment.rename_all(env, crate::names::DELETED).map_err(|error| refused(&segment, &error))?;
            }
            segments.truncate(at + 1);
        }
        active = Some(done.builder);
        at += 1;
    }
    if end_offset < recovery_point {
        let last = segments.last().map(|segment| segment.path(FileKind::Log).display().to_string());
        return Err(Damage::Files(format!(
            "{}: the log ends at offset {end_offset}, before the recovery point {recovery_point}",
            last.unwrap_or_default()
        )));
    }
    let Some(active) = active else { return Err(Damage::Files("a log without segments".to_owned())) };
    Ok(Recovered { end_offset, active, epochs, segments })
}

fn malformed(segment: &Segment, cause: &str) -> Damage {
    Damage::Files(format!("{}: {cause}", segment.path(FileKind::Log).display()))
}

fn refused(segment: &Segment, error: &io::Error) -> Damage {
    Damage::io(&segment.path(FileKind::Log), error)
}

/// The walk over one segment.
struct Walk<'a> {
    env: &'a Env,
    segment: &'a Arc<Segment>,
    later: &'a [Arc<Segment>],
    recovery_point: Offset,
    interval_bytes: u32,
}

struct Walked {
    end_offset: Offset,
    builder: IndexBuilder,
    is_cut: bool,
}

impl Walk<'_> {
    fn run(&self, mut end_offset: Offset, epochs: &mut Vec<(LeaderEpoch, Offset)>) -> Result<Walked, Damage> {
        let fail = |error: io::Error| refused(self.segment, &error);
        let segment = self.segment;
        let size = u64::from(segment.size());
        let file = segment.open(self.env, FileKind::Log).map_err(fail)?;
        let kept = self.kept_indexes(&*file).map_err(fail)?;
        let from = kept.offsets.last().map_or(0, |entry| u64::from(entry.position));
        let mut builder = IndexBuilder::new(segment.base_offset, self.interval_bytes, kept);
        let mut scan = Scan::new(&*file, from, size, WINDOW_LARGE_BYTES);
        let mut first = from > 0;
        let mut is_cut = false;
        // The last batch that was not verified, until one follows it.
        let mut trusted: Option<Located> = None;
        loop {
            let position = scan.position();
            match self.next_batch(&mut scan, end_offset) {
                Ok(None) => break,
                Ok(Some(batch)) => {
                    self.check_place(&batch, end_offset)?;
                    let led = trusted.replace(batch).filter(|_| batch.header.base_offset != end_offset);
                    if self.is_new(&batch) {
                        trusted = None;
                        self.check_trusted(&mut scan, led)?;
                    }
                    // The batch of the last entry that was kept is in the index already.
                    if std::mem::take(&mut first) {
                        builder.since = batch.header.total_bytes() as u64;
                    } else {
                        builder.add(&batch);
                    }
                    let epoch = batch.header.leader_epoch;
                    if epochs.last().is_none_or(|(last, _)| epoch > *last) {
                        epochs.push((epoch, batch.header.base_offset));
                    }
                    end_offset = batch.header.last_offset() + 1;
                }
                Err(ScanError::Io(error)) => return Err(fail(error)),
                Err(ScanError::Invalid { cause, .. }) => {
                    self.check_trusted(&mut scan, trusted.take())?;
                    is_cut = self.cut_torn_tail(&*file, position, end_offset, &cause)?;
                    break;
                }
            }
        }
        self.check_trusted(&mut scan, trusted)?;
        segment.set_largest(builder.largest);
        if !self.later.is_empty() && !is_cut {
            builder.push_largest();
        }
        match builder.write(self.env, segment) {
            // A full disk must not keep a log from serving; what has no room now is built later.
            Err(error) if is_full(&error) => segment.note_damaged_index(),
            other => other.map_err(fail)?,
        }
        Ok(Walked { end_offset, builder, is_cut })
    }

    /// The part of the indexes that speaks of offsets before the recovery point, if the batches agree with its end.
    fn kept_indexes(&self, file: &dyn disk::DiskFile) -> io::Result<Kept> {
        let segment = self.segment;
        if segment.base_offset >= self.recovery_point {
            return Ok(Kept::default());
        }
        let kept = Kept::read(self.env, segment, self.recovery_point)?;
        let Some(entry) = kept.offsets.last() else { return Ok(kept) };
        let mut scan = Scan::new(file, u64::from(entry.position), u64::from(segment.size()), WINDOW_SMALL_BYTES);
        match scan.next() {
            Ok(Some(batch))
                if batch.header.base_offset >= segment.base_offset
                    && batch.header.last_offset() <= segment.base_offset + i64::from(entry.relative_offset) =>
            {
                Ok(kept)
            }
            Err(ScanError::Io(error)) => Err(error),
            _ => Ok(Kept::default()),
        }
    }

    /// Whether a batch is to be verified. Those before the recovery point were durable when it was written down; they only
    /// lead to it.
    fn is_new(&self, batch: &Located) -> bool {
        batch.header.last_offset() >= self.recovery_point && !is_planted(PlantedBug::TornTailTrusted)
    }

    fn next_batch(&self, scan: &mut Scan<'_>, end_offset: Offset) -> Result<Option<Located>, ScanError> {
        let Some(batch) = scan.next()? else { return Ok(None) };
        if self.is_new(&batch) || !self.is_in_place(&batch, end_offset) {
            scan.verify(&batch)?;
        }
        Ok(Some(batch))
    }

    /// Refuses to go on, or to cut, behind the last batch before the recovery point if it is not what it was, where no other
    /// one follows it closely. Its length is no part of the checksum: where that is damaged, what seems to come next lies in
    /// the middle of valid batches, or behind them.
    fn check_trusted(&self, scan: &mut Scan<'_>, trusted: Option<Located>) -> Result<(), Damage> {
        let Some(batch) = trusted.filter(|_| !is_planted(PlantedBug::TornTailTrusted)) else { return Ok(()) };
        scan.verify(&batch).map_err(|error| Damage::scan(self.segment, &error))
    }

    /// Whether a batch's offsets follow `end_offset` and lie before those of the next segment.
    fn is_in_place(&self, batch: &Located, end_offset: Offset) -> bool {
        let last_offset = batch.header.last_offset();
        batch.header.base_offset >= end_offset
            && relative(last_offset, self.segment.base_offset).is_some()
            && self.later.first().is_none_or(|next| last_offset < next.base_offset)
    }

    /// Refuses a batch whose checksum is right and whose offsets are not. The base offset is no part of the checksum: if
    /// it is what is damaged, cutting here, or from the next batch on, would lose what is valid.
    fn check_place(&self, batch: &Located, end_offset: Offset) -> Result<(), Damage> {
        if self.is_in_place(batch, end_offset) {
            return Ok(());
        }
        let path = self.segment.path(FileKind::Log);
        let (first, last) = (batch.header.base_offset, batch.header.last_offset());
        let next = self.later.first().map_or(String::new(), |next| format!(", or goes beyond {}", next.base_offset));
        Err(Damage::Files(format!(
            "{}: a valid batch with offsets {first} to {last} at position {} does not follow offset {end_offset}{next}",
            path.display(),
            batch.position
        )))
    }

    /// Whether batches are missing between this segment and the next. A segment that is closed is followed by one that
    /// begins at its end; compaction leaves gaps only where the recovery point has been written down past them, and a
    /// follower only where an offset would be too far from the segment's base.
    fn has_lost_its_end(&self, end_offset: Offset) -> Result<bool, Damage> {
        let Some(next) = self.later.first() else { return Ok(false) };
        let gap = next.base_offset - end_offset;
        if gap <= 0 || gap > i64::from(i32::MAX) || next.base_offset <= self.recovery_point {
            return Ok(false);
        }
        let path = self.segment.path(FileKind::Log);
        let cause = format!("offsets {end_offset} to {} are missing", next.base_offset - 1);
        let damage = |why: String| Damage::Files(format!("{}: {cause}; {why}", path.display()));
        self.check_nothing_follows(end_offset, &damage)?;
        tracing::warn!(
            file = %path.display(), offset = end_offset, position = self.segment.size(), %cause,
            "a torn tail is cut off: the segments after it are empty"
        );
        Ok(true)
    }

    /// Refuses to cut anything if a later segment has a valid batch.
    fn check_nothing_follows(&self, end_offset: Offset, damage: &dyn Fn(String) -> Damage) -> Result<(), Damage> {
        for later in self.later {
            let file = later.open(self.env, FileKind::Log).map_err(|error| damage(error.to_string()))?;
            let found = find_valid_batch(&*file, 0, u64::from(later.size()), end_offset)
                .map_err(|error| damage(error.to_string()))?;
            if found.is_some() {
                return Err(damage(format!("a valid batch follows in {}", later.path(FileKind::Log).display())));
            }
        }
        Ok(())
    }

    /// Cuts the segment at `position`, unless that would lose something valid. Tells whether the log ends there.
    fn cut_torn_tail(
        &self,
        file: &dyn disk::DiskFile,
        position: u64,
        end_offset: Offset,
        cause: &str,
    ) -> Result<bool, Damage> {
        let path = self.segment.path(FileKind::Log);
        let size = u64::from(self.segment.size());
        let damage = |why: String| {
            Damage::Files(format!(
                "{}: damaged at position {position}, offset {end_offset}: {cause}; {why}",
                path.display()
            ))
        };
        if end_offset < self.recovery_point {
            return Err(damage(format!("this is before the recovery point {}", self.recovery_point)));
        }
        let found =
            find_valid_batch(file, position + 1, size, end_offset).map_err(|error| damage(error.to_string()))?;
        if let Some(found) = found {
            let (offset, position) = (found.header.base_offset, found.position);
            return Err(damage(format!("a valid batch with offset {offset} follows at position {position}")));
        }
        // Where the next segment goes on without a gap, nothing is missing: a write that was refused left its traces.
        let is_end = self.later.first().is_none_or(|next| next.base_offset != end_offset);
        if is_end {
            self.check_nothing_follows(end_offset, &damage)?;
        }
        tracing::warn!(
            file = %path.display(), offset = end_offset, position, cut_bytes = size - position, %cause,
            "a torn tail is cut off"
        );
        let cut = file.set_len(position).and_then(|()| self.env.sync(file, &path));
        cut.map_err(|error| damage(error.to_string()))?;
        self.segment.note_cut(position as u32);
        Ok(is_end)
    }
}

/// Builds the indexes of a closed segment anew from its headers.
pub(super) fn rebuild_indexes(env: &Env, segment: &Arc<Segment>, interval_bytes: u32) -> Result<(), Damage> {
    let mut builder = IndexBuilder::new(segment.base_offset, interval_bytes, Kept::default());
    let file = segment.open(env, FileKind::Log).map_err(|error| refused(segment, &error))?;
    let mut scan = Scan::new(&*file, 0, u64::from(segment.size()), WINDOW_LARGE_BYTES);
    while let Some(batch) = scan.next().map_err(|error| Damage::scan(segment, &error))? {
        builder.add(&batch);
    }
    builder.push_largest();
    segment.set_largest(builder.largest);
    builder.write(env, segment).map_err(|error| refused(segment, &error))
}

/// The growing end of an index whose file is whole.
pub(super) fn open_growing<E: Entry>(env: &Env, segment: &Arc<Segment>, kind: FileKind) -> io::Result<Growing<E>> {
    let len = match env.disk.stat(&segment.path(kind)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        other => other?.len,
    };
    let count = u32::try_from(len / E::BYTES as u64).unwrap_or(u32::MAX);
    // The file is opened only if there is something in it.
    let Some(last) = count.checked_sub(1) else { return Ok(Growing::default()) };
    let file = segment.open(env, kind)?;
    Ok(Growing::new(count, Some(index::entry_at(&*file, last)?)))
}

/// Walks over the headers of all batches.
pub(super) fn each_batch(env: &Env, segments: &[Arc<Segment>], mut visit: impl FnMut(&Located)) -> Result<(), Damage> {
    for segment in segments {
        let file = segment.open(env, FileKind::Log).map_err(|error| refused(segment, &error))?;
        let mut scan = Scan::new(&*file, 0, u64::from(segment.size()), WINDOW_LARGE_BYTES);
        while let Some(batch) = scan.next().map_err(|error| Damage::scan(segment, &error))? {
            visit(&batch);
        }
    }
    Ok(())
}

/// Takes all batches from `from` on into the producers' states. Gives the transactions that were aborted, with the
/// segment in which they ended.
pub(super) fn replay_producers(
    env: &Env,
    segments: &[Arc<Segment>],
    from: Offset,
    states: &mut ProducerStates,
) -> Result<Vec<(Offset, AbortedTransaction)>, Damage> {
    let mut aborted = Vec::new();
    let first = segments.partition_point(|segment| segment.base_offset <= from).saturating_sub(1);
    for segment in segments.get(first..).unwrap_or_default() {
        let fail = |error: ScanError| Damage::scan(segment, &error);
        let size = segment.size();
        let start = match segment.locate(env, from, size, None).map_err(fail)? {
            Some(batch) => batch.position,
            None => continue,
        };
        let file = segment.open(env, FileKind::Log).map_err(|error| refused(segment, &error))?;
        let mut scan = Scan::new(&*file, start, u64::from(size), WINDOW_LARGE_BYTES);
        while let Some(batch) = scan.next().map_err(fail)? {
            if batch.header.last_offset() < from || !batch.header.has_producer_id() {
                continue;
            }
            let marker = if batch.header.is_control() {
                read_marker(&*file, &batch).map_err(|cause| malformed(segment, &cause))?
            } else {
                None
            };
            if let Some(entry) = producers::apply(states, &batch.header, marker.as_ref()) {
                aborted.push((segment.base_offset, entry));
            }
        }
    }
    Ok(aborted)
}

/// Brings the index of aborted transactions of each segment to what was found past the recovery point.
pub(super) fn restore_aborted(
    env: &Env,
    segments: &[Arc<Segment>],
    recovery_point: Offset,
    found: &[(Offset, AbortedTransaction)],
) -> Result<(), Damage> {
    let first = segments.partition_point(|segment| segment.base_offset <= recovery_point).saturating_sub(1);
    for segment in segments.get(first..).unwrap_or_default() {
        let fail = |error: io::Error| refused(segment, &error);
        let path = segment.path(FileKind::TxnIndex);
        let before = match env.disk.open(&path, disk::OpenMode::Read) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            other => Some(other.map_err(fail)?.len().map_err(fail)?),
        };
        let of_segment = |entry: &&(Offset, AbortedTransaction)| entry.0 == segment.base_offset;
        let is_past = |entry: &&(Offset, AbortedTransaction)| entry.1.last_offset >= recovery_point;
        if before.is_none() && !found.iter().filter(of_segment).any(|entry| is_past(&entry)) {
            continue;
        }
        let kept = match before {
            // Entries past the recovery point are written anew, and those that a crash has torn with them.
            Some(_) => index::read_aborted_before(&*env.disk, &path, recovery_point).map_err(fail)?,
            None => Vec::new(),
        };
        let mut bytes = Vec::new();
        let past = found.iter().filter(of_segment).filter(is_past).map(|(_, entry)| entry);
        kept.iter().chain(past).for_each(|entry| entry.encode(&mut bytes));
        disk::replace_file(&*env.disk, &path, &bytes).map_err(fail)?;
    }
    Ok(())
}

fn read_marker(
    file: &dyn disk::DiskFile,
    batch: &Located,
) -> Result<Option<taffrail_core::record::EndTransactionMarker>, String> {
    let bytes = batch.header.total_bytes();
    if bytes > CONTROL_BATCH_BYTES_MAX {
        return Err(format!("a control batch of {bytes} bytes at position {}", batch.position));
    }
    let mut buffer = vec![0; bytes];
    disk::read_exact_at(file, &mut buffer, batch.position).map_err(|error| error.to_string())?;
    let view = BatchRef::parse(&buffer).map_err(|error| error.to_string())?;
    producers::marker_of(view)
}
