//! Records go in and come out.

use serde_json::{Value, json};

use crate::common::Up;
use crate::{data, done, err, produce, run};

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
