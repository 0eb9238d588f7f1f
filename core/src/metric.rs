//! What a metric is called and what it means. The tables of metrics are made of these, and from the tables the metrics
//! themselves, their documentation page, and the tests that keep both honest.

/// Whose name a metric has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Dialect {
    /// Kafka's own, as the JMX exporter prints them with Strimzi's rules.
    Kafka,
    /// That of `kafka_exporter`.
    KafkaExporter,
    /// That of `kafka-lag-exporter`.
    KafkaLagExporter,
    /// Of any process that Prometheus watches.
    Process,
    /// Ours.
    Taffrail,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 5] =
        [Self::Kafka, Self::KafkaExporter, Self::KafkaLagExporter, Self::Process, Self::Taffrail];

    /// Its name in settings and documents.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Kafka => "kafka",
            Self::KafkaExporter => "kafka_exporter",
            Self::KafkaLagExporter => "kafka_lag_exporter",
            Self::Process => "process",
            Self::Taffrail => "taffrail",
        }
    }
}

/// How its values behave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricKind {
    /// Goes up, and begins at 0 with the process.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts of observations by size.
    Histogram,
    /// Quantiles of observations.
    Summary,
}

impl MetricKind {
    /// Prometheus' word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// One metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name.
    pub name: &'static str,
    /// How its values behave.
    pub kind: MetricKind,
    /// The labels of its series, in the order in which they are printed.
    pub labels: &'static [&'static str],
    /// What it means, as one sentence.
    pub help: &'static str,
    /// Whose name it has.
    pub dialect: Dialect,
}

impl Metric {
    /// A counter if its name says so by its end, and otherwise a gauge.
    pub const fn named(
        dialect: Dialect,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        let is_counter = matches!(name.as_bytes(), [.., b'_', b't', b'o', b't', b'a', b'l']);
        let kind = if is_counter { MetricKind::Counter } else { MetricKind::Gauge };
        Self { name, kind, labels, help, dialect }
    }

    /// A gauge.
    pub const fn gauge(
        dialect: Dialect,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Gauge, labels, help, dialect }
    }

    /// A counter.
    pub const fn counter(
        dialect: Dialect,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Counter, labels, help, dialect }
    }

    /// A histogram.
    pub const fn histogram(
        dialect: Dialect,
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: MetricKind::Histogram, labels, help, dialect }
    }
}
