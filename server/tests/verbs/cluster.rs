//! What the cluster says of itself, and what moves in it.

use std::collections::BTreeMap;
use std::io::Read;

use serde_json::json;

use crate::common::Up;
use crate::{data, done, err, produce, run};

#[test]
fn a_cluster_in_which_nothing_moves_says_so() {
    let up = Up::start(&["--ephemeral"]);
    assert_eq!(data(&up, &["cluster", "moves"]), json!({ "bytesLeft": 0, "moves": [] }));
    assert_eq!(done(&up, &["cluster", "moves"]).lines().count(), 1);
}

#[test]
fn what_there_is_is_told() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "3"]);
    produce(&up, &["t", "-p", "0"], "a\n");
    let info = data(&up, &["cluster", "info"]);
    assert_eq!((&info["brokers"], &info["topics"], &info["partitions"]), (&json!(1), &json!(1), &json!(3)));
    assert_eq!((&info["underReplicated"], info["clusterId"].as_str().map(str::len)), (&json!(0), Some(22)));

    let brokers = data(&up, &["cluster", "brokers"]);
    let broker = &brokers["brokers"][0];
    assert_eq!((&broker["id"], &broker["leads"], &broker["keeps"]), (&json!(1), &json!(3), &json!(3)));
    assert!(broker["bytes"].as_i64() > Some(0) && broker["diskFreeBytes"].as_i64() > Some(0), "{brokers}");
    assert_eq!(done(&up, &["cluster", "brokers"]).lines().count(), 2);

    let expected = "\
TOPIC  PARTITION  LEADER  REPLICAS  ISR
t      0          1       1         1
t      1          1       1         1
t      2          1       1         1
";
    assert_eq!(done(&up, &["cluster", "partitions"]), expected);
    assert_eq!(data(&up, &["cluster", "partitions", "t", "--under-replicated"]), json!({ "partitions": [] }));
    assert_eq!(data(&up, &["cluster", "partitions", "--broker", "7"]), json!({ "partitions": [] }));
    assert_eq!(data(&up, &["cluster", "partitions", "--under-min-isr"]), json!({ "partitions": [] }));
    assert_eq!(done(&up, &["cluster", "partitions", "--at-min-isr"]), expected, "one replica, and one must be in sync");
}

#[test]
fn those_who_keep_the_metadata_are_told() {
    let up = Up::start(&["--ephemeral"]);
    let status = data(&up, &["quorum", "status"]);
    assert_eq!(status["voters"], json!([status["leader"]]));
    assert!(status["highWatermark"].as_i64() > Some(0), "{status}");
    let replication = data(&up, &["quorum", "replication"]);
    let leader = &replication["replicas"][0];
    assert_eq!((&leader["status"], &leader["lag"]), (&json!("Leader"), &json!(0)));
    assert!(done(&up, &["quorum", "replication", "-o", "wide"]).starts_with("NODE  STATUS"));
}

#[test]
fn partitions_are_kept_by_other_brokers_once_it_is_no_mere_plan() {
    let up = Up::start(&["--ephemeral", "--brokers", "3"]);
    done(&up, &["topic", "create", "t", "-p", "2", "-r", "1"]);
    let lines: String = (0..1_000).map(|number| format!("{number}\n")).collect();
    produce(&up, &["t", "-p", "0"], &lines);
    let replicas = |number: usize| data(&up, &["cluster", "partitions", "t"])["partitions"][number]["replicas"].clone();
    let before = [replicas(0), replicas(1)];
    let first = before[0][0].as_i64().unwrap();
    let other = (first % 3 + 1).to_string();

    let plan = run(&up, &["cluster", "move", "t:0", "--replicas", &other, "-o", "json"]);
    assert!(err(&plan).contains("nothing is moved yet: add --execute"), "{plan:?}");
    assert_eq!([replicas(0), replicas(1)], before);

    let args = ["cluster", "move", "t:0", "--replicas", &other, "--execute", "--wait"];
    let moved = data(&up, &args);
    assert_eq!((&moved["executed"], &moved["moves"][0]["from"]), (&json!(true), &json!([first])));
    assert_eq!((replicas(0).to_string(), replicas(1)), (format!("[{other}]"), before[1].clone()));
    assert_eq!(done(&up, &["topic", "consume", "t", "-p", "0", "-e"]), lines, "its records came with it");

    let again = run(&up, &args);
    assert!(again.status.success() && err(&again).contains("nothing has to move"), "{again:?}");
    done(&up, &["cluster", "move", "t", "--only", "1,2", "--execute", "--wait"]);
    assert_eq!(data(&up, &["cluster", "partitions", "--broker", "3"]), json!({ "partitions": [] }));
    assert_eq!(data(&up, &["cluster", "moves", "--wait"]), json!({ "bytesLeft": 0, "moves": [] }));

    let refused = run(&up, &["cluster", "move", "t:0", "--replicas", "9", "--execute"]);
    assert_eq!((refused.status.code(), err(&refused).contains("t-0: ")), (Some(1), true), "{refused:?}");
    let cases: [(&[&str], &str); 3] = [
        (&["cluster", "move", "t"], "required"),
        (&["cluster", "move", "t", "--replace", "1"], "--replace 1: numbers of two brokers are needed"),
        (&["cluster", "move", "t", "--cancel", "--only", "1"], "cannot be used with"),
    ];
    for (args, said) in cases {
        let output = run(&up, args);
        assert_eq!(output.status.code(), Some(2), "{output:?}");
        assert!(err(&output).contains(said), "{output:?}");
    }
}

#[test]
fn a_bundle_has_what_helpers_ask_for() {
    let (up, scratch) = (Up::start(&["--ephemeral"]), tempfile::tempdir().unwrap());
    done(&up, &["topic", "create", "t", "-c", "retention.ms=60000"]);
    produce(&up, &["t"], "a secret record\n");
    done(&up, &["topic", "consume", "t", "-g", "g", "-e"]);
    let metrics = up.told("metrics").trim_start_matches("http://").trim_end_matches("/metrics").to_owned();
    let path = scratch.path().join("b.tar.gz");
    let args = ["bundle", "--to", path.to_str().unwrap(), "--metrics", &metrics];
    assert!(data(&up, &args)["bytes"].as_u64() > Some(0));

    let mut archive = tar::Archive::new(flate2::read::GzDecoder::new(std::fs::File::open(&path).unwrap()));
    let mut files = BTreeMap::new();
    for entry in archive.entries().unwrap() {
        let mut entry = entry.unwrap();
        let (name, mut text) = (entry.path().unwrap().to_string_lossy().into_owned(), String::new());
        entry.read_to_string(&mut text).unwrap();
        files.insert(name, text);
    }
    let scraped = format!("metrics-{}.txt", metrics.replace(':', "-"));
    for (name, said) in [
        ("cluster-info.json", "\"topics\""),
        ("topic-settings.json", "\"retention.ms\": \"60000\""),
        ("group-describe.json", "\"name\": \"g\""),
        ("quorum-status.json", "\"leader\""),
        (scraped.as_str(), "kafka_server_"),
    ] {
        let text = &files[&format!("taffrail-bundle/{name}")];
        assert!(text.contains(said), "{name}: {text}");
    }
    assert!(!files.values().any(|text| text.contains("a secret record")));

    let nobody = ["bundle", "--to", path.to_str().unwrap(), "--metrics", "127.0.0.1:1"];
    let output = run(&up, &nobody);
    assert_eq!(
        (output.status.code(), err(&output).contains("no metrics from 127.0.0.1:1")),
        (Some(1), true),
        "{output:?}"
    );
}
