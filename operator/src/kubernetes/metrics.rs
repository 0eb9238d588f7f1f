//! What the operator tells of itself: its passes, and which resources are in trouble and why.
//!
//! Passes are counted where they are made. What resources are like is read at each scrape from their own conditions, as the
//! watches have brought them, so it says the same as `kubectl get`, also on an operator that stands by.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;
use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, IntGauge, IntGaugeVec, Opts, Registry};

use super::caches::Caches;
use crate::crd::parts::condition;

/// Resources in trouble that have a series of their own, at most; the others are in the sums.
const TROUBLES_MAX: usize = 500;

const DEAD_LETTER: &[&str] = &["namespace", "name", "topic"];

/// Limits of the buckets of passes' durations, in seconds.
const SECONDS: &[f64] = &[0.001, 0.005, 0.02, 0.1, 0.5, 2.0, 10.0];

/// What a pass is made over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PassOf {
    /// A Cluster with its Topics.
    Cluster,
    /// The ConsumerGroups of a Cluster.
    ConsumerGroups,
}

impl PassOf {
    const fn name(self) -> &'static str {
        match self {
            Self::Cluster => "Cluster",
            Self::ConsumerGroups => "ConsumerGroups",
        }
    }
}

/// How a pass ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// Nothing is left to do.
    Done,
    /// Something is under way, or waits.
    Waiting,
    /// Not everything could be done.
    Failed,
}

impl Outcome {
    const fn name(self) -> &'static str {
        match self {
            Self::Done => "done",
            Self::Waiting => "waiting",
            Self::Failed => "failed",
        }
    }
}

/// The operator's metrics. Clones share them.
#[derive(Clone)]
pub struct Metrics {
    registry: Registry,
    passes: IntCounterVec,
    seconds: HistogramVec,
    leads: IntGauge,
}

impl Metrics {
    /// Metrics of an operator that knows these resources.
    ///
    /// # Errors
    /// When two have the same name.
    pub fn new(caches: Arc<Caches>) -> prometheus::Result<Self> {
        let registry = Registry::new();
        let passes = Opts::new("taffrail_operator_passes_total", "Passes of the operator, by how they ended.");
        let passes = IntCounterVec::new(passes, &["of", "outcome"])?;
        let seconds = HistogramOpts::new("taffrail_operator_pass_seconds", "How long passes took.");
        let seconds = HistogramVec::new(seconds.buckets(SECONDS.to_vec()), &["of"])?;
        let leads = IntGauge::new("taffrail_operator_leads", "1 = this operator is the one that acts.")?;
        registry.register(Box::new(passes.clone()))?;
        registry.register(Box::new(seconds.clone()))?;
        registry.register(Box::new(leads.clone()))?;
        registry.register(Box::new(Resources::new(caches)?))?;
        Ok(Self { registry, passes, seconds, leads })
    }

    /// Where all of them are.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// Notes a pass.
    pub fn note(&self, of: PassOf, outcome: Outcome, took: Duration) {
        self.passes.with_label_values(&[of.name(), outcome.name()]).inc();
        self.seconds.with_label_values(&[of.name()]).observe(took.as_secs_f64());
    }

    /// Notes whether this operator acts.
    pub fn set_leads(&self, leads: bool) {
        self.leads.set(i64::from(leads));
    }
}

/// Reads resources at each scrape.
struct Resources {
    caches: Arc<Caches>,
    descriptions: Vec<Desc>,
}

/// Gauges of one scrape.
struct Gauges {
    resources: IntGaugeVec,
    trouble: IntGaugeVec,
    orphans: IntGaugeVec,
    dead_letters: IntGaugeVec,
    oldest_dead_letter: IntGaugeVec,
}

