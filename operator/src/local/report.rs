//! What a pass did and found, in words for the log.

use std::collections::BTreeSet;

use taffrail_core::control::ControlError;

use crate::crd::TopicStatus;
use crate::crd::parts::condition;
use crate::crd::reasons::Reason;
use crate::reconcile::topic::{Action, ConfigChange};

/// Topics that one line names at most.
const NAMES_MAX: usize = 10;

/// What a pass did and found.
#[derive(Clone, Debug, Default)]
pub struct Pass {
    /// Whether the files say what they said at the pass before: what differs was changed behind them.
    pub files_unchanged: bool,
    /// Settings of all brokers that were changed.
    pub settings_changed: Vec<ConfigChange>,
    /// Settings that wait for a restart.
    pub settings_waiting: Vec<String>,
    /// What the controllers say against the settings.
    pub cluster_refused: Option<String>,
    /// Each topic that has a resource, or had one until now.
    pub topics: Vec<TopicReport>,
    /// Topics without a resource.
    pub orphans: Vec<String>,
}

/// What a pass did to a topic and found.
#[derive(Clone, Debug)]
pub struct TopicReport {
    /// Its name.
    pub name: String,
    /// Whether it has a resource; otherwise it had one until now.
    pub wanted: bool,
    /// What was done, or tried.
    pub actions: Vec<Action>,
    /// Its status as a resource would show it.
    pub status: TopicStatus,
    /// What the controllers say against it.
    pub error: Option<ControlError>,
}

impl TopicReport {
    /// Whether its resource went and it stays.
    pub fn kept(&self) -> bool {
        !self.wanted && (self.error.is_some() || !self.actions.contains(&Action::Delete))
    }

    /// Whether it is as its resource says.
    pub fn ready(&self) -> bool {
        self.status.conditions.iter().any(|found| found.type_ == condition::READY && found.status == "True")
    }

    /// Logs what was done and found; `undone` = it was changed behind its resource, and is set right.
    fn log(&self, undone: bool) {
        let name = &self.name;
        if let Some(error) = &self.error {
            tracing::error!(topic = name, %error, "the topic is not as its resource says");
            return;
        }
        for action in &self.actions {
            match action {
                Action::Create { partitions, .. } => {
                    let partitions = self.status.partitions.or(*partitions).map(tracing::field::display);
                    let again = if undone { " again: it was deleted behind its resource" } else { "" };
                    tracing::info!(topic = name, partitions, "topic created{again}");
                }
                Action::Assign { partitions } => {
                    tracing::info!(topic = name, partitions = partitions.len(), "partitions move");
                }
                Action::Grow { partitions, .. } => tracing::info!(topic = name, partitions, "partitions added"),
                Action::Replicate { replicas } => tracing::info!(topic = name, replicas, "replicas change"),
                Action::Configure { changes } => {
                    let settings = listed(changes, changes.len());
                    let back = if undone { " back: they were changed behind the topic's resource" } else { "" };
                    tracing::info!(topic = name, settings, "settings changed{back}");
                }
                Action::Delete => tracing::info!(topic = name, "topic deleted, as its resource's deletionPolicy says"),
            }
        }
        if self.kept() && self.status.topic_id.is_some() {
            tracing::info!(topic = name, "the topic stays without its resource (deletionPolicy: Retain)");
        }
        // What was asked for a moment ago is no trouble.
        let troubles =
            self.status.conditions.iter().filter(|found| self.wanted && found.reason != Reason::Creating.name());
        for found in troubles.filter(|found| (found.type_ == condition::READY) != (found.status == "True")) {
            let (type_, status, reason) = (&found.type_, &found.status, &found.reason);
            tracing::warn!(topic = name, condition = type_, status, reason, "{}", found.message);
        }
    }
}

impl Pass {
    /// Logs what is new since `before`.
    pub fn log(&self, before: &Self) {
        if let Some(error) = &self.cluster_refused {
            tracing::error!(error, "the cluster's settings are not as its resource says");
        } else if !self.settings_changed.is_empty() {
            let settings = listed(&self.settings_changed, self.settings_changed.len());
            let undone = self.files_unchanged && before.cluster_refused.is_none();
            let back = if undone { " back: they were changed behind its resource" } else { "" };
            tracing::info!(settings, "settings of the cluster changed{back}");
        }
        if !self.settings_waiting.is_empty() && self.settings_waiting != before.settings_waiting {
            tracing::warn!(settings = self.settings_waiting.join(","), "these settings wait for a restart");
        }
        for topic in &self.topics {
            let earlier = before.topics.iter().find(|earlier| earlier.name == topic.name);
            if !earlier.is_some_and(|earlier| earlier.same(topic)) {
                topic.log(self.files_unchanged && earlier.is_some_and(|earlier| earlier.error.is_none()));
            }
        }
        let known: BTreeSet<&String> = before.orphans.iter().collect();
        let new: Vec<&String> = self.orphans.iter().filter(|name| !known.contains(name)).collect();
        if !new.is_empty() {
            let topics = listed(&new, NAMES_MAX);
            tracing::info!(count = new.len(), topics, "topics without a resource (orphans): they stay");
        }
    }
}

/// The first `max` of these in one text, and how many more there are.
fn listed(items: &[impl ToString], max: usize) -> String {
    let mut shown: Vec<String> = items.iter().take(max).map(ToString::to_string).collect();
    if items.len() > max {
        shown.push(format!("and {} more", items.len() - max));
    }
    shown.join(", ")
}

impl TopicReport {
    /// Whether there is nothing new to say after `later`.
    fn same(&self, later: &Self) -> bool {
        let conditions = |report: &Self| -> Vec<(String, String, String)> {
            let conditions = report.status.conditions.iter();
            conditions.map(|found| (found.type_.clone(), found.status.clone(), found.message.clone())).collect()
        };
        later.actions.is_empty()
            && self.wanted == later.wanted
            && self.error == later.error
            && conditions(self) == conditions(later)
    }
}
