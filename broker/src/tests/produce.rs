//! Producing, as clients see it.

use taffrail_core::errors::ErrorCode;
use taffrail_core::record::BatchOptions;
use taffrail_protocol::message::{MetadataRequest, ProduceRequest};
use tokio::io::AsyncReadExt;

use super::cluster::{Cluster, SOON, batch, sequenced, values};

#[tokio::test]
async fn what_is_produced_right_after_the_creation_of_a_topic_is_fetched_again() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("orders", 3, &[]).await;
    let first = client.produce("orders", 2, batch(&[b"a", b"b"])).await;
    assert_eq!((first.error_code, first.base_offset, first.log_append_time_ms), (0, 0, -1));
    assert_eq!(client.produce("orders", 2, batch(&[b"c"])).await.base_offset, 2);
    let fetched = client.fetch("orders", 2, 0, 0).await;
    assert_eq!((fetched.error_code, fetched.high_watermark, fetched.log_start_offset), (0, 3, 0));
    let expected: Vec<(i64, Vec<u8>)> = vec![(0, b"a".to_vec()), (1, b"b".to_vec()), (2, b"c".to_vec())];
    assert_eq!(values(&fetched.records.unwrap()), expected);
}

#[tokio::test]
async fn large_batches_come_back_byte_for_byte() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("large", 1, &[]).await;
    let value: Vec<u8> = (0..900_000_u32).map(|n| (n.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    assert_eq!(client.produce("large", 0, batch(&[&value])).await.error_code, 0);
    let fetched = client.fetch("large", 0, 0, 0).await;
    assert!(values(&fetched.records.unwrap()) == [(0, value)]);
}

#[tokio::test]
async fn flushing_before_the_answer_gives_the_same_answers() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("durable", 1, &[("flush.messages", "1")]).await;
    for offset in 0..5 {
        let answer = client.produce("durable", 0, batch(&[b"a"])).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, offset));
    }
}

#[tokio::test]
async fn wrong_produce_requests_get_kafkas_errors() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let mut broken = batch(&[b"a"]);
    *broken.last_mut().unwrap() ^= 1;
    let two = [batch(&[b"a"]), batch(&[b"b"])].concat();
    let cases = [
        ("unknown", 0, batch(&[b"a"]), ErrorCode::UnknownTopicOrPartition),
        ("t", 1, batch(&[b"a"]), ErrorCode::UnknownTopicOrPartition),
        ("t", -1, batch(&[b"a"]), ErrorCode::UnknownTopicOrPartition),
        ("t", 0, broken, ErrorCode::CorruptMessage),
        ("t", 0, two, ErrorCode::InvalidRecord),
        ("t", 0, Vec::new(), ErrorCode::InvalidRecord),
        ("t", 0, batch(&[&[0; 1_100_000]]), ErrorCode::MessageTooLarge),
    ];
    for (topic, partition, records, error) in cases {
        let answer = client.produce(topic, partition, records).await;
        assert_eq!((answer.error_code, answer.base_offset), (error.code(), -1), "{topic}-{partition}");
    }
    assert_eq!(client.fetch("t", 0, 0, 0).await.high_watermark, 0, "nothing was appended");
}

#[tokio::test]
async fn a_repeated_batch_is_appended_once_and_a_gap_is_refused() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let of = |base_sequence| BatchOptions { producer_id: 5, producer_epoch: 0, base_sequence, ..Default::default() };
    let first = sequenced(&[b"a", b"b"], of(0));
    assert_eq!(client.produce("t", 0, first.clone()).await.base_offset, 0);
    assert_eq!(client.produce("t", 0, sequenced(&[b"c"], of(2))).await.base_offset, 2);
    let repeated = client.produce("t", 0, first).await;
    assert_eq!((repeated.error_code, repeated.base_offset), (0, 0));
    let gap = client.produce("t", 0, sequenced(&[b"d"], of(5))).await;
    assert_eq!(gap.error_code, ErrorCode::OutOfOrderSequenceNumber.code());
    assert_eq!(client.fetch("t", 0, 0, 0).await.high_watermark, 3);
}

#[tokio::test]
async fn without_acks_there_is_no_answer_and_an_error_ends_the_connection() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    client.produce_silently("t", 0, batch(&[b"a"])).await;
    // The next answer on this connection is that of the next request.
    assert_eq!(client.fetch("t", 0, 0, 0).await.high_watermark, 1);
    client.produce_silently("unknown", 0, batch(&[b"a"])).await;
    let mut rest = Vec::new();
    let ended = taffrail_runtime::time::timeout(SOON, client.stream.read_to_end(&mut rest)).await;
    assert!(ended.is_ok() && rest.is_empty());
}

#[tokio::test]
async fn requests_without_topics_and_with_wrong_acks_are_answered() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("t", 1, &[]).await;
    let empty = client.call(12, &ProduceRequest::default().with_acks(1)).await;
    assert_eq!(empty.responses.len(), 0);
    client.send(12, &ProduceRequest::default().with_acks(5)).await;
    client.send(12, &MetadataRequest::default().with_topics(Some(Vec::new()))).await;
    assert_eq!(client.receive::<ProduceRequest>(12, 1).await.responses.len(), 0);
    assert_eq!(client.receive::<MetadataRequest>(12, 0).await.brokers.len(), 1);
}

#[tokio::test]
async fn clients_may_not_write_to_internal_topics() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    client.create_topic("__consumer_offsets", 1, &[("cleanup.policy", "compact")]).await;
    let answer = client.produce("__consumer_offsets", 0, batch(&[b"a"])).await;
    assert_eq!(answer.error_code, ErrorCode::InvalidTopicException.code());
}
