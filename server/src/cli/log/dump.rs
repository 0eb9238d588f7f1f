//! `taffrail log dump`: what is in files of partitions. It reads and changes nothing, so it may look at a running broker's.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use taffrail_core::record::{BatchHeader, BatchRef, Decompressor, Record};
use taffrail_storage::disk::Disk;
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::dump::{Dumped, DumpedFile, dump, files};
use taffrail_storage::names::{FileKind, Folder, parse_folder};

use crate::cli::output::offer;
use crate::cli::topic::envelope;
use crate::cli::{Format, table, tell};
use crate::exit::Exit;

/// Rows of a table that are lined up together.
const ROWS_MAX: usize = 1_000;

/// Characters of a key or a value that a table shows.
const CHARS_MAX: usize = 64;

/// Arguments of `log dump`.
#[derive(Args, Debug)]
#[command(after_help = "Broken places are told on standard error, and what is sound behind them is printed all the same.")]
pub(crate) struct DumpArgs {
    /// Files of partitions (.log, .index, .timeindex, .txnindex, .snapshot, leader-epoch-checkpoint, partition.metadata), or
    /// folders of them
    #[arg(value_name = "PATH", required = true)]
    paths: Vec<PathBuf>,
    /// Print the records of batches, and not only how many they are
    #[arg(long)]
    records: bool,
    /// Only look for what is broken
    #[arg(long, conflicts_with = "records")]
    check: bool,
    /// How to print it; with json, each line is an object
    #[arg(short, long, value_enum, default_value_t)]
    output: Format,
}

/// Carries out `log dump`.
pub(super) fn run(args: &DumpArgs) -> anyhow::Result<Exit> {
    let disk = RealDisk::new();
    let mut printer = Printer::new(args);
    for path in all_files(&disk, &args.paths)? {
        let Some(file) = DumpedFile::of(&path) else {
            bail!("{} is none of a partition's files by its name", path.display());
        };
        printer.begin(&path, file);
        let mut outcome = Ok(());
        let mut visit = |entry: Dumped<'_>| {
            outcome = printer.entry(entry);
            if outcome.is_ok() && !printer.is_alone { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        dump(&disk, &path, file, args.records, &mut visit).with_context(|| path.display().to_string())?;
        outcome?;
        printer.hand_over()?;
        if printer.is_alone {
            break;
        }
    }
    Ok(if printer.is_broken { Exit::Unhealthy } else { Exit::Done })
}

/// These files, and those in these folders.
fn all_files(disk: &dyn Disk, paths: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut all = Vec::new();
    for path in paths {
        if !path.is_dir() {
            all.push(path.clone());
            continue;
        }
        let found = files(disk, path).with_context(|| path.display().to_string())?;
        if found.is_empty() {
            bail!("{} has no files of a partition: name the folder of one, such as orders-0", path.display());
        }
        all.extend(found);
    }
    Ok(all)
}

/// Prints entries as they come.
struct Printer<'a> {
    args: &'a DumpArgs,
    path: String,
    /// The topic and partition, if the folder's name tells.
    partition: (String, i32),
    headers: &'static [&'static str],
    rows: Vec<Vec<String>>,
    lines: Vec<u8>,
    is_broken: bool,
    /// Nobody reads what is printed any more.
    is_alone: bool,
    decompressor: Decompressor,
}

impl<'a> Printer<'a> {
    fn new(args: &'a DumpArgs) -> Self {
        Self {
            args,
            path: String::new(),
            partition: (String::new(), -1),
            headers: &[],
            rows: Vec::new(),
            lines: Vec::new(),
            is_broken: false,
            is_alone: false,
            decompressor: Decompressor::default(),
        }
    }

    fn is_table(&self) -> bool {
        matches!(self.args.output, Format::Table | Format::Wide)
    }

    /// From now on entries are of this file.
    fn begin(&mut self, path: &Path, file: DumpedFile) {
        self.path = path.display().to_string();
        let folder = std::path::absolute(path).ok().and_then(|path| path.parent()?.file_name()?.to_str().map(parse_folder));
        self.partition = match folder {
            Some(Folder::Partition(partition)) => (partition.topic.to_string(), partition.partition),
            _ => (String::new(), -1),
        };
        self.headers = headers(file, self.args.records);
        if self.is_table() && !self.args.check {
            self.lines.extend_from_slice(format!("{}\n", crate::cli::output::shown(&self.path)).as_bytes());
        }
    }

