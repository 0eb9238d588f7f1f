//! All partitions of one data directory.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use taffrail_core::ids::{TopicId, TopicPartition};
use taffrail_runtime::blocking::{Pool, PoolError};
use taffrail_runtime::time;
use tokio::sync::Semaphore;

use crate::checkpoint::{CLEANER, GAPS, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS};
use crate::clean_stop;
use crate::disk::{Disk, DiskLock, Space};
use crate::env::Env;
use crate::error::{Reason, StorageError};
use crate::flusher::Flusher;
use crate::handles::Handles;
use crate::identity;
use crate::lock;
use crate::log::{Found, Log, Trust};
use crate::names::{Folder, deleted_folder, parse_folder, stray_folder};
use crate::offset_file::OffsetFile;
use crate::options::{LogOptions, StorageOptions};
use crate::presence::Presence;
use crate::vacancy::{self, Vacancy};

/// Jobs of opening that may wait for a thread at once.
const OPENING_JOBS_MAX: usize = 64;

/// Compactions that may wait for the one thread that does them.
const COMPACTIONS_MAX: usize = 16;

/// Partitions that one job of opening takes.
const OPENING_BATCH: usize = 64;

/// Partitions whose folders can be worked on at the same time.
const FOLDER_LOCKS: usize = 16;

/// Logs that are closed at the same time: fewer than the disk pool has room for, so that nobody has to ask it again and again.
const CLOSING_JOBS_MAX: usize = 256;

/// Pause before the disk pool is asked again that had no room.
const CLOSING_PAUSE: Duration = Duration::from_millis(1);

/// All partitions of one data directory, which this process has for itself.
pub struct Storage {
    pub(crate) env: Arc<Env>,
    pub(crate) options: StorageOptions,
    pub(crate) high_watermarks: OffsetFile,
    /// Up to where compacted logs are clean.
    pub(crate) cleaned_to: OffsetFile,
    pub(crate) pool: Pool,
    pub(crate) compaction_pool: Pool,
    logs: RwLock<BTreeMap<TopicPartition, Arc<Log>>>,
    /// Held while folders are made, renamed or removed, so that two never work on one partition at once: the lock of the
    /// partition's number.
    folders: [Mutex<()>; FOLDER_LOCKS],
    is_closed: AtomicBool,
    /// Whether the stop before had closed all that is here.
    was_closed: bool,
    _lock: DiskLock,
}

/// How much room there is and how much is used.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// Room on the volume.
    pub space: Space,
    /// Bytes of all partitions' batches.
    pub log_bytes: u64,
    /// Files that are open.
    pub open_files: usize,
    /// Partitions that do not serve.
    pub offline_partitions: usize,
}

/// What was found in the data directory before partitions are opened.
struct Inventory {
    partitions: Vec<(TopicPartition, PathBuf)>,
    deleted: Vec<PathBuf>,
}

