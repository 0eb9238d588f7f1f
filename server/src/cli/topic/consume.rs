//! `taffrail topic consume`: prints the records of topics.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::ops::ControlFlow;

use anyhow::Context;
use clap::Args;
use taffrail_client::kafka::{Consumer, Fetched, KafkaClient, PartitionKey};
use taffrail_core::record::{Decompressor, Record};
use taffrail_runtime::time;

use super::envelope;
use super::layout::{GRAMMAR, Layout};
use crate::cli::Format;
use crate::cli::brokers::BrokersArgs;
use crate::cli::position::{Place, Position};
use crate::exit::Exit;
use crate::options::OptionsError;

/// Bytes that are printed at once.
const PRINT_BYTES: usize = 256 << 10;

/// Arguments of `topic consume`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without -e it waits for more, until Ctrl-C. With -o json it prints one JSON object on each line."
)]
pub(crate) struct ConsumeArgs {
    /// Names of topics
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Only these partitions
    #[arg(short, long, value_name = "NUMBER", value_delimiter = ',')]
    partitions: Vec<i32>,
    /// Where to begin: start, end, an offset, end-COUNT, @TIME (RFC 3339, or milliseconds since 1970), or @-AGE such as @-15m
    #[arg(long, visible_alias = "offset", value_name = "PLACE", default_value = "start")]
    from: Position,
    /// End at the end that the partitions had at the beginning
    #[arg(short, long)]
    exit_at_end: bool,
    /// End after so many records
    #[arg(short = 'n', long, value_name = "COUNT")]
    count: Option<u64>,
    /// How to print a record [default: %v\n]
    #[arg(short, long, value_name = "FORMAT", long_help = format!("How to print a record [default: %v\\n]: {GRAMMAR}"))]
    format: Option<Layout>,
    #[command(flatten)]
    brokers: BrokersArgs,
}

pub(super) async fn run(args: &ConsumeArgs) -> anyhow::Result<Exit> {
    if args.from.is_current() {
        return Err(OptionsError::Conflict("--from current: only groups have a current offset".to_owned()).into());
    }
    if args.format.is_some() && matches!(args.brokers.output, Format::Json | Format::Yaml) {
        return Err(OptionsError::Conflict("--format and -o json or yaml exclude each other".to_owned()).into());
    }
    let mut client = args.brokers.connect().await?;
    let places = places(&mut client, args).await?;
    let mut consumer = Consumer::new(places.iter().map(|place| (place.partition.clone(), place.offset)).collect());
    let mut left = Left::new(args, &places);
    let mut printer = Printer::new(args);
    left.without(&mut consumer);
    while !left.is_done() {
        let fetched = consumer.next(&mut client).await?;
        printer.print(&fetched, &mut left)?;
        if !printer.flush().context("records cannot be printed")? {
            // Whoever read them has gone, as behind `| head`.
            return Ok(Exit::Done);
        }
        left.without(&mut consumer);
    }
    Ok(Exit::Done)
}

/// Where to begin in each partition.
async fn places(client: &mut KafkaClient, args: &ConsumeArgs) -> anyhow::Result<Vec<Place>> {
    let mut partitions = BTreeSet::new();
    for name in &args.names {
        partitions.extend(client.partitions(name, &args.partitions).await?);
    }
    let partitions: Vec<PartitionKey> = partitions.into_iter().collect();
    Ok(args.from.resolve(client, &partitions, &BTreeMap::new(), time::unix_ms()).await?)
}

/// What is still to be printed.
struct Left {
    records: Option<u64>,
    /// Where each partition ends, if that is where to stop.
    ends: Option<BTreeMap<PartitionKey, i64>>,
}

impl Left {
    fn new(args: &ConsumeArgs, places: &[Place]) -> Self {
        let ends = places.iter().map(|place| (place.partition.clone(), place.end)).collect();
        Self { records: args.count, ends: args.exit_at_end.then_some(ends) }
    }

