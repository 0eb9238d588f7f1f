//! The simulator finds what is planted: with each bug of `core::planted` a promise is broken within so many seeds, and it is
//! the promise that the bug breaks. What is shipped keeps all of them with the same seeds.
//!
//! `planted.txt` says for each bug which simulation has to find it, within how many seeds, and by what.
//! `TAFFRAIL_LONG_SIMULATION=1` takes the bugs too that need many seeds; it is part of `make test-long`.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail the test")]

use std::path::Path;
use std::process::Command;

use taffrail_core::planted::PlantedBug;

/// The short form takes the bugs that need no more seeds than this.
const SHORT_SEEDS_MAX: u64 = 6;

/// What is expected of a bug.
struct Case {
    /// `storage`, `cluster`, or `operated` for a cluster that somebody operates.
    simulation: String,
    bug: String,
    /// Seeds from 1 on that are enough to find it; `None` = no number is known that is.
    seeds: Option<u64>,
    /// Something that the failure says, one of these.
    signs: Vec<String>,
}

impl Case {
    /// Reads a line: the simulation, the bug, the seeds or `-`, and the signs between bars.
    fn parse(line: &str) -> Self {
        let mut words = line.splitn(4, ' ').map(str::to_owned);
        let mut word = || words.next().unwrap();
        let (simulation, bug, seeds, signs) = (word(), word(), word(), word());
        let seeds = (seeds != "-").then(|| seeds.parse().unwrap());
        Self { simulation, bug, seeds, signs: signs.split('|').map(str::to_owned).collect() }
    }
}

/// All cases.
fn cases() -> Vec<Case> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/planted.txt");
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(Case::parse).collect()
}

/// The cases of a simulation that this form of the tests takes, with their seeds.
fn taken(simulation: &str) -> Vec<(Case, u64)> {
    let seeds_max = if std::env::var_os("TAFFRAIL_LONG_SIMULATION").is_some() { u64::MAX } else { SHORT_SEEDS_MAX };
    let of_simulation = cases().into_iter().filter(|case| case.simulation == simulation);
    let with_seeds = of_simulation.filter_map(|case| case.seeds.map(|seeds| (case, seeds)));
    with_seeds.filter(|(_, seeds)| *seeds <= seeds_max).collect()
}

/// Runs `simulation` with `seeds` seeds; whether all went well, and what was said.
fn run(simulation: &str, seeds: u64, more: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_taffrail-sim"));
    let seeds = seeds.to_string();
    let (simulation, operated) = if simulation == "operated" { ("cluster", "1") } else { (simulation, "0") };
    command.args([simulation, "--operated", operated]);
    let output = command.args(["--seed", "1", "--runs", &seeds, "--steps", "150"]).args(more).output();
    let output = output.unwrap();
    let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap()).concat();
    (output.status.success(), text)
}

fn each_is_found(simulation: &str) {
    for (case, seeds) in taken(simulation) {
        let bug = &case.bug;
        let (went_well, text) = run(simulation, seeds, &["--planted", bug]);
        assert!(!went_well, "{bug} is not found within {seeds} seeds");
        assert!(case.signs.iter().any(|sign| text.contains(sign)), "{bug} is found by something else: {text}");
    }
}

#[test]
fn bugs_of_the_storage_engine_are_found() {
    each_is_found("storage");
}

#[test]
fn bugs_of_brokers_and_controllers_are_found() {
    each_is_found("cluster");
}

#[test]
fn bugs_that_show_where_a_cluster_is_operated_are_found() {
    each_is_found("operated");
}

#[test]
fn what_is_shipped_keeps_its_promises_with_the_same_seeds() {
    for simulation in ["storage", "cluster", "operated"] {
        let seeds = taken(simulation).iter().map(|(_, seeds)| *seeds).max().unwrap();
        let (went_well, text) = run(simulation, seeds, &[]);
        assert!(went_well, "{text}");
    }
}

#[test]
fn every_bug_stands_in_the_table_once_and_twenty_are_found_at_least() {
    let cases = cases();
    for bug in PlantedBug::ALL {
        let count = cases.iter().filter(|case| case.bug == format!("{bug:?}")).count();
        assert_eq!(count, 1, "{bug:?}");
    }
    assert!(cases.iter().filter(|case| case.seeds.is_some()).count() >= 20);
}