impl Gauges {
    fn new() -> prometheus::Result<Self> {
        let gauge = |name, help, labels: &[&str]| IntGaugeVec::new(Opts::new(name, help), labels);
        Ok(Self {
            resources: gauge(
                "taffrail_operator_resources",
                "Resources, by the status and reason of their condition Ready.",
                &["kind", "ready", "reason"],
            )?,
            trouble: gauge(
                "taffrail_operator_trouble",
                "1 = a condition of this resource says that something waits or is wrong.",
                &["kind", "namespace", "name", "condition", "reason"],
            )?,
            orphans: gauge(
                "taffrail_operator_orphans",
                "Topics of a Cluster that no resource is about; the status lists a part of them.",
                &["namespace", "cluster"],
            )?,
            dead_letters: gauge(
                "taffrail_operator_dead_letter_records",
                "Records in the dead-letter topics of a ConsumerGroup.",
                DEAD_LETTER,
            )?,
            oldest_dead_letter: gauge(
                "taffrail_operator_dead_letter_oldest_seconds",
                "Age of the oldest record in a dead-letter topic; without a series there is none.",
                DEAD_LETTER,
            )?,
        })
    }

    fn all(&self) -> [&IntGaugeVec; 5] {
        [&self.resources, &self.trouble, &self.orphans, &self.dead_letters, &self.oldest_dead_letter]
    }
}

impl Resources {
    fn new(caches: Arc<Caches>) -> prometheus::Result<Self> {
        let gauges = Gauges::new()?;
        let descriptions = gauges.all().into_iter().flat_map(|gauge| gauge.desc().into_iter().cloned()).collect();
        Ok(Self { caches, descriptions })
    }

    fn read(&self, gauges: &Gauges) {
        let mut troubles = BTreeMap::new();
        let mut read = |kind: &'static str, namespace: Option<String>, name: String, conditions: &[Condition]| {
            let ready = conditions.iter().find(|found| found.type_ == condition::READY);
            let (status, reason) = ready.map_or(("", ""), |ready| (&ready.status, &ready.reason));
            gauges.resources.with_label_values(&[kind, status, reason]).inc();
            for found in conditions.iter().filter(|found| is_trouble(found)) {
                let key = (kind, namespace.clone().unwrap_or_default(), name.clone(), found.type_.clone());
                troubles.insert(key, found.reason.clone());
            }
        };
        for cluster in self.caches.clusters.select(|_| true) {
            let status = cluster.status.clone().unwrap_or_default();
            read("Cluster", cluster.namespace(), cluster.name_any(), &status.conditions);
            let orphans = status.orphans.map_or(0, |orphans| orphans.topics.len());
            let labels = [cluster.namespace().unwrap_or_default(), cluster.name_any()];
            gauges.orphans.with_label_values(&labels).set(i64::try_from(orphans).unwrap_or(i64::MAX));
        }
        for topic in self.caches.topics.select(|_| true) {
            let conditions = topic.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            read("Topic", topic.namespace(), topic.name_any(), conditions);
        }
        for group in self.caches.groups.select(|_| true) {
            let conditions = group.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            read("ConsumerGroup", group.namespace(), group.name_any(), conditions);
            for dead in group.status.iter().flat_map(|status| &status.dead_letters) {
                let labels = [&group.namespace().unwrap_or_default(), &group.name_any(), &dead.topic];
                if let Some(records) = dead.records {
                    gauges.dead_letters.with_label_values(&labels).set(records);
                }
                if let Some(seconds) = dead.oldest_seconds {
                    gauges.oldest_dead_letter.with_label_values(&labels).set(seconds);
                }
            }
        }
        for ((kind, namespace, name, type_), reason) in troubles.into_iter().take(TROUBLES_MAX) {
            gauges.trouble.with_label_values(&[kind, &namespace, &name, &type_, &reason]).set(1);
        }
    }
}

impl Collector for Resources {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let Ok(gauges) = Gauges::new() else { return Vec::new() };
        self.read(&gauges);
        gauges.all().into_iter().flat_map(Collector::collect).collect()
    }
}