impl Storage {
    /// Opens a data directory, making it if needed, and all partitions in it, several at once. Damaged partitions are
    /// there, but offline; folders that are no partitions are left alone.
    ///
    /// # Errors
    /// When another process has the directory, or it cannot be read.
    pub async fn open(options: StorageOptions, disk: Arc<dyn Disk>) -> Result<Arc<Self>, StorageError> {
        let pool = Pool::new("taffrail-disk", options.recovery_threads.max(1), OPENING_JOBS_MAX.max(1024));
        let first = {
            let (options, disk) = (options.clone(), Arc::clone(&disk));
            pool.run(move || Self::prepare(options, disk)).await.map_err(|_| StorageError::Busy)??
        };
        let (env, lock, high_watermarks, cleaned_to, inventory, marks) = first;
        // A power cut can take every partition of a directory: that there is none to miss does not tell of a clean stop.
        let was_closed = marks.is_some();
        let marks = marks.unwrap_or_default();
        // Waits for the disk, and nothing else need wait for it.
        let reserving = {
            let (pool, env) = (pool.clone(), Arc::clone(&env));
            taffrail_runtime::task::spawn(async move { pool.run(move || env.reserve.fill(&*env.disk)).await })
        };
        let now_ms = time::unix_ms();
        let marks = Arc::new(marks);
        let high_watermarks = Arc::new(high_watermarks);
        let mut jobs = Vec::new();
        for chunk in inventory.partitions.chunks(OPENING_BATCH) {
            let (chunk, env) = (chunk.to_vec(), Arc::clone(&env));
            let (marks, high_watermarks) = (Arc::clone(&marks), Arc::clone(&high_watermarks));
            let open_all = move || {
                chunk
                    .into_iter()
                    .filter_map(|(partition, dir)| {
                        open_partition(&env, partition, &dir, &marks, &high_watermarks, now_ms)
                    })
                    .collect::<Vec<_>>()
            };
            let pool = pool.clone();
            jobs.push(taffrail_runtime::task::spawn(async move { pool.run(open_all).await }));
        }
        let mut logs = BTreeMap::new();
        for job in jobs {
            let opened = job.await.map_err(|_| StorageError::Busy)?.map_err(|_| StorageError::Busy)?;
            logs.extend(opened.into_iter().map(|log| (log.partition().clone(), log)));
        }
        let was_closed = was_closed && logs.keys().all(|partition| marks.contains_key(partition));
        let high_watermarks = Arc::try_unwrap(high_watermarks).unwrap_or_else(|_| {
            // Every job has ended, so nobody else holds it; an empty file would only be written anew.
            OffsetFile::empty(options.dir.join(HIGH_WATERMARKS))
        });
        let _ = reserving.await.map_err(|_| StorageError::Busy)?;
        tracing::info!(
            dir = %options.dir.display(), partitions = logs.len(),
            offline = logs.values().filter(|log| log.offline().is_some()).count(), "the data directory is open"
        );
        let storage = Arc::new(Self {
            env,
            options,
            high_watermarks,
            cleaned_to,
            pool,
            compaction_pool: Pool::new("taffrail-compact", 1, COMPACTIONS_MAX),
            logs: RwLock::new(logs),
            folders: Default::default(),
            is_closed: AtomicBool::new(false),
            was_closed,
            _lock: lock,
        });
        for dir in inventory.deleted {
            storage.remove_later(dir, 0);
        }
        Ok(storage)
    }

    #[allow(clippy::type_complexity, reason = "the parts are taken apart at once by the only caller")]
    fn prepare(
        options: StorageOptions,
        disk: Arc<dyn Disk>,
    ) -> Result<(Arc<Env>, DiskLock, OffsetFile, OffsetFile, Inventory, Option<clean_stop::Marks>), StorageError> {
        let dir = &options.dir;
        disk.create_dir(dir).map_err(StorageError::io(format!("making {}", dir.display())))?;
        let lock = lock::lock(&*disk, dir)?;
        let presence = Presence::new(&*disk, dir).map_err(StorageError::io("looking at the lock file"))?;
        let open = |name: &str| {
            // A checkpoint that cannot be read costs time or, for floors, brings deleted records back; it costs no data.
            OffsetFile::open(&*disk, dir.join(name)).unwrap_or_else(|error| {
                tracing::error!(%error, "the checkpoint is not used");
                OffsetFile::empty(dir.join(name))
            })
        };
        let files = (open(RECOVERY_POINTS), open(LOG_STARTS), open(GAPS));
        let high_watermarks = open(HIGH_WATERMARKS);
        let cleaned_to = open(CLEANER);
        let marks = clean_stop::take(&*disk, dir).map_err(StorageError::io("taking the mark of the clean stop"))?;
        let handles = Handles::new(Arc::clone(&disk), options.open_files_max);
        let flusher = Flusher::new(options.flush_threads);
        let inventory = take_inventory(&*disk, dir).map_err(StorageError::io(format!("listing {}", dir.display())))?;
        let env = Arc::new(Env::new(disk, handles, flusher, files, presence, &options));
        Ok((env, lock, high_watermarks, cleaned_to, inventory, marks))
    }

    /// Whether the stop before this start had closed every log that is here. There was none before the first start.
    pub fn was_closed(&self) -> bool {
        self.was_closed
    }

    /// The log of a partition.
    pub fn log(&self, partition: &TopicPartition) -> Option<Arc<Log>> {
        self.logs.read().get(partition).cloned()
    }

