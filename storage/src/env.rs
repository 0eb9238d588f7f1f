//! What all logs of a data directory share: the disk, the open files, the health of the directory, and the lists by which
//! logs ask for background work.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use taffrail_core::ids::{Offset, TopicPartition};
use tokio::sync::Notify;

use crate::disk::{Disk, DiskFile};
use crate::error::{AppendError, Reason};
use crate::flusher::Flusher;
use crate::handles::Handles;
use crate::log::Log;
use crate::maintenance::Removal;
use crate::offset_file::OffsetFile;
use crate::options::StorageOptions;
use crate::presence::Presence;
use crate::reserve::Reserve;
use crate::space::SpaceWatch;

/// Shortest time between two messages about appends that the disk refused: every producer tries again and again.
const REFUSALS_TOLD_EVERY_MS: i64 = 10_000;

/// The shared surroundings of all logs.
pub(crate) struct Env {
    pub(crate) dir: PathBuf,
    pub(crate) disk: Arc<dyn Disk>,
    pub(crate) handles: Handles,
    pub(crate) flusher: Flusher,
    pub(crate) producer_expiration_ms: i64,
    /// Recovery points as they are written down.
    pub(crate) recovery_points: OffsetFile,
    /// Log start offsets that lie within a segment.
    pub(crate) log_starts: OffsetFile,
    /// Before which offset a log may have gaps between its segments.
    pub(crate) gaps: OffsetFile,
    pub(crate) reserve: Reserve,
    pub(crate) space: Arc<SpaceWatch>,
    pub(crate) presence: Presence,
    warm_bytes: u64,
    fence: OnceLock<Reason>,
    /// When an append that the disk refused was told of last.
    refusal_told_ms: AtomicI64,
    appended_bytes: AtomicU64,
    changed: Mutex<Vec<Weak<Log>>>,
    /// Files and folders to remove.
    removals: Mutex<Vec<Removal>>,
    /// Told when one of the two lists gets something.
    noted: Notify,
}

impl Env {
    pub(crate) fn new(
        disk: Arc<dyn Disk>,
        handles: Handles,
        flusher: Flusher,
        files: (OffsetFile, OffsetFile, OffsetFile),
        presence: Presence,
        options: &StorageOptions,
    ) -> Self {
        let (recovery_points, log_starts, gaps) = files;
        let space = Arc::new(SpaceWatch::new(&options.dir));
        Self {
            disk,
            handles,
            flusher,
            producer_expiration_ms: options.producer_expiration_ms,
            recovery_points,
            log_starts,
            gaps,
            reserve: Reserve::new(&options.dir, Arc::clone(&space)),
            space,
            presence,
            warm_bytes: options.warm_bytes,
            dir: options.dir.clone(),
            fence: OnceLock::new(),
            refusal_told_ms: AtomicI64::new(i64::MIN),
            appended_bytes: AtomicU64::new(0),
            changed: Mutex::default(),
            removals: Mutex::default(),
            noted: Notify::new(),
        }
    }

    /// Why the directory takes no writes any more, if so.
    pub(crate) fn fenced(&self) -> Option<&Reason> {
        self.fence.get()
    }

    /// Ends writing to the directory for good: after a failed write or sync nothing is known about what it holds, and
    /// trying again would prove nothing. Reads go on.
    pub(crate) fn fence(&self, what: &str, error: &std::io::Error) -> Reason {
        let reason: Reason = format!("{what}: {error}").into();
        if self.fence.set(Arc::clone(&reason)).is_ok() {
            tracing::error!(dir = %self.dir.display(), %reason, "the data directory takes no writes any more");
        }
        reason
    }

    /// Syncs the file at `path`; when that fails, the directory takes no writes any more.
    pub(crate) fn sync(&self, file: &dyn DiskFile, path: &Path) -> std::io::Result<()> {
        file.sync().inspect_err(|error| _ = self.fence(&format!("syncing {}", path.display()), error))
    }

    /// Looks whether the data directory is still there; ends writing for good when it is not.
    pub(crate) fn check_presence(&self) {
        if let Some(error) = self.presence.look(&*self.disk) {
            self.fence(&format!("the data directory {} is gone", self.dir.display()), &error);
            self.presence.note_lost();
        }
    }

    /// Tells the log of an append that the disk refused and may take later: a full disk does not fence the directory, so
    /// nothing else would say why producers get errors. Told once in a while only, for all partitions together.
    pub(crate) fn note_refused(&self, partition: &TopicPartition, error: &AppendError, now_ms: i64) {
        if !matches!(error, AppendError::DiskFull | AppendError::Io(_)) {
            return;
        }
        let told_ms = self.refusal_told_ms.load(Ordering::Relaxed);
        let is_due = told_ms.saturating_add(REFUSALS_TOLD_EVERY_MS) <= now_ms || now_ms < told_ms;
        if is_due
            && self.refusal_told_ms.compare_exchange(told_ms, now_ms, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            tracing::error!(dir = %self.dir.display(), %partition, %error, "records are refused");
        }
    }

    /// Notes, durably, that a log may have gaps between its segments before `offset`.
    pub(crate) fn note_gaps(&self, partition: &TopicPartition, offset: Offset) -> std::io::Result<()> {
        let is_new = self.gaps.change(|offsets| {
            let known = offsets.entry(partition.clone()).or_insert(0);
            let is_new = *known < offset;
            *known = offset.max(*known);
            is_new
        });
        if is_new { self.gaps.write(&*self.disk, &self.reserve) } else { Ok(()) }
    }

    /// Counts bytes that went into the page cache, and gives the count so far: a clock of bytes.
    pub(crate) fn count_appended(&self, bytes: u64) -> u64 {
        self.appended_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes
    }

    /// Whether what was appended at that time of the clock of bytes is most probably still in the page cache.
    pub(crate) fn is_recent(&self, appended_bytes: u64) -> bool {
        self.appended_bytes.load(Ordering::Relaxed).saturating_sub(appended_bytes) <= self.warm_bytes
    }

    /// Puts a log on the list of those that the next round of maintenance looks at. The log sees to it that it is on the
    /// list only once.
    pub(crate) fn note_changed(&self, log: Weak<Log>) {
        let mut changed = self.changed.lock();
        changed.push(log);
        if changed.len() == 1 {
            self.noted.notify_one();
        }
    }

    /// Waits until something is put on one of the lists.
    pub(crate) async fn noted(&self) {
        self.noted.notified().await;
    }

    /// Takes the list of changed logs.
    pub(crate) fn take_changed(&self) -> Vec<Weak<Log>> {
        std::mem::take(&mut *self.changed.lock())
    }

    /// Asks maintenance to remove a file or a folder after a while.
    pub(crate) fn note_removal(&self, path: PathBuf, delay_ms: i64) {
        self.removals.lock().push(Removal { path, delay_ms });
        self.noted.notify_one();
    }

    /// Takes the list of what is to be removed.
    pub(crate) fn take_removals(&self) -> Vec<Removal> {
        std::mem::take(&mut *self.removals.lock())
    }
}
