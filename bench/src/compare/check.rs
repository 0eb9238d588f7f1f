//! The regression check of `make test-long`: CPU a GB and CPU a record against the committed figures.
//!
//! The same work costs a multiple on another machine, or an hour later on this one, and the floors that are measured beside it
//! follow that only in part. So the yardstick is Kafka: both brokers take turns, as in the report, and what is compared
//! is how much of Kafka's CPU ours takes, now and in the committed figures.

use std::io::{self, Write};

use anyhow::{Context, Result, ensure};

use super::cells::CELLS;
use super::results::{CellRuns, Group, Report, Side, committed};
use super::stats::ratio;
use super::{Bench, Form};

/// Cells and the figures of theirs that are compared.
const WATCHED: &[(&str, &str)] = &[
    ("produce", "cpu_s_per_gb"),
    ("produce-lz4", "cpu_s_per_gb"),
    ("single", "cpu_us_per_record"),
    ("consume", "cpu_s_per_gb"),
    ("fanout", "cpu_us_per_record"),
];
/// How many times the committed share of Kafka's CPU is a failure.
const TOLERATED: f64 = 1.4;
/// How often both sides take turns while a cell is too dear: other work on the machine, which meets one side and not the
/// other, goes by, and what got dearer stays so.
const ROUNDS: usize = 3;

/// Measures, compares, and tells each comparison.
///
/// # Errors
/// If something got dearer than is tolerated, or cannot be measured, or is missing in the committed figures.
pub(crate) fn run(form: &Form) -> Result<()> {
    let before = Report::load(&committed(Group::OneNode))?;
    let mut bench = Bench::new(form)?;
    let mut dearer = Vec::new();
    for (name, figure) in WATCHED {
        let then = share(&before, name, figure).with_context(|| format!("the committed figures have no {name}"))?;
        let (now, rounds) = measure(&mut bench, name, figure, then)?;
        let times = now / then;
        writeln!(
            io::stdout(),
            "{name} {figure}: {now:.3} of Kafka's, committed {then:.3}: {times:.2} times ({rounds} rounds)"
        )?;
        if times > TOLERATED {
            dearer.push(format!("{name} {figure}: {times:.2} times"));
        }
    }
    ensure!(
        dearer.is_empty(),
        "more than {TOLERATED} times the committed share of Kafka's CPU, which is tolerated: {}",
        dearer.join("; ")
    );
    Ok(())
}

/// Our share of Kafka's CPU in a cell, and after how many rounds: one is enough unless it is more than is tolerated beside `then`.
fn measure(bench: &mut Bench, name: &str, figure: &str, then: f64) -> Result<(f64, usize)> {
    let cell = CELLS.iter().find(|cell| cell.name == name).with_context(|| format!("no cell {name}"))?;
    let mut report = Report::default();
    let mut round = 0;
    loop {
        round += 1;
        bench.say(&format!("cell {name}"));
        let CellRuns { runs, remarks, .. } = cell.measure(bench);
        ensure!(remarks.is_empty(), "{name}: {}", remarks.join("; "));
        report.cells.entry(name.to_owned()).or_default().runs.extend(runs);
        let now = share(&report, name, figure).with_context(|| format!("{name}: no {figure}"))?;
        if now <= then * TOLERATED || round == ROUNDS {
            return Ok((now, round));
        }
    }
}

/// What part of Kafka's cost is ours, by the medians of a report.
fn share(report: &Report, cell: &str, figure: &str) -> Option<f64> {
    let of = |side| report.summary(cell, figure, side);
    ratio(&of(Side::Taffrail)?, &of(Side::Kafka)?)
}

#[cfg(test)]
mod tests {
    use super::super::results::{Figures, Run};
    use super::*;

    fn report(costs: &[(Side, f64)]) -> Report {
        let run = |(side, cost): &(Side, f64)| Run {
            side: *side,
            figures: Figures::from([("cpu_s_per_gb".to_owned(), *cost)]),
        };
        let runs = CellRuns { runs: costs.iter().map(run).collect(), ..CellRuns::default() };
        Report { cells: [("produce".to_owned(), runs)].into(), ..Report::default() }
    }

    #[test]
    fn a_slower_machine_is_no_regression() {
        let quick = report(&[(Side::Taffrail, 0.5), (Side::Kafka, 1.0)]);
        let slow = report(&[(Side::Taffrail, 1.0), (Side::Kafka, 2.0)]);
        assert_eq!(share(&quick, "produce", "cpu_s_per_gb"), share(&slow, "produce", "cpu_s_per_gb"));
    }

    #[test]
    fn what_is_compared_is_of_both_sides() {
        assert_eq!(share(&report(&[(Side::Taffrail, 0.5)]), "produce", "cpu_s_per_gb"), None);
        assert_eq!(share(&report(&[]), "produce", "cpu_s_per_gb"), None);
    }

    #[test]
    fn what_is_watched_is_a_cell_of_the_committed_report() {
        let committed = Report::load(&committed(Group::OneNode)).unwrap();
        for (cell, figure) in WATCHED {
            assert!(share(&committed, cell, figure).is_some(), "{cell} {figure}");
        }
    }
}
