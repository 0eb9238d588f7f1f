//! Brokers that replicate to each other.

use bytes::Bytes;
use taffrail_core::ids::BrokerId;
use taffrail_protocol::message::elect_leaders_request::TopicPartitions;
use taffrail_protocol::message::{ElectLeadersRequest, ProduceRequest};
use taffrail_storage::Log;

use super::brokers::Brokers;
use super::cluster::{Client, PRODUCE_VERSION, batch, produce_request, topic_name};
use super::replication::until;

/// Produces a batch to partition 0 of "t"; gives the error code.
async fn produce(client: &mut Client, acks: i16, values: &[&[u8]]) -> i16 {
    produce_to(client, "t", acks, values).await
}

async fn produce_to(client: &mut Client, topic: &str, acks: i16, values: &[&[u8]]) -> i16 {
    let request = produce_request(topic, 0, acks, batch(values));
    let response = client.call::<ProduceRequest>(PRODUCE_VERSION, &request).await;
    response.responses[0].partition_responses[0].error_code
}

/// All bytes of a log.
fn bytes(log: &Log) -> Bytes {
    let (mut bytes, mut next) = (Vec::new(), log.log_start_offset());
    while next < log.end_offset() {
        let read = log.read(next, 1 << 20, i64::MAX, true).unwrap();
        next = read.next_offset;
        bytes.extend(read.read_bytes().unwrap());
    }
    bytes.into()
}

/// Waits until the logs of two brokers are the same, byte for byte and epoch by epoch.
async fn until_equal(brokers: &Brokers, one: i32, other: i32) {
    let (one, other) = (brokers.log(one, "t", 0), brokers.log(other, "t", 0));
    until(|| one.end_offset() == other.end_offset() && one.high_watermark() == other.high_watermark()).await;
    assert!(bytes(&one) == bytes(&other));
    // A leader knows its own epoch before there is a record of it.
    let of_records = |log: &Log| {
        let end = log.end_offset();
        log.epochs().into_iter().filter(|entry| entry.start_offset < end).collect::<Vec<_>>()
    };
    assert_eq!(of_records(&one), of_records(&other));
}

#[tokio::test]
async fn records_reach_all_replicas_before_acks_all_is_answered() {
    let brokers = Brokers::start(3, &[]).await;
    let mut client = brokers.client(1).await;
    client.create_topic_on("t", &[&[1, 2, 3]], &[("min.insync.replicas", "3")]).await;
    for round in 1..=20 {
        assert_eq!(produce(&mut client, -1, &[b"a", b"b"]).await, 0);
        assert_eq!((brokers.end(2), brokers.end(3)), (round * 2, round * 2));
    }
    until_equal(&brokers, 1, 2).await;
    until_equal(&brokers, 1, 3).await;
    assert_eq!(brokers.state("t", 0).await.isr, [BrokerId(1), BrokerId(2), BrokerId(3)]);
}

#[tokio::test]
async fn a_replica_that_comes_late_gets_everything_and_joins_the_isr() {
    let mut brokers = Brokers::start(2, &[("replica.lag.time.max.ms", "100")]).await;
    let mut client = brokers.client(1).await;
    client.create_topic_on("t", &[&[1, 2]], &[("segment.bytes", "1048576")]).await;
    assert_eq!(produce(&mut client, -1, &[b"first"]).await, 0);
    let gone = brokers.stop(2).await;
    brokers.fence(gone).await;
    let large = vec![b'x'; 60_000];
    for _ in 0..40 {
        assert_eq!(produce(&mut client, -1, &[&large]).await, 0);
    }
    brokers.start_one(2).await;
    until_equal(&brokers, 1, 2).await;
    assert_eq!(brokers.end(2), 41);
    let mut isr = Vec::new();
    while isr.len() < 2 {
        isr.clone_from(&brokers.state("t", 0).await.isr);
        tokio::task::yield_now().await;
    }
    assert_eq!(produce(&mut client, -1, &[b"last"]).await, 0);
}

#[tokio::test]
async fn when_the_leader_dies_another_one_goes_on_and_what_only_the_old_one_had_is_cut() {
    let mut brokers = Brokers::start(2, &[]).await;
    let mut client = brokers.client(1).await;
    client.create_topic_on("t", &[&[1, 2]], &[]).await;
    for _ in 0..5 {
        assert_eq!(produce(&mut client, -1, &[b"both"]).await, 0);
    }
    // The follower is away, and nobody knows: what the leader takes now is not committed.
    let second = brokers.stop(2).await;
    assert_eq!(produce(&mut client, 1, &[b"only here", b"and here"]).await, 0);
    let first = brokers.stop(1).await;
    brokers.fence(first).await;
    brokers.fence(second).await;
    brokers.start_one(2).await;
    assert_eq!(brokers.state("t", 0).await.leader, BrokerId(2));
    let mut client = brokers.client(2).await;
    for _ in 0..3 {
        assert_eq!(produce(&mut client, -1, &[b"the new leader's"]).await, 0);
    }
    assert_eq!(brokers.end(2), 8);

    brokers.start_one(1).await;
    until_equal(&brokers, 1, 2).await;
    assert_eq!(brokers.metric(1, "taffrail_replica_truncations_total"), 1);
    assert_eq!(brokers.metric(1, "taffrail_replica_committed_records_lost_total"), 0);
}

