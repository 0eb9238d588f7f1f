//! The table of cells: what is measured, how, and in which form of the run.

mod cluster;
mod cold;
mod faults;
mod footprint;
mod idle;
mod load;
mod restart;
mod telemetry;

use std::time::Duration;

use anyhow::Result;

use super::Bench;
use super::results::{CellRuns, Figures, Group, Run, Side};
use super::sides::binary;
use super::target::ROWS;
use restart::Left;

/// When something is measured, unless it is asked for by name: then always.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum When {
    Always,
    /// Only in the full form: it takes a minute or more.
    Full,
    Never,
}

/// How a cell is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) enum How {
    /// A workload of the load tool on the two brokers that run side by side, for so long.
    Load(Duration),
    /// Nothing is asked of the two brokers; they have a topic of so many partitions.
    Idle { partitions: u32 },
    /// Fresh brokers, one at a time, measured by a function.
    Fresh(fn(&Bench, Side) -> Result<Figures>),
    /// Brokers that are killed and started again on what was left.
    Restart(Left),
    /// A workload on the two clusters that run side by side, for so long.
    ClusterLoad(&'static str, Duration),
    /// Nothing is asked of the two clusters; they have a topic of so many partitions.
    ClusterIdle { partitions: u32 },
    /// Something is done to the clusters that run side by side, and a probe tells how that is felt.
    Faults(fn(&mut Bench, Side) -> Result<Figures>),
    /// Fresh clusters, one at a time, measured by a function.
    FreshCluster(fn(&Bench, Side) -> Result<Figures>),
}

/// One cell.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cell {
    pub(crate) name: &'static str,
    pub(crate) how: How,
    pub(crate) taffrail: When,
    pub(crate) kafka: When,
}

const fn load(name: &'static str, seconds: u64) -> Cell {
    Cell { name, how: How::Load(Duration::from_secs(seconds)), taffrail: When::Always, kafka: When::Always }
}

const fn cluster_load(name: &'static str, workload: &'static str, seconds: u64) -> Cell {
    let how = How::ClusterLoad(workload, Duration::from_secs(seconds));
    Cell { name, how, taffrail: When::Always, kafka: When::Always }
}

const fn cell(name: &'static str, how: How, taffrail: When, kafka: When) -> Cell {
    Cell { name, how, taffrail, kafka }
}

/// All cells, in the order in which they run: those that need fresh brokers before and after those that share a pair.
#[rustfmt::skip] // a table: one cell a line
pub(crate) const CELLS: &[Cell] = &[
    cell("binary", How::Fresh(|_, _| binary_size()), When::Always, When::Never),
    cell("start", How::Fresh(footprint::start), When::Always, When::Always),
    cell("restart", How::Restart(Left::Little), When::Always, When::Always),
    cell("load-memory", How::Fresh(footprint::load_memory), When::Always, When::Always),
    cell("idle", How::Idle { partitions: 0 }, When::Always, When::Always),
    load("produce", 5),
    load("produce-lz4", 5),
    load("produce-max", 4),
    load("single", 4),
    load("fsync", 4),
    load("consume", 4),
    load("consume-max", 8),
    load("e2e", 8),
    load("fanout", 4),
    cell("idle-1000", How::Idle { partitions: 1000 }, When::Always, When::Always),
    cell("partitions", How::Fresh(footprint::partitions), When::Always, When::Always),
    cell("restart-2000", How::Restart(Left::Partitions), When::Always, When::Full),
    cell("restart-segments", How::Restart(Left::Segments), When::Full, When::Never),
    cell("telemetry", How::Fresh(telemetry::cost), When::Always, When::Never),
    cell("cold", How::Fresh(cold::measure), When::Full, When::Full),
    cell("start-six", How::FreshCluster(cluster::start), When::Always, When::Always),
    cell("restart-six", How::FreshCluster(cluster::restart), When::Always, When::Always),
    cell("rf3-partitions", How::FreshCluster(cluster::partitions), When::Always, When::Always),
    cell("metadata-100000", How::FreshCluster(cluster::metadata), When::Full, When::Never),
    cluster_load("rf3-produce", "produce", 5),
    cluster_load("rf3-produce-lz4", "produce-lz4", 5),
    cluster_load("rf3-single", "single", 4),
    cluster_load("rf3-fsync", "fsync", 4),
    cluster_load("rf3-e2e", "e2e", 8),
    cell("rf3-idle-1000", How::ClusterIdle { partitions: 1000 }, When::Always, When::Always),
    cell("move-leader", How::Faults(faults::moves), When::Always, When::Always),
    cell("kill-leader", How::Faults(faults::kills), When::Always, When::Always),
    cell("stop-leader", How::Faults(faults::halts), When::Always, When::Always),
    cell("kill-controller", How::Faults(faults::controllers), When::Always, When::Always),
];

