//! Topics are made as files of resources say, and printed as such.

use std::path::Path;

use serde_json::json;

use crate::common::Up;
use crate::{data, done, err, out, run};

const FILE: &str = "\
apiVersion: taffrail.dev/v1alpha1
kind: Topic
metadata: {name: orders}
spec:
  clusterRef: {name: any}
  partitions: 3
  replicas: 1
  config: {retention.ms: 86400000, cleanup.policy: delete}
---
apiVersion: taffrail.dev/v1alpha1
kind: Topic
metadata: {name: old-name}
spec:
  clusterRef: {name: any}
  topicName: Old_Name
";

fn write(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    std::fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn topics_are_made_as_the_file_says_and_then_there_is_no_difference() {
    let (up, scratch) = (Up::start(&["--ephemeral"]), tempfile::tempdir().unwrap());
    let file = write(scratch.path(), "topics.yaml", FILE);
    let code = |args: &[&str]| run(&up, args).status.code();

    let diff = run(&up, &["diff", "-f", &file]);
    assert_eq!(diff.status.code(), Some(1), "{diff:?}");
    assert!(out(&diff).contains("orders    create   config[retention.ms]    -     86400000"), "{}", out(&diff));
    assert_eq!(done(&up, &["topic", "list"]).lines().count(), 1, "a comparison makes nothing");

    let applied = data(&up, &["apply", "-f", &file]);
    assert_eq!(
        (&applied["topics"][0]["name"], &applied["topics"][0]["outcome"]),
        (&json!("Old_Name"), &json!("created"))
    );
    assert_eq!(code(&["diff", "-f", &file]), Some(0));
    assert_eq!(data(&up, &["apply", "-f", &file])["topics"][1]["outcome"], "unchanged");

    done(&up, &["topic", "alter", "orders", "--set", "segment.ms=60000", "--delete", "cleanup.policy"]);
    let larger = write(scratch.path(), "larger.yaml", &FILE.replace("partitions: 3", "partitions: 4"));
    let applied = data(&up, &["apply", "-f", &larger]);
    let expected = json!([
        {"field": "partitions", "from": "3", "to": "4"},
        {"field": "config[cleanup.policy]", "from": null, "to": "delete"},
        {"field": "config[segment.ms]", "from": "60000", "to": null},
    ]);
    assert_eq!(
        (&applied["topics"][1]["outcome"], &applied["topics"][1]["differences"]),
        (&json!("changed"), &expected)
    );
    assert_eq!(code(&["diff", "-f", &larger]), Some(0));

    let smaller = run(&up, &["apply", "-f", &file]);
    assert_eq!(smaller.status.code(), Some(1));
    assert!(err(&smaller).contains("topic orders: partitions cannot be taken away"), "{smaller:?}");
}

#[test]
fn what_is_printed_can_be_applied_elsewhere() {
    let (up, other, scratch) = (Up::start(&["--ephemeral"]), Up::start(&["--ephemeral"]), tempfile::tempdir().unwrap());
    let file = write(scratch.path(), "topics.yaml", FILE);
    done(&up, &["apply", "-f", &file]);
    let printed = write(scratch.path(), "printed.yaml", &done(&up, &["get", "-o", "yaml"]));
    assert_eq!(done(&up, &["get", "-f", &file, "-o", "yaml"]), std::fs::read_to_string(&printed).unwrap());
    done(&other, &["apply", "-f", &printed]);
    assert_eq!(data(&other, &["get"]), data(&up, &["get"]));
    assert_eq!(done(&other, &["diff", "-f", &file]).lines().count(), 3);
    let table = done(&other, &["get", "orders"]);
    assert!(table.ends_with("orders  3           1         cleanup.policy=delete retention.ms=86400000\n"), "{table}");
}

#[test]
fn files_that_say_nothing_sensible_change_nothing() {
    let (up, scratch) = (Up::start(&["--ephemeral"]), tempfile::tempdir().unwrap());
    let half = write(scratch.path(), "half.yaml", &FILE[..FILE.len() / 2]);
    let wrong = write(scratch.path(), "wrong.yaml", &FILE.replace("partitions: 3", "partitions: many"));
    let cases: [(&[&str], i32, &str); 5] = [
        (&["apply", "-f", &wrong], 1, "partitions"),
        (&["diff", "-f", &wrong], 2, "partitions"),
        (&["diff", "-f", "/nowhere.yaml"], 2, "/nowhere.yaml"),
        (&["apply"], 2, "--file <FILE>"),
        (&["get", "nope"], 1, "topic nope: "),
    ];
    for (args, code, said) in cases {
        let output = run(&up, args);
        assert_eq!((output.status.code(), err(&output).contains(said)), (Some(code), true), "{args:?}: {output:?}");
        assert_eq!(out(&output), "", "{args:?}");
    }
    assert_eq!(run(&up, &["apply", "-f", &half]).status.code(), Some(1));
    assert_eq!(done(&up, &["topic", "list"]).lines().count(), 1);
}
