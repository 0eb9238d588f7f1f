//! The client's commands against a running `taffrail up`: what they print, and with which exit code they end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod common;

use std::io::Write;
use std::process::{Command, Output, Stdio};

use common::Up;
use serde_json::{Value, json};

/// Runs `taffrail` with these arguments, on this standard input, against the brokers of `up`.
fn run_with(up: &Up, args: &[&str], input: &[u8]) -> Output {
    let brokers = up.told("clients").split_whitespace().next().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.env_clear().env("TAFFRAIL_BROKERS", brokers).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    // One that refuses its arguments reads nothing.
    let _ = child.stdin.take().unwrap().write_all(input);
    child.wait_with_output().unwrap()
}

fn run(up: &Up, args: &[&str]) -> Output {
    run_with(up, args, b"")
}

fn out(output: &Output) -> String {
    String::from_utf8(output.stdout.clone()).unwrap()
}

fn err(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

/// What it prints, when it succeeds.
fn done(up: &Up, args: &[&str]) -> String {
    let output = run(up, args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {output:?}");
    out(&output)
}

/// The same as data.
fn data(up: &Up, args: &[&str]) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
    serde_json::from_str(&done(up, &args)).unwrap()
}

/// Produces lines to a topic.
fn produce(up: &Up, args: &[&str], lines: &str) -> Value {
    let args: Vec<&str> = ["topic", "produce"].iter().chain(args).copied().chain(["-o", "json"]).collect();
    let output = run_with(up, &args, lines.as_bytes());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    serde_json::from_str(&out(&output)).unwrap()
}

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
fn records_go_in_and_come_out_as_they_were() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "3"]);
    done(&up, &["topic", "create", "copy"]);

    let produced = produce(&up, &["t", "-K", ":", "-H", "h=1", "-z", "lz4"], "abc:one\n21:two\nabc:three\n");
    assert_eq!(produced["records"], 3);
    // As Kafka's clients place these keys among three partitions.
    let partitions: Vec<i64> =
        produced["partitions"].as_array().unwrap().iter().map(|it| it["partition"].as_i64().unwrap()).collect();
    let printed = done(&up, &["topic", "consume", "t", "-e", "-f", r"%p %k=%v %h\n"]);
    let mut lines: Vec<&str> = printed.lines().collect();
    lines.sort_unstable_by_key(|line| line.split(' ').nth(1).map(str::to_owned));
    let of = |line: &str| line.split(' ').next().unwrap().parse::<i64>().unwrap();
    assert_eq!(
        lines.iter().map(|line| line.split_once(' ').unwrap().1).collect::<Vec<_>>(),
        ["21=two h=1", "abc=one h=1", "abc=three h=1"]
    );
    assert!(lines.iter().all(|line| partitions.contains(&of(line))) && of(lines[1]) == of(lines[2]), "{printed}");

    // Through JSON, with bytes that are no text, to another topic.
    produce(&up, &["t", "-p", "1", "--json"], "{\"keyBase64\":\"/w==\",\"value\":null,\"timestamp\":5}\n");
    let copied = done(&up, &["topic", "consume", "t", "-e", "-o", "json"]);
    assert_eq!(copied.lines().count(), 4);
    produce(&up, &["copy", "--json"], &copied);
    let again = done(&up, &["topic", "consume", "copy", "-e", "-o", "json"]);
    let records = |text: &str| {
        let strip = |line: &str| {
            let mut record: Value = serde_json::from_str(line).unwrap();
            ["topic", "partition", "offset"]
                .iter()
                .for_each(|name| drop(record.as_object_mut().unwrap().remove(*name)));
            record.to_string()
        };
        let mut records: Vec<String> = text.lines().map(strip).collect();
        records.sort_unstable();
        records
    };
    assert_eq!(records(&copied), records(&again));
    assert!(again.contains(r#""keyBase64":"/w==""#), "{again}");
}

#[test]
fn reading_begins_and_ends_where_it_is_told_to() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "1"]);
    let lines: String = (0..2_000).map(|number| format!("{number}\n")).collect();
    let produced = produce(&up, &["t"], &lines);
    assert_eq!((&produced["records"], &produced["partitions"][0]["lastOffset"]), (&json!(2_000), &json!(1_999)));

    assert_eq!(done(&up, &["topic", "consume", "t", "-e"]), lines);
    let cases: [(&[&str], &str); 6] = [
        (&["-n", "2"], "0\n1\n"),
        (&["--from", "end-2", "-e"], "1998\n1999\n"),
        (&["--offset", "1000", "-n", "1"], "1000\n"),
        (&["--from", "end", "-e"], ""),
        (&["--from", "@-1h", "-n", "1"], "0\n"),
        (&["--from", "@9999999999999", "-e"], ""),
    ];
    for (args, expected) in cases {
        let args: Vec<&str> = ["topic", "consume", "t"].iter().chain(args).copied().collect();
        assert_eq!(done(&up, &args), expected, "{args:?}");
    }

    let plan = run(&up, &["topic", "trim", "t", "--before", "end-5", "-o", "json"]);
    assert!(err(&plan).contains("add --execute"), "{plan:?}");
    assert!(done(&up, &["topic", "consume", "t", "-n", "1"]).starts_with('0'), "a plan deletes nothing");
    let trimmed = data(&up, &["topic", "trim", "t", "--before", "end-5", "--execute"]);
    assert_eq!((&trimmed["executed"], &trimmed["partitions"][0]["newStartOffset"]), (&json!(true), &json!(1_995)));
    assert_eq!(done(&up, &["topic", "consume", "t", "-e"]).lines().count(), 5);
}

