//! One run: random steps from a seed.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::ids::{TopicPartition, Uuid};
use taffrail_core::record::{Batch, BatchBuilder, BatchOptions};
use taffrail_storage::disk::Disk;
use taffrail_storage::disk::fault::{Fault, FaultDisk, Op, Rng};
use taffrail_storage::{AppendError, Log, LogError, LogOptions, Maintenance, Storage, StorageOptions};

use super::model::{Entry, Model};
use super::{Failure, check};

const DIR: &str = "/data";

/// Most records of a batch.
const RECORDS_MAX: u64 = 4;

/// The idempotent producer.
const PRODUCER_ID: i64 = 5;

/// An error number of the operating system: input/output error.
const EIO: i32 = 5;

/// How a run is made.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// Decides everything.
    pub seed: u64,
    /// Things to do.
    pub steps: usize,
}

/// What a run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// Records that were appended.
    pub appended: u64,
    /// Power cuts.
    pub crashes: u64,
    /// Deaths of the process alone.
    pub kills: u64,
    /// Clean stops.
    pub stops: u64,
    /// Appends that a full disk refused.
    pub refused: u64,
    /// Power cuts after which the log was found damaged in the middle, which is told and not repaired.
    pub damaged: u64,
    /// Syncs that failed.
    pub failed: u64,
    /// Bits that flipped on the medium.
    pub flipped: u64,
    /// Calls to the disk; equal for equal seeds.
    pub calls: u64,
}

/// How the last life ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Ending {
    Stop,
    Kill,
    Crash,
}

struct Run {
    rng: Rng,
    disk: FaultDisk,
    storage: Arc<Storage>,
    maintenance: Maintenance,
    log: Arc<Log>,
    model: Model,
    next_number: u64,
    now_ms: i64,
    sequence: i32,
    topics: u8,
    report: Report,
}

/// Makes a run to its end.
///
/// # Errors
/// [`Failure`] when the log breaks a promise.
pub async fn run(settings: Settings) -> Result<Report, Failure> {
    let failure = |step: usize| move |what: String| Failure { seed: settings.seed, step, what };
    let mut rng = Rng::new(settings.seed);
    let disk = FaultDisk::new(rng.next_u64());
    let (storage, log) = open(&disk, &options(&mut rng), 0).await.map_err(failure(0))?;
    let maintenance = Maintenance::new(Arc::clone(&storage));
    let model = Model::default();
    let report = Report::default();
    let now_ms = 1_000_000;
    let mut run =
        Run { rng, disk, storage, maintenance, log, model, next_number: 0, now_ms, sequence: 0, topics: 0, report };
    for step in 1..=settings.steps {
        run.step().await.map_err(failure(step))?;
    }
    run.end(Ending::Kill).await.map_err(failure(settings.steps + 1))?;
    run.report.calls = run.disk.calls();
    Ok(run.report)
}

fn options(rng: &mut Rng) -> LogOptions {
    LogOptions {
        segment_bytes: [600, 2_000, 1 << 20][rng.below(3) as usize],
        index_interval_bytes: [1, 200, 4096][rng.below(3) as usize],
        retention_ms: -1,
        retention_bytes: if rng.one_in(3) { 3_000 } else { -1 },
        // Removed files go by jobs that nobody waits for, which would mix with the calls of the next steps.
        file_delete_delay_ms: 1 << 40,
        ..LogOptions::default()
    }
}

async fn open(disk: &FaultDisk, options: &LogOptions, topic: u8) -> Result<(Arc<Storage>, Arc<Log>), String> {
    let mut settings = StorageOptions::new(Path::new(DIR));
    settings.recovery_threads = 1;
    // Nothing happens beside the steps, so that a seed decides the order of all calls.
    settings.flush_threads = 0;
    settings.open_files_max = 8;
    let storage =
        Storage::open(settings, Arc::new(disk.clone()) as Arc<dyn Disk>).await.map_err(|error| error.to_string())?;
    let created = storage.create(&partition(topic), Uuid([topic + 1; 16]), options.clone());
    let log = created.map_err(|error| error.to_string())?;
    Ok((storage, log))
}