impl Cell {
    /// What it is measured with.
    pub(crate) fn group(&self) -> Group {
        match self.how {
            How::Load(_) | How::Idle { .. } | How::Fresh(_) | How::Restart(_) => Group::OneNode,
            _ => Group::Replicated,
        }
    }

    /// Measures the cell: the sides take turns, forth and back. What fails is a remark, and the rest goes on.
    pub(crate) fn measure(&self, bench: &mut Bench) -> CellRuns {
        let mut runs = CellRuns { load_average: super::machine::load_average(), ..CellRuns::default() };
        if !matches!(self.how, How::Load(_) | How::Idle { .. }) {
            bench.pair = None;
        }
        if !matches!(self.how, How::ClusterLoad(..) | How::ClusterIdle { .. } | How::Faults(_)) {
            bench.clusters = None;
        }
        let both = match self.how {
            How::Idle { partitions } => Some(idle::measure(bench, self.name, partitions)),
            How::ClusterIdle { partitions } => Some(idle::measure_clusters(bench, self.name, partitions)),
            _ => None,
        };
        if let Some(both) = both {
            match both {
                Ok(both) => runs.runs = both,
                Err(error) => runs.remarks.push(format!("{error:#}")),
            }
            return runs;
        }
        for side in self.turns(bench) {
            let taken = match self.how {
                How::Load(time) => load::measure(bench, side, self.name, time),
                How::ClusterLoad(workload, time) => load::measure_cluster(bench, side, workload, time),
                How::Faults(measure) => measure(bench, side),
                How::FreshCluster(measure) => measure(bench, side),
                How::Fresh(measure) => measure(bench, side),
                How::Restart(left) => restart::measure(bench, side, left),
                How::Idle { .. } | How::ClusterIdle { .. } => unreachable!("measured above"),
            };
            match taken {
                Ok(figures) => {
                    bench.say(&format!("  {} {}", side.name(), brief(self.name, &figures)));
                    runs.runs.push(Run { side, figures });
                }
                Err(error) => {
                    bench.say(&format!("  {} failed: {error:#}", side.name()));
                    runs.remarks.push(format!("{}: {error:#}", side.name()));
                }
            }
        }
        runs
    }

    /// Who is measured, turn by turn.
    fn turns(&self, bench: &Bench) -> Vec<Side> {
        use Side::{Kafka, Taffrail};
        let once: &[Side] = match (self.how, bench.form.full) {
            (How::Load(_) | How::ClusterLoad(..), true) => {
                &[Taffrail, Kafka, Kafka, Taffrail, Taffrail, Kafka, Kafka, Taffrail]
            }
            (How::Load(_) | How::ClusterLoad(..), false) => &[Taffrail, Kafka, Kafka, Taffrail],
            // Each of these runs is many faults already, or takes Kafka's six processes a minute.
            (How::Faults(_), _) => &[Taffrail, Kafka],
            // What starts and fills brokers takes its time, above all Kafka's.
            (_, true) => &[Taffrail, Kafka, Kafka, Taffrail],
            (_, false) => &[Taffrail, Kafka, Taffrail],
        };
        let measured = |side: &Side| {
            let when = if *side == Taffrail { self.taffrail } else { self.kafka };
            when == When::Always || (when == When::Full && (bench.form.full || bench.form.names(self.name)))
        };
        once.iter().copied().filter(measured).collect()
    }
}

fn binary_size() -> Result<Figures> {
    let size = std::fs::metadata(binary())?.len();
    Ok(Figures::from([("size_mb".to_owned(), size as f64 / 1e6)]))
}

/// The figures that the report shows, for those who watch, and what the client took.
fn brief(cell: &str, figures: &Figures) -> String {
    let shown = |name: &str| name == "client_cores" || ROWS.iter().any(|row| row.cell == cell && row.figure == name);
    let words: Vec<String> =
        figures.iter().filter(|(name, _)| shown(name)).map(|(name, value)| format!("{name}={value:.4}")).collect();
    words.join(" ")
}
