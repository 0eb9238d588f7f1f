//! Numbers of the follower, under the names of Kafka's `ReplicaFetcherManager` and `FetcherLagMetrics` where it has them.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntCounter, IntGaugeVec, Registry};
use taffrail_core::ids::TopicPartition;
use taffrail_core::metric::Metric;

use super::{made, register, table};

/// Partitions that get a series of their own: those that are furthest behind.
const PARTITIONS_MAX: usize = 1_000;

/// The client id under which Kafka shows numbers of all its fetchers together.
const CLIENT_ID: &str = "Replica";

/// Counters and states of all fetchers of a broker. Clones share them.
#[derive(Clone)]
pub(crate) struct FollowerMetrics {
    /// Bytes that were appended.
    pub(crate) bytes_in: IntCounter,
    /// Of these, those of replicas that are being added.
    pub(crate) reassignment_bytes_in: IntCounter,
    /// Bytes that were sent to followers.
    pub(crate) bytes_out: IntCounter,
    /// Of these, those to replicas that are being added.
    pub(crate) reassignment_bytes_out: IntCounter,
    /// Answers whose records were damaged.
    pub(crate) damaged: IntCounter,
    /// Logs that were cut.
    pub(crate) truncations: IntCounter,
    standings: Arc<Mutex<Standings>>,
}

/// Partitions that are not as they should be; those that are take no room.
#[derive(Default)]
struct Standings {
    /// How many committed records are missing.
    behind: BTreeMap<TopicPartition, i64>,
    /// Those that are not fetched because their log refuses.
    failed: BTreeMap<TopicPartition, ()>,
}

impl FollowerMetrics {
    pub(crate) fn new(registry: &Registry) -> Self {
        let counter = |metric: &Metric| register(registry, made(IntCounter::with_opts(table::opts(metric))));
        let metrics = Self {
            bytes_in: counter(&table::REPLICATION_BYTES_IN),
            reassignment_bytes_in: counter(&table::REASSIGNMENT_BYTES_IN),
            bytes_out: counter(&table::REPLICATION_BYTES_OUT),
            reassignment_bytes_out: counter(&table::REASSIGNMENT_BYTES_OUT),
            damaged: counter(&table::DAMAGED_ANSWERS),
            truncations: counter(&table::TRUNCATIONS),
            standings: Arc::default(),
        };
        register(registry, Lags::new(metrics.clone()));
        metrics
    }

    /// Notes how many committed records a partition has not got yet.
    pub(crate) fn note_lag(&self, partition: impl FnOnce() -> TopicPartition, was: i64, is: i64) {
        if was != is {
            let behind = &mut self.standings.lock().behind;
            if is > 0 {
                behind.insert(partition(), is)
            } else {
                behind.remove(&partition())
            };
        }
    }

    /// Notes that a partition's log refuses.
    pub(crate) fn note_failed(&self, partition: TopicPartition) {
        self.standings.lock().failed.insert(partition, ());
    }

    /// Forgets all about a partition that is fetched from the beginning, or no more.
    pub(crate) fn forget(&self, partition: &TopicPartition) {
        let mut standings = self.standings.lock();
        standings.behind.remove(partition);
        standings.failed.remove(partition);
    }
}

/// What is read of the standings.
const SHOWN: [&Metric; 4] =
    [&table::FOLLOWER_MAX_LAG, &table::FAILED_PARTITIONS, &table::DEAD_FETCHERS, &table::FOLLOWER_LAG];

/// Reads the standings at each scrape.
#[derive(Clone)]
struct Lags {
    metrics: FollowerMetrics,
    descriptions: Arc<Vec<Desc>>,
}

impl Lags {
    fn new(metrics: FollowerMetrics) -> Self {
        let descriptions =
            SHOWN.iter().flat_map(|metric| gauges(metric).desc().into_iter().cloned().collect::<Vec<_>>());
        let descriptions = descriptions.collect();
        Self { metrics, descriptions: Arc::new(descriptions) }
    }
}

fn gauges(metric: &Metric) -> IntGaugeVec {
    made(IntGaugeVec::new(table::opts(metric), metric.labels))
}

impl Collector for Lags {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let (mut behind, failures) = {
            let standings = self.metrics.standings.lock();
            let behind: Vec<(TopicPartition, i64)> =
                standings.behind.iter().map(|(partition, lag)| (partition.clone(), *lag)).collect();
            (behind, standings.failed.len())
        };
        behind.sort_by_key(|(_, lag)| std::cmp::Reverse(*lag));
        let [largest, failed, dead, lags] = SHOWN.map(gauges);
        largest.with_label_values(&[CLIENT_ID]).set(behind.first().map_or(0, |(_, lag)| *lag));
        failed.with_label_values(&[CLIENT_ID]).set(failures as i64);
        dead.with_label_values(&[CLIENT_ID]).set(0);
        for (partition, lag) in behind.iter().take(PARTITIONS_MAX) {
            let labels = [CLIENT_ID, &partition.topic, &partition.partition.to_string()];
            lags.with_label_values(&labels).set(*lag);
        }
        [largest, failed, dead, lags].iter().flat_map(Collector::collect).collect()
    }
}