/// The partition of the topic of this number. Each has a name of its own, because deleting one gives its folder a random
/// name, after which a seed does not do the same again.
fn partition(topic: u8) -> TopicPartition {
    TopicPartition::new(format!("simulated{topic}"), 0)
}

impl Run {
    async fn step(&mut self) -> Result<(), String> {
        self.now_ms += self.rng.below(50) as i64;
        self.disk.set_now_ms(self.now_ms);
        match self.rng.below(103) {
            0..60 => self.append(),
            60..70 => self.flush().await,
            70..74 => self.maintain().await,
            74..77 => self.delete_records(),
            77..80 => self.truncate(),
            80..86 => check::content(&self.log, &self.model, 1 + self.rng.below(4_000)),
            86..89 => self.end(Ending::Stop).await,
            89..92 => self.end(Ending::Kill).await,
            92..95 => self.end(Ending::Crash).await,
            95..97 => self.fill_disk(),
            97..100 => self.lose_power().await,
            100 => self.fail_sync().await,
            _ => self.decay().await,
        }
    }

    fn append(&mut self) -> Result<(), String> {
        let records = 1 + self.rng.below(RECORDS_MAX);
        let is_idempotent = self.rng.one_in(3);
        let mut options = BatchOptions::default();
        if is_idempotent {
            options =
                BatchOptions { producer_id: PRODUCER_ID, producer_epoch: 0, base_sequence: self.sequence, ..options };
        }
        let mut builder = BatchBuilder::new(options);
        let mut entries = Vec::new();
        for count in 0..records {
            let timestamp =
                taffrail_runtime::time::unix_ms() / 86_400_000 * 86_400_000 + self.now_ms + self.rng.below(200) as i64;
            let mut value = self.next_number.to_be_bytes().to_vec();
            value.resize(8 + self.rng.below(120) as usize, b'.');
            builder.push(timestamp, None, Some(&value)).map_err(|error| error.to_string())?;
            let sequence = is_idempotent.then_some(self.sequence + count as i32);
            entries.push(Entry { timestamp, number: self.next_number, sequence });
            self.next_number += 1;
        }
        let bytes = builder.build().map_err(|error| error.to_string())?;
        let batch = Batch::parse(&Bytes::from(bytes)).map_err(|error| error.to_string())?;
        let base_offset = self.model.end();
        match self.log.append(std::slice::from_ref(&batch), 1, self.now_ms) {
            Ok(appended) if appended.base_offset == base_offset && !appended.duplicate => {}
            Ok(other) => return Err(format!("appended as {other:?}, where offset {base_offset} is next")),
            Err(AppendError::DiskFull) => {
                self.report.refused += 1;
                self.disk.set_capacity(None);
                return Ok(());
            }
            Err(_) if self.disk.is_without_power() => return Ok(()),
            Err(error) => return Err(format!("the append is refused: {error}")),
        }
        self.report.appended += records;
        self.model.entries.extend(entries);
        if is_idempotent {
            self.sequence += records as i32;
            let again = self.log.append(&[batch], 1, self.now_ms).map_err(|error| error.to_string())?;
            if !again.duplicate || again.base_offset != base_offset {
                return Err(format!("a repeated batch is taken for a new one: {again:?}"));
            }
        }
        if !self.rng.one_in(4) {
            self.log.advance_high_watermark(self.log.end_offset());
        }
        Ok(())
    }

    async fn flush(&mut self) -> Result<(), String> {
        let end = self.model.end();
        let done =
            if self.rng.one_in(3) { self.log.checkpoint().await.map(|_| ()) } else { self.log.flush_to(end).await };
        match done {
            Ok(()) => self.model.flushed = end,
            Err(_) if self.disk.is_without_power() => {}
            // A full disk keeps indexes from being written, never batches from being made durable.
            Err(LogError::DiskFull) => self.disk.set_capacity(None),
            Err(error) => return Err(format!("the flush failed: {error}")),
        }
        Ok(())
    }

