//! What a scrape is told of requests: Kafka's counts and quantiles, and histograms of our own.
//!
//! Quantiles are of the last minutes. They need no clock of their own: each scrape is compared with one some minutes ago.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Bucket, Histogram, LabelPair, Metric as Series, MetricFamily, MetricType};
use prometheus::{GaugeVec, IntCounterVec};
use taffrail_core::metric::{Metric, MetricKind};
use taffrail_runtime::time::{self, Instant};

use super::kind::FETCH;
use super::spread::Spread;
use super::{RequestKind, RequestMetrics, Stage};
use crate::metrics::{made, table};

/// How far back quantiles reach, at least where there were scrapes.
const WINDOW: Duration = Duration::from_mins(5);

/// Time between two looks that are kept.
const STEP: Duration = Duration::from_mins(1);

/// The quantiles that Kafka has, as Strimzi's rules print them.
const QUANTILES: [(f64, &str); 6] =
    [(0.5, "0.50"), (0.75, "0.75"), (0.95, "0.95"), (0.98, "0.98"), (0.99, "0.99"), (0.999, "0.999")];

/// Limits of the histogram of the whole, in microseconds: from what an append takes to what a waiting fetch does.
const TOTAL_LIMITS_US: [u64; 12] =
    [100, 250, 500, 1_000, 2_500, 5_000, 10_000, 50_000, 100_000, 500_000, 1_000_000, 5_000_000];

/// Limits of the histograms of stages: there are many of them.
const STAGE_LIMITS_US: [u64; 6] = [100, 500, 1_000, 10_000, 100_000, 1_000_000];

/// A stage's names: quantiles and counts under Kafka's, and the label of ours.
const NAMES: [(Stage, &Metric, &Metric, Option<&str>); Stage::COUNT] = [
    (Stage::Queue, &table::QUEUE_MS, &table::QUEUE_COUNT, Some("queue")),
    (Stage::Local, &table::LOCAL_MS, &table::LOCAL_COUNT, Some("local")),
    (Stage::Remote, &table::REMOTE_MS, &table::REMOTE_COUNT, Some("remote")),
    (Stage::ResponseQueue, &table::RESPONSE_QUEUE_MS, &table::RESPONSE_QUEUE_COUNT, Some("response_queue")),
    (Stage::ResponseSend, &table::RESPONSE_SEND_MS, &table::RESPONSE_SEND_COUNT, Some("response_send")),
    (Stage::Total, &table::TOTAL_MS, &table::TOTAL_COUNT, None),
];

/// The stages of one name of a request.
type Stages = Box<[Spread; Stage::COUNT]>;

/// Reads what has been counted at each scrape.
#[derive(Clone)]
pub(super) struct Told {
    metrics: RequestMetrics,
    earlier: Arc<Mutex<Looks>>,
    descriptions: Arc<Vec<Desc>>,
}

