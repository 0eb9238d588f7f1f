//! What a reader meets when files are not there any more, or not whole: a gap between two segments, a segment without its
//! file. Only what nobody moves just now counts: that is looked at once more while the writer, who moves segments, is held.

use std::sync::Arc;

use taffrail_core::ids::Offset;

use super::Log;
use crate::error::ReadError;
use crate::names::FileKind;
use crate::scan::ScanError;
use crate::segment::Segment;

/// What went wrong in which segment.
pub(super) struct Met {
    pub(super) segment: Arc<Segment>,
    pub(super) error: ScanError,
}

impl Met {
    /// For `map_err` of what reads `segment`.
    pub(super) fn in_segment<E: Into<ScanError>>(segment: &Arc<Segment>) -> impl Fn(E) -> Self + '_ {
        move |error| Self { segment: Arc::clone(segment), error: error.into() }
    }

    /// Whether the segment was taken away, or another file put under its name.
    pub(super) fn is_gone(&self) -> bool {
        let ScanError::Io(error) = &self.error else { return false };
        matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::UnexpectedEof)
    }
}

impl Log {
    /// Turns what a walk met into an answer. Batches that are not sound take the partition offline, as does a file that is
    /// gone; a segment that retention or compaction has taken away does not.
    pub(super) fn read_failed(&self, met: &Met) -> ReadError {
        let path = met.segment.path(FileKind::Log);
        match &met.error {
            ScanError::Invalid { .. } => {
                ReadError::Offline(self.take_offline(format!("{}: {}", path.display(), met.error)))
            }
            ScanError::Io(error) if met.is_gone() && self.is_lost(&met.segment) => {
                ReadError::Offline(self.take_offline(format!("{}: the file is gone, or cut: {error}", path.display())))
            }
            ScanError::Io(error) => ReadError::Io(format!("{}: {error}", path.display()).into()),
        }
    }

    /// Whether a segment belongs to the log, and its file does not have all of it.
    fn is_lost(&self, segment: &Arc<Segment>) -> bool {
        let _writer = self.writer.lock();
        if self.is_deleted() || !self.segments.read().iter().any(|current| Arc::ptr_eq(current, segment)) {
            return false;
        }
        match self.env.disk.stat(&segment.path(FileKind::Log)) {
            Ok(stat) => stat.len < u64::from(segment.size()),
            Err(error) => error.kind() == std::io::ErrorKind::NotFound,
        }
    }

    /// Refuses to go on from a segment to the next where offsets are missing in between: a segment ends where the next one
    /// begins. That does not hold where compaction has been, nor where an offset would be too far from the segment's base.
    /// Looks at the end of a segment once, and only when a reader gets there.
    pub(super) fn check_joined(&self, segment: &Arc<Segment>, next: &Arc<Segment>) -> Result<(), ScanError> {
        if segment.is_joined() {
            return Ok(());
        }
        let may_have_gaps = self.env.gaps.get(&self.partition).is_some_and(|gaps_to| next.base_offset <= gaps_to);
        if may_have_gaps || is_joined(segment.end_offset(&self.env)?, next.base_offset) {
            segment.note_joined();
            return Ok(());
        }
        // The end of the log may have been cut meanwhile, or the segment compacted.
        let _writer = self.writer.lock();
        let is_current = {
            let segments = self.segments.read();
            let pair = [segment, next];
            segments
                .windows(2)
                .any(|current| current.iter().zip(pair).all(|(current, same)| Arc::ptr_eq(current, same)))
        };
        if !is_current {
            return Err(std::io::Error::from(std::io::ErrorKind::NotFound).into());
        }
        let end_offset = segment.end_offset(&self.env)?;
        if is_joined(end_offset, next.base_offset) {
            return Ok(());
        }
        let (position, last, file) = (u64::from(segment.size()), next.base_offset - 1, next.path(FileKind::Log));
        let cause = format!("offsets {end_offset} to {last} are missing before {}", file.display());
        Err(ScanError::Invalid { position, cause })
    }
}

/// Whether a segment that begins at `next_base` goes on where one ends at `end_offset`.
fn is_joined(end_offset: Offset, next_base: Offset) -> bool {
    let gap = next_base - end_offset;
    gap == 0 || gap > i64::from(i32::MAX)
}
