//! `taffrail cluster` and what `taffrail broker` does to a running broker: questions and requests to the controllers.

use std::collections::BTreeSet;

use anyhow::Context;
use clap::{Args, Subcommand, ValueEnum};
use serde_json::{Value, json};
use taffrail_core::control::{AffectedPartition, Behind, Command, RestartVerdict, SmallPartitions};
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::Quorum;
use taffrail_runtime::{task, time};

use super::asked::{AskArgs, Asked};
use super::grant::GrantCommand;
use super::{print, table};
use crate::exit::Exit;

/// Threads of a command that only asks.
const THREADS: usize = 1;

/// A controller that has not answered the active one for so long counts as missing.
const CONTROLLER_SILENCE_MAX_MS: i64 = 5_000;

#[derive(Subcommand, Debug)]
pub(crate) enum Question {
    /// Say whether brokers may be taken down, and if not, which partitions stand in the way
    Explain(ExplainArgs),
    /// Say how controllers, brokers and partitions are; the exit code is 10 unless all are well
    Health(AskArgs),
    /// Ask for the permission to take brokers down, give it back, or see who has it
    #[command(subcommand)]
    Grant(GrantCommand),
}

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

#[derive(Subcommand, Debug)]
pub(crate) enum BrokerCommand {
    /// Move all replicas off a broker, and give it no new ones
    Drain(DutyArgs),
    /// Give a broker no new replicas
    Cordon(DutyArgs),
    /// Use a broker for everything again
    Undrain(DutyArgs),
}

/// Arguments of what is done to one broker.
#[derive(Args, Debug)]
pub(crate) struct DutyArgs {
    /// Number of the broker
    #[arg(value_name = "ID")]
    id: i32,
    #[command(flatten)]
    ask: AskArgs,
}

/// Carries out `cluster ...`.
pub(super) fn run(question: &Question) -> anyhow::Result<Exit> {
    match question {
        Question::Explain(args) => task::block_on(THREADS, explain(args))?,
        Question::Health(args) => task::block_on(THREADS, health(args))?,
        Question::Grant(command) => task::block_on(THREADS, command.run())?,
    }
}

/// Carries out `broker drain` and its like.
pub(super) fn change_duty(command: &BrokerCommand) -> anyhow::Result<Exit> {
    let (args, duty) = match command {
        BrokerCommand::Drain(args) => (args, BrokerDuty::Draining),
        BrokerCommand::Cordon(args) => (args, BrokerDuty::Cordoned),
        BrokerCommand::Undrain(args) => (args, BrokerDuty::Serving),
    };
    task::block_on(THREADS, set_duty(args, duty))?
}

