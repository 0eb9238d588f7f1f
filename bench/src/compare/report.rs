//! The report in Markdown: a pure function of the figures and the notes.

use std::collections::BTreeMap;
use std::fmt::Write;

use super::results::{Report, Side};
use super::stats::{Summary, ratio};
use super::target::{Goal, ROWS, Row, Verdict};

/// How both sides are set up; said in the page, and true of `sides`.
const SETTINGS: &str = "\
Both sides keep their defaults: one node, replication factor 1, topics without settings of their own but
`file.delete.delay.ms=1000`, so that the files of a finished cell go. Acknowledged means the same on both sides in every
cell: `acks=all`, in the page cache; in the cell of fsyncs `flush.messages=1` on both. Data lies in one folder of one
file system. Kafka runs with the heap and the collector of its own scripts (`-Xmx1G -Xms1G`, G1) and gets 30 seconds of
mixed load before its first cell, so that its code is compiled. Both log to files as they are shipped; both connections are
plaintext on loopback.
";

/// The same for the clusters.
const CLUSTER_SETTINGS: &str = "\
Clusters are three brokers and three controllers, six processes on each side, with their defaults but
`default.replication.factor=3` and `min.insync.replicas=2`; internal topics have three replicas on both sides. Acknowledged
means `acks=all` everywhere: all in-sync replicas, in the page cache; in the cell of forced flushes, on the disk of every
replica (`flush.messages=1`).
";

/// How figures of clusters come about.
const CLUSTER_METHOD: &str = "\
- CPU is that of the three brokers together; idle, of all six processes. Loads take turns as on one node; what takes
  Kafka's six processes a minute is measured once or twice, and where faults are repeated the table says how often. Clusters
  are started anew only for the cells that start and stop them: the others run on two that stay, each idle while the other
  is measured.
- Faults: a probe sends one record after the other with `acks=all` to one partition and repeats it each millisecond until it
  is acknowledged. As soon as a try is refused or takes 10 ms the probe asks all brokers who leads. The time runs from the
  signal to the first acknowledgement by the new leader; a move's is the longest that a record waited around it, beside a
  franz-go client with its defaults that must not see an error. Before each fault all replicas are in sync, all controllers
  have caught up, and the leader has been the same for 0.3 s. A killed process is started again at once afterwards.
- A metadata change is a CreateTopics that is repeated each 2 ms, at one broker after the other, until one has done it.
- Start: Taffrail's six processes at once. Kafka's controllers first and its brokers when those are up, because its brokers can
  cling to a quorum's first leader. Stop: Taffrail's at once, Kafka's brokers before its controllers.
- The floor of a produce is here three times receive, append and CRC-32C, once for each replica, and two sends.
";

/// How figures come about.
const METHOD: &str = "\
- The load tool (`bench/load`, Go) is the same for both sides. It sends requests that were encoded beforehand over plain
  sockets, five on the way on each connection, as an idempotent producer. End-to-end latency is measured with franz-go on
  both ends, from the time when a record was due. It shares the processors with the broker, so rates flat out are those of
  broker and client together; CPU is the broker's alone, from `/proc/PID/stat`.
- GB and MB are decimal and count record values before compression; for reading, the bytes of
  whole batches: Kafka cuts the last batch of an answer, which a client has to fetch again.
- Sides take turns, Taffrail, Kafka, Kafka, Taffrail. A figure is the median of its runs, with the least and the most in
  brackets. While one broker of a pair is loaded the other one is idle.
- The ratio is Taffrail's median to Kafka's. *Times the floor* is CPU to what the machine itself takes for the same bytes:
  receive, append and CRC-32C for a produce, `sendfile` for a read.
";

/// Said where more wanted to run than the machine has cores.
const BUSY: &str = "\
**The machine was busy with other work.** CPU ratios stand; latencies, rates and start times are longer on both sides than on a
quiet machine, and more so for a JVM with its many threads, so their ratios say little.

";

/// The same where Kafka's six processes share the cores.
const CLUSTER_BUSY: &str = "\
**The machine was busy with other work.** All figures are worse on both sides than on a quiet machine, and Kafka's by far more:
six JVMs that share two cores with other work do not get their code compiled in time, do not reach the offered rate, and spend
more CPU on each byte. The ratios flatter Taffrail; they are to be measured again on a quiet machine.

