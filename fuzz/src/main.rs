//! `taffrail-fuzz [TARGET...]`: hostile input for each target, `FUZZ_SECONDS` long, under the seed `FUZZ_SEED`.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command line program")]

use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use taffrail_fuzz::driver::{self, Failure};
use taffrail_fuzz::{TARGETS, target};

/// Seconds for each target unless `FUZZ_SECONDS` says otherwise.
const SECONDS: u64 = 10;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().and_then(|text| text.parse().ok())
}

fn main() -> ExitCode {
    let names: Vec<String> = std::env::args().skip(1).collect();
    let unknown: Vec<&String> = names.iter().filter(|name| target(name).is_none()).collect();
    if !unknown.is_empty() {
        let known: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        eprintln!("no such target: {unknown:?}; there are {}", known.join(", "));
        return ExitCode::from(2);
    }
    let length = Duration::from_secs(number("FUZZ_SECONDS").unwrap_or(SECONDS));
    let by_clock = || SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |now| now.as_secs());
    let seed = number("FUZZ_SEED").unwrap_or_else(by_clock);
    println!("seed {seed}, {} s for each target", length.as_secs());
    for target in TARGETS.iter().filter(|target| names.is_empty() || names.iter().any(|name| name == target.name)) {
        match driver::run(target, length, seed) {
            Ok(report) => {
                println!("{:<20} {:>5} kept, {:>9} mutated, sound", target.name, report.replayed, report.mutated);
            }
            Err(Failure::Found { input, reason }) => {
                eprintln!("{}: {reason}\nthe input is in {}", target.name, input.display());
                return ExitCode::FAILURE;
            }
            Err(Failure::Io(error)) => {
                eprintln!("{}: {error}", target.name);
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
