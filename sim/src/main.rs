//! Runs simulations from the command line: `storage` or `cluster`, `--seed N` for one run, `--runs N` for many from there on.

use std::collections::VecDeque;
use std::process::{Child, Command, ExitCode, Stdio};

use taffrail_core::planted::{self, PlantedBug};
use taffrail_sim::cluster::Told;
use taffrail_sim::{cluster, storage};

const USAGE: &str = "\
usage: taffrail-sim storage|cluster [--seed N] [--runs N] ...
  storage: the storage engine on a failing disk; --steps N things a run
  cluster: three controllers, three brokers and clients; --fault-ms N of faults, --jobs N runs at once,
           --beyond 1 to have all brokers lose power in the end; --operated 1 to have somebody delete records,
           move replicas and restart brokers; --tell 1 to print what happens, 2 for all
  --planted NAME: with a bug of core::planted; runs end with the first that finds it";

/// What the command line asks for.
struct Arguments {
    cluster: bool,
    seed: u64,
    runs: u64,
    jobs: usize,
    steps: usize,
    fault_ms: u64,
    goes_beyond: bool,
    is_operated: bool,
    told: Told,
    planted: Option<PlantedBug>,
}

fn arguments() -> Result<Arguments, String> {
    let mut words = std::env::args().skip(1);
    let cluster = match words.next().as_deref() {
        Some("storage") => false,
        Some("cluster") => true,
        _ => return Err(USAGE.to_owned()),
    };
    let fault_ms = cluster::Settings::default().fault_ms;
    let told = Told::Nothing;
    let (goes_beyond, is_operated) = (false, false);
    let mut found = Arguments {
        cluster,
        seed: 1,
        runs: 1,
        jobs: 2,
        steps: 500,
        fault_ms,
        goes_beyond,
        is_operated,
        told,
        planted: None,
    };
    while let Some(word) = words.next() {
        let value = words.next().ok_or(format!("{word} needs a value"))?;
        if word == "--planted" {
            let bug = PlantedBug::ALL.iter().find(|bug| format!("{bug:?}") == value);
            found.planted = Some(*bug.ok_or(format!("'{value}' is no planted bug: {:?}", PlantedBug::ALL))?);
            continue;
        }
        let number: u64 = value.parse().map_err(|_| format!("{word} needs a number, not '{value}'"))?;
        match word.as_str() {
            "--seed" => found.seed = number,
            "--runs" => found.runs = number,
            "--jobs" => found.jobs = number as usize,
            "--steps" => found.steps = number as usize,
            "--fault-ms" => found.fault_ms = number,
            "--beyond" => found.goes_beyond = number != 0,
            "--operated" => found.is_operated = number != 0,
            "--tell" => {
                found.told = match number {
                    0 => Told::Nothing,
                    1 => Told::Events,
                    _ => Told::Everything,
                }
            }
            other => return Err(format!("'{other}' is unknown\n{USAGE}")),
        }
    }
    Ok(found)
}

/// Makes one run; gives what it did, or what went wrong and how to see it again.
fn run(seed: u64, arguments: &Arguments) -> Result<String, String> {
    let planted = arguments.planted.map_or(String::new(), |bug| format!(" --planted {bug:?}"));
    if arguments.cluster {
        let Arguments { fault_ms, goes_beyond, is_operated, told, .. } = *arguments;
        let made = cluster::run(cluster::Settings { seed, fault_ms, goes_beyond, is_operated, told });
        let (beyond, operated) = (u8::from(goes_beyond), u8::from(is_operated));
        let again = format!(
            "again: cargo run -p taffrail-sim -- cluster --seed {seed} --fault-ms {fault_ms} --beyond {beyond} \
             --operated {operated} --tell 1{planted}"
        );
        return made.map(|report| format!("{report:?}")).map_err(|failure| format!("{failure}\n{again}"));
    }
    let steps = arguments.steps;
    let made = taffrail_runtime::task::block_on_current_thread(storage::run(storage::Settings { seed, steps }));
    let made = made.map_err(|error| format!("the simulation cannot run: {error}"))?;
    let again = format!("again: cargo run -p taffrail-sim -- storage --seed {seed} --steps {steps}{planted}");
    made.map(|report| format!("{report:?}")).map_err(|failure| format!("{failure}\n{again}"))
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
    arguments.planted.into_iter().for_each(planted::plant);
    let seeds = arguments.seed..arguments.seed.saturating_add(arguments.runs);
    let failed = if arguments.cluster && arguments.runs > 1 {
        in_processes(seeds, &arguments)
    } else {
        seeds.into_iter().find_map(|seed| match run(seed, &arguments) {
            Ok(report) => {
                println!("seed {seed}: {report}");
                None
            }
            Err(failure) => Some(failure),
        })
    };
    match failed {
        None => ExitCode::SUCCESS,
        Some(failure) => {
            eprintln!("{failure}");
            ExitCode::FAILURE
        }
    }
}

/// Makes each run in a process of its own, several at once: libraries count what they did since their process began, and
/// a run that is repeated alone must find the same counts. Gives the failures, or `None`.
#[allow(clippy::print_stdout, reason = "this is a command: its output is what it is for")]
fn in_processes(seeds: std::ops::Range<u64>, arguments: &Arguments) -> Option<String> {
    let (mut waiting, mut running) = (seeds, VecDeque::new());
    let mut failures = Vec::new();
    loop {
        while running.len() < arguments.jobs.max(1)
            && (failures.is_empty() || arguments.planted.is_none())
            && let Some(seed) = waiting.next()
        {
            match start(seed, arguments) {
                Ok(child) => running.push_back((seed, child)),
                Err(error) => return Some(format!("seed {seed} cannot be run: {error}")),
            }
        }
        let Some((seed, child)) = running.pop_front() else { break };
        match child.wait_with_output() {
            Ok(output) if output.status.success() => print!("{}", String::from_utf8_lossy(&output.stdout)),
            Ok(output) => failures.push(String::from_utf8_lossy(&output.stderr).trim_end().to_owned()),
            Err(error) => failures.push(format!("seed {seed} cannot be waited for: {error}")),
        }
    }
    (!failures.is_empty()).then(|| failures.join("\n"))
}

/// Starts a process that makes one run.
fn start(seed: u64, arguments: &Arguments) -> std::io::Result<Child> {
    let (seed, fault_ms) = (seed.to_string(), arguments.fault_ms.to_string());
    let beyond = u8::from(arguments.goes_beyond).to_string();
    let operated = u8::from(arguments.is_operated).to_string();
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["cluster", "--seed", &seed, "--fault-ms", &fault_ms, "--beyond", &beyond, "--operated", &operated]);
    if let Some(bug) = arguments.planted {
        command.args(["--planted", &format!("{bug:?}")]);
    }
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
}
