//! A short run of every target: the kept corpus, then `FUZZ_SECONDS` (2 by default) of mutations under a fixed seed.

#![allow(clippy::panic, reason = "helpers of tests")]

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use taffrail_fuzz::driver::{self, Failure};

/// Memory is counted for the process, so targets take turns.
static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());

const SECONDS: u64 = 2;
const SEED: u64 = 1;

fn survives(name: &str) {
    let _turn = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(target) = taffrail_fuzz::target(name) else { panic!("no target {name}") };
    let seconds = std::env::var("FUZZ_SECONDS").ok().and_then(|text| text.parse().ok()).unwrap_or(SECONDS);
    match driver::run(target, Duration::from_secs(seconds), SEED) {
        Ok(report) => assert!(report.mutated > 0),
        Err(Failure::Found { input, reason }) => panic!("{reason}; input in {}", input.display()),
        Err(Failure::Io(error)) => panic!("{error}"),
    }
}

/// One test for each target, and a test that none is missing here.
macro_rules! tests {
    ($($name:ident)*) => {
        mod survives_hostile_input {
            $(
                #[test]
                fn $name() {
                    super::survives(stringify!($name));
                }
            )*
        }

        #[test]
        fn every_target_has_its_test() {
            let tested = [$(stringify!($name)),*];
            let targets: Vec<&str> = taffrail_fuzz::TARGETS.iter().map(|target| target.name).collect();
            assert_eq!(targets, tested);
        }
    };
}

tests! { frame header request response record_batch produced gzip snappy lz4 zstd metadata_events metadata_snapshot offsets_record yaml index producer_snapshot data_directory }
