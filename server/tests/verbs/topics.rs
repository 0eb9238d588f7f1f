//! Topics are created, shown, changed and deleted.

use std::process::Command;

use serde_json::json;

use crate::common::Up;
use crate::{data, done, err, out, run};

#[test]
fn topics_are_created_shown_changed_and_deleted() {
    let up = Up::start(&["--ephemeral"]);
    let created = data(&up, &["topic", "create", "a", "b", "-p", "2", "-r", "1", "-c", "retention.ms=60000"]);
    assert_eq!(created["topics"][1]["name"], "b");
    assert_eq!((&created["topics"][0]["partitions"], &created["topics"][0]["created"]), (&json!(2), &json!(true)));

    assert_eq!(
        done(&up, &["topic", "list"]),
        "TOPIC  PARTITIONS  REPLICAS\na      2           1\nb      2           1\n"
    );
    let listed = data(&up, &["topic", "list"]);
    assert_eq!(
        (&listed["topics"][0]["id"], &listed["topics"][0]["underReplicated"]),
        (&created["topics"][0]["id"], &json!(0))
    );
    assert_eq!(data(&up, &["topic", "list", "--unavailable"]), json!({ "topics": [] }));

    done(&up, &["topic", "alter", "a", "--set", "cleanup.policy=compact", "--delete", "retention.ms"]);
    done(&up, &["topic", "add-partitions", "a", "--num", "1"]);
    let text = done(&up, &["topic", "describe", "a"]);
    let expected = "\
TOPIC  PARTITION  LEADER  REPLICAS  ISR  START  END
a      0          1       1         1    0      0
a      1          1       1         1    0      0
a      2          1       1         1    0      0

TOPIC  SETTING         VALUE
a      cleanup.policy  compact
";
    assert_eq!(text, expected);
    let described = data(&up, &["topic", "describe", "a", "b"]);
    let settings = described["topics"][1]["settings"].as_array().unwrap();
    let retention = settings.iter().find(|setting| setting["name"] == "retention.ms").unwrap();
    assert_eq!((&retention["value"], &retention["own"]), (&json!("60000"), &json!(true)));

    let again = run(&up, &["topic", "create", "a", "c"]);
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("topic a: ") && err(&again).contains("(TOPIC_ALREADY_EXISTS)"), "{again:?}");
    assert!(out(&again).contains("c      created"), "one that is refused keeps no other from it: {again:?}");
    assert!(done(&up, &["topic", "create", "a", "--if-not-exists"]).contains("a      is there already"));
    assert!(done(&up, &["topic", "create", "d", "--dry-run"]).contains("d      could be created"));

    assert_eq!(done(&up, &["topic", "delete", "a", "c"]), "TOPIC  OUTCOME\na      deleted\nc      deleted\n");
    assert_eq!(run(&up, &["topic", "delete", "a"]).status.code(), Some(1));
    done(&up, &["topic", "delete", "a", "--if-exists"]);
    assert_eq!(done(&up, &["topic", "list"]).lines().count(), 2, "b is left, and nothing came of --dry-run");
}

#[test]
fn shells_complete_names_as_they_are() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "orders", "other"]);
    let asked = |words: &[&str]| {
        let brokers = up.told("clients").split_whitespace().next().unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
        command.env_clear().envs([("TAFFRAIL_COMPLETE", "bash"), ("TAFFRAIL_BROKERS", brokers), ("_CLAP_IFS", "\n")]);
        command.env("_CLAP_COMPLETE_INDEX", (words.len() - 1).to_string()).arg("--").args(words);
        String::from_utf8(command.output().unwrap().stdout).unwrap()
    };
    assert_eq!(asked(&["taffrail", "topic", "describe", "o"]).lines().collect::<Vec<_>>(), ["orders", "other"]);
    assert_eq!(asked(&["taffrail", "topic", "consume", "ord"]), "orders");
    assert_eq!(
        asked(&["taffrail", "topic", "describe", "-b", "127.0.0.1:1", "o"]),
        "",
        "a flag goes before a variable"
    );
}
