//! What controllers tell under Kafka's names: the cluster as a whole, told by the active one, and their quorum.

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGaugeVec, Opts};
use taffrail_controller::ControllerView;
use taffrail_core::metric::{Dialect::Kafka, Metric};

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
        |view| of_cluster(view, view.image().replica_index().not_preferred_count()),
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

/// All metrics of controllers.
pub(crate) fn table() -> impl Iterator<Item = &'static Metric> {
    READINGS.iter().map(|(metric, _)| metric)
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
        for (metric, _) in &READINGS {
            descriptions.extend(gauges(metric)?.desc().into_iter().cloned());
        }
        Ok(Self { views, descriptions })
    }
}

fn gauges(metric: &Metric) -> prometheus::Result<IntGaugeVec> {
    IntGaugeVec::new(Opts::new(metric.name, metric.help), metric.labels)
}

impl Collector for ControllerMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let mut families = Vec::new();
        for (metric, read) in &READINGS {
            let Ok(gauges) = gauges(metric) else { continue };
            for view in &self.views {
                gauges.with_label_values(&[view.id().to_string()]).set(read(view));
            }
            families.extend(gauges.collect());
        }
        families
    }
}
