//! ConsumerGroups against a small Kubernetes API and groups in this process.
#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

#[allow(dead_code, reason = "tests of other kinds use more of it")]
mod fake_api;
mod memory_groups;
#[allow(dead_code, reason = "tests of parking use more of it")]
mod shop;

use serde_json::{Value, json};
use taffrail_client::groups::TopicPartition;

use fake_api::Failure;
use shop::{Shop, earliest, reset, state};

#[tokio::test]
async fn a_watched_group_is_reported_and_not_written_again() {
    let mut shop = Shop::new();
    shop.put("billing", json!({}));
    assert!(!shop.pass().await.is_waiting);
    let status = shop.status("billing");
    assert_eq!(shop.condition("billing", "Ready"), state("True", "Watched"));
    assert_eq!((status.state.as_deref(), status.members, status.coordinator), (Some("Empty"), Some(0), Some(2)));
    assert_eq!((status.total_lag, status.max_lag, status.lag_seconds), (Some(110), Some(60), Some(7)));
    assert_eq!((status.topics[0].topic.as_str(), status.topics[0].lag), ("orders", 110));
    assert_eq!(status.observed_generation, Some(1));
    shop.api.take_writes();
    shop.pass().await;
    shop.groups.group("billing", "orders", &[60, 60]);
    shop.pass().await;
    assert_eq!(shop.api.take_writes(), Vec::<String>::new(), "numbers alone wait for their time");
    shop.groups.groups.get_mut("billing").unwrap().members = 3;
    shop.pass().await;
    let status = shop.status("billing");
    assert_eq!((status.state.as_deref(), status.members, status.total_lag), (Some("Stable"), Some(3), Some(80)));
}

#[tokio::test]
async fn what_cannot_be_is_said() {
    let mut shop = Shop::new();
    shop.put("none", json!({}));
    shop.put("config", json!({"groupConfig": {"sessionTimeoutMs": 5000}}));
    shop.pass().await;
    assert_eq!(shop.condition("none", "Ready"), state("False", "NotFound"));
    assert_eq!(shop.condition("config", "Stalled"), state("True", "InvalidSpec"));
    shop.put("billing", json!({}));
    shop.groups.is_away = true;
    assert!(shop.pass().await.is_waiting);
    assert_eq!(shop.condition("billing", "Ready"), state("Unknown", "Unreachable"));
    assert_eq!(shop.condition("none", "Ready"), state("Unknown", "Unreachable"));
}

#[tokio::test]
async fn a_live_group_is_not_reset_and_an_empty_one_once() {
    // K-07.
    let mut shop = Shop::new();
    shop.put("billing", earliest("one"));
    shop.groups.groups.get_mut("billing").unwrap().members = 1;
    for _ in 0..2 {
        assert!(shop.pass().await.is_waiting);
    }
    assert_eq!(shop.condition("billing", "ResetBlocked"), state("True", "GroupActive"));
    assert_eq!(shop.condition("billing", "Reconciling"), state("True", "GroupActive"));
    assert_eq!(shop.events(), ["ResetBlocked"], "it is told once");
    assert_eq!(shop.groups.committed("billing"), [40, 50]);
    shop.groups.groups.get_mut("billing").unwrap().members = 0;
    assert!(!shop.pass().await.is_waiting);
    assert_eq!(shop.groups.committed("billing"), [10, 10]);
    assert_eq!(shop.condition("billing", "ResetBlocked"), None);
    assert_eq!(shop.condition("billing", "ResetComplete"), state("True", "Done"));
    assert_eq!(shop.events(), ["ResetBlocked", "GroupReset"]);
    let last = shop.status("billing").last_reset.unwrap();
    assert_eq!((last.request_id.as_str(), last.state.as_str()), ("one", "Completed"));
    assert_eq!((last.before["orders-1"], last.after["orders-1"]), (50, 10));
    // It goes on, the operator starts anew, and the resource is made again: nothing is done twice.
    shop.groups.group("billing", "orders", &[70, 70]);
    shop.restart();
    shop.pass().await;
    shop.delete("billing").await;
    shop.put("billing", earliest("one"));
    shop.pass().await;
    assert_eq!(shop.groups.committed("billing"), [70, 70]);
    assert_eq!(shop.condition("billing", "ResetComplete"), state("True", "Done"));
    shop.put("billing", earliest("two"));
    shop.pass().await;
    shop.put("billing", earliest("one"));
    shop.pass().await;
    assert_eq!(shop.groups.done, ["one", "two"], "also not an older one");
}

