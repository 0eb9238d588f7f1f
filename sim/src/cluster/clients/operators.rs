//! Those who operate the cluster by Kafka's protocol: one deletes records, one moves replicas.

use std::collections::VecDeque;
use std::time::Duration;

use taffrail_protocol::message::alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic};
use taffrail_protocol::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use taffrail_protocol::message::{AlterPartitionReassignmentsRequest, BrokerId, DeleteRecordsRequest};
use taffrail_runtime::{random, time};

use super::{
    BROKERS_MAX, Broken, Connection, Leader, MIN_IN_SYNC, PARTITIONS, Surroundings, any_broker, between,
    broker_address, topic_name,
};

const DELETE_RECORDS_VERSION: i16 = 2;
const REASSIGN_VERSION: i16 = 1;

/// How long a broker may take.
const TIMEOUT_MS: i32 = 3_000;

/// Shortest and longest pause between two deletions.
const DELETES_AFTER_MS: (u64, u64) = (100, 700);

/// Only records are deleted that were settled so long ago: longer than a request of their producer can be on its way, which a
/// replica that begins behind them would not know for a repeated one.
const SETTLED_FOR: Duration = Duration::from_secs(5);

/// Shortest and longest pause between two moves.
const MOVES_AFTER_MS: (u64, u64) = (300, 2_000);

/// One order in so many takes a move back.
const CANCELLED_ONE_IN: u64 = 5;

/// Deletes records from the beginning of `partition` for as long as anybody produces.
pub(in crate::cluster) async fn delete_records(client: u8, partition: i32, surroundings: Surroundings) {
    let mut leader = Leader::new(client, partition, &surroundings);
    let mut settled: VecDeque<(time::Instant, i64)> = VecDeque::new();
    loop {
        time::sleep(between(DELETES_AFTER_MS)).await;
        let end = surroundings.ledger.with(partition, |seen| seen.settled_end());
        settled.push_back((time::monotonic(), end));
        let mut before = None;
        while settled.front().is_some_and(|(at, _)| at.elapsed() >= SETTLED_FOR) {
            before = settled.pop_front().map(|(_, end)| end);
        }
        let asked = surroundings.ledger.with(partition, |seen| seen.asked_to_delete);
        let Some(before) = before.filter(|before| *before > asked && surroundings.producing.get()) else { continue };
        let before = asked + 1 + (random::u64() % (before - asked) as u64) as i64;
        surroundings.ledger.ask_to_delete(partition, before);
        let asked = DeleteRecordsPartition::default().with_partition_index(partition).with_offset(before);
        let topic = DeleteRecordsTopic::default().with_name(topic_name()).with_partitions(vec![asked]);
        let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(TIMEOUT_MS);
        let answer = leader.connection().await.call(DELETE_RECORDS_VERSION, &request).await;
        let code = answer.map(|answer| {
            let partitions = answer.topics.into_iter().flat_map(|topic| topic.partitions);
            partitions.map(|partition| partition.error_code).next()
        });
        surroundings.trace.note(format_args!("deleter {partition}"), format!("before {before}: {code:?}"));
        match code {
            Ok(Some(0)) => surroundings.ledger.deleted(partition, before),
            _ => leader.lost().await,
        }
    }
}

/// Moves replicas of the topic about while somebody operates the cluster.
pub(in crate::cluster) async fn move_replicas(client: u8, surroundings: Surroundings) {
    for attempt in 0.. {
        time::sleep(between(MOVES_AFTER_MS)).await;
        if !surroundings.operating.get() {
            continue;
        }
        let partition = (random::u64() % PARTITIONS as u64) as i32;
        let target = (!random::u64().is_multiple_of(CANCELLED_ONE_IN)).then(some_brokers);
        let moved = move_to(client, attempt, partition, target.as_deref()).await;
        surroundings.trace.note("mover", format!("{partition} to {target:?}: {moved:?}"));
        if matches!(moved, Ok((0, Some(0)))) {
            surroundings.ledger.moved();
        }
    }
}

/// As many brokers as must be in sync at least, all at most, in any order.
fn some_brokers() -> Vec<i32> {
    let mut all: Vec<i32> = (1..=i32::from(BROKERS_MAX)).collect();
    let count = MIN_IN_SYNC + (random::u64() % (all.len() - MIN_IN_SYNC + 1) as u64) as usize;
    let drawn = |_| all.swap_remove((random::u64() % all.len() as u64) as usize);
    (0..count).map(drawn).collect()
}

/// Gives a partition these replicas, or takes the move back; gives the error codes of the answer and of the partition.
async fn move_to(
    client: u8,
    attempt: u64,
    partition: i32,
    target: Option<&[i32]>,
) -> Result<(i16, Option<i16>), Broken> {
    let mut connection = Connection::dial(broker_address(any_broker(client, attempt))).await?;
    let replicas = target.map(|ids| ids.iter().map(|id| BrokerId(*id)).collect());
    let asked = ReassignablePartition::default().with_partition_index(partition).with_replicas(replicas);
    let topic = ReassignableTopic::default().with_name(topic_name()).with_partitions(vec![asked]);
    let request = AlterPartitionReassignmentsRequest::default()
        .with_topics(vec![topic])
        .with_timeout_ms(TIMEOUT_MS)
        .with_allow_replication_factor_change(true);
    let answer = connection.call(REASSIGN_VERSION, &request).await?;
    let partitions = answer.responses.iter().flat_map(|topic| &topic.partitions);
    Ok((answer.error_code, partitions.map(|it| it.error_code).next()))
}
