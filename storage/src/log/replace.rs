//! What compaction needs of a log: its closed segments, and putting a new one in the place of some of them.

use std::path::PathBuf;
use std::sync::Arc;

use taffrail_core::ids::Offset;

use super::Log;
use crate::compaction::{Cleaned, CompactionError, rename_segment};
use crate::disk;
use crate::names::{CLEANED, DELETED, FileKind, SEGMENT_FILES, SWAP, segment_path};
use crate::segment::Segment;

impl Log {
    /// All segments but the active one.
    pub(crate) fn closed_segments(&self) -> Vec<Arc<Segment>> {
        let segments = self.segments.read();
        segments[..segments.len() - 1].to_vec()
    }

    /// Where the active segment begins.
    pub(crate) fn active_base_offset(&self) -> Offset {
        self.tail.lock().base_offset
    }

    /// The last offset of each producer that is remembered, in order.
    pub(crate) fn last_producer_offsets(&self) -> Vec<Offset> {
        let writer = self.writer.lock();
        let mut offsets: Vec<_> =
            writer.producers.snapshot().iter().filter_map(|state| state.last_batch()).map(|b| b.last_offset).collect();
        offsets.sort_unstable();
        offsets
    }

    /// Puts a segment that was written anew in the place of its sources. Gives the files that are no longer part of the
    /// log.
    pub(crate) fn replace_segments(&self, cleaned: &Cleaned) -> Result<Vec<PathBuf>, CompactionError> {
        let failed = |source| CompactionError::Io { file: self.dir.display().to_string(), source };
        let disk = &*self.env.disk;
        // The writer lock keeps retention and cuts away.
        let _writer = self.writer.lock();
        let mut segments = self.segments.write();
        let first = segments.iter().position(|segment| segment.base_offset == cleaned.base_offset);
        let range = first.map(|first| first..first + cleaned.sources.len());
        let is_unchanged = range.clone().and_then(|range| segments.get(range)).is_some_and(|current| {
            current.iter().zip(&cleaned.sources).all(|(current, source)| Arc::ptr_eq(current, source))
        });
        let Some(range) = range.filter(|_| is_unchanged && !self.is_deleted()) else {
            return Err(CompactionError::Changed);
        };
        rename_segment(disk, &self.dir, cleaned.base_offset, CLEANED, SWAP).map_err(failed)?;
        disk.sync_dir(&self.dir).map_err(failed)?;
        let mut removed = Vec::new();
        for source in &cleaned.sources {
            source.rename_all(&self.env, DELETED).map_err(failed)?;
            removed.extend(SEGMENT_FILES.map(|kind| segment_path(&self.dir, source.base_offset, kind, DELETED)));
            if source.base_offset != cleaned.base_offset {
                let snapshot = segment_path(&self.dir, source.base_offset, FileKind::Snapshot, "");
                disk::remove_if_exists(disk, &snapshot).map_err(failed)?;
            }
        }
        rename_segment(disk, &self.dir, cleaned.base_offset, SWAP, "").map_err(failed)?;
        disk.sync_dir(&self.dir).map_err(failed)?;
        let modified_ms = cleaned.sources.last().map_or(0, |source| source.modified_ms());
        let segment = Segment::existing(Arc::clone(&self.dir), cleaned.base_offset, cleaned.size, modified_ms);
        segments.splice(range, [segment]);
        self.tail.lock().forget_stops();
        Ok(removed)
    }
}
