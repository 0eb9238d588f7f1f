//! `taffrail topic trim`: deletes the oldest records of a topic. It shows what would go, until it is told to do it.

use std::collections::BTreeMap;

use clap::Args;
use serde_json::json;
use taffrail_client::kafka::PartitionKey;
use taffrail_runtime::time;

use crate::cli::brokers::BrokersArgs;
use crate::cli::position::{Place, Position};
use crate::cli::{completion, print, table, tell};
use crate::exit::Exit;
use crate::options::OptionsError;

/// Arguments of `topic trim`.
#[derive(Args, Debug)]
pub(crate) struct TrimArgs {
    /// Name of the topic
    #[arg(value_name = "NAME", add = completion::topics())]
    name: String,
    /// What comes before it goes: end, an offset, end-COUNT, @TIME (RFC 3339, or milliseconds since 1970), or @-AGE such as
    /// @-15m
    #[arg(long, value_name = "PLACE")]
    before: Position,
    /// Only these partitions
    #[arg(short, long, value_name = "NUMBER", value_delimiter = ',')]
    partitions: Vec<i32>,
    /// Do it
    #[arg(long)]
    execute: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

pub(super) async fn run(args: &TrimArgs) -> anyhow::Result<Exit> {
    if args.before.is_current() {
        return Err(OptionsError::Conflict("--before current: only groups have a current offset".to_owned()).into());
    }
    let mut client = args.brokers.connect().await?;
    let partitions = client.partitions(&args.name, &args.partitions).await?;
    let places = args.before.resolve(&mut client, &partitions, &BTreeMap::new(), time::unix_ms()).await?;
    if args.execute {
        let before: BTreeMap<PartitionKey, i64> =
            places.iter().map(|place| (place.partition.clone(), place.offset)).collect();
        client.delete_records(&before).await?;
    }
    let data = |place: &Place| {
        json!({
            "topic": place.partition.0,
            "partition": place.partition.1,
            "startOffset": place.start,
            "endOffset": place.end,
            "newStartOffset": place.offset,
        })
    };
    let row = |place: &Place| {
        let (topic, partition) = &place.partition;
        let offsets = [place.start, place.offset, place.end].map(|offset| offset.to_string());
        [topic.clone(), partition.to_string()].into_iter().chain(offsets).collect::<Vec<_>>()
    };
    let all: Vec<_> = places.iter().map(data).collect();
    print(args.brokers.output, &json!({ "executed": args.execute, "partitions": all }), || {
        let rows: Vec<Vec<String>> = places.iter().map(row).collect();
        table(&["TOPIC", "PARTITION", "START", "NEW-START", "END"], &rows)
    })?;
    if !args.execute {
        tell("nothing is deleted yet: add --execute to do it");
    }
    Ok(Exit::Done)
}