    async fn maintain(&mut self) -> Result<(), String> {
        self.now_ms += 400_000;
        self.maintenance.round(self.now_ms).await;
        Ok(())
    }

    fn delete_records(&mut self) -> Result<(), String> {
        let (start, end) = (self.log.log_start_offset(), self.log.high_watermark());
        let uncommitted = (self.log.end_offset() - end) as u64;
        if uncommitted > 0 && self.rng.one_in(2) {
            let before = end + 1 + self.rng.below(uncommitted) as i64;
            return match self.log.delete_records(before) {
                Ok(_) => {
                    Err(format!("records before {before} are deleted, of which only those before {end} are committed"))
                }
                Err(_) => Ok(()),
            };
        }
        let before = start + self.rng.below((end - start) as u64 + 1) as i64;
        match self.log.delete_records(before) {
            Ok(start) if start >= before => self.model.floor = before,
            Ok(start) => return Err(format!("records before {before} are deleted, the log starts at {start}")),
            Err(_) if self.disk.is_without_power() => {}
            Err(error) => return Err(format!("records cannot be deleted: {error}")),
        }
        Ok(())
    }

    fn truncate(&mut self) -> Result<(), String> {
        let (start, end) = (self.log.log_start_offset(), self.model.end());
        let back = (end - start).min(20) as u64;
        let offset = end - self.rng.below(back + 1) as i64;
        if offset == start {
            return Ok(());
        }
        let cut =
            self.log.truncate_to(offset, self.now_ms).map_err(|error| format!("the end cannot be cut: {error}"))?;
        // What was cut may come back after a crash, unless the cut was made durable, which it is.
        self.model.cut(cut);
        self.resume_producer()
    }

    /// The producer goes on from what the log knows of it, since its last batches may be gone. Those that are there must be
    /// known.
    fn resume_producer(&mut self) -> Result<(), String> {
        let next = self.log.next_sequence(PRODUCER_ID);
        let last = self.model.last_sequence().filter(|(offset, _)| *offset >= self.log.log_start_offset());
        if let Some((offset, sequence)) = last
            && next != Some(sequence + 1)
        {
            return Err(format!(
                "the producer wrote sequence {sequence} at offset {offset}, and would go on with {next:?}"
            ));
        }
        self.sequence = next.unwrap_or(0);
        Ok(())
    }

    /// Lets a sync of batches fail: what is durable is not known then, and the directory takes no writes any more.
    async fn fail_sync(&mut self) -> Result<(), String> {
        self.disk.inject(Fault { op: Op::Sync, path_contains: ".log".to_owned(), skip: 0, times: 1, errno: EIO });
        let end = self.model.end();
        let flushed = self.log.flush_to(end).await;
        self.disk.heal();
        match flushed {
            // Everything was durable before, so nothing was synced.
            Ok(()) => self.model.flushed = end,
            Err(LogError::DiskFull) => self.disk.set_capacity(None),
            Err(_) if self.storage.fenced().is_some() => {
                self.report.failed += 1;
                return self.end(Ending::Crash).await;
            }
            Err(error) => return Err(format!("a sync failed, and the directory goes on taking writes: {error}")),
        }
        Ok(())
    }

