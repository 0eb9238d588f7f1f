//! Partitions whose logs cannot be opened at first.

use std::fs;

use taffrail_core::errors::ErrorCode;

use super::cluster::{Cluster, batch, values};

#[tokio::test]
async fn a_partition_that_cannot_be_opened_is_refused_with_a_retriable_error_and_comes_up_by_itself() {
    let cluster = Cluster::start().await;
    let mut client = cluster.client().await;
    // A file stands where the folder shall be: for making it, that is as good as a disk that refuses.
    let in_the_way = cluster.dir().join("late-1");
    fs::write(&in_the_way, "").unwrap();
    client.create_topic("late", 2, &[]).await;
    let error = |partition: i32| if partition == 1 { ErrorCode::KafkaStorageError.code() } else { 0 };
    for partition in 0..2 {
        let answer = client.produce("late", partition, batch(&[b"a"])).await;
        assert_eq!(answer.error_code, error(partition), "{answer:?}");
        assert_eq!(client.fetch("late", partition, 0, 0).await.error_code, error(partition));
    }
    assert!(cluster.metrics().contains("offlinereplicacount 1"), "{}", cluster.metrics());
    cluster.retry().await;
    assert_eq!(client.produce("late", 1, batch(&[b"a"])).await.error_code, error(1), "still in the way");

    fs::remove_file(&in_the_way).unwrap();
    cluster.retry().await;
    assert_eq!(client.produce("late", 1, batch(&[b"a"])).await.error_code, 0);
    let fetched = client.fetch("late", 1, 0, 0).await;
    assert_eq!(values(&fetched.records.unwrap_or_default()).len(), 1);
    assert!(cluster.metrics().contains("offlinereplicacount 0"), "{}", cluster.metrics());
}
