//! What a process costs that has nothing to do: start, restart after a crash, many partitions, many segments.

mod client;
mod process;
mod segments;

use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

use process::Process;

/// Starts on an empty directory; odd, for the median.
const STARTS: usize = 9;
/// Starts again after a crash.
const RESTARTS: usize = 5;
/// How long an idle process is looked at, and after how long of idleness.
const IDLE: Duration = Duration::from_secs(10);
const SETTLED: Duration = Duration::from_secs(6);
/// Partitions of the topics that are made.
const TOPICS: [i32; 2] = [1_000, 5_000];
/// Partitions of the crowded process.
const CROWD: i32 = 10_000;
/// Partitions that one request writes to.
const PARTITIONS_A_REQUEST: usize = 100;

/// Measures something of a program, and writes a line for each figure.
type Part = fn(&Path, &mut dyn Write) -> io::Result<()>;

/// What to measure, by name.
const PARTS: [(&str, Part); 4] = [("start", start), ("topics", topics), ("crowd", crowd), ("segments", segments)];

/// Measures the parts of that name, or all, of the program `program`, and writes a line for each figure.
///
/// # Errors
/// When the program fails, or there is no such part.
pub(crate) fn measure(program: &Path, part: Option<&str>) -> io::Result<()> {
    let mut out = io::stdout();
    let mut is_known = false;
    for (name, run) in PARTS.iter().filter(|(name, _)| part.is_none_or(|part| part == *name)) {
        writeln!(out, "{name}:")?;
        run(program, &mut out)?;
        is_known = true;
    }
    if is_known { Ok(()) } else { Err(io::Error::other("the parts are start, topics, crowd and segments")) }
}

/// An empty directory: how long until a produce is acknowledged, and what the idle process takes.
fn start(program: &Path, out: &mut dyn Write) -> io::Result<()> {
    let (mut plain, mut idempotent) = (Vec::new(), Vec::new());
    for _ in 0..STARTS {
        for (is_idempotent, times) in [(false, &mut plain), (true, &mut idempotent)] {
            let mut process = Process::start(program)?;
            first_ack(&mut process, is_idempotent)?;
            times.push(process.age());
        }
    }
    write_times(out, "exec to first acknowledged produce", &mut plain)?;
    write_times(out, "exec to first acknowledged idempotent produce", &mut idempotent)?;
    let mut process = Process::start(program)?;
    process.connect()?;
    std::thread::sleep(SETTLED);
    write_memory(out, "just started", &process)?;
    write_idle(out, "empty", &process)?;
    first_ack(&mut process, true)?;
    let mut again = Vec::new();
    for _ in 0..RESTARTS {
        process.restart()?;
        process.connect()?.check_serving("first", 1)?;
        again.push(process.age());
    }
    write_times(out, "restart after SIGKILL with little data", &mut again)
}

fn first_ack(process: &mut Process, is_idempotent: bool) -> io::Result<()> {
    let mut client = process.connect()?;
    client.create_topic("first", 1)?;
    let producer = if is_idempotent { Some(client.init_producer()?) } else { None };
    client.produce("first", 0..1, producer)
}

/// A topic of many partitions: making it, writing to all of it, starting again after a crash.
fn topics(program: &Path, out: &mut dyn Write) -> io::Result<()> {
    for partitions in TOPICS {
        let mut process = Process::start(program)?;
        let mut client = process.connect()?;
        create(out, &mut client, partitions)?;
        write_round(out, &mut client, partitions, "first")?;
        write_round(out, &mut client, partitions, "second")?;
        if partitions == TOPICS[0] {
            std::thread::sleep(SETTLED);
            write_memory(out, &format!("{partitions} partitions with a record each"), &process)?;
            write_idle(out, &format!("{partitions} partitions"), &process)?;
        }
        restarts(out, &mut process, partitions)?;
    }
    Ok(())
}

fn create(out: &mut dyn Write, client: &mut client::Client, partitions: i32) -> io::Result<()> {
    let began = Instant::now();
    client.create_topic("many", partitions)?;
    client.check_serving("many", partitions)?;
    writeln!(out, "  a topic of {partitions} partitions serves after {:.3} s", began.elapsed().as_secs_f64())
}

fn write_round(out: &mut dyn Write, client: &mut client::Client, partitions: i32, which: &str) -> io::Result<()> {
    let producer = client.init_producer()?;
    let began = Instant::now();
    for first in (0..partitions).step_by(PARTITIONS_A_REQUEST) {
        client.produce("many", first..(first + PARTITIONS_A_REQUEST as i32).min(partitions), Some(producer))?;
    }
    let took = began.elapsed().as_secs_f64();
    writeln!(out, "  {which} round of batches to {partitions} partitions: {took:.3} s")
}

fn restarts(out: &mut dyn Write, process: &mut Process, partitions: i32) -> io::Result<()> {
    let mut again = Vec::new();
    for _ in 0..RESTARTS {
        process.restart()?;
        process.connect()?.check_serving("many", partitions)?;
        again.push(process.age());
    }
    write_times(out, &format!("restart after SIGKILL with {partitions} partitions"), &mut again)
}

/// Very many partitions: memory, and starting again.
fn crowd(program: &Path, out: &mut dyn Write) -> io::Result<()> {
    let mut process = Process::start(program)?;
    let mut client = process.connect()?;
    create(out, &mut client, CROWD)?;
    std::thread::sleep(SETTLED);
    write_memory(out, &format!("{CROWD} fresh partitions"), &process)?;
    write_round(out, &mut client, CROWD, "first")?;
    std::thread::sleep(SETTLED);
    write_memory(out, &format!("{CROWD} partitions with a record each"), &process)?;
    write_idle(out, &format!("{CROWD} partitions"), &process)?;
    restarts(out, &mut process, CROWD)?;
    std::thread::sleep(SETTLED);
    write_memory(out, &format!("{CROWD} partitions after a restart"), &process)
}

/// Very many segments in few partitions: starting again.
fn segments(program: &Path, out: &mut dyn Write) -> io::Result<()> {
    let mut process = Process::start(program)?;
    let mut client = process.connect()?;
    client.create_topic("many", segments::PARTITIONS)?;
    client.produce("many", 0..segments::PARTITIONS, None)?;
    process.restart_after(|logs| segments::fill(logs, "many"))?;
    process.connect()?.check_serving("many", segments::PARTITIONS)?;
    restarts(out, &mut process, segments::PARTITIONS)?;
    writeln!(out, "    (of {} segments each)", segments::SEGMENTS)?;
    write_memory(out, "that many segments", &process)
}

fn write_times(out: &mut dyn Write, what: &str, times: &mut [Duration]) -> io::Result<()> {
    times.sort_unstable();
    let ms = |at: usize| times[at].as_secs_f64() * 1000.0;
    writeln!(out, "  {what}: {:.0} ms ({:.0}-{:.0})", ms(times.len() / 2), ms(0), ms(times.len() - 1))
}

fn write_memory(out: &mut dyn Write, when: &str, process: &Process) -> io::Result<()> {
    let (all, own) = process.memory_mb()?;
    writeln!(out, "  memory, {when}: {all:.1} MB, of which {own:.1} MB are not the program's file")
}

fn write_idle(out: &mut dyn Write, when: &str, process: &Process) -> io::Result<()> {
    let (percent, wakes) = process.idle(IDLE)?;
    writeln!(out, "  idle, {when}: {percent:.3} % of a core, {wakes:.0} wakes a second")
}
