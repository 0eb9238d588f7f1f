//! Measuring programs: each answers one question, and states ratios between alternatives that ran in turns on one machine;
//! absolute times say more about the machine.

mod compare;
mod runtimes;

use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Result;
use clap::{Parser, Subcommand};

use compare::Form;

/// Measuring programs of Taffrail
#[derive(Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Taffrail beside Apache Kafka: docs/benchmarks.md
    Compare(Form),
    /// Writes docs/benchmarks.md anew from the committed figures and notes
    Render,
    /// CPU a GB and CPU a record against the committed figures
    Check(Form),
    /// Which runtime should own connections and partitions: docs/decisions/shards-own-connections.md
    Runtimes,
    /// What `runtimes` starts as a process of its own, so that the load's work is not counted as the server's
    #[command(hide = true)]
    RuntimesServer { variant: String, threads: String, partitions: String, dir: PathBuf },
}

fn main() -> ExitCode {
    let Err(error) = run(&Arguments::parse().command) else { return ExitCode::SUCCESS };
    // Nobody is left to tell if this fails too.
    let _ = writeln!(io::stderr(), "{error:#}");
    ExitCode::FAILURE
}

fn run(command: &Command) -> Result<()> {
    match command {
        Command::Compare(form) => compare::run(form),
        Command::Render => compare::render(),
        Command::Check(form) => compare::check::run(form),
        Command::Runtimes => Ok(runtimes::measure()?),
        Command::RuntimesServer { variant, threads, partitions, dir } => {
            Ok(runtimes::serve(variant, threads, partitions, dir)?)
        }
    }
}
