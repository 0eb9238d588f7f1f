//! A partition that this broker follows, and what becomes of it when this broker leads: changes by the fetcher, consumers.

use std::sync::Arc;

use taffrail_core::control::Command;
use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::BrokerId;
use taffrail_core::record::{Batch, patch_prefix};
use taffrail_protocol::message::FetchRequest;

use super::cluster::{Client, Cluster, FETCH_VERSION, batch, fetch_request, values};
use super::followers::Follower;
use super::replication::latest;
use crate::replica::{FollowError, Following, Partition};

/// A cluster with a topic "t" that broker 2 leads; 1 is real and follows, and so does 3.
async fn following() -> (Cluster, Arc<Partition>, Follower, Follower) {
    let cluster = Cluster::start().await;
    let (second, mut third) = (Follower::join(&cluster, 2).await, Follower::join(&cluster, 3).await);
    cluster.client().await.create_topic_on("t", &[&[2, 1, 3]], &[]).await;
    third.follow(&cluster, "t");
    let partition = cluster.partition("t", 0);
    (cluster, partition, second, third)
}

/// A batch of one record as a leader has it.
fn fetched(offset: i64, leader_epoch: i32) -> Batch {
    let batch = Batch::parse(&batch(&[b"a"]).into()).unwrap();
    let prefix = patch_prefix(offset, leader_epoch, batch.header());
    let bytes = [&prefix[..], &batch.bytes()[prefix.len()..]].concat();
    Batch::parse(&bytes.into()).unwrap()
}

fn is_superseded<T>(result: Result<T, FollowError>) -> bool {
    matches!(result, Err(FollowError::Superseded(_)))
}

#[tokio::test]
async fn a_follower_takes_what_its_leader_gives_and_commits_no_more_than_it_has() {
    let (_cluster, partition, ..) = following().await;
    assert_eq!(partition.following(), Some(Following { leader: BrokerId(2), leader_epoch: 0 }));
    let followed = partition.append_fetched(0, &[fetched(0, 0), fetched(1, 0)], 9, 0, 0).unwrap();
    assert_eq!((followed.end_offset, followed.raise_log_start_to), (2, None));
    assert_eq!(partition.offsets().high_watermark, 2);
    let followed = partition.append_fetched(0, &[], 9, 1, 0).unwrap();
    assert_eq!(followed.raise_log_start_to, Some(1));
    partition.raise_log_start(0, 1).unwrap();
    assert_eq!(partition.offsets().log_start, 1);
    partition.append_fetched(0, &[fetched(2, 0)], 2, 1, 0).unwrap();
    assert_eq!(partition.truncate(0, 1, 0).unwrap(), 1);
    assert_eq!(partition.offsets().high_watermark, 1, "what is gone is not committed here");
    partition.start_over_at(0, 40, 0).unwrap();
    let offsets = partition.offsets();
    assert_eq!((offsets.log_start, offsets.high_watermark, offsets.log_end), (40, 40, 40));
}

#[tokio::test]
async fn nothing_of_an_old_leader_comes_after_this_broker_leads() {
    let (cluster, partition, second, _third) = following().await;
    partition.append_fetched(0, &[fetched(0, 0)], 0, 0, 0).unwrap();
    assert!(is_superseded(partition.append_fetched(1, &[fetched(1, 1)], 0, 0, 0)), "not known here yet");
    cluster.control(Command::FenceBroker(second.identity)).await;
    assert_eq!(partition.following(), None);
    for epoch in [0, 1] {
        assert!(is_superseded(partition.append_fetched(epoch, &[fetched(1, 0)], 5, 0, 0)));
        assert!(is_superseded(partition.truncate(epoch, 0, 0)));
        assert!(is_superseded(partition.start_over_at(epoch, 7, 0)));
        assert!(is_superseded(partition.raise_log_start(epoch, 1)));
    }
    assert_eq!(cluster.log_end("t", 0), 1);
}

#[tokio::test]
async fn a_new_leader_tells_consumers_no_end_before_it_knows_how_far_its_log_is_committed() {
    let (cluster, partition, second, mut third) = following().await;
    let mut client = cluster.client().await;
    partition.append_fetched(0, &[fetched(0, 0)], 0, 0, 0).unwrap();
    cluster.control(Command::FenceBroker(second.identity)).await;
    assert_eq!(latest(&mut client, -1).await.0, ErrorCode::OffsetNotAvailable.code());
    assert_eq!(latest(&mut client, 3).await, (0, 1), "followers need it to get there");
    third.has(1).await;
    assert_eq!(latest(&mut client, -1).await, (0, 1));
}

async fn fetch(client: &mut Client, rack: &str, offset: i64) -> (i16, usize) {
    let request = fetch_request(&[("t", 0, offset)], 0, 1).with_rack_id(rack.to_owned().into());
    let answer = client.call::<FetchRequest>(FETCH_VERSION, &request).await.responses[0].partitions[0].clone();
    (answer.error_code, answer.records.map_or(0, |records| values(&records).len()))
}

#[tokio::test]
async fn consumers_that_say_where_they_are_read_from_a_follower_up_to_its_high_watermark() {
    let (cluster, partition, ..) = following().await;
    let mut client = cluster.client().await;
    partition.append_fetched(0, &[fetched(0, 0), fetched(1, 0)], 1, 0, 0).unwrap();
    assert_eq!(fetch(&mut client, "", 0).await, (ErrorCode::NotLeaderOrFollower.code(), 0));
    assert_eq!(fetch(&mut client, "here", 0).await, (0, 1));
    let waits = fetch_request(&[("t", 0, 1)], 60_000, 1).with_rack_id("here".to_owned().into());
    client.send_fetch(&waits).await;
    assert!(!client.is_answered().await);
    partition.append_fetched(0, &[], 2, 0, 0).unwrap();
    let answer = client.receive_fetch().await.responses[0].partitions[0].clone();
    assert_eq!(values(&answer.records.unwrap()), [(1, b"a".to_vec())]);
}