#[tokio::test]
async fn a_reset_whose_answer_or_report_was_lost_is_not_done_twice() {
    for loses_answer in [true, false] {
        let mut shop = Shop::new();
        shop.put("billing", earliest("one"));
        shop.groups.loses_answers = loses_answer;
        if !loses_answer {
            // Its event, and then its report.
            shop.api.fail_at(1, Failure::Before);
        }
        assert!(shop.pass().await.is_waiting);
        assert_eq!(shop.groups.committed("billing"), [10, 10]);
        shop.groups.group("billing", "orders", &[70, 70]);
        shop.restart();
        assert!(!shop.pass().await.is_waiting);
        assert_eq!(shop.groups.committed("billing"), [70, 70]);
        assert_eq!(shop.status("billing").last_reset.unwrap().request_id, "one");
        assert_eq!(shop.groups.done, ["one"]);
    }
}

#[tokio::test]
async fn a_member_that_comes_in_the_last_moment_is_not_run_over() {
    let mut shop = Shop::new();
    shop.put("billing", earliest("one"));
    shop.groups.members_come = true;
    assert!(shop.pass().await.is_waiting);
    assert_eq!(shop.condition("billing", "ResetBlocked"), state("True", "GroupActive"));
    assert_eq!(shop.groups.committed("billing"), [40, 50]);
}

#[tokio::test]
async fn offsets_go_where_they_are_told_and_stay_within_the_log() {
    let time = "2026-01-01T00:00:00Z";
    for (to, expected) in [
        (json!({"to": "Earliest"}), [10, 10]),
        (json!({"to": "Latest"}), [100, 100]),
        (json!({"to": "Offset", "offset": 33}), [33, 33]),
        (json!({"to": "Offset", "offset": 5000}), [100, 100]),
        (json!({"to": "ShiftBy", "shiftBy": -35}), [10, 15]),
        (json!({"to": "Timestamp", "timestamp": time}), [44, 100]),
        (json!({"to": "Latest", "partitions": {"orders": [1]}}), [40, 100]),
        (json!({"to": "Latest", "dryRun": true}), [40, 50]),
    ] {
        let mut shop = Shop::new();
        shop.groups.times.insert((TopicPartition::new("orders", 0), 1_767_225_600_000), 44);
        shop.put("billing", reset("one", to.clone()));
        shop.pass().await;
        assert_eq!(shop.groups.committed("billing"), expected, "{to}");
        assert_eq!(shop.condition("billing", "ResetComplete"), state("True", "Done"), "{to}");
    }
}

#[tokio::test]
async fn a_dry_run_says_where_offsets_would_go_also_of_a_live_group() {
    let mut shop = Shop::new();
    shop.groups.groups.get_mut("billing").unwrap().members = 1;
    shop.put("billing", json!({"reset": {"requestId": "one", "to": "Latest", "dryRun": true}}));
    shop.pass().await;
    let last = shop.status("billing").last_reset.unwrap();
    assert_eq!((last.state.as_str(), last.before["orders-0"], last.after["orders-0"]), ("DryRun", 40, 100));
    assert_eq!(shop.groups.done, Vec::<String>::new());
}