    /// All logs, by partition.
    pub fn logs(&self) -> Vec<Arc<Log>> {
        self.logs.read().values().cloned().collect()
    }

    /// The log of a partition, made if there is none.
    ///
    /// # Errors
    /// [`StorageError::TopicIdMismatch`] when the folder there belongs to another topic of this name (see
    /// [`Storage::set_aside`]); [`StorageError::Offline`] is not an error here: such a log is given.
    pub fn create(
        &self,
        partition: &TopicPartition,
        topic_id: TopicId,
        options: impl Into<Arc<LogOptions>>,
    ) -> Result<Arc<Log>, StorageError> {
        let options = options.into();
        let known = || self.log(partition).filter(|log| !log.may_open_later());
        if let Some(log) = known() {
            return Self::check_topic(log, topic_id, options);
        }
        self.check_open()?;
        let _folder = self.lock_folder(partition);
        if let Some(log) = known() {
            return Self::check_topic(log, topic_id, options);
        }
        let dir: Arc<Path> = self.env.dir.join(partition.to_string()).into();
        match vacancy::make_room(&self.env, partition, &dir, topic_id)? {
            Vacancy::Own => self.open_folder(partition, &dir, options),
            Vacancy::Free => self.make_folder(partition, dir, topic_id, options),
        }
    }

    /// Makes the folder of a new partition, and opens its log.
    fn make_folder(
        &self,
        partition: &TopicPartition,
        dir: Arc<Path>,
        topic_id: TopicId,
        options: Arc<LogOptions>,
    ) -> Result<Arc<Log>, StorageError> {
        let disk = &*self.env.disk;
        let failed = || StorageError::io(format!("making {}", dir.display()));
        disk.create_dir(&dir).map_err(failed())?;
        // What an older life of the name has left in the checkpoints does not concern this one. The folder gets its
        // identity after that: from then on, it is opened with what the checkpoints say.
        let made = self.forget(partition).and_then(|()| identity::write_topic_id(disk, &dir, topic_id));
        if let Err(error) = made {
            // Nothing of it is needed for the next attempt, and a full disk has better use for it.
            let _ = disk.remove_dir_all(&dir);
            return Err(failed()(error));
        }
        let found = Found {
            partition: partition.clone(),
            topic_id,
            dir,
            options: Arc::clone(&options),
            trust: Trust::From(0),
            log_start_offset: 0,
            high_watermark: 0,
        };
        let log = Log::fresh(&self.env, found, time::unix_ms()).map_err(|error| {
            let reason = format!("{partition}: {error}");
            StorageError::Offline { partition: partition.clone(), reason: reason.into() }
        })?;
        log.set_options(options);
        log.note_new_folder();
        self.logs.write().insert(partition.clone(), Arc::clone(&log));
        Ok(log)
    }

