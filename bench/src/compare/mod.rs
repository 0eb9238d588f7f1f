//! Taffrail beside Apache Kafka: both are driven in turns by one neutral load tool in one run, and what came of it is
//! written to `docs/benchmarks.md` and `bench/results/latest.json`.

mod cells;
mod cgroup;
pub(crate) mod check;
mod floors;
mod machine;
mod report;
mod results;
mod sides;
mod stats;
mod target;
mod tool;
mod versions;

use std::io::{self, Write};
use std::path::Path;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use clap::Args;
use tempfile::TempDir;

use cells::{CELLS, Cell, When};
use results::{Group, Report, Side, committed, workspace};
use sides::{BROKERS, Broker, Cluster, Ports, prepare, prepare_cluster};
use tool::Tool;

/// Load before the first cell of a pair, so that the JVM has compiled its code. The other side needs none.
const PRIME_KAFKA: Duration = Duration::from_secs(30);
const PRIME_TAFFRAIL: Duration = Duration::from_secs(4);

/// What to run.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct Form {
    /// Three brokers and three controllers, in place of one node
    #[arg(long)]
    replicated: bool,
    /// Cells to run, separated by commas; what came of them is then printed and kept nowhere
    #[arg(long, value_delimiter = ',', value_name = "CELL")]
    only: Vec<String>,
    /// Puts these cells into the committed report, in place of what it has of them
    #[arg(long, requires = "only")]
    keep: bool,
    /// More and longer runs, and the cells that take minutes
    #[arg(long)]
    full: bool,
    /// First of the ports to use: those up to 35 above, and three that are 100 above
    #[arg(long, default_value_t = 21092)]
    port: u16,
}

impl Form {
    /// Whether a cell was asked for by name.
    fn names(&self, cell: &str) -> bool {
        self.only.iter().any(|name| name == cell)
    }

    fn runs(&self, cell: &Cell) -> bool {
        if !self.only.is_empty() {
            return self.names(cell.name);
        }
        cell.group() == self.group() && (self.full || cell.taffrail == When::Always)
    }

    fn group(&self) -> Group {
        if self.replicated { Group::Replicated } else { Group::OneNode }
    }

    fn title(&self) -> String {
        match (self.only.is_empty(), self.full) {
            (false, _) => self.only.join(","),
            (true, true) => "full".to_owned(),
            (true, false) => "short".to_owned(),
        }
    }
}

/// A run: what all cells need.
#[derive(Debug)]
struct Bench {
    form: Form,
    tool: Tool,
    ports: Ports,
    folder: TempDir,
    pair: Option<Pair<Box<dyn Broker>>>,
    clusters: Option<Pair<Box<dyn Cluster>>>,
}

/// The two sides that run side by side while cells take turns with them.
struct Pair<T> {
    taffrail: T,
    kafka: T,
}

impl<T> Pair<T> {
    fn of(&self, side: Side) -> &T {
        match side {
            Side::Taffrail => &self.taffrail,
            Side::Kafka => &self.kafka,
        }
    }

    fn of_mut(&mut self, side: Side) -> &mut T {
        match side {
            Side::Taffrail => &mut self.taffrail,
            Side::Kafka => &mut self.kafka,
        }
    }
}

impl<T> std::fmt::Debug for Pair<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Pair")
    }
}

impl Bench {
    fn new(form: &Form) -> Result<Self> {
        let ports = Ports { first: form.port };
        ports.check()?;
        let folder = TempDir::with_prefix("taffrail-bench-").context("make a folder for both sides' data")?;
        machine::spread(folder.path());
        Ok(Self { form: form.clone(), tool: Tool::build()?, ports, folder, pair: None, clusters: None })
    }

    /// Where brokers make their folders.
    fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Starts and primes the pair, if it does not run.
    fn start_pair(&mut self) -> Result<()> {
        if self.pair.is_some() {
            return Ok(());
        }
        self.say("  starting and priming both brokers");
        let start = |side, time| -> Result<Box<dyn Broker>> {
            let mut broker = prepare(side, self.folder(), self.ports)?;
            let waiting = self.tool.await_ack(broker.as_ref())?;
            broker.start()?;
            waiting.at_ns()?;
            self.tool.prime(broker.as_ref(), time)?;
            Ok(broker)
        };
        self.pair =
            Some(Pair { taffrail: start(Side::Taffrail, PRIME_TAFFRAIL)?, kafka: start(Side::Kafka, PRIME_KAFKA)? });
        Ok(())
    }

