//! `taffrail log dump`: what is in files of partitions. It reads and changes nothing, so it may look at a running broker's.

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};
use clap::Args;
use serde_json::{Map, Value, json};
use taffrail_core::record::{BatchRef, Decompressor, Record};
use taffrail_storage::disk::Disk;
use taffrail_storage::disk::real::RealDisk;
use taffrail_storage::dump::{Dumped, DumpedFile, dump, files};
use taffrail_storage::names::{Folder, parse_folder};

use super::entries::{data, headers, record_row, row};
use crate::cli::output::offer;
use crate::cli::topic::envelope;
use crate::cli::{Format, table, tell};
use crate::exit::Exit;

/// Rows of a table that are lined up together.
const ROWS_MAX: usize = 1_000;

/// Bytes of lines that are printed together.
const LINES_BYTES: usize = 64 << 10;

/// Arguments of `log dump`.
#[derive(Args, Debug)]
#[command(
    after_help = "Broken places are told on standard error, and what is sound behind them is printed all the same."
)]
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
        let folder =
            std::path::absolute(path).ok().and_then(|path| path.parent()?.file_name()?.to_str().map(parse_folder));
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
        if self.rows.len() >= ROWS_MAX || self.lines.len() >= LINES_BYTES {
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
