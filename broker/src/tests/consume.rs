//! Fetching and looking up offsets, as clients see it.

use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_protocol::message::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use taffrail_protocol::message::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use taffrail_protocol::message::{DeleteRecordsRequest, DeleteTopicsRequest, ListOffsetsRequest};
use taffrail_runtime::time;

use super::cluster::{Client, Cluster, batch, fetch_request, topic_name, values};

async fn offset_at(client: &mut Client, topic: &str, timestamp: i64) -> (i16, i64) {
    let partition = ListOffsetsPartition::default().with_timestamp(timestamp).with_current_leader_epoch(-1);
    let topic = ListOffsetsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let response = client.call(9, &ListOffsetsRequest::default().with_topics(vec![topic])).await;
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.offset)
}

async fn delete_records(client: &mut Client, topic: &str, offset: i64) -> (i16, i64) {
    let partition = DeleteRecordsPartition::default().with_offset(offset);
    let topic = DeleteRecordsTopic::default().with_name(topic_name(topic)).with_partitions(vec![partition]);
    let response = client.call(2, &DeleteRecordsRequest::default().with_topics(vec![topic])).await;
    let partition = &response.topics[0].partitions[0];
    (partition.error_code, partition.low_watermark)
}

#[tokio::test]
async fn a_waiting_fetch_is_answered_by_an_append_and_not_before() {
    let cluster = Cluster::start().await;
    let (mut consumer, mut producer) = (cluster.client().await, cluster.client().await);
    producer.create_topic("t", 2, &[]).await;
    consumer.send_fetch(&fetch_request(&[("t", 0, 0), ("t", 1, 0)], 60_000, 1)).await;
    let early = time::timeout(Duration::from_millis(50), consumer.stream.readable()).await;
    assert!(early.is_err(), "there is nothing to answer yet");
    producer.produce("t", 1, batch(&[b"a"])).await;
    let response = consumer.receive_fetch().await;
    let records = response.responses.iter().flat_map(|topic| &topic.partitions).filter_map(|it| it.records.as_ref());
    let found: Vec<_> = records.flat_map(values).collect();
    assert_eq!(found, [(0, b"a".to_vec())]);
}

#[tokio::test]
async fn a_fetch_is_answered_when_its_time_is_over() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let started = time::monotonic();
    let fetched = client.fetch("t", 0, 0, 60).await;
    assert!(time::monotonic() - started >= Duration::from_millis(60));
    assert_eq!((fetched.error_code, fetched.records.unwrap_or_default().len()), (0, 0));
}

#[tokio::test]
async fn a_partition_that_is_full_to_its_limit_is_not_held_back_for_others() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 2, &[]).await;
    for _ in 0..3 {
        client.produce("t", 0, batch(&[&[7; 700_000]])).await;
    }
    let started = time::monotonic();
    client.send_fetch(&fetch_request(&[("t", 0, 0), ("t", 1, 0)], 60_000, 5_000_000)).await;
    let response = client.receive_fetch().await;
    assert!(time::monotonic() - started < Duration::from_secs(30));
    assert!(response.responses[0].partitions[0].records.as_ref().unwrap().len() > 700_000);
}

#[tokio::test]
async fn the_first_batch_is_given_even_if_it_is_larger_than_the_limit() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    client.produce("t", 0, batch(&[&[7; 50_000]])).await;
    let mut request = fetch_request(&[("t", 0, 0)], 0, 1);
    request.topics[0].partitions[0].partition_max_bytes = 10;
    client.send_fetch(&request).await;
    let response = client.receive_fetch().await;
    assert!(response.responses[0].partitions[0].records.as_ref().unwrap().len() > 50_000);
}