";

/// Parts of the work that no broker can leave out, by cell.
const FLOORS: &[(&str, &[&str])] = &[
    ("produce", &["receive_cpu_s_per_gb", "append_cpu_s_per_gb", "crc_cpu_s_per_gb"]),
    (
        "rf3-produce",
        &[
            "receive_cpu_s_per_gb",
            "append_cpu_s_per_gb",
            "crc_cpu_s_per_gb",
            "receive_cpu_s_per_gb",
            "append_cpu_s_per_gb",
            "crc_cpu_s_per_gb",
            "receive_cpu_s_per_gb",
            "append_cpu_s_per_gb",
            "crc_cpu_s_per_gb",
            "send_cpu_s_per_gb",
            "send_cpu_s_per_gb",
        ],
    ),
    ("consume", &["sendfile_cpu_s_per_gb"]),
    ("consume-max", &["sendfile_cpu_s_per_gb"]),
];

/// One row with what is known of it.
struct Line<'a> {
    report: &'a Report,
    row: &'static Row,
    ours: Option<Summary>,
    theirs: Option<Summary>,
}

impl Line<'_> {
    fn verdict(&self) -> Verdict {
        self.row.verdict(self.ours.as_ref(), self.theirs.as_ref())
    }

    fn ratio(&self) -> Option<f64> {
        ratio(self.ours.as_ref()?, self.theirs.as_ref()?)
    }

    /// The figure of one side as the table shows it.
    fn shown(&self, side: Side) -> String {
        let summary = if side == Side::Taffrail { &self.ours } else { &self.theirs };
        let spread = spread(summary.as_ref(), self.row.places);
        match self.report.summary(self.row.cell, "times", side) {
            Some(times) if summary.is_some() => format!("{spread}, {:.0} times", times.median),
            _ => spread,
        }
    }

    fn kafka_wins(&self) -> bool {
        self.row.kafka_wins(self.ours.as_ref(), self.theirs.as_ref())
    }
}

/// The rows that were measured on our side, in the order of the table.
fn lines(report: &Report) -> Vec<Line<'_>> {
    let line = |row: &'static Row| Line {
        report,
        row,
        ours: report.summary(row.cell, row.figure, Side::Taffrail),
        theirs: report.summary(row.cell, row.figure, Side::Kafka),
    };
    ROWS.iter().map(line).filter(|line| line.ours.is_some() || line.theirs.is_some()).collect()
}

/// Only the table, for a run of some cells.
pub(crate) fn table(report: &Report) -> String {
    let mut out = String::new();
    write_table(&mut out, lines(report).iter());
    write_remarks(&mut out, report);
    write_floors(&mut out, report);
    out
}

/// The section of the notes about what is worse than Kafka's and stands in no row.
const BESIDE: &str = "beside the targets";

/// The whole page: one node, and three brokers with three controllers. `notes` has a section `## CELL FIGURE` for missed
/// targets.
pub(crate) fn page(report: &Report, replicated: &Report, notes: &str) -> String {
    let (one, three) = (lines(report), lines(replicated));
    let all: Vec<&Line> = one.iter().chain(&three).collect();
    let mut out = String::new();
    write_head(&mut out, report);
    heading(&mut out, "Where Kafka is ahead");
    if all.iter().any(|line| line.kafka_wins()) {
        write_table(&mut out, all.iter().copied().filter(|line| line.kafka_wins()));
    } else {
        out.push_str("In none of the rows below that were measured.\n");
    }
    if let Some(beside) = note(notes, BESIDE) {
        let _ = write!(out, "\n{beside}\n");
    }
    heading(&mut out, "One node");
    write_table(&mut out, one.iter());
    write_remarks(&mut out, report);
    heading(&mut out, "Three brokers and three controllers");
    write_cluster_head(&mut out, replicated);
    write_table(&mut out, three.iter());
    write_remarks(&mut out, replicated);
    heading(&mut out, "Missed targets");
    write_missed(&mut out, &all, notes);
    heading(&mut out, "The machine's floors");
    write_floors(&mut out, report);
    heading(&mut out, "How it is measured");
    out.push_str(METHOD);
    out.push_str(CLUSTER_METHOD);
    heading(&mut out, "Settings");
    out.push_str(SETTINGS);
    out.push('\n');
    out.push_str(CLUSTER_SETTINGS);
    out
}

