//! One look at all that is read when it is asked for: a moment's partitions and groups, written metric by metric.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use taffrail_core::config::{Overrides, TopicConfig};
use taffrail_core::event::ConfigResource;
use taffrail_core::ids::BrokerId;
use taffrail_core::image::MetadataImage;
use taffrail_core::metric::Metric;
use taffrail_core::throttle;
use taffrail_protocol::unread::Age;

use super::families::{FAMILIES, Family, Reading, Value};
use super::lines::Line;
use super::options::{Granularity, ScrapeOptions};
use crate::broker::Broker;
use crate::lag::{GroupLag, GroupLags, PartitionLag};
use crate::replica::Partition;

/// States that Kafka gives a broker.
const STARTING: i64 = 1;
const RUNNING: i64 = 3;
const LEAVING: i64 = 6;

/// What of there may be too many.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shown {
    Partitions,
    Groups,
}

/// The partitions and groups of a broker at one moment. It holds on to them and copies little.
pub struct Scrape {
    broker: Arc<Broker>,
    options: Arc<ScrapeOptions>,
    image: Arc<MetadataImage>,
    cluster: String,
    /// Those with series of their own, by topic and number.
    partitions: Vec<Arc<Partition>>,
    partitions_omitted: usize,
    lags: Arc<GroupLags>,
    /// Positions of the groups that are shown, and whether with their partitions.
    groups: Vec<(usize, bool)>,
}

impl Scrape {
    /// Looks at `broker`; asks other brokers where partitions end that its groups read.
    pub(crate) async fn of(broker: &Arc<Broker>, options: &Arc<ScrapeOptions>) -> Self {
        let lags = broker.lags.read(broker).await;
        let image = broker.metadata.image();
        let (partitions, partitions_omitted) = partitions(broker, options);
        let groups = groups(&lags, options);
        let cluster = image.cluster_id().map(|id| id.to_string()).unwrap_or_default();
        let (broker, options) = (Arc::clone(broker), Arc::clone(options));
        Self { broker, options, image, cluster, partitions, partitions_omitted, lags, groups }
    }

