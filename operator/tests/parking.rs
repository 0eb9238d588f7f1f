//! Workloads that are parked for a reset, against a small Kubernetes API and groups in this process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

#[allow(dead_code, reason = "tests of other kinds use more of it")]
mod fake_api;
#[allow(dead_code, reason = "tests of groups use more of it")]
mod memory_groups;
#[allow(dead_code, reason = "tests of groups use more of it")]
mod shop;

use serde_json::{Value, json};

use fake_api::Failure;
use shop::{DEPLOYMENTS, MAPS, Shop, reset, state};

/// A reset that parks the workload `worker`.
fn parking(id: &str) -> Value {
    let workload = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "worker"});
    reset(id, json!({"to": "Earliest", "ifActive": "Park", "workloadRef": workload}))
}

/// A shop whose group `billing` has the two pods of `worker` as members.
fn shop() -> Shop {
    let mut shop = Shop::new();
    shop.api.put(DEPLOYMENTS, json!({"metadata": {"name": "worker"}, "spec": {"replicas": 2}}));
    set_members(&mut shop, 2);
    shop
}

fn set_members(shop: &mut Shop, members: usize) {
    shop.groups.groups.get_mut("billing").unwrap().members = members;
}

fn replicas(shop: &Shop) -> i64 {
    shop.api.list(DEPLOYMENTS)[0]["spec"]["replicas"].as_i64().unwrap()
}

fn is_parked(shop: &Shop) -> bool {
    !shop.api.list(MAPS).is_empty()
}

/// Members are where the workload has pods.
fn follow(shop: &mut Shop) {
    let members = usize::try_from(replicas(shop)).unwrap();
    set_members(shop, members);
}

#[tokio::test]
async fn the_workload_is_parked_until_the_reset_is_done() {
    let mut shop = shop();
    shop.put("billing", parking("one"));
    for _ in 0..2 {
        assert!(shop.pass().await.is_waiting);
        assert_eq!((replicas(&shop), is_parked(&shop)), (0, true));
        assert_eq!(shop.condition("billing", "ResetBlocked"), state("True", "Parking"));
        assert_eq!(shop.condition("billing", "Reconciling"), state("True", "Parking"));
        assert_eq!(shop.groups.committed("billing"), [40, 50]);
    }
    follow(&mut shop);
    assert!(!shop.pass().await.is_waiting);
    assert_eq!((replicas(&shop), is_parked(&shop)), (2, false));
    assert_eq!(shop.groups.committed("billing"), [10, 10]);
    assert_eq!(shop.condition("billing", "Ready"), state("True", "Watched"));
    assert_eq!(shop.events(), ["WorkloadParked", "WorkloadRestored", "GroupReset"]);
    // The same request never parks again.
    follow(&mut shop);
    shop.pass().await;
    assert_eq!(replicas(&shop), 2);
}

#[tokio::test]
async fn whatever_call_fails_the_workload_is_back_in_the_end_and_the_reset_done_once() {
    for failure in [Failure::Before, Failure::After] {
        for call in 0..16 {
            let mut shop = shop();
            shop.put("billing", parking("one"));
            shop.api.fail_at(call, failure);
            for _ in 0..6 {
                shop.pass().await;
                follow(&mut shop);
                shop.restart();
            }
            assert_eq!((replicas(&shop), is_parked(&shop)), (2, false), "{failure:?} {call}");
            assert_eq!(shop.groups.done, ["one"], "{failure:?} {call}");
        }
    }
}

#[tokio::test]
async fn a_workload_that_is_parked_comes_back_when_nobody_waits_for_it_any_more() {
    let without = json!({"management": "Managed"});
    let invalid = json!({"groupConfig": {"sessionTimeoutMs": 5000}});
    for (what, spec) in
        [("no reset", Some(without)), ("a spec that makes no sense", Some(invalid)), ("no resource", None)]
    {
        let mut shop = shop();
        shop.put("billing", parking("one"));
        shop.pass().await;
        assert_eq!(replicas(&shop), 0);
        shop.restart();
        match spec {
            Some(spec) => shop.put("billing", spec),
            None => shop.api.remove(shop::GROUPS, "billing"),
        }
        shop.pass().await;
        assert_eq!((replicas(&shop), is_parked(&shop)), (2, false), "{what}");
        assert_eq!(shop.groups.done, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_cluster_that_is_paused_keeps_nothing_parked() {
    let mut shop = shop();
    shop.put("billing", parking("one"));
    shop.pass().await;
    assert_eq!((replicas(&shop), is_parked(&shop)), (0, true));
    for (is_paused, expected) in [(true, (2, false)), (true, (2, false)), (false, (0, true))] {
        shop.wanted.paused = is_paused;
        shop.pass().await;
        assert_eq!((replicas(&shop), is_parked(&shop)), expected, "{is_paused}");
    }
    assert_eq!(shop.groups.done, Vec::<String>::new());
}

#[tokio::test]
async fn members_of_something_else_do_not_keep_a_workload_parked_without_end() {
    let mut shop = shop();
    shop.put("billing", parking("one"));
    shop.pass().await;
    let mut map = shop.api.list(MAPS).remove(0);
    map["data"]["since"] = "2026-01-01T00:00:00Z".into();
    shop.api.put(MAPS, map);
    shop.restart();
    for _ in 0..3 {
        assert!(shop.pass().await.is_waiting);
        assert_eq!(replicas(&shop), 2);
        assert_eq!(shop.condition("billing", "ResetBlocked"), state("True", "GroupActive"));
    }
    set_members(&mut shop, 0);
    shop.pass().await;
    assert_eq!((replicas(&shop), is_parked(&shop)), (2, false));
    assert_eq!(shop.groups.done, ["one"]);
}

#[tokio::test]
async fn what_cannot_be_parked_is_said_and_what_others_scaled_is_left_alone() {
    let mut shop = shop();
    shop.api.remove(DEPLOYMENTS, "worker");
    shop.put("billing", parking("one"));
    assert!(shop.pass().await.is_waiting);
    assert_eq!(shop.condition("billing", "ResetBlocked"), state("True", "NotParked"));
    assert_eq!(shop.events(), ["ResetBlocked"]);
    let mut cron = parking("one");
    cron["reset"]["workloadRef"]["kind"] = "CronJob".into();
    shop.put("billing", cron);
    shop.pass().await;
    assert_eq!(shop.condition("billing", "Stalled"), state("True", "InvalidSpec"));

    shop.api.put(DEPLOYMENTS, json!({"metadata": {"name": "worker"}, "spec": {"replicas": 2}}));
    shop.put("billing", parking("one"));
    shop.pass().await;
    shop.api.put(DEPLOYMENTS, json!({"metadata": {"name": "worker"}, "spec": {"replicas": 5}}));
    set_members(&mut shop, 0);
    shop.pass().await;
    assert_eq!((replicas(&shop), is_parked(&shop)), (5, false));
}
