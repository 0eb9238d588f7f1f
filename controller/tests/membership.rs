//! Voters come and go while the cluster serves.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod common;

use std::time::Duration;

use taffrail_core::errors::ErrorCode;
use taffrail_core::ids::Uuid;
use taffrail_protocol::rpc::{VoterChange, VoterId};

use common::{Group, refusal, register};

async fn voter_id(group: &Group, index: usize) -> VoterId {
    let status = group.calls(index).status().await.unwrap();
    VoterId { id: status.controller_id, directory_id: status.directory_id }
}

fn add(voter: VoterId, address: &str) -> VoterChange {
    VoterChange::Add { voter, address: address.to_owned(), timeout: Duration::from_secs(20) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_voter_is_added_and_removed_while_the_cluster_serves() {
    let mut group = Group::founded(3).await;
    register(&group.calls(0), 9).await;
    group.create(0, "first").await;
    let fourth = group.add_place(4).await;
    group.start(fourth, None).await.unwrap();
    let asked = group.calls((group.active().await + 1) % 3);
    group
        .until("it follows without a vote", async |group| {
            let quorum = asked.describe_quorum().await.unwrap();
            let observes = quorum.observers.iter().any(|observer| observer.voter.id == 4);
            observes && group.running(fourth).image().topic("first").is_some()
        })
        .await;
    assert_eq!(group.voters().await, [1, 2, 3]);

    let (newcomer, address) = (voter_id(&group, fourth).await, group.places[fourth].address.clone());
    let stranger = VoterId { directory_id: Uuid([99; 16]), ..newcomer };
    assert_eq!(refusal(asked.change_voters(&add(stranger, &address)).await), ErrorCode::InvalidVoterKey);
    asked.change_voters(&add(newcomer, &address)).await.unwrap();
    assert_eq!(group.voters().await, [1, 2, 3, 4]);
    assert_eq!(refusal(asked.change_voters(&add(newcomer, &address)).await), ErrorCode::DuplicateVoter);
    assert_eq!(refusal(asked.change_voters(&VoterChange::Remove(stranger)).await), ErrorCode::VoterNotFound);

    // The active one goes too: it hands over first, and the one after it takes its vote.
    let removed = group.active().await;
    let voter = voter_id(&group, removed).await;
    let calls = group.calls(removed);
    group
        .until("the active controller is removed", async |_| {
            let outcome = calls.change_voters(&VoterChange::Remove(voter)).await;
            outcome.is_ok() || outcome.is_err_and(|error| error.into_refusal().code == ErrorCode::VoterNotFound)
        })
        .await;
    let rest: Vec<i32> = (1..=4).filter(|id| *id != voter.id).collect();
    assert_eq!(group.voters().await, rest);
    group.stop(removed).await;
    group.create(fourth, "last").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_founded_alone_takes_others_in_without_a_restart() {
    let mut group = Group::founded(1).await;
    let calls = group.calls(0);
    for id in [2, 3] {
        let place = group.add_place(id).await;
        group.start(place, None).await.unwrap();
        group
            .until("it follows without a vote", async |_| {
                let quorum = calls.describe_quorum().await.unwrap();
                quorum.observers.iter().any(|observer| observer.voter.id == id)
            })
            .await;
        let (newcomer, address) = (voter_id(&group, place).await, group.places[place].address.clone());
        calls.change_voters(&add(newcomer, &address)).await.unwrap();
        assert_eq!(group.voters().await, (1..=id).collect::<Vec<_>>());
    }
    group.create(2, "first").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_voter_is_removed_if_the_rest_were_no_majority() {
    let mut group = Group::founded(3).await;
    let active = group.active().await;
    let (away, other) = ((active + 1) % 3, (active + 2) % 3);
    let voter = voter_id(&group, other).await;
    group.stop(away).await;
    let calls = group.calls(active);
    group
        .until("the absence is noticed", async |_| {
            refusal(calls.change_voters(&VoterChange::Remove(voter)).await) == ErrorCode::RequestTimedOut
        })
        .await;
    assert_eq!(group.voters().await, [1, 2, 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_controller_that_stops_hands_over_first() {
    let mut group = Group::founded(3).await;
    register(&group.calls(0), 9).await;
    for round in 0..3 {
        let active = group.active().await;
        let term = group.calls(active).status().await.unwrap().term;
        group.stop(active).await;
        let next = group.active().await;
        assert_ne!(next, active);
        assert_eq!(group.calls(next).status().await.unwrap().term, term + 1, "one election, without a contest");
        group.create(next, &format!("t{round}")).await;
        group.start(active, None).await.unwrap();
    }
}
