//! Opening the log of a partition from its folder, or making one.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, RwLock};
use taffrail_core::ids::{LeaderEpoch, Offset, TopicId, TopicPartition};
use taffrail_core::partition::{EpochEntry, EpochHistory, ProducerStates};
use taffrail_core::planted::{PlantedBug, is_planted};

use super::flush::FlushState;
use super::recover::{self, Damage};
use super::tail::Tail;
use super::{Log, Writer, producers};
use crate::checkpoint;
use crate::clean_stop::{Mark, MarkedSegment};
use crate::disk;
use crate::env::Env;
use crate::index::Growing;
use crate::names::{CLEANED, DELETED, FileKind, LEADER_EPOCHS, SWAP, parse_segment_file, segment_path};
use crate::options::LogOptions;
use crate::segment::Segment;
use crate::snapshot;

/// How far the files of a partition can be trusted.
#[derive(Clone, Debug)]
pub(crate) enum Trust {
    /// The process stopped cleanly, and the mark says how it left the log.
    Clean(Mark),
    /// Everything before this offset was durable; what lies past it must be looked at.
    From(Offset),
}

impl Trust {
    /// Up to where the log was durable.
    fn durable_to(&self) -> Offset {
        match self {
            Self::Clean(mark) => mark.end_offset,
            Self::From(offset) => *offset,
        }
    }
}

/// A partition to open, with what is known about it beforehand.
pub(crate) struct Found {
    pub(crate) partition: TopicPartition,
    pub(crate) topic_id: TopicId,
    pub(crate) dir: Arc<Path>,
    pub(crate) options: Arc<LogOptions>,
    pub(crate) trust: Trust,
    /// The floor that `DeleteRecords` has set; 0 = none.
    pub(crate) log_start_offset: Offset,
    pub(crate) high_watermark: Offset,
}

/// Draws how much earlier than `segment.ms` a segment is closed.
pub(super) fn draw_jitter(options: &LogOptions) -> i64 {
    match u64::try_from(options.segment_jitter_ms) {
        Ok(jitter_ms) if jitter_ms > 0 => (taffrail_runtime::random::u64() % jitter_ms) as i64,
        _ => 0,
    }
}

/// What the folder of a partition holds.
#[derive(Default)]
struct Listing {
    logs: BTreeSet<Offset>,
    indexes: BTreeSet<Offset>,
    time_indexes: BTreeSet<Offset>,
    snapshots: BTreeSet<Offset>,
    /// Whether a compaction that was interrupted has been finished only now.
    is_swapped: bool,
    has_epochs: bool,
}

impl Listing {
    /// Whether no batch was ever written here, as far as the folder tells.
    fn is_empty(&self) -> bool {
        self.logs.is_empty() && self.indexes.is_empty() && self.snapshots.is_empty() && !self.has_epochs
    }

    /// Whether both indexes of a segment are there. A crash while a segment is being removed may leave one of them.
    fn has_indexes(&self, base_offset: Offset) -> bool {
        self.indexes.contains(&base_offset) && self.time_indexes.contains(&base_offset)
    }
}

/// The state of a log that was loaded.
struct Loaded {
    segments: Vec<Arc<Segment>>,
    end_offset: Offset,
    /// Up to where the log was already durable, with all that is needed to start from there.
    durable_to: Offset,
    log_start_offset: Offset,
    tail: Tail,
    bytes_since_index: u64,
    producers: ProducerStates,
    epochs: EpochHistory,
    epochs_changed: bool,
    /// Whether nothing was loaded because the disk refused for now.
    is_refused: bool,
}

impl Log {
    /// The log of a folder that was just made: it gets its first segment, and nothing is read.
    ///
    /// # Errors
    /// When the disk refuses.
    pub(crate) fn fresh(env: &Arc<Env>, found: Found, now_ms: i64) -> io::Result<Arc<Self>> {
        let loaded = Loaded::fresh(env, &found, now_ms)?;
        Ok(Self::assemble(env, found, loaded, now_ms))
    }

