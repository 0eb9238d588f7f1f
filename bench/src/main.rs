//! Measuring programs: each answers one question about the design, whose answer is kept in `docs/decisions`.
//!
//! They state ratios between alternatives that ran in turns on one machine; absolute times say more about the machine.

mod runtimes;

use std::io::{self, Write};
use std::process::ExitCode;

/// What can be measured.
const USAGE: &str = "usage: taffrail-bench runtimes   which runtime should own connections and partitions";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let result = match arguments[..] {
        ["runtimes"] => runtimes::measure(),
        // What `runtimes` starts as a process of its own, so that the load's work is not counted as the server's.
        ["runtimes-server", variant, threads, partitions, dir] => {
            runtimes::serve(variant, threads, partitions, dir.as_ref())
        }
        _ => Err(io::Error::new(io::ErrorKind::InvalidInput, USAGE)),
    };
    let Err(error) = result else { return ExitCode::SUCCESS };
    // Nobody is left to tell if this fails too.
    let _ = writeln!(io::stderr(), "{error}");
    ExitCode::FAILURE
}
