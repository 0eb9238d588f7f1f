//! `taffrail topic`: create, change and delete topics, write and read records. What it says goes to brokers over Kafka's protocol.

mod consume;
pub(super) mod envelope;
mod layout;
mod produce;
mod show;
mod trim;

use clap::{Args, Subcommand};
use serde_json::json;
use taffrail_client::kafka::{ConfigChange, CreatedTopic, KafkaError, NewTopic};
use taffrail_core::errors::ErrorCode;
use taffrail_runtime::task;

use super::brokers::{BrokersArgs, known, named, settle};
use super::{completion, print, table};
use crate::exit::Exit;
use crate::options::OptionsError;

/// Threads of a command: one fetches while the other prints.
const THREADS: usize = 2;

#[derive(Subcommand, Debug)]
pub(crate) enum TopicCommand {
    /// Create topics
    Create(CreateArgs),
    /// List topics
    #[command(visible_alias = "ls")]
    List(show::ListArgs),
    /// Show partitions, offsets and settings of topics
    Describe(show::DescribeArgs),
    /// Change settings of topics
    Alter(AlterArgs),
    /// Delete topics, with all their records
    Delete(DeleteArgs),
    /// Give topics more partitions
    AddPartitions(AddPartitionsArgs),
    /// Delete the oldest records; without --execute it only says which
    Trim(trim::TrimArgs),
    /// Write records: each line of standard input is one
    Produce(produce::ProduceArgs),
    /// Print records
    Consume(consume::ConsumeArgs),
}