#[tokio::test]
async fn a_reset_that_cannot_be_whole_is_not_done_at_all() {
    for (spec, reason) in [
        (json!({"topics": ["orders", "none"]}), "UnknownTopic"),
        (json!({"reset": {"partitions": {"orders": [0, 7]}}}), "UnknownTopic"),
        (json!({"management": "Observe"}), "ObservedOnly"),
        (json!({"groupId": "new"}), "NoOffsets"),
        (json!({"topics": ["wide"], "reset": {"to": "ShiftBy", "shiftBy": 1}}), "NoOffsets"),
    ] {
        let mut shop = Shop::new();
        shop.groups.topic("wide", 1);
        let mut whole = earliest("one");
        for (key, value) in spec.as_object().unwrap() {
            match value.as_object() {
                Some(fields) => fields.iter().for_each(|(field, value)| whole[key][field] = value.clone()),
                None => whole[key] = value.clone(),
            }
        }
        shop.put("billing", whole);
        assert!(shop.pass().await.is_waiting);
        assert_eq!(shop.condition("billing", "ResetBlocked"), state("True", reason), "{spec}");
        assert_eq!(shop.condition("billing", "Stalled"), state("True", reason), "{spec}");
        assert_eq!(shop.groups.committed("billing"), [40, 50]);
        assert_eq!(shop.groups.done, Vec::<String>::new());
    }
}

#[tokio::test]
async fn a_group_that_is_not_there_yet_can_be_given_its_offsets() {
    let mut shop = Shop::new();
    let mut spec = reset("one", json!({"to": "Latest"}));
    spec["topics"] = json!(["orders"]);
    shop.put("new", spec);
    shop.pass().await;
    assert_eq!(shop.groups.committed("new"), [100, 100]);
    assert_eq!(shop.condition("new", "Ready"), state("True", "Watched"));
}

#[tokio::test]
async fn of_two_resources_for_one_group_the_older_owns_it() {
    let mut shop = Shop::new();
    for name in ["a", "b"] {
        let mut spec = earliest(name);
        spec["groupId"] = "billing".into();
        shop.put(name, spec);
    }
    shop.pass().await;
    assert_eq!(shop.groups.done, ["a"]);
    assert_eq!(shop.condition("b", "Conflict"), state("True", "OwnedByAnother"));
    shop.put("watcher", json!({"groupId": "billing"}));
    shop.pass().await;
    assert_eq!(shop.condition("watcher", "Ready"), state("True", "Watched"), "who watches is in nobody's way");
}

#[tokio::test]
async fn a_deleted_resource_takes_the_group_along_only_if_it_says_so_and_nobody_is_in_it() {
    for (management, policy, members, is_kept, event) in [
        ("Managed", "Retain", 0, true, None),
        ("Managed", "Delete", 0, false, Some("GroupDeleted")),
        ("Managed", "Delete", 1, true, Some("GroupKept")),
        ("Observe", "Delete", 0, true, None),
    ] {
        let mut shop = Shop::new();
        shop.groups.groups.get_mut("billing").unwrap().members = members;
        shop.put("billing", json!({"management": management, "deletionPolicy": policy}));
        shop.pass().await;
        shop.groups.is_away = true;
        let undone = shop.delete("billing").await.undone;
        shop.groups.is_away = false;
        let outcome = shop.pass_after(&undone).await;
        assert!(outcome.undone.is_empty());
        assert_eq!(shop.groups.groups.contains_key("billing"), is_kept, "{management} {policy} {members}");
        assert_eq!(shop.events(), event.into_iter().collect::<Vec<_>>());
    }
}

fn begins(from: Value) -> Value {
    json!({"management": "Managed", "topics": ["orders"], "initialOffsets": from})
}

#[tokio::test]
async fn a_group_that_nobody_has_used_begins_where_it_is_told() {
    let time = "2026-01-01T00:00:00Z";
    for (from, expected) in [
        (json!({"from": "Earliest"}), [10, 10]),
        (json!({"from": "Latest"}), [100, 100]),
        (json!({"from": "Timestamp", "timestamp": time}), [44, 100]),
    ] {
        let mut shop = Shop::new();
        shop.groups.times.insert((TopicPartition::new("orders", 0), 1_767_225_600_000), 44);
        shop.put("new", begins(from.clone()));
        assert!(!shop.pass().await.is_waiting);
        assert_eq!(shop.groups.committed("new"), expected, "{from}");
        assert_eq!(shop.condition("new", "Ready"), state("True", "Watched"), "{from}");
        assert_eq!(shop.events(), ["InitialOffsetsSet"]);
        // It is used from now on, and what it does is its own.
        shop.groups.group("new", "orders", &[70, 70]);
        shop.restart();
        shop.pass().await;
        shop.groups.groups.get_mut("new").unwrap().offsets.committed.clear();
        shop.pass().await;
        assert_eq!(shop.groups.done, ["initialOffsets"], "once, also if somebody deletes its offsets");
    }
}