// Writing to a string cannot fail, so the results of `write!` below say nothing.

fn heading(out: &mut String, title: &str) {
    let _ = write!(out, "\n## {title}\n\n");
}

/// Load averages at the start of the cells, and whether the machine was busy with other work.
fn loads(report: &Report) -> (String, bool) {
    let loads = Summary::of(report.cells.values().map(|cell| cell.load_average));
    let text = loads.map_or_else(String::new, |load| format!("{:.1} to {:.1}", load.least, load.most));
    (text, loads.is_some_and(|load| load.median > 2.0 * report.machine.cores as f64))
}

/// When and with what the clusters were measured.
fn write_cluster_head(out: &mut String, report: &Report) {
    let (load, busy) = loads(report);
    let full = if report.form == "full" { " FULL=1" } else { "" };
    let _ = writeln!(
        out,
        "Measured on {} with `make bench REPLICATED=1{full}`, on the same machine; load average {load} at the start of the cells.\n",
        report.date
    );
    for (taken, cells) in by_time(report) {
        let _ = writeln!(out, "- {}: {taken}", cells.join(", "));
    }
    out.push('\n');
    if busy {
        out.push_str(CLUSTER_BUSY);
    }
}

fn write_head(out: &mut String, report: &Report) {
    let machine = &report.machine;
    let (load, busy) = loads(report);
    let command = if report.form == "full" { "make bench FULL=1" } else { "make bench" };
    out.push_str("<!-- Generated by `make bench` from bench/results and docs/benchmarks-notes.md; do not edit. -->\n");
    out.push_str("# Taffrail beside Apache Kafka\n\n");
    let _ = writeln!(
        out,
        "Measured on {} with `{command}`: both brokers in one run, in turns, under one client. `make bench ONLY=CELL,CELL`\nmeasures some cells and prints them. Ratios and CPU count; times and rates say as much about the machine.\n",
        report.date
    );
    if busy {
        out.push_str(BUSY);
    }
    out.push_str("| | |\n|---|---|\n");
    let _ = writeln!(
        out,
        "| machine | {}, {} cores, {:.0} GB, {}, {} |",
        machine.processor,
        machine.cores,
        machine.memory_mb as f64 / 1000.0,
        machine.kernel,
        machine.file_system
    );
    let _ = writeln!(out, "| load average | {load} at the start of the cells |");
    if !machine.congestion_control.is_empty() {
        let _ = writeln!(
            out,
            "| TCP | the system's {}; Taffrail takes reno within one machine ([why](decisions/loopback-without-pacing.md)) |",
            machine.congestion_control
        );
    }
    for (program, version) in report.versions.iter().filter(|(program, _)| *program != "Taffrail") {
        let _ = writeln!(out, "| {program} | {version} |");
    }
    for (taken, cells) in by_time(report) {
        let _ = writeln!(out, "| Taffrail, {} | {taken} |", cells.join(", "));
    }
}

/// The cells of each time and version; those of the most cells are just `all others`.
fn by_time(report: &Report) -> Vec<(&str, Vec<&str>)> {
    let mut times: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (name, cell) in &report.cells {
        times.entry(&cell.taken).or_default().push(name);
    }
    let mut times: Vec<(&str, Vec<&str>)> = times.into_iter().collect();
    times.sort_by_key(|(_, cells)| cells.len());
    let alone = times.len() == 1;
    if let Some((_, most)) = times.last_mut() {
        *most = vec![if alone { "all cells" } else { "all other cells" }];
    }
    times
}

