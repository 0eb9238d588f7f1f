//! A leader and its followers: what is acknowledged, what consumers see, who is in sync.

use std::time::Duration;

use bytes::Bytes;
use taffrail_core::control::{Command, ReassignPartitions, Reassignment};
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_core::record::Batch;
use taffrail_protocol::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::produce_response::PartitionProduceResponse;
use taffrail_protocol::message::{DeleteRecordsRequest, FetchRequest, ListOffsetsRequest, ProduceRequest};
use taffrail_runtime::time;

use super::cluster::{
    Client, Cluster, FETCH_VERSION, PRODUCE_VERSION, SOON, batch, fetch_request, produce_request, topic_name, values,
};
use super::followers::Follower;
use crate::replica::Reach;
use crate::replica::news::News;

/// A lag that a follower exceeds within a test.
const SHORT_LAG: (&str, &str) = ("replica.lag.time.max.ms", "40");

/// A cluster with a topic "t" whose only partition is on brokers 1, 2 and 3, of which 1 is real and leads.
async fn replicated(settings: &[(&str, &str)], of_topic: &[(&str, &str)]) -> (Cluster, Follower, Follower) {
    let cluster = Cluster::start_with(settings).await;
    let (mut second, mut third) = (Follower::join(&cluster, 2).await, Follower::join(&cluster, 3).await);
    cluster.client().await.create_topic_on("t", &[&[1, 2, 3]], of_topic).await;
    second.follow(&cluster, "t");
    third.follow(&cluster, "t");
    (cluster, second, third)
}

fn isr(cluster: &Cluster) -> Vec<i32> {
    cluster.topic("t").partitions[0].isr.iter().map(|id| id.0).collect()
}

/// Waits until something holds.
pub(super) async fn until(mut holds: impl FnMut() -> bool) {
    let holds = async {
        while !holds() {
            time::sleep(Duration::from_millis(2)).await;
        }
    };
    time::timeout(SOON, holds).await.expect("it comes to be");
}

async fn send(client: &mut Client, acks: i16, timeout_ms: i32) {
    let request = produce_request("t", 0, acks, batch(&[b"a"])).with_timeout_ms(timeout_ms);
    client.send(PRODUCE_VERSION, &request).await;
}

async fn produced(client: &mut Client) -> PartitionProduceResponse {
    let response = client.receive::<ProduceRequest>(PRODUCE_VERSION, 0).await;
    response.responses[0].partition_responses[0].clone()
}

#[tokio::test]
async fn acks_all_is_answered_when_every_replica_in_sync_has_the_records() {
    let (cluster, mut second, mut third) = replicated(&[], &[("min.insync.replicas", "2")]).await;
    let (mut producer, mut consumer) = (cluster.client().await, cluster.client().await);
    send(&mut producer, -1, 30_000).await;
    until(|| cluster.log_end("t", 0) == 1).await;
    let fetched = second.has(0).await;
    assert_eq!(values(&fetched.records.unwrap()), [(0, b"a".to_vec())], "followers read to the end of the log");
    assert_eq!(fetched.high_watermark, 0);
    second.has(1).await;
    assert!(!producer.is_answered().await, "the third replica has nothing yet");
    assert_eq!(consumer.fetch("t", 0, 0, 0).await.high_watermark, 0, "and consumers see nothing");
    assert_eq!(third.has(1).await.high_watermark, 1);
    let answer = produced(&mut producer).await;
    assert_eq!((answer.error_code, answer.base_offset), (0, 0));
    let fetched = consumer.fetch("t", 0, 0, 0).await;
    assert_eq!((fetched.high_watermark, values(&fetched.records.unwrap()).len()), (1, 1));
}

#[tokio::test]
async fn acks_of_the_leader_alone_wait_for_nobody() {
    let (cluster, _second, _third) = replicated(&[], &[]).await;
    let mut producer = cluster.client().await;
    send(&mut producer, 1, 30_000).await;
    assert_eq!(produced(&mut producer).await.error_code, 0);
    assert_eq!(cluster.client().await.fetch("t", 0, 0, 0).await.high_watermark, 0);
}