    fn entry(&mut self, entry: Dumped<'_>) -> anyhow::Result<()> {
        if let Dumped::Damage { position, what } = &entry {
            self.is_broken = true;
            tell(&format!("taffrail: {} at {position}: {what}", self.path));
        } else if self.args.check {
            return Ok(());
        }
        if !self.is_table() {
            let (kind, mut data) = data(&entry);
            if let Dumped::Batch { position, batch: Some(batch), .. } = &entry
                && let Some(records) = self.records(*position, batch, envelope::write)
            {
                data["records"] = json!(records);
            }
            self.line(kind, data)?;
        } else if let Dumped::Batch { position, batch: Some(batch), .. } = &entry {
            let at = *position;
            let rows = self.records(at, batch, |_, record| record_row(at, record)).unwrap_or_default();
            self.rows.extend(rows);
        } else {
            self.rows.extend(row(&entry));
        }
        if self.rows.len() >= ROWS_MAX || self.lines.len() >= ROWS_MAX * CHARS_MAX {
            self.hand_over()?;
        }
        Ok(())
    }

    /// What `make` makes of each record of a batch.
    fn records<T>(
        &mut self,
        position: u64,
        batch: &BatchRef<'_>,
        make: impl Fn(&(String, i32), &Record<'_>) -> T,
    ) -> Option<Vec<T>> {
        let records = batch.records(&mut self.decompressor);
        let made = records.and_then(|records| {
            records.map(|record| record.map(|record| make(&self.partition, &record))).collect::<Result<Vec<_>, _>>()
        });
        made.map_err(|error| {
            self.is_broken = true;
            tell(&format!("taffrail: {} at {position}: the records cannot be read: {error}", self.path));
        })
        .ok()
    }

    fn line(&mut self, kind: &str, data: Value) -> anyhow::Result<()> {
        let mut object = Map::from_iter([("file".to_owned(), json!(self.path)), ("entry".to_owned(), json!(kind))]);
        if let Value::Object(fields) = data {
            object.extend(fields);
        }
        match self.args.output {
            Format::Yaml => {
                self.lines.extend_from_slice(b"---\n");
                self.lines.extend_from_slice(serde_saphyr::to_string(&Value::Object(object))?.as_bytes());
            }
            _ => {
                serde_json::to_writer(&mut self.lines, &object)?;
                self.lines.push(b'\n');
            }
        }
        Ok(())
    }

    /// Hands over what there is.
    fn hand_over(&mut self) -> anyhow::Result<()> {
        if !self.rows.is_empty() {
            let columns = self.headers.len() - usize::from(self.args.output == Format::Table && self.has_wide_column());
            let rows: Vec<Vec<String>> =
                self.rows.drain(..).map(|row| row.into_iter().take(columns).collect()).collect();
            self.lines.extend_from_slice(table(&self.headers[..columns], &rows).as_bytes());
        }
        self.is_alone = !offer(&self.lines)?;
        self.lines.clear();
        Ok(())
    }

    /// Whether the last column is for `-o wide`.
    fn has_wide_column(&self) -> bool {
        self.headers.last() == Some(&"CRC")
    }
}

fn headers(file: DumpedFile, with_records: bool) -> &'static [&'static str] {
    match file {
        DumpedFile::Segment(_, FileKind::Log) if with_records => {
            &["BATCH-AT", "OFFSET", "TIMESTAMP", "SEQUENCE", "KEY", "VALUE", "HEADERS"]
        }
        DumpedFile::Segment(_, FileKind::Log) => &[
            "AT", "FIRST", "LAST", "RECORDS", "BYTES", "EPOCH", "MAX-TIMESTAMP", "CODEC", "PRODUCER", "SEQUENCE", "KIND",
            "CRC",
        ],
        DumpedFile::Segment(_, FileKind::Index) => &["OFFSET", "AT"],
        DumpedFile::Segment(_, FileKind::TimeIndex) => &["TIMESTAMP", "OFFSET"],
        DumpedFile::Segment(_, FileKind::TxnIndex) => &["PRODUCER", "FIRST", "LAST", "LAST-STABLE"],
        DumpedFile::Segment(_, FileKind::Snapshot) => {
            &["PRODUCER", "EPOCH", "LAST-SEQUENCE", "LAST-OFFSET", "TIMESTAMP", "TRANSACTION-FROM"]
        }
        DumpedFile::LeaderEpochs => &["EPOCH", "FIRST"],
        DumpedFile::Topic => &["TOPIC-ID"],
    }
}

