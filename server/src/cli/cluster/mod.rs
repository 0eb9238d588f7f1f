//! `taffrail cluster` and what `taffrail broker` does to a running broker. Some is asked of the controllers, over gRPC; the
//! rest of brokers, over Kafka's protocol, and works on any cluster that speaks it.

pub(super) mod describe;
mod explain;
mod grant;
mod health;
mod move_to;
pub(super) mod moves;
mod placement;

use std::time::Duration;

use anyhow::Context;
use clap::{Args, Subcommand};
use serde_json::json;
use taffrail_core::control::Command;
use taffrail_core::event::BrokerDuty;
use taffrail_core::ids::BrokerId;
use taffrail_runtime::{random, task, time};

pub(crate) use self::explain::{circumstances, verdict_data};
pub(crate) use self::health::Report;
use super::asked::{AskArgs, Asked};
use super::progress::Progress;
use super::{print, write};
use crate::exit::Exit;

/// Threads of a command that only asks.
const THREADS: usize = 1;

/// Time between two looks at a broker that is waited for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

#[derive(Subcommand, Debug)]
pub(crate) enum ClusterCommand {
    /// Show what there is: brokers, topics, partitions, and how many of these lack something
    Info(describe::InfoArgs),
    /// List brokers, with what they lead, keep and have room for
    Brokers(describe::BrokerListArgs),
    /// List partitions, or those with trouble
    Partitions(describe::PartitionsArgs),
    /// Say whether brokers may be taken down, and if not, which partitions stand in the way
    Explain(explain::ExplainArgs),
    /// Say how controllers, brokers and partitions are; the exit code is 10 unless all are well
    Health(AskArgs),
    /// Ask for the permission to take brokers down, give it back, or see who has it
    #[command(subcommand)]
    Grant(grant::GrantCommand),
    /// Have other brokers keep partitions; without --execute it only says which
    Move(move_to::MoveArgs),
    /// Show replicas that are being moved, and how many bytes are left
    Moves(moves::MovesArgs),
    /// Print an id for a new cluster, for --cluster-id of its controllers
    NewId,
}

#[derive(Subcommand, Debug)]
pub(crate) enum BrokerCommand {
    /// Move all replicas off a broker, and give it no new ones
    Drain(DrainArgs),
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

/// Arguments of `broker drain`.
#[derive(Args, Debug)]
pub(crate) struct DrainArgs {
    #[command(flatten)]
    duty: DutyArgs,
    /// Wait until it keeps nothing any more; how far it is goes to standard error
    #[arg(long)]
    wait: bool,
}

/// Carries out `cluster ...`.
pub(super) fn run(command: &ClusterCommand) -> anyhow::Result<Exit> {
    task::block_on(THREADS, async {
        match command {
            ClusterCommand::Info(args) => describe::info(args).await,
            ClusterCommand::Brokers(args) => describe::brokers(args).await,
            ClusterCommand::Partitions(args) => describe::partitions(args).await,
            ClusterCommand::Explain(args) => explain::run(args).await,
            ClusterCommand::Health(args) => health::run(args).await,
            ClusterCommand::Grant(command) => command.run().await,
            ClusterCommand::Move(args) => move_to::run(args).await,
            ClusterCommand::Moves(args) => moves::run(args).await,
            ClusterCommand::NewId => {
                write(&format!("{}\n", random::uuid()))?;
                Ok(Exit::Done)
            }
        }
    })?
}

/// Carries out `broker drain` and its like.
pub(super) fn change_duty(command: &BrokerCommand) -> anyhow::Result<Exit> {
    let (args, duty, waits) = match command {
        BrokerCommand::Drain(args) => (&args.duty, BrokerDuty::Draining, args.wait),
        BrokerCommand::Cordon(args) => (args, BrokerDuty::Cordoned, false),
        BrokerCommand::Undrain(args) => (args, BrokerDuty::Serving, false),
    };
    task::block_on(THREADS, set_duty(args, duty, waits))?
}

async fn set_duty(args: &DutyArgs, duty: BrokerDuty, waits: bool) -> anyhow::Result<Exit> {
    let asked = Asked::of(&args.ask)?;
    let broker = BrokerId(args.id);
    let reply = asked.propose(Command::SetBrokerDuty { broker, duty }).await;
    reply.with_context(|| format!("broker {broker} stays what it is"))?;
    let (name, text) = match duty {
        BrokerDuty::Serving => ("serving", "is used for everything again"),
        BrokerDuty::Cordoned => ("cordoned", "is given no new replicas"),
        BrokerDuty::Draining => ("draining", "is being drained; `taffrail cluster health` counts what is still to do"),
    };
    if waits {
        until_empty(&asked, broker).await?;
    }
    let text = if waits { "keeps nothing any more" } else { text };
    print(asked.output, &json!({ "broker": broker.0, "duty": name }), || format!("broker {broker} {text}\n"))?;
    Ok(Exit::Done)
}

/// Waits until a broker keeps no replicas.
async fn until_empty(asked: &Asked, broker: BrokerId) -> anyhow::Result<()> {
    let mut progress = Progress::in_replicas();
    loop {
        let left = asked.image().await?.replica_index().hosted_by(broker).count();
        if left == 0 {
            progress.end();
            return Ok(());
        }
        progress.step(&format!("broker {broker} is drained"), i64::try_from(left).ok());
        time::sleep(LOOK_EVERY).await;
    }
}

/// Numbers of brokers, as a list.
pub(crate) fn ids(ids: impl IntoIterator<Item = BrokerId>) -> String {
    ids.into_iter().map(|id| id.to_string()).collect::<Vec<_>>().join(",")
}