    fn lock_folder(&self, partition: &TopicPartition) -> MutexGuard<'_, ()> {
        self.folders[partition.partition as usize % FOLDER_LOCKS].lock()
    }

    /// Opens the folder of a partition that could not be opened before. Damage gives a log that is offline, as at the
    /// start; what may pass is an error.
    fn open_folder(
        &self,
        partition: &TopicPartition,
        dir: &Path,
        options: Arc<LogOptions>,
    ) -> Result<Arc<Log>, StorageError> {
        let marks = clean_stop::Marks::new();
        let log = open_partition(&self.env, partition.clone(), dir, &marks, &self.high_watermarks, time::unix_ms())
            .ok_or_else(|| StorageError::Unknown(partition.clone()))?;
        if let Some(reason) = log.offline().filter(|_| log.may_open_later()) {
            return Err(StorageError::Offline { partition: partition.clone(), reason: Arc::clone(reason) });
        }
        log.set_options(options);
        self.logs.write().insert(partition.clone(), Arc::clone(&log));
        Ok(log)
    }

    /// Opens the folder of a partition that was adopted.
    pub(crate) fn open_imported(&self, partition: &TopicPartition, dir: Arc<Path>) -> Result<(), StorageError> {
        let _folder = self.lock_folder(partition);
        let marks = clean_stop::Marks::new();
        let log = open_partition(&self.env, partition.clone(), &dir, &marks, &self.high_watermarks, time::unix_ms())
            .ok_or_else(|| StorageError::Unknown(partition.clone()))?;
        if let Some(reason) = log.offline() {
            return Err(StorageError::Offline { partition: partition.clone(), reason: Arc::clone(reason) });
        }
        self.logs.write().insert(partition.clone(), log);
        Ok(())
    }

    fn check_topic(log: Arc<Log>, topic_id: TopicId, options: Arc<LogOptions>) -> Result<Arc<Log>, StorageError> {
        if log.topic_id() != topic_id {
            return Err(StorageError::TopicIdMismatch {
                partition: log.partition().clone(),
                found: log.topic_id(),
                asked: topic_id,
            });
        }
        if !log.is_configured() || log.options() != options {
            log.set_options(options);
        }
        Ok(log)
    }

    fn check_open(&self) -> Result<(), StorageError> {
        if let Some(reason) = self.env.fenced() {
            return Err(StorageError::Fenced(Arc::clone(reason)));
        }
        if self.is_closed.load(Ordering::Acquire) { Err(StorageError::Busy) } else { Ok(()) }
    }

    /// Removes a partition from the checkpoints.
    fn forget(&self, partition: &TopicPartition) -> io::Result<()> {
        let (disk, reserve) = (&*self.env.disk, &self.env.reserve);
        let Env { recovery_points, log_starts, gaps, .. } = &*self.env;
        for file in [recovery_points, log_starts, gaps, &self.high_watermarks, &self.cleaned_to] {
            let Some(offset) = file.get(partition) else { continue };
            file.remove(partition);
            // What could not be written down is not forgotten, so that the next attempt writes it.
            file.write(disk, reserve).inspect_err(|_| _ = file.set(partition, offset))?;
        }
        Ok(())
    }

    /// Deletes a partition: its folder is renamed at once, and removed after `file.delete.delay.ms`. Waits for the disk.
    ///
    /// # Errors
    /// When there is no such partition or the disk refuses.
    pub fn delete(&self, partition: &TopicPartition) -> Result<(), StorageError> {
        let log = self.log(partition).ok_or_else(|| StorageError::Unknown(partition.clone()))?;
        let name = deleted_folder(partition, taffrail_runtime::random::uuid());
        let target = self.rename_folder(&log, &name)?;
        self.remove_later(target, log.options().file_delete_delay_ms);
        Ok(())
    }

    /// Forgets a partition of a deleted topic whose log could not be opened. Its folder is deleted as that of others if it
    /// says that it is this topic's; otherwise it is kept under another name. Waits for the disk.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn delete_unopened(&self, partition: &TopicPartition, topic_id: TopicId) -> Result<(), StorageError> {
        let dir = self.env.dir.join(partition.to_string());
        let failed = || StorageError::io(format!("removing {}", dir.display()));
        let _folder = self.lock_folder(partition);
        let disk = &*self.env.disk;
        if disk.list(&dir).is_ok() {
            let id = taffrail_runtime::random::uuid();
            let is_own = identity::read_topic_id(disk, &dir).is_ok_and(|found| found == Some(topic_id));
            let name = if is_own { deleted_folder(partition, id) } else { stray_folder(partition, id) };
            let target = self.env.dir.join(name);
            disk.rename(&dir, &target).and_then(|()| disk.sync_dir(&self.env.dir)).map_err(failed())?;
            if is_own {
                self.remove_later(target, 0);
            }
        }
        self.logs.write().remove(partition);
        self.forget(partition).map_err(failed())
    }

    /// Forgets what the checkpoints say about partitions that are not here and not `wanted`: their topics were deleted while
    /// this broker was away. Waits for the disk.
    ///
    /// # Errors
    /// When the disk refuses.
    pub fn forget_gone(&self, wanted: impl Fn(&TopicPartition) -> bool) -> Result<(), StorageError> {
        for partition in self.env.recovery_points.partitions() {
            let _folder = self.lock_folder(&partition);
            let is_here = || self.env.disk.list(&self.env.dir.join(partition.to_string())).is_ok();
            if self.log(&partition).is_none() && !wanted(&partition) && !is_here() {
                self.forget(&partition).map_err(StorageError::io("forgetting what is gone"))?;
            }
        }
        Ok(())
    }

    /// Takes a partition out of service that belongs to no known topic, and keeps its folder under another name. Waits for
    /// the disk. Gives the new name.
    ///
    /// # Errors
    /// When there is no such partition or the disk refuses.
    pub fn set_aside(&self, partition: &TopicPartition) -> Result<PathBuf, StorageError> {
        let log = self.log(partition).ok_or_else(|| StorageError::Unknown(partition.clone()))?;
        let name = stray_folder(partition, taffrail_runtime::random::uuid());
        let target = self.rename_folder(&log, &name)?;
        tracing::warn!(%partition, topic_id = %log.topic_id(), folder = %target.display(), "the partition is set aside");
        Ok(target)
    }

    fn rename_folder(&self, log: &Arc<Log>, name: &str) -> Result<PathBuf, StorageError> {
        let target = self.env.dir.join(name);
        let failed = || StorageError::io(format!("renaming {} to {}", log.dir().display(), target.display()));
        let _folder = self.lock_folder(log.partition());
        log.mark_deleted();
        self.logs.write().remove(log.partition());
        self.env.disk.rename(log.dir(), &target).map_err(failed())?;
        self.env.disk.sync_dir(&self.env.dir).map_err(failed())?;
        self.forget(log.partition()).map_err(failed())?;
        Ok(target)
    }

    /// Removes a folder or file after a while, on the pool.
    pub(crate) fn remove_later(&self, path: PathBuf, delay_ms: i64) {
        self.env.note_removal(path, delay_ms);
    }

    /// Puts other settings of a partition in force.
    pub fn set_options(&self, partition: &TopicPartition, options: impl Into<Arc<LogOptions>>) {
        if let Some(log) = self.log(partition) {
            log.set_options(options);
        }
    }

    /// The data directory.
    pub fn dir(&self) -> &Path {
        &self.options.dir
    }

    /// The pool for work that waits for the disk; readers warm their ranges on it.
    pub fn pool(&self) -> &Pool {
        &self.pool
    }

    /// Why the data directory takes no writes any more, if so.
    pub fn fenced(&self) -> Option<&Reason> {
        self.env.fenced()
    }

    /// Waits until the data directory is gone from under this process, and gives the reason: it was removed, replaced or
    /// unmounted. Nothing that is written then is found again, so nothing is acknowledged any more.
    pub async fn lost(&self) -> Reason {
        self.env.presence.lost().await;
        self.fenced().cloned().unwrap_or_default()
    }

    /// Room on the volume.
    ///
    /// # Errors
    /// When the disk cannot tell.
    pub fn space(&self) -> io::Result<Space> {
        self.env.disk.space(&self.env.dir)
    }

    /// Room and use, for metrics and DescribeLogDirs.
    ///
    /// # Errors
    /// When the disk cannot tell how much room it has.
    pub fn usage(&self) -> io::Result<Usage> {
        let logs = self.logs.read();
        Ok(Usage {
            space: self.space()?,
            log_bytes: logs.values().map(|log| log.size_bytes()).sum(),
            open_files: self.env.handles.open_count(),
            offline_partitions: logs.values().filter(|log| log.offline().is_some()).count(),
        })
    }

    /// Writes down the recovery points of logs. Waits for the disk.
    pub(crate) fn write_recovery_points(&self, logs: &[Arc<Log>]) -> io::Result<()> {
        logs.iter().for_each(|log| log.note_recovery_point());
        self.env.recovery_points.write(&*self.env.disk, &self.env.reserve)
    }

    /// Writes down high watermarks. Waits for the disk.
    pub(crate) fn write_high_watermarks(&self, logs: &[Arc<Log>]) -> io::Result<()> {
        for log in logs.iter().filter(|log| log.offline().is_none() && !log.is_deleted()) {
            self.high_watermarks.set(log.partition(), log.high_watermark());
        }
        self.high_watermarks.write(&*self.env.disk, &self.env.reserve)
    }

    /// Makes everything durable and marks the stop as clean. Nothing may be appended any more; logs that cannot be made
    /// durable keep the mark from being written for them.
    pub async fn close(&self) {
        // What stands in the place of a directory that is gone is not ours to write into.
        if self.is_closed.swap(true, Ordering::AcqRel) || self.env.presence.is_lost() {
            return;
        }
        let env = Arc::clone(&self.env);
        // A full queue looks no more: what cannot be written then is found out by writing it.
        let _ = self.pool.run(move || env.check_presence()).await;
        let mut jobs = Vec::new();
        let places = Arc::new(Semaphore::new(CLOSING_JOBS_MAX));
        for log in self.logs() {
            let (pool, places) = (self.pool.clone(), Arc::clone(&places));
            jobs.push(taffrail_runtime::task::spawn(async move {
                let _place = places.acquire().await;
                let closing = Arc::clone(&log);
                // Closing waits for the queue to have room rather than give up.
                loop {
                    let closing = Arc::clone(&closing);
                    match pool.run(move || closing.close()).await {
                        Err(PoolError::Full) => time::sleep(CLOSING_PAUSE).await,
                        Err(_) => return None,
                        Ok(closed) => return Some((log, closed)),
                    }
                }
            }));
        }
        let mut marks = clean_stop::Marks::default();
        let mut closed = Vec::new();
        for job in jobs {
            match job.await {
                Ok(Some((log, Ok(mark)))) => {
                    marks.insert(log.partition().clone(), mark);
                    closed.push(log);
                }
                Ok(Some((log, Err(error)))) => {
                    tracing::warn!(partition = %log.partition(), %error, "the partition is not closed cleanly");
                }
                _ => tracing::warn!("a partition is not closed cleanly"),
            }
        }
        let written = self.write_recovery_points(&closed).and_then(|()| {
            self.write_high_watermarks(&self.logs())?;
            let reserve = &self.env.reserve;
            reserve.with_room(&*self.env.disk, || clean_stop::write(&*self.env.disk, &self.env.dir, &marks))
        });
        match written {
            Ok(()) => tracing::info!(partitions = marks.len(), "the data directory is closed"),
            Err(error) => tracing::warn!(%error, "the stop is not marked as clean; the next start looks at the tails"),
        }
    }
}