    /// A broker of the pair.
    fn broker(&self, side: Side) -> Result<&dyn Broker> {
        Ok(self.pair.as_ref().context("the pair does not run")?.of(side).as_ref())
    }

    /// Starts and primes both clusters, if they do not run.
    fn start_clusters(&mut self) -> Result<()> {
        if self.clusters.is_some() {
            return Ok(());
        }
        self.say("  starting and priming both clusters");
        let start = |side, time| -> Result<Box<dyn Cluster>> {
            let mut cluster = prepare_cluster(side, self.folder(), self.ports)?;
            let waiting = self.tool.await_ack_of(BROKERS.len(), cluster.as_ref())?;
            cluster.start()?;
            waiting.at_ns()?;
            self.tool.prime(cluster.as_ref(), time)?;
            Ok(cluster)
        };
        self.clusters =
            Some(Pair { taffrail: start(Side::Taffrail, PRIME_TAFFRAIL)?, kafka: start(Side::Kafka, PRIME_KAFKA)? });
        Ok(())
    }

    /// One of the two clusters that run.
    fn cluster(&self, side: Side) -> Result<&dyn Cluster> {
        Ok(self.clusters.as_ref().context("the clusters do not run")?.of(side).as_ref())
    }

    /// As [`Self::cluster`], to do something to it.
    fn cluster_mut(&mut self, side: Side) -> Result<&mut dyn Cluster> {
        Ok(self.clusters.as_mut().context("the clusters do not run")?.of_mut(side).as_mut())
    }

    /// Tells those who watch.
    fn say(&self, line: &str) {
        // Nobody is harmed if nobody can be told.
        let _ = writeln!(io::stderr(), "{line}");
    }

    fn floors(&self, report: &mut Report) -> Result<()> {
        self.say("floors: loopback, append, sendfile, CRC-32C, fdatasync");
        report.floors.push(floors::measure(self.folder())?);
        Ok(())
    }
}

/// Runs the cells that `form` asks for. A whole run renews the committed report; a part is printed,
/// and put into the report if it shall be kept.
///
/// # Errors
/// If a side cannot be had, or a name is not that of a cell. A cell that fails is a remark in the report.
pub(crate) fn run(form: &Form) -> Result<()> {
    for name in &form.only {
        let known: Vec<&str> = CELLS.iter().map(|cell| cell.name).collect();
        ensure!(known.contains(&name.as_str()), "no cell {name:?}; there are {}", known.join(", "));
    }
    let mut bench = Bench::new(form)?;
    let mut report = Report {
        date: versions::today()?,
        form: form.title(),
        machine: machine::Machine::look(bench.folder())?,
        versions: versions::all()?,
        ..Report::default()
    };
    bench.floors(&mut report)?;
    let taken = format!("{}, {}", report.date, report.versions.get("Taffrail").map_or("", String::as_str));
    for cell in CELLS.iter().filter(|cell| form.runs(cell)) {
        bench.say(&format!("cell {}", cell.name));
        let mut runs = cell.measure(&mut bench);
        runs.taken.clone_from(&taken);
        report.cells.insert(cell.name.to_owned(), runs);
    }
    (bench.pair, bench.clusters) = (None, None);
    bench.floors(&mut report)?;
    if form.only.is_empty() {
        report.save(&committed(form.group()))?;
        return render();
    }
    io::stdout().write_all(report::table(&report).as_bytes())?;
    if form.keep {
        keep(&report)?;
        return render();
    }
    Ok(())
}

/// Puts the cells of a report into the committed ones.
fn keep(report: &Report) -> Result<()> {
    for group in [Group::OneNode, Group::Replicated] {
        let of_group = |name: &str| CELLS.iter().any(|cell| cell.name == name && cell.group() == group);
        let mut cells = report.cells.iter().filter(|(name, _)| of_group(name)).peekable();
        if cells.peek().is_none() {
            continue;
        }
        let mut kept = Report::load(&committed(group))?;
        kept.cells.extend(cells.map(|(name, runs)| (name.clone(), runs.clone())));
        kept.save(&committed(group))?;
    }
    Ok(())
}

/// Writes `docs/benchmarks.md` from the committed figures and the notes beside it.
///
/// # Errors
/// If a file cannot be read or written.
pub(crate) fn render() -> Result<()> {
    let notes = std::fs::read_to_string(workspace().join("docs/benchmarks-notes.md")).unwrap_or_default();
    let page =
        report::page(&Report::load(&committed(Group::OneNode))?, &Report::load(&committed(Group::Replicated))?, &notes);
    std::fs::write(workspace().join("docs/benchmarks.md"), page).context("write docs/benchmarks.md")
}
