//! `taffrail cluster explain`: whether brokers may be taken down, and which partitions stand in the way.

use std::collections::BTreeSet;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use taffrail_core::control::{AffectedPartition, Behind, RestartVerdict, SmallPartitions};
use taffrail_core::ids::BrokerId;

use super::ids;
use crate::cli::asked::{AskArgs, Asked};
use crate::cli::print;
use crate::exit::Exit;

/// Arguments of `cluster explain`.
#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// Brokers to take down together; without it, each broker is judged on its own
    #[arg(long, value_name = "ID", value_delimiter = ',')]
    brokers: Vec<i32>,
    /// What counts for partitions that have no more replicas than must be in sync
    #[arg(long, value_enum, default_value_t)]
    small: SmallPolicy,
    #[command(flatten)]
    ask: AskArgs,
}

/// What counts for partitions that have no more replicas than must be in sync.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub(super) enum SmallPolicy {
    /// They are listed
    #[default]
    Warn,
    /// They stand in the way
    Block,
}

impl From<SmallPolicy> for SmallPartitions {
    fn from(policy: SmallPolicy) -> Self {
        match policy {
            SmallPolicy::Warn => Self::Warn,
            SmallPolicy::Block => Self::Block,
        }
    }
}

pub(super) async fn run(args: &ExplainArgs) -> anyhow::Result<Exit> {
    let asked = Asked::of(&args.ask)?;
    let policy = args.small.into();
    let groups: Vec<BTreeSet<BrokerId>> = if args.brokers.is_empty() {
        asked.image().await?.brokers().keys().map(|id| BTreeSet::from([*id])).collect()
    } else {
        vec![args.brokers.iter().map(|id| BrokerId(*id)).collect()]
    };
    let mut verdicts = Vec::with_capacity(groups.len());
    for brokers in groups {
        let verdict = asked.judge(brokers.clone(), policy).await?;
        verdicts.push((brokers, verdict));
    }
    let all_may = verdicts.iter().all(|(_, verdict)| verdict.is_yes());
    let data: Vec<Value> = verdicts.iter().map(|(brokers, verdict)| verdict_data(brokers, verdict)).collect();
    print(asked.output, &json!({ "verdicts": data }), || {
        verdicts.iter().map(|(brokers, verdict)| verdict_text(brokers, verdict)).collect()
    })?;
    Ok(if all_may { Exit::Done } else { Exit::Unhealthy })
}

/// A verdict for programs.
pub(crate) fn verdict_data(brokers: &BTreeSet<BrokerId>, verdict: &RestartVerdict) -> Value {
    let partition = |partition: &AffectedPartition| {
        let behind =
            |behind: &Behind| json!({ "broker": behind.broker.0, "away": behind.is_away, "records": behind.records });
        json!({
            "topic": partition.topic.as_ref(),
            "partition": partition.partition,
            "leader": partition.leader.0,
            "isr": partition.isr.iter().map(|id| id.0).collect::<Vec<_>>(),
            "minInsyncReplicas": partition.min_in_sync,
            "behind": partition.behind.iter().map(behind).collect::<Vec<_>>(),
        })
    };
    json!({
        "brokers": brokers.iter().map(|id| id.0).collect::<Vec<_>>(),
        "mayGo": verdict.is_yes(),
        "metadataOffset": verdict.offset,
        "unknown": verdict.unknown.iter().map(|id| id.0).collect::<Vec<_>>(),
        "grantedTo": verdict.grant.as_ref().map(|grant| grant.brokers.iter().map(|id| id.0).collect::<Vec<_>>()),
        "blockingCount": verdict.blocking_count,
        "blocking": verdict.blocking.iter().map(partition).collect::<Vec<_>>(),
        "smallCount": verdict.small_count,
        "small": verdict.small.iter().map(partition).collect::<Vec<_>>(),
    })
}