#[tokio::test]
async fn an_incremental_fetch_tells_only_what_is_new() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 2, &[]).await;
    client.send_fetch(&fetch_request(&[("t", 0, 0), ("t", 1, 0)], 0, 1).with_session_epoch(0)).await;
    let full = client.receive_fetch().await;
    assert_ne!(full.session_id, 0);
    assert_eq!(full.responses.iter().map(|topic| topic.partitions.len()).sum::<usize>(), 2);
    let next = |epoch| fetch_request(&[], 0, 1).with_session_id(full.session_id).with_session_epoch(epoch);
    client.send_fetch(&next(1)).await;
    assert_eq!(client.receive_fetch().await.responses.len(), 0);
    client.produce("t", 1, batch(&[b"a"])).await;
    client.send_fetch(&next(2)).await;
    let news = client.receive_fetch().await;
    let partitions: Vec<i32> =
        news.responses.iter().flat_map(|topic| &topic.partitions).map(|it| it.partition_index).collect();
    assert_eq!(partitions, [1]);
    client.send_fetch(&next(2)).await;
    assert_eq!(client.receive_fetch().await.error_code, ErrorCode::InvalidFetchSessionEpoch.code());
}

#[tokio::test]
async fn offsets_are_found_by_place_and_fetches_outside_are_refused() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    assert_eq!(offset_at(&mut client, "t", -3).await, (0, -1), "no record, no newest timestamp");
    for _ in 0..4 {
        client.produce("t", 0, batch(&[b"a", b"b"])).await;
    }
    assert_eq!(offset_at(&mut client, "t", -1).await, (0, 8));
    assert_eq!(offset_at(&mut client, "t", -2).await, (0, 0));
    assert_eq!(offset_at(&mut client, "t", 0).await, (0, 0));
    assert_eq!(offset_at(&mut client, "t", time::unix_ms() + 3_600_000).await, (0, -1));
    assert_eq!(offset_at(&mut client, "unknown", -1).await, (ErrorCode::UnknownTopicOrPartition.code(), -1));
    assert_eq!(offset_at(&mut client, "t", -9).await, (ErrorCode::UnsupportedVersion.code(), -1));
    for offset in [-1, 9] {
        assert_eq!(client.fetch("t", 0, offset, 0).await.error_code, ErrorCode::OffsetOutOfRange.code());
    }
}

#[tokio::test]
async fn deleted_records_are_gone_and_the_log_begins_later() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    client.produce("t", 0, batch(&[b"a", b"b", b"c"])).await;
    assert_eq!(delete_records(&mut client, "t", 4).await, (ErrorCode::OffsetOutOfRange.code(), -1));
    assert_eq!(delete_records(&mut client, "t", 2).await, (0, 2));
    assert_eq!(offset_at(&mut client, "t", -2).await, (0, 2));
    assert_eq!(client.fetch("t", 0, 1, 0).await.error_code, ErrorCode::OffsetOutOfRange.code());
    let whole_batch = client.fetch("t", 0, 2, 0).await;
    assert_eq!(values(&whole_batch.records.unwrap()).last().unwrap().0, 2);
    assert_eq!(delete_records(&mut client, "t", -1).await, (0, 3));
}

#[tokio::test]
async fn a_deleted_topic_ends_waiting_fetches_and_can_be_made_again_empty() {
    let cluster = Cluster::start().await;
    let (mut consumer, mut admin) = (cluster.client().await, cluster.client().await);
    admin.create_topic("t", 1, &[]).await;
    admin.produce("t", 0, batch(&[b"a"])).await;
    consumer.send_fetch(&fetch_request(&[("t", 0, 1)], 60_000, 1)).await;
    let request = DeleteTopicsRequest::default().with_topic_names(vec![topic_name("t")]).with_timeout_ms(10_000);
    assert_eq!(admin.call(5, &request).await.responses[0].error_code, 0);
    let ended = consumer.receive_fetch().await;
    assert_ne!(ended.responses[0].partitions[0].error_code, 0);
    assert_eq!(consumer.fetch("t", 0, 0, 0).await.error_code, ErrorCode::UnknownTopicOrPartition.code());
    admin.create_topic("t", 1, &[]).await;
    assert_eq!(admin.fetch("t", 0, 0, 0).await.high_watermark, 0);
    assert_eq!(admin.produce("t", 0, batch(&[b"b"])).await.base_offset, 0);
}