fn take_inventory(disk: &dyn Disk, dir: &Path) -> io::Result<Inventory> {
    let mut inventory = Inventory { partitions: Vec::new(), deleted: Vec::new() };
    for entry in disk.list(dir)?.into_iter().filter(|entry| entry.is_dir) {
        let path = dir.join(&entry.name);
        match parse_folder(&entry.name) {
            Folder::Partition(partition) => inventory.partitions.push((partition, path)),
            Folder::Deleted => inventory.deleted.push(path),
            Folder::Stray => tracing::info!(folder = %path.display(), "a partition that was set aside is left alone"),
            Folder::Unknown => tracing::warn!(folder = %path.display(), "a folder that is no partition is left alone"),
        }
    }
    inventory.partitions.sort();
    Ok(inventory)
}

/// Opens the partition of a folder; a folder whose identity cannot be told is left alone.
fn open_partition(
    env: &Arc<Env>,
    partition: TopicPartition,
    dir: &Path,
    marks: &clean_stop::Marks,
    high_watermarks: &OffsetFile,
    now_ms: i64,
) -> Option<Arc<Log>> {
    let topic_id = match identity::read_topic_id(&*env.disk, dir) {
        Ok(Some(id)) => id,
        Ok(None) => {
            tracing::error!(folder = %dir.display(), "a folder without partition.metadata is left alone");
            return None;
        }
        Err(error) => {
            tracing::error!(%error, folder = %dir.display(), "a folder whose topic cannot be told is left alone");
            return None;
        }
    };
    let recovery_point = env.recovery_points.get(&partition).unwrap_or(0);
    let trust = match marks.get(&partition) {
        Some(mark) => Trust::Clean(mark.clone()),
        None => Trust::From(recovery_point),
    };
    let found = Found {
        topic_id,
        dir: dir.into(),
        options: Arc::default(),
        trust,
        log_start_offset: env.log_starts.get(&partition).unwrap_or(0),
        high_watermark: high_watermarks.get(&partition).unwrap_or(0),
        partition,
    };
    let is_clean = matches!(found.trust, Trust::Clean(_));
    let log = Log::open(env, found, now_ms);
    if !is_clean {
        // The process may have died before the folder's first flush.
        log.note_new_folder();
    }
    Some(log)
}
