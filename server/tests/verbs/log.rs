//! Files of partitions are looked into, whole and broken ones.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::common::Up;
use crate::{data, done, err, out, produce, run};

/// The folder of this name below `dir`.
fn folder(dir: &Path, name: &str) -> Option<PathBuf> {
    std::fs::read_dir(dir)
        .unwrap()
        .map(Result::unwrap)
        .filter(|entry| entry.path().is_dir())
        .find_map(|entry| if entry.file_name() == name { Some(entry.path()) } else { folder(&entry.path(), name) })
}

#[test]
fn what_is_on_the_disk_is_printed_and_what_is_broken_has_a_place() {
    let scratch = tempfile::tempdir().unwrap();
    let up = Up::start(&["--data-dir", scratch.path().to_str().unwrap()]);
    done(&up, &["topic", "create", "t", "-p", "1"]);
    produce(&up, &["t", "-k", "key"], "a\nb\x1b[2J\n");
    produce(&up, &["t"], "c\n");
    let dir = folder(scratch.path(), "t-0").unwrap();
    let log = dir.join("00000000000000000000.log");
    let (dir, log) = (dir.to_str().unwrap(), log.to_str().unwrap());

    let lines = |args: &[&str]| -> Vec<Value> {
        let args: Vec<&str> = ["log", "dump", "-o", "json"].iter().chain(args).copied().collect();
        done(&up, &args).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    };
    let all = lines(&[dir]);
    let entries = |kind: &str| all.iter().filter(|entry| entry["entry"] == kind).cloned().collect::<Vec<_>>();
    let (batches, topic) = (entries("batch"), entries("topic"));
    assert_eq!((&batches[0]["recordCount"], &batches[0]["lastOffset"]), (&json!(2), &json!(1)));
    assert_eq!((&batches[1]["firstOffset"], &batches[1]["kind"]), (&json!(2), &json!("plain")));
    assert_eq!(topic[0]["topicId"], data(&up, &["topic", "describe", "t"])["topics"][0]["id"]);
    assert!(entries("damage").is_empty(), "{all:?}");

    let records = lines(&[log, "--records"]);
    let first = &records[0]["records"][0];
    assert_eq!((&first["topic"], &first["key"], &first["value"]), (&json!("t"), &json!("key"), &json!("a")));
    let text = done(&up, &["log", "dump", log, "--records"]);
    assert!(text.contains("BATCH-AT  OFFSET") && text.contains("b\\u{1b}[2J"), "{text}");
    assert!(done(&up, &["log", "dump", log, "-o", "wide"]).contains("CRC"));
    assert_eq!(done(&up, &["log", "dump", dir, "--check"]), "");

    let mut bytes = std::fs::read(log).unwrap();
    bytes[70] ^= 1;
    let broken = scratch.path().join("00000000000000000000.log");
    std::fs::write(&broken, &bytes).unwrap();
    let broken = broken.to_str().unwrap();
    let output = run(&up, &["log", "dump", broken, "-o", "json"]);
    let said = format!("{broken} at 0: stored crc ");
    assert_eq!((output.status.code(), err(&output).contains(&said)), (Some(10), true), "{output:?}");
    let told: Vec<Value> = out(&output).lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((&told[0]["entry"], &told[0]["position"]), (&json!("damage"), &json!(0)));
    assert_eq!((&told[1]["entry"], &told[1]["firstOffset"]), (&json!("batch"), &json!(2)), "what follows is printed");

    for (path, said) in [("/nowhere/00000000000000000000.log", "No such file"), ("/etc/hostname", "is none of a")] {
        let output = run(&up, &["log", "dump", path]);
        assert_eq!((output.status.code(), err(&output).contains(said)), (Some(1), true), "{output:?}");
    }
}
