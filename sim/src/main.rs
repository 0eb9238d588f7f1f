//! Runs simulations from the command line: `--seed N` for one, `--runs N` for many from there on, `--steps N` for each.

use std::process::ExitCode;

use taffrail_sim::storage::{Settings, run};

/// What the command line asks for.
struct Arguments {
    seed: u64,
    runs: u64,
    steps: usize,
}

fn arguments() -> Result<Arguments, String> {
    let mut found = Arguments { seed: 1, runs: 1, steps: 500 };
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a number"))?;
        let number: u64 = value.parse().map_err(|_| format!("{word} needs a number, not '{value}'"))?;
        match word.as_str() {
            "--seed" => found.seed = number,
            "--runs" => found.runs = number,
            "--steps" => found.steps = number as usize,
            other => return Err(format!("'{other}' is unknown; there are --seed, --runs and --steps")),
        }
    }
    Ok(found)
}

#[allow(clippy::print_stdout, clippy::print_stderr, reason = "this is a command: its output is what it is for")]
fn main() -> ExitCode {
    let arguments = match arguments() {
        Ok(arguments) => arguments,
        Err(error) => {
            eprintln!("{error}");
            return ExitCode::from(2);
        }
    };
    for seed in arguments.seed..arguments.seed.saturating_add(arguments.runs) {
        let made = taffrail_runtime::task::block_on_current_thread(run(Settings { seed, steps: arguments.steps }));
        match made {
            Ok(Ok(report)) => println!("seed {seed}: {report:?}"),
            Ok(Err(failure)) => {
                eprintln!("{failure}\nagain: cargo run -p taffrail-sim -- --seed {seed} --steps {}", arguments.steps);
                return ExitCode::FAILURE;
            }
            Err(error) => {
                eprintln!("the simulation cannot run: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    ExitCode::SUCCESS
}