#[tokio::test]
async fn requests_behind_one_that_waits_are_appended_and_answered_in_order() {
    let (cluster, mut second, mut third) = replicated(&[], &[]).await;
    let mut producer = cluster.client().await;
    for _ in 0..5 {
        send(&mut producer, -1, 30_000).await;
    }
    until(|| cluster.log_end("t", 0) == 5).await;
    second.has(5).await;
    third.has(5).await;
    for behind in (0..5).rev() {
        let response = producer.receive::<ProduceRequest>(PRODUCE_VERSION, behind).await;
        let answer = &response.responses[0].partition_responses[0];
        assert_eq!((answer.error_code, answer.base_offset), (0, i64::from(4 - behind)));
    }
}

#[tokio::test]
async fn what_is_not_replicated_in_time_is_told_as_that() {
    let (cluster, mut second, _third) = replicated(&[], &[]).await;
    let mut producer = cluster.client().await;
    send(&mut producer, -1, 20).await;
    until(|| cluster.log_end("t", 0) == 1).await;
    second.has(1).await;
    let answer = produced(&mut producer).await;
    assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::RequestTimedOut.code(), 0));
}

#[tokio::test]
async fn a_waiting_consumer_is_woken_by_the_high_watermark_and_a_follower_by_the_end_of_the_log() {
    let (cluster, mut second, mut third) = replicated(&[], &[]).await;
    let (mut producer, mut consumer) = (cluster.client().await, cluster.client().await);
    consumer.send_fetch(&fetch_request(&[("t", 0, 0)], 60_000, 1)).await;
    let waits = second.request(vec![second.asks(0)], 60_000);
    second.send(&waits).await;
    assert!(!second.is_answered().await, "there is nothing to give");
    send(&mut producer, 1, 30_000).await;
    let fetched = second.receive().await.responses[0].partitions[0].clone();
    assert_eq!(values(&fetched.records.unwrap()).len(), 1);
    second.has(1).await;
    assert!(!consumer.is_answered().await);
    third.has(1).await;
    let response = consumer.receive_fetch().await;
    assert_eq!(values(response.responses[0].partitions[0].records.as_ref().unwrap()).len(), 1);
}

#[tokio::test]
async fn whoever_waits_hears_of_records_that_were_there_before_the_leader_counted_them() {
    let (cluster, mut second, mut third) = replicated(&[], &[]).await;
    let partition = cluster.partition("t", 0);
    // As a process finds it that starts: a record above the high watermark that it has not appended itself.
    let found = Batch::parse(&Bytes::from(batch(&[b"a"]))).unwrap();
    partition.log().append(&[found], 0, 0).unwrap();
    let news = News::new();
    news.expect(1);
    let _subscribed = partition.subscribe(Reach::Committed, &news, 0);
    second.has(1).await;
    assert_eq!(third.has(1).await.high_watermark, 1);
    time::timeout(SOON, news.woken()).await.expect("the coordinator of groups waits like that");
}

#[tokio::test]
async fn whoever_does_not_keep_up_leaves_the_isr_and_comes_back_by_fetching() {
    let (cluster, mut second, mut third) = replicated(&[SHORT_LAG], &[("min.insync.replicas", "1")]).await;
    let mut producer = cluster.client().await;
    send(&mut producer, -1, 30_000).await;
    assert_eq!(produced(&mut producer).await.error_code, 0, "the leader is alone in the ISR in the end");
    until(|| isr(&cluster) == [1]).await;
    assert!(cluster.metrics().contains("underreplicatedpartitions 1"), "{}", cluster.metrics());
    second.has(1).await;
    until(|| isr(&cluster) == [1, 2]).await;
    third.has(1).await;
    until(|| isr(&cluster) == [1, 2, 3]).await;
    let metrics = cluster.metrics();
    for line in ["underreplicatedpartitions 0", "isrexpands_total 2", "leadercount 1"] {
        assert!(metrics.contains(line), "{line}: {metrics}");
    }
}

