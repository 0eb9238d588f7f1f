//! `taffrail group reset`: has a group go on somewhere else. It shows where, until it is told to do it.

use std::collections::BTreeMap;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use taffrail_client::kafka::{PartitionKey, Reset};
use taffrail_runtime::{random, time};

use crate::cli::brokers::{BrokersArgs, known};
use crate::cli::position::{Place, Position};
use crate::cli::selection::{Selection, select};
use crate::cli::{completion, print, table, tell};
use crate::exit::Exit;

/// Length of an id that a reset is done once by.
const ID_MAX_BYTES: usize = 128;

/// Arguments of `group reset`.
#[derive(Args, Debug)]
pub(crate) struct ResetArgs {
    /// Name of the group
    #[arg(value_name = "GROUP", add = completion::groups())]
    name: String,
    /// Where to: start, end, an offset, current-COUNT, current+COUNT, end-COUNT, @TIME (RFC 3339, or milliseconds since
    /// 1970), or @-AGE such as @-15m
    #[arg(long, value_name = "PLACE")]
    to: Position,
    /// A topic, or some of its partitions as in orders:0,2; may be repeated [default: where the group has offsets]
    #[arg(short, long = "topic", value_name = "TOPIC[:NUMBER,...]", add = completion::topics())]
    topics: Vec<Selection>,
    /// Do it; the group must have no members then
    #[arg(long)]
    execute: bool,
    /// Do it once: nothing happens if a reset of this id was done to the group before [default: a new one]
    #[arg(long, value_name = "ID", requires = "execute", value_parser = id)]
    id: Option<String>,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Reads the id of a reset, which is one line.
fn id(text: &str) -> Result<String, String> {
    match text.is_empty() || text.len() > ID_MAX_BYTES || text.chars().any(char::is_control) {
        true => Err(format!("an id has 1 to {ID_MAX_BYTES} bytes, and no control characters")),
        false => Ok(text.to_owned()),
    }
}

pub(super) async fn run(args: &ResetArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let group = client.group(&args.name).await?;
    let committed = client.committed(&args.name).await?;
    let current: BTreeMap<PartitionKey, i64> =
        committed.into_iter().map(|(partition, committed)| (partition, committed.offset)).collect();
    let partitions = match args.topics.as_slice() {
        [] => current.keys().cloned().collect(),
        named => select(&mut client, named).await?,
    };
    if partitions.is_empty() {
        bail!("group {} has no offsets: name topics with --topic", args.name);
    }
    if args.execute && !group.members.is_empty() {
        bail!(
            "group {} has {} members, which would go on where they are: stop them first",
            args.name,
            group.members.len()
        );
    }
    let places = args.to.resolve(&mut client, &partitions, &current, time::unix_ms()).await?;
    let mut outcome = None;
    if args.execute {
        let offsets = places.iter().map(|place| (place.partition.clone(), place.offset)).collect();
        let id = args.id.clone().unwrap_or_else(|| random::uuid().to_string());
        outcome = Some(client.reset(&args.name, &id, &offsets).await?);
    }
    let is_executed = matches!(outcome, Some(Reset::Done | Reset::DoneUnmarked));
    let data = |place: &Place| {
        json!({
            "topic": place.partition.0,
            "partition": place.partition.1,
            "from": current.get(&place.partition),
            "to": place.offset,
            "startOffset": place.start,
            "endOffset": place.end,
        })
    };
    let row = |place: &Place| {
        let (topic, partition) = &place.partition;
        let from = known(current.get(&place.partition));
        vec![
            topic.clone(),
            partition.to_string(),
            from,
            place.offset.to_string(),
            (place.end - place.offset).to_string(),
        ]
    };
    let all: Vec<_> = places.iter().map(data).collect();
    let answer = json!({ "group": args.name, "executed": is_executed, "offsets": all });
    print(args.brokers.output, &answer, || {
        let rows: Vec<Vec<String>> = places.iter().map(row).collect();
        table(&["TOPIC", "PARTITION", "FROM", "TO", "LAG"], &rows)
    })?;
    match outcome {
        None => tell("nothing is changed yet: add --execute to do it"),
        Some(Reset::DoneBefore) => tell("nothing is changed: the reset of this id was done before"),
        Some(Reset::DoneUnmarked) if args.id.is_some() => {
            tell("it is done, but these brokers do not remember its id: asked for again, it is done again");
        }
        Some(Reset::Done | Reset::DoneUnmarked) => {}
    }
    Ok(Exit::Done)
}