fn write_table<'a>(out: &mut String, lines: impl Iterator<Item = &'a Line<'a>>) {
    out.push_str("| cell | what | Taffrail | Kafka | ratio | target | | times the floor |\n");
    out.push_str("|---|---|--:|--:|--:|---|---|--:|\n");
    for line in lines {
        let row = line.row;
        let verdict = match line.verdict() {
            Verdict::Met => "met".to_owned(),
            Verdict::Missed(by) => format!("**missed**: {by:.2} of the target"),
            Verdict::Unknown => "not measured".to_owned(),
        };
        let _ = writeln!(
            out,
            "| `{}` | {} ({}) | {} | {} | {} | {} | {verdict} | {} |",
            row.cell,
            row.label,
            row.unit,
            line.shown(Side::Taffrail),
            line.shown(Side::Kafka),
            line.ratio().map_or_else(|| "-".to_owned(), |ratio| format!("{ratio:.2}x")),
            row.goal_text(),
            times_the_floor(line).map_or_else(String::new, |times| format!("{times:.1}")),
        );
    }
}

fn times_the_floor(line: &Line) -> Option<f64> {
    if line.row.figure != "cpu_s_per_gb" {
        return None;
    }
    let (_, parts) = FLOORS.iter().find(|(cell, _)| *cell == line.row.cell)?;
    let floor: f64 = parts.iter().map(|part| line.report.floor(part).map(|floor| floor.median)).sum::<Option<f64>>()?;
    Some(line.ours.as_ref()?.median / floor)
}

/// The median, and the least and the most if there was more than one run.
fn spread(summary: Option<&Summary>, places: usize) -> String {
    let Some(summary) = summary else { return "-".to_owned() };
    let shown = |value: f64| format!("{value:.places$}");
    if summary.runs == 1 {
        return shown(summary.median);
    }
    format!("{} ({} to {})", shown(summary.median), shown(summary.least), shown(summary.most))
}

fn write_remarks(out: &mut String, report: &Report) {
    let remarks = report.cells.iter().flat_map(|(name, cell)| cell.remarks.iter().map(move |remark| (name, remark)));
    for (name, remark) in remarks {
        let _ = write!(out, "\nNot measured: `{name}`: {remark}\n");
    }
}

fn write_missed(out: &mut String, lines: &[&Line], notes: &str) {
    let missed: Vec<&&Line> = lines.iter().filter(|line| matches!(line.verdict(), Verdict::Missed(_))).collect();
    if missed.is_empty() {
        out.push_str("None of those that were measured.\n");
    }
    for line in missed {
        let reached = match line.row.goal {
            Goal::Ratio(_) => line.ratio().map(|ratio| format!("{ratio:.2}x")),
            Goal::Absolute(_) => line.ours.map(|ours| format!("{:.*} {}", line.row.places, ours.median, line.row.unit)),
        };
        let note = note(notes, &line.row.key()).unwrap_or("Not looked into yet.");
        let _ = write!(
            out,
            "### `{}`: {}\n\n{}, where {} was aimed at.\n\n{note}\n\n",
            line.row.cell,
            line.row.label,
            reached.unwrap_or_default(),
            line.row.goal_text()
        );
    }
    // One empty line between sections is enough.
    out.truncate(out.trim_end().len());
    out.push('\n');
}

/// The section of the notes under this heading, without the heading.
fn note<'a>(notes: &'a str, key: &str) -> Option<&'a str> {
    let sections = notes.split("\n## ").skip(1);
    sections
        .map(|section| section.split_once('\n').unwrap_or((section, "")))
        .find(|(head, _)| head.trim() == key)
        .map(|(_, text)| text.trim())
}

fn write_floors(out: &mut String, report: &Report) {
    out.push_str("\n| floor | before | after |\n|---|--:|--:|\n");
    let names: Vec<&String> = report.floors.first().map(|floors| floors.keys().collect()).unwrap_or_default();
    for name in names {
        let shown: Vec<String> = report
            .floors
            .iter()
            .map(|floors| format!("{:.3}", floors.get(name).copied().unwrap_or(f64::NAN)))
            .collect();
        let _ = writeln!(out, "| `{name}` | {} |", shown.join(" | "));
    }
}

#[cfg(test)]
mod tests {
    use super::super::results::{CellRuns, Figures, Run};
    use super::*;