/// What was counted at some moments of the last minutes, oldest first.
#[derive(Default)]
struct Looks(VecDeque<(Instant, Vec<(&'static str, Stages)>)>);

impl Looks {
    /// What came in the last minutes, given all that came until `now`.
    fn lately(&mut self, now: Instant, all: &[(&'static str, Stages)]) -> Vec<(&'static str, Stages)> {
        // The newest of those that are too old is where the window begins.
        while self.0.get(1).is_some_and(|(at, _)| now - *at >= WINDOW) {
            self.0.pop_front();
        }
        let begin = self.0.front().map(|(_, look)| look.as_slice()).unwrap_or_default();
        let lately = all.iter().map(|(name, stages)| {
            let mut stages = stages.clone();
            if let Some((_, before)) = begin.iter().find(|(other, _)| other == name) {
                stages.iter_mut().zip(before.iter()).for_each(|(stage, before)| *stage = stage.since(before));
            }
            (*name, stages)
        });
        let lately = lately.collect();
        if self.0.back().is_none_or(|(at, _)| now - *at >= STEP) {
            self.0.push_back((now, all.to_vec()));
        }
        lately
    }
}

impl Told {
    pub(super) fn new(metrics: RequestMetrics) -> Self {
        let mut descriptions = Vec::new();
        let metrics_told = [&table::REQUESTS, &table::REQUEST_SECONDS, &table::STAGE_SECONDS];
        for metric in metrics_told.into_iter().chain(NAMES.iter().flat_map(|(_, ms, count, _)| [*ms, *count])) {
            let labels = metric.labels.iter().map(|label| (*label).to_owned()).collect();
            descriptions.push(made(Desc::new(metric.name.into(), metric.help.into(), labels, Default::default())));
        }
        Self { metrics, earlier: Arc::default(), descriptions: Arc::new(descriptions) }
    }
}

impl Collector for Told {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let by_kind = self.metrics.read();
        let by_name = by_name(&by_kind);
        let lately = self.earlier.lock().lately(time::monotonic(), &by_name);
        let mut families = requests(&by_name);
        for (at, (stage, ms, count, _)) in NAMES.iter().enumerate() {
            debug_assert_eq!(at, *stage as usize, "names are in the order of stages");
            families.extend(quantiles(ms, &lately, at));
            families.extend(counts(count, &by_name, at));
        }
        families.push(histograms_of_all(&by_kind));
        families.push(histograms_of_stages(&by_kind));
        families
    }
}

/// Under Kafka's names: those of all fetches together stand beside those of consumers and of followers.
fn by_name(by_kind: &[(RequestKind, Stages)]) -> Vec<(&'static str, Stages)> {
    let mut named: Vec<(&'static str, Stages)> =
        by_kind.iter().map(|(kind, stages)| (kind.name(), stages.clone())).collect();
    let mut fetches = by_kind.iter().filter(|(kind, _)| kind.is_fetch()).map(|(_, stages)| stages);
    if let Some(mut all) = fetches.next().cloned() {
        for stages in fetches {
            all.iter_mut().zip(stages.iter()).for_each(|(all, one)| all.merge(one));
        }
        named.push((FETCH, all));
    }
    named
}

/// How many requests there were of every kind, also of those that never came: a rate begins with the first.
fn requests(by_name: &[(&'static str, Stages)]) -> Vec<MetricFamily> {
    let counter = made(IntCounterVec::new(table::opts(&table::REQUESTS), table::REQUESTS.labels));
    for name in RequestKind::all().map(RequestKind::name).chain([FETCH]) {
        counter.with_label_values(&[name]).reset();
    }
    for (name, stages) in by_name {
        counter.with_label_values(&[name]).inc_by(stages[Stage::Total as usize].count());
    }
    counter.collect()
}

fn quantiles(metric: &Metric, by_name: &[(&'static str, Stages)], stage: usize) -> Vec<MetricFamily> {
    let gauge = made(GaugeVec::new(table::opts(metric), metric.labels));
    for (name, stages) in by_name {
        for (part, label) in QUANTILES {
            // Without requests there is no quantile, and a zero would be a lie.
            if let Some(value) = stages[stage].quantile_ms(part) {
                gauge.with_label_values(&[*name, label]).set(value);
            }
        }
    }
    gauge.collect()
}

fn counts(metric: &Metric, by_name: &[(&'static str, Stages)], stage: usize) -> Vec<MetricFamily> {
    let counter = made(IntCounterVec::new(table::opts(metric), metric.labels));
    for (name, stages) in by_name {
        counter.with_label_values(&[name]).inc_by(stages[stage].count());
    }
    counter.collect()
}

/// How long requests took as a whole, of every kind that there is.
fn histograms_of_all(by_kind: &[(RequestKind, Stages)]) -> MetricFamily {
    let none = Spread::default();
    let series = RequestKind::all().map(|kind| {
        let found = by_kind.iter().find(|(other, _)| *other == kind);
        let spread = found.map_or(&none, |(_, stages)| &stages[Stage::Total as usize]);
        histogram(&[("request", kind.name())], spread, &TOTAL_LIMITS_US)
    });
    family(&table::REQUEST_SECONDS, series.collect())
}

/// How long each stage took, of the kinds that came.
fn histograms_of_stages(by_kind: &[(RequestKind, Stages)]) -> MetricFamily {
    let mut series = Vec::new();
    for (kind, stages) in by_kind {
        for (spread, (_, _, _, label)) in stages.iter().zip(NAMES) {
            if let Some(stage) = label {
                series.push(histogram(&[("request", kind.name()), ("stage", stage)], spread, &STAGE_LIMITS_US));
            }
        }
    }
    family(&table::STAGE_SECONDS, series)
}

fn histogram(labels: &[(&str, &str)], spread: &Spread, limits_us: &[u64]) -> Series {
    let buckets = limits_us.iter().map(|limit| {
        let mut bucket = Bucket::default();
        bucket.set_upper_bound(Duration::from_micros(*limit).as_secs_f64());
        bucket.set_cumulative_count(spread.up_to(Duration::from_micros(*limit)));
        bucket
    });
    let mut histogram = Histogram::default();
    histogram.set_sample_count(spread.count());
    histogram.set_sample_sum(spread.sum_seconds());
    histogram.set_bucket(buckets.collect());
    let pairs = labels.iter().map(|(name, value)| {
        let mut pair = LabelPair::default();
        pair.set_name((*name).to_owned());
        pair.set_value((*value).to_owned());
        pair
    });
    let mut series = Series::default();
    series.set_label(pairs.collect());
    series.set_histogram(histogram);
    series
}

fn family(metric: &Metric, series: Vec<Series>) -> MetricFamily {
    debug_assert_eq!(metric.kind, MetricKind::Histogram, "{}", metric.name);
    let mut family = MetricFamily::default();
    family.set_name(metric.name.to_owned());
    family.set_help(metric.help.to_owned());
    family.set_field_type(MetricType::HISTOGRAM);
    family.set_metric(series);
    family
}

#[cfg(test)]
mod tests {
    use prometheus::{Registry, TextEncoder};
    use taffrail_protocol::versions::ApiKey;

    use super::super::Times;
    use super::*;

    fn answered(metrics: &RequestMetrics, kind: RequestKind, took: Duration) {
        let arrived = time::monotonic();
        metrics.unanswered(&Times { kind, arrived, started: arrived, waited_since: None, answered: arrived + took });
    }

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn fetches_of_consumers_and_followers_are_told_apart_and_together() {
        let registry = Registry::new();
        let metrics = RequestMetrics::new(&registry);
        answered(&metrics, RequestKind::of(ApiKey::Fetch), Duration::from_millis(2));
        answered(&metrics, RequestKind::FETCH_FOLLOWER, Duration::from_millis(400));
        let told = text(&registry);
        for line in [
            "kafka_network_requestmetrics_requests_total{request=\"Fetch\"} 2",
            "kafka_network_requestmetrics_requests_total{request=\"FetchConsumer\"} 1",
            "kafka_network_requestmetrics_requests_total{request=\"FetchFollower\"} 1",
            "kafka_network_requestmetrics_requests_total{request=\"Produce\"} 0",
            "kafka_network_requestmetrics_totaltimems_count{request=\"Fetch\"} 2",
            "kafka_network_requestmetrics_totaltimems{quantile=\"0.99\",request=\"FetchFollower\"} 400",
            "kafka_network_requestmetrics_remotetimems{quantile=\"0.99\",request=\"FetchConsumer\"} 0.001",
            "taffrail_request_duration_seconds_bucket{request=\"FetchConsumer\",le=\"0.0025\"} 1",
            "taffrail_request_duration_seconds_bucket{request=\"FetchFollower\",le=\"0.1\"} 0",
            "taffrail_request_duration_seconds_count{request=\"Produce\"} 0",
            "taffrail_request_stage_duration_seconds_count{request=\"FetchFollower\",stage=\"local\"} 1",
        ] {
            assert!(told.lines().any(|found| found == line), "{line} is not in\n{told}");
        }
        let ours = told.lines().filter(|line| line.starts_with("taffrail_"));
        assert_eq!(ours.filter(|line| line.contains("request=\"Fetch\"")).count(), 0, "sums count nothing twice");
        assert!(
            !told.contains("totaltimems{quantile=\"0.99\",request=\"Produce\"}"),
            "of nothing there is no quantile"
        );
    }

    #[test]
    fn quantiles_forget_what_is_long_ago() {
        let metrics = RequestMetrics::new(&Registry::new());
        let kind = RequestKind::of(ApiKey::Produce);
        let mut looks = Looks::default();
        let begin = time::monotonic();
        // Minutes, what came since the minute before, and the median that is told.
        let cases = [(0, 100, Some(100.0)), (3, 1, Some(1.0)), (4, 1, Some(1.0)), (9, 1, Some(1.0)), (20, 0, None)];
        for (minutes, took_ms, expected) in cases {
            if took_ms > 0 {
                answered(&metrics, kind, Duration::from_millis(took_ms));
            }
            let now = begin + Duration::from_mins(minutes);
            let lately = looks.lately(now, &by_name(&metrics.read()));
            let told = lately[0].1[Stage::Total as usize].quantile_ms(0.5);
            let is_near = told
                .zip(expected)
                .is_some_and(|(told, expected): (f64, f64)| (told - expected).abs() <= expected / 5.0);
            assert!(is_near || told == expected, "after {minutes} minutes: {told:?} for {expected:?}");
        }
        assert!(looks.0.len() <= 6, "{}", looks.0.len());
    }
}
