//! The short form of the storage simulation.

use super::{Report, Settings, run};

fn one(seed: u64, steps: usize) -> Report {
    match taffrail_runtime::task::block_on_current_thread(run(Settings { seed, steps })).unwrap() {
        Ok(report) => report,
        Err(failure) => panic!("{failure}\nagain: cargo run -p taffrail-sim -- storage --seed {seed} --steps {steps}"),
    }
}

/// A seed that found a fault once, and the steps that it took.
const FOUND: (u64, usize) = (5_001_318, 150);

#[test]
fn a_seed_that_found_a_fault_finds_none_any_more() {
    one(FOUND.0, FOUND.1);
}

#[test]
fn no_seed_finds_a_broken_promise() {
    let mut crashes = 0;
    let mut refused = 0;
    for seed in 1..=60 {
        let report = one(seed, 150);
        crashes += report.crashes;
        refused += report.refused;
    }
    assert!(crashes > 100 && refused > 10, "the runs are too tame: {crashes} crashes, {refused} refusals");
}

#[test]
fn a_seed_does_the_same_again() {
    assert_eq!(one(7, 200), one(7, 200));
}
