//! Three controllers over loopback: founding, agreement, failover.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use taffrail_controller::ControllerError;
use taffrail_core::image::MetadataImage;
use taffrail_protocol::rpc::Update;
use taffrail_runtime::time;

use common::{CLUSTER, Group, PATIENCE, heartbeat, register};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn controllers_that_were_all_granted_it_found_one_cluster_in_any_order() {
    for order in [[0, 1, 2], [2, 1, 0], [1, 2, 0]] {
        let mut group = Group::new(3).await;
        for index in order {
            group.start(index, Some(CLUSTER)).await.unwrap();
            time::sleep(Duration::from_millis(30)).await;
        }
        group.all_founded().await;
        let active = group.active().await;
        let quorum = group.calls(active).describe_quorum().await.unwrap();
        let numbers: Vec<i32> = quorum.voters.iter().map(|voter| voter.voter.id).collect();
        assert_eq!(numbers, [1, 2, 3]);
        assert!(quorum.observers.is_empty());
        register(&group.calls((active + 1) % 3), 9).await;
        let offset = group.create((active + 2) % 3, "t").await;
        group
            .until("all have it", async |group| (0..3).all(|index| group.running(index).image().offset() >= offset))
            .await;
        for index in 0..3 {
            assert_eq!(group.running(index).image(), group.running(active).image());
        }
        for index in 0..3 {
            group.stop(index).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_founded_while_one_is_missing() {
    let mut group = Group::new(3).await;
    group.start(0, Some(CLUSTER)).await.unwrap();
    group.start(1, Some(CLUSTER)).await.unwrap();
    let founded = time::timeout(Duration::from_millis(600), group.running(0).founded()).await;
    assert!(founded.is_err(), "two of three do not found a cluster");
    group.start(2, Some(CLUSTER)).await.unwrap();
    group.all_founded().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_change_succeeds_soon_after_the_active_controller_is_gone() {
    let mut group = Group::founded(3).await;
    let first = group.active().await;
    let broker = register(&group.calls(first), 9).await;
    let other = (first + 1) % 3;
    // A follower of another controller goes on without noticing.
    let calls = group.calls(other);
    let mut stream = calls.follow(0, Some(CLUSTER)).await.unwrap();
    let mut image = MetadataImage::default();
    group.create(first, "before").await;
    group.stop(first).await;
    let offset = group.create(other, "after").await;
    let heard = calls.heartbeat(&heartbeat(broker.epoch, broker.epoch)).await.unwrap();
    assert!(!heard.fenced, "sessions survive a change of controller");
    while image.offset() < offset {
        match time::timeout(PATIENCE, stream.next()).await.unwrap().unwrap().unwrap() {
            Update::Snapshot(snapshot) => image = snapshot,
            Update::Events(batch) => batch.events.iter().for_each(|event| image.apply(event).unwrap()),
        }
    }
    assert!(image.topic("before").is_some() && image.topic("after").is_some());
    group.start(first, Some(CLUSTER)).await.unwrap();
    group.until("it is back", async |group| group.running(first).image().offset() >= offset).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn all_of_them_restarted_find_everything() {
    let mut group = Group::founded(3).await;
    register(&group.calls(0), 9).await;
    group.create(1, "kept").await;
    for _ in 0..2 {
        for index in 0..3 {
            group.stop(index).await;
        }
        for index in [2, 0, 1] {
            group.start(index, None).await.unwrap();
        }
        let active = group.active().await;
        assert!(group.running(active).image().topic("kept").is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_of_another_cluster_is_refused_by_name() {
    let mut group = Group::founded(3).await;
    group.stop(2).await;
    common::wipe(&group.places[2].dir);
    let other = taffrail_core::ids::Uuid([5; 16]);
    group.start(2, Some(other)).await.unwrap();
    let failed = time::timeout(PATIENCE, group.running(2).failed()).await.unwrap();
    assert!(failed.to_string().contains(&format!("the other controllers are cluster {CLUSTER}")), "{failed}");
    group.stop(2).await;
    let refused = group.start(2, Some(CLUSTER)).await.unwrap_err();
    assert!(matches!(refused, ControllerError::Directory(_)), "{refused}");
}
