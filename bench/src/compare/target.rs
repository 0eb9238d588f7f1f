//! The table of targets: which figures of which cells are shown, and what each has to reach.

use super::stats::{Summary, ratio};

/// Which way is good.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Better {
    Lower,
    Higher,
}

/// What a figure has to reach.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Goal {
    /// At most (or, where higher is better, at least) this many times Kafka's.
    Ratio(f64),
    /// At most (or at least) this much, whatever Kafka does.
    Absolute(f64),
}

/// One row of the report.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    pub(crate) cell: &'static str,
    pub(crate) figure: &'static str,
    pub(crate) label: &'static str,
    pub(crate) unit: &'static str,
    /// Decimal places to show.
    pub(crate) places: usize,
    pub(crate) better: Better,
    pub(crate) goal: Goal,
}

/// How a row came out.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Verdict {
    Met,
    /// Missed: this many times the target, or this part of it where higher is better.
    Missed(f64),
    /// One of the sides was not measured.
    Unknown,
}

impl Row {
    /// The name under which notes are kept.
    pub(crate) fn key(&self) -> String {
        format!("{} {}", self.cell, self.figure)
    }

    /// How the row came out.
    pub(crate) fn verdict(&self, ours: Option<&Summary>, theirs: Option<&Summary>) -> Verdict {
        let Some(ours) = ours else { return Verdict::Unknown };
        let (reached, wanted) = match self.goal {
            Goal::Absolute(wanted) => (Some(ours.median), wanted),
            Goal::Ratio(wanted) => (theirs.and_then(|theirs| ratio(ours, theirs)), wanted),
        };
        let Some(reached) = reached else { return Verdict::Unknown };
        let met = match self.better {
            Better::Lower => reached <= wanted,
            Better::Higher => reached >= wanted,
        };
        if met { Verdict::Met } else { Verdict::Missed(reached / wanted) }
    }

    /// Whether Kafka does better here.
    pub(crate) fn kafka_wins(&self, ours: Option<&Summary>, theirs: Option<&Summary>) -> bool {
        let (Some(ours), Some(theirs)) = (ours, theirs) else { return false };
        match self.better {
            Better::Lower => ours.median > theirs.median,
            Better::Higher => ours.median < theirs.median,
        }
    }

    /// The target in words.
    pub(crate) fn goal_text(&self) -> String {
        let bound = match self.better {
            Better::Lower => "at most",
            Better::Higher => "at least",
        };
        match self.goal {
            Goal::Ratio(wanted) => format!("{bound} {wanted}x"),
            Goal::Absolute(wanted) => format!("{bound} {wanted} {}", self.unit),
        }
    }
}

/// A row where less is better.
const fn low(
    cell: &'static str,
    figure: &'static str,
    label: &'static str,
    unit: &'static str,
    places: usize,
    goal: Goal,
) -> Row {
    Row { cell, figure, label, unit, places, better: Better::Lower, goal }
}

/// A row where more is better.
const fn high(
    cell: &'static str,
    figure: &'static str,
    label: &'static str,
    unit: &'static str,
    places: usize,
    goal: Goal,
) -> Row {
    Row { cell, figure, label, unit, places, better: Better::Higher, goal }
}

