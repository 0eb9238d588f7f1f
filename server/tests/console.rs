//! The console of a running `taffrail up`, asked as its page asks it.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod common;

use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use common::{Up, get};
use serde_json::{Value, json};
use taffrail_runtime::{task, time};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster with the topics of the quickstart.
fn start() -> Up {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/quickstart.yaml");
    Up::start(&["--ephemeral", "-f", file.to_str().unwrap()])
}

/// Status and body of an answer of the console.
fn asked(up: &Up, path: &str) -> (u16, String) {
    let address = up.told("console").trim_start_matches("http://").trim_end_matches('/');
    let answer = get(address, path).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    assert!(head.contains("content-security-policy: default-src 'none'"), "{head}");
    (head.split_whitespace().nth(1).unwrap().parse().unwrap(), body.to_owned())
}

fn data(up: &Up, path: &str) -> Value {
    let (status, body) = asked(up, path);
    assert_eq!(status, 200, "{path}: {body}");
    serde_json::from_str(&body).unwrap()
}

/// What `path` answers once `is_right`.
fn eventually(up: &Up, path: &str, is_right: impl Fn(&Value) -> bool) -> Value {
    let deadline = time::monotonic() + PATIENCE;
    loop {
        let answer = data(up, path);
        if is_right(&answer) {
            return answer;
        }
        assert!(time::monotonic() < deadline, "{path}: {answer}");
        task::block_on_current_thread(time::sleep(Duration::from_millis(100))).unwrap();
    }
}

