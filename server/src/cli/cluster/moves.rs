//! `taffrail cluster moves`: replicas that are being moved, and how many bytes are left.

use std::time::Duration;

use clap::Args;
use serde_json::{Value, json};
use taffrail_client::kafka::{KafkaClient, Move, PartitionKey};
use taffrail_runtime::time;

use crate::cli::brokers::{BrokersArgs, known, numbers};
use crate::cli::progress::Progress;
use crate::cli::{print, table};
use crate::exit::Exit;

/// Time between two looks at moves that are waited for.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Arguments of `cluster moves`.
#[derive(Args, Debug)]
pub(crate) struct MovesArgs {
    /// Wait until nothing moves any more; how far it is goes to standard error
    #[arg(long)]
    wait: bool,
    #[command(flatten)]
    brokers: BrokersArgs,
}

/// Carries out `cluster moves`.
pub(super) async fn run(args: &MovesArgs) -> anyhow::Result<Exit> {
    let mut client = args.brokers.connect().await?;
    if args.wait {
        wait(&mut client, |_| true).await?;
    }
    let moves = client.moves().await?;
    let data: Vec<Value> = moves.iter().map(data).collect();
    print(args.brokers.output, &json!({ "bytesLeft": bytes_left(&moves), "moves": data }), || {
        let rows: Vec<Vec<String>> = moves.iter().map(row).collect();
        table(&["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ADDING", "REMOVING", "BYTES", "BYTES-LEFT"], &rows)
    })?;
    Ok(Exit::Done)
}

/// Waits until none of the partitions that `is_meant` names moves any more.
pub(super) async fn wait(client: &mut KafkaClient, is_meant: impl Fn(&PartitionKey) -> bool) -> anyhow::Result<()> {
    let mut progress = Progress::in_bytes();
    loop {
        let mut moves = client.moves().await?;
        moves.retain(|moving| is_meant(&(moving.topic.clone(), moving.partition)));
        if moves.is_empty() {
            progress.end();
            return Ok(());
        }
        let what = match moves.len() {
            1 => "1 partition moves".to_owned(),
            count => format!("{count} partitions move"),
        };
        progress.step(&what, bytes_left(&moves));
        time::sleep(LOOK_EVERY).await;
    }
}

/// Bytes left of all of them, if all of that is known.
fn bytes_left(moves: &[Move]) -> Option<i64> {
    moves.iter().map(Move::bytes_left).sum()
}

/// A move for programs.
pub(in crate::cli) fn data(moving: &Move) -> Value {
    let adding = moving.adding.iter().map(|copied| json!({ "broker": copied.broker, "bytes": copied.bytes }));
    json!({
        "topic": moving.topic,
        "partition": moving.partition,
        "leader": moving.leader,
        "leaderBytes": moving.leader_bytes,
        "replicas": moving.replicas,
        "adding": adding.collect::<Vec<_>>(),
        "removing": moving.removing,
        "bytesLeft": moving.bytes_left(),
    })
}

/// A move for people.
fn row(moving: &Move) -> Vec<String> {
    let adding: Vec<i32> = moving.adding.iter().map(|copied| copied.broker).collect();
    vec![
        moving.topic.clone(),
        moving.partition.to_string(),
        known(moving.leader),
        numbers(&moving.replicas),
        numbers(&adding),
        numbers(&moving.removing),
        known(moving.leader_bytes),
        known(moving.bytes_left()),
    ]
}

#[cfg(test)]
mod tests {
    use taffrail_client::kafka::Copied;

    use super::*;

    #[test]
    fn a_move_says_who_gets_how_much_more() {
        let moving = Move {
            topic: "t".to_owned(),
            partition: 3,
            leader: Some(1),
            leader_bytes: Some(1_000),
            replicas: vec![1, 2],
            adding: vec![Copied { broker: 2, bytes: Some(400) }],
            removing: vec![1],
        };
        assert_eq!(row(&moving), ["t", "3", "1", "1,2", "2", "1", "1000", "600"]);
        assert_eq!(data(&moving)["bytesLeft"], 600);
        let unknown = Move { leader_bytes: None, ..moving };
        assert_eq!((&data(&unknown)["bytesLeft"], row(&unknown)[7].as_str()), (&Value::Null, ""));
    }
}