#[tokio::test]
async fn a_follower_whose_broker_was_not_back_yet_joins_without_fetching_again() {
    let (cluster, mut second, mut third) = replicated(&[SHORT_LAG], &[]).await;
    cluster.client().await.call(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    until(|| isr(&cluster) == [1]).await;
    cluster.control(Command::FenceBroker(third.identity)).await;
    third.has(1).await;
    second.has(1).await;
    until(|| isr(&cluster) == [1, 2]).await;
    cluster.control(Command::UnfenceBroker(third.identity)).await;
    until(|| isr(&cluster) == [1, 2, 3]).await;
}

#[tokio::test]
async fn with_too_few_replicas_in_sync_acks_all_is_refused_and_nothing_is_committed() {
    let (cluster, _second, _third) = replicated(&[SHORT_LAG], &[("min.insync.replicas", "2")]).await;
    let mut producer = cluster.client().await;
    send(&mut producer, 1, 30_000).await;
    assert_eq!(produced(&mut producer).await.error_code, 0);
    until(|| isr(&cluster) == [1]).await;
    send(&mut producer, -1, 30_000).await;
    let answer = produced(&mut producer).await;
    assert_eq!((answer.error_code, answer.base_offset), (ErrorCode::NotEnoughReplicas.code(), -1));
    assert_eq!(cluster.log_end("t", 0), 1, "it was not appended");
    assert_eq!(cluster.client().await.fetch("t", 0, 0, 0).await.high_watermark, 0);
    assert!(cluster.metrics().contains("underminisrpartitioncount 1"), "{}", cluster.metrics());
}

#[tokio::test]
async fn who_loses_leadership_tells_waiting_producers_at_once_who_leads() {
    let (cluster, _second, _third) = replicated(&[], &[]).await;
    let mut producer = cluster.client().await;
    send(&mut producer, -1, 30_000).await;
    until(|| cluster.log_end("t", 0) == 1).await;
    cluster.control(Command::BeginShutdown(cluster.identity())).await;
    let answer = produced(&mut producer).await;
    assert_eq!(answer.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!((answer.current_leader.leader_id.0, answer.current_leader.leader_epoch), (2, 1));
    assert!(cluster.metrics().contains("leadercount 0"), "{}", cluster.metrics());
}

#[tokio::test]
async fn strangers_and_earlier_lives_of_brokers_are_not_heard() {
    let (cluster, mut second, _third) = replicated(&[SHORT_LAG], &[]).await;
    let mut stranger = Follower::join(&cluster, 4).await;
    stranger.follow(&cluster, "t");
    cluster.client().await.call(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    let right = second.identity.epoch;
    let not_heard = ErrorCode::NotLeaderOrFollower.code();
    for epoch in [-1, right - 1] {
        second.identity.epoch = epoch;
        let answer = second.has(1).await;
        assert_eq!((answer.error_code, answer.records.unwrap_or_default().len()), (not_heard, 0), "{epoch}");
    }
    assert_eq!(stranger.has(1).await.error_code, not_heard);
    let newer = stranger.asks(1).with_current_leader_epoch(0);
    assert_eq!(stranger.ask(newer).await.error_code, ErrorCode::UnknownLeaderEpoch.code(), "it may know more");
    until(|| isr(&cluster) == [1]).await;
    second.identity.epoch = right;
    assert_eq!(second.has(1).await.error_code, 0);
    until(|| isr(&cluster) == [1, 2]).await;
}

#[tokio::test]
async fn a_follower_whose_log_parts_is_told_where_and_does_not_count() {
    let (cluster, mut second, mut third) = replicated(&[], &[]).await;
    cluster.client().await.call(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    third.has(1).await;
    let other_history = second.asks(1).with_last_fetched_epoch(0);
    // The epoch is this leader's, but the follower has more of it than the leader has.
    let answer = second.ask(other_history.clone().with_fetch_offset(7)).await;
    assert_eq!((answer.diverging_epoch.epoch, answer.diverging_epoch.end_offset), (0, 1));
    let refused = second.ask(second.asks(7)).await;
    assert_eq!(refused.error_code, ErrorCode::OffsetOutOfRange.code());
    let stale = second.asks(1).with_current_leader_epoch(1);
    assert_eq!(second.ask(stale).await.error_code, ErrorCode::UnknownLeaderEpoch.code());
    assert_eq!(
        cluster.client().await.fetch("t", 0, 0, 0).await.high_watermark,
        0,
        "none of that was taken for progress"
    );
    assert_eq!(second.ask(other_history).await.high_watermark, 1);
}

#[tokio::test]
async fn records_are_deleted_when_all_live_replicas_have_dropped_them() {
    let (cluster, mut second, mut third) = replicated(&[], &[]).await;
    let (mut producer, mut admin) = (cluster.client().await, cluster.client().await);
    for _ in 0..3 {
        producer.call(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    }
    second.has(3).await;
    third.has(3).await;
    let topic = DeleteRecordsTopic::default()
        .with_name(topic_name("t"))
        .with_partitions(vec![DeleteRecordsPartition::default().with_offset(2)]);
    let request = DeleteRecordsRequest::default().with_topics(vec![topic]).with_timeout_ms(30_000);
    admin.send(2, &request).await;
    until(|| cluster.log_start("t", 0) == 2).await;
    second.ask(second.asks(3).with_log_start_offset(2)).await;
    assert!(!admin.is_answered().await, "the third replica has them still");
    third.ask(third.asks(3).with_log_start_offset(2)).await;
    let answer = admin.receive::<DeleteRecordsRequest>(2, 0).await.topics[0].partitions[0].clone();
    assert_eq!((answer.error_code, answer.low_watermark), (0, 2));
    let in_vain = admin.call(2, &request.clone().with_timeout_ms(10)).await.topics[0].partitions[0].clone();
    assert_eq!(in_vain.error_code, 0, "nothing is left to do");
}

/// The end of topic "t" as it is told to this replica, or to a consumer (-1).
pub(super) async fn latest(client: &mut Client, replica_id: i32) -> (i16, i64) {
    let partition = ListOffsetsPartition::default().with_timestamp(-1).with_current_leader_epoch(-1);
    let topic = ListOffsetsTopic::default().with_name(topic_name("t")).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default().with_replica_id(replica_id.into()).with_topics(vec![topic]);
    let partition = client.call(9, &request).await.topics[0].partitions[0].clone();
    (partition.error_code, partition.offset)
}

#[tokio::test]
async fn followers_are_told_the_end_of_the_log_and_consumers_the_high_watermark() {
    let (cluster, mut second, mut third) = replicated(&[], &[]).await;
    let mut client = cluster.client().await;
    client.call(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    assert_eq!((latest(&mut client, -1).await, latest(&mut client, 2).await), ((0, 0), (0, 1)));
    second.has(1).await;
    third.has(1).await;
    assert_eq!(latest(&mut client, -1).await, (0, 1));
}

#[tokio::test]
async fn a_partition_that_moves_away_is_closed_and_its_log_deleted() {
    let (cluster, mut second, _third) = replicated(&[], &[]).await;
    let mut client = cluster.client().await;
    assert!(cluster.dir().join("t-0").exists());
    let (topic, replicas) = ("t".into(), Some(vec![BrokerId(2), BrokerId(3)]));
    let partitions = vec![Reassignment { topic, partition: 0, replicas }];
    let reassign = ReassignPartitions { partitions, allow_replication_factor_change: true };
    cluster.control(Command::ReassignPartitions(reassign)).await;
    until(|| !cluster.topic("t").partitions[0].replicas.contains(&BrokerId(1))).await;
    let answer = client.call(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    let answer = &answer.responses[0].partition_responses[0];
    assert_eq!(answer.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert_eq!(answer.current_leader.leader_id.0, 2);
    assert_eq!(second.has(0).await.error_code, ErrorCode::NotLeaderOrFollower.code());
    assert!(!cluster.dir().join("t-0").exists());
    assert!(cluster.metrics().contains("replicamanager_partitioncount 0"), "{}", cluster.metrics());
}

#[tokio::test]
async fn consumers_are_sent_to_a_replica_in_their_rack_that_has_what_they_ask_for() {
    let selector = ("replica.selector.class", "org.apache.kafka.common.replica.RackAwareReplicaSelector");
    let cluster = Cluster::start_with(&[selector]).await;
    let mut near = Follower::join_in(&cluster, 2, Some("near")).await;
    let mut consumer = cluster.client().await;
    consumer.create_topic_on("t", &[&[1, 2]], &[]).await;
    near.follow(&cluster, "t");
    consumer.call(PRODUCE_VERSION, &produce_request("t", 0, 1, batch(&[b"a"]))).await;
    near.has(1).await;
    let ask = async |consumer: &mut Client, rack: &str, offset: i64| {
        let request = fetch_request(&[("t", 0, offset)], 0, 1).with_rack_id(rack.to_owned().into());
        let answer = consumer.call::<FetchRequest>(FETCH_VERSION, &request).await.responses[0].partitions[0].clone();
        (answer.preferred_read_replica.0, !answer.records.unwrap_or_default().is_empty())
    };
    assert_eq!(ask(&mut consumer, "near", 0).await, (2, false));
    assert_eq!(ask(&mut consumer, "near", 1).await, (2, false));
    assert_eq!(ask(&mut consumer, "far", 0).await, (-1, true));
    assert_eq!(ask(&mut consumer, "", 0).await, (-1, true));
}
