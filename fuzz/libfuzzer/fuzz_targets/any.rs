//! Runs the target that `FUZZ_TARGET` names under libFuzzer. One program for all targets, because linking takes longer
//! than fuzzing finds anything new.

#![no_main]

use std::sync::LazyLock;

use libfuzzer_sys::fuzz_target;
use taffrail_fuzz::{TARGETS, Target, target};

static CHOSEN: LazyLock<&'static Target> = LazyLock::new(|| {
    let name = std::env::var("FUZZ_TARGET").unwrap_or_default();
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    target(&name).unwrap_or_else(|| panic!("FUZZ_TARGET is {name:?}; there are {}", names.join(", ")))
});

fuzz_target!(|input: &[u8]| (CHOSEN.run)(input));
