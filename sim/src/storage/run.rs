//! One run: random steps from a seed.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use taffrail_core::ids::{TopicPartition, Uuid};
use taffrail_core::record::{Batch, BatchBuilder, BatchOptions};
use taffrail_storage::disk::Disk;
use taffrail_storage::disk::fault::{FaultDisk, Rng};
use taffrail_storage::{AppendError, Log, LogOptions, Maintenance, Storage, StorageOptions};

use super::model::{Entry, Model};
use super::{Failure, check};

const DIR: &str = "/data";

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
        file_delete_delay_ms: 10,
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
    let created = storage.create(&partition(), Uuid([topic + 1; 16]), options.clone());
    let log = created.map_err(|error| error.to_string())?;
    Ok((storage, log))
}

fn partition() -> TopicPartition {
    TopicPartition::new("simulated", 0)
}

impl Run {
    async fn step(&mut self) -> Result<(), String> {
        self.now_ms += self.rng.below(50) as i64;
        self.disk.set_now_ms(self.now_ms);
        match self.rng.below(100) {
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
            _ => self.lose_power().await,
        }
    }

    fn append(&mut self) -> Result<(), String> {
        let records = 1 + self.rng.below(4);
        let is_idempotent = self.rng.one_in(3);
        let mut options = BatchOptions::default();
        if is_idempotent {
            options = BatchOptions { producer_id: 5, producer_epoch: 0, base_sequence: self.sequence, ..options };
        }
        let mut builder = BatchBuilder::new(options);
        let mut entries = Vec::new();
        for _ in 0..records {
            let timestamp =
                taffrail_runtime::time::unix_ms() / 86_400_000 * 86_400_000 + self.now_ms + self.rng.below(200) as i64;
            let mut value = self.next_number.to_be_bytes().to_vec();
            value.resize(8 + self.rng.below(120) as usize, b'.');
            builder.push(timestamp, None, Some(&value)).map_err(|error| error.to_string())?;
            entries.push(Entry { timestamp, number: self.next_number });
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
        self.log.advance_high_watermark(self.log.end_offset());
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
            Err(taffrail_storage::LogError::DiskFull) => self.disk.set_capacity(None),
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
        self.resume_producer();
        Ok(())
    }

    /// The producer goes on from what the log knows of it, since its last batches may be gone.
    fn resume_producer(&mut self) {
        self.sequence = self.log.next_sequence(5).unwrap_or(0);
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
        self.resume_producer();
        check::content(&self.log, &self.model, 1 + self.rng.below(4_000))
    }

    /// A power cut can leave a gap between segments of which none was durable. That is told, and another topic begins.
    async fn accept_damage(&mut self, ending: Ending, reason: &str) -> Result<(), String> {
        if ending != Ending::Crash || !reason.contains("a valid batch") {
            return Err(format!("after a {ending:?} the log is offline: {reason}"));
        }
        self.report.damaged += 1;
        self.storage.delete(&partition()).map_err(|error| error.to_string())?;
        self.topics += 1;
        let options = options(&mut self.rng);
        let created = self.storage.create(&partition(), Uuid([self.topics + 1; 16]), options);
        self.log = created.map_err(|error| error.to_string())?;
        self.model = Model::default();
        self.sequence = 0;
        Ok(())
    }
}