/// What a batch is besides records, in a word.
fn kind(header: &BatchHeader) -> &'static str {
    match (header.is_control(), header.is_transactional()) {
        (true, _) => "control",
        (false, true) => "transaction",
        (false, false) => "plain",
    }
}

fn codec(header: &BatchHeader) -> String {
    header.compression().map_or_else(|error| error.to_string(), |codec| codec.name().to_owned())
}

/// An entry for programs: its kind, and its fields.
fn data(entry: &Dumped<'_>) -> (&'static str, Value) {
    match entry {
        Dumped::Batch { position, header, .. } => (
            "batch",
            json!({
                "position": position,
                "firstOffset": header.base_offset,
                "lastOffset": header.last_offset(),
                "recordCount": header.record_count,
                "bytes": header.total_bytes(),
                "leaderEpoch": header.leader_epoch,
                "firstTimestamp": header.base_timestamp,
                "maxTimestamp": header.max_timestamp,
                "codec": codec(header),
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "firstSequence": header.base_sequence,
                "kind": kind(header),
                "crc": header.crc,
            }),
        ),
        Dumped::Position { offset, position } => ("position", json!({ "offset": offset, "position": position })),
        Dumped::Time { timestamp, offset } => ("time", json!({ "timestamp": timestamp, "offset": offset })),
        Dumped::Aborted(aborted) => (
            "aborted",
            json!({
                "producerId": aborted.producer_id,
                "firstOffset": aborted.first_offset,
                "lastOffset": aborted.last_offset,
                "lastStableOffset": aborted.last_stable_offset,
            }),
        ),
        Dumped::Producer(producer) => (
            "producer",
            json!({
                "producerId": producer.producer_id,
                "producerEpoch": producer.producer_epoch,
                "lastSequence": producer.last_sequence,
                "lastOffset": producer.last_offset,
                "timestamp": producer.timestamp,
                "coordinatorEpoch": producer.coordinator_epoch,
                "transactionFirstOffset": producer.current_txn_first_offset,
            }),
        ),
        Dumped::Epoch(epoch, first) => ("epoch", json!({ "leaderEpoch": epoch, "firstOffset": first })),
        Dumped::Topic(id) => ("topic", json!({ "topicId": id.to_string() })),
        Dumped::Damage { position, what } => ("damage", json!({ "position": position, "what": what })),
    }
}

/// An entry for people; damage is told elsewhere.
fn row(entry: &Dumped<'_>) -> Option<Vec<String>> {
    let (_, data) = data(entry);
    let fields: &[&str] = match entry {
        Dumped::Batch { .. } => &[
            "position", "firstOffset", "lastOffset", "recordCount", "bytes", "leaderEpoch", "maxTimestamp", "codec",
            "producerId", "firstSequence", "kind", "crc",
        ],
        Dumped::Position { .. } => &["offset", "position"],
        Dumped::Time { .. } => &["timestamp", "offset"],
        Dumped::Aborted(_) => &["producerId", "firstOffset", "lastOffset", "lastStableOffset"],
        Dumped::Producer(_) => {
            &["producerId", "producerEpoch", "lastSequence", "lastOffset", "timestamp", "transactionFirstOffset"]
        }
        Dumped::Epoch(..) => &["leaderEpoch", "firstOffset"],
        Dumped::Topic(_) => &["topicId"],
        Dumped::Damage { .. } => return None,
    };
    let cell = |name: &&str| match &data[*name] {
        Value::String(text) => text.clone(),
        // Kafka's way to say that there is none.
        Value::Number(number) if number.as_i64() == Some(-1) => String::new(),
        other => other.to_string(),
    };
    Some(fields.iter().map(cell).collect())
}

/// A record for people, cut to what fits a line.
fn record_row(position: u64, record: &Record<'_>) -> Vec<String> {
    let cut = |bytes: Option<&[u8]>| {
        let Some(bytes) = bytes else { return "null".to_owned() };
        let text = String::from_utf8_lossy(&bytes[..bytes.len().min(4 * CHARS_MAX)]);
        let mut cut: String = text.chars().take(CHARS_MAX).collect();
        if cut.len() < bytes.len() {
            cut.push('…');
        }
        cut
    };
    let sequence = if record.sequence < 0 { String::new() } else { record.sequence.to_string() };
    let (offset, timestamp) = (record.offset.to_string(), record.timestamp.to_string());
    let (key, value) = (cut(record.key), cut(record.value));
    vec![position.to_string(), offset, timestamp, sequence, key, value, record.headers.len().to_string()]
}