/// Everything that is reported, in the order of the report.
#[rustfmt::skip] // a table: one row a line
pub(crate) const ROWS: &[Row] = &[
    low("produce", "cpu_s_per_gb", "produce at 100 MB/s, 1 KiB records: broker CPU", "CPU-s/GB", 2, Goal::Ratio(0.6)),
    low("produce-lz4", "cpu_s_per_gb", "the same, lz4: broker CPU", "CPU-s/GB", 2, Goal::Ratio(0.45)),
    high("produce-max", "mb_per_s", "produce flat out", "MB/s", 0, Goal::Ratio(1.2)),
    low("single", "cpu_us_per_request", "one 100-byte record a request, acks=all: broker CPU", "us/request", 1, Goal::Ratio(0.33)),
    high("single", "requests_per_s", "one record a request: rate", "requests/s", 0, Goal::Ratio(2.5)),
    low("consume-max", "cpu_s_per_gb", "consume from the page cache flat out: broker CPU", "CPU-s/GB", 3, Goal::Ratio(1.05)),
    high("consume-max", "mb_per_s", "consume flat out: rate", "MB/s", 0, Goal::Ratio(0.95)),
    low("consume", "cpu_s_per_gb", "consume at 400 MB/s: broker CPU", "CPU-s/GB", 3, Goal::Ratio(0.8)),
    low("e2e", "p50_ms", "end to end at 1,000/s: p50", "ms", 2, Goal::Ratio(0.5)),
    low("e2e", "p99_ms", "end to end at 1,000/s: p99", "ms", 2, Goal::Ratio(0.33)),
    low("e2e", "p999_ms", "end to end at 1,000/s: p99.9", "ms", 2, Goal::Ratio(0.15)),
    low("fanout", "cpu_us_per_record", "small batches to 1,000 partitions: broker CPU", "us/record", 2, Goal::Ratio(0.5)),
    low("fanout", "first_six_rounds_ms", "first six rounds to 1,000 fresh partitions (the first index entry of each is among them)", "ms", 0, Goal::Absolute(500.0)),
    high("fsync", "requests_per_s", "one fsync per acknowledgement, 64 connections, 100 partitions", "requests/s", 0, Goal::Ratio(5.0)),
    low("start", "rss_mb", "resident memory, just started", "MB", 1, Goal::Absolute(16.0)),
    low("load-memory", "rss_mb", "resident memory after 100 MB/s over 100 partitions", "MB", 1, Goal::Absolute(64.0)),
    low("partitions", "rss_mb", "resident memory with 10,000 partitions", "MB", 1, Goal::Absolute(160.0)),
    low("idle", "core_percent", "CPU idle, empty", "% of a core", 2, Goal::Absolute(0.2)),
    low("idle-1000", "core_percent", "CPU idle, 1,000 partitions", "% of a core", 2, Goal::Absolute(0.2)),
    low("start", "first_ack_ms", "exec to first acknowledgement, empty directory", "ms", 0, Goal::Absolute(60.0)),
    low("restart", "ready_s", "restart after SIGKILL, little data", "s", 3, Goal::Absolute(0.1)),
    low("restart-2000", "ready_s", "restart after SIGKILL, 2,000 partitions", "s", 3, Goal::Absolute(0.3)),
    low("restart-segments", "ready_s", "restart after SIGKILL, 40,000 checkpointed segments", "s", 3, Goal::Absolute(0.5)),
    low("partitions", "create_1000_s", "topic of 1,000 partitions until all serve", "s", 3, Goal::Ratio(0.1)),
    low("partitions", "create_5000_s", "topic of 5,000 partitions until all serve", "s", 3, Goal::Ratio(0.1)),
    low("cold", "p99_ratio", "produce p99 beside a reader of a cold backlog, to quiet", "x quiet", 2, Goal::Absolute(1.5)),
    low("telemetry", "cost_percent", "metrics read every 15 s, part of broker CPU at 100 MB/s", "%", 2, Goal::Absolute(2.0)),
    low("binary", "size_mb", "the binary", "MB", 1, Goal::Absolute(20.0)),
    low("kill-leader", "p99_ms", "leader killed by SIGKILL, until acks=all again, p99 without back-off of the client", "ms", 0, Goal::Absolute(300.0)),
    low("stop-leader", "max_ms", "leader stopped by SIGSTOP, until acks=all again, the longest", "ms", 0, Goal::Absolute(2000.0)),
    low("move-leader", "max_ms", "planned move of a leader, longest wait of a record", "ms", 1, Goal::Absolute(50.0)),
    low("kill-controller", "max_ms", "active controller killed by SIGKILL, until the next metadata change succeeds, the longest", "ms", 0, Goal::Absolute(500.0)),
    low("start-six", "first_ack_s", "six processes from nothing to the first acks=all", "s", 2, Goal::Absolute(1.0)),
    low("rf3-produce", "cpu_s_per_gb", "produce at 100 MB/s, 1 KiB records, acks=all: CPU of all brokers", "CPU-s/GB", 2, Goal::Ratio(0.55)),
    low("rf3-produce-lz4", "cpu_s_per_gb", "the same, lz4: CPU of all brokers", "CPU-s/GB", 2, Goal::Ratio(0.4)),
    low("rf3-single", "cpu_us_per_request", "one 100-byte record a request, acks=all: CPU of all brokers", "us/request", 1, Goal::Ratio(0.2)),
    high("rf3-single", "requests_per_s", "one record a request: rate", "requests/s", 0, Goal::Ratio(4.0)),
    low("rf3-e2e", "p50_ms", "end to end at 1,000/s, acks=all: p50", "ms", 2, Goal::Ratio(0.5)),
    low("rf3-e2e", "p99_ms", "end to end at 1,000/s, acks=all: p99", "ms", 2, Goal::Ratio(0.33)),
    low("rf3-e2e", "p999_ms", "end to end at 1,000/s, acks=all: p99.9", "ms", 2, Goal::Ratio(0.15)),
    high("rf3-fsync", "requests_per_s", "forced flush on every replica per acknowledgement, 64 connections, 100 partitions", "requests/s", 0, Goal::Ratio(5.0)),
    low("rf3-idle-1000", "core_percent", "CPU of all six, idle, 1,000 partitions", "% of a core", 2, Goal::Absolute(1.2)),
    low("rf3-idle-1000", "rss_mb", "resident memory of all six after load, 1,000 partitions", "MB", 0, Goal::Absolute(200.0)),
    low("rf3-partitions", "broker_rss_mb", "resident memory of a broker with 10,000 partitions", "MB", 1, Goal::Absolute(160.0)),
    low("metadata-100000", "controller_rss_mb", "resident memory of a controller with 100,000 partitions", "MB", 1, Goal::Absolute(300.0)),
    low("rf3-partitions", "create_1000_s", "topic of 1,000 partitions until all serve", "s", 2, Goal::Ratio(0.15)),
    low("rf3-partitions", "create_5000_s", "topic of 5,000 partitions until all serve", "s", 2, Goal::Ratio(0.15)),
    low("restart-six", "stop_s", "clean stop of all six with 1,000 partitions", "s", 2, Goal::Absolute(1.0)),
    low("restart-six", "ready_s", "start of all six until all 1,000 partitions serve", "s", 2, Goal::Absolute(1.0)),
];

