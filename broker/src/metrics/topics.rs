//! Traffic by topic.

use prometheus::{IntCounter, IntCounterVec, Registry};
use taffrail_core::metric::Metric;

use super::{made, register, table};

/// Counters of all topics. Clones share them.
#[derive(Clone)]
pub(crate) struct TopicMetrics {
    bytes_in: IntCounterVec,
    bytes_out: IntCounterVec,
    messages_in: IntCounterVec,
    produce_requests: IntCounterVec,
    failed_produce_requests: IntCounterVec,
    fetch_requests: IntCounterVec,
    failed_fetch_requests: IntCounterVec,
}

/// Counters of one topic.
pub(crate) struct TopicCounters {
    /// Bytes of batches that were appended.
    pub(crate) bytes_in: IntCounter,
    /// Bytes of batches that were fetched.
    pub(crate) bytes_out: IntCounter,
    /// Records that were appended.
    pub(crate) messages_in: IntCounter,
    /// Partitions in produce requests; as in Kafka, each partition counts.
    pub(crate) produce_requests: IntCounter,
    /// Of these, the failed ones.
    pub(crate) failed_produce_requests: IntCounter,
    /// Partitions in fetch requests.
    pub(crate) fetch_requests: IntCounter,
    /// Of these, the failed ones.
    pub(crate) failed_fetch_requests: IntCounter,
}

impl TopicMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let counter =
            |metric: &Metric| register(registry, made(IntCounterVec::new(table::opts(metric), metric.labels)));
        Self {
            bytes_in: counter(&table::BYTES_IN),
            bytes_out: counter(&table::BYTES_OUT),
            messages_in: counter(&table::MESSAGES_IN),
            produce_requests: counter(&table::PRODUCE_REQUESTS),
            failed_produce_requests: counter(&table::FAILED_PRODUCE_REQUESTS),
            fetch_requests: counter(&table::FETCH_REQUESTS),
            failed_fetch_requests: counter(&table::FAILED_FETCH_REQUESTS),
        }
    }

    fn all(&self) -> [&IntCounterVec; 7] {
        [
            &self.bytes_in,
            &self.bytes_out,
            &self.messages_in,
            &self.produce_requests,
            &self.failed_produce_requests,
            &self.fetch_requests,
            &self.failed_fetch_requests,
        ]
    }

    /// The counters of a topic.
    pub(crate) fn counters(&self, topic: &str) -> TopicCounters {
        let of = |counters: &IntCounterVec| counters.with_label_values(&[topic]);
        TopicCounters {
            bytes_in: of(&self.bytes_in),
            bytes_out: of(&self.bytes_out),
            messages_in: of(&self.messages_in),
            produce_requests: of(&self.produce_requests),
            failed_produce_requests: of(&self.failed_produce_requests),
            fetch_requests: of(&self.fetch_requests),
            failed_fetch_requests: of(&self.failed_fetch_requests),
        }
    }

    /// Ends the series of a topic that is gone.
    pub(crate) fn forget(&self, topic: &str) {
        for counters in self.all() {
            // An error says that there were none.
            let _ = counters.remove_label_values(&[topic]);
        }
    }
}
