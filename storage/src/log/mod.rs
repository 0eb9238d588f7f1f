//! The log of one partition.
//!
//! Three short locks, never held across an await: `writer` (appends, one after the other, with the write to the page
//! cache), `tail` (what readers need to know of the growing end; never held over a call to the disk) and `segments`.
//! Readers take only the last two, so they do not wait for a write. The order is writer, then segments, then tail.

use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::{Mutex, RwLock};
use taffrail_core::ids::{LeaderEpoch, Offset, TopicId, TopicPartition};
use taffrail_core::partition::{EpochEntry, EpochHistory, ProducerStates};
use taffrail_core::planted::{PlantedBug, is_planted};

use crate::env::Env;
use crate::error::Reason;
use crate::index::AbortedTransaction;
use crate::options::LogOptions;
use crate::segment::Segment;

mod append;
mod append_each;
mod borders;
mod cut;
mod flush;
#[cfg(test)]
mod follower_tests;
mod open;
mod producers;
mod read;
mod recover;
mod replace;
mod roll;
mod tail;
#[cfg(test)]
mod tests;
mod time;

pub use append::Appended;
pub(crate) use open::{Found, Trust};
pub use read::{FileRange, LogRead};
pub(crate) use recover::IndexBuilder;
pub use time::TimestampedOffset;

use flush::FlushState;
use tail::Tail;

/// The log of one partition. See the module for how it is locked.
pub struct Log {
    env: Arc<Env>,
    me: Weak<Self>,
    partition: TopicPartition,
    topic_id: TopicId,
    dir: Arc<Path>,
    options: RwLock<Arc<LogOptions>>,
    writer: Mutex<Writer>,
    segments: RwLock<Vec<Arc<Segment>>>,
    tail: Mutex<Tail>,
    end_offset: AtomicI64,
    log_start_offset: AtomicI64,
    high_watermark: AtomicI64,
    flush: FlushState,
    offline: OnceLock<Reason>,
    deleted: AtomicBool,
    /// Whether someone has said which settings the log has. Until then nothing may be removed from it.
    is_configured: AtomicBool,
    /// Whether the log is on the list of changed logs.
    is_noted: AtomicBool,
    observer: RwLock<Option<Weak<dyn LogObserver>>>,
    /// The high watermark that had been written down before it was opened.
    written_high_watermark: Offset,
    /// Whether the log is offline only because the disk refused, when it was opened, for a reason that passes.
    may_open_later: bool,
}

/// Hears what happens to a log without anyone who reads or writes having asked. It is called with locks of the log held, so
/// it must not call the log.
pub trait LogObserver: Send + Sync {
    /// The log begins at another offset.
    fn start_moved(&self);

    /// The log does not serve any more.
    fn went_offline(&self);
}

/// What only the appender needs.
struct Writer {
    end_offset: Offset,
    active: Arc<Segment>,
    position: u32,
    bytes_since_index: u64,
    /// Timestamp of the first batch of the active segment, by which it is closed; looked up when needed.
    first_timestamp: Option<i64>,
    created_ms: i64,
    jitter_ms: i64,
    producers: ProducerStates,
    epochs: EpochHistory,
    /// Whether the epochs changed since they were written down.
    epochs_changed: bool,
    /// Aborted transactions of the active segment that are not in its index file yet.
    aborted: Vec<AbortedTransaction>,
}

/// Where a log begins and ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogOffsets {
    /// First offset that can be read.
    pub log_start_offset: Offset,
    /// Up to where readers of the leader may see.
    pub high_watermark: Offset,
    /// Offset of the next record.
    pub end_offset: Offset,
    /// Up to where the log is known to be on disk.
    pub flushed_offset: Offset,
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Log").field("partition", &self.partition).field("offsets", &self.offsets()).finish()
    }
}

impl Log {
    /// Which partition this is.
    pub fn partition(&self) -> &TopicPartition {
        &self.partition
    }

    /// The id of the topic.
    pub fn topic_id(&self) -> TopicId {
        self.topic_id
    }

    /// Where the partition's files are.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Where the log begins and ends.
    pub fn offsets(&self) -> LogOffsets {
        let end_offset = self.end_offset.load(Ordering::Acquire);
        LogOffsets {
            log_start_offset: self.log_start_offset.load(Ordering::Acquire),
            high_watermark: self.high_watermark(),
            end_offset,
            flushed_offset: self.flush.flushed(),
        }
    }

    /// Offset of the next record.
    pub fn end_offset(&self) -> Offset {
        self.end_offset.load(Ordering::Acquire)
    }

    /// First offset that can be read.
    pub fn log_start_offset(&self) -> Offset {
        self.log_start_offset.load(Ordering::Acquire)
    }

    /// Up to where readers may see, as it was set last; written down now and then.
    pub fn high_watermark(&self) -> Offset {
        self.high_watermark.load(Ordering::Acquire)
    }

    /// Sets up to where readers may see, also to less than before; kept within the log.
    #[cfg(test)]
    pub(crate) fn set_high_watermark(&self, offset: Offset) {
        let clamped = offset.clamp(self.log_start_offset(), self.end_offset());
        if self.high_watermark.swap(clamped, Ordering::AcqRel) != clamped {
            self.note_changed();
        }
    }

