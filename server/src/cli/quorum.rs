//! `taffrail quorum`: who keeps the metadata, and how far each of them is, as `kafka-metadata-quorum` tells it.

use clap::{Args, Subcommand};
use serde_json::{Value, json};
use taffrail_client::kafka::{Quorum, QuorumReplica};
use taffrail_runtime::{task, time};

use super::brokers::{BrokersArgs, known, numbers};
use super::{print, table};
use crate::exit::Exit;

/// Threads of a command that only asks.
const THREADS: usize = 1;

#[derive(Subcommand, Debug)]
pub(crate) enum QuorumCommand {
    /// Show who leads, who votes and who follows
    Status(QuorumArgs),
    /// Show how far each copy of the metadata is
    Replication(QuorumArgs),
}

/// Arguments of `quorum status` and `quorum replication`.
#[derive(Args, Debug)]
pub(crate) struct QuorumArgs {
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Carries out `quorum ...`.
pub(super) fn run(command: &QuorumCommand) -> anyhow::Result<Exit> {
    task::block_on(THREADS, async {
        let (QuorumCommand::Status(args) | QuorumCommand::Replication(args)) = command;
        let quorum = args.brokers.connect().await?.quorum().await?;
        let (data, text) = match command {
            QuorumCommand::Status(_) => status(&quorum, time::unix_ms()),
            QuorumCommand::Replication(_) => replication(&quorum, args.brokers.is_wide()),
        };
        print(args.brokers.output, &data, || text)?;
        Ok(Exit::Done)
    })?
}

/// How the quorum is, for programs and for people.
pub(super) fn status(quorum: &Quorum, now_ms: i64) -> (Value, String) {
    let ids = |replicas: &[QuorumReplica]| replicas.iter().map(|replica| replica.id).collect::<Vec<_>>();
    let (voters, observers) = (ids(&quorum.voters), ids(&quorum.observers));
    let followers = || quorum.voters.iter().chain(&quorum.observers).filter(|it| Some(it.id) != quorum.leader);
    let lag = followers().filter_map(|replica| quorum.lag(replica)).max();
    let lag_ms = followers().filter_map(|it| it.last_caught_up_ms).map(|at_ms| (now_ms - at_ms).max(0)).max();
    let data = json!({
        "leader": quorum.leader,
        "leaderEpoch": quorum.leader_epoch,
        "highWatermark": quorum.high_watermark,
        "maxFollowerLag": lag,
        "maxFollowerLagMs": lag_ms,
        "voters": voters,
        "observers": observers,
    });
    let rows = [
        ("leader", known(quorum.leader)),
        ("leader epoch", quorum.leader_epoch.to_string()),
        ("high watermark", quorum.high_watermark.to_string()),
        ("largest lag of a follower", known(lag)),
        ("the same in milliseconds", known(lag_ms)),
        ("voters", numbers(&voters)),
        ("observers", numbers(&observers)),
    ];
    let rows: Vec<Vec<String>> = rows.into_iter().map(|(what, value)| vec![what.to_owned(), value]).collect();
    (data, table(&["WHAT", "VALUE"], &rows))
}

/// How far each copy is, for programs and for people.
pub(super) fn replication(quorum: &Quorum, wide: bool) -> (Value, String) {
    let voters = quorum.voters.iter().map(|it| (if Some(it.id) == quorum.leader { "Leader" } else { "Follower" }, it));
    let all: Vec<(&str, &QuorumReplica)> = voters.chain(quorum.observers.iter().map(|it| ("Observer", it))).collect();
    let directory =
        |replica: &QuorumReplica| (!replica.directory_id.is_zero()).then(|| replica.directory_id.to_string());
    let data = |(status, replica): &(&str, &QuorumReplica)| {
        json!({
            "id": replica.id,
            "directoryId": directory(replica),
            "logEndOffset": replica.log_end,
            "lag": quorum.lag(replica),
            "lastFetchMs": replica.last_fetch_ms,
            "lastCaughtUpMs": replica.last_caught_up_ms,
            "status": status,
        })
    };
    let row = |(status, replica): &(&str, &QuorumReplica)| {
        let mut row = vec![
            replica.id.to_string(),
            (*status).to_owned(),
            known(replica.log_end),
            known(quorum.lag(replica)),
            known(replica.last_fetch_ms),
            known(replica.last_caught_up_ms),
        ];
        if wide {
            row.push(known(directory(replica)));
        }
        row
    };
    let headers = ["NODE", "STATUS", "LOG-END", "LAG", "LAST-FETCH", "LAST-CAUGHT-UP", "DIRECTORY"];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    let data = json!({ "replicas": all.iter().map(data).collect::<Vec<_>>() });
    (data, table(&headers[..if wide { 7 } else { 6 }], &rows))
}

#[cfg(test)]
mod tests {
    use taffrail_core::ids::Uuid;

    use super::*;

    #[test]
    fn the_quorum_is_shown_with_the_worst_lag_and_what_nobody_knows_is_left_open() {
        let replica = |id, log_end, last_caught_up_ms| QuorumReplica {
            id,
            directory_id: Uuid::default(),
            log_end,
            last_fetch_ms: None,
            last_caught_up_ms,
        };
        let quorum = Quorum {
            leader: Some(2),
            leader_epoch: 5,
            high_watermark: 90,
            voters: vec![replica(1, Some(88), Some(700)), replica(2, Some(90), Some(1_000)), replica(3, None, None)],
            observers: vec![replica(11, Some(80), Some(990))],
        };
        let (data, text) = status(&quorum, 1_000);
        assert_eq!((&data["maxFollowerLag"], &data["maxFollowerLagMs"]), (&json!(10), &json!(300)));
        assert!(text.contains("voters                     1,2,3\n"), "{text}");
        let expected = "\
NODE  STATUS    LOG-END  LAG  LAST-FETCH  LAST-CAUGHT-UP
1     Follower  88       2    -           700
2     Leader    90       0    -           1000
3     Follower  -        -    -           -
11    Observer  80       10   -           990
";
        assert_eq!(replication(&quorum, false).1, expected);
    }
}