    fn is_done(&self) -> bool {
        self.records == Some(0) || self.ends.as_ref().is_some_and(BTreeMap::is_empty)
    }

    /// Whether a record is still wanted; takes it into account if so.
    fn takes(&mut self, partition: &PartitionKey, offset: i64) -> bool {
        if self.ends.as_ref().is_some_and(|ends| ends.get(partition).is_none_or(|end| offset >= *end)) {
            return false;
        }
        match &mut self.records {
            Some(0) => false,
            Some(records) => {
                *records -= 1;
                true
            }
            None => true,
        }
    }

    /// Has the consumer leave out partitions that have been read to their ends.
    fn without(&mut self, consumer: &mut Consumer) {
        let Some(ends) = &mut self.ends else { return };
        let positions = consumer.positions().clone();
        ends.retain(|partition, end| {
            let goes_on = positions.get(partition).is_some_and(|position| position < end);
            if !goes_on {
                consumer.leave(partition);
            }
            goes_on
        });
    }
}

/// Prints records to standard output.
struct Printer {
    layout: Option<Layout>,
    output: Format,
    shown: bool,
    buffer: Vec<u8>,
    decompressor: Decompressor,
}

impl Printer {
    fn new(args: &ConsumeArgs) -> Self {
        Self {
            layout: args.format.clone(),
            output: args.brokers.output,
            shown: io::stdout().is_terminal(),
            buffer: Vec::new(),
            decompressor: Decompressor::default(),
        }
    }

    fn print(&mut self, fetched: &Fetched, left: &mut Left) -> anyhow::Result<()> {
        let lines = Layout::lines();
        let layout = self.layout.as_ref().unwrap_or(&lines);
        let (output, shown, buffer) = (self.output, self.shown, &mut self.buffer);
        let mut outcome = Ok(());
        let visit = |record: &Record<'_>| {
            if !left.takes(&fetched.partition, record.offset) {
                return ControlFlow::Break(());
            }
            outcome = print_one(buffer, output, layout, shown, &fetched.partition, record);
            if outcome.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        fetched.visit(&mut self.decompressor, visit)?;
        outcome
    }

    /// Hands over what was printed; whether anybody reads it.
    fn flush(&mut self) -> io::Result<bool> {
        let mut out = io::stdout().lock();
        let written = self.buffer.chunks(PRINT_BYTES).try_for_each(|chunk| out.write_all(chunk));
        self.buffer.clear();
        match written.and_then(|()| out.flush()) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(error),
        }
    }
}

fn print_one(
    buffer: &mut Vec<u8>,
    output: Format,
    layout: &Layout,
    shown: bool,
    partition: &PartitionKey,
    record: &Record<'_>,
) -> anyhow::Result<()> {
    match output {
        Format::Table | Format::Wide => layout.write(buffer, partition, record, shown)?,
        Format::Json => {
            serde_json::to_writer(&mut *buffer, &envelope::write(partition, record))?;
            buffer.push(b'\n');
        }
        Format::Yaml => {
            buffer.extend_from_slice(b"---\n");
            buffer.extend_from_slice(serde_saphyr::to_string(&envelope::write(partition, record))?.as_bytes());
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_after_so_many_records_or_at_the_ends() {
        let key = |partition| ("t".to_owned(), partition);
        let mut left = Left { records: Some(2), ends: None };
        assert!(left.takes(&key(0), 5) && !left.is_done() && left.takes(&key(0), 6));
        assert!(left.is_done() && !left.takes(&key(0), 7));

        let mut left = Left { records: None, ends: Some([(key(0), 3), (key(1), 0)].into()) };
        let mut consumer = Consumer::new([(key(0), 2), (key(1), 0)].into());
        left.without(&mut consumer);
        assert_eq!(consumer.positions().keys().collect::<Vec<_>>(), [&key(0)], "an empty partition has ended");
        assert!(left.takes(&key(0), 2) && !left.takes(&key(0), 3) && !left.is_done());
    }
}