async fn explain(args: &ExplainArgs) -> anyhow::Result<Exit> {
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

/// Numbers of brokers, as a list.
pub(super) fn ids(ids: impl IntoIterator<Item = BrokerId>) -> String {
    ids.into_iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}

/// A verdict for programs.
pub(super) fn verdict_data(brokers: &BTreeSet<BrokerId>, verdict: &RestartVerdict) -> Value {
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

/// One partition: who is in sync, how many must be, and who is missing by how much.
fn partition_text(partition: &AffectedPartition) -> String {
    let AffectedPartition { topic, partition: number, leader, isr, min_in_sync, behind } = partition;
    let leader = if *leader == BrokerId::NONE { "led by nobody".to_owned() } else { format!("led by {leader}") };
    let mut text = format!("{topic}-{number}: {leader}, in sync {}, minimum {min_in_sync}", ids(isr.iter().copied()));
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

async fn health(args: &AskArgs) -> anyhow::Result<Exit> {
    let asked = Asked::of(args)?;
    let quorum = asked.client.describe_quorum(asked.timeout).await?;
    let image = asked.image().await?;
    let below = asked.judge(BTreeSet::new(), SmallPartitions::Block).await?;
    let report = Report::of(&image, &quorum, time::unix_ms(), below.blocking_count);
    print(asked.output, &report.data(), || report.text())?;
    Ok(if report.is_well() { Exit::Done } else { Exit::Unhealthy })
}

/// How a cluster is.
#[derive(Debug, PartialEq, Eq)]
struct Report {
    active: Option<i32>,
    voters: usize,
    missing_voters: Vec<i32>,
    brokers: usize,
    fenced: Vec<BrokerId>,
    draining: Vec<BrokerId>,
    partitions: usize,
    leaderless: usize,
    under_replicated: usize,
    below_minimum: usize,
    moving: usize,
    /// Replicas that are still on brokers that are to be drained.
    to_drain: usize,
}

impl Report {
    fn of(image: &MetadataImage, quorum: &Quorum, now_ms: i64, below_minimum: usize) -> Self {
        let active = quorum.active.as_ref().map(|active| active.id);
        let is_missing = |heard_ms: Option<i64>| heard_ms.is_none_or(|at| now_ms - at > CONTROLLER_SILENCE_MAX_MS);
        let missing = quorum.voters.iter().filter(|it| Some(it.voter.id) != active && is_missing(it.last_heard_ms));
        let states = || image.topics().iter().flat_map(|topic| topic.numbered().map(|(_, state)| state));
        let draining = image.duties().iter().filter(|(_, duty)| **duty == BrokerDuty::Draining);
        Self {
            active,
            voters: quorum.voters.len(),
            missing_voters: missing.map(|it| it.voter.id).collect(),
            brokers: image.brokers().len(),
            fenced: image.brokers().values().filter(|broker| broker.fenced).map(|broker| broker.id).collect(),
            draining: draining.clone().map(|(id, _)| *id).collect(),
            partitions: states().count(),
            leaderless: image.replica_index().leaderless_count(),
            under_replicated: states().filter(|state| state.is_under_replicated()).count(),
            below_minimum,
            moving: image.replica_index().reassigning_count(),
            to_drain: draining.map(|(id, _)| image.replica_index().load(*id).replicas).sum(),
        }
    }

    fn is_well(&self) -> bool {
        self.active.is_some()
            && self.missing_voters.is_empty()
            && self.fenced.is_empty()
            && self.leaderless + self.under_replicated + self.below_minimum == 0
    }

    fn data(&self) -> Value {
        let numbers = |ids: &[BrokerId]| ids.iter().map(|id| id.0).collect::<Vec<_>>();
        json!({
            "healthy": self.is_well(),
            "controllers": { "active": self.active, "voters": self.voters, "missing": self.missing_voters },
            "brokers": {
                "registered": self.brokers,
                "fenced": numbers(&self.fenced),
                "draining": numbers(&self.draining),
            },
            "partitions": {
                "count": self.partitions,
                "leaderless": self.leaderless,
                "underReplicated": self.under_replicated,
                "belowMinimum": self.below_minimum,
                "moving": self.moving,
                "toDrain": self.to_drain,
            },
        })
    }

    fn text(&self) -> String {
        let missing = self.missing_voters.iter().map(ToString::to_string).collect::<Vec<_>>().join(",");
        let active = self.active.map(|id| id.to_string()).unwrap_or_default();
        let rows = [
            ("controllers voting", self.voters.to_string()),
            ("controller active", active),
            ("controllers missing", missing),
            ("brokers", self.brokers.to_string()),
            ("brokers fenced", ids(self.fenced.iter().copied())),
            ("brokers draining", ids(self.draining.iter().copied())),
            ("partitions", self.partitions.to_string()),
            ("partitions without a leader", self.leaderless.to_string()),
            ("partitions under-replicated", self.under_replicated.to_string()),
            ("partitions below their minimum", self.below_minimum.to_string()),
            ("partitions moving", self.moving.to_string()),
            ("replicas to drain", self.to_drain.to_string()),
            ("healthy", if self.is_well() { "yes" } else { "no" }.to_owned()),
        ];
        let rows: Vec<Vec<String>> = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
        table(&["WHAT", "VALUE"], &rows)
    }
}

async fn set_duty(args: &DutyArgs, duty: BrokerDuty) -> anyhow::Result<Exit> {
    let asked = Asked::of(&args.ask)?;
    let broker = BrokerId(args.id);
    let reply = asked.propose(Command::SetBrokerDuty { broker, duty }).await;
    reply.with_context(|| format!("broker {broker} stays what it is"))?;
    let (name, text) = match duty {
        BrokerDuty::Serving => ("serving", "is used for everything again"),
        BrokerDuty::Cordoned => ("cordoned", "is given no new replicas"),
        BrokerDuty::Draining => ("draining", "is being drained; `taffrail cluster health` counts what is still to do"),
    };
    print(asked.output, &json!({ "broker": broker.0, "duty": name }), || format!("broker {broker} {text}\n"))?;
    Ok(Exit::Done)
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

    #[test]
    fn a_cluster_is_well_when_everybody_is_there_and_everything_is_in_sync() {
        let quorum = |heard_ms| Quorum {
            active: Some(taffrail_protocol::rpc::ControllerAddress { id: 1, address: "a:1".to_owned() }),
            term: 1,
            committed_log_end: 1,
            voters: [1, 2]
                .map(|id| taffrail_protocol::rpc::QuorumMember {
                    voter: taffrail_protocol::rpc::VoterId { id, directory_id: taffrail_core::ids::Uuid([1; 16]) },
                    address: "a:1".to_owned(),
                    log_end: Some(1),
                    last_heard_ms: heard_ms,
                    last_caught_up_ms: None,
                })
                .into(),
            observers: Vec::new(),
        };
        let report = |heard_ms, below| Report::of(&MetadataImage::default(), &quorum(heard_ms), 100_000, below);
        assert!(report(Some(99_000), 0).is_well());
        assert!(!report(Some(99_000), 1).is_well());
        for silent in [None, Some(90_000)] {
            assert_eq!(report(silent, 0).missing_voters, [2]);
            assert!(!report(silent, 0).is_well());
        }
        assert!(report(None, 0).text().ends_with("healthy                         no\n"), "{}", report(None, 0).text());
    }
}
