//! `taffrail apply`, `diff` and `get`: the Topics of resource files against any cluster that speaks Kafka's protocol. What differs
//! is found by the operator's own rules, so a file means the same here, under `taffrail up` and on Kubernetes.

mod compare;
mod get;

use std::path::PathBuf;

use anyhow::bail;
use clap::Args;
use serde_json::{Value, json};
use taffrail_client::kafka::{ConfigChange, KafkaClient, KafkaError, NewTopic};
use taffrail_operator::local;
use taffrail_operator::reconcile::topic::{Action, ValidTopic};
use taffrail_runtime::task;

use self::compare::{Compared, compare};
pub(super) use self::get::GetArgs;
use super::brokers::{BrokersArgs, settle};
use super::{print, table, tell};
use crate::exit::{Exit, told};

/// Threads of a command that only asks.
const THREADS: usize = 1;

/// Arguments of `apply` and `diff`.
#[derive(Args, Debug)]
pub(crate) struct FilesArgs {
    /// File of resources; may be repeated
    #[arg(short, long = "file", value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Carries out `diff`. As with `kubectl diff` a difference is exit code 1, and all that goes wrong is 2.
pub(super) fn diff(args: &FilesArgs) -> anyhow::Result<Exit> {
    let compared = task::block_on(THREADS, async {
        let wanted = wanted(&args.files)?;
        compare(&mut args.brokers.connect().await?, wanted).await
    })?;
    match compared {
        Ok(compared) => {
            show(&args.brokers, &compared, |compared| compared.word())?;
            warn(&compared);
            Ok(if compared.iter().all(Compared::is_same) { Exit::Done } else { Exit::Failed })
        }
        Err(error) => {
            tell(&format!("taffrail: {}", told(&error)));
            Ok(Exit::Usage)
        }
    }
}

/// Carries out `apply`.
pub(super) fn apply(args: &FilesArgs) -> anyhow::Result<Exit> {
    task::block_on(THREADS, async {
        let wanted = wanted(&args.files)?;
        let mut client = args.brokers.connect().await?;
        let compared = compare(&mut client, wanted).await?;
        let outcomes = carry_out(&mut client, &compared).await?;
        let (done, exit) = settle(outcomes);
        let done: Vec<Compared> = compared.into_iter().filter(|compared| done.contains(&compared.name)).collect();
        show(&args.brokers, &done, |compared| match compared.plan.actions.first() {
            Some(Action::Create { .. }) => "created",
            Some(_) => "changed",
            None => compared.word(),
        })?;
        let has_failed = warn(&done) || exit != Exit::Done;
        Ok(if has_failed { Exit::Failed } else { Exit::Done })
    })?
}

/// Carries out `get`.
pub(super) fn get(args: &GetArgs) -> anyhow::Result<Exit> {
    task::block_on(THREADS, get::run(args))?
}

/// The Topics of these files.
fn wanted(files: &[PathBuf]) -> anyhow::Result<Vec<ValidTopic>> {
    let desired = local::load(files)?;
    if desired.cluster.is_some() {
        tell("the Cluster is left to `taffrail up` or the operator: only Topics are compared");
    }
    if desired.topics.is_empty() {
        bail!("there is no Topic in it");
    }
    Ok(desired.topics.into_values().collect())
}

/// Does what is to be done, and gives the topics, each as far as nothing was refused.
async fn carry_out(
    client: &mut KafkaClient,
    compared: &[Compared],
) -> Result<Vec<Result<String, KafkaError>>, KafkaError> {
    let mut new = Vec::new();
    for Compared { name, plan, .. } in compared {
        if let Some(Action::Create { partitions, replicas, config, .. }) = plan.actions.first() {
            new.push(NewTopic {
                name: name.clone(),
                partitions: *partitions,
                replication_factor: *replicas,
                settings: config.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
            });
        }
    }
    let mut outcomes = Vec::with_capacity(compared.len());
    if !new.is_empty() {
        let created = client.create_topics(&new, false).await?;
        outcomes.extend(created.into_iter().map(|(name, outcome)| outcome.map(|_| name)));
    }
    for Compared { name, plan, .. } in compared {
        if !matches!(plan.actions.first(), Some(Action::Create { .. })) {
            outcomes.push(change(client, name, &plan.actions).await.map(|()| name.clone()));
        }
    }
    Ok(outcomes)
}

/// Changes a topic that is there.
async fn change(client: &mut KafkaClient, name: &str, actions: &[Action]) -> Result<(), KafkaError> {
    for action in actions {
        match action {
            Action::Grow { partitions, .. } => client.create_partitions(name, *partitions).await?,
            Action::Configure { changes } => {
                let changes: Vec<ConfigChange> = changes
                    .iter()
                    .map(|change| match &change.value {
                        Some(value) => ConfigChange::Set(change.name.clone(), value.clone()),
                        None => ConfigChange::Delete(change.name.clone()),
                    })
                    .collect();
                client.alter_topic(name, &changes, false).await?;
            }
            // Nothing is deleted, and what moves replicas is not planned here.
            Action::Create { .. } | Action::Assign { .. } | Action::Replicate { .. } | Action::Delete => {}
        }
    }
    Ok(())
}

/// Prints what was compared; `word` says what became of a topic, or would.
fn show(args: &BrokersArgs, compared: &[Compared], word: impl Fn(&Compared) -> &'static str) -> anyhow::Result<()> {
    let data = |compared: &Compared| {
        let difference = |it: &compare::Difference| json!({ "field": it.field, "from": it.have, "to": it.want });
        json!({
            "name": compared.name,
            "outcome": word(compared),
            "differences": compared.differences.iter().map(difference).collect::<Vec<_>>(),
            "problem": compared.problem,
        })
    };
    let data: Vec<Value> = compared.iter().map(data).collect();
    print(args.output, &json!({ "topics": data }), || {
        let mut rows = Vec::new();
        for compared in compared {
            let head = [compared.name.clone(), word(compared).to_owned()];
            if compared.differences.is_empty() {
                rows.push(head.to_vec());
            }
            rows.extend(compared.differences.iter().map(|it| {
                let [have, want] = [&it.have, &it.want].map(|value| value.clone().unwrap_or_default());
                [head.as_slice(), &[it.field.clone(), have, want]].concat()
            }));
        }
        table(&["TOPIC", "OUTCOME", "FIELD", "FROM", "TO"], &rows)
    })
}

/// Tells what stands in the way of topics; whether anything does.
fn warn(compared: &[Compared]) -> bool {
    let problems = compared.iter().filter_map(|compared| Some((&compared.name, compared.problem.as_ref()?)));
    problems.inspect(|(name, problem)| tell(&format!("taffrail: topic {name}: {problem}"))).count() > 0
}
