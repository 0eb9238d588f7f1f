//! `taffrail group reset`: has a group go on somewhere else. It shows where, until it is told to do it.

use std::collections::BTreeMap;

use anyhow::bail;
use clap::Args;
use serde_json::json;
use taffrail_client::kafka::PartitionKey;
use taffrail_runtime::time;

use crate::cli::brokers::{BrokersArgs, known};
use crate::cli::position::{Place, Position};
use crate::cli::selection::{Selection, select};
use crate::cli::{completion, print, table, tell};
use crate::exit::Exit;

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
    #[command(flatten)]
    brokers: BrokersArgs,
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
    if args.execute {
        let offsets = places.iter().map(|place| (place.partition.clone(), place.offset)).collect();
        client.commit(&args.name, &offsets).await?;
    }
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
    let answer = json!({ "group": args.name, "executed": args.execute, "offsets": all });
    print(args.brokers.output, &answer, || {
        let rows: Vec<Vec<String>> = places.iter().map(row).collect();
        table(&["TOPIC", "PARTITION", "FROM", "TO", "LAG"], &rows)
    })?;
    if !args.execute {
        tell("nothing is changed yet: add --execute to do it");
    }
    Ok(Exit::Done)
}
