//! Numbers of single partitions, read when they are asked for.
//!
//! They cost nothing between two scrapes. A broker with very many partitions shows the largest ones and says how many it
//! left out, so that a scrape stays quick and the monitoring stays affordable.

use std::sync::Weak;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{IntGauge, IntGaugeVec, Opts};

use super::made;
use crate::broker::Broker;
use crate::replica::Partition;

/// Partitions that get series of their own.
const PARTITIONS_MAX: usize = 5_000;

/// One number of a partition: its name, what it means, how it is read.
type Reading = (&'static str, &'static str, fn(&Partition) -> i64);

const READINGS: [Reading; 8] = [
    ("kafka_log_log_size", "Bytes of the partition's segments.", |it| saturated(it.log().size_bytes())),
    ("kafka_log_log_logstartoffset", "First offset that can be read.", |it| it.log().log_start_offset()),
    ("kafka_log_log_logendoffset", "Offset of the next record.", |it| it.log().end_offset()),
    ("kafka_cluster_partition_replicascount", "Replicas of a led partition.", |it| led(it, it.state().replicas.len())),
    ("kafka_cluster_partition_insyncreplicascount", "Replicas in sync of a led partition.", |it| {
        led(it, it.state().isr.len())
    }),
    ("kafka_cluster_partition_underreplicated", "1 = a led partition has replicas out of sync.", |it| {
        led(it, usize::from(it.state().is_under_replicated()))
    }),
    ("kafka_cluster_partition_underminisr", "1 = a led partition has too few replicas in sync.", |it| {
        led(it, usize::from(it.in_sync_against_minimum().is_lt()))
    }),
    ("kafka_cluster_partition_atminisr", "1 = a led partition has no replica in sync to spare.", |it| {
        led(it, usize::from(it.in_sync_against_minimum().is_eq()))
    }),
];

fn saturated(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// A number that only the leader of a partition knows.
fn led(partition: &Partition, value: usize) -> i64 {
    if partition.leads() { value as i64 } else { 0 }
}

/// Reads the partitions of a broker at each scrape.
pub(crate) struct PartitionMetrics {
    broker: Weak<Broker>,
    descriptions: Vec<Desc>,
}

impl PartitionMetrics {
    pub(crate) fn new(broker: Weak<Broker>) -> Self {
        let mut descriptions: Vec<Desc> = READINGS
            .iter()
            .flat_map(|reading| gauges(reading).desc().into_iter().cloned().collect::<Vec<_>>())
            .collect();
        for gauge in [omitted(), offline_dirs()] {
            descriptions.extend(gauge.desc().into_iter().cloned());
        }
        Self { broker, descriptions }
    }
}

fn gauges((name, help, _): &Reading) -> IntGaugeVec {
    made(IntGaugeVec::new(Opts::new(*name, *help), &["topic", "partition"]))
}

fn omitted() -> IntGauge {
    let help = "Partitions without series of their own, because there are too many.";
    made(IntGauge::new("taffrail_metrics_partitions_omitted", help))
}

fn offline_dirs() -> IntGauge {
    let help = "Data directories that take no writes any more.";
    made(IntGauge::new("kafka_log_logmanager_offlinelogdirectorycount", help))
}

impl Collector for PartitionMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Some(broker) = self.broker.upgrade() else { return Vec::new() };
        let hosted = broker.replicas.hosted();
        let mut partitions: Vec<_> = hosted.partitions().collect();
        let (left_out, fenced) = (omitted(), offline_dirs());
        left_out.set(partitions.len().saturating_sub(PARTITIONS_MAX) as i64);
        fenced.set(i64::from(broker.replicas.storage().fenced().is_some()));
        if partitions.len() > PARTITIONS_MAX {
            partitions.sort_by_cached_key(|partition| std::cmp::Reverse(partition.log().size_bytes()));
            partitions.truncate(PARTITIONS_MAX);
        }
        let mut families: Vec<MetricFamily> = left_out.collect();
        families.extend(fenced.collect());
        for reading in &READINGS {
            let gauges = gauges(reading);
            for partition in &partitions {
                let value = reading.2(partition);
                gauges.with_label_values(&[&*partition.topic.name, &partition.index.to_string()]).set(value);
            }
            families.extend(gauges.collect());
        }
        families
    }
}