#[cfg(test)]
mod tests {
    use super::*;

    const CPU: Row = low("cell", "figure", "label", "unit", 2, Goal::Ratio(0.5));
    const RATE: Row = high("cell", "figure", "label", "unit", 2, Goal::Ratio(2.0));
    const MEMORY: Row = low("cell", "figure", "label", "MB", 2, Goal::Absolute(16.0));

    fn of(value: f64) -> Option<Summary> {
        Summary::of([value])
    }

    #[test]
    fn a_verdict_compares_the_ratio_or_the_value_with_the_target() {
        for (row, ours, theirs, verdict) in [
            (CPU, of(0.5), of(1.0), Verdict::Met),
            (CPU, of(1.0), of(1.0), Verdict::Missed(2.0)),
            (CPU, of(1.0), None, Verdict::Unknown),
            (CPU, None, of(1.0), Verdict::Unknown),
            (RATE, of(2.0), of(1.0), Verdict::Met),
            (RATE, of(1.0), of(1.0), Verdict::Missed(0.5)),
            (MEMORY, of(16.0), None, Verdict::Met),
            (MEMORY, of(24.0), of(1000.0), Verdict::Missed(1.5)),
        ] {
            assert_eq!(row.verdict(ours.as_ref(), theirs.as_ref()), verdict, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn kafka_wins_where_its_median_is_the_better_one() {
        for (row, ours, theirs, wins) in [
            (CPU, of(1.1), of(1.0), true),
            (CPU, of(0.9), of(1.0), false),
            (RATE, of(0.9), of(1.0), true),
            (RATE, of(1.1), of(1.0), false),
            (RATE, of(1.1), None, false),
        ] {
            assert_eq!(row.kafka_wins(ours.as_ref(), theirs.as_ref()), wins, "{ours:?} {theirs:?}");
        }
    }

    #[test]
    fn targets_read_as_sentences() {
        assert_eq!(CPU.goal_text(), "at most 0.5x");
        assert_eq!(RATE.goal_text(), "at least 2x");
        assert_eq!(MEMORY.goal_text(), "at most 16 MB");
    }

    #[test]
    fn no_row_is_there_twice() {
        let mut keys: Vec<String> = ROWS.iter().map(Row::key).collect();
        keys.sort();
        keys.dedup();
        assert_eq!(keys.len(), ROWS.len());
    }
}
