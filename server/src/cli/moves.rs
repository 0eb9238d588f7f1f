//! `taffrail cluster moves`: replicas that are being moved, and how many bytes are left. Brokers tell, over Kafka's protocol.

use serde_json::{Value, json};
use taffrail_client::kafka::Move;
use taffrail_runtime::task;

use super::brokers::{BrokersArgs, known, numbers};
use super::{print, table};
use crate::exit::Exit;

/// Threads of a command that only asks.
const THREADS: usize = 1;

/// Carries out `cluster moves`.
pub(super) fn run(args: &BrokersArgs) -> anyhow::Result<Exit> {
    task::block_on(THREADS, async {
        let moves = args.connect().await?.moves().await?;
        let data: Vec<Value> = moves.iter().map(data).collect();
        let left = moves.iter().map(Move::bytes_left).sum::<Option<i64>>();
        print(args.output, &json!({ "bytesLeft": left, "moves": data }), || {
            let rows: Vec<Vec<String>> = moves.iter().map(row).collect();
            table(&["TOPIC", "PARTITION", "LEADER", "REPLICAS", "ADDING", "REMOVING", "BYTES", "BYTES-LEFT"], &rows)
        })?;
        Ok(Exit::Done)
    })?
}

/// A move for programs.
fn data(moving: &Move) -> Value {
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
