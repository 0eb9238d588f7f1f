//! The regression check of `make test-long`: CPU a GB and CPU a record against the committed figures.
//!
//! Machines differ, and differ from hour to hour, so CPU is taken relative to the floors measured beside it, of several
//! tries the best one counts, and the bound is wide: this finds what got dearer by half, not by a hundredth.

use std::io::{self, Write};
use std::time::Duration;

use anyhow::{Context, Result, ensure};

use super::results::{Figures, Group, Report, Side, committed};
use super::sides::prepare;
use super::tool::Span;
use super::{Bench, Form, floors};

/// Workloads and the figures of theirs that are compared.
const WATCHED: &[(&str, &str)] = &[
    ("produce", "cpu_s_per_gb"),
    ("produce-lz4", "cpu_s_per_gb"),
    ("single", "cpu_us_per_record"),
    ("fanout", "cpu_us_per_record"),
    ("consume", "cpu_s_per_gb"),
];
/// What counts as the machine's speed: work on the processor and in the kernel's network. Appending is left out, as the
/// disk behind it makes it vary by more than what is looked for.
const SPEED: &[&str] = &["send_cpu_s_per_gb", "receive_cpu_s_per_gb", "sendfile_cpu_s_per_gb", "crc_cpu_s_per_gb"];
/// How many times dearer than the committed figure is a failure.
const TOLERATED: f64 = 1.5;
/// Tries of each workload, of which the best one counts: so many, and more while it is too dear. Other work only adds to a cost, and
/// the page cache of a busy hour makes appending dearer by half for seconds.
const TRIES: usize = 3;
const TRIES_MAX: usize = 10;
const SPAN: Span =
    Span { measured: Duration::from_secs(5), warm_up: Duration::from_secs(1), settle: Duration::from_secs(2) };

/// Measures, compares, and tells each comparison.
///
/// # Errors
/// If something got dearer than is tolerated, or nothing can be measured.
pub(crate) fn run(form: &Form) -> Result<()> {
    let before = Report::load(&committed(Group::OneNode))?;
    let bench = Bench::new(form)?;
    let mut broker = prepare(Side::Taffrail, bench.folder(), bench.ports)?;
    let waiting = bench.tool.await_ack(broker.as_ref())?;
    broker.start()?;
    waiting.at_ns()?;
    let now = speed(&floors::measure(bench.folder())?)?;
    let then = before.floors.iter().map(speed).collect::<Result<Vec<f64>>>()?;
    let then = then.into_iter().fold(f64::INFINITY, f64::min);
    let mut dearer = Vec::new();
    for (workload, figure) in WATCHED {
        let Some(committed) = before.summary(workload, figure, Side::Taffrail) else { continue };
        let (mut best, mut times) = (f64::INFINITY, f64::INFINITY);
        for tried in 0..TRIES_MAX {
            if tried >= TRIES && times <= TOLERATED {
                break;
            }
            let figures = bench.tool.measure(broker.as_ref(), workload, &SPAN, &[])?;
            best = best.min(figures.get(*figure).copied().with_context(|| format!("{workload}: no {figure}"))?);
            times = times_dearer((best, now), (committed.median, then));
        }
        writeln!(io::stdout(), "{workload} {figure}: {best:.3}, committed {:.3}: {times:.2} times", committed.median)?;
        if times > TOLERATED {
            dearer.push(format!("{workload} {figure} takes {times:.2} times the committed figure"));
        }
    }
    ensure!(dearer.is_empty(), "dearer than the {TOLERATED} times that are tolerated: {}", dearer.join("; "));
    Ok(())
}

/// How dear the machine's own work is.
fn speed(floors: &Figures) -> Result<f64> {
    let parts = SPEED.iter().map(|part| floors.get(*part).copied().with_context(|| format!("no floor {part}")));
    parts.sum()
}

/// How many times dearer a cost is now than then, each beside what the machine's own work took at the time.
fn times_dearer(now: (f64, f64), then: (f64, f64)) -> f64 {
    (now.0 / now.1) / (then.0 / then.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slower_machine_is_no_regression() {
        assert_eq!(times_dearer((3.0, 2.0), (1.5, 1.0)), 1.0);
        assert_eq!(times_dearer((3.0, 1.0), (1.5, 1.0)), 2.0);
    }

    #[test]
    fn the_speed_of_a_machine_is_the_sum_of_its_parts() {
        let mut floors: Figures = SPEED.iter().map(|part| ((*part).to_owned(), 0.25)).collect();
        assert_eq!(speed(&floors).unwrap(), 1.0);
        floors.remove(SPEED[0]);
        assert!(speed(&floors).is_err());
    }
}