    /// All metrics that are read so, in the order of their names.
    pub fn metrics() -> impl Iterator<Item = &'static Metric> {
        FAMILIES.iter().map(|family| &family.metric)
    }

    /// Writes the series of a metric, if there are any. `apart` is one more label that all of them get.
    pub fn write(&self, name: &str, apart: Option<(&str, &str)>, out: &mut String) {
        let found = FAMILIES.binary_search_by(|family| family.metric.name.cmp(name));
        if let Some(family) = found.ok().and_then(|at| FAMILIES.get(at)).filter(|it| self.options.shows(&it.metric)) {
            self.write_family(family, apart, out);
        }
    }

    fn write_family(&self, Family { metric, reading }: &Family, apart: Option<(&str, &str)>, out: &mut String) {
        let mut sink = Sink { out, metric, apart };
        match reading {
            Reading::Replica(read) => {
                for it in &self.partitions {
                    sink.put(|name| self.label_of(it, name), Value::Count(read(it)));
                }
            }
            Reading::Led(read) => {
                for it in self.partitions.iter().filter(|it| it.leads()) {
                    if let Some(value) = read(it) {
                        sink.put(|name| self.label_of(it, name), Value::Count(value));
                    }
                }
            }
            Reading::Topic(read) => {
                let hosted = self.broker.replicas.hosted();
                let firsts = hosted.partitions().filter(|it| it.index == 0 && it.leads());
                for it in firsts.filter(|it| self.options.shows_topic(&it.topic.name)) {
                    sink.put(|name| self.label_of(it, name), Value::Count(read(self, it)));
                }
            }
            Reading::Broker(read) => {
                if let Some(value) = read(self) {
                    sink.put(|_| Label::Text(&self.cluster), value);
                }
            }
            Reading::Throttle => {
                let config = self.broker.config.load();
                let rates = [
                    ("follower", config.follower_replication_throttled_rate),
                    ("leader", config.leader_replication_throttled_rate),
                ];
                for (side, rate) in rates.into_iter().filter(|(_, rate)| *rate != throttle::UNLIMITED) {
                    sink.put(|_| Label::Text(side), Value::Count(rate));
                }
            }
            Reading::Info => {
                let Some(own) = self.image.broker(self.broker.id) else { return };
                let address = own.listeners.first().map(|it| format!("{}:{}", it.host, it.port)).unwrap_or_default();
                let label = |name: &str| match name {
                    "id" => Label::Number(self.broker.id.0),
                    _ => Label::Text(&address),
                };
                sink.put(label, Value::Count(1));
            }
            _ => self.write_groups(reading, &mut sink),
        }
    }

    fn label_of<'a>(&'a self, partition: &'a Partition, name: &str) -> Label<'a> {
        match name {
            "partition" => Label::Number(partition.index),
            "topic" => Label::Text(&partition.topic.name),
            _ => Label::Text(&self.cluster),
        }
    }

    fn write_groups(&self, reading: &Reading, sink: &mut Sink<'_>) {
        let mut retentions = BTreeMap::new();
        for (group, shows_partitions) in self.shown_groups() {
            let label = |topic, partition, name: &str| match name {
                "group" | "consumergroup" => Label::Text(&group.group),
                "state" => Label::Text(group.state.name()),
                "topic" => Label::Text(topic),
                "partition" => Label::Number(partition),
                _ => Label::Text(&self.cluster),
            };
            match reading {
                Reading::GroupPartition(read) if shows_partitions => {
                    for it in group.partitions.iter().filter(|it| self.options.shows_topic(&it.topic)) {
                        if let Some(value) = read(it) {
                            sink.put(|name| label(&it.topic, it.partition, name), value);
                        }
                    }
                }
                Reading::GroupTopic(read) => {
                    for of_topic in group.topics().filter(|it| self.options.shows_topic(&it[0].topic)) {
                        sink.put(|name| label(&of_topic[0].topic, 0, name), Value::Count(read(of_topic)));
                    }
                }
                Reading::Uncommitted => {
                    for (topic, count) in group.uncommitted.iter().filter(|(topic, _)| self.options.shows_topic(topic))
                    {
                        sink.put(|name| label(topic, 0, name), Value::Count(*count as i64));
                    }
                }
                Reading::DeletionMargin => {
                    for of_topic in group.topics().filter(|it| self.options.shows_topic(&it[0].topic)) {
                        let topic = &of_topic[0].topic;
                        let retention = *retentions.entry(topic).or_insert_with(|| self.retention_ms(topic));
                        if let Some(margin_ms) = retention.and_then(|ms| deletion_margin_ms(of_topic, ms)) {
                            sink.put(|name| label(topic, 0, name), Value::Millis(margin_ms));
                        }
                    }
                }
                Reading::Group(read) => {
                    if let Some(value) = read(group) {
                        sink.put(|name| label("", 0, name), value);
                    }
                }
                Reading::Removed => {
                    let stats = &group.stats;
                    let counts = [
                        ("session_expired", stats.expired),
                        ("missed_join", stats.missed_join),
                        ("missed_sync", stats.missed_sync),
                        ("left", stats.left),
                    ];
                    for (reason, count) in counts {
                        let with_reason = |name: &str| match name {
                            "reason" => Label::Text(reason),
                            name => label("", 0, name),
                        };
                        sink.put(with_reason, Value::Count(i64::try_from(count).unwrap_or(i64::MAX)));
                    }
                }
                Reading::GroupState => sink.put(|name| label("", 0, name), Value::Count(1)),
                _ => {}
            }
        }
    }

    fn shown_groups(&self) -> impl Iterator<Item = (&GroupLag, bool)> {
        self.groups.iter().filter_map(|(at, shows_partitions)| Some((self.lags.groups.get(*at)?, *shows_partitions)))
    }

    /// What the coordinator knows of its groups.
    pub(super) fn lags(&self) -> &GroupLags {
        &self.lags
    }

    pub(super) fn omitted(&self, what: Shown) -> i64 {
        let count = match what {
            Shown::Partitions => self.partitions_omitted,
            Shown::Groups => self.groups.iter().filter(|(_, shows_partitions)| !shows_partitions).count(),
        };
        count as i64
    }

    /// Whether this broker tells what is to be told once for all: the first of those that serve does.
    pub(super) fn speaks_for_all(&self) -> bool {
        self.active().next() == Some(self.broker.id)
    }

    pub(super) fn active_brokers(&self) -> i64 {
        self.active().count() as i64
    }

    fn active(&self) -> impl Iterator<Item = BrokerId> {
        self.image.brokers().keys().copied().filter(|id| self.image.is_active(*id))
    }

    pub(super) fn broker_state(&self) -> i64 {
        match self.image.broker(self.broker.id) {
            Some(own) if own.shutting_down => LEAVING,
            Some(own) if !own.fenced => RUNNING,
            _ => STARTING,
        }
    }

    pub(super) fn is_roll_under_way(&self) -> bool {
        self.image.grant().is_some() || self.image.brokers().values().any(|broker| broker.shutting_down)
    }

    /// Partitions led here whose replicas are being changed.
    pub(super) fn reassigning(&self) -> i64 {
        let hosted = self.broker.replicas.hosted();
        hosted.partitions().filter(|it| it.leads() && it.state().is_reassigning()).count() as i64
    }

    /// After how long records of a topic may be deleted for their age, if they are.
    fn retention_ms(&self, topic: &str) -> Option<i64> {
        let none = Overrides::new();
        let own = self.image.overrides(&ConfigResource::topic(topic));
        let config = TopicConfig::resolve(own.map_or(&none, |own| own), &self.broker.layers.load()).ok()?;
        (config.cleanup_policy.delete && config.retention_ms >= 0).then_some(config.retention_ms)
    }

    pub(super) fn offline_directories(&self) -> i64 {
        i64::from(self.broker.replicas.storage().fenced().is_some())
    }

    /// Partitions of the topic of `partition`.
    pub(super) fn partitions_of(&self, partition: &Partition) -> i64 {
        self.image.topic_by_id(partition.topic.id).map_or(0, |topic| i64::from(topic.partition_count()))
    }
}

