//! ConsumerGroups in a file of `taffrail up`: a real process, its brokers asked by the client's commands.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

mod common;

use std::fs::File;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use common::Up;
use serde_json::Value;
use taffrail_runtime::{task, time};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(30);

/// A file with a topic `orders`, and a group `billing` of whose spec this is the rest.
fn file(group: &str) -> String {
    let head = "---\napiVersion: taffrail.dev/v1alpha1\nkind: ";
    let (topic, of) = ("Topic\nmetadata: {name: orders}", "clusterRef: {name: dev}");
    format!(
        "{head}{topic}\nspec: {{{of}, partitions: 1}}\n{head}ConsumerGroup\nmetadata: {{name: billing}}\nspec: {{{of}, {group}}}\n"
    )
}

fn run_with(up: &Up, args: &[&str], input: Stdio) -> Output {
    let brokers = up.told("clients").split_whitespace().next().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.env_clear().env("TAFFRAIL_BROKERS", brokers).args(args).stdin(input).output().unwrap()
}

fn run(up: &Up, args: &[&str]) -> Output {
    run_with(up, args, Stdio::null())
}

/// Where the group goes on.
fn committed(up: &Up) -> Option<i64> {
    let told = run(up, &["group", "describe", "billing", "-o", "json"]);
    let told: Value = serde_json::from_slice(&told.stdout).ok()?;
    told["groups"][0]["offsets"][0]["committed"].as_i64()
}

fn wait_for_committed(up: &Up, offset: i64) {
    let deadline = time::monotonic() + PATIENCE;
    while committed(up) != Some(offset) {
        assert!(time::monotonic() < deadline, "committed is {:?}, not {offset}", committed(up));
        task::block_on_current_thread(time::sleep(Duration::from_millis(50))).unwrap();
    }
}

#[test]
fn a_reset_in_the_file_is_done_once_also_after_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let (path, data, lines) = (dir.path().join("a.yaml"), dir.path().join("data"), dir.path().join("lines"));
    let args = ["--data-dir", data.to_str().unwrap(), "-f", path.to_str().unwrap()];
    let one_on = |id: &str| {
        std::fs::write(
            &path,
            file(&format!("management: Managed, reset: {{requestId: {id}, to: ShiftBy, shiftBy: 1}}")),
        )
        .unwrap();
    };
    std::fs::write(&lines, "1\n2\n3\n4\n5\n").unwrap();
    std::fs::write(&path, file("")).unwrap();
    {
        let up = Up::start(&args);
        let produced = run_with(&up, &["topic", "produce", "orders"], File::open(&lines).unwrap().into());
        assert_eq!(produced.status.code(), Some(0), "{produced:?}");
        let moved = run(&up, &["group", "reset", "billing", "--topic", "orders", "--to", "1", "--execute"]);
        assert_eq!(moved.status.code(), Some(0), "{moved:?}");
        one_on("first");
        wait_for_committed(&up, 2);
    }
    // Killed, and started with the same file.
    let up = Up::start(&args);
    one_on("second");
    wait_for_committed(&up, 3);
}
