//! Counters of the broker, under the names that Kafka's dashboards read (`kafka_server_…`, `kafka_network_…`).
//!
//! Hot paths hold handles to their counters: counting is one atomic addition and looks nothing up.

mod families;
mod followers;
mod lines;
mod losses;
mod options;
mod requests;
mod resources;
mod scrape;
mod table;
mod topics;

use prometheus::core::Collector;
use prometheus::{IntCounter, IntGauge, IntGaugeVec, Registry};
use taffrail_core::metric::Metric;

pub(crate) use followers::FollowerMetrics;
pub use lines::write_head;
pub use losses::Loss;
pub(crate) use losses::Losses;
pub use options::{Granularity, ScrapeOptions};
pub(crate) use requests::{RequestKind, RequestMetrics, Times};
pub(crate) use resources::ResourceMetrics;
pub use scrape::Scrape;
pub(crate) use topics::{TopicCounters, TopicMetrics};

/// All counters of a broker.
pub struct Metrics {
    /// Where they are registered; `/metrics` prints it.
    pub registry: Registry,
    pub(crate) topics: TopicMetrics,
    pub(crate) requests: RequestMetrics,
    pub(crate) followers: FollowerMetrics,
    pub(crate) losses: Losses,
    connections: IntGaugeVec,
    /// Partitions that this broker leads.
    pub(crate) leader_count: IntGauge,
    /// Partitions that this broker keeps a replica of.
    pub(crate) partition_count: IntGauge,
    /// Of these, the ones that cannot serve.
    pub(crate) offline_replica_count: IntGauge,
    /// Led partitions with replicas out of sync.
    pub(crate) under_replicated: IntGauge,
    /// Led partitions with fewer replicas in sync than their minimum.
    pub(crate) under_min_isr: IntGauge,
    /// Led partitions with just their minimum.
    pub(crate) at_min_isr: IntGauge,
    /// Replicas that fell out of sync.
    pub(crate) isr_shrinks: IntCounter,
    /// Replicas that came back in sync.
    pub(crate) isr_expands: IntCounter,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// Counters at zero, in a registry of their own.
    pub fn new() -> Self {
        let registry = Registry::new();
        let gauge = |metric: &Metric| register(&registry, made(IntGauge::with_opts(table::opts(metric))));
        // They count from the start, so that a rate over them is there before the first one.
        let counter = |metric: &Metric| register(&registry, made(IntCounter::with_opts(table::opts(metric))));
        let connections = &table::CONNECTIONS;
        let connections = made(IntGaugeVec::new(table::opts(connections), connections.labels));
        Self {
            topics: TopicMetrics::new(&registry),
            requests: RequestMetrics::new(&registry),
            followers: FollowerMetrics::new(&registry),
            losses: Losses::new(&registry),
            connections: register(&registry, connections),
            leader_count: gauge(&table::LEADER_COUNT),
            partition_count: gauge(&table::PARTITION_COUNT),
            offline_replica_count: gauge(&table::OFFLINE_REPLICAS),
            under_replicated: gauge(&table::UNDER_REPLICATED),
            under_min_isr: gauge(&table::UNDER_MIN_ISR),
            at_min_isr: gauge(&table::AT_MIN_ISR),
            isr_shrinks: counter(&table::ISR_SHRINKS),
            isr_expands: counter(&table::ISR_EXPANDS),
            registry,
        }
    }

    /// All that a broker tells of itself, in the order of the names.
    pub fn table() -> &'static [Metric] {
        table::table()
    }

    /// Adds numbers that are read at each scrape.
    pub(crate) fn add(&self, collector: impl Collector + 'static) {
        let registered = self.registry.register(Box::new(collector));
        assert!(registered.is_ok(), "two metrics have the same name: {registered:?}");
    }

    /// The gauge of open connections of a listener.
    pub(crate) fn connections(&self, listener: &str) -> IntGauge {
        self.connections.with_label_values(&[listener])
    }
}

/// Registers a metric. Names are constants of this module, and each is used once.
fn register<C: Collector + Clone + 'static>(registry: &Registry, metric: C) -> C {
    let registered = registry.register(Box::new(metric.clone()));
    assert!(registered.is_ok(), "two metrics have the same name: {registered:?}");
    metric
}

/// A metric whose name and labels are constants of this module.
fn made<M>(metric: prometheus::Result<M>) -> M {
    match metric {
        Ok(metric) => metric,
        Err(error) => unreachable!("a metric's name is not valid: {error}"),
    }
}

#[cfg(test)]
mod tests {
    use prometheus::TextEncoder;

    use super::*;

    fn text(metrics: &Metrics) -> String {
        TextEncoder::new().encode_to_string(&metrics.registry.gather()).unwrap()
    }

    #[test]
    fn topics_are_counted_under_kafkas_names_until_they_are_deleted() {
        let metrics = Metrics::new();
        let counters = metrics.topics.counters("orders");
        counters.bytes_in.inc_by(7);
        metrics.connections("PLAINTEXT").inc();
        let printed = text(&metrics);
        assert!(printed.contains("kafka_server_brokertopicmetrics_bytesin_total{topic=\"orders\"} 7\n"), "{printed}");
        assert!(printed.contains("connection_count{listener=\"PLAINTEXT\"} 1\n"), "{printed}");
        metrics.topics.forget("orders");
        assert!(!text(&metrics).contains("orders"));
    }
}
