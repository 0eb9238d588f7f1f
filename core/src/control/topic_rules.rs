//! The two settings of a topic that decide who may lead its partitions.

use std::sync::Arc;

use crate::config::{self, BrokerLayers, Overrides, Scope};
use crate::event::ConfigResource;
use crate::ids::TopicId;
use crate::image::{MetadataImage, TopicImage};

/// The setting that says how many replicas must be in sync.
pub(super) const MIN_IN_SYNC: &str = "min.insync.replicas";
/// The setting that says whether a replica that may lack records leads rather than none.
pub(super) const UNCLEAN: &str = "unclean.leader.election.enable";

/// What counts for one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopicRules {
    /// Its `min.insync.replicas`; see [`PartitionState::min_in_sync`](crate::event::PartitionState::min_in_sync).
    pub(super) min_in_sync: usize,
    /// Whether a replica that may lack committed records leads rather than none (`unclean.leader.election.enable`).
    pub(super) unclean: bool,
}

/// What counts for topics without settings of their own. Resolved once a decision: a failover asks for every topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct DefaultRules(TopicRules);

impl DefaultRules {
    /// The defaults of the cluster, with `static_config` below what the metadata set.
    pub(super) fn resolve(image: &MetadataImage, static_config: &Overrides) -> Self {
        let layers = image.broker_layers(None, static_config);
        let rules = TopicRules { min_in_sync: 1, unclean: false };
        let default = |name| default_of(&layers, name);
        Self(rules.overridden(default(MIN_IN_SYNC).as_deref(), default(UNCLEAN).as_deref()))
    }

    /// What counts for one partition after the other: looks a topic up once for all of its partitions that come in a row.
    pub(super) fn in_a_row(self) -> impl FnMut(&MetadataImage, &TopicImage) -> TopicRules {
        let mut last: Option<(TopicId, TopicRules)> = None;
        move |image, topic| match last {
            Some((id, rules)) if id == topic.id => rules,
            _ => {
                let rules = self.of(image, &topic.name);
                last = Some((topic.id, rules));
                rules
            }
        }
    }

    /// What counts for `topic`.
    pub(super) fn of(self, image: &MetadataImage, topic: &Arc<str>) -> TopicRules {
        match image.overrides(&ConfigResource::topic(Arc::clone(topic))) {
            None => self.0,
            Some(own) => {
                self.0.overridden(own.get(MIN_IN_SYNC).map(String::as_str), own.get(UNCLEAN).map(String::as_str))
            }
        }
    }
}

fn default_of(layers: &BrokerLayers, name: &str) -> Option<String> {
    layers.topic_default(config::find(Scope::Topic, name)?)
}

impl TopicRules {
    /// The rules with these settings where they are given. They were checked when they were set.
    fn overridden(self, min_in_sync: Option<&str>, unclean: Option<&str>) -> Self {
        Self {
            min_in_sync: min_in_sync.and_then(|text| text.trim().parse().ok()).unwrap_or(self.min_in_sync),
            unclean: unclean.and_then(config::parse_boolean).unwrap_or(self.unclean),
        }
    }
}
