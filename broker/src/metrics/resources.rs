//! What may run out, read when it is asked for: room on the volume, and files that may be open.

use std::sync::Weak;

use prometheus::IntGauge;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use taffrail_core::metric::Metric;
use taffrail_runtime::open_files;

use super::table::{AVAILABLE_BYTES, LOW_SPACE, OPEN_FILES, OPEN_FILES_MAX, TOTAL_BYTES};
use super::{made, table};
use crate::broker::Broker;

/// Reads them at each scrape.
pub(crate) struct ResourceMetrics {
    broker: Weak<Broker>,
    descriptions: Vec<Desc>,
}

impl ResourceMetrics {
    pub(crate) fn new(broker: Weak<Broker>) -> Self {
        let all = [&OPEN_FILES, &OPEN_FILES_MAX, &TOTAL_BYTES, &AVAILABLE_BYTES, &LOW_SPACE];
        let descriptions = all.iter().flat_map(|metric| gauge(metric).desc().into_iter().cloned().collect::<Vec<_>>());
        Self { broker, descriptions: descriptions.collect() }
    }
}

fn gauge(metric: &Metric) -> IntGauge {
    made(IntGauge::with_opts(table::opts(metric)))
}

impl Collector for ResourceMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    /// What cannot be told is left out: a zero would be a lie.
    fn collect(&self) -> Vec<MetricFamily> {
        let Some(broker) = self.broker.upgrade() else { return Vec::new() };
        let mut values = vec![(&OPEN_FILES_MAX, open_files::limit())];
        if let Ok(count) = open_files::count() {
            values.push((&OPEN_FILES, count));
        }
        if let Ok(space) = broker.replicas.storage().space() {
            values.push((&TOTAL_BYTES, space.total));
            values.push((&AVAILABLE_BYTES, space.available));
            values.push((&LOW_SPACE, u64::from(space.is_low())));
        }
        let mut families = Vec::new();
        for (metric, value) in values {
            let gauge = gauge(metric);
            gauge.set(i64::try_from(value).unwrap_or(i64::MAX));
            families.extend(gauge.collect());
        }
        families
    }
}