#[tokio::test]
async fn what_an_unclean_election_loses_is_told_by_its_leader_and_by_followers_as_a_range() {
    let mut brokers = Brokers::start(2, &[]).await;
    let mut client = brokers.client(1).await;
    client.create_topic_on("t", &[&[1, 2]], &[]).await;
    assert_eq!(produce(&mut client, -1, &[b"both", b"both"]).await, 0);
    let second = brokers.stop(2).await;
    brokers.fence(second).await;
    for _ in 0..3 {
        assert_eq!(produce(&mut client, -1, &[b"only the first"]).await, 0);
    }
    let first = brokers.stop(1).await;
    brokers.fence(first).await;
    brokers.start_one(2).await;
    assert_eq!(brokers.state("t", 0).await.leader, BrokerId::NONE);

    let topic = TopicPartitions::default().with_topic(topic_name("t")).with_partitions(vec![0]);
    let unclean = ElectLeadersRequest::default().with_election_type(1).with_topic_partitions(Some(vec![topic]));
    brokers.client(2).await.call(2, &unclean.with_timeout_ms(10_000)).await;
    assert_eq!(brokers.state("t", 0).await.leader, BrokerId(2));
    // The leader knows where it begins, a follower with the records how many there were.
    let [from, to] = ["from", "to"].map(|end| format!("taffrail_partition_lost_{end}_offset{{"));
    assert_eq!((brokers.metric(2, &from), brokers.metric(2, &to)), (2, 2));
    brokers.start_one(1).await;
    until_equal(&brokers, 1, 2).await;
    assert_eq!((brokers.metric(1, &from), brokers.metric(1, &to)), (2, 5));
    assert_eq!(brokers.metric(1, "taffrail_replica_committed_records_lost_total"), 3);
}

#[tokio::test]
async fn leadership_moves_back_and_forth_under_load_and_nothing_is_lost() {
    let mut brokers = Brokers::start(3, &[]).await;
    brokers.client(1).await.create_topic_on("t", &[&[1, 2, 3]], &[("min.insync.replicas", "2")]).await;
    let mut acknowledged = 0;
    for round in 0..6 {
        let leader = brokers.state("t", 0).await.leader.0;
        let mut client = brokers.client(leader).await;
        for _ in 0..10 {
            assert_eq!(produce(&mut client, -1, &[b"a", b"b", b"c"]).await, 0, "round {round}");
            acknowledged += 3;
        }
        let gone = brokers.stop(leader).await;
        brokers.fence(gone).await;
        brokers.start_one(leader).await;
        while brokers.state("t", 0).await.isr.len() < 3 {
            tokio::task::yield_now().await;
        }
    }
    let leader = brokers.state("t", 0).await.leader.0;
    assert_eq!(brokers.end(leader), acknowledged);
    for id in 1..=3 {
        until_equal(&brokers, leader, id).await;
    }
}

#[tokio::test]
async fn a_new_partition_is_replicated_at_once_though_its_leader_holds_back_an_answer_for_others() {
    let brokers = Brokers::start(2, &[("replica.fetch.wait.max.ms", "600000")]).await;
    let mut client = brokers.client(1).await;
    for topic in ["t", "u", "v"] {
        client.create_topic_on(topic, &[&[1, 2]], &[]).await;
        for _ in 0..2 {
            assert_eq!(produce_to(&mut client, topic, -1, &[b"a"]).await, 0);
        }
    }
    assert_eq!(produce(&mut client, -1, &[b"a"]).await, 0, "older ones go on");
}

#[tokio::test]
async fn idle_partitions_cost_nothing_while_others_are_busy() {
    const PARTITIONS: usize = 200;
    let settings = [("replica.fetch.wait.max.ms", "60000")];
    let brokers = Brokers::start(2, &settings).await;
    let mut client = brokers.client(1).await;
    let replicas: Vec<&[i32]> = vec![&[1, 2]; PARTITIONS];
    client.create_topic_on("t", &replicas, &[]).await;
    for _ in 0..2 {
        assert_eq!(produce(&mut client, -1, &[b"all are followed by now"]).await, 0);
    }
    let fetches = |brokers: &Brokers| {
        let name = "kafka_network_requestmetrics_requests_total{request=\"Fetch\"";
        let looked_at = "kafka_server_brokertopicmetrics_totalfetchrequests_total{topic=\"t\"}";
        (brokers.metric(1, name), brokers.metric(1, looked_at))
    };
    let before = fetches(&brokers);
    for _ in 0..10 {
        assert_eq!(produce(&mut client, -1, &[b"one of two hundred"]).await, 0);
    }
    let after = fetches(&brokers);
    assert!(after.0 - before.0 <= 22, "{before:?} {after:?}: a fetch that brings it and one that tells so");
    assert!(after.1 - before.1 <= 44, "{before:?} {after:?}: no look at the others");
}