    /// Flips a bit among the batches while no process runs. A start looks at everything past the recovery point, so what it
    /// serves of that is sound; at most the last batch is taken for one that was torn. Before it, readers are told.
    async fn decay(&mut self) -> Result<(), String> {
        let dir = Path::new(DIR).join(partition(self.topics).to_string());
        let files = self.disk.list(&dir).map_err(|error| error.to_string())?;
        let logs: Vec<_> = files.iter().filter(|file| file.name.ends_with(".log")).collect();
        let Some(file) = logs.get(self.rng.below(logs.len() as u64) as usize) else { return Ok(()) };
        let path = dir.join(&file.name);
        let bytes = self.disk.content(&path).map_err(|error| error.to_string())?.len() as u64;
        if bytes == 0 {
            return Ok(());
        }
        let (position, mask) = (self.rng.below(bytes), 1 << self.rng.below(8));
        self.disk.set_capacity(None);
        self.disk.kill();
        self.disk.flip(&path, position, mask).map_err(|error| error.to_string())?;
        self.report.flipped += 1;
        let options = options(&mut self.rng);
        let (storage, log) = open(&self.disk, &options, self.topics).await?;
        self.maintenance = Maintenance::new(Arc::clone(&storage));
        (self.storage, self.log) = (storage, log);
        if self.log.offline().is_none() {
            let (end, least) = (self.log.end_offset(), self.model.end() - RECORDS_MAX as i64);
            if end < least {
                return Err(format!("one bit flipped, and the log ends at {end}, not from {least} on"));
            }
            check::checksums(&self.log, self.log.recovery_point())?;
        }
        self.begin_another_topic()
    }

    fn fill_disk(&mut self) -> Result<(), String> {
        self.disk.set_capacity(Some(self.disk.used() + self.rng.below(400)));
        Ok(())
    }

    /// Lets the power fail at some call in the near future, and goes on until it has.
    async fn lose_power(&mut self) -> Result<(), String> {
        self.disk.lose_power_at(self.disk.calls() + 1 + self.rng.below(40));
        for _ in 0..10 {
            if self.disk.is_without_power() || self.log.offline().is_some() || self.storage.fenced().is_some() {
                break;
            }
            match self.rng.below(4) {
                0 => self.flush().await?,
                1 => self.maintain().await?,
                2 => self.delete_records()?,
                _ => self.append()?,
            }
        }
        self.end(Ending::Crash).await
    }

    /// Ends this life and begins the next one, and compares.
    async fn end(&mut self, ending: Ending) -> Result<(), String> {
        self.disk.set_capacity(None);
        match ending {
            Ending::Stop => {
                self.storage.close().await;
                self.report.stops += 1;
                self.disk.crash();
            }
            Ending::Kill => {
                self.report.kills += 1;
                self.disk.kill();
            }
            Ending::Crash => {
                self.report.crashes += 1;
                self.disk.crash();
            }
        }
        let options = options(&mut self.rng);
        let (storage, log) = open(&self.disk, &options, self.topics).await?;
        self.maintenance = Maintenance::new(Arc::clone(&storage));
        (self.storage, self.log) = (storage, log);
        if let Some(reason) = self.log.offline().cloned() {
            return self.accept_damage(ending, &reason).await;
        }
        let end = self.log.end_offset();
        let least = if ending == Ending::Crash { self.model.flushed } else { self.model.end() };
        if end < least || end > self.model.end() {
            return Err(format!("after a {ending:?} the log ends at {end}, not from {least} to {}", self.model.end()));
        }
        self.model.cut(end);
        self.resume_producer()?;
        check::content(&self.log, &self.model, 1 + self.rng.below(4_000))
    }

    /// A power cut can leave a gap between segments of which none was durable. That is told, and another topic begins.
    async fn accept_damage(&mut self, ending: Ending, reason: &str) -> Result<(), String> {
        if ending != Ending::Crash || !reason.contains("a valid batch") {
            return Err(format!("after a {ending:?} the log is offline: {reason}"));
        }
        self.report.damaged += 1;
        self.begin_another_topic()
    }

    /// Goes on with a topic that has nothing yet; the former one stays as it is.
    fn begin_another_topic(&mut self) -> Result<(), String> {
        self.topics += 1;
        let options = options(&mut self.rng);
        let created = self.storage.create(&partition(self.topics), Uuid([self.topics + 1; 16]), options);
        self.log = created.map_err(|error| error.to_string())?;
        self.model = Model::default();
        self.sequence = 0;
        Ok(())
    }
}