#[tokio::test]
async fn a_group_that_is_used_is_not_begun_anew() {
    for (id, members, comes) in [("billing", 0, false), ("new", 1, false), ("new", 0, true)] {
        let mut shop = Shop::new();
        if members > 0 {
            shop.groups.groups.entry(id.to_owned()).or_default().members = members;
        }
        shop.groups.members_come = comes;
        shop.put(id, begins(json!({"from": "Latest"})));
        assert!(!shop.pass().await.is_waiting, "{id} {members} {comes}");
        assert_eq!(shop.groups.done, Vec::<String>::new(), "{id} {members} {comes}");
        assert_eq!(shop.events(), Vec::<String>::new());
    }
}

#[tokio::test]
async fn initial_offsets_wait_for_their_topic_and_a_reset_goes_before_them() {
    let mut shop = Shop::new();
    let mut spec = begins(json!({"from": "Latest"}));
    spec["topics"] = json!(["later"]);
    shop.put("new", spec.clone());
    assert!(shop.pass().await.is_waiting);
    assert_eq!(shop.condition("new", "Reconciling"), state("True", "UnknownTopic"));
    assert_eq!(shop.condition("new", "ResetBlocked"), None);
    shop.groups.topic("later", 1);
    assert!(!shop.pass().await.is_waiting);
    assert_eq!(shop.groups.committed("new"), [100]);
    spec["reset"] = json!({"requestId": "one", "to": "Earliest"});
    shop.put("other", spec);
    shop.pass().await;
    assert_eq!(shop.groups.committed("other"), [10]);
    assert_eq!(shop.groups.done, ["initialOffsets", "one"]);
}

#[tokio::test]
async fn a_reset_that_shifts_what_is_not_there_yet_waits_for_the_beginning() {
    let mut shop = Shop::new();
    let mut spec = begins(json!({"from": "Latest"}));
    spec["reset"] = json!({"requestId": "one", "to": "ShiftBy", "shiftBy": -5});
    shop.put("new", spec);
    shop.pass().await;
    assert_eq!(shop.groups.committed("new"), [100, 100]);
    assert!(!shop.pass().await.is_waiting);
    assert_eq!(shop.groups.committed("new"), [95, 95]);
    assert_eq!(shop.groups.done, ["initialOffsets", "one"]);
    assert_eq!(shop.condition("new", "ResetBlocked"), None);
}

#[tokio::test]
async fn dead_letters_are_counted_and_the_oldest_tells_its_age() {
    let mut shop = Shop::new();
    shop.groups.topic("dead", 2);
    shop.groups.logs.insert(TopicPartition::new("empty", 0), (5, 5));
    shop.put("billing", json!({"deadLetter": {"topics": ["dead", "empty", "none"]}}));
    shop.pass().await;
    let dead = shop.status("billing").dead_letters;
    let told = |index: usize| {
        (dead[index].topic.as_str(), dead[index].exists, dead[index].records, dead[index].oldest_seconds)
    };
    assert_eq!(told(0), ("dead", true, Some(180), Some(7)));
    assert_eq!(told(1), ("empty", true, Some(0), None));
    assert_eq!(told(2), ("none", false, None, None));
    shop.api.take_writes();
    shop.groups.logs.insert(TopicPartition::new("empty", 0), (5, 9));
    shop.pass().await;
    assert_eq!(shop.api.take_writes(), Vec::<String>::new(), "numbers alone wait for their time");
    assert_eq!(shop.condition("billing", "Ready"), state("True", "Watched"));
}
