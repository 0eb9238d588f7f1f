//! The metrics of a process as one text: what is counted all the time, and what is looked at for this scrape. It is made
//! metric by metric while it is sent.
//!
//! Where a process has several brokers, each has metrics of its own under the same names; the label `broker` tells them
//! apart then.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use prometheus::proto::{LabelPair, MetricFamily};
use prometheus::{Encoder, Registry, TextEncoder};
use taffrail_broker::{Metrics, Scrape, ScrapeOptions, write_head};
use taffrail_core::ids::BrokerId;
use taffrail_core::metric::Metric;

use super::controllers_table;

/// Label that tells brokers of one process apart.
const BROKER_LABEL: &str = "broker";

/// What one broker tells.
pub(super) struct Source {
    pub(super) id: BrokerId,
    pub(super) registry: Registry,
    pub(super) scrape: Scrape,
}

/// What is told in one scrape.
pub(super) struct Exposition {
    counted: BTreeMap<String, MetricFamily>,
    looked_at: BTreeMap<&'static str, &'static Metric>,
    /// With the value of the label, where there are several.
    scrapes: Vec<(Option<String>, Scrape)>,
}

impl Exposition {
    /// What these brokers tell, and what others count in `registries`.
    pub(super) fn new(sources: Vec<Source>, registries: &[Registry], options: &ScrapeOptions) -> Self {
        let are_several = sources.len() > 1;
        let mut counted: Vec<(Option<BrokerId>, Vec<MetricFamily>)> =
            registries.iter().map(|registry| (None, registry.gather())).collect();
        let mut scrapes = Vec::new();
        for Source { id, registry, scrape } in sources {
            counted.push((are_several.then_some(id), registry.gather()));
            scrapes.push((are_several.then(|| id.to_string()), scrape));
        }
        let looked_at = match scrapes.is_empty() {
            true => BTreeMap::new(),
            false => Scrape::metrics().filter(|it| options.shows(it)).map(|metric| (metric.name, metric)).collect(),
        };
        let known = Metrics::table().iter().chain(controllers_table());
        let hidden: BTreeSet<&str> = known.filter(|metric| !options.shows(metric)).map(|metric| metric.name).collect();
        let mut counted = told_apart(counted);
        counted.retain(|name, _| !hidden.contains(name.as_str()));
        Self { counted, looked_at, scrapes }
    }

    /// The names of all metrics, in their order.
    pub(super) fn names(&self) -> Vec<String> {
        let names: BTreeSet<&str> =
            self.counted.keys().map(String::as_str).chain(self.looked_at.keys().copied()).collect();
        names.into_iter().map(str::to_owned).collect()
    }

    /// The text of one of them.
    pub(super) fn text(&self, name: &str) -> Vec<u8> {
        let mut text = Vec::new();
        if let Some(family) = self.counted.get(name) {
            if let Err(error) = TextEncoder::new().encode(std::slice::from_ref(family), &mut text) {
                tracing::error!(name, %error, "a metric cannot be written");
                text.clear();
            }
        } else if let Some(metric) = self.looked_at.get(name) {
            let mut out = String::new();
            write_head(&mut out, metric);
            for (id, scrape) in &self.scrapes {
                scrape.write(name, id.as_deref().map(|id| (BROKER_LABEL, id)), &mut out);
            }
            text = out.into_bytes();
        }
        text
    }
}

/// The metrics of all, each name once. Brokers are told apart by a label where they have a number.
fn told_apart(gathered: Vec<(Option<BrokerId>, Vec<MetricFamily>)>) -> BTreeMap<String, MetricFamily> {
    let mut by_name: BTreeMap<String, MetricFamily> = BTreeMap::new();
    for (id, families) in gathered {
        for mut family in families {
            if let Some(id) = id {
                for metric in family.mut_metric() {
                    let mut label = LabelPair::default();
                    label.set_name(BROKER_LABEL.to_owned());
                    label.set_value(id.to_string());
                    let mut labels = metric.take_label();
                    labels.push(label);
                    metric.set_label(labels);
                }
            }
            match by_name.entry(family.name().to_owned()) {
                Entry::Vacant(entry) => drop(entry.insert(family)),
                Entry::Occupied(mut entry) => entry.get_mut().mut_metric().append(family.mut_metric()),
            }
        }
    }
    by_name
}

#[cfg(test)]
mod tests {
    use prometheus::IntCounterVec;

    use super::*;

    fn registry(topic: &str) -> Registry {
        let registry = Registry::new();
        let options = prometheus::Opts::new("kafka_records", "Records.");
        let counter = IntCounterVec::new(options, &["topic"]).unwrap();
        registry.register(Box::new(counter.clone())).unwrap();
        counter.with_label_values(&[topic]).inc();
        registry
    }

    fn text(ids: &[Option<BrokerId>]) -> String {
        let gathered = ids.iter().map(|id| (*id, registry("a").gather())).collect();
        let exposition = Exposition { counted: told_apart(gathered), looked_at: BTreeMap::new(), scrapes: Vec::new() };
        exposition.names().iter().map(|name| String::from_utf8(exposition.text(name)).unwrap()).collect()
    }

    #[test]
    fn brokers_of_one_process_are_told_apart_and_each_name_stands_once() {
        assert_eq!(text(&[None]).lines().last(), Some("kafka_records{topic=\"a\"} 1"), "one needs no label");
        let told = text(&[Some(BrokerId(1)), Some(BrokerId(2))]);
        let lines: Vec<&str> = told.lines().collect();
        let series = ["kafka_records{topic=\"a\",broker=\"1\"} 1", "kafka_records{topic=\"a\",broker=\"2\"} 1"];
        assert_eq!(lines, [&["# HELP kafka_records Records.", "# TYPE kafka_records counter"][..], &series].concat());
    }
}