/// Runs `taffrail` with these arguments against the brokers of `up`.
fn run(up: &Up, args: &[&str], input: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.env_clear().env("TAFFRAIL_BROKERS", up.told("clients").split_whitespace().next().unwrap());
    let mut child = command.args(args).stdin(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    assert!(child.wait().unwrap().success(), "{args:?}");
}

/// The names in an object, in their order.
fn names(value: &Value) -> Vec<&str> {
    let mut names: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    names.sort_unstable();
    names
}

#[test]
fn a_cluster_that_is_well_says_so_and_who_is_in_it() {
    let up = start();
    let health = eventually(&up, "/api/health", |it| it["healthy"] == true);
    assert_eq!(
        names(&health),
        [
            "atMs",
            "brokers",
            "clusterId",
            "controllers",
            "healthy",
            "partitions",
            "quorum",
            "restarts",
            "servedBy",
            "topics",
            "troubles",
            "version"
        ]
    );
    assert_eq!((&health["troubles"], &health["topics"]), (&json!([]), &json!(2)));
    assert_eq!(
        (&health["restarts"][0]["brokers"], &health["quorum"]["members"][0]["active"]),
        (&json!([1]), &json!(true))
    );

    let brokers = data(&up, "/api/brokers");
    let broker = &brokers["brokers"][0];
    assert_eq!(
        names(broker),
        ["address", "dirs", "duty", "error", "fenced", "id", "leaders", "leaving", "preferred", "rack", "replicas"]
    );
    assert_eq!((&broker["id"], &broker["leaders"], &broker["error"]), (&json!(1), &json!(9), &Value::Null));
    let disk = &broker["dirs"][0];
    assert!(
        disk["totalBytes"].as_i64() >= disk["usableBytes"].as_i64() && disk["usableBytes"].as_i64() > Some(0),
        "{disk}"
    );
}

#[test]
fn topics_come_in_pages_with_what_is_in_them() {
    let up = start();
    run(&up, &["topic", "produce", "orders", "--partition", "2"], "a\nb\nc\n");
    let topics = eventually(&up, "/api/topics", |it| it["topics"][1]["records"] == 3);
    assert_eq!((&topics["total"], &topics["topics"][0]["name"]), (&json!(2), &json!("customers")));
    assert_eq!(
        names(&topics["topics"][1]),
        [
            "bytes",
            "endSum",
            "internal",
            "leaderless",
            "name",
            "partitions",
            "records",
            "replicationFactor",
            "underReplicated"
        ]
    );
    let second = data(&up, "/api/topics?offset=1&limit=1&sort=name");
    assert_eq!(second["topics"], json!([topics["topics"][1]]));
    let largest = data(&up, "/api/topics?sort=partitions&limit=1&filter=ORD");
    assert_eq!((&largest["total"], &largest["topics"][0]["name"]), (&json!(1), &json!("orders")));

    let orders = data(&up, "/api/topic?name=orders&offset=2&limit=1");
    assert_eq!((&orders["states"], &orders["partitionCount"]), (&json!("oooooo"), &json!(6)));
    let partition = &orders["partitions"][0];
    assert_eq!((&partition["partition"], &partition["leader"], &partition["isr"]), (&json!(2), &json!(1), &json!([1])));
    assert_eq!((&partition["startOffset"], &partition["endOffset"]), (&json!(0), &json!(3)));
    let settings = data(&up, "/api/settings?topic=orders");
    let named = |name: &str| settings["settings"].as_array().unwrap().iter().any(|setting| setting["name"] == name);
    assert!(named("retention.ms") && named("min.insync.replicas"), "{settings}");
}

#[test]
fn records_are_read_from_a_place_on_and_further_from_where_an_answer_ends() {
    let up = start();
    let lines: String =
        (0..7).map(|number| format!("{{\"key\":\"k{number}\",\"value\":\"<b>{number}</b>\"}}\n")).collect();
    run(&up, &["topic", "produce", "orders", "--partition", "0", "--json"], &lines);
    let path = "/api/messages?topic=orders&partition=0&limit=3";
    let first = eventually(&up, path, |it| it["records"].as_array().unwrap().len() == 3);
    assert_eq!(first["records"][0]["value"], json!({ "text": "<b>0</b>", "bytes": 8, "cut": false }));
    assert_eq!((&first["atEnd"], &first["partitions"][0]["next"]), (&json!(false), &json!(3)));
    let next = data(&up, "/api/messages?topic=orders&partition=0&limit=9&at=0:3");
    let offsets: Vec<i64> =
        next["records"].as_array().unwrap().iter().map(|it| it["offset"].as_i64().unwrap()).collect();
    assert_eq!((offsets, &next["atEnd"]), (vec![3, 4, 5, 6], &json!(true)));
    let before = data(&up, "/api/messages?topic=orders&partition=0&at=0:1&until=0:3");
    assert_eq!(before["records"].as_array().unwrap().len(), 2);
    assert_eq!(data(&up, "/api/messages?topic=orders&from=end-1")["records"][0]["key"]["text"], "k6");
    assert_eq!(data(&up, "/api/messages?topic=orders&from=end")["records"], json!([]));
    let cut = data(&up, "/api/messages?topic=orders&partition=0&bytes=4&limit=1");
    assert_eq!(cut["records"][0]["value"], json!({ "text": "<b>0", "bytes": 8, "cut": true }));
}

#[test]
fn groups_have_their_lag_and_its_history() {
    let up = start();
    run(&up, &["topic", "produce", "orders", "--partition", "1"], "a\nb\nc\n");
    run(&up, &["group", "reset", "<i>slow</i>", "--topic", "orders", "--to", "start+1", "--execute"], "");
    let groups = eventually(&up, "/api/groups", |it| it["groups"][0]["lag"] == 2);
    let group = &groups["groups"][0];
    assert_eq!((&group["name"], &group["topics"]), (&json!("<i>slow</i>"), &json!(["orders"])));
    assert!(group["lagMs"].as_i64() >= Some(0) && group["history"][0][1] == 2, "{group}");
    let one = data(&up, "/api/group?name=%3Ci%3Eslow%3C/i%3E");
    let behind = one["partitions"].as_array().unwrap().iter().find(|it| it["partition"] == 1).unwrap();
    assert_eq!((&behind["committed"], &behind["endOffset"], &behind["lag"]), (&json!(1), &json!(3), &json!(2)));
}

#[test]
fn what_makes_no_sense_is_refused_and_the_rest_is_not_there() {
    let up = start();
    let cases = [
        ("/api/topic?name=nowhere", 404, "there is no topic nowhere"),
        ("/api/topics?sort=size", 400, "sort is 'size'"),
        ("/api/messages", 400, "topic is needed"),
        ("/api/messages?topic=orders&partition=6", 404, "orders has no partition 6"),
        ("/api/messages?topic=orders&from=then", 400, "from is 'then'"),
        ("/api/group?name=nobody", 404, "there is no group nobody"),
        ("/api", 404, "there is nothing here"),
        ("/src/main.rs", 404, "there is nothing here"),
    ];
    for (path, status, text) in cases {
        let (told, body) = asked(&up, path);
        assert!(told == status && body.contains(text), "{path}: {told} {body}");
    }
    let (status, page) = asked(&up, "/");
    assert!(status == 200 && page.starts_with("<!doctype html>"));
}
