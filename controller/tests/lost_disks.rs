//! Controllers whose disks are lost, damaged or new.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use taffrail_controller::{ControllerError, DirectoryError};
use taffrail_runtime::time;

use common::{CLUSTER, Group, register, wipe};

/// How long a test looks on while nothing may happen.
const A_WHILE: Duration = Duration::from_millis(1_500);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_with_a_new_disk_is_taken_in_and_gets_the_vote_of_the_one_before() {
    for is_active in [false, true] {
        let mut group = Group::founded(3).await;
        register(&group.calls(0), 9).await;
        let active = group.active().await;
        let lost = if is_active { active } else { (active + 1) % 3 };
        let offset = group.create(0, "kept").await;
        let before = group.calls(lost).status().await.unwrap();
        group.stop(lost).await;
        wipe(&group.places[lost].dir);
        // The grant is still among its arguments, and must not matter.
        group.start(lost, Some(CLUSTER)).await.unwrap();
        group.until("it has the metadata", async |group| group.running(lost).image().offset() >= offset).await;
        group
            .until("there are three voters again, and the one before is gone", async |group| {
                let quorum = group.calls(group.active().await).describe_quorum().await;
                let voters = quorum.map(|quorum| quorum.voters).unwrap_or_default();
                let voter = voters.iter().find(|voter| voter.voter.id == group.places[lost].id);
                voters.len() == 3 && voter.is_some_and(|voter| voter.voter.directory_id != before.directory_id)
            })
            .await;
        // It counts: with one of the others away, the two are a majority.
        let away = (lost + 1) % 3;
        group.stop(away).await;
        group.create(lost, "after").await;
        assert!(group.running(lost).image().topic("kept").is_some());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_two_of_three_disks_new_nothing_is_decided_and_nothing_is_lost() {
    let mut group = Group::founded(3).await;
    register(&group.calls(0), 9).await;
    group.create(0, "kept").await;
    let kept = group.active().await;
    let (one, two) = ((kept + 1) % 3, (kept + 2) % 3);
    for index in 0..3 {
        group.stop(index).await;
    }
    for index in [one, two] {
        wipe(&group.places[index].dir);
    }
    for index in 0..3 {
        group.start(index, Some(CLUSTER)).await.unwrap();
    }
    let decided = time::timeout(A_WHILE, group.active()).await;
    assert!(decided.is_err(), "one of three decides nothing: {decided:?}");
    for index in [one, two] {
        assert!(group.running(index).image().cluster_id().is_none(), "new disks found nothing");
    }
    group.stop(kept).await;
    // The one that is left has everything, and is found again.
    group.start(kept, None).await.unwrap();
    group.until("it is there", async |group| group.calls(kept).status().await.is_ok()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_new_disks_without_a_grant_found_nothing() {
    let mut group = Group::founded(3).await;
    for index in 0..3 {
        group.stop(index).await;
        wipe(&group.places[index].dir);
    }
    for index in 0..3 {
        group.start(index, None).await.unwrap();
    }
    let founded = time::timeout(A_WHILE, group.running(0).founded()).await;
    assert!(founded.is_err());
    assert_eq!(group.running(0).cluster_id(), None);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn three_new_disks_with_a_grant_found_nothing_that_a_brokers_disk_knows() {
    for by_status in [false, true] {
        let mut group = Group::founded(3).await;
        register(&group.calls(0), 9).await;
        group.create(0, "kept").await;
        for index in 0..3 {
            group.stop(index).await;
            wipe(&group.places[index].dir);
        }
        for index in [0, 1] {
            group.start(index, Some(CLUSTER)).await.unwrap();
        }
        // A broker that starts asks how they are; one that runs asks for the metadata.
        let calls = group.calls(1);
        if by_status {
            calls.status_for(Some(CLUSTER)).await.unwrap();
        } else {
            drop(calls.follow(100, Some(CLUSTER)).await.unwrap());
        }
        group.start(2, Some(CLUSTER)).await.unwrap();
        let founded = time::timeout(A_WHILE, group.running(0).founded()).await;
        assert!(founded.is_err(), "the partitions on the brokers' disks would be taken for nobody's");
        for index in 0..3 {
            group.stop(index).await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_damaged_store_is_set_aside_and_a_lone_controller_refuses_to_start() {
    let mut group = Group::founded(3).await;
    register(&group.calls(0), 9).await;
    group.create(0, "kept").await;
    let damaged = group.active().await;
    group.stop(damaged).await;
    let dir = group.places[damaged].dir.clone();
    std::fs::remove_dir_all(dir.join("raft")).unwrap();
    let refused = group.start_with(damaged, None, Vec::new()).await.unwrap_err();
    assert!(matches!(refused, ControllerError::Directory(DirectoryError::Wiped { .. })), "{refused}");
    group.start(damaged, None).await.unwrap();
    group.until("it is back", async |group| group.running(damaged).image().topic("kept").is_some()).await;
    let names = std::fs::read_dir(&dir).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap());
    assert!(names.collect::<Vec<_>>().iter().any(|name| name.starts_with("quarantine-")), "nothing is deleted");
}
