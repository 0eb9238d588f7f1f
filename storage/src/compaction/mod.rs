//! Compaction by key: of each key, only the newest record stays, at its offset.
//!
//! A log is compacted up to a point and dirty behind it. A pass reads the keys of the dirty part into a map of bounded
//! size, and then writes all closed segments up to there anew, without what the map has overtaken. The rules are Kafka's
//! (`Cleaner`): offsets stay, tombstones stay for a time, and the last batch of a producer that may still write stays, if
//! only empty.

use std::path::PathBuf;
use std::sync::Arc;

use taffrail_core::ids::Offset;

use crate::checkpoint::{CLEANER, GAPS, RECOVERY_POINTS};
use crate::log::Log;
use crate::options::LogOptions;
use crate::segment::Segment;
use crate::storage::Storage;

mod filter;
mod map;
mod pass;
mod swap;

pub(crate) use pass::{Cleaned, CompactionError};
pub(crate) use swap::{finish_swaps, rename_segment};

use filter::Filter;
use map::KeyMap;
use pass::{Pass, remove_cleaned};

/// What a pass did.
#[derive(Debug, Default)]
pub(crate) struct Compacted {
    /// Files that are no longer part of the log and can be removed after a while.
    pub(crate) removed: Vec<PathBuf>,
    /// Whether something is left that a later pass can do without new records.
    pub(crate) look_again: bool,
}

/// The closed segments that may be compacted, and where the dirty part begins.
struct Plan {
    segments: Vec<Arc<Segment>>,
    first_dirty: Offset,
}

impl Storage {
    /// Compacts a log, if it is worth it. Waits for the disk and computes a lot: runs on a pool of its own.
    pub(crate) fn compact(&self, log: &Arc<Log>, now_ms: i64) -> Result<Compacted, CompactionError> {
        let options = log.options();
        if !options.compact || log.is_deleted() || log.offline().is_some() || self.env.fenced().is_some() {
            return Ok(Compacted::default());
        }
        let Some(plan) = self.plan(log, &options, now_ms)? else { return Ok(Compacted::default()) };
        // Compaction leaves gaps, and a start after a crash takes gaps past the recovery point for damage.
        let closed_to = log.active_base_offset();
        let recovery_point = log.recovery_point();
        if recovery_point < closed_to {
            return Ok(Compacted { look_again: true, ..Compacted::default() });
        }
        if self.env.recovery_points.get(log.partition()).is_none_or(|written| written < closed_to) {
            let written = self.write_recovery_points(&[Arc::clone(log)]);
            written.map_err(|source| CompactionError::Io { file: RECOVERY_POINTS.to_owned(), source })?;
        }
        let noted = self.env.note_gaps(log.partition(), closed_to);
        noted.map_err(|source| CompactionError::Io { file: GAPS.to_owned(), source })?;
        let producers = log.last_producer_offsets();
        let pass = Pass {
            env: &self.env,
            dir: log.dir(),
            interval_bytes: options.index_interval_bytes,
            producers: &producers,
        };
        let mut map = KeyMap::new(self.options.compaction_map_bytes);
        let dirty_from = plan.segments.partition_point(|segment| segment.base_offset <= plan.first_dirty).max(1) - 1;
        let end_offset = pass.fill(&plan.segments[dirty_from..], plan.first_dirty, &mut map)?;
        let filter = Filter { map: &map, now_ms, delete_retention_ms: options.delete_retention_ms };
        let mut done = Compacted::default();
        let before: u64 = plan.segments.iter().map(|segment| u64::from(segment.size())).sum();
        let mut after = 0;
        for group in group(&plan.segments, options.segment_bytes, end_offset) {
            let cleaned = pass.clean(group, &filter, end_offset).inspect_err(|_| {
                remove_cleaned(&*self.env.disk, log.dir(), group.first().map_or(0, |first| first.base_offset));
            })?;
            after += u64::from(cleaned.size);
            done.removed.extend(log.replace_segments(&cleaned)?);
        }
        self.cleaned_to.set(log.partition(), end_offset);
        let written = self.cleaned_to.write(&*self.env.disk, &self.env.reserve);
        written.map_err(|source| CompactionError::Io { file: CLEANER.to_owned(), source })?;
        done.look_again = plan.segments.last().is_some_and(|last| last.base_offset >= end_offset);
        tracing::info!(partition = %log.partition(), before_bytes = before, after_bytes = after, end_offset, "compacted");
        Ok(done)
    }

    /// What to compact; `None` when it is not worth it.
    fn plan(&self, log: &Arc<Log>, options: &LogOptions, now_ms: i64) -> Result<Option<Plan>, CompactionError> {
        let mut segments = log.closed_segments();
        let stable = log.first_open_transaction().unwrap_or(i64::MAX).min(log.high_watermark());
        let too_young_ms = now_ms.saturating_sub(options.min_compaction_lag_ms);
        let mut count = 0;
        for segment in &segments {
            let largest = segment.largest(&self.env).map_err(|error| CompactionError::Batch {
                file: log.dir().display().to_string(),
                position: 0,
                cause: error.to_string(),
            })?;
            let is_too_young =
                options.min_compaction_lag_ms > 0 && largest.is_some_and(|largest| largest.timestamp > too_young_ms);
            if is_too_young || segment.base_offset >= stable {
                break;
            }
            count += 1;
        }
        segments.truncate(count);
        let Some(first) = segments.first() else { return Ok(None) };
        let cleaned_to = self.cleaned_to.get(log.partition()).unwrap_or(0);
        // After a cut at the end, what was clean before may have been written anew.
        let first_dirty = cleaned_to.clamp(first.base_offset, log.end_offset());
        let bytes =
            |segments: &mut dyn Iterator<Item = &Arc<Segment>>| segments.map(|s| f64::from(s.size())).sum::<f64>();
        let dirty = bytes(&mut segments.iter().filter(|segment| segment.base_offset >= first_dirty));
        let all = bytes(&mut segments.iter());
        let oldest_dirty = segments.iter().find(|segment| segment.base_offset >= first_dirty);
        let is_overdue = options.max_compaction_lag_ms != i64::MAX
            && oldest_dirty.is_some_and(|s| s.modified_ms() < now_ms.saturating_sub(options.max_compaction_lag_ms));
        let is_worth_it = dirty > 0.0 && (is_overdue || dirty / all >= options.min_cleanable_dirty_ratio);
        Ok(is_worth_it.then_some(Plan { segments, first_dirty }))
    }
}

/// Neighbouring segments that together are no larger than one, as far as `end_offset`.
fn group(segments: &[Arc<Segment>], segment_bytes: u32, end_offset: Offset) -> Vec<&[Arc<Segment>]> {
    let count = segments.partition_point(|segment| segment.base_offset < end_offset);
    let mut groups = Vec::new();
    let mut rest = &segments[..count];
    while let Some(first) = rest.first() {
        let mut bytes = 0_u64;
        let fits = |segment: &&Arc<Segment>| {
            bytes += u64::from(segment.size());
            bytes <= u64::from(segment_bytes)
                && crate::index::relative(segment.base_offset, first.base_offset)
                    .is_some_and(|r| r < i32::MAX as u32 / 2)
        };
        let size = rest.iter().take_while(fits).count().max(1);
        let (group, others) = rest.split_at(size);
        groups.push(group);
        rest = others;
    }
    groups
}

#[cfg(test)]
mod tests;