/// Whether a condition says that something waits or is wrong.
fn is_trouble(found: &Condition) -> bool {
    let is_good = match found.type_.as_str() {
        condition::READY | condition::QUORUM_HEALTHY => found.status == "True",
        condition::RECONCILING | condition::RESET_COMPLETE | condition::PAUSED => true,
        _ => found.status != "True",
    };
    !is_good
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::crd::{Cluster, Topic};

    fn text(metrics: &Metrics) -> String {
        let mut lines = Vec::new();
        for family in metrics.registry().gather() {
            for metric in family.get_metric() {
                let labels: Vec<&str> = metric.get_label().iter().map(|label| label.value()).collect();
                lines.push(format!("{} {}", family.name(), labels.join(" ")));
            }
        }
        lines.join("\n")
    }

    fn topic(name: &str, conditions: &serde_json::Value) -> Topic {
        let topic = json!({
            "apiVersion": "taffrail.dev/v1alpha1", "kind": "Topic",
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"clusterRef": {"name": "log"}},
            "status": {"conditions": conditions},
        });
        serde_json::from_value(topic).unwrap()
    }

    fn said(type_: &str, status: &str, reason: &str) -> serde_json::Value {
        let at = "2026-01-01T00:00:00Z";
        json!({"type": type_, "status": status, "reason": reason, "message": "", "lastTransitionTime": at})
    }

    #[test]
    fn resources_are_counted_and_those_in_trouble_named() {
        let caches = Arc::new(Caches::default());
        caches.topics.put(topic("good", &json!([said("Ready", "True", "Serving")])));
        caches.topics.put(topic("new", &json!([])));
        let bad = [said("Ready", "False", "NotAllowed"), said("Stalled", "True", "NotAllowed")];
        caches.topics.put(topic("bad", &json!(bad)));
        let dead = json!({
            "apiVersion": "taffrail.dev/v1alpha1", "kind": "ConsumerGroup",
            "metadata": {"name": "billing", "namespace": "shop"},
            "spec": {"clusterRef": {"name": "log"}},
            "status": {"deadLetters": [
                {"topic": "dead", "exists": true, "records": 3, "oldestSeconds": 60},
                {"topic": "none-yet", "exists": false},
            ]},
        });
        caches.groups.put(serde_json::from_value(dead).unwrap());
        let mut cluster = Cluster::new("log", serde_json::from_value(json!({})).unwrap());
        cluster.metadata.namespace = Some("shop".to_owned());
        caches.clusters.put(cluster);
        let metrics = Metrics::new(caches).unwrap();
        metrics.note(PassOf::Cluster, Outcome::Failed, Duration::from_millis(3));
        let told = text(&metrics);
        for line in [
            "taffrail_operator_passes_total Cluster failed",
            "taffrail_operator_resources Topic True Serving",
            "taffrail_operator_resources Topic False NotAllowed",
            "taffrail_operator_resources Topic  ",
            "taffrail_operator_trouble Ready Topic bad shop NotAllowed",
            "taffrail_operator_trouble Stalled Topic bad shop NotAllowed",
            "taffrail_operator_orphans log shop",
            "taffrail_operator_dead_letter_records billing shop dead",
            "taffrail_operator_dead_letter_oldest_seconds billing shop dead",
        ] {
            assert!(told.lines().any(|found| found == line), "{line} is not in\n{told}");
        }
        assert!(!told.contains("good") && !told.contains("none-yet"), "{told}");
    }

    #[test]
    fn every_metric_is_on_the_page() {
        const PAGE: &str = include_str!("../../../docs/kubernetes.md");
        let metrics = Metrics::new(Arc::default()).unwrap();
        let descriptions = Resources::new(Arc::default()).unwrap().descriptions;
        let counted = [metrics.passes.desc(), metrics.seconds.desc(), metrics.leads.desc()].concat();
        for description in descriptions.iter().chain(counted) {
            assert!(PAGE.contains(&format!("`{}`", description.fq_name)), "{} is not on the page", description.fq_name);
        }
    }
}