    /// A report in which each cell has one run of each side.
    fn report(cells: &[(&str, &str, f64, f64)]) -> Report {
        let mut report = Report { form: "short".to_owned(), ..Report::default() };
        for (cell, figure, ours, theirs) in cells {
            let run = |side, value| Run { side, figures: Figures::from([((*figure).to_owned(), value)]) };
            let runs = vec![run(Side::Taffrail, *ours), run(Side::Kafka, *theirs)];
            report.cells.insert((*cell).to_owned(), CellRuns { runs, ..CellRuns::default() });
        }
        report
    }

    #[test]
    fn cells_where_kafka_is_ahead_come_before_all_others() {
        let report = report(&[("produce", "cpu_s_per_gb", 1.0, 2.0), ("single", "requests_per_s", 5.0, 10.0)]);
        let page = page(&report, &Report::default(), "");
        let (ahead, all) = (page.find("Where Kafka is ahead").unwrap(), page.find("## One node").unwrap());
        assert!(page[ahead..all].contains("`single`") && !page[ahead..all].contains("`produce`"), "{page}");
        assert!(page[all..].contains("| `produce` | produce at 100 MB/s, 1 KiB records: broker CPU (CPU-s/GB) | 1.00 | 2.00 | 0.50x | at most 0.6x | met |"), "{page}");
    }

    #[test]
    fn a_missed_target_brings_its_note_or_says_that_there_is_none() {
        let notes = "# Notes\n\n## produce cpu_s_per_gb\n\nThe profile shows why.\n\n## other figure\n\nNo.\n";
        let report = report(&[("produce", "cpu_s_per_gb", 1.0, 1.0), ("start", "rss_mb", 32.0, 400.0)]);
        let page = page(&report, &Report::default(), notes);
        assert!(page.contains("1.00x, where at most 0.6x was aimed at.\n\nThe profile shows why.\n"), "{page}");
        assert!(page.contains("32.0 MB, where at most 16 MB was aimed at.\n\nNot looked into yet.\n"), "{page}");
    }

    #[test]
    fn what_was_not_measured_is_not_shown_as_reached() {
        let mut report = report(&[("restart-segments", "ready_s", 0.4, f64::NAN)]);
        report.cells.insert(
            "cold".to_owned(),
            CellRuns { remarks: vec!["Kafka: no cgroup".to_owned()], ..CellRuns::default() },
        );
        let table = table(&report);
        assert!(table.contains("| 0.400 | - | - | at most 0.5 s | met |"), "{table}");
        assert!(table.contains("Not measured: `cold`: Kafka: no cgroup"), "{table}");
    }

    #[test]
    fn cells_that_were_measured_anew_are_told_with_their_time() {
        let mut report = report(&[
            ("produce", "cpu_s_per_gb", 1.0, 2.0),
            ("e2e", "p50_ms", 1.0, 2.0),
            ("idle", "core_percent", 1.0, 2.0),
        ]);
        for (name, cell) in &mut report.cells {
            cell.taken = if name == "e2e" { "later".to_owned() } else { "first".to_owned() };
        }
        let page = page(&report, &Report::default(), "");
        assert!(page.contains("| Taffrail, e2e | later |\n| Taffrail, all other cells | first |"), "{page}");
    }

    #[test]
    fn faults_are_told_with_how_often_they_were_made() {
        let mut replicated = report(&[("kill-leader", "p99_ms", 200.0, 9000.0)]);
        for (run, times) in replicated.cells.get_mut("kill-leader").unwrap().runs.iter_mut().zip([200.0, 3.0]) {
            run.figures.insert("times".to_owned(), times);
        }
        let page = page(&Report::default(), &replicated, "");
        assert!(page.contains("| 200, 200 times | 9000, 3 times | 0.02x | at most 300 ms | met |"), "{page}");
    }

    #[test]
    fn the_floor_of_a_produce_is_all_its_unavoidable_parts() {
        let mut report = report(&[("produce", "cpu_s_per_gb", 2.0, 4.0)]);
        let floors = [("receive_cpu_s_per_gb", 0.5), ("append_cpu_s_per_gb", 0.4), ("crc_cpu_s_per_gb", 0.1)];
        report.floors = vec![floors.map(|(name, value)| (name.to_owned(), value)).into()];
        assert_eq!(times_the_floor(&lines(&report)[0]), Some(2.0));
    }
}