    /// Opens the log of a folder, which may be empty. Damage does not fail: it gives a log that is offline.
    pub(crate) fn open(env: &Arc<Env>, found: Found, now_ms: i64) -> Arc<Self> {
        match load(env, &found, now_ms) {
            Ok(loaded) => Self::assemble(env, found, loaded, now_ms),
            Err(damage) => {
                let mut nothing = Loaded::nothing(&found);
                nothing.is_refused = matches!(damage, Damage::Refused(_));
                let log = Self::assemble(env, found, nothing, now_ms);
                log.take_offline(damage.to_string());
                log
            }
        }
    }

    fn assemble(env: &Arc<Env>, found: Found, loaded: Loaded, now_ms: i64) -> Arc<Self> {
        let Some(active) = loaded.segments.last().cloned() else { unreachable!("a log has a segment") };
        active.set_origin(-i64::from(loaded.tail.position));
        let high_watermark = found.high_watermark.clamp(loaded.log_start_offset, loaded.end_offset);
        let writer = Writer {
            end_offset: loaded.end_offset,
            position: loaded.tail.position,
            active,
            bytes_since_index: loaded.bytes_since_index,
            first_timestamp: None,
            created_ms: now_ms,
            jitter_ms: draw_jitter(&found.options),
            producers: loaded.producers,
            epochs: loaded.epochs,
            epochs_changed: loaded.epochs_changed,
            aborted: Vec::new(),
        };
        Arc::new_cyclic(|me| Self {
            env: Arc::clone(env),
            me: me.clone(),
            partition: found.partition,
            topic_id: found.topic_id,
            dir: found.dir,
            options: RwLock::new(found.options),
            writer: Mutex::new(writer),
            segments: RwLock::new(loaded.segments),
            tail: Mutex::new(loaded.tail),
            end_offset: AtomicI64::new(loaded.end_offset),
            log_start_offset: AtomicI64::new(loaded.log_start_offset),
            high_watermark: AtomicI64::new(high_watermark),
            flush: FlushState::new(loaded.durable_to, true),
            offline: OnceLock::new(),
            deleted: AtomicBool::new(false),
            is_configured: AtomicBool::new(false),
            is_noted: AtomicBool::new(false),
            observer: RwLock::default(),
            written_high_watermark: found.high_watermark,
            may_open_later: loaded.is_refused,
        })
    }
}

impl Loaded {
    /// A log without batches, with the files of its first segment.
    fn fresh(env: &Arc<Env>, found: &Found, now_ms: i64) -> io::Result<Self> {
        let segment = Segment::create(env, Arc::clone(&found.dir), found.log_start_offset, now_ms)?;
        Ok(Self { segments: vec![segment], durable_to: 0, ..Self::nothing(found) })
    }

    /// Stands in for a log that could not be loaded.
    fn nothing(found: &Found) -> Self {
        let offset = found.log_start_offset;
        let segment = Segment::existing(Arc::clone(&found.dir), offset, 0, 0);
        Self {
            segments: vec![segment],
            end_offset: offset,
            durable_to: offset,
            log_start_offset: offset,
            tail: Tail::new(offset, offset, 0, Growing::default(), Growing::default()),
            bytes_since_index: 0,
            producers: ProducerStates::new(),
            epochs: EpochHistory::default(),
            epochs_changed: false,
            is_refused: false,
        }
    }
}

fn load(env: &Arc<Env>, found: &Found, now_ms: i64) -> Result<Loaded, Damage> {
    let fail = |error: io::Error| Damage::io(&found.dir, &error);
    let listing = tidy(env, &found.dir).map_err(fail)?;
    let segments = stat_segments(env, &found.dir, &listing).map_err(fail)?;
    if segments.is_empty() {
        let durable_to = found.trust.durable_to();
        if durable_to > found.log_start_offset {
            let reason = format!("no segment is left, where the log reached offset {durable_to}");
            return Err(Damage::Files(format!("{}: {reason}", found.dir.display())));
        }
        if listing.is_empty() {
            return Loaded::fresh(env, found, now_ms).map_err(fail);
        }
        let segment = Segment::create(env, Arc::clone(&found.dir), found.log_start_offset, now_ms).map_err(fail)?;
        // Nothing needs to be looked at in a log that was just made, even if the mark remembers another one.
        return load_from(env, found, vec![segment], &listing, &Trust::From(0), now_ms);
    }
    // A swap that was finished only now has changed what the mark speaks of.
    let swapped = Trust::From(found.trust.durable_to());
    let trust = if listing.is_swapped { &swapped } else { &found.trust };
    if let Trust::Clean(mark) = trust {
        check_marked(found, &segments, mark)?;
    }
    rebuild_missing(env, found, trust, &listing, &segments)?;
    load_from(env, found, segments, &listing, trust, now_ms)
}

