//! Runs of whole clusters, each in a process of its own, as `taffrail-sim cluster` makes them.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::process::Command;

/// Seeds that are run every time; those that have found faults stay here.
const FIXED_SEEDS: [u64; 6] = [1, 2, 8, 9, 13, 14];

/// Seeds of runs in which somebody operates the cluster.
const OPERATED_SEEDS: [u64; 4] = [1, 2, 3, 9];

/// Seeds that are run to a loss of power everywhere.
const BEYOND_SEEDS: [u64; 3] = [1, 2, 3];

/// What a run prints, and whether it went well.
fn run(seed: u64, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail-sim"));
    let output = command.args(["cluster", "--seed", &seed.to_string()]).args(more).output().unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.success(), text)
}

#[test]
fn the_same_seed_gives_the_same_run() {
    for seed in [1, 3] {
        let (_, first) = run(seed, &[]);
        assert!(first.contains("trace: "), "{first}");
        assert_eq!(run(seed, &[]).1, first);
    }
}

#[test]
fn no_promise_is_broken_with_the_fixed_seeds() {
    for seed in FIXED_SEEDS {
        let (went_well, text) = run(seed, &[]);
        assert!(went_well, "{text}");
    }
}

#[test]
fn no_promise_is_broken_where_records_are_deleted_replicas_moved_and_brokers_restarted() {
    let mut done = [0; 3];
    for seed in OPERATED_SEEDS {
        let (went_well, text) = run(seed, &["--operated", "1"]);
        assert!(went_well, "{text}");
        for (done, order) in done.iter_mut().zip(["deletions: ", "moves: ", "grants: "]) {
            let (_, after) = text.split_once(order).unwrap();
            *done += after.split([',', ' ']).next().unwrap().parse::<u64>().unwrap();
        }
    }
    assert!(done.iter().all(|done| *done > 0), "something was never done: {done:?}");
}

#[test]
fn what_is_lost_when_all_lose_power_is_told_exactly() {
    let mut lost = 0;
    for seed in BEYOND_SEEDS {
        let (went_well, text) = run(seed, &["--beyond", "1"]);
        assert!(went_well, "{text}");
        let (_, after) = text.split_once("lost: ").unwrap();
        lost += after.split(',').next().unwrap().parse::<u64>().unwrap();
    }
    assert!(lost > 0, "with none of these seeds is anything lost");
}