/// A verdict for people.
pub(super) fn verdict_text(brokers: &BTreeSet<BrokerId>, verdict: &RestartVerdict) -> String {
    let who = format!("broker{} {}", if brokers.len() == 1 { "" } else { "s" }, ids(brokers.iter().copied()));
    let mut lines = vec![format!("{who} {} go", if verdict.is_yes() { "may" } else { "may not" })];
    lines.extend(verdict.unknown.iter().map(|id| format!("  broker {id} is not registered")));
    if let Some(grant) = &verdict.grant {
        let others = ids(grant.brokers.iter().copied());
        lines.push(format!("  somebody else has the permission to take down {others}, until {}", grant.expires_ms));
    }
    lines.extend(verdict.blocking.iter().map(|it| format!("  {}", partition_text(it))));
    lines.extend(more(verdict.blocking_count, verdict.blocking.len()));
    if verdict.small_count > 0 {
        lines.push("  these will have too few replicas in sync, however long is waited:".to_owned());
        lines.extend(verdict.small.iter().map(|it| format!("    {}", partition_text(it))));
        lines.extend(more(verdict.small_count, verdict.small.len()));
    }
    lines.join("\n") + "\n"
}

fn more(count: usize, listed: usize) -> Option<String> {
    (count > listed).then(|| format!("  and {} more", count - listed))
}

fn partition_text(partition: &AffectedPartition) -> String {
    format!("{}-{}: {}", partition.topic, partition.partition, circumstances(partition))
}

/// Of one partition, who leads, who is in sync, how many must be, and who is missing by how much.
pub(crate) fn circumstances(partition: &AffectedPartition) -> String {
    let AffectedPartition { leader, isr, min_in_sync, behind, .. } = partition;
    let leader = if *leader == BrokerId::NONE { "led by nobody".to_owned() } else { format!("led by {leader}") };
    let mut text = format!("{leader}, in sync {}, minimum {min_in_sync}", ids(isr.iter().copied()));
    for Behind { broker, is_away, records } in behind {
        text += &match (is_away, records) {
            (true, _) => format!("; broker {broker} is away"),
            (false, Some(1)) => format!("; broker {broker} is 1 record behind"),
            (false, Some(records)) => format!("; broker {broker} is {records} records behind"),
            (false, None) => format!("; broker {broker} is behind"),
        };
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn partition(behind: Vec<Behind>) -> AffectedPartition {
        AffectedPartition {
            topic: "orders".into(),
            partition: 3,
            leader: BrokerId(1),
            isr: vec![BrokerId(1), BrokerId(2)],
            min_in_sync: 2,
            behind,
        }
    }

    #[test]
    fn a_verdict_names_each_partition_and_who_is_behind_by_how_much() {
        let lag = |broker, is_away, records| Behind { broker: BrokerId(broker), is_away, records };
        let verdict = RestartVerdict {
            blocking_count: 2,
            blocking: vec![partition(vec![
                lag(3, false, Some(1_204)),
                lag(4, true, Some(7)),
                lag(5, false, None),
                lag(6, false, Some(1)),
            ])],
            small_count: 1,
            small: vec![AffectedPartition { leader: BrokerId::NONE, ..partition(Vec::new()) }],
            ..RestartVerdict::default()
        };
        let text = verdict_text(&BTreeSet::from([BrokerId(1), BrokerId(7)]), &verdict);
        assert_eq!(
            text,
            "brokers 1,7 may not go\n  orders-3: led by 1, in sync 1,2, minimum 2; broker 3 is 1204 records behind; broker 4 is \
             away; broker 5 is behind; broker 6 is 1 record behind\n  and 1 more\n  these will have too few replicas in sync, \
             however long is waited:\n    orders-3: led by nobody, in sync 1,2, minimum 2\n"
        );
        assert_eq!(
            verdict_text(&BTreeSet::from([BrokerId(1)]), &RestartVerdict::default()),
            "broker 1 may go\n",
            "nothing stands in the way"
        );
        let data = verdict_data(&BTreeSet::from([BrokerId(1)]), &verdict);
        assert_eq!(data["blocking"][0]["behind"][0]["records"], 1_204);
        assert_eq!(data["mayGo"], false);
    }
}