/// Refuses a log of which segments are not as the clean stop left them. The end of the active one is looked at elsewhere.
fn check_marked(found: &Found, segments: &[Arc<Segment>], mark: &Mark) -> Result<(), Damage> {
    for (at, marked) in mark.segments.iter().enumerate() {
        let next_base = mark.segments.get(at + 1).map_or(mark.end_offset, |next| next.base_offset);
        // Nothing is lost with a segment that compaction has left empty, or whose records were all deleted.
        if marked.bytes == 0 || next_base <= found.log_start_offset {
            continue;
        }
        let path = segment_path(&found.dir, marked.base_offset, FileKind::Log, "");
        let lost = |what: String| {
            let (first, last) = (marked.base_offset, next_base - 1);
            Damage::Files(format!("{}: {what}: it had offsets {first} to {last}", path.display()))
        };
        let same = segments.binary_search_by_key(&marked.base_offset, |segment| segment.base_offset);
        match same.ok().and_then(|same| segments.get(same)) {
            None => return Err(lost("the file is gone since the last stop".to_owned())),
            Some(segment) if segment.size() != marked.bytes && at + 1 < mark.segments.len() => {
                let (now, then) = (segment.size(), marked.bytes);
                return Err(lost(format!("the file has {now} bytes, and had {then} at the last stop")));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

fn load_from(
    env: &Arc<Env>,
    found: &Found,
    segments: Vec<Arc<Segment>>,
    listing: &Listing,
    trust: &Trust,
    now_ms: i64,
) -> Result<Loaded, Damage> {
    let fail = |error: io::Error| Damage::io(&found.dir, &error);
    let first_base = segments.first().map_or(0, |segment| segment.base_offset);
    let is_as_marked = |active: &Arc<Segment>, marked: &MarkedSegment| {
        active.base_offset == marked.base_offset && active.size() == marked.bytes
    };
    let clean_end = match (trust, segments.last()) {
        (Trust::Clean(mark), Some(active)) if mark.segments.last().is_some_and(|last| is_as_marked(active, last)) => {
            Some(mark.end_offset)
        }
        _ => None,
    };
    let recovery_point = trust.durable_to();
    let (history, is_history_whole) =
        if listing.has_epochs { read_epochs(env, found) } else { (EpochHistory::default(), true) };
    let mut loaded = match clean_end {
        Some(end_offset) => load_clean(env, segments, end_offset).map_err(fail)?,
        None => load_dirty(env, found, segments, recovery_point, &history)?,
    };
    if !is_history_whole {
        rebuild_epochs(env, &mut loaded)?;
    } else if clean_end.is_some() {
        loaded.epochs = history;
    }
    loaded.epochs_changed |= loaded.epochs.truncate_from_end(loaded.end_offset);
    loaded.log_start_offset = found.log_start_offset.max(first_base);
    if loaded.log_start_offset > loaded.end_offset {
        return start_over(env, found, loaded, now_ms).map_err(fail);
    }
    loaded.epochs_changed |= loaded.epochs.truncate_from_start(loaded.log_start_offset);
    load_producers(env, found, listing, &mut loaded, recovery_point, clean_end.is_some(), now_ms)?;
    if let (Trust::Clean(mark), Some(_)) = (trust, clean_end) {
        mark.recent.iter().for_each(|(producer_id, batches)| loaded.producers.recall(*producer_id, batches));
    }
    Ok(loaded)
}

/// Removes what an interrupted step left behind, and lists the rest.
fn tidy(env: &Env, dir: &Path) -> io::Result<Listing> {
    let mut entries = env.disk.list(dir)?;
    let mut listing = Listing::default();
    if entries.iter().any(|entry| entry.name.ends_with(SWAP)) {
        listing.is_swapped = crate::compaction::finish_swaps(&*env.disk, dir)?;
        entries = env.disk.list(dir)?;
    }
    for entry in entries {
        if entry.name == LEADER_EPOCHS {
            listing.has_epochs = true;
        }
        let Some((base, kind, ending)) = parse_segment_file(&entry.name) else { continue };
        match (ending, kind) {
            (DELETED | CLEANED | SWAP | ".tmp", _) => disk::remove_if_exists(&*env.disk, &dir.join(&entry.name))?,
            ("", FileKind::Log) => _ = listing.logs.insert(base),
            ("", FileKind::Index) => _ = listing.indexes.insert(base),
            ("", FileKind::TimeIndex) => _ = listing.time_indexes.insert(base),
            ("", FileKind::Snapshot) => _ = listing.snapshots.insert(base),
            _ => {}
        }
    }
    Ok(listing)
}

fn stat_segments(env: &Env, dir: &Arc<Path>, listing: &Listing) -> io::Result<Vec<Arc<Segment>>> {
    let mut segments = Vec::with_capacity(listing.logs.len());
    for &base in &listing.logs {
        let path = segment_path(dir, base, FileKind::Log, "");
        let stat = env.disk.stat(&path)?;
        let size = u32::try_from(stat.len).ok().filter(|&size| size <= i32::MAX as u32).ok_or_else(|| {
            io::Error::other(format!("{}: {} bytes are more than a segment has", path.display(), stat.len))
        })?;
        segments.push(Segment::existing(Arc::clone(dir), base, size, stat.modified_ms));
    }
    Ok(segments)
}

/// Builds indexes whose files are gone, for segments that recovery will not look at.
fn rebuild_missing(
    env: &Env,
    found: &Found,
    trust: &Trust,
    listing: &Listing,
    segments: &[Arc<Segment>],
) -> Result<(), Damage> {
    for (at, segment) in segments.iter().enumerate() {
        if listing.has_indexes(segment.base_offset) {
            continue;
        }
        let next_base = segments.get(at + 1).map(|next| next.base_offset);
        let is_trusted = match trust {
            Trust::Clean(_) => true,
            Trust::From(recovery_point) => next_base.is_some_and(|next_base| next_base < *recovery_point),
        };
        if is_trusted {
            tracing::warn!(file = %segment.path(FileKind::Index).display(), "an index is gone; both are built anew");
            recover::rebuild_indexes(env, segment, found.options.index_interval_bytes)?;
        }
    }
    Ok(())
}

/// A log that was closed cleanly: nothing is read but the ends of the active segment's indexes.
fn load_clean(env: &Arc<Env>, segments: Vec<Arc<Segment>>, end_offset: Offset) -> io::Result<Loaded> {
    let Some(active) = segments.last() else { unreachable!("a log has a segment") };
    let position = active.size();
    let offsets = recover::open_growing(env, active, FileKind::Index)?;
    let times = recover::open_growing(env, active, FileKind::TimeIndex)?;
    let tail = Tail::new(active.base_offset, end_offset, position, offsets, times);
    Ok(Loaded {
        end_offset,
        durable_to: end_offset,
        log_start_offset: 0,
        tail,
        bytes_since_index: 0,
        producers: ProducerStates::new(),
        epochs: EpochHistory::default(),
        epochs_changed: false,
        is_refused: false,
        segments,
    })
}

fn load_dirty(
    env: &Arc<Env>,
    found: &Found,
    segments: Vec<Arc<Segment>>,
    recovery_point: Offset,
    history: &EpochHistory,
) -> Result<Loaded, Damage> {
    // Records before the floor are deleted, whether their files are still there or not.
    let first = segments.first().map_or(0, |segment| segment.base_offset);
    let recovery_point = recovery_point.max(first);
    let recovered = recover::recover(env, segments, recovery_point, found.options.index_interval_bytes)?;
    let mut epochs = history.clone();
    let mut epochs_changed = epochs.truncate_from_end(recovered.end_offset);
    for (epoch, start_offset) in recovered.epochs {
        if epochs.latest().is_none_or(|latest| epoch > latest.epoch) {
            epochs_changed |= epochs.assign(epoch, start_offset);
        }
    }
    let Some(active) = recovered.segments.last() else { unreachable!("a log has a segment") };
    let builder = recovered.active;
    let bytes_since_index = builder.since();
    let tail = Tail::new(active.base_offset, recovered.end_offset, active.size(), builder.offsets, builder.times);
    Ok(Loaded {
        end_offset: recovered.end_offset,
        durable_to: recovery_point,
        log_start_offset: 0,
        tail,
        bytes_since_index,
        producers: ProducerStates::new(),
        epochs,
        epochs_changed,
        is_refused: false,
        segments: recovered.segments,
    })
}

/// The leader epochs of the folder, and whether the file could be used.
fn read_epochs(env: &Env, found: &Found) -> (EpochHistory, bool) {
    match checkpoint::read_epochs(&*env.disk, &found.dir.join(LEADER_EPOCHS)) {
        Ok(entries) => {
            let entries = entries.into_iter().map(|(epoch, start_offset)| EpochEntry { epoch, start_offset });
            (EpochHistory::from_entries(entries), true)
        }
        Err(error) => {
            tracing::warn!(%error, "the leader epochs are read from the batches");
            (EpochHistory::default(), false)
        }
    }
}

fn rebuild_epochs(env: &Env, loaded: &mut Loaded) -> Result<(), Damage> {
    loaded.epochs = EpochHistory::default();
    recover::each_batch(env, &loaded.segments, |batch| {
        let newest: LeaderEpoch = loaded.epochs.latest().map_or(-1, |latest| latest.epoch);
        if batch.header.leader_epoch > newest {
            loaded.epochs.assign(batch.header.leader_epoch, batch.header.base_offset);
        }
    })?;
    loaded.epochs_changed = true;
    Ok(())
}

/// All records were deleted, and the log's end is not known any more: it begins again at the floor.
fn start_over(env: &Arc<Env>, found: &Found, loaded: Loaded, now_ms: i64) -> io::Result<Loaded> {
    tracing::warn!(
        partition = %found.partition, end_offset = loaded.end_offset, log_start_offset = loaded.log_start_offset,
        "the log ends before its start; all its records were deleted, and it begins anew"
    );
    for segment in &loaded.segments {
        segment.rename_all(env, DELETED)?;
    }
    // Nothing that the records of before said of producers holds any more.
    snapshot::retain(&*env.disk, &found.dir, |_| false)?;
    let base_offset = loaded.log_start_offset;
    let segment = Segment::create(env, Arc::clone(&found.dir), base_offset, now_ms)?;
    let mut fresh = Loaded::nothing(found);
    fresh.segments = vec![segment];
    fresh.end_offset = base_offset;
    fresh.log_start_offset = base_offset;
    fresh.durable_to = 0;
    fresh.tail = Tail::new(base_offset, base_offset, 0, Growing::default(), Growing::default());
    fresh.epochs_changed = true;
    Ok(fresh)
}

/// Producers from the newest usable snapshot, and from the batches after it.
fn load_producers(
    env: &Arc<Env>,
    found: &Found,
    listing: &Listing,
    loaded: &mut Loaded,
    recovery_point: Offset,
    is_clean: bool,
    now_ms: i64,
) -> Result<(), Damage> {
    let mut from = loaded.log_start_offset;
    let bases: BTreeSet<Offset> = loaded.segments.iter().map(|segment| segment.base_offset).collect();
    let mut is_found = false;
    for &offset in listing.snapshots.iter().rev() {
        let path = segment_path(&found.dir, offset, FileKind::Snapshot, "");
        let is_usable = offset <= loaded.end_offset && offset >= loaded.log_start_offset;
        if is_usable && !is_found {
            match snapshot::read(&*env.disk, &path) {
                Ok(entries) => {
                    loaded.producers = producers::from_entries(&entries, now_ms, env.producer_expiration_ms);
                    from = offset;
                    is_found = true;
                    continue;
                }
                Err(error) => tracing::warn!(file = %path.display(), %error, "the snapshot is not used"),
            }
        } else if is_usable && bases.contains(&offset) {
            continue;
        }
        // Those past the end, before the start, damaged, or of an earlier stop.
        let removed = disk::remove_if_exists(&*env.disk, &path);
        removed.map_err(|error| Damage::io(&path, &error))?;
    }
    if (from < loaded.end_offset || !is_clean) && !is_planted(PlantedBug::ProducersLostOnRecovery) {
        let aborted = recover::replay_producers(env, &loaded.segments, from, &mut loaded.producers)?;
        loaded.producers.expire(now_ms, env.producer_expiration_ms);
        if !is_clean {
            recover::restore_aborted(env, &loaded.segments, recovery_point, &aborted)?;
        }
    }
    Ok(())
}