#[test]
fn groups_are_listed_described_moved_and_deleted() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "2"]);
    produce(&up, &["t", "-p", "0"], "a\nb\nc\n");
    produce(&up, &["t", "-p", "1"], "d\n");
    assert_eq!(done(&up, &["group", "list"]), "GROUP  STATE  TYPE  COORDINATOR\n");

    let plan = ["group", "reset", "g", "--topic", "t", "--to", "end-2"];
    let planned = data(&up, &plan);
    assert_eq!((&planned["executed"], &planned["offsets"][0]["to"]), (&json!(false), &json!(1)));
    assert_eq!(run(&up, &["group", "describe", "g"]).status.code(), Some(1), "a plan makes no group");
    let executed: Vec<&str> = plan.iter().copied().chain(["--execute"]).collect();
    assert_eq!(data(&up, &executed)["offsets"][1]["to"], 0, "no further back than the log begins");

    assert_eq!(data(&up, &["group", "list", "--state", "empty"])["groups"][0]["name"], "g");
    let expected = "\
GROUP  STATE  ASSIGNOR  COORDINATOR  MEMBERS  LAG
g      Empty  -         1            0        3

TOPIC  PARTITION  OFFSET  END  LAG  CLIENT  HOST
t      0          1       3    2    -       -
t      1          0       1    1    -       -
";
    assert_eq!(done(&up, &["group", "describe", "g"]), expected);
    done(&up, &["group", "seek", "g", "--topic", "t:0", "--to", "current+1", "--execute"]);
    let described = data(&up, &["group", "describe", "g"]);
    assert_eq!(
        (&described["groups"][0]["lag"], &described["groups"][0]["offsets"][0]["committed"]),
        (&json!(2), &json!(2))
    );

    assert_eq!(done(&up, &["group", "delete", "g"]), "GROUP  OUTCOME\ng      deleted\n");
    let gone = run(&up, &["group", "delete", "g"]);
    assert_eq!(gone.status.code(), Some(1));
    assert!(err(&gone).contains("(GROUP_ID_NOT_FOUND)"), "{gone:?}");
}

#[test]
fn a_cluster_in_which_nothing_moves_says_so() {
    let up = Up::start(&["--ephemeral"]);
    assert_eq!(data(&up, &["cluster", "moves"]), json!({ "bytesLeft": 0, "moves": [] }));
    assert_eq!(done(&up, &["cluster", "moves"]).lines().count(), 1);
}

#[test]
fn what_is_wrong_is_told_with_an_exit_code_and_prints_no_data() {
    let up = Up::start(&["--ephemeral"]);
    done(&up, &["topic", "create", "t", "-p", "1"]);
    let cases: [(&[&str], i32, &str); 11] = [
        (&["topic", "describe", "nope"], 1, "topic nope: "),
        (&["topic", "produce", "nope"], 1, "a topic is made by `taffrail topic create`"),
        (&["topic", "consume", "t", "-p", "7", "-e"], 1, "t has no partition 7: it has 1"),
        (&["topic", "create", "u", "-c", "retention.msx=1"], 1, "retention.msx"),
        (&["topic", "create", "u", "-c", "retention"], 2, "--config retention: name=value is needed"),
        (&["topic", "consume", "t", "--from", "ende"], 2, "expected start, end, an offset"),
        (&["topic", "consume", "t", "-f", "%x"], 2, "%x means nothing"),
        (&["topic", "consume", "t", "--from", "current"], 2, "only groups have a current offset"),
        (&["group", "reset", "g", "--to", "end"], 1, "group g has no offsets: name topics with --topic"),
        (&["group", "reset", "g", "--to", "end", "-t", "t:x"], 2, "--topic t:x: numbers of partitions are needed"),
        (&["topic", "list", "-b", "nowhere"], 2, "--brokers nowhere: host:port is needed"),
    ];
    for (args, code, said) in cases {
        let output = run(&up, args);
        assert_eq!(output.status.code(), Some(code), "{args:?}: {output:?}");
        assert!(err(&output).contains(said), "{args:?}: {output:?}");
    }
    let nobody = run(&up, &["topic", "list", "-b", "127.0.0.1:1"]);
    assert_eq!((nobody.status.code(), out(&nobody)), (Some(1), String::new()));
    assert!(
        err(&nobody).contains("no broker answers at 127.0.0.1:1") && err(&nobody).contains("taffrail up"),
        "{nobody:?}"
    );

    let output = run_with(&up, &["topic", "produce", "t", "--json", "-o", "json"], b"{\"value\":\"a\"}\nb\n");
    assert_eq!(output.status.code(), Some(1));
    assert!(err(&output).contains("line 2: no JSON"), "{output:?}");
    assert_eq!(serde_json::from_slice::<Value>(&output.stdout).unwrap()["records"], 1, "what was written is told");
}
