//! `taffrail topic consume`: prints the records of topics.

mod member;
mod printer;

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use clap::builder::{PossibleValuesParser, TypedValueParser};
use taffrail_client::kafka::{Assignor, Consumer, KafkaClient, PartitionKey};
use taffrail_runtime::time;

use self::printer::Printer;
use super::layout::{GRAMMAR, Layout};
use crate::cli::brokers::BrokersArgs;
use crate::cli::position::{Place, Position};
use crate::cli::progress::Progress;
use crate::cli::{Format, completion};
use crate::exit::Exit;
use crate::options::OptionsError;

/// Arguments of `topic consume`.
#[derive(Args, Debug)]
#[command(
    after_help = "Without -e it waits for more, until Ctrl-C. With -o json it prints one JSON object on each line. With -g it \
                  shares the partitions with the group's other members, and the group goes on behind what was printed."
)]
pub(crate) struct ConsumeArgs {
    /// Names of topics
    #[arg(value_name = "NAME", required = true, add = completion::topics())]
    names: Vec<String>,
    /// Read as a member of this group: from where it is, and it goes on behind what was printed
    #[arg(short, long, value_name = "GROUP", conflicts_with = "partitions", add = completion::groups())]
    group: Option<String>,
    /// How the group's members share partitions out; all of them must know it: range, or cooperative-sticky, with which
    /// members keep what they have and read on while others come and go
    #[arg(long, value_name = "NAME", default_value = "range", requires = "group", value_parser = assignor())]
    assignor: Assignor,
    /// A name that lasts: who comes back with it within 45 seconds is the same member and gets the same partitions
    #[arg(long, value_name = "ID", requires = "group")]
    instance_id: Option<String>,
    /// Only these partitions
    #[arg(short, long, value_name = "NUMBER", value_delimiter = ',')]
    partitions: Vec<i32>,
    /// Where to begin, for a group where it has no offset: start, end, an offset, end-COUNT, @TIME (RFC 3339, or
    /// milliseconds since 1970), or @-AGE such as @-15m
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

/// Reads the name of an assignor.
fn assignor() -> impl TypedValueParser<Value = Assignor> {
    let names = PossibleValuesParser::new(Assignor::ALL.map(|(name, _)| name));
    names.map(|name| Assignor::ALL.into_iter().find(|(known, _)| *known == name).map(|(_, it)| it).unwrap_or_default())
}

pub(super) async fn run(args: &ConsumeArgs) -> anyhow::Result<Exit> {
    if args.from.is_current() {
        return Err(OptionsError::Conflict("--from current: only groups have a current offset".to_owned()).into());
    }
    if args.format.is_some() && matches!(args.brokers.output, Format::Json | Format::Yaml) {
        return Err(OptionsError::Conflict("--format and -o json or yaml exclude each other".to_owned()).into());
    }
    let mut client = args.brokers.connect().await?;
    if let Some(group) = &args.group {
        return member::run(args, group, client).await;
    }
    let places = places(&mut client, args).await?;
    let mut consumer = consumer(&places);
    let (mut left, mut printer) = (Left::new(args), Printer::new(args));
    let mut progress = Progress::in_records().filter(|_| args.exit_at_end);
    left.begin(&places);
    left.without(&mut consumer);
    while !left.is_done() {
        let fetched = consumer.next(&mut client).await?;
        printer.print(&fetched, &mut left)?;
        if !printer.flush()? {
            return Ok(Exit::Done);
        }
        left.without(&mut consumer);
        if let Some(progress) = &mut progress {
            progress.step("reading", left.until_end(&consumer));
        }
    }
    if let Some(progress) = progress {
        progress.end();
    }
    Ok(Exit::Done)
}

/// A consumer that begins at these places.
fn consumer(places: &[Place]) -> Consumer {
    Consumer::new(places.iter().map(|place| (place.partition.clone(), place.offset)).collect())
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
    exit_at_end: bool,
    /// Where each partition ends, if that is where to stop.
    ends: Option<BTreeMap<PartitionKey, i64>>,
}

impl Left {
    fn new(args: &ConsumeArgs) -> Self {
        Self { records: args.count, exit_at_end: args.exit_at_end, ends: None }
    }

    /// From now on these partitions are read.
    fn begin(&mut self, places: &[Place]) {
        let ends = places.iter().map(|place| (place.partition.clone(), place.end)).collect();
        self.ends = self.exit_at_end.then_some(ends);
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

    /// Offsets up to the ends, if that is where to stop.
    fn until_end(&self, consumer: &Consumer) -> Option<i64> {
        let left = |(partition, end): (&PartitionKey, &i64)| {
            consumer.positions().get(partition).map_or(0, |position| end - position)
        };
        self.ends.as_ref().map(|ends| ends.iter().map(left).sum())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_ends_after_so_many_records_or_at_the_ends() {
        let key = |partition| ("t".to_owned(), partition);
        let mut left = Left { records: Some(2), exit_at_end: false, ends: None };
        assert!(left.takes(&key(0), 5) && !left.is_done() && left.takes(&key(0), 6));
        assert!(left.is_done() && !left.takes(&key(0), 7));

        let place = |number, offset, end| Place { partition: key(number), start: 0, end, offset };
        let places = [place(0, 2, 3), place(1, 0, 0)];
        let mut left = Left { records: None, exit_at_end: true, ends: None };
        left.begin(&places);
        let mut consumer = consumer(&places);
        left.without(&mut consumer);
        assert_eq!(left.until_end(&consumer), Some(1));
        assert_eq!(consumer.positions().keys().collect::<Vec<_>>(), [&key(0)], "an empty partition has ended");
        assert!(left.takes(&key(0), 2) && !left.takes(&key(0), 3) && !left.is_done());
    }
}