/// The value of a label.
enum Label<'a> {
    Text(&'a str),
    Number(i32),
}

/// Where the series of one metric go.
struct Sink<'a> {
    out: &'a mut String,
    metric: &'a Metric,
    apart: Option<(&'a str, &'a str)>,
}

impl Sink<'_> {
    fn put<'l>(&mut self, label: impl Fn(&str) -> Label<'l>, value: Value) {
        let mut line = Line::new(self.out, self.metric);
        for name in self.metric.labels {
            line = match label(name) {
                Label::Text(text) => line.label(name, text),
                Label::Number(number) => line.number(name, number),
            };
        }
        if let Some((name, value)) = self.apart {
            line = line.label(name, value);
        }
        line.value(value);
    }
}

/// The partitions that get series of their own, and how many do not.
fn partitions(broker: &Broker, options: &ScrapeOptions) -> (Vec<Arc<Partition>>, usize) {
    if options.granularity < Granularity::Auto {
        return (Vec::new(), 0);
    }
    let hosted = broker.replicas.hosted();
    let shown = hosted.partitions().filter(|partition| options.shows_topic(&partition.topic.name));
    let mut partitions: Vec<Arc<Partition>> = shown.cloned().collect();
    let all = partitions.len();
    let series = series_of(options, |reading| matches!(reading, Reading::Replica(_) | Reading::Led(_)));
    let most = options.series_max / 2 / series.max(1);
    if options.granularity == Granularity::Auto && all > most {
        // Those that are in trouble, and then the largest.
        partitions.sort_by_cached_key(|it| {
            let is_led = it.leads();
            let margin = if is_led { it.in_sync_margin().min(1) } else { 1 };
            (margin, Reverse(is_led && it.state().is_under_replicated()), Reverse(it.log().size_bytes()))
        });
        partitions.truncate(most);
    }
    partitions.sort_by(|one, other| (&one.topic.name, one.index).cmp(&(&other.topic.name, other.index)));
    let omitted = all - partitions.len();
    (partitions, omitted)
}

/// The groups that are shown, and which of them with their partitions: the ones that lag most, if there are too many.
fn groups(lags: &GroupLags, options: &ScrapeOptions) -> Vec<(usize, bool)> {
    if options.granularity < Granularity::Group {
        return Vec::new();
    }
    let shown = lags.groups.iter().enumerate().filter(|(_, group)| options.shows_group(&group.group));
    let mut groups: Vec<(usize, bool)> = shown.map(|(at, _)| (at, true)).collect();
    let series = series_of(options, |reading| matches!(reading, Reading::GroupPartition(_)));
    let mut left = match options.granularity {
        Granularity::Auto => options.series_max / 2 / series.max(1),
        _ => usize::MAX,
    };
    let lag = |group: &GroupLag| group.partitions.iter().map(|it: &PartitionLag| it.records).sum::<i64>();
    groups.sort_by_cached_key(|(at, _)| Reverse(lag(&lags.groups[*at])));
    for (at, shows_partitions) in &mut groups {
        let partitions = lags.groups[*at].partitions.len();
        *shows_partitions = partitions <= left;
        left = left.saturating_sub(partitions);
    }
    groups.sort_unstable();
    groups
}

/// How long the oldest record of a topic that its group has not read is safe from deletion, if there is one.
fn deletion_margin_ms(of_topic: &[PartitionLag], retention_ms: i64) -> Option<i64> {
    let unread = of_topic.iter().filter(|it| it.records > 0);
    let oldest_ms = unread.filter_map(|it| match it.age {
        Age::Unknown => None,
        Age::Appended(ms) | Age::Stamped(ms) => Some(ms),
    });
    oldest_ms.max().map(|ms| retention_ms.saturating_sub(ms).max(0))
}

/// How many series one partition has.
fn series_of(options: &ScrapeOptions, counts: impl Fn(&Reading) -> bool) -> usize {
    FAMILIES.iter().filter(|family| counts(&family.reading) && options.shows(&family.metric)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unread_record_says_how_long_there_is_until_deletion() {
        let lag = |records: i64, age: Age| PartitionLag {
            topic: "t".into(),
            partition: 0,
            committed: 0,
            records,
            deleted: 0,
            age,
            committed_ago_ms: 0,
        };
        let cases: [(&[PartitionLag], Option<i64>); 5] = [
            (&[], None),
            (&[lag(0, Age::Appended(0))], None),
            (&[lag(5, Age::Unknown)], None),
            (&[lag(5, Age::Appended(300)), lag(1, Age::Stamped(700)), lag(0, Age::Appended(0))], Some(300)),
            (&[lag(5, Age::Appended(5_000))], Some(0)),
        ];
        for (partitions, expected) in cases {
            assert_eq!(deletion_margin_ms(partitions, 1_000), expected, "{partitions:?}");
        }
    }
}
