//! The two settings of a topic that decide who may lead its partitions.

use std::sync::Arc;

use crate::config::{self, BrokerLayers, Overrides, Scope};
use crate::event::{BrokerRegistration, ConfigResource};
use crate::ids::TopicId;
use crate::image::{MetadataImage, TopicImage};

/// The setting that says how many replicas must be in sync.
pub(super) const MIN_IN_SYNC: &str = "min.insync.replicas";
/// The setting that says whether a replica that may lack records leads rather than none.
pub(super) const UNCLEAN: &str = "unclean.leader.election.enable";

/// What counts for one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TopicRules {
    /// Its `min.insync.replicas`; see [`PartitionState::min_in_sync`](crate::event::PartitionState::min_in_sync). Where brokers
    /// have different ones, the least: a leader may have committed with no more than that in sync.
    pub(super) min_in_sync: usize,
    /// The same where brokers have different ones, the most: with so many in sync no leader refuses what producers send.
    pub(super) strictest_min_in_sync: usize,
    /// Whether a replica that may lack committed records leads rather than none (`unclean.leader.election.enable`).
    pub(super) unclean: bool,
}

/// What counts for topics without settings of their own. Resolved once a decision: a failover asks for every topic.
#[derive(Debug, Clone, Copy)]
pub(super) struct DefaultRules(TopicRules);

impl DefaultRules {
    /// The defaults of the cluster, with `static_config` below what the metadata set. How many replicas must be in sync is
    /// decided by the leader, so what counts is what each broker was started with, if it said so when it registered.
    pub(super) fn resolve(image: &MetadataImage, static_config: &Overrides) -> Self {
        let layers = image.broker_layers(None, static_config);
        let unclean = default_of(&layers, UNCLEAN).as_deref().and_then(config::parse_boolean).unwrap_or(false);
        let (of_all, otherwise) = (count(layers.dynamic_default.get(MIN_IN_SYNC)), layers.min_in_sync());
        let otherwise = otherwise.and_then(|minimum| usize::try_from(minimum).ok()).unwrap_or(1);
        // None is set for one broker: that is refused.
        let of_broker = |broker: &Arc<BrokerRegistration>| {
            let started_with = || broker.min_in_sync.and_then(|minimum| usize::try_from(minimum).ok());
            of_all.or_else(started_with).unwrap_or(otherwise)
        };
        let minima = || image.brokers().values().map(of_broker);
        let without_brokers = of_all.unwrap_or(otherwise);
        Self(TopicRules {
            min_in_sync: minima().min().unwrap_or(without_brokers),
            strictest_min_in_sync: minima().max().unwrap_or(without_brokers),
            unclean,
        })
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
            Some(own) => self.0.overridden(own),
        }
    }
}

fn count(text: Option<&String>) -> Option<usize> {
    text?.trim().parse().ok()
}

fn default_of(layers: &BrokerLayers, name: &str) -> Option<String> {
    layers.topic_default(config::find(Scope::Topic, name)?)
}

impl TopicRules {
    /// The rules with a topic's own settings, which were checked when they were set.
    fn overridden(self, own: &Overrides) -> Self {
        let minimum = count(own.get(MIN_IN_SYNC));
        Self {
            min_in_sync: minimum.unwrap_or(self.min_in_sync),
            strictest_min_in_sync: minimum.unwrap_or(self.strictest_min_in_sync),
            unclean: own.get(UNCLEAN).map(String::as_str).and_then(config::parse_boolean).unwrap_or(self.unclean),
        }
    }
}
