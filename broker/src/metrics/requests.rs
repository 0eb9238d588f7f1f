//! Requests by kind.

use prometheus::{Histogram, HistogramVec, IntCounter, IntCounterVec, Registry};
use taffrail_core::collections::HashMap;
use taffrail_protocol::versions::ApiKey;
use taffrail_runtime::time;

use super::{made, register, table};

/// Bounds of the histogram in seconds: from what an append takes to what a waiting fetch does.
const BUCKETS: [f64; 12] = [0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

/// Counters of all kinds of requests.
pub(crate) struct RequestMetrics {
    by_key: HashMap<i16, OfKey>,
}

struct OfKey {
    count: IntCounter,
    duration: Histogram,
}

impl RequestMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let requests = &table::REQUESTS;
        let counts = register(registry, made(IntCounterVec::new(table::opts(requests), requests.labels)));
        let opts = table::histogram_opts(&table::REQUEST_SECONDS, &BUCKETS);
        let durations = register(registry, made(HistogramVec::new(opts, table::REQUEST_SECONDS.labels)));
        let of_key = |key: &ApiKey| {
            let count = counts.with_label_values(&[key.name()]);
            (key.code(), OfKey { count, duration: durations.with_label_values(&[key.name()]) })
        };
        Self { by_key: ApiKey::ALL.iter().map(of_key).collect() }
    }

    /// A request that came at `started` has its answer.
    pub(crate) fn finished(&self, key: ApiKey, started: time::Instant) {
        if let Some(of_key) = self.by_key.get(&key.code()) {
            of_key.count.inc();
            of_key.duration.observe((time::monotonic() - started).as_secs_f64());
        }
    }
}
