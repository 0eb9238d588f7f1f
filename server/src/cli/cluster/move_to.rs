//! `taffrail cluster move`: has other brokers keep partitions. It shows which, until it is told to do it; the copies are made by
//! the brokers, and `cluster moves` or `--wait` says how far they are.

use std::collections::{BTreeMap, BTreeSet};

use clap::Args;
use serde_json::{Value, json};
use taffrail_client::kafka::{KafkaClient, Move, PartitionKey, Reassignment};

use super::moves;
use super::placement::{Kept, Planned, Wish, plan};
use crate::cli::brokers::{BrokersArgs, numbers, settle};
use crate::cli::selection::{Selection, select};
use crate::cli::{completion, print, table, tell};
use crate::exit::Exit;
use crate::options::OptionsError;

/// Arguments of `cluster move`.
#[derive(Args, Debug)]
#[command(group = clap::ArgGroup::new("wish").required(true))]
#[command(after_help = "A plan as it is shown can be undone by another move, or by --cancel while it is under way.")]
pub(crate) struct MoveArgs {
    /// Topics, or some of their partitions as in orders:0,2
    #[arg(value_name = "TOPIC[:NUMBER,...]", required = true, add = completion::topics())]
    topics: Vec<Selection>,
    /// These brokers keep each partition, and the first of them leads it
    #[arg(long, value_name = "ID,...", value_delimiter = ',', group = "wish")]
    replicas: Vec<i32>,
    /// Only these brokers keep them; what is there already stays
    #[arg(long, value_name = "ID,...", value_delimiter = ',', group = "wish")]
    only: Vec<i32>,
    /// What one broker keeps is kept by another
    #[arg(long, value_name = "ID=ID", group = "wish")]
    replace: Option<String>,
    /// Take back moves that are under way
    #[arg(long, group = "wish")]
    cancel: bool,
    /// Do it
    #[arg(long)]
    execute: bool,
    /// Wait until it is done; how far it is goes to standard error
    #[arg(long, requires = "execute")]
    wait: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

pub(super) async fn run(args: &MoveArgs) -> anyhow::Result<Exit> {
    let wish = args.wish()?;
    let mut client = args.brokers.connect().await?;
    let kept = kept(&mut client, &args.topics).await?;
    let planned = plan(&wish, &kept)?;
    let (mut done, mut exit) = (planned.iter().collect::<Vec<_>>(), Exit::Done);
    if args.execute && !planned.is_empty() {
        let wanted: Vec<Reassignment> = planned.iter().map(|planned| planned.to.clone()).collect();
        let outcomes = client.reassign(&wanted).await?.into_iter().map(|(key, outcome)| outcome.map(|()| key));
        let (taken, settled) = settle(outcomes);
        let taken: BTreeSet<PartitionKey> = taken.into_iter().collect();
        done.retain(|planned| taken.contains(&planned.to.partition));
        exit = settled;
        if args.wait {
            moves::wait(&mut client, |key| taken.contains(key)).await?;
        }
    }
    let all: Vec<Value> = done.iter().map(|planned| data(planned)).collect();
    print(args.brokers.output, &json!({ "executed": args.execute, "moves": all }), || {
        table(&["TOPIC", "PARTITION", "FROM", "TO"], &done.iter().map(|planned| row(planned)).collect::<Vec<_>>())
    })?;
    match (planned.is_empty(), args.execute) {
        (true, _) => tell("nothing has to move"),
        (false, false) => tell("nothing is moved yet: add --execute to do it"),
        (false, true) => {}
    }
    Ok(exit)
}

impl MoveArgs {
    fn wish(&self) -> Result<Wish, OptionsError> {
        if self.cancel {
            return Ok(Wish::Cancel);
        }
        if let Some(text) = &self.replace {
            let pair = text.split_once('=').and_then(|(from, to)| Some((from.parse().ok()?, to.parse().ok()?)));
            let (from, to) = pair.ok_or_else(|| {
                OptionsError::Conflict(format!("--replace {text}: numbers of two brokers are needed, such as 1=4"))
            })?;
            return Ok(Wish::Replace(from, to));
        }
        Ok(if self.only.is_empty() { Wish::Replicas(self.replicas.clone()) } else { Wish::Only(self.only.clone()) })
    }
}

/// The partitions that are meant, as they are when moves that are under way are done.
async fn kept(client: &mut KafkaClient, wanted: &[Selection]) -> anyhow::Result<Vec<Kept>> {
    let keys = select(client, wanted).await?;
    let names: BTreeSet<String> = wanted.iter().map(|selection| selection.topic.clone()).collect();
    let topics = client.topics(&names.into_iter().collect::<Vec<_>>()).await?;
    let replicas: BTreeMap<PartitionKey, Vec<i32>> = topics
        .into_iter()
        .flat_map(|topic| topic.partitions.into_iter().map(move |it| ((topic.name.clone(), it.partition), it.replicas)))
        .collect();
    let moves: BTreeMap<PartitionKey, Move> =
        client.moves().await?.into_iter().map(|moving| ((moving.topic.clone(), moving.partition), moving)).collect();
    let kept = |partition: PartitionKey| {
        let moving = moves.get(&partition);
        let mut replicas = replicas.get(&partition).cloned().unwrap_or_default();
        replicas.retain(|broker| moving.is_none_or(|moving| !moving.removing.contains(broker)));
        Kept { partition, replicas, is_moving: moving.is_some() }
    };
    Ok(keys.into_iter().map(kept).collect())
}

fn data(planned: &Planned) -> Value {
    let (topic, partition) = &planned.to.partition;
    json!({ "topic": topic, "partition": partition, "from": planned.from, "to": planned.to.replicas })
}

fn row(planned: &Planned) -> Vec<String> {
    let (topic, partition) = &planned.to.partition;
    let to = planned.to.replicas.as_deref().map_or_else(|| "(as before)".to_owned(), numbers);
    vec![topic.clone(), partition.to_string(), numbers(&planned.from), to]
}
