//! `taffrail cluster grant`: the permission to take brokers down, for people and scripts that do what an operator would do.
//!
//! One permission is open at a time, whoever has it, so nobody takes down a broker while somebody else does.

use std::collections::BTreeSet;

use anyhow::{Context, bail};
use clap::{Args, Subcommand};
use serde_json::{Value, json};
use taffrail_core::control::{CloseGrant, Command, GRANT_DURATION_MAX_MS, OpenGrant, Reply};
use taffrail_core::event::Grant;
use taffrail_core::ids::BrokerId;
use taffrail_runtime::time;

use super::explain::{SmallPolicy, verdict_data, verdict_text};
use super::ids;
use crate::cli::asked::{AskArgs, Asked};
use crate::cli::{print, table};
use crate::exit::Exit;

#[derive(Subcommand, Debug)]
pub(crate) enum GrantCommand {
    /// Ask for the permission to take brokers down, all at once; the exit code is 10 if they may not go. The same again
    /// prolongs it
    Open(OpenArgs),
    /// Give a permission back
    Close(CloseArgs),
    /// Print the permission that was given last, unless it was given back
    List(AskArgs),
}

/// Arguments of `cluster grant open`.
#[derive(Args, Debug)]
pub(crate) struct OpenArgs {
    /// Brokers to take down together
    #[arg(long, value_name = "ID", value_delimiter = ',', required = true)]
    brokers: Vec<i32>,
    /// How long it is needed, in milliseconds; it ends by itself then
    #[arg(long, value_name = "MS", default_value_t = 600_000,
        value_parser = clap::value_parser!(i64).range(1..=GRANT_DURATION_MAX_MS))]
    duration_ms: i64,
    /// What counts for partitions that have no more replicas than must be in sync
    #[arg(long, value_enum, default_value_t)]
    small: SmallPolicy,
    #[command(flatten)]
    epoch: EpochArgs,
    #[command(flatten)]
    ask: AskArgs,
}

/// Arguments of `cluster grant close`.
#[derive(Args, Debug)]
pub(crate) struct CloseArgs {
    /// Number of the permission
    #[arg(value_name = "ID")]
    id: i64,
    #[command(flatten)]
    epoch: EpochArgs,
    #[command(flatten)]
    ask: AskArgs,
}

/// In whose name something is done.
#[derive(Args, Debug)]
struct EpochArgs {
    /// Epoch of the operator in whose name this is done: older ones are refused from then on [default: the newest known]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(i64).range(0..))]
    epoch: Option<i64>,
}

impl EpochArgs {
    async fn resolve(&self, asked: &Asked) -> anyhow::Result<i64> {
        match self.epoch {
            Some(epoch) => Ok(epoch),
            None => Ok(asked.image().await?.operator_epoch().max(0)),
        }
    }
}

impl GrantCommand {
    /// Carries it out.
    pub(super) async fn run(&self) -> anyhow::Result<Exit> {
        match self {
            Self::Open(args) => open(args).await,
            Self::Close(args) => close(args).await,
            Self::List(args) => list(args).await,
        }
    }
}

async fn open(args: &OpenArgs) -> anyhow::Result<Exit> {
    let asked = Asked::of(&args.ask)?;
    let brokers: BTreeSet<BrokerId> = args.brokers.iter().copied().map(BrokerId).collect();
    let operator_epoch = args.epoch.resolve(&asked).await?;
    let (duration_ms, policy) = (args.duration_ms, args.small.into());
    let request = OpenGrant { brokers: brokers.clone(), operator_epoch, duration_ms, policy };
    let reply = asked.propose(Command::OpenGrant(request)).await;
    match reply.with_context(|| format!("no permission to take down {}", ids(brokers.iter().copied())))? {
        Reply::GrantOpened(grant) => {
            let now_ms = time::unix_ms();
            print(asked.output, &json!({ "granted": true, "grant": data(&grant, now_ms) }), || {
                text(&[&grant], now_ms)
            })?;
            Ok(Exit::Done)
        }
        Reply::RestartJudged(verdict) => {
            let data = json!({ "granted": false, "verdict": verdict_data(&brokers, &verdict) });
            print(asked.output, &data, || verdict_text(&brokers, &verdict))?;
            Ok(Exit::Unhealthy)
        }
        other => bail!("the controller gave an answer to another question: {other:?}"),
    }
}

async fn close(args: &CloseArgs) -> anyhow::Result<Exit> {
    let asked = Asked::of(&args.ask)?;
    let (id, operator_epoch) = (args.id, args.epoch.resolve(&asked).await?);
    let reply = asked.propose(Command::CloseGrant(CloseGrant { id, operator_epoch })).await;
    reply.with_context(|| format!("permission {id} stays as it is"))?;
    print(asked.output, &json!({ "id": id, "open": false }), || format!("permission {id} permits nothing any more\n"))?;
    Ok(Exit::Done)
}

async fn list(args: &AskArgs) -> anyhow::Result<Exit> {
    let asked = Asked::of(args)?;
    let (image, now_ms) = (asked.image().await?, time::unix_ms());
    let grants: Vec<&Grant> = image.grant().map(AsRef::as_ref).into_iter().collect();
    let all: Vec<Value> = grants.iter().map(|grant| data(grant, now_ms)).collect();
    let answer = json!({ "operatorEpoch": image.operator_epoch(), "grants": all });
    print(asked.output, &answer, || text(&grants, now_ms))?;
    Ok(Exit::Done)
}

/// A permission for programs.
fn data(grant: &Grant, now_ms: i64) -> Value {
    json!({
        "id": grant.id,
        "brokers": grant.brokers.iter().map(|id| id.0).collect::<Vec<_>>(),
        "operatorEpoch": grant.operator_epoch,
        "expiresMs": grant.expires_ms,
        "open": grant.is_open(now_ms),
    })
}

/// Permissions for people.
fn text(grants: &[&Grant], now_ms: i64) -> String {
    let left = |grant: &Grant| match grant.is_open(now_ms) {
        true => format!("{} s", (grant.expires_ms - now_ms).div_euclid(1_000)),
        false => "ended".to_owned(),
    };
    let row = |grant: &&Grant| {
        let brokers = ids(grant.brokers.iter().copied());
        vec![grant.id.to_string(), brokers, grant.operator_epoch.to_string(), left(grant)]
    };
    table(&["ID", "BROKERS", "EPOCH", "LEFT"], &grants.iter().map(row).collect::<Vec<_>>())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_permission_says_for_how_long_it_is_good() {
        let brokers = [1, 2].map(BrokerId).into();
        let grant = Grant { id: 70, brokers, operator_epoch: 3, expires_ms: 10_500 };
        assert_eq!(text(&[&grant], 1_000), "ID  BROKERS  EPOCH  LEFT\n70  1,2      3      9 s\n");
        assert_eq!(text(&[&grant], 10_500), "ID  BROKERS  EPOCH  LEFT\n70  1,2      3      ended\n");
        assert_eq!(data(&grant, 10_499)["open"], true);
        assert_eq!(text(&[], 0), "ID  BROKERS  EPOCH  LEFT\n");
    }
}
