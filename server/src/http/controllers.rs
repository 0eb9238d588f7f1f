//! What controllers tell: the cluster as a whole, told by the active one, their quorum, and how they have changed partitions.

use prometheus::core::{Collector, Desc, Describer};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounterVec, IntGaugeVec, Opts};
use taffrail_controller::{Changes, ControllerView};
use taffrail_core::metric::Dialect::{Kafka, Taffrail};
use taffrail_core::metric::{Metric, MetricKind};

const CONTROLLER: &[&str] = &["controller"];

/// How the value of one controller is read.
type Reading = fn(&ControllerView) -> i64;

/// What a number of the cluster as a whole is on a controller that is not active: nothing, so that sums are right.
fn of_cluster(view: &ControllerView, value: usize) -> i64 {
    if view.is_active() { i64::try_from(value).unwrap_or(i64::MAX) } else { 0 }
}

/// In the order of their names.
const READINGS: [(Metric, Reading); 10] = [
    (
        Metric::gauge(
            Kafka,
            "kafka_controller_kafkacontroller_activebrokercount",
            CONTROLLER,
            "Brokers that serve; told by the active controller.",
        ),
        |view| of_cluster(view, view.image().brokers().values().filter(|broker| !broker.fenced).count()),
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_controller_kafkacontroller_activecontrollercount",
            CONTROLLER,
            "1 = this controller is the active one.",
        ),
        |view| i64::from(view.is_active()),
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_controller_kafkacontroller_fencedbrokercount",
            CONTROLLER,
            "Brokers that are registered and do not serve; told by the active controller.",
        ),
        |view| of_cluster(view, view.image().brokers().values().filter(|broker| broker.fenced).count()),
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_controller_kafkacontroller_globalpartitioncount",
            CONTROLLER,
            "Partitions; told by the active controller.",
        ),
        |view| of_cluster(view, view.image().topics().partition_count()),
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_controller_kafkacontroller_globaltopiccount",
            CONTROLLER,
            "Topics; told by the active controller.",
        ),
        |view| of_cluster(view, view.image().topics().len()),
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_controller_kafkacontroller_offlinepartitionscount",
            CONTROLLER,
            "Partitions without a leader; told by the active controller.",
        ),
        |view| of_cluster(view, view.image().replica_index().leaderless_count()),
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_controller_kafkacontroller_preferredreplicaimbalancecount",
            CONTROLLER,
            "Partitions that are not led by the first of their replicas; told by the active controller.",
        ),
        |view| {
            let image = view.image();
            // As Kafka counts: nobody is not the first either.
            let (led, leaderless) =
                (image.replica_index().not_preferred_count(), image.replica_index().leaderless_count());
            of_cluster(view, led + leaderless)
        },
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_server_raftmetrics_current_epoch",
            CONTROLLER,
            "Term of the quorum as this controller knows it.",
        ),
        |view| view.quorum().term,
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_server_raftmetrics_high_watermark",
            CONTROLLER,
            "Offset behind the last event that this controller has applied.",
        ),
        |view| view.quorum().applied_end,
    ),
    (
        Metric::gauge(
            Kafka,
            "kafka_server_raftmetrics_log_end_offset",
            CONTROLLER,
            "Where the log of this controller ends.",
        ),
        |view| view.quorum().log_end,
    ),
];

/// How a count is read of the changes for one cause.
type Count = fn(Changes) -> u64;

/// Changes of any cause, by controller.
const ELECTIONS: [(Metric, Count); 2] = [
    (
        Metric {
            kind: MetricKind::Counter,
            ..Metric::gauge(
                Kafka,
                "kafka_controller_controllerstats_leaderelectionrateandtimems_count",
                CONTROLLER,
                "Leaders of partitions that this controller has elected.",
            )
        },
        |changes| changes.elections,
    ),
    (
        Metric::counter(
            Kafka,
            "kafka_controller_controllerstats_uncleanleaderelections_total",
            CONTROLLER,
            "Leaders that this controller has elected though they may lack committed records.",
        ),
        |changes| changes.unclean,
    ),
];

const CAUSE: &[&str] = &["controller", "cause"];

/// Changes by what made the controller make them.
const BY_CAUSE: [(Metric, Count); 3] = [
    (
        Metric::counter(
            Taffrail,
            "taffrail_controller_isr_expands_total",
            CAUSE,
            "Replicas that this controller has taken into an ISR, by what made it do so: lag = it caught up.",
        ),
        |changes| changes.isr_expands,
    ),
    (
        Metric::counter(
            Taffrail,
            "taffrail_controller_isr_shrinks_total",
            CAUSE,
            "Replicas that this controller has taken out of an ISR, by what made it do so: lag = it fell behind.",
        ),
        |changes| changes.isr_shrinks,
    ),
    (
        Metric::counter(
            Taffrail,
            "taffrail_controller_leader_elections_total",
            CAUSE,
            "Leaders of partitions that this controller has elected, by what made it do so.",
        ),
        |changes| changes.elections,
    ),
];

/// All metrics of controllers.
pub(crate) fn table() -> impl Iterator<Item = &'static Metric> {
    let read = READINGS.iter().map(|(metric, _)| metric);
    read.chain(ELECTIONS.iter().chain(&BY_CAUSE).map(|(metric, _)| metric))
}

/// Reads the controllers of a process at each scrape.
pub(super) struct ControllerMetrics {
    views: Vec<ControllerView>,
    descriptions: Vec<Desc>,
}

impl ControllerMetrics {
    /// # Errors
    /// When two names are the same.
    pub(super) fn new(views: Vec<ControllerView>) -> prometheus::Result<Self> {
        let mut descriptions = Vec::new();
        for metric in table() {
            let labels = metric.labels.iter().map(|label| (*label).to_owned()).collect();
            descriptions.push(opts(metric).variable_labels(labels).describe()?);
        }
        Ok(Self { views, descriptions })
    }

    fn gauges(&self, metric: &Metric, read: Reading) -> prometheus::Result<Vec<MetricFamily>> {
        let gauges = IntGaugeVec::new(opts(metric), metric.labels)?;
        for view in &self.views {
            gauges.with_label_values(&[view.id().to_string()]).set(read(view));
        }
        Ok(gauges.collect())
    }

    fn counters(&self, metric: &Metric, read: Count) -> prometheus::Result<Vec<MetricFamily>> {
        let counters = IntCounterVec::new(opts(metric), metric.labels)?;
        for view in &self.views {
            let all = view.changes().map(|(_, changes)| read(changes)).sum();
            counters.with_label_values(&[view.id().to_string()]).inc_by(all);
        }
        Ok(counters.collect())
    }

    fn by_cause(&self, metric: &Metric, read: Count) -> prometheus::Result<Vec<MetricFamily>> {
        let counters = IntCounterVec::new(opts(metric), metric.labels)?;
        for view in &self.views {
            for (cause, changes) in view.changes() {
                counters.with_label_values(&[&view.id().to_string(), cause.name()]).inc_by(read(changes));
            }
        }
        Ok(counters.collect())
    }
}

fn opts(metric: &Metric) -> Opts {
    Opts::new(metric.name, metric.help)
}

impl Collector for ControllerMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let gauges = READINGS.iter().map(|(metric, read)| self.gauges(metric, *read));
        let counters = ELECTIONS.iter().map(|(metric, read)| self.counters(metric, *read));
        // Names and labels are constants, which were good when the descriptions were made.
        let by_cause = BY_CAUSE.iter().map(|(metric, read)| self.by_cause(metric, *read));
        gauges.chain(counters).chain(by_cause).filter_map(Result::ok).flatten().collect()
    }
}
