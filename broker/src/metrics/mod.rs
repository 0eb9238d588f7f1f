//! Counters of the broker, under the names that Kafka's dashboards read (`kafka_server_…`, `kafka_network_…`).
//!
//! Hot paths hold handles to their counters: counting is one atomic addition and looks nothing up.

mod followers;
mod partitions;
mod requests;
mod resources;
mod topics;

use prometheus::core::Collector;
use prometheus::{IntCounter, IntGauge, IntGaugeVec, Opts, Registry};

pub(crate) use followers::FollowerMetrics;
pub(crate) use partitions::PartitionMetrics;
pub(crate) use requests::RequestMetrics;
pub(crate) use resources::ResourceMetrics;
pub(crate) use topics::{TopicCounters, TopicMetrics};

/// All counters of a broker.
pub struct Metrics {
    /// Where they are registered; `/metrics` prints it.
    pub registry: Registry,
    pub(crate) topics: TopicMetrics,
    pub(crate) requests: RequestMetrics,
    pub(crate) followers: FollowerMetrics,
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
        let replicas = |name: &str, help: &str| {
            let name = format!("kafka_server_replicamanager_{name}");
            register(&registry, made(IntGauge::new(name, help)))
        };
        // They count from the start, so that a rate over them is there before the first one.
        let counter = |name: &str, help: &str| {
            let name = format!("kafka_server_replicamanager_{name}_total");
            register(&registry, made(IntCounter::new(name, help)))
        };
        let connections = made(IntGaugeVec::new(
            Opts::new("kafka_server_socket_server_metrics_connection_count", "Open connections."),
            &["listener"],
        ));
        Self {
            topics: TopicMetrics::new(&registry),
            requests: RequestMetrics::new(&registry),
            followers: FollowerMetrics::new(&registry),
            connections: register(&registry, connections),
            leader_count: replicas("leadercount", "Partitions that this broker leads."),
            partition_count: replicas("partitioncount", "Partitions that this broker keeps a replica of."),
            offline_replica_count: replicas("offlinereplicacount", "Replicas that cannot serve."),
            under_replicated: replicas("underreplicatedpartitions", "Led partitions with replicas out of sync."),
            under_min_isr: replicas("underminisrpartitioncount", "Led partitions below their minimum of replicas."),
            at_min_isr: replicas("atminisrpartitioncount", "Led partitions at their minimum of replicas."),
            isr_shrinks: counter("isrshrinks", "How often a replica fell out of sync."),
            isr_expands: counter("isrexpands", "How often a replica came back in sync."),
            registry,
        }
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
