//! Who should own connections and partitions: shards, a work-stealing runtime, or shards with partitions of their own?
//!
//! The same small produce server runs in three ways ([`variant::Variant`]), each time as a process of its own, under the
//! same load. The variants take turns, forth and back, so that a slow phase of the machine hits all of them; what is
//! reported of each are medians.

mod load;
mod logs;
mod owners;
mod server;
pub(crate) mod usage;
mod variant;
mod wire;

use std::fs;
use std::io::{self, BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tempfile::TempDir;

use load::Load;
pub(crate) use server::serve;
pub(crate) use usage::Usage;
use variant::Variant;

/// How long one run is measured.
const RUN: Duration = Duration::from_secs(2);
/// How long it runs before.
const WARM_UP: Duration = Duration::from_millis(200);
/// Runs of each variant under each load; odd, for the median.
const ROUNDS: usize = 3;
/// Partitions in the usual case, and connections and requests in flight per connection to measure with.
const PARTITIONS: usize = 8;
const LOADS: [(usize, usize); 6] = [(1, 1), (16, 1), (64, 1), (1, 5), (16, 5), (64, 5)];
/// All that is sent goes to one partition: the worst case for a lock.
const HOT_LOADS: [(usize, usize); 2] = [(64, 1), (64, 5)];

/// What one run has shown.
struct Run {
    requests_per_s: f64,
    cpu_us: f64,
    switches: f64,
    p50_us: f64,
    p99_us: f64,
}

/// Measures all variants under all loads and writes a table, one row as soon as it is known.
///
/// # Errors
/// When a server or a socket fails, or where `/proc` does not count the time of threads.
pub(crate) fn measure() -> io::Result<()> {
    let threads = std::thread::available_parallelism()?.get();
    let mut out = io::stdout();
    writeln!(out, "{threads} processors, {threads} server threads; load average {}", load_average()?)?;
    writeln!(
        out,
        "| connections | in flight | partitions | variant | server CPU us | switches | 1000 requests/s | p50 us | p99 us |"
    )?;
    writeln!(out, "|--:|--:|--:|---|--:|--:|--:|--:|--:|")?;
    let usual = LOADS.map(|(connections, in_flight)| Load { connections, in_flight, partitions: PARTITIONS });
    let hot = HOT_LOADS.map(|(connections, in_flight)| Load { connections, in_flight, partitions: 1 });
    for load in usual.into_iter().chain(hot) {
        let mut runs = Variant::ALL.map(|variant| (variant, Vec::with_capacity(ROUNDS)));
        for round in 0..ROUNDS {
            if round > 0 {
                runs.reverse();
            }
            for (variant, runs) in &mut runs {
                runs.push(run(*variant, threads, &load)?);
            }
        }
        runs.sort_by_key(|(variant, _)| *variant);
        for (variant, runs) in &runs {
            report(&mut out, &load, *variant, runs)?;
        }
    }
    writeln!(out, "load average {}", load_average()?)
}

/// Writes the row of one variant: medians, and the span where it tells how far to trust them.
fn report(out: &mut impl Write, load: &Load, variant: Variant, runs: &[Run]) -> io::Result<()> {
    let sorted = |of: fn(&Run) -> f64| {
        let mut values: Vec<f64> = runs.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values
    };
    let median = |of| sorted(of)[runs.len() / 2];
    let spread = |of, digits| {
        let values = sorted(of);
        let (least, most) = (values[0], values[values.len() - 1]);
        format!("{:.digits$} ({least:.digits$}-{most:.digits$})", values[values.len() / 2])
    };
    writeln!(
        out,
        "| {} | {} | {} | {} | {} | {:.2} | {} | {:.0} | {:.0} |",
        load.connections,
        load.in_flight,
        load.partitions,
        variant.name(),
        spread(|run| run.cpu_us, 1),
        median(|run| run.switches),
        spread(|run| run.requests_per_s / 1000.0, 1),
        median(|run| run.p50_us),
        median(|run| run.p99_us),
    )?;
    out.flush()
}

/// Puts `load` on a fresh server for a while.
fn run(variant: Variant, threads: usize, load: &Load) -> io::Result<Run> {
    let server = Server::start(variant, threads, load.partitions)?;
    let running = load::start(server.address, load, WARM_UP, RUN)?;
    std::thread::sleep(WARM_UP);
    let before = Usage::of(server.child.id())?;
    std::thread::sleep(RUN);
    let used = Usage::of(server.child.id())?.since(&before);
    let mut waits_us = running.finish()?;
    waits_us.sort_unstable();
    let count = waits_us.len().max(1) as f64;
    let at = |part: f64| waits_us.get((count * part) as usize).copied().map_or(f64::NAN, f64::from);
    Ok(Run {
        requests_per_s: count / RUN.as_secs_f64(),
        cpu_us: used.cpu_ns as f64 / 1000.0 / count,
        switches: used.switches as f64 / count,
        p50_us: at(0.5),
        p99_us: at(0.99),
    })
}

fn load_average() -> io::Result<String> {
    let text = fs::read_to_string("/proc/loadavg")?;
    Ok(text.split(' ').next().unwrap_or_default().to_owned())
}

/// A server as a process of its own, with a data directory of its own. Ends, and takes its files away, when dropped.
struct Server {
    child: Child,
    address: SocketAddr,
    _dir: TempDir,
}

impl Server {
    fn start(variant: Variant, threads: usize, partitions: usize) -> io::Result<Self> {
        let dir = TempDir::with_prefix("taffrail-bench-")?;
        let mut child = Command::new(std::env::current_exe()?)
            .args(["runtimes-server", variant.name(), &threads.to_string(), &partitions.to_string()])
            .arg(dir.path())
            .stdout(Stdio::piped())
            .spawn()?;
        let mut line = String::new();
        if let Some(stdout) = child.stdout.take() {
            BufReader::new(stdout).read_line(&mut line)?;
        }
        match line.trim().parse() {
            Ok(address) => Ok(Self { child, address, _dir: dir }),
            Err(error) => {
                stop(&mut child);
                Err(io::Error::other(format!("the server said {line:?} in place of its address: {error}")))
            }
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        stop(&mut self.child);
    }
}

/// Ends a process, which may have ended by itself.
fn stop(child: &mut Child) {
    let _ = child.kill();
    let _ = child.wait();
}
