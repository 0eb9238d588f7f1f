//! What a pass did and found, in words for the log.

use taffrail_core::control::ControlError;

use crate::crd::TopicStatus;
use crate::crd::parts::condition;
use crate::reconcile::topic::{Action, ConfigChange};

/// What a pass did and found.
#[derive(Clone, Debug, Default)]
pub struct Pass {
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

    fn log(&self) {
        let name = &self.name;
        if let Some(error) = &self.error {
            tracing::error!(topic = name, %error, "the topic is not as its resource says");
            return;
        }
        for action in &self.actions {
            match action {
                Action::Create { .. } => {
                    let partitions = self.status.partitions.unwrap_or_default();
                    tracing::info!(topic = name, partitions, "topic created");
                }
                Action::Grow { partitions } => tracing::info!(topic = name, partitions, "partitions added"),
                Action::Configure { changes } => {
                    let names: Vec<&str> = changes.iter().map(|change| change.name.as_str()).collect();
                    tracing::info!(topic = name, settings = names.join(","), "settings changed");
                }
                Action::Delete => tracing::info!(topic = name, "topic deleted, as its resource's deletionPolicy says"),
            }
        }
        if self.kept() && self.status.topic_id.is_some() {
            tracing::info!(topic = name, "the topic stays without its resource (deletionPolicy: Retain)");
        }
        let troubles = self.status.conditions.iter();
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
            let names: Vec<&str> = self.settings_changed.iter().map(|change| change.name.as_str()).collect();
            tracing::info!(settings = names.join(","), "settings of the cluster changed");
        }
        if !self.settings_waiting.is_empty() && self.settings_waiting != before.settings_waiting {
            tracing::warn!(settings = self.settings_waiting.join(","), "these settings wait for a restart");
        }
        for topic in &self.topics {
            let same = before.topics.iter().any(|earlier| earlier.name == topic.name && earlier.same(topic));
            if !same {
                topic.log();
            }
        }
        let new: Vec<&str> =
            self.orphans.iter().filter(|name| !before.orphans.contains(name)).map(String::as_str).collect();
        if !new.is_empty() {
            tracing::info!(topics = new.join(","), "topics without a resource (orphans): they stay");
        }
    }
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
