//! `taffrail cluster grant` as a process: what it prints, and with which exit code it ends.

use std::process::Output;

use serde_json::Value;
use taffrail_core::control::ReplicaAssignment;

use super::*;

/// Runs `taffrail cluster grant` with these arguments.
fn grant(processes: &Processes, args: &[&str]) -> Output {
    let mut command = Command::new(binary());
    command.env_clear().args(["cluster", "grant"]).args(args);
    command.args(["--controllers", &processes.addresses.join(","), "--timeout-ms", "30000"]).output().unwrap()
}

/// What it printed as JSON, and its exit code.
fn json(processes: &Processes, args: &[&str]) -> (i32, Value) {
    let output = grant(processes, &[args, &["-o", "json"]].concat());
    let printed = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"));
    (output.status.code().unwrap(), printed)
}

/// Three brokers, of which the last one is fenced: the others may not go, or a topic has less than two in sync.
async fn with_one_fenced(client: &ControllerClient) {
    let brokers = register_brokers(client, 3).await;
    let replicas = brokers.iter().map(|broker| broker.id).collect();
    let topic = NewTopic {
        assignments: vec![ReplicaAssignment { partition: 0, replicas }],
        configs: vec![("min.insync.replicas".into(), Some("2".into()))],
        ..NewTopic::new("orders")
    };
    let create = Change::CreateTopics(CreateTopics { topics: vec![topic], validate_only: false });
    client.propose(&create, PATIENCE).await.unwrap();
    client.propose(&Change::FenceBroker(brokers[2]), PATIENCE).await.unwrap();
}

#[test]
fn a_permission_is_asked_for_shown_prolonged_and_given_back() {
    task::block_on(2, async {
        let processes = Processes::start(1).await;
        with_one_fenced(&processes.client()).await;
        assert_eq!(json(&processes, &["list"]), (0, serde_json::json!({ "operatorEpoch": -1, "grants": [] })));

        let (code, opened) = json(&processes, &["open", "--brokers", "3", "--epoch", "4", "--duration-ms", "60000"]);
        assert_eq!((code, &opened["granted"], &opened["grant"]["brokers"]), (0, &true.into(), &vec![3].into()));
        let id = opened["grant"]["id"].to_string();
        let (_, again) = json(&processes, &["open", "--brokers", "3", "--duration-ms", "600000"]);
        assert_eq!(again["grant"]["id"].to_string(), id, "the same again");
        assert!(again["grant"]["expiresMs"].as_i64() > opened["grant"]["expiresMs"].as_i64(), "{again}");
        let (code, listed) = json(&processes, &["list"]);
        assert_eq!((code, &listed["grants"][0], &listed["operatorEpoch"]), (0, &again["grant"], &4.into()));

        let table = grant(&processes, &["list"]);
        let table = String::from_utf8(table.stdout).unwrap();
        assert!(table.starts_with("ID") && table.contains("BROKERS  EPOCH  LEFT"), "{table}");

        assert_eq!(grant(&processes, &["close", &id, "--epoch", "3"]).status.code(), Some(1), "an older operator");
        assert_eq!(json(&processes, &["close", &id]).0, 0);
        assert_eq!(json(&processes, &["close", &id]).0, 0, "it is closed already");
        assert_eq!(json(&processes, &["list"]).1["grants"], Value::Array(Vec::new()));
    })
    .unwrap();
}

#[test]
fn who_may_not_go_gets_no_permission_and_is_told_why() {
    task::block_on(2, async {
        let processes = Processes::start(1).await;
        with_one_fenced(&processes.client()).await;
        let (code, refused) = json(&processes, &["open", "--brokers", "1"]);
        let verdict = &refused["verdict"];
        assert_eq!((code, &refused["granted"], &verdict["blockingCount"]), (10, &false.into(), &1.into()), "{refused}");
        assert_eq!(verdict["blocking"][0]["minInsyncReplicas"], 2);
        let table = grant(&processes, &["open", "--brokers", "1"]);
        assert_eq!(table.status.code(), Some(10));
        let table = String::from_utf8(table.stdout).unwrap();
        let expected = "broker 1 may not go\n  orders-0: led by 1, in sync 1,2, minimum 2; broker 3 is away\n";
        assert_eq!(table, expected);

        assert_eq!(json(&processes, &["open", "--brokers", "3", "--epoch", "4"]).0, 0);
        let (code, refused) = json(&processes, &["open", "--brokers", "2", "--epoch", "5"]);
        assert_eq!((code, &refused["verdict"]["grantedTo"]), (10, &vec![3].into()), "one at a time: {refused}");

        let usage: [&[&str]; 4] = [
            &["open"],
            &["open", "--brokers", "one"],
            &["open", "--brokers", "1", "--duration-ms", "3600001"],
            &["close", "--epoch", "-1", "7"],
        ];
        for args in usage {
            let output = grant(&processes, args);
            assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(2), true), "{args:?}: {output:?}");
        }
        let stale = grant(&processes, &["open", "--brokers", "3", "--epoch", "3"]);
        assert_eq!(stale.status.code(), Some(1));
        let text = String::from_utf8(stale.stderr).unwrap();
        assert!(text.contains("its epoch is 4, this one's is 3"), "{text}");
    })
    .unwrap();
}