/// Arguments of `topic create`.
#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    /// Names of topics
    #[arg(value_name = "NAME", required = true)]
    names: Vec<String>,
    /// Partitions of each [default: the cluster's num.partitions]
    #[arg(short, long, value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Replicas of each partition [default: the cluster's default.replication.factor]
    #[arg(short, long, visible_alias = "replication-factor", value_name = "COUNT",
        value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// A setting of its own, such as retention.ms=3600000; may be repeated
    #[arg(short, long = "config", value_name = "NAME=VALUE")]
    config: Vec<String>,
    /// Leave topics as they are that exist already
    #[arg(long)]
    if_not_exists: bool,
    /// Only check whether they could be created
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Arguments of `topic alter`.
#[derive(Args, Debug)]
pub(crate) struct AlterArgs {
    /// Names of topics
    #[arg(value_name = "NAME", required = true, add = completion::topics())]
    names: Vec<String>,
    /// Give a setting a value; may be repeated
    #[arg(long = "set", value_name = "NAME=VALUE", required_unless_present = "delete")]
    set: Vec<String>,
    /// Go by the cluster's default for a setting again; may be repeated
    #[arg(long, value_name = "NAME")]
    delete: Vec<String>,
    /// Only check whether they could be changed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Arguments of `topic delete`.
#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    /// Names of topics
    #[arg(value_name = "NAME", required = true, add = completion::topics())]
    names: Vec<String>,
    /// Names that are not there are no failure
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Arguments of `topic add-partitions`.
#[derive(Args, Debug)]
pub(crate) struct AddPartitionsArgs {
    /// Names of topics
    #[arg(value_name = "NAME", required = true, add = completion::topics())]
    names: Vec<String>,
    /// How many more
    #[arg(short, long = "num", value_name = "COUNT", value_parser = clap::value_parser!(i32).range(1..))]
    num: i32,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Carries out `topic ...`.
pub(super) fn run(command: &TopicCommand) -> anyhow::Result<Exit> {
    task::block_on(THREADS, async {
        match command {
            TopicCommand::Create(args) => create(args).await,
            TopicCommand::List(args) => show::list(args).await,
            TopicCommand::Describe(args) => show::describe(args).await,
            TopicCommand::Alter(args) => alter(args).await,
            TopicCommand::Delete(args) => delete(args).await,
            TopicCommand::AddPartitions(args) => add_partitions(args).await,
            TopicCommand::Trim(args) => trim::run(args).await,
            TopicCommand::Produce(args) => produce::run(args).await,
            TopicCommand::Consume(args) => consume::run(args).await,
        }
    })?
}

/// Names and values, from the texts of a flag.
fn pairs(flag: &str, texts: &[String]) -> Result<Vec<(String, String)>, OptionsError> {
    let pair = |text: &String| match text.split_once('=').filter(|(name, _)| !name.trim().is_empty()) {
        Some((name, value)) => Ok((name.trim().to_owned(), value.to_owned())),
        None => {
            let text = format!("{flag} {text}: name=value is needed, such as retention.ms=3600000");
            Err(OptionsError::Conflict(text))
        }
    };
    texts.iter().map(pair).collect()
}

async fn create(args: &CreateArgs) -> anyhow::Result<Exit> {
    let settings = pairs("--config", &args.config)?;
    let mut client = args.brokers.connect().await?;
    let topic = |name: &String| NewTopic {
        name: name.clone(),
        partitions: args.partitions,
        replication_factor: args.replicas,
        settings: settings.clone(),
    };
    let topics: Vec<NewTopic> = args.names.iter().map(topic).collect();
    let outcomes =
        client.create_topics(&topics, args.dry_run).await?.into_iter().map(|(name, outcome)| match outcome {
            Ok(created) => Ok((name, Some(created))),
            Err(error) if args.if_not_exists && error.code() == Some(ErrorCode::TopicAlreadyExists) => Ok((name, None)),
            Err(error) => Err(error),
        });
    let (done, exit) = settle(outcomes);
    let data = |(name, created): &(String, Option<CreatedTopic>)| {
        json!({
            "name": name,
            "created": created.is_some() && !args.dry_run,
            "id": created.as_ref().filter(|it| !it.id.is_zero()).map(|it| it.id.to_string()),
            "partitions": created.as_ref().map(|it| it.partitions).filter(|count| *count >= 0),
            "replicationFactor": created.as_ref().map(|it| it.replication_factor).filter(|count| *count >= 0),
        })
    };
    let row = |(name, created): &(String, Option<CreatedTopic>)| {
        let number = |number: fn(&CreatedTopic) -> i32| known(created.as_ref().map(number).filter(|count| *count >= 0));
        let what = match created {
            None => "is there already",
            Some(_) if args.dry_run => "could be created",
            Some(_) => "created",
        };
        vec![name.clone(), what.to_owned(), number(|it| it.partitions), number(|it| it.replication_factor.into())]
    };
    print(args.brokers.output, &json!({ "topics": done.iter().map(data).collect::<Vec<_>>() }), || {
        table(&["TOPIC", "OUTCOME", "PARTITIONS", "REPLICAS"], &done.iter().map(row).collect::<Vec<_>>())
    })?;
    Ok(exit)
}

async fn alter(args: &AlterArgs) -> anyhow::Result<Exit> {
    let set = pairs("--set", &args.set)?.into_iter().map(|(name, value)| ConfigChange::Set(name, value));
    let changes: Vec<ConfigChange> = set.chain(args.delete.iter().cloned().map(ConfigChange::Delete)).collect();
    let mut client = args.brokers.connect().await?;
    let mut outcomes = Vec::with_capacity(args.names.len());
    for name in &args.names {
        outcomes.push(client.alter_topic(name, &changes, args.dry_run).await.map(|()| name.clone()));
    }
    let (done, exit) = settle(outcomes);
    let what = if args.dry_run { "could be changed" } else { "changed" };
    let rows: Vec<Vec<String>> = done.iter().map(|name| vec![name.clone(), what.to_owned()]).collect();
    print(args.brokers.output, &named("topics", &done), || table(&["TOPIC", "OUTCOME"], &rows))?;
    Ok(exit)
}

async fn delete(args: &DeleteArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let is_absence = |error: &KafkaError| error.code() == Some(ErrorCode::UnknownTopicOrPartition);
    let outcomes = client.delete_topics(&args.names).await?;
    let outcomes = outcomes.into_iter().filter_map(|(name, outcome)| match outcome {
        Err(error) if args.if_exists && is_absence(&error) => None,
        outcome => Some(outcome.map(|()| name)),
    });
    let (done, exit) = settle(outcomes);
    let rows: Vec<Vec<String>> = done.iter().map(|name| vec![name.clone(), "deleted".to_owned()]).collect();
    print(args.brokers.output, &named("topics", &done), || table(&["TOPIC", "OUTCOME"], &rows))?;
    Ok(exit)
}

async fn add_partitions(args: &AddPartitionsArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    let topics = client.topics(&args.names).await?;
    let mut outcomes = Vec::with_capacity(topics.len());
    for topic in topics {
        let before = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
        let count = before.saturating_add(args.num);
        outcomes.push(client.create_partitions(&topic.name, count).await.map(|()| (topic.name, count)));
    }
    let (done, exit) = settle(outcomes);
    let data: Vec<_> = done.iter().map(|(name, count)| json!({ "name": name, "partitions": count })).collect();
    let rows: Vec<Vec<String>> = done.iter().map(|(name, count)| vec![name.clone(), count.to_string()]).collect();
    print(args.brokers.output, &json!({ "topics": data }), || table(&["TOPIC", "PARTITIONS"], &rows))?;
    Ok(exit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_pairs() {
        let texts = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        let read = pairs("--set", &texts(&["a=1", "b=", "c=x=y"])).unwrap();
        let expected = [("a", "1"), ("b", ""), ("c", "x=y")].map(|(name, value)| (name.to_owned(), value.to_owned()));
        assert_eq!(read, expected);
        for wrong in ["a", "=1", " =1"] {
            let error = pairs("--set", &texts(&[wrong])).unwrap_err().to_string();
            assert!(error.starts_with(&format!("--set {wrong}: name=value is needed")), "{error}");
        }
    }
}