    /// Raises up to where readers may see to `offset`, kept within the log; never lowers it. Whoever calls this must keep cuts
    /// of the log away. Gives what it was before and what it is now.
    pub fn advance_high_watermark(&self, offset: Offset) -> (Offset, Offset) {
        let clamped = offset.min(self.end_offset());
        let before = self.high_watermark.fetch_max(clamped, Ordering::AcqRel);
        if before < clamped {
            self.note_changed();
        }
        (before, before.max(clamped))
    }

    /// First offset of the oldest open transaction, if one is open.
    pub fn first_open_transaction(&self) -> Option<Offset> {
        self.writer.lock().producers.first_open_offset()
    }

    /// The high watermark that had been written down before the log was opened. What is missing before it was committed: the
    /// disk has lost it.
    pub fn written_high_watermark(&self) -> Offset {
        self.written_high_watermark
    }

    /// Why the partition does not serve, if so.
    pub fn offline(&self) -> Option<&Reason> {
        self.offline.get()
    }

    /// Whether the log is offline only because the disk refused for a reason that passes: opening it anew may help.
    pub(crate) fn may_open_later(&self) -> bool {
        self.may_open_later
    }

    /// Whether the partition was deleted.
    pub fn is_deleted(&self) -> bool {
        self.deleted.load(Ordering::Acquire)
    }

    /// Bytes of all segments.
    pub fn size_bytes(&self) -> u64 {
        self.segments.read().iter().map(|segment| u64::from(segment.size())).sum()
    }

    /// Number of segments.
    pub fn segment_count(&self) -> usize {
        self.segments.read().len()
    }

    /// Number of producers that are remembered.
    pub fn producer_count(&self) -> usize {
        self.writer.lock().producers.len()
    }

    /// The settings in force.
    pub fn options(&self) -> Arc<LogOptions> {
        Arc::clone(&self.options.read())
    }

    /// Puts other settings in force.
    pub fn set_options(&self, options: impl Into<Arc<LogOptions>>) {
        *self.options.write() = options.into();
        self.is_configured.store(true, Ordering::Release);
        self.note_changed();
    }

    /// Whether someone has said which settings the log has.
    pub(crate) fn is_configured(&self) -> bool {
        self.is_configured.load(Ordering::Acquire)
    }

    /// The newest leader epoch that wrote to this log.
    pub fn latest_epoch(&self) -> Option<LeaderEpoch> {
        self.writer.lock().epochs.latest().map(|entry| entry.epoch)
    }

    /// Its leader is at `epoch` from here on: whoever asks may know it before a record tells.
    pub fn begin_epoch(&self, epoch: LeaderEpoch) {
        let mut writer = self.writer.lock();
        let end_offset = writer.end_offset;
        writer.epochs_changed |= writer.epochs.assign(epoch, end_offset);
        if is_planted(PlantedBug::ProducersLostOnFailover) {
            writer.producers.clear();
        }
    }

    /// All leader epochs with their first offsets.
    pub fn epochs(&self) -> Vec<EpochEntry> {
        self.writer.lock().epochs.entries().to_vec()
    }

    /// The largest epoch not above `epoch` and the offset where it ends; (-1, -1) if nothing is known of it.
    pub fn epoch_end(&self, epoch: LeaderEpoch) -> (LeaderEpoch, Offset) {
        let writer = self.writer.lock();
        writer.epochs.end_offset_for(epoch, writer.end_offset)
    }

    /// The leader epoch that wrote the record at `offset`.
    pub fn epoch_of(&self, offset: Offset) -> Option<LeaderEpoch> {
        self.writer.lock().epochs.epoch_of(offset)
    }

    /// Has `observer` hear of the log, instead of the one before.
    pub fn observe(&self, observer: Weak<dyn LogObserver>) {
        *self.observer.write() = Some(observer);
    }

    fn tell_observer(&self, tell: impl FnOnce(&dyn LogObserver)) {
        let observer = self.observer.read().as_ref().and_then(Weak::upgrade);
        if let Some(observer) = observer {
            tell(&*observer);
        }
    }

    /// Takes the partition offline: it is damaged, and serving it could show wrong data.
    pub(crate) fn take_offline(&self, reason: impl Into<Reason>) -> Reason {
        let reason = reason.into();
        if self.offline.set(Arc::clone(&reason)).is_ok() {
            tracing::error!(partition = %self.partition, %reason, "the partition is offline");
            self.tell_observer(|observer| observer.went_offline());
        }
        self.offline.get().cloned().unwrap_or(reason)
    }

    /// Puts the log on the list of those that maintenance looks at in its next round.
    fn note_changed(&self) {
        if !self.is_noted.swap(true, Ordering::AcqRel) {
            self.env.note_changed(Weak::clone(&self.me));
        }
    }

    /// Takes the log off that list.
    pub(crate) fn take_note(&self) {
        self.is_noted.store(false, Ordering::Release);
    }

    /// The segment that contains `offset`, or would, and the one after it.
    fn segment_at(&self, offset: Offset) -> Option<(Arc<Segment>, Option<Arc<Segment>>)> {
        let segments = self.segments.read();
        let after = segments.partition_point(|segment| segment.base_offset <= offset);
        let at = segments.get(after.checked_sub(1)?)?;
        Some((Arc::clone(at), segments.get(after).cloned()))
    }
}
