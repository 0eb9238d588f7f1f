//! How much of everything a scrape shows.

use std::collections::BTreeSet;

use regex::Regex;
use taffrail_core::metric::{Dialect, Metric};

/// How finely series are cut.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Granularity {
    /// Nothing that grows with topics, groups or kinds of requests: what `/metrics/summary` shows.
    Summary,
    /// Sums of groups; nothing of topics and partitions.
    Group,
    /// Sums of topics and of the topics of groups; nothing of partitions.
    Topic,
    /// Everything, as long as there are not too many series; the worst partitions and groups then.
    #[default]
    Auto,
    /// Everything, however much it is.
    Partition,
}

impl Granularity {
    /// Those that can be chosen, by name.
    pub const CHOICES: [(&'static str, Self); 4] =
        [("auto", Self::Auto), ("partition", Self::Partition), ("topic", Self::Topic), ("group", Self::Group)];
}

/// What a scrape is to show.
#[derive(Clone, Debug)]
pub struct ScrapeOptions {
    /// How finely.
    pub granularity: Granularity,
    /// Series of partitions, and of partitions of groups, that [`Granularity::Auto`] shows at most.
    pub series_max: usize,
    /// Topics that are shown; `None` = all.
    pub topics: Option<Regex>,
    /// Groups that are shown; `None` = all.
    pub groups: Option<Regex>,
    /// Whose names are used.
    pub dialects: BTreeSet<Dialect>,
}

impl Default for ScrapeOptions {
    fn default() -> Self {
        Self {
            granularity: Granularity::default(),
            series_max: 400_000,
            topics: None,
            groups: None,
            dialects: Dialect::ALL.into(),
        }
    }
}

impl ScrapeOptions {
    /// Whether anything is shown of a metric with these labels.
    pub fn shows(&self, metric: &Metric) -> bool {
        let least = metric.labels.iter().map(|label| needed_for(label)).max().unwrap_or(Granularity::Summary);
        self.dialects.contains(&metric.dialect) && self.granularity >= least
    }

    /// Whether series of a topic are shown.
    pub fn shows_topic(&self, topic: &str) -> bool {
        self.topics.as_ref().is_none_or(|filter| filter.is_match(topic))
    }

    /// Whether series of a group are shown.
    pub fn shows_group(&self, group: &str) -> bool {
        self.groups.as_ref().is_none_or(|filter| filter.is_match(group))
    }

    /// A filter that matches whole names, as Prometheus' own do.
    ///
    /// # Errors
    /// When it is no regular expression.
    pub fn filter(pattern: &str) -> Result<Regex, String> {
        Regex::new(&format!("^(?:{pattern})$")).map_err(|error| error.to_string())
    }
}

/// The least granularity at which a label has its place.
fn needed_for(label: &str) -> Granularity {
    match label {
        "partition" => Granularity::Auto,
        "topic" => Granularity::Topic,
        "group" | "consumergroup" | "request" | "quantile" | "stage" => Granularity::Group,
        _ => Granularity::Summary,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_decide_from_which_granularity_on_a_metric_is_shown() {
        let shown = |granularity, labels: &'static [&'static str]| {
            let options = ScrapeOptions { granularity, ..ScrapeOptions::default() };
            options.shows(&Metric::gauge(Dialect::Taffrail, "m", labels, "M."))
        };
        let cases: [(&'static [&'static str], Granularity); 4] = [
            (&["listener"], Granularity::Summary),
            (&["cluster_name", "group"], Granularity::Group),
            (&["group", "topic"], Granularity::Topic),
            (&["group", "topic", "partition"], Granularity::Auto),
        ];
        let all =
            [Granularity::Summary, Granularity::Group, Granularity::Topic, Granularity::Auto, Granularity::Partition];
        for (labels, least) in cases {
            for granularity in all {
                assert_eq!(shown(granularity, labels), granularity >= least, "{labels:?} at {granularity:?}");
            }
        }
    }

    #[test]
    fn filters_match_whole_names_and_wrong_ones_are_refused() {
        let options =
            ScrapeOptions { topics: Some(ScrapeOptions::filter("a|b.*").unwrap()), ..ScrapeOptions::default() };
        for (topic, shown) in [("a", true), ("ab", false), ("bc", true), ("cb", false)] {
            assert_eq!(options.shows_topic(topic), shown, "{topic}");
        }
        assert!(ScrapeOptions::filter("(").is_err());
    }

    #[test]
    fn dialects_that_nobody_wants_are_left_out() {
        let options = ScrapeOptions { dialects: [Dialect::Kafka].into(), ..ScrapeOptions::default() };
        assert!(!options.shows(&Metric::gauge(Dialect::KafkaExporter, "m", &[], "M.")));
    }
}
