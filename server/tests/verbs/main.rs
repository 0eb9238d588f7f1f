//! The client's commands against a running `taffrail up`: what they print, and with which exit code they end.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail the test")]

#[path = "../common/mod.rs"]
mod common;

mod cluster;
mod contexts;
mod groups;
mod log;
mod metrics;
mod mistakes;
mod records;
mod resources;
mod topics;

use std::io::Write;
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use common::Up;
use serde_json::Value;
use taffrail_runtime::{task, time};

/// How long something is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Starts `taffrail` with these arguments against the brokers of `up`.
fn spawn(up: &Up, args: &[&str]) -> Child {
    let brokers = up.told("clients").split_whitespace().next().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail"));
    command.env_clear().env("TAFFRAIL_BROKERS", brokers).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().unwrap()
}

/// Runs it, on this standard input.
fn run_with(up: &Up, args: &[&str], input: &[u8]) -> Output {
    let mut child = spawn(up, args);
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

/// Asks for data until they are as expected.
fn wait_for(up: &Up, args: &[&str], is_expected: impl Fn(&Value) -> bool) -> Value {
    let args: Vec<&str> = args.iter().copied().chain(["-o", "json"]).collect();
    let until = time::monotonic() + PATIENCE;
    loop {
        let output = run(up, &args);
        let found: Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        if output.status.success() && is_expected(&found) {
            return found;
        }
        assert!(time::monotonic() < until, "{args:?}: {output:?}");
        task::block_on_current_thread(time::sleep(Duration::from_millis(100))).unwrap();
    }
}
